"""Labels and scans by the single steps of a pipeline of one's own."""

from dataclasses import replace

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.across import scans
from beam_volumes.across.components import SlabSummary
from beam_volumes.across.rounds.flow import run
from beam_volumes.base.geometry import Box, Grid, connectivity_structure
from beam_volumes.ops.labels.surveys.component_surveys import Relabel
from beam_volumes.transforms import Slab, SlabKey
from beam_volumes.transforms.rounds import pieces
from beam_volumes.transforms.steps.components import SummaryCoder, _relabel, _summarise
from beam_volumes.transforms.steps.slabs import read_slab
from beam_volumes.transforms.steps.surveys import completed, summary_of
from tests.across.scanned import cumsum_summary
from tests.tiers import examples, thorough
from tests.transforms.trees import membranes, stored

UPPER = ((0, 1), (0, 1), (0, 1))


def keyed(slab):
    return slab.key, slab


@pytest.mark.parametrize(
    "tile, how, filters",
    [
        ((12, 14), {}, {}),
        ((8, 14), {"connectivity": 3}, {"k_largest": 4}),
        (None, {"by_value": True, "background": None}, {"memory": "1 MB"}),
        ((8, 14), {"connectivity": 2}, {"min_size": 10, "as_mask": True}),
    ],
)
def test_labels(tmp_path, tile, how, filters):
    array = (membranes((20, 24, 28)) > 140).astype("u1")
    mask = stored(tmp_path, array)
    read = bv.ReadSlabs(mask, depth=8, tile=tile, halo=UPPER)
    label = bv.LabelComponents(read, measures=("size",), **how)
    dtype = bool if "as_mask" in filters else np.uint32
    like, chunks = mask.astype(dtype), (4, 4, 14)
    with beam.Pipeline("FnApiRunner") as p:
        # Summaries may go through a shuffle.
        summaries = p | read | label | beam.Reshuffle()
        merged = summaries | bv.MergeEquivalences(label, **filters)
        labels = merged["answers"] | bv.RelabelSlabs(mask, label, dtype=dtype)
        _ = labels | bv.WriteSlabs(tmp_path / "out.zarr", like=like, chunks=chunks)
    got = np.asarray(bv.open(str(tmp_path / "out.zarr")))
    if "by_value" in how:
        np.testing.assert_array_equal(got, np.asarray(bv.label(mask, **how)))
        return
    want, n = ndi.label(array, connectivity_structure(how.get("connectivity", 1)))
    sizes = np.bincount(want.ravel())[1:]
    kept = sizes >= filters.get("min_size", 0)
    if "k_largest" in filters:
        kept = np.isin(np.arange(n), np.lexsort((np.arange(n), -sizes))[: filters["k_largest"]])
    ids = np.concatenate([[0], np.cumsum(kept) * kept])[want]
    np.testing.assert_array_equal(got, ids > 0 if "as_mask" in filters else ids)


@settings(max_examples=examples(60))
@given(
    st.tuples(*[st.integers(1, 9)] * 3),
    st.tuples(*[st.integers(1, 9)] * 3),
    st.integers(1, 3),
    st.sampled_from([(False, 0), (True, 0), (True, None)]),
    st.sampled_from(["u2", "u8", "?"]),
    st.integers(0, 99),
)
def test_steps_equal_label_for_any_slabs(shape, step, connectivity, by_value, dtype, seed):
    """What the steps do to an element, without Beam."""
    volume = bv.open(np.random.default_rng(seed).integers(0, 3, shape, "u1"))
    how = {"connectivity": connectivity, "by_value": by_value[0], "background": by_value[1]}
    want = np.asarray(bv.label(volume, **how))
    steps = bv.LabelSlabs(Grid(shape, step), dtype=dtype, **how)
    grid, survey = steps.grid, steps.components.survey
    slabs = [read_slab(i, volume, grid, UPPER) for i in range(len(grid))]
    found = run(
        steps.merge.flow, [((i,), summary_of(survey, grid, s)) for i, s in enumerate(slabs)]
    )
    relabel = Relabel("", np.dtype(dtype), survey.structure, survey.by_value, survey.background)
    got = np.empty(shape, dtype)
    for (i,), answer in found["answers"]:
        got[grid.box(i).slices] = completed(relabel, grid, slabs[i], answer).data
    np.testing.assert_array_equal(got, want.astype(dtype))


