"""Filters along one axis, named as in scipy.ndimage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike, DTypeLike

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.linear import gaussian_filter, separable, uniform_filter
from beam_volumes.ops.filters.rank import maximum_filter, minimum_filter
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_as, documented_like
from beam_volumes.ops.parameters.neighbourhood import Footprint


@documented
def gaussian_filter1d(
    volume: Volume,
    sigma: float | str,
    axis: int = -1,
    order: int = 0,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    radius: int | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Smooth with a Gaussian along one axis, or compute Gaussian derivatives.

    Parameters
    ----------
    %(volume)s
    sigma : float or str
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths
        need a volume with a voxel size.
    %(axis_1d)s
    order : int, default: 0
        The order of the derivative: 0 smooths, and 1 to 3 compute derivatives of the Gaussian.
    %(mode_1d)s
    %(cval)s
    %(truncate)s
    radius : int, optional
        Where the Gaussian is cut off, in voxels; by default determined by ``truncate``.
    %(dtype)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    gaussian_filter : filters along several axes, faster than one after the other.

    Notes
    -----
    One sweep. The halo is the radius along this axis, and 0 along all other axes.

    References
    ----------
    `scipy.ndimage.gaussian_filter1d`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 1, 0, 0]], "u1"))
    >>> np.asarray(bv.gaussian_filter1d(v, 0.5)).round(2)
    array([[0.  , 0.11, 0.79, 0.11, 0.  ]], dtype=float32)
    """
    options: dict[str, Any] = {"mode": mode, "cval": cval, "truncate": truncate, "radius": radius}
    par.axis_of(as_volume(volume), axis, "gaussian_filter1d")
    return gaussian_filter(volume, sigma, order, axes=axis, dtype=dtype, **options)


@documented_like(gaussian_filter1d)
def uniform_filter1d(
    volume: Volume,
    size: int,
    axis: int = -1,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Compute the mean along one axis around each voxel.

    Parameters
    ----------
    size : int
        Number of voxels.
    %(origin_1d)s

    See Also
    --------
    uniform_filter : filters over a box.

    Notes
    -----
    One sweep. The halo along the axis is ``size - 1`` voxels in total.

    References
    ----------
    `scipy.ndimage.uniform_filter1d`.

    Examples
    --------
    >>> np.asarray(bv.uniform_filter1d(bv.open(np.array([[0, 3, 0, 0]], "u1")), 3))
    array([[1., 1., 1., 0.]], dtype=float32)
    """
    par.axis_of(as_volume(volume), axis, "uniform_filter1d")
    return uniform_filter(volume, size, mode=mode, cval=cval, origin=origin, axes=axis, dtype=dtype)


def _extremum(
    name: str, function: Callable[..., Volume], found: str, example: str
) -> Callable[..., Volume]:
    @documented_as(
        name,
        f"""Compute the {found} along one axis around each voxel.

Parameters
----------
%(volume)s
size : int
    Number of voxels.
%(axis_1d)s
%(mode_1d)s
%(cval)s
%(origin_1d)s

Returns
-------
%(same_dtype)s

Raises
------
%(rank_errors)s

See Also
--------
{found}_filter : filters over a box or footprint.

Notes
-----
The result is identical to scipy's; the time is independent of ``size``.

One sweep. The halo along the axis is ``size - 1`` voxels in total.

References
----------
`scipy.ndimage.{name}`.

Examples
--------
>>> np.asarray(bv.{name}(bv.open(np.array([[5, 1, 4, 9, 8]])), 3))
{example}
""",
    )
    def filter1d(
        volume: Volume,
        size: int,
        axis: int = -1,
        *,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: int = 0,
    ) -> Volume:
        par.axis_of(as_volume(volume), axis, name)
        return function(volume, size, mode=mode, cval=cval, origin=origin, axes=axis)

    return filter1d


minimum_filter1d = _extremum(
    "minimum_filter1d", minimum_filter, "minimum", "array([[1, 1, 1, 4, 8]])"
)
maximum_filter1d = _extremum(
    "maximum_filter1d", maximum_filter, "maximum", "array([[5, 5, 9, 9, 9]])"
)


def _weighted(
    name: str, verb: str, mirrored: bool, other: str, example: str
) -> Callable[..., Volume]:
    @documented_as(
        name,
        f"""{verb} with a 1-D array of weights along one axis.

Parameters
----------
%(volume)s
weights : array_like of float
    The weights, a 1-D sequence.
%(axis_1d)s
%(mode_1d)s
%(cval)s
%(origin_1d)s
%(dtype)s

Returns
-------
%(float_result)s

Raises
------
%(linear_errors)s

See Also
--------
{other} : applies the mirrored weights.

Notes
-----
One sweep. The halo along the axis is ``len(weights) - 1`` voxels in total.

References
----------
`scipy.ndimage.{name}`.

Examples
--------
>>> np.asarray(bv.{name}(bv.open(np.array([[1, 0, 0]], "u1")), [1, 2, 4], mode="constant"))
{example}
""",
    )
    def filter1d(
        volume: Volume,
        weights: ArrayLike,
        axis: int = -1,
        *,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: int = 0,
        dtype: DTypeLike | None = None,
    ) -> Volume:
        around = _row(volume, name, weights, axis, mode, cval, origin)
        return _along(volume, around.mirrored() if mirrored else around, axis, dtype)

    return filter1d


correlate1d = _weighted(
    "correlate1d", "Correlate", False, "convolve1d", "array([[2., 1., 0.]], dtype=float32)"
)
convolve1d = _weighted(
    "convolve1d", "Convolve", True, "correlate1d", "array([[2., 4., 0.]], dtype=float32)"
)


def _row(
    volume: Volume, name: str, weights: Any, axis: int, mode: str, cval: float, origin: int
) -> Footprint:
    volume = as_volume(volume)
    par.axis_of(volume, axis, name)
    row = par.element(weights, "weights", name)
    if row.ndim != 1 or not len(row):
        raise ValueError(
            f"{name}: weights have shape {row.shape}; give a 1-D array with at least one number"
        )
    return Footprint.of_weights(volume, name, row, origin, axis, mode, cval)


def _along(volume: Volume, around: Footprint, axis: int, dtype: Any) -> Volume:
    volume = as_volume(volume)
    along = par.axis_of(volume, axis, around.name)
    assert around.numbers is not None
    passes = [(along, around.numbers.ravel(), around.before[along])]
    return separable(volume, around.name, passes, around.modes, around.cval, dtype)
