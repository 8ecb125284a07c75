"""Sines, tangents and their inverses of float64, with the same bits on every machine.

Like `beam_volumes.kernels.elementary.exp_log`, they use only IEEE ``+ - * /``, square roots and bit
operations. The approximations are from FreeBSD's msun (fdlibm, Sun Microsystems 1993), with errors below 1
ulp. Large angles are reduced with as many bits of 2/pi as necessary (M. Payne and R. Hanek, 1983).
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.elementary.exponentials import high_part, product_in_two
from beam_volumes.kernels.jit import kernel


def _two_over_pi(words: int) -> np.ndarray:
    """The first ``64 * words`` bits of 2/pi, after a word of zeros."""
    bits = 64 * words + 64
    # pi by Machin's formula in integers
    one = 1 << (bits + 16)

    def arctan_of_inverse(n: int) -> int:
        term = total = one // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    number = ((one << bits) * 2 // pi) >> (bits - 64 * words)
    every = [(number >> (64 * (words - 1 - i))) & (2**64 - 1) for i in range(words)]
    return np.array([0, *every], np.uint64)


_BITS = _two_over_pi(20)
_PIO2 = 1.57079632679489655800e00
_PIO2_LO = 6.12323399573676603587e-17
_PI = 3.141592653589793116
_PI_LO = 1.2246467991473531772e-16


@kernel
def _sum_in_two(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel
def reduced(x):
    """``(n, hi, lo)`` with ``x = n pi/2 + hi + lo`` modulo 2 pi and |hi| <= pi/4, for finite x."""
    if abs(x) <= 0.7853981633974483:
        return 0, x, 0.0
    if abs(x) > 1000000.0:
        return _reduced_large(x)
    n = np.floor(x * 6.36619772367581382433e-01 + 0.5)
    # pi/2 in three parts of 33 bits with exact products, and the remainder
    first = x - n * 1.57079632673412561417e00
    hi, lo = _sum_in_two(first, -(n * 6.07710050630396597660e-11))
    hi, more = _sum_in_two(hi, -(n * 2.02226624871116645580e-21))
    lo += more - n * 8.47842766036889956997e-32
    y = hi + lo
    return np.int64(n) & 3, y, (hi - y) + lo


@kernel
def _reduced_large(x):
    bits = np.float64(x).view(np.int64)
    negative = bits < 0
    e = ((bits >> 52) & 2047) - 1075  # abs(x) == m * 2**e
    m = np.uint64((bits & np.int64(0xFFFFFFFFFFFFF)) | np.int64(0x10000000000000))
    # Bits of 2/pi before e - 2 contribute multiples of 4; use the next 192.
    p = e - 2 + 64
    word, off = p >> 6, np.uint64(p & 63)
    w0, w1, w2, w3 = _BITS[word], _BITS[word + 1], _BITS[word + 2], _BITS[word + 3]
    if off:
        back = np.uint64(64) - off
        w0 = (w0 << off) | (w1 >> back)
        w1 = (w1 << off) | (w2 >> back)
        w2 = (w2 << off) | (w3 >> back)
    # m * (w0, w1, w2) modulo 2**192
    h2, a2 = _wide(m, w2)
    h1, a1 = _wide(m, w1)
    a1 += h2
    if a1 < h2:
        h1 += np.uint64(1)
    a0 = m * w0 + h1
    n = np.int64(a0 >> np.uint64(62))
    # the fraction of a quarter turn, as 190 bits
    f0 = (a0 << np.uint64(2)) | (a1 >> np.uint64(62))
    f1 = (a1 << np.uint64(2)) | (a2 >> np.uint64(62))
    f2 = a2 << np.uint64(2)
    sign = 1.0
    if f0 >> np.uint64(63):  # more than half: use the next quarter turn
        n, sign = n + 1, -1.0
        f0, f1, f2 = ~f0, ~f1, ~f2
    shift = 0
    while not f0 >> np.uint64(63) and shift < 128:
        f0 = (f0 << np.uint64(1)) | (f1 >> np.uint64(63))
        f1 = (f1 << np.uint64(1)) | (f2 >> np.uint64(63))
        f2 = f2 << np.uint64(1)
        shift += 1
    # the upper 53 bits, and the next 53
    high = np.float64(f0 >> np.uint64(11))
    rest = ((f0 & np.uint64(2047)) << np.uint64(42)) | (f1 >> np.uint64(22))
    scale = np.int64((1023 - 53 - shift) << 52).view(np.float64)
    high = high * scale
    low = np.float64(rest) * scale * 1.1102230246251565e-16
    y, more = product_in_two(high, _PIO2)
    more += high * _PIO2_LO + low * _PIO2
    hi = y + more
    lo = (y - hi) + more
    if negative:
        n, sign = -n, -sign
    return n & 3, sign * hi, sign * lo


@kernel
def _wide(a, b):
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    first = a0 * b0
    second = a1 * b0 + (first >> half)
    third = a0 * b1 + (second & low)
    return a1 * b1 + (second >> half) + (third >> half), (third << half) | (first & low)


@kernel
def _sin_near(x, y):
    """https://netlib.org/fdlibm/k_sin.c."""
    z = x * x
    w = z * z
    r = (
        8.33333333332248946124e-03
        + z * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06)
        + z * w * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)
    )
    v = z * x
    return x - ((z * (0.5 * y - v * r) - y) - v * -1.66666666666666324348e-01)


