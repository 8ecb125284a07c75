"""A function of each object, compared with scipy's labeled_comprehension, over partitions and runners."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import ndimage as ndi
from skimage import measure

import beam_volumes as bv
from beam_volumes.base.geometry import Box, Grid
from beam_volumes.ops.labels import painting
from beam_volumes.sweep.stage import Block
from tests.tiers import few, thorough

PARTITIONS = [None, (2, 24, 20), (1, 5, 7), (9, 6, 20)]


def objects(shape=(9, 24, 20), seed=2):
    noise = ndi.gaussian_filter(np.random.default_rng(seed).random(shape), 1.2)
    found, count = ndi.label(noise > np.percentile(noise, 70))
    assert count > 8
    # Labels far apart and in no order.
    names = np.random.default_rng(seed).permutation(count).astype("u8") * 10**15 + 3
    return np.where(found, names[found - 1], 0).astype("u8")


def measured(region):
    """The sum of an image, and how far the object is from the box's first corner."""
    far = np.argwhere(region.mask).max(axis=0) + region.start
    return {
        "total": region.images[0][region.mask].sum(),
        "far": far[0],
        "some": region.images[1].sum(),
    }


COLUMNS = {"total": "i8", "far": "i4", "some": "f4"}


@pytest.mark.parametrize("slab", few(PARTITIONS, PARTITIONS[:2]))
@pytest.mark.parametrize("stored", [True, False])
def test_every_object_once(stored, slab, tmp_path):
    labels = objects()
    rng = np.random.default_rng(0)
    image = rng.integers(0, 99, labels.shape, dtype="u1")
    colours = rng.random((2, *labels.shape)).astype("f4")
    given = [labels, image, colours]
    if stored:
        for k, array in enumerate(given):
            bv.compute(bv.open(array).to(tmp_path / f"{k}.zarr", chunks=(4, 8, 8)), runner=None)
        given = [bv.open(tmp_path / f"{k}.zarr") for k in range(3)]
    table = bv.for_each_label(given[0], measured, COLUMNS, volumes=given[1:], pad=(0, 1, 30))
    assert dict(table.columns) == {
        "label": np.dtype("u8"),
        **{c: np.dtype(t) for c, t in COLUMNS.items()},
    }
    found = bv.compute(table, runner=None, slab=slab).to_pydict()
    names = np.unique(labels)[1:]
    assert found["label"] == names.tolist()
    totals = ndi.labeled_comprehension(image, labels, names, np.sum, "i8", 0)
    assert found["total"] == totals.tolist()
    for k, name in enumerate(names):
        at = np.argwhere(labels == name)
        low, high = at.min(axis=0), at.max(axis=0) + 1
        box = (slice(low[0], high[0]), slice(max(0, low[1] - 1), high[1] + 1), slice(None))
        np.testing.assert_allclose(found["some"][k], colours[(slice(None), *box)].sum(), rtol=1e-5)
        assert found["far"][k] == high[0] - 1


@thorough
def test_on_a_runner_with_a_function_of_ones_own(tmp_path):
    labels = objects(seed=4)
    bv.compute(bv.open(labels).to(tmp_path / "l.zarr", chunks=(3, 8, 8)), runner=None)
    least = 20
    target = bv.for_each_label(
        bv.open(tmp_path / "l.zarr", voxel_size=(4, 2, 1), unit="nm"),
        lambda r: (
            {"volume": r.mask.sum() * np.prod(r.voxel_size)} if r.mask.sum() >= least else None
        ),
        {"volume": "f8"},
    ).to(tmp_path / "t.csv")
    bv.compute(target, runner="FnApiRunner", progress=False, slab=(3, 24, 20))
    ids, sizes = np.unique(labels[labels > 0], return_counts=True)
    kept = sizes >= least
    assert 0 < kept.sum() < len(ids)
    lines = [f"{i},{8.0 * n}" for i, n in zip(ids[kept], sizes[kept], strict=True)]
    assert (tmp_path / "t.csv").read_text().split() == ["label,volume", *lines]


