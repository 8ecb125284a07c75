"""Fusion of overlapping tiles: the boxes of tiles that a box of the result needs, and their blending.

Position p of the result is at ``inverse @ p + shift`` of a tile. A tile covers its voxels with their full
extent: from half a voxel before the first centre to half a voxel after the last. Everything is computed from
the positions in the whole result, so no bit depends on the boxes into which it is divided.
"""

import numpy as np

from beam_volumes.kernels.casting import one_nan, rounded
from beam_volumes.kernels.elementary.angles import cos_value
from beam_volumes.kernels.jit import kernel

#: Blending modes by number.
BLENDINGS = {"linear": 0, "cosine": 1, "max": 2, "mean": 3, "first": 4}


@kernel
def tile_box(start, stop, inverse, shift, extent, order, box):
    """Write the voxels of a tile, (3, 2), that a nonempty box of the result needs; False if there are none.

    Rotations round coordinates in another order than `blend`, so their boxes have a margin.
    """
    for a in range(3):
        low, high, margin = 0.0, 0.0, 0.0
        for b in range(3):
            first, last = inverse[a, b] * start[b], inverse[a, b] * (stop[b] - 1)
            low += min(first, last)
            high += max(first, last)
            if a != b and inverse[a, b] != 0.0:
                margin = 1e-6
        low, high = low + shift[a] - margin, high + shift[a] + margin
        if high < -0.5 or low >= extent[a] - 0.5:
            return False
        if order == 0:
            box[a, 0], box[a, 1] = np.int64(np.floor(low + 0.5)), np.int64(np.floor(high + 0.5)) + 1
        else:
            box[a, 0], box[a, 1] = np.int64(np.floor(low)), np.int64(np.ceil(high)) + 1
        box[a, 0] = min(max(box[a, 0], 0), extent[a] - 1)
        box[a, 1] = max(min(box[a, 1], extent[a]), box[a, 0] + 1)
    return True


@kernel
def tile_boxes(start, stop, bounds, inverse, shift, extent, order):
    """The tiles that a box of the result needs, in order, and the box of each: int64 (n,) and (n, 3, 2).

    ``bounds``, int64 (tiles, 3, 2): the range of the result that each tile covers.
    """
    found = np.empty(len(bounds), np.int64)
    n = 0
    for t in range(len(bounds)):
        is_inside = True
        for a in range(3):
            is_inside &= bounds[t, a, 0] < stop[a] and bounds[t, a, 1] > start[a]
        if is_inside:
            found[n] = t
            n += 1
    boxes, kept = np.empty((n, 3, 2), np.int64), 0
    low, high = np.empty(3, np.int64), np.empty(3, np.int64)
    for k in range(n):
        t = found[k]
        for a in range(3):
            low[a], high[a] = max(start[a], bounds[t, a, 0]), min(stop[a], bounds[t, a, 1])
        if tile_box(low, high, inverse[t], shift[t], extent[t], order, boxes[kept]):
            found[kept] = t
            kept += 1
    return found[:kept], boxes[:kept]


