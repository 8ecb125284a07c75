"""Resampling: nearest neighbours, or linear interpolation, as in scipy.ndimage.

`place` handles positions outside of the volume, and their rounding, for all functions.
"""

import numpy as np
from numba import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.jit import kernel, row_kernel

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


def away(value, dtype):
    """Convert a float64 to ``dtype``; integers round half away from zero and saturate."""
    raise NotImplementedError("only inside compiled code")


@overload(away)
def _away(value, dtype):
    target = dtype.dtype
    if isinstance(target, types.Boolean):
        return lambda value, dtype: value >= 0.5
    if not isinstance(target, types.Integer):
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
def taps_along(start, stop, before, scale, half, n, taps, mode):
    """Voxels and weights for positions ``start`` to ``stop`` of the result along an axis.

    Position v is at ``(v + before + half) * scale - half`` of the input, which has extent ``n``. ``taps`` is
    1 for the nearest voxel, 2 for linear interpolation. ``mode`` is one of `MODES`. Returns ``index``, int64,
    and ``weight``, float64, both (stop - start, taps).
    """
    index = np.empty((stop - start, taps), np.int64)
    weight = np.ones((stop - start, taps), np.float64)
    for k in range(stop - start):
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
    return index, weight


@kernel
def gather(src, out, y0, y1, nx, iz, iy, ix, cval):
    """Copy voxels.

    ``iz``, ``iy``, ``ix``, int64: the slice, row and column of the input for each slice, row from ``y0`` and
    column of the result; a negative index selects the constant ``cval``, a scalar of the dtype.
    """
    for k in range(iz.size):
        for y in range(y0, y1):
            row, at = out.lines[out.firsts[k] + y, out.left : out.left + nx], iy[y - y0]
            if iz[k] < 0 or at < 0:
                row[:] = cval
                continue
            line = src.lines[src.firsts[iz[k]] + at, src.left :]
            for x in range(nx):
                row[x] = line[ix[x]] if ix[x] >= 0 else cval


@kernel
def interpolate(src, out, y0, y1, nx, iz, wz, iy, wy, ix, wx, cval):
    """Weighted means of voxels: like `gather`, with several indices and weights per position."""
    total = np.empty(nx, np.float64)
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
                            v = cval
                            if inside and (all_there or ix[x, c] >= 0):
                                v = np.float64(line[ix[x, c]])
                            total[x] += v * z * y * wx[x, c]
            for x in range(nx):
                row[x] = outside if ix[x, 0] == ALL else away(total[x], row.dtype)
            one_nan(row)


@kernel
def inner_columns(begun, step, at, nx, shape, taps):
    """The range of columns with all taps inside the volume.

    Along a row, the coordinate along axis i is ``begun[i] + (at + x) * step[i]``. It is monotonic in x also
    when it is rounded, so a binary search of this expression finds the exact ends.
    """
    low, high = 0, nx
    for i in range(3):
        # A coordinate c needs c >= 0 and c <= shape - 1, or c < shape - 1 if another voxel follows.
        last = shape[i] - 1
        rising = step[i] >= 0
        a, b = low, high
        while a < b:  # the first column that is not before the volume
            middle = (a + b) // 2
            c = begun[i] + (at + middle) * step[i]
            before = c < 0 if rising else (c >= last if taps[i] == 2 else c > last)
            if before or c != c:
                a = middle + 1
            else:
                b = middle
        low = a
        b = high
        while a < b:  # the first column after the volume
            middle = (a + b) // 2
            c = begun[i] + (at + middle) * step[i]
            inside = (c < last if taps[i] == 2 else c <= last) if rising else c >= 0
            if inside:
                a = middle + 1
            else:
                b = middle
        high = a
    return low, high


@row_kernel
def nearest_inner(lines, firsts, row, x0, x1, begun, step, at, z0):
    """The nearest voxels of columns with all taps inside.

    ``firsts``: for each slice from ``z0`` on, the position in the flat ``lines`` of row 0 and column 0.
    """
    width = lines.shape[1]
    voxels = lines.reshape(lines.size)
    for x in range(x0, x1):
        u = np.int64(np.floor(begun[0] + (at + x) * step[0] + 0.5))
        v = np.int64(np.floor(begun[1] + (at + x) * step[1] + 0.5))
        w = np.int64(np.floor(begun[2] + (at + x) * step[2] + 0.5))
        row[x] = voxels[np.uint64(firsts[np.uint64(u - z0)] + v * width + w)]


