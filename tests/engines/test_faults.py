"""Processes of the engines killed under a run: the result is the same, and little is done twice."""

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.drive import pipelines
from beam_volumes.drive.flink import FlinkJob
from beam_volumes.runs import Journal, Tally, run_folder
from tests.engines.conftest import free_ports, installed, server
from tests.ops.test_segmentation import chain, likely
from tests.transforms.trees import membranes, stored
from tests.waiting import wait_until

SLAB = (2, 24, 28)


def slow(v, seconds, noise=0):
    """A function that sleeps, and prints so many bytes on both its outputs."""

    def work(block):
        for stream in (sys.stdout, sys.stderr):
            print("x" * noise, file=stream)
        time.sleep(seconds)
        return block + 1

    return bv.map_overlap(work, v, dtype=v.dtype, name="slow", version=1)


def journal_of(path):
    return Journal.open(run_folder(str(path)))


@contextmanager
def killing(path, victim):
    """Kill the process that ``victim(journal)`` names first; return a dict with the time as ``at``."""
    told = {}

    def watch():
        while "over" not in told:
            journal = journal_of(path)
            if journal is not None and (process := victim(journal)) is not None:
                told["before"] = journal.finished(0)
                os.kill(process, signal.SIGKILL)
                told["at"] = time.monotonic()
                return
            time.sleep(0.05)

    killer = threading.Thread(target=watch)
    killer.start()
    try:
        yield told
    finally:
        told["over"] = True
        killer.join()
        assert "at" in told, "nothing was killed"


def sweeper(path, done):
    """Names the worker process of a slab that is under way, once so many are recorded."""

    def victim(journal):
        tally = Tally(journal, 0, 1000).update()
        flying = tally.in_flight() if tally.done >= done else []
        if not flying:
            return None
        starts = Path(run_folder(str(path))["path"]).glob(f"runs/*/starts/*/{flying[0]:09d}-*")
        return int(max(starts).read_text().split()[1])

    return victim


def redone(path, index=0):
    return {slab for slab, count in journal_of(path).attempts_of(index).items() if count > 1}


def needless(path):
    """Attempts, in any pass, at slabs that were already recorded."""
    run = Path(run_folder(str(path))["path"])
    recorded = {f.parts[-2:]: f.stat().st_mtime_ns for f in run.glob("runs/*/records/*/*")}
    starts = list(run.glob("runs/*/starts/*/*"))
    slabs = {f: (f.parent.name, f.name.partition("-")[0]) for f in starts}
    assert recorded.keys() == set(slabs.values())
    return [f for f in starts if f.stat().st_mtime_ns > recorded[slabs[f]]]


def went_on(cluster, name):
    """It was the cluster that did, by its own strategy: the very same job."""
    return cluster.job(name)["state"] == "FINISHED" and cluster.restarts(name) > 0


def flink(cluster, name):
    options = [*cluster.options, f"--job_name={name}"]
    return {"runner": "FlinkRunner", "workers": 2, "memory": "4GiB", "options": options}


def test_flink_a_taskmanager_killed_in_a_sweep(cluster, tmp_path):
    """It costs the slabs in flight."""
    v = stored(tmp_path, membranes((32, 24, 28)))
    path = tmp_path / "out.zarr"
    tm = cluster.taskmanager(1)
    with killing(path, lambda journal: tm if len(journal.finished(0)) >= 4 else None) as told:
        bv.compute(slow(v, 1).to(path, chunks=SLAB), slab=SLAB, **flink(cluster, "sweep"))
    np.testing.assert_array_equal(bv.open(str(path)), np.asarray(v) + 1)
    assert set(journal_of(path).attempts_of(0)) == set(range(16)) and 4 <= len(told["before"]) < 16
    # Two were in flight, and two may have begun as the job was ended.
    assert 0 < len(redone(path)) <= (2 + 2) * cluster.restarts("sweep")
    assert not needless(path)
    assert went_on(cluster, "sweep")


def test_flink_a_taskmanager_killed_in_a_merge(cluster, tmp_path):
    """As the merge begins: it costs no slab at all, because the merge begins again from the records."""
    em = stored(tmp_path, membranes((24, 48, 56)))
    path = tmp_path / "labels.zarr"
    target = bv.label(em > 150).to(path, chunks=(8, 16, 16))
    tm = cluster.taskmanager(1)
    slabs = 12
    with killing(path, lambda journal: tm if len(journal.finished(0)) == slabs else None) as told:
        bv.compute(target, slab=(8, 32, 32), **flink(cluster, "merge"))
    labels, _ = ndimage.label(np.asarray(em) > 150)
    np.testing.assert_array_equal(bv.open(str(path)), labels)
    assert told["before"] == list(range(slabs))
    assert not needless(path)
    assert went_on(cluster, "merge")


