"""Labels and tables by verbs and recipes: what scipy and scikit-image give."""

import csv
import json
import os
import re

import numpy as np
import pytest
from scipy import ndimage
from skimage import filters, measure, morphology

import beam_volumes as bv
from beam_volumes.cli import execute
from beam_volumes.cli.messages import worded
from beam_volumes.drive.compute import compute
from beam_volumes.recipes.build import build
from beam_volumes.recipes.document import RecipeError
from beam_volumes.recipes.recipe import parse_recipe
from beam_volumes.storage.places.errors import explain

NONE = ("--runner", "none")


@pytest.fixture
def image(work):
    """The slices, and a volume of few components in one chunk per slab of 4 slices."""
    blobs = ndimage.gaussian_filter(np.asarray(bv.open("slices")).astype("f4"), 1)
    bv.compute(bv.open(blobs).to("blobs.zarr", chunks=(4, 20, 30)), runner=None)
    return blobs


def test_label(image, command):
    flags = ["--threshold", 145.5, "--fill-holes", "--remove-small", 9, "--connectivity", 2]
    flags += ["--slab", "4,20,30", "--chunks", "4,20,30"]
    code, out, err = command("label", "blobs.zarr", "cells.zarr", *flags, *NONE)
    assert code == 0, err
    mask = ndimage.binary_fill_holes(image > 145.5)
    mask = morphology.remove_small_objects(mask, max_size=9, connectivity=2)
    want, n = ndimage.label(mask, ndimage.generate_binary_structure(3, 2))
    np.testing.assert_array_equal(bv.open("cells.zarr"), want)
    assert out == f"{n}\n" and n > 3
    assert re.search(r"label \(first sweep\), .*; 3 slabs of 4 x 20 x 30", err)
    code, out, err = command("label", "cells.zarr", "again.zarr", *NONE, "--quiet", "--by-value",
                             "--background", "none", "--dtype", "uint16")  # fmt: skip
    assert (code, err) == (0, "")
    want = measure.label(want, background=-1, connectivity=1)
    assert out == f"{want.max()}\n"
    got = np.asarray(bv.open("again.zarr"))
    assert got.dtype == np.uint16
    assert len(np.unique(np.stack([got, want]).reshape(2, -1), axis=1).T) == want.max()


def test_a_size_with_a_unit(work, command):
    size = ("--voxel-size", 10, "--unit", "nm", "--remove-small", "0.00002 um^3")
    code, out, err = command("label", "slices", "a.zarr", "--threshold", "otsu", *size, *NONE)
    assert code == 0, err
    image = np.asarray(bv.open("slices"))
    mask = morphology.remove_small_objects(image > filters.threshold_otsu(image), max_size=20)
    assert out == f"{ndimage.label(mask)[1]}\n"


