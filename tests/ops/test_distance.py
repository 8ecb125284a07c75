"""The distance transform and running sums through plans, in random partitions, against scipy."""

import tempfile

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import ndimage as ndi
from skimage.segmentation import expand_labels

import beam_volumes as bv
from beam_volumes.across.scans import cumsum_dtype
from tests.across.test_distance import SAMPLINGS, expected
from tests.tiers import examples, few, thorough

#: All voxels of a mask or few of them, none, one.
SHARES = [0, 0.3, 0.9, 0.999, 1, "one", "all but one"]


def mask_of(shape, share, seed):
    random = np.random.default_rng(seed)
    if isinstance(share, str):
        mask = np.full(shape, share == "all but one")
        mask[tuple(random.integers(0, n) for n in shape)] ^= True
        return mask
    return random.random(shape) < share


def in_parts(volume, slab=None, window=None, chunks=None, threads=1):
    with tempfile.TemporaryDirectory() as folder:
        out = volume.to(f"{folder}/out.zarr", chunks=chunks)
        how = {"slab": slab, "window": window, "threads": threads}
        return np.asarray(bv.compute(out, runner=None, progress=False, **how))


@st.composite
def slabs(draw, shape, wide=True):
    """Slabs of whole planes, or any."""
    slab = [draw(st.integers(1, n)) for n in shape]
    if wide and len(shape) == 3:
        slab[1:] = shape[1:]
    elif wide:
        slab = list(shape)
    how = {"slab": tuple(slab), "chunks": tuple(slab)}
    return how | {
        "window": draw(st.sampled_from([None, 1, 2, 5])),
        "threads": draw(st.sampled_from([1, 2])),
    }


@pytest.mark.parametrize("batch", range(4))
@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(data=st.data())
def test_distance(batch, data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (14, 130, 70))
    if draw(st.integers(0, 4)) == 0:
        shape = shape[1:]
    mask = mask_of(shape, draw(st.sampled_from(SHARES)), 100 * batch + draw(st.integers(0, 99)))
    sampling = draw(st.sampled_from(SAMPLINGS))[-len(shape) :]
    volume = bv.open(mask if draw(st.booleans()) else mask * np.float32(0.5))
    got = in_parts(bv.distance_transform_edt(volume, sampling), **draw(slabs(shape)))
    assert got.dtype == np.float32
    exact = len(set(sampling)) == 1 and sampling[0] == 1
    np.testing.assert_array_max_ulp(got, expected(mask, sampling), 0 if exact else 1)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(data=st.data())
def test_chessboard_and_taxicab_distances_are_scipys(data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (14, 70, 150))
    if draw(st.integers(0, 4)) == 0:
        shape = shape[1:]
    mask = mask_of(shape, draw(st.sampled_from(SHARES)), draw(st.integers(0, 999)))
    metric = draw(st.sampled_from(["chessboard", "taxicab", "cityblock", "manhattan"]))
    volume = bv.open(mask if draw(st.booleans()) else mask * np.float32(0.5))
    got = in_parts(bv.distance_transform_cdt(volume, metric), **draw(slabs(shape)))
    np.testing.assert_array_equal(got, ndi.distance_transform_cdt(mask, metric), strict=True)


def test_structures_are_metrics_and_others_are_refused():
    v = bv.open(mask_of((4, 9, 7), 0.9, 1))
    for rank, metric in ((1, "taxicab"), (3, "chessboard")):
        same = bv.distance_transform_cdt(v, ndi.generate_binary_structure(3, rank))
        np.testing.assert_array_equal(same, bv.distance_transform_cdt(v, metric))
    for bad in ("euclidean", ndi.generate_binary_structure(3, 2), np.ones((3, 3))):
        with pytest.raises(ValueError, match="chessboard, taxicab"):
            bv.distance_transform_cdt(v, bad)
    with pytest.raises(ValueError, match="use distance_transform_edt"):
        bv.distance_transform_cdt(v, return_indices=True)


