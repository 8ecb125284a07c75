"""Errors of elastic alignment in deformed and damaged sections, compared with an affine alignment alone.

    python benchmarks/elastic.py [FIRST STOP]

Each number from FIRST to STOP, by default from 100 to 124, is the seed of a case: six sections with sides of
135 to 208 pixels, a depth over which the tissue changes, noise, and damage: tears, folds, both, or a missing
section and a section without a corner. Fields are sums of four waves of 0.9 to 1.6 times a wavelength of 60
to 200 pixels, with a maximum of 2 to 6 pixels and slopes of at most 0.35. `nodata` is not given. Nodes are
a quarter of the wavelength apart, and at most 32 pixels.

The error of a voxel is the distance of the tissue there from the median of all slices, in pixels. Damaged
voxels, and voxels outside of a slice, do not count. "inside" is more than 20 pixels from the borders of a
plane, and more than 15 pixels from damage.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.ops.geometry.displacements import Grid

COUNT, MARGIN = 6, 30
DAMAGE = ("both", "tears", "missing", "folds", "both")


def at(field: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.stack([ndi.map_coordinates(f, places, order=1, mode="nearest") for f in field])


def tissue_at(field: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return where the tissue was before it moved by a field."""
    before = places.copy()
    for _ in range(25):
        before = places - at(field, before)
    return before


def waves(rng: np.random.Generator, grid: np.ndarray, length: float, most: float) -> np.ndarray:
    """Return the displacements of a section: waves, and a shift."""
    field = np.zeros_like(grid)
    for axis in range(2):
        for _ in range(4):
            turn, scale, phase = rng.uniform(0, 2 * np.pi), rng.uniform(0.9, 1.6), rng.uniform()
            along = np.cos(turn) * grid[0] + np.sin(turn) * grid[1]
            field[axis] += np.sin(2 * np.pi * (along / (length * scale) + phase))
    field *= most / np.linalg.norm(field, axis=0).max()
    return field + rng.normal(0, 2, (2, 1, 1))


def sections(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(1000 + seed)
    if seed % 3:
        rng.choice(3)  # leaves the cases as they were measured first
    side = int(rng.choice([192, 208]))
    shape = side, int(side * rng.uniform(0.7, 1))
    shape = shape if rng.random() < 0.5 else shape[::-1]
    most, length = rng.uniform(2, 6), rng.uniform(60, 200)
    while 2 * np.pi * most / length > 0.35:
        length, most = rng.uniform(60, 200), rng.uniform(2, 6)
    grid = np.mgrid[: shape[0], : shape[1]].astype(float)
    moved = np.stack([waves(rng, grid, length, most) for _ in range(COUNT)])
    depth, noise = float(rng.choice([2, 3, 5])), int(rng.choice([2, 4, 12]))
    world = rng.normal(size=(COUNT, *(n + 2 * MARGIN for n in shape)))
    world = ndi.gaussian_filter(world, (depth, 2, 2))
    world = 128 + 30 * world / world.std()
    planes = [
        ndi.map_coordinates(plane, tissue_at(field, grid) + MARGIN, order=3)
        for plane, field in zip(world, moved, strict=True)
    ]
    stack = np.stack(planes) + rng.normal(0, noise, (COUNT, *shape))
    stack = np.clip(stack, 1, 255).astype("u1")
    intact, near = np.ones(stack.shape, bool), np.zeros(stack.shape, bool)

    def damage(z: int, width: float, distance: np.ndarray, value: int) -> None:
        stack[z][distance < width], intact[z][distance < width] = value, False
        near[z] |= distance < width + 15

    def line() -> np.ndarray:
        turn, middle = rng.uniform(0, np.pi), np.array(shape) * rng.uniform(0.25, 0.75, 2)
        return abs((grid[0] - middle[0]) * np.cos(turn) + (grid[1] - middle[1]) * np.sin(turn))

    kind, order = DAMAGE[seed % len(DAMAGE)], rng.permutation(COUNT)
    if kind in ("tears", "both"):
        damage(order[0], rng.uniform(3, 8), line(), 0)
    if kind in ("folds", "both"):
        damage(order[2], rng.uniform(3, 6), line(), 20)
    if kind == "missing":
        damage(order[0], 1, np.zeros(shape), 0)
        damage(order[1], 0, 150 * (grid[0] / shape[0] + grid[1] / shape[1] - 0.35), 0)
    name = f"{kind}, {most:.1f} px of {length:.0f} px, depth {depth:g}, noise {noise}"
    return {
        "name": name,
        "stack": stack,
        "moved": moved,
        "intact": intact,
        "near": near,
        "length": length,
    }


def errors(
    case: dict[str, Any], table: Any, displacements: Any = None
) -> tuple[float, float, float]:
    """Return the root mean square of errors, the one inside, and the 99th percentile."""
    moved, step = case["moved"], 2
    shape = np.array(moved.shape[2:])
    places = np.mgrid[: shape[0], : shape[1]].astype(float)[:, ::step, ::step]
    grid = None if displacements is None else Grid.of_table(displacements, COUNT, "benchmark")
    found = []
    for z, field in enumerate(moved):
        matrix = np.array([[table[f"m_{a}{b}"][z].as_py() for b in "yx"] for a in "yx"])
        offset = np.array([table[a][z].as_py() for a in "yx"])
        here = (places if grid is None else places + grid.at(z, places)) - offset[:, None, None]
        source = np.einsum("ab,byx->ayx", np.linalg.inv(matrix), here)
        outside = ((source < 0) | (source > shape[:, None, None] - 1)).any(axis=0)
        is_out = outside | ~case["intact"][z, ::step, ::step]
        found.append(np.where(is_out, np.nan, tissue_at(field, source)))
    distance = np.linalg.norm(np.stack(found) - np.nanmedian(found, axis=0), axis=1)
    edge = 20 // step
    inside = ~case["near"][:, ::step, ::step]
    inside[:, :edge] = inside[:, -edge:] = inside[:, :, :edge] = inside[:, :, -edge:] = False
    known = np.isfinite(distance)
    every, inner = distance[known], distance[known & inside]
    return (
        float(np.sqrt((every**2).mean())),
        float(np.sqrt((inner**2).mean())),
        float(np.percentile(every, 99)),
    )


def main(first: int = 100, stop: int = 124) -> None:
    warnings.simplefilter("ignore")
    print("| Case | Affine | Inside | 99 % | Elastic | Inside | 99 % | Processor, s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for seed in range(first, stop):
        case = sections(seed)
        table = bv.register_slices(case["stack"], model="affine", progress=False).to_pyarrow()
        how: dict[str, float] = {}
        if case["length"] < 128:
            how = dict.fromkeys(("spacing", "max_displacement"), case["length"] / 4)
        begun = time.process_time()
        found = bv.register_elastic(case["stack"], table, trend="keep", progress=False, **how)
        seconds = time.process_time() - begun
        before, after = errors(case, table), errors(case, table, found)
        columns = " | ".join(f"{e:.2f}" for e in (*before, *after))
        print(f"| {seed}: {case['name']} | {columns} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
