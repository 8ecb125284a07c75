"""N5 arrays and groups, written by TensorStore or by the book, and read by us; and the other way round."""

import gzip
import json
import math
import pickle
import struct

import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.cli.main import main
from beam_volumes.storage import make_sink, open_source, write_units
from tests.storage.test_odd_metadata import refusals
from tests.storage.test_zarr import counted, counters

SHAPE = (21, 47, 33)
COMPRESSIONS = [
    {"type": "raw"},
    {"type": "gzip"},
    {"type": "gzip", "useZlib": True},
    {"type": "bzip2"},
    {"type": "xz"},
    {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    {"type": "zstd", "level": 3},
]


def voxels(dtype="u2", shape=SHAPE):
    found = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    found[:8, :16, :16] = 0  # a block of zeros is not stored
    return found


def foreign(path, array, compression=None, block=8, **attributes):
    """An array that TensorStore writes; its own axes are the array's in reverse."""
    spec = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{path}/"},
        "metadata": {
            "dimensions": array.shape[::-1],
            "blockSize": [min(2 * block, n) for n in array.shape[:0:-1]] + [block],
            "dataType": array.dtype.name,
            "compression": compression or {"type": "gzip"},
            **attributes,
        },
    }
    ts.open(spec, create=True).result()[...] = array.T
    return array


