"""Eigenvalues of a symmetric matrix at every voxel, with the same bits on every machine.

Kernels have the calling convention of `beam_volumes.kernels.rows`, but several inputs::

    kernel(matrix, out, y0, y1, nx, *parameters)

``matrix`` has the six elements 00, 11, 22, 01, 02, 12 as `beam_volumes.kernels.rows.Rows`; 2 x 2 matrices use
00, 11 and 01.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.elementary.exp_log import exp_value
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import has_nan
from beam_volumes.kernels.scratch import needs

#: Voxels per step: a constant, so the compiler can distinguish memory areas.
CHUNK = 128
#: Polynomials in ``t * t``, in ascending powers, for ``cos(2/3 asin t)`` and ``sin(2/3 asin t) / t`` with
#: t * t up to 1/2, interpolated at Chebyshev points to 6e-12.
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
#: Rounds over the three off-diagonal elements; four rounds suffice for float64.
_SWEEPS = 5


@row_kernel
def _turn(work, p, q, pq, rp, rq):
    """One Jacobi rotation of many matrices, which sets the elements in rows ``pq`` to zero."""
    for i in range(CHUNK):
        a, b, c = work[p, i], work[q, i], work[pq, i]
        # tan of the angle: the smaller root of t**2 + 2 theta t - 1, or 0 for diagonal matrices.
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


@row_kernel
def eigenvalues(work):
    """The eigenvalues of 3 x 3 matrices, descending, in rows 0 to 2.

    ``work``, float64 (6, CHUNK), has the elements 00, 11, 22, 01, 02, 12; all are overwritten.
    """
    # A fixed number of cyclic Jacobi rotations (C. G. J. Jacobi 1846; W. Givens' order) without branches, so
    # many matrices are rotated at once and equal matrices have equal eigenvalues.
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


@row_kernel
def _polynomial(c, x):
    """A polynomial of degree 11 by G. Estrin's scheme, in which few multiplications depend on others."""
    x2 = x * x
    low = (c[0] + c[1] * x) + (c[2] + c[3] * x) * x2
    middle = (c[4] + c[5] * x) + (c[6] + c[7] * x) * x2
    high = (c[8] + c[9] * x) + (c[10] + c[11] * x) * x2
    x4 = x2 * x2
    return low + (middle + high * x4) * x4


@row_kernel
def _roots(u, v, w, d, e, f):
    """The mean of the eigenvalues, and whether the largest (else the smallest) is isolated from the others.

    Between them: half the isolated eigenvalue's offset from the mean, and half the distance of the others.
    """
    # The roots of the characteristic polynomial of A - mean of its diagonal are 2p cos(angle / 3 + ...), and
    # the angle's cosine is r = det / (2 p**3) (O. K. Smith, Comm. ACM 4, 1961). For |r|, the sine t of half
    # the angle is at most sqrt(1/2). A polynomial then gives cosine and sine of a third of the angle.
    mean = _mean(u, v, w)
    a, b, c = u - mean, v - mean, w - mean
    square = ((a * a + b * b + c * c) + 2.0 * (d * d + e * e + f * f)) * (1.0 / 6.0)
    p = np.sqrt(square)
    det = a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e)
    cube = 2.0 * square * p
    r = det / (cube if cube > 0.0 else 1.0)
    t2 = (1.0 - min(abs(r), 1.0)) * 0.5
    isolated = p * _polynomial(COSINE, t2)
    near = p * (_polynomial(SINE, t2) * np.sqrt(3.0 * t2))
    return mean, isolated, near, r >= 0.0


@row_kernel
def _mean(u, v, w):
    return (u + v + w) * (1.0 / 3.0)


@row_kernel
def eigenvalues_of_float32(work):
    """`eigenvalues` to within 1e-7 of the matrix norm, as precise as float32 elements, but faster."""
    for i in range(CHUNK):
        mean, isolated, near, up = _roots(
            work[0, i], work[1, i], work[2, i], work[3, i], work[4, i], work[5, i]
        )
        work[0, i] = mean + (isolated + isolated if up else isolated + near)
        work[1, i] = mean + (near - isolated if up else isolated - near)
        work[2, i] = mean - (isolated + near if up else isolated + isolated)


@row_kernel
def eigenvalues_2d(work):
    """The eigenvalues of 2 x 2 matrices, descending, in rows 0 and 1; the elements are 00, 11, 22, 01."""
    for i in range(CHUNK):
        half = (work[0, i] + work[1, i]) / 2
        isolated = (work[0, i] - work[1, i]) / 2
        root = np.sqrt(work[3, i] * work[3, i] + isolated * isolated)
        work[0, i] = half + root
        work[1, i] = half - root


