"""`open(axes=)`: what a file calls z may be time, and its first axis may be x."""

from __future__ import annotations

import itertools
from pathlib import Path

import dask.array
import h5py
import numpy as np
import pytest
import tifffile
import zarr

import beam_volumes as bv
from tests.tiers import thorough

SIZES = (3, 2, 5, 7, 6)


def ramp(letters: str) -> np.ndarray:
    shape = SIZES[5 - len(letters) :]
    return np.arange(np.prod(shape), dtype="u2").reshape(shape)


def in_order(array: np.ndarray, letters: str) -> np.ndarray:
    """As t, c, z, y, x."""
    return array.transpose([letters.index(a) for a in "tczyx" if a in letters])


@thorough
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_an_array_has_the_axes_that_it_is_said_to_have(n: int) -> None:
    for letters in map("".join, itertools.permutations("tczyx", n)):
        if not {"y", "x"} <= set(letters):
            continue
        array = ramp(letters)
        volume = bv.open(array, axes=letters)
        assert "".join(volume.axes) == "".join(sorted(letters, key="tczyx".index))
        assert np.array_equal(np.asarray(volume), in_order(array, letters)), letters


@pytest.mark.parametrize("letters", ["xyz", "tyx", "zcyx", "xyct", "ytzxc"])
def test_files_are_read_by_the_axes_that_they_are_said_to_have(
    tmp_path: Path, letters: str
) -> None:
    array = ramp(letters)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=array, chunks=tuple(min(2, n) for n in array.shape))
    np.save(tmp_path / "a.npy", array)
    zarr.save_array(str(tmp_path / "a.zarr"), array)
    wanted = in_order(array, letters)
    for name in ("a.h5", "a.npy", "a.zarr"):
        volume = bv.open(tmp_path / name, axes=letters)
        slab = (2, 4, 5) if "z" in letters else (1, 4, 5)
        assert np.array_equal(bv.compute(volume + 0, runner=None, slab=slab), wanted), name
        if "t" in letters:
            last = bv.open(tmp_path / name, axes=letters, index={"t": -1})
            assert np.array_equal(np.asarray(last), wanted[-1]), name


def test_frames_are_points_in_time_wherever_they_lie(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (9, 12, 10), "u1")
    (tmp_path / "frames").mkdir()
    for k, frame in enumerate(frames):
        tifffile.imwrite(tmp_path / "frames" / f"{k}.tif", frame)
    tifffile.imwrite(tmp_path / "pages.tif", frames)
    names = [str(tmp_path / "frames" / f"{k}.tif") for k in range(9)]
    for place in (
        tmp_path / "frames",
        str(tmp_path / "frames/*.tif"),
        names,
        tmp_path / "pages.tif",
    ):
        film = bv.open(place, axes="tyx", voxel_size=(0.5, 0.25), unit="um")
        assert film.axes == ("t", "y", "x")
        bv.compute(film.to(tmp_path / "film.ome.zarr"), runner=None, overwrite=True)
        back = bv.open(tmp_path / "film.ome.zarr")
        assert (back.axes, back.voxel_size) == (("t", "y", "x"), (0.5, 0.25))
        assert np.array_equal(np.asarray(back), frames)
        assert np.array_equal(bv.compute(bv.max(film), runner=None), frames.max(axis=(1, 2)))
        assert np.array_equal(np.asarray(bv.open(place, axes="tyx", index={"t": 3})), frames[3])


def test_voxel_sizes_and_channels_go_with_their_axes(tmp_path: Path) -> None:
    volume = bv.stack(
        [bv.open(np.zeros((4, 5, 6), "u1"), voxel_size=(3, 2, 1), unit="nm")] * 2, names=["a", "b"]
    )
    bv.compute(volume.to(tmp_path / "a.ome.zarr"), runner=None)
    turned = bv.open(tmp_path / "a.ome.zarr", axes="cxyz")
    assert (turned.shape, turned.voxel_size) == ((2, 6, 5, 4), (1, 2, 3))
    assert turned.sel(c="b").shape == (6, 5, 4)
    film = bv.open(tmp_path / "a.ome.zarr", axes="ctyx", index={"c": "a"})
    assert (film.axes, film.voxel_size) == (("t", "y", "x"), (2, 1))


SINGLE = [
    ("czyx", (1, 5, 6, 7)),
    ("tzyx", (1, 5, 6, 7)),
    ("tczyx", (1, 1, 5, 6, 7)),
    ("tczyx", (2, 1, 5, 6, 7)),
    ("tczyx", (1, 3, 1, 6, 7)),
    ("tcyx", (1, 2, 6, 7)),
    ("tyx", (1, 6, 7)),
    ("tyx", (2, 6, 7)),
    ("cyx", (1, 6, 1)),
]
#: Formats that name all axes of an output of this package, those that drop some of extent 1, and those that
#: add some.
NAMING = ("a.zarr", "a2.zarr", "a.ome.zarr", "a4.ome.zarr", "a.n5")
NOT_NAMING = ("a.tif", "a.ome.tif", "a.h5", "a.nii", "a.nrrd", "a.mha", "a.npy")
HOW = {"a2.zarr": {"zarr_version": 2}, "a4.ome.zarr": {"ome_version": "0.4"}}