@kernel
def bytes_of_cells(shape, cell, bounds, inverse, shift, extent, order, chunk, needed):
    """For each cell of the result, the voxels in the chunks of tiles that it needs.

    ``chunk``, int64 (tiles, 3). Adds to ``needed``, int64, which has an entry for each cell in C
    order.
    """
    count, low, high = np.empty(3, np.int64), np.empty(3, np.int64), np.empty(3, np.int64)
    begin, end, box = np.empty(3, np.int64), np.empty(3, np.int64), np.empty((3, 2), np.int64)
    for a in range(3):
        count[a] = -(-shape[a] // cell[a])
    for t in range(len(bounds)):
        for a in range(3):
            begin[a] = max(0, bounds[t, a, 0]) // cell[a]
            end[a] = -(-min(shape[a], bounds[t, a, 1]) // cell[a])
        for z in range(begin[0], end[0]):
            for y in range(begin[1], end[1]):
                for x in range(begin[2], end[2]):
                    for a in range(3):
                        at = (z, y, x)[a]
                        low[a] = max(at * cell[a], bounds[t, a, 0])
                        high[a] = min(min((at + 1) * cell[a], shape[a]), bounds[t, a, 1])
                    if not tile_box(low, high, inverse[t], shift[t], extent[t], order, box):
                        continue
                    voxels = 1
                    for a in range(3):
                        c = chunk[t, a]
                        voxels *= ((box[a, 1] - 1) // c - box[a, 0] // c + 1) * c
                    needed[(z * count[1] + y) * count[2] + x] += voxels


@kernel
def _distance(u, n):
    """The distance of a position to the first voxel outside a tile of extent ``n``."""
    return min(u, n - 1 - u) + 1.0


@kernel
def _weight(u, n, blending):
    """The factor of a tile's weight along one axis."""
    if blending == 0:
        return _distance(u, n)
    if blending == 1:
        return 0.5 - 0.5 * cos_value(np.pi * min(1.0, _distance(u, n) / (0.5 * (n + 1))))
    return 1.0


@kernel
def _between(a, b, f):
    return a if f == 0.0 else a + f * (b - a)


@kernel
def _located(u, n, order):
    """The voxel before a position in a tile, the voxel after it, and the fraction between them."""
    if order == 0:
        i = min(max(np.int64(np.floor(u + 0.5)), 0), n - 1)
        return i, i, 0.0
    c = min(max(u, 0.0), n - 1.0)
    i = np.int64(np.floor(c))
    f = c - i
    return i, i + 1 if f > 0.0 else i, f


@kernel
def blend(
    data, begins, boxes, bounds, inverse, shift, extent, gain, offset, start, order, blending, fill,
    out,
):  # fmt: skip
    """Blend parts of tiles into a box of the result.

    ``data``: the voxels of all parts, in C order one after the other; part t begins at ``begins[t]`` and
    has the voxels ``boxes[t]`` of its tile. ``start``: the position of the box. ``fill``, float64, is the
    value where no tile is. ``out`` is C-contiguous, of three axes.
    """
    depth, rows, cols = out.shape
    total, weights = np.empty(cols, np.float64), np.empty(cols, np.float64)
    last, count = np.empty(cols, np.float64), np.empty(cols, np.int64)
    for k in range(depth):
        z = start[0] + k
        for r in range(rows):
            y = start[1] + r
            for x in range(cols):
                total[x], weights[x], last[x], count[x] = 0.0, 0.0, 0.0, 0
            for t in range(len(begins)):
                if z < bounds[t, 0, 0] or z >= bounds[t, 0, 1]:
                    continue
                if y < bounds[t, 1, 0] or y >= bounds[t, 1, 1]:
                    continue
                _add_row(
                    data, begins[t], boxes[t], bounds[t, 2], inverse[t], shift[t], extent[t],
                    gain[t], offset[t], z, y, start[2], order, blending,
                    total, weights, last, count,
                )  # fmt: skip
            row = out[k, r]
            for x in range(cols):
                if count[x] == 0:
                    row[x] = rounded(fill, row.dtype)
                elif count[x] == 1:
                    row[x] = rounded(last[x], row.dtype)
                elif weights[x] == 0.0:
                    row[x] = rounded(total[x], row.dtype)
                else:
                    row[x] = rounded(total[x] / weights[x], row.dtype)
            one_nan(row)


@kernel
def _add_row(
    data, begin, box, bounds, inverse, shift, extent, gain, offset, z, y, x0, order, blending,
    total, weights, last, count,
):  # fmt: skip
    """Add a tile to a row of the result; ``count`` is the number of tiles at each voxel."""
    rows, cols = box[1, 1] - box[1, 0], box[2, 1] - box[2, 0]
    nz, ny, nx = extent
    uz = inverse[0, 0] * z + inverse[0, 1] * y + shift[0]
    uy = inverse[1, 0] * z + inverse[1, 1] * y + shift[1]
    ux = inverse[2, 0] * z + inverse[2, 1] * y + shift[2]
    for x in range(max(0, bounds[0] - x0), min(total.size, bounds[1] - x0)):
        w, v, u = (
            uz + inverse[0, 2] * (x0 + x),
            uy + inverse[1, 2] * (x0 + x),
            ux + inverse[2, 2] * (x0 + x),
        )
        if not (-0.5 <= w < nz - 0.5 and -0.5 <= v < ny - 0.5 and -0.5 <= u < nx - 0.5):
            continue
        if blending == 4 and count[x]:
            continue
        a, a1, fa = _located(w, nz, order)
        b, b1, fb = _located(v, ny, order)
        c, c1, fc = _located(u, nx, order)
        c, c1 = c - box[2, 0], c1 - box[2, 0]
        l00 = begin + ((a - box[0, 0]) * rows + b - box[1, 0]) * cols
        value = np.float64(data[l00 + c])
        if fa != 0.0 or fb != 0.0 or fc != 0.0:
            l01 = l00 + (b1 - b) * cols
            l10 = l00 + (a1 - a) * rows * cols
            l11 = l10 + (b1 - b) * cols
            before = _between(
                _between(value, np.float64(data[l00 + c1]), fc),
                _between(np.float64(data[l01 + c]), np.float64(data[l01 + c1]), fc),
                fb,
            )
            after = _between(
                _between(np.float64(data[l10 + c]), np.float64(data[l10 + c1]), fc),
                _between(np.float64(data[l11 + c]), np.float64(data[l11 + c1]), fc),
                fb,
            )
            value = _between(before, after, fa)
        value = value * gain + offset
        last[x] = value
        count[x] += 1
        if blending == 2:
            # NaN is kept, as in numpy.maximum.
            if count[x] == 1 or value > total[x] or value != value:
                total[x] = value
            last[x] = total[x]
        elif blending <= 1:
            weight = _weight(w, nz, blending) * _weight(v, ny, blending) * _weight(u, nx, blending)
            total[x] += weight * value
            weights[x] += weight
        else:
            total[x] += value
            weights[x] += 1.0
