"""A run of very many slabs on Flink, with TaskManagers killed at random: its output must not differ.

Run ``python benchmarks/soak_flink.py --minutes 20`` after ``make engines``. It starts a standalone cluster
with two TaskManagers and labels a volume of ``--slabs`` slabs on it: a median, a threshold, labels, and a
table of them, in two passes. For so many minutes, one of the TaskManagers is killed with -9 every
``--every`` seconds on average, and started again; then the run may end, because a restarted job repeats its
merges. If Flink gives up the job, the run is resumed. The labels and the table are compared with a
run in this process in one piece. Runs with other volumes follow until the minutes have passed. A difference,
or an error that is not due to a kill, ends the soak with exit status 1.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.runs import Journal, run_folder

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.engines.conftest import Cluster, flink_cluster

#: Voxels of a slab, and the chunks of the input.
SLAB, CHUNKS = (4, 8, 8), (4, 64, 64)
#: Attempts at a run, each a job that Flink restarts itself.
JOBS = 10


def array(slabs: int, seed: int) -> np.ndarray:
    """Blobs, in a volume of so many slabs or a few more."""
    rows = max(1, round((slabs / 4) ** 0.5))
    shape = (4 * SLAB[0], rows * SLAB[1], -(-slabs // (4 * rows)) * SLAB[2])
    noise = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    blobs = ndimage.gaussian_filter(noise, 1.5)
    return np.clip(np.rint(128 + 40 * blobs / blobs.std()), 0, 255).astype("u1")


def results(em: bv.Volume) -> tuple[bv.Volume, bv.Table]:
    labels = bv.label(bv.median_filter(em, 3) > 165, dtype="u4")
    return labels, bv.regionprops_table(labels, em, ["num_pixels", "bbox", "intensity_sum"])


@contextmanager
def killing(
    cluster: Cluster, every: float, deadline: float, happened: Counter[str]
) -> Iterator[None]:
    """Kill a TaskManager every so many seconds on average, and start it again, until a deadline."""
    began, ended = time.monotonic(), threading.Event()

    def kill() -> None:
        while not ended.wait(random.uniform(0.3, 1.7) * every) and time.monotonic() < deadline:
            os.kill(cluster.taskmanager(random.choice((1, 2))), signal.SIGKILL)
            happened["kills"] += 1
            print(f"killed after {time.monotonic() - began:.0f} s", flush=True)
            if not ended.wait(random.uniform(0, 20)):  # the other one goes on alone
                cluster.mend()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        cluster.mend()


def soaked(
    cluster: Cluster, folder: Path, slabs: int, seed: int, every: float, deadline: float
) -> Counter[str]:
    """Compare a run on the cluster with one in this process; return the events."""
    happened: Counter[str] = Counter(runs=1)
    voxels = array(slabs, seed)
    how: dict[str, Any] = {"memory": "4GiB", "progress": False}
    alone = {"runner": None, **how}
    em = bv.compute(bv.open(voxels).to(folder / "in.zarr", chunks=CHUNKS), **alone)
    labels, table = results(em)
    path = folder / "labels.zarr"
    targets = labels.to(path, chunks=SLAB), table.to(folder / "table.parquet")
    name = f"soak-{seed}"
    began = time.monotonic()
    with killing(cluster, every, deadline, happened):
        for job in range(JOBS):
            options = [*cluster.options, f"--job_name={name}-{job}"]
            on = {"runner": "FlinkRunner", "options": options, "workers": 2, "slab": SLAB}
            try:
                bv.compute(*targets, resume=job > 0, **on, **how)
                break
            except RuntimeError as error:  # Flink has restarted it as often as it may
                if job == JOBS - 1 or f"{name}-{job}" not in states(cluster, "FAILED"):
                    raise
                happened["resumed"] += 1
                print(f"resumed after: {str(error)[:300]}", flush=True)
    happened["seconds"] = round(time.monotonic() - began)
    for job in cluster.get("jobs/overview")["jobs"]:
        if job["name"].startswith(f"{name}-"):
            found = cluster.get(f"jobs/{job['jid']}/exceptions?maxExceptions=1000")
            happened["failures"] += len(found["exceptionHistory"]["entries"])
    journal = Journal.open(run_folder(str(path)))
    assert journal is not None
    for k in range(2):
        attempts = journal.attempts_of(k)
        happened["slabs"] += len(attempts)
        happened["slabs repeated"] += sum(n > 1 for n in attempts.values())
        happened["attempts"] += sum(attempts.values())
    expected, rows = bv.compute(*results(bv.open(voxels)), **alone)
    np.testing.assert_array_equal(bv.open(path), expected)
    assert rows.equals(pyarrow.parquet.read_table(folder / "table.parquet")), "the tables differ"
    happened["labels"] += rows.num_rows
    return happened


def states(cluster: Cluster, state: str) -> set[str]:
    """The names of the jobs in a state."""
    return {j["name"] for j in cluster.get("jobs/overview")["jobs"] if j["state"] == state}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--slabs", type=int, default=100_000, help="of each pass")
    parser.add_argument("--every", type=float, default=150, help="seconds between kills")
    parser.add_argument("--seed", type=int, default=0, help="of the first volume")
    args = parser.parse_args()
    seed, total = args.seed, Counter[str]()
    home = Path(tempfile.mkdtemp(prefix="beam-volumes-soak-"))
    with flink_cluster(home) as cluster:
        deadline = time.monotonic() + 60 * args.minutes
        while time.monotonic() < deadline:
            folder = home / str(seed)
            folder.mkdir()
            happened = soaked(cluster, folder, args.slabs, seed, args.every, deadline)
            print(
                f"{seed}: {', '.join(f'{n:,} {what}' for what, n in happened.items())}", flush=True
            )
            total += happened
            shutil.rmtree(folder)
            seed += 1
    shutil.rmtree(home, ignore_errors=True)
    print(", ".join(f"{n:,} {what}" for what, n in total.items()) + ", no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
