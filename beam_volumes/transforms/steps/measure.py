"""Numbers and tables of the whole volume from its slabs, in one sweep."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import Dict, Tuple, with_input_types

from beam_volumes.across.rounds.flow import Key
from beam_volumes.across.tables import as_labels
from beam_volumes.base.geometry import Box, Grid, Halo
from beam_volumes.base.space import Space
from beam_volumes.base.text import counted
from beam_volumes.graph.nodes import SourceNode, Value, evaluate, number_token
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.labels.comprehension import with_filled_areas
from beam_volumes.ops.labels.regions import region_table
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.plan.cost.machine import cores
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import merging
from beam_volumes.sweep.executor import sweep
from beam_volumes.sweep.resources import gate
from beam_volumes.sweep.survey import NoRoom
from beam_volumes.sweep.writing import SlabResult
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.compute import check_numbers
from beam_volumes.transforms.passes import (
    MergeStates,
    State,
    row_batches,
    slab_ranges,
    state_pieces,
)
from beam_volumes.transforms.rounds import Merges, Take
from beam_volumes.transforms.rows import as_element, rows_of, type_of_number
from beam_volumes.transforms.slab import GivenSlab, Slab, SlabKey, slab_of
from beam_volumes.transforms.steps.components import LabelComponents, grid_of
from beam_volumes.transforms.steps.grids import SlabGrid, halo_of
from beam_volumes.transforms.steps.render import BlockSource, larger_halo, placeholder
from beam_volumes.transforms.steps.slabs import ReadSlabs, check_portable
from beam_volumes.transforms.steps.surveys import index_of, load_pieces, merges_fit
from beam_volumes.transforms.waiting import in_global_window, windowed_as

#: Results of a function of a volume.
Wanted = Scalar | Table
#: Key of the missing slabs in the result; functions cannot have it.
MISSING = "missing"
#: Slabs that are counted together, and the number that messages list.
_BLOCK, _NAMED = 1000, 5
#: Properties of regions that need a halo.
_BEYOND = ("surface_area_faces", "euler_number", "perimeter_crofton", "perimeter")


@with_input_types(GivenSlab)
class MeasureSlabs(beam.PTransform):
    """Measure the whole volume from its slabs: ``(SlabKey, Slab)`` to numbers and tables.

    The results are bit-identical to `compute` of the whole volume. Slabs may arrive in any order
    and in any windows, even from a volume that is still being written. Each slab is reduced to
    small states on arrival, and the numbers are computed after the last slab.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid or WatchSlices
        The division of the volume, and its dtype and space. If a step in between has changed the
        dtype, pass a `SlabGrid` of a volume with the new one.
    partial : bool, default: False
        Whether slabs may be missing. The numbers then cover the slabs that have arrived. Otherwise
        the pipeline fails, and the message lists the missing slabs.
    memory : int or str, optional
        Memory that a worker process may use, such as ``"1GiB"``. If a merge of components needs
        more, the pipeline fails before the merge begins.
    **functions : callable
        Named functions from the whole volume to a lazy number or a table: ``mean=bv.mean``, or
        ``top=lambda v: bv.percentile(bv.median_filter(v, 3), 99)``.

    Returns
    -------
    dict of PCollection
        By name, the number or the rows of a table, in the format of `RegionTable`. With
        ``partial``, also ``"missing"``: the boxes of missing slabs, as text.

    Raises
    ------
    ValueError
        If a function needs more than one sweep over the voxels, for example to measure labels, or a
        larger halo than the slabs have. In a worker, if slabs are missing or arrive twice, or
        components do not fit the memory.
    TypeError
        If a function returns neither a lazy number nor a table.

    See Also
    --------
    LabelSlabs, RegionTable : labels of slabs, and their table.
    Compute : any number of sweeps over stored volumes.

    Notes
    -----
    Only states of slabs are shuffled, not voxels: a few bytes for a mean, or a histogram for a
    percentile of uint8.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(24, dtype="u1").reshape(4, 2, 3))
    >>> read = bv.ReadSlabs(em, depth=2)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     found = p | read | bv.MeasureSlabs(read, mean=bv.mean, odd=lambda v: bv.sum(v % 2))
    ...     _ = found["mean"] | "Mean" >> beam.Map(print)
    ...     _ = found["odd"] | "Odd" >> beam.Map(print)
    11.5
    12
    """

    #: Whether slabs may have any integer dtype.
    _any_labels = False

    def __init__(
        self,
        slabs: ReadSlabs | SlabGrid | Any,
        *,
        partial: bool = False,
        memory: int | float | str | None = None,
        **functions: Callable[[Volume], Wanted],
    ):
        super().__init__()
        self.grid, self.partial, own = grid_of(slabs), partial, type(self).__name__
        volume = getattr(slabs, "volume", None)
        if not isinstance(volume, Volume):
            raise TypeError(
                f"{own}: {slabs!r} has no grid of slabs: give the ReadSlabs, the "
                "WatchSlices or a SlabGrid"
            )
        if not functions:
            raise ValueError(f"{own}: give a function for each result, as in mean=bv.mean")
        if partial and MISSING in functions:
            raise ValueError(
                f"{own}: with partial=True {MISSING!r} is the result with missing slabs"
            )
        stand_in = placeholder(volume.node.shape, volume.dtype, volume.space)
        made = {
            name: _wanted(f"{own}: {name}", function, stand_in)
            for name, function in functions.items()
        }
        options = RunOptions(slab=self.grid.step[-stand_in.ndim :], memory=memory)
        plans = {name: make_plan([target], options) for name, target in made.items()}
        for name, plan in plans.items():
            if len(plan.passes) != 1:
                raise ValueError(
                    f"{own}: {name} needs {len(plan.passes)} sweeps over the voxels, but "
                    "slabs arrive once: write them with WriteSlabs, and let Compute or ReadSlabs "
                    "wait for its result; LabelSlabs and RegionTable label and measure slabs"
                )
        plan = make_plan(list(made.values()), options)
        if len(plan.passes) != 1 or plan.passes[0].grid != self.grid:
            raise ValueError(
                f"{own}: {', '.join(made)} do not cover the whole volume of shape "
                f"{self.grid.shape} (z, y, x): measure other volumes with Compute, and parts with "
                "mask="
            )
        check_numbers(plan, has_journal=True)
        loads = merging.loads(plan.passes[0], None)  # a runner selects the slabs in flight
        self.measuring = _Measuring(plan.passes[0], self.grid, own, self._any_labels, loads)
        check_portable(s.source for s in self.measuring.p.program.steps if s.source is not None)
        self.measuring.check(getattr(slabs, "halo", None))
        if partial and plan.passes[0].program.surveys:
            names = ", ".join(b.survey.name for b in plan.passes[0].program.surveys)
            raise ValueError(
                f"{own}: {names} can only be computed of whole volumes: leave out "
                "partial=True; WatchSlices(missing='fill') fills missing slices"
            )
        self.results: dict[str, Any] = dict(zip(made, plan.results, strict=True))
        tables = {name: t.barrier for name, t in made.items() if isinstance(t, Table)}
        self.tables = {name: b.token for name, b in tables.items()}
        self.columns = {name: b.survey.no_rows(b.shape) for name, b in tables.items()}

    def expand(self, slabs: beam.PCollection) -> dict[str, beam.PCollection]:
        p, grid = self.measuring.p, self.grid
        flows = {b.token: b.survey.flow(grid, p.merge_limit_bytes) for b in p.program.surveys}
        rows = Take(_batches, Dict[str, np.ndarray])
        merges = Merges(flows, {token: {"rows": rows} for token in flows})
        given = slabs | "In no window" >> in_global_window(slabs)
        measure = beam.ParDo(_Measure(self.measuring, merges))
        found = given | "Measure" >> measure.with_outputs(*merges.tags, _CAME, main="states")
        found["states"].element_type = State
        merge = beam.CombinePerKey(MergeStates(self.measuring.reductions))
        merged = found["states"] | "Merge" >> merge
        ready = merges_fit(merged, self.measuring.loads)
        parts = [
            merged | "State" >> beam.Map(_to_one, "state").with_output_types(_Part),
            self._missing(found[_CAME], slabs),
        ]
        results: dict[str, beam.PCollection] = {}
        for n, (token, came) in enumerate(merges.run(found, ready).items(), 1):
            if "numbers" in came:
                parts.append(
                    came["numbers"]
                    | f"Numbers {n}" >> beam.Map(_number, token).with_output_types(_Part)
                )
            for name in (name for name, t in self.tables.items() if t == token):
                results[name] = came["rows"] | f"Rows of {name}" >> rows_of(self.columns[name])
        names = [name for name in self.results if name not in self.tables]
        finish = beam.ParDo(_Finish(self.measuring, self.results, names, self.partial))
        done = (
            tuple(parts)
            | "All" >> beam.Flatten().with_output_types(_Part)
            | "Together" >> beam.GroupByKey()
            | "Finish" >> finish.with_output_types(NoneType).with_outputs(*names, MISSING)
        )
        for name in names:
            done[name].element_type = type_of_number(self.results[name])
            results[name] = done[name]
        done[MISSING].element_type = str
        if self.partial:
            results[MISSING] = done[MISSING]
        return {name: windowed_as(slabs, some, name) for name, some in results.items()}

    def _missing(self, came: beam.PCollection, slabs: beam.PCollection) -> beam.PCollection:
        """Return the slabs that are missing; raises an error for slabs that arrive twice."""
        came.element_type = _Counted
        # Blocks without any slab are missing, too.
        wanted = (
            slabs.pipeline
            | "Blocks" >> beam.Create(slab_ranges(len(self.grid)) or [(0, 1)])
            | "Each" >> beam.FlatMap(_blocks).with_output_types(_Counted)
            | "Blocks together" >> in_global_window(slabs)
        )
        return (
            (came, wanted)
            | "Slabs" >> beam.Flatten().with_output_types(_Counted)
            | "Count" >> beam.CombinePerKey(Which())
            | "Missing"
            >> beam.Map(_lacking, self.grid, type(self).__name__).with_output_types(_Part)
        )

    def display_data(self) -> dict[str, Any]:
        return {
            "results": DisplayDataItem(", ".join(self.results), label="Measures"),
            "slabs": DisplayDataItem(len(self.grid), label="Number of slabs"),
            "partial": DisplayDataItem(self.partial, label="Slabs may be missing"),
        }


_CAME = "came"
_Counted: Any = Tuple[Tuple[int], int]
#: The parts of one group: kind, key, and the part.
_Part: Any = Tuple[Tuple[int], Tuple[str, Any]]


def _wanted(name: str, function: Any, volume: Volume) -> Wanted:
    if not callable(function):
        raise TypeError(f"{name}={function!r}: give a function of the volume")
    made = function(volume)
    if not isinstance(made, Scalar | Table):
        hint = "; ApplyStages makes slabs of voxels" if isinstance(made, Volume) else ""
        raise TypeError(f"{name} returned {made!r}, not a lazy number or table{hint}")
    return made


@dataclass(frozen=True, eq=False)
class _Measuring:
    """The sweep over a slab, from a plan of the whole volume with the slab as source."""

    p: Pass
    grid: Grid
    name: str  #: Of the transform, for messages.
    any_labels: bool  #: Whether slabs may have any integer dtype.
    loads: merging.Loads  #: The memory of the merges, checked before they begin.

    @property
    def reductions(self) -> dict[str, Any]:
        return {f.token: f.reduction for f in self.p.program.folds} | self.loads

    @property
    def values(self) -> dict[str, Any]:
        return {v.token: evaluate(v, {}) for v in self.p.values}

    def needs(self, box: Box) -> Box:
        """Return the voxels that the slab with a core needs; none if it is not used."""
        program = self.p.program
        per_axis = [program.regions(axis, box.ranges) for axis in range(3)]
        spans = [
            [ranges[i] for i, s in enumerate(program.steps) if isinstance(s.source, BlockSource)]
            for ranges in per_axis
        ]
        if not spans[0]:
            return Box(box.start, box.start)
        start = tuple(
            min([a, *(lo for lo, hi in some if lo < hi)])
            for a, some in zip(box.start, spans, strict=True)
        )
        stop = tuple(
            max([b, *(hi for lo, hi in some if lo < hi)])
            for b, some in zip(box.stop, spans, strict=True)
        )
        return Box(start, stop)  # type: ignore[arg-type]

    def check(self, halo: Halo | None) -> None:
        """Refuse a known halo that is too small."""
        if halo is None:
            return
        # Slabs at the edges, and one in between, which stands for all others.
        ends = [sorted({0, 1, n - 2, n - 1} & set(range(n))) for n in self.grid.counts]
        whole = Box.of_shape(self.grid.shape)
        cores = [self.grid.box(self.grid.index((z, y, x))) for z, y, x in itertools.product(*ends)]
        needs = {core: self.needs(core) for core in cores}
        # A halo for all slabs, not only for the first that lacks voxels.
        enough = functools.reduce(larger_halo, itertools.starmap(halo_of, needs.items()), halo)
        for core, need in needs.items():
            if not core.expand(halo).intersect(whole).contains(need):
                raise ValueError(
                    f"{self.name}: slabs have the halo {halo}, but {core} needs the voxels "
                    f"{need}: {self._remedy(enough)}"
                )

    def _remedy(self, halo: Halo) -> str:
        surveys = [b.survey for b in self.p.program.surveys]
        surveys = [own for s in surveys for own in getattr(s, "sources", (s,))]
        names = [n for s in surveys for n in getattr(s, "properties", ()) if n in _BEYOND]
        otherwise = f", or leave {', '.join(names)} out of properties=" if names else ""
        return f"read them with halo={halo}{otherwise}"

    def of(self, slab: Slab) -> SlabResult:
        """Sweep a slab."""
        grid, program = self.grid, self.p.program
        index = index_of(slab.key, grid)[0]
        core = grid.box(index)
        if slab.shape != grid.shape or slab.core != core:
            raise ValueError(
                f"its core {slab.core} of {slab.shape} is not in "
                f"the grid of {grid.step} in {grid.shape}: give the ReadSlabs that yields the "
                "slabs"
            )
        need = self.needs(core)
        if not slab.box.contains(need):
            raise ValueError(
                f"it has the voxels {slab.box}, but needs {need}: "
                f"{self._remedy(halo_of(core, need))}"
            )
        if self.any_labels and slab.data.dtype.kind not in "iu":
            raise ValueError(
                f"it has dtype {slab.data.dtype}, but labels must be integers: label it by "
                "LabelSlabs"
            )
        if self.any_labels:
            as_labels(slab.data)  # refuses negative labels, which the source would convert
        steps = []
        for step in program.steps:
            if not isinstance(step.source, BlockSource):  # it reads a stored volume
                steps.append(step)
                continue
            dtype = step.source.dtype
            if dtype != slab.data.dtype and not self.any_labels:
                raise ValueError(
                    f"it has dtype {slab.data.dtype}, not "
                    f"{dtype}: give bv.SlabGrid(volume, ...) of a volume of that dtype"
                )
            source = BlockSource.of(slab.data, slab.box, slab.shape, slab.space, dtype)
            steps.append(replace(step, source=source))
        with gate.admitted(cores()) as arena:
            return sweep(
                replace(program, steps=tuple(steps)),
                grid,
                index,
                self.values,
                arena,
                window=self.p.partition.window,
                limit_bytes=self.p.limit_bytes,
            )


class _Measure(beam.DoFn):
    """Reduces a slab to states, and to messages of the first rounds of surveys."""

    def __init__(self, measuring: _Measuring, merges: Merges):
        self.measuring, self.merges = measuring, merges

    def process(self, pair: tuple[SlabKey, Slab]) -> Iterator[Any]:
        slab = slab_of(pair, self.measuring.name)
        with pipeline_metrics.timed(slab.core.size):
            try:
                result = self.measuring.of(slab)
            except NoRoom as error:
                raise NoRoom(
                    f"{self.measuring.name}: slab {slab.key}: {error}: read smaller slabs"
                ) from error
            except ValueError as error:
                raise ValueError(f"{self.measuring.name}: slab {slab.key}: {error}") from error
        if result.bytes_read:
            pipeline_metrics.read(result.bytes_read)
        index = index_of(slab.key, self.measuring.grid)
        yield TaggedOutput(_CAME, ((index[0] // _BLOCK,), index[0] % _BLOCK))
        yield from state_pieces(result.states, self.measuring.reductions)
        yield from load_pieces(self.measuring.loads, result.summaries)
        yield from self.merges.begin(index, result.summaries)


def _batches(key: Key, columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return row_batches(columns)


def _to_one(pair: tuple[Any, Any], kind: str) -> tuple[tuple[int], Any]:
    return (0,), (kind, pair[1])


def _number(pair: tuple[Any, dict[str, Any]], token: str) -> tuple[tuple[int], Any]:
    return (0,), ("numbers", {number_token(token, name): n for name, n in pair[1].items()})


def _blocks(span: tuple[int, int]) -> Iterator[tuple[tuple[int], int]]:
    for block in range(span[0] // _BLOCK, -(-span[1] // _BLOCK)):
        yield (block,), -1


#: Bits of the slabs of a block that have arrived, and of those that have arrived twice.
_Came = tuple[int, int]


class Which(beam.CombineFn):
    """Which slabs of a block have arrived, and which of them twice."""

    def create_accumulator(self) -> _Came:
        return 0, 0

    def add_input(self, before: _Came, slab: int) -> _Came:
        return before if slab < 0 else self.merge_accumulators([before, (1 << slab, 0)])

    def merge_accumulators(self, several: Iterable[_Came]) -> _Came:
        there = twice = 0
        for came, again in several:
            there, twice = there | came, twice | again | (there & came)
        return there, twice

    def extract_output(self, came: _Came) -> _Came:
        return came


def _lacking(block: tuple[tuple[int], _Came], grid: Grid, name: str) -> tuple[tuple[int], Any]:
    (number,), (there, twice) = block
    first = number * _BLOCK
    slabs = range(first, min(first + _BLOCK, len(grid)))
    again = [k for k in slabs if twice >> (k - first) & 1]
    if again:
        raise ValueError(
            f"{name}: {_some(again, grid)} arrived more than once, and would be counted "
            "repeatedly: give each slab once"
        )
    return (0,), ("missing", [k for k in slabs if not there >> (k - first) & 1])


def _some(slabs: list[int], grid: Grid) -> str:
    more = f" and {len(slabs) - _NAMED:,} more" if len(slabs) > _NAMED else ""
    boxes = ", ".join(str(grid.box(k)) for k in slabs[:_NAMED])
    return f"{counted(len(slabs), 'slab')}, {boxes}{more},"


class _Finish(beam.DoFn):
    """Makes numbers of the merged states; reports missing slabs, or fails."""

    def __init__(
        self, measuring: _Measuring, results: dict[str, Any], names: list[str], partial: bool
    ):
        self.measuring, self.partial = measuring, partial
        self.values: dict[str, Value] = {name: results[name] for name in names}

    def process(self, group: tuple[Any, Iterable[tuple[str, Any]]]) -> Iterator[Any]:
        pieces: list[tuple[str, int, Any]] = []
        known: dict[str, Any] = self.measuring.values | {
            number_token(b.token, name): number
            for b in self.measuring.p.program.surveys
            for name, number in b.survey.empty_numbers().items()
        }
        lacking: list[int] = []
        for kind, part in group[1]:
            if kind == "state":
                pieces.append(part)
            elif kind == "numbers":
                known |= part
            else:
                lacking += part
        grid = self.measuring.grid
        if lacking and not self.partial:
            is_possible = not self.measuring.p.program.surveys
            raise ValueError(
                f"{self.measuring.name}: {_some(sorted(lacking), grid)} did not arrive: give all slabs"
                + (", or partial=True to measure the others" if is_possible else "")
            )
        states = merging.put_together(self.measuring.reductions, pieces)
        for f in self.measuring.p.program.folds:
            known[f.token] = f.reduction.finish(states[f.token], tuple(known[t] for t in f.values))
        for k in sorted(lacking):
            yield TaggedOutput(MISSING, str(grid.box(k)))
        for name, value in self.values.items():
            yield TaggedOutput(name, as_element(evaluate(value, known)))


class _Labels(NamedTuple):
    """A division into slabs of labels; ``halo``: None if it is not known."""

    volume: Volume
    grid: Grid
    halo: Any


@with_input_types(GivenSlab)
@documented
class RegionTable(MeasureSlabs):
    """Measure the regions of slabs of labels: ``(SlabKey, Slab)`` to a row for each region.

    Rows are `apache_beam.Row` with a schema. Fields have the names of the columns of `regionprops_table`,
    with ``_`` for ``-``: ``label``, ``area``, ``centroid_0``. Rows are in no particular order.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid, LabelComponents or Grid
        The division of the volume. Labels may have any integer dtype. Some properties need a halo:
        ``surface_area_faces`` (computed by default), ``euler_number`` and ``perimeter_crofton``
        need ``(0, 1)`` along each axis, and ``perimeter`` needs 3.
    intensity : Volume, optional
        A lazy volume of the same shape. Its voxels are read slab by slab, together with the labels.
    properties : sequence of str, optional
        Names of the properties, as in `regionprops_table`, with the same default. ``area_filled``
        needs `ReadSlabs` of stored labels, applied directly before: it also reads the box of each
        region.
    %(spacing)s
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite intensities are an error or are ignored.

    Raises
    ------
    ValueError
        If a property is unknown or needs ``intensity``, or `ReadSlabs` has a smaller halo than the
        properties need. If ``area_filled`` is requested and the labels are computed, or a different
        step makes the slabs. In a worker, if slabs have a smaller halo, are masks, are missing or arrive
        twice. If an intensity is NaN or infinite and ``nan="raise"``.

    See Also
    --------
    beam_volumes.regionprops_table : Measure a whole volume. MeasureSlabs : Compute any tables and
    numbers.

    Notes
    -----
    Only the sums for each label and slab are shuffled. A slab cannot contribute to ``area_filled``,
    because holes may extend over any number of slabs. The boxes are known after the last slab, and are
    then read from storage.

    Examples
    --------
    >>> import apache_beam as beam
    >>> labels = bv.open(np.array([[[7, 7, 0]], [[7, 0, 4]], [[0, 0, 4]]], "u4"))
    >>> read = bv.ReadSlabs(labels, depth=2, halo=((0, 1), (0, 1), (0, 1)))
    >>> table = bv.RegionTable(read, labels * 2, ["area", "intensity_mean"])
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | read | table | beam.Map(print)
    Row(label=4, area=2.0, intensity_mean=8.0)
    Row(label=7, area=3.0, intensity_mean=14.0)
    """

    def __init__(
        self,
        slabs: ReadSlabs | SlabGrid | LabelComponents | Grid,
        intensity: Volume | None = None,
        properties: Sequence[str] | None = None,
        *,
        spacing: float | Sequence[float] | str | None = None,
        nan: str = "raise",
    ):
        grid = grid_of(slabs)
        described = slabs.slabs if isinstance(slabs, LabelComponents) else slabs
        labels = getattr(described, "volume", None)
        #: `WriteSlabs` finds it, and refuses to replace it.
        self.intensity = None if intensity is None else as_volume(intensity)
        about = self.intensity if labels is None else labels
        if spacing is not None and about is None:
            raise ValueError(
                f"RegionTable: spacing={spacing!r} needs the axes, which a grid does not have: "
                "give the ReadSlabs of the labels"
            )

        fills = properties is not None and "area_filled" in properties
        #: The labels to read by boxes; None if they are not needed.
        self.stored = _stored(slabs) if fills else None
        named = [p for p in properties or () if p != "area_filled"] if fills else properties

        def measured(volume: Volume, names: Sequence[str] | None) -> Table:
            return region_table(volume, self.intensity, names, spacing, nan, "RegionTable")

        def rows(volume: Volume) -> Table:
            table = measured(volume, named)
            if self.stored is None or named is None:
                return table
            boxes = measured(volume, [*named, "bbox"]) if "bbox" not in named else table
            return with_filled_areas(boxes, self.stored, spacing, [*table.columns], "RegionTable")

        space = Space() if about is None else about.space.of_one("c")
        halo = slabs.halo if isinstance(slabs, ReadSlabs) else None
        # Steps in between may make labels of any integers, except of a volume of floats.
        own = slabs.volume.dtype if isinstance(slabs, ReadSlabs | SlabGrid) else np.dtype("u8")
        dtype = np.dtype("u8") if own.kind in "bui" else own
        super().__init__(_Labels(placeholder(grid.shape, dtype, space), grid, halo), rows=rows)

    _any_labels = True

    def expand(self, slabs: beam.PCollection[Any]) -> Any:
        if self.stored is not None and not _are_read(slabs, self.stored):
            raise ValueError(_NOT_STORED.format("a step after ReadSlabs may change them"))
        return super().expand(slabs)["rows"]


#: Why filled areas of slabs are refused.
_NOT_STORED = (
    "RegionTable: area_filled reads the box of each label from storage, but {}; write the labels with "
    "WriteSlabs, and use ReadSlabs of the result, or Compute(bv.regionprops_table(...))"
)


def _stored(slabs: Any) -> Volume:
    """Return the stored labels that are read as slabs."""
    if not isinstance(slabs, ReadSlabs):
        raise ValueError(_NOT_STORED.format(f"{type(slabs).__name__} does not read stored labels"))
    if not isinstance(slabs.volume.node, SourceNode):
        raise ValueError(_NOT_STORED.format(f"{slabs.volume!r} is computed"))
    return slabs.volume


def _are_read(slabs: beam.PCollection, stored: Volume) -> bool:
    """Whether slabs are the unchanged result of `ReadSlabs` of a volume."""
    step = slabs.producer
    while step is not None:
        read = step.transform
        if isinstance(read, ReadSlabs) and read.volume.node.token == stored.node.token:
            return True
        step = step.parent
    return False
