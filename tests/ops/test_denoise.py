"""Backgrounds and denoising against scikit-image's restoration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import restoration

import beam_volumes as bv
from tests.catalogue import assert_same, shapes, voxels


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "i4", "f4", "f8"])
@settings(max_examples=8)
@given(data=st.data())
def test_rolling_ball(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(shapes(ndim, most=20, voxels=1000), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=data.draw(st.booleans()))
    radius = data.draw(st.sampled_from([0, 2, 4.5]), "radius")
    how = {"radius": radius}
    if data.draw(st.booleans()):
        kernel = restoration.ellipsoid_kernel((3, 6, 5)[-ndim:], 20)
        rng = np.random.default_rng(1)
        how = {"kernel": data.draw(st.sampled_from([kernel, rng.random((3, 4, 2)[-ndim:])]))}
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    ours = bv.compute(bv.rolling_ball(x, **how), runner=None, slab=slab)
    with np.errstate(invalid="ignore"):
        assert_same(ours, restoration.rolling_ball(x, nansafe=True, **how))


def test_rolling_ball_of_lengths_and_nan():
    x = np.random.default_rng(2).random((7, 20, 21), "f4")
    x[3, 10, 10] = np.nan
    v = bv.open(x, voxel_size=(30, 10, 10), unit="nm")
    ours = np.asarray(bv.rolling_ball(v, radius="60 nm"))
    inside = np.hypot.outer(np.arange(-3, 4) / 2, np.hypot.outer(*[np.arange(-10, 11) / 6] * 2))
    reach = np.argwhere(np.isnan(ours)) - (3, 10, 10)
    assert np.isnan(ours).sum() == (inside[1:6] <= 1).sum() and len(reach) > 100
    flat = np.asarray(bv.rolling_ball(x, radius=(0, 4, 4)))
    assert_same(flat[1], restoration.rolling_ball(x[1], radius=4))
    with pytest.raises(ValueError, match="centre of the kernel"):
        bv.rolling_ball(v, kernel=np.full((3, 3, 3), np.inf))
    with pytest.raises(TypeError, match="bool"):
        bv.rolling_ball(x > 0)
