"""Kernels on rows of 600 to 3,000 voxels along each axis and boxes of up to 400: more than tiles hold."""

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_volumes.kernels.filters import rank_walk
from beam_volumes.kernels.filters.columns import columns_of, extremum_of_columns
from beam_volumes.kernels.filters.extremum import extremum_box, extremum_footprint
from beam_volumes.kernels.filters.gradient import gradient_magnitude
from beam_volumes.kernels.filters.median import median3
from beam_volumes.kernels.filters.rank import rank_footprint
from beam_volumes.kernels.filters.rank_box import rank_box
from beam_volumes.kernels.filters.separable import correlate, correlate_nd
from beam_volumes.kernels.filters.uniform import uniform_box
from beam_volumes.kernels.morphology.ball import binary_ball
from beam_volumes.kernels.morphology.footprint import binary_footprint, grey_footprint
from tests.kernels.rings import apply, centre, random_volume
from tests.tiers import few, thorough

RNG = np.random.default_rng(17)


def drawn(rng, size):
    """A footprint with taps at the ends of its box."""
    footprint = rng.random(size) < 0.2
    footprint[0, 0, 0] = footprint[-1, -1, -1] = True
    return footprint


def box_extremum(rng, volume, size):
    largest = bool(rng.integers(2))
    ours = apply(extremum_box, volume, centre(size), size, *size, largest)
    return ours, (ndi.maximum_filter if largest else ndi.minimum_filter)(volume, size)


def footprint_extremum(rng, volume, size):
    footprint = drawn(rng, size)
    ours = apply(
        extremum_footprint, volume, centre(size), size, np.argwhere(footprint), True, mode="mirror"
    )
    return ours, ndi.maximum_filter(volume, footprint=footprint, mode="mirror")


