"""A point in time, computed as a run by itself in the process that has its slab."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import Value, evaluate
from beam_volumes.plan.estimate.scratch import with_scratch
from beam_volumes.plan.points import PerPoint, PointsPass, at_point, found_here, rows_token
from beam_volumes.session.session import Session
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.claims import ANY, Watched
from beam_volumes.storage.places.place import Place, join
from beam_volumes.sweep.writing import SlabResult

#: By token.
Numbers = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TimePointSink(Sink):
    """A part of an output that is made and finished as a whole by the run of all points."""

    def exists(self) -> bool:
        return False

    def create(
        self,
        run_id: str,
        overwrite: bool = False,
        replaces: str | None = ANY,
        unfinished: Mapping[str, Any] | None = None,
    ) -> None:
        pass

    def finish(self, run_id: str | None = None, durable: bool = False) -> None:
        pass

    @classmethod
    def of(cls, sink: Sink) -> Any:
        if not hasattr(sink, "_held"):
            return cls(**{name: getattr(sink, name) for name in Sink.__dataclass_fields__})
        return sink  # an array of this process is made already


@dataclass
class PartOfTable:
    """The rows of a point, written to the table of all with a column that names the point."""

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

    def create(
        self,
        run_id: str,
        overwrite: bool = False,
        replaces: str | None = ANY,
        unfinished: Mapping[str, Any] | None = None,
    ) -> None:
        pass

    def write(self, shard: int, columns: Mapping[str, Any], run_id: str | None = None) -> None:
        rows = len(next(iter(columns.values())))
        own = {"t": np.full(rows, self.point, np.int64), **columns}
        self.whole.write(shard_of(self.point, shard), own, run_id)

    def finish(self, shards: int, run_id: str | None = None, durable: bool = False) -> None:
        self.shards = shards


def shard_of(point: int, shard: int) -> str:
    """What a shard of a point's rows is called: in the order of points."""
    return f"{point:07d}-{shard:05d}"


def compute_point(
    session: Session, p: PointsPass, k: int, known: Numbers, on_progress: Callable[[float], None]
) -> tuple[SlabResult, dict[str, Any]]:
    """Compute point ``k``; what was written, and what was found by token.

    ``known`` is what passes before have found of all points. After each slab,
    ``on_progress`` is called with the finished share of the point.
    """
    from beam_volumes.session.local import run_local  # it sweeps slabs, of which this is one

    # Outputs may have been moved since the point was planned: scratch is the run's.
    planned = [s for s in p.point.results if isinstance(s, Sink)]
    now = [o.sink for o in p.program.outputs]

    def part_of(part: Sink) -> Sink:
        assert part.at is not None
        whole = next(n for n, s in zip(now, planned, strict=True) if s.kvstore == part.kvstore)
        rest = part.at[1:]
        like = next(
            own
            for own in whole.parts
            if own.at is not None and (own.level, own.at[1:]) == (part.level, rest)
        )
        made: Sink = TimePointSink.of(like.at_time(k))
        return made

    plan = at_point(p.point, k, part_of)
    place = session.plan.scratch_place
    if place is not None:
        place = join(place, f"pass-{p.index}-point-{k}", directory=True)
        plan = with_scratch(plan, place)
    tables: dict[str, Any] = {
        token: tuple(PartOfTable(sink, k) for sink in sinks)
        for token, sinks in _tables(session, p).items()
    }
    own = replace(
        session,
        plan=replace(plan, tables=tables),
        journal=None,
        parts=None,
        inputs={},
        sweeps=session.sweeps or session.plan.sweeps_a_process,
        meters=(),
    )
    outputs = {o.sink.name: o.sink for o in p.program.outputs}
    all_, swept, slabs = SlabResult(), itertools.count(1), sum(len(q.grid) for q in plan.passes)
    found: dict[str, dict[int, tuple[bool, int]]] = {name: {} for name in outputs}

    def count(result: SlabResult) -> None:
        on_progress(next(swept) / slabs)
        all_.seconds += result.seconds
        all_.bytes_read += result.bytes_read
        all_.bytes_written += result.bytes_written
        for name, sink in outputs.items():
            for part in sink.parts:
                part = part.at_time(k)
                sums = iter(result.sums.get(part.name, ()))
                for unit in result.written.get(part.name, ()):
                    found[name][sink.unit_of(part, unit)] = (True, next(sums))
                for unit in result.empty.get(part.name, ()):
                    found[name][sink.unit_of(part, unit)] = (False, 0)

    try:
        found_now = run_local(own, count=count, known=known)
    finally:
        if place is not None:
            with suppress(OSError):
                Place.of(place).remove()
    for name, units in found.items():
        ordered = sorted(units.items())
        all_.written[name] = [unit for unit, (stored, _) in ordered if stored]
        all_.sums[name] = [total for _, (stored, total) in ordered if stored]
        all_.empty[name] = [unit for unit, (stored, _) in ordered if not stored]
    states: dict[str, Any] = {}
    values = [v for v in p.point.results if isinstance(v, Value) and found_here(v, known)]
    # In the order in which they were planned
    for value, fold in zip(values, p.program.folds, strict=False):
        number = evaluate(value, found_now)
        states[fold.token] = {k: number} if isinstance(fold.reduction, PerPoint) else number
    for token, sinks in tables.items():
        states[rows_token(token)] = {k: sinks[0].shards if sinks else 0}
    return all_, states


def finish_tables(session: Session, p: PointsPass, found: Mapping[str, Any]) -> None:
    """Make the tables of all points whole."""
    for token, sinks in _tables(session, p).items():
        counts = np.asarray(found[rows_token(token)])
        shards = [shard_of(k, n) for k, many in enumerate(counts.tolist()) for n in range(many)]
        for sink in sinks:
            sink.finish(shards, session.run_id, session.durable)


def _tables(session: Session, p: PointsPass) -> dict[str, tuple[TableSink, ...]]:
    """By barrier, the tables that the points of a pass write rows of: a pass before it may write none."""
    counted = {f.token for f in p.program.folds}
    return {t: sinks for t, sinks in session.plan.tables.items() if rows_token(t) in counted}
