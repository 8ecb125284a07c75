"""Interpolation by B-splines of orders 2 to 5, as in scipy.ndimage.

Positions outside of the volume are handled as in `beam_volumes.kernels.geometry.resample`.
"""

import numpy as np

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.geometry.resample import ALL, away, place, tap
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import needs

#: The largest number of voxels along an axis.
MAX_TAPS = 6


@row_kernel
def spline_weights(x, order, weights):
    """Weights of the ``order + 1`` voxels around a position, ``x`` after the voxel ``order // 2``."""
    # ``x`` is from 0 to 1 for odd orders, and from -0.5 to 0.5 for even ones. The last weight is 1 minus the
    # others.
    y, z = x, 1.0 - x
    if order == 2:
        y = 0.5 - x
        weights[0] = 0.5 * y * y
        weights[1] = 0.75 - x * x
    elif order == 3:
        weights[0] = z * z * z / 6.0
        weights[1] = (y * y * (y - 2.0) * 3.0 + 4.0) / 6.0
        weights[2] = (z * z * (z - 2.0) * 3.0 + 4.0) / 6.0
    elif order == 4:
        t = x * x
        weights[2] = t * (t * 0.25 - 0.625) + 115.0 / 192.0
        y = 1.0 + x
        weights[1] = y * (y * (y * (5.0 - y) / 6.0 - 1.25) + 5.0 / 24.0) + 55.0 / 96.0
        weights[3] = z * (z * (z * (5.0 - z) / 6.0 - 1.25) + 5.0 / 24.0) + 55.0 / 96.0
        y = 0.5 - x
        t = y * y
        weights[0] = t * t / 24.0
    else:
        t = y * y
        weights[2] = t * (t * (0.25 - y / 12.0) - 0.5) + 0.55
        t = z * z
        weights[3] = t * (t * (0.25 - z / 12.0) - 0.5) + 0.55
        weights[0] = z * t * t / 120.0
        y += 1.0
        weights[1] = y * (y * (y * (y * (y / 24.0 - 0.375) + 1.25) - 1.75) + 0.625) + 0.425
        z += 1.0
        weights[4] = z * (z * (z * (z * (z / 24.0 - 0.375) + 1.25) - 1.75) + 0.625) + 0.425
    last = 1.0
    for t in range(order):
        last -= weights[t]
    weights[order] = last


