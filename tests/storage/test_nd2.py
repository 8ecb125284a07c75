"""ND2: files that the library nd2 reads too, and one of a microscope."""

from __future__ import annotations

import pickle
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.places.errors import VolumeError
from tests.storage.nd2_files import write_nd2
from tests.tiers import thorough

nd2 = pytest.importorskip("nd2")

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "formats" / "cluster.nd2"


def frames(count, dtype="u2", shape=(5, 7), samples=1):
    values = np.random.default_rng(1).integers(0, 250, (count, *shape, samples))
    return values.astype(dtype)


def theirs(path):
    with nd2.ND2File(path) as file:
        return dict(file.sizes), file.asarray()


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
@pytest.mark.parametrize(("padding", "deflated"), [(0, False), (2, False), (0, True), (4, True)])
def test_frames(tmp_path, dtype, padding, deflated):
    path, array = tmp_path / "a.nd2", frames(6, dtype)
    padding *= np.dtype(dtype).itemsize
    write_nd2(path, array, [("Z", 6)], ["DAPI"], padding=padding, deflated=deflated)
    volume = bv.open(path)
    assert np.array_equal(np.asarray(volume), array[..., 0])
    assert volume.dtype == dtype and volume.axes == ("z", "y", "x")
    assert volume.voxel_size == (0.5, 0.25, 0.25) and volume.unit == "micrometer"
    sizes, read = theirs(path)
    assert sizes == {"Z": 6, "Y": 5, "X": 7} and np.array_equal(read, array[..., 0])
    assert np.array_equal(np.asarray(volume[2:4, 1:3, 2:]), array[2:4, 1:3, 2:, 0])


def test_time_positions_and_channels(tmp_path):
    path, array = tmp_path / "a.nd2", frames(24, samples=2)
    write_nd2(path, array, [("T", 3), ("P", 2), ("Z", 4)], ["DAPI", "GFP"])
    sizes, read = theirs(path)
    assert list(sizes) == ["T", "P", "Z", "C", "Y", "X"]
    with pytest.raises(ValueError, match=r"2 positions; choose one by dataset=.*1 \(well 1\)"):
        bv.open(path)
    for dataset, p in (("0", 0), ("well 1", 1)):
        for t in (0, 2):
            for c, name in enumerate(("DAPI", "GFP")):
                volume = bv.open(path, dataset=dataset, index={"t": t, "c": name})
                assert np.array_equal(np.asarray(volume), read[t, p, :, c])
    volume = bv.open(path, dataset="1")
    assert volume.axes == ("t", "c", "z", "y", "x")
    assert np.array_equal(np.asarray(volume), read[:, 1].swapaxes(1, 2))
    volume = bv.open(path, dataset="1", index={"t": 1})
    assert volume.channels == ("DAPI", "GFP")
    assert np.array_equal(np.asarray(volume), read[1, 1].swapaxes(0, 1))
    with pytest.raises(ValueError, match=r"dataset='well 7'.* has no such position"):
        bv.open(path, dataset="well 7")


def test_colours_and_a_single_image(tmp_path):
    path, array = tmp_path / "a.nd2", frames(1, "u1", samples=3)
    write_nd2(path, array, [], ["Brightfield"], colours=3)
    sizes, _ = theirs(path)
    assert sizes == {"Y": 5, "X": 7, "S": 3}
    for c, name in enumerate(("red", "green", "blue")):
        volume = bv.open(path, index={"c": name})
        assert volume.shape == (5, 7) and np.array_equal(np.asarray(volume), array[0, ..., c])


def test_what_is_missing_or_damaged(tmp_path):
    path = tmp_path / "a.nd2"
    write_nd2(path, frames(6), [("Z", 6)], ["DAPI"], without=[3])
    assert not theirs(path)[1][3].any()  # they make zeros of it
    volume = bv.open(path)
    with pytest.raises(OSError, match="frame 3 is missing"):
        np.asarray(volume)
    assert np.array_equal(np.asarray(volume[4:]), frames(6)[4:, ..., 0])
    data = path.read_bytes()
    for cut in (0, 40, 200, 4096, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises((OSError, ValueError)) as e:
            bv.open(path)
        assert "a.nd2" in str(e.value)
    path.write_bytes(b"\0\0\0\x0cjP  " + bytes(100))
    with pytest.raises(ValueError, match="before 2007"):
        bv.open(path)


def test_compressed_frames_with_another_checksum_are_refused(tmp_path):
    path, array = tmp_path / "a.nd2", frames(2)
    write_nd2(path, array, [("Z", 2)], ["DAPI"], deflated=True)
    data, checksum = path.read_bytes(), zlib.compress(array[1].tobytes())[-4:]
    assert data.count(checksum) == 1
    path.write_bytes(data.replace(checksum, b"none"))
    volume = bv.open(path)
    assert np.array_equal(np.asarray(volume[:1]), array[:1, ..., 0])
    with pytest.raises(OSError, match=r"frame 1 cannot be read.*data check"):
        np.asarray(volume)


@thorough
def test_opened_by_other_processes(tmp_path):
    path, array = tmp_path / "a.nd2", frames(6)
    write_nd2(path, array, [("Z", 6)], ["DAPI"])
    source = pickle.loads(pickle.dumps(open_source(path)))
    assert source.portable and np.array_equal(source.read(), array[..., 0])
    found = bv.compute(
        bv.maximum_filter(bv.open(path), 3).to(tmp_path / "o.zarr"), runner=None, workers=2
    )
    assert np.array_equal(np.asarray(found), bv.maximum_filter(bv.open(array[..., 0]), 3))


@pytest.mark.skipif(not REAL.exists(), reason="the file of a microscope is not there")
def test_a_real_file():
    reference = nd2.imread(REAL)
    for t, c in ((0, 0), (2, 1)):
        volume = bv.open(REAL, index={"t": t, "c": c})
        assert np.array_equal(np.asarray(volume), reference[t, :, c])
        assert volume.voxel_size == pytest.approx((0.5, 0.167809, 0.167809), abs=1e-6)


def test_damaged_map_is_refused(tmp_path):
    path = tmp_path / "a.nd2"
    write_nd2(path, frames(2), [("Z", 2)], ["DAPI"])
    data = bytearray(path.read_bytes())
    at = data.rindex(b"ImageDataSeq|1!") + 15
    data[at : at + 8] = (1 << 60).to_bytes(8, "little")
    path.write_bytes(data)
    with pytest.raises(VolumeError, match=r"ImageDataSeq\|1! is beyond its end"):
        bv.open(path)


def test_without_metadata(tmp_path):
    path, array = tmp_path / "a.nd2", frames(2, samples=2)
    write_nd2(path, array, [("Z", 2)], ["DAPI", "GFP"], described=False)
    with warnings.catch_warnings():  # releases of the library that can say the size
        warnings.simplefilter("ignore")
        volume = bv.open(path, index={"c": 1})
    assert np.array_equal(np.asarray(volume), array[..., 1])
