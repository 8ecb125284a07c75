"""The plan: every pass with its partition, and what the run will cost, before anything is read."""

from __future__ import annotations

import math
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beam_volumes.geometry import Grid, Triple
from beam_volumes.graph.nodes import (
    AcrossNode,
    Barrier,
    BarrierValue,
    FoldValue,
    Node,
    SourceNode,
    StageNode,
    Value,
    values_below,
    without_voxels,
)
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.volume import Scalar, Target, Volume, format_bytes
from beam_volumes.plan import budget as machine
from beam_volumes.plan.compile import ancestors, compile_program
from beam_volumes.plan.partition import (
    Partition,
    TooLarge,
    choose,
    chunks_read,
    least,
    measure,
    preferred_window,
    units_written,
    write_grid,
)
from beam_volumes.plan.passes import Cut, Levels, cut
from beam_volumes.space import Space
from beam_volumes.storage.arrays import ArraySink
from beam_volumes.storage.kvstore import beside, join, kvstore_spec
from beam_volumes.storage.sink import Sink, default_chunk, make_sink
from beam_volumes.storage.tables import TableSink
from beam_volumes.sweep.program import Program
from beam_volumes.version import __version__


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
    room : int
        Bytes that its surveys may keep of a slab; as much again a step of their merge may hold.
    """

    index: int
    program: Program
    partition: Partition
    values: tuple[Value, ...]
    bytes_read: int
    bytes_once: int
    chunks_read: int
    bytes_written: int
    units_written: int
    room: int = 0

    @property
    def grid(self) -> Grid:
        return self.partition.grid

    @property
    def voxels(self) -> int:
        return math.prod(self.program.shape)

    @property
    def read_amplification(self) -> float:
        """Bytes read over the bytes of the chunks that are needed at all."""
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
    kernels : int
        How many kernels are compiled: part of ``base``.
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
        return self.base + -(-self.workers // self.processes) * self.slab_memory

    @property
    def bytes_read(self) -> int:
        return sum(p.bytes_read for p in self.passes)

    @property
    def bytes_written(self) -> int:
        return sum(p.bytes_written for p in self.passes)

    @property
    def read_amplification(self) -> float:
        once = sum(p.bytes_once for p in self.passes)
        return self.bytes_read / once if once else 1.0

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
            "sweeps": self.sweeps,
            "reasons": list(self.reasons),
            "passes": [_pass_dict(p) for p in self.passes],
        }

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
        "overlap": p.partition.overlap,
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


#: What can be asked for.
Wanted = Target | TableTarget | Volume | Table | Scalar


def plan(
    *targets: Wanted,
    memory: int | str | None = None,
    workers: int | None = None,
    processes: int = 1,
    threads: int | None = None,
    slab: Sequence[int] | None = None,
    window: int | None = None,
    base: int = machine.BASE_BEAM,
    held: bool = False,
) -> Plan:
    """Plan a computation; nothing is read or written.

    Parameters
    ----------
    *targets : Target, TableTarget, Volume, Table or Scalar
        What `compute` would be given.
    memory : int or str, optional
        What one machine may use for the run, e.g. ``"2GiB"``; a quarter of its RAM by default.
    workers : int, optional
        Slabs in flight on it; by default one for every four cores.
    processes : int
        Worker processes the workers are spread over.
    threads : int, optional
        Threads computing one slab; by default the cores divided by the processes.
    slab : sequence of int, optional
        Slab shape, along the volume's axes, instead of one chosen by the budget.
    window : int, optional
        Slices finished at a time, instead of a number chosen by the budget.
    base : int
        Bytes a worker process takes before any voxel and any kernel.
    held : bool
        Put arrays that come back together in this process's memory, instead of storing and reading
        them; they are not part of the budget.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        The budget is too small (the message names the stage and the smallest budget that would do),
        or an explicit slab is not aligned with the outputs' write units.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> p = bv.plan((v > bv.threshold_otsu(bv.gaussian_filter(v, 1))).to("mask.zarr"), memory="1GiB")
    >>> len(p.passes), p.sweeps["threshold_otsu"], p.read_amplification
    (3, 2, 1.0)
    """
    if not targets:
        raise ValueError("nothing to plan: give at least one target, volume or scalar")
    for t in targets:
        if not isinstance(t, Wanted):
            raise TypeError(
                f"cannot plan a {type(t).__name__}; give volumes, tables, scalars or volume.to(path)"
            )
    _check_outputs(targets)
    workers = checked_count("workers", workers, max(1, machine.cores() // 4))
    processes = min(checked_count("processes", processes, 1), workers)
    threads = checked_count("threads", threads, max(1, machine.cores() // processes))
    total = machine.default_memory() if memory is None else machine.parse_bytes(memory)
    place = scratch_place(targets)
    intermediates: list[Any] = []

    def intermediate(node: Node, space: Any = None, name: str = "") -> Sink:
        space = space or Space()
        chunks = _internal_chunks(node, slab, targets)
        where = join(place, f"{name or 'step'}-{node.token}.zarr")
        sink = make_sink(
            where,
            shape=node.shape,
            dtype=node.dtype,
            space=space,
            format="zarr",
            chunks=[chunks[a] for a in space.visible] if space.axes else None,
            codec=None,
        )
        intermediates.append(sink)
        return sink

    voxels: list[tuple[Node, Sink]] = []
    values: list[Value] = []
    barriers: list[Barrier] = []
    results: list[Sink | TableSink | Value] = []
    tables: dict[str, tuple[TableSink, ...]] = {}
    for t in targets:
        if isinstance(t, Scalar):
            values.append(t.value)
            results += without_voxels([t.value])
            continue
        if isinstance(t, Table | TableTarget):
            table = t if isinstance(t, Table) else t.table
            if isinstance(t, Table):
                where = TableSink.of(join(place, f"table-{table.barrier.token}.parquet"))
                intermediates.append(where)
            else:
                where = t.sink
            barriers.append(table.barrier)
            tables[table.barrier.token] = (*tables.get(table.barrier.token, ()), where)
            results.append(where)
            continue
        node = t.node if isinstance(t, Volume) else t.volume.node
        if isinstance(t, Volume):
            # A line or a single voxel is stored with all axes: what is read has y and x.
            sink = intermediate(node, t.space if t.ndim > 1 else None, "result")
            if held:
                sink = intermediates[-1] = ArraySink.of(sink)
        else:
            sink = t.sink
        voxels.append((node, sink))
        results.append(sink)
    kernels = _kernels(voxels, values, barriers)
    base += machine.BASE_KERNEL * kernels
    budget = (total - processes * base) // workers
    how = _How(budget, workers, threads, slab, window)
    pencils = False
    while True:
        cuts, stored, reasons = cut(voxels, values, barriers, intermediate, pencils)
        passes, used, smallest = _passes(cuts, stored, how, reasons)
        # Where whole planes do not fit, they are stored and read again by full rows and columns.
        planes = [p for p in passes if p.program.spans == {1, 2}]
        if pencils or all(p.slab_memory <= budget and not _cut_across(p, slab) for p in planes):
            break
        pencils = True
        intermediates[:] = [s for s in intermediates if s in results]
    if any(p.slab_memory > budget for p in passes):
        _refuse(smallest, total, base, workers, processes)
    return Plan(
        tuple(passes),
        targets,
        total,
        workers,
        processes,
        threads,
        base,
        processes * base + workers * smallest.memory,
        tuple(reasons),
        tuple(results),
        tuple(intermediates),
        place if intermediates else None,
        _sweeps([*values, *_outermost(used)]),
        _fingerprint(voxels, values, barriers, tables),
        tables,
        tuple(map(Return.of, targets)),
        kernels,
    )


def _cut_across(p: Pass, slab: Sequence[int] | None) -> bool:
    """Whether tiles were asked for where a stage needs whole planes."""
    return slab is not None and _slab_shape(slab, p.program.shape)[1:] != p.program.shape[1:]


@dataclass(frozen=True)
class _How:
    """What a partition has to go by: bytes for a slab, and what the user has said."""

    budget: int
    workers: int
    threads: int
    slab: Sequence[int] | None
    window: int | None


def _passes(
    cuts: list[Cut], stored: dict[str, Any], how: _How, reasons: list[str]
) -> tuple[list[Pass], list[Value], Partition]:
    """The passes of cuts, the values they take, and the largest of their smallest partitions."""
    separate = _separate(cuts, stored, how, reasons)
    programs, values = [], []
    for c in separate:
        before = _before(c, cuts, stored)
        programs.append(compile_program(c.shape, c.outputs, c.folds, c.barriers, before))
        values.append(_needed_values(c, before))
    reasons += _waits(separate, programs, values, stored)
    passes: list[Pass | None] = [None] * len(programs)
    smallest = Partition(Grid((0, 0, 0), (1, 1, 1)), 1, False, ())
    for together in _same_slabs(programs):
        members = [programs[k] for k in together]
        try:
            parts = _partitions(members, how)
        except TooLarge as error:
            parts = error.smallest
        # All passes are looked at before the budget is refused: it must do for each.
        chosen = how.slab is not None or how.window is not None
        for low in parts if chosen else least(members, how.threads):
            smallest = max(smallest, low, key=lambda p: p.memory)
        for k, part in zip(together, parts, strict=True):
            passes[k] = _costed(k, programs[k], part, without_voxels(values[k]), how.budget)
    return [p for p in passes if p is not None], [v for vs in values for v in vs], smallest


def _waits(
    cuts: list[Cut],
    programs: Sequence[Program],
    values: Sequence[Sequence[Value]],
    stored: dict[str, Any],
) -> list[str]:
    """What each pass needs of those before it."""
    found: dict[str, tuple[int, str]] = {}
    kept: dict[int, tuple[int, str]] = {}
    for k, (c, program) in enumerate(zip(cuts, programs, strict=True)):
        found |= {f.token: (k, f.reduction.name) for f in program.folds}
        found |= {b.token: (k, b.survey.name) for b in program.surveys}
        kept |= {
            id(stored[n.token]): (k, f"the stored {n.name}")
            for n, _ in c.outputs
            if n.token in stored
        }
    lines = []
    for k, (program, own) in enumerate(zip(programs, values, strict=True)):
        tokens = {
            v.barrier.token if isinstance(v, BarrierValue) else v.token for v in values_below(own)
        }
        needs = {found[t] for t in (*tokens, *program.barriers) if t in found}
        read = [id(s.source.stored) for s in program.steps if s.source is not None]
        needs |= {kept[i] for i in read if i in kept}
        for before in sorted({i for i, _ in needs if i < k}):
            names = ", ".join(sorted(name for i, name in needs if i == before))
            lines.append(f"pass {k + 1} comes after pass {before + 1}, of which it needs {names}")
    return lines


def _same_slabs(programs: Sequence[Program]) -> list[list[int]]:
    """Passes in groups that have one grid of slabs: where answers go, and where they come from."""
    groups: list[set[int]] = []
    for k, program in enumerate(programs):
        linked = {k, *(j for j, p in enumerate(programs) if _surveyed(p) & set(program.barriers))}
        touched = [g for g in groups if g & linked]
        groups = [g for g in groups if not g & linked] + [linked.union(*touched)]
    return sorted(sorted(g) for g in groups)


def _surveyed(program: Program) -> set[str]:
    return {b.token for b in program.surveys}


def with_resources(
    plan: Plan, memory: int | str | None, workers: int | None, processes: int, base: int
) -> Plan:
    """The plan for another machine or runner; its slabs stay until it is `repartitioned`.

    Parameters
    ----------
    plan : Plan
    memory, workers : optional
        Those of the plan by default.
    processes, base : int
        As of `plan`.
    """
    workers = checked_count("workers", workers, plan.workers)
    processes = min(processes, workers)
    return replace(
        plan,
        memory=plan.memory if memory is None else machine.parse_bytes(memory),
        workers=workers,
        processes=processes,
        threads=max(1, machine.cores() // processes),
        base=base + machine.BASE_KERNEL * plan.kernels,
    )


def repartitioned(plan: Plan, slabs: Sequence[Sequence[int]], windows: Sequence[int]) -> Plan:
    """The plan with the partition of an earlier one, to resume its run.

    Raises
    ------
    ValueError
        If that was cut into other passes, or needs more memory than this plan may use.
    """
    if len(slabs) != len(plan.passes):
        raise ValueError(
            f"the run was planned in {len(slabs)} passes and would now be in {len(plan.passes)}; "
            "resume it with the memory= and slab= it was begun with"
        )
    passes = []
    budget = (plan.memory - plan.processes * plan.base) // plan.workers
    for p, slab, window in zip(plan.passes, slabs, windows, strict=True):
        z, y, x = slab
        part = measure(p.program, (z, y, x), window, p.partition.overlap, plan.threads)
        if part.memory > budget and part.overlap:
            part = measure(p.program, (z, y, x), window, False, plan.threads)
        if part.memory > budget:
            _refuse(part, plan.memory, plan.base, plan.workers, plan.processes)
        passes.append(_costed(p.index, p.program, part, p.values, budget))
    return replace(plan, passes=tuple(passes))


def checked_count(name: str, number: int | None, default: int) -> int:
    if number is None:
        return default
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{name}={number!r} is not a whole number from 1 on")
    return number


def scratch_place(targets: Sequence[Any]) -> dict[str, Any]:
    """Where results that nobody named go: in the run folder beside the first output, or a temporary one."""
    for t in targets:
        if isinstance(t, Target | TableTarget):
            return join(beside(t.sink.kvstore, ".run"), "intermediate")
    name = f"{tempfile.gettempdir()}/beam-volumes-{uuid.uuid4().hex[:12]}"
    return kvstore_spec(name)


def _internal_chunks(node: Node, slab: Sequence[int] | None, targets: Sequence[Any]) -> Triple:
    """Chunks of what is stored for the run alone: they must not force larger slabs than outputs do."""
    for t in targets:
        if slab is None and isinstance(t, Target) and t.sink.shape == node.shape:
            return t.sink.unit
    z, y, x = default_chunk(node.shape, node.dtype.itemsize)
    if slab is None:
        return (z, y, x)
    asked = _slab_shape(slab, node.shape)
    z, y, x = (
        c if s >= n else max(d for d in range(1, min(c, s) + 1) if s % d == 0)
        for c, s, n in zip((z, y, x), asked, node.shape, strict=True)
    )
    return (z, y, x)


def _check_outputs(targets: Sequence[Any]) -> None:
    seen: dict[str, str] = {}
    # What lies behind lazy scalars is read too.
    levels = Levels(
        [t.node for t in targets if isinstance(t, Volume)]
        + [t.volume.node for t in targets if isinstance(t, Target)],
        [t.value for t in targets if isinstance(t, Scalar)],
        [t.barrier for t in targets if isinstance(t, Table)]
        + [t.table.barrier for t in targets if isinstance(t, TableTarget)],
    )
    inputs = {n.source.name for n in levels.nodes.values() if isinstance(n, SourceNode)}
    for t in targets:
        if isinstance(t, Target | TableTarget):
            if t.sink.name in seen:
                raise ValueError(f"two targets write {t.sink.name}; give each a path of its own")
            if t.sink.name in inputs:
                raise ValueError(
                    f"{t.sink.name} is an input too; write to another path, never in place"
                )
            seen[t.sink.name] = t.sink.name


def _before(c: Cut, cuts: Sequence[Cut], stored: dict[str, Any]) -> dict[str, Any]:
    """What is stored before a pass begins: what it stores itself it must compute."""
    later = {n.token for other in cuts if other.level >= c.level for n, _ in other.outputs}
    return {token: source for token, source in stored.items() if token not in later}


def _separate(cuts: list[Cut], stored: dict[str, Any], how: _How, reasons: list[str]) -> list[Cut]:
    """Give outputs of one pass sweeps of their own where their write units do not fit together."""
    separate: list[Cut] = []
    for c in cuts:
        units = {s.unit for _, s in c.outputs}
        if len(units) > 1 and how.slab is None:
            before = _before(c, cuts, stored)
            program = compile_program(c.shape, c.outputs, c.folds, c.barriers, before)
            try:
                choose([program], how.budget, how.workers, how.threads)
            except TooLarge:
                reasons.append(
                    "outputs of one pass have sweeps of their own: the least common multiple of their "
                    f"write units {sorted(units)} is beyond the budget"
                )
                for k, output in enumerate(c.outputs):
                    first = k == 0
                    folds, barriers = (c.folds, c.barriers) if first else ([], [])
                    separate.append(Cut(c.level, c.shape, [output], folds, barriers))
                continue
        separate.append(c)
    return separate


def _partitions(programs: Sequence[Program], how: _How) -> list[Partition]:
    """Partitions of passes that have the same slabs and windows."""
    if how.slab is None and how.window is None:
        return choose(programs, how.budget, how.workers, how.threads)
    if how.slab is None:
        found = choose(programs, how.budget, how.workers, how.threads)
        width = checked_count("window", how.window, 1)
        step, overlap = found[0].grid.step, found[0].overlap
        return [measure(p, step, width, overlap, how.threads) for p in programs]
    asked = _slab_shape(how.slab, programs[0].shape)
    spans = {a for p in programs for a in p.spans}
    shape: Triple = tuple(  # type: ignore[assignment]
        max(1, n) if a in spans else s
        for a, s, n in zip(range(3), asked, programs[0].shape, strict=True)
    )
    unit = write_grid(programs)
    for axis, n, s, u in zip("zyx", programs[0].shape, shape, unit, strict=True):
        if s % u and s < n:
            raise ValueError(
                f"slab {tuple(how.slab)}: {s} along {axis} is not a multiple of the output's write unit "
                f"{u}; use a multiple of {u}, or chunks={s} along {axis}"
            )
    preferred = preferred_window(programs, (shape[1], shape[2]))
    width = checked_count("window", how.window, preferred)
    return [measure(p, shape, width, True, how.threads) for p in programs]


def _slab_shape(slab: Sequence[int], shape: Triple) -> Triple:
    numbers = [checked_count("slab", int(n), 1) for n in slab]
    if len(numbers) == 2 and shape[0] == 1:
        numbers.insert(0, 1)
    if len(numbers) != 3:
        raise ValueError(f"slab {tuple(slab)} needs one number per axis z, y, x")
    z, y, x = (min(s, max(1, n)) for s, n in zip(numbers, shape, strict=True))
    return (z, y, x)


def _refuse(part: Partition, total: int, base: int, workers: int, processes: int) -> None:
    need = processes * base + workers * part.memory
    raise ValueError(
        f"memory {format_bytes(total)} is too small: {processes} process(es) take {format_bytes(base)} each "
        f"before any voxel, and {workers} slab(s) in flight at least {format_bytes(part.memory)} each, the "
        f"largest part being {part.largest.name} with {format_bytes(part.largest.bytes)}. "
        f"The smallest memory that works is {need} bytes ({format_bytes(need)}); "
        "fewer workers or smaller output chunks need less"
    )


def _needed_values(c: Cut, stored: dict[str, Any]) -> tuple[Value, ...]:
    """The lazy scalars that a pass's stages and folds take."""
    values = {v.token: v for f in c.folds for v in f.parameters}
    values |= {v.token: v for b in c.barriers for v in b.parameters}
    for node in ancestors(c.ends, stored):
        if isinstance(node, StageNode) and node.token not in stored:
            values.update((v.token, v) for v in node.parameters)
    return tuple(values.values())


