"""Minimum, maximum and ranks against scipy."""

import numpy as np
import pytest
import scipy.ndimage as ndi

from beam_volumes.kernels.filters.columns import columns_of, extremum_of_columns
from beam_volumes.kernels.filters.extremum import (
    STREAMED_BYTES,
    TILE_COLUMNS,
    TILE_ROWS,
    extremum_box,
    extremum_footprint,
)
from beam_volumes.kernels.filters.rank import rank_footprint
from beam_volumes.kernels.filters.rank_box import rank_box
from beam_volumes.kernels.filters.rank_walk import rank_walk
from tests.kernels.rings import DTYPES, apply, ball, centre, random_volume, with_nans
from tests.tiers import thorough

RNG = np.random.default_rng(2)
SCIPY = {True: ndi.maximum_filter, False: ndi.minimum_filter}


def reference(function, volume, **parameters):
    """scipy's answer without the NaNs, then NaN wherever the footprint holds one."""
    nans = np.isnan(volume) if volume.dtype.kind == "f" else np.zeros(volume.shape, bool)
    window = {k: parameters[k] for k in ("size", "footprint", "mode") if k in parameters}
    result = function(np.where(nans, volume.dtype.type(0), volume), **parameters)
    there = ndi.maximum_filter(nans, **window)
    return np.where(there, np.nan, result).astype(volume.dtype) if nans.any() else result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_max", [True, False])
def test_box(dtype, is_max):
    for size in [(3, 3, 3), (1, 4, 1), (2, 1, 9), (7, 6, 8), (4, 25, 33)]:
        volume = random_volume(RNG, (11, 23, 37), dtype)
        for mode in ("reflect", "constant"):
            ours = apply(extremum_box, volume, centre(size), size, *size, is_max, mode=mode)
            assert np.array_equal(ours, SCIPY[is_max](volume, size, mode=mode)), (size, mode)


def footprints():
    corners = np.zeros((3, 2, 9), bool)
    corners[0, 0, 0] = corners[2, 1, 8] = corners[1, 0, 2:8] = True
    # Slices that grow in other orders, and some that are empty.
    mixed = ball(4)[[0, 0, 4, 1, 8, 3, 1]]
    mixed[[0, 3]] = False
    drawn = RNG.random((4, 3, 5)) < 0.5
    return [ball(1), ball(4), corners, drawn, np.ones((1, 1, 1), bool), ball(4)[4:], mixed]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_max", [True, False])
def test_footprint(dtype, is_max):
    """Few taps, slices that are alike or within one another; more rows than a tile has."""
    for footprint in footprints():
        volume = random_volume(RNG, (6, TILE_ROWS + 5, 37), dtype)
        shape = footprint.shape
        ours = apply(
            extremum_footprint, volume, centre(shape), shape, np.argwhere(footprint), is_max,
            mode="mirror",
        )  # fmt: skip
        expected = SCIPY[is_max](volume, footprint=footprint, mode="mirror")
        assert np.array_equal(ours, expected), shape


def made_of_columns():
    """Footprints with nested columns."""
    leaning = np.zeros(
        (6, 3, 4), bool
    )  # not in the middle, and slices without a tap on either side
    leaning[2, 0, 1:], leaning[1:3, 1], leaning[1:5, 2, 3] = True, True, True
    even = np.ones((4, 2, 40), bool)
    even[:2, 0, :3] = even[:, 1, 7] = False
    return [ball(2), ball(3), ball(3)[3:4], ball(2)[:, 2:3], ball(3)[:, 3:4, 3:4], leaning, even]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_max", [True, False])
def test_columns(dtype, is_max):
    for footprint in made_of_columns():
        volume = random_volume(RNG, (6, TILE_ROWS + 5, 37), dtype)
        shape = footprint.shape
        columns = columns_of(np.argwhere(footprint), shape[0])
        ours = apply(
            extremum_of_columns, volume, centre(shape), shape, *columns, *shape[1:], is_max,
            mode="mirror",
        )  # fmt: skip
        expected = SCIPY[is_max](volume, footprint=footprint, mode="mirror")
        assert np.array_equal(ours, expected), shape


@pytest.mark.parametrize(("dtype", "is_max"), [("u1", True), ("f4", True), ("f4", False)])
def test_tiles_along_x_begin_where_they_should(dtype, is_max):
    """More columns than two tiles have, and rows of no whole number of tiles."""
    volume = random_volume(RNG, (3, TILE_ROWS + 3, 2 * TILE_COLUMNS + 37), dtype)
    footprint = ball(2)
    shape, taps = footprint.shape, np.argwhere(footprint)
    expected = SCIPY[is_max](volume, footprint=footprint)
    ours = apply(extremum_footprint, volume, centre(shape), shape, taps, is_max)
    assert np.array_equal(ours, expected)
    columns = (*columns_of(taps, shape[0]), *shape[1:])
    assert np.array_equal(
        apply(extremum_of_columns, volume, centre(shape), shape, *columns, is_max), expected
    )


