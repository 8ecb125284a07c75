"""A user's function of tiles as a stage: what it finds in each, side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Range, Ranges, Triple
from beam_volumes.base.nesting import calling
from beam_volumes.ops.labels.surveys.tilings import Tiling
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import Block, Regrid, Work, digest

#: Bytes that the function is reckoned to take for a voxel of a tile, beside its input: three float64 arrays.
FUNCTION_BYTES = 24


@dataclass(frozen=True, eq=False)
class Tiles(Regrid):
    """What a function finds in each tile."""

    tiling: Tiling
    function: Callable[[np.ndarray], np.ndarray]
    axes: tuple[int, ...]  #: Those of z, y, x that its arrays have.
    has_channels: bool  #: Whether they have the channels before these.
    identity: str  #: What tells the function from others.
    voxel_bytes: int  #: That it takes for a voxel of a tile, beside its input.

    #: As a light network's: it is stored rather than run again.
    cost = 500.0

    def needs(self, axis: int, wanted: Ranges) -> Range:
        along = self.tiling.axes[axis]
        tiles = along.beside_each(wanted[axis])
        return along.covers(tiles[0])[0], along.covers(tiles[-1])[1]

    @property
    def grain(self) -> Triple:
        return self.tiling.tile

    @property
    def piece(self) -> str:  # type: ignore[override]
        return f"tiles of {' x '.join(map(str, self.tiling.tile))}"

    @property
    def piece_voxels(self) -> int:  # type: ignore[override]
        return math.prod(self.tiling.tile)

    def pieces(self, axis: int, wanted: Range) -> int:
        return len(self.tiling.axes[axis].beside_each(wanted))

    def token(self) -> str:
        how = self.tiling, self.axes, self.has_channels, self.identity
        return digest("Tiles", self.name, str(self.dtype), self.of, *how)

    def begin(self, box: Box) -> Work:
        return _Run(self)

    def working_bytes(self, shape: Triple, threads: int) -> int:
        tiles = math.prod(-(-n // t) + 1 for n, t in zip(shape, self.tiling.tile, strict=True))
        # Inputs are counted as 8 bytes, the labels too, as found and as they are stored.
        each = math.prod(self.tiling.tile) * (8 + 12 + self.voxel_bytes)
        return min(tiles, threads) * each

    def found(self, inputs: Sequence[Block], cell: Triple) -> np.ndarray:
        """The labels of a tile, of z, y, x."""
        spans = [a.covers(k) for a, k in zip(self.tiling.axes, cell, strict=True)]
        z, y, x = (
            slice(a - first, b - first)
            for (a, b), first in zip(spans, inputs[0].start, strict=True)
        )
        given = np.stack(
            [np.stack([b.slice(k)[y, x] for k in range(z.start, z.stop)]) for b in inputs]
        )
        shape = given.shape[1:]
        seen = tuple(n for a, n in enumerate(shape) if a in self.axes)
        given = given.reshape((len(inputs), *seen) if self.has_channels else seen)
        where = Box(*zip(*spans, strict=True))  # type: ignore[arg-type]
        with calling(self.name):
            labels = np.asarray(self.function(given))
        if labels.shape != seen or labels.dtype.kind not in "bui":
            raise ValueError(
                f"{self.name}: of the tile {where} the function gives shape {labels.shape} of "
                f"{labels.dtype}; it must give labels of shape {seen}, as integers"
            )
        if labels.dtype.kind == "i" and labels.size and labels.min() < 0:
            raise ValueError(
                f"{self.name}: of the tile {where} the function gives a label of {labels.min()}: labels "
                "are 0 (background) or positive"
            )
        if labels.dtype.itemsize > 4 and labels.max(initial=0) > np.iinfo(self.dtype).max:
            numbers, place = np.unique(labels, return_inverse=True)
            labels = place + (numbers[0] > 0)
        return labels.reshape(shape)


class _Run:
    """Tile by tile, several at a time."""

    def __init__(self, stage: Tiles):
        self.stage = stage

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        stage = self.stage
        tile = stage.tiling.tile
        stop = (out.start[0] + out.depth, out.start[1] + out.rows, out.start[2] + out.cols)
        spans = zip(stage.tiling.axes, zip(out.start, stop, strict=True), strict=True)
        z, y, x = (a.beside_each(s) for a, s in spans)
        cells = list(itertools.product(z, y, x))

        def some(a: int, b: int) -> None:
            for cell in cells[a:b]:
                labels = stage.found(inputs, cell)
                first = tuple(k * t for k, t in zip(cell, tile, strict=True))
                end = (f + n for f, n in zip(first, labels.shape, strict=True))
                box = [
                    (max(lo, f), min(hi, e))
                    for lo, hi, f, e in zip(out.start, stop, first, end, strict=True)
                ]
                z, y, x = (
                    slice(lo - s, hi - s) for (lo, hi), s in zip(box, out.start, strict=True)
                )
                part = labels[
                    tuple(slice(lo - f, hi - f) for (lo, hi), f in zip(box, first, strict=True))
                ]
                for k, plane in zip(range(z.start, z.stop), part, strict=True):
                    out.slice(k)[y, x] = plane

        in_strips(len(cells), len(cells) << 30, threads, some)
