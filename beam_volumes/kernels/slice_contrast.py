"""Intensities shifted and scaled, by numbers that go with a position along an axis."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.jit import kernel


@kernel
def shift_and_scale(voxels, center, scale, base, at, step_y, step_x, out):
    """Write ``(voxel - center[i]) * scale[i] + base`` for each voxel of a plane.

    Parameters
    ----------
    voxels : ndarray (rows, columns)
        Of any type; computed in float64.
    center, scale : ndarray of float64
    base : float
    at, step_y, step_x : int
        Where the numbers of a voxel are: ``i = at + y * step_y + x * step_x``.
    out : ndarray (rows, columns)
        Integers are rounded half to even and saturated.
    """
    row = np.empty(voxels.shape[1])
    for y in range(voxels.shape[0]):
        first = at + y * step_y
        if step_x == 0:
            c, s = center[first], scale[first]
            for x in range(row.size):
                row[x] = (np.float64(voxels[y, x]) - c) * s + base
        else:
            for x in range(row.size):
                i = first + x * step_x
                row[x] = (np.float64(voxels[y, x]) - center[i]) * scale[i] + base
        cast_rounded(row, out[y])
