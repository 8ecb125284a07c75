"""Tables too large for one place: slabs' parts merged by range of labels, in rounds.

Labels may be any 64-bit numbers, so where the table is cut is learnt from a sample: of all rows those
with the smallest hashes, which is the same however the volume was cut into slabs, a row that several
slabs have counts once, and how small they are tells how many rows there are. The sample's quantiles
go back to each slab's part, which is cut there and sent on: first what some hundred slabs have of a
shard is merged, then the shard.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.across import adjacency as pairs
from beam_volumes.across import tables
from beam_volumes.across.adjacency import Adjacency
from beam_volumes.across.rounds import Flow, Key, Message, Round
from beam_volumes.across.tables import Regions
from beam_volumes.geometry import Triple

#: Rows of a shard, about.
ROWS = 1 << 16
#: Rows of a sample.
SAMPLE = 1 << 14
#: Slabs whose parts meet before they meet the others.
GROUP = 512

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Table:
    """What kind of rows a table has: a frozen dataclass of plain data beside the functions below.

    Parts of it have a length, `nbytes`, and rows by slice or index.
    """

    def empty(self) -> Any:
        """A part without rows."""
        raise NotImplementedError

    def labels(self, part: Any) -> np.ndarray:
        """The labels that rows are sorted by, uint64."""
        raise NotImplementedError

    def hashes(self, part: Any) -> np.ndarray:
        """Random numbers of the rows, uint64, the same wherever a row occurs."""
        raise NotImplementedError

    def merge(self, parts: list[Any]) -> Any:
        """Parts that may have the same rows, as one."""
        raise NotImplementedError

    def columns(self, part: Any) -> Columns:
        """The rows as users see them, sorted."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class RegionTable(Table):
    """Regions, by label; see `beam_volumes.across.tables.properties`.

    Attributes
    ----------
    shape : tuple of int
        Of the volume.
    names : tuple of str or None
    spacing : tuple of float
    ndim : int
    intensity : numpy.dtype or None
        Of the intensities.
    """

    shape: Triple
    names: tuple[str, ...] | None = None
    spacing: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ndim: int = 3
    intensity: np.dtype | None = None

    def empty(self) -> Regions:
        nothing = np.zeros((1, 1, 1), np.uint8)
        values = None if self.intensity is None else nothing.astype(self.intensity)
        return tables.regions(nothing, (0, 0, 0), (1, 1, 1), values)

    def labels(self, part: Regions) -> np.ndarray:
        return part.label

    def hashes(self, part: Regions) -> np.ndarray:
        return mixed(part.label)

    def merge(self, parts: list[Regions]) -> Regions:
        return tables.merge(parts)

    def columns(self, part: Regions) -> Columns:
        return tables.properties(part, self.shape, self.names, self.spacing, self.ndim)


@dataclass(frozen=True, eq=False)
class AdjacencyTable(Table):
    """Touching pairs, by their smaller label; see `beam_volumes.across.adjacency.columns`.

    Attributes
    ----------
    boundary : bool
        Whether there is a boundary volume.
    bins : int
        Of its histogram.
    """

    boundary: bool = False
    bins: int = 0

    def empty(self) -> Adjacency:
        edges = np.arange(self.bins + 1.0) if self.bins else None
        return pairs.adjacency(np.zeros((1, 1, 1), np.uint8), edges=edges)

    def labels(self, part: Adjacency) -> np.ndarray:
        return part.pairs[:, 0]

    def hashes(self, part: Adjacency) -> np.ndarray:
        return mixed(mixed(part.pairs[:, 0]) ^ part.pairs[:, 1])

    def merge(self, parts: list[Adjacency]) -> Adjacency:
        return pairs.merge(parts)

    def columns(self, part: Adjacency) -> Columns:
        return pairs.columns(part, self.boundary)


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Other 64-bit numbers that look random, one to one (the finalizer of splitmix64)."""
    x = numbers.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


class Sample(NamedTuple):
    """The hashes of some rows, ascending, and their labels."""

    hashes: np.ndarray
    labels: np.ndarray


def sampled(samples: Iterable[Sample], size: int = SAMPLE) -> Sample:
    """The rows of the smallest hashes: of samples of parts, the sample of the whole."""
    samples = list(samples)
    hashes = np.concatenate([s.hashes for s in samples])
    labels = np.concatenate([s.labels for s in samples])
    smallest, first = np.unique(hashes, return_index=True)
    return Sample(smallest[:size], labels[first[:size]])


def splitters(sample: Sample, rows: int = ROWS, size: int = SAMPLE) -> np.ndarray:
    """The least label of each shard but the first, for shards of about this many rows."""
    count = float(len(sample.hashes))
    if len(sample.hashes) >= size:  # the hashes of all rows fill 0 ... 2**64 evenly
        count = (size - 1) * 2.0**64 / float(sample.hashes[size - 1])
    labels = np.sort(sample.labels)
    shards = min(len(labels), max(1, round(count / rows)))
    chosen = np.unique(labels[np.arange(1, shards) * len(labels) // max(1, shards)])
    return chosen[chosen > labels[0]] if len(labels) else chosen


def _once(values: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Of values that say who sent them, one from each, in order."""
    return [value for _, value in sorted(dict(values).items(), key=lambda item: item[0])]


