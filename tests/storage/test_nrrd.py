"""NRRD: reads files of pynrrd and ITK, which read ours."""

import gzip

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.places.errors import VolumeError
from tests.peers import peer

nrrd = pytest.importorskip("nrrd")

SHAPE = (5, 7, 9)
STORED = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


def voxels(stored="i2", shape=SHAPE):
    numbers = np.random.default_rng(3).integers(-100, 100, shape)
    return (np.abs(numbers) if np.dtype(stored).kind == "u" else numbers).astype(stored)


def save(path, array, encoding="raw", **header):
    fields = {name.replace("_", " "): value for name, value in header.items()}
    nrrd.write(str(path), array.T, {"encoding": encoding, **fields})
    return path


def by_hand(path, array, *lines, encoding="raw", data=None):
    """Write a file of lines, for what pynrrd does not write."""
    sizes = " ".join(map(str, array.shape[::-1]))
    said = ["NRRD0004", "type: int16", f"dimension: {array.ndim}", f"sizes: {sizes}"]
    said += ["endian: little", f"encoding: {encoding}", *lines, "", ""]
    path.write_bytes("\n".join(said).encode() + (array.tobytes() if data is None else data))
    return path


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("encoding", ["raw", "gzip"])
@pytest.mark.parametrize("name", ["a.nrrd", "a.nhdr"])
def test_read(tmp_path, stored, encoding, name):
    array = voxels(stored)
    path = save(
        tmp_path / name,
        array,
        encoding,
        space_directions=np.diag([2.0, 0.3, 4.0]),
        space_origin=np.array([-7, 8.5, 9]),
        space_units=["um"] * 3,
        space_dimension=3,
    )
    volume = bv.open(path)
    assert volume.dtype == stored and volume.axes == ("z", "y", "x")
    assert volume.voxel_size == (4, 0.3, 2) and volume.unit == "micrometer"
    assert volume.origin == (9, 8.5, -7)
    assert np.array_equal(np.asarray(volume), array)
    assert np.array_equal(np.asarray(volume[1:3, :2, -1:]), array[1:3, :2, -1:])


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 9), (1, 1, 300)])
@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_shapes_and_big_endian(tmp_path, shape, encoding):
    array = voxels(">i2", shape)
    volume = bv.open(save(tmp_path / "a.nrrd", array, encoding, endian="big"))
    assert np.array_equal(np.asarray(volume), array)
    assert volume.shape == shape and volume.voxel_size is None


def test_spacings_and_named_spaces(tmp_path):
    array = voxels()
    volume = bv.open(save(tmp_path / "s.nrrd", array, spacings=[2, 3, 4], units=["mm"] * 3))
    assert volume.voxel_size == (4, 3, 2) and volume.unit == "millimeter"
    lines = ["spacings: 2 3 4", "axis mins: 10 20 30", "centers: cell node node"]
    volume = bv.open(by_hand(tmp_path / "a.nrrd", array, *lines, 'units: "mm" "mm" "mm"'))
    assert volume.voxel_size == (4, 3, 2) and volume.origin == (30, 20, 11)
    assert volume.unit == "millimeter"
    line = "space directions: (2,0,0) (0,3,0) (0,0,4)"
    path = by_hand(tmp_path / "b.nrrd", array, "space: left-posterior-superior", line)
    assert bv.open(path).unit == "millimeter" and bv.open(path).voxel_size == (4, 3, 2)
    path = by_hand(tmp_path / "c.nrrd", array, "space: 3D-right-handed", line)
    assert bv.open(path).unit is None
    path = by_hand(tmp_path / "d.nrrd", array, "space dimension: 3", line, "key:=value", "# hm")
    assert np.array_equal(np.asarray(bv.open(path)), array)


