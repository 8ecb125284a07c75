"""Intensity transforms, named as in scikit-image's exposure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.core import rounded
from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.nodes import FormulaValue, Node, Value
from beam_volumes.graph.scalar import Scalar, lazy
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.elementary import exp_log
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.intensity.stages import (
    ExactInFloat64,
    Matching,
    WideEnough,
    cumulative_share,
    ends,
    on_curve,
)
from beam_volumes.ops.measure import folds
from beam_volumes.ops.measure.distributions import histogram
from beam_volumes.ops.measure.reductions import fold, max, min
from beam_volumes.ops.measure.threshold_formulas import counts_every_value
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import kernel_input
from beam_volumes.ops.parameters.docs import documented, documented_like


@documented
def rescale_intensity(
    volume: Volume,
    in_range: Any = "image",
    out_range: Any = "dtype",
    *,
    mask: Volume | None = None,
    nan: str = "raise",
    dtype: DTypeLike | None = None,
) -> Volume:
    """Map intensities linearly from one range to another.

    Parameters
    ----------
    %(volume)s
    in_range : {"image", "dtype"}, dtype or pair, default: "image"
        The range to map to ``out_range``; other voxels are clipped to it. ``"image"`` is from the
        smallest to the largest voxel, and ``"dtype"`` the range of the dtype. A pair may contain
        lazy numbers: ``tuple(bv.percentile(v, [2, 98]))`` clips to percentiles.
    out_range : {"dtype", "image"}, dtype or pair, default: "dtype"
        The range of the result. ``"dtype"`` is the range of an integer dtype, without negative
        numbers if ``in_range`` has none. For floats, the range is 0 to 1 under the same condition,
        otherwise -1 to 1.
    %(where)s
        Voxels outside of the mask do not count for ``"image"``, but are also changed.
    %(nan)s
    dtype : dtype, optional
        Dtype of the result. By default the volume's dtype, or ``out_range`` if it is a dtype; for a
        pair, float32 (float64 for wide dtypes). Integers are rounded half to even and clipped to
        the dtype's range.

    Returns
    -------
    Volume
        A volume of ``dtype``.

    Raises
    ------
    ValueError
        If a range is invalid or not ascending. On computation with ``"image"``, if an included
        voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool.

    See Also
    --------
    normalize_slices : adjusts each slice.

    Notes
    -----
    One sweep, or two with ``"image"``. scikit-image truncates integers.

    References
    ----------
    `skimage.exposure.rescale_intensity`.

    Examples
    --------
    >>> np.asarray(bv.rescale_intensity(bv.open(np.array([[51, 102, 153]], "u1"))))
    array([[  0, 128, 255]], dtype=uint8)
    """
    volume = as_volume(volume)
    name = "rescale_intensity"
    if volume.dtype == bool:
        raise TypeError(f"{name}: a bool volume has no range to rescale; cast it with astype first")
    low, high = range_of(volume, in_range, "in_range", name, mask, nan, True)
    positive = not isinstance(low, Scalar) and low >= 0
    y0, y1 = range_of(volume, out_range, "out_range", name, mask, nan, positive)
    if isinstance(low, Scalar) and not isinstance(y0, Scalar) and not is_pair(out_range):
        # Negative numbers are dropped only if there are none, which is known with the extremes.
        y0 = apply_ufunc("multiply", apply_ufunc("less", low, 0), float(y0))
    wanted = dtype_for(volume, out_range, dtype)
    points = ends(name, *(value_of(v) for v in (low, high, y0, y1)))
    return on_curve(volume, name, points, wanted)


def dtype_for(volume: Volume, out_range: Any, dtype: Any) -> np.dtype:
    """Return the dtype for intensities in a range: the requested one, the volume's, or the range's."""
    if dtype is not None:
        return checked_dtype(dtype)
    if is_pair(out_range):
        return accumulator(volume.dtype)
    return volume.dtype if out_range in ("dtype", "image") else np.dtype(out_range)


def is_pair(given: Any) -> bool:
    """Return whether a range is given by its ends."""
    return isinstance(given, tuple | list | np.ndarray) or (
        isinstance(given, Scalar) and given.shape == (2,)
    )


def value_of(number: Any) -> Any:
    """Return the value of a lazy or other number."""
    return number.value if isinstance(number, Scalar) else lazy(number)


def range_of(
    volume: Volume,
    given: Any,
    what: str,
    name: str,
    mask: Volume | None,
    nan: str,
    positive: bool,
) -> tuple[Any, Any]:
    """Return the ends of a range; a dtype's range has no negative numbers if ``positive``."""
    if is_pair(given):
        if not isinstance(given, Scalar) and len(given) != 2:
            raise ValueError(f"{name}: {what}={given!r} has {len(given)} entries; give two")
        low, high = given[0], given[1]
        numbers = [v for v in (low, high) if not isinstance(v, Scalar)]
        if not all(isinstance(v, int | float | np.number) and math.isfinite(v) for v in numbers):
            raise ValueError(f"{name}: {what}={given!r} is not a pair of finite numbers")
        if len(numbers) == 2 and not low <= high:
            raise ValueError(
                f"{name}: {what}={given!r} does not ascend; give the lower number first"
            )
        return low, high
    if isinstance(given, str) and given == "image":
        return min(volume, mask=mask, nan=nan), max(volume, mask=mask, nan=nan)
    try:
        dtype = volume.dtype if isinstance(given, str) and given == "dtype" else np.dtype(given)
    except TypeError:
        raise ValueError(
            f'{name}: {what}={given!r}; use "image", "dtype", a dtype, or a pair of numbers'
        ) from None
    if dtype.kind == "f":
        return (0.0 if what == "out_range" and positive else -1.0), 1.0
    if dtype.kind not in "iu":
        raise ValueError(f"{name}: {what}={given!r} has no range; use an integer or float dtype")
    info = np.iinfo(dtype)
    return (0 if what == "out_range" and positive else int(info.min)), int(info.max)


