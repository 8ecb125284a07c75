"""The median by network against scipy, and the network against every sorted block."""

import numpy as np
import pytest
import scipy.ndimage as ndi

from beam_volumes.kernels.filters._median_network import median_of_sorted
from beam_volumes.kernels.filters.median import median3
from tests.kernels import generate_median_network as generator
from tests.kernels.rings import apply, random_volume, with_nans
from tests.tiers import thorough

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f4"])
def test_against_scipy(dtype):
    for shape in [(6, 14, 70), (1, 1, 1), (2, 3, 1)]:
        volume = random_volume(RNG, shape, dtype)
        ours = apply(median3, volume, (1, 1, 1), (3, 3, 3))
        assert np.array_equal(ours, ndi.median_filter(volume, 3))


@thorough
def test_every_sorted_block_of_zeros_and_ones():
    """By the 0-1 principle this proves the network."""
    blocks = generator.sorted_blocks()
    assert len(blocks) == 980
    out = np.empty(1, np.uint8)
    for block in blocks:
        q = np.array([block[cell] for cell in generator.CELLS], np.uint8).reshape(9, 3)
        median_of_sorted(q, out)
        assert out[0] == (q.sum() >= 14)


def test_nan_exactly_where_the_box_holds_one():
    volume = with_nans(RNG, random_volume(RNG, (8, 19, 40), "f4"), 0.005)
    volume[4, 4, 4], volume[2, 9, 30] = np.inf, -np.inf
    ours = apply(median3, volume, (1, 1, 1), (3, 3, 3), mode="mirror")
    there = ndi.maximum_filter(np.isnan(volume), 3, mode="mirror")
    expected = ndi.median_filter(
        np.nan_to_num(volume, posinf=np.inf, neginf=-np.inf), 3, mode="mirror"
    )
    assert np.array_equal(ours, np.where(there, np.float32(np.nan), expected), equal_nan=True)
    assert there.any() and not there.all()
