"""TIFF files and slices that we write, read by tifffile, imagecodecs and Pillow."""

from __future__ import annotations

import os
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile

import beam_volumes as bv
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import merging, slabs
from beam_volumes.session.begin import begin
from beam_volumes.storage.outputs.sink import Sink, make_sink
from beam_volumes.storage.places.ownership import OutputExistsError

SHAPE = (7, 45, 70)
DTYPES = ["bool", "u1", "u2", "i2", "u4", "i4", "i8", "u8", "f2", "f4", "f8"]
FILES = [
    ("a.tif", {}),
    ("a.tiff", {"codec": "zstd"}),
    ("a.tif", {"codec": "lzw"}),
    ("a.ome.tif", {}),
]


def voxels(dtype="u2", shape=SHAPE):
    x = np.random.default_rng(5).integers(0, 200, shape)
    return x > 120 if dtype == "bool" else x.astype(dtype)


def write(array, path, slab=None, **how):
    v = array if isinstance(array, bv.Volume) else bv.open(array)
    return bv.compute(v.to(path, **how), runner=None, slab=slab, workers=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "how"), FILES)
def test_files_of_every_dtype(tmp_path, name, how, dtype):
    x, path = voxels(dtype), tmp_path / name
    if "ome" in name and dtype in ("i8", "u8", "f2"):
        with pytest.raises(ValueError, match=r"ome-tiff cannot store \w+; convert by astype"):
            bv.open(x).to(path)
        return
    back = write(x, path, **how)
    expected = x.astype("u1") * 255 if dtype == "bool" else x
    with tifffile.TiffFile(path) as found:
        assert found.is_ome == ("ome" in name) and found.is_imagej == ("ome" not in name)
        assert found.byteorder == "<" and len(found.pages) == 7
        assert found.series[0].axes == "ZYX"
        np.testing.assert_array_equal(found.asarray(), expected)
        np.testing.assert_array_equal(found.pages[3].asarray(), expected[3])
    for volume in (back, bv.open(path)):
        assert volume.dtype == dtype
        np.testing.assert_array_equal(np.asarray(volume), x)
    assert bv.verify(path) == bv.verify(path, checksums=True) == []


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 9), (3, 1, 40), (1, 33, 17), (600, 2, 3), (20, 530)]
)
@pytest.mark.parametrize(("name", "how"), FILES)
def test_files_of_odd_shapes(tmp_path, name, how, shape):
    x, path = voxels("u2", shape), tmp_path / name
    write(x, path, **how)
    np.testing.assert_array_equal(
        tifffile.imread(path), x.squeeze() if len(shape) == 3 and shape[0] == 1 else x
    )
    found = bv.open(path)
    assert found.shape == shape
    np.testing.assert_array_equal(np.asarray(found), x)


@pytest.mark.parametrize(("name", "how"), FILES)
def test_where_voxels_lie(tmp_path, name, how):
    v = bv.open(voxels(), voxel_size=(40, 8, 8.125), unit="nm", origin=(400, 16, -8))
    for volume in (write(v, tmp_path / name, **how), bv.open(tmp_path / name)):
        assert volume.voxel_size == (40, 8, 8.125) and volume.unit == "nanometer"
        assert volume.origin == (400, 16, -8)
    with tifffile.TiffFile(tmp_path / name) as found:
        if "ome" in name:
            root = ElementTree.fromstring(found.ome_metadata)
            pixels = root[0][0]
            assert pixels.get("PhysicalSizeZ") == "40.0" and pixels.get("PhysicalSizeZUnit") == "nm"
            assert pixels.get("PhysicalSizeX") == "8.125"
        else:
            meta = found.imagej_metadata
            assert meta["unit"] == "nm" and meta["spacing"] == 40 and meta["slices"] == 7
            n, d = found.pages[0].tags["XResolution"].value
            assert d / n == pytest.approx(8.125)


