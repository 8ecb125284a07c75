"""Agglomeration of generated boundaries: time, boundaries per second, and memory, by the tree of ranges.

``python benchmarks/segment.py [boundaries]`` prints a line for regions in a cube, numbered in raster order,
computed range by range and stored on disk in between, as in a run. Another line is for as many in a long
stack of layers of 32 x 32 regions, and others for higra and waterz in memory, if they are installed. Up to
a million, there is also a line for boundaries between any two regions, which all meet at the root. No
voxels are generated, except for waterz, where a region is a voxel. Each line has its own process, with
compiled kernels.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import psutil

from beam_volumes.across.rounds import agglomeration as agglomeration_rounds
from beam_volumes.across.rounds import flow as rounds
from beam_volumes.across.rounds.agglomeration import Agglomeration
from beam_volumes.session.local import Spill

Edges = dict[str, np.ndarray]
THRESHOLD = 180.0
SHARD = 1 << 16
LAYER = 32  # regions along a side of a layer of the long stack


def side_of(count: int) -> int:
    """Of the cube of regions that has about so many boundaries."""
    return max(2, round((count / 3) ** (1 / 3)))


def layers_of(count: int) -> int:
    """Of the long stack of regions that has about so many boundaries."""
    return max(2, round(count / (3 * LAYER**2)))


def grid(layers: int, side: int) -> Iterator[Edges]:
    """The boundaries of regions that fill a box of square layers, some of them at a time."""
    random = np.random.default_rng(0)
    step, regions = SHARD // 3, layers * side**2
    for first in range(0, regions, step):
        index = np.arange(first, min(first + step, regions), dtype=np.int64)
        z, y, x = index // side**2, index // side % side, index % side
        pairs = [
            (index[at > 0], index[at > 0] - back) for at, back in ((z, side**2), (y, side), (x, 1))
        ]
        b, a = (
            np.concatenate([p[k] for p in pairs]).astype(np.uint64) + np.uint64(1) for k in (0, 1)
        )
        yield with_affinities(a, b, random)


def anywhere(count: int) -> Iterator[Edges]:
    """Boundaries between any two of a third as many regions."""
    random = np.random.default_rng(0)
    for first in range(0, count, SHARD):
        own = min(SHARD, count - first)
        a, b = random.integers(1, count // 3 + 2, (2, own)).astype(np.uint64)
        yield with_affinities(a, b, random)


def with_affinities(a: np.ndarray, b: np.ndarray, random: np.random.Generator) -> Edges:
    faces = random.integers(1, 200, len(a))
    sums = faces * random.integers(0, 256, len(a))
    return {"label_a": a, "label_b": b, "affinity_sum": sums, "affinity_count": faces}


class Peak:
    """The peak memory inside the block, beyond the memory before it; only on Linux."""

    def __enter__(self) -> Peak:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        self.before = psutil.Process().memory_info().rss
        return self

    def __exit__(self, *_: object) -> None:
        with open("/proc/self/status") as file:
            line = next(text for text in file if text.startswith("VmHWM"))
        self.bytes = int(line.split()[1]) * 1024 - self.before


def line_of(name: str, count: int, seconds: float, bytes_: int) -> str:
    return (
        f"{name:<10}{count:>12,} boundaries: {seconds:,.1f} s of one core, {count / seconds:,.0f} a second, "
        f"{bytes_ / 2**20:,.0f} MiB"
    )


def ours(name: str, make: Callable[..., Iterator[Edges]], *sizes: int) -> None:
    merge(grid(3, 3))  # compiles
    count, merges, largest, seconds, peak = merge(make(*sizes))
    print(line_of(name, count, seconds, peak), end="")
    print(f"; {merges:,} merges; the largest step takes in {largest:,}", flush=True)


def merge(parts: Iterator[Edges]) -> tuple[int, int, int, float, int]:
    """By the tree; what waits for a round is on disk.

    The boundaries, the merges, the boundaries of the largest step, seconds, and bytes.
    """
    largest, check = 0, agglomeration_rounds.check_room

    def noted(count: int, *rest: object) -> None:
        nonlocal largest
        largest = max(largest, count)

    flow = Agglomeration("agglomerate", "mean", 0.5, THRESHOLD, None, False).flow()
    agglomeration_rounds.check_room = noted  # type: ignore[assignment]
    count = 0
    shards = Spill()
    for k, part in enumerate(parts):
        count += len(part["label_a"])
        shards.put((k,), part)
    with Peak() as peak:
        began = time.process_time()
        found = rounds.run(flow, shards, make=Spill)["rows"]
        seconds = time.process_time() - began
    merges = sum(len(found.load(columns)["label_a"]) for _, columns in found)
    agglomeration_rounds.check_room = check
    return count, merges, largest, seconds, peak.bytes


def in_higra(side: int) -> None:
    """The whole tree, down to one region."""
    try:
        import higra
    except ImportError:
        print("higra is not installed")
        return
    parts = list(grid(side, side))
    edges = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    a, b = (edges[name].astype(np.int64) - 1 for name in ("label_a", "label_b"))
    faces = edges["affinity_count"].astype(np.float64)
    mean = edges["affinity_sum"] / faces
    with Peak() as peak:
        began = time.process_time()
        graph = higra.UndirectedGraph(side**3)
        graph.add_edges(a, b)
        higra.binary_partition_tree_average_linkage(graph, -mean, faces)
        seconds = time.process_time() - began
    print(line_of("higra", len(a), seconds, peak.bytes), flush=True)


def in_waterz(side: int) -> None:
    """Down to the threshold; a region is a voxel, and each boundary has one face."""
    try:
        import waterz
    except ImportError:
        print("waterz is not installed")
        return
    affinities = np.random.default_rng(0).random((3, *(side,) * 3), np.float32)
    regions = np.arange(1, side**3 + 1, dtype=np.uint64).reshape((side,) * 3)
    with Peak() as peak:
        began = time.process_time()
        scores = "OneMinus<MeanAffinity<RegionGraphType, ScoreValue>>"
        found = waterz.agglomerate(
            affinities, [1 - THRESHOLD / 255], fragments=regions, scoring_function=scores
        )
        next(iter(found))
        seconds = time.process_time() - began
    print(line_of("waterz", 3 * side**2 * (side - 1), seconds, peak.bytes), flush=True)


def in_own_process(line: Callable[..., None], *arguments: object) -> None:
    """In a process of its own: memory that another line has left would hide what this one takes."""
    process = multiprocessing.get_context("spawn").Process(target=line, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(process.exitcode)


def main() -> None:
    count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 300_000
    side = side_of(count)
    in_own_process(ours, "cube", grid, side, side)
    in_own_process(ours, "stack", grid, layers_of(count), LAYER)
    if count <= 1_000_000:
        in_own_process(ours, "anywhere", anywhere, count)
    if count <= 10_000_000:
        in_own_process(in_higra, side)
        in_own_process(in_waterz, side)


if __name__ == "__main__":
    main()
