"""Device code of the margins of rings."""

from __future__ import annotations

from typing import Any

from beam_volumes.kernels.cuda.launching import launch, on_device, per_voxel


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
