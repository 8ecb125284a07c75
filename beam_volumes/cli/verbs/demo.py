"""``beam-volumes demo``: create a stack, run a recipe on it, and show the result."""

from __future__ import annotations

import argparse
import itertools
import json
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

import beam_volumes as bv
from beam_volumes.base import codecs as imagecodecs
from beam_volumes.cli.messages import print_note, print_result
from beam_volumes.cli.options import run_options, running
from beam_volumes.cli.specimen import write_specimen
from beam_volumes.cli.verbs.run import run_recipe
from beam_volumes.plan.run_options import AUTO
from beam_volumes.recipes.recipe import read_recipe
from beam_volumes.storage.places.single_file import write_file

RECIPE = """\
# Cells of an electron-microscopy stack: denoise, subtract the background, threshold the membranes,
# clean up; label and measure the enclosed regions.
# Try:  beam-volumes run @/recipe.yaml --dry-run
#       beam-volumes run @/recipe.yaml --set width=2.5 --overwrite
#       beam-volumes run @/recipe.yaml --crop 0:32 --set out=@/trial
variables:
  width: 1.5
  out: "@"

input: {path: @/slices, voxel_size: [10, 10, 10], unit: nm}

steps:
  smooth: {op: gaussian_filter, input: input, sigma: "${width}"}
  background: {op: gaussian_filter, input: input, sigma: 8}
  even: {op: subtract, inputs: [smooth, background]}
  threshold: {op: threshold_otsu}
  dark: {op: less, inputs: [even, threshold]}
  membranes: {op: binary_opening, structure: {cross: 1}}
  thick: {op: binary_dilation, structure: {ball: 2}}
  inside: {op: logical_not}
  large: {op: remove_small_objects, max_size: "0.002 um^3"}
  cells: {op: label}
  table: {op: regionprops_table, intensity: input, properties: [area, centroid, intensity_mean]}
  count: {op: num_labels, input: cells}

outputs:
  - {step: membranes, path: "${out}/membranes.ome.zarr"}
  - {step: cells, path: "${out}/cells.ome.zarr"}
  - {step: table, path: "${out}/cells.csv"}
  - {step: count}
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", metavar="DIR", default="demo", help="the output folder (default: %(default)s)"
    )
    running(parser)
    parser.set_defaults(others_to_beam=False)
    parser.add_argument("--shape", default="256,512,512", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)


def act(args: argparse.Namespace) -> None:
    z, y, x = (int(n) for n in args.shape.split(","))
    folder = Path(args.out)
    began = time.perf_counter()
    print_note(
        "the demo takes about a minute while kernels are compiled, and about 10 s when run again"
    )
    recipe, text = folder / "recipe.yaml", RECIPE.replace("@", folder.as_posix())
    if recipe.exists() and recipe.read_bytes() != text.encode():
        raise ValueError(
            f"{recipe} is not the recipe of the demo; choose a different folder with --out"
        )
    make_slices(folder, (z, y, x), args.seed)
    write_file(recipe, text.encode())
    print_note(f"running {recipe}:")
    print_note("".join(f"  | {line}\n" for line in recipe.read_text().splitlines()).rstrip())
    options = replace(run_options(args), overwrite=True)
    if options.runner == AUTO:
        print_note("running in this process; --runner FnApiRunner runs a Beam pipeline")
        options = replace(options, runner=None)
    run_recipe(read_recipe(str(recipe)), options)
    write_preview(folder, z // 2)
    with open(folder / "cells.csv") as table:
        print_result("".join(itertools.islice(table, 4)) + "...")
    print_result(f"{folder / 'preview.png'}: input, membranes and cells, slice {z // 2}")
    print_note(f"demo took {time.perf_counter() - began:.0f} s")


def make_slices(folder: Path, shape: tuple[int, int, int], seed: int) -> None:
    """Write the slices, unless slices of an earlier demo can be reused."""
    slices, note = folder / "slices", folder / ".slices.json"
    identity = json.dumps({"shape": shape, "seed": seed, "version": bv.__version__})
    with suppress(OSError):
        found = [path.stat().st_mtime for path in slices.glob("z*.tif")]
        is_whole = len(found) == shape[0] and max(found) <= note.stat().st_mtime
        if is_whole and note.read_text() == identity:
            print_note(f"reusing the slices in {slices}")
            return
    z, y, x = shape
    print_note(f"writing {z} TIFF slices of {y} x {x} to {slices}")
    note.unlink(missing_ok=True)
    write_specimen(slices, shape, seed)
    note.write_text(identity)


def write_preview(folder: Path, z: int) -> None:
    """A slice of the input, the membranes and the cells side by side, as a PNG file."""
    image = np.asarray(bv.open(folder / "slices")[z])
    mask = np.asarray(bv.open(folder / "membranes.ome.zarr")[z])
    cells = np.asarray(bv.open(folder / "cells.ome.zarr")[z])
    # Neighbouring labels get different colours.
    colours = np.random.default_rng(0).integers(60, 256, (256, 3), np.uint8)
    colours = np.where((cells > 0)[..., None], colours[cells % 256], np.uint8(0))
    gap = np.full((image.shape[0], 8, 3), 128, np.uint8)
    grey = [np.repeat(a[..., None], 3, 2) for a in (image, np.where(mask, 255, 0).astype("u1"))]
    both = np.hstack([grey[0], gap, grey[1], gap, colours])
    write_file(folder / "preview.png", imagecodecs.png_encode(both))


VERBS = {
    "demo": (register, act),
}
