"""Device code of minimum and maximum over a box, a footprint or columns, as the largest order key."""

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


def extremum_of_columns(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, levels: Any, lengths: Any, parts: Any,
    ly: int, lx: int, is_max: bool, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.filters.columns.extremum_of_columns`, over the same offsets."""
    deep = src.firsts.size - out.firsts.size + 1
    offsets = offsets_of(levels, lengths, parts, deep)
    extremum_footprint(src, out, y0, y1, nx, offsets, is_max, stream)


def offsets_of(levels: np.ndarray, lengths: np.ndarray, parts: np.ndarray, deep: int) -> np.ndarray:
    """The footprint that `beam_volumes.kernels.filters.columns.columns_of` has decomposed.

    >>> cross = np.argwhere(np.array([[[0, 1, 0], [1, 1, 1], [0, 1, 0]]]))
    >>> from beam_volumes.kernels.filters.columns import columns_of
    >>> bool((offsets_of(*columns_of(cross, 1), 1) == cross).all())
    True
    """
    tables = [(z, z, 1) for z in range(deep)]
    tables += [(a, b, 1) for a, b in levels[1:].tolist()]
    tables += [(*levels[-1].tolist(), n) for n in lengths[1:].tolist()]
    found = {
        (z, ty, tx + i)
        for table, ty, tx in parts.tolist()
        for z in range(tables[table][0], tables[table][1] + 1)
        for i in range(tables[table][2])
    }
    return np.array(sorted(found), np.int64)
