"""Correlation with any kernel against scipy."""

import numpy as np
import pytest
import scipy.ndimage as ndi

from beam_volumes.kernels.filters.separable import correlate_nd
from tests.kernels.rings import apply, centre, random_volume, with_nans

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("dtype", ["u1", "i8", "f4"])
@pytest.mark.parametrize("shape", [(3, 3, 3), (2, 5, 4), (1, 1, 1)])
def test_against_scipy(dtype, shape):
    real = np.float64 if dtype in ("i4", "i8", "f8") else np.float32
    weights = RNG.normal(size=shape).astype(real)
    weights[RNG.random(shape) < 0.3] = 0
    weights.flat[0] = 0.7
    offsets = np.argwhere(weights)
    volume = random_volume(RNG, (6, 11, 45), dtype)
    ours = apply(
        correlate_nd, volume, centre(shape), shape, offsets, weights[weights != 0],
        mode="mirror", dtype=real,
    )  # fmt: skip
    expected = ndi.correlate(volume.astype(float), weights.astype(float), mode="mirror")
    bound = 16 * np.finfo(real).eps * np.abs(weights).sum() * np.abs(volume.astype(float)).max()
    assert np.abs(ours - expected).max() <= bound


def test_nan_where_a_weighted_tap_is():
    weights = np.zeros((3, 3, 3), np.float32)
    weights[0, 1, 2], weights[2, 2, 0], weights[1, 1, 1] = 1, -2, 3
    volume = with_nans(RNG, random_volume(RNG, (6, 15, 20), "f4"), 0.03)
    ours = apply(
        correlate_nd, volume, (1, 1, 1), (3, 3, 3), np.argwhere(weights), weights[weights != 0]
    )
    there = ndi.maximum_filter(np.isnan(volume), footprint=weights != 0)
    assert np.array_equal(np.isnan(ours), there) and not there.all()


def test_no_weight_at_all_is_zero():
    none = np.empty((0, 3), np.int64)
    volume = random_volume(RNG, (2, 3, 4), "f4")
    ours = apply(correlate_nd, volume, (0, 0, 0), (1, 1, 1), none, np.empty(0, np.float32))
    assert not ours.any()
