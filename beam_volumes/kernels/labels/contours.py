"""Local configurations of labels: Euler numbers, and lengths of contours in a plane."""

from __future__ import annotations

import math

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.labels.regions import _slot
from beam_volumes.kernels.rows import strided

#: The bit of each voxel of a window of 2 x 2 x 2: the upper ones, then the lower ones along x, y and z.
_BITS = np.array([1, 4, 2, 8, 16, 64, 32, 128])
#: Lengths of the classes of windows for Crofton's formula in four directions.
CROFTON = tuple(
    math.pi * c for c in (0.25, 0.5, 0.25 * (1 + math.sqrt(0.5)), math.sqrt(1 / 32), math.sqrt(0.125))
)  # fmt: skip
#: The class plus one of each window of 2 x 2; 0 for no length.
_CROFTON_CLASS = (0, 3, 4, 5, 0, 3, 0, 4, 1, 2, 4, 4, 1, 2, 0, 0)
#: Lengths of the classes of voxels of a contour.
PERIMETER = (1.0, math.sqrt(2), (1 + math.sqrt(2)) / 2)
_PERIMETER_CLASS = np.zeros(50, np.uint8)
_PERIMETER_CLASS[[5, 7, 15, 17, 25, 27]] = 1
_PERIMETER_CLASS[[21, 33]] = 2
_PERIMETER_CLASS[[13, 23]] = 3


def window_table(hidden: int | None = None) -> np.ndarray:
    """The summands of each configuration of 2 x 2 x 2 voxels: int64 (256, 6)."""
    # The first is eight times the Euler number: every vertex, edge, face and voxel counts in equal parts in
    # the windows that it touches. The others count `CROFTON`'s classes in the plane without the axis
    # ``hidden``.
    table = np.zeros((256, 6), np.int64)
    for number in range(256):
        full = (number & _BITS != 0).reshape(2, 2, 2)
        edges = sum(full.take(i, axis).any() for axis in range(3) for i in range(2))
        faces = sum(full.any(axis=axis).sum() for axis in range(3))
        table[number, 0] = 8 * full.any() - 4 * edges + 2 * faces - full.sum()
        if hidden is None or full.take(1, hidden).any():
            continue  # in a plane every window occurs on both sides
        plane = full.take(0, hidden)
        kind = _CROFTON_CLASS[plane[0, 0] + 4 * plane[0, 1] + 2 * plane[1, 0] + 8 * plane[1, 1]]
        if kind:
            table[number, kind] = 1
    return table


