"""Compute a time point as a separate run in the process of its slab."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import Value, evaluate
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.points import PerPoint, PointsPass, at_point, found_here, rows_token
from beam_volumes.session.identity import with_scratch
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.claims import Watched
from beam_volumes.storage.places.place import Place, join
from beam_volumes.sweep.writing import SlabResult


@dataclass(frozen=True, eq=False)
class TimePointSink(Sink):
    """A part of an output; the run of all points creates and finishes the output."""

    def exists(self) -> bool:
        return False

    def create(self, *_: Any, **__: Any) -> None:
        pass

    def finish(self, *_: Any, **__: Any) -> None:
        pass

    @classmethod
    def of(cls, sink: Sink) -> Any:
        if not isinstance(sink, ArraySink):
            return cls(**{name: getattr(sink, name) for name in Sink.__dataclass_fields__})
        return sink  # arrays of this process already exist


@dataclass
class PartOfTable:
    """The rows of a point, written to the table of all points with a column ``t``."""

    whole: TableSink
    point: int
    shards: int = field(default=0)

    portable = True

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def kvstore(self) -> Any:
        return self.whole.kvstore

    def watched(self, run_id: str) -> Watched | None:
        return self.whole.watched(run_id)

    def existing_run(self) -> str | None:
        return self.whole.existing_run()

    def create(self, *_: Any, **__: Any) -> None:
        pass

    def write(self, shard: int, columns: Mapping[str, Any], run_id: str | None = None) -> None:
        rows = len(next(iter(columns.values())))
        own = {"t": np.full(rows, self.point, np.int64), **columns}
        self.whole.write(shard_of(self.point, shard), own, run_id)

    def finish(self, shards: int, run_id: str | None = None, durable: bool = False) -> None:
        self.shards = shards


def shard_of(point: int, shard: int) -> str:
    """The name of a shard of a point's rows; names sort in the order of points."""
    return f"{point:07d}-{shard:05d}"


def tables_of(plan: Plan, p: PointsPass) -> dict[str, tuple[TableSink, ...]]:
    """The tables with rows of the points of a pass, by barrier."""
    counted = {f.token for f in p.program.folds}
    return {t: sinks for t, sinks in plan.tables.items() if rows_token(t) in counted}


def finish_tables(
    plan: Plan, p: PointsPass, found: Mapping[str, Any], run_id: str, durable: bool
) -> None:
    """Finish the tables of all points, from the shards that each point has written."""
    for token, sinks in tables_of(plan, p).items():
        counts = np.asarray(found[rows_token(token)])
        shards = [shard_of(k, n) for k, many in enumerate(counts.tolist()) for n in range(many)]
        for sink in sinks:
            sink.finish(shards, run_id, durable)


#: Numbers by token.
Numbers = dict[str, Any]
#: Runs the plan of a point, calls a function with the result of each slab, and returns numbers.
RunPlan = Callable[[Plan, Callable[[SlabResult], None]], Numbers]


def compute_point(
    plan: Plan,
    p: PointsPass,
    k: int,
    known: Numbers,
    on_progress: Callable[[float], None],
    run: RunPlan,
) -> tuple[SlabResult, dict[str, Any]]:
    """Compute point ``k`` by ``run``: written units, and numbers by token.

    ``known`` are numbers of all points. ``on_progress`` gets the finished share of the point after each slab.
    """
    place = plan.scratch_place
    own = at_point(p.point, k, lambda part: _sink_of(p, part, k))
    if place is not None:
        place = join(place, f"pass-{p.index}-point-{k}", directory=True)
        own = with_scratch(own, place)
    tables: dict[str, Any] = {
        token: tuple(PartOfTable(sink, k) for sink in sinks)
        for token, sinks in tables_of(plan, p).items()
    }
    results = _Results({o.sink.name: o.sink for o in p.program.outputs}, k)
    swept, slabs = itertools.count(1), sum(len(q.grid) for q in own.passes)

    def count(result: SlabResult) -> None:
        on_progress(next(swept) / slabs)
        results.add(result)

    try:
        found = run(replace(own, tables=tables), count)
    finally:
        if place is not None:
            with suppress(OSError):
                Place.of(place).remove()
    states: dict[str, Any] = {}
    values = [v for v in p.point.results if isinstance(v, Value) and found_here(v, known)]
    # in the order of the plan
    for value, fold in zip(values, p.program.folds, strict=False):
        number = evaluate(value, found)
        states[fold.token] = {k: number} if isinstance(fold.reduction, PerPoint) else number
    for token, sinks in tables.items():
        states[rows_token(token)] = {k: sinks[0].shards if sinks else 0}
    return results.total(), states


def _sink_of(p: PointsPass, part: Sink, k: int) -> Sink:
    """The part of an output that point ``k`` writes; the output may have been moved."""
    assert part.at is not None
    planned = [s for s in p.point.results if isinstance(s, Sink)]
    now = [o.sink for o in p.program.outputs]
    whole = next(n for n, s in zip(now, planned, strict=True) if s.kvstore == part.kvstore)
    like = next(
        own
        for own in whole.parts
        if own.at is not None and (own.level, own.at[1:]) == (part.level, part.at[1:])
    )
    made: Sink = TimePointSink.of(like.at_time(k))
    return made


class _Results:
    """The results of a point's slabs, as the result of one slab of the run of all points."""

    def __init__(self, outputs: Mapping[str, Sink], k: int) -> None:
        self.outputs, self.k, self.sum = outputs, k, SlabResult()
        #: By output and unit, whether the unit is stored, and its checksum.
        self.units: dict[str, dict[int, tuple[bool, int]]] = {name: {} for name in outputs}

    def add(self, result: SlabResult) -> None:
        self.sum.seconds += result.seconds
        self.sum.bytes_read += result.bytes_read
        self.sum.bytes_written += result.bytes_written
        for name, sink in self.outputs.items():
            for part in sink.parts:
                part = part.at_time(self.k)
                sums = iter(result.sums.get(part.name, ()))
                for unit in result.written.get(part.name, ()):
                    self.units[name][sink.unit_of(part, unit)] = (True, next(sums))
                for unit in result.empty.get(part.name, ()):
                    self.units[name][sink.unit_of(part, unit)] = (False, 0)

    def total(self) -> SlabResult:
        for name, units in self.units.items():
            ordered = sorted(units.items())
            self.sum.written[name] = [unit for unit, (stored, _) in ordered if stored]
            self.sum.sums[name] = [total for _, (stored, total) in ordered if stored]
            self.sum.empty[name] = [unit for unit, (stored, _) in ordered if not stored]
        return self.sum
