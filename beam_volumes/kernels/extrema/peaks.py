"""Voxels that are at least as high as all voxels around them, in their label or at neighbouring scales."""

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel


@kernel
def label_peaks(image, labels, out, y0, y1, nx, steps, near, margin):
    """Whether a voxel has a label, and no neighbour with this label is higher or NaN."""
    # ``steps``, int64 (steps, 3), lead to the neighbours, and ``margin`` voxels are before the first one of
    # ``image`` and ``labels`` along z, y and x. The first ``near`` steps exclude most voxels.
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            _row(image, labels, out, k, y, nx, steps[:near], margin)
            result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for x in range(nx):
                if result[x]:
                    result[x] = _is_peak(image, labels, k, y, x, steps[near:], margin)


@row_kernel
def _is_peak(image, labels, k, y, x, steps, margin):
    z, row, at = k + margin[0], y + margin[1], x + margin[2]
    own = image.lines[image.firsts[z] + row, image.left + at]
    name = labels.lines[labels.firsts[z] + row, labels.left + at]
    for n in range(steps.shape[0]):
        i, j, shift = z + steps[n, 0], row + steps[n, 1], at + steps[n, 2]
        if (
            labels.lines[labels.firsts[i] + j, labels.left + shift] == name
            and not image.lines[image.firsts[i] + j, image.left + shift] <= own
        ):
            return False
    return True


@row_kernel
def _row(image, labels, out, k, y, nx, steps, margin):
    result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
    at = margin[2]
    own = image.lines[image.firsts[k + margin[0]] + y + margin[1], image.left + at :]
    name = labels.lines[labels.firsts[k + margin[0]] + y + margin[1], labels.left + at :]
    for x in range(nx):
        result[x] = name[x] != np.uint64(0) and own[x] == own[x]
    for n in range(steps.shape[0]):
        z, row, shift = k + margin[0] + steps[n, 0], y + margin[1] + steps[n, 1], at + steps[n, 2]
        others = image.lines[image.firsts[z] + row, image.left + shift :]
        names = labels.lines[labels.firsts[z] + row, labels.left + shift :]
        for x in range(nx):
            result[x] &= names[x] != name[x] or others[x] <= own[x]


@kernel
def scale_peaks(scales, out, y0, y1, nx, start, shape, border, level):
    """The linear index plus one of voxels above ``level`` with no higher one or NaN around; 0 elsewhere."""
    # ``scales`` are responses at the scale before, the voxel's own and the one after, with one more voxel on
    # each side along all axes. Voxels around are the 3 x 3 x 3 of each. ``start`` is the position of the
    # first voxel in a volume of ``shape``; peaks are at least ``border`` voxels from its ends.
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            at = ((start[0] + k) * shape[1] + start[1] + y) * shape[2] + start[2]
            z_inside = border[0] <= start[0] + k < shape[0] - border[0]
            inside = z_inside and border[1] <= start[1] + y < shape[1] - border[1]
            result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for x in range(nx):
                result[x] = 0
            if inside:
                first = max(0, border[2] - start[2])
                last = min(nx, shape[2] - border[2] - start[2])
                _peaks_of_row(scales, result, k, y, first, last, at, level)


@row_kernel
def _peaks_of_row(scales, result, k, y, first, last, at, level):
    lines, firsts, left = scales[1]
    own = lines[firsts[k + 1] + y + 1, left:]
    for x in range(first, last):
        v = own[x + 1]
        if not (v > level and v >= own[x] and v >= own[x + 2]):
            continue
        if _is_highest(scales, k, y, x, v):
            result[x] = np.uint64(at + x + 1)


@row_kernel
def _is_highest(scales, k, y, x, v):
    for n in (1, 0, 2):
        lines, firsts, left = scales[n]
        for j in range(3):
            for i in range(3):
                row = lines[firsts[k + j] + y + i]
                a, b, c = row[left + x], row[left + x + 1], row[left + x + 2]
                if not (v >= a and v >= b and v >= c):
                    return False
    return True
