"""Reductions against numpy, scikit-image and exact fractions, however the volume is cut."""

import itertools
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.filters import threshold_otsu

from beam_volumes.ops.measure import folds, percentile_formulas
from beam_volumes.ops.measure import threshold_formulas as formulas
from beam_volumes.ops.measure.rounding import PairSum, quotients, rounded
from beam_volumes.ops.measure.rounding import root as root_of
from tests.tiers import examples

INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]
FLOATS = ["f2", "f4", "f8"]
RNG = np.random.default_rng(0)


def cut(shape, rng):
    """Random boxes that cover a 2-D shape once, in random order."""
    ys = [0, *sorted(rng.integers(0, shape[0] + 1, 2)), shape[0]]
    xs = [0, *sorted(rng.integers(0, shape[1] + 1, 2)), shape[1]]
    boxes = [np.s_[a:b, c:d] for a, b in itertools.pairwise(ys) for c, d in itertools.pairwise(xs)]
    return [boxes[i] for i in rng.permutation(len(boxes))]


def reduce(reduction, x, mask=None, values=(), seed=None):
    """Fold in one piece, or in random pieces merged in a random tree."""
    if seed is None:
        return reduction.finish(reduction.fold(x, mask, values), values)
    rng = np.random.default_rng(seed)
    states = [reduction.zero()]
    states += [
        reduction.fold(x[box], None if mask is None else mask[box], values)
        for box in cut(x.shape, rng)
    ]
    while len(states) > 1:
        i, j = rng.choice(len(states), 2, replace=False)
        before = pickle.dumps((states[i], states[j]))
        merged = reduction.merge(states[i], states[j])
        assert pickle.dumps((states[i], states[j])) == before
        states = [s for k, s in enumerate(states) if k not in (i, j)]
        states.append(pickle.loads(pickle.dumps(merged)))
    return reduction.finish(states[0], values)


def percentile(x, q, mask=None, nan="raise", seed=None):
    values = ()
    for level in range(percentile_formulas.percentile_levels(x.dtype)):
        reduction = folds.RadixCounts.of(x.dtype, q, level, nan)
        result = reduce(reduction, x, mask, values, seed)
        assert np.shape(result) == reduction.shape and result.dtype == reduction.dtype
        values = (result,)
    return result


def otsu(x, mask=None, seed=None):
    if formulas.counts_every_value(x.dtype):
        return reduce(folds.ThresholdOfValues.of("threshold_otsu", x.dtype), x, mask, (), seed)
    extremes = tuple(reduce(f.of(x.dtype), x, mask, (), seed) for f in (folds.Min, folds.Max))
    return reduce(folds.ThresholdOfBins.of("threshold_otsu", x.dtype), x, mask, extremes, seed)


def same(a, b):
    assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), (a, b)


