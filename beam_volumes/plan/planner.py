"""Make a plan: cut the graph of the targets into passes that fit the memory."""

from __future__ import annotations

import math
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import format_bytes
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
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.stages import interleaved
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.cost.memory import TABLES, left_for_slab, of_base, of_machine
from beam_volumes.plan.cut.fingerprint import fingerprint
from beam_volumes.plan.cut.in_place import Named, check_in_place, inputs_below, run_folders
from beam_volumes.plan.cut.passes import Levels, cut
from beam_volumes.plan.fit.advice import PlanRefused, Remedy, with_smaller_shards
from beam_volumes.plan.fit.fitting import (
    Limits,
    MemoryTooSmall,
    cut_across,
    fitted,
    refuse,
    refuse_device,
    slab_shape,
    too_coarse,
)
from beam_volumes.plan.fit.refitting import Fit, in_two_stages, with_more_slabs
from beam_volumes.plan.over_points import Before, plan_across, with_known
from beam_volumes.plan.plan import Plan, Return, levels_of
from beam_volumes.plan.points import of_points, times_of
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.outputs.sink import Sink, make_sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places import temporary
from beam_volumes.storage.places.place import join, kvstore_spec, sibling
from beam_volumes.storage.sources.chunking import default_chunk

#: Intermediates have chunks of at most this many bytes, unless outputs have unusual chunks.
_INTERNAL_BYTES = 8 << 20

#: Why a source is first stored in other chunks.
_WHY_RECHUNKED = (
    "by whole chunks, each once, where slabs of whole write units cut through the chunks that it "
    "has"
)

#: The possible targets of a plan.
Wanted = Target | TableTarget | Volume | Table | Scalar

#: The plan of a pipeline.
Planned = TypeVar("Planned")


def in_process_or(
    by_pipeline: Callable[[], Planned], targets: Sequence[Wanted], options: RunOptions
) -> Plan | Planned:
    """Plan a run without a given runner: in this process, or as ``by_pipeline`` if it takes much memory."""
    # A run that can be resumed stores its results in its folder.
    written = any(isinstance(t, Target | TableTarget) for t in targets)
    in_memory_results = not written and options.journal is None
    in_this_process = replace(options, processes=1, base=None, in_memory_results=in_memory_results)
    made = make_plan(targets, in_this_process)
    why = why_in_process(made)
    if why is None:
        try:
            return by_pipeline()
        except MemoryTooSmall:
            why = f"{format_bytes(made.memory)} of memory are too little for a pipeline"
    return replace(made, in_process=why)


def why_in_process(planned: Plan) -> str | None:
    """Return why a plan runs in the current process by default, or None if it gets a driver process.

    A driver process costs time, and protects its caller from being killed if memory runs out.

    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> why_in_process(bv.plan(bv.mean(v)))  # doctest: +ELLIPSIS
    'it takes at most ... of the ... of memory that are free'
    """
    for p in planned.swept:
        for step in p.program.steps:
            if step.source is not None and not step.source.portable:
                return f"{step.source.name} is in the memory of this process"
    for sink in planned.sinks:
        if sink not in planned.intermediates and not sink.portable:
            return f"{sink.name} is in the memory of this process"
    free = machine.free_memory()
    if planned.predicted_memory <= free // 2:
        return (
            f"it takes at most {format_bytes(planned.predicted_memory)} of the {format_bytes(free)} of "
            "memory that are free"
        )
    return None


def make_plan(targets: Sequence[Wanted], options: RunOptions) -> Plan:
    """Plan checked targets, with their inputs."""
    inputs = _checked_inputs(_checked(targets))
    try:
        return replace(plan_across(targets, options, _plan_known), inputs=inputs)
    except PlanRefused as error:

        def works(remedy: Remedy) -> bool:
            try:
                plan_across(*remedy.applied(targets, options), _plan_known)
            except ValueError:
                return False
            return True

        raise error.with_candidates(targets, options, works) from None


def _checked(targets: Sequence[Wanted]) -> Sequence[Wanted]:
    if not targets:
        raise ValueError("targets: nothing to plan; give at least one target, volume or scalar")
    for t in targets:
        if not isinstance(t, Wanted):
            raise TypeError(
                f"targets: cannot plan an object of type {type(t).__name__}; give volumes, tables, scalars "
                "or volume.to(path)"
                + ("; bv.open makes a volume of an array" if hasattr(t, "shape") else "")
            )
    return targets


