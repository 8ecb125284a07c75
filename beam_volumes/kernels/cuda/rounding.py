"""Arithmetic in device code that has the same bits as on the host.

The device's compiler contracts ``a * b + c`` into one operation that rounds once. It does not contract the
products of `product_of`; sums, differences, quotients and square roots are then rounded as on the host.
Factories return functions for the dtypes of one kernel, so device code has no branches on types.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import SIMULATED, device_function

if SIMULATED:
    libdevice: Any = None
else:
    from numba.cuda import libdevice


def product_of(dtype: Any) -> Callable[[Any, Any], Any]:
    """Multiply two numbers of a dtype; products of floats are rounded before they are added."""
    kind = np.dtype(dtype)
    if SIMULATED or kind.kind != "f":
        return operator.mul
    return libdevice.fmul_rn if kind.itemsize == 4 else libdevice.dmul_rn  # type: ignore[no-any-return]


def nearest_of(dtype: Any) -> Callable[[Any], Any]:
    """The nearest integer as a float of the same dtype; halves go to the even one."""
    if SIMULATED:
        return np.rint
    return libdevice.rintf if np.dtype(dtype).itemsize == 4 else libdevice.rint  # type: ignore[no-any-return]


#: Rounded exactly, and NaN for negative numbers.
square_root: Any = np.sqrt if SIMULATED else device_function(lambda x: math.sqrt(x))
floor: Any = np.floor if SIMULATED else device_function(lambda x: libdevice.floor(x))


@device_function
def larger(a, b):
    """``max(a, b)`` as the host's compiler has it, also for NaN and zeros."""
    return b if b > a else a


@device_function
def smaller(a, b):
    return b if b < a else a


def stored_dtype(dtype: Any) -> np.dtype:
    """Integers of the same width, in which `rounded_to` returns voxels of a dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.dtype(f"i{kind.itemsize}")
    return np.dtype("u1") if kind.kind == "b" else kind


def rounded_to(source: Any, target: Any) -> Any:
    """Convert a number to the bits of a voxel, as `beam_volumes.kernels.casting.cast_rounded` does."""
    # Integers round half to even and saturate, bool is whether a number is not 0, and NaN in floats is
    # ``np.nan``. The result has the type `stored_dtype`, because compilers treat all NaNs as equal.
    given, wanted = np.dtype(source), np.dtype(target)
    if wanted.kind == "b":
        return device_function(lambda value: np.uint8(1) if value != 0 else np.uint8(0))
    if wanted.kind == "f":
        return bits_of(wanted)
    if given.kind == "b":
        given = np.dtype("u1")
    return _saturating(given, wanted) if given.kind in "ui" else _whole(given, wanted)


def bits_of(dtype: Any) -> Any:
    """The bits of a float, with NaN as ``np.nan``."""
    real, whole = np.dtype(dtype).type, np.dtype(f"i{np.dtype(dtype).itemsize}").type
    nan = np.array(np.nan, real).view(whole)[()]

    def bits(value):
        narrow = real(value)
        return narrow.view(whole) if narrow == narrow else nan

    return device_function(bits)


def _saturating(given: np.dtype, wanted: np.dtype) -> Any:
    own, limits = np.iinfo(given), np.iinfo(wanted)
    number, result = given.type, wanted.type
    low, high = number(max(limits.min, own.min)), number(min(limits.max, own.max))
    return device_function(
        lambda value: result(low if value < low else high if value > high else value)
    )


def _whole(given: np.dtype, wanted: np.dtype) -> Any:
    limits, result = np.iinfo(wanted), wanted.type
    if limits.bits <= 32:
        narrow = limits.bits <= 16 and given == np.float32
        real = np.float32 if narrow else np.float64
        nearest, low, high, zero = nearest_of(real), real(limits.min), real(limits.max), real(0)

        def clipped(value):
            r = nearest(real(value) if value == value else zero)
            return result(np.int64(low if r < low else high if r > high else r))

        return device_function(clipped)

    # 64 bits: the upper limit is not a float; the next float is out of range.
    wide, beyond, bottom = nearest_of(np.float64), float(limits.max + 1), float(limits.min)
    smallest, largest, none = result(limits.min), result(limits.max), result(0)

    def clipped_64(value):
        r = wide(np.float64(value))
        if r >= beyond:
            return largest
        if r > bottom:
            return result(r)
        return none if r != r else smallest

    return device_function(clipped_64)
