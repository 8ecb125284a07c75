"""Conversion, compared with reading everything and then writing it with the usual libraries.

Run ``python benchmarks/convert.py``; ``--shape 256,1024,1024`` chooses another volume, ``--runs`` the
number of runs, ``--memory`` our memory limit. Both write the same chunks with the same codec. A peer has
the whole volume in memory in between, and this package never does. Contenders take turns, and each writes a
new file each time. The table has medians of seconds, and ratios of wall time and CPU time. Compiling and
imports are not timed.
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
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import h5py
import imagecodecs
import numpy as np
import tensorstore as ts
import tifffile
from scipy import ndimage

import beam_volumes as bv

CHUNK = (64, 64, 64)
LIBRARIES = ("beam-volumes", "tensorstore", "h5py", "imagecodecs", "tifffile", "numpy")


def specimen(shape: tuple[int, ...]) -> np.ndarray:
    """Something that compresses about as electron micrographs do."""
    rng = np.random.default_rng(0)
    coarse = rng.normal(size=[n // 8 + 2 for n in shape]).astype("f4")
    smooth = ndimage.zoom(coarse, 8, order=1)[tuple(slice(n) for n in shape)]
    return np.clip(128 + 40 * smooth + rng.normal(0, 8, shape), 0, 255).astype("u1")


# What people read and write with: the whole volume.


def read_slices(path: Path) -> np.ndarray:
    with ThreadPoolExecutor() as pool:
        return np.stack(
            list(pool.map(lambda p: imagecodecs.png_decode(p.read_bytes()), sorted(path.iterdir())))
        )


def read_tiff(path: Path) -> np.ndarray:
    with ThreadPoolExecutor() as pool:
        return np.stack(list(pool.map(tifffile.imread, sorted(path.iterdir()))))


def read_zarr(path: Path) -> np.ndarray:
    return ts.open({"driver": "zarr3", "kvstore": f"file://{path}/"}).result().read().result()


def read_hdf5(path: Path) -> np.ndarray:
    with h5py.File(path) as file:
        return file["data"][:]


def write_zarr(path: Path, voxels: np.ndarray, chunk: tuple[int, ...], level: int = 1) -> None:
    codecs = [
        {"name": "bytes"},
        {"name": "zstd", "configuration": {"level": level, "checksum": False}},
    ]
    metadata = {
        "shape": voxels.shape,
        "data_type": str(voxels.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "codecs": codecs,
    }
    spec = {"driver": "zarr3", "kvstore": f"file://{path}/", "metadata": metadata}
    ts.open(spec, create=True).result().write(voxels).result()


def write_hdf5(path: Path, voxels: np.ndarray, chunk: tuple[int, ...]) -> None:
    with h5py.File(path, "w") as file:
        how: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
        file.create_dataset("data", data=voxels, chunks=chunk, **how)


def write_slices(path: Path, voxels: np.ndarray) -> None:
    path.mkdir()
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                lambda z: (path / f"{z:05d}.png").write_bytes(imagecodecs.png_encode(voxels[z])),
                range(len(voxels)),
            )
        )


def write_tiff(path: Path, voxels: np.ndarray) -> None:
    path.mkdir()
    for z, plane in enumerate(voxels):
        tifffile.imwrite(path / f"{z:05d}.tif", plane)


def convert(source: Path, out: Path, memory: str, **how: Any) -> None:
    """Ours, in this process."""
    target = bv.open(source).to(out, **how)
    bv.compute(target, runner=None, progress=False, memory=memory)


def timed(call: Callable[[], None], out: Path) -> tuple[float, float]:
    """Seconds on the clock, and of the processor, which are more reliable on a loaded machine."""
    for path in (out, Path(f"{out}.run")):
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
    began = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def cases(
    folder: Path, memory: str
) -> dict[str, tuple[Callable[[], None], Callable[[], None], Path]]:
    """By name: ours, the peer, and what both write."""
    slices, tiffs, planes, cubes, file = (
        folder / name for name in ("slices", "tiffs", "planes.zarr", "cubes.zarr", "cubes.h5")
    )
    out, h5, png = folder / "out.zarr", folder / "out.h5", folder / "out"
    ome = folder / "out.ome.zarr"
    plane = (1, *read_zarr(planes).shape[1:])
    to_cubes = {"chunks": CHUNK, "codec": "zstd"}
    return {
        "PNG slices to zarr, 64^3": (
            lambda: convert(slices, out, memory, **to_cubes),
            lambda: write_zarr(out, read_slices(slices), CHUNK),
            out,
        ),
        "TIFF slices to OME-Zarr, 64^3": (
            lambda: convert(tiffs, ome, memory, levels=1, **to_cubes),
            lambda: write_zarr(ome / "0", read_tiff(tiffs), CHUNK),
            ome,
        ),
        "zarr, planes to 64^3": (
            lambda: convert(planes, out, memory, **to_cubes),
            lambda: write_zarr(out, read_zarr(planes), CHUNK),
            out,
        ),
        "zarr, 64^3 to planes": (
            lambda: convert(cubes, out, memory, chunks=plane, codec="zstd"),
            lambda: write_zarr(out, read_zarr(cubes), plane),
            out,
        ),
        "zarr, 64^3 to HDF5": (
            lambda: convert(cubes, h5, memory, chunks=CHUNK, codec="gzip"),
            lambda: write_hdf5(h5, read_zarr(cubes), CHUNK),
            h5,
        ),
        "HDF5 to zarr, 64^3": (
            lambda: convert(file, out, memory, **to_cubes),
            lambda: write_zarr(out, read_hdf5(file), CHUNK),
            out,
        ),
        "zarr, 64^3 to PNG slices": (
            lambda: convert(cubes, png, memory, format="png"),
            lambda: write_slices(png, read_zarr(cubes)),
            png,
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="256,1024,1024")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--only", default="", help="cases with this in their name")
    args = parser.parse_args()
    z, y, x = map(int, args.shape.split(","))
    folder = Path(tempfile.mkdtemp(prefix="beam-volumes-convert-"))
    try:
        voxels = specimen((z, y, x))
        write_slices(folder / "slices", voxels)
        write_tiff(folder / "tiffs", voxels)
        write_zarr(folder / "planes.zarr", voxels, (1, y, x))
        write_zarr(folder / "cubes.zarr", voxels, CHUNK)
        write_hdf5(folder / "cubes.h5", voxels, CHUNK)
        del voxels
        print(f"{z} x {y} x {x} uint8, medians of {args.runs}, memory {args.memory}")
        print(
            f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {platform.platform()}"
        )
        print(
            f"Python {platform.python_version()}, "
            + ", ".join(f"{n} {version(n)}" for n in LIBRARIES)
        )
        heads = f"{'ours s':>9s}{'read, then write s':>20s}{'ratio':>8s}{'of CPU s':>12s}"
        print(f"\n{'':32s}{heads}")
        for name, (ours, peer, out) in cases(folder, args.memory).items():
            if args.only not in name:
                continue
            timed(ours, out), timed(peer, out)
            pairs = [(timed(ours, out), timed(peer, out)) for _ in range(args.runs)]
            a, b = (
                [statistics.median(times) for times in zip(*some, strict=True)]
                for some in zip(*pairs, strict=True)
            )
            line = f"{a[0]:9.2f}{b[0]:20.2f}{a[0] / b[0]:8.2f}{a[1] / b[1]:12.2f}"
            print(f"{name:32s}{line}", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
