"""The two things users hold: a lazy `Volume` of voxels and a lazy `Scalar`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.docstrings import filled
from beam_volumes.geometry import Box
from beam_volumes.graph import elementwise
from beam_volumes.graph.computing import computed
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
)
from beam_volumes.graph.options import options
from beam_volumes.space import AXES, Space
from beam_volumes.storage.formats import registry
from beam_volumes.storage.opening import open_source
from beam_volumes.storage.sink import Sink, make_sink
from beam_volumes.sweep.stage import digest
from beam_volumes.text import format_bytes


def open(
    path: Any,
    *,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    index: dict[str, int | str] | None = None,
    dataset: str | None = None,
    level: int | None = None,
) -> Volume:
    """Open a volume lazily: only metadata is read.

    Parameters
    ----------
    path : str, os.PathLike, dict or array_like
        A zarr array or an OME-Zarr image (v2 or v3; a local path, ``s3://`` or ``gs://``), a
        directory or glob of PNG or TIFF slices (in natural order), a TensorStore spec, or a
        numpy array of 2 to 5 dimensions, of which the last ones are z, y, x.
    voxel_size : float or sequence of float, optional
        Extent of a voxel in ``unit``, one for all axes or one for each; that of the metadata by
        default.
    unit : str, optional
        Unit of length, e.g. ``"nm"`` or ``"micrometer"``; that of the metadata by default.
    index : dict, optional
        The time point and the channel to open, e.g. ``{"t": 0, "c": "DAPI"}``. Axes of extent 1
        need none.
    dataset : str, optional
        Path of the array or image inside a group.
    level : int, optional
        Level of an OME-Zarr pyramid; 0, the finest, by default.

    Returns
    -------
    Volume
        The lazy volume, with the axes z, y, x, or y, x.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    ValueError
        If nothing there can be read, slices are missing, an axis needs ``index``, or voxels are of a
        dtype that is not offered.
    TypeError
        If ``path`` is of another type.

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
        path, voxel_size=voxel_size, unit=unit, index=index, dataset=dataset, level=level
    )
    return Volume(SourceNode.of(source), source.space)


def as_volume(item: Any) -> Volume:
    """Return a volume, or open an array."""
    if isinstance(item, Volume):
        return item
    if isinstance(item, np.ndarray):
        return open(item)
    raise TypeError(f"expected a Volume or a numpy array, not {type(item).__name__} {item!r}")


