"""Thresholds from counts: small pure functions that run on the driver.

They are named as in scikit-image, which counts in float32 and fails above 2**24 voxels. Here counts are
exact, and formulas are computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from beam_volumes.base.text import counted

#: Rounds of smoothing after which `minimum` fails, as by default in scikit-image.
_SMOOTHINGS = 10_000

_NEAR_TIE = 1e-4
_EXACT_IN_FLOAT32 = 1 << 24


def otsu(counts: np.ndarray, bin_centers: np.ndarray) -> np.generic:
    """Otsu's threshold: the bin centre that maximizes the variance between the two classes."""
    # N. Otsu, "A threshold selection method from gray-level histograms" (1979), with exact weights and
    # float64. ``skimage.filters.threshold_otsu`` counts in float32, which fails above 2**24 voxels, and below
    # decides between (nearly) equal variances by rounding. Such near ties are decided in the same way here,
    # so the thresholds are equal.
    counts, bin_centers = _trimmed(counts, bin_centers)
    if len(counts) == 1:
        return bin_centers[0]
    variance = _variance_between(counts.astype(np.int64), bin_centers.astype(np.float64))
    best = int(np.argmax(variance))
    near = np.flatnonzero(variance >= variance[best] * (1 - _NEAR_TIE))
    if len(near) > 1 and counts.sum() <= _EXACT_IN_FLOAT32:
        with np.errstate(all="ignore"):  # float16 centres overflow
            as_skimage = _variance_between(counts.astype(np.float32), bin_centers)
        best = near[np.argmax(as_skimage[near])]
    return bin_centers[best]


