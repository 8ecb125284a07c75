"""B-spline coefficients, named as in scipy.ndimage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.linear import accumulator, float_dtype, in_dtype, separable
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_like

#: The highest order of splines.
MAX_ORDER = 5
#: By order, the outermost weight of the spline at whole positions, and for each pole p of its inverse
#: ``p + 1 / p``.
_SPLINES = {
    2: (1 / 8, (-6.0,)),
    3: (1 / 6, (-4.0,)),
    4: (1 / 384, (-38 - math.sqrt(1216), 228 / (-38 - math.sqrt(1216)))),
    5: (1 / 120, (-13 - math.sqrt(105), 64 / (-13 - math.sqrt(105)))),
}
#: The largest sum of the weights that are left out, by the dtype of `accumulator`.
_LEFT_OUT = {"float32": 2.0**-29, "float64": 2.0**-53}


def spline_inverse(order: int, dtype: np.dtype) -> np.ndarray:
    """Return the symmetric weights that compute coefficients of a spline, up to the precision of a dtype.

    They are the impulse response of scipy's recursive filter: sums of powers of the poles.

    >>> weights = spline_inverse(3, np.dtype("f4"))
    >>> len(weights), weights[15:18].round(3).tolist()
    (33, [-0.464, 1.732, -0.464])
    """
    outer, sums = _SPLINES[order]
    poles = [2 / (s - math.sqrt(s * s - 4)) for s in sums]
    scales = [1 / (outer * math.sqrt(s * s - 4)) for s in sums]
    if len(poles) == 2:
        difference = sums[0] - sums[1]
        scales = [scales[0] / difference, -scales[1] / difference]
    terms, half = list(scales), []
    # The sum of the weights after those so far, on both sides.
    while (
        2 * sum(abs(t / (1 - abs(p))) for t, p in zip(terms, poles, strict=True))
        > (_LEFT_OUT[dtype.name])
    ):
        half.append(sum(terms))
        terms = [t * p for t, p in zip(terms, poles, strict=True)]
    return np.array([*half[:0:-1], *half])


def coefficients(
    volume: Volume, name: str, order: int, axes: Sequence[int], mode: str, dtype: Any
) -> Volume:
    """Return the coefficients along some axes, to the precision of the volume or of ``dtype``."""
    wanted = np.result_type(accumulator(volume.dtype), float_dtype(dtype) or np.float16)
    weights = spline_inverse(order, wanted)
    # Other boundaries have no exact coefficients: these are scipy's.
    at_edges = "reflect" if mode in ("reflect", "grid-mirror", "nearest") else "mirror"
    at_edges = mode if mode == "wrap" else at_edges
    passes = [(axis, weights, len(weights) // 2) for axis in axes]
    return separable(volume, name, passes, (at_edges,) * 3, 0.0, dtype)


@documented
def spline_filter(
    volume: Volume, order: int = 3, *, mode: str = "mirror", dtype: DTypeLike | None = None
) -> Volume:
    """Compute the coefficients of the B-spline through all voxels.

    Use it to inspect the coefficients, or to compute several transforms with ``prefilter=False``.
    `zoom`, `shift`, `rotate`, `affine_transform` and `map_coordinates` otherwise compute them.

    Parameters
    ----------
    %(volume)s
    order : int, default: 3
        The order of the spline, from 2 to 5; with 0 and 1, voxels are their own coefficients.
    mode : str, default: "mirror"
        How to extend the volume beyond its edges. ``"reflect"``, ``"grid-mirror"`` and
        ``"nearest"`` repeat the outer voxel (c b a | a b c d | d c b), and ``"grid-wrap"`` repeats
        the volume. All other modes mirror it at the centre of the outer voxel (d c b | a b c d | c
        b a).
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    spline_filter1d : filters along one axis.
    zoom, affine_transform : interpolate.

    Notes
    -----
    scipy filters recursively from one end of the volume to the other. Here, each coefficient is a
    sum over as many voxels as its precision needs, always in the same order. Cubic splines need 16
    voxels on each side for float32, and 29 for float64. The result equals scipy's in float64 within
    8 units in the last place of the result's dtype, relative to the largest coefficient. scipy
    returns float64 by default. A NaN affects the coefficients within this distance; in scipy, it
    affects whole rows.

    One sweep. The halo in voxels, for float32 and float64, is 12 and 21 for order 2, 16 and 29 for
    order 3, 21 and 38 for order 4, and 26 and 46 for order 5.

    References
    ----------
    `scipy.ndimage.spline_filter`. M. Unser, Splines: a perfect fit for signal and image processing,
    IEEE Signal Processing Magazine 16 (1999).

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 6, 0, 0]], "u1"))
    >>> np.asarray(bv.spline_filter(v)).round(1)
    array([[ 1.5, -3. , 10.5, -3. ,  1.5]], dtype=float32)
    """
    volume = as_volume(volume)
    return _filtered(volume, "spline_filter", order, par.axes_of(volume, None, ""), mode, dtype)


@documented_like(spline_filter)
def spline_filter1d(
    volume: Volume,
    order: int = 3,
    axis: int = -1,
    *,
    mode: str = "mirror",
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the coefficients of B-splines along one axis.

    Parameters
    ----------
    %(axis_1d)s

    See Also
    --------
    spline_filter : filters along all axes.

    Notes
    -----
    Weights and precision are documented in `spline_filter`. One sweep.

    References
    ----------
    `scipy.ndimage.spline_filter1d`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 6, 0, 0]], "u1"))
    >>> np.asarray(bv.spline_filter1d(v, 2)).round(1)
    array([[ 0.5, -1.5,  8.5, -1.5,  0.5]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "spline_filter1d"
    return _filtered(volume, name, order, [par.axis_of(volume, axis, name)], mode, dtype)


def _filtered(
    volume: Volume, name: str, order: int, axes: Sequence[int], mode: str, dtype: Any
) -> Volume:
    if not par.is_whole(order) or not 0 <= order <= MAX_ORDER:
        raise ValueError(f"{name}: order={order!r} is not a whole number from 0 to {MAX_ORDER}")
    if not isinstance(mode, str):
        raise TypeError(f"{name}: mode={mode!r} is not a string; give one mode for all axes")
    where = par.modes_of(mode, (0, 1, 2), name)[0] if mode != "wrap" else "mirror"  # as in scipy
    if order < 2:
        return in_dtype(volume.astype(accumulator(volume.dtype)), dtype)
    return coefficients(volume, name, order, axes, where, dtype)
