"""The length of a gradient against scipy's, in float64."""

import numpy as np
import pytest
import scipy.ndimage as ndi

from beam_volumes.kernels.filters.gradient import gradient_magnitude
from tests.kernels.rings import apply, random_volume, with_nans

RNG = np.random.default_rng(13)


@pytest.mark.parametrize(
    ("dtype", "kind", "real"),
    [
        ("?", "i2", "f4"),
        ("u1", "i2", "f4"),
        ("i2", "i4", "f4"),
        ("f4", "f4", "f4"),
        ("i4", "f8", "f8"),
    ],
)
@pytest.mark.parametrize(("derivative", "centre"), [(ndi.sobel, 2), (ndi.prewitt, 1)])
def test_against_scipy(dtype, kind, real, derivative, centre):
    volume = random_volume(RNG, (7, 12, 45), dtype)
    scalars = np.dtype(kind).type(0), np.dtype(kind).type(centre), np.dtype(real).type(0)
    ours = apply(gradient_magnitude, volume, (1, 1, 1), (3, 3, 3), *scalars, dtype=real)
    expected = ndi.generic_gradient_magnitude(volume.astype(np.float64), derivative)
    largest = np.abs(volume.astype(np.float64)).max()
    assert np.abs(ours - expected).max() <= 16 * np.finfo(real).eps * 32 * largest


def test_nan_exactly_where_the_box_holds_one():
    volume = with_nans(RNG, random_volume(RNG, (8, 19, 40), "f4"))
    scalars = np.float32(0), np.float32(2), np.float32(0)
    ours = apply(gradient_magnitude, volume, (1, 1, 1), (3, 3, 3), *scalars)
    there = ndi.maximum_filter(np.isnan(volume), 3)
    assert np.array_equal(np.isnan(ours), there)
