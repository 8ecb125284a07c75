"""Operations across slabs, from disk to disk through Beam, compared with other libraries in memory.

Run ``python benchmarks/across.py``: 256^3 and 512^3, three runs each; ``--large`` adds 1024^3, once. This
package reads zarr and writes zarr or Parquet through Beam's FnApiRunner, with 2 workers. Peers work on
numpy arrays in a warm process, and dask-image reads and writes the same zarr. Our seconds are from
`compute` to the last byte, without the start-up, which is the time of thresholding a tiny volume. A peer
that would take more than a minute computes a crop, and its seconds are scaled by the number of crops in the
volume: ``~``.
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import beam_volumes as bv
from beam_volumes.drive.compute import run
from beam_volumes.plan.cost.memory import BASE_BEAM
from beam_volumes.plan.run_options import RunOptions

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

    def __getitem__(self, name: str) -> bv.Volume:
        if name not in self.volumes:
            target = INPUTS[name](self).to(self.path(name), chunks=CHUNKS, codec=None)
            self.volumes[name] = bv.compute(
                target, runner=None, workers=WORKERS, progress=False, keep_journal=False
            )
        return self.volumes[name]

    def array(self, name: str, side: int) -> np.ndarray:
        """A crop in memory."""
        return np.ascontiguousarray(np.asarray(self[name][:side, :side, :side]))

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}.zarr")


def blobs(noise: bv.Volume, sigma: float, level: float) -> bv.Volume:
    """Smoothed noise above ``level`` of its standard deviations."""
    deviation = np.sqrt((256**2 - 1) / 12) / (2 * np.sqrt(np.pi) * sigma) ** 1.5
    return bv.gaussian_filter(noise, sigma) > 127.5 + level * deviation


def noise(scene: Scene) -> bv.Volume:
    rng, n = np.random.default_rng(0), scene.side
    slices = np.memmap(scene.folder / "noise", np.uint8, "w+", shape=(n, n, n))
    for z in range(0, n, 64):
        slices[z : z + 64] = rng.integers(0, 256, (64, n, n), np.uint8)
    return bv.open(slices)


def all_but_one(scene: Scene) -> bv.Volume:
    n = scene.side
    z, y, x = np.ogrid[:n, :n, :n]
    return bv.open((z != n // 2) | (y != n // 3) | (x != n // 4))


INPUTS: dict[str, Callable[[Scene], bv.Volume]] = {
    "noise": noise,
    # A sixth is foreground: one component that goes through nearly everything, and many others.
    "blobs": lambda s: blobs(s["noise"], 3, 1.0),
    # Most is foreground, and its distances from background are as the blobs are thick.
    "thick": lambda s: blobs(s["noise"], 7, -0.8),
    "one": all_but_one,
    "labels": lambda s: bv.label(s["blobs"], dtype="u4"),
}


@dataclass(frozen=True)
class Row:
    """One operation: our call, and the calls of other packages."""

    name: str
    source: str
    ours: Callable[[Scene], Any]
    call: str
    suffix: str
    peers: dict[str, Callable[..., Any]]
    limit: dict[int, float] = field(default_factory=dict)
    against: str = ""


def dask_label(path: str, side: int) -> None:
    """Disk to disk as ours."""
    import dask
    import dask.array as da
    import zarr
    from dask_image.ndmeasure import label

    source = da.from_zarr(path)[:side, :side, :side].rechunk((min(256, side // 2),) * 3)
    labels, _ = label(source)
    store = zarr.create_array(
        f"{path}-dask", shape=labels.shape, chunks=CHUNKS, dtype="u4", overwrite=True
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
            'dask_image.ndmeasure.label(da.from_zarr(...))[0].astype("u4"), da.store': dask_label,
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


def ours(row: Row, scene: Scene, runner: str | None, workers: int | None) -> tuple[float, int, str]:
    """Seconds, the most memory that a worker had, and what went where."""
    place = scene.folder / f"out.{row.suffix}"
    how: dict[str, Any] = {"chunks": CHUNKS, "codec": None} if row.suffix == "zarr" else {}
    target = row.ours(scene).to(str(place), **how)
    begin = time.perf_counter()
    options = RunOptions(
        runner=runner,
        workers=workers,
        memory=BASE_BEAM + ROOM,
        overwrite=True,
        progress=False,
        journal=str(scene.folder / "journal"),
    )
    outcome = run([target], options)
    seconds = time.perf_counter() - begin
    assert outcome.summary is not None
    passes = ", ".join(f"{p.partition.window}/{p.grid.step[0]}" for p in outcome.plan.passes)
    passes += f", {outcome.plan.workers} in flight"
    return seconds, outcome.summary.peak_memory, passes


def start_up(folder: Path, runs: int) -> float:
    """Seconds of a run through Beam in which next to nothing is computed."""
    tiny = bv.open(np.zeros((8, 8, 8), np.uint8)).to(folder / "tiny.zarr")
    volume = bv.compute(tiny, runner=None, overwrite=True, progress=False, keep_journal=False)
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        target = (volume > 0).to(folder / "tiny-out.zarr")
        bv.compute(
            target,
            workers=WORKERS,
            overwrite=True,
            progress=False,
            keep_journal=False,
            runner="FnApiRunner",
        )
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def seconds_of(work: Callable[..., Any], *arguments: Any) -> float:
    begin = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begin


class Peer:
    """One of the others on one input, at first a crop, to see how long it takes."""

    def __init__(self, row: Row, scene: Scene, call: str, work: Callable[..., Any]) -> None:
        self.row, self.scene, self.call, self.work = row, scene, call, work
        self.times: list[float] = []
        side = min(CROP, scene.side)
        crops = (scene.side / side) ** 3
        self.run(side)  # warm
        first = crops * self.run(side)
        self.is_crop = crops > 1 and first > 1.5 * PATIENCE
        self.times = [first] if self.is_crop else []

    def run(self, side: int) -> float:
        names = self.row.source.split()
        if self.work is dask_label:
            return seconds_of(self.work, self.scene.path(names[0]), side)
        return seconds_of(self.work, *(self.scene.array(name, side) for name in names))

    def again(self) -> None:
        if not self.is_crop and max(self.times, default=0.0) < PATIENCE:
            self.times.append(self.run(self.scene.side))


def bench(
    scene: Scene,
    rows: list[Row],
    runs: int,
    start: float,
    runner: str | None,
    workers: int | None,
) -> Iterator[dict[str, Any]]:
    """Print and yield the rows; contenders take turns, so that a busy machine is so to all."""
    for row in rows:
        for name in row.source.split():
            scene[name]
        print(f"{row.name}, {scene.side}^3{_described(row, scene)}")
        peers = []
        for call, work in row.peers.items():
            try:
                peers.append(Peer(row, scene, call, work))
            except Exception as error:  # one of the others does not take this input
                print(f"           failed  {call}: {type(error).__name__}: {error}")
        found = []
        for _ in range(runs):
            found.append(ours(row, scene, runner, workers))
            for peer in peers:
                peer.again()
        seconds = statistics.median(f[0] for f in found)
        net = seconds - start
        peak = max(f[1] for f in found)
        print(
            f"  {net:9.2f} s           {row.call}\n"
            f"{'':23s}{seconds:.2f} s with start-up; peak {peak >> 20} MiB, "
            f"{(peak - BASE_BEAM) / 2**20:.0f} beyond the base; window/slab {found[0][2]}"
        )
        yield {
            "operation": row.name,
            "side": scene.side,
            "ours": round(net, 1),
            "MiB": (peak - BASE_BEAM) >> 20,
            "regions": int(bv.max(scene["labels"])) if "labels" in row.source else None,
            "peers": {_package(p.call): round(statistics.median(p.times), 1) for p in peers},
            "scaled": [_package(p.call) for p in peers if p.is_crop],
        }
        for peer in peers:
            theirs = statistics.median(peer.times)
            limit = row.limit.get(scene.side) if peer.call == row.against else None
            goal = "" if limit is None else f" (goal {limit:g})"
            if limit is not None and net > limit * theirs:
                goal = f" (goal {limit:g}: missed)"
            mark = "~" if peer.is_crop else " "
            print(f"  {mark}{theirs:8.2f} s {net / theirs:7.2f}x  {peer.call}{goal}", flush=True)


def _package(call: str) -> str:
    """The package that a call uses, as PyPI names it."""
    module = call.partition(".")[0]
    return {"skimage": "scikit-image", "dask_image": "dask-image"}.get(module, module)


def _described(row: Row, scene: Scene) -> str:
    if row.source == "thick":
        some = edt_of(scene.array("thick", min(scene.side, 256)))
        return f" (99 % of distances up to {np.quantile(some, 0.99):.1f})"
    if "labels" in row.source:
        return f" ({int(bv.max(scene['labels']))} regions)"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="256^3 only")
    parser.add_argument("--large", action="store_true", help="1024^3 too: about 15 GB on disk")
    parser.add_argument("--sizes", type=int, nargs="*", help="these instead")
    parser.add_argument("--op", help="only rows with this in their name")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument(
        "--workers", help="slabs in flight of ours; 2, or 'default': the plan's own"
    )
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
    runner = None if args.bare else "FnApiRunner"
    workers = None if args.workers == "default" else int(args.workers or WORKERS)
    bv.options.max_inmemory = 8 << 30  # others compute in memory
    with tempfile.TemporaryDirectory(prefix="beam-volumes-bench-") as name:
        warm = Scene(Path(name), 64)
        for row in rows:  # kernels are compiled, and kept on disk
            ours(row, warm, runner, workers)
    found: list[dict[str, Any]] = []
    for side in sizes:
        runs = args.runs if side < 1024 else 1
        folder = Path(tempfile.mkdtemp(prefix="beam-volumes-bench-"))
        try:
            start = 0.0 if args.bare else start_up(folder, 3)
            print(
                f"\n{side}^3 in chunks of {CHUNKS}, median of {runs}; start-up {start:.2f} s, taken off; "
                f"load {os.getloadavg()[0]:.1f}\n",
                flush=True,
            )
            found += bench(Scene(folder, side), rows, runs, start, runner, workers)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        args.json.write_text(json.dumps(found))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(none)"


if __name__ == "__main__":
    sys.exit(main())
