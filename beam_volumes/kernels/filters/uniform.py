"""The mean over a box of small integers, by exact sliding sums."""

import numpy as np
from numba import types
from numba.extending import overload

from beam_volumes.kernels.casting import rounded
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import as_bytes, copy_row
from beam_volumes.kernels.scratch import needs

#: Rows per tile: their sums over z stay in L2.
TILE_ROWS = 64


def _scratch(rows, cols, depth, dtype, lz, ly, lx, flat, solid, scale):
    lines, width = min(TILE_ROWS, rows) + ly - 1, cols + lx - 1
    return ((lines, width), flat.dtype), ((width,), flat.dtype), ((2, width), solid.dtype)


@needs(_scratch)
@kernel
def uniform_box(src, out, y0, y1, nx, lz, ly, lx, flat, solid, scale, scratch):
    """The sum over a box of bool or integers times ``scale``; the order of its terms does not matter."""
    # ``flat`` and ``solid`` are zeros of integer types that hold a sum over z and y, and over the box.
    # ``scale`` is float32 or float64. About ``5 + 1.5 log2(lx)`` operations per voxel and vector for any
    # size. The last addition along x, the scale and the rounding are one loop.
    over_z, over_zy, sums = scratch
    for top in range(y0, y1, TILE_ROWS):
        rows = min(TILE_ROWS, y1 - top)
        _tile(as_bytes(src), out, top, rows, nx, lz, ly, lx, over_z, over_zy, sums, scale)


@row_kernel
def _tile(src, out, top, rows, nx, lz, ly, lx, over_z, over_zy, sums, scale):
    lines, firsts, left = src
    width = over_zy.size
    for k in range(out.firsts.size):
        for y in range(rows + ly - 1):
            at = top + y
            if k == 0:
                copy_row(lines[firsts[0] + at, left : left + width], over_z[y])
                for j in range(1, lz - 1, 2):
                    a = lines[firsts[j] + at, left : left + width]
                    _add_both(over_z[y], a, lines[firsts[j + 1] + at, left : left + width])
                if lz % 2 == 0:
                    _add(over_z[y], lines[firsts[lz - 1] + at, left : left + width])
            else:
                enter = lines[firsts[k + lz - 1] + at, left : left + width]
                _slide(over_z[y], enter, lines[firsts[k - 1] + at, left : left + width])
        for y in range(rows):
            if y == 0:
                copy_row(over_z[0], over_zy)
                for j in range(1, ly):
                    _add(over_zy, over_z[j])
            else:
                _slide(over_zy, over_z[y + ly - 1], over_z[y - 1])
            row = out.lines[out.firsts[k] + top + y, out.left : out.left + nx]
            _mean_right(over_zy, lx, sums, scale, row)


@row_kernel
def _add(total, row):
    for x in range(total.size):
        total[x] += total.dtype.type(row[x])


@row_kernel
def _add_both(total, a, b):
    whole = total.dtype.type
    for x in range(total.size):
        total[x] += whole(a[x]) + whole(b[x])


@row_kernel
def _slide(total, enter, leave):
    whole = total.dtype.type
    for x in range(total.size):
        total[x] += whole(enter[x]) - whole(leave[x])


@row_kernel
def _mean_right(row, lx, sums, scale, out):
    """Sums of ``lx`` neighbours times ``scale``, by doubling: ``sums`` has the sums of ``lx >> bit``."""
    bit = 0
    while lx >> (bit + 1):
        bit += 1
    if bit == 0:
        _scale(row, scale, out)
    elif bit == 1:
        _double_and_scale(row, row, 1, lx & 1, sums, scale, out)
    else:
        bit -= 1
        size = row.size - (lx >> bit) + 1
        i = 0
        _double(row, row, 1, (lx >> bit) & 1, sums[i, :size])
        while bit > 1:
            bit -= 1
            size = row.size - (lx >> bit) + 1
            _double(sums[i], row, lx >> (bit + 1), (lx >> bit) & 1, sums[1 - i, :size])
            i = 1 - i
        _double_and_scale(sums[i], row, lx >> 1, lx & 1, sums, scale, out)


@row_kernel
def _double(sums, row, reach, odd, out):
    """Sums of twice ``reach`` neighbours from sums of ``reach``, plus one more if ``odd``."""
    whole = out.dtype.type
    n = out.size
    a, b, c = sums[:n], sums[reach : reach + n], row[2 * reach * odd :]
    if odd:
        for x in range(n):
            out[x] = whole(a[x]) + whole(b[x]) + whole(c[x])
    else:
        for x in range(n):
            out[x] = whole(a[x]) + whole(b[x])


@row_kernel
def _double_and_scale(sums, row, reach, odd, like, scale, out):
    whole = like.dtype.type
    n = out.size
    a, b, c = sums[:n], sums[reach : reach + n], row[2 * reach * odd :]
    if odd:
        for x in range(n):
            out[x] = _scaled(whole(whole(a[x]) + whole(b[x]) + whole(c[x])), scale, out)
    else:
        for x in range(n):
            out[x] = _scaled(whole(whole(a[x]) + whole(b[x])), scale, out)


@row_kernel
def _scale(sums, scale, out):
    for x in range(out.size):
        out[x] = _scaled(sums[x], scale, out)


def _scaled(total, scale, out):
    """A sum times ``scale`` in the type of ``scale``, where numba would use float64."""
    raise NotImplementedError("only inside compiled code")


@overload(_scaled)
def _scaled_for(total, scale, out):
    real = np.float32 if scale == types.float32 else np.float64
    return lambda total, scale, out: rounded(real(total) * scale, out.dtype)


@row_kernel
def slide_right(sums, lx, size):
    """Sums of ``lx`` neighbours, from the first of three rows; return the index of the result's row."""
    bit = 1
    while 2 * bit <= lx:
        bit *= 2
    i, reach, length = 0, 1, size
    while bit > 1:
        # Twice as many neighbours, and one more if the bit is set.
        bit //= 2
        odd = 1 if lx & bit else 0
        length -= reach + odd
        a, b = sums[i, :length], sums[i, reach : reach + length]
        i = 2 if i == 1 else 1
        doubled = sums[i, :length]
        if odd:
            c = sums[0, 2 * reach : 2 * reach + length]
            for x in range(length):
                doubled[x] = a[x] + b[x] + c[x]
        else:
            for x in range(length):
                doubled[x] = a[x] + b[x]
        reach = 2 * reach + odd
    return i
