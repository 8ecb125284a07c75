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


def chosen(row: beam.Row, size: int, intensity: float) -> Iterator[tuple[int, int]]:
    """Of a row of the table, the label and its new value if the cell is large and bright."""
    if row.num_pixels >= size and row.intensity_mean >= intensity:
        yield row.label, round(row.intensity_mean)


def run(volume, output, threshold, size, intensity, runner="FnApiRunner"):
    """Write the cells brighter than ``threshold`` that `chosen` chooses."""
    em = bv.open(volume)
    mask = bv.gaussian_filter(em, 1) > threshold
    read = bv.ReadSlabs(mask, depth=16, halo=1)
    label = bv.LabelComponents(read)
    table = bv.RegionTable(read, em, ["num_pixels", "intensity_mean"])
    with beam.Pipeline(runner) as p:
        merged = p | "Read" >> read | "Label" >> label | "Merge" >> bv.MergeEquivalences(label)
        cells = merged["answers"] | "Cells" >> bv.RelabelSlabs(mask, label)
        values = cells | "Measure" >> table | "Choose" >> beam.FlatMap(chosen, size, intensity)
        bright = {"answers": merged["answers"], "mapping": values} | "Bright" >> bv.RelabelSlabs(
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
