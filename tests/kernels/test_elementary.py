"""exp, log and Gaussian weights: accurate, and the same bits on every CPU."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.ndimage._filters import _gaussian_kernel1d

from beam_volumes.graph.elementwise import of_numbers
from beam_volumes.kernels.elementary import functions
from beam_volumes.kernels.elementary.exp_log import (
    exp,
    exp_value,
    few,
    flat_rows,
    gaussian_weights,
    log,
    log_value,
)
from tests.tiers import thorough

RNG = np.random.default_rng(0)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 5e-324, -5e-324, 2.2e-308, 1.7e308]
SPECIAL += [709.78, 709.79, 710.0, -708.4, -740.0, -745.13, -745.14, -746.0, -1e308]


def apply(function, x, dtype=np.float64):
    x = np.atleast_2d(x)
    out = np.empty(x.shape, dtype)
    function(x, out)
    return out


def ulps(ours, theirs):
    with np.errstate(all="ignore"):
        step = np.spacing(np.abs(theirs).astype(np.float64))
        return np.max(np.where(ours == theirs, 0, np.abs(ours - theirs) / step))


def test_exp_within_one_ulp():
    x = np.concatenate(
        [RNG.uniform(-745, 709.7, 300_000), RNG.normal(0, 1e-3, 100_000), RNG.normal(0, 1, 100_000)]
    )
    assert ulps(apply(exp, x), np.exp(x)[None]) <= 1


def test_log_within_one_ulp():
    x = np.concatenate(
        [
            10 ** RNG.uniform(-323, 308, 300_000),
            RNG.uniform(0.5, 2, 100_000),
            1 + RNG.normal(0, 1e-9, 100_000),
        ]
    )
    assert ulps(apply(log, x), np.log(x)[None]) <= 1


N = 20_000
REALS = np.concatenate(
    [RNG.uniform(-10, 10, N), 10 ** RNG.uniform(-300, 0, N), -RNG.normal(0, 1, N)]
)
WIDE = np.concatenate([REALS, RNG.uniform(-709.7, 709.7, N)])
POSITIVE = np.concatenate([10 ** RNG.uniform(-323, 308, N), 1 + RNG.normal(0, 1e-9, N)])
ANGLES = np.concatenate(
    [
        REALS,
        RNG.uniform(-1e6, 1e6, N),
        10 ** RNG.uniform(0, 308, N),
        np.round(RNG.uniform(-1e12, 1e12, N)) * np.pi / 2,
    ]
)
UNIT = np.concatenate([RNG.uniform(-1, 1, N), 1 - 10 ** RNG.uniform(-17, 0, N)])
ARGUMENTS = {
    **dict.fromkeys(("log10", "log2"), POSITIVE),
    "log1p": np.concatenate([POSITIVE, UNIT]),
    **dict.fromkeys(("expm1", "sinh", "cosh", "tanh"), WIDE),
    **dict.fromkeys(("sin", "cos", "tan"), ANGLES),
    **dict.fromkeys(("arcsin", "arccos"), UNIT),
    "arctan": np.concatenate([REALS, 10 ** RNG.uniform(0, 300, N)]),
}


def applied(name, *operands, dtype=np.float64):
    out = np.empty(operands[0].shape, dtype)
    functions.apply(name, operands, out)
    return out


def precise(name, *operands):
    """What the C library gives of wider floats, where there are some."""
    with np.errstate(all="ignore"):
        return getattr(np, name)(*(o.astype(np.longdouble) for o in operands))


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_within_two_ulp(name):
    assert ulps(applied(name, ARGUMENTS[name]), precise(name, ARGUMENTS[name])) <= 2
    assert functions.FUNCTIONS.keys() == ARGUMENTS.keys() | {"power", "arctan2"}


def test_functions_of_two_within_two_ulp():
    y = np.concatenate([RNG.uniform(-10, 10, N), 10 ** RNG.uniform(-300, 300, N)])
    x = np.concatenate([RNG.uniform(-10, 10, N), -(10 ** RNG.uniform(-300, 300, N))])
    assert ulps(applied("arctan2", y, x), precise("arctan2", y, x)) <= 2
    base = [RNG.uniform(0, 10, N), 10 ** RNG.uniform(-300, 300, N), 1 + RNG.normal(0, 1e-12, N)]
    exponent = [RNG.uniform(-10, 10, N), RNG.uniform(-2, 2, N), RNG.normal(0, 1e13, N)]
    powers = applied("power", np.concatenate(base), np.concatenate(exponent))
    true = precise("power", np.concatenate(base), np.concatenate(exponent))
    within = (np.abs(true) > 2.3e-308) & (np.abs(true) < 1.7e308)  # wider floats have more
    assert ulps(powers[within], true[within]) <= 2


@pytest.mark.parametrize("name", sorted(functions.FUNCTIONS))
def test_special_values_of_functions(name):
    special = np.array([*SPECIAL, 2, -2, 3, -3, 0.5, 800, 1e308])
    given = (special,)
    if getattr(np, name).nin == 2:
        given = tuple(a.ravel() for a in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*given)
    ours = applied(name, *given)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))
    np.testing.assert_allclose(ours, expected, rtol=5e-16, atol=5e-324)
    real = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(ours)[real], np.signbit(expected)[real])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            applied(name, *given, dtype=np.float32), ours.astype(np.float32)
        )


@pytest.mark.parametrize("function, reference", [(exp, np.exp), (log, np.log)])
def test_special_values(function, reference):
    with np.errstate(all="ignore"):
        expected = reference(np.array([SPECIAL]))
    ours = apply(function, SPECIAL)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))
    np.testing.assert_allclose(ours, expected, rtol=3e-16, atol=5e-324)
    np.testing.assert_array_equal(np.isinf(ours), np.isinf(expected))


@pytest.mark.parametrize("dtype", [bool, "u1", "i2", "i4", "u8", "f2", "f4"])
def test_other_dtypes_are_rounded_float64(dtype):
    x = RNG.integers(0, 80, (7, 9)).astype(dtype)
    for function in (exp, log):
        wide = apply(function, x.astype(np.float64))
        np.testing.assert_array_equal(
            apply(function, x.astype(np.float64), np.float32), wide.astype(np.float32)
        )
        rounded = of_numbers(function.__name__, [x])
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(rounded, wide.astype(rounded.dtype))


def test_views_of_any_strides():
    x = RNG.normal(size=(12, 14))
    whole = apply(exp, x)
    for cut in [np.s_[2:9, 3:11], np.s_[::2, ::3], np.s_[::-1, ::-1], np.s_[:, 5:6], np.s_[3:3]]:
        np.testing.assert_array_equal(apply(exp, x[cut]), whole[cut])
    for cut in [np.s_[2:9, 3:11], np.s_[::2, 3:], np.s_[:, 5:6], np.s_[3:3]]:
        out = np.zeros_like(x)
        exp(x[cut], out[cut])
        expected = np.zeros_like(x)
        expected[cut] = whole[cut]
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(ValueError, match="not contiguous"):
        exp(x[:, :7], x[:, ::2])
    np.testing.assert_array_equal(apply(exp, x.T), whole.T)
    exp(x, x)
    np.testing.assert_array_equal(x, whole)


def test_flat_rows_is_a_view():
    x = np.arange(60.0).reshape(6, 10)
    flat, pitch = flat_rows(x[1:4, 2:7])
    assert np.shares_memory(flat, x) and pitch == 10 and len(flat) == 25


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("sigma, radius", [(0.3, 2), (1.5, 6), (6, 24), (17.3, 69), (1, 0)])
def test_gaussian_weights_are_scipys(sigma, radius, order):
    theirs = _gaussian_kernel1d(sigma, order, radius)[::-1]
    ours = gaussian_weights(sigma, radius, order)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-15 * max(1, np.abs(theirs).max()))
    assert ours.dtype == np.float64


def test_gaussian_weights_are_symmetric():
    weights = gaussian_weights(2.7, 11)
    np.testing.assert_array_equal(weights, weights[::-1])
    assert abs(weights.sum() - 1) < 1e-15
    with pytest.raises(ValueError, match="negative"):
        gaussian_weights(1, 2, -1)


BITS = """
import hashlib
import numpy as np
from beam_volumes.kernels.elementary import exp_log, functions
from beam_volumes.kernels.measure import accumulate
rng = np.random.default_rng(1)
h = hashlib.sha256()
x = rng.uniform(-750, 720, (100, 333))
for dtype in (np.float64, np.float32):
    out = np.empty(x.shape, dtype)
    exp_log.exp(x, out)
    h.update(out.tobytes())
    exp_log.log(10 ** (x / 3), out)
    h.update(out.tobytes())
    for name in functions.FUNCTIONS:
        several = [abs(x) / 750, 1 + x / 9]
        functions.apply(name, several[: getattr(np, name).nin], out)
        h.update(out.tobytes())
    part = (x * 1e-3).astype(dtype)
    h.update(repr(accumulate.moments(part, None, True)).encode())
    h.update(repr(accumulate.extent(part, part > 0)).encode())
h.update(exp_log.gaussian_weights(3.3, 13, 2).tobytes())
print(h.hexdigest())
"""


@thorough
def test_same_bits_on_a_generic_cpu():
    def run(**settings):
        env = {**os.environ, **settings}
        done = subprocess.run(
            [sys.executable, "-c", BITS], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert run(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == run()


def test_interpreted_is_the_kernel():
    """To the bit, so that weights and tables are the same in every process."""
    rng = np.random.default_rng(5)
    x = [*(rng.standard_normal(300) * 10.0 ** rng.integers(-12, 4, 300)), 0.0, -0.0, 800.0, -800.0]
    x += [5e-324, 1e-310, 1.0, 1e-6, np.inf]
    for kernel in exp_value, log_value:
        values = [abs(v) for v in x] if kernel is log_value else x
        compiled = np.array([kernel(v) for v in values])
        assert np.array(few(kernel, values)).tobytes() == compiled.tobytes()


def test_scalar_is_the_kernel():
    x = RNG.uniform(-20, 20, 50)
    np.testing.assert_array_equal([exp_value(v) for v in x], apply(exp, x)[0])
