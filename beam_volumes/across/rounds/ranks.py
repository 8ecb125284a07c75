"""Consecutive numbers for the rows of a table, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.rounds.tables import Columns, label_column


@dataclass(frozen=True, eq=False)
class Numbered(TableStep):
    """A table with consecutive numbers for the rows of a sorted table, from ``first`` on."""

    entries = ("labels",)

    @property
    def first(self) -> int:
        """The number of the first row."""
        return 1

    def taken(self, shard: Columns) -> Columns:
        """The columns of a shard that `columns` needs."""
        return shard

    def size(self, taken: Columns) -> Any:
        """What `firsts` needs from a shard; its number of rows."""
        return len(next(iter(taken.values())))

    def firsts(self, sizes: Iterable[Any]) -> Iterator[tuple[int, ...]]:
        """For each shard, in order, the arguments of `columns`."""
        return ((first,) for first in accumulate(sizes, initial=self.first))

    def columns(self, taken: Columns, first: int) -> Columns:
        """The rows of a shard; ``first`` is the number of its first row."""
        raise NotImplementedError

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        return Flow(
            (
                _Rows("labels", ("total", "number"), self),
                _Total("total", ("number", "numbers"), self),
                _Number("number", ("rows",), self),
            ),
            ("rows", "numbers"),
        )


@dataclass(frozen=True, eq=False)
class Ranks(Numbered):
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

    @property
    def first(self) -> int:
        return self.offset

    def taken(self, shard: Columns) -> Columns:
        return {"label": label_column(shard, self.column, self.name)}

    def columns(self, taken: Columns, first: int) -> Columns:
        labels = taken["label"]
        if first + len(labels) > 2**64:
            raise ValueError(
                f"{self.name}: offset={self.offset}: the last new label does not fit uint64; use a "
                "smaller offset="
            )
        new = np.arange(len(labels), dtype=np.uint64) + np.uint64(first)
        both = {"label": labels, "new_label": new}
        return dict(reversed(both.items())) if self.inverse else both

    def no_rows(self) -> Columns:
        return self.columns({"label": np.empty(0, np.uint64)}, 0)


@dataclass(frozen=True, eq=False)
class _Rows(Round):
    """For a shard of the table: its rows, and their number."""

    of: Numbered

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        taken = self.of.taken(values[0])
        yield "total", (), (key, self.of.size(taken))
        yield "number", key, taken


@dataclass(frozen=True, eq=False)
class _Total(Round):
    """Send the number of the first row to each shard."""

    of: Numbered

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        shards = sorted(dict(values).items())
        firsts = self.of.firsts([size for _, size in shards])
        for (shard, _), first in zip(shards, firsts, strict=False):
            yield "number", shard, first
        yield "numbers", (), {"shards": len(shards)}


@dataclass(frozen=True, eq=False)
class _Number(Round):
    """For a shard: its rows with their numbers."""

    of: Numbered

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "rows", key, self.of.columns(only(values, dict), *only(values, tuple))
