"""Sums, extremes and their positions in 2-D views: every voxel belongs to a cell of a smaller array.

Cells have strides of 0 along the reduced axes, so one loop serves projections along any axes. Results consist
of integers, as in `beam_volumes.kernels.measure.accumulate`. Sums are int64 digits of 32 bits. Floats are
integer mantissas times powers of two, and their exponent selects the digit (a superaccumulator after Neal per
cell). `float_sums` keeps only digits that voxels need, so a fill value of 1e20 adds a few digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.elementary.exp_log import flat_rows
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.measure.accumulate import flat_bits, flat_mask, key_bits, unsigned

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_DIGIT, _HALF_DIGIT = np.int64(0xFFFFFFFF), np.int64(1 << 31)

#: Digits of squares of float64.
_SQUARE_DIGITS = 128
#: Digits of a sum and of a sum of squares from the digit where a voxel begins, by size of the dtype; the last
#: one has room for the carries of 2**40 voxels.
_DIGITS = {4: (3, 4), 8: (4, 6)}
#: Bytes of digits before carries.
BEFORE_CARRIES = 1 << 20

#: Voxels that may be added to a cell before its digits are carried, far from 64-bit overflow.
MAXIMUM = 1 << 26

#: The place of an extreme among no voxels.
NOWHERE = (1 << 63) - 1


class Sums(NamedTuple):
    """Sums over slices for each cell."""

    # ``total`` and ``square`` have digits along their last axis, lowest first. The first one is digit
    # ``first`` (``square_first``) of an integer in units of ``2**-unit`` (``2**(-2 * unit)``) of
    # `beam_volumes.kernels.measure.accumulate.unit`.

    counts: np.ndarray
    bad: int
    first: int
    total: np.ndarray
    square_first: int
    square: np.ndarray


@kernel
def _put(cells, at, number, shift, sign):
    """Add ``sign * number * 2**shift`` at a digit; ``number`` has 64 bits, and ``shift`` is below 32."""
    low = (number & _LOW) << shift
    high = (number >> _HALF) << shift
    cells[at] += sign * np.int64(low & _LOW)
    cells[at + 1] += sign * np.int64(low >> _HALF)
    if high != 0:
        cells[at + 1] += sign * np.int64(high & _LOW)
        cells[at + 2] += sign * np.int64(high >> _HALF)


@kernel
def _put_product(cells, at, a, b, shift, sign):
    """Add ``sign * a * b * 2**shift`` at a digit; ``a`` and ``b`` have 64 bits."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    _put(cells, at, a_low * b_low, shift, sign)
    if a_high != 0:
        _put(cells, at + 1, a_high * b_low, shift, sign)
    if b_high != 0:
        _put(cells, at + 1, a_low * b_high, shift, sign)
        if a_high != 0:
            _put(cells, at + 2, a_high * b_high, shift, sign)


@kernel
def _split(b, mantissa_bits):
    """A finite float's mantissa, and the position of its lowest bit in the sum."""
    exponent = (b >> np.uint64(mantissa_bits)) & np.uint64(
        (1 << (11 if mantissa_bits == 52 else 8)) - 1
    )
    mantissa = b & np.uint64((1 << mantissa_bits) - 1)
    if exponent == 0:
        return mantissa, np.int64(0)
    return mantissa | np.uint64(1 << mantissa_bits), np.int64(exponent) - 1


@kernel
def _narrow(
    src, pitch, rows, cols, mask, mask_pitch, at, down, along, squares, count, total, square
):
    """Bool and integers of up to 16 bits, with squares that fit a digit."""
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            c = at + y * down + x * along
            v = np.int64(src[y * pitch + x])
            count[c] += 1
            total[c] += v
            if squares:
                square[c] += v * v


@kernel
def _integers(
    src, pitch, rows, cols, mask, mask_pitch, at, down, along, squares, count, total, square
):
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            c = at + y * down + x * along
            v = src[y * pitch + x]
            count[c] += 1
            total[2 * c] += np.int64(v & 0xFFFFFFFF)
            total[2 * c + 1] += np.int64(v >> 32)
            if squares:
                size = np.uint64(v) if v >= 0 else ~np.uint64(v) + np.uint64(1)
                _put_product(square, 5 * c, size, size, np.uint64(0), 1)


