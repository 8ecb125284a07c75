"""How much two images differ: lazy numbers, named as in skimage.metrics."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from beam_volumes.graph.nodes import Formula, FormulaValue
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.linear import gaussian_filter, uniform_filter
from beam_volumes.ops.measure.reductions import max, mean, min
from beam_volumes.ops.measure.statistics import joint_histogram, pair
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented

#: Standard deviations at which scikit-image cuts the Gaussian of `structural_similarity`.
_TRUNCATE = 3.5


@documented
def mean_squared_error(
    a: Volume,
    b: Volume,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute the mean of the squared differences of two volumes.

    Parameters
    ----------
    %(pair)s
    %(where)s
    %(pair_nan)s
    %(across)s

    Returns
    -------
    Scalar
        The lazy float64 number. Differences are float32 if both volumes are float16 or float32, and
        float64 otherwise.

    Raises
    ------
    %(pair_errors)s

    See Also
    --------
    normalized_root_mse : its root, relative to the first volume.
    peak_signal_noise_ratio : compares it with the range of the voxels.

    Notes
    -----
    One sweep, which reads both volumes.

    %(exact)s

    References
    ----------
    `skimage.metrics.mean_squared_error`.

    Examples
    --------
    >>> image = np.array([[10, 20, 30]], "u1")
    >>> float(bv.mean_squared_error(image, image + 2))
    4.0
    """
    error, _, how = _squared_error("mean_squared_error", a, b, mask, nan, across)
    return mean(error, **how)


