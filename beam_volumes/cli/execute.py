"""Carrying out what a verb asks for: the plan is shown, progress told, and what it took."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import beam_volumes as bv
from beam_volumes.cli import say
from beam_volumes.cli.options import beam_options, extents
from beam_volumes.drive import compute
from beam_volumes.plan.hiring import advice
from beam_volumes.plan.machine import BASE_ALONE
from beam_volumes.plan.plan import Plan
from beam_volumes.recipes.build import Built
from beam_volumes.runs.progress import duration
from beam_volumes.storage.formats.tables import csv_text
from beam_volumes.text import format_bytes

if TYPE_CHECKING:
    import pyarrow

#: Rows of a table that are printed.
MOST_ROWS = 10_000


@dataclass(frozen=True)
class How:
    """The arguments of `beam_volumes.cli.options.computing`, as `beam_volumes.compute` takes them."""

    memory: Any = None
    workers: int | None = None
    runner: str | None = "FnApiRunner"
    options: Sequence[str] = ()
    slab: Sequence[int] | None = None
    threads: int | None = None
    resume: bool = False
    overwrite: bool = False
    dry_run: bool = False
    quiet: bool = False

    @classmethod
    def of(
        cls, args: argparse.Namespace, others: list[str], parser: argparse.ArgumentParser
    ) -> How:
        runner = None if args.runner.lower() == "none" else args.runner
        return cls(
            args.memory,
            args.workers,
            runner,
            beam_options(others, parser, runner),
            extents(args.slab, "--slab"),
            args.threads,
            args.resume,
            args.overwrite,
            args.dry_run,
            args.quiet,
        )


def execute(built: Built, how: How) -> compute.Outcome | None:
    """Show a plan and carry it out, telling of progress, results and what it took.

    Returns
    -------
    Outcome or None
        None for a dry run, and for a job that was only described.
    """
    if how.dry_run:
        planned = make_plan(built, how)
        say.say(planned.explain())
        if _elsewhere(how):
            say.say(f"\n{advice(planned)}")
        return None
    outcome = compute.run(
        *built.targets,
        memory=how.memory,
        workers=how.workers,
        runner=how.runner,
        options=list(how.options) or None,
        slab=how.slab,
        threads=how.threads,
        resume=how.resume,
        overwrite=how.overwrite,
        progress=not how.quiet,
        note=built.names,
        tell=lambda planned: tell(summary(planned), how),
    )
    finish(outcome, built.names, how)
    return outcome if outcome.ran else None


def finish(outcome: compute.Outcome, names: Sequence[str | None], how: How) -> None:
    """Print results, by the names that `Built` has for them, and tell what it took."""
    if not outcome.ran:
        say.say(compute.DESCRIBED)
        return
    for line in results(names, outcome.results):
        say.say(line)
    sys.stdout.flush()
    tell(took(outcome), how)


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
            text = result.node.name
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
    if table.num_rows > MOST_ROWS:
        return f"{table.num_rows:,} rows: give the table a path to have them, e.g. table.parquet"
    return csv_text({name: table[name].to_numpy() for name in table.column_names}).rstrip()


def tell(text: str, how: How) -> None:
    """Say what is not a result, unless that is not wanted."""
    if not how.quiet:
        say.tell(text)


def _elsewhere(how: How) -> bool:
    """Whether machines other than this one do the work."""
    if how.runner is None:
        return False
    from beam_volumes.drive.launch import is_local

    return not is_local(how.runner)


def make_plan(built: Built, how: How) -> Plan:
    """The plan that `beam_volumes.compute` will make of the same arguments."""
    processes, base = 1, BASE_ALONE
    if how.runner is not None:
        from beam_volumes.drive.launch import launcher

        _, processes, base = launcher(how.runner, list(how.options) or None, how.workers)
    return bv.plan(
        *built.targets,
        memory=how.memory,
        workers=how.workers,
        processes=processes,
        slab=how.slab,
        threads=how.threads,
        base=base,
    )


def summary(plan: Plan) -> str:
    """A plan in a few lines."""
    lines = []
    for p in plan.passes:
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
            f"pass {p.index + 1}/{len(plan.passes)}: {what}; {len(p.grid)} slab(s) of {slab}"
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
        parts.append(
            f"peak memory {format_bytes(s.peak_memory)} of {format_bytes(outcome.plan.process_memory)} "
            "predicted for a process"
        )
        if s.redone:
            parts.append(f"{s.redone} of {s.slabs} slabs done more than once")
    return "\n".join(parts)


def seconds_text(seconds: float) -> str:
    """A time in words, short ones with a decimal."""
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)
