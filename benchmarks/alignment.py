"""The positions of tiles from links between them, with wrong links: seconds, memory and errors of the solver.

    python benchmarks/alignment.py [TILES ...] [--wrong=PERCENT ...] [--blocks]

Tiles form a plane, or with --blocks a cube. Stages have an error of up to 8 voxels along each axis, links of
neighbours a deviation of 0.1. Wrong links are anywhere within max_shift=20 of the stage, and as significant
as right ones. One tile in 200 has no links, and a row without links divides the plane into two parts. Errors
of confirmed tiles are relative to the mean of the part that links connect. Parts are worse than the
stage if their sum of squared errors is larger. The memory is the increase of the peak of the process.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import numpy as np

MAX_SHIFT, STAGE, NOISE, STEP = 20.0, 8.0, 0.1, 100.0


def measure(tiles: int, percent: float, ndim: int) -> None:
    from beam_volumes.ops.geometry.registration.images import Link
    from beam_volumes.ops.geometry.registration.links import connected, placed

    rng = np.random.default_rng(0)
    side = round(tiles ** (1 / ndim))
    index = np.stack(np.unravel_index(np.arange(side**ndim), (side,) * ndim), axis=1)
    true = STEP * index + rng.uniform(-STAGE, STAGE, index.shape)
    stage = STEP * index.astype(float)
    numbers = np.arange(len(index)).reshape((side,) * ndim)
    lonely = rng.random(len(index)) < 0.005
    links = {}
    for axis in range(ndim):
        near, far = (numbers.take(range(k, side - 1 + k), axis).ravel().tolist() for k in (0, 1))
        for i, j in zip(near, far, strict=True):
            if lonely[i] or lonely[j] or (axis == 0 and index[j, 0] == side // 2):
                continue
            if rng.random() < percent / 100:
                shift = stage[j] - stage[i] + rng.uniform(-MAX_SHIFT, MAX_SHIFT, ndim)
            else:
                shift = true[j] - true[i] + rng.normal(0, NOISE, ndim)
            voxels, quality = rng.uniform(1e4, 1e5), rng.uniform(0.6, 0.95)
            links[i, j] = Link(
                np.eye(ndim), -shift, quality, voxels, rng.uniform(20, 60), 1.0, np.zeros((ndim, 1))
            )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    found = placed(
        links, stage, list(links), model="translation", reference=None, max_residual=1.0,
        spacing=np.ones(ndim),
    )  # fmt: skip
    seconds = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    groups = connected(found.used, len(index))
    error, own = (each - true for each in (found.places, stage))
    means = np.stack([np.bincount(groups, e) / np.bincount(groups) for e in error.T], axis=1)
    within = np.linalg.norm(error - means[groups], axis=1)[found.confirmed_images]
    worse = np.bincount(groups, (error**2 - own**2).sum(axis=1)) > 1e-6
    largest = np.bincount(groups).max()
    print(
        f"| {len(index):,} | {ndim} | {percent:g} % | {len(found.used):,} of {len(links):,} | "
        f"{len(within):,} | {largest:,} | {np.median(within):.2f} | {(within > 2).sum()} | "
        f"{worse[groups].sum()} | {seconds:.1f} | {memory >> 10} |",
        flush=True,
    )


def main() -> None:
    tiles = [int(a) for a in sys.argv[1:] if not a.startswith("--")] or [2_500, 10_000, 100_000]
    percents = [float(a[8:]) for a in sys.argv[1:] if a.startswith("--wrong=")] or [0, 5, 20]
    ndim = 3 if "--blocks" in sys.argv else 2
    if "BEAM_VOLUMES_ONE" in os.environ:
        measure(tiles[0], percents[0], ndim)
        return
    print("| Tiles | Axes | Wrong | Used links | Confirmed tiles | Largest part | Median error | "
          "Errors above 2 | Tiles in worse parts | Processor, s | MiB |")  # fmt: skip
    print("| ---: " * 11 + "|", flush=True)
    for count in tiles:
        for percent in percents:
            command = [sys.executable, __file__, str(count), f"--wrong={percent}"]
            command += ["--blocks"] * (ndim == 3)
            subprocess.run(command, env=os.environ | {"BEAM_VOLUMES_ONE": "1"}, check=True)


if __name__ == "__main__":
    main()
