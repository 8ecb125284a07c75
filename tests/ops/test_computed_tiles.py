"""Fusion of computed tiles: the same bits as of these tiles when they are stored first."""

import pickle
import time
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
import yaml

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.drive.compute import plan_run
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.sources import tiles as sources
from tests.catalogue import voxels

SHAPE = (13, 33, 40)
PLACES = np.array([(0, 0, 0), (1.5, 0, 26), (0, 20, 0), (-2, 20.25, 27)])
RNG = np.random.default_rng(0)
DARK = RNG.integers(0, 60, SHAPE[1:]).astype("u1")
FLAT = 0.5 + RNG.random(SHAPE[1:], np.float32)


CHAINS = {
    "flat field": lambda t: (t - DARK) / FLAT,
    "volumes": lambda t: (t - bv.open(DARK)) / bv.open(FLAT[None].repeat(SHAPE[0], 0)),
    "cast": lambda t: np.clip((t - np.float32(3)) / FLAT, 0, 200).astype("u1"),
    "half": lambda t: (t / np.float32(7)).astype("f2"),
    "double": lambda t: np.exp(t.astype("f8") / 300),
    "twice": lambda t: np.maximum(t, 9) * np.sqrt(t.astype("f4")) + t,
    "gaussian": lambda t: bv.gaussian_filter((t - DARK) / FLAT, (1, 2, 0.5)),
    "background": lambda t: t.astype("f4") - bv.uniform_filter(t, 15, mode="nearest"),
    "median": lambda t: bv.median_filter(t, 3),
    "constant": lambda t: bv.maximum_filter(t, (1, 5, 3), mode="constant", cval=99),
    "wrap": lambda t: bv.gaussian_filter(t + 1, 1, mode="wrap"),
    "map": lambda t: bv.map_overlap(lambda a: a[1:-1, 1:-1, 1:-1] * 2, t, depth=1, dtype="u2"),
    "crop": lambda t: (bv.median_filter(t, 3) + t)[2:, :, 3:],
    "coarse": lambda t: bv.downsample(t + DARK, (1, 2, 2)),
    "turned": lambda t: bv.rotate(t + DARK, 20, axes=(1, 2), reshape=False),
    "edges": lambda t: bv.pad(t + DARK, 2, "edge"),
}  # fmt: skip


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    place = tmp_path_factory.mktemp("tiles")
    for k in range(4):
        tile = voxels(SHAPE, "u2", k)
        bv.compute(bv.open(tile).to(place / f"{k}.zarr", chunks=(5, 16, 16)), progress=False)
    return [bv.open(place / f"{k}.zarr") for k in range(4)]


def stored(tiles, place):
    bv.compute(*(t.to(place / f"{k}.zarr") for k, t in enumerate(tiles)), progress=False)
    return [bv.open(place / f"{k}.zarr") for k in range(len(tiles))]


def check(tiles, place, slabs=((4, 13, 50), (30, 9, 7)), **how):
    """Compare any slabs of the computed tiles with the stored tiles."""
    wanted = np.asarray(bv.fuse(stored(tiles, place), PLACES[: len(tiles)], **how))
    fused = bv.fuse(tiles, PLACES[: len(tiles)], **how)
    for slab in (None, *slabs):
        got = bv.compute(fused, runner=None, slab=slab)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    return fused


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_as_if_they_were_stored(name, opened, tmp_path, monkeypatch):
    """In blocks that cut chunks and halos."""
    monkeypatch.setattr(sources, "CELL_BYTES", 1 << 15)
    fused = check([CHAINS[name](t) for t in opened], tmp_path)
    assert fused.node.source.chunk != fused.shape


@pytest.mark.parametrize("name", ["flat field", "turned"])
def test_in_one_block(name, opened, tmp_path):
    fused = check([CHAINS[name](t) for t in opened], tmp_path)
    assert fused.node.source.chunk == fused.shape


