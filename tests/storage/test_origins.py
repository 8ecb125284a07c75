"""No output destroys the stores behind a lazy array, whichever library holds it."""

from __future__ import annotations

import functools
import json
import mmap
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
import tifffile

import beam_volumes as bv

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
h5py = pytest.importorskip("h5py")
xarray = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

VOXELS = np.arange(1, 1 + 4 * 6 * 8, dtype="u1").reshape(4, 6, 8)
HALF = (2, 6, 8)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = zarr.create_array("a.zarr", data=VOXELS, chunks=HALF)
    assert made.shape == VOXELS.shape
    zarr.create_array("old.zarr", data=VOXELS, chunks=HALF, zarr_format=2)
    xarray.Dataset({"im": (("z", "y", "x"), VOXELS)}).to_zarr("x.zarr")
    np.save("a.npy", VOXELS)
    VOXELS.tofile("a.raw")
    tifffile.imwrite("a.tif", VOXELS, photometric="minisblack")
    with h5py.File("a.h5", "w") as file:
        file["d"] = VOXELS
    with h5py.File("link.h5", "w") as file:
        file["d"] = h5py.ExternalLink("a.h5", "/d")
        file["soft"] = h5py.SoftLink("/d")
    with h5py.File("virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(VOXELS.shape, "u1")
        layout[:] = h5py.VirtualSource("link.h5", "soft", VOXELS.shape)
        file.create_virtual_dataset("d", layout)
    with h5py.File("raw.h5", "w") as file:
        raw = [(str(tmp_path / "a.raw"), 0, VOXELS.nbytes)]
        file.create_dataset("d", shape=VOXELS.shape, dtype="u1", external=raw)
    with h5py.File("virtual_raw.h5", "w") as file:
        layout = h5py.VirtualLayout(VOXELS.shape, "u1")
        layout[:] = h5py.VirtualSource("raw.h5", "d", VOXELS.shape)
        file.create_virtual_dataset("d", layout)
    return tmp_path


def _here():
    return Path("a.zarr").absolute()


def stored(path="a.zarr"):
    return zarr.open_array(path, mode="r")


def in_zip():
    with zarr.storage.ZipStore("a.zip", mode="w") as store:
        zarr.create_array(store, name="im", data=VOXELS)
    return zarr.open_array(zarr.storage.ZipStore("a.zip", mode="r"), path="im", mode="r")


def references():
    """A store as kerchunk describes it: chunks are parts of another file."""
    fsspec = pytest.importorskip("fsspec")
    array = {
        "zarr_format": 2,
        "shape": [4, 6, 8],
        "chunks": [4, 6, 8],
        "dtype": "|u1",
        "order": "C",
    }
    array |= {"compressor": None, "filters": None, "fill_value": 0}
    parts = {".zarray": json.dumps(array), "0.0.0": ["a.raw", 0, VOXELS.nbytes]}
    fs = fsspec.filesystem("reference", fo=parts, remote_protocol="file", asynchronous=True)
    return zarr.open_array(zarr.storage.FsspecStore(fs, path="", read_only=True), mode="r")


def in_tensorstore():
    return ts.open({"driver": "zarr3", "kvstore": f"file://{_here()}/"}).result()


def closure():
    there = stored()
    return da.map_blocks(
        lambda block_info=None: there[:], chunks=VOXELS.shape, dtype="u1", meta=VOXELS[:0]
    )


def mapped():
    with open("a.raw", "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(memory, "u1").reshape(VOXELS.shape)


def open_to_write():
    return h5py.File("a.h5", "r+")["d"]


class Reads:
    """An array of no known library."""

    shape, dtype = VOXELS.shape, VOXELS.dtype

    def __init__(self, path):
        self.path = path

    def __getitem__(self, key):
        return np.load(self.path)[key]


ARRAYS = {
    "from_zarr": (lambda: da.from_zarr("a.zarr"), "a.zarr"),
    "from_array": (lambda: da.from_array(stored(), chunks=HALF), "a.zarr"),
    "inlined": (lambda: da.from_array(stored(), chunks=HALF, inline_array=True), "a.zarr"),
    "computed": (lambda: (da.from_zarr("a.zarr") + 1)[::-1].rechunk((1, 6, 8)), "a.zarr"),
    "stacked": (
        lambda: da.stack([da.zeros((6, 8), dtype="u1"), da.from_zarr("a.zarr")[0]]),
        "a.zarr",
    ),
    "zarr v2": (lambda: da.from_array(stored("old.zarr")), "old.zarr"),
    "a logged store": (
        lambda: da.from_array(
            zarr.open_array(zarr.storage.LoggingStore(zarr.storage.LocalStore("a.zarr")), mode="r")
        ),
        "a.zarr",
    ),
    "fsspec": (
        lambda: zarr.open_array(zarr.storage.FsspecStore.from_url("file://" + str(_here()))),
        "a.zarr",
    ),
    "a zip": (in_zip, "a.zip"),
    "references": (references, "a.raw"),
    "tensorstore": (
        lambda: da.from_delayed(dask.delayed(np.asarray)(in_tensorstore()), VOXELS.shape, "u1"),
        "a.zarr",
    ),
    "to_dask": (lambda: (bv.open("a.zarr") + 1).to_dask(), "a.zarr"),
    "xarray": (lambda: xarray.open_zarr("x.zarr")["im"], "x.zarr"),
    "xarray without dask": (lambda: xarray.open_zarr("x.zarr", chunks=None)["im"][::-1], "x.zarr"),
    "xarray over dask": (
        lambda: xarray.DataArray(da.from_zarr("a.zarr"), dims=list("zyx")).T,
        "a.zarr",
    ),
    "dask over h5py": (lambda: da.from_array(h5py.File("a.h5", "r")["d"]), "a.h5"),
    "h5py open to write": (open_to_write, "a.h5"),
    "a virtual dataset": (lambda: "virtual.h5:/d", "a.h5"),
    "the link of a virtual dataset": (lambda: "virtual.h5:/d", "link.h5"),
    "dask over a virtual dataset": (lambda: da.from_array(h5py.File("virtual.h5")["d"]), "a.h5"),
    "external raw": (lambda: "raw.h5:/d", "a.raw"),
    "external raw behind a virtual dataset": (lambda: "virtual_raw.h5:/d", "a.raw"),
    "a memmap behind a function": (
        lambda: da.from_delayed(
            dask.delayed(np.load("a.npy", mmap_mode="r").__getitem__)(slice(1, 3)), HALF, "u1"
        ),
        "a.npy",
    ),
    "the store of a TIFF file": (
        lambda: da.from_zarr(tifffile.imread("a.tif", aszarr=True)),
        "a.tif",
    ),
    "a mapped buffer": (mapped, "a.raw"),
    "delayed": (
        lambda: da.from_delayed(dask.delayed(np.load)("a.npy"), VOXELS.shape, "u1"),
        "a.npy",
    ),
    "a partial": (
        lambda: da.from_delayed(
            dask.delayed(functools.partial(np.load, "a.npy"))(), VOXELS.shape, "u1"
        ),
        "a.npy",
    ),
    "a closure": (closure, "a.zarr"),
    "an object with a path": (lambda: Reads("a.npy"), "a.npy"),
}


def refused(volume, out, words):
    before = {p: p.read_bytes() for p in _here().parent.rglob("*") if p.is_file()}
    with pytest.raises(ValueError, match=words):
        bv.compute(volume.to(out, format="zarr"), runner=None, progress=False, overwrite=True)
    assert before == {p: p.read_bytes() for p in _here().parent.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", ARRAYS)
def test_stores_behind_lazy_arrays_are_not_overwritten(name):
    array, place = ARRAYS[name]
    refused(bv.open(array()), place, "in place")


def test_a_function_of_blocks_that_reads_a_store_does_not_write_over_it():
    there = stored()
    refused(
        bv.map_overlap(lambda block: block + there[:1], bv.open(VOXELS), depth=0),
        "a.zarr",
        "in place",
    )


def test_inputs_that_cannot_be_known_are_not_overwritten(folder):
    def load(k):
        return np.load(f"{'ab'[k]}.npy")

    blocks = [da.from_delayed(dask.delayed(load)(k), VOXELS.shape, "u1") for k in range(1)]
    volume = bv.open(da.concatenate(blocks))
    refused(volume, "old.zarr", "the function load reads cannot be known.* move .*old.zarr away")
    bv.compute(volume.to("new.zarr"), runner=None, progress=False, overwrite=True)
    np.testing.assert_array_equal(bv.open("new.zarr"), VOXELS)


@pytest.mark.parametrize(
    "array",
    [
        lambda: da.random.default_rng(0).integers(0, 9, VOXELS.shape, chunks=2),
        lambda: da.from_array(VOXELS).map_blocks(lambda b: np.sqrt(b).astype("u1")),
        lambda: da.from_zarr("old.zarr").map_overlap(np.flip, depth=1, boundary="reflect"),
        lambda: xarray.DataArray(VOXELS, dims=list("zyx")) * 2,
        lambda: zarr.array(VOXELS),
    ],
)
def test_arrays_that_read_no_unknown_store_overwrite(array):
    volume = bv.open(array())
    bv.compute(volume.to("a.zarr"), runner=None, progress=False, overwrite=True)
    assert bv.open("a.zarr").shape == VOXELS.shape
