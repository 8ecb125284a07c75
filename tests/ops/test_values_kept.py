"""Labels, marks and heights come through as they are given: not rounded, wrapped around or left out."""

import warnings

import numpy as np
import pytest
import skimage.feature
import skimage.filters
import skimage.measure
import skimage.morphology
import skimage.segmentation
from scipy import ndimage as ndi

import beam_volumes as bv

LARGE = 2**63 + 1


def computed(item, **how):
    return bv.compute(item, runner=None, progress=False, **how)


def same_everywhere(make, slabs=((1, 5, 6), (4, 2, 6), (2, 3, 3))):
    """A result that is the same, to the sign of zero, in one piece and in slabs."""
    whole = computed(make())
    for slab in slabs:
        part = computed(make(), slab=slab)
        np.testing.assert_array_equal(part, whole)
        np.testing.assert_array_equal(np.signbit(part), np.signbit(whole))
    return whole


# Python's integers


def test_relabel_keeps_integers_on_both_sides_of_two_to_the_63():
    labels = np.array([[1, LARGE, 0]], "u8")
    for mapping in ({1: LARGE, LARGE: 2}, ([1, LARGE], [LARGE, 2])):
        assert computed(bv.relabel(labels, mapping)).tolist() == [[LARGE, 2, 0]]
    assert computed(bv.relabel(labels, {1: -1, LARGE: 2})).tolist() == [[-1, 2, 0]]
    assert computed(bv.relabel(labels, {}, missing=LARGE)).tolist() == [[LARGE, LARGE, 0]]
    with pytest.raises(ValueError, match=r"has -1 and 9223372036854775809: no integer dtype"):
        bv.relabel(labels, {1: -1, LARGE: LARGE})
    with pytest.raises(ValueError, match="float64 would round"):
        bv.relabel(labels, {1: 0.5, LARGE: LARGE})


def test_relabel_cuts_no_fractions_off():
    labels = np.array([[1, 2]], "u1")
    with pytest.raises(ValueError, match=r"1\.5 is not an integer"):
        bv.relabel(labels, {1: 1.5, 2: 2.0}, dtype="u1")
    with pytest.raises(ValueError, match=r"missing=1\.5 does not fit"):
        bv.relabel(labels, {1: 1}, missing=1.5)
    with pytest.raises(TypeError, match="missing=None"):
        bv.relabel(labels, {1: 1}, missing=None)
    assert computed(bv.relabel(labels, {1: 1.0, 2: 7.0}, dtype="u1")).tolist() == [[1, 7]]


def test_rows_without_a_value_are_no_floats():
    pa = pytest.importorskip("pyarrow")
    labels = np.array([[1, 2]], "u1")
    table = pa.table({"label": [1, 2], "value": pa.array([LARGE, None], "u8")})
    with pytest.raises(ValueError, match="column value has rows without a value"):
        bv.relabel(labels, table)
    edges = pa.table({"label_a": [1], "label_b": pa.array([None], "u8"), "affinity_max": [1]})
    with pytest.raises(ValueError, match="label_b of edges has rows without a value"):
        bv.agglomerate(edges, "max", threshold=0)


def test_labels_that_are_looked_up_are_compared_as_integers(tmp_path):
    labels = np.array([[LARGE, LARGE + 1, 1]], "u8")
    image = bv.open(np.array([[3, 5, 7]], "u1"))
    found = bv.labeled_comprehension(image, labels, [1, LARGE + 1, 9], np.sum, int, -1)
    assert found.tolist() == [7, 5, -1]
    table = bv.regionprops_table(labels, image)
    assert table.at([LARGE, 1, LARGE + 7], "intensity_max").tolist() == [3, 7, 0]
    assert table.at([-1, 1], "intensity_max").tolist() == [0, 7]
    with pytest.raises(TypeError, match="index"):
        table.at([1.5], "intensity_max")


@pytest.mark.parametrize("ids", [[2**53, 2**53 + 1], [LARGE, 2**64 - 1]])
def test_expand_labels_keeps_labels_that_no_float_holds(ids):
    small = np.zeros((2, 5, 9), "u8")
    small[0, 2, 2], small[0, 2, 6] = 1, 2
    expected = np.array([0, *ids], "u8")[skimage.segmentation.expand_labels(small, 2)]
    labels = np.array([0, *ids], "u8")[small]
    np.testing.assert_array_equal(same_everywhere(lambda: bv.expand_labels(labels, 2)), expected)


