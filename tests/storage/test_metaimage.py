"""MetaImage: reads files of ITK, and ITK reads ours."""

import zlib

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.places.errors import VolumeError
from tests.peers import peer

sitk = peer("SimpleITK")

SHAPE = (5, 7, 9)
STORED = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


def voxels(stored="i2", shape=SHAPE):
    numbers = np.random.default_rng(3).integers(-100, 100, shape)
    return (np.abs(numbers) if np.dtype(stored).kind == "u" else numbers).astype(stored)


def save(path, array, compressed=False, vector=False, direction=None):
    image = sitk.GetImageFromArray(array, isVector=vector)
    n = image.GetDimension()
    image.SetSpacing((2.0, 0.3, 4.0, 1.0)[:n])
    image.SetOrigin((-7.0, 8.5, 9.0, 0.0)[:n])
    if direction is not None:
        image.SetDirection(np.ravel(direction).astype(float).tolist())
    sitk.WriteImage(image, str(path), compressed)
    return path


def by_hand(path, array, *changes, data=None):
    """Write a file of lines, for what ITK does not write; a change replaces a line."""
    lines = {
        "ObjectType": "Image",
        "NDims": str(array.ndim),
        "BinaryData": "True",
        "BinaryDataByteOrderMSB": "False",
        "DimSize": " ".join(map(str, array.shape[::-1])),
        "ElementType": "MET_SHORT",
        **dict(changes),
    }
    lines["ElementDataFile"] = lines.pop("ElementDataFile", "LOCAL")
    text = "".join(f"{k} = {v}\n" for k, v in lines.items() if v is not None)
    path.write_bytes(text.encode() + (array.tobytes() if data is None else data))
    return path


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["a.mha", "a.mhd"])
def test_read(tmp_path, stored, compressed, name):
    array = voxels(stored)
    volume = bv.open(save(tmp_path / name, array, compressed))
    assert volume.dtype == stored and volume.axes == ("z", "y", "x")
    assert volume.voxel_size == (4, 0.3, 2) and volume.origin == (9, 8.5, -7)
    assert volume.unit is None
    assert np.array_equal(np.asarray(volume), array)
    assert np.array_equal(np.asarray(volume[1:3, :2, -1:]), array[1:3, :2, -1:])


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 9), (1, 1, 300)])
@pytest.mark.parametrize("compressed", [False, True])
def test_shapes(tmp_path, shape, compressed):
    volume = bv.open(save(tmp_path / "a.mha", voxels("i2", shape), compressed))
    assert volume.shape == shape and np.array_equal(np.asarray(volume), voxels("i2", shape))


def test_channels_and_time(tmp_path):
    colours = voxels("u1", (*SHAPE, 3))
    for compressed in (False, True):
        path = save(tmp_path / "a.mha", colours, compressed, vector=True)
        for c in range(3):
            volume = bv.open(path, index={"c": c})
            assert np.array_equal(np.asarray(volume), colours[..., c])
    points = voxels("i2", (2, *SHAPE))
    path = by_hand(tmp_path / "b.mha", points)
    assert np.array_equal(np.asarray(bv.open(path, index={"t": 1})), points[1])


def test_big_endian_and_header_sizes(tmp_path):
    array = voxels()
    big = array.astype(">i2").tobytes()
    for key in ("BinaryDataByteOrderMSB", "ElementByteOrderMSB"):
        changes = {"BinaryDataByteOrderMSB": None, key: "True"}.items()
        path = by_hand(tmp_path / "a.mha", array, *changes, data=big)
        assert np.array_equal(sitk.GetArrayFromImage(sitk.ReadImage(str(path))), array)
        assert np.array_equal(np.asarray(bv.open(path)), array)
    (tmp_path / "v.raw").write_bytes(b"12345" + array.tobytes())
    for size in ("5", "-1"):
        changes = [("HeaderSize", size), ("ElementDataFile", "v.raw")]
        path = by_hand(tmp_path / "b.mhd", array, *changes, data=b"")
        assert np.array_equal(np.asarray(bv.open(path)), array)
    path = by_hand(tmp_path / "c.mha", array, ("ElementSpacing", "1 2 3"), ("DistanceUnits", "um"))
    assert bv.open(path).unit == "micrometer" and bv.open(path).voxel_size == (3, 2, 1)


