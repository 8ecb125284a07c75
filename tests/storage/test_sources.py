"""Finding out what a path, spec or array is."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.storage import make_sink, open_source, unit_name, write_units
from beam_volumes.storage.inputs import arrays
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.place import kvstore_spec, url


@pytest.mark.parametrize(
    ("place", "spec"),
    [
        ("s3://bucket/a/b.zarr", {"driver": "s3", "bucket": "bucket", "path": "a/b.zarr"}),
        ("gs://bucket/a b?#.zarr", {"driver": "gcs", "bucket": "bucket", "path": "a b?#.zarr"}),
        ("file:///tmp/a%20b", {"driver": "file", "path": "/tmp/a b"}),
        ("memory://x/y", {"driver": "memory", "path": "x/y"}),
        (
            "https://host/a%20b?v=1",
            {"driver": "http", "base_url": "https://host?v=1", "path": "/a b"},
        ),
    ],
)
def test_urls(place: str, spec: dict) -> None:
    assert kvstore_spec(place) == spec
    assert url(spec) == place.replace("v=1", "...").removeprefix("file://").replace(
        "/tmp/a%20b", "/tmp/a b"
    )


def test_remote_sinks_are_described_without_network() -> None:
    sink = make_sink("gs://bucket/out.ome.zarr", shape=(10, 20, 30), dtype="f4")
    assert sink.name == "gs://bucket/out.ome.zarr" == url(sink.kvstore)
    assert sink.portable and sink.read_back().portable and sink.read_back().reader.remote


def test_memory_stays_in_its_process() -> None:
    array = np.arange(24, dtype="u1").reshape(2, 3, 4)
    sink = make_sink("memory://out.zarr", shape=array.shape, dtype="u1")
    sink.create("run")
    write_units(sink.open(), Box.of_shape(array.shape), array).result()
    source = open_source("memory://out.zarr")
    assert not source.portable and not sink.portable
    np.testing.assert_array_equal(source.read(), array)


def test_numpy_arrays() -> None:
    array = np.arange(24, dtype=">u2").reshape(2, 3, 4)[:, ::-1]
    source = pickle.loads(pickle.dumps(open_source(array)))
    assert source.portable and source.dtype == np.dtype("u2")
    assert source.token() == open_source(array.copy()).token()
    assert source.token() != open_source(array + 1).token()
    np.testing.assert_array_equal(source.read(), array)
    assert not open_source(np.zeros((2, 800, 800))).portable
    assert open_source(np.zeros((5, 6), bool)).read().dtype == bool
    for bad in (np.zeros((2, 3, 4), "c8"), np.zeros(3), np.zeros((1,) * 6)):
        with pytest.raises(ValueError, match="numpy array"):
            open_source(bad)


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("nowhere", FileNotFoundError, "does not exist"),
        ("ftp://a/b", ValueError, "s3://"),
        (3, TypeError, "or an array"),
        ({"driver": "file", "path": "/x"}, ValueError, "TensorStore spec"),
    ],
)
def test_what_cannot_be_opened(what, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_source(what)


def test_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"notes\.txt.*OME-Zarr"):
        open_source(tmp_path)
    with pytest.raises(ValueError, match="a file of an unknown format"):
        open_source(tmp_path / "notes.txt")


def test_voxel_size_and_unit() -> None:
    array = np.zeros((2, 3, 4), "u1")
    assert open_source(array, voxel_size=4, unit="nm").space.voxel_size == (4.0, 4.0, 4.0)
    assert unit_name("µm") == unit_name("micron") == "micrometer"
    with pytest.raises(ValueError, match="nanometer"):
        open_source(array, unit="parsec")
    for bad in ((1, 2), 0, -1, (1, 2, float("nan"))):
        with pytest.raises(ValueError, match="voxel_size"):
            open_source(array, voxel_size=bad)


def test_crops_of_crops() -> None:
    array = np.random.default_rng(0).integers(0, 99, (9, 10, 11)).astype("i4")
    source = open_source(array, voxel_size=(1, 2, 3))
    crop = source.crop(Box((1, 2, 3), (8, 9, 10))).crop(Box((1, 1, 1), (3, 4, 5)))
    np.testing.assert_array_equal(crop.read(), array[2:4, 3:6, 4:8])
    assert crop.space.origin == (2.0, 6.0, 12.0)
    assert crop.token() != source.token()
    with pytest.raises(ValueError, match="outside"):
        crop.crop(Box((0, 0, 0), (3, 3, 3)))


def test_handles_open_once() -> None:
    calls: list[int] = []
    for _ in range(3):
        opened("test handle", lambda: calls.append(1) or object())
    assert len(calls) == 1


def test_opening_a_map_of_a_file_does_not_read_it(tmp_path, monkeypatch) -> None:
    def read(array):
        raise AssertionError("read as a whole")

    x = np.random.default_rng(0).integers(0, 1000, (90, 130, 150)).astype(">u2")
    np.save(tmp_path / "a.npy", x)
    monkeypatch.setattr(arrays, "_pieces", read)
    expected = ndi.maximum_filter(x.astype("u2"), 3)
    how = {"runner": None, "progress": False, "window": 5}
    tokens = []
    for mode in ("r", "r+"):
        mapped = np.load(tmp_path / "a.npy", mmap_mode=mode)
        source = open_source(mapped)
        tokens.append(source.token())
        assert source.dtype == np.dtype("u2") and not source.portable
        found = bv.compute(bv.maximum_filter(bv.open(mapped), 3), **how)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(source.read(Box((3, 2, 1), (9, 8, 7))), x[3:9, 2:8, 1:7])
        part = np.asarray(mapped)[:, ::-2, 4:]
        np.testing.assert_array_equal(open_source(part).read(), x[:, ::-2, 4:])
        assert (
            len({tokens[0], open_source(part).token(), open_source(mapped[:, :, 4:]).token()}) == 3
        )
    assert tokens[0] == tokens[1] == open_source(np.asarray(mapped)).token()
    # What is written to the map, or to the file, is another volume; so is the file of another time.
    mapped[20, 3, 4] += 1
    tokens.append(open_source(mapped).token())
    np.save(tmp_path / "a.npy", x + 1)
    tokens.append(open_source(np.load(tmp_path / "a.npy", mmap_mode="r")).token())
    np.save(tmp_path / "b.npy", x)
    tokens.append(open_source(np.load(tmp_path / "b.npy", mmap_mode="r")).token())
    assert len(set(tokens[1:])) == 4
    # Changes of a map of mode "c" are known to this process alone: its voxels identify it.
    private = np.load(tmp_path / "b.npy", mmap_mode="c")
    with pytest.raises(AssertionError, match="as a whole"):
        open_source(private).token()


@pytest.mark.parametrize("dtype", [">u2", ">i4", ">f4", ">f8", "<u8", ">f2"])
def test_bytes_in_another_order_are_swapped_where_they_are_read(dtype: str) -> None:
    x = (np.random.default_rng(0).random((9, 20, 21)) * 1000).astype(dtype)
    native = x.astype(x.dtype.newbyteorder("="))
    source = open_source(x)
    assert np.shares_memory(source.array, x)
    assert source.token() == open_source(native).token()
    volume = bv.open(x)
    for part, expected in (
        (volume, native),
        (bv.transpose(volume), native.T),
        (bv.flip(volume, 0), native[::-1]),
        (volume[2:, :, 3:], native[2:, :, 3:]),
    ):
        found = bv.compute(part, runner=None, progress=False)
        assert found.dtype == native.dtype
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(source.open()[2:5].read().result(), native[2:5])
    np.testing.assert_array_equal(np.asarray(volume[3]), native[3])


def test_where_a_specs_domain_begins_is_the_origin(tmp_path) -> None:
    spec = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/a"},
        "metadata": {
            "dimensions": [30, 20, 10],
            "blockSize": [8, 8, 8],
            "dataType": "uint8",
            "compression": {"type": "raw"},
            "axes": ["x", "y", "z"],
            "units": ["nm"] * 3,
            "resolution": [4, 5, 40],
        },
    }
    store = ts.open(spec, create=True).result()
    part = store[3:20, 2:10, 1:9]
    source = open_source(part)
    assert source.shape == (8, 8, 17) and source.space.unit == "nanometer"
    assert source.space.origin == (40.0, 10.0, 12.0) and source.chunk_origin == (-1, -2, -3)
    moved = store[ts.d[:].translate_to[7, 8, -9]]
    assert open_source(moved.spec()).space.origin == (-360.0, 40.0, 28.0)
    # Without a voxel size it is counted in voxels; the user may give their size.
    del spec["metadata"]["resolution"], spec["metadata"]["units"]
    spec["kvstore"]["path"] += "b"
    bare = ts.open(spec, create=True).result()[3:20, 2:10, 1:9]
    assert open_source(bare).space.origin == (1.0, 2.0, 3.0)
    assert open_source(bare, voxel_size=(40, 5, 4)).space.origin == (40.0, 10.0, 12.0)


def test_web_servers_are_not_written_to(tmp_path) -> None:
    v = bv.open(np.zeros((2, 3, 4), "u1"))
    with pytest.raises(ValueError, match=r"^https://example.org/a.zarr: web servers are read-only"):
        v.to("https://example.org/a.zarr")
    with pytest.raises(ValueError, match="web servers"):
        bv.compute(v.to(tmp_path / "a.zarr"), runner=None, journal="https://example.org/run")
    with pytest.raises(ValueError, match="contains no server"):
        bv.open("https:///a.zarr")
    with pytest.raises(ValueError, match="a user and a password"):
        bv.open("https://me:1234@example.org/a.zarr")
