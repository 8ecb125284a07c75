"""Predicted memory of a run: of a machine, of a process, and of a slab part by part.

Each part reports its own needs: a stage its scratch, a reduction its states, a survey its results,
a format its buffers for reading and writing. Only this module adds them up.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal, TypeAlias

from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.cache import is_cached, note_cached
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.cost.rings import Rings, largest_rings, rings_of_planes
from beam_volumes.storage.outputs.overhead import read_overhead_bytes, write_overhead_bytes
from beam_volumes.sweep.device import (
    DEVICE,
    DRIVER_BYTES,
    HOST,
    allocated,
    is_transfer,
    slices_of_piece,
)
from beam_volumes.sweep.direct import BUFFERS, KVIKIO_BYTES
from beam_volumes.sweep.program import Edge, Program
from beam_volumes.sweep.resources import aligned
from beam_volumes.sweep.schedule import Overlap
from beam_volumes.sweep.survey import windows_of

#: Resident bytes of a process with our imports and numba's compiler, measured in fresh processes on
#: Linux (Python 3.11, numba 0.68, apache-beam 2.77); the second with Beam and a runner on top.
BASE_WITHOUT_BEAM = 214 << 20
BASE_BEAM = 320 << 20
#: A process of a pipeline on this machine; it shares this machine's cache of compiled kernels.
LOCAL_PIPELINE: Final = "local pipeline"
Base: TypeAlias = int | Literal["local pipeline"] | None
#: Bytes added by compiling one kernel for one combination of dtypes.
BASE_KERNEL = 32 << 20

#: Bytes of a `LOCAL_PIPELINE` process with all libraries and no kernel, measured as above like the
#: next.
_LOCAL = 216 << 20
#: Bytes added by a run, by the first kernel, by the compiler, and by a kernel from the cache.
_RUNNING, _LLVM, _COMPILER, _CACHED_KERNEL = 8 << 20, 4 << 20, 28 << 20, 3 << 20
#: Bytes of numba's libraries, which are loaded with the first kernel, and the name of one of them.
_NUMBA, _NUMBA_MODULE = 20 << 20, "numba.np.arrayobj"
#: Bytes of the libraries for tables, and the name that represents them in lists of kernels.
_TABLES_BYTES, TABLES = 36 << 20, "tables"
#: The memory of this process is rounded up to a multiple, so that similar plans are equal.
_ROUNDED = 4 << 20

#: Bytes of the kernels that this process has used so far.
_used: dict[str, int] = {}


@dataclass(frozen=True)
class _Process:
    """The memory of a process before it runs anything, in bytes."""

    own: int  #: Its current memory, and the memory that a run adds.
    numba: int  #: Bytes that numba's libraries will add.
    maximum: int  #: An upper limit without compiled kernels.


@cache
def _this_process() -> _Process:
    """Measure this process at its first plan; memory beyond our own maximum is not counted."""
    memory_now = min(machine.resident_memory(), BASE_WITHOUT_BEAM - _NUMBA - _LLVM - _COMPILER)
    return _Process(
        -(-memory_now // _ROUNDED) * _ROUNDED + _RUNNING,
        0 if _NUMBA_MODULE in sys.modules else _NUMBA,
        BASE_WITHOUT_BEAM,
    )


def of_base(base: Base, kernels: Collection[str]) -> int:
    """Return the memory of a process with all its kernels, without voxels.

    ``base``: without kernels; None measures this process. ``kernels``: operations with dtypes.
    """
    compiled = BASE_KERNEL * sum(k != TABLES for k in kernels)
    if isinstance(base, int):
        return base + compiled
    process = _this_process() if base is None else _Process(_LOCAL, 0, BASE_BEAM)
    used = _used if base is None else {}
    taken = {k: used.get(k) or _kernel_bytes(k) for k in kernels} | used
    first = process.numba + _LLVM if taken.keys() - {TABLES} else 0
    compiler = _COMPILER if BASE_KERNEL in taken.values() else 0
    # A kernel keeps less memory than its compilation needed, so the sum may be too high.
    total = process.own + first + compiler + sum(taken.values())
    return min(total, process.maximum + compiled)


def _kernel_bytes(kernel: str) -> int:
    if kernel == TABLES:
        return _TABLES_BYTES
    return _CACHED_KERNEL if is_cached(kernel) else BASE_KERNEL


def note_used(kernels: Collection[str]) -> None:
    """Note that this process has used kernels; they stay loaded and are in the cache now."""
    new = [k for k in kernels if k not in _used]
    _used.update({k: _kernel_bytes(k) for k in new})
    note_compiled(new)


def note_compiled(kernels: Collection[str]) -> None:
    """Note that kernels are in the cache of this machine now."""
    note_cached(k for k in kernels if k != TABLES)


@dataclass(frozen=True)
class MemoryItem:
    """One contribution to a sweep's peak memory."""

    name: str
    bytes: int
    #: Bytes reserved at minimum for results that depend on the voxels; 0 for other items.
    minimum: int = 0
    likely: int = 0  #: Bytes that it may well need, if more: see `Partitioning.grown`.
    place: str = HOST  #: The memory that it takes: the host's or a device's.
    is_answer: bool = False  #: Whether it grows with the results of an earlier pass.


