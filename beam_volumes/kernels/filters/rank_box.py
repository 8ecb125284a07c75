"""Ranks over a box of small integers, at a cost that is almost independent of the box."""

import numpy as np

from beam_volumes.kernels.filters.uniform import slide_right
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import Rows, as_bytes, copy_row
from beam_volumes.kernels.scratch import needs, stored

#: Slices, rows and columns of a tile, columns with margins: arrays for a threshold fit L1, and the tile's
#: voxels L2.
TILE = (32, 32, 256)
#: Rows of a tile are multiples of this, so unrolled vectors have no remainder.
_WHOLE = 64


def _scratch(rows, cols, depth, dtype, lz, ly, lx, rank):
    deep, tall = min(TILE[0], depth), min(TILE[1], rows)
    tiles = -(-cols // max(TILE[2] // 4, TILE[2] - lx + 1))
    pitch = -(-(-(-cols // tiles) + lx - 1) // _WHOLE) * _WHOLE
    size, padded = tall * pitch, (tall + ly - 1) * pitch
    tile = ((deep + lz - 1, padded), stored(dtype)), ((deep, size), stored(dtype))
    slices = ((padded,), np.uint8), ((3, size), np.uint16), ((size,), np.uint8)
    return *tile, *slices, ((9, 2), np.int64)


@needs(_scratch)
@kernel
def rank_box(src, out, y0, y1, nx, lz, ly, lx, rank, scratch):
    """The value of ``rank`` (0 is the smallest) over a box, for bool, uint8 or int8.

    ``lz < 256``, with fewer than 65536 voxels. The scratch is a tile with and without margins, and eight
    slices of it.
    """
    # The value is above ``t`` if at most ``rank`` voxels of the box are <= ``t``. Three sliding sums of 0s
    # and 1s count them at the same cost for any size. A tile tries thresholds from the middle of its values
    # outwards. If none or all of its results are above a threshold, half of the remaining ones are skipped.
    # So it takes about as many thresholds as there are different results in the tile: few for large boxes.
    # All of it vectorizes. About ``8 + log2(lx)`` operations per voxel, vector and threshold.
    # Slices of a tile are one long row each, for long loops. Columns after the tile's own have sums across
    # the ends of rows, which are not used.
    src, out = as_bytes(src), as_bytes(out)
    taken, made, below, sums, above, waiting = scratch
    depth, tall = len(made), min(TILE[1], y1 - y0)
    pitch = above.size // tall
    tiles = -(-nx // (pitch - lx + 1))
    wide = -(-nx // tiles)  # of similar width: each tries its own thresholds
    for k in range(0, out.firsts.size, depth):
        for top in range(y0, y1, tall):
            for left in range(0, nx, wide):
                _tile(
                    Rows(src.lines, src.firsts[k:], src.left + left),
                    Rows(out.lines, out.firsts[k : k + depth], out.left + left),
                    top, min(tall, y1 - top), min(wide, nx - left), pitch, lz, ly, lx, rank,
                    taken, made, below, sums, above, waiting,
                )  # fmt: skip


@row_kernel
def _tile(
    src, out, top, rows, cols, pitch, lz, ly, lx, rank,
    taken, made, below, sums, above, waiting,
):  # fmt: skip
    whole = src.lines.dtype.type
    width, slices = cols + lx - 1, out.firsts.size
    for k in range(slices + lz - 1):
        for y in range(rows + ly - 1):
            row = src.lines[src.firsts[k] + top + y, src.left : src.left + width]
            at = y * pitch
            copy_row(row, taken[k, at : at + width])
            for x in range(at + width, at + pitch):
                taken[k, x] = row[0]
    base = _search(
        taken[: slices + lz - 1, : (rows + ly - 1) * pitch], made[:slices, : rows * pitch],
        cols, pitch, lz, ly, lx, rank, below, sums, above, waiting,
    )  # fmt: skip
    for k in range(slices):
        for y in range(rows):
            row = made[k, y * pitch : y * pitch + cols]
            target = out.lines[out.firsts[k] + top + y, out.left : out.left + cols]
            for x in range(cols):
                target[x] = row[x] + whole(base)


@row_kernel
def _search(taken, made, cols, pitch, lz, ly, lx, rank, below, sums, above, waiting):
    """The results of one tile in ``made``, minus the returned number; ``waiting`` is a stack of intervals."""
    whole = taken.dtype.type
    size = made.shape[1]
    low, high = _range(taken, taken.shape[1], pitch, pitch)
    base = low
    made[:] = 0
    waiting[0, 0], waiting[0, 1] = low, high
    n = 1
    while n:
        n -= 1
        low, high = waiting[n, 0], waiting[n, 1]
        while low < high:
            t = (low + high) // 2
            above[:size] = 0
            for k in range(len(made)):
                _count_over_z(taken, k, lz, whole(t), below)
                _sum_over_y(below, pitch, ly, sums[0, :size])
                _raise_above(sums, size, lx, np.uint16(rank), made[k], above)
            low_count, high_count = _range(above.reshape(1, above.size), size, pitch, cols)
            if high_count == 0:
                high = t
            elif low_count == len(made):
                base += t - low  # 1 was already added to the results above t
                low = t + 1
            else:
                waiting[n, 0], waiting[n, 1] = low, t
                n += 1
                low = t + 1
    return base


@row_kernel
def _range(rows, size, pitch, cols):
    """The minimum and maximum of the first ``cols`` of every ``pitch`` numbers."""
    low = high = rows[0, 0]
    for k in range(len(rows)):
        for at in range(0, size, pitch):
            row = rows[k, at : at + cols]
            for x in range(row.size):
                low, high = row[x] if row[x] < low else low, row[x] if row[x] > high else high
    return np.int64(low), np.int64(high)


@row_kernel
def _count_over_z(taken, k, lz, t, below):
    """Count voxels <= ``t`` in slices ``k`` to ``k + lz - 1``, by updating ``below`` of slice ``k - 1``."""
    size = taken.shape[1]
    if k == 0:
        below[:size] = 0
        for j in range(lz):
            row = taken[j]
            for x in range(size):
                below[x] += np.uint8(row[x] <= t)
    else:
        enter, leave = taken[k + lz - 1], taken[k - 1]
        for x in range(size):
            below[x] += np.uint8(enter[x] <= t) - np.uint8(leave[x] <= t)


@row_kernel
def _sum_over_y(below, pitch, ly, sums):
    first = sums[:pitch]
    first[:] = 0
    for y in range(ly):
        enter = below[y * pitch : (y + 1) * pitch]
        for x in range(pitch):
            first[x] += enter[x]
    for at in range(pitch, sums.size, pitch):
        before, after = sums[at - pitch : at], sums[at : at + pitch]
        leave = below[at - pitch : at]
        enter = below[at + (ly - 1) * pitch : at + ly * pitch]
        for x in range(pitch):
            after[x] = before[x] + (np.uint16(enter[x]) - np.uint16(leave[x]))


@row_kernel
def _raise_above(sums, size, lx, rank, made, above):
    """Sum over x, add 1 to results above the threshold, and count the slices that have one."""
    half, n = lx >> 1, size - lx + 1
    if half == 0:
        row = sums[0, :n]
        for x in range(n):
            more = np.uint8(row[x] <= rank)
            made[x] += more
            above[x] += more
        return
    i = slide_right(sums, half, size)
    a, b, c = sums[i, :n], sums[i, half : half + n], sums[0, 2 * half :]
    if lx & 1:
        for x in range(n):
            more = np.uint8(np.uint16(a[x] + b[x] + c[x]) <= rank)
            made[x] += more
            above[x] += more
    else:
        for x in range(n):
            more = np.uint8(np.uint16(a[x] + b[x]) <= rank)
            made[x] += more
            above[x] += more
