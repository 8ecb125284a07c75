"""What a run costs before any voxel: the default runner of large runs compared with no runner.

Each case runs in fresh processes, in turns. The volume is small, so that nearly all of the time is starting:
the modules that are imported, the driver process, the pipeline.

    python benchmarks/start_up.py
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import psutil

ROUNDS = 5
CALLS = 3


def cpu() -> float:
    """Seconds of processor time of this process, and of those that it has started."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        total += sum(child.cpu_times()[:4])
    return total


def measure(runner: str | None) -> None:
    """Print seconds by the clock and of processor time, for calls that follow one another."""
    import beam_volumes as bv

    noise = np.random.default_rng(0).integers(0, 255, (64, 256, 256), np.uint8)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        v = bv.compute(bv.open(noise).to(f"{folder}/in.zarr"), runner=None, progress=False)
        for k in range(CALLS):
            target = bv.uniform_filter(v, 3).to(f"{folder}/{k}.zarr")
            began, used = time.perf_counter(), cpu()
            bv.compute(target, runner=runner, progress=False)
            found.append((time.perf_counter() - began, cpu() - used))
    print(json.dumps(found))


def main() -> None:
    runners = {"none": None, "FnApiRunner": "FnApiRunner"}
    if len(sys.argv) == 2:
        measure(runners[sys.argv[1]])
        return
    rounds = {name: [] for name in runners}
    for _ in range(ROUNDS):
        for name, found in rounds.items():
            done = subprocess.run(
                [sys.executable, __file__, name], stdout=subprocess.PIPE, check=True
            )
            found.append(json.loads(done.stdout))
    print("| runner | call | seconds | processor time |\n| --- | --- | --- | --- |")
    for name, found in rounds.items():
        for k in range(CALLS):
            seconds, used = (statistics.median(r[k][i] for r in found) for i in (0, 1))
            print(f"| {name} | {k + 1} | {seconds:.2f} | {used:.2f} |")


if __name__ == "__main__":
    main()