@kernel
def _floats(
    bits, pitch, rows, cols, mask, mask_pitch, at, down, along, squares, count, total, square,
    mantissa_bits, infinite, magnitude, slots, width, square_slots, square_width,
):  # fmt: skip
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            b = np.uint64(bits[y * pitch + x])
            size = b & magnitude
            if size >= infinite:
                continue
            c = at + y * down + x * along
            count[c] += 1
            if size == 0:
                continue
            sign = 1 if b == size else -1
            mantissa, place = _split(size, mantissa_bits)
            at_digit = c * width + slots[place >> 5]
            _put(total, at_digit, mantissa, np.uint64(place & 31), sign)
            if squares:
                at_digit = c * square_width + square_slots[2 * place >> 5]
                _put_product(square, at_digit, mantissa, mantissa, np.uint64(2 * place & 31), 1)


@kernel
def _places(bits, pitch, rows, cols, mask, mask_pitch, mantissa_bits, infinite, magnitude, used):
    """Mark the digits of squares where finite nonzero floats begin; return the number of other floats."""
    bad = 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            size = np.uint64(bits[y * pitch + x]) & magnitude
            if size >= infinite:
                bad += 1
            elif size != 0:
                _, place = _split(size, mantissa_bits)
                used[2 * place >> 5] = True
    return bad


@kernel
def _balanced(value):
    """A digit from -2**31 to 2**31 - 1, and the carry to the next one."""
    low = ((value + _HALF_DIGIT) & _DIGIT) - _HALF_DIGIT
    return low, (value - low) >> 32