@pytest.mark.parametrize(
    ("cval", "mode"),
    [(2**53 + 1, "constant"), (2**64 - 3, "grid-constant"), (-(2**53) - 1, "constant")],
)
def test_constants_outside_are_not_rounded(cval, mode):
    """Of all functions with ``cval``: a shift by a row, or the constant next to a voxel."""
    dtype = np.dtype("i8" if cval < 0 else "u8")
    x = np.arange(60).reshape(3, 4, 5).astype(dtype)
    moved = np.full_like(x, dtype.type(cval))
    moved[:, 1:] = x[:, :-1]
    field = np.zeros((3, *x.shape))
    field[1] = -1
    places = np.indices(x.shape) + field
    how = {"order": 0, "mode": mode, "cval": cval}
    back = np.eye(3)[None].repeat(3, 0)
    back[:, 0, 2] = 1
    for found in (
        bv.shift(x, (0, 1, 0), **how),
        bv.affine_transform(x, np.eye(3), (0, -1, 0), **how),
        bv.warp(x, bv.open(field, axes="czyx"), max_displacement=1, **how),
        bv.map_coordinates(x, bv.open(places, axes="czyx"), max_displacement=1, **how),
        bv.map_overlap(lambda b: np.roll(b, 1, 1), x, depth=1, mode=mode, cval=cval),
    ):
        np.testing.assert_array_equal(computed(found, slab=(2, 3, 5)), moved)
    turned = set(computed(bv.rotate(x, 40, **how)).ravel().tolist())
    assert cval in turned and turned <= {cval, *x.ravel().tolist()}
    if mode == "constant":
        found = computed(bv.apply_transforms(x, back, order=0, cval=cval))
        np.testing.assert_array_equal(found, moved)
    extreme = bv.minimum_filter if cval < 0 else bv.maximum_filter
    assert (computed(extreme(x, (1, 3, 1), mode=mode, cval=cval))[:, 0] == cval).all()
    assert (computed(bv.pad(x, ((1, 0), (0, 0), (0, 0)), constant_values=cval))[0] == cval).all()


# Functions of users


@pytest.mark.parametrize(
    ("function", "dtype"),
    [(lambda b: b / 65535, "f8"), (lambda b: b.astype("i4") - 9000, "i4"), (lambda b: b > 99, "?")],
)
def test_map_overlap_has_the_dtype_that_its_function_returns(function, dtype):
    x = np.arange(24, dtype="u2").reshape(2, 3, 4) * 2000
    found = same_everywhere(lambda: bv.map_overlap(function, x, depth=1), [(1, 2, 4)])
    np.testing.assert_array_equal(found, function(x))
    assert found.dtype == dtype
    planes = bv.open(np.stack([x, x + 1]), axes="czyx")
    mixed = bv.map_overlap(lambda b: function(b[:1]), planes, mixes="channels", channels=1)
    assert mixed.dtype == dtype


@pytest.mark.parametrize(
    ("function", "dtype", "says"),
    [
        (lambda b: b / 3, "u2", "returned float64, but the result is uint16"),
        (lambda b: b * np.nan, "i8", "returned float64, but the result is int64"),
        (lambda b: b, bool, "returned uint16, but the result is bool"),
        (lambda b: b * 1j, "f8", "returned complex128, but the result is float64"),
        (lambda b: b.astype("i4") - 9, "u2", "returned -9, which is not a uint16 number"),
        (lambda b: b, "u1", "returned 46000, which is not a uint8 number"),
        (lambda b: b * 1e300, "f4", "returned a number of float64 that is infinite in float32"),
    ],
)
def test_results_of_functions_that_the_dtype_cannot_hold_are_refused(function, dtype, says):
    x = np.arange(24, dtype="u2").reshape(2, 3, 4) * 2000
    with pytest.raises(ValueError, match=rf"own: the function {says}"):
        computed(bv.map_overlap(function, x, dtype=dtype, name="own"))
    if dtype is not bool:
        with pytest.raises(ValueError, match=rf"own: label 1: the function {says}"):
            numbers = bv.map_labels(
                np.ones((2, 3, 4), "u1"), lambda r: function(x), dtype=dtype, name="own"
            )
            computed(numbers)


