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
def _slot(table, pairs, a, b):
    """The slot of the pair ``a < b`` in a hash table of positions in ``pairs``, or the free slot for it.

    Slots have positions from 1 on; free slots are 0.
    """
    last = table.size - 1
    mixed = (a * _MULTIPLIER) ^ (b + (a >> np.uint64(7)))
    i = np.int64((mixed * _MULTIPLIER) >> np.uint64(20)) & last
    while table[i] and (pairs[table[i] - 1, 0] != a or pairs[table[i] - 1, 1] != b):
        i = (i + 1) & last
    return i


@row_kernel
def fill(table, pairs, count):
    """Write the positions of the first pairs into an empty table."""
    for k in range(count):
        table[_slot(table, pairs, pairs[k, 0], pairs[k, 1])] = k + 1


@row_kernel
def _any_touch(row, other):
    """Whether two rows have touching labels; without branches, since most rows have none."""
    touching = 0
    for x in range(row.size):
        u, v = row[x], other[x]
        touching += np.int64(u != v) & np.int64(u != _NONE) & np.int64(v != _NONE)
    return touching > 0


def scratch_of(cols: int) -> Scratch:
    """The scratch of `faces`: rows of labels, and of values."""
    return (
        ((2, cols), np.uint64),
        ((cols,), np.uint64),
        ((2, cols), np.float64),
        ((cols,), np.int32),
    )


@row_kernel
def _add_row(row, other, p, q, axis, start, count, into, touching):
    """Add faces of a row from ``start`` on; return where it stopped, before a pair without room."""
    # Faces are collected without a branch, since no processor could predict it.
    valued, rule, only_extremes, edges, base, table, pairs, faces, used, extremes, cells, bins = (
        into
    )
    known_u = np.uint64(0)
    known_v = np.uint64(0)
    i = 0
    m = 0
    for x in range(start, row.size):
        u, v = row[x], other[x]
        touching[m] = x
        m += np.int64(u != v) & np.int64(u != _NONE) & np.int64(v != _NONE)
    for k in range(m):
        x = np.int64(touching[k])
        u, v = row[x], other[x]
        if u != known_u or v != known_v:
            a, b = min(u, v), max(u, v)
            slot = _slot(table, pairs, a, b)
            i = np.int64(table[slot]) - 1
            if i < 0:
                if count == pairs.shape[0]:
                    return x, count
                i = count
                count += 1
                table[slot] = count
                pairs[i, 0], pairs[i, 1] = a, b
                _begin(i, faces, used, extremes, cells, bins)
            known_u, known_v = u, v
        if faces.shape[1] > 0:
            faces[i, axis] += 1
        if not valued:
            continue
        c, d = p[x], (p[x] if rule == OWN else q[x])
        finite = abs(c) < np.inf and abs(d) < np.inf
        if not finite and not (only_extremes and c == c and d == d):
            continue
        value = (0.5 * c + 0.5 * d if rule == MEAN else max(c, d)) + 0.0
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
    return row.size, count


@row_kernel
def _begin(i, faces, used, extremes, cells, bins):
    for k in range(faces.shape[1]):
        faces[i, k] = 0
    used[i] = 0
    extremes[i, 0], extremes[i, 1] = np.inf, -np.inf
    for k in range(cells.shape[1]):
        cells[i, k] = 0
    for k in range(bins.shape[1]):
        bins[i, k] = 0


