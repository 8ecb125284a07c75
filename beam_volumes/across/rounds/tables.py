"""Tables too large for one process: slabs' parts merged by range of labels, in rounds.

Labels may be any 64-bit numbers, so the ranges are computed from a sample: the rows with the
smallest hashes. It is independent of slabs, counts a row of several slabs once, and the size of the
hashes estimates the number of rows. The sample's quantiles are sent to the part of each slab, which
is divided there and sent on. A shard is merged in *bins*, narrower ranges, up a tree of slabs:
``gather-1``, ``gather-2``, ..., and finally a shard of its bins. So the memory of a step is
bounded, even if many slabs have the same rows. The sample goes up the same tree before
(``sample-n``), and the ranges down again (``spread-n``): there the memory of each step of the merge
is estimated from the samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.across import adjacency as pairs
from beam_volumes.across import tables
from beam_volumes.across.adjacency import Adjacency
from beam_volumes.across.exact import RowSize, Wide, joined_size, row_size
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.tables import Regions
from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import format_bytes

#: Approximate rows of a shard, and bins that it is merged in.
ROWS, BINS = 1 << 15, 16
#: Rows of a sample.
SAMPLE = 1 << 14
#: Slabs, or groups of them, that one step combines.
RADIX = 32
#: Copies of rows during a merge: in parts, joined, sorted and summed.
MERGE_COPIES = 5
#: Copies of rows that a step has had in measurements, while it merges them and computes columns.
MEASURED_COPIES = 4

Columns = dict[str, np.ndarray]

PAIR = np.dtype([("a", np.uint64), ("b", np.uint64)])


@dataclass(frozen=True, eq=False)
class RowKind:
    """The type of rows of a table: a frozen dataclass of plain data with these methods.

    Parts of it have a length, `nbytes`, and rows by slice or index. Parts with exact numbers list these
    arrays in ``exact``.
    """

    def empty(self) -> Any:
        """A part without rows."""
        raise NotImplementedError

    def keys(self, part: Any) -> np.ndarray:
        """The sort keys of rows; unique in a merged part."""
        raise NotImplementedError

    def hashes(self, part: Any) -> np.ndarray:
        """Random numbers of the rows, uint64, the same for equal rows."""
        raise NotImplementedError

    def merge(self, parts: list[Any]) -> Any:
        """Merge parts that may have the same rows."""
        raise NotImplementedError

    def columns(self, part: Any) -> Columns:
        """The rows as columns for users, sorted."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class RegionRows(RowKind):
    """Regions, by label; see `beam_volumes.across.tables.properties`."""

    shape: Triple  #: Shape of the volume.
    names: tuple[str, ...] | None = None
    spacing: tuple[float, float, float] = (1.0, 1.0, 1.0)
    axes: tuple[int, ...] = (0, 1, 2)
    intensity: np.dtype | None = None  #: Dtype of the intensities.

    def empty(self) -> Regions:
        nothing = np.zeros((1, 1, 1), np.uint8)
        values = None if self.intensity is None else nothing.astype(self.intensity)
        arrays = tables.arrays_for(self.names)
        return tables.regions(nothing, (0, 0, 0), (1, 1, 1), values, arrays=arrays, contour=nothing)

    def keys(self, part: Regions) -> np.ndarray:
        return part.label

    def hashes(self, part: Regions) -> np.ndarray:
        return mixed(part.label)

    def merge(self, parts: list[Regions]) -> Regions:
        arrays = tables.arrays_for(self.names)
        return tables.merge(part.only(arrays) for part in parts)

    def columns(self, part: Regions) -> Columns:
        return tables.properties(part, self.shape, self.names, self.spacing, self.axes)


@dataclass(frozen=True)
class ChannelColumns:
    """The same regions with the intensities of each channel."""

    parts: tuple[Regions, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: slice | np.ndarray) -> ChannelColumns:
        return ChannelColumns(tuple(part[rows] for part in self.parts))

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    @property
    def exact(self) -> tuple[Wide, ...]:
        """The arrays of exact numbers."""
        return tuple(wide for part in self.parts for wide in part.exact)