@pytest.mark.parametrize("blending", ["linear", "cosine", "max", "mean", "first"])
def test_masks_and_values_without_data(blending, opened, tmp_path):
    """Masks are computed as well; stored, computed and masked tiles are mixed."""
    tiles = [np.maximum(t, 60) - 60 for t in opened]
    masks = [None, tiles[1] > 90, bv.binary_erosion(opened[2] > 80)]
    masks.append(np.broadcast_to(DARK > 20, SHAPE))
    how = {"blending": blending, "nodata": 0, "gain": [1, 1.5, 0.5, 2], "fill": 7}
    wanted = np.asarray(
        bv.fuse(
            [np.asarray(t) for t in tiles],
            PLACES,
            **how,
            mask=[m if m is None else np.asarray(m) for m in masks],
        )
    )
    mixed = [tiles[0], np.asarray(tiles[1]), *stored(tiles[2:], tmp_path)]
    for each in (tiles, mixed):
        fused = bv.fuse(each, PLACES, mask=masks, **how)
        for slab in (None, (4, 13, 50)):
            np.testing.assert_array_equal(bv.compute(fused, runner=None, slab=slab), wanted)


def test_bool_tiles_planes_channels_and_tiles_that_do_not_overlap(opened, tmp_path):
    check([t > 900 for t in opened], tmp_path / "bool", order=0, blending="max")
    image = voxels((3, 20, 30), "u1", 2)
    left, right = (bv.open(image[..., s], axes="cyx") for s in (np.s_[:18], np.s_[18:]))
    flat = np.float32([1, 2, 4])[:, None, None]
    fused = bv.fuse([left / flat, right / flat], [(0, 0), (0, 18)])
    np.testing.assert_array_equal(np.asarray(fused), image / flat)
    red, green = (left.sel(c=k) for k in (0, 1))  # of one chunk
    ratio = bv.fuse([np.maximum(red, green) - green], [(0, 0)])
    difference = np.maximum(image[0], image[1]) - image[1]
    np.testing.assert_array_equal(np.asarray(ratio), difference[:, :18])
    bv.compute(bv.open(image, axes="cyx").to(tmp_path / "c.tif"))
    parts = [bv.open(tmp_path / "c.tif", index={"c": k}) for k in (0, 1)]
    one = bv.fuse([np.maximum(*parts) - parts[1]] * 2, [(0, 0), (0, 0)], blending="first")
    np.testing.assert_array_equal(np.asarray(one), difference)


MOVIE = (3, 9, 20, 24)
FRAMES = {
    "plain": lambda t: t + 1,
    "array of a plane": lambda t: (t - DARK[:20, :24]) / FLAT[:20, :24],
    "filter": lambda t: bv.gaussian_filter(t / np.float32(2), (1, 2, 0.5)),
    "crop": lambda t: (bv.median_filter(t, 3) + t)[:, 1:, :, 2:],
    "points": lambda t: (t * 2)[1:],
    "one point": lambda t: t[2:] + 1,
    "flat field with zeros": lambda t: t / np.where(FLAT > 0.9, FLAT, 0)[:20, :24],
    "dark points": lambda t: t - bv.open(voxels(MOVIE, "u1", 9), axes="tzyx"),
    "fused": lambda t: bv.fuse([t, t + 1], [(0, 0, 0), (1, 3, 2)]) - np.float32(0.5),
}  # fmt: skip


@pytest.fixture(scope="module")
def movies(tmp_path_factory):
    place = tmp_path_factory.mktemp("movies")
    for k, chunk in enumerate(((1, 4, 8, 8), (2, 5, 16, 9))):  # the second has two time points
        spec = {
            "driver": "zarr3",
            "kvstore": f"file://{place}/{k}.zarr",
            "metadata": {
                "shape": MOVIE,
                "data_type": "uint16",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            },
        }
        ts.open(spec, create=True).result()[...] = voxels(MOVIE, "u2", k)
    return [bv.open(place / f"{k}.zarr", axes="tzyx") for k in range(2)]


