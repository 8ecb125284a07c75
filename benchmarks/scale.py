"""How runs grow with their number of slabs, on every engine.

Run ``python benchmarks/scale.py``. ``--engine`` chooses some of ``none`` (this process, without Beam),
``fnapi`` (FnApiRunner) and ``flink`` (a standalone cluster of its own, if ``make engines`` has installed
it). ``--quick`` uses fewer slabs and runs, ``--full`` runs a million. An empty slab is one voxel of a
volume without stored chunks, and its result is zeros, which are not stored either. The measured time is the
cost of the runner, the sweep and the journal (two small files) for each slab. Slow storage is simulated by
a kernel that sleeps.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import beam_volumes as bv
from beam_volumes.drive.compute import Outcome, run
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs import Journal

PROJECT = Path(__file__).parents[1]
#: Seconds that slow storage takes for a slab, and slabs for each that is in flight.
WAIT, EACH = 0.1, 24
MEMORY = "4GiB"


@dataclass(frozen=True)
class Engine:
    """Something to run on, by the arguments of `bv.compute`."""

    name: str
    runner: str | None
    options: tuple[str, ...] = ()

    def compute(self, target: Any, folder: Path, slab: Any, workers: int = 1) -> Outcome:
        options = list(self.options)
        if self.name == "flink":
            options.append(f"--parallelism={workers}")
        asked = RunOptions(
            runner=self.runner,
            beam_options=options if self.runner else None,
            workers=workers,
            threads=1,
            slab=slab,
            memory=MEMORY,
            overwrite=True,
            progress=False,
            journal=str(folder / "journal"),
        )
        return run([target], asked)


# Slabs that do nothing, that wait, and that compute.


def nothing(folder: Path, shape: tuple[int, int, int]) -> bv.Target:
    """Zeros made of zeros, one voxel a chunk."""
    zeros = bv.open(np.broadcast_to(np.uint8(0), shape))
    place = folder / f"empty-{'-'.join(map(str, shape))}.zarr"
    empty = zeros.to(place, chunks=(1, 1, 1), codec=None).sink
    empty.create("benchmark", overwrite=True)  # its metadata: no chunk
    mask = bv.open(place) > 0
    return mask.to(folder / "nothing.zarr", chunks=(1, 1, 1), codec=None)


def slow(block: np.ndarray) -> np.ndarray:
    time.sleep(WAIT)
    return block


def waiting(folder: Path, slabs: int) -> bv.Target:
    source = nothing(folder, (slabs, 1, 1)).volume
    return bv.map_overlap(slow, source, depth=0, dtype="u1", name="slow", version=1).to(
        folder / "waited.zarr", chunks=(1, 1, 1), codec=None
    )


def computing(folder: Path, slabs: int) -> bv.Target:
    """Of slabs of 16 x 512 x 512 voxels."""
    chunks = (16, 512, 512)
    noise = np.random.default_rng(0).integers(0, 256, (16 * slabs, 512, 512), np.uint8)
    stored = bv.compute(
        bv.open(noise).to(folder / "noise.zarr", chunks=chunks, codec=None),
        runner=None,
        overwrite=True,
        progress=False,
        keep_journal=False,
    )
    return bv.median_filter(stored, 3).to(folder / "median.zarr", chunks=chunks, codec=None)


def cuboid(slabs: int) -> tuple[int, int, int]:
    """About a cube, so that no folder has too many entries.

    Examples
    --------
    >>> cuboid(10_000)
    (10, 10, 100)
    """
    side = max(1, round(slabs ** (1 / 3) / 10) * 10)
    return side, side, -(-slabs // side**2)


# Measuring.


@dataclass
class Watched:
    """The most memory of this process and of those below it, while the context lasts."""

    caller: int = 0
    below: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watched:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.1):
            self.caller = max(self.caller, me.memory_info().rss)
            below = 0
            for process in me.children(recursive=True):
                with suppress(psutil.Error):
                    below += process.memory_info().rss
            self.below = max(self.below, below)


@dataclass(frozen=True)
class Took:
    """Seconds of a run until its first slab began, for each slab after that, and in all."""

    first: float
    each: float
    total: float


def took(engine: Engine, target: Any, folder: Path, slab: Any, workers: int, runs: int) -> Took:
    """Medians of several runs."""
    found = []
    for _ in range(runs):
        began = time.time()
        outcome = engine.compute(target, folder, slab, workers)
        journal = Journal.open(folder / "journal")
        assert journal is not None
        records = [*journal.records(0, bodies=False)]
        first = min(r.started for r in records) - began
        # Without the first ones, for which every worker loads kernels and opens the stores.
        ends = sorted(r.ended for r in records)
        warm = len(ends) // 8
        each = (ends[-1] - ends[warm]) / max(1, len(ends) - 1 - warm)
        found.append((first, each, outcome.seconds))
    return Took(*map(statistics.median, zip(*found, strict=True)))


def many(slabs: int, place: str) -> dict[str, float]:
    """A run of very many slabs on FnApiRunner, in its own process, to see whether memory grows."""
    folder = Path(tempfile.mkdtemp(prefix="beam-volumes-bench-", dir=place))
    try:
        shape = cuboid(slabs)
        target = nothing(folder, shape)
        began = time.perf_counter()
        planned = bv.plan(target, slab=(1, 1, 1), memory=MEMORY)
        plan_seconds = time.perf_counter() - began
        with Watched() as watched:
            began = time.perf_counter()
            outcome = Engine("fnapi", "FnApiRunner").compute(target, folder, (1, 1, 1))
            total = time.perf_counter() - began
        assert outcome.summary is not None
        assert outcome.summary.slabs == np.prod(shape), "slabs are missing"
        return {
            "slabs": outcome.summary.slabs,
            "seconds": outcome.seconds,
            "summary": total - outcome.seconds,
            "plan": plan_seconds,
            "bytes": len(pickle.dumps(planned)),
            "caller": watched.caller,
            "below": watched.below,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# The engines.


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("localhost", 0))
        return [s.getsockname()[1] for s in sockets]


@contextmanager
def flink(folder: Path) -> Iterator[Engine | None]:
    """A cluster of this benchmark's own, by the script that users are shown."""
    needed = [
        PROJECT / ".engines" / part for part in ("flink/bin/taskmanager.sh", "job-server.jar")
    ]
    missing = [str(path.relative_to(PROJECT)) for path in needed if not path.exists()]
    if missing:
        print(f"flink is left out: {', '.join(missing)} is not there; `make engines` installs it\n")
        yield None
        return
    rest, rpc, pool = map(str, free_ports(3))
    env = {"REST_PORT": rest, "RPC_PORT": rpc, "POOL_PORT": pool, "SLOTS": "8"}
    env = {**os.environ, "PYTHON": sys.executable, **env}
    script = str(PROJECT / "templates" / "flink" / "cluster.sh")
    home = folder / "flink"
    done = subprocess.run([script, "up", str(home)], env=env, stdout=subprocess.PIPE, text=True)
    try:
        if done.returncode:
            raise OSError(f"the Flink cluster has not come up; its logs are in {home}")
        options = [
            o for o in done.stdout.split() if not o.startswith(("--runner", "--parallelism"))
        ]
        yield Engine("flink", "FlinkRunner", tuple(options))
    finally:
        subprocess.run([script, "down", str(home)], env=env)


