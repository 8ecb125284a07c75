"""The lowest floods of basins in a tree over ranges of labels, as rounds of messages.

Basins are divided into ranges of labels, the *leaves*, as in `beam_volumes.across.rounds.agglomeration`.
A pass belongs to the lowest node that contains both of its basins. A node sends up only its basins
with passes to other nodes: the lowest flood of each inside the node, and a forest that has the lowest
way from each to each. The heights of their floods go down again, and each node floods its basins
from them. Heights are only compared, so the result does not depend on the ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.across.agglomeration import distinct
from beam_volumes.across.rounds.agglomeration import (
    DEPTH,
    LEAF,
    PER_LEAF,
    RADIX,
    SAMPLE,
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
    label_column,
    likely_shard_bytes,
    table_flow,
)
from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.kernels.labels.saddles import forest, lowest_floods

#: Bytes for a basin, and for a pass.
BASIN_BYTES, PASS_BYTES = 150, 110
#: Bytes of a row of the result.
_ROW_BYTES = 16
#: Layers of basins that stay open at both ends of a range of labels. Nodes have up to 6.1 layers of basins of
#: smooth noise from two children.
_OPEN_LAYERS = 3.0


@dataclass(frozen=True, eq=False)
class Floods(TreeStep):
    """For each basin the lowest level of a flood that comes from the level of any basin."""

    # The first input is a table of pairs of basins and the passes between them (``label_a``, ``label_b``,
    # ``boundary_min``), the second one of all basins and their levels.

    dtype: np.dtype  #: Dtype of levels.
    levels: tuple[str, str]  #: Columns of basins and levels.
    #: The sign of zero in results: rows arrive in any order, so no row can determine it.
    zero: float
    #: Parameters of the ranges; they do not change the result.
    leaf: int = LEAF
    radix: int = RADIX
    depth: int = DEPTH

    leaf_bytes = PASS_BYTES + BASIN_BYTES
    entries = ("passes", "levels")

    @property
    def rows(self) -> RecordRows:
        return RecordRows((("label", "<u8"), ("level", self.dtype.str)))

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        leaves = self.radix**self.depth
        table = table_flow(
            self.rows, leaves, limit_bytes=limit_bytes, row_bytes=_ROW_BYTES, ordered=ordered
        )
        first, *rest = table.rounds
        leaf = self.leaf_rows(limit_bytes)
        up = [f"up-{level}" for level in range(self.depth + 1)]
        down = [f"down-{level}" for level in range(self.depth + 1)]
        return Flow(
            (
                _Passes("passes", ("census", "place"), self, leaf),
                _Levels("levels", ("census", "place"), self, leaf),
                Census("census", ("place", up[0]), leaf, leaves),
                _Place("place", tuple(up), self.radix),
                *(
                    _Up(up[k], (*up[k + 1 : k + 2], down[k]), self, k, limit_bytes)
                    for k in range(self.depth + 1)
                ),
                *(_Down(down[k], (down[k - 1],)) for k in range(self.depth, 0, -1)),
                _Finish(down[0], first.to, self, first),
                *rest,
            ),
            table.ports,
        )

    def most_rows(self, rows: Sequence[int]) -> int:
        return rows[1]

    def likely_bytes(self, rows: Sequence[int], shape: Triple) -> int:
        passes, basins = rows
        each = passes / max(1, basins)
        layers = layers_of(basins, shape)

        def need(limit_bytes: int) -> float:
            leaf = max(1, math.floor(self.leaf_rows(limit_bytes) / (1 + each)))
            nodes = loads(basins, layers, _OPEN_LAYERS, leaf, self.radix, self.depth)
            (first, _), *above = nodes
            # Forests have a pass for each basin. Children have the passes of one layer between them.
            between = passes * min(1.0, 1 / layers, layers - 1)
            inner = first * (BASIN_BYTES + PASS_BYTES * each)
            open_bytes = BASIN_BYTES + PASS_BYTES * min(1.0, each)
            return max([inner, *(count * open_bytes + PASS_BYTES * between for count, _ in above)])

        maximum = self.most_bytes(rows)
        table = likely_shard_bytes(basins, _ROW_BYTES)
        return min(maximum, max(table, smallest_limit(maximum, need)))

    def most_bytes(self, rows: Sequence[int]) -> int:
        return rows[0] * PASS_BYTES + rows[1] * BASIN_BYTES


class _Edges(NamedTuple):
    """Passes between basins ``a`` and ``b``, as labels or places."""

    a: np.ndarray
    b: np.ndarray
    height: np.ndarray


class _Basins(NamedTuple):
    """Basins, increasing, and a number of each, such as its level."""

    labels: np.ndarray
    numbers: np.ndarray


class _Child(NamedTuple):
    """From a node to its parent: basins with passes to other nodes."""

    basins: _Basins  #: With their lowest floods in the node.
    #: The level of the highest node that a pass of each leads to.
    tops: np.ndarray
    edges: _Edges  #: The forest that connects them.


class _Waiting(NamedTuple):
    """From a node to itself, until floods of its basins from outside are known."""

    basins: _Basins  #: With their lowest floods in the node.
    edges: _Edges  #: Places of basins; from the lowest pass on.
    children: dict[int, np.ndarray]  #: Labels of the basins of each child.


@dataclass(frozen=True, eq=False)
class _Shard(Round):
    """For a shard: send its labels to the census; the rows wait."""

    of: Floods
    leaf: int

    def sent(self, key: Key, labels: np.ndarray, rows: Any) -> Iterator[Message]:
        yield "place", key, rows
        size = min(SAMPLE, PER_LEAF * -(-len(labels) // self.leaf))
        some = distinct(labels) if len(labels) else labels
        yield "census", (), (key, len(labels), *sample_of(some, size))


@dataclass(frozen=True, eq=False)
class _Passes(_Shard):
    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        a, b = (label_column(values[0], name, self.of.name) for name in ("label_a", "label_b"))
        height = np.asarray(values[0]["boundary_min"], np.float64)
        edges = _Edges(a, b, np.where(height == 0, self.of.zero, height))
        yield from self.sent((0, *key), a, edges)


@dataclass(frozen=True, eq=False)
class _Levels(_Shard):
    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        name, column = self.of.levels
        labels = label_column(values[0], name, self.of.name)
        own = np.asarray(values[0][column], np.float64)
        basins = _Basins(labels, np.where(own == 0, self.of.zero, own))
        yield from self.sent((1, *key), labels, basins)


@dataclass(frozen=True, eq=False)
class _Place(Round):
    """For a shard: send passes to their nodes, and basins to their leaves."""

    radix: int

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        minimum, basins = only(values, np.ndarray), only(values, _Basins)
        if basins is not None:
            for (leaf,), at in groups(leaf_of(basins.labels, minimum)):
                yield "up-0", (leaf,), ("levels", key, _Basins(*(x[at] for x in basins)))
            return
        edges = only(values, _Edges)
        a, b = leaf_of(edges.a, minimum), leaf_of(edges.b, minimum)
        level, index = common_node(a, b, self.radix)
        for (height, node), at in groups(level, index):
            yield f"up-{height}", (node,), ("passes", key, _Edges(*(x[at] for x in edges)))
        far = level > 0
        labels, levels = np.concatenate([edges.a[far], edges.b[far]]), np.tile(level[far], 2)
        for (leaf,), at in groups(np.concatenate([a[far], b[far]])):
            yield "up-0", (leaf,), ("tops", key, _Basins(*highest(labels[at], levels[at])))


@dataclass(frozen=True, eq=False)
class _Up(Round):
    """For a node: flood its basins, and send those with passes to other nodes to its parent."""

    of: Floods
    level: int
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        given: dict[str, dict[Key, Any]] = {"passes": {}, "levels": {}, "tops": {}, "child": {}}
        for what, sender, part in (v for v in values if v is not None):
            given[what][sender] = part
        children: dict[Key, _Child] = given["child"]
        edges = [*given["passes"].values(), *(c.edges for c in children.values())]
        parts = [*given["levels"].values(), *(c.basins for c in children.values())]
        self.check(sum(len(e.a) for e in edges), sum(len(p.labels) for p in parts))
        nothing = np.empty(0, np.uint64)
        labels = np.concatenate([nothing, *(p.labels for p in parts)])
        order = np.argsort(labels)
        labels = labels[order]
        levels = np.concatenate([np.empty(0), *(p.numbers for p in parts)])[order]
        tops = np.zeros(len(labels), np.int64)
        for found in given["tops"].values():
            at = np.searchsorted(labels, found.labels)
            tops[at] = np.maximum(tops[at], found.numbers)
        for child in children.values():
            tops[np.searchsorted(labels, child.basins.labels)] = child.tops
        height = np.concatenate([np.empty(0), *(e.height for e in edges)])
        order = np.argsort(height, kind="stable")
        a, b = (
            np.searchsorted(labels, np.concatenate([nothing, *(e[k] for e in edges)])[order])
            for k in (0, 1)
        )
        own = _Edges(a, b, height[order])
        basins = _Basins(labels, lowest_floods(*own, levels))
        below = {number: child.basins.labels for (number,), child in children.items()}
        yield f"down-{self.level}", key, _Waiting(basins, own, below)
        leaving = tops > self.level
        if leaving.any():
            between, at = forest(own.a, own.b, leaving)
            left = _Edges(labels[between[:, 0]], labels[between[:, 1]], own.height[at])
            kept = _Basins(labels[leaving], basins.numbers[leaving])
            child = _Child(kept, tops[leaving], left)
            yield f"up-{self.level + 1}", (key[0] // self.of.radix,), ("child", key, child)

    def check(self, passes: int, basins: int) -> None:
        """Refuse more passes and basins than fit the memory."""
        need = passes * PASS_BYTES + basins * BASIN_BYTES
        if self.limit_bytes is not None and need > self.limit_bytes:
            raise ValueError(
                f"{self.of.name}: a step needs {basins:,} basins and {passes:,} passes between "
                f"them: {format_bytes(need)}, but a worker has {format_bytes(self.limit_bytes)}: "
                f"increase memory= by {-(-(need - self.limit_bytes) >> 20)} MiB for each slab in "
                "flight, or smooth the volume first"
            )


def _flooded(values: list[Any]) -> tuple[_Basins, dict[int, np.ndarray]]:
    """The lowest floods of a node's basins, from outside as well, and labels of its children."""
    (labels, floods), edges, children = only(values, _Waiting)
    outside = only(values, _Basins)
    if outside is not None:
        floods = floods.copy()
        floods[np.searchsorted(labels, outside.labels)] = outside.numbers
        floods = lowest_floods(*edges, floods)
    return _Basins(labels, floods), children


@dataclass(frozen=True, eq=False)
class _Down(Round):
    """For a node: send the floods of basins to its children."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (labels, floods), children = _flooded(values)
        for child, own in children.items():
            yield self.to[0], (child,), _Basins(own, floods[np.searchsorted(labels, own)])


@dataclass(frozen=True, eq=False)
class _Finish(Round):
    """For a leaf: the rows of its basins."""

    of: Floods
    table: Round

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        (labels, floods), _ = _flooded(values)
        rows = self.of.rows.of(label=labels, level=floods.astype(self.of.dtype))
        yield from self.table.step(key, [rows])
