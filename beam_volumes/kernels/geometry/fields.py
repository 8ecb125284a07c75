"""Interpolation at positions from stored fields, as in scipy.ndimage.map_coordinates, or from splines."""

import numpy as np

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.elementary.exp_log import log_value
from beam_volumes.kernels.geometry.resample import away, place, tap
from beam_volumes.kernels.geometry.splines import affine_row, spline_weights
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import needs


@kernel
def at_field(
    src, fields, out, y0, y1, nx, start, shape, at, lead, extent, moved, relative, reach, taps, mode,
    cval, wrong, scratch,
):  # fmt: skip
    """The voxels at the positions in three ``fields``, or at distances from each voxel if ``relative``.

    Other parameters are described in `beam_volumes.kernels.geometry.resample.affine`.
    """
    # ``taps`` are 1 for the nearest voxel, or the order plus 1. Axes that are not ``moved`` have no field.
    # Positions are those in a volume of ``extent``, which begins at ``lead`` in ``shape``; voxels around it
    # are not computed. If a distance is not within ``reach``, ``wrong``, float64 (5,), becomes 1, the
    # position of this voxel in the volume, and its distance along the first such axis. The scratch is from
    # `beam_volumes.kernels.geometry.splines.scratch_around`.
    order, linear = taps.max() - 1, taps[0] == 2 and taps[1] == 2 and taps[2] == 2
    outside = away(cval, out.lines.dtype)
    weight, index, c, still, own, size, firsts = scratch
    weight[:] = 1.0
    still[:] = 0.0
    for i in range(3):
        size[i] = shape[i]
    # Where the volume's row 0 and column 0 would be in the flat ring, for each slice.
    width = src.lines.shape[1]
    for u in range(src.firsts.size):
        firsts[u] = (src.firsts[u] - start[1]) * width + src.left - start[2]
    voxels = src.lines.reshape(src.lines.size)
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            own[0], own[1] = at[0] + k - lead[0], at[1] + y - lead[1]
            for x in range(nx):
                row[x] = outside
                own[2] = at[2] + x - lead[2]
                is_known = True
                for i in range(3):
                    if not 0 <= own[i] < extent[i]:
                        is_known = False
                if not is_known:
                    continue
                for i in range(3):
                    c[i] = own[i]
                    if not moved[i]:
                        continue
                    field = fields[0] if i == 0 else fields[1] if i == 1 else fields[2]
                    there = field.lines[field.firsts[k] + y, field.left + x]
                    distance = there if relative else there - own[i]
                    if not abs(distance) <= reach[i]:
                        is_known = False
                        if wrong[0] == 0:
                            wrong[0], wrong[4] = 1, distance
                            for j in range(3):
                                wrong[1 + j] = own[j]
                    c[i] = own[i] + there if relative else there
                if not is_known:
                    continue
                for i in range(3):
                    c[i] += lead[i]
                if linear and (
                    0 <= c[0] < size[0] - 1 and 0 <= c[1] < size[1] - 1 and 0 <= c[2] < size[2] - 1
                ):
                    row[x] = away(_trilinear(voxels, firsts, width, start[0], c), row.dtype)
                    continue
                if order > 1:
                    affine_row(
                        voxels, firsts, width, start[0], row[x : x + 1], c, still, 0, size, taps, mode,
                        cval, outside, weight, index,
                    )  # fmt: skip
                    continue
                for i in range(3):
                    c[i] = place(c[i], size[i], mode)
                    if c[i] <= -1.0 and mode == 3:
                        is_known = False
                        break
                    first = np.int64(np.floor(c[i] if taps[i] == 2 else c[i] + 0.5))
                    for t in range(taps[i]):
                        index[i, t] = tap(first + t, size[i], mode)
                    weight[i, 0] = 1.0 - (c[i] - first) if taps[i] == 2 else 1.0
                    weight[i, 1] = 1.0 - weight[i, 0]
                if not is_known:
                    continue
                total = 0.0
                for a in range(taps[0]):
                    for b in range(taps[1]):
                        for d in range(taps[2]):
                            u, v, w = index[0, a], index[1, b], index[2, d]
                            is_inside = u >= 0 and v >= 0 and w >= 0
                            at_voxel = firsts[u - start[0]] + v * width + w if is_inside else 0
                            if order == 0:
                                if is_inside:
                                    row[x] = voxels[at_voxel]
                                continue
                            value = np.float64(voxels[at_voxel]) if is_inside else np.float64(cval)
                            total += value * weight[0, a] * weight[1, b] * weight[2, d]
                if order:
                    row[x] = away(total, row.dtype)
            if order:
                one_nan(row)


@row_kernel
def _trilinear(voxels, firsts, width, z0, c):
    """The mean of the eight voxels around a position inside, in the order of `at_field`."""
    z, y, x = np.floor(c[0]), np.floor(c[1]), np.floor(c[2])
    wz, wy, w0 = 1.0 - (c[0] - z), 1.0 - (c[1] - y), 1.0 - (c[2] - x)
    w1, total = 1.0 - w0, 0.0
    in_slice = np.int64(y) * width + np.int64(x)
    for a in range(2):
        at = np.uint64(firsts[np.uint64(np.int64(z) + a - z0)] + in_slice)
        below, wb = at + np.uint64(width), 1.0 - wy
        total += np.float64(voxels[at]) * wz * wy * w0
        total += np.float64(voxels[at + np.uint64(1)]) * wz * wy * w1
        total += np.float64(voxels[below]) * wz * wb * w0
        total += np.float64(voxels[below + np.uint64(1)]) * wz * wb * w1
        wz = 1.0 - wz
    return total


