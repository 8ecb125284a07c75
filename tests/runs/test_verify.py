"""What `verify` finds in a run that something has happened to."""

import json
import pickle
import shutil
import time
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.runs.journal import Journal, find_run
from beam_volumes.runs.record import indices, packed, ranges, seal, unpacked
from beam_volumes.runs.verify import Check, Verification
from beam_volumes.storage.places.place import Place, kvstore_spec
from beam_volumes.transforms.verify import build
from tests.transforms.trees import membranes

ARRAY = membranes((16, 40, 48))
ARRAY[4:8, :20] = 0  # units that are left out as empty


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of several passes with outputs of every kind."""
    folder = tmp_path_factory.mktemp("finished")
    v = bv.open(ARRAY)
    smooth = bv.gaussian_filter(v, 1)
    mask = smooth > bv.threshold_otsu(smooth)
    table = bv.regionprops_table(bv.label(mask), v)
    targets = [
        bv.where(v > 120, v, 0).to(folder / "out.zarr", chunks=(4, 20, 24), codec=None),
        mask.to(folder / "mask.ome.zarr", chunks=(4, 20, 24), ome_version="0.4"),
        smooth.to(folder / "smooth.zarr", chunks=(2, 10, 12), shards=(4, 20, 24)),
        v[3].to(folder / "plane.zarr", chunks=(20, 24)),
        *(table.to(folder / f"cells.{ending}") for ending in ("parquet", "csv", "jsonl")),
    ]
    bv.compute(*targets, bv.mean(v), runner=None, slab=(4, 40, 48), progress=False)
    return folder


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it; its manifest names where it was written, so it moves back and forth."""
    kept = tmp_path / "kept"
    shutil.copytree(finished, kept)
    yield finished
    shutil.rmtree(finished)
    shutil.copytree(kept, finished)


@pytest.mark.parametrize("place", ["out.zarr", "out.zarr.run", "out.zarr/"])
def test_a_complete_run(finished, place, capsys):
    assert main(["verify", f"{finished}/{place}", "--checksums"]) == 0
    said = capsys.readouterr()
    assert not said.err and said.out.count("\n") == 1
    units = [p for out in finished.glob("*.zarr") for p in out.rglob("*") if p.is_file()]
    units = sum(p.name.isdigit() for p in units)
    assert f"complete: 5 passes, 17 slabs, {units:,} units read" in said.out
    assert "3 tables" in said.out
    assert bv.verify(finished / place) == []


