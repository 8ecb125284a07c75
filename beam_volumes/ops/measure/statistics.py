"""Statistics of two volumes and of positions of voxels: lazy, exact, independent of slabs."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import ConstantValue, Formula, FormulaValue
from beam_volumes.graph.scalar import Scalar, lazy
from beam_volumes.graph.volume import Volume, as_mask, as_volume, one_channel
from beam_volumes.ops.measure import pair_folds as folds
from beam_volumes.ops.measure.folds_along import LIMIT
from beam_volumes.ops.measure.reductions import Axis, fold, max, min, sum
from beam_volumes.ops.parameters.docs import documented, documented_like


def pair(
    name: str, a: Volume, b: Volume, mask: Any, nan: str
) -> tuple[Volume, Volume, Any, np.dtype]:
    """Return two volumes of one grid, the mask where both are finite, and their promoted dtype."""
    a, b = as_volume(a), as_volume(b)
    if a.axes != b.axes or a.shape != b.shape:
        raise ValueError(
            f"{name}: volumes of shapes {a.shape} ({' '.join(a.axes)}) and {b.shape} "
            f"({' '.join(b.axes)}) do not match; crop them to one shape first"
        )
    if nan not in ("raise", "omit"):
        raise ValueError(f'{name}: nan={nan!r}; use "raise" or "omit"')
    for v in (a, b):
        if nan == "omit" and v.dtype.kind == "f":
            finite = np.isfinite(v)
            mask = finite if mask is None else as_mask(mask) & finite
    return a, b, mask, np.result_type(a.dtype, b.dtype)


@documented
def covariance(
    a: Volume,
    b: Volume,
    *,
    ddof: int = 1,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute the exact covariance matrix of two volumes.

    Parameters
    ----------
    %(pair)s
    ddof : int, default: 1
        Number to subtract from the number of voxels in the divisor.
    %(where)s
    %(pair_nan)s
    %(across)s

    Returns
    -------
    Scalar
        A lazy array of 2 x 2 float64 numbers, each rounded once, with the variances of ``a`` and
        ``b`` on the diagonal.

    Raises
    ------
    %(pair_errors)s

    See Also
    --------
    correlation : scales it to -1 to 1.

    Notes
    -----
    One sweep, which reads both volumes.

    %(exact)s

    References
    ----------
    `numpy.cov`.

    Examples
    --------
    >>> a, b = bv.open(np.array([[1, 2, 3]])), bv.open(np.array([[2.0, 0.0, 7.0]]))
    >>> np.asarray(bv.covariance(a, b))
    array([[ 1. ,  2.5],
           [ 2.5, 13. ]])
    """
    a, b, mask, dtype = pair("covariance", a, b, mask, nan)
    return fold(folds.Covariance.of(dtype, ddof), a, mask, others=(b,), across=across)


