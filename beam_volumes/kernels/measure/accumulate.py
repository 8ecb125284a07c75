"""Exact sums, sums of squares, extremes and counts of a 2-D view.

Results consist of integers, so they merge exactly in any order and grouping: a float is an integer mantissa
times a power of two, and integers add without rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from beam_volumes.kernels.casting import kernel_array, kernel_dtype
from beam_volumes.kernels.elementary.exp_log import flat_rows
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import Scratch, arrays


class KeyBits(NamedTuple):
    """Conversion of a dtype's bits to unsigned keys of the same order, and the test for non-finite values."""

    # The key is ``bits ^ (negative if bits & sign else positive)``. A float is not finite if ``bits &
    # magnitude >= infinite``. (Radix keys of floats: M. Herf, "Radix tricks", 2001.) -0.0 directly precedes
    # 0.0.

    sign: np.unsignedinteger
    magnitude: np.unsignedinteger
    negative: np.unsignedinteger
    positive: np.unsignedinteger
    infinite: np.unsignedinteger


def unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


def key_bits(dtype: np.dtype) -> KeyBits:
    dtype = np.dtype(dtype)
    u = unsigned(dtype).type
    bits = 8 * dtype.itemsize
    sign, every = 1 << (bits - 1), (1 << bits) - 1
    if dtype.kind in "bu":
        return KeyBits(u(sign), u(sign - 1), u(0), u(0), u(sign))
    if dtype.kind == "i":
        return KeyBits(u(sign), u(sign - 1), u(sign), u(sign), u(sign))
    if dtype.kind == "f" and bits <= 64:
        infinite = int(dtype.type(np.inf).view(u))
        return KeyBits(u(sign), u(sign - 1), u(every), u(sign), u(infinite))
    raise TypeError(f"no exact reductions of {dtype}: use bool, integers or floats to 64 bit")


def to_keys(values: np.ndarray) -> np.ndarray:
    """The order-preserving keys of values in native byte order."""
    k, bits = key_bits(values.dtype), values.view(unsigned(values.dtype))
    return bits ^ np.where(bits & k.sign, k.negative, k.positive)


