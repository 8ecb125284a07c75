"""Flat fields and gains of synthetic tiles against the truth."""

import numpy as np
import pytest
import scipy.ndimage as ndi

import beam_volumes as bv
from beam_volumes.ops.geometry.registration import gains

SHAPE = 150, 170


def vignette(loss, shape=SHAPE):
    y, x = (np.arange(n) / n for n in shape)
    distance = (y[:, None] - 0.55) ** 2 + (x - 0.42) ** 2
    field = 1 - loss * distance / distance.max()
    field *= 1 + 0.05 * np.outer(np.cos(2 * y), np.sin(3 * x + 1))
    return field / field.mean()


def fields(count, density, loss, dark=0.0, shape=SHAPE, seed=0):
    """Objects of various brightness on a background, through a microscope."""
    random = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        smooth = ndi.gaussian_filter(random.normal(size=shape), 4)
        objects, n = ndi.label(smooth > np.quantile(smooth, 1 - density))
        light = 100 + np.append(0, random.gamma(3, 130, n))[objects]
        light = light * vignette(loss, shape) * random.uniform(0.6, 1.4) + dark
        result.append(random.poisson(light).astype("u2"))
    return result


def error(found, truth):
    return np.asarray(found).astype("f8") / truth - 1


@pytest.mark.parametrize("loss", [0.4, 0.8])
@pytest.mark.parametrize(("density", "mean", "largest"), [(0.02, 0.004, 0.03), (0.6, 0.01, 0.08)])
def test_flat_fields_of_sparse_and_crowded_tiles(density, mean, largest, loss):
    flat, dark = bv.estimate_flat_field(fields(24, density, loss))
    assert flat.shape == dark.shape == SHAPE
    assert flat.dtype == dark.dtype == np.float32
    assert not np.asarray(dark).any()
    assert np.asarray(flat).mean(dtype="f8") == pytest.approx(1, abs=1e-6)
    found = error(flat, vignette(loss))
    assert np.sqrt((found**2).mean()) < mean
    assert abs(found).max() < largest


@pytest.mark.parametrize("density", [0.02, 0.6])
def test_dark_fields(density):
    flat, dark = bv.estimate_flat_field(fields(24, density, 0.6, dark=60), darkfield=True)
    assert np.sqrt((error(flat, vignette(0.6)) ** 2).mean()) < 0.015
    assert abs(np.asarray(dark).mean() - 60) < 6


def test_details_of_flat_fields():
    """Dust has a shadow that no polynomial has."""
    y, x = np.indices(SHAPE)
    dust = 1 - 0.15 * np.exp(-((y - 50) ** 2 + (x - 90) ** 2) / 2 / 6**2)
    tiles = [tile * dust for tile in fields(32, 0.02, 0.4)]
    flat, _ = bv.estimate_flat_field(tiles)
    assert abs(error(flat, vignette(0.4) * dust / (vignette(0.4) * dust).mean())).max() < 0.1


@pytest.mark.parametrize("size", [32, 128])
def test_flat_fields_are_positive_in_black_corners(size):
    """Also where the downsampled field is extrapolated, so that a division by it is finite."""
    rng = np.random.default_rng(0)
    along = abs(np.linspace(-1, 1, 256))
    light = np.maximum(1 - np.maximum.outer(along, along) ** 3, 0)
    tiles = [b * light * rng.normal(1, 0.02, light.shape) for b in rng.uniform(80, 120, 8)]
    flat = np.asarray(bv.estimate_flat_field(tiles, size=size)[0])
    assert flat.min() > 0.0199 * flat.max() and abs(flat.mean() - 1) < 1e-5


def test_zeros_of_a_measured_flat_field_are_no_data():
    """Of a dead column; without nodata=, NaN would reach the fused volume."""
    world = ndi.gaussian_filter(np.random.default_rng(0).normal(100, 30, (60, 100)), 1.5)
    flat = np.ones((60, 60), "f4")
    flat[:, 50] = 0
    tiles = [world[:, :60] * flat, world[:, 40:] * flat]
    even = [tile / np.where(flat > 0, flat, np.nan) for tile in tiles]
    table, _ = bv.register_tiles(even, [(0, 0), (0, 37)], max_shift=6, reference=0)
    np.testing.assert_allclose([table[a].to_numpy()[1] for a in "yx"], (0, 40), atol=0.02)
    fused = np.asarray(bv.fuse(even, [(0, 0), (0, 40)], nodata=np.nan, fill=np.nan))
    assert np.flatnonzero(np.isnan(fused).any(axis=0)).tolist() == [90]
    known = np.delete(np.arange(100), 90)
    np.testing.assert_allclose(fused[:, known], world[:, known], rtol=1e-5)


