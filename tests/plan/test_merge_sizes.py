"""Merges have a size that depends on the voxels: plans show it, and refuse nothing that may fit."""

import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.drive.compute import plan_run
from beam_volumes.graph.traversal import voxels_per_label
from beam_volumes.ops.labels.surveys import component_surveys
from beam_volumes.ops.labels.surveys.label_surveys import LookupCompletion, TallySurvey
from beam_volumes.ops.labels.surveys.table_surveys import AdjacencySurvey, RegionSurvey
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.sweep.survey import VOXELS_PER_BASIN, VOXELS_PER_LABEL, windows_of
from tests.plan.test_plan import lazy


def planned(*targets, **options):
    """A plan with options that only runs have, such as the memory of a process."""
    return make_plan(list(targets), RunOptions(**options))


GB = 1 << 30
HOW = {"memory": "8GiB", "workers": 2, "threads": 2, "in_memory_results": True}

SEGMENTATIONS = {
    "label": lambda v: bv.label(v > 128),
    "watershed": bv.watershed,
    "watershed_affinities": lambda v: bv.watershed_affinities(
        bv.stack([v.astype("f4")] * 3), 0.1, 0.9
    ),
    "h_maxima": lambda v: bv.h_maxima(v, 20),
    "reconstruction": lambda v: bv.reconstruction(bv.grey_erosion(v, 3), v),
    "agglomerate": lambda v: bv.agglomerate(
        bv.region_adjacency(bv.watershed(v), affinities=bv.stack([v] * 3)), threshold=9
    ),
    "peak_local_max": lambda v: bv.peak_local_max(v, 5),
    "blob_log": lambda v: bv.blob_log(v, 1, 3, num_sigma=2),
}


@pytest.mark.parametrize("way", SEGMENTATIONS)
def test_a_plan_refuses_no_merge_that_may_be_small(way):
    """8.7 TB: noise would need up to a terabyte for a step of these merges, blank voxels nothing."""
    plan = planned(SEGMENTATIONS[way](lazy((5000, 34944, 49920), chunks=(16, 512, 512))), **HOW)
    assert plan.predicted_memory <= plan.memory
    shown = re.findall(
        r"merge is expected to need (.*), and at most (.*); more than (.*) is refused when pass",
        plan.explain(),
    )
    assert shown


def test_the_memory_that_a_plan_names_for_the_expected_merge_suffices():
    target = bv.watershed(lazy((5000, 10496, 14976), chunks=(16, 512, 512)))
    plan = planned(target, **HOW)
    named = re.search(r"fits workers=(\d+) and memory=(\d+) ", plan.explain())
    how = {"workers": int(named[1]), "memory": int(named[2])}
    (p,) = planned(target, **{**HOW, **how}).passes[:1]
    (size,) = p.merges.values()
    assert 9 * GB < size.expected <= p.merge_limit_bytes < size.maximum
    assert size.maximum == pytest.approx(size.expected / 0.47, rel=0.1)