@pytest.mark.parametrize(("name", "how"), FILES)
def test_runs_go_on_where_they_stopped(tmp_path, name, how):
    """Also where a slab is written again, as runners do; the bytes are the same."""
    shape = (9, 300, 310)
    x = voxels("u2", shape)
    alone, path = tmp_path / "alone" / name, tmp_path / name
    alone.parent.mkdir()

    def wanted(place):
        return bv.maximum_filter(bv.open(x), 3).to(place, **how)

    bv.compute(wanted(alone), runner=None)
    unit = make_sink(path, shape=shape, dtype="u2", **how).unit
    slab = (unit[0], *shape[1:])
    first = begin(bv.plan(wanted(path), slab=slab), RunOptions())
    first.prepare()
    last = -(-shape[0] // unit[0]) - 1
    slabs.sweep_slab(first, 0, last, {})
    assert path.exists() == (name == "a.tif" and not how)
    bv.compute(wanted(path), runner=None, resume=True, slab=slab)
    assert path.read_bytes() == alone.read_bytes()
    merging.finish_pass(first, 0, {}, {})
    assert path.read_bytes() == alone.read_bytes()
    assert bv.verify(path, checksums=True) == []
    with pytest.raises(OutputExistsError, match="overwrite=True"):
        bv.compute(bv.open(x).to(path), runner=None)
    # another run's voxels, in the same places or others
    y = x[::-1].copy()
    found = bv.compute(bv.open(y).to(path, **how), runner=None, overwrite=True)
    np.testing.assert_array_equal(np.asarray(found), y)
    np.testing.assert_array_equal(tifffile.imread(path), y)


def test_tiles_that_meet_in_a_page(tmp_path):
    """Units of several tiles, written by slabs cut in all directions."""
    x = voxels("u1", (20, 700, 1100))
    path = tmp_path / "a.ome.tif"
    sink = make_sink(path, shape=x.shape, dtype="u1")
    assert sink.unit == (16, 512, 512)
    write(x, path, slab=(16, 512, 1024))
    with tifffile.TiffFile(path) as found:
        assert found.pages[5].tile == (512, 512) and found.pages[5].predictor == 2
        np.testing.assert_array_equal(found.asarray(), x)
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".parts") and any(p.glob("0"))]


def test_larger_than_4_gib(tmp_path):
    """What is made in place is a BigTIFF, and its units are at their places; the rest are holes."""
    sink = make_sink(tmp_path / "a.tif", shape=(300, 4000, 4096), dtype="u1")
    assert sink.unit == (1, 512, 4096)
    sink.writer.make(sink)
    part = voxels("u1", (1, 512, 4096))
    sink.writer.write_unit(sink, (299, 1, 0), part)
    with tifffile.TiffFile(tmp_path / "a.tif") as found:
        assert found.is_bigtiff and len(found.pages) == 300
        assert found.series[0].shape == (300, 4000, 4096)
        np.testing.assert_array_equal(found.pages[299].asarray()[512:1024], part[0])
    again = bv.open(tmp_path / "a.tif")
    np.testing.assert_array_equal(np.asarray(again[299, 512:1024]), part[0])


def test_description_of_an_output_travels(tmp_path):
    for name, how in (*FILES, ("s", {"format": "png"}), ("s/*.tif", {"codec": "lzw"})):
        sink = make_sink(tmp_path / name, shape=(3, 40, 50), dtype="bool", **how)
        again = Sink.from_dict(sink.to_dict())
        assert again.token() == sink.token() and again.options == sink.options


@pytest.mark.parametrize(("name", "how"), FILES)
def test_channels_of_files(tmp_path, name, how):
    x = voxels("u2", (3, 5, 40, 50))
    v = bv.open(x)
    assert v.shape == x.shape
    v = bv.stack([v[k] for k in range(3)], names=["DAPI", "a<b>", "é"])
    back = write(v, tmp_path / name, **how)
    with tifffile.TiffFile(tmp_path / name) as found:
        series = found.series[0]
        assert series.axes == ("CZYX" if "ome" in name else "ZCYX")
        array = found.asarray()
        np.testing.assert_array_equal(array if "ome" in name else array.swapaxes(0, 1), x)
    for volume in (back, bv.open(tmp_path / name)):
        assert volume.shape == x.shape and volume.channels[1] == "a<b>"
        np.testing.assert_array_equal(np.asarray(volume), x)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / name, index={"c": "é"})), x[2])
    assert bv.verify(tmp_path / name, checksums=True) == []


@pytest.mark.parametrize(
    ("place", "codec"), [("*.png", {}), ("*.tif", {}), ("*.tif", {"codec": "zstd"})]
)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_channels_of_slices(tmp_path, place, codec, count):
    x = voxels("u1", (count, 5, 40, 50))
    back = write(bv.open(x), tmp_path / "out" / place, **codec)
    for z, path in enumerate(sorted((tmp_path / "out").glob(place))):
        image = (
            imagecodecs.png_decode(path.read_bytes()) if ".png" in place else tifffile.imread(path)
        )
        np.testing.assert_array_equal(image, np.moveaxis(x[:, z], 0, -1))
    for volume in (back, bv.open(tmp_path / "out")):
        assert volume.shape == x.shape
        np.testing.assert_array_equal(np.asarray(volume), x)
    assert bv.verify(tmp_path / "out", checksums=True) == []
    with pytest.raises(ValueError, match="stores up to 4 channels, but the volume has 5"):
        bv.open(np.zeros((5, 2, 3, 4), "u1")).to(tmp_path / "five", format="png")