@thorough
@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(data=st.data())
def test_planes_in_tiles(data):
    """Where planes are cut, distances go through full columns and full rows."""
    draw = data.draw
    shape = tuple(draw(st.integers(2, n)) for n in (9, 60, 50))
    mask = mask_of(shape, draw(st.sampled_from(SHARES)), draw(st.integers(0, 99)))
    sampling = draw(st.sampled_from(SAMPLINGS))
    slab = tuple(-(-n // draw(st.integers(2, 3))) for n in shape)
    lazy = bv.distance_transform_edt(bv.open(mask), sampling)
    assert len(bv.plan(lazy, slab=slab).passes) == 4
    got = in_parts(lazy, slab=slab, chunks=slab)
    exact = sampling == (1, 1, 1)
    np.testing.assert_array_max_ulp(got, expected(mask, sampling), 0 if exact else 1)


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(data=st.data())
def test_up_to_a_distance(data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (14, 40, 50))[draw(st.integers(0, 1)) :]
    mask = mask_of(shape, draw(st.sampled_from(SHARES)), draw(st.integers(0, 99)))
    sampling = draw(st.sampled_from(SAMPLINGS))[-len(shape) :]
    most = draw(st.sampled_from([0.5, 1, 2.5, 9.7]))
    squared = draw(st.booleans())
    lazy = bv.distance_transform_edt(mask, sampling, squared=squared, max_distance=most)
    got = in_parts(lazy, **draw(slabs(shape, wide=False)))
    assert got.tobytes() == np.asarray(lazy).tobytes()
    with np.errstate(invalid="ignore"):
        reference = ndi.distance_transform_edt(mask, sampling) if not mask.all() else np.inf
    reference = np.minimum(np.broadcast_to(reference, shape), most).astype(np.float32)
    if squared:
        got = np.sqrt(got).astype(np.float32)
    np.testing.assert_array_max_ulp(got, reference, 2)


@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(data=st.data())
def test_labels_expand_to_the_nearest(data):
    """scikit-image's voxels, with the smallest of equally near labels."""
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (9, 24, 30))[draw(st.integers(0, 1)) :]
    dtype = draw(st.sampled_from(["?", "u1", "u4", "i8"]))
    share = draw(st.sampled_from([0, 0.01, 0.1, 0.6]))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    labels = (random.integers(1, 9, shape) * (random.random(shape) < share)).astype(dtype)
    if labels.itemsize == 8:
        labels *= 2**55
    spacing = draw(st.sampled_from(SAMPLINGS))[-len(shape) :]
    distance = draw(st.sampled_from([0.5, 1, 2.5, 6, 50]))
    lazy = bv.expand_labels(labels, distance, spacing)
    got = in_parts(lazy, **draw(slabs(shape, wide=False)))
    assert got.dtype == labels.dtype
    best, found = np.full(shape, np.inf), np.zeros(shape, labels.dtype)
    every = np.indices(shape)
    unit = spacing[0] if len(set(spacing)) == 1 else 1  # exact squares, so ties are ties
    steps = [s / unit for s in spacing]
    for at in sorted(np.argwhere(labels).tolist(), key=lambda p: labels[tuple(p)]):
        apart = sum(((e - a) * s) ** 2 for e, a, s in zip(every, at, steps, strict=True))
        closer = apart < best
        best[closer], found[closer] = apart[closer], labels[tuple(at)]
    found[np.sqrt(best) * unit > distance] = 0
    np.testing.assert_array_equal(got, found)
    theirs = expand_labels(labels, distance, spacing) if labels.any() else labels
    assert np.array_equal(theirs != 0, got != 0)


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(data=st.data())
def test_positions_of_the_nearest_background(data):
    draw = data.draw
    shape = tuple(draw(st.integers(2, n)) for n in (9, 24, 30))[draw(st.integers(0, 1)) :]
    mask = mask_of(shape, draw(st.sampled_from(SHARES)), draw(st.integers(0, 99)))
    sampling = draw(st.sampled_from(SAMPLINGS))[-len(shape) :]
    most = draw(st.sampled_from([1, 3.5, 9]))
    how = {"max_distance": most, "return_indices": True}
    _, lazy = bv.distance_transform_edt(mask, sampling, **how)
    got = in_parts(lazy, **draw(slabs(shape, wide=False)))
    assert lazy.channels == tuple("zyx"[-len(shape) :]) and got.dtype == np.int32
    theirs = ndi.distance_transform_edt(mask, sampling) if not mask.all() else np.inf
    near = np.broadcast_to(theirs, shape) <= most
    assert np.array_equal(got[0] >= 0, near)
    steps = np.reshape(sampling, (-1, *[1] * len(shape)))
    apart = np.sqrt(((steps * (got - np.indices(shape))) ** 2).sum(0))
    np.testing.assert_allclose(apart[near], np.broadcast_to(theirs, shape)[near])
    assert not mask[tuple(got[:, near])].any()


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(data=st.data())
def test_positions_of_the_nearest_background_anywhere(data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (9, 14, 16))[draw(st.integers(0, 1)) :]
    mask = mask_of(shape, draw(st.sampled_from([0.6, 0.95, 0.99, 1])), draw(st.integers(0, 99)))
    sampling = draw(st.sampled_from([(1, 1, 1), (2.5,) * 3, (4, 1, 1)]))[-len(shape) :]
    lazy = bv.distance_transform_edt(mask, sampling, return_indices=True)
    got = in_parts(lazy[1], **draw(slabs(shape)))
    found = np.full((len(shape), *shape), -1)
    best = np.full(shape, np.inf)
    for at in np.argwhere(~mask):  # in raster order
        steps = [(e - a) * s for e, a, s in zip(np.indices(shape), at, sampling, strict=True)]
        closer = np.square(steps).sum(axis=0) < best
        best[closer] = np.square(steps).sum(axis=0)[closer]
        found[:, closer] = at[:, None]
    np.testing.assert_array_equal(got, found)


@pytest.mark.parametrize("how", [{}, {"max_distance": 3}])
@pytest.mark.parametrize("axes", ["tzyx", "tyx"])
def test_positions_for_each_point_in_time(axes, how):
    masks = np.random.default_rng(5).random((2, 5, 9, 10)[: len(axes)]) > 0.3
    _, at = bv.distance_transform_edt(bv.open(masks, axes=axes), return_indices=True, **how)
    alone = [bv.distance_transform_edt(mask, return_indices=True, **how)[1] for mask in masks]
    assert "".join(at.channels) == axes[1:]
    np.testing.assert_array_equal(np.asarray(at), np.stack([np.asarray(a) for a in alone]))


def test_lengths_of_expanded_labels():
    nuclei = bv.open(np.array([[0, 0, 0, 1, 0, 0]]), voxel_size=8, unit="nm")
    got = bv.expand_labels(nuclei, "0.017 um", spacing="voxel_size")
    assert np.asarray(got).tolist() == [[0, 1, 1, 1, 1, 1]]
    # The first in raster order of equally near voxels.
    _, at = bv.distance_transform_edt(np.array([[0, 1, 0]]), max_distance=1, return_indices=True)
    assert np.asarray(at)[1].tolist() == [[0, 0, 2]]
    assert np.array_equal(bv.expand_labels(nuclei, 0), nuclei)
    for bad, error in ((-1, "above 0"), ("9 nm", 'spacing="voxel_size"'), (np.nan, "above 0")):
        with pytest.raises(ValueError, match=f"distance=.*{error}"):
            bv.expand_labels(nuclei, bad)
    with pytest.raises(TypeError, match="labels have dtype float64"):
        bv.expand_labels(nuclei * 0.5)


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(data=st.data())
def test_cumsum(data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (14, 9, 11))[draw(st.integers(0, 1)) :]
    dtype = np.dtype(draw(st.sampled_from(["?", "u1", "i2", "i8", "f2", "f4", "f8"])))
    array = (np.random.default_rng(draw(st.integers(0, 99))).random(shape) * 100).astype(dtype)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    wide = axis % len(shape) > len(shape) - 3  # only sums along z have slabs narrower than planes
    got = in_parts(bv.cumsum(bv.open(array), axis), **draw(slabs(shape, wide)))
    assert got.dtype == cumsum_dtype(dtype)
    assert got.tobytes() == np.cumsum(array, axis, got.dtype).tobytes()


def rough(shape, dtype):
    """Numbers of many magnitudes, zeros of both signs, and NaNs of several bits in one column."""
    random = np.random.default_rng(1)
    a = (random.standard_normal(shape) * 10.0 ** random.integers(-4, 5, shape)).astype(dtype)
    a[:2, 0] = -0.0
    a[2:4, 1, :3], a[5, 1, :3] = np.nan, -np.array(np.nan, dtype)
    return a


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_running_sums_of_floats_do_not_depend_on_slabs(axis, dtype):
    a = rough((23, 17, 19), dtype)
    expected = np.cumsum(a, axis, np.float64)
    expected[np.isnan(expected)] = np.nan
    lazy = bv.cumsum(bv.open(a), axis)
    for slab, window, threads, workers in [
        (None, None, 1, 1),
        ((7, 5, 19), 3, 2, 2),
        ((1, 4, 4), 1, 1, 1),
        ((5, 17, 3), 2, 1, 3),
    ]:
        how = dict(slab=slab, window=window, threads=threads, workers=workers)
        got = bv.compute(lazy, runner=None, **how)
        assert got.tobytes() == expected.tobytes()
    # Results see them from the first slice on, for any part.
    np.testing.assert_array_equal(np.asarray((lazy + 1)[5:9, 2:]), (expected + 1)[5:9, 2:])
    moved = bv.shift(lazy, (-3, 1, 0), order=0)
    np.testing.assert_array_equal(np.asarray(moved)[:20, 1:], expected[3:, :-1])
    positive = bv.compute(bv.label(lazy > 0), runner=None, slab=(4, 5, 6), workers=2)
    np.testing.assert_array_equal(positive, ndi.label(expected > 0)[0])


def test_running_sums_of_floats_along_z_take_one_sweep_of_few_deep_slabs():
    v = bv.open(np.zeros((64, 1000, 1500), "f4"))
    plan = bv.plan(bv.cumsum(bv.gaussian_filter(v, 1)), memory="800MiB", workers=3)
    assert len(plan.passes) == 1 and plan.passes[0].grid.step[0] == 64
    assert plan.predicted_memory <= 800 << 20


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_crop_of_running_sums(axis):
    """They begin where the volume does, not where the crop does."""
    a = np.random.default_rng(axis).integers(0, 9, (6, 7, 8))
    part = np.s_[2:, 3:6, 4:]
    got = bv.compute(bv.cumsum(bv.open(a), axis=axis)[part] + 0, runner=None)
    np.testing.assert_array_equal(got, a.cumsum(axis)[part])


@thorough
@pytest.mark.parametrize("axis", few([0, 1, 2], [0]))
def test_coordinates_whose_squares_overflow_int32(axis):
    shape = [2, 1, 1] if axis == 2 else [1, 1, 2]
    shape[axis] = 50_000
    mask = np.ones(shape, bool)
    mask[0, 0, 0] = False
    slab = tuple(np.minimum(shape, (20_000, 10**6, 10**6)).tolist())
    got = in_parts(bv.distance_transform_edt(mask), slab=slab, chunks=slab)
    assert np.array_equal(got, expected(mask, (1, 1, 1))) and got.max() > 49_998


def test_squared_and_signed():
    mask = mask_of((9, 20, 30), 0.9, 1)
    squared = bv.distance_transform_edt(mask, squared=True)
    assert squared.dtype == np.float64
    exact = np.rint(ndi.distance_transform_edt(mask) ** 2)
    assert np.array_equal(in_parts(squared, (4, 20, 30), 3, (4, 20, 30)), exact)
    signed = in_parts(bv.signed_distance(mask, 2), (4, 20, 30), 3, (4, 20, 30))
    inside, outside = (ndi.distance_transform_edt(m, 2).astype("f4") for m in (mask, ~mask))
    np.testing.assert_array_max_ulp(signed, inside - outside, 1)
    assert np.isneginf(np.asarray(bv.signed_distance(np.zeros((3, 4, 5))))).all()


def test_lengths_with_units():
    mask = mask_of((6, 20, 30), 0.99, 2)
    volume = bv.open(mask, voxel_size=(40, 4, 4), unit="nm")
    got = bv.distance_transform_edt(volume, "voxel_size", max_distance="0.05 um")
    reference = np.minimum(expected(mask, (40, 4, 4)), 50)
    np.testing.assert_array_max_ulp(np.asarray(got), reference.astype("f4"), 1)


def test_distances_are_as_other_volumes():
    """Cropped, filtered, compared with their inputs."""
    mask = mask_of((12, 40, 50), 0.6, 3)
    lazy = bv.distance_transform_edt(bv.gaussian_filter(mask * np.float32(1), 1) > 0.5)
    binary = ndi.gaussian_filter(mask.astype("f4"), 1) > 0.5
    reference = expected(binary, (1, 1, 1))
    assert np.array_equal(np.asarray(lazy[3:9, 5:, 7]), reference[3:9, 5:, 7])
    deep = np.asarray(bv.maximum_filter(lazy, 3) == lazy)
    assert np.array_equal(deep, ndi.maximum_filter(reference, 3) == reference)
    assert bv.compute(bv.max(lazy), runner=None) == reference.max()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"sampling": "nm"}, "voxel_size"),
        ({"sampling": "voxel_size"}, "voxel_size="),
        ({"sampling": (1, 2)}, "2 entries for 3 axes"),
        ({"sampling": 0}, "above 0"),
        ({"max_distance": -1}, "above 0"),
        ({"max_distance": float("nan")}, "above 0"),
        ({"max_distance": 1e300}, "range of float32"),
        ({"max_distance": "5 nm"}, 'sampling="voxel_size"'),
    ],
)
def test_bad_parameters(how, said):
    with pytest.raises(ValueError, match=said):
        bv.plan(bv.distance_transform_edt(np.ones((3, 4, 5), bool), **how))


def test_bad_axis():
    for axis, error in ((None, TypeError), (True, TypeError), (3, ValueError)):
        with pytest.raises(error, match=r"ax[ei]s"):
            bv.cumsum(np.ones((3, 4, 5)), axis)


@pytest.mark.parametrize("squared", [False, True])
def test_a_bound_beyond_the_volume(squared):
    mask = np.random.default_rng(3).random((6, 7, 8)) < 0.9
    for voxels, most in ((mask, 2.0**63), (mask, 3e38), (np.ones_like(mask), 1e9)):
        v = bv.open(voxels)
        found = bv.distance_transform_edt(v, squared=squared, max_distance=most)
        free = np.asarray(bv.distance_transform_edt(v, squared=squared))
        bound = free.dtype.type(most**2 if squared else most)
        np.testing.assert_array_equal(np.asarray(found), np.minimum(free, bound))
        assert found.dtype == free.dtype
