"""Openings and closings by the size of components, at each grey level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Halo, Triple
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.morphology.attributes import open_components
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

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        around = (n + 2 * r for n, r in zip((depth, rows, cols), self.reach, strict=True))
        z, y, x = (min(n, size) for n, size in zip(around, self.shape, strict=True))
        # The joined block, its order in 64 and 32 bits and sorted, levels, and the union.
        return z * y * x * (3 * self.dtype.itemsize + 26 + 24 * self.by_extent)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        block = inputs[0]
        first = block.start[0], block.start[1] + y0, block.start[2]
        around = block.depth, y1 - y0 + 2 * self.reach[1], block.cols
        inside = tuple(
            slice(max(0, -a), min(n, size - a))
            for a, n, size in zip(first, around, self.shape, strict=True)
        )
        # Only voxels inside the volume are copied: there may be many more outside.
        z, y, x = inside
        voxels = np.empty([part.stop - part.start for part in inside], self.dtype)
        for k in range(len(voxels)):
            voxels[k] = block.slice(z.start + k, y0 + y.start, y0 + y.stop)[:, x]
        if voxels.size >= 2**31:
            raise ValueError(
                f"{self.name}: a block of {voxels.shape} has too many voxels: give smaller slabs"
            )
        flat = voxels.reshape(-1)
        order = np.argsort(flat, kind="stable").astype(np.int32)
        level = np.empty(len(flat), np.int32)
        ascending = flat[order]
        level[order] = np.cumsum(np.append(False, ascending[1:] != ascending[:-1]))
        steps = np.argwhere(self.structure) - 1
        steps = np.ascontiguousarray(steps[(steps != 0).any(axis=1)], np.int64).reshape(-1, 3)
        parent = np.empty(len(flat), np.int32)
        order = order if self.closing else np.ascontiguousarray(order[::-1])
        open_components(order, level, voxels.shape, steps, self.minimum, self.by_extent, parent)
        core = tuple(
            slice(r - part.start, r - part.start + n)
            for r, part, n in zip(self.reach, inside, (out.depth, y1 - y0, out.cols), strict=True)
        )
        opened = flat[parent.reshape(voxels.shape)[core]]
        for k in range(out.depth):
            out.slice(k, y0, y1)[...] = opened[k]


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
