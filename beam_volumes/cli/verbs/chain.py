"""``beam-volumes chain``: apply operations in sequence, without a recipe."""

from __future__ import annotations

import argparse

from beam_volumes.cli import completing
from beam_volumes.cli.execute import execute
from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import computing, run_options
from beam_volumes.cli.verbs.reference import describe
from beam_volumes.drive.runner_names import beam_arguments, taking
from beam_volumes.recipes.build import build
from beam_volumes.recipes.chain import document
from beam_volumes.recipes.document import printed
from beam_volumes.recipes.recipe import checked_recipe
from beam_volumes.recipes.words import read_words

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


def register(parser: argparse.ArgumentParser) -> None:
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


def act(args: argparse.Namespace) -> None:
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
