"""What a run compiles is told while it does, whichever process compiles."""

import os
import subprocess
import sys

import numpy as np
import pytest

import beam_volumes as bv
from tests.tiers import few

PROGRAM = """
import sys
from functools import partial
import beam_volumes as bv
from beam_volumes.drive import compute
compute.Watch = partial(compute.Watch, interval=0.01)
place, out, runner, *options = sys.argv[1:]
told = set()
def progress(p):
    assert p.compiling_is_known
    if p.compiling is not None:
        assert p.compiling.seconds >= 0
        told.add(p.compiling.kernel)
if __name__ == "__main__":
    target = bv.exp(bv.open(place)).to(out, chunks=(8, 32, 32))
    bv.compute(target, runner=None if runner == "none" else runner,
               options=options or None, progress=progress, workers=2, slab=(8, 32, 32))
    print(sorted(told))
"""


RUNNERS = [["none"], ["FnApiRunner", "--direct_running_mode=multi_processing"]]


@pytest.mark.parametrize("runner", few(RUNNERS, [["none"]]))
def test_kernels_are_named_while_they_are_compiled_and_not_when_they_are_kept(tmp_path, runner):
    voxels = np.random.default_rng(0).normal(size=(16, 32, 32)).astype("f4")
    bv.compute(bv.open(voxels).to(tmp_path / "in.zarr", chunks=(8, 32, 32)), runner=None)
    (tmp_path / "program.py").write_text(PROGRAM)
    kernels = {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "NUMBA_CPU_NAME": "generic"}

    def told(out):
        places = [str(tmp_path / name) for name in ("program.py", "in.zarr", out)]
        done = subprocess.run(
            [sys.executable, *places, *runner],
            capture_output=True,
            text=True,
            env={**os.environ, **kernels},
        )
        assert done.returncode == 0, done.stderr
        left = tmp_path / f"{out}.run" / "compiling"
        assert not left.exists() or not list(left.iterdir())
        return done.stdout

    assert "'_exp_rows'" in told("cold.zarr")
    if runner == ["none"]:
        assert told("warm.zarr") == "[]\n"
