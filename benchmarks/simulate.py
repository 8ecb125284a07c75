"""A run of a million slabs on ten thousand workers, simulated from costs that are measured here.

Run ``python benchmarks/simulate.py``. Three costs are measured on this machine: a slab (median, Gaussian
and labels of 128^3 voxels, scaled to 512^3; or ``--slab-seconds``), a record of the journal and a listing
of its folder, and each round of the merge of labels over 1,000 slabs from `benchmarks/merge.py`. Options
set the assumed costs: the latency of a request, the requests per second of a bucket, and the seconds of a
runner between two rounds. The simulation assigns slabs of different length to workers; some slabs take ten
times as long, and some workers die. All else is added up. For each size it prints the time and the
bottleneck. No cluster of this size has been tested.

With ``--alone``, it measures steps of one process, which more workers do not shorten: for 10^5 and
10^6 slabs, objects, tiles or slices. Each line has its own process. No voxels are computed: made records,
links and tables go through the package's own code. Seconds are of a processor.
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.across.rounds.cutting import Cutting
from beam_volumes.across.rounds.flow import Flow, run
from beam_volumes.base.geometry import Box, Grid
from beam_volumes.drive.compute import plan_run
from beam_volumes.ops.geometry.registration.images import Link
from beam_volumes.ops.geometry.registration.sequences import ImagePairs
from beam_volumes.ops.geometry.registration.tiles import TilePairs
from beam_volumes.ops.labels.tracking import _Objects, _tracks
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs import Journal, run_folder
from beam_volumes.runs.journal import Tally
from beam_volumes.runs.manifest import Manifest
from beam_volumes.runs.record import Record
from beam_volumes.runs.verify import Check, Findings
from beam_volumes.session import clearing
from beam_volumes.session.begin import begin
from beam_volumes.session.local import Spill
from beam_volumes.storage.places.place import url
from beam_volumes.transforms.passes import _SPREAD as SPREAD
from beam_volumes.transforms.rounds import pieces
from beam_volumes.transforms.steps.register import _numbers, _solved

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


class Steps:
    """Prints the processor time of steps, and the peak memory after each."""

    def __init__(self, name: str, size: int) -> None:
        self.row = f"| {name} | {size:,} |"

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        begun = time.process_time()
        yield
        seconds = time.process_time() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{self.row} {step} | {seconds:.2f} | {peak:.0f} |", flush=True)


def alone_journal(slabs: int, steps: Steps, folder: str) -> None:
    """The listings of the driver: records are 3 objects for each slab of a pass, with starts and chunks."""
    journal = Journal.create(f"{folder}/journal", Manifest("run", {}, [{"slabs": slabs}]))
    journal.write_record(0, 0, Record(0, Box((0, 0, 0), (1, 1, 1))))
    own = Path(url(journal.own).removeprefix("file://")) / "records"
    data = (own / "0-000000" / f"{0:09d}").read_bytes()
    for slab in range(1, slabs):
        if slab % FOLDER == 0:
            (own / f"0-{slab // FOLDER:06d}").mkdir()
        (own / f"0-{slab // FOLDER:06d}" / f"{slab:09d}").write_bytes(data)
    tally = Tally(journal, 0, slabs)
    with steps("list all records"):
        assert tally.update().done == slabs
    with steps("list again"):
        tally.update()
    with steps("read 1,000 records"):
        assert len(list(journal.read_records(0, range(1000)))) == 1000


def alone_overwrite(slabs: int, steps: Steps, folder: str) -> None:
    """The plan, the first step, and one of the parts that workers delete; each slab had a chunk."""
    v = bv.open(np.zeros((round(slabs ** (1 / 3)),) * 3, "u1"))
    options = RunOptions(runner=None, slab=(1, 1, 1))
    begin(plan_run([v.to(f"{folder}/o.zarr", chunks=(1, 1, 1))], options), options).prepare()
    with steps("plan again"):
        options = RunOptions(runner=None, slab=(2, 1, 1), overwrite=True)
        plan = plan_run([v.to(f"{folder}/o.zarr", chunks=(2, 1, 1))], options)
    with steps("first step"):
        session = begin(plan, options)
        session.prepare()
    with steps("count parts"):
        parts = clearing.count(session)
    with steps(f"delete the last of {parts:,} parts"):
        clearing.delete(session, parts - 1)
    with steps("end"):
        clearing.end(session)


def alone_verify(slabs: int, steps: Steps, folder: str) -> None:
    """The report of all items, from made findings."""
    Journal.create(
        f"{folder}/journal",
        Manifest("run", {}, [{"slabs": slabs, "folds": [], "surveys": [], "outputs": []}]),
    )
    check = Check.of(f"{folder}/journal")
    found = Findings(slabs=1, written=8, recorded={"out": 8}).to_json()
    with steps(f"report of {len(check):,} items"):
        assert not list(check.report(Findings.from_json(found) for _ in range(len(check))))


def alone_cut(slabs: int, steps: Steps, folder: str) -> None:
    """The largest step of `cut`, with ten merges for each slab; neighbours merge."""
    step = Cutting("cut", None)
    count, shard, largest = 10 * slabs, 1 << 16, 0.0
    seconds: dict[str, float] = defaultdict(float)

    def timed(r: Any) -> Any:
        def stepped(key: Any, values: list[Any]) -> Iterator[Any]:
            nonlocal largest
            begun = time.process_time()
            sent = list(r.step(key, values))
            took = time.process_time() - begun
            seconds[r.name], largest = seconds[r.name] + took, max(largest, took)
            return iter(sent)

        return SimpleNamespace(name=r.name, to=r.to, step=stepped)

    flow = step.flow()
    rng = np.random.default_rng(0)
    shards = Spill()
    for k, first in enumerate(range(0, count, shard)):
        a = np.arange(first + 1, min(first + shard, count) + 1, dtype=np.uint64)
        a = a[rng.random(len(a)) < 0.8]
        columns = {"label_a": a, "label_b": a + np.uint64(1), "score": rng.random(len(a))}
        shards.put((k,), columns | {"size": np.ones(len(a), np.int64)})
    with steps("all rounds"):
        run(Flow(tuple(map(timed, flow.rounds)), flow.ports), shards, make=Spill)
    print(f"{steps.row} largest step | {largest:.2f} | |")


def alone_tiles(tiles: int, steps: Steps, folder: str) -> None:
    """`RegisterTiles` in one plane of tiles of three axes: 5 % of links are wrong."""
    side, rng = round(tiles**0.5), np.random.default_rng(0)
    one = bv.open(np.zeros((10, 100, 100), "u1"))
    grid = np.stack(np.unravel_index(np.arange(side**2), (1, side, side)), axis=1) * 90.0
    every = TilePairs.of([one] * side**2, grid, "translation", 20.0, "simulate")
    with steps("pairs"):
        pairs = every.pairs
    true, found = grid + rng.uniform(-8, 8, grid.shape), []
    for i, j in pairs:
        shift = true[j] - true[i] + rng.normal(0, 0.1, 3)
        if rng.random() < 0.05:
            shift = grid[j] - grid[i] + rng.uniform(-20, 20, 3)
        found.append(((i, j), _numbers(Link(np.eye(3), -shift, 0.8, 5e4, 40.0))))
    with steps(f"solve {len(pairs):,} links"):
        _solved(found, every, 0.5)


def alone_slices(slices: int, steps: Steps, folder: str) -> None:
    """`RegisterSlices`, shifts only: 2 % of links are wrong, 5 % of slices have none."""
    pairs = ImagePairs.of(
        "simulate", "z", ("y", "x"), slices, (64, 64), 1, None, model="translation",
        method="intensity", neighbours=3, reference=None, skip=(), max_shift=None, min_quality=0.3,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    true, bad, found = rng.uniform(-8, 8, (slices, 2)), rng.random(slices) < 0.05, {}
    for i in range(slices):
        for j in range(i + 1, min(i + 4, slices)):
            shift = true[j] - true[i] + rng.normal(0, 0.1, 2)
            shift += rng.uniform(-30, 30, 2) * (rng.random() < 0.02)
            found[i, j] = Link(np.eye(2), -shift, 0.1 if bad[i] or bad[j] else 0.8, 4e3, 40.0)
    with steps(f"solve {len(found):,} links"):
        pairs.solved(found)


def alone_rigid(slices: int, steps: Steps, folder: str) -> None:
    """`RegisterSlices` with rotations of a few degrees: 2 % of links are wrong, 5 % of slices have none."""
    pairs = ImagePairs.of(
        "simulate", "z", ("y", "x"), slices, (64, 64), 1, None, model="rigid",
        method="intensity", neighbours=3, reference=slices // 2, skip=(), max_shift=None, min_quality=0.3,
    )  # fmt: skip
    rng, middle, found = np.random.default_rng(0), np.full(2, 31.5), {}

    def turns(angles: Any) -> np.ndarray:
        sines, cosines = np.sin(angles), np.cos(angles)
        return np.moveaxis(np.array([[cosines, -sines], [sines, cosines]]), (0, 1), (-2, -1))

    true = turns(rng.normal(0, 0.03, slices))
    places = rng.uniform(-8, 8, (slices, 2)) + middle - true @ middle
    bad = rng.random(slices) < 0.05
    for i in range(slices):
        for j in range(i + 1, min(i + 4, slices)):
            is_wrong = rng.random() < 0.02
            error = turns(rng.uniform(-0.3, 0.3) if is_wrong else rng.normal(0, 0.003))
            shift = rng.normal(0, 0.1, 2) + is_wrong * rng.uniform(-30, 30, 2)
            matrix = error @ true[j].T @ true[i]
            offset = error @ (true[j].T @ (true[i] @ middle + places[i] - places[j]) - middle)
            offset += middle + shift - matrix @ middle
            found[i, j] = Link(matrix, offset, 0.1 if bad[i] or bad[j] else 0.8, 4e3, 40.0)
    with steps(f"solve {len(found):,} links"):
        pairs.solved(found)


def alone_tracks(count: int, steps: Steps, folder: str) -> None:
    """`track` of objects at ten time points, with divisions and gaps."""
    each, rng = count // 10, np.random.default_rng(0)
    at = rng.uniform(0, 10 * each**0.5, (each, 2))
    centres = np.concatenate([at + rng.normal(0, 1.5 * t**0.5, at.shape) for t in range(10)])
    rows = {"t": np.repeat(np.arange(10), each), "label": np.tile(np.arange(1, each + 1), 10)}
    rows |= {"num_pixels": np.full(10 * each, 9)}
    rows |= {f"centroid-{k}": column for k, column in enumerate(centres.T)}
    objects = _Objects(rows, np.arange(11) * each)
    with steps("pairs"):
        pairs = [objects.near(lag, 5.0) for lag in (1, 2)]
    with steps(f"assign {sum(len(p[0]) for p in pairs):,} pairs"):
        objects.table(*_tracks(objects, pairs, True))


def alone_forest(examples: int, steps: Steps, folder: str) -> None:
    """`pixel_classifier`: the default forest of examples with nine features."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(9, 1, examples // 1000, 1000)).astype(np.float32)
    classes = 1 + (samples[0] + rng.normal(size=samples.shape[1:]) > 0).astype(np.uint8)
    with steps("train 100 trees"):
        trained = bv.pixel_classifier(bv.open(samples, axes="czyx"), classes)
    print(f"{steps.row} {trained.nbytes / (1 << 20):.1f} MiB of trees | | |")


