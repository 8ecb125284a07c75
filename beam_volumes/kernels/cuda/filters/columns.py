"""Device code of extrema over a footprint of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.filters.extremum import extremum_footprint
from beam_volumes.kernels.rows import Rows


def extremum_of_columns(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, levels: Any, lengths: Any, parts: Any,
    ly: int, lx: int, is_max: bool, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.filters.columns.extremum_of_columns`, over the same offsets."""
    deep = src.firsts.size - out.firsts.size + 1
    offsets = offsets_of(levels, lengths, parts, deep)
    extremum_footprint(src, out, y0, y1, nx, offsets, is_max, stream)


def offsets_of(levels: np.ndarray, lengths: np.ndarray, parts: np.ndarray, deep: int) -> np.ndarray:
    """The footprint that `beam_volumes.kernels.filters.columns.columns_of` has decomposed.

    >>> cross = np.argwhere(np.array([[[0, 1, 0], [1, 1, 1], [0, 1, 0]]]))
    >>> from beam_volumes.kernels.filters.columns import columns_of
    >>> bool((offsets_of(*columns_of(cross, 1), 1) == cross).all())
    True
    """
    tables = [(z, z, 1) for z in range(deep)]
    tables += [(a, b, 1) for a, b in levels[1:].tolist()]
    tables += [(*levels[-1].tolist(), n) for n in lengths[1:].tolist()]
    found = {
        (z, ty, tx + i)
        for table, ty, tx in parts.tolist()
        for z in range(tables[table][0], tables[table][1] + 1)
        for i in range(tables[table][2])
    }
    return np.array(sorted(found), np.int64)
