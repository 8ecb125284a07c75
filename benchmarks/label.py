"""Connected components of one volume, from disk to disk, compared with other libraries.

Run ``python benchmarks/label.py``: ours, cc3d and scipy label masks of 10, 45 and 90 % noise, noise of two
values, and blobs. Each run is a fresh process, and contenders take turns; seconds are counted from the open
arrays to the last byte, after a warm run of a small part that compiles kernels. All read the same zarr with
TensorStore, and write labels as zarr with the same chunks and codec. Threads of a run are the cores; cc3d
and scipy label with one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

PLANE = (1024, 1024)
CHUNKS = (64, 128, 128)
ROWS = ("10 %", "45 %", "90 %", "by_value", "blobs")


def made(row: str, shape: tuple[int, ...]) -> np.ndarray:
    """The volume of a row: noise with a share of foreground, of 10 % background and two values, or blobs."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, shape, np.uint8)
    if row == "blobs":
        from scipy.ndimage import gaussian_filter

        smooth = gaussian_filter(noise.astype(np.float32), 3)
        return smooth > smooth.mean() + smooth.std()
    if row == "by_value":
        return np.digitize(noise, (26, 141)).astype(np.uint8)
    return noise < 256 * float(row.rstrip(" %")) / 100


def opened(path: str) -> Any:
    import tensorstore as ts

    return ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}).result()


def created(path: str, like: Any) -> Any:
    """A zarr for labels with the chunks and codec of ours."""
    import tensorstore as ts

    metadata = like.spec().to_json()["metadata"]
    metadata = {**metadata, "data_type": "uint32", "fill_value": 0}
    metadata.pop("attributes", None)
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": path},
        "metadata": metadata,
        "create": True,
        "delete_existing": True,
    }
    return ts.open(spec).result()


def ours(source: str, out: str, by_value: bool) -> Callable[[], None]:
    import beam_volumes as bv

    def run() -> None:
        labels = bv.label(bv.open(source), by_value=by_value, dtype="u4")
        target = labels.to(out, chunks=CHUNKS)
        how: dict[str, Any] = {"overwrite": True, "progress": False, "keep_journal": False}
        bv.compute(target, runner=None, **how)

    return run


def peer(
    label: Callable[[np.ndarray, bool], np.ndarray],
) -> Callable[[str, str, bool], Callable[[], None]]:
    def prepared(source: str, out: str, by_value: bool) -> Callable[[], None]:
        def run() -> None:
            stored = opened(source)
            labels = label(stored.read().result(), by_value)
            created(out, stored).write(labels).result()

        return run

    return prepared


def cc3d_label(volume: np.ndarray, by_value: bool) -> np.ndarray:
    import cc3d

    return cc3d.connected_components(volume, connectivity=6, out_dtype=np.uint32)


def scipy_label(volume: np.ndarray, by_value: bool) -> np.ndarray:
    from scipy import ndimage

    return ndimage.label(volume, output=np.uint32)[0]


CONTENDERS = {"ours": ours, "cc3d": peer(cc3d_label), "scipy": peer(scipy_label)}


def timed(name: str, row: str, folder: Path) -> dict[str, float]:
    """Seconds, CPU seconds and the peak memory of one run in this process."""
    by_value = row == "by_value"
    CONTENDERS[name](str(folder / f"warm {row}.zarr"), str(folder / "warm out.zarr"), by_value)()
    run = CONTENDERS[name](str(folder / f"{row}.zarr"), str(folder / f"out {name}.zarr"), by_value)
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return {
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "MiB": _peak() >> 20,
    }


def _peak() -> int:
    """The peak memory of this process alone, in bytes; Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def write_inputs(folder: Path, rows: list[str], slices: int) -> None:
    import beam_volumes as bv

    for row in rows:
        for name, shape in (
            (f"{row}.zarr", (slices, *PLANE)),
            (f"warm {row}.zarr", (32, 256, 256)),
        ):
            if not (folder / name).exists():
                target = bv.open(made(row, shape)).to(str(folder / name), chunks=CHUNKS)
                bv.compute(target, runner=None, progress=False, keep_journal=False)


def check_same(folder: Path, row: str) -> None:
    """Our labels are scipy's, and as many as cc3d's."""
    found = {name: opened(str(folder / f"out {name}.zarr")).read().result() for name in CONTENDERS}
    assert int(found["ours"].max()) == int(found["cc3d"].max()), row
    assert row == "by_value" or np.array_equal(found["ours"], found["scipy"]), row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", nargs="*", default=list(ROWS))
    parser.add_argument("--only", nargs="*", default=list(CONTENDERS), help="these contenders")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--slices", type=int, default=256)
    parser.add_argument("--folder", type=Path, help="keep inputs and outputs here")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(timed(*args.one, args.folder)))
        return
    packages = ["numpy", "scipy", "tensorstore", "connected-components-3d"]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    print(", ".join(f"{p} {version(p)}" for p in packages), flush=True)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="beam-volumes-bench-"))
    folder.mkdir(exist_ok=True)
    try:
        write_inputs(folder, args.rows, args.slices)
        for row in args.rows:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in args.only}
            for _ in range(args.runs):
                for name in args.only:
                    if (name, row) == ("scipy", "by_value"):
                        continue
                    command = [sys.executable, __file__, "--one", name, row, "--folder", folder]
                    out = subprocess.run(command, check=True, capture_output=True, text=True)
                    found[name].append(json.loads(out.stdout.splitlines()[-1]))
            for name, runs in found.items():
                if runs:
                    middle = {k: statistics.median(r[k] for r in runs) for k in runs[0]}
                    print(
                        f"{row:9s} {name:6s} {middle['seconds']:6.2f} s, CPU {middle['cpu']:6.2f} s, "
                        f"{middle['MiB']:6.0f} MiB (load {os.getloadavg()[0]:.1f})",
                        flush=True,
                    )
            if set(args.only) >= CONTENDERS.keys():
                check_same(folder, row)
    finally:
        if args.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
