"""Stages of the watershed: the edge that each voxel follows, and codes of selected edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Halo, Triple
from beam_volumes.kernels.labels import watershed as kernels
from beam_volumes.kernels.scratch import Scratch, arrays
from beam_volumes.sweep.stage import Block, Padding, Stage

#: Of scratch in plans: kernels use the dtype of heights or affinities.
_WIDEST = np.dtype(np.float64)
_AROUND: Halo = ((1, 1), (1, 1), (1, 1))
_BEFORE: Halo = ((1, 0), (1, 0), (1, 0))
_AFTER: Halo = ((0, 1), (0, 1), (0, 1))


@dataclass(frozen=True, eq=False)
class ByHeight(Stage):
    """The edge that each voxel follows, from heights and roles."""

    shape: Triple  #: The shape of the volume.
    remedy: str = ""  #: A remedy for NaN, in addition to replacing it.

    compiled = True
    cost = 8.0
    halos = (_AROUND, _AROUND)

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return kernels.choose_by_height.scratch(rows, cols, depth, _WIDEST)  # type: ignore[no-any-return]

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        heights, roles = (b.as_rows for b in inputs)
        where = y0, y1, out.cols, out.start, self.shape
        needs = kernels.choose_by_height.scratch
        scratch = arrays(needs(y1 - y0, out.cols, out.depth, heights.lines.dtype))
        if kernels.choose_by_height(heights, roles, out.as_rows, *where, scratch):
            raise ValueError(f"{self.name}: the volume has NaN voxels; {self.remedy}replace them")


@dataclass(frozen=True, eq=False)
class ByAffinity(Stage):
    """The edge that each voxel follows, from affinities across z, y and x."""

    shape: Triple  #: The shape of the volume.
    low: float

    compiled = True
    cost = 8.0
    halos = (_AFTER, _AFTER, _AFTER)

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return kernels.choose_by_affinity.scratch(rows, cols, depth, _WIDEST)  # type: ignore[no-any-return]

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        z, y, x = (b.as_rows for b in inputs)
        where = y0, y1, out.cols, out.start, self.shape
        needs = kernels.choose_by_affinity.scratch
        scratch = arrays(needs(y1 - y0, out.cols, out.depth, z.lines.dtype))
        kernels.choose_by_affinity(z, y, x, self.low, out.as_rows, *where, scratch)


@dataclass(frozen=True, eq=False)
class Codes(Stage):
    """Codes of the edges that voxels follow, and of edges within a marker."""

    compiled = True
    cost = 4.0
    halos = (_BEFORE, _BEFORE)
    padding = Padding(("constant",) * 3, 0.0)  # type: ignore[assignment]

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        choices, *markers = (b.as_rows for b in inputs)
        kernels.code_choices(choices, out.as_rows, y0, y1, out.cols)
        for rows in markers:
            kernels.add_same(rows, choices, out.as_rows, y0, y1, out.cols)


@dataclass(frozen=True, eq=False)
class HighCodes(Stage):
    """Codes of the edges that voxels follow, and of edges with a high affinity."""

    high: float

    compiled = True
    cost = 6.0
    halos = (_BEFORE,)
    padding = Padding(("constant",) * 3, 0.0)  # type: ignore[assignment]

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        choices, z, y, x = (b.as_rows for b in inputs)
        kernels.code_choices(choices, out.as_rows, y0, y1, out.cols)
        kernels.add_high(z, y, x, self.high, out.start, out.as_rows, y0, y1, out.cols)
