"""Device code of chains of numpy's functions, fused into one kernel, with numpy's types and bits.

A *part* is a function by numpy's name, the dtype of its result, and its operands: ``("input", i)``,
``("part", i)``, ``("value", i)`` or ``("constant", number)``. The last part is the result. A NaN has the bits
that an x86 processor gives it: of the operand that is NaN, or else of the default NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import launch, numbers, per_voxel, viewed
from beam_volumes.kernels.cuda.operations import (
    FUNCTIONS,
    cast,
    loaded,
    operation,
    stored,
)
from beam_volumes.kernels.cuda.rounding import stored_dtype
from beam_volumes.kernels.rows import Rows

Part = tuple[str, Any, tuple[tuple[str, Any], ...]]
#: Functions that convert operands to the dtype of the result, or take them as they are.
_CONVERSIONS = ("astype", "round", "copy", "where", "exp", "log")
_PAIRS = ("add", "subtract", "multiply", "divide")
_EXTREMA = ("minimum", "maximum", "fmin", "fmax")


def apply(
    parts: Sequence[Part], inputs: Sequence[Rows], out: Rows, y0: int, y1: int, nx: int,
    values: Sequence[Any] = (), stream: Any = None,
) -> None:  # fmt: skip
    """Write the result of the last part; ``values`` are numbers.

    Raises ValueError with the reason if a part has no device code.
    """
    dtypes = tuple(rows.lines.dtype for rows in inputs)
    code, scalars = _resolved(parts, dtypes, values)
    box, target = (out.firsts.size, y1 - y0, nx), viewed(out, stored_dtype(out.lines.dtype))
    rows = [numbers(r) for r in inputs]
    launch(_kernel(code, dtypes), box, stream, y0, target, *rows, *scalars)


def reason_against(
    parts: Sequence[Part], dtypes: Sequence[np.dtype], values: Sequence[Any] = ()
) -> str | None:
    """Why `apply` refuses these parts of inputs of these dtypes, or None."""
    try:
        _resolved(parts, tuple(map(np.dtype, dtypes)), values)
    except ValueError as error:
        return str(error)
    return None


def _resolved(
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


@lru_cache(maxsize=256)
def _kernel(code: tuple[Any, ...], dtypes: tuple[np.dtype, ...]) -> Any:
    """One function for all parts, from their source text."""
    space: dict[str, Any] = {}
    lines = []

    def named(function: Any) -> str:
        name = f"f{len(space)}"
        space[name] = function
        return name

    numbers_used = 0
    for i, dtype in enumerate(dtypes):
        at = f"rows{i}.lines[rows{i}.firsts[k] + y0 + y, rows{i}.left + x]"
        lines.append(f"input{i} = {named(loaded(dtype))}({at})")
    for i, (function, takes, gives, result, is_open, names) in enumerate(code):
        operands = []
        for (name, own), taken in zip(names, takes, strict=True):
            numbers_used += name.startswith("number")
            operands.append(name if own == taken else f"{named(cast(own, taken))}({name})")
        call = f"{named(operation(function, takes, gives, is_open))}({', '.join(operands)})"
        lines.append(
            f"part{i} = " + (call if gives == result else f"{named(cast(gives, result))}({call})")
        )
    end = f"{named(stored(code[-1][3]))}(part{len(code) - 1})"
    lines.append(f"out.lines[out.firsts[k] + y0 + y, out.left + x] = {end}")
    arguments = [f"rows{i}" for i in range(len(dtypes))]
    arguments += [f"number{i}" for i in range(numbers_used)]
    head = f"def chain(k, y, x, {', '.join(['y0', 'out', *arguments])}):"
    exec("\n    ".join([head, *lines]), space)
    return per_voxel(space["chain"])
