"""A rewritten path is read by its new header."""

from __future__ import annotations

import gzip
import itertools
import os
import shutil
import zipfile
import zlib

import h5py
import imagecodecs
import nibabel
import numpy as np
import pytest
import tensorstore as ts
import tifffile
import zarr

from beam_volumes.storage.inputs.opening import open_source
from tests.peers import peer
from tests.storage.nd2_files import write_nd2

SHAPE = (3, 8, 16)
#: Stamps of files differ for different times of writing, in nanoseconds.
_TIME = itertools.count(1_700_000_000)


def tiff(**how):
    return lambda path, a: tifffile.imwrite(path, a, photometric="minisblack", **how)


def tiff_slices(**how):
    def write(path, a):
        path.mkdir()
        for z, plane in enumerate(a):
            tiff(**how)(path / f"s{z}.tif", plane)

    return write


def png_slices(level):
    def write(path, a):
        path.mkdir()
        for z, plane in enumerate(a):
            (path / f"s{z}.png").write_bytes(imagecodecs.png_encode(plane, level))

    return write


def header(text, dtype, data, encode=bytes, before=b""):
    def write(path, a):
        stored = encode(before + a.astype(dtype).tobytes())
        path.write_bytes(text.format(nbytes=len(stored)).encode() + data + stored)

    return write


NRRD = "NRRD0005\ntype: {kind}\ndimension: 3\nsizes: 16 8 3\nendian: {order}\nencoding: {encoding}\n{more}\n"
META = (
    "ObjectType = Image\nNDims = 3\nBinaryDataByteOrderMSB = {msb}\nCompressedData = {packed}\n"
    "DimSize = 16 8 3\n{more}ElementType = MET_USHORT\nElementDataFile = LOCAL\n"
)


def nifti(order, slope, inter):
    def write(path, a):
        image = nibabel.Nifti1Image(
            a, np.diag([2.0, 2, 2, 1]), nibabel.Nifti1Header(endianness=order)
        )
        image.header.set_slope_inter(slope, inter)
        with open(path, "wb") as file:
            image.header["vox_offset"] = 352
            image.header["magic"] = b"n+1\0"
            image.header.set_data_shape(a.shape[::-1])
            image.header.set_data_dtype("u2")
            image.header.write_to(file)
            file.write(bytes(352 - file.tell()))
            stored = ((a.astype(float) - inter) / slope).round()
            file.write(stored.astype(order + "u2").tobytes())

    return write


def mrc(order):
    def write(path, a):
        head = np.zeros(256, order + "i4")
        head[:4], head[7:10] = (*SHAPE[::-1], 6), SHAPE[::-1]
        head[16:19] = 1, 2, 3
        data = bytearray(head.tobytes())
        data[208:216] = b"MAP " + (b"DD\0\0" if order == "<" else b"\x11\x11\0\0")
        path.write_bytes(bytes(data) + a.astype(order + "u2").tobytes())

    return write


def store(driver, metadata):
    def write(path, a):
        spec = {"driver": driver, "kvstore": f"file://{path}/", "metadata": metadata}
        turned = a.T if driver == "n5" else a
        ts.open(spec, create=True, dtype=a.dtype, shape=turned.shape).result()[...] = turned

    return write


def precomputed(encoding, chunk):
    scale = {"encoding": encoding, "chunk_size": chunk[::-1], "resolution": [1, 1, 1]}
    if encoding == "compressed_segmentation":
        scale["compressed_segmentation_block_size"] = [8, 8, 8]

    def write(path, a):
        spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{path}/"}
        spec |= {"scale_metadata": {**scale, "size": a.shape[::-1]}}
        kind = {"multiscale_metadata": {"type": "segmentation", "num_channels": 1}}
        store = ts.open({**spec, **kind}, create=True, dtype="uint32").result()
        store[...] = a.T[..., None].astype("u4")

    return write


def zipped(compression, **how):
    def write(path, a):
        with zarr.storage.ZipStore(path, mode="w", compression=compression) as place:
            zarr.create_array(place, shape=a.shape, dtype=a.dtype, **how)[...] = a

    return write


def hdf5(dtype="<u2", block=0, **how):
    def write(path, a):
        with h5py.File(path, "w", userblock_size=block) as file:
            file.create_dataset("data", data=a.astype(dtype), **how)

    return write


def nd2(first, **how):
    def write(path, a):
        write_nd2(path, a[..., None], [("Z", 3)], ["a" * (1 + first)], **how)

    return write


def dicom(syntax):
    from tests.storage.test_dicom import save

    def write(path, a):
        path.mkdir()
        for z, plane in enumerate(a):
            save(path / f"{z}.dcm", plane, syntax=syntax, InstanceNumber=z + 1)

    return write


def czi(**how):
    peer("pylibCZIrw.czi")
    from tests.storage.test_czi import write

    return lambda path, a: write(path, a[None, None], **how)


