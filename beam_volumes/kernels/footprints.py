"""Footprints taken apart; each is an int64 array (n, 3) of taps tz, ty, tx in raster order.

Plain loops over numbers, for what numba makes of numpy's ways to say the same takes seconds to compile.
"""

import numpy as np

from beam_volumes.kernels.jit import kernel


@kernel
def largest(table, column):
    """The largest number of a column, none negative."""
    found = 0
    for i in range(len(table)):
        found = max(found, table[i, column])
    return found


@kernel
def runs_along_x(offsets):
    """Runs of neighbouring taps, as rows tz, ty, first tx, length."""
    runs = np.empty((len(offsets), 4), np.int64)
    n = 0
    for i in range(len(offsets)):
        tz, ty, tx = offsets[i, 0], offsets[i, 1], offsets[i, 2]
        if n > 0:
            last = runs[n - 1]
            if last[0] == tz and last[1] == ty and last[2] + last[3] == tx:
                last[3] += 1
                continue
        run = runs[n]
        run[0], run[1], run[2], run[3] = tz, ty, tx, 1
        n += 1
    return runs[:n]


@kernel
def lines_of_taps(offsets):
    """The distinct (tz, ty) of a footprint, and for each tap which of them it is on."""
    lines = np.empty((len(offsets), 2), np.int64)
    line = np.empty(len(offsets), np.int64)
    n = 0
    for i in range(len(offsets)):
        tz, ty = offsets[i, 0], offsets[i, 1]
        if n == 0 or lines[n - 1, 0] != tz or lines[n - 1, 1] != ty:
            lines[n, 0], lines[n, 1] = tz, ty
            n += 1
        line[i] = n - 1
    return lines[:n], line


@kernel
def tabled_lengths(runs):
    """The lengths of runs, ascending from 1, and for each run which of them it has.

    Some are between: none is more than twice the one before.
    """
    longest = largest(runs, 3)
    wanted = np.zeros(longest + 1, np.bool_)
    for i in range(len(runs)):
        wanted[runs[i, 3]] = True
    lengths, place = np.ones(longest + 1, np.int64), np.zeros(longest + 1, np.int64)
    n = 1
    for length in range(2, longest + 1):
        while wanted[length] and lengths[n - 1] < length:
            lengths[n] = min(length, 2 * lengths[n - 1])
            place[length] = n
            n += 1
    level = np.empty(len(runs), np.int64)
    for i in range(len(runs)):
        level[i] = place[runs[i, 3]]
    return lengths[:n], level


@kernel
def slices_alike(runs):
    """Per tap slice its first run, one entry more at the end, and the first slice with the same runs."""
    n = runs[-1, 0] + 1
    first, like = np.zeros(n + 1, np.int64), np.arange(n)
    for i in range(len(runs)):
        for tz in range(runs[i, 0], n):
            first[tz + 1] += 1
    for tz in range(n):
        count = first[tz + 1] - first[tz]
        for other in range(tz):
            same = like[tz] == tz and first[other + 1] - first[other] == count
            for i in range(count if same else 0):
                for column in range(1, 4):
                    same &= runs[first[tz] + i, column] == runs[first[other] + i, column]
            if same:
                like[tz] = other
    return first, like
