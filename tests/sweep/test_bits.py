"""One chain compiled for a plain processor and for this one: the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

from tests.tiers import thorough

CHAIN = """
import hashlib
import numpy as np
import beam_volumes as bv

rng = np.random.default_rng(7)
for dtype in ("f4",):
    x = (rng.random((17, 45, 61)) * 250).astype(dtype)
    v = bv.open(x)
    a = bv.gaussian_filter(v, (1.5, 1.0, 2.0)) - bv.gaussian_filter(v, 0.8, order=(1, 0, 0))
    a = a + bv.uniform_filter(v, (4, 3, 5)) / (bv.std(v) + 1)
    b = bv.convolve(a, rng.random((3, 2, 3)), mode="mirror") + bv.sobel(bv.median_filter(a, 3))
    c = bv.exp(-abs(b) / bv.max(abs(b))) + bv.log(1 + b * b) + bv.gaussian_gradient_magnitude(a, 1)
    d = bv.grey_closing(c, structure=rng.random((3, 3, 3)))
    d = bv.downsample(bv.zoom(bv.rotate(d, 20), (1.3, 0.9, 1.6)), (1, 2, 2))
    m = bv.binary_opening(d < bv.threshold_otsu(d))
    for result in bv.compute(a, b, c, d, m, bv.sum(d), bv.mean(c), bv.percentile(d, 37), runner=None):
        print(hashlib.sha256(np.ascontiguousarray(result).tobytes()).hexdigest())
"""


@thorough
def test_a_plain_processor_gives_the_same_bytes():
    outputs = []
    runs = []
    for cpu in ("generic", None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_CPU_")}
        if cpu:
            env["NUMBA_CPU_NAME"], env["NUMBA_CPU_FEATURES"] = cpu, ""
        root = Path(__file__).parents[2]
        runs.append(
            subprocess.Popen(
                [sys.executable, "-c", CHAIN], env=env, cwd=root, stdout=subprocess.PIPE, text=True
            )
        )
    for run in runs:
        outputs.append(run.communicate()[0].split())
        assert run.returncode == 0
    assert len(outputs[0]) == 8 and outputs[0] == outputs[1]
