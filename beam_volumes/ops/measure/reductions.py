"""Numbers of whole volumes: lazy scalars, exact and independent of slabs; reductions of time points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.space import AXES
from beam_volumes.graph.arithmetic import channels_of
from beam_volumes.graph.indexing import at_points
from beam_volumes.graph.nodes import Fed, FoldValue, Formula, FormulaValue, Node, Value, times_below
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.geometry.channels import stack
from beam_volumes.ops.measure import folds
from beam_volumes.ops.measure import folds_along as projections
from beam_volumes.ops.measure.over_channels import over_channels
from beam_volumes.ops.parameters.checks import axes_of
from beam_volumes.ops.parameters.docs import documented_as
from beam_volumes.sweep.reduction import Reduction

#: Axes to reduce, by numpy's numbers or by name.
Axis = int | str | Sequence[int | str] | None
#: Maximum points: each one is a volume in a single expression.
_MAX_POINTS = 1000


def fold(
    reduction: Reduction,
    volume: Volume,
    mask: Volume | None,
    *parameters: Scalar,
    others: tuple[Volume, ...] = (),
    across: str | None = None,
) -> Scalar:
    """Return the lazy result of a reduction of volumes, where ``mask`` is nonzero."""
    masks: Sequence[Node | None] = [None] * len(volume.nodes)
    if mask is not None:
        mask = as_volume(mask)
        if mask.space.axes != volume.space.axes or len(mask.nodes) not in (1, len(volume.nodes)):
            raise ValueError(
                f"{reduction.name}: the mask has the axes {mask.axes}; give a mask with the axes "
                f"{volume.axes} of the volume"
            )
        masks = channels_of(mask if mask.dtype == bool else mask != 0, volume)
    values = tuple(p.value for p in parameters)
    other_nodes = [channels_of(o, volume) for o in others]
    fed = [
        Fed(node, masks[k], tuple(nodes[k] for nodes in other_nodes))
        for k, node in enumerate(volume.nodes)
    ]
    space = shared_space(reduction.name, volume, *others, *(() if mask is None else (mask,)))
    if across is not None:
        _check_across(reduction.name, across, values)
    # A volume without a time axis is one point.
    return Scalar(FoldValue.of(reduction, fed, values, across is not None and space.times > 0))


def _along(
    reduction: folds.Fold, volume: Volume, axis: Axis, mask: Volume | None, across: str | None
) -> Any:
    """Reduce all axes to a number, some to a lazy array, or time and channels to a volume."""

    def one(v: Volume, where: Volume | None, axis: Axis, across: str | None) -> Scalar:
        kept, axes = kept_axes(reduction.name, v, axis)
        if not axes:
            return fold(reduction, v, where, across=across)
        along = projections.along(reduction, v.grid_shape, kept, axes)
        return fold(along, v, where, across=across)

    return by_channel(reduction, volume, mask, axis, one, across)


def by_channel(
    reduction: folds.Fold,
    volume: Volume,
    mask: Volume | None,
    axis: Axis,
    reduced: Callable[[Volume, Volume | None, Axis, str | None], Scalar],
    across: str | None = None,
    at: int = 0,
) -> Any:
    """Reduce along axes: all channels together if their axis is reduced, else each, stacked at ``at``.

    ``reduced`` accepts a volume, a mask, axes of space, and ``across``.
    """
    # ``across`` is also for the time axis among others. If only the time or channel axis is reduced,
    # ``reduction`` is applied to each voxel, which gives a volume.
    name = reduction.name
    if across is not None:
        _check_across(name, across)
    if axis is None or not volume.space.leading:
        return reduced(volume, mask, axis, across)
    items = [axis] if isinstance(axis, int | np.integer | str) else list(axis)
    for i in items:
        if not (i in volume.axes if isinstance(i, str) else -volume.ndim <= i < volume.ndim):
            raise ValueError(
                f"{name}: axis={axis!r}; the volume's axes are {', '.join(volume.axes)}"
            )
    names = [i if isinstance(i, str) else volume.axes[i] for i in items]
    if "t" in names:
        across = "t"
    of_space = [n for n in names if n not in ("t", "c")]
    if volume.space.times and across is not None and not of_space:
        return _over_points(reduction, volume, mask, "c" in names)
    if not volume.space.has_channels:
        return reduced(volume, mask, of_space, across)
    if "c" not in names:
        if mask is not None:
            mask = as_volume(mask)
        masks = [
            m if m is None or not m.space.has_channels else m.sel(c=k)
            for k, m in enumerate([mask] * len(volume.nodes))
        ]
        parts = [reduced(volume.sel(c=k), m, of_space, across) for k, m in enumerate(masks)]
        shape = np.stack([np.empty(p.shape) for p in parts], at).shape
        values = tuple(p.value for p in parts)
        return Scalar(FormulaValue.of(Stacked("stack", at), values, parts[0].dtype, shape))
    if not of_space:
        return over_channels(reduction, volume, mask)
    everything = len(set(of_space)) == len(volume.space.axes)
    return reduced(volume, mask, None if everything else of_space, across)


@dataclass(frozen=True, eq=False)
class Stacked(Formula):
    """Values stacked along a new axis."""

    at: int

    def evaluate(self, *arguments: Any) -> Any:
        return np.stack(arguments, self.at)


def kept_axes(name: str, volume: Volume, axis: Axis) -> tuple[tuple[bool, bool, bool], list[int]]:
    """Return which of z, y, x a reduction keeps, and the visible ones among them."""
    if axis is None:
        return (False, False, False), []
    items = [axis] if isinstance(axis, int | np.integer | str) else list(axis)
    for item in items:
        if isinstance(item, str) and item not in volume.axes:
            raise ValueError(
                f"{name}: axis={axis!r}; the volume's axes are {', '.join(volume.axes)}"
            )
    numbers = [volume.axes.index(i) if isinstance(i, str) else i for i in items]
    gone = axes_of(volume, numbers, name, "axis")
    axes = [a for a in volume.space.visible if a not in gone]
    z, y, x = (a in axes for a in np.arange(len(AXES)).tolist())
    return (z, y, x), axes


def _check_across(name: str, across: str, parameters: Iterable[Value] = ()) -> None:
    """Refuse an ``across`` that is not available, or parameters that differ between points."""
    if across != "t":
        raise ValueError(f"{name}: across={across!r}: only 't' is available, for time points")
    for value in parameters:
        if times_below([value]):
            raise ValueError(
                f"{name}: across='t': the number {value.name} differs between time points; compute it "
                "with across='t', too"
            )


def _over_points(
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
        return _reduce_points(whole, points, masks)
    made = [
        _reduce_points(whole, [p.sel(c=c) for p in points], [_of_channel(m, c) for m in masks])
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


def _reduce_points(whole: folds.Fold, points: list[Volume], masks: list[Any]) -> Volume:
    """Reduce volumes of one shape voxel by voxel."""
    many = len(points[0].nodes)
    together = None
    if masks[0] is not None:
        # A mask without channels applies to all channels of a point.
        each = [m if len(m.nodes) == many else stack([m] * many) for m in masks]
        together = stack(each)
    return over_channels(whole, stack(points), together)


#: The common docstring of reductions.
_DOCSTRING = """{summary}, or {lines}.

