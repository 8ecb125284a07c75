"""numpy's operators and protocols, which make expressions lazy, and the point at which they are computed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from beam_volumes.base.higher import arithmetic, driver, operations

#: Whether this thread may compute expressions.
_allowed: ContextVar[bool] = ContextVar("beam_volumes_computing_allowed", default=True)


@contextmanager
def nothing_computed() -> Iterator[None]:
    """Refuse to compute expressions, e.g. when one is given instead of an array."""
    with _allow(False):
        yield


@contextmanager
def file_read() -> Iterator[None]:
    """Allow to read the small file that a parameter names, also within `nothing_computed`."""
    with _allow(True):
        yield


@contextmanager
def _allow(is_allowed: bool) -> Iterator[None]:
    token = _allowed.set(is_allowed)
    try:
        yield
    finally:
        _allowed.reset(token)


def computed(item: Any) -> Any:
    """Compute an expression in this process for numpy."""
    if not _allowed.get():
        raise ValueError(
            f"{item!r} is not computed yet, so it cannot be used here; compute it first"
        )
    return driver().in_process(item)


class OnClass:
    """A method of a class that its instances lack.

    numpy finds its protocols on the class. dask and xarray would take an instance with them for an array.

    >>> class Example:
    ...     method = OnClass(lambda self: 1)
    >>> hasattr(Example, "method"), hasattr(Example(), "method")
    (True, False)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, item: Any, owner: type) -> Callable[..., Any]:
        if item is not None:
            raise AttributeError(f"{owner.__name__} has {self.function.__name__} only for numpy")
        return self.function


def _in_place(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Make an in-place operator: ``v += 1`` is ``v = v + 1``, as expressions are immutable."""
    return lambda self, other: operate(self, other)


class LazyOperators(np.lib.mixins.NDArrayOperatorsMixin):
    """Arithmetic, comparisons, and numpy's ufuncs and functions, implemented in `ops.array_api`.

    Examples
    --------
    >>> v = w = bv.open(np.array([[1, 2]]))
    >>> v += 1
    >>> np.asarray(v), np.asarray(w)
    (array([[2, 3]]), array([[1, 2]]))
    """

    __slots__ = ()

    def _array_ufunc(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return arithmetic().call_ufunc(self, ufunc, method, inputs, kwargs)

    def _array_function(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return operations().call_function(function, args, kwargs)

    __array_ufunc__ = OnClass(_array_ufunc)  # type: ignore[assignment]
    __array_function__ = OnClass(_array_function)

    __iadd__ = _in_place(operator.add)  # type: ignore[assignment]
    __isub__ = _in_place(operator.sub)  # type: ignore[assignment]
    __imul__ = _in_place(operator.mul)  # type: ignore[assignment]
    __itruediv__ = _in_place(operator.truediv)  # type: ignore[assignment]
    __ifloordiv__ = _in_place(operator.floordiv)  # type: ignore[assignment]
    __imod__ = _in_place(operator.mod)  # type: ignore[assignment]
    __ipow__ = _in_place(operator.pow)  # type: ignore[assignment,misc]
    __iand__ = _in_place(operator.and_)  # type: ignore[assignment]
    __ior__ = _in_place(operator.or_)  # type: ignore[assignment]
    __ixor__ = _in_place(operator.xor)  # type: ignore[assignment]
    __ilshift__ = _in_place(operator.lshift)  # type: ignore[assignment]
    __irshift__ = _in_place(operator.rshift)  # type: ignore[assignment]
