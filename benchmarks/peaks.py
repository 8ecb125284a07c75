"""Predicted and measured peak memory by operation, each in a fresh process with compiled kernels on disk.

    python benchmarks/peaks.py [part of a row's name ...]

Each row runs twice, in its own process: the first run compiles missing kernels. A loaded machine reads and
writes less at once, so a peak may be lower than on an idle one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

import numpy as np
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.drive.compute import plan_run
from beam_volumes.plan.cost.machine import peak_memory
from beam_volumes.plan.run_options import RunOptions

MEMORY = "1GiB"
SHAPE = (64, 512, 512)
MIB = 1 << 20
HEAD = ("", "base, MiB", "predicted, MiB", "peak, MiB", "predicted / peak")

#: Calls on ``v``, an image of uint16. Volumes are written to zarr by default, tables to parquet.
ROWS = {
    "threshold": "v > 128",
    "uniform 3": "bv.uniform_filter(v, 3)",
    "gaussian 1": "bv.gaussian_filter(v, 1)",
    "gaussian 8": "bv.gaussian_filter(v, 8)",
    "median 3": "bv.median_filter(v, 3)",
    "ball dilation r=3": "bv.grey_dilation(v, footprint=bv.ball(3))",
    "unsharp mask": "bv.unsharp_mask(v, 2)",
    "median 3, gaussian 1, sobel": "bv.sobel(bv.gaussian_filter(bv.median_filter(v, 3), 1))",
    "hessian eigenvalue": "bv.hessian_matrix_eigvals(bv.hessian_matrix(v, 1))[0]",
    "tensor eigenvalue": "bv.structure_tensor_eigenvalues(bv.structure_tensor(v, 1))[0]",
    "frangi 1, 2, 3": "bv.frangi(v, (1, 2, 3), gamma=1)",
    "gaussian 1, Otsu": "(lambda s: s > bv.threshold_otsu(s))(bv.gaussian_filter(v, 1))",
    "label": "bv.label(v > 128)",
    "watershed": "bv.watershed(bv.gaussian_filter(v, 2))",
    "distance": "bv.distance_transform_edt(v > 128)",
    "region table": "bv.regionprops_table(bv.label(v > 128), v)",
    "reconstruction": "bv.reconstruction(bv.grey_erosion(v, 5), v)",
    "peak_local_max": "bv.peak_local_max(bv.gaussian_filter(v, 2), 3)",
    "zoom 0.5": "bv.zoom(v, 0.5)",
    "projection": "v.max(axis='z')",
    "to TIFF": "v.to(out + '.tif')",
    "pyramid": "v.to(out + '.ome.zarr', levels='auto')",
    "histogram": "bv.histogram(v, 256)[0]",
    "mean": "bv.mean(v)",
}


def image(shape: tuple[int, ...]) -> np.ndarray:
    """Bright blobs of some ten voxels on a dark ground."""
    smooth = ndi.gaussian_filter(np.random.default_rng(0).standard_normal(shape, np.float32), 4)
    return np.clip(128 + 40 * smooth / smooth.std(), 0, 999).astype("u2")


def measure(call: str, source: str, out: str) -> None:
    """Run a row, and print its predicted base and peak, and the measured peak."""
    target = eval(call, {"bv": bv, "v": bv.open(source), "out": out})
    if isinstance(target, bv.Volume):
        target = target.to(f"{out}.zarr")
    elif isinstance(target, bv.Table):
        target = target.to(f"{out}.parquet")
    plan = plan_run([target], RunOptions(memory=MEMORY, runner=None))
    bv.compute(target, memory=MEMORY, runner=None, progress=False)
    print(json.dumps([plan.base, plan.predicted_memory, peak_memory()]))


def main() -> None:
    if sys.argv[1:2] == ["--row"]:
        measure(*sys.argv[2:])
        return
    names = [n for n in ROWS if not sys.argv[1:] or any(part in n for part in sys.argv[1:])]
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/in.zarr"
        bv.compute(bv.open(image(SHAPE)).to(source), runner=None, progress=False)
        for k, name in enumerate(names):
            for attempt in ("compiled", "measured"):
                row = ["--row", ROWS[name], source, f"{folder}/{k}-{attempt}"]
                done = subprocess.run(
                    [sys.executable, __file__, *row], stdout=subprocess.PIPE, check=True
                )
            base, predicted, peak = json.loads(done.stdout)
            sizes = " | ".join(f"{size / MIB:.0f}" for size in (base, predicted, peak))
            print(f"| {name} | {sizes} | {predicted / peak:.2f} |", flush=True)


if __name__ == "__main__":
    main()
