"""Filters of a store with slow answers: how much of the waiting time reading ahead hides.

Run ``python benchmarks/slow.py``. Each layer of chunks takes ``--seconds`` to arrive, as from a distant
bucket. By default its voxels are computed on for as long. Waiting and computing in turns take the sum of
both, and at the same time at best the larger of the two. The output compares both with the time of a sweep.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.base.space import Space
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.storage.places.context import waiting_context
from beam_volumes.storage.sources.source import Source

SHAPE = (128, 256, 256)


@dataclass(frozen=True, eq=False)
class SlowReader:
    """A volume with chunks that take so many seconds to arrive."""

    chunk: tuple[int, int, int]
    seconds: float

    portable = False
    remote = True
    extents = ()

    def open(self) -> ts.TensorStore:
        layout = ts.ChunkLayout(chunk_shape=self.chunk)
        return ts.virtual_chunked(
            self._read,
            dtype=ts.uint8,
            shape=SHAPE,
            chunk_layout=layout,
            context=waiting_context(),
        )

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: object) -> None:
        time.sleep(self.seconds)
        out[...] = domain.inclusive_min[0] % 251

    def token(self) -> str:
        return f"slow {self}"


def slow_volume(depth: int, seconds: float) -> Volume:
    """A volume in layers of chunks that come slowly."""
    chunk = (depth, 128, 256)
    space = Space(axes=("z", "y", "x"))
    reader = SlowReader(chunk, seconds)
    source = Source("slow", SHAPE, np.dtype("u1"), chunk, (0, 0, 0), space, reader)
    return Volume(SourceNode.of(source), space)


def taken(depth: int, window: int, halo: int, seconds: float, busy: float) -> float:
    """Seconds of a filter that computes for ``busy`` seconds on a layer."""

    def work(block: np.ndarray) -> np.ndarray:
        time.sleep(busy * (len(block) - 2 * halo) / depth)
        return block

    volume = slow_volume(depth, seconds)
    wanted = bv.sum(bv.map_overlap(work, volume, depth=(halo, 0, 0), name="work", version="1"))
    begin = time.perf_counter()
    bv.compute(wanted, runner=None, progress=False, threads=1, slab=SHAPE, window=window)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.1, help="that a layer takes to come")
    parser.add_argument("--busy", type=float, help="seconds of computing on a layer; as many")
    args = parser.parse_args()
    busy = args.seconds if args.busy is None else args.busy
    print(f"{'x'.join(map(str, SHAPE))}, {args.seconds} s a layer to come, {busy} s to compute\n")
    print("layer  window  halo    seconds   in turns   at best")
    taken(16, 8, 1, 0, 0)  # warm
    for depth, window, halo in (
        (16, 8, 0),
        (16, 8, 1),
        (16, 8, 9),
        (16, 2, 1),
        (16, 16, 1),
        (4, 8, 1),
        (64, 8, 2),
    ):
        layers = SHAPE[0] // depth
        found = taken(depth, window, halo, args.seconds, busy)
        turns, best = (
            layers * (args.seconds + busy),
            layers * max(args.seconds, busy) + args.seconds,
        )
        print(f"{depth:5d}  {window:6d}  {halo:4d}  {found:9.2f}  {turns:9.2f}  {best:8.2f}")


if __name__ == "__main__":
    sys.exit(main())
