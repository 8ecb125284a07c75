"""Steps of anisotropic diffusion, and squared gradients, from the nearest voxels along each axis."""

import numpy as np

from beam_volumes.kernels.casting import one_nan
from beam_volumes.kernels.elementary.exp_log import exp_value
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.rows import has_nan
from beam_volumes.kernels.scratch import needs

#: Added to squared gradients, so that normals are defined.
_MIN_NORM = 1e-10


@kernel
def squared_gradient(src, out, y0, y1, nx, scales):
    """The squared magnitude of the gradient, from central differences times ``scales`` along z, y, x."""
    _squares(src, out, y0, y1, nx, scales)


@row_kernel
def _squares(src, out, y0, y1, nx, scales):
    lines, firsts, left = src
    for k in range(out.firsts.size):
        here = firsts[k + 1]
        for y in range(y0, y1):
            row = lines[here + y + 1, left : left + nx + 2]
            _add_squares(
                row[:nx], row[2:],
                lines[here + y, left + 1 : left + 1 + nx], lines[here + y + 2, left + 1 : left + 1 + nx],
                lines[firsts[k] + y + 1, left + 1 : left + 1 + nx],
                lines[firsts[k + 2] + y + 1, left + 1 : left + 1 + nx],
                scales, out.lines[out.firsts[k] + y, out.left : out.left + nx],
            )  # fmt: skip


@row_kernel
def _add_squares(x0, x1, y0, y1, z0, z1, scales, out):
    hz, hy, hx = 0.5 * scales[0], 0.5 * scales[1], 0.5 * scales[2]
    for x in range(out.size):
        gx = (np.float64(x1[x]) - np.float64(x0[x])) * hx
        gy = (np.float64(y1[x]) - np.float64(y0[x])) * hy
        gz = (np.float64(z1[x]) - np.float64(z0[x])) * hz
        out[x] = gx * gx + gy * gy + gz * gz
    if has_nan(out):
        one_nan(out)


def _scratch(rows, cols, depth, dtype, *parameters):
    return (((11, cols + 2), np.float64),)


@needs(_scratch)
@kernel
def diffuse(src, out, y0, y1, nx, scales, step, limit, curvature, scratch):
    """One step of anisotropic diffusion, computed in float64.

    Flows are weighted by ``exp(squared gradient / limit)``, and differences multiplied by ``scales``.
    """
    # ``limit`` is negative. With ``curvature``, flows are of the normalized gradient, and their sum is the
    # speed of level sets.
    _steps(src, out, y0, y1, nx, scales, step, limit, curvature, scratch[0])


