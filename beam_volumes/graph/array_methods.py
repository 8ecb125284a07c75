"""What a volume has as numpy's arrays have it; each method stands for a function of the package."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beam_volumes.base.exports import EXPORTS, public
from beam_volumes.base.hints import INSTEAD
from beam_volumes.graph.numpy_functions import with_kept_axes

if TYPE_CHECKING:
    import dask.array
    import numpy
    import xarray

    from beam_volumes.graph.scalar import Scalar
    from beam_volumes.graph.volume import Volume

#: What arrays of other libraries have, and what does it here.
_INSTEAD = {
    "values": "np.asarray(v) computes the array",
    "to_numpy": "np.asarray(v) computes the array",
    "data": "np.asarray(v) computes the array",
    "numpy": "np.asarray(v) computes the array",
    "tolist": "np.asarray(v).tolist() computes the voxels",
    "reshape": "a volume keeps its axes; np.asarray(v).reshape(...) computes an array first",
    "ravel": "a volume keeps its axes; np.asarray(v).ravel() computes an array first",
    "flatten": "a volume keeps its axes; np.asarray(v).ravel() computes an array first",
    "rechunk": "v.to(path, chunks=...) stores other chunks",
    "numblocks": "v.chunks is the shape of a chunk of what is stored",
    "fill": "a volume is never changed; bv.where(mask, v, 0) makes a new one",
    "view": "v.astype(dtype) converts; bv.view(v) shows the volume",
    "coords": "v.origin and v.voxel_size say where voxels lie",
    "persist": "v.to(path) and bv.compute store it, and give a volume that reads it",
    "save": "bv.compute(v.to(path)) writes it",
    "to_zarr": "bv.compute(v.to('out.zarr')) writes it",
    "plot": "np.asarray(v[0]) is an array to be shown",
    "isel": "v.sel(c=...) chooses channels, and v[10:20] slices",
    "dims": "v.axes are the names of the axes",
    "name": "v.to(path) gives it a place; it has no name",
}


def _reduced(item: Any, name: str, ours: str, axis: Any, how: dict[str, Any], **numpys: Any) -> Any:
    """Return our lazy number, or numpy's if it has been given what ours does not take."""
    given = {k: v for k, v in numpys.items() if v is not None and v is not False}
    if not given:
        return public(ours)(item, axis, **how)
    if given == {"keepdims": True}:
        return with_kept_axes(public(ours)(item, axis, **how), item, axis)
    import numpy as np

    mask, nan, across = (how.pop(own, None) for own in ("mask", "nan", "across"))
    if mask is not None or nan not in (None, "raise") or across is not None:
        raise TypeError(
            f"{name}: {', '.join(given)} of numpy's do not go with mask=, nan= and across="
        )
    return getattr(np, name)(item, axis=_numbered(item, name, axis), **given, **how)


def _numbered(item: Any, name: str, axis: Any) -> Any:
    """Axes as numpy takes them: by their numbers."""
    if axis is None or isinstance(axis, int):
        return axis
    several = [axis] if isinstance(axis, str) else list(axis)
    for a in several:
        if isinstance(a, str) and a not in item.axes:
            raise ValueError(f"{name}: axis={axis!r}; the volume's axes are {', '.join(item.axes)}")
    numbers = tuple(item.axes.index(a) if isinstance(a, str) else a for a in several)
    return numbers[0] if isinstance(axis, str) else numbers


