"""Device code of minimum and maximum over a box or a footprint, as the largest order key."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.keys import from_order_key, to_order_key, unsigned_of
from beam_volumes.kernels.cuda.launching import (
    launch,
    on_device,
    per_voxel,
    scratch_rows,
    unsigned,
)
from beam_volumes.kernels.rows import Rows


def extremum_box(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, lz: int, ly: int, lx: int, is_max: bool,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.filters.extremum.extremum_box`, with a pass along each axis.

    Scratch: the extrema along z, and along z and y, of the whole block with its margins.
    """
    dtype = src.lines.dtype
    kernel, kind = _along(dtype), unsigned_of(dtype)
    slices, rows, tall, wide = out.firsts.size, y1 - y0, y1 - y0 + ly - 1, nx + lx - 1
    steps = (
        (lz, 1, 0, 0, (slices, tall, wide)),
        (ly, 0, 1, 0, (slices, rows, wide)),
        (lx, 0, 0, 1, (slices, rows, nx)),
    )
    given, top = unsigned(src), y0
    for i, (n, dz, dy, dx, box) in enumerate(steps):
        made = unsigned(out) if i == 2 else scratch_rows(*box, kind, stream)
        y_out = y0 if i == 2 else 0
        launch(kernel, box, stream, given, made, top, y_out, dz, dy, dx, n, is_max, i == 0, i == 2)
        given, top = made, 0


@lru_cache
def _along(dtype: np.dtype) -> Any:
    to_key, from_key = to_order_key(dtype), from_order_key(dtype)

    def largest(k, y, x, src, out, y_in, y_out, dz, dy, dx, n, is_max, is_first, is_last):
        best = src.lines[src.firsts[k] + y_in + y, src.left + x]
        best = to_key(best, is_max) if is_first else best
        for t in range(1, n):
            key = src.lines[src.firsts[k + t * dz] + y_in + y + t * dy, src.left + x + t * dx]
            key = to_key(key, is_max) if is_first else key
            best = key if key > best else best
        best = from_key(best, is_max) if is_last else best
        out.lines[out.firsts[k] + y_out + y, out.left + x] = best

    return per_voxel(largest)


def extremum_footprint(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, offsets: Any, is_max: bool, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.filters.extremum.extremum_footprint`, with a load per offset."""
    box, kernel = (out.firsts.size, y1 - y0, nx), _under(src.lines.dtype)
    offsets = on_device(offsets, stream)
    launch(kernel, box, stream, unsigned(src), unsigned(out), y0, offsets, is_max)


@lru_cache
def _under(dtype: np.dtype) -> Any:
    to_key, from_key, lowest = to_order_key(dtype), from_order_key(dtype), unsigned_of(dtype)(0)

    def largest(k, y, x, src, out, y0, offsets, is_max):
        best = lowest
        for i in range(len(offsets)):
            row = src.firsts[k + offsets[i, 0]] + y0 + y + offsets[i, 1]
            key = to_key(src.lines[row, src.left + x + offsets[i, 2]], is_max)
            best = key if key > best else best
        out.lines[out.firsts[k] + y0 + y, out.left + x] = from_key(best, is_max)

    return per_voxel(largest)
