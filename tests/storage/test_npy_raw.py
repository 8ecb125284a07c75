"""``.npy`` and raw binary: files that numpy wrote, read by us; files that we wrote, read by numpy."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.cli.main import main
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import slabs
from beam_volumes.session.begin import begin
from beam_volumes.storage import open_source
from beam_volumes.storage.formats import contiguous
from beam_volumes.storage.formats.contiguous import piece_of
from beam_volumes.storage.inputs.opening import reopened
from beam_volumes.storage.places.errors import VolumeError

SHAPES = [(5, 7, 9), (1, 1, 1), (6, 8), (2, 300, 500), (1, 2, 3, 4, 5), (3, 70000, 1)]


def voxels(stored="u2", shape=(9, 20, 30), order="C"):
    found = np.random.default_rng(5).integers(0, 200, shape)
    found = (found > 100 if np.dtype(stored) == bool else found).astype(stored)
    return np.asarray(found, order=order)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("stored", ["bool", "u1", ">u2", "<i4", "f8", ">f2"])
def test_both_orders_of_axes_and_bytes(tmp_path, stored, shape, order):
    array = voxels(stored, shape, order)
    np.save(tmp_path / "a.npy", array)
    (tmp_path / "a.raw").write_bytes(b"head" + array.tobytes(order))
    index = {"t": 0, "c": 1} if len(shape) == 5 and order == "C" else None
    wanted = array[0, 1] if index else array
    raw = {"shape": shape, "dtype": stored, "offset": 4, "order": order}
    for volume in (
        bv.open(tmp_path / "a.npy", index=index),
        bv.open(tmp_path / "a.raw", index=index, **raw),
    ):
        assert volume.dtype == array.dtype.newbyteorder("=") and volume.ndim == wanted.ndim
        np.testing.assert_array_equal(np.asarray(volume), wanted)
        if wanted.ndim > 3:
            continue
        source = pickle.loads(pickle.dumps(volume.node.source))
        box = Box(tuple(n // 2 for n in source.shape), source.shape)
        whole = wanted.reshape(source.shape)
        np.testing.assert_array_equal(source.read(box), whole[box.slices])


def test_pieces_lie_side_by_side():
    assert piece_of((500, 4000, 4000), 2) == (1, 131, 4000)
    assert piece_of((5, 3, 2000000), 1) == (1, 1, 1 << 20)
    assert piece_of((1000, 10, 10), 1) == (655, 10, 10)
    assert piece_of((0, 10, 10), 1) == (1, 10, 10)
    assert piece_of((500, 400, 400, 3), 1) == (1, 400, 400, 3)
    assert piece_of((9, 3, 10, 20, 20), 1, first=2) == (1, 1, 10, 20, 20)


def test_a_read_takes_the_pieces_that_it_touches(tmp_path, monkeypatch):
    sizes = []
    read = contiguous.read_at

    def counted(path, at, size):
        sizes.append(size)
        return read(path, at, size)

    monkeypatch.setattr(contiguous, "read_at", counted)
    np.save(tmp_path / "a.npy", voxels(shape=(6, 400, 500)))
    source = open_source(tmp_path / "a.npy")
    assert source.chunk == (1, 400, 500) and not sizes
    source.read(Box((2, 100, 0), (4, 101, 500)))
    assert sizes == [400 * 500 * 2] * 2
    samples = open_source(tmp_path / "a.npy", index=None).crop(Box((0, 0, 0), (1, 400, 500)))
    samples.read()
    assert len(sizes) == 3


def test_threads_and_other_processes(tmp_path):
    array = voxels("u4", (40, 300, 400))
    np.save(tmp_path / "a.npy", array)
    source = open_source(tmp_path / "a.npy")
    boxes = [Box((k, 0, 0), (k + 5, 300, 400)) for k in range(0, 40, 5)]
    with ThreadPoolExecutor(8) as pool:
        found = np.concatenate(list(pool.map(source.read, boxes)))
    np.testing.assert_array_equal(found, array)
    (tmp_path / "source").write_bytes(pickle.dumps(source))
    program = (
        "import pickle, sys\n"
        f"source = pickle.load(open({str(tmp_path / 'source')!r}, 'rb'))\n"
        "print(int(source.read().sum()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(int(array.sum(dtype="u8"))), done.stderr


def npy(header, data=b"", version=b"\x01\x00"):
    size = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + header.encode() + data


@pytest.mark.parametrize(
    "data",
    [
        npy("{'descr': '<u2', 'fortran_order': False, 'shape': (10, 10, 10), }\n", bytes(1999)),
        npy("{'descr': '<u2', 'fortran_order': False, 'shape': (1 << 60, 9, 9), }\n"),
        npy(f"{{'descr': '<u2', 'fortran_order': False, 'shape': ({1 << 40}, 9, 9), }}\n"),
        npy("{'descr': '<u2', 'fortran_order': False, 'shape': (-5, 10, 10), }\n", bytes(1000)),
        npy("{'descr': '<u2', 'fortran_order': False, 'shape': 5, }\n", bytes(1000)),
        npy("{'descr': '<u2', 'shape': (5, 5, 5), }\n", bytes(1000)),
        npy("__import__('os').abort()"),
        npy("{" * 9000),
        npy("", version=b"\x09\x00"),
        b"\x93NUMPY\x01",
        b"\x93NUMPY\x01\x00\xff\xff{",
    ],
)
def test_headers_that_lie(tmp_path, data):
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(VolumeError, match=r"a\.npy (is cut off|is damaged)"):
        bv.open(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros(5), "has 1 dimensions"),
        (np.zeros((1,) * 6), "has 6 dimensions"),
        (np.zeros((3, 4, 5), "c8"), "has dtype complex64"),
        (np.zeros((3, 4, 5), "U3"), "has dtype <U3"),
        (np.array([[["a", None]]], object), "has dtype object"),
        (np.zeros((3, 4, 5), [("a", "u1")]), r"has dtype \[\('a', 'u1'\)\]"),
    ],
)
def test_arrays_that_are_no_volumes(tmp_path, array, told):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(ValueError, match=told):
        bv.open(tmp_path / "a.npy")


def test_other_versions_of_the_header(tmp_path):
    array = voxels()
    for version in ((1, 0), (2, 0)):
        file = io.BytesIO()
        np.lib.format.write_array(file, array, version)
        (tmp_path / "without suffix").write_bytes(file.getvalue())
        np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "without suffix")), array)


def test_a_file_that_is_cut_off_while_it_is_open(tmp_path):
    np.save(tmp_path / "a.npy", voxels())
    volume = bv.open(tmp_path / "a.npy")
    with open(tmp_path / "a.npy", "r+b") as file:
        file.truncate(5000)
    with pytest.raises(OSError, match=r"a\.npy is cut off: it has 5,000 bytes"):
        np.asarray(volume)
    (tmp_path / "a.npy").unlink()
    with pytest.raises(OSError, match="is missing"):
        volume.node.source.read()


def test_raw_has_to_be_said(tmp_path):
    path = tmp_path / "a.raw"
    path.write_bytes(bytes(100 * 12))
    for how, told in (
        ({}, r"is raw binary of 1,200 bytes; give its shape and dtype, e\.g\. shape="),
        ({"shape": (10, 10, 12)}, "has no dtype; give dtype="),
        ({"dtype": "u1"}, "has no shape; give shape="),
        ({"shape": (10, 10), "dtype": "u1"}, "header of 1,100 bytes, give offset=1100"),
        ({"shape": (10, 10, -12), "dtype": "u1"}, "positive whole numbers"),
        ({"shape": "10", "dtype": "u1"}, "positive whole numbers"),
        ({"shape": (10, 10.5, 12), "dtype": "u1"}, "positive whole numbers"),
        ({"shape": (1200,), "dtype": "u1"}, "2 .* to 5"),
        ({"shape": (10, 10, 12), "dtype": "c8"}, "dtype='c8'; voxels are one of"),
        ({"shape": (10, 10, 12), "dtype": "mystery"}, "dtype='mystery'; voxels are one of"),
        ({"shape": (10, 10, 12), "dtype": "u1", "order": "K"}, "order='K'; use 'C'"),
        ({"shape": (10, 10, 12), "dtype": "u1", "offset": -1}, "offset=-1; give the position"),
        ({"shape": (10, 10, 12), "dtype": "u1", "dataset": "x"}, "is raw binary and has none"),
        ({"shape": (10, 10, 12), "dtype": "u1", "index": {"t": 0}}, "has no axis 't'"),
    ):
        with pytest.raises(ValueError, match=told):
            bv.open(path, **how)
    for how in ({"shape": (10, 10, 12), "dtype": "u2"}, {"shape": (1 << 40, 9), "dtype": "u1"}):
        with pytest.raises(VolumeError, match=r"has 1,200 bytes, and shape .* takes"):
            bv.open(path, **how)
    with pytest.raises(VolumeError, match="from byte 1 on"):
        bv.open(path, shape=(10, 10, 12), dtype="u1", offset=1)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        bv.open(tmp_path / "no.raw", shape=(10, 10, 12), dtype="u1")
    with pytest.raises(ValueError, match="for raw binary files on a disk"):
        bv.open(tmp_path, shape=(10, 10, 12), dtype="u1")
    np.save(tmp_path / "a.npy", voxels())
    with pytest.raises(ValueError, match=r"is for raw binary; .*a\.npy is a \.npy file"):
        bv.open(tmp_path / "a.npy", shape=(9, 20, 30))


def test_raw_is_opened_again_as_it_was(tmp_path):
    path = tmp_path / "scan"
    path.write_bytes(voxels(">u2").tobytes())
    volume = bv.open(path, shape=[9, 20, 30], dtype=">u2", voxel_size=2, unit="um")
    np.testing.assert_array_equal(reopened(volume.node.source).read(), voxels())
    assert volume.voxel_size == (2.0, 2.0, 2.0)


def test_the_command_and_recipes_know_raw(tmp_path, capsys):
    path = tmp_path / "a.raw"
    path.write_bytes(voxels("u1").tobytes())
    asked = ["--option", "shape=[9, 20, 30]", "--option", "dtype=u1"]
    assert main(["info", str(path), *asked]) == 0
    told = capsys.readouterr().out
    assert "9 x 20 x 30 (z y x)" in told and "raw binary" in told


# -- writing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.npy", "a.raw"])
@pytest.mark.parametrize("chunks", [None, (2, 20, 30), (2, 7, 30), (4, 8, 16), (1, 1, 30)])
@pytest.mark.parametrize("dtype", ["bool", "u1", "i2", "f4"])
def test_written_and_read_by_numpy(tmp_path, name, chunks, dtype):
    path, array = tmp_path / name, voxels(dtype)
    back = bv.compute(bv.open(array).to(path, chunks=chunks), runner=None)
    if name == "a.npy":
        found = np.load(path)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(np.asarray(bv.open(path)), array)
    else:
        found = np.fromfile(path, array.dtype).reshape(array.shape)
        np.testing.assert_array_equal(
            np.asarray(bv.open(path, shape=array.shape, dtype=array.dtype)), array
        )
    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(np.asarray(back), array)
    assert bv.verify(path, checksums=True) == []


@pytest.mark.parametrize("name", ["a.npy", "a.raw"])
@pytest.mark.parametrize("chunks", [None, (4, 8, 16), (3, 4, 8, 16)])
def test_channels_are_written(tmp_path, name, chunks):
    array, path = voxels(shape=(3, 9, 20, 30)), tmp_path / name
    back = bv.compute((bv.open(array) + 1).to(path, chunks=chunks), runner=None)
    found = np.load(path) if name == "a.npy" else np.fromfile(path, "u2").reshape(array.shape)
    np.testing.assert_array_equal(found, array + 1)
    np.testing.assert_array_equal(np.asarray(back), array + 1)
    assert bv.verify(path, checksums=True) == []


def test_images_are_written(tmp_path):
    image = bv.open(voxels(shape=(1, 20, 30))[0])
    bv.compute(image.to(tmp_path / "a.npy"), runner=None)
    assert np.load(tmp_path / "a.npy").shape == (20, 30)
    assert bv.open(tmp_path / "a.npy").axes == ("y", "x")


@pytest.mark.parametrize("name", ["a.npy", "a.raw"])
def test_a_run_goes_on_where_it_stopped(tmp_path, name):
    path = tmp_path / name
    array = voxels()
    wanted = np.asarray(bv.maximum_filter(bv.open(array), 3))

    def target():
        return bv.maximum_filter(bv.open(array), 3).to(path, chunks=(2, 20, 30))

    first = begin(bv.plan(target(), slab=(2, 20, 30)), RunOptions())
    first.prepare()
    slabs.sweep_slab(first, 0, 1, {})
    slabs.sweep_slab(first, 0, 1, {})  # again changes nothing
    assert path.stat().st_size == array.nbytes + (128 if name == "a.npy" else 0)
    bv.compute(target(), runner=None, resume=True, slab=(2, 20, 30))
    head = 128 if name == "a.npy" else 0
    assert path.read_bytes()[head:] == wanted.tobytes()
    assert bv.verify(path, checksums=True) == []
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    (problem,) = bv.verify(path, checksums=True)
    assert "checksum" in problem
