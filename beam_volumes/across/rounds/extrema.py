"""Peaks that are far enough apart, in a tree over ranges of positions.

A stronger peak nearby removes a weaker one, unless it is removed itself. Peaks are divided into ranges of
positions, the *leaves*, as in `across.rounds.agglomeration`. A node decides about its peaks, from
the strongest on. A peak waits for the node above if peaks outside the node may be near it. It also waits if a
stronger peak near it waits. Only waiting peaks are sent up: those near the ends of the range, unless a chain
of peaks that remove each other goes through the range. The last node decides about the rest. The result does
not depend on the ranges.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
import scipy

from beam_volumes.across.rounds.agglomeration import (
    DEPTH,
    PER_LEAF,
    RADIX,
    SAMPLE,
    Census,
    TreeStep,
    groups,
    leaf_of,
    sample_of,
)
from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.rounds.ranks import Numbered
from beam_volumes.across.rounds.records import RecordRows, Records
from beam_volumes.across.rounds.tables import Columns, label_column, table_flow
from beam_volumes.base.text import format_bytes
from beam_volumes.sweep.stage import digest

#: Bytes for a peak.
PEAK_BYTES = 300
#: Peaks that are compared with each other in one step.
BATCH = 1000
#: Larger than the relative rounding errors of distances.
_ROUNDING = 1e-9
#: Logarithm of the largest sum of four powers that a float64 contains.
MAX_LOG_POWER = math.log(sys.float_info.max / 4)


def descending(values: np.ndarray) -> np.ndarray:
    """Numbers as uint64 in reverse order.

    >>> descending(np.array([2.5, -0.0, 0.0, -1])).argsort(kind="stable")
    array([0, 1, 2, 3])
    >>> descending(np.array([7, 200], "u1")) > descending(np.array([9, 9], "u1"))
    array([ True, False])
    """
    if values.dtype.kind in "bu":
        return ~values.astype(np.uint64)
    sign = np.uint64(1 << 63)
    if values.dtype.kind == "i":
        return ~(values.astype(np.int64).view(np.uint64) ^ sign)
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # one zero
    return ~np.where(bits & sign, ~bits, bits | sign)


@dataclass(frozen=True, eq=False)
class NearbyStep(TreeStep):
    """The rows that remain if rows remove others nearby, from the strongest on; `Ranked` numbers them.

    Inputs are tables of ``label``, the linear index of a voxel plus one, and ``intensity_max``.
    """

    shape: tuple[int, ...]  #: Shape of the volume.
    axes: tuple[str, ...]  #: Names of the axes.
    dtype: np.dtype  #: Dtype of intensities.

    remedy: ClassVar[str]  #: A remedy in addition to more memory.
    leaf: ClassVar[int] = 1 << 16
    leaf_bytes = PEAK_BYTES
    radix: int = field(default=RADIX, kw_only=True)
    depth: int = field(default=DEPTH, kw_only=True)

    def token(self) -> str:
        tree = "radix", "depth"
        named = (getattr(self, f.name) for f in fields(self) if f.name not in tree)
        return digest(type(self).__name__, *named)

    @property
    def rows(self) -> RecordRows:
        """A row is a place: the index of a voxel, times `kinds`, plus the number of its input."""
        columns = ("order", "<u8"), ("place", "<u8"), ("intensity", self.dtype.str)
        return RecordRows(columns, labels=2)

    @property
    def kinds(self) -> int:
        return len(self.entries)

    @property
    def slice_size(self) -> int:
        """The number of places of a slice along the first axis."""
        return math.prod(self.shape[1:]) * self.kinds

    def taken(self, number: int, shard: Columns) -> Records:
        """The rows of a shard of an input."""
        labels = label_column(shard, "label", self.name)
        place = (labels - np.uint64(1)) * np.uint64(self.kinds) + np.uint64(number)
        heights = np.asarray(shard["intensity_max"])
        return self.rows.of(order=descending(heights), place=place, intensity=heights)

    def joined(self, parts: Mapping[Key, Records]) -> Records:
        """The rows of all messages to a node, by sender."""
        return self.rows.merge([self.rows.empty(), *parts.values()])

    def positions(self, rows: Columns) -> np.ndarray:
        """The positions of rows, one row of coordinates for each."""
        at = np.unravel_index((rows["place"] // self.kinds).astype(np.int64), self.shape)
        return np.stack(at, axis=1).reshape(-1, len(self.shape))

    def reaches(self, rows: Columns) -> np.ndarray:
        """The number of slices, for each row, within which others may matter."""
        raise NotImplementedError

    def decided(self, rows: Records, is_open: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that remain, and those that wait because they, or others, are near an open end."""
        raise NotImplementedError

    def ranked(self, rows: Columns) -> Columns:
        """The columns of remaining rows for users, without their ranks."""
        raise NotImplementedError

    @property
    def max_reach(self) -> float:
        """The maximum of `reaches`."""
        raise NotImplementedError

    def open_ends(self, rows: Records, span: tuple[int, int]) -> np.ndarray:
        """Whether rows may be near places outside a range of places."""
        at = (rows.columns["place"] // self.slice_size).astype(np.int64)
        reach = self.reaches(rows.columns)
        first, end = span
        before = (at - (first - 1) // self.slice_size <= reach) & (first > 0)
        after = (end // self.slice_size - at <= reach) & (end < self.shape[0] * self.slice_size)
        return before | after

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        sizes = [self.radix ** (self.depth - level) for level in range(self.depth + 1)]
        table = table_flow(
            self.rows, sum(sizes), limit_bytes=limit_bytes, row_bytes=24, ordered=ordered
        )
        first, *rest = table.rounds
        leaf = self.leaf_rows(limit_bytes)
        up = [f"up-{level}" for level in range(self.depth + 1)]
        starts = itertools.accumulate(sizes, initial=0)
        return Flow(
            (
                *(
                    _Sent(entry, ("census", "place"), self, number, leaf)
                    for number, entry in enumerate(self.entries)
                ),
                Census("census", ("place", up[0]), leaf, sizes[0]),
                _Place("place", (up[0],), self),
                *(
                    _Decide(
                        up[k], (*up[k + 1 : k + 2], *first.to), self, k, start, first, limit_bytes
                    )
                    for k, start in enumerate([*starts][:-1])
                ),
                *rest,
            ),
            table.ports,
        )

    def gathered_bytes(self, rows: Sequence[int]) -> int:
        # A node has the rows near the ends of its children; a child is a leaf or thicker than these ends.
        share = 2 * (self.max_reach + 1) * self.radix / max(1, self.shape[0])
        return min(sum(rows), max(self.leaf, math.ceil(sum(rows) * share))) * PEAK_BYTES

    def most_bytes(self, rows: Sequence[int]) -> int:
        return sum(rows) * PEAK_BYTES


@dataclass(frozen=True, eq=False)
class _Sent(Round):
    """For a shard of an input: send its places to the census; the rows wait."""

    of: NearbyStep
    number: int
    leaf: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows = self.of.taken(self.number, values[0])
        sender = (self.number, *key)
        yield "place", sender, rows
        size = min(SAMPLE, PER_LEAF * -(-len(rows) // self.leaf))
        yield "census", (), (sender, len(rows), *sample_of(rows.columns["place"], size))


@dataclass(frozen=True, eq=False)
class _Place(Round):
    """For a shard: send rows to their leaves, with the ranges of these."""

    of: NearbyStep

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows, starts = only(values, Records), only(values, np.ndarray)
        ends = [0, *starts.tolist(), self.of.shape[0] * self.of.slice_size]
        for (leaf,), at in groups(leaf_of(rows.columns["place"], starts)):
            yield "up-0", (leaf,), (key, (ends[leaf], ends[leaf + 1]), rows[at])


@dataclass(frozen=True, eq=False)
class _Decide(Round):
    """For a node: decide about its rows, and send those that wait to its parent."""

    of: NearbyStep
    level: int
    first: int  #: The number of the first node of the level.
    table: Round
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        of, (node,) = self.of, key
        parts = {sender: rest for sender, *rest in (v for v in values if v is not None)}
        self.check(sum(len(rows) for _, rows in parts.values()))
        rows = of.joined({sender: rows for sender, (_, rows) in parts.items()})
        # Ranges without rows may be missing: nothing there matters.
        spans = [span for span, _ in parts.values()]
        span = min((a for a, _ in spans), default=0), max((b for _, b in spans), default=0)
        is_open = of.open_ends(rows, span) & (self.level < of.depth)
        kept, waiting = of.decided(rows, is_open)
        yield from self.table.step((self.first + node,), [rows[kept]])
        if len(waiting):
            yield (
                f"up-{self.level + 1}",
                (node // of.radix,),
                (("child", node), span, rows[waiting]),
            )

    def check(self, rows: int) -> None:
        """Refuse more rows than fit the memory."""
        need, limit = rows * PEAK_BYTES, self.limit_bytes
        if limit is not None and need > limit:
            raise ValueError(
                f"{self.of.name}: a step compares {rows:,} peaks, {format_bytes(need)}, but a worker has "
                f"{format_bytes(limit)}: increase memory= by {-(-(need - limit) >> 20)} MiB for each slab in "
                f"flight{self.of.remedy}"
            )


@dataclass(frozen=True, eq=False)
class Ranked(Numbered):
    """The remaining rows of a `NearbyStep` with their ranks, up to a maximum."""

    of: NearbyStep
    maximum: int | None = None

    def columns(self, taken: Columns, first: int, earlier: int = 0) -> Columns:
        columns = self.of.ranked(taken)
        count = len(taken["place"])
        if self.maximum is not None:
            count = min(count, max(0, self.maximum + 1 - first))
        ranks = np.arange(first, first + count, dtype=np.uint64)
        return {"rank": ranks, **{name: column[:count] for name, column in columns.items()}}

    def no_rows(self) -> Columns:
        return self.columns(self.of.no_rows(), 1)


@dataclass(frozen=True, eq=False)
class Peaks(NearbyStep):
    """Peaks with a minimum distance, from the highest on; equally high ones in raster order."""

    #: Minimum distance of peaks, for each axis or for all.
    distance: tuple[int, ...]
    p_norm: float
    maximum: int | None  #: Maximum number of peaks.

    entries = ("peaks",)
    remedy = ", or use a higher threshold or a larger min_distance"

    @property
    def max_reach(self) -> float:
        return self.distance[0]  # lengths that are rounded may be below it

    def reaches(self, rows: Columns) -> np.ndarray:
        return np.full(len(rows["place"]), self.max_reach)

    def decided(self, rows: Records, is_open: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = self.positions(rows.columns)
        return spaced(places, self.distance, self.p_norm, self.maximum, is_open)

    def ranked(self, rows: Columns) -> Columns:
        places = dict(zip(self.axes, self.positions(rows).T, strict=True))
        return {**places, "intensity": rows["intensity"]}


@dataclass(frozen=True, eq=False)
class PeaksOfLabels(Peaks):
    """Peaks with a minimum distance from others of their label, by label.

    The second input is a table of ``label`` as in the first one, and ``intensity_max``, the label around the
    peak.
    """

    entries = ("peaks", "regions")  # type: ignore[assignment]
    kinds = 1

    @property
    def rows(self) -> RecordRows:
        return _with_label(super().rows, 3)

    def taken(self, number: int, shard: Columns) -> Records:
        places = label_column(shard, "label", self.name) - np.uint64(1)
        given, nothing = np.asarray(shard["intensity_max"]), np.zeros(len(places))
        if number:
            return self.rows.of(label=given, order=nothing, place=places, intensity=nothing)
        order = descending(given)
        return self.rows.of(label=nothing, order=order, place=places, intensity=given)

    def joined(self, parts: Mapping[Key, Records]) -> Records:
        # Messages of an input have its number.
        regions = [rows for (number, *_), rows in parts.items() if number == 1]
        rows = super().joined({key: rows for key, rows in parts.items() if key[0] != 1})
        if not regions:
            return rows
        around = {
            name: np.concatenate([part.columns[name] for part in regions])
            for name in ("place", "label")
        }
        order = np.argsort(around["place"])
        at = order[np.searchsorted(around["place"], rows.columns["place"], sorter=order)]
        return super().joined({(): Records(rows.columns | {"label": around["label"][at]})})

    def decided(self, rows: Records, is_open: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # Along one more axis, peaks of different labels are far from each other.
        distance = self.distance if len(self.distance) == 1 else (*self.distance, 1)
        _, number = np.unique(rows.columns["label"], return_inverse=True)
        number = number.reshape(-1)
        # So many labels at once that these distances are exact, and their powers do not overflow.
        step, maximum = 2 * max(1, distance[-1]), 2.0**53
        if self.p_norm < math.inf:
            maximum = min(maximum, math.exp(min(700.0, MAX_LOG_POWER / self.p_norm)))
        labels = max(1, int(maximum / step))
        separate = step * (number % labels).reshape(-1, 1)
        places = np.concatenate([self.positions(rows.columns), separate], axis=1)
        kept, waiting = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for _, at in groups(number // labels):
            found = spaced(places[at], distance, self.p_norm, None, is_open[at])
            for rest, some in zip((kept, waiting), found, strict=True):
                rest.append(at[some])
        return np.sort(np.concatenate(kept)), np.sort(np.concatenate(waiting))

    def ranked(self, rows: Columns) -> Columns:
        return {"label": rows["label"], **super().ranked(rows)}

    def most_rows(self, rows: Sequence[int]) -> int:
        return rows[0]

    def gathered_bytes(self, rows: Sequence[int]) -> int:
        return super().gathered_bytes(rows[:1])

    def most_bytes(self, rows: Sequence[int]) -> int:
        return super().most_bytes(rows[:1])


@dataclass(frozen=True, eq=False)
class RankedOfLabels(Ranked):
    """The rows of `PeaksOfLabels` with their ranks, up to a maximum for each label."""

    each: int | None = None

    def size(self, taken: Columns) -> Any:
        """The rows that remain, and the label and number of rows of the first and the last label."""
        labels, sizes = np.unique(taken["label"], return_counts=True)
        ends = [(int(labels[k]), int(sizes[k])) for k in ((0, -1) if len(labels) else ())]
        remaining = sizes if self.each is None else np.minimum(sizes, self.each)
        return int(remaining.sum()), ends

    def firsts(self, sizes: Iterable[Any]) -> Iterator[tuple[int, ...]]:
        first, label, rows = self.first, None, 0
        for remaining, ends in sizes:
            earlier = rows if ends and ends[0][0] == label else 0
            yield first, earlier
            first += remaining
            if ends:
                own = ends[0][1]
                if self.each is not None:
                    first -= min(own, self.each) - max(0, min(own, self.each - earlier))
                rows = ends[1][1] + (earlier if ends[0][0] == ends[1][0] else 0)
                label = ends[1][0]

    def columns(self, taken: Columns, first: int, earlier: int = 0) -> Columns:
        if self.each is not None:
            labels = taken["label"]
            number = np.arange(len(labels)) - np.searchsorted(labels, labels)
            number[labels == labels[:1]] += earlier
            taken = {name: column[number < self.each] for name, column in taken.items()}
        return super().columns(taken, first)


@dataclass(frozen=True, eq=False)
class PeaksAmongLabels(Peaks):
    """Peaks of labels with a minimum distance from all others, from the highest on."""

    @property
    def rows(self) -> RecordRows:
        return _with_label(super().rows, 2)

    def taken(self, number: int, shard: Columns) -> Records:
        place = np.ravel_multi_index([shard[axis] for axis in self.axes], self.shape)
        heights = shard["intensity"]
        return self.rows.of(
            order=descending(heights), place=place, intensity=heights, label=shard["label"]
        )

    def ranked(self, rows: Columns) -> Columns:
        return {"label": rows["label"], **super().ranked(rows)}


def _with_label(rows: RecordRows, keys: int) -> RecordRows:
    """Rows with a label, by which they are sorted if there are three keys."""
    label = (("label", "<u8"),)
    names = (*label, *rows.names) if keys == 3 else (*rows.names, *label)
    return RecordRows(names, labels=keys)


@dataclass(frozen=True, eq=False)
class FirstIfFew(TableStep):
    """The rows of the first table if it has at most ``maximum``, and otherwise of the second one."""

    maximum: int
    of: Ranked  #: The second table.

    entries = ("first", "second")

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        return Flow(
            (
                *(_Offered(entry, ("few", "chosen")) for entry in self.entries),
                _Few("few", ("chosen", "numbers"), self.maximum),
                _Chosen("chosen", ("rows",)),
            ),
            ("rows", "numbers"),
        )

    def no_rows(self) -> Columns:
        return self.of.no_rows()


@dataclass(frozen=True, eq=False)
class _Offered(Round):
    """For a shard of either table: its number of rows; the rows wait."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        sender = (int(self.name == "second"), *key)
        yield "few", (), (sender, len(values[0]["rank"]))
        yield "chosen", sender, values[0]


@dataclass(frozen=True, eq=False)
class _Few(Round):
    """Choose the table, and inform its shards."""

    maximum: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows = dict(values)
        total = sum(n for (table, *_), n in rows.items() if table == 0)
        chosen = [sender for sender in rows if sender[0] == int(total > self.maximum)]
        for sender in chosen:
            yield "chosen", sender, True
        yield "numbers", (), {"shards": len(chosen)}


@dataclass(frozen=True, eq=False)
class _Chosen(Round):
    """For a shard: its rows, if its table is chosen."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        if only(values, bool):
            yield "rows", key[1:], only(values, dict)


def norm(steps: np.ndarray, p: float) -> np.ndarray:
    """The lengths of steps along the last axis, each computed in the same way."""
    sizes = [np.abs(steps[..., k]) for k in range(steps.shape[-1])]
    if p == math.inf:
        return functools.reduce(np.maximum, sizes)
    if p == 2:
        return np.sqrt(sum(n * n for n in sizes))
    if p == 1:
        return np.asarray(sum(sizes))
    return np.asarray(sum(n**p for n in sizes) ** (1 / p))


def spaced(
    places: np.ndarray,
    distance: tuple[int, ...],
    p_norm: float,
    maximum: int | None = None,
    is_open: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The points that remain if each one, in order, removes later ones nearer than a distance.

    An open point may be removed by others that are not given. It waits, as do later ones near it that are not
    removed. The second result are waiting points.

    >>> points = np.array([[0], [2], [3], [5], [9]])
    >>> spaced(points, (3,), np.inf)
    (array([0, 2, 4]), array([], dtype=int64))
    >>> spaced(points, (3,), np.inf, None, np.array([0, 1, 1, 0, 0], bool))
    (array([0, 4]), array([2, 3]))
    """
    maximum = len(places) if maximum is None else maximum
    if max(distance) <= 1:
        return np.arange(min(maximum, len(places))), np.empty(0, np.int64)
    # Positions along an axis with a distance of 0 or 1 are always far enough apart.
    is_whole = len(set(distance)) == 1
    units = np.maximum(distance, 1.0)
    scaled, near = (places, float(distance[0])) if is_whole else (places / units, 1.0)
    margin = _ROUNDING * near + 8 * np.finfo(float).eps * scaled.max(initial=0)
    kept: list[int] = []
    waiting: list[int] = []

    # Distances of whole voxels are exact. All others are computed from the steps, so that they are the same
    # everywhere.
    is_exact = is_whole and p_norm in (1, 2, math.inf)

    def is_near(steps: np.ndarray) -> np.ndarray:
        return np.asarray(norm(steps if is_whole else steps / units, p_norm) < near)

    def are_near(batch: np.ndarray, others: list[int]) -> np.ndarray:
        if not others:
            return np.zeros(len(batch), bool)
        tree = scipy.spatial.cKDTree(scaled[others])
        nearest = tree.query(batch, p=p_norm)[0]
        found = nearest < near
        for k in () if is_exact else np.flatnonzero(abs(nearest - near) <= margin):
            around = np.array(others)[tree.query_ball_point(batch[k], near + margin, p=p_norm)]
            found[k] = is_near(places[around] - places[start + k]).any()
        return np.asarray(found)

    start = end = 0
    while end < len(places):
        start, end = end, min(end + BATCH, len(places))
        tree = scipy.spatial.cKDTree(scaled[start:end])
        # The memory of a batch grows with its pairs: dense points have small batches.
        while end - start > 50 and tree.count_neighbors(tree, near, p_norm) > 50 * (end - start):
            end = start + (end - start) // 2
            tree = scipy.spatial.cKDTree(scaled[start:end])
        batch = scaled[start:end]
        is_removed, waits = are_near(batch, kept), are_near(batch, waiting)
        if is_open is not None:
            waits |= is_open[start:end]
        pairs = tree.query_pairs(near + margin, p_norm, output_type="ndarray")
        pairs = pairs[is_near(places[start + pairs[:, 0]] - places[start + pairs[:, 1]])]
        first, second = pairs[np.argsort(pairs[:, 0], kind="stable")].T
        ends = np.searchsorted(first, np.arange(len(batch) + 1)).tolist()
        for k in np.flatnonzero(~is_removed).tolist():
            if not is_removed[k]:
                (waiting if waits[k] else kept).append(start + k)
                (waits if waits[k] else is_removed)[second[ends[k] : ends[k + 1]]] = True
        if len(kept) >= maximum:
            # All others are lower, and so is everything that they could remove.
            last = kept[maximum - 1] if maximum else -1
            return np.array(kept[:maximum], np.int64), np.array(
                [w for w in waiting if w < last], np.int64
            )
    return np.array(kept, np.int64), np.array(waiting, np.int64)
