"""Volumes of another shape or voxel size, which are smoothed before they shrink."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.linear import gaussian_filter
from beam_volumes.ops.filters.splines import MAX_ORDER
from beam_volumes.ops.geometry.rearrange import check_indexable, refuse_empty
from beam_volumes.ops.geometry.resampling import of_order
from beam_volumes.ops.interpolation.grids import Interpolation, interpolate_axes
from beam_volumes.ops.measure.reductions import max, min
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_like

#: numpy's names of boundary modes, and scipy's.
_MODES = {
    "constant": "grid-constant",
    "edge": "nearest",
    "reflect": "mirror",
    "symmetric": "reflect",
    "wrap": "grid-wrap",
}
#: Where the Gaussian is cut off, in standard deviations.
_TRUNCATE = 4.0


@documented
def resize(
    volume: Volume,
    output_shape: int | Sequence[int],
    order: int | None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    clip: bool = True,
    *,
    anti_aliasing: bool | None = None,
    anti_aliasing_sigma: float | str | Sequence[float | str] | None = None,
) -> Volume:
    """Resize a volume to a given shape.

    Use it for data of the shape that a network or a second volume has. The volume is smoothed along
    axes that shrink.

    Parameters
    ----------
    %(volume)s
    output_shape : int or sequence of int
        Number of voxels of the result along each axis of space; one number for all axes or one per
        axis.
    %(order_of_dtype)s
    %(outside_numpy)s
    %(outside_cval)s
    %(anti_aliasing)s

    Returns
    -------
    Volume
        A volume of the input's dtype and extent, with a new voxel size and origin. Integers keep
        their scale, and are rounded half away from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has
        no voxels, or is bool with ``anti_aliasing``. On computation, if a volume to clip has only
        NaN and infinite voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    rescale : resizes by factors.
    resample : resizes to a voxel size.
    downsample : combines the voxels of windows, for integer factors.

    Notes
    -----
    The result keeps the extent of the volume. Its voxel ``i`` is at position ``(i + 0.5) * f - 0.5``
    in the volume, and ``f`` is the ratio of the two numbers of voxels.

    Except with ``order=0``, 64-bit integers above 2**53 are rounded, and voxels next to NaN or
    infinities become NaN; with orders from 2 on, this may be the whole volume. Smoothing adds voxels:
    floats near the maximum of their dtype become NaN.

    %(resizing_sweeps)s

    References
    ----------
    `skimage.transform.resize` with ``preserve_range=True``, which returns floats.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 30, 40]], "u1"), voxel_size=2)
    >>> small = bv.resize(v, (1, 2))
    >>> np.asarray(small), small.voxel_size, small.origin
    (array([[16, 34]], dtype=uint8), (2.0, 4.0), (0.0, 1.0))

    Keep the values of labels with ``order=0``, which does not smooth integers:

    >>> np.asarray(bv.resize(v, (1, 8), order=0))
    array([[10, 10, 20, 20, 30, 30, 40, 40]], dtype=uint8)
    """
    name = "resize"
    v = refuse_empty(as_volume(volume), name)
    grid = par.whole_numbers(output_shape, v.space.visible, 1, "output_shape", 1, name)
    return _resized(
        v, name, f"output_shape={output_shape!r}", grid, order, mode, cval, clip, anti_aliasing,
        anti_aliasing_sigma,
    )  # fmt: skip


@documented_like(resize)
def rescale(
    volume: Volume,
    scale: float | Sequence[float],
    order: int | None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    clip: bool = True,
    *,
    anti_aliasing: bool | None = None,
    anti_aliasing_sigma: float | str | Sequence[float | str] | None = None,
) -> Volume:
    """Resize a volume by factors.

    The volume is smoothed along axes that shrink.

    Parameters
    ----------
    scale : float or sequence of float
        Factors for the number of voxels, which is rounded and at least 1; one value for all axes or
        one per axis.

    See Also
    --------
    resize : resizes to a shape, and has further notes.
    resample : resizes to a voxel size.
    zoom : does not smooth.
    rescale_intensity : changes the values of voxels.

    Notes
    -----
    The result keeps the extent of the volume: its voxel size follows from the rounded number of
    voxels.

    %(resizing_sweeps)s

    References
    ----------
    `skimage.transform.rescale` with ``preserve_range=True``, which returns floats.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 30, 40]], "u1"), voxel_size=2)
    >>> half = bv.rescale(v, (1, 0.5))
    >>> np.asarray(half), half.voxel_size
    (array([[16, 34]], dtype=uint8), (2.0, 4.0))
    """
    name = "rescale"
    v = refuse_empty(as_volume(volume), name)
    shape = v.grid_shape
    by = par.per_axis(scale, v.space.visible, 1.0, "scale", name)
    for s, n in zip(by, shape, strict=True):
        if not (par.is_number(s) and s > 0 and math.isfinite(n * float(s))):
            raise ValueError(f"{name}: scale={scale!r} is not made of positive, finite numbers")
    grid = [round(n * float(s)) or 1 for n, s in zip(shape, by, strict=True)]
    return _resized(
        v, name, f"scale={scale!r}", grid, order, mode, cval, clip, anti_aliasing,
        anti_aliasing_sigma,
    )  # fmt: skip


@documented_like(resize)
def resample(
    volume: Volume,
    voxel_size: float | str | Sequence[float | str],
    order: int | None = None,
    mode: str = "edge",
    cval: float = 0.0,
    clip: bool = True,
    *,
    anti_aliasing: bool | None = None,
    anti_aliasing_sigma: float | str | Sequence[float | str] | None = None,
) -> Volume:
    """Resample a volume to a given voxel size.

    Use it to make voxels isotropic, or to bring volumes of several microscopes to one scale.

    Parameters
    ----------
    voxel_size : float, str or sequence of them
        The new voxel size, as a number in the volume's unit or a length such as ``"10 nm"``; one
        value for isotropic voxels or one per axis.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, default: "edge"
        How to extend the volume beyond its edges, as in `resize`.

    Returns
    -------
    Volume
        A volume of the input's dtype and unit with this voxel size. Integers keep their scale, and
        are rounded half away from zero.

    Raises
    ------
    ValueError
        If the volume has no voxel size, or no unit for a length. If a voxel would be at least
        twice as large as the volume. If a parameter is out of range, or does not have one entry for each
        axis. If the volume has no voxels, or is bool with ``anti_aliasing``. On computation, if a
        volume to clip has only NaN and infinite voxels.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    resize : resizes to a shape, and has further notes.
    rescale : resizes by factors.
    affine_transform : transforms to any grid.

    Notes
    -----
    The outer corner of the first voxel stays where it is, not the centre. The origin, which is this
    voxel's centre, therefore moves by half the difference of the voxel sizes. The new number of
    voxels is the extent divided by the new voxel size, rounded half to even. The opposite corner
    moves by up to half a new voxel if this division has a remainder.

    %(resizing_sweeps)s

    References
    ----------
    The ``Resample`` filter of SimpleITK, with this size, spacing and origin. It does not smooth.

    Examples
    --------
    >>> stack = bv.open(np.array([[0, 8]], "u1").T, voxel_size=(40, 10), unit="nm")
    >>> isotropic = bv.resample(stack, "10 nm")
    >>> isotropic.shape, isotropic.voxel_size, isotropic.origin
    ((8, 1), (10.0, 10.0), (-15.0, 0.0))
    >>> np.asarray(isotropic)[:, 0]
    array([0, 0, 1, 3, 5, 7, 8, 8], dtype=uint8)
    """
    name, what = "resample", f"voxel_size={voxel_size!r}"
    v = refuse_empty(as_volume(volume), name)
    old = v.space.voxel_size
    if old is None:
        raise ValueError(
            f"{name}: {what}, but the volume has no voxel size; open it with voxel_size=, or use "
            "bv.rescale"
        )
    given = par.per_axis(voxel_size, v.space.visible, None, "voxel_size", name)
    sizes = [par.in_unit(v, s, "voxel_size") if isinstance(s, str) else s for s in given]
    new = par.voxel_sizes(v, [sizes[a] for a in v.space.visible], "voxel_size", name)
    grid, scales = list(v.grid_shape), [1.0] * 3
    for a in v.space.visible:
        scale = Fraction(repr(new[a])) / Fraction(repr(float(old[a])))
        grid[a], scales[a] = round(grid[a] / scale), float(scale)
        if not grid[a]:
            raise ValueError(
                f"{name}: {what} is at least twice the extent of the volume along "
                f"{'zyx'[a]}, so no voxel is left; give a smaller one, or one for each axis"
            )
    z, y, x = (new[a] if a in v.space.visible else old[a] for a in range(3))
    return _resized(
        v, name, what, grid, order, mode, cval, clip, anti_aliasing, anti_aliasing_sigma,
        scales, (z, y, x),
    )  # fmt: skip


def _resized(
    v: Volume,
    name: str,
    what: str,
    grid: Sequence[int],
    order: int | None,
    mode: str,
    cval: float,
    clip: bool,
    anti_aliasing: bool | None,
    sigma: float | str | Sequence[float | str] | None,
    scales: Sequence[float] = (),
    voxel_size: tuple[float, float, float] | None = None,
) -> Volume:
    """Interpolate at ``(i + 0.5) * scale - 0.5``; ``what`` is the parameter of the size, for messages."""
    check_indexable(grid, f"{name}: {what}")
    order = int(v.dtype != bool) if order is None else order
    v = of_order(v, order, name, MAX_ORDER)
    if mode not in _MODES:
        raise ValueError(f"{name}: mode={mode!r} is not available; use one of {', '.join(_MODES)}")
    how = Interpolation.of(v, name, order, _MODES[mode], cval, True)
    scales = scales or [n / m for n, m in zip(v.grid_shape, grid, strict=True)]
    z, y, x = scales
    space = v.space.resampled((z, y, x), ((z - 1) / 2, (y - 1) / 2, (x - 1) / 2))
    if voxel_size is not None:  # without the rounding of its product with the scale
        space = replace(space, voxel_size=voxel_size)
    source = _smoothed(v, how, what, scales, anti_aliasing, sigma)
    result = interpolate_axes(source, how, [(0.0, s, 0.5) for s in scales], grid, space, v.dtype)
    if not clip or order < 2:
        return result
    low, high = min(v, nan="omit"), max(v, nan="omit")
    if mode == "constant":
        outside = v.dtype.type(cval)
        low, high = np.minimum(low, outside), np.maximum(high, outside)
    return result.clip(low, high)


def _smoothed(
    v: Volume,
    how: Interpolation,
    what: str,
    scales: Sequence[float],
    anti_aliasing: bool | None,
    sigma: float | str | Sequence[float | str] | None,
) -> Volume:
    """Smooth the axes that shrink, unless the values of masks and labels are to be kept."""
    name = how.name
    sigmas = [float(np.maximum(0, s - 1)) / 2 for s in scales]
    if sigma is not None:
        sigmas = par.lengths(v, sigma, v.space.visible, "anti_aliasing_sigma")
        what = f"anti_aliasing_sigma={sigma!r}"
    if v.dtype == bool and anti_aliasing:
        raise ValueError(
            f"{name}: anti_aliasing={anti_aliasing!r} of a bool volume; leave it out, or use "
            "astype('f4') first"
        )
    if anti_aliasing is None:
        keeps_values = v.dtype == bool or (v.dtype.kind in "iu" and how.order == 0)
        anti_aliasing = not keeps_values and any(s > 1 for s in scales)
    if not anti_aliasing or not any(sigmas):
        return v
    for s in sigmas:
        par.not_too_long(_TRUNCATE * s + 0.5, f"{name}: {what}")
    chosen = [sigmas[a] for a in v.space.visible]
    axes = list(par.axes_of_space(v))
    return gaussian_filter(v, chosen, mode=how.mode, cval=how.cval, truncate=_TRUNCATE, axes=axes)
