"""Correlation with the outer product of kernels along axes, and with any kernel."""

import numpy as np

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.filters.weighted_sum import GENERAL, parity, rounded_sum, weighted_sum
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import Rows, as_bytes
from beam_volumes.kernels.scratch import needs

#: Bytes of the z pass that are kept for the y pass: about half an L2 cache.
KEPT_BYTES = 1 << 19


def _scratch(rows, cols, depth, dtype, wz, wy, wx):
    width = cols + wx.size - 1
    slices = max(1, min(depth, KEPT_BYTES // (wy.size * width * wz.itemsize)))
    starts = max(wz.size, wy.size, wx.size)
    floats = (((n,), wz.dtype) for n in (slices * wy.size * width, width, cols))
    return *floats, ((starts,), np.int64)


@needs(_scratch)
@kernel
def correlate(src, out, y0, y1, nx, wz, wy, wx, scratch):
    """Correlate with the outer product of three 1-D kernels, along z, then y, then x as scipy does.

    Rows are processed along y. Each is summed over z, for a few output slices while its input is in cache.
    The last ``wy.size`` of these sums are kept for the y pass, and its result is summed over x. There are no
    running sums, so a voxel's operations do not depend on the start of its strip or window.

    ``src`` may have any type; ``out`` is written by `beam_volumes.kernels.casting.rounded`. The weights
    ``wz``, ``wy`` and ``wx`` are all float32 or all float64, and so are the sums. Odd symmetric and
    antisymmetric kernels are paired. A single weight of 1 skips an axis. About ``(wz.size + wy.size +
    wx.size) / 2`` multiply-adds per voxel for symmetric kernels, and ``wy.size - 1`` more rows of the z pass
    per strip. The scratch is ``wy.size + 2`` rows, or several slices of them up to `KEPT_BYTES`.
    """
    src = as_bytes(src)
    lines, pitch = src.lines, src.lines.shape[1]
    sums_z, sums_zy, sums, starts = scratch
    depth = sums_z.size // (wy.size * sums_zy.size)
    for k in range(0, out.firsts.size, depth):
        _correlate_slices(
            lines.reshape(lines.size), src.firsts[k:], src.left, pitch,
            Rows(out.lines, out.firsts[k : k + depth], out.left), y0, y1,
            wz, parity(wz), wy, parity(wy), wx, parity(wx), sums_z, sums_zy, sums, starts,
        )  # fmt: skip


@row_kernel
def _correlate_slices(
    voxels, firsts, left, pitch, out, y0, y1, wz, pz, wy, py, wx, px, sums_z, sums_zy, sums, starts
):  # fmt: skip
    """Some slices. Input slice ``i`` begins in line ``firsts[i]``; ``sums_z`` are ring buffers."""
    lz, ly, lx = wz.size, wy.size, wx.size
    same_y, same_x = ly == 1 and wy[0] == 1, lx == 1 and wx[0] == 1
    width = sums_zy.size
    for y in range(y0, y1):
        for r in range(y if y == y0 else y + ly - 1, y + ly):
            for j in range(out.firsts.size):
                for t in range(lz):
                    starts[t] = (firsts[j + t] + r) * pitch + left
                at = (j * ly + r % ly) * width
                weighted_sum(voxels, starts, wz, pz, sums_z[at : at + width])
        for j in range(out.firsts.size):
            at = (j * ly + y % ly) * width
            row = sums_z[at : at + width]
            if not same_y:
                for t in range(ly):
                    starts[t] = (j * ly + (y + t) % ly) * width
                row = sums_zy
                weighted_sum(sums_z, starts, wy, py, row)
            target = out.lines[out.firsts[j] + y, out.left : out.left + sums.size]
            if same_x:
                cast_rounded(row, target)
            else:
                for t in range(lx):
                    starts[t] = t
                rounded_sum(row, starts, wx, px, sums, target)


def _scratch_nd(rows, cols, depth, dtype, offsets, weights):
    return ((cols,), weights.dtype), *([((weights.size,), np.int64)] * 3)


@needs(_scratch_nd)
@kernel
def correlate_nd(src, out, y0, y1, nx, offsets, weights, scratch):
    """Sum of ``weights[i]``, float32 or float64 as sums, times the voxel at ``offsets[i]``, in this order.

    ``offsets``, int64 (n, 3), are tz, ty, tx >= 0 of the nonzero weights.
    """
    lines, pitch = as_bytes(src).lines, src.lines.shape[1]
    sums, slices, within, starts = scratch
    for i in range(weights.size):
        slices[i], within[i] = offsets[i, 0], offsets[i, 1] * pitch + offsets[i, 2]
    _correlate_rows(
        lines.reshape(lines.size), src.firsts, src.left, pitch, out, y0, y1, sums, slices, within, weights,
        starts,
    )  # fmt: skip


@row_kernel
def _correlate_rows(
    voxels, firsts, left, pitch, out, y0, y1, sums, slices, within, weights, starts
):  # fmt: skip
    """Offset ``i`` is ``within[i]`` voxels after the start of slice ``slices[i]``, in line ``firsts``."""
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            target = out.lines[out.firsts[k] + y, out.left : out.left + sums.size]
            if weights.size == 0:
                sums[:] = 0
                cast_rounded(sums, target)
            else:
                for i in range(weights.size):
                    starts[i] = (firsts[k + slices[i]] + y) * pitch + left + within[i]
                rounded_sum(voxels, starts, weights, GENERAL, sums, target)
