"""Thresholds against scikit-image, and Otsu's many against all choices."""

import itertools

import numpy as np
import pytest
import skimage.filters
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.ops.measure import threshold_formulas as formulas
from tests.peers import peer
from tests.tiers import examples

METHODS = ["otsu", "multiotsu", "li", "yen", "triangle", "isodata", "minimum"]


def two_tissues(dtype, seed, shape=(9, 24, 31)):
    """Two peaks of different weight, as the methods suppose."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.15, 0.5)
    x = np.where(
        rng.random(shape) < share,
        rng.normal(rng.uniform(150, 200), 14, shape),
        rng.normal(rng.uniform(50, 100), 14, shape),
    )
    dtype = np.dtype(dtype)
    if dtype == np.uint16:
        return np.clip(x * 20, 0, 65535).astype(dtype)
    if dtype.kind == "i":
        return np.clip(x - 128, -128, 127).astype(dtype)
    return np.clip(x, 0, 255).astype(dtype)


#: But where scikit-image takes hours, or wraps around.
CASES = [
    (method, dtype)
    for method in METHODS
    for dtype in ("u1", "u2", "i1", "f4", "f8")
    if (method, dtype) not in (("multiotsu", "u2"), ("li", "i1"))
]


@pytest.mark.parametrize(("method", "dtype"), CASES)
@pytest.mark.parametrize("masked", [False, True])
def test_skimage(method, dtype, masked):
    # Their smoothing of 65536 bins takes long.
    for seed in range(1 if (method, dtype) == ("minimum", "u2") else 4):
        x = two_tissues(dtype, seed)
        where = np.random.default_rng(seed).random(x.shape) < 0.7
        chosen = x[where] if masked else x.ravel()
        how = {"mask": bv.open(where)} if masked else {}
        lazy = getattr(bv, f"threshold_{method}")(bv.open(x), **how)
        try:
            theirs = getattr(skimage.filters, f"threshold_{method}")(chosen)
        except RuntimeError:  # no two peaks
            with pytest.raises(ValueError, match="peak"):
                bv.compute(lazy, runner=None)
            continue
        ours = bv.compute(lazy, runner=None, slab=(4, 24, 31))
        assert np.asarray(ours).dtype == lazy.dtype and np.shape(ours) == lazy.shape
        if method == "li" and x.dtype.kind == "f":
            # They look at every voxel, we at 256 bins.
            assert abs(ours - theirs) < np.ptp(x) / 100
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@settings(max_examples=examples(60))
@given(st.data())
def test_multiotsu_is_the_best_of_all_choices(data):
    classes = data.draw(st.integers(2, 5))
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=classes + 2, max_size=11)))
    if np.count_nonzero(counts) < classes:
        with pytest.raises(ValueError, match="classes"):
            formulas.multiotsu(counts, np.arange(len(counts)), classes)
        return

    def between(cuts):
        parts = np.split(np.arange(len(counts)), np.asarray(cuts) + 1)
        if any(counts[p].sum() == 0 for p in parts):
            return -1.0
        mean = (counts * np.arange(len(counts))).sum() / counts.sum()
        return sum(
            counts[p].sum() * ((counts[p] * p).sum() / counts[p].sum() - mean) ** 2 for p in parts
        )

    choices = itertools.combinations(range(len(counts) - 1), classes - 1)
    best = max(between(c) for c in choices)
    ours = formulas.multiotsu(counts, np.arange(len(counts)), classes)
    assert between(ours) == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_multiotsu_of_16_bits_and_beyond_the_counts_of_float32():
    counts = np.random.default_rng(3).integers(1, 2**40, 65536)
    counts[20000:24000] = 1
    counts[50000:50100] = 1
    first, second = formulas.multiotsu(counts, np.arange(65536), 3)
    assert 15000 < first < 26000 and 40000 < second < 52000


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["?", "u1", "f4"])
def test_one_value_and_none(method, dtype):
    threshold = getattr(bv, f"threshold_{method}")
    one = threshold(bv.open(np.full((2, 3, 4), 1, dtype)))
    if method in ("multiotsu", "minimum"):
        with pytest.raises(ValueError, match=r"classes|peak"):
            bv.compute(one, runner=None)
    else:
        assert bv.compute(one, runner=None) == 1
    empty = threshold(bv.open(np.ones((2, 3, 4), dtype)), mask=bv.open(np.zeros((2, 3, 4), bool)))
    with pytest.raises(ValueError, match="no voxels"):
        bv.compute(empty, runner=None)
    with pytest.raises(ValueError, match="nbins"):
        threshold(bv.open(np.ones((2, 3), dtype)), nbins=0)


def test_too_many_are_refused_before_anything_is_made():
    v = bv.open(np.ones((2, 3, 4), "f4"))
    for call in (bv.histogram, bv.equalize_hist, lambda v, n: bv.threshold_li(v, nbins=n)):
        with pytest.raises(ValueError, match="bins=1000000000: the maximum is"):
            call(v, 10**9)
    with pytest.raises(ValueError, match="classes=1000000000"):
        bv.threshold_multiotsu(v, 10**9)


def moments_of_itk(x):
    """ITK's formula, and the one of Fiji's "Moments" plugin, on every value in the range."""
    share = np.bincount(x.ravel() - x.min()) / x.size
    at = np.arange(len(share), dtype=float)
    m1, m2, m3 = (float((share * at**k).sum()) for k in (1, 2, 3))
    cd = m2 - m1 * m1
    c0, c1 = (m1 * m3 - m2 * m2) / cd, (m2 * m1 - m3) / cd
    z0, z1 = (0.5 * (-c1 + sign * np.sqrt(c1 * c1 - 4 * c0)) for sign in (-1, 1))
    return int(x.min()) + int(np.argmax(np.cumsum(share) > (z1 - m1) / (z1 - z0)))


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_moments(dtype):
    sitk = peer("SimpleITK")
    for seed in range(6):
        x = two_tissues(dtype, seed)
        whole = x.astype(np.int64)
        if dtype == "f4":
            x = whole.astype(dtype)
        ours = bv.compute(bv.threshold_moments(bv.open(x)), runner=None, slab=(4, 9, 31))
        bin_width = np.ptp(whole) / 256
        if dtype != "f4":
            assert ours == moments_of_itk(whole)
        itk = sitk.MomentsThresholdImageFilter()
        itk.SetNumberOfHistogramBins(256)
        itk.Execute(sitk.GetImageFromArray(x))
        assert abs(float(ours) - itk.GetThreshold()) <= 2 * max(1, bin_width)
    flat = bv.open(np.full((2, 3, 4), 7, dtype))
    assert bv.compute(bv.threshold_moments(flat), runner=None) == 7
