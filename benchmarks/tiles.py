"""Registration and fusion of tiles, compared with multiview-stitcher: accuracy, seconds, peak memory.

    python benchmarks/tiles.py [--large] [--python=PYTHON with multiview-stitcher]

2 x 3 x 4 tiles of 64 x 256 x 256 voxels, or 2 x 2 x 2 of 256 x 704 x 704 (2 GB), with 16 bits and 10 %
overlap, are cut from one volume at known fractional positions, with noise and gains. Each program runs in its
own process, from OME-Zarr tiles to a fused OME-Zarr: twice, and the second run counts, since the first
compiles; the large tiles once. multiview-stitcher compares binned overlaps of neighbours along an axis, which
its documentation suggests for grids; without binning, each pair takes it minutes. The error is the largest
distance of a tile from its true position along an axis, after the median error of all tiles is subtracted.
The memory is the proportional set size of the process and those that it starts.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LARGE = "--large" in sys.argv
SIZE = np.array([256, 704, 704] if LARGE else [64, 256, 256])
GRID = (2, 2, 2) if LARGE else (2, 3, 4)
#: Voxels that multiview-stitcher averages along each axis, and the longest time that it gets.
BINNING, SECONDS = (4 if LARGE else 2), 420
CHUNK = 128 if LARGE else 64


def make(folder: Path) -> None:
    from scipy import ndimage as ndi

    import beam_volumes as bv

    rng = np.random.default_rng(0)
    # Two textures that repeat; their sum does not within the tiles.
    textures = [
        ndi.gaussian_filter(rng.standard_normal(shape, "f4"), 1.5, mode="wrap")
        for shape in ((160, 352, 352), (149, 331, 331))
    ]
    step = (0.9 * SIZE).astype(int)
    true, stage = [], []
    for k, index in enumerate(itertools.product(*map(range, GRID))):
        nominal = step * index + 4
        place = nominal + rng.uniform(-3, 3, 3)
        tile = sum(cut(texture, place) for texture in textures)
        tile = rng.uniform(0.9, 1.1) * (2000 + 400 * tile / tile.std())
        tile += 60 * rng.standard_normal(SIZE, "f4")
        tile = bv.open(
            tile.clip(0, 65535).astype("u2"), voxel_size=1, unit="um", origin=list(nominal)
        )
        bv.compute(tile.to(folder / f"{k}.ome.zarr", chunks=CHUNK, ome_version="0.4"), runner=None)
        true.append(place.tolist())
        stage.append(nominal.tolist())
    (folder / "places.json").write_text(json.dumps({"true": true, "stage": stage}))


def cut(texture: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the voxels of a tile, interpolated linearly axis by axis."""
    for axis, (at, n) in enumerate(zip(place, SIZE, strict=True)):
        first = int(np.floor(at))
        near, far = (texture.take(range(k, k + n), axis, mode="wrap") for k in (first, first + 1))
        texture = near + np.float32(at - first) * (far - near)
    return texture


def ours(folder: Path) -> tuple[np.ndarray, float]:
    import beam_volumes as bv

    tiles, stage = bv.open_tiles([folder / f"{k}.ome.zarr" for k in range(np.prod(GRID))])
    positions, _ = bv.register_tiles(tiles, stage, max_shift=8)
    registered = time.perf_counter()
    volume = bv.fuse(tiles, positions)
    target = volume.to(folder / "ours.ome.zarr", chunks=CHUNK)
    bv.compute(target, progress=False, overwrite=True, memory="1GiB", runner=None)
    return np.stack([positions[a] for a in "zyx"], axis=1), registered


def theirs(folder: Path) -> tuple[np.ndarray, float]:
    import dask.array as da
    import zarr
    from multiview_stitcher import fusion, msi_utils, registration
    from multiview_stitcher import spatial_image_utils as si_utils

    stage = json.loads((folder / "places.json").read_text())["stage"]
    msims = []
    for k, place in enumerate(stage):
        array = da.from_zarr(zarr.open(folder / f"{k}.ome.zarr", mode="r")["0"])
        sim = si_utils.get_sim_from_array(
            array,
            dims=["z", "y", "x"],
            scale=dict.fromkeys("zyx", 1.0),
            translation=dict(zip("zyx", place, strict=True)),
            transform_key="stage",
        )
        msims.append(msi_utils.get_msim_from_sim(sim, scale_factors=[]))
    registration.register(
        msims, transform_key="stage", new_transform_key="found", reg_channel_index=0,
        registration_binning=dict.fromkeys("zyx", BINNING),
        pre_registration_pruning_method="keep_axis_aligned",
    )  # fmt: skip
    registered = time.perf_counter()
    sims = [msi_utils.get_sim_from_msim(msim) for msim in msims]
    places = [
        np.asarray(si_utils.get_affine_from_sim(sim, "found")).squeeze()[:3, 3] + place
        for sim, place in zip(sims, stage, strict=True)
    ]
    report(folder, np.array(places), "register", registered)
    fusion.fuse(
        sims, transform_key="found", output_chunksize=CHUNK, output_zarr_url=str(folder / "theirs.zarr"),
        zarr_options={"overwrite": True},
    )  # fmt: skip
    return np.array(places), registered


def report(folder: Path, found: np.ndarray, what: str, ended: float) -> None:
    """Print the time of a part, and the error of the positions."""
    error = found - json.loads((folder / "places.json").read_text())["true"]
    error = abs(error - np.median(error, axis=0)).max()
    print(f"{what} {ended - BEGUN:.1f} s, error {error:.3f} voxels", flush=True)


def measured(program: str, command: list[str]) -> None:
    """Run a program; print its output, seconds of processors, and the peak memory of its processes."""
    import psutil

    before, peak = resource.getrusage(resource.RUSAGE_CHILDREN), 0
    process = psutil.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    begun = time.perf_counter()
    while process.poll() is None:
        try:
            every = [process, *process.children(recursive=True)]
            peak = max(peak, sum(p.memory_full_info().pss for p in every))
        except psutil.Error:
            pass  # one has ended meanwhile
        if time.perf_counter() - begun > SECONDS:
            for one in [*process.children(recursive=True), process]:
                one.kill()
            print(f"{program}: not finished after {SECONDS} s")
        time.sleep(0.2)
    whole, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    found = "; ".join(process.stdout.read().splitlines())
    print(
        f"{program:8} {found}; whole {whole:.1f} s, processors {seconds:.1f} s, peak {peak >> 20} MiB",
        flush=True,
    )


def main() -> None:
    global BEGUN
    given = [a for a in sys.argv[1:] if not a.startswith("--")]
    if given:
        program, folder = given[0], Path(given[1])
        BEGUN = time.perf_counter()
        found, registered = {"ours": ours, "theirs": theirs}[program](folder)
        report(folder, found, "register", registered)
        return
    pythons = {"ours": sys.executable}
    for argument in sys.argv:
        if argument.startswith("--python="):
            pythons["theirs"] = argument.partition("=")[2]
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for program, python in pythons.items():
            for _ in range(1 if LARGE else 2):
                flags = ["--large"] * LARGE
                measured(program, [python, __file__, program, folder, *flags])


if __name__ == "__main__":
    main()
