"""Statistics of the values under a footprint, from a histogram."""

import math

import numpy as np

from beam_volumes.kernels.elementary.exp_log import exp_value
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.scratch import needs

#: Fractional bits of the sums of counts times their logarithms.
BITS = 32
#: The statistics; `local_rank` receives an index.
STATISTICS = (
    *("equalize", "geometric_mean", "gradient", "maximum", "mean", "median", "minimum", "modal"),
    *("noise_filter", "otsu", "pop", "subtract_mean", "sum", "threshold"),
)
_EQUALIZE, _GEOMETRIC_MEAN, _GRADIENT, _MAXIMUM, _MEAN, _MEDIAN, _MINIMUM = range(7)
_MODAL, _NOISE_FILTER, _OTSU, _POP, _SUBTRACT_MEAN, _SUM, _THRESHOLD = range(7, 14)


def _scratch(rows, cols, depth, dtype, runs, before, shape, bins, *parameters):
    # Counts of values, sums of adjacent ones, lines of the footprint, and sums of the histogram.
    shapes = (bins,), (math.isqrt(bins),), (len(runs), 3), (3,)
    return tuple((shape, np.int64) for shape in shapes)


@needs(_scratch)
@kernel
def local_rank(
    src, out, y0, y1, nx, runs, before, shape, bins, start, which, centre, shift, logs, scale, scratch
):  # fmt: skip
    """One of `STATISTICS` of the values under a footprint, without voxels outside of the volume.

    A histogram moves along each row. Its sums are integers, so they do not depend on where a row begins.
    Results wrap around in the dtype of ``out``.

    - ``src``: unsigned integers below ``bins``, ``1 << 2 * shift``. ``runs``, int64 (n, 4): the slice and the
      row of a run of the footprint, and its first column and the one after the last.
    - ``before``: the slices, rows and columns before the centre. ``start`` is the position of the first voxel
      of ``out`` in a volume of ``shape``.
    - ``centre``: 1 if the footprint contains its centre, otherwise 0.
    - ``logs``, int64: ``log(1 + value)`` times ``scale`` for each value, or zeros for other statistics.
    """
    counts, blocks, lines, sums = scratch
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            count = _lines_of(src.firsts, k, y, runs, before, start, shape, lines)
            left = src.left + before[2]
            own = src.lines[src.firsts[k + before[0]] + y + before[1], left : left + nx]
            _row(
                src.lines, src.left, own, out.lines[out.firsts[k] + y, out.left : out.left + nx],
                lines[:count], start[2] - before[2], shape[2], counts, blocks, sums,
                which, centre, shift, logs, scale,
            )  # fmt: skip


@row_kernel
def _row(
    voxels, left, own, row, lines, first, width, counts, blocks, sums, which, centre, shift, logs,
    scale,
):  # fmt: skip
    """One row; column x of a footprint at voxel i is at position ``first + i + x`` in the volume."""
    counts[:] = 0
    blocks[:] = 0
    sums[:] = 0
    for j in range(len(lines)):
        for x in range(lines[j, 1], lines[j, 2] - 1):
            if 0 <= first + x < width:
                _change(voxels[lines[j, 0], left + x], 1, counts, blocks, sums, shift, logs)
    for i in range(row.size):
        for j in range(len(lines)):
            x = i + lines[j, 2] - 1
            if 0 <= first + x < width:
                _change(voxels[lines[j, 0], left + x], 1, counts, blocks, sums, shift, logs)
        row[i] = _statistic(np.int64(own[i]), counts, blocks, sums, which, centre, shift, scale)
        for j in range(len(lines)):
            x = i + lines[j, 1]
            if 0 <= first + x < width:
                _change(voxels[lines[j, 0], left + x], -1, counts, blocks, sums, shift, logs)


@row_kernel
def _change(value, by, counts, blocks, sums, shift, logs):
    counts[value] += by
    blocks[value >> shift] += by
    sums[0] += by
    sums[1] += by * np.int64(value)
    sums[2] += by * logs[value]


