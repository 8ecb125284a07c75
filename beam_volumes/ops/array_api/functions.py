"""numpy's functions of volumes and lazy numbers: lazy if this package has them; others load the voxels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume
from beam_volumes.ops import pointwise
from beam_volumes.ops.array_api.ufuncs import flat, loaded
from beam_volumes.ops.geometry.channels import stack
from beam_volumes.ops.geometry.joining import concatenate
from beam_volumes.ops.geometry.rearrange import flip, pad, transpose
from beam_volumes.ops.measure import places, reductions, statistics
from beam_volumes.ops.measure.distributions import histogram, percentile
from beam_volumes.ops.morphology.distance import cumsum


class NoTwin(Exception):
    """A call without a lazy function."""


#: For each function of numpy, a lazy one with the same arguments.
TWINS: dict[Callable[..., Any], Callable[..., Any]] = {}


def _twin_of(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TWINS.update({getattr(np, name): function for name in names if hasattr(np, name)})
        return function

    return register


def call_function(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function of numpy with volumes or lazy numbers among its arguments."""
    twin = TWINS.get(function)
    if twin is not None and any(isinstance(item, Volume) for item in flat([args, kwargs])):
        try:
            return twin(*args, **kwargs)
        except NoTwin:
            pass
    module = function.__module__.replace("numpy", "np", 1)
    return loaded(f"{module}.{function.__name__}", function, args, kwargs)


_GIVEN_NOTHING = (None, np._NoValue)


def _without(**kwargs: Any) -> None:
    """Leave a call to numpy if any of these arguments is given."""
    if any(all(value is not n for n in _GIVEN_NOTHING) for value in kwargs.values()):
        raise NoTwin


# Numbers of a volume.


def with_kept_axes(result: Any, volume: Any, axis: Any) -> Any:
    """Add reduced axes to a result, with extent 1."""
    if isinstance(result, Volume):  # only time points or channels were reduced
        if result.space.times != volume.space.times:
            raise ValueError(
                f"keepdims=True is not available for axis={axis!r}, because a volume cannot have "
                "one time point; leave keepdims out"
            )
        space = result.space.with_leading(result.space.times, True, ())
        return Volume(result.nodes, space)
    names = [a for a in volume.axes if a != "t"]  # time points are reduced separately
    items = (
        names
        if axis is None
        else [axis]
        if isinstance(axis, int | np.integer | str)
        else list(axis)
    )
    gone = {a if isinstance(a, str) else volume.axes[a] for a in items}
    return result[tuple(np.newaxis if a in gone else slice(None) for a in names)]


def _reduction(ours: Callable[..., Any], *, nan: str | None = None) -> Callable[..., Any]:
    def reduced(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        where: Any = None,
        **kwargs: Any,
    ) -> Any:
        if keepdims is np._NoValue:
            keepdims = False
        ddof = kwargs.pop("ddof", 0) or kwargs.pop("correction", 0)
        _without(dtype=dtype, out=out, **kwargs)
        everywhere = where is None or where is True or where is np._NoValue
        how: dict[str, Any] = {} if everywhere else {"mask": where}
        if nan is not None:
            how["nan"] = nan
        if ddof:
            how["ddof"] = ddof
        result = ours(a, axis, **how)
        return with_kept_axes(result, a, axis) if keepdims else result

    return reduced


