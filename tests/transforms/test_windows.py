"""Outputs have the windows and the triggers of their inputs, so Beam joins them with anything else."""

import json
import logging

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.pipeline import PipelineVisitor
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from apache_beam.typehints import Any, Tuple
from scipy import ndimage

import beam_volumes as bv
from beam_volumes import yaml
from beam_volumes.expansion.catalogue import CATALOGUE
from beam_volumes.expansion.rows import ToRows
from tests.transforms.trees import membranes, stored

SHAPE = (6, 7, 8)


class Inputs:
    """The inputs of all transforms, in the windows of a test."""

    def __init__(self, em, folder, windows, is_bounded=True):
        self.em, self.folder, self.windows, self.is_bounded = em, folder, windows, is_bounded
        self.p = beam.Pipeline("FnApiRunner")
        self.path = self.em.node.source.name
        self.read = bv.ReadSlabs(self.em, depth=3, halo=1)
        self.label = bv.LabelComponents(self.read)
        self.grid = {"input": self.path, "depth": 3}

    def windowed(self, name, *values, kind=None):
        create = beam.Create(values)
        some = self.p | name >> (create if kind is None else create.with_output_types(kind))
        some = some | f"{name} at" >> beam.Map(lambda v: TimestampedValue(v, 7)).with_output_types(
            some.element_type
        )
        some = some | f"{name} in windows" >> self.windows()
        some.is_bounded = self.is_bounded
        return some

    @property
    def paths(self):
        return self.windowed("Path", self.path)

    @property
    def rows(self):
        return self.paths | beam.Map(lambda path: beam.Row(path=path)).with_output_types(
            beam.typehints.row_type.RowTypeConstraint.from_fields([("path", str)])
        )

    @property
    def slabs(self):
        return self.paths | bv.ReadAll(depth=3, halo=1)

    @property
    def summaries(self):
        return self.slabs | self.label

    @property
    def answers(self):
        return (self.summaries | bv.MergeEquivalences(self.label))["answers"]

    def out(self, name):
        return str(self.folder / name)


