"""Interpolation at the positions of a field against scipy."""

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import transform

import beam_volumes as bv
from tests.catalogue import MODES, assert_same, shapes, voxels


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
@settings(max_examples=12)
@given(data=st.data())
def test_positions_and_displacements(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(shapes(ndim, most=20, voxels=800), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=True)
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    order = data.draw(st.integers(0, 3))
    # scipy's coefficients of reflected splines are approximations.
    modes = MODES if order < 2 else ["mirror", "nearest", "constant", "grid-constant"]
    mode = data.draw(st.sampled_from([*modes, "grid-wrap"]))
    is_exact = order < 2 and mode != "grid-wrap"
    reach = data.draw(st.sampled_from([0, 1.5, (4, 0.5, 9)[-ndim:]]))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    limits = np.broadcast_to(reach, ndim).reshape(ndim, *(1,) * ndim)
    by = rng.uniform(-1, 1, (ndim, *shape)) * limits
    by = np.where(rng.random(by.shape) < 0.3, np.trunc(by), by)
    at = np.indices(shape) + by
    how = {"order": order, "mode": mode, "cval": 3}
    theirs = ndi.map_coordinates(x if is_exact else x.astype("f8"), at, **how)
    ours = bv.compute(
        bv.map_coordinates(x, at, max_displacement=np.add(reach, 1e-9).tolist(), **how),
        bv.warp(x, by, max_displacement=reach, **how),
        runner=None,
        slab=slab,
    )
    for found in ours:
        if is_exact:
            assert_same(found, theirs)
            continue
        assert found.dtype == x.dtype
        limits = np.iinfo(dtype) if found.dtype.kind in "ui" else np.finfo(dtype)
        error = np.abs(found.astype("f8") - theirs.clip(limits.min, limits.max)).max()
        assert error <= (0.51 if dtype in ("u1", "i2") else 1e-5 * np.abs(theirs).max())


def test_a_field_equals_a_matrix_and_scikit_image():
    x = np.random.default_rng(0).random((9, 20, 22))
    matrix = np.array([[1, 0.02, -0.03], [0.01, 0.98, 0.04], [0, -0.05, 1.01]])
    at = np.einsum("ij,jzyx->izyx", matrix, np.indices(x.shape)) + 0.25
    for mode in ("mirror", "reflect", "nearest"):
        found = bv.map_coordinates(x, at, max_displacement=3, order=3, mode=mode)
        same = bv.affine_transform(x, matrix, 0.25, order=3, mode=mode)
        np.testing.assert_allclose(np.asarray(found), np.asarray(same), atol=1e-13)
    by = np.random.default_rng(1).uniform(-2, 2, (2, 20, 22))
    theirs = transform.warp(x[4], np.indices(x[4].shape) + by, order=1, cval=0.5)
    ours = np.asarray(bv.warp(x[4], by, max_displacement=2, cval=0.5))
    np.testing.assert_allclose(ours[2:-2, 2:-2], theirs[2:-2, 2:-2], atol=1e-12)


def test_channels_lengths_and_stored_fields(tmp_path):
    x = np.random.default_rng(2).random((2, 6, 10, 11), "f4")
    v = bv.open(x, axes="czyx", voxel_size=(20, 10, 10), unit="nm")
    by = np.random.default_rng(3).uniform(-1, 1, (3, 6, 10, 11)).astype("f4")
    field = bv.open(by, axes="czyx", voxel_size=(20, 10, 10), unit="nm")
    bv.compute(field.to(tmp_path / "by.zarr"), runner=None)
    moved = bv.warp(v, bv.open(tmp_path / "by.zarr"), max_displacement="20 nm")
    assert moved.shape == v.shape and moved.voxel_size == v.voxel_size
    for k in range(2):
        theirs = ndi.map_coordinates(x[k], np.indices(x[k].shape) + by, order=1)
        assert_same(np.asarray(moved[k]), theirs)


@pytest.mark.parametrize("axes", ["tyx", "tzyx"])
def test_a_field_for_each_point_in_time(axes):
    x = np.random.default_rng(4).integers(0, 255, (3, 2, 9, 10)[: len(axes)], np.uint8)
    v = bv.open(x, axes=axes)
    by = bv.stack([v * 0 + k for k in range(x.ndim - 1)])
    expected = x
    for k in range(x.ndim - 1):
        n = x.shape[1 + k]
        expected = np.take(expected, np.minimum(np.arange(n) + k, n - 1), 1 + k)
    assert_same(np.asarray(bv.warp(v, by, max_displacement=2, mode="nearest")), expected)
    with pytest.raises(ValueError, match=f"give {x.ndim - 1} channels of this shape"):
        bv.warp(v, v, max_displacement=2)


def test_a_voxel_that_moves_too_far_is_named():
    x = np.zeros((5, 8, 9), "f4")
    by = np.zeros((3, 5, 8, 9))
    by[1, 3, 4, 7] = -2.5
    for order in (1, 3):
        moved = bv.warp(x, by, max_displacement=2, order=order, mode="nearest")
        with pytest.raises(ValueError, match=r"\(z, y, x\) = \(3, 4, 7\) moves by -2.5.*2, 2, 2"):
            bv.compute(moved, runner=None, slab=(2, 3, 4))
    by[1, 3, 4, 7] = np.nan
    with pytest.raises(ValueError, match=r"\(3, 4, 7\) moves by nan"):
        np.asarray(bv.warp(x, by, max_displacement=2))
    at = np.indices((8, 9)) + 0.0
    at[0, 7, 2] = 1
    with pytest.raises(ValueError, match=r"\(y, x\) = \(7, 2\) moves by -6"):
        np.asarray(bv.map_coordinates(x[0], at, max_displacement=5))
    with pytest.raises(ValueError, match="give 3 channels"):
        bv.warp(x, by[:2], max_displacement=2)
    with pytest.raises(TypeError, match="max_displacement"):
        bv.warp(x, by)
