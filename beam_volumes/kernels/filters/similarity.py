"""Means weighted by similarity: the bilateral filter, and non-local means."""

import math

import numpy as np

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import as_bytes, has_nan
from beam_volumes.kernels.scratch import needs

#: Weights below ``exp(-CUTOFF)`` of non-local means are 0, as in scikit-image.
CUTOFF = 5.0
#: Extent of the blocks in which non-local means are computed, along z, y and x.
BLOCK = (16, 32, 64)

_LOG2_E = np.float32(1.4426950408889634)
_ROUND = np.float32(12582912.0)  # 1.5 * 2**23: adding it moves the nearest integer to the low bits
_LOWEST = np.float32(-126.0)
_T1, _T2, _T3 = np.float32(6.93147181e-1), np.float32(2.40226507e-1), np.float32(5.55041087e-2)
_T4, _T5, _T6 = np.float32(9.61812911e-3), np.float32(1.33335581e-3), np.float32(1.54035304e-4)


@row_kernel
def exp_of_minus(t):
    """``exp(-t)`` of a float32 from 0, within 1e-7; 2**-126 or more, also for NaN. It vectorizes."""
    power = -t * _LOG2_E
    power = power if power > _LOWEST else _LOWEST
    shifted = power + _ROUND
    f = power - (shifted - _ROUND)
    y = _T6 * f + _T5
    y = y * f + _T4
    y = y * f + _T3
    y = y * f + _T2
    y = y * f + _T1
    y = y * f + np.float32(1.0)
    n = np.float32(shifted).view(np.int32) - np.float32(_ROUND).view(np.int32)
    return y * np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)


def _four_rows(rows, cols, depth, dtype, offsets, *parameters):
    return *[((cols,), dtype)] * 3, ((cols + int(offsets[:, 2].max()),), dtype)


@needs(_four_rows)
@kernel
def bilateral(src, out, y0, y1, nx, offsets, weights, own, scale, scratch):
    """The mean of a footprint, weighted by ``weights * exp(-scale * difference**2)``; NaN if it contains one.

    ``offsets``, int64 (n, 3), are tz, ty, tx >= 0, and ``own`` the voxel's own one.
    """
    # Sums are in the type of ``scale``, float32 or float64; the weights are float32.
    _bilateral(as_bytes(src), out, y0, y1, offsets, weights, own, scale, *scratch)


@row_kernel
def _bilateral(src, out, y0, y1, offsets, weights, own, scale, centre, total, weight, row):
    lines, firsts, left = src
    n = centre.size
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            line = lines[firsts[k + own[0]] + y + own[1], left + own[2] :]
            for x in range(n):
                centre[x] = line[x]
                total[x] = 0
                weight[x] = 0
            for i in range(len(offsets)):
                tz, ty, tx = offsets[i, 0], offsets[i, 1], offsets[i, 2]
                if i == 0 or offsets[i - 1, 0] != tz or offsets[i - 1, 1] != ty:
                    line = lines[firsts[k + tz] + y + ty, left:]
                    for x in range(row.size):
                        row[x] = line[x]
                part, w = row[tx : tx + n], weights[i]
                for x in range(n):
                    v = part[x]
                    d = v - centre[x]
                    similar = exp_of_minus(np.float32(d * d * scale)) * w
                    total[x] += similar * v
                    weight[x] += similar
            result = out.lines[out.firsts[k] + y, out.left : out.left + n]
            for x in range(n):
                result[x] = total[x] / weight[x]
            if has_nan(result):
                one_nan(result)


@row_kernel
def _add_shifted(src, step, count, out):
    """``out[x] = sum of src[x + i * step]`` for ``count`` numbers, in a fixed order."""
    for x in range(out.size):
        out[x] = src[x]
    i = 1
    while i + 1 < count:
        a, b = src[i * step : i * step + out.size], src[(i + 1) * step : (i + 1) * step + out.size]
        for x in range(out.size):
            out[x] += a[x] + b[x]
        i += 2
    if i < count:
        a = src[i * step : i * step + out.size]
        for x in range(out.size):
            out[x] += a[x]


@row_kernel
def _weigh(distance, values, less, scale, total, weight):
    """Add the weights of a row of distances, and the weighted values."""
    zero = total.dtype.type(0)
    for x in range(total.size):
        d = distance[x] - less
        t = np.float32((d if d > zero else zero * d) * scale)  # 0 * NaN is NaN
        w = exp_of_minus(t)
        w = w if t == t else t
        far = t > np.float32(CUTOFF)
        total[x] += zero if far else w * values[x]
        weight[x] += zero if far else total.dtype.type(w)


