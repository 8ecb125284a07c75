"""Local extrema and peaks against scikit-image, in random partitions."""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import skimage.morphology as theirs
from hypothesis import given, settings

import beam_volumes as bv
from tests.ops.test_reconstruction import image_of, kinds, shape_and_slab
from tests.tiers import dtypes_drawn, examples

DTYPES = ["u1", "f4", "i2", "u8", "f8"]


@dtypes_drawn(DTYPES)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_local_extrema(dtypes, data):
    draw = data.draw
    shape, cut = shape_and_slab(draw)
    image = image_of(draw, shape, draw(st.sampled_from(dtypes)), kinds(draw))
    how = {
        "connectivity": draw(st.sampled_from([None, *range(1, len(shape) + 1)])),
        "allow_borders": draw(st.booleans()),
    }
    name = draw(st.sampled_from(["local_maxima", "local_minima"]))
    ours = bv.compute(getattr(bv, name)(bv.open(image), **how), runner=None, **cut)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too small without borders
        expected = getattr(theirs, name)(image, **how)
    np.testing.assert_array_equal(ours, expected, strict=True)


def test_a_large_plateau_and_one_value():
    image = np.ones((4, 9, 9), "u1")
    assert not np.asarray(bv.local_maxima(image)).any()
    image[0, 0, 0] = 2
    assert np.asarray(bv.local_maxima(image)).sum() == 1
    image[0, 0, 0] = 0
    expected = theirs.local_maxima(image)
    np.testing.assert_array_equal(
        bv.compute(bv.local_maxima(image), runner=None, slab=(1, 4, 5)), expected
    )
    with pytest.raises(ValueError, match="connectivity=4"):
        bv.local_maxima(image, connectivity=4)


def test_nan_is_lower_than_all():
    image = np.array([[1, np.nan, np.nan, 2, 3, np.nan]], "f4")
    assert np.asarray(bv.local_maxima(image))[0].tolist() == [
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert np.asarray(bv.local_minima(image))[0].tolist() == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]
