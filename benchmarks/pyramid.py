"""Pyramids, compared with ngff-zarr, tinybrain, dask and TensorStore: kernels, and from disk to disk.

Run ``python benchmarks/pyramid.py``; ``--shape 1024,1024,1024`` chooses another volume for the disk,
``--edge`` the cube for kernels, ``--runs`` the number of runs, ``--part`` one of the two. ``--alone``
leaves peers out from disk to disk, where they run once. Contenders take turns, and medians are shown.
Kernels have one thread; their speed is voxels of the input per second of CPU. From disk to disk, a volume
of zarr becomes OME-Zarr in the same chunks and codec, on all cores. Compiling and imports are not timed.
Libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts
from convert import specimen, write_zarr

import beam_volumes as bv
from beam_volumes.kernels.geometry import downsample as windows
from beam_volumes.kernels.rows import rows_of
from beam_volumes.kernels.scratch import arrays

CHUNK = (64, 64, 64)
LIBRARIES = ("beam-volumes", "ngff-zarr", "tinybrain", "dask", "tensorstore", "zarr", "numpy")


def labels(edge: int, dtype: str) -> np.ndarray:
    """Cells of some 20 voxels: Voronoi, coarsely, with a rough border."""
    rng = np.random.default_rng(0)
    n = -(-edge // 20)
    cells = rng.integers(1, 250, (n, n, n)).astype(dtype)
    grid = np.indices((edge,) * 3, "i4")
    grid += rng.integers(-1, 2, grid.shape, "i4")
    z, y, x = np.clip(grid // 20, 0, n - 1)
    return cells[z, y, x]


# kernels


def ours(array: np.ndarray, method: str) -> Callable[[], Any]:
    """The kernel as the sweep calls it, on a ring that holds all slices."""
    _, ny, nx = array.shape
    out = np.empty([n // 2 for n in array.shape], array.dtype)
    src, made = (rows_of(a, np.arange(len(a)), 0, 0) for a in (array, out))
    rest = (0, ny // 2, nx // 2, ny, nx, np.array((2, 2, 2)))
    kernel, more = (windows.mean, ()) if method == "mean" else (windows.pick, (3,))
    scratch = arrays(kernel.scratch(ny // 2, nx // 2, len(out), array.dtype, *rest[3:], *more))
    return lambda: kernel(src, made, *rest, *more, scratch)


def by_tensorstore(array: np.ndarray, method: str) -> Callable[[], Any]:
    context = ts.Context({"data_copy_concurrency": {"limit": 1}})
    store = ts.downsample(ts.array(array, context=context), [2, 2, 2], method)
    return lambda: store.read().result()


def by_tinybrain(array: np.ndarray, method: str) -> Callable[[], Any]:
    import tinybrain

    turned = np.asfortranarray(array.T)
    function = (
        tinybrain.downsample_with_averaging
        if method == "mean"
        else tinybrain.downsample_segmentation
    )
    return lambda: function(turned, (2, 2, 2))


def by_dask(array: np.ndarray, method: str) -> Callable[[], Any] | None:
    if method != "mean":
        return None
    import dask
    import dask.array as da

    small = da.coarsen(np.mean, da.from_array(array, chunks=64), dict.fromkeys(range(3), 2))
    small = small.round().astype(array.dtype)

    def call() -> None:
        with dask.config.set(scheduler="synchronous"):
            small.compute()

    return call


def kernels(edge: int, runs: int) -> None:
    image = specimen((edge,) * 3)
    cases = {
        "mean, uint8": (image, "mean"),
        "mean, uint16": (image.astype("u2") * 200, "mean"),
        "mean, float32": (image.astype("f4"), "mean"),
        "mode, uint8 labels": (labels(edge, "u1"), "mode"),
        "mode, uint32 labels": (labels(edge, "u4"), "mode"),
        "mode, uint64 labels": (labels(edge, "u8"), "mode"),
        "mode, uint8 image": (image, "mode"),
    }
    makers = {"ours": ours, "tensorstore": by_tensorstore}
    makers |= {
        n: f for n, f in {"tinybrain": by_tinybrain, "dask": by_dask}.items() if find_spec(n)
    }
    print(f"| 2 x 2 x 2 of {edge}^3, Gvoxel/s of CPU | {' | '.join(makers)} |")
    print("| --- |" + " --- |" * len(makers))
    for name, (array, method) in cases.items():
        calls = {n: make(array, method) for n, make in makers.items()}
        taken: dict[str, list[float]] = {n: [] for n in calls}
        for run in range(runs + 1):
            for n, call in calls.items():
                if call is None:
                    continue
                began = time.process_time()
                call()
                if run:  # the first one compiles
                    taken[n].append(time.process_time() - began)
        speeds = [array.size / statistics.median(t) / 1e9 if t else None for t in taken.values()]
        print(
            f"| {name} | {' | '.join('' if s is None else f'{s:.2f}' for s in speeds)} |",
            flush=True,
        )


# from disk to disk


def convert(source: Path, out: Path, **how: Any) -> None:
    target = bv.open(source).to(out, chunks=CHUNK, codec="zstd", **how)
    bv.compute(target, runner=None, progress=False)


def dask_pyramid(source: Path, out: Path, levels: int) -> None:
    """As people write it: each level by `coarsen` of the one before, as that is stored."""
    import dask.array as da
    import zarr

    array = da.from_zarr(str(source))
    group = zarr.open_group(out, mode="w")
    for k in range(levels):
        made = group.create_array(
            str(k), shape=array.shape, chunks=CHUNK, dtype=array.dtype,
            compressors=zarr.codecs.ZstdCodec(level=1),
        )  # fmt: skip
        array.rechunk(CHUNK).store(made)
        stored = da.from_zarr(made)
        small = da.coarsen(np.mean, stored, dict.fromkeys(range(3), 2), trim_excess=True)
        array = small.round().astype(stored.dtype)


def ngff_pyramid(source: Path, out: Path, levels: int) -> None:
    import dask.array as da
    import ngff_zarr as nz

    image = nz.to_ngff_image(da.from_zarr(str(source)), dims=["z", "y", "x"])
    scales = [2**k for k in range(1, levels)]
    made = nz.to_multiscales(image, scales, chunks=64, method=nz.Methods.ITKWASM_BIN_SHRINK)
    nz.to_ngff_zarr(str(out), made, version="0.5")


def disk(shape: tuple[int, ...], levels: int, runs: int, peerless: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, out = folder / "in.zarr", folder / "out.ome.zarr"
        write_zarr(source, specimen(shape), CHUNK)
        calls: dict[str, Callable[[], None]] = {
            "ours, the volume alone": lambda: convert(source, out),
            f"ours, {levels} levels": lambda: convert(source, out, levels=levels, factors=2),
        }
        if find_spec("dask") and not peerless:
            calls[f"dask, {levels} levels"] = lambda: dask_pyramid(source, out, levels)
        if find_spec("ngff_zarr") and not peerless:
            calls[f"ngff-zarr, {levels} levels"] = lambda: ngff_pyramid(source, out, levels)
        taken: dict[str, list[tuple[float, float]]] = {n: [] for n in calls}
        for run in range(runs + 1):
            for n, call in calls.items():
                # The first one compiles; peers that take many times as long have one run.
                if not n.startswith("ours") and run != 1:
                    continue
                for path in (out, Path(f"{out}.run")):
                    shutil.rmtree(path, ignore_errors=True)
                began = time.perf_counter(), time.process_time()
                call()
                if run:
                    taken[n].append(
                        (time.perf_counter() - began[0], time.process_time() - began[1])
                    )
        clock, cpu = (
            {n: statistics.median(t[i] for t in found) for n, found in taken.items()}
            for i in (0, 1)
        )
        first = next(iter(calls))
        print(f"\n| {' x '.join(map(str, shape))} uint8 | s | CPU, s | / alone | / alone, CPU |")
        print("| --- | --- | --- | --- | --- |")
        for n in calls:
            print(
                f"| {n} | {clock[n]:.2f} | {cpu[n]:.2f} | {clock[n] / clock[first]:.2f}x | "
                f"{cpu[n] / cpu[first]:.2f}x |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="512,512,512")
    parser.add_argument("--edge", type=int, default=256)
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="no peers from disk to disk")
    parser.add_argument("--part", choices=("kernels", "disk"))
    args = parser.parse_args()
    for library in LIBRARIES:
        try:
            print(library, version(library), end="; ")
        except PackageNotFoundError:
            print(f"no {library}", end="; ")
    load = "" if not hasattr(os, "getloadavg") else f", load {os.getloadavg()[0]:.1f}"
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores{load}\n")
    if args.part != "disk":
        kernels(args.edge, args.runs)
    if args.part != "kernels":
        disk(tuple(int(n) for n in args.shape.split(",")), args.levels, args.runs, args.alone)


if __name__ == "__main__":
    main()
