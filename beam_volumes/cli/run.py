"""``beam-volumes run``: carry out a recipe."""

from __future__ import annotations

import argparse
from typing import Any

from beam_volumes.cli.execute import execute
from beam_volumes.cli.options import computing, run_options, setting, verb
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import Recipe, read_recipe


def register(verbs: Any) -> None:
    parser = verb(verbs, "run", act, "carry out a recipe")
    parser.add_argument("recipe", metavar="RECIPE.yaml", help="a path, or a URL in a bucket")
    setting(parser)
    computing(parser)


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    options = run_options(args, others, parser)
    run_recipe(read_recipe(args.recipe, args.set), options, args.crop, args.dry_run)


def run_recipe(
    recipe: Recipe, options: RunOptions, crop: str | None = None, dry_run: bool = False
) -> None:
    """Carry out a recipe, and print what was written and found.

    Parameters
    ----------
    recipe : Recipe
        Its own memory and workers are used where ``options`` say none.
    options : RunOptions
    crop : str, optional
        A box that every input is cropped to.
    dry_run : bool
        Print the plan and write nothing.
    """
    options = options.or_else(memory=recipe.memory, workers=recipe.workers)
    execute(build(recipe, crop), options, dry_run)