def test_channels_and_time(tmp_path):
    colours = voxels("u1", (*SHAPE, 3))
    path = save(tmp_path / "a.nrrd", colours, kinds=["RGB-color", "domain", "domain", "domain"])
    assert np.array_equal(np.asarray(bv.open(path, index={"c": "green"})), colours[..., 1])
    vectors = voxels("i2", (2, *SHAPE))
    lines = ["kinds: domain domain domain time", "space dimension: 3"]
    lines += ["space directions: (2,0,0) (0,3,0) (0,0,4) none"]
    path = by_hand(tmp_path / "b.nrrd", vectors, *lines)
    volume = bv.open(path, index={"t": 1})
    assert np.array_equal(np.asarray(volume), vectors[1]) and volume.voxel_size == (4, 3, 2)
    path = by_hand(tmp_path / "c.nrrd", vectors)  # dimensions without names are those of arrays
    assert np.array_equal(np.asarray(bv.open(path, index={"c": 1})), vectors[1])
    path = by_hand(tmp_path / "d.nrrd", vectors, 'labels: "x" "y" "z" "t"')
    assert np.array_equal(np.asarray(bv.open(path, index={"t": 0})), vectors[0])
    path = by_hand(tmp_path / "e.nrrd", vectors, "kinds: list vector domain domain")
    with pytest.raises(ValueError, match="dimensions of the kinds list vector domain domain"):
        bv.open(path)


def test_turned(tmp_path):
    array = voxels()
    turned = "space directions: (2,0.5,0) (0,3,0) (0,0,4)"
    path = by_hand(tmp_path / "a.nrrd", array, "space dimension: 3", turned)
    with pytest.raises(ValueError, match=r"rotates axes in space; give affine='drop'"):
        bv.open(path)
    assert np.array_equal(np.asarray(bv.open(path, affine="drop")), array)
    swapped = "space directions: (0,2,0) (-3,0,0) (0,0,4)"
    lines = ["space dimension: 3", swapped, "space origin: (10,20,30)"]
    path = by_hand(tmp_path / "b.nrrd", array, *lines)
    volume = bv.open(path, affine="reorient")
    assert np.array_equal(np.asarray(volume), array.transpose(0, 2, 1)[:, :, ::-1])
    assert volume.voxel_size == (4, 2, 3) and volume.origin == (30, 20, 10 - 6 * 3)


def test_voxels_somewhere_else(tmp_path):
    array = voxels()
    (tmp_path / "v.raw").write_bytes(b"abc\ndefg" + array.tobytes())
    for k, lines in enumerate(
        (
            ["data file: v.raw", "byte skip: 8"],
            ["datafile: ./v.raw", "line skip: 1", "byteskip: 4"],
            ["data file: v.raw", "byte skip: -1"],
            [f"data file: {tmp_path}/v.raw", "byte skip: 8"],
        )
    ):
        path = by_hand(tmp_path / f"{k}.nhdr", array, *lines, data=b"")
        assert np.array_equal(np.asarray(bv.open(path)), array)
        assert [e.store["path"] for e in bv.open(path).node.source.reader.extents] == [
            str(tmp_path / "v.raw"),
            str(path),
        ]
    (tmp_path / "v.raw.gz").write_bytes(gzip.compress(b"12345" + array.tobytes()))
    lines = ["data file: v.raw.gz", "byte skip: 5"]
    path = by_hand(tmp_path / "z.nhdr", array, *lines, encoding="gz", data=b"")
    assert np.array_equal(np.asarray(bv.open(path)[2:, 1:, 3:]), array[2:, 1:, 3:])
    path = by_hand(tmp_path / "x.nhdr", array, "data file: gone.raw", data=b"")
    with pytest.raises(VolumeError, match=r"refers to the file 'gone\.raw', which does not exist"):
        bv.open(path)
    for said in ("LIST", "LIST 2", "a%03d.raw 1 5 1", "a%d.raw 1 5 1 2"):
        path = by_hand(tmp_path / "x.nhdr", array, f"data file: {said}", data=b"")
        with pytest.raises(ValueError, match="voxels in several files"):
            bv.open(path)


