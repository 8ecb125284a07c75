"""Which runs use a pipeline if no runner is given, and where the plan shows it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.drive import compute as driving
from beam_volumes.plan.cost import machine, memory
from beam_volumes.plan.cost.memory import BASE_BEAM
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions

ARRAY = np.random.default_rng(0).integers(0, 200, (6, 40, 50), "u1")


@pytest.fixture
def asked(monkeypatch):
    """The runners that runs have been made for, instead of those."""
    found = []

    def driver(options):
        found.append(options.runner)
        return driving.run_local, options

    monkeypatch.setattr(driving, "_driver", driver)
    return found


@pytest.fixture
def busy(monkeypatch):
    """A machine on which little memory is free."""
    monkeypatch.setattr(machine, "free_memory", lambda: 64 << 20)


def test_runs_start_no_pipeline_unless_one_is_named(asked, tmp_path):
    v = bv.compute(bv.open(ARRAY).to(tmp_path / "in.zarr"))
    bv.compute(bv.mean(v), options=["--direct_running_mode=in_memory"], journal=tmp_path / "book")
    bv.compute(bv.mean(v), runner="FnApiRunner", journal=tmp_path / "other")
    assert asked == [None, "FnApiRunner", "FnApiRunner"]


def test_a_run_that_may_exhaust_memory_gets_a_driver_process(asked, busy, tmp_path):
    v = bv.compute(bv.open(ARRAY).to(tmp_path / "in.zarr"), runner=None)
    bv.compute(bv.mean(v), journal=tmp_path / "book")
    assert asked == [None, "FnApiRunner"]
    assert bv.plan(bv.mean(v)).in_process is None


def test_arrays_of_this_process_are_computed_in_it(asked, busy):
    large = np.tile(ARRAY, (30, 5, 1))
    target = bv.gaussian_filter(large, 1)
    np.testing.assert_array_equal(bv.compute(target), np.asarray(target))
    assert asked == [None, None]
    assert "is in the memory of this process" in bv.plan(target).explain(verbose=True)


def test_the_plan_shows_where_compute_runs(monkeypatch):
    v = bv.open(ARRAY)
    plan = bv.plan(bv.mean(v))
    assert re.search(
        r"in threads of this process: it takes at most [\d.]+ MiB of the [\d.]+ GiB of memory that are",
        plan.explain(verbose=True),
    )
    elsewhere = make_plan([bv.mean(v)], RunOptions(base=BASE_BEAM))
    assert plan.base < elsewhere.base
    assert "in threads" not in elsewhere.explain(verbose=True)


def test_memory_that_has_room_for_no_driver_process_is_used_in_this_one(monkeypatch):
    v = bv.open(ARRAY)
    monkeypatch.setattr(memory, "_used", {})
    small = memory._Process(100 << 20, 20 << 20, 214 << 20)
    monkeypatch.setattr(memory, "_this_process", lambda: small)
    smallest = bv.plan(bv.mean(v)).smallest_memory
    monkeypatch.setattr(machine, "free_memory", lambda: 64 << 20)
    assert "too little for a pipeline" in bv.plan(bv.mean(v), memory=smallest).in_process
