"""TIFF files that tifffile has written, read by us."""

from __future__ import annotations

import concurrent.futures
import itertools
import logging
import multiprocessing
import os
import pickle
import random
import struct
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
import tifffile
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.storage import open_source, read_into
from beam_volumes.storage.formats.tiff import format as tiff
from beam_volumes.storage.formats.tiff import reading as tiff_reading
from beam_volumes.storage.inputs.opening import reopened
from beam_volumes.storage.places import remote_file
from beam_volumes.storage.places.context import context
from beam_volumes.storage.places.errors import VolumeError

SLIDE = Path(__file__).parents[2] / ".." / "shared" / "data" / "slides" / "CMU-1-Small-Region.svs"
LOSSLESS = [None, "lzw", "zlib", "deflate", "packbits", "zstd", "lzma"]


def voxels(dtype="u2", shape=(5, 37, 53), seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    # smooth, so that codecs and predictors have something to do
    x = np.cumsum(rng.integers(0, 5, shape), axis=-1)
    return (x % 2).astype(bool) if dtype == "bool" else (x % 120).astype(dtype)


def write(path, array, **how):
    how = {"photometric": "minisblack"} | how
    tifffile.imwrite(path, array, **how)
    return path


def check(path, expected, **how):
    """The voxels that were written are read, also for a part, and after pickling."""
    source = open_source(path, **how)
    assert source.dtype == expected.dtype and source.dtype.isnative
    assert source.shape == (1,) * (3 - expected.ndim) + expected.shape
    found = pickle.loads(pickle.dumps(source)).read()
    np.testing.assert_array_equal(found, expected.reshape(source.shape))
    box = Box(tuple(n // 3 for n in source.shape), source.shape)
    np.testing.assert_array_equal(source.read(box), found[box.slices])
    return source


def cases():
    """Every dtype, compression, predictor, layout and byte order, each with some of the others."""
    dtypes = ["u1", "u2", "i2", "u4", "i8", "f2", "f4", "f8", "bool"]
    layouts = [{}, {"rowsperstrip": 5}, {"tile": (16, 32)}]
    everything = list(itertools.product(dtypes, LOSSLESS, [False, True], layouts, "<>"))
    random.Random(1).shuffle(everything)
    left = {*dtypes, *map(str, LOSSLESS)}
    for case in everything[:70]:
        left -= {case[0], str(case[1])}
        yield case
    assert not left


@pytest.mark.parametrize(("kind", "compression", "predictor", "layout", "order"), list(cases()))
def test_every_way_to_store(tmp_path, kind, compression, predictor, layout, order):
    x = voxels(kind)
    if kind in ("bool", "i8") or compression is None:
        predictor = False
    path = write(
        tmp_path / "a.tif",
        x,
        compression=compression,
        predictor=predictor,
        byteorder=order,
        **layout,
    )
    np.testing.assert_array_equal(tifffile.imread(path), x)
    source = check(path, x)
    if "tile" in layout:
        assert source.chunk == (1, 16, 32)
    assert source.encoded == (compression is not None or predictor or kind == "bool")


@pytest.mark.parametrize("flavour", ["bigtiff", "imagej", "ome", "plain", "shaped"])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_flavours(tmp_path, flavour, compression):
    x = voxels("u2", (2, 3, 4, 21, 19))
    path = tmp_path / ("a.ome.tif" if flavour == "ome" else "a.tif")
    how = {"compression": compression, "metadata": {"axes": "TZCYX"}}
    if flavour in ("bigtiff", "imagej", "ome"):
        how[flavour] = True
    if flavour == "plain":
        x, how["metadata"] = x.reshape(24, 21, 19), None
    write(path, x, **how)
    if flavour == "plain":
        assert check(path, x).space.axes == ("z", "y", "x")
        return
    check(path, x[1, :, 2], index={"t": 1, "c": 2})
    check(path, x[1, 2, 2], index={"t": 1, "c": 2, "z": 2})
    everything = open_source(path)
    assert everything.space.leading == ("t", "c")
    np.testing.assert_array_equal(everything.read(), x.swapaxes(1, 2))


@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("compression", [None, "lzw", "jpeg", "jpeg2000"])
@pytest.mark.parametrize("layout", [{}, {"tile": (32, 16)}])
def test_colours(tmp_path, planar, compression, layout):
    x = voxels("u1", (2, 50, 41, 3))
    stored = x if planar == "contig" else np.moveaxis(x, -1, 1)
    path = write(
        tmp_path / "a.tif", stored, photometric="rgb", planarconfig=planar, compression=compression,
        **layout,
    )  # fmt: skip
    x = tifffile.imread(path)
    x = x if planar == "contig" else np.moveaxis(x, 1, -1)
    check(path, x[..., 1], index={"c": "green"})
    check(path, x[..., 2], index={"c": 2})
    colours = open_source(path)
    assert colours.space.channels == ("red", "green", "blue")
    np.testing.assert_array_equal(colours.read(), np.moveaxis(x, -1, 0))


def test_jpeg_of_subsampled_colours_and_grey(tmp_path):
    x = ndi.gaussian_filter(voxels("u1", (64, 80, 3)).astype("f4"), (3, 3, 0)).astype("u1")
    path = write(tmp_path / "a.tif", x, photometric="ycbcr", compression="jpeg", tile=(32, 32))
    check(path, tifffile.imread(path)[..., 0], index={"c": "red"})
    path = write(tmp_path / "b.tif", x[..., 0], compression="jpeg", rowsperstrip=16)
    check(path, tifffile.imread(path))


@pytest.mark.parametrize("bits", [1, 2, 4, 5, 12])
def test_packed_bits(tmp_path, bits):
    x = (voxels("u2") % (1 << bits)).astype("u1" if bits <= 8 else "u2")
    x = x.astype(bool) if bits == 1 else x
    imagecodecs = pytest.importorskip("imagecodecs")
    path = tmp_path / "a.tif"
    if bits == 1:
        write(path, x, bitspersample=1)
    else:
        # packed by tifffile's encoder where it can, strip by strip
        packed = [imagecodecs.packints_encode(p, bits, runlen=p.shape[1]) for p in x]
        with tifffile.TiffWriter(path) as out:
            for p in packed:
                out.write(
                    iter([p]), shape=x.shape[1:], dtype=x.dtype, bitspersample=bits,
                    rowsperstrip=x.shape[1], metadata=None, photometric="minisblack",
                )  # fmt: skip
    np.testing.assert_array_equal(tifffile.imread(path), x)
    check(path, x)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1), (7, 1), (1, 9), (3, 1, 1), (2, 300, 2)])
