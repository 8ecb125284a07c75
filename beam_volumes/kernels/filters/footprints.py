"""Decomposition of footprints; each is an int64 array (n, 3) of offsets tz, ty, tx in raster order.

Plain loops, because numba takes seconds to compile the equivalent numpy functions.
"""

import numpy as np

from beam_volumes.kernels.jit import row_kernel


def sizes_of_runs(offsets: np.ndarray) -> tuple[int, int, int]:
    """The number of runs along x, the number of lengths that `tabled_lengths` finds, and the longest run.

    >>> sizes_of_runs(np.argwhere(np.array([[[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]]])))
    (2, 4, 6)
    """
    ends = np.flatnonzero((np.diff(offsets, axis=0) != (0, 0, 1)).any(axis=1))
    lengths = np.diff(ends, prepend=-1, append=len(offsets) - 1)
    n = longest = 1
    for length in np.unique(lengths).tolist():
        while longest < length:
            n, longest = n + 1, min(length, 2 * longest)
    return len(lengths), n, longest


@row_kernel
def largest(table, column):
    """The maximum of a column without negative numbers."""
    found = 0
    for i in range(len(table)):
        found = max(found, table[i, column])
    return found


@row_kernel
def runs_along_x(offsets, runs):
    """Write runs of neighbouring offsets, as rows tz, ty, first tx, length."""
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


@row_kernel
def lines_of_taps(offsets, lines, line):
    """Write the distinct (tz, ty) of a footprint, and the index of each offset's one."""
    n = 0
    for i in range(len(offsets)):
        tz, ty = offsets[i, 0], offsets[i, 1]
        if n == 0 or lines[n - 1, 0] != tz or lines[n - 1, 1] != ty:
            lines[n, 0], lines[n, 1] = tz, ty
            n += 1
        line[i] = n - 1


@row_kernel
def tabled_lengths(runs, lengths, level, place):
    """Write the lengths of runs, ascending from 1, and the index of each run's length.

    Lengths are added so that none is more than twice the previous one. ``place`` is scratch, of a number more
    than the longest run.
    """
    place[:] = 0
    for i in range(len(runs)):
        place[runs[i, 3]] = 1
    lengths[0], place[1], n = 1, 0, 1
    for length in range(2, place.size):
        while place[length] and lengths[n - 1] < length:
            lengths[n] = min(length, 2 * lengths[n - 1])
            place[length] = n
            n += 1
    for i in range(len(runs)):
        level[i] = place[runs[i, 3]]


@row_kernel
def growing_slices(runs, kind, first, own, grown, begin, taps):
    """The distinct slices of a footprint, smallest first, as differences from the previous slice."""
    # The slices of a ball, for example, are nested. A slice that shares fewer than two runs with the previous
    # one starts anew. Writes ``kind``, int64: for each tz its distinct slice, or -1 for an empty one;
    # ``first, own``, int64: ``own[first[i] : first[i + 1]]`` are the runs that distinct slice ``i`` starts
    # with or adds; ``grown``, bool: whether it contains the previous one. Returns the number of distinct
    # slices. ``begin`` and ``taps``, int64, are scratch.
    n = kind.size
    kind[:] = -1
    begin[:] = 0
    taps[:] = 0
    first[0] = 0
    for i in range(len(runs)):
        taps[runs[i, 0]] += runs[i, 3]
        for tz in range(runs[i, 0], n):
            begin[tz + 1] += 1
    kinds, before = 0, -1
    while True:
        new = -1
        for tz in range(n):
            if kind[tz] < 0 and taps[tz] > 0 and (new < 0 or taps[tz] < taps[new]):
                new = tz
        if new < 0:
            return kinds
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


@row_kernel
def _where(run, others):
    """Whether a run is within one of others, and whether it equals one."""
    within, same = False, False
    for i in range(len(others)):
        other = others[i]
        if other[1] == run[1] and other[2] <= run[2] and run[2] + run[3] <= other[2] + other[3]:
            within = True
            same |= other[3] == run[3]
    return within, same
