"""Connected components as an operation in two sweeps: what a slab tells, and what it writes then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beam_volumes.across import components as cc
from beam_volumes.across.merge import COMPONENT_BYTES, Keep
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.across.rounds.flow import Flow
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.ops.labels.surveys.merge_estimate import MergeEstimate, expected_load
from beam_volumes.sweep.stage import Block
from beam_volumes.sweep.survey import Completer, Completion, Survey, Surveyor

#: Bytes a surveyor takes for a component while its window is labelled and its slab is summarised.
_COMPONENT = 120
#: Bytes it takes for one that begins in a window, even if that is part of another one by now.
_BEGUN = 36
#: Voxels for which a component is reckoned with where nothing is known yet, and so many in any case.
_SPARSE, _FEW = 500, 8_000
#: Bytes set aside, at the most, for a step of the merge of basins, which needs more in large volumes: what it
#: takes in is known before it begins.
_MERGE = 512 << 20
#: Voxels for which part of a basin begins in a window: of noise smoothed to basins of 300 voxels, 14 to 50.
_BEGINS = 14
_MASK = np.dtype(bool)


def _continued(shape: Triple) -> int:
    """Return the bytes kept between windows if each voxel of a plane belongs to another component."""
    return 32 * shape[1] * shape[2]


@dataclass(frozen=True, eq=False)
class ComponentSurvey(Survey):
    """Connected components of the first input, flagged where the second, if any, marks them."""

    structure: np.ndarray  #: bool (3, 3, 3)
    by_value: bool = False
    background: Any = 0
    measures: tuple[str, ...] = ()  #: As of `beam_volumes.across.components.SlabLabeler`.
    border_axes: tuple[int, ...] = (0, 1, 2)
    border: int = 1
    keep: Keep | None = None  #: Which components remain; all by default.
    k_largest: int | None = None  #: Only so many.
    dtype: np.dtype = _MASK  #: Of the ids, bool for one that says which voxels remain.

    cost = 4.0
    #: Runs of strips are joined and numbered by one thread: 0.13 of blobs, 0.4 of sparse noise.
    serial: ClassVar[float] = 0.2

    @property
    def labelling(self) -> cc.Labelling:
        return cc.Labelling(self.structure, self.by_value, self.background)

    @property
    def radix(self) -> Triple | None:
        """As of `component_flow`."""
        return None

    @property
    def component_bytes(self) -> int:
        return _COMPONENT + (3 * 48 if "box" in self.measures else 3 * 8 * len(self.measures))

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return math.prod(shape) * (12 + sum(d.itemsize for d in dtypes)) + _continued(shape) // 2

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return max(_FEW, math.prod(shape) // _SPARSE) * self.component_bytes

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        return _Labeler(self, grid, index, limit_bytes)

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        mask = self.dtype == bool
        options: dict[str, Any] = {} if mask else {"dtype": self.dtype}
        return component_flow(
            grid,
            radix=self.radix,
            keep=self.keep,
            k_largest=self.k_largest,
            as_mask=mask,
            **options,
        )

    def empty_numbers(self) -> dict[str, Any]:
        return {"count": 0}

    def most_load(self, grid: Grid) -> int:
        every_other = np.full(3, 0.5)
        return round(expected_load(grid, self.radix, every_other) * self.merged_bytes)

    @property
    def merged_bytes(self) -> int:
        """Per component, of what a step of the merge holds."""
        columns = {"size": 8, "box": 48, "touches_border": 1}
        marks = int(bool(self.keep and self.keep.marked is not None))
        return COMPONENT_BYTES + 3 * (sum(columns[m] for m in self.measures) + marks)

    def load(self, grid: Grid, limit_bytes: int, workers: int) -> MergeEstimate:
        return MergeEstimate.of(
            grid, limit_bytes, self.radix, self.name, workers, _BEGUN + self.component_bytes
        )

    def load_of(self, grid: Grid, index: int, summary: Any) -> Any:
        return self.load(grid, 0, 1).of_slab(summary)


class _Labeler(Surveyor):
    def __init__(self, survey: ComponentSurvey, grid: Grid, index: int, limit_bytes: int):
        self.survey, self.limit_bytes = survey, limit_bytes
        self.slab, self.grid = grid.box(index), grid
        self.labeler = cc.SlabLabeler(
            grid,
            grid.cell(index),
            survey.labelling,
            survey.measures,
            survey.border_axes,
            survey.border,
        )

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        mask, *seeds = arrays
        self.labeler.feed(mask, seeds[0] if seeds else None, threads=threads)
        if self._bytes > self.limit_bytes:
            self.labeler.merge()
        if self._bytes > self.limit_bytes:
            depth, rows, cols = self.grid.step
            smaller = (max(1, depth // 4), rows, cols)
            raise ValueError(
                f"{self.labeler.pieces} components in the first {z[1]} slices of the slab {self.slab} take "
                f"more than the {format_bytes(self.limit_bytes)} that the budget leaves for them: give it "
                f"more memory, or smaller slabs, e.g. slab={smaller}"
            )

    @property
    def _bytes(self) -> int:
        own, labeler = self.survey.component_bytes, self.labeler
        return labeler.begun * _BEGUN + labeler.pieces * own

    def finish(self) -> cc.SlabSummary:
        return self.labeler.finish()


@dataclass(frozen=True, eq=False)
class Relabel(Completion):
    """Writes what came back for each component, labelling each window again.

    Attributes are those of `ComponentSurvey`, which has to have seen the same voxels.
    """

    structure: np.ndarray
    by_value: bool
    background: Any

    yields_labels = True
    cost = 5.0
    #: As of the survey, but more is shared: 0.04 of blobs, 0.2 of dense noise.
    serial: ClassVar[float] = 0.1

    @property
    def labelling(self) -> cc.Labelling:
        return cc.Labelling(self.structure, self.by_value, self.background)

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return math.prod(shape) * (12 + dtypes[0].itemsize) + _continued(shape) // 2

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return math.prod(shape) // _SPARSE * 4 * self.dtype.itemsize

    def begin(self, grid: Grid, index: int, answer: Any) -> Completer:
        return _Relabeler(self, *answer)


class _Relabeler(Completer):
    def __init__(self, how: Relabel, ids: tuple[np.ndarray, ...], digests: tuple[int, ...]):
        self.relabeler = cc.SlabRelabeler(how.labelling, ids, digests)

    def run(
        self, arrays: tuple[np.ndarray, ...], out: Block, z: tuple[int, int], threads: int
    ) -> None:
        found, ids = self.relabeler.feed(arrays[0], threads)
        table = cc.painted_with(ids, out.ring.dtype)
        found.paint(table, map(out.slice, range(out.depth)), threads)


@dataclass(frozen=True, eq=False)
class EdgeSurvey(ComponentSurvey):
    """Components of voxels whose codes say which edges count.

    A slab of few basins has many components: at its faces, those of voxels that follow one beyond them.
    """

    cost = 8.0

    @classmethod
    def of(cls, name: str, dtype: np.dtype) -> EdgeSurvey:
        return cls(name, cc.connectivity_structure(1), background=None, dtype=dtype)

    @property
    def labelling(self) -> cc.Labelling:
        return cc.EdgeLabelling()

    @property
    def radix(self) -> Triple:
        return (2, 2, 2)

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return math.prod(shape) * 28 + _continued(shape)  # runs are short

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return super().state_bytes(shape, windows) + math.prod(shape) // _BEGINS * _BEGUN

    def merge_bytes(self, grid: Grid) -> int:
        # Each voxel follows one along one axis: faces across that are as full as they can be.
        full = max(expected_load(grid, self.radix, along) for along in np.eye(3))
        return self.state_bytes(grid.step, 1) + min(round(full * self.merged_bytes), _MERGE)


@dataclass(frozen=True, eq=False)
class RelabelEdges(Relabel):
    """Writes what came back for each component of such voxels."""

    basin: int  #: How many voxels a component may well have.

    cost = 8.0

    @classmethod
    def of(cls, name: str, dtype: np.dtype, basin: int) -> RelabelEdges:
        return cls(name, dtype, cc.connectivity_structure(1), False, None, basin)

    @property
    def voxels_per_label(self) -> int:
        return self.basin

    @property
    def labelling(self) -> cc.Labelling:
        return cc.EdgeLabelling()

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return math.prod(shape) * 28 + _continued(shape)

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return math.prod(shape) // _BEGINS * 2 * self.dtype.itemsize
