"""Voxels that are at least as high as all their neighbours."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel

#: The state of a voxel: it has a higher neighbour; it has none; it has none, but an equally high neighbour
#: has.
BELOW, HIGHEST, SPOILT = np.uint8(0), np.uint8(1), np.uint8(2)


@kernel
def _is_highest(rows, k, i, j, at, shape, steps, lowest):
    """Whether a voxel, by row and column in the block with its halo, has no higher neighbour."""
    own = rows.lines[rows.firsts[k] + i, rows.left + j]
    if own != own:
        return False
    for n in range(steps.shape[0]):
        z, y, x = at[0] + steps[n, 0], at[1] + steps[n, 1], at[2] + steps[n, 2]
        if 0 <= z < shape[0] and 0 <= y < shape[1] and 0 <= x < shape[2]:
            line = rows.lines[rows.firsts[k + steps[n, 0]] + i + steps[n, 1]]
            other = line[rows.left + j + steps[n, 2]]
            if (other < own) if lowest else (other > own):
                return False
    return True


@row_kernel
def _highest_of_row(rows, result, k, i, left, at, shape, steps, lowest):
    """Write `HIGHEST` for voxels of a row without a higher neighbour, and `BELOW` for others."""
    own = rows.lines[rows.firsts[k] + i, left:]
    for x in range(result.size):
        result[x] = own[x] == own[x]
    for n in range(steps.shape[0]):
        z, y, step = at[0] + steps[n, 0], at[1] + steps[n, 1], steps[n, 2]
        if not (0 <= z < shape[0] and 0 <= y < shape[1]):
            continue
        first, last = max(0, -at[2] - step), min(result.size, shape[2] - at[2] - step)
        others = rows.lines[rows.firsts[k + steps[n, 0]] + i + steps[n, 1], left + step + first :]
        some, these = result[first:], own[first:]
        if lowest:
            for x in range(last - first):
                some[x] &= not others[x] < these[x]
        else:
            for x in range(last - first):
                some[x] &= not others[x] > these[x]


@kernel
def mark(rows, out, y0, y1, nx, start, shape, steps, margin, lowest, inside):
    """Write `BELOW`, `HIGHEST` or `SPOILT` for each voxel."""
    # ``rows`` has a margin of ``margin`` voxels along z, y and x. ``start`` is the position of the first
    # voxel of ``out`` in a volume of ``shape``. ``steps``, int64 (steps, 3), lead to the neighbours.
    # ``lowest`` inverts the comparison. ``inside``, bool per axis, means that voxels at the ends of the axis
    # are spoilt.
    for k in range(out.firsts.size):
        for i in range(y0, y1):
            row = out.lines[out.firsts[k] + i, out.left : out.left + nx]
            z, y, kk, ii = start[0] + k, start[1] + i, k + margin[0], i + margin[1]
            left = rows.left + margin[2]
            _highest_of_row(rows, row, kk, ii, left, (z, y, start[2]), shape, steps, lowest)
            for j in range(nx):
                if row[j] == BELOW:
                    continue
                x, jj = start[2] + j, j + margin[2]
                spoilt = (
                    (inside[0] and (z == 0 or z == shape[0] - 1))
                    or (inside[1] and (y == 0 or y == shape[1] - 1))
                    or (inside[2] and (x == 0 or x == shape[2] - 1))
                )
                own = rows.lines[rows.firsts[kk] + ii, rows.left + jj]
                for n in range(steps.shape[0]):
                    if spoilt:
                        break
                    a, b, c = z + steps[n, 0], y + steps[n, 1], x + steps[n, 2]
                    if not (0 <= a < shape[0] and 0 <= b < shape[1] and 0 <= c < shape[2]):
                        continue
                    p, q, r = kk + steps[n, 0], ii + steps[n, 1], jj + steps[n, 2]
                    if rows.lines[rows.firsts[p] + q, rows.left + r] == own:
                        spoilt = not _is_highest(rows, p, q, r, (a, b, c), shape, steps, lowest)
                row[j] = SPOILT if spoilt else HIGHEST
