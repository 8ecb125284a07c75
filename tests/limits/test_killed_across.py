"""Killed while slabs are merged, and while their answers are written: resumed, all files are equal."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.runs.journal import Journal, run_folder
from tests.limits import test_killed as killed
from tests.tiers import thorough
from tests.transforms.trees import membranes
from tests.waiting import PATIENCE, wait_until

SLABS = 24


def run(source, out, runner, mode, resume, **how):
    return killed.run(source, out, runner, mode, resume, "cells", **how)


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """The input, and an undisturbed run's output."""
    folder = tmp_path_factory.mktemp("killed")
    v = bv.open(membranes((24, 64, 64)))
    bv.compute(v.to(folder / "in.zarr"), runner=None, progress=False)
    run(folder / "in.zarr", folder / "out.zarr", "none", "in_memory", "new").communicate()
    return folder / "in.zarr", folder / "out.zarr"


def finished(out: Path, sweep: int) -> int:
    return sum(p.name.isdigit() for p in Path(f"{out}.run").glob(f"runs/*/records/{sweep}-*/*"))


#: Runner, its mode, who is killed, and when: after so many slabs of the first and the second sweep.
MOMENTS = {
    "a worker, first sweep over": ("FnApiRunner", "multi_processing", "worker", (SLABS, 0)),
    "labels half written": ("none", "in_memory", "driver", (SLABS, 10)),
    "labels written, tables not": ("FnApiRunner", "in_memory", "driver", (SLABS, SLABS)),
}


@thorough
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_in_the_merge_or_the_second_sweep(tmp_path, volume, moment):
    runner, mode, who, (first, second) = MOMENTS[moment]
    source, undisturbed = volume
    out = tmp_path / "out.zarr"
    hold = ("1-*/*", max(second, 1)) if second < SLABS else None
    process = run(source, out, runner, mode, "new", hold=hold)
    wait_until(
        lambda: finished(out, 0) >= first and finished(out, 1) >= second,
        f"{first} and {second} slabs",
        lambda: killed.check_runs(process),
    )
    if who == "worker":
        family = psutil.Process(process.pid).children(recursive=True)
        workers = [p for p in family if "sdk_worker_main" in " ".join(p.cmdline())]
        os.kill(next(p.pid for p in workers if p.name() != "sh"), signal.SIGKILL)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "WorkerDied" in stderr and "resume=True" in stderr
    else:
        process.kill()
        process.communicate()
    begun = Journal.open(run_folder(str(out)))
    done = [set(begun.finished(k)) for k in (0, 1)]
    assert len(done[0]) == SLABS
    assert second <= len(done[1]) <= max(second, SLABS - 1)
    assert not (tmp_path / "out.zarr.csv").exists()

    # Another runner goes on with it as well, and starts fewer processes.
    stdout, stderr = run(source, out, "none", mode, "resume").communicate(timeout=PATIENCE)
    assert "finished" in stdout, stderr
    assert killed.digest(out) == killed.digest(undisturbed)
    table, whole = (Path(f"{o}.csv").read_bytes() for o in (out, undisturbed))
    assert table == whole and len(table) > 10_000
    table, whole = (pq.read_table(f"{o}.parquet") for o in (out, undisturbed))
    assert table.equals(whole)
    for k in (0, 1):  # what had a record was not swept again
        attempts = begun.attempts_of(k)
        assert sorted(attempts) == list(range(SLABS))
        assert not {slab for slab, n in attempts.items() if n > 1} & done[k]


@thorough
def test_segments_of_a_run_that_was_killed(tmp_path, volume):
    """From affinities to segments and their merges, killed between them."""
    source, _ = volume
    whole, out = tmp_path / "whole.zarr", tmp_path / "out.zarr"
    killed.run(source, whole, "none", "in_memory", "new", "segments").communicate()
    count = int(0.6 * killed.records(whole))
    process = killed.run(source, out, "none", "in_memory", "new", "segments", hold=("*/*", count))
    wait_until(
        lambda: killed.records(out) >= count, f"{count} slabs", lambda: killed.check_runs(process)
    )
    process.kill()
    process.communicate()
    stdout, stderr = killed.run(source, out, "none", "in_memory", "resume", "segments").communicate(
        timeout=PATIENCE
    )
    assert "finished" in stdout, stderr
    assert count > 10 and len(pq.read_table(f"{out}.parquet")) > 10
    assert files(out) == {n.replace("whole", "out"): data for n, data in files(whole).items()}


