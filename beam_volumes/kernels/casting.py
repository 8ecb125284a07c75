"""Voxel types of kernels, and conversion of results to the output type."""

import numpy as np
from numba import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from beam_volumes.kernels.jit import owning_nothing, row_kernel


def kernel_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of voxels in kernels: float32 for float16, which numba lacks, else the same.

    >>> kernel_dtype(np.dtype("f2")), kernel_dtype(np.dtype("u1"))
    (dtype('float32'), dtype('uint8'))
    """
    half = dtype.kind == "f" and dtype.itemsize == 2  # in any byte order
    return np.dtype(np.float32) if half else dtype


def kernel_array(array: np.ndarray) -> np.ndarray:
    """An array of a kernel dtype: a float32 copy of float16, else the same array."""
    return array.astype(kernel_dtype(array.dtype), copy=False)


def rounded(value, dtype):
    """Convert ``value`` to a scalar of ``dtype``; integers round half to even and saturate.

    NaN becomes 0 in integers, and all values but 0 become True. Only for compiled code.
    """
    raise NotImplementedError("only inside compiled code")


@overload(rounded, inline="never")
def _rounded(value, dtype):
    target = dtype.dtype
    if isinstance(target, types.Boolean):
        return lambda value, dtype: value != 0
    if not isinstance(target, types.Integer):
        return lambda value, dtype: dtype.type(value)
    limits = np.iinfo(as_dtype(target))
    if isinstance(value, types.Boolean):
        return lambda value, dtype: dtype.type(value)
    if isinstance(value, types.Integer):
        own = np.iinfo(as_dtype(value))
        scalar = as_dtype(value).type
        lo, hi = scalar(max(limits.min, own.min)), scalar(min(limits.max, own.max))
        return lambda value, dtype: dtype.type(lo if value < lo else hi if value > hi else value)
    bits: int = target.bitwidth  # type: ignore[attr-defined]
    if bits <= 32:
        # Both limits, and every int64 between them, are exact in the type of the comparison.
        work = np.float32 if bits <= 16 and value == types.float32 else np.float64
        lo, hi = work(limits.min), work(limits.max)
        # Vector units convert through an integer of the same width as `work`.
        via = np.int32 if work is np.float32 or limits.max < 2**31 else np.int64

        def narrow(value, dtype):
            r = np.rint(work(value if value == value else 0))
            return dtype.type(via(lo if r < lo else hi if r > hi else r))

        return narrow

    # 64 bits: the upper limit is not a float; the next float is out of range.
    beyond, lo = float(limits.max + 1), float(limits.min)
    smallest, largest = as_dtype(target).type(limits.min), as_dtype(target).type(limits.max)

    def wide(value, dtype):
        r = np.rint(np.float64(value))
        if r >= beyond:
            return largest
        if r > lo:
            return dtype.type(r)
        if r != r:
            return dtype.type(0)
        return smallest

    return wide


def one_nan(row):
    """Set every NaN of a row of floats to the bits of ``np.nan``."""
    # The sign and payload of a computed NaN depend on the order of operands, which differs between the loops
    # that a compiler makes. The loop works on integers, because compilers treat all NaNs as equal.
    raise NotImplementedError("only inside compiled code")


@overload(one_nan, jit_options=owning_nothing)
def _one_nan(row):
    if not isinstance(row.dtype, types.Float):
        return lambda row: None
    real = as_dtype(row.dtype)
    whole = np.dtype(f"i{real.itemsize}").type
    magnitude, infinity, nan = (
        whole(np.iinfo(whole).max),
        np.array(np.inf, real).view(whole)[()],
        np.array(np.nan, real).view(whole)[()],
    )

    def integers(row):
        bits = row.view(whole)
        for x in range(bits.size):
            bits[x] = nan if (bits[x] & magnitude) > infinity else bits[x]

    return integers


@row_kernel
def cast_rounded(row, out):
    """Write ``row`` into ``out`` with `rounded` values; NaN becomes ``np.nan``."""
    holes = False
    for x in range(out.size):
        holes |= row[x] != row[x]
        out[x] = rounded(row[x], out.dtype)
    if holes:
        one_nan(out)
