"""numpy's functions, methods and indices of volumes: lazy, and what numpy gives of the array."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import beam_volumes as bv

ARRAY = np.random.default_rng(0).random((5, 6, 7), dtype="f4")

LAZY = """
np.clip(X, .2, .5)
np.clip(X, min=.2)
np.where(M, X, 0)
np.where(M, 1, X * 2)
np.pad(X, 1)
np.pad(X, ((1, 0), (2, 2), (0, 1)), mode="edge")
np.mean(X)
np.mean(X, axis=0)
np.mean(X, where=M)
np.sum(X, axis=(1, 2))
np.sum(M)
np.max(X)
np.amin(X, axis=-1)
np.nanmax(X)
np.std(X)
np.var(X, ddof=1)
np.argmax(X)
np.argmin(X, axis=1)
np.argmax(X, -1, keepdims=True)
np.argmax(M, axis=0)
np.all(M)
np.any(M, axis=1)
np.count_nonzero(M)
np.median(X)
np.quantile(X, .25)
np.percentile(X, [10, 50])
np.histogram(X, bins=5, range=(0, 1))[0]
np.ptp(X)
np.average(X)
np.transpose(X, (1, 0, 2))
np.swapaxes(X, 0, 2)
np.moveaxis(X, 0, -1)
np.flip(X)
np.flipud(X)
np.squeeze(X[:1])
np.concatenate([X, X * 2])
np.concatenate([X, M, X[..., :0], X], axis=-1)
np.stack([X, X])
np.hstack([X, X])
np.dstack((X, M))
np.rot90(X)
np.rot90(X, 2, (0, 2))
np.rot90(X, -1, axes=(1, 2))
np.roll(X, 2, axis=0)
np.roll(X, -1, 2)
np.split(X, [2, 3])[1]
np.array_split(X, 4, axis=-1)[2]
np.isclose(X, .5, atol=.2)
np.isclose(X * np.inf, X.mean() - X)
np.diff(X, axis=0)
np.diff(M)
np.round(X)
np.nan_to_num(X)
np.astype(X, "f8")
np.sqrt(X)
X[::2]
X[::-1]
X[1::2, ::-1, ::-3]
X[4:0:-2, 3]
X[5:2:2]
X.mean()
X.max(axis=1)
X.std()
X.var(ddof=1)
X.any()
X.argmax(axis=0)
X.argmin()
X.round()
X.T
X.transpose(1, 2, 0)
abs(X.mean() - .5)
""".strip().splitlines()


@pytest.mark.parametrize("text", LAZY)
def test_lazy_and_as_numpy_does_it(text):
    v = bv.open(ARRAY)
    want = np.asarray(eval(text, {"np": np, "X": ARRAY, "M": ARRAY > 0.5}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = eval(text, {"np": np, "X": v, "M": v > 0.5})
        assert isinstance(got, bv.Volume | bv.Scalar)
        found = np.asarray(got)
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_idioms_of_arrays():
    v = w = bv.open(ARRAY)
    v += 1
    v *= 2
    mean = v.mean()
    mean -= 1
    assert np.array_equal(v, (ARRAY + 1) * 2) and np.array_equal(w, ARRAY)
    assert mean.item() == float(v.mean() - 1)
    assert float(w[1, 2, 3]) == w.item(1, 2, 3) == ARRAY[1, 2, 3]
    assert int(v[0, 0, 0]) == int((ARRAY[0, 0, 0] + 1) * 2)
    assert f"{w[1, 2, 3]:.3f}" == f"{ARRAY[1, 2, 3]:.3f}" and "1 voxel" in repr(w[1, 2, 3])
    assert w.copy() is w
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.result_type(w, 1.0) == np.float32
        assert np.allclose(w, ARRAY + 1e-9) and not np.allclose(w, ARRAY + 1)


def test_what_has_no_twin_is_loaded_and_says_so():
    v = bv.open(ARRAY)
    cases = [
        (lambda x: np.fft.fftn(x), r"np\.fft\.fftn has no lazy equivalent.*840 B"),
        (lambda x: np.sum(x, initial=1), "np.sum has no lazy equivalent"),
        (lambda x: x.sum(axis=1, dtype="f8"), "np.sum has no lazy equivalent"),
        (np.add.reduce, "np.add.reduce has no lazy equivalent"),
    ]
    for function, says in cases:
        with pytest.warns(UserWarning, match=says):
            np.testing.assert_allclose(function(v), function(ARRAY), rtol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.shape(v) == ARRAY.shape and np.zeros_like(v).dtype == ARRAY.dtype
        assert np.array_equal(v, ARRAY) and not np.array_equal(v, ARRAY[1:])


def test_numbers_are_formatted_rounded_and_counted():
    v = bv.open(ARRAY)
    mean = v.mean()
    assert f"{mean:.3f}" == f"{float(mean):.3f}" and f"{mean}" == repr(mean)
    assert round(mean, 2) == round(mean.compute(), 2) == np.round(mean, 2)
    assert list(range(bv.count_nonzero(v[:1, :1] > 2))) == []
    array, number = bv.compute([v, mean])
    assert np.array_equal(array, v.compute()) and number == mean.compute()


def test_channels_are_sliced_and_joined_as_other_axes():
    array = np.arange(3 * 4 * 5 * 6).reshape(3, 4, 5, 6)
    c = bv.open(array, voxel_size=2, unit="nm")
    np.testing.assert_array_equal(c[::2, ::-2], array[::2, ::-2])
    for axis in (0, 1, -1):
        joined = np.concatenate([c[:, 1:], c[:, 1:] + 1], axis=axis)
        want = np.concatenate([array[:, 1:], array[:, 1:] + 1], axis=axis)
        np.testing.assert_array_equal(joined, want)
    assert joined.origin == (2, 0, 0)