def _costed(
    index: int, program: Program, part: Partition, values: tuple[Value, ...], budget: int
) -> Pass:
    reads = chunks_read(program, part.grid)
    units = units_written(program)
    return Pass(
        index,
        program,
        part,
        values,
        bytes_read=sum(n * size for n, _, size in reads),
        bytes_once=sum(n * size for _, n, size in reads),
        chunks_read=sum(n for n, _, _ in reads),
        bytes_written=sum(size for _, size in units),
        units_written=sum(n for n, _ in units),
        room=max(part.reserved, budget - part.memory + part.reserved),
    )


def _kernels(
    voxels: Sequence[tuple[Node, Sink]], values: Sequence[Value], barriers: Sequence[Barrier]
) -> int:
    """How many kernels will be compiled: one for each operation and combination of dtypes."""
    levels = Levels([n for n, _ in voxels], values, barriers)
    compiled = set()
    for node in levels.nodes.values():
        if isinstance(node, StageNode) and node.stage.compiled:
            dtypes = tuple(i.dtype.str for i in (*node.inputs, node))
            compiled.add((type(node.stage).__name__, dtypes))
        elif isinstance(node, AcrossNode):
            compiled.add((type(node.completion).__name__, (node.inputs[0].dtype.str,)))
    for fold in levels.folds.values():
        dtypes = tuple(n.dtype.str for n in (fold.voxels, *fold.others))
        compiled.add((type(fold.reduction).__name__, dtypes))
    for barrier in levels.barriers.values():
        dtypes = tuple(n.dtype.str for n in barrier.operands)
        compiled.add((type(barrier.survey).__name__, dtypes))
    return len(compiled)


