"""Deconvolution in blocks, named as in scikit-image's restoration."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from beam_volumes.base.geometry import Range, Ranges, Triple
from beam_volumes.base.space import Space
from beam_volumes.graph.keywords import named_checked
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.protocols import file_read
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.kernels.elementary.exp_log import gaussian_weights
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.fourier.blocks import (
    BlockFunction,
    Transforms,
    blocks_of,
    check_finite,
    in_blocks,
    kernel_of,
    reach,
)
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.networks.patches import Patches
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import triple
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.storage.formats.unfinished import outside
from beam_volumes.sweep.stage import Block, Regrid

#: The smallest divisor, as in scikit-image.
_EPSILON = 1e-12
#: The largest number of iterations, far more than noise allows.
MAX_ITERATIONS = 10_000
#: The largest weight of the total variation: divisors stay above 0.
MAX_TV = 0.1
#: The share of a sum of weights that is not counted for their reach.
_LEFT_OUT = 1e-4
#: The multiple of a point spread function's reach that blocks of `richardson_lucy` discard.
_REACHES = 4
#: The share of a sum that the border of a point spread function may have; a cut or an offset leaves more.
_MAX_BORDER = 0.02
#: Axes with fewer voxels have no border: small functions are written by hand.
_MEASURED = 7
#: Maximum voxels for the weights of a Wiener filter.
_RESPONSE_VOXELS = 1 << 21


@dataclass(frozen=True, eq=False)
class RichardsonLucy(BlockFunction):
    """Richardson-Lucy iterations."""

    iterations: int
    tv: float
    dtype: np.dtype  #: Of the computation.

    @property
    def takes(self) -> np.dtype:  # type: ignore[override]
        return self.dtype

    @property
    def arrays(self) -> int:  # type: ignore[override]
        return 12 if self.tv else 8

    @property
    def transforms(self) -> int:
        return (4 + 2 * bool(self.tv)) * self.iterations

    def made(self, over: Transforms) -> Callable[..., np.ndarray]:
        spectrum = over.of_kernel(self.kernel)

        def deconvolved(
            voxels: np.ndarray, report: Callable[[np.ndarray, np.ndarray], None] | None = None
        ) -> np.ndarray:
            """Call ``report`` with the voxels and the blurred estimate after each iteration."""
            image = np.maximum(voxels, 0)
            estimate = np.full(voxels.shape, 0.5, voxels.dtype)
            for k in range(self.iterations):
                blurred = over.filtered(estimate, spectrum)
                if report is not None and k:
                    report(image, blurred)
                np.maximum(blurred, _EPSILON, out=blurred)
                np.divide(image, blurred, out=blurred)
                if self.tv:
                    estimate /= 1.0 - self.tv * _curvature(estimate, over.axes)
                correction = over.filtered(blurred, spectrum, -1)
                estimate *= np.maximum(correction, 0, out=correction)  # rounding may be below 0
            if report is not None:
                report(image, over.filtered(estimate, spectrum))
            return estimate + 0  # no zero is negative

        return deconvolved


def _curvature(estimate: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Return the divergence of the normalized gradient."""
    steps = [np.roll(estimate, -1, a) - estimate for a in axes]
    length = np.full_like(estimate, _EPSILON)
    for step in steps:
        length += step * step
    np.sqrt(length, out=length)
    total = np.zeros_like(estimate)
    for step, a in zip(steps, axes, strict=True):
        step /= length
        total += step
        total -= np.roll(step, 1, a)
    return total


