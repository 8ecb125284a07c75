"""A run reports what it compiles meanwhile, in any process."""

import os
import subprocess
import sys

import numpy as np
import pytest

import beam_volumes as bv
from tests.tiers import few, thorough

#: The first action of each process that sweeps: afterwards it compiles nothing without a report.
HOLDING = """
import os
import time
from beam_volumes.runs.journal import Journal

TOLD = os.environ["TOLD"]
write = Journal.write_compiling

def told(journal, what):
    write(journal, what)
    limit = time.monotonic() + 600
    while what is not None and not os.path.exists(f"{TOLD}/{what.kernel}"):
        if time.monotonic() > limit:
            raise TimeoutError(f"{what.kernel} was not told")
        time.sleep(0.01)

def hold(block):
    Journal.write_compiling = told
    return block
"""

PROGRAM = """
import pathlib
import sys
from functools import partial
import beam_volumes as bv
import holding
from beam_volumes.drive import compute
compute.Watch = partial(compute.Watch, interval=0.01)
place, out, runner, *options = sys.argv[1:]
told = set()
def progress(p):
    assert p.compiling_is_known
    if p.compiling is not None:
        assert p.compiling.seconds >= 0
        told.add(p.compiling.kernel)
        pathlib.Path(holding.TOLD, p.compiling.kernel).touch()
if __name__ == "__main__":
    held = bv.map_overlap(holding.hold, bv.open(place), dtype=bv.open(place).dtype, name="hold", version="1")
    target = bv.exp(held).to(out, chunks=(8, 32, 32))
    bv.compute(target, runner=None if runner == "none" else runner,
               options=options or None, progress=progress, workers=2, slab=(8, 32, 32))
    print(sorted(told))
"""


RUNNERS = [["none"], ["FnApiRunner", "--direct_running_mode=multi_processing"]]


@thorough
@pytest.mark.parametrize("runner", few(RUNNERS, [["none"]]))
def test_kernels_are_named_while_they_are_compiled_and_not_when_they_are_kept(tmp_path, runner):
    voxels = np.random.default_rng(0).normal(size=(16, 32, 32)).astype("f4")
    bv.compute(bv.open(voxels).to(tmp_path / "in.zarr", chunks=(8, 32, 32)), runner=None)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "holding.py").write_text(HOLDING)
    kernels = {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "NUMBA_CPU_NAME": "generic"}
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", os.getcwd())])

    def told(out):
        (tmp_path / f"told-{out}").mkdir()
        own = {"TOLD": str(tmp_path / f"told-{out}"), "PYTHONPATH": path}
        places = [str(tmp_path / name) for name in ("program.py", "in.zarr", out)]
        done = subprocess.run(
            [sys.executable, *places, *runner],
            capture_output=True,
            text=True,
            env={**os.environ, **kernels, **own},
        )
        assert done.returncode == 0, done.stderr
        assert not list(tmp_path.glob(f"{out}.run/runs/*/compiling/*"))
        return done.stdout

    assert "'_exp_rows'" in told("cold.zarr")
    if runner == ["none"]:
        assert told("warm.zarr") == "[]\n"