def _without_dtype(reduced: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap functions with ``out`` as their third argument."""
    return lambda a, axis=None, out=None, **kwargs: reduced(a, axis, None, out, **kwargs)


for _name, _ours in {
    "mean": reductions.mean,
    "sum": reductions.sum,
    "std": reductions.std,
    "var": reductions.variance,
}.items():
    _twin_of(_name)(_reduction(_ours))
    _twin_of(f"nan{_name}")(_reduction(_ours, nan="omit"))
for _name, _ours in {"max": reductions.max, "min": reductions.min}.items():
    _twin_of(_name, f"a{_name}")(_without_dtype(_reduction(_ours)))
    _twin_of(f"nan{_name}")(_without_dtype(_reduction(_ours, nan="omit")))
_twin_of("argmax")(_without_dtype(_reduction(places.argmax)))
_twin_of("argmin")(_without_dtype(_reduction(places.argmin)))
_twin_of("all")(_without_dtype(_reduction(statistics.all)))
_twin_of("any")(_without_dtype(_reduction(statistics.any)))


@_twin_of("count_nonzero")
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    _without(keepdims=keepdims or None)
    return statistics.count_nonzero(a, axis)


@_twin_of("percentile")
def _percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, **kwargs: Any
) -> Any:
    method = kwargs.pop("method", "linear")
    _without(out=out, method=None if method == "linear" else method)
    if kwargs.pop("keepdims", False) or any(value is not None for value in kwargs.values()):
        raise NoTwin
    return percentile(a, q, axis)


@_twin_of("quantile")
def _quantile(a: Any, q: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
    return _percentile(a, np.asarray(q) * 100, axis, *args, **kwargs)


@_twin_of("median")
def _median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Any:
    return _percentile(a, 50, axis, out, keepdims=keepdims)


@_twin_of("average")
def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, **kw: Any
) -> Any:
    _without(weights=weights, returned=returned or None, **kw)
    return reductions.mean(a, axis)


@_twin_of("ptp")
def _ptp(a: Any, axis: Any = None, out: Any = None, **kwargs: Any) -> Any:
    _without(out=out, **kwargs)
    return reductions.max(a, axis) - reductions.min(a, axis)


@_twin_of("histogram")
def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    _without(density=density, weights=weights)
    if not isinstance(bins, int):
        raise NoTwin
    return histogram(a, bins, range)


@_twin_of("isclose")
def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    if equal_nan or np.ndim(rtol) or np.ndim(atol):
        raise NoTwin
    # The same steps as numpy, for the same bits.
    b = b.astype(np.result_type(b.dtype, 1.0)) if hasattr(b, "dtype") else float(b)
    near = np.less_equal(abs(a - b), atol + rtol * abs(b))
    return near & np.isfinite(b) | (a == b)


@_twin_of("allclose")
def _allclose(a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
    return bool(np.asarray(statistics.all(_isclose(a, b, *args, **kwargs))))


@_twin_of("array_equal")
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    if equal_nan:
        raise NoTwin
    return np.shape(a1) == np.shape(a2) and bool(np.asarray(statistics.all(a1 == a2)))


# Voxel by voxel.


@_twin_of("clip")
def _clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **kw: Any,
) -> Any:
    _without(out=out, **kw)
    low = min if a_min is None or a_min is np._NoValue else a_min
    high = max if a_max is None or a_max is np._NoValue else a_max
    return pointwise.clip(a, *(None if x is np._NoValue else x for x in (low, high)))


@_twin_of("where")
def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2:
        raise NoTwin
    return pointwise.where(condition, *choices)


@_twin_of("round", "around")
def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    _without(out=out, decimals=decimals or None)
    return a if a.dtype.kind in "iub" else np.rint(a)


@_twin_of("astype")
def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype)


@_twin_of("copy", "real")
def _same(a: Any, *args: Any, **kwargs: Any) -> Any:
    return a


@_twin_of("nan_to_num")
def _nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    if x.dtype.kind != "f":
        return x
    limits = np.finfo(x.dtype)
    where, number = pointwise.where, x.dtype.type
    x = where(np.isnan(x), number(nan), x)
    x = where(x == number(np.inf), number(limits.max if posinf is None else posinf), x)
    return where(x == number(-np.inf), number(limits.min if neginf is None else neginf), x)


# Other shapes.


@_twin_of("pad")
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    value = kwargs.pop("constant_values", 0)
    if kwargs or not isinstance(mode, str) or np.ndim(value):
        raise NoTwin
    return pad(array, pad_width, mode, value)


_twin_of("transpose", "permute_dims")(lambda a, axes=None: transpose(a, axes))
_twin_of("flip")(lambda m, axis=None: flip(m, axis))
_twin_of("flipud")(lambda m: flip(m, 0))
_twin_of("fliplr")(lambda m: flip(m, 1))


@_twin_of("swapaxes")
def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(a, order)


@_twin_of("moveaxis")
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    stand_in = np.moveaxis(np.empty(tuple(range(a.ndim))), source, destination)
    return transpose(a, stand_in.shape)


@_twin_of("rot90")
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    first, second = (int(a) % m.ndim for a in axes)
    if first == second:
        raise NoTwin  # numpy's error explains it
    if k % 2 == 0:
        return m if k % 4 == 0 else flip(m, (first, second))
    if k % 4 == 1:
        return _swapaxes(flip(m, second), first, second)
    return flip(_swapaxes(m, first, second), second)


@_twin_of("squeeze")
def _squeeze(a: Any, axis: Any = None) -> Any:
    kept = np.squeeze(np.broadcast_to(np.int8(0), a.shape), axis)
    if axis is not None and kept.ndim != a.ndim - np.size(axis):
        raise NoTwin
    chosen = range(a.ndim) if axis is None else {int(i) % a.ndim for i in np.atleast_1d(axis)}
    return a[tuple(0 if n == 1 and i in chosen else slice(None) for i, n in enumerate(a.shape))]


@_twin_of("cumsum")
def _cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    _without(dtype=dtype, out=out)
    if axis is None:
        raise NoTwin
    return cumsum(a, axis)


@_twin_of("diff")
def _diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue
) -> Any:
    _without(prepend=prepend, append=append)
    axis = range(a.ndim)[axis]
    for _ in range(n):
        first, second = a[_along(axis, 0, -1)], a[_along(axis, 1, None)]
        a = second != first if a.dtype == bool else second - first
    return a


@_twin_of("concatenate", "concat")
def _concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    _without(out=out, dtype=dtype, **kwargs)
    if axis is None:
        raise NoTwin
    return concatenate(arrays, axis)


def _stacked_along(axis: int) -> Callable[..., Any]:
    def stacked(tup: Any, **kwargs: Any) -> Any:
        if any(np.ndim(a) <= max(axis, 1) for a in tup):
            raise NoTwin
        return _concatenate(tup, axis, **kwargs)

    return stacked


for _axis, _name in enumerate(("vstack", "hstack", "dstack")):
    _twin_of(_name)(_stacked_along(_axis))


def _along(axis: int, start: int, stop: int | None) -> tuple[slice, ...]:
    return (slice(None),) * axis + (slice(start, stop),)


@_twin_of("roll")
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None or np.ndim(axis) or np.ndim(shift):
        raise NoTwin
    axis = range(a.ndim)[int(axis)]
    n = a.shape[axis]
    k = int(shift) % n if n else 0
    if not k:
        return a
    last, first = a[_along(axis, n - k, n)], a[_along(axis, 0, n - k)]
    return concatenate([last, first], axis).with_space(a)


def _split_by(function: Callable[..., Any]) -> Callable[..., Any]:
    def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
        axis = range(ary.ndim)[int(axis)]
        parts = function(np.arange(ary.shape[axis]), indices_or_sections)
        edges = np.cumsum([0, *map(len, parts)])
        return [ary[_along(axis, int(a), int(b))] for a, b in pairwise(edges)]

    return split


for _name in ("split", "array_split"):
    _twin_of(_name)(_split_by(getattr(np, _name)))


@_twin_of("stack")
def _stack(arrays: Any, axis: int = 0, out: Any = None, **kwargs: Any) -> Any:
    _without(out=out, **kwargs)
    if axis != 0:
        raise NoTwin
    return stack(arrays)


# Functions of shape and dtype.


def _of_its_shape(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(a: Any, *args: Any, **kwargs: Any) -> Any:
        return function(np.broadcast_to(np.zeros((), a.dtype), a.shape), *args, **kwargs)

    return called


_SHAPES = ("shape", "ndim", "size", "iscomplexobj", "isrealobj")
for _name in (*_SHAPES, "zeros_like", "ones_like", "empty_like", "full_like"):
    TWINS[getattr(np, _name)] = _of_its_shape(getattr(np, _name))


def _of_its_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*(getattr(a, "dtype", a) for a in args), **kwargs)

    return called


for _name in ("result_type", "can_cast"):
    TWINS[getattr(np, _name)] = _of_its_dtype(getattr(np, _name))
