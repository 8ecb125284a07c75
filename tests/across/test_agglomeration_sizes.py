"""The memory of an agglomeration or of floods in a plan, compared with the smallest memory that suffices."""

import functools

import numpy as np
import pytest
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.across.rounds.agglomeration import Agglomeration
from beam_volumes.across.rounds.chains import chained, through
from beam_volumes.across.rounds.cutting import Cutting, Marking
from beam_volumes.across.rounds.floods import Floods
from beam_volumes.across.rounds.flow import run
from beam_volumes.base.geometry import Grid
from tests.plan.test_plan import lazy

SHAPES = [(256, 48, 48), (48, 112, 112)]
#: A plane, and stacks with fewer layers of regions than stay open between two ranges of labels.
THIN = [(1, 200, 200), (8, 120, 120)]


@functools.cache
def volume(shape):
    """Basins of smooth noise, and affinities that are low between them."""
    noise = np.random.default_rng(0).random(shape, "f4")
    smooth = ndimage.gaussian_filter(noise, 1.6)
    heights = np.argsort(np.argsort(smooth, None)).reshape(shape) / smooth.size
    return bv.open(heights.astype("f4")), bv.open(np.round(255 * (1 - heights)).astype("u1"))


def targets(shape, linkage):
    heights, affinities = volume(shape)
    edges = bv.region_adjacency(bv.watershed(heights), affinities=bv.stack([affinities] * 3))
    merges = bv.agglomerate(edges, linkage, threshold=140)
    return edges, merges, bv.cut(merges)


def columns_of(table):
    return {name: np.asarray(c) for name, c in table.to_pyarrow().to_pydict().items()}


@functools.cache
def edges_of(shape):
    return columns_of(targets(shape, "mean")[0])


@functools.cache
def passes_of(shape):
    """The passes between basins, and their levels."""
    heights, _ = volume(shape)
    passes = columns_of(bv.region_adjacency(bv.watershed(heights), heights))
    label = np.arange(1, max(passes["label_b"]) + 1, dtype=np.uint64)
    return passes, {"label": label, "low": np.random.default_rng(0).random(len(label))}


def shards(columns, count=4):
    parts = np.array_split(np.arange(len(next(iter(columns.values())))), count)
    return [((k,), {name: c[rows] for name, c in columns.items()}) for k, rows in enumerate(parts)]


def smallest(step, *tables):
    """The memory from which on no step is refused, within 10 %."""
    limit, sources = 1 << 28, [through()] * len(tables)
    shares = [shards(columns) for columns in tables]
    given = [
        (key, (first, *(s[k][1] for s in shares[1:]))) for k, (key, first) in enumerate(shares[0])
    ]
    while True:
        try:
            run(chained(sources, [(step, range(len(tables)))], limit), given)
        except ValueError as error:
            assert "a worker has" in str(error)
            return limit / 0.9
        limit = int(0.9 * limit)


def rows_of(step, columns):
    rows = [rows for _, rows in run(step.flow(), shards(columns))["rows"]]
    return {name: np.concatenate([r[name] for r in rows]) for name in rows[0]}


@pytest.mark.parametrize("leaf", [1 << 20, 1 << 10])
@pytest.mark.parametrize("shape", SHAPES + THIN)
def test_steps_of_known_rows_need_about_the_expected_memory(shape, leaf):
    edges = edges_of(shape)
    step = Agglomeration("agglomerate", "mean", 0.5, 140.0, None, False, leaf=leaf)
    n = len(edges["label_a"])
    found, expected = smallest(step, edges), step.likely_bytes([n], shape)
    assert found / 3 < expected < 4 * found  # the expectation is that of large volumes
    assert found <= step.most_bytes([n])
    merges = rows_of(step, edges)
    cut = Cutting("cut", None, leaf=leaf)
    n = len(merges["label_a"])
    found, expected = smallest(cut, merges), cut.likely_bytes([n], shape)
    assert found / 3 < expected < 3 * found
    assert found <= cut.most_bytes([n])


@pytest.mark.parametrize("leaf", [1 << 20, 1 << 10])
@pytest.mark.parametrize("shape", SHAPES + THIN)
def test_floods_need_about_the_expected_memory(shape, leaf):
    tables = passes_of(shape)
    step = Floods("reconstruction", np.dtype("f4"), ("label", "low"), 0.0, leaf=leaf)
    rows = [len(next(iter(columns.values()))) for columns in tables]
    found, expected = smallest(step, *tables), step.likely_bytes(rows, shape)
    assert found / 2 < expected < 2 * found
    assert found <= step.most_bytes(rows)


@pytest.mark.parametrize("shape", SHAPES)
def test_plans_expect_about_the_memory_of_a_run(shape):
    edges = edges_of(shape)
    step = Agglomeration("agglomerate", "mean", 0.5, 140.0, None, False)
    found = smallest(step, edges)
    for table in targets(shape, "mean")[1:]:
        survey = table.barrier.survey
        grid = Grid(shape, (16, 48, 48))
        size = survey.merge_size(grid)
        # The tables of boundaries are merged before.
        found = max(found, *(s.merge_size(grid).expected for s in survey.sources))
        assert found / 3 < size.expected < 3 * found
        assert found <= size.maximum


@pytest.mark.parametrize("linkage", ["mean", "max", "min"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 9), (8, 9, 10), (100_000,) * 3])
def test_plans_expect_no_more_than_the_maximum(shape, linkage):
    """Also if a volume has fewer voxels than usual tables have rows."""
    volume = lazy(shape, chunks=tuple(min(64, n) for n in shape))
    edges = bv.region_adjacency(bv.watershed(volume), affinities=bv.stack([volume] * 3))
    merges = bv.agglomerate(edges, linkage, threshold=140)
    for table in (merges, bv.cut(merges)):
        size = table.barrier.survey.merge_size(Grid(shape, tuple(min(64, n) for n in shape)))
        assert 0 < size.certain <= size.expected <= size.maximum


@pytest.mark.parametrize("rows", [0, 1, 7, 10**9, (1 << 53) + 1])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 9), (10**9, 1, 1), (10**5,) * 3])
def test_any_number_of_rows_has_an_expected_memory(rows, shape):
    """Tables of the user have no volume, and rows of others are only estimated."""
    agglomeration = Agglomeration("agglomerate", "mean", 0.5, 140.0, None, False)
    marking = Marking("mark", np.dtype("u4"), ("label", "low", "high"))
    floods = Floods("reconstruction", np.dtype("f4"), ("label", "low"), 0.0)
    for step, own in (
        (agglomeration, [rows]),
        (Cutting("cut", None), [rows]),
        (marking, [7, rows]),
        (floods, [7, rows]),
        (floods, [rows, 7]),
    ):
        assert 0 <= step.likely_bytes(own, shape) <= step.most_bytes(own)
