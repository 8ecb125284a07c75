"""Zarr in zip files, written by zarr-python."""

import pickle
import zipfile

import numpy as np
import pytest
import zarr

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.storage import open_source

SHAPE = (21, 47, 33)


def voxels(dtype="u2"):
    found = np.random.default_rng(0).integers(0, 99, SHAPE).astype(dtype)
    found[:8, :16, :16] = 0
    return found


def zipped(path, array, zarr_format=3, inside="", **how):
    """An array in a zip file that zarr-python writes."""
    with zarr.storage.ZipStore(path, mode="w") as store:
        if inside:
            zarr.create_group(store, zarr_format=zarr_format)
        of = zarr.create_array(
            store,
            name=inside or None,
            shape=array.shape,
            dtype=array.dtype,
            chunks=(8, 16, 16),
            zarr_format=zarr_format,
            **how,
        )
        of[:] = array
    return array


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["a.zarr.zip", "a.zip"])
@pytest.mark.parametrize("dtype", ["u1", ">i2", "f8", "bool"])
def test_written_by_zarr(tmp_path, dtype, name, zarr_format):
    array = voxels("u1") > 50 if dtype == "bool" else voxels(dtype)
    if zarr_format == 3:
        array = array.astype(array.dtype.newbyteorder("="))
    zipped(tmp_path / name, array, zarr_format)
    source = pickle.loads(pickle.dumps(open_source(tmp_path / name)))
    assert source.name == str(tmp_path / name) and source.chunk == (8, 16, 16)
    assert source.portable and not source.reader.remote
    np.testing.assert_array_equal(source.read(), array)
    box = Box((3, 10, 15), (17, 33, 31))
    np.testing.assert_array_equal(source.read(box), array[box.slices])


def test_shards_groups_and_folders(tmp_path):
    array = zipped(tmp_path / "a.zip", voxels(), shards=(16, 32, 32))
    np.testing.assert_array_equal(bv.open(tmp_path / "a.zip"), array)
    zipped(tmp_path / "b.zip", array, inside="raw/em")
    np.testing.assert_array_equal(bv.open(tmp_path / "b.zip", dataset="raw/em"), array)
    with pytest.raises(ValueError, match=r"b\.zip is a zarr group"):
        bv.open(tmp_path / "b.zip")
    # What zipping a folder gives: all is in it.
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with (
            zipfile.ZipFile(tmp_path / "a.zip") as old,
            zipfile.ZipFile(tmp_path / "c.zip", "w", compression) as new,
        ):
            for item in old.namelist():
                new.writestr(f"a.zarr/{item}", old.read(item))
        np.testing.assert_array_equal(bv.open(tmp_path / "c.zip"), array)


def test_an_image_of_ome_zarr(tmp_path):
    v = bv.open(voxels(), voxel_size=(4, 2, 2), unit="nm")
    bv.compute(v.to(tmp_path / "a.ome.zarr", chunks=8), runner=None)
    with zipfile.ZipFile(tmp_path / "a.ozx", "w") as out:
        for file in (tmp_path / "a.ome.zarr").rglob("*"):
            if file.is_file():
                out.write(file, file.relative_to(tmp_path / "a.ome.zarr"))
    found = bv.open(tmp_path / "a.ozx")
    assert found.voxel_size == (4, 2, 2) and found.unit == "nanometer"
    np.testing.assert_array_equal(found, v)
    out = bv.compute(bv.maximum_filter(found, 3).to(tmp_path / "o.zarr"), runner=None, workers=2)
    np.testing.assert_array_equal(out, bv.maximum_filter(v, 3))


def test_damage_is_found(tmp_path):
    zipped(tmp_path / "a.zip", voxels())
    data = (tmp_path / "a.zip").read_bytes()
    for length in (0, 3, 10, len(data) // 2, len(data) - 1, len(data) - 30):
        (tmp_path / "b.zip").write_bytes(data[:length])
        with pytest.raises(OSError, match=r"b\.zip.*damaged"):
            bv.open(tmp_path / "b.zip")
    (tmp_path / "b.zip").write_bytes(data[:5000] + bytes(5000) + data[10000:])
    with pytest.raises(OSError, match="reading"):
        open_source(tmp_path / "b.zip").read()
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as out:
        out.writestr("notes.txt", "x")
    with pytest.raises(ValueError, match=r"without zarr metadata; it contains notes\.txt"):
        bv.open(tmp_path / "c.zip")
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(tmp_path / "a.zip", "a") as out,
    ):
        out.writestr("c/1/1/1", b"")
    with pytest.raises(OSError, match="Duplicate"):
        bv.open(tmp_path / "a.zip")


def test_it_is_not_written_to(tmp_path):
    zipped(tmp_path / "a.zip", voxels())
    v = bv.open(tmp_path / "a.zip")
    with pytest.raises(ValueError, match="is also an input"):
        bv.compute((v + 1).to(tmp_path / "a.zip", format="zarr"), runner=None)
    with pytest.raises(ValueError, match="zip files are read-only"):
        v.to({"driver": "zip", "base": {"driver": "file", "path": "/b.zip"}, "path": "a.zarr"})


@pytest.mark.parametrize("kind", ["ratio", "method", "encrypted", "name"])
def test_what_the_zip_reader_leaves_out_is_not_read_as_fill(tmp_path, kind):
    path = tmp_path / "a.zip"
    method = zipfile.ZIP_DEFLATED if kind == "ratio" else zipfile.ZIP_STORED
    with zarr.storage.ZipStore(path, mode="w", compression=method) as store:
        shape = (4 if kind == "ratio" else 1, 1024, 1024)
        of = zarr.create_array(store, shape=shape, chunks=shape, dtype="u1", compressors=None)
        of[:] = 255
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)  # the chunk, in the directory
    if kind == "method":
        data[at + 10] = 14
    elif kind == "encrypted":
        data[at + 8] |= 1
    elif kind == "name":
        data[at + 46 : at + 47] = b"/"
    path.write_bytes(data)
    for what in (path, {"driver": "zarr3", "kvstore": f"file://{path}|zip:"}):
        with pytest.raises(
            ValueError, match=r"a\.zip: .* cannot be read from the zip file; unzip it"
        ):
            bv.open(what)