def _three_rows(rows, cols, depth, dtype, *parameters):
    return (((cols,), np.float64),) * 3


@needs(_three_rows)
@kernel
def thin_plates(out, y0, y1, nx, at, matrix, offset, points, weights, scratch):
    """The sum of ``weights * r**2 * log(r)``, where r is the distance from each of ``points``.

    Voxel u of the volume is at ``matrix @ u + offset``; ``out`` begins at voxel ``at``.
    """
    total, cross, squares = scratch
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            _plates_row(
                total, cross, squares, at[0] + k, at[1] + y, at[2], matrix, offset, points, weights
            )
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for x in range(nx):
                row[x] = total[x]


@row_kernel
def _plates_row(total, along, squares, z, y, x0, matrix, offset, points, weights):
    total[:] = 0.0
    for n in range(len(weights)):
        squares[:] = 0.0
        for a in range(3):
            start = matrix[a, 0] * z + matrix[a, 1] * y + offset[a] - points[n, a]
            step = matrix[a, 2]
            for x in range(total.size):
                along[x] = step * np.float64(x0 + x) + start
            for x in range(total.size):
                squares[x] += along[x] * along[x]
        weight = 0.5 * weights[n]
        for x in range(total.size):
            square = squares[x]
            total[x] += weight * square * log_value(square if square > 0.0 else 1.0)


def scratch_of_nodes(cols, columns):
    """The scratch of `deformed_plane` for this number of columns of voxels and of nodes."""
    weights = ((cols, 4), np.float64), ((4,), np.float64), ((2, columns), np.float64)
    return ((cols,), np.int64), *weights


@kernel
def deformed_plane(
    src, out, y0, y1, nx, start, shape, at, matrix, offset, nodes, first, step, nearest, edge, cval, scratch
):  # fmt: skip
    """The voxels of a slice at ``matrix @ (position + displacement) + offset``, float64.

    ``nodes`` are coefficients of cubic B-splines, (2, rows, columns). Displacements outside are constant.
    """
    # ``src`` and ``out`` have one slice. Coefficients surround the nodes by one on each side. The first node
    # is at ``first``, and the next ones follow in distances of ``step``. Voxels outside are ``cval``, or the
    # nearest voxel of the ``edge``.
    outside, height, width = away(cval, out.lines.dtype), shape[1], shape[2]
    along, weights, across, rows = scratch
    for x in range(nx):
        along[x] = _spline_at(at[2] + x, first[1], step[1], nodes.shape[2], weights[x])
    for y in range(y0, y1):
        row = out.lines[out.firsts[0] + y, out.left : out.left + nx]
        begin = _spline_at(at[1] + y, first[0], step[0], nodes.shape[1], across)
        for a in range(2):
            for n in range(nodes.shape[2]):
                total = 0.0
                for t in range(4):
                    total += across[t] * nodes[a, begin + t, n]
                rows[a, n] = total
        for x in range(nx):
            own_y, own_x = np.float64(at[1] + y), np.float64(at[2] + x)
            by_y, by_x = 0.0, 0.0
            for t in range(4):
                by_y += weights[x, t] * rows[0, along[x] + t]
                by_x += weights[x, t] * rows[1, along[x] + t]
            own_y, own_x = own_y + by_y, own_x + by_x
            v = matrix[0, 0] * own_y + matrix[0, 1] * own_x + offset[0]
            w = matrix[1, 0] * own_y + matrix[1, 1] * own_x + offset[1]
            if not (0 <= v <= height - 1 and 0 <= w <= width - 1):
                if not edge:
                    row[x] = outside
                    continue
                v, w = min(max(v, 0.0), height - 1.0), min(max(w, 0.0), width - 1.0)
            line = src.firsts[0] - start[1]
            left = src.left - start[2]
            if nearest:
                row[x] = src.lines[line + np.int64(v + 0.5), left + np.int64(w + 0.5)]
                continue
            i, j = np.int64(v), np.int64(w)
            v, w = v - i, w - j
            # Voxels of weight 0 may be outside of ``src``, or NaN.
            i1, j1 = i + 1 if v > 0 else i, j + 1 if w > 0 else j
            upper, lower = src.lines[line + i], src.lines[line + i1]
            value = np.float64(upper[left + j]) * (1.0 - v) * (1.0 - w)
            value += np.float64(upper[left + j1]) * (1.0 - v) * w
            value += np.float64(lower[left + j]) * v * (1.0 - w)
            value += np.float64(lower[left + j1]) * v * w
            row[x] = away(value, row.dtype)
        if not nearest:
            one_nan(row)


@row_kernel
def _spline_at(position, first, step, count, weights):
    """The first of four coefficients at a position, which is moved to the nodes, and their weights."""
    c = min(max((position - first) / step, 0.0), count - 3.0)
    begin = min(np.int64(c), max(count - 4, 0))
    spline_weights(c - begin, 3, weights)
    return begin