@contextmanager
def started(names: list[str], folder: Path) -> Iterator[list[Engine]]:
    simple = [Engine("none", None), Engine("fnapi", "FnApiRunner")]
    with ExitStack() as stack:
        engines = [e for e in simple if e.name in names]
        if "flink" in names and (engine := stack.enter_context(flink(folder))) is not None:
            engines.append(engine)
        yield engines


# What is printed.


def print_costs(engines: list[Engine], folder: Path, slabs: int, runs: int) -> None:
    shape = cuboid(slabs)
    print(
        f"start-up, and what a slab costs that does nothing ({np.prod(shape)} slabs, one in flight)"
    )
    print(f"{'':8s} {'first slab':>11s} {'one slab':>10s} {'a slab':>10s} {'beyond none':>12s}")
    bare = None
    for engine in engines:
        one = took(engine, nothing(folder, (1, 1, 1)), folder, (1, 1, 1), 1, runs)
        all_ = took(engine, nothing(folder, shape), folder, (1, 1, 1), 1, runs)
        each = all_.each * 1e3
        if engine.runner is None:
            bare = each
        beyond = f"{each - bare:9.2f} ms" if bare is not None and engine.runner else ""
        print(
            f"{engine.name:8s} {one.first:9.2f} s {one.total:8.2f} s {each:7.2f} ms {beyond:>12s}",
            flush=True,
        )


