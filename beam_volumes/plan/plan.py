"""A plan: every pass with its partition, and what the run will cost, before anything is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_volumes.geometry import Grid
from beam_volumes.graph.nodes import (
    Value,
)
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.volume import Scalar, Target, Volume
from beam_volumes.plan.budget import BASE_KERNEL
from beam_volumes.plan.partition import Partition, Read, chunks_needed
from beam_volumes.storage.arrays import ArraySink
from beam_volumes.storage.extent import Extent
from beam_volumes.storage.sink import Sink
from beam_volumes.storage.tables import TableSink
from beam_volumes.sweep.program import Program


@dataclass(frozen=True, eq=False)
class Pass:
    """One fused sweep over a grid of slabs.

    Attributes
    ----------
    program : Program
        What is read, computed, folded and written.
    partition : Partition
        Slab grid, window, and the peak memory of one slab.
    values : tuple of Value
        Lazy scalars the stages need, known when the pass starts.
    reads : tuple of Read
        What is read, source by source.
    room : int
        Bytes that its surveys may keep of a slab; as much again a step of their merge may hold.
    """

    index: int
    program: Program
    partition: Partition
    values: tuple[Value, ...]
    reads: tuple[Read, ...]
    bytes_written: int
    units_written: int
    room: int = 0

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

        What it will hold is known when the pass is done; more than `room` is refused then.
        """
        return {b.survey.name: b.survey.most_load(self.grid) for b in self.program.surveys}


@dataclass(frozen=True)
class Return:
    """As what a target comes back. Targets themselves are graphs, and stay where they were made.

    Attributes
    ----------
    kind : {"volume", "array", "number", "table", "rows"}
        A volume or a table that was written, or one that comes back in memory; a number.
    dtype, shape
        Of an array.
    """

    kind: str
    dtype: Any = None
    shape: tuple[int, ...] = ()

    @classmethod
    def of(cls, target: Any) -> Return:
        if isinstance(target, Volume):
            return cls("array", target.dtype, target.shape)
        kinds = {Scalar: "number", Target: "volume", Table: "rows", TableTarget: "table"}
        return cls(kinds[type(target)])