def test_flink_a_taskmanager_killed_between_tables(cluster, tmp_path):
    """From affinities to segments, in one request: boundaries are merged again, and come out the same.

    It has more ways than Flink's optimizer could follow, and is several jobs.
    """
    chunks = (1, 2, 24, 28)
    of = bv.compute(
        bv.open(likely((8, 24, 28))).to(tmp_path / "in.zarr", chunks=chunks), runner=None
    )
    expected, segments = bv.compute(*chain(np.asarray(of)), runner=None)
    merges, voxels = chain(of)
    targets = merges.to(tmp_path / "merges.parquet"), voxels.to(tmp_path / "x.zarr", chunks=SLAB)
    passes = bv.plan(*targets, slab=SLAB, memory="4GiB", workers=2)
    index = next(
        p.index for p in passes.passes for b in p.program.surveys if b.token in passes.tables
    )
    tm = cluster.taskmanager(1)
    last = f"segments-pass-{index + 1}"

    def merging(journal):
        """All slabs are recorded, so the rounds that lead to the table of merges are next."""
        return tm if len(journal.finished(index)) == len(passes.passes[index].grid) else None

    with killing(tmp_path / "merges.parquet", merging):
        bv.compute(*targets, slab=SLAB, **flink(cluster, "segments"))
    np.testing.assert_array_equal(bv.open(tmp_path / "x.zarr"), segments)
    assert expected.equals(pq.read_table(tmp_path / "merges.parquet"))
    assert cluster.job("segments")["state"] == "FINISHED" and went_on(cluster, last)
    assert not needless(tmp_path / "merges.parquet")  # a later job takes records


def test_flink_a_worker_killed_among_functions_that_print(cluster, tmp_path):
    """A megabyte a slab blocks no worker of a pool, and a killed worker costs its current slab."""
    v = stored(tmp_path, membranes((16, 24, 28)))
    path = tmp_path / "out.zarr"
    with killing(path, sweeper(path, 2)):
        noisy = slow(v, 0.5, 1 << 20)
        bv.compute(noisy.to(path, chunks=SLAB), slab=SLAB, **flink(cluster, "worker"))
    np.testing.assert_array_equal(bv.open(str(path)), np.asarray(v) + 1)
    assert 0 < len(redone(path)) <= (2 + 2) * cluster.restarts("worker")
    assert not needless(path)
    assert went_on(cluster, "worker")


@pytest.mark.parametrize("listed", [False, True])
def test_flink_a_run_that_is_interrupted(cluster, tmp_path, monkeypatch, listed):
    """Its job is gone from the cluster, even if Flink did not list it yet when the run was interrupted."""
    v = stored(tmp_path, membranes((32, 24, 28)))
    path, name = tmp_path / "out.zarr", f"interrupted-{listed}"

    def named():
        return [j for j in cluster.get("jobs/overview")["jobs"] if j["name"] == name]

    def interrupt():
        if listed:
            wait_until(lambda: (j := journal_of(path)) and j.finished(0), "the first slab")
        os.kill(os.getpid(), signal.SIGINT)

    def submitted(*job):
        threading.Timer(0.1, interrupt).start()
        return FlinkJob(*job)

    monkeypatch.setattr(pipelines, "FlinkJob", submitted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt, match="the job is cancelled; "):
            bv.compute(slow(v, 1).to(path, chunks=SLAB), slab=SLAB, **flink(cluster, name))
    finally:
        signal.signal(signal.SIGINT, before)
    assert [j["state"] for j in named()] in ([["CANCELED"]] if listed else [["CANCELED"], []])
    wait_until(lambda: cluster.get("overview")["slots-available"] == 4, "the free slots")


def test_prism_a_worker_killed(tmp_path):
    """Prism does not go on: it reports the failure at once, and the run is resumed.

    Rarely, Prism loses the failure, and its stream of states ends after five minutes: try this again.
    """
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with suppress(grpc.RpcError):
            return _kill_a_worker_of_prism(folder)
    raise AssertionError("Prism has not reported the failure twice")


def _kill_a_worker_of_prism(tmp_path):
    v = stored(tmp_path, membranes((16, 24, 28)))
    path = tmp_path / "out.zarr"
    port, pool = free_ports(2)
    prism = [installed("bin/prism"), f"--job_port={port}", "--serve_http=false"]
    workers = [sys.executable, "-m", "beam_volumes.cli.main", "worker-pool", "--port", str(pool)]
    external = ["--environment_type=EXTERNAL", f"--environment_config=localhost:{pool}"]
    how = {
        "runner": "PrismRunner",
        "workers": 2,
        "memory": "4GiB",
        "options": [f"--job_endpoint=localhost:{port}", *external],
        "slab": SLAB,
    }
    target = slow(v, 1).to(path, chunks=SLAB)
    # Prism itself may fail over the missing worker before it reports this.
    said = r"(?s)(worker disconnected|send on closed channel).*last slabs .*resume=True"
    lost = r"the connection to the runner failed.*last slabs .*resume=True"
    with (
        server(tmp_path / "prism.log", *prism, port=port),
        server(tmp_path / "pool.log", *workers, port=pool),
    ):
        with (
            killing(path, sweeper(path, 2)) as told,
            pytest.raises(RuntimeError, match=f"{said}|{lost}") as caught,
        ):
            bv.compute(target, **how)
        if isinstance(caught.value.__cause__, grpc.RpcError):
            raise caught.value.__cause__
        assert time.monotonic() - told["at"] < 120  # its stream of states would end after 300
        assert 2 <= len(told["before"]) < 8
        bv.compute(target, resume=True, **how)
    np.testing.assert_array_equal(bv.open(str(path)), np.asarray(v) + 1)
    assert not needless(path)
