"""``beam-volumes run`` and ``chain``: run a recipe, for one volume or for each of many, or operations."""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature

from beam_volumes.base.text import counted, format_duration
from beam_volumes.cli import completing
from beam_volumes.cli.execute import execute, results
from beam_volumes.cli.messages import FAILED, message, print_note, print_result
from beam_volumes.cli.options import computing, recipe_arguments, run_options
from beam_volumes.cli.verbs.reference import describe
from beam_volumes.drive.runner_names import beam_arguments, taking
from beam_volumes.plan.run_options import AUTO, RunOptions
from beam_volumes.recipes.build import Built, build, missing_tables
from beam_volumes.recipes.chain import document
from beam_volumes.recipes.document import printed
from beam_volumes.recipes.each import Item, Targets, expands, input_of, items, recipe_for
from beam_volumes.recipes.recipe import Recipe, checked_recipe, read_recipe
from beam_volumes.recipes.registration import planned_registrations, register_inputs
from beam_volumes.recipes.words import read_words


def register_run(parser: argparse.ArgumentParser) -> None:
    recipe_arguments(parser)
    computing(parser)
    parser.add_argument(
        "--each",
        metavar="PATTERN",
        help="run the recipe for each volume that matches a pattern such as 'data/*.tif', which replaces its "
        "input; NAME=PATTERN if it has several inputs. A failure does not stop the others. With --runner, "
        "one pipeline computes all volumes, each in one worker",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="with --each: the output folder, with a subfolder for each volume",
    )
    parser.add_argument(
        "--part",
        metavar="K/N",
        help="with --each: run the recipe for every N-th volume, from the K-th on, e.g. in task K of an "
        "array of N jobs",
    )
    parser.add_argument(
        "--preview",
        action="store_true",
        help="instead of running, write preview-STEP.png with three sections of each output",
    )


def act_run(args: argparse.Namespace) -> int:
    options = run_options(args)
    if args.each is not None:
        recipe = read_recipe(args.recipe, args.set)
        options = options.or_else(**recipe.options)
        return _run_each(recipe, args.each, args.out, options, args.crop, args.dry_run, args.part)
    if args.part is not None:
        raise ValueError("--part requires --each; it divides volumes, not one volume")
    if args.out is not None:
        raise ValueError(
            "--out requires --each; use --set output=PATH to change the output of one volume"
        )
    if args.preview:
        from beam_volumes.cli.verbs.view import preview_outputs

        preview_outputs(build(read_recipe(args.recipe, args.set), args.crop))
        return 0
    run_recipe(read_recipe(args.recipe, args.set), options, args.crop, args.dry_run)
    return 0


def run_recipe(
    recipe: Recipe, options: RunOptions, crop: str | None = None, dry_run: bool | str = False
) -> None:
    """Run a recipe with ``options``, then its own, and print its outputs and results.

    ``dry_run`` prints the plan, by `beam_volumes.cli.options.CENSUS` with a census.
    """
    options = options.or_else(**recipe.options)
    memory = options.memory_bytes
    if dry_run:
        for planned in planned_registrations(recipe, memory, crop):
            print_result(str(planned))
        if missing := missing_tables(recipe):
            print_result(f"the steps are planned when {', '.join(missing)} exists")
            return
    else:
        files = register_inputs(
            recipe, crop, options.overwrite, options.resume, memory, options.progress
        )
        for path in files:
            print_result(path)
    execute(build(recipe, crop), options, dry_run)


USAGE = """\
beam-volumes chain IN [IN ...] OP [INPUT ...] [--NAME VALUE ...] [OP ...] -o OUT

words, in order of execution:
  IN                 a path, glob or URL; NAME=PATH gives it a name. Options for opening it follow:
                     --voxel-size 40,4,4 --unit nm --index c=DAPI --dataset raw --level 1
  OP                 an operation; "beam-volumes ops" lists them. Its parameters follow as options:
                     --sigma 1.5, --size 3,5,5, --structure ball:2
  INPUT              after OP: a name, a path, a number, or the next parameter. Without an input, OP
                     uses the previous volume, as the first of two in "greater 128"
  --as NAME          after OP: gives its result a name for later operations
  -o OUT             writes the previous result; --chunks, --shards, --codec, --dtype and --format
                     follow. Numbers and tables that no operation uses are printed

examples:
  beam-volumes chain slices gaussian_filter 1.5 -o smooth.zarr
  beam-volumes chain slices gaussian_filter 1.5 --as smooth threshold_otsu --as t greater smooth t \\
      remove_small_objects 64 label -o cells.ome.zarr regionprops_table --properties area -o cells.csv
"""