@pytest.mark.parametrize(
    "how", [{}, {"tile": (16, 16)}, {"compression": "zlib"}, {"bigtiff": True}]
)
def test_odd_shapes(tmp_path, shape, how):
    x = voxels("u2", shape)
    path = write(tmp_path / "a.tif", x, metadata=None, **how)
    source = open_source(path)
    np.testing.assert_array_equal(source.read(), x.reshape(source.shape))


def test_volumetric_tiles(tmp_path):
    x = voxels("u1", (40, 50, 60))
    path = write(tmp_path / "a.tif", x, tile=(16, 16, 32), compression="zlib", volumetric=True)
    assert check(path, x).chunk == (16, 16, 32)


def test_voxel_sizes(tmp_path):
    x = voxels("u2", (3, 8, 9))
    write(
        tmp_path / "ij.tif", x, imagej=True, resolution=(1 / 0.25, 1 / 0.5),
        metadata={"axes": "ZYX", "spacing": 3.9, "unit": "um"},
    )  # fmt: skip
    write(
        tmp_path / "a.ome.tif", x,
        metadata={
            "axes": "ZYX", "PhysicalSizeX": 4, "PhysicalSizeXUnit": "nm", "PhysicalSizeY": 8,
            "PhysicalSizeYUnit": "nm", "PhysicalSizeZ": 0.03, "PhysicalSizeZUnit": "µm",
        },
    )  # fmt: skip
    write(tmp_path / "cm.tif", x[0], resolution=(20000, 10000), resolutionunit=3, metadata=None)
    write(tmp_path / "dpi.tif", x[0], resolution=(300, 300), resolutionunit=2, metadata=None)
    write(tmp_path / "px.tif", x, imagej=True, metadata={"axes": "ZYX", "unit": "furlong"})
    sizes = {p.name: bv.open(p).node.source.space for p in sorted(tmp_path.iterdir())}
    assert sizes["ij.tif"].voxel_size == pytest.approx((3.9, 0.5, 0.25))
    assert sizes["ij.tif"].unit == "micrometer"
    assert sizes["a.ome.tif"].voxel_size == pytest.approx((0.03, 0.008, 0.004))
    assert sizes["a.ome.tif"].unit == "micrometer"
    assert sizes["cm.tif"].voxel_size == pytest.approx((1, 1, 0.5))
    assert sizes["dpi.tif"].voxel_size is None and sizes["px.tif"].voxel_size is None


def test_channels_have_names(tmp_path):
    x = voxels("u1", (2, 3, 8, 9))
    path = tmp_path / "a.ome.tif"
    write(path, x, metadata={"axes": "CZYX", "Channel": {"Name": ["DAPI", "GFP"]}})
    check(path, x[1], index={"c": "GFP"})


def test_levels_by_micrometers_a_pixel(tmp_path):
    """A slide's levels are in SubIFDs; only the finest one has the size of its pixels."""
    path, x = tmp_path / "slide.tif", np.arange(64 * 80, dtype="u2").reshape(64, 80)
    how = {"tile": (16, 16), "resolutionunit": "CENTIMETER"}
    with tifffile.TiffWriter(path) as tiff:
        tiff.write(x, subifds=2, resolution=(40_000, 40_000), **how)
        tiff.write(x[::2, ::2], subfiletype=1, tile=(16, 16))
        tiff.write(x[::4, ::4], subfiletype=1, tile=(16, 16))
    for mpp, step in ((0.25, 1), (0.24, 1), (0.4, 1), (0.5, 2), (9, 4)):
        source = check(path, x[::step, ::step], mpp=mpp)
        assert source.space.voxel_size[1:] == (0.25 * step, 0.25 * step)
        assert reopened(source).shape == source.shape
    with pytest.raises(
        ValueError, match=r"mpp=0.1 is less than the pixels.*0.25, 0.5, 1 micrometers"
    ):
        open_source(path, mpp=0.1)
    with pytest.raises(ValueError, match=r"mpp=0.5 and level=1"):
        open_source(path, mpp=0.5, level=1)
    for bad in (0, True, float("nan"), "0.5"):
        with pytest.raises(ValueError, match=r"mpp=.*micrometers"):
            open_source(path, mpp=bad)
    tifffile.imwrite(tmp_path / "bare.tif", x)
    with pytest.raises(ValueError, match="has no pixel size"):
        open_source(tmp_path / "bare.tif", mpp=1)


