"""The two things users hold: a lazy `Volume` of voxels and a lazy `Scalar`."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.docstrings import filled
from beam_volumes.exports import pictured, public
from beam_volumes.geometry import Box, Triple
from beam_volumes.graph import elementwise
from beam_volumes.graph.array_methods import ArrayMethods
from beam_volumes.graph.computing import computed
from beam_volumes.graph.labelled import holds_labels
from beam_volumes.graph.nodes import (
    AcrossNode,
    BarrierValue,
    ConstantValue,
    CropNode,
    Formula,
    FormulaValue,
    Node,
    SourceNode,
    StageNode,
    Value,
    with_sources,
)
from beam_volumes.graph.numpy_functions import OnClass, apply_function, loaded, reduced_by
from beam_volumes.graph.options import options
from beam_volumes.graph.spaces import shared_space, space_of
from beam_volumes.space import AXES, Space
from beam_volumes.storage.arrays import refuse_masked
from beam_volumes.storage.formats import registry
from beam_volumes.storage.objects import is_array_object
from beam_volumes.storage.opening import open_source
from beam_volumes.storage.pyramid import METHODS
from beam_volumes.storage.sink import Sink, make_sink
from beam_volumes.storage.source import Source
from beam_volumes.sweep.stage import digest
from beam_volumes.text import format_bytes

#: The codec that a format has by itself; None is none.
DEFAULT_CODEC = "default"
#: Each channel is a part of the plan.
MOST_CHANNELS = 4096


@filled({"formats": registry.titles_text(), "options": registry.open_options_text()})
def open(
    path: Any,
    *,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
    index: dict[str, int | str] | None = None,
    dataset: str | None = None,
    level: int | None = None,
    mpp: float | None = None,
    **options: Any,
) -> Volume:
    """Open a volume lazily: only metadata is read.

    Parameters
    ----------
    path : str, os.PathLike, dict, array_like or list
        A local path, or a ``s3://``, ``gs://`` or ``https://`` URL; a TensorStore spec; an array
        of 2 to 5 dimensions: t, c, z, y, x, of which the first ones may be missing. Arrays are
        those of numpy, h5py, zarr, dask, xarray, and others that can be sliced. A list or a glob
        of these is one volume, each on top of the one before it along z. The name of a format may
        precede a place, as in ``"precomputed://gs://bucket/em"``. There may be
        %(formats)s
    voxel_size : float or sequence of float, optional
        Extent of a voxel in ``unit``, one for all axes or one for each; that of the metadata by
        default.
    unit : str, optional
        Unit of length, e.g. ``"nm"`` or ``"micrometer"``; that of the metadata by default.
    origin : float or sequence of float, optional
        Position of the first voxel's centre in ``unit``, one number for all axes or one for each;
        that of the metadata by default.
    index : dict, optional
        The time point to open, and the channel if only one is wanted, e.g.
        ``{"t": 0, "c": "DAPI"}``. Axes of extent 1 need none.
    dataset : str, optional
        Path of the array or image inside a group; number or UID of a series of DICOM.
    level : int, optional
        Level of a pyramid; 0, the finest, by default.
    mpp : float, optional
        Micrometers a pixel, instead of ``level``: takes the coarsest level whose pixels are no
        larger, to 5 %%.
    **options : options
        What only some formats understand.
        %(options)s

    Returns
    -------
    Volume
        The lazy volume, with the axes z, y, x, or y, x; with several channels c before them.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    ValueError
        If nothing there can be read, slices are missing, an axis needs ``index``, or voxels are of a
        dtype that is not offered.
    TypeError
        If ``path`` is of another type, or no format has an option.

    Notes
    -----
    Voxels may be of bool, integers or floats of up to 64 bits.

    Examples
    --------
    >>> bv.open(np.zeros((4, 5, 6), "u1"), voxel_size=(4, 1, 1), unit="nm").shape
    (4, 5, 6)
    """
    if isinstance(path, Volume):
        return path
    source = open_source(
        path,
        voxel_size=voxel_size,
        unit=unit,
        origin=origin,
        index=index,
        dataset=dataset,
        level=level,
        mpp=mpp,
        **options,
    )
    return of_source(source)


def of_source(source: Source) -> Volume:
    """Return the volume of a source: a node for each channel, which is one of all points in time."""
    extents = dict(zip(source.space.leading, source.leading, strict=True))
    space = replace(source.space, times=extents.get("t", 0))
    if "c" not in extents:
        return Volume(SourceNode.of(source), space)
    if extents["c"] > MOST_CHANNELS:
        raise ValueError(
            f"{source.name} has {extents['c']:,} channels, and {MOST_CHANNELS:,} are the most: choose one by "
            "index={'c': 0}; or name its axes where they are points in time"
        )
    channels = (source.point("c", k) for k in range(extents["c"]))
    return Volume(tuple(map(SourceNode.of, channels)), space)


def as_volume(item: Any) -> Volume:
    """Return a volume, or open an array."""
    if isinstance(item, Volume):
        return item
    if isinstance(item, np.ndarray) or is_array_object(item):
        return open(item)
    if isinstance(item, str | os.PathLike):
        raise TypeError(f"expected a Volume or an array, not a path: write bv.open({str(item)!r})")
    raise TypeError(f"expected a Volume or an array, not {type(item).__name__} {item!r}")


def from_dask(
    array: Any,
    *,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
    index: dict[str, int | str] | None = None,
) -> Volume:
    """Open a dask array lazily: its blocks are computed when they are read.

    Parameters
    ----------
    array : dask.array.Array
        It has 2 to 5 dimensions: t, c, z, y, x, of which the first ones may be missing.
    voxel_size : float or sequence of float, optional
        Extent of a voxel in ``unit``, one for all axes or one for each.
    unit : str, optional
        Unit of length, e.g. ``"nm"`` or ``"micrometer"``.
    origin : float or sequence of float, optional
        Position of the first voxel's centre in ``unit``, one number for all axes or one for each.
    index : dict, optional
        The time point to open, and the channel if only one is wanted, e.g. ``{"t": 0, "c": 1}``.

    Returns
    -------
    Volume
        The lazy volume.

    Raises
    ------
    ValueError
        If the array has other dimensions, extents that are not known, or a dtype that is not
        offered.
    TypeError
        If ``array`` is not an array.

    See Also
    --------
    open : opens arrays of all libraries, files and URLs.

    Notes
    -----
    The array stays in this process, and so does what is computed of it. Slabs that cut through
    its blocks compute these more than once.

    References
    ----------
    `dask.array.Array`.

    Examples
    --------
    >>> import dask.array as da
    >>> v = bv.from_dask(da.ones((4, 6, 8), chunks=2), voxel_size=8, unit="nm")
    >>> float(bv.sum(v)), v.chunks
    (192.0, (2, 2, 2))
    """
    if not is_array_object(array):
        raise TypeError(
            f"from_dask: expected an array of dask, not {type(array).__name__} {array!r}"
        )
    return open(array, voxel_size=voxel_size, unit=unit, origin=origin, index=index)


def one_channel(item: Any) -> Volume:
    """Return a volume, or open an array; an error if it has channels."""
    volume = as_volume(item)
    _ = volume.node
    return volume


class Volume(ArrayMethods, np.lib.mixins.NDArrayOperatorsMixin):
    """A lazy volume: opened, or computed from others. Nothing is read before it is computed.

    Arithmetic, comparisons and numpy's ufuncs give volumes again, with numpy's casting; so do
    those of numpy's functions that the package has too, such as ``np.where`` and ``np.pad``. Other
    functions compute the voxels first, and warn of it. Slicing crops the result: what lies upstream
    still sees the whole volume. ``np.asarray`` computes, up to ``options.max_inmemory`` bytes.
    `open` and functions of this package make volumes.

    Methods are those of arrays: ``v.mean()``, ``v.max()``, ``v.T``, ``v.compute()``,
    ``v.to_dask()``, ``v.to_xarray()``.

    Attributes
    ----------
    node : Node
        How its voxels are computed, for operations; an error if there are several channels.
    grid_shape : tuple of int
        Number of voxels along z, y and x, for operations; 1 for those that the user does not see.
    shape : tuple of int
        Number of voxels along each axis.
    dtype : numpy.dtype
        Type of the voxels.
    ndim : int
        Number of axes.
    size : int
        Number of voxels.
    nbytes : int
        Bytes of all voxels.
    axes : tuple of str
        Names of the axes, as ``("z", "y", "x")``, or ``("c", "z", "y", "x")`` with channels.
    channels : tuple of str
        Names of the channels; empty without an axis of channels.
    voxel_size : tuple of float or None
        Extent of a voxel along each axis of space, in ``unit``.
    unit : str or None
        Unit of length, by its OME-NGFF name.
    origin : tuple of float
        Position of the first voxel's centre along each axis of space, in ``unit``.
    num_labels : Scalar
        Number of labels, of a result of `label`.
    chunks : tuple of int or None
        Shape of chunks of an opened volume; None for a computed one.

    Examples
    --------
    >>> em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4), voxel_size=(40, 8, 8), unit="nm")
    >>> em
    <Volume a numpy array of shape (2, 3, 4): z=2 y=3 x=4, uint8, 24 B, chunks 1x3x4, voxel 40x8x8 nanometer>
    >>> bright = (em > bv.mean(em))[1]
    >>> bright.shape, bright.dtype, bright.axes
    ((3, 4), dtype('bool'), ('y', 'x'))
    >>> int(np.asarray(bright).sum())
    12
    """

    __slots__ = ("nodes", "space")
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, node: Node | tuple[Node, ...], space: Space):
        self.nodes = (node,) if isinstance(node, Node) else node
        self.space = space

    @property
    def node(self) -> Node:
        """The expression of its voxels; an error if there is one for each channel."""
        if self.space.has_channels:
            names = self.channels
            raise ValueError(
                f"one channel is needed, and there are {len(self.nodes)} ({', '.join(names[:4])}"
                f"{', ...' if len(names) > 4 else ''}): choose one, as v[0] or v.sel(c={names[0]!r})"
            )
        return self.nodes[0]

    @property
    def grid_shape(self) -> Triple:
        """Number of voxels along z, y and x; 1 for those that the user does not see."""
        return self.nodes[0].shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of voxels along each axis."""
        extents = {"t": self.space.times, "c": len(self.nodes)}
        leading = tuple(extents[a] for a in self.space.leading)
        return leading + tuple(self.grid_shape[i] for i in self.space.visible)

    @property
    def dtype(self) -> np.dtype:
        """Type of the voxels."""
        return self.nodes[0].dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.axes)

    @property
    def size(self) -> int:
        """Number of voxels."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all voxels."""
        return self.size * self.dtype.itemsize

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, as ``("z", "y", "x")``."""
        return self.space.all_axes

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels; their numbers where they have none, and nothing without such an axis."""
        if not self.space.has_channels:
            return ()
        return self.space.channels or tuple(map(str, range(len(self.nodes))))

    @property
    def voxel_size(self) -> tuple[float, ...] | None:
        """Extent of a voxel along each axis of space, in `unit`; None if it is not known."""
        size = self.space.voxel_size
        return None if size is None else tuple(size[i] for i in self.space.visible)

    @property
    def unit(self) -> str | None:
        """Unit of length, by its OME-NGFF name; None if it is not known."""
        return self.space.unit

    @property
    def origin(self) -> tuple[float, ...]:
        """Position of the first voxel's centre along each axis of space, in `unit`."""
        return tuple(self.space.origin[i] for i in self.space.visible)

    @property
    def num_labels(self) -> Scalar:
        """Lazy number of labels of a result of `beam_volumes.label`; of others an AttributeError."""
        node = self.nodes[0]
        if not isinstance(node, AcrossNode) or "count" not in node.barrier.survey.empty_numbers():
            raise AttributeError(f"{self!r} is not a result of label: take bv.max of labels 1 to N")
        return Scalar(BarrierValue.of(node.barrier, "count", np.dtype(np.int64)))

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of chunks of an opened volume; None for a computed one."""
        node = self.nodes[0]
        if not isinstance(node, SourceNode):
            return None
        return tuple(node.source.chunk[i] for i in self.space.visible)

    def __repr__(self) -> str:
        axes = " ".join(f"{a}={n}" for a, n in zip(self.axes, self.shape, strict=True))
        size = f", {format_bytes(self.nbytes)}"
        chunks = f", chunks {'x'.join(map(str, self.chunks))}" if self.chunks else ""
        spacing = ""
        if self.voxel_size:
            spacing = (
                f", voxel {'x'.join(f'{v:g}' for v in self.voxel_size)} {self.unit or ''}".rstrip()
            )
        name = self.nodes[0].name
        if self.space.has_channels:
            name = name.removesuffix("[c=0]")
        return f"<Volume {name}: {axes}, {self.dtype}{size}{chunks}{spacing}>"

    def _repr_html_(self) -> str | None:
        return pictured(self)

    def derive(self, node: Node) -> Volume:
        """Make a volume on the same grid: for operations, which know nodes.

        Parameters
        ----------
        node : Node
            How its voxels are computed.

        Returns
        -------
        Volume
            The volume of that node, with the axes, voxel size, unit and origin of this one.

        Examples
        --------
        >>> v = bv.open(np.zeros((2, 3)), voxel_size=8)
        >>> v.derive((v + 1).node).voxel_size
        (8.0, 8.0)
        """
        return Volume(node, self.space)

    def with_space(
        self,
        other: Volume | None = None,
        *,
        voxel_size: float | Sequence[float] | None = None,
        unit: str | None = None,
        origin: float | Sequence[float] | None = None,
    ) -> Volume:
        """Say where the voxels lie: as those of another volume, or by numbers.

        Voxels stay as they are, and so does all that nothing is said of.

        Parameters
        ----------
        other : Volume, optional
            A volume that lies where this one does: its voxel size, unit and origin are taken.
        voxel_size : float or sequence of float, optional
            Extent of a voxel in ``unit``, one number for all axes or one for each.
        unit : str, optional
            Unit of length, e.g. ``"nm"``. Without ``voxel_size``, the unit that the numbers have
            been in all along; with it, the origin is converted.
        origin : float or sequence of float, optional
            Position of the first voxel's centre in ``unit``, one number for all axes or one for
            each.

        Returns
        -------
        Volume
            The same voxels in that place.

        Raises
        ------
        ValueError
            If a number is out of its range, or ``other`` lacks an axis of this volume.
        TypeError
            If nothing is said, or ``other`` is not a volume.

        Notes
        -----
        Arithmetic of volumes that lie differently is refused; this says which place is meant.

        Examples
        --------
        >>> em = bv.open(np.ones((4, 5, 6)), voxel_size=8, unit="nm", origin=(80, 0, 0))
        >>> mask = bv.open(np.ones((4, 5, 6), bool), voxel_size=8, unit="nm")
        >>> (em * mask.with_space(em)).origin
        (80.0, 0.0, 0.0)
        >>> mask.with_space(origin=16).origin
        (16.0, 16.0, 16.0)
        """
        return Volume(self.nodes, space_of(self, other, voxel_size, unit, origin))

    def each(self, function: Callable[[Node], Node], space: Space | None = None) -> Volume:
        """Make a volume of what a function makes of each channel: for operations, which know nodes.

        Parameters
        ----------
        function : callable
            Takes a node, and gives one.
        space : Space, optional
            Axes, voxel size, unit and origin of the result; those of this volume by default.

        Returns
        -------
        Volume
            The volume of those nodes, with the channels of this one.

        Examples
        --------
        >>> v = bv.open(np.zeros((2, 4, 5, 6)))
        >>> v.each(lambda node: node).shape
        (2, 4, 5, 6)
        """
        return Volume(tuple(map(function, self.nodes)), self.space if space is None else space)

    def sel(self, *, c: str | int | Sequence[str | int]) -> Volume:
        """Choose channels by name or number.

        Parameters
        ----------
        c : str, int or sequence of these
            One channel, which drops the axis, or several, which keep it.

        Returns
        -------
        Volume
            The channel, or the channels in the order in which they are named.

        Raises
        ------
        ValueError
            If there is no such channel, or no axis of channels.

        Examples
        --------
        >>> v = bv.stack([np.zeros((2, 3)), np.ones((2, 3))], names=["DAPI", "GFP"])
        >>> v.sel(c="GFP").shape, v.sel(c=["GFP", "DAPI"]).channels
        ((2, 3), ('GFP', 'DAPI'))
        """
        if not self.space.has_channels:
            raise ValueError(f"sel(c={c!r}): {self!r} has no axis of channels")
        if isinstance(c, str | int | np.integer):
            return Volume(self.nodes[self._channel(c)], self.space.of_one("c"))
        at = [self._channel(item) for item in c]
        nodes = tuple(self.nodes[k] for k in at)
        if not at:
            raise ValueError("sel(c=[]) leaves no channel")
        names = tuple(self.space.channels[k] for k in at) if self.space.channels else ()
        return Volume(nodes, replace(self.space, channels=names if len({*at}) == len(at) else ()))

    def _channel(self, item: str | int) -> int:
        """Return the position of a channel."""
        names = self.channels
        if isinstance(item, str):
            if item not in names:
                raise ValueError(f"there is no channel {item!r}; there are {', '.join(names)}")
            return names.index(item)
        if not -len(names) <= item < len(names):
            raise IndexError(f"axis c: index {item} is out of range for extent {len(names)}")
        return int(item) % len(names)

    def __getitem__(self, key: Any) -> Volume:
        keys = list(key) if isinstance(key, tuple) else [key]
        for k in keys:
            _refuse_key(k)
        if sum(k is Ellipsis for k in keys) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        at = next((n for n, k in enumerate(keys) if k is Ellipsis), None)
        if at is not None:
            keys[at : at + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        if len(keys) > self.ndim:
            raise IndexError(f"too many indices: {len(keys)} for the axes {', '.join(self.axes)}")
        keys += [slice(None)] * (self.ndim - len(keys))
        if self.space.times:
            key = _start_and_stop("t", keys.pop(0), self.space.times)
            if isinstance(key, int):
                return at_points(self, key)[tuple(keys)]
            if not range(*key):
                raise IndexError("axis t: no point in time is left")
            if key != (0, self.space.times):
                keys.insert(0, slice(None))
                return at_points(self, key)[tuple(keys)]
        if self.space.has_channels:
            key = keys.pop(0)
            if isinstance(key, slice) and key.step not in (None, 1):
                chosen_c = range(*key.indices(len(self.nodes)))
                rest = [slice(None)] * bool(self.space.times) + [slice(None), *keys]
                if not chosen_c:
                    raise IndexError("axis c: no channel is left")
                return self.sel(c=list(chosen_c))[tuple(rest)]
            key = _start_and_stop("c", key, len(self.nodes))
            if isinstance(key, int):
                keys = [slice(None)] * bool(self.space.times) + keys
                return self.sel(c=key)[tuple(keys)]
            if not range(*key):
                raise IndexError("axis c: no channel is left")
            chosen = self.sel(c=list(range(*key)))
        else:
            chosen = self
        start, stop, steps = [0, 0, 0], list(self.grid_shape), [1, 1, 1]
        kept = list(self.space.axes)
        for axis, k in zip(self.space.axes, keys, strict=True):
            i = AXES.index(axis)
            k, steps[i] = _forwards(k, self.grid_shape[i])
            found = _start_and_stop(axis, k, self.grid_shape[i])
            if isinstance(found, int):
                start[i], stop[i] = found, found + 1
                kept.remove(axis)
            else:
                start[i], stop[i] = found
        box = Box(tuple(start), tuple(stop))  # type: ignore[arg-type]
        space = replace(chosen.space.shifted(box.start), axes=tuple(kept))
        cropped = chosen.each(lambda node: CropNode.of(node, box), space)
        return _stepped(cropped, [steps[i] for i in space.visible])

    def __bool__(self) -> bool:
        raise ValueError(
            "the truth of a lazy volume is not known; compare it, then use bv.max or bv.sum"
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a volume without axes")
        return self.shape[0]

    def __iter__(self) -> Any:
        raise TypeError("a lazy volume is not iterable; slice it, or compute it with numpy.asarray")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a lazy volume has no array to share; numpy.asarray computes one")
        if self.nbytes > options.max_inmemory:
            raise ValueError(
                f"{self!r} is larger than options.max_inmemory, {format_bytes(options.max_inmemory)}; "
                "write it with .to(path), slice it, or raise the limit"
            )
        array = np.asarray(computed(self))
        return array if dtype is None else array.astype(dtype, copy=False)

    def _array_ufunc(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            return reduced_by(ufunc, method, inputs, kwargs)
        if kwargs:
            raise TypeError(f"{', '.join(kwargs)}= of a ufunc is not offered on lazy volumes")
        return apply_ufunc(ufunc.__name__, *inputs)

    def _array_function(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return apply_function(function, types, args, kwargs)

    __array_ufunc__ = OnClass(_array_ufunc)  # type: ignore[assignment]
    __array_function__ = OnClass(_array_function)

    def astype(self, dtype: Any, copy: bool = True) -> Volume:
        """Cast voxels to another dtype.

        Integers wrap around as in numpy. Floats are truncated; those beyond an integer's range
        saturate, and NaN becomes 0.

        Parameters
        ----------
        dtype : dtype
            Bool, an integer or a float of up to 64 bits.
        copy : bool, default: True
            Without effect, as volumes are lazy; numpy has it.

        Returns
        -------
        Volume
            A volume of that dtype.

        Raises
        ------
        TypeError
            If the dtype is not offered.

        Examples
        --------
        >>> np.asarray(bv.open(np.array([[1.9, -3.0, 300.0]])).astype("u1"))
        array([[  1,   0, 255]], dtype=uint8)
        """
        target = checked_dtype(dtype)
        if target == self.dtype:
            return self
        stage = elementwise.Elementwise("astype", target, "astype", (("input", 0),))
        return self.each(lambda node: StageNode.of(stage, (node,)))

    def clip(self, min: Any = None, max: Any = None) -> Volume:
        """Limit the values of voxels to a range, as `beam_volumes.clip` does.

        Parameters
        ----------
        min : number, Scalar, Volume or numpy.ndarray, optional
            Voxels below become this value.
        max : number, Scalar, Volume or numpy.ndarray, optional
            Voxels above become this value.

        Returns
        -------
        Volume
            A volume of the dtype that numpy promotes the volume and its limits to.

        Examples
        --------
        >>> np.asarray(bv.open(np.array([[1, 5, 3]])).clip(2, 4))
        array([[2, 4, 3]])
        """
        result = self
        if min is not None:
            result = np.maximum(result, min)
        if max is not None:
            result = np.minimum(result, max)
        return result

    @filled({"format": registry.names_text(), "options": registry.parameters_text()})
    def to(
        self,
        path: Any,
        *,
        format: str | None = None,
        dtype: Any = None,
        chunks: int | Sequence[int] | None = None,
        shards: bool | int | Sequence[int] | None = None,
        codec: str | Mapping[str, Any] | None = DEFAULT_CODEC,
        zarr_version: int | None = None,
        levels: int | str | None = None,
        method: str | None = None,
        factors: int | Sequence[int] | Sequence[Sequence[int]] | None = None,
        ome_version: str | None = None,
        type: str | None = None,
        mask_value: int | None = None,
        names: str | None = None,
        dataset: str | None = None,
        **others: Any,
    ) -> Target:
        """Say where the volume is to be written; `compute` writes it.

        Parameters
        ----------
        path : str, os.PathLike or dict
            A path, a URL (``s3://``, ``gs://``) or the spec of a TensorStore key-value store.
            It ends in ``.zarr`` (zarr v3) or ``.ome.zarr`` (OME-Zarr 0.5), or in anything with
            ``format``.
        %(format)s
        dtype : dtype, optional
            Type of the stored voxels, the volume's own by default; integers are rounded half to even
            and saturate.
        %(options)s
        **others : options
            Those of formats that other packages register.

        Returns
        -------
        Target
            The volume and its place, for `compute`.

        Raises
        ------
        ValueError
            If the format cannot hold the dtype, an option is out of its range, or the volume
            has less than two axes.
        TypeError
            If an option is not known.

        Examples
        --------
        >>> target = bv.open(np.zeros((4, 5, 6), "u1")).to("out.zarr", chunks=(2, 5, 6), codec="blosc")
        >>> stored = bv.compute(target, runner=None)
        >>> stored.shape, stored.chunks
        ((4, 5, 6), (2, 5, 6))
        """
        if len(self.space.axes) < 2:
            raise ValueError(
                f"cannot write {self!r}: a stored volume has two axes or three; keep an axis by a slice "
                "(v[4:5]), or compute the array"
            )
        said = {
            "chunks": chunks,
            "shards": shards,
            "zarr_version": zarr_version,
            "levels": levels,
            "method": method,
            "factors": factors,
            "ome_version": ome_version,
            "type": type,
            "dataset": dataset,
            "names": names,
            "mask_value": mask_value,
        }
        storage = {**{name: value for name, value in said.items() if value is not None}, **others}
        if codec != DEFAULT_CODEC:
            storage["codec"] = codec
        volume = self if dtype is None else rounded(self, checked_dtype(dtype))
        sink = make_sink(
            path,
            shape=volume.grid_shape,
            dtype=volume.dtype,
            space=volume.space,
            leading=volume.shape[: len(volume.space.leading)],
            labels=holds_labels(volume.nodes),
            format=format,
            **storage,
        )
        made = [volume]
        pyramid = sink.pyramid
        for factors in () if pyramid is None else pyramid.factors:
            by = [factors[a] for a in volume.space.visible]
            how = METHODS[pyramid.method]  # type: ignore[union-attr]
            made.append(public("downsample")(made[-1], by, how))
        return Target(volume, sink, tuple(made[1:]))


def at_points(volume: Volume, at: int | tuple[int, int]) -> Volume:
    """Return a point in time of a volume, or a range of them."""

    def taken(source: Source) -> Source:
        if "t" not in source.space.leading:
            return source
        return source.point("t", at) if isinstance(at, int) else source.span("t", *at)

    nodes = with_sources(volume.nodes, taken)
    if isinstance(at, int):
        return Volume(nodes, volume.space.of_one("t"))
    return Volume(nodes, replace(volume.space, times=at[1] - at[0]))


def _refuse_key(key: Any) -> None:
    """Refuse what an array may be indexed by, and a lazy volume may not; the message says what to write."""
    if key is None:
        raise IndexError(
            "v[None]: a volume has the axes t, c, z, y, x and no others; bv.stack([v]) gives it an axis of "
            "channels, and np.asarray(v)[None] an array with one more"
        )
    if isinstance(key, Volume | Scalar | np.ndarray | list | tuple | bool | np.bool_):
        if (
            getattr(key, "dtype", np.dtype(type(key) if isinstance(key, bool) else object)).kind
            == "b"
        ):
            raise IndexError(
                "v[mask]: how many voxels that is depends on them; bv.where(mask, v, 0) keeps the shape, and "
                "numbers take mask=, as bv.mean(v, mask=mask)"
            )
        raise IndexError(
            f"v[{'...' if hasattr(key, 'shape') else key!r}]: use integers and slices; "
            "bv.concatenate joins several slices, and v.sel(c=[...]) chooses channels"
        )


def _forwards(key: Any, n: int) -> tuple[Any, int]:
    """Return a slice of step 1 that holds what a key chooses, and the step within; -1 is backwards."""
    if not isinstance(key, slice) or key.step in (None, 1):
        return key, 1
    chosen = range(*key.indices(n))
    if not chosen:
        return slice(0, 0), 1
    return slice(min(chosen), max(chosen) + 1), chosen.step


def _stepped(volume: Volume, steps: Sequence[int]) -> Volume:
    """Take every so many-th voxel, backwards where a step is less than 0."""
    first = volume.ndim - len(steps)
    back = [first + i for i, step in enumerate(steps) if step < 0]
    if back:
        volume = public("flip")(volume, back)
    if any(abs(step) > 1 for step in steps) and volume.size:
        volume = public("downsample")(volume, [abs(step) for step in steps], "stride")
    return volume


def _start_and_stop(axis: str, key: Any, n: int) -> int | tuple[int, int]:
    """Read an integer, or a slice of step 1, that indexes an axis of extent ``n``."""
    if isinstance(key, slice):
        a, b, step = key.indices(n)
        if step != 1:
            raise IndexError(
                f"axis {axis}: step {key.step} is not offered; choose points one by one, as v[0]"
                if axis == "t"
                else f"axis {axis}: step {key.step} is not offered; slices have step 1"
            )
        return a, max(a, b)
    try:
        at = operator.index(key)
    except TypeError:
        raise IndexError(f"axis {axis}: {key!r} is not offered; use integers and slices") from None
    if not -n <= at < n:
        raise IndexError(f"axis {axis}: index {at} is out of range for extent {n}")
    return at % n


@dataclass(frozen=True, eq=False)
class Target:
    """A volume and where it is to be written; made by `Volume.to`.

    Attributes
    ----------
    volume : Volume
        The volume.
    sink : Sink
        Its place and format; ``sink.name`` is the path or URL.
    levels : tuple of Volume
        The coarser levels of a pyramid.

    Examples
    --------
    >>> target = bv.open(np.zeros((4, 5, 6), "u1")).to("out.zarr")
    >>> target.volume.shape, target.sink.format
    ((4, 5, 6), 'zarr')
    """

    volume: Volume
    sink: Sink
    levels: tuple[Volume, ...] = ()

    @property
    def written(self) -> list[tuple[Volume, Sink]]:
        """Pairs of a volume and its place: one, or one for each level of a pyramid."""
        return list(zip((self.volume, *self.levels), self.sink.every_level, strict=True))

    def __repr__(self) -> str:
        return f"<Target {self.sink.name} of {self.volume!r}>"


class Scalar(np.lib.mixins.NDArrayOperatorsMixin):
    """A lazy number, or a small lazy array, which is known once volumes have been read.

    It takes part in expressions as a numpy scalar of its dtype would: with volumes it gives
    volumes, with numbers and other lazy numbers it gives lazy numbers. `compute`, ``float()``,
    ``int()`` and ``np.asarray`` compute it. Indexing gives an element, or a slice. Functions such
    as `mean` make such numbers.

    Attributes
    ----------
    dtype : numpy.dtype
        Type of the number.
    shape : tuple of int
        Shape of a lazy array; ``()`` for a number.
    ndim : int
        Number of dimensions; 0 for a number.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 6]]))
    >>> bv.mean(v)
    <lazy float64 scalar: mean>
    >>> np.asarray(v > 2 * bv.mean(v) - 1)
    array([[False, False,  True]])
    >>> float(bv.mean(v)), np.asarray(bv.max(v, axis="y")[1:])
    (3.0, array([2, 6]))
    """

    __slots__ = ("value",)
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, value: Value):
        self.value = value

    @property
    def dtype(self) -> np.dtype:
        """Type of the number."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a lazy array; ``()`` for a number."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions; 0 for a number."""
        return len(self.shape)

    def __repr__(self) -> str:
        kind = "scalar" if not self.shape else f"array {self.shape}"
        return f"<lazy {self.dtype} {kind}: {self.value.name}>"

    def __bool__(self) -> bool:
        raise ValueError("the truth of a lazy scalar is not known; compute it first")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(computed(self), dtype=dtype)

    def __float__(self) -> float:
        return float(computed(self))

    def __int__(self) -> int:
        return int(computed(self))

    def __index__(self) -> int:
        return operator.index(computed(self))

    def __round__(self, digits: int | None = None) -> Any:
        return round(computed(self), digits)

    def __format__(self, spec: str) -> str:
        return format(computed(self), spec) if spec else repr(self)

    def compute(self, **options: Any) -> Any:
        """Compute the number, or the small array.

        Parameters
        ----------
        **options : options
            Those of `beam_volumes.compute`.

        Returns
        -------
        number or numpy.ndarray
            What it is.

        Examples
        --------
        >>> bv.mean(bv.open(np.array([[1, 2, 6]]))).compute()
        np.float64(3.0)
        """
        return public("compute")(self, **options)

    def __getitem__(self, key: Any) -> Scalar:
        result = np.zeros(self.shape, self.dtype)[key]
        return Scalar(FormulaValue.of(Item("item", key), (self.value,), result.dtype, result.shape))

    def _array_ufunc(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(i, Volume) for i in inputs):
            return NotImplemented
        if method != "__call__" or kwargs:
            return loaded(f"np.{ufunc.__name__}", getattr(ufunc, method), inputs, kwargs)
        return apply_ufunc(ufunc.__name__, *inputs)

    def _array_function(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return apply_function(function, types, args, kwargs)

    __array_ufunc__ = OnClass(_array_ufunc)  # type: ignore[assignment]
    __array_function__ = OnClass(_array_function)


@dataclass(frozen=True, eq=False)
class Item(Formula):
    """An element or slice of an array value."""

    key: Any

    def evaluate(self, *arguments: Any) -> Any:
        return arguments[0][self.key]

    def token(self) -> str:
        return digest("item", repr(self.key))


@dataclass(frozen=True, eq=False)
class Ufunc(Formula):
    """A numpy ufunc of evaluated values and constants."""

    def evaluate(self, *arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return getattr(np, self.name)(*arguments)


def lazy(item: Any) -> Value:
    """Return the value of a lazy scalar or a number."""
    return item.value if isinstance(item, Scalar) else ConstantValue.of(item)


def _stand_in(item: Any) -> Any:
    """Something of an operand's type for numpy to infer dtypes from."""
    if isinstance(item, Volume):
        return np.empty(0, item.dtype)
    if isinstance(item, Scalar):
        return np.ones(item.shape, item.dtype)[()]
    return item


