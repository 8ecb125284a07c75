"""A run slow enough to be killed: ``slow_run.py INPUT OUTPUT RUNNER MODE RESUME [WHAT]``.

Where `HOLD` is set, to a pattern of files and a number of them, it holds still once there are so many: then
it cannot be over before it is killed, however slow who kills it is.
"""

import glob
import os
import sys
import time
from pathlib import Path

import beam_volumes as bv

HOLD = "BEAM_VOLUMES_TEST_HOLD"


def slowly(block):
    time.sleep(0.05)
    pattern, _, count = os.environ.get(HOLD, "").rpartition(" ")
    limit = time.monotonic() + 600
    while pattern and len(glob.glob(pattern)) >= int(count):
        if time.monotonic() > limit:
            raise TimeoutError("nobody has killed this run")
        time.sleep(0.05)
    return block


def slow(volume, depth=1):
    return bv.map_overlap(slowly, volume, depth=depth, name="slowly", version=1)


def mask(source: str, out: str):
    """Two passes: Otsu of a smoothed volume, then an opening of what lies above it."""
    smooth = slow(bv.gaussian_filter(bv.open(source), 1))
    mask = bv.binary_opening(smooth > bv.threshold_otsu(smooth))
    return [mask.to(out, chunks=(4, 16, 16), codec=None)]


def cells(source: str, out: str):
    """Two passes and a merge after each: labels, and their tables.

    Both are slow: the second pass finds what the first stage gave stored, and the last one needs labels.
    """
    volume = slow(bv.open(source))
    cells = bv.label(volume > 140)
    table = bv.regionprops_table(cells, slow(volume * (cells > 0), depth=0))
    files = [table.to(f"{out}.{ending}") for ending in ("parquet", "csv")]
    return [cells.to(out, chunks=(4, 16, 16), codec=None), *files]


def everything(source: str, out: str):
    """Labels, their tables and a filter of the same volume."""
    smooth = bv.median_filter(slow(bv.open(source)), 3)
    return [*cells(source, out), smooth.to(f"{out}.smooth.zarr", chunks=(4, 16, 16), codec=None)]


def network(source: str, out: str):
    """Two passes: percentiles, then the network next to the input."""
    volume = slow(bv.open(source))
    made = bv.predict(
        volume, str(Path(source).with_name("unet.onnx")), patch=(16, 44, 44), context=6, stride=2,
        normalize=("1%", "99%"),
    )  # fmt: skip
    return [made.to(out, chunks=(3, 4, 16, 16), codec=None)]


def segments(source: str, out: str):
    """Affinities of a volume's own voxels, fragments, merges of these, and segments."""
    volume = bv.open(source)
    affinities = bv.stack([slow(volume), volume, 255 - volume])
    fragments = bv.watershed_affinities(affinities, 60, 250, min_size=5)
    graph = bv.region_adjacency(fragments, affinities=affinities)
    merges = bv.agglomerate(graph, threshold=110)
    found = bv.relabel(fragments, bv.cut(merges, 120), missing="keep", dtype="u4")
    found = slow(found, depth=0)
    return [found.to(out, chunks=(4, 16, 16), codec=None), merges.to(f"{out}.parquet")]


MAKERS = mask, cells, everything, network, segments
WHAT = {f.__name__: f for f in MAKERS}

if __name__ == "__main__":
    source, out, runner, mode, resume, what = [*sys.argv[1:], "mask"][:6]
    bv.compute(
        *WHAT[what](source, out),
        runner=None if runner == "none" else runner,
        options=[f"--direct_running_mode={mode}"] if runner != "none" else None,
        workers=2,
        threads=1,
        slab=(4, 32, 32),
        resume=resume == "resume",
        progress=False,
    )
    print("finished")
