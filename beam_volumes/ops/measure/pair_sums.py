"""Sums and means of few float64 numbers, rounded once: two numbers together are a sum exactly.

T. J. Dekker, "A floating-point technique for extending the available precision", Numerische Mathematik 18
(1971). Every operation is one of IEEE 754 with its rounding, so that bits are the same anywhere.
"""

from __future__ import annotations

import numpy as np

#: Means of numbers beyond these are left to others: products could overflow, and remainders vanish.
_SMALLEST, _LARGEST = 1e-280, 1e290
#: Parts a number into two halves of its digits.
_SPLIT = float(2**27 + 1)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add two numbers: the sum as it is rounded, and what that leaves out.

    >>> [float(n) for n in two_sum(np.float64(1e16), np.float64(1.0))]
    [1e+16, 1.0]
    """
    added = a + b
    back = added - a
    return added, (a - (added - back)) + (b - back)


class PairSum:
    """Sums of arrays, place by place.

    ``exact``: where the sum is exactly ``high + low``; elsewhere it takes more than two numbers.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.high, self.low = np.zeros(shape), np.zeros(shape)
        self.exact = np.ones(shape, bool)

    def add(self, voxels: np.ndarray) -> None:
        """Add numbers, all of them finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            self.high, left = two_sum(self.high, voxels)
            self.low, lost = two_sum(self.low, left)
        self.exact &= (
            lost == 0
        )  # not where it is no number, as more than the largest has been added

    def rounded(self) -> np.ndarray:
        """Round the sums, once where they are exact."""
        return two_sum(self.high, self.low)[0]

    def means(self, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Divide by counts from 1 to 2**20; and say where the means are rounded once."""
        with np.errstate(all="ignore"):
            total, rest = two_sum(self.high, self.low)
            number = count.astype(np.float64)
            mean = total / number
            over, _ = _remainder(total, rest, mean, number)
            mean = mean + over / number
            over, beneath = _remainder(total, rest, mean, number)
            upwards = over > 0
            beside = np.where(upwards, np.nextafter(mean, np.inf), np.nextafter(mean, -np.inf))
            # Half way to the next number, and all of it, as remainders.
            half = np.abs(beside - mean) * number
            twice = 2 * np.abs(over)
            on_the_way = np.where(upwards, beneath, -beneath)
            is_odd = (mean.view(np.int64) & 1) == 1  # half way, the even one of two is taken
            beyond = (on_the_way > 0) | ((on_the_way == 0) & is_odd)
            farther = (twice > half) | ((twice == half) & beyond)
            size = np.abs(total)
            sure = (size < _LARGEST) & (size > _SMALLEST) & (twice < 2 * half)
            nothing = (total == 0) & (rest == 0)
        return np.where(farther & ~nothing, beside, mean), self.exact & (sure | nothing)


def _remainder(
    total: np.ndarray, rest: np.ndarray, mean: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find what a mean leaves of a sum, exactly: it is few times the last digit of the mean."""
    product = mean * number
    first = _SPLIT * mean
    first = first - (first - mean)
    missed = (first * number - product) + (mean - first) * number
    return two_sum((total - product) - missed, rest)