@row_kernel
def _block(
    voxels, shape, pitch, patch, reach, less, scale, squares, sums, sums_y, distance, total, weight
):
    """Non-local means of a block. A slice and a row of ``voxels``, with the halo, have ``pitch`` numbers."""
    (nz, ny, nx), (sz, sy, sx), (dz, dy, dx) = shape, patch, reach
    step_z, step_y = pitch
    wide = nx + sx - 1
    high = ny + sy - 1
    for i in range(nz * ny * nx):
        total[i] = 0
        weight[i] = 0
    for tz in range(-dz, dz + 1):
        for ty in range(-dy, dy + 1):
            for tx in range(-dx, dx + 1):
                shift = tz * step_z + ty * step_y + tx
                for z in range(nz + sz - 1):
                    for y in range(high):
                        at = (z + dz) * step_z + (y + dy) * step_y + dx
                        a, b = voxels[at : at + wide], voxels[at + shift : at + shift + wide]
                        to = (z * high + y) * wide
                        square = squares[to : to + wide]
                        for x in range(wide):
                            square[x] = (a[x] - b[x]) * (a[x] - b[x])
                for z in range(nz):
                    plane = high * wide
                    _add_shifted(squares[z * plane :], plane, sz, sums[:plane])
                    _add_shifted(sums, wide, sy, sums_y[: ny * wide])
                    for y in range(ny):
                        _add_shifted(sums_y[y * wide :], 1, sx, distance[:nx])
                        at = (z + dz + sz // 2 + tz) * step_z + (y + dy + sy // 2 + ty) * step_y
                        at += dx + sx // 2 + tx
                        to = (z * ny + y) * nx
                        _weigh(
                            distance[:nx], voxels[at : at + nx], less, scale,
                            total[to : to + nx], weight[to : to + nx],
                        )  # fmt: skip


@row_kernel
def _copy_block(src, k, y, x, shape, out):
    lines, firsts, left = src
    nz, ny, nx = shape
    for j in range(nz):
        for i in range(ny):
            line = lines[firsts[k + j] + y + i, left + x :]
            row = out[(j * ny + i) * nx : (j * ny + i + 1) * nx]
            for at in range(nx):
                row[at] = line[at]


def _scratch_of_means(rows, cols, depth, dtype, patch, reach, *parameters):
    block = [*map(min, BLOCK, (depth, rows, cols))]
    whole = math.prod(n + p + 2 * r - 1 for n, p, r in zip(block, patch, reach, strict=True))
    slices, *plane = (n + p - 1 for n, p in zip(block, patch, strict=True))
    plane, voxels = math.prod(plane), math.prod(block)
    numbers = whole, slices * plane, plane, plane, block[2], voxels, voxels
    return tuple(((n,), dtype) for n in numbers)


@needs(_scratch_of_means)
@kernel
def nl_means(src, out, y0, y1, nx, patch, reach, less, scale, scratch):
    """The mean of voxels within ``reach``, weighted by the similarity of their surroundings.

    The scratch is a block with its halo, its squares, two planes and a row of their sums, and two blocks.
    """
    # The weight is ``exp(-d)``, where ``d`` is the sum of squared differences of patches minus ``less``, at
    # least 0, times ``scale``. Each sum is computed for its own voxel, never as a running sum, so it does not
    # depend on blocks. Sums have the type of ``scale`` and ``less``, float32 or float64; weights are float32.
    src = as_bytes(src)
    around = (patch[0] + 2 * reach[0] - 1, patch[1] + 2 * reach[1] - 1, patch[2] + 2 * reach[2] - 1)
    block = (min(BLOCK[0], out.firsts.size), min(BLOCK[1], y1 - y0), min(BLOCK[2], nx))
    voxels, squares, sums, sums_y, distance, total, weight = scratch
    for k in range(0, out.firsts.size, block[0]):
        for y in range(y0, y1, block[1]):
            for x in range(0, nx, block[2]):
                shape = (
                    min(block[0], out.firsts.size - k),
                    min(block[1], y1 - y),
                    min(block[2], nx - x),
                )
                whole = (shape[0] + around[0], shape[1] + around[1], shape[2] + around[2])
                _copy_block(src, k, y, x, whole, voxels)
                _block(
                    voxels, shape, (whole[1] * whole[2], whole[2]), patch, reach, less, scale,
                    squares, sums, sums_y, distance, total, weight,
                )  # fmt: skip
                for j in range(shape[0]):
                    for i in range(shape[1]):
                        at = out.left + x
                        result = out.lines[out.firsts[k + j] + y + i, at : at + shape[2]]
                        first = (j * shape[1] + i) * shape[2]
                        for at in range(shape[2]):
                            result[at] = total[first + at] / weight[first + at]
                        if has_nan(result):
                            one_nan(result)
