"""The distance transform from slabs and windows against scipy's of the whole volume."""

from itertools import pairwise, product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import ndimage as ndi

from beam_volumes.across import scans
from beam_volumes.kernels.morphology import distance as edt
from beam_volumes.kernels.scratch import arrays
from tests.across.scanned import carries, distance_summary
from tests.tiers import thorough

SAMPLINGS = [(1, 1, 1), (2.5, 2.5, 2.5), (4, 1, 1), (1.3, 0.7, 2), (40, 4, 4.5)]


def cuts_of(draw, length):
    inner = draw(st.sets(st.integers(1, length - 1), max_size=6)) if length > 1 else set()
    return [0, *sorted(inner), length]


def pieces(cuts):
    return list(pairwise(cuts))


def strips(cuts, kernel):
    for a, b in pieces(cuts):
        kernel(a, b)


def by_slabs(mask, sampling, slabs, windows, rows, cols, radix=3, root=True, reach=edt.REACH):
    """Two sweeps over slabs: summaries, then with the carried values; windows inside a slab."""
    how = edt.metric(mask.shape, sampling)
    _, ny, nx = mask.shape

    def summary(z0, z1, backward):
        parts = [distance_summary(mask[a:b], backward) for a, b in within(z0, z1)]
        return scans.up(parts[:: -1 if backward else 1], scans.distance_combine)

    def within(z0, z1):
        edges = [z0, *(w for w in windows if z0 < w < z1), z1]
        return pieces(edges)

    below = carries(
        [summary(*s, False) for s in pieces(slabs)], scans.distance_combine, radix=radix
    )
    above = carries([summary(*s, True) for s in pieces(slabs)], scans.distance_combine, True, radix)
    of = how.dtype.type
    far, (wz, wy, wx) = of(how.far), map(of, how.weights)
    out = np.empty(mask.shape, np.float32)
    for (z0, z1), before, after in zip(pieces(slabs), below, above, strict=True):
        parts = within(z0, z1)
        backs = [distance_summary(mask[a:b], True) for a, b in parts][::-1]
        backs = scans.down(after, backs, scans.distance_combine)[::-1]
        carry = scans.distance_carry(before, ny, nx)
        for (a, b), back in zip(parts, backs, strict=True):
            distance = np.empty((b - a, ny, nx), np.int32)
            strips(
                rows,
                lambda y0, y1, d=distance, a=a, b=b, c=carry: edt.forward(mask[a:b], c, d, y0, y1),
            )
            up = scans.distance_carry(back, ny, nx)
            strips(rows, lambda y0, y1, d=distance, c=up: edt.backward(d, c, y0, y1))
            squared = np.empty(distance.shape, how.dtype)
            size = ny, nx, b - a, how.dtype, reach
            columns, lines = (arrays(k.scratch(*size)) for k in (edt.along_y, edt.along_x))
            strips(
                cols,
                lambda x0, x1, d=distance, s=squared, w=columns: edt.along_y(
                    d, s, x0, x1, reach, far, wz, wy, True, w
                ),
            )
            strips(
                rows,
                lambda y0, y1, a=a, b=b, s=squared, w=lines: edt.along_x(
                    s, out[a:b], y0, y1, reach, far, wx, how.scale, root, True, w
                ),
            )
    return out


def whole(mask, sampling, **how):
    nz, ny, nx = mask.shape
    return by_slabs(mask, sampling, [0, nz], [], [0, ny], [0, nx], **how)


def expected(mask, sampling):
    if mask.all():
        return np.full(mask.shape, np.inf, np.float32)
    return ndi.distance_transform_edt(mask, sampling).astype(np.float32)


