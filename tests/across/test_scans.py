"""Prefixes over slabs against the whole."""

from itertools import pairwise

import numpy as np
import pytest

from beam_volumes.across import scans


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 64, 65, 100])
@pytest.mark.parametrize("radix", [2, 3, 8])
def test_carries_keep_the_order(n, radix):
    parts = [f"<{i}>" for i in range(n)]
    forward = scans.carries(parts, str.__add__, radix=radix)
    assert forward == [None if i == 0 else "".join(parts[:i]) for i in range(n)]
    backward = scans.carries(parts, str.__add__, backward=True, radix=radix)
    assert backward == [None if i == n - 1 else "".join(parts[:i:-1]) for i in range(n)]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.uint64, np.float32])
@pytest.mark.parametrize("cuts", [[0, 20], [0, 1, 2, 3, 20], [0, 7, 19, 20]])
def test_cumsum(dtype, cuts):
    random = np.random.default_rng(5)
    volume = (random.random((20, 6, 7)) * 200 - 20).astype(dtype)
    if volume.dtype.itemsize == 8:
        volume *= np.array(2**56 + 1, dtype)  # wraps round, as numpy's sums do
    slabs = list(pairwise(cuts))
    into = scans.carries(
        [scans.cumsum_summary(volume[a:b]) for a, b in slabs], scans.cumsum_combine, radix=2
    )
    got = np.concatenate(
        [scans.cumsum_slices(volume[a:b], c) for (a, b), c in zip(slabs, into, strict=True)]
    )
    if volume.dtype.kind == "f":
        np.testing.assert_allclose(got, np.cumsum(volume, 0, np.float64), rtol=1e-12)
    else:
        reference = np.cumsum(volume, 0)
        assert got.dtype == reference.dtype and np.array_equal(got, reference)


@pytest.mark.parametrize("shape", [(1, 1), (1000, 1000), (5000, 3), (3, 3_000_001), (2048, 2048)])
def test_tiles_cover_and_fit(shape):
    seen = np.zeros(shape, np.uint8)
    for y, x in scans.state_tiles(*shape, 4):
        seen[y, x] += 1
        assert 0 < seen[y, x].size * 4 <= scans.MOST_STATE
    assert (seen == 1).all()
