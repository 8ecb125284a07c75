"""Slow movements of tissue that registration of slices keeps or removes."""

import numpy as np
import pytest
import scipy.ndimage as ndi

import beam_volumes as bv
from beam_volumes.ops.geometry.registration.images import Link
from beam_volumes.ops.geometry.registration.sequences import ImagePairs
from beam_volumes.ops.geometry.registration.trends import accidental, smoothed

COUNT, SIDE, SIGMA = 48, 96, 7


def truth(seed=0):
    """The slow path of the structure, and the jitter of each slice, (slices, 2)."""
    z = np.arange(COUNT)
    slow = np.stack([5 * np.sin(z / 14), 0.15 * z + 3 * np.cos(z / 17)], axis=1)
    return slow, np.random.default_rng(seed).normal(0, 1.5, (COUNT, 2))


def stack_of(moves, turns=None):
    """A tissue that changes slowly along z, each slice moved by an offset and turned by an angle."""
    rng = np.random.default_rng(1)
    wide = ndi.gaussian_filter(rng.normal(size=(COUNT, SIDE + 60, SIDE + 60)), (5, 2.5, 2.5))
    middle = (SIDE - 1) / 2
    planes = []
    for k, (plane, move) in enumerate(zip(wide, moves, strict=True)):
        angle = 0.0 if turns is None else turns[k]
        matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        start = 30 + middle - matrix @ (middle + move)
        planes.append(ndi.affine_transform(plane, matrix, start, (SIDE, SIDE), order=3))
    return np.stack(planes).astype("f4")


def places(table):
    return np.stack([np.asarray(table[a], "f8") for a in "yx"], axis=1)


def rms(a):
    a = a - a.mean(axis=0)
    return float(np.sqrt((a**2).sum(axis=1).mean()))


@pytest.fixture(scope="module")
def stack():
    slow, jitter = truth()
    return stack_of(slow + jitter)


def test_only_jitter_is_corrected(stack):
    slow, jitter = truth()
    found = places(bv.register_slices(stack, trend=SIGMA))
    # Where the structure is after the alignment, and where it would be without jitter.
    assert rms(jitter) > 1.5
    assert rms(found + slow + jitter - slow) < 0.7
    kept = ndi.gaussian_filter1d(found + slow + jitter, 3, axis=0)
    assert rms(kept - slow) < 0.5 < 1.5 < rms(slow)
    # Without it, the structure is straightened.
    straight = places(bv.register_slices(stack))
    assert rms(straight + slow + jitter) < 0.7
    np.testing.assert_array_equal(places(bv.register_slices(stack, trend="keep")), straight)


def test_straight_movements_are_removed(stack):
    plain, found = (places(bv.register_slices(stack, trend=t)) for t in ("keep", "remove"))
    z = np.arange(COUNT)
    lines = np.stack([np.polyval(np.polyfit(z, plain[:, a], 1), z) for a in range(2)], axis=1)
    np.testing.assert_allclose(found, plain - lines, atol=1e-9)
    large = places(bv.register_slices(stack, trend=1e9))
    np.testing.assert_allclose(large, found, atol=1e-6)


def test_a_prior_gives_the_slow_movement(stack):
    jitter = truth()[1]
    stage = -0.3 * np.arange(COUNT)[:, None] * [1.0, 0.5] + truth(5)[1]
    found = places(bv.register_slices(stack, trend=SIGMA, prior=stage))
    line = -0.3 * np.arange(COUNT)[:, None] * [1.0, 0.5]
    assert rms(found + jitter - line) < 1
    # A slow prior without jitter is kept as it is, with its place.
    found = places(bv.register_slices(stack, trend="remove", prior=line + 20))
    plain = places(bv.register_slices(stack, trend="remove"))
    np.testing.assert_allclose(found, plain + line + 20, atol=1e-9)


def test_a_reference_is_not_moved(stack):
    table = bv.register_slices(stack, trend=SIGMA, reference=9)
    np.testing.assert_allclose(places(table)[9], 0, atol=1e-12)
    free = places(bv.register_slices(stack, trend=SIGMA))
    np.testing.assert_allclose(places(table) - free, -np.tile(free[9], (COUNT, 1)), atol=0.1)


