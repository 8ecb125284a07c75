"""The speed contract: every operation in memory on one thread, and from disk to disk.

Run ``python benchmarks/contract.py``; ``pip install -e '.[bench]'`` installs the peers. ``--quick`` uses
smaller volumes and fewer runs. ``--op median`` selects operations by a part of their name; ``--part``,
``--dtype`` and ``--source`` select others. The benchmark takes an hour or two, and 15 GB of disk.

In memory, times are CPU time, so a loaded machine still gives valid ratios. ``kernels`` is the time of our
stages, and the ratio uses it. ``whole`` is `compute` from an open array to an array. ``threads`` compares
two threads on two cores with one thread on one core by the clock, in turns; operations across slabs process
two slabs at a time.

Disk to disk, times are wall time of a whole `compute` without options, on all cores. No contender waits
until the disk has the data (fsync). ``copy`` reads into a numpy array and then writes that, in turns with
the rows that have an aim. ``I/O`` reads the input and writes the stored result. scipy has its array in
memory and writes nothing. Each contender runs in its own process until it is warm; figures are medians. A
peer that would need more than a minute computes a crop, and is scaled by its voxels: ``~``. The calls are in
``operations.py`` and in the CSV, and ``tables.py`` makes tables of the CSV.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import psutil
import tifffile
from operations import BARE, Row, across_slabs, disk_to_disk, in_memory, owner
from timed import CHUNKS, Job, Took

import beam_volumes as bv

Array = np.ndarray
PATIENCE = 60.0
PACKAGES = [
    "numpy", "scipy", "numba", "tensorstore", "apache-beam", "scikit-image", "SimpleITK",
    "opencv-python-headless", "dask-image", "zarr", "connected-components-3d", "edt",
]  # fmt: skip
SOURCES = ("zarr", "zstd", "tiff")


def timed(job: Job) -> Took | None:
    """The job in a process of its own; None if its package is missing, or it fails."""
    script = Path(__file__).with_name("timed.py")
    done = subprocess.run(
        [sys.executable, script, json.dumps(asdict(job))], capture_output=True, text=True
    )
    if done.returncode:
        last = (done.stderr.strip() or "killed").splitlines()[-1]
        print(f"{'':12s}failed: {job.call}: {last}", flush=True)
        return None
    return Took(**json.loads(done.stdout.splitlines()[-1]))


class Lines:
    """What was measured: a line for each contender, kept in a CSV as it comes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict] = []

    def add(self, part: str, row: Row, source: str, contender: str, call: str, took: Took) -> None:
        self.lines.append(
            {
                "part": part,
                "operation": row.name,
                "dtype": row.source,
                "source": source,
                "contender": contender,
                "call": call,
                "voxels": took.voxels,
                "scaled from a crop": took.scaled,
                "runs": took.runs,
                "wall_s": f"{took.wall:.4g}",
                "cpu_s": f"{took.cpu:.4g}",
                "kernels_s": f"{took.kernels:.4g}",
                "copy_s": f"{took.copy:.4g}",
                "sooner": took.sooner,
                "peak_rss_MiB": took.peak >> 20,
                "all_wall_s": " ".join(f"{t:.4g}" for t in took.walls),
            }
        )
        with open(self.path, "w", newline="") as file:
            writer = csv.DictWriter(file, self.lines[0])
            writer.writeheader()
            writer.writerows(self.lines)


