"""Rows of ring buffers: what every neighbourhood kernel works on.

All of them share one calling convention::

    kernel(src, out, y0, y1, nx, *parameters)

``src`` and ``out`` are `Rows`. Output voxel ``(k, y, x)`` is
``out.lines[out.firsts[k] + y, out.left + x]``, computed for ``y0 <= y < y1`` and ``0 <= x < nx``;
nothing else of ``out`` is touched. Tap ``(tz, ty, tx)`` of that voxel is
``src.lines[src.firsts[k + tz] + y + ty, src.left + x + tx]``: there is one of ``src.firsts`` per
input slice, and whatever lies beyond the volume's edges is already in the ring.

A kernel makes many views of rows, and each counts a reference: what does so for each row is a
`beam_volumes.kernels.jit.row_kernel`, which is given its scratch.

Rows are contiguous, so the inner loops are plain loops over 1-D arrays that LLVM vectorises. Such
a loop must not write one of several arrays it reads under two names: that fails LLVM's overlap
check and falls back to scalar code.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from beam_volumes.kernels.jit import kernel, owning_nothing, row_kernel


class Rows(NamedTuple):
    """Some slices of a ring buffer, each as a stack of rows.

    Of one type for each dtype, so that a kernel is compiled for it once: make it with `rows_of`.
    """

    lines: np.ndarray  #: 2-D array. All rows of the ring, C-contiguous.
    firsts: np.ndarray  #: int64. Where in ``lines`` row 0 of each slice is.
    left: int  #: The column in which rows begin.


def rows_of(ring: np.ndarray, slots: np.ndarray, y: int, x: int) -> Rows:
    """The slices in some slots of a ring, from row ``y`` and column ``x`` on; no copy.

    >>> ring = np.arange(24).reshape(3, 2, 4)
    >>> rows = rows_of(ring, np.array([2, 0]), 1, 3)
    >>> int(rows.lines[rows.firsts[0], rows.left]), int(ring[2, 1, 3])
    (23, 23)
    """
    n, height, width = ring.shape
    return Rows(ring.reshape(n * height, width), slots * height + y, x)


def as_bytes(rows):
    """The same rows; of bool as uint8 0/1. Call it inside a kernel."""
    raise NotImplementedError("only inside compiled code")


@overload(as_bytes)
def _as_bytes(rows):
    if rows.types[0].dtype == types.boolean:
        return lambda rows: Rows(rows.lines.view(np.uint8), rows.firsts, rows.left)
    return lambda rows: rows


def strided(array, writeable=False):
    """An array of two or three axes as ``voxels, z, y``: ``[k, j, i]`` is ``voxels[k * z + j * y + i]``.

    Of one type for each dtype, be the array part of a larger one or not: a kernel is compiled for it
    once. A view, unless the array is turned around or not contiguous along x; what is to be written to
    must not be.
    """
    item = array.itemsize
    steps = array.strides[:-1]
    if array.size == 0:
        array, steps = np.empty(0, array.dtype), (0,) * len(steps)
    elif array.strides[-1] != item or any(s < 0 or s % item for s in steps):
        if writeable:
            raise ValueError(f"strides of {array.strides}: rows are not contiguous")
        array = np.ascontiguousarray(array)
        steps = array.strides[:-1]
    last = sum(s * (n - 1) for s, n in zip(steps, array.shape, strict=False))
    size = last // item + array.shape[-1]
    flat = np.lib.stride_tricks.as_strided(array, (size,), (item,), writeable=writeable)
    z, y = (0, *steps)[-2:]
    return flat, z // item, y // item


@row_kernel
def copy_row(src, out):
    for x in range(out.size):
        out[x] = src[x]


@row_kernel
def has_nan(row):
    """Whether a row holds a NaN; never true of integers."""
    found = False
    for x in range(row.size):
        found |= row[x] != row[x]
    return found


def is_negative(value):
    """Whether a number has a minus sign, as -0.0 does. Call it inside a kernel."""
    raise NotImplementedError("only inside compiled code")


@overload(is_negative, jit_options=owning_nothing)
def _is_negative(value):
    if not isinstance(value, types.Float):
        return lambda value: value < 0
    real = as_dtype(value)
    scalar, whole = real.type, np.dtype(f"i{real.itemsize}").type
    return lambda value: scalar(value).view(whole) < 0


def signed_zero(value, negative):
    """A number, or if it is a zero, -0.0 where ``negative`` and 0.0 elsewhere. Call it inside a kernel."""
    raise NotImplementedError("only inside compiled code")


@overload(signed_zero, jit_options=owning_nothing)
def _signed_zero(value, negative):
    if not isinstance(value, types.Float):
        return lambda value, negative: value
    plus, minus = as_dtype(value).type(0.0), as_dtype(value).type(-0.0)
    return lambda value, negative: value if value != plus else minus if negative else plus


def has_unordered(row):
    """Whether a row holds a NaN, and whether a -0.0: what comparisons do not order. Never of integers."""
    raise NotImplementedError("only inside compiled code")


@overload(has_unordered, jit_options=owning_nothing)
def _has_unordered(row):
    if not isinstance(row.dtype, types.Float):
        return lambda row: (False, False)
    whole = np.dtype(f"i{as_dtype(row.dtype).itemsize}").type
    minus_zero = whole(np.iinfo(whole).min)

    def look(row):
        bits = row.view(whole)
        nan = minus = False
        for x in range(row.size):
            nan |= row[x] != row[x]
            minus |= bits[x] == minus_zero
        return nan, minus

    return look


@kernel
def box_has_unordered(rows, y0, y1, nx):
    """`has_unordered` of all slices in rows ``y0:y1`` and the first ``nx`` columns."""
    lines = as_bytes(rows).lines
    nan = minus = False
    for first in rows.firsts:
        for y in range(y0, y1):
            more = has_unordered(lines[first + y, rows.left : rows.left + nx])
            nan |= more[0]
            minus |= more[1]
    return nan, minus


@row_kernel
def count_negative(row, counts):
    """Add 1 to ``counts[x]`` where ``row[x]`` has a minus sign."""
    for x in range(counts.size):
        counts[x] += np.uint8(is_negative(row[x]))


@row_kernel
def order_zeros(out, counts, rank):
    """Give zeros of some rank the sign that they have where -0.0 comes before 0.0.

    Of the voxels that each is taken from ``counts`` have a minus sign.
    """
    for x in range(out.size):
        out[x] = signed_zero(out[x], counts[x] > rank)


@row_kernel
def mark_nan(row, flags):
    """Set ``flags[x]`` where ``row[x]`` is NaN."""
    for x in range(flags.size):
        flags[x] |= row[x] != row[x]


@row_kernel
def write_nan(flags, out):
    """Write NaN where a flag is set; ``out`` is floating-point."""
    for x in range(out.size):
        if flags[x]:
            out[x] = np.nan


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
