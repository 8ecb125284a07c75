"""The merge of components over all slabs as rounds of messages.

`beam_volumes.across.merge` has the computations. Here they are arranged as a `Flow`:

- ``slabs``, ``merge-1``, ...: summaries go up the tree of slabs to one node. They include the
  number of components, and the k largest if needed, so that the last node knows them.
- ``roots``, ``tiles``, ``bands``, ``layers``, ``ranks``: roots are sent to their slabs and ranked
  there. Rounds over an axis with a single slab are left out. For a mask all of them are left out,
  because a node can decide which components remain.
- ``down-n``, ..., ``down-0``: final ids go back down the tree to the windows of every slab.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.across.components import RULES, SlabSummary
from beam_volumes.across.merge import (
    Closed,
    Counts,
    Keep,
    Largest,
    NodeSummary,
    NodeTable,
    SlabRoots,
    Tree,
    by_slab,
    collect,
    cutoff_of,
    descend,
    exclusive,
    gather_roots,
    interleave_bands,
    interleave_tiles,
    largest,
    leaf,
    merge,
    number,
    place_rows,
    row_counts,
)
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.base.geometry import Grid, Triple

Cutoff = tuple[int, int] | None

#: Layers of slabs that are numbered in one step.
_LAYERS = 1024


def component_flow(
    grid: Grid,
    *,
    radix: Triple | None = None,
    keep: Keep | None = None,
    k_largest: int | None = None,
    as_mask: bool = False,
    dtype: Any = np.uint64,
    rules: Mapping[str, Any] = RULES,
    columns: bool = False,
) -> Flow:
    """The rounds that give the components of all slabs their final ids, 1..count.

    The input is a `SlabSummary` under the key ``(slab index,)``.

    >>> from beam_volumes.across.components import Labelling, SlabLabeler, connectivity_structure
    >>> from beam_volumes.across.rounds.flow import run, only
    >>> grid = Grid((2, 1, 4), (1, 1, 4))
    >>> mask = np.array([[[1, 0, 0, 1]], [[1, 0, 1, 0]]])
    >>> labelling = Labelling(connectivity_structure(1))
    >>> summaries = []
    >>> for z in range(2):
    ...     labeler = SlabLabeler(grid, (z, 0, 0), labelling)
    ...     for k in range(z, 2):  # the slab's plane, and the next one if there is
    ...         _ = labeler.feed(mask[k : k + 1])
    ...     summaries.append(((z,), labeler.finish()))
    >>> out = run(component_flow(grid, dtype="u1"), summaries)
    >>> out["numbers"]
    [((), {'count': 3})]
    >>> [[ids.tolist() for ids in windows] for _, (windows, _) in out["answers"]]
    [[[1, 2], [3]], [[1, 3]]]
    """
    # The ports are: ``"answers"``, under ``(slab index,)``, once for each slab, ``(ids, digests)``: for each
    # window the final ids of its components 1, 2, ... (0 if one is not kept), or with ``as_mask`` whether
    # they are kept, and the digests for `SlabRelabeler`; ``"numbers"``, under ``()``, once, ``{"count": the
    # number of kept components}``; ``"components"``, under ``(slab index,)``, with ``columns`` only, ``(ids,
    # payload)`` of the kept components with roots in the slab, ids increasing; slabs without any send
    # nothing. ``radix``: slabs along z, y, x that one step joins, then the number of these blocks in the
    # next, and so on. ``k_largest`` needs the column ``size``. A round raises ValueError for more components
    # than ``dtype`` has numbers, and for neighbours with different voxels.
    dtype = np.dtype(np.bool_ if as_mask else dtype)
    if dtype.kind not in "iu" and not as_mask:
        raise TypeError(f"dtype={dtype} cannot hold labels; use an integer dtype")
    if k_largest is not None and k_largest < 1:
        raise ValueError(f"k_largest={k_largest} must be at least 1")
    if as_mask and columns:
        raise ValueError("columns need labels, but a mask has no ids")
    tree = tree_of(grid, radix)
    top = tree.levels
    is_direct = as_mask or top == 0
    cz, cy, cx = grid.counts
    task = _Task(
        grid, tree, keep or Keep(), k_largest, as_mask, dtype, dict(rules), columns, is_direct
    )

    down: list[Round] = []
    for level in range(top + 1 - is_direct):
        below = f"down-{level - 1}" if level else "answers"
        down.insert(0, _Down(f"down-{level}", (below,), task))
    last = tuple(r.name for r in down)
    ports = ("answers", "numbers", *(["components"] if columns else []))
    ranks: list[Round] = []
    if not is_direct:
        kinds: list[tuple[type[_Step], str, bool]] = [
            (_Roots, "roots", True),
            (_Tiles, "tiles", cx > 1),
            (_Bands, "bands", cy > 1),
            (_Layers, "layers", cz > 1),
            (_Groups, "groups", cz > _LAYERS),
            (_LayersAgain, "layers-again", cz > _LAYERS),
        ]
        names = [name for _, name, is_there in kinds if is_there]
        for kind, name, is_there in kinds:
            if is_there:
                to = (*names[names.index(name) + 1 :], "ranks")
                ranks.append(kind(name, to, task))
        ranks.append(_Ranks("ranks", (*last, *(p for p in ports if p == "components")), task))
    after = (*(r.name for r in ranks[:1]), *last, *ports)
    up: list[Round] = [
        (_Merge if level else _Slabs)(
            f"merge-{level}" if level else "slabs",
            (*([f"merge-{level + 1}"] if level < top else []), *after),
            task,
        )
        for level in range(top + 1)
    ]
    return Flow((*up, *ranks, *down), ports)


def tree_of(grid: Grid, radix: Triple | None = None) -> Tree:
    """The tree of slabs of a flow."""
    if radix is None:
        radix = (16, 2, 2) if grid.counts[1:] == (1, 1) else (4, 4, 4)
    return Tree(grid.counts, radix)


# Messages. Those that differ by sender contain it: any may arrive twice.


class _Up(NamedTuple):
    """To the parent: the open components, and the number and the largest of closed ones below."""

    summary: NodeSummary
    kept: int
    best: Largest | None


class _Kept(NamedTuple):
    """From a node to itself, for the way back.

    ``sizes``: of the closed components, if only the top decides which of them are kept.
    """

    table: NodeTable
    kept: np.ndarray
    sizes: np.ndarray | None
    digests: tuple[int, ...]


class _Above(NamedTuple):
    """From the parent, on the way back."""

    values: np.ndarray
    cutoff: Cutoff


class _Ids(NamedTuple):
    """From a slab: the ids of its roots that a node closed."""

    cell: Triple
    ids: np.ndarray


class _Cut(NamedTuple):
    """From the last node to all slabs: the last of the k largest."""

    cutoff: Cutoff


class _InBand(NamedTuple):
    before: np.ndarray
    slices: Counts


class _InLayer(NamedTuple):
    before: np.ndarray


class _Base(NamedTuple):
    before: int


@dataclass(frozen=True, eq=False)
class _Task:
    """The parameters of all rounds."""

    grid: Grid
    tree: Tree
    keep: Keep
    k_largest: int | None
    as_mask: bool
    dtype: np.dtype
    rules: dict[str, Any]
    columns: bool
    is_direct: bool  # a node knows the values of the components that it closes

    def index(self, cell: Triple) -> int:
        _, ny, nx = self.grid.counts
        return (cell[0] * ny + cell[1]) * nx + cell[2]


@dataclass(frozen=True, eq=False)
class _Step(Round):
    task: _Task


# Up the tree.


@dataclass(frozen=True, eq=False)
class _Node(_Step):
    """The common part of slabs and nodes above."""

    def send(
        self,
        node: tuple[NodeSummary, NodeTable, Closed],
        below: Sequence[_Up] = (),
        digests: tuple[int, ...] = (),
    ) -> Iterator[Message]:
        t = self.task
        summary, table, closed = node
        level, *cell = table.key
        kept = t.keep(closed.roots, closed.payload)
        count, best = int(kept.sum()), None
        count += sum(part.kept for part in below)
        sizes = None
        if t.k_largest is not None:
            sizes = closed.payload["size"]
            parts = [part.best for part in below if part.best is not None]
            best = largest([*parts, Largest(sizes[kept], closed.roots[kept])], t.k_largest)
        kept_state = _Kept(table, kept, sizes if t.is_direct else None, digests)
        cutoff: Cutoff = None
        if level < t.tree.levels:
            above = t.tree.parent(table.key)
            yield f"merge-{above[0]}", above[1:], _Up(summary, count, best)
        else:
            if best is not None and t.k_largest is not None:
                cutoff, count = cutoff_of(best, t.k_largest), len(best.roots)
            yield "numbers", (), {"count": _fitting(count, t.dtype)}
            if t.is_direct:
                values = _direct(t, kept_state, cutoff)
                yield from _down(t, kept_state, np.empty(0, t.dtype), values, cutoff)
                if t.columns:
                    ids = values[values > 0]
                    payload = {name: c[values > 0] for name, c in closed.payload.items()}
                    yield "components", (0,), (ids, payload)
                return
            if t.k_largest is not None:
                for i in range(len(t.grid)):
                    yield "roots", (i,), _Cut(cutoff)
        yield f"down-{level}", tuple(cell), kept_state
        if not t.is_direct:
            names = closed.payload if t.columns else {"size"} if t.k_largest is not None else ()
            payload = {name: closed.payload[name][kept] for name in names}
            for where, part in by_slab(
                Closed(closed.key, closed.roots[kept], payload), t.grid
            ).items():
                yield "roots", (t.index(where),), part


@dataclass(frozen=True, eq=False)
class _Slabs(_Node):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        summary: SlabSummary = values[0]
        return self.send(leaf(summary), digests=summary.digests)


@dataclass(frozen=True, eq=False)
class _Merge(_Node):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        parts: list[_Up] = list({v.summary.key: v for v in values}.values())
        summaries = [part.summary for part in parts]
        node = self.task.tree.parent(summaries[0].key)
        return self.send(merge(self.task.tree, node, summaries, self.task.rules), parts)


def _fitting(count: int, dtype: np.dtype) -> int:
    if dtype.kind in "iu" and count > np.iinfo(dtype).max:
        would = np.min_scalar_type(count)
        raise ValueError(
            f"{count} components, but {dtype} has numbers up to {np.iinfo(dtype).max}: use "
            f"dtype={would.name!r}"
        )
    return count


def _direct(task: _Task, kept_state: _Kept, cutoff: Cutoff) -> np.ndarray:
    """The values of a node's closed components if it knows them itself."""
    kept = kept_state.kept
    if cutoff is not None:
        assert kept_state.sizes is not None
        kept = kept & Keep(cutoff=cutoff)(kept_state.table.roots, {"size": kept_state.sizes})
    if task.as_mask:
        return kept
    if kept.all():
        return np.arange(1, len(kept) + 1, dtype=task.dtype)
    ids = np.cumsum(kept, dtype=task.dtype)
    ids *= kept
    return ids