@st.composite
def cases(draw):
    shape = (draw(st.integers(1, 14)), draw(st.integers(1, 130)), draw(st.integers(1, 70)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    mask = random.random(shape) < draw(st.sampled_from([0, 0.3, 0.9, 0.999, 1]))
    if draw(st.booleans()):
        mask[tuple(draw(st.integers(0, n - 1)) for n in shape)] = False
    return (
        mask,
        draw(st.sampled_from(SAMPLINGS)),
        *(cuts_of(draw, n) for n in (shape[0], shape[0], shape[1], shape[2])),
        draw(st.integers(2, 5)),
    )


@thorough
@settings(max_examples=200, deadline=None, derandomize=True)
@given(cases())
def test_any_partition(case):
    mask, sampling, *cuts, radix = case
    got = by_slabs(mask, sampling, *cuts, radix=radix)
    assert np.array_equal(got, whole(mask, sampling))
    reference = expected(mask, sampling)
    if sampling == (1, 1, 1):
        assert np.array_equal(got, reference)
    np.testing.assert_array_max_ulp(got, reference, 1)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("reach", [0, 2, 48])
def test_envelope_and_search_agree(sampling, reach):
    random = np.random.default_rng(3)
    mask = random.random((9, 140, 90)) < 0.9995
    got = whole(mask, sampling, reach=reach)
    np.testing.assert_array_max_ulp(got, expected(mask, sampling), 1)


def test_one_background_voxel_and_none():
    mask = np.ones((8, 200, 150), bool)
    assert np.isposinf(whole(mask, (1, 1, 1))).all()
    assert np.isposinf(whole(mask, (2, 1, 1))).all()
    mask[3, 60, 100] = False
    assert np.array_equal(whole(mask, (1, 1, 1)), expected(mask, (1, 1, 1)))
    assert not whole(np.zeros((3, 4, 5), bool), (1, 1, 1)).any()


def test_squared():
    mask = np.random.default_rng(0).random((5, 40, 40)) < 0.99
    squared = whole(mask, (2, 2, 2), root=False)
    exact = ndi.distance_transform_edt(mask, (2, 2, 2)) ** 2
    assert np.array_equal(squared, np.rint(exact).astype(np.float32))


@thorough
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_coordinates_whose_squares_overflow_int32(axis):
    shape = [1, 1, 2]
    shape = [2, 1, 1] if axis == 2 else shape
    shape[axis] = 50_000
    mask = np.ones(shape, bool)
    mask[0, 0, 0] = False
    assert edt.metric(mask.shape, (1, 1, 1)).dtype == np.int64
    slabs = [0, shape[0] // 3, shape[0]] if axis == 0 else [0, shape[0]]
    got = by_slabs(mask, (1, 1, 1), slabs, [], [0, shape[1]], [0, shape[2]])
    assert np.array_equal(got, expected(mask, (1, 1, 1)))
    assert got.max() > 49_998


def test_bad_sampling():
    with pytest.raises(ValueError, match="sampling"):
        edt.metric((3, 3, 3), (1, 0, 1))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases(), st.sampled_from([1, 2.5, 5, 9.7]))
def test_bounded(case, most):
    mask, sampling, slabs, _, rows, cols, _ = case
    reach = edt.bounded_reach(most, sampling)
    padded = np.pad(mask, [(r, r) for r in reach], constant_values=True)

    def bounded(*box):
        out = np.empty([b - a for a, b in box], np.float32)
        around = padded[tuple(slice(a, b + 2 * r) for (a, b), r in zip(box, reach, strict=True))]
        depth, *size = out.shape
        scratch = arrays(edt.bounded.scratch(*size, depth, out.dtype, sampling, most))
        edt.bounded(around, out, sampling, most, True, scratch)
        return out

    uncut = bounded(*((0, n) for n in mask.shape))
    got = np.empty(mask.shape, np.float32)
    for box in product(*map(pieces, (slabs, rows, cols))):
        got[tuple(slice(*ends) for ends in box)] = bounded(*box)
    assert np.array_equal(got, uncut)
    np.testing.assert_array_max_ulp(got, np.minimum(expected(mask, sampling), np.float32(most)), 1)
