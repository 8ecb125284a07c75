"""Merge equivalences over all slabs in a tree of keyed merges, and send answers back.

The grid of slabs is divided into blocks of ``radix`` slabs along each axis, these into blocks of
blocks, up to one node. A node joins the interfaces of its children that are now inside it. It
passes on only the components that touch its outer faces; the others are *closed*: their root and
payload are final. On the way back each node receives the final ids of the components that it passed
on or closed, and answers its children position by position, down to the windows of a slab.

Final ids are ranks of roots in raster order over the volume. With tiles along y and x, the roots of
neighbouring slabs interleave row by row, so ranks are computed from counts per row: for the tiles
of one band of rows (`interleave_tiles`), for the slices of a layer across its bands
(`interleave_bands`), and for consecutive layers (`exclusive`). Each is a small keyed step.

All functions are pure and deterministic, and accept their inputs in any order, including
duplicates. Keys are tuples of Python ints.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.across.components import (
    RULES,
    Interface,
    InterfaceKey,
    Payload,
    SlabSummary,
    as_index,
    column_bytes,
    index_dtype,
    merge_payload,
)
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.labels import components as kernels

#: Bytes of a merge per component: ids, interfaces and classes.
COMPONENT_BYTES = 120
#: Level in the tree (0: the slabs), then the cell in the grid of that level.
NodeKey = tuple[int, int, int, int]


@dataclass(frozen=True)
class Tree:
    """Blocks of slabs; the grid's counts determine ``levels``.

    >>> tree = Tree((10, 1, 3), (4, 4, 4))
    >>> tree.levels, tree.parent((0, 9, 0, 2)), tree.children((2, 0, 0, 0))
    (2, (1, 2, 0, 0), [(1, 0, 0, 0), (1, 1, 0, 0), (1, 2, 0, 0)])
    """

    counts: Triple
    radix: Triple = (4, 4, 4)

    def __post_init__(self) -> None:
        if min(self.radix) < 2:
            raise ValueError(f"radix {self.radix} must consist of numbers of at least 2")

    @property
    def levels(self) -> int:
        level = 0
        while any(n > 1 for n in self.counts_at(level)):
            level += 1
        return level

    def counts_at(self, level: int) -> Triple:
        z, y, x = (-(-n // r**level) for n, r in zip(self.counts, self.radix, strict=True))
        return (z, y, x)

    def ancestor(self, cell: Triple, level: int) -> NodeKey:
        """The node of a level that contains a slab."""
        z, y, x = (c // r**level for c, r in zip(cell, self.radix, strict=True))
        return (level, z, y, x)

    def parent(self, key: NodeKey) -> NodeKey:
        z, y, x = (c // r for c, r in zip(key[1:], self.radix, strict=True))
        return (key[0] + 1, z, y, x)

    def children(self, key: NodeKey) -> list[NodeKey]:
        """The children of a node of a level from 1 on, in raster order."""
        below = self.counts_at(key[0] - 1)
        ranges = (
            range(c * r, min((c + 1) * r, n))
            for c, r, n in zip(key[1:], self.radix, below, strict=True)
        )
        return [(key[0] - 1, z, y, x) for z, y, x in itertools.product(*ranges)]

    def sides(self, interface: InterfaceKey, level: int) -> tuple[NodeKey, NodeKey]:
        """The nodes of a level on either side of an interface; equal if it is inside."""
        axis, z, y, x = interface
        below = (z - (axis == 0), y - (axis == 1), x - (axis == 2))
        return self.ancestor(below, level), self.ancestor((z, y, x), level)


@dataclass(frozen=True, eq=False)
class NodeSummary:
    """The message of a node to its parent: the components that touch its outer faces."""

    key: NodeKey
    ids: np.ndarray  #: Their smallest provisional ids so far, increasing.
    payload: Payload
    #: The outer faces, slab by slab; members are positions in ``ids``.
    interfaces: dict[InterfaceKey, Interface]


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The state that a node keeps for the way back."""

    key: NodeKey
    #: For each child (for a slab its windows 0, 1, ...), the position of each of its components
    #: among the node's.
    children: dict[Any, np.ndarray]
    #: Positions of the components that the parent decides about, and of those that were closed
    #: here.
    up: np.ndarray
    closed: np.ndarray
    roots: np.ndarray  #: Of the closed ones, increasing.


