"""Changes of intensity against scikit-image's, which truncates where ours are rounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import exposure

import beam_volumes as bv
from tests.catalogue import shapes, voxels

WHOLE = ["u1", "u2", "i2", "i4"]


def close(ours, theirs, dtype):
    """Integers may be one apart, where theirs are truncated."""
    dtype = np.dtype(dtype)
    assert ours.dtype == dtype
    if dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=16 * np.finfo(dtype).eps, atol=1e-6)
    else:
        # Of 32 bits theirs are computed in float64 as ours are, in another order.
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        assert apart.max(initial=0) <= 1


@pytest.mark.parametrize("dtype", [*WHOLE, "f4", "f8"])
@settings(max_examples=15)
@given(data=st.data())
def test_rescale(dtype, data):
    x = voxels(data.draw(shapes(3)), dtype, data.draw(st.integers(0, 99)))
    if x.dtype.kind == "f":
        x /= 1000
    given_in = data.draw(st.sampled_from(["image", "dtype", (3, 90), "uint8", "percentiles"]))
    given_out = data.draw(st.sampled_from(["dtype", "image", "uint8", (-2.0, 5.0), "uint16"]))
    ours_in = theirs_in = given_in
    v = bv.open(x)
    if given_in == "percentiles":
        ours_in = (bv.percentile(v, 10), bv.percentile(v, 80))
        theirs_in = tuple(np.percentile(x, (10, 80)))
    lazy = bv.rescale_intensity(v, ours_in, given_out)
    slab = tuple(-(-n // 2) for n in x.shape)
    ours = bv.compute(lazy, runner=None, slab=slab)
    low, high = (x.min(), x.max()) if given_in == "image" else (0, 1)
    if given_in == "percentiles":
        low, high = theirs_in
    if low == high:
        return  # one value: theirs depends on which
    with np.errstate(all="ignore"):
        theirs = exposure.rescale_intensity(
            x.astype(np.float64) if given_in in ((3, 90), "uint8", "percentiles") else x,
            theirs_in,
            given_out if given_out not in ("dtype", "image") else _limits(x, given_out, theirs_in),
        )
    close(ours, theirs if lazy.dtype.kind == "f" else np.rint(theirs), lazy.dtype)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "f4"])
@pytest.mark.parametrize("by", ["image", "percentiles"])
def test_rescale_by_the_voxels_of_a_mask(dtype, by):
    x = voxels((6, 13, 11), dtype, 3)
    where = (voxels(x.shape, "?", 5)) & (x < np.percentile(x, 70)) & (x > np.percentile(x, 20))
    v, mask = bv.open(x), bv.open(where)
    if by == "image":
        lazy = bv.rescale_intensity(v, out_range=(0, 200), mask=mask)
        low, high = x[where].min(), x[where].max()
    else:
        ends = bv.percentile(v, [2, 98], mask=mask)
        lazy = bv.rescale_intensity(v, tuple(ends), (0, 200))
        assert lazy.node.token == bv.rescale_intensity(v, ends, (0, 200)).node.token
        low, high = np.percentile(x[where], [2, 98])
    expected = np.interp(x.astype("f8"), [low, high], [0, 200])
    ours = bv.compute(lazy, runner=None, slab=(2, 5, 11))
    np.testing.assert_allclose(ours, expected, rtol=16 * np.finfo("f4").eps, atol=1e-4)
    assert (ours == 0).any() and (ours == 200).any()  # there are voxels beyond what the mask has


def _limits(x, given, theirs_in):
    """Their range for an output, as a pair: so that theirs is not truncated."""
    if given == "image":
        return float(x.min()), float(x.max())
    if isinstance(theirs_in, str) and theirs_in == "dtype":
        low = -1.0 if x.dtype.kind == "f" else float(np.iinfo(x.dtype).min)
    elif isinstance(theirs_in, str) and theirs_in == "uint8":
        low = 0.0
    else:
        low = float(x.min()) if theirs_in == "image" else float(theirs_in[0])
    if x.dtype.kind == "f":
        return (0.0 if low >= 0 else -1.0), 1.0
    info = np.iinfo(x.dtype)
    return float(0 if low >= 0 else info.min), float(info.max)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "f4", "f8", "i4"])
@pytest.mark.parametrize("masked", [False, True])
def test_equalize(dtype, masked):
    x = voxels((6, 20, 23), dtype, 3)
    if dtype == "i4":
        x >>= 4  # scikit-image counts every value
    where = voxels(x.shape, "?", 5)
    how = {"mask": bv.open(where)} if masked else {}
    ours = bv.compute(bv.equalize_hist(bv.open(x), **how), runner=None, slab=(4, 11, 12))
    reference = x.astype("f8") if dtype == "i4" else x
    theirs = exposure.equalize_hist(reference, mask=where if masked else None)
    assert ours.dtype == ("f4" if x.dtype.itemsize <= 2 or dtype == "f4" else "f8")
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "i4", "f2", "f4", "f8"])
def test_adjustments(dtype):
    x = voxels((5, 14, 13), dtype, 3)
    x = np.abs(x / x.dtype.type(1000)).clip(0, 1) if x.dtype.kind == "f" else np.maximum(x, 0)
    x.flat[0] = 0
    wide = x if x.dtype != np.float16 else x.astype("f4")
    for name, how in (
        ("gamma", {"gamma": 0.45, "gain": 0.9}),
        ("gamma", {"gamma": 2.2}),
        ("gamma", {"gamma": 0}),
        ("log", {"gain": 0.8}),
        ("log", {"inv": True}),
        ("sigmoid", {"cutoff": 0.4, "gain": 7}),
        ("sigmoid", {"inv": True}),
    ):
        ours = np.asarray(getattr(bv, f"adjust_{name}")(bv.open(x), **how))
        theirs = getattr(exposure, f"adjust_{name}")(wide, **how)
        if dtype == "f2":
            np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-4)
        elif dtype == "i4":
            assert np.abs(ours - theirs.astype("f8")).max() <= 2
        else:
            close(ours, theirs, dtype)


def test_refusals():
    v = bv.open(np.ones((2, 3, 4), "u1"))
    with pytest.raises(ValueError, match="in_range='imgae'"):
        bv.rescale_intensity(v, "imgae")
    with pytest.raises(ValueError, match="does not ascend"):
        bv.rescale_intensity(v, (5, 3))
    with pytest.raises(ValueError, match="two"):
        bv.rescale_intensity(v, (5, 3, 4))
    with pytest.raises(TypeError, match="bool"):
        bv.rescale_intensity(v > 0)
    with pytest.raises(ValueError, match="negative"):
        bv.adjust_gamma(v, -1)
    with pytest.raises(ValueError, match="no voxels"):
        np.asarray(bv.equalize_hist(v, mask=v > 1))


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "f4", "f8"])
@settings(max_examples=8)
@given(data=st.data())
def test_equalization_by_tiles(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(shapes(ndim, most=30, voxels=3000), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=data.draw(st.booleans()))
    sizes = st.tuples(*(st.integers(1, n + 3) for n in shape))
    size = data.draw(st.one_of(st.none(), st.integers(1, 12), sizes), "kernel_size")
    clip, nbins = data.draw(st.sampled_from([0.01, 0.2, 0])), data.draw(st.sampled_from([5, 256]))
    lazy = bv.equalize_adapthist(bv.open(x), size, clip, nbins)
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    ours = bv.compute(lazy, runner=None, slab=slab)
    if x.min() == x.max():
        return  # one value: theirs depends on which
    if ndim == 3 and shape[2] in (3, 4):
        return  # theirs takes them for colours
    levels = x
    if dtype[0] != "u":  # as ours are divided into levels
        wide = x.astype("f8") - float(x.min())
        levels = np.round(wide / wide.max() * 16383).astype("u2")
        if levels.max() < 16383:
            return
    theirs = exposure.equalize_adapthist(levels, size, clip, nbins)
    assert ours.dtype == ("f8" if dtype == "f8" else "f4")
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_equalization_of_each_channel_and_point():
    x = voxels((2, 3, 5, 20, 21), "u1", 4)
    ours = np.asarray(bv.equalize_adapthist(bv.open(x, axes="tczyx"), 6))
    for t, c in np.ndindex(2, 3):
        np.testing.assert_allclose(ours[t, c], exposure.equalize_adapthist(x[t, c], 6), atol=1e-6)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4"])
@pytest.mark.parametrize("reference", ["u1", "u2", "f8"])
def test_matched_histograms(dtype, reference):
    rng = np.random.default_rng(3)
    x = rng.normal(50, 12, (11, 20, 21)).astype(dtype)
    like = rng.gamma(2, 20, (3, 40, 33)).clip(0, 255).astype(reference)
    ours = bv.compute(bv.match_histograms(x, like), runner=None, slab=(4, 9, 21))
    # scikit-image fails if only the first is unsigned.
    theirs = exposure.match_histograms(x.astype("f8"), like.astype("f8"))
    exact = dtype != "f4" and reference != "f8"
    if exact:
        return close(ours, theirs, "f4")
    shares = range(2, 99)
    np.testing.assert_allclose(np.percentile(ours, shares), np.percentile(theirs, shares), atol=0.5)


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_matched_histograms_of_repeated_values_are_not_interpolated(dtype):
    """Voxels have the share of their own value, as in scikit-image, however far apart the values are."""
    rng = np.random.default_rng(5)
    wide = 1000 if dtype == "f2" else 2**30
    x = np.append(rng.integers(0, 9, 40), wide)[rng.integers(0, 41, (3, 20, 7))].astype(dtype)
    like = rng.choice([3, 4, 50, wide], (2, 21, 10)).astype(dtype)
    expected = exposure.match_histograms(x.astype("f8").ravel(), like.astype("f8").ravel())
    ours = bv.compute(bv.match_histograms(x, like), runner=None, slab=(2, 9, 7))
    np.testing.assert_allclose(ours, expected.reshape(x.shape), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(bv.match_histograms(x, x)), x)


def test_matched_histograms_of_many_values_are_within_the_documented_bound():
    rng = np.random.default_rng(6)
    x = rng.normal(50, 12, (5, 30, 40))
    like = np.append(rng.gamma(2, 20, 5000), [-300, 900]).reshape(1, 1, -1)
    expected = exposure.match_histograms(x, like.reshape(1, 2, -1)).ravel()
    for nbins in (7, 100):
        edges = np.histogram_bin_edges(x, nbins)
        bins = np.digitize(x.ravel(), edges[1:-1])
        of_largest = np.array([expected[bins == b].max(initial=-np.inf) for b in range(nbins)])[
            bins
        ]
        counts, edges = np.histogram(like, nbins)
        occupied = ((edges[1:] + edges[:-1]) / 2)[counts > 0]
        bound = np.diff(occupied).max() + np.diff(edges)[0] / 2
        ours = np.asarray(bv.match_histograms(x, like, nbins=nbins)).ravel()
        assert np.abs(ours - of_largest).max() <= bound
        assert (np.diff(ours[np.argsort(x.ravel())]) >= 0).all()
        same = np.asarray(bv.match_histograms(x, x, nbins=nbins))
        assert np.abs(same - x).max() <= np.ptp(x) / nbins / 2 * (1 + 1e-12)


@pytest.mark.parametrize("value", [0, 7.1, 1e8, -3e30])
def test_matched_histograms_of_one_value_need_no_finite_bins(value):
    x, like = np.full((2, 3, 4), value, "f4"), np.arange(24, dtype="f8").reshape(2, 3, 4)
    assert (np.asarray(bv.match_histograms(x, like)) == 23).all()
    assert (np.asarray(bv.match_histograms(like, x)) == np.float32(value)).all()


def test_matched_histograms_of_large_values_are_finite():
    x, like = np.array([[1e300, -1e300, 1e308, 3.0]]), np.array([[1.0, 1.5e308, 1.6e308, 2.0]])
    for reference in (x, like):
        ours = np.asarray(bv.match_histograms(x, reference))
        np.testing.assert_array_equal(ours, exposure.match_histograms(x, reference))


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("call", [bv.equalize_hist, lambda v: bv.match_histograms(v, v)])
def test_histograms_never_round_integers_beyond_2_53(dtype, call):
    info = np.iinfo(dtype)
    for first in (
        2**53 - 2,
        int(info.max) - 3,
        *((-(2**53) - 1, int(info.min)) if info.min else ()),
    ):
        x = np.array([[first + k for k in range(4)]], dtype)
        with pytest.raises(ValueError, match=r"beyond 2\*\*53.*subtract their minimum"):
            np.asarray(call(x))
        np.testing.assert_array_equal(
            np.asarray(call(bv.open(x) - bv.min(x))), np.asarray(call(np.arange(4)[None]))
        )
    with pytest.raises(ValueError, match=r"rounds them; round them with"):
        np.asarray(call(np.array([[info.min, info.max]], dtype)))
    x = np.array([[-(2**53) if info.min else 0, 2**53 - 1, 2**53]], dtype)
    np.testing.assert_array_equal(np.asarray(bv.match_histograms(x, x)).astype(dtype), x)


SIZES = {
    "large": [1.0, -8e307, 8e307, 3e300, -2.0],
    "near the largest": [1e308, 1.1e308, 1.3e308, 1.7e308],
    "subnormal": [5e-324, 1e-323, 1.5e-323, 1e-321, 1.1e-321],
    "next to each other": [1.0, 1 + 2**-52, 1 + 2**-51],
    "float32": [1e38, 3.0e38, 3.4e38],
    "smallest of float32": [1e-45, 3e-45, 4e-45],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", SIZES)
def test_histograms_of_floats_of_any_size_are_exact(size):
    """No slope, sum or result overflows or is lost; numpy's extended precision is the reference."""
    x = np.array(SIZES[size], "f4" if "float32" in size else "f8").reshape(1, 1, -1)
    few = np.array([0, 1, 1, 2, 3, 3, 3, 9], "u1").reshape(2, 2, 2)
    ours = np.asarray(bv.match_histograms(few, x))
    assert ours.dtype == x.dtype
    values = np.sort(x.ravel()).astype(np.longdouble)
    shares = np.arange(1, len(values) + 1) / np.longdouble(len(values))
    wanted = (few.ravel()[:, None] >= few.ravel()).sum(axis=1) / np.longdouble(few.size)
    right = np.searchsorted(shares, wanted).clip(1)
    part = ((wanted - shares[right - 1]) / (shares[right] - shares[right - 1])).clip(0)
    exact = values[right - 1] * (1 - part) + values[right] * part
    error = np.abs(ours.ravel() - exact)
    assert (error <= np.abs(values).max() * 2**-23 + np.spacing(x.dtype.type(0))).all()
    np.testing.assert_array_equal(np.asarray(bv.match_histograms(x, x)), x)
    back = np.asarray(bv.match_histograms(x, few)).ravel()
    assert (np.diff(back[np.argsort(x.ravel())]) >= 0).all() and back.max() == 9
    share = np.asarray(bv.equalize_hist(x, 4)).ravel()
    in_order = share[np.argsort(x.ravel())]
    assert (np.diff(in_order) >= 0).all() and 0 < in_order[0] < in_order[-1] <= 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_range_beyond_the_dtype_is_refused_as_such(dtype):
    x = np.array([[-1, 0, 1]], dtype) * np.finfo(dtype).max
    for lazy in (
        bv.equalize_hist(x),
        bv.match_histograms(x, x),
        bv.match_histograms(np.ones((1, 2), "u1"), x),
        bv.histogram(x, 1),
    ):
        with pytest.raises(ValueError, match="has a range beyond float"):
            bv.compute(lazy, runner=None)
    if dtype == "f4":
        x = x.astype("f8")
        np.testing.assert_array_equal(np.asarray(bv.match_histograms(x, x)), x)


