"""The program of a recipe computes the same."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.recipes.build import build
from beam_volumes.recipes.document import printed
from beam_volumes.recipes.recipe import parse_recipe
from beam_volumes.recipes.registration import register_inputs
from beam_volumes.studio.export import as_python
from tests.tiers import thorough

EM = np.random.default_rng(0).integers(0, 255, (9, 20, 22)).astype("u1")
RECIPE = """\
inputs:
  em: em.npy
  other: {path: em.npy, voxel_size: [2, 1, 1], unit: um}
register: {register_slices: {input: em, skip: 3, table: found.csv}}
steps:
  part: {op: crop, input: em, box: '1:,,2:-1'}
  for: {op: gaussian_filter, input: part, sigma: [1, 2, 1]}
  open-it: {op: grey_opening, footprint: {ball: 1}}
  otsu: {op: threshold_otsu, input: open-it}
  mask: {op: greater, inputs: [open-it, otsu]}
  cells: {op: label, structure: {cross: {radius: 1}}}
  many: {op: num_labels}
  clipped: {op: clip, input: em, min: 3, max: {step: otsu}}
  small: {op: astype, dtype: float32}
  both: {op: stack, inputs: [small, clipped]}
  eigen: {op: structure_tensor, input: small}
  one: {op: abs, input: eigen.0}
  sized: {op: with_space, input: em, other: other}
  open_it: {op: clip, input: em, max: .inf}
  np: {op: binary_erosion, input: mask, structure: {ball: {radius: 1, ndim: 3}}}
  float: {op: subtract, inputs: [open_it, -5]}
  csv: {op: crop, box: ' 1 : -2 ,, :9'}
outputs:
  - {step: cells, path: cells.zarr, chunks: 8}
  - {step: both, path: both.zarr}
  - {step: one, path: one.zarr}
  - {step: sized, path: sized.zarr}
  - {step: csv, path: csv.zarr}
  - {step: np, path: np.zarr}
  - {step: many}
memory: 1GiB
"""


@thorough
def test_the_program_computes_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("em.npy", EM)
    recipe = parse_recipe(RECIPE)
    text = as_python(recipe)
    assert [*register_inputs(recipe)] == ["found.csv"]
    found = Path("found.csv").read_bytes()
    wanted = bv.compute(list(build(recipe).targets), runner=None)
    want = [np.asarray(w) for w in wanted]
    compute, known = bv.compute, {}

    def computes(*targets, **options):
        known["found"] = compute(list(targets), runner=None, overwrite=True, **options)

    monkeypatch.setattr(bv, "compute", computes)
    exec(text, known)
    assert Path("found.csv").read_bytes() == found
    for a, b in zip(known["found"], want, strict=True):
        assert np.array_equal(np.asarray(a), b)
    assert known["found"][3].voxel_size == (2, 1, 1)


CODE = "__import__('os').getpid()"
TEXTS = st.sampled_from(
    [CODE, f"x={CODE}", f"1) or {CODE}", f"ball(1) or {CODE}", "a'b", 'a"""b', "a\nprint()", "\\"]
)
DATA = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(TEXTS | st.just("ball"), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(DATA, DATA)
@example({"ball": {"radius": 1, f"x={CODE}": 2}}, 8)
@example({f"ball(1) or {CODE}": 2}, 8)
@example(1, {f"x={CODE}": 2})
def test_no_value_of_a_recipe_is_pasted_as_code(footprint, chunks):
    steps = {"m": {"op": "median_filter", "footprint": footprint}}
    o = {"path": CODE, "step": "m", "chunks": chunks}
    try:
        text = printed({"input": {"path": CODE, "unit": CODE}, "steps": steps, "outputs": [o]})
        program = as_python(parse_recipe(text))
    except ValueError:
        return
    # All calls are of this package, or of float("inf").
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func).startswith(("bv.", "m.to", "float"))
            assert not isinstance(node.func, ast.Name) or isinstance(node.args[0], ast.Constant)


@pytest.mark.parametrize("box", [f"0:{CODE}", CODE, "0:1:2", "1]+[2", "1:2\n, ", ["a"], 7])
def test_a_box_is_never_pasted_as_code(box):
    steps = {"c": {"op": "crop", "box": box}}
    text = printed({"input": "em.npy", "steps": steps, "output": "o.zarr"})
    program = as_python(parse_recipe(text))
    if box == "1:2\n, ":
        assert "c = input_[1:2, :]\n" in program
    else:
        assert ast.literal_eval(ast.parse(program).body[3].value.slice) == box