def test_turned(tmp_path):
    array = voxels()
    cos, sin = np.cos(0.1), np.sin(0.1)
    path = save(tmp_path / "a.mha", array, direction=[[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match=r"rotates axes in space; give affine='drop'"):
        bv.open(path)
    dropped = bv.open(path, affine="drop")
    assert np.array_equal(np.asarray(dropped), array)
    assert dropped.voxel_size == pytest.approx((4, 0.3, 2))
    for name in ("b.mha", "b.mhd"):
        path = save(tmp_path / name, array, direction=[[0, 0, -1], [1, 0, 0], [0, -1, 0]])
        volume = bv.open(path, affine="reorient")
        image = sitk.ReadImage(str(path))
        # The way of ITK itself to bring axes in the order of space.
        wanted = sitk.DICOMOrient(image, "LPS")
        assert np.array_equal(np.asarray(volume), sitk.GetArrayFromImage(wanted))
        assert volume.voxel_size == pytest.approx(wanted.GetSpacing()[::-1])
        assert volume.origin == pytest.approx(wanted.GetOrigin()[::-1])


@pytest.mark.parametrize("stored", STORED)
def test_written(tmp_path, stored):
    array = voxels(stored)
    volume = bv.open(array, voxel_size=(40, 8, 3.3), unit="nm", origin=(400, 8, -1.5))
    target = volume.to(tmp_path / "a.mha", chunks=(2, 3, 9))
    back = bv.compute(target, runner=None, slab=(2, 6, 9))
    image = sitk.ReadImage(str(tmp_path / "a.mha"))
    assert np.array_equal(sitk.GetArrayFromImage(image), array)
    assert sitk.GetArrayFromImage(image).dtype == stored
    assert image.GetSpacing() == (0.0033, 0.008, 0.04)
    assert image.GetOrigin() == (-0.0015, 0.008, 0.4)
    again = bv.open(tmp_path / "a.mha")
    for found in (back, again):
        assert np.array_equal(np.asarray(found), array)
    assert again.voxel_size == (0.04, 0.008, 0.0033) and again.origin == (0.4, 0.008, -0.0015)
    assert again.unit == "micrometer"
    assert bv.verify(tmp_path / "a.mha", checksums=True) == []


@pytest.mark.parametrize("stored", ["u1", "u2", "f4"])
@pytest.mark.parametrize("many", [1, 3])
def test_written_with_channels(tmp_path, stored, many):
    array = voxels(stored, (many, *SHAPE))
    told = dict(voxel_size=(4, 2, 1), unit="um")
    volume = bv.open(array, **told) if many > 1 else bv.stack([bv.open(array[0], **told)])
    for k, (shown, wanted) in enumerate([(volume, array), (volume[:, 2], array[:, 2])]):
        path = tmp_path / f"{k}.mha"
        chunks = (many, 2, 3, 4)[: shown.ndim] if k == 0 else None
        back = bv.compute(shown.to(path, chunks=chunks), runner=None)
        image = sitk.ReadImage(str(path))
        assert image.GetNumberOfComponentsPerPixel() == many
        found = sitk.GetArrayFromImage(image).reshape((*wanted.shape[1:], many))
        assert np.array_equal(np.moveaxis(found, -1, 0), wanted) and found.dtype == stored
        for again in (back, bv.open(path)):
            assert np.array_equal(np.asarray(again).reshape(wanted.shape), wanted)
        assert bv.verify(path, checksums=True) == []


def test_written_with_channels_and_time(tmp_path):
    array = voxels("u2", (2, 3, *SHAPE))
    back = bv.compute(bv.open(array).to(tmp_path / "a.mha"), runner=None)
    for found in (back, bv.open(tmp_path / "a.mha")):
        assert found.axes == ("t", "c", "z", "y", "x")
        assert np.array_equal(np.asarray(found), array)
    image = sitk.ReadImage(str(tmp_path / "a.mha"))
    assert np.array_equal(np.moveaxis(sitk.GetArrayFromImage(image), -1, 1), array)
    with pytest.raises(ValueError, match="must contain all"):
        bv.open(array[0]).to(tmp_path / "b.mha", chunks=(1, 5, 7, 9))


def test_two_dimensions_no_size_and_masks(tmp_path):
    image = voxels("u1", (7, 9))
    bv.compute(bv.open(image).to(tmp_path / "a.mha"), runner=None)
    found = sitk.ReadImage(str(tmp_path / "a.mha"))
    assert np.array_equal(sitk.GetArrayFromImage(found), image)
    assert bv.open(tmp_path / "a.mha").voxel_size is None
    bv.compute(bv.open(voxels() > 0).to(tmp_path / "b.mha"), runner=None)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "b.mha")), voxels() > 0)
    assert bv.open(tmp_path / "b.mha").dtype == bool
    found = sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "b.mha")))
    assert np.array_equal(found, (voxels() > 0).astype("u1"))
    with pytest.raises(ValueError, match=r"mha cannot store float16; .* uint8, .*float64"):
        bv.open(voxels("f2")).to(tmp_path / "c.mha")


