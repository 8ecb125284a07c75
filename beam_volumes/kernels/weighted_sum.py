"""The inner loop of every linear filter: a weighted sum of rows, in a fixed order per voxel."""

import numpy as np
from numba import types
from numba.extending import overload

from beam_volumes.kernels.jit import kernel

GENERAL, SYMMETRIC, ANTISYMMETRIC = 0, 1, -1


@kernel
def parity(weights):
    """Whether taps pair up around a centre: `SYMMETRIC`, `ANTISYMMETRIC` or `GENERAL`."""
    n = weights.size
    if n % 2 == 0 or n == 1:
        return GENERAL
    even = odd = True
    for t in range(n // 2):
        even &= weights[t] == weights[n - 1 - t]
        odd &= weights[t] == -weights[n - 1 - t]
    # The centre of an odd kernel is 0; any other centre would still be summed rightly.
    return SYMMETRIC if even else ANTISYMMETRIC if odd else GENERAL


@kernel
def weighted_sum(lines, rows, cols, weights, pairing, out):
    """``out[x] = sum over t of weights[t] * lines[rows[t], cols[t] + x]``, in the type of ``out``.

    Tap by tap as ``weights`` lists them, or, for a ``pairing`` other than `GENERAL`, the centre and
    then pairs from the outermost inwards (scipy's order: half the multiplications). Zero weights
    are multiplied like others, so a NaN under them shows. Several taps share one pass over the row,
    which changes the traffic to L1 but no operation: vector lanes are voxels.

    Cost: about one multiply-add a tap (half for pairs) over the vector width.
    """
    if pairing == GENERAL:
        _general(lines, rows, cols, weights, out)
    elif pairing == SYMMETRIC:
        _symmetric(lines, rows, cols, weights, out)
    else:
        _antisymmetric(lines, rows, cols, weights, out)


@kernel
def _general(lines, rows, cols, weights, out):
    real = out.dtype.type
    n, taps = out.size, weights.size
    row = lines[rows[0], cols[0] : cols[0] + n]
    w = weights[0]
    for x in range(n):
        out[x] = w * real(row[x])
    t = 1
    while t + 4 <= taps:
        a = lines[rows[t], cols[t] : cols[t] + n]
        b = lines[rows[t + 1], cols[t + 1] : cols[t + 1] + n]
        c = lines[rows[t + 2], cols[t + 2] : cols[t + 2] + n]
        d = lines[rows[t + 3], cols[t + 3] : cols[t + 3] + n]
        wa, wb, wc, wd = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        for x in range(n):
            s = out[x] + wa * real(a[x])
            s = s + wb * real(b[x])
            s = s + wc * real(c[x])
            out[x] = s + wd * real(d[x])
        t += 4
    while t < taps:
        row = lines[rows[t], cols[t] : cols[t] + n]
        w = weights[t]
        for x in range(n):
            out[x] += w * real(row[x])
        t += 1


@kernel
def _pair(lines, rows, cols, t, n):
    """The rows of tap ``t`` from the start and of the one it mirrors."""
    u = rows.size - 1 - t
    return lines[rows[t], cols[t] : cols[t] + n], lines[rows[u], cols[u] : cols[u] + n]


def _both(a, b, out):
    """``a + b`` in the type of ``out``."""
    raise NotImplementedError("only inside compiled code")


@overload(_both)
def _both_for(a, b, out):
    if isinstance(a, types.Integer) and a.bitwidth <= 16:  # type: ignore[attr-defined]
        # the same number, with one conversion
        return lambda a, b, out: out.dtype.type(np.int32(np.int32(a) + np.int32(b)))
    return lambda a, b, out: out.dtype.type(a) + out.dtype.type(b)


@kernel
def _symmetric(lines, rows, cols, weights, out):
    real = out.dtype.type
    n, centre = out.size, weights.size // 2
    row = lines[rows[centre], cols[centre] : cols[centre] + n]
    w = weights[centre]
    t = centre % 3
    if t == 0:
        for x in range(n):
            out[x] = w * real(row[x])
    elif t == 1:
        a, b = _pair(lines, rows, cols, 0, n)
        wa = weights[0]
        for x in range(n):
            out[x] = w * real(row[x]) + wa * _both(a[x], b[x], out)
    else:
        a, b = _pair(lines, rows, cols, 0, n)
        c, d = _pair(lines, rows, cols, 1, n)
        wa, wc = weights[0], weights[1]
        for x in range(n):
            s = w * real(row[x]) + wa * _both(a[x], b[x], out)
            out[x] = s + wc * _both(c[x], d[x], out)
    while t < centre:
        a, b = _pair(lines, rows, cols, t, n)
        c, d = _pair(lines, rows, cols, t + 1, n)
        e, f = _pair(lines, rows, cols, t + 2, n)
        wa, wc, we = weights[t], weights[t + 1], weights[t + 2]
        for x in range(n):
            s = out[x] + wa * _both(a[x], b[x], out)
            s = s + wc * _both(c[x], d[x], out)
            out[x] = s + we * _both(e[x], f[x], out)
        t += 3


@kernel
def _antisymmetric(lines, rows, cols, weights, out):
    real = out.dtype.type
    n, centre = out.size, weights.size // 2
    row = lines[rows[centre], cols[centre] : cols[centre] + n]
    w = weights[centre]
    for x in range(n):
        out[x] = w * real(row[x])
    for t in range(centre):
        a, b = _pair(lines, rows, cols, t, n)
        w = weights[t]
        for x in range(n):
            out[x] += w * (real(a[x]) - real(b[x]))
