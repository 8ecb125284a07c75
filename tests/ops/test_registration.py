"""Registration against known transforms, and transforms of slices against scipy."""

import itertools
import os
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.catalogue import assert_same, half_precision, voxels
from tests.ops.test_fusion import reference
from tests.tiers import dtypes_drawn, examples, thorough


def tissue(shape, sigma, seed=0):
    """Smooth structures with a mean of 128."""
    noise = np.random.default_rng(seed).normal(size=shape)
    smooth = ndi.gaussian_filter(noise, sigma)
    return 128 + 40 * smooth / smooth.std()


def turn(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def columns(table, names):
    return np.stack([np.asarray(table[name], "f8") for name in names], axis=1)


@dtypes_drawn(["u1", "?", "f2", "f4", "i8"])
@settings(max_examples=examples(30))
@given(data=st.data())
def test_transforms_of_slices(dtypes, data):
    """Each slice as by scipy, in slabs of any size."""
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    shape = tuple(data.draw(st.integers(1, n), "n") for n in (5, 14, 14))
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    x = voxels(shape, dtype, 3, narrow=True)
    matrices = np.eye(2) + rng.normal(0, data.draw(st.sampled_from([0, 0.2])), (shape[0], 2, 2))
    places = rng.normal(0, 3, (shape[0], 2))
    if data.draw(st.booleans(), "whole"):
        matrices[:], places = np.eye(2), np.rint(places)
    box = data.draw(st.booleans(), "bounding_box")
    order = 0 if dtype == "?" else data.draw(st.sampled_from([0, 1]), "order")
    mode = data.draw(st.sampled_from(["constant", "nearest"]), "mode")
    transforms = np.concatenate([matrices, places[:, :, None]], axis=2)
    result = bv.apply_transforms(
        bv.open(x), transforms, bounding_box=box, order=order, mode=mode, cval=1
    )
    first = np.array([int(o) for o in result.origin[1:]])
    slab = tuple(data.draw(st.integers(1, n), "slab") for n in result.shape)
    ours = bv.compute(result, runner=None, slab=slab)
    for z in range(shape[0]):
        back = np.linalg.inv(matrices[z]) if (matrices[z] != np.eye(2)).any() else np.eye(2)
        twin = half_precision(
            ndi.affine_transform,
            x[z],
            matrix=back,
            offset=-(back @ (places[z] - first)),
            output_shape=result.shape[1:],
            order=order,
            mode=mode,
            cval=1,
        )
        assert_same(ours[z], twin)


def test_a_bounding_box_contains_the_corners_of_all_slices():
    plane = np.zeros((2, 9, 7), "u1")
    plane[:, [0, 0, -1, -1], [0, -1, 0, -1]] = 255
    for transforms in ([(0, 0), (-3, 5)], [np.eye(2), turn(np.pi / 2).round()]):
        aligned = np.asarray(bv.apply_transforms(plane, transforms, bounding_box=True))
        total = 4 * 255
        assert (abs(aligned.sum(axis=(1, 2), dtype=int) - total) <= 2).all()


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("translation", "intensity"),
        ("rigid", "intensity"),
        ("affine", "intensity"),
        ("rigid", "keypoints"),
        ("affine", "keypoints"),
    ],
)
def test_slices_with_jitter_a_missing_and_a_torn_one(model, method):
    """The transforms of good slices are right within 0.3 voxels; bad ones do not disturb them."""
    rng = np.random.default_rng(5)
    depth, side, edge = 9, 128, 31 if method == "intensity" else 48
    if (model, method) == ("affine", "keypoints"):
        side, edge = 260, 80  # keypoints are found in 130 voxels a side
    centre = np.full(2, (side - 1) / 2)
    world = tissue((depth, side + 2 * edge, side + 2 * edge), (6, 2.5, 2.5))
    true, slices = [], []
    for z in range(depth):
        matrix = np.eye(2) if model == "translation" else turn(rng.normal(0, 0.06))
        if method == "keypoints":
            matrix = turn(np.radians((0, 180, 60, 0, -120, 45, 0, 135, -90)[z]))
        if model == "affine":
            matrix = matrix @ (np.eye(2) + rng.normal(0, 0.01, (2, 2)))
        place = centre + edge + rng.normal(0, 4, 2) - matrix @ centre
        true.append((matrix, place))
        drawn = ndi.affine_transform(world[z], matrix, place, (side, side), order=3)
        slices.append(drawn + rng.normal(0, 4, (side, side)))
    stack = np.stack(slices).clip(0, 255).astype("u1")
    stack[3] = 0
    stack[6, side // 2 :] = np.roll(stack[6, side // 2 :], 30, axis=1)
    reference = 4
    table = bv.register_slices(stack, model=model, method=method, reference=reference)
    assert table["links"].to_pylist()[3] == 0
    matrices = columns(table, ["m_yy", "m_yx", "m_xy", "m_xx"]).reshape(-1, 2, 2)
    places = columns(table, "yx")
    corners = np.array(list(itertools.product((0, side - 1), repeat=2))).T
    np.testing.assert_allclose(places[reference], 0, rtol=0, atol=1e-9)
    anchor, start = true[reference]
    for z in {*range(depth)} - {3, 6}:
        there = anchor @ (matrices[z] @ corners + places[z][:, None]) + start[:, None]
        wanted = true[z][0] @ corners + true[z][1][:, None]
        assert np.linalg.norm(there - wanted, axis=0).max() < 0.3
    middles = matrices @ centre + places
    np.testing.assert_array_equal(matrices[3], matrices[2])
    np.testing.assert_allclose(middles[3], (middles[2] + middles[4]) / 2, atol=0.1)
    aligned = np.asarray(bv.apply_transforms(stack, table, mode="nearest"))
    inner = aligned[[1, 2, 4, 5], 30:-30, 30:-30].astype("f8")
    assert np.corrcoef(inner.reshape(4, -1))[0, 1:].min() > 0.7


def test_downsampled_slices_give_positions_in_voxels():
    world = tissue((4, 200, 240), (3, 5, 5))
    shifts = [(0, 0), (6, -9), (-4, 3), (11, 5)]
    stack = np.stack(
        [p[20 + y : 170 + y, 20 + x : 210 + x] for p, (y, x) in zip(world, shifts, strict=True)]
    )
    table = bv.register_slices(stack, reference=0, max_side=64)
    assert abs(columns(table, "yx") - shifts).max() < 0.5


def test_frames_that_drift():
    world = tissue((20, 60, 60), 2)
    drift = [(0, 0, 0), (1, 3, -2), (2, 5, -4)]
    frames = [world[2 + z : 18 + z, 5 + y : 50 + y, 5 + x : 50 + x] for z, y, x in drift]
    movie = bv.open(np.stack(frames).astype("f4"), axes="tzyx")
    table = bv.register_frames(movie, reference=0)
    assert table["t"].to_pylist() == [0, 1, 2]
    assert abs(columns(table, "zyx") - drift).max() < 0.05
    first, *others = np.asarray(bv.apply_transforms(movie, table))[:, 3:, 6:, :-5]
    assert all(abs(other - first).mean() < 0.5 for other in others)
    with pytest.raises(ValueError, match="16 entries for 3 frames of the movie"):
        bv.apply_transforms(movie, [(0, 0, 0)] * 16)


@dtypes_drawn(["u1", "f4"])
@settings(max_examples=examples(12))
@given(data=st.data())
def test_transforms_of_frames(dtypes, data):
    """Each frame as by scipy, in slabs of any size, also of computed frames and of some of them."""
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    shape = tuple(data.draw(st.integers(m, n), "n") for m, n in ((2, 3), (1, 5), (1, 12), (1, 13)))
    axes = data.draw(st.sampled_from(["zyx", "yx"]), "axes")
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    x = np.stack([voxels(shape[-len(axes) :], dtype, k) for k in range(shape[0])])
    n = len(axes)
    matrices = np.eye(n) + rng.normal(0, data.draw(st.sampled_from([0, 0.1])), (shape[0], n, n))
    places = rng.normal(0, 2, (shape[0], n))
    order = data.draw(st.sampled_from([0, 1]), "order")
    movie = bv.open(x, axes=f"t{axes}")
    result = bv.apply_transforms(
        np.minimum(movie, 200), np.concatenate([matrices, places[:, :, None]], axis=2),
        bounding_box=True, order=order, cval=1,
    )  # fmt: skip
    first = np.array(result.origin[-n:])
    slab = tuple(data.draw(st.integers(1, m), "slab") for m in result.shape[1:])
    ours = bv.compute(result, runner=None, slab=slab if n == 3 else None)
    for t in range(shape[0]):
        back = np.linalg.inv(matrices[t]) if (matrices[t] != np.eye(n)).any() else np.eye(n)
        twin = ndi.affine_transform(
            np.minimum(x[t], 200).astype(dtype),
            back,
            -(back @ (places[t] - first)),
            output_shape=ours.shape[1:],
            order=order,
            cval=1,
        )
        assert_same(ours[t], twin)
    np.testing.assert_array_equal(np.asarray(result[1:])[0], ours[1])
    again = bv.apply_transforms(np.minimum(movie, 200)[1:2], [np.eye(n)])
    np.testing.assert_array_equal(np.asarray(again)[0], np.minimum(x[1], 200))


def cells(shape):
    """Bright spots on a dark ground, as in a light-sheet microscope."""
    points = np.random.default_rng(0).random(shape) < 0.002
    return 20 + 180 * np.minimum(1, 60 * ndi.gaussian_filter(points.astype("f8"), (2, 1.5, 1.5)))


def cut_tiles(kind, rng):
    """Tiles of 2 x 3 x 4 with 10 % overlap, gains and noise; an empty one and a wrong pair."""
    size, step, grid = np.array([40, 70, 70]), np.array([36, 63, 63]), (2, 3, 4)
    shape = step * (np.array(grid) - 1) + size + 6
    world = ndi.spline_filter(tissue(shape, 1.6) if kind == "em" else cells(shape))
    tiles, given, true = [], [], []
    for index in itertools.product(*map(range, grid)):
        nominal = np.array(index) * step + 2
        place = nominal + rng.uniform(-1.5, 1.5, 3)
        tile = ndi.affine_transform(world, np.eye(3), place, tuple(size), order=3, prefilter=False)
        tile = tile * rng.uniform(0.8, 1.2) + rng.normal(0, 4, size)
        tiles.append(tile.clip(0, 255).astype("u1"))
        given.append(nominal)
        true.append(place)
    tiles[5][:] = 0
    # Where tile 1 meets tile 2, and no other one.
    wrong = tiles[1][:32, 8:58, 58:]
    wrong[:] = np.roll(wrong, 5, axis=1)
    return tiles, np.array(given), np.array(true)


@thorough
@pytest.mark.parametrize("kind", ["em", "light sheet"])
def test_tiles_of_unknown_positions(kind, tmp_path):
    """Within 0.1 voxels, in spite of a wrong pair; an empty tile keeps its given distance.

    Fused at these positions, their voxels equal a reference in numpy, for eight partitions.
    """
    tiles, given, true = cut_tiles(kind, np.random.default_rng(3))
    table, pairs = bv.register_tiles(tiles, given, max_shift=5)
    good = [k for k in range(len(tiles)) if k != 5]
    found = columns(table, "zyx")
    assert abs(found.mean(axis=0) - given.mean(axis=0)).max() < 1e-6
    error = found - true
    assert abs(error - np.median(error[good], axis=0))[good].max() < 0.1
    assert table["links"].to_pylist()[5] == 0
    used = {
        (a, b): u
        for a, b, u in zip(*(pairs[n].to_pylist() for n in ("a", "b", "used")), strict=True)
    }
    assert used[0, 1] and not used[1, 2] and not used[4, 5]
    gain = np.linspace(0.8, 1.2, len(tiles))
    for k, tile in enumerate(tiles):
        bv.compute(bv.open(tile).to(tmp_path / f"{k}.zarr", chunks=(20, 35, 70)), runner=None)
    opened = [bv.open(tmp_path / f"{k}.zarr") for k in range(len(tiles))]
    fused = bv.fuse(opened, table, gain=gain)
    expected = reference(tiles, found - fused.origin, fused.shape, gain, np.zeros(len(tiles)))
    z, y, x = fused.shape
    slabs = [None, (9, y, x), (30, 70, x), (z, 64, 100), (40, y, 90), (25, 100, 100), (z, y, 61)]
    for slab in slabs:
        np.testing.assert_array_equal(bv.compute(fused, runner=None, slab=slab), expected)
    target = fused.to(tmp_path / "fused.zarr", chunks=(32, 64, 64))
    stored = bv.compute(target, runner="FnApiRunner", slab=(32, 128, 128))
    np.testing.assert_array_equal(stored, expected)


@pytest.mark.parametrize("model", ["rigid", "affine"])
def test_tiles_that_are_turned_or_sheared(model):
    """Voxels of neighbours are mapped within 0.08 voxels to each other, in spite of a wrong pair."""
    rng = np.random.default_rng(1)
    size, step = np.array([30, 80, 80]), np.array([0, 60, 60])
    world = ndi.spline_filter(tissue((40, 220, 220), 2))
    given, true, tiles = [], [], []
    for index in itertools.product((0,), range(3), range(3)):
        matrix = np.eye(3)
        matrix[1:, 1:] = turn(rng.normal(0, 0.02))
        if model == "affine":
            matrix = matrix @ (np.eye(3) + rng.normal(0, 0.01, (3, 3)))
        centre = (size - 1) / 2
        place = centre + (5, 9, 9) + step * index + rng.uniform(-1, 1, 3) - matrix @ centre
        tile = ndi.affine_transform(world, matrix, place, tuple(size), order=3, prefilter=False)
        tiles.append((tile + rng.normal(0, 4, size)).clip(0, 255).astype("u1"))
        given.append(np.array(index) * step)
        true.append((matrix, place))
    tiles[1][:, :55, 60:] = np.roll(tiles[1][:, :55, 60:], 7, axis=1)
    table, pairs = bv.register_tiles(tiles, given, model=model, max_shift=6)
    matrices = columns(table, [f"m_{a}{b}" for a in "zyx" for b in "zyx"]).reshape(-1, 3, 3)
    places = columns(table, "zyx")
    if model == "affine":
        np.testing.assert_allclose(matrices.mean(axis=0), np.eye(3), atol=1e-9)
    assert abs(matrices - [m for m, _ in true])[:, 1:, 1:].max() < 0.03
    used = {
        (a, b)
        for a, b, u in zip(*(pairs[n].to_pylist() for n in ("a", "b", "used")), strict=True)
        if u
    }
    assert (0, 1) in used and (1, 2) not in used and len(used) >= 11
    for i, j in used:
        overlap = np.array(list(itertools.product(*(
            (max(0, s), min(n, n + s) - 1)
            for n, s in zip(size, np.array(given[j]) - given[i], strict=True)
        )))).T  # fmt: skip
        here = matrices[i] @ overlap + places[i][:, None]
        there = true[i][0] @ overlap + true[i][1][:, None] - true[j][1][:, None]
        there = matrices[j] @ np.linalg.solve(true[j][0], there) + places[j][:, None]
        assert np.linalg.norm(here - there, axis=0).max() < 0.08, (i, j)
    fused = np.asarray(bv.fuse(tiles, table))
    assert fused.shape[1] > 190


def stage_of_matrices(kind, model, spacing, noise=4.0):
    """Four tiles of a turned or sheared stage: their voxels, given and true matrices."""
    rng, size = np.random.default_rng(5), np.array([18, 66, 70])
    world = ndi.spline_filter(tissue((80, 160, 160), 2))  # of cubic voxels
    true, given, tiles = [], [], []
    to_voxels = np.diag(1 / np.asarray(spacing))
    for k, (y, x) in enumerate(itertools.product(range(2), repeat=2)):
        linear = np.eye(3)
        if kind == "sheared":
            linear[1, 0] = 0.3
        elif kind == "turned" or k % 2:
            linear[1:, 1:] = turn(np.deg2rad(7))
        place = np.array([15.0, 22 + 48 * y, 22 + 52 * x]) + rng.uniform(-2, 2, 3)
        matrix = linear / to_voxels.diagonal()
        tile = ndi.affine_transform(world, matrix, place, tuple(size), order=3, prefilter=False)
        tiles.append((tile + rng.normal(0, noise, size)).clip(1, 255).astype("u1"))
        true.append(to_voxels @ np.c_[matrix, place])
        wrong = np.eye(3)
        if model != "translation":
            wrong[1:, 1:] = turn(rng.normal(0, 0.01))
        if model == "affine":
            wrong = wrong @ (np.eye(3) + rng.normal(0, 0.004, (3, 3)))
        wrong = to_voxels @ wrong @ np.linalg.inv(to_voxels)
        middle = true[-1] @ np.append((size - 1) / 2, 1)
        one = wrong @ true[-1]
        one[:, 3] += middle - wrong @ middle + rng.uniform(-3, 3, 3)
        given.append(one)
    opened = [bv.open(tile, voxel_size=spacing, unit="um") for tile in tiles]
    return opened, np.array(given), np.array(true)


def corner_error(found, true, shape, model):
    """The largest distance of corners, except for a transformation of everything."""
    at = np.array(list(itertools.product(*[(0, n - 1) for n in shape], (1,)))).T
    here, there = (np.concatenate([m @ at for m in each], axis=1) for each in (found, true))
    if model == "translation":
        here = here - (here - there).mean(axis=1, keepdims=True)
    else:
        known = np.append(here, np.ones((1, here.shape[1])), axis=0)
        here = (there @ np.linalg.pinv(known)) @ known
    return np.linalg.norm(here - there, axis=0).max()


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (2.5, 1.0, 1.0)])
@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("turned", "translation"),
        ("sheared", "rigid"),
        ("mixed", "translation"),
        ("mixed", "rigid"),
        ("mixed", "affine"),
    ],
)
def test_given_matrices_of_tiles_are_corrected(kind, model, spacing):
    """Corners within 0.15 voxels, from errors of several voxels."""
    tiles, given, true = stage_of_matrices(kind, model, spacing)
    table, pairs = bv.register_tiles(tiles, given, model=model, max_shift=8)
    names = [n for a in "zyx" for n in (*(f"m_{a}{b}" for b in "zyx"), a)]
    found = columns(table, names).reshape(-1, 3, 4)
    shape = tiles[0].shape
    assert corner_error(given, true, shape, model) > 2
    assert sum(pairs["used"].to_pylist()) >= 4
    assert corner_error(found, true, shape, model) < 0.15
    if model == "translation":
        np.testing.assert_allclose(found[..., :3], given[..., :3], atol=1e-12)
        shifts = columns(pairs, [f"shift_{a}" for a in "zyx"])
        ends = columns(pairs, "ab").astype(int)
        moved = (true[ends[:, 1]] - true[ends[:, 0]])[..., 3]
        np.testing.assert_allclose(shifts, moved, atol=0.15)


