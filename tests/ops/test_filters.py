"""Filters in slabs of any size against their scipy twins on the whole volume."""

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests import catalogue as cat
from tests import catalogue_composed as composed
from tests.catalogue import DTYPES, voxels
from tests.tiers import few

FAMILIES = {
    "rank": cat.ranks,
    "gaussian": cat.gaussians,
    "uniform": cat.uniforms,
    "correlate": cat.correlations,
    "sobel": cat.sobels,
    "magnitude": cat.magnitudes,
    "any rank": composed.any_rank,
    "derivative": composed.derivatives,
    "one axis": composed.one_axis,
    "difference": composed.differences,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=12)
@given(data=st.data())
def test_twin(family, dtype, data):
    ndim = data.draw(st.sampled_from([3, 3, 2]), "ndim")
    op = data.draw(FAMILIES[family](ndim=ndim, dtype=dtype), "op")
    shape = data.draw(cat.shapes(ndim), "shape")
    nan = data.draw(st.sampled_from([0, 0, 0.01]), "nan")
    # scipy takes the extrema of int64 through doubles.
    through_doubles = dtype == "i8" and family in ("one axis", "difference")
    narrow = through_doubles or data.draw(st.booleans(), "narrow")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=narrow, nan=nan)
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    window = data.draw(st.sampled_from([None, 1, 3]), "window")
    op.check(bv.compute(op.ours(bv.open(x)), runner=None, slab=slab, window=window), x)


WEIGHTS = np.array([[0.2, 0.3, 0.1], [0.1, 0.5, 0.2], [0.3, 0.1, 0.4]])
LINEAR = {
    "gaussian": lambda m, x, **how: m.gaussian_filter(x, 0.8, **how),
    "uniform": lambda m, x, **how: m.uniform_filter(x, 3, **how),
    "sobel": lambda m, x, **how: m.sobel(x, 0, **how),
    "laplace": lambda m, x, **how: m.laplace(x, **how),
    "gradient": lambda m, x, **how: m.gaussian_gradient_magnitude(x, 0.8, **how),
    "convolve": lambda m, x, **how: m.convolve(x, WEIGHTS, **how),
    "correlate1d": lambda m, x, **how: m.correlate1d(x, WEIGHTS[0], axis=0, **how),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("dtype", ["f2", "f4", "u1"])
def test_the_constant_outside_is_as_exact_as_the_result(name, dtype):
    x = voxels((7, 9), dtype, 1)
    for cval in (0.1, 1 / 3, 1e39, -0.7):
        how = dict(mode="constant", cval=cval)
        ours = LINEAR[name](bv, bv.open(x), dtype="f8", **how)
        theirs = LINEAR[name](ndi, x.astype("f8"), **how)
        # Before, float32 voxels had the constant rounded to theirs: 10^5 times as far off.
        cat.assert_linear_close(np.asarray(ours), theirs, 6.0, cat.largest(x, cval))


@pytest.mark.parametrize(
    ("dtype", "cval"),
    [("i8", 2**63 - 1), ("u8", 2**64 - 1), ("i8", 2**53 + 1), ("i8", -(2**53) - 1)],
)
def test_a_constant_of_64_bits_is_not_rounded(dtype, cval):
    v = bv.open(np.full((2, 3, 4), 3, dtype))
    extremum = bv.minimum_filter if cval < 0 else bv.maximum_filter
    for volume in (
        extremum(v, 5, mode="constant", cval=cval),
        bv.rank_filter(v, 0 if cval < 0 else -1, 5, mode="constant", cval=cval),
        bv.shift(v, 9, order=0, cval=cval),
        bv.pad(v, 3, mode="constant", constant_values=cval)[:1],
    ):
        assert (np.asarray(volume) == np.dtype(dtype).type(cval)).all()
    with pytest.raises(ValueError, match="is not a int64 number"):
        bv.maximum_filter(bv.open(np.zeros((3, 3), "i8")), 3, mode="constant", cval=2.0**63)


def test_constants_of_both_signs_of_zero_stay_apart():
    v = bv.open(np.ones((3, 3), "f4"))
    both = (bv.minimum_filter(v, 3, mode="constant", cval=zero) for zero in (0.0, -0.0))
    plus, minus = bv.compute(*both, runner=None)
    assert not np.signbit(plus).any() and np.signbit(minus)[0].all()


@pytest.mark.parametrize("value", few([255, -128, 127], [255, -128]))
@pytest.mark.parametrize("size", few([6, 7, 9, (9, 7, 6), (1, 16, 17), 40], [7]))
def test_a_mean_of_equal_voxels_is_their_value(value, size):
    """Sums over planes that come near the ends of 16 bits, and go beyond."""
    dtype = "u1" if value > 127 else "i1"
    x = np.full((3, 70, 41), value, dtype)
    assert (np.asarray(bv.uniform_filter(bv.open(x), size, dtype=dtype)) == value).all()