@pytest.mark.parametrize("per_frame", [False, True])
@pytest.mark.parametrize("name", FRAMES)
def test_time_points(name, per_frame, movies, monkeypatch):
    """As if each time point was computed, stored and fused by itself."""
    tiles = [FRAMES[name](t) for t in movies]
    times = tiles[0].shape[0]
    places = [[(0, 0, 0), (0.5 + k, 2 - 3 * k, 15)] for k in range(times)]
    shared = [(0, 0, 0), (1.5, -1, 15)]
    each = places if per_frame else [shared] * times
    shape = (14, 36, 46)
    wanted = np.stack(
        [
            np.asarray(bv.fuse([np.asarray(t[k]) for t in tiles], each[k], shape=shape, fill=3))
            for k in range(times)
        ]
    )
    for cell in (sources.CELL_BYTES, 1 << 12):
        monkeypatch.setattr(sources, "CELL_BYTES", cell)
        given = places if per_frame else shared
        fused = bv.fuse(tiles, given, per_frame=per_frame, shape=shape, fill=3)
        assert fused.axes == ("t", "z", "y", "x") and fused.shape == (times, *shape)
        for slab in (None, (4, 13, 50)):
            np.testing.assert_array_equal(bv.compute(fused, runner=None, slab=slab), wanted)
        np.testing.assert_array_equal(np.asarray(fused[-1]), wanted[-1])
        np.testing.assert_array_equal(np.asarray(fused[-1:][0]), wanted[-1])


def test_time_points_of_few_and_of_mixed_tiles(movies, tmp_path):
    """One point; stored, computed and masked tiles; channels; points that differ in number."""
    places = [(0, 0, 0), (0, 0, 15)]
    mask = np.broadcast_to(DARK[:20, :24] > 20, MOVIE[1:])
    masks = [None, bv.binary_erosion(mask, iterations=1)]
    mixed = [movies[0], movies[1] * np.uint16(1)]
    how = {"mask": masks, "nodata": 0, "gain": [1, 2], "blending": "cosine"}
    fused = bv.fuse(mixed, places, **how)
    points = [
        np.asarray(
            bv.fuse(
                [np.asarray(t[k]) for t in movies],
                places,
                **(how | {"mask": [None, np.asarray(masks[1])]}),
            )
        )
        for k in range(MOVIE[0])
    ]
    np.testing.assert_array_equal(bv.compute(fused, runner=None, slab=(5, 9, 9)), np.stack(points))
    single = bv.fuse([t[2:] + 1 for t in movies], [places], per_frame=True)
    assert single.shape[0] == 1
    np.testing.assert_array_equal(
        np.asarray(single[0]), np.asarray(bv.fuse([np.asarray(t[2] + 1) for t in movies], places))
    )
    image = voxels((2, 2, 3, 12, 12), "u1", 5)
    both = [bv.open(image[..., s], axes="tczyx") / np.float32(2) for s in (np.s_[:8], np.s_[5:])]
    found = np.asarray(bv.fuse(both, [(0, 0, 0), (0, 0, 5)]))
    np.testing.assert_array_equal(found, image / np.float32(2))
    with pytest.raises(ValueError, match="tile 1 has 2 time points, and tile 0 3; select"):
        bv.fuse([movies[0] + 1, movies[1][:2] + 1], places)
    with pytest.raises(ValueError, match="tile 0 needs mean, a number of a whole volume"):
        bv.fuse([t - t.mean() for t in movies], places)


