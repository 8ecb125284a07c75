"""Fusion of overlapping tiles: the boxes of tiles that a box of the result needs, and their blending.

Position p of the result is at ``inverse @ p + shift`` of a tile. A tile covers its voxels with their full
extent: from half a voxel before the first centre to half a voxel after the last. Everything is computed from
the positions in the whole result, so no bit depends on the boxes into which it is divided.
"""

import numpy as np

from beam_volumes.kernels.casting import one_nan, rounded
from beam_volumes.kernels.elementary.angles import cos_value
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import Scratch, needs

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
def voxels_of_cells(shape, cell, by_layer, bounds, inverse, shift, extent, order, chunk):
    """The voxels of tiles and the tiles that a cell needs at most, and the voxels in chunks of all cells.

    ``by_layer``: the tiles, sorted by first position along z. ``chunk``, int64 (tiles, 3): shapes of chunks.
    """
    low, high, box = np.empty(3, np.int64), np.empty(3, np.int64), np.empty((3, 2), np.int64)
    layers, rows, cols = -(-shape[0] // cell[0]), -(-shape[1] // cell[1]), -(-shape[2] // cell[2])
    needed = np.empty((2, rows, cols), np.int64)
    maximum = tiles = total = first = 0
    for z in range(layers):
        needed[:, :, :] = 0
        start, stop = z * cell[0], min((z + 1) * cell[0], shape[0])
        while first < len(by_layer) and bounds[by_layer[first], 0, 1] <= start:
            first += 1
        for k in range(first, len(by_layer)):
            t = by_layer[k]
            if bounds[t, 0, 0] >= stop:
                break
            low[0], high[0] = max(start, bounds[t, 0, 0]), min(stop, bounds[t, 0, 1])
            if low[0] >= high[0]:
                continue
            for y in range(bounds[t, 1, 0] // cell[1], -(-bounds[t, 1, 1] // cell[1])):
                low[1] = max(y * cell[1], bounds[t, 1, 0])
                high[1] = min((y + 1) * cell[1], bounds[t, 1, 1])
                for x in range(bounds[t, 2, 0] // cell[2], -(-bounds[t, 2, 1] // cell[2])):
                    low[2] = max(x * cell[2], bounds[t, 2, 0])
                    high[2] = min((x + 1) * cell[2], bounds[t, 2, 1])
                    if low[1] >= high[1] or low[2] >= high[2]:
                        continue
                    if not tile_box(low, high, inverse[t], shift[t], extent[t], order, box):
                        continue
                    voxels = chunks = 1
                    for a in range(3):
                        c = chunk[t, a]
                        voxels *= box[a, 1] - box[a, 0]
                        chunks *= ((box[a, 1] - 1) // c - box[a, 0] // c + 1) * c
                    needed[0, y, x] += voxels
                    needed[1, y, x] += 1
                    total += chunks
        maximum, tiles = max(maximum, needed[0].max()), max(tiles, needed[1].max())
    return maximum, tiles, total


@kernel
def _distance(u, n):
    """The distance of a position to the first voxel outside a tile of extent ``n``."""
    return min(u, n - 1 - u) + 1.0


@kernel
def _weight(u, n, blending, width):
    """The factor of a tile's weight along one axis, which is 1 from the distance ``width`` of its border.

    If ``width`` is infinite, weights of linear blending are distances.
    """
    if blending == 0:
        return _distance(u, n) if width == np.inf else min(1.0, _distance(u, n) / width)
    if blending == 1:
        width = min(width, 0.5 * (n + 1))
        return 0.5 - 0.5 * cos_value(np.pi * min(1.0, _distance(u, n) / width))
    return 1.0


@kernel
def _between(a, b, f):
    if abs(a) == np.inf and f != 0.0:
        return a + b  # the weighted sum, for any weights
    return a if f == 0.0 else a + f * (b - a)


@kernel
def _located(u, n, order):
    """The voxel before a position in a tile, and the fraction from it to the next one."""
    if order == 0:
        return min(max(np.int64(np.floor(u + 0.5)), 0), n - 1), 0.0
    c = min(max(u, 0.0), n - 1.0)
    return np.int64(c), c - np.int64(c)


@kernel
def _line(begin, box, z, y):
    """The index of the first voxel of a line of a part."""
    rows, cols = box[1, 1] - box[1, 0], box[2, 1] - box[2, 0]
    return begin + ((z - box[0, 0]) * rows + y - box[1, 0]) * cols - box[2, 0]


@row_kernel
def _value(data, lines, c, fa, fb, fc):
    """The voxel ``c`` of the first line, or interpolated between it, its neighbour and other lines.

    ``lines``: before and after along z, and along y within each.
    """
    value = np.float64(data[lines[0] + c])
    if fa == 0.0 and fb == 0.0 and fc == 0.0:
        return value
    c1 = c + 1 if fc > 0.0 else c
    value = _between(value, np.float64(data[lines[0] + c1]), fc)
    if fb > 0.0:
        at = lines[1]
        after = _between(np.float64(data[at + c]), np.float64(data[at + c1]), fc)
        value = _between(value, after, fb)
    if fa > 0.0:
        at = lines[2]
        other = _between(np.float64(data[at + c]), np.float64(data[at + c1]), fc)
        if fb > 0.0:
            at = lines[3]
            after = _between(np.float64(data[at + c]), np.float64(data[at + c1]), fc)
            other = _between(other, after, fb)
        value = _between(value, other, fa)
    return value


@kernel
def _is_scaled(inverse):
    """Whether each coordinate of a tile depends on one coordinate of the result."""
    for a in range(3):
        for b in range(3):
            if a != b and inverse[a, b] != 0.0:
                return False
    return True


def row_of_sums(tiles: int, cols: int) -> Scratch:
    """The sums of weighted values, of weights, and the latest value of a row; and the number of its tiles."""
    return ((3, cols), np.float64), ((cols,), np.int64)


def _scratch(tiles: int, cols: int) -> Scratch:
    """A row of sums, and the results of `_along_x` for some tiles."""
    along_x = ((tiles, cols), np.float64)
    return *row_of_sums(tiles, cols), along_x, along_x, ((tiles,), np.bool_)


@needs(_scratch)
@kernel
def blend(
    data, begins, boxes, bounds, inverse, shift, extent, gain, offset, start, order, blending, width,
    fill, out, scratch,
):  # fmt: skip
    """Blend parts of tiles into a box of the result, at ``start``, which is ``fill`` where no tile is."""
    # ``data`` has the voxels of all parts, in C order one after the other; part t begins at ``begins[t]`` and
    # has the voxels ``boxes[t]`` of its tile. ``fill`` is float64. ``width``, float64 (parts, 3), is that
    # of `_weight`. ``out`` is C-contiguous, of three axes.
    depth, rows, _ = out.shape
    sums, count, places, factors, is_scaled = scratch
    _along_x(
        bounds, inverse, shift, extent, start[2], order, blending, width, places, factors, is_scaled
    )
    for k in range(depth):
        z = start[0] + k
        for r in range(rows):
            y = start[1] + r
            sums[:, :] = 0.0
            count[:] = 0
            for t in range(len(begins)):
                if z < bounds[t, 0, 0] or z >= bounds[t, 0, 1]:
                    continue
                if y < bounds[t, 1, 0] or y >= bounds[t, 1, 1]:
                    continue
                if is_scaled[t]:
                    _add_scaled_row(
                        data, begins[t], boxes[t], bounds[t, 2], inverse[t], shift[t], extent[t],
                        gain[t], offset[t], z, y, start[2], order, blending,
                        width[t], places[t], factors[t], sums, count,
                    )  # fmt: skip
                else:
                    _add_row(
                        data, begins[t], boxes[t], bounds[t, 2], inverse[t], shift[t], extent[t],
                        gain[t], offset[t], z, y, start[2], order, blending, width[t], sums,
                        count,
                    )  # fmt: skip
            _finish(sums, count, fill, out[k, r])


@kernel
def _finish(sums, count, fill, row):
    """Write a row of the result; ``count`` is the number of each voxel's tiles."""
    for x in range(row.size):
        if count[x] == 0:
            row[x] = rounded(fill, row.dtype)
        elif count[x] == 1:
            row[x] = rounded(sums[2, x], row.dtype)
        elif sums[1, x] == 0.0:
            row[x] = rounded(sums[0, x], row.dtype)
        else:
            row[x] = rounded(sums[0, x] / sums[1, x], row.dtype)
    one_nan(row)


@kernel
def _along_x(
    bounds, inverse, shift, extent, x0, order, blending, width, places, factors, is_scaled
):
    """For each column and tile: its coordinate, or -1 outside, and its factor of the weight."""
    for t in range(len(bounds)):
        is_scaled[t] = _is_scaled(inverse[t])
        n = extent[t, 2]
        for x in range(places.shape[1] if is_scaled[t] else 0):
            u = shift[t, 2] + inverse[t, 2, 2] * (x0 + x)
            places[t, x] = -1.0
            if -0.5 <= u < n - 0.5:
                places[t, x] = np.floor(u + 0.5) if order == 0 else min(max(u, 0.0), n - 1.0)
                factors[t, x] = _weight(u, n, blending, width[t, 2])


@row_kernel
def _add(value, weight, x, blending, sums, count):
    """Add a value to a voxel of a row; ``count`` is the number of its tiles."""
    count[x] += 1
    sums[2, x] = value
    if blending == 2:
        # NaN is kept, as in numpy.maximum.
        if count[x] == 1 or value > sums[0, x] or value != value:
            sums[0, x] = value
        sums[2, x] = sums[0, x]
    else:
        sums[0, x] += weight * value
        sums[1, x] += weight


@kernel
def _lines(begin, box, a, b, fa, fb):
    """The lines between which a row of the result is interpolated."""
    a1, b1 = a + 1 if fa > 0.0 else a, b + 1 if fb > 0.0 else b
    return (
        _line(begin, box, a, b),
        _line(begin, box, a, b1),
        _line(begin, box, a1, b),
        _line(begin, box, a1, b1),
    )


@row_kernel
def _add_scaled_row(
    data, begin, box, bounds, inverse, shift, extent, gain, offset, z, y, x0, order, blending,
    width, places, factors, sums, count,
):  # fmt: skip
    """Add a tile that is moved or scaled to a row of the result."""
    w, v = shift[0] + inverse[0, 0] * z, shift[1] + inverse[1, 1] * y
    if not (-0.5 <= w < extent[0] - 0.5 and -0.5 <= v < extent[1] - 0.5):
        return
    a, fa = _located(w, extent[0], order)
    b, fb = _located(v, extent[1], order)
    lines = _lines(begin, box, a, b, fa, fb)
    weight = _weight(w, extent[0], blending, width[0])
    weight *= _weight(v, extent[1], blending, width[1])
    for x in range(max(0, bounds[0] - x0), min(count.size, bounds[1] - x0)):
        u = places[x]
        if u < 0.0 or (blending == 4 and count[x]):
            continue
        c = np.int64(u)
        value = _value(data, lines, c, fa, fb, u - c) * gain + offset
        _add(value, weight * factors[x], x, blending, sums, count)


@row_kernel
def _add_row(
    data, begin, box, bounds, inverse, shift, extent, gain, offset, z, y, x0, order, blending,
    width, sums, count,
):  # fmt: skip
    """Add any tile to a row of the result."""
    nz, ny, nx = extent
    uz = inverse[0, 0] * z + inverse[0, 1] * y + shift[0]
    uy = inverse[1, 0] * z + inverse[1, 1] * y + shift[1]
    ux = inverse[2, 0] * z + inverse[2, 1] * y + shift[2]
    for x in range(max(0, bounds[0] - x0), min(count.size, bounds[1] - x0)):
        w, v, u = (
            uz + inverse[0, 2] * (x0 + x),
            uy + inverse[1, 2] * (x0 + x),
            ux + inverse[2, 2] * (x0 + x),
        )
        if not (-0.5 <= w < nz - 0.5 and -0.5 <= v < ny - 0.5 and -0.5 <= u < nx - 0.5):
            continue
        if blending == 4 and count[x]:
            continue
        a, fa = _located(w, nz, order)
        b, fb = _located(v, ny, order)
        c, fc = _located(u, nx, order)
        lines = _lines(begin, box, a, b, fa, fb)
        value = _value(data, lines, c, fa, fb, fc) * gain + offset
        weight = _weight(w, nz, blending, width[0]) * _weight(v, ny, blending, width[1])
        weight *= _weight(u, nx, blending, width[2])
        _add(value, weight, x, blending, sums, count)
