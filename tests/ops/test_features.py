"""Blobs and edges against scikit-image's feature."""

import importlib
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from skimage import feature

import beam_volumes as bv


def speckles(shape, seed, sigma=1.5):
    """Smooth noise from 0 to 1."""
    x = ndi.gaussian_filter(np.random.default_rng(seed).random(shape), sigma)
    return (x - x.min()) / (x.max() - x.min())


class SortedPairs(cKDTree):
    """A tree with pairs in the order of points, because scikit-image's order is not defined."""

    def query_pairs(self, *args):
        return sorted(super().query_pairs(*args))


def placed(table):
    """Positions and sizes, in the order of ranks."""
    rows = [np.asarray(table[n]) for n in table if n not in ("rank", "intensity")]
    return np.stack(rows, axis=1)


@pytest.mark.parametrize("name", ["blob_log", "blob_dog"])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@settings(max_examples=5)
@given(data=st.data())
def test_blobs(name, dtype, data):
    shape = data.draw(st.sampled_from([(40, 50), (14, 18, 20)]))
    x = speckles(shape, data.draw(st.integers(0, 99)))
    scale = 200 if dtype == "u1" else 1
    x = (x * scale).astype(dtype)
    axes = len(shape)
    sigmas = data.draw(st.sampled_from([(1, 3), ((2, 1, 1)[-axes:], (3, 2, 2)[-axes:])]))
    how = {"threshold": 0.05 * scale, "overlap": data.draw(st.sampled_from([0.1, 0.5]))}
    how["exclude_border"] = data.draw(st.sampled_from([False, 2, (2, 0, 1)[-axes:]]))
    if name == "blob_log":
        how |= {"num_sigma": 3, "log_scale": data.draw(st.booleans())}
    if data.draw(st.booleans()):
        how |= {"threshold": None, "threshold_rel": 0.3}
    slab = tuple(data.draw(st.integers(n // 3, n)) for n in shape)
    ours = bv.compute(getattr(bv, name)(x, *sigmas, **how), runner=None, slab=slab)
    module = importlib.import_module("skimage.feature.blob")
    with mock.patch.object(module, "spatial", SimpleNamespace(cKDTree=SortedPairs)):
        theirs = getattr(feature, name)(x.astype("f8"), *sigmas, **how)
    assert len(theirs)
    if dtype != "f8":  # equal responses of integers may be in another order
        ours, theirs = (set(map(tuple, np.round(rows, 5))) for rows in (placed(ours), theirs))
        assert len(ours ^ theirs) <= max(1, 0.1 * len(theirs))
    else:
        np.testing.assert_allclose(placed(ours), theirs)


@settings(max_examples=6)
@given(data=st.data())
def test_blobs_by_the_determinant(data):
    """At the edges, scikit-image moves boxes or cuts them off."""
    x = np.pad(speckles((60, 50), data.draw(st.integers(0, 99)), 3), 30)
    how = {"log_scale": data.draw(st.booleans()), "overlap": data.draw(st.sampled_from([0.1, 0.5]))}
    how |= data.draw(
        st.sampled_from([{"threshold": 1e-3}, {"threshold": None, "threshold_rel": 0.2}])
    )
    sigmas = data.draw(st.sampled_from([1, 2.3])), 9, 5
    slab = tuple(data.draw(st.integers(n // 3, n)) for n in x.shape)
    ours = bv.compute(bv.blob_doh(x, *sigmas, **how), runner=None, slab=slab)
    module = importlib.import_module("skimage.feature.blob")
    with mock.patch.object(module, "spatial", SimpleNamespace(cKDTree=SortedPairs)):
        theirs = feature.blob_doh(x, *sigmas, **how)
    assert len(theirs) > 1
    np.testing.assert_allclose(placed(ours), theirs)
    grey = bv.blob_doh((x * 255).astype("u1"), *sigmas).compute()
    assert set(zip(*(grey[n].to_pylist() for n in "yx"), strict=True)) <= {
        (y, x) for y, x in zip(*np.nonzero(x), strict=True)
    }


def test_blobs_of_lengths_and_of_nothing():
    x = np.zeros((12, 40, 40), "f4")
    z, y, x_ = np.indices(x.shape)
    x[((z - 6) * 3) ** 2 + (y - 20) ** 2 + (x_ - 21) ** 2 < 36] = 1
    v = bv.open(x, voxel_size=(30, 10, 10), unit="nm")
    table = bv.blob_log(v, "20 nm", "50 nm", num_sigma=4).compute()
    assert {n: round(float(table[n][0].as_py()), 3) for n in ("z", "y", "x")} == {
        "z": 6,
        "y": 20,
        "x": 21,
    }
    ratio = table["sigma_y"][0].as_py() / table["sigma_z"][0].as_py()
    assert len(table) == 1 and abs(ratio - 3) < 1e-6
    assert len(bv.blob_dog(np.zeros((9, 9)), 1, 2).compute()) == 0


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@settings(max_examples=6)
@given(data=st.data())
def test_canny(dtype, data):
    shape = data.draw(st.sampled_from([(50, 60), (3, 40, 41)]))
    x = speckles(shape, data.draw(st.integers(0, 99)), (0, 2.5, 2.5)[-len(shape) :])
    unit = 255 if dtype == "u1" else 1
    x = (x * unit).astype(dtype)
    how = {
        "sigma": data.draw(st.sampled_from([1, 2])),
        "mode": data.draw(st.sampled_from(["constant", "mirror"])),
    }
    kind = data.draw(st.sampled_from(["default", "thresholds", "quantiles"]))
    if kind == "thresholds":
        how |= {"low_threshold": 0.2 * unit, "high_threshold": 0.4 * unit}
    elif kind == "quantiles" and len(shape) == 2:
        how |= {"low_threshold": 0.7, "high_threshold": 0.9, "use_quantiles": True}
    slab = tuple(data.draw(st.integers(-(-n // 3), n)) for n in shape)
    axes = tuple(range(len(shape)))[-2:]
    ours = bv.compute(bv.canny(x, axes=axes, **how), runner=None, slab=slab)
    planes = x.reshape(-1, *shape[-2:])
    theirs = np.stack([feature.canny(plane, **how) for plane in planes]).reshape(shape)
    assert theirs.sum() > 100
    assert (ours != theirs).mean() < 2e-3


def test_canny_of_a_ball_is_a_thin_closed_surface():
    at = np.indices((30, 32, 34)) - np.array([15, 16, 17])[:, None, None, None]
    ball = (np.square(at).sum(axis=0) < 81).astype("f4")
    edges = bv.canny(ball, 1.5)
    found = bv.compute(edges, runner=None, slab=(7, 20, 34))
    assert found.tobytes() == np.asarray(edges).tobytes()
    radii = np.sqrt(np.square(at).sum(axis=0))[found]
    assert radii.min() > 7.5 and radii.max() < 10
    assert ndi.label(~found)[1] == 2  # inside and outside
    assert found.sum() < 1.6 * 4 * np.pi * 81


def test_refusals():
    v = bv.open(np.ones((4, 5, 6), "u1"))
    flat = bv.open(np.ones((5, 6), "u1"), voxel_size=(1, 2), unit="nm")
    for call, message in (
        (lambda: bv.blob_log(v, 0, 3), "min_sigma=0"),
        (lambda: bv.blob_log(v, 4, 3), "min_sigma=4 is above"),
        (lambda: bv.blob_log(v, num_sigma=1000), "num_sigma=1000"),
        (lambda: bv.blob_dog(v, sigma_ratio=1), "sigma_ratio=1"),
        (lambda: bv.blob_doh(v), "blob_log, which accepts volumes"),
        (lambda: bv.blob_doh(v[0], 0.5), "below 1 voxel"),
        (lambda: bv.blob_doh(flat, "4 nm", "8 nm"), "along y and x are different"),
        (lambda: bv.blob_dog(v, sigma_ratio=1.01), "scales"),
        (lambda: bv.blob_log(v, overlap=2), "overlap=2"),
        (lambda: bv.blob_log(v, exclude_border=True), "exclude_border=True"),
        (lambda: bv.canny(v, low_threshold=9, high_threshold=3), "is above high_threshold=3"),
        (lambda: bv.canny(v, axes=1), "1 axis"),
        (lambda: bv.canny(v, low_threshold=9, use_quantiles=True), "fraction"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def hills(shape, dtype, seed):
    """Smooth noise with an empty corner."""
    x = speckles(shape, seed) * (200 if np.dtype(dtype).kind == "u" else 1)
    x[..., : shape[-2] // 2, : shape[-1] // 2] = 0
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@settings(max_examples=8)
@given(data=st.data())
def test_shape_index(dtype, data):
    shape = data.draw(st.sampled_from([(40, 31), (3, 26, 35)]))
    x = hills(shape, dtype, data.draw(st.integers(0, 99)))
    sigma = data.draw(st.sampled_from([0.1, 1, (1.5, 0.7)]))
    mode = data.draw(st.sampled_from(["constant", "nearest", "reflect", "mirror", "wrap"]))
    cval = data.draw(st.sampled_from([0, 0.5])) if mode == "constant" else 0
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    made = bv.shape_index(x, sigma, mode=mode, cval=cval)
    ours = bv.compute(made, runner=None, slab=slab)
    assert ours.dtype == ("f8" if dtype == "f8" else "f4")
    np.testing.assert_array_equal(ours, np.asarray(made))
    for plane, own in zip(x.reshape(-1, *shape[-2:]), ours.reshape(-1, *shape[-2:]), strict=True):
        wide = plane.astype("f8")
        theirs = feature.shape_index(wide, sigma, mode=mode, cval=cval)
        if dtype == "f8":
            np.testing.assert_allclose(own, theirs, atol=1e-7)
            continue
        # Small curvatures are rounding errors in float32.
        elements = feature.hessian_matrix(
            wide, sigma, mode=mode, cval=cval, use_gaussian_derivatives=False
        )
        size = np.abs(feature.hessian_matrix_eigvals(elements)).max(axis=0)
        curved = size > 1e-3 * wide.max()
        np.testing.assert_allclose(own[curved], theirs[curved], atol=2e-3)
        flat = np.isnan(theirs)
        assert flat.any() == np.isnan(own[flat]).any()


def test_shape_index_of_planes_along_other_axes_channels_and_tiny_volumes():
    x = hills((8, 20, 24), "f8", 3)
    ours = np.asarray(bv.shape_index(x, (1, 2), axes=(0, 2)))
    np.testing.assert_allclose(ours[:, 5], feature.shape_index(x[:, 5], (1, 2)), atol=1e-7)
    many = np.stack([x, x[::-1]])
    for axes in ("czyx", "tzyx"):
        ours = np.asarray(bv.shape_index(bv.open(many, axes=axes)))
        np.testing.assert_array_equal(ours[1], np.asarray(bv.shape_index(many[1])))
    for shape in ((1, 1), (2, 3), (0, 4), (3, 1, 5)):
        assert np.asarray(bv.shape_index(np.ones(shape, "u1"))).shape == shape
    x[4, 10, 12], x[0, 3, 3] = np.nan, np.inf
    ours = np.asarray(bv.shape_index(x))
    assert np.isnan(ours[4, 6:15, 8:17]).all() and not np.isnan(ours[4, 10, 19:]).any()
    for axes in ((1,), (0, 1, 2)):
        with pytest.raises(ValueError, match="give the two axes of planes"):
            bv.shape_index(x, axes=axes)
    with pytest.raises(ValueError, match="sigma"):
        bv.shape_index(x, -1)
