"""Device code of colours from red, green and blue."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import (
    device_function,
    launch,
    numbers,
    on_device,
    per_voxel,
    viewed,
)
from beam_volumes.kernels.cuda.rounding import bits_of, product_of, stored_dtype
from beam_volumes.kernels.cuda.translation import translated
from beam_volumes.kernels.elementary.exp_log import exp_value
from beam_volumes.kernels.intensity import colour as host
from beam_volumes.kernels.rows import Rows

_times = product_of(np.float64)
_density, _hsv, _exp = translated(host._density), translated(host._hsv), translated(exp_value)


def of_three(
    first: Rows, second: Rows, third: Rows, out: Rows, y0: int, y1: int, nx: int, table: Any,
    weights: Any, kind: int, scale: float, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.intensity.colour.of_three`, computed voxel by voxel."""
    dtype, box = out.lines.dtype, (out.firsts.size, y1 - y0, nx)
    channels = tuple(numbers(r) for r in (first, second, third))
    has_table = table.size > 0
    values = on_device(table if has_table else np.zeros(1), stream)
    factors = on_device(weights if weights.size else np.zeros(3), stream)
    target = viewed(out, stored_dtype(dtype))
    kernel = _of_three(dtype, int(kind), has_table)
    launch(kernel, box, stream, *channels, target, y0, values, factors, float(scale))


@lru_cache
def _of_three(dtype: np.dtype, kind: int, has_table: bool) -> Any:
    bits, number = bits_of(dtype), _number(has_table, kind == host.DENSITIES)
    combined = _combined(kind)

    def one(k, y, x, first, second, third, out, y0, table, weights, scale):
        row = y0 + y
        r = number(first.lines[first.firsts[k] + row, first.left + x], table, scale)
        g = number(second.lines[second.firsts[k] + row, second.left + x], table, scale)
        b = number(third.lines[third.firsts[k] + row, third.left + x], table, scale)
        value = combined(r, g, b, weights, scale)
        out.lines[out.firsts[k] + row, out.left + x] = bits(value)

    return per_voxel(one)


def _number(has_table: bool, is_density: bool) -> Any:
    """The number of a channel's voxel."""
    if has_table:
        return device_function(lambda voxel, table, scale: table[np.int64(voxel)])
    if is_density:
        return device_function(lambda voxel, table, scale: _density(np.float64(voxel), scale))
    return device_function(lambda voxel, table, scale: np.float64(voxel))


def _combined(kind: int) -> Any:
    """The result of three numbers."""
    if kind > host.LIGHT:
        return device_function(lambda r, g, b, weights, scale: _hsv(r, g, b, kind))

    @device_function
    def total(r, g, b, weights):
        return (_times(r, weights[0]) + _times(g, weights[1])) + _times(b, weights[2])

    if kind == host.LIGHT:

        def light(r, g, b, weights, scale):
            inner = total(_times(r, scale), _times(g, scale), _times(b, scale), weights)
            value = _exp(-inner)
            return 1.0 if value > 1.0 else value

        return device_function(light)
    lowest = 0.0 if kind == host.DENSITIES else -np.inf

    def at_least(r, g, b, weights, scale):
        value = total(r, g, b, weights)
        return lowest if value < lowest else value

    return device_function(at_least)
