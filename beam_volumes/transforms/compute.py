"""`Compute`: a whole plan as one transform that returns outputs, numbers and rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import NoneType
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import Dict

from beam_volumes.across.rounds.flow import Key
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.nodes import Value, evaluate
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.plan import accelerators
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import USER_OPTIONS, RunOptions, takes_options
from beam_volumes.session.begin import begin
from beam_volumes.session.identity import journal_place
from beam_volumes.session.masks import warn_of_inputs
from beam_volumes.session.merging import resolve_numbers, warn_of_merges
from beam_volumes.session.requirements import check_portable, check_scratch
from beam_volumes.session.session import Session
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.place import url
from beam_volumes.transforms.machines import hires
from beam_volumes.transforms.passes import States, build, end, input_names
from beam_volumes.transforms.rows import as_element, rows_of, type_of_number
from beam_volumes.transforms.slab import MAX_BYTES
from beam_volumes.transforms.waiting import beginning, refuse_written_twice


@takes_options(driving=False, memory="process_memory")
class Compute(beam.PTransform):
    """Compute volumes, tables and numbers as a step of a pipeline.

    Use it if a pipeline has steps before or after the computation; otherwise use
    `beam_volumes.compute`. Applied to a pipeline, it starts immediately. Applied to a PCollection,
    it waits until the PCollection is complete. The result is a dict with one PCollection for each
    target. For ``volume.to(path)`` and ``table.to(path)``, the PCollection contains the output's
    full name (``target.sink.name``) once all outputs are complete. For a lazy number, it contains
    the number. For a table without a path, it contains the rows in no particular order, as
    `apache_beam.Row` with a schema. Fields are named after the columns, with ``_`` for ``-``.

    Parameters
    ----------
    *targets : Target, TableTarget, Table or Scalar
        ``volume.to(path)``, ``table.to(path)``, tables and lazy numbers. Volumes without a path are
        an error, because voxels do not pass through pipelines. In the dict, the keys of outputs are
        their full names; numbers and tables have short names (``"mean"``, then ``"mean-2"``).
    %(options)s
    run_id : str, optional
        A name for the run instead of a random one. Pipelines with the same run name continue the
        same run. Steps may be repeated, but slabs that have a record are not computed again.
    resource_hints : bool, optional
        Whether to request the predicted memory of each pass with the resource hint ``min_ram``. By
        default, memory is only requested on Dataflow, which provisions machines accordingly. Other
        runners may start more worker processes without any benefit.
    **named : Target, TableTarget, Table or Scalar
        Additional targets; these names are their keys in the dict.

    Raises
    ------
    %(run_errors)s
    TypeError
        If a target has an unsupported type, or the transform is not applied to a pipeline or
        PCollection.

    See Also
    --------
    ComputeAll : an element of a PCollection is a volume.
    beam_volumes.compute : makes and runs such a pipeline.

    Notes
    -----
    The plan is made when the transform is constructed, so impossible requests fail at that time.
    Voxels are read from and written to storage directly; only ranges of slabs and summaries are
    shuffled.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
    >>> bright = (em > bv.mean(em)).to("bright.zarr")
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     done = p | bv.Compute(bright=bright, average=bv.mean(em))
    ...     _ = done["average"] | beam.Map(print)
    11.5
    >>> int(np.asarray(bv.open("bright.zarr")).sum())
    12
    """

    def __init__(
        self,
        *targets: Target | TableTarget | Table | Scalar,
        run_id: str | None = None,
        resource_hints: bool | None = None,
        **named: Any,
    ):
        super().__init__()
        options = RunOptions.of(
            {name: named.pop(name) for name in USER_OPTIONS if name in named}, run_id=run_id
        )
        self.resource_hints, self.accelerator = resource_hints, options.accelerator
        #: The caller's names of the targets, or None.
        self.names = (*(None for _ in targets), *named)
        targets = (*targets, *named.values())
        for name, t in zip(self.names, targets, strict=True):
            given = repr(t) if name is None else f"{name}={t!r}"
            if isinstance(t, Volume):
                raise TypeError(f"{given}: a pipeline returns no voxels; write them with .to(path)")
            if not isinstance(t, Target | TableTarget | Table | Scalar):
                raise TypeError(
                    f"Compute: {given} is not a lazy scalar, a table or a volume.to(path)"
                    + ("" if name is None else ", and there is no option of that name")
                )
        planned = make_plan(targets, options)
        accelerators.check_accelerator(planned, options.accelerator)
        #: The barriers of tables that are returned as rows, by number of the target.
        self.rows = {k: t.barrier for k, t in enumerate(targets, 1) if isinstance(t, Table)}
        planned = _without_places(planned)
        check_portable(planned, options.journal)
        check_scratch(planned, options.journal, None, "the workers of a pipeline")
        check_numbers(planned, journal_place(planned, options.journal) is not None)
        warn_of_inputs(planned)
        warn_of_merges(planned)
        self.session = begin(planned, options)

    @property
    def written(self) -> list[Any]:
        """The outputs, tables included."""
        return list(self.session.plan.outputs)

    def expand(self, begin: Any) -> dict[str, beam.PCollection]:
        pipeline, wait, windowed = beginning(begin, "Compute")
        refuse_written_twice(pipeline, self, self.written)
        wanted = {barrier.token for barrier in self.rows.values()}
        known, rows = build(
            pipeline,
            self.session,
            hires(pipeline.runner) if self.resource_hints is None else self.resource_hints,
            wait.get("ready"),
            rows=wanted,
            accelerator=self.accelerator,
        )
        plan = self.session.plan
        ended = known[-1] | "End" >> beam.Map(end, self.session).with_output_types(NoneType)
        results: dict[str, beam.PCollection] = {}
        given = {name for name in self.names if name is not None}
        for k, (name, result) in enumerate(zip(self.names, plan.results, strict=True), 1):
            if k in self.rows:
                barrier = self.rows[k]
                name = name or _unused(barrier.name, (*results, *given))
                batches = beam.FlatMap(_batch).with_output_types(Dict[str, np.ndarray])
                columns = barrier.survey.no_rows(barrier.shape)
                results[name] = (
                    rows[barrier.token] | f"Target {k}" >> batches | f"Rows {k}" >> rows_of(columns)
                )
            elif isinstance(result, Value):
                name = name or _unused(result.name, (*results, *given))
                number = beam.Map(_number, self.session, result)
                number = number.with_output_types(type_of_number(result))
                results[name] = known[-1] | f"Target {k}" >> number
            else:
                # The metadata of an output are complete when its run has ended.
                instead = beam.Map(_instead, result.name).with_output_types(str)
                results[name or result.name] = ended | f"Target {k}" >> instead
        return {name: windowed(some, name) for name, some in results.items()}

    def display_data(self) -> dict[str, Any]:
        plan = self.session.plan
        shown = {
            "inputs": DisplayDataItem(", ".join(input_names(plan)), label="Reads"),
            "outputs": DisplayDataItem(", ".join(s.name for s in plan.outputs), label="Writes"),
            "run_id": DisplayDataItem(self.session.run_id, label="Run"),
            "passes": DisplayDataItem(len(plan.passes), label="Passes over the volume"),
        }
        for k, p in enumerate(plan.passes, 1):
            shown[f"slabs_{k}"] = DisplayDataItem(len(p.grid), label=f"Slabs of pass {k}")
        if self.session.journal is not None:
            shown["journal"] = DisplayDataItem(url(self.session.journal.spec), label="Journal")
        return shown


def _unused(name: str, names: Iterable[str]) -> str:
    taken = set(names)
    k = 1
    while (unused := name if k == 1 else f"{name}-{k}") in taken:
        k += 1
    return unused


def _number(known: States, session: Session, value: Value) -> Any:
    return as_element(evaluate(value, resolve_numbers(known, [value], session.journal)))


def check_numbers(plan: Plan, has_journal: bool) -> None:
    """Refuse numbers that are too large for elements."""
    for value in plan.results:
        if isinstance(value, Value) and value.nbytes > MAX_BYTES:
            raise ValueError(
                f"{value.name} is an array of {value.shape} {value.dtype}, "
                f"{format_bytes(value.nbytes)}, but an element has at most "
                f"{format_bytes(MAX_BYTES)}: crop the volume, or take it from bv.compute(..., "
                "runner=...), which returns it through the run's journal"
            )
    folds = [f.reduction for p in plan.passes for f in p.program.folds]
    total = sum(r.dtype.itemsize * math.prod(r.shape) for r in folds)
    if total > MAX_BYTES and not has_journal:
        raise ValueError(
            f"the numbers of this run, {', '.join(r.name for r in folds)}, are "
            f"{format_bytes(total)} together, but elements are at most {format_bytes(MAX_BYTES)}: "
            "give journal=, a folder that all workers can access, to store them there"
        )


def _instead(_: Any, item: Any) -> Any:
    return item


def _without_places(plan: Plan) -> Plan:
    """Return a plan that does not write tables without a path."""
    tables = {
        token: tuple(s for s in sinks if s not in plan.intermediates)
        for token, sinks in plan.tables.items()
    }
    left = tuple(s for s in plan.intermediates if not isinstance(s, TableSink))
    place = plan.scratch_place if left else None
    return replace(plan, tables=tables, intermediates=left, scratch_place=place)


def _batch(rows: tuple[Key, Any]) -> Iterator[dict[str, np.ndarray]]:
    if rows[1] is not None:
        yield rows[1]