def test_time_points_in_a_pipeline_read_only_what_they_need(movies, tmp_path, monkeypatch):
    """The plan counts all points; a point reads no other one, and no chunk of tiles elsewhere."""
    places = [[(0, 0, 0), (0, 0, 15 + k)] for k in range(MOVIE[0])]
    tiles = [bv.gaussian_filter(t / FLAT[:20, :24], 1) for t in movies]
    fused = bv.fuse(tiles, places, per_frame=True)
    planned = plan_run([fused], RunOptions(runner=None))
    one = plan_run([fused[0]], RunOptions(runner=None))
    assert planned.bytes_read == MOVIE[0] * one.bytes_read > 0
    text = planned.explain(verbose=True)
    assert "2 tiles; their chunks are read" in text
    assert "computed in blocks: broadcast, divide, gaussian_filter" in text
    out = tmp_path / "out.zarr"
    bv.compute(fused.to(out, chunks=8), runner="DirectRunner")
    np.testing.assert_array_equal(np.asarray(bv.open(out)), np.asarray(fused))
    again = pickle.loads(pickle.dumps(fused))
    assert again.node.token == fused.node.token
    moved = [[(0, 0, 0), (0, 0, 16 + k)] for k in range(MOVIE[0])]
    for other in (
        bv.fuse([t / 2 for t in movies], places, per_frame=True),
        bv.fuse(tiles, moved, per_frame=True),
    ):
        assert other.node.token != fused.node.token
    boxes = []
    read_here = sources.Source.read_here

    def noted(self, box):
        boxes.append((self.name, box))
        return read_here(self, box)

    monkeypatch.setattr(sources, "CELL_BYTES", 1 << 12)
    monkeypatch.setattr(sources.Source, "read_here", noted)
    fused = bv.fuse(tiles, places, per_frame=True)
    np.asarray(fused[2][:2, :6, :6])
    stored = [(name, box) for name, box in boxes if ".zarr" in name]
    assert {name for name, _ in stored} == {f"{movies[0].node.source.name}[t=2]"}
    with pytest.raises(
        ValueError, match=r"^a numpy array of shape \(3, 9, 300, 300\) is in the mem"
    ):
        wide = bv.open(np.zeros((3, 9, 300, 300), "f4"), axes="tzyx")
        bv.compute(bv.fuse([wide + 1], [(0, 0, 0)]), runner="DirectRunner")


def test_positions_of_tiles_do_not_matter_to_arrays(opened):
    for k, size in enumerate((None, (2, 1, 1))):
        placed = opened[0].with_space(voxel_size=size, unit=size and "um", origin=(6, 32, 32 * k))
        for array in (DARK, DARK[:1], DARK[0], DARK[None], bv.open(DARK)):
            corrected = placed - array
            assert corrected.origin == placed.origin
            assert corrected.voxel_size == placed.voxel_size
        assert bv.fuse([corrected], None if size else [placed.origin]).origin == placed.origin


def test_fused_tiles_and_turned_tiles_are_tiles(opened, tmp_path):
    rows = [bv.fuse(opened[k : k + 2], PLACES[:2]) / np.float32(2) for k in (0, 2)]
    places = [(0, 0, 0), (0, 20, 0)]
    wanted = np.asarray(bv.fuse([np.asarray(r) for r in rows], places))
    np.testing.assert_array_equal(
        bv.compute(bv.fuse(rows, places), runner=None, slab=(5, 20, 20)), wanted
    )
    turned = np.tile(np.eye(3, 4), (2, 1, 1))
    turned[1, 1:, 1:] = [[0.96, -0.28, 10], [0.28, 0.96, 5]]
    tiles = [bv.gaussian_filter(t - DARK, 1) for t in opened[:2]]
    wanted = np.asarray(bv.fuse(stored(tiles, tmp_path), turned))
    got = bv.compute(bv.fuse(tiles, turned), runner=None, slab=(5, 20, 20))
    np.testing.assert_array_equal(got, wanted)


def test_a_pipeline_and_a_run_that_is_resumed(opened, tmp_path):
    fused = bv.fuse([(t - DARK) / FLAT for t in opened], PLACES)
    wanted = np.asarray(fused)
    again = pickle.loads(pickle.dumps(fused))
    assert again.node.token == fused.node.token
    other = bv.fuse([(t - DARK) / (FLAT + 1) for t in opened], PLACES)
    assert other.node.token != fused.node.token
    out = tmp_path / "out.zarr"
    bv.compute(
        bv.gaussian_filter(fused, 1).to(out, chunks=16), runner="DirectRunner", slab=(16, 32, 67)
    )
    np.testing.assert_array_equal(
        np.asarray(bv.open(out)), np.asarray(bv.gaussian_filter(fused, 1))
    )
    np.testing.assert_array_equal(np.asarray(again), wanted)
    target = fused.to(tmp_path / "resumed.zarr", chunks=8)
    how = {"runner": None, "journal": str(tmp_path / "journal"), "slab": (8, 64, 64)}
    bv.compute(target, **how)
    bv.compute(target, **how, resume=True)
    with pytest.raises(ValueError, match="differs in input fusion of 4 tiles"):
        bv.compute(other.to(tmp_path / "resumed.zarr", chunks=8), **how, resume=True)
    there = opened[0].node.source.name
    with pytest.raises(ValueError, match="shares bytes with the input fusion of 4 tiles"):
        bv.compute(fused.to(there), runner=None, overwrite=True)


