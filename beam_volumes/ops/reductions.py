"""Whole-volume numbers: lazy scalars, exact and independent of how the volume is cut up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import FoldValue, Formula, FormulaValue
from beam_volumes.graph.volume import Scalar, Volume, as_volume, lazy
from beam_volumes.ops import folds
from beam_volumes.ops import threshold_formulas as formulas
from beam_volumes.sweep.reduction import Reduction


def _fold(reduction: Reduction, volume: Volume, mask: Volume | None, *parameters: Scalar) -> Scalar:
    node = None
    if mask is not None:
        mask = as_volume(mask)
        if mask.axes != volume.axes:
            raise ValueError(f"{reduction.name}: the mask's axes {mask.axes} are not the volume's")
        node = mask.node if mask.dtype == bool else (mask != 0).node
    return Scalar(FoldValue.of(reduction, volume.node, node, tuple(p.value for p in parameters)))


def min(volume: Volume, *, mask: Volume | None = None, nan: str = "raise") -> Scalar:
    """The smallest voxel; one sweep.

    Parameters
    ----------
    volume : Volume
    mask : Volume, optional
        Only voxels where it is not zero count.
    nan : {"raise", "omit"}
        What to do with NaN and infinite voxels: stop with an error, or leave them out.

    Returns
    -------
    Scalar
        Of the volume's dtype.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> int(bv.min(bv.open(np.array([[3, 1, 2]]))))
    1
    """
    volume = as_volume(volume)
    return _fold(folds.Min.of(volume.dtype, nan), volume, mask)


def max(volume: Volume, *, mask: Volume | None = None, nan: str = "raise") -> Scalar:
    """The largest voxel; one sweep. Parameters as of `min`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> int(bv.max(bv.open(np.array([[3, 1, 2]]))))
    3
    """
    volume = as_volume(volume)
    return _fold(folds.Max.of(volume.dtype, nan), volume, mask)


def sum(volume: Volume, *, mask: Volume | None = None, nan: str = "raise") -> Scalar:
    """The exact sum of all voxels, rounded once; one sweep. Parameters as of `min`.

    Returns
    -------
    Scalar
        Of numpy's dtype for a sum. An integer total beyond 64 bits raises OverflowError.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> float(bv.sum(bv.open(np.array([[1e16, 1.0, -1e16]]))))
    1.0
    """
    volume = as_volume(volume)
    return _fold(folds.Sum.of(volume.dtype, nan), volume, mask)


def mean(volume: Volume, *, mask: Volume | None = None, nan: str = "raise") -> Scalar:
    """The exact mean, rounded once; one sweep. Parameters as of `min`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> float(bv.mean(bv.open(np.array([[3, 1, 2]]))))
    2.0
    """
    volume = as_volume(volume)
    return _fold(folds.Mean.of(volume.dtype, nan), volume, mask)


def std(volume: Volume, *, ddof: int = 0, mask: Volume | None = None, nan: str = "raise") -> Scalar:
    """The exact standard deviation, rounded once; one sweep.

    Parameters
    ----------
    ddof : int
        Subtracted from the number of voxels, as in `numpy.std`.
    volume, mask, nan
        As of `min`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> float(bv.std(bv.open(np.array([[1, 3]]))))
    1.0
    """
    volume = as_volume(volume)
    return _fold(folds.Std.of(volume.dtype, nan, ddof), volume, mask)


def histogram(
    volume: Volume,
    bins: int = 256,
    range: tuple[Any, Any] | None = None,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
) -> tuple[Scalar, Scalar]:
    """Counts and bin edges, exactly those of `numpy.histogram`; two sweeps, one if ``range`` is given.

    Parameters
    ----------
    bins : int
        Number of equal bins.
    range : (low, high), optional
        Numbers or lazy scalars; the extremes by default.
    volume, mask, nan
        As of `min`.

    Returns
    -------
    counts, edges : Scalar
        Lazy arrays of ``bins`` int64 and ``bins + 1`` floats.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> counts, edges = bv.histogram(bv.open(np.array([[0, 1, 1, 4]])), bins=2)
    >>> np.asarray(counts), np.asarray(edges)
    (array([3, 1]), array([0., 2., 4.]))
    """
    volume = as_volume(volume)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise ValueError(f"histogram: bins={bins!r} is not a whole number from 1 on")
    if range is None:
        ends = [min(volume, mask=mask, nan=nan), max(volume, mask=mask, nan=nan)]
    else:
        ends = [e if isinstance(e, Scalar) else Scalar(lazy(e)) for e in range]
    fixed = None
    if range is not None and not any(isinstance(e, Scalar) for e in range):
        fixed = (float(range[0]), float(range[1])) if volume.dtype.kind == "f" else tuple(range)
    reduction = folds.Histogram.of(volume.dtype, int(bins), fixed, nan)  # type: ignore[arg-type]
    counts = _fold(reduction, volume, mask, *(ends if fixed is None else ()))
    like = formulas.bin_edges(0, 1, int(bins), volume.dtype)
    edges = FormulaValue.of(
        BinEdges("bin_edges", int(bins), volume.dtype),
        (ends[0].value, ends[1].value),
        like.dtype,
        like.shape,
    )
    return counts, Scalar(edges)


@dataclass(frozen=True, eq=False)
class BinEdges(Formula):
    """The edges that numpy gives equal bins between two numbers."""

    bins: int
    source: np.dtype

    def evaluate(self, *arguments: Any) -> Any:
        low, high = arguments
        return formulas.bin_edges(low, high, self.bins, self.source)


def percentile(
    volume: Volume,
    q: float | Sequence[float],
    *,
    mask: Volume | None = None,
    nan: str = "raise",
) -> Scalar:
    """The exact percentile, equal to `numpy.percentile` with linear interpolation.

    One sweep for up to 16 bits, two for 32 and four for 64: each finds the next digits of the order
    statistics from a histogram of order-preserving keys.

    Parameters
    ----------
    q : float or sequence of float
        In percent.
    volume, mask, nan
        As of `min`.

    Returns
    -------
    Scalar
        Or a lazy array, of a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> float(bv.percentile(bv.open(np.array([[1, 2, 3, 4]])), 50))
    2.5
    """
    volume = as_volume(volume)
    result: tuple[Scalar, ...] = ()
    for level in np.arange(formulas.percentile_levels(volume.dtype)).tolist():
        result = (_fold(folds.RadixCounts.of(volume.dtype, q, level, nan), volume, mask, *result),)
    return result[0]


def threshold_otsu(
    volume: Volume, *, nbins: int = 256, mask: Volume | None = None, nan: str = "raise"
) -> Scalar:
    """Otsu's threshold, equal to `skimage.filters.threshold_otsu`.

    One sweep for bool and integers up to 16 bits (exact counts of every value); two for others, which
    are counted in ``nbins`` bins between the extremes.

    Parameters
    ----------
    nbins : int
        Number of bins, for other than small integers.
    volume, mask, nan
        As of `min`.

    Returns
    -------
    Scalar
        Voxels above it are foreground.

    References
    ----------
    N. Otsu, "A threshold selection method from gray-level histograms", IEEE Trans. SMC 9 (1979).

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> int(bv.threshold_otsu(bv.open(np.array([[1, 2, 9, 9]], "u1"))))
    2
    """
    volume = as_volume(volume)
    if isinstance(nbins, bool) or not isinstance(nbins, int | np.integer) or nbins < 1:
        raise ValueError(f"threshold_otsu: nbins={nbins!r} is not a whole number from 1 on")
    if formulas.counts_every_value(volume.dtype):
        return _fold(folds.OtsuOfValues.of(volume.dtype), volume, mask)
    ends = (min(volume, mask=mask, nan=nan), max(volume, mask=mask, nan=nan))
    return _fold(folds.OtsuOfBins.of(volume.dtype, nbins, nan), volume, mask, *ends)
