"""Stages that no public operation has: lazy arrays as voxels, repeated slices, joined channels.

Voxels with several channels have a structured dtype with a field per channel, so sweeps handle them like
other voxels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Range, Ranges
from beam_volumes.base.space import AXES, Space
from beam_volumes.graph.nodes import Formula, FormulaValue, Node, StageNode, times_below
from beam_volumes.graph.scalar import Scalar
from beam_volumes.storage.sources.source import DTYPES
from beam_volumes.sweep.stage import Block, Regrid, Stage

#: The axes of lazy arrays, which have no time axis.
_AXES = ("c", *AXES)


@dataclass(frozen=True, eq=False)
class ArrayStage(Regrid):
    """The numbers of a lazy array as voxels, without input."""

    cost = 0.3

    def kept_bytes(self, rows: int, cols: int) -> int:
        return math.prod(self.grid) * self.dtype.itemsize

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        z, y, x = out.start
        array = np.asarray(values[0]).reshape(self.grid)
        for k in range(out.depth):
            out.slice(k, y0, y1)[...] = array[z + k, y + y0 : y + y1, x : x + out.cols]


@dataclass(frozen=True, eq=False)
class Turned(Formula):
    """An array with permuted axes."""

    order: tuple[int, ...]

    def evaluate(self, *arguments: Any) -> Any:
        return np.transpose(arguments[0], self.order)


def array_nodes(
    numbers: Scalar, axes: Sequence[str] | None = None
) -> tuple[tuple[Node, ...], Space]:
    """The nodes and space of a lazy array with 1 to 4 dimensions as a volume.

    ``axes`` are the last ones of c, z, y, x by default; a time axis is not possible. A single axis x makes
    one row. ValueError if dimensions or dtype do not fit.
    """
    letters = _AXES[-numbers.ndim :] if axes is None else tuple(axes)
    if (
        numbers.dtype not in DTYPES
        or not 0 < numbers.ndim == len(letters)
        or not set(letters) <= set(_AXES)
    ):
        given = "" if axes is None else f"axes={''.join(letters)!r}: "
        raise ValueError(
            f"{given}{numbers!r} cannot be a volume; it needs 1 to 4 of the dimensions c, z, y, "
            "x, and numbers of up to 64 bits"
        )
    order = [letters.index(a) for a in _AXES if a in letters]
    if order != sorted(order):
        turned = np.empty(numbers.shape).transpose(order).shape
        formula = Turned("transpose", tuple(order))
        numbers = Scalar(FormulaValue.of(formula, (numbers.value,), numbers.dtype, turned))
    named = dict(zip([a for a in _AXES if a in letters], numbers.shape, strict=True))
    each = [numbers[c] for c in range(named["c"])] if "c" in named else [numbers]
    z, y, x = (named.get(a, 1) for a in AXES)
    stage = ArrayStage(numbers.value.name, numbers.dtype, (0, 0, 0), (z, y, x))
    visible = tuple(a for a in AXES if a in named or a == "y")
    space = Space(axes=visible).with_leading(times_below([numbers.value]), len(each) > 1, ())
    return tuple(StageNode.of(stage, (), (n.value,)) for n in each), space


@dataclass(frozen=True, eq=False)
class Repeated(Regrid):
    """Repeats the only slice, row or column of its input along axes of extent 1."""

    cost = 0.3

    def needs(self, axis: int, wanted: Ranges) -> Range:
        return (0, 1) if self._repeats(axis) else wanted[axis]

    def _repeats(self, axis: int) -> bool:
        return self.of[axis] == 1 != self.grid[axis]

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        block = inputs[0]
        # The position of the result's first voxel in the block.
        z, y, x = (
            0 if self._repeats(a) else out.start[a] - block.start[a] for a in range(len(out.start))
        )
        rows = slice(0, 1) if self._repeats(1) else slice(y + y0, y + y1)
        cols = slice(0, 1) if self._repeats(2) else slice(x, x + out.cols)
        for k in range(out.depth):
            out.slice(k, y0, y1)[...] = block.slice(0 if self._repeats(0) else z + k)[rows, cols]


def interleaved_dtype(dtype: np.dtype, channels: int) -> np.dtype:
    """The dtype of a voxel with several channels.

    >>> interleaved_dtype(np.dtype("u1"), 3).itemsize
    3
    """
    return np.dtype([(str(k), dtype) for k in range(channels)])


@dataclass(frozen=True, eq=False)
class Interleave(Stage):
    """Joins several channels into one array."""

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
    """Extracts one channel."""

    field: str

    cost = 0.5

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            out.slice(k, y0, y1)[...] = inputs[0].slice(k, y0, y1)[self.field]


def interleaved(nodes: Sequence[Node], dtype: np.dtype) -> Node:
    """The node that joins several nodes as channels of a dtype."""
    stage = Interleave("interleave", interleaved_dtype(dtype, len(nodes)))
    return StageNode.of(stage, tuple(nodes))


def separated(node: Node, name: str) -> tuple[Node, ...]:
    """The nodes of the separate channels of a node."""
    fields: Any = node.dtype.fields
    return tuple(StageNode.of(Separate(name, fields[field][0], field), (node,)) for field in fields)
