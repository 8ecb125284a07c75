"""Histograms and percentiles of volumes, lazy and exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import Formula, FormulaValue
from beam_volumes.graph.scalar import Scalar, lazy
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.measure import (
    folds,
    percentile_formulas,
    percentiles_along,
    threshold_formulas,
)
from beam_volumes.ops.measure.reductions import Axis, by_channel, fold, kept_axes, max, min
from beam_volumes.ops.parameters.checks import bins_of
from beam_volumes.ops.parameters.docs import documented, documented_like


@documented
def histogram(
    volume: Volume,
    bins: int = 256,
    range: tuple[float | Scalar, float | Scalar] | None = None,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> tuple[Scalar, Scalar]:
    """Count voxels in equal bins.

    Parameters
    ----------
    %(volume)s
    bins : int, default: 256
        Number of bins.
    range : pair of numbers or Scalar, optional
        The range of the bins, as numbers or lazy numbers; by default from the smallest to the
        largest voxel. Voxels outside are not counted.
    %(where)s
    %(nan)s
    %(across)s

    Returns
    -------
    counts : Scalar
        A lazy array of ``bins`` int64 numbers.
    edges : Scalar
        A lazy array of ``bins + 1`` floats.

    Raises
    ------
    %(reduction_errors)s

    See Also
    --------
    joint_histogram : counts pairs of voxels of two volumes.
    equalize_hist : flattens the histogram of a volume.

    Notes
    -----
    One sweep if ``range`` consists of numbers, otherwise two. Counts and edges are identical to
    numpy's.

    References
    ----------
    `numpy.histogram`.

    Examples
    --------
    >>> counts, edges = bv.histogram(bv.open(np.array([[0, 1, 1, 4]])), bins=2)
    >>> np.asarray(counts), np.asarray(edges)
    (array([3, 1]), array([0., 2., 4.]))
    """
    volume = as_volume(volume)
    bins = bins_of(bins, "bins", "histogram")
    if range is None:
        ends = [f(volume, mask=mask, nan=nan, across=across) for f in (min, max)]
    else:
        numbers = [e for e in range if not isinstance(e, Scalar)]
        if not np.isfinite(numbers).all():
            raise ValueError(f"histogram: range={range!r}; give two finite numbers")
        ends = [e if isinstance(e, Scalar) else Scalar(lazy(e)) for e in range]
    fixed = None
    if range is not None and not any(isinstance(e, Scalar) for e in range):
        fixed = (float(range[0]), float(range[1])) if volume.dtype.kind == "f" else tuple(range)
    reduction = folds.Histogram.of(volume.dtype, bins, fixed, nan)  # type: ignore[arg-type]
    counts = fold(reduction, volume, mask, *(ends if fixed is None else ()), across=across)
    like = threshold_formulas.bin_edges(0, 1, bins, volume.dtype)
    edges = FormulaValue.of(
        BinEdges("bin_edges", bins, volume.dtype),
        (ends[0].value, ends[1].value),
        like.dtype,
        like.shape,
    )
    return counts, Scalar(edges)


@dataclass(frozen=True, eq=False)
class BinEdges(Formula):
    """numpy's edges of equal bins between two numbers."""

    bins: int
    source: np.dtype

    def evaluate(self, *arguments: Any) -> Any:
        low, high = arguments
        return threshold_formulas.bin_edges(low, high, self.bins, self.source)


