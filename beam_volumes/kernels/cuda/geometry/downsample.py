"""Device code of downsampling: each thread computes the result of one window."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.keys import Bits, from_key, is_nan, to_key
from beam_volumes.kernels.cuda.launching import (
    device_function,
    launch,
    numbers,
    per_voxel,
    unsigned,
    viewed,
)
from beam_volumes.kernels.cuda.rounding import bits_of, stored_dtype
from beam_volumes.kernels.rows import Rows


def mean(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, rows: int, cols: int, factors: Any,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.geometry.downsample.mean`."""
    dtype, box = src.lines.dtype, (out.firsts.size, y1 - y0, nx)
    source, target = numbers(src), viewed(out, stored_dtype(dtype))
    launch(_mean(dtype), box, stream, source, target, y0, rows, cols, *_steps(factors))


def pick(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, rows: int, cols: int, factors: Any,
    method: int, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.geometry.downsample.pick`."""
    dtype, box = src.lines.dtype, (out.firsts.size, y1 - y0, nx)
    kernel = _extreme(dtype, method == 1) if method < 2 else _selected(dtype, method == 3)
    launch(kernel, box, stream, unsigned(src), unsigned(out), y0, rows, cols, *_steps(factors))


def _steps(factors: Any) -> tuple[int, ...]:
    return tuple(int(f) for f in factors)


@device_function
def _even(quotient, rest, n):
    """A quotient rounded half to even."""
    up = 2 * rest > n or (2 * rest == n and quotient % 2 != 0)
    return quotient + 1 if up else quotient


@lru_cache
def _mean(dtype: np.dtype) -> Any:
    kind = dtype.type
    if dtype.kind == "f":
        stored = bits_of(dtype)
        add, zero = device_function(lambda total, voxel: total + np.float64(voxel)), 0.0
        divided = device_function(lambda total, n: stored(total / n))
    elif dtype.itemsize == 8:
        return _mean_of_64_bits(dtype)
    else:
        whole, zero = np.uint8 if dtype.kind == "b" else kind, 0
        add = device_function(lambda total, voxel: total + np.int64(voxel))

        def quotient(total, n):
            result = _even(total // n, total - total // n * n, n)
            return whole(result)

        divided = device_function(quotient)

    def average(k, y, x, src, out, y0, rows, cols, fz, fy, fx):
        total, n = zero, 0
        row = y0 + y
        for z in range(k * fz, min((k + 1) * fz, src.firsts.size)):
            for v in range(row * fy, min((row + 1) * fy, rows)):
                for u in range(x * fx, min((x + 1) * fx, cols)):
                    total = add(total, src.lines[src.firsts[z] + v, src.left + u])
                    n += 1
        out.lines[out.firsts[k] + row, out.left + x] = divided(total, n)

    return per_voxel(average)


def _mean_of_64_bits(dtype: np.dtype) -> Any:
    """Sums of the upper and the lower halves, which do not overflow."""
    kind = dtype.type
    half, mask, wide = kind(32), kind(0xFFFFFFFF), kind(4294967296)

    def average(k, y, x, src, out, y0, rows, cols, fz, fy, fx):
        high, low, n = 0, 0, 0
        row = y0 + y
        for z in range(k * fz, min((k + 1) * fz, src.firsts.size)):
            for v in range(row * fy, min((row + 1) * fy, rows)):
                for u in range(x * fx, min((x + 1) * fx, cols)):
                    voxel = src.lines[src.firsts[z] + v, src.left + u]
                    high += np.int64(voxel >> half)
                    low += np.int64(voxel & mask)
                    n += 1
        upper = high // n
        lower = (high - upper * n) * 4294967296 + low
        quotient = lower // n
        quotient = _even(quotient, lower - quotient * n, n)
        result = kind(kind(np.int64(upper)) * wide + kind(np.int64(quotient)))
        out.lines[out.firsts[k] + row, out.left + x] = result

    return per_voxel(average)


def _nan_bits(dtype: np.dtype) -> Any:
    of = Bits(dtype)
    return of.nan if of.is_float else of.unsigned(0)


@lru_cache
def _extreme(dtype: np.dtype, is_max: bool) -> Any:
    key_of, from_bits, is_hole = to_key(dtype), from_key(dtype), is_nan(dtype)
    nan, start = _nan_bits(dtype), Bits(dtype).unsigned(0) if is_max else Bits(dtype).highest

    def extreme(k, y, x, src, out, y0, rows, cols, fz, fy, fx):
        best, hole, row = start, False, y0 + y
        for z in range(k * fz, min((k + 1) * fz, src.firsts.size)):
            for v in range(row * fy, min((row + 1) * fy, rows)):
                for u in range(x * fx, min((x + 1) * fx, cols)):
                    bits = src.lines[src.firsts[z] + v, src.left + u]
                    hole = hole or is_hole(bits)
                    key = key_of(bits)
                    better = key > best if is_max else key < best
                    best = key if better else best
        out.lines[out.firsts[k] + row, out.left + x] = nan if hole else from_bits(best)

    return per_voxel(extreme)


@lru_cache
def _selected(dtype: np.dtype, is_mode: bool) -> Any:
    """The lower median or the mode: every voxel of the window is compared with all others.

    For the mode zeros are equal, and the result has a minus sign if one of them does.
    """
    of = Bits(dtype)
    to_order, from_bits, is_hole, nan = (
        to_key(dtype),
        from_key(dtype),
        is_nan(dtype),
        _nan_bits(dtype),
    )
    zero, merges = of.unsigned(0), is_mode and of.is_float
    minus = of.sign if merges else zero
    key_of = (
        device_function(lambda bits: to_order(zero if bits == minus else bits))
        if merges
        else to_order
    )

    def selected(k, y, x, src, out, y0, rows, cols, fz, fy, fx):
        row = y0 + y
        z0, z1 = k * fz, min((k + 1) * fz, src.firsts.size)
        v0, v1 = row * fy, min((row + 1) * fy, rows)
        u0, u1 = x * fx, min((x + 1) * fx, cols)
        rank = ((z1 - z0) * (v1 - v0) * (u1 - u0) - 1) // 2
        best, count, hole, negative = zero, 0, False, False
        for z in range(z0, z1):
            for v in range(v0, v1):
                for u in range(u0, u1):
                    bits = src.lines[src.firsts[z] + v, src.left + u]
                    hole, negative = hole or is_hole(bits), negative or bits == minus
                    key, below, equal = key_of(bits), 0, 0
                    for p in range(z0, z1):
                        for q in range(v0, v1):
                            for r in range(u0, u1):
                                other = key_of(src.lines[src.firsts[p] + q, src.left + r])
                                below += 1 if other < key else 0
                                equal += 1 if other == key else 0
                    if is_mode:
                        better = equal > count or (equal == count and key < best)
                        best, count = key if better else best, equal if better else count
                    elif below <= rank < below + equal:
                        best = key
        result = from_bits(best)
        if merges and negative and result == zero:
            result = minus
        out.lines[out.firsts[k] + row, out.left + x] = nan if hole else result

    return per_voxel(selected)
