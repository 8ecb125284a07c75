"""Compute on the CUDA device of numba's simulator, which a process chooses when it starts.

Run with NUMBA_ENABLE_CUDASIM=1: python -m tests.sweep.simulated_device
"""

from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np

import beam_volumes as bv
from beam_volumes.kernels.cuda import launching
from beam_volumes.sweep import cuda, device, devices
from beam_volumes.sweep.stage import Block
from tests import catalogue as cat
from tests.sweep.fake_device import FakeKvikio


def take_what_was_planned():
    """Refuse scratch memory that stages have not declared."""
    take = launching.Scratch.take

    def taken(*arguments):
        found = take(*arguments)
        assert found is not None, "device_scratch is too small"
        return found

    launching.Scratch.take = taken


def check_pieces():
    """Slices are copied in pieces of one, two and three, where the ring begins again, too."""
    for piece in (1, 60, 1 << 20):
        used = cuda.Cuda()
        with mock.patch.object(device, "_PIECE", piece), used.used():
            ring = used.empty((4, 3, 5), np.dtype("u2"))
            given = np.arange(60, dtype="u2").reshape(4, 3, 5)
            slots = np.array([3, 0, 1, 2])
            there = Block(ring, slots, 1, 1, 2, 3)
            used.to_device(Block(given, np.arange(4), 0, 2, 2, 3), there)
            back = np.zeros((4, 2, 3), "u2")
            used.to_host(there, Block(back, np.arange(4), 0, 0, 2, 3))
            assert (back == given[:, :2, 2:]).all()
        used.close()


def main():
    take_what_was_planned()
    check_pieces()
    (found,) = devices.listed()
    assert found.free > 0
    v = bv.open(cat.voxels((5, 6, 7), "f4", 1))
    smooth = bv.gaussian_filter(v, (0, 0.3, 0.3), mode="constant", cval=2)
    chain = bv.maximum_filter(smooth, (3, 1, 2)) - v
    small = bv.downsample(bv.zoom(v, (1, 2, 0.5), order=1), (2, 2, 1))
    turned = bv.affine_transform(v, [1, 0.9, 1], [0.2, 0, 1], order=1)
    # The simulator runs one kernel at a time.
    how = {"slab": (3, 6, 4), "window": 2, "workers": 1, "runner": None, "progress": False}
    ordered = bv.hessian_matrix_eigvals(bv.hessian_matrix(v[:3], 0.2))
    masked = bv.where(smooth > 1.5, bv.exp(-smooth) * 2, v).astype("u1")
    far = bv.distance_transform_edt(v < 5, (2, 1.5, 0.7))
    targets = [masked, chain, small, turned, ordered[0], bv.flip(smooth, 1), far]
    targets += [bv.label(smooth > 1.5, connectivity=3)]
    for target in targets:
        assert bv.plan(target, device="cuda", device_memory="1GiB").uses_device
        ours = bv.compute(target, device="cuda", device_memory="1GiB", **how)
        expected = bv.compute(target, **how)
        assert np.asarray(ours).tobytes() == np.asarray(expected).tobytes()
    masked = bv.mean(smooth, mask=smooth > 1.5)
    for number in masked, bv.threshold_otsu(smooth > 0), bv.percentile(smooth, 20):
        found = bv.compute(number, device="cuda", device_memory="1GiB", **how)
        assert found == bv.compute(number, **how)
    check_direct_reads(how)
    assert cuda.devices()


def check_direct_reads(how):
    """Chunks of a volume, some of them cut or missing, are read to the device by kvikio's functions."""
    voxels = cat.voxels((5, 6, 7), "f4", 2)
    voxels[:2, :4] = 0
    with TemporaryDirectory() as folder, FakeKvikio().installed() as kvikio:
        stored = bv.open(voxels).to(f"{folder}/v.zarr", chunks=(2, 4, 4), codec="none")
        v = bv.maximum_filter(bv.compute(stored, runner=None), 3)
        ours = bv.compute(v, device="cuda", device_memory="1GiB", **how)
        assert (
            kvikio.read and np.asarray(ours).tobytes() == np.asarray(bv.compute(v, **how)).tobytes()
        )


if __name__ == "__main__":
    main()
