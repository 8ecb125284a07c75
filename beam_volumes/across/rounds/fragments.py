"""Merge the fragments of overlapping tiles as rounds, like slabs are merged for labels.

    slabs --> tiles ----> neighbours --> component rounds --> tiles again --> slabs again -->
    answers

The parts of a tile from all slabs are combined. The voxels that it shares with the next tiles
decide which fragments are joined, and those tiles are informed. Then each tile is treated like a
slab by the rounds of components: its fragments are components, and matched ones are on either side
of an interface, position by position. Answers go back to the slabs that have voxels of the tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from beam_volumes.across.components import Interface, InterfaceKey, SlabSummary
from beam_volumes.across.fragments import TilePart, matches, merged
from beam_volumes.across.merge import Keep
from beam_volumes.across.rounds.chains import Within
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.base.geometry import Box, Grid, Triple


class Tiles(Protocol):
    """The positions of tiles."""

    @property
    def tile(self) -> Triple: ...
    @property
    def counts(self) -> Triple: ...
    @property
    def grid(self) -> Grid: ...
    @property
    def doubled(self) -> tuple[int, ...]: ...
    def is_tile(self, cell: Triple) -> bool: ...
    def owned(self, cell: Triple) -> Box: ...


class SlabFragments(NamedTuple):
    """Everything that is kept of a slab after the first sweep; ``digests`` are of the windows to be labelled.

    ``tiles``: the parts of each tile that owns voxels of the slab, or shares some with the next one.
    """

    tiles: dict[Triple, TilePart]
    digests: tuple[int, ...]


class TileIds(NamedTuple):
    """The labels of a tile, increasing, and their final ids."""

    labels: np.ndarray
    ids: np.ndarray


def fragment_flow(slabs: Grid, tiles: Tiles, rule: str, threshold: float, dtype: np.dtype) -> Flow:
    """The merge of `SlabFragments` by a rule of `beam_volumes.across.fragments.matches`.

    The port ``"answers"`` has a dict of `TileIds` by tile, and the slab's digests.
    """
    # Components without own voxels were joined to others, or are empty.
    inner = component_flow(tiles.grid, keep=Keep(min_size=1), dtype=dtype)
    names = {r.name: (f"merge {r.name}",) for r in inner.rounds}
    names |= {port: (port,) for port in inner.ports} | {"answers": ("back",)}
    within = [
        Within(names[r.name][0], tuple(n for to in r.to for n in names[to]), r, names)
        for r in inner.rounds
    ]
    task = _Task(slabs, tiles, rule, threshold)
    begin = names[inner.rounds[0].name][0]
    return Flow(
        (
            _Slabs("slabs", ("tiles", begin, "give"), task, begin),
            _Tile("tiles", ("neighbours",), task),
            _Neighbours("neighbours", (begin, "back"), task, begin),
            *within,
            _Back("back", ("give",), task),
            _Give("give", ("answers",), task),
        ),
        inner.ports,
    )


@dataclass(frozen=True, eq=False)
class _Task:
    slabs: Grid
    tiles: Tiles
    rule: str
    threshold: float


class _SlabPart(NamedTuple):
    """From a slab to a tile."""

    slab: int
    part: TilePart


class _Own(NamedTuple):
    """From a tile to itself: its fragments, and those joined to some of the next tile, by axis."""

    part: TilePart
    joined: dict[int, np.ndarray]


class _Below(NamedTuple):
    """From the previous tile along an axis: fragments joined to some of its own, in its order."""

    axis: int
    labels: np.ndarray


class _Ids(NamedTuple):
    """From a tile to a slab."""

    cell: Triple
    ids: TileIds


class _Digests(NamedTuple):
    """From a slab to itself."""

    of_windows: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Step(Round):
    task: _Task


@dataclass(frozen=True, eq=False)
class _Slabs(_Step):
    begin: str

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        found: SlabFragments = values[0]
        grid = self.task.tiles.grid
        for cell, part in found.tiles.items():
            yield "tiles", (grid.index(cell),), _SlabPart(key[0], part)
        yield "give", key, _Digests(found.digests)
        if key == (0,):
            # Cells of the grid at the far edges have no tile.
            for index in range(len(grid)):
                if not self.task.tiles.is_tile(grid.cell(index)):
                    yield (
                        self.begin,
                        (index,),
                        _summary(grid.cell(index), TilePart.empty(), {}, 0)[1],
                    )


@dataclass(frozen=True, eq=False)
class _Tile(_Step):
    """For a tile: combine its parts, and the voxels that it shares with the next tiles."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        t = self.task
        cell = t.tiles.grid.cell(key[0])
        whole = merged({sent.slab: sent.part for sent in values}.values())
        joined = {}
        for axis, pairs in sorted(whole.pairs.items()):
            found = matches(pairs, t.rule, t.threshold)
            joined[axis] = found[:, 0]
            above = _next(cell, axis)
            yield "neighbours", (t.tiles.grid.index(above),), _Below(axis, found[:, 1])
        yield "neighbours", key, _Own(whole, joined)


