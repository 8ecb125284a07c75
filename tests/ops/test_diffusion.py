"""Anisotropic diffusion against SimpleITK."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.catalogue import assert_same, shapes, voxels
from tests.peers import peer

NAMES = ["gradient_anisotropic_diffusion", "curvature_anisotropic_diffusion"]


def of_itk(name, x, spacing, *how):
    itk = peer("SimpleITK")
    image = itk.GetImageFromArray(x)
    image.SetSpacing(spacing[::-1])
    theirs = getattr(itk, name.title().replace("_", ""))(image, *how)
    return itk.GetArrayFromImage(theirs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "f2", "f4", "f8"])
@settings(max_examples=6)
@given(data=st.data())
def test_diffusion_is_that_of_simpleitk(name, dtype, data):
    draw = data.draw
    ndim = draw(st.sampled_from([2, 3]))
    shape = draw(shapes(ndim, most=14, voxels=500), "shape")
    x = voxels(shape, dtype, draw(st.integers(0, 99)), narrow=draw(st.booleans()))
    spacing = draw(st.sampled_from([(1.0,) * ndim, (3.0, 0.5, 1.25)[-ndim:]]))
    step = min(spacing) / 2 ** (ndim + 1)
    interval, times = draw(st.sampled_from([(1, 3), (2, 4), (9, 3), (1, 0)]))
    how = draw(st.sampled_from([step, step / 3])), draw(st.sampled_from([0.5, 3])), interval, times
    v = bv.open(x, voxel_size=spacing)
    lazy = getattr(bv, name)(v, *how, spacing="voxel_size")
    slab = tuple(draw(st.integers(-(-n // 3), n)) for n in shape)
    ours = bv.compute(lazy, runner=None, slab=slab)
    assert_same(ours, bv.compute(lazy, runner=None, slab=shape))
    assert ours.dtype == ("f8" if dtype in ("i8", "f8") else "f4")
    if times:
        theirs = of_itk(name, x.astype(ours.dtype), spacing, *how)
        accuracy = 2e-6 if ours.dtype == "f4" else 1e-12
        atol = accuracy * np.abs(x.astype("f8")).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)
    else:
        assert_same(ours, x.astype(ours.dtype))


@pytest.mark.parametrize("name", NAMES)
def test_channels_and_points_are_diffused_separately(name):
    x = np.random.default_rng(0).normal(50, 9, (3, 5, 6, 7)).astype("f4")
    x[1] *= 4
    diffuse = getattr(bv, name)
    expected = np.stack([np.asarray(diffuse(part)) for part in x])
    for axes in ("czyx", "tzyx"):
        assert_same(np.asarray(diffuse(bv.open(x, axes=axes))), expected)
    part = diffuse(bv.open(x[0]))[1:3, 4:]
    assert_same(np.asarray(part), expected[0, 1:3, 4:])


@pytest.mark.parametrize("name", NAMES)
def test_diffusion_of_flat_and_extreme_voxels(name):
    diffuse = getattr(bv, name)
    for shape in ((1, 1, 1), (1, 1), (0, 4, 5), (1, 5), (3, 1, 1)):
        flat = np.full(shape, 7, "u1")
        assert_same(np.asarray(diffuse(flat)), flat.astype("f4"))
    # Central differences of a checkerboard are 0.
    board = (np.indices((6, 6, 6)).sum(0) % 2).astype("f8")
    assert_same(np.asarray(diffuse(board, conductance_parameter=0)), board)
    signs = np.where(np.random.default_rng(1).random((5, 6, 7)) < 0.5, 3e38, -3e38).astype("f4")
    found = np.asarray(diffuse(signs, number_of_iterations=9))
    assert np.isfinite(found).all() and np.abs(found).max() <= 3e38
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN or infinite"):
            np.asarray(diffuse(np.where(signs > 0, bad, signs)))


@pytest.mark.parametrize("name", NAMES)
def test_refusals_of_diffusion(name):
    v = bv.open(np.ones((4, 5, 6), "u1"))
    for how, error, message in (
        ({"time_step": 0.2}, ValueError, "time_step=0.2 must be above 0, and at most 0.1667"),
        ({"time_step": np.nan}, ValueError, "time_step=nan"),
        ({"time_step": "1"}, TypeError, "time_step='1' is not a number"),
        ({"conductance_parameter": -1}, ValueError, "conductance_parameter=-1"),
        ({"conductance_parameter": "1"}, TypeError, "conductance_parameter='1'"),
        ({"conductance_scaling_update_interval": 0}, ValueError, "at least 1"),
        ({"number_of_iterations": 10**9}, ValueError, "the maximum is 1,000"),
        ({"spacing": "voxel_size"}, ValueError, "has none"),
        ({"spacing": (1, 0, 1)}, ValueError, "above 0"),
    ):
        with pytest.raises(error, match=message):
            getattr(bv, name)(v, **how)
