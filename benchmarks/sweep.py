"""Fused chains out of core, compared with reading to numpy and then writing, and with dask and scipy.

Run ``python benchmarks/sweep.py``; ``--quick`` uses a smaller volume and fewer runs. Every row is the
median of several runs of each contender in this process, warm, in turns, from the call to the last byte.
The volume is uint8, in uncompressed zarr v3 chunks of 16 x 512 x 512.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import psutil

import beam_volumes as bv

#: The chains: our expression, and the same in scipy on a numpy array.
CHAINS: dict[str, tuple[Callable, Callable | None]] = {
    "copy": (lambda v: v, None),
    "threshold": (lambda v: v > 128, lambda nd, a: a > 128),
    "1 stage: uniform 3": (
        lambda v: bv.uniform_filter(v, 3, dtype="u1"),
        lambda nd, a: np.rint(nd.uniform_filter(a, 3, output=np.float32)).astype("u1"),
    ),
    "3 stages: maximum, minimum 3, threshold": (
        lambda v: bv.minimum_filter(bv.maximum_filter(v, 3), 3) > 128,
        lambda nd, a: nd.minimum_filter(nd.maximum_filter(a, 3), 3) > 128,
    ),
    "5 light stages": (
        lambda v: bv.binary_dilation(
            bv.binary_erosion(bv.minimum_filter(bv.maximum_filter(v, 3), 3) > 128)
        ),
        lambda nd, a: nd.binary_dilation(
            nd.binary_erosion(nd.minimum_filter(nd.maximum_filter(a, 3), 3) > 128)
        ),
    ),
    "5 stages: median, gaussian 1, sobel, threshold, opening": (
        lambda v: bv.binary_opening(bv.sobel(bv.gaussian_filter(bv.median_filter(v, 3), 1)) > 4),
        None,
    ),
}
#: How far the chains with a scipy twin reach, for dask's overlap.
DEPTH = 4


def make_volume(path: Path, shape: tuple[int, int, int]) -> bv.Volume:
    """Smooth noise with the grey values of a micrograph."""
    rng = np.random.default_rng(0)
    block = bv.gaussian_filter(
        bv.open(rng.integers(0, 256, (64, *shape[1:]), np.uint8)), 1, dtype="u1"
    )
    block = np.asarray(bv.clip((block.astype("f4") - 128) * 4 + 128, 0, 255).astype("u1"))
    volume = np.concatenate([block] * -(-shape[0] // 64))[: shape[0]]
    target = bv.open(volume).to(path, chunks=(16, 512, 512), codec=None)
    return bv.compute(target, runner=None, keep_journal=False)


def read_then_write(volume: bv.Volume, out: Path) -> None:
    """The yardstick: the whole volume into a numpy array, and that into a new zarr."""
    array = volume.node.source.open().read().result()
    sink = volume.to(out, chunks=(16, 512, 512), codec=None).sink
    sink.create("yardstick", overwrite=True)
    sink.open().write(array).result()


def ours(volume: bv.Volume, expression: Callable, out: Path, runner: str | None) -> None:
    target = expression(volume).to(out, chunks=(16, 512, 512), codec=None)
    bv.compute(target, runner=runner, overwrite=True, progress=False, keep_journal=False)


def with_dask(path: Path, expression: Callable, out: Path) -> None:
    import dask.array as da
    import zarr
    from scipy import ndimage

    source = da.from_zarr(str(path)).rechunk((64, 512, 512))
    result = da.map_overlap(
        lambda a: expression(ndimage, a).astype("u1"),
        source,
        depth=DEPTH,
        boundary="reflect",
        dtype="u1",
    )
    store = zarr.create_array(
        str(out), shape=source.shape, chunks=(16, 512, 512), dtype="u1", overwrite=True
    )
    result.rechunk((64, 512, 512)).store(store, lock=False)


def medians(contenders: dict[str, Callable[[], None]], runs: int, limit: float) -> dict[str, float]:
    """Median seconds of each, taken in turns after one warm-up; slow ones run once."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for name, work in contenders.items():
        begin = time.perf_counter()
        work()
        first = time.perf_counter() - begin
        if first > limit:
            times[name].append(first)
    for _ in range(runs):
        for name, work in contenders.items():
            if times[name] and times[name][0] > limit:
                continue
            begin = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(t) for name, t in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="128 x 512 x 512, three runs")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--op", help="only chains with this in their name")
    parser.add_argument("--json", type=Path, help="also write the medians to this file")
    parser.add_argument(
        "--beam", action="store_true", help="also Beam's own cost over the bare sweep, at 2 GiB"
    )
    args = parser.parse_args()
    shape = (128, 512, 512) if args.quick else (512, 1024, 1024)
    runs = 3 if args.quick else args.runs
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total >> 30} GiB, Python {platform.python_version()}"
    )
    packages = ("numpy", "scipy", "numba", "tensorstore", "apache-beam", "dask", "zarr")
    print(", ".join(f"{p} {version(p)}" for p in packages))
    print(f"{' x '.join(map(str, shape))} uint8, median of {runs}; load {os.getloadavg()[0]:.1f}\n")
    folder = Path(tempfile.mkdtemp(prefix="beam-volumes-bench-"))
    rows = []
    try:
        path = folder / "in.zarr"
        volume = make_volume(path, shape)
        out = folder / "out.zarr"
        print(f"{'chain':58s} {'ours':>8s} {'copy':>8s} {'ratio':>6s} {'dask':>8s} {'ratio':>6s}")
        for name, (expression, scipy_twin) in CHAINS.items():
            if args.op and args.op not in name:
                continue
            contenders = {
                "ours": lambda e=expression: ours(volume, e, out, None),
                "copy": lambda: read_then_write(volume, folder / "copy.zarr"),
            }
            if scipy_twin is not None:
                contenders["dask"] = lambda t=scipy_twin: with_dask(path, t, folder / "dask.zarr")
            found = medians(contenders, runs, limit=20)
            rows.append({"chain": name, **{k: round(s, 2) for k, s in found.items()}})
            row = f"{name:58s} {found['ours']:8.2f} {found['copy']:8.2f} {found['ours'] / found['copy']:6.2f}"
            if "dask" in found:
                row += f" {found['dask']:8.2f} {found['dask'] / found['ours']:6.1f}"
            print(row, flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows))
        if args.beam:
            beam_cost(folder, runs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def beam_cost(folder: Path, runs: int) -> None:
    """Separate Beam's start-up from its cost per byte, with two volumes."""
    print("\nBeam's cost over the bare sweep (uniform 3, FnApiRunner in a process of its own):")
    seconds = {}
    for depth in (32, 512):
        volume = make_volume(folder / f"in{depth}.zarr", (depth, 2048, 2048))
        chain = CHAINS["1 stage: uniform 3"][0]
        found = medians(
            {
                "bare": lambda v=volume, c=chain: ours(v, c, folder / "out.zarr", None),
                "beam": lambda v=volume, c=chain: ours(v, c, folder / "out.zarr", "FnApiRunner"),
            },
            runs,
            limit=120,
        )
        seconds[depth] = found
        print(f"  {depth / 256:.2f} GiB: bare {found['bare']:.2f} s, Beam {found['beam']:.2f} s")
    start = seconds[32]["beam"] - seconds[32]["bare"]
    extra = seconds[512]["beam"] - seconds[512]["bare"] - start
    print(f"  start-up {start:.1f} s; beyond it {extra / seconds[512]['bare']:+.1%} at 2 GiB")


if __name__ == "__main__":
    sys.exit(main())
