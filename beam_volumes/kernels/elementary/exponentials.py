"""Logarithms, hyperbolic functions and powers of float64, with the same bits on every machine.

Like `beam_volumes.kernels.elementary.exp_log`, they use only IEEE ``+ - * /``, square roots and bit
operations. The approximations are from FreeBSD's msun (fdlibm, Sun Microsystems 1993), with errors of at most
2 ulp.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.elementary.exp_log import exp_value
from beam_volumes.kernels.jit import kernel

_LN2_HI = 6.93147180369123816490e-01
_LN2_LO = 1.90821492927058770002e-10
_INV_LN2 = 1.44269504088896338700
_HIGH = np.int64(-(1 << 32))  # the upper half of a float64

_L1 = 6.666666666666735130e-01
_L2 = 3.999999999940941908e-01
_L3 = 2.857142874366239149e-01
_L4 = 2.222219843214978396e-01
_L5 = 1.818357216161805012e-01
_L6 = 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01


@kernel
def high_part(x):
    """Clear the lower half of a float64's bits; products of such numbers are nearly exact."""
    return np.int64(np.float64(x).view(np.int64) & _HIGH).view(np.float64)


@kernel
def product_in_two(a, b):
    """``a * b`` and its rounding error (T. Dekker, 1971)."""
    p = a * b
    c = a * 134217729.0
    a1 = c - (c - a)
    c = b * 134217729.0
    b1 = c - (c - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@kernel
def power_of_two(n):
    """``2.0**n`` for -1022 <= n <= 1023."""
    return np.int64((np.int64(n) + 1023) << 52).view(np.float64)


@kernel
def scaled(x, n):
    """``x * 2**n``, rounded once: -1991 <= n <= 1024."""
    if n < -1022:
        return x * power_of_two(-969) * power_of_two(n + 969)
    if n > 1023:
        return x * 2.0 * power_of_two(n - 1)
    return x * power_of_two(n)


@kernel
def _split(x):
    """``(k, m)`` with ``x = 2**k m`` and ``m`` in [sqrt(1/2), sqrt(2)), for a finite x above 0."""
    k = 0
    if x < 2.2250738585072014e-308:
        k -= 54
        x *= 18014398509481984.0
    bits = np.float64(x).view(np.int64) + np.int64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    k += (bits >> 52) - 1023
    m = np.int64((bits & np.int64(0xFFFFFFFFFFFFF)) + np.int64(0x3FE6A09E667F3BCD))
    return np.float64(k), m.view(np.float64)


@kernel
def _series(f):
    """An approximation of ``log(1 + f) - f + f*f/2``: https://netlib.org/fdlibm/e_log.c."""
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7)))
    even = w * (_L2 + w * (_L4 + w * _L6))
    return s * (0.5 * f * f + (odd + even))


@kernel
def _log_of_base(x, inv_hi, inv_lo, step_hi, step_lo):
    """Logarithm to a base: ``inv`` is 1/ln(base) and ``step`` is log(2), each in a high and a low part."""
    if x != x:
        return np.nan
    if x == 0.0:
        return -np.inf
    if x < 0.0:
        return np.nan
    if x == np.inf:
        return x
    if x == 1.0:
        return 0.0
    k, m = _split(x)
    f = m - 1.0
    half = 0.5 * f * f
    r = _series(f)
    hi = high_part(f - half)
    lo = (f - hi) - half + r
    high = hi * inv_hi
    step = k * step_hi
    low = k * step_lo + (lo + hi) * inv_lo + lo * inv_hi
    whole = step + high
    low += (step - whole) + high
    return low + whole


@kernel
def log10_value(x):
    """https://github.com/freebsd/freebsd-src/blob/main/lib/msun/src/e_log10.c."""
    return _log_of_base(
        np.float64(x),
        4.34294481878168880939e-01,
        2.50829467116452752298e-11,
        3.01029995663611771306e-01,
        3.69423907715893078616e-13,
    )


@kernel
def log2_value(x):
    """https://github.com/freebsd/freebsd-src/blob/main/lib/msun/src/e_log2.c."""
    return _log_of_base(
        np.float64(x), 1.44269504072144627571e00, 1.67517131648865118353e-10, 1.0, 0.0
    )


@kernel
def log1p_value(x):
    """https://netlib.org/fdlibm/s_log1p.c."""
    x = np.float64(x)
    if x != x or x < -1.0:
        return np.nan
    if x == -1.0:
        return -np.inf
    if x == np.inf or abs(x) < 1.1102230246251565e-16:
        return x
    k, f, c = 0.0, x, 0.0
    if not -0.2928932188134524 < x < 0.41421356237309503:
        u = 1.0 + x
        k, m = _split(u)
        # The rounding error of 1 + x.
        c = (1.0 - (u - x) if k >= 2.0 else x - (u - 1.0)) / u if k < 54.0 else 0.0
        f = m - 1.0
    half = 0.5 * f * f
    return _series(f) + (k * _LN2_LO + c) - half + f + k * _LN2_HI


