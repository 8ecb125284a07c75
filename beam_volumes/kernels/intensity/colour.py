"""Colours from red, green and blue: stains, hue, saturation and brightness."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.elementary.exp_log import exp_value, few, log_value
from beam_volumes.kernels.elementary.exp_log import log as log_rows
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import needs

#: The results of `of_three`.
SUM, DENSITIES, LIGHT, HUE, SATURATION, VALUE = range(6)
#: As in scikit-image, since zero has no logarithm.
MINIMUM = 1e-6
#: Table sizes up to which products with all weights fit the nearest cache: uint8.
FEW = 256


@lru_cache
def log_least() -> float:
    """The logarithm of `MINIMUM`, with the same bits on every machine."""
    return few(log_value, [MINIMUM])[0]


@lru_cache(maxsize=16)
def table_of(dtype: np.dtype, kind: int) -> np.ndarray:
    """Map the values of an integer dtype to 0 to 1, as a read-only table; empty for floats.

    For `DENSITIES`, these are the logarithms, divided by the logarithm of `MINIMUM`.
    """
    if dtype.kind == "f":
        return np.empty(0)
    values = np.arange(2 if dtype.kind == "b" else np.iinfo(dtype).max + 1, dtype=np.float64)
    values *= 1.0 / (len(values) - 1)
    if kind == DENSITIES:
        values = np.maximum(values, MINIMUM)
        if len(values) <= FEW:
            logs = np.array(few(log_value, values.tolist()))
        else:
            logs = np.empty_like(values)
            log_rows(values.reshape(1, -1), logs.reshape(1, -1))
        values = logs / log_least()
    return values


def _scratch(rows, cols, depth, dtype, table, weights, kind, scale):
    is_looked_up = kind <= DENSITIES and 0 < table.size <= FEW
    return (((3, table.size if is_looked_up else cols), np.float64),)


@needs(_scratch)
@kernel
def of_three(first, second, third, out, y0, y1, nx, table, weights, kind, scale, scratch):
    """Write one number for each pixel's three channels, computed in float64 in one order and rounded once.

    ``table`` maps values of the channels; if it is empty, values are numbers themselves.
    """
    # ``kind`` is `SUM`, the weighted sum; `DENSITIES`, the weighted sum of logarithms divided by ``scale``,
    # at least 0; its inverse `LIGHT`, ``exp`` of minus the weighted sum times ``scale``, at most 1; or the
    # components of HSV, `HUE`, `SATURATION` and `VALUE`. ``weights`` are float64, for the kinds with a sum.
    if kind <= DENSITIES and 0 < table.size <= FEW:
        u, v, w = scratch[0]
        total = 0.0
        for i in range(table.size):
            u[i], v[i], w[i] = table[i] * weights[0], table[i] * weights[1], table[i] * weights[2]
            total += abs(u[i]) + abs(v[i]) + abs(w[i])
        has_holes = not total < np.inf  # no other sums can be NaN
        for k in range(out.firsts.size):
            for y in range(y0, y1):
                _looked_up(
                    first.lines[first.firsts[k] + y, first.left : first.left + nx],
                    second.lines[second.firsts[k] + y, second.left : second.left + nx],
                    third.lines[third.firsts[k] + y, third.left : third.left + nx],
                    out.lines[out.firsts[k] + y, out.left : out.left + nx],
                    u, v, w, kind, has_holes,
                )  # fmt: skip
        return
    r, g, b = scratch[0]
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            _counted(first.lines[first.firsts[k] + y], first.left, r, table, kind, scale)
            _counted(second.lines[second.firsts[k] + y], second.left, g, table, kind, scale)
            _counted(third.lines[third.firsts[k] + y], third.left, b, table, kind, scale)
            to = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            _row(r, g, b, to, weights, kind, scale)


@row_kernel
def _looked_up(r, g, b, to, u, v, w, kind, has_holes):
    """The weighted sum from tables of products, equal to `_row`, for dtypes with few values."""
    lowest = 0.0 if kind == DENSITIES else -np.inf
    for i in range(to.size):
        value = (u[np.int64(r[i])] + v[np.int64(g[i])]) + w[np.int64(b[i])]
        to[i] = lowest if value < lowest else value
    if has_holes:
        one_nan(to)


@row_kernel
def _counted(line, left, to, table, kind, scale):
    """The mapped values of a row, in advance, so the other loops vectorize."""
    if table.size > 0:
        for i in range(to.size):
            to[i] = table[np.int64(line[left + i])]
    elif kind == DENSITIES:
        for i in range(to.size):
            to[i] = _density(np.float64(line[left + i]), scale)
    else:
        for i in range(to.size):
            to[i] = np.float64(line[left + i])


@row_kernel
def _row(r, g, b, to, weights, kind, scale):
    u, v, w = weights[0], weights[1], weights[2]
    holes = 0
    if kind <= DENSITIES:  # or SUM
        lowest = 0.0 if kind == DENSITIES else -np.inf
        for i in range(to.size):
            value = (r[i] * u + g[i] * v) + b[i] * w
            value = lowest if value < lowest else value
            holes += value != value
            to[i] = value
    elif kind == LIGHT:
        for i in range(to.size):
            value = exp_value(-(((r[i] * scale) * u + (g[i] * scale) * v) + (b[i] * scale) * w))
            value = 1.0 if value > 1.0 else value
            holes += value != value
            to[i] = value
    else:
        for i in range(to.size):
            to[i] = _hsv(r[i], g[i], b[i], kind)
    if holes:
        one_nan(to)


@row_kernel
def _density(x, scale):
    return log_value(MINIMUM if x < MINIMUM else x) / scale


@row_kernel
def _hsv(r, g, b, kind):
    if r != r or g != g or b != b:
        return 0.0
    largest = max(r, max(g, b))
    if kind == VALUE:
        return largest
    delta = largest - min(r, min(g, b))
    if delta == 0.0:
        return 0.0
    if kind == SATURATION:
        share = delta / largest
        return share if share == share else 0.0
    if b == largest:
        hue = 4.0 + (r - g) / delta
    elif g == largest:
        hue = 2.0 + (b - r) / delta
    else:
        hue = (g - b) / delta
    hue = hue / 6.0
    return hue - np.floor(hue)
