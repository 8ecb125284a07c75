"""The same stacks measured: cells of their smoothed threshold, and their true cells."""

import numpy as np
import pytest
from scipy import ndimage as ndi
from skimage.measure import regionprops_table
from skimage.morphology import remove_small_objects

import beam_volumes as bv
from tests.across.test_tables import REFERENCE, REFERENCE_INTENSITY
from tests.ops.test_thinning import topology
from tests.tiers import thorough


def check_table(ours, labels, intensity):
    """The table of some labels against scikit-image's of the voxels."""
    names = (*REFERENCE, *REFERENCE_INTENSITY)
    theirs = regionprops_table(labels.astype(np.int64), intensity.astype(np.float64), names)
    mean, box = theirs["intensity_mean"], np.linalg.norm(labels.shape)
    for name, wanted in theirs.items():
        got = ours[name].to_numpy()
        if wanted.dtype.kind in "iu":
            assert np.array_equal(got, wanted), name
        elif name == "intensity_std":  # scikit-image's rounds as the mean does
            assert (np.abs(got - wanted) <= 1e-9 * (wanted + mean)).all()
        elif "inertia" in name:
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-6 * box)
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-9, err_msg=name)


@pytest.fixture(scope="module")
def mask(stack):
    """Our own bright voxels, in memory."""
    smooth = bv.gaussian_filter(bv.open(stack.slices), 1.5)
    bright = smooth > bv.threshold_otsu(smooth)
    return bv.compute(bright, runner=None, progress=False)


def targets(stack):
    em = bv.open(stack.slices)
    smooth = bv.gaussian_filter(em, 1.5)
    bright = smooth > bv.threshold_otsu(smooth)
    large = bv.remove_small_objects(bv.binary_fill_holes(bright), 200)
    cells = bv.label(large)
    names = [*REFERENCE[1:], *REFERENCE_INTENSITY, "axis_major_length", "axis_minor_length"]
    table = bv.regionprops_table(cells, em, names)
    one, three = bv.label(bright), bv.label(bright, 3)
    return one, three, one.num_labels, three.num_labels, large, cells, table


@pytest.fixture(scope="module")
def reference(mask):
    found = [ndi.label(mask), ndi.label(mask, np.ones((3, 3, 3)))]
    large = remove_small_objects(ndi.binary_fill_holes(mask), max_size=200)
    return *(f[0] for f in found), *(f[1] for f in found), large, ndi.label(large)[0]


@pytest.fixture(scope="module")
def whole(stack):
    """All of it as one slab."""
    return bv.compute(*targets(stack), slab=stack.shape, runner=None, progress=False)


def test_cells_are_scipys_and_their_table_is_scikit_images(stack, whole, reference, capsys):
    for ours, theirs in zip(whole[:-1], reference, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    em = bv.compute(bv.open(stack.slices), runner=None, progress=False)
    check_table(whole[-1], whole[-2], em)
    with capsys.disabled():
        print(f"\n{stack.name}: {whole[2]} and {whole[3]} components, {len(whole[-1])} large ones")


@thorough
def test_cells_by_slabs_and_tiles(stack, whole):
    how = {"slab": (64, 128, 96), "window": 16, "workers": 2, "runner": None, "progress": False}
    for one, other in zip(bv.compute(*targets(stack), **how), whole, strict=True):
        assert other.equals(one) if hasattr(one, "schema") else np.array_equal(one, other)


@thorough
def test_the_true_cells(stack, tmp_path):
    parts, transforms = stack.truth()
    truth = bv.compute(bv.open(parts).to(tmp_path / "parts.zarr"), runner=None, progress=False)
    cells = bv.relabel(truth, (transforms[:, 0], transforms[:, 1]))
    table = bv.regionprops_table(cells, bv.open(stack.slices))
    out = cells.to(tmp_path / "cells.zarr", chunks=(32, 125, 125))
    slab = tuple(map(min, (64, 125, 250), stack.shape))
    how = {"slab": slab, "workers": 2, "progress": False}
    written, ours, path = bv.compute(out, table, table.to(tmp_path / "cells.csv"), **how)
    labels = np.zeros(transforms[:, 0].max() + 1, np.int64)
    labels[transforms[:, 0]] = transforms[:, 1]
    labels = labels[parts]
    np.testing.assert_array_equal(np.asarray(written), labels)
    assert len(ours) > 10 and (stack.name != "fib25" or len(ours) == 525)
    assert np.array_equal(np.unique(labels), [0, *ours["label"].to_pylist()])
    em = bv.compute(bv.open(stack.slices), runner=None, progress=False)
    check_table(ours, labels, em)
    with open(path) as lines:
        assert sum(1 for _ in lines) == 1 + len(ours)


def test_skeleton(mask):
    """In small slabs, with the topology of the mask."""
    part = np.ascontiguousarray(mask[:40, :72, :72])
    result = bv.skeletonize(bv.open(part), max_num_iter=60)
    skeleton = np.asarray(result)
    found = bv.compute(result, runner=None, progress=False, slab=(11, 40, 72))
    assert np.array_equal(found, skeleton)
    assert not (skeleton & ~part).any()
    assert topology(skeleton, part) == topology(part, part)
