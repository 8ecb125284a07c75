"""A standalone Flink whose TaskManagers are killed: the result is the same, and little is done twice."""

import os
import signal
import threading
import time

import numpy as np

import beam_volumes as bv
from beam_volumes.runs import Journal, run_folder
from tests.transforms.trees import membranes, stored


def slow(v, seconds):
    def work(block):
        print("x" * (1 << 17))  # more than a pipe holds that nobody reads
        time.sleep(seconds)
        return block + 1

    return bv.map_overlap(work, v, name="slow", version=1)


def test_a_killed_taskmanager_costs_the_slabs_in_flight(cluster, tmp_path):
    v = stored(tmp_path, membranes((40, 24, 28)))
    path = tmp_path / "out.zarr"
    done_before: set[int] = set()

    def kill():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            journal = Journal.open(run_folder(str(path)))
            if journal is not None and len(journal.finished(0)) >= 5:
                done_before.update(journal.finished(0))
                os.kill(cluster.taskmanager(1), signal.SIGKILL)
                return
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    bv.compute(
        slow(v, 1).to(path, chunks=(2, 24, 28)),
        slab=(2, 24, 28),
        workers=2,
        memory="4GiB",
        runner="FlinkRunner",
        options=[*cluster.options, "--job_name=killed"],
    )
    killer.join()
    np.testing.assert_array_equal(bv.open(str(path)), np.asarray(v) + 1)

    attempts = Journal.open(run_folder(str(path))).attempts_of(0)
    assert set(attempts) == set(range(20)) and 5 <= len(done_before) < 20
    redone = {slab for slab, count in attempts.items() if count > 1}
    assert redone and len(redone) <= 2 + 2  # two in flight, and two that began as the job was ended
    assert not redone & done_before
    # It was the cluster that went on, by its own strategy: the very same job.
    said = cluster.job("killed")
    assert said["state"] == "FINISHED" and said["timestamps"]["RESTARTING"] > 0
