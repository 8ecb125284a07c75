"""Unsigned integers in the order of values, as `beam_volumes.kernels.keys` has them on the host.

Voxels are loaded and stored as unsigned integers of their width. ``dtype`` is the dtype of the voxels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import device_function


def unsigned_of(dtype: Any) -> Any:
    return np.dtype(f"u{np.dtype(dtype).itemsize}").type


class Bits:
    """Bit patterns of a dtype: the sign, all bits, and infinity and ``np.nan`` of floats."""

    def __init__(self, dtype: Any):
        kind = np.dtype(dtype)
        self.is_float = kind.kind == "f"
        self.unsigned = unsigned_of(kind)
        self.highest = self.unsigned(np.iinfo(self.unsigned).max)
        self.sign = self.unsigned(1 << (8 * kind.itemsize - 1))
        self.shift = self.sign if kind.kind == "i" else self.unsigned(0)
        if self.is_float:
            self.infinity, self.nan = np.array([np.inf, np.nan], kind).view(self.unsigned)


@lru_cache
def to_key(dtype: Any) -> Any:
    """The key of a voxel's bits: it has the order of the values, with -0.0 before 0.0."""
    of = Bits(dtype)
    unsigned, sign, highest, shift = of.unsigned, of.sign, of.highest, of.shift
    if not of.is_float:
        return device_function(lambda bits: unsigned(bits ^ shift))
    return device_function(
        lambda bits: unsigned(bits ^ highest) if bits & sign else unsigned(bits | sign)
    )


@lru_cache
def from_key(dtype: Any) -> Any:
    """The inverse of `to_key`."""
    of = Bits(dtype)
    unsigned, sign, highest, shift = of.unsigned, of.sign, of.highest, of.shift
    if not of.is_float:
        return device_function(lambda key: unsigned(key ^ shift))
    return device_function(
        lambda key: unsigned(key ^ sign) if key & sign else unsigned(key ^ highest)
    )


@lru_cache
def is_nan(dtype: Any) -> Any:
    """Whether a voxel's bits are NaN; never for integers."""
    of = Bits(dtype)
    if not of.is_float:
        return device_function(lambda bits: False)
    sign, infinity, highest = of.sign, of.infinity, of.highest
    magnitude = of.unsigned(highest ^ sign)
    return device_function(lambda bits: (bits & magnitude) > infinity)


@lru_cache
def to_order_key(dtype: Any) -> Any:
    """A key that is largest for the extremum, with NaN above all."""
    of, key_of, is_hole = Bits(dtype), to_key(dtype), is_nan(dtype)
    unsigned, highest = of.unsigned, of.highest

    def order_key(bits, is_max):
        key = key_of(bits)
        return highest if is_hole(bits) else key if is_max else unsigned(key ^ highest)

    return device_function(order_key)


@lru_cache
def from_order_key(dtype: Any) -> Any:
    """The inverse of `to_order_key`; NaN gives the bits of ``np.nan``."""
    of, bits_of = Bits(dtype), from_key(dtype)
    unsigned, highest = of.unsigned, of.highest
    nan = of.nan if of.is_float else highest
    has_nan = of.is_float

    def bits(key, is_max):
        if has_nan and key == highest:
            return nan
        return bits_of(key if is_max else unsigned(key ^ highest))

    return device_function(bits)
