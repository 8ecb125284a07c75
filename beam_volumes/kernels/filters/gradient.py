"""The magnitude of a gradient, in one pass, and second differences."""

import numpy as np

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import as_bytes
from beam_volumes.kernels.scratch import needs


def _scratch(rows, cols, depth, dtype, like, centre, real):
    return *[((3, cols + 2), like.dtype)] * 3, ((cols,), real.dtype)


@needs(_scratch)
@kernel
def gradient_magnitude(src, out, y0, y1, nx, like, centre, real, scratch):
    """The magnitude of the differences ``[-1, 0, 1]`` along each axis, smoothed along the others.

    The smoothing is ``[1, centre, 1]``: 2 for Sobel, 1 for Prewitt.
    """
    # Intermediate results are shared: each row is smoothed and differenced along z, these along y, and those
    # along x. Differences are computed in the type of ``like`` and ``centre``, which must hold 16 times a
    # voxel, and the magnitude in the type of ``real``, float32 or float64. It takes about 40 operations per
    # voxel and vector.
    smooth_z, differ_z, others, length = scratch  # row r is at r % 3 of the first two
    _lengths(
        as_bytes(src), out, y0, y1, centre, smooth_z, differ_z, others[0], others[1], others[2], length,
    )  # fmt: skip


@row_kernel
def _lengths(
    src, out, y0, y1, centre, smooth_z, differ_z, smooth_zy, differ_y, along_z, length,
):  # fmt: skip
    lines, firsts, left = src
    nx, width = length.size, along_z.size
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            for r in range(y if y == y0 else y + 2, y + 3):
                a = lines[firsts[k] + r, left : left + width]
                b = lines[firsts[k + 1] + r, left : left + width]
                c = lines[firsts[k + 2] + r, left : left + width]
                _over_z(a, b, c, centre, smooth_z[r % 3], differ_z[r % 3])
            i, j, l = y % 3, (y + 1) % 3, (y + 2) % 3
            _over_y(smooth_z[i], smooth_z[j], smooth_z[l], centre, smooth_zy, differ_y)
            _smooth(differ_z[i], differ_z[j], differ_z[l], centre, along_z)
            _over_x(
                smooth_zy[:nx], smooth_zy[2:], differ_y[:nx], differ_y[1 : nx + 1], differ_y[2:],
                along_z[:nx], along_z[1 : nx + 1], along_z[2:], centre, length,
            )  # fmt: skip
            cast_rounded(length, out.lines[out.firsts[k] + y, out.left : out.left + nx])


@row_kernel
def _over_z(a, b, c, centre, smooth, differ):
    kind = smooth.dtype.type
    for x in range(smooth.size):
        p, q, r = kind(a[x]), kind(b[x]), kind(c[x])
        smooth[x] = p + r + centre * q
        differ[x] = r - p + kind(0) * q  # propagates a NaN in the middle


@row_kernel
def _over_y(a, b, c, centre, smooth, differ):
    for x in range(smooth.size):
        smooth[x] = a[x] + c[x] + centre * b[x]
        differ[x] = c[x] - a[x]


@row_kernel
def _smooth(a, b, c, centre, smooth):
    for x in range(smooth.size):
        smooth[x] = a[x] + c[x] + centre * b[x]


@row_kernel
def _over_x(s0, s2, y0, y1, y2, z0, z1, z2, centre, length):
    kind, real = s0.dtype.type, length.dtype.type
    for x in range(length.size):
        gx = real(kind(s2[x] - s0[x]))
        gy = real(kind(y0[x] + y2[x] + centre * y1[x]))
        gz = real(kind(z0[x] + z2[x] + centre * z1[x]))
        length[x] = np.sqrt(gz * gz + gy * gy + gx * gx)


@needs(lambda rows, cols, depth, dtype, *_: (((2, cols + 4), dtype),))
@kernel
def second_difference(src, out, y0, y1, nx, first, second, before, start, shape, scratch):
    """The central differences along two axes, one after the other, with `numpy.gradient`'s values, in floats.

    At the edges of the volume, a difference is between the outer voxel and the next one.
    """
    # Axes are 0 to 2, ``first <= second``. ``before`` are the slices, rows and columns of ``src`` before
    # ``out``: one along each of the axes, two if they are the same. ``start`` is the position of the first
    # voxel of ``out`` in a volume of a ``shape``.
    _second_differences(src, out, y0, y1, nx, first, second, before, start, shape, scratch[0])


@row_kernel
def _second_differences(src, out, y0, y1, nx, first, second, before, start, shape, work):
    lines, left = src.lines, src.left
    wide = nx + 2 * before[2]
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            here = (k + before[0], y + before[1])
            place = (start[0] + k, start[1] + y)
            if first == 2:
                last = work[1, : nx + 2]
                centre = src.firsts[here[0]] + here[1]
                _along_row(lines[centre, left : left + wide], last, start[2] - 1, shape[2])
                _along_row(last, row, start[2], shape[2])
            elif second == 2:
                a, b, scale = _ends(place[first], shape[first])
                i, j = _line(src, here, first, a), _line(src, here, first, b)
                last = work[0, :wide]
                _between(lines[i, left : left + wide], lines[j, left : left + wide], scale, last)
                _along_row(last, row, start[2], shape[2])
            else:
                # A difference along the first axis at each end of the one along the second.
                before_it, after_it, outer = _ends(place[second], shape[second])
                for end in range(2):
                    step = after_it if end else before_it
                    there = (here[0] + step, here[1]) if second == 0 else (here[0], here[1] + step)
                    at = place[first] + (step if first == second else 0)
                    a, b, scale = _ends(at, shape[first])
                    i, j = _line(src, there, first, a), _line(src, there, first, b)
                    _between(
                        lines[i, left : left + nx], lines[j, left : left + nx],
                        scale, work[end, :nx],
                    )  # fmt: skip
                _between(work[0, :nx], work[1, :nx], outer, row)


@row_kernel
def _ends(at, size):
    """The steps to the voxels of a difference, and 1 divided by their distance."""
    a, b = -int(at > 0), int(at < size - 1)
    return a, b, 1.0 / max(b - a, 1)


@row_kernel
def _line(src, at, axis, step):
    """The line of a row, some slices or rows further."""
    k, y = at
    return src.firsts[k + step] + y if axis == 0 else src.firsts[k] + y + step


@row_kernel
def _between(a, b, scale, out):
    kind = out.dtype.type
    for x in range(out.size):
        out[x] = (b[x] - a[x]) * kind(scale)


@row_kernel
def _along_row(row, out, position, size):
    """Differences along a row that begins one voxel earlier; ``position`` is the place of ``out[0]``."""
    half = out.dtype.type(0.5)
    for x in range(out.size):
        out[x] = (row[x + 2] - row[x]) * half
    first, last = -position, size - 1 - position
    if 0 <= first < out.size:
        out[first] = row[first + 2] - row[first + 1]
    if 0 <= last < out.size:
        out[last] = row[last + 1] - row[last]
