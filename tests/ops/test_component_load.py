"""The memory of the merge of components is reported before it starts."""

import itertools
import re
import tracemalloc

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.across import components as cc
from beam_volumes.across.merge import leaf, merge
from beam_volumes.across.rounds.components import component_flow, tree_of
from beam_volumes.across.rounds.flow import group_by_key, run
from beam_volumes.base.geometry import Grid
from beam_volumes.ops.labels.surveys.component_surveys import EdgeSurvey
from beam_volumes.ops.labels.surveys.merge_estimate import MergeEstimate
from beam_volumes.plan.fit.partitioning import Partitioning
from tests.across.driver import grid_index, summarise
from tests.tiers import examples, thorough

labelling = cc.Labelling(cc.connectivity_structure(1))


def summaries(mask, grid, measures=("size",)):
    cells = itertools.product(*map(range, grid.counts))
    return [summarise(lambda b: mask[b.slices], grid, c, 99, labelling, measures) for c in cells]


def total(load, parts):
    state = load.zero()
    for part in parts:
        state = load.merge(load.of_slab(part), state)
    return state


@settings(max_examples=examples(40))
@given(
    st.tuples(*[st.integers(1, 12)] * 3),
    st.tuples(*[st.integers(1, 12)] * 3),
    st.sampled_from([None, (2, 2, 2), (3, 2, 4)]),
    st.integers(0, 99),
)
def test_no_step_takes_in_more(shape, step, radix, seed):
    mask = np.random.default_rng(seed).random(shape) < 0.3
    grid = Grid(shape, step)
    parts = summaries(mask, grid)
    state = total(MergeEstimate.of(grid, 1, radix), parts)
    tree = tree_of(grid, radix)
    taken = {}

    def watch(pairs):
        groups = group_by_key(pairs)
        for _, values in groups:
            if hasattr(values[0], "summary"):
                node = tree.parent(values[0].summary.key)
                taken[node] = sum(len(v.summary.ids) for v in values)
        return groups

    run(
        component_flow(grid, radix=radix),
        [((grid_index(grid, p.cell),), p) for p in parts],
        watch,
    )
    bounds = state.total()
    assert set(taken) == set(bounds)
    assert all(taken[node] <= bounds[node] for node in taken)


@pytest.mark.parametrize("shape, step", [((8, 64, 64), (2, 8, 8)), ((48, 30, 30), (1, 30, 30))])
def test_the_remedy_would_do(shape, step):
    mask = np.random.default_rng(0).random(shape) < 0.2
    grid = Grid(shape, step)
    needed = MergeEstimate.of(grid, 2**40).finish(
        total(MergeEstimate.of(grid, 1), summaries(mask, grid))
    )
    for share in (0.9, 0.5):
        load = MergeEstimate.of(grid, int(needed * share))
        with pytest.raises(ValueError, match="components at once") as refused:
            load.finish(total(load, summaries(mask, grid)))
        offer = re.search(r"use slab=\((\d+), (\d+), (\d+)\)", str(refused.value))
        other = Grid(shape, tuple(map(int, offer.groups())))
        load = MergeEstimate.of(other, int(needed * share * 1.1))  # an estimate
        assert load.finish(total(load, summaries(mask, other))) <= load.limit_bytes


@pytest.mark.parametrize("measures", [(), ("size",), ("size", "box", "touches_border")])
def test_a_step_needs_what_is_declared_for_its_components(measures):
    """No more, and with an eighth of the bytes of a component the declaration would be too small."""
    grid = Grid((4, 200, 200), (2, 200, 200))
    parts = summaries(np.indices(grid.shape).sum(0) % 2 == 0, grid, measures)
    load = MergeEstimate.of(grid, 1 << 30)
    declared = load.finish(total(load, parts))
    tracemalloc.start()
    try:
        merge(tree_of(grid), (1, 0, 0, 0), [leaf(part)[0] for part in parts])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert declared / 2 < peak <= declared


def test_none_would_do():
    """A merge that needs no room at all is none; a volume of one slab has none."""
    grid = Grid((4, 9, 9), (4, 9, 9))
    parts = summaries(np.ones((4, 9, 9)), grid)
    assert MergeEstimate.of(grid, 0).finish(total(MergeEstimate.of(grid, 0), parts)) == 0


@pytest.mark.parametrize("sigma", [0, 2])
@pytest.mark.parametrize("slab", [(16, 64, 64), (32, 32, 32)])
def test_room_is_set_aside_for_the_basins_at_the_faces_of_slabs(slab, sigma, monkeypatch):
    needed, finish = [], MergeEstimate.finish
    monkeypatch.setattr(
        MergeEstimate,
        "finish",
        lambda load, state, values: needed.append(finish(load, state, values)),
    )
    noise = ndi.gaussian_filter(np.random.default_rng(0).random((64, 64, 64), "f4"), sigma)
    bv.compute(bv.watershed(bv.open(noise)), runner=None, progress=False, slab=slab)
    survey = EdgeSurvey.of("watershed", np.dtype("u4"))
    assert [load <= survey.merge_size(Grid(noise.shape, slab)).expected for load in needed] == [
        True
    ]
    # The room grows with the faces, however large they are.
    assert survey.merge_size(Grid((64, 4096, 4096), (16, 4096, 4096))).expected > 2 << 30


def ramp(*shape, axis):
    """One basin; in some slabs as many pieces as a face has voxels."""
    return np.ascontiguousarray(np.indices(shape, "u1")[axis])


def smooth(*shape):
    return ndi.gaussian_filter(np.random.default_rng(0).random(shape, "f4"), 4, mode="wrap")


FEW = {
    "watershed": (bv.watershed, ramp(32, 64, 64, axis=1), (8, 32, 32)),
    "reconstruction": (
        lambda v: bv.reconstruction(v, v),
        ramp(64, 128, 128, axis=0),
        (8, 128, 128),
    ),
    "h_minima": (lambda v: bv.h_minima(v, 5), ramp(64, 128, 128, axis=0), (8, 128, 128)),
    "local_maxima": (bv.local_maxima, smooth(32, 64, 64), (8, 32, 32)),
    "label": (lambda v: bv.label(v > v.mean()), smooth(32, 64, 64), (8, 32, 32)),
}


def test_surveys_of_one_sweep_share_its_memory_by_their_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(Partitioning, "limit_bytes", lambda part, budget: part.reserved)
    noise = np.random.default_rng(0).random((64, 128, 128), "f4")
    image = bv.open(ndi.gaussian_filter(noise, 2))
    targets = [
        bv.label(image > 0.5).to(tmp_path / "labels.zarr"),
        bv.watershed(image).to(tmp_path / "basins.zarr"),
    ]
    how = {"slab": (64, 128, 128), "window": 1, "memory": "3GiB"}
    assert any(len(p.program.surveys) > 1 for p in bv.plan(*targets, **how).passes)
    bv.compute(*targets, runner=None, progress=False, **how)


@thorough
@pytest.mark.parametrize("way", FEW)
def test_the_smallest_memory_does_for_few_components(way, tmp_path):
    made, image, chunks = FEW[way]
    target = made(bv.open(image)).to(tmp_path / "o.zarr", chunks=chunks)
    least = bv.plan(target, memory="3GiB").smallest_memory
    small = bv.compute(target, memory=least, runner=None, progress=False)
    ample = bv.compute(made(bv.open(image)), runner=None, progress=False)
    np.testing.assert_array_equal(np.asarray(small), ample, strict=True)
