"""Chessboard and taxicab distances along rows, from distances along earlier axes.

Both are separable. A taxicab distance is the minimum over the row's voxels of their distance plus the steps
to them; a chessboard distance uses the larger of both. The minimum over a row takes linear time: A. Meijster,
J. Roerdink, W. Hesselink, "A general algorithm for computing distance transforms in linear time" (2000).
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.scratch import Scratch, needs

#: Columns processed together along y.
COLUMNS = 64


def _scratch_along_y(rows, cols, depth, dtype) -> Scratch:
    return ((min(COLUMNS, cols), rows), dtype), ((3, rows), dtype)


@needs(_scratch_along_y)
def along_y(
    distance: np.ndarray, out: np.ndarray, x0: int, x1: int, chessboard: bool, scratch: tuple
) -> None:
    """Include distances along y, for columns ``x0:x1`` of one int32 slice; `FAR` is no background."""
    part, work = scratch
    for x in range(x0, x1, COLUMNS):
        n = min(COLUMNS, x1 - x)
        part[:n] = distance[:, x : x + n].T
        _rows(part[:n], work, chessboard)
        out[:, x : x + n] = part[:n].T


def _scratch_along_x(rows, cols, depth, dtype) -> Scratch:
    return ((1, cols), dtype), ((3, cols), dtype), ((1, cols), np.bool_)


@needs(_scratch_along_x)
def along_x(
    distance: np.ndarray,
    out: np.ndarray,
    y0: int,
    y1: int,
    chessboard: bool,
    none: int,
    scratch: tuple,
) -> None:
    """Include distances along x, for rows ``y0:y1`` of one slice; ``none`` is written without background."""
    part, work, is_far = scratch
    for y in range(y0, y1):
        part[0] = distance[y]
        _rows(part, work, chessboard)
        np.copyto(part, none, where=np.equal(part, np.int32(2147483647), out=is_far))
        out[y] = part[0]


@kernel
def _rows(rows, work, chessboard):
    far = np.int32(2147483647)
    for k in range(rows.shape[0]):
        row = rows[k]
        n = row.size
        if not chessboard:
            d = far
            for x in range(n):
                d = np.int32(d + 1) if d != far else far
                d = min(d, row[x])
                row[x] = d
            d = far
            for x in range(n - 1, -1, -1):
                d = np.int32(d + 1) if d != far else far
                d = min(d, row[x])
                row[x] = d
            continue
        # sites, and the start of the part where each of them is the nearest
        sites, begins, own = work[0], work[1], work[2]
        for x in range(n):
            own[x] = row[x]
        q = -1
        for u in range(n):
            if own[u] == far:
                continue
            while q >= 0:
                s, t = sites[q], begins[q]
                if max(abs(t - s), own[s]) <= max(abs(t - u), own[u]):
                    break
                q -= 1
            if q < 0:
                q = 0
                sites[0], begins[0] = u, 0
                continue
            s = np.int64(sites[q])
            middle = (s + u) // 2
            if own[s] <= own[u]:
                at = max(s + own[u], middle)
            else:
                at = min(u - own[s], middle)
            if at + 1 < n:
                q += 1
                sites[q], begins[q] = u, at + 1
        for x in range(n - 1, -1, -1):
            if q < 0:
                break
            s = sites[q]
            row[x] = max(abs(x - s), own[s])
            if x == begins[q]:
                q -= 1