def test_slices_masks_and_missing_voxels():
    tiles = np.stack(fields(24, 0.02, 0.5, shape=(60, 40)))
    truth = vignette(0.5, (60, 40))
    stacks = tiles.reshape(4, 6, 60, 40)
    flat, _ = bv.estimate_flat_field(list(stacks))
    np.testing.assert_array_equal(flat, bv.estimate_flat_field(list(tiles))[0])
    assert abs(error(flat, truth)).max() < 0.04
    black = stacks.copy()
    black[:, :, :9] = 0
    bright = stacks.copy()
    bright[1:3, :, 20:40] = 60000
    mask = np.ones((6, 60, 40), bool)
    mask[:, 20:40] = False
    holes = stacks.astype("f4")
    holes[:, ::2, 5:9, 7:30] = np.nan
    for given, how in (
        (black, {"nodata": 0}),
        (bright, {"mask": [None, mask, mask, None]}),
        (holes, {}),
    ):
        found = error(bv.estimate_flat_field(list(given), **how)[0], truth)[9:]
        assert abs(found).max() < 0.05, how


def test_flat_fields_do_not_depend_on_storage(tmp_path):
    tiles = fields(6, 0.1, 0.4)
    expected = [np.asarray(field) for field in bv.estimate_flat_field(tiles, darkfield=True)]
    for k, tile in enumerate(tiles):
        bv.compute(bv.open(tile).to(tmp_path / f"{k}.zarr", chunks=(31, 64)), runner=None)
    opened = [bv.open(tmp_path / f"{k}.zarr", voxel_size=3) for k in range(6)]
    found = bv.estimate_flat_field([1 * tile for tile in opened], darkfield=True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    even = (opened[0] - found[1]) / found[0]
    np.testing.assert_allclose(even, (tiles[0] - expected[1]) / expected[0], rtol=1e-5)


def test_many_images_are_thinned(monkeypatch):
    monkeypatch.setattr("beam_volumes.ops.intensity.flat_field._MAX_IMAGES", 9)
    tiles = np.stack(fields(26, 0.02, 0.5, shape=(40, 30)))
    expected = np.asarray(bv.estimate_flat_field(list(tiles[::3]))[0])
    np.testing.assert_array_equal(bv.estimate_flat_field(list(tiles))[0], expected)
    np.testing.assert_array_equal(
        bv.estimate_flat_field(list(tiles.reshape(2, 13, 40, 30)))[0], expected
    )


@pytest.mark.parametrize("shape", [(8, 300), (9, 2), (1, 7), (33, 1)])
def test_constant_tiles_of_odd_shapes(shape):
    flat, dark = bv.estimate_flat_field([np.full(shape, n, "u1") for n in (7, 7, 7, 9, 200)])
    np.testing.assert_allclose(flat, np.ones(shape), atol=1e-5)
    assert not np.asarray(dark).any()


@pytest.mark.parametrize(
    ("tiles", "how", "error", "said"),
    [
        ([np.ones((9, 9))] * 4, {}, ValueError, "tiles has 4 images; give at least 5"),
        ([np.zeros((9, 9))] * 5, {}, ValueError, "0 images of 5 with a positive median"),
        ([np.full((9, 9), np.nan)] * 6, {}, ValueError, "6 have no valid .*at least 5(?!, or add)"),
        ([np.full((9, 9), -1)] * 6, {}, ValueError, "6 have a median of at most 0; .*, or add"),
        ([np.full((9, 9), 1e300)] * 6, {}, ValueError, "6 have no valid voxels within float32"),
        ([np.ones((9, 9))] * 5, {"darkfield": True}, ValueError, "range is 0%; subtract an image"),
        ([np.ones((9, 9))] * 5, {"darkfield": 1}, TypeError, "darkfield=1 is neither"),
        ([np.ones((9, 9))] * 5, {"size": 4}, ValueError, "size=4"),
        ([np.ones((9, 9))] * 5, {"size": 9999}, ValueError, "size=9999 is above 512"),
        ([np.ones((9, 9))] * 5, {"mask": np.ones((8, 9), bool)}, ValueError, "mask of tile 0"),
        ([np.ones((9, 9))] * 5, {"nodata": "a"}, TypeError, "nodata='a' is not a number"),
        ([np.ones((9, 9))] * 4 + [np.ones((9, 8))], {}, ValueError, "tile 4 has 9 x 8"),
        ([np.ones((9, 9), bool)] * 5, {}, TypeError, "tile 0 has dtype bool"),
        ([bv.open(np.ones((5, 9, 9)))[:, 0]] * 5, {}, ValueError, "tiles with y and x"),
        ([], {}, ValueError, "at least one tile"),
    ],
)
def test_refused_flat_fields(tiles, how, error, said):
    with pytest.raises(error, match=said):
        bv.estimate_flat_field(tiles, **how)


def mosaic(moved=0.0, contrast=200, shape=(96, 110), side=3, seed=0):
    """Tiles of a film with objects that moved, their positions and their gains."""
    random = np.random.default_rng(seed)
    step = [int(0.85 * n) for n in shape]
    film = 100 + contrast * ndi.gaussian_filter(random.normal(size=[n * side for n in shape]), 4)
    places = [(step[0] * i, step[1] * j) for i in range(side) for j in range(side)]
    tiles, gains = [], 1 + 0.4 * random.uniform(-1, 1, side * side)
    for (y, x), g in zip(places, gains, strict=True):
        tile = film[y : y + shape[0], x : x + shape[1]].copy()
        smooth = ndi.gaussian_filter(random.normal(size=shape), 3)
        tile[smooth > np.quantile(smooth, 1 - moved)] += random.uniform(100, 600)
        tiles.append(random.poisson(np.maximum(tile, 0) * g * 5).astype("u2"))
    return tiles, places, gains


def gains_of(table):
    return np.array(table["gain"].to_pylist())


@pytest.mark.parametrize("dtype", ["u2", "i4", "f4", "f8"])
@pytest.mark.parametrize("moved", [0.0, 0.1])
def test_gains(moved, dtype):
    tiles, places, gains = mosaic(moved)
    table = bv.match_tiles([tile.astype(dtype) for tile in tiles], places)
    found = gains_of(table)
    assert np.median(1 / found) == pytest.approx(1)
    product = found * gains
    np.testing.assert_allclose(product / product.mean(), 1, atol=0.01)
    assert table["offset"].to_pylist() == [0.0] * 9
    assert table["links"].to_pylist() == [3, 5, 3, 5, 8, 5, 3, 5, 3]
    assert max(table["residual"].to_pylist()) < 0.1


def test_offsets():
    tiles, places, gains = mosaic(contrast=300)
    offsets = np.linspace(-200, 200, 9)
    given = [tile + np.float32(o) for tile, o in zip(tiles, offsets, strict=True)]
    table = bv.match_tiles(given, places, offset=True)
    found, shift = gains_of(table), np.array(table["offset"].to_pylist())
    product = found * gains
    np.testing.assert_allclose(product / product.mean(), 1, atol=0.03)
    assert np.median(shift) == pytest.approx(0, abs=1e-6)
    assert np.ptp(shift + found * offsets) < 30  # of voxels near 500
    flat = bv.match_tiles([np.full((9, 9), n) for n in (10.0, 30.0)], [(0, 0), (0, 4)], offset=True)
    np.testing.assert_allclose(gains_of(flat), [2, 2 / 3], rtol=0.02)  # gains, without contrast


def test_seams_vanish():
    tiles, places, _ = mosaic()
    positions, _ = bv.register_tiles(tiles, places, max_shift=2)
    table = bv.match_tiles(tiles, positions)

    def seam(gain):
        first = bv.fuse(tiles, places, blending="first", dtype="f4", gain=gain)
        last = bv.fuse(
            tiles[::-1], np.array(places)[::-1], blending="first", dtype="f4", gain=gain[::-1]
        )
        change = np.asarray(first)[:270, :300] - np.asarray(last)[:270, :300]
        return (
            abs(ndi.gaussian_filter(change, 3))[abs(change) > 0].mean() / np.asarray(first).mean()
        )

    before, after = seam(np.ones(9)), seam(gains_of(table))
    assert before > 0.1
    assert after < 0.02
    by_hand = [tile * g for tile, g in zip(tiles, table["gain"].to_pylist(), strict=True)]
    np.testing.assert_allclose(
        bv.fuse(by_hand, positions, dtype="f4"),
        bv.fuse(tiles, positions, gain=table["gain"].to_pylist(), dtype="f4"),
        rtol=1e-5,
    )


def test_tiles_apart_and_groups():
    film = np.random.default_rng(0).uniform(100, 200, (20, 20))
    tiles = [film, 3 * film, film, 7 * film, film]
    table = bv.match_tiles(tiles, [(0, 0), (0, 0), (100, 0), (100, 0), (300, 300)])
    np.testing.assert_allclose(gains_of(table), [2, 2 / 3, 4, 4 / 7, 1], rtol=1e-5)
    assert table["links"].to_pylist() == [1, 1, 1, 1, 0]
    assert table["residual"].to_pylist()[4] is None
    alone = bv.match_tiles([film], [(0, 0)])
    assert alone["gain"].to_pylist() == [1.0]
    zeros = bv.match_tiles([film * 0, film * 0], [(0, 0), (0, 0)])
    assert gains_of(zeros).tolist() == [1, 1]


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("outlier", [0.002, 0.1, 40])
def test_a_tile_that_is_nearly_black_or_bright_leaves_the_others(outlier, offset):
    """Gains of the other tiles are relative to their own brightness, at odd and even counts."""
    film = np.random.default_rng(0).uniform(100, 200, (60, 310))
    for given in ([1.1, 0.9, 1, outlier, 1.05], [1.1, 0.9, 1, outlier, 1.05, 0.95]):
        places = [(0, 50 * k) for k in range(len(given))]
        tiles = [film[:, x : x + 60] * g for (_, x), g in zip(places, given, strict=True)]
        table = bv.match_tiles(tiles, places, offset=offset)
        brightness = np.array(given) / np.median(given)
        np.testing.assert_allclose(gains_of(table) * brightness, 1, rtol=0.01)
        assert abs(np.array(table["offset"].to_pylist())).max() < 2


def test_of_two_tiles_a_black_one_darkens_the_other_by_half_at_most():
    film = np.random.default_rng(0).uniform(100, 200, (60, 100))
    table = bv.match_tiles([film[:, :60], film[:, 40:] / 500], [(0, 0), (0, 40)])
    np.testing.assert_allclose(gains_of(table), [0.501, 250.5], rtol=1e-3)


def test_voxels_that_do_not_count():
    film = np.random.default_rng(0).integers(50, 100, (3, 40, 40)).astype("u1")
    left, right = film, film // 2
    expected = gains_of(bv.match_tiles([left, right], np.zeros((2, 3))))
    saturated, black = left.copy(), right.copy()
    saturated[:, :20] = 255
    black[:, :, :18] = 0
    mask = np.ones(film.shape, bool)
    mask[:, :20] = False
    holes = np.where(saturated == 255, np.nan, left)
    for a, how in (
        (saturated, {}),
        (np.minimum(saturated, 120), {"saturation": 120}),
        (saturated, {"mask": [mask, None], "saturation": 1000}),
        (holes, {}),
    ):
        table = bv.match_tiles([a, black], np.zeros((2, 3)), nodata=0, **how)
        np.testing.assert_allclose(gains_of(table), expected, atol=0.01)


def test_black_overlaps_change_no_gain():
    tiles, places, _ = mosaic(side=2)
    tiles = [np.zeros_like(tiles[0]), *tiles[1:]]
    table = bv.match_tiles(tiles, places)
    assert table["gain"].to_pylist()[0] == 1
    assert table["links"].to_pylist() == [0, 2, 2, 2]
    others = bv.match_tiles(tiles[1:], places[1:])["gain"].to_pylist()
    np.testing.assert_allclose(table["gain"].to_pylist()[1:], others, rtol=1e-6)


def test_blocks_of_many_or_large_overlaps_are_limited(monkeypatch):
    monkeypatch.setattr(gains, "_MAX_VOXELS", 16)
    monkeypatch.setattr(gains, "_ALL_BLOCKS", 200)
    counts = []
    table = gains._table
    monkeypatch.setattr(
        gains, "_table", lambda *a: counts.extend(b.shape for b in a[2]) or table(*a)
    )
    tiles, places, truth = mosaic()
    found = bv.match_tiles(tiles, places)["gain"].to_pylist()
    assert max(counts) == (2, 64)
    np.testing.assert_allclose(found * truth, np.mean(found * truth), rtol=0.01)


def test_matrices():
    tiles, places, gains = mosaic()
    turns = np.random.default_rng(0).normal(size=9) * 1e-3
    matrices = [
        [[np.cos(a), -np.sin(a), y], [np.sin(a), np.cos(a), x]]
        for a, (y, x) in zip(turns, places, strict=True)
    ]
    product = gains_of(bv.match_tiles(tiles, matrices)) * gains
    np.testing.assert_allclose(product / product.mean(), 1, atol=0.01)


def test_only_overlaps_are_read_and_storage_does_not_matter(tmp_path):
    film = np.random.default_rng(0).uniform(100, 200, (64, 128)).astype("f4")
    tiles, places = [film[:, :80], 2 * film[:, 64:]], [(0, 0), (0, 64)]
    expected = bv.match_tiles(tiles, places)
    for k, tile in enumerate(tiles):
        bv.compute(bv.open(tile).to(tmp_path / f"{k}.zarr", chunks=(16, 16)), runner=None)
    outside = [p for p in (tmp_path / "0.zarr").rglob("*") if p.is_file() and p.parts[-1] == "0"]
    assert outside
    for path in outside:  # the first chunk of each row
        path.write_bytes(b"broken")
    opened = [bv.open(tmp_path / f"{k}.zarr", origin=(0, 64 * k), voxel_size=1) for k in range(2)]
    with pytest.raises((OSError, ValueError)):
        np.asarray(opened[0])
    assert bv.match_tiles(opened, places).equals(expected)


@pytest.mark.parametrize(
    ("tiles", "transforms", "how", "error", "said"),
    [
        ([np.ones((9, 9))] * 2, [(0, 0)], {}, ValueError, "1 entries for 2 tiles"),
        ([np.ones((9, 9))] * 2, 3, {}, TypeError, "transforms=3 is neither"),
        ([np.ones((9, 9), bool)], [(0, 0)], {}, TypeError, "tile 0 has dtype bool"),
        ([np.ones((9, 9))], [(0, 0)], {"offset": 1}, TypeError, "offset=1 is neither"),
        ([np.ones((9, 9))], [(0, 0)], {"saturation": np.inf}, ValueError, "saturation=inf"),
        (
            [np.ones((9, 9))],
            [(0, 0)],
            {"mask": np.ones((8, 9), bool)},
            ValueError,
            "mask of tile 0",
        ),
        ([np.ones((9, 9)), np.ones((2, 9, 9))], [(0, 0)] * 2, {}, ValueError, "same spatial axes"),
        ([], [], {}, ValueError, "at least one tile"),
        (
            [np.ones((9, 9)), bv.label(bv.open(np.ones((9, 9), bool)))],
            [np.eye(2, 3), 1.1 * np.eye(2, 3)],
            {},
            ValueError,
            "match_tiles: tile 1 cannot be computed in blocks, because of label",
        ),
        (
            [np.ones((9, 9))] * 2,
            [np.eye(2, 3), 1.1 * np.eye(2, 3)],
            {"mask": [None, bv.label(bv.open(np.ones((9, 9), bool)))]},
            ValueError,
            "match_tiles: the mask of tile 1 cannot be computed in blocks",
        ),
    ],
)
def test_refused_matches(tiles, transforms, how, error, said):
    with pytest.raises(error, match=said):
        bv.match_tiles(tiles, transforms, **how)
