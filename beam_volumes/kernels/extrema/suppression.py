"""Edges as thin lines: voxels with a greater gradient than their neighbours across the edge."""

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import needs


def _scratch(rows, cols, depth, dtype):
    return *[((3,), dtype)] * 2, *[((3,), np.int64)] * 2


@needs(_scratch)
@kernel
def suppress(magnitude, slopes, out, y0, y1, nx, start, shape, thin, low, scratch):
    """The magnitude of a gradient where it is a maximum along its direction and at least ``low``, or 0."""
    # It is compared with both neighbours in the direction of the gradient, at distance 1 along its largest
    # component, and interpolated linearly along the others. ``slopes`` are the components along the axes z,
    # y, x where ``thin`` is 1; along these, the outer voxels of the volume are 0. ``magnitude`` has one more
    # voxel on each side, along all axes. All have the type of ``out``. ``start`` is the position of the first
    # voxel.
    own, sizes, steps, axes = scratch
    n = 0
    for axis in range(3):
        if thin[axis]:
            axes[n] = axis
            n += 1
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            _row(
                magnitude, slopes, out, k, y, nx, start, shape, thin, low, axes[:n], steps, own, sizes
            )  # fmt: skip


@row_kernel
def _row(magnitude, slopes, out, k, y, nx, start, shape, thin, low, axes, steps, own, sizes):
    lines, firsts, left = magnitude
    result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
    centre = lines[firsts[k + 1] + y + 1, left + 1 : left + 1 + nx]
    at_z, at_y = start[0] + k, start[1] + y
    outer = (thin[0] and (at_z == 0 or at_z == shape[0] - 1)) or (
        thin[1] and (at_y == 0 or at_y == shape[1] - 1)
    )
    for x in range(nx):
        result[x] = 0
    if outer:
        return
    for x in range(nx):
        at_x = start[2] + x
        if thin[2] and (at_x == 0 or at_x == shape[2] - 1):
            continue
        m = centre[x]
        if not (m > 0 and m >= low):
            continue
        best = 0
        for i in range(axes.size):
            slope = slopes[i]
            own[i] = slope.lines[slope.firsts[k] + y, slope.left + x]
            sizes[i] = abs(own[i])
            if sizes[i] > sizes[best]:
                best = i
        is_greatest = True
        for side in range(2):
            total = 0 * m
            for corner in range(1 << axes.size):
                if not corner >> best & 1:
                    continue  # one step along the largest component
                weight = m / m
                steps[0], steps[1], steps[2] = 0, 0, 0
                for i in range(axes.size):
                    moved = corner >> i & 1
                    if i != best:
                        share = sizes[i] / sizes[best]
                        weight *= share if moved else 1 - share
                    if moved:
                        steps[axes[i]] = 1 if (own[i] > 0) == (side == 0) else -1
                line = lines[firsts[k + 1 + steps[0]] + y + 1 + steps[1]]
                total += weight * line[left + 1 + x + steps[2]]
            is_greatest = is_greatest and total <= m
        if is_greatest:
            result[x] = m
