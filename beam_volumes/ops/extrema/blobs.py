"""Blobs: bright spots with positions and sizes, named as in scikit-image's feature."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.across.rounds.blobs import Blobs
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.extrema.peaks import end_of, whole_numbers_of
from beam_volumes.ops.filters.derivatives import gaussian_laplace
from beam_volumes.ops.filters.linear import gaussian_filter
from beam_volumes.ops.filters.rank import maximum_filter
from beam_volumes.ops.geometry.rearrange import coordinates
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.tables import extremes_of_labels
from beam_volumes.ops.measure.folds import Max, Min
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.pointwise import where

Sigma = float | str | Sequence[float | str]
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
        A lazy volume of one channel with up to three axes, or an array, which is opened. Intensities
        keep their scale.
    min_sigma : float, str or sequence of them, default: 1
        Smallest standard deviation of a blob, in voxels or as a length such as ``"150 nm"``, which
        needs a volume with a voxel size. One for all axes, or one for each. The radius of a blob is
        about ``sqrt(axes) * sigma``.
    max_sigma : float, str or sequence of them, default: 50
        Largest standard deviation of a blob.
    num_sigma : int, default: 10
        The number of scales between them, up to 100.
    threshold : float, optional
        Blobs have a response above it. By default 0.2, for integers times the maximum of the dtype, or
        none with ``threshold_rel``.
    overlap : float, default: 0.5
        If two blobs overlap by more than this fraction of the smaller one, the smaller one is removed.
    log_scale : bool, default: False
        Whether scales have equal ratios instead of equal differences.
    threshold_rel : float, optional
        Blobs have a response above this fraction of the largest response, in addition.
    exclude_border : bool, int or sequence of int, default: False
        Blobs closer than this to the border are excluded, in voxels; False is 0.

    Returns
    -------
    Table
        A lazy table: ``rank`` 1, 2, ... from the strongest blob, its position in columns with names
        of axes (``z``, ``y``, ``x``), ``sigma`` in voxels (``sigma_z``, ... if a sigma is given for
        each axis or as a length), and ``intensity``, the response.

    Raises
    ------
    ValueError
        If a parameter is out of range; on computation, if the peaks need more memory than
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    peak_local_max : peaks of one scale.
    label : components of a mask.

    Notes
    -----
    Blobs and their order are identical to scikit-image, except where rounding decides, and where
    several blobs overlap in a chain: pairs are then compared in the order of ranks. Pruning
    considers all blobs of the volume, so it does not depend on slabs.

    One sweep, two with ``threshold_rel`` or without ``threshold``. All scales are computed in the same
    sweep. The halo is four times ``max_sigma``, so downsample a volume with large blobs. One worker
    collects all peaks, about 300 bytes each.

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
    count = par.whole_number(num_sigma, "num_sigma", name)
    if count > MAX_SCALES:
        raise ValueError(f"{name}: num_sigma={count}: there may be {MAX_SCALES} scales at most")
    limits = _threshold(image, threshold, threshold_rel, 0.2), threshold_rel
    if log_scale:
        scales = np.logspace(np.log10(low), np.log10(high), count)
    else:
        scales = np.linspace(low, high, count)
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
    image : Volume or numpy.ndarray
        A lazy volume of one channel with up to three axes, or an array, which is opened. Intensities
        keep their scale.
    min_sigma : float, str or sequence of them, default: 1
        Smallest standard deviation of a blob, in voxels or as a length such as ``"150 nm"``, which
        needs a volume with a voxel size. One for all axes, or one for each. The radius of a blob is
        about ``sqrt(axes) * sigma``.
    max_sigma : float, str or sequence of them, default: 50
        Largest standard deviation of a blob.
    sigma_ratio : float, default: 1.6
        The ratio of the standard deviations of successive scales, above 1.
    threshold : float, optional
        Blobs have a response above it. By default 0.5, for integers times the maximum of the dtype, or
        none with ``threshold_rel``.
    overlap : float, default: 0.5
        If two blobs overlap by more than this fraction of the smaller one, the smaller one is removed.
    threshold_rel : float, optional
        Blobs have a response above this fraction of the largest response, in addition.
    exclude_border : bool, int or sequence of int, default: False
        Blobs closer than this to the border are excluded, in voxels; False is 0.

    See Also
    --------
    blob_log : finer scales.
    difference_of_gaussians : the response of one scale.

    Notes
    -----
    Blobs and their order are identical to scikit-image, except where rounding decides, and where
    several blobs overlap in a chain: pairs are then compared in the order of ranks. Pruning
    considers all blobs of the volume, so it does not depend on slabs.

    One sweep, two with ``threshold_rel`` or without ``threshold``. The halo is four times the largest
    scale, up to ``sigma_ratio * max_sigma``. One worker collects all peaks, about 300 bytes each.

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
            f"max_sigma={max_sigma!r} makes {steps:.0f} scales; there may be 1 to {MAX_SCALES}"
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
            raise ValueError(f"{name}: {what}={given!r}: a standard deviation is above 0")
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
    shape, first = image.shape[-len(axes) :], image.ndim - len(axes)
    if not par.is_number(overlap) or not 0 <= overlap <= 1:
        raise ValueError(f"{name}: overlap={overlap!r} is not a fraction from 0 to 1")
    given = 0 if exclude_border is False else exclude_border
    if isinstance(given, bool | np.bool_):
        raise ValueError(f"{name}: exclude_border={exclude_border!r}: give a number of voxels")
    border = whole_numbers_of(given, len(shape), "exclude_border", name)
    level = _level(name, responses, *limits)
    index: Any = None
    inside: Any = None
    for axis, (n, width) in enumerate(zip(shape, border, strict=True)):
        at = coordinates(image, first + axis)
        index = at if index is None else index * n + at
        if width:
            within = (at >= width) & (at < n - width)
            inside = within if inside is None else inside & within
    near = [maximum_filter(r, size=3, mode="nearest") for r in responses]
    tables = []
    for k, response in enumerate(responses):
        highest = functools.reduce(_larger, near[max(0, k - 1) : k + 2])
        peaks = (response > level) & apply_ufunc("equal", response, highest)
        peaks = peaks if inside is None else peaks & inside
        labels = where(peaks, index + 1, 0).astype(np.uint64)
        tables.append(extremes_of_labels(labels, response, "intensity_max"))
    sigmas = tuple(tuple(map(float, scale)) for scale in scales)
    step = Blobs(name, shape, tuple(axes), image.dtype, sigmas, float(overlap))
    return Table(then(step, tables, name))


def _larger(a: Volume, b: Volume) -> Volume:
    return apply_ufunc("maximum", a, b)


def _threshold(image: Volume, threshold: Any, share: Any, default: float) -> Any:
    """Return the given threshold, or the default for the intensities of a dtype."""
    if threshold is not None or share is not None:
        return threshold
    return default * (float(np.iinfo(image.dtype).max) if image.dtype.kind in "iu" else 1.0)


def _level(name: str, responses: Sequence[Volume], threshold: Any, share: Any) -> Any:
    """Return the threshold of responses, which may be lazy."""
    for what, given in (("threshold", threshold), ("threshold_rel", share)):
        if given is not None and not (par.is_number(given) and math.isfinite(given)):
            raise ValueError(f"{name}: {what}={given!r} is not a finite number")
    if not responses[0].size:
        return 0

    def of_all(kind: Any, function: str) -> Scalar:
        ends = [end_of(kind, r) for r in responses]
        return functools.reduce(lambda a, b: apply_ufunc(function, a, b), ends)

    level = of_all(Min, "fmin") if threshold is None else threshold
    if share is None:
        return level
    return apply_ufunc("fmax", level, apply_ufunc("multiply", of_all(Max, "fmax"), share))
