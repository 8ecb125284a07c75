"""More slabs in flight by default where one would leave cores idle."""

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.concurrency import Concurrency, more_workers
from beam_volumes.plan.cost.memory import BASE_BEAM
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session.identity import make_manifest
from beam_volumes.session.resume import _in_its_own_slabs
from beam_volumes.sweep.schedule import OVERLAPS


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 2)


def target(tmp_path, make=bv.label, shape=(512, 1024, 1024)):
    volume = bv.open(np.broadcast_to(np.zeros((1, 1, 1), bool), shape))
    return make(volume).to(tmp_path / "out.zarr")


def test_labels_are_made_in_as_many_slabs_as_keep_all_cores_busy(tmp_path, two_cores):
    one = bv.plan(target(tmp_path), memory="4GiB", workers=1)
    plan = bv.plan(target(tmp_path), memory="4GiB")
    assert (plan.workers, plan.processes, plan.threads) == (2, 1, 2)
    assert plan.predicted_memory == plan.base + 2 * plan.slab_memory <= plan.memory
    assert plan.reasons[-1] == (
        "2 slabs in flight: one thread does about 14% of a slab's work, and fewer slabs would "
        "leave cores idle"
    )
    cut = [
        [(p.grid, p.partition.window, p.partition.overlap) for p in q.passes] for q in (one, plan)
    ]
    assert cut[0] == cut[1]


def test_what_is_one_slab_stays_one(tmp_path, two_cores):
    """To merge slabs takes longer than what a core would be idle."""
    slab = {"memory": "8GiB", "slab": (512, 1024, 1024)}
    assert bv.plan(target(tmp_path), **slab).workers == 1
    assert bv.plan(target(tmp_path, shape=(64, 256, 256)), memory="4GiB").workers == 1


def test_what_threads_share_needs_no_second_slab(tmp_path, two_cores):
    plan = bv.plan(target(tmp_path, lambda v: bv.binary_erosion(v)), memory="4GiB")
    assert plan.workers == 1 and not any("in flight" in reason for reason in plan.reasons)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_slabs_in_flight_that_a_user_asks_for_are_what_they_get(tmp_path, two_cores, workers):
    plan = bv.plan(target(tmp_path), memory="4GiB", workers=workers)
    assert plan.workers == workers and not any("in flight" in reason for reason in plan.reasons)


def test_more_slabs_leave_room_for_components(tmp_path, two_cores):
    plan = make_plan([target(tmp_path)], RunOptions(memory="1GiB", base=BASE_BEAM))
    assert plan.workers == 1 and not any("in flight" in reason for reason in plan.reasons)
    plan = bv.plan(target(tmp_path), memory="3GiB")
    assert plan.workers == 2
    for p in plan.passes[:1]:
        assert p.limit_bytes >= 8 * p.partition.reserved > 0


def test_a_survey_finds_no_more_than_has_room_as_an_answer(tmp_path):
    """Here the second pass takes nearly all the memory, and the first one little."""
    v = bv.open(np.zeros((64, 256, 256), "u1"))
    target = bv.label(v, dtype="u8").to(tmp_path / "out.zarr", chunks=(64, 256, 256), codec=None)
    least = bv.plan(target, slab=(64, 256, 256), workers=1).smallest_memory
    for more in (1 << 20, 4 << 20):
        plan = bv.plan(target, slab=(64, 256, 256), workers=1, memory=least + more)
        survey, relabel = plan.passes
        answers = sum(p.bytes for p in relabel.partition.parts if p.is_answer)
        # Three times as much: an answer for a component has 16 bytes, and the survey counts 48.
        assert survey.limit_bytes == 3 * (answers + more)
        assert survey.partition.sweep_memory + survey.limit_bytes < plan.memory - plan.base


@pytest.mark.parametrize("slab", [None, (64, 256, 256)])
def test_more_memory_leaves_more_room_for_components(tmp_path, slab):
    """It is not all spent on wider windows and overlap."""
    v = bv.open(np.zeros((64, 256, 256), "u1"))
    target = bv.label(v, dtype="u8").to(tmp_path / "out.zarr", chunks=(16, 256, 256), codec=None)
    how = {"workers": 1} if slab is None else {"workers": 1, "slab": slab}
    least, most = bv.plan(target, **how).smallest_memory, 0
    for more in range(0, 96, 4):
        limit = bv.plan(target, memory=least + (more << 20), **how).passes[0].limit_bytes
        assert limit > 0.7 * most
        most = max(most, limit)
    assert most > 60 << 20


@pytest.mark.parametrize("make", [bv.label, bv.distance_transform_edt])
def test_only_answers_that_may_grow_keep_memory_from_overlap(tmp_path, make):
    v = make(bv.open(np.zeros((128, 512, 512), bool))).to(tmp_path / "out.zarr")
    how = {"workers": 1, "slab": (64, 512, 512)}
    wide = bv.plan(v, memory="2GiB", **how)
    tight = bv.plan(v, memory=wide.predicted_memory, **how)
    kept = tight.passes[1].partition.overlap == wide.passes[1].partition.overlap == OVERLAPS[0]
    assert kept == (make is bv.distance_transform_edt)


def test_the_smallest_memory_is_that_for_the_fewest_slabs(tmp_path, two_cores):
    plan = bv.plan(target(tmp_path), memory="4GiB")
    least = bv.plan(target(tmp_path), memory=plan.smallest_memory)
    assert least.smallest_memory == plan.smallest_memory >= least.predicted_memory


def test_a_run_begun_in_larger_slabs_goes_on_with_fewer_of_them(tmp_path, two_cores):
    """The plan chose two, the slabs are another run's, and the memory has room for one."""
    slab = (256, 1024, 1024)
    begun = bv.plan(target(tmp_path), memory="1200MiB", workers=1, slab=slab, window=32)
    manifest = make_manifest(begun, "run")
    small = {"memory": "1200MiB", "slab": (64, 256, 1024), "window": 1}
    chosen = bv.plan(target(tmp_path), **small)
    assert chosen.workers == 2
    resumed = _in_its_own_slabs(chosen, manifest)
    assert resumed.workers == 1 and resumed.predicted_memory <= resumed.memory
    asked = bv.plan(target(tmp_path), workers=2, **small)
    with pytest.raises(ValueError, match="2 slabs in flight of at least"):
        _in_its_own_slabs(asked, manifest)


def test_processes_for_each_slab_are_as_many_as_slabs(two_cores):
    (concurrency,) = more_workers(0.2, None, None, maximum=10)
    assert concurrency == Concurrency(workers=2, processes=2, threads=1)
    assert list(more_workers(0.2, 1, None, maximum=1)) == []


def test_labels_do_not_depend_on_how_many_slabs_the_plan_has_in_flight(tmp_path, two_cores):
    volume = bv.open(np.random.default_rng(0).random((40, 50, 60)) > 0.7)
    how = {"runner": None, "progress": False, "slab": (8, 50, 60)}
    targets = [bv.label(volume).to(tmp_path / f"{n}.zarr", chunks=(8, 25, 30)) for n in "ab"]
    assert bv.plan(targets[0], slab=(8, 50, 60)).workers == 2
    found = bv.compute(targets[0], **how)
    one = bv.compute(targets[1], workers=1, **how)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(one))
