"""Statistics of two volumes and of positions against numpy and scipy on the whole volume."""

from fractions import Fraction

import apache_beam as beam
import numpy as np
import pytest
import scipy.ndimage as ndi
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.ops.measure.rounding import root, rounded
from tests.catalogue import DTYPES, shapes, voxels
from tests.tiers import dtypes_drawn, examples
from tests.transforms.trees import membranes, stored


def known(*lazy, **how):
    return bv.compute(*lazy, runner=None, **how)


def exact_covariance(a, b, ddof):
    a, b = ([Fraction(v) for v in x.tolist()] for x in (a, b))
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    pairs = zip(a, b, strict=True)
    return sum((x - mean_a) * (y - mean_b) for x, y in pairs) / (len(a) - ddof)


@st.composite
def cases(draw, dtypes):
    """Two arrays with some NaN, a mask, keywords, and the rest of the arrays."""
    shape = draw(shapes(draw(st.sampled_from([2, 3]))))
    rare = draw(st.sampled_from([0, 0.05]))
    narrow = draw(st.booleans())
    a, b = (
        voxels(shape, draw(st.sampled_from(dtypes)), seed, narrow=narrow, nan=rare, inf=rare)
        for seed in (draw(st.integers(0, 99)), 100)
    )
    a.flat[:3], b.flat[:3] = [0, 1, 1], [0, 0, 1]
    keep = np.isfinite(a) & np.isfinite(b)
    how = {"nan": "omit"}
    if draw(st.booleans()):
        mask = voxels(shape, "u1", 7, narrow=True)
        mask.flat[:3] = 1
        how["mask"] = bv.open(mask)
        keep &= mask != 0
    cut = {
        "slab": tuple(draw(st.integers(1, n)) for n in shape),
        "window": draw(st.sampled_from([None, 1, 3])),
    }
    return a, b, keep, how, cut


