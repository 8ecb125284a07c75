"""Stacks of slices."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.storage import open_source, read_into
from beam_volumes.storage.formats.slices import format as slices
from beam_volumes.storage.formats.tiff import layout as tiff_layout
from beam_volumes.storage.formats.tiff.layout import LONG, SHORT
from beam_volumes.storage.formats.tiff.segments import Segments
from beam_volumes.storage.sources.numbered import in_natural_order, natural_key, series_of
from tests.tiers import examples


def write(path: Path, image: np.ndarray) -> None:
    if path.suffix == ".png":
        path.write_bytes(imagecodecs.png_encode(image))
    else:
        tifffile.imwrite(path, image, metadata=None)


def stack(folder: Path, volume: np.ndarray, name: str = "s{}.png", first: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for z, image in enumerate(volume):
        write(folder / name.format(z + first), image)


def voxels(dtype: str = "u1", shape: tuple[int, ...] = (12, 20, 30)) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 120, shape).astype(dtype)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("s{}.png", "u1"),
        ("s{:04d}.png", "u2"),
        ("a2_{}.tif", "u1"),
        ("s{}.TIFF", "u2"),
        ("s{}.tif", "f4"),
        ("s{}.tif", "i2"),
        ("s{}.tif", "bool"),
    ],
)
def test_natural_order_and_dtypes(tmp_path: Path, name: str, dtype: str) -> None:
    volume = voxels(dtype)
    stack(tmp_path / "in", volume, name, first=3)
    (tmp_path / "in" / "Thumbs.db").write_text("")
    for place in (tmp_path / "in", str(tmp_path / "in" / f"*{Path(name).suffix}")):
        source = open_source(place, voxel_size=10, unit="nm")
        assert source.dtype == volume.dtype and source.chunk == (1, 20, 30)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(source)).read(), volume)


def test_a_window_decodes_its_slices_only(tmp_path: Path) -> None:
    volume = voxels()
    stack(tmp_path, volume)
    before = slices.decoded
    source = open_source(tmp_path).crop(Box((1, 2, 3), (11, 18, 28)))
    assert slices.decoded == before
    ring = np.zeros((4, 30, 40), "u1")
    read_into(source.open(), Box((2, 0, 0), (6, 16, 25)), ring[:, 5:21, 5:30]).result()
    assert slices.decoded - before == 4
    np.testing.assert_array_equal(ring[:, 5:21, 5:30], volume[3:7, 2:18, 3:28])


@given(
    st.sampled_from(["", "s", "a1_", "7."]),
    st.sampled_from(["", ".png", "_2.png", "b3c4"]),
    st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 5)), unique=True, max_size=9),
    st.sampled_from([[], ["s", "b1.png"], ["S1.png"]]),
)
@settings(max_examples=examples(200), deadline=None)
def test_the_short_way_to_natural_order(prefix, suffix, numbers, others) -> None:
    names = list(dict.fromkeys([f"{prefix}{n:0{w}}{suffix}" for n, w in numbers] + others))
    assert in_natural_order(names) == sorted(names, key=natural_key)


def test_many_slices_travel_small() -> None:
    names = [f"iso.{n}.png" for n in range(9_000, 109_000)]
    assert len(pickle.dumps(series_of(names, "here")[0])) < 300
    for names in (["a.png", "b.png"], ["1_5.png", "2_7.png"], ["01.png", "2.png"]):
        assert series_of(names, "here") == (tuple(names), {})


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [
        ([2609, 2611, 2612], r"iso\.2610\.png"),
        ([1, 2, 5, 6], r"iso\.3\.png, iso\.4\.png"),
        ([10, 20, 40], r"iso\.30\.png"),
    ],
)
def test_a_missing_number_is_an_error(tmp_path: Path, numbers: list[int], missing: str) -> None:
    for n in numbers:
        write(tmp_path / f"iso.{n}.png", voxels()[0])
    with pytest.raises(FileNotFoundError, match=f"missing.*{missing}"):
        open_source(tmp_path)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_bad_slices_are_named(tmp_path: Path, suffix: str) -> None:
    stack(tmp_path, voxels(), "s{}." + suffix)
    source = open_source(tmp_path)
    bad = tmp_path / f"s5.{suffix}"
    os.truncate(bad, bad.stat().st_size // 2)
    with pytest.raises(OSError, match=rf"s5\.{suffix} is damaged"):
        source.read()
    write(bad, voxels()[0, :, :29])
    with pytest.raises(OSError, match=rf"s5\.{suffix} is 20 x 29 uint8.*20 x 30 uint8"):
        source.read()
    write(bad, voxels("u2")[0])
    with pytest.raises(OSError, match=rf"s5\.{suffix} is 20 x 30 uint16"):
        source.read()
    bad.unlink()
    with pytest.raises(OSError, match=rf"s5\.{suffix} is missing"):
        source.read()


def test_first_slice_damaged(tmp_path: Path) -> None:
    for suffix in ("png", "tif"):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(b"not an image")
        with pytest.raises(OSError, match=f"a.{suffix} is damaged"):
            open_source(path)


def test_colours_are_chosen(tmp_path: Path) -> None:
    image = voxels(shape=(20, 30, 3))
    for name in ("a.png", "a.tif"):
        if name.endswith("tif"):
            tifffile.imwrite(tmp_path / name, image, photometric="rgb")
        else:
            write(tmp_path / name, image)
        colours = open_source(tmp_path / name)
        assert colours.space.channels == ("red", "green", "blue")
        np.testing.assert_array_equal(colours.read()[:, 0], np.moveaxis(image, -1, 0))
        source = open_source(tmp_path / name, index={"c": "green"})
        assert source.space.axes == ("y", "x")
        np.testing.assert_array_equal(source.read()[0], image[..., 1])


def test_several_pages_and_mixed_folders(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", voxels(), photometric="minisblack")
    with pytest.raises(ValueError, match=r"several pages.*a list of them, or on a disk a glob"):
        open_source(tmp_path)
    write(tmp_path / "a.png", voxels()[0])
    with pytest.raises(ValueError, match="PNG and TIFF"):
        open_source(tmp_path)
    with pytest.raises(FileNotFoundError, match="no files match"):
        open_source(tmp_path / "*.jpg")
    with pytest.raises(ValueError, match="level"):
        open_source(tmp_path / "*.png", level=1)


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("samples", [3, 4])
def test_channels_of_a_pass_decode_each_slice_once(tmp_path, suffix, samples) -> None:
    x = voxels(shape=(12, 20, 30, samples))
    for z, image in enumerate(x):
        path = tmp_path / f"s{z:02d}.{suffix}"
        if suffix == "tif":
            extra = {"extrasamples": ["unassalpha"]} if samples == 4 else {}
            tifffile.imwrite(path, image, photometric="rgb", **extra)
        else:
            write(path, image)
    last = samples - 1
    r, g, b = (bv.open(tmp_path, index={"c": c}) for c in (0, 1, last))
    halos = bv.maximum_filter(r, (5, 1, 1)) + bv.minimum_filter(b, (2, 3, 1))
    expected = ndi.maximum_filter(x[..., 0], (5, 1, 1)) + ndi.minimum_filter(
        x[..., last], (2, 3, 1)
    )
    how = {"runner": None, "progress": False}
    for window in (1, 5):
        before = slices.decoded
        found = bv.compute(halos + g, slab=(12, 20, 30), window=window, **how)
        assert slices.decoded - before == 12
        np.testing.assert_array_equal(found, expected + x[..., 1])
        cropped = bv.compute(r[:, 3:, 4:] ^ b[:, 3:, 4:], slab=(12, 17, 26), window=window, **how)
        assert slices.decoded - before == 24
        np.testing.assert_array_equal(cropped, x[:, 3:, 4:, 0] ^ x[:, 3:, 4:, last])
    # Tiles and slabs see other parts of a slice, and channels cropped apart are read apart.
    found = bv.compute(halos + g, slab=(5, 8, 30), window=2, **how)
    np.testing.assert_array_equal(found, expected + x[..., 1])
    found = bv.compute(bv.maximum_filter(r[2:], 3) + b[:-2], slab=(10, 7, 30), window=3, **how)
    np.testing.assert_array_equal(found, ndi.maximum_filter(x[2:, ..., 0], 3) + x[:-2, ..., last])
    bad = tmp_path / f"s07.{suffix}"
    bad.write_bytes(bad.read_bytes()[:50])
    with pytest.raises(OSError, match=rf"s07.{suffix} is damaged"):
        bv.compute(halos + g, **how)


@pytest.mark.parametrize("dtype", ["u2", "i4", "f4", "f8", "bool"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_tiffs_of_either_byte_order(tmp_path, dtype, order) -> None:
    x = (voxels("f8") * 257).astype(dtype)
    for z, image in enumerate(x):
        tifffile.imwrite(tmp_path / f"{z:02}.tif", image, byteorder=order, metadata=None)
    assert (tmp_path / "00.tif").read_bytes()[:2] == {"<": b"II", ">": b"MM"}[order]
    source = open_source(tmp_path)
    assert source.dtype == np.dtype(dtype) and source.dtype.isnative
    np.testing.assert_array_equal(source.read(), x)
    if dtype == "u2":
        tifffile.imwrite(tmp_path / "rgb.tif", np.stack([x[0]] * 3, -1), byteorder=order)
        green = open_source(tmp_path / "rgb.tif", index={"c": "green"})
        np.testing.assert_array_equal(green.read()[0], x[0])


def test_jpeg_slices(tmp_path) -> None:
    grey = ndi.gaussian_filter(voxels(shape=(3, 32, 48)).astype("f4"), 3).astype("u1")
    for z, image in enumerate(grey):
        (tmp_path / f"s{z}.jpg").write_bytes(imagecodecs.jpeg8_encode(image, level=100))
        (tmp_path / f"c{z}.JPEG").write_bytes(imagecodecs.jpeg8_encode(np.stack([image] * 3, -1)))
    expected = [imagecodecs.jpeg8_decode((tmp_path / f"s{z}.jpg").read_bytes()) for z in range(3)]
    np.testing.assert_array_equal(open_source(tmp_path / "s*.jpg").read(), expected)
    assert open_source(tmp_path / "c*.JPEG", index={"c": "blue"}).shape == (3, 32, 48)
    assert open_source(tmp_path / "s1.jpg").space.axes == ("y", "x")
    whole = (tmp_path / "s1.jpg").read_bytes()
    (tmp_path / "s1.jpg").write_bytes(whole[: 2 * len(whole) // 3])
    with pytest.raises(OSError, match=r"s1\.jpg is damaged .*: it is cut off"):
        open_source(tmp_path / "s*.jpg").read()
    (tmp_path / "s1.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(OSError, match=r"s1\.jpg is damaged"):
        open_source(tmp_path / "s*.jpg").read()


def old_jpeg(path: Path, rgb: np.ndarray) -> None:
    """A TIFF file of the first kind of JPEG, which has a stream in addition to its strips."""
    stream = imagecodecs.jpeg8_encode(rgb, level=95)
    y, x, _ = rgb.shape
    entries = [
        *((256, SHORT, x), (257, SHORT, y), (258, SHORT, [8, 8, 8]), (259, SHORT, 6)),
        *((262, SHORT, 6), (277, SHORT, 3), (278, SHORT, y), (284, SHORT, 1)),
        *((273, LONG, 8), (279, LONG, len(stream)), (513, LONG, 8), (514, LONG, len(stream))),
    ]
    at = 8 + len(stream) + len(stream) % 2
    data = (tiff_layout.header(at, False) + stream).ljust(at, b"\0")
    path.write_bytes(data + tiff_layout.directory(entries, at, None, False))


RGB = ndi.gaussian_filter(voxels(shape=(40, 56, 3)).astype("f4"), (3, 3, 0)).astype("u1")
CMYK = np.concatenate([RGB, RGB[..., :1]], -1)
DEEP = RGB[..., 0].astype("u2") * 16
HOLES = np.where(RGB[..., 0] > 60, np.nan, RGB[..., 0]).astype("f4")
TIFFS = {
    "CMYK in JPEG": lambda p: Image.fromarray(CMYK, "CMYK").save(p, compression="jpeg"),
    "YCbCr in JPEG": lambda p: tifffile.imwrite(
        p, RGB, photometric="ycbcr", compression="jpeg", subsampling=(2, 2)
    ),
    "planes of RGB": lambda p: tifffile.imwrite(
        p, np.moveaxis(RGB, -1, 0), photometric="rgb", planarconfig="separate", rowsperstrip=7
    ),
    "12 bits in JPEG": lambda p: tifffile.imwrite(
        p, DEEP, compression="jpeg", bitspersample=12, photometric="minisblack"
    ),
    "JPEG 2000": lambda p: tifffile.imwrite(p, DEEP, compression="jpeg2000", tile=(16, 32)),
    "JPEG XL": lambda p: tifffile.imwrite(p, DEEP, compression="jpegxl"),
    "LERC": lambda p: tifffile.imwrite(
        p, HOLES, compression="lerc", compressionargs={"compression": "zstd"}, tile=(16, 32)
    ),
    "old JPEG": lambda p: old_jpeg(p, RGB),
    "tiles": lambda p: tifffile.imwrite(
        p, DEEP, tile=(16, 32), byteorder=">", compression="zlib", predictor=True
    ),
    "packed bits": lambda p: tifffile.imwrite(p, RGB[..., 0] > 60, rowsperstrip=9),
}


@pytest.mark.parametrize("kind", TIFFS)
def test_a_slice_is_decoded_as_its_file_by_itself(tmp_path, kind) -> None:
    for z in range(2):
        TIFFS[kind](tmp_path / f"s{z}.tif")
    alone, folder = bv.open(tmp_path / "s0.tif"), bv.open(tmp_path)
    assert (folder.dtype, folder.channels) == (alone.dtype, alone.channels)
    voxels = np.asarray(alone)
    assert voxels.shape[-2:] == (40, 56)
    for z in range(2):
        np.testing.assert_array_equal(np.asarray(folder)[..., z, :, :], voxels)


def test_values_of_compressions_that_either_reader_had_not(tmp_path) -> None:
    TIFFS["LERC"](tmp_path / "a.tif")
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "a.tif")), HOLES)
    TIFFS["old JPEG"](tmp_path / "b.tif")
    found = np.moveaxis(np.asarray(bv.open(tmp_path / "b.tif")), 0, -1)
    assert np.abs(found.astype(int) - RGB).max() < 12


def test_a_later_slice_of_several_pages_is_not_its_first_page(tmp_path) -> None:
    tifffile.imwrite(tmp_path / "s0.tif", DEEP)
    tifffile.imwrite(tmp_path / "s1.tif", np.stack([DEEP, DEEP]), photometric="minisblack")
    with pytest.raises(OSError, match=r"s1\.tif has several pages"):
        np.asarray(bv.open(tmp_path))


@pytest.mark.parametrize("mode", ["L", "RGB", "I;16"])
def test_a_png_with_a_transparent_colour_has_the_samples_that_it_stores(tmp_path, mode) -> None:
    image = {"L": RGB[..., 0], "RGB": RGB, "I;16": DEEP}[mode]
    colour = (1, 2, 3) if mode == "RGB" else 3
    # One slice of a stack may have such a colour, and another none.
    Image.fromarray(image).save(tmp_path / "s0.png", transparency=colour)
    Image.fromarray(image).save(tmp_path / "s1.png")
    found = np.moveaxis(np.asarray(bv.open(tmp_path)), 0, -1) if mode == "RGB" else None
    found = np.asarray(bv.open(tmp_path)) if found is None else found
    np.testing.assert_array_equal(found, np.stack([image] * 2))


def lying(kind: str) -> bytes:
    """An image of a few hundred bytes that claims thousands of millions of pixels."""
    if kind == "jpg":
        data = bytearray(imagecodecs.jpeg8_encode(np.zeros((16, 16), "u1")))
        at = data.index(b"\xff\xc0") + 5
        data[at : at + 4] = struct.pack(">HH", 65500, 65500)
        return bytes(data)
    data = bytearray(imagecodecs.png_encode(np.zeros((16, 16), "u1")))
    data[16:24] = struct.pack(">II", 65500, 65500)
    return bytes(data)


@pytest.mark.parametrize("kind", ["jpg", "png"])
def test_a_size_that_a_slice_claims_is_not_believed(tmp_path: Path, kind: str, monkeypatch) -> None:
    encode = {"jpg": imagecodecs.jpeg8_encode, "png": imagecodecs.png_encode}[kind]
    (tmp_path / f"s0.{kind}").write_bytes(encode(np.zeros((16, 16), "u1")))
    (tmp_path / f"s1.{kind}").write_bytes(lying(kind))
    source = open_source(tmp_path)
    name = {"jpg": "jpeg_decode", "png": "png_decode"}[kind]
    decode, seen = getattr(imagecodecs, name), []
    monkeypatch.setattr(imagecodecs, name, lambda data: seen.append(len(data)) or decode(data))
    with pytest.raises(OSError, match=r"s1.*(65500 x 65500 uint8, but|too many for)"):
        source.read()
    assert len(seen) <= 1


def test_a_size_that_a_single_image_claims_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(lying("jpg"))
    palette = bytearray(lying("png"))
    palette[25] = 3
    (tmp_path / "a.png").write_bytes(palette)
    for name in ("a.jpg", "a.png"):
        with pytest.raises(OSError, match=r"declares 65500 x 65500 .*too many"):
            open_source(tmp_path / name)


@pytest.mark.parametrize("codec", ["webp", "png", "jpegxl"])
def test_a_size_that_a_tile_claims_is_not_believed(codec: str) -> None:
    number = {"webp": 50001, "png": 34933, "jpegxl": 50002}[codec]
    encode = getattr(imagecodecs, f"{codec}_encode")
    shape = (1, 1, 64, 64, 3)
    segments = Segments(shape, (1, 64, 64), True, np.dtype("u1"), 8, number)
    voxels = np.arange(64 * 64 * 3, dtype="u1").reshape(64, 64, 3)
    how = {} if codec == "png" else {"lossless": True}
    assert np.array_equal(segments.decode(encode(voxels, **how), "<", 0)[0], voxels)
    with pytest.raises(ValueError, match="declares 512 x 64"):
        segments.decode(encode(np.zeros((512, 64, 3), "u1"), **how), "<", 0)
