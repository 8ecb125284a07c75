"""Colours and stains, compared with scikit-image's, for any partition."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import color

import beam_volumes as bv
from beam_volumes.kernels.intensity import colour

SHAPE = (3, 2, 9, 11)
MATRIX = color.hdx_from_rgb


def pixels(dtype, seed=0):
    """Random colours, and those where something is equal, 0 or full."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        x = rng.random(SHAPE).astype(dtype)
        x[:, 0, 0], x[:, 0, 1], x[0, 0, 2], x[:2, 0, 3] = 0, 1, 0, 0.5
        return x
    most = 2 if np.dtype(dtype) == bool else np.iinfo(dtype).max + 1
    x = rng.integers(0, most, SHAPE).astype(dtype)
    x[:, 0, 0], x[:, 0, 1], x[0, 0, 2], x[:2, 0, 3] = 0, most - 1, 0, most // 2
    return x


OPERATIONS = {
    "rgb2hed": (bv.rgb2hed, color.rgb2hed),
    "separate_stains": (
        lambda v, **how: bv.separate_stains(v, MATRIX, **how),
        lambda x: color.separate_stains(x, MATRIX),
    ),
    "hed2rgb": (bv.hed2rgb, color.hed2rgb),
    "combine_stains": (
        lambda v, **how: bv.combine_stains(v, color.rgb_from_hdx, **how),
        lambda x: color.combine_stains(x, color.rgb_from_hdx),
    ),
    "rgb2gray": (bv.rgb2gray, color.rgb2gray),
    "rgb2hsv": (bv.rgb2hsv, color.rgb2hsv),
    "hsv2rgb": (bv.hsv2rgb, color.hsv2rgb),
    "rgb2lab": (bv.rgb2lab, color.rgb2lab),
    "lab2rgb": (bv.lab2rgb, color.lab2rgb),
}


@pytest.mark.parametrize("dtype", ["?", "u1", "f4", "u2", "f8"])
@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=3)
@given(data=st.data())
def test_scikit_image_s_values_in_any_slabs(name, dtype, data):
    ours, theirs = OPERATIONS[name]
    x = pixels(dtype)
    expected = theirs(np.moveaxis(x.astype("f8") if x.dtype == bool else x, 0, -1))
    expected = np.moveaxis(expected, -1, 0) if expected.ndim == 4 else expected
    result = ours(bv.open(x))
    assert result.dtype == ("f8" if dtype == "f8" else "f4")
    slab = tuple(data.draw(st.integers(1, n)) for n in SHAPE[1:])
    window = data.draw(st.sampled_from([None, 1]))
    found = bv.compute(result, runner=None, slab=slab, window=window)
    assert found.tobytes() == bv.compute(result, runner=None).tobytes()
    # scikit-image computes float32 in float32.
    near = {"f4": 2e-5, "f8": 1e-12}.get(dtype, 2e-7)
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)
    exact = bv.compute(ours(bv.open(x), dtype="f8"), runner=None)
    assert exact.dtype == "f8" and np.array_equal(exact.astype(result.dtype), found)


def test_bytes_have_the_bits_of_one_order_of_operations():
    """Also where weights are so large that a sum has no value."""
    x = pixels("u1", 3)
    for matrix in (MATRIX, np.full((3, 3), 1e308) * [1, -1, 1]):
        logs = colour.table_of(x.dtype, colour.DENSITIES)[x]
        expected = np.empty(x.shape)
        with np.errstate(all="ignore"):
            for k, (u, v, w) in enumerate(np.transpose(matrix)):
                value = (logs[0] * u + logs[1] * v) + logs[2] * w
                expected[k] = np.where(np.isnan(value), np.nan, np.where(value < 0, 0, value))
        found = bv.compute(bv.separate_stains(bv.open(x), matrix, dtype="f8"), runner=None)
        assert found.tobytes() == expected.tobytes()


def test_nan_and_beyond():
    x = pixels("f4")
    x[1, 1, 4, 5], x[0, 1, 0, 0] = np.nan, -3
    for name in ("rgb2hed", "hed2rgb", "rgb2gray"):
        found = bv.compute(OPERATIONS[name][0](bv.open(x)), runner=None)
        at = found[..., 1, 4, 5]
        assert np.isnan(at).all() and np.isfinite(found[..., 1, 0, 0]).all()
    hsv = bv.compute(bv.rgb2hsv(bv.open(x)), runner=None)
    assert (hsv[:, 1, 4, 5] == 0).all()


def test_tissue_and_stains_there():
    """Otsu of saturation at a coarse level, and how much of each stain is in each region."""
    rng = np.random.default_rng(5)
    slide = np.full((3, 64, 96), 245, "u1") - rng.integers(0, 9, (3, 64, 96), dtype="u1")
    slide[:, 8:24, 8:40] = np.array([150, 60, 160], "u1").reshape(3, 1, 1)
    slide[:, 40:56, 48:88] = np.array([190, 90, 140], "u1").reshape(3, 1, 1)
    v = bv.open(slide[:, None])
    coarse = bv.rgb2hsv(bv.downsample(v, (1, 4, 4)))[1]
    tissue = bv.upsample(coarse > bv.threshold_otsu(coarse), (1, 4, 4))
    regions = bv.label(tissue)
    stains = bv.rgb2hed(v)
    table = bv.regionprops_table(regions, stains, properties=["area", "intensity_mean"])
    rows = bv.compute(table, runner=None).to_pydict()
    assert list(rows["area"]) == [16 * 32, 16 * 40]
    for n, name in enumerate(stains.channels):
        at = [color.rgb2hed(slide[:, y, x])[n] for y, x in ((10, 10), (50, 60))]
        np.testing.assert_allclose(rows[f"intensity_mean-{name}"], at, rtol=1e-6)


