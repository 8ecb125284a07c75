"""A lazy volume of voxels, `Volume`, and a volume with the path to write it to, `Target`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from beam_volumes.base.higher import html_of, operations
from beam_volumes.base.hints import checked_methods
from beam_volumes.base.text import filled, format_bytes
from beam_volumes.graph.array_methods import ArrayMethods
from beam_volumes.graph.core import cast, rounded
from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.indexing import indexed
from beam_volumes.graph.nodes import AcrossNode, BarrierValue, SourceNode
from beam_volumes.graph.options import options as settings
from beam_volumes.graph.protocols import LazyOperators, computed
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.spaces import space_of
from beam_volumes.graph.stages import array_nodes
from beam_volumes.graph.traversal import holds_labels
from beam_volumes.storage.formats import registry
from beam_volumes.storage.formats.format import DEFAULT
from beam_volumes.storage.inputs.objects import is_array_object
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.outputs.sink import Sink, make_sink
from beam_volumes.storage.sources.pyramid import METHODS
from beam_volumes.storage.sources.source import Source

#: Each channel is a node of the plan.
MAX_CHANNELS = 4096
#: Options of runs, which outputs do not have.
_OF_RUNS = ("memory", "workers", "runner", "resume", "overwrite", "progress", "slab", "threads")


@checked_methods
class Volume(ArrayMethods, LazyOperators):
    """A lazy volume of voxels, opened or computed from other volumes.

    `open` and the functions of this package return volumes. No voxels are read before `compute`.
    Arithmetic, comparisons and numpy's ufuncs return volumes, with numpy's casting. So do numpy
    functions that this package also has, such as ``np.where`` and ``np.pad``; other numpy functions
    first compute the voxels, with a warning. Slicing crops the result; earlier operations still use
    the whole volume. ``np.asarray`` computes up to ``options.max_inmemory`` bytes.

    Volumes have the methods of arrays: ``v.mean()``, ``v.max()``, ``v.T``, ``v.compute()``,
    ``v.to_dask()``, ``v.to_xarray()``.

    Attributes
    ----------
    node : Node
        The expression of the voxels, for operations; an error if there are several channels.
    grid_shape : tuple of int
        Number of voxels along z, y and x, for operations; 1 along hidden axes.
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
        Names of the channels; empty without a channel axis.
    voxel_size : tuple of float or None
        Extent of a voxel along each spatial axis, in ``unit``.
    unit : str or None
        Unit of length, by its OME-NGFF name.
    origin : tuple of float
        Position of the first voxel's centre along each spatial axis, in ``unit``.
    chunks : tuple of int or None
        Shape of chunks of an opened volume; None for a computed one.
    num_labels : Scalar
        Number of labels, only for a result of `label`.

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

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]

    @property
    def num_labels(self) -> Scalar:
        """Lazy number of labels, for a result of `beam_volumes.label`; otherwise an AttributeError."""
        node = self.nodes[0]
        if not isinstance(node, AcrossNode) or "count" not in node.barrier.survey.empty_numbers():
            raise AttributeError(
                f"{self!r} is not a result of label; for labels numbered 1 to N, use bv.max"
            )
        return Scalar(BarrierValue.of(node.barrier, "count", np.dtype(np.int64)))

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def with_space(
        self,
        other: Volume | None = None,
        *,
        voxel_size: float | Sequence[float] | None = None,
        unit: str | None = None,
        origin: float | Sequence[float] | None = None,
    ) -> Volume:
        """Set the voxel size, unit and origin, from a second volume or from numbers.

        Use it if metadata is missing, or differs between two volumes. Voxels are not resampled.

        Parameters
        ----------
        other : Volume, optional
            A volume at the same position that provides voxel size, unit and origin.
        voxel_size : float or sequence of float, optional
            Extent of a voxel in ``unit``, one number for all axes or one per axis.
        unit : str, optional
            Unit of length, such as ``"nm"``. Without ``voxel_size``, this is the unit of the
            existing numbers; with it, the origin is converted.
        origin : float or sequence of float, optional
            Position of the first voxel's centre in ``unit``, one number for all axes or one per
            axis.

        Returns
        -------
        Volume
            The same voxels with this voxel size, unit and origin.

        Raises
        ------
        ValueError
            If a number is out of range, or ``other`` lacks an axis of this volume.
        TypeError
            If no parameter is given, or ``other`` is not a volume.

        Notes
        -----
        Arithmetic between volumes with different metadata raises an error; this method resolves the
        conflict.

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

    def __getitem__(self, key: Any) -> Volume:
        cropped, steps = indexed(self, key)
        return operations().stepped(cropped, steps) if steps else cropped

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "v[...] = value is not available, because volumes cannot be changed; make a new one "
            "with bv.where(mask, value, v) or bv.concatenate"
        )

    def __bool__(self) -> bool:
        raise ValueError(
            "the truth value of a lazy volume is unknown; compare it, then use bv.max or bv.sum"
        )

    def __iter__(self) -> Any:
        more = ". Their number is labels.num_labels" if hasattr(self, "num_labels") else ""
        raise TypeError(
            f"a lazy volume is not iterable; slice it, or compute it with numpy.asarray{more}"
        )

    def __float__(self) -> float:
        return float(self._voxel())

    def __int__(self) -> int:
        return int(self._voxel())

    def __format__(self, spec: str) -> str:
        return format(self._voxel(), spec) if spec else repr(self)

    def _voxel(self) -> Any:
        """Compute the only voxel of a volume, such as ``v[3, 4, 5]``."""
        if self.shape:
            raise TypeError(
                f"{self!r} is not a number; choose a voxel, such as v{[0] * self.ndim}, or use "
                "bv.mean(v) or bv.max(v)"
            )
        return np.asarray(self)[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a lazy volume has no array to share; numpy.asarray computes one")
        if self.nbytes > settings.max_inmemory:
            raise ValueError(
                f"{self!r} is larger than options.max_inmemory, {format_bytes(settings.max_inmemory)}; "
                "write it with .to(path), slice it, or raise the limit"
            )
        array = np.asarray(computed(self))
        return array if dtype is None else array.astype(dtype, copy=False)

    def astype(self, dtype: Any, copy: bool = True) -> Volume:
        """Cast voxels to a dtype.

        Integers wrap around as in numpy. Floats are truncated and clipped to an integer dtype's
        range, and NaN becomes 0.

        Parameters
        ----------
        dtype : dtype
            Bool, an integer or a float of up to 64 bits.
        copy : bool, default: True
            For compatibility with numpy; has no effect.

        Returns
        -------
        Volume
            A volume with this dtype.

        Raises
        ------
        TypeError
            If the dtype is not supported.

        Examples
        --------
        >>> np.asarray(bv.open(np.array([[1.9, -3.0, 300.0]])).astype("u1"))
        array([[  1,   0, 255]], dtype=uint8)
        """
        return cast(self, checked_dtype(dtype), "astype")

    def clip(self, min: Any = None, max: Any = None) -> Volume:
        """Limit the values of voxels to a range, as `beam_volumes.clip` does.

        Parameters
        ----------
        min : number, Scalar, Volume or numpy.ndarray, optional
            The lower limit; lower voxels are set to this value.
        max : number, Scalar, Volume or numpy.ndarray, optional
            The upper limit; higher voxels are set to this value.

        Returns
        -------
        Volume
            A volume with the dtype to which numpy promotes the volume and the limits.

        Raises
        ------
        TypeError
            If a limit is neither a number nor a volume or an array.
        ValueError
            If a limit is a volume or an array of a different shape.

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
        shards: bool | int | Sequence[int] | str | None = DEFAULT,
        codec: str | Mapping[str, Any] | None = DEFAULT,
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
        """Set the path to write the volume to; `compute` writes it.

        Parameters
        ----------
        path : str, os.PathLike or dict
            A path, a URL (``s3://``, ``gs://``) or the spec of a TensorStore key-value store.
            It ends in ``.zarr`` (zarr v3) or ``.ome.zarr`` (OME-Zarr 0.5); with ``format``, it may
            have any name.
        %(format)s
        dtype : dtype, optional
            Type of the stored voxels, the volume's dtype by default. Integers are rounded half to
            even and clipped to the dtype's range.
        %(options)s
        **others : options
            Options of formats that are registered by other packages.

        Returns
        -------
        Target
            The volume and its path, for `compute`.

        Raises
        ------
        ValueError
            If the format does not support the dtype, an option is out of range, or the volume has
            fewer than two axes.
        TypeError
            If an option is unknown.

        Examples
        --------
        >>> target = bv.open(np.zeros((4, 5, 6), "u1")).to("out.zarr", chunks=(2, 5, 6), codec="blosc")
        >>> stored = bv.compute(target, runner=None)
        >>> stored.shape, stored.chunks
        ((4, 5, 6), (2, 5, 6))
        """
        if len(self.space.axes) < 2:
            raise ValueError(
                f"cannot write {self!r}: a stored volume needs two or three axes; keep an axis "
                "with a slice (v[4:5]), or compute the array"
            )
        options = {
            "chunks": chunks,
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
        storage = {name: value for name, value in options.items() if value is not None} | others
        for name, value in {"codec": codec, "shards": shards}.items():  # None has a meaning
            if not isinstance(value, str) or value != DEFAULT:
                storage[name] = value
        volume = self if dtype is None else rounded(self, checked_dtype(dtype))
        return _target_of(volume, path, format, storage)


@dataclass(frozen=True, eq=False)
class Target:
    """A volume and the path to write it to, as returned by `Volume.to`.

    Attributes
    ----------
    volume : Volume
        The volume.
    sink : Sink
        Path and format; ``sink.name`` is the path or URL.
    levels : tuple of Volume
        The coarser levels of a pyramid.
    request : tuple, optional
        The path, the format and the options of `Volume.to`.

    Examples
    --------
    >>> target = bv.open(np.zeros((4, 5, 6), "u1")).to("out.zarr")
    >>> target.volume.shape, target.sink.format
    ((4, 5, 6), 'zarr')
    """

    volume: Volume
    sink: Sink
    levels: tuple[Volume, ...] = ()
    #: The path, the format and the options of `Volume.to`; None if the sink was made in another way.
    request: tuple[Any, str | None, Mapping[str, Any]] | None = field(default=None, repr=False)

    def stored_as(self, **changes: Any) -> Target:
        """Return the target with different options.

        Parameters
        ----------
        **changes : Any
            Options of `Volume.to`.

        Returns
        -------
        Target

        Raises
        ------
        ValueError
            If the options are not possible, or the target was not made by `Volume.to`.

        Examples
        --------
        >>> target = bv.open(np.zeros((4, 5, 6), "u1")).to("out.zarr")
        >>> target.stored_as(chunks=(2, 5, 6)).sink.format
        'zarr'
        """
        if self.request is None:
            raise ValueError(f"{self.sink.name} has no options")
        path, format, storage = self.request
        return _target_of(self.volume, path, format, {**storage, **changes})

    @property
    def has_automatic_shards(self) -> bool:
        """Whether the format chose the shape of shards."""
        asked = None if self.request is None else self.request[2].get("shards", DEFAULT)
        return self.sink.shard is not None and (asked is True or isinstance(asked, str))

    @property
    def written(self) -> list[tuple[Volume, Sink]]:
        """Pairs of volume and sink, one for each level of a pyramid."""
        return list(zip((self.volume, *self.levels), self.sink.every_level, strict=True))

    def __repr__(self) -> str:
        return f"<Target {self.sink.name} of {self.volume!r}>"


def _target_of(volume: Volume, path: Any, format: str | None, storage: Mapping[str, Any]) -> Target:
    """Return a volume with its path, and coarser levels for pyramids."""
    for option in _OF_RUNS:
        if option in storage:
            raise TypeError(
                f"to: {option}={storage[option]!r} is an option of the run; use "
                f"bv.compute(volume.to(path), {option}=...)"
            )
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
        made.append(operations().downsample(made[-1], by, how))
    return Target(volume, sink, tuple(made[1:]), (path, format, dict(storage)))


def as_volume(item: Any) -> Volume:
    """Return a volume, or open an array as one."""
    if isinstance(item, Volume):
        return item
    if isinstance(item, Scalar):
        return volume_of(item)
    if isinstance(item, np.ndarray) or is_array_object(item):
        return of_source(open_source(item))
    if isinstance(item, str | os.PathLike):
        raise TypeError(f"expected a Volume or an array, not a path: write bv.open({str(item)!r})")
    raise TypeError(f"expected a Volume or an array, not {type(item).__name__} {item!r}")


def as_mask(item: Any) -> Volume:
    """Return a bool volume as it is; of other volumes and arrays, whether voxels are nonzero."""
    volume = as_volume(item)
    return volume if volume.dtype.kind == "b" else volume != 0


def one_channel(item: Any) -> Volume:
    """Return a volume, or open an array as one; refuse several channels."""
    volume = as_volume(item)
    _ = volume.node
    return volume


def volume_of(numbers: Scalar, axes: Sequence[str] | None = None) -> Volume:
    """Return a lazy array as a volume; ``axes`` defaults to the last ones of c, z, y, x."""
    return Volume(*array_nodes(numbers, axes))


def of_source(source: Source) -> Volume:
    """Return the volume of a source, with one node per channel for all time points."""
    extents = dict(zip(source.space.leading, source.leading, strict=True))
    for axis, parts in (("t", "time points"), ("c", "channels")):
        if extents.get(axis) == 0:
            raise ValueError(f"{source.name} has no {parts}; give at least one")
    space = replace(source.space, times=extents.get("t", 0))
    if "c" not in extents:
        return Volume(SourceNode.of(source), space)
    if extents["c"] > MAX_CHANNELS:
        raise ValueError(
            f"{source.name} has {extents['c']:,} channels, and the maximum is {MAX_CHANNELS:,}: choose one "
            "with index={'c': 0}, or use axes='tzyx' if they are time points"
        )
    channels = (source.point("c", k) for k in range(extents["c"]))
    return Volume(tuple(map(SourceNode.of, channels)), space)