def test_levels_and_images(tmp_path):
    x, small = voxels("u1", (64, 96)), voxels("u1", (32, 48), 1)
    other = voxels("u2", (9, 10))
    path = tmp_path / "a.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as out:
        how = {"tile": (16, 16), "photometric": "minisblack"}
        out.write(
            x, subifds=1, metadata={"axes": "YX", "PhysicalSizeX": 2.0, "PhysicalSizeY": 2.0}, **how
        )
        out.write(small, subfiletype=1, **how)
        out.write(other, photometric="minisblack", metadata={"axes": "YX", "Name": "macro"})
    assert check(path, x).space.voxel_size[1:] == (2.0, 2.0)
    assert check(path, small, level=1).space.voxel_size[1:] == (4.0, 4.0)
    check(path, other, dataset="1")
    with pytest.raises(ValueError, match=r"level=2.*has 2 levels"):
        open_source(path, level=2)
    with pytest.raises(ValueError, match=r"dataset='x'.*has the images"):
        open_source(path, dataset="x")


def test_files_of_a_set(tmp_path):
    x = voxels("u1", (2, 3, 20, 30))
    uuids = [f"urn:uuid:{k:032x}" for k in range(2)]
    data = "".join(
        f'<TiffData FirstC="{c}" FirstZ="{z}" IFD="{z}"><UUID FileName="c{c}.ome.tif">{uuids[c]}</UUID>'
        "</TiffData>"
        for c in range(2)
        for z in range(3)
    )
    for c in range(2):
        xml = (
            '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
            f'UUID="{uuids[c]}"><Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" '
            'Type="uint8" SizeX="30" SizeY="20" SizeZ="3" SizeC="2" SizeT="1">'
            f'<Channel ID="Channel:0:0"/><Channel ID="Channel:0:1"/>{data}</Pixels></Image></OME>'
        )
        write(tmp_path / f"c{c}.ome.tif", x[c], description=xml, metadata=None, compression="zlib")
    check(tmp_path / "c0.ome.tif", x[1], index={"c": 1})
    check(tmp_path / "c1.ome.tif", x[0], index={"c": 0})
    source = open_source(tmp_path / "c0.ome.tif", index={"c": 1})
    assert len(source.reader.extents) == 2
    (tmp_path / "c1.ome.tif").unlink()
    with pytest.raises(OSError, match=r"c1\.ome\.tif is missing"):
        source.read()
    check(tmp_path / "c0.ome.tif", x[0], index={"c": 0})
    with pytest.raises(OSError, match="pages are missing"):
        open_source(tmp_path / "c0.ome.tif", index={"c": 1})


@pytest.mark.skipif(not SLIDE.exists(), reason="no slide at ../shared/data/slides")
def test_a_slide():
    x = tifffile.imread(SLIDE)
    source = open_source(SLIDE, index={"c": "blue"})
    assert source.chunk == (1, 240, 240) and source.space.unit == "micrometer"
    assert source.space.voxel_size[1:] == (0.499, 0.499)
    before = tiff_reading.decoded
    box = Box((0, 500, 700), (1, 700, 730))
    np.testing.assert_array_equal(source.read(box)[0], x[500:700, 700:730, 2])
    assert tiff_reading.decoded - before == 2
    check(SLIDE, tifffile.imread(SLIDE, series=2)[..., 0], index={"c": 0}, dataset="Label")


# -- how much is read --------------------------------------------------------------------------------


def test_only_what_is_touched_is_decoded(tmp_path, monkeypatch):
    x = voxels("u2", (4, 100, 120))
    path = write(tmp_path / "a.tif", x, tile=(32, 32), compression="zlib")
    before = tiff_reading.decoded
    source = open_source(path)
    assert tiff_reading.decoded == before
    source.read(Box((1, 0, 31), (3, 32, 33)))
    assert tiff_reading.decoded - before == 2 * 1 * 2
    monkeypatch.setattr(tiff_reading, "STRIPS", 1)
    strips = write(tmp_path / "b.tif", x, rowsperstrip=10, compression="zlib")
    before = tiff_reading.decoded
    np.testing.assert_array_equal(
        open_source(strips).read(Box((0, 15, 0), (1, 25, 9))), x[:1, 15:25, :9]
    )
    assert tiff_reading.decoded - before == 2
    found = bv.compute(
        bv.maximum_filter(bv.open(path), 3), runner=None, slab=(4, 100, 120), window=2
    )
    np.testing.assert_array_equal(found, ndi.maximum_filter(x, 3))


@pytest.mark.parametrize("compression", ["jpeg", "zlib"])
def test_colours_are_decoded_once(tmp_path, compression):
    x = voxels("u1", (3, 64, 64, 3))
    path = write(tmp_path / "a.tif", x, photometric="rgb", tile=(32, 32), compression=compression)
    x = np.moveaxis(tifffile.imread(path), -1, 0)
    v = bv.open(path)
    assert v.shape == (3, 3, 64, 64) and v.channels == ("red", "green", "blue")
    before = tiff_reading.decoded
    found = bv.compute(bv.maximum_filter(v, 3), runner=None, slab=(3, 64, 64), window=3)
    assert tiff_reading.decoded - before == 3 * 4
    for k in range(3):
        np.testing.assert_array_equal(found[k], ndi.maximum_filter(x[k], 3))