def _next(cell: Triple, axis: int) -> Triple:
    z, y, x = (c + (a == axis) for a, c in enumerate(cell))
    return (z, y, x)


@dataclass(frozen=True, eq=False)
class _Neighbours(_Step):
    """For a tile: its fragments as components, joined ones in the interfaces to its neighbours."""

    begin: str

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        tiles = self.task.tiles
        cell = tiles.grid.cell(key[0])
        own = only(values, _Own)
        faces: dict[InterfaceKey, np.ndarray] = {}
        for axis, labels in own.joined.items():
            z, y, x = _next(cell, axis)
            faces[axis, z, y, x] = labels
        for below in (v for v in values if type(v) is _Below):
            z, y, x = cell
            faces[below.axis, z, y, x] = below.labels
        # Fragments without own voxels are sorted after all voxels of the volume.
        later = math.prod(tiles.grid.shape) + key[0] * math.prod(tiles.tile)
        labels, summary = _summary(cell, own.part, faces, later)
        yield "back", key, labels
        yield self.begin, key, summary


def _summary(
    cell: Triple, part: TilePart, faces: dict[InterfaceKey, np.ndarray], later: int
) -> tuple[np.ndarray, SlabSummary]:
    """The labels of a tile's fragments, increasing, and the fragments as components."""
    labels = np.unique(np.concatenate([part.labels, *faces.values()]))
    ids = later + np.arange(len(labels))
    sizes = np.zeros(len(labels), np.int64)
    own = np.searchsorted(labels, part.labels)
    ids[own], sizes[own] = part.first, part.sizes
    order = np.argsort(ids)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    interfaces = {
        k: Interface(position[np.searchsorted(labels, joined)], 0) for k, joined in faces.items()
    }
    payload = {"size": sizes[order]}
    summary = SlabSummary(cell, ids[order].astype(np.uint64), payload, interfaces, (position,), ())
    return labels, summary


@dataclass(frozen=True, eq=False)
class _Back(_Step):
    """For a tile: send its labels and their ids to the slabs with voxels that it owns."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        tiles, slabs = self.task.tiles, self.task.slabs
        cell = tiles.grid.cell(key[0])
        if not tiles.is_tile(cell):
            return
        labels = only(values, np.ndarray)
        (ids,), _ = only(values, tuple)
        for index in touched(slabs, tiles.owned(cell)):
            yield "give", (index,), _Ids(cell, TileIds(labels, ids))


def touched(grid: Grid, box: Box) -> Iterator[int]:
    """The cells of a grid that have voxels of a box."""
    z, y, x = (
        range(a // s, (b - 1) // s + 1)
        for a, b, s in zip(box.start, box.stop, grid.step, strict=True)
    )
    return (grid.index((i, j, k)) for i in z for j in y for k in x)


@dataclass(frozen=True, eq=False)
class _Give(_Step):
    """For a slab: the ids of the labels of each of its tiles."""

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        ids = {v.cell: v.ids for v in values if type(v) is _Ids}
        digests = only(values, _Digests)
        yield "answers", key, (ids, digests.of_windows)