def test_integers_that_fit_may_have_any_width():
    x = np.arange(6, dtype="u2").reshape(1, 2, 3)
    found = computed(bv.map_overlap(lambda b: np.where(b > 3, 1, 0), x, dtype="u1"))
    assert found.dtype == np.uint8 and found.tolist() == (x > 3).astype(int).tolist()
    # A function that fails for the block of ones is called for the voxels all the same.
    strict = bv.map_overlap(lambda b: b + 0 * int(b.max() == 5 or 1 / 0), x)
    np.testing.assert_array_equal(computed(strict), x)


@pytest.mark.parametrize("value", [2.5, np.nan, 300, -1, "x", None, [1, 2]])
def test_numbers_of_labels_are_not_cut_to_their_column(value):
    labels = np.array([[1, 1, 2]], "u1")
    with pytest.raises(ValueError, match=r"the function returned n=.* for label 1"):
        computed(bv.for_each_label(labels, lambda r: {"n": value}, {"n": "u1"}))
    table = bv.for_each_label(labels, lambda r: {"n": 3.0, "f": 2}, {"n": "u1", "f": "f4"})
    assert computed(table).to_pydict() == {"label": [1, 2], "n": [3, 3], "f": [2, 2]}


# Labels and marks


def test_agglomerate_and_cut_refuse_labels_that_are_no_labels(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    edges = {"label_a": [1, 2], "label_b": [2, 3], "affinity_max": [3, 4]}
    for wrong, error in (([-1, 2], ValueError), ([1.5, 2], TypeError)):
        with pytest.raises(error, match="label_a"):
            bv.agglomerate(edges | {"label_a": wrong}, "max", threshold=0)
        with pytest.raises(error, match="label_a"):
            bv.cut({"label_a": wrong, "label_b": [2, 3], "score": [1.0, 2.0]})
    pq.write_table(pa.table(edges | {"label_a": [-1, 2]}), tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="label_a has label -1"):
        computed(bv.agglomerate(tmp_path / "e.parquet", "max", threshold=0))
    counts = {"label_a": [1], "label_b": [2], "affinity_sum": [3], "affinity_count": [1.5]}
    with pytest.raises(TypeError, match="affinity_count"):
        bv.agglomerate(counts, threshold=0)
    large = {"label_a": [1, LARGE], "label_b": [LARGE, LARGE + 1], "affinity_max": [4, 3]}
    found = computed(bv.agglomerate(large, "max", threshold=0)).to_pydict()
    assert found["label_a"] == [1, LARGE] and found["label_b"] == [LARGE, LARGE + 1]


def test_sizes_that_are_given_twice_are_refused():
    edges = {"label_a": [1], "label_b": [2], "affinity_max": [3]}
    for sizes, says in (
        ({"label": [1, 2, 2], "num_pixels": [1, 1, 1]}, "label 2 more than once"),
        ({"label": [1, 2], "num_pixels": [1, -1]}, "num_pixels of sizes has -1"),
        ({"label": [1, 2], "num_pixels": [1, 1.5]}, "num_pixels of sizes has .* float64"),
    ):
        with pytest.raises((ValueError, TypeError), match=says):
            computed(bv.agglomerate(edges, "max", threshold=0, sizes=sizes))


@pytest.mark.parametrize("dtype", ["i1", "u8"])
def test_watershed_keeps_every_marker(dtype):
    random = np.random.default_rng(0)
    height = random.permutation(4 * 5 * 6).reshape(4, 5, 6).astype("u1")
    markers = np.zeros(height.shape, dtype)
    places = random.choice(height.size, 7, replace=False)
    values = np.array(
        [-5, 3, -128, 127, -1, 90, -2] if dtype[0] == "i" else [LARGE, 3, 5, 6, 8, 9, 2]
    )
    markers.flat[places] = values.astype(dtype)
    found = same_everywhere(lambda: bv.watershed(bv.open(height), bv.open(markers)))
    assert found.dtype == markers.dtype and (found.flat[places] == markers.flat[places]).all()
    # as with other names for the markers
    names = np.unique(values.astype(dtype))
    other = np.zeros(height.shape, "u1")
    other[markers != 0] = np.searchsorted(names, markers[markers != 0]) + 1
    plain = computed(bv.watershed(bv.open(height), bv.open(other)))
    np.testing.assert_array_equal(found, names[plain - 1])


def test_watershed_with_markers_takes_infinite_heights_and_nan_outside_of_the_mask():
    height = np.array([[1, 2, np.inf, 3, 0, -np.inf, np.nan, 4]], "f4")
    markers = np.array([[4, 0, 0, 0, 9, 0, 0, -1]], "i2")
    found = computed(bv.watershed(height, markers, mask=height == height))
    assert found.tolist() == [[4, 4, 4, 9, 9, 9, 0, -1]]
    random = np.random.default_rng(1)
    height = random.permutation(120).reshape(4, 5, 6).astype("f8")
    far = np.where(height < 20, -np.inf, np.where(height > 90, np.inf, height))
    near = np.where(height < 20, -1e9, np.where(height > 90, 1e9, height))
    marks = np.where(random.random(far.shape) < 0.05, random.integers(1, 9, far.shape), 0)
    found = same_everywhere(lambda: bv.watershed(bv.open(far), bv.open(marks)))
    np.testing.assert_array_equal(found, computed(bv.watershed(bv.open(near), bv.open(marks))))


@pytest.mark.parametrize("label", [5, 300, 2**40, 0])
def test_boundary_scores_ignore_labels_that_the_dtype_does_not_have(label):
    truth, test = np.array([[0, 0, 1, 1]], bool), np.array([[1, 1, 1, 2]], "u1")
    ours = computed(bv.boundary_scores(truth, test, ignore_labels=[label])[1])
    wide = computed(bv.boundary_scores(truth.astype("u8"), test, ignore_labels=[label])[1])
    np.testing.assert_array_equal(ours, wide)
    with pytest.raises((TypeError, ValueError), match="ignore_labels=5"):
        bv.boundary_scores(truth, test, ignore_labels=5)


@pytest.mark.parametrize("tolerance", [16.5, 17, 40, 1e6, 1e300])
def test_boundary_scores_take_any_tolerance(tolerance):
    truth, test = np.zeros((1, 60), "u1"), np.zeros((1, 60), "u1")
    truth[0, 10:], test[0, 28:] = 1, 1
    found = [float(x) for x in bv.boundary_scores(truth, test, tolerance=tolerance)]
    edges = [np.flatnonzero(ndi.morphological_gradient(a[0], 3)) for a in (truth, test)]
    apart = abs(edges[0][:, None] - edges[1])
    assert found == [(apart.min(axis=k) <= tolerance).mean() for k in (0, 1)]
    nothing = np.zeros_like(truth)
    assert float(bv.boundary_scores(nothing, test, tolerance=tolerance)[0]) == 0


# Heights


def peaks_of(table):
    rows = table.to_pydict()
    return list(zip(*(rows[axis] for axis in "zyx" if axis in rows), strict=True)), rows[
        "intensity"
    ]


@pytest.mark.parametrize("ends", [(np.inf,), (-np.inf,), (np.inf, -np.inf)])
def test_peaks_of_infinite_voxels_are_those_of_scikit_image(ends):
    random = np.random.default_rng(3)
    image = random.integers(0, 4, (4, 5, 6)).astype("f4")
    for end in ends:
        image[random.random(image.shape) < 0.1] = end
    for how in ({"exclude_border": False}, {"threshold_abs": 1}, {"threshold_rel": 0.5}):
        expected = skimage.feature.peak_local_max(image, **how)
        table = computed(bv.peak_local_max(bv.open(image), **how), slab=(2, 3, 6))
        places, heights = peaks_of(table)
        assert places == list(map(tuple, expected))
        assert heights == list(image[tuple(expected.T)])


@pytest.mark.parametrize("name", ["local_maxima", "local_minima"])
def test_extrema_of_infinite_voxels_are_those_of_scikit_image(name):
    for row in ([np.inf, 0, np.inf], [-np.inf, 5, -np.inf], [np.inf] * 3, [1, np.inf, 2]):
        image = np.array([row, row])
        ours = computed(getattr(bv, name)(image))
        np.testing.assert_array_equal(ours, getattr(skimage.morphology, name)(image))


def test_heights_that_are_no_numbers_are_refused_in_the_words_of_the_caller():
    inf, nan = np.array([[1, np.inf, 2.0, 0]]), np.array([[1, np.nan, 2.0, 0]])
    for call in (
        lambda: bv.h_maxima(inf, 1),
        lambda: bv.h_minima(nan, 1),
        lambda: bv.reconstruction(nan, nan),
        lambda: bv.reconstruction(nan, np.zeros_like(nan), "erosion"),
    ):
        with pytest.raises(ValueError, match="replace them") as error:
            computed(call())
        assert "nan=" not in str(error.value) and "mask=" not in str(error.value)


@pytest.mark.parametrize("method", ["erosion", "dilation"])
def test_reconstruction_takes_infinite_seeds(method):
    random = np.random.default_rng(4)
    mask = random.integers(0, 9, (4, 5, 6)).astype("f8")
    mask[random.random(mask.shape) < 0.1] = -np.inf
    seed = np.full(mask.shape, np.inf if method == "erosion" else -np.inf)
    seed[:, 0] = mask[:, 0]
    found = same_everywhere(lambda: bv.reconstruction(bv.open(seed), bv.open(mask), method))
    expected = skimage.morphology.reconstruction(seed, mask, method)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", ["erosion", "dilation"])
@pytest.mark.parametrize("seed", range(3))
def test_the_sign_of_zero_in_reconstruction_does_not_depend_on_slabs(method, seed):
    random = np.random.default_rng(seed)
    mask = random.choice(np.array([0.0, -0.0, 1, -1], "f4"), (4, 5, 6))
    start = mask.copy()
    far = mask.min() if method == "dilation" else mask.max()
    start[random.random(mask.shape) < 0.8] = far
    same_everywhere(lambda: bv.reconstruction(bv.open(start), bv.open(mask), method))
    same_everywhere(lambda: bv.h_minima(bv.open(mask), 0.5))
    zero = np.zeros((2, 3), "f4")
    assert not np.signbit(computed(bv.reconstruction(zero, zero, method))).any()


def test_labels_without_a_finite_intensity_have_no_extremes():
    labels, image = np.array([[1, 1, 2]], "u1"), np.array([[np.nan, np.inf, 3]], "f4")
    rows = computed(
        bv.regionprops_table(labels, image, ["intensity_min", "intensity_max"], nan="omit")
    )
    for name in ("intensity_min", "intensity_max"):
        np.testing.assert_array_equal(rows[name].to_numpy(), np.float32([np.nan, 3]))


def test_hysteresis_thresholds_are_compared_as_in_scikit_image():
    f4 = np.nextafter(np.float32(0.4), np.float32([0, 1]))
    image = np.array([[[*f4, np.float32(0.4), 0.7]]], "f4")
    i8 = np.array([[[2**53, 2**53 + 1, 2**60]]])
    for array, low, high in (
        (image, 0.4, 0.6),
        (image, np.float32(0.4), 0.6),
        (image, 0.4, np.float32(0.4)),
        (image, 0.6, 0.4),
        (i8, 2.0**53, 2**59),
        (i8.astype("u1"), 0, 0.5),
    ):
        expected = skimage.filters.apply_hysteresis_threshold(array, low, high)
        ours = computed(bv.apply_hysteresis_threshold(array, low, high))
        np.testing.assert_array_equal(ours, expected)


# Axes and footprints


def test_one_axis_is_one_axis():
    v = np.zeros((3, 4, 5), "f4")
    for call in (
        lambda axis: bv.sobel(v, axis),
        lambda axis: bv.prewitt(v, axis),
        lambda axis: bv.cumsum(v, axis),
        lambda axis: bv.gaussian_filter1d(v, 1, axis),
        lambda axis: bv.convolve1d(v, [1, 2], axis),
        lambda axis: bv.maximum_filter1d(v, 3, axis),
        lambda axis: bv.normalize_slices(v, axis),
        lambda axis: bv.coordinates(v, axis),
    ):
        for wrong in ((0, 1), [0], None, True, 1.0):
            with pytest.raises((TypeError, ValueError), match="axis"):
                call(wrong)


def test_a_footprint_is_made_of_numbers():
    v, mask = np.zeros((3, 4, 5), "f4"), np.ones((3, 4, 5), bool)
    for call in (
        lambda wrong: bv.peak_local_max(v, footprint=wrong),
        lambda wrong: bv.local_maxima(v, wrong),
        lambda wrong: bv.h_maxima(v, 1, wrong),
        lambda wrong: bv.reconstruction(v, v, footprint=wrong),
        lambda wrong: bv.label(mask, structure=wrong),
        lambda wrong: bv.binary_fill_holes(mask, wrong),
        lambda wrong: bv.binary_propagation(mask, wrong),
        lambda wrong: bv.binary_dilation(mask, wrong),
        lambda wrong: bv.binary_hit_or_miss(mask, wrong),
        lambda wrong: bv.maximum_filter(v, footprint=wrong),
        lambda wrong: bv.grey_dilation(v, footprint=wrong),
        lambda wrong: bv.grey_dilation(v, structure=wrong),
        lambda wrong: bv.median_filter(v, footprint=wrong),
        lambda wrong: bv.generic_filter(v, np.ptp, footprint=wrong),
        lambda wrong: bv.convolve(v, wrong),
        lambda wrong: bv.convolve1d(v[0], wrong),
    ):
        for wrong in ("x", [["a"] * 3] * 3, np.full((3, 3, 3), "1"), np.full((3, 3, 3), None)):
            with pytest.raises(
                (TypeError, ValueError), match=r"footprint|structure|weights"
            ) as error:
                call(wrong)
            assert "could not convert" not in str(error.value)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_tables_of_planes_number_their_axes_as_the_plane_does(axis):
    labels = np.random.default_rng(5).integers(0, 4, (4, 5, 6)).astype("i4")
    index = (*[slice(None)] * axis, 2)
    plane, v = labels[index], bv.open(labels)[index]
    pairs = computed(bv.region_adjacency(v)).to_pydict()
    faces = {}
    for k in (0, 1):
        a, b = (np.moveaxis(plane, k, 0)[s] for s in (slice(-1), slice(1, None)))
        for pair in zip(np.minimum(a, b)[a != b], np.maximum(a, b)[a != b], strict=True):
            if min(pair):
                faces.setdefault(tuple(map(int, pair)), [0, 0])[k] += 1
    assert [n for n in pairs if n.startswith("faces")] == ["faces-0", "faces-1"]
    rows = zip(pairs["label_a"], pairs["label_b"], pairs["faces-0"], pairs["faces-1"], strict=True)
    assert {(a, b): [f, g] for a, b, f, g in rows} == faces
    names = (
        "label",
        "bbox",
        "centroid",
        "axis_major_length",
        "orientation",
        "inertia_tensor_eigvals",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = skimage.measure.regionprops_table(plane, properties=names)
    got = computed(bv.regionprops_table(v, properties=names[1:]))
    for name, column in expected.items():
        np.testing.assert_allclose(got[name].to_numpy(), column, atol=1e-7, err_msg=name)
    assert bv.find_objects(v) == ndi.find_objects(plane)
    row = bv.open(labels)[0, 1]
    assert bv.find_objects(row) == ndi.find_objects(labels[0, 1])


# Tables and empty volumes


def test_computed_tables_go_into_data_frames_and_dicts():
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    lazy = bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"])
    rows = computed(lazy)
    assert pd.DataFrame(rows).to_dict("list") == {"label": [1, 2], "area": [2.0, 1.0]}
    assert {k: v.to_pylist() for k, v in dict(rows).items()} == pd.DataFrame(lazy).to_dict("list")
    assert pa.table(rows).equals(rows.to_pyarrow()) and len(rows) == rows.num_rows == 2
    nothing = computed(bv.regionprops_table(np.zeros((2, 3), "u1"), properties=["area"]))
    assert pd.DataFrame(nothing).shape == (0, 2) and nothing and len(nothing) == 0


def test_empty_volumes_give_empty_results():
    empty, mask = np.zeros((3, 0, 4), "f4"), np.zeros((3, 0, 4), bool)
    for found in (
        *(bv.local_maxima(empty), bv.local_minima(empty), bv.h_maxima(empty, 1)),
        *(bv.h_minima(empty, 1), bv.reconstruction(empty, empty), bv.watershed(empty)),
        *(bv.watershed(empty, mask), bv.label(mask), bv.binary_fill_holes(mask)),
        *(bv.apply_hysteresis_threshold(empty, 0, 1), bv.distance_transform_edt(mask)),
        *(bv.frangi(empty), bv.equalize_hist(empty), bv.rescale_intensity(empty)),
        *(
            bv.normalize_slices(empty),
            bv.remove_small_objects(mask),
            bv.clear_border(mask),
            bv.cumsum(empty),
        ),
    ):
        assert computed(found).shape == (3, 0, 4)
    for table in (
        bv.peak_local_max(empty),
        bv.peak_local_max(empty, threshold_rel=0.5),
        bv.regionprops_table(bv.label(mask)),
        bv.region_adjacency(bv.label(mask), empty),
    ):
        assert computed(table).num_rows == 0
