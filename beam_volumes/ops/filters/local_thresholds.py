"""Thresholds from the neighbourhood of each voxel, and filters that sharpen or denoise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.linear import (
    accumulator,
    float_dtype,
    gaussian_filter,
    in_dtype,
    uniform_filter,
)
from beam_volumes.ops.filters.rank import median_filter
from beam_volumes.ops.measure.reductions import mean as mean_of_all
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.pointwise import where


@documented
def threshold_local(
    volume: Volume,
    block_size: int | Sequence[int] = 3,
    method: str = "gaussian",
    offset: float = 0.0,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    param: float | str | Sequence[float | str] | None = None,
) -> Volume:
    """Compute a threshold for each voxel, the mean of its neighbourhood minus an offset.

    Parameters
    ----------
    %(volume)s
    block_size : int or sequence of int, default: 3
        Extent of the neighbourhood in voxels, an odd number; one value for all axes or one per
        axis.
    method : {"gaussian", "mean", "median"}, default: "gaussian"
        A mean with Gaussian weights of ``sigma = (block_size - 1) / 6``, a plain mean, or the
        median.
    offset : float, default: 0.0
        Number to subtract from the mean.
    %(mode)s
    %(cval)s
    param : float, str or sequence of them, optional
        A custom sigma for ``"gaussian"``, in voxels or as a length such as ``"15 nm"``.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes. ``volume > threshold`` is foreground.

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    threshold_otsu : computes one threshold for the whole volume.

    Notes
    -----
    One sweep. The halo is ``block_size // 2`` voxels on each side, or four sigma for
    ``"gaussian"``.

    References
    ----------
    `skimage.filters.threshold_local`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 9, 2, 1]], "u1"))
    >>> np.asarray(v > bv.threshold_local(v, (1, 3), "mean")).astype(int)
    array([[0, 0, 1, 0, 0]])
    """
    volume = as_volume(volume)
    name = "threshold_local"
    sizes = _odd(volume, block_size, "block_size", name)
    options: dict[str, Any] = {"mode": mode, "cval": cval}
    if method == "gaussian":
        sigma = [(n - 1) / 6 for n in sizes] if param is None else param
        level = gaussian_filter(volume, sigma, **options)
    elif param is not None:
        raise ValueError(f"{name}: param={param!r} is for the method 'gaussian', not {method!r}")
    elif method == "mean":
        level = uniform_filter(volume, sizes, **options)
    elif method == "median":
        level = median_filter(volume, sizes, **options).astype(accumulator(volume.dtype))
    else:
        raise ValueError(
            f'{name}: method={method!r}; use "gaussian", "mean" or "median", or map_overlap for a '
            "different function"
        )
    return level if offset == 0 else apply_ufunc("subtract", level, float(offset))


@documented
def threshold_niblack(
    volume: Volume, window_size: int | Sequence[int] = 15, k: float = 0.2
) -> Volume:
    """Compute Niblack's threshold for each voxel: its window's mean minus ``k`` standard deviations.

    Parameters
    ----------
    %(volume)s
    window_size : int or sequence of int, default: 15
        Extent of the window in voxels, an odd number; one value for all axes or one per axis.
    k : float, default: 0.2
        Number of standard deviations to subtract.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes. Computation is in float64. ``volume > threshold`` is foreground.

    Raises
    ------
    %(errors)s

    Notes
    -----
    One sweep, with a halo of ``window_size // 2`` voxels on each side. The volume is mirrored at
    its edges, as in scikit-image.

    References
    ----------
    `skimage.filters.threshold_niblack`; W. Niblack, "An introduction to digital image processing",
    Prentice-Hall (1986).

    Examples
    --------
    >>> v = bv.open(np.array([[1, 1, 7, 1, 1]], "u1"))
    >>> np.asarray(bv.threshold_niblack(v, (1, 3))).round(2)[0, 2]
    np.float32(2.43)
    """
    volume = as_volume(volume)
    mean, deviation = _mean_and_deviation(volume, window_size, "threshold_niblack")
    level = apply_ufunc("subtract", mean, apply_ufunc("multiply", deviation, float(k)))
    return level.astype(accumulator(volume.dtype))


@documented_like(threshold_niblack)
def threshold_sauvola(
    volume: Volume,
    window_size: int | Sequence[int] = 15,
    k: float = 0.2,
    r: float | None = None,
) -> Volume:
    """Compute Sauvola's threshold for each voxel from its window's mean and standard deviation.

    The threshold is ``mean * (1 + k * (deviation / r - 1))``.

    Parameters
    ----------
    k : float, default: 0.2
        How much a small standard deviation reduces the threshold.
    r : float, optional
        The maximum possible standard deviation; by default half of the range of an integer dtype,
        and 1 for bool and floats.

    Notes
    -----
    One sweep, with a halo of ``window_size // 2`` voxels on each side. The volume is mirrored at
    its edges, as in scikit-image.

    References
    ----------
    `skimage.filters.threshold_sauvola`; J. Sauvola, M. Pietikainen, "Adaptive document image
    binarization", Pattern Recognition 33 (2000).

    Examples
    --------
    >>> v = bv.open(np.array([[1, 1, 7, 1, 1]], "u1"))
    >>> np.asarray(bv.threshold_sauvola(v, (1, 3))).round(2)[0, 2]
    np.float32(2.41)
    """
    volume = as_volume(volume)
    name = "threshold_sauvola"
    if r is None:
        r = 1.0
        if volume.dtype.kind in "iu":
            info = np.iinfo(volume.dtype)
            r = 0.5 * (float(info.max) - float(info.min))
    if not r > 0:
        raise ValueError(f"{name}: r={r!r} is not a positive number")
    mean, deviation = _mean_and_deviation(volume, window_size, name)
    share = apply_ufunc("subtract", apply_ufunc("divide", deviation, float(r)), 1.0)
    factor = apply_ufunc("add", apply_ufunc("multiply", share, float(k)), 1.0)
    return apply_ufunc("multiply", mean, factor).astype(accumulator(volume.dtype))


def _mean_and_deviation(volume: Volume, window: Any, name: str) -> tuple[Volume, Volume]:
    """Compute both in a window around each voxel, in float64, mirrored at the edges like scikit-image."""
    sizes = _odd(volume, window, "window_size", name)
    mean, variance, _ = _mean_and_variance(volume, sizes, "mirror")
    # Rounding may give negative numbers; NaN is kept.
    return mean, apply_ufunc("sqrt", where(variance < 0, 0.0, variance))


def _mean_and_variance(
    volume: Volume, sizes: list[int], mode: str
) -> tuple[Volume, Volume, Volume]:
    """Compute both in a window around each voxel, in float64, and return the float64 volume with them."""
    wide = volume.astype(np.float64)
    mean = uniform_filter(wide, sizes, mode=mode)
    squares = uniform_filter(apply_ufunc("multiply", wide, wide), sizes, mode=mode)
    return mean, apply_ufunc("subtract", squares, apply_ufunc("multiply", mean, mean)), wide


def _odd(volume: Volume, size: Any, what: str, name: str) -> list[int]:
    """Check odd sizes of windows; return one for each visible axis."""
    chosen = par.axes_of(volume, None, name)
    sizes = par.whole_numbers(size, chosen, 1, what, 1)
    if any(n % 2 == 0 for n in sizes):
        raise ValueError(f"{name}: {what}={size!r} is not odd")
    return [sizes[a] for a in chosen]


@documented
def unsharp_mask(
    volume: Volume,
    radius: float | str | Sequence[float | str] = 1.0,
    amount: float = 1.0,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Sharpen a volume by adding the difference from its Gaussian.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Intensities keep their scale
        (``preserve_range=True`` in scikit-image) and are not clipped.
    radius : float, str or sequence of them, default: 1.0
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths
        need a volume with a voxel size. One value for all axes or one per axis.
    amount : float, default: 1.0
        Factor of the difference.
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
    One sweep, with a halo of four times ``radius``.

    References
    ----------
    `skimage.filters.unsharp_mask`.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 10, 50, 50]], "u1"))
    >>> np.asarray(bv.unsharp_mask(v, (0, 1), dtype="u1"))
    array([[ 7,  0, 62, 53]], dtype=uint8)
    """
    volume = as_volume(volume)
    blurred = gaussian_filter(volume, radius, mode=mode, cval=cval, dtype=float_dtype(dtype))
    own = volume.astype(blurred.dtype)
    more = apply_ufunc("multiply", apply_ufunc("subtract", own, blurred), float(amount))
    return in_dtype(apply_ufunc("add", own, more), dtype)


