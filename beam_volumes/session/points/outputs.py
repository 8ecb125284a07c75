"""The parts of outputs and tables that one time point writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.plan.plan import Plan
from beam_volumes.plan.points import PointsPass, rows_token
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.claims import Watched


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
