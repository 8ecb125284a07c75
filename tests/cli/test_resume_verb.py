"""A run that was stopped is continued from its folder alone, by the command line."""

import json
import os
import pickle
import shutil
import threading

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_volumes as bv
from beam_volumes.session import resume as saved
from beam_volumes.session import slabs
from tests.tiers import few, thorough

RECIPE = """\
input: {path: slices}
steps:
  smooth: {op: gaussian_filter, sigma: 1}
  t: {op: threshold_otsu}
  mask: {op: greater, inputs: [smooth, t]}
  label: {input: mask}
  table: {op: regionprops_table, inputs: [label], properties: [area]}
  spread: {op: std, input: input}
outputs:
  - {step: label, path: OUT/labels.zarr, chunks: [4, 20, 30]}
  - {step: table, path: OUT/cells.csv}
  - {step: table}
  - {step: t}
  - {step: spread}
"""
#: One slab after another: which are recorded is known when a run stops.
HOW = ("--runner", "none", "--slab", "4,20,30", "--workers", "1", "--quiet")


class Stopped(KeyboardInterrupt):
    pass


def stop(after: int):
    """Let a run end as if it was killed once so many slabs are swept."""
    left = [after]

    def slab(session, *args):
        if not left[0]:
            raise Stopped
        left[0] -= 1
        return swept(session, *args)

    swept = slabs.sweep_slab
    patch = pytest.MonkeyPatch()
    patch.setattr(slabs, "sweep_slab", slab)
    return patch


@pytest.fixture
def stopped(work, command):
    """What the whole run printed, and a stopped one in ``b``."""
    for name in "ab":
        (work / f"{name}.yaml").write_text(RECIPE.replace("OUT", name))
        (work / name).mkdir()
    code, whole, err = command("run", "a.yaml", *HOW)
    assert code == 0, err
    patch = stop(4)
    assert command("run", "b.yaml", *HOW)[0] == 130
    patch.undo()
    return whole


def edit(folder, **fields):
    path = folder / "b" / "labels.zarr.run" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def kept_plan(folder):
    (path,) = folder.glob("b/labels.zarr.run/runs/*/plan")
    return path


@pytest.mark.parametrize(
    "options",
    few(
        [
            ("b/labels.zarr", "--quiet"),
            ("b/labels.zarr.run", "--quiet", "--memory", "1GiB", "--workers", "2"),
            ("b/labels.zarr/", "--quiet", "--runner", "FnApiRunner", "--memory", "1GiB"),
        ],
        [("b/labels.zarr.run", "--quiet", "--memory", "1GiB", "--workers", "2")],
    ),
)
def test_continued_from_the_folder_alone(stopped, work, command, monkeypatch, options):
    (work / "b.yaml").unlink()
    before = bv.verify("b/labels.zarr")
    assert "pass 2: slabs 1 to 2 not finished" in before
    shutil.move(work / "b", work / "moved")  # it is found where it was, or not at all
    code, _, err = command("resume", "b/labels.zarr")
    assert code == 2 and "there is no run" in err
    shutil.move(work / "moved", work / "b")
    (work / "elsewhere").mkdir()
    place, *rest = options
    monkeypatch.chdir(work / "elsewhere")
    code, out, err = command("resume", f"../{place}", *rest)
    assert code == 0, err
    monkeypatch.chdir(work)
    assert out == stopped.replace("a/labels.zarr", "b/labels.zarr").replace("a/cells", "b/cells")
    assert np.array_equal(bv.open("b/labels.zarr"), bv.open("a/labels.zarr"))
    assert (work / "b/cells.csv").read_bytes() == (work / "a/cells.csv").read_bytes()
    assert bv.verify("b/labels.zarr", checksums=True) == []
    code, out, _ = command("resume", "b/labels.zarr")
    assert code == 0 and "is complete" in out and out.count("\n") == 1