def register_chain(parser: argparse.ArgumentParser) -> None:
    usage, _, words = USAGE.partition("\n")
    parser.usage = usage
    parser.description = f"{parser.description}\n\n{words.strip()}"
    argument = parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="WORDS", help=argparse.SUPPRESS
    )
    argument.completer = completing.words  # type: ignore[attr-defined]
    computing(parser)
    parser.add_argument(
        "--print-recipe", action="store_true", help="print the equivalent recipe and exit"
    )


def act_chain(args: argparse.Namespace) -> None:
    ours = taking(args.parser)
    known = {"--help": 0, "-h": 0, **ours}
    given = [*args.others, *args.words]  # options for Beam may come first
    words = read_words(given, lambda o: known[o] if o in known else beam_arguments().get(o))
    if words.asked is not None:
        for line in describe(words.asked):
            print_result(line)
        return
    # Run options are accepted anywhere among the words.
    args, args.others = args.parser.parse_known_args(words.rest, args)
    options = run_options(args)
    recipe = checked_recipe(document(words), on_command_line=True)
    if args.print_recipe:
        print_result(printed(recipe.document).rstrip())
        return
    execute(build(recipe, args.crop), options, args.dry_run)


#: Maximum number of failures listed in the summary.
MAX_LISTED = 100


def _run_each(
    recipe: Recipe,
    given: str,
    out: str | None,
    options: RunOptions,
    crop: str | None = None,
    dry_run: bool | str = False,
    part: str | None = None,
) -> int:
    """Run a recipe for each volume that matches the pattern ``given``, and return the exit code.

    With several inputs, ``given`` is ``NAME=PATTERN``. Each volume gets a subfolder of ``out`` with its name.
    ``part`` selects every N-th volume from the K-th on, as ``K/N``.
    """
    # With a runner, one pipeline computes all volumes, each in one worker. A dry run plans the first volume.
    if not out:
        raise ValueError("--each needs --out DIR, the folder for the results of all volumes")
    name, pattern = input_of(recipe, given)
    found = _part(items(pattern, expands(recipe, name)), part)
    if not found:
        print_note(f"no volume is in part {part}")
        return 0
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


def _part(found: list[Item], part: str | None) -> list[Item]:
    """Return every N-th item from the K-th on, for the part ``K/N``.

    >>> [item.name for item in _part([Item("", name) for name in "abcde"], "2/3")]
    ['b', 'e']
    """
    if part is None:
        return found
    first, _, step = part.partition("/")
    if not (first.isdecimal() and step.isdecimal() and 1 <= int(first) <= int(step)):
        raise ValueError(f"--part {part}: write it as K/N with K from 1 to N, e.g. 1/20")
    return found[int(first) - 1 :: int(step)]


def summary(number: int, failed: dict[str, str], seconds: float) -> Iterator[str]:
    """Yield the number of finished volumes, and the errors of the others.

    >>> list(summary(3, {"b.tif": "it is empty"}, 12.0))
    ['2 of 3 volumes done in 12.0 s, 1 failed:', '  b.tif: it is empty']
    """
    all_well = f"{number - len(failed)} of {counted(number, 'volume')} done in {format_duration(seconds, 1)}"
    yield f"{all_well}, {len(failed)} failed:" if failed else all_well
    for path, error in list(failed.items())[:MAX_LISTED]:
        yield f"  {path}: {error}"
    if len(failed) > MAX_LISTED:
        yield f"  and {len(failed) - MAX_LISTED} more"


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


VERBS = {
    "chain": (register_chain, act_chain),
    "run": (register_run, act_run),
}
