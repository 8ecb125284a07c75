"""Slabs joined with a table: every slice is divided by its exposure, then the volume is smoothed.

The table goes to the workers as a side input. Voxels are not shuffled.

    python examples/exposure.py FOLDER
"""

import csv
import sys
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import numpy as np

import beam_volumes as bv
from beam_volumes.transforms import Slab, SlabKey


def run(stack, table, output, runner="FnApiRunner"):
    """Write the corrected stack; ``table`` is a CSV of ``slice,exposure``."""
    em = bv.open(stack)
    like = bv.median_filter(em.astype("f4"), 3)  # what the slabs written are slabs of
    with beam.Pipeline(runner) as p:
        lines = p | "Table" >> beam.io.ReadFromText(table, skip_header_lines=1)
        exposures = lines | "Parse" >> beam.Map(parse)
        slabs = p | "Read" >> bv.ReadSlabs(em, depth=16, halo=1)
        even = slabs | "Correct" >> beam.Map(correct, beam.pvalue.AsDict(exposures))
        smooth = even | "Smooth" >> bv.ApplyStages(lambda volume: bv.median_filter(volume, 3))
        _ = smooth | "Write" >> bv.WriteSlabs(output, like=like, chunks=(16, 256, 256))


def parse(line: str) -> tuple[int, float]:
    number, exposure = line.split(",")
    return int(number), float(exposure)


def correct(keyed: tuple[SlabKey, Slab], exposures: dict[int, float]) -> tuple[SlabKey, Slab]:
    """A slab with its slices, also in its halo, divided by their exposures."""
    key, slab = keyed
    slices = range(slab.box.start[0], slab.box.stop[0])
    by = np.array([exposures[z] for z in slices], "f4")
    return key, replace(slab, data=slab.data / by[:, None, None])


def main(folder):
    """Make a small stack with flickering exposure, and correct it."""
    folder = Path(folder)
    rng = np.random.default_rng(0)
    exposures = rng.uniform(0.5, 1.5, 40).round(3)
    sample = np.broadcast_to(np.hypot(*np.mgrid[-32:32, -32:32]), (40, 64, 64))
    stack = (sample * 4 * exposures[:, None, None]).clip(0, 255).astype("u1")
    bv.compute(bv.open(stack).to(folder / "stack.zarr"), runner=None)
    with open(folder / "exposures.csv", "w", newline="") as file:
        csv.writer(file).writerows([("slice", "exposure"), *enumerate(exposures)])
    run(folder / "stack.zarr", str(folder / "exposures.csv"), folder / "even.zarr")
    for name in ("stack.zarr", "even.zarr"):
        means = bv.compute(bv.mean(bv.open(folder / name), axis=("y", "x")), runner=None)
        print(f"{name}: means of slices from {means.min():.1f} to {means.max():.1f}")


if __name__ == "__main__":
    main(sys.argv[1])
