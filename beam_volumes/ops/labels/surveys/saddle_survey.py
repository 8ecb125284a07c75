"""A survey of labels and heights: the lowest pass between touching labels, also across corners."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from beam_volumes.across.adjacency import Adjacency
from beam_volumes.across.exact import Wide
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.labels import saddles as kernels
from beam_volumes.ops.labels.surveys.table_surveys import AdjacencySurvey, AdjacencySurveyor


@dataclass(frozen=True, eq=False)
class SaddleSurvey(AdjacencySurvey):
    """Pairs of labels (the first input) that touch by a structure, with heights (the second).

    The table is like the one of `AdjacencySurvey`, with the pass in ``boundary_min`` and no faces.
    """

    structure: np.ndarray  #: bool (3, 3, 3), symmetric.

    @property
    def cost(self) -> float:
        return 4.0 * float(np.count_nonzero(self.structure))

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        voxels = (shape[0] + 1) * (shape[1] + 1) * (shape[2] + 1)
        return super().working_bytes(shape, dtypes) + 16 * voxels

    def begin(
        self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int
    ) -> SaddleSurveyor:
        return SaddleSurveyor(self, grid, index, limit_bytes)


class SaddleSurveyor(AdjacencySurveyor):
    """Passes between all voxels of a slab's region; two slabs find the same ones in shared voxels."""

    def __init__(self, survey: SaddleSurvey, grid: Grid, index: int, limit_bytes: int) -> None:
        super().__init__(survey, grid, index, limit_bytes)
        before = [s for s in product((-1, 0, 1), repeat=3) if s < (0, 0, 0)]
        steps = [s for s in before if survey.structure[s[0] + 1, s[1] + 1, s[2] + 1]]
        self.steps = np.array(steps, np.int64).reshape(-1, 3)
        self.previous: tuple[np.ndarray, np.ndarray] | None = None

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        under = self.previous is not None
        depth, *plane = arrays[0].shape
        labels = np.empty((depth + under, *plane), np.uint64)
        heights = np.empty(labels.shape)
        labels[under:], heights[under:] = arrays
        if self.previous is not None:
            labels[0], heights[0] = self.previous
        self.rows.add(_of(*kernels.passes(labels, heights, int(under), self.steps)))
        self.previous = labels[-1].copy(), heights[-1].copy()


def _of(found: np.ndarray, values: np.ndarray) -> Adjacency:
    order = np.lexsort((found[:, 1], found[:, 0]))
    n = len(order)
    return Adjacency(
        found[order],
        np.zeros((n, 3), np.int64),
        np.ones(n, np.int64),
        np.stack([values[order]] * 2, axis=1),
        Wide.of(np.zeros((n, 1), np.int64)),
        np.zeros((n, 0), np.int64),
    )