def test_given_matrices_with_channels_masks_and_large_overlaps(tmp_path, monkeypatch):
    """From files as from memory, downsampled, and with voxels that are not valid."""
    from beam_volumes.ops.geometry.registration import tiles as module

    tiles, given, true = stage_of_matrices("mixed", "translation", (2.5, 1.0, 1.0))
    rng = np.random.default_rng(0)
    names = [n for a in "zyx" for n in (*(f"m_{a}{b}" for b in "zyx"), a)]

    def error_of(table):
        found = columns(table, names).reshape(-1, 3, 4)
        return corner_error(found, true, tiles[0].shape, "translation")

    stored = []
    for k, tile in enumerate(tiles):
        other = bv.open(rng.integers(0, 255, tile.shape, "u1"), voxel_size=(2.5, 1, 1), unit="um")
        both = bv.stack([other, tile], names=["noise", "tissue"])
        bv.compute(both.to(tmp_path / f"{k}.zarr", chunks=(7, 20, 30)))
        stored.append(bv.open(tmp_path / f"{k}.zarr"))
    expected, _ = bv.register_tiles(tiles, given, max_shift=8)
    for channel in ("tissue", 1, -1):
        table, _ = bv.register_tiles(stored, given, max_shift=8, channel=channel)
        assert table.to_pyarrow().equals(expected.to_pyarrow())
    fused = bv.fuse(stored, table)
    assert fused.channels == ("noise", "tissue")
    black = []
    for tile in map(np.asarray, tiles):
        holes = ndi.gaussian_filter(rng.normal(size=tile.shape), 3)
        black.append(np.where(holes > 0.03, 0, tile).astype("u1"))
    again = [bv.open(tile, voxel_size=(2.5, 1, 1), unit="um") for tile in black]
    table, _ = bv.register_tiles(again, given, max_shift=8, nodata=0)
    assert error_of(table) < 0.2
    masked, _ = bv.register_tiles(again, given, max_shift=8, mask=[tile > 0 for tile in black])
    assert masked.to_pyarrow().equals(table.to_pyarrow())
    monkeypatch.setattr(module, "_MAX_VOXELS", 20_000)
    table, _ = bv.register_tiles(tiles, given, max_shift=8)
    assert error_of(table) < 0.4
    needs = module.needs_of_tiles(tiles, given, max_shift=8)
    assert needs.sweep is not None and needs.compared >= 10_000


def test_tiles_of_other_scales_are_compared_at_the_scale_of_the_first():
    """A tile with half the voxels along each axis; and views along different axes do overlap."""
    world = tissue((24, 120, 150), 3)
    left, right = world[:, :, :90], world[2:, 3:, 70:]
    shrunk = right.reshape(11, 2, *right.shape[1:])[:, :, :116].mean(axis=1)
    shrunk = shrunk.reshape(11, 58, 2, 40, 2).mean(axis=(2, 4))
    half = np.c_[2 * np.eye(3), (2.5 + 1, 3.5 - 1, 70.5 + 2)]
    for tiles, where in (
        ((left, shrunk), [np.eye(3, 4), half]),
        ((shrunk, left), [half, np.eye(3, 4)]),
    ):
        table, _ = bv.register_tiles([t.astype("f4") for t in tiles], where, max_shift=6)
        found = columns(table, "zyx")
        distance = (found[1] - found[0]) * (1 if tiles[1] is shrunk else -1)
        np.testing.assert_allclose(distance, (2.5, 3.5, 70.5), atol=0.1)