def test_matched_histograms_of_channels():
    x, like = voxels((3, 9, 10), "u1", 1), voxels((3, 5, 7), "u1", 2)
    ours = np.asarray(bv.match_histograms(bv.open(x, axes="cyx"), bv.open(like, axes="cyx")))
    # With a channel axis, scikit-image truncates.
    for c in range(3):
        close(ours[c], exposure.match_histograms(x[c], like[c]), "f4")
    with pytest.raises(ValueError, match="3 channels, but the reference 0"):
        bv.match_histograms(bv.open(x, axes="cyx"), like[0])
    with pytest.raises(ValueError, match="into 8,000 tiles"):
        bv.equalize_adapthist(bv.open(np.zeros((20, 20, 20), "u1")), 1, nbins=1 << 14)
    with pytest.raises(ValueError, match="clip_limit=-1"):
        bv.equalize_adapthist(x, clip_limit=-1)


@pytest.mark.parametrize("first", [2**62, 2**64 - 50, -(2**62)])
def test_close_integers_that_float64_rounds_are_refused(first):
    """They had all one result."""
    x = np.array([[[first, first + 29, first + 49]]], "u8" if first > 0 else "i8")
    for in_range in ("image", (first, first + 49)):
        with pytest.raises(ValueError, match=r"too close to each other for float64.*subtract"):
            np.asarray(bv.rescale_intensity(x, in_range))
    ends = np.iinfo(x.dtype)
    whole = np.array([[[ends.min, 0, ends.max]]], x.dtype)
    np.testing.assert_array_equal(bv.rescale_intensity(whole), whole)
