"""The operators of what is lazy: numpy's, but that those in place give a name to a new expression."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def _named_anew(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Make the operator in place of another one: ``v += 1`` is ``v = v + 1``, as nothing is ever changed."""

    def in_place(self: Any, other: Any) -> Any:
        return operate(self, other)

    return in_place


class LazyOperators(np.lib.mixins.NDArrayOperatorsMixin):
    """Arithmetic and comparisons, by ``__array_ufunc__`` of the class that has them.

    Examples
    --------
    >>> v = w = bv.open(np.array([[1, 2]]))
    >>> v += 1
    >>> np.asarray(v), np.asarray(w)
    (array([[2, 3]]), array([[1, 2]]))
    """

    __slots__ = ()

    __iadd__ = _named_anew(operator.add)  # type: ignore[assignment]
    __isub__ = _named_anew(operator.sub)  # type: ignore[assignment]
    __imul__ = _named_anew(operator.mul)  # type: ignore[assignment]
    __itruediv__ = _named_anew(operator.truediv)  # type: ignore[assignment]
    __ifloordiv__ = _named_anew(operator.floordiv)  # type: ignore[assignment]
    __imod__ = _named_anew(operator.mod)  # type: ignore[assignment]
    __ipow__ = _named_anew(operator.pow)  # type: ignore[assignment,misc]
    __iand__ = _named_anew(operator.and_)  # type: ignore[assignment]
    __ior__ = _named_anew(operator.or_)  # type: ignore[assignment]
    __ixor__ = _named_anew(operator.xor)  # type: ignore[assignment]
    __ilshift__ = _named_anew(operator.lshift)  # type: ignore[assignment]
    __irshift__ = _named_anew(operator.rshift)  # type: ignore[assignment]
