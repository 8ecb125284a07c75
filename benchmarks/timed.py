"""Runs one call of one contender in its own process, and prints time and memory as JSON.

``python benchmarks/timed.py '<Job as JSON>'``: `contract` starts it. Imports are part of the peak memory of
each, so a peer's process imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from operations import MODULES

#: Crops are cubes of this, and the operation's reach.
CROP = 64
CHUNKS = (16, 512, 512)
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@dataclass(frozen=True)
class Job:
    """What to run.

    Attributes
    ----------
    how : str
        The name of a function below.
    call : str
        See `operations`.
    source : str
        A ``.npy`` file; of what goes disk to disk a zarr, or a folder of slices.
    runs : int
    patience : float
        A peer that would need more CPU seconds gets a crop; what has taken more is not run again.
    reach, threads : int
    slabs : bool
        So many slabs at a time, in place of strips of each.
    out, codec : str
        Where what goes disk to disk is written, and how it is compressed.
    keep : bool
        Leave that there.
    turns : bool
        `by_default` takes turns with copies of the volume.
    instead : str
        A zarr that the yardstick writes instead of its input.
    """

    how: str
    call: str
    source: str
    runs: int
    patience: float
    reach: int = 0
    threads: int = 1
    slabs: bool = False
    out: str = ""
    codec: str = ""
    keep: bool = False
    turns: bool = False
    instead: str = ""


@dataclass
class Took:
    """Median seconds of one call, and the most memory that a process had.

    ``cpu`` is of this process, ``kernels`` of our stages alone, by the clock if there are more threads;
    ``copy`` is of copies in turns with the runs.
    """

    wall: float = 0.0
    cpu: float = 0.0
    kernels: float = 0.0
    copy: float = 0.0
    #: By more threads: by their stages, and from array to array.
    sooner: str = ""
    runs: int = 0
    voxels: int = 0
    #: Times and voxels of a crop, times the number of crops in the volume.
    scaled: bool = False
    peak: int = 0
    walls: list[float] = field(default_factory=list)


class Names(dict):
    """Modules, imported when a call names them."""

    def __missing__(self, name: str) -> Any:
        if name not in MODULES:
            raise KeyError(name)
        self[name] = import_module(MODULES[name])
        return self[name]


def evaluated(call: str, **given: Any) -> Any:
    return eval(call, {"__builtins__": {"sum": sum}}, Names(given))


def repeated(
    work: Callable[[], Any],
    runs: int,
    patience: float,
    warm: bool = True,
    between: Callable[[], Any] = lambda: None,
) -> Took:
    """The medians of so many runs after one that is not counted, or the one if that took long."""
    took = Took()
    cpu = []
    for _ in range(runs + warm):
        before = time.process_time(), time.perf_counter()
        work()
        cpu.append(time.process_time() - before[0])
        took.walls.append(time.perf_counter() - before[1])
        between()
        if took.walls[-1] > patience:
            break
    counted = slice(1 if warm and len(cpu) > 1 else 0, None)
    took.walls = took.walls[counted]
    took.wall, took.cpu = statistics.median(took.walls), statistics.median(cpu[counted])
    took.runs = len(took.walls)
    return took


def peer(job: Job) -> Took:
    """A call of a numpy array, on a crop if the whole would take too long."""
    whole = np.load(job.source, mmap_mode="r")
    crop = np.ascontiguousarray(whole[tuple(slice(CROP + job.reach) for _ in whole.shape)])
    evaluated(job.call, a=crop[:4])
    took = repeated(lambda: evaluated(job.call, a=crop), 1, job.patience, warm=False)
    crops = whole.size / crop.size
    if took.cpu * crops > job.patience:
        took.wall *= crops
        took.cpu *= crops
        took.scaled, took.voxels = True, crop.size
        return took
    array = np.load(job.source)
    # A run of seconds needs no other to warm up.
    warm = took.cpu * crops < 1
    took = repeated(lambda: evaluated(job.call, a=array), job.runs, job.patience / 6, warm)
    took.voxels = array.size
    return took


def ours(job: Job) -> Took:
    """A call from an array that is open already to an array; then its stages, one thing at a time."""
    array = np.load(job.source)
    allow(1)
    wanted = called(job, array)
    took = repeated(lambda: computed(wanted), job.runs, job.patience)
    took.voxels, took.peak = array.size, peak_memory()
    took.kernels = statistics.median(seconds_of_stages(wanted, 1)[1] for _ in range(took.runs))
    return took


def threads(job: Job) -> Took:
    """The same by one thread and by more, in turns by the clock: a shared machine is not always as fast."""
    array = np.load(job.source)
    wanted = called(job, array)
    took, pairs = Took(voxels=array.size), []
    while len(pairs) <= job.runs:
        pair = []
        for count in (1, job.threads):
            allow(count)
            before = time.perf_counter()
            computed(wanted, count, job.slabs)
            whole = time.perf_counter() - before
            stages = 0.0 if job.slabs else seconds_of_stages(wanted, count)[0]
            pair.append((stages, whole))
        pairs.append(pair)
        if pair[1][1] > job.patience:
            break
    counted = pairs[len(pairs) > 1 :]
    took.runs, took.walls = len(counted), [more[1] for _, more in counted]
    took.kernels, took.wall = (statistics.median(more[i] for _, more in counted) for i in (0, 1))
    took.sooner = " / ".join(
        f"{statistics.median(one[i] / more[i] for one, more in counted):.1f}x"
        for i in (0, 1)
        if took.kernels or i
    )
    return took


def allow(cores: int) -> None:
    """What reads ahead and puts results together has threads of its own: one is one core."""
    if CORES:
        os.sched_setaffinity(0, CORES[:cores])


def called(job: Job, array: np.ndarray) -> tuple:
    """The expression, after a part of it has run, so its kernels are compiled."""
    import beam_volumes as bv

    some, wanted = (evaluated(job.call, v=bv.open(a)) for a in (array[:8], array))
    computed(some if isinstance(some, tuple) else (some,))
    return wanted if isinstance(wanted, tuple) else (wanted,)


def computed(wanted: tuple, count: int = 1, slabs: bool = False) -> None:
    import beam_volumes as bv

    bv.compute(*wanted, runner=None, progress=False, **limits(count, slabs))


def limits(count: int, slabs: bool = False) -> dict[str, Any]:
    workers, threads = (count, 1) if slabs else (1, count)
    return {"workers": workers, "threads": threads, "memory": "6GiB"}


def seconds_of_stages(wanted: tuple, count: int) -> tuple[float, float]:
    """By the clock, and of processors."""
    from beam_volumes.plan.planner import make_plan
    from beam_volumes.plan.run_options import RunOptions
    from beam_volumes.profile.measure import measure

    items = measure(make_plan(wanted, RunOptions(in_memory_results=True, **limits(count)))).items
    stages = [i for i in items if i.activity.kind == "stage"]
    return sum(i.wall for i in stages), sum(i.cpu for i in stages)


def opened(job: Job) -> Any:
    import beam_volumes as bv

    return bv.open(job.source)


def by_default(job: Job) -> Took:
    """Disk to disk by `compute` as it is called without options, after its kernels are compiled.

    In turns with copies, if asked for: a shared machine is not as fast now as a minute ago.
    """
    import beam_volumes as bv

    volume = opened(job)
    codec = job.codec or None

    def work(v: bv.Volume) -> None:
        target = evaluated(job.call, v=v).to(job.out, chunks=CHUNKS, codec=codec)
        bv.compute(target, overwrite=True, progress=False)

    work(volume[:4, :32, :32])  # compiles
    copy_path, peaks, copies = str(Path(job.out).with_name("copy.zarr")), [], []

    def copy() -> None:
        peaks.append(peak_memory())
        if job.turns:
            before = time.perf_counter()
            copied(volume, volume, None, copy_path, job.codec)
            copies.append(time.perf_counter() - before)

    took = repeated(lambda: work(volume), job.runs, job.patience, warm=False, between=copy)
    took.voxels = volume.size
    took.peak, took.copy = peaks[0], statistics.median(copies or [0.0])
    shutil.rmtree(copy_path, ignore_errors=True)
    return took


def read_then_write(job: Job) -> Took:
    """The yardstick: the whole volume into a numpy array, and that into a zarr like the others'.

    Or write the stored result of an operation: only its input and output.
    """
    import beam_volumes as bv

    volume = opened(job)
    result = bv.open(job.instead) if job.instead else volume
    stored = result.node.source.open().read().result() if job.instead else None
    took = repeated(
        lambda: copied(volume, result, stored, job.out, job.codec), job.runs, job.patience
    )
    took.voxels = volume.size
    return took


def copied(volume: Any, result: Any, stored: np.ndarray | None, out: str, codec: str) -> None:
    """Read a volume, and write it, or the given result."""
    array = volume.node.source.open().read().result()
    sink = result.to(out, chunks=CHUNKS, codec=codec or None).sink
    sink.create("yardstick", overwrite=True)
    sink.open().write(array if stored is None else stored).result()


def dask(job: Job) -> Took:
    """Disk to disk by dask-image, in threads; a slab if the whole would take too long."""
    import dask.array as da
    import zarr
    from zarr.codecs import ZstdCodec

    if Path(job.source, "zarr.json").exists():
        whole = da.from_zarr(job.source)
    else:
        from dask_image.imread import imread

        whole = imread(f"{job.source}/*.tif")

    def work(source: da.Array) -> None:
        result = evaluated(job.call, d=source.rechunk((64, 512, 512)))
        result = result.astype("u1") if result.dtype == bool else result
        store = zarr.create_array(
            job.out,
            shape=result.shape,
            chunks=CHUNKS,
            dtype=result.dtype,
            compressors=ZstdCodec(level=1) if job.codec else None,
            overwrite=True,
        )
        result.rechunk((64, 512, 512)).store(store, lock=False)

    slab = whole[:64, :256, :256]
    took = repeated(lambda: work(slab), 1, job.patience, warm=False)
    slabs = whole.size / slab.size / 2  # one slab is one chunk: one of the two cores
    if took.wall * slabs > job.patience:
        took.wall *= slabs
        took.cpu *= slabs
        took.scaled, took.voxels = True, slab.size
        return took
    took = repeated(lambda: work(whole), job.runs, job.patience / 6, warm=False)
    took.voxels = whole.size
    return took


def peak_memory() -> int:
    """Bytes; of Linux's ``ru_maxrss`` the process that started this one is part."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    took = {
        "peer": peer,
        "ours": ours,
        "threads": threads,
        "by default": by_default,
        "read, then write": read_then_write,
        "dask": dask,
    }[job.how](job)
    took.peak = took.peak or peak_memory()
    if job.out and not job.keep:
        shutil.rmtree(job.out, ignore_errors=True)
        shutil.rmtree(f"{job.out}.run", ignore_errors=True)
    print(json.dumps(asdict(took)))


if __name__ == "__main__":
    main()
