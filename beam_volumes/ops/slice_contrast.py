"""Contrast that is the same in all slices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import Formula, FormulaValue, StageNode, Value
from beam_volumes.graph.volume import Scalar, Volume, as_volume, checked_dtype, lazy
from beam_volumes.kernels import slice_contrast as kernels
from beam_volumes.ops import parameters as par
from beam_volumes.ops import reductions
from beam_volumes.ops.building import compiled
from beam_volumes.ops.linear import accumulator
from beam_volumes.sweep.stage import Block, Stage


@dataclass(frozen=True, eq=False)
class ShiftAndScale(Stage):
    """``(x - center) * scale + base``; a lazy array has center, scale and base for each slice."""

    axis: int

    @property
    def compiled(self) -> bool:
        return True

    @property
    def cost(self) -> float:
        return 1.5

    def scratch(self, rows: int, cols: int, depth: int) -> int:
        return 8 * cols

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        center, scale, base = values[0]
        start = (out.start[0], out.start[1] + y0, out.start[2])[self.axis]
        steps = int(self.axis == 1), int(self.axis == 2)
        for k in range(out.depth):
            at = start + k if self.axis == 0 else start
            plane = inputs[0].slice(k, y0, y1)
            kernels.shift_and_scale(plane, center, scale, base[0], at, *steps, out.slice(k, y0, y1))


@dataclass(frozen=True, eq=False)
class Moments(Formula):
    """From the means and standard deviations of slices and those wanted: center, scale, base."""

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
        return np.stack([center, scale, np.full_like(center, mean)])


def normalize_slices(
    volume: Volume,
    axis: int | str = "z",
    *,
    mean: Any = None,
    std: Any = None,
    mask: Volume | None = None,
    nan: str = "raise",
    dtype: Any = None,
) -> Volume:
    """Give each slice the mean and standard deviation of the whole volume.

    For stacks whose brightness and contrast vary from slice to slice. Two sweeps: one for the moments,
    which are exact, one that writes.

    Parameters
    ----------
    volume : Volume
    axis : int or str
        Slices lie across it.
    mean, std : float or Scalar, optional
        Those that slices shall have instead: numbers, or lazy ones, e.g. ``bv.mean(volume[0])``.
    mask, nan
        As of `min`: which voxels tell the moments; all are changed.
    dtype : dtype, optional
        Of the result; integers are rounded half to even and saturate.

    Returns
    -------
    Volume
        A float as of `gaussian_filter`: ``(x - m) * (std / s) + mean`` for the slice's own moments m and
        s, computed in float64. A slice of one value (s = 0) is only shifted; one of which no voxel
        counts stays as it is, but for rounding.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.array([[[1, 3]], [[10, 30]]], "u1"))
    >>> np.asarray(bv.normalize_slices(v, mean=100, std=20))
    array([[[ 80., 120.]],
    <BLANKLINE>
           [[ 80., 120.]]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "normalize_slices"
    if isinstance(axis, str):
        if axis not in volume.axes:
            raise ValueError(
                f"{name}: axis={axis!r}; the volume's axes are {', '.join(volume.axes)}"
            )
        axis = volume.axes.index(axis)
    (along,) = par.axes_of(volume, axis, name)
    if volume.ndim < 2:
        raise ValueError(f"{name}: a volume of shape {volume.shape} has no slices; keep two axes")
    others = [i for i, a in enumerate(volume.space.visible) if a != along]
    # Moments have the dtype of floats, and are not to be rounded to that of narrow ones.
    wide = volume.astype(np.float64) if volume.dtype.kind == "f" else volume
    means = reductions.mean(wide, others, mask=mask, nan=nan)
    stds = reductions.std(wide, others, mask=mask, nan=nan)
    wanted = (
        _number(name, "mean", mean, reductions.mean(wide, mask=mask, nan=nan)),
        _number(name, "std", std, reductions.std(wide, mask=mask, nan=nan)),
    )
    shape = (3, *means.shape)
    float64 = np.dtype(np.float64)
    moments = FormulaValue.of(Moments(name), (means.value, stds.value, *wanted), float64, shape)
    source = compiled(volume)
    result = accumulator(volume.dtype) if dtype is None else checked_dtype(dtype)
    half = result == np.float16
    stage = ShiftAndScale(name, np.dtype(np.float32) if half else result, along)
    normal = source.derive(StageNode.of(stage, (source.node,), (moments,)))
    return normal.astype(np.float16) if half else normal


def _number(name: str, what: str, given: Any, default: Scalar) -> Value:
    """A given number, lazy or not, or the default."""
    if given is None:
        return default.value
    if isinstance(given, Scalar):
        if given.shape:
            raise ValueError(f"{name}: {what}={given!r} is not a number; pick an element first")
        return given.value
    if isinstance(given, bool) or not isinstance(given, int | float | np.number):
        raise TypeError(f"{name}: {what}={given!r} is not a number")
    if not math.isfinite(given) or (what == "std" and given < 0):
        raise ValueError(f"{name}: {what}={given!r} is not finite, or negative")
    return lazy(float(given))
