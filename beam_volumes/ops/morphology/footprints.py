"""Footprints for morphology and rank filters: balls, cubes, crosses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.keywords import named_checked
from beam_volumes.ops.parameters import checks as par


@named_checked
def ball(radius: float | Sequence[float], ndim: int = 3) -> np.ndarray:
    """Make a footprint in the shape of a ball or ellipsoid.

    Parameters
    ----------
    radius : float or sequence of float
        Radius in voxels; one number for a ball, or one for each axis of an ellipsoid.
    ndim : int, default: 3
        Number of axes for a single ``radius``: 2 makes a disk.

    Returns
    -------
    numpy.ndarray
        A bool array with ``2 * int(radius) + 1`` voxels along each axis.

    Raises
    ------
    ValueError
        If a radius is negative or not a number, there are not 1 to 3 axes, or the footprint would
        have more than 2**24 voxels.

    See Also
    --------
    cube : makes a cube.
    cross : makes arms along the axes.

    References
    ----------
    `skimage.morphology.ball`, `skimage.morphology.disk`.

    Examples
    --------
    >>> bv.ball(1, ndim=2).astype(int)
    array([[0, 1, 0],
           [1, 1, 1],
           [0, 1, 0]])
    """
    radii = _radii(radius, ndim, "ball")
    grids = np.ogrid[tuple(slice(-int(r), int(r) + 1) for r in radii)]
    first, *others = ((g / r) ** 2 if r else g * 0.0 for g, r in zip(grids, radii, strict=True))
    # plane by plane: all of it as floats would need eight times the memory
    planes = [sum(others, first[i : i + 1]) <= 1 + 1e-12 for i in range(len(first))]
    return np.concatenate(planes)


@named_checked
def cube(size: int, ndim: int = 3) -> np.ndarray:
    """Make a footprint in the shape of a cube.

    Parameters
    ----------
    size : int
        Extent in voxels along each axis.
    ndim : int, default: 3
        Number of axes: 2 makes a square.

    Returns
    -------
    numpy.ndarray
        A bool array, all True, with ``size`` voxels along each axis.

    Raises
    ------
    ValueError
        If ``size`` is not an integer of at least 1, or there are not 1 to 3 axes. If the footprint
        would have more than 2**24 voxels.

    See Also
    --------
    ball : makes a ball or ellipsoid.

    References
    ----------
    `skimage.morphology.footprint_rectangle`.

    Examples
    --------
    >>> bv.cube(3).shape
    (3, 3, 3)
    """
    edge = par.whole_number(size, "size", "cube")
    _check_ndim(ndim, "cube")
    par.not_too_large([edge] * ndim, f"cube: size={size!r}")
    return np.ones((edge,) * ndim, bool)


@named_checked
def cross(radius: int | Sequence[int], ndim: int = 3) -> np.ndarray:
    """Make a footprint in the shape of a cross, with arms along each axis.

    Parameters
    ----------
    radius : int or sequence of int
        Length of the arms in voxels; one value for all axes or one per axis.
    ndim : int, default: 3
        Number of axes for a single ``radius``.

    Returns
    -------
    numpy.ndarray
        A bool array with ``2 * radius + 1`` voxels along each axis.

    Raises
    ------
    ValueError
        If a radius is negative or not a number, there are not 1 to 3 axes, or the footprint would
        have more than 2**24 voxels.

    See Also
    --------
    ball : makes a ball or ellipsoid.

    References
    ----------
    `scipy.ndimage.generate_binary_structure` with connectivity 1, for arms of any length.

    Examples
    --------
    >>> int(bv.cross(1).sum())
    7
    """
    radii = [int(r) for r in _radii(radius, ndim, "cross")]
    result = np.zeros([2 * r + 1 for r in radii], bool)
    for axis in range(len(radii)):
        line: list[Any] = list(radii)
        line[axis] = slice(None)
        result[tuple(line)] = True
    return result


def _check_ndim(ndim: Any, name: str) -> None:
    if not par.is_whole(ndim) or not 1 <= ndim <= 3:
        raise ValueError(f"{name}: ndim={ndim!r}; volumes have 1 to 3 dimensions")


def _radii(radius: float | Sequence[float], ndim: int, name: str) -> list[float]:
    _check_ndim(ndim, name)
    radii = list(radius) if isinstance(radius, Sequence | np.ndarray) else [radius] * ndim
    for r in radii:
        if not par.is_number(r) or not 0 <= r < 1e6:
            raise ValueError(f"{name}: radius={radius!r} is not a number of voxels")
    _check_ndim(len(radii), name)
    par.not_too_large([2 * int(r) + 1 for r in radii], f"{name}: radius={radius!r}")
    return [float(r) for r in radii]
