"""The edge that each voxel follows, and codes of the selected edges.

Edges connect voxels that share a face. They are ordered by value, then by linear index: of the upper voxel,
then z before y before x. Around one voxel this is the order of `_STEPS`. So each voxel has one best edge. A
path along best edges ends at an edge that is the best of both its voxels, or, for heights, at a local
minimum.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.labels.edges import ACROSS_X, ACROSS_Y, ACROSS_Z, INSIDE
from beam_volumes.kernels.scratch import Scratch, needs

#: The role of a voxel: excluded from the volume, free, or part of a marker.
OUTSIDE, FREE, MARKED = 0, 1, 2
#: Choices are the number of a step plus one, or none; voxels outside have no choice at all.
NONE, NOTHING = np.uint8(0), np.uint8(255)
_STEPS = ((-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 1), (0, 1, 0), (1, 0, 0))


@row_kernel
def _follow(other, role, step, best, lowest):
    """Follow a neighbour that is lower than the lowest one so far, or the first one that is not higher."""
    for x in range(best.size):
        is_better = other[x] < lowest[x] or (other[x] == lowest[x] and best[x] == NONE)
        if is_better and role[x] != OUTSIDE:
            best[x] = step
            lowest[x] = other[x]


@row_kernel
def _begin_choice(own, best, lowest):
    """Begin with no choice."""
    for x in range(best.size):
        best[x] = NONE
        lowest[x] = own[x]


@row_kernel
def _end_choice(own, role, best):
    """Keep choices of free voxels; return the number of NaN in the volume."""
    bad = 0
    for x in range(best.size):
        bad += np.int64(own[x] != own[x] and role[x] != OUTSIDE)
    for x in range(best.size):
        best[x] = NOTHING if role[x] == OUTSIDE else best[x] if role[x] == FREE else NONE
    return bad


def _scratch(rows, cols, depth, dtype) -> Scratch:
    return (((cols,), dtype),)


@needs(_scratch)
@kernel
def choose_by_height(heights, roles, out, y0, y1, nx, start, shape, scratch):
    """The edge of each voxel: to its lowest neighbour, unless it is higher. Returns the number of NaN.

    Heights and roles have one more voxel on each side; ``start`` is the position of ``out`` in ``shape``.
    """
    bad = 0
    (lowest,) = scratch
    for k in range(out.firsts.size):
        for i in range(y0, y1):
            bad += _choose_row(heights, roles, out, (k, i), nx, start, shape, lowest)
    return bad


@row_kernel
def _choose_row(heights, roles, out, at, nx, start, shape, lowest):
    k, i = at
    z, y, x0 = start[0] + k, start[1] + i, start[2]
    a, b, c = heights.left + 1, roles.left + 1, out.left
    own = heights.lines[heights.firsts[k + 1] + i + 1, a : a + nx]
    role = roles.lines[roles.firsts[k + 1] + i + 1, b : b + nx]
    best = out.lines[out.firsts[k] + i, c : c + nx]
    _begin_choice(own, best, lowest)
    for n in range(6):
        dz, dy, dx = _STEPS[n]
        if not (0 <= z + dz < shape[0] and 0 <= y + dy < shape[1]):
            continue
        begin, end = max(0, -dx - x0), min(nx, shape[2] - dx - x0)
        height = heights.lines[heights.firsts[k + 1 + dz] + i + 1 + dy]
        others = roles.lines[roles.firsts[k + 1 + dz] + i + 1 + dy]
        _follow(
            height[a + dx + begin : a + dx + end], others[b + dx + begin : b + dx + end],
            np.uint8(n + 1), best[begin:end], lowest[begin:end],
        )  # fmt: skip
    return _end_choice(own, role, best)


@row_kernel
def _follow_affinity(across, low, step, best, highest):
    """Follow an edge with an affinity of at least ``low``, and more than the highest one so far."""
    for x in range(best.size):
        if across[x] >= low and (best[x] == NOTHING or across[x] > highest[x]):
            best[x] = step
            highest[x] = across[x]


@needs(_scratch)
@kernel
def choose_by_affinity(across_z, across_y, across_x, low, out, y0, y1, nx, start, shape, scratch):
    """The edge that each voxel follows: the one with the largest affinity, if it is >= ``low``."""
    # Affinities are between a voxel and the previous one; they have one more voxel on the upper side. NaN is
    # no edge. A voxel without an edge is outside.
    (highest,) = scratch
    for k in range(out.firsts.size):
        for i in range(y0, y1):
            best = out.lines[out.firsts[k] + i, out.left : out.left + nx]
            for x in range(nx):
                best[x] = NOTHING
            for n in range(6):
                dz, dy, dx = _STEPS[n]
                if not (0 <= start[0] + k + dz < shape[0] and 0 <= start[1] + i + dy < shape[1]):
                    continue
                begin, end = max(0, -dx - start[2]), min(nx, shape[2] - dx - start[2])
                across = across_z if dz else across_y if dy else across_x
                row = across.lines[across.firsts[k + max(0, dz)] + i + max(0, dy)]
                left = across.left + max(0, dx)
                _follow_affinity(
                    row[left + begin : left + end], low, np.uint8(n + 1), best[begin:end],
                    highest[begin:end],
                )  # fmt: skip


@row_kernel
def _code_row(here, before_x, before_y, before_z, out):
    for x in range(out.size):
        z = np.uint8(here[x] == 1) | np.uint8(before_z[x] == 6)
        y = np.uint8(here[x] == 2) | np.uint8(before_y[x] == 5)
        across = np.uint8(here[x] == 3) | np.uint8(before_x[x] == 4)
        code = INSIDE | ACROSS_Z * z | ACROSS_Y * y | ACROSS_X * across
        out[x] = np.uint8(code) if here[x] != NOTHING else np.uint8(0)


@kernel
def code_choices(choices, out, y0, y1, nx):
    """Codes of edges that are the choice of one of their voxels; choices have one more voxel before."""
    left = choices.left + 1
    for k in range(out.firsts.size):
        for i in range(y0, y1):
            here = choices.lines[choices.firsts[k + 1] + i + 1]
            before_y = choices.lines[choices.firsts[k + 1] + i, left : left + nx]
            before_z = choices.lines[choices.firsts[k] + i + 1, left : left + nx]
            row = out.lines[out.firsts[k] + i, out.left : out.left + nx]
            _code_row(
                here[left : left + nx], here[left - 1 : left - 1 + nx], before_y, before_z, row
            )


@kernel
def add_high(across_z, across_y, across_x, high, start, out, y0, y1, nx):
    """Add edges with affinity >= ``high`` to codes."""
    for k in range(out.firsts.size):
        for i in range(y0, y1):
            row = out.lines[out.firsts[k] + i]
            a, b, c = across_z.firsts[k] + i, across_y.firsts[k] + i, across_x.firsts[k] + i
            for j in range(nx):
                code = row[out.left + j]
                if start[0] + k > 0 and across_z.lines[a, across_z.left + j] >= high:
                    code |= ACROSS_Z
                if start[1] + i > 0 and across_y.lines[b, across_y.left + j] >= high:
                    code |= ACROSS_Y
                if start[2] + j > 0 and across_x.lines[c, across_x.left + j] >= high:
                    code |= ACROSS_X
                row[out.left + j] = code


@kernel
def add_same(markers, choices, out, y0, y1, nx):
    """Add edges between neighbours of one marker; markers and choices have one more voxel before."""
    for k in range(out.firsts.size):
        for i in range(y0, y1):
            row = out.lines[out.firsts[k] + i]
            for j in range(nx):
                own = markers.lines[markers.firsts[k + 1] + i + 1, markers.left + j + 1]
                if own == 0 or row[out.left + j] == 0:
                    continue
                for n, bit in ((0, ACROSS_Z), (1, ACROSS_Y), (2, ACROSS_X)):
                    dz, dy, dx = _STEPS[n]
                    line = markers.firsts[k + 1 + dz] + i + 1 + dy
                    other = choices.firsts[k + 1 + dz] + i + 1 + dy
                    if (
                        markers.lines[line, markers.left + j + 1 + dx] == own
                        and choices.lines[other, choices.left + j + 1 + dx] != NOTHING
                    ):
                        row[out.left + j] |= bit
