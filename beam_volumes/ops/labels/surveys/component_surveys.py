"""Connected components in two sweeps: summaries of slabs, then the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beam_volumes.across import components as cc
from beam_volumes.across.merge import COMPONENT_BYTES, Keep
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.across.rounds.flow import Flow
from beam_volumes.base.geometry import Grid, Triple, connectivity_structure
from beam_volumes.base.text import format_bytes
from beam_volumes.kernels.cuda import run_bytes
from beam_volumes.kernels.labels import edges
from beam_volumes.kernels.labels.components import count_runs
from beam_volumes.kernels.scratch import nbytes
from beam_volumes.ops.labels.surveys.merge_estimate import MergeEstimate, expected_load, times
from beam_volumes.sweep.stage import Block
from beam_volumes.sweep.survey import (
    VOXELS_PER_BASIN,
    VOXELS_PER_LABEL,
    Completer,
    Completion,
    Expected,
    MergeSize,
    NoRoom,
    Survey,
    Surveyor,
)

#: Bytes reserved for each expected component, so that there may be several times as many.
_RESERVED = 120
#: Bytes reserved for a component that starts in a window.
_BEGUN = 36
#: Expected voxels per component, and the minimum of expected components.
_SPARSE, _FEW = 500, 8_000
#: Expected pieces of basins per voxel of a face: measured for noise; smoother images have 0.32 to 0.40.
_FACES = 0.47
#: Maximum bytes reserved for faces that are full across one axis, as for ramps.
_FULL = 512 << 20
#: Voxels per start of a basin in a window: 14 to 50 for noise with basins of 300 voxels.
_BEGINS = 14
#: Maximum number of threads that find runs of a window at the same time, for planning.
_STRIPS = 64
_MASK = np.dtype(bool)


def _continued(shape: Triple) -> int:
    """Return the bytes kept between windows if each voxel of a plane has its own component."""
    return 32 * shape[1] * shape[2]


def _bits_bytes(shape: Triple) -> int:
    """Return the bytes that are needed to find runs, in addition to the runs."""
    return nbytes(count_runs.scratch(shape[0] * shape[1], shape[2]))


def _edges_bytes(shape: Triple) -> int:
    """Return the bytes that are needed to find components with codes; their runs are short."""
    rows, cols = shape[0] * shape[1], shape[2]
    scratch = nbytes(edges.find_runs.scratch(rows, cols)) * min(rows, _STRIPS)
    return math.prod(shape) * 28 + scratch + _continued(shape)


@dataclass(frozen=True, eq=False)
class ComponentSurvey(Survey):
    """Connected components of the first input, marked by the second, if there is one."""

    structure: np.ndarray  #: bool (3, 3, 3)
    by_value: bool = False
    background: Any = 0
    measures: tuple[str, ...] = ()  #: As for `beam_volumes.across.components.SlabLabeler`.
    border_axes: tuple[int, ...] = (0, 1, 2)
    border: int = 1
    keep: Keep | None = None  #: Selects components; all by default.
    k_largest: int | None = None  #: Maximum number of components.
    dtype: np.dtype = _MASK  #: The dtype of ids; bool for a mask of the selected components.

    cost = 4.0
    #: One thread joins and numbers runs of strips: 0.13 for blobs, 0.4 for sparse noise.
    serial: ClassVar[float] = 0.2

    @property
    def labelling(self) -> cc.Labelling:
        return cc.Labelling(self.structure, self.by_value, self.background)

    def has_device_code(self, inputs: int) -> bool:
        return inputs == 1 and type(self) is ComponentSurvey and not self.by_value

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return run_bytes(depth, rows, cols, self.labelling.is_joined)

    @property
    def radix(self) -> Triple | None:
        """As for `component_flow`."""
        return None

    @property
    def column_bytes(self) -> int:
        """Bytes of a component's payload."""
        columns = {"size": 8, "box": 48, "touches_border": 1}
        marks = int(bool(self.keep and self.keep.marked is not None))
        return sum(columns[m] for m in self.measures) + marks

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        found = math.prod(shape) * (12 + sum(d.itemsize for d in dtypes))
        return found + _bits_bytes(shape) + _continued(shape) // 2

    @property
    def answer_share(self) -> float:
        return 2 * self.dtype.itemsize / sum(cc.bytes_in_slab(False, 0))

    def state_bytes(self, shape: Triple, windows: int) -> int:
        each = _RESERVED + (3 * 48 if "box" in self.measures else 3 * 8 * len(self.measures))
        return max(_FEW, math.prod(shape) // _SPARSE) * each

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

    def merge_size(self, grid: Grid) -> MergeSize:
        # In a mask, every other voxel can be a component if faces join voxels.
        across_faces = self.structure[[0, 1, 1], [1, 0, 1], [1, 1, 0]]
        each = 0.5 if across_faces.all() and not self.by_value else 1.0
        return self._merge_size(grid, self._step_bytes(grid, _SPARSE ** (-2 / 3)), each)

    def _merge_size(self, grid: Grid, expected: int, each: float) -> MergeSize:
        """The size with at most ``each`` components per pixel of faces."""
        # A face has one more row and column, shared with the next slabs.
        pixels = [math.prod(n + 1 for n in (*grid.step[:a], *grid.step[a + 1 :])) for a in range(3)]
        areas = [math.prod(grid.step) // n for n in grid.step]
        full = [math.ceil(each * n) / area for n, area in zip(pixels, areas, strict=True)]
        maximum = self._step_bytes(grid, np.array(full))
        return MergeSize(expected=min(expected, maximum), maximum=maximum)

    def _step_bytes(self, grid: Grid, density: float | np.ndarray) -> int:
        """Bytes of the largest step, given the components per pixel of faces across each axis."""
        return round(expected_load(grid, self.radix, density * np.ones(3)) * self.merged_bytes)

    def expected(
        self, grid: Grid, part: Grid, whole: cc.SlabSummary, summaries: Sequence[cc.SlabSummary]
    ) -> Expected:
        load = self.load(part, 0, 1, 0)
        step = load.scaled(map(load.of_slab, summaries), grid)
        return Expected(times(grid, part) * len(whole.ids), "components", step)

    @property
    def merged_bytes(self) -> int:
        """Bytes per component in a step of the merge."""
        return COMPONENT_BYTES + 3 * self.column_bytes

    def load(
        self, grid: Grid, limit_bytes: int, workers: int | None, slab_limit_bytes: int
    ) -> MergeEstimate:
        return MergeEstimate.of(
            grid,
            limit_bytes,
            self.radix,
            self.name,
            workers,
            sum(cc.bytes_in_slab(cc.are_wide(grid), self.column_bytes)),
            slab_limit_bytes,
        )


class _Labeler(Surveyor):
    def __init__(self, survey: ComponentSurvey, grid: Grid, index: int, limit_bytes: int):
        self.survey, self.limit_bytes = survey, limit_bytes
        self.slab = grid.box(index)
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
        if self.labeler.nbytes > self.limit_bytes:
            self.labeler.merge()
        if self.labeler.nbytes > self.limit_bytes:
            raise NoRoom(
                f"{self.labeler.pieces} components in the first {z[1]} slices of the slab "
                f"{self.slab} need more than the {format_bytes(self.limit_bytes)} that the budget "
                "leaves for them"
            )

    def finish(self) -> cc.SlabSummary:
        return self.labeler.finish()


@dataclass(frozen=True, eq=False)
class Relabel(Completion):
    """Labels each window again and writes the answer for each component.

    Fields are described in `ComponentSurvey`, which must have processed the same voxels.
    """

    structure: np.ndarray
    by_value: bool
    background: Any

    yields_labels = True
    cost = 5.0
    #: As for the survey, but more is parallel: 0.04 for blobs, 0.2 for dense noise.
    serial: ClassVar[float] = 0.1

    @property
    def labelling(self) -> cc.Labelling:
        return cc.Labelling(self.structure, self.by_value, self.background)

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        found = math.prod(shape) * (12 + dtypes[0].itemsize)
        return found + _bits_bytes(shape) + _continued(shape) // 2

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
    """Components of voxels with codes that select edges.

    A slab with few basins has many components: the parts of basins at its faces.
    """

    cost = 8.0

    @classmethod
    def of(cls, name: str, dtype: np.dtype) -> EdgeSurvey:
        return cls(name, connectivity_structure(1), background=None, dtype=dtype)

    @property
    def labelling(self) -> cc.Labelling:
        return cc.EdgeLabelling()

    @property
    def radix(self) -> Triple:
        return (2, 2, 2)

    @property
    def answer_share(self) -> float:
        begun, _ = cc.bytes_in_slab(False, 0)
        return 2 * self.dtype.itemsize / begun

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return _edges_bytes(shape)

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return super().state_bytes(shape, windows) + math.prod(shape) // _BEGINS * _BEGUN

    def merge_size(self, grid: Grid) -> MergeSize:
        # Each voxel follows one along one axis: faces across this axis may be as full as possible.
        full = max(self._step_bytes(grid, across) for across in np.eye(3))
        return self._merge_size(grid, max(self._step_bytes(grid, _FACES), min(full, _FULL)), 1.0)


@dataclass(frozen=True, eq=False)
class RelabelEdges(Relabel):
    """Writes the answer for each component of voxels with codes."""

    #: Expected voxels per component; `VOXELS_PER_LABEL` for basins of heights, as in versions that
    #: expected so many, because it belongs to the token of a run.
    basin: int

    cost = 8.0

    @classmethod
    def of(cls, name: str, dtype: np.dtype, basin: int) -> RelabelEdges:
        return cls(name, dtype, connectivity_structure(1), False, None, basin)

    @property
    def voxels_per_label(self) -> int:
        return VOXELS_PER_BASIN if self.basin == VOXELS_PER_LABEL else self.basin

    @property
    def labelling(self) -> cc.Labelling:
        return cc.EdgeLabelling()

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return _edges_bytes(shape)

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return math.prod(shape) // _BEGINS * 2 * self.dtype.itemsize
