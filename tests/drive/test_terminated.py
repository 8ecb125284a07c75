"""SIGTERM ends a run after its slabs, or at once though a thread is stuck, as while numba compiles."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from tests.limits import slow_run
from tests.tiers import thorough
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]

#: A run in which no exception gets through: one that is raised in a finalizer is lost.
PROGRAM = """
import os, signal, sys, time
from types import SimpleNamespace
from beam_volumes.drive import interrupted
interrupted.GRACE = 0.1
ended = []
plan = SimpleNamespace(outputs=[])
session = SimpleNamespace(journal=None, plan=plan, end=lambda: print("scratch is removed", flush=True))
with interrupted.continuation_shown(session, SimpleNamespace(runner=None)):
    begun = time.monotonic()
    while time.monotonic() < begun + 60:
        try:
            if not ended:
                ended.append(True)
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(3600)
        except BaseException:
            pass
"""


def test_a_run_that_does_not_hear_sigterm_ends_with_it():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == -signal.SIGTERM
    assert done.stdout == "scratch is removed\n"
    assert re.fullmatch("beam-volumes: terminated: nothing of it is stored.*\n", done.stderr)


#: A callback of the compiler loses the exception, and another error follows at once.
LOST = (
    PROGRAM.split("    begun =")[0].replace("GRACE = 0.1", "GRACE = 60")
    + """
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(3600)
    except BaseException:
        raise RuntimeError("no compiled object yet") from None
"""
)


def test_an_error_that_follows_a_lost_sigterm_is_not_reported():
    done = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == -signal.SIGTERM
    assert re.fullmatch("beam-volumes: terminated: nothing of it is stored.*\n", done.stderr)


class Run:
    """A run of `slow_run` in a process, whose new slabs wait while a link to its journal exists."""

    def __init__(self, folder, workers, begun=0):
        self.folder, self.hold = folder, folder / "hold"
        self.out, self.log = folder / "out.zarr", folder / "log"
        self.hold.unlink(missing_ok=True)
        self.hold.symlink_to("out.zarr.run")
        program = (
            "import sys; import beam_volumes as bv; from tests.limits.slow_run import mask; "
            "bv.compute(*mask(*sys.argv[1:]), runner=None, threads=1, slab=(4, 32, 32), resume=True, "
            f"workers={workers}, progress=False)"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder / "in.zarr"), str(self.out)],
            env={**os.environ, slow_run.HOLD: f"{self.hold}/runs/*/starts/*/* {begun + 1}"},
            stderr=self.log.open("wb"),
        )

    def wait_for(self, starts):
        def running():
            assert self.process.poll() is None, self.log.read_text()

        wait_until(lambda: len(self.files("starts")) == starts, f"{starts} slabs", running)

    def files(self, kind):
        return list(self.folder.glob(f"out.zarr.run/runs/*/{kind}/*/*"))

    def terminate(self, message):
        self.process.send_signal(signal.SIGTERM)
        wait_until(lambda: message in self.log.read_text(), message)


@thorough
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_finishes_its_slabs_at_sigterm_and_resumes(workers, tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (8, 32, 64), np.uint8)
    bv.compute(bv.open(noise).to(tmp_path / "in.zarr"), runner=None, progress=False)

    run = Run(tmp_path, workers)
    run.wait_for(workers)
    run.terminate("finished first")
    assert run.process.poll() is None and not run.files("records")
    run.hold.unlink()
    assert run.process.wait(PATIENCE) == -signal.SIGTERM
    assert len(run.files("records")) == len(run.files("starts")) == workers
    end = rf"beam-volumes: terminated: to continue, run: beam-volumes resume {run.out}"
    assert run.log.read_text().splitlines()[-1] == end

    # A second SIGTERM does not wait for the slabs.
    run = Run(tmp_path, workers, begun=workers)
    run.wait_for(2 * workers)
    run.terminate("finished first")
    run.terminate(end)
    assert run.process.wait(PATIENCE) == -signal.SIGTERM
    assert len(run.files("records")) == workers

    how = {"runner": None, "progress": False, "slab": (4, 32, 32)}
    bv.compute(*slow_run.mask(str(tmp_path / "in.zarr"), str(run.out)), resume=True, **how)
    bv.compute(*slow_run.mask(str(tmp_path / "in.zarr"), str(tmp_path / "want.zarr")), **how)
    assert np.array_equal(bv.open(run.out), bv.open(tmp_path / "want.zarr"))


def test_a_sigterm_that_the_thread_of_a_slab_receives_is_heard_while_the_slab_runs(tmp_path):
    """The same happens when it arrives just before the main thread begins to wait for slabs."""
    program = (
        "import os, signal, threading; import numpy as np; import beam_volumes as bv\n"
        "from tests.waiting import wait_until\n"
        "def hold(a):\n    if os.path.exists('out.zarr'):\n"
        "        if a.all():\n            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)\n"
        "        wait_until(lambda: os.path.getsize('log'), 'the message')\n"
        "    return a\n"
        "v = bv.map_overlap(hold, np.repeat([[[0]], [[1]]], 4, 0).astype('u1'), depth=0)\n"
        "out = v.to('out.zarr', chunks=(4, 1, 1))\n"
        "bv.compute(out, runner=None, workers=2, slab=(4, 1, 1), window=4, progress=False)"
    )
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=log,
            timeout=PATIENCE,
        )
    assert done.returncode == -signal.SIGTERM
    assert "finished first" in (tmp_path / "log").read_text()


def test_a_run_that_is_terminated_in_its_last_slab_ends_with_the_signal(tmp_path):
    """Programs that compute several volumes must not go on to the next."""
    program = (
        "import os, signal; import numpy as np; import beam_volumes as bv\n"
        "def end(a):\n    if os.path.exists('out.zarr'):\n        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return a\n"
        "v = bv.map_overlap(end, np.zeros((4, 8, 8), 'u1'), depth=0)\n"
        "bv.compute(v.to('out.zarr'), runner=None, workers=1, progress=False)\n"
        "print('not reached')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == -signal.SIGTERM and not done.stdout
    assert "to continue, run: beam-volumes resume" in done.stderr.splitlines()[-1]
