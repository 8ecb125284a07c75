"""Rearranged voxels: pad, flip and transpose; and coordinates of voxels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.base.space import Space
from beam_volumes.graph.nodes import SourceNode, StageNode, ViewNode, periodic
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.ops.geometry.stages import Along, Axes, Positions
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in, exact, kernel_input, triple
from beam_volumes.ops.parameters.docs import documented

#: numpy.pad's names of boundary modes.
_PADDED = {"constant": "constant", "edge": "nearest", "reflect": "mirror", "symmetric": "reflect"}


@documented
def pad(
    volume: Volume, pad_width: Any, mode: str = "constant", constant_values: float = 0
) -> Volume:
    """Pad a volume along its axes.

    Parameters
    ----------
    %(volume)s
    pad_width : int, pair of int or sequence of pairs of int
        Number of voxels before and after: one number for all sides, a pair for all axes, or a pair
        for each axis.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, default: "constant"
        The values outside. ``"constant"`` uses ``constant_values``, and ``"edge"`` the outer
        voxels. ``"reflect"`` mirrors the volume without its outer voxels, and ``"symmetric"`` with
        them. ``"wrap"`` repeats the volume.
    constant_values : float, default: 0
        The value outside for ``"constant"``, a number of the volume's dtype.

    Returns
    -------
    Volume
        A volume of the input's dtype. Its origin is the position of the first padded voxel.

    Raises
    ------
    ValueError
        If ``pad_width`` is invalid, ``mode`` is not supported, the volume's dtype cannot hold
        ``constant_values``, or the volume has no voxels.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    shift : moves voxels within the same shape.

    Notes
    -----
    %(streams)s

    With ``"wrap"``, an opened volume is first read at its opposite end. A computed volume is stored
    for the run, unless it is a chain of wrapped filters.

    References
    ----------
    `numpy.pad`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3]], "u1"))
    >>> np.asarray(bv.pad(v, [(0, 1), (2, 0)], "reflect"))
    array([[3, 2, 1, 2, 3],
           [3, 2, 1, 2, 3]], dtype=uint8)
    """
    v = refuse_empty(as_volume(volume), "pad")
    before, after = _widths(v, pad_width)
    if mode == "wrap":
        z, y, x = zip(before, after, strict=True)
        space = v.space.shifted((-before[0], -before[1], -before[2]))
        return v.map_channels(lambda node: periodic(node, (z, y, x)), space)
    if mode not in _PADDED:
        offered = ", ".join([*_PADDED, "wrap"])
        raise ValueError(f"pad: mode={mode!r} is not available; use one of {offered}")
    if mode == "constant":
        constant_in(v.dtype, constant_values, "constant_values", "pad")
    shape = v.grid_shape
    grid = tuple(n + b + a for n, b, a in zip(shape, before, after, strict=True))
    along = [Along(n, b, _PADDED[mode]) for n, b in zip(shape, before, strict=True)]
    space = v.space.shifted(triple([-b for b in before]))
    return by_axes("pad", v, along, grid, space, exact(constant_values, v.dtype))


@documented
def flip(volume: Volume, axis: int | Sequence[int] | None = None) -> Volume:
    """Reverse the order of voxels along axes.

    Parameters
    ----------
    %(volume)s
    axis : int or sequence of int, optional
        Axes to reverse, counted from 0, or backwards from -1; all axes by default.

    Returns
    -------
    Volume
        A volume of the input's dtype with the same origin: voxels are mirrored within the volume's
        extent.

    Raises
    ------
    ValueError
        If the axis does not exist.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    transpose : permutes axes.

    Notes
    -----
    An opened volume is read in reverse. A computed volume that is reversed along z is stored for
    the run and read again in one additional sweep.

    References
    ----------
    `numpy.flip`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3], [4, 5, 6]], "u1"))
    >>> np.asarray(bv.flip(v, axis=1))
    array([[3, 2, 1],
           [6, 5, 4]], dtype=uint8)
    """
    v = as_volume(volume)
    chosen = par.axes_of(v, axis, "flip", "axis")
    z, y, x = (a in chosen and n > 1 for a, n in enumerate(v.grid_shape))
    if z or isinstance(v.nodes[0], SourceNode | ViewNode) or not v.size:
        return v.map_channels(lambda node: ViewNode.of(node, (0, 1, 2), (z, y, x)))
    along = [Along(n, flipped=f) for n, f in zip(v.grid_shape, (z, y, x), strict=True)]
    return by_axes("flip", v, along, v.grid_shape, v.space)


@documented
def transpose(volume: Volume, axes: Sequence[int] | None = None) -> Volume:
    """Permute the axes of a volume.

    Parameters
    ----------
    %(volume)s
    axes : sequence of int, optional
        For each axis of the result, the corresponding axis of the volume; by default, the order is
        reversed.

    Returns
    -------
    Volume
        A volume of the input's dtype. Names of axes do not change; voxel sizes and origin are
        permuted with the voxels.

    Raises
    ------
    ValueError
        If ``axes`` is not a permutation.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    flip : reverses the order along axes.

    Notes
    -----
    An opened volume is read in the new order. A computed volume is stored for the run and read
    again in one additional sweep.

    References
    ----------
    `numpy.transpose`.

    Examples
    --------
    >>> v = bv.open(np.zeros((4, 5, 6), "u1"), voxel_size=(40, 8, 8), unit="nm")
    >>> bv.transpose(v, (2, 1, 0)).shape, bv.transpose(v, (2, 1, 0)).voxel_size
    ((6, 5, 4), (8.0, 8.0, 40.0))
    """
    v = as_volume(volume)
    given = list(par.axes_of_space(v)[::-1] if axes is None else axes)
    first = len(v.space.leading)
    if first and len(given) == v.ndim and list(given[:first]) == list(range(first)):
        given = given[first:]  # time points and channels stay first
    chosen = par.axes_of(v, given, "transpose")
    if len(chosen) != len(v.space.axes):
        raise ValueError(
            f"transpose: axes={axes!r} lists {len(chosen)} of {len(v.space.axes)} axes; list each "
            "once"
        )
    order = [0, 1, 2]
    for at, axis in zip(v.space.visible, chosen, strict=True):
        order[at] = axis
    return v.map_channels(
        lambda node: ViewNode.of(node, triple(order), (False, False, False)),
        v.space.view(triple(order)),
    )


@documented
def coordinates(volume: Volume, axis: int, *, physical: bool = False) -> Volume:
    """Make a volume of voxel coordinates along an axis.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        The volume that defines the shape, voxel size and origin. Its voxels are not read.
    axis : int
        The axis, counted from 0, or backwards from -1.
    physical : bool, default: False
        Whether to return positions in the volume's unit, from its origin and voxel size, instead of
        indices.

    Returns
    -------
    Volume
        A volume of the same shape: int64 indices, or float64 positions.

    Raises
    ------
    ValueError
        If the axis does not exist, or ``physical=True`` and the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``axis`` is not an int.

    Notes
    -----
    %(pointwise)s

    References
    ----------
    `numpy.indices`.

    Examples
    --------
    >>> v = bv.open(np.zeros((2, 3), "u1"), voxel_size=8, unit="nm")
    >>> np.asarray(bv.coordinates(v, 1))
    array([[0, 1, 2],
           [0, 1, 2]])
    >>> np.asarray(bv.coordinates(v, 1, physical=True)[0])
    array([ 0.,  8., 16.])
    """
    v = as_volume(volume)
    at = par.axis_of(v, axis, "coordinates")
    size = v.space.voxel_size
    if physical and size is None:
        raise ValueError(
            "coordinates: physical=True needs a voxel size; open the volume with voxel_size= and unit="
        )
    first, step = (v.space.origin[at], size[at]) if physical and size is not None else (0.0, 1.0)
    dtype = np.dtype(np.float64 if physical else np.int64)
    shape = v.grid_shape
    stage = Positions("coordinates", dtype, (0, 0, 0), shape, at, float(first), float(step))
    return Volume(StageNode.of(stage, ()), v.space.with_leading(0, False, ()))


def by_axes(
    name: str,
    volume: Volume,
    along: Sequence[Along],
    grid: Sequence[int],
    space: Space,
    cval: float = 0.0,
    dtype: np.dtype | None = None,
) -> Volume:
    """Return a volume with resampled axes, each one separately; ``dtype`` is the volume's by default."""
    source = kernel_input(volume)
    result = volume.dtype if dtype is None else dtype
    z, y, x = along
    stage = Axes(name, kernel_dtype(result), source.grid_shape, triple(grid), (z, y, x), cval)
    return source.map_channels(lambda node: StageNode.of(stage, (node,)), space).astype(result)


