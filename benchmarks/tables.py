"""Prints the tables of benchmarks/RESULTS.md: ``python benchmarks/tables.py contract.csv``."""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from operator import itemgetter

from operations import BARE

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
        faster = ", ".join(x["sooner"] for x in more)
        rows.append([name, f"{voxels / kernels:.0f}", f"{voxels / whole:.0f}", faster, others])
    return rows


def disk(lines: list[Line]) -> list[list[str]]:
    """Per operation and dtype: seconds from each source, over a copy and its own I/O; times the peers."""
    copies: dict[tuple[str, str], float] = {}
    found: dict[tuple[str, str], dict[str, str]] = {}
    seconds: dict[tuple[str, str], float] = {}
    for line in lines:
        place = line["dtype"], line["source"]
        wall = float(line["wall_s"])
        row = found.setdefault((line["operation"], line["dtype"]), {})
        if line["contender"] == "read, then write":
            copies[place] = wall
        elif line["contender"] == "ours":
            row[line["source"]] = f"{wall:.2f}"
            copy = float(line.get("copy_s") or 0) or copies[place]
            row[f"{line['source']}, of a copy"] = f"{wall / copy:.1f}x"
            seconds.setdefault((line["operation"], line["dtype"]), wall)
        elif line["contender"] == BARE:
            row[f"{line['source']}, of its I/O"] = f"{float(row[line['source']]) / wall:.1f}x"
        else:
            own = seconds[line["operation"], line["dtype"]]
            row[line["contender"]] = ratio(line, own, "wall_s")
    columns = [c for s in SOURCES for c in (s, f"{s}, of a copy", f"{s}, of its I/O")]
    columns += ["scipy", "dask-image"]
    return [
        [name, DTYPES[dtype], *(row.get(c, "") for c in columns)]
        for (name, dtype), row in found.items()
        if row
    ]


def printed(header: list[str], rows: list[list[str]]) -> None:
    """Print a table without its empty columns."""
    some = [i for i in range(len(header)) if any(row[i] for row in rows)]
    for cells in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(cells[i] for i in some) + " |")
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
        header = [f"{s}{c}" for s in SOURCES for c in (", s", " / copy", " / its I/O")]
        printed(
            ["disk to disk", "dtype", *header, "scipy / ours", "dask-image / ours"], disk(on_disk)
        )


if __name__ == "__main__":
    main()
