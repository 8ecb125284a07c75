"""Neuroglancer's precomputed volumes, written by TensorStore and read by us, and the other way round."""

import gzip
import json
import pickle

import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.storage import make_sink, open_source, read_into, write_units
from beam_volumes.storage.formats.chunked.precomputed_shards import shard_layouts
from tests.storage.test_odd_metadata import refusals
from tests.storage.test_zarr import counted, counters

SIZE = (33, 47, 21)  # x, y, z
OFFSET = (5, -6, 7)
SHARDED = {
    "@type": "neuroglancer_uint64_sharded_v1",
    "preshift_bits": 1,
    "minishard_bits": 2,
    "shard_bits": 3,
    "hash": "identity",
    "minishard_index_encoding": "gzip",
    "data_encoding": "gzip",
}
HASHED = {**SHARDED, "hash": "murmurhash3_x86_128", "data_encoding": "raw"}


def foreign(path, array, level=None, encoding="raw", type="image", sharding=None, **scale):
    """A volume that TensorStore writes; the array's axes are x, y, z and channels."""
    if encoding == "compressed_segmentation":
        scale = {"compressed_segmentation_block_size": [8, 8, 8], **scale}
    if sharding is not None:
        scale = {"sharding": sharding, **scale}
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": {"driver": "file", "path": f"{path}/"},
        "multiscale_metadata": {
            "data_type": array.dtype.name,
            "num_channels": array.shape[3],
            "type": type,
        },
        "scale_metadata": {
            "size": list(array.shape[:3]),
            "chunk_size": [16, 16, 8],
            "encoding": encoding,
            "resolution": [4, 5, 40],
            "voxel_offset": list(OFFSET),
            **scale,
        },
    }
    ts.open(spec, create=True).result()[...] = array
    return array[..., 0].T


def voxels(dtype="u2", size=SIZE, channels=1):
    found = np.random.default_rng(0).integers(0, 99, (*size, channels)).astype(dtype)
    found[:16, :16, :8] = 0  # a chunk of zeros is not stored
    return found


@pytest.mark.parametrize("sharding", [None, SHARDED, HASHED])
@pytest.mark.parametrize(
    ("dtype", "encoding"),
    [
        *((t, "raw") for t in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "f4")),
        ("u1", "png"),
        ("u2", "png"),
        ("u4", "compressed_segmentation"),
        ("u8", "compressed_segmentation"),
    ],
)
def test_written_by_tensorstore(tmp_path, dtype, encoding, sharding):
    array = foreign(tmp_path / "a", voxels(dtype), encoding=encoding, sharding=sharding)
    source = pickle.loads(pickle.dumps(open_source(tmp_path / "a")))
    assert source.dtype == dtype and source.shape == SIZE[::-1]
    assert source.chunk == (8, 16, 16) and source.chunk_origin == (0, 0, 0)
    assert source.space.voxel_size == (40.0, 5.0, 4.0) and source.space.unit == "nanometer"
    assert source.space.origin == (280.0, -30.0, 20.0)
    np.testing.assert_array_equal(source.read(), array)
    box = Box((3, 10, 15), (17, 33, 31))
    np.testing.assert_array_equal(source.read(box), array[box.slices])


def test_jpeg_and_several_channels(tmp_path):
    x, y, z, c = np.indices((*SIZE, 3))
    smooth = (2 * x + y + z + 20 * c).astype("u1")
    foreign(tmp_path / "a", smooth, encoding="jpeg", jpeg_quality=100)
    found = open_source(tmp_path / "a", index={"c": 1}).read()
    assert np.abs(found.astype(int) - smooth[..., 1].T).max() < 12
    foreign(tmp_path / "b", voxels(channels=3))
    found = bv.open(f"precomputed://{tmp_path}/b")
    assert found.axes == ("c", "z", "y", "x")
    np.testing.assert_array_equal(found, voxels(channels=3).T)
    one = open_source(f"precomputed://{tmp_path}/b", index={"c": 2})
    np.testing.assert_array_equal(one.read(), voxels(channels=3)[..., 2].T)


