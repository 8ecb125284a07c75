"""The whole chain from affinities to segments, against plain references and one slab, however it is cut."""

from collections import Counter
from functools import partial

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest

import beam_volumes as bv
from beam_volumes.across.rounds import components as component_rounds
from beam_volumes.across.rounds.agglomeration import Agglomeration
from beam_volumes.ops.labels import agglomerate, watershed
from tests.ops.test_agglomerate import edges_of, greedy, rows, segmented
from tests.ops.test_watershed import basins_of_affinities, grown
from tests.tiers import thorough

pytestmark = thorough
SHAPE = (10, 13, 15)
LOW, HIGH, SMALLEST, MINIMUM, CUT, MAXIMUM = 30, 245, 6, 90, 110, 400

#: Slab, window, and the tree of labels: rows of a leaf, nodes below one, levels.
CUTS = [
    ((10, 13, 15), 10, (1 << 15, 16, 3)),
    ((3, 5, 6), 2, (40, 2, 3)),
    ((2, 13, 15), 1, (7, 3, 3)),
    ((1, 13, 15), 1, (100, 4, 2)),
    ((5, 4, 4), 5, (60, 16, 1)),
    ((10, 1, 15), 4, (25, 5, 2)),
    ((3, 7, 15), 1, (1, 2, 7)),
]


def likely(shape=SHAPE, seed=0):
    """Affinities of blurred noise, with ties."""
    x = np.random.default_rng(seed).normal(size=(3, *shape))
    for axis in (1, 2, 3):
        x = x + np.roll(x, 1, axis)
    return (np.clip(150 + 35 * x, 0, 255) // 5 * 5).astype(np.uint8)


def chain(affinities):
    """Fragments, boundaries, merges and segments: one request."""
    fragments = bv.watershed_affinities(affinities, LOW, HIGH, min_size=SMALLEST)
    return united(fragments, affinities)


def united(fragments, affinities):
    """What the chain makes of fragments."""
    graph = bv.region_adjacency(fragments, affinities=affinities)
    sizes = bv.regionprops_table(fragments, properties=["num_pixels"])
    merges = bv.agglomerate(graph, "mean", threshold=MINIMUM, sizes=sizes, max_size=MAXIMUM)
    segments = bv.relabel(fragments, bv.cut(merges, CUT), missing="keep", dtype=np.uint32)
    return merges, segments


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Where the affinities lie, and what plain loops and one slab in memory make of them."""
    affinities = likely()
    fragments = grown(basins_of_affinities(affinities, LOW, HIGH), affinities, LOW, SMALLEST)
    sizes = dict(zip(*(a.tolist() for a in np.unique(fragments, return_counts=True)), strict=True))
    merges = greedy(edges_of(fragments, affinities), "mean", MINIMUM, sizes, MAXIMUM)
    segments = segmented(fragments, merges, CUT)
    kinds = [len(np.unique(a)) for a in (fragments, segments)]
    assert len(merges) > 10 and kinds[0] > 2 * kinds[1] > 10, (len(merges), kinds)
    got, in_memory = bv.compute(*chain(affinities), runner=None, slab=SHAPE)
    assert rows(got) == merges
    np.testing.assert_array_equal(in_memory, segments)
    path = tmp_path_factory.mktemp("chain") / "affinities.zarr"
    bv.compute(bv.open(affinities).to(path, chunks=(1, 1, 5, 6)), runner=None)
    return path, merges, segments


def check(monkeypatch, tmp_path, expected, cut, **how):
    """A run that is cut like that gives the same."""
    path, merges, segments = expected
    slab, window, (leaf, radix, levels) = cut
    step = partial(Agglomeration, leaf=leaf, radix=radix, depth=levels)
    for module in (agglomerate, watershed):
        monkeypatch.setattr(module, "Agglomeration", step)
    affinities = bv.open(path)
    table, voxels = chain(affinities)
    targets = table.to(tmp_path / "merges.parquet"), voxels.to(tmp_path / "x.zarr", chunks=slab)
    bv.compute(*targets, slab=slab, window=window, progress=False, **how)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "x.zarr")), segments)
    assert rows(pq.read_table(tmp_path / "merges.parquet")) == merges


@pytest.mark.parametrize("cut", CUTS)
def test_in_process(cut, expected, tmp_path, monkeypatch):
    tree = component_rounds.tree_of
    monkeypatch.setattr(component_rounds, "tree_of", lambda grid, radix: tree(grid, (2, 2, 2)))
    check(monkeypatch, tmp_path, expected, cut, runner=None, workers=2, threads=1)


@pytest.mark.parametrize("cut", [CUTS[2], CUTS[5]])  # all do; they take a minute each
def test_in_a_pipeline(cut, expected, tmp_path, monkeypatch):
    check(monkeypatch, tmp_path, expected, cut, runner="FnApiRunner", workers=2)


def test_few_steps_wait_for_one(tmp_path):
    """Flink takes no more than 64."""
    merges, segments = chain(bv.open(likely()))
    pipeline = beam.Pipeline("FnApiRunner")
    targets = (
        merges.to(tmp_path / "merges.parquet"),
        segments.to(tmp_path / "x.zarr", chunks=(2, 13, 15)),
    )
    _ = pipeline | bv.Compute(*targets, slab=(2, 13, 15))
    steps = pipeline.to_runner_api().components.transforms.values()
    users = Counter(
        name for step in steps if not step.subtransforms for name in set(step.inputs.values())
    )
    assert 2 < max(users.values()) <= 20
