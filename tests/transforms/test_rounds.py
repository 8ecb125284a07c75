"""Flows as Beam steps: the same numbers as in this process."""

import itertools
import pickle
import random

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage as ndi

from beam_volumes.across import components as cc
from beam_volumes.across.merge import Keep
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.base.geometry import Grid
from beam_volumes.transforms.rounds import RunFlow, pieces, whole
from tests.across.driver import grid_index, relabel, summarise
from tests.tiers import examples, few


@given(st.lists(st.binary(max_size=3000), unique=True), st.integers(5, 500), st.randoms())
@settings(max_examples=examples(50))
def test_pieces(values, most, random):
    some = [p for value in values for p in pieces(value, most)] * 2
    random.shuffle(some)
    assert all(len(p) <= most + 24 for p in some)
    assert sorted(whole(some)) == sorted(values)


def test_a_piece_that_is_missing():
    some = list(pieces(random.Random(0).randbytes(500), 50))
    with pytest.raises(ValueError, match=r"10 of 11 pieces of a message have arrived"):
        whole(some[1:])


def test_large_messages_are_cut():
    value = np.random.default_rng(0).integers(0, 2**63, 2_000_000)
    some = list(pieces(value))
    assert len(some) == 31 and max(map(len, some)) < 525_000
    np.testing.assert_array_equal(whole(some)[0], value)


def volume(seed):
    rng = np.random.default_rng(seed)
    return ndi.gaussian_filter(rng.random((9, 31, 29)), 1) > 0.5


def run_in_beam(folder, summaries, grid, options=None, **how):
    """What comes out of a pipeline."""
    with beam.Pipeline("FnApiRunner", options=options) as p:
        given = p | beam.Create([((grid_index(grid, s.cell),), s) for s in summaries])
        ready = p | "Ready" >> beam.Create([None])
        out = given | RunFlow(component_flow(grid, **how), ready=ready)
        answers = out["answers"] | beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, whole(v)))
        for name, found in (("answers", answers), ("numbers", out["numbers"])):
            place = folder / name
            write = beam.Map(lambda found, place: place.write_bytes(pickle.dumps(found)), place)
            _ = found | f"List {name}" >> beam.combiners.ToList() | f"Write {name}" >> write
    return {name: pickle.loads((folder / name).read_bytes()) for name in ("answers", "numbers")}


CASES = [
    *(dict(tiles=t, connectivity=c) for t, c in (((2, 2), 1), ((3, 2), 3), ((2, 2), 2))),
    dict(tiles=(2, 2), connectivity=1, keep=Keep(min_size=20)),
    dict(tiles=(3, 2), connectivity=2, k_largest=5),
    dict(tiles=(3, 2), connectivity=1, k_largest=5, as_mask=True),
    dict(tiles=(1, 1), connectivity=3, keep=Keep(touches_border=True), as_mask=True),
]


@pytest.mark.parametrize("case", few(range(len(CASES) + 1), [0, 1]))
def test_labels(case, tmp_path):
    options = None
    if case == len(CASES):  # once more in several processes
        case = 1
        options = PipelineOptions(
            ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
        )
    how = dict(CASES[case])
    tiles, connectivity = how.pop("tiles"), how.pop("connectivity")
    mask, structure = volume(case), cc.connectivity_structure(connectivity)
    grid = Grid(mask.shape, (4, -(-31 // tiles[0]), -(-29 // tiles[1])))
    labelling = cc.Labelling(structure)
    summaries = [
        summarise(lambda b: mask[b.slices], grid, c, 3, labelling, ("size", "touches_border"))
        for c in itertools.product(*map(range, grid.counts))
    ]
    found = run_in_beam(tmp_path, summaries, grid, options, **how)
    want, n = ndi.label(mask, structure)
    sizes = np.bincount(want.ravel())[1:]
    kept = np.ones(n, bool)
    keep = how.get("keep", Keep())
    if keep.min_size:
        kept = sizes >= keep.min_size
    if keep.touches_border:
        inner = np.pad(np.ones((7, 29, 27), bool), 1)
        kept = np.isin(np.arange(1, n + 1), want[~inner])
    if "k_largest" in how:
        kept = np.isin(np.arange(n), np.lexsort((np.arange(n), -sizes))[:5])
    want = np.concatenate([[0], np.cumsum(kept) * kept])[want]
    assert found["numbers"] == [((), {"count": kept.sum()})]
    answers = dict(found["answers"])
    assert len(answers) == len(found["answers"]) == len(grid)
    got = np.zeros_like(want)
    for i in range(len(grid)):
        core, region = cc.region_of(grid, grid.cell(i))
        ((ids, digests),) = answers[i,]
        relabel(labelling, ids, digests, mask, core, region, 3, got)
    np.testing.assert_array_equal(got, want > 0 if "as_mask" in how else want)
