"""Minimum and maximum over a box or a footprint.

A result is NaN exactly where its footprint contains one. -0.0 is less than 0.0.
"""

import numpy as np

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.filters.footprints import (
    growing_slices,
    largest,
    runs_along_x,
    sizes_of_runs,
    tabled_lengths,
)
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.keys import as_unsigned, from_order_key, to_order_key, unsigned_of
from beam_volumes.kernels.rows import (
    Rows,
    as_bytes,
    box_has_unordered,
    copy_row,
    is_negative,
    mark_nan,
    signed_zero,
    write_nan,
)
from beam_volumes.kernels.scratch import needs, stored

#: Footprints with at most this many offsets need no tables.
FEW_TAPS = 7
#: Rows and columns of a tile, unless the footprint is larger.
TILE_ROWS, TILE_COLUMNS = 32, 512
#: Bytes per slice of a tile for few offsets. More rows are faster to load, and three such slices still fit a
#: cache.
STREAMED_BYTES = 1 << 19


@row_kernel
def extremum(a, b, out, is_max, unordered):
    """The larger or smaller of two rows; NaN wins. They contain NaN or -0.0 only if ``unordered`` is set."""
    # It is associative bit by bit, so the result does not depend on the order of a window's parts. ``out`` is
    # neither ``a`` nor ``b``. Ordered rows take one instruction.
    if not unordered:
        if is_max:
            for x in range(out.size):
                p, q = a[x], b[x]
                out[x] = p if p > q else q
        else:
            for x in range(out.size):
                p, q = a[x], b[x]
                out[x] = p if p < q else q
    elif is_max:
        for x in range(out.size):
            p, q = a[x], b[x]
            out[x] = p if (p > q) | (p != p) | ((p == q) & is_negative(q)) else q
    else:
        for x in range(out.size):
            p, q = a[x], b[x]
            out[x] = p if (p < q) | (p != p) | ((p == q) & is_negative(p)) else q


@row_kernel
def _slide_down(lines, rows, col, taps, out, suffix, prefix, is_max, unordered):
    """``out[j]`` = extremum of ``lines[rows[j]], ..., lines[rows[j + taps - 1]]``, ``j < count``."""
    # One block of van Herk's algorithm, ``count = rows.size - taps + 1 <= taps``. All windows share row
    # ``taps - 1``. Suffixes extend up from it and prefixes down; each window combines one of each.
    width = out.shape[1]
    count = rows.size - taps + 1
    if taps == 1:
        copy_row(lines[rows[0], col : col + width], out[0])
        return
    later = lines[rows[taps - 1], col : col + width]
    for t in range(taps - 2, -1, -1):
        # Suffixes of windows are kept; others are intermediate.
        target = out[0] if t == 0 else suffix[t]
        extremum(lines[rows[t], col : col + width], later, target, is_max, unordered)
        later = target
    for j in range(1, count):
        row = lines[rows[taps - 1 + j], col : col + width]
        if j == 1:
            earlier = row
        else:
            extremum(earlier, row, prefix[j % 2], is_max, unordered)
            earlier = prefix[j % 2]
        if j == taps - 1:
            own = lines[rows[j], col : col + width]
        else:
            own = suffix[j]
        extremum(own, earlier, out[j], is_max, unordered)


@row_kernel
def _slide_right(row, taps, out, spare, is_max, unordered):
    """``out[x]`` = extremum of ``row[x : x + taps]``, by doubling; overwrites ``row`` and ``spare``."""
    if taps == 1:
        copy_row(row, out)
        return
    length, reach = row.size, 1
    while 2 * reach < taps:
        length -= reach
        extremum(row[:length], row[reach : reach + length], spare[:length], is_max, unordered)
        row, spare = spare, row
        reach *= 2
    extremum(row[: out.size], row[taps - reach : taps - reach + out.size], out, is_max, unordered)


def _scratch_of_box(rows, cols, depth, dtype, lz, ly, lx, is_max):
    width, slices = cols + lx - 1, min(depth, lz) if lz > 3 else 1
    lines = slices * (rows + ly - 1), ly, max(lz, ly), 2, 1
    return *(((n, width), stored(dtype)) for n in lines), ((max(slices + lz, 2 * ly),), np.int64)


