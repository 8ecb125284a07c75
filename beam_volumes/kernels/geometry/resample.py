"""Resampling: nearest neighbours, or linear interpolation, as in scipy.ndimage.

`place` handles positions outside of the volume, and their rounding, for all functions.
"""

import numpy as np
from numba import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import copy_row
from beam_volumes.kernels.scratch import needs

#: Boundary modes by number.
MODES = {
    "reflect": 0,
    "grid-mirror": 0,
    "mirror": 1,
    "nearest": 2,
    "constant": 3,
    "grid-constant": 4,
}
#: Indices of missing voxels: one voxel of a weighted mean, or all of it.
TAP, ALL = -1, -2
#: Rows and columns of a tile of `affine`. A turned tile needs fewer cache lines than as many voxels in a row.
TILE_ROWS, TILE_COLUMNS = 16, 128
#: The maximum number of slices with the same coordinates along y and x that are computed at a time.
SLICES = 8


def away(value, dtype):
    """Convert a float64 to ``dtype``; integers round half away from zero and saturate.

    Integers are of ``dtype`` already, such as constants outside of a volume.
    """
    raise NotImplementedError("only inside compiled code")


@overload(away)
def _away(value, dtype):
    target = dtype.dtype
    if isinstance(target, types.Boolean):
        return lambda value, dtype: value >= 0.5
    if value == target or not isinstance(target, types.Integer):
        return lambda value, dtype: dtype.type(value)
    scalar, limits = as_dtype(target).type, np.iinfo(as_dtype(target))
    smallest, largest = scalar(limits.min), scalar(limits.max)
    below, beyond = float(limits.min), float(limits.max)

    def whole(value, dtype):
        r = value + 0.5 if value > 0 else value - 0.5
        if r >= beyond:
            return largest
        return smallest if r <= below else scalar(r)

    return whole


@kernel
def place(c, n, mode):
    """The coordinate in ``0 .. n - 1``; -2 if there is none.

    Coordinates do not change if voxels outside repeat the edge (mode 2) or are a constant each (4).
    """
    if c < 0:
        if mode == 0:
            if n <= 1:
                return 0.0
            period = 2 * n
            if c < -period:
                c = period * np.int64(-c / period) + c
            if c < -n:
                return c + period
            return (1e-15 if c > -1e-15 else -c) - 1
        if mode == 1:
            if n <= 1:
                return 0.0
            period = 2 * n - 2
            c = period * np.int64(-c / period) + c
            return c + period if c <= 1 - n else -c
        return -2.0 if mode == 3 else c
    if c > n - 1:
        if mode == 0:
            if n <= 1:
                return 0.0
            period = 2 * n
            c -= period * np.int64(c / period)
            return period - c - 1 if c >= n else c
        if mode == 1:
            if n <= 1:
                return 0.0
            period = 2 * n - 2
            c -= period * np.int64(c / period)
            return period - c if c >= n else c
        return -2.0 if mode == 3 else c
    return c


@kernel
def tap(i, n, mode):
    """The voxel that replaces voxel ``i`` in a boundary mode, or `TAP`."""
    if 0 <= i < n:
        return i
    if mode == 4:
        return TAP
    if mode == 2:
        return 0 if i < 0 else n - 1
    return np.int64(place(np.float64(i), n, 1 if mode == 3 else mode))


@kernel
def taps_along(start, before, scale, half, n, mode, index, weight):
    """Write voxels, int64, and weights, float64, a row for each position of the result from ``start`` on.

    Position v is at ``(v + before + half) * scale - half`` of the input, which has extent ``n``.
    """
    # There is 1 column for the nearest voxel, 2 for linear interpolation. ``mode`` is one of `MODES`.
    taps = index.shape[1]
    weight[:] = 1.0
    for k in range(len(index)):
        c = place(((start + k) + before + half) * scale - half, n, mode)
        if c <= -1.0 and mode == 3:
            index[k, :] = ALL
            continue
        first = np.int64(np.floor(c if taps == 2 else c + 0.5))
        for t in range(taps):
            index[k, t] = tap(first + t, n, mode)
        if taps == 2:
            weight[k, 0] = 1.0 - (c - first)
            weight[k, 1] = 1.0 - weight[k, 0]


