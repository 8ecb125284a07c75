"""Random numbers of voxels by position: Philox with the voxel's index as counter.

Numbers are independent of each other, so slabs, threads and the order of voxels do not matter. J. Salmon et
al., "Parallel random numbers: as easy as 1, 2, 3" (2011): Philox4x32-10, in integers, is the same everywhere.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.elementary.angles import cos_value
from beam_volumes.kernels.elementary.exp_log import exp_value, log_value
from beam_volumes.kernels.jit import kernel

UNIFORM, NORMAL = 0, 1

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_STIRLING = np.array(
    [
        8.333333333333333e-02, -2.777777777777778e-03, 7.936507936507937e-04,
        -5.952380952380952e-04, 8.417508417508418e-04, -1.917526917526918e-03,
        6.410256410256410e-03, -2.955065359477124e-02, 1.796443723688307e-01,
        -1.39243221690590e00,
    ]
)  # fmt: skip


@kernel
def philox(index, stream, draw, seed):
    """Two words of 64 random bits for a voxel's index, a stream, and the number of a draw in it."""
    c0, c1 = index & _LOW, index >> _HALF
    c2, c3 = np.uint64(draw), np.uint64(stream)
    k0, k1 = seed & _LOW, seed >> _HALF
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0 = (k0 + np.uint64(0x9E3779B9)) & _LOW
        k1 = (k1 + np.uint64(0xBB67AE85)) & _LOW
    return (c1 << _HALF) | c0, (c3 << _HALF) | c2


@kernel
def _unit(bits):
    """A float from 0 to below 1, in steps of 2**-53."""
    return np.float64(bits >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def fill(kind, out, first, stream, seed):
    """Random numbers of a row of voxels; ``first`` is the index of its first voxel."""
    for x in range(out.size):
        a, b = philox(first + np.uint64(x), stream, 0, seed)
        u = _unit(a)
        if kind == NORMAL:  # G. Box and M. Muller (1958)
            u = np.sqrt(-2.0 * log_value(1.0 - u)) * cos_value(6.283185307179586 * _unit(b))
        out[x] = u


@kernel
def poisson(rates, out, first, stream, seed):
    """Poisson counts of a row of voxels; NaN for a rate that is negative or not finite."""
    for x in range(out.size):
        out[x] = _count(rates[x], first + np.uint64(x), stream, seed)


@kernel
def _count(rate, index, stream, seed):
    if not (rate >= 0.0 and rate < np.inf):
        return np.nan
    if rate < 10.0:
        # Multiply uniform numbers until the product is below exp(-rate): D. Knuth.
        below, product, n = exp_value(-rate), 1.0, 0
        while True:
            a, b = philox(index, stream, n, seed)
            product *= 1.0 - _unit(a)
            if product <= below:
                return 2.0 * n
            product *= 1.0 - _unit(b)
            if product <= below:
                return 2.0 * n + 1.0
            n += 1
    # Transformed rejection: W. Hoermann, "The transformed rejection method" (1993), PTRS
    root, log_rate = np.sqrt(rate), log_value(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    log_alpha = log_value(1.1239 + 1.1328 / (b - 3.4))
    limit = 0.9277 - 3.6224 / (b - 2.0)
    n = 0
    while True:
        first, second = philox(index, stream, n, seed)
        n += 1
        u, v = _unit(first) - 0.5, _unit(second)
        inside = 0.5 - abs(u)
        if inside <= 0.0:
            continue
        k = np.floor((2.0 * a / inside + b) * u + rate + 0.43)
        if inside >= 0.07 and v <= limit:
            return k
        if k < 0.0 or (inside < 0.013 and v > inside):
            continue
        if log_value(v) + log_alpha - log_value(a / (inside * inside) + b) <= (
            k * log_rate - rate - _log_gamma(k + 1.0)
        ):
            return k


@kernel
def _log_gamma(x):
    """The logarithm of the gamma function for integers above 0."""
    if x <= 2.0:
        return 0.0
    more = max(0, int(7.0 - x))
    at = x + more
    square = 1.0 / (at * at)
    total = _STIRLING[9]
    for k in range(8, -1, -1):
        total = total * square + _STIRLING[k]
    result = total / at + 0.9189385332046727 + (at - 0.5) * log_value(at) - at
    for _ in range(more):
        at -= 1.0
        result -= log_value(at)
    return result
