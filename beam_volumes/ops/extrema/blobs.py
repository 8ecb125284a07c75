"""Blobs: bright spots with positions and sizes, named as in scikit-image's feature."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.blobs import Blobs
from beam_volumes.base.geometry import Triple
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.nodes import Value
from beam_volumes.graph.scalar import Scalar, lazy
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.kernels.extrema.peaks import scale_peaks
from beam_volumes.ops.extrema.peaks import end_of, ranked, whole_numbers_of
from beam_volumes.ops.filters.derivatives import gaussian_laplace
from beam_volumes.ops.filters.linear import gaussian_filter, separable
from beam_volumes.ops.labels.tables import extremes_of_labels
from beam_volumes.ops.measure.folds import Max, Min
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_of_volumes, triple
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.sweep.stage import Block, KernelStage, Padding

Sigma = float | str | Sequence[float | str]
#: Weights along an axis, and how many of them precede its own voxel.
Box = tuple[np.ndarray, int]
#: Maximum number of scales.
MAX_SCALES = 100


@documented
def blob_log(
    image: Volume,
    min_sigma: Sigma = 1,
    max_sigma: Sigma = 50,
    num_sigma: int = 10,
    threshold: float | None = None,
    overlap: float = 0.5,
    log_scale: bool = False,
    *,
    threshold_rel: float | None = None,
    exclude_border: bool | int | Sequence[int] = False,
) -> Table:
    """Find bright blobs and their sizes by the Laplacian of Gaussians.

    Use it to count and measure round objects, such as nuclei or spots, without a segmentation.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and up to three axes. Intensities keep their scale.
    min_sigma : float, str or sequence of them, default: 1
        Smallest standard deviation of a blob, in voxels or as a length such as ``"150 nm"``.
        Lengths need a volume with a voxel size. One value for all axes or one per axis. The radius
        of a blob is about ``sqrt(axes) * sigma``.
    max_sigma : float, str or sequence of them, default: 50
        Largest standard deviation of a blob.
    num_sigma : int, default: 10
        The number of scales from ``min_sigma`` to ``max_sigma``, up to 100.
    threshold : float, optional
        Minimum response of a blob. By default 0.2 for floats, and 0.2 times the dtype's maximum for
        integers; with ``threshold_rel``, there is no minimum by default.
    overlap : float, default: 0.5
        If two blobs overlap by more than this fraction of the smaller one, remove the smaller one.
    log_scale : bool, default: False
        Whether scales have equal ratios instead of equal differences.
    threshold_rel : float, optional
        An additional minimum, as a fraction of the largest response.
    exclude_border : bool, int or sequence of int, default: False
        Minimum distance of blobs from the border, in voxels; False is 0.

    Returns
    -------
    Table
        A lazy table with a row for each blob. The columns are ``rank`` (1, 2, ... from the
        strongest blob), the position (``z``, ``y``, ``x``), ``sigma`` in voxels, and ``intensity``,
        which is the response. If a sigma is given for each axis or as a length, there are columns
        ``sigma_z``, ... instead of ``sigma``.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if the peaks need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    peak_local_max : peaks of one scale.
    label : components of a mask.

    Notes
    -----
    Blobs and their order are identical to scikit-image's, except for rounding and chains of
    overlapping blobs. In such chains, pairs are compared in the order of ranks. Pruning considers
    all blobs of the volume, so it does not depend on slabs.

    One sweep, or two with ``threshold_rel`` or without ``threshold``. All scales are computed in
    the same sweep. The halo is four times ``max_sigma``, so downsample volumes with large blobs.
    Peaks are compared in a tree, and a step needs about 300 bytes for each of its peaks.

    References
    ----------
    `skimage.feature.blob_log`; T. Lindeberg, "Feature detection with automatic scale selection",
    International Journal of Computer Vision 30 (1998).

    Examples
    --------
    >>> image = np.zeros((20, 24))
    >>> image[8:11, 5:8], image[9:16, 14:21] = 1, 1
    >>> table = bv.blob_log(image, 1, 4, num_sigma=4)
    >>> np.stack([table[name] for name in ("y", "x", "sigma")], axis=1)
    array([[12., 17.,  3.],
           [ 9.,  6.,  1.]])
    """
    name = "blob_log"
    image, low, high, columns = _checked(image, min_sigma, max_sigma, name)
    limits = _threshold(image, threshold, threshold_rel, 0.2), threshold_rel
    scales = _scales(low, high, num_sigma, log_scale, name)
    responses = []
    for scale in scales:
        laplace = gaussian_laplace(image, list(map(float, scale)))
        responses.append(apply_ufunc("multiply", laplace, -float(np.mean(scale) ** 2)))
    return _blobs(name, responses, scales[:, :columns], limits, overlap, exclude_border)


@documented_like(blob_log)
def blob_dog(
    image: Volume,
    min_sigma: Sigma = 1,
    max_sigma: Sigma = 50,
    sigma_ratio: float = 1.6,
    threshold: float | None = None,
    overlap: float = 0.5,
    *,
    threshold_rel: float | None = None,
    exclude_border: bool | int | Sequence[int] = False,
) -> Table:
    """Find bright blobs and their sizes by differences of Gaussians, faster than `blob_log`.

    Parameters
    ----------
    sigma_ratio : float, default: 1.6
        The ratio of the standard deviations of successive scales, above 1.
    threshold : float, optional
        Minimum response of a blob. By default 0.5 for floats, and 0.5 times the dtype's maximum for
        integers; with ``threshold_rel``, there is no minimum by default.

    See Also
    --------
    blob_log : finer scales.
    difference_of_gaussians : the response of one scale.

    Notes
    -----
    Blobs and their order are identical to scikit-image's, except for rounding and chains of
    overlapping blobs. In such chains, pairs are compared in the order of ranks. Pruning considers
    all blobs of the volume, so it does not depend on slabs.

    One sweep, or two with ``threshold_rel`` or without ``threshold``. The halo is four times the
    largest scale, up to ``sigma_ratio * max_sigma``. Peaks are compared in a tree, and a step needs
    about 300 bytes for each of its peaks.

    References
    ----------
    `skimage.feature.blob_dog`; D. G. Lowe, "Distinctive image features from scale-invariant
    keypoints", International Journal of Computer Vision 60 (2004).

    Examples
    --------
    >>> image = np.zeros((20, 24))
    >>> image[8:11, 5:8], image[9:16, 14:21] = 1, 1
    >>> table = bv.blob_dog(image, 1, 4, threshold=0.2)
    >>> np.stack([table["y"], table["x"]], axis=1)
    array([[ 9,  6],
           [12, 17]])
    """
    name = "blob_dog"
    image, low, high, columns = _checked(image, min_sigma, max_sigma, name)
    if not par.is_number(sigma_ratio) or not 1 < sigma_ratio < math.inf:
        raise ValueError(f"{name}: sigma_ratio={sigma_ratio!r} is not a finite number above 1")
    with np.errstate(over="ignore"):
        steps = float(np.mean(np.log(high / low) / math.log(sigma_ratio) + 1))
    if not 1 <= steps < MAX_SCALES + 1:
        raise ValueError(
            f"{name}: sigma_ratio={sigma_ratio!r} from min_sigma={min_sigma!r} to "
            f"max_sigma={max_sigma!r} makes {steps:.0f} scales; choose them for 1 to {MAX_SCALES} "
            "scales"
        )
    scales = np.array([low * sigma_ratio**k for k in range(int(steps) + 1)])
    smooth = [gaussian_filter(image, list(map(float, s))) for s in scales]
    factor = 1 / (sigma_ratio - 1)
    responses = [
        apply_ufunc("multiply", apply_ufunc("subtract", a, b), factor)
        for a, b in itertools.pairwise(smooth)
    ]
    limits = _threshold(image, threshold, threshold_rel, 0.5), threshold_rel
    return _blobs(name, responses, scales[:-1, :columns], limits, overlap, exclude_border)


@documented_like(blob_log)
def blob_doh(
    image: Volume,
    min_sigma: float | str = 1,
    max_sigma: float | str = 30,
    num_sigma: int = 10,
    threshold: float | None = 0.01,
    overlap: float = 0.5,
    log_scale: bool = False,
    *,
    threshold_rel: float | None = None,
    exclude_border: bool | int | Sequence[int] = False,
) -> Table:
    """Find bright and dark blobs of a plane, and their sizes, by the determinant of the Hessian matrix.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and two axes. Intensities keep their scale.
    min_sigma : float or str, default: 1
        Smallest standard deviation of a blob, at least 1, in voxels or as a length such as ``"150
        nm"``. Lengths need a volume with a voxel size. The radius of a blob is about ``sigma``.
    max_sigma : float or str, default: 30
        Largest standard deviation of a blob.
    threshold : float or None, default: 0.01
        Minimum response of a blob, times the square of the dtype's maximum for integers. None is
        the smallest response.

    Returns
    -------
    Table
        A lazy table with a row for each blob. The columns are ``rank`` (1, 2, ... from the
        strongest blob), the position (``y``, ``x``), ``sigma`` in voxels, and ``intensity``, which
        is the response.

    See Also
    --------
    blob_log : volumes, small blobs, and sigmas for each axis.

    Notes
    -----
    Blobs and their order are identical to scikit-image's, except for rounding and chains of
    overlapping blobs. In such chains, pairs are compared in the order of ranks. As in scikit-image,
    derivatives are differences of sums over boxes. At the edges, the image is reflected;
    scikit-image moves or clips the boxes, and replaces negative sums with 0.

    One sweep, or two with ``threshold_rel`` or without ``threshold``. The halo is about 1.5 times
    ``max_sigma``. Peaks are compared in a tree, and a step needs about 300 bytes for each of its
    peaks.

    References
    ----------
    `skimage.feature.blob_doh`; H. Bay et al., "SURF: Speeded up robust features", ECCV 2006.

    Examples
    --------
    >>> image = np.zeros((40, 48))
    >>> image[8:17, 5:14], image[20:35, 24:39] = 1, -1
    >>> table = bv.blob_doh(image, 3, 9, num_sigma=7)
    >>> np.stack([table[name] for name in ("y", "x", "sigma")], axis=1)
    array([[12.,  8.,  6.],
           [27., 30.,  9.]])
    """
    name = "blob_doh"
    image, low, high, columns = _checked(image, min_sigma, max_sigma, name)
    if len(low) != 2:
        raise ValueError(
            f"{name}: the image has {len(low)} axes, not 2; use blob_log, which accepts volumes"
        )
    if columns > 1 and (low[0] != low[1] or high[0] != high[1]):
        raise ValueError(
            f"{name}: the sigmas along y and x are different; use blob_log, which accepts one for "
            "each axis"
        )
    if low[0] < 1:
        raise ValueError(f"{name}: min_sigma={min_sigma!r} is below 1 voxel")
    if par.is_number(threshold) and image.dtype.kind in "iu":
        threshold = threshold * float(np.iinfo(image.dtype).max) ** 2
    scales = _scales(low[:1], high[:1], num_sigma, log_scale, name)
    responses = [_determinant(image, float(scale), name) for (scale,) in scales]
    return _blobs(name, responses, scales, (threshold, threshold_rel), overlap, exclude_border)


def _determinant(image: Volume, sigma: float, name: str) -> Volume:
    """Return the determinant of second derivatives, approximated by sums over boxes."""
    size = int(3 * sigma)
    half, third = (size - 1) // 2, size // 3
    difference = _boxes((1 - third, third, -1), (2, third, 1))
    around = _boxes((2 - third, 2 * third - 1, 1))
    second = _boxes((1 - half, size, 1), (1 - third // 2, third, -3))

    def derivative(*weights: Box) -> Volume:
        passes = [(axis, *w) for axis, w in zip(image.space.visible, weights, strict=True)]
        return separable(image, name, passes, ("reflect",) * 3, 0.0, None)

    xx, yy = derivative(around, second), derivative(second, around)
    xy = derivative(difference, difference)
    product = apply_ufunc("multiply", xx, yy)
    mixed = apply_ufunc("multiply", apply_ufunc("multiply", xy, xy), 0.81)
    return apply_ufunc("multiply", apply_ufunc("subtract", product, mixed), 1 / size**4)


def _boxes(*boxes: tuple[int, int, int]) -> Box:
    """Return weights along an axis, and those before its own voxel, from starts, lengths and factors.

    >>> _boxes((-1, 2, 1), (1, 1, -3))
    (array([ 1.,  1., -3.]), 1)
    """
    first = min(0, *(start for start, _, _ in boxes))
    weights = np.zeros(max(1, *(start + n for start, n, _ in boxes)) - first)
    for start, n, factor in boxes:
        weights[start - first : start - first + n] += factor
    return weights, -first


def _scales(
    low: np.ndarray, high: np.ndarray, num_sigma: int, log_scale: bool, name: str
) -> np.ndarray:
    """Return the standard deviations of each scale."""
    count = par.whole_number(num_sigma, "num_sigma", name)
    if count > MAX_SCALES:
        raise ValueError(f"{name}: num_sigma={count}: the maximum is {MAX_SCALES} scales")
    if log_scale:
        return np.logspace(np.log10(low), np.log10(high), count)
    return np.linspace(low, high, count)


@dataclass(frozen=True, eq=False)
class ScalePeaks(KernelStage):
    """The linear index plus one of a peak of three successive scales, else 0. The value is the threshold."""

    shape: Triple
    border: Triple

    kernel = staticmethod(scale_peaks)
    padding = Padding(("nearest",) * 3)  # type: ignore[arg-type]
    halos = ((((1, 1),) * 3),) * 3
    cost = 2.0
    misses_near_nan = True

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        where = out.start, self.shape, self.border, float(values[0])
        return inputs, out, y0, y1, out.cols, *where


def _checked(
    image: Any, low: Any, high: Any, name: str
) -> tuple[Volume, np.ndarray, np.ndarray, int]:
    """Return the image, the ends of the scales in voxels for each axis, and the number of sigmas."""
    image = one_channel(as_volume(image))
    axes = image.space.visible
    ends = []
    for what, given in (("min_sigma", low), ("max_sigma", high)):
        found = par.lengths(image, given, axes, what)
        ends.append(np.array([found[a] for a in axes]))
        if not (ends[-1] > 0).all():
            raise ValueError(f"{name}: {what}={given!r}: a standard deviation must be above 0")
        par.not_too_long(float(8 * ends[-1].max()), f"{name}: {what}={given!r}")
    if (ends[0] > ends[1]).any():
        raise ValueError(f"{name}: min_sigma={low!r} is above max_sigma={high!r}")
    if image.dtype.kind == "b":
        image = image.astype(np.uint8)
    return image, *ends, 1 if all(map(par.is_number, (low, high))) else len(axes)


def _blobs(
    name: str,
    responses: Sequence[Volume],
    scales: np.ndarray,
    limits: tuple[Any, Any],
    overlap: float,
    exclude_border: Any,
) -> Table:
    """Return the table of maxima of the responses at all scales."""
    image = responses[0]
    axes = image.space.axes
    shape = image.shape[-len(axes) :]
    if not par.is_number(overlap) or not 0 <= overlap <= 1:
        raise ValueError(f"{name}: overlap={overlap!r} is not a fraction from 0 to 1")
    given = 0 if exclude_border is False else exclude_border
    if isinstance(given, bool | np.bool_):
        raise ValueError(f"{name}: exclude_border={exclude_border!r}: give a number of voxels")
    border = whole_numbers_of(given, len(shape), "exclude_border", name)
    level = _level(name, responses, *limits)
    around = triple([0] * (3 - len(border)) + [*map(min, border, shape)])
    stage = ScalePeaks("blobs", np.dtype(np.uint64), image.nodes[0].shape, around)
    tables = []
    for k, response in enumerate(responses):
        near = [responses[max(0, k - 1)], response, responses[min(k + 1, len(responses) - 1)]]
        labels = stage_of_volumes(stage, near, level)
        tables.append(extremes_of_labels(labels, response, "intensity_max"))
    sigmas = tuple(tuple(map(float, scale)) for scale in scales)
    step = Blobs(name, shape, tuple(axes), image.dtype, sigmas, float(overlap))
    return ranked(step, tables)


def _threshold(image: Volume, threshold: Any, share: Any, default: float) -> Any:
    """Return the given threshold, or the default for the intensities of a dtype."""
    if threshold is not None or share is not None:
        return threshold
    return default * (float(np.iinfo(image.dtype).max) if image.dtype.kind in "iu" else 1.0)


def _level(name: str, responses: Sequence[Volume], threshold: Any, share: Any) -> Value:
    """Return the threshold of responses, as a lazy value."""
    for what, given in (("threshold", threshold), ("threshold_rel", share)):
        if given is not None and not (par.is_number(given) and math.isfinite(given)):
            raise ValueError(f"{name}: {what}={given!r} is not a finite number")
    dtype = responses[0].dtype
    if not responses[0].size:
        return lazy(0.0)

    def of_all(kind: Any, function: str) -> Scalar:
        ends = [end_of(kind, r) for r in responses]
        return functools.reduce(lambda a, b: apply_ufunc(function, a, b), ends)

    with np.errstate(over="ignore"):
        level = of_all(Min, "fmin") if threshold is None else float(dtype.type(float(threshold)))
    if share is not None:
        level = apply_ufunc("fmax", level, apply_ufunc("multiply", of_all(Max, "fmax"), share))
    return lazy(level)
