"""Geometry against numpy, scipy and tensorstore on the whole volume."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests import catalogue as cat
from tests.catalogue import DTYPES, voxels
from tests.catalogue_geometry import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40)
@given(data=st.data())
def test_twin(family, data):
    """Of what is opened, and of what is computed from it, in slabs of any size."""
    dtype = data.draw(st.sampled_from(DTYPES), "dtype")
    shape = data.draw(cat.shapes(data.draw(st.sampled_from([3, 3, 2]), "ndim")), "shape")
    op = data.draw(FAMILIES[family](shape, dtype), "op")
    nan = data.draw(st.sampled_from([0, 0, 0.01]), "nan")
    # scipy takes 64-bit integers through doubles.
    narrow = dtype == "i8" or data.draw(st.booleans(), "narrow")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=narrow, nan=nan)
    v = bv.open(x)
    if data.draw(st.booleans(), "computed"):
        v = bv.map_overlap(lambda a: a[...], v, depth=0, name="same")
    result = op.ours(v)
    slab = tuple(data.draw(st.integers(1, n)) for n in result.shape)
    window = data.draw(st.sampled_from([None, 1, 3]))
    op.check(bv.compute(result, runner=None, slab=slab, window=window), x)
