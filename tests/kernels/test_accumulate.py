"""Extremes, counts and exact sums of 2-D views."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_volumes.kernels.measure import accumulate
from beam_volumes.kernels.measure.accumulate import (
    count,
    extent,
    from_keys,
    key_bits,
    moments,
    unit,
)
from tests.tiers import examples

DTYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]
RNG = np.random.default_rng(0)


def sample(dtype, shape=(9, 13), special=True):
    """Random bits: every magnitude, the extremes of integers, NaN and inf of floats."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return RNG.random(shape) < 0.5
    x = RNG.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0].copy()
    if dtype.kind == "f":
        x[~np.isfinite(x)] = 1
        x[0, :3] = [0.0, -0.0, np.finfo(dtype).smallest_subnormal]
        x[1, :2] = [np.finfo(dtype).max, np.finfo(dtype).min]
        if special:
            x[2, :3] = [np.nan, np.inf, -np.inf]
    else:
        x[0, :2] = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    return x


def exact(values, power):
    return sum((Fraction(v) ** power for v in values.ravel().tolist()), Fraction(0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
def test_against_fractions(dtype, masked):
    x = sample(dtype)
    mask = RNG.random(x.shape) < 0.6 if masked else None
    chosen = x[mask] if masked else x.ravel()
    finite = chosen[np.isfinite(chosen)]
    n, bad, low, high = extent(x, mask)
    assert (n, bad) == (len(finite), len(chosen) - len(finite)) == count(x, mask)
    assert (low, high) == (finite.min(), finite.max()) and low.dtype == x.dtype
    n, bad, total, square = moments(x, mask, squares=True)
    assert (n, bad) == (len(finite), len(chosen) - len(finite))
    assert Fraction(total, 2 ** unit(x.dtype)) == exact(finite, 1)
    assert Fraction(square, 4 ** unit(x.dtype)) == exact(finite, 2)
    assert moments(x, mask)[2:] == (total, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_views(dtype):
    x = sample(dtype, (20, 30), special=False)
    mask = RNG.random((20, 30)) < 0.5
    for cut in [
        np.s_[3:8, 2:20],
        np.s_[::2, ::3],
        np.s_[::-1, ::-1],
        np.s_[:, 4:5],
        np.s_[5:6, 1:],
    ]:
        v, m = x[cut], mask[cut]
        assert moments(v, m, True) == moments(v.copy(), m.copy(), True)
        assert extent(v, m) == extent(v.copy(), m.copy())
        assert count(v.T, m.T) == count(v, m)


@pytest.mark.parametrize("dtype", ["u1", "i8", "f4"])
def test_no_voxels(dtype):
    for x, mask in [
        (np.zeros((0, 3), dtype), None),
        (np.ones((2, 3), dtype), np.zeros((2, 3), bool)),
    ]:
        assert extent(x, mask) == (0, 0, None, None)
        assert moments(x, mask, True) == (0, 0, 0, 0)
        assert count(x, mask) == (0, 0)


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("limit", [1, 7, 1 << 29])
def test_slices_are_combined_as_one_also_if_there_are_many_voxels(dtype, limit, monkeypatch):
    monkeypatch.setattr(accumulate, "_MAXIMUM", limit)
    slices = [sample(dtype, special=False)[k : k + 3] for k in range(4)]
    masks = [np.arange(s.size).reshape(s.shape) % 3 == 0 for s in slices]
    for use in (None, masks):
        found = accumulate.moments_of_slices(slices, use, True)
        each = [
            moments(s, None if use is None else m, True) for s, m in zip(slices, masks, strict=True)
        ]
        assert found == tuple(map(sum, zip(*each, strict=True)))


def test_zeros_have_an_order():
    for x in ([[0.0, -0.0]], [[-0.0, 0.0]]):
        _, _, low, high = extent(np.array(x))
        assert np.signbit(low) and not np.signbit(high)


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_keep_the_order(dtype):
    x = np.sort(sample(dtype, special=False).ravel())
    k = key_bits(x.dtype)
    bits = x.view(f"u{x.itemsize}")
    keys = bits ^ np.where(bits & k.sign != 0, k.negative, k.positive)
    assert np.all(np.diff(np.sort(keys).astype(object)) >= 0)
    np.testing.assert_array_equal(from_keys(keys, x.dtype), x)
    np.testing.assert_array_equal(from_keys(np.sort(keys), x.dtype), x)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60))
@settings(max_examples=examples(100), deadline=None)
def test_sum_is_fsum(values):
    total = Fraction(moments(np.array([values]))[2], 2**1074)
    assert total == exact(np.array(values), 1)
    if abs(total) < Fraction(2) ** 1023:
        assert float(total) == math.fsum(Fraction(v) for v in values) or float(total) == math.fsum(
            values
        )


@pytest.mark.parametrize(
    "values",
    [
        [1e308, 1e308, -1e308, -1e308, 1e-308],
        [1e16, 1.0, -1e16],
        [5e-324] * 7 + [1.0],
        [1e308, 5e-324, -1e308],
    ],
)
def test_cancellation(values):
    _, _, total, square = moments(np.array([values]), None, True)
    assert Fraction(total, 2**1074) == exact(np.array(values), 1)
    assert Fraction(square, 2**2148) == exact(np.array(values), 2)


def test_refusals():
    with pytest.raises(TypeError, match="complex"):
        moments(np.ones((2, 2), complex))
    with pytest.raises(ValueError, match="mask of shape"):
        count(np.ones((2, 2)), np.ones((2, 3), bool))
