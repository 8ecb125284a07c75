"""Ranks over a box of small integers, at a cost that hardly depends on the size of the box."""

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import as_rows, copy_row
from beam_volumes.kernels.uniform import slide_right

#: Slices, rows and columns of a tile: what a threshold works on fits L1, the tile's voxels L2.
TILE = (32, 32, 128)


@kernel
def rank_box(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, lz, ly, lx, rank):
    """The value of ``rank`` (0 is the smallest) over a box, for bool, uint8 or int8.

    That value is above ``t`` where no more than ``rank`` voxels of the box are at most ``t``. How many
    are is three sliding sums of 0s and 1s, whatever the size. A tile is tried with thresholds from the
    middle of its values outwards; where none or all of its results lie above one, half the thresholds
    left are spared. So it takes about as many as there are different results in the tile: few where
    boxes are large. Nothing depends on single voxels, all vector lanes work.

    Parameters
    ----------
    src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx
        See `beam_volumes.kernels.rows`. ``out`` has the type of ``src``, an integer of 8 bits or bool.
    lz, ly, lx : int
        Size of the box: ``lz`` below 256, below 65536 voxels together.
    rank : int
        ``0 <= rank < lz * ly * lx``.

    Notes
    -----
    About ``8 + log2(lx)`` operations a voxel for a threshold, over the vector width. Scratch: a tile
    with the box around it, without it, and of one slice eight times.
    """
    lines, results = as_rows(src), as_rows(out)
    depth = min(TILE[0], jz.size)
    pitch = min(TILE[2], nx) + lx - 1
    tall = min(TILE[1], y1 - y0)
    # Slices of a tile are one long row of its rows, so that loops are long. Columns beyond the
    # tile's own hold sums across the ends of rows: nobody reads them.
    taken = np.empty((depth + lz - 1, (tall + ly - 1) * pitch), lines.dtype)
    made = np.empty((depth, tall * pitch), lines.dtype)
    below = np.empty((tall + ly - 1) * pitch, np.uint8)
    sums = np.empty((3, tall * pitch), np.uint16)
    some, every = np.empty(tall * pitch, np.uint8), np.empty(tall * pitch, np.uint8)
    waiting = np.empty((9, 2), np.int64)
    firsts, to = iz * src.shape[1] + oy, jz * out.shape[1] + qy
    for k in range(0, jz.size, depth):
        for top in range(y0, y1, tall):
            for left in range(0, nx, TILE[2]):
                _tile(
                    lines, firsts[k:] + top, ox + left, results, to[k : k + depth] + top, qx + left,
                    min(tall, y1 - top), min(TILE[2], nx - left), lz, ly, lx, rank,
                    taken, made, below, sums, some, every, waiting,
                )  # fmt: skip


@row_kernel
def _tile(
    lines, firsts, ox, results, to, qx, rows, cols, lz, ly, lx, rank,
    taken, made, below, sums, some, every, waiting,
):  # fmt: skip
    """Row 0 of input slice ``i`` is ``lines[firsts[i]]``, of result ``k`` ``results[to[k]]``."""
    whole = lines.dtype.type
    width, slices = cols + lx - 1, to.size
    for k in range(slices + lz - 1):
        for y in range(rows + ly - 1):
            row = lines[firsts[k] + y, ox : ox + width]
            copy_row(row, taken[k, y * width : (y + 1) * width])
    base = _search(
        taken[: slices + lz - 1, : (rows + ly - 1) * width], made[:slices, : rows * width],
        cols, lz, ly, lx, rank, below, sums, some, every, waiting,
    )  # fmt: skip
    for k in range(slices):
        for y in range(rows):
            row = made[k, y * width : y * width + cols]
            target = results[to[k] + y, qx : qx + cols]
            for x in range(cols):
                target[x] = row[x] + whole(base)


@row_kernel
def _search(taken, made, cols, lz, ly, lx, rank, below, sums, some, every, waiting):
    """The results of one tile, less the number that it returns, in ``made``.

    ``waiting`` are the lower halves not yet looked into.
    """
    whole = taken.dtype.type
    width, size = cols + lx - 1, made.shape[1]
    low, high = _range(taken)
    base = low
    made[:] = 0
    waiting[0, 0], waiting[0, 1] = low, high
    n = 1
    while n:
        n -= 1
        low, high = waiting[n, 0], waiting[n, 1]
        while low < high:
            t = (low + high) // 2
            some[:size] = 0
            every[:size] = 1
            for k in range(len(made)):
                _count_over_z(taken, k, lz, whole(t), below)
                _sum_over_y(below, width, ly, sums[0, :size])
                i = slide_right(sums, lx, size)
                _raise_above(sums[i], np.uint16(rank), made[k], some, every)
            if not _any(some, 1, size, cols, width):
                high = t
            elif not _any(every, 0, size, cols, width):
                base += t - low  # to the results above t, 1 was added already
                low = t + 1
            else:
                waiting[n, 0], waiting[n, 1] = low, t
                n += 1
                low = t + 1
    return base


@row_kernel
def _range(taken):
    low = high = taken[0, 0]
    for k in range(len(taken)):
        row = taken[k]
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
def _sum_over_y(below, width, ly, sums):
    first = sums[:width]
    first[:] = 0
    for y in range(ly):
        enter = below[y * width : (y + 1) * width]
        for x in range(width):
            first[x] += enter[x]
    for at in range(width, sums.size, width):
        before, after = sums[at - width : at], sums[at : at + width]
        leave = below[at - width : at]
        enter = below[at + (ly - 1) * width : at + ly * width]
        for x in range(width):
            after[x] = before[x] + (np.uint16(enter[x]) - np.uint16(leave[x]))


@row_kernel
def _raise_above(counts, most, made, some, every):
    """Add 1 to each result that is above the threshold; note whether any is, and whether all are."""
    for x in range(made.size):
        above = np.uint8(counts[x] <= most)
        made[x] += above
        some[x] |= above
        every[x] &= above


@row_kernel
def _any(flags, flag, size, cols, width):
    for at in range(0, size, width):
        for x in range(at, at + cols):
            if flags[x] == flag:
                return True
    return False