@dataclass(frozen=True, eq=False)
class Residuals(Regrid):
    """The sum of squared residuals after each iteration, along x, for each row of blocks."""

    model: RichardsonLucy
    patches: Patches

    compiled = True

    @property
    def cost(self) -> float:
        return self.model.block_nanoseconds * self.patches.counts[2] / self.model.iterations

    def needs(self, axis: int, wanted: Ranges) -> Range:
        n, made = self.of[axis], self.patches.made[axis]
        first, stop = (0, n) if axis == 2 else (wanted[axis][0] * made, wanted[axis][1] * made)
        return self.patches.needs(axis, (first, min(stop, n)))

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return self.model.block_bytes + self.model.takes.itemsize * math.prod(self.patches.patch)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        function = self.model.made(self.model.over(1))
        voxels = np.empty(self.patches.patch, self.model.takes)
        for k, y in itertools.product(range(out.depth), range(y0, y1)):
            sums = np.zeros(self.grid[2])
            for x in range(self.patches.counts[2]):
                cell = out.start[0] + k, out.start[1] + y, x
                self.patches.gather(inputs[0], cell, voxels)
                check_finite(self.name, "block", voxels)
                found: list[float] = []
                function(voxels, partial(self._report, found, self._inside(cell)))
                sums += found
            out.slice(k)[y] = sums[out.start[2] : out.start[2] + out.cols]

    def _inside(self, cell: Triple) -> tuple[slice, ...]:
        """Return the voxels of a block that belong to it and are in the volume."""
        ranges = (self.patches.makes(a, cell[a]) for a in range(3))
        return tuple(
            slice(s, s + b - a) for s, (a, b) in zip(self.patches.skipped, ranges, strict=True)
        )

    @staticmethod
    def _report(
        found: list[float], inside: tuple[slice, ...], image: np.ndarray, blurred: np.ndarray
    ) -> None:
        difference = np.subtract(image[inside], blurred[inside], dtype=np.float64)
        found.append(float(np.square(difference, out=difference).sum()))


