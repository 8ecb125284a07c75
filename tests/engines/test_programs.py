"""Programs as Beam's users start them: Beam YAML by Beam's command on Prism, an example on Flink."""

import csv
import json
import subprocess
import sys

import beam_volumes as bv
from tests.engines.conftest import PROJECT, on_engines, prism
from tests.test_examples import classes_of
from tests.transforms.trees import chunk_files, membranes, stored
from tests.waiting import PATIENCE

YAML = PROJECT / "templates" / "yaml"


def program(engine, *command):
    """Run a Python program with the options of an engine."""
    engine.mend()
    options = [f"--runner={engine.how['runner']}", *engine.how["options"]]
    done = subprocess.run(
        [sys.executable, *command, *options], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def rows(pattern, *names):
    """Numbers of a CSV file by their columns, sorted, from all its shards."""
    paths = pattern.parent.glob(f"{pattern.name}-*")
    found = [row for path in paths for row in csv.DictReader(path.read_text().splitlines())]
    return sorted([float(row[name]) for name in names] for row in found)


@on_engines([prism])
def test_beam_yaml_by_its_command(engine, tmp_path):
    em = stored(tmp_path, membranes((36, 40, 44)))
    given = {"input": str(tmp_path / "in.zarr"), "output": str(tmp_path)}
    pipeline = f"--yaml_pipeline_file={YAML / 'cells.yaml'}"
    program(
        engine, "-m", "apache_beam.yaml.main", pipeline, f"--jinja_variables={json.dumps(given)}"
    )
    cells = bv.label(bv.remove_small_objects(bv.gaussian_filter(em, 1) > 170, min_size=20))
    table = bv.regionprops_table(cells, em, properties=["area", "touches_border"])
    target = cells.to(tmp_path / "want.ome.zarr", chunks=(16, 256, 256))
    _, table = bv.compute(target, table, runner=None)
    assert chunk_files(tmp_path / "cells.ome.zarr") == chunk_files(tmp_path / "want.ome.zarr")
    want = [r for r in table.to_pylist() if r["area"] >= 40 and not r["touches_border"]]
    assert len(want) > 2
    assert rows(tmp_path / "cells.csv", "label", "area") == [[r["label"], r["area"]] for r in want]


@on_engines(["flink_standalone"])
def test_crops_in_a_model_and_a_dataframe(engine, tmp_path):
    program(engine, str(PROJECT / "examples" / "classify.py"), str(tmp_path))
    cells, sums = classes_of(tmp_path)
    assert rows(tmp_path / "kinds.csv", "label", "area", "kind") == cells
    assert rows(tmp_path / "kinds.sums.csv", "kind", "area") == sums
