"""Device code of ranks and medians: bisection on the value.

The result is built from its highest bit: a bit is set if at most ``rank`` voxels are below the number with
this bit. Bits that all voxels share are skipped. For a box, a thread computes four voxels along z: they
share loads. Indices are unsigned, because numba tests signed ones at each load.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.keys import Bits, from_key, is_nan, to_key
from beam_volumes.kernels.cuda.launching import launch, on_device, per_voxel, unsigned
from beam_volumes.kernels.rows import Rows

_u4, _u8 = np.uint32, np.uint64


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
    kernel, groups = _in_box(src.lines.dtype), -(-out.firsts.size // 4)
    args = unsigned(src), unsigned(out), y0, lz, ly, lx, rank
    launch(kernel, (groups, y1 - y0, nx), stream, *args)


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
        n, unit = _u4(len(runs)), _u4(1)
        i = _u4(0)
        while i < n:
            row = src.lines[_u8(src.firsts[_u8(k + runs[i, 0])] + y0 + y + runs[i, 1])]
            col, end = _u4(left + runs[i, 2]), _u4(left + runs[i, 3])
            while col < end:
                bits = row[col]
                hole = hole or is_hole(bits)
                key = work(key_of(bits))
                low, high = min(low, key), max(high, key)
                col = _u4(col + unit)
            i = _u4(i + unit)
        step, rest = one, work(low ^ high)
        while rest > one:
            step, rest = work(step << one), work(rest >> one)
        found = low
        if low != high:
            found = work(low & work(full ^ work(work(step << one) - one)))
            while step > zero:
                limit, below = work(found | step), _u4(0)
                i = _u4(0)
                while i < n:
                    row = src.lines[_u8(src.firsts[_u8(k + runs[i, 0])] + y0 + y + runs[i, 1])]
                    col, end = _u4(left + runs[i, 2]), _u4(left + runs[i, 3])
                    while col < end:
                        below = _u4(below + unit) if work(key_of(row[col])) < limit else below
                        col = _u4(col + unit)
                    i = _u4(i + unit)
                found = limit if below <= rank else found
                step = work(step >> one)
        result = nan if hole else bits_of(narrow(found))
        out.lines[out.firsts[k] + y0 + y, out.left + x] = result

    return per_voxel(ranked)


@lru_cache
def _in_box(dtype: np.dtype) -> Any:
    key_of, bits_of, is_hole = to_key(dtype), from_key(dtype), is_nan(dtype)
    work, narrow, nan = _work(dtype), Bits(dtype).unsigned, _nan_of(dtype)
    zero, one, full = work(0), work(1), work(Bits(dtype).highest)

    def ranked(group, y, x, src, out, y0, lz, ly, lx, rank):
        k, left, top, slices = _u4(4 * group), _u4(src.left + x), y0 + y, _u4(len(out.firsts))
        deep, tall, right = _u4(lz), _u4(ly), _u4(left + _u4(lx))
        n1, n2, n3 = _u4(1), _u4(2), _u4(3)
        depth = _u4(min(_u4(slices - k), _u4(4)) + deep - n1)
        low, high = full, zero
        hole0 = hole1 = hole2 = hole3 = False
        s = _u4(0)
        while s < depth:
            first, hole, r = src.firsts[_u4(k + s)] + top, False, _u4(0)
            while r < tall:
                row, col = src.lines[_u8(first + r)], left
                while col < right:
                    bits = row[col]
                    hole = hole or is_hole(bits)
                    key = work(key_of(bits))
                    low, high = min(low, key), max(high, key)
                    col = _u4(col + n1)
                r = _u4(r + n1)
            if hole:
                hole0 = hole0 or s < deep
                hole1 = hole1 or n1 <= s < _u4(deep + n1)
                hole2 = hole2 or n2 <= s < _u4(deep + n2)
                hole3 = hole3 or n3 <= s
            s = _u4(s + n1)
        step, rest = one, work(low ^ high)
        while rest > one:
            step, rest = work(step << one), work(rest >> one)
        f0 = f1 = f2 = f3 = low
        if low != high:
            f0 = f1 = f2 = f3 = work(low & work(full ^ work(work(step << one) - one)))
            while step > zero:
                c0 = c1 = c2 = c3 = s = _u4(0)
                while s < depth:
                    # No key is below 0, so slices outside a voxel's box are not counted.
                    l0 = work(f0 | step) if s < deep else zero
                    l1 = work(f1 | step) if n1 <= s < _u4(deep + n1) else zero
                    l2 = work(f2 | step) if n2 <= s < _u4(deep + n2) else zero
                    l3 = work(f3 | step) if n3 <= s else zero
                    first, r = src.firsts[_u4(k + s)] + top, _u4(0)
                    while r < tall:
                        row, col = src.lines[_u8(first + r)], left
                        while col < right:
                            key = work(key_of(row[col]))
                            c0 = _u4(c0 + n1) if key < l0 else c0
                            c1 = _u4(c1 + n1) if key < l1 else c1
                            c2 = _u4(c2 + n1) if key < l2 else c2
                            c3 = _u4(c3 + n1) if key < l3 else c3
                            col = _u4(col + n1)
                        r = _u4(r + n1)
                    s = _u4(s + n1)
                f0 = work(f0 | step) if c0 <= rank else f0
                f1 = work(f1 | step) if c1 <= rank else f1
                f2 = work(f2 | step) if c2 <= rank else f2
                f3 = work(f3 | step) if c3 <= rank else f3
                step = work(step >> one)
        at, lines, firsts = _u8(out.left + x), out.lines, out.firsts
        lines[_u8(firsts[k] + top), at] = nan if hole0 else bits_of(narrow(f0))
        if _u4(k + n1) < slices:
            lines[_u8(firsts[_u4(k + n1)] + top), at] = nan if hole1 else bits_of(narrow(f1))
        if _u4(k + n2) < slices:
            lines[_u8(firsts[_u4(k + n2)] + top), at] = nan if hole2 else bits_of(narrow(f2))
        if _u4(k + n3) < slices:
            lines[_u8(firsts[_u4(k + n3)] + top), at] = nan if hole3 else bits_of(narrow(f3))

    return per_voxel(ranked)
