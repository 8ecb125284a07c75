"""Derivatives and combinations of them, named as in scipy.ndimage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.base.geometry import connectivity_structure
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters import kernel_choice
from beam_volumes.ops.filters.linear import (
    accumulator,
    correlation,
    float_dtype,
    gaussian_filter,
    in_dtype,
    separable,
)
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import kernel_input, stage_of
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.parameters.neighbourhood import Footprint

#: A derivative along an axis: ``derivative(volume, axis, mode=..., cval=..., dtype=..., **more)``.
Derivative = Callable[..., Volume]


@documented
def sobel(
    volume: Volume,
    axis: int = -1,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the Sobel derivative along an axis.

    The weights are ``[-1, 0, 1]`` along this axis, and ``[1, 2, 1]`` along all other axes.

    Parameters
    ----------
    %(volume)s
    axis : int, default: -1
        The axis of the derivative, counted from 0, or backwards from -1.
    %(mode)s
    %(cval)s
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    Notes
    -----
    One sweep, with a halo of one voxel along each axis. For integers, scipy returns the input's
    dtype, which wraps around. Use ``generic_gradient_magnitude`` to combine the derivatives along
    several axes, as scikit-image does if ``axis`` is None or a tuple.

    References
    ----------
    `scipy.ndimage.sobel`.

    Examples
    --------
    >>> row = bv.open(np.array([[10, 20, 30, 200, 10]], "u1"))
    >>> np.asarray(bv.sobel(row))
    array([[  40.,   80.,  720.,  -80., -760.]], dtype=float32)
    """
    return _smoothed_difference(volume, "sobel", [1.0, 2.0, 1.0], axis, mode, cval, dtype)


