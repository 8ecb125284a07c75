"""``beam-volumes run``: carry out a recipe."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.cli.execute import How, execute, tell, took
from beam_volumes.cli.options import computing, setting, verb
from beam_volumes.cli.stats import shown
from beam_volumes.drive import compute
from beam_volumes.recipes.build import Built, build
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
    built = build(recipe, crop)
    outcome = execute(built, how)
    if outcome is None:
        return
    for line in results(built, outcome):
        print(line)
    sys.stdout.flush()
    tell(took(outcome), how)


def results(built: Built, outcome: compute.Outcome) -> list[str]:
    """What was written and what was found, a line each; a table without a place is its rows."""
    lines = []
    for name, target, result in zip(built.names, built.targets, outcome.results, strict=True):
        if isinstance(target, bv.Target | bv.TableTarget):
            lines.append(f"{name}: {target.sink.name}")
        elif isinstance(target, bv.Table):
            lines.append(f"{name}:\n{shown(result)}")
        else:
            lines.append(f"{name}: {np.asarray(result).tolist()}")
    return lines