@dataclass(frozen=True, eq=False)
class Wiener(BlockFunction):
    """A Wiener filter."""

    balance: float

    def made(self, over: Transforms) -> Callable[[np.ndarray], np.ndarray]:
        spectrum = over.of_kernel(self.kernel)
        rough = over.of_kernel(_laplacian(over.axes))
        power = spectrum.real * spectrum.real + spectrum.imag * spectrum.imag
        power += self.balance * (rough.real * rough.real)
        np.maximum(power, np.finfo(np.float64).tiny, out=power)
        spectrum.real /= power
        spectrum.imag /= power

        return partial(over.filtered, spectrum=spectrum, sign=-1)

    def reaches(self) -> list[int]:
        """Return the distances along z, y and x beyond which the filter's weights are negligible."""
        room = int(_RESPONSE_VOXELS ** (1 / len(self.axes)))
        wanted = [min(room, max(64, 8 * n)) if n > 1 else 1 for n in self.kernel.shape]
        shape = triple([max(n, m) for n, m in zip(wanted, self.kernel.shape, strict=True)])
        centre = tuple(n // 2 for n in shape)
        point = np.zeros(shape)
        point[centre] = 1
        model = replace(self, patch=shape)
        weights = model.made(model.over(1))(point)
        return [reach(weights, a, _LEFT_OUT) for a in range(3)]


def _laplacian(axes: Sequence[int]) -> np.ndarray:
    kernel = np.zeros([3 if a in axes else 1 for a in range(3)])
    centre = [n // 2 for n in kernel.shape]
    kernel[tuple(centre)] = 2 * len(axes)
    for a in axes:
        for step in (-1, 1):
            kernel[tuple(c + step * (b == a) for b, c in enumerate(centre))] = -1
    return kernel


@documented
def richardson_lucy(
    volume: Volume,
    psf: ArrayLike | str,
    iterations: int = 50,
    *,
    tv: float = 0.0,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    context: int | Sequence[int] | None = None,
    patch: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Remove an instrument's blur by Richardson-Lucy deconvolution of overlapping blocks.

    Use it for images with photon noise, such as from light microscopy, and a known point spread
    function.

    Parameters
    ----------
    %(intensities)s
        Negative voxels count as 0.
    %(psf)s
        No number may be negative.
    iterations : int, default: 50
        Number of iterations. More iterations restore finer detail but amplify noise.
    tv : float, default: 0.0
        Weight of the total variation, which limits noise, up to 0.1; 0.002 is common. 0 is the
        plain method.
    %(mode_unwrapped)s
    %(cval)s
    context : int or sequence of int, optional
        Number of voxels that each block discards at each face; one number for all axes or one per
        axis. By default four times the distance that contains all but 1e-4 of ``psf``.
    %(patch_of_block)s
    %(dtype)s

    Returns
    -------
    Volume
        A volume without negative voxels: float32 for bool, integers of up to 16 bits, float16 and
        float32; float64 for other dtypes. ``dtype`` overrides this.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. On computation, if
        a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    wiener : deconvolves in one step.
    gaussian_psf : makes a point spread function.

    Notes
    -----
    Blocks start at the first voxel of the volume, so the result does not depend on slabs. The
    result depends on ``patch`` and ``context``. In tests with Gaussians and the default context,
    two grids of blocks differed by less than 1e-4 of the largest voxel after 30 iterations. The
    volume is extended by ``mode`` beyond its edges, and the extended voxels are deconvolved as if
    they were data. scikit-image uses zeros beyond the edges, which makes the estimate brighter at
    the edges; in the interior, the results agree. Computation is in the result's default dtype. The
    first estimate is constant.

    One sweep. A slab needs whole blocks, and memory for nine arrays (thirteen with ``tv``) with
    this dtype and a block's shape. Each iteration needs four Fourier transforms of each block.

    References
    ----------
    `skimage.restoration.richardson_lucy`; W. H. Richardson, "Bayesian-based iterative method of image
    restoration", J. Opt. Soc. Am. 62 (1972); N. Dey et al., "Richardson-Lucy algorithm with total
    variation regularization for 3D confocal microscope deconvolution", Microsc. Res. Tech. 69 (2006).

    Examples
    --------
    >>> blurred = bv.open(np.array([[0, 0, 1, 2, 1, 0, 0]], "f4"))
    >>> np.asarray(bv.richardson_lucy(blurred, [[1, 2, 1]], 100)).round(1)
    array([[0., 0., 0., 4., 0., 0., 0.]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "richardson_lucy"
    how = _iterated(volume, psf, iterations, tv, context, name)
    return in_blocks(volume, name, *how, patch, mode, cval, dtype)


@documented_like(richardson_lucy)
def richardson_lucy_residuals(
    volume: Volume,
    psf: ArrayLike | str,
    iterations: int = 50,
    *,
    tv: float = 0.0,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    context: int | Sequence[int] | None = None,
    patch: int | Sequence[int] | None = None,
) -> Scalar:
    """Compute how far the blurred result of `richardson_lucy` is from the volume after each iteration.

    Use it on a part of the volume to choose the number of iterations. Once residuals are below the
    noise, more iterations only amplify it.

    Parameters
    ----------
    iterations : int, default: 50
        The number of iterations and of results.
    tv : float, default: 0.0
        Weight of the total variation, as in `richardson_lucy`.
    context : int or sequence of int, optional
        Number of voxels that each block discards at each face, as in `richardson_lucy`.

    Returns
    -------
    Scalar
        A lazy array with a number for each iteration: the root of the mean squared difference.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis, or the volume has
        several channels or no voxels. On computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    richardson_lucy : deconvolves.

    Notes
    -----
    One sweep, which takes as long as `richardson_lucy`. Blocks along x are computed one after
    another in a thread.

    References
    ----------
    See `richardson_lucy`.

    Examples
    --------
    >>> blurred = bv.open(np.array([[0, 0, 1, 2, 1, 0, 0]], "f4"))
    >>> np.asarray(bv.richardson_lucy_residuals(blurred, [[1, 2, 1]], 4)).round(2)
    array([0.35, 0.25, 0.19, 0.15])
    """
    name = "richardson_lucy_residuals"
    volume = refuse_empty(one_channel(as_volume(volume)), name)
    how = _iterated(volume, psf, iterations, tv, context, name)
    model, patches = blocks_of(volume, name, *how, patch, mode, cval)
    grid = (*patches.counts[:2], model.iterations)
    stage = Residuals(name, np.dtype(np.float64), patches.of, grid, model, patches)
    sums = Volume(
        (StageNode.of(stage, volume.nodes),), Space().with_leading(volume.space.times, False, ())
    )
    return np.sqrt(sums.sum(axis=("z", "y")) / math.prod(patches.of))


def _iterated(
    volume: Volume, psf: Any, iterations: Any, tv: Any, context: Any, name: str
) -> tuple[Callable[[Triple], RichardsonLucy], Triple, tuple[Triple, Triple]]:
    """Return the function of a block's shape, the extent of its kernel, and the context."""
    count = par.whole_number(iterations, "iterations", name)
    if count > MAX_ITERATIONS:
        raise ValueError(f"{name}: iterations={count}: the maximum is {MAX_ITERATIONS:,}")
    if not (par.is_number(tv) and 0 <= tv <= MAX_TV):
        raise ValueError(f"{name}: tv={tv!r} is not a number from 0 to {MAX_TV}")
    kernel = _psf(volume, psf, name)
    if kernel.min() < 0:
        raise ValueError(f"{name}: psf has negative numbers; subtract its background and clip it")
    dtype = accumulator(volume.dtype)

    def model(block: Triple) -> RichardsonLucy:
        return RichardsonLucy(name, "", kernel, block, count, float(tv), dtype)

    def reaches() -> list[int]:
        return [_REACHES * reach(kernel, a, _LEFT_OUT) for a in range(3)]

    return model, triple(kernel.shape), _context(volume, context, reaches, name)


@documented_like(richardson_lucy)
def wiener(
    volume: Volume,
    psf: ArrayLike | str,
    balance: float,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    context: int | Sequence[int] | None = None,
    patch: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Remove an instrument's blur with a Wiener filter on overlapping blocks.

    Use it if `richardson_lucy` is too slow. The result has negative voxels where it overshoots.

    Parameters
    ----------
    %(intensities)s
    %(psf)s
    balance : float
        Weight of the Laplacian, above 0: larger numbers give smoother results with less noise.
    context : int or sequence of int, optional
        Number of voxels that each block discards at each face; one number for all axes or one per
        axis. By default the distance that contains all but 1e-4 of the filter's weights.

    Returns
    -------
    %(float_result)s

    See Also
    --------
    richardson_lucy : deconvolves by iterations, with results that are not negative.
    denoise_wiener : the filter of `scipy.signal.wiener`, which only denoises.
    gaussian_psf : makes a point spread function.

    Notes
    -----
    Blocks start at the first voxel of the volume, so the result does not depend on slabs. The
    result depends on ``patch`` and ``context``. scikit-image's result is the same in the interior;
    it treats the volume as periodic, and clips from -1 to 1. Computation is in float64.

    One sweep. A slab needs whole blocks, and memory for six arrays of float64 of a block's shape.

    References
    ----------
    `skimage.restoration.wiener`; B. R. Hunt, "A matrix theory proof of the discrete convolution
    theorem", IEEE Trans. Audio and Electroacoustics 19 (1971).

    Examples
    --------
    >>> blurred = bv.open(np.array([[0, 0, 1, 2, 1, 0, 0]], "f4"))
    >>> np.asarray(bv.wiener(blurred, [[1, 2, 1]], 1e-6)).round(1) + 0.0
    array([[0., 0., 0., 4., 0., 0., 0.]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "wiener"
    if not (par.is_number(balance) and 0 < balance < math.inf):
        raise ValueError(f"{name}: balance={balance!r} is not a finite number above 0")
    kernel = _psf(volume, psf, name)

    def model(block: Triple) -> Wiener:
        return Wiener(name, "", kernel, block, float(balance))

    around = _context(volume, context, model(triple(kernel.shape)).reaches, name)
    return in_blocks(volume, name, model, triple(kernel.shape), around, patch, mode, cval, dtype)


def _psf(volume: Volume, given: Any, name: str) -> np.ndarray:
    """Return a point spread function with sum 1."""
    if isinstance(given, str):
        found = open_volume(given)
        space = volume.space
        placed = replace(found.space, origin=space.origin, sliced_from=space.sliced_from)
        shared_space(name, volume, Volume(found.nodes, placed))
        with file_read():
            given = np.asarray(found)
    kernel = kernel_of(volume, given, "psf", name)
    largest = float(np.abs(kernel).max())
    if not math.isfinite(largest * kernel.size):
        raise ValueError(f"{name}: psf has values up to {largest:g}; divide it by its sum")
    total = math.fsum(kernel.ravel().tolist())
    if total <= 0:
        raise ValueError(f"{name}: psf has the sum {total:g}; it must be above 0")
    inside = tuple(slice(1, -1) if n >= _MEASURED else slice(None) for n in kernel.shape)
    border = 1 - math.fsum(kernel[inside].ravel().tolist()) / total
    if border > _MAX_BORDER:
        warnings.warn(
            f"{name}: the outermost voxels of psf have {border:.0%} of its sum: subtract the background of "
            "the measurement, or use a psf of a larger box",
            stacklevel=outside(),
        )
    return kernel / total


def _context(
    volume: Volume, given: Any, default: Callable[[], list[int]], name: str
) -> tuple[Triple, Triple]:
    """Return the voxels that blocks discard before and after along each axis."""
    if given is None:
        sizes = default()
    else:
        sizes = par.whole_numbers(given, volume.space.visible, 0, "context", 0, name)
    for n in sizes:
        par.not_too_long(2 * n, f"{name}: context={given!r}")
    return triple(sizes), triple(sizes)


@named_checked
def gaussian_psf(
    sigma: float | Sequence[float], ndim: int = 3, *, truncate: float = 4.0
) -> np.ndarray:
    """Make a Gaussian point spread function for `richardson_lucy` and `wiener`.

    Parameters
    ----------
    sigma : float or sequence of float
        Standard deviation in voxels; one number for all axes or one per axis.
    ndim : int, default: 3
        Number of axes for a single ``sigma``.
    truncate : float, default: 4.0
        Where the Gaussian is cut off, in standard deviations.

    Returns
    -------
    numpy.ndarray
        A float64 array with sum 1 and an odd number of voxels along each axis.

    Raises
    ------
    ValueError
        If a number is negative or not finite, there are not 1 to 3 axes, or the result would have more
        than 2**24 voxels.

    See Also
    --------
    richardson_lucy : deconvolves.

    Notes
    -----
    For a widefield fluorescence microscope with refractive index n and numerical aperture NA, sigma
    is about ``0.225 * wavelength / NA`` in the plane and ``0.78 * n * wavelength / NA**2`` along z.

    References
    ----------
    B. Zhang, J. Zerubia and J.-C. Olivo-Marin, "Gaussian approximations of fluorescence microscope
    point-spread function models", Applied Optics 46 (2007).

    Examples
    --------
    >>> bv.gaussian_psf((0, 0.5)).round(3)
    array([[0.   , 0.106, 0.787, 0.106, 0.   ]])
    """
    name = "gaussian_psf"
    if not par.is_whole(ndim) or not 1 <= ndim <= 3:
        raise ValueError(f"{name}: ndim={ndim!r}; volumes have 1 to 3 dimensions")
    sigmas = list(sigma) if isinstance(sigma, Sequence | np.ndarray) else [sigma] * ndim
    if not 1 <= len(sigmas) <= 3:
        raise ValueError(f"{name}: sigma={sigma!r}; volumes have 1 to 3 dimensions")
    for value, what in ((truncate, "truncate"), *((s, "sigma") for s in sigmas)):
        if not (par.is_number(value) and 0 <= value < 1e6):
            raise ValueError(f"{name}: {what}={value!r} is not a number from 0 to 1e6")
    given = f"{name}: sigma={sigma!r} with truncate={truncate!r}"
    radii = [par.not_too_long(truncate * s + 0.5, given) for s in sigmas]
    par.not_too_large([2 * r + 1 for r in radii], given)
    result = np.ones(())
    for s, r in zip(sigmas, radii, strict=True):
        result = np.multiply.outer(result, gaussian_weights(s, r) if r else np.ones(1))
    return result
