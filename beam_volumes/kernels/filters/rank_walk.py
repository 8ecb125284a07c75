"""Ranks over a large box for any type, by a walk through the sorted voxels of a tile."""

import math
from functools import lru_cache

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.keys import from_keys, to_keys, unsigned_of
from beam_volumes.kernels.rows import Rows, as_bytes, has_nan, write_nan
from beam_volumes.kernels.scratch import needs

#: Approximate number of voxels that are sorted together, margins included.
TILE_VOXELS = 1 << 13
#: Positions in a tile are three fields of 9 bits and a guard bit, which a subtraction sets if a field is too
#: small.
_FIELD = 10
#: Maximum of slices, rows or columns sorted together; the last position of a field is `_NOWHERE`.
_LONGEST = (1 << _FIELD - 1) - 1
#: Voxels of the order that are compared at once.
_BLOCK = 32
_GUARDS = np.uint32(1 << 9 | 1 << 19 | 1 << 29)
#: Times a power of two, the upper 5 bits give the exponent (Leiserson, Prokop & Randall 1998).
_DE_BRUIJN = np.uint32(0x077CB531)
_BITS = np.argsort([(0x077CB531 << i & 0xFFFFFFFF) >> 27 for i in range(32)])
_NOWHERE = np.uint32(_LONGEST << 2 * _FIELD | _LONGEST << _FIELD | _LONGEST)  # outside of any box


