"""Input, output and journal in buckets: a recipe as a user runs it, keys and addresses in the environment."""

import os
import subprocess
import sys

import numpy as np
import pytest
import yaml

import beam_volumes as bv
from tests.transforms.trees import membranes


@pytest.fixture(params=["s3", "gcs"])
def bucket(request, monkeypatch):
    url, env = request.getfixturevalue(request.param)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return url


def test_a_recipe_from_bucket_to_bucket(bucket, tmp_path):
    array = membranes((16, 40, 48))
    bv.compute(bv.open(array).to(f"{bucket}/in.zarr", chunks=(4, 20, 24)), runner=None)
    recipe = {
        "input": f"{bucket}/in.zarr",
        "steps": {
            "smooth": {"op": "gaussian_filter", "sigma": 1},
            "level": {"op": "threshold_otsu"},
            "mask": {"op": "greater", "inputs": ["smooth", "level"]},
            "label": {"input": "mask"},
            "regions": {"op": "regionprops_table", "inputs": ["label"]},
        },
        "outputs": [
            {"path": f"{bucket}/labels.zarr", "step": "label", "chunks": [4, 20, 24]},
            {"path": f"{bucket}/regions.parquet", "step": "regions"},
        ],
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    command = [sys.executable, "-m", "beam_volumes.cli.main", "run", str(tmp_path / "recipe.yaml")]

    def run(*flags):
        flags = ("--slab", "4,40,48", *flags)
        return subprocess.run(
            [*command, *flags], capture_output=True, text=True, timeout=300, cwd=tmp_path
        )

    done = run()
    assert done.returncode == 0, done.stderr[-3000:]
    smooth = bv.gaussian_filter(bv.open(array), 1)
    labels = bv.label(smooth > bv.threshold_otsu(smooth))
    np.testing.assert_array_equal(bv.open(f"{bucket}/labels.zarr"), labels)
    # The journal is there too: what has ended is continued without sweeping a slab again.
    again = run("--resume")
    assert again.returncode == 0 and "more than once" not in again.stderr, again.stderr[-3000:]
    assert run().returncode == 2
    assert os.listdir(tmp_path) == ["recipe.yaml"]
