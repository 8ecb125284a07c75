"""Neighbours, lengths and ends of the branches of skeletons.

The code of a voxel has a bit for each of the 27 voxels around it that has its label. Neighbour
``(dz, dy, dx)`` of a voxel has bit ``13 + 9 * dz + 3 * dy + dx``. Bit 13 is the voxel itself, so background
is 0. A voxel with more than two neighbours is a junction, which bit `JUNCTION` marks. All other voxels of a
skeleton belong to branches.
"""

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel

JUNCTION = 27
#: Added to the positions of voxels that are no ends.
INSIDE = 1 << 62


@kernel
def codes(labels, out, y0, y1, nx):
    """The code of each voxel, uint32; ``labels`` have a margin of one voxel."""
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            _codes_of_row(labels.lines, labels.firsts, labels.left, k, y, row)


@row_kernel
def _codes_of_row(lines, firsts, left, k, y, row):
    own = lines[firsts[k + 1] + y + 1, left + 1 :]
    for x in range(row.size):
        code = 0
        if own[x]:
            count = -1
            for n in range(27):
                z, j, i = n // 9, n // 3 % 3, n % 3
                if lines[firsts[k + z] + y + j, left + x + i] == own[x]:
                    code |= 1 << n
                    count += 1
            code |= (count > 2) << JUNCTION
        row[x] = code


@kernel
def lengths(src, out, y0, y1, nx, halves):
    """The length of a branch at each of its voxels: half of each step in it, and whole steps to junctions.

    ``src`` are codes with a margin of one voxel. ``halves``, float64: half of the step to each neighbour.
    """
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            _lengths_of_row(src.lines, src.firsts, src.left, k, y, row, halves)


@row_kernel
def _lengths_of_row(lines, firsts, left, k, y, row, halves):
    own = lines[firsts[k + 1] + y + 1, left + 1 :]
    for x in range(row.size):
        length, code = 0.0, np.int64(own[x])
        if code and code < 1 << JUNCTION:
            for n in range(27):
                if code >> n & 1 and n != 13:
                    z, j, i = n // 9, n // 3 % 3, n % 3
                    other = np.int64(lines[firsts[k + z] + y + j, left + x + i])
                    length += halves[n] * (1 + (other >> JUNCTION))
        row[x] = length


@kernel
def ends(src, out, y0, y1, nx, start, shape, last):
    """The positions of ends of branches: linear indices plus one, int64.

    ``src`` are codes with a margin of one voxel. ``out`` begins at ``start`` in a volume of ``shape``.
    """
    # A branch ends at the next voxel of a junction, or at its own voxel with less than two neighbours.
    # If a voxel has two ends, the result is the first, or the ``last``. Voxels without ends are 0 for
    # ``last``, otherwise their own position plus `INSIDE`. Voxels of junctions are their own positions.
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            at = ((start[0] + k) * shape[1] + start[1] + y) * shape[2] + start[2] + 1
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            _ends_of_row(src.lines, src.firsts, src.left, k, y, row, at, shape, last)


@row_kernel
def _ends_of_row(lines, firsts, left, k, y, row, at, shape, last):
    own = lines[firsts[k + 1] + y + 1, left + 1 :]
    for x in range(row.size):
        code, position = np.int64(own[x]), np.int64(at + x)
        if code == 0 or code >> JUNCTION:
            row[x] = position if code else 0
            continue
        low, high, count = position + INSIDE, np.int64(0), 0
        for n in range(27):
            if code >> n & 1 and n != 13:
                count += 1
                z, j, i = n // 9, n // 3 % 3, n % 3
                if lines[firsts[k + z] + y + j, left + x + i] >> JUNCTION:
                    end = position + ((z - 1) * shape[1] + j - 1) * shape[2] + i - 1
                    low, high = min(low, end), max(high, end)
        if count < 2:
            low, high = min(low, position), max(high, position)
        row[x] = high if last else low
