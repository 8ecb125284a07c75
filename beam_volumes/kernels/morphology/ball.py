"""Binary morphology with a ball: whether a set voxel is within a radius.

Squared distances are clipped beyond the radius, so they fit one or two bytes, and computed axis by axis as in
`beam_volumes.kernels.morphology.distance`. This takes a few operations on vectors of small integers for each
row within the radius, where a footprint takes the cube of the radius.
"""

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.morphology.distance import any_above, copy, lower_by_four
from beam_volumes.kernels.rows import as_bytes
from beam_volumes.kernels.scratch import needs

#: Rows of a tile, which fits a cache, unless the ball is larger.
TILE_ROWS = 32


def _scratch(rows, cols, depth, dtype, radii, steps, limit, is_dilation):
    rz, ry, rx = radii.tolist()
    high, wide = min(rows, max(TILE_ROWS, 2 * ry)) + 2 * ry, cols + 2 * rx
    # Slices to the nearest set voxel, clipped, for each slice of a tile; and squares.
    near, flags = ((depth + 2 * rz, high, wide), np.uint8), ((high,), np.bool_)
    return near, flags, *(((n, wide), steps.dtype) for n in (high, 2))


@needs(_scratch)
@kernel
def binary_ball(src, out, y0, y1, nx, radii, steps, limit, is_dilation, scratch):
    """Whether any (dilation) or all (erosion) of the voxels in a ball or ellipsoid are set."""
    # ``src`` is bool or uint8 (nonzero is set), with a margin of ``radii`` voxels; ``out`` is bool or uint8
    # with 0 and 1. ``radii``, int64 (3,), along z, y, x are below 254. ``steps``, uint8 or uint16 (3, n), are
    # the squared lengths of 0, 1, ... voxels along each axis, up to the radius, in a dtype that holds ``2 *
    # limit + 1``. ``limit`` is the largest squared distance inside the ball.
    near, some, squared, lines = scratch
    tile = some.size - 2 * radii[1]
    for top in range(y0, y1, tile):
        _tile(
            as_bytes(src), as_bytes(out), top, min(top + tile, y1), nx, radii, steps, limit, is_dilation,
            near, some, squared, lines[0], lines[1, :nx],
        )  # fmt: skip


@kernel
def _tile(
    src, out, y0, y1, nx, radii, steps, limit, is_dilation, near, some, squared, best, middle
):  # fmt: skip
    rz, ry, rx = radii[0], radii[1], radii[2]
    inside, beyond = steps.dtype.type(limit), steps.dtype.type(limit + 1)
    none = np.uint8(rz + 1)
    rows, width = y1 - y0 + 2 * ry, best.size
    for k in range(src.firsts.size):
        for y in range(rows):
            voxels = src.lines[src.firsts[k] + y0 + y, src.left : src.left + width]
            if is_dilation:
                _set(voxels, near[k, y], none)
            else:
                _clear(voxels, near[k, y], none)
            if k:
                _one_more(near[k, y], near[k - 1, y])
    for k in range(src.firsts.size - 2, -1, -1):
        for y in range(rows):
            _one_more(near[k, y], near[k + 1, y])
    for k in range(out.firsts.size):
        for y in range(rows):
            some[y] = _squares(near[k + rz, y], squared[y], steps[0], none, beyond)
        for y in range(y1 - y0):
            at = y + ry
            copy(squared[at], best)
            for t in range(1, ry + 1, 2):
                if not any_above(best, steps[1, t]):
                    break
                u = min(t + 1, ry)
                if some[at - t] or some[at + t] or some[at - u] or some[at + u]:
                    lower_by_four(
                        best,
                        squared[at - t],
                        squared[at + t],
                        steps[1, t],
                        squared[at - u],
                        squared[at + u],
                        steps[1, u],
                    )
            copy(best[rx : rx + nx], middle)
            for t in range(1, rx + 1, 2):
                if not any_above(middle, steps[2, t]):
                    break
                u = min(t + 1, rx)
                lower_by_four(
                    middle,
                    best[rx - t : rx - t + nx],
                    best[rx + t : rx + t + nx],
                    steps[2, t],
                    best[rx - u : rx - u + nx],
                    best[rx + u : rx + u + nx],
                    steps[2, u],
                )
            result = out.lines[out.firsts[k] + y0 + y, out.left : out.left + nx]
            for x in range(nx):
                result[x] = (middle[x] <= inside) == is_dilation


@kernel
def _set(voxels, near, none):
    for x in range(near.size):
        near[x] = none if voxels[x] == 0 else np.uint8(0)


@kernel
def _clear(voxels, near, none):
    for x in range(near.size):
        near[x] = np.uint8(0) if voxels[x] == 0 else none


@kernel
def _one_more(near, neighbour):
    """Lower distances to at most one more than in a neighbouring slice."""
    for x in range(near.size):
        n, d = np.uint8(neighbour[x] + np.uint8(1)), near[x]
        near[x] = n if n < d else d


@kernel
def _squares(near, squared, steps, none, beyond):
    """The squares of one row, and whether one of them is within the ball."""
    some = False
    w = steps[1]
    for x in range(near.size):
        d = squared.dtype.type(near[x])
        square = squared.dtype.type(w * squared.dtype.type(d * d))
        squared[x] = square if near[x] != none else beyond
        some |= near[x] != none
    return some
