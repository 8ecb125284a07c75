"""NIfTI and Analyze: reads files of nibabel; nibabel and ITK read ours."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import slabs
from beam_volumes.session.begin import begin
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.places.errors import VolumeError
from tests.peers import peer

nib = pytest.importorskip("nibabel")

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "formats" / "example4d.nii.gz"
SHAPE = (5, 7, 9)
STORED = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


def voxels(stored="i2", shape=SHAPE):
    numbers = np.random.default_rng(3).integers(-100, 100, shape)
    return (np.abs(numbers) if np.dtype(stored).kind == "u" else numbers).astype(stored)


def save(path, array, affine=None, kind=None, order="<", **header):
    """Write an array of z, y, x, or t, z, y, x."""
    kind = nib.Nifti1Image if kind is None else kind
    head = kind.header_class(endianness=order)
    head.set_data_dtype(array.dtype)
    for name, value in header.items():
        head[name] = value
    image = kind(array.T, np.diag([2.0, 3, 4, 1]) if affine is None else affine, head)
    nib.save(image, path)
    return path


def patch(path, at, kind, *values, order="<"):
    data = bytearray(Path(path).read_bytes())
    struct.pack_into(f"{order}{len(values)}{kind}", data, at, *values)
    Path(path).write_bytes(data)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "a.img"])
def test_read(tmp_path, stored, name):
    array = voxels(stored)
    kind = nib.Nifti1Pair if name == "a.img" else nib.Nifti1Image
    affine = np.array([[2.0, 0, 0, -7], [0, 0.3, 0, 8.5], [0, 0, 4, 9], [0, 0, 0, 1]])
    volume = bv.open(save(tmp_path / name, array, affine, kind, xyzt_units=2))
    assert volume.dtype == stored and volume.axes == ("z", "y", "x")
    assert volume.voxel_size == (4, 0.3, 2) and volume.unit == "millimeter"
    assert volume.origin == (9, 8.5, -7)
    assert np.array_equal(np.asarray(volume), array)
    assert np.array_equal(np.asarray(volume[1:3, :2, -1:]), array[1:3, :2, -1:])


@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("shape", [SHAPE, (1, 1, 1), (7, 9), (1, 1, 300)])
def test_versions_orders_and_shapes(tmp_path, kind, order, shape):
    array = voxels("i2", shape)
    volume = bv.open(save(tmp_path / "a.nii", array, kind=kind, order=order))
    assert volume.shape == shape and np.array_equal(np.asarray(volume), array)
    assert volume.voxel_size == (4, 3, 2)[-len(shape) :]


def test_pair_by_its_header_and_analyze(tmp_path):
    save(tmp_path / "a.img", voxels(), kind=nib.Nifti1Pair)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a.hdr")), voxels())
    for order in "<>":
        save(tmp_path / "b.img", voxels("f4"), kind=nib.AnalyzeImage, order=order)
        for name in ("b.img", "b.hdr"):
            volume = bv.open(tmp_path / name)
            assert np.array_equal(np.asarray(volume), voxels("f4"))
            assert volume.voxel_size == (4, 3, 2) and volume.unit is None
    (tmp_path / "a.img").unlink()
    with pytest.raises(VolumeError, match="its voxels are missing; restore"):
        bv.open(tmp_path / "a.hdr")


@pytest.mark.parametrize("stored, seen", [("i2", "f4"), ("u1", "f4"), ("f4", "f4"), ("i4", "f8")])
def test_scaled(tmp_path, stored, seen):
    array = voxels(stored)
    path = save(tmp_path / "a.nii", array)
    patch(path, 112, "f", 0.1, -3.25)
    volume = bv.open(path)
    wanted = nib.load(path).get_fdata().T
    assert volume.dtype == seen and np.array_equal(np.asarray(volume), wanted.astype(seen))
    zipped = tmp_path / "b.nii.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(np.asarray(bv.open(zipped)[2:3]), wanted.astype(seen)[2:3])
    for slope, inter in ((1, 0), (0, 7), (np.nan, np.nan)):
        patch(path, 112, "f", slope, inter)
        assert bv.open(path).dtype == stored
    patch(path, 112, "f", 2, np.nan)
    with pytest.raises(VolumeError, match="scl_inter"):
        bv.open(path)


def test_time_points_and_vectors(tmp_path):
    array = voxels("i2", (3, *SHAPE))
    for name in ("a.nii", "a.nii.gz"):
        path = save(tmp_path / name, array)
        for t in range(3):
            assert np.array_equal(np.asarray(bv.open(path, index={"t": t})), array[t])
    vectors = voxels("f4", (2, 1, *SHAPE))
    path = save(tmp_path / "b.nii", vectors)
    assert np.array_equal(np.asarray(bv.open(path, index={"c": 1})), vectors[1, 0])
    with pytest.raises(ValueError, match="up to five are supported"):
        bv.open(save(tmp_path / "c.nii", voxels("i2", (2, 1, 1, *SHAPE))))


def test_colours(tmp_path):
    array = voxels("u1", (*SHAPE, 3))
    dtype = np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])
    path = save(tmp_path / "a.nii", array.view(dtype)[..., 0])
    green = bv.open(path, index={"c": "green"})
    assert np.array_equal(np.asarray(green), array[..., 1])
    assert np.array_equal(np.asarray(bv.open(path, index={"c": 2})[1:, 2:3]), array[1:, 2:3, :, 2])


def test_turned(tmp_path):
    """A rotation is refused, and so are reversed or reordered axes, which can be put right."""
    array = voxels()
    at = (10, 20, 30)
    angle = np.deg2rad(10)
    turned = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    affine = nib.affines.from_matvec(turned @ np.diag([2, 3, 4]), at)
    path = save(tmp_path / "a.nii", array, affine, xyzt_units=2)
    with pytest.raises(
        ValueError, match=r"rotates axes in space; give affine='drop' .* an origin$"
    ):
        bv.open(path)
    with pytest.raises(ValueError, match="rotates axes in space"):
        bv.open(path, affine="reorient")
    dropped = bv.open(path, affine="drop")
    assert np.array_equal(np.asarray(dropped), array)
    assert dropped.voxel_size == (4, 3, 2) and dropped.origin == (0, 0, 0)
    assert dropped.unit == "millimeter"
    with pytest.raises(ValueError, match="affine='left'; use 'drop' or 'reorient'"):
        bv.open(path, affine="left")
    for matrix in (
        [[-2, 0, 0], [0, 3, 0], [0, 0, 4]],
        [[0, 3, 0], [2, 0, 0], [0, 0, -4]],
        [[0, 0, -4], [-2, 0, 0], [0, -3, 0]],
    ):
        for name in ("b.nii", "b.nii.gz"):
            path = save(tmp_path / name, array, nib.affines.from_matvec(matrix, at), xyzt_units=3)
            with pytest.raises(ValueError, match=r"give affine='drop'.*or affine='reorient'"):
                bv.open(path)
            volume = bv.open(path, affine="reorient")
            wanted = nib.as_closest_canonical(nib.load(path))
            assert np.array_equal(np.asarray(volume), np.asarray(wanted.dataobj).T)
            assert np.array_equal(
                np.asarray(volume[1:3, 2:4, :2]), np.asarray(wanted.dataobj).T[1:3, 2:4, :2]
            )
            assert volume.voxel_size == tuple(wanted.header.get_zooms()[::-1])
            assert (
                volume.origin == tuple(wanted.affine[:3, 3][::-1]) and volume.unit == "micrometer"
            )
            assert np.array_equal(np.asarray(bv.open(path, affine="drop")), array)


def test_quaternion(tmp_path):
    path = save(tmp_path / "a.nii", voxels())
    image = nib.load(path)
    for matrix in ([[2, 0, 0], [0, 3, 0], [0, 0, 4]], [[0, 3, 0], [2, 0, 0], [0, 0, -4]]):
        image.set_qform(nib.affines.from_matvec(matrix, (1, 2, 3)), 1)
        image.set_sform(None, 0)
        nib.save(image, tmp_path / "b.nii")
        volume = bv.open(tmp_path / "b.nii", affine="reorient")
        wanted = nib.as_closest_canonical(nib.load(tmp_path / "b.nii"))
        assert volume.voxel_size == pytest.approx(wanted.header.get_zooms()[::-1])
        assert volume.origin == pytest.approx(wanted.affine[:3, 3][::-1], abs=1e-5)
        assert np.array_equal(np.asarray(volume), np.asarray(wanted.dataobj).T)
    patch(tmp_path / "b.nii", 256, "f", 3, 3, 3)
    with pytest.raises(
        VolumeError, match=r"does not define the position of its voxels.*affine='drop'"
    ):
        bv.open(tmp_path / "b.nii")


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_written(tmp_path, stored, name):
    array = voxels(stored)
    volume = bv.open(array, voxel_size=(40, 8, 3.3), unit="nm", origin=(400, 8, -1.5))
    how = {"chunks": (2, 3, 9), "slab": (2, 6, 9)} if name == "a.nii" else {}
    target = volume.to(tmp_path / name, **({"chunks": how["chunks"]} if how else {}))
    back = bv.compute(target, runner=None, slab=how.get("slab"))
    image = nib.load(tmp_path / name)
    assert np.array_equal(np.asarray(image.dataobj).T, array) and image.get_data_dtype() == stored
    assert image.header.get_xyzt_units()[0] == "micron"
    wanted = nib.affines.from_matvec(np.diag([0.0033, 0.008, 0.04]), (-0.0015, 0.008, 0.4))
    assert image.affine == pytest.approx(wanted)
    assert image.get_qform() == pytest.approx(wanted)
    again = bv.open(tmp_path / name)
    for found in (back, again):
        assert np.array_equal(np.asarray(found), array)
    assert again.voxel_size == (0.04, 0.008, 0.0033) and again.origin == (0.4, 0.008, -0.0015)
    assert again.unit == "micrometer"
    assert bv.verify(tmp_path / name, checksums=True) == []


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_written_and_read_by_itk(tmp_path, name):
    sitk = peer("SimpleITK")
    volume = bv.open(voxels(), voxel_size=(4, 3, 2), unit="mm", origin=(1, 2, 3))
    bv.compute(volume.to(tmp_path / name), runner=None)
    image = sitk.ReadImage(str(tmp_path / name))
    assert np.array_equal(sitk.GetArrayFromImage(image), voxels())
    assert image.GetSpacing() == (2, 3, 4)
    # ITK counts to the left and back, NIfTI to the right and front.
    assert image.GetOrigin() == (-3, -2, 1)
    sitk.WriteImage(image, str(tmp_path / "b.nii.gz"))
    assert np.array_equal(np.asarray(bv.open(tmp_path / "b.nii.gz")), voxels())


def test_written_in_several_units_and_resumed(tmp_path):
    array = np.random.default_rng(0).integers(0, 9, (5, 1500, 1500)).astype("u1")
    path = tmp_path / "a.nii.gz"
    target = bv.open(array).to(path)
    assert target.sink.chunk == (1, 1500, 1500)
    first = begin(bv.plan(target, slab=(1, 1500, 1500)), RunOptions())
    first.prepare()
    for slab in (0, 3):
        slabs.sweep_slab(first, 0, slab, {})
    assert not path.exists()
    bv.compute(bv.open(array).to(path), runner=None, resume=True, slab=(1, 1500, 1500))
    assert np.array_equal(np.asarray(nib.load(path).dataobj).T, array)
    assert bv.verify(path, checksums=True) == []


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_two_dimensions_no_size_and_masks(tmp_path, name):
    image = voxels("u1", (7, 9))
    bv.compute(bv.open(image).to(tmp_path / name), runner=None)
    assert np.array_equal(np.asarray(nib.load(tmp_path / name).dataobj).T, image)
    volume = bv.open(tmp_path / name)
    assert volume.voxel_size is None and volume.unit is None and volume.axes == ("y", "x")
    mask = bv.open(voxels() > 0)
    bv.compute(mask.to(tmp_path / f"b{name}"), runner=None)
    assert np.array_equal(np.asarray(bv.open(tmp_path / f"b{name}")), voxels() > 0)
    assert bv.open(tmp_path / f"b{name}").dtype == bool
    assert np.array_equal(nib.load(tmp_path / f"b{name}").get_fdata().T, voxels() > 0)


def test_long_axes_are_of_the_second_version(tmp_path):
    array = voxels("u1", (1, 2, 40000))
    bv.compute(bv.open(array, voxel_size=1, unit="um").to(tmp_path / "a.nii"), runner=None)
    image = nib.load(tmp_path / "a.nii")
    assert isinstance(image, nib.Nifti2Image)
    assert np.array_equal(np.asarray(image.dataobj).T, array)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a.nii")), array)


def test_what_it_does_not_hold(tmp_path):
    for name in ("a.nii", "a.nii.gz"):
        with pytest.raises(ValueError, match=r"cannot store float16; .* uint8, .*float64"):
            bv.open(voxels("f2")).to(tmp_path / name)
    with pytest.raises(ValueError, match="chunks=4 is for"):
        bv.open(voxels()).to(tmp_path / "a.nii.gz", chunks=4)


def test_damaged(tmp_path):
    path = save(tmp_path / "a.nii", voxels())
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(VolumeError, match=r"cut off.*5 x 7 x 9 voxels of int16 take 630 bytes"):
        bv.open(path)
    path.write_bytes(whole[:200])
    with pytest.raises(VolumeError, match=r"no NIfTI header \(200 bytes"):
        bv.open(path)
    cases = [
        (40, "h", (8,), "its dimensions are"),
        (40, "h", (0,), "its dimensions are"),
        (42, "h", (-1,), "its dimensions are"),
        (42, "h", (32767, 32767, 32767), "cut off"),
        (70, "h", (3,), "datatype 3 does not exist"),
        (108, "f", (100,), "begin at byte 100"),
        (108, "f", (np.nan,), "begin at byte nan"),
        (108, "f", (1e30,), "cut off"),
        (280, "f", (0, 0, 0), "does not define the position of its voxels"),
        (280, "f", (np.inf,), "does not define the position of its voxels"),
    ]
    for at, kind, values, text in cases:
        path.write_bytes(whole)
        patch(path, at, kind, *values)
        with pytest.raises(VolumeError, match=text):
            bv.open(path)
    path.write_bytes(whole)
    patch(path, 70, "h", 32)
    with pytest.raises(ValueError, match="complex numbers"):
        bv.open(path)


def test_damaged_streams(tmp_path):
    path = save(tmp_path / "a.nii.gz", voxels("i2", (50, 70, 90)))
    whole = path.read_bytes()
    source = open_source(str(path))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OSError, match=r"a\.nii\.gz ends after .* bytes .* instead of"):
        pickle.loads(pickle.dumps(source)).read()
    damaged = bytearray(whole)
    damaged[len(whole) // 2 : len(whole) // 2 + 100] = bytes(100)
    path.write_bytes(damaged)
    with pytest.raises(OSError, match=r"a\.nii\.gz (is damaged|ends)"):
        bv.open(path).node.source.read()
    head = bytearray(gzip.decompress(whole)[:352])
    struct.pack_into("<8h", head, 40, 3, 30000, 30000, 30000, 1, 1, 1, 1)
    path.write_bytes(gzip.compress(bytes(head)))
    with pytest.raises(VolumeError, match="can encode"):
        bv.open(path)
    path.write_bytes(whole[:100])
    with pytest.raises(VolumeError, match="no NIfTI header"):
        bv.open(path)


@pytest.mark.skipif(not REAL.exists(), reason="needs nibabel's example")
def test_real_file():
    with pytest.raises(ValueError, match="its affine rotates axes in space; give affine='drop'"):
        bv.open(REAL, index={"t": 0})
    wanted = np.asarray(nib.load(REAL).dataobj)
    for t in range(2):
        volume = bv.open(REAL, index={"t": t}, affine="drop")
        assert np.array_equal(np.asarray(volume), wanted[..., t].T)
    assert volume.voxel_size == pytest.approx((2.2, 2, 2)) and volume.unit == "millimeter"
    series = bv.open(REAL, affine="drop")
    assert series.axes == ("t", "z", "y", "x")
    assert np.array_equal(np.asarray(series), wanted.T)
