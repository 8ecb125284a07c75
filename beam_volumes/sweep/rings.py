"""The ring buffers of a sweep: their sizes, and the positions of slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Range
from beam_volumes.sweep.program import Program
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.schedule import Schedule


def ring_shapes(
    program: Program, plan: Schedule, extents: tuple[list[Range], list[Range]]
) -> list[tuple[tuple[int, ...], np.dtype]]:
    """Shape and dtype of every step's ring."""
    shapes: list[tuple[tuple[int, ...], np.dtype]] = []
    for i, step in enumerate(program.steps):
        depth = plan.capacity[i] + program.constant_slice(i)
        rows, cols = (e[i][1] - e[i][0] for e in extents)
        shapes.append(((depth, rows, cols), step.dtype))
    return shapes


class Ring:
    """A step's slices: slice z is in slot ``(z - base) % capacity``."""

    def __init__(self, array: np.ndarray, capacity: int, base: int, y: int, x: int):
        self.array, self.capacity, self.base, self.y, self.x = array, capacity, base, y, x

    def slots(self, z: np.ndarray) -> np.ndarray:
        """Slots of slices; -1 is the slice of the constant, which is the last."""
        return np.where(z >= 0, (z - self.base) % self.capacity, self.capacity).astype(np.int64)

    def view(self, box: Box) -> np.ndarray:
        """Slices that do not wrap around, as an array."""
        (z0, z1), y, x = box.ranges
        slot = (z0 - self.base) % self.capacity
        return self.array[
            slot : slot + z1 - z0, y[0] - self.y : y[1] - self.y, x[0] - self.x : x[1] - self.x
        ]


def copy(to: np.ndarray, voxels: np.ndarray, threads: int) -> None:
    """Copy slices from or to an array of this process."""
    # Divided by slices if possible: threads that first touch the same page wait for each other.
    axis = 0 if len(to) >= threads else 1
    to, voxels = np.moveaxis(to, axis, 0), np.moveaxis(voxels, axis, 0)
    # Copying a few bytes is much cheaper than computing a voxel.
    work = to.nbytes // 16

    def part(a: int, b: int) -> None:
        np.copyto(to[a:b], voxels[a:b], "equiv")

    in_strips(len(to), work, threads, part)


def whole_layer(depth: int, ring: Ring) -> int:
    """The depth of a layer, unless the ring contains the whole region and keeps all slices."""
    return depth if ring.capacity % depth == 0 else 1


def as_dtype(number: float, dtype: np.dtype) -> Any:
    """A number converted to the dtype of a ring."""
    with np.errstate(all="ignore"):
        return np.asarray(number).astype(dtype)[()]
