"""``beam-volumes demo``: makes a stack, runs a recipe on it, and shows what came out."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np

import beam_volumes as bv
from beam_volumes.cli.execute import How
from beam_volumes.cli.options import no_others, running, verb
from beam_volumes.cli.recipe import read_recipe
from beam_volumes.cli.run import run_recipe
from beam_volumes.cli.specimen import write_specimen

RECIPE = """\
# Membranes of an electron-microscopy stack: denoise, take the background away, threshold, clean up.
# Try:  beam-volumes run @/recipe.yaml --dry-run
#       beam-volumes run @/recipe.yaml --set width=2.5 --overwrite
#       beam-volumes run @/recipe.yaml --crop 0:32 --set output=@/trial.ome.zarr
variables:
  width: 1.5

input: {path: @/slices, voxel_size: [10, 10, 10], unit: nm}

steps:
  smooth: {op: gaussian_filter, input: input, sigma: "${width}"}
  background: {op: gaussian_filter, input: input, sigma: 8}
  even: {op: subtract, inputs: [smooth, background]}
  threshold: {op: threshold_otsu}
  dark: {op: less, inputs: [even, threshold]}
  membranes: {op: binary_opening, structure: {cross: 1}}

output: {path: @/membranes.ome.zarr}
"""


def register(verbs: Any) -> None:
    parser = verb(verbs, "demo", act, "make a stack, run a recipe on it, and show the result")
    parser.add_argument(
        "--out", metavar="DIR", default="demo", help="where to (default: %(default)s)"
    )
    running(parser)
    parser.add_argument("--shape", default="256,512,512", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    no_others(others, parser)
    z, y, x = (int(n) for n in args.shape.split(","))
    folder = Path(args.out)
    began = time.perf_counter()
    tell(f"making {z} TIFF slices of {y} x {x} in {folder / 'slices'}")
    write_specimen(folder / "slices", (z, y, x), args.seed)
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.replace("@", folder.as_posix()))
    tell(f"running {recipe}:")
    tell("".join(f"  | {line}\n" for line in recipe.read_text().splitlines()).rstrip())
    run_recipe(
        read_recipe(str(recipe)),
        How(
            args.memory,
            args.workers,
            None if args.runner.lower() == "none" else args.runner,
            overwrite=True,
        ),
    )
    write_preview(folder, z // 2)
    print(f"{folder / 'preview.png'}: input and result, slice {z // 2}")
    tell(f"demo took {time.perf_counter() - began:.0f} s")


def write_preview(folder: Path, z: int) -> None:
    """A slice of the input and of the result side by side, as a PNG file."""
    image = np.asarray(bv.open(folder / "slices")[z])
    mask = np.asarray(bv.open(folder / "membranes.ome.zarr")[z])
    gap = np.full((image.shape[0], 8), 128, np.uint8)
    both = np.hstack([image, gap, np.where(mask, 255, 0).astype(np.uint8)])
    (folder / "preview.png").write_bytes(imagecodecs.png_encode(both))


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
