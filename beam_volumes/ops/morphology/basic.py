"""Binary and grey morphology, named as in scipy.ndimage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.graph.arithmetic import elementwise_volume
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters import kernel_choice
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import parameters_of, stage_in, stage_of
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.parameters.neighbourhood import Footprint

#: Each iteration is a separate stage.
MAX_ITERATIONS = 1000


@documented
def binary_erosion(
    volume: Volume,
    structure: ArrayLike | None = None,
    iterations: int = 1,
    mask: Volume | None = None,
    border_value: int | str = 0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Erode the foreground of a mask.

    Parameters
    ----------
    %(binary)s
    %(structure)s
    %(iterations)s
    %(only_where)s
    %(border_value)s
    %(origin)s
    %(axes)s

    Returns
    -------
    %(bool_result)s

    Raises
    ------
    %(errors)s

    See Also
    --------
    grey_erosion : supports any volume.
    distance_transform_edt : its threshold is an erosion by a large ball.

    Notes
    -----
    The result is identical to scipy's. For balls and ellipsoids from `ball`, the time is
    proportional to the radius, not to the number of voxels.

    One sweep. The halo is the reach of the structuring element for each iteration.

    References
    ----------
    `scipy.ndimage.binary_erosion`.

    Examples
    --------
    >>> np.asarray(bv.binary_erosion(bv.open(np.ones((1, 5), bool)), np.ones((1, 3)))).astype(int)
    array([[0, 1, 1, 1, 0]])
    """
    border = _border(border_value, "binary_erosion", 1)
    around = Footprint.of_structure(
        as_volume(volume), "binary_erosion", structure, origin, axes, border
    )
    return _binary(volume, around, False, iterations, mask)


