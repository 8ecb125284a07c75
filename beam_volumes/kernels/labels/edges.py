"""Components of voxels with codes that select edges.

A voxel's *code* has `INSIDE` if it belongs to a component, and `ACROSS_Z`, `ACROSS_Y`, `ACROSS_X` if it is
connected with the voxel before it along that axis, which then is in a component, too. Runs are parts of a row
that are connected along x; their format is described in `beam_volumes.kernels.labels.components`.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.labels.components import _unite
from beam_volumes.kernels.scratch import Scratch, needs

INSIDE, ACROSS_Z, ACROSS_Y, ACROSS_X = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)


@row_kernel
def _number(row, n, ids):
    """Write the run of each voxel of a row, from run ``n`` on; the previous run outside of runs."""
    before = np.int64(0)  # a row begins with a new run
    for x in range(row.size):
        code = np.int64(row[x])
        n += code & ~(code >> 3 & before) & 1
        before = np.int64(1)
        ids[x] = n - 1


@row_kernel
def _count(row):
    """Return the number of runs of a row."""
    n = np.int64(0)
    if row.size:
        n += np.int64(row[0]) & 1
    for x in range(1, row.size):
        code = np.int64(row[x])
        n += code & ~(code >> 3) & 1
    return n


@row_kernel
def _begin(row, n, ids, starts, stops):
    """Add the runs of a row to ``n`` runs, as `_number`; return their number. One more run must fit."""
    # Loops have no branch that depends on the voxels, since no processor could predict it.
    _number(row, n, ids)
    for x in range(row.size):
        inside = np.int64(row[x]) & 1
        starts[n] = x
        n = np.int64(ids[x]) + 1
        stops[n - inside] = x + 1
    return n


@row_kernel
def _unite_before(parent, rows, ny, r, begin, offsets, scratch):
    """Unite the runs of a row, numbered in ``ids[0]``, with runs of earlier rows from row ``begin`` on."""
    ids, found = scratch
    row = rows[r]
    for shift, q in ((1, r - ny), (2, r - 1)):  # for `ACROSS_Z`, `ACROSS_Y`
        if q < begin or (shift == 2 and r % ny == 0):
            continue
        m = np.int64(0)
        for x in range(row.size):
            found[m] = x
            m += np.int64(row[x]) >> shift & 1
        if m:
            _number(rows[q], offsets[q - begin], ids[1])
        for k in range(m):
            x = found[k]
            _unite(parent, np.int64(ids[0, x]), np.int64(ids[1, x]))


def _scratch(rows, cols) -> Scratch:
    return ((2, cols), np.int32), ((cols + 1,), np.int32)


@needs(_scratch)
@kernel
def find_runs(block, begin, end, scratch):
    """Runs of some rows of a block of codes, and unions of connected ones.

    The results are described in `beam_volumes.kernels.labels.components.find_runs`.
    """
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    n = np.int64(0)
    for r in range(begin, end):
        n += _count(rows[r])
    # `_begin` needs room for one more.
    starts = np.empty(n + 1, np.int32)
    stops = np.empty(n + 1, np.int32)
    parent = np.empty(n + 1, np.int32)
    offsets = np.empty(end - begin + 1, np.int64)
    ids, _ = scratch
    n = np.int64(0)
    for r in range(begin, end):
        offsets[r - begin] = n
        stop = _begin(rows[r], n, ids[0], starts, stops)
        for i in range(n, stop):
            parent[i] = i
        n = stop
        _unite_before(parent, rows, ny, r, begin, offsets, scratch)
    offsets[end - begin] = n
    return offsets, starts[:n], stops[:n], parent[:n]


@kernel
def join_runs(block, cuts, offsets, parent, scratch):
    """Unite connected runs of separate calls: rows were divided before each of ``cuts``."""
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    ids, _ = scratch
    for cut in cuts:
        for r in range(cut, min(cut + ny, nz * ny)):
            if r - ny < cut:
                _number(rows[r], offsets[r], ids[0])
                _unite_before(parent, rows, ny, r, np.int64(0), offsets, scratch)


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
