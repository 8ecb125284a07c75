"""Compute on the CUDA device of numba's simulator, which a process chooses when it starts.

Run with NUMBA_ENABLE_CUDASIM=1: python -m tests.sweep.simulated_device
"""

import numpy as np

import beam_volumes as bv
from beam_volumes.kernels.cuda import launching
from beam_volumes.sweep import cuda, device
from tests import catalogue as cat


def take_what_was_planned():
    """Refuse scratch memory that stages have not declared."""
    take = launching.Scratch.take

    def taken(*arguments):
        found = take(*arguments)
        assert found is not None, "device_scratch is too small"
        return found

    launching.Scratch.take = taken


def main():
    take_what_was_planned()
    (found,) = device.listed()
    assert found.free > 0
    v = bv.open(cat.voxels((5, 6, 7), "f4", 1))
    smooth = bv.gaussian_filter(v, (0, 0.3, 0.3), mode="constant", cval=2)
    chain = bv.maximum_filter(smooth, (3, 1, 2)) - v
    small = bv.downsample(bv.zoom(v, (1, 2, 0.5), order=1), (2, 2, 1))
    turned = bv.affine_transform(v, [1, 0.9, 1], [0.2, 0, 1], order=1)
    how = {"slab": (3, 6, 4), "window": 2, "runner": None, "progress": False}
    ordered = bv.hessian_matrix_eigvals(bv.hessian_matrix(v[:3], 0.2))
    masked = bv.where(smooth > 1.5, bv.exp(-smooth) * 2, v).astype("u1")
    targets = masked, chain, small, turned, ordered[0], bv.flip(smooth, 1)
    for target in targets:
        assert bv.plan(target, device="cuda", device_memory="1GiB").uses_device
        ours = bv.compute(target, device="cuda", device_memory="1GiB", **how)
        expected = bv.compute(target, **how)
        assert np.asarray(ours).tobytes() == np.asarray(expected).tobytes()
    masked = bv.mean(smooth, mask=smooth > 1.5)
    for number in masked, bv.threshold_otsu(smooth > 0), bv.percentile(smooth, 20):
        found = bv.compute(number, device="cuda", device_memory="1GiB", **how)
        assert found == bv.compute(number, **how)
    assert cuda.devices()


if __name__ == "__main__":
    main()