@kernel
def gather(src, out, y0, y1, nx, iz, iy, ix, cval):
    """Copy voxels at int64 slices, rows (from ``y0``) and columns; those at negative ones are ``cval``."""
    for k in range(iz.size):
        for y in range(y0, y1):
            row, at = out.lines[out.firsts[k] + y, out.left : out.left + nx], iy[y - y0]
            if iz[k] < 0 or at < 0:
                row[:] = cval
                continue
            line = src.lines[src.firsts[iz[k]] + at, src.left :]
            for x in range(nx):
                row[x] = line[ix[x]] if ix[x] >= 0 else cval


def _row_of_sums(rows, cols, depth, dtype, *parameters):
    return (((cols,), np.float64),)


@needs(_row_of_sums)
@kernel
def interpolate(src, out, y0, y1, nx, iz, wz, iy, wy, ix, wx, cval, scratch):
    """Weighted means of voxels: like `gather`, with several indices and weights per position."""
    total = scratch[0]
    outside, all_there = away(cval, out.lines.dtype), ix.min() >= 0
    for k in range(len(iz)):
        for r in range(y1 - y0):
            row = out.lines[out.firsts[k] + y0 + r, out.left : out.left + nx]
            if iz[k, 0] == ALL or iy[r, 0] == ALL:
                row[:] = outside
                continue
            total[:] = 0.0
            for a in range(iz.shape[1]):
                for b in range(iy.shape[1]):
                    inside = iz[k, a] >= 0 and iy[r, b] >= 0
                    line = src.lines[src.firsts[max(iz[k, a], 0)] + max(iy[r, b], 0), src.left :]
                    z, y = wz[k, a], wy[r, b]
                    for x in range(nx):
                        for c in range(ix.shape[1]):
                            v = np.float64(cval)
                            if inside and (all_there or ix[x, c] >= 0):
                                v = np.float64(line[ix[x, c]])
                            total[x] += v * z * y * wx[x, c]
            for x in range(nx):
                row[x] = outside if ix[x, 0] == ALL else away(total[x], row.dtype)
            one_nan(row)


@row_kernel
def first_beyond(begun, step, at, low, high, limit, sign, strict):
    """The first column in ``low .. high`` with a coordinate ``sign * c >= limit``, or ``>`` if ``strict``.

    The coordinate of column x is ``begun + (at + x) * step``.
    """
    # ``sign * c`` does not decrease with x, also when it is rounded, so a binary search of this expression
    # finds the exact column. It begins at both ends and around the solution of the equation.
    near = np.int64(min(max((sign * limit - begun) / step - at, low), high))
    probes = low, high - 1, near - 1, near + 2
    n = 0
    while low < high:
        x = (low + high) // 2
        if n < 4:
            x = min(max(probes[n], low), high - 1)
            n += 1
        c = sign * (begun + (at + x) * step)
        if c > limit or (c == limit and not strict):
            high = x
        else:
            low = x + 1
    return low


@row_kernel
def inner_columns(begun, step, at, nx, shape, taps):
    """The range of columns with all taps inside the volume."""
    low, high = 0, nx
    for i in range(3):
        # A coordinate c needs c >= 0 and c <= shape - 1, or c < shape - 1 if another voxel follows.
        last, single = np.float64(shape[i] - 1), taps[i] == 1
        lower, upper, sign = (0.0, last, 1.0) if step[i] >= 0 else (-last, 0.0, -1.0)
        rising = sign > 0
        low = first_beyond(begun[i], step[i], at, low, high, lower, sign, not (rising or single))
        high = first_beyond(begun[i], step[i], at, low, high, upper, sign, single or not rising)
    return low, high


@row_kernel
def along_axis(begun, step, column, half, floors, weights):
    """The floors of coordinates along an axis, from ``column`` on, and the weights of these voxels."""
    for x in range(floors.size):
        c = begun + (column + np.float64(np.int32(x))) * step
        floors[x] = np.floor(c + half)
        weights[x] = 1.0 - (c - np.floor(c))


@row_kernel
def complements(first, second):
    """The weights of the voxels after coordinates."""
    for x in range(second.size):
        second[x] = 1.0 - first[x]


@row_kernel
def in_slice(begun, step, column, half, y0, x0, width, weights_y, weights_x, places):
    """Weights along y and x, and positions in a flat slice that begins at row ``y0`` and column ``x0``."""
    for x in range(places.size):
        at = column + np.float64(np.int32(x))
        cy, cx = begun[1] + at * step[1], begun[2] + at * step[2]
        places[x] = np.int64((np.floor(cy + half) - y0) * width + (np.floor(cx + half) - x0))
        weights_y[x] = 1.0 - (cy - np.floor(cy))
        weights_x[x] = 1.0 - (cx - np.floor(cx))


