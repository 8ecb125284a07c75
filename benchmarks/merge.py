"""The merge of components over slabs without voxels: how it grows with the number of slabs.

Run ``python benchmarks/merge.py``; ``--quick`` uses fewer slabs and ``--full`` more. Slabs are generated
from their positions, with 2-D components in every plane that two slabs share. Some of them continue through
the slab, some meet in it and others end there; as many more touch no plane. They go through the rounds of a
pipeline in this process, one round after the other. Every message goes through a file, like the shuffled
data of a runner.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from beam_volumes.across.components import Interface, InterfaceKey, SlabSummary
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.across.rounds.flow import Key
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.ops.labels.surveys.merge_estimate import expected_load
from beam_volumes.transforms.rounds import pieces, whole

#: Of the 2-D components of a plane: that go on to another plane of the slab, and that join another one.
THROUGH, JOINED = 0.6, 0.1
#: Voxels along each axis of a slab.
SIDE = 128


def faces(grid: Grid, cell: Triple) -> list[InterfaceKey]:
    """The planes that a slab shares with its neighbours."""
    found: list[InterfaceKey] = []
    for axis in range(3):
        above = tuple(c + (a == axis) for a, c in enumerate(cell))
        if cell[axis] > 0:
            found.append((axis, *cell))
        if above[axis] < grid.counts[axis]:
            found.append((axis, *above))
    return found


def made_up(grid: Grid, index: int, components: int) -> SlabSummary:
    """A slab's summary; neighbours agree on the number of components of the plane that they share."""
    cell = grid.cell(index)
    rng = np.random.default_rng((7, *cell))
    keys = faces(grid, cell)
    counts = [int(np.random.default_rng((3, *k)).poisson(components)) for k in keys]
    # Of each 2-D component the one of the slab; first all are different.
    total, inner = sum(counts), components
    of = np.arange(total)
    through = np.flatnonzero(rng.random(total) < THROUGH)
    rng.shuffle(through)
    half = len(through) // 2
    of[through[half : 2 * half]] = of[through[:half]]
    joined = np.flatnonzero(rng.random(total) < JOINED)
    of[joined] = of[rng.integers(0, total, len(joined))] if total else of[joined]
    _, of = np.unique(of, return_inverse=True)
    n = int(of.max(initial=-1)) + 1 + inner
    core = grid.box(index)
    local = np.sort(rng.choice(core.size, n, replace=False))
    z, y, x = np.unravel_index(local, core.shape)
    z0, y0, x0 = core.start
    _, ny, nx = grid.shape
    ids = (((z + z0).astype(np.uint64) * ny + (y + y0)) * nx + (x + x0)).astype(np.uint64)
    place = rng.permutation(n)  # which of the ids are of components that touch a plane
    parts = np.split(place[of].astype(np.int32), np.cumsum(counts)[:-1]) if keys else []
    interfaces = {k: Interface(part, 0) for k, part in zip(keys, parts, strict=True)}
    return SlabSummary(cell, ids, {}, interfaces, (np.arange(n, dtype=np.int32),), (0,))


class Spool:
    """Boxes of messages, by round and key; their bytes are in a file."""

    def __init__(self, file: BinaryIO):
        self.file = file
        self.end = 0
        self.boxes: dict[str, dict[Key, list[tuple[int, int]]]] = defaultdict(dict)

    def put(self, address: str, key: Key, value: Any) -> int:
        size = 0
        for piece in pieces(value):
            self.file.write(piece)
            self.boxes[address].setdefault(key, []).append((self.end, len(piece)))
            self.end += len(piece)
            size += len(piece)
        return size

    def take(self, address: str) -> Iterator[tuple[Key, list[Any], int]]:
        self.file.flush()
        box = self.boxes.pop(address, {})
        for key in sorted(box):
            some = [os.pread(self.file.fileno(), size, at) for at, size in box[key]]
            yield key, whole(some), sum(map(len, some))


