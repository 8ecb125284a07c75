"""Medians that are faster than `beam_volumes.kernels.filters.rank.rank_footprint`."""

import numpy as np

from beam_volumes.kernels.filters._median_network import median_of_sorted
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import (
    as_bytes,
    count_negative,
    has_unordered,
    mark_nan,
    order_zeros,
    write_nan,
)
from beam_volumes.kernels.scratch import needs, stored


@row_kernel
def _sort_three(a, b, c, low, middle, high):
    for x in range(low.size):
        p, q, r = a[x], b[x], c[x]
        l, h = p if p < q else q, q if p < q else p
        m = h if h < r else r
        low[x] = l if l < m else m
        middle[x] = m if l < m else l
        high[x] = r if h < r else h


def _scratch(rows, cols, depth, dtype):
    # Ranks over z, rank i of row r at 3 (r % 3) + i, and over z and y. NaN, -0.0 of row r at r % 3.
    ranks = (((9, cols + 2), stored(dtype)),) * 2
    return *ranks, ((2, 3), np.bool_), ((cols,), np.bool_), ((cols,), np.uint8)


@needs(_scratch)
@kernel
def median3(src, out, y0, y1, nx, scratch):
    """Median over 3 x 3 x 3, of any type."""
    # Each voxel column of three slices is sorted once, then each three rows of these; neighbouring medians
    # share both. The median of the sorted block takes a short network of minima and maxima
    # (`beam_volumes.kernels.filters._median_network`), without branches, so it vectorizes: about 140 per
    # voxel and vector. Results with a NaN, and signs of zeros next to a -0.0, are corrected afterwards, since
    # minima and maxima do not order them.
    by_z, by_zy, unordered, flags, negative = scratch
    _medians(as_bytes(src), as_bytes(out), y0, y1, by_z, by_zy, unordered, flags, negative)


@row_kernel
def _medians(src, out, y0, y1, by_z, by_zy, unordered, flags, negative):
    lines, firsts, left = src
    nx, width = flags.size, flags.size + 2
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            for r in range(y if y == y0 else y + 2, y + 3):
                a = lines[firsts[k] + r, left : left + width]
                b = lines[firsts[k + 1] + r, left : left + width]
                c = lines[firsts[k + 2] + r, left : left + width]
                i = 3 * (r % 3)
                _sort_three(a, b, c, by_z[i], by_z[i + 1], by_z[i + 2])
                in_a, in_b, in_c = has_unordered(a), has_unordered(b), has_unordered(c)
                for j in range(2):
                    unordered[j, r % 3] = in_a[j] or in_b[j] or in_c[j]
            for i in range(3):
                j = 3 * i
                _sort_three(by_z[i], by_z[3 + i], by_z[6 + i], by_zy[j], by_zy[j + 1], by_zy[j + 2])
            result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            median_of_sorted(by_zy, result)
            if unordered[1, 0] or unordered[1, 1] or unordered[1, 2]:
                negative[:] = 0
                for t in range(27):
                    row = lines[firsts[k + t // 9] + y + t // 3 % 3]
                    count_negative(row[left + t % 3 :], negative)
                order_zeros(result, negative, 13)
            if unordered[0, 0] or unordered[0, 1] or unordered[0, 2]:
                flags[:] = False
                for t in range(27):
                    row = lines[firsts[k + t // 9] + y + t // 3 % 3]
                    mark_nan(row[left + t % 3 :], flags)
                write_nan(flags, result)
