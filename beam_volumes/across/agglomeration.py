"""Merge regions in the greedy order of their boundaries, independently of the order of computation.

The order is total. Better scores come first; equal scores are ordered by names, first by the larger
of the two. Scores are integers or fractions of integers, and compared exactly. A merged region has
the larger name of the two. So merging two boundaries never makes them better: the joint score is
between their scores, and names only grow. Therefore, two regions that are each other's best are
merged by the greedy order, too, regardless of all other merges.

`settle` merges while some regions are *open*, which means that more of their boundaries may arrive
later. Merges that depend on open regions are left for later.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from beam_volumes.across.adjacency import Adjacency
from beam_volumes.kernels.labels import agglomeration as kernels

#: Sums and counts below this limit are added and compared exactly.
MAXIMUM = 1 << 62
#: Rows that are computed at a time, because intermediate results need memory.
_BLOCK = 1 << 14
#: Parts of boundaries that are sorted separately, approximately.
_MAX_PARTS = 16
#: Neighbours of a region that is searched for its best neighbour again after each merge.
MAX_NEIGHBOURS = 256


@dataclass(frozen=True)
class Linkage:
    """How boundaries are combined, and their score."""

    #: {"mean", "max", "min", "quantile", "lowest"}. With ``"lowest"``, boundaries are heights,
    #: combined by their minimum; the score is the negative height.
    name: str
    #: For ``"quantile"``: the share of faces with an affinity of at most the score.
    quantile: float = 0.5

    @property
    def how(self) -> int:
        """The kernel's number of the linkage; it negates heights."""
        return {
            "mean": kernels.MEAN,
            "min": kernels.SMALLEST,
            "quantile": kernels.QUANTILE,
        }.get(self.name, kernels.LARGEST)


