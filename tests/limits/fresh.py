"""Run a chain in a fresh process and print its memory as JSON: predicted and measured bytes."""

import json
import sys
from pathlib import Path

import numpy as np

import beam_volumes as bv
from beam_volumes.drive.compute import plan_run
from beam_volumes.plan.cost.machine import peak_memory, resident_memory
from beam_volumes.plan.run_options import RunOptions


def chain(volume):
    """Five neighbourhood operations, two of them in float32."""
    volume = bv.median_filter(volume, 3)
    volume = bv.gaussian_filter(volume, 1)
    volume = bv.uniform_filter(volume, (5, 3, 3), dtype="u1")
    volume = bv.maximum_filter(volume, (3, 7, 7))
    return bv.minimum_filter(volume, 5)


def filtered(source: str, out: str, **options):
    return [chain(bv.open(source)).to(out, **options)]


def labels(source: str, out: str, **options):
    """Components and their measurements."""
    volume = bv.open(source)
    cells = bv.label(volume > 128)
    table = bv.regionprops_table(cells, volume, ["num_pixels", "bbox", "intensity_mean"])
    return [cells.to(out, **options), table.to(f"{out}.parquet")]


def extremes(source: str, out: str, **options):
    """Exact sums of float64 from 1e-137 to 1e137, which have 66 digits."""
    volume = bv.open(source)
    image = bv.exp(volume.astype("f8") * 5 - 960)
    names = ["num_pixels", "intensity_mean", "intensity_std", "centroid_weighted"]
    return [bv.regionprops_table(bv.label(volume > 128), image, names).to(f"{out}.parquet")]


def grains(source: str, out: str, **options):
    """Components of sparse noise: one for every 14 voxels."""
    return [bv.label(bv.open(source) < 26, dtype="u4").to(out, **options)]


def distance(source: str, out: str, **options):
    return [bv.distance_transform_edt(bv.open(source) > 128).to(out, **options)]


def grids(source: str, out: str, **options):
    """Columns as rows, with more around them, turned, and made coarser."""
    volume = bv.transpose(bv.open(source), (0, 2, 1))
    volume = bv.rotate(bv.pad(volume, [(0, 0), (5, 5), (5, 5)], "edge"), 20, reshape=False)
    return [bv.downsample(volume, (1, 2, 2), "median").to(out, **options)]


def bounded(source: str, out: str, **options):
    """Blocks are gathered by every thread for its rows."""
    near = bv.distance_transform_edt(bv.open(source) > 128, max_distance=6)
    return [near.to(out, **options)]


def network(source: str, out: str, **options):
    """The network in a file next to the input; it is tried in no other size."""
    model = str(Path(source).parent / "unet.onnx")
    made = bv.predict(
        bv.open(source), model, patch=(64, 96, 96), context=6, stride=2, normalize=(0, 255)
    )
    return [(made[0] > 0.5).to(out, **options)]


def one_channel(source: str, out: str, **options):
    return [bv.maximum_filter(opened(source), 3).to(out, **options)]


def channels(source: str, out: str, **options):
    """All three colours, with halos of their own."""
    red, green, blue = (opened(source, c) for c in range(3))
    total = bv.maximum_filter(red, 3) // 3 + green // 3 + bv.minimum_filter(blue, (3, 1, 1)) // 3
    return [total.to(out, **options)]


def opened(source: str, channel: int = 0):
    """A channel, or what has none."""
    slices = Path(source).is_dir() and any(Path(source).glob("*.tif"))
    return bv.open(source, index={"c": channel} if slices else None)


def segments(source: str, out: str, **options):
    """Fragments of a volume's own voxels as affinities, their boundaries, and segments."""
    volume = bv.open(source)
    affinities = bv.stack([volume, volume, volume])
    fragments = bv.watershed_affinities(affinities, 60)
    graph = bv.region_adjacency(fragments, affinities=affinities)
    merges = bv.agglomerate(graph, threshold=120)
    found = bv.relabel(fragments, bv.cut(merges), missing="keep", dtype="u4")
    return [found.to(out, **options), merges.to(f"{out}.parquet")]


def graph(source: str, out: str, **options):
    """Boundaries of many small regions, as a table."""
    basins = bv.watershed(bv.open(source))
    return [bv.region_adjacency(basins, bv.open(source)).to(f"{out}.parquet")]


def reconstructed(source: str, out: str, **options):
    volume = bv.open(source)
    return [bv.reconstruction(np.minimum(volume, 100), volume).to(out, **options)]


def tiles(source: str, out: str, **options):
    """Four overlapping quarters at fractional positions, fused and filtered."""
    volume = bv.open(source)
    rows, cols = (n // 2 for n in volume.shape[1:])
    places = [(y, x) for y in (0, rows - 8) for x in (0, cols - 8)]
    parts = [volume[:, y : y + rows + 8, x : x + cols + 8] for y, x in places]
    fused = bv.fuse(parts, [(0.5, y + 0.25, x) for y, x in places])
    return [bv.gaussian_filter(fused, 1).to(out, **options)]


def computed_tiles(source: str, out: str, **options):
    """Quarters that are corrected and filtered, with masks, as they are fused."""
    volume = bv.open(source)
    rows, cols = (n // 2 for n in volume.shape[1:])
    places = [(y, x) for y in (0, rows - 8) for x in (0, cols - 8)]
    flat = np.linspace(0.5, 1.5, cols + 8, dtype="f4")
    parts = [(volume[:, y : y + rows + 8, x : x + cols + 8] - 3) / flat for y, x in places]
    near = [part - bv.gaussian_filter(part, (1, 6, 6)) for part in parts]
    masks = [part > 9 for part in parts]
    fused = bv.fuse(near, [(0.5, y + 0.25, x) for y, x in places], mask=masks)
    return [bv.gaussian_filter(fused, 1).to(out, **options)]


def deconvolved(source: str, out: str, **options):
    return [
        bv.richardson_lucy(bv.open(source), bv.gaussian_psf((1, 1.5, 1.5)), 2).to(out, **options)
    ]


def spectrum(source: str, out: str, **options):
    volume = bv.open(source)
    return [bv.irfftn(bv.rfftn(volume), volume.shape).to(out, **options)]


MAKERS = (
    *(filtered, labels, extremes, grains, distance, grids, bounded, network, one_channel, channels),
    *(segments, graph, reconstructed, tiles, computed_tiles, deconvolved, spectrum),
)
WHAT = {f.__name__: f for f in MAKERS}


def main(source: str, out: str, ours: str, how: str, what: str = "filtered") -> None:
    options = json.loads(how)
    make = WHAT[what]
    run = {key: options.pop(key) for key in ("workers", "threads", "slab") if key in options}
    # Everything is imported and compiled once on a small volume of the same dtype.
    small = f"{out}.small.zarr"
    bv.compute(bv.open(np.zeros((8, 32, 32), opened(source).dtype)).to(small), runner=None)
    bv.compute(*make(small, f"{out}.warm.zarr"), runner=None, progress=False, slab=(8, 32, 32))
    base = resident_memory()
    targets = make(source, out, **options)
    # The budget is for our part; the base comes on top.
    memory = int(ours) + plan_run(targets, RunOptions(runner=None, **run)).base
    plan = plan_run(targets, RunOptions(runner=None, memory=memory, **run))
    bv.compute(*targets, memory=memory, runner=None, progress=False, **run)
    print(
        json.dumps(
            {
                "budget": plan.memory,
                "predicted": plan.predicted_memory,
                "predicted_ours": plan.workers * plan.slab_memory,
                "peak": peak_memory(),
                "base": base,
                "predicted_base": plan.base,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
