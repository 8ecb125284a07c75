"""Device code of ranks and medians: bisection on the value, one voxel per thread.

The result is built from its highest bit: a bit is set if at most ``rank`` voxels are below the number with
this bit. Bits that all voxels share are skipped.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.keys import Bits, from_key, is_nan, to_key
from beam_volumes.kernels.cuda.launching import launch, on_device, per_voxel, unsigned
from beam_volumes.kernels.rows import Rows


def rank_footprint(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, offsets: Any, rank: int, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.filters.rank.rank_footprint`."""
    box, kernel = (out.firsts.size, y1 - y0, nx), _under(src.lines.dtype)
    runs = on_device(_runs(offsets), stream)
    launch(kernel, box, stream, unsigned(src), unsigned(out), y0, runs, rank)


def _runs(offsets: np.ndarray) -> np.ndarray:
    """Adjacent offsets along x together, which need one row: z, y, the first x, and the x after the last."""
    at = offsets[np.lexsort(offsets.T[::-1])]
    begins = np.ones(len(at) + 1, np.bool_)
    begins[1:-1] = (np.diff(at, axis=0) != (0, 0, 1)).any(axis=1)
    return np.column_stack([at[begins[:-1]], at[begins[1:], 2] + 1])


def rank_of_box(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, lz: int, ly: int, lx: int, rank: int,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.filters.rank_box.rank_box` and of ``rank_walk``, for any type."""
    offsets = np.argwhere(np.ones((lz, ly, lx), np.bool_))
    rank_footprint(src, out, y0, y1, nx, offsets, rank, stream)


def median3(src: Rows, out: Rows, y0: int, y1: int, nx: int, stream: Any = None) -> None:
    """The twin of `beam_volumes.kernels.filters.median.median3`."""
    rank_of_box(src, out, y0, y1, nx, 3, 3, 3, 13, stream)


def _work(dtype: np.dtype) -> Any:
    """The type of keys in registers, which has 32 or 64 bits."""
    return np.uint64 if dtype.itemsize == 8 else np.uint32


def _nan_of(dtype: np.dtype) -> Any:
    of = Bits(dtype)
    return of.nan if of.is_float else of.unsigned(0)


@lru_cache
def _under(dtype: np.dtype) -> Any:
    key_of, bits_of, is_hole = to_key(dtype), from_key(dtype), is_nan(dtype)
    work, narrow, nan = _work(dtype), Bits(dtype).unsigned, _nan_of(dtype)
    zero, one, full = work(0), work(1), work(Bits(dtype).highest)

    def ranked(k, y, x, src, out, y0, runs, rank):
        low, high, hole, left = full, zero, False, src.left + x
        for i in range(len(runs)):
            row = src.firsts[k + runs[i, 0]] + y0 + y + runs[i, 1]
            for col in range(left + runs[i, 2], left + runs[i, 3]):
                bits = src.lines[row, col]
                hole = hole or is_hole(bits)
                key = work(key_of(bits))
                low, high = key if key < low else low, key if key > high else high
        step, rest = one, work(low ^ high)
        while rest > one:
            step, rest = work(step << one), work(rest >> one)
        found = low
        if low != high:
            found = work(low & work(full ^ work(work(step << one) - one)))
            while step > zero:
                limit, below = work(found | step), 0
                for i in range(len(runs)):
                    row = src.firsts[k + runs[i, 0]] + y0 + y + runs[i, 1]
                    for col in range(left + runs[i, 2], left + runs[i, 3]):
                        below += 1 if work(key_of(src.lines[row, col])) < limit else 0
                found = limit if below <= rank else found
                step = work(step >> one)
        result = nan if hole else bits_of(narrow(found))
        out.lines[out.firsts[k] + y0 + y, out.left + x] = result

    return per_voxel(ranked)
