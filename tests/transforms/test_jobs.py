"""A run as several jobs one after the other, as Flink needs it."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

import beam_volumes as bv
from beam_volumes.across.rounds import agglomeration
from beam_volumes.drive import flink, pipelines
from beam_volumes.drive.pipelines import run_pipeline
from beam_volumes.session.begin import begin
from tests.ops.test_segmentation import chain, likely
from tests.tiers import thorough
from tests.transforms.trees import stored


def test_a_run_in_several_jobs(tmp_path, monkeypatch):
    """As where one job would be too much for its runner: later ones go on from the journal alone."""
    em = np.random.default_rng(0).integers(0, 256, (6, 10, 12), np.uint8)
    v = stored(tmp_path, em)
    labels = bv.label(v > bv.mean(v))
    table = bv.regionprops_table(labels, v, ["label", "area", "intensity_mean"])
    paths = tmp_path / "labels.zarr", tmp_path / "table.parquet"
    targets = labels.to(paths[0], chunks=(2, 10, 12)), table.to(paths[1])
    begun = []

    def one_by_one(passes, pipeline_of):
        for k in range(passes):
            begun.append(k)
            yield pipeline_of(range(k, k + 1))

    monkeypatch.setattr(pipelines, "is_flink", lambda runner: True)
    monkeypatch.setattr(pipelines, "jobs", one_by_one)
    planned = bv.plan(*targets, slab=(2, 10, 12), workers=1)
    session = begin(planned)
    run_pipeline(session, FnApiRunner(), PipelineOptions([]))
    assert begun == list(range(len(planned.passes))) and len(begun) > 2
    for k, p in enumerate(planned.passes):
        assert session.journal.attempts_of(k) == dict.fromkeys(range(len(p.grid)), 1)
    expected = bv.compute(labels, table, runner=None)
    np.testing.assert_array_equal(bv.open(paths[0]), expected[0])
    assert expected[1].equals(pq.read_table(paths[1]))


def test_jobs_have_as_many_passes_as_an_optimizer_follows(monkeypatch):
    """Ways through passes multiply."""
    monkeypatch.setattr(flink, "count_paths", lambda some: 1000 ** len(some))
    monkeypatch.setattr(flink, "_MAX_PATHS", 10**6)
    assert [(s.start, s.stop) for s in flink.jobs(5, lambda some: some)] == [(0, 2), (2, 4), (4, 5)]
    assert [len(s) for s in flink.jobs(0, lambda some: some)] == [0]
    monkeypatch.setattr(flink, "_MAX_PATHS", 10)
    assert [len(s) for s in flink.jobs(2, lambda some: some)] == [1, 1]  # a pass may have more
    monkeypatch.setattr(flink, "_MAX_PATHS_OF_PASS", 100)
    with pytest.raises(ValueError, match=r"the job of pass 1: .* 1.0e\+03 paths"):
        next(flink.jobs(5, lambda some: some))
    # Known before the jobs of earlier passes.
    monkeypatch.setattr(flink, "count_paths", lambda some: 1000 if 3 in some else 1)
    with pytest.raises(ValueError, match="the job of pass 4"):
        next(flink.jobs(5, lambda some: some))


@thorough
@pytest.mark.parametrize("spare", [agglomeration._SPARE, 1 << 40])
def test_a_run_from_affinities_to_segments_can_be_divided(tmp_path, monkeypatch, spare):
    """Each of its passes has few enough paths, also with the trees of a large volume."""
    monkeypatch.setattr(agglomeration, "_SPARE", spare)
    of = bv.compute(bv.open(likely((8, 24, 28))).to(tmp_path / "in.zarr"), runner=None)
    merges, segments = chain(of)
    planned = bv.plan(
        merges.to(tmp_path / "merges.parquet"),
        segments.to(tmp_path / "segments.zarr", chunks=(2, 24, 28)),
        slab=(2, 24, 28),
        workers=2,
    )
    sent = []
    monkeypatch.setattr(pipelines, "is_flink", lambda runner: True)
    monkeypatch.setattr(pipelines, "run_to_end", lambda pipeline, *rest: sent.append(pipeline))
    run_pipeline(begin(planned), FnApiRunner(), PipelineOptions([]))
    assert 1 < len(sent) <= len(planned.passes)
