"""A run of a million slabs on ten thousand workers, simulated from costs that are measured here.

Run ``python benchmarks/simulate.py``. Three costs are measured on this machine: a slab (median, Gaussian
and labels of 128^3 voxels, scaled to 512^3; or ``--slab-seconds``), a record of the journal and a listing
of its folder, and each round of the merge of labels over 1,000 slabs from `benchmarks/merge.py`. Options
set the assumed costs: the latency of a request, the requests per second of a bucket, and the seconds of a
runner between two rounds. The simulation assigns slabs of different length to workers; some slabs take ten
times as long, and some workers die. All else is added up. For each size it prints the time and the
bottleneck. No cluster of this size has been tested.
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import platform
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.base.geometry import Grid
from beam_volumes.runs import Journal, run_folder
from beam_volumes.transforms.passes import _SPREAD as SPREAD
from beam_volumes.transforms.rounds import pieces

sys.path.insert(0, str(Path(__file__).parent))
from merge import SIDE, made_up

#: The share of slabs that take ten times as long, and of slabs with a worker that dies.
SLOW, SLOWER, DIES = 0.002, 10.0, 0.0005
#: Requests of a slab in addition to its chunks: a start, a look, a claim for each output and pass, a record.
REQUESTS = 5
#: Requests that the driver has under way at a time, and objects in an answer to a listing.
LANES, PAGE = 64, 1000
#: Slabs in a folder of the journal.
FOLDER = 1000


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes, measured or assumed."""

    slab: float
    spread: float
    record: float
    listing: float
    rounds: dict[str, tuple[float, float]]
    latency: float
    requests_a_second: float
    between_rounds: float
    chunks: int


def measured(args: argparse.Namespace) -> Costs:
    slab, spread = (args.slab_seconds, 0.2) if args.slab_seconds else of_slabs()
    record, listing = of_journal()
    return Costs(
        slab,
        spread,
        record,
        listing,
        of_merge(args.components),
        args.latency,
        args.requests_a_second,
        args.between_rounds,
        args.chunks,
    )