Parameters
----------
%(volume)s
%(reduced_axis)s
{ddof}%(where)s
%(nan)s
%(across)s

Returns
-------
Scalar
    {returns}

Raises
------
%({errors})s

See Also
--------
{see_also}

Notes
-----
One sweep.

%(along)s

%(exact)s

References
----------
`numpy.{numpy}`.

Examples
--------
{examples}
"""


def _as_numpy(
    function: Callable[..., Scalar], name: str, errors: str = "reduction_errors", **texts: str
) -> Any:
    """Name and document a reduction of numpy."""
    ddof = "%(ddof)s\n" if name in ("variance", "std") else ""
    return documented_as(name, _DOCSTRING.format(errors=errors, ddof=ddof, **texts))(function)


def _reduction(name: str, of: Callable[..., folds.Fold], **texts: str) -> Callable[..., Scalar]:
    def reduction(
        volume: Volume,
        axis: Axis = None,
        *,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        volume = as_volume(volume)
        return _along(of(volume.dtype, nan), volume, axis, mask, across)

    return _as_numpy(reduction, name, **texts)


def _spread(name: str, of: Callable[..., folds.Fold], **texts: str) -> Callable[..., Scalar]:
    def reduction(
        volume: Volume,
        axis: Axis = None,
        *,
        ddof: int = 0,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        volume = as_volume(volume)
        return _along(of(volume.dtype, nan, ddof, name), volume, axis, mask, across)

    return _as_numpy(reduction, name, **texts)


_EXTREME = """\
The lazy number in the volume's dtype. With ``axis``, a lazy array with the remaining axes; lines
    without included voxels are NaN, or an error for integers."""
min = _reduction(
    "min",
    folds.Min.of,
    summary="Find the smallest voxel",
    lines="the smallest of each line along some axes",
    returns=_EXTREME,
    see_also="""\
