"""Device code of the magnitude of a gradient."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import (
    device_function,
    launch,
    numbers,
    per_voxel,
    viewed,
)
from beam_volumes.kernels.cuda.rounding import (
    product_of,
    rounded_to,
    square_root,
    stored_dtype,
)
from beam_volumes.kernels.rows import Rows


def gradient_magnitude(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, like: Any, centre: Any, real: Any,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.filters.gradient.gradient_magnitude`."""
    src, wanted = numbers(src), out.lines.dtype
    kernel = _length(src.lines.dtype, like.dtype, real.dtype, wanted)
    box, target = (out.firsts.size, y1 - y0, nx), viewed(out, stored_dtype(wanted))
    launch(kernel, box, stream, src, target, y0, centre)


@lru_cache
def _length(source: np.dtype, kind: np.dtype, length: np.dtype, target: np.dtype) -> Any:
    whole, real = kind.type, length.type
    by, times, rounded = product_of(kind), product_of(length), rounded_to(length, target)

    @device_function
    def smooth(a, b, c, centre):
        return whole(a + c + by(centre, b))

    @device_function
    def over_z(src, k, row, col, centre):
        """The smoothed voxels, and their difference, at a row and column."""
        p = whole(src.lines[src.firsts[k] + row, col])
        q = whole(src.lines[src.firsts[k + 1] + row, col])
        r = whole(src.lines[src.firsts[k + 2] + row, col])
        return smooth(p, q, r, centre), whole(r - p + by(whole(0), q))

    @device_function
    def over_y(src, k, row, col, centre):
        """Smoothed along z and y, differences along y, and along z, at a column."""
        smooth_a, differ_a = over_z(src, k, row, col, centre)
        smooth_b, differ_b = over_z(src, k, row + 1, col, centre)
        smooth_c, differ_c = over_z(src, k, row + 2, col, centre)
        return (
            smooth(smooth_a, smooth_b, smooth_c, centre),
            whole(smooth_c - smooth_a),
            smooth(differ_a, differ_b, differ_c, centre),
        )

    def magnitude(k, y, x, src, out, y0, centre):
        row, col = y0 + y, src.left + x
        s0, y_0, z_0 = over_y(src, k, row, col, centre)
        _, y_1, z_1 = over_y(src, k, row, col + 1, centre)
        s2, y_2, z_2 = over_y(src, k, row, col + 2, centre)
        gx, gy = real(whole(s2 - s0)), real(smooth(y_0, y_1, y_2, centre))
        gz = real(smooth(z_0, z_1, z_2, centre))
        value = square_root(times(gz, gz) + times(gy, gy) + times(gx, gx))
        out.lines[out.firsts[k] + row, out.left + x] = rounded(value)

    return per_voxel(magnitude)
