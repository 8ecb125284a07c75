"""Intensities shifted and scaled, by numbers that go with a position along an axis."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.jit import kernel


@kernel
def shift_and_scale(
    src, out, y0, y1, nx, low, high, center, scale, base, at, step_z, step_y, step_x
):
    """Write ``(clipped - center[i]) * scale[i] + base[i]`` for each voxel.

    Computed in float64; integers are rounded half to even and saturated.
    ``low``, ``high``, float64: to what voxels are clipped; NaN stays NaN.
    ``center``, ``scale``, ``base``: float64.
    ``at``, ``step_z``, ``step_y``, ``step_x``: where the numbers of a voxel are: ``i = at + k * step_z +
    y * step_y + x * step_x``.
    """
    results = np.empty(nx)
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = src.lines[src.firsts[k] + y, src.left : src.left + nx]
            i = at + k * step_z + y * step_y
            if step_x == 0:
                least, most, c, s, b = low[i], high[i], center[i], scale[i], base[i]
                for x in range(nx):
                    v = np.float64(row[x])
                    v = least if v < least else most if v > most else v
                    results[x] = (v - c) * s + b
            else:
                for x in range(nx):
                    v = np.float64(row[x])
                    v = low[i] if v < low[i] else high[i] if v > high[i] else v
                    results[x] = (v - center[i]) * scale[i] + base[i]
                    i += step_x
            cast_rounded(results, out.lines[out.firsts[k] + y, out.left : out.left + nx])