def few_taps(rng, volume, size):
    footprint = np.zeros(size, bool)
    footprint[0, 0, 0] = footprint[-1, -1, -1] = footprint[size[0] // 2, -1, 0] = True
    ours = apply(extremum_footprint, volume, centre(size), size, np.argwhere(footprint), False)
    return ours, ndi.minimum_filter(volume, footprint=footprint)


def columns(rng, volume, size):
    """A bar along each axis, crossed: its columns lie within one another."""
    size = tuple(min(n, most) for n, most in zip(size, (9, 3, 400), strict=True))
    footprint = np.zeros(size, bool)
    z, y, x = (n // 2 for n in size)
    footprint[z, y], footprint[z, :, x], footprint[:, y, x] = True, True, True
    taken = columns_of(np.argwhere(footprint), size[0])
    ours = apply(extremum_of_columns, volume, centre(size), size, *taken, *size[1:], True)
    return ours, ndi.maximum_filter(volume, footprint=footprint)


def rank_of(rng, size):
    n = int(np.prod(size))
    return int(rng.choice([0, n // 2, n - 1, rng.integers(n)]))


def footprint_rank(rng, volume, size):
    rank = rank_of(rng, size)
    taps = np.argwhere(np.ones(size))
    return apply(rank_footprint, volume, centre(size), size, taps, rank), ndi.rank_filter(
        volume, rank, size
    )


def box_rank(rng, volume, size):
    size = (min(size[0], 255), *size[1:])
    rank = rank_of(rng, size)
    ours = apply(rank_box, volume, centre(size), size, *size, rank)
    return ours, ndi.rank_filter(volume, rank, size)


def walk(rng, volume, size):
    size = tuple(min(n, 256) for n in size)
    rank = rank_of(rng, size)
    ours = apply(rank_walk.rank_walk, volume, centre(size), size, *size, rank)
    return ours, ndi.rank_filter(volume, rank, size)


def median(rng, volume, size):
    return apply(median3, volume, (1, 1, 1), (3, 3, 3)), ndi.median_filter(volume, 3)


def uniform(rng, volume, size):
    zero = np.uint32(0)
    ours = apply(
        uniform_box, volume, centre(size), size, *size, zero, zero, np.float64(1), dtype="f8"
    )
    return ours, correlated(volume, [np.ones(n) for n in size])


def correlated(volume, weights):
    for axis, w in enumerate(weights):
        volume = ndi.correlate1d(volume, w, axis, np.float64)
    return volume


def separable(rng, volume, size):
    """Whole numbers: sums are exact in any order."""
    weights = [rng.integers(-3, 4, n).astype(np.float64) for n in size]
    small = np.rint(volume.astype(np.float64) % 50)
    return apply(correlate, small, centre(size), size, *weights), correlated(small, weights)


def any_weights(rng, volume, size):
    footprint = drawn(rng, size)
    weights = np.where(footprint, rng.integers(1, 9, size), 0).astype(np.float64)
    small = np.rint(volume.astype(np.float64) % 50)
    ours = apply(
        correlate_nd, small, centre(size), size, np.argwhere(footprint), weights[footprint]
    )
    return ours, ndi.correlate(small, weights)


def gradient(rng, volume, size):
    """Lengths are roots of whole numbers, which one order of adding gives as another does."""
    small = np.rint(volume.astype(np.float64) % 50)
    how = np.float64(0), np.float64(2), np.float64(0)
    ours = apply(gradient_magnitude, small, (1, 1, 1), (3, 3, 3), *how)
    return ours, ndi.generic_gradient_magnitude(small, ndi.sobel)


def binary(rng, volume, size):
    footprint, volume = drawn(rng, size), rng.random(volume.shape) < 0.02
    ours = apply(
        binary_footprint, volume, centre(size), size, np.argwhere(footprint), False,
        mode="constant", cval=1,
    )  # fmt: skip
    return ours, ndi.binary_erosion(volume, footprint, border_value=1)


def ball(rng, volume, size):
    """Balls, or discs and rods of them, up to what squares of 16 bits hold."""
    radius = min(180, max(size) // 2)
    radii = tuple(radius if n > 1 else 0 for n in size)
    if sum(r > 0 for r in radii) > 1:
        radii = tuple(min(r, 9) for r in radii)
    grid = np.ogrid[tuple(slice(-r, r + 1) for r in radii)]
    limit = max(radii) ** 2
    structure = sum(g**2 for g in grid) <= limit
    steps = np.minimum(np.array([np.arange(max(radii) + 2) ** 2] * 3), limit + 1)
    volume = rng.random(volume.shape) < 0.01
    ours = apply(
        binary_ball, volume, radii, structure.shape, np.array(radii), steps.astype(np.uint16),
        limit, True, mode="constant",
    )  # fmt: skip
    return ours, ndi.binary_dilation(volume, structure)


def grey(rng, volume, size):
    footprint, heights = drawn(rng, size), rng.integers(-9, 9, size).astype(np.float64)
    taps = np.argwhere(footprint)
    ours = apply(grey_footprint, volume, centre(size), size, taps, heights[footprint], False)
    return ours, ndi.grey_erosion(volume, footprint=footprint, structure=heights)


#: By name: a call of the kernel and of its reference, and the type of voxels.
KERNELS = {
    "walk": (walk, "f4"),
    "walk of u2": (walk, "u2"),
    "box rank": (box_rank, "u1"),
    "footprint rank": (footprint_rank, "f4"),
    "box extremum": (box_extremum, "f4"),
    "footprint extremum": (footprint_extremum, "u1"),
    "few taps": (few_taps, "f4"),
    "columns": (columns, "f4"),
    "median": (median, "f4"),
    "uniform": (uniform, "u1"),
    "separable": (separable, "u1"),
    "any weights": (any_weights, "u1"),
    "gradient": (gradient, "u1"),
    "binary": (binary, "u1"),
    "ball": (ball, "u1"),
    "grey": (grey, "f4"),
}


def check(name, shape, size, seed):
    function, dtype = KERNELS[name]
    rng = np.random.default_rng(seed)
    ours, theirs = function(rng, random_volume(rng, shape, dtype), size)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", few(KERNELS, ["walk", "box rank", "box extremum", "columns"]))
def test_long_rows(name, axis):
    """One axis of 1,300 voxels, and a box of 255 along it."""
    shape, size = [2, 5, 7], [1, 1, 2]
    shape[axis], size[axis] = 1300, 255
    check(name, tuple(shape), tuple(size), axis)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 16, 2000), (1, 1, 101)),
        ((1, 900, 30), (1, 201, 1)),
        ((4, 64, 1024), (1, 1, 201)),
        ((1, 120, 700), (1, 3, 101)),
        ((1, 511, 511), (1, 64, 2)),
        ((600, 2, 640), (255, 1, 2)),
    ],
)
def test_ranks_where_a_tile_and_its_box_fill_a_field(shape, size):
    check("walk", shape, size, 0)


@thorough
@pytest.mark.parametrize("name", KERNELS)
def test_long_rows_of_any_shape(name):
    """Long along one axis or two, boxes that are long along some; halves of a box beyond the volume."""

    @settings(max_examples=12)
    @given(st.permutations(range(3)), st.booleans(), st.integers(0, 2**32 - 1))
    def run(axes, twice, seed):
        rng = np.random.default_rng(seed)
        shape, size = np.ones((2, 3), int)
        a, b, c = axes
        shape[a], size[a] = rng.integers(600, 3001), rng.integers(1, 401)
        if twice:
            shape[b], size[b] = rng.integers(2, 40), 3
            shape[a] = rng.integers(600, 800)
        else:
            shape[b], shape[c] = rng.integers(1, 4, 2)
            size[b], size[c] = rng.integers(1, 3, 2)
        check(name, tuple(map(int, shape)), tuple(map(int, size)), seed)

    run()


def test_a_tile_and_its_box_fit_their_fields():
    rng = np.random.default_rng(3)
    for _ in range(2000):
        block = np.exp(rng.uniform(0, 8, 3)).astype(int)
        box = np.minimum(256, np.exp(rng.uniform(0, rng.uniform(1, 6), 3)).astype(int))
        tile = np.array(rank_walk.tile_shape(tuple(block.tolist()), tuple(box.tolist())))
        assert (tile >= 1).all() and (tile <= block).all()
        assert (tile + box - 1 <= 511).all(), (block, box, tile)


def test_a_box_beyond_the_fields_is_refused():
    volume = np.zeros((1, 1, 3), np.float32)
    with pytest.raises(ValueError, match="more than 511"):
        apply(rank_walk.rank_walk, volume, (0, 0, 256), (1, 1, 512), 1, 1, 512, 0, mode="nearest")
