"""Downsampling: each voxel of the result comes from a window of the input, clipped at the far edges.

Windows form a grid: voxel (k, y, x) of the result has the window that starts at (k fz, y fy, x fx).
"""

import math

import numpy as np
from numba import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import is_negative, signed_zero
from beam_volumes.kernels.scratch import needs


def _rows_of_sums(rows, cols, depth, dtype, *parameters):
    return ((cols,), np.float64 if dtype.kind == "f" else np.int64), ((cols,), np.int64)


@needs(_rows_of_sums)
@kernel
def mean(src, out, y0, y1, nx, rows, cols, factors, scratch):
    """Means, of integers and bool rounded half to even, of floats summed in float64.

    ``rows`` and ``cols`` are the extents of the input; ``factors`` is int64 (3,).
    """
    if max(factors) <= 2 and _is_narrow(src.lines.dtype):
        _halves(src, out, y0, y1, nx, rows, cols, factors, False)
        return
    if max(factors) <= 2 and _is_real(src.lines.dtype):
        _real_halves(src, out, y0, y1, nx, rows, cols, factors)
        return
    high, low = scratch
    fz, fy, fx = factors
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            high[:] = 0
            low[:] = 0
            count = 0
            for z in range(k * fz, min((k + 1) * fz, src.firsts.size)):
                for v in range(y * fy, min((y + 1) * fy, rows)):
                    _add(src.lines[src.firsts[z] + v, src.left : src.left + cols], high, low, fx)
                    count += 1
            for x in range(nx):
                n = count * (min((x + 1) * fx, cols) - x * fx)
                row[x] = _divided(high[x], low[x], n, out.lines.dtype)
            one_nan(row)


def _add(line, high, low, f):
    raise NotImplementedError("only inside compiled code")


