"""Edge filters, named as in scikit-image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.elementary.angles import cos_value, sin_value
from beam_volumes.kernels.elementary.exp_log import exp_value, few
from beam_volumes.ops.filters.derivatives import magnitude
from beam_volumes.ops.filters.linear import convolve, float_dtype, in_dtype, separable
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_like

#: Weights along the axis of the derivative, then along the others, of a correlation.
_SCHARR = ([-1.0, 0.0, 1.0], [3 / 16, 10 / 16, 3 / 16])
_FARID = (
    [-0.109603762960254, -0.276690988455557, 0.0, 0.276690988455557, 0.109603762960254],
    [0.0376593171958126, 0.249153396177344, 0.426374573253687, 0.249153396177344, 0.0376593171958126],
)  # fmt: skip


@documented
def scharr(
    volume: Volume,
    axis: int | Sequence[int] | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Find edges by the Scharr derivative along an axis, or the magnitude of several.

    The result depends less on the direction of an edge than for `sobel`. The weights are ``[-1, 0,
    1]`` along the axis, and ``[3, 10, 3] / 16`` along all other axes.

    Parameters
    ----------
    %(intensities)s
    axis : int or sequence of int, optional
        The axis of the derivative, counted from 0, or backwards from -1. For several axes, or all
        by default, the squared derivatives are summed, and divided by the volume's number of axes.
        The result is the square root.
    %(mode)s
    %(cval)s
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    farid : uses five voxels along each axis.
    gaussian_gradient_magnitude : smooths by a chosen extent.

    Notes
    -----
    One sweep, with a halo of one voxel along each axis.

    References
    ----------
    `skimage.filters.scharr`; D. Kroon, "Numerical optimization of kernel based image derivatives"
    (2009).

    Examples
    --------
    >>> corner = bv.open(np.array([[0, 0, 8], [0, 0, 8], [0, 0, 8]], "u1"))
    >>> np.asarray(bv.scharr(corner))[1].round(2)
    array([0.  , 5.66, 5.66], dtype=float32)
    >>> np.asarray(bv.scharr(corner, axis=1))[1]
    array([0., 8., 8.], dtype=float32)
    """
    return _edges(volume, "scharr", _SCHARR, axis, mode, cval, dtype)


