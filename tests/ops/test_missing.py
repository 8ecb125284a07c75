"""Missing slices, against numpy's interpolation along one axis, over partitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.tiers import examples

DTYPES = ["?", "u1", "i2", "u4", "i8", "f2", "f4", "f8"]


def filled(x, flags, method, axis):
    """The twin, voxel by voxel in float64."""
    x = np.moveaxis(x, axis, 0)
    valid, at = np.flatnonzero(~flags), np.arange(len(x))
    if method == "nearest":
        nearest = [valid[np.argmin(np.abs(valid - i))] for i in at]
        return np.moveaxis(x[nearest], 0, axis)
    wide = x.astype("f8").reshape(len(x), -1)
    made = np.stack([np.interp(at, valid, column[valid]) for column in wide.T], 1)
    made = made if x.dtype.kind == "f" else np.rint(made)
    made = made.reshape(x.shape).astype(x.dtype)
    made[valid] = x[valid]
    return np.moveaxis(made, 0, axis)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(data=st.data())
def test_numpy(data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (9, 12, 11))[draw(st.integers(0, 1)) :]
    axis = draw(st.integers(0, len(shape) - 1))
    dtype, n = np.dtype(draw(st.sampled_from(DTYPES))), shape[axis]
    flags = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    flags[draw(st.integers(0, n - 1))] = False
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    x = rng.integers(0, 2 if dtype == "?" else 60, shape).astype(dtype)
    x = x - dtype.type(30) if dtype.kind in "if" else x
    method = draw(st.sampled_from(["nearest", "linear"]))
    given_as = draw(st.sampled_from(["flags", "positions", "nodata"]))
    how = {"method": method, "axis": axis}
    if given_as == "nodata":
        value = dtype.type(np.nan) if dtype.kind == "f" else dtype.type(1 if dtype == "?" else 77)
        other = np.moveaxis(x, axis, 0)
        other[flags] = value
        other[~flags, ..., 0] = 0  # not all voxels of a valid slice
        lazy = bv.fill_missing(x, nodata=value, max_gap=n, **how)
    else:
        lazy = bv.fill_missing(x, flags if given_as == "flags" else np.flatnonzero(flags), **how)
    slab = tuple(draw(st.integers(1, m)) for m in shape)
    window = draw(st.sampled_from([None, 1, 3]))
    got = bv.compute(lazy, runner=None, slab=slab, window=window)
    assert got.dtype == dtype and got.shape == shape
    assert got.tobytes() == bv.compute(lazy, runner=None).tobytes()
    near = {"rtol": {2: 2e-3, 4: 1e-6}.get(dtype.itemsize, 1e-12), "atol": 1e-12}
    expected = filled(x, flags, method, axis)
    if dtype.kind == "f":
        np.testing.assert_allclose(got, expected, **near)
    else:
        np.testing.assert_allclose(got, expected, atol=method == "linear")
    np.testing.assert_array_equal(np.compress(~flags, got, axis), np.compress(~flags, x, axis))


@pytest.mark.parametrize("nodata", [None, 0])
@pytest.mark.parametrize("method", ["nearest", "linear"])
def test_channels_and_time_points(nodata, method):
    rng = np.random.default_rng(2)
    x = rng.integers(1, 250, (2, 3, 7, 5, 6)).astype("u1")
    for t, c, z in ((0, 0, 2), (0, 1, 5), (1, 2, 0), (1, 2, 1)):
        x[t, c, z] = 0
    how = {"nodata": 0} if nodata == 0 else {"missing": [0, -2]}
    lazy = bv.fill_missing(bv.open(x, axes="tczyx"), method=method, **how)
    found = bv.compute(lazy, runner=None, slab=(2, 3, 6))
    for t in range(2):
        for c in range(3):
            one = bv.fill_missing(x[t, c], method=method, **how)
            np.testing.assert_array_equal(found[t, c], bv.compute(one, runner=None))


def test_halves_and_limits():
    """Halves are rounded to even, extrema stay in the dtype, and equal voxels are kept."""
    for dtype in ("i8", "u8", "i1", "f8", "f4"):
        kind = np.finfo(dtype) if dtype[0] == "f" else np.iinfo(dtype)
        x = np.array([[kind.max, kind.min, 1, 1], [0] * 4, [kind.max, kind.min, 2, 4]], dtype)
        got = np.asarray(bv.fill_missing(x, 1, "linear", axis="y"))[1]
        assert got[0] == kind.max and got[1] == kind.min
        assert got[2] == (1.5 if dtype[0] == "f" else 2)
        assert got[3] == (2.5 if dtype[0] == "f" else 2)
    x = np.array([[np.inf, -np.inf, np.nan, np.inf], [0] * 4, [np.inf, 1, 1, -np.inf]])
    got = np.asarray(bv.fill_missing(x, 1, "linear", axis="y"))[1]
    np.testing.assert_array_equal(got, [np.inf, -np.inf, np.nan, np.nan])


def test_small_volumes_and_nothing_missing():
    one = np.full((1, 1, 1), 5, "u2")
    for lazy in (bv.fill_missing(one, []), bv.fill_missing(one, nodata=0)):
        np.testing.assert_array_equal(np.asarray(lazy), one)
    for how in ({"missing": []}, {"nodata": 0}):
        assert np.asarray(bv.fill_missing(np.zeros((0, 3, 4)), **how)).shape == (0, 3, 4)
    assert np.asarray(bv.fill_missing(np.zeros((3, 0, 4)), 1)).shape == (3, 0, 4)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda x: bv.fill_missing(x), TypeError, "missing= or nodata="),
        (lambda x: bv.fill_missing(x, 1, nodata=0), TypeError, "missing= or nodata="),
        (lambda x: bv.fill_missing(x, [4]), ValueError, "slice 4 is not one of 4 slices"),
        (lambda x: bv.fill_missing(x, [True]), ValueError, "one bool for each of 4 slices"),
        (lambda x: bv.fill_missing(x, 0.5), TypeError, "missing=0.5; give positions"),
        (lambda x: bv.fill_missing(x, range(4)), ValueError, "all 4 slices are missing"),
        (lambda x: bv.fill_missing(x, 1, "cubic"), ValueError, "method='cubic'"),
        (lambda x: bv.fill_missing(x, 1, axis="t"), ValueError, "axis='t'"),
        (lambda x: bv.fill_missing(x, nodata=300), ValueError, "nodata=300"),
        (lambda x: bv.fill_missing(x, nodata="0"), TypeError, "nodata='0'"),
        (lambda x: bv.fill_missing(x, nodata=0, max_gap=0), ValueError, "max_gap=0"),
        (lambda x: bv.fill_missing(bv.open(x)[0, 0], 1, axis="x"), ValueError, "no slices"),
        (lambda x: np.asarray(bv.fill_missing(x, nodata=0)), ValueError, "all 4 slices"),
    ],
)
def test_refused(call, error, says):
    with pytest.raises(error, match=says):
        call(np.zeros((4, 5, 6), "u1"))


def test_long_gaps_are_refused():
    x = np.ones((9, 3, 4), "u1")
    x[2:7] = 0
    with pytest.raises(ValueError, match="5 slices from 2 are missing; give max_gap=5"):
        np.asarray(bv.fill_missing(x, nodata=0, max_gap=4))
    assert np.asarray(bv.fill_missing(x, nodata=0, max_gap=5)).all()