def sample(dtype, shape=(23, 31), rng=RNG):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.normal(-3, 40, shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def exact_mean_std(x, ddof=0):
    v = [Fraction(a) for a in x.ravel().tolist()]
    mean = sum(v) / len(v)
    return mean, sum((a - mean) ** 2 for a in v) / (len(v) - ddof)


@pytest.mark.parametrize("dtype", ["?", *INTEGERS, *FLOATS])
def test_simple_reductions(dtype):
    x = sample("u1") > 99 if dtype == "?" else sample(dtype)
    mask = RNG.random(x.shape) < 0.7
    for m in (None, mask):
        chosen = x if m is None else x[m]
        same(reduce(folds.Min.of(dtype), x, m), chosen.min())
        same(reduce(folds.Max.of(dtype), x, m), chosen.max())
        assert reduce(folds.Count.of(dtype), x, m) == chosen.size
        mean = reduce(folds.Mean.of(dtype), x, m)
        exact, variance = exact_mean_std(chosen, 1)
        same(mean, rounded(exact, mean.dtype))
        assert mean.dtype == chosen.mean().dtype
        std = reduce(folds.Std.of(dtype, ddof=1), x, m)
        assert std.dtype == (chosen.astype(int) if dtype == "?" else chosen).std().dtype
        assert float(std) == pytest.approx(math.sqrt(variance), rel=float(np.finfo(std.dtype).eps))
        same(reduce(folds.Var.of(dtype, ddof=1), x, m), rounded(variance, std.dtype))
        total = sum(Fraction(v) for v in chosen.ravel().tolist())
        add = folds.Sum.of(dtype)
        assert add.dtype == chosen.sum().dtype
        if add.dtype.kind == "f":
            same(reduce(add, x, m), rounded(total, add.dtype))
        elif np.iinfo(add.dtype).min <= total <= np.iinfo(add.dtype).max:
            same(reduce(add, x, m), chosen.sum())
        else:
            with pytest.raises(ValueError, match="does not fit"):
                reduce(add, x, m)


@given(seed=st.integers(0, 2**32), dtype=st.sampled_from(["u1", "i8", "f4", "f8"]))
@settings(max_examples=examples(40), deadline=None)
def test_any_partition_gives_the_same_bits(seed, dtype):
    rng = np.random.default_rng(seed)
    x = sample(dtype, tuple(rng.integers(1, 12, 2)), rng)
    if dtype[0] == "f":
        x *= 10.0 ** rng.integers(-30, 30, x.shape)
        x[rng.random(x.shape) < 0.1] *= 0
    reductions = [f.of(dtype) for f in (folds.Min, folds.Max, folds.Mean, folds.Std, folds.Count)]
    reductions += [folds.Histogram.of(dtype, 9, (-5, 70))]
    if dtype != "i8":
        reductions += [folds.Sum.of(dtype)]
    if dtype == "u1":
        reductions += [
            folds.IntegerCounts.of(dtype),
            folds.ThresholdOfValues.of("threshold_otsu", dtype),
        ]
    for r in reductions:
        same(reduce(r, x, seed=seed), reduce(r, x))
    same(percentile(x, (10, 50.0, 99), seed=seed), percentile(x, (10, 50.0, 99)))
    same(otsu(x, seed=seed), otsu(x))


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40),
    st.integers(0, 1000),
)
@settings(max_examples=examples(60), deadline=None)
def test_adversarial_floats(values, seed):
    x = np.array([values])
    mean, variance = exact_mean_std(x)
    same(reduce(folds.Mean.of("f8"), x, seed=seed), rounded(mean, np.float64))
    same(reduce(folds.Var.of("f8"), x, seed=seed), rounded(variance, np.float64))
    same(reduce(folds.Std.of("f8"), x, seed=seed), reduce(folds.Std.of("f8"), x[:, ::-1]))
    ours = reduce(folds.Sum.of("f8"), x, seed=seed)
    try:
        assert ours == math.fsum(values)
    except OverflowError:  # fsum gives up where a partial sum overflows
        same(ours, rounded(mean * len(values), np.float64))


def test_rounded():
    for x in [0.1, -1e308, 5e-324, 2.0**-1060, 1 / 3, -2.5e-310, 65504.0, 1e-45, 3e-8]:
        for dtype in (np.float16, np.float32, np.float64):
            with np.errstate(all="ignore"):
                same(rounded(Fraction(x), np.dtype(dtype)), np.float64(x).astype(dtype))
    assert rounded(Fraction(10) ** 400, np.float64) == np.inf
    assert rounded(-(Fraction(10) ** 40), np.float32) == -np.inf
    # just above the middle between two float32: by way of float64 this would round down
    middle = Fraction(1) + Fraction(1, 2**24)
    assert rounded(middle, np.float32) == 1
    assert rounded(middle + Fraction(1, 2**80), np.float32) == np.nextafter(np.float32(1), 2)


@given(st.fractions(min_value=0))
@settings(deadline=None)
def test_root(x):
    root = root_of(x)
    nearest = rounded(root, np.float64)
    below, above = (Fraction(float(np.nextafter(nearest, to))) for to in (0, np.inf))
    here = Fraction(float(nearest))
    assert ((here + below) / 2) ** 2 <= x <= ((here + above) / 2) ** 2


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("roots", [False, True])
def test_many_quotients_are_rounded_as_one(dtype, roots):
    rng = np.random.default_rng(1)
    tiny, nmant = (int(k) for k in (np.finfo(dtype).minexp, np.finfo(dtype).nmant))
    fractions = [Fraction(0), Fraction(10) ** 400, Fraction(1, 10**400)]
    for _ in range(300):
        # next to floats, to middles between two, and to the smallest
        middle = Fraction(int(rng.integers(1, 2 ** (nmant + 2))), 2**nmant)
        middle *= Fraction(2) ** int(rng.choice([0, 3, tiny, tiny - 3]))
        nudge = Fraction(int(rng.integers(-1, 2)), 2**4000)
        fractions.append(middle**2 + nudge if roots else middle + nudge)
    pairs = [(f.numerator * 6, f.denominator * 6) for f in fractions]
    many = quotients(*zip(*pairs, strict=True), np.dtype(dtype), roots)
    for f, one in zip(fractions, many, strict=True):
        same(one, rounded(root_of(f) if roots else f, np.dtype(dtype)))
    assert np.isnan(quotients([0, 3], [0, 0], np.dtype(dtype), roots)).all()