@dataclass(frozen=True, eq=False)
class Boundaries:
    """Boundaries between regions, one per row; a pair may have several."""

    #: uint64. Names of two different regions, also in ``b``.
    a: np.ndarray
    b: np.ndarray
    #: Sums and counts, int64 (n, 2), for means; histograms, int64 (n, 256), for quantiles;
    #: otherwise one number each.
    known: np.ndarray

    def __len__(self) -> int:
        return len(self.a)

    @classmethod
    def together(cls, parts: list[Boundaries]) -> Boundaries:
        """All rows of some parts; empties the list, and releases a column of the parts when it is copied."""
        columns = [[p.known for p in parts], [p.b for p in parts], [p.a for p in parts]]
        parts.clear()
        return cls(*(np.concatenate(columns.pop()) for _ in range(3)))

    def __getitem__(self, rows: slice | np.ndarray) -> Boundaries:
        return Boundaries(self.a[rows], self.b[rows], self.known[rows])


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions with boundaries."""

    names: np.ndarray  #: uint64. Increasing.
    sizes: np.ndarray  #: int64
    is_open: np.ndarray  #: bool. Whether a region may have further boundaries elsewhere.


@dataclass(frozen=True, eq=False)
class Merges:
    """Pairs of regions that were merged, in any order."""

    #: uint64. The merged region has the name ``b``, the larger one.
    a: np.ndarray
    b: np.ndarray
    scores: np.ndarray  #: float64. Rounded once.
    sizes: np.ndarray  #: int64

    def __len__(self) -> int:
        return len(self.a)


@dataclass(frozen=True)
class Needed:
    """The boundaries of a part of a volume that can change merges."""

    # Only boundaries with a score of at least ``threshold`` merge, and a joint score is between the scores of
    # its parts. With a maximum, parts below the threshold therefore never count. With others, they do not
    # count between two regions that merges with higher scores cannot reach.

    linkage: Linkage
    threshold: float
    #: Whether a boundary never merges if others with better scores connect its two regions: if
    #: scores never change, and if two regions that are too large remain so with any third one.
    by_forest: bool = False

    @property
    def by_slab(self) -> bool:
        """Whether `of_slab` leaves out boundaries."""
        return self.linkage.how != kernels.LARGEST

    def token(self) -> str:
        return repr(self)

    def of_part(self, part: Adjacency) -> Adjacency:
        """Select from any part, regardless of the boundaries elsewhere."""
        if self.by_slab or not len(part):
            return part
        ends = part.extremes
        scores = -ends[:, 0] if self.linkage.name == "lowest" else ends[:, 1]
        rows = np.flatnonzero(scores >= self.threshold)
        if self.by_forest:
            rows = rows[np.argsort(-scores[rows])]
            bypassed, _, _ = _joined(part.pairs[rows], scores[rows])
            rows = np.sort(rows[~bypassed])
        return part if len(rows) == len(part) else part[rows]

    def of_slab(self, part: Adjacency, open_labels: np.ndarray) -> Adjacency:
        """Select from all boundaries of a slab that labels other than ``open_labels`` have.

        >>> from beam_volumes.across.adjacency import adjacency
        >>> labels = np.array([[[1, 2, 3, 4]]])
        >>> part = adjacency(labels, (np.array([[[0, 9, 1, 9]]]),) * 3, "upper")
        >>> needed = Needed(Linkage("mean"), 5.0)
        >>> needed.of_slab(part, np.array([4], "u8")).pairs.tolist()
        [[1, 2], [3, 4]]
        """
        if not self.by_slab or not len(part):
            return part
        rows = np.flatnonzero(self._may_reach(part))
        _, names, ends = _joined(part.pairs[rows], np.zeros(len(rows)), part.pairs)
        is_open = np.zeros(len(names), bool)
        is_open[ends[np.isin(names, open_labels)]] = True
        i, j = (ends[_places(names, part.pairs[:, k])] for k in (0, 1))
        return part[(i == j) | (is_open[i] & is_open[j])]

    def _may_reach(self, part: Adjacency) -> np.ndarray:
        """Whether scores are at least the threshold, or too near to it to compare floats."""
        near = 1e-9 * abs(self.threshold)
        if self.linkage.how == kernels.MEAN:
            return part.sums.floats() >= (self.threshold - near) * part.used
        if self.linkage.how == kernels.SMALLEST:
            return part.extremes[:, 0] >= self.threshold
        bins = part.bins.shape[1]
        below = part.bins[:, : min(max(0, math.ceil(self.threshold)), bins)].sum(axis=1)
        return (below == 0) | (below < self.linkage.quantile * (1 + 1e-9) * part.used)


def _joined(
    pairs: np.ndarray, scores: np.ndarray, every: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bypassed pairs, the names of ``every`` pair, and a name's place in each connected part."""
    every = pairs if every is None else every
    names = distinct(every[:, 0], every[:, 1]) if len(every) else np.empty(0, np.uint64)
    links = np.empty((len(pairs), 2), np.int32)
    links[:, 0], links[:, 1] = (_places(names, pairs[:, k]) for k in (0, 1))
    ends, bypassed = np.arange(len(names), dtype=np.int32), np.zeros(len(pairs), bool)
    kernels.join_in_order(links, scores, ends, bypassed)
    return bypassed, names, ends


