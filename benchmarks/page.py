"""Renews the tables of docs/reference/speed.md and README.md: ``make benchmark-page``.

It runs `contract.py`, `sweep.py` and `across.py` for the rows of the page, and stores the figures in
``results.json`` with versions and machine. Then it writes the marked parts of the pages. ``--render`` only
does the latter. ``--op NAME`` runs the rows that contain this name, and keeps the
others. All rows take 20 minutes to two hours, and 15 GB of disk; ``pip install -e '.[bench]'`` installs
the peers.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results.json"
PACKAGES = "numpy scipy numba tensorstore apache-beam scikit-image dask dask-image zarr edt"
#: Rows of the page, by the names that the benchmarks give them.
DISK = [
    "threshold",
    "uniform 3",
    "gaussian 1",
    "median r=1",
    "median r=3",
    "ball dilation r=3",
    "ball dilation r=9",
    "gaussian, gradient, Otsu, opening",
]
README = ["uniform 3", "gaussian 1", "median r=1", "ball dilation r=3", DISK[-1]]
CHAINS = {
    "threshold": "threshold",
    "3 stages: maximum, minimum 3, threshold": "maximum 3, minimum 3, threshold",
    "5 light stages": "the same, binary erosion, binary dilation",
}
ACROSS = [("label", 512), ("label", 1024), ("EDT, blobs", 1024), ("region table", 1024)]
TITLES = {"EDT, blobs": "distance"}


def script(name: str, *arguments: str) -> None:
    subprocess.run([sys.executable, HERE / name, *arguments], check=True)


def measured(op: str, quick: bool) -> dict[str, Any]:
    """Run the rows that contain ``op``; return their figures by part and name."""
    found: dict[str, Any] = {"disk": {}, "chains": {}, "across": {}}
    small = ["--quick"] if quick else []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if names := [name for name in DISK if op in name]:
            only = ["--part", "disk", "--dtype", "u1", "--source", "zarr", "--op", *names]
            script("contract.py", *only, "--out", str(place / "disk"), *small)
            with open(place / "disk.csv", newline="") as file:
                found["disk"] = disk_rows(list(csv.DictReader(file)), names)
        if any(op in name for name in CHAINS):
            script("sweep.py", "--op", op, "--json", str(place / "chains"), *small)
            rows = json.loads((place / "chains").read_text())
            found["chains"] = {row.pop("chain"): row for row in rows if row["chain"] in CHAINS}
        if names := list(dict.fromkeys(name for name, _ in ACROSS if op in name)):
            once = ["--runs", "1"] if quick else []
            for k, name in enumerate(names):
                sizes = ["256"] if quick else [str(side) for row, side in ACROSS if row == name]
                found_at = str(place / f"across{k}")
                script("across.py", "--op", name, "--json", found_at, *once, "--sizes", *sizes)
                for row in json.loads((place / f"across{k}").read_text()):
                    if row["operation"] == name:
                        found["across"][f"{row.pop('operation')}, {row.pop('side')}"] = row
    return found


def disk_rows(lines: list[dict[str, str]], names: list[str]) -> dict[str, Any]:
    """Seconds, times a copy, and times each peer, by operation, from the CSV of `contract.py`."""
    rows: dict[str, Any] = {}
    copy = next(float(x["wall_s"]) for x in lines if x["contender"] == "read, then write")
    for line in lines:
        name, contender, wall = line["operation"], line["contender"], float(line["wall_s"])
        if name not in names:
            continue
        if contender == "ours":
            copy_seconds = float(line["copy_s"] or 0) or copy
            rows[name] = {
                "seconds": round(wall, 2),
                "copy": round(wall / copy_seconds, 1),
                "scaled": [],
            }
        elif contender in ("scipy", "dask-image"):
            rows[name][contender] = float(f"{wall / rows[name]['seconds']:.2g}")
            rows[name]["scaled"] += [contender] if line["scaled from a crop"] == "True" else []
    return rows


def machine() -> dict[str, Any]:
    import psutil
    from contract import processor

    versions = {}
    for package in PACKAGES.split():
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "GiB": psutil.virtual_memory().total >> 30,
        "Python": platform.python_version(),
        "versions": versions,
    }


def table(*rows: list[str]) -> str:
    head, *others = rows
    text = "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *others))
    return re.sub(r" +\|", " |", text)


def peer(row: dict[str, Any], name: str) -> str:
    """How many times as long a peer takes; empty if it was not measured."""
    if name not in row:
        return ""
    times = f"{row[name]:.0f}" if row[name] >= 9.5 else f"{row[name]:.1f}"
    return f"{'~' if name in row['scaled'] else ''}{times}x"


def disk_table(rows: dict[str, Any], names: list[str], head: list[str]) -> str:
    cells = [
        [name, f"{r['seconds']:.2f}", f"{r['copy']:.1f}x", peer(r, "scipy"), peer(r, "dask-image")]
        for name in names
        for r in [rows[name]]
    ]
    return table(head, *cells)


def parts(results: dict[str, Any]) -> dict[str, str]:
    """The text of each marked part, by its name."""
    m, disk, chains = results["machine"], results["disk"], results["chains"]
    versions = ", ".join(f"{name} {number}" for name, number in m["versions"].items())
    about = (
        f"{m['processor']}, {m['cores']} cores, {m['GiB']} GiB; Python {m['Python']}, {versions}.\n"
    )
    head = ["", "seconds", "/ copy", "scipy in memory / ours", "dask-image disk to disk / ours"]
    short = ["", "seconds", "/ copy", "scipy, in memory", "dask-image, disk to disk"]
    across = [["", "ours", "in memory", "memory of voxels"]]
    for name, side in ACROSS:
        row = results["across"][f"{name}, {side}"]
        peers = [
            f"{p} {'~' if p in row['scaled'] else ''}{s:.{int(s < 100)}f}"
            for p, s in row["peers"].items()
            if p != "dask-image"
        ]
        regions = f", {row['regions']} regions" if row.get("regions") else ""
        title = f"{TITLES.get(name, name)}{regions}, {side}^3"
        across.append([title, f"{row['ours']:.1f}", ", ".join(peers), f"{row['MiB']} MiB"])
    return {
        "machine": about,
        "disk": disk_table(disk, DISK, head),
        "readme": disk_table(disk, README, short),
        "chains": table(
            ["chain", "ours", "copy", "ours / copy", "dask / ours"],
            *(
                [title, f"{r['ours']:.2f}", f"{r['copy']:.2f}", f"{r['ours'] / r['copy']:.1f}",
                 f"{r['dask'] / r['ours']:.1f}"]
                for name, title in CHAINS.items() for r in [chains[name]]
            ),
        ),
        "across": table(*across),
    }  # fmt: skip


PAGES = {
    ROOT / "docs/reference/speed.md": ["machine", "disk", "chains", "across"],
    ROOT / "README.md": ["readme"],
}


def rendered() -> dict[Path, str]:
    """The text of each page, with its marked parts as the stored figures give them."""
    results = parts(json.loads(RESULTS.read_text()))
    pages = {}
    for page, names in PAGES.items():
        text = page.read_text()
        for name in names:
            mark = rf"(<!-- benchmarks: {name} -->\n\n).*?(\n<!-- end -->)"
            text, count = re.subn(mark, rf"\g<1>{results[name]}\g<2>", text, flags=re.S)
            if count != 1:
                raise ValueError(f"{page.name}: {count} parts are marked as {name}, instead of 1")
        pages[page] = text
    return pages


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--render", action="store_true", help="run nothing")
    parser.add_argument("--op", default="", help="only rows with this in their name")
    parser.add_argument(
        "--quick", action="store_true", help="small volumes: print the figures, and store none"
    )
    args = parser.parse_args()
    if not args.render:
        known = [*DISK, *CHAINS, *(name for name, _ in ACROSS)]
        if not any(args.op in name for name in known):
            parser.error(
                f"argument --op: no row contains {args.op!r}; there are {'; '.join(known)}"
            )
        found = measured(args.op, args.quick)
        if args.quick:
            print(json.dumps(found, indent=1))
            return
        results = json.loads(RESULTS.read_text())
        for part, rows in found.items():
            results[part].update(rows)
        if not args.op:  # rows of another day keep their machine and versions
            results["machine"] = machine()
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    for page, text in rendered().items():
        page.write_text(text)


if __name__ == "__main__":
    main()
