"""A recipe timed on a crop: every stage is named, and nothing is left or touched."""

import os
import re
from dataclasses import replace

import numpy as np
import pytest
import yaml

import beam_volumes as bv
from beam_volumes.profile.advice import Setting, advise
from beam_volumes.profile.measure import Item, Measured, foreseen, measure, swept
from beam_volumes.profile.trial import middle
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import read_recipe
from beam_volumes.storage.outputs.sink import make_sink
from beam_volumes.sweep.activity import Activity
from tests.tiers import thorough

CELLS = {
    "input": "slices",
    "steps": {
        "smooth": {"op": "gaussian_filter", "sigma": 1},
        "threshold": "threshold_otsu",
        "dark": {"op": "less", "inputs": ["smooth", "threshold"]},
        "inside": "logical_not",
        "cells": {"op": "label"},
        "table": {"op": "regionprops_table", "properties": ["area"]},
        "mean": {"op": "mean", "input": "smooth"},
    },
    "outputs": [
        {"step": "cells", "path": "later/cells.ome.zarr"},
        {"step": "table", "path": "cells.csv"},
        {"step": "table", "path": "cells.parquet"},
        {"step": "mean"},
    ],
}
QUIET = Setting(None, cores=1, load=0.0)


@pytest.fixture
def recipe(work):
    (work / "recipe.yaml").write_text(yaml.safe_dump(CELLS, sort_keys=False))
    (work / "cells.csv").write_text("the user's own")
    return work


def everything(folder):
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in [folder, *folder.rglob("*")]
        if path != folder or os.listdir(folder)
    } | {folder: None}


def test_every_stage_is_timed_and_nothing_is_left(recipe, command):
    before = everything(recipe)
    code, out, told = command("bench", "recipe.yaml", "--memory=1GiB", "--workers=2")
    assert (code, told) == (0, "")
    assert everything(recipe) == before
    assert out.startswith(
        "a crop of 12 x 20 x 30 of 12 x 20 x 30 voxels, after compilation of kernels"
    )
    rows = re.findall(r"^  (\S.*?) +([\d.]+) +([\d.]+) %", out, re.M)
    assert abs(sum(float(share) for *_, share in rows) - 100) < 0.06 * len(rows)
    programs = [p.program for p in bv.plan(*build(read_recipe("recipe.yaml")).targets).passes]
    names = {s.name for p in programs for s in p.steps if s.source is None}
    names |= {f.reduction.name for p in programs for f in p.folds}
    names |= {b.survey.name for p in programs for b in p.surveys}
    assert {"smooth", "label", "threshold_otsu", "regionprops_table", "mean"} <= names
    assert names | {"read slices", "everything else"} <= {name for name, *_ in rows}
    assert {"write cells.ome.zarr", "checksums of cells.ome.zarr"} <= {n for n, *_ in rows}
    passes = re.findall(r"^pass (\d)/(\d): 12 x 20 x 30 voxels", out, re.M)
    assert len(passes) == int(passes[-1][1]) > 2
    for said in ("slabs waited", "memory: peak", "the whole volume: about", "its CPU time: read"):
        assert said in out


def test_the_crop_and_the_recipe_are_those_asked_for(recipe, command):
    changed = ("--crop=2:10,,5:", "--set", "steps.smooth.op=median_filter", "--set")
    changed = (*changed, "steps.smooth.sigma=3")
    code, _, told = command("bench", "recipe.yaml", *changed)
    assert code == 2 and "median_filter has no parameter 'sigma'" in told
    code, out, _ = command("bench", "recipe.yaml", "--crop=2:10,,5:", "--set=steps.smooth.sigma=2")
    assert code == 0 and "a crop of 8 x 20 x 25 of 12 x 20 x 30 voxels" in out