def of_machine(base: int, slab: int, concurrency: Concurrency) -> int:
    """Bytes of all processes, ``base`` each, and of all slabs in flight."""
    return concurrency.processes * base + concurrency.workers * slab


def of_process(base: int, slab: int, concurrency: Concurrency) -> int:
    """Bytes of one process and the slabs in flight in it."""
    return base + concurrency.sweeps * slab


def left_for_slab(total: int, base: int, concurrency: Concurrency) -> int:
    """Bytes that each slab in flight may take: the inverse of `of_machine`."""
    return (total - concurrency.processes * base) // concurrency.workers


def of_slab(
    program: Program, grid: Grid, window: int, overlap: Overlap, concurrency: Concurrency
) -> tuple[MemoryItem, ...]:
    """The peak memory of the largest slab of a grid, part by part."""
    if len(grid) == 0:
        return ()
    rings = largest_rings(program, grid, window, overlap)
    slab = _Slab(program, grid, window, concurrency, rings)
    items = (
        *slab.rings_of_steps(),
        *slab.answers(),
        *slab.found(),
        *_states_of_folds(program, concurrency.threads),
        *slab.device_states(),
        slab.scratch(),
        slab.device_scratch(),
        slab.driver(),
        slab.staging(),
        *slab.direct_reads(),
        slab.decoding(),
        slab.encoding(),
    )
    return tuple(_as_allocated(item) for item in items if item.bytes)


def _as_allocated(item: MemoryItem) -> MemoryItem:
    return item if item.place == HOST else replace(item, bytes=allocated(item.bytes))


def of_merge(
    program: Program, grid: Grid, sweep: Sequence[MemoryItem], threads: int
) -> tuple[MemoryItem, ...]:
    """The peak memory of a step of the merges after a sweep: the step, then memory that is in use.

    The rings and the chunks of the sweep are free by then. Reductions keep their states. With a network,
    which stays in the process, all memory of the sweep counts.
    """
    if len(grid) == 0 or not program.surveys:
        return ()
    if any(s.stage is not None and s.stage.holds for s in program.steps):
        kept = [item for item in sweep if not item.minimum and item.place == HOST]
    else:
        kept = list(_states_of_folds(program, threads))
    sizes = [(s.survey.merge_size(grid), s.survey.name) for s in program.surveys]
    certain = max(size.certain for size, _ in sizes)
    expected, name = max((max(size.expected, size.certain), name) for size, name in sizes)
    return (MemoryItem(f"{name} (a step of its merge)", certain, certain, expected), *kept)


def _states_of_folds(program: Program, threads: int) -> Iterator[MemoryItem]:
    for fold in program.folds:
        peak = fold.reduction.peak_bytes(threads)
        yield MemoryItem(f"{fold.reduction.name} (state)", peak)


