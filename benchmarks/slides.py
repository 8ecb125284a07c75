"""Tiles of a whole slide, compared with the usual libraries: OpenSlide, cuCIM and tifffile.

Run ``python benchmarks/slides.py --slide slide.svs``; without it a slide is generated. The image is
repeated ``--times`` times along each axis, and stored as tiles of 256 x 256 with JPEG, as scanners do. All
contenders read the same file into one array of bytes:

- the whole slide, in pieces of ``--piece`` pixels; tifffile has one call for it;
- patches at random positions, one after the other from each thread, as for training networks.

Each contender has ``--threads`` threads. They take turns; the table has medians of wall time and CPU time.
The row of a missing library reports this: ``pip install openslide-python openslide-bin cucim-cu12``. cuCIM
decodes on the CPU here.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import tifffile
from scipy import ndimage

import beam_volumes as bv

TILE, PATCH = 256, 256
LIBRARIES = ("beam-volumes", "imagecodecs", "tifffile", "openslide-python", "cucim-cu12", "numpy")

#: A piece of the slide: y, x, and how far it reaches along each.
Piece = tuple[int, int, int, int]
#: Reads a piece as y, x, colours.
Read = Callable[[Piece], np.ndarray]


def specimen(shape: tuple[int, int]) -> np.ndarray:
    """Something that compresses about as stained tissue does."""
    rng = np.random.default_rng(0)
    coarse = rng.normal(size=(*(n // 16 + 2 for n in shape), 3))
    smooth = ndimage.zoom(coarse, (16, 16, 1), order=1)[: shape[0], : shape[1]]
    return np.clip(190 + 30 * smooth + rng.normal(0, 4, (*shape, 3)), 0, 255).astype("u1")


def write_slide(path: Path, slide: Path | None, times: int) -> tuple[int, int]:
    """The file that all read: y and x."""
    image = specimen((2967, 2220)) if slide is None else tifffile.imread(slide)
    image = np.tile(image, (times, times, 1))
    tifffile.imwrite(
        path,
        image,
        tile=(TILE, TILE),
        photometric="rgb",
        compression="jpeg",
        compressionargs={"level": 80},
        bigtiff=True,
    )
    return image.shape[:2]


# contenders: what opens a file, and gives what reads a piece


def ours(path: Path, threads: int) -> Read:
    slide = bv.open(path)

    def read(piece: Piece) -> np.ndarray:
        y, x, ny, nx = piece
        return np.moveaxis(np.asarray(slide[:, y : y + ny, x : x + nx]), 0, -1)

    return read


def openslide(path: Path, threads: int) -> Read:
    slide = import_module("openslide").OpenSlide(str(path))
    return lambda p: np.asarray(slide.read_region((p[1], p[0]), 0, (p[3], p[2])))[..., :3]


def cucim(path: Path, threads: int) -> Read:
    slide = import_module("cucim").CuImage(str(path))
    return lambda p: np.asarray(slide.read_region((p[1], p[0]), (p[3], p[2]), device="cpu"))


def tifffile_zarr(path: Path, threads: int) -> Read:
    array = import_module("zarr").open(tifffile.imread(path, aszarr=True), mode="r")
    return lambda p: array[p[0] : p[0] + p[2], p[1] : p[1] + p[3]]


CONTENDERS = {
    "beam_volumes": ours,
    "OpenSlide": openslide,
    "cuCIM": cucim,
    "tifffile, zarr": tifffile_zarr,
}


def pieces(shape: tuple[int, int], size: int) -> list[Piece]:
    """Of the whole slide."""
    ny, nx = shape
    return [
        (y, x, min(size, ny - y), min(size, nx - x))
        for y in range(0, ny, size)
        for x in range(0, nx, size)
    ]


def patches(shape: tuple[int, int], many: int) -> list[Piece]:
    """At places that are the same for all."""
    rng = np.random.default_rng(1)
    ys, xs = (rng.integers(0, n - PATCH, many).tolist() for n in shape)
    return [(y, x, PATCH, PATCH) for y, x in zip(ys, xs, strict=True)]


def by_pieces(read: Read, asked: Sequence[Piece], threads: int, out: np.ndarray | None) -> None:
    def one(piece: Piece) -> None:
        voxels = read(piece)
        if out is not None:
            y, x, ny, nx = piece
            out[y : y + ny, x : x + nx] = voxels

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, asked))


def timed(call: Callable[[], object]) -> tuple[float, float]:
    began = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def cases(path: Path, shape: tuple[int, int], args: argparse.Namespace) -> dict[str, dict]:
    """A call for each pattern and contender, or the reason for its absence."""
    out = np.zeros((*shape, 3), "u1")
    whole: dict[str, Callable[[], object] | str] = {}
    some: dict[str, Callable[[], object] | str] = {}
    for name, opened in CONTENDERS.items():
        try:
            read = opened(path, args.threads)
            np.testing.assert_allclose(read((0, 0, 64, 64)), tifffile_head(path), atol=3)
        except Exception as error:
            whole[name] = some[name] = f"{type(error).__name__}: {error}"
            continue
        all_of_it, random = pieces(shape, args.piece), patches(shape, args.patches)
        whole[name] = lambda r=read, a=all_of_it: by_pieces(r, a, args.threads, out)  # type: ignore[misc]
        some[name] = lambda r=read, a=random: by_pieces(r, a, args.threads, None)  # type: ignore[misc]
    whole["beam_volumes, one call"] = lambda: np.asarray(bv.open(path))
    whole["tifffile.imread"] = lambda: tifffile.imread(path, maxworkers=args.threads)
    return {f"whole, by {args.piece}": whole, f"{args.patches} patches of {PATCH}": some}


def tifffile_head(path: Path) -> np.ndarray:
    """The first pixels as tifffile has them; decoders of JPEG differ by one or two grey levels."""
    return tifffile.imread(path)[:64, :64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slide", type=Path, help="an image of one level, such as an SVS file")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--piece", type=int, default=1024)
    parser.add_argument("--patches", type=int, default=500)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    bv.options.max_inmemory = 8 << 30
    known = []
    for name in LIBRARIES:
        try:
            known.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    with tempfile.TemporaryDirectory(prefix="beam-volumes-slides-") as folder:
        path = Path(folder) / "slide.tif"
        shape = write_slide(path, args.slide, args.times)
        print(
            f"{shape[0]} x {shape[1]} RGB, {path.stat().st_size >> 20} MiB, {args.threads} threads"
        )
        print(f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}")
        print(", ".join(known))
        for what, contenders in cases(path, shape, args).items():
            print(f"\n{what:32s}{'s':>8s}{'CPU s':>8s}")
            calls = {n: c for n, c in contenders.items() if callable(c)}
            for call in calls.values():
                timed(call)
            times: dict[str, list[tuple[float, float]]] = {n: [] for n in calls}
            for _ in range(args.runs):
                for name, call in calls.items():
                    times[name].append(timed(call))
            for name, found in contenders.items():
                if name not in times:
                    print(f"{name:32s}{found}")
                    continue
                clock, cpu = (statistics.median(t) for t in zip(*times[name], strict=True))
                print(f"{name:32s}{clock:8.2f}{cpu:8.2f}", flush=True)


if __name__ == "__main__":
    main()