@row_kernel
def _load(work, element, rows, k, y, x0, n):
    row = rows.lines[rows.firsts[k] + y, rows.left + x0 :]
    for i in range(n):
        work[element, i] = row[i]
    for i in range(n, CHUNK):
        work[element, i] = 0.0


@row_kernel
def _load_matrices(work, matrix, k, y, x0, n):
    _load(work, 0, matrix[0], k, y, x0, n)
    _load(work, 1, matrix[1], k, y, x0, n)
    _load(work, 2, matrix[2], k, y, x0, n)
    _load(work, 3, matrix[3], k, y, x0, n)
    _load(work, 4, matrix[4], k, y, x0, n)
    _load(work, 5, matrix[5], k, y, x0, n)


def _scratch(rows, cols, depth, dtype, *parameters):
    return (((6, CHUNK), np.float64),)


@needs(_scratch)
@kernel
def eigenvalue(matrix, out, y0, y1, nx, ndim, which, scratch):
    """The eigenvalue ``which`` (0: the largest); for 3 x 3 matrices of float32, `spread` is faster."""
    _eigenvalue_rows(matrix, out, y0, y1, nx, ndim, which, scratch[0])


@row_kernel
def _eigenvalue_rows(matrix, out, y0, y1, nx, ndim, which, work):
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            for x0 in range(0, nx, CHUNK):
                n = min(CHUNK, nx - x0)
                _load_matrices(work, matrix, k, y, x0, n)
                if ndim == 3:
                    eigenvalues(work)
                else:
                    eigenvalues_2d(work)
                _store(work, which, out.lines[out.firsts[k] + y], out.left + x0, n)


@row_kernel
def _store(work, element, row, x0, n):
    part = row[x0 : x0 + n]
    for i in range(n):
        part[i] = work[element, i]
    if has_nan(part):
        one_nan(part)


@needs(_scratch)
@kernel
def spread(matrix, out, y0, y1, nx, scratch):
    """The offsets of the eigenvalues of 3 x 3 float32 matrices from their mean, enough for all three."""
    # ``out`` is uint64 with two float32: half the offset of the isolated eigenvalue, negative if it is the
    # smallest, and half the distance of the other two.
    _spread_rows(matrix, out, out.lines.view(np.float32), y0, y1, nx, scratch[0])


@row_kernel
def _spread_rows(matrix, out, pairs, y0, y1, nx, work):
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            pair = pairs[out.firsts[k] + y, 2 * out.left :]
            for x0 in range(0, nx, CHUNK):
                n = min(CHUNK, nx - x0)
                _load_matrices(work, matrix, k, y, x0, n)
                _spread(work)
                for i in range(n):
                    pair[2 * (x0 + i)] = work[0, i]
                    pair[2 * (x0 + i) + 1] = work[1, i]


@row_kernel
def _spread(work):
    for i in range(CHUNK):
        _, isolated, near, up = _roots(
            work[0, i], work[1, i], work[2, i], work[3, i], work[4, i], work[5, i]
        )
        work[0, i] = isolated if up else -isolated
        work[1, i] = near


@kernel
def eigenvalue_of_spread(matrix, out, y0, y1, nx, which):
    """The eigenvalue ``which`` (0: the largest); ``matrix`` is the result of `spread`, 00, 11 and 22."""
    _rows_of_spread(matrix, matrix[0].lines.view(np.float32), out, y0, y1, nx, which)


@row_kernel
def _rows_of_spread(matrix, pairs, out, y0, y1, nx, which):
    spread, a, b, c = matrix[0], matrix[1], matrix[2], matrix[3]
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            left = 2 * spread.left
            pair = pairs[spread.firsts[k] + y, left : left + 2 * nx]
            u = a.lines[a.firsts[k] + y, a.left : a.left + nx]
            v = b.lines[b.firsts[k] + y, b.left : b.left + nx]
            w = c.lines[c.firsts[k] + y, c.left : c.left + nx]
            result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            if which == 0:
                _largest(pair, u, v, w, result)
            elif which == 1:
                _middle(pair, u, v, w, result)
            else:
                _smallest(pair, u, v, w, result)
            if has_nan(result):
                one_nan(result)


