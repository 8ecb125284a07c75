"""Correlation with any kernel."""

import numpy as np

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.rows import as_rows
from beam_volumes.kernels.weighted_sum import GENERAL, weighted_sum


@kernel
def correlate_nd(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, offsets, weights):
    """Sum of ``weights[i]`` times the tap at ``offsets[i]``, in the order listed.

    Parameters
    ----------
    src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx
        See `beam_volumes.kernels.rows`. Any input type; ``out`` is written by
        `beam_volumes.kernels.casting.rounded`.
    offsets : int64 array (n, 3)
        Taps tz, ty, tx, none negative: those with a weight, in raster order.
    weights : array (n,) of float32 or float64
        Their type is the one computed in.

    Notes
    -----
    ``n`` multiply-adds a voxel over the vector width. Scratch: one row.
    """
    lines = as_rows(src)
    sums = np.empty(nx, weights.dtype)
    rows, cols = np.empty(weights.size, np.int64), ox + offsets[:, 2]
    for k in range(jz.size):
        for y in range(y0, y1):
            if weights.size == 0:
                sums[:] = 0
            else:
                for i in range(weights.size):
                    rows[i] = iz[k + offsets[i, 0]] * src.shape[1] + oy + y + offsets[i, 1]
                weighted_sum(lines, rows, cols, weights, GENERAL, sums)
            cast_rounded(sums, out[jz[k], qy + y, qx : qx + nx])
