"""HDF5: files that we wrote, read by h5py."""

from __future__ import annotations

import os

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import merging, slabs
from beam_volumes.session.begin import begin
from beam_volumes.storage.places.ownership import OutputExistsError
from tests.storage.files_of_h5py import SHAPE, voxels

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("codec", ["gzip", "lzf", "none", {"name": "gzip", "level": 9}])
@pytest.mark.parametrize("dtype", ["bool", "u1", "u2", "i4", "u8", "f2", "f4"])
def test_written_and_read_by_h5py(tmp_path, codec, dtype):
    path, array = tmp_path / "a.h5", voxels(dtype)
    array[8:] = 0  # chunks of zeros are not stored
    volume = bv.open(array, voxel_size=(4, 3, 2), unit="nm")
    back = bv.compute(volume.to(path, chunks=(4, 8, 5), codec=codec, dataset="a/b"), runner=None)
    with h5py.File(path) as file:
        node = file["a/b"]
        np.testing.assert_array_equal(node[...], array)
        np.testing.assert_allclose(node.attrs["element_size_um"], [0.004, 0.003, 0.002])
        assert [d.label for d in node.dims] == ["z", "y", "x"]
        assert node.chunks == (4, 8, 5) and node.attrs["axes"] == "zyx"
        assert node.id.get_num_chunks() == 2 * 3 * 4
    for found in (back, bv.open(path)):
        assert found.dtype == dtype and found.voxel_size == (4.0, 3.0, 2.0)
        assert found.unit == "nanometer"
        np.testing.assert_array_equal(np.asarray(found), array)
    assert bv.verify(path, checksums=True) == []
    kept = sorted(os.listdir(tmp_path / ".a.h5.parts"))
    assert kept == ["_beam_volumes.json", "_beam_volumes_provenance.json"]


def test_noise_is_stored_as_it_is(tmp_path):
    """A chunk that a codec makes longer is stored without it."""
    array = np.random.default_rng(0).integers(0, 256, (16, 64, 64)).astype("u1")
    for codec in ("gzip", "lzf"):
        path = tmp_path / f"{codec}.h5"
        bv.compute(bv.open(array).to(path, codec=codec), runner=None)
        assert path.stat().st_size < array.nbytes + 16384
        with h5py.File(path) as file:
            np.testing.assert_array_equal(file["data"][...], array)
        np.testing.assert_array_equal(np.asarray(bv.open(path)), array)


def test_where_voxels_lie_and_images(tmp_path):
    volume = bv.open(voxels(), voxel_size=(4, 3, 2), unit="um")[2:, 3:]
    bv.compute(volume.to(tmp_path / "a.h5"), runner=None)
    found = bv.open(tmp_path / "a.h5")
    assert found.origin == (8.0, 9.0, 0.0) and found.unit == "micrometer"
    image = bv.open(voxels(shape=(1, 20, 30))[0], voxel_size=(4, 5), unit="nm")
    bv.compute(image.to(tmp_path / "b.hdf5"), runner=None)
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert file["data"].shape == (20, 30)
    found = bv.open(tmp_path / "b.hdf5")
    assert found.axes == ("y", "x") and found.voxel_size == (4.0, 5.0)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(image))


@pytest.mark.parametrize("chunks", [None, (4, 8, 5), (1, 4, 8, 5), (3, 4, 8, 5)])
@pytest.mark.parametrize("codec", ["gzip", "none"])
def test_channels_are_written(tmp_path, chunks, codec):
    array = voxels("u2", (3, *SHAPE))
    volume = bv.stack([bv.open(a) for a in array], names=["DAPI", "GFP", "RFP"])
    path = tmp_path / "a.h5"
    back = bv.compute(volume.to(path, chunks=chunks, codec=codec), runner=None)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["data"][...], array)
        assert list(file["data"].attrs["channels"]) == ["DAPI", "GFP", "RFP"]
        assert file["data"].attrs["axes"] == "czyx"
        assert file["data"].chunks[0] == (chunks[0] if chunks and len(chunks) == 4 else 1)
    for found in (back, bv.open(path)):
        np.testing.assert_array_equal(np.asarray(found), array)
    np.testing.assert_array_equal(np.asarray(bv.open(path, index={"c": "GFP"})), array[1])
    assert bv.verify(path, checksums=True) == []


def test_options_that_are_refused(tmp_path):
    volume = bv.open(voxels())
    for how, told in (
        ({"codec": "zstd"}, "HDF5 supports gzip, lzf, none"),
        ({"codec": {"name": "gzip", "level": 11}}, "level from 0 to 9"),
        ({"codec": {"name": "lzf", "level": 1}}, "level from 0 to 9"),
        ({"dataset": "a//b"}, "give a path in the file"),
        ({"dataset": ""}, "give a path in the file"),
        ({"dataset": "a/../b"}, "give a path in the file"),
        ({"chunks": (1, 2)}, "give a positive whole number"),
    ):
        with pytest.raises(ValueError, match=told):
            volume.to(tmp_path / "a.h5", **how)
    with pytest.raises(ValueError, match="is a single file, for local disks"):
        volume.to("memory://a.h5")
    with pytest.raises(ValueError, match="HDF5 files are only read from a disk"):
        bv.open("memory://a.h5:/raw")


def test_a_run_goes_on_where_it_stopped(tmp_path):
    path, alone = tmp_path / "a.h5", tmp_path / "b.h5"

    def target(place):
        return bv.maximum_filter(bv.open(voxels()), 3).to(place, chunks=(2, 23, 17))

    bv.compute(target(alone), runner=None)
    first = begin(bv.plan(target(path), slab=(2, 23, 17)), RunOptions())
    first.prepare()
    for slab in (0, 3):
        slabs.sweep_slab(first, 0, slab, {})
    assert not path.exists()
    assert bv.verify(path)
    with pytest.raises(OutputExistsError, match="resume=True"):
        bv.compute(target(path), runner=None)
    bv.compute(target(path), runner=None, resume=True, slab=(2, 23, 17))
    assert path.read_bytes() == alone.read_bytes()
    merging.finish_pass(first, 0, {}, {})  # a late attempt
    bv.compute(target(path), runner=None, resume=True, slab=(2, 23, 17))
    assert path.read_bytes() == alone.read_bytes()
    assert bv.verify(path, checksums=True) == []