@documented
def normalized_root_mse(
    image_true: Volume,
    image_test: Volume,
    *,
    normalization: str = "euclidean",
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute the root of the mean squared error, divided by a measure of the true image.

    Parameters
    ----------
    image_true : Volume or numpy.ndarray
        The true image.
    image_test : Volume or numpy.ndarray
        The image to compare, with the same shape and axes.
    normalization : {"euclidean", "min-max", "mean"}, default: "euclidean"
        The divisor: the root of the mean square of the true image, its range, or its mean.
    %(where)s
    %(pair_nan)s
    %(across)s

    Returns
    -------
    Scalar
        The lazy float64 number; NaN or infinite if the divisor is 0.

    Raises
    ------
    %(pair_errors)s

    See Also
    --------
    mean_squared_error : without root and divisor.

    Notes
    -----
    One sweep, which reads both volumes.

    %(exact)s

    References
    ----------
    `skimage.metrics.normalized_root_mse`.

    Examples
    --------
    >>> image = np.array([[3, 4]], "u1")
    >>> float(bv.normalized_root_mse(image, image + 1, normalization="min-max"))
    1.0
    """
    name = "normalized_root_mse"
    error, true, how = _squared_error(name, image_true, image_test, mask, nan, across)
    root: Any = np.sqrt(mean(error, **how))
    if normalization == "euclidean":
        return root / np.sqrt(mean(true * true, **how))
    if normalization == "min-max":
        return root / (max(true, **how) - min(true, **how))
    if normalization == "mean":
        return root / mean(true, **how)
    raise ValueError(
        f'{name}: normalization={normalization!r}; use "euclidean", "min-max" or "mean"'
    )


@documented
def peak_signal_noise_ratio(
    image_true: Volume,
    image_test: Volume,
    *,
    data_range: float | Scalar | None = None,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute the ratio of the squared range of an image to the mean squared error, in decibels.

    Parameters
    ----------
    image_true : Volume or numpy.ndarray
        The true image.
    image_test : Volume or numpy.ndarray
        The image to compare, with the same shape and axes.
    data_range : float or Scalar, optional
        The difference of the largest and the smallest possible voxel, for example
        ``bv.max(v) - bv.min(v)``. By default, the range of the dtype for bool and unsigned integers.
        Other dtypes need it.
    %(where)s
    %(pair_nan)s
    %(across)s

    Returns
    -------
    Scalar
        The lazy float64 number in decibels; infinite for equal images.

    Raises
    ------
    %(pair_errors)s

    See Also
    --------
    mean_squared_error : without the range.
    structural_similarity : compares neighbourhoods.

    Notes
    -----
    One sweep, which reads both volumes.

    %(exact)s

    References
    ----------
    `skimage.metrics.peak_signal_noise_ratio`, which derives the range of signed integers and floats
    from their smallest voxel.

    Examples
    --------
    >>> image = np.array([[10, 20, 30]], "u1")
    >>> round(float(bv.peak_signal_noise_ratio(image, image + 1)), 2)
    48.13
    """
    name = "peak_signal_noise_ratio"
    error, _, how = _squared_error(name, image_true, image_test, mask, nan, across)
    extent = _data_range(name, as_volume(image_true).dtype, data_range)
    return 10.0 * np.log10((extent * extent) / mean(error, **how))


@overload
def structural_similarity(
    a: Volume,
    b: Volume,
    *,
    win_size: int | Sequence[int] | None = None,
    data_range: float | Scalar | None = None,
    gaussian_weights: bool = False,
    sigma: float | Sequence[float] = 1.5,
    use_sample_covariance: bool = True,
    K1: float = 0.01,
    K2: float = 0.03,
    full: Literal[False] = False,
) -> Scalar: ...
@overload
def structural_similarity(
    a: Volume,
    b: Volume,
    *,
    win_size: int | Sequence[int] | None = None,
    data_range: float | Scalar | None = None,
    gaussian_weights: bool = False,
    sigma: float | Sequence[float] = 1.5,
    use_sample_covariance: bool = True,
    K1: float = 0.01,
    K2: float = 0.03,
    full: Literal[True],
) -> tuple[Scalar, Volume]: ...
@documented
def structural_similarity(
    a: Volume,
    b: Volume,
    *,
    win_size: int | Sequence[int] | None = None,
    data_range: float | Scalar | None = None,
    gaussian_weights: bool = False,
    sigma: float | Sequence[float] = 1.5,
    use_sample_covariance: bool = True,
    K1: float = 0.01,
    K2: float = 0.03,
    full: bool = False,
) -> Scalar | tuple[Scalar, Volume]:
    """Compute the mean structural similarity (SSIM) of two images, and optionally its map.

    Parameters
    ----------
    %(pair)s
    win_size : int or sequence of int, optional
        Extent of the window in voxels, an odd number; one value for all axes or one per axis.
        7 by default. With ``gaussian_weights`` it follows from ``sigma``.
    data_range : float or Scalar, optional
        The difference of the largest and the smallest possible voxel, for example
        ``bv.max(v) - bv.min(v)``. By default, the range of the dtype for bool and unsigned integers.
        Other dtypes need it.
    gaussian_weights : bool, default: False
        Whether to weigh the window by a Gaussian of standard deviation ``sigma``. Together with
        ``use_sample_covariance=False`` this is the method of Wang et al.
    sigma : float or sequence of float, default: 1.5
        Standard deviation of the Gaussian in voxels; one value for all axes or one per axis.
    use_sample_covariance : bool, default: True
        Whether to divide covariances by N - 1 instead of N, the number of voxels of the window.
    K1 : float, default: 0.01
        Keeps the quotient stable where means are small: its product with ``data_range`` is squared
        and added.
    K2 : float, default: 0.03
        The same for small variances.
    full : bool, default: False
        Whether to also return the map of similarities.

    Returns
    -------
    similarity : Scalar
        The lazy float64 mean over all voxels with a window inside the volume.
    map : Volume
        With ``full=True``: the similarity of each voxel, float32 if both volumes are float16 or
        float32, and float64 otherwise.

    Raises
    ------
    ValueError
        If the shapes or axes of the volumes differ, the window is larger than the volume, or a
        parameter is out of range. On computation, if a voxel is NaN or infinite.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    peak_signal_noise_ratio : compares voxels by themselves.

    Notes
    -----
    One sweep, which reads both volumes. The halo is half the window.

    %(exact)s

    References
    ----------
    `skimage.metrics.structural_similarity`. Wang, Z., Bovik, A. C., Sheikh, H. R., & Simoncelli,
    E. P. (2004). Image quality assessment: from error visibility to structural similarity. IEEE
    Transactions on Image Processing, 13, 600-612.

    Examples
    --------
    >>> image = np.arange(64.0).reshape(8, 8)
    >>> float(bv.structural_similarity(image, image, data_range=63))
    1.0
    """
    name = "structural_similarity"
    x, y, _, dtype = pair(name, a, b, None, "raise")
    extent = _data_range(name, dtype, data_range)
    spatial = par.axes_of_space(x)
    sizes, local = _window(name, x, win_size, sigma, gaussian_weights)
    if builtins.any(n > x.shape[axis] for n, axis in zip(sizes, spatial, strict=True)):
        raise ValueError(
            f"{name}: the window of {' x '.join(map(str, sizes))} voxels is larger than the volume "
            f"of shape {x.shape}; use a smaller win_size, or 1 along short axes"
        )
    for k, constant in (("K1", K1), ("K2", K2)):
        if not 0 <= constant < np.inf:
            raise ValueError(f"{name}: {k}={constant!r} must be a finite number of at least 0")
    x, y = _as_float(x, y.dtype), _as_float(y, x.dtype)
    number = int(np.prod(sizes))
    scale = number / (number - 1) if use_sample_covariance and number > 1 else 1.0
    mean_x, mean_y = local(x), local(y)
    c1, c2 = (K1 * extent) ** 2, (K2 * extent) ** 2
    squares = mean_x * mean_x + mean_y * mean_y
    variances = scale * (local(x * x) + local(y * y) - squares)
    covariance = scale * (local(x * y) - mean_x * mean_y)
    map_ = ((2.0 * mean_x * mean_y + c1) * (2.0 * covariance + c2)) / (
        (squares + c1) * (variances + c2)
    )
    inside = [slice(None)] * x.ndim
    for n, axis in zip(sizes, spatial, strict=True):
        inside[axis] = slice(n // 2, x.shape[axis] - n // 2)
    similarity = mean(map_[tuple(inside)])
    return (similarity, map_) if full else similarity


@documented
def normalized_mutual_information(
    a: Volume,
    b: Volume,
    *,
    bins: int | Sequence[int] = 100,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute the normalized mutual information of two images from their joint histogram.

    It is ``(H(a) + H(b)) / H(a, b)`` with the entropies H: from 1 for independent images to 2 for
    images that determine each other. It compares images of different modalities.

    Parameters
    ----------
    %(pair)s
    bins : int or pair of int, default: 100
        Number of equal bins for the values of ``a`` and of ``b``.
    %(where)s
    %(pair_nan)s
    %(across)s

    Returns
    -------
    Scalar
        The lazy float64 number; NaN if both images are constant.

    Raises
    ------
    %(pair_errors)s

    See Also
    --------
    joint_histogram : the counts of pairs of values.
    correlation : compares images of one modality.

    Notes
    -----
    Two sweeps, which read both volumes: the ranges and the histogram. Values are compared with the
    edges of bins as float64. Subtract ``bv.min(v)`` from a volume of integers beyond 2**53.

    %(exact)s

    References
    ----------
    `skimage.metrics.normalized_mutual_information`. Studholme, C., Hill, D. L. G., & Hawkes, D. J.
    (1999). An overlap invariant entropy measure of 3D medical image alignment. Pattern Recognition,
    32, 71-86.

    Examples
    --------
    >>> image = np.array([[1, 2, 3, 4]], "u1")
    >>> round(float(bv.normalized_mutual_information(image, 255 - image)), 6)
    2.0
    """
    counts, *_ = joint_histogram(a, b, bins, mask=mask, nan=nan, across=across)
    formula = MutualInformation("normalized_mutual_information")
    return Scalar(FormulaValue.of(formula, (counts.value,), np.dtype(np.float64)))


@dataclass(frozen=True, eq=False)
class MutualInformation(Formula):
    """Normalized mutual information from a joint histogram."""

    def evaluate(self, *arguments: Any) -> Any:
        counts = np.asarray(arguments[0], np.float64)
        of_a, of_b, of_pairs = (_entropy(c) for c in (counts.sum(1), counts.sum(0), counts.ravel()))
        with np.errstate(invalid="ignore"):
            return np.float64(of_a + of_b) / np.float64(of_pairs)


def _entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _as_float(volume: Volume, other: np.dtype) -> Volume:
    """Convert to float32 if the dtypes of two volumes are at most float32, else to float64."""
    single = all(d.kind == "f" and d.itemsize <= 4 for d in (volume.dtype, other))
    return volume.astype("f4" if single else "f8")


def _squared_error(
    name: str, a: Any, b: Any, mask: Any, nan: str, across: str | None
) -> tuple[Volume, Volume, dict[str, Any]]:
    """Return squared differences, the first volume as floats, and options of reductions."""
    x, y, mask, _ = pair(name, a, b, mask, nan)
    x, y = _as_float(x, y.dtype), _as_float(y, x.dtype)
    difference = x - y
    return difference * difference, x, {"mask": mask, "nan": nan, "across": across}


def _data_range(name: str, dtype: np.dtype, given: Any) -> Any:
    """Return the range of voxels: the given range, or the range of a dtype without negative values."""
    if given is not None:
        if not isinstance(given, Scalar) and not (
            isinstance(given, int | float | np.number) and 0 < given < 1e150
        ):
            raise ValueError(f"{name}: data_range={given!r} must be a positive number below 1e150")
        return given
    if dtype.kind not in "bu":
        raise ValueError(
            f"{name}: give data_range for {dtype} images, for example "
            "data_range=bv.max(v) - bv.min(v)"
        )
    return 1.0 if dtype.kind == "b" else float(np.iinfo(dtype).max)


def _window(
    name: str, volume: Volume, win_size: Any, sigma: Any, gaussian: bool
) -> tuple[list[int], Callable[[Volume], Volume]]:
    """Return the extents of the window along visible axes, and the function of local means."""
    chosen = par.axes_of(volume, None, name)
    sigmas = par.lengths(volume, sigma, chosen, "sigma")
    if gaussian:
        if win_size is not None:
            raise ValueError(f"{name}: win_size={win_size!r} follows from sigma; leave it out")
        sizes = [2 * int(_TRUNCATE * sigmas[a] + 0.5) + 1 for a in chosen]
        return sizes, lambda v: gaussian_filter(v, sigma, truncate=_TRUNCATE)
    given = 7 if win_size is None else win_size
    sizes = [par.whole_numbers(given, chosen, 1, "win_size", 1)[a] for a in chosen]
    if builtins.any(n % 2 == 0 for n in sizes):
        raise ValueError(f"{name}: win_size={win_size!r} is not odd")
    return sizes, lambda v: uniform_filter(v, sizes)
