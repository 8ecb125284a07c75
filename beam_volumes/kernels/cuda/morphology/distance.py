"""Device code of the passes of the distance transform along y and x, for integers.

The arguments are ``src`` and ``out``, the numbers of rows and columns, and numbers of the `Metric`. Each
voxel searches outwards until no further parabola can be lower. The minimum of integers is the same as on the
host, in any order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import launch, per_voxel
from beam_volumes.kernels.cuda.rounding import product_of, square_root
from beam_volumes.kernels.morphology.distance import FAR
from beam_volumes.kernels.rows import Rows


def along_y(src: Rows, out: Rows, ny: int, nx: int, far: Any, stream: Any = None) -> None:
    """The twin of `beam_volumes.kernels.morphology.distance.along_y`, for whole columns."""
    kernel = _squared(out.lines.dtype)
    launch(kernel, (out.firsts.size, ny, nx), stream, src, out, ny, int(far))


@lru_cache
def _squared(dtype: np.dtype) -> Any:
    result, whole, none = dtype.type, np.int64, int(FAR)

    def search(k, y, x, src, out, ny, far):
        first, col = src.firsts[k], src.left + x
        d = whole(src.lines[first + y, col])
        best, t = far if d == none else d * d, 1
        while t * t < best and (y - t >= 0 or y + t < ny):
            if y - t >= 0:
                d = whole(src.lines[first + y - t, col])
                if d != none:
                    best = min(best, d * d + t * t)
            if y + t < ny:
                d = whole(src.lines[first + y + t, col])
                if d != none:
                    best = min(best, d * d + t * t)
            t += 1
        out.lines[out.firsts[k] + y, out.left + x] = result(best)

    return per_voxel(search)


def along_x(
    src: Rows, out: Rows, ny: int, nx: int, far: Any, scale: float, root: bool, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.morphology.distance.along_x`, for whole rows."""
    kernel = _distance(out.lines.dtype, bool(root))
    # The host computes the square once.
    factor = float(scale) if root else float(scale) * float(scale)
    launch(kernel, (out.firsts.size, ny, nx), stream, src, out, nx, int(far), factor)


@lru_cache
def _distance(dtype: np.dtype, root: bool) -> Any:
    real, whole, times, square = dtype.type, np.int64, product_of(np.float64), square_root

    def search(k, y, x, src, out, nx, far, factor):
        row, left = src.firsts[k] + y, src.left
        best, t = whole(src.lines[row, left + x]), 1
        while t * t < best and (x - t >= 0 or x + t < nx):
            if x - t >= 0:
                best = min(best, whole(src.lines[row, left + x - t]) + t * t)
            if x + t < nx:
                best = min(best, whole(src.lines[row, left + x + t]) + t * t)
            t += 1
        number = np.float64(best)
        distance = times(square(number) if root else number, factor)
        out.lines[out.firsts[k] + y, out.left + x] = real(distance if best < far else np.inf)

    return per_voxel(search)
