"""Lists and globs: volumes of any format one on top of another."""

from __future__ import annotations

import pickle

import imagecodecs
import numpy as np
import pytest
import tifffile
import zarr

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.cli.main import main
from beam_volumes.storage import open_source
from beam_volumes.storage.formats import contiguous
from beam_volumes.storage.inputs import opening
from beam_volumes.storage.inputs.opening import reopened

h5py = pytest.importorskip("h5py")


def voxels(shape=(9, 20, 30), dtype="u2"):
    return np.random.default_rng(7).integers(0, 200, shape).astype(dtype)


def cut(array, *depths):
    assert sum(depths) == len(array)
    return np.split(array, np.cumsum(depths)[:-1])


def written(path, array):
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            chunks = tuple(min(4, n) for n in array.shape)
            file.create_dataset("raw", data=array, chunks=chunks, compression="gzip")
            file["other"] = np.zeros((3, 3, 3))
    elif path.suffix == ".tif":
        tifffile.imwrite(path, array, photometric="minisblack")
    elif path.suffix == ".raw":
        path.write_bytes(array.tobytes())
    else:
        zarr.save_array(str(path), array)
    return path


@pytest.mark.parametrize("depths", [(3, 3, 3), (4, 4, 1), (1, 5, 3), (9,)])
@pytest.mark.parametrize("suffix", [".npy", ".h5", ".zarr", ".raw", ".tif"])
def test_lists_and_globs(tmp_path, suffix, depths):
    array = voxels()
    parts = cut(array, *depths)
    # a10 comes behind a9
    paths = [written(tmp_path / f"a{k + 8}{suffix}", part) for k, part in enumerate(parts)]
    how = {"dataset": "raw"} if suffix == ".h5" else {}
    if suffix == ".raw":
        how = {"shape": (3, 20, 30), "dtype": "u2"}
        if depths != (3, 3, 3):
            return
    for what in (paths, list(map(str, paths)), tuple(paths), tmp_path / f"*{suffix}"):
        source = open_source(what, **how)
        np.testing.assert_array_equal(source.read(), array)
        again = pickle.loads(pickle.dumps(reopened(source)))
        np.testing.assert_array_equal(again.read(Box((2, 3, 4), (9, 5, 6))), array[2:9, 3:5, 4:6])
        assert source.token() == again.token()


def test_a_dataset_behind_a_glob(tmp_path):
    for k, part in enumerate(cut(voxels(), 4, 5)):
        written(tmp_path / f"a{k}.h5", part)
    volume = bv.open(f"{tmp_path}/a*.h5:/raw")
    np.testing.assert_array_equal(np.asarray(volume), voxels())
    with pytest.raises(ValueError, match="choose an array by dataset="):
        bv.open(tmp_path / "a*.h5")
    with pytest.raises(FileNotFoundError, match=r"no files match .*check the pattern"):
        bv.open(tmp_path / "b*.h5")
    with pytest.raises(FileNotFoundError, match=r"no files match .*check the pattern"):
        bv.open(f"{tmp_path}/b*.h5:/raw")


def test_images_are_slices(tmp_path):
    array = voxels()
    for k, image in enumerate(array):
        np.save(tmp_path / f"{k}.npy", image)
    volume = bv.open(tmp_path / "*.npy")
    assert volume.axes == ("z", "y", "x")
    np.testing.assert_array_equal(np.asarray(volume), array)


def test_formats_and_arrays_are_mixed(tmp_path):
    a, b, c = cut(voxels(), 2, 3, 4)
    parts = [written(tmp_path / "a.npy", a), written(tmp_path / "b.zarr", b), c]
    source = open_source(parts)
    np.testing.assert_array_equal(source.read(), voxels())
    assert reopened(source) is source
    inner = open_source([[parts[0], parts[1]], c])
    np.testing.assert_array_equal(inner.read(), voxels())


def test_channels_stay(tmp_path):
    array = voxels((2, 3, 9, 20, 30))
    paths = []
    for k, part in enumerate(np.split(array, [4, 7], 2)):
        paths.append(tmp_path / f"{k}.npy")
        np.save(paths[-1], part)
    source = open_source(paths)
    assert source.leading == (2, 3) and source.space.leading == ("t", "c")
    np.testing.assert_array_equal(source.read(), array)
    volume = bv.open(paths, index={"t": 1})
    np.testing.assert_array_equal(np.asarray(volume), array[1])
    np.testing.assert_array_equal(np.asarray(bv.open(paths, index={"t": 1, "c": 2})), array[1, 2])


def test_a_filter_reads_each_piece_once(tmp_path, monkeypatch):
    sizes = []
    read = contiguous.read_at
    monkeypatch.setattr(contiguous, "read_at", lambda *a: sizes.append(a[2]) or read(*a))
    array = voxels((12, 200, 300))
    paths = [tmp_path / f"{k}.npy" for k in range(3)]
    for path, part in zip(paths, cut(array, 4, 4, 4), strict=True):
        np.save(path, part)
    found = bv.compute(bv.maximum_filter(bv.open(paths), 3).to(tmp_path / "b.npy"), runner=None)
    assert len(sizes) == 12 and sum(sizes) == array.nbytes
    np.testing.assert_array_equal(np.asarray(found), np.asarray(bv.maximum_filter(array, 3)))


