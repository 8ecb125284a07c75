"""The journal: records, attempts, scalars, and how they are found again."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from beam_volumes.base.geometry import Box
from beam_volumes.runs import (
    Journal,
    Manifest,
    Record,
    Tally,
    compare,
    ranges,
    run_folder,
)
from beam_volumes.runs.record import LIMIT, count, indices
from beam_volumes.storage.places.place import Place

BOX = Box((0, 0, 0), (7, 64, 64))


def record(slab: int, **fields) -> Record:
    return Record(slab=slab, box=BOX.translate((7 * slab, 0, 0)), **fields)


@pytest.fixture
def journal(tmp_path):
    return Journal.create(run_folder(tmp_path / "out.zarr"), Manifest("one", {"grid": [7, 64, 64]}))


def fill(journal, pass_index, slabs):
    """Records as empty files: what counting needs, and fast."""
    for slab in slabs:
        path = journal.own["path"] + f"records/{pass_index}-{slab // 1000:06d}/{slab:09d}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()


def test_lies_beside_the_output(tmp_path, journal):
    assert os.path.exists(tmp_path / "out.zarr.run" / "manifest.json")
    assert run_folder("s3://b/x.zarr/")["path"] == "x.zarr.run/"


def test_manifest_comes_back(tmp_path):
    manifest = Manifest(
        "id", {"grid": [1, 2], "a": "x"}, passes=[{"step": [7, 8, 9]}], outputs=["o"], package="0.1"
    )
    place = run_folder(tmp_path / "o")
    assert Journal.load(place) is None
    assert Journal.open(place) is None
    Journal.create(place, manifest)
    assert Journal.load(place) == manifest
    assert Journal.open(place) == Journal.create(place, manifest, overwrite=True)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"format": 1}', '{"format": 99}'])
def test_damaged_manifest_is_named(journal, text):
    with open(journal.url + "manifest.json", "w") as file:
        file.write(text)
    with pytest.raises(ValueError, match=r"out\.zarr\.run/manifest\.json.*overwrite=True"):
        Journal.load(journal.spec)


def test_differing_fields_are_named():
    a = Manifest("a", {"input:em": "x", "step:gaussian#3": "sigma=1", "old": 1, "t": (1, 2)})
    b = Manifest("b", {"input:em": "x", "step:gaussian#3": "sigma=2", "new": 2, "t": [1, 2]})
    assert compare(a, b) == [
        ("step:gaussian#3", "sigma=1", "sigma=2"),
        ("old", 1, None),
        ("new", None, 2),
    ]
    assert compare(a, a) == []


def test_existing_journal_is_kept_unless_told(journal):
    journal.write_record(0, 0, record(0))
    with pytest.raises(FileExistsError, match="resume=True"):
        Journal.create(journal.spec, Manifest("two", {}))
    two = Journal.create(journal.spec, Manifest("two", {}), overwrite=True)
    assert two.finished(0) == []


def test_a_record_of_another_run_is_none(tmp_path, journal):
    """Not even where somebody has copied it into this run's folder."""
    other = Journal.create(run_folder(tmp_path / "other.zarr"), Manifest("two", {}))
    other.write_record(0, 0, record(0))
    name = "records/0-000000/000000000"
    copied = Path(journal.own["path"], name)
    copied.parent.mkdir(parents=True)
    copied.write_bytes(Path(other.own["path"], name).read_bytes())
    assert journal.read_record(0, 0) is None and list(journal.records(0)) == []


@pytest.mark.parametrize("size", [0, 10, LIMIT, 3 * LIMIT])
def test_record_comes_back(journal, size):
    written = {"a": ranges(range(5)), "b": ()}
    sent = record(
        3,
        attempt=journal.start(2, 3),
        started=1.5,
        seconds=2.5,
        bytes_read=10**12,
        written=written,
        empty={"a": ranges([7, 9])},
        emission=os.urandom(size),
    )
    assert journal.read_record(2, 3) is None
    journal.write_record(2, 3, sent)
    assert journal.read_record(2, 3) == sent
    assert list(journal.records(2)) == [sent]
    bare = replace(sent, written={}, empty={}, emission=b"")
    assert list(journal.records(2, bodies=False)) == [bare]
    assert os.path.getsize(journal.own["path"] + "records/2-000000/000000003") <= LIMIT
    assert bool(Place.of(journal.own).names("payloads/")) == (size >= LIMIT)


def test_units_of_a_tile_stay_small(journal):
    """A tile's units are one range per row: 20,000 ranges here."""
    tile = ranges(z * 10**6 + y * 1000 + x for z in range(20) for y in range(1000) for x in (7, 8))
    assert (len(tile), count(tile)) == (20_000, 40_000)
    journal.write_record(0, 0, record(0, written={"a": tile}))
    assert os.path.getsize(journal.own["path"] + "records/0-000000/000000000") < 5000
    assert journal.read_record(0, 0).written == {"a": tile}
    assert ranges(indices(tile)) == tile


def test_duplicates_are_harmless(journal):
    first, second = (journal.start(0, 5) for _ in range(2))
    emission = os.urandom(2 * LIMIT)
    journal.write_record(0, 5, record(5, attempt=first, emission=emission))
    journal.write_record(0, 5, record(5, attempt=second, emission=emission))
    assert journal.finished(0) == [5]
    assert journal.read_record(0, 5).emission == emission
    assert journal.attempts_of(0) == {5: 2}


