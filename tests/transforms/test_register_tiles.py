"""Pairs of tiles as elements: the tables of `register_tiles`, to the bit."""

import apache_beam as beam
import numpy as np
import pytest
import scipy.ndimage as ndi
from apache_beam.testing.util import assert_that

import beam_volumes as bv

FLAT = np.linspace(0.9, 1.1, 50, dtype="f4")


@pytest.mark.parametrize("correct", [lambda t: t, lambda t: bv.gaussian_filter(t / FLAT, 1)])
def test_a_runner_gives_the_same_tables(correct, tmp_path):
    world = ndi.gaussian_filter(np.random.default_rng(0).normal(size=(90, 130)), 2).astype("f4")
    given = [(0, 0), (0, 28), (0, 56), (24, 0), (24, 28)]
    tiles = []
    for k, (y, x) in enumerate(given):
        tile = world[y + k : y + k + 46, x : x + 50]
        stored = bv.compute(bv.open(tile).to(tmp_path / f"{k}.zarr", chunks=16), runner=None)
        tiles.append(correct(stored))
    mask = np.ones((46, 50), bool)
    mask[:4] = False
    masks = [None, bv.compute(bv.open(mask).to(tmp_path / "mask.zarr"), runner=None)] * 2 + [None]
    how = {"model": "rigid", "max_shift": 8, "mask": masks}
    expected = bv.register_tiles(tiles, given, **how)
    assert min(expected[0]["links"].to_pylist()) > 0

    def same(found):
        (tables,) = found
        assert [t.to_pydict() for t in tables] == [t.to_pydict() for t in expected]

    with beam.Pipeline("FnApiRunner") as p:
        before = p | beam.Create([1])
        assert_that(before | bv.RegisterTiles(tiles, given, **how), same)
    with pytest.raises(ValueError, match="is in the memory of this process"):
        bv.RegisterTiles([np.zeros((600, 600))], [(0, 0)])


@pytest.mark.parametrize("content", ["periodic", "sparse"])
def test_tables_of_uncertain_pairs_do_not_depend_on_chunks(content, tmp_path):
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:100, :100]
    if content == "periodic":
        world = 30 * np.sin(y / 2.5) * np.sin(x / 3)
    else:
        world = np.zeros((100, 100))
        world[tuple(rng.integers(0, 100, (2, 60)))] = 400
        world = ndi.gaussian_filter(world, 1.2)
    given = [(0, 0), (0, 40), (40, 0), (40, 40)]
    tiles = [world[i + 2 : i + 58, j : j + 56] for i, j in given]
    tiles = [(100 + t + rng.normal(0, 4, t.shape)).astype("f4") for t in tiles]
    stored = [
        bv.compute(bv.open(t).to(tmp_path / f"{k}.zarr", chunks=16), runner=None)
        for k, t in enumerate(tiles)
    ]
    expected = [t.to_pydict() for t in bv.register_tiles(tiles, given, max_shift=6)]

    def same(found):
        (tables,) = found
        assert [repr(t.to_pydict()) for t in tables] == [repr(t) for t in expected]

    with beam.Pipeline("FnApiRunner") as p:
        before = p | beam.Create([1])
        assert_that(before | bv.RegisterTiles(stored, given, max_shift=6), same)