def merge(counts: Triple, components: int) -> dict[str, Any]:
    """Run all rounds of a grid of slabs; return their costs."""
    grid = Grid(tuple(SIDE * n for n in counts), (SIDE,) * 3)  # type: ignore[arg-type]
    flow = component_flow(grid)
    found: dict[str, Any] = {"levels": [], "shuffled": 0, "messages": 0, "making": 0.0}
    begin = time.perf_counter()
    equivalences = answers = 0
    with tempfile.TemporaryFile() as file:
        spool = Spool(file)
        for k, r in enumerate(flow.rounds):
            largest = (0, 0)
            if k == 0:
                groups: Any = (((i,), [i], 0) for i in range(len(grid)))
            else:
                groups = spool.take(r.name)
            for key, values, size in groups:
                if k == 0:
                    start = time.perf_counter()
                    values = [made_up(grid, values[0], components)]
                    interfaces = values[0].interfaces.items()
                    equivalences += sum(
                        len(i.members)
                        for (a, *above), i in interfaces
                        if values[0].cell == tuple(above)
                    )
                    found["making"] += time.perf_counter() - start
                elif r.name.startswith("merge"):
                    taken = sum(len(v.summary.ids) for v in values)
                    largest = max(largest, (taken, size))
                for address, to, value in r.step(key, values):
                    if address == "numbers":
                        found |= value
                    elif address == "answers":
                        answers += 1
                    else:
                        found["shuffled"] += spool.put(address, to, value)
                        found["messages"] += 1
            if r.name.startswith("merge"):
                found["levels"].append(largest)
    assert answers == len(grid)
    found["seconds"] = time.perf_counter() - begin - found["making"]
    found["equivalences"] = equivalences
    return found


def expected_count(counts: Triple, components: int) -> int:
    """The number of components, by one union over everything."""
    grid = Grid(tuple(SIDE * n for n in counts), (SIDE,) * 3)  # type: ignore[arg-type]
    base, sides = 0, defaultdict(list)
    for i in range(len(grid)):
        summary = made_up(grid, i, components)
        for k, interface in summary.interfaces.items():
            sides[k].append(interface.members + base)
        base += len(summary.ids)
    a, b = (np.concatenate([pair[side] for pair in sides.values()]) for side in (0, 1))
    pairs = coo_matrix((np.ones(len(a), bool), (a, b)), (base, base))
    return int(connected_components(pairs, directed=False)[0])


def most_taken(counts: Triple, components: int) -> float:
    """The most 2-D components that the largest step receives."""
    grid = Grid(tuple(SIDE * n for n in counts), (SIDE,) * 3)  # type: ignore[arg-type]
    return expected_load(grid, None, np.full(3, components / SIDE**2))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="up to 1,000 slabs")
    parser.add_argument("--full", action="store_true", help="up to 100,000 slabs")
    parser.add_argument("--components", type=int, default=100, help="in each plane; 100 by default")
    args = parser.parse_args()
    largest = 1000 if args.quick else 100_000 if args.full else 11_000
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one process; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{args.components} 2-D components in a plane, as many inside each slab; a line with ~ is the one "
        "before it times the number of slabs\n"
    )
    print(
        f"{'slabs':>18s} {'components':>12s} {'equivalences':>13s} {'seconds':>8s} {'s/million':>9s} "
        f"{'shuffled':>10s} {'RAM':>8s}  largest input of a merge, by level"
    )
    for series in (
        [(1000, 1, 1), (10_000, 1, 1), (100_000, 1, 1), (1_000_000, 1, 1)],
        [(10, 10, 10), (22, 22, 22), (46, 46, 46), (100, 100, 100)],
    ):
        before: dict[str, Any] = {}
        for counts in series:
            slabs = int(np.prod(counts))
            name = " x ".join(map(str, counts)) if counts[1] > 1 else f"{slabs} along z"
            if slabs > largest:
                if not before:
                    continue
                times = slabs / before["slabs"]
                print(
                    f"{'~ ' + name:>18s} {before['count'] * times:12.2g} "
                    f"{before['equivalences'] * times:13.2g} {before['seconds'] * times:8.0f} "
                    f"{'':9s} {before['shuffled'] * times / 1e6:7.0f} MB {'':8s}  "
                    f"at most {most_taken(counts, args.components):.2g}"
                )
                continue
            found = merge(counts, args.components)
            if slabs <= 1000:
                assert found["count"] == expected_count(counts, args.components)
            before = found | {"slabs": slabs}
            levels = ", ".join(f"{n} ({size / 1e3:.0f} kB)" for n, size in found["levels"])
            ram = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{name:>18s} {found['count']:12d} {found['equivalences']:13d} {found['seconds']:8.1f} "
                f"{found['seconds'] / found['equivalences'] * 1e6:9.1f} {found['shuffled'] / 1e6:7.0f} MB "
                f"{ram:5.0f} MB  {levels}",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
