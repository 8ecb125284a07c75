"""Fusion of overlapping tiles with voxels that are not valid, or weights of voxels.

See `beam_volumes.kernels.geometry.fusion`.

A position belongs to a tile if its nearest voxel is valid. It is interpolated between the valid voxels around
it. Weights also decrease to zero towards voxels that are not valid.
"""

import numpy as np

from beam_volumes.kernels.elementary.angles import cos_value
from beam_volumes.kernels.geometry.fusion import (
    _add,
    _finish,
    _lines,
    _located,
    _value,
    _weight,
    row_of_sums,
)
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import needs

#: The distance of a voxel to the nearest one that is not valid, from which its weight does not decrease.
FADE = 8
#: Added to weights of voxels: if all of them are 0, the other factors decide.
_TINY_WEIGHT = 1e-200


@kernel
def fade(near):
    """Replace ones of uint8 by the distance to the nearest zero, at most `FADE`: a sum of steps along axes.

    Voxels outside of the array are valid.
    """
    depth, rows, cols = near.shape
    for z in range(depth):
        for y in range(rows):
            for x in range(cols):
                if near[z, y, x] != 0:
                    d = np.uint8(FADE)
                    if z > 0:
                        d = min(d, np.uint8(near[z - 1, y, x] + 1))
                    if y > 0:
                        d = min(d, np.uint8(near[z, y - 1, x] + 1))
                    if x > 0:
                        d = min(d, np.uint8(near[z, y, x - 1] + 1))
                    near[z, y, x] = d
    for z in range(depth - 1, -1, -1):
        for y in range(rows - 1, -1, -1):
            for x in range(cols - 1, -1, -1):
                d = near[z, y, x]
                if z < depth - 1:
                    d = min(d, np.uint8(near[z + 1, y, x] + 1))
                if y < rows - 1:
                    d = min(d, np.uint8(near[z, y + 1, x] + 1))
                if x < cols - 1:
                    d = min(d, np.uint8(near[z, y, x + 1] + 1))
                near[z, y, x] = d


@kernel
def _faded(distance, blending):
    """The factor of a weight at a distance from voxels that are not valid."""
    if blending == 0:
        return distance / FADE
    if blending == 1:
        return 0.5 - 0.5 * cos_value(np.pi * (distance / FADE))
    return 1.0


@row_kernel
def _mean(data, near, lines, c, fa, fb, fc):
    """The mean of the valid voxels between which a position is, weighted as for interpolation."""
    total, weights = 0.0, 0.0
    for k in range(4):
        share = (fa if k >= 2 else 1.0 - fa) * (fb if k % 2 else 1.0 - fb)
        for i in range(2):
            w = share * (fc if i else 1.0 - fc)
            if w > 0.0 and near[lines[k] + c + i] != 0:
                total += w * np.float64(data[lines[k] + c + i])
                weights += w
    return total / weights


@row_kernel
def _add_row(
    data, near, content, begin, box, bounds, inverse, shift, extent, gain, offset, z, y, x0, order, blending,
    width, sums, count,
):  # fmt: skip
    """Add the valid voxels of a tile to a row of the result."""
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
        nearest = lines[(2 if fa >= 0.5 else 0) + (1 if fb >= 0.5 else 0)]
        if near[nearest + c + (1 if fc >= 0.5 else 0)] == 0:
            continue
        distance = _value(near, lines, c, fa, fb, fc)
        all_valid = True
        for k in range(4):
            if near[lines[k] + c] == 0 or (fc > 0.0 and near[lines[k] + c + 1] == 0):
                all_valid = False
        if all_valid:
            value = _value(data, lines, c, fa, fb, fc)
        else:
            value = _mean(data, near, lines, c, fa, fb, fc)
        weight = _weight(w, nz, blending, width[0]) * _weight(v, ny, blending, width[1])
        weight *= _weight(u, nx, blending, width[2])
        weight *= _faded(distance, blending)
        if content.size > 0:
            weight *= _value(content, lines, c, fa, fb, fc) + _TINY_WEIGHT
        _add(value * gain + offset, weight, x, blending, sums, count)


@needs(row_of_sums)
@kernel
def blend_valid(
    data, near, content, begins, boxes, bounds, inverse, shift, extent, gain, offset, start, order, blending,
    width, fill, out, scratch,
):  # fmt: skip
    """Blend valid voxels of tiles into a box of the result, with the parameters of `blend`.

    ``near`` has the result of `fade` for each voxel of ``data``. ``content`` has a factor of the weight for
    each voxel; without factors, it is empty.
    """
    depth, rows, _ = out.shape
    sums, count = scratch
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
                _add_row(
                    data, near, content, begins[t], boxes[t], bounds[t, 2], inverse[t], shift[t], extent[t],
                    gain[t], offset[t], z, y, start[2], order, blending, width[t],
                    sums, count,
                )  # fmt: skip
            _finish(sums, count, fill, out[k, r])