def test_many_pages(tmp_path, monkeypatch):
    """What is known of many pages at a glance is what tifffile finds, page by page."""
    x = voxels("u1", (2, 30, 3, 8, 9))
    files = {
        "plain.tif": (x.reshape(-1, 8, 9), {"metadata": None, "contiguous": False}),
        "ij.tif": (x, {"imagej": True, "compression": "zlib", "metadata": {"axes": "TZCYX"}}),
        "a.ome.tif": (x, {"metadata": {"axes": "TZCYX"}, "compression": "zlib"}),
        "b.ome.tif": (x, {"metadata": {"axes": "TCZYX"}}),
        "shaped.tif": (x, {"compression": "lzw"}),
        "rgb.ome.tif": (
            x.transpose(0, 1, 3, 4, 2),
            {"photometric": "rgb", "metadata": {"axes": "TZYXS"}},
        ),
    }
    for name, (array, how) in files.items():
        if how.pop("contiguous", True):
            write(tmp_path / name, array, **how)
        else:
            with tifffile.TiffWriter(tmp_path / name) as out:
                for page in array:
                    out.write(page, contiguous=False, photometric="minisblack", **how)
    for name in files:
        index = {} if name == "plain.tif" else {"t": 1, "c": 2}
        found = []
        for many in (10_000, 2):
            monkeypatch.setattr(tiff, "MANY", many)
            source = open_source(tmp_path / name, index=index)
            assert len(pickle.dumps(source.reader)) < 4000
            found.append((source.read(), source.space))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        assert found[0][1] == found[1][1]


def test_tags_of_many_pages_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as out:
        for _ in range(600):
            out.write(np.zeros((4, 5), "u1"), contiguous=False, metadata=None)
    read = []
    monkeypatch.setattr(tifffile.TiffPage, "__init__", _counting(tifffile.TiffPage, read))
    monkeypatch.setattr(tifffile.TiffFrame, "__init__", _counting(tifffile.TiffFrame, read))
    assert open_source(path).shape == (600, 4, 5)
    assert len(read) <= 2


def _counting(cls, read):
    init = cls.__init__

    def counting(self, *args, **kwargs):
        read.append(1)
        init(self, *args, **kwargs)

    return counting


def test_contiguous_files_larger_than_4_gib(tmp_path):
    """ImageJ's hyperstack of one directory, and a BigTIFF of 20 GB; both are holes."""
    path = tmp_path / "ij.tif"
    write(
        path,
        np.zeros((2, 2, 1000, 1000), "u1"),
        imagej=True,
        metadata={"axes": "TZYX"},
        contiguous=True,
    )
    data = path.read_bytes()
    with tifffile.TiffFile(path) as found:
        page = found.pages[0]
        at, text = page.dataoffsets[0], page.tags["ImageDescription"]
        old = data[text.valueoffset : text.valueoffset + text.count]
        new = b"ImageJ=1.53t\nimages=5000\nslices=2500\nframes=2\nhyperstack=true"
        head = bytearray(data[:at])
        head[text.valueoffset : text.valueoffset + text.count] = new.ljust(len(old), b"\0")
        # no second directory
        entries = struct.unpack_from(found.byteorder + "H", head, page.offset)[0]
        struct.pack_into(found.byteorder + "I", head, page.offset + 2 + 12 * entries, 0)
    last = np.arange(1000, dtype="u1")
    with open(path, "wb") as file:
        file.write(head)
        file.seek(at + 4999 * 10**6 + 7000)
        file.write(last.tobytes())
        file.truncate(at + 5000 * 10**6)
    source = open_source(path, index={"t": 1})
    assert source.shape == (2500, 1000, 1000)
    np.testing.assert_array_equal(source.read(Box((2499, 7, 0), (2500, 8, 1000)))[0, 0], last)
    big = tmp_path / "big.tif"
    tifffile.memmap(big, shape=(20, 32768, 32768), dtype="u1", bigtiff=True)
    source = open_source(big)
    assert source.nbytes == 20 << 30 and source.chunk[1] < 1000
    assert not source.read(Box((19, 32767, 0), (20, 32768, 32768))).any()


def test_threads_and_processes(tmp_path):
    x = voxels("u2", (6, 200, 210))
    path = write(tmp_path / "a.tif", x, tile=(32, 32), compression="zlib", predictor=True)
    source = open_source(path)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        boxes = [Box((z, 0, 0), (z + 1, 200, 210)) for z in range(6)] * 4
        for box, found in zip(boxes, threads.map(source.read, boxes), strict=True):
            np.testing.assert_array_equal(found, x[box.slices])
    ring = np.zeros((6, 210, 220), "u2")
    read_into(source.open(), Box((0, 0, 0), x.shape), ring[:, 5:205, 5:215]).result()
    np.testing.assert_array_equal(ring[:, 5:205, 5:215], x)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_sum_of, (source,)) == int(x.sum())


def _sum_of(source):
    return int(source.read().sum())


def test_a_file_that_is_replaced(tmp_path):
    path = tmp_path / "a.tif"
    for seed in (1, 2):
        x = voxels("u2", seed=seed)
        write(path, x, compression="zlib")
        check(path, x)