def test_where_the_parts_lie(tmp_path):
    whole = bv.open(voxels(), voxel_size=(4, 3, 2), unit="nm")
    for k, (a, b) in enumerate([(0, 4), (4, 9)]):
        bv.compute(whole[a:b].to(tmp_path / f"{k}.zarr"), runner=None)
    one, two = tmp_path / "0.zarr", tmp_path / "1.zarr"
    found = bv.open([one, two])
    assert found.voxel_size == (4.0, 3.0, 2.0) and found.unit == "nanometer"
    assert found.origin == (0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match=r"0\.zarr is at 0\.0, .*as slice 5 .*at 36\.0"):
        bv.open([two, one])
    np.save(tmp_path / "c.npy", voxels())
    bv.compute(bv.open(voxels(), voxel_size=5, unit="nm").to(tmp_path / "d.zarr"), runner=None)
    assert bv.open([one, tmp_path / "c.npy"]).voxel_size == (4.0, 3.0, 2.0)
    with pytest.raises(ValueError, match=r"d\.zarr differs .*voxel size: 4x3x2 nanometer and 5x5"):
        bv.open([one, tmp_path / "d.zarr"])


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (voxels(dtype="u1"), "is of uint8, and .* uint16; volumes of a stack must be alike"),
        (voxels((9, 20, 31)), r"has y, x 20, 31, and .* 20, 30"),
        (voxels((2, 9, 20, 30)), "has the axes c, and .* none"),
    ],
)
def test_what_does_not_fit(other, told):
    with pytest.raises(ValueError, match=told):
        bv.open([voxels(), other])


def test_lists_that_are_none(tmp_path):
    for what in ([], [1, 2], [[1, 2], [3, 4]], [None], [bv.open(voxels())]):
        with pytest.raises(TypeError, match="cannot open a list of"):
            bv.open(what)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        bv.open([tmp_path / "no.npy"])


def test_the_command_says_what_it_is(tmp_path, capsys):
    for k, part in enumerate(cut(voxels(), 4, 5)):
        written(tmp_path / f"a{k}.npy", part)
    assert main(["info", f"{tmp_path}/*.npy"]) == 0
    told = capsys.readouterr().out
    assert "9 x 20 x 30 (z y x)" in told and "2 files, a .npy file" in " ".join(told.split())


@pytest.mark.parametrize("kind", ["png", "tif"])
def test_of_many_files_the_first_is_opened(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(opening, "_MANY", 3)
    a = np.random.default_rng(0).integers(0, 255, (6, 5, 7), np.uint8)
    names = [str(tmp_path / f"{'ab'[z % 2]}" / f"s{z}.{kind}") for z in range(6)]
    for z, name in enumerate(names):
        (tmp_path / "ab"[z % 2]).mkdir(exist_ok=True)
        imagecodecs.imwrite(name, a[z])
    one_by_one = bv.open(names[:3])  # as many as are opened at once
    bad = tmp_path / "a" / "bad.png"
    bad.write_bytes(b"no image")
    v = bv.open(names[::-1] if kind == "png" else names, voxel_size=3)
    np.testing.assert_array_equal(np.asarray(v), a[::-1] if kind == "png" else a)
    assert (v.axes, v.voxel_size) == (("z", "y", "x"), (3, 3, 3))
    assert (one_by_one.shape[1:], one_by_one.dtype) == (v.shape[1:], v.dtype)
    with pytest.raises(FileNotFoundError, match="gone"):
        bv.open([*names, str(tmp_path / "a" / f"gone.{kind}")])
    if kind == "png":
        late = bv.open([*names, str(bad)])
        with pytest.raises((ValueError, OSError), match=r"bad\.png.* is damaged"):
            np.asarray(late)
        imagecodecs.imwrite(str(bad), a[0][:2])
        with pytest.raises(
            (ValueError, OSError), match=r"bad\.png is 2 x 7 uint8, but .*must be alike"
        ):
            np.asarray(bv.open([*names, str(bad)]))


def test_a_file_with_one_page_for_all_images_is_no_slice(tmp_path):
    """ImageJ stores more than 4 GB so, and tifffile on request."""
    a = voxels()
    for k, part in enumerate(cut(a, 4, 5)):
        tifffile.imwrite(
            tmp_path / f"a{k}.tif", part, photometric="minisblack", metadata={"truncate": True}
        )
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "a*.tif")), a)
    text = f"ImageJ=1.54f\nimages={len(a)}\nslices={len(a)}\n"
    with tifffile.TiffWriter(tmp_path / "b.tif") as file:
        file.write(a[0], description=text, metadata=None, photometric="minisblack")
    with open(tmp_path / "b.tif", "ab") as file:
        end = file.tell()
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        begin = file.pages[0].dataoffsets[0]
    assert end == begin + a[0].nbytes
    with open(tmp_path / "b.tif", "ab") as file:
        file.write(a[1:].tobytes())
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "b*.tif")), a)
    # A single image may keep the description of the stack that it was in.
    for z in range(2):
        tifffile.imwrite(tmp_path / f"c{z}.tif", a[z], description=text, metadata=None)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "c*.tif")), a[:2])
