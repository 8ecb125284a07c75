"""The parts of `beam_volumes.kernels.cuda.pointwise`: numpy's types of their operands, and the offered ones.

A *part* is a function by numpy's name, the dtype of its result, and its operands: ``("input", i)``,
``("part", i)``, ``("value", i)`` or ``("constant", number)``. Importing this module needs no package for
CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Part = tuple[str, Any, tuple[tuple[str, Any], ...]]
#: Functions that convert operands to the dtype of the result, or take them as they are.
_CONVERSIONS = ("astype", "round", "copy", "where", "exp", "log")
_PAIRS = ("add", "subtract", "multiply", "divide")
_EXTREMA = ("minimum", "maximum", "fmin", "fmax")


def _any(dtype: np.dtype) -> bool:
    return True


def _numbers(dtype: np.dtype) -> bool:
    return dtype.kind in "uif"


def _floats(dtype: np.dtype) -> bool:
    return dtype.kind == "f"


def _bits(dtype: np.dtype) -> bool:
    return dtype.kind in "bui"


#: By numpy's name: whether a function is offered for operands of a dtype.
FUNCTIONS: dict[str, Callable[[np.dtype], bool]] = {
    **dict.fromkeys(("astype", "round", "copy", "where", "exp", "log"), _any),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"), _any),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), _any),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "invert"), _bits),
    **dict.fromkeys(("add", "subtract", "multiply", "negative", "absolute", "square"), _numbers),
    **dict.fromkeys(("minimum", "maximum"), _numbers),
    **dict.fromkeys(("divide", "sqrt", "isnan", "isfinite", "isinf", "rint"), _floats),
}


def reason_against(
    parts: Sequence[Part], dtypes: Sequence[np.dtype], values: Sequence[Any] = ()
) -> str | None:
    """Why `apply` refuses these parts of inputs of these dtypes, or None."""
    try:
        resolved(parts, tuple(map(np.dtype, dtypes)), values)
    except (ValueError, TypeError, OverflowError) as error:
        return str(error)
    return None


def resolved(
    parts: Sequence[Part], dtypes: Sequence[np.dtype], values: Sequence[Any]
) -> tuple[tuple[Any, ...], list[Any]]:
    """The types of every part's operations, and the numbers among the operands in these types."""
    code: list[Any] = []
    scalars: list[Any] = []
    for function, dtype, arguments in parts:
        operands: list[Any] = []
        for kind, given in arguments:
            dtype_of = {"input": dtypes, "part": [np.dtype(p[1]) for p in parts]}.get(kind)
            operands.append(dtype_of[given] if dtype_of else _number(kind, given, values))
        result = np.dtype(dtype)
        takes, gives = _types(function, operands, result)
        names = []
        for (kind, given), operand, taken in zip(arguments, operands, takes, strict=True):
            if kind in ("input", "part"):
                names.append((f"{kind}{given}", operand))
                continue
            names.append((f"number{len(scalars)}", taken))
            scalars.append(_converted(function, operand, taken))
        is_open = _is_open(function, operands, result)
        code.append((function, takes, gives, result, is_open, tuple(names)))
    return tuple(code), scalars


def _number(kind: str, given: Any, values: Sequence[Any]) -> Any:
    number = values[given] if kind == "value" else given
    if np.ndim(number):
        raise ValueError("an operand is an array of numbers")
    return number[()] if isinstance(number, np.ndarray) else number


def _types(
    function: str, operands: Sequence[Any], result: np.dtype
) -> tuple[tuple[np.dtype, ...], np.dtype]:
    """The dtypes of operands and result in numpy's loop."""
    if function not in FUNCTIONS:
        raise ValueError(f"{function} has no device code")
    own = [o if isinstance(o, np.dtype) else np.asarray(o).dtype for o in operands]
    if any(d.itemsize == 2 and d.kind == "f" for d in (*own, result)):
        raise ValueError(f"{function} of float16 has no device code")
    if function in ("exp", "log"):
        return (np.dtype(np.float64),), np.dtype(np.float64)
    if function == "where":
        if not all(np.can_cast(d, result, "same_kind") for d in own[1:]):
            raise ValueError(f"where of {own[1]} and {own[2]} as {result} has no device code")
        return (own[0], result, result), result
    if function in _CONVERSIONS:
        return (own[0],), result
    weak = [o if isinstance(o, np.dtype) else _weak(o) for o in operands]
    *takes, gives = getattr(np, function).resolve_dtypes((*weak, None))
    if len(set(takes)) > 1 or takes[0].kind not in "buif" or takes[0].char in "eg":
        raise ValueError(f"{function} of {' and '.join(map(str, own))} has no device code")
    if not FUNCTIONS[function](takes[0]):
        raise ValueError(f"{function} of {takes[0]} has no device code")
    return tuple(takes), gives


def _weak(number: Any) -> Any:
    """numpy's type of a number: Python's own adapt to the other operand."""
    is_weak = type(number) in (int, float)
    return type(number) if is_weak else np.asarray(number).dtype


def _converted(function: str, number: Any, dtype: np.dtype) -> Any:
    with np.errstate(all="ignore"):
        result = np.asarray(number).astype(dtype)[()]
    if dtype.kind in "ui" and result != number:
        raise ValueError(f"{function}: {number!r} is not in the range of {dtype}")
    return result


def _is_open(function: str, operands: Sequence[Any], result: np.dtype) -> bool:
    """Whether a NaN is ``np.nan``, and zeros are ordered, as in `beam_volumes.kernels.elementary.pairs`."""
    arrays = [isinstance(o, np.dtype) for o in operands]
    if result.kind != "f" or function not in (*_PAIRS, *_EXTREMA):
        return False
    if function in _EXTREMA:
        return all(a or o == 0 or o != o for a, o in zip(arrays, operands, strict=True))
    return all(o.kind == "f" if a else o != o for a, o in zip(arrays, operands, strict=True))
