"""Intensities along lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.ndimage as ndi

from beam_volumes.base.geometry import pad_index
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.filters.splines import MAX_ORDER
from beam_volumes.ops.interpolation.grids import Interpolation
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in
from beam_volumes.ops.parameters.docs import documented

#: The largest number of samples, and of voxels that are read for successive ones.
MAX_SAMPLES, MAX_READ = 1 << 22, 1 << 18


@documented
def profile_line(
    image: Volume,
    src: Sequence[float],
    dst: Sequence[float],
    linewidth: int = 1,
    order: int | None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    *,
    reduce_func: Callable[..., Any] | None = np.mean,
) -> np.ndarray:
    """Measure the intensities along a line between two points.

    Use it to look at an edge or a membrane of a stored volume: only voxels along the line are read.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and one time point.
    src, dst : sequence of float
        The ends of the line, in voxels, one number for each axis. Both ends are part of the
        profile.
    linewidth : int, default: 1
        The number of samples across the line, for two axes.
    order : int, optional
        Order of interpolation: 0 is the nearest voxel, 1 is linear, and 2 to 5 are splines, which
        read the whole image. By default, the order is 0 for bool and 1 for other dtypes.
    %(mode)s
    %(cval)s
    reduce_func : callable or None, default: numpy.mean
        A function that combines the samples across the line; None returns all samples, (length,
        linewidth).

    Returns
    -------
    numpy.ndarray
        The profile, with a sample for each voxel of length, computed immediately, in this process.

    Raises
    ------
    ValueError
        If a point does not have a finite number for each axis, or ``order`` is above 5 (above 0 for
        bool). If the profile has more than 4,194,304 samples, or ``linewidth`` is above 1 for three
        axes.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    map_coordinates : interpolates at the positions of a volume.

    Notes
    -----
    Boxes of up to 262,144 voxels along the line are computed one after another. With splines, each
    box needs coefficients from `spline_filter`, which read lines along all axes.

    References
    ----------
    `skimage.measure.profile_line`.

    Examples
    --------
    >>> image = np.array([[0, 0, 0, 0], [1, 1, 2, 2], [0, 0, 0, 0]], "f4")
    >>> bv.profile_line(image, (1, 0), (1, 3))
    array([1., 1., 2., 2.], dtype=float32)
    >>> bv.profile_line(np.stack([image, image + 2]), (0, 1, 0), (1, 1, 3))
    array([1. , 1.5, 2.5, 3.5, 4. ], dtype=float32)
    """
    name = "profile_line"
    image = one_channel(as_volume(image))
    if image.space.times:
        raise ValueError(f"{name}: image has several time points; select one with sel(t=0)")
    axes = image.space.visible
    start, stop = (_point(p, len(axes), what, name) for p, what in ((src, "src"), (dst, "dst")))
    width = par.whole_number(linewidth, "linewidth", name)
    if width > 1 and len(axes) != 2:
        raise ValueError(f"{name}: linewidth={width} needs an image of two axes, not {len(axes)}")
    if order is None:
        order = 0 if image.dtype.kind == "b" else 1
    if not par.is_whole(order) or not 0 <= order <= (0 if image.dtype.kind == "b" else MAX_ORDER):
        raise ValueError(
            f"{name}: order={order!r} is not available for {image.dtype}; use 0 to 5, or 0 for bool"
        )
    modes = par.modes_of(mode, axes, name)
    if any("constant" in m for m in modes):
        constant_in(image.dtype, cval, "cval", name)
    if 0 in image.shape:
        raise ValueError(f"{name}: an image of shape {image.shape} has no voxels")
    length = math.ceil(math.dist(start, stop) + 1)
    if length * width > MAX_SAMPLES:
        raise ValueError(
            f"{name}: {length:,} samples from {tuple(src)} to {tuple(dst)} with linewidth={width} "
            f"are too many; the maximum is {MAX_SAMPLES:,}"
        )
    at = np.linspace(start, stop, length, axis=1)[:, :, None]
    if width > 1:
        angle = math.atan2(stop[0] - start[0], stop[1] - start[1])
        across = np.linspace(0.5, -0.5, width) * (width - 1)
        at = at + np.array([math.cos(angle), -math.sin(angle)])[:, None, None] * across
    found = np.empty(at.shape[1:], image.dtype)
    source = image
    if order > 1:
        # Voxels outside, not positions, are the constant or repeat, as for orders 0 and 1.
        on_grid = f"grid-{mode}" if mode in ("constant", "wrap") else mode
        how = Interpolation.of(image, name, order, on_grid, cval, True)
        ends, orders = [(0.0, 0.0)] * 3, [0, 0, 0]
        for a, places in zip(axes, at, strict=True):
            ends[a], orders[a] = (float(places.min()), float(places.max())), order
        source, added = how.source(image, orders, ends)
        at = at + np.array([added[a] for a in axes])[:, None, None]
        modes = (how.edges,) * 3
    share = np.abs(stop - start) / max(1, length - 1)
    step = _samples_at_a_time(share, width)
    for first in range(0, length, step):
        some = slice(first, first + step)
        own = [modes[a] for a in axes]
        found[some] = _interpolated(source, at[:, some], order, own, cval, image.dtype)
    if reduce_func is None:
        return found
    try:
        return np.asarray(reduce_func(found, axis=1))
    except TypeError:  # a function without axis=
        return np.apply_along_axis(reduce_func, 1, found)


def _point(given: Any, ndim: int, what: str, name: str) -> np.ndarray:
    point = np.asarray(given)
    if point.shape != (ndim,) or point.dtype.kind not in "iuf" or not (abs(point) < 2**40).all():
        raise ValueError(f"{name}: {what}={given!r} is not a finite number for each of {ndim} axes")
    return point.astype(np.float64)


def _samples_at_a_time(share: np.ndarray, width: int) -> int:
    """Return a number of samples, each ``share`` voxels after the last one, in a box of `MAX_READ` voxels."""
    count = 1
    while count < MAX_SAMPLES and np.prod(2 * count * share + width + 3) <= MAX_READ:
        count *= 2
    return count


def _interpolated(
    image: Volume, at: np.ndarray, order: int, modes: Sequence[str], cval: float, dtype: np.dtype
) -> np.ndarray:
    """Interpolate an image, or the coefficients of splines, at some coordinates, from their box."""
    low = np.floor(at.min(axis=(1, 2))).astype(np.int64) - order // 2
    high = np.floor(at.max(axis=(1, 2))).astype(np.int64) + 2 + order // 2
    box, index = [], []
    for a, b, n, mode in zip(low, high, image.shape, modes, strict=True):
        own = np.arange(a, b) % n if mode == "wrap" else pad_index(int(a), int(b), n, mode)
        inside = own[own >= 0]
        if not inside.size:
            return np.full(at.shape[1:], cval, dtype)
        box.append(slice(int(inside.min()), int(inside.max()) + 1))
        index.append(np.where(own >= 0, own - box[-1].start, -1))
    voxels = np.asarray(image[tuple(box)])[np.ix_(*index)]
    for axis, own in enumerate(index):
        np.moveaxis(voxels, axis, 0)[own < 0] = cval
    where = at - low[:, None, None]
    how = {"order": order, "mode": "nearest", "prefilter": False}
    return np.asarray(ndi.map_coordinates(voxels, where, dtype, **how))
