"""Correlation with any kernel."""

import numpy as np

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.filters.weighted_sum import GENERAL, rounded_sum
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import as_bytes


@kernel
def correlate_nd(src, out, y0, y1, nx, offsets, weights):
    """Sum of ``weights[i]`` times the tap at ``offsets[i]``, in the order listed.

    Any input type; ``out`` is written by `beam_volumes.kernels.casting.rounded`.
    ``offsets``, int64 (n, 3): taps tz, ty, tx, none negative: those with a weight, in raster order.
    ``weights``, (n,) of float32 or float64: their type is the one computed in.
    ``n`` multiply-adds a voxel over the vector width. Scratch: one row.
    """
    lines, pitch = as_bytes(src).lines, src.lines.shape[1]
    firsts = src.firsts * pitch + src.left
    within = offsets[:, 1] * pitch + offsets[:, 2]
    _correlate_rows(
        lines.reshape(lines.size), firsts, pitch, out, y0, y1, np.empty(nx, weights.dtype),
        offsets[:, 0].copy(), within, weights, np.empty(weights.size, np.int64),
    )  # fmt: skip


@row_kernel
def _correlate_rows(voxels, firsts, pitch, out, y0, y1, sums, slices, within, weights, starts):
    """Tap ``i`` is ``within[i]`` voxels from the first of slice ``slices[i]``, which is at ``firsts``."""
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            target = out.lines[out.firsts[k] + y, out.left : out.left + sums.size]
            if weights.size == 0:
                sums[:] = 0
                cast_rounded(sums, target)
            else:
                for i in range(weights.size):
                    starts[i] = firsts[k + slices[i]] + y * pitch + within[i]
                rounded_sum(voxels, starts, weights, GENERAL, sums, target)
