"""Every operation of the speed contract on volumes in memory, one thread, against the peer's call.

Run ``python benchmarks/contract.py``; ``--quick`` takes fewer slices, one run of peers, and crops
for those above 3 seconds; ``--op median`` only the rows whose name contains that, ``--threads 2`` adds a
line for two threads. Peers are scipy, and OpenCV and SimpleITK where they are installed
(``pip install -e '.[bench]'``) and have the operation.

Times are CPU time of the process (wall time too, in the CSV), so that a machine with other work on it
gives honest ratios; medians of ``--runs``. ``kernel`` is what the operation's own stages took, ``whole``
is ``bv.compute`` from an array that is open already to an array. A peer that would need more than
`PATIENCE` seconds runs on a crop, is scaled by voxels, and marked ``~``. Dtypes in and out are equal,
or the row says what else a peer has.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.sweep import executor

Array = np.ndarray
#: Seconds a peer may take before it is given a crop.
PATIENCE = 60.0
SIDE = 512


@dataclass
class Row:
    """An operation: ours, its peers by name, and the aim: times the first peer, or Mvoxel/s."""

    name: str
    volume: str
    ours: Callable[[bv.Volume], bv.Volume]
    peers: dict[str, Callable[[Array], object]]
    times: float | None = None
    rate: float | None = None
    #: Of the crop that slow peers get: room for their footprint and 64 voxels.
    crop: int = 64
    found: dict[str, float] = field(default_factory=dict)


def optional(module: str) -> object | None:
    try:
        return __import__(module)
    except ImportError:
        return None


cv2, sitk = optional("cv2"), optional("SimpleITK")


def rows() -> list[Row]:
    """The table of the contract."""
    table = []
    for n, aim in ((3, 20), (7, 10)):
        peers: dict[str, Callable[[Array], object]] = {
            "ndi.uniform_filter": lambda a, n=n: ndi.uniform_filter(a, n, output=np.float32)
        }
        if sitk:
            peers["sitk.BoxMean, u8 out"] = lambda a, n=n: with_sitk(sitk.BoxMean, a, [n // 2] * 3)
        table.append(Row(f"uniform {n}", "u1", lambda v, n=n: bv.uniform_filter(v, n), peers, aim))
    for s, aim in ((1, 10), (3, 6)):
        peers = {"ndi.gaussian_filter": lambda a, s=s: ndi.gaussian_filter(a, s, output=np.float32)}
        if cv2:
            peers["cv2.sepFilter2D, twice"] = lambda a, s=s: gaussian_by_opencv(a, s)
        table.append(
            Row(f"gaussian {s}", "u1", lambda v, s=s: bv.gaussian_filter(v, s), peers, aim)
        )
    for dtype, aim in (("u1", 200), ("u2", 100), ("f4", 50)):
        table.append(median(3, dtype, times=aim))
    for n in (7, 19):
        table += [median(n, kind, rate=10) for kind in ("fib25", "noise")]
        table += [median(n, dtype, times=20) for dtype in ("u2", "f4")]
    for r, aim in ((1, 600), (3, 250), (9, 90)):
        for kind in ("sparse", "dense"):
            table.append(binary_ball(r, kind, aim))
    for r, aim in ((1, 20), (3, 50), (9, 100)):
        for dtype in ("u1", "f4"):
            table.append(grey_ball(r, dtype, aim))
    for n in (3, 7, 19):
        peers = {"ndi.grey_dilation": lambda a, n=n: ndi.grey_dilation(a, n)}
        table.append(Row(f"cube {n}", "u1", lambda v, n=n: bv.grey_dilation(v, n), peers, rate=500))
    table.append(
        Row(
            "gradient magnitude",
            "u1",
            lambda v: bv.generic_gradient_magnitude(v, bv.sobel),
            {
                "ndi.generic_gradient_magnitude": lambda a: ndi.generic_gradient_magnitude(
                    a.astype(np.float32), ndi.sobel
                )
            },
            25,
        )
    )
    return table


def median(n: int, kind: str, times: float | None = None, rate: float | None = None) -> Row:
    peers: dict[str, Callable[[Array], object]] = {
        "ndi.median_filter": lambda a: ndi.median_filter(a, n)
    }
    if sitk and kind != "fib25":
        peers["sitk.Median"] = lambda a: with_sitk(sitk.Median, a, [n // 2] * 3)
    return Row(
        f"median {n}^3 {kind}", kind, lambda v: bv.median_filter(v, n), peers, times, rate, 63 + n
    )


def binary_ball(r: int, kind: str, rate: float) -> Row:
    ball = bv.ball(r)
    return Row(
        f"binary ball r={r} {kind}",
        kind,
        lambda v: bv.binary_dilation(v, ball),
        {"ndi.binary_dilation": lambda a: ndi.binary_dilation(a, ball)},
        rate=rate,
        crop=64 + 2 * r,
    )


def grey_ball(r: int, dtype: str, times: float) -> Row:
    ball = bv.ball(r)
    peers: dict[str, Callable[[Array], object]] = {
        "ndi.grey_dilation": lambda a: ndi.grey_dilation(a, footprint=ball)
    }
    if sitk:
        peers["sitk.GrayscaleDilate"] = lambda a: with_sitk(
            sitk.GrayscaleDilate, a, [r] * 3, sitk.sitkBall
        )
    return Row(
        f"grey ball r={r} {dtype}",
        dtype,
        lambda v: bv.grey_dilation(v, footprint=ball),
        peers,
        times,
        crop=64 + 2 * r,
    )


def with_sitk(operation: Callable, a: Array, *parameters: object) -> Array:
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    return sitk.GetArrayViewFromImage(operation(sitk.GetImageFromArray(a), *parameters))


def gaussian_by_opencv(a: Array, sigma: float) -> Array:
    """Slice by slice along y and x, then along z with slices as rows of one image."""
    cv2.setNumThreads(1)
    weights = cv2.getGaussianKernel(2 * int(4 * sigma + 0.5) + 1, sigma, cv2.CV_32F)
    how = {"borderType": cv2.BORDER_REFLECT}
    flat = np.empty(a.shape, np.float32)
    for plane, out in zip(a, flat, strict=True):
        cv2.sepFilter2D(plane, cv2.CV_32F, weights, weights, out, **how)
    one = np.ones(1, np.float32)
    return cv2.sepFilter2D(flat.reshape(len(a), -1), cv2.CV_32F, one, weights, **how)


def volumes(depth: int, fib25: Path) -> dict[str, Array]:
    """By name: smooth grey values in three dtypes, noise, masks, and real micrographs if they are there."""
    rng = np.random.default_rng(0)
    shape = (depth, SIDE, SIDE)
    noise = rng.integers(0, 256, shape, np.uint8)
    smooth = np.asarray(bv.gaussian_filter(bv.open(noise), 1))
    smooth = np.clip((smooth - 128) * 4 + 128, 0, 255)
    found = {
        "u1": smooth.astype("u1"),
        "u2": (smooth * 200).astype("u2"),
        "f4": smooth,
        "noise": noise,
        "sparse": rng.random(shape) < 0.001,
        "dense": smooth > 110,
    }
    if fib25.is_dir():
        real = np.asarray(bv.open(fib25))
        times = [-(-n // m) for n, m in zip(shape, real.shape, strict=True)]
        found["fib25"] = np.ascontiguousarray(np.tile(real, times)[tuple(map(slice, shape))])
    return found


class Stages:
    """Adds up the CPU time that stages take, in all threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._in_strips = executor.in_strips
        executor.in_strips = self._timed

    def _timed(self, rows: int, voxels: int, threads: int, work: Callable) -> list:
        def timed(y0: int, y1: int) -> object:
            begin = time.thread_time()
            try:
                return work(y0, y1)
            finally:
                self.seconds += time.thread_time() - begin

        return self._in_strips(rows, voxels, threads, timed)


