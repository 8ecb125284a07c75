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