def test_blank_voxels_are_divided_where_noise_would_be_refused(monkeypatch):
    """The expected size is only a warning; the size that is found decides."""
    monkeypatch.setattr(component_surveys.EdgeSurvey, "merged_bytes", 1 << 30)
    how = {"workers": 1, "slab": (4, 48, 48), "runner": None, "progress": False}
    blank = np.zeros((16, 48, 48), "u1")
    blank[3:9, 10:20, 10:20] = 5
    ample = bv.compute(bv.watershed(bv.open(blank)), memory="2GiB", progress=False)
    here = plan_run([bv.watershed(bv.open(blank))], RunOptions(memory="2GiB", **how))
    how["memory"] = here.smallest_memory + (8 << 20)  # of a process that has run other tests
    with pytest.warns(RuntimeWarning, match=r"watershed: the largest step .* fits memory=\d+ "):
        found = bv.compute(bv.watershed(bv.open(blank)), **how)
    np.testing.assert_array_equal(found, ample, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # with one slab, nothing is merged
        bv.compute(bv.watershed(bv.open(blank)), **{**how, "slab": blank.shape})


def each(tile):
    """Every voxel of a tile is an object."""
    return np.arange(1, tile.size + 1).reshape(tile.shape)


@pytest.mark.parametrize(
    ("way", "image"),
    [
        (lambda v: bv.label(v), np.indices((16, 16, 16)).sum(0) % 2 == 0),
        (lambda v: bv.watershed(v), np.indices((16, 16, 16), "u1")[1]),
        (lambda v: bv.watershed(v), np.random.default_rng(0).random((16, 16, 16), "f4")),
        (
            lambda v: bv.map_instances(v, each, tile=8, overlap=2, name="each", version=1),
            np.ones((16, 16, 16), "u1"),
        ),
    ],
    ids=["checkerboard", "ramp", "noise", "tiles"],
)
def test_no_voxels_need_more_than_the_maximum_of_a_plan(way, image, monkeypatch):
    found, finish = [], component_surveys.MergeEstimate.finish
    monkeypatch.setattr(
        component_surveys.MergeEstimate,
        "finish",
        lambda load, state, values=(): found.append(int(finish(load, state, values))),
    )
    how = {"slab": (8, 8, 8), "memory": "2GiB"}
    bv.compute(way(bv.open(image)), runner=None, progress=False, **how)
    plan = planned(way(bv.open(image)), **how)
    (size,) = (size for p in plan.passes for size in p.merges.values())
    assert [0 < step <= size.maximum for step in found] == [True]


def segments_of(shape):
    affinities = bv.stack([lazy(shape, chunks=(64, 64, 64))] * 3)
    return bv.watershed_affinities(affinities, 0, min_size=1000)


@pytest.mark.parametrize("shape", [(256, 576, 576), (1024, 2304, 2304)])
def test_slabs_have_room_for_the_rows_of_usual_basins(shape):
    """For basins of 16 voxels, not only of 2,000: a run of hours would end in its second pass."""
    options = {"memory": "2GiB", "workers": 1, "threads": 2}
    plan = planned(segments_of(shape), **options)
    assert plan.predicted_memory <= plan.memory
    assert all(p.partition.likely <= plan.memory for p in plan.passes)
    (first, *_) = plan.passes
    assert math.prod(first.grid.step) >= 1 << 23  # but they are not tiny


def segments_of_heights(shape):
    v = lazy(shape, "f4", chunks=(64, 64, 64))
    fragments = bv.watershed(bv.gaussian_filter(v, 1))
    affinities = bv.stack([lazy(shape, chunks=(64, 64, 64))] * 3)
    merges = bv.agglomerate(bv.region_adjacency(fragments, affinities=affinities), threshold=9)
    return bv.relabel(fragments, bv.cut(merges), missing="keep", dtype=fragments.dtype)


def test_slabs_have_room_for_the_rows_of_small_basins_of_heights():
    """Such a run ended after an hour: the plan expected basins of 2,000 voxels, which had 226."""
    options = {"memory": "2GiB", "workers": 1, "threads": 2}
    plan = planned(segments_of_heights((384, 1024, 1024)), **options)
    _, second, *_ = plan.passes
    assert plan.predicted_memory <= plan.memory
    (chain,) = (b.survey for b in second.program.surveys)
    windows = windows_of(second.grid.step, second.partition.window)
    basins = (replace(s, voxels_per_label=100) for s in chain.sources)
    need = sum(s.likely_bytes(second.grid.step, windows) for s in basins)
    assert need <= second.limit_bytes
    assert math.prod(second.grid.step) >= 1 << 23


BASINS = {
    "alone": lambda basins, mask: basins,
    "cast": lambda basins, mask: basins.astype("u8").astype("i8"),
    "crop": lambda basins, mask: basins[3:, 5:],
    "view": lambda basins, mask: basins[:, ::-1].transpose((2, 1, 0)),
    "strides": lambda basins, mask: basins[::2],
    "pad": lambda basins, mask: bv.pad(basins, 1),
    "where": lambda basins, mask: bv.where(mask, basins, 0),
    "product": lambda basins, mask: basins * mask,
    "sum": lambda basins, mask: basins.astype("u8") + np.uint64(7),
}


@pytest.mark.parametrize("way", BASINS)
def test_basins_are_expected_to_be_small(way):
    heights = lazy((64, 96, 96))
    mask = heights > 3
    basins = BASINS[way](bv.watershed(heights), mask)
    assert voxels_per_label(basins.node) == VOXELS_PER_BASIN
    affinities = bv.stack([heights] * 3)
    assert voxels_per_label(BASINS[way](bv.watershed_affinities(affinities, 1), mask).node) <= 100
    for others in (mask.astype("u1"), bv.label(mask), bv.watershed(heights, bv.label(mask))):
        assert voxels_per_label(BASINS[way](others, mask).node) == VOXELS_PER_LABEL
        selected = bv.where(basins > 9, np.uint8(1), np.uint8(0))
        assert voxels_per_label(selected.node) == VOXELS_PER_LABEL


def test_lines_between_basins_leave_them_small():
    lines = bv.watershed(lazy((64, 96, 96)), watershed_line=True)
    assert voxels_per_label(lines.node) == VOXELS_PER_BASIN


def test_runs_of_versions_that_expected_larger_basins_can_be_resumed():
    basins = bv.watershed(lazy((64, 96, 96)))
    found = planned(basins, memory="2GiB", in_memory_results=True).fingerprint
    assert found["step watershed 1"] == "f9958b1125754f7912947f4e105f21e6"
    surveys = [
        RegionSurvey.of("u4"),
        AdjacencySurvey.of("u4", "f4"),
        TallySurvey("relabel", (), 1),
        LookupCompletion("relabel", np.dtype("u4")),
    ]
    for usual in surveys:
        (name,) = usual.expectations
        assert replace(usual, **{name: VOXELS_PER_BASIN}).token() == usual.token()
        assert replace(usual, **{name: 16}).token() != usual.token()


def test_slabs_of_the_user_may_have_more_basins_than_expected():
    """Rows that do not fit anyway leave room for the answers of twice as many basins, or more."""
    options = {"memory": "2GiB", "workers": 1, "threads": 2, "slab": (64, 576, 576)}
    first, second, *_ = planned(segments_of((256, 576, 576)), **options).passes
    assert second.partition.likely > GB  # more than fits
    assert first.limit_bytes > 4 * first.partition.reserved
