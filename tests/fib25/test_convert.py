"""Slices go through the formats of several fields, by the command; voxels and voxel size survive."""

import numpy as np

import beam_volumes as bv
from beam_volumes.cli.main import main

WAY = [
    ("a.ome.zarr", ["--crop", "0:40", "--shard", "auto", "--voxel-size", "8", "--unit", "nm"]),
    ("b.precomputed", []),
    ("c.h5", ["--chunk", "16,64,64"]),
    ("d.tif", []),
    ("e.mrc", ["--dtype", "uint16"]),
    ("f.zarr", ["--dtype", "uint8", "--codec", "blosc"]),
]


def test_from_slices_to_zarr(stack, tmp_path, capsys):
    voxels = np.asarray(bv.open(stack.slices)[:40])
    at = str(stack.slices)
    for name, how in WAY:
        out = str(tmp_path / name)
        assert main(["convert", at, out, "--runner", "none", "--quiet", *how]) == 0, (
            capsys.readouterr()
        )
        volume = bv.open(out)
        np.testing.assert_array_equal(volume, voxels)
        size = volume.space.in_unit("nanometer").voxel_size
        np.testing.assert_allclose(size, (8, 8, 8), rtol=1e-6)
        assert bv.verify(out) == []
        at = out
    assert volume.dtype == "u1"
    capsys.readouterr()
    assert main(["info", at, "--check"]) == 0
