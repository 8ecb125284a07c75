"""Correlation with templates against scikit-image."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import feature

import beam_volumes as bv
from beam_volumes.ops.extrema import templates
from tests.catalogue import assert_same, shapes, voxels


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4"])
@settings(max_examples=8)
@given(data=st.data())
def test_match_template(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(shapes(ndim, most=30, voxels=1500), "shape")
    size = tuple(data.draw(st.integers(1, n)) for n in shape)
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=True)
    x[..., : shape[-1] // 3] = 1
    template = np.random.default_rng(data.draw(st.integers(0, 9))).random(size)
    if template.size == 1:
        return
    pad = data.draw(st.booleans())
    mode = data.draw(st.sampled_from(["constant", "edge", "symmetric"]))
    how = {"pad_input": pad, "mode": mode, "constant_values": 2}
    theirs = feature.match_template(x.astype("f8"), template, **how)
    slab = tuple(data.draw(st.integers(1, n)) for n in theirs.shape)
    ours = bv.compute(bv.match_template(x, template, **how), runner=None, slab=slab)
    assert ours.dtype == "f4"
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_slabs_do_not_change_blocks(monkeypatch):
    monkeypatch.setattr(templates, "_BLOCK", {3: 16})
    x = np.random.default_rng(0).random((40, 44, 50), "f4")
    x[20, 21, 22] = np.nan
    template = x[3:10, 30:36, 5:10]
    lazy = bv.match_template(x, template, pad_input=True)
    whole = np.asarray(lazy)
    for slab in ((7, 44, 50), (40, 13, 17), (3, 5, 50)):
        assert_same(bv.compute(lazy, runner=None, slab=slab), whole)
    assert np.isnan(whole).sum() == template.size
    assert np.unravel_index(np.nanargmax(whole), x.shape) == (3 + 3, 30 + 3, 5 + 2)
    peaks = bv.peak_local_max(bv.match_template(x[:15], template), threshold_abs=0.9).compute()
    assert [peaks[axis].to_pylist() for axis in "zyx"] == [[3], [30], [5]]


def test_wrong_templates_are_refused():
    x = np.zeros((5, 6, 7))
    for template, message in (
        (np.ones((2, 2, 2)), "constant"),
        (np.eye(3), "same axes"),
        (np.arange(6 * 49).reshape(6, 7, 7), "not be larger"),
        ([[1, 2], [3]], "not an array"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            bv.match_template(x, template)
