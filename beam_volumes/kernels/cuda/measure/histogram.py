"""Device code of exact counts per digit of keys and per bin.

``cells`` are the number of non-finite voxels, then copies of ``counters`` counts, which lanes share.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda as numba_cuda

from beam_volumes.kernels.cuda.keys import to_key
from beam_volumes.kernels.cuda.launching import numbers, on_device, per_voxel, unsigned
from beam_volumes.kernels.cuda.measure import LANES, launch_lanes
from beam_volumes.kernels.measure.accumulate import key_bits
from beam_volumes.kernels.measure.histogram import DIGIT_BITS, digit_bits
from beam_volumes.kernels.rows import Rows

cuda: Any = numba_cuda


def radix_counts(
    src: Rows, mask: Rows | None, ny: int, nx: int, cells: Any, counters: int, level: int,
    prefixes: Any, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.measure.histogram.radix_counts`; no prefixes at level 0."""
    dtype, copies = src.lines.dtype, (cells.size - 1) // counters
    shift = 8 * dtype.itemsize - digit_bits(dtype) * (level + 1)
    kernel = _digits(dtype, mask is not None, level > 0)
    launch_lanes(
        kernel, unsigned(src), mask, ny, nx, stream, cells, counters, copies, np.uint64(shift),
        on_device(prefixes if level else np.zeros(1, np.uint64)),
    )  # fmt: skip


@lru_cache
def _digits(dtype: np.dtype, has_mask: bool, has_prefixes: bool) -> Any:
    of, key_of, lanes, wide = key_bits(dtype), to_key(dtype), LANES, np.uint64
    magnitude, infinite = of.magnitude, of.infinite
    digits = 1 << digit_bits(dtype)
    last, bits_of_digit = wide(digits - 1), wide(DIGIT_BITS)

    def count(k, y, lane, src, mask, nx, cells, counters, copies, shift, prefixes):
        bad, own = 0, 1 + lane % copies * counters
        for x in range(lane, nx, lanes):
            if has_mask and mask.lines[mask.firsts[k] + y, mask.left + x] == 0:
                continue
            bits = src.lines[src.firsts[k] + y, src.left + x]
            if (bits & magnitude) >= infinite:
                bad += 1
                continue
            key, low = wide(wide(key_of(bits)) >> shift), 0
            if has_prefixes:
                prefix, high = wide(key >> bits_of_digit), len(prefixes) - 1
                while low < high:
                    middle = (low + high) >> 1
                    if prefixes[middle] < prefix:
                        low = middle + 1
                    else:
                        high = middle
                if prefixes[low] != prefix:
                    continue
            cuda.atomic.add(cells, own + low * digits + np.int64(key & last), 1)
        if bad > 0:
            cuda.atomic.add(cells, 0, bad)

    return per_voxel(count)


def bin_counts(
    src: Rows, mask: Rows | None, ny: int, nx: int, cells: Any, edges: Any, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.measure.histogram.bin_counts`."""
    counters = edges.size - 1
    copies = (cells.size - 1) // counters
    kernel = _bins(src.lines.dtype, edges.dtype, mask is not None)
    launch_lanes(
        kernel, numbers(src), mask, ny, nx, stream, cells, counters, copies, on_device(edges)
    )


@lru_cache
def _bins(dtype: np.dtype, kind: np.dtype, has_mask: bool) -> Any:
    lanes, real = LANES, kind.type

    def count(k, y, lane, src, mask, nx, cells, counters, copies, edges):
        bad, own = 0, 1 + lane % copies * counters
        for x in range(lane, nx, lanes):
            if has_mask and mask.lines[mask.firsts[k] + y, mask.left + x] == 0:
                continue
            voxel = src.lines[src.firsts[k] + y, src.left + x]
            if voxel - voxel != 0:
                bad += 1
                continue
            value = real(voxel)
            if not edges[0] <= value <= edges[counters]:
                continue
            low, high = 0, counters - 1
            while low < high:
                middle = (low + high + 1) >> 1
                if value >= edges[middle]:
                    low = middle
                else:
                    high = middle - 1
            cuda.atomic.add(cells, own + low, 1)
        if bad > 0:
            cuda.atomic.add(cells, 0, bad)

    return per_voxel(count)