@kernel
def expm1_value(x):
    """https://netlib.org/fdlibm/s_expm1.c."""
    x = np.float64(x)
    if x != x or x == np.inf or abs(x) < 5.551115123125783e-17:
        return x
    if x > 709.782712893383973096:
        return np.inf
    if x < -56.0 * 0.6931471805599453:
        return -1.0
    k, c = 0, 0.0
    if abs(x) > 0.34657359027997264:
        k = int(_INV_LN2 * x + (0.5 if x > 0 else -0.5))
        hi, lo = x - k * _LN2_HI, k * _LN2_LO
        x = hi - lo
        c = (hi - x) - lo
    half = 0.5 * x
    hxs = x * half
    r1 = 1.0 + hxs * (
        -3.33333333333331316428e-02
        + hxs
        * (
            1.58730158725481460165e-03
            + hxs
            * (
                -7.93650757867487942473e-05
                + hxs * (4.00821782732936239552e-06 + hxs * -2.01099218183624371326e-07)
            )
        )
    )
    t = 3.0 - r1 * half
    e = hxs * ((r1 - t) / (6.0 - x * t))
    if k == 0:
        return x - (x * e - hxs)
    e = x * (e - c) - c
    e -= hxs
    if k == -1:
        return 0.5 * (x - e) - 0.5
    if k == 1:
        return -2.0 * (e - (x + 0.5)) if x < -0.25 else 1.0 + 2.0 * (x - e)
    if k < 0 or k > 56:
        y = 1.0 - (e - x)
        y = y * 2.0 * power_of_two(1023) if k == 1024 else y * power_of_two(k)
        return y - 1.0
    if k < 20:
        return (1.0 - power_of_two(-k) - (e - x)) * power_of_two(k)
    return (x - (e + power_of_two(-k)) + 1.0) * power_of_two(k)


@kernel
def _half_exp(x):
    """``exp(x) / 2`` where it is finite, even if exp(x) is not."""
    return (
        exp_value(x) * 0.5
        if x < 709.0
        else exp_value(x - 2.0 * 0.6931471803691238)
        * (
            # Subtract 2 ln 2 in two parts; the first one is exact.
            2.0 * (1.0 - 2.0 * _LN2_LO)
        )
    )


@kernel
def sinh_value(x):
    """https://netlib.org/fdlibm/e_sinh.c."""
    x = np.float64(x)
    a = abs(x)
    if x != x or a == np.inf or a < 3.725290298461914e-09:
        return x
    sign = 1.0 if x > 0 else -1.0
    if a < 22.0:
        t = expm1_value(a)
        if a < 1.0:
            return sign * 0.5 * (2.0 * t - t * t / (t + 1.0))
        return sign * 0.5 * (t + t / (t + 1.0))
    return sign * _half_exp(a)


@kernel
def cosh_value(x):
    """https://netlib.org/fdlibm/e_cosh.c."""
    a = abs(np.float64(x))
    if a != a or a == np.inf:
        return a
    if a < 0.34657359027997264:
        t = expm1_value(a)
        return 1.0 + t * t / (2.0 * (1.0 + t))
    if a < 22.0:
        t = exp_value(a)
        return 0.5 * t + 0.5 / t
    return _half_exp(a)


@kernel
def tanh_value(x):
    """https://netlib.org/fdlibm/s_tanh.c."""
    x = np.float64(x)
    a = abs(x)
    if x != x or a < 3.725290298461914e-09:
        return x
    sign = 1.0 if x > 0 else -1.0
    if a > 22.0:
        return sign
    if a > 0.5493061443340549:
        return sign * (1.0 - 2.0 / (expm1_value(2.0 * a) + 2.0))
    # t / (t + 2), with the rounding errors of the sum and the quotient
    t = expm1_value(2.0 * a)
    below = t + 2.0
    y = t / below
    whole, rest = product_in_two(y, below)
    return sign * (y + ((t - whole) - rest - y * (t - (below - 2.0))) / below)


