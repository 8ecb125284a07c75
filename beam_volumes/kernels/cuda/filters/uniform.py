"""Device code of the mean over a box of small integers, by exact sums along each axis."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import launch, numbers, per_voxel, scratch_rows, viewed
from beam_volumes.kernels.cuda.rounding import product_of, rounded_to, stored_dtype
from beam_volumes.kernels.rows import Rows


def uniform_box(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, lz: int, ly: int, lx: int,
    flat: Any, solid: Any, scale: Any, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.filters.uniform.uniform_box`, with a pass along each axis.

    Scratch: the sums along z, and along z and y, of the whole block with its margins.
    """
    src, slices, rows, wide = numbers(src), out.firsts.size, y1 - y0, nx + lx - 1
    box = slices, rows + ly - 1, wide
    over_z = scratch_rows(*box, flat.dtype, stream)
    launch(_sum(src.lines.dtype, flat.dtype), box, stream, src, over_z, y0, lz, 1, 0)
    box = slices, rows, wide
    over_zy = scratch_rows(*box, flat.dtype, stream)
    launch(_sum(flat.dtype, flat.dtype), box, stream, over_z, over_zy, 0, ly, 0, 1)
    wanted = out.lines.dtype
    kernel = _mean(flat.dtype, solid.dtype, scale.dtype, wanted)
    target = viewed(out, stored_dtype(wanted))
    launch(kernel, (slices, rows, nx), stream, over_zy, target, y0, lx, scale)


@lru_cache
def _sum(source: np.dtype, total: np.dtype) -> Any:
    whole = total.type

    def add(k, y, x, src, out, y0, n, dz, dy):
        value = whole(0)
        for t in range(n):
            row = src.firsts[k + t * dz] + y0 + y + t * dy
            value = whole(value + whole(src.lines[row, src.left + x]))
        out.lines[out.firsts[k] + y, x] = value

    return per_voxel(add)


@lru_cache
def _mean(flat: np.dtype, solid: np.dtype, kind: np.dtype, target: np.dtype) -> Any:
    whole, real = solid.type, kind.type
    times, rounded = product_of(kind), rounded_to(kind, target)

    def mean(k, y, x, src, out, y0, n, scale):
        total = whole(0)
        for t in range(n):
            total = whole(total + whole(src.lines[src.firsts[k] + y, x + t]))
        value = rounded(times(real(total), scale))
        out.lines[out.firsts[k] + y0 + y, out.left + x] = value

    return per_voxel(mean)
