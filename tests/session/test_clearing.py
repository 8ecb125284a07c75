"""Replaced outputs with many objects are deleted in parts, and only names that are not written again."""

import json
import os
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.space import Space
from beam_volumes.cli.main import main
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs import Journal, Manifest
from beam_volumes.session import clearing, slabs
from beam_volumes.session.begin import begin
from beam_volumes.storage.outputs.sink import make_sink
from beam_volumes.storage.places.claims import Superseded
from beam_volumes.storage.places.ownership import OutputExistsError, OwnedOutput
from beam_volumes.storage.places.place import Place
from tests.storage.test_overwrite import FOLDERS, contents

CHUNKS = (2, 8, 8)
OLD = np.arange(12 * 40 * 36, dtype="u2").reshape(12, 40, 36) + 1
NEW = np.arange(8 * 20 * 20, dtype="u2").reshape(8, 20, 20)
NEW[:2], NEW[:, :8] = 0, 0  # chunks that are not stored


@pytest.fixture(autouse=True)
def few_objects_are_many(monkeypatch):
    monkeypatch.setattr("beam_volumes.storage.places.ownership.MAX_AT_ONCE", 0)
    monkeypatch.setattr("beam_volumes.session.clearing.MAX_AT_ONCE", 0)
    monkeypatch.setattr("beam_volumes.storage.places.names.PART", 3)


def in_threads(target):
    bv.compute(target, overwrite=True, runner=None, progress=False)


def by_pipeline(target):
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | bv.Compute(target, overwrite=True)


def spied(monkeypatch, owner, name):
    calls, method = [], getattr(owner, name)

    def spy(self, *args, **how):
        calls.append(args)
        return method(self, *args, **how)

    monkeypatch.setattr(owner, name, spy)
    return calls


ARRAYS = [name for name in FOLDERS if "*" not in name]


@pytest.mark.parametrize("name", ARRAYS)
def test_an_output_is_replaced_in_parts(tmp_path, name, monkeypatch):
    own = {"chunks": CHUNKS, "codec": None, **FOLDERS[name]}
    in_threads(bv.open(OLD).to(tmp_path / name, **own))
    parts = spied(monkeypatch, OwnedOutput, "delete_part")
    own.pop("levels", None)
    run = by_pipeline if name == "a.ome.zarr" else in_threads
    run(bv.open(NEW).to(tmp_path / name, **own))
    # A shard of zeros of a precomputed volume is not written, so its outputs are deleted at once.
    assert len(parts) > 10 or "sharded" in name
    in_threads(bv.open(NEW).to(tmp_path / "anew" / name, **own))
    assert {*contents(tmp_path / name)} == {*contents(tmp_path / "anew" / name)}
    np.testing.assert_array_equal(bv.open(tmp_path / name), NEW)
    assert bv.verify(tmp_path / name, checksums=True) == []


@pytest.mark.parametrize("name", ARRAYS)
def test_names_are_those_of_units(name):
    """With leading axes, hidden axes and levels, if the format has them."""
    leading = {"leading": (2, 3), "space": Space().with_leading(2, True, ())}
    for shape, more in [((12, 40, 36), {}), ((1, 9, 9), {}), ((12, 20, 20), leading)]:
        own = {"chunks": CHUNKS, **FOLDERS[name], **more}
        if more and not name.endswith("zarr"):
            continue
        sink = make_sink(name, shape=shape, dtype="u2", **own)
        grids = sink._grids(sink._own_document)
        if grids is None:
            assert name == "sharded.precomputed"
            grids = sink.writer.name_grids(sink._own_document)
        names = {grid.name(k) for grid in grids for k in range(grid.count)}
        parts = sink.parts
        if more:
            parts += tuple(part.at_time(1) for part in parts)
        units = [
            part.writer.key(part, part.grid.cell(k))
            for part in parts
            for k in range(len(part.grid))
        ]
        assert {*units} == names or (name == "sharded.precomputed" and {*units} <= names)
        assert all(sum(unit in grid for grid in grids) == 1 for unit in units)
        assert not any(f"{unit}x" in grid or unit[1:] in grid for unit in units for grid in grids)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_nothing_is_deleted_or_listed_if_all_names_are_the_same(tmp_path, codec, monkeypatch):
    """A slab that writes zeros deletes the old chunks, and old bytes are not read as voxels."""
    out = tmp_path / "a.zarr"
    in_threads(bv.open(OLD).to(out, chunks=CHUNKS))
    new = np.where(OLD > 9000, OLD, 0).astype("f4")
    calls = [spied(monkeypatch, Place, name) for name in ("names", "delete", "delete_while")]
    visited = []
    walk = os.walk
    monkeypatch.setattr(
        "os.walk", lambda top: ((visited.append(root), (root, *r))[1] for root, *r in walk(top))
    )
    by_pipeline(bv.open(new).to(out, chunks=CHUNKS, codec=codec))
    monkeypatch.undo()
    asked = [str(key) for some in calls for args in some for key in args]
    assert not [key for key in asked if key.startswith("c")]
    assert {f"{root}/".replace("//", "/") for root in visited} <= {f"{out}/", f"{out}/c/"}
    np.testing.assert_array_equal(bv.open(out), new)
    assert bv.verify(out, checksums=True) == []


