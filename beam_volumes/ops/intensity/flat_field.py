"""Uneven illumination that all tiles of a microscope share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.fft

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.geometry.registration.tiles import opened_tiles
from beam_volumes.ops.geometry.validity import marked_volume, masks_of, nodata_of
from beam_volumes.ops.interpolation.grids import affine_transform
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.runs.console import shown_progress

#: Images that are kept in memory; of more, every second, third or later one is used.
_MAX_IMAGES = 512
_MIN_IMAGES = 5
#: Voxels along a side of the working images.
_MIN_SIZE, _MAX_SIZE = 8, 512
#: The degrees of the polynomials that are the start: cameras have smooth dark fields.
_DEGREE, _DARK_DEGREE = 6, 2
#: Starts of the scale of residuals, relative to the brightness. All but the first begin at modes of images.
_SCALES = (0.5, 0.25, 0.25)
_MIN_STEPS, _MAX_STEPS, _DECREASE = 7, 25, 0.75
#: The least scale of residuals, absolute and relative to their core.
_MIN_SCALE, _CORES = 0.01, 2.0
#: The share of residuals in their core, and the extent of this share in standard deviations.
_CORE, _CORE_EXTENT = 0.25, 0.3186
#: Every n-th voxel determines the core.
_EVERY = 7
#: The least flat field relative to its maximum.
_MIN_FLAT = 0.02
#: Standard deviations above which a cosine counts, groups of images that determine these, and cosines.
_SIGNIFICANT, _GROUPS, _COSINES = 6.0, 8, 32
_DETAIL_STEPS = 4
#: Fewer images do not determine the noise.
_MIN_OF_DETAILS = 24
#: The least range of brightnesses that separates dark and flat field, relative to their median.
_MIN_RANGE = 0.1
_RIDGE, _TINY = 1e-6, 1e-9


@documented
def estimate_flat_field(
    tiles: Sequence[Volume],
    *,
    darkfield: bool = False,
    size: int = 128,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> tuple[Volume, Volume]:
    """Estimate the uneven illumination that all tiles share.

    Use it for tiles with dark borders, before `fuse`: ``(tile - dark) / flat`` is even.

    Parameters
    ----------
    tiles : sequence of Volume or numpy.ndarray
        Tiles with one channel and the same extent along y and x, lazy or opened. Slices along z are
        separate images. At least 5 images are needed; 20 or more are better.
    darkfield : bool, default: False
        Whether to estimate the signal without light as well. The tiles must differ in brightness.
    size : int, default: 128
        The maximum extent of the downsampled images along y and x, from 8 to 512.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are used: one mask for all tiles, or a list with a mask or
        None for each tile. A mask has the shape of its tile, and bool or integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for black borders. They are not used.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    flat : Volume
        The flat field, lazy, with the axes y and x of a tile, float32 and mean 1. It is at least
        0.02 of its maximum, so a division by it is finite.
    dark : Volume
        The dark field, likewise, in the unit of the voxels. It is 0 without ``darkfield``.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are too few images with positive brightness. If tiles
        differ in axes or in their extent along y and x, or have several channels or time points. If
        ``darkfield`` is true and the brightnesses of tiles differ by less than a tenth.
    TypeError
        If a tile is neither a volume nor an array, or has bool or complex voxels, or if a mask has
        floats.

    See Also
    --------
    match_tiles : evens out the brightness of tiles.
    n4_bias_field_correction : estimates the shading of a single volume.

    Notes
    -----
    Each tile is read once and downsampled in a sweep. At most 512 images are kept, which are evenly
    spaced among all images. Memory is 12 bytes for each of their voxels, at most 100 MiB by default,
    in addition to the downsampled images and the sweep of one tile. The fields are lazy, and
    interpolate linearly.

    An image is the flat field times the brightness of the image, plus the dark field and sparse
    objects, as in BaSiC. The flat field is a polynomial of degree 6. With at least 24 images, cosines
    that are significant in groups of images are added; small marks of dust remain in part. Robust
    weights leave objects out, at a scale that decreases from half the brightness to the noise.
    Weights depend on relative differences only. Crowded fields need no background: it is enough that
    objects are equally bright everywhere on average. Objects must not prefer a position in the
    images, such as the centre.

    The dark field is a polynomial of degree 2. Multiples of the flat field cannot be distinguished
    from brightness; the dark field is the one that is not correlated with the flat field.

    Voxels outside of ``mask``, voxels with the value ``nodata``, and NaN and infinite voxels are not
    used. Saturated voxels are used: exclude them with ``mask``. A dead column of the camera is left
    out like an object, so the flat field does not show it.

    References
    ----------
    T. Peng et al., "A BaSiC tool for background and shading correction of optical microscopy images",
    Nature Communications 8, 2017.

    Examples
    --------
    >>> y, x = np.mgrid[-1:1:64j, -1:1:64j]
    >>> vignette = 1 - 0.3 * (y**2 + x**2)
    >>> tiles = [vignette * brightness for brightness in (90.0, 100.0, 110.0, 95.0, 120.0)]
    >>> flat, dark = bv.estimate_flat_field(tiles)
    >>> even = tiles[0] / np.asarray(flat)
    >>> bool(np.ptp(even) < 0.01 * even.mean())
    True
    """
    name = "estimate_flat_field"
    if not isinstance(darkfield, (bool, np.bool_)):
        raise TypeError(f"{name}: darkfield={darkfield!r} is neither True nor False")
    side = par.whole_number(size, "size", name, _MIN_SIZE)
    if side > _MAX_SIZE:
        raise ValueError(f"{name}: size={size!r} is above {_MAX_SIZE}; give a smaller one")
    opened = opened_tiles(tiles, name)
    _check(opened, name)
    masks = masks_of(mask, opened, name, "tile")
    plane = opened[0].shape[-2:]
    factors = [-(-n // side) for n in plane]
    count = sum(map(_depth, opened))
    every = -(-count // _MAX_IMAGES)
    images = np.empty(
        (-(-count // every), *(n // f for n, f in zip(plane, factors, strict=True))), "f4"
    )
    bright = blank = 0
    with shown_progress(name, len(opened), "tiles", progress) as finished:
        begun = 0
        for v, m in zip(opened, masks, strict=True):
            first, begun = -begun % every, begun + _depth(v)
            if first < _depth(v):
                box = (
                    *([slice(first, None, every)] if v.ndim == 3 else []),
                    *(slice(n // f * f) for n, f in zip(plane, factors, strict=True)),
                )
                data = nodata_of(nodata, v.dtype, name)
                for image in _read(v[box], None if m is None else m[box], data, factors):
                    known = image[np.isfinite(image)]
                    blank += not known.size
                    if known.size and np.median(known) > 0:
                        images[bright] = image
                        bright += 1
            finished()
    if bright < _MIN_IMAGES:
        dim = len(images) - bright - blank
        raise ValueError(
            f"{name}: tiles has {bright} images of {len(images)} with a positive median; {blank} have no "
            f"valid voxels within float32, and {dim} have a median of at most 0; give at least "
            f"{_MIN_IMAGES}{', or add a constant to the voxels' if dim else ''}"
        )
    flat, dark = _Fit(images[:bright]).fields(bool(darkfield))
    flat = _margined(flat)
    flat = np.maximum(flat, _MIN_FLAT * flat.max())  # the margin is extrapolated
    flat = flat / _mean(flat, plane, factors)
    return _enlarged(flat, plane, factors), _enlarged(_margined(dark), plane, factors)


def _check(opened: Sequence[Volume], name: str) -> None:
    first = opened[0]
    if not {1, 2} <= {*first.space.visible}:
        raise ValueError(
            f"{name}: the tiles have the axes {', '.join(first.axes)}; give tiles with y and x"
        )
    for k, v in enumerate(opened):
        if v.dtype.kind not in "uif":
            raise TypeError(
                f"{name}: tile {k} has dtype {v.dtype}; give integers or floats, with astype"
            )
        if v.shape[-2:] != first.shape[-2:]:
            sizes = [" x ".join(map(str, t.shape[-2:])) for t in (v, first)]
            raise ValueError(
                f"{name}: tile {k} has {sizes[0]} voxels along y and x, and tile 0 {sizes[1]}; give "
                "tiles of one camera, without cropping"
            )
    count = sum(map(_depth, opened))
    if count < _MIN_IMAGES:
        raise ValueError(
            f"{name}: tiles has {count} images; give at least {_MIN_IMAGES}, or divide by an image of "
            "an empty field"
        )


def _depth(tile: Volume) -> int:
    """Return the number of images of a tile."""
    return tile.shape[0] if tile.ndim == 3 else 1


def _read(
    tile: Volume, mask: Volume | None, nodata: float | None, factors: Sequence[int]
) -> Iterator[np.ndarray]:
    """Return the downsampled images of a tile, with NaN where voxels are missing."""
    if tile.dtype.kind == "f" and mask is None and nodata is None:
        nodata = math.nan  # a mean without the voxels that are not finite
    by = [1] * (tile.ndim - 2) + [*factors]
    found = np.asarray(marked_volume(tile, mask, nodata, by)).astype(np.float32, copy=False)
    return iter(found.reshape(-1, *found.shape[-2:]))


def _positions(n: int, factor: int) -> np.ndarray:
    """Return the positions of voxels among working voxels with a margin of one."""
    return (np.arange(n) - (factor - 1) / 2) / factor + 1


def _mean(margined: np.ndarray, plane: Sequence[int], factors: Sequence[int]) -> float:
    """Return the mean of an enlarged field."""
    result = margined
    for axis, (n, f) in enumerate(zip(plane, factors, strict=True)):
        size = margined.shape[axis]
        whole = _positions(n, f)
        first = np.minimum(whole.astype(int), size - 2)
        weights = np.bincount(first, 1 - (whole - first), size)
        weights += np.bincount(first + 1, whole - first, size)
        result = (result * (weights / n).reshape([-1] + [1] * (1 - axis))).sum(axis=0)
    return float(result)


def _margined(field: np.ndarray) -> np.ndarray:
    """Return a field with a margin of one voxel, extrapolated linearly."""
    return np.pad(field, 1, "reflect", reflect_type="odd")


def _enlarged(margined: np.ndarray, plane: Sequence[int], factors: Sequence[int]) -> Volume:
    offset = [_positions(1, f)[0] for f in factors]
    small = as_volume(margined.astype(np.float32))
    matrix = [1 / f for f in factors]
    return affine_transform(small, matrix, offset, tuple(plane), order=1, mode="nearest")


class _Fit:
    """The flat field, the dark field and the brightness of all images."""

    # All sums are over one axis at a time, without BLAS: the number of threads changes no bit.

    def __init__(self, stack: np.ndarray):
        n, *self.shape = stack.shape
        self.voxels = stack.reshape(n, -1)
        self.valid = np.isfinite(self.voxels)
        self.voxels[~self.valid] = 0
        self.residuals = np.zeros_like(self.voxels)
        self.terms, degrees = _polynomials(self.shape, _DEGREE)
        self.dark_terms, _ = _polynomials(self.shape, _DARK_DEGREE)
        # Where all images lack voxels, high degrees would be arbitrary.
        self.roughness = (1.0 + degrees) ** 4
        self.flat = np.ones(self.voxels.shape[1])
        self.dark = np.zeros(self.voxels.shape[1])
        self.brightness = np.array(
            [np.median(v[ok]) for v, ok in zip(self.voxels, self.valid, strict=True)], np.float64
        )
        self.scale = 0.0

    def fields(self, has_dark: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the flat and the dark field."""
        self._fit(False)
        if has_dark:
            low, middle, high = np.percentile(self.brightness, (10, 50, 90))
            if high - low < _MIN_RANGE * middle:
                raise ValueError(
                    f"estimate_flat_field: darkfield=True needs tiles of different brightness, and their "
                    f"range is {(high - low) / middle:.0%}; subtract an image without light from the tiles"
                )
            self._fit(True)
        smooth, details = self.flat, np.zeros(self.shape)
        for _ in range(_DETAIL_STEPS if len(self.voxels) >= _MIN_OF_DETAILS else 0):
            details = self._details(details)
            self.flat = np.maximum(smooth * (1 + details.ravel()), _MIN_FLAT * smooth.max())
            self._update_residuals()
        return self.flat.reshape(self.shape), self.dark.reshape(self.shape)

    def _fit(self, has_dark: bool) -> None:
        for start in _SCALES:
            self.scale = start
            if start != _SCALES[0]:
                self._begin_at_modes()
            for step in range(_MAX_STEPS):
                min_scale = self._update_residuals()
                self._update_fields(has_dark)
                if step >= _MIN_STEPS and self.scale <= min_scale:
                    break
                self.scale = max(self.scale * _DECREASE, min(min_scale, self.scale))
        self._update_residuals()

    def _begin_at_modes(self) -> None:
        for k, (voxels, valid) in enumerate(zip(self.voxels, self.valid, strict=True)):
            mode = _mode(((voxels - self.dark) / self.flat)[valid])
            if mode > 0:
                self.brightness[k] = mode

    def _update_residuals(self) -> float:
        """Compute relative residuals, and return the least scale that they allow."""
        for k, voxels in enumerate(self.voxels):
            expected = self.flat * self.brightness[k]
            self.residuals[k] = (voxels - self.dark - expected) / self._unit(k)
        some = self.valid[:, ::_EVERY]
        core = np.quantile(abs(self.residuals[:, ::_EVERY][some]), _CORE) / _CORE_EXTENT
        return float(max(_MIN_SCALE, _CORES * core))

    def _unit(self, k: int) -> np.ndarray:
        """Return the mean of measured and expected brightness: low estimates then have large residuals."""
        measured = np.maximum(self.voxels[k] - self.dark, 0)
        return np.asarray((measured + self.flat * self.brightness[k]) / 2)

    def _weights(self, k: int) -> np.ndarray:
        """Return the weights of Geman and McClure."""
        ratio = self.residuals[k].astype(np.float64) / self.scale
        return self.valid[k] / (1 + ratio * ratio) ** 2

    def _update_fields(self, has_dark: bool) -> None:
        """Solve for the fields, and then for the brightness of all images."""
        size = float(np.median(self.brightness))
        squares, products, ones, left, right = np.zeros((5, len(self.flat)))
        for k, voxels in enumerate(self.voxels):
            b = self.brightness[k] / size
            weights = self._weights(k) * (size / self._unit(k)) ** 2
            values = voxels / size
            squares += weights * (b * b)
            left += weights * values * b
            if has_dark:
                products += weights * b
                ones += weights
                right += weights * values
        n, terms, dark_terms = len(self.terms), self.terms, self.dark_terms
        if not has_dark:
            found = _solved(_normal(terms, squares, terms), _sums(terms, left), self.roughness)
        else:
            across = _normal(terms, products, dark_terms)
            matrix = np.block(
                [
                    [_normal(terms, squares, terms), across],
                    [across.T, _normal(dark_terms, ones, dark_terms)],
                ]
            )
            right = np.concatenate([_sums(terms, left), _sums(dark_terms, right)])
            found = _solved(matrix, right, np.append(self.roughness, np.ones(len(dark_terms))))
        flat = np.einsum("k,kp->p", found[:n], terms)
        if has_dark:
            dark = np.einsum("k,kp->p", found[n:], dark_terms)
            change = flat - flat.mean()
            common = (change * dark).sum() / max((change * change).sum(), _RIDGE * len(flat))
            self.dark = (dark - common * flat) * size
        flat = np.maximum(flat, _MIN_FLAT * flat.max())
        self.flat = flat / flat.mean()
        for k, voxels in enumerate(self.voxels):
            weights = self._weights(k)
            total = weights.sum()
            if total > 0:
                ratio = float((weights * ((voxels - self.dark) / self.flat)).sum() / total)
                self.brightness[k] = ratio if ratio > 0 else self.brightness[k]

    def _details(self, before: np.ndarray) -> np.ndarray:
        """Return relative changes of the smooth flat field: cosines that are significant."""
        # Neighbours among images may be slices of a tile, so groups are successive images.
        means = []
        for group in np.array_split(np.arange(len(self.voxels)), min(_GROUPS, len(self.voxels))):
            total, sums = np.full(len(self.flat), _TINY), np.zeros(len(self.flat))
            for k in group:
                weights = self._weights(k)
                total += weights
                sums += weights * self.residuals[k]
            change = (1 + before) * (sums / total).reshape(self.shape)
            means.append(scipy.fft.dctn(change + before, norm="ortho"))
        found = np.stack(means)
        mean, variance = found.mean(axis=0), found.var(axis=0, ddof=1) / len(found)
        radius = np.hypot(*np.indices(self.shape))
        # Cosines of similar wavelengths have similar noise; 8 values for each determine it poorly.
        band = np.floor(radius / (1 + radius / 8)).astype(int)
        pooled = np.bincount(band.ravel(), variance.ravel()) / np.maximum(
            np.bincount(band.ravel()), 1
        )
        is_kept = (mean * mean > _SIGNIFICANT**2 * pooled[band]) & (radius <= _COSINES)
        return np.asarray(scipy.fft.idctn(np.where(is_kept, mean, 0.0), norm="ortho"))


