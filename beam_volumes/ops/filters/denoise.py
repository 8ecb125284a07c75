"""Denoising, named as in scikit-image's restoration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.scalar import Scalar, lazy
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.elementary.exp_log import exp_value, few
from beam_volumes.kernels.filters import similarity
from beam_volumes.ops.filters.linear import accumulator, separable
from beam_volumes.ops.filters.stages import Neighbourhood
from beam_volumes.ops.geometry.rearrange import pad
from beam_volumes.ops.measure.distributions import percentile
from beam_volumes.ops.measure.reductions import std
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_in, triple, with_exact_constant
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.parameters.neighbourhood import Footprint
from beam_volumes.ops.pointwise import abs as absolute
from beam_volumes.sweep.stage import Block, Padding

#: The high-pass weights of the wavelet db2.
_DB2 = (-0.48296291314469025, 0.836516303737469, -0.22414386804185735, -0.12940952255092145)
#: The third quartile of the normal distribution, its median absolute deviation.
_QUARTILE = 0.6744897501960817


@dataclass(frozen=True, eq=False)
class Bilateral(Neighbourhood):
    """A mean weighted by distance and similarity. The value is the deviation of intensities."""

    offsets: np.ndarray
    weights: np.ndarray

    kernel = staticmethod(similarity.bilateral)

    @property
    def cost(self) -> float:
        return 1.0 + 1.0 * len(self.offsets) * self.dtype.itemsize / 4

    def parameters(self) -> tuple[Any, ...]:
        return self.offsets, self.weights, np.array(self.before)

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        scale = _scale(0.5, float(values[0]), self.name, "sigma_color")
        return *super().arguments(inputs, out, y0, y1, values), self.dtype.type(scale)


@dataclass(frozen=True, eq=False)
class NonLocalMeans(Neighbourhood):
    """A mean weighted by the similarity of patches. Values are ``h`` and the deviation of noise."""

    patch: Triple
    reach: Triple

    kernel = staticmethod(similarity.nl_means)

    @property
    def cost(self) -> float:
        return 3.0 * math.prod(2 * n + 1 for n in self.reach) * self.dtype.itemsize / 4

    @property
    def preferred_slices(self) -> int:
        return min(similarity.BLOCK[0], max(1, self.extent[0] - 1))

    def parameters(self) -> tuple[Any, ...]:
        return self.patch, self.reach

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        h, sigma = (float(v) for v in values)
        voxels = math.prod(self.patch)
        if not 0 <= sigma < math.inf:
            raise ValueError(f"{self.name}: sigma={sigma:g} is not a finite number of at least 0")
        scale = _scale(1.0 / voxels, h, self.name, "h")
        real = self.dtype.type
        less = min(2.0 * sigma * sigma * voxels, float(np.finfo(self.dtype).max))
        return *super().arguments(inputs, out, y0, y1, values), real(less), real(scale)


def _scale(factor: float, deviation: float, name: str, what: str) -> float:
    """Return ``factor / deviation**2``; a deviation of 0 leaves out all other intensities."""
    if not 0 <= deviation < math.inf:
        raise ValueError(f"{name}: {what}={deviation:g} is not a finite number of at least 0")
    square = deviation * deviation
    return min(factor / square, 1e30) if square > 1e-300 else 1e30


def lazy_number(given: Any, what: str, name: str) -> Any:
    """Return the value of a number, lazy or not."""
    if isinstance(given, Scalar):
        if given.shape:
            raise ValueError(f"{name}: {what}={given!r} is not a number; pick an element first")
        return given.value
    if not par.is_number(given) or not 0 <= given < math.inf:
        raise ValueError(f"{name}: {what}={given!r} is not a finite number of at least 0")
    return lazy(float(given))


def _odd(volume: Volume, sizes: Sequence[int], given: Any, what: str, name: str) -> Triple:
    if any(n % 2 == 0 for n in sizes):
        raise ValueError(f"{name}: {what}={given!r} is not odd")
    return triple(sizes)


@documented
def denoise_bilateral(
    volume: Volume,
    win_size: int | Sequence[int] | None = None,
    sigma_color: float | Scalar | None = None,
    sigma_spatial: float | str | Sequence[float | str] = 1,
    *,
    mode: str | Sequence[str] = "constant",
    cval: float = 0.0,
) -> Volume:
    """Denoise with a mean of nearby voxels with similar intensities, which keeps edges.

    Parameters
    ----------
    %(intensities)s
    win_size : int or sequence of int, optional
        Extent of the window in voxels, odd; one value for all axes or one per axis. By default it
        extends three ``sigma_spatial`` to each side, and has at least 5 voxels.
    sigma_color : float or Scalar, optional
        Standard deviation of the Gaussian of intensity differences. By default the standard
        deviation of the volume, which needs an additional sweep. Larger numbers smooth edges more.
    sigma_spatial : float, str or sequence of them, default: 1
        Standard deviation of the Gaussian of distances, in voxels or as a length such as
        ``"15 nm"``. One value for all axes or one per axis; 0 along z filters slice by slice.
    %(mode_constant)s
    %(cval)s

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    %(errors)s

    See Also
    --------
    denoise_nl_means : compares patches instead of voxels.
    median_filter : removes single outliers.

    Notes
    -----
    One sweep, or two without ``sigma_color``. The halo is half of the window. The time grows with
    the number of voxels in the window.

    Weights are computed with an error of 1e-7, for up to three axes. Instead, scikit-image uses a
    table of ``bins``, and its spatial weights are shifted in odd windows. Each channel is filtered
    separately.

    References
    ----------
    `skimage.restoration.denoise_bilateral`; C. Tomasi, R. Manduchi, "Bilateral filtering for gray and
    color images", ICCV 1998.

    Examples
    --------
    >>> step = np.array([[10, 12, 10, 12, 90, 92, 90, 92]], "u1")
    >>> np.asarray(bv.denoise_bilateral(step, sigma_color=5, mode="nearest")).round(1)
    array([[10.5, 10.9, 11. , 11.3, 90.7, 91. , 91.1, 91.5]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "denoise_bilateral"
    axes = volume.space.visible
    sigmas = par.lengths(volume, sigma_spatial, axes, "sigma_spatial")
    if win_size is None:
        sizes = [max(5, 2 * math.ceil(3 * s) + 1) if s > 0 else 1 for s in sigmas]
    else:
        sizes = par.whole_numbers(win_size, axes, 1, "win_size", 1, name)
    window = _odd(volume, sizes, win_size, "win_size", name)
    if any(n > 1 and s == 0 for n, s in zip(window, sigmas, strict=True)):
        raise ValueError(
            f"{name}: sigma_spatial={sigma_spatial!r} is 0 along an axis where the window has "
            "several voxels; give a positive number, or a window of 1 along this axis"
        )
    result = accumulator(volume.dtype)
    if not volume.size:
        return volume.astype(result)
    wanted = [window[a] for a in axes]
    around = Footprint.of(volume, name, wanted, None, 0, None, mode, cval)
    steps = around.offsets - np.array(around.before)
    with np.errstate(over="ignore"):
        squares = np.square(steps / [s or 1.0 for s in sigmas]).sum(axis=1)
    weights = np.array(few(exp_value, list(-0.5 * squares)), np.float32)
    stage = Bilateral(*around.fields(result, around.padding), around.offsets, weights)
    source = with_exact_constant(volume, around.padding, result)
    deviation = (
        std(volume).value if sigma_color is None else lazy_number(sigma_color, "sigma_color", name)
    )
    return stage_in(result, source, stage, deviation)


@documented_like(denoise_bilateral)
def denoise_nl_means(
    volume: Volume,
    patch_size: int | Sequence[int] = 7,
    patch_distance: int | Sequence[int] = 11,
    h: float | Scalar = 0.1,
    sigma: float | Scalar = 0.0,
    *,
    mode: str | Sequence[str] = "mirror",
    cval: float = 0.0,
) -> Volume:
    """Denoise with a mean of nearby voxels with similar surroundings, which keeps textures.

    Parameters
    ----------
    patch_size : int or sequence of int, default: 7
        Extent of the patches to compare, in voxels. Even numbers are increased by 1. One value for
        all axes or one per axis; 1 along z compares slices.
    patch_distance : int or sequence of int, default: 11
        The maximum distance of voxels to include, along each axis. 0 along z filters slice by
        slice.
    h : float or Scalar, default: 0.1
        The difference up to which intensities are similar. Start with ``0.8 *
        bv.estimate_sigma(volume)``.
    sigma : float or Scalar, default: 0.0
        Standard deviation of the noise, which is subtracted from differences. Use a smaller ``h``
        in this case.
    mode : str or sequence of str, default: "mirror"
        How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or
        one per axis.

    See Also
    --------
    denoise_bilateral : faster; compares voxels.
    estimate_sigma : estimates the noise.

    Notes
    -----
    One sweep. The halo is ``patch_distance + patch_size // 2`` voxels. The time grows with the
    number of voxels within ``patch_distance``, but hardly depends on ``patch_size``.

    The method is scikit-image's with ``fast_mode=True`` and ``preserve_range=True``. Weights have
    an error of 1e-7 (3 percent in scikit-image). Patches are centred, whereas scikit-image's lack
    their first row, column and slice. Each channel is filtered separately.

    References
    ----------
    `skimage.restoration.denoise_nl_means`; J. Darbon et al., "Fast nonlocal filtering applied to
    electron cryomicroscopy", ISBI 2008.

    Examples
    --------
    >>> stripes = np.array([[10, 90, 12, 92, 10, 90, 12, 92]], "u1")
    >>> np.asarray(bv.denoise_nl_means(stripes, (1, 3), (0, 4), h=5)).round(1)[0, :4]
    array([10.8, 90.8, 11.2, 90.8], dtype=float32)
    """
    volume = as_volume(volume)
    name = "denoise_nl_means"
    axes = volume.space.visible
    sizes = par.whole_numbers(patch_size, axes, 1, "patch_size", 1, name)
    patch = triple([n + (n % 2 == 0) for n in sizes])
    reach = triple(par.whole_numbers(patch_distance, axes, 0, "patch_distance", 0, name))
    given = f"{name}: patch_size={patch_size!r} with patch_distance={patch_distance!r}"
    extent = triple([p + 2 * r for p, r in zip(patch, reach, strict=True)])
    par.not_too_large(extent, given)
    result = accumulator(volume.dtype)
    if not volume.size:
        return volume.astype(result)
    padding = Padding(par.modes_of(mode, axes, name), float(cval))
    before = triple([n // 2 for n in extent])
    stage = NonLocalMeans(name, result, before, extent, padding, patch, reach)
    values = lazy_number(h, "h", name), lazy_number(sigma, "sigma", name)
    return stage_in(result, with_exact_constant(volume, padding, result), stage, *values)


@documented
def estimate_sigma(volume: Volume) -> Scalar:
    """Estimate the standard deviation of Gaussian noise from the finest details.

    Parameters
    ----------
    %(volume)s

    Returns
    -------
    Scalar
        The lazy number, for the noise of all channels together. The estimate is the median of the
        absolute details of a wavelet transform (db2) in all directions, divided by 0.6745.

    Raises
    ------
    %(reduction_errors)s

    See Also
    --------
    denoise_nl_means : takes this number.

    Notes
    -----
    Two sweeps, or four for float64 and integers of 32 and 64 bits. Details that are 0 are ignored.
    The result equals scikit-image's to the precision of the dtype.

    References
    ----------
    `skimage.restoration.estimate_sigma`; D. L. Donoho, I. M. Johnstone, "Ideal spatial adaptation by
    wavelet shrinkage", Biometrika 81 (1994).

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(100, 5, (60, 60))
    >>> f"{bv.estimate_sigma(noise):.1f}"
    '4.9'
    """
    volume = as_volume(volume)
    name = "estimate_sigma"
    axes = par.axes_of(volume, None, name)
    modes = par.modes_of("reflect", axes, name)
    first = volume.ndim - len(axes)
    # The transform has coefficients beyond the far edges, at odd positions.
    more = [(0, 0)] * first + [(0, 2 + n % 2) for n in volume.shape[first:]]
    weights = np.array(_DB2[::-1])
    padded = pad(volume, more[first:], "symmetric") if volume.size else volume
    details = separable(padded, name, [(a, weights, 3) for a in axes], modes, 0.0, None)
    odd: Any = (Ellipsis,) + (slice(1, None, 2),) * len(axes)
    picked = details[odd]
    median = percentile(absolute(picked), 50, mask=picked != 0)
    return apply_ufunc("divide", median, _QUARTILE)