def test_foreign_files_among_documents_are_refused(tmp_path):
    out = tmp_path / "a.zarr"
    in_threads(bv.open(OLD).to(out, chunks=CHUNKS))
    for name in ("notes.txt", "c/readme", "labels/zarr.json"):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("mine")
        before = contents(tmp_path)
        with pytest.raises(OutputExistsError, match=f"contains {name}, which is not part of it"):
            in_threads(bv.open(NEW).to(out, chunks=CHUNKS))
        assert contents(tmp_path) == before
        (out / name).unlink()
    (out / "labels").rmdir()
    (out / "c/3/notes.txt").write_text("mine")  # among chunks: not searched for, and not deleted
    in_threads(bv.open(NEW[:2]).to(out, chunks=CHUNKS))
    assert (out / "c/3/notes.txt").read_text() == "mine"
    assert {p.parent for p in out.glob("c/*/*/*")} == set()


@pytest.mark.parametrize("path", ["../b.zarr", "/etc", "0/../../b.zarr", "."])
def test_names_outside_of_the_output_are_not_deleted(tmp_path, path):
    """Metadata of others name no files outside: objects are listed then, and deleted at once."""
    for name in ("a.ome.zarr", "b.zarr"):
        in_threads(bv.open(OLD).to(tmp_path / name, chunks=CHUNKS))
    before = contents(tmp_path / "b.zarr")
    meta = tmp_path / "a.ome.zarr/zarr.json"
    document = json.loads(meta.read_text())
    document["attributes"]["ome"]["multiscales"][0]["datasets"].append({"path": path})
    meta.write_text(json.dumps(document))
    sink = make_sink(tmp_path / "a.ome.zarr", shape=NEW.shape, dtype="u2")
    assert not sink.has_many_objects()
    assert contents(tmp_path / "b.zarr") == before


DELETE = OwnedOutput.delete_part


def stops_at(number):
    calls = []

    def stops(sink, run_id, k):
        calls.append(k)
        if len(calls) > number:
            raise OSError("stopped")
        return DELETE(sink, run_id, k)

    return stops


@pytest.mark.parametrize("how", [in_threads, by_pipeline])
def test_a_stopped_deletion_goes_on_or_is_replaced(tmp_path, how, monkeypatch):
    """Levels with names of another program, which only the replaced metadata have."""
    out = tmp_path / "a.ome.zarr"
    source = bv.compute(bv.open(NEW).to(tmp_path / "in.zarr"), runner=None)
    for resumes in (True, False):
        in_threads(bv.open(OLD).to(out, chunks=CHUNKS, levels=2))
        for folder in ("0", "1"):
            (out / folder).rename(out / f"s{folder}")
        text = (out / "zarr.json").read_text()
        (out / "zarr.json").write_text(text.replace('"path": "', '"path": "s'))
        monkeypatch.setattr(OwnedOutput, "delete_part", stops_at(9))
        with pytest.raises(Exception, match="stopped"):
            bv.compute((source + 1).to(out), overwrite=True, runner=None)
        left = len(contents(out))
        assert 100 < left < 6 * 5 * 5 + 3 * 3 * 3 + 10
        with pytest.raises(Exception, match=r"no zarr array|unfinished|group"):
            np.asarray(bv.open(out))
        monkeypatch.setattr(OwnedOutput, "delete_part", DELETE)
        if not resumes:
            how((source + 1).to(out))
        elif how is in_threads:
            assert main(["resume", str(out), "--quiet"]) == 0
        else:
            with beam.Pipeline("FnApiRunner") as p:
                step = bv.Compute((source + 1).to(out), resume=True)
                assert step.session.clears
                _ = p | step
        np.testing.assert_array_equal(bv.open(out), NEW + 1)
        assert bv.verify(out, checksums=True) == []
        assert not [*out.glob("s*")]


