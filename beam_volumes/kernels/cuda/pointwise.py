"""Device code of chains of numpy's functions, fused into one kernel, with numpy's types and bits.

`beam_volumes.kernels.cuda.parts` describes the parts of a chain; the last one is the result. A NaN has the
bits that an x86 processor gives it: of the operand that is NaN, or else of the default NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import device_function, launch, numbers, per_voxel, viewed
from beam_volumes.kernels.cuda.parts import Part, resolved
from beam_volumes.kernels.cuda.rounding import (
    nearest_of,
    product_of,
    rounded_to,
    square_root,
    stored_dtype,
)
from beam_volumes.kernels.cuda.translation import translated
from beam_volumes.kernels.elementary.exp_log import exp_value, log_value
from beam_volumes.kernels.rows import Rows

_exp, _log = translated(exp_value), translated(log_value)


def apply(
    parts: Sequence[Part], inputs: Sequence[Rows], out: Rows, y0: int, y1: int, nx: int,
    values: Sequence[Any] = (), stream: Any = None,
) -> None:  # fmt: skip
    """Write the result of the last part; ``values`` are numbers.

    Raises ValueError with the reason if a part has no device code.
    """
    dtypes = tuple(rows.lines.dtype for rows in inputs)
    code, scalars = resolved(parts, dtypes, values)
    box, target = (out.firsts.size, y1 - y0, nx), viewed(out, stored_dtype(out.lines.dtype))
    rows = [numbers(r) for r in inputs]
    launch(_kernel(code, dtypes), box, stream, y0, target, *rows, *scalars)


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
        lines.append(f"input{i} = {named(_loaded(dtype))}({at})")
    for i, (function, takes, gives, result, is_open, names) in enumerate(code):
        operands = []
        for (name, own), taken in zip(names, takes, strict=True):
            numbers_used += name.startswith("number")
            operands.append(name if own == taken else f"{named(_cast(own, taken))}({name})")
        call = f"{named(_operation(function, takes, gives, is_open))}({', '.join(operands)})"
        lines.append(
            f"part{i} = " + (call if gives == result else f"{named(_cast(gives, result))}({call})")
        )
    end = f"{named(_stored(code[-1][3]))}(part{len(code) - 1})"
    lines.append(f"out.lines[out.firsts[k] + y0 + y, out.left + x] = {end}")
    arguments = [f"rows{i}" for i in range(len(dtypes))]
    arguments += [f"number{i}" for i in range(numbers_used)]
    head = f"def chain(k, y, x, {', '.join(['y0', 'out', *arguments])}):"
    exec("\n    ".join([head, *lines]), space)
    return per_voxel(space["chain"])


# The functions of a chain, for one voxel.


class _Float:
    """Bit patterns of floats: the default NaN of x86 is negative."""

    def __init__(self, dtype: np.dtype):
        self.real, self.whole = dtype.type, np.dtype(f"i{dtype.itemsize}").type
        self.sign = self.whole(np.iinfo(self.whole).min)
        self.nan = np.array(np.nan, dtype).view(self.whole)[()]
        self.default = self.whole(self.nan | self.sign)
        self.infinity = np.array(np.inf, dtype).view(self.whole)[()]


def _loaded(dtype: np.dtype) -> Any:
    """A voxel, as it is in memory."""
    if dtype.kind == "b":
        return device_function(lambda voxel: voxel != 0)
    return device_function(lambda voxel: voxel)


def _stored(dtype: np.dtype) -> Any:
    """The integer that is written for a value."""
    if dtype.kind == "b":
        return device_function(lambda value: np.uint8(1) if value else np.uint8(0))
    if dtype.kind != "f":
        return device_function(lambda value: value)
    whole = _Float(dtype).whole
    return device_function(lambda value: value.view(whole))


@cache
def _cast(source: np.dtype, target: np.dtype) -> Any:
    """numpy's ``astype``; floats saturate in integers, where NaN becomes 0."""
    kind = target.type
    if source == target:
        return device_function(lambda value: value)
    if target.kind == "b":
        return device_function(lambda value: value != 0)
    if source.kind == "f" and target.kind == "f":
        return _float_to_float(source, target)
    if source.kind != "f" or target.kind == "f":
        return device_function(lambda value: kind(value))
    limits = np.iinfo(target)
    smallest, largest, none = kind(limits.min), kind(limits.max), kind(0)
    # Floats beyond these are out of range; for 64 bits the upper limit itself is not a float.
    beyond, below = float(limits.max + 1), float(limits.min) - 1.0
    small = limits.bits <= 32

    def truncated(value):
        wide = np.float64(value)
        if wide >= beyond:
            return largest
        if wide <= below:
            return smallest
        if wide != wide:
            return none
        return kind(np.int64(wide)) if small else kind(wide)

    return device_function(truncated)


