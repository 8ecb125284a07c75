"""What the studio shows equals what the run writes, or is marked; everything else is refused clearly."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.recipes.catalogue import operations
from beam_volumes.session import slabs
from beam_volumes.session.local import Stopped
from beam_volumes.studio import preview
from beam_volumes.studio.document import Document
from beam_volumes.studio.jobs import Replaced
from beam_volumes.studio.palette import search, why_not
from beam_volumes.studio.preview import Previews, Region, Unavailable
from beam_volumes.studio.workspace import Folders, Workspace, new_text

RNG = np.random.default_rng(0)
EM = np.clip(RNG.normal(100, 30, (40, 70, 90)) + 60 * np.sin(np.arange(90) / 5), 0, 255).astype(
    "u1"
)
STEPS = """\
steps:
  smooth: {op: gaussian_filter, sigma: 1.5}
  otsu: {op: threshold_otsu, input: smooth}
  mask: {op: greater, inputs: [smooth, otsu]}
  cells: label
  table: {op: regionprops_table, properties: [label, area, centroid]}
outputs:
  - {step: cells, path: cells.zarr}
  - {step: otsu}
  - {step: table}
"""


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    v = bv.open(EM, voxel_size=(20, 10, 10), unit="nm")
    bv.compute(v.to("em.ome.zarr", chunks=32), runner=None, progress=False)
    return Workspace(Document(f"input: em.ome.zarr\n{STEPS}"), Folders([str(tmp_path)]))


def check(view, whole):
    """Sections are the voxels of the whole result at their positions."""
    assert len(view.sections.sections) == 3
    for s in view.sections.sections:
        plane = np.take(whole, s.at, s.axis)
        plane = plane if s.axis < 2 else plane.T
        (a, b), (c, d) = s.spans
        assert np.array_equal(s.voxels[0], plane[a:b, c:d])


def test_sections_are_the_bits_of_the_run(workspace, monkeypatch):
    w = workspace
    known = {n: np.asarray(v) for n, v in w.state().known.items() if isinstance(v, bv.Volume)}
    for name in ("input", "smooth", "mask", "cells"):
        for at in ((0.5, 0.5, 0.5), (0.0, 0.99, 0.3)):
            view = w.view(name, Region(at, side=32))
            assert view.provisional == ()
            check(view, known[name])
    # From here on it is a large volume.
    monkeypatch.setattr(preview, "MAX_WHOLE", 1000)
    monkeypatch.setattr(preview, "MAX_REGION", 8 * 32 * 32)
    monkeypatch.setattr(preview, "SAMPLE", (8, 16, 16))
    w.previews = Previews()
    check(w.view("smooth", Region(side=32)), known["smooth"])
    view = w.view("mask", Region(side=32))
    assert view.provisional == ("max, min, threshold_otsu of a sample",)
    exact = float(np.asarray(w.state().known["otsu"]))
    assert w.number("otsu").startswith("~ ")
    assert abs(float(w.number("otsu")[2:]) - exact) < 0.1 * exact
    assert w.previews.compute_numbers(view.numbers, threading.Event())
    view = w.view("mask", Region(side=32))
    assert view.provisional == () and w.number("otsu") == f"{exact:.6g}"
    check(view, known["mask"])
    view = w.view("cells", Region(side=32))
    assert view.provisional == ("label of the region only",)
    section = view.sections.sections[0]
    (a, b), (c, d) = section.spans
    assert np.array_equal(section.voxels[0] > 0, known["cells"][section.at, a:b, c:d] > 0)
    with pytest.raises(Unavailable, match="table: a table"):
        w.view("table", Region())


def test_work_is_stopped_and_replaced(workspace):
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        workspace.view("smooth", Region(), stop)
    latest, begun = workspace.latest(), threading.Event()

    def waits(stop):
        begun.set()
        assert stop.wait(30)
        raise Stopped

    first = latest.submit(waits)
    begun.wait(30)
    between, last = latest.submit(waits), latest.submit(lambda stop: "done")
    assert last.result(30) == "done"
    for replaced in (first, between):
        with pytest.raises(Replaced):
            replaced.result(30)
    begun.clear()
    waiting = latest.submit(waits)
    begun.wait(30)
    workspace.close()
    with pytest.raises(Replaced):
        waiting.result(30)


def test_a_recipe_is_built_from_nothing_and_run(workspace, tmp_path):
    w = Workspace(
        Document(new_text({"input": "em.ome.zarr"}, "out.zarr")), Folders([str(tmp_path)])
    )
    assert w.add("gaussian_filter", "input") == "gaussian_filter"
    assert w.add("greater", "gaussian_filter") == "greater"
    sigma, threshold = w.fields("gaussian_filter")[1], w.fields("greater")[1]
    assert (sigma.key, sigma.kind, sigma.low, sigma.high) == ("sigma", "number", 0, 10)
    assert (threshold.key, threshold.kind, threshold.label) == ("inputs.1", "number", "input 2")
    assert threshold.low < threshold.value < threshold.high
    w.set_field("gaussian_filter", "sigma", "20 nm")
    assert next(f for f in w.fields("gaussian_filter") if f.key == "sigma").unit == "nm"
    w.set_field("greater", "inputs.1", 99)
    w.set_field("gaussian_filter", "sigma", "many")
    cost = w.cost()
    assert "gaussian_filter" in w.state().errors and cost.plan is None and "many" in cost.error
    w.set_field("gaussian_filter", "sigma", "20 nm")
    assert w.cost().plan.predicted_memory > 0 and not w.cost().error
    w.save("r.yaml")
    run = w.start()
    run.wait()
    assert run.error == "" and run.part == 1
    assert "exists" in w.cost().warning
    with pytest.raises(ValueError, match="outside of the folders"):
        w.save("/elsewhere/r.yaml")
    smooth = bv.gaussian_filter(bv.open("em.ome.zarr"), "20 nm")
    assert np.array_equal(np.asarray(bv.open("out.zarr")), np.asarray(smooth > 99))
    from beam_volumes.cli.main import main

    assert main(["run", "r.yaml", "--set", "output=again.zarr", "--runner", "none"]) == 0
    files = [
        sorted(p.relative_to(o) for p in Path(o).rglob("[0-9]*"))
        for o in ("out.zarr", "again.zarr")
    ]
    assert files[0] == files[1] and all(
        (Path("out.zarr") / f).is_dir()
        or (Path("out.zarr") / f).read_bytes() == (Path("again.zarr") / f).read_bytes()
        for f in files[0]
    )


def test_a_run_stops_and_goes_on(workspace, monkeypatch):
    """The first slab is written, then the run is stopped; resuming it writes the rest."""
    w = workspace
    w.document.replace(
        "input: em.ome.zarr\nsteps: {smooth: {op: gaussian_filter, sigma: 1}}\n"
        "output: {path: s.zarr, chunks: 32}\n"
    )
    real = w._options
    w._options = lambda recipe: replace(real(recipe), slab=(32, 32, 32), workers=1)
    counted = iter(range(100))

    def stops(session, pass_index, slab, *rest):
        if next(counted) == 3:
            w.run.stop()
        return sweep_slab(session, pass_index, slab, *rest)

    sweep_slab = slabs.sweep_slab
    monkeypatch.setattr(slabs, "sweep_slab", stops)
    run = w.start()
    run.wait()
    assert run.was_stopped and run.error == "" and 0 < next(counted) < 12
    with pytest.raises(ValueError, match="outside"):
        w.save("../r.yaml")
    monkeypatch.setattr(slabs, "sweep_slab", sweep_slab)
    again = w.resume()
    again.wait()
    assert again.error == "" and again.outcome.plan.passes
    smooth = bv.gaussian_filter(bv.open("em.ome.zarr"), 1)
    assert np.array_equal(np.asarray(bv.open("s.zarr")), np.asarray(smooth))


def test_a_row_leads_to_its_object(workspace):
    run = workspace.start()
    run.wait()
    assert run.error == ""
    rows = workspace.rows()
    cells = np.asarray(bv.open("cells.zarr"))
    assert [r["label"] for r in rows] == list(range(1, cells.max() + 1))[: len(rows)]
    for row in (rows[0], rows[len(rows) // 2]):
        at = workspace.place(row)
        centre = np.argwhere(cells == row["label"]).mean(0)
        assert np.all(np.abs(np.array(at) * EM.shape - 0.5 - centre) <= 0.51)
    assert workspace.place({"label": 1}) is None


def test_errors_have_the_name_of_their_step(workspace):
    w = workspace
    w.document.set("smooth", "sigma", [1, 2])
    state = w.state()
    assert "sigma" in state.errors["smooth"] and state.errors["mask"].startswith(
        "needs otsu, smooth"
    )
    w.document.undo()
    w.document.set("mask", "nothing", 1)
    assert "nothing" in w.state().errors["mask"]
    w.document.undo()
    w.document.set_input("input", "missing.zarr")
    assert "missing.zarr" in w.state().errors["input"]
    w.document.set_input("input", "/etc/passwd")
    assert "outside of the folders" in w.state().errors[""]
    w.document.set_input("input", "http://127.0.0.1:1/x.zarr")
    assert "outside of the folders" in w.state().errors[""]
    w.document.replace("input: em.ome.zarr\nsteps: {a: {op: predict, model: /bin/sh}}\noutput: o\n")
    assert "/bin/sh is outside" in w.state().errors[""]


def test_the_palette_knows_words_and_reasons():
    em = bv.open(EM)
    assert search("despeckle", em)[0].name == "median_filter"
    assert [o.name for o in search("background", em)][:2] == ["white_tophat", "gaussian_filter"]
    assert next(o.name for o in search("otsu", em)) == "threshold_otsu"
    reasons = {
        n: why_not(operations()[n], em) for n in ("cut", "rgb2gray", "median_filter", "label")
    }
    assert reasons["median_filter"] == reasons["label"] == ""
    assert "table" in reasons["cut"] and "three channels" in reasons["rgb2gray"]
    assert all("<Volume" not in reason for reason in reasons.values())