@kernel
def _cos_near(x, y):
    """https://netlib.org/fdlibm/k_cos.c."""
    z = x * x
    w = z * z
    r = z * (
        4.16666666666666019037e-02
        + z * (-1.38888888888741095749e-03 + z * 2.48015872894767294178e-05)
    ) + w * w * (
        -2.75573143513906633035e-07
        + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)
    )
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + (z * r - x * y))


@kernel
def _tan_near(x, y, odd):
    """https://netlib.org/fdlibm/k_tan.c: tan of x + y, or -1/tan if ``odd``."""
    big = abs(x) >= 0.6744
    negative = big and x < 0
    if big:
        if negative:
            x, y = -x, -y
        x = (7.85398163397448278999e-01 - x) + (3.06161699786838301793e-17 - y)
        y = 0.0
    z = x * x
    w = z * z
    r = 1.33333333333201242699e-01 + w * (
        2.18694882948595424599e-02
        + w
        * (
            3.59207910759131235356e-03
            + w
            * (
                5.88041240820264096874e-04
                + w * (7.81794442939557092300e-05 + w * -1.85586374855275456654e-05)
            )
        )
    )
    v = z * (
        5.39682539762260521377e-02
        + w
        * (
            8.86323982359930005737e-03
            + w
            * (
                1.45620945432529025516e-03
                + w
                * (
                    2.46463134818469906812e-04
                    + w * (7.14072491382608190305e-05 + w * 2.59073051863633712884e-05)
                )
            )
        )
    )
    s = z * x
    r = y + z * (s * (r + v) + y) + s * 3.33333333333334091986e-01
    w = x + r
    if big:
        one = -1.0 if odd else 1.0
        v = one - 2.0 * (x + (r - w * w / (w + one)))
        return -v if negative else v
    if not odd:
        return w
    w0 = high_part(w)
    v = r - (w0 - x)
    a = -1.0 / w
    a0 = high_part(a)
    return a0 + a * (1.0 + a0 * w0 + a0 * v)


@kernel
def sin_value(x):
    x = np.float64(x)
    if x != x or abs(x) == np.inf:
        return np.nan
    if abs(x) < 7.450580596923828e-09:
        return x
    n, hi, lo = reduced(x)
    r = _cos_near(hi, lo) if n & 1 else _sin_near(hi, lo)
    return -r if n & 2 else r


@kernel
def cos_value(x):
    x = np.float64(x)
    if x != x or abs(x) == np.inf:
        return np.nan
    n, hi, lo = reduced(x)
    r = _sin_near(hi, lo) if n & 1 else _cos_near(hi, lo)
    return -r if n == 1 or n == 2 else r


@kernel
def tan_value(x):
    x = np.float64(x)
    if x != x or abs(x) == np.inf:
        return np.nan
    if abs(x) < 7.450580596923828e-09:
        return x
    n, hi, lo = reduced(x)
    return _tan_near(hi, lo, n & 1 == 1)


@kernel
def _arc_series(z):
    """https://netlib.org/fdlibm/e_asin.c."""
    p = z * (
        1.66666666666666657415e-01
        + z
        * (
            -3.25565818622400915405e-01
            + z
            * (
                2.01212532134862925881e-01
                + z
                * (
                    -4.00555345006794114027e-02
                    + z * (7.91534994289814532176e-04 + z * 3.47933107596021167570e-05)
                )
            )
        )
    )
    q = 1.0 + z * (
        -2.40339491173441421878e00
        + z
        * (
            2.02094576023350569471e00
            + z * (-6.88283971605453293030e-01 + z * 7.70381505559019352791e-02)
        )
    )
    return p / q


@kernel
def arcsin_value(x):
    x = np.float64(x)
    a = abs(x)
    if not a <= 1.0:
        return np.nan
    if a < 7.450580596923828e-09:
        return x
    if a < 0.5:
        return x + x * _arc_series(x * x)
    z = (1.0 - a) * 0.5
    s = np.sqrt(z)
    r = _arc_series(z)
    if a >= 0.975:
        y = _PIO2 - (2.0 * (s + s * r) - _PIO2_LO)
    else:
        f = high_part(s)
        c = (z - f * f) / (s + f)
        y = 0.5 * _PIO2 - (2.0 * s * r - (_PIO2_LO - 2.0 * c) - (0.5 * _PIO2 - 2.0 * f))
    return y if x > 0 else -y


