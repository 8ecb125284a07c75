"""A lazy number, or a small lazy array: `Scalar`."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.higher import driver
from beam_volumes.graph.nodes import ConstantValue, Formula, FormulaValue, Value
from beam_volumes.graph.protocols import LazyOperators, computed
from beam_volumes.sweep.stage import digest


class Scalar(LazyOperators):
    """A lazy number or a small lazy array, which is computed from volumes.

    Functions such as `mean` return lazy numbers. A lazy number is promoted like a numpy scalar of
    its dtype. Expressions with volumes are volumes; expressions with numbers and lazy numbers are
    lazy numbers. `compute`, ``float()``, ``int()`` and ``np.asarray`` compute it. Indexing returns
    an element or a slice.

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
        raise ValueError(
            f"the truth value of {self!r} is unknown before it is computed; write if "
            "bv.compute(x): ..., or compare float(x)"
        )

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

    def item(self) -> Any:
        """Compute the number as a Python number.

        Returns
        -------
        number
            The number.

        Raises
        ------
        ValueError
            If it is an array with several elements.

        Examples
        --------
        >>> bv.mean(bv.open(np.array([[1, 2, 6]]))).item()
        3.0
        """
        return self.__array__().item()

    def compute(self, **options: Any) -> Any:
        """Compute the number or small array.

        Parameters
        ----------
        **options : options
            Options of `beam_volumes.compute`.

        Returns
        -------
        number or numpy.ndarray
            The computed value.

        Raises
        ------
        TypeError
            If an option does not exist or has the wrong type.
        ValueError
            If an option is out of range or the memory limit is too small for any plan.

        Examples
        --------
        >>> bv.mean(bv.open(np.array([[1, 2, 6]]))).compute()
        np.float64(3.0)
        """
        return driver().compute(self, **options)

    def __getitem__(self, key: Any) -> Scalar:
        result = np.zeros(self.shape, self.dtype)[key]
        return Scalar(FormulaValue.of(Item("item", key), (self.value,), result.dtype, result.shape))


@dataclass(frozen=True, eq=False)
class Item(Formula):
    """An element or slice of an array value."""

    key: Any

    def evaluate(self, *arguments: Any) -> Any:
        return arguments[0][self.key]

    def token(self) -> str:
        return digest("item", repr(self.key))


def lazy(item: Any) -> Value:
    """Return the value of a lazy scalar or number."""
    return item.value if isinstance(item, Scalar) else ConstantValue.of(item)
