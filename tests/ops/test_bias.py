"""Polynomials of slices, against numpy's least squares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.catalogue import voxels
from tests.tiers import dtypes_drawn, examples


def fitted(plane, mask, order):
    along = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in plane.shape]
    v, u = np.meshgrid(*along, indexing="ij")
    terms = [v**a * u**b for a in range(order + 1) for b in range(order + 1 - a)]
    base = np.stack(terms, axis=-1)
    wanted = plane[mask].astype("f8")
    return base @ np.linalg.lstsq(base[mask], wanted, rcond=None)[0] if mask.any() else 0 * v


@dtypes_drawn(["u1", "f4", "f8"])
@settings(max_examples=examples(20))
@given(data=st.data())
def test_least_squares(dtypes, data):
    """With and without a mask, in any slabs; a slice without voxels that count has no bias."""
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    order = data.draw(st.integers(0, 4), "order")
    shape = (3, *(data.draw(st.integers(2 * order + 2, 14), "n") for _ in range(2)))
    x = voxels(shape, dtype, 5, narrow=True)
    mask = np.ones(shape, bool)
    given = None
    if data.draw(st.booleans(), "mask"):
        mask = np.random.default_rng(1).random(shape) > 0.2
        mask[1] = False
        given = mask
    result = bv.fit_bias(x, order, mask=given)
    whole = bv.compute(result, runner=None)
    scale = abs(x.astype("f8")).max() + 1
    expected = np.stack([fitted(p, m, order) for p, m in zip(x, mask, strict=True)])
    assert abs(whole - expected).max() < (1e-6 if whole.dtype == "f4" else 1e-9) * scale * 10
    slab = tuple(data.draw(st.integers(1, n), "slab") for n in shape)
    assert bv.compute(result, runner=None, slab=slab).tobytes() == whole.tobytes()


def test_channels_and_planes():
    x = voxels((2, 2, 3, 8, 9), "u1", 1)
    movie = bv.fit_bias(bv.open(x, axes="tczyx"), 1)
    np.testing.assert_array_equal(movie[1, 0], bv.fit_bias(x[1, 0], 1))
    np.testing.assert_array_equal(bv.fit_bias(x[1, 0, 2], 1), np.asarray(movie)[1, 0, 2])
    for order, problem in ((5, "order=5 is above 4"), (-1, "order=-1")):
        with pytest.raises(ValueError, match=problem):
            bv.fit_bias(x[0, 0], order)
