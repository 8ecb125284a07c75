"""``beam-volumes run``: run a recipe."""

from __future__ import annotations

import argparse

from beam_volumes.cli import each
from beam_volumes.cli.execute import execute
from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import computing, recipe_arguments, run_options
from beam_volumes.cli.verbs import preview
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.build import build, missing_tables
from beam_volumes.recipes.recipe import Recipe, read_recipe
from beam_volumes.recipes.registration import planned_registrations, register_inputs


def register(parser: argparse.ArgumentParser) -> None:
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


def act(args: argparse.Namespace) -> int:
    options = run_options(args)
    if args.each is not None:
        recipe = read_recipe(args.recipe, args.set)
        options = options.or_else(**recipe.options)
        return each.run_each(
            recipe, args.each, args.out, options, args.crop, args.dry_run, args.part
        )
    if args.part is not None:
        raise ValueError("--part requires --each; it divides volumes, not one volume")
    if args.out is not None:
        raise ValueError(
            "--out requires --each; use --set output=PATH to change the output of one volume"
        )
    if args.preview:
        preview.of_recipe(build(read_recipe(args.recipe, args.set), args.crop))
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
