"""Lazy arrays as volumes: a projection, say, or the mean of each slice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.space import AXES, Space
from beam_volumes.graph.nodes import Formula, FormulaValue, StageNode, times_below
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume
from beam_volumes.storage.sources.source import DTYPES
from beam_volumes.sweep.stage import Block, Regrid

#: What lazy arrays without a volume beside them are taken for; points in time are no axis of them.
_AXES = ("c", *AXES)


@dataclass(frozen=True, eq=False)
class ArrayStage(Regrid):
    """The numbers of a lazy array as voxels. It takes no input."""

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


def volume_of(numbers: Scalar, axes: Sequence[str] | None = None) -> Volume:
    """A lazy array as a volume.

    Parameters
    ----------
    numbers : Scalar
        Of 1 to 4 dimensions; one of x alone has one row.
    axes : sequence of str, optional
        What its dimensions are: the last ones of c, z, y, x by default. Those of points in time are none.

    Raises
    ------
    ValueError
        It has other dimensions, or numbers that voxels cannot be.
    """
    letters = _AXES[-numbers.ndim :] if axes is None else tuple(axes)
    if (
        numbers.dtype not in DTYPES
        or not 0 < numbers.ndim == len(letters)
        or not set(letters) <= set(_AXES)
    ):
        said = "" if axes is None else f"axes={''.join(letters)!r}: "
        raise ValueError(
            f"{said}{numbers!r} is no such volume: it needs 1 to 4 dimensions, each one of c, z, y, x, and "
            "numbers of up to 64 bits"
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
    seen = tuple(a for a in AXES if a in named or a == "y")
    space = Space(axes=seen).with_leading(times_below([numbers.value]), len(each) > 1, ())
    return Volume(tuple(StageNode.of(stage, (), (n.value,)) for n in each), space)


@dataclass(frozen=True, eq=False)
class Turned(Formula):
    """An array with its axes in another order."""

    order: tuple[int, ...]

    def evaluate(self, *arguments: Any) -> Any:
        return np.transpose(arguments[0], self.order)