def test_what_scikit_image_measures_of_one_object():
    labels = objects()[4].astype("u8")
    table = bv.for_each_label(
        labels,
        lambda r: {"e": measure.euler_number(r.mask), "y": r.start[0]},
        {"e": "i4", "y": "i8"},
    )
    found = table.to_pyarrow().to_pydict()
    small = measure.label(labels, connectivity=2) * 0
    for k, name in enumerate(np.unique(labels)[1:], 1):
        small[labels == name] = k
    for region in measure.regionprops(small):
        k = region.label - 1
        assert (found["e"][k], found["y"][k]) == (region.euler_number, region.bbox[0])


def grown(region):
    return ndi.binary_dilation(region.mask, iterations=2) if region.label % 7 else None


def depth(region):
    return ndi.distance_transform_edt(region.mask) + region.images[0]


@pytest.mark.parametrize("function, dtype", [(grown, None), (depth, "f4")])
@pytest.mark.parametrize("slab", [*PARTITIONS, "FnApiRunner"])
def test_results_of_objects_painted_into_a_volume(function, dtype, slab, tmp_path):
    labels, image = objects(seed=6), np.random.default_rng(1).random((9, 24, 20)).astype("f4")
    how = {"runner": None, "slab": slab}
    given = [labels, image]
    if isinstance(slab, str):
        how = {"runner": slab, "slab": (3, 24, 20), "progress": False}
        for k, array in enumerate(given):
            bv.compute(bv.open(array).to(tmp_path / f"{k}.zarr", chunks=(4, 8, 8)), runner=None)
        given = [bv.open(tmp_path / f"{k}.zarr") for k in range(2)]
    made = bv.map_labels(given[0], function, dtype=dtype, volumes=given[1:], pad=(0, 1, 30))
    stored = made.to(tmp_path / "made.zarr", chunks=(3, 8, 8)) if isinstance(slab, str) else made
    found_by_run = bv.compute(stored, **how)
    expected = np.zeros(labels.shape, dtype or labels.dtype)
    for name in np.unique(labels)[1:]:
        (z0, y0, _), (z1, y1, _) = (
            f(np.argwhere(labels == name), axis=0) for f in (np.min, np.max)
        )
        box = np.s_[z0 : z1 + 1, max(0, y0 - 1) : y1 + 2]
        region = SimpleNamespace(label=int(name), mask=labels[box] == name, images=[image[box]])
        found = function(region)
        if dtype is None:
            here = np.zeros_like(labels[box]) if found is None else np.where(found, name, 0)
            np.maximum(expected[box], here, out=expected[box])
        else:
            expected[box][region.mask] = found[region.mask]
    result = bv.open(tmp_path / "made.zarr") if isinstance(slab, str) else found_by_run
    assert np.array_equal(np.asarray(result), expected)


def two_arrays(region):
    image = region.images[0]
    first = image.sum(axis=0, dtype="f8") if image.ndim == 4 else image.astype("f8")
    second = 2 * first
    second += first
    return second


@pytest.mark.parametrize("dtype", ["u1", "f8"])
@pytest.mark.parametrize("channels", [1, 5])
def test_painted_objects_need_what_is_declared(dtype, channels, monkeypatch):
    """No more, and with an eighth of the assumed bytes of a function it would be too little."""
    made, shape, kind = [], (64, 64, 64), painting.PaintObjects
    monkeypatch.setattr(painting, "PaintObjects", lambda *a: made.append(kind(*a)) or made[-1])
    parts = [*map(bv.open, np.ones((channels, *shape), dtype))]
    image, labels = bv.stack(parts) if channels > 1 else parts[0], np.ones(shape, "u1")
    bv.map_labels(labels, two_arrays, dtype="f4", volumes=[image], name="test", version=1)
    answer = np.ones(1, "u8"), np.array([[(0, 0, 0), shape]])
    out = Block(np.empty(shape, "f4"), np.arange(64), 0, 0, 64, 64)

    def run():
        made[0].begin(Grid(shape, shape), 0, answer).run((labels,), out, (0, 64), 1)

    run()  # imports
    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1] - (12 << 10)  # Python's objects
    finally:
        tracemalloc.stop()
    declared = made[0].state_bytes(shape, 1)
    assert declared / 2 < peak <= declared


