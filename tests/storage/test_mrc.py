"""MRC: reads files of mrcfile, and mrcfile reads ours."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.places.errors import VolumeError

mrcfile = pytest.importorskip("mrcfile")

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "formats"
SHAPE = (5, 7, 9)


def voxels(stored="i2", shape=SHAPE):
    numbers = np.random.default_rng(3).integers(-100, 100, shape)
    return (np.abs(numbers) if np.dtype(stored).kind == "u" else numbers).astype(stored)


def save(path, array, voxel_size=None, **header):
    with mrcfile.new(path, overwrite=True) as file:
        file.set_data(array)
        if voxel_size is not None:
            file.voxel_size = voxel_size
        for name, value in header.items():
            file.header[name] = value
    return path


def patch(path, at, kind, *values):
    data = bytearray(Path(path).read_bytes())
    struct.pack_into(f"<{len(values)}{kind}", data, at, *values)
    Path(path).write_bytes(data)


@pytest.mark.parametrize("stored", ["i1", "i2", "u2", "f2", "f4"])
@pytest.mark.parametrize("shape", [SHAPE, (1, 1, 1), (2, 1, 300)])
def test_read(tmp_path, stored, shape):
    array = voxels(stored, shape)
    path = save(tmp_path / "a.mrc", array, (1.5, 2.25, 3.3))
    volume = bv.open(path)
    assert volume.dtype == stored and volume.axes == ("z", "y", "x")
    assert volume.voxel_size == (3.3, 2.25, 1.5) and volume.unit == "angstrom"
    assert np.array_equal(np.asarray(volume), array)
    assert np.array_equal(np.asarray(volume[:, :1, -1:]), array[:, :1, -1:])


@pytest.mark.parametrize("stored", ["i1", "i2", "u2", "f2", "f4"])
def test_big_endian(tmp_path, stored):
    array = voxels(stored)
    path = save(tmp_path / "a.map", array, 2.0)
    with mrcfile.open(path) as file:
        head = file.header.copy().view(file.header.dtype.newbyteorder("<"))
    swapped = head.astype(head.dtype.newbyteorder(">"))
    data = bytearray(swapped.tobytes() + array.astype(f">{stored}").tobytes())
    data[212:216] = b"\x11\x11\0\0"
    path.write_bytes(data)
    with mrcfile.open(path) as file:
        assert np.array_equal(file.data, array)
    assert np.array_equal(np.asarray(bv.open(path)), array)
    assert bv.open(path).voxel_size == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("axes", [(1, 2, 3), (3, 1, 2), (2, 1, 3), (3, 2, 1), (1, 3, 2), (2, 3, 1)])
def test_orders_of_axes(tmp_path, axes):
    array = voxels()
    mapc, mapr, maps = axes
    path = save(tmp_path / "a.mrc", array, mapc=mapc, mapr=mapr, maps=maps)
    n = dict(zip(axes, array.shape[::-1], strict=True))
    patch(path, 28, "i", n[1], n[2], n[3])
    patch(path, 40, "f", n[1] * 1.0, n[2] * 2.0, n[3] * 4.0)
    patch(path, 16, "i", *(10 * a for a in axes))  # the first column, row and section
    order = [(maps, mapr, mapc).index(a) for a in (3, 2, 1)]
    volume = bv.open(path)
    assert np.array_equal(np.asarray(volume), array.transpose(order))
    assert np.array_equal(np.asarray(volume[1:3, 2:, :4]), array.transpose(order)[1:3, 2:, :4])
    assert volume.voxel_size == (4, 2, 1) and volume.origin == (120, 40, 10)


def test_origin_and_extended_header(tmp_path):
    array = voxels("f4")
    path = save(tmp_path / "a.mrc", array, 2.0)
    with mrcfile.open(path, "r+") as file:
        file.header.origin = (1.5, -2.5, 4)
        file.set_extended_header(np.frombuffer(b"x" * 333, "S1"))
    volume = bv.open(path)
    assert volume.origin == (4, -2.5, 1.5) and np.array_equal(np.asarray(volume), array)


def test_images_and_stacks(tmp_path):
    image = voxels(shape=(7, 9))
    assert bv.open(save(tmp_path / "a.mrc", image)).axes == ("y", "x")
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a.mrc")), image)
    with mrcfile.new(tmp_path / "b.mrcs") as file:
        file.set_data(voxels())
        file.set_image_stack()
    assert np.array_equal(np.asarray(bv.open(tmp_path / "b.mrcs")), voxels())
    many = voxels(shape=(3, 2, 7, 9))
    with mrcfile.new(tmp_path / "c.mrc") as file:
        file.set_data(many)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "c.mrc", index={"t": 1})), many[1])


def test_bytes_of_imod(tmp_path):
    """Bytes are signed, unless there is IMOD's stamp without its flag."""
    array = voxels("i1")
    path = save(tmp_path / "a.st", array)
    for flags, stored in ((1, "i1"), (0, "u1")):
        patch(path, 152, "i", 1146047817, flags)
        assert bv.open(path).dtype == stored
        assert np.array_equal(np.asarray(bv.open(path)), array.view(stored))


def test_gzip(tmp_path):
    path = save(tmp_path / "a.map", voxels("f4"), 3.0)
    zipped = tmp_path / "b.map.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(np.asarray(bv.open(zipped)), voxels("f4"))