minimum_position : finds its position.
minimum_filter : computes the smallest voxel around each voxel.""",
    numpy="min",
    examples="""\
>>> v = bv.open(np.array([[3, 1, 2], [7, 8, 9]]))
>>> int(bv.min(v)), np.asarray(bv.min(v, axis="y")), np.asarray(bv.min(v, axis=1))
(1, array([3, 1, 2]), array([1, 7]))""",
)
max = _reduction(
    "max",
    folds.Max.of,
    summary="Find the largest voxel",
    lines="the largest of each line along some axes",
    returns=_EXTREME,
    see_also="""\
maximum_position : finds its position.
maximum_filter : computes the largest voxel around each voxel.""",
    numpy="max",
    examples="""\
>>> int(bv.max(bv.open(np.array([[3, 1, 2]]))))
3""",
)
sum = _reduction(
    "sum",
    folds.Sum.of,
    errors="sum_errors",
    summary="Sum all voxels",
    lines="each line along some axes, exactly",
    returns="""\
The lazy sum, rounded once, with the dtype of `numpy.sum`. With ``axis``, a lazy array with the
    remaining axes; lines without included voxels are 0.""",
    see_also="cumsum : computes running sums.",
    numpy="sum",
    examples="""\
>>> float(bv.sum(bv.open(np.array([[1e16, 1.0, -1e16]]))))
1.0""",
)
mean = _reduction(
    "mean",
    folds.Mean.of,
    summary="Compute the mean of all voxels",
    lines="of each line along some axes, exactly",
    returns="""\
The lazy mean, rounded once, with the dtype of `numpy.mean`. With ``axis``, a lazy array with the
    remaining axes; lines without included voxels are NaN.""",
    see_also="uniform_filter : computes the mean around each voxel.",
    numpy="mean",
    examples="""\
>>> float(bv.mean(bv.open(np.array([[3, 1, 2]]))))
2.0""",
)
variance = _spread(
    "variance",
    folds.Var.of,
    summary="Compute the variance of all voxels",
    lines="of each line along some axes, exactly",
    returns="""\
The lazy variance, rounded once, with the dtype of `numpy.var`. With ``axis``, a lazy array with the
    remaining axes; lines without included voxels are NaN.""",
    see_also="""\
std : computes its square root.
covariance : computes it for two volumes.""",
    numpy="var",
    examples="""\
>>> float(bv.variance(bv.open(np.array([[1, 5]]))))
4.0""",
)
std = _spread(
    "std",
    folds.Std.of,
    summary="Compute the standard deviation of all voxels",
    lines="of each line along some axes, exactly",
    returns="""\
The lazy standard deviation, rounded once, with the dtype of `numpy.std`. With ``axis``, a lazy
    array with the remaining axes; lines without included voxels are NaN.""",
    see_also="variance : computes its square.",
    numpy="std",
    examples="""\
>>> v = bv.open(np.array([[1, 3], [5, 5]]))
>>> float(bv.std(v[:1])), np.asarray(bv.std(v, axis="x"))
(1.0, array([1., 0.]))""",
)
