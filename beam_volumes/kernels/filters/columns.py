"""Minimum or maximum over a small footprint of columns, such as a ball.

A column is the set of offsets with one (ty, tx). If columns have no gaps and are nested along z, they are
extrema over growing ranges of slices. Each range is computed once, for whole tiles.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from beam_volumes.kernels.filters.extremum import order_keys_of_tile, padded
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.keys import as_unsigned, from_order_key, unsigned_of
from beam_volumes.kernels.rows import as_bytes
from beam_volumes.kernels.scratch import Scratch, needs

#: The largest number of rows of tables in one loop.
MAX_PARTS = 16
#: More slices exceed the caches.
MAX_SLICES = 9
#: Rows and columns of a tile.
TILE_ROWS, TILE_COLUMNS = 32, 512


class Columns(NamedTuple):
    """A decomposed footprint for `extremum_of_columns`."""

    #: int64 (n, 2). First and last slice of runs along z: one slice, then at most one more at
    #: each end.
    levels: np.ndarray
    #: int64. Lengths of runs along x over the last level: 1, then each at most three times the
    #: previous length.
    lengths: np.ndarray
    #: int64 (m, 3). Table, ty and tx. Tables are slices, levels except the first, and runs
    #: longer than 1.
    parts: np.ndarray


def columns_of(offsets: np.ndarray, deep: int) -> Columns | None:
    """Decompose a footprint in a box with ``deep`` slices; None if it has other columns or too many parts.

    >>> cross = np.argwhere(np.array([[[0, 1, 0], [1, 1, 1], [0, 1, 0]]]))
    >>> columns_of(cross, 1).parts.tolist()
    [[0, 0, 1], [1, 1, 0], [0, 2, 1]]
    """
    # The most frequent run along z is the last level. Columns that contain it are combined to runs along x,
    # and the remaining offsets of longer columns are single voxels.
    if deep > MAX_SLICES:
        return None
    slices: dict[tuple[int, int], list[int]] = {}
    for tz, ty, tx in offsets.tolist():
        slices.setdefault((ty, tx), []).append(tz)
    ends = {at: (zs[0], zs[-1]) for at, zs in slices.items()}
    runs = sorted(set(ends.values()), key=lambda run: run[1] - run[0])
    if any(last - first + 1 != len(slices[at]) for at, (first, last) in ends.items()):
        return None
    if any(b[0] > a[0] or b[1] < a[1] for a, b in pairwise(runs)):
        return None
    common = max(runs, key=list(ends.values()).count)
    levels = [(sum(runs[0]) // 2,) * 2]
    for first, last in runs[: runs.index(common) + 1]:
        while levels[-1] != (first, last):
            levels.append((max(first, levels[-1][0] - 1), min(last, levels[-1][1] + 1)))
    table = {run: deep + i - 1 for i, run in enumerate(levels)}
    table[levels[0]] = levels[0][0]
    rows: list[list[int]] = []  # ty, first tx, length
    parts = []
    for (ty, tx), run in sorted(ends.items()):
        if run in table and run != common:
            parts.append((table[run], ty, tx))
            continue
        parts += [(tz, ty, tx) for tz in slices[ty, tx] if tz < common[0] or tz > common[1]]
        if rows and rows[-1][0] == ty and sum(rows[-1][1:]) == tx:
            rows[-1][2] += 1
        else:
            rows.append([ty, tx, 1])
    lengths = [1]
    for length in sorted({row[2] for row in rows}):
        while lengths[-1] < length:
            lengths.append(min(length, 3 * lengths[-1]))
    tables = [table[common], *range(deep + len(levels) - 1, deep + len(levels) + len(lengths) - 2)]
    parts += [(tables[lengths.index(length)], ty, tx) for ty, tx, length in rows]
    if len(parts) > MAX_PARTS:
        return None
    return Columns(np.array(levels), np.array(lengths), np.array(parts))


def _scratch(
    rows: int, cols: int, depth: int, dtype: np.dtype,
    levels: np.ndarray, lengths: np.ndarray, parts: np.ndarray, ly: int, lx: int, is_max: bool,
) -> Scratch:  # fmt: skip
    tables = int(parts[:, 0].max()) + 1
    tall, wide = min(rows, TILE_ROWS), min(cols, TILE_COLUMNS)
    voxels = tables * (padded((tall + ly - 1) * (wide + lx - 1)) + 128)
    return ((voxels,), unsigned_of(dtype)), ((tables,), np.int64), ((MAX_PARTS,), np.int64)


@needs(_scratch)
@kernel
def extremum_of_columns(src, out, y0, y1, nx, levels, lengths, parts, ly, lx, is_max, scratch):
    """Minimum or maximum over a footprint of columns in a box of ``ly`` rows and ``lx`` columns."""
    # All input slices of a tile are kept as unsigned integers, and the extremum is the largest. For each
    # result, the extremum over a level's slices is computed from the level before. Tables of runs along x
    # follow for the last level (the chords of Urbach & Wilkinson 2008). One loop over rows of these tables
    # computes the result. Each loop writes one array: a loop that writes three arrays outside of the nearest
    # cache takes twice as long as three loops. A ball of radius 3, with 123 offsets, takes 28 loads and 6
    # stores per voxel and vector.
    src, out = as_bytes(src), as_bytes(out)
    lines, results = as_unsigned(src.lines), as_unsigned(out.lines)
    tables, bases, starts = scratch
    deep = bases.size - len(levels) - lengths.size + 2  # slices up to the last one that is used
    tall, wide, table = min(y1 - y0, TILE_ROWS), min(nx, TILE_COLUMNS), tables.size // bases.size
    for i in range(deep, bases.size):
        bases[i] = i * table
    for top in range(y0, y1, tall):
        rows = min(tall, y1 - top)
        for left in range(0, nx, wide):
            cols = min(wide, nx - left)
            pitch, size = cols + lx - 1, (rows + ly - 1) * (cols + lx - 1)
            for s in range(out.firsts.size + deep - 1):
                at_slice = s % deep * table
                at = src.firsts[s] + top, src.left + left, rows + ly - 1, pitch
                order_keys_of_tile(lines, at, tables[at_slice : at_slice + size], src.lines, is_max)
                k = s - deep + 1
                if k >= 0:
                    for tz in range(deep):
                        bases[tz] = (k + tz) % deep * table
                    last = _grow(tables, bases, levels, deep, size)
                    runs = bases[deep + len(levels) - 1 :]
                    _table_runs(tables, bases[last], runs, lengths, size)
                    at_out = out.firsts[k] + top, out.left + left, rows, cols, pitch
                    _find(tables, bases, parts, starts, results, at_out, src.lines, is_max)


@row_kernel
def _grow(tables, bases, levels, deep, size):
    """Extrema over the slices of each level for one result; return the table of the last level."""
    last = levels[0, 0]
    for i in range(1, len(levels)):
        a, b, to = bases[levels[i, 0]], bases[levels[i, 1]], deep + i - 1
        _largest_of_three(tables, bases[last], a, b, bases[to], padded(size))
        last = to
    return last


@row_kernel
def _table_runs(tables, before, bases, lengths, size):
    """Extrema over runs of each length, from the previous length."""
    for i in range(1, lengths.size):
        step, to = lengths[i] - lengths[i - 1], bases[i - 1]
        a, b = before + min(step, lengths[i - 1]), before + step
        _largest_of_three(tables, before, a, b, to, padded(size - lengths[i] + 1))
        before = to


@row_kernel
def _largest_of_three(tables, a, b, c, to, size):
    p, q, r, out = tables[a : a + size], tables[b : b + size], tables[c : c + size], tables[to:]
    for x in range(size):
        s, t = p[x], q[x]
        s = s if s > t else t
        out[x] = s if s > r[x] else r[x]


@row_kernel
def _find(tables, bases, parts, starts, results, at, like, is_max):
    first, left, rows, cols, pitch = at
    for y in range(rows):
        for i in range(MAX_PARTS):
            part = min(i, len(parts) - 1)
            starts[i] = bases[parts[part, 0]] + (parts[part, 1] + y) * pitch + parts[part, 2]
        row = results[first + y, left : left + cols]
        _largest_of_parts(tables, starts, row, like, is_max)


@row_kernel
def _largest_of_parts(tables, starts, out, like, is_max):
    a, b, c, d = tables[starts[0] :], tables[starts[1] :], tables[starts[2] :], tables[starts[3] :]
    e, f, g, h = tables[starts[4] :], tables[starts[5] :], tables[starts[6] :], tables[starts[7] :]
    i, j, k, l = (
        tables[starts[8] :],
        tables[starts[9] :],
        tables[starts[10] :],
        tables[starts[11] :],
    )
    m, n, o, p = (
        tables[starts[12] :],
        tables[starts[13] :],
        tables[starts[14] :],
        tables[starts[15] :],
    )
    for x in range(out.size):
        q = _largest_of_four(a[x], b[x], c[x], d[x])
        r = _largest_of_four(e[x], f[x], g[x], h[x])
        s = _largest_of_four(i[x], j[x], k[x], l[x])
        t = _largest_of_four(m[x], n[x], o[x], p[x])
        out[x] = from_order_key(_largest_of_four(q, r, s, t), like, is_max)


@row_kernel
def _largest_of_four(a, b, c, d):
    a, c = a if a > b else b, c if c > d else d
    return a if a > c else c
