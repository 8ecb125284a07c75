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
    warm = {name: column[:1000] for name, column in edges.items()}
    rounds.run(
        Agglomeration("agglomerate", "mean", 0.5, threshold, None, False).flow(), [((0,), warm)]
    )
    flow = Agglomeration("agglomerate", "mean", 0.5, threshold, None, False).flow()
    shards = [
        ((k,), {name: column[at : at + (1 << 16)] for name, column in edges.items()})
        for k, at in enumerate(range(0, count, 1 << 16))
    ]
    began = time.process_time()
    found = rounds.run(flow, shards)["rows"]
    seconds = time.process_time() - began
    merges = sum(len(columns["label_a"]) for _, columns in found)
    tracemalloc.start()
    rounds.run(
        Agglomeration("agglomerate", "mean", 0.5, threshold, None, False, leaf=1 << 30).flow(),
        shards[:1],
    )
    peak = tracemalloc.get_traced_memory()[1] / len(shards[0][1]["label_a"])
    tracemalloc.stop()
    return (
        f"{count:>11,} boundaries, {merges:,} merges: {seconds:.1f} s of one core, "
        f"{count / seconds:,.0f} a second; in one step {peak:,.0f} bytes each"
    )


def in_higra(edges: dict[str, np.ndarray]) -> str:
    """The whole tree, by higra in memory, of boundaries that are there once and connect all regions."""
    try:
        import higra
    except ImportError:
        return "is not installed"
    a, b = (edges[name].astype(np.int64) - 1 for name in ("label_a", "label_b"))
    used = a != b
    pairs = np.unique(
        np.stack([np.minimum(a, b), np.maximum(a, b)])[:, used], axis=1, return_index=True
    )
    graph = higra.UndirectedGraph(int(b.max()) + 1)
    graph.add_edges(*(np.ascontiguousarray(p) for p in pairs[0]))
    faces = edges["affinity_count"][used][pairs[1]].astype(np.float64)
    mean = edges["affinity_sum"][used][pairs[1]] / faces
    began = time.process_time()
    higra.binary_partition_tree_average_linkage(graph, -mean, faces)
    seconds = time.process_time() - began
    return f"{len(mean):>11,} boundaries: {seconds:.1f} s of one core, {len(mean) / seconds:,.0f} a second"


def main() -> None:
    count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 300_000
    random = np.random.default_rng(0)
    for name, make in (("grid    ", grid), ("anywhere", anywhere)):
        edges = make(count, random)
        print(name, measured(edges), flush=True)
        if make is grid:
            print(name, "higra, down to one region:", in_higra(edges))


if __name__ == "__main__":
    main()
