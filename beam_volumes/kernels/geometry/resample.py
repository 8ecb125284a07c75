"""Resampling: nearest neighbours, or linear interpolation, as in scipy.ndimage.

`place` handles positions outside of the volume, and their rounding, for all functions.
"""

import numpy as np
from numba import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.jit import kernel, row_kernel
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
#: The number of columns that `affine` computes at a time.
BLOCK = 256


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
def floors_of(begun, step, column, half, floors):
    """The floors of coordinates along an axis, from ``column`` on."""
    for x in range(floors.size):
        floors[x] = np.floor(begun + (column + np.float64(np.int32(x))) * step + half)


@row_kernel
def weights_of(begun, step, column, first, second):
    """The weights of the voxels before and after these coordinates."""
    for x in range(first.size):
        c = begun + (column + np.float64(np.int32(x))) * step
        first[x] = 1.0 - (c - np.floor(c))
        second[x] = 1.0 - first[x]


@row_kernel
def places_in_slice(rows, columns, y0, x0, width, places):
    """Positions in a flat slice that begins at row ``y0`` and column ``x0``."""
    for x in range(places.size):
        places[x] = np.int64((rows[x] - y0) * width + (columns[x] - x0))


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
    """Pick 2 x 2 voxels of a slice."""
    a, b, c, d = picked[0], picked[1], picked[2], picked[3]
    for x in range(places.size):
        upper = np.uint64(places[x] + offset)
        lower = upper + np.uint64(width)
        a[x], b[x] = voxels[upper], voxels[upper + np.uint64(1)]
        c[x], d[x] = voxels[lower], voxels[lower + np.uint64(1)]


@row_kernel
def add_weighted(picked, wz, wy, wx, total):
    for x in range(total.size):
        total[x] += np.float64(picked[x]) * wz[x] * wy[x] * wx[x]


@row_kernel
def add_squares(picked, wz, wy, wx, total):
    """`add_weighted` for the voxels of `pick_squares`, in this order; ``wy`` and ``wx`` are for the first."""
    a, b, c, d = picked[0], picked[1], picked[2], picked[3]
    for x in range(total.size):
        y1, x1 = 1.0 - wy[x], 1.0 - wx[x]
        added = total[x] + np.float64(a[x]) * wz[x] * wy[x] * wx[x]
        added += np.float64(b[x]) * wz[x] * wy[x] * x1
        added += np.float64(c[x]) * wz[x] * y1 * wx[x]
        total[x] = added + np.float64(d[x]) * wz[x] * y1 * x1


@row_kernel
def convert(total, row):
    for x in range(row.size):
        row[x] = away(total[x], row.dtype)


@row_kernel
def affine_inner(voxels, width, firsts, start, row, column, begun, step, taps, scratch):
    """Columns of `affine` with all taps inside, at most `BLOCK` from ``column`` on.

    Each loop does one thing for all columns, so LLVM vectorizes all of them except those that pick voxels.
    """
    (floors, weights, sums, places, picked), nx = scratch, row.size
    nearest = taps[0] + taps[1] + taps[2] == 3
    half = 0.5 if nearest else 0.0
    z0, y0, x0 = np.float64(start[0]), np.float64(start[1]), np.float64(start[2])
    one_slice = step[0] == 0
    for i in range(3):
        count = 1 if one_slice and i == 0 else nx
        floors_of(begun[i], step[i], column, half, floors[i, :count])
        if taps[i] == 2:
            weights_of(begun[i], step[i], column, weights[i, 0, :nx], weights[i, 1, :nx])
        else:
            weights[i, 0, :nx] = 1.0
    in_slice, total = places[0, :nx], sums[:nx]
    places_in_slice(floors[1], floors[2], y0, x0, np.float64(width), in_slice)
    total[:] = 0.0
    for a in range(taps[0]):
        at, offset = in_slice, 0
        if one_slice:
            offset = firsts[np.int64(floors[0, 0] - z0) + a]
        else:
            at = places[1, :nx]
            places_in_slices(floors[0], z0 - a, firsts, in_slice, at)
        if nearest:
            pick(voxels, at, offset, row)
            return
        wz = weights[0, a]
        if taps[1] == 2 and taps[2] == 2:
            pick_squares(voxels, at, offset, width, picked)
            add_squares(picked, wz, weights[1, 0], weights[2, 0], total)
            continue
        for b in range(taps[1]):
            for c in range(taps[2]):
                pick(voxels, at, offset + b * width + c, picked[0, :nx])
                add_weighted(picked[0], wz, weights[1, b], weights[2, c], total)
    convert(total, row)


def _scratch(rows, cols, depth, dtype, start, shape, *parameters):
    small = ((3,), np.int64), ((3, 2), np.float64), ((3,), np.float64), ((3,), np.float64)
    floats = (((*n, BLOCK), np.float64) for n in ((3,), (3, 2), ()))
    return *small, ((shape[0],), np.int64), *floats, ((2, BLOCK), np.int64), ((4, BLOCK), dtype)


@needs(_scratch)
@kernel
def affine(src, out, y0, y1, nx, start, shape, at, matrix, offset, taps, mode, cval, scratch):
    """Voxels at ``matrix @ position + offset``, float64."""
    # ``start`` is the position of the input's first voxel in its volume of ``shape``, and ``at`` the position
    # of the result's first voxel in its own. ``taps``, int64 (3,), is 1 or 2 voxels along each axis; all 1
    # for the nearest. ``mode`` is one of `MODES`.
    nearest = taps[0] + taps[1] + taps[2] == 3
    outside = away(cval, out.lines.dtype)
    first, weight, begun, step, firsts = scratch[:5]
    weight[:] = 1.0
    for i in range(3):
        step[i] = matrix[i, 2]
    # Where each slice begins in the flat ring.
    voxels = src.lines.reshape(src.lines.size)
    for u in range(src.firsts.size):
        firsts[u] = src.firsts[u] * src.lines.shape[1] + src.left
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for i in range(3):
                begun[i] = offset[i] + (at[0] + k) * matrix[i, 0] + (at[1] + y) * matrix[i, 1]
            x0, x1 = inner_columns(begun, step, at[2], nx, shape, taps)
            left, right = 0, nx
            if mode == 3:
                left, right = inner_columns(begun, step, at[2], nx, shape, (1, 1, 1))
                x0, x1 = min(max(x0, left), right), min(max(x1, left), right)
                row[:left] = outside
                row[right:] = outside
            for x in range(x0, x1, BLOCK):
                affine_inner(
                    voxels, src.lines.shape[1], firsts, start, row[x : min(x + BLOCK, x1)],
                    np.float64(at[2] + x), begun, step, taps, scratch[5:],
                )  # fmt: skip
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
