"""Operations that methods of volumes call, in a higher layer than volumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume
from beam_volumes.ops.array_api.functions import call_function, with_kept_axes
from beam_volumes.ops.geometry.rearrange import flip, transpose
from beam_volumes.ops.geometry.resampling import downsample
from beam_volumes.ops.measure import places, reductions, statistics
from beam_volumes.ops.morphology.distance import cumsum

__all__ = [
    "call_function",
    "cumsum",
    "downsample",
    "reduced",
    "stepped",
    "transpose",
]

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "mean": reductions.mean,
    "sum": reductions.sum,
    "min": reductions.min,
    "max": reductions.max,
    "std": reductions.std,
    "var": reductions.variance,
    "all": statistics.all,
    "any": statistics.any,
    "argmax": places.argmax,
    "argmin": places.argmin,
}


def reduced(
    name: str,
    self: Volume,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    /,
    **how: Any,
) -> Any:
    """Return a lazy number, or numpy's result if parameters are given that only numpy supports."""
    numpys = {"dtype": dtype, "out": out, "keepdims": keepdims or None}
    given = {k: v for k, v in numpys.items() if v is not None}
    if not given.keys() - {"keepdims"}:
        result = _REDUCTIONS[name](self, axis, **how)
        return with_kept_axes(result, self, axis) if keepdims else result
    mask, nan, across = (how.pop(own, None) for own in ("mask", "nan", "across"))
    if mask is not None or nan not in (None, "raise") or across is not None:
        raise TypeError(
            f"{name}: {', '.join(given)} cannot be combined with mask=, nan= and across="
        )
    return getattr(np, name)(self, axis=_numbered(self, name, axis), **given, **how)


def _numbered(item: Volume, name: str, axis: Any) -> Any:
    if axis is None or isinstance(axis, int):
        return axis
    several = [axis] if isinstance(axis, str) else list(axis)
    for a in several:
        if isinstance(a, str) and a not in item.axes:
            raise ValueError(f"{name}: axis={axis!r}; the volume's axes are {', '.join(item.axes)}")
    numbers = tuple(item.axes.index(a) if isinstance(a, str) else a for a in several)
    return numbers[0] if isinstance(axis, str) else numbers


def stepped(volume: Volume, steps: Sequence[int]) -> Volume:
    """Take every ``step``-th voxel, backwards if the step is negative."""
    first = volume.ndim - len(steps)
    if back := [first + i for i, step in enumerate(steps) if step < 0]:
        volume = flip(volume, back)
    if any(abs(step) > 1 for step in steps) and volume.size:
        volume = downsample(volume, [abs(step) for step in steps], "stride")
    return volume
