"""Speeds of a machine, measured once: plans show seconds, and seconds are sums of what was measured."""

import json
from dataclasses import replace

import numba
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.text import format_duration
from beam_volumes.cli.verbs import warm_up
from beam_volumes.plan.cost import speeds
from beam_volumes.plan.cost.speeds import PIPELINE, PROCESS, Fixed, Speeds
from beam_volumes.plan.fit.seconds import core_seconds, measured_seconds
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.profile import calibrate
from beam_volumes.sweep.activity import Meter
from tests.tiers import thorough

FIXED = Fixed(run=1.0, a_pass=0.5, survey=0.25, slab=0.125, kernel=0.0)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Where speeds are kept, of this test alone."""
    monkeypatch.setattr(speeds, "document", lambda: tmp_path / "data" / "speeds.json")
    speeds.load.cache_clear()
    yield speeds.document()
    speeds.load.cache_clear()


@pytest.fixture
def target():
    v = bv.open(np.zeros((64, 128, 128), "u1"))
    return (bv.gaussian_filter(v, 1) > 100).to("mask.zarr")


@thorough
def test_the_command_measures_this_machine_once(work, command, path, target, monkeypatch):
    def operations(volume):
        if volume.dtype == "u1":
            yield [bv.gaussian_filter(volume, 1), volume > 3, bv.label(volume > 100)]
            yield [bv.median_filter(volume, 3), bv.mean(volume)]

    monkeypatch.setattr(warm_up, "each_of_catalogue", operations)
    monkeypatch.setattr(calibrate, "_measure_fixed", lambda how: FIXED)
    monkeypatch.setattr(calibrate, "STORED", (16, 256, 256))
    assert (
        bv.plan(target).predicted_seconds is None and "takes about" not in bv.plan(target).explain()
    )
    code, said, _ = command("bench", "--calibrate")
    assert code == 0 and str(path) in said
    found = speeds.load()
    assert {key.split()[0] for key in found.costs} >= {"Elementwise", "Median3", "registration"}
    assert all(0.001 < factor < 1000 for factor in found.costs.values())
    assert {"zarr zstd |b1", "zarr none <f4"} <= found.write.keys()
    assert found.write["png none |u1"] > found.write["zarr none |u1"] and 0.2 < found.overhead < 20
    plan = bv.plan(target)
    assert 1.5 < plan.predicted_seconds < 5
    spent = format_duration(plan.predicted_seconds, 1)
    line = f"takes about {spent} on this machine, once kernels are compiled"
    assert line in plan.explain().splitlines()
    assert (
        make_plan([target], RunOptions(base=1 << 28)).predicted_seconds is None
    )  # workers elsewhere
    labels = bv.plan(bv.label(target.volume).to("labels.zarr")).explain()
    (line,) = (text for text in labels.splitlines() if "takes about" in text)
    assert "calibration for label; `beam-volumes bench RECIPE.yaml` measures a part" in line
    large = bv.median_filter(bv.open(calibrate.specimen((64, 384, 384), "u1")), 3)
    real = calibrate._planned([bv.label(bv.gaussian_filter(large, 1) > 100).to("labels.zarr")])
    taken = calibrate._measured(real)[2]
    assert taken / 3 < sum(map(core_seconds, real.passes)) < 3 * taken


@pytest.mark.parametrize("dtype", ["u1", "u4"])
def test_every_operation_takes_the_volume_that_is_measured(dtype):
    volume = bv.open(calibrate.specimen(calibrate.SHAPE, dtype))
    assert len([*warm_up.each_of_catalogue(volume)]) > (3 if dtype == "u4" else 60)


@pytest.mark.parametrize("factor, planes", [(1.0, {192, 512}), (1000.0, {192})])
def test_fast_operations_are_measured_on_large_planes(factor, planes, monkeypatch):
    def factors(plan):
        used.add(plan.passes[0].grid.shape[2])
        return {"Elementwise greater |u1": factor * plan.passes[0].grid.shape[2] / 192}

    used, costs, fast = set(), {}, set()
    monkeypatch.setattr(calibrate, "_factors", factors)
    shapes = calibrate.SHAPE, calibrate.WIDE
    narrow, wide = ([bv.open(np.zeros(shape, "u1")) > 3] for shape in shapes)
    for _ in range(2):  # each is measured once
        calibrate._measure_operations(narrow, wide, costs, fast)
        assert used == planes and costs == {"Elementwise greater |u1": factor * max(planes) / 192}
        monkeypatch.delattr(calibrate, "_factors", raising=False)


def test_compiling_and_hiccups_are_not_speeds_of_operations(monkeypatch):
    @numba.njit
    def kernel(x):
        return x + 1

    # Two runs compile, each another version, and the next one is disturbed.
    seconds, given = iter([20.0, 2.0, 0.3, 0.1, 0.2]), iter([1, 1.0, 1, 1, 1])

    def timed(plan, unoverlapped):
        kernel(next(given))
        cpu = next(seconds)
        return (Meter(unoverlapped),), cpu, cpu

    monkeypatch.setattr(calibrate, "timed", timed)
    assert calibrate._measured(calibrate._planned([bv.mean(bv.open(np.zeros((2, 3))))]))[2] == 0.1


def test_a_recipe_or_the_machine(command):
    for words in ((), ("recipe.yaml", "--calibrate")):
        code, _, told = command("bench", *words)
        assert code == 2 and "not both" in told


def test_seconds_add_up(path, target):
    """Operations by their voxels, reading and writing by bytes and units, and what each run takes anyway."""
    plan = bv.plan(target, workers=1, threads=1)
    (p,) = plan.passes
    costs = {"CorrelateSymmetric gaussian_filter |u1": 2.0, "Elementwise greater |u1": 4.0}
    read, write = {"ArrayReader plain": 10.0}, {"zarr zstd |b1": 100.0}
    known = Speeds(costs, read, write, 1e6, {PROCESS: FIXED, PIPELINE: FIXED})
    moved = 64 * 128 * 128 * (10 + 100) + 1e6 * p.units_written
    zero = replace(known, costs=dict.fromkeys(costs, 0.0))
    assert measured_seconds(p, zero) == pytest.approx(moved / 1e9)
    twice = replace(known, costs={k: 2 * v for k, v in costs.items()})
    assert measured_seconds(p, twice) - moved / 1e9 == pytest.approx(
        2 * (measured_seconds(p, known) - moved / 1e9)
    )
    speeds.save(known)
    assert core_seconds(p) == measured_seconds(p, known)
    fixed = FIXED.run + FIXED.a_pass + FIXED.slab * len(p.grid)
    assert plan.predicted_seconds == pytest.approx(fixed + core_seconds(p))
    assert bv.estimate(plan, "1x8GiB").core_hours == pytest.approx(core_seconds(p) / 3600)


def test_an_operation_that_was_not_measured_takes_what_the_nearest_does():
    costs = {"A median |u1": 1.0, "A median <u2": 3.0, "B label |u1": 7.0}
    known = Speeds(costs, {"x": 1.0, "y": 2.0}, {"z": 3.0}, 0.0, {})
    kinds = {name: type(name, (), {})() for name in "ABC"}
    u1, f4 = np.dtype("u1"), np.dtype("f4")
    assert known.cost(kinds["A"], "median", [u1]) == 1
    assert known.cost(kinds["A"], "median", [f4]) == 2
    assert known.cost(kinds["A"], "mean", [np.dtype("u2")]) == 3
    assert known.cost(kinds["C"], "label", [f4]) == 3
    assert (known.reading("y"), known.reading("?"), known.writing("?")) == (2, 1.5, 3)


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"format": 0, "costs": {}})])
def test_a_document_that_cannot_be_read_is_none(path, content):
    path.parent.mkdir()
    path.write_text(content)
    assert speeds.load() is None


def test_another_version_or_processor_has_speeds_of_its_own(monkeypatch):
    found = {speeds.document()}
    for name, value in (("__version__", "9.9"), ("processor", lambda: "other")):
        with monkeypatch.context() as patched:
            patched.setattr(speeds, name, value)
            found.add(speeds.document())
    assert len(found) == 3