def begun(target):
    return begin(bv.plan(target), RunOptions(overwrite=True, runner=None))


def every(session, count):
    for k in range(count):
        clearing.delete(session, k)


@pytest.mark.filterwarnings("ignore::beam_volumes.UnfinishedWarning")
def test_late_workers_delete_nothing_of_their_own_run_or_of_another(tmp_path):
    out = tmp_path / "a.zarr"
    in_threads(bv.open(OLD).to(out, chunks=CHUNKS))
    session = begun(bv.open(NEW).to(out, chunks=CHUNKS))
    session.prepare()
    count = clearing.count(session)
    assert count == 6 * 5 * 5 // 3
    session.prepare()  # as a runner that repeats the step
    every(session, count)
    kept = {p.relative_to(out).as_posix() for p in out.glob("c/*/*/*")}
    assert kept == {f"c/{z}/{y}/{x}" for z in range(4) for y in range(3) for x in range(3)}
    # A worker that has read its part before the deletion ended goes on while slabs are written.
    late = session.plan.outputs[0]._replaced_parts(session.plan.outputs[0].state(), session.run_id)
    clearing.end(session)
    assert clearing.count(session) == 0
    for k in range(len(session.plan.passes[0].grid)):
        slabs.sweep_slab(session, 0, k, {})
    written = contents(out)
    for k in range(count):
        Place(session.plan.outputs[0].home).delete_while(late.names(k), lambda: True)
    every(session, count)
    assert contents(out) == written
    np.testing.assert_array_equal(bv.open(out), NEW)
    # A rival takes over while another run deletes.
    in_threads(bv.open(OLD).to(out, chunks=CHUNKS))
    slow = begun(bv.open(NEW + 1).to(out, chunks=CHUNKS))
    slow.prepare()
    count = clearing.count(slow)
    clearing.delete(slow, count - 1)
    in_threads(bv.open(OLD + 2).to(out, chunks=CHUNKS))
    every(slow, count)
    clearing.end(slow)
    with pytest.raises(Superseded):
        slow.check(slow.plan.outputs)
    np.testing.assert_array_equal(bv.open(out), OLD + 2)
    assert bv.verify(out, checksums=True) == []


def test_names_of_a_bucket_are_deleted_without_a_listing_of_chunks(monkeypatch):
    sink = make_sink("memory://cleared/a.zarr", shape=OLD.shape, dtype="u2", chunks=CHUNKS)
    sink.create("run 1")
    place = Place(sink.home)
    for cell in np.ndindex(6, 5, 5):
        place.write("c/" + "/".join(map(str, cell)), b"old")
    place.write("_beam_volumes_provenance.json", b"{}")
    new = make_sink("memory://cleared/a.zarr", shape=NEW.shape, dtype="u2", chunks=CHUNKS)
    assert new.has_many_objects()
    place.write("c/readme", b"mine")
    with pytest.raises(OutputExistsError, match="contains c/readme"):
        new.create("run 2", overwrite=True, in_parts=True)
    place.delete("c/readme")
    listed = []
    names_outside = Place._names_outside
    monkeypatch.setattr(
        Place, "_names_outside", lambda self, s: listed.append(names_outside(self, s)) or listed[-1]
    )
    new.create("run 2", overwrite=True, in_parts=True)
    assert len(listed) == 2 and max(map(len, listed)) == 2
    for k in range(new.parts_left("run 2")):
        new.delete_part("run 2", k)
    new.note_deleted("run 2")
    left = {f"c/{z}/{y}/{x}" for z in range(4) for y in range(3) for x in range(3)}
    assert {*place.names()} == {"zarr.json", *left}
    assert place.json("zarr.json")["node_type"] == "array"