def measure(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Median CPU and wall seconds."""
    cpu, wall = [], []
    for _ in range(runs):
        begin = time.process_time(), time.perf_counter()
        work()
        cpu.append(time.process_time() - begin[0])
        wall.append(time.perf_counter() - begin[1])
    return statistics.median(cpu), statistics.median(wall)


def ours(row: Row, a: Array, stages: Stages, threads: int, runs: int) -> tuple[float, float, float]:
    """Median CPU seconds of the stages, of the whole call, and its wall seconds."""
    opened = bv.open(a)
    opened.node.source.token()  # the array's identity, found once
    expression = row.ours(opened)
    spent = []

    def work() -> None:
        stages.seconds = 0.0
        bv.compute(
            expression, runner=None, workers=1, threads=threads, memory="6GiB", progress=False
        )
        spent.append(stages.seconds)

    work()
    spent.clear()
    cpu, wall = measure(work, runs)
    return statistics.median(spent), cpu, wall


def peer(
    call: Callable[[Array], object], a: Array, crop: int, runs: int, patience: float
) -> tuple[float, float, bool]:
    """Median CPU and wall seconds for the whole volume, and whether they were scaled from a crop."""
    part = np.ascontiguousarray(a[tuple(slice(min(n, crop)) for n in a.shape)])
    first = measure(lambda: call(part), 1)
    scale = a.size / part.size
    if first[0] * scale > patience or part.size == a.size:
        return first[0] * scale, first[1] * scale, part.size < a.size
    return *measure(lambda: call(a), runs), False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="64 slices, one run of peers")
    parser.add_argument("--op", default="", help="only rows whose name contains this")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="2: also with two threads")
    parser.add_argument("--fib25", type=Path, default=Path("../shared/data/fib25/grayscale"))
    parser.add_argument("--out", type=Path, default=Path("contract"), help=".csv and .png")
    args = parser.parse_args()
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}"
    )
    print(", ".join(f"{p} {known(p)}" for p in ("numpy", "scipy", "numba", *PEERS)))
    depth = 64 if args.quick else SIDE
    arrays = volumes(depth, args.fib25)
    print(f"{depth} x {SIDE} x {SIDE}, median of {args.runs}, CPU time, one thread\n")
    print(
        f"{'operation':26s} {'Mvoxel/s':>9s} {'whole':>7s} {'peer':>8s} {'ratio':>7s} {'aim':>9s}"
    )
    stages, lines = Stages(), []
    for row in rows():
        if args.op not in row.name or row.volume not in arrays:
            continue
        a = arrays[row.volume]
        kernel, whole, wall = ours(row, a, stages, 1, args.runs)
        line = {
            "operation": row.name, "voxels": a.size, "kernel_s": kernel, "whole_s": whole,
            "wall_s": wall, "aim": f"{row.times}x" if row.times else f"{row.rate} Mvoxel/s",
            "peak_rss_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        }  # fmt: skip
        if args.threads > 1:
            line["wall_s_threads"] = ours(row, a, stages, args.threads, args.runs)[2]
        slowest = []
        for name, call in row.peers.items():
            cpu, theirs, scaled = peer(
                call, a, row.crop, 1 if args.quick else args.runs, 3 if args.quick else PATIENCE
            )
            line |= {f"{name} cpu_s": cpu, f"{name} wall_s": theirs, f"{name} scaled": scaled}
            slowest.append((name, cpu, scaled))
        show(row, line, slowest)
        lines.append(line)
    write(lines, args.out)


PEERS = ("opencv-python-headless", "SimpleITK")


def known(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def show(row: Row, line: dict, found: list[tuple[str, float, bool]]) -> None:
    def rate(seconds: float) -> float:
        return line["voxels"] / seconds / 1e6

    kernel = line["kernel_s"]
    for i, (name, cpu, scaled) in enumerate(found):
        own = f"{row.name:26s} {rate(kernel):9.1f} {rate(line['whole_s']):7.1f}"
        met = rate(kernel) >= row.rate if row.rate else cpu / kernel >= (row.times or 0)
        aim = f"{line['aim'].replace(' Mvoxel/s', '/s')}{'' if met else ' no'}" if i == 0 else ""
        print(
            f"{own if i == 0 else '':44s} {rate(cpu):8.2f}{'~' if scaled else ' '}"
            f"{cpu / kernel:6.1f}x {aim:>9s}  {name}",
            flush=True,
        )
    if "wall_s_threads" in line:
        print(f"{'':44s} two threads: {line['wall_s'] / line['wall_s_threads']:.2f}x")


def write(lines: list[dict], out: Path) -> None:
    """The CSV and, if matplotlib is there, the plot."""
    columns = list(dict.fromkeys(k for line in lines for k in line))
    with open(out.with_suffix(".csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(lines)
    if optional("matplotlib") is None or not lines:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.3 * len(lines) + 1), layout="constrained")
    names = [line["operation"] for line in lines]
    series = {"beam_volumes, stages": "kernel_s", "beam_volumes, array to array": "whole_s"}
    series |= {c.removesuffix(" cpu_s"): c for c in columns if c.endswith(" cpu_s")}
    for label, column in series.items():
        at = [i for i, line in enumerate(lines) if line.get(column)]
        nanoseconds = [lines[i][column] / lines[i]["voxels"] * 1e9 for i in at]
        axes.plot(nanoseconds, at, "o", label=label, alpha=0.7)
    axes.set(xscale="log", xlabel="CPU ns per voxel", yticks=range(len(names)), yticklabels=names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(out.with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    sys.exit(main())
