"""Volumes, arrays and lazy arrays of other shapes go together as numpy's arrays do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.tiers import examples, few

SHAPE = (2, 6, 5, 7)
ARRAY = np.random.default_rng(0).integers(0, 1000, SHAPE).astype("u2")


def extents() -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes that go with one of `SHAPE`: some extents are 1, the first ones may be missing."""
    kept = st.tuples(*(st.sampled_from((1, n)) for n in SHAPE))
    return st.builds(lambda shape, ndim: shape[4 - ndim :], kept, st.integers(1, 4))


@given(extents(), extents(), st.sampled_from(["czyx", "tzyx"]), st.integers(1, 3), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_any_shapes_go_together_as_numpys_do(one, other, axes, depth, both_lazy):
    rng = np.random.default_rng(len(one) + 7 * len(other))
    a, b = (rng.random(s) for s in (one, other))
    v = bv.open(ARRAY, axes=axes)
    x = (v + a) * (bv.open(b) if both_lazy and b.ndim == 3 else b)
    slab = (depth, 3, 4)
    wanted = (ARRAY + a) * b
    np.testing.assert_array_equal(bv.compute(x, runner=None, slab=slab), wanted)


@pytest.mark.parametrize("runner", few([None, "FnApiRunner"], [None]))
def test_a_lazy_array_goes_with_the_volume_it_was_found_in(runner: str | None) -> None:
    a = ARRAY[0].astype("f4")
    v = bv.open(a, voxel_size=(4, 1, 1), unit="nm")
    flat = bv.where(v > v.min(axis="z"), v / v.max(axis=("y", "x"), keepdims=True), 0.0)
    wanted = np.where(a > a.min(0), a / a.max((1, 2), keepdims=True), np.float32(0))
    np.testing.assert_array_equal(bv.compute(flat, runner=runner, slab=(2, 3, 7)), wanted)
    assert (flat.voxel_size, flat.unit) == ((4, 1, 1), "nanometer")


def test_lazy_arrays_and_arrays_are_lazy_arrays() -> None:
    numbers = bv.max(bv.open(ARRAY[0]), axis="z") + np.arange(7)
    assert isinstance(numbers, bv.Scalar)
    np.testing.assert_array_equal(np.asarray(numbers), ARRAY[0].max(0) + np.arange(7))


def test_each_point_in_time_has_its_own() -> None:
    film = bv.open(ARRAY, axes="tzyx")
    np.testing.assert_array_equal(
        np.asarray(bv.where(film > 500, ARRAY, 0)), np.where(ARRAY > 500, ARRAY, 0)
    )
    np.testing.assert_array_equal(
        np.asarray(film - film.min(axis="z")), ARRAY - ARRAY.min(1, keepdims=True)
    )


def test_a_projection_is_a_volume(tmp_path: Path) -> None:
    v = bv.open(ARRAY)
    projection = bv.open(bv.max(v, axis="z"), axes="cyx", voxel_size=0.5, unit="um")
    assert (projection.axes, projection.shape) == (("c", "y", "x"), (2, 5, 7))
    bv.compute(projection.to(tmp_path / "mip.ome.tif"), runner=None)
    back = bv.open(tmp_path / "mip.ome.tif")
    assert (back.voxel_size, back.unit) == ((0.5, 0.5), "micrometer")
    np.testing.assert_array_equal(np.asarray(back), ARRAY.max(1))
    turned = bv.open(bv.max(v, axis="z"), axes="yxz")
    np.testing.assert_array_equal(np.asarray(turned), ARRAY.max(1).transpose(2, 0, 1))
    smooth = bv.gaussian_filter(v.max(axis="z", keepdims=True), 1)
    whole = bv.gaussian_filter(bv.open(ARRAY.max(1, keepdims=True)), 1)
    np.testing.assert_array_equal(np.asarray(smooth), np.asarray(whole))
    film = bv.open(bv.max(bv.open(ARRAY, axes="tzyx"), axis="z"))
    assert film.axes == ("t", "y", "x")
    np.testing.assert_array_equal(np.asarray(film), ARRAY.max(1))


def test_what_is_repeated_lies_where_the_other_does() -> None:
    v = bv.open(ARRAY[0], voxel_size=(4, 1, 1), unit="nm", origin=(100, 0, 0))
    flat = bv.open(ARRAY[0, 0], voxel_size=(0.001, 0.001), unit="um")
    for x in (v * flat, flat * v, v[3:4] + v, v + v[:, 2:3]):
        assert x.shape == SHAPE[1:]
        assert (x.unit or v.unit, x.voxel_size, x.origin) in (
            ("nanometer", (4, 1, 1), (100, 0, 0)),
            ("micrometer", (0.004, 0.001, 0.001), (0.1, 0, 0)),
        )
    with pytest.raises(ValueError, match="voxel size"):
        _ = v * bv.open(ARRAY[0, 0], voxel_size=(2, 2), unit="nm")


def test_reductions_keep_their_axes_as_numpys_do() -> None:
    v = bv.open(ARRAY)
    for axis, numbers in (
        (None, None),
        ("z", 1),
        (("y", -1), (2, 3)),
        (0, 0),
        (("c", "z"), (0, 1)),
    ):
        ours, theirs = v.max(axis=axis, keepdims=True), ARRAY.max(axis=numbers, keepdims=True)
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(np.asarray(ours), theirs)
        np.testing.assert_array_equal(np.max(v, axis=numbers, keepdims=True), theirs)
        np.testing.assert_array_equal(np.asarray(v - ours), ARRAY - theirs)


@pytest.mark.parametrize("shape", [(5,), (3, 5, 7), (6, 2, 7), (3, 1, 1, 1)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not match"):
        _ = bv.open(ARRAY) * np.ones(shape)


def test_what_is_no_volume_says_so() -> None:
    with pytest.raises(ValueError, match="cannot be a volume; it needs 1 to 4 of the dimensions"):
        bv.open(bv.max(bv.open(ARRAY)))
    with pytest.raises(ValueError, match=r"axes='tyx': .* the dimensions c, z, y, x"):
        bv.open(bv.max(bv.open(ARRAY), axis="z"), axes="tyx")
    with pytest.raises(ValueError, match=r"level=1 is only for files and arrays"):
        bv.open(bv.max(bv.open(ARRAY), axis="z"), level=1)