def faces(
    labels: np.ndarray,
    below: np.ndarray,
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    values_below: np.ndarray,
    core: tuple[int, int, int],
    at: tuple[int, int, int, int],
    into: tuple,
    scratch: tuple,
) -> tuple[int, int, int, int]:
    """Accumulate the faces of every pair in the first ``core`` slices, rows and columns: all, or all but one.

    ``below`` (rows, columns) is the plane before the first slice, or one without rows.
    """
    # ``at``: row, axis and column where to begin, and the number of pairs. Returns the same where it ended:
    # after the last row, or if there is no room for another pair. ``values`` are boundary volumes for faces
    # across z, y and x, or anything without them, and ``values_below`` the values of the plane before, unless
    # faces have the upper voxel's value. ``into`` has ``valued``: whether there is a boundary volume;
    # ``rule``: `MEAN`, `LARGEST` or `OWN`; ``only_extremes``: whether sums and bins stay empty, and infinite
    # values count, too; ``edges``: of the histogram's bins, float64 ascending; the last bin includes its
    # upper edge, values outside are not counted; ``base``: for `add_double`; ``table``: of `fill`, at least
    # twice as long as pairs. The results are ``pairs`` uint64 (pairs, 2); ``faces`` int64 (pairs, 3) across
    # z, y, x, or without columns to skip them; ``used`` int64 (pairs,) faces with finite values; ``extremes``
    # float64 (pairs, 2); ``cells`` int64 (pairs, digits), the sum, or without digits to skip it; ``bins``
    # int64 (pairs, bins).
    return _faces(  # type: ignore[no-any-return]
        strided(labels), labels.shape, strided(below), below.size > 0,
        (strided(values[0]), strided(values[1]), strided(values[2])), strided(values_below), core, at,
        into, scratch,
    )  # fmt: skip


@row_kernel
def _copy(values, z, y, nx, row):
    flat, step_z, step_y = values
    at = z * step_z + y * step_y
    copy_row(flat[at : at + nx], row)


@kernel
def _faces(labels, shape, below, under, values, values_below, core, at, into, scratch):
    # Rows are compared as uint64, and their values as float64, so the rest is compiled once.
    _, ny, _ = shape
    nz, cz, cy = shape[0], core[0], core[1]
    r, axis, x, count = at
    while r < nz * ny:
        z, y = r // ny, r % ny
        if z < cz or y < cy:
            axis, x, count = _faces_of_row(
                labels, shape, below, under, values, values_below, core, (z, y, axis, x, count),
                into, scratch,
            )  # fmt: skip
            if axis >= 0:
                break
        r, axis, x = r + 1, np.int64(2), np.int64(0)
    return r, axis, x, count


@row_kernel
def _faces_of_row(labels, shape, below, under, values, values_below, core, at, into, scratch):
    """Add faces across x, y and z; return where it stopped, with an axis of -1 at the end."""
    flat, step_z, step_y = labels
    flat_below, _, step_below = below
    across_z, across_y, across_x = values
    voxels_below, _, next_below = values_below
    cz, cy, cx = core
    nx = shape[2]
    z, y, axis, start, count = at
    own = into[1] == OWN
    rows, other, (p, q), touching = scratch
    row, before = rows
    here = z * step_z + y * step_y
    copy_row(flat[here : here + nx], row)
    if axis == 2:
        if z < cz and y < cy and _any_touch(row[1:], row[: nx - 1]):
            if into[0]:
                _copy(across_x, z, y, nx, p)
            x, count = _add_row(
                row[1:], row[: nx - 1], p[1:], p[: nx - 1], 2, start, count, into, touching
            )
            if x < nx - 1:
                return np.int64(2), x, count
        axis, start = np.int64(1), np.int64(0)
    if axis == 1:
        if z < cz and y > 0:
            copy_row(flat[here - step_y : here - step_y + nx], before)
            if _any_touch(row[:cx], before[:cx]):
                if into[0]:
                    _copy(across_y, z, y, nx, p)
                    if not own:
                        _copy(across_y, z, y - 1, nx, q)
                x, count = _add_row(row[:cx], before[:cx], p, q, 1, start, count, into, touching)
                if x < cx:
                    return np.int64(1), x, count
        start = np.int64(0)
    if y >= cy or (z == 0 and not under):
        return np.int64(-1), start, count
    if z > 0:
        copy_row(flat[here - step_z : here - step_z + nx], other)
    else:
        copy_row(flat_below[y * step_below : y * step_below + cx], other[:cx])
    if not _any_touch(row[:cx], other[:cx]):
        return np.int64(-1), start, count
    if into[0]:
        _copy(across_z, z, y, nx, p)
        if not own and z > 0:
            _copy(across_z, z - 1, y, nx, q)
        elif not own:
            there = y * next_below
            copy_row(voxels_below[there : there + cx], q[:cx])
    x, count = _add_row(row[:cx], other[:cx], p, q, 0, start, count, into, touching)
    return np.int64(0 if x < cx else -1), x, count
