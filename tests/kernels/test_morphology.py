"""Binary and non-flat grey morphology against scipy, and the filling of rims against numpy.pad."""

import numpy as np
import pytest
import scipy.ndimage as ndi

from beam_volumes.base.geometry import pad_index
from beam_volumes.kernels.morphology.ball import binary_ball
from beam_volumes.kernels.morphology.footprint import binary_footprint, grey_footprint
from beam_volumes.kernels.rows import pad_margins
from tests.kernels.rings import apply, ball, centre, random_volume, with_nans

RNG = np.random.default_rng(4)


def structures():
    ragged = RNG.random((3, 5, 3)) < 0.4
    ragged[0, 0, 0] = ragged[-1, -1, -1] = True
    return [ball(1), ball(3), ragged, np.ones((3, 3, 3), bool), np.ones((1, 1, 1), bool)]


@pytest.mark.parametrize("dtype", ["?", "u1"])
@pytest.mark.parametrize("border", [0, 1])
def test_binary(dtype, border):
    for structure in structures():
        shape = structure.shape
        volume = (RNG.random((7, 14, 40)) < 0.3).astype(dtype)
        if dtype == "u1":
            volume *= RNG.integers(1, 256, volume.shape, np.uint8)
        eroded = apply(
            binary_footprint, volume, centre(shape), shape, np.argwhere(structure), False,
            mode="constant", cval=border, dtype=bool,
        )  # fmt: skip
        assert np.array_equal(eroded, ndi.binary_erosion(volume, structure, border_value=border))
        dilated = apply(
            binary_footprint, volume, centre(shape), shape,
            np.argwhere(structure[::-1, ::-1, ::-1]), True,
            mode="constant", cval=border, dtype=bool,
        )  # fmt: skip
        assert np.array_equal(dilated, ndi.binary_dilation(volume, structure, border_value=border))
        assert set(np.unique(dilated.view(np.uint8))) <= {0, 1}


@pytest.mark.parametrize("dtype", ["?", "u1"])
@pytest.mark.parametrize("radii", [(1, 1, 1), (3, 3, 3), (0, 12, 12), (1, 4, 2)])
def test_ball(dtype, radii):
    """Any cut gives the same bits, rows taller than a tile among them."""
    whole = np.lcm.reduce([r for r in radii if r])
    weights = [(whole // r) ** 2 if r else 1 for r in radii]
    limit = int(whole**2)
    steps = np.minimum(np.multiply.outer(weights, np.arange(14) ** 2), limit + 1)
    steps = steps.astype(np.uint8 if limit < 128 else np.uint16)
    grid = np.ogrid[tuple(slice(-r, r + 1) for r in radii)]
    structure = sum(w * g**2 for w, g in zip(weights, grid, strict=True)) <= limit
    volume = (RNG.random((7, 80, 40)) < 0.97).astype(dtype)
    for is_dilation in (False, True):
        ours = apply(
            binary_ball, volume, radii, structure.shape,
            np.array(radii), steps, limit, is_dilation, mode="constant", dtype=bool,
        )  # fmt: skip
        twin = ndi.binary_dilation if is_dilation else ndi.binary_erosion
        assert np.array_equal(ours, twin(volume, structure))


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4"])
def test_grey(dtype):
    for shape in [(3, 3, 3), (1, 3, 5)]:
        footprint = RNG.random(shape) < 0.7
        heights = RNG.normal(0, 40, shape)
        volume = random_volume(RNG, (6, 12, 33), dtype)
        ours = apply(
            grey_footprint, volume, centre(shape), shape,
            np.argwhere(footprint), heights[footprint], False,
        )  # fmt: skip
        expected = ndi.grey_erosion(volume, footprint=footprint, structure=heights)
        assert np.array_equal(ours, expected)
        flipped = footprint[::-1, ::-1, ::-1]
        ours = apply(
            grey_footprint, volume, centre(shape), shape,
            np.argwhere(flipped), heights[::-1, ::-1, ::-1][flipped], True,
        )  # fmt: skip
        expected = ndi.grey_dilation(volume, footprint=footprint, structure=heights)
        assert np.array_equal(ours, expected)


def test_grey_nan_exactly_where_the_footprint_holds_one():
    footprint, volume = ball(1), with_nans(RNG, random_volume(RNG, (7, 15, 30), "f8"))
    heights = RNG.normal(0, 40, int(footprint.sum()))
    there = ndi.maximum_filter(np.isnan(volume), footprint=footprint)
    for is_max in (True, False):
        loser = np.where(np.isnan(volume), -np.inf if is_max else np.inf, volume)
        p = ((1, 1, 1), (3, 3, 3), np.argwhere(footprint), heights, is_max)
        ours, without = (apply(grey_footprint, v, *p) for v in (volume, loser))
        assert np.array_equal(ours, np.where(there, np.nan, without), equal_nan=True)


@pytest.mark.parametrize("dtype", ["?", "u2", "f4"])
def test_rims(dtype):
    modes = {
        "reflect": "symmetric", "mirror": "reflect", "nearest": "edge", "constant": "constant",
    }  # fmt: skip
    volume = random_volume(RNG, (3, 5, 8), dtype)
    for mode_y in modes:
        for mode_x in modes:
            cval = np.dtype(dtype).type(1)
            inner, pads = volume, ((0, 0), (7, 3), (2, 11))
            for axis, mode in ((2, mode_x), (1, mode_y)):
                pad = [p if a == axis else (0, 0) for a, p in enumerate(pads)]
                extra = {"constant_values": cval} if mode == "constant" else {}
                inner = np.pad(inner, pad, modes[mode], **extra)
            ring = random_volume(RNG, (6, *inner.shape[1:]), dtype)
            slots = RNG.permutation(6)[:3]
            ring[slots, 7:12, 2:10] = volume
            others = np.delete(ring, slots, 0).copy()
            maps = []
            for mode, (before, after), n in ((mode_y, pads[1], 5), (mode_x, pads[2], 8)):
                index = pad_index(-before, n + after, n, mode)
                maps.append(np.where(index < 0, -1, index + before))
            pad_margins(ring, slots, 7, 12, 2, 10, *maps, cval)
            assert np.array_equal(ring[slots], inner)
            assert np.array_equal(np.delete(ring, slots, 0), others)
