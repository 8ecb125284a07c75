"""Minimum, maximum and any other rank over a box or a footprint.

NaN: a voxel is NaN exactly where its footprint holds one.
"""

import numpy as np
from numba import types
from numba.extending import overload

from beam_volumes.kernels.footprints import (
    lines_of_taps,
    runs_along_x,
    slices_alike,
    tabled_lengths,
)
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import as_rows, box_has_nan, copy_row, has_nan, mark_nan, write_nan

#: Footprints of no more need no tables.
FEW_TAPS = 7
#: Rows worked on together, if a footprint is not higher.
TILE_ROWS = 32


@row_kernel
def extremum(a, b, out, is_max, nan):
    """The larger (smaller) of two rows; the later of two equals stays, NaN wins if ``nan`` is set.

    Associative bit for bit as long as ``a`` comes before ``b``: the result for a window does not
    depend on how it was put together, not even in the sign of a zero. ``out`` is neither ``a`` nor
    ``b``. Without NaNs it is one instruction.
    """
    if not nan:
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
            out[x] = p if (p > q) | (p != p) else q
    else:
        for x in range(out.size):
            p, q = a[x], b[x]
            out[x] = p if (p < q) | (p != p) else q


@row_kernel
def fold_extremum(out, a, b, c, d, is_max, nan):
    """The extremum of five rows, in ``out``, the first of them."""
    if not nan:
        if is_max:
            for x in range(out.size):
                p, q, r, s, t = out[x], a[x], b[x], c[x], d[x]
                q, s = q if q > r else r, s if s > t else t
                q = q if q > s else s
                out[x] = p if p > q else q
        else:
            for x in range(out.size):
                p, q, r, s, t = out[x], a[x], b[x], c[x], d[x]
                q, s = q if q < r else r, s if s < t else t
                q = q if q < s else s
                out[x] = p if p < q else q
    elif is_max:
        for x in range(out.size):
            p, q, r, s, t = out[x], a[x], b[x], c[x], d[x]
            q, s = q if (q > r) | (q != q) else r, s if (s > t) | (s != s) else t
            q = q if (q > s) | (q != q) else s
            out[x] = p if (p > q) | (p != p) else q
    else:
        for x in range(out.size):
            p, q, r, s, t = out[x], a[x], b[x], c[x], d[x]
            q, s = q if (q < r) | (q != q) else r, s if (s < t) | (s != s) else t
            q = q if (q < s) | (q != q) else s
            out[x] = p if (p < q) | (p != p) else q


@kernel
def _slide_down(lines, rows, col, taps, out, suffix, prefix, is_max, nan):
    """``out[j]`` = extremum of ``lines[rows[j]], ..., lines[rows[j + taps - 1]]``, ``j < count``.

    One block of van Herk's algorithm, ``count = rows.size - taps + 1 <= taps``: all windows share
    row ``taps - 1``; suffixes run up from it, prefixes down, and each window is one of each.
    """
    width = out.shape[1]
    count = rows.size - taps + 1
    if taps == 1:
        copy_row(lines[rows[0], col : col + width], out[0])
        return
    later = lines[rows[taps - 1], col : col + width]
    for t in range(taps - 2, -1, -1):
        # A suffix that is no window's own only passes through; windows' own ones are kept.
        target = out[0] if t == 0 else suffix[t]
        extremum(lines[rows[t], col : col + width], later, target, is_max, nan)
        later = target
    for j in range(1, count):
        row = lines[rows[taps - 1 + j], col : col + width]
        if j == 1:
            earlier = row
        else:
            extremum(earlier, row, prefix[j % 2], is_max, nan)
            earlier = prefix[j % 2]
        if j == taps - 1:
            own = lines[rows[j], col : col + width]
        else:
            own = suffix[j]
        extremum(own, earlier, out[j], is_max, nan)


