"""Voxel-by-voxel operations: numpy's values and numpy's casting."""

import operator
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.graph.elementwise import EXACT_UFUNCS
from beam_volumes.kernels.elementary import functions
from tests.catalogue import DTYPES, assert_same, voxels
from tests.tiers import examples

_EXACT = sorted(EXACT_UFUNCS)
BINARY = [name for name in _EXACT if getattr(np, name).nin == 2]
UNARY = [name for name in _EXACT if getattr(np, name).nin == 1]
SHAPE = (3, 5, 7)


def same_as_numpy(ufunc, ours, theirs):
    """Equal in value and dtype, or both refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = ufunc(*theirs)
        except (TypeError, OverflowError) as error:
            with pytest.raises((TypeError, ValueError)):
                ufunc(*ours)
            return error
    result = ufunc(*ours)
    assert isinstance(result, bv.Volume)
    assert result.dtype == expected.dtype
    assert_same(np.asarray(result), expected)
    return None


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_binary(name, data):
    ufunc = getattr(np, name)
    dtype = data.draw(st.sampled_from(DTYPES))
    x = voxels(SHAPE, dtype, 1, narrow=True, nan=0.1)
    kind = data.draw(st.sampled_from(["volume", "python", "numpy", "lazy"]))
    flip = data.draw(st.booleans())
    if kind == "volume":
        y = voxels(SHAPE, data.draw(st.sampled_from(DTYPES)), 2, narrow=True)
        ours, theirs = (bv.open(x), bv.open(y)), (x, y)
    elif kind == "python":
        number = data.draw(st.sampled_from([0, 3, -2, 2.5, True, 300, float("nan")]))
        ours, theirs = (bv.open(x), number), (x, number)
    elif kind == "numpy":
        number = np.dtype(data.draw(st.sampled_from(DTYPES))).type(3)
        ours, theirs = (bv.open(x), number), (x, number)
    else:
        y = voxels((2, 2, 2), data.draw(st.sampled_from(DTYPES)), 3, narrow=True)
        ours, theirs = (bv.open(x), bv.max(bv.open(y))), (x, y.max())
    same_as_numpy(ufunc, ours[:: -1 if flip else 1], theirs[:: -1 if flip else 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(dtype):
    x = voxels(SHAPE, dtype, 1, nan=0.1, inf=0.1)
    for name in UNARY:
        same_as_numpy(getattr(np, name), (bv.open(x),), (x,))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "log"])
def test_compiled_functions_are_within_an_ulp_of_numpy(name, dtype):
    x = voxels(SHAPE, dtype, 1, narrow=True, nan=0.1, inf=0.1)
    with np.errstate(all="ignore"):
        theirs = getattr(np, name)(x)
    ours = getattr(np, name)(bv.open(x))
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_max_ulp(
        *(np.nan_to_num(a, nan=-7) for a in (np.asarray(ours), theirs)), 1
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_with_bits_of_their_own_are_numpys_within_two_ulp(dtype):
    x = voxels(SHAPE, dtype, 1, narrow=True, nan=0.1, inf=0.1)
    y = voxels(SHAPE, "i2", 2, narrow=True)
    for name in sorted(functions.FUNCTIONS):
        function = getattr(np, name)
        if name == "power" and np.dtype(dtype).kind != "f":
            continue
        given = (x, y) if function.nin == 2 else (x,)
        with np.errstate(all="ignore"):
            theirs = function(*given)
        lazy = function(*map(bv.open, given))
        assert lazy.dtype == theirs.dtype == getattr(bv, name)(*map(bv.open, given)).dtype
        ours = np.asarray(lazy)
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs), name)
        np.testing.assert_array_max_ulp(*(np.nan_to_num(a, nan=-7) for a in (ours, theirs)), 3)


def test_powers_of_numbers_volumes_and_lazy_numbers():
    x = voxels(SHAPE, "f4", 1, narrow=True)
    for ours, theirs in (
        (bv.open(x) ** 0.3, x**0.3),
        (1.5 ** bv.open(x), 1.5**x),
        (bv.open(x) ** bv.mean(bv.open(x)), x ** x.mean()),
        (np.arctan2(2.0, bv.open(x)), np.arctan2(2.0, x)),
        (bv.power(bv.mean(bv.open(x)), 2.5), x.mean() ** 2.5),
        (np.log2(bv.max(bv.open(x))), np.log2(x.max())),
    ):
        with np.errstate(all="ignore"):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
    whole = voxels(SHAPE, "u2", 1, narrow=True)
    assert_same(np.asarray(bv.open(whole) ** bv.open(whole)), whole**whole)
    with pytest.raises(ValueError, match="exponent=-1 is negative"):
        bv.open(whole.astype("i4")) ** -1


@pytest.mark.parametrize("source", DTYPES)
def test_astype(source):
    x = voxels(SHAPE, source, 1, inf=0.1, nan=0.1)
    for target in DTYPES:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = x.astype(target)
        if x.dtype.kind == "f" and np.dtype(target).kind in "ui":
            # What C leaves undefined saturates.
            info = np.iinfo(target)
            exact = [
                [
                    int(np.clip(v, -(2.0**70), 2.0**70)) if v == v else 0
                    for v in x.ravel().astype(float)
                ]
            ]
            expected = np.array([min(max(v, info.min), info.max) for v in exact[0]], target)
            expected = expected.reshape(SHAPE)
        assert_same(np.asarray(bv.open(x).astype(target)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_to_a_sinks_dtype_is_half_to_even_and_saturates(dtype):
    halves = np.array([-1e30, -129.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 254.5, 255.5, 1e30, np.nan])
    from beam_volumes.graph.core import rounded

    result = np.asarray(rounded(bv.open(halves.reshape(1, 3, 4)), np.dtype(dtype))).ravel()
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        expected = [0 if v != v else min(max(int(np.rint(v)), info.min), info.max) for v in halves]
        assert result.tolist() == expected
    else:
        with np.errstate(all="ignore"):
            assert_same(result, halves.astype(dtype))


@settings(max_examples=examples(60))
@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.sampled_from([0, 1, 2.5, "u1", "f8"]))
def test_where(a, b, third):
    condition = voxels(SHAPE, "?", 1)
    x, y = voxels(SHAPE, a, 2, narrow=True, nan=0.1), voxels(SHAPE, b, 3, narrow=True)
    assert_same(
        np.asarray(bv.where(bv.open(condition), bv.open(x), bv.open(y))), np.where(condition, x, y)
    )
    number = np.dtype(third).type(3) if isinstance(third, str) else third
    assert_same(
        np.asarray(bv.where(bv.open(condition), bv.open(x), number)), np.where(condition, x, number)
    )
    assert_same(np.asarray(bv.where(bv.open(y), number, bv.open(x))), np.where(y, number, x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip_and_power(dtype):
    x = voxels(SHAPE, dtype, 1, narrow=True, nan=0.1)
    if dtype != "?":
        assert_same(np.asarray(bv.clip(bv.open(x), 2, 4)), np.clip(x, 2, 4))
        assert_same(np.asarray(bv.open(x).clip(max=3)), np.clip(x, None, 3))
        assert_same(np.asarray(np.clip(bv.open(x), 2, 4)), np.clip(x, 2, 4))
        assert_same(np.asarray(bv.open(x) ** 2), x**2)
    if np.dtype(dtype).kind == "f":
        power = np.asarray(bv.open(x) ** 3)
        np.testing.assert_allclose(power, x**3, rtol=2 * np.finfo(dtype).eps)


def test_chains_round_after_each_operation_as_numpy_does():
    x, y = voxels((9, 40, 60), "f4", 1), voxels((9, 40, 60), "f4", 2)
    a, b = bv.open(x), bv.open(y)
    # A contraction of the product and the sum would change bits.
    assert_same(np.asarray((a * b + a) * b - a / b), (x * y + x) * y - x / y)
    u = voxels((9, 40, 60), "u1", 3)
    assert_same(np.asarray((bv.open(u) + bv.open(u)) * 3 // 2), (u + u) * 3 // 2)


def test_integers_that_do_not_fit_are_refused():
    v = bv.open(np.zeros((1, 2, 3), "u1"))
    for build in (lambda: v + 256, lambda: v - (-1), lambda: bv.where(v, v, 300)):
        with pytest.raises(ValueError, match="out of bounds"):
            build()
    assert operator.lt(v, 256).dtype == bool


def test_shapes_must_match():
    v = bv.open(np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="do not match"):
        v + v[:, :2]
    with pytest.raises(ValueError, match="do not match"):
        bv.open(np.zeros((2, 4))) + v