def test_elsewhere_than_on_a_disk(tmp_path, monkeypatch):
    asked = []
    pread = remote_file.Object.pread
    monkeypatch.setattr(remote_file.Object, "pread", lambda o, *a: asked.append(a) or pread(o, *a))
    x = voxels("u2", (3, 60, 70))
    store = ts.KvStore.open({"driver": "memory"}, context=context()).result()
    for name, how in (("a.tif", {"compression": "zlib", "tile": (32, 32)}), ("b.tif", {})):
        write(tmp_path / name, x, **how)
        store.write(f"tiffs/{name}", (tmp_path / name).read_bytes()).result()
        source = open_source(f"memory://tiffs/{name}")
        np.testing.assert_array_equal(source.read(), x)

        asked.clear()
        source.read()
        assert len(asked) == (18 if name == "a.tif" else 3)  # where the tiles are is remembered
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_source("memory://tiffs/none.tif")


# -- what is damaged or not read ---------------------------------------------------------------------


def test_truncated_files(tmp_path):
    x = voxels("u2", (4, 50, 60))
    for k, how in enumerate(
        ({}, {"compression": "zlib"}, {"tile": (16, 16)}, {"imagej": True}, {"ome": True})
    ):
        path = write(tmp_path / f"{k}.tif", x, **how)
        size = path.stat().st_size
        for keep in (0, 3, 7, 20, size // 2, size - 100):
            os.truncate(path, keep) if keep < path.stat().st_size else None
            write(path, x, **how)
            os.truncate(path, keep)
            with pytest.raises(OSError, match=rf"{k}\.tif.*") as error:
                open_source(path).read()
            assert "\n" not in str(error.value) and "damaged" in str(error.value)


@pytest.mark.parametrize(
    ("part", "damaged"), [("<Pixels", "<Pixels <"), ("</OME>", "</Im>  "), ("</Image>", "</Imag >")]
)
def test_damaged_xml_is_named_and_can_be_removed(tmp_path, part, damaged):
    x = voxels("u2", (3, 5, 7))
    path = write(tmp_path / "a.ome.tif", x, ome=True, metadata={"axes": "TYX"})
    xml = tifffile.tiffcomment(path)
    assert part in xml
    tifffile.tiffcomment(path, xml.replace(part, damaged)[: len(xml)].encode())
    with pytest.raises(
        OSError, match=r"a\.ome\.tif has damaged OME-XML \(.*line 1.*tiffcomment"
    ) as error:
        open_source(path)
    assert "\n" not in str(error.value)
    tifffile.tiffcomment(path, "")
    np.testing.assert_array_equal(open_source(path).read(), x)


def test_damaged_xml_does_not_matter_if_the_axes_are_known(tmp_path):
    """Pages that are not a stack, descriptions of other programs, and texts with a tag of OME."""
    x = voxels("u2", (3, 5, 7))
    path = write(tmp_path / "a.ome.tif", x, ome=True, metadata={"axes": "TYX"})
    damaged = tifffile.tiffcomment(path).replace("<Pixels", "<Pixels <")
    one = {"metadata": None, "photometric": "minisblack"}
    for k, (array, text, how, axes) in enumerate((
        (x[0], damaged, one, "yx"),
        (x[0], damaged[:-20], one, "yx"),
        (x[0], damaged, {"metadata": {"axes": "YX"}}, "yx"),
        (x.astype("u1").transpose(1, 2, 0), damaged, {**one, "photometric": "rgb"}, "cyx"),
        (x, damaged, {"metadata": {"axes": "CYX"}}, "cyx"),
        (x, "made of <OME> files: z < 3", one, "zyx"),
        (x, '<MetaData>\n<prop value="<OME >"/></MetaData>', one, "zyx"),
        (x, "ImageJ=1.53t\nimages=3\nframes=3\nInfo=<OME >\n", one, "tyx"),
        (x, damaged.replace("OME", "OMERO"), one, "zyx"),
    )):  # fmt: skip
        path = write(tmp_path / f"{k}.tif", array, description=text.encode(), **how)
        source = open_source(path)
        assert "".join(source.space.leading + source.space.axes) == axes
        want = array.transpose(2, 0, 1) if "photometric" in how and array.dtype == "u1" else array
        np.testing.assert_array_equal(np.squeeze(source.read()), want)


def test_a_damaged_tile_is_named(tmp_path):
    x = voxels("u2", (2, 64, 64))
    for compression in ("zlib", "zstd", "jpeg", "jpeg2000"):
        y = x.astype("u1") if "jpeg" in compression else x
        path = write(tmp_path / f"{compression}.tif", y, tile=(32, 32), compression=compression)
        with tifffile.TiffFile(path) as found:
            at, count = (n[3] for n in (found.pages[1].dataoffsets, found.pages[1].databytecounts))
        data = bytearray(path.read_bytes())
        data[at : at + count] = bytes(count)
        path.write_bytes(data)
        source = open_source(path)
        source.read(Box((1, 0, 0), (2, 64, 32)))
        with pytest.raises(OSError, match=r"tile \(1, 1\) of the page z 1 of .* is damaged"):
            source.read()


def test_directories_that_loop_or_lie(tmp_path):
    path = tmp_path / "a.tif"

    def save(entries, following=0, at=8):
        n = len(entries)
        data = struct.pack("<2sHIH", b"II", 42, at, n)
        for code, kind, count, value in entries:
            data += struct.pack("<HHII", code, kind, count, value)
        path.write_bytes(data + struct.pack("<I", following) + bytes(64))

    page = [(256, 4, 1, 4), (257, 4, 1, 4), (258, 3, 1, 8), (273, 4, 1, 8), (279, 4, 1, 16)]
    save(page)
    assert open_source(path).shape == (1, 4, 4)
    hostile = {
        "a loop": (page, 8),
        "is at 99999": (page, 99999),
        "has no page": (page, 0, 0),
        "declares 4000000000 values": ([*page[:3], (273, 4, 4_000_000_000, 8)], 0),
        "need .* bytes at": ([(256, 4, 1, 1 << 30), (257, 4, 1, 1 << 30), *page[2:]], 0),
        "bytes at": ([*page[:3], (273, 4, 1, 1 << 31), page[4]], 0),
    }
    for message, how in hostile.items():
        save(*how)
        with pytest.raises(OSError, match=message) as error:
            open_source(path).read(Box((0, 0, 0), (1, 1, 1)))
        assert "\n" not in str(error.value)
    path.write_bytes(b"II*\0" + struct.pack("<IH", 8, 60000))
    with pytest.raises(OSError, match="declares 60000 tags"):
        open_source(path)


def test_mutations_end_well(tmp_path):
    """A changed byte: the file is read, or one of our errors explains the problem."""
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)
    path = tmp_path / "a.tif"
    rng = random.Random(3)
    files = []
    for k, how in enumerate(
        ({"tile": (16, 16), "compression": "zlib"}, {"imagej": True}, {"ome": True})
    ):
        write(path, voxels("u2", (2, 20, 20)), **how)
        with tifffile.TiffFile(path) as found:
            spans = [(0, 16)] + [(p.offset, p.offset + 200) for p in found.pages]
        files.append((path.read_bytes(), spans, k))
    for _ in range(300):
        good, spans, _k = rng.choice(files)
        data = bytearray(good)
        for _ in range(rng.choice([1, 2, 8])):
            at = rng.randrange(*rng.choice(spans))
            if at < len(data):
                data[at] = rng.choice([0, 1, 255, rng.randrange(256)])
        path.write_bytes(data)
        try:
            source = open_source(path)
            z, y, x = (min(n, 64) for n in source.shape)
            source.read(Box((0, 0, 0), (z, y, x)))
        except (OSError, ValueError) as error:
            assert str(error)


