"""Registration of two volumes, and of pairs of points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from beam_volumes.graph.spaces import shared_size
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.geometry.registration.images import (
    MIN_ALONE,
    MODELS,
    aligned,
    check_quality,
    is_near,
)
from beam_volumes.ops.geometry.validity import marked_volume, masks_of, nodata_of
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.runs.console import shown_progress

#: Samples of points that are tried.
_SAMPLES = 1000
#: The volumes of `register`, in order.
_INPUTS = ("fixed", "moving")
#: Points are flat along an axis if their extent is a smaller share of the largest one.
_FLAT = 1e-9


@documented
def register(
    fixed: Volume,
    moving: Volume,
    *,
    model: str = "translation",
    max_shift: float | None = None,
    min_quality: float = 0.3,
    max_voxels: int = 1 << 21,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> np.ndarray:
    """Find the transform that aligns one volume with another.

    Use it for two channels, two time points or two scans of the same object.

    Parameters
    ----------
    fixed : Volume or numpy.ndarray
        The volume that is not moved, with one channel.
    moving : Volume or numpy.ndarray
        The volume to align, with the same axes and the same voxel size.
    model : {"translation", "rigid", "affine"}, default: "translation"
        The transformation model: translation, rigid or affine. Rotations are found up to 30 degrees
        for planes, and up to about 10 for volumes.
    max_shift : float, optional
        Maximum shift of the centre along each axis, in voxels; half of the volume by default.
        Shifts are rounded to whole voxels for this comparison.
    min_quality : float, default: 0.3
        The minimum correlation of the aligned voxels. The correlation must also be significant:
        unrelated volumes would correlate as much in less than one in a million cases.
    max_voxels : int, default: 2097152
        Both volumes are downsampled until they have fewer voxels than this. The error of shifts is
        about 0.05 downsampled voxels.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are compared: one mask for both volumes, or a list with a
        mask or None for each, ``fixed`` first. A mask has the shape of its volume, and bool or
        integer voxels.
    nodata : float, optional
        The value of voxels without data in both volumes, such as 0 for black borders. They are not
        compared.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    numpy.ndarray
        A homogeneous matrix for `affine_transform`: it maps indices of ``fixed`` to indices of
        ``moving``.

    Raises
    ------
    ValueError
        If a parameter is out of range, or no transform reaches ``min_quality``. If the volumes
        differ in axes or voxel size, or have several channels, time points or no voxels. If a mask
        differs from its volume in shape, axes or voxel size, or leaves no valid voxel.
    TypeError
        If an input or a mask is neither a volume nor an array, or a mask has floats.

    See Also
    --------
    affine_transform : applies the result.
    fit_transform : finds a transform from pairs of points.
    register_slices : aligns the slices of one volume.

    Notes
    -----
    One sweep over each volume downsamples it. The downsampled volumes are aligned in memory: first
    by phase correlation, and then by least squares of intensities, over levels of half the extent
    each. Intensities may differ by a gain and an offset, but not in kind.

    Voxels outside of ``mask``, voxels with the value ``nodata``, and NaN and infinite voxels are
    missing. Correlations, shifts and the test for chance use only voxels that both volumes have. All
    other values are ordinary voxels: without ``nodata``, a border of zeros is aligned as well. A
    downsampled voxel is the mean of its valid voxels, if these are at least half. Without ``mask``
    and ``nodata``, it is missing if any voxel is.

    References
    ----------
    S. Baker and I. Matthews, "Lucas-Kanade 20 years on", International Journal of Computer Vision
    56, 2004.

    D. Padfield, "Masked object registration in the Fourier domain", IEEE Transactions on Image
    Processing 21, 2012.

    Examples
    --------
    >>> from scipy import ndimage
    >>> tissue = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(12, 60, 60)), 2)
    >>> fixed, moving = bv.open(tissue[:, :50, :50]), bv.open(tissue[:, 4:54, 1:51])
    >>> matrix = bv.register(fixed, moving)
    >>> np.round(matrix[:3, 3]) + 0.0
    array([ 0., -4., -1.])
    >>> aligned = bv.affine_transform(moving, matrix, output_shape=fixed.shape)
    """
    name = "register"
    a, b = (refuse_empty(one_channel(as_volume(v)), name) for v in (fixed, moving))
    if a.axes != b.axes or a.space.times:
        raise ValueError(
            f"{name}: the volumes have the axes {' '.join(a.axes)} and {' '.join(b.axes)}; both need "
            "the same spatial axes, and no time axis"
        )
    size = shared_size(name, a, b).voxel_size or (1.0, 1.0, 1.0)
    if model not in MODELS:
        raise ValueError(
            f"{name}: model={model!r} is not available; use one of {', '.join(MODELS)}"
        )
    limit = None if max_shift is None else par.positive(max_shift, "max_shift", name)
    check_quality(min_quality, name)
    spacing = np.array([size[axis] for axis in a.space.visible])
    limit_voxels = par.whole_number(max_voxels, "max_voxels", name, 1000)
    masks = masks_of(mask, (a, b), name, _INPUTS)
    empty = [nodata_of(nodata, v.dtype, name) for v in (a, b)]
    factors = _factors(np.maximum(a.shape, b.shape), spacing, limit_voxels)
    near, far = (
        marked_volume(v, m, value, factors.tolist()).compute(runner=None, progress=progress)
        for v, m, value in zip((a, b), masks, empty, strict=True)
    )
    for voxels, what in zip((near, far), _INPUTS, strict=True):
        if not np.isfinite(voxels).any():
            raise ValueError(
                f"{name}: no voxel of {what} is valid; check mask=, nodata= and that voxels are finite"
            )
    reach = [
        n / 2 if limit is None else (limit + 0.5) / f
        for n, f in zip(near.shape, factors, strict=True)
    ]
    with shown_progress(name, 1, "pairs", progress) as finished:
        link = aligned(near, far, model, reach, spacing * factors)
        finished()
    if link.quality <= 0 and (link.quality < min_quality or link.evidence < MIN_ALONE):
        raise ValueError(
            f"{name}: no transform gives the volumes a positive correlation; check that both show the same "
            "object and that neither is inverted, or use fit_transform with pairs of points"
        )
    if link.quality < min_quality:
        raise ValueError(
            f"{name}: the best transform gives a correlation of {link.quality:.2f}, below "
            f"min_quality={min_quality}; use a different model, or fit_transform with pairs of points"
        )
    if not is_near(link, near.shape, reach):
        allowed = "half of the volume" if limit is None else f"max_shift={max_shift}"
        raise ValueError(
            f"{name}: the best transform shifts the volume by more than {allowed}; give a larger max_shift"
        )
    if link.evidence < MIN_ALONE:
        raise ValueError(
            f"{name}: the correlation of {link.quality:.2f} may be chance: the volumes have too few "
            "structures, repeat, or show different objects; give a smaller max_shift, a larger overlap, or "
            "use fit_transform with pairs of points"
        )
    result = np.eye(a.ndim + 1)
    result[:-1, :-1] = link.matrix * factors[:, None] / factors
    # Index i of a downsampled axis has its centre at factor * i + middle.
    middle = (factors - 1) / 2
    result[:-1, -1] = factors * link.offset + middle - result[:-1, :-1] @ middle
    return result


def _factors(shape: np.ndarray, spacing: np.ndarray, limit_voxels: int) -> np.ndarray:
    """Return the factors that downsample a volume to a number of voxels, finest axes first."""
    factors = np.ones(len(shape), int)
    while np.prod(-(-shape // factors)) > limit_voxels:
        able = np.flatnonzero(shape // factors > 1)
        factors[able[np.argmin((spacing * factors)[able])]] *= 2
    return factors


def fit_transform(
    source: ArrayLike,
    target: ArrayLike,
    *,
    model: str = "affine",
    max_residual: float | None = None,
) -> np.ndarray:
    """Find the transform that maps points to corresponding points.

    Use it for landmarks, or for objects that were matched by their centroids.

    Parameters
    ----------
    source, target : array_like
        Corresponding points, arrays of shape (points, axes).
    model : {"translation", "rigid", "affine"}, default: "affine"
        The transformation model: translation, rigid or affine.
    max_residual : float, optional
        The distance up to which a pair agrees with a transform. If set, some pairs may be wrong:
        the transform with which most pairs agree is selected, and fitted to these pairs (RANSAC).

    Returns
    -------
    numpy.ndarray
        A homogeneous matrix that maps ``source`` to ``target``.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the numbers of points differ. If the points do not
        determine the model, because they are too few or lie on a line. With ``max_residual``, also
        if too few pairs agree with any transform.

    See Also
    --------
    register : finds a transform from voxels.
    affine_transform : applies the inverse of the result.

    Notes
    -----
    Computation is in memory. Random samples are the same in each call.

    References
    ----------
    S. Umeyama, "Least-squares estimation of transformation parameters between two point patterns",
    IEEE Transactions on Pattern Analysis and Machine Intelligence 13, 1991; M. A. Fischler and R. C.
    Bolles, "Random sample consensus", Communications of the ACM 24, 1981.

    Examples
    --------
    >>> source = [(0, 0), (0, 10), (10, 0), (5, 5)]
    >>> target = [(1, 2), (1, 12), (11, 2), (90, 90)]
    >>> bv.fit_transform(source, target, model="translation", max_residual=1)
    array([[1., 0., 1.],
           [0., 1., 2.],
           [0., 0., 1.]])
    """
    name = "fit_transform"
    a, b = (_points(given, what) for given, what in ((source, "source"), (target, "target")))
    if a.ndim != 2 or a.shape != b.shape or a.shape[1] not in (1, 2, 3):
        raise ValueError(
            f"{name}: source and target have shapes {a.shape} and {b.shape}; give the same number of "
            "points of one, two or three axes"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(f"{name}: points must be finite numbers")
    if model not in MODELS:
        raise ValueError(
            f"{name}: model={model!r} is not available; use one of {', '.join(MODELS)}"
        )
    ndim = a.shape[1]
    minimum = {"translation": 1, "rigid": ndim, "affine": ndim + 1}[model]
    if len(a) < minimum:
        raise ValueError(f"{name}: {len(a)} points for model={model!r}; give at least {minimum}")
    if max_residual is not None:
        limit = par.positive(max_residual, "max_residual", name)
        agreeing = _consensus(a, b, model, minimum, limit)
        # Some transform agrees with any pairs that are just enough to determine it.
        wanted = min(minimum + 1, len(a))
        if agreeing.sum() < wanted:
            raise ValueError(
                f"{name}: no transform agrees with {wanted} pairs within max_residual={max_residual}; give "
                "more pairs, a larger max_residual or a model with fewer parameters"
            )
        a, b = a[agreeing], b[agreeing]
    extent = {"translation": 0, "rigid": ndim - 1, "affine": ndim}[model]
    for points, what in ((a, "source"), (b, "target")):
        sizes = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
        if (sizes > _FLAT * sizes[0]).sum() < extent:
            raise ValueError(
                f"{name}: the points of {what} are at one place, on a line or in a plane, which does not "
                f"determine model={model!r}; give other points, or a model with fewer parameters"
            )
    return _fitted(a, b, model)


def _points(given: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"fit_transform: {what}={given!r} is not an array of numbers") from None


def _consensus(a: np.ndarray, b: np.ndarray, model: str, minimum: int, limit: float) -> np.ndarray:
    """Return which pairs agree with the transform of a sample that most pairs agree with."""
    rng = np.random.default_rng(0)
    best = np.zeros(len(a), bool)
    for _ in range(min(_SAMPLES, 4 * math.comb(len(a), minimum))):
        chosen = rng.choice(len(a), minimum, replace=False)
        m = _fitted(a[chosen], b[chosen], model)
        distances = np.linalg.norm(a @ m[:-1, :-1].T + m[:-1, -1] - b, axis=1)
        if (distances <= limit).sum() > best.sum():
            best = distances <= limit
    return best


def _fitted(a: np.ndarray, b: np.ndarray, model: str) -> np.ndarray:
    middle, there = a.mean(axis=0), b.mean(axis=0)
    linear: Any = np.eye(a.shape[1])
    if model == "affine":
        linear = np.linalg.lstsq(a - middle, b - there, rcond=None)[0].T
    elif model == "rigid":
        u, _, v = scipy.linalg.svd((b - there).T @ (a - middle))
        linear = u @ np.diag([1.0] * (len(u) - 1) + [np.sign(np.linalg.det(u @ v))]) @ v
    result = np.eye(a.shape[1] + 1)
    result[:-1, :-1], result[:-1, -1] = linear, there - linear @ middle
    return result