def of_slabs(side: int = 128, count: int = 8) -> tuple[float, float]:
    """Seconds of a slab, and by what share they differ."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        em = bv.open(rng.integers(0, 255, (side * count, side, side), np.uint8))
        smooth = bv.gaussian_filter(bv.median_filter(em, 3), 2)
        targets = bv.label(smooth > 128).to(f"{folder}/labels.zarr", chunks=(64, 64, 64))
        how: dict[str, Any] = {"slab": (side, side, side), "workers": 1, "runner": None}
        bv.compute(targets, progress=False, **how)  # compiles
        bv.compute(targets, progress=False, overwrite=True, journal=f"{folder}/book", **how)
        journal = Journal.open(f"{folder}/book")
        assert journal is not None
        seconds = np.array([r.seconds for r in journal.records(0)])
    return float(seconds.mean()) * (512 // side) ** 3, float(seconds.std() / seconds.mean())


def of_journal(count: int = 2000) -> tuple[float, float]:
    """Seconds of what a slab writes to the journal, and of a look at a folder of it: on this disk."""
    with tempfile.TemporaryDirectory() as folder:
        v = bv.open(np.zeros((count, 1, 1), "u1"))
        target = (v + 1).to(f"{folder}/out.zarr", chunks=(1, 1, 1))
        begun = time.perf_counter()
        bv.compute(target, slab=(1, 1, 1), workers=1, runner=None, progress=False)
        record = (time.perf_counter() - begun) / count
        journal = Journal.open(run_folder(f"{folder}/out.zarr"))
        assert journal is not None
        begun = time.perf_counter()
        assert len(journal.finished(0)) == count
        return record, (time.perf_counter() - begun) / (count / FOLDER)


def of_merge(components: int, slabs: int = 1000) -> dict[str, tuple[float, float]]:
    """For each round of the merge: seconds, and bytes sent, of the slabs below a step."""
    grid = Grid((SIDE * slabs, SIDE, SIDE), (SIDE,) * 3)
    boxes: dict[str, dict[Any, list[Any]]] = defaultdict(lambda: defaultdict(list))
    found = {}
    for k, r in enumerate(component_flow(grid).rounds):
        groups = boxes.pop(r.name, {}) if k else {(i,): [i] for i in range(slabs)}
        seconds = size = 0.0
        for key, values in groups.items():
            values = values if k else [made_up(grid, values[0], components)]
            begun = time.perf_counter()
            for address, to, value in r.step(key, values):
                size += sum(map(len, pieces(value)))
                boxes[address][to].append(value)
            seconds += time.perf_counter() - begun
        found[r.name] = seconds / slabs, size / slabs
    return found


def slab_seconds(slabs: int, costs: Costs, seed: int = 0) -> np.ndarray:
    """The seconds of each slab, with stragglers and workers that die."""
    rng = np.random.default_rng(seed)
    sigma = math.sqrt(math.log(1 + costs.spread**2))
    seconds = costs.slab * rng.lognormal(-sigma * sigma / 2, sigma, slabs)
    seconds[rng.random(slabs) < SLOW] *= SLOWER
    # A dead worker is noticed a minute later, and the slab begins anew.
    again = rng.random(slabs) < DIES
    seconds[again] = seconds[again] * (1 + rng.random(int(again.sum()))) + 60
    return seconds + costs.latency * REQUESTS


def balanced(seconds: np.ndarray, workers: int) -> tuple[float, float]:
    """Seconds until all slabs are swept, and until the first worker is idle.

    The runner splits ranges of slabs: an idle worker takes part of another's range.
    """
    free = [0.0] * min(workers, len(seconds))
    for s in seconds:
        heapq.heapreplace(free, free[0] + s)
    return max(free), min(free)


def dealt(seconds: np.ndarray, workers: int) -> float:
    """Seconds until all slabs are swept if ranges are dealt out in turn, and stay where they are."""
    width = max(1, -(-len(seconds) // SPREAD))
    ranges = np.add.reduceat(seconds, np.arange(0, len(seconds), width))
    return float(np.bincount(np.arange(len(ranges)) % workers, ranges).max())


def merging(slabs: int, workers: int, costs: Costs) -> tuple[float, int, float]:
    """Seconds of the merge, its rounds, and bytes that are shuffled."""
    grid = Grid((SIDE * slabs, SIDE, SIDE), (SIDE,) * 3)
    names = [r.name for r in component_flow(grid).rounds]
    total = shuffled = 0.0
    for name in names:
        # Levels that 1,000 slabs have not are as the last they have; a step takes in 16.
        stem, _, level = name.partition("-")
        alike = [n for n in costs.rounds if n.startswith(stem)]
        known = name if name in costs.rounds else max(alike, default="roots")
        seconds, size = costs.rounds[known]
        height = int(level) if level.isdigit() else int(name != "slabs")
        below = max(1, -(-slabs // 16**height))
        in_one_step = seconds * slabs / below  # a step that has all below it
        total += costs.between_rounds + max(seconds * slabs / min(workers, below), in_one_step)
        shuffled += size * slabs
    return total, len(names), shuffled


def look(slabs: int, workers: int, costs: Costs) -> float:
    """Seconds of one look of the driver: folders that are not full are listed, each page a request."""
    # Slabs are begun in order, so that those in flight lie in few folders.
    open_folders = min(-(-slabs // FOLDER), 1 + 2 * workers // FOLDER + int(SLOW * workers))
    return open_folders * (costs.latency + costs.listing) / min(LANES, open_folders)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--slab-seconds", type=float, help="of a slab, instead of measuring it")
    parser.add_argument("--components", type=int, default=100, help="in each plane between slabs")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of a request")
    parser.add_argument(
        "--requests-a-second", type=float, default=3500, help="of a bucket's prefix"
    )
    parser.add_argument(
        "--between-rounds", type=float, default=5, help="seconds of a runner's shuffle"
    )
    parser.add_argument("--chunks", type=int, default=16, help="read and written by a slab")
    args = parser.parse_args()
    costs = measured(args)
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}; load "
        f"{os.getloadavg()[0]:.1f}"
    )
    print(
        f"a slab {costs.slab:.2f} s (+- {costs.spread:.0%}), its journal {costs.record * 1e3:.2f} ms, a look "
        f"at 1,000 records {costs.listing * 1e3:.1f} ms; merge "
        f"{1e3 * sum(s for s, _ in costs.rounds.values()):.1f} ms and "
        f"{sum(b for _, b in costs.rounds.values()) / 1e3:.1f} kB a slab\n"
    )
    print(
        f"{'slabs':>9s} {'workers':>7s} {'sweep':>9s} {'ideal':>7s} {'tail':>7s} {'dealt':>9s} {'merge':>7s} "
        f"{'rounds':>6s} {'shuffled':>9s} {'requests/s':>10s} {'a look':>7s}  bound by"
    )
    for slabs in (1000, 10_000, 100_000, 1_000_000):
        for workers in (100, 1000, 10_000):
            if workers > slabs:
                continue
            each = slab_seconds(slabs, costs)
            end, idle = balanced(each, workers)
            ideal = slabs * costs.slab / workers
            seconds, rounds, shuffled = merging(slabs, workers, costs)
            rate = workers * (REQUESTS + costs.chunks) / (costs.slab + costs.latency * REQUESTS)
            look_seconds = look(slabs, workers, costs)
            throttled = slabs * (REQUESTS + costs.chunks) / costs.requests_a_second
            bounds = {
                "cores": ideal,
                "stragglers": end - idle,
                "merge": seconds,
                "store": throttled if rate > costs.requests_a_second else 0.0,
                "driver": look_seconds if look_seconds > 10 else 0.0,
            }
            print(
                f"{slabs:9,d} {workers:7,d} {end:8.0f}s {ideal:6.0f}s {end - idle:6.0f}s "
                f"{dealt(each, workers):8.0f}s {seconds:6.0f}s "
                f"{rounds:6d} {shuffled / 1e6:6.0f} MB {rate:10,.0f} {look_seconds:6.2f}s  "
                f"{max(bounds, key=lambda name: bounds[name])}",
                flush=True,
            )


if __name__ == "__main__":
    main()