@row_kernel
def places_in_slices(slices, z0, firsts, in_slice, places):
    """Positions in the flat ring, where slice ``z0 + k`` begins at ``firsts[k]``."""
    for x in range(places.size):
        places[x] = in_slice[x] + firsts[np.uint64(np.int64(slices[x] - z0))]


@row_kernel
def pick(voxels, places, offset, picked):
    for x in range(picked.size):
        picked[x] = voxels[np.uint64(places[x] + offset)]


@row_kernel
def pick_squares(voxels, places, offset, width, picked):
    """Pick 2 x 2 voxels of a slice, four after four, which one instruction stores."""
    for x in range(places.size):
        upper = np.uint64(places[x] + offset)
        lower = upper + np.uint64(width)
        a, b = voxels[upper], voxels[upper + np.uint64(1)]
        c, d = voxels[lower], voxels[lower + np.uint64(1)]
        picked[4 * x], picked[4 * x + 1], picked[4 * x + 2], picked[4 * x + 3] = a, b, c, d


@row_kernel
def add_weighted(picked, wz, wy, wx, total):
    for x in range(total.size):
        total[x] += np.float64(picked[x]) * wz[x] * wy[x] * wx[x]


@row_kernel
def add_squares(picked, wz, wy, wx, total):
    """`add_weighted` for the voxels of `pick_squares`, in this order; ``wy`` and ``wx`` are for the first."""
    for x in range(total.size):
        y1, x1 = 1.0 - wy[x], 1.0 - wx[x]
        added = total[x] + np.float64(picked[4 * x]) * wz[x] * wy[x] * wx[x]
        added += np.float64(picked[4 * x + 1]) * wz[x] * wy[x] * x1
        added += np.float64(picked[4 * x + 2]) * wz[x] * y1 * wx[x]
        total[x] = added + np.float64(picked[4 * x + 3]) * wz[x] * y1 * x1


@row_kernel
def convert_squares(picked, wy, wx, row):
    """`add_squares` to zeros, with ``wz`` of 1, and `convert`."""
    for x in range(row.size):
        y0, x0 = wy[x], wx[x]
        y1, x1 = 1.0 - y0, 1.0 - x0
        added = 0.0 + np.float64(picked[4 * x]) * y0 * x0
        added += np.float64(picked[4 * x + 1]) * y0 * x1
        added += np.float64(picked[4 * x + 2]) * y1 * x0
        row[x] = away(added + np.float64(picked[4 * x + 3]) * y1 * x1, row.dtype)


@row_kernel
def convert(total, row):
    for x in range(row.size):
        row[x] = away(total[x], row.dtype)


@row_kernel
def begin_row(begun, offset, at, matrix, z, y):
    """The coordinates of column 0 of the volume."""
    for i in range(3):
        begun[i] = offset[i] + (at[0] + z) * matrix[i, 0] + (at[1] + y) * matrix[i, 1]


@row_kernel
def alike(k, depth, at, matrix, offset, shape, taps):
    """The end of the slices from ``k`` on with the same inner columns, and coordinates along y and x."""
    kept = matrix[0, 1] == matrix[0, 2] == matrix[1, 0] == matrix[2, 0] == 0
    last = shape[0] - 1.0
    depth = min(depth, k + SLICES)
    for end in range(k, depth):
        z = offset[0] + (at[0] + end) * matrix[0, 0]
        if not (kept and (0 <= z < last or (z == last and taps[0] == 1))):
            return max(end, k + 1)
    return depth


@row_kernel
def coordinates_of(
    begun, step, column, start, width, taps, one_slice, begin, end, floors, along_z, weights, places
):  # fmt: skip
    """The weights and positions of columns from ``column`` on, as voxels ``begin:end`` of a tile."""
    half = 0.5 if taps[0] + taps[1] + taps[2] == 3 else 0.0
    y0, x0 = np.float64(start[1]), np.float64(start[2])
    wy, wx = weights[0, begin:end], weights[1, begin:end]
    in_slice(begun, step, column, half, y0, x0, np.float64(width), wy, wx, places[begin:end])
    if taps[1] == 1:
        wy[:] = 1.0
    if taps[2] == 1:
        wx[:] = 1.0
    if not one_slice:
        wz = along_z[0, begin:end]
        along_axis(begun[0], step[0], column, half, floors[0, begin:end], wz)
        if taps[0] == 1:
            wz[:] = 1.0


