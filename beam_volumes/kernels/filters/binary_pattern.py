"""Local binary patterns of planes."""

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import needs

#: The methods; `local_binary_pattern` receives an index.
METHODS = ("default", "ror", "uniform", "nri_uniform", "var")
_DEFAULT, _ROR, _UNIFORM, _NRI_UNIFORM, _VAR = range(5)


def _scratch(rows, cols, depth, dtype, of_rows, *parameters):
    return (of_rows.shape, np.float64), (of_rows.shape, np.int64)


@needs(_scratch)
@kernel
def local_binary_pattern(src, out, y0, y1, nx, rows, columns, method, before, start, scratch):
    """Compare each voxel with points of its plane, which are interpolated.

    - ``rows`` and ``columns``, float64: the offset of each point.
    - ``before``: the slices, rows and columns before the centre. ``start`` is the position of the first voxel
      of ``out`` in the volume. Positions of points are rounded as sums with the position of the voxel.
    """
    points, bits = scratch
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            _row(
                src.lines, src.firsts[k] + y + before[1], src.left + before[2],
                out.lines[out.firsts[k] + y, out.left : out.left + nx],
                start[1] + y, start[2], rows, columns, method, points, bits,
            )  # fmt: skip


@row_kernel
def _row(lines, line, left, row, y, x0, rows, columns, method, points, bits):
    for i in range(row.size):
        x = x0 + i
        own = np.float64(lines[line, left + i])
        for p in range(rows.size):
            at_y, at_x = y + rows[p], x + columns[p]
            top, bottom = np.floor(at_y), np.ceil(at_y)
            first, last = np.floor(at_x), np.ceil(at_x)
            down, right = at_y - top, at_x - first
            upper, lower = line + np.int64(top) - y, line + np.int64(bottom) - y
            a, b = left + np.int64(first) - x0, left + np.int64(last) - x0
            above = (1 - right) * np.float64(lines[upper, a]) + right * np.float64(lines[upper, b])
            below = (1 - right) * np.float64(lines[lower, a]) + right * np.float64(lines[lower, b])
            points[p] = (1 - down) * above + down * below
            bits[p] = np.int64(points[p] - own >= 0)
        if method <= _ROR:
            row[i] = _number(bits, method == _ROR)
        elif method == _VAR:
            row[i] = _variance(points)
        else:
            row[i] = _uniform(bits, method == _NRI_UNIFORM)


@row_kernel
def _number(bits, is_smallest):
    """The number with these bits, or the smallest of its rotations."""
    number = np.int64(0)
    for p in range(bits.size):
        number += bits[p] << p
    found = number
    if is_smallest:
        for _ in range(bits.size - 1):
            number = (number >> 1) | ((number & 1) << (bits.size - 1))
            found = min(found, number)
    return found


@row_kernel
def _uniform(bits, is_ordered):
    """The number of ones for up to two changes; with ``is_ordered``, each such pattern has its own number."""
    count = bits.size
    changes, ones = np.int64(0), bits[0]
    first_one = np.int64(0) if bits[0] else np.int64(-1)
    first_zero = np.int64(-1) if bits[0] else np.int64(0)
    for p in range(1, count):
        changes += np.int64(bits[p] != bits[p - 1])
        ones += bits[p]
        if bits[p] and first_one < 0:
            first_one = np.int64(p)
        if not bits[p] and first_zero < 0:
            first_zero = np.int64(p)
    if not is_ordered:
        return ones if changes <= 2 else count + 1
    if changes > 2:
        return count * (count - 1) + 2
    if ones == 0:
        return np.int64(0)
    if ones == count:
        return count * (count - 1) + 1
    turns = ones - first_zero if bits[0] else count - first_one
    return 1 + (ones - 1) * count + turns


@row_kernel
def _variance(points):
    """The variance of the points, or NaN if it is 0."""
    total = squares = 0.0
    for p in range(points.size):
        total += points[p]
        squares += points[p] * points[p]
    variance = (squares - total * total / points.size) / points.size
    return variance if variance != 0 else np.nan
