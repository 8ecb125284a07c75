"""Sums over a box against scipy's correlation of integers."""

import numpy as np
import pytest
import scipy.ndimage as ndi

from beam_volumes.kernels.filters.uniform import uniform_box
from tests.kernels.rings import apply, centre, random_volume

RNG = np.random.default_rng(12)


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", "i2"])
@pytest.mark.parametrize("size", [(3, 3, 3), (1, 4, 1), (2, 1, 9), (7, 6, 8), (4, 25, 33)])
def test_exact(dtype, size):
    """More rows than a tile has, and sums that wrap around on the way unless types are wide enough."""
    volume = random_volume(RNG, (9, 90, 37), dtype)
    flat = np.int32(0) if np.dtype(dtype).kind == "i" else np.uint32(0)
    ours = apply(
        uniform_box, volume, centre(size), size, *size, flat, flat, np.float64(0.5), dtype="f8"
    )
    sums = volume.astype(np.int64)
    for axis, n in enumerate(size):
        sums = ndi.correlate1d(sums, np.ones(n), axis)
    assert np.array_equal(ours, sums / 2)
