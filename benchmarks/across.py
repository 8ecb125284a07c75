"""What reaches across slabs, disk to disk through Beam, against the same in memory.

Run ``python benchmarks/across.py``: 256^3 and 512^3, three runs each; ``--large`` adds 1024^3, once. We
read zarr and write zarr or Parquet, through Beam's FnApiRunner, with 2 workers; others read numpy arrays
and give numpy arrays, in a process that is warm, and dask-image reads and writes the same zarr as we do.
Seconds of ours are from `compute` to the last byte, less the start-up: what a run of one tiny volume
takes, thresholded. A peer that would take more than a minute does a crop, and its seconds are those
times the number of crops in the volume: ``~``.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import beam_volumes as bv
from beam_volumes.drive.compute import run
from beam_volumes.plan.budget import BASE_BEAM

WORKERS = 2
#: Bytes that a run may take beyond the base of its process.
ROOM = 1 << 30
CHUNKS = (64, 128, 128)
#: Peers that would take longer get a crop of the volume.
PATIENCE = 60.0
CROP = 128


@dataclass
class Scene:
    """The inputs of one size, as zarr."""

    folder: Path
    side: int
    volumes: dict[str, bv.Volume] = field(default_factory=dict)

    @property
    def voxels(self) -> int:
        return self.side**3

    def __getitem__(self, name: str) -> bv.Volume:
        return self.volumes[name]

    def array(self, name: str, side: int) -> np.ndarray:
        """A crop in memory."""
        return np.ascontiguousarray(np.asarray(self[name][:side, :side, :side]))

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}.zarr")

    def store(self, name: str, expression: bv.Volume) -> None:
        target = expression.to(self.path(name), chunks=CHUNKS, codec=None)
        self.volumes[name] = bv.compute(
            target, runner=None, workers=WORKERS, progress=False, keep_journal=False
        )


def blobs(noise: bv.Volume, sigma: float, level: float) -> bv.Volume:
    """Smoothed noise above ``level`` of its standard deviations."""
    deviation = np.sqrt((256**2 - 1) / 12) / (2 * np.sqrt(np.pi) * sigma) ** 1.5
    return bv.gaussian_filter(noise, sigma) > 127.5 + level * deviation


def make_scene(folder: Path, side: int) -> Scene:
    scene = Scene(folder, side)
    rng = np.random.default_rng(side)
    depth = 64
    noise = np.memmap(folder / "noise", np.uint8, "w+", shape=(side, side, side))
    for z in range(0, side, depth):
        noise[z : z + depth] = rng.integers(0, 256, (depth, side, side), np.uint8)
    scene.store("noise", bv.open(noise))
    del noise
    (folder / "noise").unlink()
    # A sixth is foreground: one component that goes through nearly everything, and many others.
    scene.store("blobs", blobs(scene["noise"], 3, 1.0))
    # Most is foreground; a voxel in a hundred is about as far from background as the blobs are thick.
    scene.store("thick", blobs(scene["noise"], 7, -0.8))
    z, y, x = np.ogrid[:side, :side, :side]
    one = (z != side // 2) | (y != side // 3) | (x != side // 4)
    scene.store("one", bv.open(one))
    scene.store("labels", bv.label(scene["blobs"], dtype="u4"))
    return scene


@dataclass(frozen=True)
class Row:
    """One operation: ours, and the same by others, each by what is called."""

    name: str
    source: str
    ours: Callable[[Scene], Any]
    call: str
    suffix: str
    peers: dict[str, Callable[..., Any]]
    limit: dict[int, float] = field(default_factory=dict)
    against: str = ""


def label_dask(scene: Scene, _: Any = None) -> None:
    import dask
    import dask.array as da
    import zarr
    from dask_image.ndmeasure import label

    source = da.from_zarr(scene.path("blobs")).rechunk((scene.side // 2,) * 3)
    labels, _ = label(source)
    store = zarr.create_array(
        scene.path("dask"), shape=labels.shape, chunks=CHUNKS, dtype="u4", overwrite=True
    )
    with dask.config.set(scheduler="threads", num_workers=WORKERS):
        da.store(labels.astype("u4"), store, lock=False)


def scipy_label(a: np.ndarray) -> Any:
    from scipy import ndimage

    return ndimage.label(a, output=np.uint32)


def cc3d_label(a: np.ndarray) -> Any:
    import cc3d

    return cc3d.connected_components(a, connectivity=6, out_dtype=np.uint32)


def edt_of(a: np.ndarray) -> Any:
    import edt

    return edt.edt(a, parallel=WORKERS, black_border=False)


def scipy_edt(a: np.ndarray) -> Any:
    from scipy import ndimage

    return ndimage.distance_transform_edt(a).astype(np.float32)


def cc3d_table(labels: np.ndarray) -> Any:
    import cc3d

    return cc3d.statistics(labels)


def skimage_table(labels: np.ndarray) -> Any:
    from skimage.measure import regionprops_table

    return regionprops_table(labels, properties=("label", "num_pixels", "bbox", "centroid"))


def skimage_intensity(labels: np.ndarray, grey: np.ndarray) -> Any:
    from skimage.measure import regionprops_table

    wanted = ("label", "num_pixels", "bbox", "centroid", "intensity_mean", "intensity_max")
    return regionprops_table(labels, grey, properties=wanted)


SHAPES = ["num_pixels", "bbox", "centroid"]
GREYS = [*SHAPES, "intensity_mean", "intensity_max"]
ROWS = [
    Row(
        "label",
        "blobs",
        lambda s: bv.label(s["blobs"], dtype="u4"),
        'bv.label(mask, dtype="u4").to("labels.zarr")',
        "zarr",
        {
            "scipy.ndimage.label(mask, output=np.uint32)": scipy_label,
            "cc3d.connected_components(mask, connectivity=6, out_dtype=np.uint32)": cc3d_label,
            'dask_image.ndmeasure.label(da.from_zarr(...))[0].astype("u4"), da.store': label_dask,
        },
        {512: 1.5, 1024: 1.0},
        "scipy.ndimage.label(mask, output=np.uint32)",
    ),
    *(
        Row(
            f"EDT, {what}",
            source,
            lambda s, name=source: bv.distance_transform_edt(s[name]),
            'bv.distance_transform_edt(mask).to("distance.zarr")',
            "zarr",
            {
                f"edt.edt(mask, parallel={WORKERS}, black_border=False)": edt_of,
                "scipy.ndimage.distance_transform_edt(mask).astype(np.float32)": scipy_edt,
            },
            {256: 2.0, 512: 2.0, 1024: 2.0},
            f"edt.edt(mask, parallel={WORKERS}, black_border=False)",
        )
        for source, what in (("thick", "blobs"), ("one", "one background voxel"))
    ),
    Row(
        "region table",
        "labels",
        lambda s: bv.regionprops_table(s["labels"], properties=SHAPES),
        f'bv.regionprops_table(labels, properties={SHAPES}).to("table.parquet")',
        "parquet",
        {
            "cc3d.statistics(labels)": cc3d_table,
            'skimage.measure.regionprops_table(labels, properties=("label", "num_pixels", "bbox", '
            '"centroid"))': skimage_table,
        },
    ),
    Row(
        "region table with intensities",
        "labels noise",
        lambda s: bv.regionprops_table(s["labels"], s["noise"], properties=GREYS),
        f'bv.regionprops_table(labels, grey, properties={GREYS}).to("table.parquet")',
        "parquet",
        {
            "skimage.measure.regionprops_table(labels, grey, properties=(..., "
            '"intensity_mean", "intensity_max"))': skimage_intensity,
        },
    ),
]


def ours(row: Row, scene: Scene, runner: str | None) -> tuple[float, int, str]:
    """Seconds, the most memory that a worker had, and what went where."""
    place = scene.folder / f"out.{row.suffix}"
    how: dict[str, Any] = {"chunks": CHUNKS, "codec": None} if row.suffix == "zarr" else {}
    target = row.ours(scene).to(str(place), **how)
    begin = time.perf_counter()
    outcome = run(
        target,
        runner=runner,
        workers=WORKERS,
        memory=BASE_BEAM + ROOM,
        overwrite=True,
        progress=False,
        journal=str(scene.folder / "journal"),
        keep_journal=True,
    )
    seconds = time.perf_counter() - begin
    assert outcome.summary is not None
    passes = ", ".join(f"{p.partition.window}/{p.grid.step[0]}" for p in outcome.plan.passes)
    return seconds, outcome.summary.peak_memory, passes


def start_up(folder: Path, runs: int) -> float:
    """Seconds of a run through Beam in which next to nothing is computed."""
    tiny = bv.open(np.zeros((8, 8, 8), np.uint8)).to(folder / "tiny.zarr")
    volume = bv.compute(tiny, runner=None, overwrite=True, progress=False, keep_journal=False)
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        target = (volume > 0).to(folder / "tiny-out.zarr")
        bv.compute(target, workers=WORKERS, overwrite=True, progress=False, keep_journal=False)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def peer(work: Callable[..., Any], row: Row, scene: Scene, runs: int) -> tuple[float, bool]:
    """Median seconds, and whether they are of a crop."""
    side, is_crop = min(CROP, scene.side), False
    if work is label_dask:
        times = []
        for _ in range(runs):
            begin = time.perf_counter()
            work(scene)
            times.append(time.perf_counter() - begin)
            if times[0] > PATIENCE:
                break
        return statistics.median(times), False
    arrays = [scene.array(name, side) for name in row.source.split()]
    work(*arrays)  # warm
    begin = time.perf_counter()
    work(*arrays)
    seconds = time.perf_counter() - begin
    crops = (scene.side / side) ** 3
    if seconds * crops > 2 * PATIENCE:
        return seconds * crops, True
    arrays = [scene.array(name, scene.side) for name in row.source.split()]
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        work(*arrays)
        times.append(time.perf_counter() - begin)
        if times[0] > PATIENCE:
            break
    return statistics.median(times), is_crop


def bench(scene: Scene, rows: list[Row], runs: int, start: float, runner: str | None) -> None:
    for row in rows:
        found = [ours(row, scene, runner) for _ in range(runs)]
        seconds = statistics.median(f[0] for f in found)
        net = seconds - start
        peak = max(f[1] for f in found)
        beyond = (peak - BASE_BEAM) / 2**20
        print(f"{row.name}, {scene.side}^3")
        print(
            f"  {net:9.2f} s           {row.call}\n"
            f"{'':23s}{seconds:.2f} s with start-up; peak {peak >> 20} MiB, {beyond:.0f} beyond the base; "
            f"window/slab {found[0][2]}"
        )
        for call, work in row.peers.items():
            theirs, is_crop = peer(work, row, scene, runs)
            mark = "~" if is_crop else " "
            goal = ""
            limit = row.limit.get(scene.side)
            if call == row.against and limit is not None:
                goal = f" (goal {limit:g})" + ("" if net <= limit * theirs else " MISSED")
            print(f"  {mark}{theirs:8.2f} s {net / theirs:7.2f}x  {call}{goal}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="256^3 only")
    parser.add_argument("--large", action="store_true", help="1024^3 too: about 15 GB on disk")
    parser.add_argument("--sizes", type=int, nargs="*", help="these instead")
    parser.add_argument("--op", help="only rows whose name contains this")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bare", action="store_true", help="ours without Beam, in this process")
    args = parser.parse_args()
    sizes = args.sizes or ([256] if args.quick else [256, 512, 1024] if args.large else [256, 512])
    rows = [r for r in ROWS if args.op is None or args.op in r.name]
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total >> 30} GiB, Python {platform.python_version()}"
    )
    packages = (
        "numpy scipy numba tensorstore apache-beam connected-components-3d dask dask-image edt"
    )
    print(", ".join(f"{p} {_version(p)}" for p in [*packages.split(), "scikit-image"]))
    for side in sizes:
        runs = args.runs if side < 1024 else 1
        folder = Path(tempfile.mkdtemp(prefix="beam-volumes-bench-"))
        try:
            start = 0.0 if args.bare else start_up(folder, 3)
            scene = make_scene(folder, side)
            top = scene.array("thick", min(side, 256))
            edges = np.quantile(edt_of(top), 0.99)
            count = int(np.asarray(bv.max(scene["labels"])))
            print(
                f"\n{side}^3 uint8 and bool in chunks of {CHUNKS}, median of {runs}; {count} components; "
                f"99 % of distances up to {edges:.1f}; start-up {start:.2f} s, taken off; "
                f"load {os.getloadavg()[0]:.1f}\n",
                flush=True,
            )
            bench(scene, rows, runs, start, None if args.bare else "FnApiRunner")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(none)"


if __name__ == "__main__":
    sys.exit(main())
