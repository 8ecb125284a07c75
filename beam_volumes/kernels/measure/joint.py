"""Exact counts of pairs of voxels in a 2-D grid of bins."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.elementary.exp_log import flat_rows
from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.measure.accumulate import flat_mask
from beam_volumes.kernels.measure.histogram import bin_of


@kernel
def _count_pairs(a, pitch, rows, cols, mask, mask_pitch, b, b_pitch, edges, b_edges, counts):
    # halves, so the width of the full range of float64 does not overflow
    start, b_start = 0.5 * np.float64(edges[0]), 0.5 * np.float64(b_edges[0])
    scale = (len(edges) - 1) / (0.5 * np.float64(edges[-1]) - start)
    b_scale = (len(b_edges) - 1) / (0.5 * np.float64(b_edges[-1]) - b_start)
    bad = 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            i = bin_of(edges.dtype.type(a[y * pitch + x]), edges, start, scale)
            j = bin_of(b_edges.dtype.type(b[y * b_pitch + x]), b_edges, b_start, b_scale)
            if i == -2 or j == -2:
                bad += 1
            elif i >= 0 and j >= 0:
                counts[i, j] += 1
    return bad


def _rows(view: np.ndarray) -> tuple[np.ndarray, int]:
    if view.dtype.kind == "b":
        view = view.view(np.uint8)
    return flat_rows(kernel_array(view))


def count_pairs(
    a: np.ndarray,
    b: np.ndarray,
    edges: tuple[np.ndarray, np.ndarray],
    counts: np.ndarray,
    mask: np.ndarray | None = None,
) -> int:
    """Add ``numpy.histogram2d(a, b, edges)`` to ``counts``; return the number of non-finite pairs.

    Like numpy, it compares values with edges in the dtype of the edges.
    """
    first, second = (
        np.ascontiguousarray(e, np.float64 if e.dtype == np.float64 else np.float32) for e in edges
    )
    flat, pitch = _rows(a)
    other, other_pitch = _rows(b)
    used, mask_pitch = flat_mask(mask, a.shape)
    return int(
        _count_pairs(
            flat, pitch, *a.shape, used, mask_pitch, other, other_pitch, first, second, counts
        )
    )