@needs(_scratch_of_box)
@kernel
def extremum_box(src, out, y0, y1, nx, lz, ly, lx, is_max, scratch):
    """Minimum or maximum over a box of ``lz``, ``ly`` and ``lx`` voxels: along z, then y, then x."""
    # Uses blocks of van Herk (1992) / Gil & Werman (1993) along z and y, with whole rows, so vectors run
    # along x, and doubling along x. Block borders do not affect results, since an extremum may count a voxel
    # twice. It takes about 3 + 3 + log2(lx) row operations per voxel, if at least ``lz`` slices are computed
    # at a time; a block of ``n`` slices costs ``lz + 2 n`` along z.
    over_z, over_zy, suffix, prefix, spare, rows = scratch
    depth = over_z.shape[0] // (y1 - y0 + ly - 1)  # row r of slice j is row r * depth + j of over_z
    src, out = as_bytes(src), as_bytes(out)
    nan, minus = box_has_unordered(src, y0, y1 + ly - 1, nx + lx - 1)
    unordered = nan or minus
    for k in range(0, out.firsts.size, depth):
        _box_of_slices(
            Rows(src.lines, src.firsts[k:], src.left),
            Rows(out.lines, out.firsts[k : k + depth], out.left),
            y0, y1, nx, lz, ly, lx, depth,
            over_z, over_zy, suffix, prefix, spare[0], rows, is_max, unordered, nan,
        )  # fmt: skip


@row_kernel
def _box_of_slices(
    src, out, y0, y1, nx, lz, ly, lx, depth,
    over_z, over_zy, suffix, prefix, spare, rows, is_max, unordered, nan,
):  # fmt: skip
    left, slices = np.int64(0), out.firsts.size
    for r in range(y1 - y0 + ly - 1):
        for i in range(slices + lz - 1):
            rows[i] = src.firsts[i] + y0 + r
        block = over_z[r * depth : r * depth + slices]
        taken = rows[: slices + lz - 1]
        _slide_down(src.lines, taken, src.left, lz, block, suffix, prefix, is_max, unordered)
    for j in range(slices):
        for y in range(y0, y1, ly):
            n = min(ly, y1 - y)
            for i in range(n + ly - 1):
                rows[i] = (y - y0 + i) * depth + j
            _slide_down(
                over_z, rows[: n + ly - 1], left, ly, over_zy[:n], suffix, prefix, is_max, unordered
            )
            for i in range(n):
                result = out.lines[out.firsts[j] + y + i, out.left : out.left + nx]
                _slide_right(over_zy[i], lx, result, spare, is_max, unordered)
                if nan:
                    one_nan(result)


def _scratch_of_footprint(rows, cols, depth, dtype, offsets, is_max):
    deep = tile = table = runs = lengths = longest = 0
    if len(offsets) > FEW_TAPS:
        deep, more_y, more_x = offsets.max(axis=0).tolist()
        runs, lengths, longest = sizes_of_runs(offsets)
        tall, wide = tile_shape(rows, cols, more_y, more_x)
        table = padded((tall + more_y) * (wide + more_x)) + 128
        tile = padded(tall * (wide + more_x))
    tables = ((lengths + 1, table), unsigned_of(dtype)), ((depth, tile), unsigned_of(dtype))
    sizes = (runs, 4), (3, max(runs, FEW_TAPS)), (lengths,), (longest + 1,), (4, deep + 2)
    return *tables, *((n, np.int64) for n in sizes), ((max(cols, deep + 1),), np.bool_)


@needs(_scratch_of_footprint)
@kernel
def extremum_footprint(src, out, y0, y1, nx, offsets, is_max, scratch):
    """Minimum or maximum over any footprint; ``offsets``, int64 (n, 3), are tz, ty, tx >= 0 in raster order.

    The scratch has a tile with margins for each length of runs and once more, and a tile for each slice.
    """
    # The footprint is decomposed into slices, and these into runs along x. For each input slice, tables have
    # the extrema over runs of each length (the chords of Urbach & Wilkinson 2008). A slice of the footprint
    # is the extremum of table rows. It is computed once for all results that use it, and from a smaller slice
    # that it contains. Tables store the rows of a tile end to end, so one loop handles the whole tile. They
    # have unsigned integers, and the extremum is the largest. It takes at most a comparison per voxel and
    # run, and one per input voxel and length of runs. A tile has `TILE_ROWS` by `TILE_COLUMNS`, or the size
    # of the footprint. A footprint of `FEW_TAPS` needs no tables.
    # The last of ``tables`` is for a slice.
    tables, found, runs, of_runs, lengths, place, of_slices, flags = scratch
    if len(offsets) <= FEW_TAPS:
        _extremum_of_few(src, out, y0, y1, offsets, of_runs, flags[:nx], is_max)
        return
    src, out = as_bytes(src), as_bytes(out)
    lines, results = as_unsigned(src.lines), as_unsigned(out.lines)
    runs_along_x(offsets, runs)
    own, level, starts = of_runs[0], of_runs[1], of_runs[2]
    tabled_lengths(runs, lengths, level, place)
    begin, first, taps = of_slices[0], of_slices[1], of_slices[2]
    kind = of_slices[3, : begin.size - 1]
    grown = flags[: growing_slices(runs, kind, first, own, flags, begin, taps)]
    more_y, more_x = largest(offsets, 1), largest(offsets, 2)
    tall, wide = tile_shape(y1 - y0, nx, more_y, more_x)
    table, end = tables.shape[1], first[grown.size]
    for top in range(y0, y1, tall):
        rows = min(tall, y1 - top)
        for left in range(0, nx, wide):
            cols = min(wide, nx - left)
            pitch = cols + more_x
            for i in range(end):
                run = runs[own[i]]
                starts[i] = level[own[i]] * table + run[1] * pitch + run[2]
            size, taken = padded((rows - 1) * pitch + cols), (rows + more_y) * pitch
            for s in range(src.firsts.size):
                at = src.firsts[s] + top, src.left + left, rows + more_y, pitch
                order_keys_of_tile(lines, at, tables[0], src.lines, is_max)
                _table_runs(tables, lengths, taken)
                flat = tables.reshape(tables.size)
                _raise_results(
                    flat, lengths.size * table, starts, first, kind, grown, s, found, size
                )
            for k in range(out.firsts.size):
                at_out = out.firsts[k] + top, out.left + left, rows, cols, pitch
                _write_tile(found[k], results, at_out, src.lines, is_max)