def _mode(values: np.ndarray) -> float:
    """Return the half-sample mode.

    D. R. Bickel and R. Fruehwirth, "On a fast, robust estimator of the mode", Computational Statistics
    and Data Analysis 50, 2006.
    """
    found = np.sort(values)
    while len(found) > 8:
        half = (len(found) + 1) // 2
        first = int((found[half - 1 :] - found[: len(found) - half + 1]).argmin())
        found = found[first : first + half]
    return float(found.mean())


def _polynomials(shape: Sequence[int], degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return products of Legendre polynomials, (terms, voxels), and their degrees."""
    along = []
    for n in shape:
        t = np.linspace(-1, 1, n)
        known = [np.ones(n), t]
        for k in range(1, degree):
            known.append(((2 * k + 1) * t * known[k] - k * known[k - 1]) / (k + 1))
        along.append(
            [p * math.sqrt(2 * k + 1) for k, p in enumerate(known)][: min(degree, n - 1) + 1]
        )
    y, x = along
    pairs = [(a, b) for a in range(len(y)) for b in range(len(x)) if a + b <= degree]
    terms = np.stack([np.outer(y[a], x[b]).ravel() for a, b in pairs])
    return terms, np.sum(pairs, axis=1)


def _normal(a: np.ndarray, weights: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("kp,lp->kl", a * weights, b))


def _sums(terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("kp,p->k", terms, values))


def _solved(matrix: np.ndarray, right: np.ndarray, roughness: np.ndarray) -> np.ndarray:
    ridge = np.diag(roughness * (_RIDGE * np.trace(matrix) / len(matrix)))
    return np.asarray(np.linalg.solve(matrix + ridge, right))