# Ranks, in the slabs with the roots.


@dataclass(frozen=True, eq=False)
class _Rank(_Step):
    """Counts go from slabs to bands of tiles, to layers, and to the volume."""

    def of_slab(self, cell: Triple, rows: Counts) -> Iterator[Message]:
        z, y, x = cell
        if self.task.grid.counts[2] > 1:
            yield "tiles", (z, y), (x, rows)
        else:
            _, slices = interleave_tiles({x: rows}, self.task.grid.shape[1])
            yield from self.of_band(z, y, slices, (x,))

    def of_band(self, z: int, y: int, slices: Counts, xs: tuple[int, ...]) -> Iterator[Message]:
        if self.task.grid.counts[1] > 1:
            yield "bands", (z,), (y, slices, xs)
        else:
            yield from self.of_layer(z, int(slices.counts.sum()))

    def of_layer(self, z: int, total: int) -> Iterator[Message]:
        if self.task.grid.counts[0] > 1:
            yield "layers", (z // _LAYERS,), (z, total)


@dataclass(frozen=True, eq=False)
class _Roots(_Rank):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        parts = [v for v in values if type(v) is Closed]
        if not parts:
            return
        cut = only(values, _Cut)
        cell = self.task.grid.cell(key[0])
        slab = gather_roots(cell, parts, None if cut is None else Keep(cutoff=cut.cutoff))
        yield "ranks", key, slab
        rows = row_counts(slab, self.task.grid.shape)
        if len(rows.places):
            yield from self.of_slab(cell, rows)


@dataclass(frozen=True, eq=False)
class _Tiles(_Rank):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        z, y = key
        before, slices = interleave_tiles(dict(values), self.task.grid.shape[1])
        for x, own in before.items():
            yield "ranks", (self.task.index((z, y, x)),), _InBand(own, slices)
        yield from self.of_band(z, y, slices, tuple(before))


@dataclass(frozen=True, eq=False)
class _Bands(_Rank):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        before, total = interleave_bands({y: slices for y, slices, _ in values})
        for y, xs in {y: xs for y, _, xs in values}.items():
            for x in xs:
                yield "ranks", (self.task.index((key[0], y, x)),), _InLayer(before[y])
        yield from self.of_layer(key[0], total)


def _based(layers: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """For each layer, or group of them, the number of roots before it."""
    places = sorted(dict(layers).items())
    base = exclusive(np.array([total for _, total in places], np.int64)).tolist()
    return ((z, before) for (z, _), before in zip(places, base, strict=True))


@dataclass(frozen=True, eq=False)
class _Layers(_Rank):
    """For some layers: the sum of their roots; for all layers together, the roots before each."""

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        if self.task.grid.counts[0] <= _LAYERS:
            yield from self.based(values, 0)
            return
        yield "groups", (), (key[0], sum(dict(values).values()))
        yield "layers-again", key, dict(values)

    def based(self, layers: list[tuple[int, int]], base: int) -> Iterator[Message]:
        _, ny, nx = self.task.grid.counts
        for z, before in _based(layers):
            for i in range(z * ny * nx, (z + 1) * ny * nx):
                yield "ranks", (i,), _Base(base + before)


@dataclass(frozen=True, eq=False)
class _Groups(_Step):
    """The number of roots before each group of layers."""

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        for group, before in _based(values):
            yield "layers-again", (group,), _Base(before)


@dataclass(frozen=True, eq=False)
class _LayersAgain(_Layers):
    """For some layers: the number of roots before each."""

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        layers = only(values, dict)
        return self.based(list(layers.items()), only(values, _Base).before)


@dataclass(frozen=True, eq=False)
class _Ranks(_Step):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        t = self.task
        slab: SlabRoots | None = only(values, SlabRoots)
        if slab is None:
            return
        rows = row_counts(slab, t.grid.shape)
        ids = number(slab, rows, self.before(slab, rows, values))
        for node, some in ids.items():
            yield f"down-{node[0]}", node[1:], _Ids(slab.cell, some.astype(t.dtype))
        if t.columns and slab.kept.any():
            merged = np.empty(len(slab.roots), t.dtype)
            for node, some in ids.items():
                merged[slab.sources[node]] = some
            payload = {name: column[slab.kept] for name, column in slab.payload.items()}
            yield "components", key, (merged[slab.kept], payload)

    def before(self, slab: SlabRoots, rows: Counts, values: list[Any]) -> np.ndarray:
        """The number of roots in the volume before each row of the slab."""
        z, y, x = self.task.grid.counts
        ny = self.task.grid.shape[1]
        if not len(rows.places):
            return rows.counts
        if x > 1:
            before, slices = only(values, _InBand)
        else:
            of_tiles, slices = interleave_tiles({0: rows}, ny)
            before = of_tiles[0]
        in_layer = only(values, _InLayer).before if y > 1 else exclusive(slices.counts)
        base = only(values, _Base).before if z > 1 else 0
        return place_rows(rows, before, slices, in_layer, base, ny)


# Down the tree.


def _down(
    task: _Task, kept_state: _Kept, of_parent: np.ndarray, of_closed: np.ndarray, cutoff: Cutoff
) -> Iterator[Message]:
    children = descend(kept_state.table, of_parent, of_closed)
    level, *cell = kept_state.table.key
    if level:
        for child, values in children.items():
            yield f"down-{level - 1}", child[1:], _Above(values, cutoff)
    else:
        z, y, x = cell
        windows = tuple(children[w] for w in range(len(children)))
        yield "answers", (task.index((z, y, x)),), (windows, kept_state.digests)


@dataclass(frozen=True, eq=False)
class _Down(_Step):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        t = self.task
        kept_state: _Kept = only(values, _Kept)
        above: _Above | None = only(values, _Above)
        of_parent, cutoff = above or (np.empty(0, t.dtype), None)
        if t.is_direct:
            return _down(t, kept_state, of_parent, _direct(t, kept_state, cutoff), cutoff)
        of_closed = np.zeros(len(kept_state.kept), t.dtype)
        answers = {v.cell: v.ids for v in values if type(v) is _Ids}
        of_closed[kept_state.kept] = collect(
            kept_state.table.roots[kept_state.kept], t.grid, answers, t.dtype
        )
        return _down(t, kept_state, of_parent, of_closed, None)
