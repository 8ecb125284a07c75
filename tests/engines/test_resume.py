"""A stopped run in a bucket: verified, continued by the command, and verified."""

import subprocess
import sys

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.session import slabs
from tests.transforms.trees import membranes
from tests.waiting import PATIENCE


@pytest.fixture(params=["s3", "gcs"])
def bucket(request, monkeypatch):
    url, env = request.getfixturevalue(request.param)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return f"{url}/resume"


def command(*arguments):
    line = [sys.executable, "-m", "beam_volumes.cli.main", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)


def test_a_run_in_a_bucket_is_verified_and_continued(bucket, monkeypatch):
    array = membranes((16, 40, 48))
    how = {"runner": None, "slab": (4, 40, 48), "workers": 1}  # a slab is recorded before the next
    v = bv.compute(bv.open(array).to(f"{bucket}/in.zarr", chunks=(4, 20, 24)), **how)
    cells, out = bv.label(v > 140), f"{bucket}/cells.zarr"
    table = bv.regionprops_table(cells, properties=["area"]).to(f"{bucket}/cells.parquet")
    swept, left = slabs.sweep_slab, [6]

    def slab(session, *args):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return swept(session, *args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(slabs, "sweep_slab", slab)
        bv.compute(cells.to(out, chunks=(4, 20, 24)), table, **how)
    stopped = command("verify", out)
    assert stopped.returncode == 1, stopped.stderr
    assert "pass 2: slabs 2 to 3 not finished" in stopped.stdout
    assert "cells.parquet is not finished" in stopped.stdout
    again = command("resume", f"{out}.run")
    assert again.returncode == 0, again.stderr
    assert again.stdout.split() == [out, f"{bucket}/cells.parquet"]
    assert "pass 2/2" in again.stderr and "4/4 slabs" in again.stderr
    np.testing.assert_array_equal(bv.open(out), bv.label(bv.open(array) > 140))
    whole = command("verify", out, "--checksums")
    assert whole.returncode == 0 and "complete: 2 passes, 8 slabs" in whole.stdout, whole
    assert "is complete" in command("resume", out).stdout