def test_the_plan_is_unpickled_once_and_its_inputs_are_looked_at_once(
    stopped, command, monkeypatch
):
    loads, checks = [], []
    check = saved.check_inputs

    def loaded(data):
        loads.append(len(data))
        return pickle.loads(data)

    monkeypatch.setattr(saved.cloudpickle, "loads", loaded)
    monkeypatch.setattr(saved, "check_inputs", lambda *a: checks.append(0) or check(*a))
    code, _, err = command("resume", "b/labels.zarr", "--runner", "none")
    assert code == 0, err
    assert len(loads) == len(checks) == 1


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (lambda w: edit(w, package="0.0.1"), "begun with beam_volumes 0.0.1, but this is"),
        (lambda w: edit(w, python="2.7"), "begun with Python 2.7, but this is 3."),
        (lambda w: os.remove(w / "slices" / "z11.tif"), "differs in input "),
        (lambda w: shutil.rmtree(w / "slices"), "slices does not exist"),
        (lambda w: os.remove(kept_plan(w)), "its plan is missing"),
        (lambda w: kept_plan(w).write_bytes(b"x\n"), "plan is damaged"),
        (lambda w: shutil.rmtree(w / "b/labels.zarr"), "labels.zarr is missing"),
    ],
)
def test_refused_in_one_line(stopped, work, command, happens, says):
    happens(work)
    code, out, err = command("resume", "b/labels.zarr")
    assert (code, out) == (2, "")
    assert says in err and err.count("\n") == 1, err


def test_a_function_of_ones_own_goes_with_the_run(tmp_path, command):
    array = np.arange(8 * 40, dtype="u1").reshape(8, 5, 8)
    bv.compute(bv.open(array).to(tmp_path / "in.zarr"), runner=None)
    offset = 3
    target = bv.map_overlap(lambda a: a + offset, bv.open(tmp_path / "in.zarr"), dtype="u1")
    how = {"runner": None, "slab": (2, 5, 8), "progress": False}
    patch = stop(2)
    with pytest.raises(Stopped):
        bv.compute(target.to(tmp_path / "out.zarr", chunks=(2, 5, 8)), **how)
    patch.undo()
    code, out, err = command("resume", tmp_path / "out.zarr", "--quiet")
    assert (code, out) == (0, f"{tmp_path}/out.zarr\n"), err
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), array + offset)


@pytest.mark.parametrize("what", ["memory", "unpicklable", "a mapping that changed"])
def test_what_cannot_be_continued_says_so(tmp_path, command, monkeypatch, what):
    v = bv.open(np.zeros((32, 256, 256), "u1"))  # too large to travel
    if what != "memory":
        v = bv.compute(v[:8, :8, :8].to(tmp_path / "in.zarr"), runner=None)
    if what == "unpicklable":
        lock = threading.Lock()
        v = bv.map_overlap(lambda a: a + lock.locked(), v)
    if what == "a mapping that changed":
        monkeypatch.setattr("beam_volumes.ops.labels.relabel.IN_MEMORY", 0)
        pq.write_table(pa.table({"a": [0], "b": [5]}), tmp_path / "map.parquet")
        v = bv.relabel(v, tmp_path / "map.parquet")
    patch = stop(1)
    with pytest.raises(Stopped):
        chunks = (4, *v.shape[1:])
        bv.compute(v.to(tmp_path / "out.zarr", chunks=chunks), runner=None, slab=chunks)
    patch.undo()
    if what == "a mapping that changed":
        pq.write_table(pa.table({"a": [0, 1], "b": [6, 7]}), tmp_path / "map.parquet")
    code, _, err = command("resume", tmp_path / "out.zarr")
    says = {
        "memory": "a numpy array of shape (32, 256, 256) was in the memory of the process",
        "unpicklable": "its plan does not pickle (TypeError: cannot pickle '_thread.lock'",
        "a mapping that changed": f"input {tmp_path}/map.parquet, which has changed",
    }
    assert code == 2 and says[what] in err and err.count("\n") == 1, err


@thorough
def test_a_plan_is_small_however_many_slabs_there_are(tmp_path):
    def kept(depth):
        meta = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [depth, 64, 64],
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 64, 64]}},
            "chunk_key_encoding": {"name": "default"},
            "fill_value": 0,
            "codecs": [{"name": "bytes"}],
        }
        (tmp_path / f"{depth}.zarr").mkdir()
        (tmp_path / f"{depth}.zarr" / "zarr.json").write_text(json.dumps(meta))
        v = bv.open(tmp_path / f"{depth}.zarr")
        cells = bv.label(bv.median_filter(v, 3) > 3)
        targets = cells.to("cells.zarr", chunks=(1, 64, 64)), bv.regionprops_table(cells, v)
        plan = bv.plan(*targets, slab=(1, 64, 64))
        assert all(len(p.grid) == depth for p in plan.passes)
        data = cloudpickle.dumps(plan)
        assert [p.grid for p in pickle.loads(data).passes] == [p.grid for p in plan.passes]
        return len(data)

    assert kept(10_000) <= kept(10) + 100 <= 50_000
