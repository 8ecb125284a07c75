"""Scores of segmentations against scikit-image's, over partitions."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import ndimage
from skimage import metrics
from skimage.segmentation import find_boundaries

import beam_volumes as bv
from tests.tiers import few

PARTITIONS = [None, (3, 20, 20), (1, 7, 5), (5, 4, 20)]


def segmentations(shape=(9, 13, 17), seed=0):
    """Two random segmentations with something in common, and uint64 labels far apart."""
    random = np.random.default_rng(seed)
    blocks = np.indices(shape) // np.array([3, 4, 5])[:, None, None, None]
    truth = (blocks[0] * 16 + blocks[1] * 4 + blocks[2]).astype(np.uint32)
    test = truth // 2
    mixed = random.random(shape) < 0.3
    test[mixed] = random.integers(0, 9, int(mixed.sum()))
    return truth, test.astype(np.uint16)


def exact_contingency(a, b, ignored=()):
    kept = ~np.isin(a, ignored)
    pairs, counts = np.unique(np.stack([a[kept], b[kept]], 1), axis=0, return_counts=True)
    return {tuple(p): n for p, n in zip(pairs.tolist(), counts.tolist(), strict=True)}


def rows(table):
    columns = table.to_pydict()
    return list(zip(*columns.values(), strict=True))


@pytest.mark.parametrize("slab", few(PARTITIONS, PARTITIONS[:3]))
def test_scores_are_those_of_scikit_image(slab):
    truth, test = segmentations()
    far = test.astype(np.uint64) << np.uint64(55)
    ignored = (0, 5)
    table, *numbers, best = bv.compute(
        bv.contingency(truth, far, ignore_labels=ignored),
        *bv.variation_of_information(truth, test),
        *bv.adapted_rand_error(truth, test, ignore_labels=ignored, alpha=0.3),
        bv.segment_iou(truth, test),
        slab=slab,
        runner=None,
    )
    expected = exact_contingency(truth, far, ignored)
    assert {(a, b): n for a, b, n in rows(table)} == expected
    assert rows(table) == sorted(rows(table))
    reference = metrics.variation_of_information(truth, test)
    np.testing.assert_allclose(numbers[:2], reference, rtol=1e-12)
    reference = metrics.adapted_rand_error(truth, test, ignore_labels=ignored, alpha=0.3)
    np.testing.assert_allclose(numbers[2:], reference, rtol=1e-12)
    assert rows(best) == overlaps(truth, test)
    if slab is not None:
        again = bv.compute(*bv.variation_of_information(truth, test), runner=None)
        assert [x.tobytes() for x in numbers[:2]] == [x.tobytes() for x in again]


def overlaps(truth, test):
    shared = exact_contingency(truth, test, (0,))
    kept = truth != 0
    of_truth, of_test = (dict(zip(*map(np.ndarray.tolist, np.unique(v[kept], return_counts=True)),
                                  strict=True)) for v in (truth, test))  # fmt: skip
    expected = []
    for label, own in of_truth.items():
        found = [
            (Fraction(n, own + of_test[b] - n), -b, n)
            for (a, b), n in shared.items()
            if a == label and b
        ]
        iou, b, n = max(found, default=(Fraction(0), 0, 0))
        size = of_test[-b] if b else 0
        dice = float(Fraction(2 * n, own + size))
        expected.append((label, own, -b, size, n, float(iou), dice))
    return expected


def test_odd_volumes():
    """Nothing at all, one voxel, everything ignored, a picture, and background alone."""
    nothing = np.zeros((0, 4, 5), np.uint8)
    assert np.isnan([float(x) for x in bv.variation_of_information(nothing, nothing)]).all()
    assert bv.contingency(nothing, nothing).to_pyarrow().num_rows == 0
    assert bv.segment_iou(nothing, nothing).to_pyarrow().num_rows == 0
    one = np.full((1, 1), 2**63, np.uint64)
    assert rows(bv.contingency(one, one).to_pyarrow()) == [(2**63, 2**63, 1)]
    assert np.isnan([float(x) for x in bv.adapted_rand_error(one, one)]).all()
    empty = np.zeros((2, 3, 4), np.int16)
    assert [float(x) for x in bv.variation_of_information(empty, empty)] == [0, 0]
    assert bv.segment_iou(empty, empty).to_pyarrow().num_rows == 0
    assert rows(bv.segment_iou(empty + 4, empty).to_pyarrow()) == [(4, 24, 0, 0, 0, 0.0, 0.0)]
    with pytest.raises(ValueError, match="do not match"):
        bv.contingency(empty, empty[:1])
    with pytest.raises(ValueError, match="alpha=2"):
        bv.adapted_rand_error(empty, empty, alpha=2)
    with pytest.raises(TypeError, match="float64"):
        bv.contingency(empty, empty * 1.5)


def test_in_a_pipeline(tmp_path):
    truth, test = segmentations()
    place = [tmp_path / "truth.zarr", tmp_path / "test.zarr"]
    for array, path in zip((truth, test), place, strict=True):
        bv.compute(bv.open(array).to(path, chunks=(3, 8, 8)), runner=None)
    a, b = map(bv.open, place)
    targets = [bv.segment_iou(a, b), *bv.variation_of_information(a, b)]
    got = bv.compute(*targets, slab=(3, 8, 8), runner="FnApiRunner", journal=tmp_path / "run")
    here = bv.compute(*targets, runner=None)
    assert rows(got[0]) == rows(here[0])
    assert got[1:] == here[1:]


@pytest.mark.parametrize(
    ("dtype", "tolerance", "ignored", "slab"),
    [("u8", 0, (), (3, 20, 20)), ("u2", 2.3, (0, 5), (5, 6, 17)), ("i4", 1, (1,), None)],
)
def test_boundaries_are_those_of_scikit_image(dtype, tolerance, ignored, slab):
    truth, _ = segmentations()
    truth, test = truth.astype(dtype), np.roll(truth, 1, axis=2).astype(dtype)
    a, b = (find_boundaries(v.astype(np.int64), connectivity=1) for v in (truth, test))
    near = a, b
    if tolerance:
        near = [ndimage.binary_dilation(v, bv.ball(tolerance)) for v in (a, b)]
    counted = ~np.isin(truth, ignored)
    expected = [
        (one & other & counted).sum() / (one & counted).sum()
        for one, other in ((b, near[0]), (a, near[1]))
    ]
    scores = bv.boundary_scores(truth, test, tolerance=tolerance, ignore_labels=ignored)
    assert [float(s) for s in bv.compute(*scores, slab=slab)] == expected


def test_boundaries_of_nothing():
    same = np.ones((2, 3), np.uint8)
    assert np.isnan([float(s) for s in bv.boundary_scores(same, same)]).all()
    with pytest.raises(ValueError, match="tolerance=-1"):
        bv.boundary_scores(same, same, tolerance=-1)
