"""Filling the padded margins of ring buffers."""

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.rows import copy_row


@kernel
def pad_margins(ring, slots, r0, r1, c0, c1, row_map, col_map, cval):
    """Fill what lies around the rows ``r0:r1`` and columns ``c0:c1`` of some slots.

    Columns first, in the rows that are there; then whole rows, corners included, from rows that are
    complete by then. So a corner is padded along x, then along y.

    ``ring``, 3-D array: slots, rows, columns.
    ``slots``, int64: which slots to fill.
    ``r0``, ``r1``, ``c0``, ``c1``: what is valid before.
    ``row_map``, ``col_map``, int64: for every row and column of the ring the one, of the valid ones,
    that it repeats, or -1 for the constant. Entries of valid rows and columns are not looked at.
    ``cval``, scalar of the ring's dtype: the constant.
    """
    rows, cols = ring.shape[1], ring.shape[2]
    for slot in slots:
        plane = ring[slot]
        for y in range(r0, r1):
            row = plane[y]
            for x in range(c0):
                row[x] = cval if col_map[x] < 0 else row[col_map[x]]
            for x in range(c1, cols):
                row[x] = cval if col_map[x] < 0 else row[col_map[x]]
        for y in range(rows):
            if r0 <= y < r1:
                continue
            if row_map[y] < 0:
                plane[y, :] = cval
            else:
                copy_row(plane[row_map[y]], plane[y])
