"""Numbers across time points, and reductions of the points of each voxel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from beam_volumes.graph.indexing import at_points
from beam_volumes.graph.nodes import Value, times_below
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.geometry.channels import stack
from beam_volumes.ops.measure import folds
from beam_volumes.ops.measure.over_channels import over_channels

#: Maximum points: each one is a volume in a single expression.
_MAX_POINTS = 1000


def check_across(name: str, across: str, parameters: Iterable[Value] = ()) -> None:
    """Refuse an ``across`` that is not available, or parameters that differ between points."""
    if across != "t":
        raise ValueError(f"{name}: across={across!r}: only 't' is available, for time points")
    for value in parameters:
        if times_below([value]):
            raise ValueError(
                f"{name}: across='t': the number {value.name} differs between time points; compute it "
                "with across='t', too"
            )


def over_points(
    whole: folds.Fold, volume: Volume, mask: Volume | None, channels_too: bool
) -> Volume:
    """Reduce the time points of each voxel, for each channel or for all channels together.

    Points are treated like channels, so the bits are the same as from `over_channels`.
    """
    times = volume.space.times
    if times > _MAX_POINTS:
        raise ValueError(
            f"{whole.name}: axis='t': {times:,} time points are too many to reduce at once; the "
            f"maximum is {_MAX_POINTS}. Reduce parts such as v[:{_MAX_POINTS}] and then their "
            "results, or give across='t' for one number"
        )
    if mask is not None:
        mask = as_volume(mask)
    points = [at_points(volume, k) for k in range(times)]
    masks = [_at(mask, k) for k in range(times)]
    if channels_too or not volume.space.has_channels:
        return _reduced(whole, points, masks)
    made = [
        _reduced(whole, [p.sel(c=c) for p in points], [_of_channel(m, c) for m in masks])
        for c in range(len(volume.nodes))
    ]
    if made[0].space.has_channels:
        raise ValueError(
            f"{whole.name}: several percentiles of several channels would need one more axis; compute them "
            "one by one"
        )
    return stack(made, volume.space.channels or None)


def _at(mask: Volume | None, k: int) -> Volume | None:
    return at_points(mask, k) if mask is not None and mask.space.times else mask


def _of_channel(mask: Volume | None, c: int) -> Volume | None:
    return mask.sel(c=c) if mask is not None and mask.space.has_channels else mask


def _reduced(whole: folds.Fold, points: list[Volume], masks: list[Any]) -> Volume:
    """Reduce volumes of one shape voxel by voxel."""
    many = len(points[0].nodes)
    together = None
    if masks[0] is not None:
        # A mask without channels applies to all channels of a point.
        each = [m if len(m.nodes) == many else stack([m] * many) for m in masks]
        together = stack(each)
    return over_channels(whole, stack(points), together)