@row_kernel
def bilinear_inner(lines, firsts, row, x0, x1, begun, step, at, z0):
    """Means of 2 x 2 voxels of one slice, in the order of `affine`."""
    width = lines.shape[1]
    voxels = lines.reshape(lines.size)
    for x in range(x0, x1):
        u = np.int64(np.floor(begun[0] + (at + x) * step[0]))
        cy, cx = begun[1] + (at + x) * step[1], begun[2] + (at + x) * step[2]
        v, w = np.int64(np.floor(cy)), np.int64(np.floor(cx))
        y0, w0 = 1.0 - (cy - v), 1.0 - (cx - w)
        y1, w1 = 1.0 - y0, 1.0 - w0
        first = np.uint64(firsts[np.uint64(u - z0)] + v * width + w)
        second = first + np.uint64(width)
        total = 0.0 + np.float64(voxels[first]) * y0 * w0
        total += np.float64(voxels[first + np.uint64(1)]) * y0 * w1
        total += np.float64(voxels[second]) * y1 * w0
        total += np.float64(voxels[second + np.uint64(1)]) * y1 * w1
        row[x] = away(total, row.dtype)


@row_kernel
def linear_inner(lines, firsts, row, x0, x1, begun, step, at, z0, taps):
    """Means of 2 voxels along the axes with 2 ``taps``, in the order of `affine`."""
    width = lines.shape[1]
    voxels = lines.reshape(lines.size)
    for x in range(x0, x1):
        cz = begun[0] + (at + x) * step[0]
        cy = begun[1] + (at + x) * step[1]
        cx = begun[2] + (at + x) * step[2]
        u, v, w = np.int64(np.floor(cz)), np.int64(np.floor(cy)), np.int64(np.floor(cx))
        wz = 1.0 - (cz - u) if taps[0] == 2 else 1.0
        y0 = 1.0 - (cy - v) if taps[1] == 2 else 1.0
        w0 = 1.0 - (cx - w) if taps[2] == 2 else 1.0
        y1, w1 = 1.0 - y0, 1.0 - w0
        total = 0.0
        for ta in range(taps[0]):
            first = np.uint64(firsts[np.uint64(u + ta - z0)] + v * width + w)
            total += np.float64(voxels[first]) * wz * y0 * w0
            if taps[2] == 2:
                total += np.float64(voxels[first + np.uint64(1)]) * wz * y0 * w1
            if taps[1] == 2:
                second = first + np.uint64(width)
                total += np.float64(voxels[second]) * wz * y1 * w0
                if taps[2] == 2:
                    total += np.float64(voxels[second + np.uint64(1)]) * wz * y1 * w1
            wz = 1.0 - wz
        row[x] = away(total, row.dtype)


@kernel
def affine(src, out, y0, y1, nx, start, shape, at, matrix, offset, taps, mode, cval):
    """Voxels at ``matrix @ position + offset``.

    ``start`` is the position of the input's first voxel in its volume of ``shape``, and ``at`` the position
    of the result's first voxel in its own. ``matrix`` and ``offset`` are float64 (3, 3) and (3,). ``taps``,
    int64 (3,), is 1 or 2 voxels along each axis; all 1 for the nearest. ``mode`` is one of `MODES`.
    """
    nearest = taps.max() == 1
    outside = away(cval, out.lines.dtype)
    first, weight = np.empty(3, np.int64), np.ones((3, 2), np.float64)
    begun, step = np.empty(3, np.float64), np.empty(3, np.float64)
    for i in range(3):
        step[i] = matrix[i, 2]
    in_plane = taps[0] == 1 and taps[1] == 2 and taps[2] == 2
    # Where the volume's row 0 and column 0 would be in the flat ring, for each slice.
    firsts = np.empty(src.firsts.size, np.int64)
    for u in range(src.firsts.size):
        firsts[u] = (src.firsts[u] - start[1]) * src.lines.shape[1] + src.left - start[2]
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for i in range(3):
                begun[i] = offset[i] + (at[0] + k) * matrix[i, 0] + (at[1] + y) * matrix[i, 1]
            x0, x1 = inner_columns(begun, step, at[2], nx, shape, taps)
            if nearest:
                nearest_inner(src.lines, firsts, row, x0, x1, begun, step, at[2], start[0])
            elif in_plane:
                bilinear_inner(src.lines, firsts, row, x0, x1, begun, step, at[2], start[0])
            else:
                linear_inner(src.lines, firsts, row, x0, x1, begun, step, at[2], start[0], taps)
            for rest in range(nx - (x1 - x0)):
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
                                total += cval * weight[0, ta] * weight[1, tb] * weight[2, tc]
                if not nearest:
                    row[x] = away(total, row.dtype)
            if not nearest:
                one_nan(row)