WRITERS = {
    "a.tif": lambda: [
        tiff(byteorder="<", imagej=True),
        tiff(byteorder=">", imagej=True),
        tiff(byteorder=">", bigtiff=True, compression="zlib", predictor=True),
        tiff(tile=(16, 16), compression="lzw"),
        tiff(rowsperstrip=3, metadata=None, software="x" * 40),
    ],
    "slices": lambda: [
        tiff_slices(byteorder="<", metadata=None),
        tiff_slices(byteorder=">", metadata=None, compression="zlib"),
        tiff_slices(tile=(16, 16), metadata=None),
    ],
    "pngs": lambda: [png_slices(0), png_slices(9)],
    "a.nrrd": lambda: [
        header(NRRD.format(kind="ushort", order="little", encoding="raw", more=""), "<u2", b""),
        header(NRRD.format(kind="ushort", order="big", encoding="raw", more=""), ">u2", b""),
        header(
            NRRD.format(kind="ushort", order="big", encoding="gzip", more="byte skip: 3\n"),
            ">u2",
            b"",
            gzip.compress,
            b"abc",
        ),
    ],
    "a.mha": lambda: [
        header(META.format(msb="False", packed="False", more=""), "<u2", b""),
        header(META.format(msb="True", packed="False", more=""), ">u2", b""),
        header(META.format(msb="True", packed="True", more=""), ">u2", b"", zlib.compress),
    ],
    "a.nii": lambda: [nifti("<", 2, 0), nifti(">", 2, 0), nifti("<", 1, 5)],
    "a.mrc": lambda: [mrc("<"), mrc(">")],
    "a.npy": lambda: [
        lambda path, a: np.save(path, a),
        lambda path, a: np.save(path, a.astype(">u2")),
        lambda path, a: np.save(path, np.asfortranarray(a)),
    ],
    "a.zarr": lambda: [
        store("zarr", {"chunks": [3, 8, 16], "dtype": "<u2", "compressor": None}),
        store("zarr", {"chunks": [3, 8, 16], "dtype": ">u2", "compressor": None}),
        store("zarr", {"chunks": [2, 8, 16], "dtype": "<u2", "order": "F", "fill_value": 7}),
        store("zarr", {"chunks": [3, 8, 16], "dtype": "<u2", "dimension_separator": "/"}),
        store("zarr3", {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}),
        store("zarr3", {"codecs": ["gzip"], "chunk_key_encoding": {"name": "v2"}}),
    ],
    "a.n5": lambda: [
        store("n5", {"blockSize": [16, 8, 3], "compression": {"type": "raw"}}),
        store("n5", {"blockSize": [16, 8, 3], "compression": {"type": "gzip"}}),
        store("n5", {"blockSize": [5, 8, 3], "compression": {"type": "raw"}}),
    ],
    "precomputed": lambda: [
        precomputed("raw", (3, 8, 16)),
        precomputed("compressed_segmentation", (3, 8, 16)),
        precomputed("raw", (2, 8, 8)),
    ],
    "a.zip": lambda: [
        zipped(zipfile.ZIP_STORED, chunks=SHAPE, compressors=None),
        zipped(zipfile.ZIP_STORED, chunks=SHAPE, compressors=None, zarr_format=2),
        zipped(zipfile.ZIP_DEFLATED, chunks=(1, 8, 16)),
        zipped(zipfile.ZIP_STORED, chunks=SHAPE, compressors=None, attributes={"a": "x" * 99}),
    ],
    "a.h5": lambda: [
        hdf5(),
        hdf5(">u2"),
        hdf5(chunks=(3, 8, 16), compression="gzip"),
        hdf5(chunks=(1, 4, 16), shuffle=True, compression="gzip"),
        hdf5(">u2", block=512, chunks=(3, 8, 16), fillvalue=9),
    ],
    "a.nd2": lambda: [nd2(0), nd2(2), nd2(0, padding=4), nd2(0, deflated=True)],
    "dicom": lambda: [dicom(f"1.2.840.10008.1.2{end}") for end in ("", ".1", ".2")],
    "a.czi": lambda: [czi(), czi(names=["a"], sizes=(1e-6, 1e-6, 1e-6))],
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_path_that_is_written_anew_is_decoded_by_its_new_header(tmp_path, name):
    writers = WRITERS[name]()
    path = tmp_path / name
    for k in [*range(len(writers)), 0]:
        voxels = np.random.default_rng(k).integers(20, 9000, SHAPE).astype("u2") * 2
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        writers[k](path, voxels)
        at = next(_TIME)
        for place in [path, *path.rglob("*")]:
            os.utime(place, (at, at))
        np.testing.assert_array_equal(
            open_source(path).read().reshape(SHAPE), voxels, f"written as {k}"
        )


def test_every_field_of_a_reader_is_part_of_its_token(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros(SHAPE, "u2"), imagej=True)
    reader = open_source(path).reader
    others = [type(reader)(**{**vars(reader), name: "other"}) for name in vars(reader)]
    assert len({r.token() for r in (reader, *others)}) == len(others) + 1


def test_a_table_of_scaling_is_told_from_one_of_the_same_ends():
    from beam_volumes.storage.sources.source import digest

    tables = np.zeros((2, 5000))
    tables[1, 2500] = 1
    assert digest(tables[0]) != digest(tables[1])
    assert digest({0: None}) != digest({0: 1})