def test_what_is_not_read_is_said(tmp_path):
    path = write(tmp_path / "a.tif", voxels("u1"))
    with pytest.raises(ValueError, match=r"tiff.*open\("):
        bv.open({"driver": "tiff", "kvstore": {"driver": "file", "path": str(path)}})
    write(path, voxels("f4").astype("c8"))
    with pytest.raises(ValueError, match="complex64"):
        open_source(path)
    path.write_bytes(b"not an image")
    with pytest.raises(VolumeError, match="no TIFF header"):
        open_source(path)
    with tifffile.TiffWriter(path) as out:
        out.write(voxels("u1", (8, 9)), metadata=None)
        out.write(voxels("u1", (18, 9)), metadata=None)
    assert open_source(path).shape == (1, 8, 9)
    assert open_source(path, dataset="1").shape == (1, 18, 9)


# -- metadata in another file ------------------------------------------------------------------------

OME = 'xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"'


def id_of(k):
    return f"urn:uuid:{k:08d}-0000-0000-0000-000000000000"


def binary_only(path, array, k, metadata="s.companion.ome", **how):
    """A TIFF file that names the file with its metadata."""
    text = f'<OME {OME} UUID="{id_of(k)}"><BinaryOnly MetadataFile="{metadata}" UUID="{id_of(99)}"/></OME>'
    return write(path, array, metadata=None, description=f'<?xml version="1.0"?>{text}', **how)


def image_of(number, shape, planes, size=0.25, position=None):
    """An image of OME-XML; its planes are the files with their numbers, pages and first z and c."""
    c, z, y, x = shape
    data = "".join(
        f'<TiffData IFD="{page}" FirstZ="{fz}" FirstC="{fc}" PlaneCount="1">'
        f'<UUID FileName="{name}">{id_of(k)}</UUID></TiffData>'
        for name, k, page, fz, fc in planes
    )
    channels = "".join(f'<Channel ID="Channel:{number}:{k}" Name="of {k}"/>' for k in range(c))
    plane = "" if position is None else (
        f'<Plane TheZ="0" TheC="0" TheT="0" PositionX="{position}" PositionY="0" PositionZ="0"/>'
    )  # fmt: skip
    return (
        f'<Image ID="Image:{number}" Name="image {number}"><Pixels ID="Pixels:{number}" SizeT="1" '
        f'SizeC="{c}" SizeZ="{z}" SizeY="{y}" SizeX="{x}" PhysicalSizeX="{size}" '
        f'PhysicalSizeY="{size}" PhysicalSizeZ="0.5" Type="uint16" DimensionOrder="XYZCT">'
        f"{channels}{data}{plane}</Pixels></Image>"
    )


