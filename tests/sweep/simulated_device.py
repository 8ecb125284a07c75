"""Compute on the CUDA device of numba's simulator, which a process chooses when it starts.

Run with NUMBA_ENABLE_CUDASIM=1: python -m tests.sweep.simulated_device
"""

import numpy as np

import beam_volumes as bv
from beam_volumes.sweep import cuda, device
from tests import catalogue as cat


def main():
    (found,) = device.listed()
    assert found.free > 0
    v = bv.open(cat.voxels((5, 6, 7), "f4", 1))
    smooth = bv.gaussian_filter(v, (0, 0.3, 0.3), mode="constant", cval=2)
    chain = bv.maximum_filter(smooth, (3, 1, 2)) - v
    how = {"slab": (3, 6, 4), "window": 2, "runner": None, "progress": False}
    ours = bv.compute(chain, device="cuda", device_memory="1GiB", **how)
    expected = bv.compute(chain, **how)
    assert np.asarray(ours).tobytes() == np.asarray(expected).tobytes()
    assert cuda.devices()


if __name__ == "__main__":
    main()