def test_columns_are_taken_where_they_are_few():
    gap, crossed = np.ones((2, 3, 3, 3), bool)
    gap[1, 1, 1] = crossed[0, 0, 0] = crossed[2, 2, 2] = False
    for footprint in (gap, crossed, ball(4), np.ones((30, 3, 3), bool)):
        assert columns_of(np.argwhere(footprint), len(footprint)) is None
    columns = columns_of(np.argwhere(ball(3)), 7)
    assert columns.levels.tolist() == [[3, 3], [2, 4], [1, 5]]
    assert columns.lengths.tolist() == [1, 3, 5] and len(columns.parts) == 15


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4"])
def test_ranks(dtype):
    for footprint in [*footprints(), np.ones((5, 7, 8), bool)]:
        volume = random_volume(RNG, (5, 9, 21), dtype)
        shape, n = footprint.shape, int(footprint.sum())
        for rank in {0, n // 2, n - 1}:
            ours = apply(
                rank_footprint, volume, centre(shape), shape, np.argwhere(footprint), rank,
                mode="nearest",
            )  # fmt: skip
            expected = ndi.rank_filter(volume, rank, footprint=footprint, mode="nearest")
            assert np.array_equal(ours, expected), (shape, rank)


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        *((rank_box, d) for d in ("?", "u1", "i1")),
        *((rank_walk, d) for d in ("u2", "f4")),
        pytest.param(rank_walk, "?", marks=thorough),
    ],
)
def test_ranks_over_a_box(kernel, dtype):
    """More than a tile along each axis, and sizes that are even, 1, and beyond what a byte counts."""
    for size, shape in [
        ((3, 5, 4), (40, 40, 150)),
        ((9, 1, 7), (5, 37, 30)),
        ((1, 18, 19), (3, 20, 21)),
        ((8, 8, 8), (6, 9, 12)),
    ]:
        volume = random_volume(RNG, shape, dtype)
        n = int(np.prod(size))
        for rank in {0, n // 2, n - 2}:
            ours = apply(kernel, volume, centre(size), size, *size, rank)
            assert np.array_equal(ours, ndi.rank_filter(volume, rank, size)), (size, rank)


@thorough
def test_integers_that_float64_cannot_hold():
    volume = 2**62 + RNG.integers(0, 50, (4, 9, 20))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(volume, 1, "symmetric"), (3, 3, 3))
    expected = np.median(windows.reshape(*volume.shape, 27) - 2**62, axis=-1).astype(int) + 2**62
    ours = apply(rank_footprint, volume, (1, 1, 1), (3, 3, 3), np.argwhere(np.ones((3, 3, 3))), 13)
    assert np.array_equal(ours, expected)
    walked = apply(rank_walk, volume, (1, 1, 1), (3, 3, 3), 3, 3, 3, 13)
    assert np.array_equal(walked, expected)


def test_nan_exactly_where_the_footprint_holds_one():
    volume = with_nans(RNG, random_volume(RNG, (8, 19, 40), "f4"))
    volume[4, 4, 4], volume[2, 9, 30] = np.inf, -np.inf
    volume.view("u4")[5, 5, 5] = 0xFFFFFFFF
    assert np.isnan(volume[5, 5, 5]) and np.signbit(volume[5, 5, 5])
    footprint = ball(2)
    shape, offsets = footprint.shape, np.argwhere(footprint)
    for is_max in (True, False):
        # NaNs must not stand in for a value: replaced by what never wins.
        loser = np.where(np.isnan(volume), -np.inf if is_max else np.inf, volume)
        boxed = apply(extremum_box, volume, (1, 2, 3), (3, 4, 6), 3, 4, 6, is_max)
        expected = SCIPY[is_max](loser, (3, 4, 6))
        expected[ndi.maximum_filter(np.isnan(volume), (3, 4, 6))] = np.nan
        assert np.array_equal(boxed, expected, equal_nan=True)
        for element in (footprint, ball(1)):
            taps = np.argwhere(element)
            free = apply(
                extremum_footprint, volume, centre(element.shape), element.shape, taps, is_max
            )
            expected = SCIPY[is_max](loser, footprint=element)
            expected[ndi.maximum_filter(np.isnan(volume), footprint=element)] = np.nan
            assert np.array_equal(free, expected, equal_nan=True)
            columns = (*columns_of(taps, len(element)), *element.shape[1:])
            free = apply(
                extremum_of_columns, volume, centre(element.shape), element.shape, *columns, is_max
            )
            assert np.array_equal(free, expected, equal_nan=True)
    ranked = apply(rank_footprint, volume, (2, 2, 2), shape, offsets, 7)
    expected = reference(lambda v, **p: ndi.rank_filter(v, 7, **p), volume, footprint=footprint)
    assert np.array_equal(ranked, expected, equal_nan=True)
    walked = apply(rank_walk, volume, (1, 2, 3), (3, 4, 6), 3, 4, 6, 40)
    expected = reference(lambda v, **p: ndi.rank_filter(v, 40, **p), volume, size=(3, 4, 6))
    assert np.array_equal(walked, expected, equal_nan=True)


def test_few_taps_in_tiles_with_and_without_nan():
    row = STREAMED_BYTES // 43  # 43 rows, or a little less, are a tile
    volume = random_volume(RNG, (3, 150, row // 4), "f4")
    for y in (30, 40, 41, 42, 43, 44, 149):
        volume[1, y, 20 * y] = np.nan
    taps = np.argwhere(ball(1))
    ours = apply(extremum_footprint, volume, (1, 1, 1), (3, 3, 3), taps, True)
    expected = reference(ndi.maximum_filter, volume, footprint=ball(1))
    assert np.array_equal(ours, expected, equal_nan=True)