def test_an_object_larger_than_a_slab_is_refused():
    labels = np.zeros((64, 128, 128), "u1")
    labels[:, 3, 3] = labels[0, ::127, ::127] = 5
    made = bv.map_labels(labels, lambda r: r.mask)
    assert np.array_equal(np.asarray(made), labels)
    with pytest.raises(
        ValueError, match=r"box of label 5 .* than a slab of 4 x 128 x 128.*slab= as deep"
    ):
        bv.compute(made, runner=None, slab=(4, 128, 128))
    for function, says in (
        (lambda r: r.mask[:1], "returned shape"),
        (lambda r: r.mask.astype("f4"), "give dtype= for numbers"),
    ):
        with pytest.raises(ValueError, match=says):
            np.asarray(bv.map_labels(labels, function))
    assert not np.asarray(bv.map_labels(labels * 0, lambda r: 1 / 0)).any()


def test_no_objects():
    for shape in [(4, 5, 6), (0, 4, 5), (1, 1, 1)]:
        table = bv.for_each_label(np.zeros(shape, "u2"), lambda r: 1 / 0, {"n": "f4"})
        assert table.to_pyarrow().to_pydict() == {"label": [], "n": []}
    one = bv.for_each_label(np.ones((1, 1, 1), "u1"), lambda r: {"n": r.mask.size}, {"n": "u1"})
    assert one.to_pyarrow().to_pydict() == {"label": [1], "n": [1]}


LABELS = np.arange(24, dtype="u1").reshape(2, 3, 4)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: bv.for_each_label(bv.open(LABELS) + 1, abs, {"n": "i8"}), r"is computed; write it with"),
        (lambda: bv.for_each_label(LABELS, abs, {}), "give names and dtypes"),
        (lambda: bv.for_each_label(LABELS, abs, {"n": "text"}), r"columns\['n'\]='text'"),
        (lambda: bv.for_each_label(LABELS, abs, {"label": "i8"}), "a name other than label"),
        (lambda: bv.for_each_label(LABELS, "abs", {"n": "i8"}), "is not callable"),
        (lambda: bv.for_each_label(LABELS, abs, {"n": "i8"}, pad=-1), "pad"),
        (lambda: bv.for_each_label(LABELS, abs, {"n": "i8"}, volumes=[LABELS[:1]]), "shape"),
        (
            lambda: bv.for_each_label(LABELS, lambda r: {"m": 1}, {"n": "i8"}).to_pyarrow(),
            r"returned \['m'\] for label 1; it must return a dict of n, or None",
        ),
        (
            lambda: bv.for_each_label(LABELS, lambda r: {}[r.label], {"n": "i8"}).to_pyarrow(),
            "label 1: 1",
        ),
    ],
)  # fmt: skip
def test_refused(call, says):
    with pytest.raises((ValueError, TypeError, KeyError), match=says):
        call()


def test_an_object_too_large_for_memory_is_named():
    labels = np.zeros((4, 300, 300), "u4")
    labels[:, ::299, ::299] = 7
    step = bv.for_each_label(labels, lambda r: None, {"n": "i8"}).barrier.survey.steps[-1]
    with pytest.raises(
        ValueError, match=r"box of label 7 from \(0, 0, 0\) to .* are left; give more"
    ):
        step.of(7, Box.of_shape(labels.shape), 1000)


def stored(array, place, chunks=(4, 8, 8)):
    bv.compute(bv.open(array).to(place, chunks=chunks[-array.ndim :]), runner=None)
    return bv.open(place)