@dataclass(frozen=True, eq=False)
class Closed:
    """Components that a node closed: roots, increasing, and merged payload."""

    key: NodeKey
    roots: np.ndarray
    payload: Payload


def _distinct(values: Iterable[Any]) -> list[Any]:
    """One value for each key, sorted by key: retried attempts may send duplicates."""
    by_key = {value.key: value for value in values}
    return [by_key[key] for key in sorted(by_key)]


def _close(
    key: NodeKey,
    ids: np.ndarray,
    payload: Payload,
    interfaces: dict[InterfaceKey, Interface],
    children: dict[Any, np.ndarray],
) -> tuple[NodeSummary, NodeTable, Closed]:
    """Pass on the components that touch an outer face, and close the others."""
    if not interfaces:
        none = {name: column[:0] for name, column in payload.items()}
        closed = np.arange(len(ids), dtype=index_dtype(len(ids)))
        own = NodeTable(key, children, closed[:0], closed, ids)
        return NodeSummary(key, ids[:0], none, {}), own, Closed(key, ids, payload)
    is_open = np.zeros(len(ids), bool)
    for interface in interfaces.values():
        is_open[interface.members] = True
    up, closed = np.flatnonzero(is_open), np.flatnonzero(~is_open)
    outer = {
        k: Interface(as_index(np.searchsorted(up, interface.members)), interface.digest)
        for k, interface in interfaces.items()
    }
    roots = ids[closed]
    some = {name: column[closed] for name, column in payload.items()}
    return (
        NodeSummary(key, ids[up], {name: column[up] for name, column in payload.items()}, outer),
        NodeTable(key, children, as_index(up), as_index(closed), roots),
        Closed(key, roots, some),
    )


def leaf(summary: SlabSummary) -> tuple[NodeSummary, NodeTable, Closed]:
    """A slab as a leaf: its windows are its children, and its inner components are closed."""
    return _close(
        (0, *summary.cell),
        summary.ids,
        summary.payload,
        summary.interfaces,
        dict(enumerate(summary.windows)),
    )


def merge(
    tree: Tree, key: NodeKey, summaries: Iterable[NodeSummary], rules: Mapping[str, Any] = RULES
) -> tuple[NodeSummary, NodeTable, Closed]:
    """Join the summaries of all children of a node, in any order, by the ``rules`` of payload columns.

    Returns the summary for the parent, empty at the top, the state for `descend`, and roots for `by_slab`.
    """
    children = _distinct(summaries)
    if [c.key for c in children] != tree.children(key):
        missing = sorted(set(tree.children(key)) ^ {c.key for c in children})
        raise ValueError(
            f"a merge across slabs needs every slab once: below node {key}, {missing} are "
            "missing, or belong to a different grid"
        )
    ids, inverse = np.unique(np.concatenate([c.ids for c in children]), return_inverse=True)
    parts = np.split(inverse, np.cumsum([len(c.ids) for c in children])[:-1])

    outer: dict[InterfaceKey, Interface] = {}
    pairs = [np.empty((0, 2), np.int64)]
    for child, part in zip(children, parts, strict=True):
        for k, (members, digest) in child.interfaces.items():
            here = Interface(part[members], digest)
            there = outer.pop(k, None)
            if there is None:
                outer[k] = here
            elif there.digest != digest or len(there.members) != len(here.members):
                raise ValueError(
                    f"the slabs on either side of interface {k} (axis, slab above) have different "
                    "voxels in the plane that they share: the input has changed, or an operation "
                    "before the label returns different voxels when run again"
                )
            else:
                pairs.append(np.stack([there.members, here.members], 1))
    # Positions in ``ids`` are sorted by id, so the smallest position is the smallest id.
    classes = kernels.unite(len(ids), np.concatenate(pairs))
    own = classes == np.arange(len(ids))
    groups = (np.cumsum(own) - 1)[classes]
    payload = merge_payload(
        {name: np.concatenate([c.payload[name] for c in children]) for name in children[0].payload},
        groups[inverse],
        int(own.sum()),
        rules,
    )
    return _close(
        key,
        ids[own],
        payload,
        {k: Interface(groups[i.members], i.digest) for k, i in outer.items()},
        {c.key: as_index(groups[part]) for c, part in zip(children, parts, strict=True)},
    )


