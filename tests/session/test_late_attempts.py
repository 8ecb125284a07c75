"""What a run does in an order of its own: attempts that come late, twice, or after they were given up."""

import itertools
import pickle
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.drive.local_pipeline import numbers
from beam_volumes.ops.labels.surveys import table_surveys
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import local, merging, slabs
from beam_volumes.session.begin import begin
from beam_volumes.session.session import Session
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.claims import Document, Superseded
from beam_volumes.storage.places.place import Place
from beam_volumes.sweep import executor, writing
from tests.across.groups import shuffling
from tests.transforms.trees import chunk_files, membranes, stored
from tests.waiting import PATIENCE

SLAB = (4, 24, 28)


def once(block):
    return block.astype("f4") * np.float32(0.5)


def with_scratch(tmp_path, array, name="out.zarr", **how):
    """A run that stores voxels between its passes, and its expected result."""
    v = stored(tmp_path, array, f"of-{name}")
    kept = bv.map_overlap(once, v, name="once", version="1", dtype="f4", deterministic=False)
    target = (kept + bv.mean(kept)).to(tmp_path / name, chunks=SLAB)
    plan = bv.plan(target, slab=SLAB, workers=2)
    assert len(plan.passes) == 3 and len(plan.intermediates) == 1
    expected = once(array)
    return begin(plan, RunOptions(**how)), expected + expected.astype("f8").mean()


def passes(session, k, known):
    """All of a pass, and the numbers known after it."""
    states = [
        slabs.sweep_slab(session, k, i, known).states
        for i in range(len(session.plan.passes[k].grid))
    ]
    return merging.finish_pass(session, k, merging.merge(session.plan, k, states), known)


def up_to_the_last_pass(session):
    session.prepare()
    return passes(session, 1, passes(session, 0, {}))


@pytest.mark.parametrize("kind", ["voxels", "zeros"])
def test_what_lies_between_passes_never_reads_as_fill(tmp_path, kind):
    """A chunk of it that is gone stops the slab; one of zeros is there, and does not."""
    array = membranes() if kind == "voxels" else np.zeros((20, 24, 28), "u1")
    session, expected = with_scratch(tmp_path, array)
    known = up_to_the_last_pass(session)
    (scratch,) = session.plan.intermediates
    assert len(chunk_files(scratch.name)) == len(scratch.grid)
    slabs.sweep_slab(session, 2, 0, known)
    shutil.rmtree(f"{scratch.name}/c/1")
    with pytest.raises(FileNotFoundError, match=r"slab 1 .*is missing .*overwrite=True"):
        slabs.sweep_slab(session, 2, 1, known)
    slabs.sweep_slab(session, 2, 2, known)
    session.end()
    with pytest.raises(FileNotFoundError, match=r"slab 3 .*overwrite=True"):
        slabs.sweep_slab(session, 2, 3, known)
    assert session.journal.finished(2) == [0, 2]
    done = np.asarray(bv.open(tmp_path / "out.zarr"))
    np.testing.assert_array_equal(done[:4], expected[:4].astype(done.dtype))
    assert not done[4:8].any() and not done[12:].any()


@pytest.mark.parametrize("version", [2, 3])
def test_scratch_of_any_format_is_strict(tmp_path, version):
    """Also with chunks cut off by the edge, and with voxels read back."""
    made = bv.open(np.zeros((3, 5, 7), "i2")).to(tmp_path / "s.zarr", zarr_version=version).sink
    sink = replace(made, chunk=(2, 4, 4), scratch=True)
    sink = Sink.from_dict(sink.to_dict())
    sink.create("run")
    with pytest.raises(FileNotFoundError, match="is missing"):
        sink.read_back().read()
    bv.storage.write_units(sink.open(), sink.grid.box(0), np.zeros((2, 4, 4), "i2")).result()
    assert not sink.read_back().crop(sink.grid.box(0)).read().any()
    with pytest.raises(FileNotFoundError, match="is missing"):
        sink.read_back().read()


# Runs that take each other's place.


def simple(tmp_path, factor, name="out.zarr", **how):
    """A run of five slabs, which multiplies; and its result."""
    array = membranes((20, 24, 28)).astype("u2")
    target = (bv.open(array) * np.uint16(factor)).to(tmp_path / name, chunks=SLAB)
    plan = bv.plan(target, slab=SLAB, workers=2)
    return begin(plan, RunOptions(**how)), array * np.uint16(factor)