@kernel
def _slide_right(row, taps, out, spare, is_max, nan):
    """``out[x]`` = extremum of ``row[x : x + taps]``, by doubling; spends ``row`` and ``spare``."""
    if taps == 1:
        copy_row(row, out)
        return
    length, reach = row.size, 1
    while 2 * reach < taps:
        length -= reach
        extremum(row[:length], row[reach : reach + length], spare[:length], is_max, nan)
        row, spare = spare, row
        reach *= 2
    extremum(row[: out.size], row[taps - reach : taps - reach + out.size], out, is_max, nan)


@kernel
def extremum_box(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, lz, ly, lx, is_max):
    """Minimum or maximum over a box, separably: along z, then y, then x.

    Blocks of van Herk (1992) / Gil & Werman (1993) down z and y, whole rows at a time, so that
    vector lanes are columns; doubling along x. An extremum may count a voxel twice, so it matters
    to no result where the blocks start.

    Parameters
    ----------
    src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx
        See `beam_volumes.kernels.rows`. ``out`` has the type of ``src``, any of them.
    lz, ly, lx : int
        Size of the box.
    is_max : bool

    Notes
    -----
    Per voxel about 3 + 3 + log2(lx) row operations whatever the sizes, if as many slices are asked
    for at a time as ``lz``; a block of ``n`` slices costs ``lz + 2 n`` for z. Scratch:
    ``min(n, lz) * (y1 - y0 + ly - 1)`` rows, and ``lz + 2 ly + 6`` more.
    """
    lines, results = as_rows(src), as_rows(out)
    height, width = y1 - y0 + ly - 1, nx + lx - 1
    depth = min(jz.size, lz) if lz > 3 else 1
    over_z = np.empty((height * depth, width), lines.dtype)  # row r of slice j at r * depth + j
    over_zy = np.empty((ly, width), lines.dtype)
    suffix = np.empty((max(lz, ly), width), lines.dtype)
    prefix = np.empty((2, width), lines.dtype)
    spare = np.empty(width, lines.dtype)
    nan = box_has_nan(src, iz, oy + y0, oy + y1 + ly - 1, ox, ox + width)

    for k in range(0, jz.size, depth):
        count = min(depth, jz.size - k)
        for r in range(height):
            rows = iz[k : k + count + lz - 1] * src.shape[1] + (oy + y0 + r)
            block = over_z[r * depth : r * depth + count]
            _slide_down(lines, rows, ox, lz, block, suffix, prefix, is_max, nan)
        for j in range(count):
            for y in range(0, y1 - y0, ly):
                n = min(ly, y1 - y0 - y)
                rows = np.arange(y, y + n + ly - 1) * depth + j
                _slide_down(over_z, rows, 0, ly, over_zy[:n], suffix, prefix, is_max, nan)
                for i in range(n):
                    result = results[jz[k + j] * out.shape[1] + qy + y0 + y + i, qx : qx + nx]
                    _slide_right(over_zy[i], lx, result, spare, is_max, nan)


