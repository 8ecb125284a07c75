"""Edge filters, named as in scikit-image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.derivatives import magnitude
from beam_volumes.ops.filters.linear import convolve, float_dtype, in_dtype, separable
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_like

#: Weights along the axis of the derivative, then along the others, of a correlation.
_SCHARR = ([-1.0, 0.0, 1.0], [3 / 16, 10 / 16, 3 / 16])
_FARID = (
    [-0.109603762960254, -0.276690988455557, 0.0, 0.276690988455557, 0.109603762960254],
    [0.0376593171958126, 0.249153396177344, 0.426374573253687, 0.249153396177344, 0.0376593171958126],
)  # fmt: skip


@documented
def scharr(
    volume: Volume,
    axis: int | Sequence[int] | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Find edges by the Scharr derivative along an axis, or the magnitude of several.

    It depends less on the direction of an edge than `sobel`. The weights are ``[-1, 0, 1]`` along
    the axis, and ``[3, 10, 3] / 16`` along the others.

    Parameters
    ----------
    %(intensities)s
    axis : int or sequence of int, optional
        The axis of the derivative, counted from 0, or from -1 backwards. For several axes, or all
        by default, the result is the root of the sum of the squared derivatives, divided by the
        root of the volume's number of axes.
    %(mode)s
    %(cval)s
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    farid : uses five voxels along each axis.
    gaussian_gradient_magnitude : smooths by a chosen extent.

    Notes
    -----
    One sweep, with a halo of one voxel along each axis.

    References
    ----------
    `skimage.filters.scharr`; D. Kroon, "Numerical optimization of kernel based image derivatives"
    (2009).

    Examples
    --------
    >>> corner = bv.open(np.array([[0, 0, 8], [0, 0, 8], [0, 0, 8]], "u1"))
    >>> np.asarray(bv.scharr(corner))[1].round(2)
    array([0.  , 5.66, 5.66], dtype=float32)
    >>> np.asarray(bv.scharr(corner, axis=1))[1]
    array([0., 8., 8.], dtype=float32)
    """
    return _edges(volume, "scharr", _SCHARR, axis, mode, cval, dtype)


@documented_like(scharr)
def farid(
    volume: Volume,
    axis: int | Sequence[int] | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Find edges by Farid and Simoncelli's derivative along an axis, or the magnitude of several.

    Five weights along each axis make the result nearly independent of the direction of an edge.

    See Also
    --------
    scharr : uses three voxels along each axis.
    gaussian_gradient_magnitude : smooths by a chosen extent.

    Notes
    -----
    One sweep, with a halo of two voxels along each axis.

    References
    ----------
    `skimage.filters.farid`; H. Farid, E. P. Simoncelli, "Differentiation of discrete
    multidimensional signals", IEEE Transactions on Image Processing 13 (2004).

    Examples
    --------
    >>> step = bv.open(np.array([[0, 0, 0, 8, 8, 8]], "u1"))
    >>> np.asarray(bv.farid(step, axis=1)).round(2)
    array([[0.  , 0.88, 3.09, 3.09, 0.88, 0.  ]], dtype=float32)
    """
    return _edges(volume, "farid", _FARID, axis, mode, cval, dtype)


@documented_like(scharr)
def roberts(volume: Volume, *, dtype: DTypeLike | None = None) -> Volume:
    """Find edges by Roberts' cross: the magnitude of the two diagonal differences of four voxels.

    Slices along z are filtered one by one.

    Parameters
    ----------
    %(intensities)s
    %(dtype)s

    See Also
    --------
    scharr : filters along all axes.

    Notes
    -----
    One sweep, with a halo of one voxel along y and x. The volume is reflected at its edges, as in
    scikit-image.

    References
    ----------
    `skimage.filters.roberts`.

    Examples
    --------
    >>> step = bv.open(np.array([[0, 0, 8, 8], [0, 0, 8, 8]], "u1"))
    >>> np.asarray(bv.roberts(step))[1]
    array([0., 8., 0., 0.], dtype=float32)
    """
    volume = as_volume(volume)
    plane = [volume.ndim - 2, volume.ndim - 1]
    par.axes_of(volume, plane, "roberts")
    falling, rising = ([[1, 0], [0, -1]], [[0, 1], [-1, 0]])
    parts = [convolve(volume, w, axes=plane, dtype=float_dtype(dtype)) for w in (falling, rising)]
    return in_dtype(apply_ufunc("divide", magnitude(parts), math.sqrt(2)), dtype)


def _edges(
    volume: Volume,
    name: str,
    weights: tuple[list[float], list[float]],
    axis: Any,
    mode: Any,
    cval: float,
    dtype: Any,
) -> Volume:
    volume = as_volume(volume)
    visible = par.axes_of(volume, None, name)
    chosen = par.axes_of(volume, axis, name, "axis")
    if not chosen:
        raise ValueError(f"{name}: axis is empty")
    modes = par.modes_of(mode, visible, name)
    along, across = map(np.array, weights)
    reach = len(along) // 2

    def derivative(direction: int, wanted: Any) -> Volume:
        passes = [(a, along if a == direction else across, reach) for a in visible]
        return separable(volume, name, passes, modes, cval, wanted, pads_once=True)

    if len(chosen) == 1:
        return derivative(chosen[0], dtype)
    parts = [derivative(a, float_dtype(dtype)) for a in chosen]
    return in_dtype(apply_ufunc("divide", magnitude(parts), math.sqrt(len(visible))), dtype)
