"""Openings and closings by the size of components, at each grey level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Halo, Triple
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.morphology.attributes import open_components
from beam_volumes.kernels.scratch import Scratch, arrays
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.sweep.stage import Block, Padding, Stage


@dataclass(frozen=True, eq=False)
class AttributeOpening(Stage):
    """The largest level at which a voxel is in a component of ``minimum`` voxels, or of this extent."""

    # A smaller component has no voxel further away than ``minimum - 1``, which is the halo, and within it
    # every larger one has enough voxels.

    minimum: int
    by_extent: bool
    closing: bool  #: Whether components are of lower voxels.
    structure: np.ndarray  #: The neighbours, 3 x 3 x 3.
    shape: Triple  #: Of the volume.

    padding = Padding(("constant",) * 3, 0.0)  # type: ignore[arg-type]
    cost = 300.0
    compiled = True

    @property
    def reach(self) -> Triple:
        z, y, x = (min(max(self.minimum - 1, 0), n - 1) for n in self.shape)
        return z, y, x

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = ((r, r) for r in self.reach)
        return ((z, y, x),)

    @property
    def preferred_slices(self) -> int:
        return max(8, 2 * self.reach[0])

    def _voxels(self, rows: int, cols: int, depth: int) -> int:
        """Return the largest number of voxels of the volume around an output of this shape."""
        around = (n + 2 * r for n, r in zip((depth, rows, cols), self.reach, strict=True))
        return math.prod(min(n, size) for n, size in zip(around, self.shape, strict=True))

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        voxels = self._voxels(rows, cols, depth)
        lines = (self.dtype, self.dtype, np.int32, np.int32, np.int32)
        more = open_components.scratch(voxels, self.by_extent)
        return *(((voxels,), dtype) for dtype in lines), *more

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        # numpy allocates the order of voxels in 64 bits, and as much again to sort.
        return super().scratch_bytes(rows, cols, depth) + 16 * self._voxels(rows, cols, depth)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        block = inputs[0]
        first = block.start[0], block.start[1] + y0, block.start[2]
        around = block.depth, y1 - y0 + 2 * self.reach[1], block.cols
        # Only voxels inside the volume are copied: there may be many more outside.
        z, y, x = inside = tuple(
            slice(max(0, -a), min(n, size - a))
            for a, n, size in zip(first, around, self.shape, strict=True)
        )
        shape = tuple(part.stop - part.start for part in inside)
        size = math.prod(shape)
        if size >= 2**31:
            raise ValueError(
                f"{self.name}: a block of {shape} has too many voxels: give smaller slabs"
            )
        scratch = arrays(self.scratch(y1 - y0, out.cols, out.depth))
        flat, ordered, order, level, parent, sizes, box = (a[:size] for a in scratch)
        for k, plane in enumerate(flat.reshape(shape)):
            plane[...] = block.slice(z.start + k, y0 + y.start, y0 + y.stop)[:, x]
        order[...] = np.argsort(flat, kind="stable")[:: 1 if self.closing else -1]
        np.take(flat, order, out=ordered, mode="clip")
        # Numbers of levels in this order; the union later overwrites ``parent`` and ``sizes``.
        parent[:1] = 0
        np.not_equal(ordered[1:], ordered[:-1], out=parent[1:])
        level[order] = np.cumsum(parent, dtype=np.int32, out=sizes)
        steps = np.argwhere(self.structure) - 1
        steps = np.ascontiguousarray(steps[(steps != 0).any(axis=1)], np.int64).reshape(-1, 3)
        how = shape, steps, self.minimum, self.by_extent, parent, (sizes, box)
        open_components(order, level, *how)
        core = tuple(
            slice(r - part.start, r - part.start + n)
            for r, part, n in zip(self.reach, inside, (out.depth, y1 - y0, out.cols), strict=True)
        )
        for k, opened in enumerate(parent.reshape(shape)[core]):
            out.slice(k, y0, y1)[...] = flat[opened]


def opened(
    image: Volume, minimum: int, structure: np.ndarray, name: str, *, by_extent: bool, closing: bool
) -> Volume:
    """Return an image without small bright components, or with ``closing`` without small dark ones."""
    if minimum <= 1 or not image.size:
        return image
    minimum = min(minimum, 2**31 - 1)
    shape = image.nodes[0].shape
    how = minimum, by_extent, closing, structure, shape
    return stage_in(image.dtype, image, AttributeOpening(name, image.dtype, *how))
