"""Conversion of exact fractions to floats, rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np


def rounded(x: Fraction, dtype: np.dtype) -> np.generic:
    """``x`` as a float of ``dtype``: the nearest, half to even, infinite out of range."""
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
    """A number that rounds to every float dtype like the square root of ``x``."""
    # It has more bits than any float. If it is not exact, its last bit is set, so it differs from every float
    # and every middle of two floats.
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
    """Fractions (or their square roots), rounded like `rounded`; NaN for a denominator of 0."""
    # Python's division of integers rounds once, to float64. A narrower float follows from it, except next to
    # a middle of two floats, where the fraction itself decides.
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


#: Range of sums for fast means: outside, products could overflow, and remainders vanish.
_SMALLEST, _LARGEST = 1e-280, 1e290
#: Splits a number into two halves of its digits.
_SPLIT = float(2**27 + 1)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add two numbers: the rounded sum, and the rounding error.

    >>> [float(n) for n in two_sum(np.float64(1e16), np.float64(1.0))]
    [1e+16, 1.0]
    """
    added = a + b
    back = added - a
    return added, (a - (added - back)) + (b - back)


class PairSum:
    """Elementwise sums of arrays; ``exact`` is whether a sum is exactly ``high + low``."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.high, self.low = np.zeros(shape), np.zeros(shape)
        self.exact = np.ones(shape, bool)

    def add(self, voxels: np.ndarray) -> None:
        """Add finite numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            self.high, left = two_sum(self.high, voxels)
            self.low, lost = two_sum(self.low, left)
        self.exact &= lost == 0  # NaN after an overflow is not exact

    def rounded(self) -> np.ndarray:
        """Round the sums, once where they are exact."""
        return two_sum(self.high, self.low)[0]

    def means(self, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Divide by counts from 1 to 2**20; also return where the means are rounded once."""
        with np.errstate(all="ignore"):
            total, rest = two_sum(self.high, self.low)
            number = count.astype(np.float64)
            mean = total / number
            over, _ = _remainder(total, rest, mean, number)
            mean = mean + over / number
            over, beneath = _remainder(total, rest, mean, number)
            upwards = over > 0
            neighbour = np.where(upwards, np.nextafter(mean, np.inf), np.nextafter(mean, -np.inf))
            # Half the distance to the next number, and all of it, as remainders.
            half = np.abs(neighbour - mean) * number
            twice = 2 * np.abs(over)
            on_the_way = np.where(upwards, beneath, -beneath)
            is_odd = (mean.view(np.int64) & 1) == 1  # at the middle, round to even
            beyond = (on_the_way > 0) | ((on_the_way == 0) & is_odd)
            farther = (twice > half) | ((twice == half) & beyond)
            size = np.abs(total)
            sure = (size < _LARGEST) & (size > _SMALLEST) & (twice < 2 * half)
            nothing = (total == 0) & (rest == 0)
        return np.where(farther & ~nothing, neighbour, mean), self.exact & (sure | nothing)


def _remainder(
    total: np.ndarray, rest: np.ndarray, mean: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the exact remainder of a mean: a small multiple of its last digit."""
    product = mean * number
    first = _SPLIT * mean
    first = first - (first - mean)
    missed = (first * number - product) + (mean - first) * number
    return two_sum((total - product) - missed, rest)
