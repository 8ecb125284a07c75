"""Columns of exact sums: wide integers as digits of 32 bits, mergeable in any order.

All rows of a part have the digits of any, so the size of rows depends on the range of their values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

_LOW = np.int64(0xFFFFFFFF)
_SIGN = 1 << 31
#: Rows that are rounded to floats at a time.
_ROWS = 1 << 12


@dataclass(frozen=True, eq=False)
class Wide:
    """An array of exact numbers ``sum(digits[..., i] * 2**(32 * (first + i)))``."""

    # All digits but the last are in 0 ... 2**32 - 1, the last is a signed 32-bit number. Digits that no
    # element needs are left out, so equal numbers have equal digits.

    first: int
    digits: np.ndarray

    @classmethod
    def of(cls, cells: np.ndarray, first: int = 0) -> Wide:
        """From digits (along the last axis) of any int64 values below 2**62 in size."""
        while cells.shape[-1] > 1 and not cells[..., -1].any():
            cells = cells[..., :-1]
        if cells.shape[-1] == 1 and -_SIGN <= cells.min(initial=0) <= cells.max(initial=0) < _SIGN:
            return cls(first if cells.any() else 0, np.ascontiguousarray(cells))
        digits = np.zeros((*cells.shape[:-1], cells.shape[-1] + 2), np.int64)
        digits[..., :-2] = cells
        del cells  # before digits are copied again
        for i in range(digits.shape[-1] - 1):
            digits[..., i + 1] += digits[..., i] >> 32
            digits[..., i] &= _LOW
        return cls(first, digits)._trimmed()

    @classmethod
    def integers(cls, values: np.ndarray) -> Wide:
        """From int64."""
        return cls.of(np.stack([values & _LOW, values >> 32], axis=-1))

    def _trimmed(self) -> Wide:
        digits, lead, end = self.digits, 0, self.digits.shape[-1]
        if not digits.any():
            return Wide(0, np.zeros((*digits.shape[:-1], min(1, end)), np.int64))
        top = digits[..., -1]
        while end > 1:
            below = digits[..., end - 2]
            signed = np.where(below >> 31 & 1, below - (1 << 32), below)
            if not np.array_equal(top, signed >> 32):
                break
            top, end = signed, end - 1
        while lead < end - 1 and not digits[..., lead].any():
            lead += 1
        if end - lead == digits.shape[-1]:
            return self
        # A copy, to free the digits that are left out.
        digits = digits[..., lead:end].copy()
        digits[..., -1] = top
        return Wide(self.first + lead, digits)

    def spread(self, first: int, width: int) -> np.ndarray:
        """The digits from ``first`` on, as a new array."""
        result = np.zeros((*self.digits.shape[:-1], width), np.int64)
        at = self.first - first
        result[..., at : at + self.digits.shape[-1]] = self.digits
        return result

    def __add__(self, other: Wide) -> Wide:
        first, width = window([self, other])
        return Wide.of(self.spread(first, width) + other.spread(first, width), first)

    def times(self, factor: np.ndarray | int) -> Wide:
        """The product with integers below 2**29 in size, with broadcasting."""
        return Wide.of(self.digits * np.asarray(factor, np.int64)[..., None], self.first)

    def __getitem__(self, key) -> Wide:
        """Select elements with all their digits."""
        return Wide(self.first, self.digits[key])._trimmed()

    def floats(self) -> np.ndarray:
        """As float64, to within a few roundings."""
        result = np.empty(self.digits.shape[:-1])
        for i in range(0, len(result), _ROWS):  # copies of digits are large
            result[i : i + _ROWS] = Wide(self.first, self.digits[i : i + _ROWS])._floats()
        return result

    def _floats(self) -> np.ndarray:
        negative = self.digits[..., -1] < 0
        digits = np.where(negative[..., None], -self.digits, self.digits)
        if negative.any():
            digits = Wide.of(digits).spread(0, digits.shape[-1] + 2)
        total = np.zeros(negative.shape)
        for i in range(digits.shape[-1] - 1, -1, -1):
            total += np.ldexp(digits[..., i].astype(np.float64), 32 * (self.first + i))
        return np.where(negative, -total, total)

    def python(self) -> tuple[list[int], int]:
        """As a flat list of Python integers in units of ``2**unit``, and ``unit``."""
        raw = self.digits.astype(np.uint32, order="C").astype("<u4").tobytes()
        step = 4 * self.digits.shape[-1]
        numbers = [
            int.from_bytes(raw[i : i + step], "little", signed=True)
            for i in range(0, len(raw), step)
        ]
        return numbers, 32 * self.first

    def int64(self, name: str, dtype: type[np.integer] = np.int64) -> np.ndarray:
        """As integers of 64 bits; raises an error if one does not fit."""
        values: np.ndarray | list[int]
        if self.first >= 0 and self.first + self.digits.shape[-1] <= 2:
            values = np.zeros(self.digits.shape[:-1], np.int64)
            for i in range(self.digits.shape[-1]):
                values += self.digits[..., i] << 32 * (self.first + i)
            lowest, highest = int(values.min(initial=0)), int(values.max(initial=0))
        else:
            numbers, unit = self.python()
            values = [n << unit for n in numbers]
            lowest, highest = min(values, default=0), max(values, default=0)
        info = np.iinfo(dtype)
        if not (info.min <= lowest and highest <= info.max):
            raise ValueError(f"{name} does not fit {np.dtype(dtype)}: use a mean instead")
        return np.array(values, dtype).reshape(self.digits.shape[:-1])


def window(parts: list[Wide]) -> tuple[int, int]:
    """The first digit and the number of digits that cover all parts."""
    first = min(p.first for p in parts)
    return first, max(p.first + p.digits.shape[-1] for p in parts) - first


class RowSize(NamedTuple):
    """The size of the rows of some parts of a table; see `row_size`."""

    rows: int
    others: int  #: Bytes of all rows without their exact numbers.
    #: Of each array of exact numbers: the first digit, the end of its digits, and the numbers of a row.
    digits: tuple[tuple[int, int, int], ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the merged parts, which has the digits of all."""
        numbers = sum(8 * (end - first) * count for first, end, count in self.digits)
        return numbers + self.others // max(1, self.rows)