@pytest.mark.parametrize(("letters", "shape"), SINGLE)
def test_an_array_keeps_its_axes_of_extent_1(tmp_path: Path, letters: str, shape: tuple) -> None:
    array = np.arange(np.prod(shape), dtype="u2").reshape(shape)
    volume = bv.open(array, axes=letters)
    assert (volume.axes, volume.shape) == (tuple(letters), shape)
    assert np.array_equal(np.asarray(volume), array)
    frame = bv.open(array, axes=letters, index={letters[0]: 0})
    assert np.array_equal(np.asarray(frame), array[0])
    # Without names it has those of an array with more along its first axis.
    usual = bv.open(np.zeros((2, *shape[1:]))).axes
    np.save(tmp_path / "a.npy", array)
    stored = zarr.open_array(str(tmp_path / "a.zarr"), mode="w", shape=shape, dtype="u2")
    stored[...] = array
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = array
    lazy = dask.array.from_array(array)
    for given in (array, lazy, stored, *(tmp_path / f"a.{e}" for e in ("npy", "zarr", "h5"))):
        found = bv.open(given)
        assert (found.axes, found.shape) == (usual, shape), given
        assert np.array_equal(np.asarray(found), array)


@thorough
@pytest.mark.parametrize(("letters", "shape"), SINGLE)
def test_outputs_and_files_keep_the_axes_of_extent_1_that_are_named(
    tmp_path: Path, letters: str, shape: tuple
) -> None:
    array = np.arange(np.prod(shape), dtype="u2").reshape(shape)
    volume = bv.open(array, axes=letters, voxel_size=2, unit="um")
    for name in (*NAMING, *NOT_NAMING):
        target = volume.to(tmp_path / name, **HOW.get(name, {}))
        made = bv.compute(target, runner=None, progress=False, keep_journal=False)
        assert np.array_equal(np.asarray(made), array), name
        found = bv.open(tmp_path / name, axes=letters)
        assert (found.axes, found.shape) == (tuple(letters), shape), name
        assert np.array_equal(np.asarray(found), array), name
        if name in NAMING:
            found = bv.open(tmp_path / name)
            assert (found.axes, found.voxel_size) == (volume.axes, volume.voxel_size), name
            assert np.array_equal(np.asarray(found), array), name


@thorough
def test_a_time_lapse_job_accepts_a_file_with_a_single_frame(tmp_path: Path) -> None:
    tables = []
    for frames in (1, 3):
        array = np.zeros((frames, 9, 8), "u1")
        array[:, 2:5, 3:6] = 200
        tifffile.imwrite(tmp_path / "a.tif", array, photometric="minisblack")
        film = bv.open(tmp_path / "a.tif", axes="tyx")
        assert film.shape == array.shape
        assert np.array_equal(np.asarray(bv.max(film, axis="t")), array[0])
        tables.append(bv.track(bv.label(film > 100)).to_pyarrow().to_pydict())
        assert len(bv.register_frames(film).to_pyarrow()) == frames
    first = {name: column[:1] for name, column in tables[1].items()}
    assert tables[0] == first and tables[0]["t"] == [0]


def test_operands_with_an_extent_of_1_are_broadcast_as_in_numpy() -> None:
    array = np.arange(2 * 3 * 4 * 5, dtype="i4").reshape(2, 3, 4, 5)
    one = np.arange(60, dtype="i4").reshape(1, 3, 4, 5)
    assert np.array_equal(np.asarray(bv.open(array) + one), array + one)
    assert np.array_equal(np.asarray(bv.open(one) + one), one + one)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axes": "tzyx"}, r"axes='tzyx'.* 3 axes \(z: 4, y: 5, x: 6\)"),
        ({"axes": "tzx"}, "axes='tzx'.*including y and x"),
        ({"axes": "yyx"}, "axes='yyx'.*different"),
        ({"axes": "qyx"}, "axes='qyx'.*t, c, z, y, x"),
        ({"axes": 3}, "axes=3"),
        ({"axes": "tyx", "index": {"t": 4}}, "has 4 along t"),
        ({"axes": "tyx", "index": {"y": 0}}, "slice the volume"),
        ({"axes": "tyx", "index": {"c": 0}}, "no axis 'c'"),
    ],
)
def test_names_that_cannot_be_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bv.open(np.zeros((4, 5, 6), "u1"), **options)