def test_found_by_its_content(tmp_path):
    path = save(tmp_path / "a.mrc", voxels())
    assert bv.open(path.rename(tmp_path / "volume")).shape == SHAPE


@pytest.mark.parametrize("stored", ["i1", "i2", "u2", "f2", "f4"])
def test_written(tmp_path, stored):
    array = voxels(stored)
    volume = bv.open(array, voxel_size=(4, 0.8, 0.33), unit="nm", origin=(40, 8, -1.5))
    back = bv.compute(volume.to(tmp_path / "a.mrc", chunks=(2, 3, 9)), runner=None, slab=(2, 6, 9))
    with mrcfile.open(tmp_path / "a.mrc") as file:
        assert np.array_equal(file.data, array) and file.data.dtype == stored
        size, origin = file.voxel_size, file.header.origin
        assert (size.z, size.y, size.x) == pytest.approx((40, 8, 3.3))
        assert (origin.z, origin.y, origin.x) == pytest.approx((400, 80, -15))
    assert mrcfile.validate(tmp_path / "a.mrc")
    again = bv.open(tmp_path / "a.mrc")
    for found in (back, again):
        assert np.array_equal(np.asarray(found), array)
    assert again.voxel_size == (40, 8, 3.3) and again.origin == (400, 80, -15)
    assert bv.verify(tmp_path / "a.mrc", checksums=True) == []


def test_written_without_a_size_and_in_two_dimensions(tmp_path):
    bv.compute(bv.open(voxels(shape=(7, 9))).to(tmp_path / "a.mrc"), runner=None)
    with mrcfile.open(tmp_path / "a.mrc") as file:
        assert np.array_equal(file.data, voxels(shape=(7, 9)))
    assert bv.open(tmp_path / "a.mrc").voxel_size is None
    crop = bv.open(voxels())[2:, 3:, 1:]
    bv.compute(crop.to(tmp_path / "b.mrc"), runner=None)
    assert bv.open(tmp_path / "b.mrc").origin == (2, 3, 1)


def test_masks(tmp_path):
    mask = voxels() > 0
    bv.compute(bv.open(mask).to(tmp_path / "a.mrc"), runner=None)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a.mrc")), mask.astype("i1"))
    with mrcfile.open(tmp_path / "a.mrc") as file:
        assert np.array_equal(file.data, mask)


def test_what_it_does_not_hold(tmp_path):
    with pytest.raises(
        ValueError, match=r"mrc cannot store uint8; .* int8, int16, uint16, float16"
    ):
        bv.open(voxels("u1")).to(tmp_path / "a.mrc")
    with pytest.raises(ValueError, match=r"lengths in angstrom.*unit='nm'"):
        bv.open(voxels(), voxel_size=3).to(tmp_path / "a.mrc")
    with pytest.raises(
        ValueError, match="without a voxel size mrc stores an origin in whole voxels"
    ):
        bv.open(voxels(), origin=0.5).to(tmp_path / "a.mrc")


@pytest.mark.parametrize("mode", [3, 4, 101])
def test_modes_that_are_refused(tmp_path, mode):
    path = save(tmp_path / "a.mrc", voxels())
    patch(path, 12, "i", mode)
    with pytest.raises(ValueError, match=rf"mode {mode}\); the supported modes are 0, 1, 2"):
        bv.open(path)


def test_damaged(tmp_path):
    path = save(tmp_path / "a.mrc", voxels())
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(VolumeError, match=r"cut off.*630 bytes from byte 1,024 on.* has 1,653"):
        bv.open(path)
    path.write_bytes(whole[:1000])
    with pytest.raises(VolumeError, match="no valid MRC header"):
        bv.open(path)
    path.write_bytes(whole)
    source = open_source(str(path))
    path.write_bytes(whole[:-100])  # after it was opened
    with pytest.raises(OSError, match="cut off"):
        pickle.loads(pickle.dumps(source)).read()
    for at, kind, value in (
        (0, "i", -1),
        (8, "i", 0),
        (12, "i", 77),
        (64, "i", 9),
        (92, "i", -5),
    ):
        path.write_bytes(whole)
        patch(path, at, kind, value)
        with pytest.raises(VolumeError, match="no valid MRC header"):
            bv.open(path)
    for at in (0, 92):
        path.write_bytes(whole)
        patch(path, at, "i", 2**31 - 1)
        with pytest.raises(VolumeError, match="cut off"):
            bv.open(path)
    path.write_bytes(whole)
    patch(path, 40, "f", np.nan, -3, np.inf)
    assert bv.open(path).voxel_size is None


@pytest.mark.skipif(not (REAL / "EMD-3001.map").exists(), reason="needs files of the EMDB")
def test_real_files():
    with pytest.warns(UserWarning, match=r"not orthogonal \(90, 94.326, 90 degrees\)"):
        crystal = bv.open(REAL / "EMD-3001.map")
    with mrcfile.open(REAL / "EMD-3001.map") as file:
        assert np.array_equal(np.asarray(crystal), file.data.transpose(2, 0, 1))
        assert crystal.voxel_size == pytest.approx((0.45875, 0.3925, 0.44825))
        assert crystal.origin == pytest.approx((0, -12 * 0.3925, -21 * 0.44825))
    average = bv.open(REAL / "EMD-3197.map")
    with mrcfile.open(REAL / "EMD-3197.map") as file:
        assert np.array_equal(np.asarray(average), file.data)
    assert average.voxel_size == (11.4, 11.4, 11.4) and average.origin == (0, 0, -22.8)
