"""Methods of numpy arrays for volumes; `ops.array_api.methods` implements them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from beam_volumes.base.exports import EXPORTS, above
from beam_volumes.base.hints import method_hint
from beam_volumes.graph import interchange
from beam_volumes.graph.core import V, VolumeCore
from beam_volumes.graph.scalar import Scalar

if TYPE_CHECKING:
    import dask.array
    import xarray

    from beam_volumes.graph.volume import Volume

Method = TypeVar("Method", bound=Callable[..., Any])


def _reduction(name: str, result: str, parameters: Method) -> Method:
    """Make a reduction method with the signature of a declared method."""
    signature = inspect.signature(parameters)

    @functools.wraps(parameters)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(self, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        return above("array_api").reduced(name, **given)

    ours = "variance" if name == "var" else name
    method.__doc__ = f"{result}, as `beam_volumes.{ours}`; numpy's own parameters load the voxels."
    method.__name__, method.__qualname__ = name, f"ArrayMethods.{name}"
    return method  # type: ignore[return-value]


def _with_dtype(
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
    raise NotImplementedError


def _with_ddof(
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
    raise NotImplementedError


def _of_its_dtype(
    self: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    raise NotImplementedError


def _of_places(
    self: Any,
    axis: Any = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    mask: Volume | None = None,
    nan: str = "raise",
) -> Scalar:
    raise NotImplementedError


def _of_truth(
    self: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    mask: Volume | None = None,
    across: str | None = None,
) -> Scalar:
    raise NotImplementedError


class ArrayMethods(VolumeCore):
    """Methods of numpy's arrays, for volumes."""

    __slots__ = ()

    mean = _reduction("mean", "Lazy mean", _with_dtype)
    sum = _reduction("sum", "Lazy sum", _with_dtype)
    min = _reduction("min", "Lazy minimum", _of_its_dtype)
    max = _reduction("max", "Lazy maximum", _of_its_dtype)
    std = _reduction("std", "Lazy standard deviation", _with_ddof)
    var = _reduction("var", "Lazy variance", _with_ddof)
    all = _reduction("all", "Whether all voxels are true", _of_truth)
    any = _reduction("any", "Whether any voxel is true", _of_truth)
    argmax = _reduction("argmax", "Index of the largest voxel", _of_places)
    argmin = _reduction("argmin", "Index of the smallest voxel", _of_places)

    def copy(self: V) -> V:
        """Return the volume itself, because volumes are immutable."""
        return self

    def item(self: Any, *key: int) -> Any:
        """Compute a single voxel as a Python number; an error if there are several."""
        return np.asarray(self[key] if key else self).item()

    def cumsum(self: V, axis: int = 0) -> V:
        """Running sum along an axis, as `beam_volumes.cumsum`."""
        return above("array_api").cumsum(self, axis)  # type: ignore[no-any-return]

    def round(self: V, decimals: int = 0) -> V:
        """Round to integers, half to even; ``decimals`` must be 0."""
        if decimals:
            raise ValueError(f"round: decimals={decimals!r} is not available; v.round() has none")
        return self if self.dtype.kind in "iub" else np.rint(self)  # type: ignore[call-overload,no-any-return]

    def transpose(self: V, *axes: Any) -> V:
        """Permute the axes, as `beam_volumes.transpose`; reversed by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return above("array_api").transpose(self, order)  # type: ignore[no-any-return]

    @property
    def T(self: V) -> V:
        """The volume with its axes reversed."""
        return above("array_api").transpose(self)  # type: ignore[no-any-return]

    def compute(self: Any, **options: Any) -> np.ndarray:
        """Compute the voxels as an array, as `beam_volumes.compute` with the same options."""
        return above("compute").compute(self, **options)  # type: ignore[no-any-return]

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
        return interchange.to_dask(self, chunks)

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
        return interchange.to_xarray(self, chunks)

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self), name, None)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)  # it raises the error that explains why
        methods = [n for n in dir(type(self)) if not n.startswith("_")]
        hint = "" if name.startswith("_") else method_hint(name, methods, EXPORTS)
        raise AttributeError(f"a Volume has no attribute {name!r}{hint}")