def refuse_empty(volume: Volume, name: str) -> Volume:
    """Return a volume, unless it has no voxels."""
    if not volume.size:
        raise ValueError(f"{name}: the volume of shape {volume.shape} has no voxels")
    return volume


def check_indexable(grid: Sequence[int], what: str) -> None:
    """Refuse a result that is too large for indices."""
    if math.prod(grid) >= 2**62:
        raise ValueError(f"{what} makes the volume too large to index its voxels")


def _widths(volume: Volume, pad_width: Any) -> tuple[list[int], list[int]]:
    given = np.asarray(pad_width)
    try:
        pairs = np.broadcast_to(given, (len(volume.space.axes), 2))
    except ValueError:
        raise ValueError(
            f"pad: pad_width={pad_width!r} is not a number, a pair, or a pair for each of the "
            f"{len(volume.space.axes)} axes"
        ) from None
    if given.dtype.kind not in "iu" or (given < 0).any():
        raise ValueError(
            f"pad: pad_width={pad_width!r} must consist of whole numbers of at least 0"
        )
    before, after = [0, 0, 0], [0, 0, 0]
    for axis, (b, a) in zip(volume.space.visible, pairs.tolist(), strict=True):
        before[axis], after[axis] = b, a
    grid = [n + b + a for n, b, a in zip(volume.grid_shape, before, after, strict=True)]
    check_indexable(grid, f"pad: pad_width={pad_width!r}")
    return before, after
