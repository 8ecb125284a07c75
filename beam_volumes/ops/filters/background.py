"""Backgrounds by a rolling ball, named as in scikit-image's restoration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.filters.rolling_ball import rolling_ball as rolling_ball_kernel
from beam_volumes.ops.filters.stages import Neighbourhood
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.parameters.neighbourhood import Footprint


@dataclass(frozen=True, eq=False)
class RollingBall(Neighbourhood):
    """The lowest position of a ball, computed in the dtype of ``heights``."""

    offsets: np.ndarray
    heights: np.ndarray

    kernel = staticmethod(rolling_ball_kernel)

    @property
    def cost(self) -> float:
        return 1.0 + 0.05 * len(self.offsets) * self.heights.itemsize / 2

    def parameters(self) -> tuple[Any, ...]:
        return self.offsets, self.heights, np.array(self.before)


@documented
def rolling_ball(
    volume: Volume,
    *,
    radius: float | str | Sequence[float | str] = 100,
    kernel: ArrayLike | None = None,
) -> Volume:
    """Estimate the background by rolling a ball under the intensities.

    Use it to even out the background: ``volume - bv.rolling_ball(volume)``. The ball must be larger
    than the objects to keep.

    Parameters
    ----------
    %(volume)s
    radius : float, str or sequence of them, default: 100
        Radius of the ball, in voxels or as a length such as ``"15 um"``. Lengths need a volume with
        a voxel size. One value for all axes or, for an ellipsoid, one per axis; 0 along z filters
        slice by slice. The largest radius, in voxels, is also the height in units of intensity.
    kernel : array_like of float, optional
        The heights of a custom ball, with one dimension per axis, infinite outside of it.
        scikit-image's ``ellipsoid_kernel(shape, intensity)`` returns one with a given height.

    Returns
    -------
    %(same_dtype)s

    Raises
    ------
    ValueError
        If a parameter is out of range, or the ball has more than 4 million voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool.

    See Also
    --------
    white_tophat : subtracts a background in time that does not grow with the footprint.

    Notes
    -----
    The result is identical to scikit-image's with ``nansafe=True``. Integers are rounded towards 0.
    Bright noise is ignored; smooth the volume first if there is dark noise.

    One sweep. The halo is the radius. The time grows with the number of voxels of the ball: for
    large balls, filter a downsampled volume and `zoom` the background.

    References
    ----------
    `skimage.restoration.rolling_ball`; S. R. Sternberg, "Biomedical image processing", Computer 16
    (1983).

    Examples
    --------
    >>> slope = np.array([[10, 11, 12, 40, 14, 15]], "u1")
    >>> np.asarray(slope - bv.rolling_ball(slope, radius=3))
    array([[ 0,  1,  2, 29,  2,  1]], dtype=uint8)
    """
    volume = as_volume(volume)
    name = "rolling_ball"
    dtype = volume.dtype
    if dtype.kind == "b":
        raise TypeError(f"{name}: a bool volume has no intensities; cast it with astype first")
    numbers = _heights(volume, radius, kernel, name)
    centre = numbers[tuple(n // 2 for n in numbers.shape)]
    if not np.isfinite(centre):
        raise ValueError(f"{name}: the centre of the kernel is infinite")
    heights = centre - numbers
    inside = np.isfinite(heights)
    # Added to integers, heights that are not negative are as good rounded down.
    whole = dtype.kind == "u" and dtype.itemsize <= 2 and heights[inside].min() >= 0
    if whole:
        inner, outside = dtype, float(np.iinfo(dtype).max)
        sums: np.dtype = np.dtype(np.int16 if dtype.itemsize == 1 else np.int32)
        heights = np.minimum(np.floor(heights[inside]), outside)
    else:
        inner, outside = np.dtype(np.float64 if dtype.kind != "f" else dtype), math.inf
        sums = np.dtype(np.float64 if inner == np.float64 else np.float32)
        rounded = numbers[inside].astype(sums)
        heights = rounded.dtype.type(centre) - rounded
    around = Footprint.of(volume, name, None, inside, 0, None, "constant", outside)
    stage = RollingBall(*around.fields(inner), around.offsets, heights.astype(sums))
    return stage_in(inner, volume.astype(inner), stage).astype(dtype)


def _heights(volume: Volume, radius: Any, kernel: Any, name: str) -> np.ndarray:
    """Return the kernel of a radius, or a given one."""
    axes = volume.space.visible
    if kernel is None:
        radii = [par.lengths(volume, radius, axes, "radius")[a] for a in axes]
        par.not_too_large([2 * math.ceil(r) + 1 for r in radii], f"{name}: radius={radius!r}")
        return _ellipsoid(radii)
    numbers = par.element(kernel, "kernel", name, True).astype(np.float64)
    if numbers.ndim != len(axes) or not numbers.size:
        raise ValueError(
            f"{name}: kernel has shape {numbers.shape}; give one dimension for each of "
            f"{len(axes)} axes"
        )
    return numbers


def _ellipsoid(radii: Sequence[float]) -> np.ndarray:
    """Return the upper half of an ellipsoid, as high as its largest radius, infinite outside."""
    reach = [math.ceil(r) for r in radii]
    height = max(radii)
    steps = [
        np.square(np.arange(-n, n + 1) * (height / r if r else 0.0))
        for n, r in zip(reach, radii, strict=True)
    ]
    squared = np.zeros([len(s) for s in steps])
    for axis, own in enumerate(steps):
        squared += own.reshape([-1 if a == axis else 1 for a in range(len(steps))])
    heights: np.ndarray = np.sqrt(np.clip(height**2 - squared, 0, None))
    heights[np.sqrt(squared) > height] = np.inf
    return heights
