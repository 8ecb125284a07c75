"""CZI: files that pylibCZIrw writes; mosaics are put together by numpy here."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.inputs.opening import open_source
from tests.peers import peer

czi = peer("pylibCZIrw.czi")


def voxels(shape, dtype="u2", seed=1):
    return np.random.default_rng(seed).integers(0, 250, shape).astype(dtype)


def write(path, array, *, tiles=((0, 0),), scene=0, more=(), names=None, sizes=(0, 0, 0)):
    """Write t, c, z, y, x as tiles of so many rows and columns at places."""
    with czi.create_czi(str(path)) as file:
        for number, volume, places in ((scene, array, tiles), *more):
            for t, c, z in np.ndindex(volume.shape[:3]):
                for k, (y, x) in enumerate(places):
                    data = volume[t, c, z] + k
                    plane = {"T": t, "C": c, "Z": z}
                    data = data if data.ndim == 3 else data[..., None]
                    file.write(
                        data=np.ascontiguousarray(data), plane=plane, location=(x, y), scene=number
                    )
        scale = dict(zip(("scale_z", "scale_y", "scale_x"), sizes, strict=True))
        file.write_metadata("a", channel_names=dict(enumerate(names or ())), **scale)


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_a_stack(tmp_path, dtype):
    path, array = tmp_path / "a.czi", voxels((1, 1, 4, 9, 11), dtype)
    write(path, array, sizes=(1e-6, 0.25e-6, 0.5e-6))
    volume = bv.open(path)
    assert volume.dtype == dtype and volume.axes == ("z", "y", "x")
    assert volume.voxel_size == pytest.approx((1.0, 0.25, 0.5)) and volume.unit == "micrometer"
    assert np.array_equal(np.asarray(volume), array[0, 0])
    assert np.array_equal(np.asarray(volume[1:3, 2:5, 4:]), array[0, 0, 1:3, 2:5, 4:])


def test_time_and_channels(tmp_path):
    path, array = tmp_path / "a.czi", voxels((2, 3, 4, 5, 6))
    write(path, array, names=["DAPI", "GFP", "RFP"])
    for t in (0, 1):
        for c, name in enumerate(["DAPI", "GFP", "RFP"]):
            volume = bv.open(path, index={"t": t, "c": name})
            assert np.array_equal(np.asarray(volume), array[t, c])
    volume = bv.open(path, index={"t": 1})
    assert volume.channels == ("DAPI", "GFP", "RFP")
    assert np.array_equal(np.asarray(volume), array[1])
    assert np.array_equal(np.asarray(bv.open(path)), array)


def test_scenes_of_tiles(tmp_path):
    path, one, two = tmp_path / "a.czi", voxels((1, 1, 2, 300, 200)), voxels((1, 1, 2, 40, 50))
    write(path, one, tiles=((-7, 1000), (-7, 1200), (293, 1200)), more=[(1, two, ((5000, 9),))])
    with pytest.raises(ValueError, match=r"has 2 scenes; choose one by dataset="):
        bv.open(path)
    volume = bv.open(path, dataset="0")
    mosaic = np.zeros((2, 600, 400), "u2")
    mosaic[:, :300, :200] = one[0, 0]
    mosaic[:, :300, 200:] = one[0, 0] + 1
    mosaic[:, 300:, 200:] = one[0, 0] + 2
    assert volume.chunks == (1, 300, 256)
    assert np.array_equal(np.asarray(volume), mosaic)
    assert np.array_equal(np.asarray(volume[:, 290:310, 190:210]), mosaic[:, 290:310, 190:210])
    assert np.array_equal(np.asarray(bv.open(path, dataset="1")), two[0, 0])


def test_colours(tmp_path):
    path, array = tmp_path / "a.czi", voxels((1, 1, 2, 5, 6, 3), "u1")
    write(path, array)
    for c, name in enumerate(("blue", "green", "red")):  # so they lie in the file
        assert np.array_equal(np.asarray(bv.open(path, index={"c": name})), array[0, 0, ..., c])


def test_opened_by_other_processes(tmp_path):
    path, array = tmp_path / "a.czi", voxels((1, 1, 5, 30, 20))
    write(path, array)
    source = pickle.loads(pickle.dumps(open_source(path)))
    assert source.portable and np.array_equal(source.read(), array[0, 0])
    found = bv.compute(
        bv.maximum_filter(bv.open(path), 3).to(tmp_path / "o.zarr"), runner=None, workers=2
    )
    assert np.array_equal(np.asarray(found), bv.maximum_filter(bv.open(array[0, 0]), 3))


def test_what_is_refused(tmp_path):
    path = tmp_path / "a.czi"
    write(path, voxels((1, 1, 2, 5, 6)))
    with pytest.raises(ValueError, match="its pyramid is not supported"):
        bv.open(path, level=1)
    with pytest.raises(ValueError, match="no such scene"):
        bv.open(path, dataset="3")
    data = path.read_bytes()
    for cut in (11, 100, 600, len(data) // 2):
        path.write_bytes(data[:cut])
        with pytest.raises(OSError, match=r"a\.czi"):
            np.asarray(bv.open(path))
    with pytest.raises(ValueError, match="only read from a disk; copy it"):
        bv.open("memory://somewhere/a.czi")


@pytest.mark.parametrize("ending", ["czi", "nd2", "npy"])
@pytest.mark.parametrize("data", [b"", b"anything else"])
def test_a_file_of_something_else_is_not_called_unknown_next_to_its_format(tmp_path, ending, data):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(data)
    with pytest.raises(OSError, match=rf"does not begin as \.{ending} files do; restore it"):
        bv.open(path)
