"""The first voxel of each label of a block, and its number of voxels."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.labels.regions import _slot
from beam_volumes.kernels.rows import copy_row, strided


@kernel
def _larger(keys, first, size):
    n = 4 * keys.size
    more, begins, sizes = np.zeros(n, np.uint64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(keys.size):
        if keys[i] != np.uint64(0):
            at = _slot(more, keys[i])
            more[at] = keys[i]
            begins[at] = first[i]
            sizes[at] = size[i]
    return more, begins, sizes


@row_kernel
def _add_some(row, start, base, keys, first, size, used):
    """Add a row from ``start`` on; return where it stopped, at the latest when the table is half full."""
    end = start
    while end < row.size:
        begin, label = end, row[end]
        end += 1
        while end < row.size and row[end] == label:
            end += 1
        if label == np.uint64(0):
            continue
        i = _slot(keys, label)
        if keys[i] == np.uint64(0):
            keys[i] = label
            first[i] = base + begin
            used += 1
        size[i] += end - begin
        if 2 * used > keys.size:
            break
    return end, used


@kernel
def _begin(voxels, shape, row):
    flat, step_z, step_y = voxels
    nz, ny, nx = shape
    keys, first, size = np.zeros(256, np.uint64), np.zeros(256, np.int64), np.zeros(256, np.int64)
    used = 0
    for z in range(nz):
        for y in range(ny):
            at = z * step_z + y * step_y
            copy_row(flat[at : at + nx], row)
            end = 0
            while end < nx:
                end, used = _add_some(row, end, (z * ny + y) * nx, keys, first, size, used)
                if 2 * used > keys.size:
                    keys, first, size = _larger(keys, first, size)
    return keys, first, size


def beginnings(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nonzero labels of a block in order (uint64), the index of each first voxel, and voxel counts.

    >>> beginnings(np.array([[[0, 9, 4], [9, 9, 0]]], "u1"))
    (array([4, 9], dtype=uint64), array([2, 1]), array([1, 3]))
    """
    row = np.empty(labels.shape[2], np.uint64)
    keys, first, size = _begin(strided(labels), labels.shape, row)
    some = np.flatnonzero(keys)
    some = some[np.argsort(keys[some])]
    return keys[some], first[some], size[some]