@kernel
def spline_taps_along(start, before, scale, half, lead, n, mode, index, weight):
    """`taps_along` for splines: a column for each of the ``order + 1`` voxels.

    Position v is at ``(v + before + half) * scale - half + lead`` of the input.
    """
    order = index.shape[1] - 1
    weight[:] = 1.0
    for k in range(len(index)):
        c = place(((start + k) + before + half) * scale - half + lead, n, mode)
        if c <= -1.0 and mode == 3:
            index[k, :] = ALL
            continue
        nearest = np.floor(c if order % 2 else c + 0.5)
        spline_weights(c - nearest, order, weight[k])
        for t in range(order + 1):
            index[k, t] = tap(np.int64(nearest) - order // 2 + t, n, mode)


def _row_of_input(rows, cols, depth, dtype, width):
    return (((width,), np.float64),)


@needs(_row_of_input)
@kernel
def interpolate_spline(src, out, y0, y1, nx, iz, wz, iy, wy, ix, wx, cval, scratch):
    """Weighted sums of voxels along z and y, and then along x. The scratch is a row of the input.

    `beam_volumes.kernels.geometry.resample.interpolate` has the same arguments.
    """
    outside, left, right = away(cval, out.lines.dtype), src.lines.shape[1], 0
    constant = np.float64(cval)
    for x in range(nx):
        for c in range(ix.shape[1]):
            if ix[x, c] >= 0:
                left, right = min(left, ix[x, c]), max(right, ix[x, c] + 1)
    sums = scratch[0][: max(right - left, 0)]
    for k in range(len(iz)):
        for r in range(y1 - y0):
            row = out.lines[out.firsts[k] + y0 + r, out.left : out.left + nx]
            if iz[k, 0] == ALL or iy[r, 0] == ALL:
                row[:] = outside
                continue
            sums[:] = 0.0
            total = 0.0
            for a in range(iz.shape[1]):
                for b in range(iy.shape[1]):
                    weight = wz[k, a] * wy[r, b]
                    total += weight
                    if iz[k, a] < 0 or iy[r, b] < 0:
                        _add_constant(constant * weight, sums)
                        continue
                    first = src.left + left
                    line = src.lines[src.firsts[iz[k, a]] + iy[r, b], first : first + sums.size]
                    _add(line, weight, sums)
            _sum_along(sums, left, ix, wx, constant * total, outside, row)
            one_nan(row)


@row_kernel
def _add(line, weight, sums):
    for x in range(sums.size):
        sums[x] += np.float64(line[x]) * weight


@row_kernel
def _add_constant(value, sums):
    for x in range(sums.size):
        sums[x] += value


@row_kernel
def _sum_along(sums, left, ix, wx, missing, outside, row):
    for x in range(row.size):
        if ix[x, 0] == ALL:
            row[x] = outside
            continue
        total = 0.0
        for c in range(ix.shape[1]):
            value = sums[ix[x, c] - left] if ix[x, c] >= 0 else missing
            total += value * wx[x, c]
        row[x] = away(total, row.dtype)


def scratch_around(slices):
    """Weights and indices of voxels around a position, numbers of each axis, and starts of slices."""
    around = ((3, MAX_TAPS), np.float64), ((3, MAX_TAPS), np.int64)
    return *around, *[((3,), np.float64)] * 2, *[((3,), np.int64)] * 2, ((slices,), np.int64)


def _scratch(rows, cols, depth, dtype, start, shape, *parameters):
    return scratch_around(shape[0])


@needs(_scratch)
@kernel
def affine_spline(
    src, out, y0, y1, nx, start, shape, at, matrix, offset, taps, mode, cval, scratch
):
    """Splines at ``matrix @ position + offset``; ``taps`` is ``order + 1``, or 1 along whole coordinates.

    `beam_volumes.kernels.geometry.resample.affine` has the same other arguments.
    """
    outside = away(cval, out.lines.dtype)
    weight, index, begun, step, size, _, firsts = scratch
    weight[:] = 1.0
    for i in range(3):
        step[i], size[i] = matrix[i, 2], shape[i]
    # Where the volume's row 0 and column 0 would be in the flat ring, for each slice.
    width = src.lines.shape[1]
    for u in range(src.firsts.size):
        firsts[u] = (src.firsts[u] - start[1]) * width + src.left - start[2]
    voxels = src.lines.reshape(src.lines.size)
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for i in range(3):
                begun[i] = offset[i] + (at[0] + k) * matrix[i, 0] + (at[1] + y) * matrix[i, 1]
            affine_row(
                voxels, firsts, width, start[0], row, begun, step, at[2], size, taps, mode, cval, outside,
                weight, index,
            )  # fmt: skip
            one_nan(row)


@row_kernel
def affine_row(
    voxels, firsts, width, z0, row, begun, step, at, size, taps, mode, cval, outside, weight, index
):  # fmt: skip
    """One row of `affine_spline`; ``firsts`` is for each slice from ``z0`` on."""
    for x in range(row.size):
        is_there, is_inside = True, True
        for i in range(3):
            n, count = size[i], taps[i]
            c = begun[i] + (at + x) * step[i]
            if c < 0 or c > n - 1:
                c = place(c, n, mode)
                if c <= -1.0 and mode == 3:
                    is_there = False
                    break
            nearest = np.floor(c if count % 2 == 0 else c + 0.5)
            if count > 1:
                spline_weights(c - nearest, count - 1, weight[i])
            first = np.int64(nearest) - (count - 1) // 2
            index[i, 0] = first
            if first < 0 or first + count > n:
                is_inside = False
                for t in range(count):
                    index[i, t] = tap(first + t, n, mode)
            else:
                for t in range(1, count):
                    index[i, t] = first + t
        if not is_there:
            row[x] = outside
            continue
        total = 0.0
        for a in range(taps[0]):
            of_slice = 0.0
            u = index[0, a]
            for b in range(taps[1]):
                of_line = 0.0
                v = index[1, b]
                if is_inside:
                    line = np.uint64(firsts[u - z0] + v * width + index[2, 0])
                    for c in range(taps[2]):
                        of_line += np.float64(voxels[line + np.uint64(c)]) * weight[2, c]
                else:
                    for c in range(taps[2]):
                        w = index[2, c]
                        value = np.float64(cval)
                        if u >= 0 and v >= 0 and w >= 0:
                            value = np.float64(voxels[firsts[u - z0] + v * width + w])
                        of_line += value * weight[2, c]
                of_slice += of_line * weight[1, b]
            total += of_slice * weight[0, a]
        row[x] = away(total, row.dtype)
