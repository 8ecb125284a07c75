"""Margins of rings, and copies of rows with another dtype, on a device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import (
    launch,
    numbers,
    on_device,
    per_voxel,
    viewed,
)
from beam_volumes.kernels.cuda.rounding import rounded_to, stored_dtype
from beam_volumes.kernels.rows import Rows


def pad_margins(
    ring: Any, slots: Any, r0: int, r1: int, c0: int, c1: int, row_map: Any, col_map: Any, cval: Any,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.rows.pad_margins`."""
    slices, rows, cols = len(slots), ring.shape[1], ring.shape[2]
    maps = on_device(slots, stream), on_device(row_map, stream), on_device(col_map, stream)
    # Columns first: rows are then copied with their corners.
    sides = c0 + cols - c1
    launch(_columns, (slices, r1 - r0, sides), stream, ring, *maps, r0, c0, c1, cval)
    ends = r0 + rows - r1
    launch(_rows, (slices, ends, cols), stream, ring, *maps, r0, r1, cval)


def _column(k, y, x, ring, slots, row_map, col_map, r0, c0, c1, cval):
    slot, row, col = slots[k], r0 + y, x if x < c0 else c1 + x - c0
    ring[slot, row, col] = ring[slot, row, col_map[col]] if col_map[col] >= 0 else cval


def _row(k, y, x, ring, slots, row_map, col_map, r0, r1, cval):
    slot, row = slots[k], y if y < r0 else r1 + y - r0
    ring[slot, row, x] = ring[slot, row_map[row], x] if row_map[row] >= 0 else cval


_columns, _rows = per_voxel(_column), per_voxel(_row)


def copy_rounded(src: Rows, out: Rows, y0: int, y1: int, nx: int, stream: Any = None) -> None:
    """Copy voxels to rows of any dtype, converted as by `beam_volumes.kernels.casting.cast_rounded`."""
    src, wanted = numbers(src), out.lines.dtype
    box = out.firsts.size, y1 - y0, nx
    kernel = _copy(src.lines.dtype, wanted)
    launch(kernel, box, stream, src, viewed(out, stored_dtype(wanted)), y0)


@lru_cache
def _copy(source: np.dtype, target: np.dtype) -> Any:
    rounded = rounded_to(source, target)

    def copy(k, y, x, src, out, y0):
        value = src.lines[src.firsts[k] + y0 + y, src.left + x]
        out.lines[out.firsts[k] + y0 + y, out.left + x] = rounded(value)

    return per_voxel(copy)
