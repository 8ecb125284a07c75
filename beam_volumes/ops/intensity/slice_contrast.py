"""Equal contrast for all slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.nodes import Formula, FormulaValue, Value
from beam_volumes.graph.scalar import Scalar, lazy
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.kernels.intensity import curve as kernels
from beam_volumes.kernels.scratch import Scratch
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.geometry.channels import each_channel
from beam_volumes.ops.intensity.exposure import dtype_for, is_pair, range_of, value_of
from beam_volumes.ops.measure import reductions
from beam_volumes.ops.measure.distributions import percentile
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import Block, KernelStage


@dataclass(frozen=True, eq=False)
class ShiftAndScale(KernelStage):
    """``(x - center) * scale + base`` of clipped voxels; a lazy array has these five for each slice."""

    axis: int

    cost = 1.5
    kernel = staticmethod(kernels.shift_and_scale)

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return kernels.shift_and_scale.scratch(rows, cols, depth, self.dtype)

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return 5 * 8 << 16  # the numbers of slices

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        numbers = np.ascontiguousarray(values[0])
        steps = (int(self.axis == i) for i in range(3))
        where = inputs[0], out, y0, y1, out.cols
        return *where, *numbers, out.start[self.axis], *steps


@dataclass(frozen=True, eq=False)
class SliceMoments(Formula):
    """Numbers for `ShiftAndScale` from given and desired means and standard deviations."""

    def evaluate(self, *arguments: Any) -> Any:
        means, stds, mean, std = (np.asarray(a, np.float64) for a in arguments)
        if not (np.isfinite(mean) and np.isfinite(std)):
            raise ValueError(
                f"{self.name}: the volume has no mean and standard deviation: the mask selects no voxels, "
                "or all are left out"
            )
        if std < 0:
            raise ValueError(f"{self.name}: std={float(std):g} is negative")
        scale = np.divide(std, stds, out=np.ones_like(stds), where=stds > 0)
        center, empty = means.copy(), np.isnan(means)
        center[empty], scale[empty] = mean, 1.0
        never = np.full_like(center, np.inf)
        return np.stack([-never, never, center, scale, np.full_like(center, mean)])


@dataclass(frozen=True, eq=False)
class Ranges(Formula):
    """Numbers for `ShiftAndScale` from percentiles of slices and the desired range."""

    signed: bool  #: The lower end is nonzero only if a slice has negative numbers in its range.

    def evaluate(self, *arguments: Any) -> Any:
        (low, high), first, last = (np.asarray(a, np.float64) for a in arguments)
        empty = np.isnan(low)
        if self.signed and not (low[~empty] < 0).any():
            first = np.float64(0)
        wide = high > low
        scale = np.divide(last - first, high - low, out=np.zeros_like(low), where=wide)
        base = np.where(wide, first, np.clip(low, first, last))
        center = np.where(wide, low, 0.0)
        low, high = np.where(empty, -np.inf, low), np.where(empty, np.inf, high)
        base[empty], scale[empty] = 0.0, 1.0
        return np.stack([low, high, center, scale, base])


@documented
def normalize_slices(
    volume: Volume,
    axis: int | str = "z",
    *,
    mean: Any = None,
    std: Any = None,
    percentiles: Sequence[float] | None = None,
    out_range: Any = "dtype",
    mask: Volume | None = None,
    nan: str = "raise",
    dtype: DTypeLike | None = None,
) -> Volume:
    """Normalize all slices to the same mean and standard deviation, or to the same range of percentiles.

    Use it for stacks with brightness and contrast that vary from slice to slice.

    Parameters
    ----------
    %(volume)s
    axis : int or str, default: "z"
        The axis across slices, a number or name.
    mean : float or Scalar, optional
        The desired mean, a number or a lazy number such as ``bv.mean(volume[0])``; the mean of the
        volume by default.
    std : float or Scalar, optional
        The desired standard deviation; the standard deviation of the volume by default.
    percentiles : pair of float, optional
        Percentiles to normalize, such as ``(1, 99)``, instead of the mean and standard deviation.
        Each slice is clipped to its percentiles, which are mapped to the ends of ``out_range``.
    out_range : {"dtype", "image"}, dtype or pair, default: "dtype"
        The range of the result with ``percentiles``. ``"dtype"`` is the range of an integer dtype,
        without negative numbers if no slice has a percentile below 0. For floats, the range is 0 to
        1 under the same condition, otherwise -1 to 1. ``"image"`` is from the smallest to the
        largest voxel of the volume.
    %(where)s
        All voxels are changed, including voxels outside of the mask.
    %(nan)s
    dtype : dtype, optional
        Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.

    Returns
    -------
    Volume
        Without ``percentiles``, ``(x - m) * (std / s) + mean`` for a slice with mean m and standard
        deviation s. The dtype is float32 (float64 for wide dtypes); computation is in float64. A
        constant slice (s = 0) is only shifted. With ``percentiles``, a volume of the same dtype as
        from `rescale_intensity`; a slice with equal percentiles is only clipped. A slice without
        included voxels does not change, except for rounding.

    Raises
    ------
    ValueError
        If the axis does not exist, the volume has only one axis, or a parameter is out of range. On
        computation, if an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is
        included.
    TypeError
        If ``volume`` is neither a volume nor an array, ``percentiles`` are combined with ``mean`` or
        ``std``, or ``out_range`` is given without them.

    See Also
    --------
    rescale_intensity : does the same for the whole volume.

    Notes
    -----
    Two sweeps: the first computes exact statistics of all slices, and the second writes the result.
    For percentiles of large slices, there is one sweep for each 8 bits of the dtype instead of the
    first sweep.

    References
    ----------
    The formula is the z-score of each slice; percentiles as in
    `skimage.exposure.rescale_intensity`.

    Examples
    --------
    >>> v = bv.open(np.array([[[1, 3]], [[10, 30]]], "u1"))
    >>> np.asarray(bv.normalize_slices(v, mean=100, std=20))
    array([[[ 80., 120.]],
    <BLANKLINE>
           [[ 80., 120.]]], dtype=float32)
    >>> np.asarray(bv.normalize_slices(v, percentiles=(0, 100)))
    array([[[  0, 255]],
    <BLANKLINE>
           [[  0, 255]]], dtype=uint8)
    """
    volume = as_volume(volume)
    name = "normalize_slices"
    along = across(volume, axis, name)
    if percentiles is None:
        if not (isinstance(out_range, str) and out_range == "dtype"):
            raise TypeError(f"{name}: out_range={out_range!r} needs percentiles; give percentiles=")
        result = accumulator(volume.dtype) if dtype is None else checked_dtype(dtype)
    else:
        if mean is not None or std is not None:
            raise TypeError(f"{name}: give percentiles, or mean and std, not both")
        result = dtype_for(volume, out_range, dtype)
    stage = ShiftAndScale(name, kernel_dtype(result), along)

    def normalized(v: Volume) -> Volume:
        axes = others_of(v, along)
        if percentiles is None:
            numbers = _of_moments(v, axes, mean, std, mask, nan)
        else:
            numbers = _of_percentiles(v, axes, percentiles, out_range, mask, nan)
        return stage_in(result, v, stage, numbers)

    return each_channel(normalized, volume)


def across(volume: Volume, axis: int | str, name: str) -> int:
    """Return the axis of z, y, x across slices."""
    if isinstance(axis, str):
        if axis not in volume.axes:
            raise ValueError(
                f"{name}: axis={axis!r}; the volume's axes are {', '.join(volume.axes)}"
            )
        axis = volume.axes.index(axis)
    along = par.axis_of(volume, axis, name)
    if len(volume.space.axes) < 2:
        raise ValueError(f"{name}: a volume of shape {volume.shape} has no slices; keep two axes")
    return along


def others_of(volume: Volume, along: int) -> list[int]:
    """Return the axes of a slice, by number in the volume."""
    first = volume.ndim - len(volume.space.visible)
    return [first + i for i, a in enumerate(volume.space.visible) if a != along]


def _of_moments(
    volume: Volume, others: list[int], mean: Any, std: Any, mask: Volume | None, nan: str
) -> FormulaValue:
    """Return the numbers of all slices from their moments."""
    name = "normalize_slices"
    # Moments are floats, which narrow dtypes would round.
    wide = volume.astype(np.float64) if volume.dtype.kind == "f" else volume
    means = reductions.mean(wide, others, mask=mask, nan=nan)
    stds = reductions.std(wide, others, mask=mask, nan=nan)
    wanted = (
        _number(name, "mean", mean, reductions.mean(wide, mask=mask, nan=nan)),
        _number(name, "std", std, reductions.std(wide, mask=mask, nan=nan)),
    )
    float64 = np.dtype(np.float64)
    return FormulaValue.of(
        SliceMoments(name), (means.value, stds.value, *wanted), float64, (5, *means.shape)
    )


def _of_percentiles(
    volume: Volume,
    others: list[int],
    percentiles: Sequence[float],
    out_range: Any,
    mask: Volume | None,
    nan: str,
) -> FormulaValue:
    """Return the numbers of all slices from their percentiles."""
    name = "normalize_slices"
    if volume.dtype == bool:
        raise TypeError(f"{name}: a bool volume has no range to rescale; cast it with astype first")
    if isinstance(percentiles, str) or np.shape(percentiles) != (2,):
        raise TypeError(f"{name}: percentiles={percentiles!r} is not a pair of numbers")
    if not 0 <= percentiles[0] < percentiles[1] <= 100:
        raise ValueError(
            f"{name}: percentiles={percentiles!r} are not ascending numbers from 0 to 100"
        )
    first, last = range_of(volume, out_range, "out_range", name, mask, nan, False)
    signed = not (is_pair(out_range) or (isinstance(out_range, str) and out_range == "image"))
    own = percentile(volume, percentiles, others, mask=mask, nan=nan)
    values = (own.value, value_of(first), value_of(last))
    shape = (5, *own.shape[1:])
    return FormulaValue.of(Ranges(name, signed), values, np.dtype(np.float64), shape)


def _number(name: str, what: str, given: Any, default: Scalar) -> Value:
    """Return a given number, lazy or not, or the default."""
    if given is None:
        return default.value
    if isinstance(given, Scalar):
        if given.shape:
            raise ValueError(f"{name}: {what}={given!r} is not a number; pick an element first")
        return given.value
    if not par.is_number(given):
        raise TypeError(f"{name}: {what}={given!r} is not a number")
    if not math.isfinite(given) or (what == "std" and given < 0):
        raise ValueError(f"{name}: {what}={given!r} is not finite, or negative")
    return lazy(float(given))
