"""Plans as steps: the graph in plain Python with duplicates and shuffles, and inside pipelines."""

import random
from itertools import pairwise
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, fn_runner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.graph.nodes import evaluate
from beam_volumes.session import merging, slabs
from beam_volumes.session.begin import begin
from beam_volumes.session.local import run_local
from beam_volumes.transforms.passes import MergeStates, slab_ranges
from tests.tiers import thorough
from tests.transforms.trees import chunk_files, membranes, stored
from tests.waiting import wait_until


def shuffled_run(session, rng):
    """What a runner may do to a session: any order, attempts twice, any tree of merges."""
    session.prepare()
    session.prepare()
    known = {}
    for k, p in enumerate(session.plan.passes):
        order = [i for a, b in slab_ranges(len(p.grid)) for i in range(a, b)]
        rng.shuffle(order)
        for i in rng.sample(order, len(order) // 2):
            slabs.sweep_slab(session, k, i, known)  # an attempt whose bundle failed later
        emitted = [slabs.sweep_slab(session, k, i, known).states for i in order]
        reductions = merging.reductions_of(session.plan, k)
        merge = MergeStates(reductions)
        keyed = {}
        for token, state in (item for states in emitted for item in states.items()):
            for part, piece in reductions[token].pieces(state):
                groups = keyed.setdefault((token, part), [merge.create_accumulator()] * 3)
                at = rng.randrange(3)
                groups[at] = merge.add_input(groups[at], (token, part, piece))
        pieces = []
        for groups in keyed.values():
            rng.shuffle(groups)
            groups = [merge.merge_accumulators(groups[:2]), groups[2]]
            pieces.append(merge.extract_output(merge.merge_accumulators(groups)))
        rng.shuffle(pieces)
        merged = merging.merge(session.plan, k, [merging.put_together(reductions, pieces)])
        known = merging.finish_pass(session, k, merged, known)
    return known


@thorough
@settings(max_examples=6)
@given(
    seed=st.integers(0, 99),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    slab=st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9)),
    dtype=st.sampled_from(["u1", "i4", "f4"]),
)
def test_any_order_and_attempts_give_the_same_numbers(seed, shape, slab, dtype):
    array = np.random.default_rng(seed).normal(0, 40, shape).astype(dtype)
    v = bv.open(array)
    smooth = bv.gaussian_filter(v, 1)
    targets = [bv.mean(smooth), bv.std(v), bv.percentile(smooth, 30), bv.sum(smooth > bv.mean(v))]
    targets += [bv.max(v, 0), bv.percentile(smooth, [5, 95]), bv.joint_histogram(v, smooth, 70)[0]]
    numbers = []
    for run in (run_local, lambda s: shuffled_run(s, random.Random(seed))):
        for cut in (slab, None):
            session = begin(bv.plan(*targets, slab=cut, workers=1))
            known = run(session)
            numbers.append([evaluate(t.value, known) for t in targets])
    for other in numbers[1:]:
        for a, b in zip(numbers[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_ranges_are_few_and_complete():
    assert slab_ranges(0) == []
    assert slab_ranges(1) == [(0, 1)]
    many = slab_ranges(123_456_789)
    assert len(many) <= 1000
    assert (many[0][0], many[-1][1]) == (0, 123_456_789)
    assert all(a[1] == b[0] for a, b in pairwise(many))


def test_what_one_slab_alone_finds_comes_out_of_its_sweep(tmp_path):
    """A merge of one round has no step of its own: its numbers leave the sweep as they are."""
    array = membranes()
    cells = bv.label(stored(tmp_path, array) > 140)
    written = cells.to(tmp_path / "cells.zarr")
    with beam.Pipeline("FnApiRunner") as p:
        done = p | bv.Compute(written, cells.num_labels, slab=array.shape)
        (name,) = set(done) - {written.sink.name}
        expected, n = ndi.label(array > 140)
        assert_that(done[name], equal_to([n]))
    np.testing.assert_array_equal(bv.open(written.sink.name), expected)


def test_inside_a_pipeline_of_somebody_else(tmp_path):
    array = membranes()
    v = stored(tmp_path, array, chunks=(5, 12, 14))
    smooth = bv.gaussian_filter(v, 1)
    how = {"chunks": (4, 12, 14)}
    mask = (smooth < bv.threshold_otsu(smooth)).to(tmp_path / "mask.zarr", **how)
    reference = (smooth < bv.threshold_otsu(smooth)).to(tmp_path / "reference.zarr", **how)
    mean = bv.compute(reference, bv.mean(v), runner=None)[1]

    with beam.Pipeline("FnApiRunner") as p:
        done = p | bv.Compute(mask, bv.mean(v), bv.mean(smooth), memory="2GiB", slab=(8, 12, 28))
        assert set(done) == {mask.sink.name, "mean", "mean-2"}
        # The output is there, whole, when its name is.
        voxels = done[mask.sink.name] | beam.Map(lambda path: int(np.asarray(bv.open(path)).sum()))
        assert_that(voxels, equal_to([int(np.asarray(bv.open(reference.sink.name)).sum())]))
        assert_that(done["mean"], equal_to([mean]), "mean")
        median = bv.median_filter(v, 3).to(tmp_path / "median.zarr")
        again = p | "Another" >> bv.Compute(median, journal=tmp_path / "book")
        assert_that(again[median.sink.name], equal_to([median.sink.name]), "name")
    counters = {
        c.key.metric.name: c.committed
        for c in p.result.metrics().query(MetricsFilter().with_namespace("beam_volumes"))[
            "counters"
        ]
        if "Another" in c.key.step
    }
    assert chunk_files(tmp_path / "mask.zarr") == chunk_files(tmp_path / "reference.zarr")
    np.testing.assert_array_equal(np.asarray(bv.open(median.sink.name)), bv.median_filter(v, 3))
    chunks = 4 * 2 * 2 * (5 * 12 * 14)
    assert counters == {
        "slabs": 1,
        "retries": 0,
        "voxels": array.size,
        "bytes_read": chunks,
        "bytes_written": array.size,
    }
    assert (tmp_path / "book" / "manifest.json").exists()


@pytest.mark.filterwarnings("error::beam_volumes.UnfinishedWarning")
def test_an_output_is_finished_when_its_path_arrives(tmp_path):
    """Also a pyramid, and a table, and if a later pass writes something else."""
    v = stored(tmp_path, membranes(), chunks=(5, 12, 14))
    cells = bv.label(v > bv.threshold_otsu(v))
    with beam.Pipeline("FnApiRunner") as p:
        done = p | bv.Compute(
            first=(v + 1).to(tmp_path / "first.ome.zarr", levels=2),
            later=cells.to(tmp_path / "later.zarr"),
            table=bv.regionprops_table(cells).to(tmp_path / "table.parquet"),
        )
        slabs = done["first"] | bv.ReadAll(depth=20) | beam.MapTuple(lambda _, s: s.data.sum())
        assert_that(slabs, equal_to([int(np.asarray(v + 1).sum())]))
        found = done["later"] | "Open" >> beam.Map(lambda path: int(bv.open(path).max()))
        assert_that(found, equal_to([int(cells.num_labels)]), "labels")
        unfinished = done["table"] | "State" >> beam.Map(
            lambda path: any(
                b'"unfinished"' in f.read_bytes() for f in Path(path).rglob("*") if f.is_file()
            )
        )
        assert_that(unfinished, equal_to([False]), "table")


def test_functions_of_ones_own_and_numbers_of_slices(tmp_path):
    """A closure goes to the workers; searches for percentiles go from sweep to sweep."""
    v = stored(tmp_path, membranes().astype("u2"), chunks=(5, 12, 14))
    factor = 0.75

    def contrast(values):
        return values.max() - factor * values.min()

    sharp = bv.generic_filter(v, contrast, (1, 3, 3), dtype="u2")
    wanted = {
        "moments": bv.normalize_slices(sharp),
        "percentiles": bv.normalize_slices(sharp, "y", percentiles=(2, 98), out_range=(0, 1)),
    }
    targets = [w.to(tmp_path / f"{name}.zarr", chunks=(7, 12, 28)) for name, w in wanted.items()]
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | bv.Compute(*targets, slab=(7, 12, 28))
    for target, w in zip(targets, wanted.values(), strict=True):
        np.testing.assert_array_equal(np.asarray(bv.open(target.sink.name)), np.asarray(w))


def test_the_same_run_repeated_sweeps_nothing_again(tmp_path):
    v = stored(tmp_path, membranes(), chunks=(5, 12, 14))
    target = (v + 1).to(tmp_path / "out.zarr", chunks=(4, 24, 28))
    p = beam.Pipeline("FnApiRunner")
    done = p | bv.Compute(target, bv.max(v), slab=(4, 24, 28), run_id="monday")
    assert_that(done["max"], equal_to([bv.compute(bv.max(v), runner=None)]))
    for _ in range(2):
        p.run().wait_until_finish()
    with pytest.raises(ValueError, match="exists"):
        bv.Compute(target)
    resumed = bv.Compute(target, bv.max(v), resume=True)
    assert resumed.session.run_id == "monday"
    assert resumed.session.journal.attempts_of(0) == dict.fromkeys(range(5), 1)
    with pytest.raises(ValueError, match="monday"):
        bv.Compute(target, bv.max(v), resume=True, run_id="tuesday")


def test_an_empty_volume(tmp_path):
    v = bv.open(np.zeros((0, 4, 5), "u2"))
    target = (v + 1).to(tmp_path / "out.zarr")
    with beam.Pipeline("FnApiRunner") as p:
        done = p | bv.Compute(target, bv.sum(v), bv.histogram(v, bins=3, range=(0, 3))[0])
        assert_that(done["sum"], equal_to([0]), "sum")
        assert_that(done["histogram"] | beam.Map(list), equal_to([[0, 0, 0]]), "histogram")
        assert_that(done[target.sink.name], equal_to([target.sink.name]), "name")
    assert bv.open(target.sink.name).shape == (0, 4, 5)


def test_what_is_stored_between_passes_goes_in_the_end(tmp_path):
    v = stored(tmp_path, membranes())
    once = bv.map_overlap(
        lambda block: block + np.float32(0.25), v, dtype="f4", deterministic=False
    )
    target = (once - bv.mean(once)).to(tmp_path / "out.zarr", chunks=(7, 24, 28))
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | (step := bv.Compute(target, slab=(7, 24, 28), journal=tmp_path / "book"))
    assert step.session.plan.intermediates
    array = np.asarray(v) + np.float32(0.25)
    np.testing.assert_array_equal(np.asarray(bv.open(target.sink.name)), array - array.mean())
    assert not list(tmp_path.rglob("intermediate"))


def test_what_cannot_work_is_refused_when_it_is_constructed(tmp_path):
    big = bv.open(np.zeros((5, 512, 512), "u1"))
    with pytest.raises(TypeError, match=r"\.to\(path\)"):
        bv.Compute(big)
    with pytest.raises(ValueError, match="is in the memory of this process"):
        bv.Compute((big + 1).to(tmp_path / "x.zarr"))
    small = bv.open(np.zeros((5, 5, 5), "u1"))
    with pytest.raises(ValueError, match="memory"):
        bv.Compute(small.to("memory://x.zarr"))
    with pytest.raises(ValueError, match="smallest"):
        bv.Compute(small.to(tmp_path / "x.zarr"), memory="1MiB")


def test_rows_of_a_table_as_elements(tmp_path):
    """A table without a place is a PCollection of rows; nothing is written for it."""
    labels = (np.arange(4 * 6 * 8, dtype="u4").reshape(4, 6, 8) // 5).astype("u4")
    bv.compute(bv.open(labels).to(tmp_path / "labels.zarr"), runner=None)
    table = bv.regionprops_table(bv.open(tmp_path / "labels.zarr"), properties=["num_pixels"])
    values, counts = np.unique(labels[labels > 0], return_counts=True)
    want = list(zip(values.tolist(), counts.tolist(), strict=True))
    with beam.Pipeline("FnApiRunner") as p:
        rows = (p | bv.Compute(table, slab=(2, 6, 8)))["regionprops_table"]
        assert_that(rows | beam.Map(lambda row: (row.label, row.num_pixels)), equal_to(want))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["labels.zarr", "labels.zarr.run"]


def test_many_slabs_are_spread_some_together(tmp_path, monkeypatch):
    monkeypatch.setattr("beam_volumes.transforms.passes._SPREAD", 3)
    volume = stored(tmp_path, membranes((11, 6, 5)))
    target = (volume + 1).to(tmp_path / "out.zarr", chunks=(1, 6, 5))
    transform = bv.Compute(target, slab=(1, 6, 5))
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | transform
    journal = transform.session.journal
    assert journal.attempts_of(0) == dict.fromkeys(range(11), 1)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "out.zarr")), np.asarray(volume + 1))