#: What happens to a run, what is said of it (one line that holds all of these), and whether by
#: checksums only.
HARM = {
    "a unit is gone": (
        lambda f: (f / "out.zarr/c/2/1/0").unlink(),
        [r"slab 2 [8:12, 0:40, 0:48]: unit 10 [8:12, 20:40, 0:24] of", "out.zarr is missing"],
    ),
    "a unit of an older version is gone": (
        lambda f: (f / "mask.ome.zarr/0/3/0/1").unlink(),
        ["mask.ome.zarr is missing", "unit 13 [12:16, 0:20, 24:48]"],
    ),
    "a chunk is cut short": (
        lambda f: cut(f / "out.zarr/c/0/0/1"),
        ["unit 1 ", "out.zarr cannot be read", "damaged"],
    ),
    "a shard is cut short": (
        lambda f: cut(f / "smooth.zarr/c/0/0/1"),
        ["unit 1 ", "smooth.zarr cannot be read"],
    ),
    "a plane is gone": (lambda f: (f / "plane.zarr/c/1/1").unlink(), ["unit 3", "plane.zarr"]),
    "what was empty is there": (
        lambda f: shutil.copy(f / "out.zarr/c/0/0/0", made(f / "out.zarr/c/1/0/0")),
        ["slab 1 [4:8,", "unit 4 ", "exists, but was recorded as empty"],
    ),
    "a record is gone": (
        lambda f: [p.unlink() for p in f.glob("out.zarr.run/runs/*/records/2-*/*2")],
        ["pass 3: slab 2 not finished"],
    ),
    "a record is damaged": (
        lambda f: cut(*f.glob("out.zarr.run/runs/*/records/0-000000/000000003")),
        ["pass 1, slab 3", "records/0-000000/000000003 is damaged"],
    ),
    "numbers are gone": (
        lambda f: [p.unlink() for p in f.glob("out.zarr.run/runs/*/scalars/pass-0")],
        ["pass 1: ", "not merged"],
    ),
    "numbers are cut short": (
        lambda f: cut(*f.glob("out.zarr.run/runs/*/scalars/pass-0")),
        ["pass 1: ", "scalars/pass-0 is damaged"],
    ),
    "a record leaves out a unit": (
        lambda f: rerecord(f, 2, lambda units: units[1:]),
        ["out.zarr: 1 of 16 units have no record"],
    ),
    "a record lists no unit": (
        lambda f: rerecord(f, 3, lambda units: []),
        ["out.zarr: 4 of 16 units have no record"],
    ),
    "a record names a unit of another slab for its own": (
        lambda f: rerecord(f, 2, lambda units: [units[0] - 1, *units[1:]]),
        ["slab 2 [8:12,", "unit 7 [4:8,", "out.zarr does not belong to that slab"],
    ),
    "an output is gone": (
        lambda f: shutil.rmtree(f / "mask.ome.zarr"),
        ["mask.ome.zarr is missing"],
    ),
    "a shard of a table is gone": (
        lambda f: (f / "cells.parquet/part-00000.parquet").unlink(),
        ["cells.parquet: shard part-00000.parquet is missing"],
    ),
    "a shard of a table is cut short": (
        lambda f: cut(f / "cells.parquet/part-00000.parquet"),
        ["part-00000.parquet cannot be read"],
    ),
    "a table is gone": (
        lambda f: (f / "cells.csv").unlink(),
        ["cells.csv is missing or was written by another run"],
    ),
    "a voxel has changed": (
        lambda f: flip(f / "out.zarr/c/3/1/1"),
        ["slab 3 ", "unit 15", "differs from the voxels that were written"],
    ),
    "a row has changed": (
        lambda f: flip(f / "cells.jsonl"),
        ["cells.jsonl differs from the written table"],
    ),
}
ONLY_BY_CHECKSUMS = {"a voxel has changed", "a row has changed"}


