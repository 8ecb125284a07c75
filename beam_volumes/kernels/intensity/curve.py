"""Piecewise linear functions of voxels, and shifts and scales for each slice."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.casting import cast_rounded, one_nan, rounded
from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.scratch import needs

_LARGEST = float(np.finfo(np.float64).max)


@kernel
def between(x, x0, x1, y0, y1):
    """The line between two points at ``x``, with ``x0 <= x < x1``; points of any size and distance."""
    slope = (y1 - y0) / (x1 - x0)
    value = slope * (x - x0) + y0
    if abs(value) <= _LARGEST and x1 - x0 <= _LARGEST:
        return value
    # The slope or a difference is beyond float64. Halves of small numbers would be rounded.
    if x1 - x0 <= _LARGEST:
        share = (x - x0) / (x1 - x0)
    else:
        share = (x * 0.5 - x0 * 0.5) / (x1 * 0.5 - x0 * 0.5)
    return (1.0 - share) * y0 + share * y1


@kernel
def curve_at(x, xs, ys, table):
    """A piecewise linear function at one float64. ``table`` is as in `along_curve`."""
    last = xs.size - 1
    if x != x:
        return x
    if x <= xs[0]:
        return ys[0]
    if x >= xs[last]:
        return ys[last]
    if table:
        return ys[np.int64(x - xs[0])]
    low, high = 0, last  # xs[low] <= x < xs[high]
    while high - low > 1:
        middle = (low + high) >> 1
        if xs[middle] <= x:
            low = middle
        else:
            high = middle
    return between(x, xs[low], xs[high], ys[low], ys[high])


@kernel
def along_curve(src, out, y0, y1, nx, xs, ys, table):
    """Write a piecewise linear function of each voxel, constant outside of its points, with ascending ``xs``.

    NaN gives NaN; integers are rounded half to even and clipped to the dtype's range.
    """
    # ``table`` means that voxels are integers and ``xs`` consecutive, so no search is needed. It agrees with
    # `numpy.interp`, in one order of operations on all processors: the slope between two points times the
    # distance from the first.
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = src.lines[src.firsts[k] + y, src.left : src.left + nx]
            to = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            holes = False
            for i in range(nx):
                x = np.float64(row[i])
                holes |= x != x
                to[i] = rounded(curve_at(x, xs, ys, table), to.dtype)
            if holes:
                one_nan(to)


def _scratch(rows, cols, depth, dtype, *numbers):
    return (((cols,), np.float64),)


@needs(_scratch)
@kernel
def shift_and_scale(
    src, out, y0, y1, nx, low, high, center, scale, base, at, step_z, step_y, step_x, scratch
):
    """Write ``(clipped - center[i]) * scale[i] + base[i]`` for each voxel, with limits ``low`` and ``high``.

    Computed in float64; integers are rounded half to even and clipped to the dtype's range; NaN stays NaN.
    """
    # The index of a voxel's numbers is ``i = at + k * step_z + y * step_y + x * step_x``.
    (results,) = scratch
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = src.lines[src.firsts[k] + y, src.left : src.left + nx]
            i = at + k * step_z + y * step_y
            if step_x == 0:
                minimum, maximum, c, s, b = low[i], high[i], center[i], scale[i], base[i]
                for x in range(nx):
                    v = np.float64(row[x])
                    v = minimum if v < minimum else maximum if v > maximum else v
                    results[x] = (v - c) * s + b
            else:
                for x in range(nx):
                    v = np.float64(row[x])
                    v = low[i] if v < low[i] else high[i] if v > high[i] else v
                    results[x] = (v - center[i]) * scale[i] + base[i]
                    i += step_x
            cast_rounded(results, out.lines[out.firsts[k] + y, out.left : out.left + nx])
