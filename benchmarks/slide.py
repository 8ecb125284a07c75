"""A whole slide: stains, a Sobel filter and pyramids of both, in 1 GiB, compared with other packages.

``python benchmarks/slide.py [side] [slide.svs]`` repeats the slide's JPEG tiles, without recompression, to
a slide of about ``side`` pixels square (6000 by default). Without a slide one is generated. It prints

- seconds and peak memory of ``beam_volumes``, and how often each tile was decoded;
- the seconds of only decoding each tile once and writing the same results;
- the seconds of tifffile, scikit-image and zarr, with the whole image in memory;
- whether the results equal the results for the whole image, and the share of pixels that differ if filters
  run tile by tile without their surroundings.

``side=0`` leaves the timings out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

LEVELS, MEMORY = 5, "1GiB"
TILES = (256, 512, 1024)


def made(path: Path) -> Path:
    """A slide with something of everything."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[:960, :960]
    waves = np.sin(x / 17) * np.cos(y / 23) + np.sin((x + y) / 41)
    image = np.stack([200 - 30 * waves, 150 - 60 * waves, 190 - 20 * waves], axis=-1)
    image += random.normal(0, 8, image.shape)
    how: dict[str, Any] = {"tile": (240, 240), "photometric": "rgb", "compression": "jpeg"}
    tifffile.imwrite(path, image.clip(0, 255).astype("u1"), **how)
    return path


def mosaic(slide: Path, side: int, path: Path) -> tuple[int, int]:
    """Put a slide's whole tiles side by side, not decoded; gives the rows and columns of one copy."""
    with tifffile.TiffFile(slide) as file:
        page = file.pages[0]
        assert isinstance(page, tifffile.TiffPage)
        rows, cols = page.imagelength // page.tilelength, page.imagewidth // page.tilewidth
        across = -(-page.imagewidth // page.tilewidth)
        segments = file.filehandle.read_segments(page.dataoffsets, page.databytecounts)
        data = {index: segment for segment, index in segments}
        height, width = rows * page.tilelength, cols * page.tilewidth
        down, over = max(1, round(side / height)), max(1, round(side / width))

        def tiles() -> Any:
            for i in range(down * rows):
                for j in range(over * cols):
                    yield data[i % rows * across + j % cols]

        with tifffile.TiffWriter(path, bigtiff=True) as out:
            out.write(
                tiles(),
                shape=(down * height, over * width, 3),
                dtype=np.uint8,
                photometric=page.photometric,
                tile=(page.tilelength, page.tilewidth),
                compression=page.compression,
                jpegtables=page.jpegtables,
                subsampling=page.subsampling,
            )
    return height, width


def targets(slide: Any, out: Path) -> Any:
    import beam_volumes as bv

    volume = bv.open(slide)
    return (
        bv.rgb2hed(volume).to(out / "stains.ome.zarr", levels=LEVELS),
        bv.sobel(bv.rgb2gray(volume)).to(out / "edges.ome.zarr", levels=LEVELS),
    )


def ours(slide: Path, out: Path) -> dict[str, float]:
    import beam_volumes as bv
    from beam_volumes.storage.formats.tiff import reading as tiff_reading

    # Kernels are compiled before.
    warm = out / "warm.tif"
    tifffile.imwrite(warm, np.zeros((480, 480, 3), "u1"), tile=(240, 240), photometric="rgb")
    how: dict[str, Any] = {"runner": None, "progress": False, "memory": MEMORY, "overwrite": True}
    bv.compute(*targets(warm, out), **how)
    tiff_reading.decoded = 0
    began = time.perf_counter()
    plan = bv.plan(*targets(slide, out), memory=MEMORY)
    planned = time.perf_counter() - began
    began, cpu = time.perf_counter(), time.process_time()
    bv.compute(*targets(slide, out), **how)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    with tifffile.TiffFile(slide) as file:
        tiles = len(file.pages[0].dataoffsets)  # type: ignore[union-attr]
    return {
        "seconds": seconds,
        "cpu": cpu,
        "planned": planned,
        "predicted": plan.predicted_memory,
        "times": tiff_reading.decoded / tiles,
        "peak": peak(),
    }


def floor(slide: Path, out: Path) -> dict[str, float]:
    """Decode each tile once, and write results that are there already into stores like theirs."""
    from concurrent.futures import ThreadPoolExecutor

    import tensorstore as ts

    began, cpu = time.perf_counter(), time.process_time()
    with tifffile.TiffFile(slide) as file, ThreadPoolExecutor(2) as pool:
        page = file.pages[0]
        assert isinstance(page, tifffile.TiffPage)
        segments = file.filehandle.read_segments(page.dataoffsets, page.databytecounts)

        def decode(segment: Any) -> int:
            return len(page.decode(segment[0], segment[1], jpegtables=page.jpegtables)[0])  # type: ignore[misc]

        sum(pool.map(decode, segments))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    decoding = seconds
    context = ts.Context({"data_copy_concurrency": {"limit": 2}})
    for name in ("stains", "edges"):
        for level in range(LEVELS):
            place = {"driver": "file", "path": str(out / f"{name}.ome.zarr" / str(level))}
            store = ts.open({"driver": "zarr3", "kvstore": place}, context=context).result()
            voxels = store.read().result()
            copy = {"driver": "file", "path": str(out / "copy" / name / str(level))}
            spec = {"driver": "zarr3", "kvstore": copy}
            new = ts.open(spec, schema=store.schema, create=True, context=context).result()
            seconds, cpu = seconds - time.perf_counter(), cpu - time.process_time()
            new.write(voxels).result()
            seconds, cpu = seconds + time.perf_counter(), cpu + time.process_time()
            shutil.rmtree(copy["path"])  # the disk need not hold all of them
    return {"seconds": seconds, "cpu": cpu, "decoding": decoding}


def peers(slide: Path, out: Path) -> dict[str, float]:
    import zarr
    from skimage import color, filters, transform

    began, cpu = time.perf_counter(), time.process_time()
    image = tifffile.imread(slide)
    results = {"edges": filters.sobel(color.rgb2gray(image)).astype("f4")}
    results["stains"] = np.moveaxis(color.rgb2hed(image), -1, 0).astype("f4")
    for name, level in results.items():
        chunks = (1,) * (level.ndim - 2) + (512, 1024)
        for k in range(LEVELS):
            if k:
                level = transform.downscale_local_mean(level, (1,) * (level.ndim - 2) + (2, 2))
            place = str(out / "peers" / name / str(k))
            fitting = tuple(map(min, chunks, level.shape))
            array = zarr.create_array(place, shape=level.shape, chunks=fitting, dtype="f4")
            array[...] = level
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "peak": peak()}


def peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def equal(slide: Path, out: Path, height: int, width: int) -> str:
    """Compare each copy of the slide in the results with the whole image, computed in one piece."""
    import beam_volumes as bv

    image = tifffile.imread(slide, level=0)
    # The slide, and around it a pixel of its next copies.
    colours = np.moveaxis(np.pad(image[:height, :width], ((1, 1), (1, 1), (0, 0)), "wrap"), -1, 0)
    whole = bv.stack([bv.open(colour) for colour in colours.copy()])
    how: dict[str, Any] = {"runner": None, "progress": False, "slab": (1, height + 2, width + 2)}
    stains, edges = bv.compute(bv.rgb2hed(whole), bv.sobel(bv.rgb2gray(whole)), **how)
    stains, edges = stains[:, 1:-1, 1:-1], edges[1:-1, 1:-1]
    wrong = [0, 0]
    for k, (name, expected) in enumerate((("stains", stains), ("edges", edges))):
        found = bv.open(out / f"{name}.ome.zarr", level=0)
        for y in range(0, found.shape[-2], height):
            for x in range(0, found.shape[-1], width):
                part = np.asarray(found[..., y : y + height, x : x + width])
                differ = part != expected
                if name == "edges":  # at the edges of all there is no next copy
                    above, left = int(y == 0), int(x == 0)
                    below = height - (y + height == found.shape[0])
                    right = width - (x + width == found.shape[1])
                    differ = differ[above:below, left:right]
                wrong[k] += int(differ.sum())
    return f"pixels that differ from the whole image: stains {wrong[0]}, edges {wrong[1]}"


def tile_by_tile(slide: Path) -> None:
    """The share of pixels that are wrong by more than half a grey level if tiles see nothing around them."""
    from scipy import ndimage as ndi

    grey = tifffile.imread(slide)[:3000, :3000].astype("f4") @ [0.2125, 0.7154, 0.0721]
    filters = {
        "Sobel": lambda a: np.hypot(ndi.sobel(a, 0), ndi.sobel(a, 1)),
        "Gaussian, sigma 2": lambda a: ndi.gaussian_filter(a, 2),
        "median, size 5": lambda a: ndi.median_filter(a, 5),
    }
    for name, run in filters.items():
        whole, shares = run(grey), []
        for side in TILES:
            found = np.empty_like(whole)
            for y in range(0, len(grey), side):
                for x in range(0, grey.shape[1], side):
                    part = slice(y, y + side), slice(x, x + side)
                    found[part] = run(grey[part])
            shares.append(np.mean(np.abs(found - whole) > 0.5))
        text = ", ".join(f"{s:.2%} in tiles of {n}" for n, s in zip(TILES, shares, strict=True))
        print(f"tile by tile, {name}: {text}")


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        _, _, name, slide, out = sys.argv
        print(json.dumps(globals()[name](Path(slide), Path(out))))
        return
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
    folder = Path(tempfile.mkdtemp())
    try:
        original = Path(sys.argv[2]) if len(sys.argv) > 2 else made(folder / "made.tif")
        tile_by_tile(original)
        if not side:
            return
        slide = folder / "slide.tif"
        height, width = mosaic(original, side, slide)
        took: dict[str, dict[str, float]] = {}
        for name in ("ours", "floor", "peers"):
            command = [sys.executable, __file__, "--run", name, str(slide), str(folder)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            took[name] = json.loads(done.stdout)
        us, floor, them = took["ours"], took["floor"], took["peers"]
        print(
            f"ours: planned in {us['planned']:.2f} s, computed in {us['seconds']:.1f} s ({us['cpu']:.1f} of "
            f"processors), at most "
            f"{us['peak'] / 2**20:.0f} MiB ({us['predicted'] / 2**20:.0f} predicted); each tile decoded "
            f"{us['times']:.2f} times"
        )
        print(
            f"decode and write: {floor['seconds']:.1f} s ({floor['cpu']:.1f}), including decoding "
            f"{floor['decoding']:.1f}; ours takes {us['seconds'] / floor['seconds']:.2f} times as long "
            f"({us['cpu'] / floor['cpu']:.2f})"
        )
        print(
            f"tifffile, scikit-image, zarr: {them['seconds']:.1f} s ({them['cpu']:.1f}), "
            f"{them['seconds'] / us['seconds']:.1f} times ours ({them['cpu'] / us['cpu']:.1f}), "
            f"{them['peak'] / 2**20:.0f} MiB"
        )
        print(equal(slide, folder, height, width))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
