"""Operands of other shapes that go together as numpy's arrays do: extents of 1 are repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Range, Ranges, Triple
from beam_volumes.base.space import AXES, LEADING, METRES, Space
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.opening import of_source
from beam_volumes.graph.volume import Volume
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.inputs.renaming import renamed
from beam_volumes.storage.sources.axes import DEFAULT_AXES
from beam_volumes.sweep.stage import Block, Regrid


@dataclass(frozen=True, eq=False)
class Repeated(Regrid):
    """The one slice, row or column of its input again and again, along the axes where it has but one."""

    cost = 0.3

    def needs(self, axis: int, wanted: Ranges) -> Range:
        return (0, 1) if self._repeats(axis) else wanted[axis]

    def _repeats(self, axis: int) -> bool:
        return self.of[axis] == 1 != self.grid[axis]

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        block = inputs[0]
        # Where the result's first voxel is in the block.
        z, y, x = (
            0 if self._repeats(a) else out.start[a] - block.start[a] for a in range(len(out.start))
        )
        rows = slice(0, 1) if self._repeats(1) else slice(y + y0, y + y1)
        cols = slice(0, 1) if self._repeats(2) else slice(x, x + out.cols)
        for k in range(out.depth):
            out.slice(k, y0, y1)[...] = block.slice(0 if self._repeats(0) else z + k)[rows, cols]


def aligned_volume(array: Any, like: Space | None) -> Volume:
    """An array as a volume, whose axes are the last ones of another, as numpy has it."""
    if isinstance(array, np.ndarray) and array.ndim == 1:
        array = array[None]
    source = open_source(array)
    ndim = len(array.shape)
    if like is None or ndim > len(like.all_axes) or ndim not in DEFAULT_AXES:
        return of_source(source)
    by_itself = zip(DEFAULT_AXES[ndim], array.shape, like.all_axes[-ndim:], strict=True)
    letters = [name for axis, n, name in by_itself if not (axis in LEADING and n == 1)]
    return of_source(
        renamed(source, letters) if len(letters) == len(source.space.all_axes) else source
    )


def together(volumes: Sequence[Volume]) -> list[Volume] | None:
    """Volumes as they are of one shape, with what has an extent of 1 repeated; None if that cannot be.

    Channels and points in time are not repeated: a volume without them goes with each.
    """
    try:
        grid = np.broadcast_shapes(*(v.grid_shape for v in volumes))
    except ValueError:
        return None
    axes = tuple(a for a in AXES if any(a in v.space.axes for v in volumes))
    many = max(len(v.nodes) for v in volumes)
    return [_repeated(v, (grid[0], grid[1], grid[2]), axes, many, volumes) for v in volumes]


def _repeated(
    v: Volume, grid: Triple, axes: tuple[str, ...], channels: int, among: Sequence[Volume]
) -> Volume:
    if v.space.has_channels and len(v.nodes) == 1 < channels:
        v = Volume(v.nodes, v.space.of_one("c"))
    if v.grid_shape == grid and v.space.axes == axes:
        return v
    space = v.space
    for axis, name in enumerate(AXES):
        if v.grid_shape[axis] != grid[axis] or (name in axes and name not in space.axes):
            full = next(
                w for w in among if w.grid_shape[axis] == grid[axis] and name in w.space.axes
            )
            space = _along(space, full.space, axis)
    space = replace(space, axes=axes)
    if v.grid_shape == grid:
        return Volume(v.nodes, space)
    stage = Repeated("broadcast", v.dtype, v.grid_shape, grid)
    return v.map_channels(lambda node: StageNode.of(stage, (node,)), space)


def _along(space: Space, other: Space, axis: int) -> Space:
    """A space with the place and size of another's voxels along an axis that it has but one of."""
    if {space.unit, other.unit} <= set(METRES):
        other = other.in_unit(space.unit)

    def taken(own: tuple[float, float, float], its: tuple[float, float, float]) -> Any:
        return (*own[:axis], its[axis], *own[axis + 1 :])

    size = space.voxel_size
    if size is not None and other.voxel_size is not None:
        size = taken(size, other.voxel_size)
    return replace(
        space,
        voxel_size=size,
        origin=taken(space.origin, other.origin),
        sliced_from=None
        if space.sliced_from is None and other.sliced_from is None
        else taken(space.grid_origin, other.grid_origin),
    )
