"""Device code of eigenvalues and ridge measures, with the host's arithmetic for one voxel at a time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda

from beam_volumes.kernels.cuda.launching import device_function, launch, per_voxel, viewed
from beam_volumes.kernels.cuda.rounding import bits_of, stored_dtype
from beam_volumes.kernels.cuda.translation import translated
from beam_volumes.kernels.filters import eigen as host
from beam_volumes.kernels.rows import Rows

_eigenvalues = translated(host.eigenvalues, CHUNK=1)
_eigenvalues_2d = translated(host.eigenvalues_2d, CHUNK=1)
_eigenvalues_of_float32 = translated(host.eigenvalues_of_float32, CHUNK=1)
_spread_of = translated(host._spread, CHUNK=1)
_ridges = translated(host._ridges, CHUNK=1)
_ridges_2d = translated(host._ridges_2d, CHUNK=1)
_largest = translated(host._largest)
_middle = translated(host._middle)
_smallest = translated(host._smallest)


@device_function
def _load(work, matrix, k, y, x):
    a, b, c, d, e, f = matrix
    work[0, 0] = a.lines[a.firsts[k] + y, a.left + x]
    work[1, 0] = b.lines[b.firsts[k] + y, b.left + x]
    work[2, 0] = c.lines[c.firsts[k] + y, c.left + x]
    work[3, 0] = d.lines[d.firsts[k] + y, d.left + x]
    work[4, 0] = e.lines[e.firsts[k] + y, e.left + x]
    work[5, 0] = f.lines[f.firsts[k] + y, f.left + x]


def eigenvalue(
    matrix: tuple[Rows, ...], out: Rows, y0: int, y1: int, nx: int, ndim: int, which: int,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.filters.eigen.eigenvalue`."""
    dtype, box = out.lines.dtype, (out.firsts.size, y1 - y0, nx)
    target = viewed(out, stored_dtype(dtype))
    launch(_eigenvalue(dtype, ndim), box, stream, matrix, target, y0, which)


@lru_cache
def _eigenvalue(dtype: np.dtype, ndim: int) -> Any:
    bits, solve = bits_of(dtype), _eigenvalues if ndim == 3 else _eigenvalues_2d

    def one(k, y, x, matrix, out, y0, which):
        work = cuda.local.array((6, 1), np.float64)
        _load(work, matrix, k, y0 + y, x)
        solve(work)
        out.lines[out.firsts[k] + y0 + y, out.left + x] = bits(work[which, 0])

    return per_voxel(one)


def spread(
    matrix: tuple[Rows, ...], out: Rows, y0: int, y1: int, nx: int, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.filters.eigen.spread`."""
    pairs = viewed(out, np.dtype(np.float32))
    launch(_spread, (out.firsts.size, y1 - y0, nx), stream, matrix, pairs, out.left, y0)


def _offsets(k, y, x, matrix, pairs, left, y0):
    work = cuda.local.array((6, 1), np.float64)
    _load(work, matrix, k, y0 + y, x)
    _spread_of(work)
    row = pairs.firsts[k] + y0 + y
    pairs.lines[row, 2 * (left + x)] = np.float32(work[0, 0])
    pairs.lines[row, 2 * (left + x) + 1] = np.float32(work[1, 0])


_spread = per_voxel(_offsets)


def eigenvalue_of_spread(
    matrix: tuple[Rows, ...], out: Rows, y0: int, y1: int, nx: int, which: int, stream: Any = None
) -> None:
    """The twin of `beam_volumes.kernels.filters.eigen.eigenvalue_of_spread`."""
    dtype, box = out.lines.dtype, (out.firsts.size, y1 - y0, nx)
    pairs, target = viewed(matrix[0], np.dtype(np.float32)), viewed(out, stored_dtype(dtype))
    launch(_of_spread(dtype, which), box, stream, pairs, matrix[1:4], target, y0)


@lru_cache
def _of_spread(dtype: np.dtype, which: int) -> Any:
    bits, real, combine = bits_of(dtype), dtype.type, (_largest, _middle, _smallest)[which]

    def one(k, y, x, pairs, diagonal, out, y0):
        pair, result = cuda.local.array(2, np.float32), cuda.local.array(1, real)
        u, v, w = (
            cuda.local.array(1, np.float64),
            cuda.local.array(1, np.float64),
            cuda.local.array(1, np.float64),
        )
        a, b, c = diagonal
        pair[0] = pairs.lines[pairs.firsts[k] + y0 + y, 2 * (pairs.left + x)]
        pair[1] = pairs.lines[pairs.firsts[k] + y0 + y, 2 * (pairs.left + x) + 1]
        u[0] = a.lines[a.firsts[k] + y0 + y, a.left + x]
        v[0] = b.lines[b.firsts[k] + y0 + y, b.left + x]
        w[0] = c.lines[c.firsts[k] + y0 + y, c.left + x]
        combine(pair, u, v, w, result)
        out.lines[out.firsts[k] + y0 + y, out.left + x] = bits(result[0])

    return per_voxel(one)


def ridge(
    matrix: tuple[Rows, ...], out: Rows, y0: int, y1: int, nx: int, ndim: int, alpha: float,
    beta: float, gamma: float, power: float, sign: float, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.filters.eigen.ridge`."""
    dtype, box = out.lines.dtype, (out.firsts.size, y1 - y0, nx)
    kernel = _ridge(matrix[0].lines.dtype, dtype, ndim)
    numbers = tuple(map(float, (alpha, beta, gamma, power, sign)))
    launch(kernel, box, stream, matrix, viewed(out, stored_dtype(dtype)), y0, *numbers)


@lru_cache
def _ridge(source: np.dtype, dtype: np.dtype, ndim: int) -> Any:
    bits, solve = bits_of(dtype), _eigenvalues_of_float32 if source.itemsize == 4 else _eigenvalues
    measure, measure_2d = _ridges, _ridges_2d

    def ridge_3d(k, y, x, matrix, out, y0, alpha, beta, gamma, power, sign):
        work = cuda.local.array((6, 1), np.float64)
        _load(work, matrix, k, y0 + y, x)
        solve(work)
        measure(work, 1, alpha, beta, gamma, power, sign)
        out.lines[out.firsts[k] + y0 + y, out.left + x] = bits(work[0, 0])

    def ridge_2d(k, y, x, matrix, out, y0, alpha, beta, gamma, power, sign):
        work = cuda.local.array((6, 1), np.float64)
        _load(work, matrix, k, y0 + y, x)
        _eigenvalues_2d(work)
        measure_2d(work, 1, beta, gamma, power, sign)
        out.lines[out.firsts[k] + y0 + y, out.left + x] = bits(work[0, 0])

    return per_voxel(ridge_3d if ndim == 3 else ridge_2d)