@dtypes_drawn([*DTYPES, "u8", "u4"])
@settings(max_examples=examples(60))
@given(data=st.data(), ddof=st.integers(0, 2))
def test_covariance_and_correlation_are_rounded_once(dtypes, data, ddof):
    a, b, keep, how, cut = data.draw(cases(dtypes))
    if keep.sum() <= ddof:
        return
    u, v = bv.open(a), bv.open(b)
    got, r = known(bv.covariance(u, v, ddof=ddof, **how), bv.correlation(u, v, **how), **cut)
    common = np.result_type(a, b)
    x, y = (k[keep].astype(common) for k in (a, b))
    xx, xy, yy = (exact_covariance(*pair, ddof) for pair in ((x, x), (x, y), (y, y)))
    wanted = [rounded(c, np.dtype("f8")) for c in (xx, xy, xy, yy)]
    assert got.dtype == np.float64 and got.ravel().tolist() == wanted
    if xx and yy:
        size = root(xy * xy / (xx * yy))
        assert r == rounded(size if xy > 0 else -size, np.dtype("f8")) and abs(r) <= 1
    if x.size and common.kind != "b" and np.abs(x.astype("f8")).max() < 1e6:
        theirs = np.cov(x.astype("f8"), y.astype("f8"), ddof=ddof)
        np.testing.assert_allclose(got, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


@dtypes_drawn(DTYPES)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_joint_histogram_is_numpy_s(dtypes, data):
    a, b, keep, how, cut = data.draw(cases(dtypes))
    x, y = a[keep], b[keep]
    bins = data.draw(st.sampled_from([1, 7, (3, 40)]))
    u, v = bv.open(a), bv.open(b)
    ranges = {
        "extremes": None,
        "numbers": ((-3, 5), (0.5, 90.25)),
        "lazy": ((bv.min(u, **how), 300), (bv.mean(v, **how) - 100, bv.mean(v, **how))),
    }
    kind = data.draw(st.sampled_from(sorted(ranges)))
    ours = bv.joint_histogram(u, v, bins, ranges[kind], **how)
    numbers = ranges[kind]
    if kind == "lazy":
        low, mean = known(bv.min(u, **how), bv.mean(v, **how))
        if low >= 300:
            return
        numbers = ((low, 300), (mean - 100, mean))
    theirs = np.histogram2d(x, y, bins, numbers)
    got = known(*ours, **cut)
    assert got[0].dtype == np.int64
    np.testing.assert_array_equal(got[0], theirs[0])
    for mine, other, lazy in zip(got[1:], theirs[1:], ours[1:], strict=True):
        np.testing.assert_array_equal(mine, other)
        assert mine.dtype == other.dtype == lazy.dtype and lazy.shape == mine.shape


@pytest.mark.parametrize("dtype", [*DTYPES, "u8"])
@settings(max_examples=12)
@given(data=st.data())
def test_positions_and_centre_are_scipy_s(dtype, data):
    draw = data.draw
    shape = draw(shapes(draw(st.sampled_from([2, 3]))))
    x = voxels(shape, dtype, draw(st.integers(0, 99)), narrow=draw(st.booleans()))
    if draw(st.booleans()):
        x.flat[0] = 0
        x[x < 0] = -0.0 if x.dtype.kind == "f" else 0
    how, labels = {}, None
    if draw(st.booleans()):
        labels = voxels(shape, "?", 3)
        labels.flat[-1] = True
        how["mask"] = bv.open(labels)
    v = bv.open(x)
    crop = tuple(slice(draw(st.integers(0, n - 1)), n) for n in shape)
    w, y = np.maximum(v, v)[crop], x[crop]
    got = known(
        *bv.extrema(v, **how),
        bv.center_of_mass(v, **how),
        bv.maximum_position(w),
        bv.count_nonzero(w),
        bv.any(w),
        bv.all(w),
        slab=tuple(draw(st.integers(1, n)) for n in y.shape) if y.shape == x.shape else None,
        window=draw(st.sampled_from([None, 1, 2])),
    )
    single = x.astype("f4") if dtype == "f2" else x
    low, high, low_at, high_at = ndi.extrema(single, labels)
    assert got[0] == low and got[1] == high
    assert tuple(got[2]) == low_at and tuple(got[3]) == high_at and got[3].dtype == np.int64
    inside = np.argwhere(np.ones(shape, bool) if labels is None else labels).tolist()
    weights = [Fraction(x[tuple(at)].item()) for at in inside]
    for axis, centre in enumerate(got[4]):
        total = sum(weights)
        moment = sum(w * at[axis] for w, at in zip(weights, inside, strict=True))
        if total:
            assert centre == rounded(moment / total, np.dtype("f8"))
        else:
            assert np.isnan(centre)
    assert tuple(got[5]) == ndi.maximum_position(y.astype("f4") if dtype == "f2" else y)
    assert got[6] == np.count_nonzero(y) and got[7] == y.any() and got[8] == y.all()


PAIRS = [bv.covariance, bv.correlation, lambda *v, **h: bv.joint_histogram(*v, **h)[0]]
SINGLE = [bv.center_of_mass, bv.minimum_position, bv.maximum_position]


@pytest.mark.parametrize("function", [*PAIRS, *SINGLE])
def test_no_voxels_and_voxels_that_are_not_finite(function):
    x = voxels((4, 5, 6), "f4", 1)
    others = (bv.open(voxels((4, 5, 6), "u1", 2)),) if function in PAIRS else ()
    with pytest.raises(ValueError, match=r"no voxels"):
        known(function(bv.open(x), *others, mask=bv.open(x * 0)))
    with pytest.raises(ValueError, match=r"no voxels"):
        known(function(bv.open(x[:0]), *(o[:0] for o in others)))
    x[1, 2, 3] = np.inf
    with pytest.raises(ValueError, match=r"1 voxels are NaN or infinite"):
        known(function(bv.open(x), *others))
    with pytest.raises(ValueError, match="nan='ignore'"):
        function(bv.open(x), *others, nan="ignore")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_pairs_of_given_ranges_with_a_voxel_that_is_not_finite(side, value):
    """In either of both volumes: without ranges, their extremes are refused before."""
    pair = [voxels((4, 5, 6), "f4", seed) for seed in (1, 2)]
    pair[side][1, 2, 3] = value
    how = 4, ((-9, 9), (-9, 9))
    with pytest.raises(ValueError, match=r"1 voxels are NaN or infinite"):
        known(bv.joint_histogram(*map(bv.open, pair), *how)[0])
    found = known(bv.joint_histogram(*map(bv.open, pair), *how, nan="omit")[0])
    used = np.isfinite(pair[side])
    np.testing.assert_array_equal(found, np.histogram2d(*(p[used] for p in pair), *how)[0])


def test_what_is_refused():
    v, w = bv.open(np.zeros((3, 4, 5), "u1")), bv.open(np.zeros((3, 4, 4), "f4"))
    for f in (bv.covariance, bv.correlation, bv.joint_histogram):
        with pytest.raises(ValueError, match="crop them to one shape"):
            f(v, w)
    for bins in (0, 2.5, True, (3, 4, 5), (3, 0)):
        with pytest.raises(ValueError, match="bins="):
            bv.joint_histogram(v, v, bins)
    with pytest.raises(ValueError, match="256 MiB"):
        bv.joint_histogram(v, v, 10_000)
    with pytest.raises(ValueError, match="range="):
        bv.joint_histogram(v, v, 3, (0, 4))
    with pytest.raises(ValueError, match="max must be larger"):
        bv.joint_histogram(v, v, 3, ((0, 4), (4, 0)))
    with pytest.raises(ValueError, match="ddof=1 needs more than 1 voxels, not 1"):
        known(bv.covariance(v[:1, :1, :1], v[:1, :1, :1]))


def test_inside_a_pipeline(tmp_path):
    x = membranes()
    v = stored(tmp_path, x, chunks=(5, 12, 14))
    smooth = bv.median_filter(v, 3)
    lazy = {
        "covariance": bv.covariance(v, smooth),
        "joint_histogram": bv.joint_histogram(v, smooth, 9)[0],
        "center_of_mass": bv.center_of_mass(smooth),
        "maximum_position": bv.maximum_position(smooth),
    }
    expected = known(*lazy.values())
    with beam.Pipeline("FnApiRunner") as p:
        done = p | bv.Compute(*lazy.values(), slab=(7, 12, 14), journal=tmp_path / "book")
        for name, array in zip(lazy, expected, strict=True):
            found = done[name] | name >> beam.Map(np.ndarray.tolist)
            assert_that(found, equal_to([array.tolist()]), f"is {name}")
