"""Checks that operands have the same voxel size, unit and origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from beam_volumes.base.space import DifferentSpaces, Space
from beam_volumes.graph.core import VolumeCore
from beam_volumes.graph.nodes import Node, SourceNode, StageNode
from beam_volumes.storage.sources.axes import stated_space


def shared_space(name: str, first: VolumeCore, *others: VolumeCore) -> Space:
    """Combine the spaces of operands of one shape: missing metadata is taken from other operands.

    Channels and time points come from the first operand that has them. ValueError if two operands differ
    in voxel size, unit or origin; the message names both operands and the operation.
    """
    space, known_by = first.space, first
    for other in others:
        try:
            merged = space.shared(other.space)
        except DifferentSpaces as error:
            raise ValueError(
                f"{name}: the {error.what} of {called(known_by)} is {error.first}, but {called(other)} has "
                f"{error.second}; choose one with v.with_space(other), or v.with_space(voxel_size=, unit=, "
                "origin=)"
            ) from None
        if not space.knows_size and other.space.knows_size:
            known_by = other
        space = merged
    known = [v.space for v in (first, *others)]
    channels = next((s.channels for s in known if s.has_channels), None)
    times = max(s.times for s in known)
    return space.with_leading(times, channels is not None, channels or ())


def shared_size(name: str, *volumes: VolumeCore) -> Space:
    """Combine spaces like `shared_space`, of operands that may be anywhere."""
    # Thousands of tiles have few different spaces.
    different = {(v.space.voxel_size, v.space.unit, v.space.channels): v for v in volumes}
    at_one_place = (
        VolumeCore(v.nodes, replace(v.space, origin=(0.0, 0.0, 0.0), sliced_from=None))
        for v in different.values()
    )
    return shared_space(name, *at_one_place)


def space_of(
    volume: VolumeCore,
    other: Any,
    voxel_size: float | Sequence[float] | None,
    unit: str | None,
    origin: float | Sequence[float] | None,
) -> Space:
    """The space of a volume with the parameters of `Volume.with_space`."""
    space = volume.space
    if other is None and voxel_size is None and unit is None and origin is None:
        raise TypeError("with_space: give a volume, or voxel_size=, unit= or origin=")
    if other is not None:
        if not isinstance(other, VolumeCore):
            raise TypeError(f"with_space: expected a Volume, not {type(other).__name__} {other!r}")
        missing = [a for a in volume.space.axes if a not in other.space.axes]
        if missing:
            raise ValueError(
                f"with_space: {called(other)} has the axes {' '.join(other.axes)}, but not "
                f"{missing[0]}, which {called(volume)} has"
            )
        space = replace(
            space,
            voxel_size=other.space.voxel_size,
            unit=other.space.unit,
            origin=other.space.origin,
            sliced_from=other.space.sliced_from,
        )
    return stated_space(space, called(volume), voxel_size, unit, origin)


def called(volume: VolumeCore) -> str:
    """The name of a volume in messages: its path, or its operation and source.

    >>> called(bv.gaussian_filter(bv.open(np.ones((4, 5))), 1))
    'gaussian_filter of a numpy array of shape (4, 5)'
    """
    node: Node = volume.nodes[0]
    if isinstance(node, SourceNode):
        return node.name
    below = node
    while below.inputs:
        below = below.inputs[0]
    name = node.stage.name if isinstance(node, StageNode) else node.name
    return f"{name} of {below.name}"
