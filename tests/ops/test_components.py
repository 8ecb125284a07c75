"""Labels, and masks of components, against scipy and scikit-image on the whole volume."""

import math
import tempfile

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import ndimage as ndi
from skimage.filters import apply_hysteresis_threshold
from skimage.measure import label as skimage_label
from skimage.morphology import remove_small_holes, remove_small_objects
from skimage.segmentation import clear_border

import beam_volumes as bv
from tests.tiers import examples, few, thorough


def in_parts(*lazy, slab=None, window=None, **how):
    return bv.compute(*lazy, runner=None, progress=False, slab=slab, window=window, **how)


@st.composite
def cases(draw, ndim=3):
    """A mask, and how it is cut: odd sizes, up to 3 x 3 x 3 slabs, windows of one slice."""
    shape = tuple(draw(st.integers(1, n)) for n in (14, 18, 20)[3 - ndim :])
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    mask = random.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]))
    if draw(st.booleans()):  # blobs: larger components, across slabs
        mask = ndi.uniform_filter(random.random(shape), 3) > 0.5
    slab = tuple(-(-n // draw(st.integers(1, 3))) for n in shape)
    return mask, slab, draw(st.integers(1, 5))


def full(c, ndim=3):
    return ndi.generate_binary_structure(ndim, c)


def in_raster_order(labels):
    """The same regions (scikit-image sorts axes by their extents), numbered by their first voxels."""
    found, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    first[found == 0] = -1
    rank = np.argsort(np.argsort(first)) + (0 not in found)
    return rank[inverse].reshape(labels.shape)


@settings(max_examples=examples(200))
@given(cases(), st.integers(1, 3), st.sampled_from(["?", "u1", "u4", "f4"]), st.integers(1, 3))
def test_label_is_scipys(case, connectivity, dtype, workers):
    mask, slab, window = case
    image = mask * np.random.default_rng(1).integers(1, 9, mask.shape).astype(dtype)
    lazy = bv.label(bv.open(image), connectivity)
    got, count = in_parts(lazy, lazy.num_labels, slab=slab, window=window, workers=workers)
    expected, n = ndi.label(mask, full(connectivity))
    assert got.dtype == np.uint32
    assert np.array_equal(got, expected)
    assert count == n


@settings(max_examples=examples(40))
@given(cases(), st.integers(0, 2**13 - 1))
def test_any_structure(case, bits):
    mask, slab, window = case
    half = np.array([bits >> k & 1 for k in range(13)], bool)
    structure = np.concatenate([half, [True], half[::-1]]).reshape(3, 3, 3)
    got = in_parts(bv.label(bv.open(mask), structure=structure), slab=slab, window=window)
    assert np.array_equal(got, ndi.label(mask, structure)[0])


@settings(max_examples=examples(40))
@given(
    cases(),
    st.integers(1, 3),
    st.sampled_from(["u1", "f4"]),
    st.sampled_from([0, 2, -1, None]),
)
def test_by_value(case, connectivity, dtype, background):
    mask, slab, window = case
    image = (mask * np.random.default_rng(1).integers(0, 3, mask.shape)).astype(dtype)
    lazy = bv.label(bv.open(image), connectivity, by_value=True, background=background)
    got = in_parts(lazy, slab=slab, window=window)
    wanted = image.astype(int) + 5
    outside = -1 if background is None else background + 5
    expected = skimage_label(wanted, background=outside, connectivity=connectivity)
    assert np.array_equal(got, in_raster_order(expected))


@settings(max_examples=examples(60))
@given(cases(ndim=2), st.integers(1, 2))
def test_images(case, connectivity):
    mask, slab, window = case
    v = bv.open(mask)
    lazy = bv.label(v, connectivity), bv.binary_fill_holes(v), bv.clear_border(v)
    got = in_parts(*lazy, slab=slab, window=window)
    assert np.array_equal(got[0], ndi.label(mask, full(connectivity, 2))[0])
    assert np.array_equal(got[1], ndi.binary_fill_holes(mask))
    assert np.array_equal(got[2], clear_border(mask))


@settings(max_examples=examples(60))
@given(cases(), st.integers(1, 3), st.integers(0, 40))
def test_by_size(case, connectivity, size):
    mask, slab, window = case
    v = bv.open(mask)
    lazy = (
        bv.remove_small_objects(v, size, connectivity),
        bv.remove_small_objects(v, min_size=size, connectivity=connectivity),
        bv.remove_small_holes(v, size, connectivity),
    )
    got = in_parts(*lazy, slab=slab, window=window)
    expected = (
        remove_small_objects(mask, max_size=size, connectivity=connectivity),
        remove_small_objects(mask, max_size=size - 1, connectivity=connectivity),
        remove_small_holes(mask, max_size=size, connectivity=connectivity),
    )
    for g, e in zip(got, expected, strict=True):
        assert g.dtype == bool
        assert np.array_equal(g, e)


@settings(max_examples=examples(60))
@given(cases(), st.integers(1, 5), st.integers(1, 3))
def test_keep_largest(case, k, connectivity):
    mask, slab, window = case
    labels, _ = ndi.label(mask, full(connectivity))
    sizes = np.bincount(labels.ravel())[1:]
    chosen = 1 + np.argsort(-sizes, kind="stable")[:k]  # of equals the lowest ids
    got = in_parts(bv.keep_largest(bv.open(mask), k, connectivity), slab=slab, window=window)
    assert np.array_equal(got, np.isin(labels, chosen))


@settings(max_examples=examples(60))
@given(cases(), st.integers(1, 3), st.integers(0, 2))
def test_holes_and_border(case, connectivity, buffer):
    mask, slab, window = case
    structure = full(connectivity)
    v = bv.open(mask)
    values = (mask * np.random.default_rng(2).integers(0, 3, mask.shape)).astype("u1")
    buffer = min(buffer, min(mask.shape) - 1)
    lazy = (
        bv.binary_fill_holes(v, structure),
        bv.clear_border(v, buffer),
        bv.clear_border(bv.open(values), buffer),
    )
    got = in_parts(*lazy, slab=slab, window=window)
    assert np.array_equal(got[0], ndi.binary_fill_holes(mask, structure))
    assert np.array_equal(got[1], clear_border(mask, buffer))
    assert np.array_equal(got[2], clear_border(values, buffer))


@settings(max_examples=examples(60))
@given(cases(), st.integers(1, 3), st.booleans(), st.sampled_from([0.0, 0.01, 0.2]))
def test_growing_seeds(case, connectivity, everywhere, share):
    mask, slab, window = case
    structure = full(connectivity)
    random = np.random.default_rng(3)
    seed = random.random(mask.shape) < share
    image = random.normal(size=mask.shape) + 2 * mask
    grown = bv.binary_propagation(bv.open(seed), structure, None if everywhere else bv.open(mask))
    strong = bv.apply_hysteresis_threshold(bv.open(image), 1.0, 2.5)
    got = in_parts(grown, strong, slab=slab, window=window)
    expected = ndi.binary_propagation(seed, structure, None if everywhere else mask)
    assert np.array_equal(got[0], expected)
    assert np.array_equal(got[1], apply_hysteresis_threshold(image, 1.0, 2.5))


@settings(max_examples=examples(25))
@given(cases(), st.integers(0, 20), st.integers(1, 3), st.integers(1, 3))
def test_labels_are_expressions(case, size, first, second):
    """Labels of filtered masks, their values used, cropped and filtered; all in one plan."""
    mask, slab, window = case
    v = bv.open(mask)
    large = bv.remove_small_objects(v, size, first)
    cells = bv.label(large, second)
    middle = tuple(slice(n // 3, n) for n in mask.shape)
    lazy = (
        cells,
        bv.where(cells == bv.max(cells), cells * 2, 1),
        cells[middle],
        bv.maximum_filter(cells, 3),
        bv.label(bv.minimum_filter(cells, (1, 1, 3)) > 0).num_labels,
    )
    got = in_parts(*lazy, slab=slab, window=window)
    stays = remove_small_objects(mask, max_size=size, connectivity=first)
    expected = ndi.label(stays, full(second))[0]
    assert np.array_equal(got[0], expected)
    assert np.array_equal(got[1], np.where(expected == expected.max(), expected * 2, 1))
    assert np.array_equal(got[2], expected[middle])
    assert np.array_equal(got[3], ndi.maximum_filter(expected, 3))
    assert got[4] == ndi.label(ndi.minimum_filter(expected, (1, 1, 3)) > 0)[1]


def spiral(n):
    """Two spirals of walls that meet in the last slice only."""
    plane = np.zeros((n, n), bool)
    lo, hi = 0, n - 1
    while lo < hi:
        plane[lo, lo : hi + 1] = plane[lo : hi + 1, hi] = plane[hi, lo : hi + 1] = True
        plane[lo + 2 : hi + 1, lo] = True
        plane[lo + 2, lo : lo + 2] = True
        lo, hi = lo + 2, hi - 2
    mask = np.stack([plane & ~np.roll(plane, z, 1) for z in range(n)])
    mask[-1] = plane
    return mask


def comb(n):
    """Lines along z, joined by the last slice."""
    mask = np.zeros((n, n, n), bool)
    mask[:, ::2, ::2] = True
    mask[-1] = True
    return mask


ADVERSARIES = {
    "spiral": spiral(24),
    "comb": comb(24),
    "comb upside down": comb(24)[::-1],
    "checkerboard": np.indices((16, 16, 16)).sum(0) % 2 == 0,
    "all foreground": np.ones((12, 13, 14), bool),
    "all background": np.zeros((12, 13, 14), bool),
    "lines along z": comb(24)[:-1],
    "lines along y": np.moveaxis(comb(24)[:-1], 0, 1),
    "lines along x": np.moveaxis(comb(24)[:-1], 0, 2),
    "one voxel": np.ones((1, 1, 1), bool),
}


@pytest.mark.parametrize("name", ADVERSARIES)
@pytest.mark.parametrize(
    "slab", few([(1, 99, 99), (5, 9, 99), (99, 3, 12), (6, 8, 12)], [(6, 8, 12)])
)
def test_adversaries(name, slab):
    mask = ADVERSARIES[name]
    slab = tuple(min(s, n) for s, n in zip(slab, mask.shape, strict=True))
    v = bv.open(mask)
    for c in (1, 3):
        got = in_parts(bv.label(v, c), slab=slab, window=2)
        assert np.array_equal(got, ndi.label(mask, full(c))[0])
    got = in_parts(bv.binary_fill_holes(v), bv.keep_largest(v), slab=slab, window=2)
    assert np.array_equal(got[0], ndi.binary_fill_holes(mask))
    labels, n = ndi.label(mask)
    largest = np.argmax(np.bincount(labels.ravel())[1:]) + 1 if n else 1
    assert np.array_equal(got[1], labels == largest)


def test_empty_volume():
    v = bv.open(np.zeros((0, 4, 5), bool))
    cells = bv.label(v)
    got, count = in_parts(cells, cells.num_labels)
    assert got.shape == (0, 4, 5)
    assert count == 0


@thorough
def test_ids_beyond_32_bits():
    """A volume of more than 2**32 voxels, almost empty: linear indices do not fit 32 bits."""
    shape = (4100, 1024, 1024)
    with tempfile.TemporaryDirectory() as folder:
        import tensorstore as ts

        spec = {
            "driver": "zarr3",
            "kvstore": f"file://{folder}/mask.zarr/",
            "metadata": {
                "shape": shape,
                "data_type": "uint8",
                "chunk_grid": {
                    "name": "regular",
                    "configuration": {"chunk_shape": [50, 1024, 1024]},
                },
            },
        }
        store = ts.open(spec, create=True).result()
        store[4090:4098, 5:9, 7].write(np.uint8(1)).result()
        store[4097, 900, 1000].write(np.uint8(1)).result()
        store[3, 3, 3].write(np.uint8(1)).result()
        mask = bv.open(f"{folder}/mask.zarr")
        lazy = bv.label(mask)
        assert lazy.dtype == np.uint64
        table = bv.regionprops_table(lazy, properties=["num_pixels", "bbox"])
        rows = in_parts(table, workers=2, slab=(500, 1024, 1024)).to_pydict()
    assert rows["label"] == [1, 2, 3]
    assert rows["num_pixels"] == [1, 32, 1]
    assert rows["bbox-0"] == [3, 4090, 4097]


def test_too_many_for_the_dtype():
    mask = np.indices((8, 8, 8)).sum(0) % 2 == 0
    with pytest.raises((ValueError, OverflowError), match=r"256 components.*uint8"):
        in_parts(bv.label(bv.open(mask), dtype="u1"), slab=(3, 8, 8))


def test_components_beyond_the_budget(tmp_path):
    """A checkerboard is refused in its first sweep, or before its merge, and nothing is written."""
    n = 160
    board = bv.open((np.indices((n, n, n)).sum(0) % 2 == 0).astype("u1"))
    lazy = bv.label(board)
    out = lazy.to(tmp_path / "labels.zarr")
    least = bv.plan(out, slab=(n, n, n)).smallest_memory
    with pytest.raises(ValueError, match=r"components.*slab=\(\d+, \d+, \d+\)"):
        in_parts(out, slab=(n, n, n), memory=least)
    assert not any(p.is_file() for p in (tmp_path / "labels.zarr").glob("c/**/*"))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda v: bv.label(v, 4), "connectivity=4"),
        (lambda v: bv.label(v, structure=np.ones((3, 3))), "structure of shape"),
        (lambda v: bv.label(v, structure=np.eye(27).reshape(27, 27)), "structure of shape"),
        (lambda v: bv.keep_largest(v, 0), "k=0"),
        (lambda v: bv.remove_small_objects(v, -1), "max_size=-1"),
        (lambda v: bv.remove_small_objects(v, "3 nm^3"), "voxel size"),
        (lambda v: bv.remove_small_objects(v, "3 nm"), "3 axes"),
        (lambda v: bv.clear_border(v, 9), "buffer_size=9"),
    ],
)
def test_bad_requests(make, said):
    with pytest.raises(ValueError, match=said):
        make(bv.open(np.zeros((5, 6, 7), bool)))


def test_refused_types():
    v = bv.open(np.zeros((5, 6, 7), "u1"))
    with pytest.raises(TypeError, match="dtype"):
        bv.label(v, dtype="f4")
    with pytest.raises(TypeError, match="integers"):
        bv.keep_largest(v * 1.5)
    with pytest.raises(TypeError, match="not both"):
        bv.remove_small_objects(v != 0, 5, min_size=3)
    with pytest.raises(AttributeError, match="not a result of label"):
        _ = v.num_labels


def test_sizes_with_units():
    mask = np.zeros((4, 6, 8), bool)
    mask[0, 0, :5] = mask[2, 2, :6] = True
    v = bv.open(mask, voxel_size=(40, 5, 5), unit="nm")
    got = np.asarray(bv.remove_small_objects(v, f"{5 * 40 * 25} nm^3"))
    assert got.sum() == 6
    assert math.prod(got.shape) == mask.size
