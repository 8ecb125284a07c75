"""Device code of the runs of a mask, and the unions of runs that touch.

A thread has a row: it writes its runs, and unites them with touching runs of earlier rows. Runs are united
by atomic minima of parents, so the root of a component is its first run, in any order of threads
(D. Playne, K. Hawick, "A new algorithm for parallel connected-component labelling on GPUs", 2018).
"""

from __future__ import annotations

from typing import Any

from numba import cuda as numba_cuda

from beam_volumes.kernels.cuda.launching import device_function, launch, on_device, per_voxel
from beam_volumes.kernels.rows import Rows

cuda: Any = numba_cuda


def count_runs(
    src: Rows, ny: int, nx: int, is_joined: bool, counts: Any, stream: Any = None
) -> None:
    """Count the runs of each row; ``counts``, int64, has an element for each row, and one more."""
    launch(_count, (src.firsts.size, 1, ny), stream, src, ny, nx, is_joined, counts)


def find_runs(
    src: Rows, ny: int, nx: int, links: Any, is_joined: bool, offsets: Any, starts: Any, stops: Any,
    parent: Any, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.labels.components.find_runs` for a mask, with known offsets.

    ``parent`` has the first run of each run's component.
    """
    lines, runs = (src.firsts.size, 1, ny), (offsets, starts, stops, parent)
    launch(_write, lines, stream, src, ny, nx, is_joined, *runs)
    launch(_unite_rows, lines, stream, ny, on_device(links, stream), *runs)
    launch(_flatten, (1, 1, parent.size), stream, parent)


def _count_of_row(k, _, y, src, ny, nx, is_joined, counts):
    row, count, before = src.firsts[k] + y, 0, False
    for x in range(nx):
        inside = src.lines[row, src.left + x] != 0
        if inside and not (before and is_joined):
            count += 1
        before = inside
    counts[k * ny + y] = count


def _write_row(k, _, y, src, ny, nx, is_joined, offsets, starts, stops, parent):
    row, i, before = src.firsts[k] + y, offsets[k * ny + y], False
    for x in range(nx):
        inside = src.lines[row, src.left + x] != 0
        if before and not (inside and is_joined):
            stops[i] = x
            i += 1
        if inside and not (before and is_joined):
            starts[i] = x
            parent[i] = i
        before = inside
    if before:
        stops[i] = nx


@device_function
def _root(parent, i):
    while parent[i] != i:
        i = parent[i]
    return i


@device_function
def _unite(parent, i, j):
    """Unite two trees, which other threads may change."""
    a, b = _root(parent, i), _root(parent, j)
    while a != b:
        high, low = max(a, b), min(a, b)
        old = cuda.atomic.min(parent, high, low)
        if old == high:
            return
        # It was no root any more: its former parent belongs to the component, too.
        a, b = _root(parent, old), _root(parent, low)


def _unite_row(k, _, y, ny, links, offsets, starts, stops, parent):
    for n in range(links.shape[0]):
        q, above = k + links[n, 0], y + links[n, 1]
        if q < 0 or above < 0 or above >= ny:
            continue
        low, high = links[n, 2] - links[n, 3], links[n, 2] + links[n, 3]
        i, last = offsets[k * ny + y], offsets[k * ny + y + 1]
        j, last_j = offsets[q * ny + above], offsets[q * ny + above + 1]
        while i < last and j < last_j:
            if starts[i] + low < stops[j] and starts[j] < stops[i] + high:
                _unite(parent, i, j)
            if stops[i] + links[n, 2] < stops[j]:
                i += 1
            else:
                j += 1


def _flatten_run(k, y, i, parent):
    parent[i] = _root(parent, i)


_count, _write = per_voxel(_count_of_row), per_voxel(_write_row)
_unite_rows, _flatten = per_voxel(_unite_row), per_voxel(_flatten_run)