def _outermost(values: Sequence[Value]) -> list[Value]:
    """Those that no other rests on."""
    inner = {a.token for v in values_below(values) for a in v.arguments}
    return [v for v in values if v.token not in inner]


def _sweeps(values: Sequence[Value]) -> dict[str, int]:
    """For each value: in how many passes the folds below it are swept."""
    levels = Levels([], values)
    found = {}
    for value in values:
        found_by_sweeps = [
            v for v in values_below([value]) if isinstance(v, FoldValue | BarrierValue)
        ]
        below = {levels.value[v.token] for v in found_by_sweeps}
        if below:
            found[value.name] = len(below)
    return found


def _fingerprint(
    voxels: list[tuple[Node, Sink]],
    values: list[Value],
    barriers: list[Barrier],
    tables: dict[str, tuple[TableSink, ...]],
) -> dict[str, str]:
    """What the run computes, field by field, so that a resumed run can say what differs."""
    levels = Levels([n for n, _ in voxels], values, barriers)
    fields = {"package": __version__}
    for n in levels.nodes.values():
        if isinstance(n, SourceNode):
            fields[f"input {n.name}"] = n.token
    counts: dict[str, int] = {}
    for item in (*levels.nodes.values(), *levels.folds.values(), *levels.barriers.values()):
        if isinstance(item, StageNode):
            what, token = item.name, item.stage.token()
        elif isinstance(item, AcrossNode):
            what, token = item.name, item.completion.token()
        elif isinstance(item, Barrier):
            what, token = f"survey {item.name}", item.survey.token()
        elif isinstance(item, FoldValue):
            what, token = item.name, item.reduction.token()
        else:
            continue
        counts[what] = counts.get(what, 0) + 1
        fields[f"step {what} {counts[what]}"] = token
    for k, (node, sink) in enumerate(voxels):
        fields[f"output {k + 1}"] = f"{node.token} {sink.token()}"
    for k, value in enumerate(values):
        fields[f"scalar {k + 1}"] = value.token
    for token, sinks in tables.items():
        for place in sinks:
            fields[f"table {place.name}"] = f"{token} {place.token()}"
    return fields
