"""Many volumes as elements: whole in one worker, once, and nothing of one in another."""

import threading
import time
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.plan import planner
from beam_volumes.plan.cost.memory import BASE_BEAM
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs import Journal
from beam_volumes.session import slabs
from beam_volumes.transforms import compute_all
from tests.tiers import few, thorough
from tests.transforms.trees import chunk_files, membranes, stored
from tests.waiting import PATIENCE

SHAPES = [(9, 24, 28), (20, 7, 30), (1, 16, 16)]


@pytest.fixture
def volumes(tmp_path):
    """Volumes of different shapes, by path."""
    arrays = [membranes(shape, seed) for seed, shape in enumerate(SHAPES)]
    for k, array in enumerate(arrays):
        stored(tmp_path, array, f"v{k}.zarr", chunks=(2, *array.shape[1:]))
    return {str(tmp_path / f"v{k}.zarr"): array for k, array in enumerate(arrays)}


def cells(path):
    em = bv.open(path)
    found = bv.label(em > bv.mean(em))
    return {
        "cells": found.to(path.replace("/v", "/cells"), chunks=(2, *em.shape[1:])),
        "table": bv.regionprops_table(found, em).to(path.replace(".zarr", ".csv")),
        "rows": bv.regionprops_table(found, em, properties=["area"]),
        "count": found.num_labels,
        "mean": bv.mean(em),
    }


CAME: dict[str, list] = {"results": [], "errors": []}


def note(item, name):
    CAME[name].append(item)


def ran(elements, each):
    """All that comes out of a pipeline in this process, by element; and the errors it emits."""
    for some in CAME.values():
        some.clear()
    with beam.Pipeline("FnApiRunner") as p:
        out = p | beam.Create(list(elements)) | each
        good, *bad = out if isinstance(out, tuple) else (out,)
        texts = [b | beam.Map(lambda f: (f.volume, f"{f.error}: {f.message}")) for b in bad]
        for name, some in zip(("results", "errors"), (good, *texts), strict=False):
            _ = some | name >> beam.Map(note, name)
    return dict(CAME["results"]), dict(CAME["errors"])


def test_each_is_what_compute_gives(volumes, tmp_path):
    broken = str(tmp_path / "broken.zarr")
    each = bv.ComputeAll(cells, memory="1GiB", workers=2).with_exception_handling()
    came, failed = ran([*volumes, broken], each)
    assert list(failed) == [broken] and broken in failed[broken]
    assert came.keys() == volumes.keys()
    for path, array in volumes.items():
        got, em = came[path], bv.open(array)
        labels = bv.label(em > bv.mean(em))
        want, n, rows = bv.compute(
            labels,
            labels.num_labels,
            bv.regionprops_table(labels, em, properties=["area"]),
            runner=None,
        )
        np.testing.assert_array_equal(np.asarray(bv.open(got["cells"])), want)
        assert got["count"] == n and got["mean"] == array.mean()
        assert rows.equals(got["rows"])
        bv.compute(bv.regionprops_table(labels, em).to(tmp_path / "want.csv"), runner=None)
        with open(got["table"]) as a, open(tmp_path / "want.csv") as b:
            assert a.read() == b.read()
        (tmp_path / "want.csv").unlink()