RECIPE = {"input": "any.zarr", "steps": {"mean": None}, "outputs": [{"step": "mean"}]}
#: By name of a transform, or with more words: its input, and what is applied to it.
CASES = {
    "ApplyStages": lambda i: (i.slabs, bv.ApplyStages(lambda v: v + 1)),
    "ApplyStages excepting": lambda i: (
        i.slabs,
        bv.ApplyStages(lambda v: v + 1).with_exception_handling(threshold=0.5),
    ),
    "Compute": lambda i: (
        i.paths,
        bv.Compute(
            i.em.to(i.out("copy.zarr")),
            bv.mean(i.em, axis="z"),
            bv.regionprops_table(bv.label(i.em > 140)),
        ),
    ),
    "ComputeAll": lambda i: (i.paths, bv.ComputeAll(lambda path: {"mean": bv.open(path).mean()})),
    "LabelComponents": lambda i: (i.slabs, i.label),
    "LabelSlabs": lambda i: (i.slabs, bv.LabelSlabs(i.read)),
    "LabelSlabs reading again": lambda i: (
        i.slabs,
        bv.LabelSlabs(i.read, mask=i.em, memory="1GiB", min_size=2),
    ),
    "MeasureSlabs": lambda i: (
        i.slabs,
        bv.MeasureSlabs(i.read, mean=bv.mean, table=bv.regionprops_table),
    ),
    "MeasureSlabs partial": lambda i: (i.slabs, bv.MeasureSlabs(i.read, partial=True, m=bv.mean)),
    "MergeEquivalences": lambda i: (i.summaries, bv.MergeEquivalences(i.label, memory="1GiB")),
    "Predict": lambda i: (
        i.slabs,
        bv.Predict(
            bv.SlabGrid(i.em, 3, halo=1), lambda b: b, patch=(3, 7, 8), context=0
        ).with_exception_handling(),
    ),
    "ReadAll": lambda i: (i.paths, bv.ReadAll(depth=3).with_exception_handling()),
    "ReadSlabs": lambda i: (i.paths, bv.ReadSlabs(i.em, depth=3).with_exception_handling()),
    "RegionTable": lambda i: (i.slabs, bv.RegionTable(i.read)),
    "RegisterSlices": lambda i: (i.paths, bv.RegisterSlices(i.em, max_side=16)),
    "RegisterTiles": lambda i: (i.paths, bv.RegisterTiles([i.em, i.em], [(0, 0, 0), (0, 0, 4)])),
    "RelabelSlabs": lambda i: (i.answers, bv.RelabelSlabs(i.em, i.label)),
    "RelabelSlabs mapped": lambda i: (
        {
            "answers": i.answers,
            "mapping": i.windowed("New", (1, 2), kind=Tuple[int, int]),
        },
        bv.RelabelSlabs(i.em, i.label),
    ),
    "SlabScan": lambda i: (
        i.slabs | "First" >> beam.MapTuple(lambda key, slab: (key, 1)),
        bv.SlabScan(i.read, lambda a, b: a + b),
    ),
    "WatchSlices": lambda i: (
        i.windowed("Slice", i.out("0.png")),
        bv.WatchSlices(i.out("{z}.png"), SHAPE, "u1"),
    ),
    "WriteSlabs": lambda i: (
        i.slabs,
        bv.WriteSlabs(i.out("out.zarr"), like=i.em, chunks=(3, 7, 8)),
    ),
    "WriteSlabs partial": lambda i: (
        i.slabs,
        bv.WriteSlabs(i.out("out.zarr"), like=i.em, partial=True).with_exception_handling(),
    ),
    "WriteSlabs of any kind": lambda i: (
        i.slabs,
        bv.WriteSlabs(i.out("out.zarr")).with_exception_handling(threshold=0.5),
    ),
    "YAML ApplyStages": lambda i: (i.slabs, yaml.ApplyStages({"add": {"inputs": ["input", 1]}})),
    "YAML ComputeAll": lambda i: (i.rows, yaml.ComputeAll(RECIPE, i.out("each"))),
    "YAML LabelSlabs": lambda i: (i.slabs, yaml.LabelSlabs(i.grid)),
    "YAML MeasureSlabs": lambda i: (
        i.slabs,
        yaml.MeasureSlabs(i.grid, {"mean": {"mean": None}, "sum": {"sum": None}}),
    ),
    "YAML ReadAll": lambda i: (i.rows, yaml.ReadAll(error_handling={"output": "bad"})),
    "YAML ReadSlabs": lambda i: (i.paths, yaml.ReadSlabs(i.path, depth=3)),
    "YAML RegionTable": lambda i: (i.slabs, yaml.RegionTable(i.grid)),
    "YAML WriteSlabs": lambda i: (i.slabs, yaml.WriteSlabs(i.out("out.zarr"))),
}
#: They start a pipeline, in Beam's default windows.
STARTS = {"YAML ComputeRecipe"}
#: By name: the windows of the input, and whether it is bounded.
WINDOWS = {
    "default": (lambda: beam.WindowInto(GlobalWindows()), True),
    "streaming": (lambda: beam.WindowInto(GlobalWindows()), False),
    "fixed": (
        lambda: beam.WindowInto(
            FixedWindows(5),
            trigger=Repeatedly(AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
        True,
    ),
}


@pytest.fixture(scope="module")
def em(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("em"), membranes(SHAPE))


def yaml_of(recipe):
    return json.dumps(recipe, indent=1)


def untyped(p, step):
    """The inner steps of a step with outputs of an unknown type."""
    found = []

    class Steps(PipelineVisitor):
        def enter_composite_transform(self, node):
            if node.full_label.startswith(step):
                some = [c for c in node.outputs.values() if isinstance(c, beam.PCollection)]
                found.extend(node.full_label for c in some if c.element_type in (Any, None))

        visit_transform = enter_composite_transform

    p.visit(Steps())
    return found


def collections_of(out):
    """All PCollections of an output, by name."""
    if isinstance(out, beam.PCollection):
        return {"": out}
    some = out.items() if isinstance(out, dict) else enumerate(out)
    return {f"{name} {n}": c for name, o in some for n, c in collections_of(o).items()}


def test_every_transform_has_a_case():
    transforms = {n for n in bv.transforms.__all__ if issubclass(getattr(bv, n), beam.PTransform)}
    of_yaml = {f"YAML {n}" for n in yaml.__all__ if isinstance(getattr(yaml, n), type)}
    cases = {name for name in CASES if name in transforms | of_yaml}
    assert cases | STARTS == transforms | of_yaml
    assert {*CATALOGUE} <= transforms | {n.removeprefix("YAML ") for n in of_yaml}


@pytest.mark.parametrize("name", CASES)
def test_outputs_have_the_windowing_of_their_input_and_inner_steps_a_type(
    em, tmp_path, caplog, name
):
    for windows, is_bounded in WINDOWS.values():
        inputs, windowing = Inputs(em, tmp_path, windows, is_bounded), windows().windowing
        given, transform = CASES[name](inputs)
        one = given["answers"] if isinstance(given, dict) else given
        assert one.windowing == windowing and one.is_bounded == is_bounded
        found = collections_of(given | "Tested" >> transform)
        assert found and all(some.windowing == windowing for some in found.values())
        assert not untyped(inputs.p, "Tested")
        for n, some in found.items():
            text = some | f"Text {n}" >> beam.Map(str).with_output_types(str)
            _ = (text, inputs.windowed(f"New {n}", "x")) | f"All {n}" >> beam.Flatten()
    assert "must have the same window" not in caplog.text


@pytest.mark.parametrize(
    "name", ["Compute", "ReadSlabs", "RegisterSlices", "RegisterTiles", "WatchSlices"]
)
def test_inner_steps_of_a_transform_that_starts_a_pipeline_have_a_type(em, tmp_path, name):
    inputs = Inputs(em, tmp_path, lambda: beam.WindowInto(GlobalWindows()))
    _ = inputs.p | "Tested" >> CASES[name](inputs)[1]
    assert not untyped(inputs.p, "Tested")


@pytest.mark.parametrize("name", CATALOGUE)
def test_outputs_of_the_service_have_the_windowing_of_their_input(em, tmp_path, name):
    inputs = Inputs(em, tmp_path, lambda: beam.WindowInto(GlobalWindows()))
    fields = {
        "ApplyStages": {"steps": "{add: {inputs: [input, 1]}}"},
        "ComputeAll": {"recipe": yaml_of(RECIPE), "out": inputs.out("each")},
        "ComputeRecipe": {"recipe": yaml_of({**RECIPE, "input": inputs.path})},
        "LabelSlabs": {"grid": inputs.grid},
        "MeasureSlabs": {"grid": inputs.grid, "numbers": "{mean: {mean: null}, sum: {sum: null}}"},
        "ReadAll": {"error_handling": {"output": "bad"}},
        "ReadSlabs": {"input": inputs.path},
        "RegionTable": {"grid": inputs.grid},
        "WatchSlices": {"pattern": inputs.out("{z}.png"), "shape": SHAPE, "dtype": "u1"},
        "WriteSlabs": {"path": inputs.out("out.zarr")},
    }[name]
    found = CATALOGUE[name]
    given = {
        "slabs": lambda: inputs.slabs | "Rows" >> ToRows(),
        "input": lambda: inputs.rows,
        None: lambda: inputs.p,
    }[found.takes]()
    out = collections_of(given | "Tested" >> found.configured(name, fields))
    assert out and all(some.windowing.is_default() for some in out.values())


@pytest.mark.parametrize("windows", [GlobalWindows(), FixedWindows(10)])
def test_results_of_windows_are_joined_with_created_elements(tmp_path, caplog, windows):
    """Slabs of several times: the results belong to the window of the last slab."""
    array = membranes((12, 7, 8))
    em = stored(tmp_path, array)
    read = bv.ReadSlabs(em > 140, depth=3, halo=1)
    labels, count = ndimage.label(array > 140)
    want = [(k, float(n), "in a table") for k, n in enumerate(np.bincount(labels.ravel())[1:], 1)]
    at_end = beam.Map(lambda x: TimestampedValue(x, 9 + 20))
    with caplog.at_level(logging.WARNING), beam.Pipeline("FnApiRunner") as p:
        slabs = (
            p
            | read
            | beam.MapTuple(lambda key, slab: TimestampedValue((key, slab), 20 + key.z))
            | beam.WindowInto(windows)
        )
        cells = slabs | bv.LabelSlabs(read)
        rows = cells | bv.RegionTable(bv.SlabGrid(em.astype("u4"), 3), properties=["area"])
        names = (
            p
            | beam.Create([(k, "in a table") for k in range(1, count + 1)])
            | "At end" >> at_end
            | "Same windows" >> beam.WindowInto(windows)
        )
        joined = {
            "rows": rows | beam.Map(lambda row: (row.label, row.area)),
            "names": names,
        } | beam.CoGroupByKey()
        assert_that(
            joined | beam.MapTuple(lambda k, found: (k, *found["rows"], *found["names"])),
            equal_to(want),
        )
        written = cells | bv.WriteSlabs(tmp_path / "cells.zarr", chunks=(3, 7, 8))
        more = p | "Text" >> beam.Create(["more"]) | "Same" >> beam.WindowInto(windows)
        texts = (written, more) | beam.Flatten() | "Names" >> beam.Map(lambda path: path[-5:])
        assert_that(texts, equal_to([".zarr", "more"]), "paths")
    assert "must have the same window" not in caplog.text
    np.testing.assert_array_equal(bv.open(tmp_path / "cells.zarr"), labels)


def test_steps_that_wait_are_in_the_window_of_the_last_element(em, tmp_path):
    with beam.Pipeline("FnApiRunner") as p:
        ends = (
            p
            | beam.Create([3, 17])
            | beam.Map(lambda t: TimestampedValue(t, t))
            | beam.WindowInto(FixedWindows(10))
        )
        window = beam.Map(lambda x, w=beam.DoFn.WindowParam: (float(w.start), float(w.end)))
        slabs = ends | bv.ReadSlabs(em, depth=3)
        assert_that(slabs | "Of slabs" >> window, equal_to([(10, 20)] * 2), "slabs")
        done = ends | bv.Compute(em.to(tmp_path / "copy.zarr"), mean=bv.mean(em))
        for name, some in done.items():
            assert_that(some | f"Of {name}" >> window, equal_to([(10, 20)]), name)
