"""Agglomeration of generated boundaries: time, boundaries a second, and memory, by the tree of ranges.

``python benchmarks/segment.py [boundaries]`` prints a line for regions in a grid, numbered in raster order,
and one for boundaries between any two regions, which all meet at the root. No voxels are made.
"""

from __future__ import annotations

import sys
import time
import tracemalloc

import numpy as np

from beam_volumes.across import rounds
from beam_volumes.across.agglomeration_rounds import Agglomeration


def grid(count: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """The boundaries of regions that fill a cube, about so many."""
    side = max(2, round((count / 3) ** (1 / 3)))
    index = np.arange(1, side**3 + 1, dtype=np.uint64).reshape((side,) * 3)
    pairs = [
        (index[:-1], index[1:]),
        (index[:, :-1], index[:, 1:]),
        (index[..., :-1], index[..., 1:]),
    ]
    a, b = (np.concatenate([p[k].ravel() for p in pairs]) for k in (0, 1))
    return with_affinities(a, b, random)


def anywhere(count: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Boundaries between any two of a third as many regions."""
    a, b = random.integers(1, count // 3 + 2, (2, count)).astype(np.uint64)
    return with_affinities(a, b, random)


def with_affinities(
    a: np.ndarray, b: np.ndarray, random: np.random.Generator
) -> dict[str, np.ndarray]:
    faces = random.integers(1, 200, len(a))
    sums = faces * random.integers(0, 256, len(a))
    return {"label_a": a, "label_b": b, "affinity_sum": sums, "affinity_count": faces}


def measured(edges: dict[str, np.ndarray], threshold: float = 180.0) -> str:
    """How long it takes, and the most that a step allocates for a boundary that it takes in."""
    count = len(edges["label_a"])
    flow = Agglomeration("agglomerate", "mean", 0.5, threshold, None, False).flow()
    shards = [
        ((k,), {name: column[at : at + (1 << 16)] for name, column in edges.items()})
        for k, at in enumerate(range(0, count, 1 << 16))
    ]
    began = time.perf_counter()
    found = rounds.run(flow, shards)["rows"]
    seconds = time.perf_counter() - began
    merges = sum(len(columns["label_a"]) for _, columns in found)
    tracemalloc.start()
    rounds.run(
        Agglomeration("agglomerate", "mean", 0.5, threshold, None, False, leaf=1 << 30).flow(),
        shards[:1],
    )
    peak = tracemalloc.get_traced_memory()[1] / len(shards[0][1]["label_a"])
    tracemalloc.stop()
    return (
        f"{count:>11,} boundaries, {merges:,} merges: {seconds:.1f} s, {count / seconds:,.0f} a second; in "
        f"one step {peak:,.0f} bytes each"
    )


def main() -> None:
    count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 300_000
    random = np.random.default_rng(0)
    print("grid    ", measured(grid(count, random)))
    print("anywhere", measured(anywhere(count, random)))


if __name__ == "__main__":
    main()
