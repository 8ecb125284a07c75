"""Thin-plate splines at the voxels of a grid."""

import numpy as np

from beam_volumes.kernels.elementary.exp_log import log_value
from beam_volumes.kernels.jit import kernel, row_kernel


@kernel
def thin_plates(out, y0, y1, nx, at, matrix, offset, points, weights):
    """The sum of ``weights * r**2 * log(r)``, where r is the distance from each of ``points``.

    Voxel u of the volume is at ``matrix @ u + offset``; ``out`` begins at voxel ``at``. Scratch: 3 rows.
    """
    total, cross, squares = np.empty(nx), np.empty(nx), np.empty(nx)
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            _row(
                total, cross, squares, at[0] + k, at[1] + y, at[2], matrix, offset, points, weights
            )
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for x in range(nx):
                row[x] = total[x]


@row_kernel
def _row(total, along, squares, z, y, x0, matrix, offset, points, weights):
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
