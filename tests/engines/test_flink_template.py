"""A cluster as templates/flink/README.md has it: its commands, one after the other."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.csv
from scipy import ndimage

import beam_volumes as bv
from tests.engines.conftest import PROJECT
from tests.waiting import PATIENCE

FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def test_the_readme_leads_to_a_finished_job(cluster, tmp_path):
    """Its cluster is the one of all these tests, which is there already and is ended after them."""
    page = (PROJECT / "templates/flink/README.md").read_text()
    snippets = FENCED.findall(page)
    (recipe,) = [text for kind, text in snippets if kind == "yaml"]
    (tmp_path / "recipe.yaml").write_text(recipe)
    (tmp_path / "templates").symlink_to(PROJECT / "templates")
    lines = [line for kind, text in snippets if kind == "sh" for line in text.splitlines()]
    assert lines.pop(0) == "make engines"  # that has been
    up, down = (
        next(line for line in lines if f"cluster.sh {verb}" in line) for verb in ("up", "down")
    )
    assert lines.index(up) < lines.index(down) == len(lines) - 1
    assert lines.pop().split()[-1] == "cluster"
    (tmp_path / "cluster").symlink_to(cluster.folder)
    before = {job["jid"] for job in cluster.get("jobs/overview")["jobs"]}
    env = {**cluster.env, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = "\n".join(["set -e", *lines])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (
        "memory: " in done.stdout and "smallest that works" in done.stdout
    )  # as the page quotes it
    made = [job for job in cluster.get("jobs/overview")["jobs"] if job["jid"] not in before]
    assert [job["state"] for job in made] == ["FINISHED"]
    em = bv.open(str(tmp_path / "em.zarr"))
    labels, count = ndimage.label(np.asarray(em > bv.threshold_otsu(em)))
    np.testing.assert_array_equal(bv.open(str(tmp_path / "cells.zarr")), labels)
    assert pyarrow.csv.read_csv(tmp_path / "cells.csv").num_rows == count > 1