@kernel
def extremum_footprint(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, offsets, is_max):
    """Minimum or maximum over any footprint.

    The footprint is taken apart into slices, and these into runs along x. Of every input slice, the
    extrema over runs of each length are tabled (the chords of Urbach & Wilkinson 2008); a slice of
    the footprint is the extremum of table rows, found once for all results that see it there, as a
    ball's do before and behind. Tables hold the rows of a tile end to end: another row is another
    place to begin, and one loop runs through the whole tile. A footprint of `FEW_TAPS` needs none.

    Parameters
    ----------
    src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx
        See `beam_volumes.kernels.rows`. ``out`` has the type of ``src``, any of them.
    offsets : int64 array (n, 3), n >= 1
        Taps tz, ty, tx, none negative, in raster order.
    is_max : bool

    Notes
    -----
    Per voxel a comparison for each run, fewer if many slices are asked for at a time, and of each
    input voxel one for each length of runs. A tile has `TILE_ROWS`, or as many as the footprint.
    Scratch: a tile and the rows beyond for each length, and ``n + 1`` tiles more for ``n`` slices.
    """
    if len(offsets) <= FEW_TAPS:
        _extremum_of_few(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, offsets, is_max)
        return
    lines, results = as_rows(src), as_rows(out)
    runs = runs_along_x(offsets)
    lengths, level = tabled_lengths(runs)
    first, like = slices_alike(runs)
    more_y, pitch = runs[:, 1].max(), nx + offsets[:, 2].max()
    tile = min(y1 - y0, max(TILE_ROWS, more_y))
    tables = np.empty((lengths.size, _padded((tile + more_y) * pitch) + 128), lines.dtype)
    found = np.empty((jz.size, _padded(tile * pitch)), lines.dtype)
    shared = np.empty(_padded(tile * pitch), lines.dtype)

    for top in range(y0, y1, tile):
        rows = min(tile, y1 - top)
        size = _padded((rows - 1) * pitch + nx)
        nan = False
        for s in range(iz.size):
            for r in range(rows + more_y):
                row = lines[iz[s] * src.shape[1] + oy + top + r, ox : ox + pitch]
                copy_row(row, tables[0, r * pitch : (r + 1) * pitch])
            filled = (rows + more_y) * pitch
            nan = nan or has_nan(tables[0, :filled])
            for i in range(1, lengths.size):
                step = lengths[i] - lengths[i - 1]
                n = _padded(filled - lengths[i] + 1)
                extremum(
                    tables[i - 1, :n], tables[i - 1, step : step + n], tables[i, :n], is_max, nan
                )
            start, stop = max(0, s - jz.size + 1), min(like.size, s + 1)
            for kind in range(like.size):
                a, b = first[kind], first[kind + 1]
                users, user = 0, 0
                for tz in range(start, stop):
                    if like[tz] == kind and a < b:
                        users, user = users + 1, tz
                if users == 0:
                    continue
                target = found[s - user, :size] if users == 1 else shared[:size]
                fresh = users > 1 or first[user] == 0
                _extremum_of_runs(tables, runs[a:b], level[a:b], pitch, target, fresh, is_max, nan)
                if users == 1:
                    continue
                for tz in range(start, stop):
                    if like[tz] == kind:
                        part, target = shared[:size], found[s - tz, :size]
                        if first[tz] == 0:
                            copy_row(part, target)
                        else:
                            fold_extremum(target, part, part, part, part, is_max, nan)
        for k in range(jz.size):
            for y in range(rows):
                result = results[jz[k] * out.shape[1] + qy + top + y, qx : qx + nx]
                copy_row(found[k, y * pitch : y * pitch + nx], result)


@kernel
def _extremum_of_few(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, offsets, is_max):
    """The same for few taps: all of them at once, straight from the rows of the block."""
    height, pitch = src.shape[1:]
    voxels, results = as_rows(src).reshape(src.size), as_rows(out)
    firsts, to = (iz * height + oy) * pitch + ox, jz * out.shape[1] + qy
    slices, within = np.empty(FEW_TAPS, np.int64), np.empty(FEW_TAPS, np.int64)
    starts = np.empty(FEW_TAPS, np.int64)
    for i in range(FEW_TAPS):
        tz, ty, tx = offsets[min(i, len(offsets) - 1)]
        slices[i], within[i] = tz, ty * pitch + tx
    more_y, more_x = offsets[:, 1].max(), offsets[:, 2].max()
    for top in range(y0, y1, TILE_ROWS):
        bottom = min(top + TILE_ROWS, y1)
        nan = box_has_nan(src, iz, oy + top, oy + bottom + more_y, ox, ox + nx + more_x)
        _few_of_tile(
            voxels, firsts, pitch, results, to, qx, top, bottom, nx,
            slices, within, starts, is_max, nan,
        )  # fmt: skip


@row_kernel
def _few_of_tile(
    voxels, firsts, pitch, results, to, qx, y0, y1, nx, slices, within, starts, is_max, nan
):
    """Tap ``i`` is ``within[i]`` voxels from the first of slice ``slices[i]``, which is at ``firsts``."""
    for k in range(to.size):
        for i in range(FEW_TAPS):
            starts[i] = firsts[k + slices[i]] + within[i] + y0 * pitch
        for y in range(y0, y1):
            a, b, c = voxels[starts[0] :], voxels[starts[1] :], voxels[starts[2] :]
            d, e, f = voxels[starts[3] :], voxels[starts[4] :], voxels[starts[5] :]
            g = voxels[starts[6] :]
            for i in range(FEW_TAPS):
                starts[i] += pitch
            result = results[to[k] + y, qx : qx + nx]
            if nan:
                copy_row(a, result)
                fold_extremum(result, b, c, d, e, is_max, nan)
                fold_extremum(result, f, g, g, g, is_max, nan)
            else:
                _extremum_of_seven(a, b, c, d, e, f, g, result, is_max)