@documented_like(scharr)
def farid(
    volume: Volume,
    axis: int | Sequence[int] | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Find edges with Farid and Simoncelli's derivative along an axis, or the magnitude of several.

    With five weights along each axis, the result is nearly independent of the direction of an edge.

    See Also
    --------
    scharr : uses three voxels along each axis.
    gaussian_gradient_magnitude : smooths by a chosen extent.

    Notes
    -----
    One sweep, with a halo of two voxels along each axis.

    References
    ----------
    `skimage.filters.farid`; H. Farid, E. P. Simoncelli, "Differentiation of discrete
    multidimensional signals", IEEE Transactions on Image Processing 13 (2004).

    Examples
    --------
    >>> step = bv.open(np.array([[0, 0, 0, 8, 8, 8]], "u1"))
    >>> np.asarray(bv.farid(step, axis=1)).round(2)
    array([[0.  , 0.88, 3.09, 3.09, 0.88, 0.  ]], dtype=float32)
    """
    return _edges(volume, "farid", _FARID, axis, mode, cval, dtype)


@documented_like(scharr)
def roberts(volume: Volume, *, dtype: DTypeLike | None = None) -> Volume:
    """Find edges by Roberts' cross: the magnitude of the two diagonal differences of four voxels.

    Slices along z are filtered separately.

    Parameters
    ----------
    %(intensities)s
    %(dtype)s

    See Also
    --------
    scharr : filters along all axes.

    Notes
    -----
    One sweep, with a halo of one voxel along y and x. The volume is reflected at its edges, as in
    scikit-image.

    References
    ----------
    `skimage.filters.roberts`.

    Examples
    --------
    >>> step = bv.open(np.array([[0, 0, 8, 8], [0, 0, 8, 8]], "u1"))
    >>> np.asarray(bv.roberts(step))[1]
    array([0., 8., 0., 0.], dtype=float32)
    """
    volume = as_volume(volume)
    plane = [volume.ndim - 2, volume.ndim - 1]
    par.axes_of(volume, plane, "roberts")
    falling, rising = ([[1, 0], [0, -1]], [[0, 1], [-1, 0]])
    parts = [convolve(volume, w, axes=plane, dtype=float_dtype(dtype)) for w in (falling, rising)]
    return in_dtype(apply_ufunc("divide", magnitude(parts), math.sqrt(2)), dtype)


@documented_like(scharr)
def gabor(
    volume: Volume,
    frequency: float,
    theta: float = 0.0,
    bandwidth: float = 1.0,
    sigma_x: float | None = None,
    sigma_y: float | None = None,
    n_stds: float = 3.0,
    offset: float = 0.0,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> tuple[Volume, Volume]:
    """Find stripes with one frequency and direction, by convolution with a wave under a Gaussian.

    Slices along z are filtered separately.

    Parameters
    ----------
    frequency : float
        Waves per voxel, above 0.
    theta : float, default: 0.0
        The direction across the stripes, in radians: 0 is along x.
    bandwidth : float, default: 1.0
        Bandwidth in octaves, which determines the Gaussian if ``sigma_x`` and ``sigma_y`` are not
        set.
    sigma_x, sigma_y : float, optional
        Standard deviations of the Gaussian across and along the stripes, in voxels.
    n_stds : float, default: 3.0
        Where the Gaussian is cut off, in standard deviations.
    offset : float, default: 0.0
        The phase of the wave, in radians.

    Returns
    -------
    tuple of Volume
        The real and the imaginary part. The dtype is float32 for bool, integers of up to 16 bits,
        float16 and float32, otherwise float64. ``dtype`` overrides this.

    See Also
    --------
    farid : finds edges.
    structure_tensor : finds directions.

    Notes
    -----
    One sweep. The halo is ``n_stds`` times the larger standard deviation along y and x; the time grows
    with its square. The magnitude is ``bv.sqrt(real**2 + imaginary**2)``.

    References
    ----------
    `skimage.filters.gabor`.

    Examples
    --------
    >>> stripes = bv.open(np.tile(np.array([9, 0, 0, 0], "u1"), (5, 4)))
    >>> real, imaginary = bv.gabor(stripes, 0.25)
    >>> np.asarray(bv.sqrt(real**2 + imaginary**2))[2, 4:8].round(1)
    array([2.3, 2.2, 2.2, 2.2], dtype=float32)
    """
    volume = as_volume(volume)
    plane = [volume.ndim - 2, volume.ndim - 1]
    par.axes_of(volume, plane, "gabor")
    for what, given in (("frequency", frequency), ("n_stds", n_stds)):
        par.positive(given, what, "gabor")
    for what, given in (("theta", theta), ("offset", offset)):
        if not (par.is_number(given) and math.isfinite(given)):
            raise ValueError(f"gabor: {what}={given!r} is not a finite number")
    if not (par.is_number(bandwidth) and 0.01 <= bandwidth <= 20):
        raise ValueError(
            f"gabor: bandwidth={bandwidth!r} is not a number of octaves from 0.01 to 20"
        )
    factor = math.sqrt(math.log(2) / 2) / math.pi * (2**bandwidth + 1) / (2**bandwidth - 1)
    sigmas = [factor / frequency if s is None else s for s in (sigma_x, sigma_y)]
    for what, sigma in zip(("sigma_x", "sigma_y"), sigmas, strict=True):
        par.positive(sigma, what, "gabor")
        par.not_too_long(2 * n_stds * sigma, f"gabor: {what}={sigma!r}")
    waves = _waves(float(frequency), float(theta), sigmas, float(n_stds), float(offset))
    how: dict[str, Any] = {"mode": mode, "cval": cval, "axes": plane, "dtype": dtype}
    real, imaginary = (convolve(volume, w, **how) for w in waves)
    return real, imaginary


def _waves(
    frequency: float, theta: float, sigmas: Sequence[float], n_stds: float, offset: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the real and the imaginary part of a wave under a Gaussian."""
    cos, sin = (few(f, [theta])[0] for f in (cos_value, sin_value))
    across, along = (n_stds * s for s in sigmas)
    half_x = math.ceil(max(abs(across * cos), abs(along * sin), 1))
    half_y = math.ceil(max(abs(along * cos), abs(across * sin), 1))
    y, x = np.mgrid[-half_y : half_y + 1, -half_x : half_x + 1]
    u, v = x * cos + y * sin, y * cos - x * sin
    power = -0.5 * (np.square(u / sigmas[0]) + np.square(v / sigmas[1]))
    height = np.reshape(few(exp_value, power.ravel().tolist()), power.shape)
    height /= 2 * math.pi * sigmas[0] * sigmas[1]
    phase = (2 * math.pi * frequency * u + offset).ravel().tolist()
    real, imaginary = (np.reshape(few(f, phase), u.shape) for f in (cos_value, sin_value))
    return height * real, height * imaginary


def _edges(
    volume: Volume,
    name: str,
    weights: tuple[list[float], list[float]],
    axis: Any,
    mode: Any,
    cval: float,
    dtype: Any,
) -> Volume:
    volume = as_volume(volume)
    visible = par.axes_of(volume, None, name)
    chosen = par.axes_of(volume, axis, name, "axis")
    if not chosen:
        raise ValueError(f"{name}: axis is empty")
    modes = par.modes_of(mode, visible, name)
    along, across = map(np.array, weights)
    reach = len(along) // 2

    def derivative(direction: int, wanted: Any) -> Volume:
        passes = [(a, along if a == direction else across, reach) for a in visible]
        return separable(volume, name, passes, modes, cval, wanted, pads_once=True)

    if len(chosen) == 1:
        return derivative(chosen[0], dtype)
    parts = [derivative(a, float_dtype(dtype)) for a in chosen]
    return in_dtype(apply_ufunc("divide", magnitude(parts), math.sqrt(len(visible))), dtype)