@row_kernel
def affine_inner(voxels, width, firsts, z0, z, one_slice, taps, row, scratch):
    """Voxels of `affine` with all taps inside, from `coordinates_of`; ``z`` is that of ``one_slice``."""
    # Each loop does one thing for all voxels, so LLVM vectorizes all of them except those that pick voxels.
    # Of ``floors``, only those along z are used. The rest is for weights of the voxels after coordinates.
    (places, weights, floors, along_z, in_ring, sums, picked), n = scratch, row.size
    nearest = taps[0] + taps[1] + taps[2] == 3
    squares = taps[1] == taps[2] == 2
    at, wy, wx, wz, total = places[:n], weights[0], weights[1], along_z[0], sums[:n]
    first = np.int64(np.floor(z + 0.5 if nearest else z) - z0) if one_slice else 0
    if one_slice and nearest:
        pick(voxels, at, firsts[first], row)
        return
    if one_slice and squares and taps[0] == 1:
        pick_squares(voxels, at, firsts[first], width, picked)
        convert_squares(picked, wy, wx, row)
        return
    if one_slice:
        wz[:n] = 1.0 - (z - np.floor(z)) if taps[0] == 2 else 1.0
    total[:] = 0.0
    for a in range(taps[0]):
        offset = 0
        if one_slice:
            offset = firsts[first + a]
        else:
            at = in_ring[:n]
            places_in_slices(floors[0], z0 - a, firsts, places, at)
        if nearest:
            pick(voxels, at, offset, row)
            return
        if a == 1:
            wz = along_z[1]
            complements(along_z[0], wz[:n])
        if squares:
            pick_squares(voxels, at, offset, width, picked)
            add_squares(picked, wz, wy, wx, total)
            continue
        for b in range(taps[1]):
            for c in range(taps[2]):
                y, x = wy, wx
                if b == 1:
                    y = floors[1]
                    complements(wy, y[:n])
                if c == 1:
                    x = floors[2]
                    complements(wx, x[:n])
                pick(voxels, at, offset + b * width + c, picked[:n])
                add_weighted(picked, wz, y, x, total)
    convert(total, row)


@row_kernel
def affine_tile(
    out, k, end, top, rows, x, limits, voxels, width, firsts, begun, step, position, scratch
):  # fmt: skip
    """The columns of a tile with all taps inside, in slices with the same coordinates along y and x."""
    start, at, matrix, offset, taps = position
    places, weights, floors, along_z = scratch[:4]
    computed, n = scratch[-1], 0
    one_slice = matrix[0, 1] == matrix[0, 2] == 0
    for r in range(rows):
        x0, x1 = max(x, limits[r, 1]), min(x + TILE_COLUMNS, limits[r, 2])
        if x0 < x1:
            begin_row(begun, offset, at, matrix, k, top + r)
            coordinates_of(
                begun, step, np.float64(at[2] + x0), start, width, taps, one_slice, n, n + x1 - x0,
                floors, along_z, weights, places,
            )  # fmt: skip
            n += x1 - x0
    if n == 0:
        return
    for s in range(k, end):
        begin_row(begun, offset, at, matrix, s, top)
        affine_inner(
            voxels, width, firsts, start[0], begun[0], one_slice, taps, computed[:n], scratch[:-1]
        )
        begin = 0
        for r in range(rows):
            x0, x1 = max(x, limits[r, 1]), min(x + TILE_COLUMNS, limits[r, 2])
            if x0 < x1:
                row = out.lines[out.firsts[s] + top + r, out.left + x0 : out.left + x1]
                copy_row(computed[begin : begin + x1 - x0], row)
                begin += x1 - x0


