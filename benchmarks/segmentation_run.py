"""Segment gigavoxels of affinities on one machine: time, memory, messages, and equal results.

``segmentation_run.py affinities FOLDER MODEL OUT --shape Z,Y,X`` writes an OME-Zarr of float32 affinities.
It takes the FIB-25 sample and a network of affinities, as ``neurons.py`` does, and repeats the sample by
mirrors. Each chunk has its own contrast and its own noise, so that no two places are equal.

``segmentation_run.py segment AFFINITIES OUT`` scales the affinities to bytes, finds fragments, merges them
by their mean affinity, and writes the segments and a table of them. Fragments are basins of the smoothed sum
of affinities, or with ``--fragments affinities`` those of `watershed_affinities`. ``--part``, ``--slab``,
``--memory``, ``--runner`` and ``--options`` are for the run. It prints the plan, and then the measurements
as JSON. ``VmHWM`` and ``RssAnon`` are peaks of this process; ``RssAnon`` leaves out mapped files.
``messages`` are bytes of the merges that waited in a temporary file. Only on Linux.

``segmentation_run.py compare OUT OTHER`` compares the results of two runs: every voxel and every row.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import tensorstore as ts
from scipy import ndimage

import beam_volumes as bv

CHUNK = 64
#: Voxels of the sample along an axis that are repeated, and where they begin.
SIDE, FIRST = 240, 5
NOISE_SIDE, NOISE = 160, 3.0
#: As in templates/recipes/neurons.yaml.
SMALLEST, LEAST = 1300, 140
#: Of the sum of affinities: basins have about 226 voxels, but only 11 in `watershed_affinities`.
SIGMA = 1


def sample(folder: Path, model: Path) -> np.ndarray:
    """The affinities of the sample, as bytes."""
    em = bv.open(str(folder / "grayscale" / "*.png"))
    before = [(-1, 0, 0), (0, -1, 0), (0, 0, -1)]
    likely = bv.predict(em, model, context=24, stride=4, normalize=(0, 255), offsets=before)
    return np.asarray((bv.clip(likely, 0, 1) * 255 + 0.5).astype("u1"))


def write_affinities(affinities: np.ndarray, out: Path, shape: tuple[int, ...]) -> None:
    """The sample repeated by mirrors, chunk by chunk."""
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(NOISE_SIDE,) * 3), 1.5)
    noise = np.rint(noise * (NOISE / noise.std())).astype(np.int16)
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(out / "0"), "file_io_sync": False},
        "metadata": {
            "shape": [3, *shape],
            "data_type": "float32",
            "dimension_names": ["c", "z", "y", "x"],
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": [1, CHUNK, CHUNK, CHUNK]},
            },
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {
                    "name": "blosc",
                    "configuration": {
                        "cname": "zstd",
                        "clevel": 1,
                        "shuffle": "shuffle",
                        "typesize": 4,
                    },
                },
            ],
        },
    }
    store = ts.open(spec, create=True).result()
    (out / "zarr.json").write_text(json.dumps(group_of()))

    def write(at: tuple[int, ...]) -> None:
        store[chunk_box(at, shape)] = chunk(affinities, noise, at, shape)

    grid = [range(3), *(range(-(-n // CHUNK)) for n in shape)]
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(write, itertools.product(*grid)):
            pass


def group_of() -> dict[str, Any]:
    axes: list[dict[str, str]] = [{"name": "c", "type": "channel"}]
    axes += [{"name": name, "type": "space", "unit": "nanometer"} for name in "zyx"]
    scale = {"type": "scale", "scale": [1, 10, 10, 10]}
    levels = [{"path": "0", "coordinateTransformations": [scale]}]
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    return {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}


def chunk_box(at: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    spans = (slice(i * CHUNK, min((i + 1) * CHUNK, n)) for i, n in zip(at[1:], shape, strict=True))
    return (at[0], *spans)


def chunk(
    affinities: np.ndarray, noise: np.ndarray, at: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    """A channel of a chunk; the affinity with the previous voxel moves by one where it is mirrored."""
    channel, *spans = chunk_box(at, shape)
    places = []
    for axis, span in enumerate(spans):
        index = np.arange(span.start, span.stop) % (2 * SIDE)
        back = 2 * SIDE - (0 if axis == channel else 1)
        places.append(FIRST + np.where(index < SIDE, index, back - index))
    random = np.random.default_rng(at)
    own = affinities[channel][np.ix_(*places)].astype(np.int16)
    offsets = random.integers(0, NOISE_SIDE - CHUNK, 3)
    own += noise[tuple(slice(o, o + n) for o, n in zip(offsets, own.shape, strict=True))]
    contrast = np.random.default_rng(at[1:]).uniform(0.8, 1.25)  # the same in all channels
    levels = np.rint(255 * np.linspace(0, 1, 256) ** contrast).astype(np.float32) / np.float32(255)
    return levels[np.clip(own, 0, 255)]


def targets(affinities: bv.Volume, out: Path, fragments_of: str) -> list[Any]:
    """Segments, and a table of segments."""
    scaled = (affinities * np.float32(255) + np.float32(0.5)).astype("u1")
    if fragments_of == "heights":
        numbers = scaled.astype("f4")
        total = bv.gaussian_filter(numbers[0] + numbers[1] + numbers[2], SIGMA)
        fragments = bv.watershed(np.float32(765) - total)
    else:
        fragments = bv.watershed_affinities(scaled, low=0, min_size=SMALLEST)
    edges = bv.region_adjacency(fragments, affinities=scaled)
    merges = bv.agglomerate(edges, "mean", threshold=LEAST)
    segments = bv.relabel(fragments, bv.cut(merges), missing="keep", dtype=fragments.dtype)
    table = bv.regionprops_table(segments, properties=["num_pixels", "bbox", "centroid"])
    return [
        segments.to(out / "segments.zarr"),
        table.to(out / "table.parquet"),
    ]


class Watch(threading.Thread):
    """The peaks of anonymous memory, and of temporary files with messages."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.anonymous, self.messages, self.ended = 0, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.2):
            self.anonymous = max(self.anonymous, status("RssAnon"))
            self.messages = max(self.messages, sum(map(size_of, Path("/proc/self/fd").iterdir())))


