"""Volumes with several channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from beam_volumes.graph.arithmetic import check_alike
from beam_volumes.graph.nodes import Node
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.parameters.building import first_channel
from beam_volumes.ops.parameters.docs import documented


@documented
def stack(volumes: Sequence[Volume], names: Sequence[str] | None = None) -> Volume:
    """Stack volumes as the channels of one volume.

    Parameters
    ----------
    volumes : sequence of Volume or numpy.ndarray
        One or more volumes of the same shape. All channels of a volume are used.
    names : sequence of str, optional
        A different name for each channel. By default, the names of the volumes' channels, if all
        channels have names.

    Returns
    -------
    Volume
        A volume with the axis c before the others, of the dtype to which numpy promotes the inputs.

    Raises
    ------
    ValueError
        If no volume is given, shapes differ, or there is not one name for each channel.
    TypeError
        If an input is neither a volume nor an array.

    See Also
    --------
    channels : the inverse.
    Volume.sel : selects channels by name.

    Notes
    -----
    Voxels are not copied. Channels are computed separately in the same sweep. Stored chunks that
    contain all channels are decoded once.

    References
    ----------
    `numpy.stack`.

    Examples
    --------
    >>> v = bv.stack([np.zeros((2, 3), "u1"), np.ones((2, 3), "u1")], names=["DAPI", "GFP"])
    >>> v.shape, v.axes, v.channels
    ((2, 2, 3), ('c', 'y', 'x'), ('DAPI', 'GFP'))
    >>> int(bv.sum(v)), np.asarray(bv.sum(v, axis=("y", "x"))).tolist()
    (6, [0, 6])
    """
    opened = [as_volume(v) for v in volumes]
    if not opened:
        raise ValueError("stack: give at least one volume")
    for v in opened[1:]:
        check_alike("stack", first_channel(opened[0]), first_channel(v))
    dtype = np.result_type(*(v.dtype for v in opened))
    nodes: list[Node] = []
    known: list[str] = []
    for v in opened:
        cast = v.astype(dtype)
        nodes += cast.nodes
        known += v.space.channels
    if names is None:
        names = known if len(known) == len(nodes) and len({*known}) == len(known) else ()
    elif len(names) != len(nodes) or len({*names}) != len(nodes):
        raise ValueError(
            f"stack: names={list(names)!r}; give {len(nodes)} different names, one for each channel"
        )
    space = shared_space("stack", *opened)
    named = space.with_leading(space.times, True, tuple(map(str, names)))
    return Volume(tuple(nodes), named)


@documented
def channels(volume: Volume) -> tuple[Volume, ...]:
    """Split a volume into its channels.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array, with or without a channel axis.

    Returns
    -------
    tuple of Volume
        One volume for each channel; the volume itself if it has no channel axis.

    Raises
    ------
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    stack : the inverse.

    References
    ----------
    `numpy.unstack`.

    Examples
    --------
    >>> red, green, blue = bv.channels(bv.open(np.zeros((3, 4, 5, 6), "u1")))
    >>> green.shape
    (4, 5, 6)
    """
    v = as_volume(volume)
    if not v.space.has_channels:
        return (v,)
    return tuple(Volume(node, v.space.of_one("c")) for node in v.nodes)


def each_channel(function: Callable[[Volume], Volume], volume: Volume) -> Volume:
    """Apply a function of one channel to all channels of a volume."""
    if not volume.space.has_channels:
        return function(volume)
    return stack([function(v) for v in channels(volume)], volume.channels or None)