@documented
def correlation(
    a: Volume,
    b: Volume,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute the exact Pearson correlation of two volumes.

    Parameters
    ----------
    %(pair)s
    %(where)s
    %(pair_nan)s
    %(across)s

    Returns
    -------
    Scalar
        The lazy float64 number from -1 to 1, rounded once; NaN if a volume is constant.

    Raises
    ------
    %(pair_errors)s

    See Also
    --------
    covariance : computes it without scaling.

    Notes
    -----
    One sweep, which reads both volumes.

    %(exact)s

    References
    ----------
    `numpy.corrcoef`.

    Examples
    --------
    >>> a = bv.open(np.array([[1, 2, 3]]))
    >>> float(bv.correlation(a, 5.5 - a))
    -1.0
    """
    a, b, mask, dtype = pair("correlation", a, b, mask, nan)
    return fold(folds.Correlation.of(dtype), a, mask, others=(b,), across=across)


@documented
def joint_histogram(
    a: Volume,
    b: Volume,
    bins: int | Sequence[int] = 256,
    range: Sequence[tuple[Any, Any]] | None = None,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> tuple[Scalar, Scalar, Scalar]:
    """Count pairs of values of two volumes in bins.

    Parameters
    ----------
    %(pair)s
    bins : int or pair of int, default: 256
        Number of equal bins for the values of ``a`` and of ``b``.
    range : pair of pairs of numbers or Scalar, optional
        The ranges of the bins for ``a`` and ``b``, ``((low, high), (low, high))``, as numbers or
        lazy numbers. By default, from the smallest to the largest voxel.
    %(where)s
    %(pair_nan)s
    %(across)s

    Returns
    -------
    counts : Scalar
        A lazy int64 array with a row for each bin of ``a`` and a column for each bin of ``b``.
    a_edges : Scalar
        A lazy array of the bin edges of ``a``.
    b_edges : Scalar
        A lazy array of the bin edges of ``b``.

    Raises
    ------
    %(pair_errors)s

    See Also
    --------
    histogram : counts the values of one volume.

    Notes
    -----
    One sweep if ``range`` consists of numbers, otherwise two. Counts and edges are identical to
    numpy's.

    References
    ----------
    `numpy.histogram2d`.

    Examples
    --------
    >>> a, b = bv.open(np.array([[0, 1, 4]])), bv.open(np.array([[5, 6, 6]]))
    >>> counts, a_edges, b_edges = bv.joint_histogram(a, b, bins=2)
    >>> np.asarray(counts), np.asarray(a_edges)
    (array([[1, 1],
           [0, 1]]), array([0., 2., 4.]))
    """
    a, b, mask, dtype = pair("joint_histogram", a, b, mask, nan)
    both = list(bins) if isinstance(bins, Sequence) else [bins, bins]
    whole = [isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in both]
    if len(both) != 2 or not builtins.all(whole):
        raise ValueError(
            f"joint_histogram: bins={bins!r}; give a whole number of at least 1, or two"
        )
    rows, cols = (int(n) for n in both)
    if 8 * rows * cols > LIMIT:
        raise ValueError(
            f"joint_histogram: {rows} x {cols} counts are {8 * rows * cols >> 20} MiB; the maximum is "
            f"{LIMIT >> 20} MiB: use fewer bins"
        )
    if range is None:
        ends = [f(v, mask=mask, nan=nan, across=across) for v in (a, b) for f in (min, max)]
    elif [len(r) if isinstance(r, Sequence) else 0 for r in range] != [2, 2]:
        raise ValueError(f"joint_histogram: range={range!r} is not ((low, high), (low, high))")
    else:
        ends = [e if isinstance(e, Scalar) else Scalar(lazy(e)) for r in range for e in r]
    cast = dtype if range is None else None
    grid = folds.Bins(rows, cast), folds.Bins(cols, cast)
    counts = fold(folds.JointHistogram.of(dtype, grid), a, mask, *ends, others=(b,), across=across)
    return counts, _edges(grid[0], *ends[:2]), _edges(grid[1], *ends[2:])


def _edges(bins: folds.Bins, low: Scalar, high: Scalar) -> Scalar:
    values = low.value, high.value
    stand_ins: list[Any] = [
        v.number if isinstance(v, ConstantValue) else (bins.cast or v.dtype).type(k)
        for k, v in enumerate(values)
    ]
    if builtins.all(isinstance(v, ConstantValue) for v in values):
        bins.edges(*stand_ins)  # raises errors now, not in the sweep
    dtype = np.linspace(stand_ins[0], stand_ins[1], 2).dtype
    return Scalar(FormulaValue.of(PairEdges("bin_edges", bins), values, dtype, (bins.number + 1,)))


@dataclass(frozen=True, eq=False)
class PairEdges(Formula):
    """`numpy.histogram2d`'s edges of equal bins between two numbers."""

    bins: folds.Bins

    def evaluate(self, *arguments: Any) -> Any:
        low, high = arguments
        return self.bins.edges(low, high)


@documented
def center_of_mass(volume: Volume, *, mask: Volume | None = None, nan: str = "raise") -> Scalar:
    """Compute the centre of mass of the voxels' values.

    Parameters
    ----------
    %(volume)s
    %(where)s
    %(nan)s

    Returns
    -------
    Scalar
        A lazy float64 array with an index in voxels for each axis, rounded once; NaN if the values
        sum to 0.

    Raises
    ------
    %(reduction_errors)s

    See Also
    --------
    regionprops_table : computes it for each region.

    Notes
    -----
    One sweep.

    %(exact)s

    References
    ----------
    `scipy.ndimage.center_of_mass`.

    Examples
    --------
    >>> np.asarray(bv.center_of_mass(bv.open(np.array([[0, 1, 3], [0, 0, 0]]))))
    array([0.  , 1.75])
    """
    volume = one_channel(volume)
    reduction = folds.CenterOfMass.of(volume.dtype, volume.space.visible, nan)
    return fold(reduction, volume, mask)


@documented_like(center_of_mass)
def minimum_position(volume: Volume, *, mask: Volume | None = None, nan: str = "raise") -> Scalar:
    """Find the position of the smallest voxel, the first in raster order.

    Returns
    -------
    Scalar
        A lazy int64 array, an index for each axis.

    See Also
    --------
    min : computes the smallest voxel.

    Notes
    -----
    One sweep.

    %(exact)s

    References
    ----------
    `scipy.ndimage.minimum_position`.

    Examples
    --------
    >>> np.asarray(bv.minimum_position(bv.open(np.array([[3, 1], [1, 2]]))))
    array([0, 1])
    """
    volume = one_channel(volume)
    return fold(folds.Position.of(volume.dtype, volume.space.visible, False, nan), volume, mask)


@documented_like(minimum_position)
def maximum_position(volume: Volume, *, mask: Volume | None = None, nan: str = "raise") -> Scalar:
    """Find the position of the largest voxel, the first in raster order.

    See Also
    --------
    max : computes the largest voxel.

    Notes
    -----
    One sweep.

    %(exact)s

    References
    ----------
    `scipy.ndimage.maximum_position`.

    Examples
    --------
    >>> np.asarray(bv.maximum_position(bv.open(np.array([[3, 1], [1, 4]]))))
    array([1, 1])
    """
    volume = one_channel(volume)
    return fold(folds.Position.of(volume.dtype, volume.space.visible, True, nan), volume, mask)


@documented_like(center_of_mass)
def extrema(
    volume: Volume, *, mask: Volume | None = None, nan: str = "raise"
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Find the smallest and the largest voxel, and their first positions.

    Returns
    -------
    smallest : Scalar
        The smallest voxel, a lazy number in the volume's dtype.
    largest : Scalar
        The largest voxel.
    smallest_at : Scalar
        A lazy int64 array: the index along each axis of the smallest voxel, the first in raster
        order.
    largest_at : Scalar
        A lazy int64 array: the index along each axis of the largest voxel, the first in raster
        order.

    Notes
    -----
    One sweep for all four results.

    %(exact)s

    References
    ----------
    `scipy.ndimage.extrema`.

    Examples
    --------
    >>> low, high, low_at, high_at = bv.extrema(bv.open(np.array([[3, 1], [1, 4]])))
    >>> int(low), int(high), np.asarray(low_at), np.asarray(high_at)
    (1, 4, array([0, 1]), array([1, 1]))
    """
    functions = (min, max, minimum_position, maximum_position)
    low, high, low_at, high_at = (f(volume, mask=mask, nan=nan) for f in functions)
    return low, high, low_at, high_at


@documented
def count_nonzero(
    volume: Volume,
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    across: str | None = None,
) -> Scalar:
    """Count nonzero voxels.

    Parameters
    ----------
    %(volume)s
    %(reduced_axis)s
    %(where)s
    %(across)s

    Returns
    -------
    Scalar
        The lazy number. With ``axis``, a lazy array with the remaining axes.

    Raises
    ------
    %(count_errors)s

    See Also
    --------
    any : returns whether there is one.

    Notes
    -----
    One sweep. NaN and infinite voxels count as nonzero.

    %(along)s

    References
    ----------
    `numpy.count_nonzero`.

    Examples
    --------
    >>> v = bv.open(np.array([[3, 0], [1, 4]]))
    >>> int(bv.count_nonzero(v)), np.asarray(bv.count_nonzero(v, axis="x"))
    (3, array([1, 2]))
    """
    return sum(as_mask(volume), axis, mask=mask, across=across)


@documented_like(count_nonzero)
def any(
    volume: Volume,
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    across: str | None = None,
) -> Scalar:
    """Compute whether any voxel is nonzero.

    Returns
    -------
    Scalar
        The lazy bool. With ``axis``, a lazy array with the remaining axes.

    See Also
    --------
    all : returns whether all voxels are nonzero.

    Notes
    -----
    One sweep. NaN and infinite voxels count as nonzero.

    %(along)s

    References
    ----------
    `numpy.any`.

    Examples
    --------
    >>> np.asarray(bv.any(bv.open(np.array([[3, 0], [0, 0]])), axis="x"))
    array([ True, False])
    """
    return count_nonzero(volume, axis, mask=mask, across=across) > 0


@documented_like(any)
def all(
    volume: Volume,
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    across: str | None = None,
) -> Scalar:
    """Compute whether all voxels are nonzero.

    See Also
    --------
    any : returns whether any voxel is nonzero.

    Notes
    -----
    One sweep. NaN and infinite voxels count as nonzero.

    %(along)s

    References
    ----------
    `numpy.all`.

    Examples
    --------
    >>> np.asarray(bv.all(bv.open(np.array([[3, 1], [0, 2]])), axis="x"))
    array([ True, False])
    """
    return sum(as_volume(volume) == 0, axis, mask=mask, across=across) == 0
