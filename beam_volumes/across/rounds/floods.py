"""How high floods stand in basins: of a table of passes and one of levels, one of floods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.records import RecordRows
from beam_volumes.across.rounds.tables import Columns, table_flow
from beam_volumes.base.text import format_bytes
from beam_volumes.kernels.labels.saddles import lowest_floods

#: What is held for a basin, and for a pass.
BASIN_BYTES, PASS_BYTES = 150, 100


@dataclass(frozen=True, eq=False)
class Floods(TableStep):
    """For each basin the lowest that a flood can stand in it, coming from any basin's level.

    The first input is a table of pairs of basins and the passes between them (``label_a``, ``label_b``,
    ``boundary_min``), the second one of all basins and their levels.
    """

    dtype: np.dtype  #: Of levels.
    columns: tuple[str, str]  #: Of basins and levels.
    #: The sign of zero that floods have: rows come in any order, so that it cannot be anybody's
    #: own.
    zero: float

    entries = ("passes", "levels")

    @property
    def rows(self) -> RecordRows:
        return RecordRows((("label", "<u8"), ("level", self.dtype.str)))

    def flow(self, limit_bytes: int | None = None) -> Flow:
        table = table_flow(self.rows, 1, limit_bytes=limit_bytes, row_bytes=16)
        first, *rest = table.rounds
        return Flow(
            (
                Onward("passes", ("all",), ("label_a", "label_b", "boundary_min")),
                Onward("levels", ("all",), self.columns),
                _All("all", first.to, first, self.rows, self.name, self.zero, limit_bytes),
                *rest,
            ),
            table.ports,
        )

    def no_rows(self) -> Columns:
        return self.rows.columns(self.rows.empty())


@dataclass(frozen=True, eq=False)
class Onward(Round):
    """Under a shard: some columns, to all."""

    columns: tuple[str, ...]

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield (
            "all",
            (),
            ((self.name, *key), *(np.asarray(values[0][name]) for name in self.columns)),
        )


@dataclass(frozen=True, eq=False)
class _All(Round):
    """Under ``()``: the flood of each basin."""

    table: Round
    rows: RecordRows
    what: str
    zero: float
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        parts = {shard: part for shard, *part in values}
        passes = [p for shard, p in parts.items() if shard[0] == "passes"]
        levels = [p for shard, p in parts.items() if shard[0] == "levels"]
        need = BASIN_BYTES * sum(len(p[0]) for p in levels)
        need += PASS_BYTES * sum(len(p[0]) for p in passes)
        if self.limit_bytes is not None and need > self.limit_bytes:
            raise ValueError(
                f"{self.what}: all basins and passes between them meet in one step, {format_bytes(need)}; "
                f"a worker has {format_bytes(self.limit_bytes)} for it: give a memory= that is larger by "
                f"{-(-(need - self.limit_bytes) >> 20)} MiB a slab in flight, or smooth the volume first"
            )
        labels, own = (np.concatenate([p[k] for p in levels]) for k in (0, 1))
        order = np.argsort(labels)
        labels, own = labels[order], own[order]
        if passes:
            a, b, height = (np.concatenate([p[k] for p in passes]) for k in (0, 1, 2))
        else:
            a = b = np.empty(0, np.uint64)
            height = np.empty(0)
        order = np.argsort(height, kind="stable")
        ends = [np.searchsorted(labels, side[order].astype(labels.dtype)) for side in (a, b)]
        floods = lowest_floods(
            ends[0].astype(np.int64),
            ends[1].astype(np.int64),
            np.where(height == 0, self.zero, height)[order],
            np.where(own == 0, self.zero, own.astype(np.float64)),
        )
        made = self.rows.records({"label": labels, "level": floods.astype(self.rows.names[1][1])})
        yield from self.table.step(key or (0,), [made])