def rerecord(folder: Path, slab: int, change) -> None:
    """Write a record anew, as if it were whole, with other units of the first output."""
    journal = find_run(folder / "out.zarr")
    for k in range(5):
        record = journal.read_record(k, slab)
        name = str(folder / "out.zarr")
        if record is not None and name in record.written:
            units, sums = list(indices(record.written[name])), unpacked(record.sums[name])
            changed = change(units)
            written = {**record.written, name: ranges(changed)}
            sums = packed(sums[: len(changed)] if changed[:1] != units[1:2] else sums[1:])
            record = replace(record, written=written, sums={**record.sums, name: sums})
            journal.write_record(k, slab, record)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def made(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@pytest.mark.parametrize("harm", HARM)
def test_what_is_wrong_is_said_in_one_line_each(run, harm, capsys):
    happens, says = HARM[harm]
    happens(run)
    if harm in ONLY_BY_CHECKSUMS:
        assert bv.verify(run / "out.zarr") == []
    assert main(["verify", f"{run}/out.zarr", "--checksums"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1, lines
    assert all(part in lines[0] for part in says), lines


def test_a_stopped_run_says_which_slabs_are_missing(tmp_path):
    def stops(block):
        if block[:, 0, 0].max() == 2:
            raise ZeroDivisionError("stopped here")
        return block

    v = bv.open(np.arange(4, dtype="u1")[:, None, None] * np.ones((1, 8, 8), "u1"))
    target = bv.map_overlap(stops, v, name="stops").to(tmp_path / "out.zarr", chunks=(1, 8, 8))
    with pytest.raises(
        ZeroDivisionError, match=r"^pass 1, slab 2 \[2:3, 0:8, 0:8\]: stops, slices"
    ):
        bv.compute(target, runner=None, slab=(1, 8, 8), progress=False)
    assert bv.verify(tmp_path / "out.zarr") == ["pass 1: slabs 2 to 3 not finished"]
    assert bv.verify(tmp_path / "out.zarr", max_problems=0) == []


class Trap:
    """Ends the program when it is unpickled."""

    def __reduce__(self):
        return exit, ("unpickled",)


def test_what_others_ran_is_verified_without_being_executed(run):
    journal = find_run(run / "out.zarr")
    folder, trap = Path(journal.own["path"]), pickle.dumps(Trap())
    for file in [folder / "plan", *folder.glob("scalars/*")]:
        if file.exists():
            file.write_bytes(seal(trap, journal.run_id))
    for k in range(5):
        for record in journal.records(k):
            journal.write_record(k, record.slab, replace(record, emission=trap))
    assert bv.verify(run / "out.zarr", checksums=True) == []
    with pytest.raises(SystemExit, match="unpickled"):
        journal.read_scalars(0)


def test_no_run_is_a_mistake(tmp_path, capsys):
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "file.csv").write_text("")
    for name in ("x.zarr", "nothing", "file.csv"):
        assert main(["verify", str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"{name}: there is no run" in said
    (tmp_path / "x.zarr.run").mkdir()
    (tmp_path / "x.zarr.run" / "manifest.json").write_text(json.dumps({"format": 99}))
    assert main(["verify", str(tmp_path / "x.zarr")]) == 2
    assert "format 99" in capsys.readouterr().err


def test_zeros_with_a_sign_are_stored(tmp_path):
    v = bv.open(np.full((4, 8, 8), -0.0))
    bv.compute(v.to(tmp_path / "out.zarr"), runner=None, progress=False)
    assert bv.verify(tmp_path / "out.zarr", checksums=True) == []
    assert np.signbit(np.asarray(bv.open(tmp_path / "out.zarr"))).all()


def test_slices_are_found_by_their_pattern(tmp_path):
    bv.compute(
        bv.open(np.zeros((3, 4, 5), "u1")).to(tmp_path / "out", format="png"), progress=False
    )
    assert bv.verify(tmp_path / "out" / "*.png") == []
    (tmp_path / "out" / "1.png").unlink()
    assert len(bv.verify(tmp_path / "out" / "*.png")) == 1


def harmed(run):
    """Damage some units, and return the problems."""
    for harm in ("a unit is gone", "a record is gone", "a shard is cut short"):
        HARM[harm][0](run)
    return bv.verify(run / "out.zarr")


def test_a_pipeline_finds_the_same(run):
    expected = harmed(run)
    assert len(expected) == 3
    assert bv.verify(run / "out.zarr", workers=1) == expected
    assert bv.verify(run / "out.zarr", runner="FnApiRunner", workers=2) == expected
    assert bv.verify(run / "out.zarr", journal=run / "verify", max_problems=1) == expected[:1]
    assert not [*run.rglob("verify")]


def test_late_threads_of_a_verification_with_enough_problems_leave_nothing(run, monkeypatch):
    expected, write = harmed(run), Journal.write_record

    def late(*args):
        time.sleep(0.05)
        write(*args)

    monkeypatch.setattr(Journal, "write_record", late)
    asked = {"journal": run / "verify", "workers": 4, "max_problems": 1}
    assert bv.verify(run / "out.zarr", **asked) == expected[:1]
    time.sleep(0.1)
    assert not [*run.rglob("verify")]


@pytest.mark.parametrize("runner", [None, "FnApiRunner"])
def test_a_stopped_verification_goes_on(run, tmp_path, runner, monkeypatch):
    out, journal = run / "out.zarr", tmp_path / "checked"
    item = Check.item

    def stops(check, index):
        if index == 12:
            raise OSError("stopped")
        return item(check, index)

    monkeypatch.setattr(Check, "item", stops)
    with pytest.raises(OSError, match="stopped"):
        bv.verify(out, journal=journal, workers=1, checksums=True)
    monkeypatch.setattr(Check, "item", item)
    first = Path(Journal.open(journal).own["path"])
    checked = {int(p.name) for p in first.glob("records/0-*/*")}
    assert checked >= set(range(12)) and 12 not in checked
    # Outputs are items 0 to 6, and then come the slabs.
    (out / "c/0/0/0").unlink()
    HARM["numbers are gone"][0](run)
    with pytest.raises(ValueError, match=r"cannot resume .*checksums: True became False"):
        bv.verify(out, journal=journal, resume=True)
    how = {"journal": journal, "runner": runner, "checksums": True}
    assert ["not merged" in p for p in bv.verify(out, resume=True, **how)] == [True]
    assert not journal.exists()
    assert len(bv.verify(out, **how)) == 2


def test_the_journal_of_a_run_is_never_replaced_by_a_verification(run):
    with pytest.raises(ValueError, match=r"out.zarr.run/ is the journal of a run"):
        bv.verify(run / "out.zarr", journal=run / "out.zarr.run")
    assert bv.verify(run / "out.zarr") == []


def test_a_verification_that_another_has_replaced_reports_nothing(run, tmp_path):
    check = Check.of(run / "out.zarr")
    first = Verification.of(check, kvstore_spec(tmp_path / "j"), False)
    first.prepare()
    for index in range(len(check)):
        first.verify(index)
    second = Verification.of(check, kvstore_spec(tmp_path / "j"), False)
    second.prepare()
    with pytest.raises(OSError, match=f"belongs to the run {second.journal.run_id} now"):
        list(first.found())
    second.verify(0)
    with pytest.raises(OSError, match="item 1 of the verification has no record"):
        list(second.found())


def test_the_job_of_a_verification_does_not_grow_with_the_run(run):
    def size(slabs):
        check = Check.of(run / "out.zarr")
        passes = [{**p, "slabs": slabs} for p in check.manifest.passes]
        check = replace(check, manifest=replace(check.manifest, passes=passes))
        assert len(check) <= 20_100
        pipeline = beam.Pipeline()
        build(pipeline, Verification.of(check, None, False))
        proto = pipeline.to_runner_api()
        return len(proto.components.transforms), proto.ByteSize()

    (steps, small), (same, large) = size(3), size(10**9)
    assert steps == same and large < small + 2000


def test_many_units_are_listed_row_by_row(tmp_path, monkeypatch):
    v, names = bv.open(ARRAY), []
    chunks = {"chunks": (4, 20, 24)}
    targets = {
        "a.zarr": chunks,
        "b.n5": chunks,
        "c.precomputed": chunks,
        "d.precomputed": {"chunks": (4, 8, 8), "shards": (8, 16, 16)},
        "e.nrrd": {},
    }
    bv.compute(*(v.to(tmp_path / name, **how) for name, how in targets.items()), runner=None)
    listing = Place.names

    def listed(place, prefix=""):
        found = listing(place, prefix)
        if prefix.partition("/")[0] not in ("runs", ""):
            names.append(len(found))
        return found

    monkeypatch.setattr(Place, "names", listed)
    monkeypatch.setattr("beam_volumes.storage.outputs.units._UNITS", 1)
    assert bv.verify(tmp_path / "a.zarr", checksums=True) == []
    assert max(names) <= 18  # of the sharded one, whose numbers have two digits
    shard = next((tmp_path / "c.precomputed").glob("*/0-24_0-20_*"))
    shard.unlink()
    assert "c.precomputed is missing" in bv.verify(tmp_path / "a.zarr")[0]
