"""Linear filters, named as in scipy.ndimage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from beam_volumes.graph.core import rounded
from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.elementary.exp_log import gaussian_weights
from beam_volumes.ops.filters import kernel_choice, stages
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import (
    kernel_input,
    stage_in,
    stage_of,
    triple,
    with_exact_constant,
)
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.parameters.neighbourhood import Footprint
from beam_volumes.sweep.stage import Padding

_ONE = np.ones(1)
#: The highest derivative: weights of higher ones lose all digits.
MAX_ORDER = 20


def accumulator(dtype: np.dtype) -> np.dtype:
    """Return the dtype of linear filters: float32 up to 16 bits and for float32, else float64.

    >>> accumulator(np.dtype("u2"))
    dtype('float32')
    >>> accumulator(np.dtype("i4"))
    dtype('float64')
    """
    single = dtype == np.float32 or dtype.itemsize <= 2
    return np.dtype(np.float32 if single else np.float64)


def float_dtype(dtype: Any) -> Any:
    """Return the dtype of intermediate results for a result of ``dtype``: the same if it is a float."""
    return dtype if dtype is not None and np.issubdtype(np.dtype(dtype), np.floating) else None


def in_dtype(volume: Volume, dtype: Any) -> Volume:
    """Convert a result to a requested dtype; None keeps it."""
    return volume if dtype is None else rounded(volume, checked_dtype(dtype))


def separable(
    volume: Volume,
    name: str,
    passes: Sequence[tuple[int, np.ndarray, int]],
    modes: tuple[str, str, str],
    cval: float,
    dtype: Any,
    *,
    pads_once: bool = False,
) -> Volume:
    """Apply 1-D correlations along axes in order: (axis, float64 weights, voxels before).

    The order matters for constant edges: every pass pads anew, unless ``pads_once``.
    """
    compute, result, wanted = _dtypes(volume.dtype, dtype)
    padding = Padding(modes, float(cval))
    source = with_exact_constant(kernel_input(volume), padding, compute)
    # One stage for all passes, except with a constant edge: scipy pads the result of each pass.
    constant = any("constant" in m for m in modes) and cval != 0
    groups = [[p] for p in passes] if constant and not pads_once else [list(passes)]
    for k, group in enumerate(groups or [[]]):
        weights, before = [_ONE, _ONE, _ONE], [0, 0, 0]
        for axis, w, b in group:
            weights[axis], before[axis] = w, b
        stage = stages.Correlate(
            name,
            result if k == len(groups) - 1 or not groups else compute,
            triple(before),
            triple([len(w) for w in weights]),
            padding,
            tuple(_weights_in(compute, w, name) for w in weights),  # type: ignore[arg-type]
        )
        source = stage_of(source, stage)
    return source.astype(wanted)


def _dtypes(dtype: np.dtype, asked: Any) -> tuple[np.dtype, np.dtype, np.dtype]:
    """Return the dtypes of a filter's computation, of its stage, and of its result."""
    compute = accumulator(dtype)
    if asked is None:
        return compute, compute, compute
    wanted = checked_dtype(asked)
    if wanted in (np.float32, np.float64):
        compute = wanted
    return compute, compute if wanted == np.float16 else wanted, wanted


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
    dtype: DTypeLike | None = None,
) -> Volume:
    """Smooth with a Gaussian, or compute Gaussian derivatives.

    Use it to reduce noise. It is also known as Gaussian blur.

    Parameters
    ----------
    %(volume)s
    %(sigma)s
    order : int or sequence of int, default: 0
        The order of the derivative: 0 smooths, and 1 to 3 compute derivatives of the Gaussian. One
        value for all axes or one per axis.
    %(mode)s
    %(cval)s
    %(truncate)s
    radius : int or sequence of int, optional
        Where the Gaussian is cut off, in voxels; by default determined by ``truncate``.
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
    gaussian_filter1d : filters along one axis.

    Notes
    -----
    The result equals `scipy.ndimage.gaussian_filter` of the float64 volume within 16 units in the
    last place of the result's dtype, relative to the largest voxel. For integers, scipy returns the
    input's dtype and truncates after each axis.

    One sweep. The halo is the radius: a window contains ``2 * radius + 1`` slices of the input.

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
        r = par.whole_number(r, "radius", name, minimum=0)
        par.not_too_long(2 * r + 1, f"{name}: radius={radius!r}")
        if orders[axis] > MAX_ORDER:
            raise ValueError(f"{name}: order={order!r} is too high; the maximum is {MAX_ORDER}")
        passes.append((axis, gaussian_weights(sigmas[axis], r, orders[axis]), r))
    return separable(volume, name, passes, modes, cval, dtype)


@documented_like(gaussian_filter)
def uniform_filter(
    volume: Volume,
    size: int | Sequence[int] = 3,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the mean over a box around each voxel.

    Parameters
    ----------
    size : int or sequence of int, default: 3
        Extent of the box in voxels; one value for all axes or one per axis.
    %(origin)s

    See Also
    --------
    uniform_filter1d : filters along one axis.

    Notes
    -----
    Sums of integers of up to 16 bits are exact if they fit into 32 bits; the time is then
    independent of ``size``.

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
    box = Footprint.of_box(volume, name, size, origin, axes, mode, cval)
    wanted = np.dtype(np.float32) if dtype is None else checked_dtype(dtype)
    stage = kernel_choice.mean(box, volume.dtype, wanted)
    if stage is not None:
        return stage_in(wanted, volume, stage)
    extents = zip(box.shape, box.before, strict=True)
    passes = [(a, np.full(n, 1 / n), before) for a, (n, before) in enumerate(extents) if n > 1]
    return separable(volume, name, passes, box.modes, cval, dtype)


@documented_like(gaussian_filter)
def convolve(
    volume: Volume,
    weights: ArrayLike,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Convolve with an array of weights.

    Parameters
    ----------
    weights : array_like of float
        The weights, with one dimension per axis. Zeros are not part of the footprint.
    %(origin)s

    See Also
    --------
    correlate : applies the mirrored weights.
    convolve1d : filters along one axis.

    Notes
    -----
    One sweep. The halo is the reach of the weights. The time grows with the number of nonzero
    weights.

    References
    ----------
    `scipy.ndimage.convolve`.

    Examples
    --------
    >>> np.asarray(bv.convolve(bv.open(np.array([[1, 0, 0]], "u1")), [[1, 2, 4]], mode="constant"))
    array([[2., 4., 0.]], dtype=float32)
    """
    volume = as_volume(volume)
    around = Footprint.of_weights(volume, "convolve", weights, origin, axes, mode, cval)
    return correlation(volume, around.mirrored(), dtype)


