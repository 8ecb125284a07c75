"""Linear filters, named as in scipy.ndimage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume, as_volume, checked_dtype, rounded
from beam_volumes.kernels.elementary import gaussian_weights
from beam_volumes.ops import parameters as par
from beam_volumes.ops.building import holds, kernel_input, stage_of, triple
from beam_volumes.ops.docs import documented
from beam_volumes.ops.filters import stages
from beam_volumes.sweep.stage import Padding

_ONE = np.ones(1)
#: The highest derivative: beyond it weights lose all their digits.
MOST_ORDER = 20


def accumulator(dtype: np.dtype) -> np.dtype:
    """What linear filters compute and return: float32 up to 16 bits and for float32, else float64.

    Examples
    --------
    >>> accumulator(np.dtype("u2"))
    dtype('float32')
    >>> accumulator(np.dtype("i4"))
    dtype('float64')
    """
    single = dtype == np.float32 or dtype.itemsize <= 2
    return np.dtype(np.float32 if single else np.float64)


def float_dtype(dtype: Any) -> Any:
    """What parts are computed in if a result of ``dtype`` is wanted: the same if it is a float."""
    return dtype if dtype is not None and np.issubdtype(np.dtype(dtype), np.floating) else None


def in_dtype(volume: Volume, dtype: Any) -> Volume:
    """A result in the dtype that is wanted; None is its own."""
    return volume if dtype is None else rounded(volume, checked_dtype(dtype))


def separable(
    volume: Volume,
    name: str,
    passes: Sequence[tuple[int, np.ndarray, int]],
    modes: tuple[str, str, str],
    cval: float,
    dtype: Any,
) -> Volume:
    """1-D correlations along axes, one after the other: (axis, float64 weights, taps before).

    The order counts where a constant edge makes it count: there every pass pads anew.
    """
    source = kernel_input(volume)
    wanted = None if dtype is None else checked_dtype(dtype)
    compute = accumulator(source.dtype)
    if wanted is not None and np.issubdtype(wanted, np.floating) and wanted != np.float16:
        compute = wanted
    result = compute if wanted is None or wanted == np.float16 else wanted
    constant = any(m in ("constant", "grid-constant") for m in modes) and cval != 0
    if constant and not holds(source.dtype, cval):
        source = source.astype(compute)
    # One stage for all passes, but for a constant edge: there scipy pads what each pass yields.
    groups = [[p] for p in passes] if constant else [list(passes)]
    for k, group in enumerate(groups or [[]]):
        weights, before = [_ONE, _ONE, _ONE], [0, 0, 0]
        for axis, w, b in group:
            weights[axis], before[axis] = w, b
        stage = stages.Correlate(
            name,
            result if k == len(groups) - 1 or not groups else compute,
            triple(before),
            triple([len(w) for w in weights]),
            Padding(modes, float(cval)),
            tuple(np.ascontiguousarray(w, dtype=compute) for w in weights),  # type: ignore[arg-type]
        )
        source = stage_of(source, stage)
    return source.astype(np.float16) if wanted == np.float16 else source


@documented
def gaussian_filter(
    volume: Volume,
    sigma: float | str | Sequence[float | str],
    order: int | Sequence[int] = 0,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    radius: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    dtype: Any = None,
) -> Volume:
    """Smooth with a Gaussian, or take Gaussian derivatives.

    Parameters
    ----------
    %(volume)s
    %(sigma)s
    order : int or sequence of int, default: 0
        0 smooths; 1, 2 and 3 take derivatives of the Gaussian. One for all axes, or one for
        each.
    %(mode)s
    %(cval)s
    %(truncate)s
    radius : int or sequence of int, optional
        Where the Gaussian is cut off, in voxels; by default ``truncate`` says where.
    %(axes)s
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    gaussian_filter1d : along one axis.

    Notes
    -----
    Equal to `scipy.ndimage.gaussian_filter` of the float64 volume within 16 units in the last place
    of the result's dtype times the largest voxel. (Of integers scipy returns the input's dtype, and
    truncates after each axis.)

    One sweep. The halo is the radius: a window holds ``2 * radius + 1`` slices of the input.

    References
    ----------
    `scipy.ndimage.gaussian_filter`.

    Examples
    --------
    >>> v = bv.open(np.eye(3, dtype="u1")[None])
    >>> np.asarray(bv.gaussian_filter(v, 1, axes=(1, 2))).round(2)[0, 0]
    array([0.5 , 0.33, 0.17], dtype=float32)
    """
    volume = as_volume(volume)
    name = "gaussian_filter"
    chosen = par.axes_of(volume, axes, name)
    sigmas = par.lengths(volume, sigma, chosen, "sigma")
    orders = par.whole_numbers(order, chosen, 0, "order", 0)
    radii = par.per_axis(radius, chosen, None, "radius")
    modes = par.modes_of(mode, chosen, name)
    passes = []
    for axis in chosen:
        if sigmas[axis] <= 1e-15:
            continue
        r = radii[axis]
        if r is None:
            what = f"{name}: truncate={truncate!r} of sigma={sigmas[axis]!r}"
            r = par.not_too_long(truncate * sigmas[axis] + 0.5, what)
        if isinstance(r, bool) or not isinstance(r, int | np.integer) or r < 0:
            raise ValueError(f"{name}: radius={radius!r} is not a whole number from 0 on")
        par.not_too_long(2 * r + 1, f"{name}: radius={radius!r}")
        if orders[axis] > MOST_ORDER:
            raise ValueError(f"{name}: order={order!r}; derivatives are up to the {MOST_ORDER}th")
        passes.append((axis, gaussian_weights(sigmas[axis], int(r), orders[axis]), int(r)))
    return separable(volume, name, passes, modes, cval, dtype)


@documented
def uniform_filter(
    volume: Volume,
    size: int | Sequence[int] = 3,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: Any = None,
) -> Volume:
    """Take the mean over a box around each voxel.

    Parameters
    ----------
    %(volume)s
    size : int or sequence of int, default: 3
        Extent of the box in voxels; one for all axes, or one for each.
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    uniform_filter1d : along one axis.

    Notes
    -----
    Sums of integers of up to 16 bits are exact, as long as they fit into 32 bits; the time does not
    depend on ``size`` then.

    %(halo)s

    References
    ----------
    `scipy.ndimage.uniform_filter`.

    Examples
    --------
    >>> np.asarray(bv.uniform_filter(bv.open(np.array([[0, 3, 0, 0]], "u1")), (1, 3)))
    array([[1., 1., 1., 0.]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "uniform_filter"
    chosen = par.axes_of(volume, axes, name)
    sizes = par.whole_numbers(size, chosen, 1, "size", 1)
    par.not_too_long(max(sizes), f"{name}: size={size!r}")
    shifts = par.origins(origin, sizes, chosen, name)
    modes = par.modes_of(mode, chosen, name)
    halo = par.halo_of(sizes, shifts)
    sums = _sum_types(volume.dtype, sizes)
    if sums is None or (cval != 0 and any("constant" in m for m in modes)):
        passes = [
            (a, np.full(sizes[a], 1 / sizes[a]), halo[a][0]) for a in sorted(chosen) if sizes[a] > 1
        ]
        return separable(volume, name, passes, modes, cval, dtype)
    wanted = np.dtype(np.float32) if dtype is None else checked_dtype(dtype)
    stage = stages.Uniform(
        name,
        np.dtype(np.float32) if wanted == np.float16 else wanted,
        triple([b for b, _ in halo]),
        triple(sizes),
        Padding(modes, 0.0),
        *sums,
        (np.float64 if wanted == np.float64 else np.float32)(1 / math.prod(sizes)),
    )
    result = stage_of(volume, stage)
    return result.astype(np.float16) if wanted == np.float16 else result


def _sum_types(dtype: np.dtype, sizes: Sequence[int]) -> tuple[np.dtype, np.dtype] | None:
    """Integer types that hold the sum over a box's z and y, and over all of it: None if 32 bits do not."""
    if dtype.kind not in "bui" or dtype.itemsize > 2:
        return None
    largest = 1 if dtype.kind == "b" else max(-np.iinfo(dtype).min, np.iinfo(dtype).max)
    kind = "i" if dtype.kind == "i" else "u"
    types = []
    for count in (sizes[0] * sizes[1], math.prod(sizes)):
        bits = int(largest * count).bit_length() + (kind == "i")
        if bits > 32:
            return None
        types.append(np.dtype(f"{kind}{2 if bits <= 16 else 4}"))
    return types[0], types[1]


@documented
def convolve(
    volume: Volume,
    weights: Any,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: Any = None,
) -> Volume:
    """Convolve with an array of weights.

    Parameters
    ----------
    %(volume)s
    weights : array_like of float
        The weights, one dimension for each axis. Those that are 0 are no part of the footprint.
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    correlate : the same with the weights mirrored.
    convolve1d : along one axis.

    Notes
    -----
    One sweep. The halo is the reach of the weights. The time grows with the number of weights that
    are not 0.

    References
    ----------
    `scipy.ndimage.convolve`.

    Examples
    --------
    >>> np.asarray(bv.convolve(bv.open(np.array([[1, 0, 0]], "u1")), [[1, 2, 4]], mode="constant"))
    array([[2., 4., 0.]], dtype=float32)
    """
    array, shifts = _mirrored(as_volume(volume), weights, origin, axes, "convolve")
    return correlation(as_volume(volume), "convolve", array, shifts, mode, cval, axes, dtype)


@documented
def correlate(
    volume: Volume,
    weights: Any,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: Any = None,
) -> Volume:
    """Correlate with an array of weights.

    Parameters
    ----------
    %(volume)s
    weights : array_like of float
        The weights, one dimension for each axis. Those that are 0 are no part of the footprint.
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    convolve : the same with the weights mirrored.
    correlate1d : along one axis.

    Notes
    -----
    One sweep. The halo is the reach of the weights. The time grows with the number of weights that
    are not 0.

    References
    ----------
    `scipy.ndimage.correlate`.

    Examples
    --------
    >>> np.asarray(bv.correlate(bv.open(np.array([[1, 0, 0]], "u1")), [[1, 2, 4]], mode="constant"))
    array([[2., 1., 0.]], dtype=float32)
    """
    volume = as_volume(volume)
    chosen = par.axes_of(volume, axes, "correlate")
    array = par.expand(np.asarray(weights, np.float64), chosen, "weights", "correlate")
    shifts = par.origins(origin, array.shape, chosen, "correlate")
    return correlation(volume, "correlate", array, shifts, mode, cval, axes, dtype)


def _mirrored(
    volume: Volume, weights: Any, origin: Any, axes: Any, name: str
) -> tuple[np.ndarray, list[int]]:
    """Weights and origins with which a correlation is the convolution."""
    chosen = par.axes_of(volume, axes, name)
    array = par.expand(np.asarray(weights, np.float64), chosen, "weights", name)
    shifts = par.per_axis(origin, chosen, 0, "origin")
    shifts = [-o - (n % 2 == 0) for o, n in zip(shifts, array.shape, strict=True)]
    return array[::-1, ::-1, ::-1], par.origins(shifts, array.shape, range(3), name)


def correlation(
    volume: Volume,
    name: str,
    weights: np.ndarray,
    shifts: Sequence[int],
    mode: Any,
    cval: float,
    axes: Any,
    dtype: Any,
) -> Volume:
    """A correlation with weights along z, y, x, tap by tap."""
    if not np.isfinite(weights).all():
        raise ValueError(f"{name}: the weights are not all finite")
    chosen = par.axes_of(volume, axes, name)
    modes = par.modes_of(mode, chosen, name)
    source = kernel_input(volume)
    wanted = None if dtype is None else checked_dtype(dtype)
    compute = accumulator(source.dtype)
    if wanted in (np.float32, np.float64):
        compute = wanted  # type: ignore[assignment]
    if any("constant" in m for m in modes) and not holds(source.dtype, cval):
        source = source.astype(compute)
    offsets = np.argwhere(weights != 0).astype(np.int64, order="C")
    halo = par.halo_of(weights.shape, shifts)
    stage = stages.CorrelateNd(
        name,
        compute if wanted is None or wanted == np.float16 else wanted,
        triple([b for b, _ in halo]),
        triple(weights.shape),
        Padding(modes, float(cval)),
        offsets.reshape(-1, 3),
        weights[weights != 0].astype(compute),
    )
    result = stage_of(source, stage)
    return result.astype(np.float16) if wanted == np.float16 else result