@dataclass(frozen=True, eq=False)
class ChannelRows(RowKind):
    """Regions with intensities of several channels: a column for each channel and property."""

    of: RegionRows  #: The rows of one channel.
    names: tuple[str, ...]  #: Names of the channels, the suffixes of these columns.

    def empty(self) -> ChannelColumns:
        return ChannelColumns((self.of.empty(),) * len(self.names))

    def keys(self, part: ChannelColumns) -> np.ndarray:
        return self.of.keys(part.parts[0])

    def hashes(self, part: ChannelColumns) -> np.ndarray:
        return self.of.hashes(part.parts[0])

    def merge(self, parts: list[ChannelColumns]) -> ChannelColumns:
        return merge_columns(parts)

    def columns(self, part: ChannelColumns) -> Columns:
        columns: Columns = {}
        for name in self.of.names or ():
            if name.partition("-")[0] not in tables.WITH_INTENSITY:
                columns |= replace(self.of, names=(name,)).columns(part.parts[0])
                continue
            for own, channel in zip(part.parts, self.names, strict=True):
                found = replace(self.of, names=(name,)).columns(own)
                columns |= {f"{n}-{channel}": c for n, c in found.items() if n != "label"}
        return columns


def merge_columns(parts: list[ChannelColumns]) -> ChannelColumns:
    """Merge parts that may have the same regions."""
    return ChannelColumns(
        tuple(map(tables.merge, map(list, zip(*(p.parts for p in parts), strict=True))))
    )


@dataclass(frozen=True, eq=False)
class PairRows(RowKind):
    """Touching pairs, by both labels; see `beam_volumes.across.adjacency.columns`."""

    boundary: bool = False  #: Whether there is a boundary volume.
    bins: int = 0  #: Bins of its histogram.
    affinities: np.dtype | None = None  #: Dtype of affinities, if these are the boundary.
    axes: tuple[int, ...] = (0, 1, 2)  #: The visible ones of z, y, x.
    names: tuple[str, ...] | None = None  #: The columns, if not all.

    def empty(self) -> Adjacency:
        edges = np.arange(self.bins + 1.0) if self.bins else None
        nothing, arrays = np.zeros((1, 1, 1), np.uint8), pairs.arrays_for(self.names)
        return pairs.adjacency(nothing, edges=edges, arrays=arrays)

    def keys(self, part: Adjacency) -> np.ndarray:
        # By pairs: a label may touch any number of others.
        return np.ascontiguousarray(part.pairs).view(PAIR)[:, 0]

    def hashes(self, part: Adjacency) -> np.ndarray:
        return mixed(mixed(part.pairs[:, 0]) ^ part.pairs[:, 1])

    def merge(self, parts: list[Adjacency]) -> Adjacency:
        return pairs.merge(parts)

    def columns(self, part: Adjacency) -> Columns:
        if self.affinities is not None:
            return pairs.affinity_columns(part, self.affinities, self.axes, self.names)
        return pairs.columns(part, self.boundary, self.axes, self.names)


