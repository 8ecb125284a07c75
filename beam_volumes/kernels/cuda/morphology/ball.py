"""Device code of binary morphology with a ball."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import launch, on_device, per_voxel, unsigned
from beam_volumes.kernels.rows import Rows


def binary_ball(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, radii: Any, steps: Any, limit: int,
    is_dilation: bool, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.morphology.ball.binary_ball`: a search from inside to outside.

    It ends at the first voxel that decides the result, so interiors and large backgrounds take the longest.
    """
    box, reach = (out.firsts.size, y1 - y0, nx), [int(r) for r in radii]
    squares = on_device(steps.astype(np.int64), stream)
    launch(
        _within, box, stream, unsigned(src), unsigned(out), y0, *reach, squares, int(limit),
        bool(is_dilation),
    )  # fmt: skip


def _search(k, y, x, src, out, y0, rz, ry, rx, squares, limit, is_dilation):
    found = False
    for z in range(2 * rz + 1):
        from_z = squares[0, abs(z - rz)]
        first = src.firsts[k + z] + y0 + y
        for v in range(2 * ry + 1):
            from_zy = from_z + squares[1, abs(v - ry)]
            if found or from_zy > limit:
                continue
            for u in range(2 * rx + 1):
                if from_zy + squares[2, abs(u - rx)] <= limit:
                    is_set = src.lines[first + v, src.left + x + u] != 0
                    found = found or is_set == is_dilation
    out.lines[out.firsts[k] + y0 + y, out.left + x] = np.uint8(found == is_dilation)


_within = per_voxel(_search)
