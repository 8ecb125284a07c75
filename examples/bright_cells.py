"""Label, measure, select with your own step, and label again: all in one pipeline.

Large and bright cells are kept, with their mean intensity as the new value. Tables and ids of cells are
shuffled; voxels are read again where they are needed.

    python examples/bright_cells.py FOLDER
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import numpy as np

import beam_volumes as bv


class Choose(beam.DoFn):
    """Large and bright cells of batches of a table's rows: (labels, new values)."""

    def __init__(self, size: int, intensity: float):
        self.size, self.intensity = size, intensity

    def process(self, rows: dict[str, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        mean = rows["intensity_mean"]
        kept = (rows["num_pixels"] >= self.size) & (mean >= self.intensity)
        yield rows["label"][kept], mean[kept].round().astype("u1")


def run(volume, output, threshold, size, intensity, runner="FnApiRunner"):
    """Write the cells brighter than ``threshold`` that `Choose` chooses."""
    em = bv.open(volume)
    mask = bv.gaussian_filter(em, 1) > threshold
    read = bv.ReadSlabs(mask, depth=16, halo=1)
    label = bv.LabelComponents(read)
    table = bv.RegionTable(read, em, ["num_pixels", "intensity_mean"])
    with beam.Pipeline(runner) as p:
        merged = p | "Read" >> read | "Label" >> label | "Merge" >> bv.MergeEquivalences(label)
        cells = merged["answers"] | "Cells" >> bv.RelabelSlabs(mask, label)
        chosen = cells | "Measure" >> table | "Choose" >> beam.ParDo(Choose(size, intensity))
        bright = {"answers": merged["answers"], "mapping": chosen} | "Bright" >> bv.RelabelSlabs(
            mask, label, dtype="u1", missing=0
        )
        like = mask.astype("u1")
        _ = bright | "Write" >> bv.WriteSlabs(output, like=like, chunks=(16, 256, 256))


def main(folder):
    """Make a small volume of blobs, and keep some."""
    folder = Path(folder)
    rng = np.random.default_rng(0)
    noise = bv.gaussian_filter(bv.open(rng.normal(size=(40, 96, 96)).astype("f4")), 2)
    volume = bv.clip(100 + noise * 1000, 0, 255).astype("u1")
    bv.compute(volume.to(folder / "volume.zarr"), runner=None)
    run(folder / "volume.zarr", folder / "bright.zarr", 140, 50, 175)
    values = np.unique(np.asarray(bv.open(folder / "bright.zarr")))
    print(f"mean intensities of the cells that are left: {values[1:].tolist()}")


if __name__ == "__main__":
    main(sys.argv[1])