@row_kernel
def order_keys_of_tile(lines, at, tile, like, is_max):
    """Copy the rows of a tile end to end, starting at ``first, left``, as order keys."""
    first, left, rows, pitch = at
    for y in range(rows):
        bits, keys = lines[first + y, left : left + pitch], tile[y * pitch :]
        for x in range(pitch):
            keys[x] = to_order_key(bits[x], like, is_max)


@row_kernel
def _write_tile(tile, results, at, like, is_max):
    first, left, rows, cols, pitch = at
    for y in range(rows):
        keys, bits = tile[y * pitch :], results[first + y, left : left + cols]
        for x in range(cols):
            bits[x] = from_order_key(keys[x], like, is_max)


@row_kernel
def _table_runs(tables, lengths, size):
    """Extrema over runs of each length, from the previous length."""
    for i in range(1, lengths.size):
        step = lengths[i] - lengths[i - 1]
        n = padded(size - lengths[i] + 1)
        a, b, out = tables[i - 1, :n], tables[i - 1, step : step + n], tables[i, :n]
        for x in range(n):
            p, q = a[x], b[x]
            out[x] = p if p > q else q


@row_kernel
def _raise_results(tables, last, starts, first, kind, grown, s, found, size):
    """Update results with slice ``s``; slices of the footprint are built up from ``last`` on."""
    begin, end = max(0, s - len(found) + 1), min(kind.size, s + 1)
    lowest = 0
    while kind[lowest] < 0:
        lowest += 1
    growing = tables[last : last + size]
    for i in range(grown.size):
        users, wanted = 0, False
        for tz in range(begin, end):
            users += kind[tz] == i
            wanted |= kind[tz] > i
        wanted &= i + 1 < grown.size and grown[i + 1]
        own = starts[first[i] : first[i + 1]]
        unshared = users == 1 and not wanted and not grown[i]
        if (users > 0 or wanted) and not unshared:
            _raise_to_runs(tables, own, growing, not grown[i])
        for tz in range(begin, end):
            if kind[tz] != i:
                continue
            result = found[s - tz, :size]
            if unshared:
                _raise_to_runs(tables, own, result, tz == lowest)
            elif tz == lowest:
                copy_row(growing, result)
            else:
                _raise(result, growing)


@row_kernel
def _raise_to_runs(tables, starts, out, fresh):
    """The largest over runs tabled from ``starts`` on, and of ``out`` unless ``fresh``."""
    n, last = out.size, starts.size - 1
    i = 0
    if fresh:
        h, j, k, l = min(1, last), min(2, last), min(3, last), min(4, last)
        a, b = tables[starts[h] : starts[h] + n], tables[starts[j] : starts[j] + n]
        c, d = tables[starts[k] : starts[k] + n], tables[starts[l] : starts[l] + n]
        e = tables[starts[0] : starts[0] + n]
        for x in range(n):
            p, q, r, s, t = e[x], a[x], b[x], c[x], d[x]
            q, s = q if q > r else r, s if s > t else t
            q = q if q > s else s
            out[x] = p if p > q else q
        i = 5
    while i <= last:
        j, k, l = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        a, b = tables[starts[i] : starts[i] + n], tables[starts[j] : starts[j] + n]
        c, d = tables[starts[k] : starts[k] + n], tables[starts[l] : starts[l] + n]
        for x in range(n):
            p, q, r, s, t = out[x], a[x], b[x], c[x], d[x]
            q, s = q if q > r else r, s if s > t else t
            q = q if q > s else s
            out[x] = p if p > q else q
        i += 4


