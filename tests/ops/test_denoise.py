"""Backgrounds and denoising against scikit-image's restoration."""

import importlib

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import restoration

import beam_volumes as bv
from tests.catalogue import assert_same, shapes, voxels
from tests.tiers import thorough


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


def drawn(data, dtype, ndim):
    shape = data.draw(shapes(ndim, most=16, voxels=600), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=True)
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    return x, x.astype("f8"), slab


NUMPY_MODES = {"mirror": "reflect", "constant": "constant", "nearest": "edge"}


def surroundings(x, reach, mode):
    """All offsets within a reach, and the array shifted by each."""
    widths = [(r, r) for r in reach]
    around = np.pad(x, widths, NUMPY_MODES[mode])
    for at in np.ndindex(*(2 * r + 1 for r in reach)):
        part = tuple(slice(i, i + n) for i, n in zip(at, x.shape, strict=True))
        yield np.subtract(at, reach), around[part]


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "f4", "f8"])
@settings(max_examples=6)
@given(data=st.data())
def test_bilateral(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    x, wide, slab = drawn(data, dtype, ndim)
    mode = data.draw(st.sampled_from([*NUMPY_MODES]))
    spatial = data.draw(st.sampled_from([(1.0,) * 3, (0.5, 0.8, 1.2)]))[-ndim:]
    color = data.draw(st.sampled_from([None, 2.5]))
    size = data.draw(st.sampled_from([3, (1, 3, 5)[-ndim:]]))
    how = {"sigma_color": color, "sigma_spatial": spatial, "mode": mode}
    ours = bv.compute(bv.denoise_bilateral(x, size, **how), runner=None, slab=slab)
    deviation = (wide.std() or 1.0) if color is None else color
    total, weight = np.zeros((2, *x.shape))
    reach = [n // 2 for n in np.broadcast_to(size, ndim)]
    for offset, part in surroundings(wide, reach, mode):
        squares = np.square(offset / np.array(spatial)).sum()
        w = np.exp(-0.5 * (np.square((part - wide) / deviation) + squares))
        total, weight = total + w * part, weight + w
    assert ours.dtype == ("f8" if dtype == "f8" else "f4")
    np.testing.assert_allclose(ours, total / weight, atol=5e-6 * max(1.0, np.abs(wide).max()))


def test_bilateral_equals_scikit_image_with_centred_distances(monkeypatch):
    module = importlib.import_module("skimage.restoration._denoise")

    def distances(win_size, sigma, dtype=float):
        at = np.arange(win_size) - win_size // 2
        return np.exp(-0.5 * np.add.outer(at**2, at**2) / sigma**2).ravel().astype(dtype)

    monkeypatch.setattr(module, "_compute_spatial_lut", distances)
    x = np.random.default_rng(2).random((30, 33)) + np.arange(33) // 9
    for how in ({"sigma_color": 0.3}, {"sigma_spatial": 2}, {"win_size": 3, "cval": 0.4}):
        theirs = restoration.denoise_bilateral(x, bins=1 << 20, **how)
        np.testing.assert_allclose(np.asarray(bv.denoise_bilateral(x, **how)), theirs, atol=2e-5)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@settings(max_examples=6)
@given(data=st.data())
def test_non_local_means(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    x, wide, slab = drawn(data, dtype, ndim)
    patch = data.draw(st.sampled_from([3, (1, 3, 5)[-ndim:], 2]))
    reach = data.draw(st.sampled_from([1, (0, 2, 3)[-ndim:]]))
    mode, sigma = data.draw(st.sampled_from([*NUMPY_MODES])), data.draw(st.sampled_from([0, 1.5]))
    lazy = bv.denoise_nl_means(x, patch, reach, 3.0, sigma, mode=mode)
    ours = bv.compute(lazy, runner=None, slab=slab)
    half = [n // 2 for n in np.broadcast_to(patch, ndim)]
    reaches = list(np.broadcast_to(reach, ndim))
    total, weight = np.zeros((2, *x.shape))
    both = np.pad(
        wide, [(a + b,) * 2 for a, b in zip(half, reaches, strict=True)], NUMPY_MODES[mode]
    )
    inner = tuple(slice(r, n - r) for r, n in zip(reaches, both.shape, strict=True))
    core = tuple(slice(h, n - h) for h, n in zip(half, both[inner].shape, strict=True))
    for at in np.ndindex(*(2 * r + 1 for r in reaches)):
        part = both[tuple(slice(i, i + n) for i, n in zip(at, both[inner].shape, strict=True))]
        size = [2 * h + 1 for h in half]
        mean = ndi.uniform_filter((part - both[inner]) ** 2, size)[core]
        distance = np.maximum(mean - 2 * sigma**2, 0) / 9
        w = np.where(distance > 5, 0, np.exp(-distance))
        total, weight = total + w * part[core], weight + w
    edge = 1e-3 * np.abs(wide).max()  # a weight at the cut-off is there or not
    np.testing.assert_allclose(ours, total / weight, atol=(2e-5 if dtype != "f8" else 1e-6) + edge)


@thorough
def test_non_local_means_denoise_as_well_as_scikit_image():
    rng = np.random.default_rng(1)
    clean = ndi.gaussian_filter(rng.random((12, 40, 40)), 2) * 20 // 0.7
    noisy = clean + rng.normal(0, 1, clean.shape)
    sigma = float(bv.estimate_sigma(noisy))
    assert abs(sigma - 1) < 0.1
    ours = np.asarray(bv.denoise_nl_means(noisy, 5, 4, 0.8 * sigma, bv.estimate_sigma(noisy)))
    theirs = restoration.denoise_nl_means(noisy, 5, 4, 0.8 * sigma, sigma=sigma)
    assert np.square(ours - clean).mean() < 1.05 * np.square(theirs - clean).mean()


@pytest.mark.parametrize("shape", [(31, 40), (32, 41), (9, 20, 31)])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
def test_estimated_sigma(dtype, shape):
    x = np.random.default_rng(3).normal(90, 12, shape).astype(dtype)
    details = x.astype("f8")
    for axis in range(x.ndim):  # db2 of PyWavelets
        padded = np.pad(
            np.moveaxis(details, axis, -1), [(0, 0)] * (x.ndim - 1) + [(3, 4)], "symmetric"
        )
        high = [0.48296291314469025, -0.836516303737469, 0.22414386804185735, 0.12940952255092145]
        count, last = (shape[axis] + 3) // 2, padded.shape[-1] - 3
        rows = [
            h * padded[..., 4 - j : last + 1 + 3 - j : 2][..., :count] for j, h in enumerate(high)
        ]
        details = np.moveaxis(np.sum(rows, axis=0), -1, axis)
    median = np.median(np.abs(details[details != 0]))
    ours = bv.compute(bv.estimate_sigma(x), runner=None, slab=(5, 11, 13)[-x.ndim :])
    # Rounding decides whether details of integers are 0, and count.
    tolerance = 0.02 if dtype == "u1" else 1e-5
    np.testing.assert_allclose(ours, median / 0.6744897501960817, rtol=tolerance)


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f4", "f8"])
@settings(max_examples=6)
@given(data=st.data())
def test_total_variation(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    x, wide, slab = drawn(data, dtype, ndim)
    n, weight = data.draw(st.sampled_from([1, 2, 9])), data.draw(st.sampled_from([0.5, 3.0]))
    lazy = bv.denoise_tv_chambolle(x, weight, max_num_iter=n)
    parts = bv.compute(lazy, runner=None, slab=slab)
    whole = bv.compute(lazy, runner=None, slab=x.shape)
    assert_same(parts, whole)
    theirs = restoration.denoise_tv_chambolle(wide, weight, eps=0, max_num_iter=n)
    accuracy = 2e-6 if parts.dtype == "f4" else 1e-12
    np.testing.assert_allclose(parts, theirs, atol=accuracy * max(1.0, np.abs(wide).max()))


def test_total_variation_of_a_lazy_weight_and_a_part():
    x = np.random.default_rng(4).normal(50, 9, (9, 40, 41)).astype("f4")
    v = bv.open(x)
    lazy = bv.denoise_tv_chambolle(v, bv.estimate_sigma(v), max_num_iter=6)
    theirs = restoration.denoise_tv_chambolle(x, float(bv.estimate_sigma(v)), 0, 6)
    np.testing.assert_allclose(np.asarray(lazy[3:5, 7:9, 11:]), theirs[3:5, 7:9, 11:], atol=1e-4)
    x[4, 20, 20] = np.nan
    nan = np.isnan(np.asarray(bv.denoise_tv_chambolle(x, max_num_iter=3)))
    assert nan[4, 20, 20] and not nan[:, 23:].any() and not nan[:1].any()


def test_refusals_of_denoising():
    v = bv.open(np.ones((4, 5, 6), "u1"))
    for call, message in (
        (lambda: bv.denoise_bilateral(v, 4), "win_size=4 is not odd"),
        (lambda: bv.denoise_bilateral(v, sigma_color=-1), "sigma_color=-1"),
        (lambda: bv.denoise_bilateral(v, 3, sigma_spatial=0), "sigma_spatial=0 is 0"),
        (lambda: bv.denoise_nl_means(v, patch_distance=400), "too large"),
        (lambda: bv.denoise_nl_means(v, h=bv.mean(v, axis="x")), "pick an element"),
        (lambda: np.asarray(bv.denoise_nl_means(v, h=bv.mean(v) - 2)), "h=-1"),
        (lambda: bv.denoise_tv_chambolle(v, max_num_iter=10**9), "the maximum is 4,096"),
        (lambda: np.asarray(bv.denoise_tv_chambolle(v, bv.mean(v) - 2)), "weight=-1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