@row_kernel
def _extremum_of_seven(a, b, c, d, e, f, g, out, is_max):
    """The extremum of seven rows that hold no NaN."""
    if is_max:
        for x in range(out.size):
            p, q, r, s, t, u, v = a[x], b[x], c[x], d[x], e[x], f[x], g[x]
            p, q, r = p if p > q else q, r if r > s else s, t if t > u else u
            p, q = p if p > q else q, r if r > v else v
            out[x] = p if p > q else q
    else:
        for x in range(out.size):
            p, q, r, s, t, u, v = a[x], b[x], c[x], d[x], e[x], f[x], g[x]
            p, q, r = p if p < q else q, r if r < s else s, t if t < u else u
            p, q = p if p < q else q, r if r < v else v
            out[x] = p if p < q else q


@row_kernel
def _padded(size):
    """A size in whole unrolled vectors: what is left over of loops would be slow."""
    return (size + 127) // 128 * 128


@kernel
def _extremum_of_runs(tables, runs, level, pitch, out, fresh, is_max, nan):
    """The extremum over runs (tz, ty, tx, length) of a slice, and if not ``fresh`` of ``out`` as well."""
    last = len(runs) - 1
    i = 0
    if fresh:
        copy_row(_tabled(tables, runs, level, 0, pitch, out.size), out)
        i = 1
    while i <= last:
        fold_extremum(
            out,
            _tabled(tables, runs, level, i, pitch, out.size),
            _tabled(tables, runs, level, min(i + 1, last), pitch, out.size),
            _tabled(tables, runs, level, min(i + 2, last), pitch, out.size),
            _tabled(tables, runs, level, min(i + 3, last), pitch, out.size),
            is_max,
            nan,
        )
        i += 4


@kernel
def _tabled(tables, runs, level, i, pitch, size):
    at = runs[i, 1] * pitch + runs[i, 2]
    return tables[level[i], at : at + size]


def empty_keys(rows, width, like):
    """An array of unsigned integers as wide as the values of ``like``."""
    raise NotImplementedError("only inside compiled code")


def to_keys(row, keys):
    """Write unsigned integers that order as the values of ``row`` do."""
    raise NotImplementedError("only inside compiled code")


def from_keys(keys, row):
    """The inverse of `to_keys`."""
    raise NotImplementedError("only inside compiled code")


def _unsigned(array):
    return getattr(np, f"uint{array.dtype.bitwidth}")


@overload(empty_keys)
def _empty_keys_for(rows, width, like):
    unsigned = _unsigned(like)
    return lambda rows, width, like: np.empty((rows, width), unsigned)


@overload(to_keys)
def _to_keys_for(row, keys):
    unsigned = _unsigned(row)
    sign = unsigned(1 << (row.dtype.bitwidth - 1))
    if isinstance(row.dtype, types.Float):

        def flip(row, keys):
            # Negative floats order backwards: flip all their bits, of others the sign only.
            bits = row.view(unsigned)
            for x in range(keys.size):
                keys[x] = ~bits[x] if bits[x] & sign else bits[x] | sign

        return flip
    mask = sign if row.dtype.signed else unsigned(0)

    def shift(row, keys):
        bits = row.view(unsigned)
        for x in range(keys.size):
            keys[x] = bits[x] ^ mask

    return shift


