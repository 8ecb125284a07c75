"""Places of the smallest and the largest voxels along an axis, as in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import Formula, FormulaValue
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.measure import folds_along as projections
from beam_volumes.ops.measure import pair_folds as folds
from beam_volumes.ops.measure.reductions import Axis, by_channel, fold, kept_axes
from beam_volumes.ops.parameters.docs import documented, documented_like


@documented
def argmax(
    volume: Volume,
    axis: int | str | None = None,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
) -> Scalar:
    """Find the index of the largest voxel along an axis, such as the height of a surface.

    Parameters
    ----------
    %(volume)s
    axis : int or str, optional
        The axis, a number as in numpy or a name such as ``"z"``. By default, the result is an index
        into the flattened volume, as in numpy.
    %(where)s
    %(nan)s

    Returns
    -------
    Scalar
        A lazy int64 array with the remaining axes, or a lazy number: the index of the largest
        voxel. If several voxels are equal, the first is selected. (For a line with NaN, numpy
        returns the first NaN.)

    Raises
    ------
    %(reduction_errors)s

    See Also
    --------
    maximum_position : returns an index for each axis.
    max : computes the largest voxel, also along an axis.

    Notes
    -----
    One sweep, shared with `max`.

    %(along)s

    %(exact)s

    References
    ----------
    `numpy.argmax`.

    Examples
    --------
    >>> v = bv.open(np.array([[3, 1], [1, 4]]))
    >>> np.asarray(bv.argmax(v, axis="y")), int(bv.argmax(v))
    (array([0, 1]), 3)
    """
    return _place("argmax", volume, axis, True, mask, nan)


@documented_like(argmax)
def argmin(
    volume: Volume,
    axis: int | str | None = None,
    *,
    mask: Volume | None = None,
    nan: str = "raise",
) -> Scalar:
    """Find the index of the smallest voxel along an axis.

    Returns
    -------
    Scalar
        A lazy int64 array with the remaining axes, or a lazy number: the index of the smallest
        voxel. If several voxels are equal, the first is selected. (For a line with NaN, numpy
        returns the first NaN.)

    See Also
    --------
    minimum_position : returns an index for each axis.
    min : computes the smallest voxel, also along an axis.

    Notes
    -----
    One sweep, shared with `min`.

    %(along)s

    %(exact)s

    References
    ----------
    `numpy.argmin`.

    Examples
    --------
    >>> v = bv.open(np.array([[3, 1], [1, 4]]))
    >>> np.asarray(bv.argmin(v, axis="y")), int(bv.argmin(v))
    (array([1, 0]), 1)
    """
    return _place("argmin", volume, axis, False, mask, nan)


def _place(
    name: str, volume: Volume, axis: Any, largest: bool, mask: Volume | None, nan: str
) -> Scalar:
    volume = as_volume(volume)
    of_all = folds.Position.of(volume.dtype, volume.space.visible, largest, nan, name)

    def one(v: Volume, where: Volume | None, axis: Axis, across: str | None) -> Scalar:
        kept, axes = kept_axes(name, v, axis)
        if axes:
            return fold(projections.along(of_all, v.grid_shape, kept, axes), v, where)
        shape = tuple(v.grid_shape[a] for a in v.space.visible)
        flat = FlatIndex(f"{name} of all", shape)
        values = (fold(of_all, v, where).value,)
        return Scalar(FormulaValue.of(flat, values, np.dtype(np.int64)))

    if axis is None:
        return one(one_channel(volume), mask, None, None)
    _check_axis(name, volume, axis)
    found: Scalar = by_channel(of_all, volume, mask, axis, one)
    return found


def _check_axis(name: str, volume: Volume, axis: Any) -> None:
    """Refuse several axes, axes that the volume lacks, and axes of channels and time."""
    if not isinstance(axis, int | np.integer | str) or isinstance(axis, bool):
        raise TypeError(
            f"{name}: axis={axis!r}: give one axis, or None for an index into all voxels"
        )
    known = axis in volume.axes if isinstance(axis, str) else -volume.ndim <= axis < volume.ndim
    if not known:
        raise ValueError(f"{name}: axis={axis!r}; the volume's axes are {', '.join(volume.axes)}")
    letter = axis if isinstance(axis, str) else volume.axes[axis]
    if letter in ("t", "c"):
        raise ValueError(
            f"{name}: axis={axis!r}: positions along the axis {letter} are not available; compare each "
            f'with v.max(axis="{letter}")'
        )


@dataclass(frozen=True, eq=False)
class FlatIndex(Formula):
    """The index into a flattened array."""

    shape: tuple[int, ...]

    def evaluate(self, *arguments: Any) -> Any:
        return np.int64(np.ravel_multi_index(tuple(arguments[0]), self.shape))