@pytest.mark.parametrize("stored", STORED)
def test_written(tmp_path, stored):
    array = voxels(stored)
    volume = bv.open(array, voxel_size=(40, 8, 3.3), unit="nm", origin=(400, 8, -1.5))
    target = volume.to(tmp_path / "a.nrrd", chunks=(2, 3, 9))
    back = bv.compute(target, runner=None, slab=(2, 6, 9))
    data, header = nrrd.read(str(tmp_path / "a.nrrd"))
    assert np.array_equal(data.T, array) and data.dtype == stored
    assert np.array_equal(header["space directions"], np.diag([3.3, 8, 40]))
    assert header["space units"] == ["nanometer"] * 3
    again = bv.open(tmp_path / "a.nrrd")
    for found in (back, again):
        assert np.array_equal(np.asarray(found), array)
        assert found.voxel_size == (40, 8, 3.3) and found.origin == (400, 8, -1.5)
        assert found.unit == "nanometer"
    assert bv.verify(tmp_path / "a.nrrd", checksums=True) == []


def test_written_and_read_by_itk(tmp_path):
    sitk = peer("SimpleITK")
    volume = bv.open(voxels(), voxel_size=(4, 3, 2), unit="mm", origin=(1, 2, 3))
    bv.compute(volume.to(tmp_path / "a.nrrd"), runner=None)
    image = sitk.ReadImage(str(tmp_path / "a.nrrd"))
    assert np.array_equal(sitk.GetArrayFromImage(image), voxels())
    assert image.GetSpacing() == (2, 3, 4) and image.GetOrigin() == (3, 2, 1)
    for compressed in (False, True):
        sitk.WriteImage(image, str(tmp_path / "b.nrrd"), compressed)
        back = bv.open(tmp_path / "b.nrrd")
        assert np.array_equal(np.asarray(back), voxels()) and back.origin == (1, 2, 3)


def test_two_dimensions_no_size_and_masks(tmp_path):
    image = voxels("u1", (7, 9))
    bv.compute(bv.open(image).to(tmp_path / "a.nrrd"), runner=None)
    assert np.array_equal(nrrd.read(str(tmp_path / "a.nrrd"))[0].T, image)
    assert bv.open(tmp_path / "a.nrrd").voxel_size is None
    bv.compute(bv.open(image, voxel_size=2, unit="um").to(tmp_path / "b.nrrd"), runner=None)
    assert bv.open(tmp_path / "b.nrrd").voxel_size == (2, 2)
    bv.compute(bv.open(voxels() > 0).to(tmp_path / "c.nrrd"), runner=None)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "c.nrrd")), voxels() > 0)
    assert bv.open(tmp_path / "c.nrrd").dtype == bool
    assert np.array_equal(nrrd.read(str(tmp_path / "c.nrrd"))[0].T, voxels() > 0)
    with pytest.raises(ValueError, match=r"nrrd cannot store float16; .* uint8, .*float64"):
        bv.open(voxels("f2")).to(tmp_path / "d.nrrd")


def test_encodings_that_are_refused(tmp_path):
    for encoding in ("bzip2", "ascii", "hex"):
        path = by_hand(tmp_path / "a.nrrd", voxels(), encoding=encoding)
        with pytest.raises(
            ValueError, match=f"the encoding {encoding}, but only raw and gzip are supported"
        ):
            bv.open(path)


