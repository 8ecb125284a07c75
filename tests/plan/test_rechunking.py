"""Volumes with chunks across the output's are read in two stages, each chunk once in each."""

from importlib import import_module

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.drive import compute
from beam_volumes.plan.fit import refitting
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import slabs
from beam_volumes.session.begin import begin

planner = import_module("beam_volumes.plan.planner")  # its package has a function of this name

SHAPE = (96, 160, 224)
HOW = {"workers": 1, "base": 214 << 20}
CHUNKS = {"columns": (96, 8, 8), "planes": (1, 160, 224), "cubes": (16, 16, 16)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Chunks between two sweeps that suit volumes of some megabytes."""
    monkeypatch.setattr(refitting, "_MINIMUM", 1 << 12)
    monkeypatch.setattr(refitting, "_MAXIMUM", 1 << 15)


@pytest.fixture
def stored(tmp_path):
    voxels = np.random.default_rng(0).integers(0, 60000, SHAPE).astype("u2")

    def make(chunks):
        path = tmp_path / f"{'-'.join(map(str, chunks))}.zarr"
        target = bv.open(voxels).to(path, chunks=chunks)
        bv.compute(target, runner=None, progress=False)
        return bv.open(path)

    return voxels, make


def planned(target, **options):
    return planner.make_plan([target], RunOptions(**HOW, **options))


def memory_for(target, more):
    """So many bytes in addition to the minimum of a sweep."""
    return planned(target).smallest_memory + more


def memory_here(target):
    """As much for a run in this process, with a measured base."""
    options = RunOptions(memory="1GiB", workers=1, runner=None)
    return compute.plan_run([target], options).smallest_memory + (1 << 20)


def run(target, memory, **how):
    options = RunOptions(memory=memory, workers=1, runner=None, progress=False, **how)
    outcome = compute.run([target], options)
    assert len(outcome.plan.passes) == 2
    return outcome


@pytest.mark.parametrize(
    "kinds", [("columns", "planes"), ("planes", "columns"), ("cubes", "planes")]
)
def test_what_slabs_would_cut_through_is_stored_first(tmp_path, stored, kinds, monkeypatch):
    voxels, make = stored
    target = make(CHUNKS[kinds[0]]).to(tmp_path / "out.zarr", chunks=CHUNKS[kinds[1]])
    memory = memory_for(target, 1 << 20)
    plan = planned(target, memory=memory)
    with monkeypatch.context() as patched:
        patched.setattr(planner, "in_two_stages", lambda fit, refit: fit)
        alone = planned(target, memory=memory)
    assert alone.bytes_read + alone.bytes_written > 1.5 * (plan.bytes_read + plan.bytes_written)
    assert len(plan.passes) == 2 and plan.times_read[target.volume.node.name] <= 2
    assert plan.bytes_read <= 5 * voxels.nbytes and plan.bytes_written == 2 * voxels.nbytes
    assert plan.predicted_memory <= memory
    assert "stored for pass 2: in chunks of" in plan.explain(verbose=True)
    outcome = run(target, memory_here(target))
    assert outcome.summary.bytes_read <= plan.bytes_read
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), voxels)
    assert bv.verify(tmp_path / "out.zarr", checksums=True) == []


def test_not_where_one_sweep_will_do(tmp_path, stored):
    _, make = stored
    for source, unit in [("columns", "cubes"), ("planes", "cubes"), ("cubes", "planes")]:
        target = make(CHUNKS[source]).to(tmp_path / "out.zarr", chunks=CHUNKS[unit])
        plan = planned(target, memory=memory_for(target, 16 << 20))
        assert len(plan.passes) == 1 and plan.read_amplification == 1
    asked = planned(target, slab=(1, 160, 224))  # slabs that were asked for stay
    assert len(asked.passes) == 1 and asked.read_amplification == 16


def test_numbers_are_found_while_it_is_stored(tmp_path, stored):
    """A filter of it, and a crop, read the stored result; a sum reads the source."""
    voxels, make = stored
    volume = make(CHUNKS["columns"])[:, 3:151, 5:]
    target = (bv.maximum_filter(volume, 3) - bv.min(volume)).to(
        tmp_path / "out.zarr", chunks=(1, 148, 219)
    )
    memory = memory_for(target, 1 << 20)
    plan = planned(target, memory=memory)
    assert len(plan.passes) == 2
    assert [[f.reduction.name for f in p.program.folds] for p in plan.passes] == [["min"], []]
    run(target, memory)
    part = voxels[:, 3:151, 5:]
    wanted = np.asarray(bv.maximum_filter(bv.open(part), 3)) - part.min()
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), wanted)


def test_a_run_in_two_stages_goes_on(tmp_path, stored):
    voxels, make = stored
    target = make(CHUNKS["columns"]).to(tmp_path / "out.zarr", chunks=CHUNKS["planes"])
    memory = memory_for(target, 1 << 20)
    first = begin(planned(target, memory=memory), RunOptions())
    first.prepare()
    slabs.sweep_slab(first, 0, 1, {})
    with pytest.raises(ValueError, match="planned in 2 passes and would now have 1"):
        run(target, "1GiB", resume=True)
    run(target, memory_here(target), resume=True)
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), voxels)
    assert bv.verify(tmp_path / "out.zarr", checksums=True) == []


def test_channels_are_stored_alike(tmp_path, stored):
    voxels, _ = stored
    array = np.stack([voxels, voxels // 2])
    bv.compute(
        bv.open(array).to(tmp_path / "two.zarr", chunks=CHUNKS["columns"]),
        runner=None,
        progress=False,
    )
    target = bv.open(tmp_path / "two.zarr").to(tmp_path / "out.zarr", chunks=CHUNKS["planes"])
    outcome = run(target, memory_here(target))
    assert len(outcome.plan.intermediates) == 2
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), array)