@row_kernel
def _steps(src, out, y0, y1, nx, scales, step, limit, curvature, rows):
    lines, firsts, left = src
    hz, hy, hx = 0.5 * scales[0], 0.5 * scales[1], 0.5 * scales[2]
    work = rows[:4]
    along_x, below, above = rows[4, : nx + 1], rows[5, :nx], rows[6, :nx]
    speed, upwind = rows[9, :nx], rows[10, :nx]
    for k in range(out.firsts.size):
        last, here, following = firsts[k], firsts[k + 1], firsts[k + 2]
        for y in range(y0, y1):
            # Row ``c`` of each slice is the row of the result. Its flow from the row before is known.
            c = y + 1
            before, after = rows[7 + y % 2, :nx], rows[8 - y % 2, :nx]
            if y == y0:
                _flow_between(
                    lines, left, (here + y, last + y, following + y), (here + c, last + c, following + c),
                    scales[1], hz, hx, limit, curvature, work, before,
                )  # fmt: skip
            _flow_between(
                lines, left, (here + c, last + c, following + c),
                (here + c + 1, last + c + 1, following + c + 1),
                scales[1], hz, hx, limit, curvature, work, after,
            )  # fmt: skip
            _flow_between(
                lines, left, (last + c, last + y, last + c + 1), (here + c, here + y, here + c + 1),
                scales[0], hy, hx, limit, curvature, work, below,
            )  # fmt: skip
            _flow_between(
                lines, left, (here + c, here + y, here + c + 1),
                (following + c, following + y, following + c + 1),
                scales[0], hy, hx, limit, curvature, work, above,
            )  # fmt: skip
            row = lines[here + c, left : left + nx + 2]
            row_before, row_after = lines[here + y, left:], lines[here + c + 1, left:]
            row_below, row_above = lines[last + c, left:], lines[following + c, left:]
            _difference(row_before, row_after, hy, work[0])
            _difference(row_below, row_above, hz, work[1])
            _flow(
                row[: nx + 1], row[1:], work[0, : nx + 1], work[0, 1:], work[1, : nx + 1], work[1, 1:],
                scales[2], limit, curvature, along_x,
            )  # fmt: skip
            _sum(along_x[:nx], along_x[1:], before, after, below, above, speed)
            centre = row[1 : nx + 1]
            if curvature:
                for x in range(nx):
                    upwind[x] = 0.0
                _add_upwind(row[:nx], centre, row[2:], scales[2], speed, upwind)
                _add_upwind(row_before[1:], centre, row_after[1:], scales[1], speed, upwind)
                _add_upwind(row_below[1:], centre, row_above[1:], scales[0], speed, upwind)
                for x in range(nx):
                    speed[x] *= np.sqrt(upwind[x])
            _move(centre, speed, step, out.lines[out.firsts[k] + y, out.left : out.left + nx])


@row_kernel
def _flow_between(lines, left, a, b, scale, half, half_x, limit, curvature, work, out):
    """The flow from line ``a[0]`` to ``b[0]``; lines 1 and 2 are before and after them on the third axis."""
    n = out.size
    first, second = lines[a[0], left : left + n + 2], lines[b[0], left : left + n + 2]
    _difference(lines[a[1], left + 1 :], lines[a[2], left + 1 :], half, work[0, :n])
    _difference(lines[b[1], left + 1 :], lines[b[2], left + 1 :], half, work[1, :n])
    _difference(first, first[2:], half_x, work[2, :n])
    _difference(second, second[2:], half_x, work[3, :n])
    _flow(
        first[1:], second[1:], work[0], work[1], work[2], work[3], scale, limit, curvature, out,
    )  # fmt: skip


@row_kernel
def _difference(a, b, factor, out):
    for x in range(out.size):
        out[x] = (np.float64(b[x]) - np.float64(a[x])) * factor


@row_kernel
def _flow(a, b, across_a, across_b, third_a, third_b, scale, limit, curvature, out):
    """Weighted differences of two rows. Their central differences along the other axes are known."""
    for x in range(out.size):
        d = (np.float64(b[x]) - np.float64(a[x])) * scale
        p, q = across_a[x] + across_b[x], third_a[x] + third_b[x]
        square = d * d + 0.25 * (p * p) + 0.25 * (q * q)
        if curvature:
            d /= np.sqrt(_MIN_NORM + square)
        out[x] = d * exp_value(square / limit)


@row_kernel
def _sum(x0, x1, y0, y1, z0, z1, out):
    for x in range(out.size):
        out[x] = (x1[x] - x0[x]) + (y1[x] - y0[x]) + (z1[x] - z0[x])


@row_kernel
def _add_upwind(a, b, c, scale, speed, out):
    """Add the squares of the differences from which level sets arrive."""
    for x in range(out.size):
        backward = (np.float64(b[x]) - np.float64(a[x])) * scale
        forward = (np.float64(c[x]) - np.float64(b[x])) * scale
        rises = speed[x] > 0.0
        down, up = (backward, forward) if rises else (forward, backward)
        down = 0.0 if down > 0.0 else down
        up = 0.0 if up < 0.0 else up
        out[x] += down * down + up * up


@row_kernel
def _move(row, change, step, out):
    for x in range(out.size):
        out[x] = np.float64(row[x]) + step * change[x]
    if has_nan(out):
        one_nan(out)