@pytest.mark.parametrize("kind", ["turned", "fine", "coarse", "inside"])
@pytest.mark.parametrize("nodata", [None, 0])
def test_tiles_with_matrices_are_compared_in_the_declared_memory(kind, nodata):
    """Also if the second tile, or its image in voxels of the first, is larger than the overlap."""
    import tracemalloc

    from beam_volumes.ops.geometry.registration.tiles import TilePairs

    linear, second, place, limit = {
        "turned": (np.eye(3), (30, 90, 90), (0, 0, 40), 8),
        "fine": (0.7 * np.eye(3), (40, 120, 120), (0, 0, 20), 8),
        "coarse": (3 * np.eye(3), (28, 80, 80), (-8, -75, -75), (20, 50, 50)),
        "inside": (np.eye(3), (56, 150, 150), (-8, -30, -30), (20, 40, 40)),
    }[kind]
    linear[1:, 1:] = linear[1:, 1:] @ turn(0.6 if kind == "turned" else 0.1)
    first = (30, 90, 90) if kind in ("turned", "fine") else (12, 24, 24)
    tiles = [bv.open(tissue(shape, 2, k).astype("u1")) for k, shape in enumerate((first, second))]
    where = [np.eye(3, 4), np.c_[linear, place]]
    every = TilePairs.of(tiles, where, "affine", limit, "test", nodata=nodata)
    every.link((0, 1))  # compiles
    tracemalloc.start()
    every.link((0, 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < every.needs().pair < 20 * peak


def test_many_tiles_are_paired_quickly():
    """A pair for each neighbour, found by sorting."""
    from beam_volumes.ops.geometry.registration.tiles import TilePairs

    grid = np.array(list(itertools.product(range(20), range(20), range(20)))) * 9.0
    one = bv.open(np.zeros((10, 10, 10), "u1"))
    linear = np.tile(np.eye(3), (len(grid), 1, 1))
    pairs = TilePairs([one] * len(grid), grid, linear, np.ones(3)).pairs
    neighbours = np.array([grid[j] - grid[i] for i, j in pairs])
    assert (abs(neighbours) <= 9).all()
    steps = [s for s in itertools.product((-9, 0, 9), repeat=3) if s > (0, 0, 0)]
    assert len(pairs) == sum(np.prod([20 - abs(s) // 9 for s in step]) for step in steps)


@pytest.mark.parametrize("side", [30, 60])
def test_tiles_of_one_plane_are_compared_with_few_others(side):
    """The number of comparisons grows with the tiles, along whichever axes they are."""
    from beam_volumes.ops.geometry.registration.tiles import _candidates

    low = np.array(list(itertools.product([0], range(side), range(side)))) * [1, 90, 900.0]
    assert sum(len(i) for i, _ in _candidates(low, low + np.array([30, 100, 1000]))) < 5 * len(low)


def test_overlaps_of_boxes_of_any_sizes():
    from beam_volumes.ops.geometry.registration.tiles import overlapping

    rng = np.random.default_rng(0)
    for ndim, count in itertools.product((1, 2, 3), (1, 2, 60)):
        low = rng.integers(-20, 20, (count, ndim))
        high = low + rng.choice([1, 2, 3, 30], (count, ndim))
        expected = [
            (i, j)
            for i, j in itertools.combinations(range(count), 2)
            if (np.maximum(low[i], low[j]) < np.minimum(high[i], high[j])).all()
        ]
        assert overlapping(low.astype(float), high.astype(float)) == expected


@pytest.mark.parametrize("model", ["translation", "rigid", "affine"])
@pytest.mark.parametrize("max_voxels", [1 << 21, 30_000])
def test_two_volumes(model, max_voxels):
    """Corners are mapped within 0.3 voxels, also with anisotropic voxels and other contrast."""
    world = tissue((40, 90, 90), (2, 4, 4))
    shape, size = (24, 60, 60), np.array([2.0, 1.0, 1.0])
    matrix = np.eye(3)
    if model != "translation":
        angle = 0.06
        matrix = np.array(
            [[np.cos(angle), 0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]]
        )
        matrix = matrix * size / size[:, None]
    if model == "affine":
        matrix = matrix @ np.diag([1.03, 0.98, 1.02])
    centre = (np.array(shape) - 1) / 2
    place = centre + np.array([9.2, 11.6, 17.6]) - matrix @ centre
    moving = 0.5 * ndi.affine_transform(world, matrix, place, shape, order=3) + 20
    fixed = world[8:32, 15:75, 15:75]
    how = {"voxel_size": tuple(size)}
    found = bv.register(
        bv.open(fixed, **how), bv.open(moving, **how), model=model, max_voxels=max_voxels
    )
    back = np.linalg.inv(matrix)
    wanted = np.eye(4)
    wanted[:3, :3], wanted[:3, 3] = back, back @ (np.array([8, 15, 15]) - place)
    corners = np.array([[*c, 1] for c in itertools.product(*((0, n - 1) for n in shape))]).T
    assert np.linalg.norm(((found - wanted) @ corners)[:3], axis=0).max() < 0.5


@pytest.mark.parametrize("method", ["intensity", "keypoints"])
def test_rotations_of_voxels_that_are_not_square(method):
    world = ndi.gaussian_filter(np.random.default_rng(5).normal(size=(400, 220)), 3)[::2]
    angles, size = [0, 0.2, -0.15, 0.1], np.array([2.0, 1.0])
    middle, slices, true = np.array([69.5, 74.5]), [], []
    for turn in (np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles):
        matrix = turn * size / size[:, None]
        true.append(np.c_[matrix, middle - matrix @ middle])
        begin = true[-1][:, 2] + (30, 35)
        slices.append(ndi.affine_transform(world, matrix, begin, (140, 150)).astype("f4"))
    how = {"model": "rigid", "reference": 0, "method": method}
    stack = bv.open(np.stack(slices), voxel_size=(5, 1, 0.5), unit="um")
    movie = bv.open(np.stack(slices), axes="tyx", voxel_size=(1, 0.5), unit="um")
    for table in (bv.register_slices(stack, **how), bv.register_frames(movie, **how)):
        names = ("m_yy", "m_yx", "y", "m_xy", "m_xx", "x")
        found = np.stack([table[n].to_numpy() for n in names], axis=1).reshape(-1, 2, 3)
        corners = np.array([(0, 0, 1), (139, 0, 1), (0, 149, 1), (139, 149, 1)]).T
        np.testing.assert_allclose(found @ corners, np.array(true) @ corners, atol=0.1)


def test_sizes_of_voxels_are_compared_in_one_unit_and_as_float32():
    world = ndi.gaussian_filter(np.random.default_rng(0).normal(size=(60, 70)), 2) > 0
    first = bv.open(world[:50, :60], voxel_size=(0.1 + 0.2, 1), unit="um", origin=(5, 0))
    second = bv.open(world[4:54, 3:63], voxel_size=(300, 1000), unit="nm")
    for moving in (second, np.asarray(second)):  # an array has no size
        found = bv.register(first, moving)
        np.testing.assert_allclose(found[:2, 2], (-4, -3), atol=0.1)
        table, _ = bv.register_tiles([first, moving], [(0, 0), (3, 1)])
        found = [np.diff(table[a].to_numpy())[0] for a in "yx"]
        np.testing.assert_allclose(found, (4, 3), atol=0.1)
    slices = bv.register_slices(np.stack([world[:50, :60], world[4:54, 3:63]]), reference=0)
    np.testing.assert_allclose([slices[a].to_numpy()[1] for a in "yx"], (4, 3), atol=0.1)
    other = second.with_space(voxel_size=(400, 1000), unit="nm")
    for call in (bv.register, lambda *tiles: bv.register_tiles(tiles, [(0, 0), (3, 1)])):
        with pytest.raises(ValueError, match=r"the voxel size of .* choose one with"):
            call(first, other)


def test_points_with_wrong_pairs():
    rng = np.random.default_rng(0)
    source = rng.normal(0, 30, (40, 3))
    rotation = np.eye(3)
    rotation[1:, 1:] = turn(0.4)
    for model, linear in {
        "translation": np.eye(3),
        "rigid": rotation,
        "affine": rotation * 1.2,
    }.items():
        target = source @ linear.T + (1, 2, 3)
        target[:12] += rng.normal(0, 40, (12, 3))
        found = bv.fit_transform(source, target, model=model, max_residual=0.5)
        np.testing.assert_allclose(found[:3], np.c_[linear, [1, 2, 3]], atol=1e-9)


@pytest.mark.parametrize(
    "call, problem",
    [
        (lambda v: bv.apply_transforms(v, [(0, 0)]), "1 entries for 3 slices"),
        (lambda v: bv.apply_transforms(v, np.zeros((3, 2, 2))), r"transforms\[0\] has no inverse"),
        (
            lambda v: bv.apply_transforms(v, [(0, 0)] * 3, mode="mirror"),
            "mode='mirror' is not available",
        ),
        (lambda v: bv.register_slices(v, model="elastic"), "model='elastic' is not available"),
        (lambda v: bv.register_slices(v, method="orb"), "method='orb' is not available"),
        (lambda v: bv.register_slices(v, method="keypoints"), 'use model="rigid" or "affine"'),
        (
            lambda v: bv.register_slices(v, model="rigid", method="keypoints"),
            "no two images share enough keypoints",
        ),
        (lambda v: bv.register_slices(v, reference=3), "reference=3 is not a number from 0 to 2"),
        (lambda v: bv.register_slices(v[0]), "axes y, x; z, y and x are needed"),
        (lambda v: bv.register_frames(v), "no axis of time; use register_slices"),
        (lambda v: bv.register_tiles([], []), "give at least one tile"),
        (lambda v: bv.register_tiles([v], [(0, 0, 0)], model="b"), "model='b' is not available"),
        (lambda v: bv.register_tiles([v, v], [(0, 0, 0)]), "1 entries for 2 tiles"),
        (
            lambda v: bv.register_tiles([v], [(0, 0, 0)], reference=1),
            "reference=1 is not a number from 0 to 0",
        ),
        (
            lambda v: bv.register_tiles([v], [(0, 0, 0)], model="rigid", subvoxel=False),
            "subvoxel=False does not go with model='rigid'",
        ),
        (lambda v: bv.register_tiles([v, v[0]], np.zeros((2, 3))), "tile 1 has the axes y x"),
        (
            lambda v: bv.register_tiles([v], [2 * np.eye(3, 4)], subvoxel=False),
            "subvoxel=False does not go with matrices in positions",
        ),
        (
            lambda v: bv.register_tiles([bv.stack([v, v])], [(0, 0, 0)]),
            r"tile 0 has 2 channels \(0, 1\); select the one to compare with channel=",
        ),
        (
            lambda v: bv.register_tiles([bv.stack([v, v])], [(0, 0, 0)], channel="b"),
            "channel='b' is not a channel of tile 0, which has the channels 0, 1",
        ),
        (
            lambda v: bv.register_tiles(
                [bv.stack([v, v], names=["405", "488"])], [(0, 0, 0)], channel=488
            ),
            "the channels 405, 488; a number counts channels, and a name needs quotes: '488'",
        ),
        (
            lambda v: bv.register_tiles([v], [(0, 0, 0)], channel=0),
            "channel=0 is not a channel of tile 0, which has no channel axis",
        ),
        (lambda v: bv.register(v, v[0]), "axes z y x and y x"),
        (
            lambda v: bv.register(v, np.ones((3, 6, 7), "u1")),
            "no transform gives the volumes a positive correlation",
        ),
        (
            lambda v: bv.fit_transform([(0, 0)], [(1, 1)]),
            "1 points for model='affine'; give at least 3",
        ),
        (
            lambda v: bv.fit_transform(np.eye(5)[:, :3], np.ones((5, 1)) * [[1, 2, 3]]),
            "the points of target are at one place",
        ),
        (
            lambda v: bv.fit_transform(
                [(0, 0, k) for k in range(5)], np.eye(5)[:, :3], model="rigid"
            ),
            "the points of source .* does not determine model='rigid'",
        ),
        (
            lambda v: bv.fit_transform(
                np.eye(3), 9 * np.eye(3)[::-1], model="rigid", max_residual=1
            ),
            "no transform agrees with 3 pairs",
        ),
        (
            lambda v: bv.fit_transform(
                [(0, 0), (5, 9)], [(0, 0), (90, 2)], model="translation", max_residual=1
            ),
            "no transform agrees with 2 pairs",
        ),
        (
            lambda v: bv.register_slices(v, min_quality=np.nan),
            "min_quality=nan is not a correlation",
        ),
        (
            lambda v: bv.register_tiles([v], [(0, 0, 0)], min_quality=50),
            "min_quality=50 is not a correl",
        ),
        (lambda v: bv.register(v, v, min_quality=np.nan), "min_quality=nan is not a correlation"),
    ],
)
def test_refusals(call, problem):
    v = bv.open(np.arange(126, dtype="u1").reshape(3, 6, 7))
    with pytest.raises(ValueError, match=problem):
        call(v)


def test_keypoints_need_scikit_image(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(ValueError, match=r"needs skimage: pip install 'beam-volumes\[align\]'"):
        bv.register_slices(np.zeros((3, 6, 7)), model="rigid", method="keypoints")


def test_a_report_of_tiles_is_refused_before_it_is_written(tmp_path):
    film = np.random.default_rng(0).random((40, 100), np.float32)
    tiles = [film[:, :60], film[:, 40:]]
    positions, pairs = bv.register_tiles(tiles, [(0, 0), (0, 40)])
    page = str(tmp_path / "tiles.html")
    with pytest.raises(
        TypeError, match="tiles_report: pairs=None is not a result of register_tiles"
    ):
        bv.tiles_report(page, tiles, positions, None)
    with pytest.raises(ValueError, match="positions has 2 rows for 1 tiles; give one for each"):
        bv.tiles_report(page, tiles[:1], positions, pairs)
    with pytest.raises(ValueError, match=r"does not end in .html"):
        bv.tiles_report(page[:-5], tiles, positions, pairs)
    assert not os.listdir(tmp_path)
    bv.tiles_report(page, tiles, positions, pairs)
    with pytest.raises(FileExistsError, match="give overwrite=True"):
        bv.tiles_report(page, tiles, positions, pairs)


def test_evidence_is_a_bound_of_the_probability_of_chance():
    """Of unrelated arrays, at most a share of exp(-e) have an evidence above e, for any spectrum."""
    from beam_volumes.ops.geometry.registration.images import evidence_of

    rng = np.random.default_rng(0)
    for shape, sigma in (((40, 40), 0), ((40, 40), 3), ((10, 90), 2), ((6, 20, 20), 1)):
        pairs = rng.normal(size=(300, 2, *shape))
        smooth = ndi.gaussian_filter(pairs, (0, 0, *(sigma,) * len(shape)))
        found = np.array([evidence_of(a, b, (a.var(), b.var())) for a, b in smooth])
        for e in (1.0, 2.0, 3.0):
            assert (found > e).mean() <= np.exp(-e), (shape, sigma, e)
        same = [evidence_of(a, a + b.std() * b / 5, (a.var(), b.var())) for a, b in smooth[:5]]
        assert min(same) > 14


def test_one_spot_is_no_evidence():
    from beam_volumes.ops.geometry.registration.images import evidence_of

    for n in (1, 4):
        spots = np.zeros((60, 60))
        spots[[20, 44, 12, 50][:n], [30, 8, 50, 40][:n]] = 1
        spots = ndi.gaussian_filter(spots, 2)
        found = evidence_of(spots, spots, (spots.var(),) * 2)
        assert (found > 14) == (n > 1)


NO_TRANSFORM = "may be chance|below min_quality|positive correlation|by more than"


@pytest.mark.parametrize("min_quality", [0.3, -1])
def test_no_negative_correlation_is_called_chance(min_quality):
    """Volumes of inverted contrast, and one without contrast."""
    a = ndi.gaussian_filter(np.random.default_rng(0).normal(size=(16, 24, 24)), 1)
    for other in (-a, 0 * a):
        with pytest.raises(
            ValueError, match="no transform gives the volumes a positive correlation"
        ):
            bv.register(a, other, max_shift=1, min_quality=min_quality)


@pytest.mark.parametrize("model", ["translation", "rigid", "affine"])
def test_images_that_do_not_match_have_no_transform(model):
    """Neither unrelated ones nor inverted or mirrored ones; no shift is beyond `max_shift`."""
    for seed in range(2):
        a, b = (tissue((96, 96), 6, 2 * seed + k).astype("f4") for k in (0, 1))
        for other in (b, 255 - a, a[:, ::-1], np.where(np.arange(96) < 48, 0, b)):
            with pytest.raises(ValueError, match=NO_TRANSFORM):
                bv.register(a, other, model=model, max_shift=10)
            table = bv.register_slices(np.stack([a, other]), model=model, max_shift=10)
            assert table["links"].to_pylist() == [0, 0]
            assert table["confirmed"].to_pylist() == [False, False]


def test_a_bad_slice_is_placed_between_its_neighbours():
    world = tissue((9, 140, 140), (4, 3, 3), 1)
    shifts = np.random.default_rng(0).integers(0, 12, (9, 2))
    good = np.stack([p[y : y + 120, x : x + 120] for p, (y, x) in zip(world, shifts, strict=True)])
    for bad in (255 - good[4], good[4, ::-1], good[4, :, ::-1], tissue((120, 120), 3, 7)):
        stack = good.copy()
        stack[4] = bad
        table = bv.register_slices(stack, reference=0)
        error = columns(table, "yx") - (shifts - shifts[0])
        assert abs(np.delete(error, 4, axis=0)).max() < 0.3
        between = columns(table, "yx")[[3, 5]].mean(axis=0)
        np.testing.assert_allclose(columns(table, "yx")[4], between, atol=1e-9)
        assert table["confirmed"].to_pylist() == [k != 4 for k in range(9)]


@pytest.mark.parametrize("limit", [3, 8.4])
def test_shifts_up_to_max_shift_are_found_and_none_beyond(limit):
    world = tissue((90, 110), 2)
    for shift in (3, 8):
        fixed, moving = world[:80, :90], world[:80, shift : shift + 90]
        for max_voxels in (1 << 21, 2000):
            call = partial(bv.register, fixed, moving, max_shift=limit, max_voxels=max_voxels)
            if shift <= limit:
                np.testing.assert_allclose(call()[:2, 2], (0, -shift), atol=0.3)
            else:
                with pytest.raises(ValueError, match=NO_TRANSFORM):
                    call()


@pytest.mark.parametrize("content", ["sparse", "periodic", "lattice", "empty"])
def test_tiles_with_weak_overlaps_are_not_worse_than_the_stage(content):
    rng = np.random.default_rng(1)
    side, step = 96, 80
    world = rng.normal(0, 1, (340, 340))
    if content == "sparse":
        world += ndi.gaussian_filter(1.0 * (rng.random(world.shape) < 5e-3), 2) * 25 * 200
    k = np.arange(340) * 2 * np.pi
    if content == "lattice":  # loops of links that are wrong by a period agree
        world = ndi.gaussian_filter(world, 2) * 60 + 80 * np.add.outer(np.sin(k / 7), np.sin(k / 8))
    if content == "periodic":
        world = world * 40 + 40 * np.add.outer(np.sin(k / 17), np.sin(k / 19))
    stage = np.array(list(itertools.product(range(4), repeat=2))) * step + 6
    true = stage + rng.integers(-6, 7, stage.shape)
    tiles = [world[y : y + side, x : x + side] for y, x in true]
    # Each exposure has its own noise.
    tiles = [(t + rng.normal(0, 40, t.shape)).astype("f4") for t in tiles]
    table, pairs = bv.register_tiles(tiles, stage, max_shift=12)

    def spread(places):
        return np.sqrt(((places - true - (places - true).mean(axis=0)) ** 2).sum())

    found, used = columns(table, "yx"), np.array(pairs["used"])
    assert spread(found) <= spread(stage) + 1e-6
    ends = np.stack([np.array(pairs[n]) for n in "ab"])
    error = columns(pairs, ["shift_y", "shift_x"]) - np.diff(true[ends], axis=0)[0]
    assert (abs(error[used]) < 1.5).all()
    alone = np.array(table["links"]) == 0
    np.testing.assert_allclose(found[alone], stage[alone], atol=1e-9)
    if content == "sparse":
        assert used.sum() > 8


def test_right_links_of_tiles_that_repeat_are_used():
    """Fractions of voxels show which of several periods is right, although all match well."""
    rng = np.random.default_rng(3)
    side, step, k = 160, 130, np.arange(320) * 2 * np.pi
    world = sum(tissue((320, 320), sigma, n) for n, sigma in enumerate((1.5, 4)))
    world = 0.2 * (world - world.mean()) / world.std()
    world = world + np.add.outer(np.sin(k / 9), np.sin(k / 11))
    stage = np.array(list(itertools.product(range(2), repeat=2))) * step + 10
    true = stage + rng.uniform(-4, 4, stage.shape)
    spline = ndi.spline_filter(world)
    tiles = [ndi.shift(spline, -p, prefilter=False)[:side, :side] for p in true]
    tiles = [(t + rng.normal(0, 0.02, t.shape)).astype("f4") for t in tiles]
    table, pairs = bv.register_tiles(tiles, stage, max_shift=8)
    ends = np.stack([np.array(pairs[n]) for n in "ab"])
    error = columns(pairs, ["shift_y", "shift_x"]) - np.diff(true[ends], axis=0)[0]
    used = np.array(pairs["used"])
    assert used.sum() >= 4 and (abs(error[used]) < 0.1).all()
    found = columns(table, "yx") - true
    assert abs(found - found.mean(axis=0)).max() < 0.1


def test_thin_overlaps_have_fractions_of_voxels():
    from beam_volumes.ops.geometry.registration.images import Link, refined

    planes, world = 5, tissue((40, 48, 48), 2).astype("f4")
    moved = ndi.shift(world.astype("f8"), (-0.4, 0.3, 0.2))[20 - planes :].astype("f4")
    start = Link.shifted(np.array([20 - planes, 0, 0]), 0.0)
    how = {"expected": start.shift, "min_overlap": 0.1}
    link = refined(world[:20], moved[:20], start, "translation", np.ones(3), (3, 3, 3), **how)
    assert link.is_refined
    np.testing.assert_allclose(link.shift, (20 - planes + 0.4, -0.3, -0.2), atol=0.1)


def links_of_grid(side, ndim, wrong, seed=0):
    """Links of neighbours in a grid, of which a share is wrong, with true and given places."""
    from beam_volumes.ops.geometry.registration.images import Link

    rng = np.random.default_rng(seed)
    index = np.array(list(itertools.product(range(side), repeat=ndim)))
    true = 100.0 * index + rng.uniform(-6, 6, index.shape)
    links, is_wrong = {}, {}
    for i, j in itertools.combinations(range(len(index)), 2):
        if abs(index[j] - index[i]).sum() == 1:
            is_wrong[i, j] = rng.random() < wrong
            shift = true[j] - true[i] + rng.normal(0, 0.1, ndim)
            if is_wrong[i, j]:
                shift += rng.choice([-1, 1], ndim) * rng.uniform(4, 20, ndim)
            how = rng.uniform(0.6, 0.9), rng.uniform(1e4, 1e5), rng.uniform(20, 60)
            links[i, j] = Link(np.eye(ndim), -shift, *how, points=np.zeros((ndim, 1)))
    return links, is_wrong, true, 100.0 * index


def placed_tiles(links, given, **how):
    from beam_volumes.ops.geometry.registration.links import placed

    how = {"model": "translation", "reference": None, "max_residual": 1.0} | how
    neighbours = [*links, *itertools.pairwise(range(len(given)))]
    return placed(links, given, neighbours, spacing=np.ones(given.shape[1]), **how)


@pytest.mark.parametrize("ndim", [2, 3])
@pytest.mark.parametrize("wrong", [0, 0.05, 0.2])
def test_wrong_links_of_many_tiles_are_left_out(ndim, wrong):
    """Loops of the right links outvote them, and no part of the tiles is worse than the stage."""
    from beam_volumes.ops.geometry.registration.links import connected

    side = 14 if ndim == 2 else 6
    links, is_wrong, true, given = links_of_grid(side, ndim, wrong)
    found = placed_tiles(links, given)
    assert not any(is_wrong[pair] for pair in found.used)
    assert len(found.used) >= (1 - 1.6 * wrong) * len(links)
    assert np.mean(found.confirmed_images) >= 1 - wrong
    groups = connected(found.used, len(given))
    change = ((found.places - true) ** 2 - (given - true) ** 2).sum(axis=1)
    assert (np.bincount(groups, change) <= 1e-9).all()
    alone = np.bincount(groups)[groups] == 1
    np.testing.assert_allclose(found.places[alone], given[alone], rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        [found.places[groups == k].mean(axis=0) for k in np.unique(groups)],
        [given[groups == k].mean(axis=0) for k in np.unique(groups)],
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize("reference", [None, 0])
@pytest.mark.parametrize("model", ["rigid", "affine"])
def test_wrong_links_of_matrices_are_left_out(model, reference):
    links, is_wrong, _, given = links_of_grid(7, 2, 0.1)
    links = {
        p: replace(link, points=np.array([[0.0, 90, 0], [0, 0, 90]])) for p, link in links.items()
    }
    found = placed_tiles(links, given, model=model, reference=reference)
    assert not any(is_wrong[pair] for pair in found.used)
    assert len(found.used) >= 0.7 * len(links)
    assert abs(found.matrices - np.eye(2)).max() < 0.02


def links_of_slices(count, wrong, turned, model):
    """Links of each slice with the next three, of which a share is wrong, with the true matrices."""
    from beam_volumes.ops.geometry.registration.images import Link
    from beam_volumes.ops.geometry.registration.links import corners

    rng = np.random.default_rng(0)
    points = corners([(0, 63), (0, 63)])
    middle = points.mean(axis=1)
    angles = (
        np.cumsum(rng.normal(0, 0.03, count)) if turned == "slowly" else rng.uniform(-3, 3, count)
    )
    true = np.stack([turn(a) for a in angles])
    if model == "affine":
        true = true @ (np.eye(2) + rng.normal(0, 0.02, (count, 2, 2)))
    places = rng.uniform(-8, 8, (count, 2)) + middle - true @ middle
    links, is_wrong = {}, {}
    for i, j in ((k, k + n) for k in range(count) for n in range(1, min(4, count - k))):
        is_wrong[i, j] = rng.random() < wrong
        error = turn(rng.uniform(-0.3, 0.3) if is_wrong[i, j] else rng.normal(0, 0.003))
        shift = rng.normal(0, 0.1, 2)
        if is_wrong[i, j]:
            shift += rng.choice([-1, 1], 2) * rng.uniform(4, 30, 2)
        back = np.linalg.inv(true[j])
        offset = error @ (back @ (true[i] @ middle + places[i] - places[j]) - middle) + middle
        matrix = error @ back @ true[i]
        offset = offset + shift - matrix @ middle
        links[i, j] = Link(matrix, offset, 0.8, 4e3, 40.0, points=points)
    return links, is_wrong, true


@pytest.mark.parametrize("turned", ["slowly", "anyhow"])
@pytest.mark.parametrize("wrong", [0.02, 0.1])
@pytest.mark.parametrize("model", ["rigid", "affine"])
def test_wrong_links_of_many_slices_are_left_out(model, wrong, turned, monkeypatch):
    """Slices far from the reference keep their size, and few solutions are enough."""
    from beam_volumes.ops.geometry.registration import links as solver

    solutions, solved = [], solver._Equations.solved
    monkeypatch.setattr(
        solver._Equations, "solved", lambda *a, **b: solutions.append(0) or solved(*a, **b)
    )
    count = 2000
    links, is_wrong, true = links_of_slices(count, wrong, turned, model)
    found = placed_tiles(links, np.zeros((count, 2)), model=model, reference=count // 2)
    assert len(solutions) <= 40
    used = set(found.used)
    # A link with errors of all kinds that are small may be used.
    assert sum(is_wrong[pair] for pair in used) <= 0.02 * sum(is_wrong.values())
    assert sum(not is_wrong[pair] for pair in used) >= 0.97 * (len(links) - sum(is_wrong.values()))
    np.testing.assert_allclose(found.matrices[count // 2], np.eye(2), rtol=0, atol=1e-15)
    sizes = np.linalg.det(found.matrices)
    if model == "rigid":
        np.testing.assert_allclose(sizes, 1, rtol=0, atol=1e-12)
    else:
        assert 0.3 < sizes.min() < sizes.max() < 3
    # The turns between neighbours are those of the truth.
    between = np.linalg.inv(found.matrices[:-1]) @ found.matrices[1:]
    wanted = np.linalg.inv(true[:-1]) @ true[1:]
    assert np.median(abs(between - wanted)) < 0.005


@pytest.mark.parametrize("ndim", [2, 3])
def test_rotations_of_inaccurate_links_are_least_squares(ndim):
    """The sum of squares is not above that of the true matrices, and a further solution changes nothing."""
    from beam_volumes.ops.geometry.registration.images import Link
    from beam_volumes.ops.geometry.registration.links import _Equations, _rotations, _skew, corners

    count, rng, points = 500, np.random.default_rng(0), corners([(0, 63)] * ndim)

    def turns(number, size):
        angles = rng.normal(0, size, (number, len(_skew(ndim))))
        return _rotations(np.einsum("kab,nk->nab", _skew(ndim), angles))

    true, middle = turns(count, 0.1), points.mean(axis=1)
    true[count // 2] = np.eye(ndim)
    places, links = rng.uniform(-8, 8, (count, ndim)), {}
    pairs = [(i, j) for i in range(count) for j in (i + 1, i + 2) if j < count]
    for (i, j), error in zip(pairs, turns(len(pairs), 0.06), strict=True):
        matrix = error @ true[j].T @ true[i]
        there = true[j].T @ (true[i] @ middle + places[i] - places[j]) + rng.normal(0, 0.1, ndim)
        links[i, j] = Link(matrix, there - matrix @ middle, 0.8, 4e3, 40.0, points=points)
    neighbours = list(itertools.pairwise(range(count)))
    args = np.zeros((count, ndim)), neighbours, "rigid", count // 2, np.ones(ndim)
    system = _Equations.of(links, *args)

    def squares(matrices, positions):
        i, j = np.array(pairs).T
        here = matrices[i] @ system.points + positions[i][:, :, None]
        return ((here - matrices[j] @ system.there - positions[j][:, :, None]) ** 2).sum()

    matrices, found, _ = solved = system.solved(system.weights)
    every = np.arange(len(pairs))
    of_truth = system._places(every, system.weights, true, found, 1e-9)
    assert squares(matrices, found) < 0.6 * squares(true, of_truth)
    again = system.solved(system.weights, solved)
    np.testing.assert_allclose(again[0], matrices, rtol=0, atol=1e-6)


@pytest.mark.parametrize("spacing", [(10.0, 1.0), (0.1, 1.0), (10.0, 1.0, 1.0), (1.0, 3.0, 0.2)])
def test_rotations_do_not_depend_on_the_reference(spacing):
    """Also with voxels of different sizes: images move relative to each other by the same transforms."""
    from beam_volumes.ops.geometry.registration.images import Link
    from beam_volumes.ops.geometry.registration.links import _Equations, _rotations, _skew, corners

    count, ndim, rng = 12, len(spacing), np.random.default_rng(0)
    size = np.array(spacing)
    points = corners([(0, 63 / one) for one in size / size.min()])
    middle = points.mean(axis=1)

    def turns(number, deviation):
        angles = rng.normal(0, deviation, (number, len(_skew(ndim))))
        found = _rotations(np.einsum("kab,nk->nab", _skew(ndim), angles))
        return found / size[:, None] * size

    true, places, links = turns(count, 1.0), rng.uniform(-8, 8, (count, ndim)), {}
    pairs = [(i, j) for i in range(count) for j in (i + 1, i + 2, i + 5) if j < count]
    for (i, j), error in zip(pairs, turns(len(pairs), 0.03), strict=True):
        back = np.linalg.inv(true[j])
        there = back @ (true[i] @ middle + places[i] - places[j]) + rng.normal(0, 0.1, ndim)
        matrix = error @ back @ true[i]
        links[i, j] = Link(matrix, there - matrix @ middle, 0.8, 4e3, 40.0, points=points)
    between = []
    for fixed in (0, 7):
        args = list(itertools.pairwise(range(count))), "rigid", fixed, size
        system = _Equations.of(links, np.zeros((count, ndim)), *args)
        matrices, _, _ = system.solved(system.weights)
        np.testing.assert_allclose(matrices[fixed], np.eye(ndim), rtol=0, atol=1e-14)
        between.append((np.linalg.inv(matrices[:-1]) @ matrices[1:]) * size[:, None] / size)
    np.testing.assert_allclose(*between, rtol=0, atol=1e-5)


@pytest.mark.parametrize("reference", [None, 2])
@pytest.mark.parametrize("size", [None, (1.0, 10.0, 1.0)])
def test_slices_are_not_moved_by_links_that_all_contradict_each_other(size, reference):
    """All residuals are similar, from 2 to 40 voxels."""
    from beam_volumes.ops.geometry.registration.sequences import ImagePairs

    how = {"method": "intensity", "neighbours": 3, "skip": (), "max_shift": None}
    moved = []
    for count in (3, 5, 10):
        pairs = ImagePairs.of(
            "register_slices", "z", ("y", "x"), count, (64, 64), 1, size,
            model="rigid", reference=reference, min_quality=0.3, **how,
        )  # fmt: skip
        for seed in range(4):
            rng, links = (
                np.random.default_rng(seed),
                links_of_slices(count, 0, "slowly", "rigid")[0],
            )
            for pair, link in links.items():
                angle = rng.uniform(-0.3, 0.3)
                wrong = np.array(turn(angle)) / pairs.spacing[:, None] * pairs.spacing
                shift = rng.choice([-1, 1], 2) * rng.uniform(4, 30, 2)
                middle = np.full(2, 31.5)
                links[pair] = replace(link, matrix=wrong, offset=middle + shift - wrong @ middle)
            table = pairs.solved(links)
            if any(table["confirmed"].to_pylist()):
                moved.append((count, seed))
                continue
            assert not any(table["links"].to_pylist())
            np.testing.assert_allclose([table[c].to_numpy() for c in "yx"], 0, rtol=0, atol=1e-9)
    assert len(moved) <= 1, moved  # some links agree by chance


@pytest.mark.parametrize("kind", ["jitter", "drift"])
@pytest.mark.parametrize("model", ["translation", "rigid", "affine"])
def test_groups_of_slices_without_links_between_them_do_not_add_up_errors(model, kind):
    """Groups of slices that jitter have the same mean; slices that drift continue after a gap."""
    from beam_volumes.ops.geometry.registration.images import Link
    from beam_volumes.ops.geometry.registration.sequences import ImagePairs

    how = {"method": "intensity", "neighbours": 3, "skip": (), "max_shift": None}
    count, gaps = 60, (12, 24, 36, 48)
    pairs = ImagePairs.of(
        "register_slices", "z", ("y", "x"), count, (64, 64), 1, None,
        model=model, reference=None, min_quality=0.3, **how,
    )  # fmt: skip
    points = np.array(list(itertools.product((0, 63), repeat=2))).T
    ours, still = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        angles, middles = rng.normal(0, 0.05, count), rng.normal(0, 5, (count, 2))
        if kind == "drift":
            angles, middles = np.cumsum(angles / 5), np.cumsum(middles / 5, axis=0)
        true = np.stack([turn(0 if model == "translation" else a) for a in angles])
        places = middles - true @ [31.5, 31.5]
        links = {}
        for i, j in ((k, k + n) for k in range(count) for n in range(1, min(4, count - k))):
            if not any(i < gap <= j for gap in gaps):
                back = np.linalg.inv(true[j])
                offset = back @ (places[i] - places[j])
                links[i, j] = Link(back @ true[i], offset, 0.8, 4e3, 40.0, points=points)
        table = pairs.solved(links)
        found = np.array([columns(table, [f"m_{a}{b}" for b in "yx"]) for a in "yx"]).swapaxes(0, 1)
        at = [m @ points + p[..., None] for m, p in ((true, places), (found, columns(table, "yx")))]
        flat = [a.swapaxes(0, 1).reshape(2, -1).T for a in (*at, np.tile(points, (count, 1, 1)))]
        whole = np.c_[flat[0], np.ones(len(flat[0]))]
        left = [f - whole @ np.linalg.lstsq(whole, f, rcond=None)[0] for f in flat[1:]]
        errors = [(e**2).sum(axis=1).mean() for e in left]
        ours, still = [*ours, errors[0]], [*still, errors[1]]
    assert np.mean(ours) < (0.4 if kind == "jitter" else 0.2) * np.mean(still)


@pytest.mark.parametrize("kind", ["jitter", "drift"])
def test_groups_of_three_slices_that_drift_continue_after_a_gap(kind):
    """Means of whole groups would remove the drift between groups, and only help slices that jitter."""
    from beam_volumes.ops.geometry.registration.images import Link
    from beam_volumes.ops.geometry.registration.sequences import ImagePairs

    how = {"method": "intensity", "neighbours": 3, "skip": (), "max_shift": None}
    count = 60
    pairs = ImagePairs.of(
        "register_slices", "z", ("y", "x"), count, (64, 64), 1, None,
        model="translation", reference=None, min_quality=0.3, **how,
    )  # fmt: skip
    points = np.array(list(itertools.product((0, 63), repeat=2))).T
    rng = np.random.default_rng(1)
    places = (
        rng.normal(0, 2, (count, 2))
        if kind == "jitter"
        else np.outer(np.arange(count), (0.3, -0.2))
    )
    links = {
        (i, j): Link(np.eye(2), places[i] - places[j], 0.8, 4e3, 40.0, points=points)
        for i, j in itertools.combinations(range(count), 2)
        if i // 3 == j // 3
    }
    table = pairs.solved(links)
    error = columns(table, "yx") - places
    still = places.std(axis=0).mean()
    assert error.std(axis=0).mean() < (0.8 if kind == "jitter" else 0.5) * still


def test_links_that_contradict_each_other_are_not_used_alone():
    """Which of three links of a loop is wrong is unknown; a link outside of loops is used."""
    from beam_volumes.ops.geometry.registration.images import Link

    def link(shift, evidence):
        return Link(np.eye(1), -np.array([shift]), 0.9, 100.0, evidence, points=np.zeros((1, 1)))

    given = np.arange(6)[:, None] * 10.0
    good = {
        (2, 3): link(9.0, 20),
        (3, 4): link(10.0, 20),
        (4, 5): link(10.0, 20),
        (3, 5): link(20.0, 20),
    }
    loop = {(0, 1): link(11.0, 50), (1, 2): link(11.0, 50), (0, 2): link(14.0, 50)}
    found = placed_tiles(good | loop, given)
    assert set(found.used) == set(good)
    assert found.confirmed_images == [False, False, False, True, True, True]
    np.testing.assert_allclose(found.places.ravel(), [0, 10, 20.75, 29.75, 39.75, 49.75])
    # A link that may be chance contradicts nothing.
    found = placed_tiles(good | loop | {(0, 2): link(14.0, 10)}, given)
    assert set(found.used) == {*good, (0, 1), (1, 2)}
    for model in ("translation", "rigid", "affine"):
        found = placed_tiles({}, given, model=model)
        assert found.used == ()
        np.testing.assert_array_equal(found.places, given)


def test_one_loop_that_contradicts_itself_leaves_the_stage():
    links, _, _, given = links_of_grid(2, 2, 0)
    assert len(placed_tiles(links, given).used) == 4
    for pair, link in links.items():
        wrong = links | {pair: replace(link, offset=link.offset + 9)}
        found = placed_tiles(wrong, given)
        assert found.used == ()
        np.testing.assert_array_equal(found.places, given)


def test_links_that_may_be_chance_are_used_if_loops_of_different_structures_close():
    links, _, true, given = links_of_grid(3, 2, 0)
    reach = np.full(2, 12.0)

    def error(places):
        return abs(places - true - (places - true).mean(axis=0)).max()

    assert placed_tiles({p: replace(k, evidence=-3.0) for p, k in links.items()}, given).used == ()
    rng = np.random.default_rng(1)
    world = rng.uniform(0, 90, (len(links), 2))
    weak = {
        pair: replace(link, evidence=-3.0, feature=world[n])
        for n, (pair, link) in enumerate(links.items())
    }
    found = placed_tiles(weak, given, reach=reach, separation=20.0)
    assert set(found.used) == found.confirmed == set(links)
    assert error(found.places) < 0.3
    # A link that is wrong closes no loop, and is not used.
    pair = next(iter(links))
    wrong = weak | {pair: replace(weak[pair], offset=weak[pair].offset + 4)}
    found = placed_tiles(wrong, given, reach=reach, separation=20.0)
    assert pair not in found.used and len(found.used) >= 8
    # Links of one structure in each image always close.
    same = {}
    for (i, j), link in links.items():
        same[i, j] = replace(link, evidence=-3.0, feature=150.0 - given[i])
    found = placed_tiles(same, given, reach=reach, separation=20.0)
    assert found.used == ()
    np.testing.assert_array_equal(found.places, given)


def test_unrelated_links_rarely_close_loops():
    """Less than one in a thousand of them is used, although a link is in many loops."""
    from beam_volumes.ops.geometry.registration.images import Link

    rng = np.random.default_rng(2)
    index = np.array(list(itertools.product(range(4), repeat=2)))
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(len(index)), 2)
        if abs(index[j] - index[i]).max() == 1
    ]
    used, count = 0, 0
    for _ in range(120):
        links = {}
        for i, j in pairs:
            shift = 50.0 * (index[j] - index[i]) + rng.uniform(-3, 3, 2)
            links[i, j] = Link(
                np.eye(2),
                -shift,
                0.5,
                500.0,
                evidence=-2.0,
                feature=rng.uniform(0, 60, 2),
                points=np.zeros((2, 1)),
            )
        found = placed_tiles(links, 50.0 * index, reach=np.full(2, 3.0), separation=15.0)
        used, count = used + len(found.used), count + len(links)
    assert used < 0.002 * count


def test_links_in_whole_voxels_need_evidence():
    """Loops of whole numbers close by chance."""
    rng = np.random.default_rng(4)
    stage = np.array(list(itertools.product(range(3), repeat=2))) * 40
    for _ in range(4):
        tiles = [rng.normal(100, 5, (42, 42)).astype("f4") for _ in stage]
        table, _ = bv.register_tiles(tiles, stage, max_shift=1.5, min_quality=0.1, subvoxel=False)
        assert not any(table["links"].to_pylist())


def test_loops_of_links_that_are_wrong_by_one_period_are_not_used():
    rng = np.random.default_rng(13)
    side, step, period = 90, 66, 42.0
    y, x = np.mgrid[:330, :330].astype("f8")
    turns = (0, np.pi / 3, 2 * np.pi / 3)
    world = sum(np.cos(2 * np.pi / period * (x * np.cos(a) + y * np.sin(a))) for a in turns)
    world += 0.1 * rng.normal(size=world.shape)
    true = np.array(list(itertools.product(range(4), repeat=2))) * step
    tiles = [world[i : i + side, j : j + side] for i, j in true]
    tiles = [(t + 0.1 * rng.normal(size=t.shape)).astype("f4") for t in tiles]
    stage = true + rng.uniform(-18, 18, true.shape)
    _, pairs = bv.register_tiles(tiles, stage, max_shift=40)
    ends = np.stack([np.array(pairs[n]) for n in "ab"])
    error = columns(pairs, ["shift_y", "shift_x"]) - np.diff(true[ends], axis=0)[0]
    assert (abs(error[np.array(pairs["used"])]) < 0.5).all()


@pytest.mark.filterwarnings("ignore:register_tiles. no link")
@pytest.mark.parametrize(
    "side, overlap, period, noise",
    [(64, 10, 14.2, 0.01), (96, 14, 16.0, 0.05), (64, 15, 19.8, 0.2), (64, 16, 24.0, 0.0)],
)
def test_no_link_of_a_lattice_is_wrong_by_a_period(side, overlap, period, noise):
    """Overlaps are narrower than a period, and shifts may be larger."""
    rng = np.random.default_rng(6)
    limit, sigma = 0.4 * period, period / 7
    stage = np.array(list(itertools.product(range(2), repeat=2))) * float(side - overlap)
    spots = period * np.mgrid[-5:20, -5:20].reshape(2, -1).T
    for angle in (0.0, 0.7):
        true = stage + rng.uniform(-limit, limit, stage.shape)
        world = spots @ np.array(turn(angle))
        tiles = []
        for place in true:
            away = np.arange(side) - (world - place)[:, :, None]
            profiles = np.exp(-0.5 * (away / sigma) ** 2)
            tile = np.einsum("ny,nx->yx", profiles[:, 0], profiles[:, 1])
            tiles.append((tile + noise * rng.normal(size=tile.shape)).astype("f4"))
        _, pairs = bv.register_tiles(tiles, stage, max_shift=2 * limit)
        ends = np.stack([np.array(pairs[n]) for n in "ab"])
        error = columns(pairs, ["shift_y", "shift_x"]) - np.diff(true[ends], axis=0)[0]
        assert (abs(error[np.array(pairs["used"])]) < 1).all()


@pytest.mark.filterwarnings("ignore:register_tiles. no link")
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_structures_along_one_axis_do_not_link_blocks(noise):
    """Noise, or rounding errors, would decide shifts along the other axes."""
    stage = np.array([(0, y, x) for y in (0, 26) for x in (0, 26)], float)
    for seed, axis in itertools.product(range(3), range(3)):
        rng = np.random.default_rng([seed, axis])
        true = stage + rng.uniform(-0.8, 0.8, stage.shape)
        tiles = []
        for place in true:
            line = np.cos(2 * np.pi / 13 * (np.arange((18, 40, 40)[axis]) + place[axis]))
            tile = np.zeros((18, 40, 40)) + np.expand_dims(line, [a for a in range(3) if a != axis])
            tiles.append((tile + noise * rng.normal(size=tile.shape)).astype("f4"))
        table, _ = bv.register_tiles(tiles, stage, max_shift=2)
        assert not any(table["links"].to_pylist())


@pytest.mark.parametrize("shape", [(48, 96), (24, 24, 56)])
@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_oversampled_structures_vary_along_all_axes(shape, noise):
    """Slopes along one axis are a tenth of the others, and much smaller than noise."""
    from beam_volumes.ops.geometry.registration.images import _vary_along_all

    rng = np.random.default_rng(len(shape))
    wide = rng.random(tuple(n + 60 for n in shape))
    smooth = ndi.gaussian_filter(wide, (15, *(1.5 for _ in shape[1:])))
    smooth = smooth[tuple(slice(30, 30 + n) for n in shape)]
    smooth = (smooth - smooth.mean()) / smooth.std()
    a, b = ((smooth + noise * rng.normal(size=shape) + 1e4).astype("f4") for _ in range(2))
    for inside in (np.ones(shape, bool), rng.random(shape) > 0.1):
        assert _vary_along_all(np.where(inside, a, np.nan), b, inside)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(48, 96), (24, 24, 56)])
@pytest.mark.parametrize("direction", [(1, 0, 0), (0, 1, 0), (1, 0.6, 0.35), (0.2, -1, 0.5)])
def test_stripes_of_any_direction_vary_along_one(shape, direction, noise):
    """Also where a mask cuts them off, or voxels are missing."""
    from beam_volumes.ops.geometry.registration.images import _vary_along_all

    rng = np.random.default_rng(1)
    at = sum(n * c for n, c in zip(np.indices(shape), direction, strict=False))
    profile = ndi.gaussian_filter(rng.random(600), 2)
    stripes = np.interp(at, np.arange(600) - 300, profile / profile.std())
    a, b = ((stripes + noise * rng.normal(size=shape)).astype("f4") for _ in range(2))
    masked = np.ones(shape, bool)
    masked[tuple(slice(n // 3, n) for n in shape)] = False
    for inside in (np.ones(shape, bool), masked, rng.random(shape) > 0.02):
        assert not _vary_along_all(np.where(inside, a, np.nan), b, inside)


def test_large_blocks_of_tiles_are_solved_iteratively(monkeypatch):
    from beam_volumes.ops.geometry.registration import links as solver

    links, _, _, given = links_of_grid(6, 3, 0.1)
    direct = placed_tiles(links, given)
    monkeypatch.setattr(solver, "_MAX_DISTANCE", 3)
    iterated = placed_tiles(links, given)
    assert iterated.used == direct.used
    np.testing.assert_allclose(iterated.places, direct.places, rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", ["translation", "rigid", "affine"])
def test_long_stacks_are_solved_as_bands(model, monkeypatch):
    """With some links at a time; equations that rounding makes singular have other factors."""
    from beam_volumes.ops.geometry.registration import links as solver

    def singular(*_, **how):
        raise np.linalg.LinAlgError

    links = links_of_slices(200, 0.05, "slowly", model)[0]
    how = {"model": model, "reference": 90}
    direct = placed_tiles(links, np.zeros((200, 2)), **how)
    monkeypatch.setattr(solver, "_LINKS_AT_ONCE", 50)
    for large, factors in ((1000, None), (1, solver.cholesky_banded), (1, singular)):
        monkeypatch.setattr(solver, "_MIN_LARGE", large)
        monkeypatch.setattr(solver, "cholesky_banded", factors)
        found = placed_tiles(links, np.zeros((200, 2)), **how)
        assert found.used == direct.used and len(found.used) > 100
        np.testing.assert_allclose(found.matrices, direct.matrices, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.places, direct.places, rtol=0, atol=1e-6)


@pytest.mark.parametrize("large", [1, 1 << 12])
def test_neighbours_without_links_are_placed_without_rounding_errors(large, monkeypatch):
    """Their small weights decide most places of a stack with few links, where all equations agree."""
    from beam_volumes.ops.geometry.registration import links as solver
    from beam_volumes.ops.geometry.registration.images import Link

    monkeypatch.setattr(solver, "_MIN_LARGE", large)
    rng = np.random.default_rng(3)
    true = np.cumsum(rng.uniform(-8, 8, (1000, 2)), axis=0)
    links = {
        (i, i + n): Link(np.eye(2), true[i] - true[i + n], 0.8, 4e3, 40.0, points=np.zeros((2, 1)))
        for i in range(1000)
        for n in (1, 2, 3)
        if i + n < 1000 and rng.random() < 0.4
    }
    found = placed_tiles(links, true, reference=0)
    assert len(found.used) > 1000
    np.testing.assert_allclose(found.places, true, rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", ["translation", "rigid", "affine"])
@pytest.mark.parametrize("reference", [None, 9])
def test_links_that_are_not_numbers_are_not_solved(reference, model):
    """All transforms would be NaN, all links would seem to agree, or equations would be singular."""
    links = links_of_slices(20, 0.05, "slowly", model)[0]
    nothing = np.full(2, np.nan)
    for wrong in (
        {"quality": np.nan},
        {"quality": np.inf},
        {"offset": nothing},
        {"voxels": np.inf},
    ):
        given = links | {(3, 4): replace(links[3, 4], **wrong)}
        found = placed_tiles(given, np.zeros((20, 2)), model=model, reference=reference)
        assert (3, 4) not in found.used and len(found.used) > 40
        assert [pair for pair, r in found.residuals.items() if np.isnan(r)] == [(3, 4)]
        assert np.isfinite(found.matrices).all() and np.isfinite(found.places).all()


def test_whole_shifts_of_tiles_are_whole_and_copied():
    """With a reference at its place, and whole voxels: the fused tiles are the world, not blurred."""
    world = tissue((150, 190), 2).astype("f4")
    true = np.array([(3, 4), (5, 73), (62, 2), (64, 76)])
    tiles = [world[y : y + 84, x : x + 100] for y, x in true]
    stage = np.array([(4, 3), (4, 75), (60, 3), (66, 76)])
    table, _ = bv.register_tiles(tiles, stage, max_shift=6)
    np.testing.assert_allclose(columns(table, "yx").mean(axis=0), stage.mean(axis=0), atol=1e-9)
    for k in range(4):
        table, _ = bv.register_tiles(tiles, stage, max_shift=6, reference=k)
        np.testing.assert_array_equal(columns(table, "yx")[k], stage[k])
        np.testing.assert_allclose(columns(table, "yx") - stage[k], true - true[k], atol=0.1)
    table, _ = bv.register_tiles(tiles, stage, max_shift=6, reference=1, subvoxel=False)
    np.testing.assert_array_equal(columns(table, "yx") - stage[1], true - true[1])
    table, _ = bv.register_tiles(tiles, stage, max_shift=6, subvoxel=False)
    found = columns(table, "yx")
    np.testing.assert_array_equal(found - found[0], true - true[0])
    # A tile without links is not rounded, but shifted with the reference.
    last = np.full_like(tiles[0], 7)
    given = np.array([*stage + 0.2, (90.7, 200.4)])
    with pytest.warns(UserWarning, match="no link for 1 of 5 tiles"):
        loose = bv.register_tiles([*tiles, last], given, max_shift=6, subvoxel=False)[0]
    np.testing.assert_array_equal(columns(loose, "yx")[4], given[4])
    np.testing.assert_array_equal(columns(loose, "yx")[:4] % 1, 0)
    with pytest.warns(UserWarning, match="except for the shift of all tiles"):
        both = [
            bv.register_tiles([*tiles, last], given, max_shift=6, reference=1, subvoxel=s)[0]
            for s in (True, False)
        ]
    np.testing.assert_array_equal(*(columns(b, "yx")[4] for b in both))
    fused = np.asarray(bv.fuse(tiles, table))
    rows, cols = 64 + 84 - 3, 76 + 100 - 2
    inner = fused[5:60, 5:170], world[3:148, 2:176][5:60, 5:170]
    assert fused.shape == (rows, cols)
    np.testing.assert_allclose(*inner, rtol=1e-5)


def test_pairs_beyond_max_shift_keep_their_quality_and_tiles_without_links_a_warning():
    world = tissue((60, 200), 2)
    tiles, stage = [world[:, :100], world[:, 70:170]], [(0, 0), (0, 79)]
    with pytest.warns(UserWarning, match="no link for 2 of 2 tiles, .* positions: 0, 1;"):
        table, pairs = bv.register_tiles(tiles, stage, max_shift=5)
    np.testing.assert_array_equal(columns(table, "yx"), stage)
    assert pairs["used"].to_pylist() == [False]
    table, pairs = bv.register_tiles(tiles, stage, max_shift=9)
    np.testing.assert_allclose(np.diff(columns(table, "yx"), axis=0), [(0, 70)], atol=0.1)
    assert pairs["used"].to_pylist() == [True] and pairs["confirmed"].to_pylist() == [False]


def test_steps_of_refinement_have_their_own_exponential():
    """`scipy.linalg.expm` took most of the time of rigid and affine registrations."""
    import scipy.linalg

    from beam_volumes.ops.geometry.registration.images import _exponential

    rng = np.random.default_rng(0)
    for scale in (0, 1e-9, 1e-3, 0.3, 5):
        for n in (2, 3):
            change = scale * rng.normal(size=(n, n))
            np.testing.assert_allclose(
                _exponential(change), scipy.linalg.expm(change), rtol=1e-9, atol=1e-12
            )


@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
def test_the_shape_of_missing_voxels_is_not_aligned(missing):
    """Outside a round field of view, and at pixels that are broken; both stay where they are."""
    world = tissue((110, 120), 2) + 1000.0
    a, b = world[:100, :110], world[4:104, 3:113]
    field = np.hypot(*(np.indices(a.shape) - np.array([50, 55])[:, None, None])) < 40
    broken = np.random.default_rng(0).random(a.shape) > 0.01
    for seen in (field, broken):
        near, far = (np.where(seen, x, missing) for x in (a, b))
        np.testing.assert_allclose(bv.register(near, far)[:2, 2], (-4, -3), atol=0.2)
        table = bv.register_slices(np.stack([near, far]), reference=0)
        np.testing.assert_allclose(columns(table, "yx")[1], (4, 3), atol=0.2)
        table, _ = bv.register_tiles([near, far], [(0, 0), (2, 2)], max_shift=6)
        np.testing.assert_allclose(np.diff(columns(table, "yx"), axis=0), [(4, 3)], atol=0.2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "scale"), [("u8", 2.0**63), ("f4", 1e30), ("f4", 1e-7), ("f4", 1e-30)]
)
def test_large_and_small_values_are_aligned_like_others(dtype, scale):
    """Also where the shift has fractions, and the volumes have a gain and an offset."""
    world = tissue((140, 160), 4)
    world = (world - world.min()) / np.ptp(world) * scale
    near, far = world[:120, :140:2][::2], (world[5:125, 3:143:2][::2] / 2 + scale / 3)
    near, far = near.astype(dtype), far.astype(dtype)
    np.testing.assert_allclose(bv.register(near, far)[:2, 2], (-2.5, -1.5), atol=0.05)
    table = bv.register_slices(np.stack([near, far]), reference=0)
    np.testing.assert_allclose(columns(table, "yx")[1], (2.5, 1.5), atol=0.05)
    table, _ = bv.register_tiles([near, far], [(0, 0), (2, 2)], max_shift=6)
    np.testing.assert_allclose(np.diff(columns(table, "yx"), axis=0), [(2.5, 1.5)], atol=0.05)


def test_zeros_are_voxels_and_missing_ones_are_nan():
    """As documented: a border of zeros around an image with an offset is aligned, and one of NaN is not."""
    world = 1000 + 5 * tissue((100, 100), 2)
    slices = np.stack([world[10 + y : 74 + y, 10 + x : 74 + x] for y, x in ((0, 0), (3, -2))])
    slices[:, :12] = 0
    found = columns(bv.register_slices(slices, reference=0), "yx")
    assert abs(found[1] - (3, -2)).max() > 1
    marked = np.where(bv.open(slices) == 0, np.nan, slices)
    found = columns(bv.register_slices(marked, reference=0), "yx")
    np.testing.assert_allclose(found[1], (3, -2), atol=0.2)


def damaged(kind, image, k, rng):
    """An image that has lost a part, and where it is valid."""
    rows, cols = np.indices(image.shape)
    middle = np.array(image.shape)[:, None, None] / 2
    valid = np.ones(image.shape, bool)
    if kind == "half":
        valid = (rows >= len(image) // 2) | (k % 2 == 0)
    elif kind == "torn":
        tear = rows - 0.4 * cols - 10 * np.sin(cols / 15 + k)
        valid = abs(tear - 25 - 20 * (k % 3)) > 7
    elif kind == "saturated":
        for spot in rng.uniform(0, 100, (8, 2, 1, 1)):
            valid &= np.hypot(*(np.indices(image.shape) - spot)) > rng.uniform(5, 12)
    elif kind == "same outline":
        valid = np.hypot(*(np.indices(image.shape) - middle)) < 46
    return np.where(valid, image, 255 if kind == "saturated" else 0).astype("u1"), valid


def damaged_images(kind, count=4, seed=0):
    """Images of one world at unknown positions, each with noise and a lost part."""
    rng = np.random.default_rng(seed)
    world = ndi.spline_filter(tissue((190, 200), 2.5, seed))
    shifts = rng.uniform(-6, 6, (count, 2))
    images, masks = [], []
    for k, shift in enumerate(shifts):
        image = ndi.affine_transform(
            world, np.eye(2), shift + 40, (110, 112), order=3, prefilter=False
        )
        image = (image + rng.normal(0, 6, image.shape)).clip(1, 254).round()
        image, valid = damaged(kind, image, k, rng)
        images.append(image)
        masks.append(valid)
    return images, masks, shifts


def error_of(table, shifts):
    error = columns(table, "yx") - shifts
    return abs(error - np.median(error, axis=0)).max()


@pytest.mark.parametrize("kind", ["half", "torn", "saturated", "same outline"])
def test_tiles_are_registered_by_their_valid_voxels(kind):
    """Within 0.1 voxels; without masks, no link of a half black tile would be found."""
    images, masks, shifts = damaged_images(kind)
    where = np.zeros((4, 2))
    table, pairs = bv.register_tiles(images, where, max_shift=14, mask=masks)
    assert error_of(table, shifts) < 0.1 and all(pairs["used"].to_pylist())
    nodata = 255 if kind == "saturated" else 0
    again, _ = bv.register_tiles(images, where, max_shift=14, nodata=nodata)
    assert again.to_pydict() == table.to_pydict()
    marked = [np.where(m, i, np.float32(np.nan)) for m, i in zip(masks, images, strict=True)]
    again, _ = bv.register_tiles(marked, where, max_shift=14)
    assert again.to_pydict() == table.to_pydict()


def masks_with_a_pattern(shape):
    """For each pattern, the masks of two tiles."""
    rng = np.random.default_rng(1)
    y, x = np.indices(shape)
    periodic = {
        "blocks of 12": (y // 12 + x // 12) % 2 == 0,
        "blocks of 6": (y // 6 + x // 6) % 2 == 0,
        "grid": (y % 6 > 0) & (x % 6 > 0),
        "spots": (y % 8 < 3) & (x % 8 < 3),
        "chessboard": (y + x) % 2 == 0,
        "every second row": y % 2 > 0,
        "every third row": y % 3 > 0,
        "every fourth column": x % 4 > 0,
        "one row of three": y % 3 == 0,
    }
    scattered = {
        f"{percent} %": [rng.random(shape) * 100 > percent for _ in range(2)]
        for percent in (10, 25, 30, 50, 70, 90)
    }
    return {name: [mask, mask] for name, mask in periodic.items()} | scattered


#: Too few voxels are valid in both tiles, or between valid ones.
UNUSABLE = {"spots", "one row of three", "70 %", "90 %", "blocks of 12", "blocks of 6"}


def halves(model, dtype):
    """Two volumes with noise in different halves, their masks, and the matrix that aligns them."""
    rng = np.random.default_rng(1)
    world, shape = tissue((34, 90, 80), 2.5), (17, 61, 50)
    matrix = np.eye(3)
    if model == "rigid":
        matrix[1:, 1:] = turn(0.04)
    offset = np.array([4.4, 8.7, 9.2]) - (matrix - np.eye(3)) @ np.full(3, 25)
    moving = ndi.affine_transform(world, matrix, offset, shape, order=3)
    fixed = world[6:23, 12:73, 12:62]
    masks = [np.ones(shape, bool) for _ in range(2)]
    masks[0][:, :24], masks[1][:, :, 27:] = False, False
    found = [
        np.where(mask, image, rng.uniform(0, 255, shape)).clip(0, 255).astype(dtype)
        for mask, image in zip(masks, (fixed, moving), strict=True)
    ]
    wanted = np.eye(4)
    wanted[:3, :3] = np.linalg.inv(matrix)
    wanted[:3, 3] = wanted[:3, :3] @ (np.array([6, 12, 12]) - offset)
    return found, masks, wanted


@pytest.mark.parametrize(
    ("model", "dtype"),
    [("translation", "u1"), ("translation", "f4"), ("rigid", "i2"), ("rigid", "f8")],
)
def test_two_volumes_are_registered_by_their_valid_voxels(model, dtype, tmp_path):
    """Within 0.3 voxels if a different half of each is noise; from arrays as from chunks."""
    volumes, masks, wanted = halves(model, dtype)
    how = {"model": model, "max_shift": 12}
    found = bv.register(*volumes, mask=masks, **how)
    at = np.array([[*c, 1] for c in itertools.product((0, 16), (24, 60), (0, 26))]).T
    assert np.linalg.norm(((found - wanted) @ at)[:3], axis=0).max() < 0.3
    value = 0 if dtype == "u1" else -999
    marked = [
        np.where(m, np.maximum(v, 1), value).astype(v.dtype)
        for m, v in zip(masks, volumes, strict=True)
    ]
    again = bv.register(*marked, nodata=value, **how)
    assert np.linalg.norm(((again - wanted) @ at)[:3], axis=0).max() < 0.3
    stored = []
    for k, (v, m) in enumerate(zip(volumes, masks, strict=True)):
        for name, x in (("v", v), ("m", m)):
            place = str(tmp_path / f"{name}{k}.zarr")
            bv.compute(bv.open(x).to(place, chunks=(5 + k, 16, 16)), runner=None)
            stored.append(bv.open(place))
    for more in ({}, {"max_voxels": 30_000}):
        one = bv.register(*volumes, mask=masks, **how, **more)
        other = bv.register(*stored[::2], mask=stored[1::2], **how, **more)
        np.testing.assert_array_equal(one, other)


def test_a_mask_of_all_voxels_changes_no_bit_of_a_transform():
    images, masks, shifts = damaged_images("clean", 2)
    shifted = images[1].astype("f4")
    for v in (shifted, images[1]):
        for max_voxels in (1 << 21, 2000):
            how = {"max_voxels": max_voxels, "max_shift": 14}
            expected = bv.register(images[0], v, **how)
            for more in ({"mask": masks[0]}, {"mask": [None, masks[1] * 3]}, {"nodata": 255}):
                np.testing.assert_array_equal(bv.register(images[0], v, **how, **more), expected)
    assert abs(bv.register(*images, max_shift=14)[:2, 2] - (shifts[0] - shifts[1])).max() < 0.1


@pytest.mark.parametrize("kind", ["half", "torn", "saturated", "same outline"])
def test_damaged_planes_are_registered_by_masks_and_by_a_value(kind):
    images, masks, shifts = damaged_images(kind, 2)
    for more in ({"mask": masks}, {"nodata": 255 if kind == "saturated" else 0}):
        found = bv.register(*images, max_shift=14, **more)[:2, 2]
        np.testing.assert_allclose(found, shifts[0] - shifts[1], atol=0.1)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"mask": [None]}, "mask has 1 entries for 2 volumes; give one mask, or one for each"),
        ({"mask": np.ones((9, 8), bool)}, "mask of fixed has the shape 9 x 8, but needs 8 x 8"),
        ({"mask": [None, np.ones((8, 8), "f4")]}, "mask of moving has dtype float32"),
        ({"mask": [None, np.zeros((8, 8), bool)]}, "no voxel of moving is valid; check mask="),
        ({"nodata": 3}, "no voxel of fixed is valid"),
        ({"nodata": 256}, "nodata=256 is not a value of uint8"),
    ],
)
def test_masks_of_two_volumes_that_do_not_fit_are_refused(more, problem):
    v = np.full((8, 8), 3, "u1")
    with pytest.raises((TypeError, ValueError), match=problem):
        bv.register(v, v, **more)


@pytest.mark.filterwarnings("ignore:register_tiles")
@pytest.mark.parametrize("sigma", [1.3, 2])
@pytest.mark.parametrize("noise", [0, 0.1])
def test_patterns_of_masks_do_not_decide_positions(sigma, noise):
    """Each link is right to 0.1 voxels, or is not used."""
    rng = np.random.default_rng(0)
    big = tissue((150, 300), sigma)
    moved = ndi.shift(big, (-1.4, -2.3), order=5, mode="reflect")
    tiles = [big[20:130, 20:160], moved[20:130, 110:250]]
    tiles = [t + rng.normal(0, 40 * noise, t.shape) for t in tiles]
    for name, masks in masks_with_a_pattern(tiles[0].shape).items():
        table, pairs = bv.register_tiles(tiles, [(0, 0), (0, 90)], max_shift=12, mask=masks)
        used = pairs["used"][0].as_py()
        assert used or name in UNUSABLE, name
        if used:
            shift = [pairs[f"shift_{a}"][0].as_py() for a in "yx"]
            np.testing.assert_allclose(shift, (1.4, 92.3), atol=0.1, err_msg=name)
        else:
            np.testing.assert_array_equal(columns(table, "yx"), [(0, 0), (0, 90)], name)


@pytest.mark.parametrize("model", ["translation", "rigid"])
def test_patterns_of_masks_do_not_decide_transforms_of_slices(model):
    big = tissue((150, 150), 2)
    shift = np.array([1.4, 2.3])
    stack = np.stack([i[20:130, 20:130] for i in (big, ndi.shift(big, -shift, order=5))])
    for name, masks in masks_with_a_pattern(stack[0].shape).items():
        table = bv.register_slices(stack, model=model, mask=np.stack(masks), max_shift=12)
        used = table["links"][0].as_py()
        assert used or name in UNUSABLE, name
        if used:
            m = columns(table, ["m_yy", "m_yx", "m_xy", "m_xx"]).reshape(-1, 2, 2)
            middle = m @ (54.5, 54.5) + columns(table, "yx")
            np.testing.assert_allclose(middle[1] - middle[0], shift, atol=0.1, err_msg=name)


def test_a_mask_of_all_voxels_changes_nothing_and_one_of_none_leaves_a_tile():
    images, masks, shifts = damaged_images("clean")
    where = np.zeros((4, 2))
    table, pairs = bv.register_tiles(images, where, max_shift=14)
    same = [None, *masks[1:]]
    for more in ({"mask": same}, {"mask": masks[0].astype("i4") * -7}, {"nodata": 0}):
        again = bv.register_tiles(images, where, max_shift=14, **more)
        assert [t.to_pydict() for t in again] == [t.to_pydict() for t in (table, pairs)]
    masks[2][:] = False
    with pytest.warns(UserWarning, match="positions: 2; no valid voxels in the overlaps of 2;"):
        table, _ = bv.register_tiles(images, where, max_shift=14, mask=masks)
    assert table["links"].to_pylist() == [2, 2, 0, 2]
    np.testing.assert_array_equal(columns(table, "yx")[2], (0, 0))
    error = np.delete(columns(table, "yx") - shifts, 2, axis=0)
    assert np.ptp(error, axis=0).max() < 0.1


def test_downsampled_voxels_are_means_of_valid_ones():
    from beam_volumes.ops.geometry.validity import marked_volume

    rng = np.random.default_rng(0)
    voxels, valid = rng.integers(1, 99, (5, 12, 9)), rng.random((5, 12, 9)) < 0.6
    got = marked_volume(bv.open(voxels), bv.open(valid), None, (2, 3, 4))
    marked = np.where(valid, voxels, np.nan)
    with np.errstate(invalid="ignore"):
        for z, y, x in itertools.product(range(3), range(4), range(3)):
            box = np.s_[2 * z : 2 * z + 2, 3 * y : 3 * y + 3, 4 * x : 4 * x + 4]
            known = np.isfinite(marked[box])
            wanted = np.nanmean(marked[box]) if known.mean() >= 0.5 else np.nan
            np.testing.assert_allclose(np.asarray(got)[z, y, x], wanted, rtol=1e-6)
    for slab in ((1, 2, 1), (2, 4, 2)):
        np.testing.assert_array_equal(bv.compute(got, runner=None, slab=slab), np.asarray(got))


@pytest.mark.parametrize("kind", ["half", "torn", "saturated", "same outline"])
@pytest.mark.parametrize("model", ["translation", "rigid"])
def test_slices_and_frames_are_registered_by_their_valid_voxels(kind, model):
    """Within 0.2 voxels, by masks and by a value."""
    images, masks, shifts = damaged_images(kind)
    stack, nodata = np.stack(images), 255 if kind == "saturated" else 0
    table = bv.register_slices(stack, model=model, mask=np.stack(masks), max_shift=14)
    middle = (np.array(images[0].shape) - 1) / 2
    matrices = columns(table, ["m_yy", "m_yx", "m_xy", "m_xx"]).reshape(-1, 2, 2)
    error = matrices @ middle + columns(table, "yx") - middle - shifts
    assert min(table["links"].to_pylist()) == 3 and np.ptp(error, axis=0).max() < 0.2
    again = bv.register_slices(stack, model=model, nodata=nodata, max_shift=14)
    assert again.to_pydict() == table.to_pydict()
    movie, mask = (bv.open(np.stack(each), axes="tyx") for each in (images, masks))
    again = bv.register_frames(movie, model=model, mask=mask, max_shift=14)
    names = ["y", "x", "m_yx", "links"]
    assert [again[n].to_pylist() for n in names] == [table[n].to_pylist() for n in names]


def test_masks_of_stacks_and_movies():
    images, masks, shifts = damaged_images("clean")
    stack = np.stack(images)
    table = bv.register_slices(stack, max_side=60)
    again = bv.register_slices(stack, max_side=60, mask=np.ones(stack.shape, bool))
    np.testing.assert_allclose(columns(again, "yx"), columns(table, "yx"), atol=0.01)
    movie = bv.open(stack, axes="tyx")
    table = bv.register_frames(movie, mask=masks[0], max_side=60)
    assert np.ptp(columns(table, "yx") - shifts, axis=0).max() < 0.2
    with pytest.raises(ValueError, match="the mask has 3 time points, and the movie 4"):
        bv.register_frames(movie, mask=movie[:3] > 0)
    with pytest.raises(ValueError, match="mask of the stack has the shape 3 x 110 x 112"):
        bv.register_slices(stack, mask=stack[:3] > 0)
    table = bv.register_slices(stack, mask=np.zeros(stack.shape, bool))
    assert table["links"].to_pylist() == [0] * 4


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"mask": [None]}, "mask has 1 entries for 2 tiles"),
        ({"mask": np.ones((9, 8), bool)}, "mask of tile 0 has the shape 9 x 8, but needs 8 x 8"),
        ({"mask": [None, np.ones((8, 8), "f4")]}, "mask of tile 1 has dtype float32"),
        ({"mask": np.ones((2, 8, 8), bool)}, "mask of tile 0 has the axes z y x, but needs y x"),
        ({"mask": np.array([None, None])}, "mask of tile 0 is not usable: .* has dtype object"),
        ({"mask": np.ones((8, 8), "c8")}, "mask of tile 0 is not usable: .* has dtype complex64"),
        ({"mask": [None, np.array(True)]}, "mask of tile 1 is not usable: .* has 0 dimensions"),
        ({"mask": [[True] * 8] * 2}, "mask of tile 0 is not usable: .*not list"),
        ({"mask": "mask.tif"}, r"not a path: write bv.open\('mask.tif'\)"),
        ({"nodata": 256}, "nodata=256 is not a value of uint8"),
        ({"nodata": 0.5}, "nodata=0.5 is not a value of uint8"),
        ({"nodata": np.nan}, "nodata=nan is not a value of uint8"),
        ({"nodata": "0"}, "nodata='0' is not a number"),
        ({"nodata": [0]}, r"nodata=\[0\] is not a number"),
    ],
)
def test_masks_that_do_not_fit_are_refused(more, problem):
    tiles = [np.zeros((8, 8), "u1")] * 2
    with pytest.raises((TypeError, ValueError), match=problem):
        bv.register_tiles(tiles, np.zeros((2, 2)), **more)


@pytest.mark.filterwarnings("ignore:register_tiles")
def test_progress_of_registrations_counts_their_parts(capsys):
    """For each function, also where images are left out; on standard error only if it is requested."""
    stack = tissue((4, 40, 44), 2).astype("f4")
    stack[2] = 0
    movie = bv.open(stack, axes="tyx")
    tiles = [stack[0, :, :30], stack[0, :, 14:]]
    for call, name, unit, total in (
        (partial(bv.register_slices, stack, skip=[1]), "register_slices", "slices", 4),
        (partial(bv.register_frames, movie, skip=[1]), "register_frames", "frames", 4),
        (partial(bv.register_tiles, tiles, [(0, 0), (0, 14)]), "register_tiles", "pairs", 1),
        (partial(bv.register, stack[0], stack[0]), "register", "pairs", 1),
    ):
        seen = []
        call(progress=seen.append)
        own = [p for p in seen if p.unit == unit]
        assert (own[-1].name, own[-1].done, own[-1].total) == (name, total, total)
        call()
        assert not capsys.readouterr().err
        call(progress=True)
        assert f"{name} {total}/{total} {unit}" in capsys.readouterr().err


def test_frames_that_are_skipped_are_not_read():
    read = []

    def frame(block):
        read.append(int(block.max()))
        return block

    movie = np.repeat(np.arange(1, 5, dtype="f4"), 16 * 16).reshape(4, 16, 16)
    movie = bv.map_overlap(frame, bv.open(movie, axes="tyx"), dtype="f4")
    bv.register_frames(movie, skip=[1, 3])
    assert {1, 3} <= {*read} and not {2, 4} & {*read}
