"""Tiles with slices that wobble: their positions, and their fusion."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.ndimage as ndi

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.ops.geometry.registration import tiles as of_tiles
from beam_volumes.ops.geometry.registration.wobble import SliceLinks, movements

COUNT, SIDE = 16, 90
PLACES = np.array([(0, y, x) for y in (0, 62) for x in (0, 62)], float)


def stage(kind, empty=(), texture=True, seed=0):
    """Four tiles with noise, and the true position of each slice, (tiles, slices, 2)."""
    rng = np.random.default_rng(seed)
    world = np.zeros((COUNT, 180, 180))
    for sigma in (1.5, 4):
        part = ndi.gaussian_filter(rng.normal(size=world.shape), (1, sigma, sigma))
        world += part / part.std()
    tiles, places = [], []
    for place in PLACES:
        if kind == "jitter":
            wobble = rng.normal(0, 1, (COUNT, 2))
        else:
            wobble = np.cumsum(rng.normal(0, 0.4, (COUNT, 2)), axis=0)
        own = place[1:] + rng.uniform(-2, 2, 2) + wobble - wobble.mean(axis=0)
        planes = [
            ndi.shift(plane, -(p + 10), order=3)[:SIDE, :SIDE]
            for plane, p in zip(world, own, strict=True)
        ]
        tile = 100 + 20 * np.stack(planes) * texture
        tile[list(empty)] = 100
        tiles.append((tile + rng.normal(0, 4, tile.shape)).clip(0, 255).astype("u1"))
        places.append(own)
    return tiles, np.stack(places)


def errors(table, true):
    """Distances to the true positions, except for movements that all tiles of a plane share."""
    found = np.stack([np.array(table[a].to_pylist()) for a in "yx"], axis=1)
    found = found.reshape(4, -1, 2) + np.zeros(true.shape)
    away = found - true
    away -= away.mean(axis=0)
    return np.linalg.norm(away, axis=2)


REACH = np.array([20.0, 20.0])
HOW = {"max_shift": 8, "min_quality": 0.3}


@pytest.mark.parametrize("kind", ["jitter", "drift"])
def test_slices_that_wobble(kind):
    """Within 0.3 voxels with texture, and not worse than the tile in slices without it."""
    tiles, true = stage(kind)
    table, pairs = bv.register_tiles(tiles, PLACES, model="slices", **HOW)
    plain, expected = bv.register_tiles(tiles, PLACES, **HOW)
    assert errors(table, true).max() < 0.3 < errors(plain, true).max()
    assert pairs.to_pyarrow().equals(expected.to_pyarrow())
    assert table["tile"].to_pylist() == np.repeat(range(4), COUNT).tolist()
    assert table["slice"].to_pylist() == [*range(COUNT)] * 4
    z = np.array(plain["z"].to_pylist())[:, None] + np.arange(COUNT)
    np.testing.assert_allclose(table["z"].to_pylist(), z.ravel())
    empty = [5, 6, 7, 8]
    tiles, true = stage(kind, empty)
    table, _ = bv.register_tiles(tiles, PLACES, model="slices", **HOW)
    plain, _ = bv.register_tiles(tiles, PLACES, **HOW)
    ours, by_tile = errors(table, true), errors(plain, true)
    assert np.delete(ours, empty, axis=1).max() < 0.3
    assert (ours[:, empty] ** 2).mean() <= 1.001 * (by_tile[:, empty] ** 2).mean()
    links = np.array(table["links"].to_pylist()).reshape(4, -1)
    assert not links[:, empty].any() and np.delete(links, empty, axis=1).all()


def test_chunks_planes_and_masks_change_nothing(tmp_path, monkeypatch):
    tiles, true = stage("jitter")
    table, _ = bv.register_tiles(tiles, PLACES, model="slices", **HOW)
    stored = []
    for k, tile in enumerate(tiles):
        bv.compute(bv.open(tile).to(tmp_path / f"{k}.zarr", chunks=(3 + k, 32, 20)), runner=None)
        stored.append(bv.open(tmp_path / f"{k}.zarr"))
    masks = [np.ones(tile.shape, bool) for tile in tiles]
    for more in ({}, {"mask": masks}):
        again, _ = bv.register_tiles(stored, PLACES, model="slices", **HOW, **more)
        assert again.to_pyarrow().equals(table.to_pyarrow())
    black = [tile.copy() for tile in tiles]
    for tile in black:
        tile[:, :40, :40] = 0
    table, _ = bv.register_tiles(black, PLACES, model="slices", nodata=0, **HOW)
    assert errors(table, true).max() < 0.3
    monkeypatch.setattr(of_tiles, "_MAX_PLANE", 1500)  # downsamples planes, one at a time
    table, _ = bv.register_tiles(tiles, PLACES, model="slices", **HOW)
    assert errors(table, true).max() < 0.3


def test_a_reference_does_not_wobble_and_a_lonely_tile_keeps_its_place():
    tiles, true = stage("drift")
    table, _ = bv.register_tiles(tiles, PLACES, model="slices", reference=2, **HOW)
    found = np.stack([np.array(table[a].to_pylist()) for a in "zyx"], 1).reshape(4, COUNT, 3)
    np.testing.assert_allclose(found[2, :, 1:] - PLACES[2, 1:], 0, atol=1e-3)
    away = found[:, :, 1:] - true
    assert np.linalg.norm(away - away[2], axis=2).max() < 0.3
    far = [*PLACES, (0, 500, 500)]
    with pytest.warns(UserWarning, match="no link for 1 of 5 tiles"):
        table, _ = bv.register_tiles([*tiles, tiles[0]], far, model="slices", **HOW)
    assert table["y"].to_pylist()[-COUNT:] == [500.0] * COUNT
    noise, _ = stage("drift", texture=False)
    with pytest.warns(UserWarning, match="no link for 4 of 4 tiles"):
        table, _ = bv.register_tiles(noise, PLACES, model="slices", **HOW)
    assert not any(table["links"].to_pylist())
    np.testing.assert_array_equal(
        np.stack([table[a].to_pylist() for a in "yx"], 1), np.repeat(PLACES[:, 1:], COUNT, axis=0)
    )


def test_movements_of_links():
    """A wrong link that others contradict counts little, and neighbours decide as far as they are alike."""
    rng = np.random.default_rng(0)
    n, pairs = 60, [(0, 1), (1, 2), (0, 2)]
    for step in (0.3, 3.0):
        moved = np.cumsum(rng.normal(0, step, (3, n, 2)), axis=1) if step < 1 else None
        moved = rng.normal(0, step, (3, n, 2)) if moved is None else moved
        moved -= moved.mean(axis=0)
        links = []
        for i, j in pairs:
            ends = [(i * n + z, j * n + z) for z in range(n) if not 20 <= z < 24]
            away = [moved[j, b % n] - moved[i, a % n] for a, b in ends]
            if i + j == 1:
                away[40] = away[40] + 9.0
            links.append(SliceLinks.of(ends, away, [50.0] * len(ends)))
        found = movements([n] * 3, links, None, REACH)[0].reshape(3, n, 2)
        error = np.linalg.norm(found - moved, axis=2)
        assert np.delete(error, range(20, 24), axis=1).max() < 0.3
        gap = np.linalg.norm(moved[:, 20:24], axis=2)
        assert (error[:, 20:24] ** 2).mean() <= 1.1 * (gap**2).mean()
    assert not movements([4, 5], [], None, REACH)[0].any()


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "u4"])
def test_whole_movements_are_copied(dtype):
    """As by hand: each slice of each tile at its position; the first tile wins."""
    rng = np.random.default_rng(0)
    tiles = [rng.integers(1, 200, (3, 7, 9)).astype(dtype) for _ in range(2)]
    places = rng.integers(-3, 4, (2, 3, 2)) + np.array([[[0, 0]], [[1, 5]]])
    table = {
        "tile": [0, 0, 0, 1, 1, 1],
        "slice": [0, 1, 2] * 2,
        "z": [0, 1, 2, 1, 2, 3],
        "y": places[:, :, 0].ravel(),
        "x": places[:, :, 1].ravel(),
    }
    low = places.min(axis=(0, 1))
    extent = places.max(axis=(0, 1)) - low + np.array([7, 9])
    expected = np.full((4, *extent), 5, dtype)
    for k in (1, 0):
        for z in range(3):
            y, x = places[k, z] - low
            expected[z + k, y : y + 7, x : x + 9] = tiles[k][z]
    fused = bv.fuse(tiles, table, blending="first", fill=5)
    assert fused.dtype == dtype
    for slab in ((1, 3, 4), (4, 50, 50)):
        np.testing.assert_array_equal(bv.compute(fused, runner=None, slab=slab), expected)
    mask = np.ones((3, 7, 9), bool)
    mask[:, 2:5] = False
    for more in ({"mask": [mask, None]}, {"nodata": 0}):
        holes = [np.where(mask, tiles[0], 0).astype(dtype) if "nodata" in more else tiles[0]]
        found = np.asarray(bv.fuse([*holes, tiles[1]], table, blending="first", fill=5, **more))
        for z in range(3):
            y, x = places[0, z] - low
            box = (z, slice(y, y + 7), slice(x, x + 9))
            np.testing.assert_array_equal(found[box][mask[z]], expected[box][mask[z]])


def test_channels_and_corrected_tiles():
    rng = np.random.default_rng(0)
    tiles = [rng.integers(1, 200, (2, 3, 9, 9)).astype("u1") for _ in range(2)]
    table = {
        "tile": [0, 0, 0, 1, 1, 1],
        "slice": [0, 1, 2] * 2,
        "z": [0, 1, 2] * 2,
        "y": [0, 0.5, 0, 1, 0, 0],
        "x": [0, 0, 0.25, 4, 4, 5],
    }
    both = [bv.open(tile, axes="czyx") for tile in tiles]
    fused = np.asarray(bv.fuse(both, table))
    for c in range(2):
        np.testing.assert_array_equal(fused[c], bv.fuse([t[c] for t in tiles], table))
    corrected = [bv.open(t[0]) / np.float32(2) for t in tiles]
    written = [(t[0] / np.float32(2)).astype("f4") for t in tiles]
    np.testing.assert_array_equal(bv.fuse(corrected, table), bv.fuse(written, table))


@pytest.mark.parametrize("step", [0.3, 3.0])
def test_a_single_tile_of_many_wobbles(step):
    """The others do not move, and do not hold it back."""
    rng = np.random.default_rng(0)
    n, count = 30, 5
    moved = np.zeros((count, n, 2))
    moved[1] = np.cumsum(rng.normal(0, step, (n, 2)), axis=0)
    links = []
    for i, j in itertools.pairwise(range(count)):
        away = moved[j] - moved[i] + rng.normal(0, 0.03, (n, 2))
        links.append(SliceLinks.of([(i * n + z, j * n + z) for z in range(n)], away, [70.0] * n))
    found = movements([n] * count, links, None, REACH)[0].reshape(count, n, 2)
    assert abs(found - moved).max() < 0.2


V = np.zeros((2, 8, 8), "u1")
ROWS = {"tile": [0, 0], "slice": [0, 1], "z": [0, 1], "y": [0, 0], "x": [0, 0]}


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: bv.fuse([V, V], ROWS), "do not count all 4 slices of 2 tiles in order"),
        (lambda: bv.fuse([V], ROWS | {"slice": [1, 0]}), "do not count all 2 slices"),
        (lambda: bv.fuse([V], ROWS | {"y": [0, np.nan]}), "missing, NaN or infinite"),
        (lambda: bv.fuse([V], ROWS | {"y": [0, "a"]}), "an entry is not a number"),
        (
            lambda: bv.fuse([V], ROWS | {"y": [0]}),
            "columns of the shapes .*y: .1,.*one number for each",
        ),
        (
            lambda: bv.fuse([V], ROWS | {"z": [4, 6]}),
            "z=6 for slice 1 of tile 0, but its first .* z=4",
        ),
        (lambda: bv.fuse([V[0]], ROWS), "tile 0 has the axes y x"),
        (lambda: bv.fuse([bv.open(V)], ROWS, physical=True), "physical=True does not go with"),
        (lambda: bv.fuse([bv.open(V[None][[0, 0]], axes="tzyx")], ROWS), "without time points"),
        (lambda: bv.register_tiles([V[0]], [(0, 0)], model="slices"), "axes z y x .here y x"),
        (
            lambda: bv.register_tiles([V], [(0, 0, 0)], model="slices", subvoxel=False),
            "and subvoxel=True",
        ),
        (
            lambda: bv.register_tiles([V], 2 * np.eye(3, 4)[None], model="slices"),
            "positions without matrices",
        ),
        (
            lambda: bv.register_tiles([V], [(0, 0, 0)], model="bent"),
            "use one of translation, rigid, affine, slices",
        ),
    ],
)
def test_refusals(call, problem):
    with pytest.raises(ValueError, match=problem):
        call()


@pytest.mark.parametrize(
    ("dtype", "problem"), [("?", "bool tiles cannot"), ("i8", "of int64 are not")]
)
def test_dtypes_that_interpolation_would_change(dtype, problem):
    with pytest.raises(TypeError, match=problem):
        bv.fuse([V.astype(dtype)], ROWS, dtype="f8")


def test_a_tile_without_links_of_slices(tmp_path, monkeypatch, capsys):
    """It has the translation of the whole tile, with a warning; a single tile needs no link."""
    tiles, _ = stage("jitter")
    with monkeypatch.context() as patch:
        patch.setattr(of_tiles, "MIN_ALONE", 1e9)  # no slice is linked
        with pytest.warns(
            UserWarning,
            match="any slice of 2 of 2 tiles, which have one translation for all slices: 0, 1$",
        ):
            table, _ = bv.register_tiles(tiles[:2], PLACES[:2], model="slices", **HOW)
    plain, _ = bv.register_tiles(tiles[:2], PLACES[:2], **HOW)
    assert table["x"].to_pylist() == np.repeat(plain["x"].to_pylist(), COUNT).tolist()
    monkeypatch.chdir(tmp_path)
    bv.compute(bv.open(tiles[0]).to("0.zarr"), runner=None)
    (tmp_path / "tiles.csv").write_text("path,z,y,x\n0.zarr,0,0,0\n")
    assert main(["register-tiles", "tiles.csv", "-o", "a.csv", "--model", "slices"]) == 0
    dark = [np.where(np.arange(COUNT)[:, None, None] == 5, 100, t).astype("u1") for t in tiles]
    for k, tile in enumerate(dark[:2]):  # an empty slice is no failure
        bv.compute(bv.open(tile).to(f"dark{k}.zarr"), runner=None)
    (tmp_path / "tiles.csv").write_text("path,z,y,x\ndark0.zarr,0,0,0\ndark1.zarr,0,0,62\n")
    words = ["--model", "slices", "--max-shift", "8", "--min-quality", "0.3", "--overwrite"]
    assert main(["register-tiles", "tiles.csv", "-o", "a.csv", *words]) == 0
    capsys.readouterr()
    (tmp_path / "r.yaml").write_text(
        "input: tiles.csv\nregister: {register_tiles: {model: slices, table: b.csv, report: b.html}}\n"
        "steps: {fuse: {transforms: b.csv}}\noutput: o.zarr\n"
    )
    for words in (["run", "r.yaml", "--dry-run"], ["run", "r.yaml"]):
        assert main(words) == 2
        assert "report needs a row for each tile" in capsys.readouterr().err


def test_chunks_of_slices_are_read_together(tmp_path, monkeypatch):
    """A plane of the maximum size is not read one by one from chunks of many slices."""
    tiles, _ = stage("jitter")
    expected, _ = bv.register_tiles(tiles[:2], PLACES[:2], model="slices", **HOW)
    monkeypatch.setattr(of_tiles, "_MAX_PLANE", 3500)
    calls = []
    compared = of_tiles.TilePairs._compared
    monkeypatch.setattr(
        of_tiles.TilePairs, "_compared", lambda *a: [calls.append(a[2]), compared(*a)][1]
    )
    table, _ = bv.register_tiles(tiles[:2], PLACES[:2], model="slices", **HOW)
    assert len(calls) == 5 and table.to_pyarrow().equals(expected.to_pyarrow())


def test_the_command_and_recipes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiles, _ = stage("jitter")
    rows = "path,z,y,x\n"
    for k, (tile, place) in enumerate(zip(tiles[:2], PLACES.tolist(), strict=False)):
        bv.compute(bv.open(tile).to(f"{k}.zarr"), runner=None)
        rows += f"{k}.zarr,{','.join(map(str, place))}\n"
    (tmp_path / "tiles.csv").write_text(rows)
    words = ["--model", "slices", "--max-shift", "8", "--min-quality", "0.3"]
    assert main(["register-tiles", "tiles.csv", "-o", "a.csv", *words]) == 0
    assert main(["register-tiles", "tiles.csv", "--report", "a.html", *words]) == 2
    assert "report needs a row for each tile" in capsys.readouterr().err
    (tmp_path / "r.yaml").write_text(
        "input: tiles.csv\n"
        "register: {register_tiles: {model: slices, max_shift: 8, min_quality: 0.3, table: b.csv}}\n"
        "steps: {fuse: {transforms: b.csv}}\noutput: o.zarr\n"
    )
    assert main(["run", "r.yaml"]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    table, _ = bv.register_tiles(tiles[:2], PLACES[:2], model="slices", **HOW)
    np.testing.assert_array_equal(bv.open("o.zarr"), bv.fuse(tiles[:2], table))


def of_links(kind, grid, n, share, seed):
    """Links of a grid of tiles, some of which are anywhere, and the movements of their slices."""
    rng = np.random.default_rng(seed)
    tiles = list(itertools.product(*map(range, grid)))
    shape = (len(tiles), n, 2)
    moved = rng.normal(0, 1, shape)
    if kind == "drift":
        moved = np.cumsum(0.4 * moved, axis=1)
    moved -= moved.mean(axis=1, keepdims=True)
    links = []
    for i, j in itertools.combinations(range(len(tiles)), 2):
        if abs(np.subtract(tiles[i], tiles[j])).max() > 1:
            continue
        away = moved[j] - moved[i] + rng.normal(0, 0.05, (n, 2))
        is_wrong = rng.random(n) < share
        away[is_wrong] = rng.uniform(-8, 8, (is_wrong.sum(), 2))
        links.append(SliceLinks.of([(i * n + z, j * n + z) for z in range(n)], away, [50.0] * n))
    return links, moved


@pytest.mark.parametrize("grid", [(1, 2), (2, 2), (3, 3)])
@pytest.mark.parametrize("kind", ["jitter", "drift"])
def test_wrong_links_of_slices_are_not_worse_than_the_tile(kind, grid):
    """At 30 % of all links; right links alone move all slices, also of two tiles of two slices."""
    for n, share in itertools.product((2, 3, 16), (0, 0.3)):
        if share and n < 16 and grid == (1, 2):
            continue  # nothing shows which of two links is wrong
        ours, tile = [], []
        for seed in range(8 if n < 16 else 3):
            links, moved = of_links(kind, grid, n, share, seed)
            found, used = movements([n] * len(moved), links, None, np.array([8.0, 8.0]))
            away = found.reshape(moved.shape) - moved
            ours.append(((away - away.mean(axis=0)) ** 2).mean())
            tile.append(((moved - moved.mean(axis=0)) ** 2).mean())
            assert len(used) == sum(len(one.ends) for one in links)
        # Without loops, a slice that moves farther than all others is like one with a wrong link.
        assert np.mean(ours) < np.mean(tile) * (1 if share else 0.15 if grid == (1, 2) else 0.1)


def moved_slices(kind, count, n, rng):
    """The movements of slices, (tiles, slices, 2): none, noise, a drift, steps, or single jumps."""
    moved = rng.normal(0, {"jitter": 1, "noise": 0.3, "drift": 0.4}.get(kind, 0), (count, n, 2))
    turns = rng.uniform(0, 2 * np.pi, moved[:, 3::4].shape[:2])
    jumps = 3 * np.stack([np.cos(turns), np.sin(turns)], axis=-1)
    if kind in ("steps", "jumps"):
        moved[:, 3::4] = jumps
    if kind in ("steps", "drift"):
        moved = np.cumsum(moved, axis=1)
    return moved - (np.median if kind == "jumps" else np.mean)(moved, axis=1, keepdims=True)


@pytest.mark.parametrize("share", [0, 0.05, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("grid", [(1, 2), (1, 3)])
def test_tiles_in_a_row_are_not_worse_than_the_tile(grid, share):
    """But for at most two of 60 cases, such as three slices with wrong links that agree by chance."""
    worse, ours, tile, used_links = 0, [], [], []
    kinds = ("still", "jitter", "noise", "drift", "steps", "jumps")
    for kind, n, seed in itertools.product(kinds, (3, 6, 12, 16, 40), range(2)):
        rng = np.random.default_rng([seed, n, len(kind), int(100 * share)])
        links, before = of_links("jitter", grid, n, 0, seed)
        moved = moved_slices(kind, len(before), n, rng)
        change, is_wrong = (moved - before).reshape(-1, 2), []
        for one in links:
            one.away[:] += change[one.ends[:, 1]] - change[one.ends[:, 0]]
            is_wrong.append(rng.random(n) < share)
            one.away[is_wrong[-1]] = rng.uniform(-8, 8, (is_wrong[-1].sum(), 2))
        found, used = movements([n] * len(moved), links, None, np.array([8.0, 8.0]))
        away = found.reshape(moved.shape) - moved
        ours.append(((away - away.mean(axis=0)) ** 2).mean())
        tile.append(((moved - moved.mean(axis=0)) ** 2).mean())
        worse += ours[-1] ** 0.5 > tile[-1] ** 0.5 + 0.05
        used_links.append([used[np.concatenate(is_wrong)].sum(), np.concatenate(is_wrong).sum()])
    wrong, every = np.sum(used_links, axis=0)
    assert worse <= 2 and wrong <= 0.2 * every and np.mean(ours) < 0.7 * np.mean(tile)


def test_few_links_must_agree_with_the_distance_of_the_tiles():
    """Unless slices decide where a tile is."""
    ends, reach = [(z, 3 + z) for z in range(3)], np.array([8.0, 8.0])
    for away, is_used in (([0.9, 0.0, 0.05], False), ([0.9, -0.5, -0.4], True)):
        links = [SliceLinks.of(ends, np.array([(0, x) for x in away]), [50.0] * 3)]
        found, used = movements([3, 3], links, None, reach)
        assert used.all() == used.any() == found.any() == is_used
        assert movements([3, 3], links, None, reach, {1})[1].all()


def test_slices_without_links_are_missing_in_the_mean_of_few_links():
    """The mean of the other links is not 0, although these are right."""
    reach = np.array([8.0, 8.0])
    for counts, shift in (([8, 8], 0), ([9, 8], 1)):
        ends = [(z + shift, counts[0] + z) for z in range(5)]
        away = np.array([(0, x) for x in (0.4, -0.1, 0.3, 0.2, 0.1)])
        links = [SliceLinks.of(ends, away, [50.0] * 5)]
        assert movements(counts, links, None, reach)[1].all()


def test_right_links_of_few_slices_are_kept():
    """Of three to eight slices, whose movements have a mean of 0, although links are not probable."""
    used_links = np.zeros(2)
    for n, seed in itertools.product((3, 4, 6, 8), range(10)):
        links, _ = of_links("jitter", (1, 3), n, 0, seed)
        used = movements([n] * 3, links, None, np.array([8.0, 8.0]))[1]
        used_links += used.sum(), len(used)
    assert used_links[0] >= 0.96 * used_links[1]


def test_a_precise_link_does_not_outvote_others():
    """Its error is not that of its alignment if it is wrong."""
    links, moved = of_links("jitter", (2, 3), 8, 0, 0)
    links = [
        SliceLinks(k.ends, k.away, np.full(8, 0.3 if n else 0.03)) for n, k in enumerate(links)
    ]
    links[0].away[4] += [2.3, -0.7]
    _, used = movements([8] * len(moved), links, None, np.array([8.0, 8.0]))
    assert np.flatnonzero(~used).tolist() == [4]


def test_links_that_contradict_each_other_as_much_are_not_used():
    """One of three links is wrong, and each is as probable as the others."""
    links, _ = of_links("jitter", (2, 2), 16, 0, 0)
    links = [one for one in links if not (one.ends // 16 == 3).any()]
    links[1].away[5] = links[0].away[5] + links[2].away[5] + [1.5, 0]
    _, used = movements([16] * 3, links, None, np.array([8.0, 8.0]))
    assert np.flatnonzero(~used).tolist() == [5, 21, 37]


def test_two_links_that_agree_far_from_others_may_be_wrong():
    """If other links are wrong, too, and the slice has no further links."""
    n = 12
    for is_clean in (True, False):
        links, moved = of_links("jitter", (2, 2), n, 0, 0)
        change = -moved.reshape(-1, 2)
        for one in links:
            one.away[:] += change[one.ends[:, 1]] - change[one.ends[:, 0]]
        links = [k for k in links if k.ends[0].tolist() not in ([0, 3 * n], [n, 2 * n])]
        for k in () if is_clean else range(3, 11):
            links[k % 4].away[k] = 6 * np.array([np.cos(k), np.sin(k)])
        for one in links[2:]:
            one.away[1] += [3.3, -0.5]
        found, _ = movements([n] * 4, links, None, np.array([8.0, 8.0]))
        assert (np.linalg.norm(found[3 * n + 1]) > 2) == is_clean


@pytest.mark.parametrize("grid", [(2, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("kind", ["every", "alike", "steps", "one", "still"])
def test_jumps_are_no_wrong_links(kind, grid):
    """Loops confirm all of them, so all links are used; few wrong links change little."""
    for n, seed in itertools.product((2, 5, 16, 40), range(2)):
        rng = np.random.default_rng(seed)
        links, moved = of_links("jitter", grid, n, 0, seed)
        jumps = np.zeros(moved.shape)
        turns = rng.uniform(0, 2 * np.pi, moved.shape[:2])
        if kind == "alike":
            turns[:] = turns[:, :1]
        steps = 3 * np.stack([np.cos(turns), np.sin(turns)], axis=-1)
        if kind == "one":
            jumps[-1, n // 2] = 2 * steps[-1, n // 2]
        elif kind != "still":
            jumps[:, 3::4] = steps[:, 3::4]
        if kind == "steps":
            jumps = np.cumsum(jumps, axis=1)
        jumps -= jumps.mean(axis=1, keepdims=True)
        change = (jumps - moved).reshape(-1, 2)
        for one in links:
            one.away[:] += change[one.ends[:, 1]] - change[one.ends[:, 0]]
        found, used = movements([n] * len(moved), links, None, np.array([8.0, 8.0]))
        away = found.reshape(moved.shape) - jumps
        assert used.all() and np.sqrt(((away - away.mean(axis=0)) ** 2).mean()) < 0.05
        links[0].away[n // 2] += [5, -6]
        found, used = movements([n] * len(moved), links, None, np.array([8.0, 8.0]))
        away = found.reshape(moved.shape) - jumps
        assert np.sqrt(((away - away.mean(axis=0)) ** 2).mean()) < 0.05
        assert np.flatnonzero(~used).tolist() == [n // 2]


@pytest.mark.parametrize("grid", [(1, 2), (2, 2), (3, 3)])
def test_errors_of_links_are_no_movements(grid):
    """Tiles that do not move are moved by less than a fifth of the errors of their links."""
    for seed in range(4):
        links, _ = of_links("jitter", grid, 16, 0, seed)
        rng = np.random.default_rng(seed)
        links = [
            SliceLinks(one.ends, rng.normal(0, 0.5, one.away.shape), np.full(len(one.ends), 0.5))
            for one in links
        ]
        found, _ = movements([16] * int(np.prod(grid)), links, None, np.array([8.0, 8.0]))
        assert np.sqrt((found**2).mean()) < 0.1


def test_jumps_of_two_tiles_are_found():
    """No loop confirms the links of two tiles that jump every fourth slice, but the next slices do."""
    for n in (15, 39):
        links, moved = of_links("drift", (1, 2), n, 0, 0)
        jumps = np.zeros(moved.shape)
        jumps[:, 3::4] = np.random.default_rng(1).normal(0, 2, jumps[:, 3::4].shape)
        jumps = np.cumsum(jumps, axis=1)
        change = (jumps - moved).reshape(-1, 2)
        links[0].away[:] += change[links[0].ends[:, 1]] - change[links[0].ends[:, 0]]
        found, used = movements([n] * 2, links, None, np.array([8.0, 8.0]))
        away = found.reshape(moved.shape) - jumps
        away -= away.mean(axis=0)
        assert used.all() and abs(away).max() < 0.3


def test_tiles_with_links_that_contradict_each_other_do_not_move():
    """The others do, and a jump that two tiles see is no wrong link."""
    n, rng = 20, np.random.default_rng(0)
    links, moved = of_links("drift", (2, 3), n, 0, 0)
    wrong = [
        SliceLinks(one.ends, rng.uniform(-8, 8, one.away.shape), one.errors)
        if 5 in one.ends[0] // n
        else one
        for one in links
    ]
    found, used = movements([n] * 6, wrong, None, np.array([8.0, 8.0]))
    found = found.reshape(moved.shape)
    ends = np.concatenate([one.ends // n for one in wrong])
    assert not found[5].any() and not used[(ends == 5).any(axis=1)].any()
    away = (found - moved)[:5]
    assert abs(away - away.mean(axis=0)).max() < 0.2
    for one in links:  # slice 7 of tile 1 jumps
        for side, sign in ((0, -1), (1, 1)):
            one.away[one.ends[:, side] == n + 7] += sign * np.array([6.0, -5.0])
    moved[1, 7] += [6, -5]
    found, used = movements([n] * 6, links, None, np.array([8.0, 8.0]))
    away = found.reshape(moved.shape) - moved
    assert abs(away - away.mean(axis=0)).max() < 0.2 and used.all()


@pytest.mark.parametrize("count", [2, 6])
def test_few_slices_link_tiles_that_do_not_match_as_a_whole(count, monkeypatch):
    """Their positions follow from the slices, without a warning; saturated and NaN tiles have none."""
    monkeypatch.setattr("tests.ops.test_tile_slices.COUNT", count)
    tiles, true = stage("jitter", seed=2)
    given = np.add(PLACES, [[0, 0, 0], [0, 5, -4], [0, 0, 0], [0, -3, 5]])
    plain = of_tiles.TilePairs.link
    monkeypatch.setattr(  # tiles 1 and 3 do not match
        of_tiles.TilePairs,
        "link",
        lambda self, pair: replace(plain(self, pair), evidence=-np.inf if {1, 3} & {*pair} else 99),
    )
    table, _ = bv.register_tiles(tiles, given, model="slices", **HOW)
    assert errors(table, true).max() < 0.3
    bad = [*tiles[:2], np.full(tiles[2].shape, 255, "u1"), np.full(tiles[3].shape, np.nan, "f4")]
    with pytest.warns(UserWarning, match=r"no link for 2 of 4 tiles, .*: 2, 3; no valid .* of 3"):
        table, _ = bv.register_tiles(bad, given, model="slices", **HOW)
    assert np.array(table["links"].to_pylist()).reshape(4, -1)[:2].all()


def test_the_plan_counts_the_work_of_slices(tmp_path, monkeypatch):
    """Of planes and their voxels, and of the sweeps that read them; tiles differ along all axes."""
    rng = np.random.default_rng(0)
    shapes, places = [(9, 40, 50), (6, 44, 38), (12, 30, 60)], [(0, 0, 0), (2, 3, 31), (-3, 22, 5)]
    tiles = []
    for k, shape in enumerate(shapes):
        bv.compute(
            bv.open(rng.integers(0, 99, shape, "u1")).to(tmp_path / f"{k}.zarr"), runner=None
        )
        tiles.append(bv.open(tmp_path / f"{k}.zarr"))
    voxels, sweeps = [], []
    compare, compared = of_tiles.matched, of_tiles.TilePairs._compared
    monkeypatch.setattr(
        of_tiles,
        "matched",
        lambda a, b, *more, **how: [
            a.ndim == 2 and voxels.append(max(a.size, b.size)),
            compare(a, b, *more, **how),
        ][1],
    )
    monkeypatch.setattr(
        of_tiles.TilePairs,
        "_compared",
        lambda self, k, box, factors: [sweeps.append(box), compared(self, k, box, factors)][1],
    )
    for limit in (1 << 20, 300):  # planes together, and one by one and downsampled
        monkeypatch.setattr(of_tiles, "_MAX_PLANE", limit)
        plain = of_tiles.needs_of_tiles(tiles, places, max_shift=4)
        needs = of_tiles.needs_of_tiles(tiles, places, max_shift=4, model="slices")
        voxels.clear()
        sweeps.clear()
        with pytest.warns(UserWarning, match="no link"):  # places are as given
            bv.register_tiles(tiles, places, max_shift=4, model="slices")
        assert needs.planes == (len(voxels), sum(voxels))
        assert plain.planes == (0, 0) and plain.compared_in_all == needs.compared_in_all
        boxes = sweeps[1:]  # without the one of the plan
        assert needs.runs == len(boxes)
        read = sum(np.prod([s.stop - s.start for s in box]) for box in boxes)
        largest = max(np.prod([s.stop - s.start for s in box]) for box in boxes[: plain.runs])
        assert needs.sweeps * largest == pytest.approx(read)
        assert needs.nanoseconds > plain.nanoseconds + 1000 * sum(voxels)