@pytest.mark.parametrize("how", [{}, {"shards": True}, {"codec": "jpeg"}, {"codec": "png"}])
def test_several_channels_are_written(tmp_path, how):
    array = np.indices((3, 21, 47, 33)).sum(0).astype("u1")
    v = bv.open(array, index=None)
    path = tmp_path / "a.precomputed"
    back = bv.compute(v.to(path, chunks=(8, 16, 16), **how), runner=None)
    most = 12 if "jpeg" in how.values() else 0
    for found in (back, bv.open(path), theirs(path).read().result().T):
        assert np.abs(np.asarray(found).astype(int) - array).max() <= most
    assert bv.verify(path, checksums=True) == []
    with pytest.raises(ValueError, match="codec='jpeg' supports 1 or 3 channels, not 2"):
        v[:2].to(path, codec="jpeg")


def test_a_filter_of_it(tmp_path):
    array = foreign(tmp_path / "a", voxels())
    found = bv.compute(
        bv.maximum_filter(bv.open(tmp_path / "a"), 3)[2:, 5:].to(tmp_path / "o.precomputed"),
        runner=None,
    )
    expected = np.asarray(bv.maximum_filter(bv.open(array), 3))[2:, 5:]
    np.testing.assert_array_equal(found, expected)
    assert found.origin == (360.0, -5.0, 20.0)
    assert bv.open(tmp_path / "o.precomputed").origin == found.origin
    info = json.loads((tmp_path / "o.precomputed/info").read_text())
    assert info["scales"][0]["voxel_offset"] == [5, -1, 9]


def test_scales(tmp_path):
    fine = foreign(tmp_path / "a", voxels())
    coarse = foreign(
        tmp_path / "a", voxels(size=(17, 24, 21)), resolution=[8, 10, 40], voxel_offset=[2, -3, 7]
    )
    for how, expected in (
        ({}, fine),
        ({"level": 0}, fine),
        ({"level": 1}, coarse),
        ({"dataset": "8_10_40"}, coarse),
    ):
        np.testing.assert_array_equal(bv.open(tmp_path / "a", **how), expected)
    source = open_source(tmp_path / "a", level=1)
    # The centre of the first coarse voxel is amid the fine ones 4 and 5, -6 and -5.
    assert source.space.origin == (280.0, -27.5, 18.0)
    assert source.name == f"{tmp_path}/a/8_10_40"
    with pytest.raises(ValueError, match="has the levels 0 to 1"):
        open_source(tmp_path / "a", level=2)
    with pytest.raises(ValueError, match="has the scales 4_5_40, 8_10_40"):
        open_source(tmp_path / "a", dataset="x")
    with pytest.raises(ValueError, match="both choose"):
        open_source(tmp_path / "a", dataset="4_5_40", level=0)


def test_a_missing_chunk_is_data_unless_it_is_said_not_to_be(tmp_path):
    array = foreign(tmp_path / "a", voxels())
    np.testing.assert_array_equal(open_source(tmp_path / "a", missing="fill").read(), array)
    strict = open_source(tmp_path / "a", missing="error")
    np.testing.assert_array_equal(strict.read(Box((8, 0, 0), (21, 9, 9))), array[8:, :9, :9])
    with pytest.raises(FileNotFoundError, match="chunk"):
        strict.read(Box((0, 0, 0), (1, 1, 1)))
    with pytest.raises(ValueError, match="missing='never'"):
        open_source(tmp_path / "a", missing="never")
    foreign(tmp_path / "b", voxels(), sharding=SHARDED)
    with pytest.raises(ValueError, match="missing chunks of shards are always read"):
        open_source(tmp_path / "b", missing="error")


def test_what_is_not_read_is_said(tmp_path):
    foreign(tmp_path / "a", voxels())
    chunk = next(p for p in (tmp_path / "a/4_5_40").iterdir())
    packed = chunk.rename(f"{chunk}.br")
    with pytest.raises(ValueError, match=r"compressed files \(\.br\).*brotli -d"):
        open_source(tmp_path / "a")
    packed.rename(chunk)
    info = json.loads((tmp_path / "a/info").read_text())
    info["scales"][0]["encoding"] = "compresso"
    (tmp_path / "a/info").write_text(json.dumps(info))
    with pytest.raises(
        ValueError, match="encoded as 'compresso'; the supported encodings are raw, jpeg"
    ):
        open_source(tmp_path / "a")
    (tmp_path / "a/info").write_text('{"@type": "neuroglancer_annotations_v1"}')
    with pytest.raises(ValueError, match="contains annotations v1 of Neuroglancer, not voxels"):
        open_source(tmp_path / "a")
    (tmp_path / "a/info").write_text("read me")
    with pytest.raises(ValueError, match="an unknown format"):
        open_source(tmp_path / "a")


