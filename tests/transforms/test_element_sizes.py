"""No element of a pipeline is larger than 8 MB, on a runner that fuses no two steps."""

import pickle
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, translations
from apache_beam.runners.worker import data_plane

import beam_volumes as bv
from beam_volumes.across.adjacency import adjacency
from beam_volumes.across.rounds import flow as rounds
from beam_volumes.across.rounds.tables import RegionRows, table_flow
from beam_volumes.across.tables import regions
from beam_volumes.base.geometry import Grid
from beam_volumes.drive.local_pipeline import numbers
from beam_volumes.drive.pipelines import run_pipeline
from beam_volumes.graph.nodes import evaluate
from beam_volumes.ops.labels.surveys.table_surveys import MAX_BINS, AdjacencySurvey
from beam_volumes.session.begin import begin
from beam_volumes.session.merging import InJournal, by_name
from beam_volumes.transforms.passes import row_batches
from beam_volumes.transforms.rounds import pieces
from beam_volumes.transforms.steps.slabs import apply_stages, read_slab
from tests.tiers import thorough
from tests.transforms.trees import stored

MAXIMUM = 8 << 20


@pytest.fixture
def sizes(monkeypatch):
    """Bytes of every element that a step sends to another: here all of them are encoded."""
    found = []
    stream = data_plane.SizeBasedBufferingClosableOutputStream
    flush = stream.maybe_flush
    sent = {}

    def measured(self):
        found.append(self.size() - sent.get(id(self), 0))
        flush(self)
        sent[id(self)] = self.size()

    monkeypatch.setattr(stream, "maybe_flush", measured)
    monkeypatch.setattr(translations.Stage, "can_fuse", lambda *_: False)
    return found


def many_labels(shape=(16, 128, 128)):
    """Every fourth voxel begins another label: a shard of a table is full."""
    count = np.arange(np.prod(shape)) // 4 + 1
    return count.reshape(shape).astype("u4")


def note(rows, path):
    with open(path, "a") as file:
        file.write(f"{len(rows)}\n")


@thorough
def test_rows_of_a_shard_are_no_element(tmp_path, sizes):
    labels = many_labels()
    em = np.random.default_rng(0).integers(0, 255, labels.shape, np.uint8)
    volumes = stored(tmp_path, labels, "labels.zarr"), stored(tmp_path, em, "em.zarr")
    table = bv.regionprops_table(*volumes)
    with beam.Pipeline(FnApiRunner()) as p:
        compute = bv.Compute(table.to(tmp_path / "table.parquet"), table, slab=(4, 128, 128))
        rows = (p | compute)[table.barrier.name]
        _ = rows | beam.BatchElements(1000, 5000) | beam.Map(note, tmp_path / "counts")
    assert sum(map(int, (tmp_path / "counts").read_text().split())) == labels.max()
    written = pq.read_table(tmp_path / "table.parquet")
    assert np.array_equal(written["label"], np.arange(1, labels.max() + 1))
    assert bv.compute(table, runner=None, progress=False).equals(written)
    assert sum(c.nbytes for c in written.columns) > MAXIMUM
    assert max(sizes) < MAXIMUM and len(sizes) > 20


@thorough
def test_the_steps_of_ones_own_pipeline_send_no_large_rows(tmp_path, sizes):
    labels = many_labels()
    read = bv.ReadSlabs(stored(tmp_path, labels, "labels.zarr"), depth=8, halo=[(0, 1)] * 3)
    with beam.Pipeline(FnApiRunner()) as p:
        rows = p | read | bv.RegionTable(read)
        _ = rows | beam.BatchElements(1000, 5000) | beam.Map(note, tmp_path / "counts")
    assert sum(map(int, (tmp_path / "counts").read_text().split())) == labels.max()
    assert max(sizes) < MAXIMUM


@thorough
def test_large_numbers_stay_in_the_journal(tmp_path, sizes):
    em = np.random.default_rng(1).integers(0, 255, (2, 1100, 1200), np.uint8)
    v = stored(tmp_path, em, "em.zarr")
    joint = bv.joint_histogram(v, v + 1, 1200)
    targets = [bv.mean(v, 0), joint[0], bv.percentile(v * 3.5, list(range(0, 101, 10)))]
    bright = (v > bv.mean(v) + joint[0][0, 0]).to(tmp_path / "bright.zarr", chunks=(1, 1100, 600))
    planned = bv.plan(*targets, bright, slab=(1, 1100, 1200), workers=1)
    session = begin(planned)
    run_pipeline(session, FnApiRunner(), PipelineOptions([]))
    assert max(sizes) < MAXIMUM
    known = numbers(session.plan, session.journal)
    want = bv.compute(*targets, runner=None, progress=False)
    for result, array in zip(planned.results, want, strict=False):
        np.testing.assert_array_equal(evaluate(result, known), array)
    assert want[0].nbytes > MAXIMUM and want[1].nbytes > MAXIMUM
    threshold = em.mean() + want[1][0, 0]
    np.testing.assert_array_equal(bv.open(tmp_path / "bright.zarr"), em > threshold)