@row_kernel
def _largest(pair, u, v, w, out):
    for x in range(out.size):
        isolated, near = np.float64(pair[2 * x]), np.float64(pair[2 * x + 1])
        far = abs(isolated) + (isolated if isolated >= 0.0 else near)
        out[x] = _mean(np.float64(u[x]), np.float64(v[x]), np.float64(w[x])) + far


@row_kernel
def _middle(pair, u, v, w, out):
    for x in range(out.size):
        isolated, near = np.float64(pair[2 * x]), np.float64(pair[2 * x + 1])
        far = (near if isolated >= 0.0 else -near) - isolated
        out[x] = _mean(np.float64(u[x]), np.float64(v[x]), np.float64(w[x])) + far


@row_kernel
def _smallest(pair, u, v, w, out):
    for x in range(out.size):
        isolated, near = np.float64(pair[2 * x]), np.float64(pair[2 * x + 1])
        far = abs(isolated) + (near if isolated >= 0.0 else -isolated)
        out[x] = _mean(np.float64(u[x]), np.float64(v[x]), np.float64(w[x])) - far


@needs(_scratch)
@kernel
def ridge(matrix, out, y0, y1, nx, ndim, alpha, beta, gamma, power, sign, scratch):
    """The ridge measure of each voxel, from Hessian matrices; ``sign`` is 1 for dark ridges, else -1."""
    # ``alpha``, ``beta`` and ``gamma`` are parameters of Frangi's measure. ``gamma <= 0`` gives the
    # structuredness, the root of the sum of squared eigenvalues. ``alpha <= 0``, or ``beta <= 0`` for two
    # axes, gives Sato's tubeness, times ``power``.
    _ridge_rows(matrix, out, y0, y1, nx, ndim, alpha, beta, gamma, power, sign, scratch[0])


@row_kernel
def _ridge_rows(matrix, out, y0, y1, nx, ndim, alpha, beta, gamma, power, sign, work):
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            for x0 in range(0, nx, CHUNK):
                n = min(CHUNK, nx - x0)
                _load_matrices(work, matrix, k, y, x0, n)
                if ndim == 2:
                    eigenvalues_2d(work)
                    _ridges_2d(work, n, beta, gamma, power, sign)
                else:
                    if matrix[0].lines.itemsize == 4:
                        eigenvalues_of_float32(work)
                    else:
                        eigenvalues(work)
                    _ridges(work, n, alpha, beta, gamma, power, sign)
                _store(work, 0, out.lines[out.firsts[k] + y], out.left + x0, n)


@row_kernel
def _ridges(work, n, alpha, beta, gamma, power, sign):
    """Write row 0 from three eigenvalues."""
    for i in range(n):
        a, b, c = sign * work[0, i], sign * work[1, i], sign * work[2, i]
        if alpha <= 0.0:
            # The two largest; with the other sign, the other two.
            high, middle = max(a, c), b
            work[0, i] = power * np.sqrt(max(high, 0.0) * max(middle, 0.0))
            continue
        square = a * a + b * b + c * c
        if gamma <= 0.0:
            work[0, i] = np.sqrt(square)
            continue
        first, second, third = _by_size(a, b, c)
        second, third = max(second, 1e-10), max(third, 1e-10)
        plate = second / third
        blob = first * first / (second * third)
        value = 1.0 - exp_value(-plate * plate / (2.0 * alpha * alpha))
        value *= exp_value(-blob / (2.0 * beta * beta))
        value *= 1.0 - exp_value(-square / (2.0 * gamma * gamma))
        work[0, i] = value


@row_kernel
def _ridges_2d(work, n, beta, gamma, power, sign):
    """Write row 0 from two eigenvalues."""
    for i in range(n):
        a, b = sign * work[0, i], sign * work[1, i]
        if beta <= 0.0:
            work[0, i] = power * max(max(a, b), 0.0)
            continue
        square = a * a + b * b
        if gamma <= 0.0:
            work[0, i] = np.sqrt(square)
            continue
        first, second = (a, b) if abs(a) <= abs(b) else (b, a)
        second = max(second, 1e-10)
        ratio = first / second
        value = exp_value(-ratio * ratio / (2.0 * beta * beta))
        work[0, i] = value * (1.0 - exp_value(-square / (2.0 * gamma * gamma)))


@row_kernel
def _by_size(a, b, c):
    """Sort three numbers by absolute value."""
    if abs(a) > abs(b):
        a, b = b, a
    if abs(b) > abs(c):
        b, c = c, b
    if abs(a) > abs(b):
        a, b = b, a
    return a, b, c