@pytest.mark.parametrize(
    ("dtype", "encoding"), [("u2", "raw"), ("u8", "compressed_segmentation"), ("u1", "png")]
)
def test_chunks_with_gzip_around_them(tmp_path, dtype, encoding):
    """As cloud-volume writes them on a disk by default."""
    array = voxels(dtype, channels=2)
    foreign(tmp_path / "a", array, encoding=encoding)
    for k, chunk in enumerate(sorted((tmp_path / "a/4_5_40").iterdir())):
        if k % 5:
            chunk.with_name(f"{chunk.name}.gz").write_bytes(gzip.compress(chunk.read_bytes()))
            chunk.unlink()
    np.testing.assert_array_equal(bv.open(tmp_path / "a"), array.T)
    source = pickle.loads(pickle.dumps(open_source(tmp_path / "a", index={"c": 1})))
    np.testing.assert_array_equal(source.read(), array[..., 1].T)
    strict = open_source(tmp_path / "a", index={"c": 1}, missing="error")
    assert strict.token() != source.token()
    with pytest.raises(OSError, match="5-21_-6-10_7-15 is missing"):
        strict.read()
    packed = next((tmp_path / "a/4_5_40").glob("*.gz"))
    for data in (packed.read_bytes()[:-20], b"x" * 40, gzip.compress(bytes(10 << 20))):
        packed.write_bytes(data)
        with pytest.raises(OSError, match=r"\.gz is damaged"):
            source.read()


def test_damage_is_found(tmp_path):
    foreign(tmp_path / "a", voxels())
    chunk = tmp_path / "a/4_5_40/21-37_-6-10_7-15"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(OSError, match="4095"):
        open_source(tmp_path / "a").read()
    foreign(tmp_path / "b", voxels(), sharding=SHARDED)
    for shard in (tmp_path / "b/4_5_40").iterdir():
        shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(OSError, match="shard"):
        open_source(tmp_path / "b").read()


@pytest.mark.parametrize("chunk", [[10**9] * 3, [-5, 5, 5], [0, 1, 1], "x", [2**62] * 3])
def test_absurd_chunks_are_refused(tmp_path, chunk):
    foreign(tmp_path / "a", voxels())
    info = json.loads((tmp_path / "a/info").read_text())
    info["scales"][0]["chunk_sizes"] = [chunk]
    info["scales"][0]["size"] = [10**10] * 3
    (tmp_path / "a/info").write_text(json.dumps(info))
    with pytest.raises((ValueError, OSError), match=f"{tmp_path}/a"):
        open_source(tmp_path / "a")


ODD = [None, 5, -1, True, "x", [], [1], {}, [None], [-5, 3, 4], [10**30] * 3, float("nan")]


def test_odd_metadata_are_told_of_by_name(tmp_path):
    foreign(tmp_path / "a", voxels(), sharding=SHARDED)
    file = tmp_path / "a" / "info"
    good = json.loads(file.read_text())
    places = [(k,) for k in good] + [("scales", 0)]
    places += [("scales", 0, k) for k in good["scales"][0]]
    places += [("scales", 0, "sharding", k) for k in good["scales"][0]["sharding"]]

    def opening():
        assert bv.open(tmp_path / "a").dtype == "u2"

    assert refusals(file, good, places, ODD, opening, str(tmp_path)) > 100


# -- written by us -----------------------------------------------------------------------------------


def theirs(path, **how):
    """What TensorStore reads, z, y, x."""
    spec = {"driver": "neuroglancer_precomputed", "kvstore": {"driver": "file", "path": f"{path}/"}}
    return ts.open({**spec, **how}).result()