@documented_like(binary_erosion)
def binary_dilation(
    volume: Volume,
    structure: ArrayLike | None = None,
    iterations: int = 1,
    mask: Volume | None = None,
    border_value: int | str = 0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Dilate the foreground of a mask.

    See Also
    --------
    grey_dilation : supports any volume.
    binary_propagation : dilates within a mask until nothing changes.

    Notes
    -----
    The result is identical to scipy's. For balls and ellipsoids from `ball`, the time is
    proportional to the radius, not to the number of voxels.

    One sweep. The halo is the reach of the structuring element for each iteration.

    References
    ----------
    `scipy.ndimage.binary_dilation`.

    Examples
    --------
    >>> seed = bv.open(np.array([[0, 0, 1, 0, 0]]))
    >>> np.asarray(bv.binary_dilation(seed, np.ones((1, 3)))).astype(int)
    array([[0, 1, 1, 1, 0]])
    """
    border = _border(border_value, "binary_dilation", 0)
    around = Footprint.of_structure(
        as_volume(volume), "binary_dilation", structure, origin, axes, border
    )
    return _binary(volume, around, True, iterations, mask)


@parameters_of(binary_erosion)
@documented_like(binary_erosion)
def binary_opening(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Open a mask: erode it, then dilate it.

    See Also
    --------
    binary_closing : dilates, then erodes.
    remove_small_objects : removes small objects, and keeps the shape of others.

    Notes
    -----
    The result is identical to scipy's. For balls and ellipsoids from `ball`, the time is
    proportional to the radius, not to the number of voxels.

    One sweep. The halo is twice the reach of the structuring element for each iteration: a window
    contains the slices for both steps.

    References
    ----------
    `scipy.ndimage.binary_opening`.

    Examples
    --------
    >>> row = bv.open(np.array([[1, 0, 1, 1, 1]]))
    >>> np.asarray(bv.binary_opening(row, np.ones((1, 3)))).astype(int)
    array([[0, 0, 1, 1, 1]])
    """
    return binary_dilation(binary_erosion(volume, *element, **options), *element, **options)


@parameters_of(binary_erosion)
@documented_like(binary_erosion)
def binary_closing(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Close a mask: dilate it, then erode it.

    See Also
    --------
    binary_opening : erodes, then dilates.
    binary_fill_holes : fills holes of any size.

    Notes
    -----
    The result is identical to scipy's. For balls and ellipsoids from `ball`, the time is
    proportional to the radius, not to the number of voxels.

    One sweep. The halo is twice the reach of the structuring element for each iteration: a window
    contains the slices for both steps.

    References
    ----------
    `scipy.ndimage.binary_closing`.

    Examples
    --------
    >>> row = bv.open(np.array([[0, 1, 0, 1, 0]]))
    >>> np.asarray(bv.binary_closing(row, np.ones((1, 3)))).astype(int)
    array([[0, 1, 1, 1, 0]])
    """
    return binary_erosion(binary_dilation(volume, *element, **options), *element, **options)


def _border(value: int | str, name: str, ignored: int) -> float:
    """Return the value beyond the edges; ``ignored`` changes no voxel inside."""
    found = ignored if value == "ignore" else value
    if found not in (0, 1):
        raise ValueError(f'{name}: border_value={value!r}; use 0, 1 or "ignore"')
    return float(found)


def _binary(
    volume: Volume, around: Footprint, dilation: bool, iterations: int, mask: Volume | None
) -> Volume:
    volume, name = as_volume(volume), around.name
    if par.is_whole(iterations) and iterations < 1:
        instead = (
            "bv.binary_propagation(volume, mask=...) dilates until nothing changes"
            if dilation
            else "~bv.binary_propagation(~volume, mask=...) erodes until nothing changes"
        )
        raise ValueError(f"{name}: iterations={iterations} is not available; {instead}")
    times = par.whole_number(iterations, "iterations", name)
    if times > MAX_ITERATIONS:
        raise ValueError(
            f"{name}: iterations={iterations} exceeds {MAX_ITERATIONS}; use a larger structure"
        )
    stage = kernel_choice.binary(around.mirrored() if dilation else around, dilation)
    result = volume if volume.dtype == bool else volume != 0
    for _ in range(times):
        changed = stage_of(result, stage)
        if mask is not None:
            changed = elementwise_volume(
                "where", "where", np.dtype(bool), [as_volume(mask), changed, result]
            )
        result = changed
    others = () if mask is None else (as_volume(mask),)
    return Volume(result.node, shared_space(name, volume, *others))


@documented
def grey_erosion(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the minimum over a structuring element.

    Parameters
    ----------
    %(volume)s
    %(grey_size)s
    %(footprint)s
    %(grey_structure)s
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s

    Returns
    -------
    %(same_dtype)s

    Raises
    ------
    %(grey_errors)s

    See Also
    --------
    minimum_filter : is equal for flat structuring elements.
    binary_erosion : erodes masks.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    %(halo)s

    References
    ----------
    `scipy.ndimage.grey_erosion`.

    Examples
    --------
    >>> np.asarray(bv.grey_erosion(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[1, 1, 1, 4, 8]])
    """
    around = Footprint.of(
        as_volume(volume), "grey_erosion", size, footprint, origin, axes, mode, cval, structure
    )
    return _grey(volume, around, False)


@documented_like(grey_erosion)
def grey_dilation(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the maximum over a structuring element.

    See Also
    --------
    maximum_filter : is equal for flat structuring elements.
    binary_dilation : dilates masks.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    %(halo)s

    References
    ----------
    `scipy.ndimage.grey_dilation`.

    Examples
    --------
    >>> np.asarray(bv.grey_dilation(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[5, 5, 9, 9, 9]])
    """
    around = Footprint.of(
        as_volume(volume), "grey_dilation", size, footprint, origin, axes, mode, cval, structure
    )
    return _grey(volume, around, True)


@parameters_of(grey_erosion)
@documented_like(grey_erosion)
def grey_opening(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Open a volume: erode it, then dilate it.

    See Also
    --------
    white_tophat : is the difference to the volume.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    %(two_halos)s

    References
    ----------
    `scipy.ndimage.grey_opening`.

    Examples
    --------
    >>> np.asarray(bv.grey_opening(bv.open(np.array([[1, 9, 1, 5, 5]])), (1, 2)))
    array([[1, 1, 1, 5, 5]])
    """
    return grey_dilation(grey_erosion(volume, *element, **options), *element, **options)


@parameters_of(grey_erosion)
@documented_like(grey_erosion)
def grey_closing(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Close a volume: dilate it, then erode it.

    See Also
    --------
    black_tophat : is the difference to the volume.

    Notes
    -----
    The result is identical to scipy's. For a box the time is independent of its size.

    %(two_halos)s

    References
    ----------
    `scipy.ndimage.grey_closing`.

    Examples
    --------
    >>> np.asarray(bv.grey_closing(bv.open(np.array([[9, 1, 9, 5, 5]])), (1, 2)))
    array([[9, 9, 9, 5, 5]])
    """
    return grey_erosion(grey_dilation(volume, *element, **options), *element, **options)


def _grey(volume: Volume, around: Footprint, dilation: bool) -> Volume:
    volume = as_volume(volume)
    around = around.mirrored() if dilation else around
    return stage_in(volume.dtype, volume, kernel_choice.grey(around, volume.dtype, dilation))