@thorough
def test_all_channels_of_a_crop_are_timed(work, command):
    channels = np.random.default_rng(0).integers(0, 255, (3, 8, 20, 30), np.uint8)
    bv.compute(bv.open(channels, axes="czyx").to("affinities.zarr"), runner=None)
    bv.compute(bv.open(np.stack([channels] * 2), axes="tczyx").to("movie.ome.zarr"), runner=None)
    recipe = {
        "input": "affinities.zarr",
        "steps": {"fragments": {"op": "watershed_affinities", "low": 30}},
        "outputs": [{"step": "fragments", "path": "fragments.zarr"}],
    }
    (work / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    code, out, told = command("bench", "recipe.yaml", "--crop=,5:")
    assert (code, told) == (0, "")
    assert "a crop of 3 x 8 x 15 x 30 of 3 x 8 x 20 x 30 voxels" in out
    code, _, told = command("bench", "recipe.yaml", "--set=input=movie.ome.zarr")
    assert code == 2 and "one time point" in told and "index: {t: 0}" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["recipe.yaml", "--crop=50:60"], "contains no voxel"),
        (["recipe.yaml", "--memory=1MiB"], "memory"),
        (["recipe.yaml", "--runner=none"], "unknown argument --runner"),
        (
            ["recipe.yaml", "--set=steps.inside={op: crop, box: '6:11'}", "--crop=:4"],
            "for a crop of 4 x",
        ),
    ],
)
def test_mistakes_are_told_in_a_line(recipe, command, arguments, said):
    before = everything(recipe)
    code, out, told = command("bench", *arguments)
    assert (code, out, told.count("\n")) == (2, "", 1) and said in told
    assert everything(recipe) == before


def test_what_fails_on_the_way_leaves_nothing(work, command):
    voxels = np.ones((8, 9, 9), "f4")
    voxels[4, 4, 4] = np.nan
    bv.compute(bv.open(voxels).to("in.zarr"), runner=None)
    steps = {"exp": {}, "threshold": "threshold_otsu"}
    outputs = [{"step": "exp", "path": "exp.zarr"}, {"step": "threshold"}]
    recipe = {"input": "in.zarr", "steps": steps, "outputs": outputs}
    (work / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    before = everything(work)
    code, _, told = command("bench", "recipe.yaml")
    assert code == 2 and told.count("\n") == 1
    assert everything(work) == before


def test_the_middle_is_whole_chunks_and_the_same_part_of_coarser_volumes(tmp_path):
    voxels = np.zeros((96, 300, 300), "u1")
    sink = make_sink(tmp_path / "a.zarr", shape=voxels.shape, dtype="u1", chunks=(16, 64, 64))
    whole = bv.compute(bv.Target(bv.open(voxels), sink), runner=None)
    part = middle(whole, 1 << 20)
    assert part(whole).node.source.chunk_origin == (0, 0, 0)
    assert part(whole).shape == (96, 128, 128)
    for coarser in (bv.open(voxels[::2, ::2, ::2]), bv.open(voxels[:, ::4, ::4])):
        factors = [round(a / b) for a, b in zip(whole.shape, coarser.shape, strict=True)]
        shape = tuple(n // f for n, f in zip(part(whole).shape, factors, strict=True))
        assert part(coarser).shape == shape
    assert middle(whole, whole.size)(whole).shape == whole.shape


def planned(tmp_path, volume, name="out.zarr", **how):
    return bv.plan(volume.to(tmp_path / name, chunks=(8, 16, 16)), threads=1, **how)


@thorough
def test_a_run_that_is_measured_computes_the_same_and_scales_by_what_slabs_compute(tmp_path):
    volume = bv.open(np.random.default_rng(0).integers(0, 255, (32, 16, 16), "u1"))
    wanted = bv.uniform_filter(bv.median_filter(volume, 5), (9, 3, 3))
    plan = planned(tmp_path, wanted, slab=(32, 16, 16))
    found = measure(plan)
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), wanted)
    assert found.whole == pytest.approx(sum(i.cpu for i in found.items) + found.rest)
    kinds = [(i.activity.kind, i.activity.name) for i in found.items]
    assert ("stage", "median_filter") in kinds and ("stage", "uniform_filter") in kinds
    assert len({i.activity for i in found.items}) == len(found.items)
    for a, b in zip(foreseen(found, plan).items, found.items, strict=True):
        assert (a.cpu, a.wall) == pytest.approx((b.cpu, b.wall))
    thin = planned(tmp_path, wanted, slab=(8, 16, 16))
    # uniform_filter, 9 slices high, takes 4 slices of its input from each neighbour of 8.
    assert max(swept(thin.passes[0])) == (32 + 6 * 4 + 0) * 16 * 16 + 6 * 2 * 16 * 16
    scaled = {i.activity.name: i.cpu for i in foreseen(found, thin).items}
    median = next(i.cpu for i in found.items if i.activity.name == "median_filter")
    assert scaled["median_filter"] == pytest.approx(median * (32 + 6 * 4) / 32)
    assert foreseen(found, planned(tmp_path, volume, "other.zarr")) is None


def made(plan, **cpu):
    """What was measured, of a pass and by kind."""
    items = tuple(Item(0, Activity(kind, 0, kind), s, s) for kind, s in cpu.items() if s)
    waits = {"read": 0.0, "write": 0.0}
    return Measured(plan, items, sum(cpu.values()), 10.0, 10.0, waits, 1 << 28)


