"""``run --each``: run a recipe for each of many volumes; a failure does not stop the others."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature

from beam_volumes.base.text import counted, format_duration
from beam_volumes.cli.execute import execute, results
from beam_volumes.cli.messages import FAILED, message, print_note, print_result
from beam_volumes.plan.run_options import AUTO, RunOptions
from beam_volumes.recipes.build import Built, build
from beam_volumes.recipes.each import Item, Targets, expands, input_of, items, recipe_for
from beam_volumes.recipes.recipe import Recipe

#: Maximum number of failures listed in the summary.
MAXIMUM = 100


def run_each(
    recipe: Recipe,
    given: str,
    out: str | None,
    options: RunOptions,
    crop: str | None = None,
    dry_run: bool | str = False,
) -> int:
    """Run a recipe for each volume that matches the pattern ``given``, and return the exit code.

    With several inputs, ``given`` is ``NAME=PATTERN``. Each volume gets a subfolder of ``out`` with its name.
    """
    # With a runner, one pipeline computes all volumes, each in one worker. A dry run plans the first volume.
    if not out:
        raise ValueError("--each needs --out DIR, the folder for the results of all volumes")
    name, pattern = input_of(recipe, given)
    found = items(pattern, expands(recipe, name))
    recipe_for(recipe, name, found[0], out)  # report common errors before the first volume starts
    if dry_run:
        print_result(f"{counted(len(found), 'volume')}; the plan of {found[0].path}:")
        execute(build(recipe_for(recipe, name, found[0], out), crop), options, dry_run)
        return 0
    names = {item.path: item.name for item in found}
    began = time.perf_counter()
    failed: dict[str, str] = {}
    outcomes = _one_by_one if options.runner in (AUTO, None) else _in_a_pipeline
    done = 0
    try:
        for item, error in outcomes(found, Targets(recipe, name, out, names, crop), options):
            done += 1
            if error is not None:
                failed[item.path] = error
                print_note(f"beam-volumes: error: {item.path}: {error}")
    except KeyboardInterrupt:
        so_far = f"{done - len(failed)} of {counted(len(found), 'volume')} are done"
        raise KeyboardInterrupt(
            f"{so_far}; to continue, run the same command with --resume"
        ) from None
    for line in summary(len(found), failed, time.perf_counter() - began):
        print_note(line)
    return FAILED if failed else 0


def summary(number: int, failed: dict[str, str], seconds: float) -> Iterator[str]:
    """Yield the number of finished volumes, and the errors of the others.

    Examples
    --------
    >>> list(summary(3, {"b.tif": "it is empty"}, 12.0))
    ['2 of 3 volumes done in 12.0 s, 1 failed:', '  b.tif: it is empty']
    """
    all_well = f"{number - len(failed)} of {counted(number, 'volume')} done in {format_duration(seconds, 1)}"
    yield f"{all_well}, {len(failed)} failed:" if failed else all_well
    for path, error in list(failed.items())[:MAXIMUM]:
        yield f"  {path}: {error}"
    if len(failed) > MAXIMUM:
        yield f"  and {len(failed) - MAXIMUM} more"


def _one_by_one(
    found: list[Item], targets: Targets, options: RunOptions
) -> Iterator[tuple[Item, str | None]]:
    """Compute the volumes one after the other, each with the whole machine."""
    first = options
    for k, item in enumerate(found):
        # In a log file, print no progress lines for every pass of every volume.
        if k and first.progress is True and not sys.stderr.isatty():
            options = replace(first, progress=False)
        if first.progress is not False:
            print_note(f"{k + 1}/{len(found)} {item.path}")
        try:
            built = build(recipe_for(targets.recipe, targets.name, item, targets.out), targets.crop)
            names = tuple(n if n is None else f"{item.name}: {n}" for n in built.names)
            os.makedirs(os.path.join(targets.out, item.name), exist_ok=True)
            # All volumes have the same plan as the first, except for sizes.
            execute(Built(built.targets, names, built.recipe), options, brief=k > 0)
        except Exception as error:
            yield item, message(error, recipe=True)
        else:
            yield item, None


def _in_a_pipeline(
    found: list[Item], targets: Targets, options: RunOptions
) -> Iterator[tuple[Item, str | None]]:
    """Compute each volume in one worker of a runner; reports are files next to the results."""
    import apache_beam as beam

    from beam_volumes.drive.pipelines import pipeline_options
    from beam_volumes.drive.runner_names import check_runner
    from beam_volumes.storage.places.place import Place
    from beam_volumes.transforms import ComputeAll
    from beam_volumes.transforms.compute_all import Report, read_reports

    check_runner(options.runner)
    place = f"{targets.out.rstrip('/')}/.each-{uuid.uuid4().hex}"
    taken = {name for name in signature(ComputeAll).parameters if hasattr(options, name)}
    taken.remove("journal")  # here a place, there whether each volume has one
    how = {name: getattr(options, name) for name in taken} | {"workers": options.workers or 1}
    compute = ComputeAll(targets, **how).with_exception_handling()
    try:
        with beam.Pipeline(options.runner, pipeline_options(options.beam_options)) as p:
            good, bad = p | beam.Create([item.path for item in found]) | compute
            _ = good | "Report results" >> beam.ParDo(Report(place))
            _ = bad | "Report failures" >> beam.ParDo(Report(place))
        reports = read_reports(place)
    finally:
        Place.of(place).remove()
    for item in found:
        given, error = reports.get(item.path, ({}, "the runner gave no result"))
        for line in results([f"{item.name}: {n}" for n in given], list(given.values())):
            print_result(line)
        yield item, error
