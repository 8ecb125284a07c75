"""Eigenvalues of a symmetric matrix at every voxel, with the same bits on every machine."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.elementary import exp_value
from beam_volumes.kernels.jit import kernel

#: Voxels worked on at a time: a fixed number, so that the compiler sees which memory is which.
CHUNK = 128
#: Polynomials in ``t * t``, the powers ascending, of ``cos(2/3 asin t)`` and of ``sin(2/3 asin t) / t`` for
#: t * t up to 1/2: interpolated at Chebyshev's points, good to 6e-12.
COSINE = (
    1.0000000000032363,
    -0.222222224083964,
    -0.06584344530372882,
    -0.03414761459259095,
    -0.021554790837406326,
    -0.016653031530343743,
    -0.0022651970836402007,
    -0.050526745792012655,
    0.11279330183363831,
    -0.2270859790345033,
    0.23188006629546482,
    -0.12282339731852214,
)
SINE = (
    0.666666666664881,
    0.06172839608816303,
    0.026405938612150803,
    0.015442018687428666,
    0.010344143656296847,
    0.008365615024558792,
    0.0007812978916869412,
    0.02753667511084738,
    -0.06227191016175008,
    0.124848585575819,
    -0.12760752439498899,
    0.06743748982747395,
)
#: Rounds over the three off-diagonal elements; from the fourth on nothing changes in float64.
_SWEEPS = 5


@kernel
def _turn(work, p, q, pq, rp, rq):
    """One Jacobi rotation of many matrices: the elements in rows ``pq`` become zero."""
    for i in range(CHUNK):
        a, b, c = work[p, i], work[q, i], work[pq, i]
        # tan of the angle: the smaller root of t**2 + 2 theta t - 1; of nothing to turn, 0.
        theta = (b - a) / (c + c)
        size = abs(theta)
        t = 1.0 / (size + np.sqrt(theta * theta + 1.0))
        t = -t if theta < 0.0 else t
        t = 0.0 if c == 0.0 else t
        cosine = 1.0 / np.sqrt(t * t + 1.0)
        sine = t * cosine
        move = t * c
        work[p, i] = a - move
        work[q, i] = b + move
        work[pq, i] = 0.0
        x, y = work[rp, i], work[rq, i]
        work[rp, i] = cosine * x - sine * y
        work[rq, i] = sine * x + cosine * y


@kernel
def eigenvalues(work):
    """The eigenvalues of 3 x 3 matrices, descending, into rows 0 to 2.

    Cyclic Jacobi rotations (C. G. J. Jacobi 1846; W. Givens' order), a fixed number of them without
    branches, so that many matrices are turned at once and equal matrices have equal eigenvalues.

    Parameters
    ----------
    work : ndarray of float64 (6, CHUNK)
        Rows are the elements 00, 11, 22, 01, 02, 12; all are overwritten.
    """
    for _ in range(_SWEEPS):
        _turn(work, 0, 1, 3, 4, 5)
        _turn(work, 0, 2, 4, 3, 5)
        _turn(work, 1, 2, 5, 3, 4)
    for i in range(CHUNK):
        a, b, c = work[0, i], work[1, i], work[2, i]
        high, low = max(a, b), min(a, b)
        middle = min(high, c)
        work[0, i] = max(high, c)
        work[1, i] = max(low, middle)
        work[2, i] = min(low, middle)


@kernel
def _polynomial(c, x):
    """Of degree 11, by G. Estrin's scheme: few multiplications wait for others."""
    x2 = x * x
    low = (c[0] + c[1] * x) + (c[2] + c[3] * x) * x2
    middle = (c[4] + c[5] * x) + (c[6] + c[7] * x) * x2
    high = (c[8] + c[9] * x) + (c[10] + c[11] * x) * x2
    x4 = x2 * x2
    return low + (middle + high * x4) * x4


@kernel
def eigenvalues_of_float32(work):
    """`eigenvalues` to within 1e-7 of the matrix' norm, which is what float32 elements allow, sooner.

    The roots of the characteristic polynomial of A - mean of its diagonal are 2p cos(angle / 3 + ...), and
    the angle's cosine is r = det / (2 p**3) (O. K. Smith, Comm. ACM 4, 1961). Of |r|, the half angle's sine t
    is at most sqrt(1/2), where a polynomial gives cosine and sine of a third of the angle without the angle.
    """
    for i in range(CHUNK):
        d, e, f = work[3, i], work[4, i], work[5, i]
        mean = (work[0, i] + work[1, i] + work[2, i]) * (1.0 / 3.0)
        a, b, c = work[0, i] - mean, work[1, i] - mean, work[2, i] - mean
        square = ((a * a + b * b + c * c) + 2.0 * (d * d + e * e + f * f)) * (1.0 / 6.0)
        p = np.sqrt(square)
        det = a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e)
        cube = 2.0 * square * p
        r = det / (cube if cube > 0.0 else 1.0)
        t2 = (1.0 - min(abs(r), 1.0)) * 0.5
        apart = p * _polynomial(COSINE, t2)
        near = p * (_polynomial(SINE, t2) * np.sqrt(3.0 * t2))
        # One is apart from the other two: the greatest, or the least if r is negative.
        up = r >= 0.0
        work[0, i] = mean + (apart + apart if up else apart + near)
        work[1, i] = mean + (near - apart if up else apart - near)
        work[2, i] = mean - (apart + near if up else apart + apart)


