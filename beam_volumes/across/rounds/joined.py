"""Tables with rows that combine the rows of other tables with the same label, in buckets of labels.

Rows are distributed over *buckets* by a hash of their labels. The number of buckets depends on the
number of rows. A bucket may look up keys in one more table, which is distributed by a hash of these
keys. The result does not depend on the buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beam_volumes.across.rounds.agglomeration import DEPTH, LEAF, RADIX, leaf_size
from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.rounds.records import Records
from beam_volumes.across.rounds.tables import by_bucket, likely_shard_bytes, table_flow
from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import format_bytes

#: The columns of the rows of a bucket, by increasing label, by entry.
Given = Mapping[str, Sequence[np.ndarray]]


@dataclass(frozen=True, eq=False)
class JoinedStep(TableStep):
    """A step that joins rows of its inputs by their label, the first of the used columns."""

    takes_any_order = True

    row_bytes: ClassVar[int]  #: Bytes for a label, of all of its rows together.
    joined: ClassVar[str]  #: The name of the rows in messages.
    #: The last entry: its labels are the keys that `keys` looks up, and its second column their values.
    looked_up: ClassVar[str]
    #: Parameters of the buckets; they do not change the result.
    bucket: ClassVar[int] = LEAF
    max_buckets: ClassVar[int] = RADIX**DEPTH

    @property
    def used(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that are used, by entry."""
        raise NotImplementedError

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(self.used)

    def keys(self, given: Given) -> np.ndarray:
        """The keys that the rows of a bucket look up, uint64."""
        raise NotImplementedError

    def made(self, given: Given, keys: np.ndarray, values: np.ndarray) -> Records:
        """Compute the rows of a bucket, sorted, from increasing keys with their values."""
        raise NotImplementedError

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        width = 8 * len(self.rows.names)
        count = self.max_buckets
        table = table_flow(
            self.rows, count, limit_bytes=limit_bytes, row_bytes=width, ordered=ordered
        )
        first, *rest = table.rounds
        bucket = leaf_size(self.bucket, self.row_bytes, limit_bytes)
        return Flow(
            (
                *(
                    _Sent(entry, ("count", "place"), self, number)
                    for number, entry in enumerate(self.entries)
                ),
                _Count("count", ("place", "join"), bucket, count),
                _Place("place", ("join", "look"), self),
                _Join("join", ("look", "finish"), self, limit_bytes),
                _Look("look", ("finish",)),
                _Finish("finish", first.to, self, first),
                *rest,
            ),
            table.ports,
        )

    def most_rows(self, rows: Sequence[int]) -> int:
        return rows[0]

    def likely_bytes(self, rows: Sequence[int], shape: Triple) -> int:
        # With less memory there are more buckets, up to their maximum.
        bucket = math.ceil(rows[0] / self.max_buckets) * self.row_bytes
        table = likely_shard_bytes(rows[0], 8 * len(self.rows.names))
        return max(bucket, table)

    def most_bytes(self, rows: Sequence[int]) -> int:
        return rows[0] * self.row_bytes


@dataclass(frozen=True, eq=False)
class _Sent(Round):
    """For a shard: send its number of rows; its columns wait."""

    of: JoinedStep
    number: int  #: The number of the entry.

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        columns = [np.asarray(values[0][name]) for name in self.of.used[self.name]]
        shard = (self.number, *key)
        yield "count", (), (shard, len(columns[0]))
        yield "place", shard, columns


@dataclass(frozen=True, eq=False)
class _Count(Round):
    """Send the number of buckets to all shards."""

    bucket: int
    max_buckets: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        counts: dict[Key, int] = dict(values)
        by_entry: dict[int, int] = {}
        for (entry, *_), count in counts.items():
            by_entry[entry] = by_entry.get(entry, 0) + count
        buckets = min(self.max_buckets, max(1, -(-max(by_entry.values()) // self.bucket)))
        for shard in counts:
            yield "place", shard, buckets
        yield "join", (0,), None  # though there be nothing


@dataclass(frozen=True, eq=False)
class _Place(Round):
    """For a shard: send its rows to their buckets."""

    of: JoinedStep

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        columns, buckets = only(values, list), only(values, int)
        labels = columns[0].astype(np.uint64)
        to = "look" if self.of.entries[key[0]] == self.of.looked_up else "join"
        for bucket, at in by_bucket(labels, buckets) if len(labels) else ():
            yield to, (bucket,), (key, buckets, [column[at] for column in columns])


def _joined(parts: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """The columns of some parts, by increasing label."""
    columns = [*map(np.concatenate, zip(*parts, strict=True))]
    order = np.argsort(columns[0], kind="stable")
    return [column[order] for column in columns]


@dataclass(frozen=True, eq=False)
class _Join(Round):
    """For a bucket: join its rows, which wait, and look up their keys."""

    of: JoinedStep
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        of = self.of
        parts = {shard: rest for shard, *rest in (v for v in values if v is not None)}
        if not parts:  # though there be nothing
            yield "finish", key, None
            return
        given = {
            entry: _joined([own for (k, *_), (_, own) in parts.items() if k == number])
            for number, entry in enumerate(of.entries)
            if entry != of.looked_up
        }
        count = len(next(iter(given.values()))[0])
        need = count * of.row_bytes
        if self.limit_bytes is not None and need > self.limit_bytes:
            more = -(-(need - self.limit_bytes) >> 20)
            raise ValueError(
                f"{of.name}: a step joins {count:,} {of.joined}, {format_bytes(need)}, but a worker has "
                f"{format_bytes(self.limit_bytes)}: increase memory= by {more} MiB for each slab in flight"
            )
        yield "finish", key, given
        buckets = next(number for number, _ in parts.values())
        wanted = np.unique(of.keys(given))
        for bucket, at in by_bucket(wanted, buckets):
            yield "look", (bucket,), (key, wanted[at])


@dataclass(frozen=True, eq=False)
class _Look(Round):
    """For a bucket of keys: send the values of those that are wanted and there."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        parts = {v[0]: v[2] for v in values if len(v) == 3}
        if not parts:
            return
        known, *columns = _joined([*parts.values()])
        known = known.astype(np.uint64)
        for bucket, wanted in {v[0]: v[1] for v in values if len(v) == 2}.items():
            at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            some = known[at] == wanted
            yield "finish", bucket, (key, wanted[some], columns[0][at[some]])


@dataclass(frozen=True, eq=False)
class _Finish(Round):
    """For a bucket: the rows of the result."""

    of: JoinedStep
    table: Round

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        given = only(values, dict)
        if given is None:
            yield from self.table.step(key, [self.of.rows.empty()])
            return
        found = {v[0]: v[1:] for v in values if type(v) is tuple}
        nothing = np.empty(0, np.uint64), np.empty(0, np.uint64)
        keys, numbers = _joined([nothing, *found.values()])
        yield from self.table.step(key, [self.of.made(given, keys, numbers)])