class Volume(np.lib.mixins.NDArrayOperatorsMixin):
    """A lazy volume: opened, or computed from others. Nothing is read before it is computed.

    Arithmetic, comparisons and numpy's ufuncs give volumes again, with numpy's casting. Slicing
    with step 1 crops the result: what lies upstream still sees the whole volume. ``np.asarray``
    computes, up to ``options.max_inmemory`` bytes. `open` and functions of this package make
    volumes.

    Attributes
    ----------
    shape : tuple of int
        Number of voxels along each axis.
    dtype : numpy.dtype
        Type of the voxels.
    ndim : int
        Number of axes, up to three.
    size : int
        Number of voxels.
    nbytes : int
        Bytes of all voxels.
    axes : tuple of str
        Names of the axes, as ``("z", "y", "x")``.
    voxel_size : tuple of float or None
        Extent of a voxel along each axis, in ``unit``.
    unit : str or None
        Unit of length, by its OME-NGFF name.
    origin : tuple of float
        Position of the first voxel's centre along each axis, in ``unit``.
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

    __slots__ = ("node", "space")
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, node: Node, space: Space):
        self.node = node
        self.space = space

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of voxels along each axis."""
        return tuple(self.node.shape[i] for i in self.space.visible)

    @property
    def dtype(self) -> np.dtype:
        """Type of the voxels."""
        return self.node.dtype

    @property
    def ndim(self) -> int:
        """Number of axes, up to three."""
        return len(self.space.axes)

    @property
    def size(self) -> int:
        """Number of voxels."""
        return Box.of_shape(self.node.shape).size

    @property
    def nbytes(self) -> int:
        """Bytes of all voxels."""
        return self.size * self.dtype.itemsize

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, as ``("z", "y", "x")``."""
        return self.space.axes

    @property
    def voxel_size(self) -> tuple[float, ...] | None:
        """Extent of a voxel along each axis, in `unit`; None if it is not known."""
        size = self.space.voxel_size
        return None if size is None else tuple(size[i] for i in self.space.visible)

    @property
    def unit(self) -> str | None:
        """Unit of length, by its OME-NGFF name; None if it is not known."""
        return self.space.unit

    @property
    def origin(self) -> tuple[float, ...]:
        """Position of the first voxel's centre along each axis, in `unit`."""
        return tuple(self.space.origin[i] for i in self.space.visible)

    @property
    def num_labels(self) -> Scalar:
        """Lazy number of labels of a result of `beam_volumes.label`; of others an AttributeError."""
        if (
            not isinstance(self.node, AcrossNode)
            or "count" not in self.node.barrier.survey.empty_numbers()
        ):
            raise AttributeError(f"{self!r} is not a result of label: take bv.max of labels 1 to N")
        return Scalar(BarrierValue.of(self.node.barrier, "count", np.dtype(np.int64)))

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of chunks of an opened volume; None for a computed one."""
        if not isinstance(self.node, SourceNode):
            return None
        return tuple(self.node.source.chunk[i] for i in self.space.visible)

    def __repr__(self) -> str:
        axes = " ".join(f"{a}={n}" for a, n in zip(self.axes, self.shape, strict=True))
        size = f", {format_bytes(self.nbytes)}"
        chunks = f", chunks {'x'.join(map(str, self.chunks))}" if self.chunks else ""
        spacing = ""
        if self.voxel_size:
            spacing = (
                f", voxel {'x'.join(f'{v:g}' for v in self.voxel_size)} {self.unit or ''}".rstrip()
            )
        return f"<Volume {self.node.name}: {axes}, {self.dtype}{size}{chunks}{spacing}>"

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

    def __getitem__(self, key: Any) -> Volume:
        keys = list(key) if isinstance(key, tuple) else [key]
        if keys.count(Ellipsis) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        if len(keys) > self.ndim:
            raise IndexError(f"too many indices: {len(keys)} for the axes {', '.join(self.axes)}")
        keys += [slice(None)] * (self.ndim - len(keys))
        start, stop = [0, 0, 0], list(self.node.shape)
        kept = list(self.space.axes)
        for axis, k in zip(self.space.axes, keys, strict=True):
            i = AXES.index(axis)
            n = self.node.shape[i]
            if isinstance(k, slice):
                a, b, step = k.indices(n)
                if step != 1:
                    raise IndexError(
                        f"axis {axis}: step {k.step} is not offered; slices have step 1"
                    )
                start[i], stop[i] = a, max(a, b)
                continue
            try:
                at = operator.index(k)
            except TypeError:
                raise IndexError(
                    f"axis {axis}: {k!r} is not offered; use integers and slices of step 1"
                ) from None
            if not -n <= at < n:
                raise IndexError(f"axis {axis}: index {at} is out of range for extent {n}")
            start[i], stop[i] = at % n, at % n + 1
            kept.remove(axis)
        box = Box(tuple(start), tuple(stop))  # type: ignore[arg-type]
        space = replace(self.space.shifted(box.start), axes=tuple(kept))
        return Volume(CropNode.of(self.node, box), space)

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

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            what = (
                f"{ufunc.__name__}.{method}"
                if method != "__call__"
                else f"{', '.join(kwargs)}= of a ufunc"
            )
            raise TypeError(f"{what} is not offered on lazy volumes")
        return apply_ufunc(ufunc.__name__, *inputs)

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
        return self.derive(StageNode.of(stage, (self.node,)))

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

    @filled({"options": registry.options_text()})
    def to(self, path: Any, **storage: Any) -> Target:
        """Say where the volume is to be written; `compute` writes it.

        Parameters
        ----------
        path : str, os.PathLike or dict
            A path, a URL (``s3://``, ``gs://``) or the spec of a TensorStore key-value store.
            It ends in ``.zarr`` (zarr v3) or ``.ome.zarr`` (OME-Zarr 0.5), or in anything with
            ``format``.
        **storage : options
            ``dtype`` : dtype to store; integers are rounded half to even and saturate.
            %(options)s

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
        if self.ndim < 2:
            raise ValueError(
                f"cannot write {self!r}: a stored volume has two axes or three; keep an axis by a slice "
                "(v[4:5]), or compute the array"
            )
        volume = self
        if storage.get("dtype") is not None:
            volume = rounded(self, checked_dtype(storage["dtype"]))
        storage.pop("dtype", None)
        sink = make_sink(
            path, shape=volume.node.shape, dtype=volume.dtype, space=volume.space, **storage
        )
        return Target(volume, sink)


@dataclass(frozen=True, eq=False)
class Target:
    """A volume and where it is to be written; made by `Volume.to`.

    Attributes
    ----------
    volume : Volume
        The volume.
    sink : Sink
        Its place and format; ``sink.name`` is the path or URL.

    Examples
    --------
    >>> target = bv.open(np.zeros((4, 5, 6), "u1")).to("out.zarr")
    >>> target.volume.shape, target.sink.format
    ((4, 5, 6), 'zarr')
    """

    volume: Volume
    sink: Sink

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

    def __getitem__(self, key: Any) -> Scalar:
        result = np.zeros(self.shape, self.dtype)[key]
        return Scalar(FormulaValue.of(Item("item", key), (self.value,), result.dtype, result.shape))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(i, Volume) for i in inputs):
            return NotImplemented
        if method != "__call__" or kwargs:
            raise TypeError(
                f"{ufunc.__name__}.{method} with {sorted(kwargs)} is not offered on lazy scalars"
            )
        return apply_ufunc(ufunc.__name__, *inputs)


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


def apply_ufunc(name: str, *operands: Any) -> Any:
    """Apply a ufunc to volumes, lazy scalars and numbers, lazily."""
    operands = tuple(open(o) if isinstance(o, np.ndarray) and o.ndim else o for o in operands)
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
    """Compute a volume voxel by voxel from volumes, lazy scalars and numbers."""
    nodes: list[Node] = []
    values: list[Value] = []
    arguments: list[tuple[str, Any]] = []
    like = next(o for o in operands if isinstance(o, Volume))
    for o in operands:
        if isinstance(o, Volume):
            if o.axes != like.axes or o.shape != like.shape:
                raise ValueError(
                    f"{name}: volumes of shapes {like.shape} ({' '.join(like.axes)}) and {o.shape} "
                    f"({' '.join(o.axes)}) do not match; crop them to one shape first"
                )
            arguments.append(("input", len(nodes)))
            nodes.append(o.node)
        elif isinstance(o, Scalar):
            if o.shape:
                raise ValueError(f"{name}: {o!r} is not a number; pick an element first")
            arguments.append(("value", len(values)))
            values.append(o.value)
        else:
            arguments.append(("constant", o.item() if isinstance(o, np.ndarray) else o))
    stage = elementwise.Elementwise(name, np.dtype(dtype), function, tuple(arguments))
    return like.derive(StageNode.of(stage, tuple(nodes), tuple(values)))


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
