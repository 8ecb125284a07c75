"""Agglomeration in a tree over ranges of labels, as rounds of messages.

Labels are divided into ranges, the *leaves*. Neighbouring leaves have a common parent node, and so
on. A boundary belongs to the lowest node that contains both of its labels. A region is *open* below
the lowest node that contains all its boundaries, which is informed when the region closes. Every
node merges as much as possible, and passes the rest to its parent. Little is left if neighbouring
regions have near numbers, as in the labels of `beam_volumes.label`. The result does not depend on
the ranges.

The first rounds only route boundaries, and do not merge. Nodes do not depend on ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.across.agglomeration import (
    Boundaries,
    Linkage,
    Merges,
    Regions,
    distinct,
    settle_in_parts,
)
from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.rounds.records import RecordRows
from beam_volumes.across.rounds.tables import Columns, label_column, mixed, table_flow
from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.kernels.labels.agglomeration import LARGEST, MEAN, QUANTILE

#: Children of a node, and levels above the leaves. A node has the open regions at the ends of its children,
#: so the largest step grows with their number.
RADIX, DEPTH = 2, 12
#: Times the expected rows that a tree has leaves for; with more rows, leaves are larger.
_SPARE = 16
#: Approximate boundaries of a leaf, or fewer if the memory is small.
LEAF = 1 << 20
#: Sampled labels for each expected leaf, and at max_leaves for one shard. The samples of all shards are
#: combined in one step, so they are small: 1 GB for 3 * 10^10 boundaries.
PER_LEAF, SAMPLE = 128, 1 << 14
#: Maximum bytes of a node for a boundary, and for a region, by linkage.
NODE_BYTES = {
    "mean": (75, 80),
    "max": (95, 75),
    "min": (80, 75),
    "lowest": (95, 75),
    "quantile": (4_160, 80),
}
#: Bytes of a boundary in a node for its names, and for each of its values.
_NAMES_BYTES, _VALUE_BYTES = 16, 8
#: While the names of all regions are found, and while boundaries are sorted.
_FINDING_BYTES, _SORTING_BYTES = 36, 12
#: Bytes of a message of a node, and of its arrays, in addition to their elements.
_MESSAGE_BYTES = 600
#: Bytes of a region in the messages of children and leaves.
_SENT_BYTES = 17
#: Bytes of each region of a node that adds boundaries in parts.
_REGION_BYTES = 56
#: Bytes of a merge while boundaries are added, and at the end, when merges are sorted for the table.
#: The first is its row. In measurements, other declarations of a node leave room for it.
_MERGE_BYTES, _SORTED_BYTES = 32, 128
#: Boundaries are then added until those that stay leave less than one part in so many of the room.
_PARTS = 16
#: Boundaries for each region: of all neighbours, and of a forest for each slab. Basins of neurons have 7.3,
#: and 1.3 to 1.9.
PER_REGION, PER_REGION_OF_FOREST = 7.3, 1.5
#: Layers of regions that stay open at both ends of a range of labels. Fewer merges of sums depend on distant
#: regions (10.5 in 5 billion voxels) than merges of extremes.
_OPEN_LAYERS, _OPEN_LAYERS_OF_EXTREMES = 10.5, 17.0
#: The part of the boundaries that stay open which a step holds among those it adds: the others wait for open
#: ends. Measured: 0.58 and 0.78.
_ADDED_AGAIN, _ADDED_AGAIN_OF_EXTREMES = 0.6, 0.8
#: Bytes of `cut` for a merge.
MERGE_BYTES = 100

MERGES = RecordRows((("label_a", "<u8"), ("label_b", "<u8"), ("score", "<f8"), ("size", "<i8")))
SEGMENTS = RecordRows((("label", "<u8"), ("segment", "<u8")))

HISTOGRAM = tuple(f"affinity_histogram-{i}" for i in range(256))
#: The columns of boundaries that each linkage needs.
NEEDED = {
    "mean": ("affinity_sum", "affinity_count"),
    "max": ("affinity_max",),
    "min": ("affinity_min",),
    "quantile": HISTOGRAM,
    "lowest": ("boundary_min",),
}


@dataclass(frozen=True, eq=False)
class TreeStep(TableStep):
    """A step in a tree over ranges of labels: the fields ``leaf``, ``radix`` and ``depth``.

    They do not change the result.
    """

    takes_any_order = True

    @property
    def leaf_bytes(self) -> int:
        """Bytes for a row in a leaf."""
        raise NotImplementedError

    def leaf_rows(self, limit_bytes: int | None) -> int:
        return leaf_size(self.leaf, self.leaf_bytes, limit_bytes)  # type: ignore[attr-defined]

    def sized(self, rows: Sequence[int], limit_bytes: int | None) -> TableStep:
        leaves = _SPARE * max(rows) // self.leaf_rows(limit_bytes)
        # In runs that an earlier version began, nodes have 16 children.
        return replace(self, radix=RADIX, depth=min(self.depth, leaves.bit_length()))  # type: ignore[call-arg,attr-defined]

    def token(self) -> str:
        # Runs of versions with this tree can be resumed.
        return TableStep.token(replace(self, radix=16, depth=3))  # type: ignore[call-arg]


@dataclass(frozen=True, eq=False)
class Agglomeration(TreeStep):
    """The merges of the greedy order for a table of boundaries."""

    linkage: str  #: {"mean", "max", "min", "quantile", "lowest"}
    quantile: float
    threshold: float
    max_size: int | None
    #: Whether there is a second input, a table of labels and their sizes; otherwise each has size
    #: 1.
    with_sizes: bool
    size_columns: tuple[str, ...] = ("label", "num_pixels")
    marks: bool = False  #: Whether sizes are marks: the size is 1 with a mark and 0 otherwise.
    min_size: int | None = None
    #: Parameters of the ranges; they do not change the result.
    leaf: int = LEAF
    radix: int = RADIX
    depth: int = DEPTH

    rows = MERGES

    @property
    def entries(self) -> tuple[str, ...]:
        return ("edges", "sizes") if self.with_sizes else ("edges",)

    @property
    def how(self) -> Linkage:
        return Linkage(self.linkage, self.quantile)

    def node_bytes(self, edges: int, regions: float) -> int:
        """The maximum bytes of a node that adds its boundaries at once."""
        each, of_region = NODE_BYTES[self.linkage]
        return math.ceil(edges * each + regions * of_region)

    def node_edges(self, limit_bytes: int, regions: int) -> int:
        """The boundaries that a node can add at once, if all of them have so many regions."""
        each, of_region = NODE_BYTES[self.linkage]
        # Each boundary has at most two.
        room = (limit_bytes - regions * of_region) // each
        return max(room, limit_bytes // (each + 2 * of_region))

    @property
    def edge_bytes(self) -> int:
        """The usual bytes of a node for a boundary."""
        return self.node_bytes(1, 1 / self._per_region)

    @property
    def leaf_bytes(self) -> int:
        return self.edge_bytes

    @property
    def value_bytes(self) -> int:
        return _VALUE_BYTES * len(NEEDED[self.linkage])

    @property
    def waiting_bytes(self) -> int:
        """Bytes of a node for a boundary that waits while others are merged."""
        return _NAMES_BYTES + self.value_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of a node for a boundary before any is merged."""
        return self.waiting_bytes + max(_FINDING_BYTES, _SORTING_BYTES + self.value_bytes)

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        nodes = sum(self.radix**level for level in range(self.depth + 1))
        table = table_flow(MERGES, nodes, limit_bytes=limit_bytes, row_bytes=32, ordered=ordered)
        first, *rest = table.rounds
        names = tuple(f"node-{level}" for level in range(self.depth + 1))
        up = [
            _Node(name, (*names[level + 1 : level + 2], *first.to), self, level, first, limit_bytes)
            for level, name in enumerate(names)
        ]
        leaf = self.leaf_rows(limit_bytes)
        sizes = (
            (_Sizes("sizes", ("census", "place"), self.size_columns, self.marks),)
            if self.with_sizes
            else ()
        )
        return Flow(
            (
                _Edges("edges", ("census", "place"), self.linkage, leaf),
                *sizes,
                Census("census", ("place", names[-1]), leaf, self.radix**self.depth),
                _Place("place", (*names, "ledger", "regions"), self.radix),
                _Ledger("ledger", names[:1], self.held_bytes, limit_bytes),
                _Regions("regions", names, self.with_sizes, self.radix),
                *up,
                *rest,
            ),
            table.ports,
        )

    def likely_bytes(self, rows: Sequence[int], shape: Triple) -> int:
        open_layers = _OPEN_LAYERS if self._is_sum else _OPEN_LAYERS_OF_EXTREMES
        layers = layers_of(self.likely_rows(rows), shape)

        def need(limit_bytes: int) -> float:
            leaf = self.leaf_rows(limit_bytes)
            nodes = loads(rows[0], layers, open_layers, leaf, self.radix, self.depth)
            return max(count * self._bytes_in_parts(is_open) for count, is_open in nodes)

        return smallest_limit(min(rows[0] * self.edge_bytes, self.most_bytes(rows)), need)

    def _bytes_in_parts(self, is_open: float) -> float:
        """Bytes for each boundary of a node, if it adds them in parts and a share of them stays open."""
        others = self.waiting_bytes + (_REGION_BYTES + _MERGE_BYTES) / self._per_region
        again = _ADDED_AGAIN if self._is_sum else _ADDED_AGAIN_OF_EXTREMES
        added = self.edge_bytes * is_open * again * (1 + 1 / _PARTS)
        return min(max(self.held_bytes, others + added), self.edge_bytes)

    @property
    def _is_sum(self) -> bool:
        """Whether scores are of sums, so that fewer merges depend on distant regions."""
        return self.how.how in (MEAN, QUANTILE)

    @property
    def _per_region(self) -> float:
        """Boundaries for each region."""
        is_forest = self.how.how == LARGEST and (self.max_size is None or self.marks)
        return PER_REGION_OF_FOREST if is_forest else PER_REGION

    def most_bytes(self, rows: Sequence[int]) -> int:
        return self.node_bytes(rows[0], min([2 * rows[0], *rows[1:]]))

    def most_rows(self, rows: Sequence[int]) -> int:
        # Each merge needs a boundary, and removes a region.
        return min(rows)

    def likely_rows(self, rows: Sequence[int]) -> int:
        return min([math.ceil(rows[0] / self._per_region), *rows[1:]])