def companion(path, *images, encoding="utf-8"):
    text = f'<?xml version="1.0" encoding="{encoding}"?><OME {OME} UUID="{id_of(99)}">{"".join(images)}</OME>'
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("count", [4, 600])
def test_planes_are_in_the_order_of_the_companion_file(tmp_path, monkeypatch, count, compression):
    x = voxels("u2", (count, 5, 7))
    path = binary_only(tmp_path / "s.ome.tif", x[::-1], 0, compression=compression)
    planes = [("s.ome.tif", 0, k, count - 1 - k, 0) for k in range(count)]
    about = companion(tmp_path / "s.companion.ome", image_of(0, (1, count, 5, 7), planes))
    for name in (path, about):
        source = check(name, x)
        assert (source.space.voxel_size, source.space.unit) == ((0.5, 0.25, 0.25), "micrometer")
        assert len(source.reader.extents) == 1
    path.rename(tmp_path / "renamed.ome.tif")  # its identifier remains
    check(tmp_path / "renamed.ome.tif", x)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "s.ome.tif").symlink_to(tmp_path / "renamed.ome.tif")
    check(tmp_path / "linked" / "s.ome.tif", x)


def test_a_companion_file_has_channels_of_several_files(tmp_path):
    """In folders below, in plain TIFF files without an identifier, and in UTF-16."""
    x = voxels("u2", (2, 3, 5, 7))
    (tmp_path / "c0").mkdir()
    write(tmp_path / "c0" / "a.tif", x[0, ::-1], metadata=None)
    write(tmp_path / "b.tif", x[1], metadata=None)
    planes = [(r"c0\a.tif", 0, z, 2 - z, 0) for z in range(3)]
    planes += [("b.tif", 0, z, z, 1) for z in range(3)]  # both with one identifier
    about = image_of(0, x.shape, planes)
    path = companion(tmp_path / "s.companion.ome", about, encoding="utf-16")
    source = open_source(path)
    np.testing.assert_array_equal(source.read(), x)
    assert source.space.channels == ("of 0", "of 1")
    v = bv.open(path, index={"c": "of 1"})
    np.testing.assert_array_equal(np.asarray(v), x[1])
    (tmp_path / "b.tif").unlink()
    check(path, x[0], index={"c": 0})
    with pytest.raises(OSError, match="3 of its 6 pages are missing"):
        open_source(path)


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_missing_file_of_a_set_is_named(tmp_path, is_folder):
    """Also if the folder of the set is opened as slices, which lost it."""
    x = voxels("u1", (3, 5, 7))
    ids = [f"urn:uuid:a3b4d2c0-0000-4000-8000-00000000000{k}" for k in range(3)]
    planes = "".join(
        f'<TiffData FirstZ="{k}" PlaneCount="1"><UUID FileName="{k}.ome.tif">{ids[k]}</UUID></TiffData>'
        for k in range(3)
    )
    for k in range(3):
        about = (
            f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{ids[k]}"><Image '
            'ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="7" '
            f'SizeY="5" SizeZ="3" SizeC="1" SizeT="1">{planes}</Pixels></Image></OME>'
        )
        write(tmp_path / f"{k}.ome.tif", x[k], description=about, metadata=None)
    for path in (tmp_path, tmp_path / "0.ome.tif"):
        np.testing.assert_array_equal(np.asarray(bv.open(path)), x)
    (tmp_path / "0.ome.tif").rename(tmp_path / "00.ome.tif")  # its own old name is no missing file
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path)), x)
    (tmp_path / "00.ome.tif").rename(tmp_path / "0.ome.tif")
    (tmp_path / "2.ome.tif").unlink()
    if is_folder:
        (tmp_path / "2.ome.tif").mkdir()
    what = "is a folder" if is_folder else "does not exist"
    with pytest.raises(OSError, match=rf"missing: the file '2\.ome\.tif' of the set {what}"):
        bv.open(tmp_path / "0.ome.tif")
    for path in (tmp_path, tmp_path / "*.ome.tif"):
        with pytest.raises(
            OSError, match=r"with the file '2\.ome\.tif', which does not exist; restore"
        ):
            bv.open(path)


