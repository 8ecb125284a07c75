"""Thresholds for each voxel from those around it, and filters that sharpen, named as in scikit-image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume, apply_ufunc, as_volume
from beam_volumes.ops import parameters as par
from beam_volumes.ops.filters.linear import (
    accumulator,
    float_dtype,
    gaussian_filter,
    in_dtype,
    uniform_filter,
)
from beam_volumes.ops.filters.rank import median_filter
from beam_volumes.ops.pointwise import where


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
    """A threshold for each voxel: the mean of those around it less an offset.

    Parameters
    ----------
    volume : Volume
    block_size : int or sequence of int
        Extent of what is around, per axis: an odd number.
    method : {"gaussian", "mean", "median"}
        The mean with Gaussian weights of ``sigma = (block_size - 1) / 6``, or plain; or the median.
    offset : float
        Subtracted.
    mode, cval
        As of `gaussian_filter`.
    param : float, str or sequence, optional
        Another sigma.

    Returns
    -------
    Volume
        A float as of `gaussian_filter`; ``volume > threshold`` is foreground. See
        `skimage.filters.threshold_local`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
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
            "function of your own"
        )
    return level if offset == 0 else apply_ufunc("subtract", level, float(offset))


def threshold_niblack(
    volume: Volume, window_size: int | Sequence[int] = 15, k: float = 0.2
) -> Volume:
    """A threshold for each voxel: the mean of its window less ``k`` standard deviations.

    Parameters
    ----------
    volume : Volume
    window_size : int or sequence of int
        Per axis: an odd number.
    k : float

    Returns
    -------
    Volume
        A float as of `gaussian_filter`, computed in float64. See `skimage.filters.threshold_niblack`.

    References
    ----------
    W. Niblack, "An introduction to digital image processing", Prentice-Hall (1986).

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.array([[1, 1, 7, 1, 1]], "u1"))
    >>> np.asarray(bv.threshold_niblack(v, (1, 3))).round(2)[0, 2]
    np.float32(2.43)
    """
    volume = as_volume(volume)
    mean, deviation = _mean_and_deviation(volume, window_size, "threshold_niblack")
    level = apply_ufunc("subtract", mean, apply_ufunc("multiply", deviation, float(k)))
    return level.astype(accumulator(volume.dtype))


def threshold_sauvola(
    volume: Volume,
    window_size: int | Sequence[int] = 15,
    k: float = 0.2,
    r: float | None = None,
) -> Volume:
    """A threshold for each voxel, ``mean * (1 + k * (deviation / r - 1))`` of its window.

    Parameters
    ----------
    volume, window_size, k
        As of `threshold_niblack`.
    r : float, optional
        The greatest standard deviation: half of what the dtype spans (1 for floats) by default.

    Returns
    -------
    Volume
        A float as of `gaussian_filter`, computed in float64. See `skimage.filters.threshold_sauvola`.

    References
    ----------
    J. Sauvola, M. Pietikainen, "Adaptive document image binarization", Pattern Recognition 33 (2000).

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
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
    """Of a window around each voxel, in float64; mirrored at the edges, as scikit-image has it."""
    sizes = _odd(volume, window, "window_size", name)
    wide = volume.astype(np.float64)
    mean = uniform_filter(wide, sizes, mode="mirror")
    squares = uniform_filter(apply_ufunc("multiply", wide, wide), sizes, mode="mirror")
    variance = apply_ufunc("subtract", squares, apply_ufunc("multiply", mean, mean))
    # Rounding may leave less than nothing; a NaN stays one.
    return mean, apply_ufunc("sqrt", where(variance < 0, 0.0, variance))


def _odd(volume: Volume, size: Any, what: str, name: str) -> list[int]:
    """Odd numbers per axis that the user sees."""
    chosen = par.axes_of(volume, None, name)
    sizes = par.whole_numbers(size, chosen, 1, what, 1)
    if any(n % 2 == 0 for n in sizes):
        raise ValueError(f"{name}: {what}={size!r} is not odd")
    return [sizes[a] for a in chosen]


def unsharp_mask(
    volume: Volume,
    radius: float | str | Sequence[float | str] = 1.0,
    amount: float = 1.0,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: Any = None,
) -> Volume:
    """Sharpen: add what a Gaussian takes away; see `skimage.filters.unsharp_mask`.

    Parameters
    ----------
    volume : Volume
        Intensities stay on their scale (``preserve_range=True`` there) and are not clipped.
    radius : float, str or sequence
        Standard deviation of the Gaussian.
    amount : float
        How much of it.
    mode, cval, dtype
        As of `gaussian_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.array([[10, 10, 50, 50]], "u1"))
    >>> np.asarray(bv.unsharp_mask(v, (0, 1), dtype="u1"))
    array([[ 7,  0, 62, 53]], dtype=uint8)
    """
    volume = as_volume(volume)
    blurred = gaussian_filter(volume, radius, mode=mode, cval=cval, dtype=float_dtype(dtype))
    own = volume.astype(blurred.dtype)
    more = apply_ufunc("multiply", apply_ufunc("subtract", own, blurred), float(amount))
    return in_dtype(apply_ufunc("add", own, more), dtype)


def difference_of_gaussians(
    volume: Volume,
    low_sigma: float | str | Sequence[float | str],
    high_sigma: float | str | Sequence[float | str] | None = None,
    *,
    mode: str | Sequence[str] = "nearest",
    cval: float = 0.0,
    truncate: float = 4.0,
    dtype: Any = None,
) -> Volume:
    """What is between two sizes; see `skimage.filters.difference_of_gaussians`.

    Parameters
    ----------
    volume : Volume
        Intensities stay on their scale, where scikit-image brings integers to 0 to 1.
    low_sigma, high_sigma : float, str or sequence
        Standard deviations; ``high_sigma`` is 1.6 times ``low_sigma`` by default.
    mode, cval, truncate, dtype
        As of `gaussian_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
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