def test_advice_follows_from_what_was_measured(tmp_path):
    voxels = np.zeros((32, 32, 32), "u1")
    bv.compute(bv.open(voxels).to(tmp_path / "in.zarr", chunks=(8, 8, 8)), runner=None)
    volume = bv.open(tmp_path / "in.zarr")
    plan = planned(tmp_path, bv.convolve(volume, np.arange(27.0).reshape(3, 3, 3)))
    step = next(i for i, s in enumerate(plan.passes[0].program.steps) if s.name == "convolve")

    def said(setting=QUIET, **cpu):
        found = made(plan, **cpu)
        items = (
            replace(i, activity=replace(i.activity, index=step))
            if i.activity.kind == "stage"
            else i
            for i in found.items
        )
        return advise(replace(found, items=tuple(items)), setting)

    assert said(read=2, stage=4, write=2, fold=3) == []
    (reading,) = said(read=6, stage=4)
    assert reading.startswith("reading takes 60 % of the CPU time")
    assert "chunks of 8 x 8 x 8 are only 512 B" in reading
    (writing,) = said(write=5, check=1, stage=4)
    assert writing.startswith("writing takes 60 %") and "8 x 16 x 16 voxels, 8.0 KiB" in writing
    (stage,) = said(stage=9, read=1)
    assert stage.startswith("stage takes 90 %") and "correlate1d" in stage
    (busy,) = said(replace(QUIET, load=4.0), stage=4, fold=5)
    assert "a load of 4.0 on 1 core" in busy
    (idle,) = said(replace(QUIET, cores=8), stage=4, fold=5)
    assert idle.startswith("1.0 of 8 cores were busy: workers")
    waiting = replace(made(plan, read=2, stage=8), waits={"read": 0.5, "write": 0.0})
    slow = (replace(waiting.items[0], wall=20.0), *waiting.items[1:])
    (storage,) = advise(replace(waiting, items=slow, cpu=10.0), QUIET)
    assert storage.startswith("slabs wait 50 % of their time for their input")


def test_advice_about_slabs_says_what_more_memory_would_do(tmp_path):
    voxels = np.zeros((64, 16, 16), "u1")
    bv.compute(bv.open(voxels).to(tmp_path / "in.zarr", chunks=(64, 16, 16)), runner=None)
    wanted = bv.uniform_filter(bv.open(tmp_path / "in.zarr"), (17, 1, 1)) * 2
    thin, wide = (
        planned(tmp_path, wanted, slab=(depth, 16, 16), memory=memory)
        for depth, memory in ((8, "2GiB"), (64, "8GiB"))
    )
    steps = [s.name for s in thin.passes[0].program.steps]
    activities = [Activity("read", 0, "in"), Activity("stage", 1, steps[1])]
    found = replace(
        made(thin, read=3, fold=7),
        items=tuple(Item(0, a, s, s) for a, s in zip(activities, (3.0, 7.0), strict=True)),
    )
    reading, *rest = advise(found, replace(QUIET, roomier=wide))
    assert reading.startswith(
        "pass 1 reads 8.0 times the data that it needs, and reading is 30 % of the CPU"
    )
    assert "with memory 8.0 GiB slabs of 64 x 16 x 16 would read 1.0 times" in reading
    assert advise(found, QUIET)[0].endswith("store a copy of the input with smaller chunks")
    # Stages after the halo are computed once; stages before it are not.
    assert not [text for text in rest if text.startswith("the halos")]
    before = bv.uniform_filter(bv.median_filter(bv.open(voxels), 3), (17, 1, 1))
    thin, wide = (
        planned(tmp_path, before, "b.zarr", slab=(depth, 16, 16), memory=memory)
        for depth, memory in ((8, "2GiB"), (64, "8GiB"))
    )
    steps = [s.name for s in thin.passes[0].program.steps]
    item = Item(0, Activity("stage", steps.index("median_filter"), "median_filter"), 9.0, 9.0)
    halos = advise(replace(made(thin), items=(item,), cpu=10.0), replace(QUIET, roomier=wide))
    # 8 slices on both sides of each slab, one side at the ends: 7 x 16 slices in addition to 64.
    assert any(
        text.startswith("the halos of slabs of 8 x 16 x 16 add 175 % to the work") for text in halos
    )
    assert any(text.endswith("with memory 8.0 GiB, slabs of 64 x 16 x 16, 0 %") for text in halos)