@kernel
def _carried(cells, columns, out):
    """Carry the digits of all cells; whether a carry had no digit."""
    width, lost = columns.size, False
    for c in range(cells.size // width):
        carry = np.int64(0)
        for j in range(width):
            low, carry = _balanced(cells[c * width + j] + carry)
            out[c * width + j] = low
            if j + 1 == width or columns[j + 1] != columns[j] + 1:
                lost |= carry != 0
                carry = np.int64(0)
    return lost


@kernel
def _joined(a, a_at, a_width, b, b_at, b_width, columns, out):
    """Add carried digits, which are at ``a_at`` and ``b_at`` or absent (-1); whether a carry had no digit."""
    width, lost = columns.size, False
    for c in range(out.size // width):
        carry = np.int64(0)
        for j in range(width):
            value = carry
            if a_at[j] >= 0:
                value += np.int64(a[c * a_width + a_at[j]])
            if b_at[j] >= 0:
                value += np.int64(b[c * b_width + b_at[j]])
            low, carry = _balanced(value)
            out[c * width + j] = low
            if j + 1 == width or columns[j + 1] != columns[j] + 1:
                lost |= carry != 0
                carry = np.int64(0)
    return lost


def _float_parameters(dtype: np.dtype) -> tuple[int, np.uint64, np.uint64]:
    key = key_bits(dtype)
    return np.finfo(dtype).nmant, np.uint64(key.infinite), np.uint64(key.magnitude)


def strides_of_cells(
    shape: tuple[int, int, int], kept: tuple[bool, bool, bool]
) -> tuple[int, int, int]:
    """The change of the cell index for a step along z, y and x."""
    _, ny, nx = (n if k else 1 for n, k in zip(shape, kept, strict=True))
    z, y, x = kept
    return ny * nx if z else 0, nx if y else 0, 1 if x else 0


def check_digits(digits: int, max_digits: int | None) -> None:
    """Refuse sums of voxels with a range of sizes for which there is no memory."""
    if max_digits is not None and digits > max_digits:
        raise ValueError(
            f"voxels differ too much in size: exact sums of an element of the result have {digits} digits of "
            f"32 bits, and there is memory for {max_digits}; increase memory=, set voxels near 0 to 0, as in "
            "bv.where(abs(v) > 1e-20, v, 0), or reduce crops with fewer elements"
        )


def sums(
    views: Sequence[np.ndarray],
    masks: Sequence[np.ndarray] | None,
    kept: tuple[bool, bool, bool],
    squares: bool = False,
) -> Sums:
    """Exact sums, and optional sums of squares, of the finite voxels of slices along the reduced axes.

    ``kept``: for z, y, x, whether the result has this axis; otherwise its extent is 1.
    """
    # ``views`` are 2-D arrays of equal shape and dtype with at most `MAXIMUM` voxels per cell. Voxels count
    # where ``masks``, 2-D arrays, are nonzero.
    shape = (len(views), *views[0].shape)
    cells = tuple(n if k else 1 for n, k in zip(shape, kept, strict=True))
    over, down, along = strides_of_cells(shape, kept)  # type: ignore[arg-type]
    views = [kernel_array(v) for v in views]
    dtype = views[0].dtype
    windows = _windows(views, masks)
    bad = first = square_first = 0
    narrow = dtype.kind != "f" and dtype.itemsize <= 2
    width, square_width = (1, 1) if narrow else (2, 5)
    if dtype.kind == "f":
        how = _float_parameters(dtype)
        used, bad = _digits_of(windows, dtype)
        square_first, square_last = (int(used[0]), int(used[-1])) if len(used) else (0, 0)
        first, last = square_first >> 1, square_last >> 1
        single = dtype.itemsize == 4
        width = last - first + (2 if single else 3)
        square_width = square_last - square_first + (3 if single else 5)
        every = np.arange(_SQUARE_DIGITS)
        digits = every - first, width, every - square_first, square_width
    n = cells[0] * cells[1] * cells[2]
    count = np.zeros(n, np.int64)
    total = np.zeros(n * width, np.int64)
    square = np.zeros(n * square_width if squares else 0, np.int64)
    for k, window in enumerate(windows):
        where = (*window, k * over, down, along, squares, count, total, square)
        if dtype.kind == "f":
            _floats(*where, *how, *digits)
        elif narrow:
            _narrow(*where)
        else:
            _integers(*where)
    squared = (*(cells if squares else (0, 0, 0)), square_width)
    return Sums(
        count.reshape(cells),
        int(bad),
        first,
        total.reshape(*cells, width),
        square_first,
        square.reshape(squared),
    )


def _windows(
    views: Sequence[np.ndarray], masks: Sequence[np.ndarray] | None
) -> list[tuple[Any, ...]]:
    """The first arguments of kernels, for each view."""
    windows = []
    for k, view in enumerate(views):
        flat, pitch = flat_bits(view) if view.dtype.kind in "bf" else flat_rows(view)
        mask, mask_pitch = flat_mask(None if masks is None else masks[k], view.shape)
        windows.append((flat, pitch, *view.shape, mask, mask_pitch))
    return windows


def _digits_of(windows: Sequence[tuple[Any, ...]], dtype: np.dtype) -> tuple[np.ndarray, int]:
    """The digits where squares of floats begin, and the number of floats that are not finite."""
    used = np.zeros(_SQUARE_DIGITS, np.bool_)
    bad = sum(int(_places(*window, *_float_parameters(dtype), used)) for window in windows)
    return np.flatnonzero(used), bad


class FloatSums(NamedTuple):
    """Sums over slices for each cell, of the digits that voxels need."""

    # ``total`` and ``square`` have digits from -2**31 to 2**31 - 1 along their last axis. ``columns`` and
    # ``square_columns`` are their positions, lowest first, in the units of `Sums`.

    counts: np.ndarray
    bad: int
    columns: np.ndarray
    total: np.ndarray
    square_columns: np.ndarray
    square: np.ndarray


def float_sums(
    views: Sequence[np.ndarray],
    masks: Sequence[np.ndarray] | None,
    kept: tuple[bool, bool, bool],
    squares: bool = False,
    max_digits: int | None = None,
) -> FloatSums:
    """The sums of `sums` for floats, with only the digits that voxels need.

    More than ``max_digits`` digits of a cell raise ValueError.
    """
    shape = (len(views), *views[0].shape)
    cells = tuple(n if k else 1 for n, k in zip(shape, kept, strict=True))
    views = [kernel_array(v) for v in views]
    dtype = views[0].dtype
    used, bad = _digits_of(_windows(views, masks), dtype)
    columns, square_columns = (
        np.unique(begin[:, None] + np.arange(count))
        for begin, count in zip((used >> 1, used), _DIGITS[dtype.itemsize], strict=True)
    )
    square_columns = square_columns[: None if squares else 0]
    width, square_width = len(columns), len(square_columns)
    check_digits(width + square_width, max_digits)
    digits = _slots(columns), width, _slots(square_columns), square_width
    n = cells[0] * cells[1] * cells[2]
    counts = np.zeros(n, np.int64)
    total, square = np.empty(n * width, np.int32), np.empty(n * square_width, np.int32)
    start = 0
    for z, y, x in _boxes(cells, max(1, BEFORE_CARRIES // (8 * (1 + width + square_width)))):
        some = [v[y, x] for v in views[z]]
        where = None if masks is None else [m[y, x] for m in masks[z]]
        inside = (len(some), *some[0].shape)
        over, down, along = strides_of_cells(inside, kept)
        size = math.prod(n for n, k in zip(inside, kept, strict=True) if k)
        stop = start + size
        wide, wide_square = (
            np.zeros(size * width, np.int64),
            np.zeros(size * square_width, np.int64),
        )
        for k, window in enumerate(_windows(some, where)):
            how = (*window, k * over, down, along, squares, counts[start:stop], wide, wide_square)
            _floats(*how, *_float_parameters(dtype), *digits)
        lost = width and _carried(wide, columns, total[start * width : stop * width])
        if square_width:
            part = square[start * square_width : stop * square_width]
            lost |= _carried(wide_square, square_columns, part)
        assert not lost
        start = stop
    return FloatSums(
        counts.reshape(cells),
        bad,
        columns,
        total.reshape(*cells, width),
        square_columns,
        square.reshape(*cells, square_width),
    )


def _slots(columns: np.ndarray) -> np.ndarray:
    """The index of each digit in ``columns``."""
    slots = np.zeros(_SQUARE_DIGITS + 8, np.int64)
    slots[columns] = np.arange(len(columns))
    return slots


def _boxes(cells: Sequence[int], maximum: int) -> Iterator[tuple[slice, slice, slice]]:
    """Divide cells into boxes of successive cells, which include reduced axes."""
    nz, ny, nx = cells
    cols = max(1, min(nx, maximum))
    rows = max(1, min(ny, maximum // cols))
    depth = max(1, min(nz, maximum // (cols * rows)))
    steps = zip(cells, (depth, rows, cols), strict=True)
    axes = [
        [slice(None)] if n == 1 else [slice(a, min(a + step, n)) for a in range(0, n, step)]
        for n, step in steps
    ]
    return itertools.product(*axes)  # type: ignore[return-value]


def joined_digits(
    a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Add two arrays of digits with their columns, see `FloatSums`."""
    columns = np.union1d(a[0], b[0])
    out = np.empty((*a[1].shape[:-1], len(columns)), np.int32)
    if len(columns):
        parts = []
        for own, cells in (a, b):
            at = np.full(len(columns), -1, np.int64)
            at[np.searchsorted(columns, own)] = np.arange(len(own))
            parts += [np.ascontiguousarray(cells).reshape(-1), at, len(own)]
        lost = _joined(*parts, columns, out.reshape(-1))
        assert not lost
    return columns, out


@kernel
def _products(bits, pitch, rows, cols, mask, mask_pitch, others, other_pitch, kind, how, cells):
    mantissa_bits, _, magnitude = how
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            a, b = np.uint64(bits[y * pitch + x]), np.uint64(others[y * other_pitch + x])
            place = np.int64(0)
            if kind == 0:  # unsigned
                sign = 1
            elif kind == 1:  # two's complement
                negative = a > magnitude, b > magnitude
                a = (
                    (~a + np.uint64(1)) & (magnitude * np.uint64(2) + np.uint64(1))
                    if negative[0]
                    else a
                )
                b = (
                    (~b + np.uint64(1)) & (magnitude * np.uint64(2) + np.uint64(1))
                    if negative[1]
                    else b
                )
                sign = -1 if negative[0] != negative[1] else 1
            else:
                sign = -1 if (a > magnitude) != (b > magnitude) else 1
                a, at = _split(a & magnitude, mantissa_bits)
                b, place = _split(b & magnitude, mantissa_bits)
                place += at
            _put_product(cells, place >> 5, a, b, np.uint64(place & 31), sign)


def products(a: np.ndarray, b: np.ndarray, mask: np.ndarray | None = None) -> int:
    """The exact sum of products of two views of one dtype, which are finite where ``mask`` is nonzero.

    It is in units of ``2**(-2 * unit)``, see `beam_volumes.kernels.measure.accumulate.unit`.
    """
    if a.size > MAXIMUM and len(a) > 1:
        half = len(a) // 2
        return sum(
            products(a[part], b[part], None if mask is None else mask[part])
            for part in (slice(0, half), slice(half, None))
        )
    a, b = kernel_array(a), kernel_array(b)
    kind = {"f": 2, "i": 1}.get(a.dtype.kind, 0)
    how = _float_parameters(a.dtype) if kind == 2 else (0, np.uint64(0), _largest(a.dtype))
    cells = np.zeros(5 + (2 * 2046 >> 5 if kind == 2 else 0), np.int64)
    bits, pitch = flat_bits(a)
    others, other_pitch = flat_bits(b)
    used, mask_pitch = flat_mask(mask, a.shape)
    _products(bits, pitch, *a.shape, used, mask_pitch, others, other_pitch, kind, how, cells)
    return sum(digit << 32 * i for i, digit in enumerate(cells.tolist()))


def _largest(dtype: np.dtype) -> np.uint64:
    return np.uint64(key_bits(dtype).magnitude)


@kernel
def _extremes(
    bits, pitch, rows, cols, mask, mask_pitch, at, down, along, key_of, flip, best, found
):  # fmt: skip
    sign, magnitude, negative, positive, infinite = key_of
    bad = 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            b = bits[y * pitch + x]
            if (b & magnitude) >= infinite:
                bad += 1
                continue
            c = at + y * down + x * along
            best[c] = min(best[c], b ^ (negative if b & sign else positive) ^ flip)
            found[c] = True
    return bad


def extremes(
    views: Sequence[np.ndarray],
    masks: Sequence[np.ndarray] | None,
    kept: tuple[bool, bool, bool],
    largest: bool,
) -> tuple[np.ndarray, np.ndarray, int]:
    """The extreme finite voxels of slices along the reduced axes; parameters are described in `sums`."""
    # Returns ``best``, order-preserving keys (see `KeyBits`), inverted for maxima, so the smallest is the
    # extreme; ``found``, whether there was a voxel; and the number of non-finite voxels.
    shape = (len(views), *views[0].shape)
    cells = tuple(n if k else 1 for n, k in zip(shape, kept, strict=True))
    over, down, along = strides_of_cells(shape, kept)  # type: ignore[arg-type]
    u = unsigned(views[0].dtype).type
    every = np.iinfo(u).max
    best = np.full(cells, every, u)
    found = np.zeros(cells, np.bool_)
    bad = 0
    for k, view in enumerate(views):
        bits, pitch = flat_bits(view)
        mask, mask_pitch = flat_mask(None if masks is None else masks[k], view.shape)
        bad += _extremes(
            bits, pitch, *view.shape, mask, mask_pitch, k * over, down, along,
            key_bits(view.dtype), u(every if largest else 0), best.reshape(-1), found.reshape(-1),
        )  # fmt: skip
    return best, found, int(bad)


@kernel
def _first(bits, pitch, rows, cols, mask, mask_pitch, key_of, minus_zero, flip):
    sign, magnitude, negative, positive, infinite = key_of
    best, row, col, bad = bits[0], -1, -1, 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            b = bits[y * pitch + x]
            if (b & magnitude) >= infinite:
                bad += 1
                continue
            if b == minus_zero:
                b ^= b
            key = b ^ (negative if b & sign else positive) ^ flip
            if row < 0 or key < best:
                best, row, col = key, y, x
    return best, row, col, bad


def first_extreme(
    view: np.ndarray, mask: np.ndarray | None, largest: bool
) -> tuple[int, int, int, int]:
    """The first smallest or largest finite voxel in raster order."""
    # Returns ``key``, which is smallest for the extreme of several views, and equal for 0.0 and -0.0; ``row,
    # col``, its position, or -1; and the number of non-finite voxels.
    if view.size == 0:
        return 0, -1, -1, 0
    bits, pitch = flat_bits(view)
    used, mask_pitch = flat_mask(mask, view.shape)
    u = bits.dtype.type
    key_of = key_bits(view.dtype)
    minus_zero = key_of.sign if view.dtype.kind == "f" else u(0)
    flip = u(np.iinfo(u).max if largest else 0)
    best, row, col, bad = _first(
        bits, pitch, *view.shape, used, mask_pitch, key_of, minus_zero, flip
    )
    return int(best), int(row), int(col), int(bad)


@row_kernel
def _firsts(
    bits, pitch, rows, cols, mask, mask_pitch, at, down, along, place, place_down, place_along, key_of,
    minus_zero, flip, every, best, first,
):  # fmt: skip
    bad = 0
    for y in range(rows):
        row, c, p = bits[y * pitch : y * pitch + cols], at + y * down, place + y * place_down
        use = None if mask is None else mask[y * mask_pitch : y * mask_pitch + cols]
        if along:
            cells, places = best[c : c + cols], first[c : c + cols]
            more = _first_of_each(
                row, use, key_of, minus_zero, flip, every, cells, places, p, place_along
            )
        else:
            more, key, x = _first_of_row(row, use, key_of, minus_zero, flip, every)
            p += x * place_along
            if x >= 0 and (key < best[c] or (key == best[c] and p < first[c])):
                best[c], first[c] = key, p
        bad += np.int64(more)
    return bad


@row_kernel
def _key(b, key_of, minus_zero, flip, every):
    """The key of a voxel, ``every`` if it is not finite, and whether it is."""
    sign, magnitude, negative, positive, infinite = key_of
    finite = (b & magnitude) < infinite
    b = b ^ b if b == minus_zero else b
    key = b ^ (negative if b & sign else positive) ^ flip
    return (key if finite else every), finite


@row_kernel
def _first_of_each(row, use, key_of, minus_zero, flip, every, best, first, place, step):
    """Compare each voxel of a row with its own cell. Unconditional stores are vectorized."""
    bad = np.uint32(0)
    for x in range(row.size):
        key, finite = _key(row[x], key_of, minus_zero, flip, every)
        used = True if use is None else use[x] != 0
        bad = np.uint32(bad + np.uint32(used & (not finite)))
        old, before, p = best[x], first[x], place + x * step
        is_first = used & finite & ((key < old) | ((key == old) & (p < before)))
        best[x] = key if is_first else old
        first[x] = p if is_first else before
    return bad


@row_kernel
def _first_of_row(row, use, key_of, minus_zero, flip, every):
    """The number of voxels that are not finite, the smallest key, and its first place or -1."""
    best, bad = every, np.uint32(0)
    for x in range(row.size):
        key, finite = _key(row[x], key_of, minus_zero, flip, every)
        used = True if use is None else use[x] != 0
        bad = np.uint32(bad + np.uint32(used & (not finite)))
        best = min(best, key if used else every)
    for x in range(row.size):
        key, finite = _key(row[x], key_of, minus_zero, flip, every)
        if key == best and finite and (use is None or use[x] != 0):
            return bad, best, x
    return bad, best, -1


def first_extremes(
    views: Sequence[np.ndarray],
    masks: Sequence[np.ndarray] | None,
    kept: tuple[bool, bool, bool],
    largest: bool,
    axis: int,
    start: int,
) -> tuple[np.ndarray, np.ndarray, int]:
    """The places along ``axis`` of the first extreme finite voxels; other axes are kept, or have extent 1.

    ``start`` is the place of the first voxel; other parameters are described in `sums`.
    """
    # Returns ``best``, keys as in `extremes`, equal for 0.0 and -0.0; ``first``, int64, the place, or
    # `NOWHERE` without voxels; and the number of non-finite voxels.
    shape = (len(views), *views[0].shape)
    cells = tuple(n if k else 1 for n, k in zip(shape, kept, strict=True))
    over, down, along = strides_of_cells(shape, kept)  # type: ignore[arg-type]
    u = unsigned(views[0].dtype).type
    every = np.iinfo(u).max
    best, first = np.full(cells, every, u), np.full(cells, NOWHERE, np.int64)
    key_of = key_bits(views[0].dtype)
    minus_zero = key_of.sign if views[0].dtype.kind == "f" else u(0)
    bad = 0
    for k, view in enumerate(views):
        bits, pitch = flat_bits(view)
        mask, mask_pitch = flat_mask(None if masks is None else masks[k], view.shape)
        bad += _firsts(
            bits, pitch, *view.shape, mask, mask_pitch, k * over, down, along,
            start + (k if axis == 0 else 0), int(axis == 1), int(axis == 2),
            key_of, minus_zero, u(every if largest else 0), u(every),
            best.reshape(-1), first.reshape(-1),
        )  # fmt: skip
    return best, first, int(bad)
