"""`open(axes=)`: what a file calls z may be time, and its first axis may be x."""

from __future__ import annotations

import itertools
from pathlib import Path

import h5py
import numpy as np
import pytest
import tifffile
import zarr

import beam_volumes as bv

SIZES = (3, 2, 5, 7, 6)


def ramp(letters: str) -> np.ndarray:
    shape = SIZES[5 - len(letters) :]
    return np.arange(np.prod(shape), dtype="u2").reshape(shape)


def in_order(array: np.ndarray, letters: str) -> np.ndarray:
    """As t, c, z, y, x."""
    return array.transpose([letters.index(a) for a in "tczyx" if a in letters])


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


def test_an_axis_of_one_point_in_time_drops_as_where_a_file_names_it() -> None:
    assert bv.open(np.zeros((1, 5, 6), "u1"), axes="tyx").axes == ("y", "x")


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
