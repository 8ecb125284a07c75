"""One pass of a plan: a fused sweep, its partition, and its I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from beam_volumes.base.geometry import Box, Grid, Lattice
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.nodes import Value
from beam_volumes.plan.cost.traffic import Read, of_all_slabs
from beam_volumes.plan.cut.passes import READ_COST, WRITE_COST
from beam_volumes.plan.cut.segments import describe_reads, has_device_code
from beam_volumes.plan.fit.partitioning import Partitioning
from beam_volumes.sweep.device import DEVICE, HOST, is_transfer, name_of
from beam_volumes.sweep.program import Edge, Program
from beam_volumes.sweep.stage import Regrid
from beam_volumes.sweep.survey import MergeSize


@dataclass(frozen=True, eq=False)
class Pass:
    """One fused sweep over a grid of slabs."""

    index: int
    program: Program  #: Sources, steps, folds and outputs.
    partition: Partitioning  #: Slab grid, window, and the peak memory of one slab.
    values: tuple[Value, ...]  #: Lazy scalars that the stages need, known when the pass starts.
    reads: tuple[Read, ...]  #: Reads of each source.
    bytes_written: int
    units_written: int
    limit_bytes: int = 0  #: Bytes that its surveys may keep of a slab.
    merge_limit_bytes: int = 0  #: Bytes that a step of their merges may hold.
    #: The plan of each slab, if slabs are time points: see `plan.points`.
    point: Any = None

    @property
    def of_all_points(self) -> tuple[str, ...]:
        """The numbers of all time points together, if slabs are time points."""
        return ()

    @cached_property
    def chunks_read(self) -> int:
        """Chunks read; arrays of this process have none."""
        return sum(r.units for r in self.reads if not r.in_memory)

    @cached_property
    def bytes_read(self) -> int:
        return sum(r.bytes for r in self.reads)

    @cached_property
    def bytes_needed(self) -> int:
        """Bytes of the chunks that are needed, each counted once."""
        return sum(r.bytes_needed for r in self.reads)

    @property
    def grid(self) -> Grid:
        return self.partition.grid

    @property
    def voxels(self) -> int:
        return math.prod(self.program.shape)

    @property
    def read_amplification(self) -> float:
        """Bytes read over `bytes_needed`."""
        return self.bytes_read / self.bytes_needed if self.bytes_needed else 1.0

    @property
    def slab_memory(self) -> int:
        return self.partition.memory

    @property
    def merges(self) -> dict[str, MergeSize]:
        """By survey, the bytes of the largest step of its merge, estimated before the sweep.

        The actual size is known after the pass; more than `merge_limit_bytes` is refused then.
        """
        return {b.survey.name: b.survey.merge_size(self.grid) for b in self.program.surveys}

    def to_dict(self) -> dict[str, Any]:
        """The pass's numbers as plain data."""
        return {
            "shape": list(self.program.shape),
            "slabs": len(self.grid),
            "slab": list(self.grid.step),
            "window": self.partition.window,
            "overlap": self.partition.overlap._asdict(),
            "stages": [
                s.name for s in self.program.steps if s.source is None and not is_transfer(s)
            ],
            "sources": [s.name for s in self.program.steps if s.source is not None],
            "folds": [f.reduction.name for f in self.program.folds],
            "surveys": [b.survey.name for b in self.program.surveys],
            "merges": {name: asdict(size) for name, size in self.merges.items()},
            "limit_bytes": self.limit_bytes,
            "merge_limit_bytes": self.merge_limit_bytes,
            "outputs": [o.sink.name for o in self.program.outputs],
            "lattices": {
                o.sink.name: [list(o.lattice.start), list(o.lattice.step)]
                for o in self.program.outputs
                if o.lattice != Lattice(self.program.shape)
            },
            "slab_memory": self.slab_memory,
            "device_memory": self.partition.device_memory,
            "on_device": [found.name for found in _on_device(self.program)],
            "copied": dict(zip(("to_device", "from_device"), copied(self), strict=True)),
            "parts": {part.name: part.bytes for part in self.partition.parts},
            "chunks_read": self.chunks_read,
            "bytes_read": self.bytes_read,
            "read_amplification": self.read_amplification,
            "units_written": self.units_written,
            "bytes_written": self.bytes_written,
            "graph": self.graph(),
        }

    def graph(self) -> list[dict[str, Any]]:
        """Sources, stages, numbers, surveys and outputs, each with the indices of its inputs."""
        program = self.program
        found: list[dict[str, Any]] = []

        def add(kind: str, name: str, edges: Iterable[Edge]) -> None:
            found.append({"kind": kind, "name": name, "of": sorted({e.step for e in edges})})

        for step in program.steps:
            add("stage" if step.source is None else "source", name_of(step), step.edges)
        for fold in program.folds:
            fed = (e for f in fold.fed for e in (f.voxels, f.mask, *f.others) if e is not None)
            add("number", fold.reduction.name, fed)
        for surveyed in program.surveys:
            add("survey", surveyed.survey.name, surveyed.edges)
        for output in program.outputs:
            add("write", output.sink.name, [output.edge])
        return found


