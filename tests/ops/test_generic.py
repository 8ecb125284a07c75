"""Functions of the user's own under a footprint, against scipy calling the same ones."""

import os
import pickle

import cloudpickle
import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.recipes.catalogue import operations
from tests import catalogue as cat
from tests.catalogue_generic import generics, spread, wild


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f2", "f4", "f8"])
@settings(max_examples=8)
@given(data=st.data())
def test_scipy(dtype, data):
    ndim = data.draw(st.sampled_from([3, 3, 2]))
    op = data.draw(generics(ndim, dtype))
    shape = data.draw(cat.shapes(ndim, voxels=400))
    x = cat.voxels(shape, dtype, data.draw(st.integers(0, 99)))
    lazy = op.ours(bv.open(x))
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    window = data.draw(st.sampled_from([1, 2, None]))
    ours = bv.compute(lazy, runner=None, slab=slab, window=window, threads=2)
    op.check(ours, x)


def test_dtype_rounds():
    x = cat.voxels((4, 5, 6), "u1", 1)
    v = bv.open(x)
    expected = ndi.generic_filter(x.astype("f8"), np.mean, (1, 1, 2))
    ours = np.asarray(bv.generic_filter(v, np.mean, (1, 1, 2), dtype="u1"))
    assert (expected % 1 == 0.5).any()
    cat.assert_same(ours, np.rint(expected).astype("u1"))
    half = bv.generic_filter(v, np.mean, (1, 1, 2), dtype="f2")
    cat.assert_same(np.asarray(half), expected.astype("f4").astype("f2"))


def test_the_constant_outside_is_not_rounded_to_the_voxels():
    far = bv.generic_filter(
        bv.open(np.zeros((2, 3), "f4")), np.max, 3, mode="constant", cval=0.1, dtype="f8"
    )
    cat.assert_same(np.asarray(far), np.full((2, 3), 0.1))


def test_nan_is_up_to_the_function():
    x = cat.voxels((4, 5, 6), "f4", 1, nan=0.1)
    ours = np.asarray(bv.generic_filter(bv.open(x), np.nanmedian, 3))
    assert np.isnan(x).any() and not np.isnan(ours).any()
    cat.assert_same(ours, ndi.generic_filter(x.astype("f8"), np.nanmedian, 3).astype("f4"))


def test_what_identifies_it():
    v = bv.open(cat.voxels((3, 4, 5), "u1"))

    def token(function=wild, size=3, **how):
        return bv.generic_filter(v, function, size, **how).node.token

    assert token() != token()
    named = token(name="wild", version=1)
    assert named == token(spread, name="wild", version=1)  # it is the name that counts
    for other in (
        {"version": 2},
        {"size": 2},
        {"origin": 1},
        {"extra_arguments": (2.0,)},
        {"dtype": "f8"},
        {"mode": "mirror"},
    ):
        assert token(**{"name": "wild", "version": 1} | other) != named


def test_its_stage_pickles_with_any_function():
    k = 3.0
    for function, dumps in ((spread, pickle.dumps), (lambda a: a.sum() * k, cloudpickle.dumps)):
        v = bv.open(cat.voxels((3, 4, 5), "u1"))
        lazy = bv.generic_filter(v, function, 2)
        again = lazy.derive(pickle.loads(dumps(lazy.node)))
        cat.assert_same(np.asarray(again), np.asarray(lazy))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda a: os.getpid(), "getpid"),
        (lambda a: a, "instead of a number"),
        (lambda a: 1j, "instead of a number"),
        (lambda a, b: 1.0, "missing a required argument: 'b'"),
    ],
)
def test_what_numba_cannot_compile(function, reason):
    with pytest.raises(TypeError, match=rf"'<lambda>': .*{reason}.*map_overlap") as caught:
        bv.generic_filter(bv.open(np.ones((2, 3, 4))), function, 3)
    assert "\n" not in str(caught.value)


def test_mistakes_of_parameters():
    v = bv.open(np.ones((2, 3, 4)))
    with pytest.raises(TypeError, match="'median' is not callable"):
        bv.generic_filter(v, "median", 3)
    with pytest.raises(TypeError, match="extra_arguments"):
        bv.generic_filter(v, wild, 3, extra_arguments=2.0)
    with pytest.raises(TypeError, match="extra_arguments has 'a'"):
        bv.generic_filter(v, wild, 3, extra_arguments=("a",))
    with pytest.raises(IndexError):
        np.asarray(bv.generic_filter(v, lambda a: a[a.size], 2))
    assert "generic_filter" not in operations()