@documented_like(convolve)
def correlate(
    volume: Volume,
    weights: ArrayLike,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Correlate with an array of weights.

    See Also
    --------
    convolve : applies the mirrored weights.
    correlate1d : filters along one axis.

    Notes
    -----
    One sweep. The halo is the reach of the weights. The time grows with the number of nonzero
    weights.

    References
    ----------
    `scipy.ndimage.correlate`.

    Examples
    --------
    >>> np.asarray(bv.correlate(bv.open(np.array([[1, 0, 0]], "u1")), [[1, 2, 4]], mode="constant"))
    array([[2., 1., 0.]], dtype=float32)
    """
    volume = as_volume(volume)
    around = Footprint.of_weights(volume, "correlate", weights, origin, axes, mode, cval)
    return correlation(volume, around, dtype)


def _weights_in(dtype: np.dtype, weights: Any, name: str) -> np.ndarray:
    """Convert weights to the dtype of computation."""
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(weights, dtype=dtype)
    if not np.isfinite(found).all():
        raise ValueError(
            f"{name}: weights has numbers out of range for {dtype}; give dtype='float64'"
        )
    return found


def correlation(volume: Volume, around: Footprint, dtype: Any) -> Volume:
    """Correlate with the weights of a footprint, one by one."""
    compute, result, wanted = _dtypes(volume.dtype, dtype)
    assert around.numbers is not None
    weights = _weights_in(compute, around.numbers[around.inside], around.name)
    fields = around.fields(result, around.padding)
    source = with_exact_constant(kernel_input(volume), around.padding, compute)
    return stage_in(wanted, source, stages.CorrelateNd(*fields, around.members, weights))