def test_a_runner_that_keeps_all_elements_gets_the_names_of_files(tmp_path, sizes):
    mask = np.random.default_rng(2).random((12, 200, 200)) > 0.3
    v = stored(tmp_path, mask, "mask.zarr")
    messages = tmp_path / "messages"
    messages.mkdir()

    def run(name, **changes):
        distance = bv.distance_transform_edt(v).to(tmp_path / name, chunks=(2, 200, 200))
        planned = bv.plan(distance, slab=(2, 200, 200), workers=1)
        sizes.clear()
        session = replace(begin(planned), **changes)
        run_pipeline(session, FnApiRunner(), PipelineOptions([]))
        session.end()
        return max(sizes)

    assert run("elements.zarr") > 10_000 > 4500 > run("files.zarr", messages=str(messages))
    assert min(file.stat().st_size for file in messages.iterdir()) >= 4096
    assert np.array_equal(bv.open(tmp_path / "elements.zarr"), bv.open(tmp_path / "files.zarr"))
    assert np.array_equal(bv.open(tmp_path / "files.zarr"), bv.distance_transform_edt(mask))


def test_numbers_by_name_never_displace_those_known_before():
    before = {"a": np.zeros(120_000), "b": 1}
    found = {"c": np.zeros(2000), "d": np.zeros(12_000), "e": np.zeros(200_000), "f": 2}
    light = by_name(before, before | found, 3)
    assert light["e"] == light["d"] == InJournal(3)
    assert light["a"] is before["a"] and light["c"] is found["c"] and light["f"] == 2
    assert by_name(light, light | {"g": 7}, 4) == light | {"g": 7}


def test_numbers_that_are_no_elements_are_refused_before_anything_runs(tmp_path):
    v = stored(tmp_path, np.zeros((2, 1100, 1200), np.uint8), "em.zarr")
    with pytest.raises(ValueError, match=r"mean is an array of \(1100, 1200\) float64, 10\.1 MiB"):
        bv.Compute(bv.mean(v, 0))
    with pytest.raises(ValueError, match=r"10\.1 MiB together.*journal="):
        bv.Compute(bv.mean(v, 0)[0, 0])
    bv.Compute(bv.mean(v, 0)[0, 0], journal=tmp_path / "journal")


def test_states_of_a_scan_that_are_no_elements_are_refused():
    with pytest.raises(ValueError, match="smaller tile="):
        bv.SlabScan(Grid((4, 2000, 2000), (1, 2000, 2000)), np.add)


def test_slabs_that_stages_make_too_large_are_refused(tmp_path):
    v = stored(tmp_path, np.zeros((8, 512, 1024), np.uint8), "em.zarr")
    read = bv.ReadSlabs(v, depth=8)
    slab = read_slab(0, v, read.grid, read.halo)
    with pytest.raises(ValueError, match=r"32.0 MiB of float64.*depth=2"):
        apply_stages(slab, lambda v: v.astype("f8"))


@pytest.mark.parametrize("slabs", [1, 5])
def test_every_message_of_a_table(slabs):
    """The flow without Beam sends pieces and batches, for any slabs."""
    labels = many_labels((10, 128, 128))
    em = np.random.default_rng(0).random(labels.shape)
    depth = 10 // slabs
    given = []
    for k in range(slabs):
        z = slice(k * depth, (k + 1) * depth)
        given.append(((k,), regions(labels[z], (z.start, 0, 0), labels.shape, em[z])))
    flow = table_flow(RegionRows(labels.shape, intensity=np.dtype("f8")), slabs)

    class Small(rounds.Box):
        def put(self, key, value):
            assert all(len(piece) < MAXIMUM for piece in pieces(value))
            super().put(key, value)

    shards = rounds.run(flow, given, make=Small)["rows"]
    for _, columns in shards:
        for batch in row_batches(columns):
            assert sum(column.nbytes for column in batch.values()) <= 4 << 20


def test_rows_of_the_widest_table():
    """Each column of a batch takes more than its numbers; of more columns a single row is no element."""
    table = AdjacencySurvey.of("u1", "f4", bins=MAX_BINS, range=(0, 1)).table((1, 1, 200))
    part = adjacency(np.arange(1, 201).reshape(1, 1, 200), edges=np.linspace(0, 1, MAX_BINS + 1))
    for batch in row_batches(table.columns(part)):
        assert len(pickle.dumps(((0,), batch), protocol=5)) < MAXIMUM
    with pytest.raises(ValueError, match=r"bins=10001 is not a number from 0 to 10,000"):
        AdjacencySurvey.of("u1", "f4", bins=MAX_BINS + 1, range=(0, 1))
