"""Tiles with a position for each slice, as `register_tiles` finds them for ``model="slices"``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.geometry.alignment import apply_transforms, bounding_box_of
from beam_volumes.ops.geometry.transforms import columns_of, real_numbers, table_of
from beam_volumes.ops.geometry.validity import masks_of, nodata_of
from beam_volumes.ops.pointwise import where

#: The columns of a table with a row for each slice of each tile.
COLUMNS = ("tile", "slice", "z", "y", "x")
#: The share of valid voxels between which a voxel is interpolated.
_VALID = 0.999
#: Differences of positions along z, in voxels, that are rounding of a table.
_ROUNDING = 1e-3
#: Dtypes with values that float32 may round.
_WIDE = "iuf"


def slices_of(transforms: Any, name: str) -> np.ndarray | None:
    """Return a table with a row for each slice, (rows, columns); None if it is not such a table."""
    if isinstance(transforms, str | os.PathLike):
        if os.fspath(transforms).lower().endswith(".xml"):
            return None
        table: Any = table_of(transforms, name, "transforms")
    else:
        table = columns_of(transforms, f"{name}: transforms")
    if table is None or any(c not in table for c in COLUMNS):
        return None
    try:
        found = [real_numbers(table[c]) for c in COLUMNS]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: transforms: an entry is not a number: {error}") from None
    shapes = [numbers.shape for numbers in found]
    if len({*shapes}) > 1 or len(shapes[0]) != 1:
        listed = ", ".join(f"{c}: {shape}" for c, shape in zip(COLUMNS, shapes, strict=True))
        raise ValueError(
            f"{name}: transforms has columns of the shapes {listed}; give one number for each row and column"
        )
    return np.stack(found, axis=1)


def moved_slices(
    tiles: Sequence[Any], rows: np.ndarray, order: int, mask: Any, nodata: Any, name: str
) -> tuple[list[Volume], np.ndarray]:
    """Return tiles with all slices moved, and the position of each tile; NaN is outside of slices."""
    opened = [as_volume(tile) for tile in tiles]
    for k, v in enumerate(opened):
        if v.space.axes != ("z", "y", "x") or v.space.times:
            raise ValueError(
                f"{name}: tile {k} has the axes {' '.join(v.axes)}, and transforms a row for each slice; "
                "this needs the axes z y x, without time points"
            )
    counts = [v.grid_shape[0] for v in opened]
    wanted = [(k, z) for k, count in enumerate(counts) for z in range(count)]
    if rows[:, :2].tolist() != [[k, z] for k, z in wanted]:
        raise ValueError(
            f"{name}: transforms has a row for each slice, but its columns tile and slice do not count all "
            f"{len(wanted)} slices of {len(opened)} tiles in order; pass the table of register_tiles"
        )
    if not np.isfinite(rows).all():
        raise ValueError(f"{name}: transforms has numbers that are missing, NaN or infinite")
    starts = np.cumsum([0, *counts])
    first = np.repeat(rows[starts[:-1], 2], counts)
    wrong = np.flatnonzero(abs(rows[:, 2] - rows[:, 1] - first) > _ROUNDING)
    if len(wrong):
        k, z = wanted[wrong[0]]
        raise ValueError(
            f"{name}: transforms has z={rows[wrong[0], 2]:g} for slice {z} of tile {k}, but its first slice "
            f"is at z={first[wrong[0]]:g}; slices are one voxel apart, and only move along y and x"
        )
    masks = masks_of(mask, opened, name, "tile")
    moved, places = [], np.zeros((len(opened), 3))
    for k, (v, m) in enumerate(zip(opened, masks, strict=True)):
        own = rows[starts[k] : starts[k + 1]]
        place = own[:, 3:]
        is_wide = v.dtype.kind in _WIDE and v.dtype.itemsize >= 4 and v.dtype != np.float32
        voxels = v.astype("f8" if is_wide else "f4")
        value = nodata_of(nodata, v.dtype, name)
        valid = None if m is None else m.with_space(v) != 0
        if value is not None and not np.isnan(value):
            valid = v != value if valid is None else valid & (v != value)
        how: dict[str, Any] = {"bounding_box": True, "order": order, "cval": np.nan}
        if valid is None:
            moved.append(apply_transforms(voxels, place, **how))
        else:
            zero, nan = voxels.dtype.type(0), voxels.dtype.type(np.nan)
            share = apply_transforms(valid.astype("f4"), place, **how)
            values = apply_transforms(where(valid, voxels, zero), place, **how)
            moved.append(where(share > _VALID, values, nan))
        identity = np.tile(np.eye(2), (len(place), 1, 1))
        low, _ = bounding_box_of(identity, place, v.grid_shape[1:])
        places[k] = own[0, 2] - own[0, 1], *low
    return moved, places
