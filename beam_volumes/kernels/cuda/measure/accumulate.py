"""Device code of exact counts, extremes, sums and sums of squares."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda as numba_cuda

from beam_volumes.kernels.cuda.keys import to_key
from beam_volumes.kernels.cuda.launching import device_function, numbers, per_voxel, unsigned
from beam_volumes.kernels.cuda.measure import LANES, launch_lanes
from beam_volumes.kernels.measure.accumulate import DIGITS, key_bits
from beam_volumes.kernels.rows import Rows

cuda: Any = numba_cuda


def extent(src: Rows, mask: Rows | None, ny: int, nx: int, cells: Any, stream: Any = None) -> None:
    """The twin of `beam_volumes.kernels.measure.accumulate.extent`.

    ``cells``: the numbers of finite and of other voxels, the complement of the smallest key, the largest key.
    """
    kernel = _extent(src.lines.dtype, mask is not None)
    launch_lanes(kernel, unsigned(src), mask, ny, nx, stream, cells.view(np.uint64))


@lru_cache
def _extent(dtype: np.dtype, has_mask: bool) -> Any:
    of, key_of, lanes = key_bits(dtype), to_key(dtype), LANES
    magnitude, infinite = of.magnitude, of.infinite
    wide, highest = np.uint64, np.uint64(np.iinfo(of.sign.dtype).max)

    def extremes(k, y, lane, src, mask, nx, cells):
        count, bad, low, high = wide(0), wide(0), wide(0), wide(0)
        for x in range(lane, nx, lanes):
            if has_mask and mask.lines[mask.firsts[k] + y, mask.left + x] == 0:
                continue
            bits = src.lines[src.firsts[k] + y, src.left + x]
            if (bits & magnitude) >= infinite:
                bad += wide(1)
                continue
            key = wide(key_of(bits))
            rest = wide(highest ^ key)
            count += wide(1)
            low, high = rest if rest > low else low, key if key > high else high
        if bad > wide(0):
            cuda.atomic.add(cells, 1, bad)
        if count > wide(0):
            cuda.atomic.add(cells, 0, count)
            cuda.atomic.max(cells, 2, low)
            cuda.atomic.max(cells, 3, high)

    return per_voxel(extremes)


def moments(
    src: Rows, mask: Rows | None, ny: int, nx: int, cells: Any, squares: bool, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.measure.accumulate.moments`."""
    # ``cells``: the numbers of finite and of other voxels, and for each exponent the digits of the sum, then
    # of the sum of squares.
    dtype = src.lines.dtype
    voxels = unsigned(src) if dtype.kind == "f" else numbers(src)
    launch_lanes(
        _moments(dtype, mask is not None, bool(squares)), voxels, mask, ny, nx, stream, cells
    )


@lru_cache
def _moments(dtype: np.dtype, has_mask: bool, squares: bool) -> Any:
    split, lanes = _split(dtype), LANES
    wide, low, shift, whole, digits = (
        np.uint64,
        np.uint64(0xFFFFFFFF),
        np.uint64(32),
        np.int64,
        DIGITS,
    )
    used = digits if squares else 2

    def add(k, y, lane, src, mask, nx, cells):
        sums = cuda.local.array(digits, whole)
        for i in range(used):
            sums[i] = 0
        count, bad, current = 0, 0, 0
        for x in range(lane, nx, lanes):
            if has_mask and mask.lines[mask.firsts[k] + y, mask.left + x] == 0:
                continue
            exponent, sign, size = split(src.lines[src.firsts[k] + y, src.left + x])
            if exponent < 0:
                bad += 1
                continue
            count += 1
            if exponent != current:
                for i in range(used):
                    cuda.atomic.add(cells, 2 + current * digits + i, sums[i])
                    sums[i] = 0
                current = exponent
            a, b = wide(size >> shift), wide(size & low)
            sums[0] += sign * whole(b)
            sums[1] += sign * whole(a)
            if squares:
                first, middle, last = wide(b * b), wide(a * b), wide(a * a)
                sums[2] += whole(first & low)
                sums[3] += whole(first >> shift) + 2 * whole(middle & low)
                sums[4] += 2 * whole(middle >> shift) + whole(last & low)
                sums[5] += whole(last >> shift)
        if bad > 0:
            cuda.atomic.add(cells, 1, bad)
        if count > 0:
            cuda.atomic.add(cells, 0, count)
            for i in range(used):
                cuda.atomic.add(cells, 2 + current * digits + i, sums[i])

    return per_voxel(add)


def _split(dtype: np.dtype) -> Any:
    """The exponent, the sign and the mantissa of a voxel; the exponent is -1 if it is not finite."""
    wide, whole = np.uint64, np.int64
    if dtype.kind in "bu":
        return device_function(lambda voxel: (0, 1, wide(voxel)))
    if dtype.kind == "i":

        def of_integer(voxel):
            value = whole(voxel)
            if value >= 0:
                return 0, 1, wide(value)
            return 0, -1, wide(wide(-(value + 1)) + wide(1))

        return device_function(of_integer)
    width = 8 * dtype.itemsize
    fraction = 23 if width == 32 else 52
    last = (1 << (width - 1 - fraction)) - 1
    bits_of_fraction, sign_at, one = wide(fraction), wide(width - 1), wide(1)
    mask = wide((1 << fraction) - 1)

    def of_float(voxel):
        bits = wide(voxel)
        exponent = whole(bits >> bits_of_fraction) & last
        if exponent == last:
            return -1, 1, wide(0)
        size = wide(bits & mask)
        if exponent != 0:
            size = wide(size | wide(one << bits_of_fraction))
        return exponent, -1 if bits >> sign_at else 1, size

    return device_function(of_float)
