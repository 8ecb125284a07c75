"""What a power cut would leave: nothing recorded may rest on what a disk does not hold yet."""

import os
import pickle
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.runs import record as records
from beam_volumes.session.begin import begin
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places import single_file
from beam_volumes.storage.places.place import Place
from beam_volumes.transforms import compute_all
from tests.transforms.trees import membranes, stored


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """The content of the disk, kept up to date; and records before the disk has their data."""
    held: set[str] = set()
    lacking: list[tuple[str, set[str]]] = []
    sync, write = single_file._sync, Place.write
    outputs = tmp_path / "outputs"

    def files():
        return {str(f) for f in outputs.rglob("*") if f.is_file() and "starts" not in f.parts}

    def syncing(handle):
        sync(handle)
        held.update(files())

    def writing(self, key, data):
        before = files()
        write(self, key, data)
        if key.startswith("records/") or key == "ended":
            lacking.append((key, {f for f in before - held if "records" not in f}))

    monkeypatch.setattr(single_file, "_sync", syncing)
    monkeypatch.setattr(Place, "write", writing)
    monkeypatch.setattr(records, "LIMIT", 2000)  # so that there are payloads
    return lacking


def targets(v, folder):
    smooth = bv.gaussian_filter(v, 1)
    found = bv.label(smooth > bv.threshold_otsu(smooth))
    return [
        found.to(folder / "cells.zarr", chunks=(5, 12, 14)),
        smooth.to(folder / "smooth.zarr"),
        bv.regionprops_table(found, v).to(folder / "cells.csv"),
    ]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_record_does_not_outlive_its_voxels(tmp_path, monkeypatch, disk, wanted):
    v = stored(tmp_path, membranes(), chunks=(5, 12, 14))
    monkeypatch.setattr(bv.options, "durable", wanted)
    how = {"runner": None, "progress": False, "slab": (20, 24, 28)}
    bv.compute(*targets(v, tmp_path / "outputs"), **how)
    assert len(disk) > 4 and any(key == "ended" for key, _ in disk)
    assert any("payloads" in f for f in map(str, Path(tmp_path).rglob("*")))
    lacks = {key for key, files in disk if files}
    assert lacks == (set() if wanted else {key for key, _ in disk})


def test_a_table_is_not_whole_before_the_disk_holds_it(tmp_path, disk):
    sink = TableSink.of(tmp_path / "outputs" / "t.csv")
    sink.create("run")
    sink.write(0, {"label": np.arange(5)})
    held = []
    sync = single_file._sync
    single_file._sync = lambda handle: held.append(sink.state().get("finished")) or sync(handle)
    sink.finish(1, durable=True)
    assert held == [None] and sink.state()["finished"]


def test_it_goes_with_the_run_wherever_that_is_computed(tmp_path, monkeypatch):
    v = bv.open(np.zeros((2, 3, 4), "u1"))
    plan = bv.plan(bv.mean(v))
    monkeypatch.setattr(bv.options, "durable", True)
    session, each = begin(plan), bv.ComputeAll(lambda path: {"mean": bv.mean(v)}).computing
    monkeypatch.setattr(bv.options, "durable", False)
    assert pickle.loads(cloudpickle.dumps(session)).durable
    seen = []
    run = compute_all.run_local
    monkeypatch.setattr(
        compute_all,
        "run_local",
        lambda session, **how: seen.append(session.durable) or run(session, **how),
    )
    _, found = each("a")
    assert found == {"mean": 0} and seen == [True]


def test_one_call_for_a_disk_and_errors_name_the_place(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(single_file, "_sync", seen.append)
    places = [tmp_path / "a.zarr", tmp_path / "b" / "c.zarr", "/proc/none/d"]
    specs = [{"driver": "file", "path": str(p)} for p in places]
    single_file.flush([*specs, {"driver": "s3", "bucket": "abc", "path": "d"}])
    assert len(seen) == len({os.stat(tmp_path).st_dev, os.stat("/proc").st_dev})

    def failing(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(single_file, "_sync", failing)
    with pytest.raises(OSError, match=rf"writing to {tmp_path}: Input/output error; .* be lost"):
        single_file.flush(specs[:1])
