"""Device code of the passes of the distance transform.

Along z, the arguments are the host's, as rows, and the numbers of rows and columns. A thread has a column.

Along y and x, they are ``src`` and ``out``, the numbers of rows and columns, and numbers of the `Metric`.
Each voxel searches outwards until no further parabola can be lower. For integers this is the host's minimum.
Floats are rounded: lines where the host computes the envelope are computed by the same envelope afterwards.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import device_function, launch, per_voxel, scratch_rows
from beam_volumes.kernels.cuda.rounding import product_of, square_root
from beam_volumes.kernels.morphology.distance import FAR, REACH
from beam_volumes.kernels.rows import Rows


def forward(mask: Rows, carry: Rows, distance: Rows, ny: int, nx: int, stream: Any = None) -> None:
    """The twin of `beam_volumes.kernels.morphology.distance.forward`."""
    launch(_forward, (1, ny, nx), stream, mask, carry, distance)


def backward(distance: Rows, carry: Rows, ny: int, nx: int, stream: Any = None) -> None:
    """The twin of `beam_volumes.kernels.morphology.distance.backward`."""
    launch(_backward, (1, ny, nx), stream, distance, carry)


def ends(mask: Rows, below: Rows, above: Rows, ny: int, nx: int, stream: Any = None) -> None:
    """The twin of `beam_volumes.kernels.morphology.distance.ends`."""
    launch(_ends, (1, ny, nx), stream, mask, below, above)


@device_function
def _next(steps, inside):
    """The steps to background in the next slice."""
    if not inside:
        return 0
    return steps + 1 if steps != FAR else FAR


def _forward_column(_, y, x, mask, carry, distance):
    row, col = carry.firsts[0] + y, carry.left + x
    steps = carry.lines[row, col]
    for k in range(mask.firsts.size):
        steps = _next(steps, mask.lines[mask.firsts[k] + y, mask.left + x] != 0)
        distance.lines[distance.firsts[k] + y, distance.left + x] = steps
    carry.lines[row, col] = steps


def _backward_column(_, y, x, distance, carry):
    row, col, at = carry.firsts[0] + y, carry.left + x, distance.left + x
    steps = carry.lines[row, col]
    for k in range(distance.firsts.size - 1, -1, -1):
        before = distance.lines[distance.firsts[k] + y, at]
        steps = _next(steps, before != 0)
        distance.lines[distance.firsts[k] + y, at] = min(steps, before)
    carry.lines[row, col] = steps


def _ends_column(_, y, x, mask, below, above):
    row, col, first = below.firsts[0] + y, below.left + x, FAR
    steps = below.lines[row, col]
    for k in range(mask.firsts.size):
        inside = mask.lines[mask.firsts[k] + y, mask.left + x] != 0
        steps = _next(steps, inside)
        if not inside and first == FAR:
            first = k
    below.lines[row, col] = steps
    above.lines[above.firsts[0] + y, above.left + x] = first


_forward, _backward = per_voxel(_forward_column), per_voxel(_backward_column)
_ends = per_voxel(_ends_column)


def along_y(
    src: Rows, out: Rows, ny: int, nx: int, far: Any, weight_z: float, weight: float,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.morphology.distance.along_y`, for whole columns."""
    if out.lines.dtype.kind == "f":
        _of_floats(src, out, 1, (ny, nx), float(weight_z), float(weight), None, 1.0, stream)
        return
    kernel = _squared(out.lines.dtype)
    launch(kernel, (out.firsts.size, ny, nx), stream, src, out, ny, int(far))


@lru_cache
def _squared(dtype: np.dtype) -> Any:
    result, whole, none = dtype.type, np.int64, int(FAR)

    def search(k, y, x, src, out, ny, far):
        first, col = src.firsts[k], src.left + x
        d = whole(src.lines[first + y, col])
        best, t = far if d == none else d * d, 1
        while t * t < best and (y - t >= 0 or y + t < ny):
            if y - t >= 0:
                d = whole(src.lines[first + y - t, col])
                if d != none:
                    best = min(best, d * d + t * t)
            if y + t < ny:
                d = whole(src.lines[first + y + t, col])
                if d != none:
                    best = min(best, d * d + t * t)
            t += 1
        out.lines[out.firsts[k] + y, out.left + x] = result(best)

    return per_voxel(search)