LIGHTS = [*"ABCE", "d50", "D55", "D65", "D75"]


@pytest.mark.parametrize("observer", ["2", "10", "r"])
@pytest.mark.parametrize("light", LIGHTS)
def test_lab_of_any_white(light, observer):
    """Also beyond the range of colours, and back."""
    x = np.random.default_rng(1).normal(0.5, 0.6, SHAPE)
    how = {"illuminant": light, "observer": observer}
    lab = bv.compute(bv.rgb2lab(bv.open(x), **how), runner=None)
    expected = color.rgb2lab(x, **how, channel_axis=0)
    np.testing.assert_allclose(lab, expected, rtol=1e-13, atol=1e-12)
    found = bv.compute(bv.lab2rgb(bv.open(expected), **how), runner=None)
    near = {"rtol": 1e-13, "atol": 1e-13}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # negative Z is set to 0
        np.testing.assert_allclose(found, color.lab2rgb(expected, **how, channel_axis=0), **near)
    inside = (x >= 0).all(0) & (x <= 1).all(0)
    np.testing.assert_allclose(found[:, inside], x[:, inside], atol=1e-3)


def test_colours_back_from_lab_and_hsv():
    x = pixels("u1", 2)
    v = bv.open(x)
    for there, back in ((bv.rgb2lab, bv.lab2rgb), (bv.rgb2hsv, bv.hsv2rgb)):
        found = bv.compute(back(there(v)), runner=None, slab=(1, 4, 5))
        np.testing.assert_array_equal(np.rint(found * 255), x)
    hsv = np.moveaxis(np.array([[2.25, 0.5, 1.0], [-0.75, 0.5, 1.0], [0.25, 0.5, 1.0]]), 1, 0)
    found = bv.compute(bv.hsv2rgb(bv.open(hsv.reshape(3, 1, 1, 3))), runner=None)
    assert (found == found[..., :1]).all()


@pytest.mark.parametrize("name", ["hsv2rgb", "rgb2lab", "lab2rgb"])
def test_new_spaces_of_odd_volumes(name):
    ours = OPERATIONS[name][0]
    for shape in ((3, 1, 1, 1), (3, 0, 4, 5), (3, 2, 2)):
        v = bv.open(np.full(shape, 0.5, "f2"), axes="czyx" if len(shape) == 4 else "cyx")
        found = bv.compute(ours(v), runner=None)
        assert found.shape == shape and found.dtype == "f4"
    x = pixels("f8")
    for n, value in enumerate((np.nan, np.nan, np.nan, np.inf)):
        x[n % 3, 1, n, 0] = value
    found = bv.compute(ours(bv.open(x)), runner=None)
    assert found.tobytes() == bv.compute(ours(bv.open(x)), runner=None, slab=(1, 4, 3)).tobytes()
    assert np.isnan(found[:, 1, :3, 0]).all() and np.isfinite(found[:, 0]).all()
    times = np.stack([x, x[::-1]])
    found = bv.compute(ours(bv.open(times, axes="tczyx")), runner=None)
    for t in range(2):
        assert found[t].tobytes() == bv.compute(ours(bv.open(times[t])), runner=None).tobytes()


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: bv.rgb2gray(np.zeros((4, 5, 5), "u1")[None, 0]), "three channels.* are 1"),
        (lambda: bv.rgb2hsv(np.zeros((4, 1, 5, 5), "u1")), r"are 4: drop alpha with v\[:3\]"),
        (lambda: bv.rgb2hed(np.zeros((3, 1, 5, 5), "i2")), "int16 has no known maximum"),
        (lambda: bv.rgb2hed(np.zeros((3, 1, 5, 5), "u1"), dtype="u1"), "float32 or float64"),
        (lambda: bv.rgb2lab(np.zeros((3, 1, 5, 5)), "D60"), "rgb2lab: illuminant='D60'; use A, B"),
        (lambda: bv.lab2rgb(np.zeros((3, 1, 5, 5)), observer=3), "observer=3; use 2, 10, R"),
        (lambda: bv.lab2rgb(np.zeros((3, 1, 5, 5), "i1")), "lab2rgb: int8 has no known maximum"),
        (lambda: bv.hsv2rgb(np.zeros((2, 1, 5, 5))), "hsv2rgb: three channels.* are 2"),
        (lambda: bv.separate_stains(np.zeros((3, 1, 5, 5), "u1"), [1, 2]), "three rows of three"),
        (
            lambda: bv.separate_stains(np.zeros((3, 1, 5, 5), "u1"), np.eye(3), names=["a", "a"]),
            "different names",
        ),
    ],
)
def test_refused(call, says):
    with pytest.raises((ValueError, TypeError), match=says):
        call()