@kernel
def eigenvalues_2d(work):
    """The eigenvalues of 2 x 2 matrices, descending, into rows 0 and 1; rows are 00, 11, 22, 01."""
    for i in range(CHUNK):
        half = (work[0, i] + work[1, i]) / 2
        apart = (work[0, i] - work[1, i]) / 2
        root = np.sqrt(work[3, i] * work[3, i] + apart * apart)
        work[0, i] = half + root
        work[1, i] = half - root


@kernel
def _load(work, element, row, x0, n):
    for i in range(n):
        work[element, i] = row[x0 + i]
    for i in range(n, CHUNK):
        work[element, i] = 0.0


@kernel
def eigenvalue_rows(a00, a11, a22, a01, a02, a12, which, out):
    """Write the eigenvalue ``which`` (0: the greatest) for rows of voxels."""
    work = np.empty((6, CHUNK))
    rows, cols = out.shape
    for y in range(rows):
        for x0 in range(0, cols, CHUNK):
            n = min(CHUNK, cols - x0)
            _load(work, 0, a00[y], x0, n)
            _load(work, 1, a11[y], x0, n)
            _load(work, 2, a22[y], x0, n)
            _load(work, 3, a01[y], x0, n)
            _load(work, 4, a02[y], x0, n)
            _load(work, 5, a12[y], x0, n)
            if a00.itemsize == 4:
                eigenvalues_of_float32(work)
            else:
                eigenvalues(work)
            for i in range(n):
                out[y, x0 + i] = work[which, i]


@kernel
def eigenvalue_rows_2d(a00, a11, a01, which, out):
    """The same of 2 x 2 matrices."""
    work = np.empty((4, CHUNK))
    rows, cols = out.shape
    for y in range(rows):
        for x0 in range(0, cols, CHUNK):
            n = min(CHUNK, cols - x0)
            _load(work, 0, a00[y], x0, n)
            _load(work, 1, a11[y], x0, n)
            _load(work, 3, a01[y], x0, n)
            eigenvalues_2d(work)
            for i in range(n):
                out[y, x0 + i] = work[which, i]


@kernel
def ridge_rows(a00, a11, a22, a01, a02, a12, alpha, beta, gamma, power, sign, out):
    """Write how much each voxel looks like a ridge, from rows of Hessian matrices.

    Parameters
    ----------
    alpha, beta, gamma : float
        Of Frangi's measure; ``gamma <= 0`` gives the structuredness itself, the root of the sum of
        squared eigenvalues; ``alpha <= 0`` gives Sato's tubeness.
    power : float
        A factor of the tubeness.
    sign : float
        1 for dark ridges, -1 for bright ones.
    """
    work = np.empty((6, CHUNK))
    rows, cols = out.shape
    for y in range(rows):
        for x0 in range(0, cols, CHUNK):
            n = min(CHUNK, cols - x0)
            _load(work, 0, a00[y], x0, n)
            _load(work, 1, a11[y], x0, n)
            _load(work, 2, a22[y], x0, n)
            _load(work, 3, a01[y], x0, n)
            _load(work, 4, a02[y], x0, n)
            _load(work, 5, a12[y], x0, n)
            if a00.itemsize == 4:
                eigenvalues_of_float32(work)
            else:
                eigenvalues(work)
            for i in range(n):
                a, b, c = sign * work[0, i], sign * work[1, i], sign * work[2, i]
                if alpha <= 0.0:
                    # The two greatest; turned around, they are the other two.
                    high, middle = max(a, c), b
                    out[y, x0 + i] = power * np.sqrt(max(high, 0.0) * max(middle, 0.0))
                    continue
                square = a * a + b * b + c * c
                if gamma <= 0.0:
                    out[y, x0 + i] = np.sqrt(square)
                    continue
                first, second, third = _by_size(a, b, c)
                second, third = max(second, 1e-10), max(third, 1e-10)
                plate = second / third
                blob = first * first / (second * third)
                value = 1.0 - exp_value(-plate * plate / (2.0 * alpha * alpha))
                value *= exp_value(-blob / (2.0 * beta * beta))
                value *= 1.0 - exp_value(-square / (2.0 * gamma * gamma))
                out[y, x0 + i] = value


@kernel
def ridge_rows_2d(a00, a11, a01, beta, gamma, power, sign, out):
    """The same in two dimensions; ``beta <= 0`` gives Sato's measure."""
    work = np.empty((4, CHUNK))
    rows, cols = out.shape
    for y in range(rows):
        for x0 in range(0, cols, CHUNK):
            n = min(CHUNK, cols - x0)
            _load(work, 0, a00[y], x0, n)
            _load(work, 1, a11[y], x0, n)
            _load(work, 3, a01[y], x0, n)
            eigenvalues_2d(work)
            for i in range(n):
                a, b = sign * work[0, i], sign * work[1, i]
                if beta <= 0.0:
                    out[y, x0 + i] = power * max(max(a, b), 0.0)
                    continue
                square = a * a + b * b
                if gamma <= 0.0:
                    out[y, x0 + i] = np.sqrt(square)
                    continue
                first, second = (a, b) if abs(a) <= abs(b) else (b, a)
                second = max(second, 1e-10)
                ratio = first / second
                value = exp_value(-ratio * ratio / (2.0 * beta * beta))
                out[y, x0 + i] = value * (1.0 - exp_value(-square / (2.0 * gamma * gamma)))


@kernel
def _by_size(a, b, c):
    """Three numbers by their absolute values."""
    if abs(a) > abs(b):
        a, b = b, a
    if abs(b) > abs(c):
        b, c = c, b
    if abs(a) > abs(b):
        a, b = b, a
    return a, b, c
