"""Filters against their scipy twins on the whole volume."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests import catalogue as cat
from tests.catalogue import DTYPES, voxels

FAMILIES = {
    "rank": cat.ranks,
    "gaussian": cat.gaussians,
    "uniform": cat.uniforms,
    "correlate": cat.correlations,
    "sobel": cat.sobels,
    "magnitude": cat.magnitudes,
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
    x = voxels(
        shape, dtype, data.draw(st.integers(0, 99)), narrow=data.draw(st.booleans()), nan=nan
    )
    op.check(np.asarray(op.ours(bv.open(x))), x)
