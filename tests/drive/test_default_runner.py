"""Which runs start a pipeline if nobody names a runner, and where the plan says so."""

from __future__ import annotations

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.drive import compute as driving
from beam_volumes.plan import in_process
from beam_volumes.plan.cost.memory import BASE_BEAM

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


def test_small_runs_start_no_pipeline_unless_one_is_named(asked, monkeypatch, tmp_path):
    v = bv.compute(bv.open(ARRAY).to(tmp_path / "in.zarr"))
    bv.compute(bv.mean(v), options=["--direct_running_mode=in_memory"], journal=tmp_path / "book")
    bv.compute(bv.mean(v), runner="FnApiRunner", journal=tmp_path / "other")
    assert asked == [None, "FnApiRunner", "FnApiRunner"]
    monkeypatch.setattr(in_process, "SMALL", ARRAY.nbytes - 1)
    bv.compute(bv.mean(v), journal=tmp_path / "third")
    assert asked[3:] == ["FnApiRunner"]


def test_arrays_of_this_process_are_computed_in_it(asked, monkeypatch):
    monkeypatch.setattr(in_process, "SMALL", 0)
    large = np.tile(ARRAY, (30, 5, 1))
    target = bv.gaussian_filter(large, 1)
    np.testing.assert_array_equal(bv.compute(target), np.asarray(target))
    assert asked == [None, None]
    assert "is in the memory of this process" in bv.plan(target).explain(verbose=True)


def test_the_plan_tells_what_compute_will_do(monkeypatch):
    v = bv.open(ARRAY)
    small = bv.plan(bv.mean(v))
    assert "without a pipeline: it reads and writes 11.7 KiB, and up to 256.0 MiB need none" in (
        small.explain(verbose=True)
    )
    assert small.base < bv.plan(bv.mean(v), base=BASE_BEAM).base
    assert "without a pipeline" not in bv.plan(bv.mean(v), base=BASE_BEAM).explain(verbose=True)
    with pytest.raises(ValueError, match="smallest") as alone:
        bv.plan(bv.mean(v), memory="1MiB")
    monkeypatch.setattr(in_process, "SMALL", 0)
    with pytest.raises(ValueError, match="smallest") as piped:
        bv.plan(bv.mean(v), memory="1MiB")
    assert str(alone.value) != str(piped.value)
    assert bv.plan(bv.mean(v)).in_process is None