@pytest.mark.parametrize(
    ("dtype", "how"),
    [
        ("u1", {}),
        ("i1", {"shards": True}),
        ("u2", {"codec": "png"}),
        ("u2", {"codec": {"name": "png", "level": 1}, "shards": (16, 32, 32)}),
        ("i2", {"shards": (16, 32, 48)}),
        ("u4", {}),
        ("u4", {"type": "image", "shards": (8, 16, 32)}),
        ("i4", {"codec": "raw"}),
        ("u8", {"shards": (16, 32, 32)}),
        ("u8", {"codec": "none", "shards": (8, 16, 16)}),
        ("f4", {"shards": True}),
        ("bool", {}),
    ],
)
@pytest.mark.parametrize("shape", [(21, 47, 33), (1, 1, 1), (8, 16, 16)])
def test_read_by_tensorstore(tmp_path, dtype, how, shape):
    array = voxels("u1", shape).reshape(shape)
    array = array > 50 if dtype == "bool" else array.astype(dtype)
    v = bv.open(array, voxel_size=(40, 5, 4), unit="nm", origin=(280, -30, 20))
    path = tmp_path / "a.precomputed"
    if "shards" in how and how["shards"] is not True and shape != (21, 47, 33):
        how = {**how, "shards": True}
    back = bv.compute(v.to(path, chunks=(8, 16, 16), **how), runner=None)
    stored = theirs(path)
    assert stored.domain.inclusive_min == (5, -6, 7, 0)
    np.testing.assert_array_equal(stored.read().result()[..., 0].T, array)
    assert [u.multiplier for u in stored.dimension_units[:3]] == [4, 5, 40]
    for volume in (back, bv.open(path)):
        np.testing.assert_array_equal(volume, array)
        assert volume.origin == (280.0, -30.0, 20.0) and volume.unit == "nanometer"
    assert bv.verify(path, checksums=True) == []
    info = json.loads((path / "info").read_text())
    assert info["type"] == how.get("type", "segmentation" if dtype in ("u4", "u8") else "image")


@pytest.mark.parametrize("shards", [None, (16, 32, 32)])
def test_units_are_written_whole_and_each_once(tmp_path, shards):
    array = voxels(size=(21, 47, 33)).reshape((21, 47, 33)) + np.uint16(1)
    how = {"chunks": (8, 16, 16), "shards": shards}
    sink = make_sink(tmp_path / "a.precomputed", shape=array.shape, dtype="u2", **how)
    sink.create("run")
    before = counters()
    write_units(sink.open(), Box.of_shape(array.shape), array).result()
    assert counted(before, "write") == len(sink.grid) and not counted(before, "read")
    assert not counted(before, "batch_read")
    names = {p.name for p in (tmp_path / "a.precomputed/1_1_1").iterdir()}
    keys = [sink.writer.key(sink, sink.grid.cell(k)) for k in range(len(sink.grid))]
    assert {f"1_1_1/{n}" for n in names} == set(keys)
    assert [sink.writer.cell(sink, k) for k in keys] == [
        sink.grid.cell(k) for k in range(len(keys))
    ]
    for other in ("1_1_1/x", "info", "1_1_1/0-1_0-1_0-1", "1_1_1/ff.shard", "1_1_1/-_-_-"):
        assert sink.writer.cell(sink, other) is None
    out = np.empty_like(array)
    read_into(sink.read_back().open(), Box.of_shape(array.shape), out).result()
    np.testing.assert_array_equal(out, array)