def label_column(columns: Columns, name: str, what: str) -> np.ndarray:
    """A column of labels as uint64; values that do not fit raise an error."""
    labels = np.asarray(columns[name])
    if labels.dtype.kind not in "bui":
        raise TypeError(f"{what}: {name} has dtype {labels.dtype}: labels must be integers")
    if labels.dtype.kind == "i" and len(labels) and labels.min() < 0:
        raise ValueError(f"{what}: {name} has label {labels.min()}: labels must not be negative")
    return labels.astype(np.uint64)


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Map 64-bit numbers one to one to random-looking ones (the finalizer of splitmix64)."""
    x = numbers.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def by_bucket(labels: np.ndarray, buckets: int) -> Iterator[tuple[int, np.ndarray]]:
    """By bucket that has some of the labels, their positions."""
    number = mixed(labels) % np.uint64(buckets)
    order = np.argsort(number, kind="stable")
    kinds, starts = np.unique(number[order], return_index=True)
    yield from zip(kinds.tolist(), np.split(order, starts[1:]), strict=False)


class Sample(NamedTuple):
    """The hashes of some rows, ascending, and their keys."""

    hashes: np.ndarray
    keys: np.ndarray


def sampled(samples: Iterable[Sample], size: int = SAMPLE) -> Sample:
    """The rows with the smallest hashes: combines samples of parts to a sample of the whole."""
    samples = list(samples)
    hashes = np.concatenate([s.hashes for s in samples])
    keys = np.concatenate([s.keys for s in samples])
    smallest, first = np.unique(hashes, return_index=True)
    return Sample(smallest[:size].copy(), keys[first[:size]])  # a copy, to free the others


def _of_part(hashes: np.ndarray, keys: np.ndarray, size: int) -> Sample:
    """The sample of a part, which has each row once."""
    if len(hashes) > size:
        some = np.argpartition(hashes, size - 1)[:size]
        hashes, keys = hashes[some], keys[some]
    order = np.argsort(hashes)
    return Sample(hashes[order], keys[order])


def _share(hashes: np.ndarray, size: int) -> float:
    """The share of all rows with hashes in a sample, because hashes fill 0 ... 2**64 evenly."""
    return 1.0 if len(hashes) < size else (float(hashes[-1]) + 1) / 2.0**64


class Cuts(NamedTuple):
    """Consecutive bins."""

    first: int  #: Number of the first bin.
    starts: np.ndarray  #: First key of each bin except the first.
    shards: np.ndarray  #: int64. The shard of each bin.

    def of(self, span: np.ndarray) -> Cuts:
        """The bins from the bin of one key to the bin of another."""
        a, b = np.searchsorted(self.starts, span, side="right").tolist()
        return Cuts(self.first + a, self.starts[a:b], self.shards[a : b + 1])


def splitters(sample: Sample, rows: int = ROWS, size: int = SAMPLE) -> Cuts:
    """The starts of the bins of the whole table, for shards of about ``rows`` rows."""
    keys = np.sort(sample.keys)
    share = _share(sample.hashes, size)
    # The last hash of a sample estimates the number of rows and is not counted.
    count = len(keys) if share == 1 else (size - 1) / share
    shards = max(1, min(len(keys), round(count / rows)))
    bins = shards * math.ceil(count / shards / max(1, rows // BINS))
    minimum = _quantiles(keys, min(len(keys), bins))
    begin = _quantiles(keys, shards)
    # Shards begin at bins, as far as the sample distinguishes bins.
    minimum = np.unique(np.concatenate([minimum, begin]))
    of = np.searchsorted(begin, minimum, side="right")
    return Cuts(0, minimum, np.concatenate([[0], of]))


def _quantiles(keys: np.ndarray, parts: int) -> np.ndarray:
    """The starts of all parts except the first, of sorted keys."""
    chosen = np.unique(keys[np.arange(1, parts) * len(keys) // max(1, parts)])
    return chosen[chosen != keys[0]] if len(keys) else chosen


def _by_sender(values: Iterable[tuple[Any, Any]]) -> list[Any]:
    """One value from each sender, in order."""
    return [value for _, value in sorted(dict(values).items(), key=lambda item: item[0])]


@dataclass(frozen=True, eq=False)
class _Task:
    """The parameters of all rounds."""

    table: RowKind
    rows: int
    sample: int
    radix: int
    top: int
    limit_bytes: int | None
    row_bytes: int


class _Child(NamedTuple):
    """The message of a slab, or a group of them, to the group above."""

    spans: list[np.ndarray]  # first and last key of each piece of a slab, or of a whole group
    sample: Sample
    size: RowSize


@dataclass(frozen=True, eq=False)
class _Step(Round):
    task: _Task


@dataclass(frozen=True, eq=False)
class _Slab(_Step):
    """For a slab: its part in pieces, and their sample."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (slab,), part, t = key, values[0], self.task
        spans = []
        for i, piece in enumerate(tables.batches(part)):
            spans.append(t.table.keys(piece)[[0, -1]])
            yield "cut", (slab, i), piece
        sample = _of_part(t.table.hashes(part), t.table.keys(part), t.sample)
        yield "sample-1", (slab // t.radix,), (slab, _Child(spans, sample, row_size(part)))


@dataclass(frozen=True, eq=False)
class _Part(_Step):
    """For a slab: its part, as it is."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "rows", key, self.task.table.columns(values[0])


@dataclass(frozen=True, eq=False)
class _Node(_Step):
    level: int

    def onward(self, children: dict[int, _Child], cuts: Cuts) -> Iterator[Message]:
        """Send the bins to all children with rows in them."""
        self.check(children, cuts)
        for number, child in children.items():
            for i, span in enumerate(child.spans):
                if self.level == 1:
                    yield "cut", (number, i), cuts.of(span)
                else:
                    yield f"spread-{self.level - 1}", (number,), cuts.of(span)

    def check(self, children: dict[int, _Child], cuts: Cuts) -> None:
        """Refuse a `_Gather` of these children that does not fit the memory."""
        t = self.task
        if t.limit_bytes is None:
            return
        # Below the minimum of the last hashes, every child's sample has all of its rows.
        full = [c.sample.hashes for c in children.values() if len(c.sample.hashes) >= t.sample]
        last = min((hashes[-1] for hashes in full), default=None)
        rows_of_bins = np.zeros(len(cuts.shards))
        for child in children.values():
            hashes, keys = child.sample
            some = keys if last is None else keys[hashes <= last]
            np.add.at(rows_of_bins, np.searchsorted(cuts.starts, some, side="right"), 1)
        share = 1.0 if last is None else (float(last) + 1) / 2.0**64
        self.fits(rows_of_bins, share, joined_size(c.size for c in children.values()))

    def fits(self, rows_of_bins: np.ndarray, share: float, size: RowSize) -> None:
        """Refuse a step with too many rows, or with sums of so many digits that rows are too large."""
        t = self.task
        assert t.limit_bytes is not None
        maximum = math.ceil(rows_of_bins.max() / share)
        each = max(MERGE_COPIES * t.row_bytes, MEASURED_COPIES * size.row_bytes)
        need = maximum * each
        if need > t.limit_bytes:
            raise ValueError(
                f"merging the rows of all slabs needs {maximum:,} rows in one step, "
                f"{each:,} bytes each: {format_bytes(need)}, but a "
                f"worker has {format_bytes(t.limit_bytes)}: increase memory= by "
                f"{-(-(need - t.limit_bytes) >> 20)} MiB for each slab in flight"
            )


@dataclass(frozen=True, eq=False)
class _Sample(_Node):
    """For a group: its sample; for all slabs, the starts and the existence of shards."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        t, children = self.task, dict(values)
        sample = sampled((c.sample for c in children.values()), t.sample)
        size = joined_size(c.size for c in children.values())
        if self.level < t.top:
            (group,), spans = key, [span for c in children.values() for span in c.spans]
            if spans:
                spans = [np.sort(np.concatenate(spans))[[0, -1]]]
            above = _Child(spans, sample, size)
            yield f"sample-{self.level + 1}", (group // t.radix,), (group, above)
            yield f"spread-{self.level}", key, children
            return
        cuts = splitters(sample, t.rows, t.sample)
        if t.limit_bytes is not None:
            at = np.searchsorted(cuts.starts, sample.keys, side="right")
            self.fits(
                np.bincount(cuts.shards[at], minlength=1), _share(sample.hashes, t.sample), size
            )
        shards = int(cuts.shards[-1]) + 1
        for shard in range(shards):
            yield "shard", (shard,), ((), t.table.empty())
        yield "numbers", (), {"shards": shards}
        yield from self.onward(children, cuts)


@dataclass(frozen=True, eq=False)
class _Spread(_Node):
    """For a group: send the bins from above to its slabs or groups."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        children = only(values, dict)
        cuts = only(values, Cuts)
        return self.onward(children, cuts) if cuts is not None else iter(())


@dataclass(frozen=True, eq=False)
class _Cut(_Step):
    """For a piece of a slab's part: send its rows to the bins."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        slab, _ = key
        cuts = only(values, Cuts)
        piece = next(v for v in values if not isinstance(v, Cuts))
        edges = np.searchsorted(self.task.table.keys(piece), cuts.starts).tolist()
        shards = cuts.shards.tolist()
        for k, (a, b) in enumerate(itertools.pairwise([0, *edges, len(piece)])):
            if a < b:
                bin_ = (shards[k], cuts.first + k, slab // self.task.radix)
                yield "gather-1", bin_, (key, piece[a:b])


@dataclass(frozen=True, eq=False)
class _Gather(_Step):
    """For a shard, a bin and a group: merge the parts of its slabs or groups."""

    level: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (shard, bin_, group), t = key, self.task
        for i, piece in enumerate(tables.batches(t.table.merge(_by_sender(values)))):
            if self.level < t.top:
                above = (shard, bin_, group // t.radix)
                yield f"gather-{self.level + 1}", above, ((group, i), piece)
            else:
                yield "shard", (shard,), ((bin_, i), piece)


@dataclass(frozen=True, eq=False)
class _Shard(_Step):
    """For a shard: its rows."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        table = self.task.table
        yield "rows", key, table.columns(table.merge(_by_sender(values)))


def likely_shard_bytes(rows: int, row_bytes: int) -> int:
    """The expected bytes of a step that merges a shard of a table; samples of rows are not exact.

    >>> likely_shard_bytes(10, 16), likely_shard_bytes(10**9, 16)
    (800, 3932160)
    """
    return MERGE_COPIES * row_bytes * min(rows, ROWS + ROWS // 2)


def table_flow(
    table: RowKind,
    slabs: int,
    rows: int = ROWS,
    sample: int = SAMPLE,
    radix: int = RADIX,
    limit_bytes: int | None = None,
    row_bytes: int = 300,
    ordered: bool = True,
) -> Flow:
    """Merge slabs' parts, under ``(slab,)``, to a table in shards of about ``rows`` rows each.

    The port ``"rows"`` has the columns under ``(shard,)``, and ``"numbers"`` the number of ``"shards"``.
    Without ``ordered`` there is only the port ``"rows"``, with each part under the key of its slab.

    >>> from beam_volumes.across import tables
    >>> from beam_volumes.across.rounds.flow import run, only
    >>> labels = np.array([[[7, 7, 0, 4]]])
    >>> part = tables.regions(labels, (0, 0, 0), labels.shape)
    >>> flow = table_flow(RegionRows(labels.shape, ("num_pixels",)), slabs=1)
    >>> [((shard,), columns)] = run(flow, [((0,), part)])["rows"]
    >>> columns["label"].tolist(), columns["num_pixels"].tolist()
    ([4, 7], [1, 2])
    """
    # Shards are numbered from 0 in the order of their keys; their ranges only depend on the rows, not on the
    # slabs. A table without rows has one shard. Without any slab there is no output; the columns are then
    # ``table.columns(table.empty())``. ``sample`` rows, and ``radix`` slabs or groups that one step combines,
    # determine the memory of a worker. A round that would need more than ``limit_bytes`` raises ValueError
    # before it combines rows.
    top = 1
    while radix**top < slabs:
        top += 1
    task = _Task(table, rows, sample, radix, top, limit_bytes, row_bytes)
    if not ordered:
        return Flow((_Part("slabs", ("rows",), task),), ("rows",))
    up: list[Round] = []
    for level in range(1, top):
        to = (f"sample-{level + 1}", f"spread-{level}")
        up.append(_Sample(f"sample-{level}", to, task, level))
    last = f"spread-{top - 1}" if top > 1 else "cut"
    up.append(_Sample(f"sample-{top}", ("shard", "numbers", last), task, top))
    down: list[Round] = [
        _Spread(f"spread-{level}", (f"spread-{level - 1}" if level > 1 else "cut",), task, level)
        for level in range(top - 1, 0, -1)
    ]
    gather: list[Round] = [
        _Gather(
            f"gather-{level}", (f"gather-{level + 1}" if level < top else "shard",), task, level
        )
        for level in range(1, top + 1)
    ]
    return Flow(
        (
            _Slab("slabs", ("sample-1", "cut"), task),
            *up,
            *down,
            _Cut("cut", ("gather-1",), task),
            *gather,
            _Shard("shard", ("rows",), task),
        ),
        ("rows", "numbers"),
    )
