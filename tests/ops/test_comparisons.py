"""How much two images differ, against skimage.metrics."""

import numpy as np
import pytest
import skimage.metrics as metrics
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.tiers import dtypes_drawn, examples


def images(shape, dtype, seed):
    """A random image and a noisy one, of values that every dtype has."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 2 if dtype == "?" else 90, shape)
    noisy = true ^ (rng.random(shape) < 0.1) if dtype == "?" else true + rng.integers(0, 9, shape)
    return true.astype(dtype), noisy.astype(dtype)


def number(value, data):
    """A number computed in any slabs."""
    how = {}
    if data.draw(st.booleans(), "slabs"):
        how = {"slab": (data.draw(st.integers(1, 9)), 5, 6)}
    return float(bv.compute(value, runner=None, progress=False, **how))


@dtypes_drawn(["?", "u1", "u2", "i8", "f4", "f8"])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_numbers_are_those_of_scikit_image(dtypes, data):
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    shape = data.draw(st.sampled_from([(9, 10, 11), (1, 12, 9), (10, 9)]), "shape")
    a, b = images(shape, dtype, data.draw(st.integers(0, 99), "seed"))
    ours, theirs = data.draw(
        st.sampled_from(
            [
                (bv.mean_squared_error(a, b), metrics.mean_squared_error(a, b)),
                (
                    bv.peak_signal_noise_ratio(a, b, data_range=50),
                    metrics.peak_signal_noise_ratio(a, b, data_range=50),
                ),
                *(
                    (
                        bv.normalized_root_mse(a, b, normalization=by),
                        metrics.normalized_root_mse(a.astype("f8"), b, normalization=by),
                    )
                    for by in ("euclidean", "min-max", "mean")
                ),
                (
                    bv.normalized_mutual_information(a, b, bins=8),
                    metrics.normalized_mutual_information(a, b, bins=8),
                ),
            ]
        )
    )
    np.testing.assert_allclose(number(ours, data), theirs, rtol=1e-5 if dtype == "f4" else 1e-12)


@dtypes_drawn(["?", "u1", "u2", "i8", "f4", "f8"])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_structural_similarity(dtypes, data):
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    a, b = images((13, 14, 15), dtype, data.draw(st.integers(0, 99), "seed"))
    how = data.draw(
        st.sampled_from(
            [
                {"win_size": 3},
                {},
                {"gaussian_weights": True, "sigma": 0.7, "use_sample_covariance": False},
                {"K1": 0.1, "K2": 0.2, "win_size": 5},
            ]
        )
    )
    if dtype not in ("?", "u1", "u2") or data.draw(st.booleans()):
        how["data_range"] = 60
    theirs, map_ = metrics.structural_similarity(a, b, full=True, **how)
    ours, ours_map = bv.structural_similarity(a, b, full=True, **how)
    tolerance = 2e-4 if dtype == "f4" else 1e-10
    np.testing.assert_allclose(number(ours, data), theirs, rtol=tolerance)
    np.testing.assert_allclose(np.asarray(ours_map), map_, atol=tolerance)


def test_windows_may_be_anisotropic_and_ranges_lazy():
    a, b = images((3, 14, 15), "f4", 0)
    planes = [metrics.structural_similarity(p, q, data_range=60) for p, q in zip(a, b, strict=True)]
    ours = bv.structural_similarity(a, b, win_size=(1, 7, 7), data_range=60)
    assert float(ours) == pytest.approx(np.mean(planes), rel=1e-4)
    lazy = bv.max(a) - bv.min(a)
    given = float(np.ptp(a))
    for function in (bv.structural_similarity, bv.peak_signal_noise_ratio):
        how = {"win_size": 3} if function is bv.structural_similarity else {}
        ours = function(a, b, data_range=lazy, **how), function(a, b, data_range=given, **how)
        assert float(ours[0]) == pytest.approx(float(ours[1]), rel=1e-6)


def test_dtypes_may_differ():
    a, b = images((4, 5, 6), "u1", 1)
    single = (a / 7).astype("f4")
    theirs = metrics.normalized_root_mse(single.astype("f8"), b.astype("f8"))
    assert float(bv.normalized_root_mse(single, b)) == pytest.approx(theirs, rel=1e-14)


def test_masks_and_nan_are_left_out():
    a, b = images((4, 5, 6), "f4", 1)
    mask = np.random.default_rng(0).random(a.shape) < 0.5
    ours = float(bv.mean_squared_error(a, b, mask=mask))
    assert ours == pytest.approx(metrics.mean_squared_error(a[mask], b[mask]))
    a[0, 0, 0], b[1, 1, 1] = np.nan, np.inf
    with pytest.raises(ValueError, match=r'nan="omit"'):
        float(bv.mean_squared_error(a, b))
    finite = np.isfinite(a) & np.isfinite(b)
    ours = float(bv.mean_squared_error(a, b, nan="omit"))
    assert ours == pytest.approx(metrics.mean_squared_error(a[finite], b[finite]))


@pytest.mark.parametrize("method", ["standard", "modified"])
def test_hausdorff_distance(method):
    rng = np.random.default_rng(2)
    for threshold in (0.99, 0.9, 2):
        for other in (0.98, 2):
            a, b = rng.random((2, 9, 12, 13))
            a, b = a > threshold, b > other
            ours = float(bv.hausdorff_distance(a, b, method=method))
            assert ours == pytest.approx(metrics.hausdorff_distance(a, b, method=method), rel=1e-12)
    a = np.zeros((5, 3, 3), bool)
    b = a.copy()
    a[0, 0, 0] = b[4, 0, 0] = True
    assert float(bv.hausdorff_distance(a, b, sampling=(2.5, 1, 1))) == 10


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda a: bv.structural_similarity(a, a, win_size=4), "win_size=4 is not odd"),
        (lambda a: bv.structural_similarity(a, a), "window of 7 x 7 x 7 voxels is larger"),
        (lambda a: bv.structural_similarity(a, a, win_size=3, gaussian_weights=True), "win_size"),
        (lambda a: bv.structural_similarity(a, a, win_size=3, K1=-1), "K1=-1"),
        (lambda a: bv.peak_signal_noise_ratio(a.astype("f4"), a), "data_range"),
        (lambda a: bv.peak_signal_noise_ratio(a, a, data_range=0), "data_range=0"),
        (lambda a: bv.normalized_root_mse(a, a, normalization="std"), "normalization='std'"),
        (lambda a: bv.mean_squared_error(a, a[1:]), "do not match"),
        (lambda a: bv.hausdorff_distance(a, a, method="mean"), "method='mean'"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(ValueError, match=match):
        call(np.ones((4, 5, 6), "u1"))


def test_units_of_distances_are_those_of_the_first_mask():
    a, b = np.zeros((2, 1, 60), bool)[:, None]
    a[0, 0, [0, 50]] = b[0, 0, [0, 10]] = True
    nm = bv.open(a, voxel_size=1, unit="nm")
    for method, distance in (("standard", 40), ("modified", 20)):
        for unit, size in (("nm", 1), ("um", 0.001)):
            other = bv.open(b, voxel_size=size, unit=unit)
            how = {"method": method, "sampling": "voxel_size"}
            assert float(bv.hausdorff_distance(nm, other, **how)) == distance
            back = float(bv.hausdorff_distance(other, nm, **how))
            assert back == pytest.approx(distance * size)


def test_a_range_that_is_not_finite_is_refused():
    values = np.random.default_rng(0).integers(0, 256, (20, 20))
    with pytest.raises(ValueError, match="too far apart"):
        float(bv.normalized_mutual_information((values - 128.0) * 1e306, values))


@pytest.mark.parametrize(
    ("how", "match"),
    [({"K1": np.inf}, "K1=inf"), ({"data_range": 1e300}, "1e150"), ({"sigma": -4}, "sigma=-4")],
)
def test_more_parameters_out_of_range(how, match):
    image = np.arange(64.0).reshape(8, 8)
    with pytest.raises(ValueError, match=match):
        bv.structural_similarity(image, image, **{"data_range": 63} | how)


def test_distances_of_volumes_without_voxels():
    with pytest.raises(ValueError, match="no voxels"):
        bv.hausdorff_distance(np.zeros((0, 4), bool), np.zeros((0, 4), bool))
