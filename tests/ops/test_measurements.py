"""Numbers of labels equal scipy's, over partitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage as ndi

import beam_volumes as bv
from tests.tiers import examples

THEIRS = {
    "mean": ndi.mean,
    "sum": ndi.sum_labels,
    "min": ndi.minimum,
    "max": ndi.maximum,
    "median": ndi.median,
    "std": ndi.standard_deviation,
    "variance": ndi.variance,
    "center_of_mass": ndi.center_of_mass,
}


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(data=st.data())
def test_labels_are_measured_as_scipy_does(data):
    draw = data.draw
    shape = tuple(draw(st.integers(2, n)) for n in (7, 12, 14))[draw(st.integers(0, 1)) :]
    dtype = draw(st.sampled_from(["u1", "u4", "f4"]))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    values = (random.random(shape) * 100 + 1).astype(dtype)
    labels = random.integers(0, 6, shape).astype(draw(st.sampled_from(["u1", "u4"])))
    there = np.unique(labels[labels != 0]).tolist()
    if not there:
        return
    index = random.choice(there, draw(st.sampled_from([1, 4, (2, 2)])))
    if draw(st.booleans()):
        index = int(index.ravel()[0])
    name = draw(st.sampled_from(sorted(set(THEIRS) - ({"median"} if dtype[1] > "2" else set()))))
    lazy = getattr(bv, name)(bv.open(values), labels=labels, index=index)
    together = getattr(bv, name)(bv.open(values), labels=labels)
    slab = tuple(draw(st.integers(1, n)) for n in shape)
    got, one = bv.compute(lazy, together, runner=None, slab=slab)
    assert lazy.shape == np.shape(got) and lazy.dtype == got.dtype
    if name == "center_of_mass":
        flat = np.ravel(index).tolist()
        theirs = np.reshape(THEIRS[name](values.astype("f8"), labels, flat), lazy.shape)
    else:
        theirs = THEIRS[name](values.astype("f8"), labels, index)
    np.testing.assert_allclose(got, theirs, rtol=1e-6)
    np.testing.assert_allclose(one, THEIRS[name](values.astype("f8"), labels), rtol=1e-6)


@settings(max_examples=examples(20), deadline=None, derandomize=True)
@given(data=st.data())
def test_extrema_and_their_places_as_scipy_calls_them(data):
    draw = data.draw
    shape = tuple(draw(st.integers(2, n)) for n in (7, 12, 14))[draw(st.integers(0, 1)) :]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    values = random.permutation(np.prod(shape)).reshape(shape).astype("u2")  # no ties
    labels = random.integers(0, 5, shape).astype(draw(st.sampled_from(["u1", "u4"])))
    there = np.unique(labels[labels != 0]).astype(int).tolist()
    if not there:
        return
    index = random.choice(there, 3).tolist()
    name = draw(st.sampled_from(["extrema", "minimum_position", "maximum_position"]))
    ours, theirs = getattr(bv, name), getattr(ndi, name)
    slab = tuple(draw(st.integers(1, n)) for n in shape)
    for chosen in (index, index[0], None):
        lazy = ours(bv.open(values), labels, chosen)
        got = bv.compute(*(lazy if name == "extrema" else [lazy]), runner=None, slab=slab)
        expected = theirs(values, labels if chosen is not None else labels != 0, chosen)
        if name == "extrema":
            for a, b in zip(got, expected, strict=True):
                np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_array_equal(got, expected)


def test_first_extremes_of_several_in_any_partition():
    random = np.random.default_rng(0)
    for dtype in ("?", "u1", "i8", "f2", "f4", "f8"):
        values = (random.random((6, 10, 12)) * 4 - 2).round().astype(dtype)
        if values.dtype.kind == "f":
            values[random.random(values.shape) < 0.1] = np.nan
        labels = random.integers(0, 90, values.shape)
        index = np.unique(labels[labels > 0])[::-1]
        found = bv.extrema(values, labels, index, nan="omit")
        assert [f.dtype for f in found] == [values.dtype, values.dtype, np.int64, np.int64]
        low, high, low_at, high_at = bv.compute(*found, runner=None, slab=(2, 5, 12))
        for k, label in enumerate(index):
            inside = np.where((labels == label) & ~np.isnan(values), values, np.nan)
            if not np.isnan(inside).all():
                first = [np.argwhere(inside == f(inside))[0] for f in (np.nanmin, np.nanmax)]
                np.testing.assert_array_equal([low_at[k], high_at[k]], first)
                assert [low[k], high[k]] == [values[tuple(at)] for at in first]


def test_labels_in_a_pipeline(tmp_path):
    values = np.arange(6 * 8 * 8, dtype="u2").reshape(6, 8, 8)
    labels = values // 40 + 1
    bv.compute(bv.open(values).to(tmp_path / "v.zarr", chunks=(2, 8, 8)), runner=None)
    v = bv.open(tmp_path / "v.zarr")
    mean = bv.mean(v, labels=labels, index=[3, 1])
    target = (v - bv.min(v, labels=labels, index=2)).to(tmp_path / "w.zarr", chunks=(2, 8, 8))
    how = {"slab": (2, 8, 8), "runner": "FnApiRunner", "journal": tmp_path / "run"}
    stored, found = bv.compute(target, mean, **how)
    assert found.tolist() == [99.5, 19.5]
    np.testing.assert_array_equal(stored, values - np.uint16(40))


def test_missing_labels_masks_and_what_is_refused():
    values, labels = np.array([[1, 2, 3, 40]], "u1"), np.array([[1, 1, 0, 3]], "u1")
    assert np.isnan(np.asarray(bv.mean(values, labels=labels, index=[2]))).all()
    assert bv.sum(values, labels=labels, index=[2, 3]).compute().tolist() == [0, 40]
    assert bv.sum(values, labels=labels, index=[]).shape == (0,)
    mask = values != 2
    assert bv.max(values, labels=labels, index=1, mask=mask).compute() == 1
    assert bv.sum(values, labels=labels, mask=mask).compute() == 41
    nothing = np.zeros((0, 2, 2), "u1")
    assert bv.sum(nothing, labels=nothing, index=[4]).compute().tolist() == [0]
    with_nan = np.array([[1, np.nan, 5.0]])
    assert bv.mean(with_nan, labels=np.ones((1, 3), "u1"), index=1, nan="omit").compute() == 3
    for how, error, message in (
        ({"index": 1}, ValueError, "index=1 needs labels="),
        ({"labels": labels, "index": 1.5}, TypeError, "index=1.5"),
        ({"labels": labels, "index": 1, "axis": 0}, ValueError, "axis="),
        ({"labels": labels[:, :2], "index": 1}, ValueError, "do not match"),
    ):
        with pytest.raises(error, match=message):
            bv.mean(values, **how)
    with pytest.raises(TypeError, match=r"median: .* 16 bits .*, or use bv.labeled_comprehension"):
        bv.median(values * 0.5, labels=labels, index=1)
    halves = bv.labeled_comprehension(values * 0.5, labels, [1, 3], np.median, float, np.nan)
    assert np.asarray(halves).tolist() == [0.75, 20]
    assert bv.maximum_position(values, labels, [2, 3]).compute().tolist() == [[0, 0], [0, 3]]
    with pytest.raises(ValueError, match="ddof=1"):
        bv.variance(values, labels=labels, index=1, ddof=1)


@pytest.mark.parametrize("dtype", ["u1", "i4", "u8", "?"])
def test_background_is_measured_if_index_has_0(dtype):
    random = np.random.default_rng(4)
    values, labels = random.integers(0, 99, (3, 5, 6), "u1"), random.integers(0, 3, (3, 5, 6))
    labels, index = labels.astype(dtype), [1, 0] if dtype == "?" else [2, 0, 1]
    for ours, theirs in (
        (bv.sum, ndi.sum),
        (bv.max, ndi.maximum),
        (bv.median, ndi.median),
        (bv.center_of_mass, ndi.center_of_mass),
        (bv.minimum_position, ndi.minimum_position),
    ):
        found = ours(values, labels=labels, index=index).compute(slab=(2, 3, 6))
        np.testing.assert_allclose(found, theirs(values, labels, index), rtol=1e-12)
    counts, _ = bv.histogram(values, 5, (0, 99), labels=labels, index=index)
    np.testing.assert_array_equal(counts, [*ndi.histogram(values, 0, 99, 5, labels, index)])
    with pytest.raises(ValueError, match="index has label -1"):
        bv.sum(values, labels=labels, index=[0, -1])


def test_masks_are_no_labels():
    """As in scikit-image; scipy's measurements of a mask, by contrast, are those under it."""
    mask = np.array([[1, 0, 1], [1, 0, 0]], bool)
    movie = bv.open(np.stack([mask, mask]), axes="tyx")
    for measure in (
        lambda: bv.regionprops_table(mask),
        lambda: bv.regionprops_table(mask, properties=["area_filled"]),
        lambda: bv.region_adjacency(mask),
        lambda: bv.find_objects(mask),
        lambda: bv.for_each_label(mask, lambda r: {"n": 1}, {"n": "u1"}),
        lambda: bv.map_labels(mask, lambda r: r.mask),
        lambda: bv.track(movie),
    ):
        with pytest.raises(TypeError, match=r"labels of bool are a mask.*use bv\.label\(mask\)"):
            measure()
    values = np.arange(6.0).reshape(2, 3)
    assert bv.sum(values, labels=mask, index=1).compute() == 5
    assert bv.labeled_comprehension(values, mask, [1], np.sum, float, 0).tolist() == [5]
    assert bv.regionprops_table(mask.astype("u1"), properties=["area"]).to_pyarrow().num_rows == 1