class ArrayMethods:
    """Methods of numpy's arrays, for volumes."""

    __slots__ = ()

    def mean(
        self: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy mean, as `beam_volumes.mean`; numpy's own parameters load the voxels."""
        return _reduced(
            self,
            "mean",
            "mean",
            axis,
            dict(mask=mask, nan=nan, across=across),
            dtype=dtype,
            out=out,
            keepdims=keepdims,
        )

    def sum(
        self: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy sum, as `beam_volumes.sum`; numpy's own parameters load the voxels."""
        return _reduced(
            self,
            "sum",
            "sum",
            axis,
            dict(mask=mask, nan=nan, across=across),
            dtype=dtype,
            out=out,
            keepdims=keepdims,
        )

    def min(
        self: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy minimum, as `beam_volumes.min`; numpy's own parameters load the voxels."""
        return _reduced(
            self,
            "min",
            "min",
            axis,
            dict(mask=mask, nan=nan, across=across),
            out=out,
            keepdims=keepdims,
        )

    def max(
        self: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy maximum, as `beam_volumes.max`; numpy's own parameters load the voxels."""
        return _reduced(
            self,
            "max",
            "max",
            axis,
            dict(mask=mask, nan=nan, across=across),
            out=out,
            keepdims=keepdims,
        )

    def std(
        self: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy standard deviation, as `beam_volumes.std`; numpy's own parameters load the voxels."""
        return _reduced(
            self,
            "std",
            "std",
            axis,
            dict(mask=mask, nan=nan, ddof=ddof, across=across),
            dtype=dtype,
            out=out,
            keepdims=keepdims,
        )

    def var(
        self: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        """Lazy variance, as `beam_volumes.variance`; numpy's own parameters load the voxels."""
        return _reduced(
            self,
            "var",
            "variance",
            axis,
            dict(mask=mask, nan=nan, ddof=ddof, across=across),
            dtype=dtype,
            out=out,
            keepdims=keepdims,
        )

    def all(
        self: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: Volume | None = None,
        across: str | None = None,
    ) -> Scalar:
        """Whether all voxels are true, as `beam_volumes.all`; numpy's own parameters load the voxels."""
        return _reduced(
            self, "all", "all", axis, dict(mask=mask, across=across), out=out, keepdims=keepdims
        )

    def any(
        self: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        mask: Volume | None = None,
        across: str | None = None,
    ) -> Scalar:
        """Whether any voxel is true, as `beam_volumes.any`; numpy's own parameters load the voxels."""
        return _reduced(
            self, "any", "any", axis, dict(mask=mask, across=across), out=out, keepdims=keepdims
        )

    def copy(self: Any) -> Volume:
        """Return the volume itself: it is never changed."""
        return self  # type: ignore[no-any-return]

    def item(self: Any, *key: int) -> Any:
        """Compute one voxel, as a number of Python's; of more than one numpy says that they are too many."""
        import numpy as np

        return np.asarray(self[key] if key else self).item()

    def cumsum(self: Any, axis: int = 0) -> Volume:
        """Running sum along an axis, as `beam_volumes.cumsum`."""
        return public("cumsum")(self, axis)

    def round(self: Any, decimals: int = 0) -> Volume:
        """Round to whole numbers, half to even; other decimals are not offered."""
        if decimals:
            raise ValueError(f"round: decimals={decimals!r} is not offered; v.round() has none")
        import numpy as np

        return self if self.dtype.kind in "iub" else np.rint(self)

    def transpose(self: Any, *axes: Any) -> Volume:
        """Put the axes in another order, as `beam_volumes.transpose`; reversed by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return public("transpose")(self, order)

    @property
    def T(self: Any) -> Volume:
        """The volume with its axes reversed."""
        return public("transpose")(self)

    def compute(self: Any, **options: Any) -> numpy.ndarray:
        """Compute the voxels, as `beam_volumes.compute` with the same options; gives an array."""
        return public("compute")(self, **options)

    def to_dask(self: Any, chunks: Any = "auto") -> dask.array.Array:
        """Make a dask array whose blocks are computed by this package; needs dask.

        Parameters
        ----------
        chunks : object, default: "auto"
            As of `dask.array.from_array`.

        Returns
        -------
        dask.array.Array
            Each block is computed, with what it needs around it, when dask asks for it. What rests on
            numbers or labels of a whole volume is one block, so that these are found once.

        Raises
        ------
        ImportError
            If dask is not installed.
        ValueError
            If it would be one block, and that is larger than `options.max_inmemory`.

        Examples
        --------
        >>> v = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
        >>> (v + 1).to_dask().sum().compute()
        np.uint64(300)
        """
        from beam_volumes.graph.interchange import to_dask

        return to_dask(self, chunks)

    def to_xarray(self: Any, chunks: Any = "auto") -> xarray.DataArray:
        """Make a lazy array of xarray with coordinates in the volume's unit; needs xarray and dask.

        Parameters
        ----------
        chunks : object, default: "auto"
            As of `dask.array.from_array`.

        Returns
        -------
        xarray.DataArray
            Its dimensions are the volume's axes; its coordinates, if the voxel size is known, where
            voxels lie; the names of channels, if they have some.

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
        from beam_volumes.graph.interchange import to_xarray

        return to_xarray(self, chunks)

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self), name, None)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)  # which has said why there is none
        if name.startswith("_"):
            raise AttributeError(f"a Volume has no attribute {name!r}")
        if name in _INSTEAD:
            raise AttributeError(f"a Volume has no attribute {name!r}: {_INSTEAD[name]}")
        if name in EXPORTS:
            raise AttributeError(f"a Volume has no attribute {name!r}: write bv.{name}(v, ...)")
        raise AttributeError(f"a Volume has no attribute {name!r}{_nearest_of(self, name)}")


def _nearest_of(item: Any, name: str) -> str:
    own: Sequence[str] = [n for n in dir(type(item)) if not n.startswith("_")]
    if name in INSTEAD:
        return f": {INSTEAD[name]}"
    if close := difflib.get_close_matches(name, own, 1, 0.7):
        return f"; did you mean {close[0]!r}?"
    if close := difflib.get_close_matches(name, EXPORTS, 1, 0.75):
        return f"; did you mean bv.{close[0]}(v, ...)?"
    return ""
