"""A microscope writes 20 slices a second; a pipeline filters them meanwhile, and a preview grows.

    mkdir trial
    python examples/acquisition.py trial --runner=PrismRunner --experiments=prism_disable_sdf_split
    beam-volumes view trial/preview.zarr

Slices arrive in no order, and some of them twice. Each slab is filtered and written as soon as its slices
are there. So is a preview of half the size along y and x, which the second command shows while it grows;
missing parts are black. After the last slice, labels are merged, and their table and the volume's mean are
printed, from summaries of the slabs. Beam's FnApiRunner does all of this after the last slice only.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions

import beam_volumes as bv
from beam_volumes.base.geometry import NO_HALO, Box

SHAPE, DEPTH = (200, 256, 256), 8


def acquire(folder: Path, slices: np.ndarray, a_second: float = 20) -> None:
    """Write slices as a microscope does that is not simple: under another name first, and then renamed."""
    import imagecodecs

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    # Neighbours change places, as with two cameras.
    order = np.argsort(np.arange(len(slices)) + rng.uniform(0, 5, len(slices)))
    for z in order:
        for _ in range(2 if z % 50 == 0 else 1):
            unfinished = folder / "unfinished"
            unfinished.write_bytes(imagecodecs.png_encode(slices[z]))
            os.replace(unfinished, folder / f"slice_{z:05d}.png")
        time.sleep(1 / a_second)


def run(folder: Path, shape: tuple[int, int, int], depth: int, options: list[str]) -> None:
    """Filter, show, label and measure the slices that come into ``folder/scan``."""
    # Two slices more on both sides: the median takes one, and labels one.
    halo = ((2, 2), (1, 1), (1, 1))
    watch = bv.WatchSlices(folder / "scan" / "slice_{z}.png", shape, "u1", depth, halo)
    whole = {"like": watch.volume, "chunks": (depth, *shape[1:])}
    small = {"like": bv.open(np.zeros(half(shape), "u1")), "chunks": (depth, *half(shape)[1:])}
    labelled = {"like": watch.volume.astype("u4"), "chunks": (depth, *shape[1:])}
    with beam.Pipeline(options=PipelineOptions(["--streaming", *options])) as p:
        slabs, problems = p | watch
        smooth = slabs | "Median" >> bv.ApplyStages(lambda v: bv.median_filter(v, 3))
        smooth | "Smooth" >> bv.WriteSlabs(folder / "smooth.zarr", **whole)
        shown = smooth | "Half" >> beam.MapTuple(preview)
        shown | "Preview" >> bv.WriteSlabs(folder / "preview.zarr", **small)
        bright = smooth | "Bright" >> bv.ApplyStages(lambda v: v > 140)
        cells = bright | "Cells" >> bv.LabelSlabs(watch, min_size=20)
        cells | "Labels" >> bv.WriteSlabs(folder / "cells.zarr", **labelled)
        rows = cells | "Table" >> bv.RegionTable(watch, properties=["area", "centroid"])
        rows | "Note" >> beam.Map(note, str(folder / "cells.csv"))
        found = smooth | "Numbers" >> bv.MeasureSlabs(watch, mean=bv.mean)
        found["mean"] | "Mean" >> beam.Map(lambda mean: print(f"mean {mean:.2f}"))
        problems | "Problems" >> beam.Map(lambda row: print(row.box, row.message))


def preview(key: bv.SlabKey, slab: bv.Slab) -> tuple[bv.SlabKey, bv.Slab]:
    """A slab of every second row and column: a step of one's own, which makes slabs of another volume."""
    voxels = np.ascontiguousarray(slab.voxels[:, ::2, ::2])
    core = Box(slab.core.start, (slab.core.stop[0], *voxels.shape[1:]))
    return key, bv.Slab(core, NO_HALO, voxels, half(slab.shape))


def half(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The shape of the preview."""
    return (shape[0], -(-shape[1] // 2), -(-shape[2] // 2))


def note(row: beam.Row, path: str) -> None:
    """Write a row of the table, which comes once all slices are there."""
    with open(path, "a") as file:
        print(*row, sep=",", file=file)


def main(folder: Path, options: list[str], shape: tuple[int, int, int] = SHAPE) -> None:
    """Acquire a made volume, and process it meanwhile."""
    noise = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
    blobs = np.asarray(bv.gaussian_filter(bv.open(noise), 2))
    slices = np.clip((blobs - blobs.mean()) * 10 + 128, 0, 255).astype("u1")
    microscope = threading.Thread(target=acquire, args=(folder / "scan", slices))
    microscope.start()
    run(folder, shape, DEPTH, options)
    microscope.join()
    cells = (folder / "cells.csv").read_text().count("\n")
    print(f"{cells} cells; {folder}/smooth.zarr, {folder}/preview.zarr, {folder}/cells.zarr")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
