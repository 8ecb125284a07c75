"""Rank filters, named as in scipy.ndimage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops import parameters as par
from beam_volumes.ops.building import edges_of, kernel_input, stage_of, taps_of, triple
from beam_volumes.ops.docs import documented
from beam_volumes.ops.filters import stages
from beam_volumes.sweep.stage import Stage


@documented
def minimum_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Take the minimum over a box or footprint around each voxel.

    Parameters
    ----------
    %(volume)s
    %(size)s
    %(footprint)s
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s

    Returns
    -------
    %(same_dtype)s

    Raises
    ------
    %(rank_errors)s

    See Also
    --------
    minimum_filter1d : along one axis.
    grey_erosion : also with structuring elements that are not flat.

    Notes
    -----
    Equal to scipy's, voxel for voxel. The time of a box does not depend on its size.

    %(halo)s

    References
    ----------
    `scipy.ndimage.minimum_filter`.

    Examples
    --------
    >>> np.asarray(bv.minimum_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[1, 1, 1, 4, 8]])
    """
    return _extremum(volume, "minimum_filter", False, size, footprint, mode, cval, origin, axes)


@documented
def maximum_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Take the maximum over a box or footprint around each voxel.

    Parameters
    ----------
    %(volume)s
    %(size)s
    %(footprint)s
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s

    Returns
    -------
    %(same_dtype)s

    Raises
    ------
    %(rank_errors)s

    See Also
    --------
    maximum_filter1d : along one axis.
    grey_dilation : also with structuring elements that are not flat.

    Notes
    -----
    Equal to scipy's, voxel for voxel. The time of a box does not depend on its size.

    %(halo)s

    References
    ----------
    `scipy.ndimage.maximum_filter`.

    Examples
    --------
    >>> np.asarray(bv.maximum_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[5, 5, 9, 9, 9]])
    """
    return _extremum(volume, "maximum_filter", True, size, footprint, mode, cval, origin, axes)


@documented
def median_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Take the median over a box or footprint around each voxel.

    Parameters
    ----------
    %(volume)s
    %(size)s
    %(footprint)s
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s

    Returns
    -------
    %(same_dtype)s

    Raises
    ------
    %(rank_errors)s

    See Also
    --------
    percentile_filter : another percentile.

    Notes
    -----
    Equal to scipy's, voxel for voxel. A box of 3 x 3 x 3 goes through a pruned sorting network.
    Larger boxes take nearly the same time whatever their size; other footprints take time by their
    voxels.

    %(halo)s

    References
    ----------
    `scipy.ndimage.median_filter`.

    Examples
    --------
    >>> np.asarray(bv.median_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[5, 4, 4, 8, 8]])
    """
    middle = _count(volume, size, footprint, axes, "median_filter") // 2
    options: dict[str, Any] = {"mode": mode, "cval": cval, "origin": origin, "axes": axes}
    return _rank(volume, "median_filter", middle, size, footprint, **options)


@documented
def rank_filter(
    volume: Volume,
    rank: int,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Take the value of a rank over a box or footprint around each voxel.

    Parameters
    ----------
    %(volume)s
    rank : int
        0 is the least value, 1 the next one; -1 the greatest, -2 the one before it.
    %(size)s
    %(footprint)s
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s

    Returns
    -------
    %(same_dtype)s

    Raises
    ------
    %(rank_errors)s

    See Also
    --------
    percentile_filter : by percent.

    Notes
    -----
    Equal to scipy's, voxel for voxel.

    %(halo)s

    References
    ----------
    `scipy.ndimage.rank_filter`.

    Examples
    --------
    >>> np.asarray(bv.rank_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), -2, (1, 3)))
    array([[5, 4, 4, 8, 8]])
    """
    name = "rank_filter"
    count = _count(volume, size, footprint, axes, name)
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer):
        raise TypeError(f"{name}: rank={rank!r} is not a whole number")
    if not -count <= rank < count:
        raise ValueError(
            f"{name}: rank={rank}; a footprint of {count} voxels has {-count} to {count - 1}"
        )
    options: dict[str, Any] = {"mode": mode, "cval": cval, "origin": origin, "axes": axes}
    return _rank(volume, name, int(rank) % count, size, footprint, **options)


@documented
def percentile_filter(
    volume: Volume,
    percentile: float,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Take a percentile over a box or footprint around each voxel.

    Parameters
    ----------
    %(volume)s
    percentile : float
        From 0 to 100, or from -100 to 0: -20 is 80. The value is one of the footprint's:
        nothing is interpolated.
    %(size)s
    %(footprint)s
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s

    Returns
    -------
    %(same_dtype)s

    Raises
    ------
    %(rank_errors)s

    See Also
    --------
    percentile : of the whole volume, a lazy number.

    Notes
    -----
    Equal to scipy's, voxel for voxel.

    %(halo)s

    References
    ----------
    `scipy.ndimage.percentile_filter`.

    Examples
    --------
    >>> np.asarray(bv.percentile_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), 20, (1, 3)))
    array([[1, 1, 1, 4, 8]])
    """
    name = "percentile_filter"
    count = _count(volume, size, footprint, axes, name)
    if isinstance(percentile, bool) or not isinstance(percentile, int | float | np.number):
        raise TypeError(f"{name}: percentile={percentile!r} is not a number")
    share = percentile + 100.0 if percentile < 0 else float(percentile)
    if not 0 <= share <= 100:
        raise ValueError(f"{name}: percentile={percentile} is outside -100 to 100")
    rank = count - 1 if share == 100 else int(count * share / 100.0)
    options: dict[str, Any] = {"mode": mode, "cval": cval, "origin": origin, "axes": axes}
    return _rank(volume, name, rank, size, footprint, **options)


