"""The rows of a table in another order: labels by their size, and by their number again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.records import RecordRows, Records
from beam_volumes.across.rounds.tables import ROWS, SAMPLE, Columns, label_column, table_flow


@dataclass(frozen=True, eq=False)
class Sorted(TableStep):
    """The rows of a table, sorted by other columns."""

    voxels: int  #: Of the volume, which has no more rows.

    entries = ("shards",)

    def part(self, columns: Columns) -> Records:
        """The rows of a shard."""
        raise NotImplementedError

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        # Rows are counted by a sample of them, up to a few percent.
        shards = max(1, min(SAMPLE, 2 * self.voxels // ROWS))
        row_bytes = sum(np.dtype(dtype).itemsize for _, dtype in self.rows.names)
        table = table_flow(
            self.rows, shards, limit_bytes=limit_bytes, row_bytes=row_bytes, ordered=ordered
        )
        first, *rest = table.rounds
        return Flow((_Shard("shards", first.to, self, first), *rest), table.ports)


@dataclass(frozen=True, eq=False)
class BySize(Sorted):
    """Labels from a minimum size, sorted by decreasing size, then by label; or only by label.

    >>> from beam_volumes.across.rounds.flow import run
    >>> given = {"label_a": np.array([3, 5, 8, 9]), "count": np.array([4, 7, 1, 7])}
    >>> flow = BySize("sizes", voxels=99, min_size=2, is_by_size=True).flow()
    >>> [rows["label"].tolist() for _, rows in run(flow, [((0,), given)])["rows"]]
    [[5, 9, 3]]
    """

    min_size: int
    is_by_size: bool

    @property
    def rows(self) -> RecordRows:
        return RecordRows((("order", "<u8"), ("label", "<u8")), labels=2)

    def part(self, columns: Columns) -> Records:
        labels = label_column(columns, "label_a", self.name)
        counts = columns["count"].astype(np.uint64)
        kept = counts >= np.uint64(self.min_size)
        order = ~counts if self.is_by_size else np.zeros_like(counts)
        return self.rows.of(order=order[kept], label=labels[kept])


@dataclass(frozen=True, eq=False)
class ByLabel(Sorted):
    """Labels and their new numbers, sorted by label."""

    @property
    def rows(self) -> RecordRows:
        return RecordRows((("label", "<u8"), ("new_label", "<u8")))

    def part(self, columns: Columns) -> Records:
        return self.rows.records(columns)


@dataclass(frozen=True, eq=False)
class _Shard(Round):
    """For a shard of the table: its rows, sent on like the rows of a slab."""

    of: Sorted
    table: Round

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        part = self.of.rows.merge([self.of.part(values[0])])
        yield from self.table.step(key, [part])
