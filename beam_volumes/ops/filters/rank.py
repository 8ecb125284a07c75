"""Rank filters, named as in scipy.ndimage."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters import kernel_choice
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.parameters.neighbourhood import Footprint


@documented
def minimum_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the minimum over a box or footprint around each voxel.

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
    minimum_filter1d : filters along one axis.
    grey_erosion : supports structuring elements that are not flat.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    %(halo)s

    References
    ----------
    `scipy.ndimage.minimum_filter`.

    Examples
    --------
    >>> np.asarray(bv.minimum_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[1, 1, 1, 4, 8]])
    """
    volume = as_volume(volume)
    around = Footprint.of(volume, "minimum_filter", size, footprint, origin, axes, mode, cval)
    stage = kernel_choice.extremum(around, volume.dtype, largest=False)
    return stage_in(volume.dtype, volume, stage)


@documented_like(minimum_filter)
def maximum_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the maximum over a box or footprint around each voxel.

    See Also
    --------
    maximum_filter1d : filters along one axis.
    grey_dilation : supports structuring elements that are not flat.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    %(halo)s

    References
    ----------
    `scipy.ndimage.maximum_filter`.

    Examples
    --------
    >>> np.asarray(bv.maximum_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[5, 5, 9, 9, 9]])
    """
    volume = as_volume(volume)
    around = Footprint.of(volume, "maximum_filter", size, footprint, origin, axes, mode, cval)
    stage = kernel_choice.extremum(around, volume.dtype, largest=True)
    return stage_in(volume.dtype, volume, stage)


@documented_like(minimum_filter)
def median_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the median over a box or footprint around each voxel.

    See Also
    --------
    percentile_filter : computes another percentile.

    Notes
    -----
    The result is identical to scipy's. A box of 3 x 3 x 3 uses a pruned sorting network. For larger
    boxes, the time is almost independent of the size; for other footprints, it is proportional to
    the number of voxels.

    %(halo)s

    References
    ----------
    `scipy.ndimage.median_filter`.

    Examples
    --------
    >>> np.asarray(bv.median_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[5, 4, 4, 8, 8]])
    """
    volume = as_volume(volume)
    around = Footprint.of(volume, "median_filter", size, footprint, origin, axes, mode, cval)
    stage = kernel_choice.rank(around, volume.dtype, around.count // 2)
    return stage_in(volume.dtype, volume, stage)


@documented_like(minimum_filter)
def rank_filter(
    volume: Volume,
    rank: int,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Select the value of a rank over a box or footprint around each voxel.

    Parameters
    ----------
    rank : int
        The rank: 0 is the smallest value, 1 the second smallest, -1 the largest, and -2 the second
        largest.

    See Also
    --------
    percentile_filter : specifies the rank in percent.

    Notes
    -----
    The result is identical to scipy's.

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
    volume = as_volume(volume)
    around = Footprint.of(volume, name, size, footprint, origin, axes, mode, cval)
    count = around.count
    if not par.is_whole(rank):
        raise TypeError(f"{name}: rank={rank!r} is not a whole number")
    if not -count <= rank < count:
        raise ValueError(
            f"{name}: rank={rank} is out of range; with {count} voxels in the footprint, use "
            f"{-count} to {count - 1}"
        )
    stage = kernel_choice.rank(around, volume.dtype, int(rank) % count)
    return stage_in(volume.dtype, volume, stage)


@documented_like(minimum_filter)
def percentile_filter(
    volume: Volume,
    percentile: float,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute a percentile over a box or footprint around each voxel.

    Parameters
    ----------
    percentile : float
        The percentile, from 0 to 100, or from -100 to 0: -20 is 80. The result is a value from the
        footprint, without interpolation.

    See Also
    --------
    percentile : computes a lazy number for the whole volume.

    Notes
    -----
    The result is identical to scipy's.

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
    volume = as_volume(volume)
    around = Footprint.of(volume, name, size, footprint, origin, axes, mode, cval)
    count = around.count
    if not par.is_number(percentile):
        raise TypeError(f"{name}: percentile={percentile!r} is not a number")
    share = percentile + 100.0 if percentile < 0 else float(percentile)
    if not 0 <= share <= 100:
        raise ValueError(f"{name}: percentile={percentile} is outside -100 to 100")
    rank = count - 1 if share == 100 else int(count * share / 100.0)
    stage = kernel_choice.rank(around, volume.dtype, rank)
    return stage_in(volume.dtype, volume, stage)
