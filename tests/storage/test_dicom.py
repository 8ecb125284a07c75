"""DICOM: files that pydicom writes or carries, read by us, by pydicom and by SimpleITK."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.formats.dicom import frames as dicom_frames
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.places.errors import VolumeError
from tests.peers import peer

pydicom = pytest.importorskip("pydicom")
from pydicom.data import get_testdata_file  # noqa: E402
from pydicom.dataset import Dataset, FileMetaDataset  # noqa: E402
from pydicom.encaps import encapsulate  # noqa: E402
from pydicom.pixels import apply_rescale  # noqa: E402
from pydicom.uid import (  # noqa: E402
    CTImageStorage,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    RLELossless,
    generate_uid,
)

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "formats"
SERIES = "1.2.3.4"


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pydicom")
        yield


def header(image, *, syntax=ExplicitVRLittleEndian, series=SERIES, number=3, **tags):
    """A file of one image with minimal metadata."""
    ds = Dataset()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = syntax
    ds.file_meta.MediaStorageSOPClassUID = ds.SOPClassUID = CTImageStorage
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID = generate_uid()
    ds.SeriesInstanceUID, ds.SeriesNumber = series, number
    ds.Rows, ds.Columns = image.shape[:2]
    ds.SamplesPerPixel = 1 if image.ndim == 2 else image.shape[2]
    ds.PhotometricInterpretation = "MONOCHROME2" if image.ndim == 2 else "RGB"
    if image.ndim == 3:
        ds.PlanarConfiguration = 0
    ds.BitsAllocated = ds.BitsStored = 8 * image.dtype.itemsize
    ds.HighBit = ds.BitsStored - 1
    ds.PixelRepresentation = int(image.dtype.kind == "i")
    for name, value in tags.items():
        setattr(ds, name, value)
    return ds


def save(path, image, **how):
    ds = header(image, **how)
    order = ">" if ds.file_meta.TransferSyntaxUID == ExplicitVRBigEndian else "<"
    if "PixelData" not in ds:
        ds.PixelData = image.astype(image.dtype.newbyteorder(order)).tobytes()
        if len(ds.PixelData) % 2:
            ds.PixelData += b"\0"
    ds["PixelData"].VR = "OB" if image.dtype.itemsize == 1 else "OW"
    ds.save_as(path, enforce_file_format=True)
    return ds


def placed(z, orientation=(1, 0, 0, 0, 1, 0), spacing=(0.5, 0.75), start=(-10.0, 20.0, 5.0)):
    """Where a slice lies that is ``z`` millimetres along."""
    normal = np.cross(orientation[:3], orientation[3:])
    at = np.array(start) + z * normal
    return {
        "ImagePositionPatient": [round(float(a), 6) for a in at],
        "ImageOrientationPatient": list(orientation),
        "PixelSpacing": list(spacing),
    }


def voxels(dtype="i2", shape=(7, 5, 6), seed=3):
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


def series(folder, array, step=2.5, names="{:03d}.dcm", **how):
    """A series of files with names in no order."""
    folder.mkdir(exist_ok=True)
    order = np.random.default_rng(1).permutation(len(array))
    paths = [folder / names.format(k) for k in order]
    for k, (path, image) in enumerate(zip(paths, array, strict=True)):
        save(path, image, **{**placed(k * step), "SliceThickness": 9, **how})
    return paths


def image_of(path):
    """What SimpleITK reads."""
    sitk = peer("SimpleITK")
    if path.is_dir():
        reader = sitk.ImageSeriesReader()
        reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(path)))
        return sitk, reader.Execute()
    return sitk, sitk.ReadImage(str(path))


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "u4", "i4"])
@pytest.mark.parametrize(
    "syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian]
)
def test_a_series(tmp_path, dtype, syntax):
    array = voxels(dtype)
    series(tmp_path / "a", array, syntax=syntax)
    before = dicom_frames.decoded
    volume = bv.open(tmp_path / "a")
    assert dicom_frames.decoded == before
    assert volume.dtype == dtype and volume.unit == "millimeter"
    assert volume.voxel_size == (2.5, 0.5, 0.75) and volume.origin == (5.0, 20.0, -10.0)
    assert np.array_equal(np.asarray(volume), array)
    assert dicom_frames.decoded == before + len(array)
    assert np.array_equal(np.asarray(volume[2:4, 1:3]), array[2:4, 1:3])
    assert dicom_frames.decoded == before + len(array) + 2
    if syntax == ExplicitVRLittleEndian and dtype in ("u1", "i2"):
        sitk, image = image_of(tmp_path / "a")
        assert np.array_equal(sitk.GetArrayFromImage(image), array)
        assert image.GetSpacing()[::-1] == pytest.approx(volume.voxel_size)
        assert image.GetOrigin()[::-1] == pytest.approx(volume.origin)


@pytest.mark.parametrize("names", ["IM{:05d}", "1.2.840.{:d}", "{:d}.IMA"])
def test_files_are_found_by_what_they_are(tmp_path, names):
    array = voxels("u1")
    series(tmp_path / "a", array, names=names)
    (tmp_path / "a" / "DICOMDIR").write_bytes(bytes(200))
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    (tmp_path / "a" / ".hidden.dcm").write_text("not an image")
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a")), array)


def test_a_glob_and_a_filter(tmp_path):
    array = voxels("u2")
    paths = series(tmp_path / "a", array)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a" / "*.dcm")), array)
    kept = [k for k, p in enumerate(paths) if p.name < "003.dcm"]
    assert len(kept) == 3
    for k, path in enumerate(paths):
        path.rename(tmp_path / "a" / f"{'x' if k < 4 else 'y'}{k}.dcm")
    part = bv.open(tmp_path / "a" / "y*")
    assert np.array_equal(np.asarray(part), array[4:]) and part.origin[0] == 15.0
    found = bv.compute(
        bv.median_filter(bv.open(tmp_path / "a"), 3).to(tmp_path / "o.zarr"), runner=None
    )
    assert np.array_equal(np.asarray(found), np.asarray(bv.median_filter(bv.open(array), 3)))


def test_several_series(tmp_path):
    one, two = voxels("u1", seed=1), voxels("i2", seed=2)
    series(tmp_path / "a", one, names="a{}.dcm", SeriesDescription="Localizer\x1b[2J")
    series(tmp_path / "a", two, names="b{}.dcm", series="9.8.7", number=12)
    with pytest.raises(
        ValueError, match=r"has 2 series.*dataset=.*3 \(Localizer.*UID 9\.8\.7"
    ) as e:
        bv.open(tmp_path / "a")
    assert "\x1b" not in str(e.value)
    for dataset, array in (("3", one), (SERIES, one), ("12", two), ("9.8.7", two)):
        assert np.array_equal(np.asarray(bv.open(tmp_path / "a", dataset=dataset)), array)
    with pytest.raises(ValueError, match=r"dataset='4': .* no series of that number"):
        bv.open(tmp_path / "a", dataset="4")


def test_what_is_missing_or_too_many(tmp_path):
    paths = series(tmp_path / "a", voxels("u1"))
    kept = paths[3].read_bytes()
    paths[3].unlink()
    with pytest.raises(
        VolumeError, match=rf"1 slice missing between {paths[2].name} and {paths[4].name}"
    ):
        bv.open(tmp_path / "a")
    paths[3].write_bytes(kept)
    (tmp_path / "a" / "copy.dcm").write_bytes(kept)
    with pytest.raises(VolumeError, match=r"are at the same position .*1 slice too many"):
        bv.open(tmp_path / "a")
    (tmp_path / "a" / "copy.dcm").unlink()
    save(paths[6], voxels("u1")[6], **placed(6 * 2.5 + 0.6))
    with pytest.raises(VolumeError, match="not evenly spaced"):
        bv.open(tmp_path / "a")
    save(paths[6], voxels("u1")[6], **placed(6 * 2.5 + 0.004))  # places are rounded
    assert bv.open(tmp_path / "a").voxel_size[0] == pytest.approx(2.5, abs=1e-3)
    save(paths[6], voxels("u1")[6], **placed(15.0, spacing=(0.5, 0.8)))
    with pytest.raises(VolumeError, match=r"0\.75.* mm apart"):
        bv.open(tmp_path / "a")
    save(paths[6], voxels("u1", (1, 5, 7))[0], **placed(15.0))
    with pytest.raises(VolumeError, match=r"5 x 7 uint8, but .*5 x 6 uint8.*must be alike"):
        bv.open(tmp_path / "a")
    save(paths[6], voxels("u1")[6], **placed(15.0, orientation=(0, 1, 0, 1, 0, 0)))
    with pytest.raises(VolumeError, match=r"have different orientations; .* by a glob"):
        bv.open(tmp_path / "a")


def test_without_places(tmp_path):
    array = voxels("u1")
    (tmp_path / "a").mkdir()
    for k, image in enumerate(array):
        save(tmp_path / "a" / f"{(5 * k) % 7}.dcm", image, InstanceNumber=k + 11)
    volume = bv.open(tmp_path / "a")
    assert np.array_equal(np.asarray(volume), array) and volume.voxel_size is None
    (tmp_path / "a" / "3.dcm").unlink()
    with pytest.raises(VolumeError, match="have the numbers 12 and 14"):
        bv.open(tmp_path / "a")
    save(tmp_path / "a" / "3.dcm", array[0], InstanceNumber=12)
    save(tmp_path / "a" / "9.dcm", array[0], InstanceNumber=12)
    with pytest.raises(VolumeError, match="have the same number"):
        bv.open(tmp_path / "a")


@pytest.mark.parametrize(
    "orientation",
    [
        (0, 1, 0, 0, 0, -1),  # sagittal, from head to foot
        (1, 0, 0, 0, 0, -1),  # coronal
        (-1, 0, 0, 0, -1, 0),  # turned by half
        (0, 1, 0, 1, 0, 0),
    ],
)
def test_axes_that_are_turned(tmp_path, orientation):
    array = voxels("u1")
    (tmp_path / "a").mkdir()
    for k in range(7):
        save(tmp_path / "a" / f"{k}.dcm", array[k], **placed(2.0 * k, orientation))
    with pytest.raises(ValueError, match=r"affine='drop' .* or affine='reorient'"):
        bv.open(tmp_path / "a")
    stored = bv.open(tmp_path / "a", affine="drop")
    assert np.array_equal(np.asarray(stored), array)
    assert stored.voxel_size == (2.0, 0.5, 0.75) and stored.origin == (0, 0, 0)
    volume = bv.open(tmp_path / "a", affine="reorient")
    sitk, image = image_of(tmp_path / "a")
    assert np.array_equal(sitk.GetArrayFromImage(image), array)
    turned = sitk.DICOMOrient(image, "LPS")
    assert np.array_equal(np.asarray(volume), sitk.GetArrayFromImage(turned))
    assert volume.voxel_size == pytest.approx(turned.GetSpacing()[::-1])
    assert volume.origin == pytest.approx(turned.GetOrigin()[::-1])
    assert np.array_equal(np.asarray(volume[1:3, 2:4, 1:]), np.asarray(volume)[1:3, 2:4, 1:])


def test_oblique_axes(tmp_path):
    array = voxels("u1")
    c, s = np.cos(0.3), np.sin(0.3)
    (tmp_path / "a").mkdir()
    for k in range(7):
        save(tmp_path / "a" / f"{k}.dcm", array[6 - k], **placed(-2.0 * k, (c, s, 0, -s, c, 0)))
    with pytest.raises(ValueError, match=r'oblique .*affine="drop"'):
        bv.open(tmp_path / "a")
    volume = bv.open(tmp_path / "a", affine="drop")
    assert volume.voxel_size == pytest.approx((2.0, 0.5, 0.75)) and volume.origin == (0, 0, 0)
    assert np.array_equal(np.asarray(volume), array)
    with pytest.raises(ValueError, match="affine='turn'"):
        bv.open(tmp_path / "a", affine="turn")
    for k in range(7):  # a tilted gantry
        where = placed(2.0 * k, start=(-10.0, 20.0 + k, 5.0))
        save(tmp_path / "a" / f"{k}.dcm", array[k], **where)
    with pytest.raises(ValueError, match=r"slices that are shifted by up to 6 mm"):
        bv.open(tmp_path / "a")
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a", affine="drop")), array)


@pytest.mark.parametrize(
    ("dtype", "bits", "slope", "intercept", "expected"),
    [
        ("u2", 12, 1, -1024, "i2"),
        ("u2", 12, 1, 0, "u2"),
        ("i2", 16, 1, -1024, "i4"),
        ("u1", 8, 2, 1, "u2"),
        ("u2", 16, 0.5, 0, "f8"),
        ("u4", 32, 3, -1, "i8"),
    ],
)
def test_what_numbers_stand_for(tmp_path, dtype, bits, slope, intercept, expected):
    image = voxels(dtype, (8, 9)) >> np.dtype(dtype).type(8 * np.dtype(dtype).itemsize - bits)
    how = {"BitsStored": bits, "HighBit": bits - 1}
    path = tmp_path / "a.dcm"
    save(path, image, RescaleSlope=slope, RescaleIntercept=intercept, **how)
    volume = bv.open(path)
    ds = pydicom.dcmread(path)
    assert volume.dtype == expected and volume.shape == (8, 9)
    assert np.array_equal(np.asarray(volume), apply_rescale(ds.pixel_array, ds))
    raw = bv.open(path, rescale=False)
    assert raw.dtype == dtype and np.array_equal(np.asarray(raw), image)


def test_a_slope_for_each_slice(tmp_path):
    """As positron emission tomographs write them."""
    array = voxels("u2")
    (tmp_path / "a").mkdir()
    for k, image in enumerate(array):
        how = {"RescaleSlope": 0.25 * (k + 1), "RescaleIntercept": 0}
        save(tmp_path / "a" / f"{k}.dcm", image, **placed(k), **how)
    expected = array * (0.25 * np.arange(1, 8))[:, None, None]
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a")), expected)


def test_bits_that_do_not_count(tmp_path):
    """Of old files, where other bits hold overlays."""
    stored = voxels("u2", (8, 9))
    how = {"BitsStored": 10, "HighBit": 11}
    save(tmp_path / "u.dcm", stored, **how)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "u.dcm")), stored >> 2 & 1023)
    save(tmp_path / "i.dcm", stored.view("i2"), **how)
    signed = (stored << 4).view("i2") >> 6
    assert np.array_equal(np.asarray(bv.open(tmp_path / "i.dcm")), signed)


def frames_of(array, **tags):
    return {"NumberOfFrames": len(array), "PixelData": array.tobytes(), **tags}


def test_frames_of_one_file(tmp_path):
    array = voxels("u2", (6, 5, 4))
    save(tmp_path / "a.dcm", array[0], **frames_of(array))
    volume = bv.open(tmp_path / "a.dcm")
    assert np.array_equal(np.asarray(volume), array) and volume.axes == ("z", "y", "x")
    dose = {**placed(0), "GridFrameOffsetVector": [-5.0 * k for k in range(6)]}
    dose["FrameIncrementPointer"] = 0x3004000C
    save(tmp_path / "b.dcm", array[0], **frames_of(array, **dose))
    volume = bv.open(tmp_path / "b.dcm")
    assert np.array_equal(np.asarray(volume), array[::-1])
    assert volume.voxel_size == (5.0, 0.5, 0.75) and volume.origin == (-20.0, 20.0, -10.0)


def test_frames_that_say_where_they_are(tmp_path):
    """As enhanced objects have it: a group for each frame, and one for all."""
    array = voxels("u2", (5, 4, 3))

    def sequence(**tags):
        item = Dataset()
        for name, value in tags.items():
            setattr(item, name, value)
        return [item]

    shared = Dataset()
    shared.PlaneOrientationSequence = sequence(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])
    shared.PixelMeasuresSequence = sequence(PixelSpacing=[0.5, 0.75], SliceThickness=9)
    frames = []
    for z in (2, 0, 1, 4, 3):
        frame = Dataset()
        frame.PlanePositionSequence = sequence(ImagePositionPatient=[1, 2, 3 + 1.5 * z])
        rescale = sequence(RescaleSlope=2, RescaleIntercept=z)
        frame.PixelValueTransformationSequence = rescale
        frames.append(frame)
    groups = {"SharedFunctionalGroupsSequence": [shared]}
    groups["PerFrameFunctionalGroupsSequence"] = frames
    save(tmp_path / "a.dcm", array[0], **frames_of(array, **groups))
    volume = bv.open(tmp_path / "a.dcm")
    assert volume.voxel_size == (1.5, 0.5, 0.75) and volume.origin == (3.0, 2.0, 1.0)
    ordered = array[[1, 2, 0, 4, 3]].astype("i8") * 2 + np.arange(5)[:, None, None]
    assert np.array_equal(np.asarray(volume), ordered)
    groups["PerFrameFunctionalGroupsSequence"] = frames[:4]
    save(tmp_path / "a.dcm", array[0], **frames_of(array, **groups))
    with pytest.raises(VolumeError, match="describes 4 of its 5 frames"):
        bv.open(tmp_path / "a.dcm")


def test_frames_of_bits(tmp_path):
    masks = voxels("u1", (3, 5, 7)) > 100
    packed = np.packbits(masks.reshape(-1), bitorder="little").tobytes() + b"\0"
    how = {"BitsAllocated": 1, "BitsStored": 1, "HighBit": 0}
    save(
        tmp_path / "a.dcm",
        masks[0].astype("u1"),
        **how,
        **frames_of(masks, PixelData=packed[: 14 + 14 % 2]),
    )
    volume = bv.open(tmp_path / "a.dcm")
    assert volume.dtype == bool and np.array_equal(np.asarray(volume), masks)


def test_colours(tmp_path):
    image = voxels("u1", (5, 6, 3))
    save(tmp_path / "a.dcm", image)
    planes = np.moveaxis(image, -1, 0).tobytes()
    save(tmp_path / "b.dcm", image, PlanarConfiguration=1, PixelData=planes)
    for name in ("a.dcm", "b.dcm"):
        for c, colour in enumerate(("red", "green", "blue")):
            found = bv.open(tmp_path / name, index={"c": colour})
            assert np.array_equal(np.asarray(found), image[..., c])
        before = dicom_frames.decoded
        volume = bv.open(tmp_path / name)
        assert volume.channels == ("red", "green", "blue") and volume.axes == ("c", "y", "x")
        assert np.array_equal(np.asarray(volume), np.moveaxis(image, -1, 0))
        assert dicom_frames.decoded == before + 1


@pytest.mark.parametrize("table", [True, False])
def test_compressed_frames(tmp_path, table):
    imagecodecs = pytest.importorskip("imagecodecs")
    array = voxels("u2", (6, 12, 9))
    codes = [imagecodecs.jpeg2k_encode(a, codecformat="j2k", reversible=True) for a in array]
    for pieces in (1, 3):
        data = encapsulate(codes, fragments_per_frame=pieces, has_bot=table)
        tags = frames_of(array, PixelData=data)
        save(tmp_path / "a.dcm", array[0], syntax=JPEG2000Lossless, **tags)
        if pieces > 1 and not table:
            with pytest.raises(OSError, match="pieces without an offset table"):
                np.asarray(bv.open(tmp_path / "a.dcm"))
            continue
        assert np.array_equal(np.asarray(bv.open(tmp_path / "a.dcm")), array)
        assert np.array_equal(pydicom.dcmread(tmp_path / "a.dcm").pixel_array, array)
    ds = header(array[0], **placed(0))
    ds.PixelData = array[0].tobytes()
    ds.compress(RLELossless)
    ds.save_as(tmp_path / "r.dcm", enforce_file_format=True)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "r.dcm")), array[0])


def test_what_is_told_and_what_is_refused(tmp_path):
    image = voxels("u1", (4, 6))
    save(tmp_path / "a.dcm", image, PhotometricInterpretation="MONOCHROME1")
    with pytest.warns(UserWarning, match="MONOCHROME1: small numbers are bright"):
        assert np.array_equal(np.asarray(bv.open(tmp_path / "a.dcm")), image)
    for tags, message in (
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "a colour palette"),
        ({"TotalPixelMatrixColumns": 5000}, "a slide with tiles"),
        ({"NumberOfFrames": 4000}, "24 of 96000 bytes of 4,000 frames"),
        ({"Rows": 65535}, "24 of 393210 bytes"),
        ({"BitsAllocated": 12}, "12 bits"),
        ({"BitsStored": 9}, "do not fit 8"),
        ({"PixelSpacing": ["1e999", "1"]}, "PixelSpacing"),
    ):
        save(tmp_path / "b.dcm", image, **tags)
        with pytest.raises((ValueError, OSError), match=message):
            bv.open(tmp_path / "b.dcm")
    save(
        tmp_path / "b.dcm",
        image,
        syntax="1.2.840.10008.1.2.4.100",
        PixelData=encapsulate([bytes(30)]),
    )
    with pytest.raises(ValueError, match=r"MPEG2.*is not supported; convert it"):
        bv.open(tmp_path / "b.dcm")
    (tmp_path / "b.dcm").write_bytes((tmp_path / "a.dcm").read_bytes()[:-5])
    with pytest.raises(VolumeError, match="19 of 24 bytes"):
        bv.open(tmp_path / "b.dcm")
    (tmp_path / "b.dcm").write_bytes(b"")
    with pytest.raises((OSError, ValueError), match=r"b\.dcm"):
        bv.open(tmp_path / "b.dcm")
    with pytest.raises(ValueError, match=r"level=0: .* has no levels"):
        bv.open(tmp_path / "a.dcm", level=0)
    with pytest.raises(ValueError, match="DICOM is only read from local disks"):
        bv.open("memory://a/b.dcm")


def test_a_plain_file_is_not_taken_for_one(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("README", "Makefile", "1.2.3"):
        (tmp_path / "a" / name).write_text("words " * 40)
    with pytest.raises(ValueError, match="an unknown format"):
        bv.open(tmp_path / "a")


def test_opened_by_other_processes(tmp_path):
    series(tmp_path / "a", voxels("u1"))
    source = pickle.loads(pickle.dumps(open_source(tmp_path / "a")))
    assert source.portable and np.array_equal(source.read(), voxels("u1"))
    assert source.token() == open_source(tmp_path / "a").token()
    os.truncate(tmp_path / "a" / "000.dcm", 400)
    with pytest.raises(OSError, match=r"000\.dcm cannot be decoded: it has"):
        source.read()


def test_without_pydicom(tmp_path, monkeypatch):
    save(tmp_path / "a.dcm", voxels("u1", (4, 6)))
    monkeypatch.setitem(__import__("sys").modules, "pydicom", None)
    with pytest.raises(ValueError, match=r"pip install 'beam-volumes\[dicom\]'"):
        bv.open(tmp_path / "a.dcm")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("CT_small.dcm", {}),
        ("MR_small.dcm", {}),
        ("MR_small_expb.dcm", {}),
        ("MR_small_implicit.dcm", {}),
        ("MR_small_RLE.dcm", {}),
        ("MR_small_jp2klossless.dcm", {}),
        ("MR_small_jpeg_ls_lossless.dcm", {}),
        ("J2K_pixelrep_mismatch.dcm", {"affine": "drop"}),
        ("JPEG2000.dcm", {}),
        ("JPEG-lossy.dcm", {}),
        ("JPEGLSNearLossless_16.dcm", {}),
        ("ExplVR_BigEnd.dcm", {"index": {"c": 1}}),
        ("SC_rgb_small_odd_big_endian.dcm", {"index": {"c": 1}}),
        ("SC_rgb_jpeg_dcmtk.dcm", {"index": {"c": 1}}),
        ("SC_rgb_jpeg_gdcm.dcm", {"index": {"c": 1}}),
        ("SC_rgb_rle_2frame.dcm", {"index": {"c": 1}}),
        ("SC_ybr_full_422_uncompressed.dcm", {"index": {"c": 1}}),
        ("SC_jpeg_no_color_transform.dcm", {"index": {"c": 1}}),
        ("examples_ybr_color.dcm", {"index": {"c": 1, "t": 7}}),
        ("rtdose.dcm", {}),
        ("rtdose_rle.dcm", {}),
    ],
)
def test_real_files_as_others_read_them(name, how):
    path = get_testdata_file(name, download=False)
    if path is None and (REAL / name).exists():
        path = str(REAL / name)
    if path is None:
        pytest.skip("pydicom's wheel does not carry it")
    volume = bv.open(path, **how)
    sitk, image = image_of(Path(path))
    theirs = sitk.GetArrayFromImage(image)
    if "index" in how:
        theirs = theirs[..., 1]
        theirs = theirs[how["index"]["t"]] if "t" in how["index"] else theirs
    assert np.array_equal(np.asarray(volume), theirs.reshape(volume.shape))
    if volume.voxel_size is not None:
        assert volume.voxel_size[-2:] == pytest.approx(image.GetSpacing()[1::-1])


def _items(**tags):
    item = Dataset()
    for name, value in tags.items():
        setattr(item, name, value)
    return [item]


def enhanced(path, array, described, **shared):
    """One file with a description of each frame: positions along z, and other metadata."""
    frames = []
    for place, content in described:
        frame = Dataset()
        if place is not None:
            frame.PlanePositionSequence = _items(ImagePositionPatient=[0, 0, place])
        frame.FrameContentSequence = _items(**content)
        frames.append(frame)
    group = Dataset()
    group.PlaneOrientationSequence = _items(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])
    group.PixelMeasuresSequence = _items(PixelSpacing=[0.3, 0.4], SliceThickness=9, **shared)
    tags = {"SharedFunctionalGroupsSequence": [group], "PerFrameFunctionalGroupsSequence": frames}
    return tags


def test_frames_of_several_times_and_places_are_two_axes(tmp_path):
    array = voxels("u2", (6, 4, 3))
    order = [(t, z) for z in (2, 0, 1) for t in (1, 0)]
    wanted = np.empty((2, 3, 4, 3), "u2")
    for k, (t, z) in enumerate(order):
        wanted[t, z] = array[k]
    pointers = [_items(DimensionIndexPointer=p)[0] for p in (0x00209057, 0x00189073)]
    for k, (described, more) in enumerate(
        (
            ([(1.5 * z, {"TemporalPositionIndex": t + 1}) for t, z in order], {}),
            (
                [(1.5 * z, {"DimensionIndexValues": [z + 1, t + 1]}) for t, z in order],
                {"DimensionIndexSequence": pointers},
            ),
            (
                [
                    (None, {"TemporalPositionIndex": t, "InStackPositionNumber": z})
                    for t, z in order
                ],
                {},
            ),
        )
    ):
        path = tmp_path / f"{k}.dcm"
        tags = enhanced(path, array, described, SpacingBetweenSlices=1.5)
        save(path, array[0], **frames_of(array, **tags, **more))
        volume = bv.open(path)
        assert volume.axes == ("t", "z", "y", "x") and volume.voxel_size == (1.5, 0.3, 0.4)
        assert np.array_equal(np.asarray(volume), wanted)
        assert np.array_equal(np.asarray(volume[1, 2]), wanted[1, 2])
    described = [(1.5 * z, {"TemporalPositionIndex": t + 1}) for t, z in [*order[:5], (1, 7)]]
    tags = enhanced(path, array, described)
    save(path, array[0], **frames_of(array, **tags))
    with pytest.raises(VolumeError, match="4 positions and 2 time points, and one of these has"):
        bv.open(path)
    described = [(0, {"TemporalPositionIndex": t + 1}) for t in range(6)]
    save(path, array[0], **frames_of(array, **enhanced(path, array, described)))
    assert bv.open(path).axes == ("t", "y", "x")
    assert np.array_equal(np.asarray(bv.open(path)), array)


def test_frames_of_one_place_that_differ_in_several_ways_are_refused(tmp_path):
    array, path = voxels("u2", (8, 4, 3)), tmp_path / "a.dcm"
    pointers = [_items(DimensionIndexPointer=p)[0] for p in (0x00209057, 0x00189073, 0x00189082)]
    described = [
        (z, {"DimensionIndexValues": [z + 1, t + 1, e + 1]})
        for z in (0, 1)
        for t in (0, 1)
        for e in (0, 1)
    ]
    tags = enhanced(path, array, described)
    save(path, array[0], **frames_of(array, DimensionIndexSequence=pointers, **tags))
    with pytest.raises(VolumeError, match="differ in 2 ways"):
        bv.open(path)


@pytest.mark.parametrize(
    ("places", "turned", "wide", "message"),
    [
        ((0, 1, 2, 3), 2, None, "have different orientations"),
        ((0, 1, 2, 3), None, 1, "mm apart"),
        ((0, 1, 1, 2), None, None, "1 slice too many"),
        ((0, 1, 2, 5), None, None, "2 slices missing"),
        ((0, 1, 2, 3.4), None, None, "not evenly spaced"),
    ],
)
def test_frames_of_one_file_that_differ_need_no_other_files(
    tmp_path, places, turned, wide, message
):
    """The remedy for a folder would be a glob."""
    array, path = voxels("u2", (4, 4, 3)), tmp_path / "a.dcm"
    tags = enhanced(path, array, [(place, {}) for place in places])
    for k, frame in enumerate(tags["PerFrameFunctionalGroupsSequence"]):
        turn = [0, 1, 0, 0, 0, -1] if k == turned else [1, 0, 0, 0, 1, 0]
        frame.PlaneOrientationSequence = _items(ImageOrientationPatient=turn)
        frame.PixelMeasuresSequence = _items(PixelSpacing=[0.3, 0.8 if k == wide else 0.4])
    del tags["SharedFunctionalGroupsSequence"]
    save(path, array[0], **frames_of(array, **tags))
    with pytest.raises(VolumeError, match=message) as caught:
        bv.open(path)
    assert "split the file into one for each volume" in str(caught.value)
    assert "glob" not in str(caught.value)


def test_measures_of_frames_without_places_are_kept(tmp_path):
    array = voxels("u2", (3, 4, 3))
    tags = enhanced(tmp_path, array, [(None, {})] * 3, SpacingBetweenSlices=0.5)
    save(tmp_path / "a.dcm", array[0], **frames_of(array, **tags))
    assert bv.open(tmp_path / "a.dcm").voxel_size == (0.5, 0.3, 0.4)


@pytest.mark.parametrize("compressed", [False, True])
def test_frames_that_are_not_counted_are_all_read(tmp_path, compressed):
    array, tags = voxels("u2", (3, 5, 3)), {}
    tags["PixelData"] = array.tobytes()
    if compressed:
        imagecodecs = pytest.importorskip("imagecodecs")
        codes = [imagecodecs.jpeg2k_encode(a, codecformat="j2k", reversible=True) for a in array]
        tags = {"syntax": JPEG2000Lossless, "PixelData": encapsulate(codes, has_bot=True)}
    save(tmp_path / "a.dcm", array[0], **tags)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a.dcm")), array)


def test_a_spacing_of_zero_is_not_known_and_can_be_said(tmp_path):
    for z in range(2):
        save(
            tmp_path / f"{z}.dcm", voxels("u2", (4, 3)), **placed(2 * z) | {"PixelSpacing": [0, 0]}
        )
    assert bv.open(tmp_path).voxel_size is None
    volume = bv.open(tmp_path, voxel_size=(2, 0.5, 0.5), unit="mm")
    assert volume.voxel_size == (2, 0.5, 0.5)
