"""Region tables from blocks against scikit-image's of the whole volume."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import ndimage as ndi
from skimage.measure import regionprops_table

from beam_volumes.across import tables
from beam_volumes.across.exact import Wide
from beam_volumes.kernels.labels import regions
from tests.tiers import dtypes_drawn, examples, label_dtypes, thorough

REFERENCE = (
    "label",
    "num_pixels",
    "area",
    "bbox",
    "centroid",
    "extent",
    "equivalent_diameter_area",
    "inertia_tensor_eigvals",
)
REFERENCE_INTENSITY = (
    "centroid_weighted",
    "intensity_min",
    "intensity_max",
    "intensity_mean",
    "intensity_std",
)


def boxes_of(shape, cuts):
    """Slabs: where each begins and ends."""
    edges = [[0, *sorted(c), n] for c, n in zip(cuts, shape, strict=True)]
    yield from itertools.product(*(itertools.pairwise(e) for e in edges))


def windows_of(shape, box, depth):
    """A slab's windows: their slices, the core's shape of each, and the slice below or None."""
    (z0, z1), *yx = box
    wide = tuple(slice(a, min(b + 1, n)) for (a, b), n in zip(yx, shape[1:], strict=True))
    core = tuple(b - a for a, b in yx)
    for a in range(z0, z1, depth):
        b = min(a + depth, z1)
        yield (slice(a, b), *wide), (b - a, *core), (a - 1, *wide) if a > z0 else None
    if z1 < shape[0]:
        yield (slice(z1, z1 + 1), *wide), (0, *core), (z1 - 1, *wide)


def parts_of(labels, intensity, cuts, depth=4, **how):
    return [
        tables.regions(
            labels[window],
            tuple(s.start for s in window),
            labels.shape,
            None if intensity is None else intensity[window][tuple(slice(0, n) for n in core)],
            core=core,
            below=None if below is None else labels[below],
            **how,
        )
        for box in boxes_of(labels.shape, cuts)
        for window, core, below in windows_of(labels.shape, box, depth)
    ]


def in_some_order(parts, random):
    """Merge random groups until one is left."""
    parts = list(parts)
    while len(parts) > 1:
        random.shuffle(parts)
        k = int(random.integers(2, min(4, len(parts)) + 1))
        parts = [tables.merge(parts[:k]), *parts[k:]]
    return parts[0]


def assert_same_bits(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert a[name].tobytes() == b[name].tobytes(), name


def brute_faces(labels, spacing=(1, 1, 1)):
    padded = np.pad(labels, 1)
    area = {int(label): 0.0 for label in np.unique(labels) if label}
    for axis in range(3):
        a, b = (np.moveaxis(padded, axis, 0)[s] for s in (slice(1, None), slice(None, -1)))
        each = np.prod(spacing) / spacing[axis]
        for label in area:
            area[label] += each * np.count_nonzero((a == label) != (b == label))
    return np.array([area[k] for k in sorted(area)])


def check(table, labels, intensity, spacing, ndim=3):
    squeezed = labels[0] if ndim == 2 else labels
    names = REFERENCE + (REFERENCE_INTENSITY if intensity is not None else ())
    values = None if intensity is None else intensity.astype(np.float64)
    if ndim == 2:
        names += ("orientation", "axis_major_length", "axis_minor_length")
        values = None if values is None else values[0]
    expected = regionprops_table(
        squeezed.astype(np.int64), values, properties=names, spacing=spacing[3 - ndim :]
    )
    box = np.sqrt((np.array(labels.shape) ** 2 * np.array(spacing) ** 2).sum())
    for name, reference in expected.items():
        got = table[name]
        if name in ("label", "num_pixels") or name.startswith("bbox"):
            assert np.array_equal(got, reference), name
        elif name == "intensity_std":
            mean = np.abs(expected["intensity_mean"])
            assert (np.abs(got - reference) <= 1e-9 * (np.abs(reference) + mean)).all()
        elif name == "orientation":
            far = table["inertia_tensor_eigvals-0"] > 1.01 * table["inertia_tensor_eigvals-1"]
            turned = np.abs(got - reference)[far]
            assert (np.minimum(turned, np.pi - turned) < 1e-6).all()
        elif "length" in name or "inertia" in name:
            np.testing.assert_allclose(got, reference, rtol=1e-7, atol=1e-6 * box)
        else:
            np.testing.assert_allclose(got, reference, rtol=1e-9, err_msg=name)


def intensity_of(random, shape, dtype):
    if dtype is None:
        return None
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        values = random.random(shape) + 0.01
        if random.random() < 0.5:
            values *= 10.0 ** random.integers(-4, 4, shape)
        return values.astype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.7
    low = 1 if dtype.kind == "u" else -50
    return random.integers(
        low, np.iinfo(dtype).max // (2048 if dtype.itemsize == 8 else 1), shape
    ).astype(dtype)


DTYPES = [None, bool, np.uint8, np.int16, np.uint32, np.int32, np.uint64, np.int64]
DTYPES += [np.float16, np.float32, np.float64]
drawn = dtypes_drawn(DTYPES)


@st.composite
def cases(draw, dtypes):
    shape = tuple(draw(st.integers(1, 11)) for _ in range(3))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    coarse = random.random(shape) < draw(st.sampled_from([0.2, 0.6, 1.0]))
    labels = random.integers(0, draw(st.integers(1, 9)) + 1, shape) * coarse
    names = np.concatenate([[0], random.choice(2**40, 9, replace=False) + 1]).astype(np.uint64)
    if draw(st.booleans()):
        labels = names[labels]
    else:
        labels = labels.astype(draw(st.sampled_from(label_dtypes(dtypes))))
    cuts = [draw(st.sets(st.integers(1, n - 1), max_size=3)) if n > 1 else () for n in shape]
    spacing = draw(st.sampled_from([(1.0, 1.0, 1.0), (40.0, 4.0, 4.5)]))
    intensity = intensity_of(random, shape, draw(st.sampled_from(dtypes)))
    return random, labels, intensity, cuts, draw(st.integers(1, 4)), spacing


@thorough
@drawn
@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(data=st.data())
def test_any_partition_and_order(dtypes, data):
    random, labels, intensity, cuts, depth, spacing = data.draw(cases(dtypes))
    whole = tables.regions(labels, (0, 0, 0), labels.shape, intensity)
    cut = in_some_order(parts_of(labels, intensity, cuts, depth), random)
    shape = labels.shape
    table = tables.properties(whole, shape, spacing=spacing)
    assert_same_bits(table, tables.properties(cut, shape, spacing=spacing))
    if not labels.any():
        assert all(len(column) == 0 for column in table.values())
        return
    # scikit-image needs small labels: names keep their order
    present = np.unique(labels[labels > 0])
    small = np.where(labels > 0, np.searchsorted(present, labels) + 1, 0)
    assert np.array_equal(table["label"], present)
    check({**table, "label": np.arange(len(present)) + 1}, small, intensity, spacing)
    np.testing.assert_allclose(table["surface_area_faces"], brute_faces(small, spacing), rtol=1e-12)
    core = np.zeros(shape, bool)
    core[1:-1, 1:-1, 1:-1] = True
    assert np.array_equal(table["touches_border"], np.isin(present, labels[~core]))
    if intensity is not None and intensity.dtype.kind in "bui":
        wide = intensity.astype(object)
        sums = [wide[labels == p].sum() for p in present]
        assert table["intensity_sum"].tolist() == [int(s) for s in sums]


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8"])
def test_only_the_sums_that_properties_need_and_with_the_same_bits(dtype):
    random = np.random.default_rng(8)
    labels = random.integers(0, 5, (5, 6, 7)).astype("u2")
    intensity = intensity_of(random, labels.shape, dtype)
    whole = tables.properties(
        tables.regions(labels, (0, 0, 0), labels.shape, intensity), labels.shape
    )
    sums = {"intensity_sum": 1, "intensity_mean": 1, "intensity_std": 2, "centroid_weighted": 5}
    for name, number in {"intensity_min": 0, "intensity_max": 0, **sums}.items():
        arrays = tables.arrays_for([name])
        parts = parts_of(labels, intensity, [(2,), (3, 4), (5,)], 1, arrays=arrays)
        cut = in_some_order(parts, random)
        assert cut.intensities.sums.digits.shape[1] == number
        table = tables.properties(cut, labels.shape, [name])
        assert_same_bits({key: whole[key] for key in table}, table)


@pytest.mark.parametrize("dtype", ["i2", "u8", "f4", "f8"])
def test_magnitudes(dtype):
    values = np.array([[[0, 3, 5], [7, 100, 0]]]).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values[0, 1] = [-7, np.nan, -np.inf]
    bad = 2 * (np.dtype(dtype).kind == "f")
    minimum, maximum, others = regions.magnitudes(values)
    assert (minimum, maximum, others) == ((3.0, 7.0, 2) if bad else (1.0, 100.0, 0))
    assert regions.magnitudes(0 * values[:, :1]) == (np.inf, 0.0, 0)
    if bad:
        tiny = np.finfo(dtype).smallest_subnormal
        assert regions.magnitudes(np.full((1, 1, 2), -tiny)) == (tiny, tiny, 0)


def test_two_dimensions():
    random = np.random.default_rng(2)
    mask = ndi.gaussian_filter(random.random((60, 70)), 2) > 0.5
    labels = ndi.label(mask)[0][None].astype(np.uint32)
    intensity = random.random(labels.shape).astype(np.float32)
    parts = parts_of(labels, intensity, [(), (20, 21), (33,)])
    table = tables.properties(tables.merge(parts), labels.shape, spacing=(1, 2.0, 3.0), axes=(1, 2))
    check(table, labels, intensity, (1, 2.0, 3.0), ndim=2)
    assert "bbox-3" in table and "bbox-4" not in table
    assert not table["touches_border"].all()


def test_axes_of_blobs():
    random = np.random.default_rng(4)
    mask = ndi.gaussian_filter(random.random((40, 50, 60)), 3) > 0.505
    labels = ndi.label(mask)[0].astype(np.uint32)
    spacing = (40.0, 4.0, 4.5)
    parts = parts_of(labels, None, [(7, 20), (25,), (31,)])
    table = tables.properties(tables.merge(parts), labels.shape, spacing=spacing)
    expected = regionprops_table(
        labels.astype(int), properties=("axis_major_length",), spacing=spacing
    )
    got = table["axis_major_length"]
    np.testing.assert_allclose(got, expected["axis_major_length"], rtol=1e-6, atol=1e-3)
    vectors = np.stack([table[f"principal_axes-0-{i}"] for i in range(3)], axis=1)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1)


def test_far_from_the_origin():
    """The same region at the end of axes of 350,000 voxels, and 1e12 of its blocks."""
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, (6, 7, 8)).astype(np.uint8)
    values = random.random((6, 7, 8)).astype(np.float32)
    origin, shape = (349_990, 349_980, 349_970), (350_000,) * 3
    far = tables.regions(labels, origin, shape, values)
    near = tables.regions(labels, (1, 1, 1), shape, values)
    a, b = (tables.properties(p, shape) for p in (far, near))
    for i, o in enumerate(origin):
        np.testing.assert_allclose(a[f"centroid-{i}"] - o, b[f"centroid-{i}"] - 1, atol=1e-10)
        np.testing.assert_allclose(
            a[f"centroid_weighted-{i}"] - o, b[f"centroid_weighted-{i}"] - 1, atol=1e-10
        )
    for name in ("axis_major_length", "inertia_tensor_eigvals-2", "intensity_std"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-10)
    many = far
    for _ in range(40):
        many = tables.merge([many, many])
    numbers, unit = many.sums[:, 3].python()
    assert numbers[0] << unit > 2**70
    again = tables.properties(many, shape)
    for name in ("centroid-0", "inertia_tensor_eigvals-0", "intensity_mean", "intensity_std"):
        np.testing.assert_allclose(again[name], a[name], rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_moments_far_from_the_origin(dtype):
    random = np.random.default_rng(5)
    labels = random.integers(0, 3, (6, 7, 8)).astype(np.uint8)
    values = intensity_of(random, labels.shape, dtype)
    names = ["moments", "moments_central", "moments_weighted", "moments_weighted_central"]
    arrays, shape = tables.arrays_for(names), (350_000,) * 3
    far, near = (
        tables.regions(labels, origin, shape, values, arrays=arrays)
        for origin in ((349_990, 349_980, 349_970), (0, 0, 0))
    )
    cut = in_some_order(parts_of(labels, values, [(2,), (3, 4), (5,)], 1, arrays=arrays), random)
    found = [tables.properties(part, shape, names) for part in (far, near, cut)]
    assert_same_bits(*found[:2])
    assert_same_bits(*found[1:])
    expected = regionprops_table(labels, values.astype(np.float64), properties=names)
    for name in expected:
        if sum(map(int, name.split("-")[1:])) <= 3:
            scale = (
                1e-9 * np.abs(expected[name]).max()
                + 1e-9 * expected["moments_weighted-0-0-0"].max()
            )
            np.testing.assert_allclose(found[0][name], expected[name], rtol=1e-9, atol=scale)


def test_cancelling_floats_are_exact():
    labels = np.ones((1, 1, 6), np.uint8)
    values = np.array([[[1e30, 1.0, -1e30, 2.0**-140, 1e-3, -1e-3]]], np.float32)
    part = tables.regions(labels, (0, 0, 0), labels.shape, values)
    table = tables.properties(part, labels.shape, ["intensity_sum"])
    assert table["intensity_sum"][0] == 1.0 + 2.0**-140
    with np.errstate(all="ignore"):
        tiny = np.array([[[5e-324, 1e-200, -1e-200]]])
    part = tables.regions(labels[..., :3], (0, 0, 0), (1, 1, 3), tiny)
    assert tables.properties(part, (1, 1, 3), ["intensity_sum"])["intensity_sum"][0] == 5e-324


def test_a_sum_beyond_64_bits():
    labels = np.ones((1, 1, 3), np.uint8)
    values = np.full(labels.shape, 2**63 - 1, np.int64)
    part = tables.regions(labels, (0, 0, 0), labels.shape, values)
    assert part.intensities.sums[:, 0].python() == ([3 * (2**63 - 1)], 0)
    assert tables.properties(part, labels.shape, ["intensity_std"])["intensity_std"] == [0]
    with pytest.raises(ValueError, match="intensity_sum"):
        tables.properties(part, labels.shape, ["intensity_sum"])


def test_not_finite():
    labels = np.array([[[1, 1, 2, 2]]], np.uint8)
    values = np.array([[[1.0, np.nan, np.inf, np.nan]]], np.float32)
    with pytest.raises(ValueError, match="3 intensities"):
        tables.regions(labels, (0, 0, 0), labels.shape, values)
    part = tables.regions(labels, (0, 0, 0), labels.shape, values, nan="omit")
    table = tables.properties(part, labels.shape)
    assert table["intensity_mean"][0] == 1 and np.isnan(table["intensity_mean"][1])
    assert table["num_pixels"].tolist() == [2, 2]
    with pytest.raises(ValueError, match="square"):
        tables.regions(labels, (0, 0, 0), labels.shape, np.full(labels.shape, 1e200))


def test_long_blocks_are_halved():
    labels = np.zeros((1, 2, 70_000), np.uint32)
    labels[:, :, 100:69_000] = 7
    part = tables.regions(labels, (0, 0, 0), labels.shape, labels)
    table = tables.properties(part, labels.shape)
    assert table["num_pixels"] == [2 * 68_900] and table["intensity_sum"] == [14 * 68_900]
    assert table["surface_area_faces"] == [2 * 2 * 68_900 + 2 * 68_900 + 4]
    wide = np.pad(labels, 1)
    parts = parts_of(wide, None, [(), (2,), (69_500,)], depth=1)
    assert len(parts) == 12
    table = tables.properties(tables.merge(parts), wide.shape)
    assert table["surface_area_faces"] == [2 * 2 * 68_900 + 2 * 68_900 + 4]


def same_rows(a, b):
    """Whether two summaries have the same rows, column by column."""
    for name in ("label", "count", "box", "faces", "windows"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
    for name in ("sums", "cubes"):
        assert getattr(a, name).python() == getattr(b, name).python(), name


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("cuts", [[(), (), ()], [(8,), (2,), (1,)]], ids=["whole", "slabs"])
def test_halves_of_a_block_have_its_rows(axis, cuts):
    """Blocks with the plane below, and one more plane above, are halved along their longest axis."""
    random = np.random.default_rng(axis)
    shape = np.roll((21, 4, 3), axis)
    labels = random.integers(0, 4, shape, np.uint8)
    arrays = tables.arrays_for(("bbox", "moments", "surface_area_faces", "euler_number"))
    how = None, "raise", True, arrays
    nothing, cuts = np.empty((0, 0), np.uint8), cuts[-axis:] + cuts[:-axis]
    for box in boxes_of(labels.shape, cuts):
        for window, core, below in windows_of(labels.shape, box, 7 if axis == 0 else 2):
            start = tuple(s.start for s in window)
            under = nothing if below is None else labels[below]
            block = tables._Block(labels[window], under, core, start, labels.shape, None, None)
            parts = tables._halves(block, *how)
            same_rows(tables._of_block(block, *how), tables.merge(parts))


def test_labels_that_are_none():
    for dtype in (np.float32, np.complex64):
        with pytest.raises(TypeError, match="labels have dtype"):
            tables.regions(np.zeros((1, 1, 1), dtype), (0, 0, 0), (1, 1, 1))
    with pytest.raises(ValueError, match="the label -3"):
        tables.regions(np.full((1, 1, 1), -3, np.int16), (0, 0, 0), (1, 1, 1))


def test_batches():
    random = np.random.default_rng(0)
    labels = random.integers(0, 1000, (10, 20, 30)).astype(np.uint32)
    whole = tables.regions(labels, (0, 0, 0), labels.shape, random.random(labels.shape))
    pieces = list(tables.batches(whole, 50_000))
    assert len(pieces) > 3 and all(p.nbytes < 60_000 for p in pieces)
    assert_same_bits(
        tables.properties(tables.merge(pieces), labels.shape),
        tables.properties(whole, labels.shape),
    )


def test_exact_sums_become_integers_of_64_bits():
    for numbers in ([], [0], [-1, 5], [2**31, -(2**31)], [2**63 - 1, -(2**63)], [3 << 32, 1 << 40]):
        values = np.array(numbers, np.int64)
        wide = Wide.integers(values)
        assert np.array_equal(wide.int64("a sum"), values)
        assert (wide + wide).python()[0] == [2 * n >> 32 * (wide + wide).first for n in numbers]
    large = Wide.integers(np.array([2**62])).times(2)
    assert large.int64("a sum", np.uint64).tolist() == [2**63]
    for sums, dtype in ((large, np.int64), (Wide.integers(np.array([-1])), np.uint64)):
        with pytest.raises(ValueError, match="a sum does not fit"):
            sums.int64("a sum", dtype)