def test_two_processes_write_the_same_record(journal):
    code = (
        "import pickle, sys; journal, record = pickle.load(sys.stdin.buffer)\n"
        "for _ in range(50): journal.write_record(0, 1, record)"
    )
    sent = record(1, emission=os.urandom(2 * LIMIT))
    children = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) for _ in range(2)
    ]
    for child in children:
        child.stdin.write(pickle.dumps((journal, sent)))
        child.stdin.close()
    while any(child.poll() is None for child in children):
        assert journal.read_record(0, 1) in (None, sent)
    assert [child.wait() for child in children] == [0, 0]
    assert journal.read_record(0, 1) == sent


def test_records_of_another_run_are_not_read(journal):
    replace(journal, run_id="old").write_record(0, 1, record(1))
    assert journal.read_record(0, 1) is None
    assert list(journal.records(0)) == []


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff\n", b"[]\n", None])
def test_damaged_record_is_named(journal, damage):
    journal.write_record(0, 1, record(1, emission=b"x" * 100))
    path = journal.own["path"] + "records/0-000000/000000001"
    if damage is None:
        with open(path, "rb") as file:
            damage = file.read()[:-1]
    elif damage == b"{}\n":
        damage = b'{"run": "one"}\n'
    with open(path, "wb") as file:
        file.write(damage)
    with pytest.raises(ValueError, match=r"records/0-000000/000000001 is damaged"):
        journal.read_record(0, 1)


def test_missing_payload_is_named(journal):
    journal.write_record(0, 1, record(1, attempt="a", emission=b"x" * LIMIT))
    os.remove(journal.own["path"] + "payloads/0/000000001-a")
    with pytest.raises(ValueError, match=r"payloads/0/000000001-a is missing"):
        journal.read_record(0, 1)


def test_unwritable_place_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file/x\.run/manifest\.json"):
        Journal.create(tmp_path / "file" / "x.run", Manifest("a", {}))


def test_finished_and_missing(journal):
    fill(journal, 0, [0, 2, 3, 999, 1000, 1002])
    fill(journal, 1, [5])
    fill(journal, 10, [6])
    assert journal.finished(0) == [0, 2, 3, 999, 1000, 1002]
    assert journal.finished(1) == [5]


def test_full_folders_are_not_listed_again(journal, monkeypatch):
    listed = []
    names_many = Place.names_many

    def counting(self, prefixes):
        prefixes = list(prefixes)
        listed.append(prefixes)
        return names_many(self, prefixes)

    monkeypatch.setattr(Place, "names_many", counting)
    tally = Tally(journal, 0, 2500)
    assert tally.update().done == 0
    fill(journal, 0, [*range(1200), 2499])
    assert tally.update().done == 1201
    assert tally.update().done == 1201
    fill(journal, 0, range(1200, 2499))
    assert tally.update().done == 2500
    assert tally.update().unfilled == []
    assert [len(prefixes) for prefixes in listed] == [3, 3, 2, 2, 0]


def test_attempts_and_slabs_in_flight(journal):
    for slab in (4, 1500, 2, 4):
        journal.start(0, slab)
    journal.start(1, 9)
    assert journal.attempts_of(0) == {4: 2, 1500: 1, 2: 1}
    assert [journal.attempts_at(0, slab) for slab in (4, 2, 3)] == [2, 1, 0]
    assert set(Tally(journal, 0, 2000).update().in_flight()) == {2, 4, 1500}
    journal.write_record(0, 4, record(4))
    assert set(Tally(journal, 0, 2000).update().in_flight()) == {1500, 2}


def test_slabs_in_flight_come_newest_first(journal, monkeypatch):
    times = iter(range(10**18, 2 * 10**18, 10**9))
    monkeypatch.setattr("time.time_ns", lambda: next(times))
    for slab in (3, 1, 2, 3):
        journal.start(0, slab)
    assert Tally(journal, 0, 4).update().in_flight() == [3, 2, 1]


def test_attempts_can_be_left_out(journal):
    quiet = replace(journal, attempts=False)
    assert quiet.start(0, 1) != quiet.start(0, 1)
    assert quiet.attempts_of(0) == {}


def test_marks_belong_to_a_run(journal):
    assert not journal.marked("outputs")
    journal.mark("outputs")
    assert journal.marked("outputs")
    assert not replace(journal, run_id="two").marked("outputs")


def test_scalars(journal):
    assert journal.read_scalars(1) is None
    journal.write_scalars(1, {"otsu": 0.5, 3: (1, 2)})
    assert journal.read_scalars(1) == {"otsu": 0.5, 3: (1, 2)}
    assert journal.has_scalars(1) and not journal.has_scalars(0)
    other = replace(journal, run_id="two")
    assert other.read_scalars(1) is None and not other.has_scalars(1)
    path = Path(journal.own["path"]) / "scalars" / "pass-1"
    whole = path.read_bytes()
    for damaged in (b"\x80", whole[:-1], whole[:-1] + b"?"):
        path.write_bytes(damaged)
        for look in (journal.read_scalars, journal.has_scalars):
            with pytest.raises(ValueError, match=r"scalars/pass-1 is damaged"):
                look(1)


def test_remove_leaves_what_is_not_its_own(tmp_path, journal):
    journal.write_record(0, 1, record(1, emission=b"x" * LIMIT, attempt=journal.start(0, 1)))
    other = tmp_path / "out.zarr.run" / "notes.txt"
    other.write_text("")
    journal.remove()
    assert os.listdir(tmp_path / "out.zarr.run") == ["notes.txt"]
    other.unlink()
    journal.mark("x")
    journal.remove()
    assert not os.path.exists(tmp_path / "out.zarr.run")
    journal.remove()


def test_memory_is_a_place_too():
    journal = Journal.create("memory://run", Manifest("one", {}))
    journal.write_record(0, 1, record(1))
    assert journal.finished(0) == [1]
    assert Journal.open("memory://run") == journal
    journal.remove()
    assert Journal.open("memory://run") is None