def test_what_is_finished_is_not_computed_again(volumes, tmp_path):
    def attempts():
        journals = [Journal.open(p.replace("/v", "/cells") + ".run") for p in volumes]
        return [j.attempts_of(k) for j in journals for k in range(2)]

    first, _ = ran(volumes, bv.ComputeAll(cells, run="screen"))
    files, begun = chunk_files(tmp_path), attempts()
    for how in ({"run": "screen"}, {"run": "screen", "overwrite": True}, {"resume": True}):
        again, _ = ran(volumes, bv.ComputeAll(cells, **how))
        assert again == first and attempts() == begun
    assert {f: d for f, d in chunk_files(tmp_path).items() if f in files} == files
    with pytest.raises(RuntimeError, match=r"ComputeAll of '.*v\d.zarr': .*overwrite=True"):
        ran(volumes, bv.ComputeAll(cells))
    assert attempts() == begun
    assert ran(volumes, bv.ComputeAll(cells, overwrite=True))[0] == first
    assert all(n == 1 for found in attempts() for n in found.values())  # begun anew, once


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_was_interrupted_goes_on(volumes, tmp_path, monkeypatch, overwrite):
    path, array = next(iter(volumes.items()))
    out = path.replace("/v", "/out")
    if overwrite:
        bv.compute((bv.open(path) + 7).to(out), runner=None)
    sweep_slab, swept = slabs.sweep_slab, []

    def slab(session, index, number, *rest):
        if number == 3 and swept.count(3) < 1:
            swept.append(3)
            raise OSError("the worker is gone")
        return sweep_slab(session, index, number, *rest)

    planning(monkeypatch, slab=(2, 24, 28))
    monkeypatch.setattr(slabs, "sweep_slab", slab)

    def one(path):
        return {"out": (bv.open(path) + 1).to(out, chunks=(2, 24, 28))}

    each = bv.ComputeAll(one, run="screen", overwrite=overwrite)
    with pytest.raises(RuntimeError, match="the worker is gone"):
        ran([path], each)
    began = Journal.open(out + ".run").attempts_of(0)
    assert began == {0: 1, 1: 1, 2: 1}
    assert ran([path], each)[0] == {path: {"out": out}}
    assert Journal.open(out + ".run").attempts_of(0) == dict.fromkeys(range(5), 1)
    np.testing.assert_array_equal(np.asarray(bv.open(out)), array + 1)


@pytest.mark.parametrize("with_numbers", [False, True])
def test_without_a_journal_there_are_only_the_outputs(volumes, tmp_path, monkeypatch, with_numbers):
    swept = []

    def slab(session, index, number, *rest):
        swept.append(number)
        return sweep_slab(session, index, number, *rest)

    sweep_slab = slabs.sweep_slab
    monkeypatch.setattr(slabs, "sweep_slab", slab)
    path, array = next(iter(volumes.items()))
    em = bv.open(path)
    out = {"out": (em > bv.mean(em)).to(tmp_path / "out.ome.zarr", chunks=(2, 24, 28))}
    stopping(monkeypatch, 3)
    planning(monkeypatch, slab=(2, 24, 28))

    def one(_):
        return out | ({"mean": bv.mean(em)} if with_numbers else {})

    def each(**how):
        return ran([path], bv.ComputeAll(one, run="screen", journal=None, **how))

    with pytest.raises(RuntimeError, match="the worker is gone"):
        each()
    with pytest.warns(bv.UnfinishedWarning, match="run its pipeline again"):
        bv.open(tmp_path / "out.ome.zarr")
    swept.clear()
    want = {"out": str(tmp_path / "out.ome.zarr")} | (
        {"mean": array.mean()} if with_numbers else {}
    )
    assert each()[0] == {path: want} and len(swept) == 10
    np.testing.assert_array_equal(bv.open(tmp_path / "out.ome.zarr"), array > array.mean())
    assert not (tmp_path / "out.ome.zarr.run").exists()
    swept.clear()
    assert each()[0] == {path: want} and len(swept) == 10 * with_numbers
    with pytest.raises(ValueError, match="journal=None keeps none"):
        each(resume=True)
    with pytest.raises(TypeError, match="give True, or None"):
        bv.ComputeAll(one, journal=tmp_path)


def stopping(monkeypatch, at):
    """Have the first attempt at a slab fail, as if the worker had died."""
    sweep_slab, stopped = slabs.sweep_slab, []

    def slab(session, index, number, *rest):
        if number == at and not stopped:
            stopped.append(number)
            raise OSError("the worker is gone")
        return sweep_slab(session, index, number, *rest)

    monkeypatch.setattr(slabs, "sweep_slab", slab)


def planning(monkeypatch, **fixed):
    def make_plan(targets, options):
        return planner.make_plan(targets, replace(options, **fixed))

    monkeypatch.setattr(compute_all, "make_plan", make_plan)