class _Storage:
    """The intermediates of a run, in a folder of their own."""

    def __init__(self, targets: Sequence[Wanted], slab: Sequence[int] | None, in_memory: bool):
        self.targets, self.slab, self.in_memory = targets, slab, in_memory
        self.place = scratch_place(targets)
        self.sinks: list[Any] = []
        #: By token of a node, the chunks in which it is stored for a later pass.
        self.rechunked: Mapping[str, Triple] = {}

    def sink(
        self, node: Node, space: Any = None, name: str = "step", leading: Sequence[int] = ()
    ) -> Sink:
        """Return a new sink for the voxels of a node."""
        space = space or Space()
        chunks = self.rechunked.get(node.token)
        if chunks is None:
            chunks = _internal_chunks(node, self.slab, self.targets)
        else:  # a resumed run may plan other chunks, and needs another file then
            name = "x".join(map(str, chunks))
        sink = make_sink(
            join(self.place, f"{name}-{node.token}.zarr"),
            shape=node.shape,
            dtype=node.dtype,
            space=space,
            leading=leading,
            format="zarr",
            chunks=[chunks[a] for a in space.visible] if space.axes else None,
            shards=None,
            codec=_internal_codec(node.dtype),
        )
        return self.add(replace(sink, scratch=True))

    def add(self, sink: Any) -> Any:
        self.sinks.append(sink)
        return sink

    def result(self, node: Node, space: Any, leading: Sequence[int] = ()) -> Any:
        """Return a new sink for voxels that are returned to the caller."""
        sink = self.sink(node, space, "result", leading)
        if self.in_memory:
            sink = self.sinks[-1] = ArraySink.of(sink)
        return sink


class _Request:
    """The voxels with sinks, numbers and tables of all targets, and the result of each target."""

    def __init__(self, targets: Sequence[Wanted], storage: _Storage, by_points: bool):
        self.storage, self.by_points = storage, by_points
        self.voxels: list[tuple[Node, Any]] = []
        self.values: list[Value] = []
        self.barriers: list[Barrier] = []
        self.results: list[Any] = []
        self.tables: dict[str, tuple[TableSink, ...]] = {}
        for t in targets:
            if isinstance(t, Scalar):
                self.values.append(t.value)
                self.results += without_voxels([t.value])
            elif isinstance(t, Table):
                name = f"table-{t.barrier.token}.parquet"
                self.add_table(t, storage.add(TableSink.of(join(storage.place, name))))
            elif isinstance(t, TableTarget):
                self.add_table(t.table, t.sink)
            elif isinstance(t, Target):
                self.voxels += _written(t)
                self.results.append(t.sink)
            else:
                self.add_volume(t)

    def add_table(self, table: Table, sink: TableSink) -> None:
        token = table.barrier.token
        self.barriers.append(table.barrier)
        self.tables[token] = (*self.tables.get(token, ()), sink)
        self.results.append(sink)

    def add_volume(self, volume: Volume) -> None:
        space, nodes = volume.space, volume.nodes
        if self.by_points:
            # One array for all time points; each point writes its part.
            space = space if len(space.axes) > 1 else replace(space, axes=AXES)
            sink = self.storage.result(nodes[0], space, volume.shape[: len(space.leading)])
            self.voxels += zip(nodes, sink.parts, strict=True)
            self.results.append(sink)
            return
        for node in nodes:
            # Lines and single voxels are stored with all axes: readers need y and x.
            sink = self.storage.result(node, space.of_one("c") if len(space.axes) > 1 else None)
            self.voxels.append((node, sink))
            self.results.append(sink)

    @cached_property
    def levels(self) -> Levels:
        """Sort the nodes, numbers and tables below the targets into passes."""
        return self.levels_with()

    def levels_with(self, *storing: Any) -> Levels:
        """Sort them, storing more nodes: by the other arguments of `Levels`."""
        return Levels([n for n, _ in self.voxels], self.values, self.barriers, *storing)

    def set_known(self, before: Before) -> None:
        """Replace known numbers by their values."""
        nodes = with_known((n for n, _ in self.voxels), before)
        self.voxels = [(n, sink) for n, (_, sink) in zip(nodes, self.voxels, strict=True)]
        self.values = [*with_known(self.values, before)]
        self.barriers = [*with_known(self.barriers, before)]


