"""The nearest label within a distance, and the nearest background, in three passes: along z, then y, then x.

Squared distances are sums over axes, so the smallest pair of a squared distance and a label is found axis by
axis. Equally near labels are ordered by their numbers. The passes along y and x try offsets one by one, for a
row at a time, until all voxels of the row are nearer. Without a limit, `background_along_y` and
`background_along_x` find the lower envelope of parabolas instead: of two of them, one is nearer up to a
voxel, and the other from there on. This also holds for equal distances, where the first background in raster
order is nearer.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import strided
from beam_volumes.kernels.scratch import Scratch, needs

_NONE = 1 << 30  # slices to a label in a column without any


def _scratch(rows, cols, depth, dtype, reach) -> Scratch:
    high, wide = rows + 2 * reach[1], cols + 2 * reach[2]
    of_z = (depth, high, wide), (wide,)
    planes = (high, wide), (high,), (wide,), (cols,)
    return (
        *((shape, np.int32) for shape in of_z),
        *((shape, np.float64) for shape in planes),
        *((shape, dtype) for shape in (*of_z, (wide,), (cols,))),
    )


@needs(_scratch)
@kernel
def nearest(labels, out, reach, sampling, scale, max_distance, scratch):
    """Write the nearest nonzero label up to ``max_distance``, or 0."""
    # ``labels``, uint32 or uint64 (slices, rows, columns), is ``out`` with ``reach`` voxels on both sides of
    # each axis; there are no labels outside of the volume. ``reach`` is the longest distance in voxels.
    # ``sampling`` is the extent of a voxel in units of ``scale``: distances are ``scale * sqrt(squared)``.
    _, high, wide = labels.shape
    rz, ry, rx = reach
    wz, wy, wx = sampling
    slice_of, last, squared, lowest, row, best, label_z, last_label, row_label, label = scratch
    _along_z(labels, rz, slice_of, label_z, last, last_label)
    nx = out.shape[2]
    limit = (max_distance / scale) ** 2 * (1 + 1e-9)  # rounding beyond it is decided at the end
    for k in range(out.shape[0]):
        for y in range(high):
            low = np.inf
            for x in range(wide):
                steps = slice_of[k, y, x]
                d = (steps * wz) ** 2 if steps != _NONE else np.inf
                squared[y, x] = d
                low = min(low, d)
            lowest[y] = low
        for y in range(out.shape[1]):
            at = y + ry
            _set(row, squared[at])
            _set(row_label, label_z[k, at])
            for t in range(1, ry + 1):
                step = (t * wy) ** 2
                if not _any_from(row, step):
                    break
                for other in (at - t, at + t):
                    if lowest[other] + step <= limit:
                        _lower(row, row_label, squared[other], label_z[k, other], step)
            _set(best, row[rx : rx + nx])
            _set(label, row_label[rx : rx + nx])
            for t in range(1, rx + 1):
                step = (t * wx) ** 2
                if step > limit or not _any_from(best, step):
                    break
                a, b = rx - t, rx + t
                _lower(best, label, row[a : a + nx], row_label[a : a + nx], step)
                _lower(best, label, row[b : b + nx], row_label[b : b + nx], step)
            for x in range(nx):
                near = np.sqrt(best[x]) * scale <= max_distance
                out[k, y, x] = label[x] if near else labels.dtype.type(0)


@kernel
def _along_z(labels, reach, steps, found, last, last_label):
    """Slices to the nearest label of the same column and the label, except in ``reach`` outer slices."""
    slices, high, _ = labels.shape
    none = np.int32(_NONE)
    for y in range(high):
        last[:] = none
        last_label[:] = 0
        for k in range(slices - reach):
            _pass_slice(labels[k, y], last, last_label)
            if k >= reach:
                _set(steps[k - reach, y], last)
                _set(found[k - reach, y], last_label)
        last[:] = none
        last_label[:] = 0
        for k in range(slices - 1, reach - 1, -1):
            _pass_slice(labels[k, y], last, last_label)
            if k < slices - reach:
                _lower(steps[k - reach, y], found[k - reach, y], last, last_label, np.int32(0))


@kernel
def _pass_slice(row, last, label):
    none = np.int32(_NONE)
    for x in range(row.size):
        here = row[x] != 0
        further = np.int32(last[x] + 1) if last[x] != none else none
        last[x] = np.int32(0) if here else further
        label[x] = row[x] if here else label[x]


@kernel
def _set(out, row):
    for x in range(out.size):
        out[x] = row[x]


@kernel
def _lower(best, label, distance, other, step):
    """Replace pairs of a distance and a label by smaller ones."""
    for x in range(best.size):
        d, b = best.dtype.type(distance[x] + step), best[x]
        m, n = label[x], other[x]
        closer = (d < b) | ((d == b) & (n < m))
        best[x] = d if closer else b
        label[x] = n if closer else m


@kernel
def _any_from(row, limit):
    found = False
    for x in range(row.size):
        found |= row[x] >= limit
    return found


def line_scratch(voxels: int, dtype: type) -> Scratch:
    """The scratch of `background_along_y` and `background_along_x`, for lines and weights of a dtype."""
    return ((voxels,), dtype), *[((voxels,), np.int64)] * 4


def background_along_y(
    steps: np.ndarray, out: np.ndarray, x0: int, x1: int, z: int, weights: tuple, scratch: tuple
) -> None:
    """Write ``z * rows + y + 1`` of the nearest background in the column, or 0, for columns ``x0:x1``."""
    # ``steps``, int32 (rows, columns), lead along z to the nearest background, or are 2**31 - 1 without any.
    # ``weights`` are the squares of a step along z, y and x.
    wz, wy, _ = weights
    given = strided(steps), strided(out, writeable=True), steps.shape
    _along_y(*given, x0, x1, z, wz, wy, scratch)


def background_along_x(
    places: np.ndarray,
    out: np.ndarray,
    y0: int,
    y1: int,
    at: tuple,
    rows: int,
    weights: tuple,
    scratch: tuple,
) -> None:
    """Write the linear index plus one of the nearest background, for rows ``y0:y1`` of a slice.

    ``places`` are from `background_along_y`. ``at`` are the slice and the first row in a volume of ``rows``.
    """
    given = strided(places), strided(out, writeable=True), places.shape
    _background_along_x(*given, y0, y1, *at, rows, *weights, scratch)


@kernel
def _along_y(steps, out, shape, x0, x1, z, wz, wy, scratch):
    voxels, _, step_y = steps
    results, _, result_y = out
    rows = shape[0]
    squares, places, sites, starts, found = scratch
    for x in range(x0, x1):
        for y in range(rows):
            d = np.int64(voxels[y * step_y + x])
            squares[y] = wz * (d * d)
            places[y] = (z + d) * rows + y if d != 2147483647 else -1
        _nearest_sites(squares, places, wy, sites, starts, found)
        for y in range(rows):
            p = found[y]
            results[y * result_y + x] = np.uint64(places[p] + 1 if p >= 0 else 0)


@kernel
def _background_along_x(near, out, shape, y0, y1, z, first, rows, wz, wy, wx, scratch):
    voxels, _, step_y = near
    results, _, result_y = out
    cols = shape[1]
    squares, places, sites, starts, found = scratch
    for y in range(y0, y1):
        for x in range(cols):
            place = np.int64(voxels[y * step_y + x]) - 1
            dz, dy = place // rows - z, place % rows - (first + y)
            squares[x] = wz * (dz * dz) + wy * (dy * dy)
            places[x] = place * cols + x if place >= 0 else -1
        _nearest_sites(squares, places, wx, sites, starts, found)
        for x in range(cols):
            p = found[x]
            results[y * result_y + x] = np.uint64(places[p] + 1 if p >= 0 else 0)


@row_kernel
def _nearest_sites(squares, places, weight, sites, starts, found):
    """For every ``x``, the site ``p`` with the smallest ``squares[p] + weight * (x - p)**2``, or -1.

    The one with the smaller place, if several are equally near. Sites with a negative place do not count.
    """
    n = -1
    for q in range(places.size):
        if places[q] < 0:
            continue
        first = 0
        while n >= 0:
            first = _first_nearer(squares, places, weight, sites[n], q)
            if first > starts[n]:
                break
            n -= 1
            first = 0
        if first < places.size:
            n += 1
            sites[n] = q
            starts[n] = first
    i = 0
    for x in range(places.size):
        while i < n and starts[i + 1] <= x:
            i += 1
        found[x] = sites[i] if n >= 0 else -1


@row_kernel
def _first_nearer(squares, places, weight, p, q):
    """The first voxel from 0 on that is nearer to ``q`` than to ``p < q``."""
    rise = np.float64(squares[q] - squares[p]) + np.float64(weight) * np.float64(q * q - p * p)
    edge = rise / (2 * np.float64(weight) * np.float64(q - p))
    x = np.int64(min(max(edge, 0.0), np.float64(places.size)))
    while x > 0 and _is_nearer(squares, places, weight, p, q, x - 1):
        x -= 1
    while x < places.size and not _is_nearer(squares, places, weight, p, q, x):
        x += 1
    return x


@row_kernel
def _is_nearer(squares, places, weight, p, q, x):
    a = squares[p] + weight * ((x - p) * (x - p))
    b = squares[q] + weight * ((x - q) * (x - q))
    return b < a or (b == a and places[q] < places[p])
