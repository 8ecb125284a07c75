"""Relabelling of a block: one lookup for each run of equal labels along x."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.labels.regions import _slot
from beam_volumes.kernels.rows import strided

#: How to treat labels that are not in a table.
REFUSE, KEEP, REPLACE = 0, 1, 2


@kernel
def _put(numbers, keys, place):
    for i in range(numbers.size):
        if numbers[i] != np.uint64(0):
            slot = _slot(keys, numbers[i])
            keys[slot] = numbers[i]
            place[slot] = i


def indexed(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An open-addressing table from nonzero uint64 labels to their indices."""
    size = 1 << max(4, (2 * len(labels)).bit_length())
    keys, place = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    _put(labels, keys, place)
    return keys, place


def look_up(labels, out, keys, place, values, zero, missing, replacement):
    """Write the value of each unsigned label, 0 as ``zero``; return a missing label that is refused, or 0."""
    # ``keys`` and ``place`` are from `indexed`, and ``values`` are by index. ``missing`` is `REFUSE`, `KEEP`
    # or `REPLACE` (by ``replacement``).
    how = keys, place, values, zero, missing, replacement
    return _look_up(strided(labels), strided(out, writeable=True), labels.shape, *how)


@kernel
def _look_up(labels, out, shape, keys, place, values, zero, missing, replacement):
    voxels, _, pitch = labels
    results, _, result_pitch = out
    rows, cols = shape
    for y in range(rows):
        row = voxels[y * pitch : y * pitch + cols]
        to = results[y * result_pitch : y * result_pitch + cols]
        end = 0
        while end < cols:
            start = end
            label = row[start]
            end += 1
            while end < cols and row[end] == label:
                end += 1
            if label == 0:
                for x in range(start, end):
                    to[x] = zero
                continue
            slot = _slot(keys, np.uint64(label))
            if keys[slot] != np.uint64(0):
                value = values[place[slot]]
                for x in range(start, end):
                    to[x] = value
            elif missing == KEEP:
                for x in range(start, end):
                    to[x] = label
            elif missing == REPLACE:
                for x in range(start, end):
                    to[x] = replacement
            else:
                return np.uint64(label)
    return np.uint64(0)


def tally(labels, lower, upper, keys, place, counts, touches):
    """Count each label's voxels, and flag those with some outside ``lower <= (z, y, x) < upper``."""
    _tally(strided(labels), labels.shape, lower, upper, keys, place, counts, touches)


@kernel
def _tally(labels, shape, lower, upper, keys, place, counts, touches):
    voxels, step, pitch = labels
    slices, rows, cols = shape
    for z in range(slices):
        for y in range(rows):
            at = z * step + y * pitch
            row = voxels[at : at + cols]
            outside = z < lower[0] or z >= upper[0] or y < lower[1] or y >= upper[1]
            end = 0
            while end < row.size:
                start = end
                label = row[start]
                end += 1
                while end < row.size and row[end] == label:
                    end += 1
                if label == 0:
                    continue
                i = place[_slot(keys, np.uint64(label))]
                counts[i] += end - start
                if outside or start < lower[2] or end > upper[2]:
                    touches[i] = True
