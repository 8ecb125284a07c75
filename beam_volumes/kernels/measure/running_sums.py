"""Running sums along rows and columns, added in order.

Sums of floats are rounded, so voxels are added in order from the start of a line, and sums along rows cannot
be vectorized. Storing the sums still takes longer than adding: four rows at a time were not faster. Most of
the time of numpy's loop is a conversion of voxels to the dtype of sums in buffers. Integers wrap around.
"""

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.jit import row_kernel


@row_kernel
def along_x(src, out, y0, y1, nx):
    """Add the voxels of each row; the result is an integer of 64 bits or float64."""
    for k in range(out.firsts.size):
        first, place = src.firsts[k], out.firsts[k]
        for y in range(y0, y1):
            row = src.lines[first + y, src.left : src.left + nx]
            _add_along(row, out.lines[place + y, out.left : out.left + nx])


@row_kernel
def _add_along(row, sums):
    sums[0] = row[0]
    total = sums[0]
    for x in range(1, row.size):
        total += row[x]
        sums[x] = total
    # A NaN remains in all later sums.
    if total != total:
        one_nan(sums)


@row_kernel
def along_y(src, out, x0, x1, ny):
    """Add the voxels of each of the columns ``x0:x1``, row by row; see `along_x`."""
    for k in range(out.firsts.size):
        first, place = src.firsts[k], out.firsts[k]
        left, right = src.left + x0, src.left + x1
        lines = out.lines[place : place + ny, out.left + x0 : out.left + x1]
        row, sums = src.lines[first, left:right], lines[0]
        for x in range(row.size):
            sums[x] = row[x]
        for y in range(1, ny):
            _add_row(src.lines[first + y, left:right], lines[y - 1], lines[y])
        if _has_nan(lines[ny - 1]):
            for y in range(ny):
                one_nan(lines[y])


@row_kernel
def _add_row(row, before, sums):
    for x in range(sums.size):
        sums[x] = before[x] + row[x]


@row_kernel
def _has_nan(row):
    found = False
    for x in range(row.size):
        found |= row[x] != row[x]
    return found
