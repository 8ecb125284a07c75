"""Tables of label volumes, through plans, in random partitions."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from scipy import ndimage as ndi
from skimage.measure import regionprops_table

import beam_volumes as bv
from beam_volumes.across.tables import known_properties
from tests.tiers import examples

GEOMETRY = ("label", "num_pixels", "area", "bbox", "centroid", "inertia_tensor_eigvals")
INTENSITY = ("intensity_min", "intensity_max", "intensity_mean", "centroid_weighted")


def in_parts(*lazy, **how):
    return bv.compute(*lazy, runner=None, progress=False, **how)


@st.composite
def cases(draw, ndim=3, most=(10, 16, 18)):
    shape = tuple(draw(st.integers(1, n)) for n in most[3 - ndim :])
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = random.integers(0, draw(st.sampled_from([1, 2, 40])), shape) ** 2
    labels = ndi.zoom(labels, 2, order=0)[tuple(slice(0, n) for n in shape)]
    slab = tuple(-(-n // draw(st.integers(1, 3))) for n in shape)
    return labels.astype(draw(st.sampled_from(["u4", "u8"]))), slab, draw(st.integers(1, 4))


def assert_same(table, expected, exact=("label", "num_pixels", "bbox")):
    for name, column in expected.items():
        got = table[name].to_numpy()
        if name.startswith(exact):
            assert np.array_equal(got, column), name
        else:
            np.testing.assert_allclose(got, column, rtol=1e-9, atol=1e-9, err_msg=name)


@settings(max_examples=examples(20))
@given(cases(), st.sampled_from([{"low": 3}, {"high": 60}, {"low": 2, "high": 40}]))
def test_labels_are_kept_by_a_column(case, ends):
    labels, slab, window = case
    v = bv.open(labels)
    table = bv.regionprops_table(v, properties=["area"])
    area = np.bincount(np.unique(labels, return_inverse=True)[1].ravel())
    numbers, area = np.unique(labels), area.astype(float)
    inside = (area >= ends.get("low", 0)) & (area <= ends.get("high", np.inf)) & (numbers > 0)
    expected = np.where(np.isin(labels, numbers[inside]), labels, 0)
    lazy = bv.keep_labels(v, table, "area", **ends)
    assert lazy.dtype == labels.dtype
    assert np.array_equal(in_parts(lazy, slab=slab, window=window), expected)
    read = bv.compute(table, runner=None, progress=False).to_pyarrow()
    assert np.array_equal(np.asarray(bv.keep_labels(v, read, "area", **ends)), expected)


@settings(max_examples=examples(40))
@given(cases(), st.sampled_from(["u1", "f4", "f8"]), st.sampled_from([None, (2.0, 0.5, 3.0)]))
def test_regionprops_table(case, dtype, spacing):
    labels, slab, window = case
    em = np.random.default_rng(1).normal(50, 20, labels.shape).astype(dtype)
    names = [*GEOMETRY, *INTENSITY]
    lazy = bv.regionprops_table(bv.open(labels), bv.open(em), names, spacing=spacing)
    got = in_parts(lazy, slab=slab, window=window)
    assert got.column_names == list(lazy.columns)
    expected = regionprops_table(
        labels.astype("i8"), em.astype("f8"), properties=names, spacing=spacing or (1, 1, 1)
    )
    assert_same(got, expected)
    whole = in_parts(lazy)
    assert got.equals(whole)  # to the bit


@settings(max_examples=examples(25))
@given(cases(ndim=2))
def test_images(case):
    labels, slab, window = case
    names = [*GEOMETRY, "orientation", "axis_major_length"]
    got = in_parts(bv.regionprops_table(labels, properties=names), slab=slab, window=window)
    expected = regionprops_table(labels.astype("i8"), properties=names)
    expected.pop("orientation")  # of a round region any
    assert_same(got, expected)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (3, 3)])
def test_orientation_along_an_axis(shape):
    labels = np.ones(shape, "u1")
    got = bv.regionprops_table(labels, properties=["orientation"]).compute()
    assert_same(got.to_pyarrow(), regionprops_table(labels, properties=["orientation"]))


@settings(max_examples=examples(40), deadline=None)
@given(st.data(), st.integers(2, 3), st.sampled_from(["u1", "i2"]), st.booleans())
def test_shapes_and_quantiles(data, ndim, dtype, is_fine):
    labels, slab, window = data.draw(cases(ndim))
    for label in np.unique(labels):  # flat regions of a volume have no hull in scikit-image
        points = np.argwhere(labels == label)
        if ndim == 3 and np.linalg.matrix_rank(points - points[0]) < 3:
            labels[labels == label] = 0
    if not labels.any():
        return
    image = np.random.default_rng(2).integers(0, 60, labels.shape)
    image = (image - 30 * (dtype == "i2")).astype(dtype)
    hulls = ["area_convex", "solidity", "feret_diameter_max"]
    moments = [f"moments{w}{k}" for w in ("", "_weighted") for k in ("", "_central", "_normalized")]
    local = ["area_bbox", "centroid_local", "centroid_weighted_local"]
    names = [
        "label",
        "intensity_median",
        "inertia_tensor",
        "euler_number",
        *hulls,
        *moments,
        *local,
    ]
    spacing = (2.0, 0.5, 1.5) if ndim == 3 and is_fine else (2.0,) * ndim
    if ndim == 2:
        names += ["eccentricity", "perimeter", "perimeter_crofton"]
    quantiles = (0, 1 / 3, 0.75)
    how = {"spacing": spacing, "intensity_quantiles": quantiles}
    lazy = bv.regionprops_table(bv.open(labels), bv.open(image), names, **how)
    got = in_parts(lazy, slab=slab, window=window)
    whole = in_parts(lazy)
    for name in got.column_names:
        assert got[name].to_numpy().tobytes() == whole[name].to_numpy().tobytes(), name
    expected = regionprops_table(
        labels.astype("i8"), image.astype("i8"), properties=names, spacing=spacing
    )
    ours = {name: got[name].to_numpy() for name in got.column_names}
    for k, label in enumerate(expected["label"]):
        values = image[labels == label].astype("i8")
        for q in quantiles:
            assert ours[f"intensity_quantile-{q}"][k] == np.quantile(values, q)
    for name, column in expected.items():
        kind, *orders = name.split("-")
        if not name.startswith("moments") or sum(map(int, orders)) <= 3:
            # scikit-image's central moments are differences of larger numbers; ours of order 1 are 0.
            alike = [c for n, c in expected.items() if n.startswith(kind)]
            close = max(1e-8, 1e-13 * np.nanmax(np.abs(alike))) if "central" in kind else 1e-8
            np.testing.assert_allclose(ours[name], column, rtol=1e-9, atol=close, err_msg=name)
    assert sum(name.startswith("moments-") for name in ours) == (10 if ndim == 2 else 20)
    if ndim == 2:
        hu = bv.compute(bv.regionprops_table(labels, properties="moments_hu", spacing=2.0))
        for name, column in regionprops_table(
            labels.astype("i8"), properties=["moments_hu"]
        ).items():
            np.testing.assert_allclose(hu[name], column, rtol=1e-6, atol=1e-12, err_msg=name)


def test_shapes_of_objects_across_slabs():
    z, y, x = np.indices((24, 30, 28)) - np.array([12, 15, 14])[:, None, None, None]
    ring = (np.hypot(y, x) - 9) ** 2 + z**2 <= 9  # one tunnel
    hollow = (z**2 + y**2 + x**2 <= 100) & (z**2 + y**2 + x**2 > 49)  # one cavity
    names = ["euler_number", "area_convex", "feret_diameter_max"]
    for mask, number in ((ring, 0), (hollow, 2)):
        lazy = bv.regionprops_table(bv.open(mask.astype("u1")), properties=names)
        got = in_parts(lazy, slab=(5, 11, 9), window=2)
        assert got.equals(in_parts(lazy)) and got["euler_number"].to_pylist() == [number]
        expected = regionprops_table(mask.astype(int), properties=names)
        assert got["area_convex"].to_pylist() == expected["area_convex"].tolist()
        np.testing.assert_allclose(got["feret_diameter_max"], expected["feret_diameter_max"])
    sheet = np.zeros((6, 5, 4), "u1")
    sheet[:, range(5), [0, 0, 1, 2, 3]] = 1  # oblique, in no box that it fills
    row = in_parts(bv.regionprops_table(sheet, properties=names), slab=(2, 3, 4)).to_pylist()
    plane = regionprops_table(sheet[0].astype(int), properties=["area_convex"])
    assert row[0]["area_convex"] == 6 * plane["area_convex"][0]
    assert 7.6 < row[0]["feret_diameter_max"] < 8.6


@settings(max_examples=examples(30))
@given(cases(most=(5, 7, 8)), st.booleans())
def test_region_adjacency(case, with_boundary):
    labels, slab, window = case
    em = np.random.default_rng(1).random(labels.shape)
    how = {"bins": 4, "range": (0, 1)} if with_boundary else {}
    lazy = bv.region_adjacency(bv.open(labels), bv.open(em) if with_boundary else None, **how)
    got = in_parts(lazy, slab=slab, window=window)
    faces, values = {}, {}
    for axis in range(3):
        a, b = (np.moveaxis(labels, axis, 0)[s] for s in (slice(1, None), slice(None, -1)))
        v = np.maximum(*(np.moveaxis(em, axis, 0)[s] for s in (slice(1, None), slice(None, -1))))
        for pair in zip(*np.nonzero((a != b) & (a > 0) & (b > 0)), strict=True):
            key = tuple(sorted((int(a[pair]), int(b[pair]))))
            faces.setdefault(key, [0, 0, 0])[axis] += 1
            values.setdefault(key, []).append(v[pair])
    keys = sorted(faces)
    assert list(zip(got["label_a"].to_pylist(), got["label_b"].to_pylist(), strict=True)) == keys
    for axis in range(3):
        assert got[f"faces-{axis}"].to_pylist() == [faces[k][axis] for k in keys]
    if with_boundary:
        np.testing.assert_allclose(got["boundary_mean"], [np.mean(values[k]) for k in keys])
        assert got["boundary_max"].to_pylist() == [max(values[k]) for k in keys]
        bins = [np.histogram(values[k], 4, (0, 1))[0] for k in keys]
        for i in range(4):
            assert got[f"boundary_histogram-{i}"].to_pylist() == [b[i] for b in bins]


@settings(max_examples=examples(25))
@given(cases(), st.integers(0, 60), st.integers(1, 4))
def test_labels_by_value(case, size, k):
    """Filtered and given new values, in memory and by key."""
    from beam_volumes.ops.labels.relabel import by_key
    from tests.ops.array_mapping import ArrayMapping

    labels, slab, window = case
    v = bv.open(labels)
    values, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.argsort(-counts[values > 0], kind="stable")[:k]
    new = (np.random.default_rng(2).permutation(len(values)) + 1) * (values > 0)
    mapping = dict(zip(values.tolist(), new.tolist(), strict=True))
    lazy = (
        bv.remove_small_objects(v, size),
        bv.keep_largest(v, k),
        bv.relabel(v, mapping, dtype="u2"),
        by_key(v, ArrayMapping.of(mapping), dtype="u2"),
        bv.label(bv.remove_small_objects(v, size) > 0),
    )
    got = in_parts(*lazy, slab=slab, window=window)
    large = np.where((counts > size)[inverse].reshape(labels.shape), labels, 0)
    assert got[0].dtype == labels.dtype
    assert np.array_equal(got[0], large)
    assert np.array_equal(got[1], np.where(np.isin(labels, values[values > 0][rank]), labels, 0))
    for g in got[2:4]:
        assert g.dtype == np.uint16
        assert np.array_equal(g, new[inverse].reshape(labels.shape))
    assert np.array_equal(got[4], ndi.label(large)[0])


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_files(tmp_path, ending):
    labels = np.random.default_rng(0).integers(0, 9, (6, 7, 8)).astype("u4")
    table = bv.regionprops_table(bv.open(labels), properties=["num_pixels", "centroid"])
    path = tmp_path / f"cells.{ending}"
    assert in_parts(table.to(path), slab=(2, 7, 4)) == str(path)
    read = {"parquet": pa.parquet.read_table, "csv": pa.csv.read_csv, "jsonl": pa.json.read_json}
    got = read[ending](path)
    assert got.to_pydict() == table.to_pyarrow().to_pydict()
    with pytest.raises(ValueError, match=r"exists.*overwrite"):
        in_parts(table.to(path))
    in_parts(table.to(path), overwrite=True)


def test_every_property_is_documented():
    text = bv.regionprops_table.__doc__
    names = {*known_properties(3, True), *known_properties(2)}
    assert [name for name in names if f"``{name}``" not in text] == []


def test_nothing_to_measure():
    for labels in (np.zeros((4, 5, 6), "u1"), np.zeros((0, 5, 6), "u1")):
        properties = [*known_properties(3, True)]
        table = bv.regionprops_table(bv.open(labels), labels, properties)
        got = in_parts(table)
        assert got.num_rows == 0
        assert got.column_names == list(table.columns)


def test_scipys_measurements():
    random = np.random.default_rng(9)
    labels = random.integers(0, 5, (6, 7, 8)).astype(np.uint32)
    values = random.random(labels.shape)
    index = [3, 1, 2]
    table = bv.regionprops_table(labels, values)
    pairs = {
        "intensity_mean": ndi.mean,
        "intensity_sum": ndi.sum_labels,
        "intensity_std": ndi.standard_deviation,
        "intensity_max": ndi.maximum,
        "centroid_weighted": ndi.center_of_mass,
    }
    for column, function in pairs.items():
        np.testing.assert_allclose(table.at(index, column), function(values, labels, index))
    assert table.at(9, "num_pixels") == 0
    with pytest.raises(ValueError, match="no column 'mean'"):
        table.at(1, "mean")


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda v: bv.regionprops_table(v * 0.5), TypeError, "labels have dtype float64"),
        (lambda v: bv.regionprops_table(v, properties=["are"]), ValueError, "'are'"),
        (lambda v: bv.regionprops_table(v, properties=["intensity_max"]), ValueError, "intensity="),
        (lambda v: bv.regionprops_table(v, v[1:]), ValueError, "do not match"),
        (lambda v: bv.regionprops_table(v, v * 0.5, "intensity_median"), TypeError, "16 bits"),
        (lambda v: bv.regionprops_table(v, v, intensity_quantiles=[2]), ValueError, "0 to 1"),
        (lambda v: bv.regionprops_table(v, v, ["intensity_quantile-7"]), ValueError, "0 to 1"),
        (lambda v: bv.regionprops_table(v, properties=["area-1"]), ValueError, "'area-1'"),
        (lambda v: bv.regionprops_table(v, properties=["coords"]), ValueError, "for_each_label"),
        (
            lambda v: bv.regionprops_table(v[0], None, "perimeter", spacing=(1, 2)),
            ValueError,
            "equal",
        ),
        (lambda v: bv.regionprops_table(v, spacing="voxel_size"), ValueError, "voxel_size="),
        (lambda v: bv.regionprops_table(v, spacing=(1, 2)), ValueError, "2 entries for 3 axes"),
        (lambda v: bv.region_adjacency(v, bins=4), ValueError, "boundary"),
        (lambda v: bv.regionprops_table(v).to("table.txt"), ValueError, "parquet"),
        (lambda v: bv.relabel(v, 7), TypeError, "mapping of int"),
        (lambda v: bv.relabel(v, {1: 300}, dtype="u1"), ValueError, "300"),
        (lambda v: bv.relabel(v, "nowhere.parquet"), (ValueError, OSError), "nowhere"),
    ],
)
def test_bad_requests(make, error, said):
    with pytest.raises(error, match=said):
        make(bv.open(np.zeros((4, 5, 6), "u1")))


def test_negative_and_missing_labels():
    with pytest.raises(ValueError, match=r"negative|-3"):
        in_parts(bv.regionprops_table(bv.open(np.full((2, 3, 4), -3))))
    with pytest.raises(ValueError, match="label 7"):
        in_parts(bv.relabel(bv.open(np.full((2, 3, 4), 7)), {1: 2}))


@pytest.mark.parametrize("slab", [(5, 6, 7), (2, 6, 7), (1, 3, 4)])
def test_filled_areas_contain_holes_and_what_is_in_them(slab):
    labels = np.zeros((5, 6, 7), "i4")
    labels[:4, 1:5, 1:6], labels[4, :2] = 2, 5
    labels[2, 2:4, 2:5], labels[1, 2, 2:4] = 0, 9
    names = ["label", "area_filled", "area"]
    lazy = bv.regionprops_table(bv.open(labels), properties=names, spacing=(2, 1, 0.5))
    ours = bv.compute(lazy, runner=None, slab=slab).to_pyarrow().to_pydict()
    theirs = regionprops_table(labels, properties=names, spacing=(2, 1, 0.5))
    assert ours.keys() == theirs.keys() and theirs["area_filled"][0] == 80
    for name, column in theirs.items():
        np.testing.assert_array_equal(ours[name], column)