@row_kernel
def affine_edges(
    src, row, limits, begun, start, shape, at, matrix, taps, mode, cval, outside, first, weight
):  # fmt: skip
    """The other columns of a row."""
    nearest = taps[0] + taps[1] + taps[2] == 3
    left, x0, x1, right = limits[0], limits[1], limits[2], limits[3]
    row[:left] = outside
    row[right:] = outside
    for rest in range(left, right - (x1 - x0)):
        x = rest if rest < x0 else rest + x1 - x0
        is_outside, is_inner = False, True
        for i in range(3):
            c = place(begun[i] + (at[2] + x) * matrix[i, 2], shape[i], mode)
            if c <= -1.0 and mode == 3:
                is_outside = True
                break
            first[i] = np.int64(np.floor(c + 0.5 if nearest else c))
            is_inner &= 0 <= first[i] <= shape[i] - taps[i]
            if taps[i] == 2:
                weight[i, 0] = 1.0 - (c - first[i])
                weight[i, 1] = 1.0 - weight[i, 0]
        if is_outside:
            row[x] = outside
            continue
        total = 0.0
        for ta in range(taps[0]):
            for tb in range(taps[1]):
                for tc in range(taps[2]):
                    u, v, w = first[0] + ta, first[1] + tb, first[2] + tc
                    if not is_inner:
                        u, v, w = (
                            tap(u, shape[0], mode),
                            tap(v, shape[1], mode),
                            tap(w, shape[2], mode),
                        )
                    if is_inner or (u >= 0 and v >= 0 and w >= 0):
                        line = src.firsts[u - start[0]] + v - start[1]
                        value = src.lines[line, src.left + w - start[2]]
                        if nearest:
                            row[x] = value
                        else:
                            each = weight[0, ta], weight[1, tb], weight[2, tc]
                            total += np.float64(value) * each[0] * each[1] * each[2]
                    elif nearest:
                        row[x] = outside
                    else:
                        each = weight[0, ta], weight[1, tb], weight[2, tc]
                        total += np.float64(cval) * each[0] * each[1] * each[2]
        if not nearest:
            row[x] = away(total, row.dtype)
    if not nearest:
        one_nan(row)


def _scratch(rows, cols, depth, dtype, start, shape, *parameters):
    small = ((3,), np.int64), ((3, 2), np.float64), ((3,), np.float64), ((3,), np.float64)
    ints, n = ((shape[0],), (TILE_ROWS, 4)), TILE_ROWS * TILE_COLUMNS
    of_tile = ((n,), np.int64), ((2, n), np.float64), ((3, n), np.float64), ((2, n), np.float64)
    more = ((n,), np.int64), ((n,), np.float64), ((4 * n,), dtype), ((n,), dtype)
    return *small, *((n, np.int64) for n in ints), *of_tile, *more


@needs(_scratch)
@kernel
def affine(src, out, y0, y1, nx, start, shape, at, matrix, offset, taps, mode, cval, scratch):
    """Voxels at ``matrix @ position + offset``, float64."""
    # ``start`` is the position of the input's first voxel in its volume of ``shape``, and ``at`` the position
    # of the result's first voxel in its own. ``taps``, int64 (3,), is 1 or 2 voxels along each axis; all 1
    # for the nearest. ``mode`` is one of `MODES`.
    outside = away(cval, out.lines.dtype)
    first, weight, begun, step, firsts, limits = scratch[:6]
    weight[:] = 1.0
    for i in range(3):
        step[i] = matrix[i, 2]
    # Where each slice begins in the flat ring.
    voxels, width = src.lines.reshape(src.lines.size), src.lines.shape[1]
    for u in range(src.firsts.size):
        firsts[u] = src.firsts[u] * width + src.left
    position = start, at, matrix, offset, taps
    end = 0
    while end < out.firsts.size:
        k, end = end, alike(end, out.firsts.size, at, matrix, offset, shape, taps)
        for top in range(y0, y1, TILE_ROWS):
            rows = min(TILE_ROWS, y1 - top)
            for r in range(rows):
                begin_row(begun, offset, at, matrix, k, top + r)
                x0, x1 = inner_columns(begun, step, at[2], nx, shape, taps)
                left, right = 0, nx
                if mode == 3:
                    left, right = inner_columns(begun, step, at[2], nx, shape, (1, 1, 1))
                    x0, x1 = min(max(x0, left), right), min(max(x1, left), right)
                limits[r, 0], limits[r, 1], limits[r, 2], limits[r, 3] = left, x0, x1, right
            for x in range(0, nx, TILE_COLUMNS):
                affine_tile(
                    out, k, end, top, rows, x, limits, voxels, width, firsts, begun, step, position,
                    scratch[6:],
                )  # fmt: skip
            for s in range(k, end):
                for r in range(rows):
                    begin_row(begun, offset, at, matrix, s, top + r)
                    affine_edges(
                        src, out.lines[out.firsts[s] + top + r, out.left : out.left + nx], limits[r],
                        begun, start, shape, at, matrix, taps, mode, cval, outside, first, weight,
                    )  # fmt: skip