def row_size(part: Any) -> RowSize:
    """The size of the rows of a part with ``exact`` arrays; 0 for one without these."""
    exact = getattr(part, "exact", ())
    if not exact:
        return RowSize(0, 0, ())
    digits = []
    for wide in exact:
        *numbers, width = wide.digits.shape[1:]
        end = wide.first + width if wide.digits.any() else wide.first
        digits.append((wide.first, end, math.prod(numbers)))
    others = part.nbytes - sum(wide.digits.nbytes for wide in exact)
    return RowSize(len(part), others, tuple(digits))


def joined_size(sizes: Iterable[RowSize]) -> RowSize:
    """The size of the rows of all parts."""
    sizes = list(sizes)
    digits = []
    for column in zip(*(s.digits for s in sizes), strict=True):
        used = [(first, end) for first, end, _ in column if first < end] or [(0, 0)]
        first, end = min(a for a, _ in used), max(b for _, b in used)
        digits.append((first, end, column[0][2]))
    return RowSize(sum(s.rows for s in sizes), sum(s.others for s in sizes), tuple(digits))


def stacked(*columns: Wide) -> Wide:
    """Stack columns."""
    first, width = window(list(columns))
    return Wide.of(np.concatenate([c.spread(first, width) for c in columns], axis=1), first)


def add_groups(parts: list[Wide], order: np.ndarray, starts: np.ndarray) -> Wide:
    """The sums of groups of the rows of all parts, after sorting them by ``order``."""
    first, width = window(parts)
    numbers = parts[0].digits.shape[1:-1]
    if not width:
        return Wide(first, np.zeros((len(starts), *numbers, 0), np.int64))
    # Rows may be large: they are copied to their places at once.
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    rows = np.zeros((len(order), *numbers, width), np.int64)
    start = 0
    for part in parts:
        stop, at = start + len(part.digits), part.first - first
        rows[place[start:stop], ..., at : at + part.digits.shape[-1]] = part.digits
        start = stop
    sums = np.add.reduceat(rows, starts, axis=0)
    del rows
    return Wide.of(sums, first)
