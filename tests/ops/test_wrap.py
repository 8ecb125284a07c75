"""Filters of volumes that repeat, against scipy's and numpy's, over partitions."""

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.tiers import examples

#: Of scipy or of this package, with modes for the axes.
FILTERS = {
    "median": lambda m, x, mode: m.percentile_filter(x, 50, size=3, mode=mode[0]),
    "maximum": lambda m, x, mode: m.maximum_filter(x, (4, 1, 3), origin=(1, 0, -1), mode=mode),
    "uniform": lambda m, x, mode: m.uniform_filter(x, (3, 5, 2), mode=mode),
    "closing": lambda m, x, mode: m.grey_closing(x, 3, mode=mode),
    "gaussian": lambda m, x, mode: m.gaussian_filter(x, (2, 0.5, 1), mode=mode),
    "one axis": lambda m, x, mode: m.gaussian_filter1d(x, 1, axis=0, mode=mode[0]),
    "a single voxel": lambda m, x, mode: x * 0.5 + 3,
    "spline": lambda m, x, mode: m.spline_filter1d(x, 3, axis=1, mode="grid-wrap"),
}
PER_AXIS = {"maximum", "uniform", "closing", "gaussian"}


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(data=st.data())
def test_chains(data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (15, 12, 14))
    x = np.random.default_rng(draw(st.integers(0, 99))).random(shape)
    ours, theirs = bv.open(x), x
    for name in draw(st.lists(st.sampled_from([*FILTERS]), min_size=1, max_size=4)):
        modes = st.sampled_from(["wrap", "grid-wrap", "wrap", "reflect"])
        mode = tuple(draw(modes) for _ in shape) if name in PER_AXIS else (draw(modes),) * 3
        ours, theirs = (FILTERS[name](m, v, mode) for m, v in ((bv, ours), (ndi, theirs)))
    part = draw(st.sampled_from([None, 0, 1, 2]))
    if part is not None:
        at = (slice(None),) * part + (slice(shape[part] // 2, None),)
        ours, theirs = ours[at], theirs[at]
    slab = tuple(draw(st.integers(1, max(1, n))) for n in ours.shape)
    got = bv.compute(ours, runner=None, slab=slab, window=draw(st.sampled_from([None, 1, 3])))
    np.testing.assert_allclose(got, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max())
    np.testing.assert_array_equal(got, bv.compute(ours, runner=None))


def test_a_chain_is_one_sweep_of_a_wider_volume(tmp_path):
    """It reads the sum of the halos, in the chunks of the file; what is not a chain is stored."""
    x = np.random.default_rng(0).integers(0, 255, (30, 20, 26), "u1")
    bv.compute(bv.open(x).to(tmp_path / "in.zarr", chunks=(8, 7, 9)), runner=None)
    v = bv.open(tmp_path / "in.zarr")
    chain = bv.median_filter(bv.median_filter(v, 3, mode="wrap") + 1, 5, mode="wrap")
    target = chain.to(tmp_path / "out.zarr", chunks=(6, 6, 6))
    planned = bv.plan(target, slab=(6, 12, 12))
    (only,) = planned.passes
    assert only.program.steps[0].shape == (36, 26, 32)
    bv.compute(target, slab=(6, 12, 12), runner=None)
    theirs = ndi.median_filter(ndi.median_filter(x, 3, mode="wrap") + 1, 5, mode="wrap")
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), theirs)
    assert bv.verify(tmp_path / "out.zarr") == []
    after = bv.median_filter(bv.median_filter(v, 3), 5, mode="wrap")
    planned = bv.plan(after.to(tmp_path / "after.zarr"))
    assert len(planned.passes) == 2 and "last voxels are needed first" in planned.explain(
        verbose=True
    )
    theirs = ndi.median_filter(ndi.median_filter(x, 3), 5, mode="wrap")
    np.testing.assert_array_equal(bv.compute(after, runner=None), theirs)


def test_what_depends_on_positions_is_stored():
    """Noise of a voxel is of its place in the volume, also where that is read a second time."""
    noise = bv.random_noise(bv.open(np.full((9, 8, 7), 0.5)), seed=3)
    theirs = ndi.uniform_filter(np.asarray(noise), 5, mode="wrap")
    got = bv.compute(bv.uniform_filter(noise, 5, mode="wrap"), runner=None, slab=(2, 3, 7))
    np.testing.assert_allclose(got, theirs, atol=1e-12)
    crop = bv.open(np.arange(504.0).reshape(9, 8, 7))[2:7, :, 1:4]
    theirs = ndi.maximum_filter(np.asarray(crop), 5, mode="wrap")
    np.testing.assert_array_equal(bv.maximum_filter(crop, 5, mode="wrap"), theirs)
    np.testing.assert_array_equal(
        bv.pad(bv.flip(crop), 4, "wrap"), np.pad(np.flip(crop), 4, "wrap")
    )
    np.testing.assert_array_equal(
        bv.flip(bv.pad(crop, 4, "wrap"))[1:], np.flip(np.pad(crop, 4, "wrap"))[1:]
    )
    wide = bv.pad(bv.minimum_filter(crop, 3), 2, "wrap")
    theirs = np.pad(ndi.minimum_filter(np.asarray(crop), 3), 2, "wrap")
    np.testing.assert_array_equal(bv.transpose(wide), theirs.transpose())
    assert bv.compute(bv.max(wide), runner=None) == theirs.max()


def test_functions_of_blocks_and_channels():
    x = np.random.default_rng(0).random((2, 2, 6, 7, 8)).astype("f4")
    v = bv.open(x, axes="tczyx")
    theirs = np.stack([[ndi.maximum_filter(c, 3, mode="wrap") for c in t] for t in x])
    np.testing.assert_array_equal(bv.maximum_filter(v, 3, mode="wrap"), theirs)

    def largest(a):
        return a.max(0, keepdims=True).repeat(2, 0)

    def before(a):
        return np.roll(a, 1, -1)

    both = bv.map_overlap(largest, v, depth=1, mode="wrap", mixes="channels", channels=2)
    np.testing.assert_array_equal(both, x.max(1, keepdims=True).repeat(2, 1))
    moved = bv.map_overlap(before, v, depth=(0, 0, 1), mode="grid-wrap")
    np.testing.assert_array_equal(moved, np.roll(x, 1, -1))


def test_a_long_chain_is_stored_on_the_way():
    v = bv.open(np.random.default_rng(0).random((4, 3, 70)).astype("f4"))
    for _ in range(70):
        v = bv.maximum_filter1d(v, 2, axis=2, mode="wrap") * 0.5
    assert len(bv.plan(v).passes) == 3


def test_a_shift_by_whole_voxels_rolls():
    x = np.random.default_rng(4).integers(0, 99, (5, 6, 7))
    for by in ((2, -3, 0), (100, -61, 7)):
        v = bv.shift(x, by, order=0, mode="grid-wrap")
        got = bv.compute(v, runner=None, slab=(2, 3, 4))
        np.testing.assert_array_equal(got, np.roll(x, by, (0, 1, 2)))
        there = bv.shift(x.astype("f8"), by, mode="grid-wrap", order=3)
        np.testing.assert_allclose(np.asarray(there), np.roll(x, by, (0, 1, 2)), atol=1e-9)
    with pytest.raises(ValueError, match=r"a voxel shorter than the volume; use mode='grid-wrap'"):
        bv.shift(x, 1, mode="wrap")
