"""One pass of a plan: a fused sweep, its partition, and what it reads and writes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from beam_volumes.base.geometry import Grid, Lattice
from beam_volumes.graph.nodes import Value
from beam_volumes.plan.cost.traffic import Read
from beam_volumes.plan.fit.partitioning import Partitioning
from beam_volumes.sweep.program import Edge, Program


@dataclass(frozen=True, eq=False)
class Pass:
    """One fused sweep over a grid of slabs."""

    index: int
    program: Program  #: What is read, computed, folded and written.
    partition: Partitioning  #: Slab grid, window, and the peak memory of one slab.
    values: tuple[Value, ...]  #: Lazy scalars the stages need, known when the pass starts.
    reads: tuple[Read, ...]  #: What is read, source by source.
    bytes_written: int
    units_written: int
    #: Bytes that its surveys may keep of a slab; as much again a step of their merge may hold.
    limit_bytes: int = 0
    #: How each of its slabs is computed, if they are points in time: see `plan.points`.
    point: Any = None

    @property
    def of_all_points(self) -> tuple[str, ...]:
        """The numbers that it finds of all points in time together, if it has a slab for each."""
        return ()

    @property
    def chunks_read(self) -> int:
        """Arrays of this process are not read in chunks."""
        return sum(r.units for r in self.reads if not r.in_memory)

    @property
    def bytes_read(self) -> int:
        return sum(r.bytes for r in self.reads)

    @property
    def bytes_once(self) -> int:
        """Bytes of the chunks that are needed at all."""
        return sum(r.bytes_once for r in self.reads)

    @property
    def grid(self) -> Grid:
        return self.partition.grid

    @property
    def voxels(self) -> int:
        return math.prod(self.program.shape)

    @property
    def read_amplification(self) -> float:
        """Bytes read over `bytes_once`."""
        return self.bytes_read / self.bytes_once if self.bytes_once else 1.0

    @property
    def slab_memory(self) -> int:
        return self.partition.memory

    @property
    def merges(self) -> dict[str, int]:
        """By survey, the bytes that a step of its merge would hold at worst; known before anything is.

        What it will hold is known when the pass is done; more than `limit_bytes` is refused then.
        """
        return {b.survey.name: b.survey.most_load(self.grid) for b in self.program.surveys}

    def to_dict(self) -> dict[str, Any]:
        """The pass's numbers as plain data."""
        return {
            "shape": list(self.program.shape),
            "slabs": len(self.grid),
            "slab": list(self.grid.step),
            "window": self.partition.window,
            "overlap": self.partition.overlap._asdict(),
            "stages": [s.name for s in self.program.steps if s.source is None],
            "sources": [s.name for s in self.program.steps if s.source is not None],
            "folds": [f.reduction.name for f in self.program.folds],
            "surveys": [b.survey.name for b in self.program.surveys],
            "merges": self.merges,
            "limit_bytes": self.limit_bytes,
            "outputs": [o.sink.name for o in self.program.outputs],
            "lattices": {
                o.sink.name: [list(o.lattice.start), list(o.lattice.step)]
                for o in self.program.outputs
                if o.lattice != Lattice(self.program.shape)
            },
            "slab_memory": self.slab_memory,
            "parts": {part.name: part.bytes for part in self.partition.parts},
            "chunks_read": self.chunks_read,
            "bytes_read": self.bytes_read,
            "read_amplification": self.read_amplification,
            "units_written": self.units_written,
            "bytes_written": self.bytes_written,
            "graph": self.graph(),
        }

    def graph(self) -> list[dict[str, Any]]:
        """What is read, computed, found out and written, each with the numbers of what it takes."""
        program = self.program
        found: list[dict[str, Any]] = []

        def add(kind: str, name: str, edges: Iterable[Edge]) -> None:
            found.append({"kind": kind, "name": name, "of": sorted({e.step for e in edges})})

        for step in program.steps:
            add("stage" if step.source is None else "source", step.name, step.edges)
        for fold in program.folds:
            fed = (e for f in fold.fed for e in (f.voxels, f.mask, *f.others) if e is not None)
            add("number", fold.reduction.name, fed)
        for seen in program.surveys:
            add("survey", seen.survey.name, seen.edges)
        for output in program.outputs:
            add("write", output.sink.name, [output.edge])
        return found
