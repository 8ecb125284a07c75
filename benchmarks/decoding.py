"""Reading with two threads, compared with one: ``python benchmarks/decoding.py [--size 256] [--times 7]``.

A cube of a smooth pattern with noise is written in each format by its own library. It is read as a sweep
reads it: layer by layer, into an array, by as many threads as TensorStore may use. One thread and two take
turns. The output is the best rate in megabytes of voxels per second, and the ratio (the aim is 1.7). Files
are in the system's cache. ``control`` runs zlib in threads that share nothing, which is the upper bound for
a reader.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import imagecodecs
import numpy as np
import tifffile
import zarr

from beam_volumes.storage import open_source
from beam_volumes.storage.places.context import configure


def slices(path: Path, voxels: np.ndarray) -> None:
    path.mkdir()
    for z, plane in enumerate(voxels):
        (path / f"{z:04}.png").write_bytes(imagecodecs.png_encode(plane))


def tiff(path: Path, voxels: np.ndarray) -> None:
    how = {"tile": (256, 256), "compression": "deflate", "photometric": "minisblack"}
    tifffile.imwrite(path, voxels, **how)


def hdf5(path: Path, voxels: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("raw", data=voxels, chunks=(32, 64, 64), compression="gzip")


def zarr_of(codec: str) -> Callable[[Path, np.ndarray], None]:
    def write(path: Path, voxels: np.ndarray) -> None:
        codecs = {"blosc": zarr.codecs.BloscCodec(cname="lz4"), "zstd": zarr.codecs.ZstdCodec()}
        zarr.create_array(path, data=voxels, chunks=(32, 64, 64), compressors=[codecs[codec]])

    return write


FORMATS: dict[str, Callable[[Path, np.ndarray], None]] = {
    "tiles.tif": tiff,
    "gzip.h5": hdf5,
    "blosc.zarr": zarr_of("blosc"),
    "zstd.zarr": zarr_of("zstd"),
    "png": slices,
}


def seconds(path: Path, threads: int, depth: int = 32) -> float:
    configure(threads)
    source = open_source(str(path))
    store = source.reader.open()
    begun = time.perf_counter()
    for z in range(0, source.shape[0], depth):
        store[z : z + depth].read().result()
    return time.perf_counter() - begun


def control(voxels: np.ndarray, threads: int) -> float:
    packed = zlib.compress(voxels.tobytes(), 1)
    jobs = [
        threading.Thread(target=lambda: [zlib.decompress(packed) for _ in range(4 // threads)])
        for _ in range(threads)
    ]
    begun = time.perf_counter()
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--times", type=int, default=7)
    given = parser.parse_args()
    n = given.size
    z, y, x = np.ogrid[:n, :n, :n]
    noise = np.random.default_rng(0).integers(0, 30, (n, n, n))
    voxels = (100 + 60 * np.sin(z / 9) * np.sin(y / 7) * np.cos(x / 8) + noise).astype("u1")
    print(f"{n} x {n} x {n} uint8, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'':12}{'1 thread':>10}{'2 threads':>11}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, write in {"control": None, **FORMATS}.items():
            path = Path(folder) / name
            if write is not None:
                write(path, voxels)
            took: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(given.times):
                for threads in took:
                    here = control(voxels, threads) if write is None else seconds(path, threads)
                    took[threads].append(here)
            size = voxels.nbytes * (4 if write is None else 1) / 1e6
            one, two = (size / min(t) for t in took.values())
            print(f"{name:12}{one:>7.0f} MB{two:>8.0f} MB{two / one:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