def along_x(
    src: Rows, out: Rows, ny: int, nx: int, far: Any, weight: float, scale: float, root: bool,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.morphology.distance.along_x`, for whole rows."""
    # The host computes the square once.
    factor = float(scale) if root else float(scale) * float(scale)
    if src.lines.dtype.kind == "f":
        _of_floats(src, out, 2, (ny, nx), 1.0, float(weight), bool(root), factor, stream)
        return
    kernel = _distance(out.lines.dtype, bool(root))
    launch(kernel, (out.firsts.size, ny, nx), stream, src, out, nx, int(far), factor)


@lru_cache
def _distance(dtype: np.dtype, root: bool) -> Any:
    whole, finish = np.int64, _finish(dtype, root)

    def search(k, y, x, src, out, nx, far, factor):
        row, left = src.firsts[k] + y, src.left
        best, t = whole(src.lines[row, left + x]), 1
        while t * t < best and (x - t >= 0 or x + t < nx):
            if x - t >= 0:
                best = min(best, whole(src.lines[row, left + x - t]) + t * t)
            if x + t < nx:
                best = min(best, whole(src.lines[row, left + x + t]) + t * t)
            t += 1
        number = np.float64(best) if best < far else np.inf
        out.lines[out.firsts[k] + y, out.left + x] = finish(number, factor)

    return per_voxel(search)


def _finish(dtype: np.dtype, root: bool | None) -> Any:
    """A voxel of the result for its squared distance; ``root`` is None along y."""
    real, times, square = dtype.type, product_of(np.float64), square_root
    if root is None:
        return device_function(lambda number, factor: number)
    return device_function(
        lambda number, factor: real(times(square(number) if root else number, factor))
    )


def _of_floats(
    src: Rows, out: Rows, axis: int, plane: tuple[int, int], weight_z: float, weight: float,
    root: bool | None, factor: float, stream: Any,
) -> None:  # fmt: skip
    """A pass along an axis. Scratch: the envelope, and a byte for each line that needs it."""
    box, dy, n = (out.firsts.size, *plane), int(axis == 1), plane[axis - 1]
    near, begin, envelope = _passes(src.lines.dtype, out.lines.dtype, root)
    more = src, out, dy, n, weight_z, weight, factor
    edges, sites, far = (scratch_rows(*box, kind, stream) for kind in ("f8", "i4", "u1"))
    lines = (box[0], 1, box[2]) if dy else (box[0], box[1], 1)
    launch(begin, lines, stream, far)
    launch(near, box, stream, *more, far)
    launch(envelope, lines, stream, *more, far, sites, edges)


@lru_cache
def _passes(source: np.dtype, target: np.dtype, root: bool | None) -> tuple[Any, Any, Any]:
    """Kernels: search near parabolas, clear the marks of lines, and compute the envelope of marked lines."""
    square, finish, times, real = (
        _square(source),
        _finish(target, root),
        product_of("f8"),
        np.float64,
    )
    reach = REACH

    def near(k, y, x, src, out, dy, n, weight_z, weight, factor, far):
        lines, row, col, dx = src.lines, src.firsts[k] + y, src.left + x, 1 - dy
        at, best, t = y * dy + x * dx, square(lines[row, col], weight_z), 1
        while t <= reach and t < n:
            step = times(weight, real(t * t))
            if step >= best:
                break
            if at - t >= 0:
                best = min(best, square(lines[row - t * dy, col - t * dx], weight_z) + step)
            if at + t < n:
                best = min(best, square(lines[row + t * dy, col + t * dx], weight_z) + step)
            t += 1
        if n > reach + 1 and best > times(weight, real((reach + 1) * (reach + 1))):
            far.lines[far.firsts[k] + y * dx, x * dy] = 1
        out.lines[out.firsts[k] + y, out.left + x] = finish(best, factor)

    def begin(k, y, x, far):
        far.lines[far.firsts[k] + y, x] = 0

    def envelope(k, y, x, src, out, dy, n, weight_z, weight, factor, far, sites, edges):
        """The host's `_envelope`. It loads parabolas again instead of keeping them."""
        if far.lines[far.firsts[k] + y, x] == 0:
            return
        lines, row, col, dx = src.lines, src.firsts[k] + y, src.left + x, 1 - dy
        own, last, twice = sites.firsts[k] + y, -1, times(2.0, weight)
        for q in range(n):
            height = square(lines[row + q * dy, col + q * dx], weight_z)
            if height == np.inf:
                continue
            edge = -np.inf
            while last >= 0:
                p = sites.lines[own + last * dy, x + last * dx]
                rise = height - square(lines[row + p * dy, col + p * dx], weight_z)
                rise = rise + times(weight, real(q * q - p * p))
                edge = rise / times(twice, real(q - p))
                if edge > edges.lines[own + last * dy, x + last * dx]:
                    break
                last -= 1
                edge = -np.inf
            last += 1
            sites.lines[own + last * dy, x + last * dx] = q
            edges.lines[own + last * dy, x + last * dx] = edge
        i = 0
        for c in range(n):
            best = np.inf
            if last >= 0:
                while i < last and edges.lines[own + (i + 1) * dy, x + (i + 1) * dx] < c:
                    i += 1
                p = sites.lines[own + i * dy, x + i * dx]
                step = times(weight, real((c - p) * (c - p)))
                best = square(lines[row + p * dy, col + p * dx], weight_z) + step
            out.lines[out.firsts[k] + y + c * dy, out.left + x + c * dx] = finish(best, factor)

    return per_voxel(near), per_voxel(begin), per_voxel(envelope)


def _square(source: np.dtype) -> Any:
    """The squared distance of a voxel of the source: slices along z, or squares."""
    if source.kind == "f":
        return device_function(lambda voxel, weight: voxel)
    times, none, whole, real = product_of("f8"), int(FAR), np.int64, np.float64
    return device_function(
        lambda voxel, weight: (
            np.inf if voxel == none else times(weight, real(whole(voxel) * whole(voxel)))
        )
    )
