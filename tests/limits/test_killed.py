"""Drivers and workers killed with -9 at random moments: an error in time, a resumed run, equal files."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import beam_volumes as bv
from beam_volumes.runs.journal import Journal, run_folder
from tests.limits.slow_run import HOLD
from tests.ops.networks.conftest import unet
from tests.tiers import few, thorough
from tests.waiting import PATIENCE, wait_until

SCRIPT = Path(__file__).with_name("slow_run.py")
WORKERS = 2


def digest(folder: Path) -> str:
    """Of the chunk files: names and contents."""
    h = hashlib.blake2b()
    for path in sorted((folder / "c").rglob("*")):
        if path.is_file():
            h.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return h.hexdigest()


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """The input, and the digest of an undisturbed run's output."""
    folder = tmp_path_factory.mktemp("killed")
    noise = np.random.default_rng(0).integers(0, 255, (40, 64, 64), np.uint8)
    bv.compute(bv.open(noise).to(folder / "in.zarr"), runner=None, progress=False)
    run(folder / "in.zarr", folder / "out.zarr", "none", "in_memory", "new").communicate()
    return folder / "in.zarr", digest(folder / "out.zarr")


def run(source, out, runner, mode, resume, *what, hold=None) -> subprocess.Popen:
    """A run; ``hold`` is a pattern of records, and how many of them it goes no further than."""
    command = [sys.executable, str(SCRIPT), str(source), str(out), runner, mode, resume, *what]
    held = {} if hold is None else {HOLD: f"{out}.run/runs/*/records/{hold[0]} {hold[1]}"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | held
    )


def records(out: Path) -> int:
    return sum(1 for p in Path(f"{out}.run").glob("runs/*/records/*/*"))


def started(source, out, runner, mode, count: int, *what) -> subprocess.Popen:
    """A run that goes no further than so many finished slabs, and has them."""
    process = run(source, out, runner, mode, "new", *what, hold=("*/*", count))
    wait_until(lambda: records(out) >= count, f"{count} slabs", lambda: check_runs(process))
    return process


def check_runs(process: subprocess.Popen) -> None:
    assert process.poll() is None, process.communicate()


def check_resumed(source, out, runner, mode, expected, *what) -> None:
    begun = Journal.open(run_folder(str(out)))
    # A kill may come before anything was begun.
    done = {p: set(begun.finished(p)) if begun is not None else set() for p in (0, 1)}
    again = run(source, out, runner, mode, "resume", *what)
    stdout, stderr = again.communicate(timeout=PATIENCE)
    assert "finished" in stdout, stderr
    assert digest(out) == expected
    begun = begun or Journal.open(run_folder(str(out)))
    for p in (0, 1):
        attempts = begun.attempts_of(p)
        assert sorted(attempts) == list(range(40))
        redone = {slab for slab, n in attempts.items() if n > 1}
        assert not redone & done[p]
        assert len(redone) <= WORKERS


@thorough
@pytest.mark.parametrize("moment", few([1, 3], [1]))
def test_a_killed_in_process_run_is_resumed(tmp_path, volume, moment):
    source, expected = volume
    out = tmp_path / "out.zarr"
    count = random.randrange(20 * moment, 20 * moment + 18)
    process = started(source, out, "none", "in_memory", count)
    time.sleep(random.random() / 10)
    process.kill()
    process.communicate()
    check_resumed(source, out, "none", "in_memory", expected)


@thorough
def test_a_killed_run_of_a_network_is_resumed(tmp_path, volume):
    source, _ = volume
    unet(source.with_name("unet.onnx"))
    whole, out = tmp_path / "whole.zarr", tmp_path / "out.zarr"
    run(source, whole, "none", "in_memory", "new", "network").communicate()
    process = started(source, out, "none", "in_memory", random.randrange(41, 60), "network")
    process.kill()
    process.communicate()
    check_resumed(source, out, "none", "in_memory", digest(whole), "network")


@thorough
@pytest.mark.parametrize(("moment", "mode"), [(0, "in_memory"), (2, "multi_processing")])
def test_a_killed_driver_leaves_no_worker_and_is_resumed(tmp_path, volume, moment, mode):
    source, expected = volume
    out = tmp_path / "out.zarr"
    count = random.randrange(1 + 25 * moment, 25 * moment + 20)
    process = started(source, out, "FnApiRunner", mode, count)
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    assert not alive
    # Where workers are processes, what is resumed by them is the same and starts them again.
    check_resumed(source, out, "FnApiRunner" if mode == "in_memory" else "none", mode, expected)


@thorough
def test_a_killed_worker_ends_the_run_with_an_error_and_it_is_resumed(tmp_path, volume):
    source, expected = volume
    out = tmp_path / "out.zarr"
    count = random.randrange(1, 70)
    process = started(source, out, "FnApiRunner", "multi_processing", count)
    workers = [
        p
        for p in psutil.Process(process.pid).children(recursive=True)
        if "sdk_worker_main" in " ".join(p.cmdline()) and p.name() != "sh"
    ]
    os.kill(random.choice(workers).pid, signal.SIGKILL)
    # Beam itself would wait for it for ever.
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    last = stderr.strip().splitlines()[-1]
    assert "WorkerDied" in last and "resume=True" in last and "slab" in last
    check_resumed(source, out, "none", "in_memory", expected)
