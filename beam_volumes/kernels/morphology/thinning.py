"""Thinning of slices in a ring of bytes: bit 0 is the object, bit 1 marks candidates of an iteration.

Voxels that may be deleted are simple: the object has one component around them, and the background one that
shares a face with them (G. Bertrand, G. Malandain, "A new characterization of three-dimensional simple
points", 1994). Two voxels with equal parities along all axes are never neighbours, so the order in which
voxels of one such class are deleted does not matter.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel

#: Neighbour ``(dz, dy, dx)`` is bit ``9 dz + 3 dy + dx``, with offsets from 0 to 2; 13 is the voxel.
_FACES = sum(1 << bit for bit in (4, 10, 12, 14, 16, 22))
_CORNERS = sum(1 << bit for bit in (0, 2, 6, 8, 18, 20, 24, 26))
_EDGES = (1 << 27) - 1 & ~(1 << 13) & ~_CORNERS  # includes the faces
_LEFT = sum(1 << bit for bit in range(0, 27, 3))
_TOP = sum(7 << bit for bit in range(0, 27, 9))
_ALL = (1 << 27) - 1


@row_kernel
def _along_x(bits):
    return bits | (bits & ~(_LEFT << 2)) << 1 | (bits & ~_LEFT) >> 1


@row_kernel
def _along_y(bits):
    return bits | (bits & ~(_TOP << 6)) << 3 | (bits & ~_TOP) >> 3


@row_kernel
def _along_z(bits):
    return bits | bits << 9 & _ALL | bits >> 9


@row_kernel
def is_simple(around):
    """Whether the topology stays the same without a voxel, from the bits of its neighbours."""
    part, before = around & -around, 0
    while part != before:
        before = part
        part = around & _along_z(_along_y(_along_x(part)))
    if part != around or around == 0:
        return False
    background = ~around & _EDGES
    faces = background & _FACES
    part, before = faces & -faces, 0
    while part != before:
        before = part
        part = background & (_along_x(part) | _along_y(part) | _along_z(part))
    return faces != 0 and faces & ~part == 0


@row_kernel
def _around(flat, below, here, above, wide, i):
    """The bits of the neighbours of a voxel; the arguments are the first voxels of its three slices."""
    bits, bit = 0, 0
    for plane in (below, here, above):
        for row in (plane + i - wide, plane + i, plane + i + wide):
            for at in (row - 1, row, row + 1):
                bits |= np.int64(flat[at] & 1) << bit
                bit += 1
    return bits & ~(1 << 13)


@kernel
def mark(planes, changed, marks, z0, z1, y0, y1, x0, x1, allowed, iteration):
    """Mark simple voxels that are not ends in slices ``z0:z1``, and count them."""
    # Slice ``z`` is ``planes[z % len(planes)]``, uint8, with a margin of one voxel. For each row of the ring,
    # ``changed``, int32, is the last iteration that deleted a voxel, and ``marks`` the number of marks.
    # Neighbours count if their bits are ``allowed``. Nothing is simple in rows around which nothing changed.
    return _mark(
        planes.reshape(-1), planes.shape, changed, marks, z0, z1, y0, y1, x0, x1, allowed, iteration
    )


@row_kernel
def _mark(flat, shape, changed, marks, z0, z1, y0, y1, x0, x1, allowed, iteration):
    slots, high, wide = shape
    total = 0
    for z in range(z0, z1):
        a, b, c = (z - 1) % slots, z % slots, (z + 1) % slots
        for y in range(y0, y1):
            marks[b, y] = 0
            last = np.int32(-2)
            for slot in (a, b, c):
                for row in (y - 1, y, y + 1):
                    last = max(last, changed[slot, row])
            if last < iteration - 1:
                continue
            found = 0
            below, here, above = a * high * wide, b * high * wide, c * high * wide
            for i in range(y * wide + x0, y * wide + x1):
                if flat[here + i] == 0:
                    continue
                flat[here + i] = 1
                is_inner = flat[below + i] & flat[above + i]
                is_inner &= flat[here + i - wide] & flat[here + i + wide]
                is_inner &= flat[here + i - 1] & flat[here + i + 1]
                if is_inner & 1:
                    continue
                around = _around(flat, below, here, above, wide, i) & allowed
                if around & (around - 1) == 0:
                    continue
                if is_simple(around):
                    flat[here + i] = 3
                    found += 1
            marks[b, y] = found
            total += found
    return total


@kernel
def delete(planes, changed, marks, z0, z1, dz, y0, y1, dy, x0, dx, allowed, iteration):
    """Delete marked voxels that are still simple, in every ``dz``-th slice, and so on."""
    _delete(
        planes.reshape(-1), planes.shape, changed, marks, z0, z1, dz, y0, y1, dy, x0, dx, allowed,
        iteration,
    )  # fmt: skip


@row_kernel
def _delete(
    flat, shape, changed, marks, z0, z1, dz, y0, y1, dy, x0, dx, allowed, iteration
):  # fmt: skip
    slots, high, wide = shape
    for z in range(z0, z1, dz):
        a, b, c = (z - 1) % slots, z % slots, (z + 1) % slots
        below, here, above = a * high * wide, b * high * wide, c * high * wide
        for y in range(y0, y1, dy):
            if marks[b, y] == 0:
                continue
            for i in range(y * wide + x0, (y + 1) * wide - 1, dx):
                if flat[here + i] == 3:
                    around = _around(flat, below, here, above, wide, i) & allowed
                    if is_simple(around):
                        flat[here + i] = 0
                        changed[b, y] = iteration
