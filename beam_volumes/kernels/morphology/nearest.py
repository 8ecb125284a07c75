"""The nearest label within a distance, in three passes: along z, then y, then x.

Squared distances are sums over axes, so the smallest pair of a squared distance and a label is found axis by
axis. Equally near labels are ordered by their numbers. The passes along y and x try offsets one by one, for a
row at a time, until all voxels of the row are nearer.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel

_NONE = 1 << 30  # slices to a label in a column without any


@kernel
def nearest(labels, out, reach, sampling, scale, max_distance):
    """Write the nearest nonzero label up to ``max_distance``, or 0.

    ``labels``, uint32 or uint64 (slices, rows, columns), is ``out`` with ``reach`` voxels on both sides of
    each axis; there are no labels outside of the volume. ``reach`` is the longest distance in voxels.
    ``sampling`` is the extent of a voxel in units of ``scale``: distances are ``scale * sqrt(squared)``.
    """
    _, high, wide = labels.shape
    rz, ry, rx = reach
    wz, wy, wx = sampling
    slice_of, label_z = _along_z(labels, rz)
    squared = np.empty((high, wide), np.float64)
    lowest = np.empty(high, np.float64)
    row = np.empty(wide, np.float64)
    row_label = np.empty(wide, labels.dtype)
    nx = out.shape[2]
    best = np.empty(nx, np.float64)
    label = np.empty(nx, labels.dtype)
    limit = (max_distance / scale) ** 2 * (1 + 1e-9)  # rounding beyond it is decided at the end
    for k in range(out.shape[0]):
        for y in range(high):
            low = np.inf
            for x in range(wide):
                steps = slice_of[k, y, x]
                d = (steps * wz) ** 2 if steps != _NONE else np.inf
                squared[y, x] = d
                low = min(low, d)
            lowest[y] = low
        for y in range(out.shape[1]):
            at = y + ry
            _set(row, squared[at])
            _set(row_label, label_z[k, at])
            for t in range(1, ry + 1):
                step = (t * wy) ** 2
                if not _any_from(row, step):
                    break
                for other in (at - t, at + t):
                    if lowest[other] + step <= limit:
                        _lower(row, row_label, squared[other], label_z[k, other], step)
            _set(best, row[rx : rx + nx])
            _set(label, row_label[rx : rx + nx])
            for t in range(1, rx + 1):
                step = (t * wx) ** 2
                if step > limit or not _any_from(best, step):
                    break
                a, b = rx - t, rx + t
                _lower(best, label, row[a : a + nx], row_label[a : a + nx], step)
                _lower(best, label, row[b : b + nx], row_label[b : b + nx], step)
            for x in range(nx):
                near = np.sqrt(best[x]) * scale <= max_distance
                out[k, y, x] = label[x] if near else 0


@kernel
def _along_z(labels, reach):
    """Slices to the nearest label of the same column and the label, except in ``reach`` outer slices."""
    slices, high, wide = labels.shape
    none = np.int32(_NONE)
    depth = slices - 2 * reach
    steps = np.empty((depth, high, wide), np.int32)
    found = np.empty((depth, high, wide), labels.dtype)
    last = np.empty(wide, np.int32)
    last_label = np.empty(wide, labels.dtype)
    for y in range(high):
        last[:] = none
        last_label[:] = 0
        for k in range(slices - reach):
            _pass_slice(labels[k, y], last, last_label)
            if k >= reach:
                _set(steps[k - reach, y], last)
                _set(found[k - reach, y], last_label)
        last[:] = none
        last_label[:] = 0
        for k in range(slices - 1, reach - 1, -1):
            _pass_slice(labels[k, y], last, last_label)
            if k < slices - reach:
                _lower(steps[k - reach, y], found[k - reach, y], last, last_label, np.int32(0))
    return steps, found


@kernel
def _pass_slice(row, last, label):
    none = np.int32(_NONE)
    for x in range(row.size):
        here = row[x] != 0
        further = np.int32(last[x] + 1) if last[x] != none else none
        last[x] = np.int32(0) if here else further
        label[x] = row[x] if here else label[x]


@kernel
def _set(out, row):
    for x in range(out.size):
        out[x] = row[x]


@kernel
def _lower(best, label, distance, other, step):
    """Replace pairs of a distance and a label by smaller ones."""
    for x in range(best.size):
        d, b = best.dtype.type(distance[x] + step), best[x]
        m, n = label[x], other[x]
        closer = (d < b) | ((d == b) & (n < m))
        best[x] = d if closer else b
        label[x] = n if closer else m


@kernel
def _any_from(row, limit):
    found = False
    for x in range(row.size):
        found |= row[x] >= limit
    return found