# -- slices ------------------------------------------------------------------------------------------


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith((".", "_")))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("place", "how"),
    [("out", {"format": "png"}), ("out/cell_*.png", {}), ("out", {"format": "tiff-slices"}),
     ("out/*.tif", {"codec": "deflate"})],
)  # fmt: skip
def test_slices_of_every_dtype(tmp_path, place, how, dtype):
    x = voxels(dtype, (12, 20, 30))
    is_png = "png" in f"{place}{how}"
    if is_png and dtype not in ("bool", "u1", "u2"):
        with pytest.raises(ValueError, match=r"png cannot store \w+; .* bool, uint8, uint16"):
            bv.open(x).to(tmp_path / place, **how)
        return
    v = bv.open(x, voxel_size=(3, 2, 2), unit="um", origin=(30, 0, 0))
    back = write(v, tmp_path / place, slab=(5, 20, 30), **how)
    folder = tmp_path / "out"
    prefix = "cell_" if "cell" in place else ""
    assert names(folder) == [f"{prefix}{z:02d}.{'png' if is_png else 'tif'}" for z in range(12)]
    expected = x.astype("u1") * 255 if dtype == "bool" else x
    for z, name in enumerate(names(folder)):
        data = folder / name
        found = imagecodecs.png_decode(data.read_bytes()) if is_png else tifffile.imread(data)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected[z])
    for volume in (back, bv.open(folder)):
        assert volume.dtype == dtype and volume.voxel_size == (3, 2, 2) and volume.origin[0] == 30
        np.testing.assert_array_equal(np.asarray(volume), x)
    assert bv.verify(folder) == bv.verify(folder, checksums=True) == []
    (folder / names(folder)[3]).unlink()
    assert "missing" in bv.verify(folder)[0]


def test_slices_are_replaced_and_resumed(tmp_path):
    x = voxels("u1", (9, 20, 30))
    folder = tmp_path / "out"

    def wanted(array):
        return bv.maximum_filter(bv.open(array), 3).to(folder, format="png")

    first = begin(bv.plan(wanted(x), slab=(2, 20, 30)), RunOptions())
    first.prepare()
    slabs.sweep_slab(first, 0, 1, {})
    assert names(folder) == ["2.png", "3.png"]
    assert len(bv.verify(folder)) >= 1
    found = bv.compute(wanted(x), runner=None, resume=True, slab=(2, 20, 30))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(bv.maximum_filter(bv.open(x), 3)))
    bv.compute(wanted(x[:4]), runner=None, overwrite=True)
    assert names(folder) == ["0.png", "1.png", "2.png", "3.png"]
    shutil.rmtree(f"{folder}.run")
    (folder / "_beam_volumes.json").unlink()
    with pytest.raises(OutputExistsError, match="is not png"):
        bv.compute(wanted(x), runner=None, overwrite=True)


def test_a_slice_is_written_whole(tmp_path):
    """Planes are units: a plan has no tiles of them."""
    v = bv.open(voxels("u1", (6, 600, 700)))
    target = bv.maximum_filter(v, 3).to(tmp_path / "out", format="png")
    assert target.sink.unit == (1, 600, 700)
    with pytest.raises(ValueError, match=r"600"):
        bv.compute(target, runner=None, slab=(6, 300, 700))


def test_what_masks_are_stored_as(tmp_path):
    x = voxels("bool", (3, 20, 30))
    write(x, tmp_path / "a.tif", mask_value=1)
    assert set(np.unique(tifffile.imread(tmp_path / "a.tif"))) == {0, 1}
    assert bv.open(tmp_path / "a.tif").dtype == bool
    with pytest.raises(ValueError, match="mask_value=300; give a whole number from 1 to 255"):
        bv.open(x).to(tmp_path / "b.tif", mask_value=300)
    with pytest.raises(ValueError, match="mask_value=1 is for masks, not for uint16"):
        bv.open(voxels()).to(tmp_path / "b.tif", mask_value=1)


def test_what_cannot_be_written_is_said(tmp_path):
    v = bv.open(voxels())
    with pytest.raises(ValueError, match=r"codec='jpeg'; use one of none, deflate, lzw, zstd"):
        v.to(tmp_path / "a.tif", codec="jpeg")
    with pytest.raises(ValueError, match="single file, for local disks"):
        v.to("s3://bucket/a.tif")
    with pytest.raises(ValueError, match="one star"):
        v.to(tmp_path / "a", format="png", names="cell.png")
    with pytest.raises(ValueError, match="one star"):
        v.to(tmp_path / "a*b*.png")
    with pytest.raises(ValueError, match=r"\.png"):
        v.to(tmp_path / "a.png")


def test_slices_in_memory():
    x = voxels("u2", (4, 20, 30))
    bv.compute(bv.open(x).to("memory://slices/out/*.png"), runner=None)
    np.testing.assert_array_equal(np.asarray(bv.open("memory://slices/out")), x)


def test_a_mark_that_makes_no_sense_is_left_alone(tmp_path):
    x, path = voxels("u1"), tmp_path / "a.tif"
    write(x, path)
    for bad in (b'"axes": 7, "vox', b'"axes": ["q", "y"]'):
        data = path.read_bytes()
        at = data.index(b'"axes"')
        path.write_bytes(data[:at] + bad.ljust(30)[:30] + data[at + 30 :])
        np.testing.assert_array_equal(np.asarray(bv.open(path)), x)
    os.truncate(path, 9000)
    with pytest.raises(OSError, match="damaged"):
        bv.open(path)