def descend(
    table: NodeTable, of_parent: np.ndarray, of_closed: np.ndarray
) -> dict[Any, np.ndarray]:
    """Answer the children of one node on the way back; a slab gets an array for each of its windows."""
    # ``of_parent``: for each component in the node's summary the final id, or another value (a root, or 0 and
    # 1 for a mask); empty at the top. ``of_closed``: the same for each root that was closed here (`collect`
    # of ``table.roots``).
    own = of_closed
    if len(table.up):
        own = np.empty(len(table.up) + len(table.closed), np.result_type(of_parent, of_closed))
        own[table.up] = of_parent
        own[table.closed] = of_closed
    return {child: own[positions] for child, positions in table.children.items()}


def loads(tree: Tree, summary: NodeSummary) -> dict[NodeKey, int]:
    """The maximum number of components that a slab adds to each node above it."""
    # Summed by node, the largest is known before the merge starts. Times `bytes_per_component` it is the
    # memory of a worker.
    result: dict[NodeKey, int] = {}
    for level in range(1, tree.levels + 1):
        count = 0
        for k, (members, _) in summary.interfaces.items():
            below, above = tree.sides(k, level - 1)
            if below != above:
                count += len(members)
        result[tree.ancestor(summary.key[1:], level)] = count
    return result


def bytes_per_component(payload: Payload) -> int:
    """Bytes of a merge per component: ids, interfaces, classes and payload."""
    return COMPONENT_BYTES + 3 * column_bytes(payload)


# Roots, in the slabs that contain them.


def by_slab(closed: Closed, grid: Grid) -> dict[Triple, Closed]:
    """Closed components by the slab that has the root in its core."""
    result = {}
    for cell, some in _slabs_of(closed.roots, grid):
        payload = {name: column[some] for name, column in closed.payload.items()}
        result[cell] = Closed(closed.key, closed.roots[some], payload)
    return result


def _slabs_of(roots: np.ndarray, grid: Grid) -> Iterator[tuple[Triple, Any]]:
    """The slabs with some of the roots, which increase, and an index of these roots."""
    if grid.counts[1:] == (1, 1):
        yield from _layers_of(roots, grid)
        return
    slabs = np.empty(len(roots), index_dtype(len(grid)))
    kernels.slabs_of(roots, grid.shape, grid.step, grid.counts, slabs)
    order = as_index(np.argsort(slabs, kind="stable"))
    slabs = slabs[order]
    starts = _starts(slabs)
    for a, b in zip(starts, [*starts[1:], len(roots)], strict=False):
        yield grid.cell(int(slabs[a])), order[a:b]


def _layers_of(roots: np.ndarray, grid: Grid) -> Iterator[tuple[Triple, slice]]:
    """As `_slabs_of`, for slabs of whole slices."""
    layer, a = grid.step[0] * grid.shape[1] * grid.shape[2], 0
    while a < len(roots):
        z = int(roots[a]) // layer
        stop, b = (z + 1) * layer, len(roots)
        if stop <= roots[-1]:
            b = a + int(np.searchsorted(roots[a:], roots.dtype.type(stop)))
        yield (z, 0, 0), slice(a, b)
        a = b


def _starts(values: np.ndarray) -> np.ndarray:
    """The first position of each value; equal ones are adjacent."""
    is_first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


