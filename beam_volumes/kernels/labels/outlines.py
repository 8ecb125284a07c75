"""Outlines of labels along the edges of pixels: corners, and rings of corners.

An outline turns at its corners. A corner encodes the directions of its two arms, and whether the pixel
between them belongs to the label. Two pixels that share only a corner are not connected, so the label has two
corners there.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel

#: Bits of a corner: an arm to the right, else left; one down, else up; the pixel between belongs to the
#: label.
RIGHT, DOWN, INSIDE = 4, 2, 1


@kernel
def _own(four, k):
    """The pixels with the label of pixel ``k`` as bits; 0 if an earlier pixel has the same label."""
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
    """Write the corners between pixels while there is space; return their number.

    The first corner, at ``(y, x)``, is the lower right of the first pixel.
    """
    # ``pixels``, uint64 (m + 1, n + 1), are labels with m x n positions between four of them; a row of the
    # whole image has ``width`` positions. ``labels`` and ``places``, uint64, receive the label, and ``8 * (y
    # * width + x)`` plus the corner's bits.
    rows, cols = pixels.shape[0] - 1, pixels.shape[1] - 1
    room, n = len(labels), np.int64(0)
    for i in range(rows):
        for j in range(cols):
            a, b, c, d = pixels[i, j], pixels[i, j + 1], pixels[i + 1, j], pixels[i + 1, j + 1]
            if (a == b and c == d) or (a == c and b == d):
                continue
            four = a, b, c, d
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
                # Pixels in the order of corners in a row: both left ones before both right ones.
                for q in range(4):
                    pixel = (q & 1) * 2 + (q >> 1)
                    if odd >> pixel & 1:
                        if n < room:
                            labels[n] = four[k]
                            turn = (q >> 1) * 4 + (q & 1) * 2 + inside
                            places[n] = np.uint64(place + turn)
                        n += 1
    return n


@kernel
def rings(first, y, x, bits, below, width):
    """Connect corners to rings, clockwise with y down, and to holes, counterclockwise, with their rings."""
    # ``first``, int64 (labels + 1,), is where the corners of each label start; they are sorted by ``y``,
    # ``x`` and bits ``bits``, all int64. ``below``, int64, is the other corner of each vertical arm.
    # ``width`` is larger than any x. Returns ``vertices``, int64, the corners ring by ring; ``starts``,
    # int64, where each ring starts, and the end; ``outer``, int64, the ring around each hole, or -1.
    count = len(y)
    vertices, starts = np.empty(count, np.int64), np.empty(count // 4 + 1, np.int64)
    path, at = np.empty(count, np.int64), np.full(count, -1, np.int64)
    visited, across = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    ring_of_arm = np.empty(count // 2, np.int64)
    outer = np.full(count // 4 + 1, -1, np.int64)
    hole = np.zeros(count // 4 + 1, np.bool_)
    written, ringed = np.int64(0), np.int64(0)
    starts[0] = 0
    for begin in range(count):
        if visited[begin]:
            continue
        # Start at the upper left corner, with the label on the right.
        now, goes_across, length = begin, (bits[begin] & INSIDE) != 0, np.int64(0)
        while True:
            done = visited[now]
            twin = np.int64(-1)
            if done:
                twin = now
            else:
                for other in (now - 1, now + 1):
                    on_path = 0 <= other < count and at[other] >= 0
                    if on_path and y[other] == y[now] and x[other] == x[now]:
                        twin = other
            if twin >= 0:
                # The path is back where it was: the part between is a ring.
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
            visited[now] = True
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
