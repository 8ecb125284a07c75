"""Reductions of whole volumes against numpy and scikit-image; the plan's tests have their costs."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.filters import threshold_otsu

import beam_volumes as bv
from tests.catalogue import DTYPES, assert_same, shapes, voxels


def known(scalar):
    return bv.compute(scalar, runner=None)


def moments(chosen):
    """The exact sum, mean and variance of voxels."""
    ratios = [n.as_integer_ratio() for n in chosen.ravel().tolist()]
    one = max(d for _, d in ratios)
    numbers = [n * (one // d) for n, d in ratios]
    count, total, square = len(numbers), sum(numbers), sum(n * n for n in numbers)
    variance = Fraction(count * square - total * total, (count * one) ** 2)
    return Fraction(total, one), Fraction(total, count * one), variance


def is_nearest(value, exact, power=1):
    """Whether no other number of its dtype is nearer to the root of an exact one."""
    value = np.asarray(value)[()]
    if value.dtype.kind != "f":
        return int(value) == exact
    if np.isinf(value):
        return abs(exact) > int(np.finfo(value.dtype).max) ** power
    # Half way to its neighbours; beyond the largest number there is none.
    below, above = (np.nextafter(value, value.dtype.type(s)) for s in (-np.inf, np.inf))
    low, high = (
        (Fraction(float(value)) + Fraction(float(n))) / 2 if np.isfinite(n) else None
        for n in (below, above)
    )
    return (low is None or max(low, 0 if power == 2 else low) ** power <= exact) and (
        high is None or exact <= high**power
    )


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=12)
@given(data=st.data())
def test_against_numpy(dtype, data):
    shape = data.draw(shapes(data.draw(st.sampled_from([2, 3]))))
    narrow = data.draw(st.booleans())
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=narrow)
    mask = data.draw(st.sampled_from([None, "?", "u1", "f4"]))
    chosen, how = x, {}
    if mask is not None:
        where = voxels(shape, mask, 1, narrow=True)
        where.flat[0] = 1
        chosen, how = x[where != 0], {"mask": bv.open(where)}
    v = bv.open(x)
    q = [0, 12.5, 50, 99.9, 100]
    names = ["min", "max", "sum", "mean", "std"]
    wanted = [getattr(bv, n)(v, **how) for n in names] + [bv.percentile(v, q, **how)]
    total, mean, variance = moments(chosen)
    beyond = x.dtype.kind in "iu" and not -(2**63) <= total < 2 ** (
        64 if x.dtype.kind == "u" else 63
    )
    if beyond:
        with pytest.raises(Exception, match="does not fit"):
            known(wanted[2])
        wanted[2] = wanted[0]
    got = bv.compute(*wanted, runner=None, slab=tuple(-(-n // 2) for n in shape))
    for name, lazy, value in zip([*names, "percentile"], wanted, got, strict=True):
        assert np.asarray(value).dtype == lazy.dtype and np.shape(value) == lazy.shape, name
    assert got[0] == chosen.min() and got[0].dtype == x.dtype
    assert got[1] == chosen.max() and got[1].dtype == x.dtype
    if not beyond:
        assert got[2].dtype == chosen.sum().dtype
        assert is_nearest(got[2], total)
    assert is_nearest(got[3], mean) and is_nearest(got[4], variance, 2)
    if dtype not in ("?", "f2"):
        np.testing.assert_array_equal(got[5], np.percentile(chosen, q))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
def test_histogram_and_otsu(dtype, masked):
    x = voxels((7, 23, 31), dtype, 5)
    if dtype == "i8":
        x >>= 20  # numpy's own bins lose digits beyond
    where = voxels(x.shape, "?", 6)
    how = {"mask": bv.open(where)} if masked else {}
    chosen = x[where] if masked else x
    v = bv.open(x)
    counts, edges, few, t = bv.compute(
        *bv.histogram(v, **how),
        bv.histogram(v, 7, (0, 5), **how)[0],
        bv.threshold_otsu(v, **how),
        runner=None,
        slab=(2, 23, 31),
    )
    if dtype != "?":
        theirs = np.histogram(chosen, 256)
        np.testing.assert_array_equal(counts, theirs[0])
        np.testing.assert_array_equal(edges, theirs[1])
        np.testing.assert_array_equal(few, np.histogram(chosen, 7, (0, 5))[0])
        assert counts.dtype == np.int64
    if dtype != "f2":
        # scikit-image counts every value of wide integers: terabytes for these.
        assert t == threshold_otsu(chosen.astype("f8") if dtype in ("i4", "i8") else chosen)


NAMES = ["min", "max", "sum", "mean", "std", "threshold_otsu", "percentile", "histogram"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_refused_or_left_out(name, bad):
    x = voxels((5, 6, 7), "f4", 1)
    x[2, 3, 4] = bad
    args = (30,) if name == "percentile" else ()

    def run(v, **how):
        result = getattr(bv, name)(v, *args, **how)
        return known(result[0] if isinstance(result, tuple) else result)

    with pytest.raises(ValueError, match=r"(?i)nan|finite"):
        run(bv.open(x))
    assert_same(
        np.asarray(run(bv.open(x), nan="omit")),
        np.asarray(run(bv.open(x[np.isfinite(x)].reshape(1, 11, 19)))),
    )
    with pytest.raises(ValueError, match=r"(?i)nan"):
        getattr(bv, name)(bv.open(x), *args, nan="ignore")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("how", ["empty", "masked", "one"])
def test_no_voxels_and_one(name, dtype, how):
    shape = (0, 4, 5) if how == "empty" else (1, 1, 1)
    v = bv.open(np.full(shape, 3, dtype))
    kw = {"mask": bv.open(np.zeros(shape, bool))} if how == "masked" else {}
    args = (50,) if name == "percentile" else ()
    lazy = getattr(bv, name)(v, *args, **kw)
    lazy = lazy[0] if isinstance(lazy, tuple) else lazy
    if how == "one":
        expected = {"std": 0, "histogram": np.histogram(np.full(1, 3, dtype), 256)[0]}.get(name, 3)
        np.testing.assert_array_equal(known(lazy), expected)
    elif name == "sum":
        assert known(lazy) == 0
    elif name == "histogram":
        # numpy counts an empty array between 0 and 1.
        try:
            assert known(lazy).sum() == 0
        except ValueError as error:
            assert "no voxels" in str(error)
    else:
        with pytest.raises(ValueError, match=r"(?i)empty|no voxel"):
            known(lazy)


def test_scalars_in_expressions():
    x = voxels((6, 7, 8), "f4", 1)
    v = bv.open(x)
    scaled = (v - bv.min(v)) / (bv.max(v) - bv.min(v))
    assert_same(np.asarray(scaled), (x - x.min()) / (x.max() - x.min()))
    assert scaled.dtype == np.float32
    low, high = bv.percentile(v, [5, 95])[0], bv.percentile(v, [5, 95])[1]
    p5, p95 = np.percentile(x, [5, 95])
    assert_same(np.asarray(v.clip(low, high)), x.clip(p5, p95))
    assert float(bv.max(v) * 2) == x.max() * 2
    # A scalar of a volume that rests on a scalar, and a mask that does.
    half = bv.mean(v, mask=v > bv.mean(v))
    above = x[x > np.float32(np.mean(x.astype("f8")))]
    np.testing.assert_allclose(float(half), above.mean(dtype="f8"), rtol=1e-6)
    assert_same(np.asarray(v > half), x > np.float32(float(half)))
    with pytest.raises(ValueError, match="do not match"):
        v + bv.percentile(v, [5, 95])
    with pytest.raises(ValueError, match="is unknown"):
        bool(bv.max(v) > 3)


def test_scalars_promote_as_numpy_s():
    x = voxels((3, 4, 5), "u1", 1)
    v = bv.open(x)
    assert (v * bv.max(v)).dtype == np.uint8 and (v * bv.mean(v)).dtype == np.float64
    assert_same(np.asarray(v + bv.max(v)), x + x.max())
    assert_same(np.asarray(v + bv.sum(v)), x + x.sum())


def test_the_mask_must_match():
    v = bv.open(np.zeros((4, 4, 5)))
    with pytest.raises(ValueError, match="mask"):
        bv.mean(v, mask=bv.open(np.ones((4, 4, 4), bool)))
    with pytest.raises(ValueError, match="axes"):
        bv.mean(v[0], mask=v[:, 0] > 0)
