"""Device code of correlation with 1-D kernels along axes, and with any kernel."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import (
    launch,
    numbers,
    on_device,
    per_voxel,
    scratch_rows,
    viewed,
)
from beam_volumes.kernels.cuda.rounding import product_of, rounded_to, stored_dtype
from beam_volumes.kernels.filters.weighted_sum import GENERAL, SYMMETRIC, parity
from beam_volumes.kernels.rows import Rows


def correlate(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, wz: Any, wy: Any, wx: Any, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.filters.separable.correlate`, with a pass along each axis.

    Scratch: the sums along z, and along z and y, of the whole block with its margins.
    """
    src, slices, rows = numbers(src), out.firsts.size, y1 - y0
    tall, wide = rows + wy.size - 1, nx + wx.size - 1
    steps = [(wz, 0, slices, tall, wide), (wy, 1, slices, rows, wide), (wx, 2, slices, rows, nx)]
    # The host always multiplies along z, and skips a single weight of 1 along the others.
    steps = [s for i, s in enumerate(steps) if i == 0 or s[0].size > 1 or s[0][0] != 1]
    top = y0
    for i, (weights, axis, *box) in enumerate(steps):
        is_last = i == len(steps) - 1
        made = out if is_last else scratch_rows(box[0], box[1], box[2], wz.dtype, stream)
        at = top, y0 if is_last else 0
        _along(src, made, box, at, axis, weights, stream)
        src, top = made, 0


def _along(src, out, box, at, axis, weights, stream):
    dtype = out.lines.dtype
    kernel = _weighted(src.lines.dtype, weights.dtype, dtype)
    unit = tuple(int(axis == i) for i in range(3))
    launch(
        kernel, tuple(box), stream, src, viewed(out, stored_dtype(dtype)), *at, *unit,
        on_device(weights, stream), int(parity(weights)),
    )  # fmt: skip


@lru_cache
def _weighted(source: np.dtype, kind: np.dtype, target: np.dtype) -> Any:
    times, rounded, real = product_of(kind), rounded_to(kind, target), kind.type

    def weighted(k, y, x, src, out, y_in, y_out, dz, dy, dx, weights, pairing):
        lines, firsts = src.lines, src.firsts
        row, col, last = y_in + y, src.left + x, weights.size - 1
        if pairing == GENERAL:
            total = times(weights[0], real(lines[firsts[k] + row, col]))
            for t in range(1, last + 1):
                value = real(lines[firsts[k + t * dz] + row + t * dy, col + t * dx])
                total = total + times(weights[t], value)
        else:
            t = last // 2
            value = real(lines[firsts[k + t * dz] + row + t * dy, col + t * dx])
            total = times(weights[t], value)
            for t in range(last // 2):
                u = last - t
                a = real(lines[firsts[k + t * dz] + row + t * dy, col + t * dx])
                b = real(lines[firsts[k + u * dz] + row + u * dy, col + u * dx])
                both = a + b if pairing == SYMMETRIC else a - b
                total = total + times(weights[t], both)
        out.lines[out.firsts[k] + y_out + y, out.left + x] = rounded(total)

    return per_voxel(weighted)


def correlate_nd(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, offsets: Any, weights: Any, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.filters.separable.correlate_nd`."""
    src, dtype, box = numbers(src), out.lines.dtype, (out.firsts.size, y1 - y0, nx)
    kernel = _weighted_nd(src.lines.dtype, weights.dtype, dtype)
    launch(
        kernel, box, stream, src, viewed(out, stored_dtype(dtype)), y0,
        on_device(offsets, stream), on_device(weights, stream),
    )  # fmt: skip


@lru_cache
def _weighted_nd(source: np.dtype, kind: np.dtype, target: np.dtype) -> Any:
    times, rounded, real = product_of(kind), rounded_to(kind, target), kind.type

    def weighted(k, y, x, src, out, y0, offsets, weights):
        total = real(0)
        for i in range(weights.size):
            row = src.firsts[k + offsets[i, 0]] + y0 + y + offsets[i, 1]
            value = times(weights[i], real(src.lines[row, src.left + x + offsets[i, 2]]))
            # The first product is not added to 0: it may be -0.0.
            total = value if i == 0 else total + value
        out.lines[out.firsts[k] + y0 + y, out.left + x] = rounded(total)

    return per_voxel(weighted)
