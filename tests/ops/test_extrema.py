"""Local extrema and peaks against scikit-image, in random partitions."""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import skimage.morphology as theirs
from hypothesis import given, settings
from scipy import ndimage as ndi
from skimage.feature import peak_local_max

import beam_volumes as bv
from tests.ops.test_reconstruction import image_of, kinds, shape_and_slab
from tests.tiers import dtypes_drawn, examples

DTYPES = ["u1", "f4", "i2", "u8", "f8"]


@dtypes_drawn(DTYPES)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_local_extrema(dtypes, data):
    draw = data.draw
    shape, cut = shape_and_slab(draw)
    image = image_of(draw, shape, draw(st.sampled_from(dtypes)), kinds(draw))
    how = {
        "connectivity": draw(st.sampled_from([None, *range(1, len(shape) + 1)])),
        "allow_borders": draw(st.booleans()),
    }
    name = draw(st.sampled_from(["local_maxima", "local_minima"]))
    ours = bv.compute(getattr(bv, name)(bv.open(image), **how), runner=None, **cut)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too small without borders
        expected = getattr(theirs, name)(image, **how)
    np.testing.assert_array_equal(ours, expected, strict=True)


@dtypes_drawn(["u1", "f4", "i2"])
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_peaks(dtypes, data):
    draw = data.draw
    shape, cut = shape_and_slab(draw)
    if len(shape) == 3 and draw(st.booleans()):
        shape = (4, 14, 16)
    image = image_of(draw, shape, draw(st.sampled_from(dtypes)), kinds(draw))
    how = {
        "min_distance": draw(st.integers(1, 3)),
        "threshold_abs": draw(st.sampled_from([None, 3])),
        "threshold_rel": draw(st.sampled_from([None, 0.4])),
        "exclude_border": draw(st.sampled_from([True, False, 1, (0, 2, 1)[-len(shape) :]])),
        "num_peaks": draw(st.sampled_from([np.inf, 4])),
        "p_norm": draw(st.sampled_from([np.inf, 2.0])),
    }
    if draw(st.integers(0, 3)) == 0:
        how["footprint"] = ndi.generate_binary_structure(len(shape), 1)
    if draw(st.booleans()):
        how["labels"] = (image_of(draw, shape, np.dtype("u1"), kinds(draw)) % 4).astype("i4")
        how["num_peaks_per_label"] = draw(st.sampled_from([np.inf, 2]))
    slab = tuple(min(a, b) for a, b in zip(cut["slab"], shape, strict=True))
    table = bv.compute(
        bv.peak_local_max(bv.open(image), **how), runner=None, slab=slab, window=cut["window"]
    )
    expected = peak_local_max(image, **how)
    assert table["rank"].to_pylist() == list(range(1, len(expected) + 1))
    places = [table[axis].to_numpy() for axis in "zyx"[-len(shape) :]]
    np.testing.assert_array_equal(np.stack(places, axis=1), expected.reshape(-1, len(shape)))
    expected = tuple(expected.reshape(-1, len(shape)).T)
    np.testing.assert_array_equal(table["intensity"].to_numpy(), image[expected])
    if "labels" in how:
        np.testing.assert_array_equal(table["label"].to_numpy(), how["labels"][expected])


def test_peaks_many_and_refused():
    image = np.random.default_rng(0).integers(0, 40, (3, 70, 80), dtype="u1")  # more than a batch
    how = {"min_distance": 2, "footprint": np.ones((1, 1, 3)), "p_norm": 2.0, "exclude_border": 0}
    table = bv.peak_local_max(image, **how).to_pyarrow()
    places = np.stack([table[axis].to_numpy() for axis in "zyx"], axis=1)
    assert len(places) > 1000
    np.testing.assert_array_equal(places, peak_local_max(image, **how))
    # Along y peaks are 4 apart, along x 2.
    table = bv.peak_local_max(image[0], min_distance=(4, 2)).to_pyarrow()
    y, x = (table[axis].to_numpy() for axis in "yx")
    near = (abs(y[:, None] - y) < 4) & (abs(x[:, None] - x) < 2)
    assert len(y) > 20 and near.sum() == len(y)
    for bad, error in (
        ({"min_distance": -1}, ValueError),
        ({"min_distance": 1.5}, TypeError),
        ({"exclude_border": (1, 2)}, ValueError),
        ({"p_norm": 0.5}, ValueError),
        ({"p_norm": 1e3}, ValueError),
        ({"num_peaks": -1}, ValueError),
    ):
        with pytest.raises(error, match=next(iter(bad))):
            bv.peak_local_max(image, **bad)