@documented_like(unsharp_mask)
def difference_of_gaussians(
    volume: Volume,
    low_sigma: float | str | Sequence[float | str],
    high_sigma: float | str | Sequence[float | str] | None = None,
    *,
    mode: str | Sequence[str] = "nearest",
    cval: float = 0.0,
    truncate: float = 4.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Keep structures between two sizes, as the difference of two Gaussians.

    Parameters
    ----------
    %(intensities)s
    low_sigma : float, str or sequence of them
        Standard deviation of the narrower Gaussian, in voxels or as a length such as ``"15
        nm"``. Lengths need a volume with a voxel size. One value for all axes or one per axis.
    high_sigma : float, str or sequence of them, optional
        Standard deviation of the wider Gaussian; 1.6 times ``low_sigma`` by default.
    %(mode_nearest)s
    %(truncate)s

    Notes
    -----
    One sweep, with a halo of ``truncate`` times ``high_sigma``.

    References
    ----------
    `skimage.filters.difference_of_gaussians`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 8, 0, 0]], "u1"))
    >>> np.asarray(bv.difference_of_gaussians(v, (0, 0.5), (0, 1))).round(1)
    array([[-0.4, -1.1,  3.1, -1.1, -0.4]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "difference_of_gaussians"
    chosen = par.axes_of(volume, None, name)
    low = par.lengths(volume, low_sigma, chosen, "low_sigma")
    high = (
        [1.6 * s for s in low]
        if high_sigma is None
        else par.lengths(volume, high_sigma, chosen, "high_sigma")
    )
    if any(high[a] < low[a] for a in chosen):
        raise ValueError(f"{name}: high_sigma={high_sigma!r} is below low_sigma={low_sigma!r}")
    options: dict[str, Any] = {
        "mode": mode,
        "cval": cval,
        "truncate": truncate,
        "dtype": float_dtype(dtype),
    }
    fine = gaussian_filter(volume, [low[a] for a in chosen], **options)
    coarse = gaussian_filter(volume, [high[a] for a in chosen], **options)
    return in_dtype(apply_ufunc("subtract", fine, coarse), dtype)


@documented_like(unsharp_mask)
def denoise_wiener(
    volume: Volume,
    mysize: int | Sequence[int] = 3,
    noise: float | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Denoise where the local variance is close to the noise, which keeps edges.

    The result is ``mean + (1 - noise / variance) * (volume - mean)``, with the mean and variance of
    each voxel's window. Where the variance does not exceed the noise, the result is the mean.

    Parameters
    ----------
    %(volume)s
    mysize : int or sequence of int, default: 3
        Extent of the window in voxels, an odd number; one value for all axes or one per axis.
    noise : float, optional
        The variance of the noise; by default the mean of the local variances of all channels,
        without NaN, which needs an additional sweep.

    See Also
    --------
    median_filter : removes single outliers.
    unsharp_mask : sharpens.

    Notes
    -----
    One sweep, or two without ``noise``. The halo is ``mysize // 2`` voxels on each side.
    Computation is in float64, including for integers, which overflow in scipy. The volume is 0
    beyond its edges, as in scipy.

    References
    ----------
    `scipy.signal.wiener`; J. S. Lim, "Two-dimensional signal and image processing", Prentice Hall
    (1990).

    Examples
    --------
    >>> v = bv.open(np.array([[50, 52, 50, 90, 92, 90]], "u1"))
    >>> np.asarray(bv.denoise_wiener(v, (1, 3), noise=10)).round(1)[0, 1:-1]
    array([50.7, 50.4, 89.7, 90.7], dtype=float32)
    """
    volume = as_volume(volume)
    if noise is not None and not (par.is_number(noise) and 0 <= noise < np.inf):
        raise ValueError(f"denoise_wiener: noise={noise!r} is not a finite number of at least 0")
    sizes = _odd(volume, mysize, "mysize", "denoise_wiener")
    mean, variance, wide = _mean_and_variance(volume, sizes, "constant")
    power: Any = noise
    if noise is None:
        power = mean_of_all(variance, nan="omit") if volume.size else 0.0
    kept = apply_ufunc("subtract", 1.0, apply_ufunc("divide", power, variance))
    detail = apply_ufunc("multiply", apply_ufunc("subtract", wide, mean), kept)
    result = where(variance <= power, mean, apply_ufunc("add", mean, detail))
    return in_dtype(result, accumulator(volume.dtype) if dtype is None else dtype)