def _fit(
    asked: _Request,
    options: RunOptions,
    total: int,
    base: int,
    concurrency: Concurrency,
    chunks: Mapping[str, Triple],
) -> Fit:
    """Cut a request into passes that fit the memory.

    ``total``: bytes of the machine. ``chunks``: of sources stored again first.
    """
    storage, slab = asked.storage, options.slab
    storage.rechunked = chunks
    why = {t: f"in chunks of {chunk}, to be read {_WHY_RECHUNKED}" for t, chunk in chunks.items()}
    budget = left_for_slab(total, base, concurrency)
    device = (options.device or "cpu") if concurrency.device_memory else "cpu"
    limits = Limits(budget, concurrency, slab, options.window, device)
    pencils = False
    separate: dict[str, str] = {}
    while True:
        storage.sinks = [s for s in storage.sinks if s in asked.results]
        storing = pencils or why or separate
        levels = asked.levels_with(pencils, why, separate) if storing else asked.levels
        cuts, stored, choices = cut(asked.voxels, levels, storage.sink)
        coarse = too_coarse(cuts, stored, limits)
        if not coarse.keys() <= separate.keys():
            separate |= coarse
            continue
        passes, used, smallest, reasons = fitted(cuts, stored, limits, choices)
        # If whole planes do not fit, they are stored and read again as full rows and columns.
        planes = [p for p in passes if p.program.spans >= {1, 2}]
        if pencils or all(p.slab_memory <= budget and not cut_across(p, slab) for p in planes):
            return Fit(concurrency, budget, passes, used, smallest, reasons, tuple(storage.sinks))
        pencils = True


def _plan_known(targets: Sequence[Wanted], options: RunOptions, before: Before) -> Plan:
    """Plan targets, given some numbers by token."""
    times, slab, window = times_of(targets), options.slab, options.window
    total = options.memory_bytes

    def requested(some: Sequence[Wanted]) -> _Request:
        storage = _Storage(some, slab, options.in_memory_results)
        asked = _Request(some, storage, bool(times))
        asked.set_known(before)
        return asked

    asked = first = requested(targets)
    kernels = (
        *_kernels(asked.levels),
        *([TABLES] if asked.tables else []),
    )
    base = of_base(options.base, kernels)
    concurrency = Concurrency.of(
        options.slabs_in_flight, options.processes, options.threads, options.machines or 1
    )
    concurrency = replace(concurrency, device_memory=options.device_bytes)
    fit: Fit | None = None
    refused: PlanRefused | None = None
    # Shards that the format chooses are as large as the slabs allow.
    for some in (targets, *with_smaller_shards(targets)):
        other = first if some is targets else requested(some)
        how = other, options, total, base, concurrency
        try:
            found = _fit(*how, {})
        except PlanRefused as error:  # the user's slabs cut through units
            refused = refused or error
            continue
        if slab is None and window is None:
            found = in_two_stages(found, partial(_fit, *how))
        if fit is None or found.smallest.memory < fit.smallest.memory or found.fits:
            fit, asked = found, other
        if found.fits:
            break
    if fit is None:
        assert refused is not None
        raise refused
    if asked is not first:
        fit = replace(fit, reasons=[*fit.reasons, *_changed_shards(first, asked)])
    if not fit.is_within_budget:
        refuse(fit.smallest, total, base, fit.concurrency)
    if not fit.is_within_device:
        refuse_device(fit.passes, fit.concurrency)
    minimum = of_machine(base, fit.smallest.memory, fit.concurrency)
    if options.workers is None:
        fit = with_more_slabs(fit, total, base, options.processes, options.threads)
    made = Plan(
        tuple(fit.passes),
        tuple(targets),
        total,
        fit.concurrency.workers,
        fit.concurrency.processes,
        fit.concurrency.threads,
        base,
        minimum,
        tuple(fit.reasons),
        tuple(asked.results),
        fit.intermediates,
        asked.storage.place if fit.intermediates else None,
        _sweeps([*asked.values, *_outermost(fit.used)]),
        fingerprint(first.levels, first.voxels, asked.values, asked.tables),
        asked.tables,
        tuple(map(Return.of, targets)),
        kernels,
        (),
        None if slab is None else tuple(slab),
        window,
        make_plan,
        options.workers,
        options.base,
        machines=concurrency.machines,
        device=options.device or "cpu",
        device_memory=concurrency.device_memory,
    )
    return of_points(made, times, before) if times else made


def _changed_shards(first: _Request, asked: _Request) -> Iterator[str]:
    """Describe outputs with smaller shards than the format chooses."""
    for before, after in zip(first.results, asked.results, strict=True):
        if isinstance(before, Sink) and before.unit != after.unit:
            units = (" x ".join(map(str, sink.unit)) for sink in (after, before))
            yield (
                f"{after.name}: write units of {' instead of '.join(units)}, since slabs consist of "
                "whole units"
            )


def _written(target: Target) -> list[tuple[Node, Sink]]:
    """Return the nodes and sinks of a target: for each channel, or for interleaved channels."""
    found: list[tuple[Node, Sink]] = []
    for volume, sink in target.written:
        nodes: Sequence[Node] = volume.nodes
        if sink.samples > 1:
            nodes = [interleaved(volume.nodes, sink.dtype)]
        found += zip(nodes, sink.parts, strict=True)
    return found


