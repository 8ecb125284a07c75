"""Surveys with table steps: tables from other tables, in the merge of one sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import StoredTable, TableStep, chained, stored_flow
from beam_volumes.across.rounds.flow import Flow
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.graph.nodes import Barrier, Node
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import as_volume
from beam_volumes.ops.labels.surveys.table_surveys import no_room
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.survey import Expected, MergeSize, StoredOperand, Survey, Surveyor


@dataclass(frozen=True, eq=False)
class StoredSurvey(Survey):
    """An existing table, which needs nothing from slabs."""

    table: StoredTable

    upper = False
    cost = 0.0

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.table.extents

    @property
    def tables(self) -> tuple[StoredOperand, ...]:
        return (self.table,)

    def most_rows(self, voxels: int) -> int:
        return self.table.rows

    def likely_rows(self, voxels: int) -> int:
        return self.table.rows

    def expected(self, grid: Grid, part: Grid, whole: Any, summaries: Sequence[Any]) -> Expected:
        return Expected(self.table.rows, "rows", 0)

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        return _Nothing()

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        return stored_flow(self.table)

    def no_rows(self, shape: Triple) -> dict[str, np.ndarray]:
        return {name: np.empty(0, dtype) for name, dtype in self.table.names}

    def empty_numbers(self) -> dict[str, Any]:
        return {"shards": 1}


class _Nothing(Surveyor):
    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        pass

    def finish(self) -> None:
        return None


@dataclass(frozen=True, eq=False)
class ChainSurvey(Survey):
    """Several surveys of one sweep, and table steps that process their rows."""

    sources: tuple[Survey, ...]  #: They take no lazy numbers.
    operands: tuple[tuple[int, ...], ...]  #: The barrier's operands for each source.
    steps: tuple[TableStep, ...]  #: In order; the last one yields rows, numbers and answers.
    #: The inputs of each step, numbered as in `beam_volumes.across.rounds.chains.chained`.
    inputs: tuple[tuple[int, ...], ...]

    @cached_property
    def _upper(self) -> bool:
        return any(s.upper for s in self.sources)

    @cached_property
    def _known_sizes(self) -> dict[Triple, MergeSize]:
        """Sizes of steps by the shape of the volume: a plan compares many slabs of one volume."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_upper", "_known_sizes")}

    @property
    def upper(self) -> bool:
        return self._upper

    @property
    def extents(self) -> tuple[Extent, ...]:
        return tuple(e for s in self.sources for e in s.extents)

    @property
    def tables(self) -> tuple[StoredOperand, ...]:
        return tuple(t for s in self.sources for t in s.tables)

    @property
    def cost(self) -> float:
        return sum(s.cost for s in self.sources)

    def _dtypes(self, k: int, dtypes: tuple[np.dtype, ...]) -> tuple[np.dtype, ...]:
        return tuple(dtypes[i] for i in self.operands[k])

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        each = (s.working_bytes(shape, self._dtypes(k, dtypes)) for k, s in enumerate(self.sources))
        return max(each)

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return sum(s.state_bytes(shape, windows) for s in self.sources)

    def likely_bytes(self, shape: Triple, windows: int) -> int:
        return sum(s.likely_bytes(shape, windows) for s in self.sources)

    def merge_size(self, grid: Grid) -> MergeSize:
        sizes = [s.merge_size(grid) for s in self.sources]
        if grid.shape not in self._known_sizes:
            self._known_sizes[grid.shape] = self._step_sizes(grid)
        sizes.append(self._known_sizes[grid.shape])
        return MergeSize(
            max(s.certain for s in sizes),
            max(s.expected for s in sizes),
            max(s.maximum for s in sizes),
        )

    def _step_sizes(self, grid: Grid) -> MergeSize:
        voxels = math.prod(grid.shape)
        # The rows of stored tables are known.
        known = self._rows([s.most_rows(0) for s in self.sources])
        worst = self._rows([s.most_rows(voxels) for s in self.sources])
        return MergeSize(
            max(step.gathered_bytes(own) for step, own in known),
            self._likely_bytes(grid, self._likely_rows(grid)),
            max(step.most_bytes(own) for step, own in worst),
        )

    def expected(
        self, grid: Grid, part: Grid, whole: Sequence[Any], summaries: Sequence[Any]
    ) -> Expected:
        found = [
            s.expected(grid, part, own, ()) for s, own in zip(self.sources, whole, strict=True)
        ]
        rows = [round(e.count) for e in found]
        steps = (e.step_bytes for e in found)
        likely = self._likely_bytes(grid, self._rows(rows, is_likely=True))
        return Expected(sum(rows), "rows", max(likely, *steps))

    @staticmethod
    def _likely_bytes(grid: Grid, steps: Iterable[tuple[TableStep, list[int]]]) -> int:
        """Return the expected bytes of the largest round of steps with so many rows."""
        return max(step.likely_bytes(own, grid.shape) for step, own in steps)

    def _likely_rows(self, grid: Grid) -> Iterator[tuple[TableStep, list[int]]]:
        """Return the steps with the expected rows of their inputs."""
        voxels = math.prod(grid.shape)
        rows = [min(s.likely_rows(voxels), s.most_rows(voxels)) for s in self.sources]
        return self._rows(rows, is_likely=True)

    def _rows(
        self, rows: list[int], is_likely: bool = False
    ) -> Iterator[tuple[TableStep, list[int]]]:
        """Return the steps with the rows of their inputs, at most or expected, from the rows of sources."""
        rows = list(rows)
        for step, inputs in zip(self.steps, self.inputs, strict=True):
            own = [rows[i] for i in inputs]
            yield step, own
            rows.append(step.likely_rows(own) if is_likely else step.most_rows(own))

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        own = tuple(s.begin(grid, index, (), limit_bytes) for s in self.sources)
        return _Several(self, own, grid, index, limit_bytes)

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        flows = [s.flow(grid, limit_bytes) for s in self.sources]
        sized = (step.sized(rows, limit_bytes) for step, rows in self._likely_rows(grid))
        return chained(flows, list(zip(sized, self.inputs, strict=True)), limit_bytes)

    def no_rows(self, shape: Triple) -> dict[str, np.ndarray]:
        return self.steps[-1].no_rows()

    def empty_numbers(self) -> dict[str, Any]:
        return self.steps[-1].empty_numbers()


