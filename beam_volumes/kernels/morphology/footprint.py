"""Binary morphology with any footprint, and grey morphology with a structure that is not flat."""

import numpy as np
from numba import types
from numba.extending import overload

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.filters.extremum import extremum_footprint
from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.rows import as_bytes, has_nan
from beam_volumes.kernels.scratch import needs


@needs(extremum_footprint.scratch)
@kernel
def binary_footprint(src, out, y0, y1, nx, offsets, is_dilation, scratch):
    """Whether any (dilation) or all (erosion) of the voxels under a footprint are set, as 0 and 1.

    The cost is as in `beam_volumes.kernels.filters.extremum.extremum_footprint`.
    """
    # It is the maximum or minimum of bytes. The caller reflects the footprint for a dilation. ``src`` is bool
    # or uint8 (nonzero is set). ``offsets``, int64 (n, 3), are tz, ty, tx >= 0 in raster order.
    out = as_bytes(out)
    extremum_footprint(as_bytes(src), out, y0, y1, nx, offsets, is_dilation, scratch)
    for first in out.firsts:
        for y in range(y0, y1):
            row = out.lines[first + y, out.left : out.left + nx]
            for x in range(nx):
                row[x] = row[x] != 0


def _truncated(value, dtype):
    """Convert a float64 as C does on x86: truncated, with integers wrapping around, and bool as a byte."""
    raise NotImplementedError("only inside compiled code")


@overload(_truncated)
def _truncated_for(value, dtype):
    if isinstance(dtype.dtype, types.Boolean):
        return lambda value, dtype: np.uint8(np.int64(value)) != 0
    if dtype.dtype == types.uint64:

        def unsigned(value, dtype):
            if value >= 2.0**63:
                return np.uint64(np.int64(value - 2.0**63)) + np.uint64(2**63)
            return np.uint64(np.int64(value))

        return unsigned
    if isinstance(dtype.dtype, types.Integer):
        return lambda value, dtype: dtype.type(np.int64(value))
    return lambda value, dtype: dtype.type(value)


@needs(lambda rows, cols, *_: (((cols,), np.float64),))
@kernel
def grey_footprint(src, out, y0, y1, nx, offsets, heights, is_max, scratch):
    """Grey dilation or erosion with a structure: the maximum of voxel + height, or minimum of voxel - height.

    ``offsets``, int64 (n, 3), are tz, ty, tx >= 0 in raster order, ``heights`` float64.
    """
    # It is bit-identical to scipy including its quirks. The first sum in raster order is in float64. Others
    # are in the type of the image, to which their heights are cast before, so integers wrap around. A result
    # is NaN exactly where its footprint contains one. Takes ``n`` additions and comparisons of float64 per
    # voxel and vector.
    lines, firsts, left = as_bytes(src)
    (extreme,) = scratch
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            for i in range(len(offsets)):
                at, first = firsts[k + offsets[i, 0]] + y + offsets[i, 1], left + offsets[i, 2]
                row = lines[at, first : first + nx]
                signed = heights[i] if is_max else -heights[i]
                height = _truncated(signed, row.dtype)
                if i == 0:
                    for x in range(nx):
                        extreme[x] = np.float64(row[x]) + signed
                elif is_max:
                    for x in range(nx):
                        e, v = extreme[x], np.float64(row.dtype.type(row[x] + height))
                        extreme[x] = v if (v > e) | (v != v) else e
                else:
                    for x in range(nx):
                        e, v = extreme[x], np.float64(row.dtype.type(row[x] + height))
                        extreme[x] = v if (v < e) | (v != v) else e
            result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for x in range(nx):
                result[x] = _truncated(extreme[x], result.dtype)
            if has_nan(result):
                one_nan(result)
