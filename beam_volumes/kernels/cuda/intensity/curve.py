"""Device code of piecewise linear functions, and of shifts and scales for each slice."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import launch, numbers, on_device, per_voxel, viewed
from beam_volumes.kernels.cuda.rounding import product_of, rounded_to, stored_dtype
from beam_volumes.kernels.cuda.translation import translated
from beam_volumes.kernels.intensity import curve as host
from beam_volumes.kernels.rows import Rows

_at, _times = translated(host.curve_at), product_of(np.float64)


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

    def interpolate(k, y, x, src, out, y0, xs, ys, table):
        voxel = real(src.lines[src.firsts[k] + y0 + y, src.left + x])
        out.lines[out.firsts[k] + y0 + y, out.left + x] = rounded(_at(voxel, xs, ys, table))

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
