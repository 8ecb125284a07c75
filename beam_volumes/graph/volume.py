"""The two things users hold: a lazy `Volume` of voxels and a lazy `Scalar`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from beam_volumes.geometry import Box
from beam_volumes.graph import elementwise
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
from beam_volumes.space import AXES, Space
from beam_volumes.storage.opening import open_source
from beam_volumes.storage.sink import Sink, make_sink
from beam_volumes.sweep.stage import digest
from beam_volumes.text import format_bytes

#: Set by `beam_volumes.drive.compute`: computes volumes and scalars in this process. Graphs know no runners.
_compute: Callable[..., Any] | None = None


def computes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register what turns expressions into arrays when numpy or a user asks for one."""
    global _compute
    _compute = function
    return function


#: Whether this thread may compute expressions.
_allowed: ContextVar[bool] = ContextVar("beam_volumes_computing_allowed", default=True)


@contextmanager
def nothing_computed() -> Iterator[None]:
    """Refuse what would compute an expression now, e.g. one that stands where an array is needed."""
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


def computed(item: Any) -> Any:
    if not _allowed.get():
        raise ValueError(f"{item!r} would have to be computed first, and cannot stand there")
    if _compute is None:  # its name was not asked for yet: `beam_volumes.exports`
        import_module("beam_volumes.drive.compute")
    assert _compute is not None
    return _compute(item)


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
        A zarr array or OME-Zarr group (v2 or v3, local path, ``s3://`` or ``gs://``), a directory or
        glob of PNG or TIFF slices (natural order), any TensorStore spec, or a numpy array.
    voxel_size : float or sequence of float, optional
        Spacing along each axis in ``unit``; overrides the metadata.
    unit : str, optional
        Length unit, e.g. ``"nm"`` or ``"micrometer"``.
    index : dict, optional
        Which time point and channel, e.g. ``{"t": 0, "c": "DAPI"}``. Axes of extent 1 need none.
    dataset : str, optional
        Path of the array inside a zarr group.
    level : int, optional
        Pyramid level of an OME-Zarr, 0 by default.

    Returns
    -------
    Volume

    Raises
    ------
    ValueError
        Nothing readable is there, slices are missing, or an axis needs a choice.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
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
    """A volume of a volume or an array."""
    if isinstance(item, Volume):
        return item
    if isinstance(item, np.ndarray):
        return open(item)
    raise TypeError(f"expected a Volume or a numpy array, not {type(item).__name__} {item!r}")


class Volume(np.lib.mixins.NDArrayOperatorsMixin):
    """A lazy volume: opened, or computed from others. Nothing is read before `compute`.

    Arithmetic, comparisons and numpy's ufuncs give volumes again, with numpy's casting. Slicing with
    step 1 crops the result: what lies upstream still sees the whole volume. ``np.asarray`` computes,
    up to ``options.max_inmemory`` bytes.

    Attributes
    ----------
    shape, dtype, ndim, size, nbytes
        As of a numpy array.
    axes : tuple of str
        Names of the axes, e.g. ``("z", "y", "x")``.
    voxel_size : tuple of float or None
        Per axis, in ``unit``.
    unit : str or None
        OME-NGFF name of the length unit.
    origin : tuple of float
        Position of the first voxel's centre, in ``unit``.
    chunks : tuple of int or None
        Chunk shape of an opened volume; None for a computed one.
    """

    __slots__ = ("node", "space")
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, node: Node, space: Space):
        self.node = node
        self.space = space

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.node.shape[i] for i in self.space.visible)

    @property
    def dtype(self) -> np.dtype:
        return self.node.dtype

    @property
    def ndim(self) -> int:
        return len(self.space.axes)

    @property
    def size(self) -> int:
        return Box.of_shape(self.node.shape).size

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def axes(self) -> tuple[str, ...]:
        return self.space.axes

    @property
    def voxel_size(self) -> tuple[float, ...] | None:
        size = self.space.voxel_size
        return None if size is None else tuple(size[i] for i in self.space.visible)

    @property
    def unit(self) -> str | None:
        return self.space.unit

    @property
    def origin(self) -> tuple[float, ...]:
        return tuple(self.space.origin[i] for i in self.space.visible)

    @property
    def num_labels(self) -> Scalar:
        """The lazy number of labels of what `beam_volumes.label` gave."""
        if (
            not isinstance(self.node, AcrossNode)
            or "count" not in self.node.barrier.survey.empty_numbers()
        ):
            raise AttributeError(f"{self!r} is not a result of label: take bv.max of labels 1 to N")
        return Scalar(BarrierValue.of(self.node.barrier, "count", np.dtype(np.int64)))

    @property
    def chunks(self) -> tuple[int, ...] | None:
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
        """A volume on the same grid."""
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
        """Cast voxels as numpy does; floats beyond an integer's range saturate and NaN becomes 0.

        Examples
        --------
        >>> import numpy as np
        >>> import beam_volumes as bv
        >>> np.asarray(bv.open(np.array([[1.9, -3.0, 300.0]])).astype("u1"))
        array([[  1,   0, 255]], dtype=uint8)
        """
        target = checked_dtype(dtype)
        if target == self.dtype:
            return self
        stage = elementwise.Elementwise("astype", target, "astype", (("input", 0),))
        return self.derive(StageNode.of(stage, (self.node,)))

    def clip(self, min: Any = None, max: Any = None) -> Volume:
        """Limit the values; see `numpy.clip`."""
        result = self
        if min is not None:
            result = np.maximum(result, min)
        if max is not None:
            result = np.minimum(result, max)
        return result

    def to(self, path: Any, **storage: Any) -> Target:
        """Say where the volume is to be written; `compute` does it.

        Parameters
        ----------
        path : str, os.PathLike or dict
            Ends in ``.zarr`` (zarr v3), ``.ome.zarr`` (OME-Zarr 0.5), or any name with ``format=``.
        **storage
            ``chunks``, ``shards``, ``codec``, ``dtype``, ``format``, ``zarr_version``,
            ``ome_version``; see `beam_volumes.storage.sink.make_sink`.

        Returns
        -------
        Target

        Raises
        ------
        ValueError
            The format cannot hold the dtype, or an option is not known.
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
    """A volume and where it is to be written."""

    volume: Volume
    sink: Sink

    def __repr__(self) -> str:
        return f"<Target {self.sink.name} of {self.volume!r}>"


class Scalar(np.lib.mixins.NDArrayOperatorsMixin):
    """A number (or a small array) that is known only once the volume has been swept.

    It takes part in expressions as a numpy scalar of its dtype would: with volumes it gives volumes,
    with numbers and other scalars it gives scalars. `compute`, ``float()`` and ``np.asarray`` yield it.
    """

    __slots__ = ("value",)
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, value: Value):
        self.value = value

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
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
    """The value of a lazy scalar or a number."""
    return item.value if isinstance(item, Scalar) else ConstantValue.of(item)


def _stand_in(item: Any) -> Any:
    """Something of an operand's type for numpy to infer dtypes from."""
    if isinstance(item, Volume):
        return np.empty(0, item.dtype)
    if isinstance(item, Scalar):
        return np.ones(item.shape, item.dtype)[()]
    return item


def apply_ufunc(name: str, *operands: Any) -> Any:
    """A ufunc on volumes, lazy scalars and numbers, lazily."""
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
    """A volume computed voxel by voxel from volumes, lazy scalars and numbers."""
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
    """The volume in another dtype; integers are rounded half to even and saturate."""
    if dtype == volume.dtype:
        return volume
    return elementwise_volume("round", "round", dtype, [volume])


def checked_dtype(dtype: Any) -> np.dtype:
    """A real number dtype, in native byte order."""
    result = np.dtype(dtype).newbyteorder("=")
    if result.kind not in "buif" or result.itemsize > 8:
        raise TypeError(
            f"dtype {dtype!r} is not offered; bool, integers and floats up to 64 bits are"
        )
    return result


@dataclass
class Options:
    """Settings of this process.

    Attributes
    ----------
    max_inmemory : int
        Largest result in bytes that `compute` and ``np.asarray`` return as an array.
    durable : bool
        Have runs that begin in this process wait for the disk: before a slab is recorded as finished, its
        voxels would survive a power cut.
    """

    max_inmemory: int = 1 << 30
    durable: bool = False


options = Options()
