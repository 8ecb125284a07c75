"""Overlapping tiles of a volume in one grid, and the same tiles side by side.

Tile ``k`` of an axis starts at ``k * step``, where ``step`` is the tile's extent minus the overlap. At most
two tiles cover a position. The first half of an overlap belongs to the lower tile, the rest to the upper one.
Side by side, tile ``k`` starts at ``k * tile``, so each voxel of each tile has its own position.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beam_volumes.base.geometry import Box, Grid, Triple
from beam_volumes.ops.geometry.stages import Along
from beam_volumes.ops.parameters.building import triple
from beam_volumes.sweep.stage import digest

Range = tuple[int, int]


@dataclass(frozen=True)
class TiledAxis:
    """An axis of extent ``n``, divided into tiles.

    >>> axis = TiledAxis(10, 5, 2)
    >>> [axis.covers(k) for k in range(axis.count)], [axis.owns(k) for k in range(axis.count)]
    ([(0, 5), (3, 8), (6, 10)], [(0, 4), (4, 7), (7, 10)])
    >>> axis.tiled_extent, axis.shared(0)
    (14, (3, 5))
    """

    n: int
    tile: int
    overlap: int

    @property
    def step(self) -> int:
        return self.tile - self.overlap

    @cached_property
    def count(self) -> int:
        return max(1, -(-(self.n - self.overlap) // self.step)) if self.n else 0

    @property
    def tiled_extent(self) -> int:
        """The extent of all tiles side by side."""
        if not self.count:
            return 0
        return (self.count - 1) * self.tile + self.n - (self.count - 1) * self.step

    def covers(self, k: int) -> Range:
        """The positions of tile ``k``."""
        return k * self.step, min(k * self.step + self.tile, self.n)

    def owns(self, k: int) -> Range:
        """The positions that tile ``k`` owns."""
        first = k * self.step + self.overlap // 2 if k else 0
        last = k + 1 == self.count
        return first, self.n if last else (k + 1) * self.step + self.overlap // 2

    def shared(self, k: int) -> Range:
        """The positions that tiles ``k`` and ``k + 1`` share."""
        return (k + 1) * self.step, self.covers(k)[1]

    def owners(self, span: Range) -> range:
        """The tiles that own positions of a range."""
        half = self.overlap // 2

        def owner(v: int) -> int:
            return min(max(0, (v - half) // self.step), self.count - 1)

        return range(owner(span[0]), owner(span[1] - 1) + 1)

    def sharers(self, span: Range) -> range:
        """The tiles that share positions of a range with the next one."""
        first = max(0, (span[0] - self.tile) // self.step + 1)
        return range(first, min(self.count - 1, (span[1] - 1) // self.step))

    def tiles_within(self, span: Range) -> range:
        """The tiles that intersect a range of all tiles side by side."""
        return range(span[0] // self.tile, (span[1] - 1) // self.tile + 1)


@dataclass(frozen=True)
class Tiling:
    """Tiles along z, y and x. The tile is at most the volume, and at least twice the overlap."""

    shape: Triple
    tile: Triple
    overlap: Triple

    def token(self) -> str:
        return digest("tiling", self.shape, self.tile, self.overlap)

    @cached_property
    def axes(self) -> tuple[TiledAxis, TiledAxis, TiledAxis]:
        z, y, x = (TiledAxis(*a) for a in zip(self.shape, self.tile, self.overlap, strict=True))
        return (z, y, x)

    @property
    def counts(self) -> Triple:
        return triple([a.count for a in self.axes])

    @property
    def tiled_shape(self) -> Triple:
        """The shape of all tiles side by side."""
        return triple([a.tiled_extent for a in self.axes])

    @cached_property
    def grid(self) -> Grid:
        """Cells of a tile's step: one for each tile, and possibly one more along an axis."""
        return Grid(self.shape, triple([a.step for a in self.axes]))

    @property
    def doubled(self) -> tuple[int, ...]:
        """The axes along which tiles overlap."""
        return tuple(k for k, a in enumerate(self.axes) if a.count > 1 and a.overlap)

    def is_tile(self, cell: Triple) -> bool:
        return all(c < n for c, n in zip(cell, self.counts, strict=True))

    def owned(self, cell: Triple) -> Box:
        start, stop = zip(*(a.owns(k) for a, k in zip(self.axes, cell, strict=True)), strict=True)
        return Box(start, stop)

    def shared(self, cell: Triple, axis: int) -> Box:
        """The voxels that a tile and the next one along an axis share."""
        spans = [
            a.shared(k) if b == axis else a.covers(k)
            for b, (a, k) in enumerate(zip(self.axes, cell, strict=True))
        ]
        start, stop = zip(*spans, strict=True)
        return Box(start, stop)

    def owners(self, box: Box) -> Iterator[Triple]:
        """The tiles that own voxels of a box, in raster order."""
        spans = zip(box.start, box.stop, strict=True)
        z, y, x = (a.owners(s) for a, s in zip(self.axes, spans, strict=True))
        return itertools.product(z, y, x)

    def sharers(self, box: Box, axis: int) -> Iterator[Triple]:
        """The tiles that share voxels of a box with the next one along an axis, in raster order."""
        ranges = []
        for b, (a, span) in enumerate(
            zip(self.axes, zip(box.start, box.stop, strict=True), strict=True)
        ):
            if b == axis:
                ranges.append(a.sharers(span))
            else:
                first = max(0, (span[0] - a.tile) // a.step + 1)
                ranges.append(range(first, min(a.count, (span[1] - 1) // a.step + 1)))
        z, y, x = ranges
        return itertools.product(z, y, x)

    @property
    def parities(self) -> tuple[Triple, ...]:
        """Whether a tile's index is even or odd, for each axis along which tiles overlap."""
        sets = ((0, 1) if a in self.doubled else (0,) for a in range(3))
        return tuple(itertools.product(*sets))  # type: ignore[arg-type]

    def parity(self, cell: Triple) -> int:
        """The index of a tile's parity in `parities`."""
        kind = tuple(c % 2 if a in self.doubled else 0 for a, c in enumerate(cell))
        return self.parities.index(kind)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Owned(Along):
    """Selects each voxel from its own tile, from all tiles side by side."""

    axis: TiledAxis = TiledAxis(1, 1, 0)

    def places(self, v: np.ndarray) -> np.ndarray:
        """The position of position ``v`` of the volume among the tiles."""
        a = self.axis
        k = np.clip((v - a.overlap // 2) // a.step, 0, a.count - 1)
        return k * a.tile + v - k * a.step

    def near(self, v: int) -> int:
        return int(self.places(np.array(v)))

    def inner(self, count: int) -> Range:
        return 0, count

    def needs(self, start: int, stop: int, count: int) -> Range:
        return self.near(start), self.near(stop - 1) + 1

    def taps(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        index = self.places(np.arange(start, stop, dtype=np.int64))
        return index[:, None], np.ones((len(index), 1))


@dataclass(frozen=True)
class Covered(Owned):
    """Selects the voxels of even or odd tiles from all tiles side by side; none where there is no tile."""

    odd: int = 0

    def places(self, v: np.ndarray) -> np.ndarray:
        """The position among the tiles; without a tile, the end of the previous one, or 0."""
        a = self.axis
        k = np.minimum(v // a.step, a.count - 1)
        k = np.where(k % 2 == self.odd, k, k - 1)
        within = np.minimum(v - k * a.step, a.tile - 1)
        return np.where(k < 0, self.odd * a.tile, k * a.tile + within)

    def taps(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        v = np.arange(start, stop, dtype=np.int64)
        a, index = self.axis, self.places(v)
        k = index // a.tile
        there = (v >= k * a.step) & (v < k * a.step + a.tile)
        return np.where(there, index, -1)[:, None], np.ones((len(v), 1))
