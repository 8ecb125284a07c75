"""What the first call of a function costs in a new process, without and with compiled kernels.

Each call runs in fresh processes: with an empty cache of kernels, and then twice with the cache that the
first process has left. PYTHON may belong to an environment with a wheel of ``make wheel``, which should
compile nothing.

    python benchmarks/first_calls.py [PYTHON] [FUNCTION ...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

#: What people type first, for a volume, a mask or labels.
CALLS = {
    "gaussian_filter": "bv.gaussian_filter(v, 2)",
    "median_filter": "bv.median_filter(v, 3)",
    "uniform_filter": "bv.uniform_filter(v, 3)",
    "minimum_filter": "bv.minimum_filter(v, 3)",
    "maximum_filter": "bv.maximum_filter(v, 3)",
    "percentile_filter": "bv.percentile_filter(v, 30, 3)",
    "sobel": "bv.sobel(v)",
    "laplace": "bv.laplace(v)",
    "gaussian_gradient_magnitude": "bv.gaussian_gradient_magnitude(v, 1)",
    "convolve": "bv.convolve(v, np.ones((3, 3, 3)))",
    "grey_dilation": "bv.grey_dilation(v, 3)",
    "grey_erosion": "bv.grey_erosion(v, 3)",
    "grey_opening": "bv.grey_opening(v, 3)",
    "binary_dilation": "bv.binary_dilation(v > 100)",
    "binary_erosion": "bv.binary_erosion(v > 100)",
    "binary_closing": "bv.binary_closing(v > 100)",
    "binary_fill_holes": "bv.binary_fill_holes(v > 100)",
    "remove_small_objects": "bv.remove_small_objects(v > 100, 9)",
    "threshold_otsu": "bv.open(v) > bv.threshold_otsu(v)",
    "label": "bv.label(v > 100)",
    "regionprops_table": "bv.regionprops_table(bv.label(v > 100), v)",
    "watershed": "bv.watershed(v)",
    "distance_transform_edt": "bv.distance_transform_edt(v > 100)",
    "downsample": "bv.downsample(v, 2)",
    "zoom": "bv.zoom(v, 0.5)",
    "affine_transform": "bv.affine_transform(v, (1, 0.9, 0.9))",
    "rescale_intensity": "bv.rescale_intensity(v)",
    "histogram": "bv.histogram(v, bins=256, range=(0, 256))",
    "mean": "bv.mean(v)",
    "peak_local_max": "bv.peak_local_max(v)",
}
PROGRAM = """
import json, os, sys
import numpy as np
import beam_volumes as bv
from beam_volumes.kernels.jit import compilations

v = bv.open(np.random.default_rng(0).integers(0, 200, (20, 64, 64)).astype(sys.argv[2]))
with compilations() as found:
    bv.compute(eval(sys.argv[1]), progress=False)
print(json.dumps([sum(os.times()[:4]), len(found)]))
"""


def used(python: str, call: str, dtype: str, cache: str) -> tuple[float, int]:
    """Return the CPU seconds of a fresh process, and the kernels that it has compiled."""
    # In a folder without the package, the installed one is imported.
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [python, "-c", PROGRAM, call, dtype],
        env=environment, cwd=os.sep, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    seconds, compiled = json.loads(done.stdout)
    return seconds, compiled


def main() -> None:
    python, *names = sys.argv[1:] or [sys.executable]
    python = os.path.abspath(python)  # calls run in another folder
    print("| function | dtype | first | compiled | second | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    totals = [0.0, 0.0]
    for name in names or CALLS:
        for dtype in ("u1", "u2", "f4"):
            with tempfile.TemporaryDirectory() as cache:
                first, compiled = used(python, CALLS[name], dtype, cache)
                second = min(used(python, CALLS[name], dtype, cache)[0] for _ in range(2))
            totals = [totals[0] + first, totals[1] + second]
            print(
                f"| {name} | {dtype} | {first:.1f} | {compiled} | {second:.1f} | {first / second:.1f} |",
                flush=True,
            )
    print(f"| all | | {totals[0]:.0f} | | {totals[1]:.0f} | {totals[0] / totals[1]:.1f} |")


if __name__ == "__main__":
    main()
