"""Digests of voxels: any change is seen, however rows are shared out and wherever they lie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_volumes.kernels.measure.digests import digest
from tests.tiers import examples


@settings(max_examples=examples(300))
@given(st.sampled_from(["?", "u1", "i2", "f2", "u4", "f4", "i8", "f8"]), st.integers(0, 2**32))
def test_digest(dtype, seed):
    rng = np.random.default_rng(seed)
    nz, ny, nx = shape = tuple(rng.integers(1, 5, 3) * rng.choice([1, 9], 3))
    block = rng.integers(0, 3, shape).astype(dtype)
    whole = digest(block, 0, ny)

    # Where it lies does not count: in a larger array, or read-only.
    ring = np.zeros((nz, ny + 2, nx + 5), dtype)
    y, x = rng.integers(0, 3), rng.integers(0, 6)
    ring[:, y : y + ny, x : x + nx] = block
    view = ring[:, y : y + ny, x : x + nx]
    view.flags.writeable = False
    assert digest(view, 0, ny) == whole

    cut = int(rng.integers(0, ny + 1))
    assert (digest(block, 0, cut) + digest(block, cut, ny)) % 2**64 == whole

    other = block.copy()
    at = tuple(rng.integers(0, n) for n in shape)
    other[at] = other[at] == 0
    assert (digest(other, 0, ny) == whole) == np.array_equal(other, block)

    for axis in range(3):
        turned = np.flip(block, axis)
        assert (digest(turned, 0, ny) == whole) == np.array_equal(turned, block)


def test_floats_that_differ_in_few_bits():
    rng = np.random.default_rng(0)
    blocks = [rng.integers(0, 3, (1, 1, 36)).astype("f8") for _ in range(3000)]
    for block in blocks:
        assert digest(block, 0, 1) != digest(block[..., ::-1], 0, 1)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bits_count(dtype):
    """Zeros of either sign differ, and a NaN equals itself."""
    a = np.array([[[0.0, np.nan]]], dtype)
    assert digest(a, 0, 1) != digest(np.array([[[-0.0, np.nan]]], dtype), 0, 1)
    assert digest(a, 0, 1) == digest(a.copy(), 0, 1)
