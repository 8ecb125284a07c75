"""Volumes as arrays of dask and xarray, which compute their blocks with this package."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beam_volumes.base.higher import driver
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.core import VolumeCore
from beam_volumes.graph.nodes import CropNode, SourceNode, StageNode, ViewNode, own_below
from beam_volumes.graph.options import options


class Blocks:
    """A volume that returns arrays when sliced, as datasets in files do.

    Examples
    --------
    >>> Blocks(bv.open(np.arange(6).reshape(2, 3)))[1, ::2]
    array([3, 5])
    """

    def __init__(self, volume: VolumeCore) -> None:
        self.volume = volume
        self.shape, self.dtype, self.ndim = volume.shape, volume.dtype, volume.ndim

    def __getitem__(self, key: Any) -> np.ndarray:
        part: Any = self.volume[key]  # type: ignore[index]
        if not part.size:
            return np.empty(part.shape, part.dtype)
        array: np.ndarray = driver().compute(part, runner=None, progress=False)
        return array

    def __dask_tokenize__(self) -> Any:
        return ("beam-volumes", *(node.token for node in self.volume.nodes), self.shape)


def to_dask(volume: VolumeCore, chunks: Any = "auto") -> Any:
    try:
        import dask.array as da
    except ImportError:
        raise ImportError("to_dask needs dask: pip install 'dask[array]'") from None
    if not _has_blocks(volume):
        if volume.nbytes > options.max_inmemory:
            raise ValueError(
                f"{volume!r} depends on numbers of whole volumes, so it would be one dask block "
                f"of {format_bytes(volume.nbytes)}; write it with .to(path), and use "
                "bv.open(path).to_dask()"
            )
        whole = da.from_array(Blocks(volume), chunks=-1, fancy=False, asarray=True)
        return whole if chunks == "auto" else whole.rechunk(chunks)
    if chunks == "auto" and volume.chunks is not None and not volume.space.leading:
        chunks = _multiples(volume)
    return da.from_array(Blocks(volume), chunks=chunks, fancy=False, asarray=True)


def _multiples(volume: VolumeCore) -> tuple[int, ...]:
    """Shape of blocks of whole chunks, about 64 MiB, divided along the first axes."""
    block = [min(c, n) or 1 for c, n in zip(volume.chunks or (), volume.shape, strict=True)]
    for axis in reversed(range(volume.ndim)):
        room = (64 << 20) // max(1, math.prod(block) * volume.dtype.itemsize)
        if room > 1:
            block[axis] = min(volume.shape[axis] or 1, block[axis] * room)
    return tuple(block)


def _has_blocks(volume: VolumeCore) -> bool:
    """Whether a part of the volume can be computed from its neighbourhood."""
    return all(map(_is_local, own_below(volume.nodes)))


def _is_local(item: Any) -> bool:
    if not isinstance(item, SourceNode | StageNode | ViewNode | CropNode) or item.values:
        return False
    return not (isinstance(item, StageNode) and 0 in getattr(item.stage, "spans", ()))


def to_xarray(volume: VolumeCore, chunks: Any = "auto") -> Any:
    try:
        import xarray
    except ImportError:
        raise ImportError(
            "to_xarray needs xarray and dask: pip install xarray 'dask[array]'"
        ) from None
    coords: dict[str, Any] = {}
    if volume.voxel_size is not None:
        attrs = {} if volume.unit is None else {"units": volume.unit}
        along = zip(volume.space.axes, volume.voxel_size, volume.origin, strict=True)
        for axis, size, origin in along:
            extent = volume.shape[volume.axes.index(axis)]
            coords[axis] = (axis, origin + size * np.arange(extent), attrs)
    if volume.space.channels:
        coords["c"] = list(volume.space.channels)
    return xarray.DataArray(to_dask(volume, chunks), dims=volume.axes, coords=coords)
