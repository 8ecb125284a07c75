"""Local entropy and contrast, and Gabor filters, against scikit-image."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import filters
from skimage.filters import rank

import beam_volumes as bv
from beam_volumes.kernels.filters.local_rank import STATISTICS
from tests.catalogue import assert_same, shapes, voxels


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@settings(max_examples=10)
@given(data=st.data())
def test_local_ranks(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(shapes(ndim, most=20, voxels=1000), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=data.draw(st.booleans()))
    size = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    footprint = np.random.default_rng(data.draw(st.integers(0, 99))).random(size) < 0.6
    footprint[tuple(n // 2 for n in size)] = True
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    which = bv.entropy, bv.autolevel, bv.enhance_contrast, bv.morphological_gradient
    ours = bv.compute([f(x, footprint=footprint) for f in which], runner=None, slab=slab)
    theirs = rank.entropy(x, footprint.astype("u1"))
    assert ours[0].dtype == "f4"
    np.testing.assert_allclose(ours[0], theirs, atol=1e-6)
    assert ((ours[0] == 0) == (theirs < 1e-9)).all()
    assert_same(ours[2], rank.enhance_contrast(x, footprint.astype("u1")))
    if dtype == "u1":
        assert_same(ours[1], rank.autolevel(x, footprint.astype("u1")))
    if all(n % 2 for n in size) and footprint.all():
        assert_same(ours[3], rank.gradient(x, footprint.astype("u1")))


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@settings(max_examples=10)
@given(data=st.data())
def test_statistics_of_local_histograms(dtype, data):
    """Any footprint, also without its centre, with even sides, and larger than the volume."""
    shape = data.draw(shapes(data.draw(st.sampled_from([2, 3])), most=20, voxels=1000), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=data.draw(st.booleans()))
    x.flat[0] = np.iinfo(dtype).max  # scikit-image has bins up to the maximum
    size = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    footprint = np.random.default_rng(data.draw(st.integers(0, 99))).random(size) < 0.6
    footprint.flat[-1] = True
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    made = [bv.local_rank(x, name, footprint=footprint) for name in STATISTICS]
    ours = bv.compute(made, runner=None, slab=slab)
    for name, result in zip(STATISTICS, ours, strict=True):
        assert_same(result, getattr(rank, name)(x, footprint.astype("u1")))


def test_statistics_of_many_bins_and_large_footprints():
    x = voxels((1, 40, 50), "u2", 3)
    x.flat[0] = 65535
    footprint = np.ones((1, 17, 15), "u1")
    for name in ("geometric_mean", "median", "modal", "otsu", "equalize", "noise_filter"):
        assert_same(
            np.asarray(bv.local_rank(x, name, (1, 17, 15))), getattr(rank, name)(x, footprint)
        )
    big = np.full((3, 30, 30), 200, "u1")
    assert np.asarray(bv.local_rank(big, "sum", 9))[1, 15, 15] == 3 * 81 * 200 % 256
    assert np.asarray(bv.local_rank(big.astype("u2"), "pop", 9))[1, 15, 15] == 3 * 81


def test_statistics_of_tiny_volumes_channels_and_bad_parameters():
    one = np.array([[7]], "u1")
    for name in STATISTICS:
        if name != "noise_filter":  # scikit-image changes a footprint of one voxel to none
            assert_same(
                np.asarray(bv.local_rank(one, name, 3)), getattr(rank, name)(one, np.ones((3, 3)))
            )
        assert np.asarray(bv.local_rank(np.zeros((0, 3), "u2"), name, 3)).shape == (0, 3)
    x = voxels((2, 3, 6, 7), "u1", 1)
    for axes in ("czyx", "tzyx"):
        ours = bv.local_rank(bv.open(x, axes=axes), "modal", 3)
        assert_same(np.asarray(ours)[1], rank.modal(x[1], np.ones((3, 3, 3), "u1")))
    planes = bv.local_rank(bv.open(x[0]), "otsu", footprint=np.ones((3, 5)), axes=(1, 2))
    assert_same(np.asarray(planes)[2], rank.otsu(x[0][2], np.ones((3, 5), "u1")))
    with pytest.raises(ValueError, match=r"local_rank: statistic='rank'; use one of 'equalize'"):
        bv.local_rank(x[0], "rank", 3)
    with pytest.raises(TypeError, match="a volume of float32; convert it to uint8 or uint16"):
        bv.local_rank(x[0].astype("f4"), "mean", 3)
    with pytest.raises(ValueError, match="footprint is all false"):
        bv.local_rank(x[0], "mean", footprint=np.zeros((3, 3, 3)))


def test_other_dtypes_of_local_ranks():
    x = np.array([[0.5, 1, 2, 4, 4, 4]], "f4")
    np.testing.assert_allclose(
        np.asarray(bv.autolevel(x, (1, 3))), [[0, 1 / 3, 1 / 3, 1, 0, 0]], rtol=1e-6
    )
    assert np.asarray(bv.enhance_contrast(x, (1, 3))).tolist() == [[0.5, 0.5, 1, 4, 4, 4]]
    assert np.asarray(bv.entropy(x > 1, (1, 3))).round(2).tolist() == [
        np.float32([0, 0.92, 0.92, 0, 0, 0]).tolist()
    ]
    for function in (bv.entropy, bv.autolevel, bv.enhance_contrast):
        with pytest.raises(TypeError, match="int32"):
            function(x.astype("i4"), 3)
    with pytest.raises(ValueError, match="centre"):
        bv.autolevel(x, footprint=[[1, 0, 1]])


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
def test_gabor(dtype):
    x = voxels((3, 30, 35), dtype, 1)
    wide = x.astype("f8")
    for given_one in ((0.2,), (0.1, 0.7, 1.5), (0.3, 2.5, 1, 1.5, 3, 2, 0.4)):
        ours = bv.compute(bv.gabor(x, *given_one, mode="nearest"), runner=None, slab=(2, 11, 9))
        for k in range(3):
            theirs = filters.gabor(wide[k], *given_one, mode="nearest")
            for a, b in zip(ours, theirs, strict=True):
                atol = 64 * np.finfo(a.dtype).eps * np.abs(wide).max()
                np.testing.assert_allclose(a[k], b, atol=atol)
    with pytest.raises(ValueError, match="bandwidth"):
        bv.gabor(x, 0.1, 0, 1e9)
