"""Reconstruction and extrema against scikit-image, in random partitions."""

import hypothesis.strategies as st
import numpy as np
import pytest
import skimage.morphology as theirs
from hypothesis import given, settings
from scipy import ndimage as ndi

import beam_volumes as bv
from tests.tiers import dtypes_drawn, examples

DTYPES = ["u1", "f4", "i2", "u4", "f8"]


def image_of(draw, shape, dtype, kind):
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    if kind == "ties":
        x = rng.integers(0, 5, shape)
    elif kind == "smooth":
        x = ndi.gaussian_filter(rng.normal(0, 60, shape), 1.5) * 3 + 40
    else:
        x = rng.uniform(0, 100, shape)
    x = x - 30 if np.dtype(dtype).kind in "if" else np.clip(x, 0, 255)
    return x.astype(dtype)


def shape_and_slab(draw):
    shape = tuple(draw(st.integers(1, n)) for n in (6, 12, 14))
    if draw(st.integers(0, 3)) == 0:
        shape = shape[1:]
    slab = tuple(draw(st.integers(-(-n // 3), n)) for n in shape)
    return shape, {"slab": slab, "window": draw(st.sampled_from([None, 1, 2]))}


def footprints(draw, ndim):
    choice = draw(st.sampled_from([None, *range(1, ndim + 1)]))
    return None if choice is None else ndi.generate_binary_structure(ndim, choice)


def kinds(draw):
    return draw(st.sampled_from(["ties", "smooth", "noise"]))


@dtypes_drawn(DTYPES)
@settings(max_examples=examples(24), deadline=None)
@given(data=st.data())
def test_reconstruction(dtypes, data):
    draw = data.draw
    shape, cut = shape_and_slab(draw)
    mask = image_of(draw, shape, draw(st.sampled_from(dtypes)), kinds(draw))
    method = draw(st.sampled_from(["dilation", "erosion"]))
    other = image_of(draw, shape, mask.dtype, kinds(draw))
    if draw(st.booleans()):  # few seeds
        apart = other.min() if method == "dilation" else other.max()
        other = np.where(np.random.default_rng(0).random(shape) < 0.05, mask, apart)
    seed = (np.minimum if method == "dilation" else np.maximum)(other, mask)
    footprint = footprints(draw, len(shape))
    ours = bv.compute(
        bv.reconstruction(bv.open(seed), bv.open(mask), method, footprint), runner=None, **cut
    )
    expected = theirs.reconstruction(seed, mask, method, footprint)
    assert ours.dtype == mask.dtype
    np.testing.assert_array_equal(ours, expected.astype(mask.dtype))


@dtypes_drawn(DTYPES)
@settings(max_examples=examples(24), deadline=None)
@given(data=st.data())
def test_extrema_of_a_height(dtypes, data):
    draw = data.draw
    shape, cut = shape_and_slab(draw)
    image = image_of(draw, shape, draw(st.sampled_from(dtypes)), kinds(draw))
    h = draw(st.sampled_from([1, 2, 7, 30] + [0.5, 12.25] * (image.dtype.kind == "f")))
    footprint = footprints(draw, len(shape))
    for name in ("h_maxima", "h_minima"):
        ours = bv.compute(getattr(bv, name)(bv.open(image), h, footprint), runner=None, **cut)
        expected = getattr(theirs, name)(image, h, footprint)
        np.testing.assert_array_equal(ours, expected, strict=True)


def test_refused():
    x = np.zeros((3, 4, 5), "f4")
    with pytest.raises(ValueError, match="use dilation or erosion"):
        bv.reconstruction(x, x, "opening")
    with pytest.raises(ValueError, match="share a face"):
        bv.reconstruction(x, x, footprint=np.eye(3)[None].repeat(3, 0))
    with pytest.raises(ValueError, match="do not match"):
        bv.reconstruction(x, x[1:])
    with pytest.raises(TypeError, match="32 bits"):
        bv.reconstruction(x.astype("u8"), x.astype("u8"))
    with pytest.raises(TypeError, match="an image of uint64"):
        bv.h_minima(x.astype("u8"), 1)
    with pytest.raises(ValueError, match="the seed is above the mask"):
        bv.compute(bv.reconstruction(x + 1, x), runner=None)
    with pytest.raises(ValueError, match="above 0"):
        bv.h_maxima(x, 0)
