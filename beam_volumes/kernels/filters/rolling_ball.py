"""The background of a volume: the lowest position of a ball that rolls under it."""

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import has_nan
from beam_volumes.kernels.scratch import needs


@row_kernel
def _lower(row, heights, out):
    """Lower ``out[x]`` to ``row[x + t] + heights[t]`` for each t; NaN stays."""
    n, taps = out.size, heights.size
    t = 0
    while t + 4 <= taps:
        a, b, c, d = heights[t], heights[t + 1], heights[t + 2], heights[t + 3]
        ra, rb, rc, rd = (
            row[t : t + n],
            row[t + 1 : t + 1 + n],
            row[t + 2 : t + 2 + n],
            row[t + 3 : t + 3 + n],
        )
        for x in range(n):
            e = out[x]
            v, w = out.dtype.type(ra[x] + a), out.dtype.type(rb[x] + b)
            e = v if (v < e) | (v != v) else e
            e = w if (w < e) | (w != w) else e
            v, w = out.dtype.type(rc[x] + c), out.dtype.type(rd[x] + d)
            e = v if (v < e) | (v != v) else e
            out[x] = w if (w < e) | (w != w) else e
        t += 4
    for i in range(t, taps):
        a, ra = heights[i], row[i : i + n]
        for x in range(n):
            e, v = out[x], out.dtype.type(ra[x] + a)
            out[x] = v if (v < e) | (v != v) else e


@row_kernel
def _rows(src, out, y0, y1, offsets, heights, own, extreme, row):
    lines, firsts, left = src
    n = extreme.size
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            centre = lines[firsts[k + own[0]] + y + own[1], left + own[2] :]
            for x in range(n):
                extreme[x] = centre[x]
            at = 0
            while at < len(offsets):
                tz, ty, tx = offsets[at, 0], offsets[at, 1], offsets[at, 2]
                taps = _run(offsets, at)
                line = lines[firsts[k + tz] + y + ty, left + tx :]
                for x in range(n + taps - 1):
                    row[x] = line[x]
                _lower(row, heights[at : at + taps], extreme)
                at += taps
            result = out.lines[out.firsts[k] + y, out.left : out.left + n]
            for x in range(n):
                result[x] = extreme[x]
            if has_nan(result):
                one_nan(result)


@row_kernel
def _run(offsets, at):
    """The number of neighbouring offsets along x from ``at`` on."""
    n = 1
    while at + n < len(offsets) and (
        offsets[at + n, 0] == offsets[at, 0]
        and offsets[at + n, 1] == offsets[at, 1]
        and offsets[at + n, 2] == offsets[at, 2] + n
    ):
        n += 1
    return n


def _scratch(rows, cols, depth, dtype, offsets, heights, *parameters):
    return ((cols,), heights.dtype), ((cols + int(offsets[:, 2].max()),), heights.dtype)


@needs(_scratch)
@kernel
def rolling_ball(src, out, y0, y1, nx, offsets, heights, own, scratch):
    """The minimum of voxel + height under a kernel with height 0 at its centre ``own``.

    It is computed in the type of ``heights``, which holds all sums; ``out`` has the type of ``src``. A result
    is NaN exactly where its footprint contains one. ``offsets``, int64 (n, 3), are tz, ty, tx >= 0 in raster
    order. ``n`` additions and comparisons per voxel and vector.
    """
    _rows(src, out, y0, y1, offsets, heights, own, *scratch)
