"""Profiles of lines against scikit-image."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage as ndi
from skimage import measure

import beam_volumes as bv
from beam_volumes.ops.interpolation import profiles


@pytest.mark.parametrize("dtype", ["?", "u1", "f4", "f8"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_profiles_of_planes(dtype, data):
    # scipy's splines of a few voxels differ from the voxels themselves.
    shape = tuple(data.draw(st.integers(8, 30)) for _ in range(2))
    x = (np.random.default_rng(0).random(shape) * (1.7 if dtype == "?" else 200)).astype(dtype)
    ends = [[data.draw(st.floats(-9, 39)) for _ in range(2)] for _ in range(2)]
    how = {
        "linewidth": data.draw(st.sampled_from([1, 2, 5])),
        "order": data.draw(st.sampled_from([None, 0, 1, 2, 3, 5][: 2 if dtype == "?" else 6])),
        "mode": data.draw(st.sampled_from(["reflect", "mirror", "nearest", "constant", "wrap"])),
        "reduce_func": data.draw(st.sampled_from([np.mean, np.max, None])),
    }
    how["cval"] = 1 if dtype == "?" else 3
    if dtype == "u1" and (how["order"] or 0) > 1:
        how["order"] = 1  # splines of a few bytes differ by up to 2 where they overshoot
    ours, theirs = (f(x, *ends, **how) for f in (bv.profile_line, measure.profile_line))
    assert ours.dtype == theirs.dtype
    # An integer between two others is rounded either way.
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1 if dtype == "u1" else 1e-5)


def test_lines_through_volumes_are_read_in_boxes(monkeypatch):
    monkeypatch.setattr(profiles, "MAX_READ", 1000)
    x = ndi.gaussian_filter(np.random.default_rng(1).random((60, 70, 80)), 2)
    v, read = bv.open(x), []

    class Counting(type(v)):
        def __array__(self, *how, **more):
            read.append(self.size)
            return super().__array__(*how, **more)

    monkeypatch.setattr(profiles, "one_channel", lambda v: Counting(v.nodes, v.space))
    for ends in (((3, 4, 5), (55.5, 61, 70.2)), ((9, 9, 9), (9, 9, 60)), ((1, 2, 3), (1, 2, 3))):
        ours = bv.profile_line(v, *ends)
        at = np.linspace(*map(np.float64, ends), len(ours), axis=1)
        np.testing.assert_allclose(ours, ndi.map_coordinates(x, at, order=1), rtol=1e-9)
    assert len(ours) == 1 and 10 < len(read) < 60 and max(read) <= 1000


def test_refusals():
    v = bv.open(np.ones((4, 5, 6), "u1"))
    for call, message in (
        (lambda: bv.profile_line(v, (1, 2), (3, 4, 5)), r"src=\(1, 2\) is not"),
        (lambda: bv.profile_line(v, (1, 2, 3), (3, 4, np.nan)), "dst="),
        (lambda: bv.profile_line(v, (1, 2, 3), (3, 4, 1e9)), "the maximum is 4,194,304"),
        (lambda: bv.profile_line(v, (1, 2, 3), (3, 4, 5), 3), "two axes"),
        (lambda: bv.profile_line(v[0], (1, 2), (3, 4), order=6), "order=6"),
        (
            lambda: bv.profile_line(v[0] > 2, (1, 2), (3, 4), order=1),
            "order=1 is not available for bool",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