@thorough
@pytest.mark.parametrize("dtype, missing", [("u4", "keep"), ("f4", -1), ("u2", 0), ("u4", "error")])
def test_labels_by_a_mapping(tmp_path, dtype, missing):
    array = (membranes((20, 24, 28)) > 140).astype("u1")
    mask = stored(tmp_path, array)
    want, n = ndi.label(array)
    sizes = np.bincount(want.ravel())
    ids = np.cumsum(sizes > 3)[want] - 1  # of the components that are kept
    ids[sizes[want] <= 3] = 0
    n = ids.max()
    rng = np.random.default_rng(0)
    old = rng.permutation(np.arange(1, n + 1))[: n // 2]
    new = rng.permutation(n)[: n // 2] / (4 if dtype == "f4" else 1)
    # Arrays of any length, single pairs, and one pair again.
    new = new.astype("f8" if dtype == "f4" else "i8")
    pairs = [(old[:5], new[:5]), (old[5:], new[5:]), (int(old[0]), new[0].item())]
    read = bv.ReadSlabs(mask, depth=8, tile=(8, 14), halo=UPPER)
    label = bv.LabelComponents(read, measures=("size",))
    relabel = bv.RelabelSlabs(mask, label, dtype=dtype, missing=missing)

    def run():
        with beam.Pipeline("FnApiRunner") as p:
            merged = p | read | label | bv.MergeEquivalences(label, min_size=4)
            mapping = p | beam.Create(pairs)
            labels = {"answers": merged["answers"], "mapping": mapping} | relabel
            like, chunks = mask.astype(dtype), (8, 8, 14)
            _ = labels | bv.WriteSlabs(tmp_path / "out.zarr", like=like, chunks=chunks)

    if missing == "error":
        with pytest.raises(Exception, match="the mapping has no value for label"):
            run()
        return
    run()
    table = np.arange(n + 1) if missing == "keep" else np.full(n + 1, missing)
    table = table.astype(dtype)
    table[old], table[0] = new, 0
    np.testing.assert_array_equal(np.asarray(bv.open(str(tmp_path / "out.zarr"))), table[ids])


def test_numbers_and_what_is_too_much(tmp_path):
    mask = stored(tmp_path, membranes((20, 24, 28)) > 140)
    label = bv.LabelComponents(bv.ReadSlabs(mask, depth=4, halo=UPPER))
    with beam.Pipeline("FnApiRunner") as p:
        merged = p | bv.ReadSlabs(mask, depth=4, halo=UPPER) | label | bv.MergeEquivalences(label)
        count = ndi.label(np.asarray(mask))[1]
        assert_that(merged["numbers"], equal_to([((), {"count": count})]))
    with (
        pytest.raises(
            Exception, match=r"merging the slabs combines.*: use slabs with depth=\d+ and tile=\(\d"
        ) as error,
        beam.Pipeline("FnApiRunner") as p,
    ):
        read = bv.ReadSlabs(mask, depth=4, halo=UPPER)
        _ = p | read | label | bv.MergeEquivalences(label, memory="4 KB")
    assert "slab=" not in str(error.value)


@pytest.mark.parametrize("backward", [False, True])
def test_running_sums(backward):
    array = membranes((20, 9, 10)).astype("i4")
    grid = Grid(array.shape, (3, 5, 10))
    boxes = {SlabKey(*b.start): b for b in grid}
    slabs = [(key, cumsum_summary(array[b.slices])) for key, b in boxes.items()]
    want = np.cumsum(array[::-1], 0)[::-1] if backward else np.cumsum(array, 0)

    def check(carries):
        assert sorted(key for key, _ in carries) == list(boxes)
        for key, carry in carries:
            box = boxes[key]
            z = box.stop[0] if backward else box.start[0] - 1
            if not 0 <= z < 20:
                assert carry is None
            else:
                np.testing.assert_array_equal(carry, want[(z, *box.slices[1:])])

    with beam.Pipeline("FnApiRunner") as p:
        scan = bv.SlabScan(grid, scans.cumsum_combine, backward=backward, radix=3)
        assert_that(p | beam.Create(slabs) | scan, check)


def test_summaries_are_always_the_same_bytes():
    coder = beam.coders.registry.get_coder(SlabSummary)
    assert isinstance(coder, SummaryCoder) and coder.is_deterministic()
    mask = bv.open(membranes((6, 7, 8)) > 128)
    grid = Grid((6, 7, 8), (3, 4, 8))
    survey = bv.LabelComponents(grid, measures=("size",)).survey
    _, summary = _summarise(keyed(read_slab(1, mask, grid, UPPER)), grid, survey)
    data = coder.encode(summary)
    back = coder.decode(data)
    assert coder.encode(back) == data and back.cell == (0, 1, 0)


def test_refusals():
    mask = bv.open(membranes((6, 7, 8)) > 128)
    grid = Grid((6, 7, 8), (3, 7, 8))
    label = bv.LabelComponents(grid)
    survey, how = label.survey, (connectivity_structure(1), False, 0)
    relabel, wide = (Relabel("RelabelSlabs", np.dtype(t), *how) for t in ("u4", "u8"))
    bare, other = (keyed(read_slab(0, mask, grid, h)) for h in (((0, 0),) * 3, UPPER))
    with pytest.raises(ValueError, match=r"slab \(0, 0, 0\).*\[0:4, 0:7, 0:8\].*halo="):
        _summarise(bare, grid, survey)
    with pytest.raises(ValueError, match="on the same grid"):
        _summarise(other, Grid((6, 7, 8), (2, 7, 8)), survey)
    with pytest.raises(
        ValueError, match=r"from a volume of shape \(6, 7, 8\), .* shape \(7, 7, 8\)"
    ):
        _summarise(other, Grid((7, 7, 8), (3, 7, 8)), survey)
    key, summary = _summarise(other, grid, survey)
    ids = np.arange(len(summary.windows[0]), dtype="u4")
    answer = list(pieces(((ids,), (summary.digests[0] + 1,))))
    with pytest.raises(ValueError, match=r"slab \(0, 0, 0\): the labelled voxels differ"):
        _relabel((key, {"answers": answer}), mask, relabel, grid)
    with pytest.raises(ValueError, match="the same dtype="):
        _relabel((key, {"answers": answer}), mask, wide, grid)
    with pytest.raises(ValueError, match=r"\(0, 0, 0\) was not labelled before"):
        _relabel((key, {"answers": [], "slabs": [other[1]]}), None, relabel, grid)
    with pytest.raises(TypeError, match=r"pairs \(SlabKey, Slab\), not a Slab"):
        _summarise(other[1], grid, survey)
    with pytest.raises(ValueError, match=r"\(0, 0, 0\) has the key \(3, 0, 0\)"):
        _summarise((SlabKey(3, 0, 0), other[1]), grid, survey)
    with pytest.raises(ValueError, match=r"measures=\('size',\)"):
        bv.MergeEquivalences(label, k_largest=3)
    for step in (bv.MergeEquivalences, bv.LabelSlabs):
        for wrong in ({"min_size": -1}, {"max_size": 2.5}, {"k_largest": 0}):
            ((what, size),) = wrong.items()
            message = rf"{step.__name__}: {what}={size} is not a whole number of at least \d"
            with pytest.raises(ValueError, match=message):
                step(grid, **wrong)
        with pytest.raises(ValueError, match="min_size=3 is larger than max_size=2"):
            step(grid, min_size=3, max_size=2)
    with pytest.raises(TypeError, match="has no grid"):
        bv.LabelComponents(mask)
    with pytest.raises(ValueError, match="is not one of"):
        bv.LabelComponents(grid, measures=("volume",))
    for background in ("x", [1]):
        with pytest.raises(TypeError, match="is not a number or None"):
            bv.LabelSlabs(grid, by_value=True, background=background)
    with pytest.raises(ValueError, match="but the labelled shape is"):
        bv.RelabelSlabs(mask[:5], label)
    with pytest.raises(ValueError, match="missing='lost'"):
        bv.RelabelSlabs(mask, label, missing="lost")


@thorough
def test_a_summary_that_is_too_large():
    """Random voxels at a low density: 3.3 million components that hardly compress."""
    rng = np.random.default_rng(0)
    voxels = rng.random((16, 2048, 2048)) < 0.06
    slab = Slab(Box((0, 0, 0), (16, 2048, 2048)), ((0, 0),) * 3, voxels, (16, 2048, 2048))
    grid = Grid(slab.shape, slab.shape)
    survey = bv.LabelComponents(grid, measures=("size", "box")).survey
    with pytest.raises(
        ValueError, match=r"components takes .*use ReadSlabs\(..., depth=\d+\)"
    ) as e:
        _summarise(keyed(slab), grid, survey)
    depth = int(str(e.value).split("depth=")[1][:-1])
    core = Box((0, 0, 0), (depth, 2048, 2048))
    less = replace(slab, core=core, data=voxels[:depth], shape=core.stop)
    _, summary = _summarise(keyed(less), Grid(core.stop, core.stop), survey)
    assert len(SummaryCoder().encode(summary)) < 8 << 20
