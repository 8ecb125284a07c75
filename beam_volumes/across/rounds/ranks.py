"""Consecutive numbers for the labels of a table, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.rounds.tables import Columns, label_column


@dataclass(frozen=True, eq=False)
class Ranks(TableStep):
    """The labels of a table with one row for each, and their numbers from ``offset``.

    >>> from beam_volumes.across.rounds.flow import run
    >>> flow = Ranks("ranks", "label", 1).flow()
    >>> given = [((1,), {"label": np.array([9])}), ((0,), {"label": np.array([2, 5])})]
    >>> [(key, rows["new_label"].tolist()) for key, rows in run(flow, given)["rows"]]
    [((0,), [1, 2]), ((1,), [3])]
    """

    column: str  #: The column of labels, by which the table is sorted.
    offset: int
    inverse: bool = False  #: Whether new labels are the first column.

    entries = ("labels",)

    def flow(self, limit_bytes: int | None = None) -> Flow:
        return Flow(
            (
                _Labels("labels", ("total", "number"), self.column),
                _Total("total", ("number", "numbers"), self.offset),
                _Number("number", ("rows",), self),
            ),
            ("rows", "numbers"),
        )

    def columns(self, labels: np.ndarray, first: int) -> Columns:
        if first + len(labels) > 2**64:
            raise ValueError(
                f"{self.name}: offset={self.offset}: the last new label does not fit uint64; use a "
                "smaller offset="
            )
        new = np.arange(len(labels), dtype=np.uint64) + np.uint64(first)
        both = {"label": labels.astype(np.uint64), "new_label": new}
        return dict(reversed(both.items())) if self.inverse else both

    def no_rows(self) -> Columns:
        return self.columns(np.empty(0, np.uint64), 0)


@dataclass(frozen=True, eq=False)
class _Labels(Round):
    """For a shard of the table: its labels, and their number."""

    column: str

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        labels = label_column(values[0], self.column, self.name)
        yield "total", (), (key, len(labels))
        yield "number", key, labels


@dataclass(frozen=True, eq=False)
class _Total(Round):
    """Send the number of the first label to each shard."""

    offset: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        shards = sorted(dict(values).items())
        firsts = accumulate((count for _, count in shards), initial=self.offset)
        for (shard, _), first in zip(shards, firsts, strict=False):
            yield "number", shard, first
        yield "numbers", (), {"shards": len(shards)}


@dataclass(frozen=True, eq=False)
class _Number(Round):
    """For a shard: its labels with their numbers."""

    ranks: Ranks

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "rows", key, self.ranks.columns(only(values, np.ndarray), only(values, int))
