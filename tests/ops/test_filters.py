"""Filters in slabs of any size against their scipy twins on the whole volume."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests import catalogue as cat
from tests import catalogue_composed as composed
from tests.catalogue import DTYPES, voxels

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