def places_of(table):
    return np.stack([table[axis] for axis in "zyx"], axis=1)


@pytest.mark.parametrize("distance", [100, 10**6, 10**19])
@pytest.mark.parametrize("p_norm", [1, 1.5, 2, np.inf])
@pytest.mark.parametrize("with_labels", [False, True])
def test_a_distance_larger_than_the_volume(distance, p_norm, with_labels):
    image = np.random.default_rng(0).integers(0, 40, (3, 7, 9)).astype("f4")
    how = {"p_norm": p_norm, "exclude_border": False}
    if with_labels:
        how["labels"] = (np.arange(image.size) % 5).reshape(image.shape)
    expected = peak_local_max(image, min_distance=100, **how)
    table = bv.peak_local_max(image, min_distance=distance, **how).to_pyarrow()
    np.testing.assert_array_equal(places_of(table), expected)
    how["exclude_border"] = True
    assert not len(bv.peak_local_max(image, min_distance=distance, **how)["x"])


@pytest.mark.parametrize("distance", [3, (1, 2, 3)])
@pytest.mark.parametrize("p_norm", [50, 90.5, 300])
def test_peaks_of_many_labels_with_a_large_norm(distance, p_norm):
    """The distance between labels is not a part of the sum of powers."""
    image = np.random.default_rng(0).random((6, 9, 10)).astype("f4")
    labels = (np.arange(image.size) // 8 + 1).reshape(image.shape)
    how = {"labels": labels, "min_distance": distance, "exclude_border": False}
    found, expected = (
        places_of(bv.peak_local_max(image, p_norm=p, **how)) for p in (p_norm, np.inf)
    )
    assert len(found) >= len(expected) > 60
    if distance == 3:
        theirs = peak_local_max(image, p_norm=p_norm, **how)
        np.testing.assert_array_equal(found, theirs)


def test_a_large_plateau_and_one_value():
    image = np.ones((4, 9, 9), "u1")
    assert not np.asarray(bv.local_maxima(image)).any()
    image[0, 0, 0] = 2
    assert np.asarray(bv.local_maxima(image)).sum() == 1
    image[0, 0, 0] = 0
    expected = theirs.local_maxima(image)
    np.testing.assert_array_equal(
        bv.compute(bv.local_maxima(image), runner=None, slab=(1, 4, 5)), expected
    )
    with pytest.raises(ValueError, match="connectivity=4"):
        bv.local_maxima(image, connectivity=4)


def test_nan_is_lower_than_all():
    image = np.array([[1, np.nan, np.nan, 2, 3, np.nan]], "f4")
    assert np.asarray(bv.local_maxima(image))[0].tolist() == [
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert np.asarray(bv.local_minima(image))[0].tolist() == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("shape", [(20, 21), (9, 16, 17)])
def test_blobs_of_an_image_with_nan_warn(shape):
    image = np.random.default_rng(0).normal(size=shape)
    how = {"max_sigma": 2, "num_sigma": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bv.compute(bv.blob_log(image, **how), runner=None, progress=False)
    image[(5,) * len(shape)] = np.nan
    for table in (bv.blob_log(image, **how), bv.blob_dog(image * 2, max_sigma=2)):
        with pytest.warns(UserWarning, match="has NaN: no blobs are detected"):
            bv.compute(table, runner=None, progress=False)
