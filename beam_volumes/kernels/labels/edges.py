"""Components of voxels with codes that select edges.

A voxel's *code* has `INSIDE` if it belongs to a component, and `ACROSS_Z`, `ACROSS_Y`, `ACROSS_X` if it is
connected with the voxel before it along that axis. Runs are parts of a row that are connected along x; their
format is described in `beam_volumes.kernels.labels.components`.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.labels.components import _unite

INSIDE, ACROSS_Z, ACROSS_Y, ACROSS_X = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)


@kernel
def _unite_rows(parent, starts, stops, span, row, bit):
    """Unite the runs ``i`` to ``i1`` of a row with earlier runs ``j`` to ``j1``, by the row's codes."""
    i, i1, j, j1 = span
    while i < i1 and j < j1:
        a, b = max(starts[i], starts[j]), min(stops[i], stops[j])
        for x in range(a, b):
            if row[x] & bit:
                _unite(parent, i, j)
                break
        is_before = np.int64(stops[i] < stops[j])
        i += is_before
        j += 1 - is_before


@kernel
def _grown(array, size):
    out = np.empty(size, array.dtype)
    for i in range(array.size):
        out[i] = array[i]
    return out


@kernel
def find_runs(block, begin, end):
    """Runs of some rows of a block of codes, and unions of connected ones.

    The results are described in `beam_volumes.kernels.labels.components.find_runs`.
    """
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    capacity = nx + 1 + 2 * (end - begin)
    starts = np.empty(capacity, np.int32)
    stops = np.empty(capacity, np.int32)
    parent = np.empty(capacity, np.int32)
    offsets = np.empty(end - begin + 1, np.int64)
    n = np.int64(0)
    for r in range(begin, end):
        if n + nx + 1 > capacity:
            capacity = capacity + capacity // 2 + nx + 1
            starts = _grown(starts, capacity)
            stops = _grown(stops, capacity)
            parent = _grown(parent, capacity)
        a0, row = n, rows[r]
        offsets[r - begin] = n
        x = 0
        while x < nx:
            if row[x] & INSIDE:
                starts[n] = x
                x += 1
                while x < nx and row[x] & ACROSS_X:
                    x += 1
                stops[n] = x
                parent[n] = n
                n += 1
            else:
                x += 1
        _unite_before(rows, ny, r, (a0, n), begin, offsets, starts, stops, parent)
    offsets[end - begin] = n
    return offsets, starts[:n].copy(), stops[:n].copy(), parent[:n].copy()


@kernel
def _unite_before(rows, ny, r, own, begin, offsets, starts, stops, parent):
    """Unite the runs of a row with runs of earlier rows from row ``begin`` on."""
    for bit, q in ((ACROSS_Z, r - ny), (ACROSS_Y, r - 1)):
        if q >= begin and (bit == ACROSS_Z or r % ny > 0):
            span = own[0], own[1], offsets[q - begin], offsets[q - begin + 1]
            _unite_rows(parent, starts, stops, span, rows[r], bit)


@kernel
def join_runs(block, cuts, offsets, starts, stops, parent):
    """Unite connected runs of separate calls: rows were divided before each of ``cuts``."""
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    for cut in cuts:
        for r in range(cut, min(cut + ny, nz * ny)):
            own = offsets[r], offsets[r + 1]
            if r - ny < cut:
                _unite_before(rows, ny, r, own, np.int64(0), offsets, starts, stops, parent)


@kernel
def unite_planes(below, above, codes, parent, base_a, base_b):
    """Unite components of two successive slices by the codes of the upper one.

    Parameters are described in `beam_volumes.kernels.labels.components.unite_planes`.
    """
    offsets_a, starts_a, stops_a, labels_a = below
    offsets_b, starts_b, stops_b, labels_b = above
    for y in range(offsets_b.size - 1):
        i, i1 = offsets_b[y], offsets_b[y + 1]
        j, j1 = offsets_a[y], offsets_a[y + 1]
        while i < i1 and j < j1:
            for x in range(max(starts_b[i], starts_a[j]), min(stops_b[i], stops_a[j])):
                if codes[y, x] & ACROSS_Z:
                    a, b = np.int64(labels_a[j]) - 1, np.int64(labels_b[i]) - 1
                    _unite(parent, base_a + a, base_b + b)
                    break
            if stops_b[i] < stops_a[j]:
                i += 1
            else:
                j += 1
