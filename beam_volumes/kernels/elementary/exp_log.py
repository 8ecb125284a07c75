"""exp, log and Gaussian weights with the same bits on every machine.

libm and numpy's SIMD loops differ in the last bit between CPUs and versions. These functions use only IEEE
``+ - * /`` and bit operations, which are exact by definition. Without fastmath, LLVM neither reorders nor
contracts them, so vectorized and scalar code agree.

The approximations are from FreeBSD's msun (fdlibm, Sun Microsystems 1993; error below 1 ulp), rewritten
without branches to vectorize.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.rows import strided

_LN2_HI = 6.93147180369123816490e-01  # the low 32 bits are zero: k * _LN2_HI is exact
_LN2_LO = 1.90821492927058770002e-10
_INV_LN2 = 1.44269504088896338700
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it moves the nearest integer to the low bits
_EXP_MAX = 709.782712893383973096  # inf above
_EXP_MIN = -745.13321910194110842  # 0 below

_P1 = 1.66666666666666019037e-01
_P2 = -2.77777777770155933842e-03
_P3 = 6.61375632143793436117e-05
_P4 = -1.65339022054652515390e-06
_P5 = 4.13813679705723846039e-08

_L1 = 6.666666666666735130e-01
_L2 = 3.999999999940941908e-01
_L3 = 2.857142874366239149e-01
_L4 = 2.222219843214978396e-01
_L5 = 1.818357216161805012e-01
_L6 = 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01

_MANTISSA = (1 << 52) - 1
_SQRT_HALF = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2): mantissas are in [sqrt(1/2), sqrt(2))
_ONE = 0x3FF0000000000000


@kernel
def exp_value(x):
    """exp of one float64; also called from other kernels."""
    # ``exp(x) = 2**k exp(r)`` with ``|r| <= ln(2)/2``, and ``exp(r)`` from a minimax polynomial for ``r
    # (exp(r) + 1) / (exp(r) - 1)``: https://netlib.org/fdlibm/e_exp.c
    x = np.float64(x)
    inside = min(max(x, -746.0), 710.0) if x == x else 0.0
    shifted = inside * _INV_LN2 + _ROUND
    k = shifted - _ROUND
    hi = inside - k * _LN2_HI
    lo = k * _LN2_LO
    r = hi - lo
    t = r * r
    c = r - t * (_P1 + t * (_P2 + t * (_P3 + t * (_P4 + t * _P5))))
    y = 1.0 - ((lo - (r * c) / (2.0 - c)) - hi)
    # 2**k as two exact factors, so a subnormal result is rounded once
    n = np.float64(shifted).view(np.int64) - np.float64(_ROUND).view(np.int64)
    half = n >> 1
    y = y * np.int64((half + 1023) << 52).view(np.float64)
    y = y * np.int64((n - half + 1023) << 52).view(np.float64)
    y = np.inf if x > _EXP_MAX else y
    y = 0.0 if x < _EXP_MIN else y
    return y if x == x else x


@kernel
def log_value(x):
    """log of one float64; also called from other kernels."""
    # ``x = 2**k (1 + f)`` with ``1 + f`` in ``[sqrt(1/2), sqrt(2))``, and ``log(1 + f)`` from a minimax
    # polynomial in ``f / (2 + f)``: https://netlib.org/fdlibm/e_log.c
    x = np.float64(x)
    subnormal = x < 2.2250738585072014e-308
    bits = np.float64(x * 18014398509481984.0 if subnormal else x).view(np.int64)
    bits += np.int64(_ONE - _SQRT_HALF)
    # convert the exponent to float without an instruction that few CPUs vectorize
    exponent = (bits >> 52) - 1023 - (54 if subnormal else 0)
    k = np.int64(exponent + np.float64(_ROUND).view(np.int64)).view(np.float64) - _ROUND
    f = np.int64((bits & _MANTISSA) + _SQRT_HALF).view(np.float64) - 1.0
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7)))
    even = w * (_L2 + w * (_L4 + w * _L6))
    y = s * (half + (even + odd)) + k * _LN2_LO - half + f + k * _LN2_HI
    y = x if x == np.inf else y
    y = -np.inf if x == 0.0 else y
    return y if x >= 0.0 else np.nan


def few(function, values: Sequence[float]) -> list[float]:
    """``exp_value`` or ``log_value`` of a few numbers, with the same bits, but interpreted.

    Loading the first kernel takes half a second, which plans avoid.
    """
    interpreted = getattr(function, "py_func", function)  # numba's compiler may be disabled
    with np.errstate(all="ignore"):
        return [float(interpreted(value)) for value in values]


@kernel
def _exp_rows(src, pitch, out, out_pitch, rows, cols):
    for y in range(rows):
        a, b = src[y * pitch : y * pitch + cols], out[y * out_pitch : y * out_pitch + cols]
        for x in range(cols):
            b[x] = exp_value(a[x])


@kernel
def _log_rows(src, pitch, out, out_pitch, rows, cols):
    for y in range(rows):
        a, b = src[y * pitch : y * pitch + cols], out[y * out_pitch : y * out_pitch + cols]
        for x in range(cols):
            b[x] = log_value(a[x])


def exp(src: np.ndarray, out: np.ndarray) -> None:
    """``out[...] = exp(src)`` for 2-D views, computed in float64 and rounded to ``out``'s dtype.

    The rows of ``out``, float32 or float64, are contiguous.
    """
    _apply(_exp_rows, src, out)


def log(src: np.ndarray, out: np.ndarray) -> None:
    """``out[...] = log(src)`` for 2-D views, like `exp`. Negative numbers give NaN, and zero ``-inf``."""
    _apply(_log_rows, src, out)


def _apply(rows_kernel, src: np.ndarray, out: np.ndarray) -> None:
    target, _, pitch = strided(out, writeable=True)
    rows_kernel(*flat_rows(src), target, pitch, *out.shape)


def flat_rows(view: np.ndarray) -> tuple[np.ndarray, int]:
    """The memory of a 2-D view as one contiguous array, and the distance between its rows.

    Row ``y`` is ``flat[y * pitch : y * pitch + cols]``. Views with rows that are not contiguous are copied.
    """
    # Kernels with this index have unit stride, so they vectorize, and one array type for all views, so they
    # are compiled once.
    rows, cols = view.shape
    if view.size == 0:
        return np.empty(0, view.dtype.newbyteorder("=")), 0
    flags, size = view.flags, view.itemsize
    if flags.c_contiguous and flags.aligned and view.dtype.isnative:
        return view.reshape(-1), cols  # without the time of `as_strided`
    down, along = view.strides
    fits = (along == size or cols == 1) and (rows == 1 or (down >= 0 and down % size == 0))
    if not fits or not view.dtype.isnative or not flags.aligned:
        view = np.ascontiguousarray(view, view.dtype.newbyteorder("="))
    pitch = view.strides[0] // size if rows > 1 else cols
    return as_strided(view, ((rows - 1) * pitch + cols,), (size,)), pitch


def gaussian_weights(sigma: float, radius: int, order: int = 0) -> np.ndarray:
    """``2 * radius + 1`` weights of a 1-D Gaussian, or of its derivative of an ``order``, for correlation."""
    # They agree to 1e-15 with the reversed ``_gaussian_kernel1d`` of ``scipy.ndimage.gaussian_filter1d``, and
    # have the same bits on every machine: `exp` is our own, and the sums do not depend on BLAS or SIMD.
    return np.array(_gaussian(float(sigma), radius, order), np.float64)


@lru_cache(maxsize=64)
def _gaussian(sigma: float, radius: int, order: int) -> list[float]:
    """The weights: axes usually have the same ones."""
    if order < 0 or radius < 0:
        raise ValueError(f"order {order} and radius {radius} of a Gaussian must not be negative")
    sigma2 = sigma * sigma
    xs = range(-radius, radius + 1)
    phi = few(exp_value, [-0.5 / sigma2 * float(x * x) for x in xs])
    total = math.fsum(phi)
    phi = [p / total for p in phi]
    # d/dx (q exp(p)) = (q' + q p') exp(p) with p' = -x / sigma2, as coefficients of q
    q = [1.0] + [0.0] * order
    for _ in range(order):
        down = [(i + 1) * q[i + 1] for i in range(order)] + [0.0]
        up = [0.0] + [q[i] * (1.0 / -sigma2) for i in range(order)]
        q = [a + b for a, b in zip(down, up, strict=True)]
    weights = [
        math.fsum(c * float(x**i) for i, c in enumerate(q)) * p
        for x, p in zip(xs, phi, strict=True)
    ]
    return weights[::-1]
