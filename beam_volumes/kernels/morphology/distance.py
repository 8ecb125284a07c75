"""The exact Euclidean distance transform, in passes that stream: along z, then y, then x.

The squared distance is separable. Along z it is the square of the distance to the nearest background voxel of
the column. Each further axis is a lower envelope of parabolas (A. Meijster et al., "A general algorithm for
computing distance transforms in linear time", 2000; P. Felzenszwalb and D. Huttenlocher, "Distance transforms
of sampled functions", 2012)::

    forward(mask, carry, distance, y0, y1)     # slices upward, carry: the previous plane
    backward(distance, carry, y0, y1)          # slices downward, carry: the next plane
    along_y(distance, squared, x0, x1, ...)    # whole columns of each slice
    along_x(squared, out, y0, y1, ...)         # whole rows of each slice

Near parabolas are tried one by one, for a row at a time, which vectorizes. A column or row with a distance
above `REACH` is computed by the envelope. Every value is a minimum over whole columns and rows, and the
method is selected column by column and row by row, so strips and windows do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.rows import strided
from beam_volumes.kernels.scratch import Scratch, needs

#: Distance along z, in slices, in a column without background.
FAR = np.int32(2**31 - 1)

#: Parabolas up to this many voxels away are tried one by one, before the envelope is built; even.
REACH = 32

_COLUMNS = 128  # of a slice, processed together along y: a few of their rows stay in cache


class Metric(NamedTuple):
    """The units of squared distances."""

    #: Integers for equal sampling (int32 if the volume's diagonal allows it, else int64), else
    #: float64.
    dtype: np.dtype
    #: The square of a step along z, y, x in this unit; 1 for integers.
    weights: tuple[float, float, float]
    scale: float  #: The length of one unit: distances are ``scale * sqrt(squared)``.

    @property
    def far(self) -> float:
        """The squared distance if there is no background."""
        if self.dtype.kind == "f":
            return math.inf
        return 1 << (8 * self.dtype.itemsize - 2)


def metric(shape: tuple[int, int, int], sampling: tuple[float, float, float]) -> Metric:
    """The `Metric` of a whole volume of this shape and voxel size.

    >>> metric((500, 500, 500), (4, 4, 4))
    Metric(dtype=dtype('int32'), weights=(1, 1, 1), scale=4.0)
    >>> metric((50_000, 1, 2), (1, 1, 1)).dtype
    dtype('int64')
    """
    steps = tuple(float(s) for s in sampling)
    if len(steps) != 3 or not all(math.isfinite(s) and s > 0 for s in steps):
        raise ValueError(f"sampling {sampling!r}: give three positive lengths, z, y, x")
    if max(shape) >= FAR:
        raise ValueError(f"a distance transform of {shape}: an axis has at most 2**31 - 2 voxels")
    long = [s for s, n in zip(steps, shape, strict=True) if n > 1]
    if len(set(long)) > 1:
        return Metric(np.dtype(np.float64), (steps[0] ** 2, steps[1] ** 2, steps[2] ** 2), 1.0)
    small = sum(n * n for n in shape) < 1 << 30
    dtype = np.dtype(np.int32 if small else np.int64)
    return Metric(dtype, (1, 1, 1), long[0] if long else steps[0])


@kernel
def forward(mask, carry, distance, y0, y1):
    """Slices since the last background voxel of each column, upward, for rows ``y0:y1``."""
    # ``mask`` (slices, rows, columns) is nonzero in the foreground. ``carry``, int32 (rows, columns), is the
    # result in the previous slice, or `FAR` without background, and is replaced by the result in the last
    # slice. ``distance``, int32, is the output.
    far = np.int32(2147483647)
    one = np.int32(1)
    for k in range(mask.shape[0]):
        for y in range(y0, y1):
            voxels, d, before = mask[k, y], distance[k, y], carry[y]
            for x in range(voxels.size):
                c = before[x]
                step = np.int32(c + one) if c != far else far
                d[x] = step if voxels[x] else np.int32(0)
            for x in range(voxels.size):
                before[x] = d[x]


@kernel
def backward(distance, carry, y0, y1):
    """Slices to the nearest background voxel of each column, in place from the result of `forward`."""
    # ``carry`` is the distance to the next background above in the next slice, or `FAR`, and is replaced by
    # the result in the first slice.
    far = np.int32(2147483647)
    one = np.int32(1)
    for k in range(distance.shape[0] - 1, -1, -1):
        for y in range(y0, y1):
            d, after = distance[k, y], carry[y]
            for x in range(d.size):
                c = after[x]
                step = np.int32(c + one) if c != far else far
                step = step if d[x] else np.int32(0)
                after[x] = step
                d[x] = step if step < d[x] else d[x]


@kernel
def ends(mask, below, above, y0, y1):
    """Distances to the nearest background voxels from both ends of some slices, for rows ``y0:y1``."""
    # ``mask`` (slices, rows, columns) is nonzero in the foreground. ``below``, int32 (rows, columns), is the
    # distance from the previous slice to the last background voxel, or `FAR`, and is replaced by the distance
    # from the last slice, as in `forward`. ``above``, likewise, receives the distance from the first slice to
    # the first background voxel.
    far = np.int32(2147483647)
    one = np.int32(1)
    for y in range(y0, y1):
        last, first = below[y], above[y]
        for x in range(first.size):
            first[x] = far
        for k in range(mask.shape[0]):
            voxels, at = mask[k, y], np.int32(k)
            for x in range(voxels.size):
                b, a = last[x], first[x]
                step = np.int32(b + one) if b != far else far
                last[x] = step if voxels[x] else np.int32(0)
                first[x] = a if voxels[x] or a < at else at


@kernel
def _envelope(f, far, weight, out, sites, edges):
    """The minimum over ``p`` of ``f[p] + weight * (x - p)**2`` for every ``x``."""
    # For integers, intersections are quotients of exact integers, rounded once. An integer ``x`` is on the
    # same side of the rounded as of the true one; on a tie, both parabolas give the same.
    n = -1
    for q in range(f.size):
        if f[q] >= far:
            continue
        edge = -np.inf
        while n >= 0:
            p = sites[n]
            rise = np.float64(f[q]) - np.float64(f[p]) + weight * np.float64(q * q - p * p)
            edge = rise / (2 * weight * np.float64(q - p))
            if edge > edges[n]:
                break
            n -= 1
            edge = -np.inf
        n += 1
        sites[n] = q
        edges[n] = edge
    if n < 0:
        out[:] = far
        return
    i = 0
    for x in range(f.size):
        while i < n and edges[i + 1] < x:
            i += 1
        d = x - sites[i]
        out[x] = f[sites[i]] + weight * (d * d)


def _scratch_along_y(rows, cols, depth, dtype, reach) -> Scratch:
    shapes = (rows + 2 * reach, _COLUMNS), (_COLUMNS,), (2, rows)
    of_results = ((shape, dtype) for shape in shapes)
    return *of_results, ((_COLUMNS,), np.bool_), ((rows,), np.int64), ((rows,), np.float64)


@needs(_scratch_along_y)
def along_y(distance, squared, x0, x1, reach, far, weight_z, weight, envelope, scratch):
    """Squared distances within z and y, from int32 distances of `backward`, for whole columns ``x0:x1``.

    ``envelope``: whether to use it beyond ``reach``, which is even (see `REACH`), if necessary. The scratch
    is for results of `Metric.dtype`, and does not depend on the number of columns and slices.
    """
    # ``squared``, of `Metric.dtype`, is the output, with `Metric.far` if there is no background. ``far``,
    # ``weight_z`` and ``weight`` are scalars of this dtype: `Metric.far` and `Metric.weights`.
    _along_y(
        strided(distance), strided(squared, writeable=True), distance.shape, x0, x1,
        reach, far, weight_z, weight, envelope, scratch,
    )  # fmt: skip


@kernel
def _along_y(distance, squared, shape, x0, x1, reach, far, weight_z, weight, envelope, scratch):
    slices, ny, _ = shape
    distances, distance_z, distance_y = distance
    results, result_z, result_y = squared
    of = results.dtype.type
    plane, lowest, column, beyond, sites, edges = scratch
    plane[:reach] = far
    plane[reach + ny :] = far
    limit = of(weight * ((reach + 1) * (reach + 1))) if envelope else far
    none = np.int32(2147483647)
    for k in range(slices):
        for c in range(x0, x1, _COLUMNS):
            n = min(_COLUMNS, x1 - c)
            lowest[:] = far
            for y in range(ny):
                at = k * distance_z + y * distance_y + c
                d, p = distances[at : at + n], plane[reach + y]
                for x in range(n):
                    square = of(weight_z * (np.int64(d[x]) * np.int64(d[x])))
                    p[x] = square if d[x] != none else far
                _lower(lowest[:n], p[:n], of(0))
            for x in range(n):
                beyond[x] = ny > reach + 1 and lowest[x] > limit
            if not beyond[:n].all():
                for y in range(ny):
                    at = k * result_z + y * result_y + c
                    e = results[at : at + n]
                    copy(plane[reach + y], e)
                    t = 1
                    while t <= reach and t < ny:
                        near = of(weight * (t * t))
                        if not any_above(e, near):
                            break
                        lower_by_four(
                            e,
                            plane[reach + y - t],
                            plane[reach + y + t],
                            near,
                            plane[reach + y - t - 1],
                            plane[reach + y + t + 1],
                            of(weight * ((t + 1) * (t + 1))),
                        )
                        t += 2
                    if t > reach and ny > reach + 1 and any_above(e, limit):
                        for x in range(n):
                            beyond[x] |= e[x] > limit
            for x in range(n):
                if beyond[x]:
                    for y in range(ny):
                        column[0, y] = plane[reach + y, x]
                    _envelope(column[0], far, weight, column[1], sites, edges)
                    for y in range(ny):
                        results[k * result_z + y * result_y + c + x] = column[1, y]


@kernel
def copy(src, out):
    for x in range(out.size):
        out[x] = src[x]


@kernel
def _lower(row, other, step):
    for x in range(row.size):
        v = row.dtype.type(other[x] + step)
        r = row[x]
        row[x] = v if v < r else r


@kernel
def lower_by_four(row, a, b, near, c, d, next):
    for x in range(row.size):
        u = a[x] if a[x] < b[x] else b[x]
        v = c[x] if c[x] < d[x] else d[x]
        u = row.dtype.type(u + near)
        v = row.dtype.type(v + next)
        u = u if u < v else v
        r = row[x]
        row[x] = u if u < r else r


@kernel
def any_above(row, limit):
    found = False  # a maximum of floats would not vectorize
    for x in range(row.size):
        found |= row[x] > limit
    return found


def _scratch_along_x(rows, cols, depth, dtype, reach) -> Scratch:
    lines = ((cols + 2 * reach,), dtype), ((cols,), dtype)
    return *lines, ((cols,), np.int64), ((cols,), np.float64)


@needs(_scratch_along_x)
def along_x(squared, out, y0, y1, reach, far, weight, scale, root, envelope, scratch):
    """Distances from squared distances within z and y, for whole rows ``y0:y1``.

    The scratch is for `Metric.dtype`, and does not depend on the number of rows and slices.
    """
    # ``out``, float32 or float64, is ``scale * sqrt(squared)``, or without ``root`` ``scale**2 * squared``,
    # rounded from float64; +inf if there is no background.
    _along_x(
        strided(squared), strided(out, writeable=True), squared.shape, y0, y1,
        reach, far, weight, scale, root, envelope, scratch,
    )  # fmt: skip


@kernel
def _along_x(squared, out, shape, y0, y1, reach, far, weight, scale, root, envelope, scratch):
    slices, _, nx = shape
    squares, square_z, square_y = squared
    results, result_z, result_y = out
    of = squares.dtype.type
    row, best, sites, edges = scratch
    row[:reach] = far
    row[reach + nx :] = far
    limit = of(weight * ((reach + 1) * (reach + 1))) if envelope else far
    for k in range(slices):
        for y in range(y0, y1):
            middle = row[reach : reach + nx]
            at = k * square_z + y * square_y
            copy(squares[at : at + nx], middle)
            copy(middle, best)
            lowest = far
            for x in range(nx):
                lowest = min(lowest, best[x])
            t = reach + 1 if nx > reach + 1 and lowest > limit else 1
            while t <= reach and t < nx:
                near = of(weight * (t * t))
                if not any_above(best, near):
                    break
                lower_by_four(
                    best,
                    row[reach - t : reach - t + nx],
                    row[reach + t : reach + t + nx],
                    near,
                    row[reach - t - 1 : reach - t - 1 + nx],
                    row[reach + t + 1 : reach + t + 1 + nx],
                    of(weight * ((t + 1) * (t + 1))),
                )
                t += 2
            if t > reach and nx > reach + 1 and any_above(best, limit):
                _envelope(middle, far, weight, best, sites, edges)
            at = k * result_z + y * result_y
            o = results[at : at + nx]
            if root:
                for x in range(nx):
                    d = np.sqrt(np.float64(best[x])) * scale
                    o[x] = d if best[x] < far else np.inf
            else:
                for x in range(nx):
                    d = np.float64(best[x]) * (scale * scale)
                    o[x] = d if best[x] < far else np.inf


def bounded_reach(max_distance: float, sampling: tuple[float, float, float]) -> tuple[int, ...]:
    """The halo per axis that determines all distances up to ``max_distance``."""
    if not (math.isfinite(max_distance) and max_distance > 0):
        raise ValueError(f"max_distance {max_distance!r}: give a positive length")
    return tuple(math.ceil(max_distance / s) for s in sampling)


def _bounded(max_distance: float, sampling: tuple[float, float, float]) -> tuple[int, Metric]:
    """The number of parabolas on both sides of a voxel, and the same arithmetic for every block."""
    reach = max(bounded_reach(max_distance, sampling))
    return reach, metric((max(2, reach + 1),) * 3, sampling)


def _scratch_of_bounded(rows, cols, depth, dtype, sampling, max_distance) -> Scratch:
    z, y, x = bounded_reach(max_distance, sampling)
    high, wide = rows + 2 * y, cols + 2 * x
    reach, how = _bounded(max_distance, sampling)
    even = reach + reach % 2
    return (
        ((depth + 2 * z, high, wide), np.int32),
        ((high, wide), np.int32),
        ((high, wide), np.bool_),
        ((1, high, wide), how.dtype),
        ((1, rows, wide), dtype),
        *along_x.scratch(rows, wide, 1, how.dtype, even),
        *along_y.scratch(high, wide, 1, how.dtype, even),
    )


@needs(_scratch_of_bounded)
def bounded(
    mask: Iterable[np.ndarray],
    out: Iterable[np.ndarray],
    sampling: tuple[float, float, float],
    max_distance: float,
    root: bool,
    scratch: tuple[np.ndarray, ...],
) -> None:
    """Write ``minimum(distance, max_distance)``, or the squares without ``root``, slice by slice.

    ``mask`` are slices of bool with a halo of `bounded_reach` around those of ``out``, float32 or float64.
    """
    # Voxels outside of the volume are foreground. Parabolas beyond ``max_distance`` are never tried, so the
    # bits do not depend on the block.
    reach, how = _bounded(max_distance, sampling)
    above, y, x = bounded_reach(max_distance, sampling)
    even, of = reach + reach % 2, how.dtype.type
    far, (wz, wy, wx) = of(how.far), (of(w) for w in how.weights)
    near, carry, is_far, squared, line = scratch[:5]
    (_, ny, nx), rows = near.shape, line.shape[1]
    carry.fill(FAR)
    for k, voxels in enumerate(mask):
        forward(voxels.view(np.uint8)[None], carry, near[k : k + 1], 0, ny)
    carry.fill(FAR)
    backward(near, carry, 0, ny)
    limit = line.dtype.type(max_distance if root else max_distance**2)
    for k, result in enumerate(out, above):
        np.copyto(near[k], FAR, where=np.greater(near[k], np.int32(reach), out=is_far))
        along_y(near[k : k + 1], squared, 0, nx, even, far, wz, wy, False, scratch[9:])
        whole = squared[:, y : y + rows]
        along_x(whole, line, 0, rows, even, far, wx, how.scale, root, False, scratch[5:9])
        np.minimum(line, limit, out=line)  # contiguous: numpy allocates buffers for views
        result[...] = line[0, :, x : nx - x]
