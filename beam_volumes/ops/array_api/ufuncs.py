"""The ufuncs of numpy, and so all operators, for volumes and lazy numbers.

Every expression has operators, so this module imports no other operations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from beam_volumes.base.text import format_bytes
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume


def call_ufunc(
    item: Volume | Scalar, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Any
) -> Any:
    """Call a ufunc, or a method of one, with volumes or lazy numbers among its inputs."""
    name = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
    if isinstance(item, Scalar):
        if any(isinstance(i, Volume) for i in inputs):  # the volume handles the call
            return NotImplemented
        if method != "__call__" or kwargs:
            return loaded(name, getattr(ufunc, method), inputs, kwargs)
    elif method in ("reduce", "accumulate", "reduceat"):
        return loaded(name, getattr(ufunc, method), inputs, kwargs)
    elif method != "__call__":
        raise TypeError(f"{name} is not available on lazy volumes")
    elif kwargs:
        raise TypeError(f"{', '.join(kwargs)}= of a ufunc is not available on lazy volumes")
    return apply_ufunc(ufunc.__name__, *inputs)


def loaded(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function with arrays instead of volumes, with a warning if they are large."""
    volumes = [v for v in flat([args, kwargs]) if isinstance(v, Volume) and v.size]
    if volumes:
        total = sum(v.nbytes for v in volumes)
        warnings.warn(
            f"{name} has no lazy equivalent: {volumes[0]!r} is computed, in {format_bytes(total)} of "
            "memory; use np.asarray(volume) to do so without this warning",
            stacklevel=4,
        )
    return function(*_arrays(args), **_arrays(kwargs))


def flat(item: Any) -> Iterator[Any]:
    """Yield the items of nested lists, tuples and dicts."""
    if isinstance(item, list | tuple):
        for part in item:
            yield from flat(part)
    elif isinstance(item, dict):
        yield from flat(list(item.values()))
    else:
        yield item


def _arrays(item: Any) -> Any:
    """Replace lazy items by arrays."""
    if isinstance(item, list | tuple):
        return type(item)([_arrays(part) for part in item])
    if isinstance(item, dict):
        return {name: _arrays(part) for name, part in item.items()}
    if hasattr(type(item), "__array_function__") and not isinstance(item, np.ndarray):
        return np.asarray(item)[()]
    return item
