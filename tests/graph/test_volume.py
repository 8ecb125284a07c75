"""Volumes: slicing, numpy's protocols, and refused requests."""

import re

import numpy as np
import pytest
import scipy.ndimage as ndi

import beam_volumes as bv
from tests.catalogue import assert_same, voxels

X = voxels((9, 10, 11), "u2", 1)


@pytest.fixture
def v():
    return bv.open(X)


@pytest.mark.parametrize(
    "key",
    [
        np.s_[2:5],
        np.s_[-3],
        np.s_[:, 4],
        np.s_[..., -1],
        np.s_[3, ..., 2:4],
        np.s_[3:3],
        np.s_[8:2, :, 1:],
        np.s_[-100:100, 5:-2, 0],
        np.s_[...],
        np.s_[4, 5, 6],
        np.s_[4, 5],
        np.s_[np.int64(2)],
    ],
)
def test_slices_are_numpy_s_and_upstream_sees_the_whole(v, key):
    assert_same(np.asarray(v[key]), X[key])
    whole = ndi.median_filter(X, 3)
    cropped = bv.median_filter(v, 3)[key]
    assert cropped.shape == whole[key].shape
    assert_same(np.asarray(cropped), whole[key])


def test_a_filter_of_a_crop_pads_at_the_crop_s_edges(v):
    box = np.s_[2:7, 1:6, 3:9]
    inner = bv.uniform_filter(bv.maximum_filter(v, 3)[box], 5, dtype="f8", mode="mirror")
    theirs = ndi.maximum_filter(X, 3)[box].astype("f8")
    np.testing.assert_allclose(
        np.asarray(inner), ndi.uniform_filter(theirs, 5, mode="mirror"), rtol=1e-12
    )
    # And the scalar of a crop is of the crop.
    assert bv.compute(bv.max(v[box]), runner=None) == X[box].max()
    # A slice that lost an axis is filtered in two dimensions.
    flat = bv.median_filter(v[4], 3)
    assert_same(np.asarray(flat), ndi.median_filter(X[4], 3))
    side = bv.median_filter(v[:, :, 5], (3, 5))
    assert side.axes == ("z", "y")
    assert_same(np.asarray(side), ndi.median_filter(X[:, :, 5], (3, 5)))


def test_zip_of_two_crops_of_one_volume(v):
    shifted = np.maximum(v[1:], v[:-1])
    assert_same(np.asarray(shifted), np.maximum(X[1:], X[:-1]))
    smooth = bv.maximum_filter(v, (3, 1, 1))
    s = ndi.maximum_filter(X, (3, 1, 1))
    ours = smooth[3:, 2:, :-4] - bv.median_filter(smooth[:-3, :-2, 4:], 3) + v[:6, 1:9, 2:9]
    theirs = s[3:, 2:, :-4] - ndi.median_filter(s[:-3, :-2, 4:], 3) + X[:6, 1:9, 2:9]
    for slab, window in ((None, None), ((2, 8, 7), 1), ((3, 4, 7), 2)):
        assert_same(bv.compute(ours, runner=None, slab=slab, window=window), theirs)


def test_lines_and_voxels_are_not_written(v, tmp_path):
    for few in (v[4, 5], v[4, 5, 6]):
        with pytest.raises(ValueError, match="cannot write"):
            few.to(tmp_path / "o.zarr")
    side = bv.compute(v[:, 3].to(tmp_path / "side.zarr"), runner=None, progress=False)
    assert_same(np.asarray(side), X[:, 3])


def test_slices_that_are_refused(v):
    for key, part in (
        (np.s_[None], "bv.stack"),
        (v > 3, "bv.where"),
        (X > 3, "bv.where"),
        (np.s_[9], "out of range"),
        (np.s_[0, 0, 0, 0], "too many"),
        (np.s_[..., ...], "ellipsis"),
        (np.s_[[1, 2]], "bv.concatenate"),
        (np.s_[1.5], "not available"),
    ):
        with pytest.raises(IndexError, match=part):
            v[key]


def test_numpy_s_protocols(v):
    assert isinstance(np.sqrt(v), bv.Volume) and isinstance(X * v, bv.Volume)
    assert_same(np.asarray(X * v), X * X)
    for refused in (np.cbrt, np.modf, np.spacing):
        with pytest.raises(TypeError, match="not available"):
            refused(v)
    with pytest.raises(TypeError, match=r"add\.outer"):
        np.add.outer(v, v)
    with pytest.raises(TypeError, match="out"):
        np.add(v, 1, out=np.empty(X.shape))
    with pytest.raises(TypeError):
        v + "one"
    with pytest.raises(ValueError, match="truth"):
        bool(v > 3)
    with pytest.raises(ValueError, match="truth"):
        if v == X:
            pass
    with pytest.raises(TypeError, match="iterable"):
        list(v)
    with pytest.raises(ValueError):
        np.asarray(v, copy=False)
    assert np.asarray(v, dtype="f4").dtype == np.float32
    assert len(v) == 9 and v.size == X.size and v.nbytes == X.nbytes and v.ndim == 3


