"""Seconds that plans predict for ten recipes of the documentation, compared with the seconds they take.

Run ``beam-volumes bench --calibrate``, then ``python benchmarks/recipes.py``. Each recipe runs in fresh
processes with the command's defaults: once to compile kernels, then three times for a
median. The inputs are the demo's stack, affinities and labels of it, and a slide of JPEG tiles. ``--only
WORD`` selects recipes by a word of their names, ``--folder`` keeps the inputs for the next time.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tifffile
from slides import specimen

import beam_volumes as bv
from beam_volumes.cli.specimen import write_specimen

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^```yaml\n(.*?)^```", re.M | re.S)
TEMPLATES = ("cells", "slide", "slide_filters", "slide_stains", "slide_to_zarr")
#: Recipes of the pages, by a word of theirs.
PAGES = {
    "an example": ("docs/reference/command-line.md", "membranes:"),
    "a chain": ("docs/reference/recipes.md", "median_filter:"),
    "segments": ("docs/reference/recipes.md", "agglomerate"),
    "tables": ("docs/reference/recipes.md", "remove_small_objects"),
    "a variable": ("docs/reference/recipes.md", "${width}"),
}

#: In a fresh process: the predicted seconds, and those taken.
RUN = """
import json, os, sys, time
import beam_volumes as bv
from beam_volumes.drive import compute
from beam_volumes.plan.cost.speeds import PROCESS, load
from beam_volumes.plan.fit.seconds import core_seconds
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import read_recipe
recipe = read_recipe(sys.argv[1], sys.argv[2:])
options = RunOptions(runner="auto", overwrite=True, progress=False).or_else(**recipe.options)
targets = build(recipe).targets
planned = compute.plan_run(targets, options)
began, used = time.perf_counter(), sum(os.times()[:4])
compute.run(targets, options)
seconds, used = time.perf_counter() - began, sum(os.times()[:4]) - used
fixed = load().fixed[PROCESS]
cores = sum(map(core_seconds, planned.passes)) + fixed.run + len(planned.kernels) * fixed.kernel
print(json.dumps([planned.predicted_seconds, seconds, cores, used, len(planned.passes)]))
"""


def make_inputs(folder: Path, shape: tuple[int, int, int]) -> None:
    """The inputs that the recipes name."""
    if (folder / "slide.tif").exists():
        return
    write_specimen(folder / "slices", shape)
    (folder / "demo").mkdir(exist_ok=True)
    (folder / "demo" / "slices").symlink_to("../slices")
    em = bv.open(f"{folder}/slices")
    cells = bv.label(bv.gaussian_filter(em, 2) > 110, dtype="u4")
    targets = (
        bv.stack([bv.gaussian_filter(em, 3, dtype="u1")] * 3).to(f"{folder}/affinities.zarr"),
        cells.to(f"{folder}/truth.zarr"),
    )
    bv.compute(*targets, runner=None, progress=False)
    image = np.tile(specimen((2048, 2048)), (4, 4, 1))
    how = {"tile": (256, 256), "photometric": "rgb", "compression": "jpeg"}
    tifffile.imwrite(folder / "slide.tif", image, **how, compressionargs={"level": 80})


def recipes() -> dict[str, str]:
    """By name: the ten recipes as text."""
    found = {}
    for name, (page, word) in PAGES.items():
        texts = FENCED.findall((ROOT / page).read_text())
        found[name] = next(t for t in texts if word in t and "OPERATION" not in t)
    for name in TEMPLATES:
        found[name] = (ROOT / "templates" / "recipes" / f"{name}.yaml").read_text()
    return found


def measure(folder: Path, text: str, runs: int) -> list[float]:
    """Predicted and measured seconds, by the clock and of processors, and passes; medians of runs."""
    (folder / "recipe.yaml").write_text(text)
    command = [sys.executable, "-P", "-c", RUN, "recipe.yaml"]
    taken = []
    for _ in range(1 + runs):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr[-3000:])
        taken.append(json.loads(done.stdout.splitlines()[-1]))
    if taken[-1][0] is None:
        raise SystemExit("no speeds are known: run beam-volumes bench --calibrate first")
    return [statistics.median(column) for column in zip(*taken[1:], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.folder or temporary).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        make_inputs(folder, (256, 512, 512))
        print(
            "| recipe | passes | predicted, s | taken, s | ratio | core-seconds predicted | taken | ratio |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for name, text in recipes().items():
            if args.only not in name:
                continue
            predicted, taken, cores, used, passes = measure(folder, text, args.runs)
            print(
                f"| {name} | {passes:.0f} | {predicted:.1f} | {taken:.1f} | {predicted / taken:.2f} "
                f"| {cores:.1f} | {used:.1f} | {cores / used:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