def size_of(file: Path) -> int:
    """Bytes of an open temporary file without a name."""
    with suppress(OSError):
        if os.readlink(file).startswith(tempfile.gettempdir()) and file.stat().st_nlink == 0:
            return file.stat().st_size
    return 0


def status(name: str) -> int:
    with open("/proc/self/status") as file:
        return 1024 * next(int(text.split()[1]) for text in file if text.startswith(name))


def segment(arguments: argparse.Namespace) -> None:
    affinities = bv.open(arguments.affinities)
    if arguments.part:
        spans = (map(int, span.split(":")) for span in arguments.part.split(","))
        affinities = affinities[(slice(None), *(slice(*span) for span in spans))]
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = targets(affinities, arguments.out, arguments.fragments)
    options = {"memory": arguments.memory, "runner": arguments.runner}
    options["resume" if arguments.resume else "overwrite"] = True
    if arguments.slab:
        options["slab"] = [int(n) for n in arguments.slab.split(",")]
    if arguments.options:
        options["options"] = arguments.options.split()
    plan = bv.plan(*wanted, **options)
    print(plan.explain(), flush=True)
    watch = Watch()
    watch.start()
    began, cpu = time.perf_counter(), time.process_time()
    bv.compute(*wanted, progress=True, **options)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    watch.ended.set()
    journal = arguments.out / "segments.zarr.run"
    voxels = int(np.prod(affinities.shape[-3:]))
    found = {
        "shape": affinities.shape,
        "seconds": round(seconds),
        "cpu seconds": round(cpu),
        "Mvoxel/s": round(voxels / seconds / 1e6, 2),
        "VmHWM MiB": status("VmHWM") >> 20,
        "RssAnon MiB": watch.anonymous >> 20,
        "messages MiB": watch.messages >> 20,
        "journal MiB": sum(f.stat().st_size for f in journal.rglob("*") if f.is_file()) >> 20,
        "segments": pq.read_table(arguments.out / "table.parquet", columns=["label"]).num_rows,
    }
    print(json.dumps(found))


def compare(out: Path, other: Path) -> None:
    """Exit with status 1 if two results differ."""
    one, two = (bv.open(folder / "segments.zarr") for folder in (out, other))
    equal = one.shape == two.shape and one.dtype == two.dtype
    for z in range(0, one.shape[0], CHUNK):
        equal = equal and np.array_equal(
            np.asarray(one[z : z + CHUNK]), np.asarray(two[z : z + CHUNK])
        )
    rows, others = (pq.read_table(folder / "table.parquet") for folder in (out, other))
    print(f"{one.shape} {one.dtype}, {rows.num_rows} segments", end=": ")
    print(f"voxels equal {equal}, rows equal {rows == others}")
    raise SystemExit(not (equal and rows == others))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("affinities")
    for name in ("folder", "model", "out"):
        make.add_argument(name, type=Path)
    make.add_argument("--shape", default="256,576,576")
    run = verbs.add_parser("segment")
    run.add_argument("affinities", type=Path)
    run.add_argument("out", type=Path)
    run.add_argument("--part", help="z0:z1,y0:y1,x0:x1")
    run.add_argument("--fragments", choices=("heights", "affinities"), default="heights")
    run.add_argument("--slab")
    run.add_argument("--memory", default="2GiB")
    run.add_argument("--runner")
    run.add_argument("--resume", action="store_true", help="continue an interrupted run")
    run.add_argument("--options", help="options of Beam, separated by spaces")
    pair = verbs.add_parser("compare")
    pair.add_argument("out", type=Path)
    pair.add_argument("other", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "affinities":
        shape = tuple(int(n) for n in arguments.shape.split(","))
        write_affinities(sample(arguments.folder, arguments.model), arguments.out, shape)
    elif arguments.verb == "segment":
        segment(arguments)
    else:
        compare(arguments.out, arguments.other)


if __name__ == "__main__":
    main()