def micrograph(shape: tuple[int, int, int]) -> Array:
    """Smooth noise with the grey values of a micrograph, in float32."""
    rng = np.random.default_rng(0)
    block = bv.gaussian_filter(bv.open(rng.integers(0, 256, (64, *shape[1:]), np.uint8)), 1)
    block = np.clip((np.asarray(block) - 128) * 4 + 128, 0, 255)
    return np.concatenate([block] * -(-shape[0] // 64))[: shape[0]]


def as_dtype(grey: Array, dtype: str) -> Array:
    return {"u1": lambda: grey, "u2": lambda: grey * 200, "f4": lambda: grey}[dtype]().astype(dtype)


def arrays(folder: Path, shape: tuple[int, int, int], fib25: Path) -> dict[str, Path]:
    """Inputs as ``.npy``: grey values in three dtypes, noise, masks, labels, micrographs if there are."""
    grey = micrograph(shape)
    rng = np.random.default_rng(1)
    found = {dtype: as_dtype(grey, dtype) for dtype in ("u1", "u2", "f4")}
    found["noise"] = rng.integers(0, 256, shape, np.uint8)
    found["sparse"] = rng.random(shape, np.float32) < 0.001
    found["dense"] = grey > 110
    blobs = bv.gaussian_filter(bv.open(found["noise"]), 3) > 130
    found["labels"] = np.asarray(bv.label(blobs, dtype="u4"))
    if fib25.is_dir():
        real = np.asarray(bv.open(fib25))
        times = [-(-n // m) for n, m in zip(shape, real.shape, strict=True)]
        found["fib25"] = np.tile(real, times)[tuple(map(slice, shape))]
    paths = {name: folder / f"{name}.npy" for name in found}
    for name, array in found.items():
        np.save(paths[name], np.ascontiguousarray(array))
    return paths


def memory(folder: Path, args: argparse.Namespace, lines: Lines) -> None:
    """Print and note the part in memory."""
    shape = (64, 512, 512) if args.quick else (512, 512, 512)
    paths = arrays(folder, shape, args.fib25)
    runs, patience = (1, 3.0) if args.quick else (args.runs, PATIENCE)
    print(f"\nin memory: {_times(shape)}, one thread, CPU time, Mvoxel/s")
    print(
        f"{'operation':29s} {'kernels':>8s} {'whole':>7s} {'threads':>11s} {'peak':>9s} {'peer':>9s} "
        f"{'ratio':>7s} {'aim':>8s}"
    )
    for row in in_memory() + across_slabs():
        if not any(op in row.name for op in args.op) or row.source not in paths:
            continue
        source = str(paths[row.source])
        job = Job("ours", row.ours, source, args.runs, PATIENCE / 12)
        one = timed(job)
        if one is None:
            continue
        lines.add("memory", row, "", "ours", row.ours, one)
        in_stages = row in in_memory()  # not what reaches across slabs
        sooner = ""
        both = replace(job, how="threads", threads=args.threads, slabs=not in_stages)
        if args.threads > 1 and (more := timed(both)):
            lines.add("memory", row, "", f"ours, {args.threads} threads", row.ours, more)
            sooner = more.sooner
        kernels = one.kernels if in_stages else one.cpu
        own = (
            f"{row.name:29s} {one.voxels / kernels / 1e6:8.1f} {one.voxels / one.cpu / 1e6:7.1f} "
            f"{sooner:>11s} {one.peak >> 20:5d} MiB"
        )
        print(own, flush=True)
        for i, call in enumerate(() if args.no_peers else row.peers):
            took = timed(Job("peer", call, source, runs, patience, row.reach))
            if took is None:
                continue
            lines.add("memory", row, "", owner(call), call, took)
            ratio = took.cpu / kernels
            aim = ""
            if i == 0 and (row.aim or row.rate):
                met = ratio >= row.aim and one.voxels / kernels / 1e6 >= row.rate
                aim = f"{row.aim:g}x" if row.aim else f"{row.rate:g}/s"
                aim += "" if met else " no"
            print(
                f"{'':68s} {one.voxels / took.cpu / 1e6:8.2f}{'~' if took.scaled else ' '} "
                f"{ratio:6.1f}x {aim:>8s}  {call}",
                flush=True,
            )


def stored(folder: Path, source: str, array: Array) -> str:
    """The array as a zarr or a folder of TIFF slices."""
    path = folder / ("slices" if source == "tiff" else f"{source}-in.zarr")
    if source == "tiff":
        path.mkdir()
        for z, plane in enumerate(array):
            tifffile.imwrite(path / f"z{z:04d}.tif", plane)
    else:
        target = bv.open(array).to(path, chunks=CHUNKS, codec=codec_of(source) or None)
        bv.compute(target, runner=None, keep_journal=False)
    return str(path)


def codec_of(source: str) -> str:
    """The codec of outputs, if inputs are read from ``source``."""
    return "zstd" if source == "zstd" else ""


def disk(folder: Path, args: argparse.Namespace, lines: Lines) -> None:
    """Print and note the part from disk to disk; peers do the first of the sources."""
    shape = (128, 512, 512) if args.quick else (512, 1024, 1024)
    runs, patience = (1, 5.0) if args.quick else (3, PATIENCE)
    grey = micrograph(shape)
    for source in args.source:
        for dtype in args.dtype:
            array = as_dtype(grey, dtype)
            print(
                f"\ndisk to disk: {_times(shape)} {np.dtype(dtype)} from {source} to zarr; wall seconds\n"
                f"{'operation':34s} {'ours':>7s} {'peak':>9s} {'/ copy':>7s} {'/ I/O':>7s} {'aim':>9s} "
                f"{'scipy':>9s} {'/ ours':>7s} {'dask-image':>10s} {'/ ours':>7s}"
            )
            job = Job(
                "", "", stored(folder, source, array), runs, patience, out=str(folder / "out.zarr"),
                codec=codec_of(source),
            )  # fmt: skip
            copy = timed(replace(job, how="read, then write"))
            if copy is None:
                continue
            lines.add("disk", Row("copy", dtype, ""), source, "read, then write", "", copy)
            print(f"{'read, then write':34s} {copy.wall:7.2f} {copy.peak >> 20:5d} MiB", flush=True)
            stored_array = folder / "array.npy"
            np.save(stored_array, array)
            for row in disk_to_disk(dtype):
                if not any(op in row.name for op in args.op):
                    continue
                # Slow ones run once: for them a second is no noise.
                ours = replace(
                    job,
                    how="by default",
                    call=row.ours,
                    patience=15.0,
                    keep=True,
                    turns=row.aim > 0,
                )
                own = timed(ours)
                if own is None:
                    continue
                lines.add("disk", row, source, "ours", row.ours, own)
                bare = None
                if row.aim and row.name != "copy":
                    yardstick = replace(job, how="read, then write", instead=ours.out)
                    bare = timed(replace(yardstick, out=str(folder / "bare.zarr")))
                if bare is not None:
                    lines.add("disk", row, source, BARE, "", bare)
                shutil.rmtree(ours.out)
                shutil.rmtree(f"{ours.out}.run", ignore_errors=True)
                copy_seconds = own.copy or copy.wall
                aim = (
                    f"{row.aim:g}x{'' if own.wall <= row.aim * copy_seconds else ' no'}"
                    if row.aim
                    else ""
                )
                text = (
                    f"{row.name:34s} {own.wall:7.2f} {own.peak >> 20:5d} MiB "
                    f"{own.wall / copy_seconds:6.2f}x {f'{own.wall / bare.wall:6.2f}x' if bare else '':>7s} "
                    f"{aim:>9s}"
                )
                peers = {}
                if source == args.source[0] and row.peers and not args.no_peers:
                    peers["scipy"] = row.peers[0]
                if source == args.source[0] and row.dask and not (args.no_dask or args.no_peers):
                    peers["dask-image"] = row.dask
                for name, call in peers.items():
                    here = replace(job, how="dask", call=call, reach=row.reach)
                    if name == "scipy":
                        here = replace(here, how="peer", source=str(stored_array), runs=1, out="")
                    took = timed(here)
                    if took is not None:
                        lines.add("disk", row, source if name != "scipy" else "", name, call, took)
                    text += f"{'':18s}" if name != "scipy" and len(peers) == 1 else ""
                    text += against(took, own)
                print(text, flush=True)
            shutil.rmtree(job.source)
            stored_array.unlink()


def against(other: Took | None, own: Took) -> str:
    if other is None:
        return f" {'failed':>9s} {'':7s}"
    return f" {other.wall:8.1f}{'~' if other.scaled else ' '} {other.wall / own.wall:6.1f}x"


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def known(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller volumes, fewer runs")
    parser.add_argument(
        "--op", nargs="+", default=[""], help="only operations with one of these in their names"
    )
    parser.add_argument("--part", nargs="+", choices=["memory", "disk"], default=["memory", "disk"])
    parser.add_argument(
        "--dtype", nargs="+", choices=["u1", "u2", "f4"], default=["u1", "u2", "f4"]
    )
    parser.add_argument("--source", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--no-dask", action="store_true", help="leave dask-image out")
    parser.add_argument(
        "--no-peers", action="store_true", help="only ours, and disk to disk a copy"
    )
    parser.add_argument("--runs", type=int, default=5, help="in memory")
    parser.add_argument("--threads", type=int, default=2, help="in memory, compared with one")
    parser.add_argument("--fib25", type=Path, default=Path("../shared/data/fib25/grayscale"))
    parser.add_argument("--out", type=Path, default=Path("contract"), help=".csv and .png")
    args = parser.parse_args()
    rows = {"memory": in_memory() + across_slabs(), "disk": disk_to_disk("u1")}
    names = {row.name for part in args.part for row in rows[part]}
    for op in args.op:
        if not any(op in name for name in names):
            parser.error(
                f"argument --op: no operation's name contains {op!r}; there are {'; '.join(sorted(names))}"
            )
    print(
        f"{processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB, "
        f"{platform.system()}, Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}"
    )
    print(", ".join(f"{p} {known(p)}" for p in PACKAGES))
    lines = Lines(args.out.with_suffix(".csv"))
    for part in args.part:
        folder = Path(tempfile.mkdtemp(prefix="beam-volumes-bench-"))
        try:
            {"memory": memory, "disk": disk}[part](folder, args, lines)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if lines.lines:
        plot(lines.lines, args.out.with_suffix(".png"))


def processor() -> str:
    """As Linux knows it, else as Python does."""
    try:
        names = [n for n in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in n]
        return names[0].partition(":")[2].strip()
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def plot(lines: list[dict], path: Path) -> None:
    """Time and peak memory by operation, if matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    parts = [p for p in ("memory", "disk") if any(line["part"] == p for line in lines)]
    heights = [len({_label(x) for x in lines if x["part"] == p}) for p in parts]
    figure, grid = pyplot.subplots(
        len(parts), 2, figsize=(11, 0.19 * sum(heights) + 1.5 * len(parts)), layout="constrained",
        height_ratios=heights, squeeze=False, sharey="row",
    )  # fmt: skip
    for part, (time, peak) in zip(parts, grid, strict=True):
        mine = [x for x in lines if x["part"] == part]
        labels = list(dict.fromkeys(map(_label, mine)))
        seconds = "cpu_s" if part == "memory" else "wall_s"
        for i, contender in enumerate(dict.fromkeys(map(_contender, mine))):
            some = [x for x in mine if _contender(x) == contender]
            at = [labels.index(_label(x)) for x in some]
            how = {"linestyle": "", "marker": "o^svDPX"[i % 7], "label": contender, "alpha": 0.7}
            time.plot([float(x[seconds]) for x in some], at, **how)
            whole = [
                (int(x["peak_rss_MiB"]), y)
                for x, y in zip(some, at, strict=True)
                if str(x["scaled from a crop"]) != "True"
            ]
            peak.plot(*zip(*whole, strict=True) if whole else ([], []), **how)
        where = "in memory, CPU" if part == "memory" else "disk to disk, wall"
        time.set(
            xscale="log", xlabel=f"seconds ({where})", yticks=range(len(labels)), yticklabels=labels
        )
        peak.set(xscale="log", xlabel="peak RSS of a process, MiB")
        for axes in (time, peak):
            axes.grid(axis="x", alpha=0.3)
            axes.tick_params(labelsize="small")
        time.invert_yaxis()
        peak.legend(fontsize="x-small")
    figure.savefig(path, dpi=110)


def _label(line: dict) -> str:
    if line["part"] == "memory":
        return line["operation"]
    return f"{line['operation']}, {line['dtype']}"


def _contender(line: dict) -> str:
    return f"{line['contender']}, from {line['source']}" if line["source"] else line["contender"]


if __name__ == "__main__":
    sys.exit(main())
