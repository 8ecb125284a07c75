"""Outlines of labels along the edges of pixels: their corners, and corners put together to rings.

A corner of a label's outline is where it turns. It says where its two arms go, and of three of the four
pixels around it whether they are the label's or only one is. Two pixels that touch at a corner alone are
apart: there the label has two corners.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel

#: What a corner says: an arm goes right, else left; one goes down, else up; the pixel between is the label's.
RIGHT, DOWN, INSIDE = 4, 2, 1


@kernel
def _own(four, k):
    """Of the label of pixel ``k``: which pixels it has, as bits; 0 if an earlier pixel has it too."""
    label = four[k]
    bits = np.int64(0)
    if label == 0:
        return bits
    for j in range(4):
        if four[j] == label:
            if j < k:
                return np.int64(0)
            bits |= np.int64(1) << j
    return bits


@kernel
def corners(pixels, y, x, width, labels, places):
    """Write the corners between pixels, of which the first has its lower right one at ``(y, x)``.

    ``pixels``, (m + 1, n + 1) array of uint64: labels; there are m x n places between four of them.
    ``y``, ``x``: of the first such place.
    ``width``: places in a row of the whole image.
    ``labels``, ``places``, uint64: what is written, as far as there is room: the label, and ``8 * (y *
    width + x)`` and what the corner says.
    Returns how many there are.
    """
    rows, cols = pixels.shape[0] - 1, pixels.shape[1] - 1
    four = np.empty(4, np.uint64)
    room, n = len(labels), np.int64(0)
    for i in range(rows):
        for j in range(cols):
            a, b, c, d = pixels[i, j], pixels[i, j + 1], pixels[i + 1, j], pixels[i + 1, j + 1]
            if (a == b and c == d) or (a == c and b == d):
                continue
            four[0], four[1], four[2], four[3] = a, b, c, d
            place = 8 * ((y + i) * width + x + j)
            for k in range(4):
                bits = _own(four, k)
                if bits == 0:
                    continue
                count = (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3)
                diagonal = bits == 9 or bits == 6
                if count == 4 or (count == 2 and not diagonal):
                    continue
                inside = np.int64(count != 3)
                odd = bits if inside else 15 - bits
                # Pixels in the order that corners have in a row: both left ones before both right ones.
                for q in range(4):
                    pixel = (q & 1) * 2 + (q >> 1)
                    if odd >> pixel & 1:
                        if n < room:
                            labels[n] = four[k]
                            says = (q >> 1) * 4 + (q & 1) * 2 + inside
                            places[n] = np.uint64(place + says)
                        n += 1
    return n


@kernel
def rings(first, y, x, says, below, width):
    """Put corners together to rings, and say which ring lies in which.

    ``first``, (labels + 1,) array of int64: where the corners of each label begin; they are sorted by y,
    then x, then what they say.
    ``y``, ``x``: int64.
    ``says``: int64.
    ``below``, int64: of each corner, the other one of its vertical arm.
    ``width``: more than any x.
    Returns ``vertices``, int64: corners, ring by ring; clockwise where y goes down, holes the other way;
    ``starts``, int64: where each ring begins, and the end; ``outer``, int64: of each ring the ring that
    it is a hole of, or -1.
    """
    count = len(y)
    vertices, starts = np.empty(count, np.int64), np.empty(count // 4 + 1, np.int64)
    path, at = np.empty(count, np.int64), np.full(count, -1, np.int64)
    seen, across = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    ring_of_arm = np.empty(count // 2, np.int64)
    outer = np.full(count // 4 + 1, -1, np.int64)
    hole = np.zeros(count // 4 + 1, np.bool_)
    written, ringed = np.int64(0), np.int64(0)
    starts[0] = 0
    for begin in range(count):
        if seen[begin]:
            continue
        # The upper left corner: the label is to be on the right.
        now, goes_across, length = begin, (says[begin] & INSIDE) != 0, np.int64(0)
        while True:
            done = seen[now]
            twin = np.int64(-1)
            if done:
                twin = now
            else:
                for other in (now - 1, now + 1):
                    on_path = 0 <= other < count and at[other] >= 0
                    if on_path and y[other] == y[now] and x[other] == x[now]:
                        twin = other
            if twin >= 0:
                # The path has come back to where it was: what lies between is a ring.
                back, area = at[twin], np.int64(0)
                for k in range(back, length):
                    v = path[k]
                    w = path[k + 1] if k + 1 < length else path[back]
                    area += x[v] * y[w] - x[w] * y[v]
                    if across[v]:
                        ring_of_arm[v >> 1] = ringed
                    vertices[written] = v
                    written += 1
                    at[v] = -1
                hole[ringed] = area < 0
                ringed += 1
                starts[ringed] = written
                length = back
            if done:
                break
            seen[now] = True
            path[length], at[now], across[now] = now, length, goes_across
            length += 1
            now = (now ^ 1) if goes_across else below[now]
            goes_across = not goes_across
    last = np.empty(width, np.int64)
    for k in range(len(first) - 1):
        for arm in range(first[k] >> 1, first[k + 1] >> 1):
            ring, a, b = ring_of_arm[arm], x[2 * arm], x[2 * arm + 1]
            if hole[ring] and outer[ring] < 0:
                above = last[a]
                outer[ring] = outer[above] if hole[above] else above
            for j in range(a, b):
                last[j] = ring
    return vertices[:written], starts[: ringed + 1], outer[:ringed]