def test_a_function_without_a_name_does_not_keep_an_element_from_going_on(volumes, monkeypatch):
    path, array = next(iter(volumes.items()))
    out = path.replace("/v", "/out")
    stopping(monkeypatch, 3)
    planning(monkeypatch, slab=(2, 24, 28))

    def one(path):
        more = bv.map_overlap(lambda block: block + 2, bv.open(path))
        less = bv.map_overlap(lambda block: block - 1, more)
        return {"out": less.to(out, chunks=(2, 24, 28))}

    each = bv.ComputeAll(one)
    with pytest.raises(RuntimeError, match="the worker is gone"):
        ran([path], each)
    for _ in range(2):
        assert ran([path], each)[0] == {path: {"out": out}}
    assert Journal.open(out + ".run").attempts_of(0) == dict.fromkeys(range(5), 1)
    np.testing.assert_array_equal(np.asarray(bv.open(out)), array + 1)
    # In another pipeline it may be another function.
    ran([path], bv.ComputeAll(one, run="screen", overwrite=True))
    for how in ({"run": "screen"}, {"resume": True}):
        with pytest.raises(RuntimeError, match=r"name= and version=|cannot resume"):
            ran([path], bv.ComputeAll(one, **how))


def test_an_unnamed_function_of_another_element_is_another(volumes, tmp_path):
    path = next(iter(volumes))

    def one(element):
        added = bv.map_overlap(lambda block: block + element[1], bv.open(element[0]))
        return {"out": added.to(tmp_path / "out.zarr")}

    came, failed = ran([(path, 1), (path, 2)], bv.ComputeAll(one).with_exception_handling())
    assert len(came) == len(failed) == 1
    assert "to another element of this run" in next(iter(failed.values()))


@pytest.mark.parametrize("how", [{"resume": True}, {"run": "screen"}])
def test_a_changed_function_does_not_get_the_old_results(volumes, how):
    path, array = next(iter(volumes.items()))

    def adding(number, version):
        def one(path):
            v = bv.open(path).astype("u2")
            if version is None:
                added = v + number
            else:
                added = bv.map_overlap(lambda a: a + number, v, name="add", version=version)
            return {"out": added.to(path.replace("/v", "/out"))}

        return one

    for k, versions in enumerate([(None, None), (1, 2)]):
        run = f"screen {k}" if "run" in how else None
        one, two = (adding(n, version) for n, version in enumerate(versions, 1))
        came, _ = ran([path], bv.ComputeAll(one, overwrite=True, run=run))
        with pytest.raises(RuntimeError, match=r"cannot resume|another run="):
            ran([path], bv.ComputeAll(two, **{**how, **({"run": run} if run else {})}))
        written = np.asarray(bv.open(came[path]["out"]))
        np.testing.assert_array_equal(written, array.astype("u2") + 1)


ORDER = ["cells", "count", "table", "mean", "rows"]


def test_results_have_the_names_that_their_targets_have_now(volumes, monkeypatch):
    first, _ = ran(volumes, bv.ComputeAll(cells, run="screen"))
    monkeypatch.setattr(compute_all, "run_local", None)  # they are finished

    def renamed(path):
        targets = cells(path)
        return {f"my {name}": targets[name] for name in ORDER}

    again, _ = ran(volumes, bv.ComputeAll(renamed, run="screen"))
    for path, came in first.items():
        assert {n.removeprefix("my "): r for n, r in again[path].items()} == came
        assert list(again[path]) == [f"my {name}" for name in ORDER]


@thorough
@pytest.mark.parametrize("memory", few(["8GiB", "528MiB", "least"], ["least"]))
def test_an_element_goes_on_where_there_is_other_memory(tmp_path, monkeypatch, memory):
    stored(tmp_path, membranes((64, 128, 128)), chunks=(4, 64, 64))

    def one(path):
        em = bv.open(path)
        mask = bv.binary_opening(bv.median_filter(em, 3) > 120)
        found = bv.label(bv.binary_fill_holes(mask))
        table = bv.regionprops_table(found, properties=["area"])
        return {"out": found.to(tmp_path / "out.zarr", chunks=(4, 64, 64)), "rows": table}

    element = str(tmp_path / "in.zarr")
    targets, how = [*one(element).values()], {"base": BASE_BEAM, "workers": 1}
    slab = (32, 128, 128)
    least = planner.make_plan(targets, RunOptions(**how)).smallest_memory
    assert planner.make_plan(targets, RunOptions(**how, slab=slab)).smallest_memory > least
    planning(monkeypatch, memory="2GiB", slab=slab)
    stopping(monkeypatch, 1)
    each = bv.ComputeAll(one)
    with pytest.raises(RuntimeError, match="the worker is gone"):
        ran([element], each)
    begun = Journal.open(f"{tmp_path}/out.zarr.run").run_id
    planning(monkeypatch, memory=least if memory == "least" else memory)
    came, _ = ran([element], each)
    now = Journal.open(f"{tmp_path}/out.zarr.run").run_id
    assert now.startswith(begun) and (now == begun) == (memory != "least")
    expected = bv.compute(one(element)["rows"], runner=None)
    assert expected.equals(came[element]["rows"])
    assert bv.verify(tmp_path / "out.zarr") == []
    assert ran([element], each)[0].keys() == came.keys()  # finished, by any process
    assert Journal.open(f"{tmp_path}/out.zarr.run").run_id == now