def windows(
    labels: np.ndarray,
    below: np.ndarray,
    core: tuple[int, int, int],
    first: tuple[bool, ...],
    last: tuple[bool, ...],
    keys: np.ndarray,
    place: np.ndarray,
    table: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add the summands of all windows of 2 x 2 x 2 voxels to each label in them: int64 (labels, summands).

    Other arguments are as for `beam_volumes.kernels.labels.regions.geometry`; ``below`` is a whole slice.
    """
    blank = strided(np.zeros((1, 1, labels.shape[2]), labels.dtype))[0]
    some = table.any(axis=1)
    values = np.zeros(8, np.uint64)
    _windows(
        strided(labels), strided(below), blank, labels.shape, below.size > 0, core, first, last, keys,
        place, table, some, values, _BITS, counts,
    )  # fmt: skip


@row_kernel
def _windows(
    labels, below, blank, shape, under, core, first, last, keys, place, table, some, values, bits, counts
):  # fmt: skip
    flat, step_z, step_y = labels
    flat_below, _, step_below = below
    nz, ny, nx = shape
    _, cy, cx = core
    rows = ny if ny > cy else cy + np.int64(last[1])
    for z in range(0 if under or first[0] else 1, nz + np.int64(last[0])):
        lower, lower_step = flat, step_y
        base = (z - 1) * step_z
        if z == 0:
            lower, lower_step, base = flat_below, step_below, np.int64(0)
        has_lower, has_upper = z > 0 or under, z < nz
        for y in range(0 if first[1] else 1, rows):
            # Rows without labels are beyond the edges of the volume.
            a, b, c, d = blank, blank, blank, blank
            if y > 0:
                if has_lower:
                    at = base + (y - 1) * lower_step
                    a = lower[at : at + nx]
                if has_upper:
                    at = z * step_z + (y - 1) * step_y
                    c = flat[at : at + nx]
            if y < ny:
                if has_lower:
                    at = base + y * lower_step
                    b = lower[at : at + nx]
                if has_upper:
                    at = z * step_z + y * step_y
                    d = flat[at : at + nx]
            ends = first[2], last[2]
            _along(a, b, c, d, cx, ends, keys, place, table, some, values, bits, counts)


@row_kernel
def _along(a, b, c, d, cx, ends, keys, place, table, some, values, bits, counts):
    nx = a.size
    for x in range(0 if ends[0] else 1, nx if nx > cx else cx + np.int64(ends[1])):
        low, high = max(x - 1, 0), min(x, nx - 1)
        if 0 < x < nx:
            own = d[x]
            if (
                d[low] == own and c[x] == own and c[low] == own
                and b[x] == own and b[low] == own and a[x] == own and a[low] == own
            ):  # fmt: skip
                continue
        has_low, has_high = np.uint64(x > 0), np.uint64(x < nx)
        values[0] = np.uint64(d[high]) * has_high
        values[1] = np.uint64(d[low]) * has_low
        values[2] = np.uint64(c[high]) * has_high
        values[3] = np.uint64(c[low]) * has_low
        values[4] = np.uint64(b[high]) * has_high
        values[5] = np.uint64(b[low]) * has_low
        values[6] = np.uint64(a[high]) * has_high
        values[7] = np.uint64(a[low]) * has_low
        for k in range(8):
            label = values[k]
            if label == np.uint64(0):
                continue
            number = 0
            is_new = True
            for j in range(8):
                if values[j] == label:
                    number += bits[j]
                    is_new &= j >= k
            if is_new and some[number]:
                i = place[_slot(keys, label)]
                for j in range(table.shape[1]):
                    counts[i, j] += table[number, j]


@kernel
def _is_border(rows, k, i, j, steps):
    """Whether one of the four neighbours in the plane has another label."""
    own = rows.lines[rows.firsts[k] + i, rows.left + j]
    for n in range(2):
        for sign in (-1, 1):
            p, q, r = k + sign * steps[n, 0], i + sign * steps[n, 1], j + sign * steps[n, 2]
            if rows.lines[rows.firsts[p] + q, rows.left + r] != own:
                return True
    return False


@kernel
def contour_classes(rows, out, y0, y1, nx, steps, margin, classes):
    """Write the class plus one of each voxel in the contour of its label, and 0 elsewhere."""
    # ``steps``, int64 (2, 3), are the axes of the plane. ``rows`` have a ``margin`` of two voxels along them.
    # The classes are from K. Benkrid and D. Crookes, as in scikit-image.
    for k in range(out.firsts.size):
        for i in range(y0, y1):
            line = out.lines[out.firsts[k] + i]
            for j in range(nx):
                p, q, r = k + margin[0], i + margin[1], j + margin[2]
                own = rows.lines[rows.firsts[p] + q, rows.left + r]
                kind = np.uint8(0)
                if own != 0 and _is_border(rows, p, q, r, steps):
                    code = 1
                    for s in range(-1, 2):
                        for t in range(-1, 2):
                            pp = p + s * steps[0, 0] + t * steps[1, 0]
                            qq = q + s * steps[0, 1] + t * steps[1, 1]
                            rr = r + s * steps[0, 2] + t * steps[1, 2]
                            if (s == 0 and t == 0) or rows.lines[
                                rows.firsts[pp] + qq, rows.left + rr
                            ] != own:
                                continue
                            if _is_border(rows, pp, qq, rr, steps):
                                code += 10 if s != 0 and t != 0 else 2
                    kind = classes[code]
                line[out.left + j] = kind


def count_classes(
    labels: np.ndarray, classes: np.ndarray, keys: np.ndarray, place: np.ndarray, counts: np.ndarray
) -> None:
    """Count the voxels of each class of `contour_classes` by label: int64 (labels, classes)."""
    _count_classes(strided(labels), strided(classes), labels.shape, keys, place, counts)


@row_kernel
def _count_classes(labels, classes, shape, keys, place, counts):
    flat, step_z, step_y = labels
    other, next_z, next_y = classes
    for z in range(shape[0]):
        for y in range(shape[1]):
            at, there = z * step_z + y * step_y, z * next_z + y * next_y
            for x in range(shape[2]):
                kind = other[there + x]
                if kind != 0:
                    i = place[_slot(keys, np.uint64(flat[at + x]))]
                    counts[i, np.int64(kind) - 1] += 1


PERIMETER_CLASSES = _PERIMETER_CLASS
