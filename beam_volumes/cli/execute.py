"""Execution of a verb's request: shows the plan, progress, results, time and memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import beam_volumes as bv
from beam_volumes.base.text import counted, format_bytes
from beam_volumes.cli.messages import message, print_note, print_result
from beam_volumes.drive import compute
from beam_volumes.drive.runner_names import is_local
from beam_volumes.plan.estimate.accelerators import advice
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import AUTO, RunOptions
from beam_volumes.recipes.build import Built
from beam_volumes.runs.console import duration
from beam_volumes.session.begin import begin
from beam_volumes.storage.formats.tables.text import csv_text
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.storage.places.place import Place

if TYPE_CHECKING:
    import pyarrow

#: Rows of a table that are printed.
MAX_ROWS = 10_000


def execute(
    built: Built, options: RunOptions, dry_run: bool = False, brief: bool = False, note: str = ""
) -> compute.Outcome | None:
    """Show a plan and carry it out; print progress, results, time and memory.

    ``note`` is printed before the plan. If ``brief``, as for one volume of many, the plan is not shown, and
    only the time is printed at the end.

    Returns
    -------
    Outcome or None
        None for a dry run, and for a job that was only described.
    """
    if dry_run:
        dry(built.targets, options)
        return None
    outcome = compute.run(
        built.targets,
        options,
        note=built.names,
        recipe=built.recipe,
        on_plan=lambda planned: (
            None if brief else note_unless_quiet(_begins(planned, note), options)
        ),
    )
    finish(outcome, built.names, options, brief)
    return outcome if outcome.ran else None


def dry(targets: Sequence[Any], options: RunOptions) -> None:
    """Show the whole plan, and what would keep it from being carried out."""
    planned = compute.plan_run(targets, options)
    print_result(planned.explain(verbose=True))
    if _elsewhere(options.runner):
        print_result(f"\n{advice(planned)}")
    _warn_of_outputs(planned, options)


def finish(
    outcome: compute.Outcome,
    names: Sequence[str | None],
    options: RunOptions,
    brief: bool = False,
) -> None:
    """Print results, by the names that `Built` has for them, and time and memory."""
    if not outcome.ran:
        print_result(compute.DESCRIBED)
        return
    for line in results(names, outcome.results):
        print_result(line)
    sys.stdout.flush()
    note_unless_quiet(took(outcome).partition("\n")[0] if brief else took(outcome), options)


def results(names: Sequence[str | None], found: Sequence[Any]) -> list[str]:
    """What was written and what was found, a line each; a table without a place is its rows.

    Examples
    --------
    >>> results(("mean", "", None), (0.5, 7, 9))
    ['mean: 0.5', '7']
    """
    lines = []
    for name, result in zip(names, found, strict=True):
        if name is None:
            continue
        between = ": "
        if isinstance(result, bv.Volume):
            text = result.nodes[0].name.removesuffix("[c=0]")  # for any number of channels
        elif isinstance(result, str):
            text = result
        elif hasattr(result, "column_names"):
            between, text = ":\n", table_text(result)
        else:
            text = str(np.asarray(result).tolist())
        lines.append(f"{name}{between}{text}" if name else text)
    return lines


def table_text(table: pyarrow.Table) -> str:
    """A table as CSV, or how many rows it has where those are too many to be looked at."""
    if table.num_rows > MAX_ROWS:
        return f"{table.num_rows:,} rows: give the table a path to have them, e.g. table.parquet"
    return csv_text({name: table[name].to_numpy() for name in table.column_names}).rstrip()


def note_unless_quiet(text: str, options: RunOptions) -> None:
    """Print a note on standard error, unless ``--quiet`` is given."""
    if options.progress:
        print_note(text)


def _elsewhere(runner: Any) -> bool:
    """Whether machines other than this one do the work."""
    return runner not in (None, AUTO) and not is_local(runner)


def _warn_of_outputs(plan: Plan, options: RunOptions) -> None:
    """Warn of outputs that exist: they would keep the run from beginning."""
    try:
        begin(plan, options)
    except OutputExistsError as error:
        print_note(f"beam-volumes: warning: the run would be refused: {message(error)}")


def _begins(plan: Plan, note: str) -> str:
    """A plan in a few lines, after a note, and which folders are made for its outputs."""
    homes = (os.path.dirname(os.path.abspath(path)) for path in map(_local, plan.outputs) if path)
    made = [f"makes the folder {home}" for home in dict.fromkeys(homes) if not os.path.isdir(home)]
    return "\n".join([*filter(None, [note]), *made, summary(plan)])


def _local(sink: Any) -> str | None:
    """Where an output lies on this machine, if it does."""
    return Place.of(sink.kvstore).local


def summary(plan: Plan) -> str:
    """A plan in a few lines."""
    lines = []
    for p in plan.passes:
        if p.point is not None:
            own = summary(p.point).splitlines()[:-1]
            lines += [f"{len(p.grid)} points in time, each of them:", *(f"  {x}" for x in own)]
            continue
        steps = p.program.steps
        stages = [s.name for s in steps if s.source is None]
        folds = [f.reduction.name for f in p.program.folds]
        surveys = [f"survey {b.survey.name}" for b in p.program.surveys]
        ends = [
            f"store {steps[o.edge.step].name}"
            if o.sink in plan.intermediates
            else f"write {o.sink.name}"
            for o in p.program.outputs
        ]
        ends += [
            f"write {sink.name}"
            for b in p.program.surveys
            for sink in plan.tables.get(b.token, ())
            if sink not in plan.intermediates
        ]
        what = ", ".join([*stages, *folds, *surveys, *ends])
        slab = " x ".join(map(str, p.grid.step))
        lines.append(
            f"pass {p.index + 1}/{len(plan.passes)}: {what}; {counted(len(p.grid), 'slab')} of {slab}"
        )
    lines.append(
        f"memory {format_bytes(plan.predicted_memory)} predicted of {format_bytes(plan.memory)} allowed; "
        f"reads {format_bytes(plan.bytes_read)} ({plan.read_amplification:.2f}x), "
        f"writes {format_bytes(plan.bytes_written)} before compression"
    )
    return "\n".join(lines)


def took(outcome: compute.Outcome) -> str:
    """Time, speed, bytes, and the measured memory against the predicted."""
    parts = [f"done in {seconds_text(outcome.seconds)}"]
    s = outcome.summary
    if s is not None:
        parts.append(
            f"{s.voxels:,} voxels swept in {seconds_text(s.seconds)}, "
            f"{s.voxels_per_second / 1e6:,.1f} Mvoxel/s"
        )
        parts.append(f"read {format_bytes(s.bytes_read)}, wrote {format_bytes(s.bytes_written)}")
        plan = outcome.plan
        peak = (
            f"peak memory {format_bytes(s.peak_memory)} of {format_bytes(plan.process_memory)} "
            "predicted for a process"
        )
        if s.peak_memory > plan.process_memory and any(p.program.surveys for p in plan.passes):
            peak += "; components and rows, whose number was not known, may take more, up to what was allowed"
        parts.append(peak)
        if s.redone:
            parts.append(f"{s.redone} of {s.slabs} slabs done more than once")
    return "\n".join(parts)


def seconds_text(seconds: float) -> str:
    """A time in words, short ones with a decimal."""
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)