def _count(volume: Volume, size: Any, footprint: Any, axes: Any, name: str) -> int:
    """How many voxels a footprint has."""
    volume = as_volume(volume)
    chosen = par.axes_of(volume, axes, name)
    return int(par.footprint_of(volume, size, footprint, chosen, name).sum())


def _rank(
    volume: Volume,
    name: str,
    rank: int,
    size: Any,
    footprint: Any,
    mode: Any,
    cval: float,
    origin: Any,
    axes: Any,
) -> Volume:
    volume = as_volume(volume)
    chosen = par.axes_of(volume, axes, name)
    shape = par.footprint_of(volume, size, footprint, chosen, name)
    shifts = par.origins(origin, shape.shape, chosen, name)
    modes = par.modes_of(mode, chosen, name)
    taps = taps_of(shape, name)
    if rank in (0, len(taps) - 1) and len(taps) > 1:
        return extremum(volume, name, rank > 0, shape, shifts, modes, cval)
    source = kernel_input(volume)
    if not shape.all() and len(set(modes)) > 1:
        raise ValueError(f"{name}: one mode for all axes, please: the footprint is not a box")
    common = (
        name,
        source.dtype,
        triple([b for b, _ in par.halo_of(shape.shape, shifts)]),
        triple(shape.shape),
        edges_of(source, modes, cval, name),
    )
    stage: Stage
    if not shape.all():
        stage = stages.RankFootprint(*common, taps, rank)
    elif shape.shape == (3, 3, 3) and rank == 13:
        stage = stages.Median3(*common)
    elif _counts_in_bytes(source.dtype, shape.shape):
        stage = stages.RankBox(*common, rank)
    elif shape.size * source.dtype.itemsize > 400 and max(shape.shape) <= 256:
        stage = stages.RankWalk(*common, rank)
    else:
        stage = stages.RankFootprint(*common, taps, rank)
    return stage_of(source, stage).astype(volume.dtype)


def _counts_in_bytes(dtype: np.dtype, box: tuple[int, ...]) -> bool:
    """Whether `stages.RankBox` takes such a box, and is the quickest for it."""
    size = int(np.prod(box))
    fits = dtype.itemsize == 1 and box[0] < 256 and size < 1 << 16
    return fits and (dtype.kind == "b" or size > 200)


def _extremum(
    volume: Volume,
    name: str,
    largest: bool,
    size: Any,
    footprint: Any,
    mode: Any,
    cval: float,
    origin: Any,
    axes: Any,
) -> Volume:
    volume = as_volume(volume)
    chosen = par.axes_of(volume, axes, name)
    shape = par.footprint_of(volume, size, footprint, chosen, name)
    shifts = par.origins(origin, shape.shape, chosen, name)
    return extremum(volume, name, largest, shape, shifts, par.modes_of(mode, chosen, name), cval)


def extremum(
    volume: Volume,
    name: str,
    largest: bool,
    footprint: np.ndarray,
    shifts: Sequence[int],
    modes: tuple[str, str, str],
    cval: float,
) -> Volume:
    """The minimum or maximum over a footprint along z, y, x, in scipy's placement."""
    source = kernel_input(volume)
    box = footprint.all()
    if not box and len(set(modes)) > 1:
        raise ValueError(f"{name}: one mode for all axes, please: the footprint is not a box")
    common = (
        name,
        source.dtype,
        triple([b for b, _ in par.halo_of(footprint.shape, shifts)]),
        triple(footprint.shape),
        edges_of(source, modes, cval, name),
    )
    if box:
        stage: Stage = stages.ExtremumBox(*common, largest)
    else:
        stage = stages.extremum_over(common, taps_of(footprint, name), largest)
    return stage_of(source, stage).astype(volume.dtype)