def check(session, tmp_path, expected, name="out.zarr"):
    """The voxels and the records of a run are as expected."""
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / name)), expected)
    assert bv.verify(session.journal.spec, checksums=True) == []


def test_numbers_of_a_replaced_run_name_the_run_that_replaced_it(tmp_path):
    """A run that takes over deletes them; without one, workers cannot access the journal."""
    old, _ = with_scratch(tmp_path, membranes())
    old.prepare()
    with pytest.raises(OSError, match=r"the numbers of pass 2 are not in .*give journal="):
        numbers(old.plan, old.journal)
    up_to_the_last_pass(old)
    assert numbers(old.plan, old.journal)
    new, _ = simple(tmp_path, 3, overwrite=True)
    new.prepare()
    with pytest.raises(Superseded, match=new.run_id):
        numbers(old.plan, old.journal)


@pytest.mark.parametrize("journals", ["the same journal", "each its own"])
def test_a_worker_of_a_replaced_run_writes_nothing_more(tmp_path, journals):
    def journal(name):
        return {} if journals == "the same journal" else {"journal": tmp_path / name}

    old, _ = simple(tmp_path, 2, **journal("a"))
    old.prepare()
    slabs.sweep_slab(old, 0, 0, {})
    new, expected = simple(tmp_path, 3, overwrite=True, **journal("b"))
    new.prepare()
    with pytest.raises(Superseded, match=f"belongs to the run {new.run_id}"):
        slabs.sweep_slab(old, 0, 1, {})
    passes(new, 0, {})
    for i in range(1, 5):
        with pytest.raises(Superseded):
            slabs.sweep_slab(old, 0, i, {})
    with pytest.raises(Superseded):
        old.end()
    new.end()
    check(new, tmp_path, expected)
    with pytest.raises(Superseded):
        old.prepare()
    check(new, tmp_path, expected)
    if journals == "the same journal":
        assert [p.name for p in (tmp_path / "out.zarr.run" / "runs").iterdir()] == [new.run_id]


def paused(monkeypatch, owner, name, at=1, after=False):
    """Have the ``at``-th call of a function wait; return the events for its arrival and its release."""
    there, go = threading.Event(), threading.Event()
    function, calls = getattr(owner, name), itertools.count(1)

    def waiting(*args, **how):
        first = next(calls) == at
        found = function(*args, **how) if after else None
        if first:
            there.set()
            assert go.wait(PATIENCE)
        return found if after else function(*args, **how)

    monkeypatch.setattr(owner, name, waiting)
    return there, go


def in_thread(function, *args):
    """Call it; its error, if it has one, is the first of the list that comes back."""
    errors = []

    def run():
        try:
            function(*args)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


@pytest.mark.parametrize("moment", ["computing", "before a layer is written", "before the record"])
def test_a_slab_under_way_is_not_written_over_the_later_run(tmp_path, monkeypatch, moment):
    """Whether it was stopped before its first layer, between two of them, or before it was recorded."""
    v = bv.open(membranes((20, 24, 28)).astype("u2"))
    there, go, held = threading.Event(), threading.Event(), []

    def slow(block):
        if held == ["now"]:
            held.append("done")
            there.set()
            assert go.wait(PATIENCE)
        return block * np.uint16(2)

    twice = bv.map_overlap(slow, v, name="slow", version="1", dtype="u2")
    target = twice.to(tmp_path / "out.zarr", chunks=(2, 24, 28))
    old = begin(bv.plan(target, slab=SLAB, window=2, workers=2))
    old.prepare()
    if moment == "computing":
        held.append("now")
    elif moment == "before the record":
        there, go = paused(monkeypatch, Session, "check", at=3)
    else:
        there, go = paused(monkeypatch, writing, "checksum", at=2)
    thread, errors = in_thread(slabs.sweep_slab, old, 0, 2, {})
    assert there.wait(PATIENCE)
    new, expected = simple(tmp_path, 3, overwrite=True)
    new.prepare()
    passes(new, 0, {})
    new.end()
    go.set()
    thread.join(PATIENCE)
    assert isinstance(errors[0], Superseded)
    check(new, tmp_path, expected)


