"""Local binary patterns against scikit-image, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import feature

import beam_volumes as bv
from tests.catalogue import shapes, voxels

METHODS = ("default", "ror", "uniform", "nri_uniform", "var")
pytestmark = pytest.mark.filterwarnings("ignore:Applying `local_binary_pattern`")


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "i8", "?"])
@settings(max_examples=10)
@given(data=st.data())
def test_local_binary_patterns(dtype, data):
    shape = data.draw(shapes(data.draw(st.sampled_from([2, 3])), most=20, voxels=1000), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=data.draw(st.booleans()))
    count, radius = data.draw(
        st.sampled_from([(8, 1), (12, 1.5), (31, 4.2), (5, 0.7), (1, 3), (9, 30.3)])
    )
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    made = [bv.local_binary_pattern(x, count, radius, m) for m in METHODS]
    ours = bv.compute(made, runner=None, slab=slab)
    for method, result in zip(METHODS, ours, strict=True):
        assert result.dtype.kind == ("f" if method == "var" else "u")
        planes = x.reshape(-1, *shape[-2:]), result.reshape(-1, *shape[-2:])
        for plane, own in zip(*planes, strict=True):
            theirs = feature.local_binary_pattern(plane, count, radius, method)
            np.testing.assert_array_equal(own, theirs)


def test_patterns_of_tiny_volumes_channels_nan_and_bad_parameters():
    for shape in ((1, 1), (0, 4), (2, 1, 3)):
        assert np.asarray(bv.local_binary_pattern(np.ones(shape, "u1"), 8, 2)).shape == shape
    x = voxels((2, 3, 9, 8), "u1", 1)
    for axes in ("czyx", "tzyx"):
        ours = np.asarray(bv.local_binary_pattern(bv.open(x, axes=axes), 8, 1, "ror"))
        theirs = feature.local_binary_pattern(x[1, 2], 8, 1, "ror")
        np.testing.assert_array_equal(ours[1, 2], theirs)
    y = x[0, 0].astype("f8")
    y[4, 4], y[0, 1] = np.nan, np.inf
    for method in METHODS:
        ours = np.asarray(bv.local_binary_pattern(y, 8, 1.5, method))
        np.testing.assert_array_equal(ours, feature.local_binary_pattern(y, 8, 1.5, method))
    for count, radius, message in (
        (0, 1, "P=0 is not a whole number of at least 1"),
        (32, 1, "P=32; give up to 31 points"),
        (8, 0, "R=0 is not a number"),
        (8, 1e9, "R=1000000000.0 is too large"),
    ):
        with pytest.raises(ValueError, match=f"local_binary_pattern: {message}"):
            bv.local_binary_pattern(x[0], count, radius)
    with pytest.raises(ValueError, match="method='rank'; use one of 'default'"):
        bv.local_binary_pattern(x[0], 8, 1, "rank")