@pytest.mark.parametrize("shape", [(9, 24, 20), (24, 20)])
def test_find_objects_are_scipys(shape):
    labels = ndi.label(ndi.gaussian_filter(np.random.default_rng(1).random(shape), 1) > 0.55)[0]
    labels = np.where(labels == 3, 0, labels).astype("u4")
    for most in (0, 2, 400):
        assert bv.find_objects(bv.open(labels), most) == ndi.find_objects(labels.astype(int), most)
    assert bv.find_objects(bv.label(bv.open(labels > 0))) == ndi.find_objects(
        ndi.label(labels > 0)[0]
    )
    assert bv.find_objects(np.zeros(shape, "u1")) == []
    with pytest.raises(ValueError, match="regionprops_table"):
        bv.find_objects(objects())
    with pytest.raises(ValueError, match="max_label=-1"):
        bv.find_objects(labels, -1)


@pytest.mark.parametrize(("default", "dtype"), [(np.nan, "i4"), (0.5, "i8"), (-1, "u4"), (2, bool)])
def test_defaults_of_labeled_comprehension_are_not_cut_to_its_dtype(default, dtype):
    labels = np.array([[1, 2]], "u1")
    with pytest.raises(ValueError, match=r"default=.* use another out_dtype"):
        bv.labeled_comprehension(labels, labels, [1, 3], np.sum, dtype, default)


@pytest.mark.parametrize("shape", [(9, 24, 20), (24, 20)])
def test_labeled_comprehension_is_scipys(shape, tmp_path):
    rng = np.random.default_rng(1)
    labels = ndi.label(ndi.gaussian_filter(rng.random(shape), 1) > 0.55)[0].astype("u2")
    image = rng.normal(0, 9, shape).astype("f4")
    names = np.array([2, 9999, 1, 5, 2, int(labels.max())])
    given = stored(image, tmp_path / "a.zarr"), stored(labels, tmp_path / "b.zarr")
    ours = bv.labeled_comprehension(*given, names, np.median, "f4", -1)
    theirs = ndi.labeled_comprehension(image, labels, names, np.median, "f4", -1)
    np.testing.assert_array_equal(ours, theirs, strict=True)

    def where(voxels, positions):
        return positions[np.argmax(voxels)]

    for index in (names, 3):
        ours = bv.labeled_comprehension(*given, index, where, int, 0, True)
        assert np.array_equal(
            ours, ndi.labeled_comprehension(image, labels, index, where, int, 0, True)
        )
    for index, message in ((None, "all voxels at once"), ([0, 1], "label 0")):
        with pytest.raises(ValueError, match=message):
            bv.labeled_comprehension(*given, index, np.median, "f4", -1)


def fill(mask):
    return mask.mean()


def brightest(mask, intensity):
    return intensity[mask].max()


@pytest.mark.parametrize("slab", [None, (2, 10, 20)])
def test_extra_properties_are_scikit_images(slab):
    labels = ndi.label(ndi.gaussian_filter(np.random.default_rng(1).random((9, 24, 20)), 1) > 0.55)[
        0
    ]
    image = np.random.default_rng(2).integers(0, 99, labels.shape, dtype="u1")
    how = {"properties": ("label", "area", "centroid"), "extra_properties": (fill, brightest)}
    table = bv.regionprops_table(labels.astype("u2"), image, **how)
    ours = bv.compute(table, runner=None, slab=slab).to_pydict()
    theirs = measure.regionprops_table(labels, image, **how)
    assert list(ours) == list(theirs)
    for column, values in theirs.items():
        np.testing.assert_allclose(ours[column], values)
    typed = bv.regionprops_table(
        labels.astype("u2"), image, ["area"], extra_properties={brightest: "u1"}
    )
    assert typed.columns == {
        "label": np.dtype("u8"),
        "area": np.dtype("f8"),
        "brightest": np.dtype("u1"),
    }
    with pytest.raises(ValueError, match="brightest needs intensity"):
        bv.regionprops_table(labels, extra_properties=[brightest])
