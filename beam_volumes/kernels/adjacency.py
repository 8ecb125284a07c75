"""Faces between touching labels of a block: which pairs, how many, and what lies between.

A face belongs to the block that owns the voxel at its lower side; blocks come with one more plane
at the upper side of each axis, where a neighbour follows (see `kernels.regions`).
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
        a, b = keys[i, 0], keys[i, 1]
        if a != np.uint64(0):
            at = _slot(bigger, a, b)
            bigger[at, 0], bigger[at, 1] = a, b
    return bigger


@kernel
def _any_touch(row, other):
    """Whether two rows have touching labels; without branches, since most have none."""
    touching = 0
    for x in range(row.size):
        u, v = row[x], other[x]
        touching += np.int64(u != v) & np.int64(u != 0) & np.int64(v != 0)
    return touching > 0


@kernel
def _discover_some(row, other, start, keys, count):
    """Note pairs from ``start`` on: where it stopped, at the latest when the table is half full."""
    known_u = np.uint64(0)
    known_v = np.uint64(0)
    for x in range(start, row.size):
        u, v = row[x], other[x]
        if u != v and u != 0 and v != 0 and (u != known_u or v != known_v):
            known_u, known_v = np.uint64(u), np.uint64(v)
            a, b = min(known_u, known_v), max(known_u, known_v)
            i = _slot(keys, a, b)
            if keys[i, 0] == np.uint64(0):
                keys[i, 0] = a
                keys[i, 1] = b
                count += 1
                if 2 * count > keys.shape[0]:
                    return x + 1, count
    return row.size, count


@kernel
def _discover_rows(rows, others, keys, count):
    for y in range(rows.shape[0]):
        row, other = rows[y], others[y]
        end = 0 if _any_touch(row, other) else row.size
        while end < row.size:
            end, count = _discover_some(row, other, end, keys, count)
            if 2 * count > keys.shape[0]:
                keys = _grown(keys)
    return keys, count


@kernel
def discover(labels, below, core):
    """A table of the touching pairs, and their number; see `faces`."""
    keys = np.zeros((1024, 2), np.uint64)
    count = 0
    cz, cy, cx = core
    nz, ny, nx = labels.shape
    for z in range(nz):
        plane = labels[z, :cy, :cx]
        if z < cz:
            wide = labels[z, :cy]
            keys, count = _discover_rows(wide[:, 1:], wide[:, : nx - 1], keys, count)
            wide = labels[z, :, :cx]
            keys, count = _discover_rows(wide[1:], wide[: ny - 1], keys, count)
        if z > 0:
            keys, count = _discover_rows(plane, labels[z - 1, :cy, :cx], keys, count)
        elif below.size:
            keys, count = _discover_rows(plane, below, keys, count)
    return keys, count


@kernel
def _add_row(row, other, p, q, axis, into):
    """Add the faces between two rows of labels beside each other, with values ``p`` and ``q``."""
    if not _any_touch(row, other):
        return
    keys, place, valued, largest, edges, base, faces, used, extremes, cells, bins = into
    known_u = np.uint64(0)
    known_v = np.uint64(0)
    i = 0
    for x in range(row.size):
        u, v = row[x], other[x]
        if u == v or u == 0 or v == 0:
            continue
        if u != known_u or v != known_v:
            known_u, known_v = np.uint64(u), np.uint64(v)
            i = place[_slot(keys, min(known_u, known_v), max(known_u, known_v))]
        faces[i, axis] += 1
        if not valued:
            continue
        a, b = np.float64(p[x]), np.float64(q[x])
        if not (abs(a) < np.inf and abs(b) < np.inf):
            continue
        value = (max(a, b) if largest else 0.5 * a + 0.5 * b) + 0.0
        used[i] += 1
        extremes[i, 0] = min(extremes[i, 0], value)
        extremes[i, 1] = max(extremes[i, 1], value)
        add_double(cells[i], base, value)
        n = edges.size - 1
        if n > 0 and edges[0] <= value <= edges[n]:
            bins[i, min(np.searchsorted(edges, value, side="right") - 1, n - 1)] += 1


@kernel
def faces(labels, below, values, values_below, core, into):
    """Add up the faces of every pair.

    Parameters
    ----------
    labels : ndarray (slices, rows, columns)
    below : ndarray (rows, columns)
        The plane before the first slice, or one of no rows.
    values, values_below : ndarrays of the same shapes
        A boundary volume, or anything if there is none.
    core : tuple of int
        How many slices, rows and columns are owned: all, or all but one.
    into : tuple
        ``keys, place``: the table of `discover`, and the row of each slot's pair;
        ``valued``: whether there is a boundary volume;
        ``largest``: whether a face's value is the larger of its two voxels', else their mean;
        ``edges``: of the histogram's bins, float64 ascending; the last bin holds its upper edge,
        values outside count in no bin;
        ``base``: of `add_double`;
        and what is added to: ``faces`` int64 (pairs, 3) across z, y, x; ``used`` int64 (pairs,) faces
        of finite value; ``extremes`` float64 (pairs, 2); ``cells`` int64 (pairs, digits), the sum;
        ``bins`` int64 (pairs, bins).
    """
    cz, cy, cx = core
    nz, ny, nx = labels.shape
    for z in range(nz):
        for y in range(ny if z < cz else cy):
            row, p = labels[z, y], values[z, y]
            if z < cz and y < cy:
                _add_row(row[1:], row[: nx - 1], p[1:], p[: nx - 1], 2, into)
            row, p = row[:cx], p[:cx]
            if z < cz and y > 0:
                _add_row(row, labels[z, y - 1, :cx], p, values[z, y - 1, :cx], 1, into)
            if y < cy and z > 0:
                _add_row(row, labels[z - 1, y, :cx], p, values[z - 1, y, :cx], 0, into)
            elif y < cy and below.size:
                _add_row(row, below[y, :cx], p, values_below[y, :cx], 0, into)
