"""Counts per value, per bin and per digit."""

import numpy as np
import pytest

from beam_volumes.kernels.measure.histogram import GUESSED, bin_counts, radix_counts, value_counts

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", "i2"])
@pytest.mark.parametrize("masked", [False, True])
def test_value_counts(dtype, masked):
    x = RNG.integers(0, 256, (40, 50, np.dtype(dtype).itemsize), np.uint8)
    x = (x[..., 0] > 99) if dtype == "?" else x.view(dtype)[..., 0]
    mask = RNG.random(x.shape) < 0.5 if masked else None
    counts, bad = value_counts(x, mask)
    values, expected = np.unique(x[mask] if masked else x, return_counts=True)
    first = 0 if dtype == "?" else np.iinfo(dtype).min
    assert bad == 0 and counts.sum() == expected.sum() and counts.dtype == np.int64
    np.testing.assert_array_equal(counts[values.astype(int) - first], expected)


def test_value_counts_refuses_wide_integers():
    with pytest.raises(TypeError, match="too many values"):
        value_counts(np.zeros((2, 2), np.int32))


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i4", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("bins", [1, 7, 256])
def test_bin_counts_are_numpys(dtype, bins):
    wide = RNG.normal(0, 1000, (60, 70))
    x = (np.abs(wide) if dtype[0] == "u" else wide).astype(dtype)
    for bounds in [None, (3, 500), (-0.25, 99.75)]:
        expected, edges = np.histogram(x, bins, bounds)
        np.testing.assert_array_equal(bin_counts(x, edges)[0], expected)
    mask = wide > 5
    expected, edges = np.histogram(x[mask], bins)
    np.testing.assert_array_equal(bin_counts(x, edges, mask)[0], expected)


def test_bin_counts_of_rows_longer_than_the_guesses():
    x = RNG.normal(0, 9, (2, 2 * GUESSED + 5)).astype("f4")
    mask = x > -1
    for used in (None, mask):
        expected, edges = np.histogram(x if used is None else x[used], 50)
        np.testing.assert_array_equal(bin_counts(x, edges, used)[0], expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_values_on_and_beside_the_edges(dtype):
    for low, high, bins in [(0, 1, 10), (-1e-3, 7, 49), (1e6, 1e6 + 100, 256)]:
        edges = np.histogram_bin_edges(np.array([low, high], dtype), bins)
        x = np.concatenate([edges, np.nextafter(edges, edges[0]), np.nextafter(edges, edges[-1])])
        expected, again = np.histogram(x, bins)
        np.testing.assert_array_equal(again, edges)
        np.testing.assert_array_equal(bin_counts(x[None], edges)[0], expected)


def test_bins_of_the_whole_range_of_float64():
    edges = np.array([-1.7e308, 0.0, 1.7e308])
    assert bin_counts(np.array([[-1e308, 1e308, 5.0, 0.0]]), edges)[0].tolist() == [1, 3]
    tiny = np.array([0.0, 5e-324, 1e-323])
    assert bin_counts(np.array([[0.0, 5e-324, 1e-323]]), tiny)[0].tolist() == [1, 2]


def test_non_finite_is_counted_apart():
    x = np.array([[np.nan, 0.5, np.inf, -np.inf]])
    counts, bad = bin_counts(x, np.array([0.0, 1.0]))
    assert counts.tolist() == [1] and bad == 3
    counts, bad = radix_counts(x, 0)
    assert counts.sum() == 1 and bad == 3


@pytest.mark.parametrize("dtype", ["i4", "u4", "f4", "i8", "f8"])
def test_digits_of_groups(dtype):
    x = RNG.normal(0, 3, (50, 60)).astype("f8")
    x = np.abs(x).astype(dtype) if dtype[0] == "u" else x.astype(dtype)
    counts, _ = radix_counts(x, 0)
    assert counts.sum() == x.size
    busy = np.flatnonzero(counts[0])
    for prefixes in (busy[:1], busy[::2], busy):
        finer, bad = radix_counts(x, 1, prefixes.astype(np.uint64))
        np.testing.assert_array_equal(finer.sum(axis=1), counts[0, prefixes])
        assert bad == 0