def test_a_large_array_in_a_tile_is_named_where_workers_cannot_read_it(opened):
    wide = bv.open(np.zeros((13, 300, 300), "f4"))
    dark = np.ones(wide.shape, "f4")
    with pytest.raises(ValueError, match=r"^a numpy array of shape \(13, 300, 300\) is in the mem"):
        bv.compute(
            bv.fuse([opened[0], (wide - dark).astype("u2")], PLACES[:2]), runner="DirectRunner"
        )


def test_a_recipe_corrects_and_fuses(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("flat.npy", FLAT)
    names = {f"t{k}": t.node.source.name for k, t in enumerate(opened)}
    tiles = [f"c{k}" for k in range(4)]
    recipe = {
        "inputs": names | {"flat": "flat.npy"},
        "steps": {
            **{f"c{k}": {"op": "divide", "inputs": [f"t{k}", "flat"]} for k in range(4)},
            "all": {"op": "fuse", "inputs": tiles, "transforms": PLACES.tolist()},
        },
        "output": "fused.zarr",
    }
    Path("r.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    assert main(["run", "r.yaml"]) == 0
    wanted = np.asarray(bv.fuse([t / FLAT for t in opened], PLACES))
    np.testing.assert_array_equal(np.asarray(bv.open("fused.zarr")), wanted)


def test_computed_tiles_are_registered(opened):
    tiles = [t / FLAT for t in opened[:2]]
    places = [(0, 0, 0), (0, 0, 30)]
    with pytest.warns(UserWarning, match="no link"):  # of noise
        table, _ = bv.register_tiles(tiles, places, max_shift=2, progress=False)
    assert np.asarray(table["x"]).tolist() == [0, 30]


def test_only_what_is_needed_is_read(opened, monkeypatch):
    """A slab reads the chunks of its tiles, with halos, and computes no tile elsewhere."""
    boxes = []
    read_here = sources.Source.read_here

    def noted(self, box):
        boxes.append((self.name, box))
        return read_here(self, box)

    monkeypatch.setattr(sources, "CELL_BYTES", 1 << 13)
    monkeypatch.setattr(sources.Source, "read_here", noted)
    fused = bv.fuse([bv.gaussian_filter(t / FLAT, 1) for t in opened], PLACES)
    depth = fused.node.source.chunk[0]
    np.asarray(fused[:depth, :10, :10])
    asked = [(name, box) for name, box in boxes if name.endswith(".zarr")]
    assert {name for name, _ in asked} == {opened[0].node.source.name}
    assert max(box.stop[1] for _, box in asked) <= 10 + 16 + 4


def test_the_plan_counts_what_is_computed(opened):
    few = bv.fuse([t / FLAT for t in opened], PLACES)
    many = bv.fuse([bv.gaussian_filter(t / FLAT, 4) for t in opened], PLACES)
    assert few.node.source.decode_bytes < many.node.source.decode_bytes
    planned = plan_run([many], RunOptions(runner=None))
    assert "4 tiles; their chunks are read" in planned.explain(verbose=True)
    assert "computed in blocks: broadcast, divide, gaussian_filter" in planned.explain(verbose=True)
    assert any("Correlate" in k or "Separable" in k for k in planned.kernels)


def test_many_tiles_are_planned_fast(opened):
    places = np.stack(np.meshgrid(*[np.arange(10) * 30] * 3, indexing="ij"), -1).reshape(-1, 3)
    bv.plan(bv.fuse([t / FLAT for t in opened], PLACES))
    begun = time.process_time()
    tiles = [bv.gaussian_filter((opened[k % 4] - DARK) / FLAT, 1) for k in range(1000)]
    fused = bv.fuse(tiles, places)
    bv.plan(fused, memory="1GB")
    assert time.process_time() - begun < 5
    assert len(pickle.dumps(fused)) < 4 << 20