def test_asarray_knows_its_limit(v, monkeypatch):
    monkeypatch.setattr(bv.options, "max_inmemory", 1000)
    with pytest.raises(ValueError, match=r"max_inmemory, 1000 B"):
        np.asarray(v)
    with pytest.raises(ValueError, match="max_inmemory"):
        bv.compute(v, runner=None)
    assert_same(np.asarray(bv.median_filter(v, 3)[4]), ndi.median_filter(X, 3)[4])


def test_equal_expressions_are_one_node(v):
    a, b = bv.median_filter(v, 3), bv.median_filter(bv.open(X), 3)
    assert a.node.token == b.node.token
    assert a.node.token != bv.median_filter(v, 3, mode="mirror").node.token
    assert a.node.token != bv.median_filter(v, (3, 3, 1)).node.token
    steps = bv.plan((a + b).astype("f8")).passes[0].program.steps
    assert sum(s.name == "median_filter" for s in steps) == 1


def test_metadata_follows_slices():
    v = bv.open(X, voxel_size=(40, 4, 4), unit="nm")
    crop = bv.median_filter(v, 3)[2:, 3:, 1]
    assert crop.voxel_size == (40, 4) and crop.unit == "nanometer" and crop.origin == (80, 12)
    assert "voxel 40x4" in repr(crop) and "z=7 y=7" in repr(crop)


def test_results_after_the_first_are_no_keywords(v):
    """What follows ``*results`` in the signature is given by name alone."""
    least, most, mean = bv.compute(bv.min(v), bv.max(v), bv.mean(v), runner=None)
    x = np.asarray(v)
    assert (least, most, mean) == (x.min(), x.max(), x.mean())


def test_lengths_with_units():
    v = bv.open(X, voxel_size=(40, 4, 4), unit="nm")
    ours = bv.gaussian_filter(v, "40 nm", truncate=1)
    assert ours.node.token == bv.gaussian_filter(v, (1, 10, 10), truncate=1).node.token
    assert bv.gaussian_filter(v, ("0.04 um", 3, "8nm")).dtype == np.float32
    with pytest.raises(ValueError, match="voxel size"):
        bv.gaussian_filter(bv.open(X), "40 nm")
    with pytest.raises(ValueError, match="not a length"):
        bv.gaussian_filter(v, "40 lightyears")


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda v: bv.gaussian_filter(v, 1, mode="symmetric"), "not known"),
        (lambda v: bv.gaussian_filter(v, -1), "length of at least 0"),
        (lambda v: bv.gaussian_filter(v, (1, 2)), "2 entries for 3 axes"),
        (lambda v: bv.gaussian_filter(v, 1, axes=3), "axes"),
        (lambda v: bv.gaussian_filter(v, 1, axes=(1, -2)), "twice"),
        (lambda v: bv.median_filter(v), "size= or footprint="),
        (lambda v: bv.median_filter(v, 3, np.ones((3, 3, 3))), "not both"),
        (lambda v: bv.median_filter(v, 0), "whole number of at least 1"),
        (lambda v: bv.median_filter(v, 2.5), "whole number"),
        (lambda v: bv.minimum_filter(v, 3, origin=2), "origin"),
        (lambda v: bv.minimum_filter(v, 3, mode="constant", cval=2.5), "cval"),
        (
            lambda v: bv.maximum_filter(v, footprint=np.ones((3, 3))),
            "2 dimensions, but there are 3",
        ),
        (lambda v: bv.convolve(v, np.full((1, 1, 1), np.nan)), "finite"),
        (lambda v: bv.map_overlap(lambda a: a, v, depth=-1), "depth"),
        (lambda v: bv.threshold_otsu(v.astype("f4"), nbins=0), "bins"),
        (lambda v: bv.percentile(v, 101), "101"),
    ],
)
def test_parameters_that_are_refused(v, call, part):
    with pytest.raises(ValueError, match=part):
        call(v)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda v: v.mean(foo=1), "mean has no parameter 'foo'; there are axis, dtype, out"),
        (lambda v: v.max(axes=0), "max has no parameter 'axes'; did you mean axis=?"),
        (lambda v: v.sel(t=0), "sel has no parameter 't'; there are c"),
        (lambda v: v.astype("u1", casting="safe"), "astype has no parameter 'casting'; there are"),
    ],
)
def test_methods_refuse_unknown_parameters_as_functions_do(v, call, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        call(v)