@pytest.mark.parametrize(
    "change, error, text",
    [
        (("NDims", "x"), VolumeError, "ndims is 'x'"),
        (("NDims", "4"), VolumeError, "it has 4 dimensions, but DimSize"),
        (("NDims", "9"), ValueError, "has 9 dimensions"),
        (("DimSize", "9 7 0"), VolumeError, "sizes are 0 x 7 x 9"),
        (("DimSize", "9 7 -5"), VolumeError, "DimSize has '-5'"),
        (("DimSize", "9 7 6"), VolumeError, "cut off"),
        (("NDims", "2\nNDims = 3"), VolumeError, "two values of ndims"),
        (("Offset", "1 2 3\nPosition = 3 2 1"), VolumeError, "two values of position"),
        (("DimSize", "999999999 999999999 999999999"), VolumeError, "cut off"),
        (("ElementType", "MET_STRING"), ValueError, "'MET_STRING'"),
        (("BinaryData", "False"), ValueError, "as text"),
        (("HeaderSize", "-7"), VolumeError, "HeaderSize is -7"),
        (("HeaderSize", "10"), VolumeError, "cut off"),
        (("ElementNumberOfChannels", "0"), VolumeError, "sizes are 5 x 7 x 9 x 0"),
        (("ElementNumberOfChannels", "2"), (VolumeError, ValueError), "cut off"),
        (("ElementSpacing", "1 2"), VolumeError, "not 3 numbers"),
        (("ElementSpacing", "1 2 nan"), VolumeError, "does not define the position of its voxels"),
        (("ElementDataFile", "gone.raw"), VolumeError, "which does not exist"),
        (("ElementDataFile", None), VolumeError, "is not a field; restore it"),
        (("ElementDataFile", "LIST"), ValueError, "several files"),
        (("ElementDataFile", "a%03d.raw 1 5 1"), ValueError, "several files"),
        (("what is this", "x" * 70000), VolumeError, "has no ElementDataFile"),
    ],
)
def test_damaged(tmp_path, change, error, text):
    path = by_hand(tmp_path / "a.mha", np.zeros(SHAPE, "i2"))
    assert bv.open(path).shape == SHAPE
    by_hand(path, np.zeros(SHAPE, "i2"), change)
    with pytest.raises(error, match=text):
        bv.open(path)


def test_damaged_streams(tmp_path):
    array = voxels()
    data = zlib.compress(array.tobytes())
    zipped = ("CompressedData", "True")
    path = by_hand(tmp_path / "a.mha", array, zipped, data=data)
    assert np.array_equal(np.asarray(bv.open(path)), array)
    # Files of their own: what was read of one an instant ago may still be held.
    cut = by_hand(tmp_path / "b.mha", array, zipped, data=data[:-20])
    with pytest.raises(OSError, match=r"b\.mha ends after"):
        bv.open(cut).node.source.read()
    zeros = by_hand(tmp_path / "c.mha", array, zipped, data=b"\0" * 200)
    with pytest.raises(OSError, match=r"c\.mha is damaged near byte"):
        bv.open(zeros).node.source.read()
    by_hand(path, array, zipped, ("DimSize", "90000 7 5"), data=data)
    with pytest.raises(VolumeError, match="can encode"):
        bv.open(path)
    path.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(VolumeError, match=r"is not a field|has no ElementDataFile"):
        bv.open(path)


def test_fields_with_a_colon_are_fields(tmp_path):
    array = np.arange(60, dtype="<i2").reshape(3, 4, 5)
    text = "ObjectType: Image\nNDims: 3\nDimSize: 5 4 3\nElementSpacing : 1 2 3\nElementType: MET_SHORT\n"
    (tmp_path / "a.mha").write_bytes(text.encode() + b"ElementDataFile: LOCAL\n" + array.tobytes())
    (tmp_path / "a:b.mhd").write_text(text + "ElementDataFile = c:d.raw\n")
    (tmp_path / "c:d.raw").write_bytes(array.tobytes())
    for name in ("a.mha", "a:b.mhd"):
        volume = bv.open(tmp_path / name)
        assert volume.voxel_size == (3, 2, 1)
        assert np.array_equal(np.asarray(volume), array)