def _float_to_float(source: np.dtype, target: np.dtype) -> Any:
    """Conversion of floats that keeps the upper bits of a NaN, as x86 does."""
    real, given, wanted = target.type, _Float(source), _Float(target)
    from_whole, to_whole, nan = given.whole, wanted.whole, wanted.nan
    wider, sign, to_sign = target.itemsize > source.itemsize, given.sign, wanted.sign
    mantissa = np.int64(2**23 - 1 if wider else 2**52 - 1)

    def converted(value):
        if value == value:
            return real(value)
        bits = value.view(from_whole)
        payload = np.int64(bits) & mantissa
        payload = payload << 29 if wider else payload >> 29
        quiet = to_whole(to_whole(payload) | nan)
        return to_whole(quiet | to_sign).view(real) if bits & sign else quiet.view(real)

    return device_function(converted)


@cache
def _operation(function: str, takes: tuple[np.dtype, ...], gives: np.dtype, is_open: bool) -> Any:
    """A function of values in the dtypes of numpy's loop."""
    dtype = takes[0]
    if function in ("exp", "log"):
        return _exp if function == "exp" else _log
    if function in _BY_NAME:
        return device_function(_BY_NAME[function])
    if function in ("astype", "copy"):
        return _cast(dtype, gives)
    if function == "round":
        return _rounded(dtype, gives)
    if function == "where":
        return device_function(lambda condition, then, other: then if condition != 0 else other)
    if dtype.kind == "f":
        return _of_floats(function, dtype, is_open)
    return _of_integers(function, dtype)


_BY_NAME: dict[str, Callable[..., Any]] = {
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "logical_and": lambda a, b: (a != 0) & (b != 0),
    "logical_or": lambda a, b: (a != 0) | (b != 0),
    "logical_xor": lambda a, b: (a != 0) ^ (b != 0),
    "logical_not": lambda a: a == 0,
    "isnan": lambda a: a != a,
    "isfinite": lambda a: a - a == 0,
    "isinf": lambda a: (a == a) & (a - a != 0),
}


def _rounded(source: np.dtype, target: np.dtype) -> Any:
    return (
        rounded_to(source, target)
        if target.kind in "ui" and source.kind != "b"
        else _cast(source, target)
    )


def _of_integers(function: str, dtype: np.dtype) -> Any:
    kind, is_bool = dtype.type, dtype.kind == "b"
    functions: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: kind(a + b),
        "subtract": lambda a, b: kind(a - b),
        "multiply": lambda a, b: kind(a * b),
        "square": lambda a: kind(a * a),
        "negative": lambda a: kind(kind(0) - a),
        "absolute": lambda a: kind(kind(0) - a) if a < 0 else a,
        "minimum": lambda a, b: b if b < a else a,
        "maximum": lambda a, b: b if b > a else a,
        "bitwise_and": lambda a, b: kind(a & b),
        "bitwise_or": lambda a, b: kind(a | b),
        "bitwise_xor": lambda a, b: kind(a ^ b),
        "invert": (lambda a: not a) if is_bool else (lambda a: kind(~a)),
    }
    return device_function(functions[function])


def _of_floats(function: str, dtype: np.dtype, is_open: bool) -> Any:
    of, times = _Float(dtype), product_of(dtype)
    real, whole, sign, magnitude = of.real, of.whole, of.sign, of.whole(~of.sign)
    if function == "negative":
        return device_function(lambda a: whole(a.view(whole) ^ sign).view(real))
    if function == "absolute":
        return device_function(lambda a: whole(a.view(whole) & magnitude).view(real))
    if function in ("minimum", "maximum"):
        return _extremum(dtype, function == "maximum", is_open)
    nearest = nearest_of(dtype)
    single: dict[str, Callable[..., Any]] = {
        "square": lambda a: times(a, a),
        "sqrt": lambda a: real(square_root(a)),
        "rint": lambda a: nearest(a),
    }
    if function in single:
        compute = device_function(single[function])
        nan = _nan_of_one(of)

        def one(a):
            r = compute(a)
            return r if r == r else nan(a)

        return device_function(one)
    double: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: times(a, b),
        "divide": lambda a, b: real(a / b),
    }
    compute, nan_of_two = device_function(double[function]), _nan_of_two(of, is_open)

    def two(a, b):
        r = compute(a, b)
        return r if r == r else nan_of_two(a, b)

    return device_function(two)


def _nan_of_one(of: _Float) -> Any:
    real, whole, nan, default = of.real, of.whole, of.nan, of.default
    quiet = whole(nan & ~of.infinity)
    return device_function(
        lambda a: (whole(default) if a == a else whole(a.view(whole) | quiet)).view(real)
    )


def _nan_of_two(of: _Float, is_open: bool) -> Any:
    one, real, nan = _nan_of_one(of), of.real, of.nan
    if is_open:
        whole = of.whole
        return device_function(lambda a, b: whole(nan).view(real))
    return device_function(lambda a, b: one(a) if a != a else one(b))


def _extremum(dtype: np.dtype, is_max: bool, is_open: bool) -> Any:
    """The extremum; if both operands may be zeros, -0.0 is less than 0.0."""
    of = _Float(dtype)
    whole, sign, nan = of.whole, of.sign, _nan_of_two(of, is_open)

    def extremum(a, b):
        if a != a or b != b:
            return nan(a, b)
        if is_open and a == b:
            first = (a.view(whole) & sign) != 0
            return b if first == is_max else a
        return (a if a > b else b) if is_max else (a if a < b else b)

    return device_function(extremum)
