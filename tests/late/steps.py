"""What clients of a late disk do; results are plain data. Runs are kept in the client by name."""

import os
import shutil
from pathlib import Path

import cloudpickle
import numpy as np

import beam_volumes as bv
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import merging, slabs
from beam_volumes.session.begin import begin
from beam_volumes.session.local import run_local

SLAB = (4, 12, 14)
_runs = {}
_known = {}


# Files.


def names(folder):
    return sorted(os.listdir(folder))


def read(path):
    return Path(path).read_bytes() if os.path.exists(path) else None


def write(path, data):
    Path(path).write_bytes(data)


def remove(path):
    os.remove(path)


def rename(old, new):
    os.replace(old, new)


def delete(folder):
    shutil.rmtree(folder)


def look(out):
    """Look for everything that a run writes."""
    for folder in (out, f"{out}.run"):
        for name in ("zarr.json", "manifest.json", "c", "runs"):
            os.path.exists(f"{folder}/{name}")
        os.listdir(folder)


def make(path):
    """Make a folder."""
    os.mkdir(path)


# Runs, each with all its steps.


def voxels():
    z, y, x = np.ogrid[:12, :12, :14]
    return ((z * z + 3 * y * x + 5 * x) % 251).astype("u1")


def multiplied(out, factor):
    """One pass of three slabs."""
    return [(bv.open(voxels()) * np.uint16(factor)).to(out, chunks=SLAB)]


def halved(block):
    return block.astype("f4") * np.float32(0.5)


def compared(out, factor):
    """Three passes: results stored between them, and a number."""
    kept = bv.map_overlap(
        halved, bv.open(voxels()), name="halved", version="1", dtype="f4", deterministic=False
    )
    return [(kept * np.float32(factor) + bv.mean(kept)).to(out, chunks=SLAB)]


def read_back(out, factor):
    """Two passes: the second reads an output of the first."""
    kept = bv.map_overlap(
        halved, bv.open(voxels()), name="halved", version="1", dtype="f4", deterministic=False
    )
    smooth = bv.uniform_filter(kept, 3)
    return [kept.to(out, chunks=SLAB), (smooth * bv.mean(kept)).to(f"{out}.2.zarr", chunks=SLAB)]


def labelled(out, factor):
    """Two passes and two merges: labels and their table."""
    volume = bv.open(voxels()) * np.uint16(factor)
    labels = bv.label(volume > 100 * factor)
    table = bv.regionprops_table(labels, volume)
    return [labels.to(out, chunks=SLAB), table.to(f"{out}.csv")]


def plan_of(work, out, factor):
    return bv.plan(*globals()[work](out, factor), slab=SLAB, workers=1)


def begun(name, work, out, factor, options=None):
    """Begin a run, which writes nothing yet."""
    _runs[name] = begin(plan_of(work, out, factor), RunOptions(**options or {}))
    _known[name] = {}


def sent(name):
    """The run as it is sent to workers."""
    return cloudpickle.dumps((_runs[name], _known[name]))


def received(name, data):
    _runs[name], _known[name] = cloudpickle.loads(data)


def passes(name):
    return len(_runs[name].plan.passes)


def prepare(name):
    _runs[name].prepare()


def sweep(name, k, *indices):
    """Sweep slabs of a pass."""
    for index in indices:
        slabs.sweep_slab(_runs[name], k, index, _known[name])


def finish(name, k):
    """Merge what the slabs of a pass have recorded, as a driver does."""
    run = _runs[name]
    states = [
        slabs.sweep_slab(run, k, i, _known[name]).states
        for i in range(len(run.plan.passes[k].grid))
    ]
    _known[name] = merging.finish_pass(run, k, merging.merge(run.plan, k, states), _known[name])


def end(name):
    _runs[name].end()


def run(name):
    """The rest of a run."""
    run_local(_runs[name])
    _runs[name].end()


def computed(work, out, factor, options=None):
    """A whole run, which may continue or replace another."""
    bv.compute(
        *globals()[work](out, factor),
        slab=SLAB,
        workers=1,
        runner=None,
        progress=False,
        **options or {},
    )


def verified(out):
    return bv.verify(out, checksums=True)


def holds(work, out, factor):
    """Whether an output has the right voxels."""
    found = np.asarray(bv.open(out))
    if work == "read_back":
        kept = halved(voxels())
        again = f"{out}.again.zarr"
        bv.compute(*read_back(again, factor), runner=None, progress=False)
        same = np.array_equal(bv.open(f"{out}.2.zarr"), bv.open(f"{again}.2.zarr"))
        return bool(same and (found == kept).all())
    if work == "compared":
        kept = halved(voxels())
        return bool(
            (
                found == (kept * np.float32(factor) + kept.astype("f8").mean()).astype(found.dtype)
            ).all()
        )
    if work == "labelled":
        from scipy import ndimage

        return bool((found == ndimage.label(voxels() > 100)[0]).all())
    return bool((found == voxels() * np.uint16(factor)).all())