@overload(from_keys)
def _from_keys_for(keys, row):
    unsigned = _unsigned(row)
    sign = unsigned(1 << (row.dtype.bitwidth - 1))
    if isinstance(row.dtype, types.Float):

        def flip(keys, row):
            bits = row.view(unsigned)
            for x in range(keys.size):
                bits[x] = keys[x] ^ sign if keys[x] & sign else ~keys[x]

        return flip
    mask = sign if row.dtype.signed else unsigned(0)

    def shift(keys, row):
        bits = row.view(unsigned)
        for x in range(keys.size):
            bits[x] = keys[x] ^ mask

    return shift


@kernel
def _bits_that_differ(keys, low, high):
    """How many of the lowest bits are not the same in all the keys, and the rest, which is."""
    low[:] = keys[0]
    high[:] = keys[0]
    for i in range(1, len(keys)):
        row = keys[i]
        for x in range(row.size):
            low[x] = row[x] if row[x] < low[x] else low[x]
            high[x] = row[x] if row[x] > high[x] else high[x]
    smallest, one = np.uint64(low.min()), np.uint64(1)
    differ = smallest ^ np.uint64(high.max())
    bits = 0
    while differ != 0:
        differ >>= one
        smallest &= ~(one << np.uint64(bits))
        bits += 1
    return bits, smallest


@kernel
def _count_below(keys, line, tx, limit, few, total):
    """``total[x]`` = how many taps of voxel ``x`` are below ``limit[x]``; ``few`` is scratch."""
    n = limit.size
    total[:] = 0
    for first in range(0, line.size, 255):  # as many as a byte can count
        few[:] = 0
        for i in range(first, min(first + 255, line.size)):
            row = keys[line[i], tx[i] : tx[i] + n]
            for x in range(n):
                few[x] += row[x] < limit[x]
        for x in range(n):
            total[x] += few[x]


@kernel
def _bisect(keys, line, tx, rank, low, high, limit, below):
    """The key of ``rank`` among each voxel's taps, in ``low``; the other rows are scratch."""
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
            without, with_bit = found[x], limit[x]  # loaded both, or LLVM makes this a branch
            found[x] = with_bit if below[x] <= rank else without


@kernel
def rank_footprint(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, offsets, rank):
    """The value of ``rank`` (0 is the smallest) under any footprint.

    Bisection on the value, for a row of voxels at a time: the values become unsigned integers of
    the same order, and the answer is built from its highest bit down. A bit is set where no more
    than ``rank`` taps lie below the number that has it. Nothing but comparing and counting, so all
    vector lanes are busy; bits that all values around a row share are skipped.

    Parameters
    ----------
    src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx
        See `beam_volumes.kernels.rows`. ``out`` has the type of ``src``, any of them.
    offsets : int64 array (n, 3), n >= 1
        Taps tz, ty, tx, none negative, in raster order.
    rank : int
        ``0 <= rank < n``.

    Notes
    -----
    Per voxel ``n`` comparisons for each bit in which values differ, over the vector width. Scratch:
    a row for each distinct (tz, ty) and five more.
    """
    lines, results = as_rows(src), as_rows(out)
    at, line = lines_of_taps(offsets)
    tx = np.ascontiguousarray(offsets[:, 2])
    width = nx + tx.max()
    keys = empty_keys(len(at), width, lines)
    low, high, limit = np.empty_like(keys[0]), np.empty_like(keys[0]), np.empty_like(keys[0])
    below = np.empty(nx, np.uint32)
    flags = np.empty(nx, np.bool_)

    for k in range(jz.size):
        for y in range(y0, y1):
            nan = False
            for i in range(len(at)):
                row = lines[iz[k + at[i, 0]] * src.shape[1] + oy + y + at[i, 1], ox : ox + width]
                nan |= has_nan(row)
                to_keys(row, keys[i])
            _bisect(keys, line, tx, rank, low, high, limit, below)
            result = results[jz[k] * out.shape[1] + qy + y, qx : qx + nx]
            from_keys(low[:nx], result)
            if nan:
                flags[:] = False
                for tz, ty, dx in offsets:
                    at_tap = iz[k + tz] * src.shape[1] + oy + y + ty
                    mark_nan(lines[at_tap, ox + dx : ox + dx + nx], flags)
                write_nan(flags, result)