@overload(_add)
def _add_for(line, high, low, f):
    if line.dtype in (types.int64, types.uint64):
        # Sums of 64-bit integers in two parts: sums of upper halves and of lower halves.
        scalar = np.int64 if line.dtype == types.int64 else np.uint64
        half, mask = scalar(32), scalar(0xFFFFFFFF)

        def halves(line, high, low, f):
            for i in range(line.size):
                high[i // f] += np.int64(line[i] >> half)
                low[i // f] += np.int64(line[i] & mask)

        return halves

    def plain(line, high, low, f):
        for x in range(high.size):
            for i in range(x * f, min((x + 1) * f, line.size)):
                high[x] += line[i]

    return plain


def _divided(high, low, n, dtype):
    raise NotImplementedError("only inside compiled code")


@overload(_divided)
def _divided_for(high, low, n, dtype):
    target = dtype.dtype
    if isinstance(target, types.Float):
        return lambda high, low, n, dtype: dtype.type(high / n)

    def even(quotient, rest, n):
        return quotient + (2 * rest > n or (2 * rest == n and quotient % 2 != 0))

    even = kernel(even)
    if target in (types.int64, types.uint64):

        def wide(high, low, n, dtype):
            upper = high // n
            lower = (high - upper * n) * 4294967296 + low
            quotient = lower // n
            quotient = even(quotient, lower - quotient * n, n)
            return dtype.type(upper) * dtype.type(4294967296) + dtype.type(quotient)

        return wide
    if isinstance(target, types.Boolean):
        return lambda high, low, n, dtype: even(high // n, high % n, n) != 0
    return lambda high, low, n, dtype: dtype.type(even(high // n, high - high // n * n, n))


def _window(rows, cols, depth, dtype, height, width, factors, method):
    slices, *others = (int(f) for f in factors)
    return (((slices * math.prod(map(min, others, (height, width))),), dtype),)


@needs(_window)
@kernel
def pick(src, out, y0, y1, nx, rows, cols, factors, method, scratch):
    """One voxel of each window: the minimum (0), maximum (1), lower median (2) or smallest mode (3).

    NaN if the window contains one; -0.0 is less than 0.0, but equal for the mode. See `mean` for parameters.
    """
    if method == 3 and max(factors) <= 2 and _is_whole(src.lines.dtype):
        _halves(src, out, y0, y1, nx, rows, cols, factors, True)
        return
    fz, fy, fx = factors
    window = scratch[0]
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for x in range(nx):
                n = np.int64(0)
                hole = False
                for z in range(k * fz, min((k + 1) * fz, src.firsts.size)):
                    for v in range(y * fy, min((y + 1) * fy, rows)):
                        line = src.lines[src.firsts[z] + v, src.left : src.left + cols]
                        for i in range(x * fx, min((x + 1) * fx, cols)):
                            window[n] = line[i]
                            hole |= line[i] != line[i]
                            n += 1
                row[x] = window[0]
                if hole:
                    for i in range(n):
                        if window[i] != window[i]:
                            row[x] = window[i]
                elif method < 2:
                    best = window[0]
                    for i in range(1, n):
                        if (window[i] > best) if method == 1 else (window[i] < best):
                            best = window[i]
                    row[x] = best
                else:
                    _sort(window, n)
                    row[x] = window[(n - 1) // 2] if method == 2 else _mode(window, n)
                if row[x] == 0:
                    row[x] = signed_zero(row[x], _is_minus_zero(window, n, method))
            one_nan(row)


def _is_narrow(dtype):
    raise NotImplementedError("only inside compiled code")


@overload(_is_narrow)
def _is_narrow_of(dtype):
    narrow = isinstance(dtype.dtype, types.Integer) and as_dtype(dtype.dtype).itemsize <= 4
    return (lambda dtype: True) if narrow else (lambda dtype: False)


def _is_whole(dtype):
    raise NotImplementedError("only inside compiled code")


@overload(_is_whole)
def _is_whole_of(dtype):
    whole = isinstance(dtype.dtype, types.Integer | types.Boolean)
    return (lambda dtype: True) if whole else (lambda dtype: False)


@kernel
def _halves(src, out, y0, y1, nx, rows, cols, factors, is_mode):
    """Means or modes of integers, in windows of at most two voxels along each axis.

    Windows always have eight voxels: missing ones repeat others, which changes neither means nor modes.
    """
    fz, fy, fx = factors
    for k in range(out.firsts.size):
        za = k * fz
        zb = min(za + fz, src.firsts.size) - 1
        for y in range(y0, y1):
            ya = y * fy
            yb = min(ya + fy, rows) - 1
            end = src.left + cols
            a = src.lines[src.firsts[za] + ya, src.left : end]
            b = src.lines[src.firsts[za] + yb, src.left : end]
            c = src.lines[src.firsts[zb] + ya, src.left : end]
            d = src.lines[src.firsts[zb] + yb, src.left : end]
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            if is_mode:
                _modes(a, b, c, d, row, fx)
            else:
                _means(a, b, c, d, row, fx)


@row_kernel
def _means(a, b, c, d, row, fx):
    """Means of pairs of columns of four rows, rounded half to even."""
    whole = a.size // 2 if fx == 2 else 0
    for x in range(whole):
        i = 2 * x
        s = _plus(a[i], a[i + 1], b[i], b[i + 1]) + _plus(c[i], c[i + 1], d[i], d[i + 1])
        row[x] = (s + 3 + ((s >> 3) & 1)) >> 3
    for x in range(whole, row.size):
        i = x * fx
        s = _plus(a[i], a[i], b[i], b[i]) + _plus(c[i], c[i], d[i], d[i])
        row[x] = (s + 3 + ((s >> 3) & 1)) >> 3


def _plus(a, b, c, d):
    raise NotImplementedError("only inside compiled code")


@overload(_plus)
def _plus_of(a, b, c, d):
    if isinstance(a, types.Integer) and as_dtype(a).itemsize <= 2:
        return lambda a, b, c, d: (np.int32(a) + np.int32(b)) + (np.int32(c) + np.int32(d))
    return lambda a, b, c, d: (np.int64(a) + np.int64(b)) + (np.int64(c) + np.int64(d))


def _is_real(dtype):
    raise NotImplementedError("only inside compiled code")


@overload(_is_real)
def _is_real_of(dtype):
    real = isinstance(dtype.dtype, types.Float)
    return (lambda dtype: True) if real else (lambda dtype: False)


@kernel
def _real_halves(src, out, y0, y1, nx, rows, cols, factors):
    """Means of floats in windows of at most two voxels along each axis."""
    # Sums are in the order of the voxels, for many windows at once. Windows have 1, 2, 4 or 8 voxels, so
    # multiplication by the inverse is exact.
    fz, fy, fx = factors
    for k in range(out.firsts.size):
        za = k * fz
        zb = min(za + fz, src.firsts.size) - 1
        for y in range(y0, y1):
            ya = y * fy
            yb = min(ya + fy, rows) - 1
            end = src.left + cols
            a = src.lines[src.firsts[za] + ya, src.left : end]
            b = src.lines[src.firsts[za] + yb, src.left : end]
            c = src.lines[src.firsts[zb] + ya, src.left : end]
            d = src.lines[src.firsts[zb] + yb, src.left : end]
            row = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            if za < zb and ya < yb:
                _of_four(a, b, c, d, row, fx)
            elif za < zb or ya < yb:
                _of_two(a, d, row, fx)
            else:
                _of_one(a, row, fx)
            one_nan(row)


@row_kernel
def _of_four(a, b, c, d, row, fx):
    """Means of columns, or of pairs of columns, of four rows."""
    whole = a.size // 2 if fx == 2 else 0
    for x in range(whole):
        i = 2 * x
        s = _after(_after(0.0, a[i], a[i + 1]), b[i], b[i + 1])
        row[x] = _after(_after(s, c[i], c[i + 1]), d[i], d[i + 1]) * 0.125
    for x in range(whole, row.size):
        i = x * fx
        row[x] = _after(_after(0.0, a[i], b[i]), c[i], d[i]) * 0.25


@row_kernel
def _of_two(a, b, row, fx):
    whole = a.size // 2 if fx == 2 else 0
    for x in range(whole):
        i = 2 * x
        row[x] = _after(_after(0.0, a[i], a[i + 1]), b[i], b[i + 1]) * 0.25
    for x in range(whole, row.size):
        i = x * fx
        row[x] = _after(0.0, a[i], b[i]) * 0.5


@row_kernel
def _of_one(a, row, fx):
    whole = a.size // 2 if fx == 2 else 0
    for x in range(whole):
        i = 2 * x
        row[x] = _after(0.0, a[i], a[i + 1]) * 0.5
    for x in range(whole, row.size):
        row[x] = np.float64(a[x * fx]) + 0.0


@row_kernel
def _after(total, first, second):
    """Add two more voxels to a sum. It started with 0, so it is never -0.0."""
    return (total + np.float64(first)) + np.float64(second)


@row_kernel
def _modes(a, b, c, d, row, fx):
    """Modes of pairs of columns of four rows."""
    whole = a.size // 2 if fx == 2 else 0
    for x in range(whole):
        i = 2 * x
        row[x] = _mode_of_eight(a[i], a[i + 1], b[i], b[i + 1], c[i], c[i + 1], d[i], d[i + 1])
    for x in range(whole, row.size):
        i = x * fx
        row[x] = _mode_of_eight(a[i], a[i], b[i], b[i], c[i], c[i], d[i], d[i])


def _mode_of_eight(a, b, c, d, e, f, g, h):
    raise NotImplementedError("only inside compiled code")


@overload(_mode_of_eight, jit_options={"forceinline": True})
def _most_of(a, b, c, d, e, f, g, h):
    """The mode of eight without branches, so compilers vectorize it.

    Counts have the voxels' dtype, so as many of them fit a register.
    """
    if isinstance(a, types.Boolean):
        return lambda a, b, c, d, e, f, g, h: (0 + a + b + c + d + e + f + g + h) > 4
    to = as_dtype(a).type

    def mode(a, b, c, d, e, f, g, h):
        ab, ac, ad, ae, af, ag, ah = a == b, a == c, a == d, a == e, a == f, a == g, a == h
        bc, bd, be, bf, bg, bh = b == c, b == d, b == e, b == f, b == g, b == h
        cd, ce, cf, cg, ch = c == d, c == e, c == f, c == g, c == h
        de, df, dg, dh = d == e, d == f, d == g, d == h
        ef, eg, eh = e == f, e == g, e == h
        fg, fh, gh = f == g, f == h, g == h
        best, n = a, to(ab + ac + ad + ae + af + ag + ah)
        best, n = _better(best, n, b, to(ab + bc + bd + be + bf + bg + bh))
        best, n = _better(best, n, c, to(ac + bc + cd + ce + cf + cg + ch))
        best, n = _better(best, n, d, to(ad + bd + cd + de + df + dg + dh))
        best, n = _better(best, n, e, to(ae + be + ce + de + ef + eg + eh))
        best, n = _better(best, n, f, to(af + bf + cf + df + ef + fg + fh))
        best, n = _better(best, n, g, to(ag + bg + cg + dg + eg + fg + gh))
        best, n = _better(best, n, h, to(ah + bh + ch + dh + eh + fh + gh))
        return best

    return mode


@kernel
def _better(best, n, value, count):
    """The more frequent of two values, and its count; the smaller one if counts are equal."""
    is_better = (count > n) | ((count == n) & (value < best))
    return (value if is_better else best), (count if is_better else n)


@kernel
def _is_minus_zero(window, n, method):
    """Whether the zero selected from the first ``n`` is -0.0."""
    below, zeros = 0, 0  # negative numbers, and the zeros among them
    for i in range(n):
        below += is_negative(window[i])
        zeros += is_negative(window[i]) & (window[i] == 0)
    if method == 3:
        return zeros > 0
    return below > (0 if method == 0 else n - 1 if method == 1 else (n - 1) // 2)


@kernel
def _sort(window, n):
    """Sort the first ``n`` by insertion, since they are few."""
    if n > 64:
        window[:n].sort()
        return
    for i in range(1, n):
        value, j = window[i], i
        while j > 0 and window[j - 1] > value:
            window[j] = window[j - 1]
            j -= 1
        window[j] = value


@kernel
def _mode(window, n):
    """The most frequent of the first ``n`` sorted values; the smallest of several."""
    best, frequency, begun = window[0], 0, 0
    for i in range(1, n + 1):
        if i == n or window[i] != window[begun]:
            if i - begun > frequency:
                best, frequency = window[begun], i - begun
            begun = i
    return best
