"""The mean over a box of small integers, by sums that are exact and so may slide."""

import numpy as np

from beam_volumes.kernels.casting import rounded
from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.rows import as_rows, copy_row

#: Rows at a time: their sums over z stay in L2.
TILE_ROWS = 64


@kernel
def uniform_box(src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx, lz, ly, lx, flat, solid, scale):
    """The sum over a box times ``scale``: integers until then, so the order of adding is free.

    Parameters
    ----------
    src, iz, oy, ox, out, jz, qy, qx, y0, y1, nx
        See `beam_volumes.kernels.rows`. ``src`` is bool or an integer type; ``out`` is written by
        `beam_volumes.kernels.casting.rounded`.
    lz, ly, lx : int
        Size of the box.
    flat, solid : numpy scalars
        Zeros of the integer types that hold a sum over z and y, and one over the box.
    scale : float32 or float64

    Notes
    -----
    About ``5 + 1.5 log2(lx)`` operations a voxel whatever the size, over the vector width. Scratch:
    ``TILE_ROWS + ly`` rows of ``flat`` and three of ``solid``.
    """
    lines = as_rows(src)
    width = nx + lx - 1
    tall = min(TILE_ROWS, y1 - y0)
    over_z = np.full((tall + ly - 1, width), flat)
    over_zy = np.full(width, flat)
    sums = np.full((3, width), solid)
    for top in range(y0, y1, tall):
        rows = min(tall, y1 - top)
        for k in range(jz.size):
            for y in range(rows + ly - 1):
                at, total = oy + top + y, over_z[y]
                if k == 0:
                    total[:] = 0
                    for j in range(lz):
                        _add(total, lines[iz[j] * src.shape[1] + at, ox : ox + width])
                else:
                    enter = lines[iz[k + lz - 1] * src.shape[1] + at, ox : ox + width]
                    _slide(total, enter, lines[iz[k - 1] * src.shape[1] + at, ox : ox + width])
            for y in range(rows):
                if y == 0:
                    over_zy[:] = 0
                    for j in range(ly):
                        _add(over_zy, over_z[j])
                else:
                    _slide(over_zy, over_z[y + ly - 1], over_z[y - 1])
                copy_row(over_zy, sums[0])
                _scale(
                    sums[slide_right(sums, lx, width)],
                    scale,
                    out[jz[k], qy + top + y, qx : qx + nx],
                )


@kernel
def _add(total, row):
    for x in range(total.size):
        total[x] += total.dtype.type(row[x])


@kernel
def _slide(total, enter, leave):
    whole = total.dtype.type
    for x in range(total.size):
        total[x] += whole(enter[x]) - whole(leave[x])


@kernel
def _scale(sums, scale, out):
    for x in range(out.size):
        out[x] = rounded(sums[x] * scale, out.dtype)


@kernel
def slide_right(sums, lx, size):
    """Sums of ``lx`` neighbours, from the first of three rows into the one whose number is returned."""
    bit = 1
    while 2 * bit <= lx:
        bit *= 2
    i, reach, length = 0, 1, size
    while bit > 1:
        # Twice as many neighbours, and one more where their number has a bit.
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