def test_metadata_in_another_ome_tiff_are_followed(tmp_path):
    """As Micro-Manager writes the second file of a set; each file opens the whole volume."""
    x = voxels("u2", (4, 5, 7))
    planes = [(f"{'ab'[z % 2]}.ome.tif", z % 2, z // 2, z, 0) for z in range(4)]
    about = f'<OME {OME} UUID="{id_of(0)}">{image_of(0, (1, 4, 5, 7), planes)}</OME>'
    write(tmp_path / "a.ome.tif", x[::2], metadata=None, description=about)
    binary_only(tmp_path / "b.ome.tif", x[1::2], 1, "a.ome.tif")
    for name in "ab":
        assert check(tmp_path / f"{name}.ome.tif", x).space.voxel_size == (0.5, 0.25, 0.25)
    for several in ("*.ome.tif", ["a.ome.tif", "b.ome.tif"]):
        given = [tmp_path / n for n in several] if isinstance(several, list) else tmp_path / several
        with pytest.raises(ValueError, match="files of one set, and each opens the whole volume"):
            open_source(given)


def test_a_file_of_a_set_opens_its_own_image(tmp_path):
    """Also the metadata and the position are its own, if the files of other images are lost."""
    x = voxels("u2", (3, 2, 5, 7))
    images = []
    for k in range(3):
        binary_only(tmp_path / f"{k}.ome.tif", x[k], k)
        planes = [(f"{k}.ome.tif", k, z, z, 0) for z in range(2)]
        images.append(image_of(k, (1, 2, 5, 7), planes, size=0.25 * (k + 1), position=10 * k))
    about = companion(tmp_path / "s.companion.ome", *images)
    for k in range(3):
        for name in (
            {"path_or_spec": tmp_path / f"{k}.ome.tif"},
            {"path_or_spec": about, "dataset": str(k)},
        ):
            source = open_source(**name)
            np.testing.assert_array_equal(source.read(), x[k])
            assert source.space.voxel_size == (0.5, 0.25 * (k + 1), 0.25 * (k + 1))
    with pytest.raises(ValueError, match="has the images 0"):
        open_source(about, dataset="none")
    (tmp_path / "0.ome.tif").unlink()
    source = open_source(tmp_path / "2.ome.tif")
    np.testing.assert_array_equal(source.read(), x[2])
    assert source.space.voxel_size == (0.5, 0.75, 0.75)
    tiles, transforms = bv.open_tiles(about)
    np.testing.assert_allclose(transforms[:, 2, 3], [10 / 0.5, 20 / 0.75])
    np.testing.assert_array_equal(np.asarray(tiles[0]), x[1])


def test_metadata_that_are_lost_or_of_other_files_are_refused(tmp_path):
    x = voxels("u2", (2, 5, 7))
    path = binary_only(tmp_path / "s.ome.tif", x, 0)
    with pytest.raises(
        OSError, match=r"the order of its planes, in s\.companion\.ome, which does not exist"
    ):
        open_source(path)
    about = companion(
        tmp_path / "s.companion.ome", image_of(0, (1, 2, 5, 7), [("t.tif", 5, 0, 0, 0)])
    )
    with pytest.raises(OSError, match=r"metadata of other files, but not of .*s\.ome\.tif"):
        open_source(path)
    with pytest.raises(OSError, match=r"refers to .*t\.tif, which does not exist"):
        open_source(about)
    companion(about)
    with pytest.raises(OSError, match="lists no TIFF file"):
        open_source(about)
    about.write_text("<OME>")
    for name in (path, about):
        with pytest.raises(OSError, match="not valid XML"):
            open_source(name)
    about.write_text(f'<OME {OME}><BinaryOnly MetadataFile="s.ome.tif"/></OME>')
    with pytest.raises(OSError, match="refer to a further file"):
        open_source(path)
    (tmp_path / "in").mkdir()
    binary_only(tmp_path / "in" / "s.ome.tif", x, 0, "../s.companion.ome")
    for name in ("../s.ome.tif", "http://127.0.0.1:9/s.ome.tif", str(path)):
        companion(
            tmp_path / "in" / "s.companion.ome", image_of(0, (1, 2, 5, 7), [(name, 0, 0, 0, 0)])
        )
        with pytest.raises(ValueError, match=r"which is (a URL|outside its folder)"):
            open_source(tmp_path / "in" / "s.companion.ome")
    with pytest.raises(ValueError, match="outside its folder"):
        open_source(tmp_path / "in" / "s.ome.tif")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("<OME", '<!DOCTYPE a [<!ENTITY e "ha">]><OME', "declares entities"),
        ("/OME/2016-06", "/OME/2031-01", "schema '2031-01'"),
    ],
)
def test_companion_files_are_checked_as_other_xml(tmp_path, old, new, says):
    binary_only(tmp_path / "s.ome.tif", np.zeros((2, 5, 7), "u2"), 0)
    planes = [("s.ome.tif", 0, k, 0, k) for k in range(2)]
    path = tmp_path / "s.companion.ome"
    companion(path, image_of(0, (1, 2, 5, 7), planes))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    for name in ("s.ome.tif", "s.companion.ome"):
        with pytest.raises(ValueError, match=f"{path}.*{says}"):
            open_source(tmp_path / name)


def test_a_companion_file_that_contradicts_its_files_is_refused(tmp_path):
    """tifffile only logs it, and reads the pages in their order."""
    binary_only(tmp_path / "s.ome.tif", np.zeros((3, 5, 7), "u2"), 0)
    planes = [("s.ome.tif", 0, k, 2 - k, 0) for k in range(3)]
    path = companion(tmp_path / "s.companion.ome", image_of(0, (1, 3, 5, 6), planes))
    for name in ("s.ome.tif", "s.companion.ome"):
        with pytest.raises(OSError, match=f"{path}.*differ from"):
            open_source(tmp_path / name)


def test_a_companion_file_in_a_bucket(tmp_path):
    x = voxels("u2", (3, 5, 7))
    binary_only(tmp_path / "s.ome.tif", x[::-1], 0)
    planes = [("s.ome.tif", 0, k, 2 - k, 0) for k in range(3)]
    companion(tmp_path / "s.companion.ome", image_of(0, (1, 3, 5, 7), planes))
    store = ts.KvStore.open({"driver": "memory"}, context=context()).result()
    for name in ("s.ome.tif", "s.companion.ome"):
        store.write(f"companions/{name}", (tmp_path / name).read_bytes()).result()
    for name in ("s.ome.tif", "s.companion.ome"):
        source = open_source(f"memory://companions/{name}")
        np.testing.assert_array_equal(source.read(), x)
        assert source.space.voxel_size == (0.5, 0.25, 0.25)
