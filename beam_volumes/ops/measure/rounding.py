"""Exact fractions as floats, rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np


def rounded(x: Fraction, dtype: np.dtype) -> np.generic:
    """``x`` as a float of ``dtype``: the nearest, half to even, infinite beyond the largest."""
    info = np.finfo(dtype)
    if x == 0:
        return np.dtype(dtype).type(0)
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    if abs(x) < _power(exponent):
        exponent -= 1
    shift = max(exponent, int(info.minexp)) - int(info.nmant)
    mantissa = round(x / _power(shift))
    if abs(mantissa) * _power(shift) > Fraction(float(info.max)):
        return np.dtype(dtype).type(math.inf if x > 0 else -math.inf)
    value = math.ldexp(abs(mantissa), shift)
    return np.dtype(dtype).type(value if x > 0 else -value)


def _power(exponent: int) -> Fraction:
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def root(x: Fraction) -> Fraction:
    """A number that rounds to every float dtype as the square root of ``x`` does.

    It has more bits than any float, and where it is not exact its last bit is set, which keeps it
    away from every float and every middle between two.
    """
    return Fraction(*_root(x.numerator, x.denominator))


def _root(numerator: int, denominator: int) -> tuple[int, int]:
    half = max(0, 70 - (numerator.bit_length() - denominator.bit_length()) // 2)
    scaled, left = divmod(numerator << 2 * half, denominator)
    root = math.isqrt(scaled)
    if left or root * root != scaled:
        root |= 1
    return root, 1 << half


def quotients(
    numerators: Sequence[int], denominators: Sequence[int], dtype: np.dtype, roots: bool = False
) -> np.ndarray:
    """Fractions (or their square roots), each as `rounded` has it; NaN where nothing divides.

    Many at a time: Python's division of integers is rounded once, to float64. A narrower float is
    the same but next to a middle between two, where the fraction itself decides.
    """
    values = np.empty(len(numerators))
    pairs = list(zip(numerators, denominators, strict=True))
    if roots:
        pairs = [_root(n, d) if d > 0 else (n, d) for n, d in pairs]
    for i, (n, d) in enumerate(pairs):
        try:
            values[i] = n / d if d > 0 else math.nan
        except OverflowError:
            values[i] = math.inf if n > 0 else -math.inf
    with np.errstate(over="ignore", under="ignore"):
        result = values.astype(dtype)
        if result.dtype == np.float64:
            return result
        below, above = (np.nextafter(values, to).astype(dtype) for to in (-np.inf, np.inf))
    for i in np.flatnonzero((below != above) & np.isfinite(values)).tolist():
        result[i] = rounded(Fraction(*pairs[i]), dtype)
    return result