def _is_foreign(item: Any) -> bool:
    return not isinstance(item, Volume | Scalar) and is_array_object(item) and item.ndim > 0


def apply_ufunc(name: str, *operands: Any) -> Any:
    """Apply a ufunc to volumes, lazy scalars and numbers, lazily."""
    for o in operands:
        refuse_masked(o)
    operands = tuple(
        open(o) if (isinstance(o, np.ndarray) and o.ndim) or _is_foreign(o) else o for o in operands
    )
    for o in operands:
        if not isinstance(o, Volume | Scalar | bool | int | float | np.generic | np.ndarray):
            raise TypeError(f"{name}: cannot combine a lazy volume with {type(o).__name__} {o!r}")
    volumes = [o for o in operands if isinstance(o, Volume)]
    for o in operands:
        if volumes and isinstance(o, Scalar) and o.shape:
            raise ValueError(f"{name}: {o!r} is not a number; pick an element first")
    dtype = elementwise.result_dtype(name, [_stand_in(o) for o in operands])
    if not volumes:
        values = tuple(lazy(o) for o in operands)
        shape = np.broadcast_shapes(*(v.shape for v in values))
        return Scalar(FormulaValue.of(Ufunc(name), values, dtype, shape))
    if name == "power":
        elementwise.check_power(volumes[0].dtype, operands[1], dtype)
    return elementwise_volume(name, name, dtype, operands)


