"""Arrays of dask, xarray, h5py and zarr as volumes, and volumes as theirs."""

from __future__ import annotations

import numpy as np
import pytest

import beam_volumes as bv

da = pytest.importorskip("dask.array")
xr = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

ARRAY = np.random.default_rng(0).integers(0, 200, (6, 10, 12), "u1")


def test_a_volume_is_an_array_of_dask():
    v = bv.gaussian_filter(bv.open(ARRAY), 1)
    array = np.asarray(v)
    for d in (da.from_array(v, chunks=(4, 10, 6)), v.to_dask(chunks=(4, 10, 6)), v.to_dask()):
        for function in (
            lambda x: x,
            lambda x: x[::2, 3] + 1,
            lambda x: x.mean(axis=0),
            lambda x: x.std(),
            lambda x: x.T.max(axis=1),
        ):
            np.testing.assert_allclose(function(d).compute(), function(array), rtol=1e-5)


def test_what_rests_on_the_whole_volume_is_one_block(monkeypatch):
    v = bv.open(ARRAY)
    labels = bv.label(v > bv.threshold_otsu(v))
    np.testing.assert_array_equal(labels.to_dask(), labels)
    assert labels.to_dask().npartitions == 1 and labels.to_dask(chunks=5).npartitions > 1
    monkeypatch.setattr(bv.options, "max_inmemory", 100)
    with pytest.raises(ValueError, match=r"one dask block.*bv.open\(path\).to_dask"):
        labels.to_dask()


def test_a_volume_is_an_array_of_xarray_and_back():
    v = bv.open(ARRAY, voxel_size=(30, 4, 4), unit="nm", origin=(60, 0, 8))
    x = v.to_xarray()
    assert x.dims == ("z", "y", "x") and x.chunks is not None
    assert x.sel(z=90).values.tolist() == ARRAY[1].tolist()
    again = bv.open(x)
    assert (again.voxel_size, again.unit, again.origin) == (v.voxel_size, v.unit, v.origin)
    turned = bv.open(x.transpose("x", "z", "y").compute())
    assert turned.voxel_size == v.voxel_size
    np.testing.assert_array_equal(turned, ARRAY)


def objects(folder):
    """Arrays of other libraries that hold `ARRAY`."""
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("g/em", data=ARRAY, chunks=(2, 5, 6))
        yield "written", file["g/em"]
    with h5py.File(folder / "a.h5") as file:
        yield str(folder / "a.h5"), file["g/em"]
    with h5py.File(folder / "b.h5", "w", driver="core", backing_store=False) as file:
        yield "memory", file.create_dataset("x", data=ARRAY)
    yield str(folder / "a.zarr"), zarr.create_array(folder / "a.zarr", data=ARRAY)
    held = zarr.create_array({}, shape=ARRAY.shape, dtype="u1", chunks=(3, 5, 6))
    held[:] = ARRAY
    yield "memory", held
    yield "dask", da.from_array(ARRAY[::-1], chunks=(4, 3, 6))[::-1]
    yield "xarray", xr.DataArray(da.from_array(ARRAY), dims=("z", "y", "x"))


def test_arrays_of_other_libraries_are_opened(tmp_path):
    want = np.asarray(bv.maximum_filter(ARRAY, 3))
    for where, item in objects(tmp_path):
        v = bv.open(item)
        np.testing.assert_array_equal(bv.maximum_filter(item, 3), want)
        np.testing.assert_array_equal(bv.compute(bv.open(ARRAY) + item), ARRAY + ARRAY)
        if where.startswith("/"):
            assert v.node.source.name.startswith(where) and v.node.source.portable
    many = np.arange(2 * 3 * 4 * 5 * 6).reshape(2, 3, 4, 5, 6)
    d = da.from_array(many, chunks=(1, 3, 2, 5, 6))
    np.testing.assert_array_equal(bv.from_dask(d), many)
    np.testing.assert_array_equal(bv.from_dask(d, index={"c": 1}), many[:, 1])


def test_what_cannot_be_opened_says_so(tmp_path):
    d = da.from_array(ARRAY)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        closed = file.create_dataset("em", data=ARRAY)
    own = bv.open(bv.open(ARRAY).to_dask())
    cases = [
        (lambda: bv.open(closed), ValueError, "h5py is closed"),
        (
            lambda: bv.open(xr.Dataset({"em": (("y", "x"), ARRAY[0])})),
            TypeError,
            r"give one of 'em', as ds\[name\]",
        ),
        (lambda: bv.open(d[0, 0]), ValueError, "has 1 dimensions"),
        (lambda: bv.open(d[d > 3]), ValueError, "dimensions"),
        (lambda: bv.open(d.astype("c8")), ValueError, "has dtype complex64"),
        (lambda: bv.from_dask(3), TypeError, "expected a dask array, not int"),
        (lambda: np.asarray(own), OSError, "inside the sweep that calls it"),
    ]
    for call, kind, says in cases:
        with pytest.raises(kind, match=says):
            call()
