"""Device code of piecewise linear functions, and of shifts and scales for each slice."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import launch, numbers, on_device, per_voxel, viewed
from beam_volumes.kernels.cuda.rounding import product_of, rounded_to, stored_dtype
from beam_volumes.kernels.rows import Rows

_times = product_of(np.float64)


def along_curve(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, xs: Any, ys: Any, table: bool,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.intensity.curve.along_curve`."""
    target, box = viewed(out, stored_dtype(out.lines.dtype)), (out.firsts.size, y1 - y0, nx)
    points = on_device(xs), on_device(ys)
    launch(_curve(out.lines.dtype), box, stream, numbers(src), target, y0, *points, bool(table))


@lru_cache
def _curve(dtype: np.dtype) -> Any:
    rounded, real = rounded_to(np.float64, dtype), np.float64
    largest, half = np.finfo(np.float64).max, 0.5

    def interpolate(k, y, x, src, out, y0, xs, ys, table):
        voxel = real(src.lines[src.firsts[k] + y0 + y, src.left + x])
        last = xs.size - 1
        if voxel != voxel:
            value = voxel
        elif voxel <= xs[0]:
            value = ys[0]
        elif voxel >= xs[last]:
            value = ys[last]
        elif table:
            value = ys[np.int64(voxel - xs[0])]
        else:
            low, high = 0, last
            while high - low > 1:
                middle = (low + high) >> 1
                if xs[middle] <= voxel:
                    low = middle
                else:
                    high = middle
            x0, width, y0_, y1_ = xs[low], xs[high] - xs[low], ys[low], ys[high]
            value = _times((y1_ - y0_) / width, voxel - x0) + y0_
            if not (abs(value) <= largest and width <= largest):
                if width <= largest:
                    share = (voxel - x0) / width
                else:
                    start = _times(x0, half)
                    share = (_times(voxel, half) - start) / (_times(xs[high], half) - start)
                value = _times(real(1.0) - share, y0_) + _times(share, y1_)
        out.lines[out.firsts[k] + y0 + y, out.left + x] = rounded(value)

    return per_voxel(interpolate)


def shift_and_scale(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, low: Any, high: Any, center: Any, scale: Any,
    base: Any, at: int, step_z: int, step_y: int, step_x: int, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.intensity.curve.shift_and_scale`."""
    target, box = viewed(out, stored_dtype(out.lines.dtype)), (out.firsts.size, y1 - y0, nx)
    of_slices = map(on_device, (low, high, center, scale, base))
    steps = at, step_z, step_y, step_x
    launch(_shifted(out.lines.dtype), box, stream, numbers(src), target, y0, *of_slices, *steps)


@lru_cache
def _shifted(dtype: np.dtype) -> Any:
    rounded, real = rounded_to(np.float64, dtype), np.float64

    def shift(
        k, y, x, src, out, y0, low, high, center, scale, base, at, step_z, step_y, step_x
    ):  # fmt: skip
        i = at + k * step_z + (y0 + y) * step_y + x * step_x
        value = real(src.lines[src.firsts[k] + y0 + y, src.left + x])
        value = low[i] if value < low[i] else high[i] if value > high[i] else value
        value = _times(value - center[i], scale[i]) + base[i]
        out.lines[out.firsts[k] + y0 + y, out.left + x] = rounded(value)

    return per_voxel(shift)