@row_kernel
def _statistic(own, counts, blocks, sums, which, centre, shift, scale):
    total, last = sums[0], counts.size - 1
    if which == _NOISE_FILTER:
        # As in scikit-image, 0 and the last value limit the distance.
        if counts[own] > centre:
            return 0
        low = max(_at_most(own - 1, counts, blocks, shift), 0)
        return min(own - low, min(_at_least(own + 1, counts, blocks, shift), last) - own)
    if total == 0:
        return 0
    if which == _POP:
        return total
    if which == _SUM:
        return sums[1]
    if which == _MEAN:
        return sums[1] // total
    if which == _THRESHOLD:
        return np.int64(own * total > sums[1])
    if which == _SUBTRACT_MEAN:
        # Half of the difference plus `last // 2`, rounded towards 0.
        return max((own * total - sums[1] + (last - 1) * total) // (2 * total), 0)
    if which == _GEOMETRIC_MEAN:
        return np.int64(exp_value(sums[2] / (total * scale)) - 0.5)
    if which == _MINIMUM:
        return _at_least(np.int64(0), counts, blocks, shift)
    if which == _MAXIMUM:
        return _at_most(last, counts, blocks, shift)
    if which == _GRADIENT:
        low = _at_least(np.int64(0), counts, blocks, shift)
        return _at_most(last, counts, blocks, shift) - low
    if which == _EQUALIZE:
        return last * _count_to(own, counts, blocks, shift) // total
    if which == _MEDIAN:
        return _of_rank(total // 2, counts, blocks, shift)
    if which == _MODAL:
        return _mode(counts, blocks, shift)
    return _otsu(sums[1], total, counts, blocks, shift)


@row_kernel
def _at_least(value, counts, blocks, shift):
    """The first value from ``value`` on that occurs, or the number of values."""
    inside = (1 << shift) - 1
    while value < counts.size:
        if value & inside == 0 and blocks[value >> shift] == 0:
            value += inside + 1
        elif counts[value]:
            break
        else:
            value += 1
    return value


@row_kernel
def _at_most(value, counts, blocks, shift):
    """The last value up to ``value`` that occurs, or -1."""
    inside = (1 << shift) - 1
    while value >= 0:
        if value & inside == inside and blocks[value >> shift] == 0:
            value -= inside + 1
        elif counts[value]:
            break
        else:
            value -= 1
    return value


@row_kernel
def _count_to(value, counts, blocks, shift):
    """The number of voxels with at most this value."""
    block = value >> shift
    found = 0
    for k in range(block):
        found += blocks[k]
    for k in range(block << shift, value + 1):
        found += counts[k]
    return found


@row_kernel
def _of_rank(rank, counts, blocks, shift):
    """The value of a rank, which is below the number of voxels."""
    block = 0
    while blocks[block] <= rank:
        rank -= blocks[block]
        block += 1
    value = block << shift
    while counts[value] <= rank:
        rank -= counts[value]
        value += 1
    return value


@row_kernel
def _mode(counts, blocks, shift):
    """The lowest of the most frequent values."""
    largest = mode = 0
    for block in range(blocks.size):
        if blocks[block] > largest:
            for value in range(block << shift, (block + 1) << shift):
                if counts[value] > largest:
                    largest, mode = counts[value], value
    return mode


@row_kernel
def _otsu(sum_of_all, total, counts, blocks, shift):
    """The value that best divides the histogram into two classes; it belongs to the lower one."""
    below, sum_below = counts[0], np.int64(0)
    best, threshold = 0.0, np.int64(0)
    value = _at_least(np.int64(1), counts, blocks, shift)
    while value < counts.size:
        below += counts[value]
        if below == total:
            break
        sum_below += value * counts[value]
        difference = np.float64((total - below) * sum_below - (sum_of_all - sum_below) * below)
        spread = difference * difference / np.float64(below * (total - below))
        if spread > best:
            best, threshold = spread, value
        value = _at_least(value + 1, counts, blocks, shift)
    return threshold


@needs(_scratch)
@kernel
def entropy(src, out, y0, y1, nx, runs, before, shape, bins, start, terms, logs, scratch):
    """The entropy of the values of voxels under a footprint, in bits.

    A histogram moves along each row. The sum of ``count * log2(count)`` is an integer, so it does not depend
    on where a row begins. Voxels outside of the volume do not count.

    - ``src``: unsigned integers below ``bins``. ``runs``, int64 (n, 4): the slice and the row of a run of the
      footprint, and its first column and the one after the last.
    - ``before``: the slices, rows and columns before the centre. ``start`` is the position of the first voxel
      of ``out`` in a volume of ``shape``.
    - ``terms``, int64: ``n * log2(n)`` times ``2 ** BITS`` for each n; ``logs``, float64: ``log2(n)``.
    """
    counts, _, lines, sums = scratch
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            count = _lines_of(src.firsts, k, y, runs, before, start, shape, lines)
            _entropy_row(
                src.lines, src.left, out.lines[out.firsts[k] + y, out.left : out.left + nx],
                lines[:count], start[2] - before[2], shape[2], counts, sums, terms, logs,
            )  # fmt: skip


@row_kernel
def _entropy_row(voxels, left, row, lines, first, width, counts, sums, terms, logs):
    """One row; column x of a footprint at voxel i is at position ``first + i + x`` in the volume."""
    counts[:] = 0
    sums[:] = 0
    for j in range(len(lines)):
        for x in range(lines[j, 1], lines[j, 2] - 1):
            if 0 <= first + x < width:
                _change_terms(voxels[lines[j, 0], left + x], 1, counts, sums, terms)
    for i in range(row.size):
        for j in range(len(lines)):
            x = i + lines[j, 2] - 1
            if 0 <= first + x < width:
                _change_terms(voxels[lines[j, 0], left + x], 1, counts, sums, terms)
        total = sums[0]
        is_one = sums[1] == terms[total]  # all voxels have one value
        row[i] = 0.0 if is_one else logs[total] - sums[1] / (total * 2.0**BITS)
        for j in range(len(lines)):
            x = i + lines[j, 1]
            if 0 <= first + x < width:
                _change_terms(voxels[lines[j, 0], left + x], -1, counts, sums, terms)


@row_kernel
def _change_terms(value, by, counts, sums, terms):
    count = counts[value]
    counts[value] = count + by
    sums[0] += by
    sums[1] += terms[count + by] - terms[count]


@row_kernel
def _lines_of(firsts, k, y, runs, before, start, shape, lines):
    """Write the runs of a footprint that are in the volume: row, and columns. Return their number."""
    count = 0
    for run in runs:
        z, row = start[0] + k + run[0] - before[0], start[1] + y + run[1] - before[1]
        if 0 <= z < shape[0] and 0 <= row < shape[1]:
            lines[count, 0] = firsts[k + run[0]] + y + run[1]
            lines[count, 1], lines[count, 2] = run[2], run[3]
            count += 1
    return count
