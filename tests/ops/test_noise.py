"""Noise: scikit-image's scale and distributions, one answer however the volume is cut."""

import numpy as np
import pytest
from skimage.util import img_as_float

import beam_volumes as bv

SHAPE = (20, 40, 50)
MODES = ["gaussian", "localvar", "poisson", "salt", "pepper", "s&p", "speckle", "uniform"]


def noisy(x, mode, **how):
    if mode == "poisson" and x.dtype.kind == "f":
        how.setdefault("peak", 100)
    return bv.random_noise(bv.open(x), mode, **how)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4"])
def test_one_answer_however_cut(mode, dtype):
    x = np.random.default_rng(0).uniform(0, 1, (5, 9, 11))
    x = (x * 100).astype(dtype) if np.dtype(dtype).kind in "iu" else (x - 0.5).astype(dtype)
    whole = bv.compute(noisy(x, mode, seed=2), runner=None)
    assert whole.dtype == ("f4" if dtype == "f4" else "f8")
    for slab in ((1, 4, 3), (2, 9, 5), (5, 2, 11)):
        np.testing.assert_array_equal(
            bv.compute(noisy(x, mode, seed=2), runner=None, slab=slab, window=1), whole
        )
    np.testing.assert_array_equal(
        bv.compute(noisy(x, mode, seed=2)[2:, 3:, 1:4], runner=None), whole[2:, 3:, 1:4]
    )
    assert (bv.compute(noisy(x, mode, seed=3), runner=None) != whole).any()
    assert whole.min() >= (0 if dtype == "u1" else -1) and whole.max() <= 1


@pytest.mark.parametrize("dtype", ["u1", "i2", "f8"])
def test_distributions(dtype):
    half = {"u1": 127, "i2": 9000, "f8": 0.25}[dtype]
    x = np.full(SHAPE, half, dtype)
    at, n = float(img_as_float(x).mean()), x.size

    def changes(mode, **how):
        return bv.compute(noisy(x, mode, clip=False, **how), runner=None) - at

    for mode, spread in (("gaussian", 0.1), ("speckle", 0.1 * at), ("localvar", 0.1)):
        d = changes(mode)
        assert abs(d.mean()) < 5 * spread / n**0.5 and abs(d.std() / spread - 1) < 0.02
        assert abs(((d / spread) ** 4).mean() - 3) < 0.2
        assert abs(np.corrcoef(d[..., 1:].ravel(), d[..., :-1].ravel())[0, 1]) < 0.03
    d = changes("uniform", low=-0.2, high=0.4)
    assert d.min() >= -0.2 - 1e-12 and d.max() <= 0.4 and abs(d.mean() - 0.1) < 0.005
    for rate in (0.5, 4, 30, 3000):
        counts = (changes("poisson", peak=rate / at) + at) * rate / at
        np.testing.assert_allclose(counts, counts.round(), atol=1e-6)
        assert abs(counts.mean() - rate) < 5 * (rate / n) ** 0.5
        assert abs(counts.var() / rate - 1) < 0.05
    d = changes("s&p", amount=0.3, salt_vs_pepper=0.25) + at
    assert abs((d == 1).mean() - 0.075) < 0.01 and abs((d == 0).mean() - 0.225) < 0.01
    np.testing.assert_allclose(d[(d != 1) & (d != 0)], at)


def test_channels_have_noise_of_their_own():
    x = np.zeros((3, 1, 40, 40), "f4")
    out = np.asarray(noisy(x, "gaussian", clip=False))
    assert len({out[c].tobytes() for c in range(3)}) == 3


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (dict(mode="rain"), "there are 'gaussian'"),
        (dict(amount=0.1), "is not a parameter of mode='gaussian'"),
        (dict(var=-1), "at least 0"),
        (dict(mode="salt", amount=1.5), "from 0 to 1"),
        (dict(mode="poisson"), "needs peak="),
        (dict(seed=-1), "2\\*\\*64"),
    ],
)
def test_refused(how, message):
    with pytest.raises(ValueError, match=message):
        bv.random_noise(bv.open(np.zeros((2, 3, 4), "f4")), **how)