def test_slices_without_links_do_not_bend_the_path(stack):
    empty = stack.copy()
    empty[20:23] = 0
    jitter = truth()[1]
    table = bv.register_slices(empty, trend=SIGMA, neighbours=5)
    is_linked = np.asarray(table["links"]) > 0
    assert is_linked.sum() == COUNT - 3
    assert rms((places(table) + jitter)[is_linked]) < 0.7
    nothing = bv.register_slices(np.zeros((3, 20, 20)), trend=2)
    assert not places(nothing).any()


def test_rotations_have_a_trend():
    slow, jitter = truth()
    turns = 0.1 * np.sin(np.arange(COUNT) / 14)
    shaken = turns + np.random.default_rng(2).normal(0, 0.03, COUNT)
    stack = stack_of(slow + jitter, shaken)
    table = bv.register_slices(stack, model="rigid", trend=SIGMA)
    cosine, sine = np.asarray(table["m_yy"]), np.asarray(table["m_xy"])
    np.testing.assert_allclose(cosine**2 + sine**2, 1, atol=1e-9)
    left = np.arctan2(sine, cosine) - (turns - shaken)
    straight = bv.register_slices(stack, model="rigid")
    sizes = [rms(np.stack([a, a * 0], 1)) for a in (left, shaken - turns, turns)]
    assert sizes[0] < 0.012 < 0.02 < sizes[1]
    middle = np.full(2, (SIDE - 1) / 2)
    matrices = np.stack([np.asarray(table[f"m_{a}{b}"]) for a in "yx" for b in "yx"], 1)
    centres = matrices.reshape(-1, 2, 2) @ middle + places(table)
    assert rms(centres - middle) < 2.5 and table.num_rows == straight.num_rows


def test_lines_with_gaussian_weights():
    z = np.arange(30.0)
    columns = np.stack([3 * z - 4, np.full(30, 7.0)], axis=1)
    for sigma in (0.5, 1, 5, np.inf):
        np.testing.assert_allclose(smoothed(columns, z % 3 < 2, sigma), columns, atol=1e-9)
    assert smoothed(columns[:1], np.array([True]), 2).tolist() == columns[:1].tolist()
    wave = np.sin(z / 2)[:, None]
    weights = np.exp(-0.5 * ((z - 11) / 2) ** 2)
    line = np.polyfit(z, wave[:, 0], 1, w=np.sqrt(weights))
    found = smoothed(wave, np.ones(30, bool), 2)[11]
    np.testing.assert_allclose(found, np.polyval(line, 11), atol=1e-9)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"trend": "smooth"}, "trend='smooth' is not available; use \"keep\""),
        ({"trend": 0}, "trend=0"),
        ({"trend": -3}, "trend=-3"),
        ({"trend": np.nan}, "trend=nan"),
        ({"trend": None}, "trend=None"),
        ({"trend": [3]}, "trend="),
        ({"prior": [(0, 0)] * COUNT}, 'trend="keep" has none'),
        ({"trend": 3, "prior": [(0, 0)]}, "prior has 1 entries for 48 slices"),
        ({"trend": 3, "prior": [(0, np.nan)] * COUNT}, r"prior\[0\] has numbers"),
        ({"trend": 3, "prior": 5}, "prior=5 is neither"),
    ],
)
def test_refused_trends(stack, how, message):
    with pytest.raises((ValueError, TypeError), match=message):
        bv.register_slices(stack, **how)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 20, 20), (2, 16, 16)])
@pytest.mark.parametrize("trend", [1e-150, 3, "remove", 1e150])
def test_small_stacks_have_finite_transforms(shape, trend):
    x = np.random.default_rng(0).random(shape)
    assert np.isfinite(places(bv.register_slices(x, trend=trend))).all()


@pytest.mark.parametrize(
    ("step", "slope", "jitter", "is_real"),
    [
        (0.3, 0, 1, False),
        (0.3, 0, 0, False),
        (2, 0, 1, True),
        (0, 0.5, 0.5, True),
        (0, 0.2, 0.5, True),
        (0, 0, 3, False),
    ],
)
def test_walks_that_errors_of_links_explain_are_removed(step, slope, jitter, is_real):
    """Errors with a square of 0.18 from slice to slice, which is 0.3 along each axis."""
    rng, count = np.random.default_rng(2), 60
    moved = rng.normal(0, jitter, (count, 2))
    walk = np.cumsum(rng.normal(0, step, (count, 2)), axis=0) + slope * np.arange(count)[:, None]
    at = np.delete(np.arange(count + 3), (20, 21, 40))
    slow = accidental(moved + walk, at, 1 * (at > 41), 0.18, 2)
    assert (slow is None) == is_real
    if slow is not None:
        error = walk - slow
        assert (error - error.mean(axis=0)).std() <= max(0.6 * walk.std(), 0.1 * jitter)


