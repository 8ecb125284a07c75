"""Intensities shifted and scaled, by numbers that go with a position along an axis."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.jit import kernel


@kernel
def shift_and_scale(voxels, low, high, center, scale, base, at, step_y, step_x, out):
    """Write ``(clipped - center[i]) * scale[i] + base[i]`` for each voxel of a plane.

    Parameters
    ----------
    voxels : ndarray (rows, columns)
        Of any type; computed in float64.
    low, high : ndarray of float64
        To what voxels are clipped; NaN stays NaN.
    center, scale, base : ndarray of float64
    at, step_y, step_x : int
        Where the numbers of a voxel are: ``i = at + y * step_y + x * step_x``.
    out : ndarray (rows, columns)
        Integers are rounded half to even and saturated.
    """
    row = np.empty(voxels.shape[1])
    for y in range(voxels.shape[0]):
        i = at + y * step_y
        if step_x == 0:
            least, most, c, s, b = low[i], high[i], center[i], scale[i], base[i]
            for x in range(row.size):
                v = np.float64(voxels[y, x])
                v = least if v < least else most if v > most else v
                row[x] = (v - c) * s + b
        else:
            for x in range(row.size):
                v = np.float64(voxels[y, x])
                v = low[i] if v < low[i] else high[i] if v > high[i] else v
                row[x] = (v - center[i]) * scale[i] + base[i]
                i += step_x
        cast_rounded(row, out[y])