def test_stats(image, work, command, monkeypatch):
    labels = ndimage.label(image > 130)[0].astype("u2")
    bv.compute(bv.open(labels, voxel_size=(4, 1, 1), unit="nm").to("l.zarr"), runner=None)
    names = ("area", "centroid", "intensity_mean")
    how = ("--intensity", "blobs.zarr", "--properties", ", ".join(names), "--spacing", "voxel_size")
    want = measure.regionprops_table(
        labels, image.astype(float), ("label", *names), spacing=(4.0, 1.0, 1.0)
    )
    for out in ("t.csv", "t.jsonl", None):
        code, told, err = command("stats", "l.zarr", *filter(None, [out]), *how, *NONE)
        assert code == 0, err
        if out == "t.jsonl":
            with open(out) as file:
                rows = [json.loads(line) for line in file]
        else:
            lines = (work / out).read_text() if out else told
            rows = list(csv.DictReader(lines.splitlines()))
        assert list(rows[0]) == list(want)
        for name, column in want.items():
            np.testing.assert_allclose([float(r[name]) for r in rows], column, rtol=1e-9)
    code, told, err = command("stats", "l.zarr", "t.parquet", "--crop", "0:5", "--quiet", *NONE)
    assert (code, err) == (0, "") and told.endswith("t.parquet\n")
    assert len(os.listdir("t.parquet")) == 3
    monkeypatch.setattr(execute, "MAX_ROWS", 2)
    assert command("stats", "l.zarr", *NONE)[1].startswith(f"{labels.max()} rows are too many")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["label", "none.zarr", "o.zarr"], "none.zarr does not exist"),
        (["label", "slices"], "the following arguments are required: OUT .*--help"),
        (["label", "slices", "o.zarr", "--connectivity", "4"], "connectivity=4; give 1 to"),
        (["label", "slices", "o.zarr", "--connectivity", "x"], "invalid int value: 'x'"),
        (["label", "slices", "o.zarr", "--threshold", "otso"], "--threshold otso is not a number"),
        (["label", "slices", "o.zarr", "--remove-small", "1 um^3"], "max_size='1 um\\^3' needs a voxel"),
        (["label", "slices", "o.zarr", "--dtype", "unit32"], "--dtype unit32: .*did you mean 'uint32'"),
        (["label", "slices", "o.zarr", "--by-value", "--fill-holes"], "--fill-holes makes a mask"),
        (["label", "slices", "o.zarr", "--background", "1"], "--background requires --by-value"),
        (["label", "slices", "o.zarr", "--slab", "4,x"], "--slab x is not a number"),
        (["label", "slices", "o.zarr", "--treshold=3"], "did you mean '--threshold'"),
        (["label", "slices", "o.tar"], "format cannot be inferred"),
        (["label", "slices", "o.zarr", "--dtype", "uint8", "--by-value"], "uint8 has numbers up to 255: use"),
        (["stats", "slices", "t.xls"], "a table's format cannot be inferred"),
        (["stats", "slices", "t.csv", "--properties", "aera"], "'aera' in 3-D .did you mean 'area'"),
        (["stats", "slices", "t.csv", "--properties", "intensity_mean"], "needs intensity"),
        (["stats", "slices", "t.csv", "--spacing", "voxel_size"], "the volume has none"),
        (["stats", "slices", "t.csv", "--spacing", "1,x,1"], "--spacing x is not a number"),
        (["stats", "slices", "t.csv", "--intensity", "small.zarr"], "do not match; crop"),
        (["stats", "small.zarr", "t.csv"], "labels have dtype float32; use integers"),
        (["stats", "slices", "t.csv", "--nan", "drop"], "nan='drop'; use"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_leave_nothing(arguments, message, work, command):
    bv.compute(bv.open(np.zeros((3, 4, 5), "f4")).to("small.zarr"), runner=None)
    before = sorted(os.listdir(work))
    code, out, err = command(*arguments, *NONE, "--quiet")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("beam-volumes: error: ")
    assert re.search(message, err), err
    if "--dtype" not in arguments or "unit32" in arguments:
        assert sorted(os.listdir(work)) == before


RECIPE = """\
input: {path: slices, voxel_size: [4, 1, 1], unit: nm}
steps:
  low: {op: greater, inputs: [input, 150]}
  high: {op: greater, inputs: [input, 250]}
  grown: {op: binary_propagation, input: high, mask: low}
  cells: {op: label, connectivity: 3}
  count: {op: num_labels}
  table: {op: regionprops_table, input: cells, intensity: input, properties: [area, intensity_max]}
  pairs: {op: region_adjacency, input: cells, intensity: input}
  deep: {op: distance_transform_edt, input: cells, sampling: voxel_size}
outputs:
  - {step: cells, path: cells.zarr}
  - {step: deep, path: deep.zarr}
  - {step: table, path: cells.csv}
  - {step: pairs, path: pairs, format: jsonl}
  - {step: count}
  - {step: table}
"""


def test_recipe(work, command):
    (work / "r.yaml").write_text(RECIPE)
    code, out, err = command("run", "r.yaml", *NONE)
    assert code == 0, err
    em = np.asarray(bv.open("slices"))
    grown = ndimage.binary_propagation(em > 250, mask=em > 150)
    want, n = ndimage.label(grown, np.ones((3, 3, 3)))
    np.testing.assert_array_equal(bv.open("cells.zarr"), want)
    edt = ndimage.distance_transform_edt(want, (4, 1, 1))
    np.testing.assert_array_equal(bv.open("deep.zarr"), edt.astype("f4"))
    rows = list(csv.DictReader((work / "cells.csv").read_text().splitlines()))
    assert [float(r["area"]) for r in rows] == np.bincount(want.ravel())[1:].tolist()
    assert [int(r["intensity_max"]) for r in rows] == ndimage.maximum(
        em, want, range(1, n + 1)
    ).tolist()
    assert os.path.isfile("pairs")
    assert out.endswith(f"count: {n}\ntable:\n{(work / 'cells.csv').read_text()}")


def test_every_new_operation_takes_what_its_function_takes(work):
    text = """
    input: slices
    steps:
      t: {op: percentile, q: 90}
      most: {op: apply_hysteresis_threshold, input: input, low: 100, high: {step: t}}
      filled: binary_fill_holes
      holes: {op: remove_small_holes, max_size: 5}
      large: {op: keep_largest, k: 3}
      inside: {op: clear_border, input: holes}
      labels: {op: label, structure: {cube: 3}}
      other: {op: relabel, mapping: [[1, 2], [7, 8]], missing: keep}
      signed: {op: signed_distance, input: large, max_distance: 5}
      sums: {op: cumsum, input: input, axis: 1}
    outputs:
      - {step: other, path: a.zarr}
      - {step: signed, path: b.zarr}
      - {step: sums, path: c.zarr}
    """
    targets = build(parse_recipe(text)).targets
    compute(*targets, runner=None)
    em = bv.open("slices")
    most = bv.apply_hysteresis_threshold(em, 100, bv.percentile(em, 90))
    holes = bv.remove_small_holes(bv.binary_fill_holes(most), 5)
    labels = np.asarray(bv.label(bv.clear_border(holes), 3))
    for old, new in ((1, 7), (2, 8)):
        labels = np.where(np.asarray(bv.label(bv.clear_border(holes), 3)) == old, new, labels)
    np.testing.assert_array_equal(bv.open("a.zarr"), labels)
    signed = bv.signed_distance(bv.keep_largest(holes, 3), max_distance=5)
    np.testing.assert_array_equal(bv.open("b.zarr"), signed)
    np.testing.assert_array_equal(bv.open("c.zarr"), np.cumsum(np.asarray(em), 1))


MISTAKES = {
    "operation": ("op: label", "op: lable", "r.yaml:6: no operation is called 'lable'; did you mean"),
    "parameter": ("connectivity: 3", "conectivity: 3", "r.yaml:6: label has no parameter 'conecti"),
    "value": ("connectivity: 3", "connectivity: 5", "r.yaml:6: label: connectivity=5"),
    "mask": ("mask: low", "mask: lou", "r.yaml:5: .*uses 'lou', .*did you mean 'low'"),
    "number as mask": ("mask: low", "mask: count", "r.yaml:5: .*accepts a volume, but 'count' is a number"),
    "table as mask": ("mask: low", "mask: table", "r.yaml:5: .*accepts a volume, but 'table' is a table"),
    "table as number": ("inputs: [input, 250]", "inputs: [input, table]", "r.yaml:4: greater accepts"),
    "not labels": ("{op: num_labels}", "{op: num_labels, input: low}", "r.yaml:7: num_labels: .*label"),
    "property": ("[area, ", "[aera, ", "r.yaml:8: regionprops_table: there is no property 'aera'"),
    "table's format": ("cells.csv", "cells.xls", "r.yaml:14: .*format cannot be inferred"),
    "table's options": ("cells.csv}", "cells.csv, chunks: 3}", "r.yaml:14: a table's output has no"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_with_its_line(case, work):
    old, new, message = MISTAKES[case]
    text = RECIPE.replace(old, new, 1)
    assert text != RECIPE
    if case.endswith("mask") and "as" in case:  # what is used may not use it in turn
        text = text.replace(
            "input: cells, intensity: input, prop", "input: input, intensity: input, prop"
        )
        text = text.replace("count: {op: num_labels}", "count: {op: max, input: input}")
    if case == "table as number":
        text = text.replace(
            "input: cells, intensity: input, prop", "input: input, intensity: input, prop"
        )
    with pytest.raises(RecipeError, match=message):
        build(parse_recipe(text, "r.yaml"))


def test_an_image_given_for_a_mask_or_labels_is_noticed(work, command):
    """Once without a word: every voxel of an image is foreground, or a label."""
    code, _, told = command("label", "slices", "a.zarr")
    assert code == 0 and "slices has dtype uint8: every nonzero voxel is foreground" in told
    code, _, told = command("stats", "slices", "--properties", "area")
    assert code == 0 and "slices has dtype uint8: all voxels of one value form one region" in told
    bv.compute((bv.open("slices") > 99).to("mask.zarr"), runner=None)
    for arguments in (("slices", "b.zarr", "--threshold", "9"), ("mask.zarr", "c.zarr")):
        code, _, told = command("label", *arguments)
        assert code == 0 and "is of" not in told
    assert "is of" not in command("label", "slices", "d.zarr", "--quiet")[2]


@pytest.mark.parametrize("method", ["otsu", "li", "triangle"])
def test_label_knows_every_threshold(method, work, command):
    assert command("label", "slices", "t.zarr", "--threshold", method)[0] == 0
    v = bv.open("slices")
    found = getattr(bv, f"threshold_{method}")(v)
    assert np.array_equal(bv.open("t.zarr"), bv.label(v > found))


def test_folders_that_are_made_for_an_output_are_told(work, command):
    code, _, told = command("chain", "slices", "add", "1", "-o", "some/where/o.zarr")
    assert code == 0 and f"creates the folder {work}/some/where\n" in told
    assert "makes" not in command("chain", "slices", "add", "1", "-o", "some/where/p.zarr")[2]


def test_messages_have_the_command_lines_words(work, command):
    """Options instead of Python's keywords, and paths as they are."""
    assert worded("say affine='reorient', or give journal=, memory='2GiB' and slab=(4, 8, 8)") == (
        "say --option affine=reorient, or give --journal, --memory 2GiB and --slab 4,8,8"
    )
    assert worded('affine="drop" opens it', recipe=True) == "affine: drop opens it"
    assert worded("open it with voxel_size= and unit=", recipe=True) == (
        "open it with voxel_size: and unit:"
    )
    error = OSError(r'Failed to create "/a.run/\x33\x66": Read-only file system')
    assert "/a.run/3f" in str(explain(error, "writing"))
    _, _, told = command("chain", "slices", "gaussian_filter", "2 um", "-o", "o.zarr")
    assert "open the volume with --voxel-size and --unit" in told


def test_a_journal_of_its_own(work, command):
    assert command("chain", "slices", "add", "1", "-o", "o.zarr", "--journal", "here")[0] == 0
    assert (work / "here").is_dir() and not (work / "o.zarr.run").exists()
