"""What the studio shows equals what the run writes, or is marked; everything else is refused clearly."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.recipes.build import expressions
from beam_volumes.recipes.catalogue import operations
from beam_volumes.recipes.document import placed
from beam_volumes.recipes.recipe import checked_recipe
from beam_volumes.session import slabs
from beam_volumes.session.local import Stopped
from beam_volumes.studio import preview
from beam_volumes.studio import state as states
from beam_volumes.studio import workspace as workspaces
from beam_volumes.studio.document import Document
from beam_volumes.studio.jobs import Replaced
from beam_volumes.studio.palette import search, start, why_not
from beam_volumes.studio.preview import Previews, Region, Unavailable
from beam_volumes.studio.serve import studio
from beam_volumes.studio.state import Folders
from beam_volumes.studio.workspace import FileChanged, Workspace, new_text
from tests.tiers import thorough
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
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
        assert stop.wait(PATIENCE)
        raise Stopped

    first = latest.submit(waits)
    begun.wait(PATIENCE)
    between, last = latest.submit(waits), latest.submit(lambda stop: "done")
    assert last.result(PATIENCE) == "done"
    for replaced in (first, between):
        with pytest.raises(Replaced):
            replaced.result(PATIENCE)
    begun.clear()
    waiting = latest.submit(waits)
    begun.wait(PATIENCE)
    workspace.close()
    with pytest.raises(Replaced):
        waiting.result(PATIENCE)


def test_the_cost_has_the_registrations_of_a_recipe(workspace, tmp_path):
    """Also before the table exists, which the plan of the steps needs."""
    text = (
        "input: em.ome.zarr\nregister: {register_slices: {table: t.csv}}\n"
        "steps: {apply_transforms: {transforms: t.csv}}\noutput: o.zarr\n"
    )
    w = Workspace(Document(text), Folders([str(tmp_path)]))
    cost = w.runs.cost()
    assert cost.plan is None and "t.csv" in cost.error
    assert cost.registrations[0].startswith("register_slices, before the plan: reads ")
    w.limit_memory("9MiB")
    assert re.search(r"register_slices: memory 9\.0 MiB .* works is \d+ bytes", w.runs.cost().error)


def test_a_recipe_is_built_from_nothing_and_run(workspace, tmp_path):
    w = Workspace(
        Document(new_text({"input": "em.ome.zarr"}, "out.zarr")), Folders([str(tmp_path)])
    )
    assert w.add("gaussian_filter", "input") == "gaussian_filter"
    assert w.add("greater", "gaussian_filter") == "greater"
    sigma, threshold = w.fields("gaussian_filter")[1], w.fields("greater")[1]
    # The voxels are 20 nm deep, and lengths have this unit.
    assert (sigma.key, sigma.kind, sigma.value, sigma.high) == ("sigma", "number", "20 nm", 200)
    assert (threshold.key, threshold.kind, threshold.label) == ("inputs.1", "number", "input 2")
    assert threshold.low < threshold.value < threshold.high
    w.set_field("gaussian_filter", "sigma", 2)
    sigma = w.fields("gaussian_filter")[1]
    assert (sigma.unit, sigma.is_length, sigma.low, sigma.high) == ("", True, 0, 10)
    w.set_field("gaussian_filter", "sigma", "20 nm")
    w.set_field("greater", "inputs.1", 99)
    w.set_field("gaussian_filter", "sigma", "many")
    cost = w.runs.cost()
    assert "gaussian_filter" in w.state().errors and cost.plan is None and "many" in cost.error
    w.set_field("gaussian_filter", "sigma", "20 nm")
    assert w.runs.cost().plan.predicted_memory > 0 and not w.runs.cost().error
    w.save("r.yaml")
    run = w.runs.start()
    run.wait()
    assert run.error == "" and run.part == 1
    assert "exists: use 'replace existing outputs'" in w.runs.cost().warning
    w.limit_memory("100MiB")
    assert "memory 100.0 MiB is too small" in w.runs.cost().error
    w.limit_memory(None)
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


def test_the_run_writes_the_last_step_that_is_shown(workspace, tmp_path):
    """A number is no output; a comparison after it gets the number and the volume of which it is one."""
    text = new_text({"input": "em.ome.zarr"}, "out.zarr")
    w = Workspace(Document(text), Folders([str(tmp_path)]))

    def last():
        state = w.state()
        assert state.errors == {}
        return [(o.step, o.path) for o in state.recipe.outputs]

    at = "input"
    for op, written in (
        ("gaussian_filter", "gaussian_filter"),
        ("threshold_otsu", "gaussian_filter"),
        ("greater", "greater"),
        ("label", "label"),
    ):
        source, _ = w.of_number(at)
        assert why_not(operations()[op], w.state().known[source]) == ""
        at = w.add(op, at)
        assert last() == [(written, "out.zarr")], op
    assert w.document.item("greater").given == {"inputs": ["gaussian_filter", "threshold_otsu"]}
    run = w.runs.start()
    run.wait()
    assert run.error == ""
    smooth = bv.gaussian_filter(bv.open("em.ome.zarr"), "20 nm")
    cells = np.asarray(bv.label(smooth > bv.threshold_otsu(smooth)))
    assert np.array_equal(np.asarray(bv.open("out.zarr")), cells)
    w.add("regionprops_table", "label")
    assert last() == [("label", "out.zarr"), ("regionprops_table", "regionprops_table.parquet")]
    w.document.insert(5, "expand_labels", {"input": "label", "distance": 1})
    assert last()[0] == ("expand_labels", "out.zarr")


def test_other_functions_after_a_number_get_its_volume(workspace):
    w = workspace
    assert w.of_number("otsu") == ("smooth", "otsu") and w.of_number("mask") == ("mask", "")
    assert w.document.item(w.add("sobel", "otsu")).given == {"input": "smooth"}
    added = w.document.item(w.add("apply_hysteresis_threshold", "otsu"))
    assert added.given == {"input": "smooth", "low": {"step": "otsu"}, "high": {"step": "otsu"}}
    assert w.document.item(w.add("multiply", "otsu")).given == {"inputs": ["smooth", "otsu"]}
    w.document.insert(4, "multiply", {"inputs": ["otsu", 0.5]})
    assert w.of_number("multiply_2") == ("smooth", "multiply_2") and w.state().errors == {}


def test_a_step_after_several_results_gets_the_first_or_all(workspace):
    w = workspace
    w.document.replace(
        "input: em.ome.zarr\nsteps: {tensor: {op: structure_tensor, sigma: 1}}\noutputs: [{step: input}]\n"
    )
    tensor = w.state().known["tensor"]
    for op, given in (
        ("gaussian_filter", {"input": "tensor.0", "sigma": "20 nm"}),
        ("structure_tensor_eigenvalues", {}),
        ("threshold_otsu", {"input": "tensor.0"}),
        ("subtract", None),
    ):
        assert why_not(operations()[op], w.state().item(w.of_number("tensor")[0])) == ""
        name = w.add(op, "tensor")
        assert given is None or w.document.item(name).given == given
        assert w.state().errors == {} and "tensor.5" in w.fields(name)[0].choices
        check(w.view(w.shown(name), Region()), np.asarray(w.volume(w.shown(name))))
        w.document.undo()
    cut = w.add("greater", "tensor")
    low, high = w.levels("tensor.0")
    assert w.levels(w.state().input_of(cut)) == (low, high) and high > low + 1
    assert w.document.item(cut).given["inputs"][1] == float(f"{(low + high) / 2:.4g}")
    w.document.undo()
    copied = w.document.duplicate("tensor")
    assert w.volume(f"{copied}.3").nodes[0].token == tensor[3].nodes[0].token
    w.document.insert(2, "variation_of_information", {"inputs": ["input", "input"]})
    assert w.of_number("variation_of_information") == ("input", "variation_of_information.0")
    assert w.document.item(w.add("multiply", "variation_of_information")).given == {
        "inputs": ["input", "variation_of_information.0"]
    }
    assert w.state().errors == {}


def test_a_step_added_after_a_disabled_one_gets_the_step_above(workspace):
    w = workspace
    w.document.replace(
        "inputs: {other: em.ome.zarr, em: em.ome.zarr}\n"
        "steps:\n  #off: first: {op: abs, input: em}\n  otsu: {op: threshold_otsu, input: em}\n"
        "  #off: last: abs\noutputs: [{step: otsu}]\n"
    )
    for op in ("subtract", "greater", "sobel"):
        for after, number in (("first", 128), ("last", "otsu")):
            given = w.document.item(w.add(op, after)).given
            assert given == ({"input": "em"} if op == "sobel" else {"inputs": ["em", number]})
            assert w.state().errors == {}
            w.document.undo()


@thorough
@pytest.mark.parametrize("op", ["median_filter", "threshold_otsu", "regionprops_table", "label"])
def test_a_step_that_is_inserted_changes_no_other(tmp_path, monkeypatch, op):
    monkeypatch.chdir(tmp_path)
    np.save("em.npy", EM[:6, :20, :20])
    steps = "  a: {op: gaussian_filter, sigma: 1}\n  b:\n    op: greater\n    inputs: [a, 90]\n  c: label\n"
    steps += (
        "  d:\n    # few\n    op: keep_largest\n  #off: e: {op: sobel}\n  f: {op: binary_erosion}\n"
    )
    text = f"input: em.npy\nsteps:\n{steps}outputs:\n  - {{step: f, path: o.zarr}}\n"
    names = ("input", "a", "b", "c", "d", "f")
    before = Workspace(Document(text), Folders([str(tmp_path)])).state()
    for after in names:
        w = Workspace(Document(text), Folders([str(tmp_path)]))
        w.add(op, after)
        now = w.state()
        for name in names:
            assert now.known[name].nodes[0].token == before.known[name].nodes[0].token, (
                after,
                name,
            )
        assert w.document.undo() and (w.document.text == text or w.document.undo())
        assert w.document.text == text and not w.document.undo()
        for name in names[1:]:
            w.document.duplicate(name)
            now = w.state()
            for other in names:
                assert now.known[other].nodes[0].token == before.known[other].nodes[0].token
            w.document.undo()


@thorough
def test_a_step_that_is_moved_changes_no_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("em.npy", EM[:6, :20, :20])
    steps = "  a:\n    # blur\n    op: gaussian_filter\n    sigma: 1\n  b: {op: greater, inputs: [a, 90]}\n"
    steps += "  c: label\n  #off: e: {op: sobel}\n  f: {op: binary_erosion}\n"
    steps += "  g: {op: where, inputs: [f, c, 0]}\n"
    text = f"input: em.npy\nsteps:\n{steps}outputs:\n  - {{step: f, path: o.zarr}}\n"
    names = ("a", "b", "c", "f", "g")

    def tokens(document):
        state = Workspace(document, Folders([str(tmp_path)])).state()
        assert state.errors == {}
        return [state.known[n].nodes[0].token for n in names]

    for disabled in ("", "c", "f"):  # others use them: a copy of the input takes their place
        document = Document(text)
        if disabled:
            document.enable(disabled, False)
        before, shown = tokens(document), document.text
        for name in (*names, "e"):
            for index in range(len(names) + 1):
                document.move(name, index)
                assert [i.name for i in document.items()].index(name) == index
                assert tokens(document) == before and "# blur" in document.text
                if disabled:
                    document.enable(disabled, True)
                    assert tokens(document) == tokens(Document(text)), (disabled, name, index)
                while document.text != shown:
                    assert document.undo()


def test_fields_fit_their_parameters(workspace, tmp_path):
    w = workspace
    name = w.add("median_filter", "smooth")
    fields = {f.key: f for f in w.fields(name)}
    assert fields["mode"].kind == "choice" and "nearest" in fields["mode"].choices
    ball = fields["footprint"]
    assert (ball.kind, ball.key_of_number, ball.value) == ("number", "ball", None)
    # A ball replaces the size, as one change.
    w.set_field(name, "footprint", {"ball": 1})
    w.set_field(name, "footprint", {"ball": 2})
    assert w.document.item(name).given == {"footprint": {"ball": 2}} and not w.state().errors
    w.document.undo()
    assert w.document.item(name).given == {"size": 3}
    movie = bv.open(RNG.integers(0, 255, (2, 6, 8, 9)).astype("u1"), axes="czyx")
    document = Document("input: in-memory\nsteps: {one: {op: sel, c: 0}}\noutput: o.zarr\n")
    w = Workspace(document, Folders([str(tmp_path)]), {"input": movie})
    assert w.fields("one")[1].choices == ("0", "1")


def test_a_table_is_shown_with_its_labels(workspace):
    assert [workspace.shown(n) for n in ("table", "otsu", "mask")] == ["cells", "smooth", "mask"]


def test_a_run_stops_and_goes_on(workspace, monkeypatch):
    """The first slab is written, then the run is stopped; resuming it writes the rest."""
    w = workspace
    w.document.replace(
        "input: em.ome.zarr\nsteps: {smooth: {op: gaussian_filter, sigma: 1}}\n"
        "output: {path: s.zarr, chunks: 32}\n"
    )
    real = w.runs._options
    w.runs._options = lambda recipe: replace(real(recipe), slab=(32, 32, 32), workers=1)
    counted = iter(range(100))

    def stops(session, pass_index, slab, *rest):
        if next(counted) == 3:
            w.runs.run.stop()
        return sweep_slab(session, pass_index, slab, *rest)

    sweep_slab = slabs.sweep_slab
    monkeypatch.setattr(slabs, "sweep_slab", stops)
    run = w.runs.start()
    run.wait()
    assert run.was_stopped and run.error == "" and 0 < next(counted) < 12
    with pytest.raises(ValueError, match="outside"):
        w.save("../r.yaml")
    monkeypatch.setattr(slabs, "sweep_slab", sweep_slab)
    # Only the run of the recipe that is shown goes on.
    w.document.set("smooth", "sigma", 2)
    for path, message in (("s.zarr", "this run differs in"), ("new.zarr", "new.zarr")):
        w.document.set_outputs([{"path": path, "chunks": 32}])
        other = w.runs.resume()
        other.wait()
        assert message in other.error and other.outcome is None and not Path("new.zarr").exists()
    whole = np.asarray(bv.gaussian_filter(bv.open("em.ome.zarr"), 2))
    check(w.view("smooth", Region(side=32)), whole)
    while w.document.item("smooth").given["sigma"] == 2:
        w.document.undo()
    again = w.runs.resume()
    again.wait()
    assert again.error == "" and again.outcome.plan.passes
    smooth = bv.gaussian_filter(bv.open("em.ome.zarr"), 1)
    assert np.array_equal(np.asarray(bv.open("s.zarr")), np.asarray(smooth))


def test_a_row_leads_to_its_object(workspace):
    run = workspace.runs.start()
    run.wait()
    assert run.error == ""
    table = workspace.runs.rows()
    rows = table.rows
    cells = np.asarray(bv.open("cells.zarr"))
    assert [r["label"] for r in rows] == list(range(1, cells.max() + 1))[: len(rows)]
    for row in (rows[0], rows[len(rows) // 2]):
        at = table.place(row)
        centre = np.argwhere(cells == row["label"]).mean(0)
        assert np.all(np.abs(np.array(at) * EM.shape - 0.5 - centre) <= 0.51)
    assert table.place({"label": 1}) is None


def test_results_of_a_run_are_shown(workspace, monkeypatch):
    """Labels of a large volume are computed in the region, and read from the output after a run."""
    w = workspace
    monkeypatch.setattr(preview, "MAX_WHOLE", 1000)
    monkeypatch.setattr(preview, "MAX_REGION", 8 * 32 * 32)
    region = Region(side=32)
    assert w.view("cells", region).provisional
    w.runs.start().wait()
    cells = np.asarray(bv.open("cells.zarr"))
    view = w.view("cells", region)
    assert view.provisional == () and not w.number("otsu").startswith("~")
    check(view, cells)
    # A click on an object finds its row.
    table = w.runs.rows()
    row = max(range(len(table.rows)), key=lambda k: table.rows[k]["area"])
    z, y, x = np.argwhere(cells == table.rows[row]["label"])[0]
    at = tuple((k + 0.5) / n for k, n in zip((z, y, x), EM.shape, strict=True))
    assert table.of_label(w.label_at(table, Region(at, side=32))) == row
    w.document.set("smooth", "sigma", 2)
    assert w.view("cells", region).provisional
    assert w.label_at(table, Region(at, side=32)) == 0


def test_a_gate_becomes_steps(workspace):
    w = workspace
    w.runs.start().wait()
    table = w.runs.rows()
    cells, areas = np.asarray(bv.open("cells.zarr")), table.column("area")
    low, high = 0.0, float(areas.max()) - 1
    name = w.add_gate(table, {"area": (low, high), "centroid-2": (0.0, 80.0)})
    inside = (areas >= low) & (areas <= high) & (table.column("centroid-2") <= 80)
    kept = np.where(np.isin(cells, table.column("label")[inside]), cells, 0)
    assert name == "keep_labels_2" and 0 < inside.sum() < len(areas)
    assert np.array_equal(np.asarray(w.volume(name)), kept)
    check(w.view(name, Region(side=32)), kept)


def test_two_recipes_are_compared(workspace):
    w = workspace
    w.save("first.yaml")
    w.compare_with()
    w.document.set("smooth", "sigma", 3)
    # The box around the position has 32 slices.
    first, second = (np.asarray(w.volume(n))[4:36] for n in ("other: mask", "mask"))
    found = w.agreement("other: mask", "mask", Region())
    assert found.dice == pytest.approx(2 * (first & second).sum() / (first.sum() + second.sum()))
    assert found.counts == tuple(int(bv.label(v).num_labels) for v in (first, second))
    split, merge = bv.variation_of_information(bv.label(first), bv.label(second))
    assert (found.split, found.merge) == (float(split), float(merge)) and found.split > 0
    assert w.agreement("input", "mask", Region()) is None
    w.load("first.yaml")
    assert w.document.item("smooth").given["sigma"] == 1.5 and w.document.undo()
    w.compare_with("first.yaml")
    assert w.names()[-4:] == ["other: input", "other: smooth", "other: mask", "other: cells"]
    with pytest.raises(ValueError, match="outside of the folders"):
        w.compare_with("/etc/passwd")


def test_points_in_time_and_channels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    movie = RNG.integers(0, 255, (3, 2, 10, 40, 50)).astype("u1")
    text = "input: in-memory\nsteps: {smooth: {op: gaussian_filter, sigma: 1}}\noutput: o.zarr\n"
    given = {"input": bv.open(movie, axes="tczyx")}
    w = Workspace(Document(text), Folders([str(tmp_path)]), given)
    smooth = np.asarray(w.volume("smooth"))
    assert len(w.view("smooth", Region(t=1)).sections.sections[0].voxels) == 2
    for t, c in ((0, 1), (2, 0)):
        check(w.view("smooth", Region(t=t, c=c)), smooth[t, c])
        assert np.array_equal(w.previews.voxels(w.volume("smooth"), Region(t=t, c=c)), smooth[t, c])


def test_neuroglancer_shows_steps(workspace, monkeypatch):
    pytest.importorskip("neuroglancer")
    w = workspace
    with w.viewer(["input", "cells"], Region(), "side") as viewer:
        assert [layer["name"] for layer in viewer.state["layers"]] == ["input", "cells"]
        parts = [view["layers"] for view in viewer.state["layout"]["children"]]
        assert parts == [["input"], ["cells"]] and viewer.state["position"] == [45, 35, 20]
    monkeypatch.setattr(preview, "MAX_WHOLE", 1000)
    monkeypatch.setattr(preview, "MAX_REGION", 8 * 32 * 32)
    w.previews = Previews()
    part = w.previews.part(w.volume("cells"), Region(side=32))
    assert part.shape == (8, 32, 32) and part.space.origin == (16 * 20, 19 * 10, 29 * 10)


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
    assert "/bin/sh is outside" in w.state().errors["a"]


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """The current folder, the only one of a studio, next to another that links lead to."""
    folder, outside = tmp_path / "inside", tmp_path / "outside"
    for path in (folder / "a/b/c", outside):
        path.mkdir(parents=True)
    monkeypatch.chdir(folder)
    volume = bv.open(np.ones((4, 5, 6), "u1"), voxel_size=1, unit="nm")
    for place in (".", "../outside", "../other"):
        bv.compute(volume.to(f"{place}/em.zarr"), runner=None, progress=False)
        np.save(f"{place}/psf.npy", np.ones((3, 3, 3)))
    (outside / "t.csv").write_text("path,z,y,x\nem.zarr,0,0,0\n")
    Path("group.zarr").mkdir()
    Path("group.zarr/zarr.json").write_text(
        '{"zarr_format": 3, "node_type": "group", "attributes": {}}'
    )
    for link in ("out", "group.zarr/link", "n.h5"):
        Path(link).symlink_to(outside)
    Path("deep").symlink_to("a/b/c")
    for name in ("em.zarr", "psf.npy", "t.csv"):
        Path(f"link.{name}").symlink_to(outside / name)
    return folder


#: Each would be opened, or written, in another folder. ``deep/../../../outside`` is inside if links are
#: followed first, as the system does, and outside if not, as `open` does.
LEAVING = (
    "{out}/psf.npy",
    "{out}/psf.n*",
    "{out}/p[s]f.npy",
    "{out}/psf.npy/",
    "{out}//psf.npy",
    "{out}/nope/../psf.npy",
    "{out}/em.zarr|zarr3:",
    "{out}/em.zarr/",
    "zarr3://{out}/em.zarr",
    "file://{out}/psf.npy",
    "file://{out}/%70sf.npy",
    "../outside/psf.npy",
    "./a/../../outside/psf.npy",
    "nope/../../outside/psf.npy",
    "nope|zarr3:/../../outside/psf.npy",
    "deep/../../outside/psf.npy",
    "out/psf.npy",
    "o*/psf.npy",
    "**/psf.npy",
    "out/../other/psf.npy",
    "link.psf.npy",
    "link.em.zarr|zarr3:",
    "link.psf.n*",
    "link.psf.npy:/data",
    "~nobody/../{out}/psf.npy",
    "memory://psf.npy",
    "s3://bucket/psf.npy",
)


@pytest.mark.parametrize("path", LEAVING)
def test_no_path_of_a_recipe_leaves_the_folders(inside, path, monkeypatch):
    path = path.format(out=inside.parent / "outside")
    steps = {
        "psf": f"{{op: wiener, psf: '{path}', balance: 0.1}}",
        "transforms": f"{{op: apply_transforms, transforms: '{path}'}}",
        "mapping": f"{{op: relabel, mapping: '{path}'}}",
        "table": f"{{op: keep_labels, table: '{path}', column: label, low: 1}}",
        "model": f"{{op: predict, model: '{path}'}}",
        "classifier": f"{{op: classify, classifier: '{path}'}}",
        "folder": f"{{op: meshes, folder: '{path}'}}",
    }
    texts = [f"input: em.zarr\nsteps: {{s: {step}}}\noutput: o.zarr\n" for step in steps.values()]
    texts.append(f"input: '{path}'\noutput: o.zarr\n")
    texts.append(f"input: {{path: '{path}', dataset: /}}\noutput: o.zarr\n")
    texts.append(f"input: em.zarr\noutput: '{path}'\n")
    texts.append(f"input: em.zarr\noutputs: [{{step: input, path: '{path}'}}]\n")
    if not re.search(r"://|\*|link", path):  # with .csv these are no files, or others
        register = f"register: {{register_frames: {{table: '{path}.csv'}}}}"
        texts.append(f"input: em.zarr\n{register}\noutput: o.zarr\n")
    folders = Folders([str(inside)])
    monkeypatch.setattr(states, "apply", lambda *_: pytest.fail("applied"))
    for text in texts:
        state = Workspace(Document(text), folders).state()
        assert any("outside of the folders" in e for e in state.errors.values()), text
    w = Workspace(Document("input: em.zarr\noutput: o.zarr\n"), folders)
    for use in (w.save, w.load, w.compare_with):
        with pytest.raises(ValueError, match="outside of the folders"):
            use(path)


def test_an_array_inside_of_a_group_is_below_the_folders(inside):
    for dataset in ("link/em.zarr", "../../outside/em.zarr", "/link/em.zarr", "a/../link/em.zarr"):
        text = f"input: {{path: group.zarr, dataset: '{dataset}'}}\noutput: o.zarr\n"
        errors = Workspace(Document(text), Folders([str(inside)])).state().errors
        place = f"dataset {dataset} of group.zarr is outside of the folders"
        assert place in errors[""] or "leads out of" in errors["input"], dataset
    with pytest.raises(ValueError, match="leads out of the file"):
        bv.open("group.zarr", dataset="../em.zarr")


def test_the_run_of_an_output_stays_in_the_folders(inside):
    """Its journal is next to the output: ``inside.run`` for the folder itself."""
    Path("o.zarr.run").symlink_to("../outside")
    for path in (".", "../inside", str(inside), f"{inside}/", "a/..", "o.zarr", "o.zarr/"):
        errors = Workspace(Document(f"input: em.zarr\noutput: {path}\n"), Folders([inside])).state()
        assert "outside of the folders" in errors.errors[""], path


def test_paths_in_the_folders_are_allowed(inside):
    np.save("psf [1].npy", np.ones((3, 3, 3)))
    h5py = pytest.importorskip("h5py")
    with h5py.File("k.h5", "w") as file:
        file["psf"] = np.ones((3, 3, 3))
    good = ("psf.npy", "./a/../psf.npy", "deep/../psf.npy", "p?f.npy", "psf [1].npy", "k.h5:/psf")
    for psf in (*good, f"file://{inside}/psf.npy", f"{inside}/nope/../psf.npy"):
        text = f"input: em.zarr\nsteps: {{s: {{op: wiener, psf: '{psf}', balance: 1}}}}\noutput: a/o.zarr\n"
        state = Workspace(Document(text), Folders([str(inside)])).state()
        assert state.errors == {} and isinstance(state.known["s"], bv.Volume), psf
    # A text that is no path is none, whatever the name of a file is.
    Path("nm").symlink_to("../outside")
    text = "input: em.zarr\nsteps: {s: {op: with_space, voxel_size: 1, unit: nm}}\noutput: o.zarr\n"
    assert Workspace(Document(text), Folders([str(inside)])).state().errors == {}


def test_a_pattern_outside_is_refused_before_the_disk_is_searched(inside, monkeypatch):
    monkeypatch.setattr("glob.glob", lambda *_, **__: pytest.fail("searched"))
    with pytest.raises(ValueError, match="outside of the folders"):
        Folders([str(inside)]).check("/**/psf.npy")


@pytest.mark.parametrize(
    "pattern", ["**/psf.npy", "o*/*.npy", "[!z]*/p*", "a/../*/em.*", "**/[c-o]*/*", "**"]
)
def test_a_pattern_lists_no_folder_outside(inside, pattern, monkeypatch):
    """Links lead to folders outside; the pattern is refused before one of them is listed."""
    listed = set()
    real = os.scandir

    def scandir(path="."):
        listed.add(os.path.realpath(os.fsdecode(path)))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    for path in (pattern, f"{inside}/{pattern}"):
        with pytest.raises(ValueError, match="outside of the folders"):
            Folders([str(inside)]).check(path)
    assert all(os.path.commonpath([folder, inside]) == str(inside) for folder in listed)


def test_a_pattern_follows_links_in_the_folders(inside):
    """Also a link to the folder above, which leads to no end of folders."""
    Path("a/b/above").symlink_to("..")
    np.save("a/b/c/s 1.npy", np.ones((2, 2)))
    for pattern in ("a/**/s*.npy", "d*p/s*.npy", "[d]eep/s*"):
        assert Folders([str(inside)]).check(pattern) == f"{inside}/{pattern}"


def test_every_parameter_that_opens_files_is_declared_as_a_path(tmp_path, monkeypatch):
    """Other texts are never looked up on the disk, so the studio need not check them."""
    monkeypatch.chdir(tmp_path)
    asked = set()

    def noted(function):
        def call(path, *args, **kwargs):
            asked.add(str(path))
            return function(path, *args, **kwargs)

        return call

    for name in ("abspath", "isfile", "isdir", "exists", "lexists"):
        monkeypatch.setattr(os.path, name, noted(getattr(os.path, name)))
    monkeypatch.setattr("builtins.open", noted(open))
    volume, opened, declared = bv.open(EM[:6, :7, :8]), set(), set()
    for name, operation in operations().items():
        own = {} if operation.is_of_tables else start(operation, "input", 1, volume)
        for key, parameter in operation.parameters.items():
            if parameter.is_path:
                declared.add((name, key))
            words = set(re.findall(r"\w+", parameter.annotation))
            numbers = words <= {"int", "float", "bool", "None"}
            if key == operation.positional[0] or numbers or parameter.choices:
                continue
            for ending in (".npy", ".csv", ".npz", ".onnx"):
                step = {"op": name, **own, key: f"secret{ending}"}
                document = {"input": "x", "steps": {"s": step}, "outputs": [{"step": "s"}]}
                asked.clear()
                with contextlib.suppress(ValueError, TypeError, OSError, AttributeError):
                    expressions(checked_recipe(placed(document, "x")), given={"input": volume})
                if any("secret" in path for path in asked):
                    opened.add((name, key))
    assert opened <= declared
    assert declared - opened == {  # other parameters are wrong above
        ("agglomerate", "edges"),
        ("agglomerate", "sizes"),
        ("apply_transforms", "displacements"),
        ("cut", "merges"),
        ("fuse", "transforms"),
        ("keep_labels", "table"),
    }


def test_a_step_from_the_palette_says_what_it_needs(workspace):
    w = workspace
    name = w.add("wiener", "input")
    assert w.state().errors[name].startswith("give psf: The point spread function")
    with pytest.raises(Unavailable, match="wiener: give psf"):
        w.view(name, Region())
    np.save("psf.npy", bv.gaussian_psf(1))
    w.set_field(name, "psf", "psf.npy")
    assert name not in w.state().errors
    whole = np.asarray(bv.wiener(bv.open("em.ome.zarr"), bv.gaussian_psf(1), 1))
    check(w.view(name, Region()), whole)


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


@thorough
def test_memory_stays_under_its_limit():
    """Python and numba, one computation with its memory, and results that are kept.

    It grows for some 50 actions, until as many results are kept as the limit allows.
    """
    words = ["benchmarks/studio.py", "--mebibytes", "256", "--actions", "120", "--pause", "0"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second, last = map(int, re.findall(r"\d+", done.stdout.split("memory: ")[1])[:3])
    assert last < max(first, second) + 64


def test_a_save_replaces_only_the_recipe_that_was_loaded(workspace):
    w = workspace
    w.save("r.yaml")
    w.document.set("smooth", "sigma", 3)
    w.save("r.yaml")
    saved = Path("r.yaml").read_bytes()
    assert saved == w.document.text.encode()
    w.document.set("smooth", "sigma", 4)
    Path("r.yaml").write_text("# by an editor\n" + saved.decode())
    with pytest.raises(FileChanged, match=r"r\.yaml is a different recipe, or has changed"):
        w.save("r.yaml")
    assert Path("r.yaml").read_text().startswith("# by an editor")
    w.save("r.yaml", overwrite=True)
    Path("other.yaml").write_text("input: a.zarr\noutput: b.zarr\n")
    with pytest.raises(FileChanged):
        w.save("other.yaml")
    w.load("other.yaml")
    w.document.set_outputs([{"path": "c.zarr"}])
    w.save("other.yaml")
    assert "c.zarr" in Path("other.yaml").read_text()
    Path("empty.yaml").touch()
    w.save("empty.yaml")
    np.save("em.npy", np.zeros(9))
    before = Path("em.npy").read_bytes()
    Path("link.yaml").symlink_to("em.npy")
    Path("compose.yaml").write_text("services: {db: {image: postgres}}\n")
    Path("o.npyx").write_text(saved.decode())  # the text of a recipe is no reason to replace it
    Path("z.yaml").symlink_to("o.npyx")
    Path("photo.yaml").write_bytes(b"\xff\xd8")
    for path in ("em.npy", "link.yaml", "z.yaml", "photo.yaml", "compose.yaml", "new.txt", ""):
        for overwrite in (False, True):
            with pytest.raises(ValueError, match=r"recipe|outside"):
                w.save(path, overwrite)
    assert Path("em.npy").read_bytes() == before and "postgres" in Path("compose.yaml").read_text()
    assert not Path("new.txt").exists()


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
def test_no_pipe_or_device_is_opened_as_a_recipe(workspace, kind):
    """Opening a pipe would block for ever, with the lock."""
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "socket":
            server.bind("x.yaml")
        else:
            (os.mkfifo if kind == "pipe" else os.mkdir)("x.yaml")
        w, failed = workspace, []

        def attempt(use):
            try:
                use("x.yaml")
            except ValueError as error:
                failed.append(str(error))

        for use in (w.save, lambda path: w.save(path, overwrite=True), w.load, w.compare_with):
            thread = threading.Thread(target=attempt, args=(use,), daemon=True)
            thread.start()
            thread.join(PATIENCE)
            assert failed.pop() == "x.yaml is not a regular file; give the path of a recipe"


def test_one_of_two_studios_that_save_at_the_same_time_is_refused(workspace, monkeypatch):
    Path("r.yaml").write_text(workspace.document.text)
    both = [Workspace(Document(workspace.document.text), workspace.folders) for _ in range(2)]
    for k, w in enumerate(both):
        w.load("r.yaml")
        w.document.set("smooth", "sigma", 3 + k)
    written, saved, refused = workspaces.write_file, [], []

    def slowly(place, data):
        time.sleep(0.3)  # the other studio reads the old file meanwhile
        written(place, data)

    monkeypatch.setattr(workspaces, "write_file", slowly)
    together = threading.Barrier(2)

    def save(w):
        together.wait(PATIENCE)
        try:
            w.save("r.yaml")
            saved.append(w.document.text)
        except FileChanged:
            refused.append(w)

    threads = [threading.Thread(target=save, args=(w,)) for w in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(refused) == 1 and saved == [Path("r.yaml").read_text()]


def test_a_save_that_fails_keeps_the_recipe(workspace, monkeypatch):
    w = workspace
    w.save("r.yaml")
    w.document.set("smooth", "sigma", 3)
    before, names = Path("r.yaml").read_bytes(), sorted(os.listdir())

    def fails(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match=r"No space left on device: .*r\.yaml"):
            w.save("r.yaml")
    assert Path("r.yaml").read_bytes() == before and sorted(os.listdir()) == names
    w.save("r.yaml")  # it is still the one that was loaded


def test_the_studio_knows_the_recipe_that_it_was_started_with(workspace, monkeypatch):
    pytest.importorskip("nicegui")
    Path("r.yaml").write_text(workspace.document.text)
    with studio("r.yaml") as s:
        s.workspace.document.set("smooth", "sigma", 3)
        s.workspace.save("r.yaml")
        assert "sigma: 3" in Path("r.yaml").read_text()
