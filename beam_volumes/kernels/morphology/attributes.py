"""Openings by the size of components, level by level, with a union of sets of voxels.

Voxels are visited from the highest level on, and each is united with the components around it, which are
higher. A component that is large enough stays as it is when lower voxels join it, and a small one gets their
level (A. Meijster, M. Wilkinson, "A comparison of algorithms for connected set openings and closings", 2002).
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import Scratch, needs


def _scratch(voxels, by_extent) -> Scratch:
    return ((voxels,), np.int32), ((voxels if by_extent else 0, 6), np.int32)


@needs(_scratch)
@kernel
def open_components(order, level, shape, steps, minimum, by_extent, parent, scratch):
    """Write into ``parent`` for each voxel the index of one with its new level.

    Components are kept if they have ``minimum`` voxels, or with ``by_extent`` this longest side of their box.
    """
    # ``order`` has the indices of all voxels of a block of ``shape``, from the first visited one on; equal
    # voxels are equal in ``level``. ``steps``, int64 (n, 3), lead to neighbours. ``order``, ``level`` and
    # ``parent`` are int32.
    size, box = scratch
    _unite(order, level, shape, steps, np.int32(minimum), by_extent, parent, size, box)


@row_kernel
def _unite(order, level, shape, steps, minimum, by_extent, parent, size, box):
    _, ny, nx = shape
    for i in range(parent.size):
        parent[i], size[i] = -1, 1
    for t in range(order.size):
        p = order[t]
        z, y, x = p // (ny * nx), p // nx % ny, p % nx
        parent[p] = p
        if by_extent:
            b = box[p]
            b[0], b[1], b[2], b[3], b[4], b[5] = z, y, x, z, y, x
        for s in range(steps.shape[0]):
            z1, y1, x1 = z + steps[s, 0], y + steps[s, 1], x + steps[s, 2]
            if not (0 <= z1 < shape[0] and 0 <= y1 < ny and 0 <= x1 < nx):
                continue
            q = (z1 * ny + y1) * nx + x1
            if parent[q] < 0:
                continue
            r = _root(parent, q)
            if r == p:
                continue
            if size[r] >= minimum and level[r] != level[p]:
                size[p] = minimum
                continue
            parent[r] = p
            if by_extent:
                extent = _joined(box[p], box[r])
                size[p] = max(size[p], size[r], extent)
            else:
                size[p] = min(size[p] + size[r], minimum)
    for t in range(order.size - 1, -1, -1):
        parent[order[t]] = parent[parent[order[t]]]


@row_kernel
def _root(parent, q):
    while parent[q] != q:
        parent[q] = parent[parent[q]]
        q = parent[q]
    return q


@row_kernel
def _joined(b, other):
    """Extend a box by another one; return its longest side."""
    longest = np.int32(0)
    for a in range(3):
        b[a] = min(b[a], other[a])
        b[a + 3] = max(b[a + 3], other[a + 3])
        longest = max(longest, np.int32(b[a + 3] - b[a] + 1))
    return longest
