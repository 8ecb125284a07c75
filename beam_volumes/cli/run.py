"""``beam-volumes run``: carry out a recipe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.cli.build import Built, build
from beam_volumes.cli.options import beam_options, running, verb
from beam_volumes.cli.recipe import Recipe, read_recipe
from beam_volumes.drive import compute
from beam_volumes.graph.volume import format_bytes
from beam_volumes.plan.budget import BASE_ALONE
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.progress import duration


def register(verbs: Any) -> None:
    parser = verb(verbs, "run", act, "carry out a recipe")
    parser.epilog = "Options that are not listed go to Beam as pipeline options."
    parser.add_argument("recipe", metavar="RECIPE.yaml")
    parser.add_argument(
        "--set",
        metavar="PLACE=VALUE",
        action="append",
        default=[],
        help="change the recipe: input=PATH, steps.smooth.sigma=2, outputs.0.path=PATH or a variable's "
        "name=VALUE; may be repeated",
    )
    running(parser)
    parser.add_argument(
        "--crop",
        metavar="Z0:Z1,Y0:Y1,X0:X1",
        help="crop every input first, for a trial; parts may be empty",
    )
    parser.add_argument("--resume", action="store_true", help="continue a run that was stopped")
    parser.add_argument("--overwrite", action="store_true", help="replace outputs that exist")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the whole plan and write nothing"
    )


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    runner = None if args.runner.lower() == "none" else args.runner
    options = beam_options(others, parser, runner)
    recipe = read_recipe(args.recipe, args.set)
    run_recipe(
        recipe,
        memory=args.memory,
        workers=args.workers,
        crop=args.crop,
        runner=runner,
        options=options,
        resume=args.resume,
        overwrite=args.overwrite,
        dry_run=args.dry_run,
    )


def run_recipe(
    recipe: Recipe,
    *,
    memory: str | None = None,
    workers: int | None = None,
    crop: str | None = None,
    runner: str | None = "FnApiRunner",
    options: Sequence[str] = (),
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
) -> compute.Outcome | None:
    """Show a recipe's plan and carry it out, telling of progress and of what it took.

    Parameters
    ----------
    recipe : Recipe
    dry_run : bool
        Print the whole plan, and write nothing.
    others
        As of `beam_volumes.compute`.

    Returns
    -------
    Outcome or None
        None for a dry run.
    """
    memory = memory if memory is not None else recipe.memory  # type: ignore[assignment]
    workers = workers if workers is not None else recipe.workers
    built = build(recipe, crop)
    planned = make_plan(built, memory, workers, runner, options)
    if dry_run:
        print(planned.explain())
        return None
    print(summary(planned), file=sys.stderr, flush=True)
    outcome = compute.run(
        *built.targets,
        memory=memory,
        workers=workers,
        runner=runner,
        options=list(options) or None,
        resume=resume,
        overwrite=overwrite,
        progress=True,
    )
    for line in results(built, outcome):
        print(line)
    sys.stdout.flush()
    print(took(outcome), file=sys.stderr, flush=True)
    return outcome


def make_plan(
    built: Built, memory: Any, workers: int | None, runner: str | None, options: Sequence[str]
) -> Plan:
    """The plan that `beam_volumes.compute` will make of the same arguments."""
    processes, base = 1, BASE_ALONE
    if runner is not None:
        from beam_volumes.transforms.launch import launcher

        _, processes, base = launcher(runner, list(options) or None, workers)
    return bv.plan(*built.targets, memory=memory, workers=workers, processes=processes, base=base)


def summary(plan: Plan) -> str:
    """A plan in a few lines."""
    lines = []
    for p in plan.passes:
        stages = [s.name for s in p.program.steps if s.stage is not None]
        folds = [f.reduction.name for f in p.program.folds]
        steps = p.program.steps
        ends = [
            f"store {steps[o.edge.step].name}"
            if o.sink in plan.intermediates
            else f"write {o.sink.name}"
            for o in p.program.outputs
        ]
        what = ", ".join([*stages, *folds, *ends])
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


def results(built: Built, outcome: compute.Outcome) -> list[str]:
    """What was written and what was found, a line each."""
    lines = []
    for name, target, result in zip(built.names, built.targets, outcome.results, strict=True):
        if isinstance(target, bv.Target):
            lines.append(f"{name}: {target.sink.name}")
        else:
            lines.append(f"{name}: {np.asarray(result).tolist()}")
    return lines


def took(outcome: compute.Outcome) -> str:
    """Time, speed, bytes, and the measured memory against the predicted."""
    parts = [f"done in {_seconds(outcome.seconds)}"]
    s = outcome.summary
    if s is not None:
        parts.append(
            f"{s.voxels:,} voxels swept in {_seconds(s.seconds)}, {s.voxels_per_second / 1e6:,.1f} Mvoxel/s"
        )
        parts.append(f"read {format_bytes(s.bytes_read)}, wrote {format_bytes(s.bytes_written)}")
        parts.append(
            f"peak memory {format_bytes(s.peak_memory)} of {format_bytes(outcome.plan.process_memory)} "
            "predicted for a process"
        )
        if s.redone:
            parts.append(f"{s.redone} of {s.slabs} slabs done more than once")
    return "\n".join(parts)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)
