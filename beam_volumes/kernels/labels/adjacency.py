"""Faces between touching labels of a block: pairs, counts, and values.

A face belongs to the block that owns the voxel on its lower side. Blocks have one more plane on the upper
side of each axis with a neighbour (see `kernels.labels.regions`).
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.labels.regions import add_double
from beam_volumes.kernels.rows import copy_row, strided
from beam_volumes.kernels.scratch import Scratch

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_NONE = np.uint64(0)
#: The value of a face: the mean or maximum of its two voxels' values, or the upper voxel's value.
MEAN, LARGEST, OWN = 0, 1, 2


@row_kernel
def _slot(keys, a, b):
    """The slot of the pair ``a < b`` in a hash table, or the free slot for it; free slots have ``a`` 0."""
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


@row_kernel
def _any_touch(row, other):
    """Whether two rows have touching labels; without branches, since most rows have none."""
    touching = 0
    for x in range(row.size):
        u, v = row[x], other[x]
        touching += np.int64(u != v) & np.int64(u != _NONE) & np.int64(v != _NONE)
    return touching > 0


@row_kernel
def _discover_some(row, other, start, keys, count):
    """Add pairs from ``start`` on; return where it stopped, at the latest when the table is half full."""
    known_u = np.uint64(0)
    known_v = np.uint64(0)
    for x in range(start, row.size):
        u, v = row[x], other[x]
        if u != v and u != _NONE and v != _NONE and (u != known_u or v != known_v):
            known_u, known_v = u, v
            a, b = min(u, v), max(u, v)
            i = _slot(keys, a, b)
            if keys[i, 0] == np.uint64(0):
                keys[i, 0] = a
                keys[i, 1] = b
                count += 1
                if 2 * count > keys.shape[0]:
                    return x + 1, count
    return row.size, count


@kernel
def _discover_row(row, other, keys, count):
    end = np.int64(0) if _any_touch(row, other) else row.size
    while end < row.size:
        end, count = _discover_some(row, other, end, keys, count)
        if 2 * count > keys.shape[0]:
            keys = _grown(keys)
    return keys, count


def scratch_of(cols: int) -> Scratch:
    """The scratch of `discover` and `faces`: rows of labels, and of values."""
    return ((2, cols), np.uint64), ((cols,), np.uint64), ((2, cols), np.float64)


def discover(
    labels: np.ndarray, below: np.ndarray, core: tuple[int, int, int], scratch: tuple
) -> tuple[np.ndarray, int]:
    """A hash table of the touching pairs, and their number; see `faces`."""
    return _discover(strided(labels), labels.shape, strided(below), below.size > 0, core, scratch)


@kernel
def _discover(labels, shape, below, under, core, scratch):
    # Rows are compared as uint64, so the rest is compiled once.
    flat, step_z, step_y = labels
    flat_below, _, step_below = below
    cz, cy, cx = core
    nz, ny, nx = shape
    rows, other, _ = scratch
    keys, count = np.zeros((1024, 2), np.uint64), np.int64(0)
    for z in range(nz):
        for y in range(ny if z < cz else cy):
            at = z * step_z + y * step_y
            row, before = rows[y % 2], rows[1 - y % 2]
            copy_row(flat[at : at + nx], row)
            if z < cz and y < cy:
                keys, count = _discover_row(row[1:], row[: nx - 1], keys, count)
            if z < cz and y > 0:
                keys, count = _discover_row(row[:cx], before[:cx], keys, count)
            if y < cy and z > 0:
                copy_row(flat[at - step_z : at - step_z + cx], other[:cx])
                keys, count = _discover_row(row[:cx], other[:cx], keys, count)
            elif y < cy and under:
                copy_row(flat_below[y * step_below : y * step_below + cx], other[:cx])
                keys, count = _discover_row(row[:cx], other[:cx], keys, count)
    return keys, count


@row_kernel
def _add_row(row, other, p, q, axis, into):
    keys, place, valued, rule, only_extremes, edges, base, faces, used, extremes, cells, bins = into
    known_u = np.uint64(0)
    known_v = np.uint64(0)
    i = 0
    for x in range(row.size):
        u, v = row[x], other[x]
        if not (u != v and u != _NONE and v != _NONE):
            continue
        if u != known_u or v != known_v:
            known_u, known_v = u, v
            i = place[_slot(keys, min(u, v), max(u, v))]
        faces[i, axis] += 1
        if not valued:
            continue
        a, b = p[x], (p[x] if rule == OWN else q[x])
        finite = abs(a) < np.inf and abs(b) < np.inf
        if not finite and not (only_extremes and a == a and b == b):
            continue
        value = (0.5 * a + 0.5 * b if rule == MEAN else max(a, b)) + 0.0
        used[i] += 1
        extremes[i, 0] = min(extremes[i, 0], value)
        extremes[i, 1] = max(extremes[i, 1], value)
        if only_extremes:
            continue
        if cells.shape[1] > 0:
            add_double(cells[i], base, value)
        n = edges.size - 1
        if n > 0 and edges[0] <= value <= edges[n]:
            bins[i, min(np.searchsorted(edges, value, side="right") - 1, n - 1)] += 1


def faces(
    labels: np.ndarray,
    below: np.ndarray,
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    values_below: np.ndarray,
    core: tuple[int, int, int],
    into: tuple,
    scratch: tuple,
) -> None:
    """Accumulate the faces of every pair in the first ``core`` slices, rows and columns: all, or all but one.

    ``below`` (rows, columns) is the plane before the first slice, or one without rows.
    """
    # ``values`` are boundary volumes for faces across z, y and x, or anything without them, and
    # ``values_below`` the values of the plane before, unless faces have the upper voxel's value. ``into`` has
    # ``keys, place``: the table of `discover`, and the row of each slot's pair; ``valued``: whether there is
    # a boundary volume; ``rule``: `MEAN`, `LARGEST` or `OWN`; ``only_extremes``: whether sums and bins stay
    # empty, and infinite values count, too; ``edges``: of the histogram's bins, float64 ascending; the last
    # bin includes its upper edge, values outside are not counted; ``base``: for `add_double`. The results are
    # ``faces`` int64 (pairs, 3) across z, y, x; ``used`` int64 (pairs,) faces with finite values;
    # ``extremes`` float64 (pairs, 2); ``cells`` int64 (pairs, digits), the sum, or without digits to skip it;
    # ``bins`` int64 (pairs, bins).
    _faces(
        strided(labels), labels.shape, strided(below), below.size > 0,
        (strided(values[0]), strided(values[1]), strided(values[2])), strided(values_below), core, into,
        scratch,
    )  # fmt: skip


@row_kernel
def _copy(values, z, y, nx, row):
    flat, step_z, step_y = values
    at = z * step_z + y * step_y
    copy_row(flat[at : at + nx], row)


@kernel
def _faces(labels, shape, below, under, values, values_below, core, into, scratch):
    # Rows are compared as uint64, and their values as float64, so the rest is compiled once.
    flat, step_z, step_y = labels
    flat_below, _, step_below = below
    across_z, across_y, across_x = values
    voxels_below, _, next_below = values_below
    cz, cy, cx = core
    nz, ny, nx = shape
    own = into[3] == OWN
    rows, other, (p, q) = scratch
    for z in range(nz):
        for y in range(ny if z < cz else cy):
            at = z * step_z + y * step_y
            row, before = rows[y % 2], rows[1 - y % 2]
            copy_row(flat[at : at + nx], row)
            if z < cz and y < cy and _any_touch(row[1:], row[: nx - 1]):
                if into[2]:
                    _copy(across_x, z, y, nx, p)
                _add_row(row[1:], row[: nx - 1], p[1:], p[: nx - 1], 2, into)
            if z < cz and y > 0 and _any_touch(row[:cx], before[:cx]):
                if into[2]:
                    _copy(across_y, z, y, nx, p)
                    if not own:
                        _copy(across_y, z, y - 1, nx, q)
                _add_row(row[:cx], before[:cx], p, q, 1, into)
            if y < cy and z > 0:
                copy_row(flat[at - step_z : at - step_z + nx], other)
                if _any_touch(row[:cx], other[:cx]):
                    if into[2]:
                        _copy(across_z, z, y, nx, p)
                        if not own:
                            _copy(across_z, z - 1, y, nx, q)
                    _add_row(row[:cx], other[:cx], p, q, 0, into)
            elif y < cy and under:
                at, there = y * step_below, y * next_below
                copy_row(flat_below[at : at + cx], other[:cx])
                if _any_touch(row[:cx], other[:cx]):
                    if into[2]:
                        _copy(across_z, z, y, nx, p)
                        if not own:
                            copy_row(voxels_below[there : there + cx], q[:cx])
                    _add_row(row[:cx], other[:cx], p, q, 0, into)