class _Several(Surveyor):
    """The surveys of a chain, each with its operands."""

    def __init__(
        self,
        chain: ChainSurvey,
        own: tuple[Surveyor, ...],
        grid: Grid,
        index: int,
        limit_bytes: int,
    ) -> None:
        self.chain, self.own = chain, own
        self.core, self.limit_bytes = grid.box(index).shape, limit_bytes

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        depth, rows, cols = self.core
        for survey, surveyor, operands in zip(
            self.chain.sources, self.own, self.chain.operands, strict=True
        ):
            inputs = tuple(arrays[i] for i in operands)
            if not survey.upper:
                if z[0] >= depth:
                    continue
                inputs = tuple(a[: depth - z[0], :rows, :cols] for a in inputs)
            surveyor.feed(inputs, (z[0], z[1] if survey.upper else min(z[1], depth)), threads)
            if self.held_bytes > self.limit_bytes:
                raise no_room("rows of several tables", self.limit_bytes)

    @property
    def held_bytes(self) -> int:
        return sum(s.held_bytes for s in self.own)

    def finish(self) -> tuple[Any, ...]:
        return tuple(s.finish() for s in self.own)


@dataclass(frozen=True)
class Chain:
    """The surveys, operands and table steps of a barrier."""

    sources: tuple[Survey, ...]
    operands: tuple[tuple[Node, ...], ...]
    steps: tuple[TableStep, ...] = ()
    inputs: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, table: Table) -> Chain:
        barrier = table.barrier
        survey = barrier.survey
        if not isinstance(survey, ChainSurvey):
            used = () if isinstance(survey, StoredSurvey) else barrier.operands
            return cls((survey,), (used,))
        nodes = tuple(tuple(barrier.operands[i] for i in own) for own in survey.operands)
        return cls(survey.sources, nodes, survey.steps, survey.inputs)


def then(step: TableStep, inputs: Sequence[Table | Chain], name: str) -> Barrier:
    """Append a step to its inputs: tables, or chains of one source without steps.

    ValueError if the inputs depend on volumes of several shapes.
    """
    chains = [Chain.of(i) if isinstance(i, Table) else i for i in inputs]
    # A common source of several inputs is surveyed once.
    sources: dict[tuple[str, ...], tuple[Survey, tuple[Node, ...]]] = {}
    for c in chains:
        for survey, own in zip(c.sources, c.operands, strict=True):
            sources.setdefault(_key(survey, own), (survey, own))
    place = {key: i for i, key in enumerate(sources)}
    # A common step, too.
    steps: dict[tuple[str, tuple[int, ...]], TableStep] = {}
    ends: list[int] = []
    for c in chains:
        at = [place[_key(*own)] for own in zip(c.sources, c.operands, strict=True)]
        for one, needed in zip(c.steps, c.inputs, strict=True):
            known = one.token(), tuple(at[i] for i in needed)
            steps.setdefault(known, one)
            at.append(len(sources) + [*steps].index(known))
        ends.append(at[-1] if c.steps else at[0])
    nodes: dict[str, Node] = {n.token: n for _, some in sources.values() for n in some}
    shapes = {n.shape for n in nodes.values()}
    if len(shapes) > 1:
        raise ValueError(
            f"{name}: its inputs depend on volumes of shapes {' and '.join(map(str, sorted(shapes)))} "
            "(z, y, x): write the table to Parquet first, and give its path"
        )
    if not nodes:  # use one voxel, for the slab that reads tables
        nothing = as_volume(np.zeros((1, 1, 1), np.uint8)).node
        nodes = {nothing.token: nothing}
    places = {token: i for i, token in enumerate(nodes)}
    chain = ChainSurvey(
        name,
        tuple(s for s, _ in sources.values()),
        tuple(tuple(places[n.token] for n in some) for _, some in sources.values()),
        (*steps.values(), step),
        (*(needed for _, needed in steps), tuple(ends)),
    )
    return Barrier.of(chain, tuple(nodes.values()))


def _key(survey: Survey, operands: tuple[Node, ...]) -> tuple[str, ...]:
    return (survey.token(), *(n.token for n in operands))
