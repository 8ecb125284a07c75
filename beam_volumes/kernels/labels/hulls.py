"""Convex hulls of labels: candidates of vertices, and the voxels in a hull."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.labels.regions import _slot
from beam_volumes.kernels.rows import strided


def slice_corners(
    labels: np.ndarray, box: np.ndarray, keys: np.ndarray, place: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The vertices of the hull of each label in each slice: their labels' rows, and z, y, x (int64).

    ``box`` has the bounding boxes of the labels in the block. Results are sorted by slice.
    """
    has_voxels = box[:, 3] > box[:, 0]
    heights = np.where(has_voxels, box[:, 4] - box[:, 1], 0)
    starts = np.concatenate([[0], np.cumsum(heights)])
    low, high = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64)
    stack = np.empty((int(heights.max(initial=0)) + 1, 2), np.int64)
    parts = [
        _corners_of_slice(strided(labels[z]), labels.shape[1:], z, box, keys, place, starts, low, high, stack)
        for z in range(labels.shape[0])
    ]  # fmt: skip
    found = np.concatenate([np.zeros((0, 4), np.int64), *parts])
    return found[:, 0], found[:, 1:]


@row_kernel
def _row_ends(labels, shape, keys, place, box, starts, low, high):
    """Write the first and last column of each label in each row of its box."""
    flat, _, step_y = labels
    ny, nx = shape
    low[:] = nx
    high[:] = -1
    for y in range(ny):
        row = flat[y * step_y : y * step_y + nx]
        end = np.int64(0)
        while end < nx:
            start = end
            label = row[start]
            end += 1
            while end < nx and row[end] == label:
                end += 1
            if label != 0:
                i = place[_slot(keys, np.uint64(label))]
                at = starts[i] + y - box[i, 1]
                low[at] = min(low[at], start)
                high[at] = max(high[at], end - 1)


@row_kernel
def _chain(ends, y0, sign, stack):
    """The vertices of one side of a polygon with a column for each row; returns their number."""
    n = 0
    for k in range(ends.size):
        x = sign * ends[k]
        y = y0 + k
        if ends[k] < 0 or (sign > 0 and ends[k] == np.int64(1) << 40):
            continue
        while n >= 2:
            dy, dx = stack[n - 1, 0] - stack[n - 2, 0], stack[n - 1, 1] - stack[n - 2, 1]
            if dy * (x - stack[n - 2, 1]) - dx * (y - stack[n - 2, 0]) > 0:
                break
            n -= 1
        stack[n, 0] = y
        stack[n, 1] = x
        n += 1
    return n


@kernel
def _corners_of_slice(labels, shape, z, box, keys, place, starts, low, high, stack):
    _row_ends(labels, shape, keys, place, box, starts, low, high)
    for k in range(low.size):
        if high[k] < 0:
            low[k] = np.int64(1) << 40
    total = 0
    for turn in range(2):
        if turn == 1:
            found = np.empty((total, 4), np.int64)
            total = 0
        for i in range(starts.size - 1):
            for side in range(2):
                ends = (low if side == 0 else high)[starts[i] : starts[i + 1]]
                sign = 1 if side == 0 else -1
                n = _chain(ends, box[i, 1], np.int64(sign), stack)
                if turn == 1:
                    for k in range(n):
                        found[total + k, 0] = i
                        found[total + k, 1] = z
                        found[total + k, 2] = stack[k, 0]
                        found[total + k, 3] = sign * stack[k, 1]
                total += n
    return found


@kernel
def rows_inside(faces, shape, tolerance):
    """The first and last column in a hull for each row of a box, int64 (rows, 4): z, y, first, last."""
    # ``faces`` are half-spaces: normals along z, y, x, and an offset; voxels within have values of at most
    # ``tolerance``.
    nz, ny, nx = shape
    found = np.empty((nz * ny, 4), np.int64)
    n = 0
    for z in range(nz):
        for y in range(ny):
            low, high = 0.0, nx - 1.0
            for f in range(faces.shape[0]):
                rest = tolerance - faces[f, 0] * z - faces[f, 1] * y - faces[f, 3]
                across = faces[f, 2]
                if across > 1e-14:
                    high = min(high, rest / across)
                elif across < -1e-14:
                    low = max(low, rest / across)
                elif rest < 0:
                    high = -1.0
            first, last = np.int64(np.ceil(low)), np.int64(np.floor(high))
            if first <= last:
                found[n, 0] = z
                found[n, 1] = y
                found[n, 2] = first
                found[n, 3] = last
                n += 1
    return found[:n]


@kernel
def farthest(points):
    """The largest squared distance of two points."""
    largest = 0.0
    for i in range(points.shape[0]):
        for j in range(i):
            total = 0.0
            for a in range(points.shape[1]):
                step = points[i, a] - points[j, a]
                total += step * step
            largest = max(largest, total)
    return largest
