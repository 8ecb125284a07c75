"""HDF5: voxels of files that h5py wrote, with all filters and layouts, and damaged files."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.storage import open_source
from beam_volumes.storage.formats.hdf5 import trial as hdf5_trial
from beam_volumes.storage.places.errors import VolumeError
from tests.peers import peer
from tests.storage.files_of_h5py import CHUNKED, DTYPES, KINDS, SHAPE, counting, voxels, write

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", DTYPES)
def test_voxels_of_any_dtype_and_filter(tmp_path, stored, kind):
    if kind == "scaled" and np.dtype(stored).kind not in "iu":
        pytest.skip("HDF5 scales integers")
    array = voxels(stored)
    source = open_source(write(tmp_path / "a.h5", array, **KINDS[kind]))
    assert source.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(source.read(), array)
    np.testing.assert_array_equal(source.read(Box((3, 7, 4), (5, 9, 17))), array[3:5, 7:9, 4:17])
    if kind != "contiguous":
        assert source.chunk == KINDS[kind]["chunks"]
        assert bool(source.reader.remark) == (kind == "scaled")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("block", [0, 1024])
@pytest.mark.parametrize("kind", ["contiguous", "chunks", "one chunk", "gzip"])
def test_versions_of_the_format(tmp_path, libver, block, kind):
    """Each has an index of chunks of its own; a user's block shifts all positions."""
    array = voxels()
    path = write(tmp_path / "a.bin", array, libver=libver, block=block, **KINDS[kind])
    np.testing.assert_array_equal(open_source(path).read(), array)


@pytest.mark.parametrize("name", ["Blosc", "Zstd", "LZ4", "Bitshuffle"])
def test_filters_of_others(tmp_path, name):
    plugin = peer("hdf5plugin")
    array = voxels()
    path = write(tmp_path / "a.h5", array, **CHUNKED, **getattr(plugin, name)())
    source = open_source(path)
    np.testing.assert_array_equal(source.read(), array)
    said = "read one part at a time under h5py's lock: its filter 32008 is only supported by h5py"
    assert source.reader.remark == (said if name == "Bitshuffle" else "")


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 40, 30), (5, 1, 7), (9, 1, 1)])
@pytest.mark.parametrize("chunks", [None, (1, 1, 1), (1, 1, 2)])
def test_odd_sizes(tmp_path, shape, chunks):
    if chunks is not None and any(c > n for c, n in zip(chunks, shape, strict=True)):
        chunks = (1, 1, 1)
    array = voxels(shape=shape)
    np.testing.assert_array_equal(
        open_source(write(tmp_path / "a.h5", array, chunks=chunks)).read(), array
    )


def test_images_and_further_axes(tmp_path):
    image = bv.open(write(tmp_path / "a.h5", voxels(shape=(20, 30)), chunks=(7, 9)))
    assert image.axes == ("y", "x")
    np.testing.assert_array_equal(np.asarray(image), voxels(shape=(20, 30)))
    array = voxels(shape=(2, 3, 4, 5, 6))
    path = write(tmp_path / "b.h5", array, chunks=(1, 2, 2, 5, 3), compression="gzip")
    source = open_source(path, index={"t": 1, "c": 2})
    np.testing.assert_array_equal(source.read(), array[1, 2])
    assert source.chunk == (2, 5, 3) and source.decode_bytes == 2 * 2 * 5 * 3 * 2
    every = open_source(path)
    assert every.leading == (2, 3) and every.leading_chunk == (1, 2)
    np.testing.assert_array_equal(every.read(), array)


def test_channels_of_a_chunk_are_decoded_once(tmp_path, monkeypatch):
    array = voxels(shape=(3, 8, 10, 12))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.moveaxis(array, 0, -1), chunks=(4, 5, 12, 3))
        for k, axis in enumerate("zyxc"):
            file["v"].dims[k].label = axis
        file["v"].attrs["channels"] = ["a", "b", "c"]
    volume = bv.open(tmp_path / "a.h5")
    assert volume.shape == (3, 8, 10, 12)
    sizes = counting(monkeypatch)
    bv.compute((volume + 1).to(tmp_path / "b.h5", chunks=(4, 5, 12)), runner=None)
    assert sizes == [4 * 5 * 12 * 3 * 2] * 4
    back = bv.open(tmp_path / "b.h5")
    np.testing.assert_array_equal(np.asarray(back), array + 1)


def test_what_is_not_stored_is_the_fill_value(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        node = file.create_dataset("v", (20, 30, 40), ">i2", chunks=(5, 5, 5), fillvalue=-7)
        node[3:7, 2:9, 1:30] = 5
        wanted = node[...]
    np.testing.assert_array_equal(open_source(path).read(), wanted)
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (20, 30, 40), "f4", fillvalue=np.nan)
    assert np.isnan(open_source(path).read()).all()