@dataclass(frozen=True)
class _Slab:
    program: Program
    grid: Grid
    window: int
    concurrency: Concurrency
    rings: Rings

    @property
    def shape(self) -> Triple:
        """The shape of its core."""
        return self.grid.step

    def rings_of_steps(self) -> Iterator[MemoryItem]:
        """Slices of each step: for a window, and room for overlap."""
        for i, step in enumerate(self.program.steps):
            depth = self.rings.slices[i] + self.program.constant_slice(i)
            rows, cols = self.rings.rows[i], self.rings.cols[i]
            name = f"{step.name} ({depth} slices of {rows} x {cols} {step.dtype})"
            size = aligned(depth * rows * cols * step.dtype.itemsize)
            yield MemoryItem(name, size, place=step.place)
            if step.stage is not None:
                kept = step.stage.kept_bytes(rows, cols)
                yield MemoryItem(f"{step.name} (kept from window to window)", kept)

    def answers(self) -> Iterator[MemoryItem]:
        """Bytes that completions keep of the answers."""
        for i, step in enumerate(self.program.steps):
            if step.completion is not None:
                shape = (self.shape[0], self.rings.rows[i], self.rings.cols[i])
                kept = step.completion.state_bytes(shape, self._windows)
                likely = step.completion.likely_bytes(shape, self._windows)
                grows = step.completion.grows
                yield MemoryItem(f"{step.name} (answer)", kept, likely=likely, is_answer=grows)

    def found(self) -> Iterator[MemoryItem]:
        """Bytes reserved for the results of surveys, which depend on the voxels."""
        for surveyed in self.program.surveys:
            region = self.program.surveyed_shape(surveyed.survey.upper, self.shape)
            minimum = surveyed.survey.state_bytes(region, self._windows)
            likely = surveyed.survey.likely_bytes(region, self._windows)
            yield MemoryItem(f"{surveyed.survey.name} (results)", minimum, minimum, likely)

    def scratch(self) -> MemoryItem:
        """The largest scratch of a stage, completion or survey; they run one after the other."""
        one_at_a_time = (
            *self._scratch_of_stages(),
            *self._scratch_of_completions(),
            *self._scratch_of_surveys(),
        )
        size, name = max(one_at_a_time, default=(0, "a stage"))
        return MemoryItem(f"scratch of {name}", size)

    def device_states(self) -> Iterator[MemoryItem]:
        """States of reductions, surveys and completions in device memory."""
        for fold in self.program.folds_on_device:
            name = f"{fold.reduction.name} (state on the device)"
            yield MemoryItem(name, 8 * fold.reduction.cells, place=DEVICE)
        for name, plane, number in self._planes_there():
            yield MemoryItem(f"{name} (planes on the device)", number * plane + 8, place=DEVICE)

    def _planes_there(self) -> Iterator[tuple[str, int, int]]:
        """Of surveys and completions on the device: name, bytes of a plane, number of planes."""
        for half in self.program.halves_on_device:
            _, rows, cols = self.program.surveyed_shape(half.upper, self.shape)
            if half.planes_there:
                yield half.name, 4 * rows * cols, half.planes_there

    def device_scratch(self) -> MemoryItem:
        """The largest scratch of a stage or survey in device memory."""
        rings = zip(self.rings.rows, self.rings.cols, self.rings.new, strict=True)
        found = [
            (step.stage.device_scratch(*shape), step.name)
            for step, shape in zip(self.program.steps, rings, strict=True)
            if step.stage is not None and step.place == DEVICE
        ]
        for survey in self.program.surveys_on_device:
            depth, rows, cols = self.program.surveyed_shape(survey.upper, self.shape)
            size = survey.device_scratch(rows, cols, min(self.window, depth))
            found.append((size, survey.name))
        size, name = max(found, default=(0, "a stage"))
        return MemoryItem(f"scratch of {name} on the device", size, place=DEVICE)

    def driver(self) -> MemoryItem:
        """Memory of a device that no array takes."""
        size = DRIVER_BYTES if self.program.uses_device else 0
        return MemoryItem("code and stacks of kernels on the device", size, place=DEVICE)

    def staging(self) -> MemoryItem:
        """Pinned host memory for the slices that are copied to and from the device."""
        planes = [plane for _, plane, _ in self._planes_there()]
        each_way = {DEVICE: [0, *planes], HOST: [0, *planes]}
        for i, step in enumerate(self.program.steps):
            if is_transfer(step):
                at = i if step.place == DEVICE else step.edges[0].step
                plane = self.rings.rows[at] * self.rings.cols[at] * step.dtype.itemsize
                each_way[step.place].append(plane)
        pieces = (max(p * slices_of_piece(p) for p in planes) for planes in each_way.values())
        return MemoryItem("slices copied to and from the device", 2 * sum(pieces))

    def direct_reads(self) -> Iterator[MemoryItem]:
        """Chunks that are being read straight to the device, and kvikio's own buffers."""
        steps = (s for s in self.program.steps if s.place == DEVICE)
        direct = [(s.name, s.source.chunk_bytes) for s in steps if s.source is not None]
        for name, size in direct:
            yield MemoryItem(f"{name} (chunks being read)", BUFFERS * allocated(size), place=DEVICE)
        if direct:
            yield self._of_process("buffers of kvikio", KVIKIO_BYTES)

    def decoding(self) -> MemoryItem:
        """Chunks that are being read to the host, by one lane for the whole process."""
        steps = self.program.steps
        sources = [s.source for s in steps if s.source is not None and s.place == HOST]
        firsts = (self.program.steps[stack[0]].source for stack in self.program.stacks)
        stacks = [source for source in firsts if source is not None]
        size = read_overhead_bytes(sources, self.concurrency.threads, stacks)
        return self._of_process("decoding", size)

    def encoding(self) -> MemoryItem:
        """Units that are being written, likewise."""
        boxes = []
        for o in self.program.outputs:
            # The maximum voxels in a slab of this shape, in whole units.
            depth, rows, cols = (
                min(n, ((s + f - 1) // f + u - 1) // u * u)
                for n, s, f, u in zip(
                    o.lattice.shape, self.shape, o.lattice.step, o.unit, strict=True
                )
            )
            boxes.append((o.sink, (min(depth, o.unit[0]), rows, cols)))
        bytes_ = write_overhead_bytes(boxes, self.concurrency.threads, self.concurrency.sweeps)
        return self._of_process("encoding", bytes_)

    def _scratch_of_stages(self) -> Iterator[tuple[int, str]]:
        for i, step in enumerate(self.program.steps):
            if step.stage is not None and step.place == HOST:
                shape = (self.rings.new[i], self.rings.rows[i], self.rings.cols[i])
                yield step.stage.working_bytes(shape, self.concurrency.threads), step.name

    def _scratch_of_completions(self) -> Iterator[tuple[int, str]]:
        for i, step in enumerate(self.program.steps):
            if step.completion is not None:
                rows, cols = self.rings.rows[i], self.rings.cols[i]
                working = step.completion.working_bytes(
                    (self.rings.new[i], rows, cols), self._dtypes(step.edges)
                )
                yield working + self._gathered(step.edges, rows * cols), step.name

    def _scratch_of_surveys(self) -> Iterator[tuple[int, str]]:
        for surveyed in self.program.surveys:
            depth, rows, cols = self.program.surveyed_shape(surveyed.survey.upper, self.shape)
            working = surveyed.survey.working_bytes(
                (min(self.window, depth), rows, cols), self._dtypes(surveyed.edges)
            )
            yield working + self._gathered(surveyed.edges, rows * cols), surveyed.survey.name

    @property
    def _windows(self) -> int:
        return windows_of(self.shape, self.window)

    def _dtypes(self, edges: Sequence[Edge]) -> tuple:
        return tuple(self.program.steps[e.step].dtype for e in edges)

    def _gathered(self, edges: Sequence[Edge], plane: int) -> int:
        """Bytes of windows that are copied because they are not contiguous arrays."""
        return sum(
            self.rings.copied[e.step] * plane * self.program.steps[e.step].dtype.itemsize
            for e in edges
        )

    def _of_process(self, name: str, size: int) -> MemoryItem:
        """A slab's share of memory that a process has once."""
        shared = "" if self.concurrency.sweeps == 1 else ", shared by the slabs of a process"
        return MemoryItem(f"{name}{shared}", self.concurrency.share(size))


def lower_bound(program: Program, slab: Triple, window: int, concurrency: Concurrency) -> int:
    """A quick lower bound of a slab's peak memory, without a schedule: from halos, or results and buffers."""
    grid = Grid(program.shape, slab)
    box = grid.box(0)
    middle = min(program.shape[0] - 1, box.stop[0] // 2)
    _, y, x = box.ranges
    depths, rows, cols = (program.regions(a, ((middle, middle + 1), y, x)) for a in range(3))
    halos = sum(
        (z[1] - z[0]) * (y[1] - y[0]) * (x[1] - x[0]) * step.dtype.itemsize
        for step, z, y, x in zip(program.steps, depths, rows, cols, strict=True)
        if step.source is None and step.place == HOST
    )
    planes = _Slab(program, grid, window, concurrency, rings_of_planes(program, grid))
    items = (
        *planes.answers(),
        *planes.found(),
        *_states_of_folds(program, concurrency.threads),
        planes.decoding(),
        planes.encoding(),
    )
    return max(halos // 2, sum(item.bytes for item in items))
