"""Decomposition of footprints; each is an int64 array (n, 3) of offsets tz, ty, tx in raster order.

Plain loops, because numba takes seconds to compile the equivalent numpy functions.
"""

import numpy as np

from beam_volumes.kernels.jit import kernel


@kernel
def largest(table, column):
    """The maximum of a column without negative numbers."""
    found = 0
    for i in range(len(table)):
        found = max(found, table[i, column])
    return found


@kernel
def runs_along_x(offsets):
    """Runs of neighbouring offsets, as rows tz, ty, first tx, length."""
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
    """The distinct (tz, ty) of a footprint, and the index of each offset's one."""
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
    """The lengths of runs, ascending from 1, and the index of each run's length.

    Lengths are added so that none is more than twice the previous one.
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
def growing_slices(runs):
    """The distinct slices of a footprint, smallest first, as differences from the previous slice."""
    # The slices of a ball, for example, are nested. A slice that shares fewer than two runs with the previous
    # one starts anew. Returns ``kind``, int64: for each tz its distinct slice, or -1 for an empty one;
    # ``first, own``, int64: ``own[first[i] : first[i + 1]]`` are the runs that distinct slice ``i`` starts
    # with or adds; ``grown``, bool: whether it contains the previous one.
    n = runs[-1, 0] + 1
    begin, taps = np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    for i in range(len(runs)):
        taps[runs[i, 0]] += runs[i, 3]
        for tz in range(runs[i, 0], n):
            begin[tz + 1] += 1
    kind, first, own = np.full(n, -1), np.zeros(n + 1, np.int64), np.empty(len(runs), np.int64)
    grown = np.zeros(n, np.bool_)
    kinds, before = 0, -1
    while True:
        new = -1
        for tz in range(n):
            if kind[tz] < 0 and taps[tz] > 0 and (new < 0 or taps[tz] < taps[new]):
                new = tz
        if new < 0:
            return kind, first[: kinds + 1], own[: first[kinds]], grown[:kinds]
        mine = runs[begin[new] : begin[new + 1]]
        others = runs[begin[before] : begin[before + 1]] if before >= 0 else mine[:0]
        shared = 0
        for i in range(len(others)):
            within, same = _where(others[i], mine)
            if not within:
                shared = 0
                break
            shared += same
        grown[kinds] = shared > 1
        last = first[kinds]
        for i in range(len(mine)):
            if not grown[kinds] or not _where(mine[i], others)[1]:
                own[last] = begin[new] + i
                last += 1
        kind[new] = kinds
        for tz in range(new + 1, n):
            alike = begin[tz + 1] - begin[tz] == len(mine)
            for i in range(len(mine) if alike else 0):
                for column in range(1, 4):
                    alike &= runs[begin[tz] + i, column] == mine[i, column]
            if alike:
                kind[tz] = kinds
        kinds, before = kinds + 1, new
        first[kinds] = last


@kernel
def _where(run, others):
    """Whether a run is within one of others, and whether it equals one."""
    within, same = False, False
    for i in range(len(others)):
        other = others[i]
        if other[1] == run[1] and other[2] <= run[2] and run[2] + run[3] <= other[2] + other[3]:
            within = True
            same |= other[3] == run[3]
    return within, same
