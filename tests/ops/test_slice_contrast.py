"""Contrast made equal in all slices, against numpy slice by slice."""

import numpy as np
import pytest
from skimage import exposure

import beam_volumes as bv
from beam_volumes.recipes.catalogue import operations
from tests.catalogue import assert_same, linear_dtype, voxels

SLABS = [((9, 12, 14), None), ((2, 12, 14), 1), ((3, 5, 4), 2), ((9, 7, 14), 3)]


def moments(x, where):
    """Mean and standard deviation of chosen voxels, in float64."""
    chosen = x[where].astype("f8")
    return (chosen.mean(), chosen.std()) if chosen.size else (np.nan, np.nan)


def normalized(x, axis, where, mean, std):
    """The twin, in float64."""
    planes = []
    for plane, chosen in zip(np.moveaxis(x, axis, 0), np.moveaxis(where, axis, 0), strict=True):
        m, s = moments(plane, chosen)
        m, s = (mean, std) if np.isnan(m) else (m, s)
        planes.append((plane.astype("f8") - m) * (std / s if s else 1.0) + mean)
    return np.moveaxis(np.stack(planes), 0, axis)


def uneven(dtype, axis, seed=3):
    """A volume with slices of different contrast, one of them of one value."""
    rng = np.random.default_rng(seed)
    shape = [1, 1, 1]
    shape[axis] = (9, 12, 14)[axis]
    x = rng.normal(100, 20, (9, 12, 14)) * rng.uniform(0.5, 1.1, shape) + rng.uniform(0, 30, shape)
    np.moveaxis(x, axis, 0)[4] = 37
    return x > 100 if dtype == "?" else x.astype(dtype)


@pytest.mark.parametrize("axis", ["z", 1, "x"])
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i4", "f2", "f4", "f8"])
@pytest.mark.parametrize("masked", [False, True])
def test_numpy(dtype, axis, masked):
    number = "zyx".index(axis) if isinstance(axis, str) else axis
    x = uneven(dtype, number)
    where = voxels(x.shape, "?", 5) if masked else np.ones(x.shape, bool)
    np.moveaxis(where, number, 0)[2] &= not masked  # no voxel of this slice counts
    v = bv.open(x)
    lazy = bv.normalize_slices(v, axis, mask=bv.open(where) if masked else None)
    whole = np.asarray(lazy)
    expected = normalized(x, number, where, *moments(x, where))
    assert whole.dtype == linear_dtype(x.dtype)
    eps = np.finfo(whole.dtype).eps
    np.testing.assert_allclose(whole, expected, rtol=0, atol=16 * eps * np.abs(expected).max())
    for slab, window in SLABS:
        got = bv.compute(lazy, runner=None, slab=slab, window=window, threads=2)
        assert got.tobytes() == whole.tobytes(), (slab, window)


def rescaled(x, axis, where, percentiles, out_range):
    """The twin: scikit-image's slice by slice, in float64."""
    planes = []
    for plane, chosen in zip(np.moveaxis(x, axis, 0), np.moveaxis(where, axis, 0), strict=True):
        plane = plane.astype("f8")
        if chosen.any():
            ends = tuple(np.percentile(plane[chosen], percentiles))
            plane = exposure.rescale_intensity(plane, ends, out_range)
        planes.append(plane)
    return np.moveaxis(np.stack(planes), 0, axis)


@pytest.mark.parametrize("axis", ["z", 1, "x"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "f2", "f4", "f8"])
@pytest.mark.parametrize("masked", [False, True])
def test_percentiles(dtype, axis, masked):
    number = "zyx".index(axis) if isinstance(axis, str) else axis
    x = uneven(dtype, number)
    where = voxels(x.shape, "?", 5) if masked else np.ones(x.shape, bool)
    np.moveaxis(where, number, 0)[2] &= not masked  # no voxel of this slice counts
    mask = bv.open(where) if masked else None
    for out_range in ("dtype", (-3.0, 7.5)):
        lazy = bv.normalize_slices(
            bv.open(x), axis, percentiles=(2, 93.5), out_range=out_range, mask=mask
        )
        whole = np.asarray(lazy)
        ends = (
            out_range
            if out_range != "dtype"
            else (0, 1 if dtype[0] == "f" else np.iinfo(x.dtype).max)
        )
        expected = rescaled(x, number, where, (2, 93.5), tuple(map(float, ends)))
        if out_range == "dtype":
            assert whole.dtype == x.dtype
            expected = np.rint(expected) if dtype[0] != "f" else expected
        else:
            assert whole.dtype == linear_dtype(x.dtype)
        eps = np.finfo(
            "f2" if whole.dtype == "f2" else whole.dtype if whole.dtype.kind == "f" else "f8"
        ).eps
        np.testing.assert_allclose(whole, expected, rtol=0, atol=16 * eps * np.abs(expected).max())
        for slab, window in SLABS:
            got = bv.compute(lazy, runner=None, slab=slab, window=window, threads=2)
            assert got.tobytes() == whole.tobytes(), (slab, window)


