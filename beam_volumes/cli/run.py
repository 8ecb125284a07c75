"""``beam-volumes run``: carry out a recipe."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from beam_volumes.cli.execute import How, execute
from beam_volumes.cli.options import computing, setting, verb
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import Recipe, read_recipe


def register(verbs: Any) -> None:
    parser = verb(verbs, "run", act, "carry out a recipe")
    parser.add_argument("recipe", metavar="RECIPE.yaml", help="a path, or a URL in a bucket")
    setting(parser)
    computing(parser)


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    how = How.of(args, others, parser)
    run_recipe(read_recipe(args.recipe, args.set), how, args.crop)


def run_recipe(recipe: Recipe, how: How, crop: str | None = None) -> None:
    """Carry out a recipe, and print what was written and found.

    Parameters
    ----------
    recipe : Recipe
        Its own memory and workers are used where ``how`` says none.
    how : How
    crop : str, optional
        A box that every input is cropped to.
    """
    how = replace(
        how,
        memory=recipe.memory if how.memory is None else how.memory,
        workers=recipe.workers if how.workers is None else how.workers,
    )
    execute(build(recipe, crop), how)
