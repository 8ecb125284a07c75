"""Boundaries, colours and consecutive numbers of labels against scikit-image's, over partitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import color, segmentation

import beam_volumes as bv
from tests.peers import peer
from tests.tiers import examples

DTYPES = ["?", "u1", "u4", "i8"]


def patches(draw, ndim=None):
    """Labels in blocks, with gaps between their numbers."""
    shape = tuple(draw(st.integers(1, n)) for n in (9, 20, 24))
    shape = shape[draw(st.integers(0, 1)) if ndim is None else 3 - ndim :]
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    small = random.choice([0, 0, 1, 3, 7, 8, 20], [-(-n // 3) for n in shape])
    for axis, n in enumerate(shape):
        small = np.repeat(small, 3, axis).take(range(n), axis)
    labels = small.astype(dtype)
    return labels << 55 if dtype.itemsize == 8 and draw(st.booleans()) else labels


def narrow(labels, background=0):
    """Labels of 8 bytes in 4, in the same order around the background, which is 0.

    scikit-image computes with floats where labels have 8 bytes.
    """
    values, index = np.unique(labels, return_inverse=True)
    at = 2 * np.searchsorted(values, values.dtype.type(background)) - (background not in values)
    return (2 * index.reshape(labels.shape) - at).astype("i4")


def parts(draw, shape):
    return {
        "slab": tuple(draw(st.integers(1, n)) for n in shape),
        "window": draw(st.sampled_from([None, 1, 3])),
        "runner": None,
    }


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(data=st.data())
def test_boundaries(data):
    draw = data.draw
    labels = patches(draw)
    how = {
        "connectivity": draw(st.integers(1, labels.ndim)),
        "mode": draw(st.sampled_from(["thick", "inner", "outer"])),
        "background": draw(st.sampled_from([0, 1])),
    }
    got = bv.compute(bv.find_boundaries(labels, **how), **parts(draw, labels.shape))
    if labels.itemsize == 8:
        labels, how["background"] = narrow(labels, how["background"]), 0
    np.testing.assert_array_equal(got, segmentation.find_boundaries(labels, **how), strict=True)


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(data=st.data())
def test_pictures(data):
    draw = data.draw
    labels = patches(draw, ndim=2)
    dtype = draw(st.sampled_from(["u1", "f4"]))
    random = np.random.default_rng(0)
    shape = labels.shape + (3,) * draw(st.integers(0, 1))
    image = random.random(shape)
    image = (image * (1 if dtype in ("f4", "f8") else 2 if dtype == "?" else 255)).astype(dtype)
    ours = bv.open(image) if image.ndim == 2 else bv.open(np.moveaxis(image, -1, 0), axes="cyx")
    how = {
        "mode": draw(st.sampled_from(["thick", "inner", "outer"])),
        "color": (0.1, 0.4, 1),
        "outline_color": draw(st.sampled_from([None, (0.5, 0, 0.25)])),
    }
    got = bv.compute(bv.mark_boundaries(ours, labels, **how), **parts(draw, labels.shape))
    theirs = segmentation.mark_boundaries(
        image, narrow(labels) if labels.itemsize == 8 else labels, **how
    )
    np.testing.assert_allclose(np.moveaxis(got, 0, -1), theirs, atol=1e-6)
    assert got.dtype == ("f8" if dtype == "f8" else "f4")
    labels = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)  # without gaps
    if labels.any() and not (labels == 0).any():
        return
    how = {
        "alpha": draw(st.sampled_from([0.3, 1])),
        "bg_color": draw(st.sampled_from([None, "pink"])),
        "colors": draw(st.sampled_from([None, ["green", (0.2, 0.4, 0.6)]])),
        "image_alpha": draw(st.sampled_from([0.4, 1])),
        "saturation": draw(st.sampled_from([0, 0.5, 1])),
    }
    some = draw(st.booleans())
    lazy = bv.label2rgb(labels, ours if some else None, **how)
    got = bv.compute(lazy, **parts(draw, labels.shape))
    theirs = color.label2rgb(labels, image if some else None, **how)
    np.testing.assert_allclose(np.moveaxis(got, 0, -1), theirs, atol=1e-6)


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(data=st.data())
def test_mean_colours(data):
    draw = data.draw
    labels = patches(draw)
    dtype = draw(st.sampled_from(["?", "u1", "i2", "f4", "f8", "u4"]))
    random = np.random.default_rng(0)
    shape = labels.shape + (3,) * draw(st.integers(0, 1))
    image = random.integers(0, 2 if dtype == "?" else 200, shape).astype(dtype)
    image = image / image.dtype.type(7) if image.dtype.kind == "f" else image
    axes = "zyx"[3 - labels.ndim :]
    is_grey = image.ndim == labels.ndim
    ours = bv.open(image) if is_grey else bv.open(np.moveaxis(image, -1, 0), axes=f"c{axes}")
    background, colour = draw(st.sampled_from([0, 1, 3])), draw(st.sampled_from([None, (1, 0, 1)]))
    if labels.dtype == bool:
        background = min(background, 1)
    how = {"kind": "avg", "bg_label": background, "bg_color": colour}
    got = bv.compute(bv.label2rgb(labels, ours, **how), **parts(draw, labels.shape))
    three = np.stack([image] * 3, -1) if is_grey else image
    ids = narrow(labels, background) + background
    theirs = color.label2rgb(ids, three.astype("f8"), **{**how, "bg_color": colour or (0, 0, 0)})
    if colour is None:
        theirs[ids == background] = three[ids == background]
    assert got.dtype == image.dtype
    if image.dtype.kind == "f":
        np.testing.assert_allclose(np.moveaxis(got, 0, -1), theirs, rtol=2e-7)
    else:  # a mean that is nearly an integer is one
        expected = (np.rint(theirs * 1e9) / 1e9).astype(dtype)
        np.testing.assert_array_equal(np.moveaxis(got, 0, -1), expected)


def test_mean_colours_of_time_points_and_odd_images():
    random = np.random.default_rng(3)
    labels = random.integers(0, 4, (2, 3, 6, 7)).astype("u2")
    image = random.integers(0, 255, (2, 3, 3, 6, 7)).astype("u1")
    lazy = bv.label2rgb(
        bv.open(labels, axes="tzyx"), bv.open(image, axes="tczyx"), kind="avg", bg_label=2
    )
    found = bv.compute(lazy, runner=None, slab=(1, 4, 7))
    for t in range(2):
        one = bv.label2rgb(labels[t], bv.open(image[t], axes="czyx"), kind="avg", bg_label=2)
        np.testing.assert_array_equal(found[t], bv.compute(one, runner=None))
    empty = bv.label2rgb(np.zeros((0, 4), "u1"), np.zeros((0, 4), "f4"), kind="avg")
    assert bv.compute(empty, runner=None).shape == (3, 0, 4)
    bad = np.full((1, 3), np.nan, "f4")
    with pytest.raises(ValueError, match="NaN"):
        bv.compute(bv.label2rgb(np.array([[0, 1, 1]]), bad, kind="avg"), runner=None)


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(data=st.data())
def test_consecutive_labels(data):
    draw = data.draw
    labels = patches(draw)
    offset = draw(st.sampled_from([1, 1, 5]))
    new, forward, inverse = bv.relabel_sequential(labels, offset)
    got, table, back = bv.compute(new, forward, inverse, **parts(draw, labels.shape))
    integers = labels.astype(np.uint8) if labels.dtype == bool else labels
    theirs, _, _ = segmentation.relabel_sequential(integers, offset)
    assert got.dtype == integers.dtype
    np.testing.assert_array_equal(got, theirs)
    old = np.unique(labels[labels != 0]).astype(np.uint64).tolist()
    assert table.to_pydict() == {
        "label": old,
        "new_label": list(range(offset, offset + len(old))),
    }
    assert back.to_pydict() == dict(reversed(table.to_pydict().items()))


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(data=st.data())
def test_labels_by_size(data):
    draw = data.draw
    labels = patches(draw)
    offset, minimum = draw(st.sampled_from([1, 4])), draw(st.sampled_from([0, 1, 9, 30, 10**6]))
    by = draw(st.sampled_from(["label", "size", "size"]))
    results = bv.relabel_sequential(labels, offset, by=by, min_size=minimum)
    got, table, back = bv.compute(*results, **parts(draw, labels.shape))
    old, counts = np.unique(labels[labels != 0], return_counts=True)
    order = np.argsort(-counts, kind="stable") if by == "size" else np.arange(len(old))
    old = old[order[counts[order] >= minimum]]
    new = list(range(offset, offset + len(old)))
    assert back.to_pydict() == {"new_label": new, "label": old.astype("u8").tolist()}
    pairs = sorted(zip(old.astype("u8").tolist(), new, strict=True))
    assert list(zip(*table.to_pydict().values(), strict=True)) == pairs
    expected = np.zeros(labels.shape, "i8")
    for a, b in zip(old, new, strict=True):
        expected[labels == a] = b
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("minimum", [0, 20])
def test_labels_by_size_are_those_of_simpleitk(minimum):
    itk = peer("SimpleITK")
    labels = np.random.default_rng(3).integers(0, 60, (6, 20, 22)).astype("u4") ** 2 // 20
    image = itk.GetImageFromArray(labels)
    theirs = itk.RelabelComponent(image, minimumObjectSize=minimum, sortByObjectSize=True)
    new, _, _ = bv.relabel_sequential(labels, by="size", min_size=minimum)
    found = bv.compute(new, runner=None, slab=(2, 9, 22))
    np.testing.assert_array_equal(found, itk.GetArrayFromImage(theirs))


def test_many_labels_by_size_in_a_pipeline(tmp_path):
    """Of several shards, by several rounds; sizes in voxels or as a volume."""
    sizes = np.tile([1, 2, 3, 4], 12_000)
    labels = np.repeat(np.arange(1, 48_001), sizes).astype("u4").reshape(6, 100, 200)
    v = bv.open(labels, voxel_size=2, unit="um")
    new, forward, inverse = bv.relabel_sequential(v, by="size", min_size="16 um^3")
    target = new.to(tmp_path / "new.zarr", chunks=(2, 50, 200))
    stored, table, back = bv.compute(
        target, forward, inverse, slab=(2, 50, 200), runner="FnApiRunner"
    )
    kept = np.flatnonzero(sizes >= 2)
    order = kept[np.argsort(-sizes[kept], kind="stable")] + 1
    lookup = np.zeros(48_001, "u4")
    lookup[order] = np.arange(1, len(order) + 1)
    np.testing.assert_array_equal(stored, lookup[labels])
    np.testing.assert_array_equal(back["label"], order)
    np.testing.assert_array_equal(table["label"], kept + 1)
    np.testing.assert_array_equal(table["new_label"], lookup[kept + 1])


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(data=st.data())
def test_joined_segmentations(data):
    draw = data.draw
    a = patches(draw)
    dtype = draw(st.sampled_from(DTYPES))
    b = np.random.default_rng(1).integers(0, 3, a.shape).astype(dtype)
    if b.itemsize == 8:
        b <<= 60
    got = bv.compute(bv.join_segmentations(a, b), **parts(draw, a.shape))
    pairs = np.stack([a.ravel().astype(np.uint64), b.ravel().astype(np.uint64)])
    kinds, place = np.unique(pairs, axis=1, return_inverse=True)
    place = place.reshape(a.shape) + (0 if not kinds[:, 0].any() else 1)
    np.testing.assert_array_equal(got, place)
    assert got.dtype == np.uint32
    if a.dtype.itemsize < 8 and b.dtype.itemsize < 8:
        theirs = segmentation.join_segmentations(a.astype("i8"), b.astype("i8"))
        np.testing.assert_array_equal(got, theirs)


@pytest.mark.parametrize(
    ("dtype", "offset"),
    [("u1", 1), ("u1", 254), ("u1", 300), ("i1", 127), ("i2", 32767), ("u4", 2**32 - 1)],
)
def test_new_labels_have_a_wider_dtype_if_the_offset_needs_it(dtype, offset):
    labels = np.array([[0, 9, 9, 4], [7, 0, 0, 9]], dtype)
    expected, _, _ = segmentation.relabel_sequential(labels, offset)
    found = bv.compute(bv.relabel_sequential(labels, offset)[0], runner=None, slab=(1, 1, 4))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_consecutive_labels_in_a_pipeline(tmp_path):
    labels = np.arange(6 * 40 * 50).reshape(6, 40, 50).astype("u4") // 2 * 3
    new, forward, _ = bv.relabel_sequential(labels)
    target = new.to(tmp_path / "new.zarr", chunks=(2, 20, 50))
    stored, table = bv.compute(target, forward, slab=(2, 20, 50), runner="FnApiRunner")
    np.testing.assert_array_equal(stored, labels // 3)
    assert table["new_label"].to_pylist() == list(range(1, 6000))


def test_what_is_refused():
    labels, image = np.array([[0, 1, 300]], "u2"), np.zeros((1, 3), "u1")
    for call, error, message in (
        (lambda: bv.find_boundaries(labels, mode="subpixel"), ValueError, "a different shape"),
        (lambda: bv.find_boundaries(labels, 3), ValueError, "connectivity=3; give 1 to 2"),
        (lambda: bv.find_boundaries(labels, background=-1), ValueError, "background=-1"),
        (lambda: bv.find_boundaries(labels * 0.5), TypeError, "float64"),
        (lambda: bv.mark_boundaries(image, labels[:, :2]), ValueError, "do not match"),
        (lambda: bv.mark_boundaries(image, labels, "reddish"), ValueError, "reddish"),
        (lambda: bv.mark_boundaries(image.astype("i4"), labels), TypeError, "known maximum"),
        (lambda: bv.label2rgb(labels, alpha=2), ValueError, "alpha=2"),
        (lambda: bv.label2rgb(labels, colors=[]), ValueError, "0 entries"),
        (lambda: bv.label2rgb(labels, bg_label=-1), ValueError, "bg_label=-1"),
        (lambda: bv.label2rgb(labels, kind="mean"), ValueError, "kind='mean'"),
        (lambda: bv.label2rgb(labels, kind="avg"), ValueError, "needs an image"),
        (lambda: bv.label2rgb(labels, saturation=2), ValueError, "saturation=2"),
        (
            lambda: bv.label2rgb(labels, image, bg_color=(0, 0, 0.5), kind="avg"),
            ValueError,
            "three numbers of uint8",
        ),
        (
            lambda: bv.label2rgb(labels, image, bg_color="red", kind="avg"),
            ValueError,
            "bg_color='red'",
        ),
        (lambda: bv.relabel_sequential(labels, 0), ValueError, "offset"),
        (lambda: bv.relabel_sequential(labels, dtype="f4"), TypeError, "integers"),
        (lambda: bv.relabel_sequential(labels, by="area"), ValueError, "by='area'"),
        (lambda: bv.relabel_sequential(labels, min_size=-1), ValueError, "min_size=-1"),
        (lambda: bv.relabel_sequential(labels, min_size="1 um^2"), ValueError, "voxel size"),
        (lambda: bv.join_segmentations(labels, labels[:, :2]), ValueError, "do not match"),
        (
            lambda: bv.compute(bv.relabel_sequential(labels, 255, dtype="u1")[0], runner=None),
            ValueError,
            "256 does not fit uint8",
        ),
        (
            lambda: bv.compute(bv.join_segmentations(labels, -labels.astype("i4")), runner=None),
            ValueError,
            "negative|-1",
        ),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("by", ["label", "size"])
def test_new_labels_beyond_uint64_are_refused(by):
    labels = np.array([[0, 1, 2]], "u1")
    new, _, _ = bv.relabel_sequential(labels, 2**64 - 2, by=by)
    assert np.asarray(new).max() == 2**64 - 1
    new, _, _ = bv.relabel_sequential(labels, 2**64 - 1, by=by)
    with pytest.raises(ValueError, match="offset="):
        np.asarray(new)
    with pytest.raises(TypeError, match="dtype="):
        bv.relabel_sequential(labels, by=by, dtype=bool)