@kernel
def arccos_value(x):
    x = np.float64(x)
    a = abs(x)
    if not a <= 1.0:
        return np.nan
    if a < 0.5:
        return _PIO2 - (x - (_PIO2_LO - x * _arc_series(x * x)))
    z = (1.0 - a) * 0.5
    s = np.sqrt(z)
    if x < 0:
        return 2.0 * (_PIO2 - (s + (_arc_series(z) * s - _PIO2_LO)))
    if z == 0.0:
        return 0.0
    f = high_part(s)
    c = (z - f * f) / (s + f)
    return 2.0 * (f + (_arc_series(z) * s + c))


@kernel
def arctan_value(x):
    """https://netlib.org/fdlibm/s_atan.c."""
    x = np.float64(x)
    a = abs(x)
    if x != x or a < 7.450580596923828e-09:
        return x
    if a > 73786976294838206464.0:
        return _PIO2 if x > 0 else -_PIO2
    hi, lo = 0.0, 0.0
    if a >= 2.4375:
        hi, lo, t = _PIO2, _PIO2_LO, -1.0 / a
    elif a >= 1.1875:
        hi, lo = 9.82793723247329054082e-01, 1.39033110312309984516e-17
        t = (a - 1.5) / (1.0 + 1.5 * a)
    elif a >= 0.6875:
        hi, lo = 7.85398163397448278999e-01, 3.06161699786838301793e-17
        t = (a - 1.0) / (a + 1.0)
    elif a >= 0.4375:
        hi, lo = 4.63647609000806093515e-01, 2.26987774529616870924e-17
        t = (2.0 * a - 1.0) / (2.0 + a)
    else:
        t = a
    z = t * t
    w = z * z
    s1 = z * (
        3.33333333333329318027e-01
        + w
        * (
            1.42857142725034663711e-01
            + w
            * (
                9.09088713343650656196e-02
                + w
                * (
                    6.66107313738753120669e-02
                    + w * (4.97687799461593236017e-02 + w * 1.62858201153657823623e-02)
                )
            )
        )
    )
    s2 = w * (
        -1.99999999998764832476e-01
        + w
        * (
            -1.11111104054623557880e-01
            + w
            * (
                -7.69187620504482999495e-02
                + w * (-5.83357013379057348645e-02 + w * -3.65315727442169155270e-02)
            )
        )
    )
    y = t - t * (s1 + s2) if hi == 0.0 else hi - ((t * (s1 + s2) - lo) - t)
    return y if x > 0 else -y


@kernel
def arctan2_value(y, x):
    """https://netlib.org/fdlibm/e_atan2.c."""
    y, x = np.float64(y), np.float64(x)
    if x != x or y != y:
        return np.nan
    left = np.float64(x).view(np.int64) < 0
    below = np.float64(y).view(np.int64) < 0
    ay, ax = abs(y), abs(x)
    if ay == 0.0:
        r = _PI if left else 0.0
    elif ax == 0.0:
        r = _PIO2
    elif ax == np.inf:
        r = 0.0
        if ay == np.inf:
            r = 7.85398163397448278999e-01
        if left:
            r = 3.0 * 7.85398163397448278999e-01 if ay == np.inf else _PI
    elif ay == np.inf:
        r = _PIO2
    else:
        exponents = (np.float64(ay).view(np.int64) >> 52) - (np.float64(ax).view(np.int64) >> 52)
        if exponents > 64:
            r = _PIO2
        else:
            z = 0.0 if left and exponents < -64 else arctan_value(ay / ax)
            r = _PI - (z - _PI_LO) if left else z
    return -r if below else r


@kernel
def sin_of(a, out):
    for i in range(out.size):
        out[i] = sin_value(a[i])


@kernel
def cos_of(a, out):
    for i in range(out.size):
        out[i] = cos_value(a[i])


@kernel
def tan_of(a, out):
    for i in range(out.size):
        out[i] = tan_value(a[i])


@kernel
def arcsin_of(a, out):
    for i in range(out.size):
        out[i] = arcsin_value(a[i])


@kernel
def arccos_of(a, out):
    for i in range(out.size):
        out[i] = arccos_value(a[i])


@kernel
def arctan_of(a, out):
    for i in range(out.size):
        out[i] = arctan_value(a[i])


@kernel
def arctan2_of(a, b, out):
    for i in range(out.size):
        out[i] = arctan2_value(a[i], b[i])