def test_shards_are_boxes():
    """TensorStore finds the same boxes, by its own reckoning, for grids of all kinds."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        shape = tuple(int(n) for n in rng.integers(1, 200, 3))
        chunk = tuple(int(n) for n in rng.integers(1, 40, 3))
        for layout in shard_layouts(shape, chunk):
            spec = {
                "driver": "neuroglancer_precomputed",
                "kvstore": "memory://",
                "multiscale_metadata": {"data_type": "uint8", "num_channels": 1, "type": "image"},
                "scale_metadata": {
                    "size": shape[::-1],
                    "chunk_size": chunk[::-1],
                    "resolution": [1, 1, 1],
                    "encoding": "raw",
                    "sharding": layout.metadata(is_packed=False),
                },
            }
            found = ts.Spec(spec).chunk_layout.write_chunk.shape[2::-1]
            assert all(
                f in (a, min(a, n)) for f, a, n in zip(found, layout.shape, shape, strict=True)
            )


def test_options_that_cannot_be(tmp_path):
    path = tmp_path / "a.precomputed"
    v = bv.open(np.zeros((20, 70, 90), "u2"))
    with pytest.raises(
        ValueError,
        match="shards=32 is not possible for chunks of 8x16x16; use one of 8x16x16, 8x16x32",
    ):
        v.to(path, chunks=(8, 16, 16), shards=32)
    with pytest.raises(ValueError, match="codec='jpeg' supports uint8, not uint16"):
        v.to(path, codec="jpeg")
    with pytest.raises(ValueError, match="codec='zstd'; precomputed supports none, jpeg"):
        v.to(path, codec="zstd")
    with pytest.raises(ValueError, match="level from 0 to 100"):
        v.astype("u1").to(path, codec={"name": "jpeg", "level": 101})
    with pytest.raises(ValueError, match="type='mesh'"):
        v.to(path, type="mesh")
    with pytest.raises(ValueError, match="needs integers"):
        v.astype("f4").to(path, type="segmentation")
    with pytest.raises(ValueError, match="precomputed cannot store float64"):
        v.astype("f8").to(path)


def test_jpeg_is_no_damage(tmp_path):
    array = (np.indices((20, 60, 70)).sum(0)).astype("u1")
    found = bv.compute(bv.open(array).to(tmp_path / "a.precomputed", codec="jpeg"), runner=None)
    assert 0 < np.abs(np.asarray(found).astype(int) - array).max() < 12
    assert bv.verify(tmp_path / "a.precomputed", checksums=True) == []


def test_units_sizes_and_origins_survive(tmp_path):
    array = voxels()[..., 0].T
    for k, how in enumerate(
        [
            {},
            {"voxel_size": (0.04, 0.005, 0.004), "unit": "um", "origin": (0.1, -0.0301, 0.02)},
            {"voxel_size": (3, 2, 1)},
            {"unit": "mm", "voxel_size": 1},
        ]
    ):
        path = tmp_path / f"{k}.precomputed"
        v = bv.open(array, **how)
        bv.compute(v.to(path), runner=None)
        found = bv.open(path)
        assert (found.voxel_size, found.unit, found.origin) == (v.voxel_size, v.unit, v.origin)
    assert theirs(tmp_path / "1.precomputed").dimension_units[0] == ts.Unit(4, "nm")
    assert theirs(tmp_path / "1.precomputed").domain.inclusive_min == (5, -6, 3, 0)
    # What somebody has changed since counts.
    info = json.loads((tmp_path / "1.precomputed/info").read_text())
    info["scales"][0]["resolution"] = [8, 8, 8]
    (tmp_path / "1.precomputed/info").write_text(json.dumps(info))
    assert bv.open(tmp_path / "1.precomputed").voxel_size == (8.0, 8.0, 8.0)


def test_an_image_of_two_axes(tmp_path):
    image = voxels()[..., 0, 0].T
    found = bv.compute(bv.open(image).to(tmp_path / "a.precomputed", shards=True), runner=None)
    assert found.ndim == 2 == bv.open(tmp_path / "a.precomputed").ndim
    np.testing.assert_array_equal(bv.open(tmp_path / "a.precomputed"), image)


def test_runs_are_resumed_and_replaced(tmp_path):
    array, path = voxels()[..., 0].T, tmp_path / "a.precomputed"
    bv.compute(bv.open(array).to(path, chunks=8), runner=None)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        bv.compute(bv.open(array).to(path, chunks=8), runner=None)
    bv.compute(bv.open(array + 1).to(path, chunks=16), runner=None, overwrite=True)
    np.testing.assert_array_equal(bv.open(path), array + 1)
    chunk = next(p for p in (path / "1_1_1").iterdir())
    chunk.unlink()
    (problem,) = bv.verify(path)
    assert "unit" in problem and str(path) in problem and "is missing" in problem


def test_read_by_cloud_volume(tmp_path):
    cloudvolume = pytest.importorskip("cloudvolume")
    array = voxels("u8")[..., 0].T
    v = bv.open(array, voxel_size=(40, 5, 4), unit="nm", origin=(280, -30, 20))
    for name, how in (("a", {}), ("b", {"shards": True, "chunks": 8}), ("c", {"codec": "none"})):
        path = tmp_path / f"{name}.precomputed"
        bv.compute(v.to(path, **how), runner=None)
        volume = cloudvolume.CloudVolume(f"file://{path}", fill_missing=True)
        np.testing.assert_array_equal(np.asarray(volume[:])[..., 0].T, array)
        assert tuple(volume.resolution) == (4, 5, 40) and volume.layer_type == "segmentation"