@kernel
def power_value(x, y):
    """``x**y`` with C's rules for infinities and NaN: https://netlib.org/fdlibm/e_pow.c."""
    x, y = np.float64(x), np.float64(y)
    if y == 0.0 or x == 1.0:
        return 1.0
    if x != x or y != y:
        return np.nan
    ax, ay = abs(x), abs(y)
    # Integers: 1 if odd, 2 if even.
    whole = 0
    if ay >= 9007199254740992.0:
        whole = 2
    elif ay == np.floor(ay):
        whole = 1 if np.int64(ay) & 1 else 2
    negative = np.float64(x).view(np.int64) < 0
    sign = -1.0 if negative and whole == 1 else 1.0
    if ay == np.inf:
        if ax == 1.0:
            return 1.0
        return np.inf if (ax > 1.0) == (y > 0.0) else 0.0
    if ax == 0.0 or ax == np.inf:
        return sign * (np.inf if (ax > 1.0) == (y > 0.0) else 0.0)
    if negative and whole == 0:
        return np.nan
    if ax == 1.0:
        return sign
    if ay > 2147483648.0:
        if ay > 1.8446744073709552e19:
            return sign * (np.inf if (ax > 1.0) == (y > 0.0) else 0.0)
        if ax < 0.9999990463256836:
            return sign * (np.inf if y < 0.0 else 0.0)
        if ax > 1.0000009536743164:
            return sign * (np.inf if y > 0.0 else 0.0)
        t = ax - 1.0  # |t| < 2**-20: four terms
        w = (t * t) * (0.5 - t * (0.3333333333333333333333 - t * 0.25))
        u = 1.44269502162933349609e00 * t
        v = t * 1.92596299112661746887e-08 - w * _INV_LN2
        t1 = high_part(u + v)
        t2 = v - (t1 - u)
    else:
        t1, t2 = _log2_in_two(ax)
    y1 = high_part(y)
    low = (y - y1) * t1 + y * t2
    high = y1 * t1
    z = low + high
    if z > 1025.0 or (z >= 1024.0 and (z > 1024.0 or low + 8.0085662595372944372e-17 > z - high)):
        return sign * np.inf
    if z < -1075.0:
        return sign * 0.0
    n = np.int64(np.floor(z + 0.5)) if abs(z) > 0.5 else np.int64(0)
    high -= np.float64(n)
    t = high_part(low + high)
    u = t * 6.93147182464599609375e-01
    v = (low - (t - high)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09
    z = u + v
    w = v - (z - u)
    t = z * z
    t1 = z - t * (
        1.66666666666666019037e-01
        + t
        * (
            -2.77777777770155933842e-03
            + t
            * (
                6.61375632143793436117e-05
                + t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08)
            )
        )
    )
    r = (z * t1) / (t1 - 2.0) - (w + z * w)
    return sign * scaled(1.0 - (r - z), n)


@kernel
def _log2_in_two(ax):
    """``log2(ax)`` as a sum of two float64, for finite ax above 0 other than 1."""
    n = np.int64(0)
    if ax < 2.2250738585072014e-308:
        ax *= 9007199254740992.0
        n -= 53
    bits = np.float64(ax).view(np.int64)
    n += (bits >> 52) - 1023
    mantissa = bits & np.int64(0xFFFFFFFFFFFFF)
    bits = mantissa | np.int64(0x3FF0000000000000)
    top = mantissa >> 32
    k = 0
    if top > 0x3988E:
        if top < 0xBB67A:
            k = 1
        else:
            n += 1
            bits -= np.int64(1) << 52
    ax = np.int64(bits).view(np.float64)
    at = 1.5 if k else 1.0
    u, v = ax - at, 1.0 / (ax + at)
    s = u * v
    s_h = high_part(s)
    t_h = high_part(ax + at)
    t_l = ax - (t_h - at)
    s_l = v * ((u - s_h * t_h) - s_h * t_l)
    s2 = s * s
    r = (s2 * s2) * (
        5.99999999999994648725e-01
        + s2
        * (
            4.28571428578550184252e-01
            + s2
            * (
                3.33333329818377432918e-01
                + s2
                * (
                    2.72728123808534006489e-01
                    + s2 * (2.30660745775561754067e-01 + s2 * 2.06975017800338417784e-01)
                )
            )
        )
    )
    r += s_l * (s_h + s)
    s2 = s_h * s_h
    t_h = high_part(3.0 + s2 + r)
    t_l = r - ((t_h - 3.0) - s2)
    u = s_h * t_h
    v = s_l * t_h + t_l * s
    p_h = high_part(u + v)
    p_l = v - (p_h - u)
    z_h = 9.61796700954437255859e-01 * p_h
    z_l = -7.02846165095275826516e-09 * p_h + p_l * 9.61796693925975554329e-01
    z_l += 1.35003920212974897128e-08 if k else 0.0
    d_h = 5.84962487220764160156e-01 if k else 0.0
    t = np.float64(n)
    t1 = high_part(((z_h + z_l) + d_h) + t)
    return t1, z_l - (((t1 - t) - d_h) - z_h)


@kernel
def log10_of(a, out):
    for i in range(out.size):
        out[i] = log10_value(a[i])


@kernel
def log2_of(a, out):
    for i in range(out.size):
        out[i] = log2_value(a[i])


@kernel
def log1p_of(a, out):
    for i in range(out.size):
        out[i] = log1p_value(a[i])


@kernel
def expm1_of(a, out):
    for i in range(out.size):
        out[i] = expm1_value(a[i])


@kernel
def sinh_of(a, out):
    for i in range(out.size):
        out[i] = sinh_value(a[i])


@kernel
def cosh_of(a, out):
    for i in range(out.size):
        out[i] = cosh_value(a[i])


@kernel
def tanh_of(a, out):
    for i in range(out.size):
        out[i] = tanh_value(a[i])


@kernel
def power_of(a, b, out):
    for i in range(out.size):
        out[i] = power_value(a[i], b[i])