def test_non_finite_is_refused_or_left_out():
    x = sample("f4")
    x[3, 4:7] = [np.nan, np.inf, -np.inf]
    finite = x[np.isfinite(x)]
    for f in (folds.Min, folds.Max, folds.Sum, folds.Mean, folds.Std, folds.Count):
        with pytest.raises(ValueError, match=r'3 voxels are NaN or infinite.*nan="omit"'):
            reduce(f.of("f4"), x)
        r = f.of("f4", nan="omit")
        same(np.asarray(reduce(r, x)), np.asarray(reduce(r, finite[None])))
    with pytest.raises(ValueError, match="percentile: 3 voxels"):
        percentile(x, 50)
    same(percentile(x, 50, nan="omit"), np.percentile(finite, 50))
    with pytest.raises(ValueError, match="histogram: 3 voxels"):
        reduce(folds.Histogram.of("f4", 8, (0, 1)), x)
    # what the mask leaves out may be anything
    assert reduce(folds.Max.of("f4"), x, np.isfinite(x)) == finite.max()


def test_no_voxels():
    x, mask = sample("f4"), np.zeros((23, 31), bool)
    for f in (folds.Min, folds.Max, folds.Mean, folds.Std, folds.Var):
        with pytest.raises(ValueError, match="of no voxels"):
            reduce(f.of("f4"), x, mask)
    with pytest.raises(ValueError, match="percentile of no voxels"):
        percentile(x, 50, mask)
    with pytest.raises(ValueError, match="threshold_otsu of no voxels"):
        otsu(sample("u1"), mask)
    assert reduce(folds.Sum.of("f4"), x, mask) == 0
    assert reduce(folds.Count.of("f4"), x, mask) == 0
    zero = folds.RadixCounts.of("f4", 50)
    with pytest.raises(ValueError, match="of no voxels"):
        zero.finish(zero.merge(zero.zero(), zero.zero()), ())
    with pytest.raises(ValueError, match="ddof"):
        reduce(folds.Std.of("f4", ddof=1), x[:1, :1])


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i4", "f2", "f4", "f8"])
def test_histogram(dtype):
    x = sample("u1") > 99 if dtype == "?" else sample(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy: converting bool
        expected, edges = np.histogram(x, 20)
    values = (x.min(), x.max())
    r = folds.Histogram.of(dtype, 20)
    same(r.edges(values), edges)
    np.testing.assert_array_equal(reduce(r, x, values=values, seed=4), expected)
    fixed = folds.Histogram.of(dtype, 11, (-3, 17.5))
    if dtype != "?":
        np.testing.assert_array_equal(reduce(fixed, x), np.histogram(x, 11, (-3, 17.5))[0])


QS = [0, 3.7, 25, 50.0, 99.99, 100, (50.0,), (0, 12.5, 37, 50, 88.8, 100), (97, 3)]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 5), (37, 41)])
def test_percentile_is_numpys(dtype, shape):
    x = sample(dtype, shape)
    if dtype[0] == "i":
        x //= 2  # numpy's own difference wraps otherwise
    for q in QS:
        same(np.asarray(percentile(x, q)), np.asarray(np.percentile(x, q)))


@given(
    st.lists(st.floats(-(2.0**90), 2.0**90, width=32), min_size=1, max_size=30),
    st.lists(st.floats(0, 100), min_size=1, max_size=4),
)
@settings(max_examples=examples(60), deadline=None)
def test_percentile_of_any_floats(values, q):
    for dtype in ("f4", "f8"):
        x = np.array([values], dtype)
        x[x == 0] = 0  # which of two zeros comes first is chance in numpy
        same(percentile(x, tuple(q)), np.percentile(x, q))
        same(percentile(x, q[0]), np.percentile(x, q[0]))


def test_percentile_details():
    zeros = np.array([[-0.0, -0.0, -0.0]])
    for q in (0, 30, 50, 80, 100):
        same(percentile(zeros, q), np.percentile(zeros, q))
    assert percentile(np.array([[-0.0, 0.0, -5.0, 7.0]]), 50) == 0
    assert percentile(np.array([[-100, 100]], "i1"), 50) == 0  # numpy says 128
    assert percentile(np.array([[True, False, True]]), 25) == 0.5
    with pytest.raises(ValueError, match="between 0 and 100"):
        folds.RadixCounts.of("f4", 101)
    with pytest.raises(ValueError, match="levels 0 to 1"):
        folds.RadixCounts.of("f4", 50, 2)
    tokens = {folds.RadixCounts.of("f4", q, k).token() for q in (5, 6, (5,)) for k in (0, 1)}
    assert len(tokens) == 6


