"""Columns of exact sums: wide integers as digits of 32 bits, mergeable in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LOW = np.int64(0xFFFFFFFF)
_SIGN = 1 << 31


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
        for i in range(digits.shape[-1] - 1):
            digits[..., i + 1] += digits[..., i] >> 32
            digits[..., i] &= _LOW
        return cls(first, digits)._trimmed()

    @classmethod
    def integers(cls, values: np.ndarray) -> Wide:
        """From int64."""
        return cls.of(np.stack([values & _LOW, values >> 32], axis=-1))

    def _trimmed(self) -> Wide:
        digits = self.digits
        while digits.shape[-1] > 1:
            top, below = digits[..., -1], digits[..., -2]
            signed = np.where(below >> 31 & 1, below - (1 << 32), below)
            if not np.array_equal(top, signed >> 32):
                break
            digits = np.concatenate([digits[..., :-2], signed[..., None]], axis=-1)
        lead = 0
        while lead < digits.shape[-1] - 1 and not digits[..., lead].any():
            lead += 1
        if not digits.any():
            return Wide(0, digits[..., -1:])
        # A copy, to free the digits that are left out.
        return Wide(self.first + lead, digits[..., lead:].copy() if lead else digits)

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


def stacked(*columns: Wide) -> Wide:
    """Stack columns."""
    first, width = window(list(columns))
    return Wide.of(np.concatenate([c.spread(first, width) for c in columns], axis=1), first)


def add_groups(parts: list[Wide], order: np.ndarray, starts: np.ndarray) -> Wide:
    """The sums of groups of the rows of all parts, after sorting them by ``order``."""
    first, width = window(parts)
    if not width:
        return Wide(first, np.zeros((len(starts), *parts[0].digits.shape[1:]), np.int64))
    is_same = all(p.digits.shape[-1] == width for p in parts)
    rows = [p.digits if is_same else p.spread(first, width) for p in parts]
    return Wide.of(np.add.reduceat(np.concatenate(rows)[order], starts, axis=0), first)