def settle(
    edges: Boundaries,
    regions: Regions,
    linkage: Linkage,
    threshold: float,
    max_size: int | None = None,
    min_size: int | None = None,
) -> tuple[Merges, Boundaries, Regions]:
    """Merge all regions that can be merged now; return merges, and the boundaries and regions that are left.

    ``edges``, all boundaries of regions that are not open, is overwritten. Scores are at least ``threshold``.

    >>> a, b = np.array([1, 2, 1], "u8"), np.array([2, 3, 3], "u8")
    >>> edges = Boundaries(a, b, np.array([[9, 1], [8, 1], [2, 1]]))
    >>> regions = Regions(np.array([1, 2, 3], "u8"), np.ones(3, "i8"), np.array([False, False, True]))
    >>> merges, left, regions = settle(edges, regions, Linkage("mean"), 5.0)
    >>> merges.a, merges.b, merges.scores
    (array([1], dtype=uint64), array([2], dtype=uint64), array([9.]))
    >>> left.a, left.b, left.known
    (array([2], dtype=uint64), array([3], dtype=uint64), array([[10,  2]]))
    """
    # One of two merged regions must be smaller than ``min_size``. Sums and counts must fit 62 bits.
    n, count, dtype = len(edges), len(regions.names), edges.known.dtype
    if n > np.iinfo(np.int32).max // 2:
        raise ValueError(
            f"agglomerate: {n:,} boundaries in one step are too many; the maximum is {2**30:,}"
        )
    limits = _limits((max_size, min_size))
    in_order = linkage.how == kernels.LARGEST
    scored = _Scored.of(edges, linkage, threshold)
    links = np.empty((n, 2 if in_order else 4), np.int32)
    links[:, 0], links[:, 1] = (_places(regions.names, x) for x in (edges.a, edges.b))
    del edges  # its labels
    if in_order:
        links_of = [links]
        del links
        return _settle_in_order(links_of, scored, regions, limits, dtype)
    sizes, stuck = regions.sizes.copy(), regions.is_open.copy()
    numbers = np.arange(count, dtype=np.int32)
    room = min(n, count)  # each merge needs a boundary, and removes a region
    with_scores = 0 if linkage.how == kernels.MEAN else room
    found = (
        np.empty((room, 2), np.int32),
        np.empty((room - with_scores, 2), np.int64),
        np.empty(with_scores),
        np.empty(room, np.int64),
    )
    how = scored.parameters(limits)
    lists = *np.full((3, count), -1, np.int32), np.empty(count + 1, np.int32)
    merges, has_hubs = kernels.merge_nearest(
        *how,
        np.int64(MAX_NEIGHBOURS),
        (links, *scored.arrays),
        (sizes, stuck, numbers),
        lists,
        found,
    )
    del lists
    if has_hubs:
        rest = np.flatnonzero(links[:, 0] >= 0)
        links, stuck = links[rest], regions.is_open.copy()
        scored = scored.of_rows(rest)
        del rest
        own = sizes, stuck, numbers
        later = tuple(x[merges:] if len(x) else x for x in found)
        merges += _merge_greedily(how, links, scored, own, later)
    pairs, parts, scores, totals = (x[:merges] for x in found)
    names = regions.names[pairs]
    made = Merges(names[:, 0], names[:, 1], scored.rounded(parts, scores), totals.copy())
    # Regions with a best boundary below the threshold never change.
    left = np.flatnonzero(links[:, 0] >= 0)
    left = left[stuck[links[left, 0]] & stuck[links[left, 1]]]
    i, j = links[left, 0], links[left, 1]
    del links
    known = scored.known(left).astype(dtype, copy=False)
    del scored, left
    places = _either(i, j, count)
    order = places[np.argsort(numbers[places])]
    still = Regions(regions.names[numbers[order]], sizes[order], regions.is_open[order])
    i, j = numbers[i], numbers[j]
    a, b = regions.names[np.minimum(i, j)], regions.names[np.maximum(i, j)]
    return made, Boundaries(a, b, known), still


