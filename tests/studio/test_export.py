"""The program of a recipe computes the same."""

from pathlib import Path

import numpy as np

import beam_volumes as bv
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import parse_recipe
from beam_volumes.recipes.registration import register_inputs
from beam_volumes.studio.export import as_python

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
outputs:
  - {step: cells, path: cells.zarr, chunks: 8}
  - {step: both, path: both.zarr}
  - {step: one, path: one.zarr}
  - {step: sized, path: sized.zarr}
  - {step: many}
memory: 1GiB
"""


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
