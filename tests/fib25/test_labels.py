"""The same stack measured: cells of its smoothed threshold, and the neurons of its ground truth."""

import numpy as np
import pytest
from scipy import ndimage as ndi
from skimage.measure import regionprops_table
from skimage.morphology import remove_small_objects

import beam_volumes as bv
from tests.across.test_tables import REFERENCE, REFERENCE_INTENSITY
from tests.fib25.test_fib25 import DATA
from tests.tiers import thorough

TRUTH = DATA.parent / "groundtruth.h5"

pytestmark = pytest.mark.skipif(
    not TRUTH.is_file(),
    reason="the FIB-25 stack is not at ../shared/data/fib25 beside the repository",
)


def check_table(ours, labels, intensity, box=250 * 3**0.5):
    """The table of some labels against scikit-image's of the voxels."""
    names = (*REFERENCE, *REFERENCE_INTENSITY)
    theirs = regionprops_table(labels.astype(np.int64), intensity.astype(np.float64), names)
    mean = theirs["intensity_mean"]
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
def mask():
    """Our own bright voxels, in memory."""
    smooth = bv.gaussian_filter(bv.open(DATA), 1.5)
    bright = smooth > bv.threshold_otsu(smooth)
    return bv.compute(bright, runner=None, progress=False)


def targets():
    em = bv.open(DATA)
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
def whole():
    """All of it as one slab."""
    return bv.compute(*targets(), slab=(250, 250, 250), runner=None, progress=False)


def test_cells_are_scipys_and_their_table_is_scikit_images(whole, reference, capsys):
    for ours, theirs in zip(whole[:-1], reference, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    em = bv.compute(bv.open(DATA), runner=None, progress=False)
    check_table(whole[-1], whole[-2], em)
    with capsys.disabled():
        print(f"\nfib25: {whole[2]} and {whole[3]} components, {len(whole[-1])} large ones")


@thorough
def test_cells_by_slabs_and_tiles(whole):
    how = {"slab": (64, 128, 96), "window": 16, "workers": 2, "runner": None, "progress": False}
    for one, other in zip(bv.compute(*targets(), **how), whole, strict=True):
        assert other.equals(one) if hasattr(one, "schema") else np.array_equal(one, other)


@thorough
def test_neurons_of_the_ground_truth(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(TRUTH) as file:
        stack, transforms = file["stack"][:], file["transforms"][:]
    truth = bv.compute(bv.open(stack).to(tmp_path / "stack.zarr"), runner=None, progress=False)
    neurons = bv.relabel(truth, (transforms[:, 0], transforms[:, 1]))
    table = bv.regionprops_table(neurons, bv.open(DATA))
    out = neurons.to(tmp_path / "neurons.zarr", chunks=(32, 125, 125))
    how = {"slab": (64, 125, 250), "workers": 2, "progress": False}
    written, ours, path = bv.compute(out, table, table.to(tmp_path / "neurons.csv"), **how)
    labels = np.zeros(transforms[:, 0].max() + 1, np.int64)
    labels[transforms[:, 0]] = transforms[:, 1]
    labels = labels[stack]
    np.testing.assert_array_equal(np.asarray(written), labels)
    assert len(ours) == 525
    assert np.array_equal(np.unique(labels), [0, *ours["label"].to_pylist()])
    em = bv.compute(bv.open(DATA), runner=None, progress=False)
    check_table(ours, labels, em)
    with open(path) as lines:
        assert sum(1 for _ in lines) == 526
