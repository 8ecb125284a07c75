"""Differences between dilations, erosions and volumes, named as in scipy.ndimage; and hit-or-miss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from beam_volumes.base.geometry import connectivity_structure
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.morphology.basic import (
    binary_erosion,
    grey_closing,
    grey_dilation,
    grey_erosion,
    grey_opening,
)
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import parameters_of
from beam_volumes.ops.parameters.docs import documented, documented_like


@parameters_of(grey_erosion)
@documented_like(grey_erosion)
def white_tophat(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Extract bright structures smaller than the structuring element: the volume minus its opening.

    See Also
    --------
    black_tophat : extracts dark structures.
    grey_opening : is subtracted.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    %(two_halos)s

    References
    ----------
    `scipy.ndimage.white_tophat`.

    Examples
    --------
    >>> np.asarray(bv.white_tophat(bv.open(np.array([[1, 9, 1, 5, 5, 5]])), (1, 3)))
    array([[0, 8, 0, 0, 0, 0]])
    """
    volume = as_volume(volume)
    return _minus(volume, grey_opening(volume, *element, **options))


@parameters_of(grey_erosion)
@documented_like(white_tophat)
def black_tophat(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Extract dark structures smaller than the structuring element: the closing minus the volume.

    See Also
    --------
    white_tophat : extracts bright structures.
    grey_closing : is the minuend.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    %(two_halos)s

    References
    ----------
    `scipy.ndimage.black_tophat`.

    Examples
    --------
    >>> np.asarray(bv.black_tophat(bv.open(np.array([[9, 1, 9, 5, 5, 5]])), (1, 3)))
    array([[0, 8, 0, 0, 0, 0]])
    """
    volume = as_volume(volume)
    return _minus(grey_closing(volume, *element, **options), volume)


@parameters_of(grey_erosion)
@documented_like(white_tophat)
def morphological_gradient(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Subtract the erosion from the dilation.

    See Also
    --------
    gaussian_gradient_magnitude : computes a smooth gradient.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size. As in numpy,
    differences that do not fit an integer dtype wrap around; to avoid this, cast the volume to a
    wider dtype first.

    %(halo)s

    References
    ----------
    `scipy.ndimage.morphological_gradient`.

    Examples
    --------
    >>> np.asarray(bv.morphological_gradient(bv.open(np.array([[1, 1, 5, 5, 5]])), (1, 3)))
    array([[0, 4, 4, 0, 0]])
    """
    dilated = grey_dilation(volume, *element, **options)
    return _minus(dilated, grey_erosion(volume, *element, **options))


@parameters_of(grey_erosion)
@documented_like(white_tophat)
def morphological_laplace(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Add the dilation and the erosion, and subtract the volume twice.

    See Also
    --------
    laplace : sums second differences.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size. As in numpy,
    differences that do not fit an integer dtype wrap around; to avoid this, cast the volume to a
    wider dtype first.

    %(halo)s

    References
    ----------
    `scipy.ndimage.morphological_laplace`.

    Examples
    --------
    >>> np.asarray(bv.morphological_laplace(bv.open(np.array([[1, 1, 5, 5, 5]])), (1, 3)))
    array([[ 0,  4, -4,  0,  0]])
    """
    volume = as_volume(volume)
    dilated = grey_dilation(volume, *element, **options)
    eroded = grey_erosion(volume, *element, **options)
    if volume.dtype == bool:
        raise TypeError(
            "morphological_laplace of bool is not available; cast the volume with astype first"
        )
    both = apply_ufunc("add", dilated, eroded)
    return apply_ufunc("subtract", apply_ufunc("subtract", both, volume), volume)


def _minus(first: Volume, second: Volume) -> Volume:
    # The difference of masks is where they differ, as in scipy.
    name = "bitwise_xor" if first.dtype == bool else "subtract"
    return apply_ufunc(name, first, second)


@documented
def binary_hit_or_miss(
    volume: Volume,
    structure1: ArrayLike | None = None,
    structure2: ArrayLike | None = None,
    origin1: int | Sequence[int] = 0,
    origin2: int | Sequence[int] | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Find positions where one pattern matches the foreground and a second one matches the background.

    Parameters
    ----------
    %(binary)s
    structure1 : array_like of bool, optional
        The pattern of the foreground, with one dimension per axis; by default the cross of radius
        1.
    structure2 : array_like of bool, optional
        The pattern of the background; by default the complement of ``structure1``.
    origin1 : int or sequence of int, default: 0
        Shift of ``structure1`` in voxels.
    origin2 : int or sequence of int, optional
        Shift of ``structure2``; ``origin1`` by default.
    %(axes)s

    Returns
    -------
    %(bool_result)s

    Raises
    ------
    %(errors)s

    Notes
    -----
    The result is identical to scipy's.

    One sweep. The halo is the reach of the patterns.

    References
    ----------
    `scipy.ndimage.binary_hit_or_miss`.

    Examples
    --------
    >>> row = bv.open(np.array([[1, 0, 1, 1, 0]]))
    >>> np.asarray(bv.binary_hit_or_miss(row, [[0, 1, 1]])).astype(int)
    array([[0, 0, 1, 0, 0]])
    """
    volume = as_volume(volume)
    name = "binary_hit_or_miss"
    if structure1 is None:
        structure1 = connectivity_structure(1, len(par.axes_of(volume, axes, name)))
    hit = par.element(structure1, "structure1", name) != 0
    miss = ~hit if structure2 is None else par.element(structure2, "structure2", name) != 0
    origin2 = origin1 if origin2 is None else origin2
    there = volume if volume.dtype == bool else volume != 0
    fits = binary_erosion(there, hit, origin=origin1, axes=axes)
    if not miss.any():
        return fits
    # Outside of the volume is background, which matches this pattern.
    clear = binary_erosion(~there, miss, border_value=1, origin=origin2, axes=axes)
    return apply_ufunc("logical_and", fits, clear)
