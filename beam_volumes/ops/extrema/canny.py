"""Canny's edges, named as in scikit-image's feature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import NO_HALO, Halo, Triple
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.kernels.extrema.suppression import suppress
from beam_volumes.kernels.scratch import Scratch
from beam_volumes.ops.filters.derivatives import magnitude as magnitude_of
from beam_volumes.ops.filters.linear import accumulator, gaussian_filter, separable
from beam_volumes.ops.geometry.rearrange import coordinates
from beam_volumes.ops.intensity.exposure import value_of
from beam_volumes.ops.labels.components import connected_to
from beam_volumes.ops.measure.distributions import percentile
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import kernel_input, stage_of_volumes, triple
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import Block, KernelStage, Padding


@dataclass(frozen=True, eq=False)
class Suppress(KernelStage):
    """The magnitude of a gradient across an edge. Inputs are the magnitude and the components."""

    thin: Triple
    shape: Triple

    cost = 25.0
    kernel = staticmethod(suppress)

    @property
    def halos(self) -> tuple[Halo, ...]:
        return (((1, 1), (1, 1), (1, 1)), *[NO_HALO] * sum(self.thin))

    @property
    def padding(self) -> Padding:
        return Padding(("nearest",) * 3)

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return suppress.scratch(rows, cols, depth, self.dtype)

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        where = out.start, self.shape, self.thin
        return inputs[0], inputs[1:], out, y0, y1, out.cols, *where, float(values[0])


@documented
def canny(
    image: Volume,
    sigma: float | str | Sequence[float | str] = 1.0,
    low_threshold: float | None = None,
    high_threshold: float | None = None,
    use_quantiles: bool = False,
    *,
    axes: int | Sequence[int] | None = None,
    mode: str | Sequence[str] = "constant",
    cval: float = 0.0,
) -> Volume:
    """Find edges as thin lines or surfaces that are connected to strong edges.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with two or three axes. Intensities keep their scale.
    sigma : float, str or sequence of them, default: 1.0
        Standard deviation in voxels, or as a length such as ``"150 nm"``. Lengths need a volume
        with a voxel size. One value for all axes or one per axis.
    low_threshold : float, optional
        Minimum gradient of an edge, computed with the Sobel filter; by default a tenth of the
        dtype's maximum, or 0.1 for floats.
    high_threshold : float, optional
        Minimum gradient of at least one voxel of a connected edge; by default twice the default of
        ``low_threshold``.
    use_quantiles : bool, default: False
        Whether thresholds are quantiles of the gradient, from 0 to 1.
    %(axes)s
        ``axes=(1, 2)`` finds edges slice by slice.
    %(mode_constant)s
    %(cval)s

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    %(errors)s

    See Also
    --------
    sobel : the gradient.
    apply_hysteresis_threshold : selects connected voxels by two thresholds.

    Notes
    -----
    A voxel is an edge if its gradient is a maximum along the gradient's direction; values between
    voxels are interpolated linearly. The outer voxels of the volume are never edges. Edges are
    connected across faces, edges and corners of voxels, in the whole volume.

    Two sweeps, plus the sweeps of `percentile` with ``use_quantiles``. The halo is four sigma and
    two voxels. In two dimensions, the result equals scikit-image's except for rounding.

    References
    ----------
    `skimage.feature.canny`; J. Canny, "A computational approach to edge detection", IEEE Trans.
    Pattern Analysis and Machine Intelligence 8 (1986).

    Examples
    --------
    >>> square = np.zeros((7, 8))
    >>> square[:, 4:] = 1
    >>> np.asarray(bv.canny(square, 0.5, mode="nearest"))[3].astype(int)
    array([0, 0, 0, 1, 1, 0, 0, 0])
    """
    name = "canny"
    image = one_channel(as_volume(image))
    chosen = par.axes_of(image, axes, name)
    if len(chosen) < 2:
        where = f"axes={axes!r} is" if axes is not None else "the volume has"
        raise ValueError(f"{name}: {where} {len(chosen)} axis; give two or three")
    limits = _thresholds(image, low_threshold, high_threshold, use_quantiles, name)
    dtype = accumulator(image.dtype)
    if not image.size:
        return image.astype(bool)
    modes = par.modes_of(mode, chosen, name)
    smooth = _smoothed(kernel_input(image).astype(dtype), sigma, axes, chosen, mode, modes, cval)
    slopes = []
    for axis in chosen:
        passes = [
            (a, np.array([-1.0, 0.0, 1.0] if a == axis else [1.0, 2.0, 1.0]), 1) for a in chosen
        ]
        slopes.append(separable(smooth, name, passes, ("reflect",) * 3, 0.0, None))
    strength = magnitude_of(slopes)
    thin = triple([int(a in chosen) for a in range(3)])
    stage = Suppress(name, dtype, thin, image.grid_shape)
    low, high = limits
    if use_quantiles:
        low, high = (percentile(strength, 100.0 * limit) for limit in limits)
    ridges = stage_of_volumes(stage, [strength, *slopes], value_of(low))
    seeds = apply_ufunc("logical_and", ridges > 0, ridges >= high)
    element = np.zeros((3, 3, 3), bool)
    element[tuple(slice(None) if a in chosen else 1 for a in range(3))] = True
    return connected_to(name, ridges > 0, seeds, element)


def _smoothed(
    image: Volume,
    sigma: Any,
    axes: Any,
    chosen: Sequence[int],
    mode: Any,
    modes: tuple[str, str, str],
    cval: float,
) -> Volume:
    """Smooth; with a constant edge, divide by the share of the volume in the neighbourhood."""
    how: dict[str, Any] = {"mode": mode, "cval": cval, "axes": axes}
    smooth = gaussian_filter(image, sigma, **how)
    if not any("constant" in modes[a] for a in chosen):
        return smooth
    first = image.ndim - len(image.space.visible)
    ones = apply_ufunc("greater_equal", coordinates(image, first), 0).astype(image.dtype)
    share = gaussian_filter(ones, sigma, **how)
    tiny = image.dtype.type(np.finfo(image.dtype).eps)
    return apply_ufunc("divide", smooth, apply_ufunc("add", share, tiny))


def _thresholds(
    image: Volume, low: Any, high: Any, use_quantiles: bool, name: str
) -> tuple[Any, Any]:
    """Return both thresholds, by default fractions of the dtype's range, or of voxels."""
    unit = 1.0 if image.dtype.kind in "fb" or use_quantiles else float(np.iinfo(image.dtype).max)
    found = []
    for what, given, share in (("low_threshold", low, 0.1), ("high_threshold", high, 0.2)):
        number = share * unit if given is None else given
        if not par.is_number(number) or not math.isfinite(number):
            raise ValueError(f"{name}: {what}={given!r} is not a finite number")
        if use_quantiles and not 0 <= number <= 1:
            raise ValueError(f"{name}: {what}={given!r}: a fraction must be from 0 to 1")
        found.append(number)
    if found[0] > found[1]:
        raise ValueError(f"{name}: low_threshold={found[0]} is above high_threshold={found[1]}")
    return found[0], found[1]
