"""Unsigned integers in the order of values, so one compiled kernel serves all types of a width, without NaN.

*Keys* are in the order of the values; for floats the highest bit is the inverted sign, and negative ones are
reversed. *Order keys* are in the order of an extremum: it has the largest key, for minima and maxima alike,
and NaN is above all. Functions except `unsigned_of` are for compiled code.
"""

import numpy as np
from numba import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from beam_volumes.kernels.jit import owning_nothing


def unsigned_of(dtype):
    """The unsigned integer type with the width of a dtype."""
    return np.dtype(f"u{np.dtype(dtype).itemsize}").type


def as_unsigned(lines):
    """A view of values as unsigned integers of their width."""
    raise NotImplementedError("only inside compiled code")


def to_keys(row, keys):
    """Write unsigned integers in the order of the values of ``row``."""
    raise NotImplementedError("only inside compiled code")


def from_keys(keys, row):
    raise NotImplementedError("only inside compiled code")


def to_order_key(given, like, is_max):
    """Convert a value's bits to an unsigned integer that is largest for the extremum, with NaN above all.

    ``like`` is an array of the values' type.
    """
    raise NotImplementedError("only inside compiled code")


def from_order_key(given, like, is_max):
    """The inverse of `to_order_key`; NaN gives the bits of ``np.nan``."""
    raise NotImplementedError("only inside compiled code")


class _Bits:
    """Bit patterns of a type."""

    # ``sign`` and ``highest`` (all bits), ``shift`` (the bits in which integers and their keys differ), and
    # ``infinity`` and ``nan`` of floats.

    def __init__(self, dtype):
        real = np.dtype(np.uint8) if dtype == types.boolean else as_dtype(dtype)
        self.unsigned = unsigned_of(real)
        self.highest = self.unsigned(np.iinfo(self.unsigned).max)
        self.sign = self.unsigned(self.highest ^ (self.highest >> self.unsigned(1)))
        self.shift = self.sign if real.kind == "i" else self.unsigned(0)
        if real.kind == "f":
            self.infinity, self.nan = np.array([np.inf, np.nan], real).view(self.unsigned)


@overload(as_unsigned)
def _as_unsigned_for(lines):
    unsigned = _Bits(lines.dtype).unsigned
    return lambda lines: lines.view(unsigned)


@overload(to_keys, jit_options=owning_nothing)
def _to_keys_for(row, keys):
    of = _Bits(row.dtype)
    unsigned, sign, shift = of.unsigned, of.sign, of.shift
    if isinstance(row.dtype, types.Float):

        def write(row, keys):
            bits = row.view(unsigned)
            for x in range(keys.size):
                keys[x] = ~bits[x] if bits[x] & sign else bits[x] | sign

    else:

        def write(row, keys):
            bits = row.view(unsigned)
            for x in range(keys.size):
                keys[x] = bits[x] ^ shift

    return write


@overload(from_keys, jit_options=owning_nothing)
def _from_keys_for(keys, row):
    of = _Bits(row.dtype)
    unsigned, sign, shift = of.unsigned, of.sign, of.shift
    if isinstance(row.dtype, types.Float):

        def write(keys, row):
            bits = row.view(unsigned)
            for x in range(keys.size):
                bits[x] = keys[x] ^ sign if keys[x] & sign else ~keys[x]

    else:

        def write(keys, row):
            bits = row.view(unsigned)
            for x in range(keys.size):
                bits[x] = keys[x] ^ shift

    return write


@overload(to_order_key, jit_options=owning_nothing)
def _to_order_key_for(given, like, is_max):
    of = _Bits(like.dtype)
    unsigned, sign, highest = of.unsigned, of.sign, of.highest
    if not isinstance(like.dtype, types.Float):
        return _reversed(of)
    infinity = of.infinity

    def order_key(given, like, is_max):
        key = (~given if given & sign else given | sign) ^ (unsigned(0) if is_max else highest)
        return highest if (given & ~sign) > infinity else key

    return order_key


@overload(from_order_key, jit_options=owning_nothing)
def _from_order_key_for(given, like, is_max):
    of = _Bits(like.dtype)
    unsigned, sign, highest = of.unsigned, of.sign, of.highest
    if not isinstance(like.dtype, types.Float):
        return _reversed(of)
    nan = of.nan

    def bits(given, like, is_max):
        key = given ^ (unsigned(0) if is_max else highest)
        return nan if given == highest else (key ^ sign if key & sign else ~key)

    return bits


def _reversed(of):
    """For integers, both directions are the same."""
    shift, highest = of.shift, of.highest

    def reverse(given, like, is_max):
        return given ^ (shift if is_max else shift ^ highest)

    return reverse
