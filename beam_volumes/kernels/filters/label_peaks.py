"""Voxels that are at least as high as all voxels of their label around them."""

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel


@kernel
def label_peaks(image, labels, out, y0, y1, nx, steps, margin):
    """Whether a voxel has a label, and no neighbour with this label is higher or NaN.

    ``steps``, int64 (steps, 3), lead to the neighbours, and ``margin`` voxels are before the first one of
    ``image`` and ``labels`` along z, y and x.
    """
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            _row(image, labels, out, k, y, nx, steps, margin)


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