def bimodal(rng, shape, scale=1.0):
    first = rng.normal(60, 12, shape)
    return scale * np.where(
        rng.random(shape) < rng.uniform(0.2, 0.8), first, rng.normal(140, 20, shape)
    )


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "f2", "f4", "f8"])
def test_otsu_is_skimages(dtype):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = bimodal(rng, (50, 61), 100 if dtype in ("u2", "i2") else 0.6)
        if dtype == "i2":
            x -= 9000
        same(otsu(x.astype(dtype)), threshold_otsu(x.astype(dtype)))
    mask = x > 30
    same(otsu(x.astype(dtype), mask), threshold_otsu(x.astype(dtype)[mask]))


@given(seed=st.integers(0, 2**32), dtype=st.sampled_from(["u1", "f4", "f8"]))
@settings(max_examples=examples(150), deadline=None)
def test_otsu_of_small_images(seed, dtype):
    """Many near ties."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, rng.integers(2, 12), tuple(rng.integers(1, 9, 2))).astype(dtype)
    if dtype[0] == "f":
        x *= rng.uniform(0.01, 3)
    assert otsu(x) == threshold_otsu(x)


def test_otsu_of_bool_and_constants():
    x = sample("u1") > 99
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(otsu(x), threshold_otsu(x))
    for dtype in ("?", "u1", "i2", "i4", "f4", "f8"):
        x = np.full((3, 4), 1, dtype)
        assert otsu(x) == 1 and otsu(x).dtype == formulas.result_dtype("threshold_otsu", dtype)


def test_otsu_of_wide_integers_is_that_of_256_bins():
    x = (1e6 * bimodal(RNG, (40, 40))).astype(np.int32)
    same(otsu(x), threshold_otsu(x.astype(np.float64)))


def test_otsu_beyond_the_counts_float32_can_hold():
    counts = np.array([2**40, 1, 2**40 + 3, 0, 5], np.int64)
    assert formulas.otsu(counts, np.arange(5)) in (0, 1)
    with np.errstate(all="raise"):
        formulas.otsu(np.full(65536, 2**44, np.int64), np.arange(65536))


def test_refusals():
    with pytest.raises(ValueError, match="raise"):
        folds.Min.of("f4", nan="ignore")
    with pytest.raises(TypeError, match="complex"):
        folds.Sum.of("c8")
    with pytest.raises(TypeError, match="too many values"):
        folds.IntegerCounts.of("i4")
    with pytest.raises(ValueError, match="at least one bin"):
        folds.Histogram.of("f4", 0)


def test_foreign_byte_order_and_read_only_views():
    for dtype in ("u2", "i8", "f2", "f4", "f8"):
        x = sample(dtype)
        foreign = x.astype(x.dtype.newbyteorder())
        foreign.setflags(write=False)
        for f in (folds.Min, folds.Max, folds.Mean, folds.Std):
            assert reduce(f.of(foreign.dtype), foreign, x > 3) == reduce(f.of(dtype), x, x > 3)
        assert percentile(foreign, 40) == percentile(x, 40)
        assert otsu(foreign) == otsu(x)
    broadcast = np.broadcast_to(np.float32(2), (3, 4))
    assert reduce(folds.Sum.of("f4"), broadcast) == 24


@pytest.mark.parametrize("n", [1, 2, 3, 10])
@pytest.mark.parametrize("kind", ["near", "far", "halves", "odd"])
def test_pairs_of_floats_are_rounded_once_or_say_no(kind, n):
    rng, shape = np.random.default_rng(n), (n, 300)
    x = {
        "near": rng.standard_normal(shape),
        "far": rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 30, shape),
        "halves": 1 + rng.integers(0, 4, shape) * 2.0**-52,
        "odd": rng.choice([1, -1, 2.0**53, -(2.0**53), 2.0**-53, 5e-324, 1e308, -1e308], shape),
    }[kind]
    total = PairSum(shape[1:])
    for channel in x:
        total.add(channel)
    means, sure = total.means(np.full(shape[1:], n))
    for i, line in enumerate(x.T.tolist()):
        exact = sum(map(Fraction, line))
        if total.exact[i]:
            assert total.rounded()[i] == float(exact)
        if sure[i]:
            mean = exact / n
            assert means[i] == mean.numerator / mean.denominator
    assert sure.mean() > {"near": 0.9, "halves": 0.9}.get(kind, -1)
