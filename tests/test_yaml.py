"""Pipelines in Beam YAML give what `compute` gives."""

import csv
import json
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.yaml import main

import beam_volumes as bv
from beam_volumes.yaml import (
    ComputeRecipe,
    LabelSlabs,
    MeasureSlabs,
    ReadAll,
    ReadSlabs,
    RegionTable,
    volume_of,
)
from tests.transforms.trees import chunk_files, membranes

TEMPLATES = Path(__file__).parent.parent / "templates" / "yaml"


def run(template, **variables):
    main.run(
        [
            f"--yaml_pipeline_file={TEMPLATES / template}",
            f"--jinja_variables={json.dumps({k: str(v) for k, v in variables.items()})}",
            "--runner=FnApiRunner",
        ]
    )


def table(pattern):
    (path,) = pattern.parent.glob(f"{pattern.name}*")
    with open(path) as file:
        return list(csv.DictReader(file))


@pytest.fixture
def em(tmp_path):
    volume = bv.open(membranes((40, 24, 28)), voxel_size=(4, 1, 1), unit="nm")
    bv.compute(volume.to(tmp_path / "em.zarr", format="ome-zarr"), runner=None)
    return bv.open(str(tmp_path / "em.zarr"))


def test_labels_and_a_table(tmp_path):
    """Of slices that are too large to be elements whole."""
    volume = bv.open(membranes((17, 272, 560)), voxel_size=(4, 1, 1), unit="nm")
    bv.compute(volume.to(tmp_path / "em.zarr", format="ome-zarr"), runner=None)
    em = bv.open(str(tmp_path / "em.zarr"))
    run("cells.yaml", input=tmp_path / "em.zarr", output=tmp_path)
    bright = bv.gaussian_filter(em, 1) > 170
    cells = bv.label(bv.remove_small_objects(bright, min_size=20))
    names = ["area", "centroid", "intensity_mean", "touches_border"]
    target = cells.to(tmp_path / "want.ome.zarr", chunks=(16, 256, 256))
    rows = bv.regionprops_table(cells, em, properties=names)
    _, want = bv.compute(target, rows, runner=None)
    cells_found = len(want)
    assert chunk_files(tmp_path / "cells.ome.zarr") == chunk_files(tmp_path / "want.ome.zarr")
    assert bv.open(str(tmp_path / "cells.ome.zarr")).voxel_size == em.voxel_size
    want = [r for r in want.to_pylist() if r["area"] >= 40 and not r["touches_border"]]
    got = sorted(table(tmp_path / "cells.csv"), key=lambda row: int(row["label"]))
    assert 2 < len(want) < cells_found
    assert [[float(v) for k, v in r.items() if k != "touches_border"] for r in got] == [
        [float(v) for k, v in r.items() if k != "touches_border"] for r in want
    ]
    assert list(got[0]) == [name.replace("-", "_") for name in want[0]]


def test_a_recipe(em, tmp_path):
    run("recipe.yaml", input=tmp_path / "em.zarr", output=tmp_path)
    smooth = bv.gaussian_filter(em, 1)
    threshold = bv.threshold_otsu(smooth)
    cells = bv.label(smooth > threshold)
    want = bv.compute(
        threshold, cells.num_labels, cells.to(tmp_path / "want.ome.zarr"), runner=None
    )
    assert chunk_files(tmp_path / "otsu.ome.zarr") == chunk_files(tmp_path / "want.ome.zarr")
    rows = {row["name"]: row for row in table(tmp_path / "found.csv")}
    assert float(rows["threshold"]["value"]) == want[0]
    assert float(rows["count"]["value"]) == want[1]
    assert rows["cells"]["path"].rstrip("/") == str(tmp_path / "otsu.ome.zarr")


def test_an_array_of_numbers_and_a_recipe_from_a_file(em, tmp_path):
    text = f"input: {tmp_path / 'em.zarr'}\nsteps: {{m: {{op: mean, axis: [y, x]}}}}\noutputs: [{{step: m}}]"
    (tmp_path / "r.yaml").write_text(text)
    out = tmp_path / "rows"
    with beam.Pipeline("FnApiRunner") as p:
        rows = p | ComputeRecipe(str(tmp_path / "r.yaml"), crop="3:6")
        _ = rows | beam.Map(lambda r: f"{r.name} {r.value!r}") | beam.io.WriteToText(str(out))
    (path,) = tmp_path.glob("rows*")
    want = np.asarray(bv.mean(em[3:6], axis=("y", "x")))
    assert sorted(path.read_text().split("\n")[:-1]) == [
        f"m[{k}] {float(v)}" for k, v in enumerate(want)
    ]


def test_refusals(em, tmp_path):
    path = str(tmp_path / "em.zarr")
    with pytest.raises(ValueError, match=r"config.steps.smooth.sigmma: .*did you mean 'sigma'"):
        ReadSlabs(path, {"smooth": {"op": "gaussian_filter", "sigmma": 1}})
    with pytest.raises(ValueError, match=r"recipe.outputs.0: .*needs path:"):
        ComputeRecipe({"input": path, "outputs": [{"step": "input"}]})
    with pytest.raises(ValueError, match="is a table without path:"):
        steps = {"cells": "label", "rows": "regionprops_table"}
        ComputeRecipe({"input": path, "steps": steps, "outputs": [{"step": "rows"}]})
    with pytest.raises(ValueError, match=r"the last step is .*, not a volume"):
        volume_of(path, {"mean": None})
    with pytest.raises(ValueError, match="not plain data"):
        volume_of(path, {"mean": {"op": b"mean"}})
    for transform in (LabelSlabs, RegionTable):
        with pytest.raises(ValueError, match="give a mapping with the input: of the slabs"):
            transform({"depth": 16})
        with pytest.raises(ValueError, match="grid has no halo; it has input, depth, tile"):
            transform({"input": path, "halo": 1})
    with pytest.raises(ValueError, match=r"cells: rows of tables have no fixed schema"):
        cells = {"cells": {"table": {"op": "regionprops_table", "properties": ["area"]}}}
        MeasureSlabs({"input": path, "dtype": "uint32"}, cells)
    with pytest.raises(ValueError, match="read them with halo="):
        cells = {"cells": "label", "x": "num_labels"}
        MeasureSlabs({"input": path}, {"x": cells})
    rows = beam.Pipeline("FnApiRunner") | beam.Create([beam.Row(path=path, sample=1)])
    with pytest.raises(
        ValueError, match="has the fields path, sample; name the one with the path by field:"
    ):
        _ = rows | ReadAll()
    with pytest.raises(ValueError, match="has no 'file', and has the fields path, sample"):
        _ = rows | "Files" >> ReadAll("file")
    with pytest.raises(ValueError, match="has a path, but paths come from the elements"):
        ReadAll(input={"path": path})
    with pytest.raises(ValueError, match=r"error_handling: 'bad'; give a mapping with output:"):
        ReadSlabs(path, error_handling="bad")