@pytest.mark.parametrize(
    "change, error, text",
    [
        (("sizes: 9 7 5", "sizes: 9 7"), VolumeError, "3 dimensions, but the sizes"),
        (("sizes: 9 7 5", "sizes: 9 7 0"), VolumeError, "its sizes are 0 x 7 x 9"),
        (("sizes: 9 7 5", "sizes: 9 7 -5"), VolumeError, "3 dimensions, but the sizes"),
        (("sizes: 9 7 5", "sizes: 9 7 5000000000"), VolumeError, "cut off"),
        (("sizes: 9 7 5", "sizes: 9 7 6"), VolumeError, "cut off"),
        (("dimension: 3", "dimension: 300"), VolumeError, "it has 300 dimensions"),
        (("dimension: 3", "dimension: x"), VolumeError, "not a whole number"),
        (("int16", "block"), ValueError, "'block'"),
        (("endian: little\n", ""), VolumeError, "byte order"),
        (("encoding: raw", "encoding: raw\nencoding: raw"), VolumeError, "twice"),
        (("encoding: raw", "encoding: raw\nbyte skip: 9"), VolumeError, "cut off"),
        (("encoding: raw", "encoding: raw\nbyte skip: -9"), VolumeError, "byteskip is -9"),
        (("encoding: raw", "encoding: raw\nline skip: 99"), VolumeError, "no 99 lines to skip"),
        (("encoding: raw", "encoding: raw\nkinds: domain"), VolumeError, "does not have 3 kinds"),
        (("encoding: raw", "encoding: raw\nspacings: a b c"), VolumeError, "are not numbers"),
        (
            ("encoding: raw", "encoding: raw\nspace directions: (1,0) (0,1,0) (0,0,1)"),
            VolumeError,
            "does not define the position of its voxels",
        ),
        (
            ("encoding: raw", "encoding: raw\nspace directions: (nan,0,0) (0,1,0) (0,0,1)"),
            VolumeError,
            "does not define the position of its voxels",
        ),
        (("encoding: raw", "encoding: raw\nspace directions: x"), VolumeError, "are not vectors"),
        (("encoding: raw", "encoding: gzip\nbyte skip: 99999999999"), VolumeError, "can encode"),
    ],
)
def test_damaged(tmp_path, change, error, text):
    path = by_hand(tmp_path / "a.nrrd", np.zeros(SHAPE, "i2"))
    assert bv.open(path).shape == SHAPE
    old, new = (part.encode() for part in change)
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    with pytest.raises(error, match=text):
        bv.open(path)


def test_cut_off(tmp_path):
    path = by_hand(tmp_path / "a.nrrd", voxels())
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(VolumeError, match="cut off"):
        bv.open(path)
    path.write_bytes(whole[:76])
    with pytest.raises(VolumeError, match="no empty line ends its header"):
        bv.open(path)
    path.write_bytes(b"PK")
    with pytest.raises(VolumeError, match="no NRRD header"):
        bv.open(path)
    path.write_bytes(b"NRRD0004\n" + b"# x\n" * 300_000)
    with pytest.raises(VolumeError, match="does not end within"):
        bv.open(path)


@pytest.mark.parametrize("name", ["a.nrrd", "a.nhdr"])
def test_voxels_that_a_gzip_stream_ends_with_are_not_shifted(tmp_path, name):
    array = voxels("<i2", (40, 60, 90))
    data = gzip.compress(b"a header of 19 byte" + array.tobytes()[:7000], 1)
    data += gzip.compress(array.tobytes()[7000:], 1)  # of two members
    if name == "a.nhdr":
        (tmp_path / "v.gz").write_bytes(data)
    lines = ["byte skip: -1", *(["data file: v.gz"] if name == "a.nhdr" else [])]
    path = by_hand(
        tmp_path / name, array, *lines, encoding="gzip", data=data[: 0 if len(lines) > 1 else None]
    )
    assert np.array_equal(np.asarray(bv.open(path)), array)
    assert np.array_equal(np.asarray(bv.open(path)[30:, 5:, :3]), array[30:, 5:, :3])
    short = by_hand(tmp_path / "b.nrrd", array, "byte skip: -1", encoding="gzip", data=data[:-9])
    with pytest.raises(OSError, match=r"b\.nrrd is cut off"):
        np.asarray(bv.open(short))
    few = gzip.compress(bytes(array.nbytes - 1))
    few = by_hand(tmp_path / "c.nrrd", array, "byte skip: -1", encoding="gzip", data=few)
    with pytest.raises(OSError, match=r"c\.nrrd is cut off: its stream has 431,999 bytes"):
        np.asarray(bv.open(few))
