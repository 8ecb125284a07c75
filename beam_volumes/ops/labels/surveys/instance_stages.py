"""A user's function of tiles as a stage, with the tiles side by side as result."""

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

#: Assumed bytes of the function per voxel of a tile, in addition to its input: three float64 arrays.
FUNCTION_BYTES = 24


@dataclass(frozen=True, eq=False)
class Tiles(Regrid):
    """The labels that a function returns for each tile."""

    tiling: Tiling
    function: Callable[[np.ndarray], np.ndarray]
    axes: tuple[int, ...]  #: The axes of z, y, x of the function's arrays.
    has_channels: bool  #: Whether the arrays have channels before these axes.
    identity: str  #: Identifies the function.
    #: Bytes per voxel of a tile, in addition to 8 bytes of the input.
    voxel_bytes: int

    #: Like a light network: its result is stored instead of computed twice.
    cost = 500.0

    def needs(self, axis: int, wanted: Ranges) -> Range:
        along = self.tiling.axes[axis]
        tiles = along.tiles_within(wanted[axis])
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
        return len(self.tiling.axes[axis].tiles_within(wanted))

    def token(self) -> str:
        how = self.tiling, self.axes, self.has_channels, self.identity
        return digest("Tiles", self.name, str(self.dtype), self.of, *how)

    def begin(self, box: Box) -> Work:
        return _Run(self)

    def working_bytes(self, shape: Triple, threads: int) -> int:
        tiles = math.prod(-(-n // t) + 1 for n, t in zip(shape, self.tiling.tile, strict=True))
        # Inputs and labels count 8 bytes each, and stored labels 4.
        each = math.prod(self.tiling.tile) * (8 + 12 + self.voxel_bytes)
        return min(tiles, threads) * each

    def found(self, inputs: Sequence[Block], cell: Triple) -> np.ndarray:
        """The labels of a tile, with the axes z, y, x."""
        spans = [a.covers(k) for a, k in zip(self.tiling.axes, cell, strict=True)]
        z, y, x = (
            slice(a - first, b - first)
            for (a, b), first in zip(spans, inputs[0].start, strict=True)
        )
        given = np.stack([b.slice(k)[y, x] for b in inputs for k in range(z.start, z.stop)])
        shape = (z.stop - z.start, *given.shape[1:])
        expected = tuple(n for a, n in enumerate(shape) if a in self.axes)
        given = given.reshape((len(inputs), *expected) if self.has_channels else expected)
        where = Box(*zip(*spans, strict=True))  # type: ignore[arg-type]
        with calling(self.name):
            labels = np.asarray(self.function(given))
        if labels.shape != expected or labels.dtype.kind not in "bui":
            raise ValueError(
                f"{self.name}: for the tile {where} the function returned shape {labels.shape} of "
                f"{labels.dtype}; it must return labels of shape {expected}, as integers"
            )
        if labels.dtype.kind == "i" and labels.size and labels.min() < 0:
            raise ValueError(
                f"{self.name}: for the tile {where} the function returned the label {labels.min()}; labels "
                "must be 0 (background) or positive"
            )
        if labels.dtype.itemsize > 4 and labels.max(initial=0) > np.iinfo(self.dtype).max:
            numbers, place = np.unique(labels, return_inverse=True)
            labels = place + (numbers[0] > 0)
        return labels.reshape(shape)


class _Run:
    """Runs tiles, several at a time."""

    def __init__(self, stage: Tiles):
        self.stage = stage

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        stage = self.stage
        tile = stage.tiling.tile
        stop = (out.start[0] + out.depth, out.start[1] + out.rows, out.start[2] + out.cols)
        spans = zip(stage.tiling.axes, zip(out.start, stop, strict=True), strict=True)
        z, y, x = (a.tiles_within(s) for a, s in spans)
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
