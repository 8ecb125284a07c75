"""``beam-volumes check`` and ``beam-volumes probe``: check a recipe, or measure a network."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import beam_volumes as bv
from beam_volumes.base.text import counted, format_bytes
from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import numbers, recipe_arguments
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import build, expressions
from beam_volumes.recipes.recipe import Recipe, read_recipe


def register_check(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Reads only metadata. Exit code 0: the recipe can be run. 2: it cannot, and the reason is printed "
        "with its line."
    )
    recipe_arguments(parser)
    parser.add_argument(
        "--words-only",
        action="store_true",
        help="check only names, operations and parameter names; the inputs are not opened and need not exist",
    )


def act_check(args: argparse.Namespace) -> None:
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
    """Describe inputs and steps in order of execution, one line each."""
    for name, item in expressions(recipe).items():
        yield f"{name}: {_what(item)}"


def _what(item: Any) -> str:
    if isinstance(item, tuple):
        return f"{len(item)} times {_what(item[0])}"
    if isinstance(item, Volume):
        shape = " x ".join(map(str, item.shape))
        return f"{shape} ({', '.join(item.axes)}) {item.dtype}, {format_bytes(item.nbytes)}"
    return "a table" if isinstance(item, Table) else f"a number, {item.dtype}"


def register_probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the path or URL of an ONNX file")
    parser.add_argument(
        "--patch",
        metavar="Z,Y,X",
        default="64",
        help="size of the test input in voxels, more than twice the receptive radius (default: 64)",
    )
    parser.add_argument("--channels", metavar="N", type=int, help="number of input channels")
    parser.epilog = "Copy the printed values into a step `op: predict` of a recipe."


def act_probe(args: argparse.Namespace) -> None:
    patch = [int(n) for n in numbers(args.patch, "--patch")]
    found = bv.probe_model(
        args.model, patch[0] if len(patch) == 1 else patch, channels=args.channels
    )
    print_result(f"context: {[list(pair) for pair in found.context]}")
    print_result(f"stride: {list(found.stride)}")
    print_result(
        f"# it depends on {' '.join(f'{b}+{a}' for b, a in found.reach)} voxels around each"
    )
    print_result(
        f"# it makes {found.channels} channels, a voxel of {' x '.join(map(str, found.scale))}"
    )