@documented_like(sobel)
def prewitt(
    volume: Volume,
    axis: int = -1,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the Prewitt derivative along an axis.

    The weights are ``[-1, 0, 1]`` along this axis, and ``[1, 1, 1]`` along all other axes.

    Notes
    -----
    One sweep, with a halo of one voxel along each axis. For integers, scipy returns the input's
    dtype, which wraps around. Use ``generic_gradient_magnitude`` to combine the derivatives along
    several axes, as scikit-image does if ``axis`` is None or a tuple.

    References
    ----------
    `scipy.ndimage.prewitt`.

    Examples
    --------
    >>> row = bv.open(np.array([[10, 20, 30, 200, 10]], "u1"))
    >>> np.asarray(bv.prewitt(row))
    array([[  30.,   60.,  540.,  -60., -570.]], dtype=float32)
    """
    return _smoothed_difference(volume, "prewitt", [1.0, 1.0, 1.0], axis, mode, cval, dtype)


def _smoothed_difference(
    volume: Volume, name: str, across: list[float], axis: int, mode: Any, cval: float, dtype: Any
) -> Volume:
    volume = as_volume(volume)
    chosen = par.axes_of(volume, None, name)
    along = par.axis_of(volume, axis, name)
    modes = par.modes_of(mode, chosen, name)
    passes = [(along, np.array([-1.0, 0.0, 1.0]), 1)]
    passes += [(a, np.array(across), 1) for a in chosen if a != along]
    return separable(volume, name, passes, modes, cval, dtype)


@documented_like(sobel)
def laplace(
    volume: Volume,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the sum of the second differences, ``[1, -2, 1]``, along the axes.

    Parameters
    ----------
    %(axes)s

    Notes
    -----
    One sweep, with a halo of one voxel along each axis. A single stage sums all
    ``1 + 2 * len(axes)`` weighted voxels, without intermediate results.

    References
    ----------
    `scipy.ndimage.laplace`.

    Examples
    --------
    >>> np.asarray(bv.laplace(bv.open(np.array([[10, 20, 30, 200, 10]], "u1"))))
    array([[  10.,    0.,  160., -360.,  190.]], dtype=float32)
    """
    volume = as_volume(volume)
    chosen = par.axes_of(volume, axes, "laplace")
    if not chosen:
        raise ValueError("laplace: axes is empty")
    weights = connectivity_structure(1, len(chosen)).astype(np.float64)
    weights[(1,) * len(chosen)] = -2 * len(chosen)
    around = Footprint.of_weights(volume, "laplace", weights, 0, axes, mode, cval)
    return correlation(volume, around, dtype)


@documented_like(sobel)
def gaussian_laplace(
    volume: Volume,
    sigma: float | str | Sequence[float | str],
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the sum of the second Gaussian derivatives along the axes.

    Parameters
    ----------
    %(sigma)s
    %(truncate)s
    %(axes)s

    Notes
    -----
    %(gaussian_derivatives)s

    References
    ----------
    `scipy.ndimage.gaussian_laplace`.

    Examples
    --------
    >>> spot = bv.open(np.eye(1, 5, 2, dtype="f4"))
    >>> np.asarray(bv.gaussian_laplace(spot, 1, axes=1)).round(2)
    array([[ 0.2,  0. , -0.4,  0. ,  0.2]], dtype=float32)
    """
    name = "gaussian_laplace"
    parts = _gaussian_derivatives(volume, name, 2, sigma, mode, cval, truncate, axes, dtype)
    return in_dtype(_sum(parts), dtype)


@documented_like(gaussian_laplace)
def gaussian_gradient_magnitude(
    volume: Volume,
    sigma: float | str | Sequence[float | str],
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the magnitude of the gradient from Gaussian derivatives.

    Notes
    -----
    %(gaussian_derivatives)s

    References
    ----------
    `scipy.ndimage.gaussian_gradient_magnitude`.

    Examples
    --------
    >>> ramp = bv.open(np.arange(27, dtype="f4").reshape(3, 3, 3))
    >>> bv.gaussian_gradient_magnitude(ramp, 1).dtype
    dtype('float32')
    """
    name = "gaussian_gradient_magnitude"
    parts = _gaussian_derivatives(volume, name, 1, sigma, mode, cval, truncate, axes, dtype)
    return in_dtype(magnitude(parts), dtype)


def _gaussian_derivatives(
    volume: Volume,
    name: str,
    order: int,
    sigma: Any,
    mode: Any,
    cval: float,
    truncate: float,
    axes: Any,
    dtype: Any,
) -> list[Volume]:
    """Take the Gaussian derivative of an order along each axis, smoothed along the others."""
    positions = _positions(as_volume(volume))
    chosen = [positions[a] for a in par.axes_of(as_volume(volume), axes, name)]

    def derivative(v: Volume, axis: int, **options: Any) -> Volume:
        orders = [order if a == axis else 0 for a in chosen]
        return gaussian_filter(v, sigma, orders, truncate=truncate, axes=chosen, **options)

    return _derivatives(volume, name, derivative, mode, cval, None, axes, dtype)


@documented_like(sobel)
def generic_gradient_magnitude(
    volume: Volume,
    derivative: str | Derivative,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    extra_keywords: Mapping[str, Any] | None = None,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the magnitude of the gradient from a derivative of your choice.

    Parameters
    ----------
    derivative : {"sobel", "prewitt"} or callable
        ``derivative(volume, axis, mode=..., cval=..., dtype=..., **extra_keywords)`` returns the
        derivative along an axis as a lazy volume, like `sobel`.
    extra_keywords : mapping, optional
        Additional arguments for the derivative.
    %(axes)s

    Notes
    -----
    As in scipy, the mode of an axis applies to the whole derivative along this axis, including
    steps in other directions. The derivatives determine sweeps and halo.

    References
    ----------
    `scipy.ndimage.generic_gradient_magnitude`.

    Examples
    --------
    >>> corner = bv.open(np.array([[0, 0, 3], [0, 0, 3], [4, 4, 5]], "u1"))
    >>> np.asarray(bv.generic_gradient_magnitude(corner, bv.sobel))[1, 1].round(3)
    np.float32(17.205)
    """
    name = "generic_gradient_magnitude"
    fused = None if extra_keywords else _fused(volume, name, derivative, mode, cval, axes, dtype)
    if fused is not None:
        return in_dtype(fused, dtype)
    parts = _derivatives(volume, name, derivative, mode, cval, extra_keywords, axes, dtype)
    return in_dtype(magnitude(parts), dtype)


def _fused(
    volume: Volume, name: str, derivative: Any, mode: Any, cval: float, axes: Any, dtype: Any
) -> Volume | None:
    """Compute Sobel's or Prewitt's gradient along all three axes in one stage, if this is equivalent."""
    if isinstance(derivative, str):
        derivative = _NAMED.get(derivative)
    centre = 2 if derivative is sobel else 1 if derivative is prewitt else 0
    if not centre:
        return None
    source = kernel_input(as_volume(volume))
    real = np.dtype(float_dtype(dtype) or accumulator(source.dtype))
    box = Footprint.of_box(source, name, 3, 0, axes, mode, cval)
    stage = kernel_choice.gradient_magnitude(box, source.dtype, real, centre)
    return None if stage is None else stage_of(source, stage)


@documented_like(sobel)
def generic_laplace(
    volume: Volume,
    derivative2: Callable[..., Volume],
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    extra_keywords: Mapping[str, Any] | None = None,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the sum of second derivatives of your choice along the axes.

    Parameters
    ----------
    derivative2 : callable
        ``derivative2(volume, axis, mode=..., cval=..., dtype=..., **extra_keywords)`` returns the
        second derivative along an axis as a lazy volume.
    extra_keywords : mapping, optional
        Additional arguments for the derivative.
    %(axes)s

    Notes
    -----
    As in scipy, the mode of an axis applies to the whole derivative along this axis, including
    steps in other directions. The derivatives determine sweeps and halo.

    References
    ----------
    `scipy.ndimage.generic_laplace`.

    Examples
    --------
    >>> def second(volume, axis, **options):
    ...     return bv.correlate1d(volume, [1, -2, 1], axis, **options)
    >>> row = bv.open(np.array([[10, 20, 30, 200, 10]], "u1"))
    >>> np.asarray(bv.generic_laplace(row, second))
    array([[  10.,    0.,  160., -360.,  190.]], dtype=float32)
    """
    name = "generic_laplace"
    if isinstance(derivative2, str):
        raise TypeError(f"{name}: derivative2={derivative2!r} is not a function; see laplace")
    parts = _derivatives(volume, name, derivative2, mode, cval, extra_keywords, axes, dtype)
    return in_dtype(_sum(parts), dtype)


_NAMED: dict[str, Derivative] = {"sobel": sobel, "prewitt": prewitt}


def _derivatives(
    volume: Volume,
    name: str,
    derivative: str | Derivative,
    mode: Any,
    cval: float,
    extra_keywords: Mapping[str, Any] | None,
    axes: Any,
    dtype: Any,
) -> list[Volume]:
    volume = as_volume(volume)
    if isinstance(derivative, str):
        if derivative not in _NAMED:
            raise ValueError(
                f"{name}: derivative={derivative!r}; use {' or '.join(map(repr, _NAMED))}, or a function"
            )
        derivative = _NAMED[derivative]
    if not callable(derivative):
        raise TypeError(f"{name}: derivative={derivative!r} is not a function")
    chosen = par.axes_of(volume, axes, name)
    if not chosen:
        raise ValueError(f"{name}: axes is empty")
    modes = par.modes_of(mode, chosen, name)
    positions = _positions(volume)
    options = {"cval": cval, "dtype": float_dtype(dtype), **(extra_keywords or {})}
    parts = [derivative(volume, positions[a], mode=modes[a], **options) for a in chosen]
    for part in parts:
        if not isinstance(part, Volume) or part.shape != volume.shape:
            raise TypeError(
                f"{name}: the derivative returned {part!r}, not a volume like the input"
            )
    return parts


def _positions(volume: Volume) -> dict[int, int]:
    """Map z, y and x to the numbers of the visible axes."""
    return dict(zip(volume.space.visible, par.axes_of_space(volume), strict=True))


def magnitude(parts: Sequence[Volume]) -> Volume:
    """Compute the root of the sum of squares."""
    return apply_ufunc("sqrt", _sum([apply_ufunc("multiply", p, p) for p in parts]))


def _sum(parts: Sequence[Volume]) -> Volume:
    total = parts[0]
    for part in parts[1:]:
        total = apply_ufunc("add", total, part)
    return total
