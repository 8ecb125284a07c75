"""Run the request of a verb and show the plan, progress, results, time and memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import beam_volumes as bv
from beam_volumes.base.text import counted, format_bytes, format_duration
from beam_volumes.cli.messages import message, print_note, print_result
from beam_volumes.cli.options import CENSUS
from beam_volumes.drive import compute
from beam_volumes.drive.runner_names import is_local
from beam_volumes.plan.accelerators import advice
from beam_volumes.plan.explain import describe_work
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import AUTO, RunOptions
from beam_volumes.recipes.build import Built
from beam_volumes.session.begin import begin
from beam_volumes.storage.formats.tables.text import csv_text
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.storage.places.place import Place

if TYPE_CHECKING:
    import pyarrow

#: Maximum number of table rows to print.
MAX_ROWS = 10_000


def execute(
    built: Built,
    options: RunOptions,
    dry_run: bool | str = False,
    brief: bool = False,
    note: str = "",
) -> compute.Outcome | None:
    """Print ``note`` and the plan, and run it; print progress, results, time and memory.

    With ``brief``, one volume of many, only the time is printed. None if nothing was computed.
    """
    if dry_run:
        dry(built.targets, options, dry_run == CENSUS)
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


def dry(targets: Sequence[Any], options: RunOptions, census: bool = False) -> None:
    """Show the whole plan, and warn of anything that would prevent the run."""
    planned = compute.plan_run(targets, options)
    print_result(planned.explain(verbose=True, census=census))
    if options.runner not in (None, AUTO) and not is_local(options.runner):
        print_result(f"\n{advice(planned)}")
    _warn_of_outputs(planned, options)


def finish(
    outcome: compute.Outcome,
    names: Sequence[str | None],
    options: RunOptions,
    brief: bool = False,
) -> None:
    """Print the results with their names from `Built`, and time and memory."""
    if not outcome.ran:
        print_result(compute.DESCRIBED)
        return
    for line in results(names, outcome.results):
        print_result(line)
    sys.stdout.flush()
    note_unless_quiet(took(outcome).partition("\n")[0] if brief else took(outcome), options)


def results(names: Sequence[str | None], found: Sequence[Any]) -> list[str]:
    """Return one line per result: the path of an output, a number, or the rows of a table.

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
    """Return a table as CSV, or only its number of rows if there are too many to print."""
    if table.num_rows > MAX_ROWS:
        return f"{table.num_rows:,} rows are too many to print: give the table a path, e.g. table.parquet"
    return csv_text({name: table[name].to_numpy() for name in table.column_names}).rstrip()


def note_unless_quiet(text: str, options: RunOptions) -> None:
    """Print a note on standard error, unless ``--quiet`` is given."""
    if options.progress:
        print_note(text)


def _warn_of_outputs(plan: Plan, options: RunOptions) -> None:
    """Warn of existing outputs, which would prevent the run from starting."""
    try:
        begin(plan, options)
    except OutputExistsError as error:
        print_note(f"beam-volumes: warning: the run would be refused: {message(error)}")


def _begins(plan: Plan, note: str) -> str:
    """Summarise a plan after a note, and list the folders created for its outputs."""
    homes = (os.path.dirname(os.path.abspath(path)) for path in map(_local, plan.outputs) if path)
    made = [
        f"creates the folder {home}" for home in dict.fromkeys(homes) if not os.path.isdir(home)
    ]
    return "\n".join([*filter(None, [note]), *made, summary(plan)])


def _local(sink: Any) -> str | None:
    """The local path of an output, or None."""
    return Place.of(sink.kvstore).local


def summary(plan: Plan) -> str:
    """Summarise a plan in a few lines."""
    lines = []
    for p in plan.passes:
        if p.point is not None:
            own = summary(p.point).splitlines()[:-1]
            lines += [f"{len(p.grid)} time points, each of them:", *(f"  {x}" for x in own)]
            continue
        steps = p.program.steps
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
        what = ", ".join([*describe_work(plan, p), *ends])
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
    """Describe time, speed, bytes, and measured and predicted memory."""
    parts = [f"done in {format_duration(outcome.seconds, 1)}"]
    s = outcome.summary
    if s is not None:
        parts.append(
            f"{s.voxels:,} voxels swept in {format_duration(s.seconds, 1)}, "
            f"{s.voxels_per_second / 1e6:,.1f} Mvoxel/s"
        )
        parts.append(f"read {format_bytes(s.bytes_read)}, wrote {format_bytes(s.bytes_written)}")
        plan = outcome.plan
        peak = (
            f"peak memory {format_bytes(s.peak_memory)} of {format_bytes(plan.process_memory)} "
            "predicted for a process"
        )
        if s.peak_memory > plan.process_memory and any(p.program.surveys for p in plan.passes):
            peak += (
                "; the number of components and rows is not predicted, so they may use more, up to the "
                "limit"
            )
        parts.append(peak)
        if s.redone:
            parts.append(f"{s.redone} of {s.slabs} slabs computed more than once")
    return "\n".join(parts)