def from_keys(keys: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The values of keys: the inverse of the order-preserving map."""
    dtype = np.dtype(dtype).newbyteorder("=")
    k = key_bits(dtype)
    keys = np.asarray(keys).astype(unsigned(dtype))
    was_negative = (keys ^ k.negative) & k.sign != 0  # for integers both masks are equal
    return np.where(was_negative, keys ^ k.negative, keys ^ k.positive).view(dtype)


def flat_bits(src: np.ndarray) -> tuple[np.ndarray, int]:
    """`flat_rows` of the bits of ``src``."""
    flat, pitch = flat_rows(src)
    return flat.view(unsigned(src.dtype)), pitch


def flat_mask(mask: np.ndarray | None, shape: tuple[int, ...]) -> tuple[np.ndarray | None, int]:
    """`flat_rows` of a mask, or nothing."""
    if mask is None:
        return None, 0
    if mask.shape != shape:
        raise ValueError(f"mask of shape {mask.shape} for voxels of shape {shape}")
    flat, pitch = flat_rows(mask)
    return flat.view(np.uint8), pitch


@row_kernel
def _extent(bits, pitch, rows, cols, mask, mask_pitch, key_of, neutral):
    low, high = neutral
    count = 0
    bad = 0
    for y in range(rows):
        row = bits[y * pitch : y * pitch + cols]
        if mask is None:
            more, smallest, largest = _extent_of_row(row, key_of, neutral)
            count += cols
        else:
            use = mask[y * mask_pitch : y * mask_pitch + cols]
            used, more, smallest, largest = _extent_of_some(row, use, key_of, neutral)
            count += np.int64(used)
        bad += np.int64(more)
        low, high = min(low, smallest), max(high, largest)
    return count - bad, bad, low, high


@row_kernel
def _extent_of_row(row, key_of, neutral):
    sign, magnitude, negative, positive, infinite = key_of
    none_low, none_high = neutral
    low, high = neutral
    bad = np.uint32(0)
    for x in range(row.size):
        b = row[x]
        finite = (b & magnitude) < infinite
        key = b ^ (negative if b & sign else positive)
        bad = np.uint32(bad + np.uint32(not finite))
        # Neutral values replace others, so this is a vectorized minimum.
        low = min(low, key if finite else none_low)
        high = max(high, key if finite else none_high)
    return bad, low, high


@row_kernel
def _extent_of_some(row, use, key_of, neutral):
    sign, magnitude, negative, positive, infinite = key_of
    none_low, none_high = neutral
    low, high = neutral
    count, bad = np.uint32(0), np.uint32(0)
    for x in range(row.size):
        b = row[x]
        used = use[x] != 0
        finite = (b & magnitude) < infinite
        key = b ^ (negative if b & sign else positive)
        count = np.uint32(count + np.uint32(used))
        bad = np.uint32(bad + np.uint32(used & (not finite)))
        low = min(low, key if used & finite else none_low)
        high = max(high, key if used & finite else none_high)
    return count, bad, low, high


def extent(
    src: np.ndarray, mask: np.ndarray | None = None
) -> tuple[int, int, np.generic | None, np.generic | None]:
    """Numbers of finite and non-finite voxels, and the smallest and largest finite voxel, or None.

    -0.0 is less than 0.0, so the order of voxels does not matter.
    """
    if mask is None and src.dtype.kind in "biu" and src.size:
        return src.size, 0, src.min(), src.max()  # without rounding, numpy's loops are the fastest
    bits, pitch = flat_bits(src)
    flat, mask_pitch = flat_mask(mask, src.shape)
    u = bits.dtype.type
    neutral = (u(np.iinfo(u).max), u(0))
    count, bad, low, high = _extent(
        bits, pitch, *src.shape, flat, mask_pitch, key_bits(src.dtype), neutral
    )
    if count == 0:
        return 0, bad, None, None
    low, high = from_keys(np.array([low, high], u), src.dtype)
    return count, bad, low, high


@kernel
def _count(bits, pitch, rows, cols, mask, mask_pitch, key_of):
    _, magnitude, _, _, infinite = key_of
    count = 0
    bad = 0
    for y in range(rows):
        row = bits[y * pitch : y * pitch + cols]
        if mask is None:
            for x in range(cols):
                bad += np.int64((row[x] & magnitude) >= infinite)
            count += cols
        else:
            use = mask[y * mask_pitch : y * mask_pitch + cols]
            for x in range(cols):
                used = use[x] != 0
                count += np.int64(used)
                bad += np.int64(used and (row[x] & magnitude) >= infinite)
    return count - bad, bad


def count(src: np.ndarray, mask: np.ndarray | None = None) -> tuple[int, int]:
    bits, pitch = flat_bits(src)
    flat, mask_pitch = flat_mask(mask, src.shape)
    return _count(bits, pitch, *src.shape, flat, mask_pitch, key_bits(src.dtype))


# The kernels below add digits (of 32 bits, signed for sums) to int64 cells. They are exact for 2**29 voxels
# per call: a voxel adds up to three times 2**32 to one. A few shifts and additions of Python integers remain.

_LOW = np.uint64(0xFFFFFFFF)
_MAXIMUM = 1 << 29
#: Digits of the sum and of the sum of squares, of 64 and of 128 bits.
DIGITS = 6


def exponents(dtype: np.dtype) -> int:
    """The number of exponents of a dtype, 1 for integers."""
    return {"f4": 256, "f8": 2048}.get(np.dtype(dtype).str[1:], 1)


@kernel
def _add_integers(src, pitch, rows, cols, mask, mask_pitch, squares, cells):
    """Integers of up to 32 bits: the digits of the sum, then of the sum of squares."""
    count = 0
    for y in range(rows):
        row = src[y * pitch : y * pitch + cols]
        total = 0
        if mask is None:
            count += cols
            for x in range(cols):
                total += np.int64(row[x])
            if squares:
                for x in range(cols):
                    v = np.uint64(abs(np.int64(row[x])))
                    cells[2] += np.int64((v * v) & _LOW)
                    cells[3] += np.int64((v * v) >> np.uint64(32))
        else:
            use = mask[y * mask_pitch : y * mask_pitch + cols]
            for x in range(cols):
                count += np.int64(use[x] != 0)
                total += np.int64(row[x]) if use[x] != 0 else 0
            if squares:
                for x in range(cols):
                    v = np.uint64(abs(np.int64(row[x]))) if use[x] != 0 else np.uint64(0)
                    cells[2] += np.int64((v * v) & _LOW)
                    cells[3] += np.int64((v * v) >> np.uint64(32))
        cells[0] += total & 0xFFFFFFFF
        cells[1] += total >> 32
    return count


@kernel
def _add_wide_integers(src, pitch, rows, cols, mask, mask_pitch, squares, cells):
    """Integers of 64 bits: two digits of the sum, four of the sum of squares."""
    count = 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            count += 1
            v = src[y * pitch + x]
            cells[0] += np.int64(v & 0xFFFFFFFF)
            cells[1] += np.int64(v >> 32)
            if squares:
                size = np.uint64(v) if v >= 0 else ~np.uint64(v) + np.uint64(1)
                _add_square(size, cells, 2)
    return count


@row_kernel
def _add_square(size, cells, at):
    """Add the 128-bit square of a uint64 to four cells of 32-bit digits."""
    a = size >> np.uint64(32)
    b = size & _LOW
    low, middle, high = b * b, a * b, a * a
    # the middle product counts twice: 2 a b 2**32
    cells[at] += np.int64(low & _LOW)
    cells[at + 1] += np.int64(low >> np.uint64(32)) + 2 * np.int64(middle & _LOW)
    cells[at + 2] += 2 * np.int64(middle >> np.uint64(32)) + np.int64(high & _LOW)
    cells[at + 3] += np.int64(high >> np.uint64(32))


@kernel
def _add_singles(bits, pitch, rows, cols, mask, mask_pitch, squares, cells):
    """float32: a row of cells per exponent, with the sum of mantissas and two digits of their squares."""
    count = 0
    bad = 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            count += 1
            b = np.int64(bits[y * pitch + x])
            exponent = (b >> 23) & 0xFF
            if exponent == 0xFF:
                bad += 1
                continue
            mantissa = (b & 0x7FFFFF) | (np.int64(exponent != 0) << 23)
            sign = -(b >> 31)
            cells[exponent, 0] += (mantissa ^ sign) - sign
            if squares:
                square = mantissa * mantissa
                cells[exponent, 1] += square & 0xFFFFFFFF
                cells[exponent, 2] += square >> 32
    return count - bad, bad


@kernel
def _add_doubles(bits, pitch, rows, cols, mask, mask_pitch, squares, cells):
    """float64: a row of cells per exponent: two digits of the sum of mantissas, four of their squares."""
    count = 0
    bad = 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            count += 1
            b = np.int64(bits[y * pitch + x])
            exponent = (b >> 52) & 0x7FF
            if exponent == 0x7FF:
                bad += 1
                continue
            mantissa = (b & 0xFFFFFFFFFFFFF) | (np.int64(exponent != 0) << 52)
            sign = b >> 63
            cells[exponent, 0] += ((mantissa & 0xFFFFFFFF) ^ sign) - sign
            cells[exponent, 1] += ((mantissa >> 32) ^ sign) - sign
            if squares:
                _add_square(np.uint64(mantissa), cells[exponent], 2)
    return count - bad, bad


def scratch_of_moments(dtype: np.dtype) -> Scratch:
    """A row per exponent, with digits of the sum and then of the sum of squares."""
    rows = exponents(kernel_dtype(np.dtype(dtype)))
    return (((rows, 3 if rows == exponents(np.dtype(np.float32)) else DIGITS), np.int64),)


def moments(
    src: np.ndarray, mask: np.ndarray | None = None, squares: bool = False
) -> tuple[int, int, int, int]:
    """Count, number of non-finite voxels, exact sum, and optional sum of squares, of the finite voxels.

    The sum is in units of ``2 ** -unit(dtype)``, and the sum of squares of ``2 ** (-2 * unit(dtype))``.
    """
    return moments_of_slices([src], None if mask is None else [mask], squares)


def moments_of_slices(
    slices: Sequence[np.ndarray], masks: Sequence[np.ndarray] | None, squares: bool
) -> tuple[int, int, int, int]:
    """`moments` of several slices of one dtype. Their digits are combined once."""
    # Mantissas of floats are added to integer accumulators by exponent, which are combined to one large
    # integer at the end: R. M. Neal, "Fast exact summation using small and large superaccumulators" (2015),
    # https://arxiv.org/abs/1505.05571. Squares are exact, too, as products of integer mantissas.
    dtype = kernel_dtype(slices[0].dtype)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise TypeError(f"no exact sum of {dtype}: use bool, integers or floats to 64 bit")
    wide = 1 if exponents(dtype) == exponents(np.dtype(np.float32)) else 2
    (cells,) = arrays(scratch_of_moments(dtype))
    cells[:] = 0
    count = bad = total = square = voxels = 0
    for src, mask in _parts(slices, masks):
        if voxels + src.size > _MAXIMUM:
            more = combined(cells, wide)
            total, square, voxels = total + more[0], square + more[1], 0
            cells[:] = 0
        voxels += src.size
        n, others = _add(kernel_array(src), mask, squares, cells)
        count, bad = count + n, bad + others
    more = combined(cells, wide)
    return count, bad, total + more[0], square + more[1]


def _parts(
    slices: Sequence[np.ndarray], masks: Sequence[np.ndarray] | None
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Slices with their masks, in parts of rows if they are large."""
    for k, src in enumerate(slices):
        rows = max(1, _MAXIMUM // max(1, src.shape[1]))
        for y in range(0, len(src), rows):
            yield src[y : y + rows], None if masks is None else masks[k][y : y + rows]


def _add(
    src: np.ndarray, mask: np.ndarray | None, squares: bool, cells: np.ndarray
) -> tuple[int, int]:
    """Add the digits of a slice; return the number of finite voxels, and of others."""
    flat, pitch = flat_rows(src)
    used, mask_pitch = flat_mask(mask, src.shape)
    window = (pitch, *src.shape, used, mask_pitch, squares)
    if src.dtype.kind == "f":
        add = _add_singles if src.itemsize == 4 else _add_doubles
        return add(flat.view(unsigned(src.dtype)), *window, cells)  # type: ignore[no-any-return]
    if src.dtype.kind == "b":
        flat = flat.view(np.uint8)
    add = _add_wide_integers if src.itemsize == 8 else _add_integers
    return add(flat, *window, cells[0]), 0


def combined(cells: np.ndarray, wide: int = 2) -> tuple[int, int]:
    """The sum and the sum of squares from a row of digits per exponent, ``wide`` of them of the sum."""
    # Digits have 32 bits, lowest first, and may be larger or negative. Most exponents have none.
    digits = cells.reshape(-1)
    used = np.flatnonzero(digits)
    total = square = 0
    for at, digit in zip(used.tolist(), digits[used].tolist(), strict=True):
        exponent, i = divmod(at, cells.shape[1])
        shift = max(exponent, 1) - 1  # subnormals have the smallest normal exponent
        if i < wide:
            total += digit << shift + 32 * i
        else:
            square += digit << 2 * shift + 32 * (i - wide)
    return total, square


def unit(dtype: np.dtype) -> int:
    """The exponent of the unit of sums, ``2 ** -unit``: a dtype's smallest subnormal, or 1."""
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        return 0
    return 1074 if dtype.itemsize == 8 else 149  # float16 is summed as float32