@dataclass(frozen=True)
class Keep:
    """Conditions for components to keep; all must be true. Sizes are in voxels, inclusive.

    ``cutoff`` is from `cutoff_of`, for the k largest.
    """

    min_size: int | None = None
    max_size: int | None = None
    touches_border: bool | None = None
    marked: bool | None = None
    cutoff: tuple[int, int] | None = None

    def token(self) -> str:
        """The conditions as text."""
        return repr(self)

    def __call__(self, roots: np.ndarray, payload: Payload) -> np.ndarray:
        kept = np.ones(len(roots), bool)
        if self.min_size is not None:
            kept &= payload["size"] >= self.min_size
        if self.max_size is not None:
            kept &= payload["size"] <= self.max_size
        if self.touches_border is not None:
            kept &= payload["touches_border"] == self.touches_border
        if self.marked is not None:
            kept &= payload["marked"] == self.marked
        if self.cutoff is not None:
            size, root = self.cutoff
            sizes = payload["size"]
            kept &= (sizes > size) | ((sizes == size) & (roots <= np.uint64(root)))
        return kept


@dataclass(frozen=True, eq=False)
class SlabRoots:
    """The roots in a slab, increasing, and the nodes that closed them.

    ``sources``: an index of ``roots`` for each node; ``kept``: which of them get an id.
    """

    cell: Triple
    roots: np.ndarray
    payload: Payload
    kept: np.ndarray
    sources: dict[NodeKey, Any]

    def of_kept(self, values: np.ndarray) -> np.ndarray:
        """The values of roots that are kept; no copy if these are all."""
        return values if self.kept.all() else values[self.kept]


def gather_roots(cell: Triple, parts: Iterable[Closed], keep: Keep | None = None) -> SlabRoots:
    """Collect the roots of a slab from the nodes that closed them."""
    *few, bulk = sorted(_distinct(parts), key=lambda n: len(n.roots))
    # Nearly all are of one node, usually the slab itself, so few have to be moved.
    others = np.concatenate([bulk.roots[:0], *(n.roots for n in few)])
    order = np.argsort(others, kind="stable")
    places = np.searchsorted(bulk.roots, others[order]) + np.arange(len(order))
    in_bulk = np.ones(len(bulk.roots) + len(order), bool)
    in_bulk[places] = False

    def joined(own: np.ndarray, *values: np.ndarray) -> np.ndarray:
        if not len(order):
            return own
        made = np.empty((len(in_bulk), *own.shape[1:]), own.dtype)
        made[in_bulk] = own
        made[places] = np.concatenate(values)[order]
        return made

    roots = joined(bulk.roots, *(n.roots for n in few))
    payload = {name: joined(c, *(n.payload[name] for n in few)) for name, c in bulk.payload.items()}
    position = np.empty(len(order), np.int64)
    position[order] = places
    sources: dict[NodeKey, Any] = {bulk.key: in_bulk if len(order) else slice(None)}
    for node in few:
        sources[node.key], position = np.split(position, [len(node.roots)])
    kept = np.ones(len(roots), bool) if keep is None else keep(roots, payload)
    return SlabRoots(cell, roots, payload, kept, sources)


class Largest(NamedTuple):
    """The sizes and roots of the k largest components, largest first, lowest root first on ties."""

    sizes: np.ndarray
    roots: np.ndarray


def largest(parts: Iterable[Largest], k: int) -> Largest:
    """The k largest of several; associative, and duplicate roots count once."""
    parts = list(parts)
    sizes = np.concatenate([np.empty(0, np.int64), *(p.sizes for p in parts)])
    roots, first = np.unique(
        np.concatenate([np.empty(0, np.uint64), *(p.roots for p in parts)]), return_index=True
    )
    order = np.argsort(-sizes[first], kind="stable")[:k]
    return Largest(sizes[first][order], roots[order])


def cutoff_of(chosen: Largest, k: int) -> tuple[int, int] | None:
    """The last of the k largest, for `Keep`; None if there are at most k."""
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    return (int(chosen.sizes[-1]), int(chosen.roots[-1])) if len(chosen.roots) == k else None