def alone_requests(slabs: int, steps: Steps, folder: str) -> None:
    """Requests of 10,000 workers, and what stores document: S3 for each prefix, GCS at the begin."""
    # S3: 3,500 writes and 5,500 reads a second for each prefix, which it splits under load. GCS: 1,000
    # writes and 5,000 reads at first, twice as many every 20 minutes.
    workers, slab_seconds, chunks = 10_000, 7.0, 8
    writes, reads = (workers * n / slab_seconds for n in (chunks + 2, chunks + 3))
    prefixes = math.ceil(max(writes / 3500, reads / 5500))
    minutes = 20 * math.ceil(math.log2(max(1, writes / 1000, reads / 5000)))
    seconds = slabs * slab_seconds / workers
    print(
        f"{steps.row} {writes:,.0f} writes and {reads:,.0f} reads a second for {seconds:,.0f} s: "
        f"{prefixes} prefixes of S3, GCS after {minutes} minutes | | |"
    )


#: By name; a step of tiles has a tenth of them.
ALONE = {name[6:]: f for name, f in globals().items() if name.startswith("alone_")}


def alone(names: list[str], sizes: list[int]) -> None:
    """Each simulation and size in its own process."""
    print(
        "| simulation | size | step | processor, s | peak, MiB |\n| --- | --- | --- | --- | --- |"
    )
    for name in names or ALONE:
        for size in sizes:
            given = [sys.executable, __file__, "--measure", name, str(size)]
            subprocess.run(given, check=True, timeout=600)


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
    parser.add_argument("--alone", nargs="*", help="steps of one process: all, or by name")
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6], help="of --alone")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        name, size = args.measure[0], int(args.measure[1])
        size = size // 10 if name == "tiles" else size
        with tempfile.TemporaryDirectory() as folder:
            ALONE[name](size, Steps(name, size), folder)
        return
    if args.alone is not None:
        alone(args.alone, list(map(int, args.sizes)))
        return
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
