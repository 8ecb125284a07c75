"""Classify cells by crops around them with Beam's RunInference, and sum up the classes as a Beam DataFrame.

The crops are read from the volume in the workers, one for each row of the region table. The model is a
file of scikit-learn (``pip install 'beam-volumes[classify]' pandas``); Beam's handlers for PyTorch and ONNX
are used in the same way.

    python examples/classify.py FOLDER
"""

import pickle
import sys
from pathlib import Path

import apache_beam as beam
import numpy as np
from apache_beam.dataframe.convert import to_dataframe
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference
from apache_beam.ml.inference.sklearn_inference import SklearnModelHandlerNumpy
from apache_beam.options.pipeline_options import PipelineOptions

import beam_volumes as bv

#: Voxels of a crop.
CROP = (8, 12, 12)


def padded(volume):
    """Return a volume with a border, so crops around cells at its faces are whole."""
    return bv.pad(volume, [(n // 2, n - n // 2) for n in CROP])


def crop(row, volume):
    """Return the label of a cell, and the voxels around it, called in the workers.

    ``volume`` is `padded`, so a crop starts at the rounded centroid. A volume is sent to workers as a
    description; the slice opens it there, and reads only its box.
    """
    start = [round(row.centroid_0), round(row.centroid_1), round(row.centroid_2)]
    box = tuple(slice(a, a + n) for a, n in zip(start, CROP, strict=True))
    return row.label, np.asarray(volume[box]).ravel()


def classified(pair):
    """Join a row of the table with its class. Beam infers the types of the fields from this function."""
    label, found = pair
    return beam.Row(
        label=int(label),
        area=float(found["rows"][0].area),
        kind=int(found["results"][0].inference),
    )


def run(path, threshold, model, output, options=()):
    """Write the class of each cell to ``output``.csv, and sums for each class to ``output``.sums.csv."""
    em = bv.open(path)
    bright = em > threshold
    read = bv.ReadSlabs(bright, depth=16, halo=1)
    network = KeyedModelHandler(SklearnModelHandlerNumpy(str(model)))
    with beam.Pipeline(options=PipelineOptions([*options])) as p:
        labels = p | read | bv.LabelSlabs(read, mask=bright, min_size=20)
        table = labels | bv.RegionTable(read, properties=["area", "centroid"])
        results = table | "Crop" >> beam.Map(crop, padded(em)) | RunInference(network)
        rows = table | "Keys" >> beam.Map(lambda row: (row.label, row))
        joined = {"rows": rows, "results": results} | beam.CoGroupByKey()
        cells = to_dataframe(joined | "Join" >> beam.Map(classified))
        cells.to_csv(f"{output}.csv", index=False)
        cells.groupby("kind").area.sum().to_csv(f"{output}.sums.csv")


def main(folder, options=()):
    """Write a volume of balls and rods, and a model that distinguishes them."""
    from sklearn.neighbors import KNeighborsClassifier

    folder = Path(folder)
    rng = np.random.default_rng(0)
    z, y, x = np.indices(CROP) - np.reshape(CROP, (3, 1, 1, 1)) // 2
    shapes = [z**2 + y**2 + x**2 < 12, (z**2 + y**2 < 4) & (abs(x) < 6)]
    volume = rng.integers(0, 60, (48, 96, 96), "u1")
    for k, corner in enumerate(np.ndindex(4, 6, 6)):
        start = np.multiply(corner, (12, 16, 16)) + rng.integers(0, 4, 3)
        box = tuple(slice(a, a + n) for a, n in zip(start, CROP, strict=True))
        volume[box] += (150 * shapes[k % 2]).astype("u1")
    bv.compute(bv.open(volume).to(folder / "cells.zarr"), runner=None)
    examples = [150.0 * shape.ravel() for shape in shapes]
    model = KNeighborsClassifier(1).fit(examples, [0, 1])
    (folder / "model.pkl").write_bytes(pickle.dumps(model))
    run(folder / "cells.zarr", 100, folder / "model.pkl", folder / "kinds", options)
    for sums in folder.glob("kinds.sums.csv*"):
        print(sums.read_text())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
