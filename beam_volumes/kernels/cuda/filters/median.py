"""Device code of the median over 3 x 3 x 3 voxels."""

from __future__ import annotations

from typing import Any

from beam_volumes.kernels.cuda.filters.rank import rank_of_box
from beam_volumes.kernels.rows import Rows


def median3(src: Rows, out: Rows, y0: int, y1: int, nx: int, stream: Any = None) -> None:
    """The twin of `beam_volumes.kernels.filters.median.median3`."""
    rank_of_box(src, out, y0, y1, nx, 3, 3, 3, 13, stream)
