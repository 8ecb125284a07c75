"""Segments from a table of merges in a tree over ranges of labels, as rounds of messages.

Labels are divided into ranges, the *leaves*, as in `beam_volumes.across.rounds.agglomeration`. A
merge belongs to the leaf of its smaller label. A leaf follows chains of merges to their last label
in it, or the first one in another leaf. Its parent node receives only the labels at which chains
enter and leave, and follows the chains between its children. The ends of chains go down again. The
result does not depend on the ranges.

Marks of segments are combined afterwards. A leaf completes segments without labels of other leaves.
Other segments are combined by a hash of their last labels, and the marks return to the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.across.agglomeration import distinct, roots
from beam_volumes.across.rounds.agglomeration import (
    DEPTH,
    LEAF,
    MERGE_BYTES,
    PER_LEAF,
    RADIX,
    SAMPLE,
    SEGMENTS,
    Census,
    TreeStep,
    common_node,
    groups,
    highest,
    layers_of,
    leaf_of,
    loads,
    sample_of,
    smallest_limit,
)
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.rounds.records import RecordRows
from beam_volumes.across.rounds.tables import (
    by_bucket,
    label_column,
    likely_shard_bytes,
    table_flow,
)
from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import format_bytes

#: Layers of regions with merges across both ends of a range of labels: 0.9 to 1.2 for neurons.
_OPEN_LAYERS = 1.2
#: Bytes of a row of the result.
_ROW_BYTES = 16


@dataclass(frozen=True, eq=False)
class Cutting(TreeStep):
    """The segments from a table of merges up to a score."""

    threshold: float | None
    #: Parameters of the ranges; they do not change the result.
    leaf: int = LEAF
    radix: int = RADIX
    depth: int = DEPTH

    leaf_bytes = MERGE_BYTES
    rows = SEGMENTS

    @property
    def entries(self) -> tuple[str, ...]:
        return ("merges",)

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        leaves = self.radix**self.depth
        table = table_flow(
            SEGMENTS, leaves, limit_bytes=limit_bytes, row_bytes=_ROW_BYTES, ordered=ordered
        )
        first, *rest = table.rounds
        leaf = self.leaf_rows(limit_bytes)
        given = (_Merges("merges", ("census", "place"), self.threshold, leaf),)
        tree = _tree(given, (), self, limit_bytes)
        return Flow((*tree, _Segments("down-0", first.to, first), *rest), table.ports)

    def likely_bytes(self, rows: Sequence[int], shape: Triple) -> int:
        return _likely_bytes(self, rows[0], rows[0], shape)

    def most_bytes(self, rows: Sequence[int]) -> int:
        return MERGE_BYTES * rows[0]


@dataclass(frozen=True, eq=False)
class Marking(TreeStep):
    """The mark of each label, or of the labels that it was merged with; at most one has a mark."""

    # The first input is a table of merges, the second one of all labels with the smallest and the largest of
    # their marks and 0.

    dtype: np.dtype  #: Dtype of the marks.
    columns: tuple[str, str, str]  #: Columns of labels, and of smallest and largest marks.
    #: Parameters of the ranges; they do not change the result.
    leaf: int = LEAF
    radix: int = RADIX
    depth: int = DEPTH

    leaf_bytes = MERGE_BYTES
    entries = ("merges", "marks")

    @property
    def rows(self) -> RecordRows:
        return RecordRows((("label", "<u8"), ("mark", self.dtype.str)))

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        leaves = self.radix**self.depth
        table = table_flow(
            self.rows, leaves, limit_bytes=limit_bytes, row_bytes=_ROW_BYTES, ordered=ordered
        )
        first, *rest = table.rounds
        leaf = self.leaf_rows(limit_bytes)
        given = (
            _Merges("merges", ("census", "place"), None, leaf),
            _Marks("marks", ("census", "place"), self.columns, leaf),
        )
        how = self.name, self.radix, limit_bytes
        return Flow(
            (
                *_tree(given, ("down-0",), self, limit_bytes),
                _Marked("down-0", ("home", "finish"), *how),
                _Home("home", ("finish",), *how),
                _Finish("finish", first.to, self, first),
                *rest,
            ),
            table.ports,
        )

    def most_rows(self, rows: Sequence[int]) -> int:
        return rows[1]

    def likely_bytes(self, rows: Sequence[int], shape: Triple) -> int:
        return _likely_bytes(self, sum(rows), rows[1], shape)

    def most_bytes(self, rows: Sequence[int]) -> int:
        return MERGE_BYTES * sum(rows)


def _likely_bytes(of: Cutting | Marking, rows: int, regions: int, shape: Triple) -> int:
    """The expected bytes of a node of `_tree`, or of the table of regions."""
    layers = layers_of(regions, shape)

    def need(limit_bytes: int) -> float:
        leaf = of.leaf_rows(limit_bytes)
        nodes = loads(rows, layers, _OPEN_LAYERS, leaf, of.radix, of.depth)
        return MERGE_BYTES * max(count for count, _ in nodes)

    table = likely_shard_bytes(regions, _ROW_BYTES)
    return max(table, smallest_limit(MERGE_BYTES * rows, need))


def _tree(
    given: tuple[_Merges | _Marks, ...],
    place_to: tuple[str, ...],
    of: Cutting | Marking,
    limit_bytes: int | None,
) -> tuple[Round, ...]:
    """The rounds that follow chains of merges; their ends arrive at ``"down-0"``.

    ``place_to``: where ``"place"`` sends in addition to the leaves.
    """
    up = [f"up-{level}" for level in range(of.depth + 1)]
    down = [f"down-{level}" for level in range(of.depth + 1)]
    how = of.name, of.radix, limit_bytes
    return (
        *given,
        Census("census", ("place", up[0]), given[0].leaf, of.radix**of.depth),
        _Place("place", (up[0], *place_to), of.radix),
        _Leaf(up[0], (*up[1:2], down[0]), *how),
        *(_Up(up[k], (*up[k + 1 : k + 2], down[k]), *how, k) for k in range(1, of.depth + 1)),
        *(_Down(down[k], (down[k - 1],)) for k in range(of.depth, 0, -1)),
    )


class _Pairs(NamedTuple):
    """Labels, and the next labels of their chains."""

    a: np.ndarray
    b: np.ndarray


class _Part(NamedTuple):
    """From a shard to a leaf: some merges, and labels that merges of other leaves lead to."""

    shard: Key
    merges: _Pairs
    #: The level of the lowest node with both labels of each merge.
    levels: np.ndarray
    entered: np.ndarray
    entered_levels: np.ndarray


class _Child(NamedTuple):
    """From a node to its parent."""

    # The level of a label is the level of the lowest node that contains both ends of a chain to it, or 0 in
    # the node itself.

    node: int
    chains: _Pairs  #: Labels at which chains enter, and the ends of these chains in the node.
    levels: np.ndarray  #: Of the ends.
    entered_levels: np.ndarray  #: The highest ones from which chains enter at each label.
    wanted: np.ndarray  #: The labels in other nodes at which chains leave, increasing.
    wanted_levels: np.ndarray

    def __len__(self) -> int:
        return len(self.levels) + len(self.wanted)


class _Waiting(NamedTuple):
    """From a node to itself: for each child, the labels that it wants, and the ends of their chains.

    A leaf wants them for its merges.
    """

    children: dict[int, _Pairs]
    reached: np.ndarray  #: In a leaf, the ends of chains from other leaves.


class _Ends(NamedTuple):
    """From a parent: the last label of each chain."""

    chains: _Pairs  #: Sorted.


@dataclass(frozen=True, eq=False)
class _Merges(Round):
    """For a shard of merges: send its labels to the census; the merges wait."""

    threshold: float | None
    leaf: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        a, b = (label_column(values[0], name, "cut") for name in ("label_a", "label_b"))
        if self.threshold is not None:
            reached = np.asarray(values[0]["score"]) >= self.threshold
            a, b = a[reached], b[reached]
        if (b <= a).any():
            raise _no_merges()
        yield "place", (0, *key), _Pairs(a, b)
        yield "census", (), _count((0, *key), a, self.leaf)


def _count(shard: Key, labels: np.ndarray, leaf: int) -> tuple[Any, ...]:
    """The number of labels of a shard, and a sample of them, for the census."""
    size = min(SAMPLE, PER_LEAF * -(-len(labels) // leaf))
    return shard, len(labels), *sample_of(distinct(labels) if len(labels) else labels, size)


class _Labels(NamedTuple):
    """Labels of a shard or of a leaf, and their marks, or 0."""

    labels: np.ndarray
    marks: np.ndarray


@dataclass(frozen=True, eq=False)
class _Marks(Round):
    """For a shard of marks: send its labels to the census; the marks wait."""

    columns: tuple[str, str, str]
    leaf: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        labels = label_column(values[0], self.columns[0], "watershed")
        low, high = (np.asarray(values[0][name]) for name in self.columns[1:])
        # The largest of a negative mark and 0 is 0.
        yield "place", (1, *key), _Labels(labels, np.where(high != 0, high, low))
        yield "census", (), _count((1, *key), labels, self.leaf)


def _no_merges() -> ValueError:
    return ValueError(
        "cut: in a table of merges each label_a is there once, and label_b is larger: "
        "give one that agglomerate made"
    )


@dataclass(frozen=True, eq=False)
class _Place(Round):
    """For a shard: send merges to the leaves of their smaller labels, and the others' to theirs.

    Marks are sent to the leaves of their labels.
    """

    radix: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        minimum = only(values, np.ndarray)
        marks = only(values, _Labels)
        if marks is not None:
            for (number,), at in groups(leaf_of(marks.labels, minimum)):
                own = _Labels(marks.labels[at], marks.marks[at])
                yield "down-0", (number,), (key, len(minimum) + 1, own)
            return
        a, b = only(values, _Pairs)
        leaf, end = leaf_of(a, minimum), leaf_of(b, minimum)
        levels, _ = common_node(leaf, end, self.radix)
        nothing = np.empty(0, np.int64)
        none = np.empty(0, np.uint64)
        for (number,), at in groups(leaf):
            part = _Part(key, _Pairs(a[at], b[at]), levels[at], none, nothing)
            yield "up-0", (number,), part
        leaves = np.flatnonzero(levels > 0)
        for (number,), at in groups(end[leaves]):
            entered = highest(b[leaves[at]], levels[leaves[at]])
            yield "up-0", (number,), _Part(key, _Pairs(none, none), nothing, *entered)


@dataclass(frozen=True, eq=False)
class _Node(Round):
    of: str  #: The name of the step in messages.
    radix: int
    limit_bytes: int | None

    def check(self, count: int) -> None:
        """Refuse more chains than fit the memory."""
        need = MERGE_BYTES * count
        if self.limit_bytes is not None and need > self.limit_bytes:
            raise ValueError(
                f"{self.of}: a step needs {count:,} labels of distant regions, of {MERGE_BYTES} bytes "
                f"each: {format_bytes(need)}, but a worker has {format_bytes(self.limit_bytes)}: "
                f"increase memory= by {-(-(need - self.limit_bytes) >> 20)} MiB for each slab in "
                "flight, or number labels so that neighbours have near numbers"
            )


@dataclass(frozen=True, eq=False)
class _Leaf(_Node):
    """For a leaf: follow its merges."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        sent = [v for v in values if type(v) is _Part]
        parts = list({(p.shard, len(p.entered) > 0): p for p in sent}.values())
        self.check(sum(len(p.levels) + len(p.entered) for p in parts))
        if not parts:  # though there be nothing
            parts = [_Part((), _Pairs(*np.empty((2, 0), np.uint64)), *np.empty((3, 0), np.int64))]
        a, b, levels = map(
            np.concatenate, zip(*((*p.merges, p.levels) for p in parts), strict=True)
        )
        order = np.argsort(a)
        a, b, levels = a[order], b[order], levels[order]
        if (a[1:] == a[:-1]).any():
            raise _no_merges()
        ends = roots(a, b)
        leave = levels > 0
        wanted, wanted_levels = _with_levels(b[leave], levels[leave])
        entered, entered_levels = _with_levels(
            *(np.concatenate([p[k] for p in parts]) for k in (3, 4))
        )
        found = _followed(entered, _Pairs(a, ends))
        yield "down-0", key, _Waiting({key[0]: _Pairs(a, ends)}, found)
        if not len(wanted) and not len(entered):
            return
        chains = _Pairs(entered, found)
        own = _level_of(found, wanted, wanted_levels)
        child = _Child(key[0], chains, own, entered_levels, wanted, wanted_levels)
        yield "up-1", (key[0] // self.radix,), child


def _with_levels(labels: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, increasing, and the highest level of each."""
    if not len(labels):
        return labels.astype(np.uint64), levels.astype(np.int64)
    return highest(labels, levels)


def _at(labels: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The position of labels among increasing ones, and whether they are there."""
    if not len(known):
        return np.zeros(len(labels), np.int64), np.zeros(len(labels), bool)
    at = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    return at, known[at] == labels


def _followed(labels: np.ndarray, chains: _Pairs) -> np.ndarray:
    """The ends of the chains of labels; labels without a chain stay."""
    at, has_chain = _at(labels, chains.a)
    ends = labels.copy()
    ends[has_chain] = chains.b[at[has_chain]]
    return ends


def _level_of(labels: np.ndarray, known: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The levels of labels; 0 for others."""
    at, is_known = _at(labels, known)
    found = np.zeros(len(labels), np.int64)
    found[is_known] = levels[at[is_known]]
    return found


@dataclass(frozen=True, eq=False)
class _Up(_Node):
    """For a node: follow the chains between its children."""

    level: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        children = list({child.node: child for child in values}.values())
        self.check(sum(map(len, children)))

        def joined(*columns: np.ndarray) -> np.ndarray:
            return np.concatenate(columns)

        entered = joined(*(c.chains.a for c in children))
        order = np.argsort(entered)
        entered = entered[order]
        ends = joined(*(c.chains.b for c in children))[order]
        entered_levels = joined(*(c.entered_levels for c in children))[order]
        # Labels outside of the node have one level for all labels in it.
        outside, outside_levels = _with_levels(
            joined(*(c.wanted for c in children)), joined(*(c.wanted_levels for c in children))
        )
        far = outside_levels > self.level
        outside, outside_levels = outside[far], outside_levels[far]
        moves = entered != ends
        own = _Pairs(entered[moves], roots(entered[moves], ends[moves]))
        waiting = {c.node: _Pairs(c.wanted, _followed(c.wanted, own)) for c in children}
        yield f"down-{self.level}", key, _Waiting(waiting, entered[:0])
        reached = [ends[_at(ends, outside)[1]] for _, ends in waiting.values()]
        wanted = np.unique(joined(*reached))
        up = entered_levels > self.level
        if not up.any() and not len(wanted):
            return
        chains = _Pairs(entered[up], _followed(entered[up], own))
        levels = _level_of(chains.b, outside, outside_levels)
        wanted_levels = _level_of(wanted, outside, outside_levels)
        child = _Child(key[0], chains, levels, entered_levels[up], wanted, wanted_levels)
        yield f"up-{self.level + 1}", (key[0] // self.radix,), child


@dataclass(frozen=True, eq=False)
class _Down(Round):
    """For a node: send the ends of chains to its children."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        ends = only(values, _Ends)
        for child, (labels, own) in only(values, _Waiting).children.items():
            last = own if ends is None else _followed(own, ends.chains)
            yield self.to[0], (child,), _Ends(_Pairs(labels, last))


@dataclass(frozen=True, eq=False)
class _Segments(Round):
    """For a leaf: the segments of its labels."""

    table: Round

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        labels, last = _last(key, values)
        yield from self.table.step(key, [SEGMENTS.of(label=labels, segment=last)])


def _last(key: Key, values: list[Any]) -> _Pairs:
    """The labels of a leaf with merges, increasing, and the last labels of their chains."""
    ends = only(values, _Ends)
    waiting = only(values, _Waiting)
    if waiting is None:
        return _Pairs(*np.empty((2, 0), np.uint64))
    labels, own = waiting.children[key[0]]
    return _Pairs(labels, own if ends is None else _followed(own, ends.chains))


class _Leaving(NamedTuple):
    """From a leaf to itself: its labels, and the segment of each; the marks of its segments."""

    labels: np.ndarray
    place: np.ndarray  #: The segment of each label, an index of the following.
    segments: np.ndarray  #: Last labels, increasing.
    marks: np.ndarray


@dataclass(frozen=True, eq=False)
class _Marked(_Node):
    """For a leaf: the marks of its segments; those with labels of other leaves are combined."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        sent = [v for v in values if type(v) is tuple]
        parts = list({shard: part for shard, _, part in sent}.values())
        chains = _last(key, values)
        self.check(len(chains.a) + sum(len(part.labels) for part in parts))
        if not parts:
            yield "finish", key, None
            return
        labels, marks = map(np.concatenate, zip(*parts, strict=True))
        segments, place = np.unique(_followed(labels, chains), return_inverse=True)
        found = np.zeros(len(segments), marks.dtype)
        marked = marks != 0
        found[place[marked]] = marks[marked]
        yield "finish", key, _Leaving(labels, place, segments, found)
        waiting = only(values, _Waiting)
        reached = segments[:0] if waiting is None else np.unique(waiting.reached)
        elsewhere = ~_at(segments, np.sort(labels))[1] | _at(segments, reached)[1]
        segments, found = segments[elsewhere], found[elsewhere]
        for bucket, at in by_bucket(segments, sent[0][1]):
            yield "home", (bucket,), (key, _Labels(segments[at], found[at]))


@dataclass(frozen=True, eq=False)
class _Home(_Node):
    """For a bucket of segments with labels of several leaves: the mark of each."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        parts = dict(values)
        self.check(sum(len(part.labels) for part in parts.values()))
        labels, marks = map(np.concatenate, zip(*parts.values(), strict=True))
        segments, place = np.unique(labels, return_inverse=True)
        found = np.zeros(len(segments), marks.dtype)
        marked = marks != 0
        found[place[marked]] = marks[marked]
        for leaf, (own, _) in parts.items():
            yield "finish", leaf, (key, _Labels(own, found[np.searchsorted(segments, own)]))


@dataclass(frozen=True, eq=False)
class _Finish(Round):
    """For a leaf: the marks of its labels."""

    of: Marking
    table: Round

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        leaving = only(values, _Leaving)
        if leaving is None:  # though there be nothing
            yield from self.table.step(key, [self.of.rows.empty()])
            return
        labels, place, segments, marks = leaving
        marks = marks.copy()
        for _, (found, own) in (v for v in values if type(v) is tuple):
            marks[np.searchsorted(segments, found)] = own
        order = np.argsort(labels)
        rows = self.of.rows.of(label=labels[order], mark=marks[place[order]])
        yield from self.table.step(key, [rows])