def files(out: Path) -> dict[str, bytes]:
    """All that a run leaves but its journal, rows of Parquet as they are read."""
    kept = {}
    for place in sorted(out.parent.glob(f"{out.name}*")):
        if place.suffix == ".parquet":
            kept[place.name] = pq.read_table(place).to_pydict()
        elif place.suffix != ".run":
            for file in [place] if place.is_file() else place.rglob("[0-9]*"):
                if file.is_file():
                    kept[str(file.relative_to(out.parent))] = file.read_bytes()
    return kept


@thorough
def test_one_run_killed_five_times(tmp_path):
    """At moments from a seed, and each time continued by the command, which knows the folder alone."""
    chance = random.Random(5)
    source, whole, out = (tmp_path / name / "x.zarr" for name in ("in", "whole", "out"))
    bv.compute(bv.open(membranes((40, 64, 64))).to(source), runner=None, progress=False)
    killed.run(source, whole, "none", "in_memory", "new", "everything").communicate()
    assert len(files(whole)) > 100
    resume = [sys.executable, "-m", "beam_volumes.cli.main", "resume", str(out), "--quiet"]
    process = killed.run(source, out, "FnApiRunner", "in_memory", "new", "everything")
    for _ in range(5):
        # The first thing is a manifest: before that there is nothing to resume.
        manifest, enough = (
            Path(f"{out}.run/manifest.json"),
            killed.records(out) + chance.randrange(12),
        )
        wait_until(
            lambda at=manifest, n=enough: at.exists() and killed.records(out) >= n,
            "slabs",
            lambda p=process: killed.check_runs(p),
        )
        time.sleep(chance.random() / 10)
        process.kill()
        process.communicate()
        process = subprocess.Popen(
            resume, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and stdout.split()[0] == str(out), stderr
    assert files(out) == files(whole)
    assert bv.verify(out, checksums=True) == []


def test_an_input_that_changes_between_the_sweeps(tmp_path):
    """The first sweep is over when the run is killed; the slab that differs is named."""
    array = membranes((12, 32, 32))
    source = bv.compute(
        bv.open(array).to(tmp_path / "in.zarr", chunks=(4, 16, 16), codec=None), runner=None
    )
    target = bv.label(source > 140).to(tmp_path / "out.zarr", chunks=(4, 16, 16))
    how = {"slab": (4, 32, 32), "progress": False, "runner": None}
    bv.compute(target, **how)
    for lost in ("records/1-*/*", "prepared", "ended"):
        for file in tmp_path.glob(f"out.zarr.run/runs/*/{lost}"):
            file.unlink()
    chunk = tmp_path / "in.zarr" / "c" / "1" / "1" / "0"
    changed = np.frombuffer(chunk.read_bytes(), np.uint8).reshape(4, 16, 16).copy()
    changed[1, 5:9, 5:9] ^= 0x80
    written = chunk.stat()
    chunk.write_bytes(changed.tobytes())
    os.utime(chunk, ns=(written.st_atime_ns, written.st_mtime_ns))  # or it is refused by its time
    for runner in (None, "FnApiRunner"):
        with pytest.raises(
            ValueError, match=r"slab 1 \[4:8, 0:32, 0:32\]: label.*has changed"
        ) as error:
            bv.compute(target, resume=True, **how | {"runner": runner})
        assert "\n" not in str(error.value)


def test_what_is_not_deterministic_is_stored(tmp_path):
    """A mask that differs whenever it is computed is computed once, and labelled as it was stored."""
    random = np.random.default_rng()

    def noise(block):
        return random.random(block.shape) < 0.4

    source = bv.open(membranes((12, 20, 24)))
    mask = bv.map_overlap(noise, source, dtype=bool, deterministic=False)
    cells = bv.label(mask)
    how = {"chunks": (4, 20, 24)}
    plan = bv.plan(cells.to(tmp_path / "labels.zarr", **how), slab=(4, 20, 24))
    assert len(plan.intermediates) == 1
    assert any("deterministic" in reason for reason in plan.reasons)
    out = [cells.to(tmp_path / "labels.zarr", **how), mask.to(tmp_path / "mask.zarr", **how)]
    *_, count = bv.compute(*out, cells.num_labels, runner=None, slab=(4, 20, 24), workers=2)
    expected, n = ndi.label(np.asarray(bv.open(tmp_path / "mask.zarr")))
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "labels.zarr")), expected)
    assert count == n > 50
