"""The entropy of the values under a footprint."""

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel

#: Fractional bits of the sums of counts times their logarithms.
BITS = 32


@kernel
def entropy(src, out, y0, y1, nx, runs, before, start, shape, bins, terms, logs):
    """The entropy of the values of voxels under a footprint, in bits.

    A histogram moves along each row. The sum of ``count * log2(count)`` is an integer, so it does not depend
    on where a row begins. Voxels outside of the volume do not count.

    - ``src``: unsigned integers below ``bins``. ``runs``, int64 (n, 4): the slice and the row of a run of the
      footprint, and its first column and the one after the last.
    - ``before``: the slices, rows and columns before the centre. ``start`` is the position of the first voxel
      of ``out`` in a volume of ``shape``.
    - ``terms``, int64: ``n * log2(n)`` times ``2 ** BITS`` for each n; ``logs``, float64: ``log2(n)``.
    """
    counts = np.zeros(bins, np.int64)
    lines = np.empty((len(runs), 3), np.int64)
    sums = np.zeros(2, np.int64)
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            count = 0
            for run in runs:
                z, row = start[0] + k + run[0] - before[0], start[1] + y + run[1] - before[1]
                if 0 <= z < shape[0] and 0 <= row < shape[1]:
                    lines[count, 0] = src.firsts[k + run[0]] + y + run[1]
                    lines[count, 1], lines[count, 2] = run[2], run[3]
                    count += 1
            _row(
                src.lines, src.left, out.lines[out.firsts[k] + y, out.left : out.left + nx],
                lines[:count], start[2] - before[2], shape[2], counts, sums, terms, logs,
            )  # fmt: skip


@row_kernel
def _row(voxels, left, row, lines, first, width, counts, sums, terms, logs):
    """One row; column x of a footprint at voxel i is at position ``first + i + x`` in the volume."""
    counts[:] = 0
    sums[:] = 0
    for j in range(len(lines)):
        for x in range(lines[j, 1], lines[j, 2] - 1):
            if 0 <= first + x < width:
                _change(voxels[lines[j, 0], left + x], 1, counts, sums, terms)
    for i in range(row.size):
        for j in range(len(lines)):
            x = i + lines[j, 2] - 1
            if 0 <= first + x < width:
                _change(voxels[lines[j, 0], left + x], 1, counts, sums, terms)
        total = sums[0]
        is_one = sums[1] == terms[total]  # all voxels have one value
        row[i] = 0.0 if is_one else logs[total] - sums[1] / (total * 2.0**BITS)
        for j in range(len(lines)):
            x = i + lines[j, 1]
            if 0 <= first + x < width:
                _change(voxels[lines[j, 0], left + x], -1, counts, sums, terms)


@row_kernel
def _change(value, by, counts, sums, terms):
    count = counts[value]
    counts[value] = count + by
    sums[0] += by
    sums[1] += terms[count + by] - terms[count]
