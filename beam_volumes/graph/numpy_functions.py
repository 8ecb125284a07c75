"""numpy's functions of volumes and lazy numbers: each with a twin here is lazy; others load the voxels.

numpy asks a class for ``__array_function__`` and ``__array_ufunc__``. `OnClass` shows these to numpy alone:
dask, xarray and others that look for them on an object take what has them for an array in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from beam_volumes.base.exports import public
from beam_volumes.base.text import format_bytes


class OnClass:
    """A method that a class has, and none of its objects.

    Examples
    --------
    >>> class Example:
    ...     method = OnClass(lambda self: 1)
    >>> hasattr(Example, "method"), hasattr(Example(), "method")
    (True, False)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, item: Any, owner: type) -> Callable[..., Any]:
        if item is not None:
            raise AttributeError(f"{owner.__name__} has {self.function.__name__} for numpy alone")
        return self.function


class NoTwin(Exception):
    """A call that none of our functions does lazily."""


#: For each of numpy's functions what does it lazily, of the same arguments.
TWINS: dict[Callable[..., Any], Callable[..., Any]] = {}


def _twin_of(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TWINS.update({getattr(np, name): function for name in names if hasattr(np, name)})
        return function

    return register


def apply_function(
    function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function of numpy's with volumes and lazy numbers among its arguments."""
    twin = TWINS.get(function)
    if twin is not None and any(hasattr(item, "grid_shape") for item in _flat([args, kwargs])):
        try:
            return twin(*args, **kwargs)
        except NoTwin:
            pass
    module = function.__module__.replace("numpy", "np", 1)
    return loaded(f"{module}.{function.__name__}", function, args, kwargs)


def loaded(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function with arrays instead of volumes; large ones are warned of."""
    large = [v for v in _flat([args, kwargs]) if hasattr(v, "grid_shape") and v.size]
    if large:
        total = sum(v.nbytes for v in large)
        warnings.warn(
            f"{name} has no lazy twin for this: {large[0]!r} is computed, and {format_bytes(total)} are held "
            "in memory; np.asarray(volume) says that this is meant",
            stacklevel=4,
        )
    return function(*_arrays(args), **_arrays(kwargs))


def _flat(item: Any) -> Iterator[Any]:
    if isinstance(item, list | tuple):
        for part in item:
            yield from _flat(part)
    elif isinstance(item, dict):
        yield from _flat(list(item.values()))
    else:
        yield item


def _arrays(item: Any) -> Any:
    """The same with arrays in place of all that is lazy."""
    if isinstance(item, list | tuple):
        return type(item)([_arrays(part) for part in item])
    if isinstance(item, dict):
        return {name: _arrays(part) for name, part in item.items()}
    if hasattr(type(item), "__array_function__") and not isinstance(item, np.ndarray):
        return np.asarray(item)[()]
    return item


_GIVEN_NOTHING = (None, np._NoValue)


def _without(**kwargs: Any) -> None:
    """Leave a call to numpy if any of these is given."""
    if any(all(value is not n for n in _GIVEN_NOTHING) for value in kwargs.values()):
        raise NoTwin


# Numbers of a volume.


def with_kept_axes(result: Any, volume: Any, axis: Any) -> Any:
    """What a reduction along some axes gave, with these as axes of extent 1."""
    if hasattr(result, "grid_shape"):  # a volume: points in time or channels were reduced alone
        if result.space.times != volume.space.times:
            raise ValueError(
                f"keepdims=True: axis={axis!r}: no volume has one point in time; leave keepdims out"
            )
        space = result.space.with_leading(result.space.times, True, ())
        return type(result)(result.nodes, space)
    names = [a for a in volume.axes if a != "t"]  # points in time are reduced one by one
    items = (
        names
        if axis is None
        else [axis]
        if isinstance(axis, int | np.integer | str)
        else list(axis)
    )
    gone = {a if isinstance(a, str) else volume.axes[a] for a in items}
    return result[tuple(np.newaxis if a in gone else slice(None) for a in names)]


def _reduction(name: str, *, nan: str | None = None) -> Callable[..., Any]:
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
        result = public(name)(a, axis, **how)
        return with_kept_axes(result, a, axis) if keepdims else result

    return reduced


def _without_dtype(reduced: Callable[..., Any]) -> Callable[..., Any]:
    """Of functions whose third argument is ``out``."""
    return lambda a, axis=None, out=None, **kwargs: reduced(a, axis, None, out, **kwargs)


for _ours, *_names in (("mean", "mean"), ("sum", "sum"), ("std", "std"), ("variance", "var")):
    _twin_of(*_names)(_reduction(_ours))
    _twin_of(*(f"nan{name}" for name in _names))(_reduction(_ours, nan="omit"))
for _ours, *_names in (("max", "max", "amax"), ("min", "min", "amin")):
    _twin_of(*_names)(_without_dtype(_reduction(_ours)))
    _twin_of(f"nan{_ours}")(_without_dtype(_reduction(_ours, nan="omit")))
for _ours in ("all", "any"):
    _twin_of(_ours)(_without_dtype(_reduction(_ours)))


@_twin_of("count_nonzero")
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    _without(keepdims=keepdims or None)
    return public("count_nonzero")(a, axis)


@_twin_of("percentile")
def _percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, **kwargs: Any
) -> Any:
    method = kwargs.pop("method", "linear")
    _without(out=out, method=None if method == "linear" else method)
    if kwargs.pop("keepdims", False) or any(value is not None for value in kwargs.values()):
        raise NoTwin
    return public("percentile")(a, q, axis)


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
    return public("mean")(a, axis)


@_twin_of("ptp")
def _ptp(a: Any, axis: Any = None, out: Any = None, **kwargs: Any) -> Any:
    _without(out=out, **kwargs)
    return public("max")(a, axis) - public("min")(a, axis)


@_twin_of("histogram")
def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    _without(density=density, weights=weights)
    if not isinstance(bins, int):
        raise NoTwin
    return public("histogram")(a, bins, range)


@_twin_of("isclose")
def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    if equal_nan or np.ndim(rtol) or np.ndim(atol):
        raise NoTwin
    # numpy's own steps, so that the bits are the same.
    b = b.astype(np.result_type(b.dtype, 1.0)) if hasattr(b, "dtype") else float(b)
    near = np.less_equal(abs(a - b), atol + rtol * abs(b))
    return near & np.isfinite(b) | (a == b)


@_twin_of("allclose")
def _allclose(a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
    return bool(np.asarray(public("all")(_isclose(a, b, *args, **kwargs))))


@_twin_of("array_equal")
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    if equal_nan:
        raise NoTwin
    return np.shape(a1) == np.shape(a2) and bool(np.asarray(public("all")(a1 == a2)))


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
    return public("clip")(a, *(None if x is np._NoValue else x for x in (low, high)))


@_twin_of("where")
def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2:
        raise NoTwin
    return public("where")(condition, *choices)


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
    where, number = public("where"), x.dtype.type
    x = where(np.isnan(x), number(nan), x)
    x = where(x == number(np.inf), number(limits.max if posinf is None else posinf), x)
    return where(x == number(-np.inf), number(limits.min if neginf is None else neginf), x)


# Other shapes.


@_twin_of("pad")
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    value = kwargs.pop("constant_values", 0)
    if kwargs or not isinstance(mode, str) or np.ndim(value):
        raise NoTwin
    return public("pad")(array, pad_width, mode, value)


@_twin_of("transpose", "permute_dims")
def _transpose(a: Any, axes: Any = None) -> Any:
    return public("transpose")(a, axes)


@_twin_of("swapaxes")
def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return public("transpose")(a, order)


@_twin_of("moveaxis")
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    stand_in = np.moveaxis(np.empty(tuple(range(a.ndim))), source, destination)
    return public("transpose")(a, stand_in.shape)


@_twin_of("flip")
def _flip(m: Any, axis: Any = None) -> Any:
    return public("flip")(m, axis)


@_twin_of("rot90")
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    first, second = (int(a) % m.ndim for a in axes)
    if first == second:
        raise NoTwin  # numpy says what is wrong
    if k % 2 == 0:
        return m if k % 4 == 0 else public("flip")(m, (first, second))
    if k % 4 == 1:
        return _swapaxes(public("flip")(m, second), first, second)
    return public("flip")(_swapaxes(m, first, second), second)


@_twin_of("flipud")
def _flipud(m: Any) -> Any:
    return public("flip")(m, 0)


@_twin_of("fliplr")
def _fliplr(m: Any) -> Any:
    return public("flip")(m, 1)


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
    return public("cumsum")(a, axis)


@_twin_of("diff")
def _diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue
) -> Any:
    _without(prepend=prepend, append=append)
    for _ in range(n):
        before = [slice(None)] * a.ndim
        after = [slice(None)] * a.ndim
        before[axis], after[axis] = slice(None, -1), slice(1, None)
        first, second = a[tuple(before)], a[tuple(after)]
        a = second != first if a.dtype == bool else second - first
    return a


@_twin_of("concatenate", "concat")
def _concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    _without(out=out, dtype=dtype, **kwargs)
    if axis is None:
        raise NoTwin
    return public("concatenate")(arrays, axis)


def _stacked_along(axis: int) -> Callable[..., Any]:
    def stacked(tup: Any, **kwargs: Any) -> Any:
        if any(np.ndim(a) <= max(axis, 1) for a in tup):
            raise NoTwin
        return _concatenate(tup, axis, **kwargs)

    return stacked


for _axis, _ours in enumerate(("vstack", "hstack", "dstack")):
    _twin_of(_ours)(_stacked_along(_axis))


def _along(axis: int, start: int, stop: int) -> tuple[slice, ...]:
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
    return public("concatenate")([last, first], axis).with_space(a)


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
    return public("stack")(arrays)


# What needs shape and dtype alone.


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


def reduced_by(ufunc: np.ufunc, method: str, args: Any, kwargs: Any) -> Any:
    """Call a method of a ufunc with arrays; those that make larger results are refused."""
    if method not in ("reduce", "accumulate", "reduceat"):
        raise TypeError(f"np.{ufunc.__name__}.{method} is not offered on lazy volumes")
    return loaded(f"np.{ufunc.__name__}.{method}", getattr(ufunc, method), args, kwargs)
