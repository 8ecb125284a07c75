"""Voxels moved, repeated or left out, none changed: pad, flip, transpose; and where voxels lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import SourceNode, StageNode, ViewNode
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops import parameters as par
from beam_volumes.ops.building import exact, kernel_input, representable, triple
from beam_volumes.ops.geometry.stages import Along, Axes, Positions
from beam_volumes.space import Space

#: numpy.pad's names of boundary modes.
_PADDED = {"constant": "constant", "edge": "nearest", "reflect": "mirror", "symmetric": "reflect"}


def pad(
    volume: Volume, pad_width: Any, mode: str = "constant", constant_values: float = 0
) -> Volume:
    """Put voxels around a volume; see `numpy.pad`.

    Parameters
    ----------
    volume : Volume
    pad_width : int, (int, int) or sequence of (int, int)
        Voxels before and after: the same number everywhere, a pair for all axes, or a pair for each.
    mode : {"constant", "edge", "reflect", "symmetric"}
        ``reflect`` repeats no voxel at the edge, ``symmetric`` does.
    constant_values : float
        Stands outside if the mode is ``constant``; a number of the volume's dtype.

    Returns
    -------
    Volume
        Its origin is that of the first voxel put before.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.array([[1, 2, 3]], "u1"))
    >>> np.asarray(bv.pad(v, [(0, 1), (2, 0)], "reflect"))
    array([[3, 2, 1, 2, 3],
           [3, 2, 1, 2, 3]], dtype=uint8)
    """
    v = not_empty(as_volume(volume), "pad")
    before, after = _widths(v, pad_width)
    if mode not in _PADDED:
        why = ""
        if mode == "wrap":
            why = (
                ": the last slices would be needed for the first, which a sweep along z cannot give"
            )
        raise ValueError(f"pad: mode={mode!r} is not offered{why}; use one of {', '.join(_PADDED)}")
    if mode == "constant" and not representable(constant_values, v.dtype):
        raise ValueError(
            f"pad: constant_values={constant_values!r} is not a {v.dtype} number; cast the volume with "
            "astype first"
        )
    shape = v.node.shape
    grid = tuple(n + b + a for n, b, a in zip(shape, before, after, strict=True))
    along = [Along(n, b, _PADDED[mode]) for n, b in zip(shape, before, strict=True)]
    space = v.space.shifted(triple([-b for b in before]))
    return by_axes("pad", v, along, grid, space, exact(constant_values, v.dtype))


def flip(volume: Volume, axis: int | Sequence[int] | None = None) -> Volume:
    """Reverse the order of voxels along axes; see `numpy.flip`.

    What is opened is read in reverse. Of a computed volume, reversing the first axis of three takes a
    sweep of its own: it is stored for the run and read again.

    Parameters
    ----------
    volume : Volume
    axis : int or sequence of int, optional
        All axes by default.

    Returns
    -------
    Volume
        Where the volume was: the voxels are mirrored within the box that they fill.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.array([[1, 2, 3], [4, 5, 6]], "u1"))
    >>> np.asarray(bv.flip(v, axis=1))
    array([[3, 2, 1],
           [6, 5, 4]], dtype=uint8)
    """
    v = as_volume(volume)
    chosen = par.axes_of(v, axis, "flip")
    z, y, x = (a in chosen and n > 1 for a, n in enumerate(v.node.shape))
    if z or isinstance(v.node, SourceNode | ViewNode) or not v.size:
        return v.derive(ViewNode.of(v.node, (0, 1, 2), (z, y, x)))
    along = [Along(n, flipped=f) for n, f in zip(v.node.shape, (z, y, x), strict=True)]
    return by_axes("flip", v, along, v.node.shape, v.space)


def transpose(volume: Volume, axes: Sequence[int] | None = None) -> Volume:
    """Reorder axes; see `numpy.transpose`.

    What is opened is read in the other order; what is computed is stored for the run and read again,
    in a sweep of its own.

    Parameters
    ----------
    volume : Volume
    axes : sequence of int, optional
        Which axis of the volume each of the result is; by default all in reverse.

    Returns
    -------
    Volume
        Axes are named by their position, as ever; voxel sizes and origin follow the voxels.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.zeros((4, 5, 6), "u1"), voxel_size=(40, 8, 8), unit="nm")
    >>> bv.transpose(v, (2, 1, 0)).shape, bv.transpose(v, (2, 1, 0)).voxel_size
    ((6, 5, 4), (8.0, 8.0, 40.0))
    """
    v = as_volume(volume)
    given = range(v.ndim)[::-1] if axes is None else axes
    chosen = par.axes_of(v, list(given), "transpose")
    if len(chosen) != v.ndim:
        raise ValueError(
            f"transpose: axes={axes!r} names {len(chosen)} of {v.ndim} axes; name each once"
        )
    order = [0, 1, 2]
    for at, axis in zip(v.space.visible, chosen, strict=True):
        order[at] = axis
    node = ViewNode.of(v.node, triple(order), (False, False, False))
    return Volume(node, v.space.view(triple(order)))


def coordinates(volume: Volume, axis: int, *, physical: bool = False) -> Volume:
    """Where the voxels of a volume lie along an axis, as a volume of its shape.

    Nothing is read: only the shape of the volume counts.

    Parameters
    ----------
    volume : Volume
    axis : int
    physical : bool
        Positions in the volume's unit, from its origin and voxel size, instead of indices.

    Returns
    -------
    Volume
        int64, as of `numpy.indices`; or float64.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.zeros((2, 3), "u1"), voxel_size=8, unit="nm")
    >>> np.asarray(bv.coordinates(v, 1))
    array([[0, 1, 2],
           [0, 1, 2]])
    >>> np.asarray(bv.coordinates(v, 1, physical=True)[0])
    array([ 0.,  8., 16.])
    """
    v = as_volume(volume)
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
        raise TypeError(f"coordinates: axis={axis!r} is not a number of an axis, 0 to {v.ndim - 1}")
    at = par.axes_of(v, int(axis), "coordinates")[0]
    size = v.space.voxel_size
    if physical and size is None:
        raise ValueError(
            "coordinates: physical=True needs a voxel size; open the volume with voxel_size= and unit="
        )
    first, step = (v.space.origin[at], size[at]) if physical and size is not None else (0.0, 1.0)
    dtype = np.dtype(np.float64 if physical else np.int64)
    shape = v.node.shape
    stage = Positions("coordinates", dtype, (0, 0, 0), shape, at, float(first), float(step))
    return v.derive(StageNode.of(stage, ()))


def by_axes(
    name: str,
    volume: Volume,
    along: Sequence[Along],
    grid: Sequence[int],
    space: Space,
    cval: float = 0.0,
) -> Volume:
    """The volume whose voxels each axis by itself says."""
    source = kernel_input(volume)
    z, y, x = along
    stage = Axes(name, source.dtype, source.node.shape, triple(grid), (z, y, x), cval)
    return Volume(StageNode.of(stage, (source.node,)), space).astype(volume.dtype)


def not_empty(volume: Volume, name: str) -> Volume:
    if not volume.size:
        raise ValueError(f"{name}: the volume of shape {volume.shape} has no voxels")
    return volume


def countable(grid: Sequence[int], what: str) -> None:
    """Refuse a result whose voxels no index can count."""
    if math.prod(grid) >= 2**62:
        raise ValueError(f"{what} makes the volume larger than can be counted")


def _widths(volume: Volume, pad_width: Any) -> tuple[list[int], list[int]]:
    """Voxels before and after along z, y, x."""
    given = np.asarray(pad_width)
    try:
        pairs = np.broadcast_to(given, (volume.ndim, 2))
    except ValueError:
        raise ValueError(
            f"pad: pad_width={pad_width!r} is not a number, a pair, or a pair for each of the "
            f"{volume.ndim} axes"
        ) from None
    if given.dtype.kind not in "iu" or (given < 0).any():
        raise ValueError(f"pad: pad_width={pad_width!r} is not made of whole numbers from 0 on")
    before, after = [0, 0, 0], [0, 0, 0]
    for axis, (b, a) in zip(volume.space.visible, pairs.tolist(), strict=True):
        before[axis], after[axis] = b, a
    grid = [n + b + a for n, b, a in zip(volume.node.shape, before, after, strict=True)]
    countable(grid, f"pad: pad_width={pad_width!r}")
    return before, after