def test_a_runner_splits_a_range_of_slabs_while_it_is_swept(tmp_path, monkeypatch):
    """What is left of a range is swept elsewhere: every slab once."""
    monkeypatch.setattr("beam_volumes.transforms.passes._SPREAD", 1)
    volume = stored(tmp_path, membranes((12, 6, 5)))

    begun, split = tmp_path / "begun", tmp_path / "split"

    def held(block):
        begun.touch()
        wait_until(split.exists, "the split")
        return block + 1

    more = bv.map_overlap(held, volume, dtype=volume.dtype, name="held", version=1)
    transform = bv.Compute(more.to(tmp_path / "out.zarr", chunks=(1, 6, 5)), slab=(1, 6, 5))
    residuals = []

    def splitting(elements):
        yield  # the bundle begins
        if not split.exists():
            wait_until(begun.exists, "the first slab")
            done = yield 0.5
            residuals.extend(done.residual_roots)
            split.touch()

    runner = FnApiRunner(default_environment=EmbeddedPythonGrpcEnvironment.default())
    with fn_runner.split_manager("Compute/Pass 1/Slabs", splitting), beam.Pipeline(runner) as p:
        _ = p | transform
    assert residuals
    assert transform.session.journal.attempts_of(0) == dict.fromkeys(range(12), 1)
    assert np.array_equal(np.asarray(bv.open(tmp_path / "out.zarr")), np.asarray(volume) + 1)