def test_the_job_does_not_grow_with_the_names_of_the_output(tmp_path):
    def size(chunks):
        out = tmp_path / "a.zarr"
        in_threads(bv.open(OLD).to(out, chunks=chunks))
        pipeline = beam.Pipeline()
        step = bv.Compute(bv.open(NEW).to(out), overwrite=True, slab=(8, 20, 20))
        assert step.session.clears
        _ = pipeline | step
        proto = pipeline.to_runner_api()
        return len(proto.components.transforms), proto.ByteSize()

    (steps, small), (same, large) = size((12, 40, 36)), size(CHUNKS)
    assert steps == same and abs(large - small) < 2000


def test_intermediate_results_are_deleted_in_parts(tmp_path, monkeypatch):
    v = bv.compute(bv.open(OLD).to(tmp_path / "in.zarr", chunks=CHUNKS), runner=None)
    kept = bv.map_overlap(double, v, name="double", version="1", dtype="u2", deterministic=False)
    target = (kept + bv.max(kept)).to(tmp_path / "out.zarr", chunks=CHUNKS)
    left, remove = [], Place.remove

    def spy(place):
        if place.local and place.local.rstrip("/").endswith("intermediate"):
            left.append(sorted(p.name for p in Path(place.local).rglob("*") if p.is_file()))
        remove(place)

    monkeypatch.setattr(Place, "remove", spy)
    with beam.Pipeline("FnApiRunner") as p:
        step = bv.Compute(target, slab=CHUNKS)
        assert len(step.session.plan.intermediates) == 1
        _ = p | step
    assert left and all(names in ([], ["zarr.json"]) for names in left)
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), 2 * OLD + (2 * OLD).max())


def double(block):
    return 2 * block


@pytest.mark.parametrize("run", [in_threads, by_pipeline])
def test_a_run_deletes_the_journal_of_the_replaced_one(tmp_path, monkeypatch, run):
    monkeypatch.setattr("beam_volumes.runs.journal.MAX_AT_ONCE", 0)
    in_threads(bv.open(OLD).to(tmp_path / "a.zarr", chunks=CHUNKS))
    parts = spied(monkeypatch, Journal, "delete_part")
    run(bv.open(NEW).to(tmp_path / "a.zarr", chunks=CHUNKS))
    assert (0,) in parts and len(os.listdir(tmp_path / "a.zarr.run/runs")) == 1


def test_a_replaced_journal_is_deleted_in_parts(tmp_path, monkeypatch):
    """Also one that a stopped run has not deleted."""
    monkeypatch.setattr("beam_volumes.runs.journal.MAX_AT_ONCE", 0)
    place = str(tmp_path / "a.run")

    def replacing(run, slabs, in_parts=True):
        manifest = Manifest(run, {}, passes=[{"slabs": n} for n in slabs])
        return Journal.create(place, manifest, overwrite=True, in_parts=in_parts)

    def there(run):
        return Place(Journal(first.spec, run).own).names()

    first = replacing("first", [2500, 3])
    for slab in (0, 999, 1000, 2499):
        first.start(0, slab)
        first._folder.write(f"records/0-{slab // 1000:06d}/{slab:09d}", b"")
        first._folder.write(f"payloads/0/{slab:09d}-x", b"")
    first.start(1, 2)
    second = replacing("second", [1])
    assert second.parts_left() == 4 and len(there("first")) == 13
    second.delete_part(1)
    assert len(there("first")) == 10 and not any("/000001000" in n for n in there("first"))
    third = replacing("third", [1])
    assert third.parts_left() == 5
    second.delete_part(0)  # a late attempt
    assert len(there("first")) == 10
    for k in (0, 0, 1, 2, 3, 4):
        third.delete_part(k)
    assert there("first") == []
    third.note_deleted()
    assert third.parts_left() == 0 and os.listdir(tmp_path / "a.run/runs") == ["third"]
    replacing("fourth", [1], in_parts=False)
    assert os.listdir(tmp_path / "a.run/runs") == []
