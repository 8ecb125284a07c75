"""Concatenation of volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.geometry.channels import stack
from beam_volumes.ops.geometry.rearrange import coordinates, pad
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where


@documented
def concatenate(volumes: Sequence[Volume], axis: int = 0) -> Volume:
    """Concatenate volumes along an axis.

    Parameters
    ----------
    volumes : sequence of Volume or numpy.ndarray
        One or more volumes with the same axes, and with the same shape except along ``axis``.
    axis : int, default: 0
        The axis, counted from 0, or backwards from -1; it cannot be the time axis.

    Returns
    -------
    Volume
        A volume of the dtype to which numpy promotes the inputs, with the origin of the first
        input.

    Raises
    ------
    ValueError
        If no volume is given, shapes or voxel sizes differ, or there is no such axis.
    TypeError
        If an input is neither a volume nor an array.

    See Also
    --------
    open : opens a list of files as one volume along z.
    stack : stacks volumes as channels.

    Notes
    -----
    In one sweep, each volume is padded to the whole extent; each voxel is then taken from the
    volume that contains it. To join files along z, ``bv.open([first, second])`` is faster.

    References
    ----------
    `numpy.concatenate`.

    Examples
    --------
    >>> left, right = np.array([[1, 2]], "u1"), np.array([[3]], "u1")
    >>> np.asarray(bv.concatenate([left, right], axis=1))
    array([[1, 2, 3]], dtype=uint8)
    """
    all_of_them = [as_volume(v) for v in volumes]
    if not all_of_them:
        raise ValueError("concatenate: give at least one volume")
    first = all_of_them[0]
    if not par.is_whole(axis) or not -first.ndim <= axis < first.ndim:
        raise ValueError(
            f"concatenate: axis={axis!r}: the axes are {', '.join(first.axes)}, numbered from 0 to "
            f"{first.ndim - 1}"
        )
    along = int(axis) % first.ndim
    name = first.axes[along]
    for v in all_of_them[1:]:
        alike = [n for k, n in enumerate(v.shape) if k != along]
        if v.axes != first.axes or alike != [n for k, n in enumerate(first.shape) if k != along]:
            raise ValueError(
                f"concatenate: volumes of shapes {first.shape} ({' '.join(first.axes)}) and {v.shape} "
                f"({' '.join(v.axes)}) differ along an axis other than {name}; crop or pad them first"
            )
        at_one_place = (
            replace(u.space, origin=(0.0, 0.0, 0.0), sliced_from=None) for u in (first, v)
        )
        shared_space("concatenate", *(Volume(first.nodes, space) for space in at_one_place))
    if name == "t":
        raise ValueError(
            "concatenate: time points cannot be joined; write each of them, and open the files "
            "as a list"
        )
    if name == "c":
        return stack(all_of_them)
    return _joined([v for v in all_of_them if v.shape[along]] or [first], along)


def _joined(volumes: Sequence[Volume], along: int) -> Volume:
    first = volumes[0]
    dtype = np.result_type(*(v.dtype for v in volumes))
    extents = [v.shape[along] for v in volumes]
    total, begin = sum(extents), 0
    axis = along - len(first.space.leading)  # among z, y, x
    result: Volume | None = None
    for v, extent in zip(volumes, extents, strict=True):
        widths = [(0, 0)] * len(first.space.axes)
        widths[axis] = (begin, total - begin - extent)
        begin += extent
        if not any(map(any, widths)) or not v.size:
            return v.astype(dtype)
        part = pad(v.astype(dtype), widths)
        result = part if result is None else _after(result, part, axis, begin - extent)
    assert result is not None
    return result


def _after(before: Volume, part: Volume, axis: int, begin: int) -> Volume:
    """Return ``part`` from index ``begin`` on, else ``before``."""
    here = part.with_space(before)
    one = here.sel(c=0) if here.space.has_channels else here
    return where(coordinates(one, one.ndim - len(one.space.axes) + axis) >= begin, here, before)
