"""Not one bit depends on the partition: neither the sign of a zero nor of a NaN."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.graph.elementwise import EXACT_UFUNCS
from tests import catalogue as cat
from tests.catalogue_geometry import FAMILIES as GEOMETRY
from tests.ops.test_filters import FAMILIES as FILTERS
from tests.tiers import examples, few

VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf]


def specials(shape, dtype, rng):
    """Zeros of both signs, NaNs of both signs and several payloads, infinities."""
    x = rng.choice(np.array(VALUES, dtype), shape, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.05, 0.05])
    bits = x.view(f"i{x.itemsize}")
    nan = int(np.array(np.nan, dtype).view(bits.dtype))
    sign = np.iinfo(bits.dtype).min
    nans = np.array([nan, nan + 1, nan + 77, nan | sign, (nan + 5) | sign], bits.dtype)
    return np.where(rng.random(shape) < 0.08, rng.choice(nans, shape), bits).view(x.dtype)


def local_medians(draw, ndim, dtype):
    size = draw(st.sampled_from([3, 5]))
    return lambda v: bv.threshold_local(v, size, method="median")


def eigenvalues(draw, ndim, dtype):
    number = draw(st.integers(0, ndim - 1))
    return lambda v: bv.hessian_matrix_eigvals(bv.hessian_matrix(v, 1))[number]


def ridges(draw, ndim, dtype):
    measure = draw(st.sampled_from(["sato", "frangi"]))
    how = {"gamma": 1.0} if measure == "frangi" else {}
    return lambda v: getattr(bv, measure)(v, [1, 2], **how)


def contrasts(draw, ndim, dtype):
    windows = ["threshold_niblack", "threshold_sauvola"]
    name = draw(
        st.sampled_from([*windows, "unsharp_mask", "scharr", "farid", "roberts", "denoise_wiener"])
    )
    how = (
        {"window_size": 3}
        if name in windows
        else {"noise": 0.5}
        if name == "denoise_wiener"
        else {}
    )
    return lambda v: getattr(bv, name)(v, **how)


OTHERS = {f.__name__: f for f in (local_medians, eigenvalues, ridges, contrasts)}
CATALOGUES = {**FILTERS, "grey": cat.greys, **GEOMETRY}


def operation(draw, family, shape, dtype):
    if family in OTHERS:
        return OTHERS[family](draw, len(shape), dtype)
    if family in GEOMETRY:
        return draw(GEOMETRY[family](shape, dtype)).ours
    return draw(CATALOGUES[family](ndim=len(shape), dtype=dtype)).ours


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "family",
    few([*CATALOGUES, *OTHERS], ["rank"]),
)
@settings(max_examples=10)
@given(data=st.data())
def test_an_operation_gives_the_same_bits_in_any_slabs(family, dtype, data):
    shape = data.draw(st.sampled_from([(7, 21, 35), (3, 40, 67), (9, 130), (2, 3, 300)]))
    op = operation(data.draw, family, shape, dtype)
    x = specials(shape, dtype, np.random.default_rng(data.draw(st.integers(0, 999))))
    volume = op(bv.open(x))
    whole = bv.compute(volume, runner=None)
    for _ in range(2):
        # Some hundred slabs at most.
        slab = tuple(data.draw(st.integers(-(-n // 6), n)) for n in volume.shape)
        window = data.draw(st.sampled_from([None, 1, 3]))
        assert bv.compute(volume, runner=None, slab=slab, window=window).tobytes() == (
            whole.tobytes()
        )


#: Of any two floats, of a float and an integer, and in chains.
PAIRS = sorted(name for name in EXACT_UFUNCS if getattr(np, name).nin == 2)
SINGLE = sorted(name for name in EXACT_UFUNCS if getattr(np, name).nin == 1)
OF_FLOATS = [n for n in PAIRS if "bitwise" not in n and "shift" not in n]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@settings(max_examples=examples(25))
@given(data=st.data())
def test_a_ufunc_gives_the_same_bits_for_any_part_of_a_row(dtype, data):
    name = data.draw(st.sampled_from(OF_FLOATS + [n for n in SINGLE if n != "invert"]))
    ufunc = getattr(np, name)
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    shape = (2, 3, data.draw(st.sampled_from([1, 7, 31, 64, 257, 1003])))
    x, y = specials(shape, dtype, rng), specials(shape, dtype, rng)
    other = data.draw(st.sampled_from(["volume", "wide", "whole", 0.0, -0.0, 1, float("nan")]))
    if ufunc.nin == 1:
        volume = ufunc(bv.open(x))
    else:
        second = {
            "volume": lambda: bv.open(y),
            "wide": lambda: bv.open(y.astype("f8")),
            "whole": lambda: bv.open(rng.integers(-1, 2, shape, np.int8)),
        }.get(other, lambda: other)()
        pair = (bv.open(x), second)[:: data.draw(st.sampled_from([1, -1]))]
        volume = ufunc(*pair)
        if volume.dtype != bool and data.draw(st.booleans()):
            volume = data.draw(st.sampled_from([np.add, np.fmax, np.maximum]))(volume, bv.open(y))
    whole = bv.compute(volume, runner=None)
    for _ in range(3):
        slab = tuple(data.draw(st.integers(1, n)) for n in shape)
        assert bv.compute(volume, runner=None, slab=slab).tobytes() == whole.tobytes()
    start = data.draw(st.integers(0, shape[2] - 1))
    part = bv.compute(volume[:, 1:, start:], runner=None)
    assert part.tobytes() == np.ascontiguousarray(whole[:, 1:, start:]).tobytes()
