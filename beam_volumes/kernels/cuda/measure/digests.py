"""Device code of digests of voxels."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda as numba_cuda

from beam_volumes.kernels.cuda.launching import device_function, launch, per_voxel, unsigned
from beam_volumes.kernels.measure import digests
from beam_volumes.kernels.rows import Rows

cuda: Any = numba_cuda


def digest(src: Rows, ny: int, nx: int, cells: Any, stream: Any = None) -> None:
    """The twin of `beam_volumes.kernels.measure.digests.digest` for all rows. A thread has a row."""
    voxels = unsigned(src)
    kernel = _digest(voxels.lines.dtype)
    launch(kernel, (src.firsts.size, 1, ny), stream, voxels, ny, nx, cells.view(np.uint64))


@lru_cache
def _digest(dtype: np.dtype) -> Any:
    wide, per_word, bits = np.uint64, 8 // dtype.itemsize, 8 * dtype.itemsize
    mixed = device_function(getattr(digests.mixed, "py_func", digests.mixed))

    def of_row(k, _, y, src, ny, nx, cells):
        row, words, found = src.firsts[k] + y, nx // per_word, wide(0)
        for i in range(words):
            word, first = wide(0), src.left + i * per_word
            for j in range(per_word):
                word |= wide(src.lines[row, first + j]) << wide(bits * j)
            found += (mixed(wide(i)) | wide(1)) * (word ^ (word >> wide(32)))
        for i in range(nx - words * per_word):
            factor, at = mixed(wide(words + i)) | wide(1), src.left + words * per_word + i
            found += factor * wide(src.lines[row, at])
        cuda.atomic.add(cells, 0, mixed(mixed(found) + wide(k * ny + y)))

    return per_voxel(of_row)