def settle_in_parts(
    parts: list[Boundaries],
    regions: Regions,
    room: Callable[[int], int],
    linkage: Linkage,
    threshold: float,
    max_size: int | None = None,
    min_size: int | None = None,
) -> tuple[Merges, Boundaries, Regions]:
    """As `settle`, but add boundaries some at a time, in the order of their larger names.

    A region is open until its last boundary is added. ``room`` gets the number of boundaries that are left
    and may still merge, and returns how many can be added. If none, the earliest of those that are left do
    not merge any more, or if there are none, the others are left as well. The list of ``parts`` is emptied.
    """
    if room(0) >= sum(map(len, parts)):
        together = Boundaries.together
        return settle(together(parts), regions, linkage, threshold, max_size, min_size)
    total = sum(map(len, parts))
    _sort(parts)
    last = np.arange(len(regions.names), dtype=np.int32)  # the larger region of its last boundary
    find = _finder(regions.names, total)
    for part in parts:
        for rows in _blocks(len(part)):
            np.maximum.at(last, find(part.a[rows]), find(part.b[rows]).astype(np.int32))
    del find, part
    sizes, left = regions.sizes.copy(), parts[0][:0]
    waits = regions.is_open.copy()  # regions that do not merge in this call
    # Each merge needs a boundary, and removes a region.
    max_merges = min(total, len(sizes))
    made = Merges(*(np.empty(max_merges, t) for t in (np.uint64, np.uint64, float, np.int64)))
    starts, kept, count = [0] * len(parts), [0] * len(parts), 0
    while sum(starts) < total:
        added = room(len(left))
        if not added and not (len(left) and room(0)):
            break
        if not added:
            i, j = (_places(regions.names, x) for x in (left.a, left.b))
            early = j <= np.partition(j, len(j) // 4)[len(j) // 4]
            waits[i[early]] = waits[j[early]] = True
            left = _without(left, waits[i] & waits[j], parts, kept, starts)
            del i, j, early
            continue
        stops = _next_rows([part.b for part in parts], starts, added)
        own = [part[i:k] for part, i, k in zip(parts, starts, stops, strict=True) if i < k]
        own.append(left)
        del left
        starts = stops
        later = [int(part.b[k]) for part, k in zip(parts, starts, strict=True) if k < len(part)]
        used = _used(regions.names, own)
        is_open = waits[used]
        if later:
            next_region = np.searchsorted(regions.names, np.uint64(min(later)))
            is_open |= last[used] >= next_region
        merges, left, still = settle(
            Boundaries.together(own),
            Regions(regions.names[used], sizes[used], is_open),
            linkage,
            threshold,
            max_size,
            min_size,
        )
        end = count + len(merges)
        for name in ("a", "b", "scores", "sizes"):
            getattr(made, name)[count:end] = getattr(merges, name)
        count = end
        used = _places(regions.names, still.names)
        sizes[used] = still.sizes
        if later and len(left):
            comes, waiting = last[used] >= next_region, waits[used]
            i, j = _wait(left, still.names, comes, waiting, linkage, threshold)
            waits[used] = waiting
            left = _without(left, waiting[i] & waiting[j], parts, kept, starts)
            del i, j
    merges = Merges(made.a[:count], made.b[:count], made.scores[:count], made.sizes[:count])
    left = _without(left, np.ones(len(left), bool), parts, kept, starts)
    parts += [part[k:] for part, k in zip(parts, starts, strict=True)]
    parts[: len(kept)] = [part[:k] for part, k in zip(parts, kept, strict=False)]
    left = Boundaries.together(parts)
    # Its last region may have no other boundary.
    used = _used(regions.names, [left])
    return merges, left, Regions(regions.names[used], sizes[used], regions.is_open[used])


def _wait(
    left: Boundaries,
    names: np.ndarray,
    comes: np.ndarray,
    waits: np.ndarray,
    linkage: Linkage,
    threshold: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Also let regions wait with best boundaries that lead to those that do; return ends of boundaries.

    ``comes`` is whether a region has boundaries to be added; it is overwritten.
    """
    links = np.empty((len(left), 2), np.int32)
    links[:, 0], links[:, 1] = (_places(names, x) for x in (left.a, left.b))
    scored = _Scored.of(left, linkage, threshold)
    how, share, *_ = scored.parameters(_limits((None, None)))
    best = np.full(len(names), -1, np.int32)
    kernels.find_waiting(how, share, (links, *scored.arrays), (comes, waits, best))
    return links[:, 0], links[:, 1]


def _without(
    left: Boundaries,
    rows: np.ndarray,
    parts: list[Boundaries],
    kept: list[int],
    starts: list[int],
) -> Boundaries:
    """Leave out rows: they are written over added ones of ``parts``, after those ``kept`` there before."""
    some = left[rows]
    for k, part in enumerate(parts):
        count = min(len(some), starts[k] - kept[k])
        to, own, some = part[kept[k] : kept[k] + count], some[:count], some[count:]
        to.a[:], to.b[:], to.known[:] = own.a, own.b, own.known
        kept[k] += count
    return left[~rows]


def _sort(parts: list[Boundaries]) -> None:
    """Sort each part by its larger names; copies of one column of one part need memory at a time.

    Small parts are combined: each step of `settle_in_parts` searches all parts.
    """
    dtype = np.result_type(*(part.known for part in parts))
    total, small = sum(map(len, parts)), list[Boundaries]()
    rows = 0
    for others in reversed(range(len(parts))):
        small.append(parts.pop(0))
        rows += len(small[-1])
        if others and rows * _MAX_PARTS < total:
            continue
        part = Boundaries.together(small) if len(small) > 1 else small.pop()
        rows = 0
        order = np.argsort(part.b, kind="stable")
        columns = [part.known.astype(dtype, copy=False), part.b, part.a]
        del part
        parts.append(Boundaries(*(columns.pop()[order] for _ in range(3))))


def _next_rows(names: list[np.ndarray], starts: list[int], count: int) -> list[int]:
    """Where the next ``count`` rows of increasing arrays end, in the order of all names.

    >>> _next_rows([np.array([1, 3, 7, 7], "u8"), np.array([3, 4], "u8")], [1, 0], 3)
    [2, 2]
    >>> _next_rows([np.array([1, 3, 7, 7], "u8"), np.array([3, 4], "u8")], [2, 2], 1)
    [3, 2]
    """
    own = [x[k:] for x, k in zip(names, starts, strict=True)]
    low, high = 0, 1 << 64  # at most ``count`` rows have names below the first
    while high - low > 1:
        middle = (low + high) // 2
        if sum(int(np.searchsorted(x, np.uint64(middle))) for x in own) <= count:
            low = middle
        else:
            high = middle
    stops = [int(np.searchsorted(x, np.uint64(low))) for x in own]
    count -= sum(stops)
    for k, x in enumerate(own):  # and some of those with the next name
        equal = int(np.searchsorted(x, np.uint64(low), side="right")) - stops[k]
        stops[k] += min(count, equal)
        count -= min(count, equal)
    return [k + stop for k, stop in zip(starts, stops, strict=True)]


def _merge_greedily(
    how: tuple[Any, ...],
    links: np.ndarray,
    scored: _Scored,
    regions: tuple[np.ndarray, ...],
    found: tuple[np.ndarray, ...],
) -> int:
    """Run `merge_greedily` with its scratch; return the number of merges."""
    n, count = len(links), len(regions[0])
    # At most three quarters full.
    room = 1 << max(4, (4 * n // 3).bit_length())
    fractions, values, bins = scored.arrays
    scored.fractions = np.empty((len(fractions), 4), np.int64)
    scored.fractions[:, :2] = fractions
    del fractions
    return kernels.merge_greedily(
        *how,
        (links, scored.fractions, values, bins, np.empty(len(values)), np.empty(n, np.uint64)),
        (*regions, np.full(count, -1, np.int32), np.zeros(count, np.int32)),
        np.full(room, -1, np.int32),
        np.empty(n, np.int32),
        found,
    )


def _limits(sizes: tuple[int | None, int | None]) -> tuple[np.int64, ...]:
    """The maximum and minimum size for kernels."""
    return tuple(np.int64(-1 if x is None else min(x, MAXIMUM)) for x in sizes)


def _settle_in_order(
    links_of: list[np.ndarray],
    scored: _Scored,
    regions: Regions,
    limits: tuple[np.int64, ...],
    dtype: np.dtype[Any],
) -> tuple[Merges, Boundaries, Regions]:
    """As `settle`, for scores that never change: sorted once, without a table of pairs."""
    values = scored.values
    reach = np.flatnonzero(values >= scored.threshold).astype(np.int32)
    values = -values[reach]
    order = np.argsort(values)
    rows, values = reach[order], -values[order]
    del reach, order
    links = links_of.pop()[rows]
    count = len(regions.names)
    # Equal scores are ordered by names, so they are in a heap together.
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1], [True]]))
    room = int(np.diff(starts).max(initial=0))
    is_left, own, stuck = np.zeros(len(rows), bool), regions.sizes.copy(), regions.is_open.copy()
    max_merges = min(len(rows), count)  # each merge needs a boundary, and removes a region
    found = (
        np.empty((max_merges, 2), np.int32),
        np.empty(max_merges),
        np.empty(max_merges, np.int64),
    )
    merges = kernels.merge_in_order(
        limits,
        links,
        values,
        is_left,
        (own, stuck, np.arange(count, dtype=np.int32)),
        (np.empty(room, np.uint64), np.empty(room, np.int32)),
        found,
    )
    del values
    pairs, scores, totals = (x[:merges] for x in found)
    names = regions.names[pairs]
    made = Merges(names[:, 0], names[:, 1], scored.rounded(pairs, scores), totals.copy())
    left = np.flatnonzero(is_left)
    # The first boundary of a pair is its best one.
    pair = links[left].astype("<u4").view("<u8")[:, 0]
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    left = left[order[np.concatenate([[True], pair[1:] != pair[:-1]])[: len(pair)]]]
    del order, pair
    i, j = links[left, 0], links[left, 1]
    places = _either(i, j, count)
    still = Regions(regions.names[places], own[places], regions.is_open[places])
    known = scored.known(rows[left]).astype(dtype)
    return made, Boundaries(regions.names[i], regions.names[j], known), still


@dataclass
class _Scored:
    """Boundaries as arrays of the kernel, which changes them."""

    linkage: Linkage
    threshold: float
    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    fractions: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))
    bins: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int64))
    minimum: tuple[int, int] = (0, 1)  #: The threshold, as a fraction of possible counts.
    share: tuple[int, int] = (0, 1)  #: The quantile, likewise.
    kinds: np.ndarray | None = None  #: The values that ranks represent.

    @classmethod
    def of(cls, edges: Boundaries, linkage: Linkage, threshold: float) -> _Scored:
        how = linkage.how
        made = cls(linkage, threshold)
        if how == kernels.MEAN:
            count = _total(edges.known[:, 1], "counts")
            maximum = _total(edges.known[:, 0], "sums")
            made.fractions = edges.known
            # A larger count would have a score below the threshold.
            fitting = maximum // int(threshold) + 1 if 1 <= threshold < MAXIMUM else count
            made.minimum = _smallest_fraction(threshold, min(count, fitting))
        elif how == kernels.QUANTILE:
            counts = edges.known.sum(axis=1, dtype=np.float64)
            made.share = _smallest_fraction(linkage.quantile, _total(counts, "counts"))
            made.values, made.bins = np.empty(len(edges)), edges.known
        else:
            is_lowest = linkage.name == "lowest"
            own = _comparable(edges.known, threshold, is_lowest)
            made.values, made.threshold, made.kinds = own
        return made

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Fractions, scores and bins for kernels; those that the linkage does not need have no rows."""
        return self.fractions, self.values, self.bins

    def of_rows(self, rows: np.ndarray) -> _Scored:
        """A copy with some boundaries."""
        names = "fractions", "values", "bins"
        arrays = zip(names, self.arrays, strict=True)
        return replace(self, **{n: x[rows] for n, x in arrays if len(x)})

    def parameters(self, limits: tuple[np.int64, ...]) -> tuple[Any, ...]:
        """The first parameters of kernels."""
        return (
            np.int64(self.linkage.how),
            tuple(map(np.int64, self.share)),
            tuple(map(np.int64, self.minimum)),
            np.float64(self.threshold),
            limits,
        )

    def rounded(self, parts: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Scores of merges as float64, rounded once."""
        if self.linkage.how == kernels.MEAN:
            scores = _ratios(parts)
        elif self.kinds is not None:
            scores = self.kinds[scores.astype(np.int64)].astype(np.float64)
            return -scores if self.linkage.name == "lowest" else scores
        return scores.astype(np.float64)

    def known(self, rows: np.ndarray) -> np.ndarray:
        """The values of some boundaries."""
        if self.linkage.how == kernels.MEAN:
            return self.fractions[rows, :2]
        if self.linkage.how == kernels.QUANTILE:
            return self.bins[rows]
        own = self.values[rows]
        if self.kinds is not None:
            return self.kinds[own.astype(np.int64)]
        return -own if self.linkage.name == "lowest" else own


def _total(numbers: np.ndarray, what: str) -> int:
    """An upper bound of the sum of absolute numbers."""
    total = float(np.abs(numbers).sum(dtype=np.float64)) * 1.001 if numbers.size else 0.0
    if total >= MAXIMUM:
        raise ValueError(
            f"agglomerate: the {what} of affinities reach {total:.3g}, but scores are only exact "
            "below 2**62: scale and round the affinities first, e.g. to uint8"
        )
    return int(total) + 1


def _smallest_fraction(bound: float, maximum: int) -> tuple[int, int]:
    """The smallest fraction that is not less than a bound, with a denominator up to ``maximum``.

    A fraction with such a denominator is at least the bound if it is at least this fraction.

    >>> _smallest_fraction(0.1, 100), _smallest_fraction(0.30000000000000004, 10)
    ((10, 99), (1, 3))
    >>> _smallest_fraction(0.1, 1 << 60), _smallest_fraction(5.0, 9)
    ((3602879701896397, 36028797018963968), (5, 1))
    """
    if abs(bound) >= MAXIMUM:
        return (MAXIMUM if bound > 0 else -MAXIMUM), 1
    wanted = Fraction(bound)
    if wanted.denominator <= maximum:
        return wanted.numerator, wanted.denominator
    # By continued fractions: the two neighbours among all fractions with such denominators.
    p0, q0, p1, q1 = 0, 1, 1, 0
    n, d = wanted.numerator, wanted.denominator
    while q0 + (a := n // d) * q1 <= maximum:
        p0, q0, p1, q1 = p1, q1, p0 + a * p1, q0 + a * q1
        n, d = d, n - a * d
    k = (maximum - q0) // q1
    found = max(Fraction(p0 + k * p1, q0 + k * q1), Fraction(p1, q1))
    return found.numerator, found.denominator


def _comparable(
    known: np.ndarray, threshold: float, lowest: bool
) -> tuple[np.ndarray, float, np.ndarray | None]:
    """Numbers and threshold as floats in the same order, and the represented values or None."""
    whole = known.dtype.kind in "iu" and len(known) > 0
    if whole and max(abs(int(known.min())), abs(int(known.max()))) > 1 << 53:
        kinds, places = np.unique(known, return_inverse=True)
        if lowest:
            kinds, places = kinds[::-1], len(kinds) - 1 - places
        # Python compares exactly, and negates all integers. Few of them are compared: all would need memory.
        exact = (lambda k: -int(k)) if lowest else int
        minimum = bisect_left(kinds, threshold, key=exact)  # type: ignore[arg-type]
        return places.reshape(-1).astype(np.float64), float(minimum), kinds
    values = known.astype(np.float64)
    return (-values if lowest else values), threshold, None


def distinct(*labels: np.ndarray) -> np.ndarray:
    """The distinct labels, increasing."""
    minimum = min(int(x.min()) for x in labels)
    span = max(int(x.max()) for x in labels) - minimum + 1
    if span < 8 * sum(map(len, labels)) + 1024:
        exists = np.zeros(span, bool)
        for x in labels:
            exists[(x - np.uint64(minimum)).view(np.int64)] = True
        found = np.flatnonzero(exists).astype(np.int64, copy=False).view(np.uint64)
        found += np.uint64(minimum)  # in place
        return found
    every = np.concatenate(labels)
    every.sort()
    return every[np.concatenate([[True], every[1:] != every[:-1]])]


def _places(names: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The positions of some names among increasing names."""
    found, find = np.empty(len(of), np.int32), _finder(names, len(of))
    for rows in _blocks(len(of)):
        found[rows] = find(of[rows])
    return found


def _finder(names: np.ndarray, count: int) -> Callable[[np.ndarray], np.ndarray]:
    """`_places` for ``count`` names, some at a time."""
    span = int(names[-1]) - int(names[0]) + 1 if len(names) else 0
    if span > 2 * count + 1024:
        return lambda of: np.searchsorted(names, of)
    table = np.empty(span, np.int32)
    for rows in _blocks(len(names)):
        table[(names[rows] - names[0]).astype(np.int64)] = np.arange(rows.start, rows.stop)
    return lambda of: table[(of - names[0]).astype(np.int64)]


def _used(names: np.ndarray, parts: list[Boundaries]) -> np.ndarray:
    """The positions of the names in some boundaries among increasing names, increasing."""
    exists, find = np.zeros(len(names), bool), _finder(names, sum(map(len, parts)))
    for part in parts:
        for rows in _blocks(len(part)):
            exists[find(part.a[rows])] = exists[find(part.b[rows])] = True
    return np.flatnonzero(exists)


def _blocks(count: int) -> Iterator[slice]:
    """Rows that are computed at a time, since intermediate results need memory."""
    for start in range(0, count, _BLOCK):
        yield slice(start, min(count, start + _BLOCK))


def _either(i: np.ndarray, j: np.ndarray, count: int) -> np.ndarray:
    """The numbers below ``count`` in one of two arrays, increasing."""
    exists = np.zeros(count, bool)
    exists[i] = exists[j] = True
    return np.flatnonzero(exists)


def _ratios(parts: np.ndarray) -> np.ndarray:
    """Quotients, rounded once."""
    if len(parts) and np.abs(parts).max() > 1 << 53:
        return np.array([a / b for a, b in parts.tolist()])
    return parts[:, 0] / parts[:, 1]


def roots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The ends of chains of merges of ``a`` (increasing) into ``b``.

    >>> roots(np.array([1, 4, 6]), np.array([4, 9, 7]))
    array([9, 9, 7])
    """
    ends = b.copy()
    if not len(a):
        return ends
    while True:
        at = np.minimum(np.searchsorted(a, ends), len(a) - 1)
        further = a[at] == ends
        if not further.any():
            return ends
        ends = np.where(further, ends[at], ends)