def compute_seconds(passes: Iterable[Pass]) -> float:
    """Nanoseconds of one core for all computations of passes."""
    return sum(
        p.voxels * sum(cost for cost, _ in _parts(p))
        if p.point is None
        else len(p.grid) * compute_seconds(p.point.passes)
        for p in passes
    )


def transfer_seconds(passes: Iterable[Pass]) -> float:
    """Nanoseconds of one core for all reads and writes of passes."""
    return sum(p.bytes_read * READ_COST + p.bytes_written * WRITE_COST for p in passes)


def swept(p: Pass) -> list[int]:
    """Per step of a pass: the voxels that all slabs compute of it, halos included."""
    if not len(p.grid):
        return [0] * len(p.program.steps)
    return of_all_slabs(p.program, p.grid, lambda _, regions: [b - a for a, b in regions], "voxels")


def copied(p: Pass) -> tuple[int, int]:
    """Bytes that all slabs copy to the device, and from it."""
    sizes = {DEVICE: 0, HOST: 0}
    if p.point is not None:
        return tuple(len(p.grid) * sum(n) for n in zip(*map(copied, p.point.passes), strict=True))
    if any(map(is_transfer, p.program.steps)):  # to count voxels takes long for many slabs
        for step, voxels in zip(p.program.steps, swept(p), strict=True):
            if is_transfer(step):
                sizes[step.place] += voxels * step.dtype.itemsize
    (nz, ny, nx), deep, window = p.grid.shape, p.grid.step[0], p.partition.window
    for half in p.program.halves_on_device:
        for z in range(0, nz, deep):
            planes = half.planes_copied(-(-min(deep, nz - z) // window))
            for place, number in zip((DEVICE, HOST), planes, strict=True):
                sizes[place] += 4 * ny * nx * number
    return sizes[DEVICE], sizes[HOST]


def describe_places(p: Pass) -> Iterator[str]:
    """Describe which stages run on the device, and why others do not."""
    program = p.program
    stages = [s for s in program.steps if s.source is None and not is_transfer(s)]
    there = _on_device(program)
    places: dict[str, list[Any]] = {
        "on the device": there,
        "on the host, where they take less time than the copies": [
            s for s in stages if s.place == HOST and has_device_code(program, s)
        ],
        "on the host, without device code": [s for s in stages if not has_device_code(program, s)],
    }
    for place, named in places.items():
        if named:
            line = f"{place}: {', '.join(dict.fromkeys(s.name for s in named))}"
            if named is there:
                to, back = map(format_bytes, copied(p))
                line += f"; {to} are copied to it, {back} from it"
            yield line
    yield from describe_reads(program)


def _on_device(program: Program) -> list[Any]:
    """Everything that is computed on a device."""
    steps = [
        s for s in program.steps if s.place == DEVICE and s.source is None and not is_transfer(s)
    ]
    reductions = [f.reduction for f in program.folds_on_device]
    return [*steps, *reductions, *program.surveys_on_device]


def serial_share(passes: Iterable[Pass]) -> float:
    """The share of computing that one thread of a slab does while the others wait."""
    passes = list(passes)
    total = compute_seconds(passes)
    serial = sum(p.voxels * cost * share for p in passes for cost, share in _parts(p))
    return serial / total if total else 0.0


def _parts(p: Pass) -> Iterator[tuple[float, float]]:
    """Nanoseconds per voxel of each computation of a pass, and the serial share of it."""
    for step in p.program.steps:
        if step.stage is not None:
            yield step.stage.cost, 0.0
        if step.completion is not None:
            yield step.completion.cost, step.completion.serial
    for surveyed in p.program.surveys:
        yield surveyed.survey.cost, surveyed.survey.serial
    for fold in p.program.folds:
        yield fold.reduction.cost, 0.0


def pieces(p: Pass, index: int) -> int:
    """The number of patches that all slabs of a pass compute for a step; 0 without patches."""
    return in_pieces(p.program, p.grid, index)


def in_pieces(program: Program, grid: Grid, index: int) -> int:
    """The number of patches of a step in all slabs of a program."""
    stage = program.steps[index].stage
    if stage is None or not stage.piece or not len(grid):
        return 0
    (count,) = of_all_slabs(
        program, grid, lambda axis, regions: [stage.pieces(axis, regions[index])]
    )
    return count


def describe_patches(p: Pass, index: int, timed: bool, threads: int) -> str:
    """Describe the patches of a step: their number, the share that is kept, and their time."""
    stage, count = p.program.steps[index].stage, pieces(p, index)
    if stage is None or not count:
        return ""
    whole = Box.of_shape(p.grid.shape).ranges
    regions = [p.program.regions(a, whole)[index] for a in range(3)]
    kept: float = math.prod(b - a for a, b in regions)
    if isinstance(stage, Regrid):
        kept *= math.prod(stage.of) / math.prod(stage.grid)
    share = kept / (count * stage.piece_voxels)
    text = f"{count:,} {stage.piece}, {100 * share:.0f} % of their voxels are kept"
    if timed and (seconds := stage.seconds(threads)) is not None:
        text += f"; about {count * seconds:,.1f} s, by one that took {seconds:.3g} s"
    return text