@documented
def percentile(
    volume: Volume,
    q: float | Sequence[float],
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute exact percentiles of all voxels, or of each line along some axes.

    Parameters
    ----------
    %(volume)s
    q : float or sequence of float
        Percentiles, from 0 to 100.
    axis : int, str or sequence of them, optional
        The axes to reduce: numbers as in numpy, or names. For example, ``("y", "x")`` returns the
        percentile of each slice. All by default. ``"c"`` alone reduces the channels of each voxel:
        the result is a volume, and several percentiles are its channels.
    %(where)s
    %(nan)s
    %(across)s

    Returns
    -------
    Scalar
        The lazy number, with numpy's linear interpolation. If ``q`` is a sequence or ``axis`` is
        given, a lazy array: percentiles first, then the remaining axes. Lines without included
        voxels are NaN.

    Raises
    ------
    %(reduction_errors)s

    See Also
    --------
    percentile_filter : computes percentiles around each voxel.

    Notes
    -----
    One sweep for dtypes of up to 16 bits, two for 32 bits and four for 64. Each sweep finds the
    next digits of the order statistics from a histogram of order-preserving keys.

    Along axes, one sweep collects lines of at most 4096 bytes for each percentile, if all voxels
    need at most 256 MiB. Otherwise, there is one sweep for each 8 bits of the dtype. In this case,
    the result has at most 65536 elements for one percentile, and 32768 for two.

    References
    ----------
    `numpy.percentile` with its default method.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3, 4], [5, 5, 5, 9]]))
    >>> float(bv.percentile(v[:1], 50)), np.asarray(bv.percentile(v, [50, 100], axis="x")).tolist()
    (2.5, [[2.5, 5.0], [4.0, 9.0]])
    """
    volume = as_volume(volume)

    def one(v: Volume, where: Volume | None, along: Axis, across: str | None) -> Scalar:
        return _percentile(v, q, along, where, nan, across)

    whole = folds.RadixCounts.of(volume.dtype, q, 0, nan)
    return by_channel(whole, volume, mask, axis, one, across, at=int(np.ndim(q)))


@documented_like(percentile)
def median(
    volume: Volume,
    axis: Axis = None,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute the exact median of all voxels, or of each line along some axes.

    Parameters
    ----------
    %(reduced_axis)s

    Returns
    -------
    Scalar
        The lazy number. With ``axis``, a lazy array with the remaining axes; lines without included
        voxels are NaN.

    See Also
    --------
    percentile : computes other percentiles, with the same sweeps.
    median_filter : computes medians around each voxel.

    Notes
    -----
    The median of an even number of voxels is the mean of the middle two, as in numpy. One sweep for
    dtypes of up to 16 bits, two for 32 bits and four for 64. Medians of labels need one sweep and
    integers of up to 16 bits, because the values of each label are counted.

    References
    ----------
    `numpy.median`, `scipy.ndimage.median`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 4], [3, 9, 9]]))
    >>> float(bv.median(v)), np.asarray(bv.median(v, axis="x")).tolist()
    (3.5, [2.0, 9.0])
    """
    return percentile(volume, 50, axis, mask=mask, nan=nan, across=across)


def _percentile(
    volume: Volume,
    q: float | Sequence[float],
    axis: Axis,
    mask: Volume | None,
    nan: str,
    across: str | None,
) -> Scalar:
    kept, axes = kept_axes("percentile", volume, axis)
    whole = folds.RadixCounts.of(volume.dtype, q, 0, nan)
    result: tuple[Scalar, ...] = ()
    if axes:
        where = (nan, volume.grid_shape, kept, axes)
        lines = percentiles_along.gathers(volume.dtype, whole.q, volume.grid_shape, kept)
        if lines and len(volume.nodes) == 1:
            gathered = percentiles_along.GatheredAlong.of(volume.dtype, whole.q, *where)
            return fold(gathered, volume, mask, across=across)
        for level in np.arange(percentiles_along.levels(volume.dtype)).tolist():
            along = percentiles_along.RadixCountsAlong.of(volume.dtype, whole.q, level, *where)
            result = (fold(along, volume, mask, *result, across=across),)
        return result[0]
    for level in np.arange(percentile_formulas.percentile_levels(volume.dtype)).tolist():
        counts = folds.RadixCounts.of(volume.dtype, q, level, nan)
        result = (fold(counts, volume, mask, *result, across=across),)
    return result[0]