@dataclass(frozen=True, eq=False)
class _Step(Round):
    table: Table
    rows: int
    sample: int
    group: int


class _Slab(_Step):
    """Under a slab: its part in pieces, and their sample."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (slab,), part, table = key, values[0], self.table
        sample = sampled([Sample(table.hashes(part), table.labels(part))], self.sample)
        ranges = []
        for i, piece in enumerate(tables.batches(part)):
            labels = table.labels(piece)
            ranges.append((labels[0], labels[-1]))
            yield "cut", (slab, i), piece
        yield "sample", (slab // self.group,), (slab, (ranges, sample))


class _Sample(_Step):
    """Under a group of slabs: their sample."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        slabs = dict(values)
        sample = sampled((s for _, s in slabs.values()), self.sample)
        yield "split", (), (key, sample)
        yield "spread", key, {slab: ranges for slab, (ranges, _) in slabs.items()}


class _Split(_Step):
    """Under ``()``: where shards begin, to each group; and that each shard exists."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        groups = dict(values)
        sample = sampled(groups.values(), self.sample)
        found = splitters(sample, self.rows, self.sample)
        for group in groups:
            yield "spread", group, found
        for shard in range(len(found) + 1):
            yield "shard", (shard,), ((), self.table.empty())
        yield "numbers", (), {"shards": len(found) + 1}


class _Spread(_Step):
    """Under a group: to each piece the beginnings of shards that it has rows of."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        slabs = next(v for v in values if isinstance(v, dict))
        found = next(v for v in values if isinstance(v, np.ndarray))
        for slab, ranges in slabs.items():
            for i, (least, most) in enumerate(ranges):
                a, b = np.searchsorted(found, [least, most], side="right").tolist()
                yield "cut", (slab, i), (a, found[a:b])


class _Cut(_Step):
    """Under a piece of a slab's part: its rows to the shards."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        slab, _ = key
        found: np.ndarray
        first, found = next(v for v in values if isinstance(v, tuple))
        piece = next(v for v in values if not isinstance(v, tuple))
        edges = np.searchsorted(self.table.labels(piece), found).tolist()
        for k, (a, b) in enumerate(itertools.pairwise([0, *edges, len(piece)])):
            if a < b:
                yield "gather", (first + k, slab // self.group), (key, piece[a:b])


class _Gather(_Step):
    """Under a shard and a group of slabs: what they have of it, merged."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        shard, group = key
        for i, piece in enumerate(tables.batches(self.table.merge(_once(values)))):
            yield "shard", (shard,), ((group, i), piece)


class _Shard(_Step):
    """Under a shard: its rows."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "rows", key, self.table.columns(self.table.merge(_once(values)))


def table_flow(table: Table, rows: int = ROWS, sample: int = SAMPLE, group: int = GROUP) -> Flow:
    """The merge of slabs' parts to a table in shards.

    Given under ``(slab,)`` the slab's part, it sends to the port ``"rows"`` under ``(shard,)`` the
    columns of a shard, and to ``"numbers"`` how many ``"shards"`` there are. Shards are numbered from 0
    in the order of their labels, each has about ``rows`` rows, and a table without rows has one. (Given
    no slab at all, nothing comes out: ``table.columns(table.empty())`` are the columns then.) Where
    shards begin depends on the rows alone, not on the slabs.

    Parameters
    ----------
    table : Table
    rows : int
        Of a shard.
    sample, group : int
        Rows of a sample, and slabs that meet at once: what a worker holds.

    Examples
    --------
    >>> import numpy as np
    >>> from beam_volumes.across import rounds, tables
    >>> labels = np.array([[[7, 7, 0, 4]]])
    >>> part = tables.regions(labels, (0, 0, 0), labels.shape)
    >>> flow = table_flow(RegionTable(labels.shape, ("num_pixels",)))
    >>> [((shard,), columns)] = rounds.run(flow, [((0,), part)])["rows"]
    >>> columns["label"].tolist(), columns["num_pixels"].tolist()
    ([4, 7], [1, 2])
    """
    how = (table, rows, sample, group)
    return Flow(
        (
            _Slab("slabs", ("sample", "cut"), *how),
            _Sample("sample", ("split", "spread"), *how),
            _Split("split", ("spread", "shard", "numbers"), *how),
            _Spread("spread", ("cut",), *how),
            _Cut("cut", ("gather",), *how),
            _Gather("gather", ("shard",), *how),
            _Shard("shard", ("rows",), *how),
        ),
        ("rows", "numbers"),
    )


def joined(shards: Sequence[tuple[Key, Columns]]) -> Columns:
    """All shards of a table that fits into memory, in order; a shard that comes twice counts once."""
    parts = _once(shards)
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
