"""Registration and fusion of tiles, compared with multiview-stitcher: accuracy, seconds, peak memory.

    python benchmarks/tiles.py [python with multiview-stitcher]

2 x 3 x 4 tiles of 16 bits with 10 % overlap are cut from one volume at known fractional positions, with
noise and gains. Each program runs in its own process, from OME-Zarr tiles to a fused OME-Zarr, twice; the
second run counts, since the first compiles. The error is the largest distance of a tile from its true
position along an axis, after the median error of all tiles is subtracted.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIZE, GRID = np.array([64, 256, 256]), (2, 3, 4)


def make(folder: Path) -> None:
    from scipy import ndimage as ndi

    import beam_volumes as bv

    rng = np.random.default_rng(0)
    step = (0.9 * SIZE).astype(int)
    whole = step * (np.array(GRID) - 1) + SIZE + 8
    world = ndi.gaussian_filter(rng.normal(size=whole).astype("f4"), 1.5)
    world = 2000 + 400 * world / world.std()
    true, stage = [], []
    for k, index in enumerate(itertools.product(*map(range, GRID))):
        nominal = step * index + 4
        place = nominal + rng.uniform(-3, 3, 3)
        first = np.floor(place).astype(int)
        part = world[tuple(slice(a, a + n + 1) for a, n in zip(first, SIZE, strict=True))]
        tile = ndi.shift(part, first - place, order=3)[:-1, :-1, :-1]
        tile = rng.uniform(0.9, 1.1) * tile + rng.normal(0, 60, SIZE)
        tile = bv.open(
            tile.clip(0, 65535).astype("u2"), voxel_size=1, unit="um", origin=list(nominal)
        )
        bv.compute(tile.to(folder / f"{k}.ome.zarr", chunks=64, ome_version="0.4"), runner=None)
        true.append(place.tolist())
        stage.append(nominal.tolist())
    (folder / "places.json").write_text(json.dumps({"true": true, "stage": stage}))


def ours(folder: Path) -> tuple[np.ndarray, float]:
    import beam_volumes as bv

    tiles, stage = bv.open_tiles([folder / f"{k}.ome.zarr" for k in range(np.prod(GRID))])
    positions, _ = bv.register_tiles(tiles, stage, max_shift=8)
    registered = time.perf_counter()
    volume = bv.fuse(tiles, positions)
    bv.compute(volume.to(folder / "ours.ome.zarr", chunks=64), progress=False, overwrite=True)
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
        registration_binning={"z": 1, "y": 1, "x": 1},
    )  # fmt: skip
    registered = time.perf_counter()
    sims = [msi_utils.get_sim_from_msim(msim) for msim in msims]
    places = [
        np.asarray(si_utils.get_affine_from_sim(sim, "found")).squeeze()[:3, 3] + place
        for sim, place in zip(sims, stage, strict=True)
    ]
    fusion.fuse(
        sims, transform_key="found", output_chunksize=64, output_zarr_url=str(folder / "theirs.zarr"),
        zarr_options={"overwrite": True},
    )  # fmt: skip
    return np.array(places), registered


def measured(program: str, folder: Path) -> None:
    """Print seconds by the clock and of processors, peak memory and the error of one program."""
    begun = time.perf_counter()
    found, registered = {"ours": ours, "theirs": theirs}[program](folder)
    ended = time.perf_counter()
    usage = os.times()
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    error = found - json.loads((folder / "places.json").read_text())["true"]
    error = abs(error - np.median(error, axis=0)).max()
    print(
        f"{program:8} register {registered - begun:6.1f} s, fuse {ended - registered:6.1f} s, processors "
        f"{usage.user + usage.system:6.1f} s, peak {peak:6.0f} MiB, error {error:.3f} voxels"
    )


def main() -> None:
    if len(sys.argv) == 3 and Path(sys.argv[2]).is_dir():
        measured(sys.argv[1], Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        pythons = {
            "ours": sys.executable,
            **dict.fromkeys(["theirs"][: len(sys.argv) - 1], sys.argv[-1]),
        }
        for program, python in pythons.items():
            for _ in range(2):
                subprocess.run([python, __file__, program, folder], check=True)


if __name__ == "__main__":
    main()