@row_kernel
def _raise(out, row):
    for x in range(out.size):
        p, q = out[x], row[x]
        out[x] = p if p > q else q


@row_kernel
def tile_shape(rows, cols, more_y, more_x):
    """Rows and columns of a tile, for a footprint of ``more_y + 1`` rows and ``more_x + 1`` columns."""
    return min(rows, max(TILE_ROWS, more_y)), min(cols, max(TILE_COLUMNS, more_x))


@row_kernel
def padded(size):
    """Round a size up to whole unrolled vectors, since remainders of loops are slow."""
    return (size + 127) // 128 * 128


@kernel
def _extremum_of_few(src, out, y0, y1, offsets, of_taps, flags, is_max):
    """The same for few offsets: all at once, directly from the rows of the block."""
    src, out = as_bytes(src), as_bytes(out)
    voxels, pitch = src.lines.reshape(src.lines.size), src.lines.shape[1]
    slices, within, starts = of_taps[0], of_taps[1], of_taps[2]
    for i in range(FEW_TAPS):
        tap = offsets[min(i, len(offsets) - 1)]
        slices[i], within[i] = tap[0], tap[1] * pitch + tap[2] + src.left
    tall = max(TILE_ROWS, STREAMED_BYTES // (pitch * voxels.itemsize))
    for top in range(y0, y1, tall):
        place = (voxels, src.firsts, pitch, out, top, min(top + tall, y1))
        _few_of_tile(place, slices, within, starts, flags, is_max)


@row_kernel
def _few_of_tile(place, slices, within, starts, flags, is_max):
    """Offset ``i`` is ``within[i]`` voxels after the start of line ``firsts[slices[i]]``.

    A row with a NaN is corrected afterwards: a search in advance would take as long as the rest.
    """
    voxels, firsts, pitch, results, y0, y1 = place
    for k in range(results.firsts.size):
        for y in range(y0, y1):
            for i in range(FEW_TAPS):
                starts[i] = (firsts[k + slices[i]] + y) * pitch + within[i]
            out = results.lines[results.firsts[k] + y, results.left : results.left + flags.size]
            if _extremum_of_seven(
                voxels[starts[0] :], voxels[starts[1] :], voxels[starts[2] :], voxels[starts[3] :],
                voxels[starts[4] :], voxels[starts[5] :], voxels[starts[6] :], out, is_max,
            ):  # fmt: skip
                _nans_of_row(voxels, starts, flags, out)


@row_kernel
def _nans_of_row(voxels, starts, flags, out):
    flags[:] = False
    for i in range(FEW_TAPS):
        mark_nan(voxels[starts[i] :], flags)
    write_nan(flags, out)


@row_kernel
def _extremum_of_seven(a, b, c, d, e, f, g, out, is_max):
    """The extremum of seven rows without NaN; return whether there is a NaN."""
    found = False
    if is_max:
        for x in range(out.size):
            p, q, r, s, t, u, v = a[x], b[x], c[x], d[x], e[x], f[x], g[x]
            found |= _any_nan(p, q, r, s, t, u, v)
            i, j = is_negative(p) & is_negative(q) & is_negative(r), is_negative(s) & is_negative(t)
            i, j = i & j, is_negative(u) & is_negative(v)
            p, q, r = p if p > q else q, r if r > s else s, t if t > u else u
            p, q = p if p > q else q, r if r > v else v
            out[x] = signed_zero(p if p > q else q, i & j)
    else:
        for x in range(out.size):
            p, q, r, s, t, u, v = a[x], b[x], c[x], d[x], e[x], f[x], g[x]
            found |= _any_nan(p, q, r, s, t, u, v)
            i, j = is_negative(p) | is_negative(q) | is_negative(r), is_negative(s) | is_negative(t)
            i, j = i | j, is_negative(u) | is_negative(v)
            p, q, r = p if p < q else q, r if r < s else s, t if t < u else u
            p, q = p if p < q else q, r if r < v else v
            out[x] = signed_zero(p if p < q else q, i | j)
    return found


@row_kernel
def _any_nan(p, q, r, s, t, u, v):
    return (p != p) | (q != q) | (r != r) | (s != s) | (t != t) | (u != u) | (v != v)
