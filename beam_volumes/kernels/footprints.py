"""Footprints taken apart; each is an int64 array (n, 3) of taps tz, ty, tx in raster order."""

import numpy as np

from beam_volumes.kernels.jit import kernel


@kernel
def runs_along_x(offsets):
    """Runs of neighbouring taps, as rows tz, ty, first tx, length."""
    runs = np.empty((len(offsets), 4), np.int64)
    n = 0
    for tz, ty, tx in offsets:
        if n > 0:
            last = runs[n - 1]
            if last[0] == tz and last[1] == ty and last[2] + last[3] == tx:
                last[3] += 1
                continue
        runs[n] = (tz, ty, tx, 1)
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
            lines[n] = (tz, ty)
            n += 1
        line[i] = n - 1
    return lines[:n], line


@kernel
def tabled_lengths(runs):
    """The lengths of runs, ascending from 1, and for each run which of them it has.

    Some are between: none is more than twice the one before.
    """
    longest = runs[:, 3].max()
    wanted = np.zeros(longest + 1, np.bool_)
    for run in runs:
        wanted[run[3]] = True
    lengths, place = np.ones(longest + 1, np.int64), np.zeros(longest + 1, np.int64)
    n = 1
    for length in range(2, longest + 1):
        while wanted[length] and lengths[n - 1] < length:
            lengths[n] = min(length, 2 * lengths[n - 1])
            place[length] = n
            n += 1
    return lengths[:n], place[runs[:, 3]]


@kernel
def slices_alike(runs):
    """Per tap slice its first run, one entry more at the end, and the first slice with the same runs."""
    n = runs[-1, 0] + 1
    first, like = np.zeros(n + 1, np.int64), np.arange(n)
    for run in runs:
        first[run[0] + 1 :] += 1
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