def test_percentiles_of_numbers_with_a_sign():
    """The range is the same for all slices, and without negative numbers only where none has them."""
    x = np.array([[[-5, 0, 5]], [[10, 20, 30]]], "i2")
    ours = np.asarray(bv.normalize_slices(bv.open(x), percentiles=(0, 100)))
    assert_same(ours, np.array([[[-32768, 0, 32767]]] * 2, "i2"))  # -0.5 is rounded to even
    ours = np.asarray(bv.normalize_slices(bv.open(x[1:]), percentiles=(0, 100)))
    assert_same(ours, np.array([[[0, 16384, 32767]]], "i2"))
    ours = np.asarray(bv.normalize_slices(bv.open(x), percentiles=(0, 50), out_range="image"))
    assert_same(ours, np.array([[[-5, 30, 30]]] * 2, "i2"))
    lazy = bv.normalize_slices(
        bv.open(x), percentiles=(0, 100), out_range=(0, bv.max(bv.open(x))), dtype="u1"
    )
    assert_same(np.asarray(lazy), np.array([[[0, 15, 30]]] * 2, "u1"))


def test_given_moments_lazy_ones_and_dtype():
    x = uneven("u1", 0)
    v = bv.open(x)
    everywhere = np.ones(x.shape, bool)
    ours = bv.normalize_slices(v, mean=bv.mean(v[0]), std=90, dtype="u1")
    expected = normalized(x, 0, everywhere, x[0].mean(), 90.0)
    assert expected.min() < 0 and expected.max() > 255
    assert_same(np.asarray(ours), np.rint(expected).clip(0, 255).astype("u1"))
    assert_same(
        np.asarray(bv.normalize_slices(v, std=0, mean=8)), np.full(x.shape, 8, "f4")
    )  # except slices of one value
    # What lies upstream or is cropped afterwards changes no slice's number.
    cropped = bv.normalize_slices(v)[3:7, 2:9]
    assert_same(np.asarray(cropped), np.asarray(bv.normalize_slices(v))[3:7, 2:9])
    assert_same(
        np.asarray(bv.normalize_slices(v[3:])),
        np.asarray(bv.normalize_slices(bv.open(x[3:]))),
    )


def test_nan():
    x = voxels((6, 7, 8), "f4", 3, nan=0.05, inf=0.02)
    with pytest.raises(ValueError, match="omit"):
        np.asarray(bv.normalize_slices(bv.open(x)))
    ours = np.asarray(bv.normalize_slices(bv.open(x), nan="omit"))
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(x))
    finite = np.isfinite(x)
    with np.errstate(invalid="ignore"):
        expected = normalized(x, 0, finite, *moments(x, finite))
    np.testing.assert_array_equal(ours[np.isinf(x)], x[np.isinf(x)])
    np.testing.assert_allclose(ours[finite], expected[finite], rtol=1e-5, atol=1e-3)
    ours = np.asarray(bv.normalize_slices(bv.open(x), percentiles=(10, 90), nan="omit"))
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(x))
    np.testing.assert_array_equal(ours[np.isinf(x)], np.sign(x)[np.isinf(x)])
    expected = rescaled(x, 0, finite, (10, 90), (-1.0, 1.0))
    np.testing.assert_allclose(ours[finite], expected[finite], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", [{}, {"percentiles": (5, 95)}, {"axis": "x"}])
def test_channels_and_time_points_are_separate(how):
    x = voxels((2, 3, 4, 9, 8), "u1", 5)
    for axes in ("tczyx", "czyx", "tzyx"):
        given = x if len(axes) == 5 else x[0]
        ours = np.asarray(bv.normalize_slices(bv.open(given, axes=axes), **how))
        for at in np.ndindex(given.shape[:-3]):
            one = np.asarray(bv.normalize_slices(given[at], **how))
            np.testing.assert_array_equal(ours[at], one)


def test_recipes_have_it():
    assert operations()["normalize_slices"].required == ("volume",)


def test_mistakes():
    v = bv.open(np.ones((2, 3, 4), "u1"))
    with pytest.raises(ValueError, match="axis='t'; the volume's axes are z, y, x"):
        bv.normalize_slices(v, "t")
    with pytest.raises(ValueError, match="axis='z'"):
        bv.normalize_slices(v[0])
    with pytest.raises(ValueError, match="std=-1"):
        bv.normalize_slices(v, std=-1)
    with pytest.raises(TypeError, match="mean=<Volume"):
        bv.normalize_slices(v, mean=v)
    with pytest.raises(ValueError, match="pick an element"):
        bv.normalize_slices(v, mean=bv.mean(v, axis="z"))
    with pytest.raises(TypeError, match="not both"):
        bv.normalize_slices(v, mean=3, percentiles=(1, 99))
    with pytest.raises(TypeError, match="out_range='image' needs percentiles"):
        bv.normalize_slices(v, out_range="image")
    with pytest.raises(TypeError, match="percentiles=5 is not a pair of numbers"):
        bv.normalize_slices(v, percentiles=5)
    with pytest.raises(ValueError, match=r"percentiles=\(99, 1\) are not ascending"):
        bv.normalize_slices(v, percentiles=(99, 1))
    with pytest.raises(TypeError, match="bool volume has no range"):
        bv.normalize_slices(v > 0, percentiles=(1, 99))
    with pytest.raises(ValueError, match="no voxels"):
        np.asarray(bv.normalize_slices(v, mask=v > 1))
