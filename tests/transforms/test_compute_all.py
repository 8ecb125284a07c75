"""Many volumes as elements: whole in one worker, once, and nothing of one in another."""

import threading
import time

import apache_beam as beam
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.runs import Journal
from beam_volumes.session.session import Session
from beam_volumes.transforms import compute_all
from tests.transforms.trees import chunk_files, membranes, stored

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
        for name, some in (out if isinstance(out, dict) else {"results": out}).items():
            _ = some | name >> beam.Map(note, name)
    return dict(CAME["results"]), dict(CAME["errors"])


def test_each_is_what_compute_gives(volumes, tmp_path):
    broken = str(tmp_path / "broken.zarr")
    each = bv.ComputeAll(cells, memory="1GiB", workers=2, on_error="emit")
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
        assert got["rows"].equals(rows)
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
    slabs, swept = Session.slab, []

    def plan(*args, **how):
        return bv.plan(*args, **how, slab=(2, 24, 28))

    def slab(self, index, number, *rest):
        if number == 3 and swept.count(3) < 1:
            swept.append(3)
            raise OSError("the worker is gone")
        return slabs(self, index, number, *rest)

    monkeypatch.setattr(compute_all, "plan", plan)
    monkeypatch.setattr(Session, "slab", slab)

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


@pytest.mark.parametrize("overwrite", [False, True])
def test_elements_do_not_share_outputs(volumes, tmp_path, overwrite):
    def same(path):
        return {"out": (bv.open(path) + 1).to(tmp_path / "out.zarr")}

    each = bv.ComputeAll(same, on_error="emit", overwrite=overwrite)
    came, failed = ran(volumes, each)
    assert len(came) == 1 and len(failed) == 2
    assert all("of another element of this run" in text for text in failed.values())


def test_so_many_at_a_time():
    """However many threads a runner starts in a process."""
    pairs, active, most = threading.Barrier(2, timeout=20), [], []

    def slow(_):
        active.append(1)
        most.append(len(active))
        pairs.wait()  # neither goes on without the other
        time.sleep(0.01)
        active.pop()
        return {"mean": bv.mean(bv.open(np.ones((3, 4, 4), "u1")))}

    each = bv.ComputeAll(slow, workers=2).each
    done = []
    threads = [
        threading.Thread(target=lambda k=k: done.extend(each.process(k)), args=()) for k in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(k for k, _ in done) == list(range(8)) and max(most) == 2


def test_refusals(volumes, tmp_path, monkeypatch):
    path = next(iter(volumes))

    def failing(function, **how):
        (failed,) = ran([path], bv.ComputeAll(function, on_error="emit", **how))[1].items()
        assert failed[0] == path
        return failed[1]

    assert "smallest" in failing(cells, memory="300 MB")
    assert "hold no voxels; write them with .to(path)" in failing(lambda p: {"em": bv.open(p)})
    assert "not a dict of targets" in failing(lambda p: bv.mean(bv.open(p)))
    assert "neither a lazy scalar" in failing(lambda p: {"n": 3})
    assert "memory of the worker" in failing(
        lambda p: {"em": bv.open(p).to({"driver": "memory", "path": "out.zarr/"})}
    )
    monkeypatch.setattr(compute_all, "MOST_BYTES", 600)
    text = failing(lambda p: {"h": bv.histogram(bv.open(p), bins=256)[0], "n": bv.max(bv.open(p))})
    assert "'h' is the largest" in text and "at most 600 B" in text
    with pytest.raises(RuntimeError, match=r"ComputeAll of '.*v0.zarr': TypeError"):
        ran([path], bv.ComputeAll(lambda p: None))
    with pytest.raises(ValueError, match='use "raise" or "emit"'):
        bv.ComputeAll(cells, on_error="ignore")
    with pytest.raises(ValueError, match="workers=0"):
        bv.ComputeAll(cells, workers=0)
    with pytest.raises(ValueError, match="choose one"):
        bv.ComputeAll(cells, resume=True, overwrite=True)
    with pytest.raises(TypeError, match="not a function"):
        bv.ComputeAll(path)
