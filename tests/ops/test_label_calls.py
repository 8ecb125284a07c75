"""Calls of scipy's and scikit-image's functions of labels, typed as in their documents, on known arrays."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from skimage import color, feature, measure, metrics, morphology, segmentation

import beam_volumes as bv

RANDOM = np.random.default_rng(3)
IMAGE = ndimage.gaussian_filter(RANDOM.random((24, 30)), 1.5)
IMAGE = ((IMAGE - IMAGE.min()) / np.ptp(IMAGE) * 250).astype("u1")
MASK = IMAGE > 130
LABELS = ndimage.label(MASK)[0] * 3
DISTANCE = ndimage.distance_transform_edt(MASK)
MARKERS = np.zeros(MASK.shape, int)
for number, (row, column) in enumerate(feature.peak_local_max(DISTANCE, min_distance=2), 1):
    MARKERS[row, column] = number
NAMES = {
    **{"np": np, "image": IMAGE, "mask": MASK, "labels": LABELS, "distance": DISTANCE},
    **{
        "markers": MARKERS,
        "other": np.where(IMAGE > 90, 1, 0) + (IMAGE > 160),
        "three": np.ones((3, 3)),
    },
    **{"seed": np.where(MASK, 0, IMAGE) * 0 + np.minimum(IMAGE, 60), "some": [3, 9, 6]},
}


def first(found):
    return found[0]


def positions(found):
    return found if isinstance(found, np.ndarray) else np.stack([found["y"], found["x"]], axis=1)


def blobs(found):
    if not isinstance(found, np.ndarray):
        found = np.stack([found[name] for name in ("y", "x", "sigma")], axis=1)
    return np.unique(found, axis=0)


def channels_first(found):
    return found if isinstance(found, bv.Volume) else np.moveaxis(found, -1, 0)


SHAPES = (
    "label",
    "area_bbox",
    "area_convex",
    "solidity",
    "euler_number",
    "eccentricity",
)
SHAPES += (
    "axis_major_length",
    "feret_diameter_max",
    "perimeter",
    "perimeter_crofton",
    "inertia_tensor",
)
SHAPES += (
    "intensity_std",
    "intensity_median",
    "moments_hu",
    "moments_weighted_hu",
    "centroid_weighted",
)
#: The module, the call, and what makes both results comparable.
CALLS = [
    (ndimage, "label(mask)", lambda f: f[0] if isinstance(f, tuple) else f),
    (ndimage, "label(mask, structure=three)", lambda f: f[0] if isinstance(f, tuple) else f),
    (ndimage, "find_objects(labels)", None),
    (ndimage, "binary_fill_holes(~mask)", None),
    (ndimage, "binary_propagation(markers > 0, mask=mask)", None),
    (ndimage, "sum(image, labels=labels, index=some)", None),
    (ndimage, "mean(image, labels, some)", None),
    (ndimage, "mean(image, labels)", None),
    (ndimage, "sum(image, labels, index=some)", None),
    (ndimage, "median(image, labels=labels, index=some)", None),
    (ndimage, "variance(image, labels=labels, index=some)", None),
    (ndimage, "center_of_mass(image, labels=labels, index=some)", None),
    (ndimage, "labeled_comprehension(image, labels, some, np.ptp, float, 0)", None),
    (ndimage, "maximum_position(image, labels, some)", None),
    (ndimage, "minimum_position(image, labels, some)", None),
    (
        ndimage,
        "extrema(image, labels, some)",
        lambda f: np.column_stack([np.asarray(p) for p in f]),
    ),
    (ndimage, "maximum_position(distance)", None),
    (ndimage, "distance_transform_edt(mask)", None),
    (ndimage, "distance_transform_edt(mask, sampling=[2, 1])", None),
    (ndimage, "distance_transform_cdt(mask)", None),
    (measure, "label(mask, connectivity=2)", None),
    (
        measure,
        "regionprops_table(labels, properties=('label', 'bbox', 'centroid', 'extent'))",
        dict,
    ),
    (measure, "regionprops_table(labels, image, properties=['label', 'intensity_mean'])", dict),
    (measure, f"regionprops_table(labels, intensity_image=image, properties={SHAPES})", dict),
    (morphology, "remove_small_objects(mask, max_size=8)", None),
    (morphology, "remove_small_holes(mask, max_size=8)", None),
    (morphology, "area_opening(mask, 9)", None),
    (morphology, "area_closing(mask, area_threshold=9, connectivity=2)", None),
    (morphology, "area_opening(image, 9)", None),
    (morphology, "diameter_closing(image)", None),
    (morphology, "reconstruction(seed, image)", None),
    (morphology, "h_maxima(image, 30)", None),
    (morphology, "local_maxima(image)", None),
    (morphology, "flood(image, (0, 0), tolerance=40)", None),
    (morphology, "flood_fill(image, (-1, 5), 255, connectivity=1, tolerance=60)", None),
    (segmentation, "clear_border(labels)", None),
    (segmentation, "find_boundaries(labels, mode='inner')", None),
    (segmentation, "relabel_sequential(labels)", first),
    (segmentation, "join_segmentations(labels, other)", None),
    (segmentation, "expand_labels(labels, distance=1)", None),
    (segmentation, "watershed(-distance, markers, mask=mask) > 0", None),
    (segmentation, "mark_boundaries(image, labels)", channels_first),
    (color, "label2rgb(labels % 7)", channels_first),
    (feature, "peak_local_max(distance, min_distance=2)", positions),
    (feature, "blob_log(image / 255, max_sigma=4, num_sigma=4, threshold=0.02)", blobs),
    (feature, "blob_dog(image / 255, max_sigma=4, threshold=0.02)", blobs),
    (feature, "peak_local_max(image, labels=labels, num_peaks_per_label=2)", positions),
    (metrics, "variation_of_information(labels, other)", None),
    (metrics, "adapted_rand_error(other, labels)", None),
]


@pytest.mark.parametrize("module, call, same", CALLS, ids=[call for _, call, _ in CALLS])
def test_calls_give_what_the_library_gives(module, call, same):
    same, name = same or (lambda found: found), call.partition("(")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = same(eval(call, {name: getattr(module, name), **NAMES}))
    ours = same(eval(call, {name: getattr(bv, name), **NAMES}))
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for name in theirs:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-9, err_msg=name)
    elif isinstance(theirs, list) and isinstance(theirs[0], tuple | type(None)) and "find" in call:
        assert list(ours) == theirs
    else:
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)


@pytest.mark.parametrize("some", [3, [3, 9, 6, 5]])
def test_histograms_of_labels(some):
    ours, edges = bv.histogram(bv.open(IMAGE), 16, (20, 200), labels=LABELS, index=some)
    theirs = ndimage.histogram(IMAGE, 20, 200, 16, LABELS, some)
    zeros = np.zeros(16, int)  # scipy has None for a missing label
    expected = theirs if some == 3 else [zeros if n is None else n for n in theirs]
    assert np.array_equal(ours, np.asarray(expected))
    assert np.allclose(edges, np.linspace(20, 200, 17))
    whole = bv.histogram(IMAGE, 16, (20, 200), labels=LABELS)[0]
    assert np.array_equal(whole, ndimage.histogram(IMAGE, 20, 200, 16, LABELS > 0, 1))


@pytest.mark.parametrize("slab", [(9, 12, 14), (2, 5, 14), (1, 12, 4)])
def test_floods_and_lines_do_not_depend_on_slabs(slab):
    noise = ndimage.gaussian_filter(np.random.default_rng(5).random((9, 12, 14)), 1).astype("f4")
    point, how = (4, 6, -7), {"connectivity": 1, "tolerance": 0.04}
    seen = segmentation.flood(noise, point, **how)
    assert 20 < seen.sum() < seen.size / 2
    filled = segmentation.flood_fill(noise, point, 3.5, tolerance=0.02)
    volume = bv.open(noise)
    basins, lines = bv.watershed(volume), bv.watershed(volume, watershed_line=True)
    targets = [bv.flood(volume, point, **how), bv.flood_fill(volume, point, 3.5, tolerance=0.02)]
    found = bv.compute(*targets, basins, lines, runner=None, slab=slab)
    flooded, replaced, basins, lines = map(np.asarray, found)
    assert np.array_equal(flooded, seen) and np.array_equal(replaced, filled)
    kept = lines != 0
    assert np.array_equal(lines[kept], basins[kept]) and 0.2 < kept.mean() < 1
    padded = np.pad(basins, 1)  # labels begin at 1
    smaller = np.zeros(basins.shape, bool)
    for axis in range(3):
        for step in (-1, 1):
            neighbour = np.roll(padded, step, axis)[1:-1, 1:-1, 1:-1]
            smaller |= (neighbour > 0) & (neighbour < basins)
    assert np.array_equal(~kept, smaller)


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "f4", "f8"])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_components_of_grey_levels(dtype, data):
    shape = (6, 7, 14)[data.draw(st.integers(0, 1)) :]
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = (random.random(shape) * data.draw(st.sampled_from([4, 90]))).astype(dtype)
    x = random.random(shape) < 0.6 if dtype == "?" else x
    name = data.draw(st.sampled_from(["area", "diameter"])) + data.draw(
        st.sampled_from(["_opening", "_closing"])
    )
    how = data.draw(st.sampled_from([1, 2, 5, 9])), data.draw(st.integers(1, len(shape)))
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    ours = bv.compute(getattr(bv, name)(x, *how), runner=None, slab=slab)
    theirs = getattr(morphology, name)(x, *how)
    if dtype[0] == "f" and name.endswith("closing"):  # scikit-image subtracts from 1, and rounds
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    else:
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_a_grey_volume_smaller_than_the_threshold_has_one_level():
    x = np.array([[3, 9, 4, np.nan]], "f4")
    assert np.asarray(bv.area_opening(x, 10**9)).tolist() == [[3] * 4]
    assert np.isnan(np.asarray(bv.diameter_closing(x, 5))).all()
    assert np.asarray(bv.area_opening(x, 2)).tolist() == [[3, 4, 4, 4]]


def test_refusals():
    with pytest.raises(ValueError, match="diameter_threshold=-1"):
        bv.diameter_opening(IMAGE, -1)
    with pytest.raises(ValueError, match=r"seed_point=\(1, 99\) is not a voxel .*give 2 numbers"):
        bv.flood(IMAGE, (1, 99))
