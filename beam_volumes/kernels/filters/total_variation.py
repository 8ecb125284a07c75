"""Iterations of Chambolle's method for total variation, slice by slice."""

import numpy as np

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import as_bytes, has_nan


@row_kernel
def _denoise(image, below, dual, before, left, out):
    """``out = image + divergence`` in a row, from the dual field there and one voxel before."""
    z, y, x = dual
    for i in range(out.size):
        total = below[i] + before[i] + left[i] - (z[i] + y[i] + x[i])
        out[i] = out.dtype.type(image[i]) + total


@row_kernel
def _ascend(row, above, after, right, dual, tau, ratio):
    """Move a row of the dual field along the gradient of ``row``."""
    z, y, x = dual
    one = row.dtype.type(1)
    for i in range(row.size):
        gz, gy, gx = above[i] - row[i], after[i] - row[i], right[i] - row[i]
        scale = one / (one + ratio * np.sqrt(gz * gz + gy * gy + gx * gx))
        z[i] = (z[i] - tau * gz) * scale
        y[i] = (y[i] - tau * gy) * scale
        x[i] = (x[i] - tau * gx) * scale


@row_kernel
def _rows(src, new, old, image, above, y0, y1, end, x0, x1, denoises, ascends, tau, ratio):
    for y in range(y0, y1):
        top = above.lines[above.firsts[0] + y, above.left + x0 : above.left + x1]
        if denoises:
            given = src.lines[src.firsts[0] + y, src.left + x0 : src.left + x1]
            field = (
                new[0, y + 1, x0 + 1 : x1 + 1],
                new[1, y + 1, x0 + 1 : x1 + 1],
                new[2, y + 1, x0 + 1 : x1 + 1],
            )
            before, left = new[1, y, x0 + 1 : x1 + 1], new[2, y + 1, x0:x1]
            _denoise(given, old[0, y + 1, x0 + 1 : x1 + 1], field, before, left, top)
            if not ascends and has_nan(top):
                one_nan(top)
        if ascends:
            line = image.lines[image.firsts[0] + y, image.left :]
            after = image.lines[image.firsts[0] + min(y + 1, end - 1), image.left + x0 :]
            line[x1] = line[x1 - 1]
            field = (
                old[0, y + 1, x0 + 1 : x1 + 1],
                old[1, y + 1, x0 + 1 : x1 + 1],
                old[2, y + 1, x0 + 1 : x1 + 1],
            )
            _ascend(line[x0:x1], top, after, line[x0 + 1 : x1 + 1], field, tau, ratio)


@kernel
def iterate(src, new, old, image, above, y0, y1, end, x0, x1, denoises, ascends, tau, ratio):
    """One iteration of Chambolle's method in rows ``y0:y1`` and columns ``x0:x1`` of two slices."""
    # ``new`` is the dual field of a slice, and ``src`` its input. With ``denoises``, ``above`` becomes the
    # denoised slice. ``old`` is the field of the slice below, and ``image`` the denoised slice there. With
    # ``ascends``, ``old`` is updated in place. A slice that is not updated is the final one: each NaN gets
    # the same bits. Fields have three components and a row and a column of zeros first; ``image`` has one
    # more column than the field. Rows end before ``end``.
    src = as_bytes(src)
    _rows(src, new, old, image, above, y0, y1, end, x0, x1, denoises, ascends, tau, ratio)
