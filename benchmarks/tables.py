"""The README's tables from what `contract` measured: ``python benchmarks/tables.py contract.csv``."""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from operator import itemgetter

Line = dict[str, str]
SOURCES = ("zarr", "zstd", "tiff")
DTYPES = {"u1": "uint8", "u2": "uint16", "f4": "float32"}


def ratio(theirs: Line | None, seconds: float, column: str) -> str:
    if theirs is None:
        return ""
    about = "~" if theirs["scaled from a crop"] == "True" else ""
    times = float(theirs[column]) / seconds
    return f"{about}{times:.0f}x" if times >= 9.5 else f"{about}{times:.1f}x"


def in_memory(lines: list[Line]) -> list[list[str]]:
    """Operation, Mvoxel/s by stages and from array to array, two threads, and the peers."""
    rows = []
    for name, group in groupby(lines, itemgetter("operation")):
        mine, *rest = group
        peers = [x for x in rest if not x["contender"].startswith("ours")]
        more = [x for x in rest if x["contender"].startswith("ours")]
        kernels, whole = (float(mine[c]) for c in ("kernels_s", "cpu_s"))
        if not kernels or mine["operation"] in ("label", "distance", "region table"):
            kernels = whole
        voxels = int(mine["voxels"]) / 1e6
        others = ", ".join(f"{p['contender']} {ratio(p, kernels, 'cpu_s')}" for p in peers)
        faster = ", ".join(f"{float(mine['wall_s']) / float(x['wall_s']):.1f}x" for x in more)
        rows.append([name, f"{voxels / kernels:.0f}", f"{voxels / whole:.0f}", faster, others])
    return rows


def disk(lines: list[Line]) -> list[list[str]]:
    """Operation; by dtype seconds from the first source, times a copy by source, times the peers."""
    rows = []
    names = [x["operation"] for x in lines if x["contender"] == "ours"]
    for name in dict.fromkeys(names):
        row = [name]
        for dtype in DTYPES:

            def found(
                contender: str, source: str, name: str = name, dtype: str = dtype
            ) -> Line | None:
                key = (name, dtype, contender, source)
                columns = itemgetter("operation", "dtype", "contender", "source")
                return next((x for x in lines if columns(x) == key), None)

            ours = [found("ours", s) for s in SOURCES]
            copies = [found("read, then write", s, name="copy") for s in SOURCES]
            if ours[0] is None:
                row += ["", "", "", ""]
                continue
            seconds = float(ours[0]["wall_s"])
            times = [
                f"{float(o['wall_s']) / float(c['wall_s']):.1f}" if o and c else "-"
                for o, c in zip(ours, copies, strict=True)
            ]
            row += [f"{seconds:.2f}", " / ".join(times)]
            row += [ratio(found("scipy", ""), seconds, "wall_s")]
            row += [ratio(found("dask-image", SOURCES[0]), seconds, "wall_s")]
        rows.append(row)
    return rows


def printed(header: list[str], rows: list[list[str]]) -> None:
    for cells in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(cells) + " |")
    print()


def main() -> None:
    with open(sys.argv[1], newline="") as file:
        lines = list(csv.DictReader(file))
    memory = [x for x in lines if x["part"] == "memory"]
    if memory:
        header = [
            "in memory",
            "stages, Mvoxel/s",
            "array to array",
            "two threads",
            "the stages against",
        ]
        printed(header, in_memory(memory))
    on_disk = [x for x in lines if x["part"] == "disk"]
    if on_disk:
        columns = ["s", "of a copy", "scipy", "dask-image"]
        header = [f"{DTYPES[d]}, {c}" if c == "s" else c for d in DTYPES for c in columns]
        printed(["disk to disk", *header], disk(on_disk))


if __name__ == "__main__":
    main()