def test_elements_made_by_one_step_are_spread_over_workers():
    pipeline = beam.Pipeline()
    many = pipeline | beam.Create([3]) | "Many" >> beam.FlatMap(lambda n: list(range(n)))
    _ = many | "All" >> bv.ComputeAll(cells)
    steps = pipeline.to_runner_api().components.transforms.values()
    makes = {output: step for step in steps for output in step.outputs.values() if step.spec.urn}
    (each,) = (s for s in steps if s.unique_name == "All/Each")
    urns = []
    step = each
    while step.unique_name != "Many":
        (source,) = step.inputs.values()
        inner = [s for s in steps if source in s.outputs.values() and not s.subtransforms]
        step = inner[0] if inner else makes[source]
        urns.append(step.spec.urn)
    assert "beam:transform:group_by_key:v1" in urns or "beam:transform:reshuffle:v1" in urns


@pytest.mark.parametrize("overwrite", [False, True])
def test_elements_do_not_share_outputs(volumes, tmp_path, overwrite):
    def same(path):
        return {"out": (bv.open(path) + 1).to(tmp_path / "out.zarr")}

    each = bv.ComputeAll(same, overwrite=overwrite).with_exception_handling()
    came, failed = ran(volumes, each)
    assert len(came) == 1 and len(failed) == 2
    assert all("to another element of this run" in text for text in failed.values())


def test_so_many_at_a_time():
    """However many threads a runner starts in a process."""
    pairs, active, most = threading.Barrier(2, timeout=PATIENCE), [], []

    def slow(_):
        active.append(1)
        most.append(len(active))
        pairs.wait()  # neither goes on without the other
        time.sleep(0.01)
        active.pop()
        return {"mean": bv.mean(bv.open(np.ones((3, 4, 4), "u1")))}

    each = bv.ComputeAll(slow, workers=2).computing
    done = []
    threads = [threading.Thread(target=lambda k=k: done.append(each(k)), args=()) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(k for k, _ in done) == list(range(8)) and max(most) == 2


def test_refusals(volumes, tmp_path, monkeypatch):
    path = next(iter(volumes))

    def failing(function, **how):
        (failed,) = ran([path], bv.ComputeAll(function, **how).with_exception_handling())[1].items()
        assert failed[0] == path
        return failed[1]

    assert "smallest" in failing(cells, memory="300 MB")
    assert "contain no voxels; write them with .to(path)" in failing(lambda p: {"em": bv.open(p)})
    assert "not a dict of targets" in failing(lambda p: bv.mean(bv.open(p)))
    assert "not a lazy scalar" in failing(lambda p: {"n": 3})
    assert "memory of a worker" in failing(
        lambda p: {"em": bv.open(p).to({"driver": "memory", "path": "out.zarr/"})}
    )
    monkeypatch.setattr(compute_all, "MAX_BYTES", 600)
    text = failing(lambda p: {"h": bv.histogram(bv.open(p), bins=256)[0], "n": bv.max(bv.open(p))})
    assert "'h' is the largest" in text and "at most 600 B" in text
    with pytest.raises(RuntimeError, match=r"ComputeAll of '.*v0.zarr': TypeError"):
        ran([path], bv.ComputeAll(lambda p: None))
    with pytest.raises(ValueError, match="threshold=2"):
        bv.ComputeAll(cells).with_exception_handling(threshold=2)
    with pytest.raises(ValueError, match="workers=0"):
        bv.ComputeAll(cells, workers=0)
    with pytest.raises(ValueError, match="choose one"):
        bv.ComputeAll(cells, resume=True, overwrite=True)
    with pytest.raises(TypeError, match="not a function"):
        bv.ComputeAll(path)