def elementwise_volume(
    name: str, function: str, dtype: np.dtype, operands: Sequence[Any]
) -> Volume:
    """Compute a volume voxel by voxel from volumes, lazy scalars and numbers.

    Channel by channel; a volume without channels goes with each.
    """
    values: list[Value] = []
    arguments: list[tuple[str, Any]] = []
    volumes = [o for o in operands if isinstance(o, Volume)]
    like = next((v for v in volumes if v.space.has_channels), volumes[0])
    for v in volumes:
        check_alike(name, like, v)
    count = 0
    for o in operands:
        if isinstance(o, Volume):
            arguments.append(("input", count))
            count += 1
        elif isinstance(o, Scalar):
            if o.shape:
                raise ValueError(f"{name}: {o!r} is not a number; pick an element first")
            arguments.append(("value", len(values)))
            values.append(o.value)
        else:
            arguments.append(("constant", o.item() if isinstance(o, np.ndarray) else o))
    stage = elementwise.Elementwise(name, np.dtype(dtype), function, tuple(arguments))
    nodes = (
        StageNode.of(stage, tuple(beside), tuple(values))
        for beside in zip(*(channels_of(v, like) for v in volumes), strict=True)
    )
    return Volume(tuple(nodes), shared_space(name, *volumes))


def check_alike(name: str, like: Volume, v: Volume) -> None:
    """Refuse volumes that do not go together voxel by voxel, or whose channels differ in number."""
    channels = len(v.nodes) if v.space.has_channels else len(like.nodes)
    if (
        len({0, v.space.times, like.space.times}) > 2
        or v.space.axes != like.space.axes
        or v.grid_shape != like.grid_shape
        or channels != len(like.nodes)
    ):
        raise ValueError(
            f"{name}: volumes of shapes {like.shape} ({' '.join(like.axes)}) and {v.shape} "
            f"({' '.join(v.axes)}) do not match; crop them to one shape first"
        )


def channels_of(volume: Volume, like: Volume) -> tuple[Node, ...]:
    """Return the nodes of a volume beside those of another: one without channels goes with each."""
    if volume.space.has_channels or not like.space.has_channels:
        return volume.nodes
    return volume.nodes * len(like.nodes)


def rounded(volume: Volume, dtype: np.dtype) -> Volume:
    """Convert a volume to another dtype; integers are rounded half to even and saturate."""
    if dtype == volume.dtype:
        return volume
    return elementwise_volume("round", "round", dtype, [volume])


def checked_dtype(dtype: Any) -> np.dtype:
    """Return a dtype of real numbers in native byte order; others are an error."""
    result = np.dtype(dtype).newbyteorder("=")
    if result.kind not in "buif" or result.itemsize > 8:
        raise TypeError(
            f"dtype {dtype!r} is not offered; bool, integers and floats up to 64 bits are"
        )
    return result