@dataclass(frozen=True, eq=False)
class Plan:
    """How targets will be computed; made by `plan`, run by `compute`.

    Attributes
    ----------
    passes : tuple of Pass
    targets : tuple of Target, Volume or Scalar
        What was asked for.
    memory : int
        The budget in bytes for one machine.
    workers : int
        Slabs in flight.
    processes : int
        Worker processes they are spread over.
    threads : int
        Threads computing a slab.
    base : int
        Predicted bytes a process takes before any voxel.
    smallest_memory : int
        The smallest budget that would do, for as many workers and processes.
    sweeps : dict
        For each lazy scalar asked for or used by a pass: how many sweeps it takes.
    tables : dict
        By barrier, where its table is written.
    returns : tuple of Return
        For each target, as what it comes back.
    slab, window
        As they were asked for.
    kernels : int
        How many kernels are compiled: part of ``base``.
    inputs : tuple of (str, tuple of Extent)
        What is read of storage, by name, and where it is.
    reasons : tuple of str
        Why passes are cut where they are and what is stored between them.
    """

    passes: tuple[Pass, ...]
    targets: tuple[Any, ...]
    memory: int
    workers: int
    processes: int
    threads: int
    base: int
    smallest_memory: int
    reasons: tuple[str, ...]
    results: tuple[Sink | TableSink | Value, ...]
    intermediates: tuple[Any, ...]
    scratch_place: dict[str, Any] | None
    sweeps: dict[str, int] = field(default_factory=dict)
    fingerprint: dict[str, str] = field(default_factory=dict)
    tables: dict[str, tuple[TableSink, ...]] = field(default_factory=dict)
    returns: tuple[Return, ...] = ()
    kernels: int = 0
    inputs: tuple[tuple[str, tuple[Extent, ...]], ...] = ()
    slab: tuple[int, ...] | None = None
    window: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Workers need no graph: nested as deep as the chain is long, it would not even pickle.
        return {**self.__dict__, "targets": ()}

    @property
    def slab_memory(self) -> int:
        """Predicted peak bytes of one slab, in the largest pass."""
        return max((p.slab_memory for p in self.passes), default=0)

    @property
    def predicted_memory(self) -> int:
        """Predicted peak bytes on one machine: processes x base + slabs in flight x slab peak."""
        return self.processes * self.base + self.workers * self.slab_memory

    @property
    def process_memory(self) -> int:
        """Predicted peak bytes of one worker process."""
        return self.base + self.sweeps_a_process * self.slab_memory

    @property
    def sweeps_a_process(self) -> int:
        """Slabs in flight in one worker process."""
        return -(-self.workers // self.processes)

    @property
    def bytes_read(self) -> int:
        return sum(p.bytes_read for p in self.passes)

    @property
    def bytes_written(self) -> int:
        return sum(p.bytes_written for p in self.passes)

    @property
    def read_amplification(self) -> float:
        """Bytes read over those that each pass needs once; `times_read` also counts the passes."""
        once = sum(p.bytes_once for p in self.passes)
        return self.bytes_read / once if once else 1.0

    @property
    def times_read(self) -> dict[str, float]:
        """For each input, and what is stored and read back, by name: how often its chunks are read.

        On average over those that the run needs at all, in all its passes.
        """
        found: dict[str, list[Read]] = {}
        for read in (r for p in self.passes for r in p.reads):
            found.setdefault(read.of, []).append(read)
        bytes_read: dict[str, int] = {}
        once: dict[str, int] = {}
        for some in found.values():
            name, size = some[0].name, some[0].unit_bytes
            bytes_read[name] = bytes_read.get(name, 0) + sum(r.bytes for r in some)
            once[name] = once.get(name, 0) + size * chunks_needed([r.cells for r in some])
        return {name: bytes_read[name] / once[name] for name in once if once[name]}

    @property
    def sinks(self) -> tuple[Sink | TableSink, ...]:
        """Every output of the run, intermediates included."""
        volumes = tuple(o.sink for p in self.passes for o in p.program.outputs)
        return volumes + tuple(s for sinks in self.tables.values() for s in sinks)

    def to_dict(self) -> dict[str, Any]:
        """The plan's numbers as plain data."""
        return {
            "memory": self.memory,
            "smallest_memory": self.smallest_memory,
            "predicted_memory": self.predicted_memory,
            "base": self.base,
            "slab_memory": self.slab_memory,
            "workers": self.workers,
            "processes": self.processes,
            "threads": self.threads,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "read_amplification": self.read_amplification,
            "times_read": self.times_read,
            "sweeps": self.sweeps,
            "reasons": list(self.reasons),
            "passes": [_pass_dict(p) for p in self.passes],
        }

    def replanned(self, slab: Sequence[int] | None) -> Plan | None:
        """The plan that other slabs would give; None if it does not fit the memory."""
        from beam_volumes.plan.planner import plan

        try:
            return plan(
                *self.targets,
                memory=self.memory,
                workers=self.workers,
                processes=self.processes,
                threads=self.threads,
                slab=slab,
                window=self.window,
                base=self.base - BASE_KERNEL * self.kernels,
                held=any(isinstance(sink, ArraySink) for sink in self.results),
            )
        except ValueError:
            return None

    def explain(self) -> str:
        """The plan in words and numbers."""
        from beam_volumes.plan.explain import explain

        return explain(self)


def _pass_dict(p: Pass) -> dict[str, Any]:
    return {
        "shape": list(p.program.shape),
        "slabs": len(p.grid),
        "slab": list(p.grid.step),
        "window": p.partition.window,
        "overlap": p.partition.overlap._asdict(),
        "stages": [s.name for s in p.program.steps if s.source is None],
        "sources": [s.name for s in p.program.steps if s.source is not None],
        "folds": [f.reduction.name for f in p.program.folds],
        "surveys": [b.survey.name for b in p.program.surveys],
        "merges": p.merges,
        "room": p.room,
        "outputs": [o.sink.name for o in p.program.outputs],
        "slab_memory": p.slab_memory,
        "parts": {part.name: part.bytes for part in p.partition.parts},
        "chunks_read": p.chunks_read,
        "bytes_read": p.bytes_read,
        "read_amplification": p.read_amplification,
        "units_written": p.units_written,
        "bytes_written": p.bytes_written,
    }
