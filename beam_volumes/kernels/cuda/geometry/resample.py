"""Device code of resampling: nearest neighbours, or linear interpolation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda

from beam_volumes.kernels.cuda.launching import (
    device_function,
    launch,
    numbers,
    on_device,
    per_voxel,
    viewed,
)
from beam_volumes.kernels.cuda.rounding import bits_of, floor, product_of, stored_dtype
from beam_volumes.kernels.cuda.translation import translated
from beam_volumes.kernels.geometry import resample as host
from beam_volumes.kernels.rows import Rows

_times = product_of(np.float64)
_place, _tap = translated(host.place), translated(host.tap)
_ALL = host.ALL


@lru_cache
def away_to(dtype: np.dtype) -> Any:
    """The bits of `beam_volumes.kernels.geometry.resample.away`, for values other than NaN in integers."""
    if dtype.kind == "b":
        return device_function(lambda value: np.uint8(1) if value >= 0.5 else np.uint8(0))
    if dtype.kind == "f":
        return bits_of(dtype)
    limits, scalar = np.iinfo(dtype), dtype.type
    smallest, largest = scalar(limits.min), scalar(limits.max)
    below, beyond = float(limits.min), float(limits.max)

    def whole(value):
        r = value + 0.5 if value > 0 else value - 0.5
        if r >= beyond:
            return largest
        return smallest if r <= below else scalar(r)

    return device_function(whole)


def gather(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, iz: Any, iy: Any, ix: Any, cval: Any,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.geometry.resample.gather`."""
    bits = stored_dtype(src.lines.dtype)
    fill = np.array(cval, src.lines.dtype).view(bits)[()]
    indices = on_device(iz, stream), on_device(iy, stream), on_device(ix, stream)
    box, rows = (iz.size, y1 - y0, nx), (viewed(src, bits), viewed(out, bits))
    launch(_gather, box, stream, *rows, y0, *indices, fill)


def _copy(k, y, x, src, out, y0, iz, iy, ix, fill):
    value = fill
    if iz[k] >= 0 and iy[y] >= 0 and ix[x] >= 0:
        value = src.lines[src.firsts[iz[k]] + iy[y], src.left + ix[x]]
    out.lines[out.firsts[k] + y0 + y, out.left + x] = value


_gather = per_voxel(_copy)


def interpolate(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, iz: Any, wz: Any, iy: Any, wy: Any, ix: Any,
    wx: Any, cval: Any, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.geometry.resample.interpolate`."""
    dtype, box = out.lines.dtype, (len(iz), y1 - y0, nx)
    taps = (on_device(a, stream) for a in (iz, wz, iy, wy, ix, wx))
    target = viewed(out, stored_dtype(dtype))
    constants = float(cval), _outside(cval, dtype)
    launch(_weighted(dtype), box, stream, numbers(src), target, y0, *taps, *constants)


def _outside(cval: Any, dtype: np.dtype) -> Any:
    """The bits of a constant that the dtype has."""
    return np.array(cval).astype(dtype).view(stored_dtype(dtype))[()]


@lru_cache
def _weighted(dtype: np.dtype) -> Any:
    away = away_to(dtype)

    def weighted(k, y, x, src, out, y0, iz, wz, iy, wy, ix, wx, cval, outside):
        result = outside
        if iz[k, 0] != _ALL and iy[y, 0] != _ALL and ix[x, 0] != _ALL:
            total = 0.0
            for a in range(iz.shape[1]):
                for b in range(iy.shape[1]):
                    for c in range(ix.shape[1]):
                        value = cval
                        if iz[k, a] >= 0 and iy[y, b] >= 0 and ix[x, c] >= 0:
                            row = src.firsts[iz[k, a]] + iy[y, b]
                            value = np.float64(src.lines[row, src.left + ix[x, c]])
                        value = _times(_times(value, wz[k, a]), wy[y, b])
                        total = total + _times(value, wx[x, c])
            result = away(total)
        out.lines[out.firsts[k] + y0 + y, out.left + x] = result

    return per_voxel(weighted)


def affine(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, start: Any, shape: Any, at: Any, matrix: Any,
    offset: Any, taps: Any, mode: int, cval: Any, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.geometry.resample.affine`, for input and result of one dtype."""
    dtype, box = out.lines.dtype, (out.firsts.size, y1 - y0, nx)
    if src.lines.dtype != dtype:
        raise TypeError(f"affine: input of {src.lines.dtype} and result of {dtype}; cast one")
    nearest, bits = int(max(taps)) == 1, stored_dtype(dtype)
    source = viewed(src, bits) if nearest else numbers(src)
    places = (tuple(int(v) for v in p) for p in (start, shape, at, taps))
    launch(
        _affine(dtype, nearest), box, stream, source, viewed(out, bits), y0, *places,
        on_device(matrix, stream), on_device(offset, stream), int(mode), float(cval), _outside(cval, dtype),
    )  # fmt: skip


@lru_cache
def _affine(dtype: np.dtype, nearest: bool) -> Any:
    away = away_to(dtype)

    def find(position, start, shape, taps, matrix, offset, mode, first, weight):
        """The first voxel and the weights along each axis; whether the position is in the volume."""
        for i in range(3):
            c = offset[i] + _times(np.float64(position[0]), matrix[i, 0])
            c = c + _times(np.float64(position[1]), matrix[i, 1])
            c = _place(c + _times(np.float64(position[2]), matrix[i, 2]), shape[i], mode)
            if c <= -1.0 and mode == 3:
                return False
            first[i] = np.int64(floor(c + 0.5 if nearest else c))
            weight[i, 0], weight[i, 1] = 1.0, 1.0
            if taps[i] == 2:
                weight[i, 0] = 1.0 - (c - first[i])
                weight[i, 1] = 1.0 - weight[i, 0]
        return True

    find = device_function(find)

    def transformed(
        k, y, x, src, out, y0, start, shape, at, taps, matrix, offset, mode, cval, outside
    ):
        first = cuda.local.array(3, np.int64)
        weight = cuda.local.array((3, 2), np.float64)
        position = at[0] + k, at[1] + y0 + y, at[2] + x
        is_there = find(position, start, shape, taps, matrix, offset, mode, first, weight)
        total, result = 0.0, outside
        for a in range(taps[0] if is_there else 0):
            for b in range(taps[1]):
                for c in range(taps[2]):
                    u = _tap(first[0] + a, shape[0], mode)
                    v = _tap(first[1] + b, shape[1], mode)
                    w = _tap(first[2] + c, shape[2], mode)
                    inside = u >= 0 and v >= 0 and w >= 0
                    value = cval
                    if inside:
                        row = src.firsts[u - start[0]] + v - start[1]
                        voxel = src.lines[row, src.left + w - start[2]]
                        if nearest:
                            result = voxel
                        else:
                            value = np.float64(voxel)
                    value = _times(_times(value, weight[0, a]), weight[1, b])
                    total = total + _times(value, weight[2, c])
        if is_there and not nearest:
            result = away(total)
        out.lines[out.firsts[k] + y0 + y, out.left + x] = result

    return per_voxel(transformed)