def print_flight(engines: list[Engine], folder: Path, slabs: int, runs: int) -> None:
    print("\nslabs a second, by slabs in flight")
    print(
        f"{'':8s} {'in flight':>9s} {f'sleeping {WAIT} s':>16s} {'of ideal':>9s} {'computing':>10s}"
    )
    voxels = computing(folder, slabs)
    for engine in engines:
        for workers in (1, 2, 4, 16):
            count = EACH * workers
            rate = 1 / took(engine, waiting(folder, count), folder, (1, 1, 1), workers, runs).each
            row = f"{engine.name:8s} {workers:9d} {rate:16.1f} {rate * WAIT / workers:9.0%}"
            if workers <= 2:
                busy = took(engine, voxels, folder, (16, 512, 512), workers, runs).each
                row += f" {1 / busy:10.1f}"
            print(row, flush=True)


def print_many(sizes: list[int], place: str) -> None:
    print(
        "\nvery many slabs that do nothing, on FnApiRunner, one in flight; RAM of the caller and of the "
        "process that drives and sweeps,\nand by how much it grew a slab since the row before; ~ is "
        "extrapolated from the two rows before it"
    )
    print(
        f"{'slabs':>10s} {'seconds':>8s} {'a slab':>8s} {'adding up':>10s} {'plan':>8s} {'pickled':>8s} "
        f"{'caller':>8s} {'a slab':>8s} {'driver':>8s} {'a slab':>8s}"
    )
    before: dict[str, float] = {}
    grew = {"caller": 0.0, "below": 0.0}
    for n in sizes:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found = pool.submit(many, n, place).result()
        if before:
            more = found["slabs"] - before["slabs"]
            grew = {k: (found[k] - before[k]) / more for k in grew}
        print_row("", found, grew if before else None)
        before = found
    if len(sizes) > 1 and before["slabs"] < 10**6:
        times = 10**6 / before["slabs"]
        beyond = {k: before[k] + grew[k] * (10**6 - before["slabs"]) for k in grew}
        scaled = {k: times * before[k] for k in ("seconds", "summary")}
        print_row("~", {**before, **beyond, **scaled, "slabs": 10**6}, grew)


def print_row(mark: str, found: dict[str, float], grew: dict[str, float] | None) -> None:
    caller, below = (f"{grew[k] / 1e3:5.2f} kB" if grew else "" for k in ("caller", "below"))
    print(
        f"{mark + format(int(found['slabs']), 'd'):>10s} {found['seconds']:8.1f} "
        f"{found['seconds'] / found['slabs'] * 1e3:5.2f} ms {found['summary']:8.1f} s "
        f"{found['plan'] * 1e3:5.0f} ms {found['bytes'] / 1e3:5.1f} kB "
        f"{found['caller'] / 2**20:4.0f} MiB {caller:>8s} {found['below'] / 2**20:4.0f} MiB {below:>8s}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer slabs, one run of each")
    parser.add_argument("--full", action="store_true", help="a million slabs: 8 GB of small files")
    parser.add_argument(
        "--engine", nargs="*", default=["none", "fnapi", "flink"], help="only these"
    )
    parser.add_argument(
        "--only",
        choices=["costs", "flight", "many"],
        nargs="*",
        default=["costs", "flight", "many"],
    )
    parser.add_argument("--place", help="where files go instead of the temporary folder")
    parser.add_argument("--slabs", type=int, nargs="*", help="sizes of the runs of very many slabs")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cluster is ended
    unknown = set(args.engine) - {"none", "fnapi", "flink"}
    if unknown:
        parser.error(f"--engine {' '.join(sorted(unknown))}: choose from none, fnapi, flink")
    runs = 1 if args.quick else 3
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total >> 30} GiB, Python {platform.python_version()}"
    )
    packages = ("numpy", "numba", "tensorstore", "apache-beam")
    print(", ".join(f"{p} {version(p)}" for p in packages))
    print(f"median of {runs}; load {os.getloadavg()[0]:.1f}\n", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="beam-volumes-bench-", dir=args.place))
    try:
        if {"costs", "flight"} & set(args.only):
            with started(args.engine, folder) as engines:
                if "costs" in args.only:
                    print_costs(engines, folder, 1000, runs)
                if "flight" in args.only:
                    print_flight(engines, folder, 16 if args.quick else 32, runs)
        if "many" in args.only and "fnapi" in args.engine:
            sizes = [1000, 10_000] if args.quick else [10_000, 100_000]
            sizes += [1_000_000] if args.full else []
            print_many(args.slabs or sizes, str(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
