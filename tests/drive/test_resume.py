"""What `compute` refuses, continues and replaces."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.drive.compute import plan_run, resume
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs.journal import Journal, run_folder
from beam_volumes.session import resume as saved
from beam_volumes.session import slabs
from beam_volumes.session.begin import begin
from beam_volumes.version import __version__

ARRAY = np.random.default_rng(0).integers(0, 255, (12, 20, 24), np.uint8)


def chain(v, sigma=1.0):
    smooth = bv.map_overlap(lambda a: a, bv.gaussian_filter(v, sigma), name="same", version=1)
    return smooth > bv.threshold_otsu(smooth)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.zarr"


def compute(out, sigma=1.0, **how):
    target = chain(bv.open(ARRAY), sigma).to(out, chunks=(4, 20, 24))
    return bv.compute(target, runner=None, slab=(4, 20, 24), progress=False, **how)


def test_an_existing_output_is_refused_and_kept(out):
    first = np.asarray(compute(out))
    with pytest.raises(ValueError, match=r"out.zarr exists: pass overwrite=True"):
        compute(out, 2.0)
    assert np.array_equal(np.asarray(bv.open(out)), first)
    second = np.asarray(compute(out, 2.0, overwrite=True))
    assert not np.array_equal(first, second)


def test_a_finished_run_resumed_does_nothing_again(out):
    compute(out)
    journal = Journal.open(run_folder(out))
    before = journal.attempts_of(0)
    compute(out, resume=True)
    assert journal.attempts_of(0) == before
    assert not list(out.parent.rglob("intermediate"))


def test_a_record_missing_from_an_ended_run_is_said(out):
    compute(out)
    (records,) = out.parent.glob("out.zarr.run/runs/*/records")
    shutil.rmtree(records / "1-000000")
    with pytest.raises(ValueError, match="records are missing"):
        compute(out, resume=True)


def test_another_chain_is_refused_naming_what_differs(out):
    compute(out)
    with pytest.raises(ValueError, match=r"differs in step gaussian_filter 1"):
        compute(out, 2.0, resume=True)


@pytest.mark.parametrize("closed", ["", "its outputs were in the memory"])
def test_a_run_of_an_older_version_is_refused_naming_both(out, closed):
    compute(out)
    manifest = out.parent / "out.zarr.run" / "manifest.json"
    fields = {"package": "0.0.1", "closed": closed}
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **fields}))
    with pytest.raises(
        ValueError, match=f"begun with beam_volumes 0.0.1, but this is {__version__}"
    ):
        compute(out, resume=True)


def test_records_of_an_output_that_is_gone_are_not_believed(out):
    compute(out)
    shutil.rmtree(out)
    with pytest.raises(ValueError, match=r"out.zarr is missing"):
        compute(out, resume=True)


def test_resume_takes_the_grid_of_the_run_and_other_resources(out, monkeypatch):
    def interrupted(session, pass_index, *args):
        if pass_index == 1:
            raise KeyboardInterrupt
        return sweep_slab(session, pass_index, *args)

    sweep_slab = slabs.sweep_slab
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(slabs, "sweep_slab", interrupted)
        compute(out)
    target = chain(bv.open(ARRAY)).to(out, chunks=(4, 20, 24))
    again = bv.compute(target, runner=None, resume=True, workers=2, memory="1GiB", progress=False)
    journal = Journal.open(run_folder(out))
    for p in range(3):
        assert journal.attempts_of(p) == {0: 1, 1: 1, 2: 1}
    assert np.array_equal(np.asarray(again), np.asarray(chain(bv.open(ARRAY))))


@pytest.mark.parametrize("how", ["again", "from its folder"])
def test_resume_with_too_little_memory_says_what_would_do(tmp_path, monkeypatch, how):
    array = np.random.default_rng(0).integers(0, 255, (64, 96, 128), np.uint8)
    quiet = {"runner": None, "progress": False}
    v = bv.compute(bv.open(array).to(tmp_path / "in.zarr", chunks=(8, 48, 64)), **quiet)
    smooth = bv.gaussian_filter(v, 2)  # the first pass needs less than the last
    wide = bv.gaussian_filter(smooth - bv.mean(smooth), 3)
    target = wide.to(tmp_path / "out.zarr", chunks=(8, 48, 64))
    slab = slabs.sweep_slab

    def stopping(session, k, index, *rest):
        if k == len(session.plan.passes) - 1 and index == 1:
            raise KeyboardInterrupt
        return slab(session, k, index, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(slabs, "sweep_slab", stopping)
        bv.compute(target, slab=(16, 96, 128), memory="2GiB", workers=1, **quiet)
    before = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}

    def again(memory):
        if how == "again":
            return bv.compute(target, resume=True, memory=memory, workers=1, **quiet)
        options = RunOptions(memory=memory, workers=1, **quiet)
        outcome, _ = resume(tmp_path / "out.zarr", options)
        return outcome.results[0]

    # A plan of its own would do with less.
    least = plan_run([target], RunOptions(memory="2GiB", workers=1, runner=None)).smallest_memory
    with pytest.raises(ValueError, match=r"too small .* smallest memory that works is") as caught:
        again(least if how == "again" else "100MiB")  # which no pass has enough of
    (needed,) = map(int, re.findall(r"works is (\d+) bytes", str(caught.value)))
    assert needed > least
    with pytest.raises(ValueError, match=f"works is {needed} bytes"):
        again(needed - 1)
    assert {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()} == before
    expected = bv.compute(wide, **quiet)
    np.testing.assert_array_equal(np.asarray(again(needed)), expected)
    assert Journal.open(run_folder(tmp_path / "out.zarr")).attempts_of(1)[0] == 1


def test_resume_without_a_run_begins_one(out):
    compute(out, resume=True)
    assert out.exists()


def test_resume_and_overwrite_exclude_each_other(out):
    with pytest.raises(ValueError, match="choose one"):
        compute(out, resume=True, overwrite=True)


def test_a_function_without_a_name_cannot_be_resumed(out):
    def target():
        return bv.map_overlap(lambda a: a, bv.open(ARRAY)).to(out)

    bv.compute(target(), runner=None, progress=False)
    with pytest.raises(ValueError, match="differs in"):
        bv.compute(target(), runner=None, progress=False, resume=True)


def test_arrays_come_back_beside_targets_and_leave_nothing(out):
    v = bv.open(ARRAY)
    written, doubled, mean = bv.compute(
        (v + 1).to(out), v * 2, bv.mean(v), runner=None, progress=False, keep_journal=False
    )
    assert np.array_equal(np.asarray(written), ARRAY + 1)
    assert np.array_equal(doubled, ARRAY * 2)
    assert mean == ARRAY.mean()
    assert [p.name for p in out.parent.iterdir()] == ["out.zarr"]


def test_numbers_alone_may_keep_a_journal_again_and_again(tmp_path):
    v = bv.open(ARRAY)
    for _ in range(2):
        mean = bv.compute(bv.mean(v), runner=None, progress=False, journal=tmp_path / "journal")
        assert mean == ARRAY.mean()


def test_a_result_too_large_for_memory_is_refused(monkeypatch):
    monkeypatch.setattr(bv.options, "max_inmemory", 1000)
    with pytest.raises(ValueError, match=r"larger than options\.max_inmemory"):
        bv.compute(bv.open(ARRAY) + 1, runner=None)


def test_results_come_back_in_the_order_they_are_asked_for_now(out, tmp_path, monkeypatch):
    v = bv.compute(bv.open(ARRAY).to(tmp_path / "in.zarr"), runner=None, progress=False)
    found = bv.label(v > 120)
    table = bv.regionprops_table(found, properties=["area"])
    targets = [
        (v + 1).to(out, chunks=(4, 20, 24)),
        bv.mean(v),
        table,
        v * 2,
        table.to(tmp_path / "cells.csv"),
        bv.max(v),
    ]
    how = {"runner": None, "progress": False, "slab": (4, 20, 24)}
    slab = slabs.sweep_slab

    def stopping(session, k, index, *rest):
        if index == 2:
            raise OSError("stopped")
        return slab(session, k, index, *rest)

    monkeypatch.setattr(slabs, "sweep_slab", stopping)
    with pytest.raises(OSError, match="stopped"):
        bv.compute(*targets, **how)
    monkeypatch.setattr(slabs, "sweep_slab", slab)
    order = [2, 0, 3, 1, 5, 4]
    rows, written, doubled, mean, most, csv = bv.compute(
        *(targets[k] for k in order), **how, resume=True
    )
    np.testing.assert_array_equal(np.asarray(written), ARRAY + 1)
    np.testing.assert_array_equal(doubled, ARRAY * 2)
    assert (mean, most, csv) == (ARRAY.mean(), ARRAY.max(), str(tmp_path / "cells.csv"))
    assert rows.num_rows == ndimage.label(ARRAY > 120)[1]


def test_what_lies_between_passes_stays_as_it_was_begun(out, monkeypatch):
    def cells(v):
        mask = bv.binary_opening(bv.median_filter(v, 3) > 120)
        return bv.label(bv.binary_fill_holes(mask)).to(out, chunks=(4, 4, 8))

    stored = bv.compute(bv.open(ARRAY).to(out.parent / "in.zarr"), runner=None, progress=False)
    slab = slabs.sweep_slab

    def stopping(session, k, index, *rest):
        if k == len(session.plan.passes) - 1 and index == 2:
            raise OSError("stopped")
        return slab(session, k, index, *rest)

    monkeypatch.setattr(slabs, "sweep_slab", stopping)
    how = {"runner": None, "progress": False}
    with pytest.raises(OSError, match="stopped"):
        bv.compute(cells(stored), slab=(4, 12, 8), **how)
    monkeypatch.setattr(slabs, "sweep_slab", slab)
    again = bv.compute(cells(stored), resume=True, **how)
    mask = ndimage.binary_opening(ndimage.median_filter(ARRAY, 3) > 120)
    expected = ndimage.label(ndimage.binary_fill_holes(mask))[0]
    assert np.array_equal(np.asarray(again), expected) and expected.max() > 1

    # Of a step of a pipeline no plan is kept.
    begun = begin(bv.plan(cells(stored), slab=(4, 12, 8)), RunOptions(overwrite=True))
    begun.prepare()
    again = RunOptions(resume=True)
    with pytest.raises(ValueError, match=r"different chunks; .* slabs are \(4, 12, 8\)"):
        begin(bv.plan(cells(stored)), again)
    assert begin(bv.plan(cells(stored), slab=(4, 12, 8)), again).run_id == begun.run_id


def test_what_is_finished_is_counted_folder_by_folder(out, monkeypatch):
    """There may be millions of records: no list of all of them is made."""
    compute(out)

    def listed(*_):
        raise AssertionError("all records at once")

    monkeypatch.setattr(Journal, "finished", listed)
    monkeypatch.setattr(Journal, "attempts_of", listed)
    assert np.array_equal(compute(out, resume=True), np.asarray(bv.open(out)))
    assert bv.verify(out) == []


def test_a_plan_of_other_code_is_said(out, monkeypatch):
    slab = slabs.sweep_slab

    def stopping(*_):
        raise OSError("stopped")

    monkeypatch.setattr(slabs, "sweep_slab", stopping)
    with pytest.raises(OSError, match="stopped"):
        compute(out)
    monkeypatch.setattr(slabs, "sweep_slab", slab)
    loads = saved.cloudpickle.loads

    def older(data):  # as code pickled it that had no such field yet
        plan, request = loads(data)
        del plan.passes[0].program.__dict__["steps"]
        return plan, request

    monkeypatch.setattr(saved.cloudpickle, "loads", older)
    said = rf"different code of the same version, beam_volumes {re.escape(__version__)}: its plan has no"
    for again in (lambda: compute(out, resume=True), lambda: resume(out, RunOptions())):
        with pytest.raises(ValueError, match=rf"{said} Program.steps; .* overwrite=True"):
            again()


def test_records_of_other_code_are_said(out, monkeypatch):
    slab, target = slabs.sweep_slab, bv.label(ARRAY > 99)
    quiet = {"runner": None, "slab": (4, 20, 24), "workers": 1, "progress": False}

    def interrupted(session, pass_index, index, *args):
        if index:
            raise OSError("stopped")
        return slab(session, pass_index, index, *args)

    def run(**how):
        bv.compute(target.to(out, chunks=(4, 20, 24)), **quiet, **how)

    monkeypatch.setattr(slabs, "sweep_slab", interrupted)
    with pytest.raises(OSError, match="stopped"):
        run()
    monkeypatch.setattr(slabs, "sweep_slab", slab)
    loads = slabs.pickle.loads

    def older(data):  # as code recorded it that named the load of a merge differently
        found = loads(data)
        states = {f"{token} load": state for token, state in found.states.items()}
        return slabs.SlabPartials(states, found.summaries)

    monkeypatch.setattr(slabs, "pickle", SimpleNamespace(loads=older))
    said = (
        rf"different code of the same version, beam_volumes {re.escape(__version__)}: its records"
    )
    for again in (lambda: run(resume=True), lambda: resume(out, RunOptions(runner=None))):
        with pytest.raises(ValueError, match=rf"{said} .* overwrite=True"):
            again()


@pytest.mark.parametrize("how", ["again", "from its folder", "in memory"])
def test_a_table_that_has_changed_is_refused_by_name(out, tmp_path, monkeypatch, how):
    """Boundaries in a file, or in memory, from which segments come."""
    labels = (1 + np.indices((6, 8, 9)).sum(0) // 4).astype("u1")
    path = tmp_path / "edges.parquet"

    def target(first):
        edges = {"label_a": [1, 2, 3], "label_b": [2, 3, 4], "affinity_max": [first, 9, 5]}
        if how != "in memory":
            pq.write_table(pa.table(edges), path)
        merges = bv.agglomerate(edges if how == "in memory" else path, "max", threshold=6)
        segments = bv.relabel(labels, bv.cut(merges), missing="keep")
        return segments.to(out, chunks=(2, 8, 9))

    def interrupted(session, pass_index, index, *args):
        if pass_index == 1 and index == 1:
            raise KeyboardInterrupt
        return sweep_slab(session, pass_index, index, *args)

    run = {"runner": None, "slab": (2, 8, 9), "progress": False}
    sweep_slab = slabs.sweep_slab
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(slabs, "sweep_slab", interrupted)
        bv.compute(target(7), **run)
    changed = target(8)
    what = "edges" if how == "in memory" else re.escape(str(path))
    with pytest.raises(ValueError, match=f"differs in input .*{what}") as refused:
        if how == "from its folder":
            resume(out, RunOptions(progress=False))
        else:
            bv.compute(changed, resume=True, **run)
    assert "\n" not in str(refused.value)
    found = bv.compute(target(7), resume=True, **run)  # as it was
    np.testing.assert_array_equal(found, np.where(labels < 4, 3, labels))
