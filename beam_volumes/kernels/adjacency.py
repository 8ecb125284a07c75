"""Faces between touching labels of a block: which pairs, how many, and what lies between.

A face belongs to the block that owns the voxel at its upper side; blocks come with one more plane
at the lower side of each axis, where the volume has one (see `kernels.regions`).
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.regions import add_double

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _slot(keys, a, b):
    """Where the pair ``a < b`` is, or would be put; an ``a`` of 0 is an empty slot."""
    last = keys.shape[0] - 1
    mixed = (a * _MULTIPLIER) ^ (b + (a >> np.uint64(7)))
    i = np.int64((mixed * _MULTIPLIER) >> np.uint64(20)) & last
    while keys[i, 0] != np.uint64(0) and (keys[i, 0] != a or keys[i, 1] != b):
        i = (i + 1) & last
    return i


@kernel
def _grown(keys):
    bigger = np.zeros((4 * keys.shape[0], 2), np.uint64)
    for i in range(keys.shape[0]):
        a, b = keys[i]
        if a != np.uint64(0):
            bigger[_slot(bigger, a, b)] = keys[i]
    return bigger


@kernel
def discover(labels, lower):
    """A table of the touching pairs, and their number."""
    keys = np.zeros((1024, 2), np.uint64)
    count = 0
    for z in range(lower[0], labels.shape[0]):
        for y in range(lower[1], labels.shape[1]):
            for axis in range(3):
                if (axis == 0 and z == 0) or (axis == 1 and y == 0):
                    continue
                row = labels[z, y]
                other = labels[z - 1, y] if axis == 0 else labels[z, y - 1] if axis == 1 else row
                back = 1 if axis == 2 else 0
                known_u = np.uint64(0)
                known_v = np.uint64(0)
                for x in range(max(lower[2], back), row.size):
                    u, v = row[x], other[x - back]
                    if u != v and u != 0 and v != 0 and (u != known_u or v != known_v):
                        known_u, known_v = np.uint64(u), np.uint64(v)
                        a, b = min(known_u, known_v), max(known_u, known_v)
                        i = _slot(keys, a, b)
                        if keys[i, 0] == np.uint64(0):
                            keys[i, 0] = a
                            keys[i, 1] = b
                            count += 1
                            if 2 * count > keys.shape[0]:
                                keys = _grown(keys)
    return keys, count


@kernel
def faces(
    labels, values, lower, keys, place, largest, edges, base, faces, used, extremes, cells, bins
):
    """Add up the faces of every pair.

    Parameters
    ----------
    labels : ndarray (slices, rows, columns)
    values : ndarray of the same shape, or of no voxels
        A boundary volume, with the same lower planes.
    lower : tuple of int
        Per axis 1 if the first plane belongs to the neighbour.
    keys, place
        The table of `discover`, and the row of each slot's pair.
    largest : bool
        A face's value is the larger of its two voxels', else their mean.
    edges : ndarray of float64
        Of the histogram's bins, ascending; the last bin holds its upper edge; values outside count
        in no bin.
    base : int
        Of `add_double`.
    faces : ndarray of int64 (pairs, 3)
        Faces across z, y, x.
    used : ndarray of int64 (pairs,)
        Faces of finite value.
    extremes : ndarray of float64 (pairs, 2)
    cells : ndarray of int64 (pairs, digits)
        The sum.
    bins : ndarray of int64 (pairs, bins)
    """
    for z in range(lower[0], labels.shape[0]):
        for y in range(lower[1], labels.shape[1]):
            for axis in range(3):
                if (axis == 0 and z == 0) or (axis == 1 and y == 0):
                    continue
                oz = z - 1 if axis == 0 else z
                oy = y - 1 if axis == 1 else y
                back = 1 if axis == 2 else 0
                row, other = labels[z, y], labels[oz, oy]
                known_u = np.uint64(0)
                known_v = np.uint64(0)
                i = 0
                for x in range(max(lower[2], back), row.size):
                    u, v = row[x], other[x - back]
                    if u == v or u == 0 or v == 0:
                        continue
                    if u != known_u or v != known_v:
                        known_u, known_v = np.uint64(u), np.uint64(v)
                        i = place[_slot(keys, min(known_u, known_v), max(known_u, known_v))]
                    faces[i, axis] += 1
                    if values.size == 0:
                        continue
                    p, q = np.float64(values[z, y, x]), np.float64(values[oz, oy, x - back])
                    if not (abs(p) < np.inf and abs(q) < np.inf):
                        continue
                    value = (max(p, q) if largest else 0.5 * p + 0.5 * q) + 0.0
                    used[i] += 1
                    extremes[i, 0] = min(extremes[i, 0], value)
                    extremes[i, 1] = max(extremes[i, 1], value)
                    add_double(cells[i], base, value)
                    n = edges.size - 1
                    if n > 0 and edges[0] <= value <= edges[n]:
                        bins[i, min(np.searchsorted(edges, value, side="right") - 1, n - 1)] += 1
