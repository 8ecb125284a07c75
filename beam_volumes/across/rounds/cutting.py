"""Segments from a table of merges in a tree over ranges of labels, as rounds of messages.

Labels are divided into ranges, the *leaves*, as in `beam_volumes.across.rounds.agglomeration`. A
merge belongs to the leaf of its smaller label. A leaf follows chains of merges to their last label
in it, or the first one in another leaf. Its parent node receives only the labels at which chains
enter and leave, and follows the chains between its children. The ends of chains go down again. The
result does not depend on the ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.across.agglomeration import roots
from beam_volumes.across.rounds.agglomeration import (
    LEAF,
    LEVELS,
    MERGE_BYTES,
    PER_LEAF,
    RADIX,
    SAMPLE,
    SEGMENTS,
    Census,
    common_node,
    distinct,
    groups,
    highest,
    leaf_of,
    sample_of,
)
from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.rounds.tables import Columns, label_column, table_flow
from beam_volumes.base.text import format_bytes


@dataclass(frozen=True, eq=False)
class Cutting(TableStep):
    """The segments from a table of merges up to a score."""

    threshold: float | None
    #: Parameters of the ranges; they do not change the result.
    leaf: int = LEAF
    radix: int = RADIX
    levels: int = LEVELS

    @property
    def entries(self) -> tuple[str, ...]:
        return ("merges",)

    def flow(self, limit_bytes: int | None = None) -> Flow:
        leaves = self.radix**self.levels
        table = table_flow(SEGMENTS, leaves, limit_bytes=limit_bytes, row_bytes=16)
        first, *rest = table.rounds
        leaf = self.leaf
        if limit_bytes is not None:
            leaf = max(1, min(leaf, limit_bytes // (4 * MERGE_BYTES)))
        up = [f"up-{level}" for level in range(self.levels + 1)]
        down = [f"down-{level}" for level in range(self.levels + 1)]
        how = self.radix, limit_bytes
        return Flow(
            (
                _Merges("merges", ("census", "place"), self.threshold, leaf),
                Census("census", ("place", up[0]), leaf, leaves),
                _Place("place", (up[0],), self.radix),
                _Leaf(up[0], (*up[1:2], down[0]), *how),
                *(
                    _Up(up[k], (*up[k + 1 : k + 2], down[k]), *how, k)
                    for k in range(1, self.levels + 1)
                ),
                *(_Down(down[k], (down[k - 1],)) for k in range(self.levels, 0, -1)),
                _Segments(down[0], first.to, first),
                *rest,
            ),
            table.ports,
        )

    def no_rows(self) -> Columns:
        return SEGMENTS.columns(SEGMENTS.empty())


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
    """From a node to its parent.

    The level of a label is the level of the lowest node that contains both ends of a chain to it,
    or 0 in the node itself.
    """

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
        yield "place", key, _Pairs(a, b)
        labels = distinct(a) if len(a) else a
        size = min(SAMPLE, PER_LEAF * -(-len(a) // self.leaf))
        yield "census", (), (key, len(a), *sample_of(labels, size))


def _no_merges() -> ValueError:
    return ValueError(
        "cut: in a table of merges each label_a is there once, and label_b is larger: "
        "give one that agglomerate made"
    )


@dataclass(frozen=True, eq=False)
class _Place(Round):
    """For a shard: send merges to the leaves of their smaller labels, and the others' to theirs."""

    radix: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        a, b = only(values, _Pairs)
        minimum = only(values, np.ndarray)
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
    radix: int
    limit_bytes: int | None

    def check(self, count: int) -> None:
        """Refuse more chains than fit the memory."""
        need = MERGE_BYTES * count
        if self.limit_bytes is not None and need > self.limit_bytes:
            raise ValueError(
                f"cut: a step needs {count:,} merges of distant regions, of {MERGE_BYTES} bytes "
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
        yield "down-0", key, _Waiting({key[0]: _Pairs(a, ends)})
        leave = levels > 0
        wanted, wanted_levels = _with_levels(b[leave], levels[leave])
        entered, entered_levels = _with_levels(
            *(np.concatenate([p[k] for p in parts]) for k in (3, 4))
        )
        if not len(wanted) and not len(entered):
            return
        found = _followed(entered, _Pairs(a, ends))
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
        yield f"down-{self.level}", key, _Waiting(waiting)
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
        ends = only(values, _Ends)
        (labels, own) = only(values, _Waiting).children[key[0]]
        last = own if ends is None else _followed(own, ends.chains)
        yield from self.table.step(key, [SEGMENTS.of(label=labels, segment=last)])
