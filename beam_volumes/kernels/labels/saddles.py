"""The lowest pass between touching labels of a block; voxels touch across corners, too."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.labels.adjacency import _slot, fill


@kernel
def _grown(pairs, values):
    count = pairs.shape[0]
    more, passes = np.empty((4 * count, 2), np.uint64), np.empty(4 * count, np.float64)
    for i in range(count):
        more[i, 0], more[i, 1] = pairs[i, 0], pairs[i, 1]
        passes[i] = values[i]
    table = np.zeros(8 * count, np.int32)
    fill(table, more, count)
    return table, more, passes


@kernel
def passes(labels, heights, first, steps):
    """The pairs of touching labels, and the minimum over touching voxels of the higher of two heights.

    ``labels``, uint64, are 0 outside. Pairs, uint64 (pairs, 2), have the smaller label first.
    """
    # ``first`` is the first slice from which neighbours are visited, and ``steps``, int64 (steps, 3), lead to
    # neighbours that precede a voxel.
    table, count = np.zeros(1024, np.int32), 0
    pairs, values = np.empty((512, 2), np.uint64), np.empty(512, np.float64)
    nz, ny, nx = labels.shape
    for z in range(first, nz):
        for y in range(ny):
            for n in range(steps.shape[0]):
                dz, dy, dx = steps[n, 0], steps[n, 1], steps[n, 2]
                if z + dz < 0 or not 0 <= y + dy < ny:
                    continue
                row, other = labels[z, y], labels[z + dz, y + dy]
                high, there = heights[z, y], heights[z + dz, y + dy]
                for x in range(max(0, -dx), min(nx, nx - dx)):
                    u, v = row[x], other[x + dx]
                    if u == v or u == np.uint64(0) or v == np.uint64(0):
                        continue
                    value = max(high[x], there[x + dx])
                    a, b = min(u, v), max(u, v)
                    slot = _slot(table, pairs, a, b)
                    i = np.int64(table[slot]) - 1
                    if i >= 0:
                        if value < values[i]:
                            values[i] = value
                        continue
                    if count == values.size:
                        table, pairs, values = _grown(pairs, values)
                        slot = _slot(table, pairs, a, b)
                    pairs[count, 0], pairs[count, 1] = a, b
                    values[count] = value
                    count += 1
                    table[slot] = count
    return pairs[:count].copy(), values[:count].copy()


@kernel
def lowest_floods(a, b, height, level):
    """The height of the lowest flood that reaches each region, float64 (regions,)."""
    # The height of a path is the maximum of its passes and of the level where it starts; each region has the
    # minimum over paths. ``a`` and ``b``, int64 (passes,), are the regions of each pass, ordered by ascending
    # ``height``.
    n = level.size
    # The tree of Kruskal's merges, with a node for each merge above its two parts.
    parent = np.full(2 * n, -1, np.int64)
    root = np.arange(2 * n)
    best, at = np.empty(2 * n), np.empty(2 * n)
    for i in range(n):
        best[i] = at[i] = level[i]
    nodes = n
    for e in range(a.size):
        u, v = a[e], b[e]
        while root[u] != u:
            root[u] = root[root[u]]
            u = root[u]
        while root[v] != v:
            root[v] = root[root[v]]
            v = root[v]
        if u == v:
            continue
        parent[u] = parent[v] = nodes
        root[u] = root[v] = nodes
        best[nodes] = min(best[u], best[v])
        at[nodes] = max(height[e], best[nodes])
        nodes += 1
    for i in range(nodes - 1, -1, -1):
        if parent[i] >= 0:
            at[i] = min(at[i], at[parent[i]])
    return at[:n]


@kernel
def forest(a, b, kept):
    """A forest of the ``kept`` regions with the lowest way from each to each: pairs, and their passes.

    ``a`` and ``b``, int64 (passes,), are the regions of each pass, ordered by ascending height.
    """
    n = kept.size
    root = np.arange(n)
    # A kept region of each connected part, or -1.
    inside = np.empty(n, np.int64)
    for i in range(n):
        inside[i] = i if kept[i] else -1
    pairs, at = np.empty((n, 2), np.int64), np.empty(n, np.int64)
    count = 0
    for e in range(a.size):
        u, v = a[e], b[e]
        while root[u] != u:
            root[u] = root[root[u]]
            u = root[u]
        while root[v] != v:
            root[v] = root[root[v]]
            v = root[v]
        if u == v:
            continue
        root[u] = v
        if inside[u] >= 0 and inside[v] >= 0:
            pairs[count, 0], pairs[count, 1] = inside[u], inside[v]
            at[count] = e
            count += 1
        elif inside[v] < 0:
            inside[v] = inside[u]
    return pairs[:count], at[:count]
