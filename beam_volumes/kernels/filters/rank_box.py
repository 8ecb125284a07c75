"""Ranks over a box of small integers, at a cost that hardly depends on the size of the box."""

import numpy as np

from beam_volumes.kernels.filters.uniform import slide_right
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import Rows, as_bytes, copy_row

#: Slices and rows of a tile, and columns with those around it: what a threshold works on fits L1, the
#: tile's voxels L2.
TILE = (32, 32, 256)
#: Rows of a tile are so long that vectors, unrolled, leave nothing over.
_WHOLE = 64


@kernel
def rank_box(src, out, y0, y1, nx, lz, ly, lx, rank):
    """The value of ``rank`` (0 is the smallest) over a box, for bool, uint8 or int8.

    That value is above ``t`` where no more than ``rank`` voxels of the box are at most ``t``. How many
    are is three sliding sums of 0s and 1s, whatever the size. A tile is tried with thresholds from the
    middle of its values outwards; where none or all of its results lie above one, half the thresholds
    left are spared. So it takes about as many as there are different results in the tile: few where
    boxes are large. Nothing depends on single voxels, all vector lanes work.

    ``out`` has the type of ``src``, an integer of 8 bits or bool.
    ``lz``, ``ly``, ``lx``: size of the box: ``lz`` below 256, below 65536 voxels together.
    ``rank``: ``0 <= rank < lz * ly * lx``.
    About ``8 + log2(lx)`` operations a voxel for a threshold, over the vector width. Scratch: a tile
    with the box around it, without it, and of one slice eight times.
    """
    src, out = as_bytes(src), as_bytes(out)
    slices, dtype = out.firsts.size, src.lines.dtype
    depth, tall = min(TILE[0], slices), min(TILE[1], y1 - y0)
    wide, pitch = columns(nx, lx)
    # Slices of a tile are one long row of its rows, so that loops are long. Columns beyond the
    # tile's own hold sums across the ends of rows: nobody reads them.
    taken = np.empty((depth + lz - 1, (tall + ly - 1) * pitch), dtype)
    made = np.empty((depth, tall * pitch), dtype)
    below = np.empty((tall + ly - 1) * pitch, np.uint8)
    sums, above = np.empty((3, tall * pitch), np.uint16), np.empty(tall * pitch, np.uint8)
    waiting = np.empty((9, 2), np.int64)
    for k in range(0, slices, depth):
        for top in range(y0, y1, tall):
            for left in range(0, nx, wide):
                _tile(
                    Rows(src.lines, src.firsts[k:] + top, src.left + left),
                    Rows(out.lines, out.firsts[k : k + depth] + top, out.left + left),
                    min(tall, y1 - top), min(wide, nx - left), pitch, lz, ly, lx, rank,
                    taken, made, below, sums, above, waiting,
                )  # fmt: skip


@kernel
def columns(nx, lx):
    """How many columns tiles have of their own, and in memory."""
    tiles = -(-nx // max(TILE[2] // 4, TILE[2] - lx + 1))
    wide = -(-nx // tiles)
    return wide, -(-(wide + lx - 1) // _WHOLE) * _WHOLE


@row_kernel
def _tile(
    src, out, rows, cols, pitch, lz, ly, lx, rank,
    taken, made, below, sums, above, waiting,
):  # fmt: skip
    whole = src.lines.dtype.type
    width, slices = cols + lx - 1, out.firsts.size
    for k in range(slices + lz - 1):
        for y in range(rows + ly - 1):
            row = src.lines[src.firsts[k] + y, src.left : src.left + width]
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
            target = out.lines[out.firsts[k] + y, out.left : out.left + cols]
            for x in range(cols):
                target[x] = row[x] + whole(base)


@row_kernel
def _search(taken, made, cols, pitch, lz, ly, lx, rank, below, sums, above, waiting):
    """The results of one tile, less the number that it returns, in ``made``.

    ``waiting`` are the lower halves not yet looked into.
    """
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
            least, most = _range(above.reshape(1, above.size), size, pitch, cols)
            if most == 0:
                high = t
            elif least == len(made):
                base += t - low  # to the results above t, 1 was added already
                low = t + 1
            else:
                waiting[n, 0], waiting[n, 1] = low, t
                n += 1
                low = t + 1
    return base


@row_kernel
def _range(rows, size, pitch, cols):
    """The least and the largest of the first ``cols`` of each ``pitch`` numbers."""
    low = high = rows[0, 0]
    for k in range(len(rows)):
        for at in range(0, size, pitch):
            row = rows[k, at : at + cols]
            for x in range(row.size):
                low, high = row[x] if row[x] < low else low, row[x] if row[x] > high else high
    return np.int64(low), np.int64(high)


@row_kernel
def _count_over_z(taken, k, lz, t, below):
    """How many voxels of slices ``k`` to ``k + lz - 1`` are at most ``t``; ``below`` is that of ``k - 1``."""
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
def _raise_above(sums, size, lx, most, made, above):
    """Sum over x, add 1 to each result that is above the threshold, and count in how many slices one is."""
    half, n = lx >> 1, size - lx + 1
    if half == 0:
        row = sums[0, :n]
        for x in range(n):
            more = np.uint8(row[x] <= most)
            made[x] += more
            above[x] += more
        return
    i = slide_right(sums, half, size)
    a, b, c = sums[i, :n], sums[i, half : half + n], sums[0, 2 * half :]
    if lx & 1:
        for x in range(n):
            more = np.uint8(np.uint16(a[x] + b[x] + c[x]) <= most)
            made[x] += more
            above[x] += more
    else:
        for x in range(n):
            more = np.uint8(np.uint16(a[x] + b[x]) <= most)
            made[x] += more
            above[x] += more