def scratch_place(targets: Sequence[Any]) -> dict[str, Any]:
    """Return the folder of intermediates: in the first output's run folder, or a temporary one."""
    for t in targets:
        if isinstance(t, Target | TableTarget):
            return join(sibling(t.sink.kvstore, ".run"), "intermediate")
    name = f"{temporary.PREFIX}{uuid.uuid4().hex[:12]}"
    return kvstore_spec(os.path.join(tempfile.gettempdir(), name))


def _internal_chunks(node: Node, slab: Sequence[int] | None, targets: Sequence[Any]) -> Triple:
    """Chunks of an intermediate, which must not need larger slabs than the outputs.

    They divide the write units of outputs, or the slab given by the user, and have about the
    default size: whole shards as chunks would be too much to read and decode at a time.
    """
    wanted = default_chunk(node.shape, node.dtype.itemsize)
    unit = wanted
    if slab is not None:
        asked = slab_shape(slab, node.shape)
        unit = tuple(  # type: ignore[assignment]
            c if s >= n else s for c, s, n in zip(wanted, asked, node.shape, strict=True)
        )
    else:
        units = [
            t.sink.unit for t in targets if isinstance(t, Target) and t.sink.shape == node.shape
        ]
        unit = units[0] if units else wanted
    return _divided(unit, wanted, max(math.prod(wanted), _INTERNAL_BYTES // node.dtype.itemsize))


def _internal_codec(dtype: np.dtype[Any]) -> str | None:
    """Return the codec of an intermediate. Compressed labels take a fraction of the disk and no more time."""
    return "blosc" if dtype.kind in "ui" and dtype.itemsize >= 4 else None


def _divided(unit: Triple, wanted: Triple, maximum: int) -> Triple:
    """Return a divisor of a unit with at most ``maximum`` voxels, of about the wanted shape.

    Divisors that leave slivers are not used: an extent that is prime is kept.

    >>> _divided((2048, 2048, 2048), (16, 512, 512), 8 << 20)
    (16, 512, 1024)
    >>> _divided((97, 1000, 4001), (16, 512, 512), 8 << 20)
    (97, 200, 4001)
    """
    chunk = list(unit)
    while math.prod(chunk) > maximum:
        smaller = {
            axis: next(d for d in range(chunk[axis] - 1, 0, -1) if unit[axis] % d == 0)
            for axis in range(3)
            if chunk[axis] > 1
        }
        able = [axis for axis, d in smaller.items() if 4 * d >= wanted[axis]]
        if not able:
            break
        axis = max(able, key=lambda a: chunk[a] / wanted[a])
        chunk[axis] = smaller[axis]
    z, y, x = chunk
    return (z, y, x)


def _checked_inputs(targets: Sequence[Any]) -> tuple[Named, ...]:
    """Return the inputs of targets; raise an error if one is also written."""
    inputs = inputs_below(levels_of(targets))
    sinks = [t.sink for t in targets if isinstance(t, Target | TableTarget)]
    check_in_place(inputs, sinks, run_folders(sinks))
    return inputs


def _kernels(levels: Levels) -> list[str]:
    """Names of the kernels to compile: one for each operation and combination of dtypes."""
    compiled = set()
    for node in levels.nodes.values():
        if isinstance(node, StageNode) and node.stage.compiled:
            dtypes = tuple(i.dtype.str for i in (*node.inputs, node))
            compiled.add((type(node.stage).__name__, dtypes))
        elif isinstance(node, AcrossNode):
            compiled.add((type(node.completion).__name__, (node.inputs[0].dtype.str,)))
        elif isinstance(node, SourceNode):
            compiled |= node.source.kernels
    for fold in levels.folds.values():
        dtypes = tuple(n.dtype.str for n in (fold.fed[0].voxels, *fold.fed[0].others))
        compiled.add((type(fold.reduction).__name__, dtypes))
    for barrier in levels.barriers.values():
        dtypes = tuple(n.dtype.str for n in barrier.operands)
        compiled.add((type(barrier.survey).__name__, dtypes))
    return sorted(" ".join((name, *dtypes)) for name, dtypes in compiled)


def _outermost(values: Sequence[Value]) -> list[Value]:
    """Return the values that no other value depends on."""
    inner = {a.token for v in values_below(values) for a in v.arguments}
    return [v for v in values if v.token not in inner]


def _sweeps(values: Sequence[Value]) -> dict[str, int]:
    """For each value, the number of passes in which the folds below it are swept."""
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
