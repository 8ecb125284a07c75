"""Separable correlation and rounding casts against scipy and numpy."""

import numpy as np
import pytest
import scipy.ndimage as ndi

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.filters.separable import correlate
from tests.kernels.rings import apply, centre, random_volume, with_nans
from tests.tiers import few

RNG = np.random.default_rng(0)

GAUSSIAN = np.exp(-0.5 * (np.arange(-5, 6) / 1.3) ** 2)
KERNELS = {
    "symmetric": (GAUSSIAN, GAUSSIAN[3:8], GAUSSIAN[2:9]),
    "derivative": (np.array([1.0, 2, 1]), np.array([-1.0, 0, 1]), np.arange(-2, 3) / 7),
    "general": (RNG.normal(size=6), RNG.normal(size=2), RNG.normal(size=9)),
    "only y": (np.ones(1), RNG.normal(size=14), np.ones(1)),
    "scaled": (np.array([2.0]), np.array([-1.0]), np.array([0.5])),
}  # fmt: skip


def reference(volume, weights, **boundary):
    result = volume.astype(np.float64)
    for axis, w in enumerate(weights):
        result = ndi.correlate1d(result, w, axis, **boundary)
    return result


def tolerance(volume, weights, dtype):
    total = np.prod([np.abs(w).sum() for w in weights])
    return 16 * np.finfo(dtype).eps * total * np.abs(volume.astype(float)).max()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f4", "f8"])
def test_against_scipy(name, dtype):
    weights = KERNELS[name]
    real = np.float64 if dtype in ("i4", "i8", "f8") else np.float32
    taps = tuple(len(w) for w in weights)
    volume = random_volume(RNG, (7, 12, 45), dtype)
    for mode in ("reflect", "constant"):
        ours = apply(
            correlate,
            volume,
            centre(taps),
            taps,
            *(w.astype(real) for w in weights),
            mode=mode,
            dtype=real,
        )
        expected = reference(volume, weights, mode=mode)
        assert np.abs(ours - expected).max() <= tolerance(volume, weights, real)


def test_nan_where_the_box_holds_one_and_inf_where_it_holds_that():
    weights = tuple(w.astype(np.float32) for w in KERNELS["derivative"])
    taps = tuple(len(w) for w in weights)
    volume = with_nans(RNG, random_volume(RNG, (9, 20, 30), "f4"))
    ours = apply(correlate, volume, centre(taps), taps, *weights, mode="nearest")
    there = ndi.maximum_filter(np.isnan(volume), taps, mode="nearest")
    assert np.array_equal(np.isnan(ours), there) and there.any() and not there.all()

    box = (np.full(3, 1 / 3, np.float32),) * 3
    volume = random_volume(RNG, (6, 10, 20), "f4")
    volume[3, 5, 7], volume[1, 2, 15] = np.inf, -np.inf
    ours = apply(correlate, volume, (1, 1, 1), (3, 3, 3), *box)
    assert np.array_equal(ours == np.inf, ndi.maximum_filter(volume == np.inf, 3))
    assert np.array_equal(ours == -np.inf, ndi.maximum_filter(volume == -np.inf, 3))
    assert not np.isnan(ours).any()


@pytest.mark.parametrize("out", few(["u1", "i2", "?"], ["u1"]))
def test_rounded_results(out):
    weights = (np.array([-1, 3, -1], np.float32) / 2,) * 3
    volume = random_volume(RNG, (5, 9, 40), "u1")
    real = apply(correlate, volume, (1, 1, 1), (3, 3, 3), *weights, dtype=np.float32)
    ours = apply(correlate, volume, (1, 1, 1), (3, 3, 3), *weights, dtype=out)
    if out == "?":
        expected = real != 0
    else:
        expected = np.clip(np.rint(real), np.iinfo(out).min, np.iinfo(out).max).astype(out)
    assert np.array_equal(ours, expected)


@pytest.mark.parametrize("source", ["f4", "f8"])
@pytest.mark.parametrize("target", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_casts_round_half_to_even_and_saturate(source, target):
    values = [0, 0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 65534.5, 1e9, 2.0**53, -(2.0**53)]
    values += [s * 2.0**b for s in (-1, 1) for b in (7, 8, 15, 16, 31, 32, 63, 64)]
    values += [1e30, -1e30, np.inf, -np.inf, np.nan]
    row = np.array(values, source)
    out = np.empty(row.size, target)
    cast_rounded(row, out)
    for value, got in zip(row.tolist(), out.tolist(), strict=True):
        if target == "?":
            expected = value != 0
        elif value != value:
            expected = 0
        else:
            lo, hi = np.iinfo(target).min, np.iinfo(target).max
            expected = lo if value < lo else hi if value > hi else round(value)
        assert got == expected, value


def test_casts_of_integers_saturate():
    row = np.array([-5, 300, 70_000, 2**40, -(2**40)])
    for target in ("u1", "i2", "i4", "u8"):
        out = np.empty(row.size, target)
        cast_rounded(row, out)
        info = np.iinfo(target)
        assert out.tolist() == [min(max(v, info.min), info.max) for v in row.tolist()]