def _variance_between(counts: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Variance between the classes for a cut after each bin, in the arithmetic of its arguments."""
    real = np.float32 if counts.dtype == np.float32 else np.float64
    weight1 = np.cumsum(counts).astype(real)
    weight2 = np.cumsum(counts[::-1])[::-1].astype(real)
    mass = counts * centers
    mean1 = np.cumsum(mass) / weight1
    mean2 = (np.cumsum(mass[::-1]) / weight2[::-1])[::-1]
    return weight1[:-1] * weight2[1:] * (mean1[:-1] - mean2[1:]) ** 2


def multiotsu(counts: np.ndarray, centers: np.ndarray, classes: int) -> np.ndarray:
    """The ``classes - 1`` bin centres that maximize the variance between the classes."""
    # P.-S. Liao, T.-S. Chen, P.-C. Chung, "A fast algorithm for multilevel thresholding" (2001). Dynamic
    # programming finds the best choice. The best last cut increases with the last bin, so each row of the
    # table is filled by bisection, in ``bins log(bins)`` (X. Wu, "Optimal quantization by matrix searching",
    # 1991). scikit-image tries all choices, which is impossible for 16 bits.
    busy = np.flatnonzero(counts)
    if len(busy) < classes:
        raise ValueError(
            f"threshold_multiotsu: {counted(len(busy), 'different value')} or bins cannot make {classes} "
            "classes; use fewer classes, or more nbins"
        )
    weight = np.concatenate([[0], np.cumsum(counts[busy])]).astype(np.float64)
    values = centers[busy].astype(np.float64)
    mass = np.concatenate([[0.0], np.cumsum(counts[busy] * (values - values[0]))])

    def gain(first: Any, last: Any) -> Any:
        """A class's contribution to the variance between classes, from bin ``first`` up to ``last``."""
        return (mass[last] - mass[first]) ** 2 / (weight[last] - weight[first])

    n = len(busy)
    best = np.full(n + 1, -np.inf)
    best[1:] = gain(0, np.arange(1, n + 1))
    cuts = []
    for k in range(2, classes + 1):
        better, cut = np.full(n + 1, -np.inf), np.zeros(n + 1, np.int64)
        halves = [(k, n, k - 1, n - 1)]  # a range of bins, and of their possible last cuts
        while halves:
            low, high, first, last = halves.pop()
            if low > high:
                continue
            middle = (low + high) // 2
            options = np.arange(first, min(last, middle - 1) + 1)
            sums = best[options] + gain(options, middle)
            found = int(np.argmax(sums))
            better[middle], cut[middle] = sums[found], options[found]
            halves += [(low, middle - 1, first, int(cut[middle]))]
            halves += [(middle + 1, high, int(cut[middle]), last)]
        best = better
        cuts.append(cut)
    ends, end = [], n
    for cut in reversed(cuts):
        end = int(cut[end])
        ends.append(end - 1)
    return centers[busy[ends[::-1]]]


def li(counts: np.ndarray, centers: np.ndarray) -> np.float64:
    """The threshold that minimizes the cross entropy between the volume and its two means."""
    # C. H. Li, P. K. S. Tam, "An iterative algorithm for minimum cross entropy thresholding" (1998), until a
    # step is below half a bin.
    counts, centers = _trimmed(counts, centers)
    if len(counts) == 1:
        return np.float64(centers[0])
    low = centers.astype(np.float64)[0]
    above = centers.astype(np.float64) - low
    tolerance = 0.5 * float(above[1])
    weight, mass = np.cumsum(counts), np.cumsum(counts * above)
    current, following = -2 * tolerance, mass[-1] / weight[-1]
    while abs(following - current) > tolerance:
        current = following
        k = int(np.searchsorted(above, current, side="right")) - 1  # the last bin of the background
        if k >= len(above) - 1:
            break
        back = mass[k] / weight[k]
        fore = (mass[-1] - mass[k]) / (weight[-1] - weight[k])
        if back == 0:
            break
        following = (back - fore) / (np.log(back) - np.log(fore))
    return np.float64(following + low)


def yen(counts: np.ndarray, centers: np.ndarray) -> np.generic:
    """The threshold with the largest correlation.

    J. C. Yen, F. J. Chang, S. Chang, "A new criterion for automatic multilevel thresholding" (1995).
    """
    counts, centers = _trimmed(counts, centers)
    if len(counts) == 1:
        return centers[0]
    share = counts / counts.sum()
    below = np.cumsum(share)[:-1]
    squares_below = np.cumsum(share**2)[:-1]
    squares_above = np.cumsum(share[::-1] ** 2)[::-1][1:]
    criterion = (below * (1 - below)) ** 2 / (squares_below * squares_above)
    return centers[np.argmax(criterion)]


def moments(counts: np.ndarray, centers: np.ndarray) -> np.generic:
    """The threshold with as many voxels below as the lower of two values with the same moments."""
    # The first three moments are preserved: W.-H. Tsai, "Moment-preserving thresholding: a new approach"
    # (1985). Like ITK and Fiji, it selects the bin at which the voxels of the lower value are exceeded.
    # Moments are about the mean, because moments of large values would cancel.
    counts, centers = _trimmed(counts, centers)
    if len(counts) == 1:
        return centers[0]
    share = counts / counts.sum()
    at = centers.astype(np.float64) - float(centers[0])
    at = at / at[-1]
    at = at - np.sum(share * at)
    second, third = np.sum(share * at**2), np.sum(share * at**3)
    skew = third / second
    root = np.sqrt(skew * skew + 4 * second)
    lower = (skew + root) / 2 / root  # the fraction of the lower value
    return centers[min(int(np.argmax(np.cumsum(share) > lower)), len(centers) - 1)]


def triangle(counts: np.ndarray, centers: np.ndarray) -> np.generic:
    """The bin farthest below the line from the peak to the end of the longer tail; in exact integers."""
    # G. W. Zack, W. E. Rogers, S. A. Latt, "Automatic measurement of sister chromatid exchange frequency"
    # (1977).
    counts, centers = _trimmed(counts, centers)
    peak = int(np.argmax(counts))
    if len(counts) == 1:
        return centers[0]
    turned = peak < len(counts) - 1 - peak
    if turned:
        counts, peak = counts[::-1], len(counts) - 1 - peak
    height = int(counts[peak])
    below = counts[:peak].astype(object)  # may exceed 64 bits
    distance = height * np.arange(peak, dtype=object) - peak * below
    level = int(np.argmax(distance))
    return centers[len(counts) - 1 - level if turned else level]


def isodata(counts: np.ndarray, centers: np.ndarray) -> np.generic:
    """The lowest bin that is half way between the mean up to it and the mean above it.

    T. W. Ridler, S. Calvard, "Picture thresholding using an iterative selection method" (1978).
    """
    counts, centers = _trimmed(counts, centers)
    if len(counts) == 1:
        return centers[0]
    weight, mass = np.cumsum(counts), np.cumsum(counts * centers.astype(np.float64))
    lower = mass[:-1] / weight[:-1]
    higher = (mass[-1] - mass[:-1]) / (weight[-1] - weight[:-1])
    beyond = (lower + higher) / 2 - centers[:-1]
    found = np.flatnonzero((beyond >= 0) & (beyond < centers[1] - centers[0]))
    if not len(found):
        raise ValueError(
            "threshold_isodata: no bin is half way between the means below and above it"
        )
    return centers[found[0]]


def minimum(counts: np.ndarray, centers: np.ndarray) -> np.generic:
    """The lowest bin between two peaks, after smoothing until only two remain."""
    # J. M. S. Prewitt, M. L. Mendelsohn, "The analysis of cell images" (1966). Smoothing is in float32 as in
    # scikit-image, because rounding determines peaks.
    counts, centers = _trimmed(counts, centers)
    smooth = counts.astype(np.float32)
    for _ in range(_SMOOTHINGS):
        smooth = scipy.ndimage.uniform_filter1d(smooth, 3)
        peaks = _peaks(smooth)
        if len(peaks) < 3:
            break
    if len(peaks) != 2:
        raise ValueError(
            f"threshold_minimum: the smoothed histogram has {counted(len(peaks), 'peak')} instead of two; "
            "use a different threshold, e.g. threshold_otsu"
        )
    first, second = peaks
    return centers[first + np.argmin(smooth[first : second + 1])]


def _peaks(counts: np.ndarray) -> np.ndarray:
    """The bins where a rise ends and a fall begins; the last bin of a plateau."""
    steps = np.sign(np.diff(counts))
    moves = np.flatnonzero(steps)
    before = np.concatenate([[1], steps[moves[:-1]]]) if len(moves) else moves
    return moves[(steps[moves] < 0) & (before > 0)]


def _trimmed(counts: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Remove empty bins at the ends."""
    busy = np.flatnonzero(counts)
    span = slice(busy[0], busy[-1] + 1)
    return counts[span], centers[span]


#: The methods by their names in messages.
METHODS: dict[str, Callable[..., Any]] = {
    "threshold_otsu": otsu,
    "threshold_multiotsu": multiotsu,
    "threshold_li": li,
    "threshold_yen": yen,
    "threshold_moments": moments,
    "threshold_triangle": triangle,
    "threshold_isodata": isodata,
    "threshold_minimum": minimum,
}


def result_dtype(method: str, dtype: np.dtype) -> np.dtype:
    """The dtype of a threshold: int64 for small integers, else a float; float64 for Li's method."""
    dtype = np.dtype(dtype)
    if method == "threshold_li":
        return np.dtype(np.float64)
    if dtype.kind == "f":
        return dtype
    return np.dtype(np.int64 if counts_every_value(dtype) and dtype.kind != "b" else np.float64)


def counts_every_value(dtype: np.dtype) -> bool:
    """Whether a histogram has one bin per value of the dtype: bool and integers of up to 16 bits."""
    dtype = np.dtype(dtype)
    return dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize <= 2)


def of_values(method: str, counts: np.ndarray, dtype: np.dtype, extra: tuple[Any, ...] = ()) -> Any:
    """A threshold from exact counts of every value of ``dtype`` (see `value_counts`)."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b" and np.all(counts > 0):  # scikit-image treats bool like float
        spread = np.zeros(256, np.int64)
        spread[[0, -1]] = counts
        return of_bins(method, spread, np.uint8(0), np.uint8(1), dtype, extra)
    first = 0 if dtype.kind == "b" else int(np.iinfo(dtype).min)
    return _found(method, counts, np.arange(first, first + len(counts)), dtype, extra)


def of_bins(
    method: str,
    counts: np.ndarray,
    low: Any,
    high: Any,
    dtype: np.dtype,
    extra: tuple[Any, ...] = (),
) -> Any:
    """A threshold from equal bins between the extremes of a volume of ``dtype``."""
    if low == high:
        return _found(method, np.ones(1, np.int64), np.array([low]), dtype, extra)
    return _found(method, counts, bin_centers(low, high, len(counts), dtype), dtype, extra)


def _found(
    method: str, counts: np.ndarray, centers: np.ndarray, dtype: np.dtype, extra: tuple[Any, ...]
) -> Any:
    if not counts.any():
        raise ValueError(f"{method} of no voxels: the mask selects none, or all are left out")
    found = METHODS[method](counts, centers, *extra)
    wanted = result_dtype(method, dtype)
    return found.astype(wanted) if np.ndim(found) else wanted.type(found)


def bin_edges(low: Any, high: Any, bins: int, dtype: np.dtype) -> np.ndarray:
    """The edges of ``numpy.histogram(volume, bins, range=(low, high))`` for this dtype."""
    dtype = np.dtype(np.uint8 if np.dtype(dtype).kind == "b" else dtype)
    if dtype == np.uint8:
        low, high = (np.uint8(v) if isinstance(v, bool | np.bool_) else v for v in (low, high))
    real = np.result_type(low, high, dtype, np.float16)
    with np.errstate(over="ignore"):
        width = np.subtract(high, low, dtype=real)
    if not np.isfinite(width):
        remedy = "divide it" if real == np.float64 else 'cast it with astype("float64")'
        raise ValueError(f"a volume from {low} to {high} has a range beyond {real}; {remedy}")
    try:
        return np.histogram_bin_edges(np.empty(0, dtype), bins, range=(low, high))
    except ValueError as error:
        if "finite-sized bins" not in str(error):
            raise
        raise ValueError(
            f"{bins} bins from {low} to {high} are finer than floating-point numbers; use fewer bins, or "
            "a wider range"
        ) from error


def bin_centers(low: Any, high: Any, bins: int, dtype: np.dtype) -> np.ndarray:
    """The centres of these bins, also of numbers with sums that overflow."""
    edges = bin_edges(low, high, bins, dtype)
    with np.errstate(over="ignore"):
        centers = (edges[:-1] + edges[1:]) / 2.0
    return np.where(np.isfinite(centers), centers, edges[:-1] / 2.0 + edges[1:] / 2.0)
