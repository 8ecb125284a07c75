"""Methods of numpy arrays for volumes, by `ops.array_api.methods`, and arrays of dask and xarray."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.base.higher import driver, operations
from beam_volumes.base.hints import checked_methods, method_hint
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.core import V, VolumeCore
from beam_volumes.graph.nodes import CropNode, SourceNode, StageNode, ViewNode, own_below
from beam_volumes.graph.options import options
from beam_volumes.graph.scalar import Scalar

if TYPE_CHECKING:
    import dask.array
    import xarray


def _reduced(
    name: str, volume: VolumeCore, axis: Any, dtype: Any, out: Any, keepdims: bool, **how: Any
) -> Scalar:
    result: Scalar = operations().reduced(name, volume, axis, dtype, out, keepdims, **how)
    return result


@checked_methods
class ArrayMethods(VolumeCore):
    """Methods of numpy's arrays, for volumes."""

    __slots__ = ()

    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: VolumeCore | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy mean, as `beam_volumes.mean`; numpy's own parameters load the voxels."""
        return _reduced("mean", self, axis, dtype, out, keepdims, mask=mask, nan=nan, across=across)

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: VolumeCore | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy sum, as `beam_volumes.sum`; numpy's own parameters load the voxels."""
        return _reduced("sum", self, axis, dtype, out, keepdims, mask=mask, nan=nan, across=across)

    def min(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: VolumeCore | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy minimum, as `beam_volumes.min`; numpy's own parameters load the voxels."""
        return _reduced("min", self, axis, None, out, keepdims, mask=mask, nan=nan, across=across)

    def max(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: VolumeCore | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy maximum, as `beam_volumes.max`; numpy's own parameters load the voxels."""
        return _reduced("max", self, axis, None, out, keepdims, mask=mask, nan=nan, across=across)

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        mask: VolumeCore | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy standard deviation, as `beam_volumes.std`; numpy's own parameters load the voxels."""
        return _reduced(
            "std", self, axis, dtype, out, keepdims, ddof=ddof, mask=mask, nan=nan, across=across
        )

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        mask: VolumeCore | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy variance, as `beam_volumes.variance`; numpy's own parameters load the voxels."""
        return _reduced(
            "var", self, axis, dtype, out, keepdims, ddof=ddof, mask=mask, nan=nan, across=across
        )

    def all(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: VolumeCore | None = None,
        across: str | None = None,
    ) -> Scalar:
        """Whether all voxels are true, as `beam_volumes.all`; numpy's own parameters load the voxels."""
        return _reduced("all", self, axis, None, out, keepdims, mask=mask, across=across)

    def any(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: VolumeCore | None = None,
        across: str | None = None,
    ) -> Scalar:
        """Whether any voxel is true, as `beam_volumes.any`; numpy's own parameters load the voxels."""
        return _reduced("any", self, axis, None, out, keepdims, mask=mask, across=across)

    def argmax(
        self,
        axis: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        mask: VolumeCore | None = None,
        nan: str = "raise",
    ) -> Scalar:
        """Index of the largest voxel, as `beam_volumes.argmax`; numpy's own parameters load the voxels."""
        return _reduced("argmax", self, axis, None, out, keepdims, mask=mask, nan=nan)

    def argmin(
        self,
        axis: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        mask: VolumeCore | None = None,
        nan: str = "raise",
    ) -> Scalar:
        """Index of the smallest voxel, as `beam_volumes.argmin`; numpy's own parameters load the voxels."""
        return _reduced("argmin", self, axis, None, out, keepdims, mask=mask, nan=nan)

    def copy(self: V) -> V:
        """Return the volume itself, because volumes are immutable."""
        return self

    def item(self: Any, *key: int) -> Any:
        """Compute a single voxel as a Python number; an error if there are several."""
        return np.asarray(self[key] if key else self).item()

    def cumsum(self: V, axis: int = 0) -> V:
        """Running sum along an axis, as `beam_volumes.cumsum`."""
        return operations().cumsum(self, axis)  # type: ignore[no-any-return]

    def round(self: V, decimals: int = 0) -> V:
        """Round to integers, half to even; ``decimals`` must be 0."""
        if decimals:
            raise ValueError(
                f"round: decimals={decimals!r} is not available; use v.round() without decimals"
            )
        return self if self.dtype.kind in "iub" else np.rint(self)  # type: ignore[call-overload,no-any-return]

    def transpose(self: V, *axes: Any) -> V:
        """Permute the axes, as `beam_volumes.transpose`; reversed by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return operations().transpose(self, order)  # type: ignore[no-any-return]

    @property
    def T(self: V) -> V:
        """The volume with its axes reversed."""
        return operations().transpose(self)  # type: ignore[no-any-return]

    def compute(self: Any, **options: Any) -> np.ndarray:
        """Compute the voxels as an array, as `beam_volumes.compute` with the same options."""
        return driver().compute(self, **options)  # type: ignore[no-any-return]

    def to_dask(self: Any, chunks: Any = "auto") -> dask.array.Array:
        """Make a dask array that computes its blocks with this package; needs dask.

        Parameters
        ----------
        chunks : object, default: "auto"
            Block sizes, as in `dask.array.from_array`.

        Returns
        -------
        dask.array.Array
            Each block is computed with its neighbourhood when dask needs it. A volume that depends
            on numbers or labels of a whole volume is a single block, so that these are computed
            once.

        Raises
        ------
        ImportError
            If dask is not installed.
        ValueError
            If this single block is larger than `options.max_inmemory`.

        Examples
        --------
        >>> v = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
        >>> (v + 1).to_dask().sum().compute()
        np.uint64(300)
        """
        return _to_dask(self, chunks)

    def to_xarray(self: Any, chunks: Any = "auto") -> xarray.DataArray:
        """Make a lazy xarray array with coordinates in the volume's unit; needs xarray and dask.

        Parameters
        ----------
        chunks : object, default: "auto"
            Block sizes, as in `dask.array.from_array`.

        Returns
        -------
        xarray.DataArray
            Dimensions have the names of the volume's axes. Coordinates are positions of voxels, if
            the voxel size is known, and names of channels, if there are any.

        Raises
        ------
        ImportError
            If xarray or dask is not installed.

        Examples
        --------
        >>> v = bv.open(np.zeros((2, 3, 4), "u1"), voxel_size=(40, 8, 8), unit="nm")
        >>> a = v.to_xarray()
        >>> a.dims, a.coords["z"].values.tolist(), a.coords["z"].attrs["units"]
        (('z', 'y', 'x'), [0.0, 40.0], 'nanometer')
        """
        return _to_xarray(self, chunks)

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self), name, None)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)  # it raises the error that explains why
        methods = [n for n in dir(type(self)) if not n.startswith("_")]
        hint = "" if name.startswith("_") else method_hint(name, methods, EXPORTS)
        raise AttributeError(f"a Volume has no attribute {name!r}{hint}")


class Blocks:
    """A volume that returns arrays when sliced, as datasets in files do, for dask.

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


def _to_dask(volume: VolumeCore, chunks: Any = "auto") -> Any:
    try:
        import dask.array as da
    except ImportError:
        raise ImportError("to_dask needs dask: pip install 'dask[array]'") from None
    if not all(map(_is_local, own_below(volume.nodes))):
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


def _is_local(item: Any) -> bool:
    """Whether a part of a node can be computed from its neighbourhood."""
    if not isinstance(item, SourceNode | StageNode | ViewNode | CropNode) or item.values:
        return False
    return not (isinstance(item, StageNode) and 0 in getattr(item.stage, "spans", ()))


def _to_xarray(volume: VolumeCore, chunks: Any = "auto") -> Any:
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
    return xarray.DataArray(_to_dask(volume, chunks), dims=volume.axes, coords=coords)
