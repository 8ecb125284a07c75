"""Recipes with tables as operands, from affinities to segments and scores."""

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.recipes.build import build
from beam_volumes.recipes.document import RecipeError
from beam_volumes.recipes.recipe import parse_recipe

RECIPE = """
inputs: {affinities: affinities.zarr, truth: truth.zarr}
steps:
  fragments: {op: watershed_affinities, input: affinities, low: 40, min_size: 3}
  graph: {op: region_adjacency, affinities: affinities}
  counts: {op: regionprops_table, input: fragments, properties: [num_pixels]}
  merges: {op: agglomerate, input: graph, threshold: 90, sizes: {step: counts}, max_size: 200}
  ids: {op: cut, threshold: 110}
  segments: {op: relabel, inputs: [fragments, ids], missing: keep, dtype: uint32}
  again: {op: relabel, input: fragments, mapping: {step: ids}, missing: keep, dtype: uint32}
  information: {op: variation_of_information, inputs: [truth, segments], ignore_labels: [0]}
  boundaries: {op: boundary_scores, inputs: [truth, segments], tolerance: 1}
outputs:
  - {step: segments, path: segments.zarr}
  - {step: again, path: again.zarr}
  - {step: merges, path: merges.parquet}
  - {step: information}
  - {step: boundaries}
"""


@pytest.fixture
def affinities(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    found = random.integers(0, 256, (3, 6, 9, 10)).astype("u1")
    truth = random.integers(0, 4, (6, 9, 10)).astype("u1")
    for array, name in ((found, "affinities.zarr"), (truth, "truth.zarr")):
        bv.compute(bv.open(array).to(name), runner=None)
    return found, truth


def test_tables_go_from_step_to_step(affinities, tmp_path, capsys):
    edges, truth = affinities
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    assert main(["run", "recipe.yaml", "--runner", "none"]) == 0
    printed = capsys.readouterr().out
    fragments = bv.watershed_affinities(edges, 40, min_size=3)
    graph = bv.region_adjacency(fragments, affinities=bv.open(edges))
    counts = bv.regionprops_table(fragments, properties=["num_pixels"])
    merges = bv.agglomerate(graph, threshold=90, sizes=counts, max_size=200)
    segments = np.asarray(bv.relabel(fragments, bv.cut(merges, 110), missing="keep", dtype="u4"))
    assert 1 < len(np.unique(segments)) < len(np.unique(np.asarray(fragments)))
    for name in ("segments.zarr", "again.zarr"):
        np.testing.assert_array_equal(np.asarray(bv.open(name)), segments)
    split, merge = bv.variation_of_information(truth, segments, ignore_labels=[0])
    precision, recall = bv.boundary_scores(truth, segments, tolerance=1)
    for number in (split, merge, precision, recall):
        assert f"{float(number):.6g}"[:5] in printed
    again = bv.cut("merges.parquet", 110)
    found = np.asarray(bv.relabel(fragments, again, missing="keep", dtype="u4"))
    np.testing.assert_array_equal(found, segments)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("{op: agglomerate, input: affinities, threshold: 3}", "accepts a table, but 'affinities' is"),
        ("{op: relabel, input: fragments, mapping: {step: fragments}}", "is a volume, not a table"),
        ("{op: watershed_affinities, input: affinities, low: {step: graph}}", "is a table, not a number"),
    ],
)  # fmt: skip
def test_what_is_no_table(step, message, affinities):
    steps = """
inputs: {affinities: affinities.zarr, truth: truth.zarr}
steps:
  fragments: {op: watershed_affinities, input: affinities, low: 40}
  graph: {op: region_adjacency, affinities: affinities}
"""
    with pytest.raises(RecipeError, match=message):
        build(parse_recipe(f"{steps}  wrong: {step}\noutput: {{step: wrong, path: x.zarr}}\n"))


def test_a_line_of_words_has_no_tables(affinities, capsys):
    assert main(["chain", "truth.zarr", "cut", "2", "-o", "x.parquet"]) == 2
    assert "cut: accepts a table" in capsys.readouterr().err