@lru_cache(256)
def tile_shape(block, box):
    """Slices, rows and columns of a tile, proportional to the box; with margins at most `_LONGEST` each."""
    limits = [min(n, _LONGEST + 1 - b) for n, b in zip(block, box, strict=True)]
    tile = [1, 1, 1]
    limit = max(TILE_VOXELS, 10 * math.prod(box))
    while True:
        larger = []
        for a in range(3):
            grown = [
                min(limits[b], n + max(1, n // 4)) if a == b else n for b, n in enumerate(tile)
            ]
            voxels = math.prod(n + b - 1 for n, b in zip(grown, box, strict=True))
            if tile[a] < limits[a] and voxels <= limit:
                larger.append((tile[a] / box[a], a, grown))
        if not larger:
            return tuple(tile)
        tile = min(larger)[2]


def _scratch(rows, cols, depth, dtype, lz, ly, lx, rank):
    tz, ty, tx = tile_shape((depth, rows, cols), (lz, ly, lx))
    around = tz + lz - 1, ty + ly - 1, tx + lx - 1
    if max(around) > _LONGEST:
        raise ValueError("rank_walk: a box of more than 511 voxels along an axis")
    sorted_voxels = -(-math.prod(around) // _BLOCK) * _BLOCK
    places = ((2, sorted_voxels), np.uint32), ((sorted_voxels,), np.uint32)
    window, starts = ((around[2], ly * lz), np.uint32), ((256,), np.int64)
    keys = unsigned_of(dtype)
    return (
        ((2, sorted_voxels), keys),
        *places,
        window,
        ((tz, tx), keys),
        ((ty, tx), np.bool_),
        starts,
    )


@needs(_scratch)
@kernel
def rank_walk(src, out, y0, y1, nx, lz, ly, lx, rank, scratch):
    """The value of ``rank`` (0 is the smallest) over a box of up to 256 voxels along each axis, for any type.

    The scratch is about 16 bytes and two keys per sorted voxel: `TILE_VOXELS`, or ten boxes if they are more.
    """
    # The voxels of a tile and its margins are sorted once, and then identified by their index in this order.
    # From one box to the next along x, entering and leaving voxels below the last result are counted. From
    # there, a walk up or down the order skips voxels outside of the box. Both vectorize, and the walk is
    # short because neighbouring results are similar. It takes ``2 lz ly`` comparisons per voxel and vector, a
    # walk, and the sorting of 3 to 7 voxels for each of the tile's own.
    src, out = as_bytes(src), as_bytes(out)
    keys, places, order, window, result, flags, starts = scratch
    tz, ty, tx = len(result), len(flags), result.shape[1]
    for k in range(0, out.firsts.size, tz):
        for top in range(y0, y1, ty):
            for left in range(0, nx, tx):
                _tile(
                    Rows(src.lines, src.firsts[k:], src.left + left),
                    Rows(out.lines, out.firsts[k : k + tz], out.left + left),
                    top, min(ty, y1 - top), min(tx, nx - left), lz, ly, lx, rank,
                    keys, places, order, window, result, flags, starts,
                )  # fmt: skip


@row_kernel
def _tile(
    src, out, top, rows, cols, lz, ly, lx, rank,
    keys, places, order, window, result, flags, starts,
):  # fmt: skip
    wide, high, deep = cols + lx - 1, rows + ly - 1, out.firsts.size + lz - 1
    nans, n = np.int64(0), np.int64(0)
    for k in range(deep):
        for y in range(high):
            row = src.lines[src.firsts[k] + top + y, src.left : src.left + wide]
            to_keys(row, keys[0, n : n + wide])
            if has_nan(row):  # NaNs are last in the order
                for x in range(wide):
                    if row[x] != row[x]:
                        keys[0, n + x] = keys.dtype.type(np.uint64(0) - np.uint64(1))
                        nans += 1
            first = np.uint32(k << 2 * _FIELD | y << _FIELD)
            for x in range(wide):
                places[0, n + x] = first | np.uint32(x)
            n += wide
    i = _sort(keys, places, n, starts)
    _put_in_order(places[i, :n], order, high, wide, deep)
    places[i, n:] = _NOWHERE
    in_blocks = places[i].reshape(places.shape[1] // _BLOCK, _BLOCK)
    for k in range(out.firsts.size):
        guess = n // (2 * _BLOCK)
        for y in range(rows):
            _fill_window(order, window, k, y, high, wide, deep, lz, ly)
            row, nan = result[k, :cols], flags[y, :cols]
            guess = _walk_row(keys[i], in_blocks, window, guess, k, y, lz, ly, lx, rank, row)
            target = out.lines[out.firsts[k] + top + y, out.left : out.left + cols]
            from_keys(row, target)
            if nans:
                _mark_nans(window, lx, np.uint32(n - nans), nan)
                write_nan(nan, target)


@row_kernel
def _sort(keys, places, n, starts):
    """Sort both by key, byte by byte and stably; return which of the two rows has the result."""
    unsigned = keys.dtype.type
    byte, i = unsigned(255), 0
    for shift in range(0, 8 * keys.itemsize, 8):
        by = unsigned(shift)
        starts[:] = 0
        a, p, b, q = keys[i], places[i], keys[1 - i], places[1 - i]
        for j in range(n):
            starts[(a[j] >> by) & byte] += 1
        if starts[(a[0] >> by) & byte] == n:
            continue  # all equal
        at = 0
        for digit in range(256):
            at += starts[digit]
            starts[digit] = at - starts[digit]
        for j in range(n):
            digit = (a[j] >> by) & byte
            at = starts[digit]
            b[at] = a[j]
            q[at] = p[j]
            starts[digit] = at + 1
        i = 1 - i
    return i


@row_kernel
def _put_in_order(places, order, high, wide, deep):
    """For each voxel of the tile, by row, column, slice, its index in the sorted order."""
    mask = np.uint32((1 << _FIELD) - 1)
    for j in range(places.size):
        p = places[j]
        z, y, x = p >> np.uint32(2 * _FIELD), (p >> np.uint32(_FIELD)) & mask, p & mask
        order[(y * wide + x) * deep + z] = j


@row_kernel
def _fill_window(order, window, k, y, high, wide, deep, lz, ly):
    """By column, the voxels of ``lz`` slices and ``ly`` rows; only the last row if the others are there."""
    for r in range(y if y == 0 else y + ly - 1, y + ly):
        first = r % ly * lz
        for x in range(wide):
            at = (r * wide + x) * deep + k
            copied, column = order[at : at + lz], window[x]
            for j in range(lz):
                column[first + j] = copied[j]


@row_kernel
def _walk_row(keys, places, window, block, k, y, lz, ly, lx, rank, result):
    """Compute one row of results; return the block of the first one's index in the order."""
    begin, below = block, 0  # the number of the box's voxels in earlier blocks
    for x in range(lx):
        below += _count_below(window[x], np.uint32(block * _BLOCK))
    for x in range(result.size):
        if x:
            first = np.uint32(block * _BLOCK)
            below += _balance(window[x + lx - 1], window[x - 1], first)
        low = np.uint32(k << 2 * _FIELD | y << _FIELD | x)
        high = np.uint32((k + lz - 1) << 2 * _FIELD | (y + ly - 1) << _FIELD | (x + lx - 1))
        while below > rank:
            block -= 1
            below -= _count_inside(places, block, low, high)
        while True:
            count = _count_inside(places, block, low, high)
            if below + count > rank:
                break
            below += count
            block += 1
        result[x] = keys[block * _BLOCK + _find(places, block, rank - below, low, high)]
        if x == 0:
            begin = block
    return begin


@row_kernel
def _mark_nans(window, lx, end, flags):
    """Flag boxes of a row that contain a NaN: a voxel at index ``end`` or later."""
    numbers, size = 0, lx * window.shape[1]
    for x in range(lx):
        numbers += _count_below(window[x], end)
    for x in range(flags.size):
        if x:
            numbers += _balance(window[x + lx - 1], window[x - 1], end)
        flags[x] = numbers < size


@row_kernel
def _count_below(column, place):
    count = np.uint32(0)
    for j in range(column.size):
        count = np.uint32(count + np.uint32(column[j] < place))
    return np.int64(count)


@row_kernel
def _balance(enter, leave, place):
    count = np.int32(0)
    for j in range(enter.size):
        count = np.int32(count + (np.int32(enter[j] < place) - np.int32(leave[j] < place)))
    return np.int64(count)


@row_kernel
def _inside(place, low, high):
    """1 if a position is in the box from ``low`` to ``high``, both inclusive, else 0."""
    above = (place | _GUARDS) - low
    return np.uint32((above & ((high | _GUARDS) - place) & _GUARDS) == _GUARDS)


@row_kernel
def _count_inside(places, block, low, high):
    count = np.uint32(0)
    for j in range(_BLOCK):
        count = np.uint32(count + _inside(places[block, j], low, high))
    return np.int64(count)


@row_kernel
def _find(places, block, skip, low, high):
    """The index in its block of the box's voxel number ``skip``."""
    inside = np.uint32(0)
    for j in range(_BLOCK):
        inside |= np.uint32(_inside(places[block, j], low, high) << np.uint32(j))
    for _ in range(skip):
        inside &= np.uint32(inside - np.uint32(1))  # without the lowest bit
    lowest = np.uint32(inside & np.uint32(~inside + np.uint32(1)))
    return _BITS[np.uint32(lowest * _DE_BRUIJN) >> np.uint32(27)]
