"""Rows of ring buffers, the input of all neighbourhood kernels.

The kernels share one calling convention::

    kernel(src, out, y0, y1, nx, *parameters)

``src`` and ``out`` are `Rows`. Output voxel ``(k, y, x)`` is ``out.lines[out.firsts[k] + y, out.left + x]``,
computed for ``y0 <= y < y1`` and ``0 <= x < nx``; the rest of ``out`` is not changed. Offset ``(tz, ty, tx)``
of that voxel is ``src.lines[src.firsts[k + tz] + y + ty, src.left + x + tx]``. There is one element of
``src.firsts`` per input slice. Voxels beyond the volume's edges are already in the ring.

A kernel makes many views of rows, with reference counting for each. Functions that do this for every row use
`beam_volumes.kernels.jit.row_kernel` and receive their scratch arrays.

Rows are contiguous, so inner loops are plain loops over 1-D arrays, which LLVM vectorizes. Such a loop must
not write an array that it reads under another name: this fails LLVM's overlap check and falls back to scalar
code.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from beam_volumes.kernels.jit import kernel, owning_nothing, row_kernel


class Rows(NamedTuple):
    """Some slices of a ring buffer, each as a stack of rows.

    `rows_of` makes one type for each dtype, so kernels are compiled once for it.
    """

    lines: np.ndarray  #: 2-D array with all rows of the ring, C-contiguous.
    firsts: np.ndarray  #: int64. The index in ``lines`` of row 0 of each slice.
    left: int  #: The first column of rows.


def rows_of(ring: np.ndarray, slots: np.ndarray, y: int, x: int) -> Rows:
    """A view of the slices in some slots of a ring, from row ``y`` and column ``x`` on.

    >>> ring = np.arange(24).reshape(3, 2, 4)
    >>> rows = rows_of(ring, np.array([2, 0]), 1, 3)
    >>> int(rows.lines[rows.firsts[0], rows.left]), int(ring[2, 1, 3])
    (23, 23)
    """
    n, height, width = ring.shape
    return Rows(ring.reshape(n * height, width), slots * height + y, x)


def as_bytes(rows):
    """The same rows, with bool as uint8; only for compiled code."""
    raise NotImplementedError("only inside compiled code")


@overload(as_bytes)
def _as_bytes(rows):
    if rows.types[0].dtype == types.boolean:
        return lambda rows: Rows(rows.lines.view(np.uint8), rows.firsts, rows.left)
    return lambda rows: rows


def strided(array, writeable=False):
    """An array of two or three axes as ``voxels, z, y``: ``[k, j, i]`` is ``voxels[k * z + j * y + i]``."""
    # The type depends only on the dtype, also for parts of larger arrays, so kernels are compiled once. The
    # result is a view, unless the array has negative strides or is not contiguous along x; ``writeable``
    # requires a view.
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
    """Whether a row contains a NaN; never true for integers."""
    found = False
    for x in range(row.size):
        found |= row[x] != row[x]
    return found


def is_negative(value):
    """Whether a number has a minus sign, also -0.0; only for compiled code."""
    raise NotImplementedError("only inside compiled code")


@overload(is_negative, jit_options=owning_nothing)
def _is_negative(value):
    if not isinstance(value, types.Float):
        return lambda value: value < 0
    real = as_dtype(value)
    scalar, whole = real.type, np.dtype(f"i{real.itemsize}").type
    return lambda value: scalar(value).view(whole) < 0


def signed_zero(value, negative):
    """A number, or a zero with the sign ``negative``; only for compiled code."""
    raise NotImplementedError("only inside compiled code")


@overload(signed_zero, jit_options=owning_nothing)
def _signed_zero(value, negative):
    if not isinstance(value, types.Float):
        return lambda value, negative: value
    plus, minus = as_dtype(value).type(0.0), as_dtype(value).type(-0.0)
    return lambda value, negative: value if value != plus else minus if negative else plus


def has_unordered(row):
    """Whether a row contains a NaN, and whether a -0.0, which comparisons do not order."""
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
    """`has_unordered` for all slices in rows ``y0:y1`` and the first ``nx`` columns."""
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
    """Set the signs of zeros of a rank, for an order with -0.0 before 0.0.

    ``counts`` are the numbers of voxels with a minus sign under each footprint.
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


def pad_margins(ring, slots, r0, r1, c0, c1, row_map, col_map, cval):
    """Fill the margins around rows ``r0:r1`` and columns ``c0:c1`` of some slots of a ring.

    ``row_map`` and ``col_map``, int64: for each row and column the one to repeat, or -1 for ``cval``.
    """
    # Columns are filled first, in existing rows; then whole rows with their corners. So a corner is padded
    # along x, then along y. Entries of valid rows and columns are not used.
    # Voxels are only copied: dtypes of one size share a kernel.
    word = np.dtype(f"u{ring.itemsize}")
    value = np.asarray(cval, ring.dtype).view(word)[()]
    _pad_margins(ring.view(word), slots, r0, r1, c0, c1, row_map, col_map, value)


@kernel
def _pad_margins(ring, slots, r0, r1, c0, c1, row_map, col_map, cval):
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