def image_pairs(count, model="translation", shape=(48, 56)):
    return ImagePairs.of(
        "register_frames",
        "t",
        ("z", "y", "x")[-len(shape) :],
        count,
        shape,
        1,
        None,
        model=model,
        method="intensity",
        neighbours=3,
        reference=None,
        skip=(),
        max_shift=None,
        min_quality=0.3,
    )


def test_uncertain_movements_are_reduced():
    """A smaller share of faster drifts is removed."""
    at, shares = np.arange(60), []
    jitter = np.random.default_rng(2).normal(0, 0.5, (60, 2))
    for slope in (0.05, 0.095, 0.12, 0.2):
        slow = accidental(jitter + slope * at[:, None], at, 0 * at, 0.18, 2)
        shares.append(0.0 if slow is None else np.ptp(slow) / np.ptp(slope * at))
    assert shares[0] > 0.9 > shares[1] > 0.2 > shares[2] > shares[3] == 0


@pytest.mark.parametrize(("growth", "is_kept"), [(0, True), (0.2, False)])
def test_only_errors_that_increase_with_the_distance_add_up(growth, is_kept):
    drift = 0.1 * np.arange(24)[:, None] * [1, 1]
    links = {
        (i, j): Link(
            np.eye(2), drift[i] - drift[j], 0.8, 4e3, 40.0, error=0.2 + growth * (j - i - 1)
        )
        for i in range(24)
        for j in range(i + 1, min(i + 4, 24))
    }
    found = places(image_pairs(24).solved(links))
    assert np.ptp(found[:, 0]) == pytest.approx(np.ptp(drift) if is_kept else 0, abs=0.1)


@pytest.mark.parametrize("error", [0.01, 1e4, np.inf])
def test_uncertain_links_of_one_slice_do_not_remove_movements_of_others(error):
    walk = np.cumsum(np.random.default_rng(4).normal(0, 1, (24, 2)), axis=0)
    links = {
        (i, j): Link(
            np.eye(2), walk[i] - walk[j], 0.8, 4e3, 40.0, error=error if 9 in (i, j) else 0.01
        )
        for i in range(24)
        for j in range(i + 1, min(i + 4, 24))
    }
    off = places(image_pairs(24).solved(links)) - walk
    np.testing.assert_allclose(off - off.mean(axis=0), 0, rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", ["translation", "rigid", "affine"])
def test_slices_that_do_not_move_stay(model):
    """Their structures change, and errors of links add up."""
    rng = np.random.default_rng(3)
    noise = ndi.gaussian_filter(rng.normal(size=(24, 64, 72)), (2, 2, 2), mode="wrap")
    still = (128 + 30 * noise / noise.std()).astype("f4")
    found = bv.register_slices(still, model=model, progress=False)
    assert all(found["links"].to_pylist())
    assert abs(places(found)).max() < 0.1
    anchored = bv.register_slices(still, model=model, reference=5, progress=False)
    np.testing.assert_allclose(places(anchored)[5], 0, rtol=0, atol=1e-9)
    assert abs(places(anchored)).max() < 0.1


@pytest.mark.parametrize("known", [0, 2])
def test_infinite_errors_of_many_links_do_not_spoil_transforms(known):
    drift = 0.5 * np.arange(4)[:, None] * [1, 1]
    links = {
        (i, j): Link(
            np.eye(2), drift[i] - drift[j], 0.8, 4e3, 40.0, error=1e-5 if j < known else np.inf
        )
        for i in range(4)
        for j in range(i + 1, 4)
    }
    off = places(image_pairs(4).solved(links)) - drift
    np.testing.assert_allclose(off - off.mean(axis=0), 0, rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", ["translation", "rigid"])
def test_axes_of_one_voxel_have_no_slow_movement(model):
    rng = np.random.default_rng(5)
    walk = np.cumsum(rng.normal(0, 0.2, (24, 3)), axis=0) * [0, 1, 1]
    links = {
        (i, j): Link(np.eye(3), walk[i] - walk[j], 0.8, 4e3, 40.0, error=0.2 * (j - i))
        for i in range(24)
        for j in range(i + 1, min(i + 4, 24))
    }
    found = places(image_pairs(24, model, (1, 48, 56)).solved(links))
    assert np.isfinite(found).all() and np.ptp(found, axis=0).max() < np.ptp(walk)
