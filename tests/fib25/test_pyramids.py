"""The stack and its true cells as pyramids: levels equal a reference, and other libraries read them."""

import numpy as np
import pytest
import tensorstore as ts
import zarr
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader

import beam_volumes as bv
from tests.tiers import thorough

try:  # Its libraries conflict with Beam's, so tests do not install it.
    import cloudvolume
except ImportError:
    cloudvolume = None

LEVELS = 4


def halved(a, method):
    """By its definition in `tensorstore`, which is held against another in tests/sweep/test_ends.py."""
    return ts.downsample(ts.array(a), [2, 2, 2], method).read().result()


@thorough
def test_pyramids_of_the_stack(stack, tmp_path):
    ngff_zarr = pytest.importorskip("ngff_zarr", reason="ngff-zarr needs Python 3.11")
    em = bv.open(stack.slices, voxel_size=10, unit="nm")[:96, :200]
    truth = bv.open(stack.truth()[0][:96, :200].astype("u8"), voxel_size=10, unit="nm")
    image, cells = tmp_path / "em.ome.zarr", tmp_path / "cells.precomputed"
    how = {"levels": LEVELS, "factors": 2}
    targets = (
        em.to(image, shards=(64, 128, 128), chunks=32, **how),
        truth.to(cells, chunks=32, shards=True, **how),
    )
    assert all(bv.plan(t).read_amplification == 1 for t in targets)
    bv.compute(*targets, runner=None)
    want = {"mean": [np.asarray(em)], "mode": [np.asarray(truth)]}
    for method, levels in want.items():
        for _ in range(LEVELS - 1):
            levels.append(halved(levels[-1], method))
    node = next(iter(Reader(parse_url(str(image)))()))
    images = ngff_zarr.from_ngff_zarr(str(image), validate=True).images
    for k in range(LEVELS):
        array = zarr.open_array(image / str(k), mode="r")
        spec = {"driver": "zarr3", "kvstore": f"file://{image}/{k}/"}
        read = array[:], node.data[k], images[k].data, ts.open(spec).result().read().result()
        for found in read:
            assert np.array_equal(np.asarray(found), want["mean"][k])
        assert images[k].scale == dict.fromkeys("zyx", 10.0 * 2**k)
        if cloudvolume is not None:
            volume = cloudvolume.CloudVolume(f"file://{cells}", mip=k, progress=False)
            assert np.array_equal(np.asarray(volume[:])[..., 0].T, want["mode"][k])
        spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{cells}/"}
        found = ts.open({**spec, "scale_index": k}).result()[..., 0].read().result().T
        assert np.array_equal(found, want["mode"][k])
    assert bv.verify(image) == []
