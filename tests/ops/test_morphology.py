"""Morphology against scipy.ndimage and scikit-image on the whole volume."""

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.morphology import binary_closing, binary_dilation, binary_erosion, binary_opening

import beam_volumes as bv
from tests import catalogue as cat
from tests.catalogue import DTYPES, assert_same, voxels
from tests.tiers import examples


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_grey(dtype, data):
    ndim = data.draw(st.sampled_from([3, 3, 2]), "ndim")
    op = data.draw(cat.greys(ndim=ndim, dtype=dtype), "op")
    shape = data.draw(cat.shapes(ndim), "shape")
    nan = data.draw(st.sampled_from([0, 0, 0.01]), "nan")
    # scipy takes int64 through doubles, and has no float16 that rounds after each step.
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=dtype in ("i8", "f2"), nan=nan)
    op.check(np.asarray(op.ours(bv.open(x))), x)


@pytest.mark.parametrize("dtype", ["?", "u1", "f4"])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_binary(dtype, data):
    ndim = data.draw(st.sampled_from([3, 3, 2]), "ndim")
    op = data.draw(cat.binaries(ndim=ndim), "op")
    shape = data.draw(cat.shapes(ndim), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=True)
    assert_same(np.asarray(op.ours(bv.open(x))), op.twin(x))


@pytest.mark.parametrize(
    "structure",
    [
        *(bv.ball(r) for r in (1, 2, 3, 4.5, 12)),
        *(bv.ball(r) for r in ((1, 4, 4), (3, 2, 0), (0, 12, 12), (2, 3.5, 3))),
        *(ndi.generate_binary_structure(3, c) for c in (0, 1, 2, 3)),
        np.pad(bv.ball(2), 1),
        bv.ball(3) ^ bv.ball((3, 0, 0)),
        np.ones((3, 5, 3), bool),
    ],
    ids=lambda s: f"{s.shape}-{s.sum()}",
)
@pytest.mark.parametrize("share", [0.01, 0.98])
def test_balls(structure, share):
    """By squared distances where the structure is a ball, for any outside and shift."""
    x = np.random.default_rng(int(share * 1000)).random((11, 30, 37)) < share
    shift = 1 if min(structure.shape) > 2 else 0
    for how in ({}, {"border_value": 1, "origin": shift}):
        for name in ("binary_erosion", "binary_dilation"):
            theirs = getattr(ndi, name)(x, structure, **how)
            assert_same(np.asarray(getattr(bv, name)(bv.open(x), structure, **how)), theirs)


TWINS = {
    "binary_erosion": binary_erosion,
    "binary_dilation": binary_dilation,
    "binary_opening": binary_opening,
    "binary_closing": binary_closing,
}


@pytest.mark.filterwarnings("ignore:.*is deprecated since version 0.26:FutureWarning")
@pytest.mark.parametrize("name", TWINS)
@settings(max_examples=examples(25))
@given(shape=cat.shapes(3), seed=st.integers(0, 99), radius=st.integers(1, 2), drawn=st.booleans())
def test_ignored_border_is_scikit_image_s(name, shape, seed, radius, drawn):
    footprint = bv.ball(radius)
    if drawn:
        footprint = np.random.default_rng(seed).random((3, 3, 3)) < 0.5
        footprint[1, 1, 1] = True
    x = voxels(shape, "?", seed)
    ours = np.asarray(getattr(bv, name)(bv.open(x), footprint, border_value="ignore"))
    assert_same(ours, TWINS[name](x, footprint, mode="ignore"))


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("iterations", [1, 3])
def test_mask(name, iterations):
    x, mask = voxels((9, 14, 11), "?", 1), voxels((9, 14, 11), "?", 2)
    how = {"iterations": iterations, "border_value": 1}
    theirs = getattr(ndi, name)(x, mask=mask, **how)
    assert_same(np.asarray(getattr(bv, name)(bv.open(x), mask=bv.open(mask), **how)), theirs)
    numbers = bv.open(mask.astype("u1") * 7)
    assert_same(np.asarray(getattr(bv, name)(bv.open(x), mask=numbers, **how)), theirs)


def test_footprints():
    from skimage.morphology import ball

    for r in (0, 1, 2, 5):
        assert_same(bv.ball(r), ball(r).astype(bool))
    assert_same(bv.cross(1), ndi.generate_binary_structure(3, 1))
    assert bv.cross((1, 0, 2)).sum() == 7 and bv.cube(2).shape == (2, 2, 2)
    assert bv.ball((1, 3, 2)).shape == (3, 7, 5)


@pytest.mark.parametrize(
    ("how", "part"),
    [
        ({"iterations": 0}, "iterations=0"),
        ({"border_value": 2}, "border_value=2"),
        ({"structure": np.ones((3, 3))}, "structure has 2 dimensions, but there are 3 axes"),
        ({"structure": np.zeros((3, 3, 3))}, "all false"),
        ({"origin": 2}, "origin=2"),
        ({"mask": bv.open(np.ones((2, 2, 2), bool))}, r"shapes .* do not match"),
    ],
)
def test_refused(how, part):
    with pytest.raises(ValueError, match=part):
        bv.binary_erosion(bv.open(np.ones((4, 4, 4), bool)), **how)
