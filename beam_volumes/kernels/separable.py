"""Separable correlation: one 1-D pass per axis."""

import numpy as np

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.rows import as_rows
from beam_volumes.kernels.weighted_sum import parity, weighted_sum

#: How much of the z pass is kept for the y pass: about half an L2 cache.
KEPT_BYTES = 1 << 19


@kernel
def correlate(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, wz, wy, wx):
    """Correlate with the outer product of three 1-D kernels, along z, then y, then x as scipy does.

    Rows stream down y: each is summed over z, for a few output slices while its taps are in cache,
    and the last ``wy.size`` of these sums are kept for the y pass; the row that makes is summed
    over x. Nothing is a running sum, so a voxel is the same operations wherever its strip or window
    starts.

    Parameters
    ----------
    src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx
        See `beam_volumes.kernels.rows`. Any input type; ``out`` is written by
        `beam_volumes.kernels.casting.rounded`.
    wz, wy, wx : 1-D arrays of float32 or float64, all three the same type
        The weights; their type is the one computed in. Odd symmetric and antisymmetric kernels are
        paired. A single weight of 1 leaves an axis alone.

    Notes
    -----
    About ``(wz.size + wy.size + wx.size) / 2`` multiply-adds a voxel for symmetric kernels, and one
    pass of the z taps over ``wy.size - 1`` rows more per strip. Scratch: ``wy.size + 2`` rows,
    or more slices' worth of them up to `KEPT_BYTES`.
    """
    lines = as_rows(src)
    lz, ly, lx = wz.size, wy.size, wx.size
    pz, py, px = parity(wz), parity(wy), parity(wx)
    width = nx + lx - 1
    depth = max(1, min(jz.size, KEPT_BYTES // (ly * width * wz.itemsize)))
    sums_z = np.empty((depth * ly, width), wz.dtype)  # per slice a ring: row r is at r % ly
    sums_zy = np.empty((1, width), wz.dtype)
    sums = np.empty(nx, wz.dtype)
    rows_z, cols_z = np.empty(lz, np.int64), np.full(lz, ox)
    rows_y, cols_y = np.empty(ly, np.int64), np.zeros(ly, np.int64)
    rows_x, cols_x = np.zeros(lx, np.int64), np.arange(lx)
    same_y = ly == 1 and wy[0] == 1
    same_x = lx == 1 and wx[0] == 1

    for k0 in range(0, jz.size, depth):
        count = min(depth, jz.size - k0)
        for y in range(y0, y1):
            for r in range(y if y == y0 else y + ly - 1, y + ly):
                for j in range(count):
                    for t in range(lz):
                        rows_z[t] = iz[k0 + j + t] * src.shape[1] + oy + r
                    weighted_sum(lines, rows_z, cols_z, wz, pz, sums_z[j * ly + r % ly])
            for j in range(count):
                row = sums_z[j * ly + y % ly]
                if not same_y:
                    for t in range(ly):
                        rows_y[t] = j * ly + (y + t) % ly
                    row = sums_zy[0]
                    weighted_sum(sums_z, rows_y, cols_y, wy, py, row)
                if not same_x:
                    weighted_sum(row.reshape(1, width), rows_x, cols_x, wx, px, sums)
                    row = sums
                cast_rounded(row, out[jz[k0 + j], qy + y, qx : qx + nx])
