"""Many volumes of different shapes: the cells of each are labelled and counted; one CSV for all.

A volume is an element, computed as a whole by one worker. If it is run again, the pipeline of the same name
computes only the unfinished volumes. Volumes that cannot be read are listed in a separate CSV.

    python examples/screening.py FOLDER
"""

import sys
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow.compute as pc

import beam_volumes as bv


def cells(path):
    """What is wanted of one volume."""
    em = bv.open(path)
    smooth = bv.gaussian_filter(em, 1)
    found = bv.label(bv.remove_small_objects(smooth > bv.percentile(smooth, 90), min_size=20))
    return {
        "cells": found.to(path.removesuffix(".zarr") + ".cells.ome.zarr"),
        "table": bv.regionprops_table(found, em, properties=["area", "intensity_mean"]),
        "count": found.num_labels,
    }


def line(path, results):
    area = pc.mean(results["table"]["area"]).as_py() or 0.0
    return f"{Path(path).stem},{results['count']},{area:.1f},{results['cells']}"


def run(paths, output, name, runner="FnApiRunner"):
    """Write ``output``.csv of all volumes, and ``output``.errors.csv of those that failed."""
    one = {"shard_name_template": ""}  # not sharded
    with beam.Pipeline(runner) as p:
        each = bv.ComputeAll(cells, memory="2GiB", run=name).with_exception_handling()
        done, failed = p | beam.Create(paths) | each
        lines = done | "Line" >> beam.MapTuple(line)
        _ = lines | "Write" >> beam.io.WriteToText(
            f"{output}.csv", header="volume,cells,mean_area,labels", **one
        )
        errors = failed | "Error" >> beam.Map(
            lambda bad: f"{bad.volume},{f'{bad.error}: {bad.message}'!r}"
        )
        _ = errors | "Write errors" >> beam.io.WriteToText(f"{output}.errors.csv", **one)


def main(folder):
    """Make volumes of a few shapes, and one that is broken."""
    rng = np.random.default_rng(0)
    paths = []
    for k, shape in enumerate([(20, 64, 64), (33, 48, 80), (12, 100, 40)]):
        noise = bv.gaussian_filter(bv.open(rng.normal(size=shape).astype("f4")), 3)
        volume = bv.clip(100 + noise * 2500, 0, 255).astype("u1").to(f"{folder}/well{k}.zarr")
        bv.compute(volume, runner=None)
        paths.append(volume.sink.name)
    run([*paths, f"{folder}/lost.zarr"], f"{folder}/screen", name="first screen")
    print(Path(folder, "screen.csv").read_text() + Path(folder, "screen.errors.csv").read_text())


if __name__ == "__main__":
    main(sys.argv[1])
