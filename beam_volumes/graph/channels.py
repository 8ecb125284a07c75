"""Several channels of a voxel beside each other: as chunks with all channels are written.

An array of such voxels is one of a structured dtype, with a field for each channel, so that a sweep moves
it as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import Node, StageNode
from beam_volumes.sweep.stage import Block, Stage


def beside(dtype: np.dtype, channels: int) -> np.dtype:
    """The dtype of a voxel with so many channels of a dtype.

    Examples
    --------
    >>> beside(np.dtype("u1"), 3).itemsize
    3
    """
    return np.dtype([(str(k), dtype) for k in range(channels)])


@dataclass(frozen=True, eq=False)
class Interleave(Stage):
    """Channels, put beside each other."""

    cost = 1.0

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            voxels = out.slice(k, y0, y1)
            for field, channel in zip(self.dtype.names or (), inputs, strict=True):
                voxels[field] = channel.slice(k, y0, y1)


@dataclass(frozen=True, eq=False)
class Separate(Stage):
    """One channel of voxels that have several."""

    field: str

    cost = 0.5

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            out.slice(k, y0, y1)[...] = inputs[0].slice(k, y0, y1)[self.field]


def interleaved(nodes: Sequence[Node], dtype: np.dtype) -> Node:
    """The node whose voxels have the channels of some nodes, each of a dtype."""
    stage = Interleave("interleave", beside(dtype, len(nodes)))
    return StageNode.of(stage, tuple(nodes))


def separated(node: Node, name: str) -> tuple[Node, ...]:
    """The nodes of the channels that the voxels of a node have."""
    fields: Any = node.dtype.fields
    return tuple(StageNode.of(Separate(name, fields[field][0], field), (node,)) for field in fields)
