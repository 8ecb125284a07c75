"""Counts of pairs of labels in two blocks."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import copy_row, strided

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@row_kernel
def _slot(keys, counts, a, b):
    """The slot of a pair, or the free slot for it; free slots have a count of 0."""
    last = keys.shape[0] - 1
    mixed = (a * _MULTIPLIER) ^ (b + (a >> np.uint64(7)))
    i = np.int64((mixed * _MULTIPLIER) >> np.uint64(20)) & last
    while counts[i] != 0 and (keys[i, 0] != a or keys[i, 1] != b):
        i = (i + 1) & last
    return i


@kernel
def _grown(keys, counts):
    bigger = np.zeros((4 * keys.shape[0], 2), np.uint64)
    more = np.zeros(4 * keys.shape[0], np.int64)
    for i in range(keys.shape[0]):
        if counts[i]:
            at = _slot(bigger, more, keys[i, 0], keys[i, 1])
            bigger[at] = keys[i]
            more[at] = counts[i]
    return bigger, more


@row_kernel
def _count_some(row, other, start, keys, counts, used):
    """Count from ``start`` on; return where it stopped, at the latest when the table is half full."""
    end = start
    while end < row.size:
        begin, a, b = end, row[end], other[end]
        end += 1
        while end < row.size and row[end] == a and other[end] == b:
            end += 1
        i = _slot(keys, counts, a, b)
        if counts[i] == 0:
            keys[i, 0] = a
            keys[i, 1] = b
            used += 1
        counts[i] += end - begin
        if 2 * used > keys.shape[0]:
            break
    return end, used


@kernel
def _count(labels, others, shape):
    # Rows are compared as uint64, so the rest is compiled once.
    flat, step_z, step_y = labels
    flat_other, next_z, next_y = others
    nz, ny, nx = shape
    row, other = np.empty(nx, np.uint64), np.empty(nx, np.uint64)
    keys, counts, used = np.zeros((1024, 2), np.uint64), np.zeros(1024, np.int64), 0
    for z in range(nz):
        for y in range(ny):
            at, there = z * step_z + y * step_y, z * next_z + y * next_y
            copy_row(flat[at : at + nx], row)
            copy_row(flat_other[there : there + nx], other)
            end = 0
            while end < nx:
                end, used = _count_some(row, other, end, keys, counts, used)
                if 2 * used > keys.shape[0]:
                    keys, counts = _grown(keys, counts)
    return keys, counts


def count_labels(labels: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct pairs of labels of two blocks (uint64, two columns, unsorted), and their voxel counts.

    >>> a, b = np.array([[[1, 1, 0]]], "u1"), np.array([[[5, 5, 7]]], "u2")
    >>> count_labels(a, b)
    (array([[1, 5],
           [0, 7]], dtype=uint64), array([2, 1]))
    """
    keys, counts = _count(strided(labels), strided(others), labels.shape)
    some = counts > 0
    return keys[some], counts[some]