#: Where the first of two attempts to prepare stops, and its work by then.
STOPS = {
    "before it looks": (Document, "read", 1, False),
    "after it has looked": (Document, "read", 1, True),
    "before it claims": (Document, "replace", 1, False),
    "after it has claimed the journal": (Document, "replace", 1, True),
    "after it has looked at the output": (Document, "read", 3, True),
    "before it claims the output": (Document, "replace", 2, False),
    "after it has claimed the output": (Document, "replace", 2, True),
    "before it clears": (Place, "clear", 1, False),
    "after it has cleared": (Place, "clear", 1, True),
    "before it is ready": (Document, "replace", 3, False),
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", ["new", "overwritten"])
def test_a_slow_twin_of_the_first_step_clears_nothing(tmp_path, monkeypatch, kind, stop):
    """It stops anywhere, its twin does all of the run, and then it goes on."""
    if kind == "overwritten":
        first, _ = simple(tmp_path, 5)
        first.prepare()
        passes(first, 0, {})
        first.end()
    session, expected = simple(tmp_path, 2, overwrite=kind == "overwritten")
    twin = pickle.loads(pickle.dumps(session))
    owner, name, at, after = STOPS[stop]
    there, go = paused(monkeypatch, owner, name, at, after)
    thread, errors = in_thread(session.prepare)
    assert there.wait(PATIENCE)
    twin.prepare()
    passes(twin, 0, {})
    twin.end()
    before = chunk_files(tmp_path / "out.zarr")
    go.set()
    thread.join(PATIENCE)
    assert not errors
    assert chunk_files(tmp_path / "out.zarr") == before
    check(session, tmp_path, expected)


@pytest.mark.parametrize("stop", STOPS)
def test_a_slow_first_step_of_a_replaced_run_clears_nothing(tmp_path, monkeypatch, stop):
    old, _ = simple(tmp_path, 2)
    owner, name, at, after = STOPS[stop]
    there, go = paused(monkeypatch, owner, name, at, after)
    thread, errors = in_thread(old.prepare)
    assert there.wait(PATIENCE)
    new, expected = simple(tmp_path, 3, overwrite=True)
    new.prepare()
    passes(new, 0, {})
    new.end()
    go.set()
    thread.join(PATIENCE)
    assert isinstance(errors[0], Superseded | FileExistsError)
    check(new, tmp_path, expected)


@pytest.mark.parametrize("place", ["file", "memory"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_of_runs_that_begin_at_once_one_gets_the_place(tmp_path, overwrite, place):
    """All have seen the same; one prepares, and the others report this and write nothing."""
    out = tmp_path / "out.zarr" if place == "file" else f"memory://{tmp_path.name}/out.zarr"
    v = bv.open(np.arange(4 * 24 * 28, dtype="u2").reshape(4, 24, 28))
    if overwrite:
        bv.compute((v + np.uint16(7)).to(out), runner=None, progress=False)
    sessions = [
        begin(bv.plan((v + np.uint16(k)).to(out), workers=2), RunOptions(overwrite=overwrite))
        for k in range(4)
    ]
    start = threading.Barrier(len(sessions))
    came = {}

    def run(k, session):
        start.wait()
        try:
            session.prepare()
            passes(session, 0, {})
            session.end()
            came[k] = None
        except Exception as error:
            came[k] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    (won,) = [k for k, error in came.items() if error is None]
    assert all(isinstance(e, Superseded | FileExistsError) for e in came.values() if e)
    np.testing.assert_array_equal(np.asarray(bv.open(out)), np.asarray(v) + np.uint16(won))
    journal = sessions[won].journal
    assert journal.finished(0) == [0]
    left = {name.partition("/")[0] for name in Place.of(journal.spec).names("runs/")}
    assert left == {journal.run_id}


@pytest.mark.parametrize("overwrite", [False, True])
def test_ten_runs_with_one_journal_at_once(tmp_path, overwrite):
    """One or more run, one after the other; the others end with one error, and write nothing."""
    v = stored(tmp_path, membranes(SLAB))
    start, came = threading.Barrier(10), {}

    def run(k):
        start.wait()
        try:
            target = (v + np.uint8(k)).to(tmp_path / f"out-{k}.zarr")
            how = {"journal": tmp_path / "book", "overwrite": overwrite}
            bv.compute(target, runner=None, progress=False, **how)
            came[k] = None
        except Exception as error:
            came[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(came) == 10 and None in came.values()
    for k, error in came.items():
        if error is None:
            want = np.asarray(v) + np.uint8(k)
            np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / f"out-{k}.zarr")), want)
        else:
            assert isinstance(error, Superseded | FileExistsError), error
            assert "journal=" in str(error) and "book/" in str(error)
            assert not (tmp_path / f"out-{k}.zarr").exists()


def test_twins_of_the_first_step_at_once(tmp_path):
    """Each of eight, at the same time, finds the outputs ready when it is done."""
    bv.compute((bv.open(membranes()) + 1).to(tmp_path / "out.zarr", chunks=2), runner=None)
    session, expected = simple(tmp_path, 2, overwrite=True)
    start = threading.Barrier(8)

    def run():
        start.wait()
        session.prepare()
        (sink,) = session.plan.sinks
        assert sink.existing_run() == session.run_id
        slabs.sweep_slab(session, 0, 0, {})

    threads = [in_thread(run) for _ in range(8)]
    for thread, _ in threads:
        thread.join(PATIENCE)
    assert [errors for _, errors in threads] == [[]] * 8
    passes(session, 0, {})
    session.end()
    check(session, tmp_path, expected)


def test_an_attempt_that_comes_after_the_end_changes_nothing(tmp_path, monkeypatch):
    """Its scratch is gone: it takes what the other attempt has found, and leaves the voxels alone."""
    session, expected = with_scratch(tmp_path, membranes())
    known = up_to_the_last_pass(session)
    there, go = paused(monkeypatch, executor, "read_into")
    thread, errors = in_thread(slabs.sweep_slab, session, 2, 3, known)
    assert there.wait(PATIENCE)
    passes(session, 2, known)
    session.end()
    before = chunk_files(tmp_path / "out.zarr")
    go.set()
    thread.join(PATIENCE)
    assert not errors
    session.prepare()
    passes(session, 0, {})
    assert chunk_files(tmp_path / "out.zarr") == before
    assert not list(tmp_path.rglob("intermediate"))
    done = np.asarray(bv.open(tmp_path / "out.zarr"))
    np.testing.assert_array_equal(done, expected.astype(done.dtype))
    assert bv.verify(tmp_path / "out.zarr", checksums=True) == []


VOXELS = np.random.default_rng(0).integers(0, 40, (6, 10, 14)).astype("u1")
LABELS = (np.random.default_rng(1).permutation(6 * 10 * 14).astype("u4") // 5).reshape(6, 10, 14)
#: Operations with merges of several rounds: results are voxels and tables.
MERGED = {
    "label": lambda v, labels: [bv.label(v > 20), bv.label(v, by_value=True, connectivity=3)],
    "keep_largest": lambda v, labels: [bv.keep_largest(v > 25, 5)],
    "watershed": lambda v, labels: [bv.watershed(v), bv.h_maxima(v, 9)],
    "relabel_sequential": lambda v, labels: bv.relabel_sequential(labels),
    "relabel_sequential by size": lambda v, labels: bv.relabel_sequential(
        labels, by="size", min_size=3
    ),
    "regionprops_table": lambda v, labels: [
        bv.regionprops_table(labels, v, ["centroid", "intensity_max"])
    ],
    "region_adjacency": lambda v, labels: [
        bv.region_adjacency(labels, v),
        bv.contingency(labels, v),
    ],
    "peak_local_max": lambda v, labels: [bv.peak_local_max(v, 2)],
    "distance_transform_edt": lambda v, labels: [bv.distance_transform_edt(v > 4)],
    "cumsum": lambda v, labels: [bv.cumsum(v, axis=0)],
}


@pytest.mark.parametrize("way", MERGED)
def test_merges_take_messages_in_any_order_and_twice(way, monkeypatch):
    """Tables have many shards, and messages of a step are in no order."""
    monkeypatch.setattr(table_surveys, "ROWS", 8)
    how = {"runner": None, "progress": False, "slab": (2, 5, 7), "workers": 1}
    targets = MERGED[way](bv.open(VOXELS), bv.open(LABELS))
    expected = [bv.compute(target, **how) for target in targets]
    monkeypatch.setattr(local.Spill, "groups", shuffling(np.random.default_rng(2)))
    for target, result in zip(targets, expected, strict=True):
        found = bv.compute(target, **how)
        assert found.equals(result) if hasattr(found, "equals") else np.array_equal(found, result)
