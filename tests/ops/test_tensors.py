"""Tensors, ridges, edges, local thresholds and sharpening against scikit-image."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal
from skimage import feature, filters

import beam_volumes as bv
from tests.catalogue import shapes, voxels

MODES = ["reflect", "mirror", "nearest", "constant"]


def close(ours, theirs, dtype, scale):
    """Of float32 within some units of the greatest there is; theirs is computed in float64."""
    assert ours.dtype == dtype and ours.shape == theirs.shape
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=64 * eps * scale + 1e-300)


def drawn(data, dtype, ndim):
    # scikit-image drops axes of one voxel.
    shape = tuple(n + 1 for n in data.draw(shapes(ndim, most=20, voxels=1000), "shape"))
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=data.draw(st.booleans()))
    slab = tuple(data.draw(st.integers(1, n)) for n in shape)
    return x, slab


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
@pytest.mark.parametrize("ndim", [3, 2])
@settings(max_examples=8)
@given(data=st.data())
def test_tensors_and_eigenvalues(dtype, ndim, data):
    x, slab = drawn(data, dtype, ndim)
    mode, cval = data.draw(st.sampled_from(MODES)), data.draw(st.sampled_from([0, 3]))
    sigma = data.draw(st.sampled_from([0.7, 1.2, (0.8, 1.1, 1.3)[:ndim]]))
    v, wide = bv.open(x), x.astype("f8")
    result = np.dtype("f8") if dtype == "f8" else np.dtype("f4")
    largest = max(float(np.abs(wide).max()), 3.0)
    tensor = bv.structure_tensor(v, sigma, mode=mode, cval=cval)
    theirs = feature.structure_tensor(wide, sigma, mode=mode, cval=cval)
    # scikit-image's own Sobel and Gaussian, of the products in our precision.
    matrix = bv.hessian_matrix(v, sigma, mode=mode, cval=cval)
    hessian = feature.hessian_matrix(
        wide, sigma, mode=mode, cval=cval, use_gaussian_derivatives=True
    )
    found = bv.compute(*tensor, *matrix, runner=None, slab=slab)
    steepest = (2 * 4 ** (ndim - 1) * largest) ** 2
    for ours, right in zip(found[: len(tensor)], theirs, strict=True):
        close(ours, right, result, steepest)
    for ours, right in zip(found[len(tensor) :], hessian, strict=True):
        close(ours, right, result, 4 * largest)
    values = bv.hessian_matrix_eigvals([bv.open(h) for h in found[len(tensor) :]])
    own = feature.hessian_matrix_eigvals([h.astype("f8") for h in found[len(tensor) :]])
    for ours, right in zip(bv.compute(*values, runner=None, slab=slab), own, strict=True):
        close(ours, right, result, max(float(np.abs(own).max()), 1e-30))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_eigenvalues_of_hard_matrices(dtype):
    """Equal ones, huge and tiny ones, rank one, nothing at all; NaN stays where it is."""
    tiny, huge, tolerance = (1e-30, 1e28, 2e-7) if dtype == "f4" else (1e-150, 1e140, 1e-14)
    rng = np.random.default_rng(1)
    q = np.linalg.qr(rng.normal(size=(300, 3, 3)))[0]
    values = rng.choice([0.0, 1.0, 1.0 + 1e-9, -3.0, tiny, huge], (300, 3))
    matrices = np.einsum("nij,nj,nkj->nik", q, values, q)
    matrices = ((matrices + matrices.transpose(0, 2, 1)) / 2).astype(dtype).astype("f8")
    places = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    elements = [np.ascontiguousarray(matrices[:, a, b], dtype)[None] for a, b in places]
    expected = np.linalg.eigvalsh(matrices)[:, ::-1]
    scale = np.abs(matrices).max(axis=(1, 2), initial=1e-300)
    elements[1][0, 7] = np.nan
    for k, found in enumerate(bv.hessian_matrix_eigvals([bv.open(e) for e in elements])):
        out = np.asarray(found)[0]
        assert np.isnan(out[7]) and np.isnan(out).sum() == 1
        near = np.abs(out - expected[:, k]) <= tolerance * scale
        assert np.flatnonzero(~near).tolist() == [7]


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("ndim", [3, 2])
@pytest.mark.parametrize("black_ridges", [True, False])
def test_ridges(dtype, ndim, black_ridges):
    rng = np.random.default_rng(5)
    x = rng.normal(100, 9, (13, 19, 21)[-ndim:])
    x[..., 9, :] += 60
    x[..., 14] -= 50
    x = x.astype(dtype) if dtype == "u1" else (x / 200).astype(dtype)
    for mode in ("reflect", "nearest"):
        how = {"black_ridges": black_ridges, "mode": mode}
        ours = bv.compute(
            bv.frangi(bv.open(x), (0.9, 1.6), **how),
            bv.frangi(bv.open(x), 1.2, 0.4, 0.6, 3.0, **how),
            bv.sato(bv.open(x), (0.9, 1.6), **how),
            bv.meijering(bv.open(x), (0.9, 1.6), **how),
            bv.meijering(bv.open(x), 1.2, 0.4, **how),
            runner=None,
            slab=(5, 11, 12)[-ndim:],
        )
        wide = x.astype("f8")
        theirs = (
            filters.frangi(wide, (0.9, 1.6), **how),
            filters.frangi(wide, (1.2,), alpha=0.4, beta=0.6, gamma=3.0, **how),
            filters.sato(wide, (0.9, 1.6), **how),
            filters.meijering(wide, (0.9, 1.6), **how),
            filters.meijering(wide, (1.2,), alpha=0.4, **how),
        )
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == np.float32
            # Where an eigenvalue is about zero the measure jumps.
            near = np.isclose(a, b, rtol=2e-3, atol=2e-5 * max(1.0, float(b.max())))
            assert near.mean() > 0.999
        assert theirs[0].max() > 0.1


def test_a_nan_spoils_ridges_only_where_it_reaches():
    x = np.full((60, 40), 200, "f4")
    x[40] = 20
    expected = np.asarray(bv.frangi(bv.open(x), [1]))
    x[3, 3] = np.nan
    found = np.asarray(bv.frangi(bv.open(x), [1]))
    assert np.isnan(found[3, 3])
    np.testing.assert_array_equal(found[25:], expected[25:])
    assert expected[40].max() > 0.5


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
@settings(max_examples=8)
@given(data=st.data())
def test_local_thresholds(dtype, data):
    x, slab = drawn(data, dtype, 3)
    result = np.dtype("f8") if dtype == "f8" else np.dtype("f4")
    largest = float(np.abs(x.astype("f8")).max()) + 1
    wide, v = x.astype("f8"), bv.open(x)
    window = data.draw(st.sampled_from([3, 5, (1, 3, 5)]))
    r = None if dtype[0] == "u" else 7.0
    spread = 0.5 * float(np.iinfo(dtype).max) if r is None else r
    mode = data.draw(st.sampled_from(MODES))
    method = data.draw(st.sampled_from(["gaussian", "mean", "median"]))
    ours = bv.compute(
        bv.threshold_niblack(v, window, 0.3),
        bv.threshold_sauvola(v, window, 0.3, r),
        bv.threshold_local(v, window, method, 2, mode=mode),
        bv.unsharp_mask(v, 0.8, 1.5),
        bv.difference_of_gaussians(v, 0.6, 1.3),
        runner=None,
        slab=slab,
    )
    # The root of the rest of a difference of squares.
    niblack = filters.threshold_niblack(wide, window, 0.3)
    np.testing.assert_allclose(ours[0], niblack, atol=1e-6 * largest)
    sauvola = filters.threshold_sauvola(wide, window, 0.3, spread)
    np.testing.assert_allclose(ours[1], sauvola, atol=1e-6 * largest * (1 + largest / spread))
    local = filters.threshold_local(wide, window, method, 2, mode=mode)
    close(ours[2], local, result, largest)
    sharp = filters.unsharp_mask(wide, 0.8, 1.5, preserve_range=True)
    close(ours[3], sharp, result, 4 * largest)
    close(ours[4], filters.difference_of_gaussians(wide, 0.6, 1.3), result, largest)


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i4", "f4", "f8"])
@settings(max_examples=8)
@given(data=st.data())
def test_edges_and_denoise_wiener(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    x, slab = drawn(data, dtype, ndim)
    wide, v = x.astype("f8"), bv.open(x)
    largest = float(np.abs(wide).max()) + 3
    result = np.dtype("f8") if dtype in ("i4", "f8") else np.dtype("f4")
    # scikit-image smooths along a negative axis, too.
    choices = [None, *range(ndim), (0, ndim - 1)]
    axis = data.draw(st.sampled_from(choices), "axis")
    how = {"mode": data.draw(st.sampled_from(MODES)), "cval": data.draw(st.sampled_from([0, 3]))}
    size = data.draw(st.sampled_from([3, (1, 3, 5)[-ndim:]]), "size")
    noise = data.draw(st.sampled_from([None, 0.3 * largest**2]), "noise")
    ours = bv.compute(
        bv.scharr(v, axis, **how),
        bv.farid(v, axis, **how),
        bv.roberts(v),
        bv.denoise_wiener(v, size, noise),
        runner=None,
        slab=slab,
    )
    close(ours[0], filters.scharr(wide, axis=axis, **how), result, largest)
    close(ours[1], filters.farid(wide, axis=axis, **how), result, largest)
    planes = wide.reshape(-1, *x.shape[-2:])
    crosses = np.stack([filters.roberts(plane) for plane in planes]).reshape(x.shape)
    close(ours[2], crosses, result, 2 * largest)
    sizes = [size] * ndim if isinstance(size, int) else size
    with np.errstate(all="ignore"):
        theirs = signal.wiener(wide, sizes, noise)
    # Where scipy divides by no variance, the mean is the limit.
    theirs = np.where(np.isfinite(theirs), theirs, ours[3])
    close(ours[3], theirs, result, largest)


def test_negative_axes_and_modes_of_each_axis_of_edges():
    x = np.random.default_rng(2).random((5, 6, 7))
    v, modes = bv.open(x), ("mirror", "nearest", "constant")
    for edge in (bv.scharr, bv.farid):
        whole = np.asarray(edge(v, -1, mode=modes, cval=0.5))
        np.testing.assert_array_equal(whole, np.asarray(edge(v, 2, mode=modes, cval=0.5)))
        padded = np.pad(x, ((2, 2), (0, 0), (0, 0)), "reflect")
        padded = np.pad(padded, ((0, 0), (2, 2), (0, 0)), "edge")
        padded = np.pad(padded, ((0, 0), (0, 0), (2, 2)), constant_values=0.5)
        inner = np.asarray(edge(bv.open(padded), 2))[2:-2, 2:-2, 2:-2]
        np.testing.assert_allclose(whole, inner, atol=1e-15)


def test_refusals():
    v = bv.open(np.ones((4, 5, 6), "u1"))
    with pytest.raises(ValueError, match="window_size=4 is not odd"):
        bv.threshold_sauvola(v, 4)
    with pytest.raises(ValueError, match="method='mode'"):
        bv.threshold_local(v, 3, "mode")
    with pytest.raises(ValueError, match="high_sigma"):
        bv.difference_of_gaussians(v, 2, 1)
    with pytest.raises(ValueError, match="give the six"):
        bv.hessian_matrix_eigvals([v, v])
    with pytest.raises(TypeError, match="uint8"):
        bv.hessian_matrix_eigvals([v] * 6)
    with pytest.raises(ValueError, match="gamma"):
        bv.frangi(v, gamma=0)
    with pytest.raises(ValueError, match="sigmas"):
        bv.sato(v, [0])
    with pytest.raises(ValueError, match="axis is empty"):
        bv.scharr(v, ())
    with pytest.raises(ValueError, match="mysize=2 is not odd"):
        bv.denoise_wiener(v, 2)
    with pytest.raises(ValueError, match="noise=-1"):
        bv.denoise_wiener(v, noise=-1)
