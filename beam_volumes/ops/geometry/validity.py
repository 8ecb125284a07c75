"""Masks and values that mark voxels without data, in images that are aligned or fused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.spaces import shared_size
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.geometry.resampling import downsample
from beam_volumes.ops.parameters.building import representable
from beam_volumes.ops.pointwise import where


def masks_of(
    mask: Any, volumes: Sequence[Volume], name: str, each: str | Sequence[str]
) -> list[Volume | None]:
    """Return the mask of each volume, from a mask for all, or a list of masks and None.

    ``each`` is what a volume is called, such as ``"tile"``, or the name of each.
    """
    if isinstance(each, str):
        kind, names = each, [f"{each} {k}" for k in range(len(volumes))]
    else:
        kind, names = "volume", list(each)
    if mask is None:
        return [None] * len(volumes)
    given = list(mask) if isinstance(mask, list | tuple) else [mask] * len(volumes)
    if len(given) != len(volumes):
        raise ValueError(
            f"{name}: mask has {len(given)} entries for {len(volumes)} {kind}s; give one mask, or one for "
            f"each {kind}, which may be None"
        )
    opened = dict[int, Volume]()
    for k, m in enumerate(given):
        if m is not None and id(m) not in opened:
            opened[id(m)] = opened_mask(m, name, names[k])
    found = [None if m is None else opened[id(m)] for m in given]
    checked = set[tuple[int, int]]()
    for k, (m, v) in enumerate(zip(found, volumes, strict=True)):
        if m is not None and (id(m), id(v)) not in checked:
            check_mask(m, v, name, names[k])
            checked.add((id(m), id(v)))
    return found


def opened_mask(mask: Any, name: str, what: str) -> Volume:
    """Return the mask of a volume; errors state that the mask cannot be opened."""
    try:
        return one_channel(as_volume(mask))
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: the mask of {what} is not usable: {error}") from error


def check_mask(mask: Volume, volume: Volume, name: str, what: str) -> None:
    """Refuse a mask that is no mask of a volume."""
    if mask.dtype.kind not in "bui":
        raise TypeError(
            f"{name}: the mask of {what} has dtype {mask.dtype}; give bool or integer voxels, such as "
            "mask > 0"
        )
    if mask.space.times or mask.space.axes != volume.space.axes:
        raise ValueError(
            f"{name}: the mask of {what} has the axes {' '.join(mask.axes)}, but needs "
            f"{' '.join(volume.space.axes)}"
        )
    if mask.grid_shape != volume.grid_shape:
        shapes = [" x ".join(str(v.grid_shape[a]) for a in v.space.visible) for v in (mask, volume)]
        raise ValueError(
            f"{name}: the mask of {what} has the shape {shapes[0]}, but needs {shapes[1]}; crop or pad it"
        )
    shared_size(name, volume, mask)


def nodata_of(nodata: Any, dtype: np.dtype, name: str) -> float | None:
    """Return the value of voxels without data as a number of a dtype."""
    if nodata is None:
        return None
    if isinstance(nodata, str) or not np.isscalar(nodata):
        raise TypeError(f"{name}: nodata={nodata!r} is not a number")
    try:
        value: Any = nodata
        number = dtype.type(value) if representable(value, dtype) else None
    except (TypeError, ValueError):
        raise TypeError(f"{name}: nodata={nodata!r} is not a number") from None
    if number is None:
        raise ValueError(
            f"{name}: nodata={nodata!r} is not a value of {dtype}, so no voxel has it; give a different "
            "value, or mask="
        )
    return number


def marked_volume(
    volume: Volume, mask: Volume | None, nodata: float | None, factors: Sequence[int]
) -> Volume:
    """Return a downsampled volume, with NaN where less than half of the voxels are valid.

    Voxels are means of valid voxels. Without mask and nodata, a voxel is the mean of all voxels.
    """
    is_thin = max(factors) > 1
    valid = None if mask is None else mask.with_space(volume) != 0
    if nodata is not None and not math.isnan(nodata):
        is_data = volume != nodata
        valid = is_data if valid is None else valid & is_data
    if nodata is None and valid is None:
        return downsample(volume.astype("f4"), factors) if is_thin else volume
    voxels = volume.astype("f4")
    if volume.dtype.kind == "f":
        finite = np.isfinite(voxels)
        valid = finite if valid is None else valid & finite
    if not is_thin or valid is None:
        marked = voxels if valid is None else where(valid, voxels, np.float32(np.nan))
        return downsample(marked, factors) if is_thin else marked
    share = downsample(valid.astype("f4"), factors)
    mean = downsample(where(valid, voxels, np.float32(0)), factors) / share
    return where(share >= 0.5, mean, np.float32(np.nan))
