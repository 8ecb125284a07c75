"""Plans of segmentations from a terabyte to a petabyte: the largest step of their merges.

Run ``python benchmarks/plans.py``. A plan reads no voxel, so the volumes have a shape, but no chunks. Each
is a cube of bytes; affinities have three channels of bytes. The table shows the largest step of a merge: the
expected size for usual voxels, and the size that no voxels exceed, such as noise. ``--memory`` is the limit
of one process.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorstore as ts

import beam_volumes as bv
from beam_volumes.base.text import format_bytes


def volume(side: int, channels: int, folder: str) -> bv.Volume:
    """A volume without chunks, in shards of 1024^3."""
    first = [channels] if channels else []
    pieces = {"bytes": {"name": "bytes", "configuration": {"endian": "little"}}}
    inner = [1, 128, 128, 128][1 - len(first) :]
    shards = {"chunk_shape": inner, "codecs": [pieces["bytes"]]}
    outer = {"chunk_shape": [*first, 1024, 1024, 1024]}
    metadata = {
        "shape": [*first, side, side, side],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": outer},
        "codecs": [{"name": "sharding_indexed", "configuration": shards}],
    }
    spec = {"driver": "zarr3", "kvstore": f"file://{folder}/", "metadata": metadata}
    ts.open(spec, create=True).result()
    return bv.open(folder, axes="czyx" if channels else "zyx")


def operations(v: bv.Volume, affinities: bv.Volume) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The segmentations, by name."""
    fragments = functools.partial(bv.watershed_affinities, affinities, 10, 250)
    basins = bv.region_adjacency(fragments(), affinities=affinities)
    yield "label", lambda: bv.label(v > 128)
    yield "regionprops_table", lambda: bv.regionprops_table(bv.label(v > 128), v)
    yield "binary_fill_holes", lambda: bv.binary_fill_holes(v > 128)
    yield "reconstruction", lambda: bv.reconstruction(v - 10, v)
    yield "h_maxima", lambda: bv.h_maxima(v, 10)
    yield "watershed", lambda: bv.watershed(v)
    yield "watershed with markers", lambda: bv.watershed(v, bv.label(v < 20))
    yield "peak_local_max", lambda: bv.peak_local_max(v, min_distance=5)
    yield (
        "peak_local_max of labels",
        lambda: bv.peak_local_max(v, min_distance=5, labels=v, num_peaks=1e6),
    )
    yield "blob_log", lambda: bv.blob_log(v, max_sigma=5, num_sigma=3)
    yield "watershed_affinities", fragments
    yield "agglomerate", lambda: bv.agglomerate(basins, threshold=128)
    yield "cut", lambda: bv.cut(bv.agglomerate(basins, threshold=128))
    yield "skeleton_table", lambda: bv.skeleton_table(v > 250)


def largest_step(make: Callable[[], Any], memory: str, folder: str) -> tuple[str, str]:
    """The expected size of the largest step of a merge, and its limit."""
    result = make()
    if isinstance(result, bv.Volume):
        result = result.to(f"{folder}/result.zarr")
    else:
        result = result.to(f"{folder}/rows", format="parquet")
    plan = bv.plan(result, memory=memory, workers=1)
    sizes = [s for p in plan.passes for s in p.merges.values()]
    expected = max(max(s.expected, s.certain) for s in sizes)
    return format_bytes(expected), format_bytes(max(s.maximum for s in sizes))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--terabytes", type=float, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--memory", default="64GiB")
    parser.add_argument("--only", nargs="+", help="names of operations")
    options = parser.parse_args()
    print(
        "| operation | TB | expected | at most | planned in CPU s |\n| --- | --- | --- | --- | --- |"
    )
    for terabytes in options.terabytes:
        side = round((terabytes * 1e12) ** (1 / 3) / 1024) * 1024
        with tempfile.TemporaryDirectory() as folder:
            v, affinities = volume(side, 0, f"{folder}/v"), volume(side, 3, f"{folder}/a")
            for name, make in operations(v, affinities):
                if options.only and name not in options.only:
                    continue
                start = time.process_time()
                try:
                    found = " | ".join(largest_step(make, options.memory, folder))
                except ValueError as error:
                    found = f"refused: {str(error).splitlines()[0]} | "
                print(
                    f"| {name} | {terabytes:g} | {found} | {time.process_time() - start:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