# Ranks.


class Counts(NamedTuple):
    """Sparse counts of roots at some places (rows or slices), increasing."""

    places: np.ndarray
    counts: np.ndarray


def row_counts(slab: SlabRoots, shape: Triple) -> Counts:
    """Kept roots per row of the volume, ``z * ny + y``."""
    rows = slab.of_kept(slab.roots) // slab.roots.dtype.type(shape[2])
    starts = _starts(rows)
    return Counts(rows[starts].astype(np.int64), np.diff(starts, append=len(rows)))


def _interleave(parts: Mapping[int, Counts]) -> tuple[dict[int, np.ndarray], Counts, np.ndarray]:
    """Exclusive sums over (place, key): for each key; all places, and the sums before each."""
    keys = sorted(parts)
    places = np.concatenate([np.empty(0, np.int64), *(parts[k].places for k in keys)])
    counts = np.concatenate([np.empty(0, np.int64), *(parts[k].counts for k in keys)])
    order = np.argsort(places, kind="stable")
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(counts[order]) - counts[order]
    ends = np.cumsum([len(parts[k].places) for k in keys])
    result = {k: before[e - len(parts[k].places) : e] for k, e in zip(keys, ends, strict=True)}
    unique, first = np.unique(places[order], return_index=True)
    sums = np.add.reduceat(counts[order], first) if len(first) else counts
    return result, Counts(unique, sums), before[order][first]


def interleave_tiles(parts: Mapping[int, Counts], ny: int) -> tuple[dict[int, np.ndarray], Counts]:
    """Interleave the tiles, by position along x, of one band of rows (one layer, one tile row).

    Returns the roots of the band before each row of a slab in the row's slice, and the roots per slice.
    """
    before, rows, sums = _interleave(parts)
    z, first = np.unique(rows.places // ny, return_index=True)
    slices = np.add.reduceat(rows.counts, first) if len(first) else rows.counts
    at = {k: np.searchsorted(z, parts[k].places // ny) for k in before}
    return {k: before[k] - sums[first][at[k]] for k in before}, Counts(z, slices)


def interleave_bands(parts: Mapping[int, Counts]) -> tuple[dict[int, np.ndarray], int]:
    """Interleave bands of a layer, by position along y: roots of the layer before their slices."""
    before, slices, _ = _interleave(parts)
    return before, int(slices.counts.sum())


def exclusive(totals: np.ndarray) -> np.ndarray:
    """The sum of all elements before each."""
    return np.cumsum(totals) - totals


def place_rows(
    rows: Counts, before: np.ndarray, slices: Counts, slices_before: np.ndarray, base: int, ny: int
) -> np.ndarray:
    """The number of roots in the volume before each row of a slab; ``base`` of them are in layers before.

    ``before`` and ``slices`` are from `interleave_tiles`, ``slices_before`` from `interleave_bands`.
    """
    return before + slices_before[np.searchsorted(slices.places, rows.places // ny)] + base


def number(slab: SlabRoots, rows: Counts, before: np.ndarray) -> dict[NodeKey, np.ndarray]:
    """Final ids of a slab's roots, for the nodes that closed them; 0 for those not kept.

    ``before`` is from `place_rows`, for the rows of `row_counts`.
    """
    ids = np.empty(int(rows.counts.sum()), np.uint64)
    kernels.number_rows(before, rows.counts, ids)
    if len(ids) < len(slab.roots):
        kept, ids = ids, np.zeros(len(slab.roots), np.uint64)
        ids[slab.kept] = kept
    return {key: ids[positions] for key, positions in slab.sources.items()}


def collect(
    roots: np.ndarray, grid: Grid, answers: Mapping[Triple, np.ndarray], dtype: Any = np.uint64
) -> np.ndarray:
    """The answers of slabs to a node (`number`), in the order of the roots that it closed."""
    out = np.empty(len(roots), dtype)
    for cell, some in _slabs_of(roots, grid):
        out[some] = answers[cell]
    return out
