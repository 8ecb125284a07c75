"""Any rank over a footprint. A result is NaN exactly where its footprint contains one."""

import numpy as np

from beam_volumes.kernels.filters.footprints import lines_of_taps
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.keys import from_keys, to_keys, unsigned_of
from beam_volumes.kernels.rows import as_bytes, copy_row, has_nan, mark_nan, write_nan
from beam_volumes.kernels.scratch import needs


@row_kernel
def _bits_that_differ(keys, low, high):
    """The number of lowest bits in which keys differ, and the common rest."""
    copy_row(keys[0], low)
    copy_row(keys[0], high)
    for i in range(1, len(keys)):
        row = keys[i]
        for x in range(row.size):
            low[x] = row[x] if row[x] < low[x] else low[x]
            high[x] = row[x] if row[x] > high[x] else high[x]
    lowest, highest = low[0], high[0]
    for x in range(1, low.size):
        lowest = low[x] if low[x] < lowest else lowest
        highest = high[x] if high[x] > highest else highest
    smallest, one = np.uint64(lowest), np.uint64(1)
    differ = smallest ^ np.uint64(highest)
    bits = 0
    while differ != 0:
        differ >>= one
        smallest &= ~(one << np.uint64(bits))
        bits += 1
    return bits, smallest


@row_kernel
def _count_below(keys, line, tx, limit, few, total):
    """``total[x]`` = how many offsets of voxel ``x`` are below ``limit[x]``; ``few`` is scratch."""
    n = limit.size
    total[:] = 0
    for first in range(0, line.size, 255):  # the range of a byte
        few[:] = 0
        for i in range(first, min(first + 255, line.size)):
            row = keys[line[i], tx[i] : tx[i] + n]
            for x in range(n):
                few[x] += row[x] < limit[x]
        for x in range(n):
            total[x] += few[x]


@row_kernel
def _bisect(keys, line, tx, rank, low, high, limit, below):
    """The key of ``rank`` under each voxel's footprint, in ``low``; the other rows are scratch."""
    unsigned = keys.dtype.type
    bits, shared = _bits_that_differ(keys, low, high)
    n = below.size
    found, limit, few = low[:n], limit[:n], high[:n]
    found[:] = unsigned(shared)
    for bit in range(bits - 1, -1, -1):
        step = unsigned(np.uint64(1) << np.uint64(bit))
        for x in range(n):
            limit[x] = found[x] | step
        _count_below(keys, line, tx, limit, few, below)
        for x in range(n):
            without, with_bit = found[x], limit[x]  # load both, or LLVM makes this a branch
            found[x] = with_bit if below[x] <= rank else without


def _scratch(rows, cols, depth, dtype, offsets, rank):
    lines = 1 + int((np.diff(offsets[:, :2], axis=0) != 0).any(axis=1).sum())
    n, width, keys = len(offsets), cols + int(offsets[:, 2].max()), unsigned_of(dtype)
    indices = (((lines, 2), np.int64), ((n,), np.int64), ((n,), np.int64))
    # Three arrays: rows of bytes in one array would not be aligned.
    limits = [((width,), keys)] * 3
    return *indices, ((lines, width), keys), *limits, ((cols,), np.uint32), ((cols,), np.bool_)


@needs(_scratch)
@kernel
def rank_footprint(src, out, y0, y1, nx, offsets, rank, scratch):
    """The value of ``rank`` (0 is the smallest) under any footprint of ``n`` voxels, ``0 <= rank < n``.

    ``offsets``, int64 (n, 3), are tz, ty, tx >= 0 in order. The scratch has a row for each (tz, ty).
    """
    # Bisection on the value, for a row of voxels at a time. Values become unsigned integers of the same
    # order. The result is built from its highest bit: a bit is set if at most ``rank`` values are below the
    # number with this bit. This only compares and counts, so it vectorizes: ``n`` comparisons per voxel,
    # vector and bit. Bits that all values around a row share are skipped.
    at, line, tx, keys, low, high, limit, below, flags = scratch
    lines_of_taps(offsets, at, line)
    for i in range(tx.size):
        tx[i] = offsets[i, 2]
    _ranks(
        as_bytes(src), as_bytes(out), y0, y1,
        offsets, at, line, tx, rank, keys, low, high, limit, below, flags,
    )  # fmt: skip


@row_kernel
def _ranks(
    src, out, y0, y1,
    offsets, at, line, tx, rank, keys, low, high, limit, below, flags,
):  # fmt: skip
    lines, firsts, left = src
    nx, width = flags.size, low.size
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            nan = False
            for i in range(len(at)):
                row = lines[firsts[k + at[i, 0]] + y + at[i, 1], left : left + width]
                nan |= has_nan(row)
                to_keys(row, keys[i])
            _bisect(keys, line, tx, rank, low, high, limit, below)
            result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            from_keys(low[:nx], result)
            if nan:
                flags[:] = False
                for i in range(len(offsets)):
                    row = lines[firsts[k + offsets[i, 0]] + y + offsets[i, 1]]
                    mark_nan(row[left + offsets[i, 2] :], flags)
                write_nan(flags, result)
