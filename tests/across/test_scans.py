"""Prefixes over slabs against the whole."""

from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_volumes.across import scans
from beam_volumes.across.rounds.flow import group_by_key, run
from beam_volumes.across.rounds.scans import scan_flow
from beam_volumes.base.geometry import Grid
from tests.across.groups import shuffling
from tests.across.scanned import carries, cumsum_slices, cumsum_summary, distance_summary
from tests.tiers import examples, thorough


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.uint64, np.float32])
@pytest.mark.parametrize("cuts", [[0, 20], [0, 1, 2, 3, 20], [0, 7, 19, 20]])
def test_cumsum(dtype, cuts):
    random = np.random.default_rng(5)
    volume = (random.random((20, 6, 7)) * 200 - 20).astype(dtype)
    if volume.dtype.itemsize == 8:
        volume *= np.array(2**56 + 1, dtype)  # wraps round, as numpy's sums do
    slabs = list(pairwise(cuts))
    into = carries([cumsum_summary(volume[a:b]) for a, b in slabs], scans.cumsum_combine, radix=2)
    got = np.concatenate(
        [cumsum_slices(volume[a:b], c) for (a, b), c in zip(slabs, into, strict=True)]
    )
    if volume.dtype.kind == "f":
        np.testing.assert_allclose(got, np.cumsum(volume, 0, np.float64), rtol=1e-12)
    else:
        reference = np.cumsum(volume, 0)
        assert got.dtype == reference.dtype and np.array_equal(got, reference)


@pytest.mark.parametrize("shape", [(1, 1), (1000, 1000), (5000, 3), (3, 3_000_001), (2048, 2048)])
def test_tiles_cover_and_fit(shape):
    seen = np.zeros(shape, np.uint8)
    for y, x in scans.state_tiles(*shape, 4):
        seen[y, x] += 1
        assert 0 < seen[y, x].size * 4 <= scans.MAX_STATE
    assert (seen == 1).all()


@thorough
@settings(max_examples=examples(100))
@given(
    counts=st.tuples(st.integers(1, 40), st.integers(1, 3), st.integers(1, 2)),
    radix=st.integers(2, 17),
    directions=st.tuples(st.booleans(), st.booleans()),
    most=st.sampled_from([8, 40, 10**6]),
    seed=st.integers(0, 99),
)
def test_rounds(counts, radix, directions, most, seed):
    """Every slab gets what the slabs before and after it in its tile hold, in their order."""
    rng = np.random.default_rng(seed)
    grid = Grid((counts[0], 4 * counts[1] - 1, 3 * counts[2]), (1, 4, 3))

    def state(index, text):
        """A text of slab and pixel for every pixel; some slabs have none."""
        if rng.random() < 0.1:
            return None
        _, rows, cols = grid.box(index).shape
        plane = np.empty((rows, cols), object)
        for y, x in np.ndindex(rows, cols):
            plane[y, x] = f"{text}{index}.{y}.{x} "
        return plane

    states = [(i * i, state(i, "f"), state(i, "b")) for i in range(len(grid))]
    forward, backward = directions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans.state_tiles, "__defaults__", (most,))
        flow = scan_flow(grid, add, forward=forward, backward=backward, radix=radix)
        first = iter([group_by_key])
        chaos = shuffling(rng)
        out = run(
            flow,
            [((i,), s) for i, s in enumerate(states)],
            lambda pairs: next(first, chaos)(pairs),
        )
    assert len(out["answers"]) == len(grid)
    answers = dict(out["answers"])
    _, ny, nx = grid.counts
    for tile in range(ny * nx):
        column = states[tile :: ny * nx]
        before = carries([s[1] for s in column], add, radix=3) if forward else None
        after = carries([s[2] for s in column], add, True, radix=5) if backward else None
        for z, (own, _, _) in enumerate(column):
            got = answers[z * ny * nx + tile,]
            assert got[0] == own
            for mine, theirs in zip(got[1:], (before, after), strict=True):
                if theirs is None or theirs[z] is None:
                    assert mine is None
                else:
                    np.testing.assert_array_equal(mine, theirs[z])


def test_distances_in_rounds():
    """A dataclass with a plane is cut and joined; carries equal the carries of the whole."""
    mask = np.random.default_rng(0).random((30, 1200, 1000)) < 0.99
    grid = Grid(mask.shape, (4, 1200, 1000))
    boxes = list(grid)
    parts = [
        ((i,), (None, *(distance_summary(mask[b.slices], back) for back in (False, True))))
        for i, b in enumerate(boxes)
    ]
    flow = scan_flow(grid, scans.distance_combine, itemsize=4, backward=True, radix=3)
    assert [r.name for r in flow.rounds] == ["slabs", "up-1", "up-2", "down-1", "slabs-again"]
    for (i,), (_, before, after) in run(flow, parts)["answers"]:
        assert (before is None) == (i == 0) and (after is None) == (i == len(grid) - 1)
        b = boxes[i]
        if before is not None:
            assert before.distance.shape == (1200, 1000)
            want = distance_summary(mask[: b.start[0]])
            np.testing.assert_array_equal(before.distance, want.distance)
        if after is not None:
            want = distance_summary(mask[b.stop[0] :], True)
            np.testing.assert_array_equal(after.distance, want.distance)


def test_a_state_that_cannot_be_cut():
    with pytest.raises(TypeError, match="a state of type str cannot be divided"):
        scans.cut_state("abc", (slice(0, 1), slice(0, 1)))