def test_a_read_decodes_the_chunks_that_it_touches(tmp_path, monkeypatch):
    sizes = counting(monkeypatch)
    source = open_source(write(tmp_path / "a.h5", voxels(), chunks=(4, 8, 5)))
    assert not sizes
    source.read(Box((3, 7, 4), (5, 9, 6)))  # on both sides of a corner
    assert sizes == [4 * 8 * 5 * 2] * 8
    source.read(Box((0, 0, 0), (1, 1, 1)))
    assert len(sizes) == 9
    assert sum(sizes) == 9 * 320


def test_threads_and_other_processes(tmp_path):
    array = voxels(shape=(40, 60, 50))
    path = write(tmp_path / "a.h5", array, chunks=(5, 20, 20), compression="gzip", shuffle=True)
    source = open_source(path)
    found = [np.empty(0)] * 8

    def read(k):
        found[k] = source.read(Box((k * 5, 0, 0), (k * 5 + 5, 60, 50)))

    threads = [threading.Thread(target=read, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(np.concatenate(found), array)
    (tmp_path / "source").write_bytes(pickle.dumps(source))
    program = (
        "import pickle, sys, numpy as np\n"
        f"source = pickle.load(open({str(tmp_path / 'source')!r}, 'rb'))\n"
        "print(int(source.read().sum()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(int(array.sum())), done.stderr


def test_a_file_that_is_replaced_is_read_anew(tmp_path):
    path = tmp_path / "a.h5"
    for k in range(3):
        array = voxels() + k
        write(path, array, **CHUNKED, compression="gzip")
        source = open_source(path)
        np.testing.assert_array_equal(source.read(), array)
    write(path, voxels(shape=(5, 6, 7)), chunks=(2, 2, 2))
    with pytest.raises(VolumeError, match="has changed since it was opened"):
        source.read()
    path.unlink()
    with pytest.raises(VolumeError, match="is missing"):
        source.read()


def test_damaged_files(tmp_path):
    path = tmp_path / "a.h5"
    array = voxels(shape=(20, 40, 50))
    write(path, array, chunks=(5, 20, 25), compression="gzip", shuffle=True)
    whole = path.read_bytes()
    for size in (8, 100, 700, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(VolumeError, match=r"a\.h5.*(cannot be read as HDF5|cut off)"):
            open_source(path).read()
    with h5py.File(tmp_path / "b.h5", "w") as file:
        pass
    path.write_bytes(whole)
    with h5py.File(path) as file:
        found = file["volumes/raw"].id.get_chunk_info(3)
    broken = bytearray(whole)
    broken[found.byte_offset + found.size // 2] ^= 255
    broken[found.byte_offset + 3] ^= 255
    path.write_bytes(broken)
    source = open_source(path)
    with pytest.raises(VolumeError, match=r"its chunk \(0, 1, 1\) is damaged"):
        source.read()
    np.testing.assert_array_equal(source.read(Box((5, 0, 0), (10, 40, 50))), array[5:10])
    path.write_bytes(b"not HDF5")
    with pytest.raises(VolumeError, match=r"does not begin as \.h5 files do; restore it"):
        bv.open(path)


def test_a_checksum_tells(tmp_path):
    path = write(tmp_path / "a.h5", voxels(), chunks=SHAPE, fletcher32=True)
    with h5py.File(path) as file:
        found = file["volumes/raw"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[found.byte_offset + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(VolumeError, match="is damaged: its checksum"):
        open_source(path).read()


def test_chunks_that_decode_to_more_or_less(tmp_path):
    """The declared size of a chunk is not trusted."""
    import zlib

    path = tmp_path / "a.h5"
    for data in (zlib.compress(bytes(1 << 22)), zlib.compress(b"123"), b"x"):
        with h5py.File(path, "w") as file:
            node = file.create_dataset("v", (4, 4, 4), "u2", chunks=(4, 4, 4), compression="gzip")
            node.id.write_direct_chunk((0, 0, 0), data)
        with pytest.raises(VolumeError, match=r"chunk \(0, 0, 0\) is damaged"):
            open_source(path).read()


def test_a_large_volume_of_no_voxels_opens(tmp_path):
    """Nothing is allocated for a shape that a file claims."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (1 << 20, 1 << 20, 1 << 20), "u8", chunks=(64, 64, 64))
    source = open_source(path)
    assert not source.read(Box((5, 5, 1 << 19), (6, 7, (1 << 19) + 3))).any()
    assert "more than" in source.reader.remark


def test_bytes_at_random_are_no_crash(tmp_path):
    path = tmp_path / "a.h5"
    write(path, voxels(), **CHUNKED, compression="gzip", attributes={"element_size_um": [1, 1, 1]})
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(60):
        data = bytearray(whole)
        for at in rng.integers(8, min(4000, len(data)), 3):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        try:
            open_source(path).read(Box((0, 0, 0), (1, 1, 1)))
        except (ValueError, OSError) as error:
            assert str(error).count("\n") == 0


@pytest.fixture
def another_trial():
    hdf5_trial._end()
    hdf5_trial._known.clear()
    yield
    hdf5_trial._end()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("print('ready', flush=True); input(); os.abort()", "library crashes on its metadata"),
        (
            "print('ready', flush=True); input()\nwhile True: pass",
            "has not ended in 0.5 s of computing",
        ),
    ],
)
def test_a_library_that_does_not_come_back(tmp_path, monkeypatch, another_trial, program, told):
    """HDF5's own has been seen to crash, and to go on for ever, where one bit was another one."""
    path = write(tmp_path / "a.h5", voxels())
    right = hdf5_trial._PROGRAM
    monkeypatch.setattr(hdf5_trial, "_PROGRAM", "import os, time\n" + program)
    monkeypatch.setattr(hdf5_trial, "PATIENCE", 0.5 if "0.5" in told else 20.0)
    if "0.5" in told:
        monkeypatch.setattr(hdf5_trial, "_line", patient(hdf5_trial._line))
    with pytest.raises(VolumeError, match=rf"a\.h5 is damaged: HDF5's (library )?{told}"):
        bv.open(path)
    monkeypatch.setattr(hdf5_trial, "_PROGRAM", right)
    monkeypatch.setattr(hdf5_trial, "PATIENCE", 20.0)
    assert bv.open(path).shape == SHAPE


def patient(line):
    """Waits as long as it takes for the other process to start."""
    started = []

    def waited(other):
        if not started:
            started.append(other)
            return other.stdout.readline()
        return line(other)

    return waited


def test_where_no_other_process_can_be_started(tmp_path, monkeypatch, another_trial):
    monkeypatch.setattr(sys, "executable", "")
    assert bv.open(write(tmp_path / "a.h5", voxels())).shape == SHAPE


def test_without_h5py(tmp_path, monkeypatch):
    path = write(tmp_path / "a.h5", voxels())
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ValueError, match=r"needs h5py: pip install 'beam-volumes\[hdf5\]'"):
        bv.open(path)
    with pytest.raises(ValueError, match=r"needs h5py: pip install 'beam-volumes\[hdf5\]'"):
        bv.open(voxels()).to(tmp_path / "b.h5")


def test_a_file_that_is_being_written(tmp_path):
    write(tmp_path / "a.h5", voxels())
    with (
        h5py.File(tmp_path / "a.h5", "r+"),
        pytest.raises(VolumeError, match="is open for writing in this process; close it first"),
    ):
        bv.open(tmp_path / "a.h5")
    program = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); print(flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "a.h5")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    other.stdout.readline()
    with pytest.raises(
        VolumeError, match="another program has it open for writing; wait until it has finished"
    ):
        bv.open(tmp_path / "a.h5")
    other.communicate(b"end")
    assert bv.open(tmp_path / "a.h5").shape == SHAPE


def test_the_program_says_so(tmp_path):
    """The plan reports decoding under a lock."""
    plugin = peer("hdf5plugin")
    path = write(tmp_path / "a.h5", voxels(), **CHUNKED, **plugin.Bitshuffle())
    told = bv.plan(bv.maximum_filter(bv.open(path), 3).to(tmp_path / "b.zarr")).explain(
        verbose=True
    )
    assert "under h5py's lock: its filter 32008" in told


def _absent(kind, folder, array):
    """Make a dataset that rests on other files, and take away one of them."""
    path = folder / "a.h5"
    if kind.startswith("raw"):
        array.tofile(folder / "b.raw")
        size = array.nbytes if kind == "raw, short" else h5py.h5f.UNLIMITED
        with h5py.File(path, "w") as file:
            raw = [(str(folder / "b.raw"), 0, size)]
            file.create_dataset("data", shape=array.shape, dtype=array.dtype, external=raw)
        yield path
        if kind == "raw, gone":
            os.remove(folder / "b.raw")
        else:
            os.truncate(folder / "b.raw", array.nbytes // 2)
        return
    with h5py.File(folder / "c.h5", "w") as file:
        file["data"] = array
    with h5py.File(folder / "b.h5", "w") as file:
        file["data"] = h5py.ExternalLink("c.h5", "data")
    layout = h5py.VirtualLayout(array.shape, array.dtype)
    layout[:] = h5py.VirtualSource("b.h5", "data", shape=array.shape)
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("data", layout, fillvalue=7)
    yield path
    if kind == "dataset":
        with h5py.File(folder / "c.h5", "w") as file:
            file["other"] = array
    else:
        os.remove(folder / {"file": "b.h5", "behind a link": "c.h5"}[kind])


@pytest.mark.parametrize(
    "kind", ["file", "behind a link", "dataset", "raw, gone", "raw, short", "raw, cut"]
)
def test_what_a_dataset_rests_on_and_is_lost_is_not_read_as_fill(tmp_path, kind):
    array = voxels("u2", (4, 5, 6)) + 1
    making = _absent(kind, tmp_path, array)
    path = next(making)
    opened = bv.open(path)
    assert np.array_equal(np.asarray(opened), array)
    assert next(making, None) is None
    with pytest.raises(VolumeError, match=r'data needs .*; restore it, or give missing="fill"'):
        bv.open(path)
    if kind != "raw, gone":  # HDF5 itself refuses that one
        filled = bv.open(path, missing="fill")
        assert np.asarray(filled).max() != 0 and "fill values" in filled.node.source.remark
        assert np.asarray(filled)[-1, -1, -1] in (0, 7)
