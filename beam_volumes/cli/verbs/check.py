"""``beam-volumes check``: check a recipe: its words, its inputs, and what each step gives."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from beam_volumes.base.text import counted, format_bytes
from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import recipe_arguments
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import build, expressions
from beam_volumes.recipes.recipe import Recipe, read_recipe


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Only metadata are read. Exit code 0: the recipe can be carried out. 2: it cannot, and the reason is "
        "printed with the line."
    )
    recipe_arguments(parser)
    parser.add_argument(
        "--words-only",
        action="store_true",
        help="check names, operations and parameters' names, and open nothing: the inputs need not be there",
    )


def act(args: argparse.Namespace) -> None:
    recipe = read_recipe(args.recipe, args.set)
    if not args.words_only:
        build(recipe)
        for line in given(recipe):
            print_result(line)
    parts = (
        counted(len(recipe.inputs), "input"),
        counted(len(recipe.steps), "step"),
        counted(len(recipe.outputs), "output"),
    )
    print_result(f"{args.recipe}: {', '.join(parts)}; nothing is wrong")


def given(recipe: Recipe) -> Iterator[str]:
    """What inputs and steps are, a line each, in the order in which they come about."""
    for name, item in expressions(recipe).items():
        yield f"{name}: {_what(item)}"


def _what(item: Any) -> str:
    if isinstance(item, tuple):
        return f"{len(item)} times {_what(item[0])}"
    if isinstance(item, Volume):
        shape = " x ".join(map(str, item.shape))
        return f"{shape} ({', '.join(item.axes)}) {item.dtype}, {format_bytes(item.nbytes)}"
    return "a table" if isinstance(item, Table) else f"a number, {item.dtype}"