def attributes(path, **values):
    """Add attributes to an array or group."""
    file = path / "attributes.json"
    old = json.loads(file.read_text()) if file.exists() else {}
    path.mkdir(exist_ok=True)
    file.write_text(json.dumps({**old, **values}))


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda c: c["type"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_written_by_tensorstore(tmp_path, dtype, compression):
    array = foreign(tmp_path / "a.n5", voxels(dtype), compression)
    source = pickle.loads(pickle.dumps(open_source(tmp_path / "a.n5")))
    assert source.dtype == dtype and source.chunk == (8, 16, 16)
    np.testing.assert_array_equal(source.read(), array)
    box = Box((3, 10, 15), (17, 33, 31))
    np.testing.assert_array_equal(source.read(box), array[box.slices])


def test_blocks_that_java_writes(tmp_path, capsys):
    """Java cuts blocks where the array ends: big-endian, each with its own size in its header."""
    array, block = voxels("i2"), (8, 16, 16)
    for z, y, x in np.ndindex(*(math.ceil(n / b) for n, b in zip(SHAPE, block, strict=True))):
        part = array[8 * z : 8 * z + 8, 16 * y : 16 * y + 16, 16 * x : 16 * x + 16]
        if (z, y, x) == (0, 0, 0):
            continue
        folder = tmp_path / f"a.n5/raw/{x}/{y}"
        folder.mkdir(parents=True, exist_ok=True)
        header = struct.pack(">HHIII", 0, 3, *part.shape[::-1])
        (folder / str(z)).write_bytes(header + gzip.compress(part.astype(">i2").tobytes()))
    attributes(tmp_path / "a.n5", n5="2.5.1")
    attributes(
        tmp_path / "a.n5/raw",
        dimensions=SHAPE[::-1],
        blockSize=block[::-1],
        dataType="int16",
        compression={"type": "gzip", "useZlib": False, "level": -1},
    )
    for source in (
        open_source(tmp_path / "a.n5", dataset="raw"),
        open_source(f"n5://{tmp_path}/a.n5/raw"),
    ):
        np.testing.assert_array_equal(source.read(), array)
    with pytest.raises(ValueError, match=r"is an N5 group; choose .*dataset=: it contains raw"):
        open_source(tmp_path / "a.n5")
    with pytest.raises(ValueError, match=r"does not exist .*it contains raw"):
        open_source(tmp_path / "a.n5", dataset="labels")
    main(["info", f"{tmp_path}/a.n5"])
    assert "raw: 21 x 47 x 33" in capsys.readouterr().out
    with pytest.raises(ValueError, match="is a single array"):
        open_source(tmp_path / "a.n5/raw", dataset="labels")


@pytest.mark.parametrize(
    ("given", "size", "unit"),
    [
        ({}, None, None),
        ({"resolution": [4, 5, 40], "units": ["nm"] * 3}, (40, 5, 4), "nanometer"),
        ({"resolution": [4, 5, 40]}, (40, 5, 4), None),
        ({"resolution": [4, 5, 40], "units": ["nm", "um", "nm"]}, (0.04, 5, 0.004), "micrometer"),
        ({"pixelResolution": [4, 5, 40]}, (40, 5, 4), None),
        (
            {"pixelResolution": {"unit": "µm", "dimensions": [4, 5, 40]}},
            (40, 5, 4),
            "micrometer",
        ),
        ({"axes": ["z", "y", "x"], "resolution": [4, 5, 40]}, (4, 5, 40), None),
    ],
)
def test_voxel_sizes(tmp_path, given, size, unit):
    array = foreign(tmp_path / "a.n5", voxels())
    attributes(tmp_path / "a.n5", **given)
    source = open_source(tmp_path / "a.n5")
    assert source.space.voxel_size == size and source.space.unit == unit
    if "axes" in given:
        array = array.T
    np.testing.assert_array_equal(source.read(), array)


def test_levels(tmp_path):
    """A level has its own factors, or its group's; a coarse voxel is in the middle of fine ones."""
    group = tmp_path / "a.n5/em"
    fine = foreign(group / "s0", voxels())
    coarse = foreign(group / "s1", voxels(shape=(21, 24, 17)))
    attributes(group, pixelResolution={"unit": "nm", "dimensions": [4, 5, 40]})
    attributes(tmp_path / "a.n5", n5="2.0.0")
    np.testing.assert_array_equal(open_source(group).read(), fine)
    assert open_source(group).space.voxel_size == (40, 5, 4)
    assert open_source(group, level=1).space.voxel_size is None  # nobody says how coarse it is
    attributes(group, scales=[[1, 1, 1], [2, 2, 1]])
    for source in (
        open_source(group, level=1),
        open_source(tmp_path / "a.n5", dataset="em", level=1),
    ):
        np.testing.assert_array_equal(source.read(), coarse)
        assert source.space.voxel_size == (40, 10, 8) and source.space.unit == "nanometer"
        assert source.space.origin == (0, 2.5, 2)
    attributes(group / "s1", downsamplingFactors=[2, 2, 3])
    assert open_source(group, level=1).space.voxel_size == (120, 10, 8)
    for k in (0, 1):  # as COSEM has it: in the order that its axes say
        lies = {
            "axes": ["z", "y", "x"],
            "scale": [40, 5, 4 + k],
            "translate": [k, 0, 7],
            "units": ["nm"] * 3,
        }
        attributes(group / f"s{k}", transform=lies)
    source = open_source(group, level=1)
    assert source.space.voxel_size == (40, 5, 5) and source.space.origin == (1, 0, 7)
    with pytest.raises(ValueError, match="has the levels 0 to 1"):
        open_source(group, level=2)
    with pytest.raises(ValueError, match="open the group of its levels"):
        open_source(group / "s1", level=1)


def test_channels_and_time(tmp_path):
    array = voxels(shape=(2, 3, 9, 17, 18))
    foreign(tmp_path / "a.n5", array)  # x, y, z, c, t
    found = open_source(tmp_path / "a.n5", index={"t": 1, "c": 2})
    np.testing.assert_array_equal(found.read(), array[1, 2])
    np.testing.assert_array_equal(bv.open(tmp_path / "a.n5", index={"t": 1}), array[1])
    v = bv.open(array[0])
    for name, how in (("b.n5", {}), ("c.n5", {"chunks": (3, 4, 8, 8)})):
        back = bv.compute(v.to(tmp_path / name, **how), runner=None)
        stored = ts.open({"driver": "n5", "kvstore": f"file://{tmp_path}/{name}/"}).result()
        assert stored.domain.labels == ("x", "y", "z", "c")
        for found in (back, bv.open(tmp_path / name), stored.read().result().T):
            np.testing.assert_array_equal(found, array[0])
        assert bv.verify(tmp_path / name, checksums=True) == []


def test_a_missing_block_is_data_unless_it_is_said_not_to_be(tmp_path):
    array = foreign(tmp_path / "a.n5", voxels())
    strict = open_source(tmp_path / "a.n5", missing="error")
    np.testing.assert_array_equal(strict.read(Box((8, 0, 0), (21, 9, 9))), array[8:, :9, :9])
    with pytest.raises(FileNotFoundError, match="chunk"):
        strict.read()


def test_damage_is_found(tmp_path):
    foreign(tmp_path / "a.n5", voxels())
    for data in (b"", b"\0\0\0\3", (tmp_path / "a.n5/1/1/1").read_bytes()[:-9]):
        (tmp_path / "a.n5/1/1/1").write_bytes(data)
        with pytest.raises(OSError, match="damaged"):
            open_source(tmp_path / "a.n5").read()
    claims = struct.pack(">HHIII", 0, 3, 1 << 31, 1 << 31, 1 << 31)
    (tmp_path / "a.n5/1/1/1").write_bytes(claims + gzip.compress(b"\0" * 100))
    with pytest.raises(OSError, match="damaged"):
        open_source(tmp_path / "a.n5").read()
    (tmp_path / "a.n5/attributes.json").write_text("{")
    with pytest.raises(OSError, match=r"attributes\.json is damaged"):
        open_source(tmp_path / "a.n5")


ODD = [None, 5, -1, True, "x", [], [1], {}, [None], [-5, 3, 4], [10**30] * 3, [10**9] * 3, [{}] * 3]


def test_odd_attributes_are_told_of_by_name(tmp_path):
    foreign(tmp_path / "a.n5", voxels(), axes=["x", "y", "z"])
    file = tmp_path / "a.n5/attributes.json"
    lies = {
        "axes": ["z", "y", "x"],
        "scale": [4, 5, 6],
        "translate": [1, 2, 3],
        "units": ["nm"] * 3,
    }
    pixel = {"unit": "nm", "dimensions": [4, 5, 6]}
    attributes(tmp_path / "a.n5", transform=lies)
    other = {"pixelResolution": pixel, "downsamplingFactors": [2, 2, 2], "beam_volumes": {}}
    good = json.loads(file.read_text())
    refused = 0

    def opening():
        assert bv.open(tmp_path / "a.n5").ndim == 3

    for whole in (good, {**{k: v for k, v in good.items() if k != "transform"}, **other}):
        places = [(k,) for k in whole]
        places += [(k, q) for k in whole if isinstance(whole[k], dict) for q in whole[k]]
        refused += refusals(file, whole, places, ODD, opening, str(tmp_path))
    assert refused > 100


# -- written by us -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["gzip", "zstd", "blosc", "bzip2", "xz", "none"])
@pytest.mark.parametrize(
    ("dtype", "shape"), [("u2", SHAPE), ("f8", (1, 1, 1)), ("bool", (8, 16, 16))]
)
def test_read_by_tensorstore(tmp_path, dtype, shape, codec):
    array = voxels("u1", shape)
    array = array > 50 if dtype == "bool" else array.astype(dtype)
    v = bv.open(array, voxel_size=(40, 5, 4), unit="nm", origin=(280, -30, 20))
    path = tmp_path / "a.n5"
    back = bv.compute(v.to(path, chunks=(8, 16, 16), codec=codec), runner=None)
    stored = ts.open({"driver": "n5", "kvstore": f"file://{path}/"}).result()
    np.testing.assert_array_equal(stored.read().result().T, array)
    assert stored.dimension_units == tuple(ts.Unit(n, "nanometer") for n in (4, 5, 40))
    for volume in (back, bv.open(path)):
        np.testing.assert_array_equal(volume, array)
        assert volume.origin == (280.0, -30.0, 20.0) and volume.unit == "nanometer"
    assert bv.verify(path, checksums=True) == []


def test_units_are_written_whole_and_each_once(tmp_path):
    array = voxels() + np.uint16(1)
    sink = make_sink(tmp_path / "a.n5", shape=SHAPE, dtype="u2", chunks=(8, 16, 16))
    sink.create("run")
    before = counters()
    write_units(sink.open(), Box.of_shape(SHAPE), array).result()
    assert counted(before, "write") == len(sink.grid) == 27
    assert not counted(before, "read") and not counted(before, "batch_read")
    keys = [sink.writer.key(sink, sink.grid.cell(k)) for k in range(27)]
    assert all((tmp_path / "a.n5" / k).is_file() for k in keys)
    assert [sink.writer.cell(sink, k) for k in keys] == [sink.grid.cell(k) for k in range(27)]
    assert sink.writer.cell(sink, "attributes.json") is None


def test_sizes_units_and_axes_survive(tmp_path):
    for k, how in enumerate(
        [
            {},
            {"voxel_size": (0.04, 0.005, 0.004), "unit": "um", "origin": (0.1, -0.03, 0.02)},
            {"voxel_size": (3, 2, 1)},
            {"unit": "mm"},
        ]
    ):
        v = bv.open(voxels(), **how)
        bv.compute(v.to(tmp_path / f"{k}.n5"), runner=None)
        found = bv.open(tmp_path / f"{k}.n5")
        assert (found.voxel_size, found.unit, found.origin) == (v.voxel_size, v.unit, v.origin)
    image = bv.open(voxels()[9], voxel_size=2, unit="nm")
    found = bv.compute(image.to(tmp_path / "i.n5"), runner=None)
    for volume in (found, bv.open(tmp_path / "i.n5")):
        assert volume.axes == ("y", "x") and volume.voxel_size == (2, 2)
        np.testing.assert_array_equal(volume, voxels()[9])


def test_replaced_and_refused(tmp_path):
    path = tmp_path / "a.n5"
    bv.compute(bv.open(voxels()).to(path), runner=None)
    token = open_source(path).token()
    bv.compute(bv.open(voxels() + 1).to(path), runner=None, overwrite=True)
    np.testing.assert_array_equal(bv.open(path), voxels() + 1)
    assert open_source(path).token() == token  # whoever wrote it
    with pytest.raises(ValueError, match="codec='lz4'; N5 supports none, gzip"):
        bv.open(voxels()).to(path, codec="lz4")
    with pytest.raises(ValueError, match="n5 cannot store float16"):
        bv.open(voxels("f2")).to(path)
    with pytest.raises(ValueError, match=r"shards=16 is for"):
        bv.open(voxels()).to(path, shards=16)


def block(array, mode=0):
    """A block by the specification; in mode 1 it has its number of elements."""
    head = struct.pack(f">HH{array.ndim}I", mode, array.ndim, *array.shape[::-1])
    count = struct.pack(">I", array.size) if mode == 1 else b""
    big = np.ascontiguousarray(array, array.dtype.newbyteorder(">"))
    return head + count + gzip.compress(big.tobytes())


def test_blocks_that_say_how_many_elements_they_hold(tmp_path):
    array = np.arange(5 * 6 * 7, dtype="i4").reshape(5, 6, 7)
    path = tmp_path / "a.n5"
    named = {"dimensions": [7, 6, 5], "blockSize": [4, 4, 2], "dataType": "int32"}
    attributes(path, compression={"type": "gzip"}, **named)
    for z, y, x in np.ndindex(3, 2, 2):
        (path / f"{x}/{y}").mkdir(parents=True, exist_ok=True)
        part = array[2 * z : 2 * z + 2, 4 * y : 4 * y + 4, 4 * x : 4 * x + 4]
        (path / f"{x}/{y}/{z}").write_bytes(block(part, mode=1 if z < 2 else 0))
    source = pickle.loads(pickle.dumps(open_source(path)))
    np.testing.assert_array_equal(source.read(), array)
    box = Box((1, 2, 3), (5, 5, 6))
    np.testing.assert_array_equal(source.read(box), array[box.slices])
    (path / "1/0/1").unlink()
    array[2:4, :4, 4:] = 0
    np.testing.assert_array_equal(open_source(path).read(), array)
    with pytest.raises(OSError, match="1/0/1 is missing"):
        open_source(path, missing="error").read()
    attributes(path, isLabelMultiset=True)
    with pytest.raises(ValueError, match="has a list of labels"):
        open_source(path)


@pytest.mark.parametrize("kind", ["gzip", "raw"])
def test_a_compression_that_the_first_version_named_otherwise(tmp_path, kind):
    array = np.arange(24, dtype="u2").reshape(2, 3, 4)
    foreign(tmp_path / "a.n5", array, {"type": kind})
    file = tmp_path / "a.n5" / "attributes.json"
    named = json.loads(file.read_text())
    del named["compression"]
    file.write_text(json.dumps({**named, "compressionType": kind}))
    np.testing.assert_array_equal(open_source(tmp_path / "a.n5").read(), array)
