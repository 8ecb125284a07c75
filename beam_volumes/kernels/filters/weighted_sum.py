"""The inner loop of linear filters: a weighted sum of rows, in a fixed order per voxel."""

import numpy as np
from numba import types
from numba.extending import overload

from beam_volumes.kernels.casting import cast_rounded, one_nan
from beam_volumes.kernels.jit import kernel, owning_nothing, row_kernel
from beam_volumes.kernels.rows import has_nan

GENERAL, SYMMETRIC, ANTISYMMETRIC = 0, 1, -1


@kernel
def parity(weights):
    """Whether weights pair up around a centre: `SYMMETRIC`, `ANTISYMMETRIC` or `GENERAL`."""
    n = weights.size
    if n % 2 == 0 or n == 1:
        return GENERAL
    even = odd = True
    for t in range(n // 2):
        even &= weights[t] == weights[n - 1 - t]
        odd &= weights[t] == -weights[n - 1 - t]
    # The centre of an antisymmetric kernel is 0; any other centre would still be summed correctly.
    return SYMMETRIC if even else ANTISYMMETRIC if odd else GENERAL


@row_kernel
def weighted_sum(voxels, starts, weights, pairing, out):
    """``out[x] = sum over t of weights[t] * voxels[starts[t] + x]``, in the type of ``out``."""
    # Terms are added in the order of ``weights``. With a ``pairing`` other than `GENERAL`, the centre comes
    # first, then pairs from the outermost inwards (scipy's order, with half the multiplications). Zero
    # weights are multiplied, too, so a NaN under them propagates. Several terms share one loop over the row,
    # which saves L1 traffic without changing the operations.
    if pairing == GENERAL:
        _general(voxels, starts, weights, out)
    elif pairing == SYMMETRIC:
        _symmetric(voxels, starts, weights, out)
    else:
        _antisymmetric(voxels, starts, weights, out)


def rounded_sum(voxels, starts, weights, pairing, spare, out):
    """`weighted_sum` in the type of ``spare``, converted by `cast_rounded`, without ``spare`` if possible."""
    raise NotImplementedError("only inside compiled code")


@overload(rounded_sum, jit_options=owning_nothing)
def _rounded_sum(voxels, starts, weights, pairing, spare, out):
    def straight(voxels, starts, weights, pairing, spare, out):
        weighted_sum(voxels, starts, weights, pairing, out)
        if has_nan(out):
            one_nan(out)

    def by_way_of_spare(voxels, starts, weights, pairing, spare, out):
        weighted_sum(voxels, starts, weights, pairing, spare)
        cast_rounded(spare, out)

    return straight if out.dtype == spare.dtype else by_way_of_spare


@row_kernel
def _general(voxels, starts, weights, out):
    real = out.dtype.type
    n, taps = out.size, weights.size
    row = voxels[starts[0] : starts[0] + n]
    w = weights[0]
    for x in range(n):
        out[x] = w * real(row[x])
    t = 1
    while t + 4 <= taps:
        a = voxels[starts[t] : starts[t] + n]
        b = voxels[starts[t + 1] : starts[t + 1] + n]
        c = voxels[starts[t + 2] : starts[t + 2] + n]
        d = voxels[starts[t + 3] : starts[t + 3] + n]
        wa, wb, wc, wd = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        for x in range(n):
            s = out[x] + wa * real(a[x])
            s = s + wb * real(b[x])
            s = s + wc * real(c[x])
            out[x] = s + wd * real(d[x])
        t += 4
    while t < taps:
        row = voxels[starts[t] : starts[t] + n]
        w = weights[t]
        for x in range(n):
            out[x] += w * real(row[x])
        t += 1


@row_kernel
def _pair(voxels, starts, t, last, n):
    """The rows of term ``t`` from the start, and of its mirror image."""
    a, b = starts[t], starts[last - t]
    return voxels[a : a + n], voxels[b : b + n]


def _both(a, b, out):
    """``a + b`` in the type of ``out``."""
    raise NotImplementedError("only inside compiled code")


@overload(_both)
def _both_for(a, b, out):
    if isinstance(a, types.Integer) and a.bitwidth <= 16:  # type: ignore[attr-defined]
        # equal, with one conversion
        return lambda a, b, out: out.dtype.type(np.int32(np.int32(a) + np.int32(b)))
    return lambda a, b, out: out.dtype.type(a) + out.dtype.type(b)


@row_kernel
def _symmetric(voxels, starts, weights, out):
    real = out.dtype.type
    n, centre, last = out.size, weights.size // 2, weights.size - 1
    row = voxels[starts[centre] : starts[centre] + n]
    w = weights[centre]
    t = (centre - 1) % 4 + 1  # the first group of pairs; the others have four
    a, b = _pair(voxels, starts, np.int64(0), last, n)
    wa = weights[0]
    if t == 1:
        for x in range(n):
            out[x] = w * real(row[x]) + wa * _both(a[x], b[x], out)
    else:
        c, d = _pair(voxels, starts, np.int64(1), last, n)
        wc = weights[1]
        if t == 2:
            for x in range(n):
                s = w * real(row[x]) + wa * _both(a[x], b[x], out)
                out[x] = s + wc * _both(c[x], d[x], out)
        else:
            e, f = _pair(voxels, starts, np.int64(2), last, n)
            we = weights[2]
            if t == 3:
                for x in range(n):
                    s = w * real(row[x]) + wa * _both(a[x], b[x], out)
                    s = s + wc * _both(c[x], d[x], out)
                    out[x] = s + we * _both(e[x], f[x], out)
            else:
                g, h = _pair(voxels, starts, np.int64(3), last, n)
                wg = weights[3]
                for x in range(n):
                    s = w * real(row[x]) + wa * _both(a[x], b[x], out)
                    s = s + wc * _both(c[x], d[x], out)
                    s = s + we * _both(e[x], f[x], out)
                    out[x] = s + wg * _both(g[x], h[x], out)
    while t < centre:
        a, b = _pair(voxels, starts, t, last, n)
        c, d = _pair(voxels, starts, t + 1, last, n)
        e, f = _pair(voxels, starts, t + 2, last, n)
        g, h = _pair(voxels, starts, t + 3, last, n)
        wa, wc, we, wg = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        for x in range(n):
            s = out[x] + wa * _both(a[x], b[x], out)
            s = s + wc * _both(c[x], d[x], out)
            s = s + we * _both(e[x], f[x], out)
            out[x] = s + wg * _both(g[x], h[x], out)
        t += 4


@row_kernel
def _antisymmetric(voxels, starts, weights, out):
    real = out.dtype.type
    n, centre, last = out.size, weights.size // 2, weights.size - 1
    row = voxels[starts[centre] : starts[centre] + n]
    w = weights[centre]
    for x in range(n):
        out[x] = w * real(row[x])
    for t in range(centre):
        a, b = _pair(voxels, starts, t, last, n)
        w = weights[t]
        for x in range(n):
            out[x] += w * (real(a[x]) - real(b[x]))