def layers_of(regions: int, shape: Triple) -> float:
    """The expected number of layers of regions along z; a stored table has no volume.

    Labels of a plane, or of slices much thinner than a region, increase along y.

    >>> layers_of(1000, (40, 20, 10)), round(layers_of(1000, (1, 1, 1)), 6)
    (20.0, 10.0)
    >>> layers_of(100, (1, 50, 50)), layers_of(5, (1, 1, 50))
    (10.0, 5.0)
    """
    if regions > math.prod(shape):
        return regions ** (1 / 3)
    layers = 0.0
    for axis in range(3):
        extents = shape[axis:]
        layers = extents[0] * (regions / max(1, math.prod(extents))) ** (1 / len(extents))
        if layers > 0.5:
            break
    return max(1.0, layers)


def leaf_size(leaf: int, row_bytes: int, limit_bytes: int | None) -> int:
    """Rows of a leaf: a quarter of the memory, as samples are not exact."""
    return leaf if limit_bytes is None else max(1, min(leaf, limit_bytes // (4 * row_bytes)))


def smallest_limit(limit_bytes: int, need: Callable[[int], float]) -> int:
    """The memory from which on steps fit, at most ``limit_bytes``; with less memory leaves are smaller."""
    while limit_bytes > 1 and need(smaller := limit_bytes * 7 // 8) <= smaller:
        limit_bytes = smaller
    return limit_bytes


def loads(
    rows: int, layers: float, open_layers: float, leaf: int, radix: int, levels: int
) -> Iterator[tuple[float, float]]:
    """For each level of the tree, the rows of a node, and the share of them that stays open.

    A node gets ``open_layers`` layers of each of its children: a half at each end, except at the ends of all
    rows.

    >>> [round(count) for count, _ in loads(8000, layers=64, open_layers=8, leaf=1000, radix=2, levels=3)]
    [1000, 2000, 1500, 1000]
    """
    total = float(max(1, rows))  # an integer may be larger than its float
    count = own = min(total, max(float(leaf), total / radix**levels))
    while True:
        # Above 1 if the layers around its ends are more than it has.
        is_open = open_layers * total / (layers * own)
        yield count, min(1.0, min(1.0, is_open) * own / count)
        if own >= total:
            return
        own = min(total, own * radix)
        closed = 2 if own >= total else int(3 * own > total)
        count = own * min(1.0, is_open * (1 - closed / (2 * radix)))


@dataclass(frozen=True, eq=False)
class _Edges(Round):
    """For a shard of boundaries: send its labels to the census; the rows wait."""

    linkage: str
    leaf: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows = self.read(values[0])
        yield "place", (0, *key), rows
        labels = distinct(rows.a, rows.b) if len(rows) else np.empty(0, np.uint64)
        size = min(SAMPLE, PER_LEAF * -(-len(rows) // self.leaf))
        yield "census", (), ((0, *key), len(rows), *sample_of(labels, size))

    def read(self, given: Columns) -> Boundaries:
        """The valid rows with the smaller label first; no boundaries of a region with itself."""
        a, b = (label_column(given, n, "agglomerate") for n in ("label_a", "label_b"))
        used = a != b
        known = _known(given, self.linkage)
        # Rows without an affinity: NaN was left out.
        if self.linkage in ("mean", "quantile"):
            used &= known[:, 1] != 0 if self.linkage == "mean" else known.any(axis=1)
        elif "affinity_count" in given:
            used &= np.asarray(given["affinity_count"]) > 0
        # Heights may be infinite: they are compared, but not added.
        fits = np.isfinite if self.linkage != "lowest" else lambda heights: ~np.isnan(heights)
        if known.dtype.kind == "f" and not fits(known[used]).all():
            raise ValueError(
                f"agglomerate: {NEEDED[self.linkage][0]} has values that are not finite: remove "
                "these rows"
            )
        if not used.all():
            a, b, known = a[used], b[used], known[used]
        return Boundaries(np.minimum(a, b), np.maximum(a, b), known)


def _known(given: Columns, linkage: str) -> np.ndarray:
    """The values of boundaries in columns of unknown origin."""
    columns = [np.asarray(given[name]) for name in NEEDED[linkage]]
    if linkage not in ("mean", "quantile"):
        return columns[0]
    known = np.empty((len(columns[0]), len(columns)), np.int64)
    for k, (name, column) in enumerate(zip(NEEDED[linkage], columns, strict=True)):
        if column.dtype == np.uint64 and len(column) and column.max() >= np.uint64(1 << 63):
            raise ValueError(f"agglomerate: {name} has {column.max()}; values must be below 2**63")
        known[:, k] = column
        if name != "affinity_sum" and known[:, k].min(initial=0) < 0:
            raise ValueError(
                f"agglomerate: {name} has {known[:, k].min()}; numbers of faces must not be "
                "negative"
            )
    return known


@dataclass(frozen=True, eq=False)
class _Sizes(Round):
    """For a shard of sizes: report it to the census; the rows wait."""

    names: tuple[str, ...]
    marks: bool

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        labels = label_column(values[0], self.names[0], "agglomerate: sizes=")
        columns = [np.asarray(values[0][name]) for name in self.names[1:]]
        if self.marks:
            sizes = np.logical_or.reduce([c != 0 for c in columns])
        else:
            (sizes,) = columns
            if len(sizes) and not 0 <= sizes.min() <= sizes.max() < 1 << 63:
                raise ValueError(
                    f"agglomerate: sizes= has sizes from {sizes.min()} to {sizes.max()}: they "
                    "must be from 0 to 2**63 - 1"
                )
        yield "place", (1, *key), {"label": labels, "size": sizes.astype(np.int64)}
        yield "census", (), ((1, *key), 0, *sample_of(np.empty(0, np.uint64), 0))


def sample_of(labels: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """The ``size`` labels with the smallest hashes, and the hash up to which they are complete."""
    if len(labels) <= size:
        return labels, (1 << 64) - 1
    hashes = mixed(labels)
    some = np.argpartition(hashes, size - 1)[:size]
    return labels[some], int(hashes[some[-1]])


@dataclass(frozen=True, eq=False)
class Census(Round):
    """Send the ranges of the leaves to all shards with rows."""

    leaf: int
    max_leaves: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        shards = {shard: rest for shard, *rest in values}
        # Up to the minimum of their bounds, all samples together are a sample of all labels.
        bound = np.uint64(min(bound for *_, bound in shards.values()))
        samples = [labels[mixed(labels) <= bound] for _, labels, _ in shards.values()]
        labels = np.unique(np.concatenate(samples))
        count = sum(rows for rows, *_ in shards.values())
        leaves = min(self.max_leaves, max(1, -(-count // self.leaf)))
        minimum = np.unique(labels[np.arange(1, leaves) * len(labels) // leaves])
        for shard in shards:
            yield "place", shard, minimum
        yield self.to[-1], (0,), None  # though there be nothing


@dataclass(frozen=True, eq=False)
class _Place(Round):
    """For a shard: send boundaries to their nodes, and labels to their leaves."""

    radix: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        minimum = only(values, np.ndarray)
        if key[0] == 1:
            of = only(values, dict)
            for (leaf,), at in groups(leaf_of(of["label"], minimum)):
                sizes = of["label"][at], of["size"][at]
                yield "regions", (leaf,), ("size", key, *sizes)
            return
        rows = only(values, Boundaries)
        a, b = leaf_of(rows.a, minimum), leaf_of(rows.b, minimum)
        level, index = common_node(a, b, self.radix)
        for (height, node), at in groups(level, index):
            part = Boundaries(rows.a[at], rows.b[at], rows.known[at])
            yield f"node-{height}", (node,), ("edges", key, part)
            yield "ledger", (height, node), (key, len(part))
        labels = np.concatenate([rows.a, rows.b])
        where, levels = np.concatenate([a, b]), np.concatenate([level, level])
        for (leaf,), at in groups(where):
            yield "regions", (leaf,), ("level", key, *highest(labels[at], levels[at]))


@dataclass(frozen=True, eq=False)
class _Ledger(Round):
    """For a node: the number of its boundaries, before any of them arrives."""

    each: int
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        counts = dict(values).values()
        need = sum(counts) * self.each + len(counts) * _MESSAGE_BYTES
        check_room(sum(counts), need, self.limit_bytes)
        yield self.to[0], (0,), None  # all nodes wait for it


def leaf_of(labels: np.ndarray, minimum: np.ndarray) -> np.ndarray:
    return np.searchsorted(minimum, labels, side="right")


def common_node(a: np.ndarray, b: np.ndarray, radix: int) -> tuple[np.ndarray, np.ndarray]:
    """The level and number of the lowest node that contains two leaves."""
    level, index, other = np.zeros(len(a), np.int64), a.copy(), b.copy()
    while (different := index != other).any():
        level[different] += 1
        # Go up until both are in the same node.
        index[different] //= radix
        other[different] //= radix
    return level, index


def groups(*numbers: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """The positions of equal tuples of numbers."""
    if not len(numbers[0]):
        return
    order = np.lexsort(numbers[::-1])
    rows = np.stack([n[order] for n in numbers], axis=1)
    starts = np.flatnonzero(np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)]))
    for start, at in zip(starts, np.split(order, starts[1:]), strict=True):
        yield tuple(rows[start].tolist()), at


def highest(labels: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, and the highest level of each."""
    minimum = int(labels.min())
    span = int(labels.max()) - minimum + 1
    if span < 8 * len(labels) + 1024:
        highest = np.full(span, -1, np.int64)
        np.maximum.at(highest, (labels - np.uint64(minimum)).astype(np.int64), levels)
        found = np.flatnonzero(highest >= 0)
        return found.astype(np.uint64) + np.uint64(minimum), highest[found]
    own, place = np.unique(labels, return_inverse=True)
    top = np.zeros(len(own), np.int64)
    np.maximum.at(top, place.reshape(-1), levels)
    return own, top


@dataclass(frozen=True, eq=False)
class _Regions(Round):
    """For a leaf: send its regions with their sizes to the nodes that close them."""

    with_sizes: bool
    radix: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        levels = {shard: part for what, shard, *part in values if what == "level"}
        if not levels:
            return  # regions without boundaries
        labels, tops = highest(*map(np.concatenate, zip(*levels.values(), strict=True)))
        sizes = np.ones(len(labels), np.int64)
        if self.with_sizes:
            parts = {shard: part for what, shard, *part in values if what == "size"}
            known, sums = np.empty(0, np.uint64), np.empty(0, np.int64)
            if parts:
                given, sums = map(np.concatenate, zip(*parts.values(), strict=True))
                known, first, times = np.unique(given, return_index=True, return_counts=True)
                sums = sums[first]
                if len(known) < len(given):
                    raise ValueError(
                        f"agglomerate: sizes= has label {known[times > 1][0]} more than once; "
                        "give one row for each label"
                    )
            at = np.minimum(np.searchsorted(known, labels), max(0, len(known) - 1))
            missing = known[at] != labels if len(known) else np.ones(len(labels), bool)
            if missing.any():
                raise ValueError(
                    f"agglomerate: sizes= has no row for label {labels[missing][0]}; give one row "
                    "for each label of the edges"
                )
            sizes = sums[at]
        for (level,), at in groups(tops):
            node = key[0] // self.radix**level
            yield f"node-{level}", (node,), ("close", key, (labels[at], sizes[at]))


@dataclass(frozen=True, eq=False)
class _Node(Round):
    """For a node: send its merges to the table, and the rest to its parent."""

    step_: Agglomeration
    level: int
    table: Round
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        how, given = self.step_, {v[:2]: v[2] for v in values if v is not None}
        self.check(given)
        above = f"node-{self.level + 1}", (key[0] // how.radix,)
        values.clear()  # the caller needs them no longer, and parts are released when they are copied
        parts = [part for (what, _), part in given.items() if what == "edges"]
        below = [part for (what, _), part in given.items() if what == "left"]
        closing = [part for (what, _), part in given.items() if what == "close"]
        number = sum(how.radix**level for level in range(how.depth - self.level)) + key[0]
        if not parts and not below:
            if self.level == how.depth:  # though there be nothing
                yield from self.table.step((number,), [MERGES.empty()])
            return
        if not parts and len(below) == 1 and self.level < how.depth:
            yield *above, ("left", key, below[0])
            return
        parts += [left for left, _ in below]
        names = distinct(*(labels for part in parts for labels in (part.a, part.b)))
        count, is_last = sum(map(len, parts)), self.level == how.depth
        room = _Room(how, count, len(names), len(given), self.limit_bytes, is_last)
        if not room(0):  # without copies of the boundaries
            for (what, sender), part in given.items():
                yield *above, (what, (self.level, *key, sender), part)
            return
        del given
        merges, left, regions = settle_in_parts(
            parts,
            _regions(names, below, closing),
            room,
            how.how,
            how.threshold,
            how.max_size,
            how.min_size,
        )
        if len(merges) or is_last:
            yield from self.table.step((number,), [_rows_of(merges)])
        if len(left):
            yield *above, ("left", key, (left, regions))

    def check(self, given: dict[Any, Any]) -> None:
        """Refuse more boundaries than fit the memory."""
        count = regions = 0
        for (what, _), part in given.items():
            if what != "close":
                count += len(part if what == "edges" else part[0])
            if what != "edges":
                regions += len(part[0] if what == "close" else part[1].names)
        need = count * self.step_.held_bytes + regions * _SENT_BYTES + len(given) * _MESSAGE_BYTES
        check_room(count, need, self.limit_bytes)


def _regions(
    names: np.ndarray,
    below: list[tuple[Boundaries, Regions]],
    closing: list[tuple[np.ndarray, np.ndarray]],
) -> Regions:
    """The regions of a node; the lists of what children and leaves sent are emptied."""
    sizes, is_open = np.zeros(len(names), np.int64), np.ones(len(names), bool)
    while below:
        _, regions = below.pop()
        at = np.searchsorted(names, regions.names)
        sizes[at], is_open[at] = regions.sizes, regions.is_open
    while closing:
        labels, own = closing.pop()
        at = np.searchsorted(names, labels)
        sizes[at], is_open[at] = own, False
    return Regions(names, sizes, is_open)


@dataclass(frozen=True)
class _Room:
    """How many of a node's boundaries can be added to those that are left, as a function of these.

    A node with a parent sends the others to the parent.
    """

    step: Agglomeration
    count: int  #: All boundaries of the node.
    regions: int  #: All of their regions.
    messages: int
    limit_bytes: int | None
    is_last: bool  #: Whether the node has no parent.

    def __call__(self, left: int) -> int:
        step = self.step
        need = step.node_bytes(self.count, self.regions) + self.messages * _MESSAGE_BYTES
        if self.limit_bytes is None or need <= self.limit_bytes:
            return self.count
        merges, regions = min(self.count, self.regions), self.regions * _REGION_BYTES
        others = self.count * step.waiting_bytes + regions + merges * _MERGE_BYTES
        own = step.node_edges(self.limit_bytes - others, self.regions)
        # At the end, values of all that are left are copied, and merges are sorted.
        ends = max(others + self.count * step.value_bytes, regions + merges * _SORTED_BYTES)
        if ends > self.limit_bytes or own - left < max(
            1, own // _PARTS
        ):  # all at once do not fit either
            if self.is_last:
                check_room(self.count, need, self.limit_bytes)
            return 0
        return own - left


def check_room(count: int, need: int, limit_bytes: int | None) -> None:
    """Refuse more boundaries in a step than fit the memory."""
    if limit_bytes is not None and need > limit_bytes:
        raise ValueError(
            f"agglomerate: a step needs {count:,} boundaries of distant regions, of about {need // count} "
            f"bytes each: {format_bytes(need)}, but a worker has {format_bytes(limit_bytes)}: "
            f"increase memory= by {-(-(need - limit_bytes) >> 20)} MiB for each slab in flight, "
            "or number labels so that neighbours have near numbers"
        )


def _rows_of(merges: Merges) -> Any:
    columns = {"label_a": merges.a, "label_b": merges.b}
    return MERGES.merge([MERGES.of(**columns, score=merges.scores, size=merges.sizes)])