@documented
def equalize_hist(
    volume: Volume, nbins: int = 256, *, mask: Volume | None = None, nan: str = "raise"
) -> Volume:
    """Equalize the histogram by mapping each intensity to the fraction of voxels up to it.

    Parameters
    ----------
    %(volume)s
    %(nbins)s
    %(where)s
        All voxels are changed, including voxels outside of the mask.
    %(nan)s

    Returns
    -------
    Volume
        A volume from 0 to 1: float32 for bool, integers of up to 16 bits, float16 and float32;
        float64 for other dtypes.

    Raises
    ------
    %(reduction_errors)s
    ValueError
        On computation, if integers exceed 2**53.

    Notes
    -----
    Two sweeps for bool and integers of up to 16 bits, with exact counts of values. Other dtypes
    need three, for the range, the histogram and the result.

    References
    ----------
    `skimage.exposure.equalize_hist`.

    Examples
    --------
    >>> np.asarray(bv.equalize_hist(bv.open(np.array([[3, 5, 5, 200]], "u1"))))
    array([[0.25, 0.75, 0.75, 1.  ]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "equalize_hist"
    nbins = par.bins_of(nbins, "nbins", name)
    return on_curve(
        volume, name, _shares(volume, name, nbins, mask, nan), accumulator(volume.dtype)
    )


def _shares(
    volume: Volume, name: str, nbins: int, mask: Volume | None = None, nan: str = "raise"
) -> FormulaValue:
    """Return each value, or the centre of each bin, and the fraction of voxels up to it."""
    volume = kernel_input(volume)
    counts, *extremes = _counted(volume, name, nbins, mask, nan)
    return cumulative_share(name, volume.dtype, counts.shape[0], counts, *extremes)


def _counted(
    volume: Volume, name: str, nbins: int, mask: Volume | None = None, nan: str = "raise"
) -> tuple[Value, ...]:
    """Return the counts of each value, or the counts of bins and the extremes."""
    if counts_every_value(volume.dtype):
        folds.Fold.check(name, volume.dtype, nan)
        return (fold(folds.IntegerCounts.of(volume.dtype, name), volume, mask).value,)
    low, high = min(volume, mask=mask, nan=nan), max(volume, mask=mask, nan=nan)
    checked = WideEnough(name, nbins) if volume.dtype.kind == "f" else ExactInFloat64(name)
    high = Scalar(FormulaValue.of(checked, (low.value, high.value), volume.dtype))
    counts, _ = histogram(volume, nbins, range=(low, high), mask=mask, nan=nan)
    return counts.value, low.value, high.value


@documented
def match_histograms(volume: Volume, reference: Volume, *, nbins: int = 1 << 16) -> Volume:
    """Change intensities so that their histogram matches the histogram of a reference.

    Use it to compare volumes that were recorded with different exposures. Each voxel gets the
    reference intensity that has the same fraction of voxels below it.

    Parameters
    ----------
    %(volume)s
    reference : Volume or numpy.ndarray
        A volume of any shape and dtype. If it has channels, they must be the same as the volume's,
        and each channel is matched separately.
    nbins : int, default: 65536
        Maximum number of distinct values of floats, and of integers of more than 16 bits. If there
        are more, they are counted in this number of equal bins. For other dtypes, every value is
        counted.

    Returns
    -------
    Volume
        A volume with intensities of the reference: float32 if both are bool, integers of up to 16
        bits, float16 or float32; otherwise float64.

    Raises
    ------
    %(reduction_errors)s
    ValueError
        On computation, if integers exceed 2**53.

    See Also
    --------
    equalize_hist : matches a uniform histogram.
    normalize_slices : adjusts slices to each other.

    Notes
    -----
    Two sweeps for integers of up to 16 bits, three for other dtypes. The result equals
    scikit-image's if both volumes have up to ``nbins`` distinct values; values are compared as
    float64. With more values, all voxels in a bin get the same intensity. The largest voxel of a
    bin differs from scikit-image's by a limited amount: at most half a bin plus the distance
    between the centres of two occupied bins of the reference.

    References
    ----------
    `skimage.exposure.match_histograms`.

    Examples
    --------
    >>> dark, bright = np.array([[1, 2, 2, 3]], "u1"), np.array([[50, 90, 90, 200]], "u1")
    >>> np.asarray(bv.match_histograms(dark, bright))
    array([[ 50.,  90.,  90., 200.]], dtype=float32)
    """
    name = "match_histograms"
    volume, reference = as_volume(volume), as_volume(reference)
    nbins = par.bins_of(nbins, "nbins", name)
    channels = len(volume.nodes) if volume.space.has_channels else 0
    there = len(reference.nodes) if reference.space.has_channels else 0
    if channels != there:
        raise ValueError(
            f"{name}: the volume has {channels} channels, but the reference {there}; select "
            "channels with sel(c=...)"
        )
    if not reference.size:
        raise ValueError(f"{name}: the reference of shape {reference.shape} has no voxels")
    result = np.promote_types(accumulator(volume.dtype), accumulator(reference.dtype))
    by_reference = dict(zip(volume.nodes, reference.nodes, strict=True))

    def matched(node: Node) -> Node:
        one = kernel_input(Volume((node,), volume.space.of_one("c")))
        like = kernel_input(Volume((by_reference[node],), reference.space.of_one("c")))
        values: list[Value] = []
        for v in (one, like):
            counted = _counted(v, name, nbins)
            if len(counted) > 1:
                values.append(fold(folds.DistinctCounts.of(v.dtype, nbins, name), v, None).value)
            values += counted
        formula = Matching(name, one.dtype, like.dtype)
        points = 1 << 16 if counts_every_value(one.dtype) else 2 * nbins
        curve = FormulaValue.of(formula, tuple(values), np.dtype(np.float64), (2, points))
        return on_curve(one, name, curve, result).node

    return volume.map_channels(matched) if volume.size else volume.astype(result)


@documented
def adjust_gamma(volume: Volume, gamma: float = 1.0, gain: float = 1.0) -> Volume:
    """Correct the gamma: ``gain * x ** gamma`` for intensities x from 0 to 1.

    Parameters
    ----------
    %(unit_intensities)s
    gamma : float, default: 1.0
        The exponent, at least 0: below 1 the result is brighter, above 1 darker.
    gain : float, default: 1.0
        The factor.

    Returns
    -------
    %(adjusted)s

    Raises
    ------
    %(curve_errors)s

    Notes
    -----
    %(pointwise)s

    %(by_table)s

    References
    ----------
    `skimage.exposure.adjust_gamma`.

    Examples
    --------
    >>> np.asarray(bv.adjust_gamma(bv.open(np.array([[0, 51, 255]], "u1")), 0.5))
    array([[  0, 114, 255]], dtype=uint8)
    """
    _number("adjust_gamma", "gamma", gamma)
    _number("adjust_gamma", "gain", gain)
    if gamma < 0:
        raise ValueError(f"adjust_gamma: gamma={gamma} is negative")

    def curve(f: Any, x: Any) -> Any:
        if gamma == 0:
            return f("add", f("multiply", x, 0.0), float(gain))
        power = f("exp", f("multiply", f("log", x), float(gamma)))
        return f("multiply", power, float(gain))

    return _adjusted(volume, "adjust_gamma", curve)


@documented_like(adjust_gamma)
def adjust_log(volume: Volume, gain: float = 1.0, inv: bool = False) -> Volume:
    """Apply a logarithmic correction: ``gain * log2(1 + x)`` for intensities x from 0 to 1.

    Parameters
    ----------
    inv : bool, default: False
        Whether to apply the inverse, ``gain * (2 ** x - 1)``.

    Notes
    -----
    %(pointwise)s

    %(by_table)s

    References
    ----------
    `skimage.exposure.adjust_log`.

    Examples
    --------
    >>> np.asarray(bv.adjust_log(bv.open(np.array([[0, 51, 255]], "u1"))))
    array([[  0,  67, 255]], dtype=uint8)
    """
    _number("adjust_log", "gain", gain)
    ln2 = math.log(2.0)

    def curve(f: Any, x: Any) -> Any:
        if inv:
            power = f("exp", f("multiply", x, ln2))
            return f("multiply", f("subtract", power, 1.0), float(gain))
        return f("multiply", f("log", f("add", x, 1.0)), gain / ln2)

    return _adjusted(volume, "adjust_log", curve)


@documented_like(adjust_gamma)
def adjust_sigmoid(
    volume: Volume, cutoff: float = 0.5, gain: float = 10.0, inv: bool = False
) -> Volume:
    """Apply a sigmoid correction: ``1 / (1 + exp(gain * (cutoff - x)))`` for x from 0 to 1.

    Parameters
    ----------
    cutoff : float, default: 0.5
        The intensity that becomes 0.5.
    gain : float, default: 10.0
        The steepness of the curve.
    inv : bool, default: False
        Whether to subtract the result from 1.

    Notes
    -----
    %(pointwise)s

    %(by_table)s

    References
    ----------
    `skimage.exposure.adjust_sigmoid`.

    Examples
    --------
    >>> np.asarray(bv.adjust_sigmoid(bv.open(np.array([[0, 102, 255]], "u1"))))
    array([[  2,  69, 253]], dtype=uint8)
    """
    _number("adjust_sigmoid", "cutoff", cutoff)
    _number("adjust_sigmoid", "gain", gain)

    def curve(f: Any, x: Any) -> Any:
        slope = f("multiply", f("subtract", float(cutoff), x), float(gain))
        value = f("divide", 1.0, f("add", f("exp", slope), 1.0))
        return f("subtract", 1.0, value) if inv else value

    return _adjusted(volume, "adjust_sigmoid", curve)


def _number(name: str, what: str, value: Any) -> None:
    if not par.is_number(value):
        raise TypeError(f"{name}: {what}={value!r} is not a number")
    if not math.isfinite(value):
        raise ValueError(f"{name}: {what}={value!r} is not finite")


def _adjusted(volume: Volume, name: str, curve: Any) -> Volume:
    """Apply a function to intensities from 0 to 1; to integers of up to 16 bits by a table."""
    volume = as_volume(volume)
    dtype = volume.dtype
    if dtype.kind == "b":
        raise TypeError(f"{name}: a bool volume has no intensities; cast it with astype first")
    if dtype.kind == "f":
        return rounded(curve(apply_ufunc, kernel_input(volume)), dtype)
    scale = float(np.iinfo(dtype).max)
    if not counts_every_value(dtype):
        x = apply_ufunc("divide", volume, scale)
        return rounded(apply_ufunc("multiply", curve(apply_ufunc, x), scale), dtype)
    values = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    with np.errstate(all="ignore"):
        ys = curve(_at_once, values / scale) * scale
    return on_curve(volume, name, np.stack([values.astype(np.float64), ys]), dtype)


def _at_once(name: str, *operands: Any) -> Any:
    """Apply a ufunc to arrays, with the same bits as for volumes."""
    if name not in ("exp", "log"):
        return getattr(np, name)(*operands)
    out = np.empty((1, len(operands[0])))
    getattr(exp_log, name)(operands[0][None], out)
    return out[0]
