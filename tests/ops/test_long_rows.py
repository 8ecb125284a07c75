"""Operations on volumes of 600 to 3,000 voxels along one axis: rows longer than kernels take at a time."""

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.catalogue import voxels
from tests.catalogue_geometry import FAMILIES as GEOMETRY
from tests.ops.test_filters import FAMILIES as FILTERS
from tests.tiers import thorough

LONG = [(1300, 3, 4), (2, 1100, 5), (2, 3, 2600)]


def in_slabs(volume, data):
    """Computed whole, or in two or three slabs along some axes."""
    slab = tuple(-(-n // data.draw(st.integers(1, 3))) for n in volume.shape)
    window = data.draw(st.sampled_from([None, 7]))
    return bv.compute(volume, runner=None, slab=slab, window=window)


@thorough
@pytest.mark.parametrize("family", FILTERS)
@settings(max_examples=8)
@given(data=st.data())
def test_filters(family, data):
    dtype = data.draw(st.sampled_from(["?", "u1", "f4"]), "dtype")
    op = data.draw(FILTERS[family](ndim=3, dtype=dtype), "op")
    x = voxels(data.draw(st.sampled_from(LONG)), dtype, data.draw(st.integers(0, 99)))
    op.check(in_slabs(op.ours(bv.open(x)), data), x)


@thorough
@pytest.mark.parametrize("family", GEOMETRY)
@settings(max_examples=8)
@given(data=st.data())
def test_geometry(family, data):
    dtype = data.draw(st.sampled_from(["?", "u1", "f4"]), "dtype")
    shape = data.draw(st.sampled_from(LONG))
    op = data.draw(GEOMETRY[family](shape, dtype), "op")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=True)
    op.check(in_slabs(op.ours(bv.open(x)), data), x)


@thorough
@pytest.mark.parametrize("shape", LONG)
@settings(max_examples=2)
@given(data=st.data())
def test_across_slabs(shape, data):
    """Components, distances, tables, neighbours, scans, numbers and projections."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    mask = rng.random(shape) < 0.4
    labels = ndi.label(mask)[0]
    v = bv.open(mask)
    ours = in_slabs(bv.label(v), data)
    assert np.array_equal(ours, labels)
    sparse = np.ones(shape, bool)
    sparse.flat[rng.integers(sparse.size, size=4)] = False
    distances = in_slabs(bv.distance_transform_edt(bv.open(sparse)), data)
    assert np.array_equal(distances, ndi.distance_transform_edt(sparse).astype(np.float32))
    whole = bv.open(labels.astype(np.uint32))
    table = bv.compute(bv.regionprops_table(whole, properties=("label", "num_pixels")), runner=None)
    assert np.array_equal(table["num_pixels"], np.bincount(labels.ravel())[1:])
    x = rng.normal(size=shape).astype(np.float32)
    for axis in range(3):
        assert np.array_equal(np.asarray(bv.max(bv.open(x), axis=axis)), x.max(axis=axis))
        steps = np.asarray(bv.cumsum(bv.open(mask), axis=axis))
        assert np.array_equal(steps, np.cumsum(mask, axis=axis))
    assert float(bv.percentile(bv.open(x), 30)) == np.percentile(x, 30)
    counts = np.histogram(x, 50)[0]
    assert np.array_equal(np.asarray(bv.histogram(bv.open(x), 50)[0]), counts)
    regions = rng.integers(0, 5, shape, np.uint8)
    pairs = bv.region_adjacency(bv.open(regions)).to_pyarrow()
    for axis, n in enumerate(shape):
        a, b = np.take(regions, range(1, n), axis), np.take(regions, range(n - 1), axis)
        low, high = np.minimum(a, b), np.maximum(a, b)
        touching = (low > 0) & (low < high)
        faces = np.zeros((5, 5), int)
        np.add.at(faces, (low[touching], high[touching]), 1)
        assert np.array_equal(pairs[f"faces-{axis}"].to_numpy(), faces[np.triu_indices(5, 1)][4:])
    eigen = bv.hessian_matrix_eigvals(bv.hessian_matrix(bv.open(x), 1))
    ordered = [in_slabs(e, data) for e in eigen]
    assert (ordered[0] >= ordered[1]).all() and (ordered[1] >= ordered[2]).all()
