"""Where a run keeps its own files, and the report of its end, on runners with remote workers."""

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner
from apache_beam.testing.util import assert_that, equal_to

import beam_volumes as bv
from beam_volumes.cli.messages import report
from beam_volumes.runs import Journal
from beam_volumes.session import slabs
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.ownership import OutputExistsError
from tests.tiers import few
from tests.transforms.trees import chunk_files, membranes, stored


class FarRunner(FnApiRunner):
    """A runner with workers at unknown places."""


def kept(volume):
    """Voxels that are stored for a later pass."""
    return bv.map_overlap(
        lambda block: block + np.float32(0.25), volume, dtype="f4", deterministic=False
    )


@pytest.mark.parametrize("wanted", ["an array", "a number", "rows"])
@pytest.mark.parametrize("runner", ["FlinkRunner", "PrismRunner", FarRunner])
def test_scratch_is_not_kept_where_workers_elsewhere_have_another(tmp_path, wanted, runner):
    """It is refused before anything starts, unless there is a place that all share."""
    v = stored(tmp_path, membranes())
    once = kept(v)
    mean, table = bv.mean(once), bv.regionprops_table(v, properties=["num_pixels"])
    target = {"an array": v + 1, "a number": mean, "rows": table}[wanted]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"may be on different machines.*\.to\(path\).*journal="):
        bv.compute(target, runner=runner, progress=False)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("place", ["journal", "temp_location", "an output"])
def test_scratch_goes_where_all_share_a_place(tmp_path, place, monkeypatch):
    made, create = set(), Sink.create

    def noted(sink, *args, **how):
        made.add(sink.name)
        create(sink, *args, **how)

    monkeypatch.setattr(Sink, "create", noted)
    array = membranes()
    v = stored(tmp_path, array, chunks=(5, 24, 28))
    once = kept(v)
    (tmp_path / "shared").mkdir()
    how = {"journal": tmp_path / "shared" / "book"} if place == "journal" else {}
    how |= {"options": [f"--temp_location={tmp_path}/shared"]} if place == "temp_location" else {}
    outputs = (
        [(v + 1).to(tmp_path / "shared" / "out.zarr", chunks=5)] if place == "an output" else []
    )
    *_, back, mean = bv.compute(
        *outputs, once, bv.mean(once), runner=FarRunner(), progress=False, slab=(5, 24, 28), **how
    )
    np.testing.assert_array_equal(back, array + np.float32(0.25))
    assert mean == np.float32(np.mean(array + 0.25))
    assert len(made) > 1 and all(
        name.startswith(f"{tmp_path}/") for name in made - {v.node.source.name}
    )
    assert not list(tmp_path.rglob("*intermediate*"))
    if place == "temp_location":
        assert not list((tmp_path / "shared").iterdir())


def test_a_transform_keeps_scratch_where_it_is_told_to(tmp_path):
    v = stored(tmp_path, membranes())
    mean = bv.mean(kept(v))
    with pytest.raises(ValueError, match=r"may be on different machines.*journal="):
        bv.Compute(mean)
    with beam.Pipeline("FnApiRunner") as p:
        done = p | bv.Compute(mean, journal=tmp_path / "book")
        assert_that(done["mean"], equal_to([np.float32(np.mean(np.asarray(v) + 0.25))]))
    assert not list(tmp_path.rglob("intermediate"))


@pytest.mark.parametrize("how", few(["beside the output", "journal"], ["journal"]))
def test_a_transform_says_that_its_run_has_ended(tmp_path, how):
    """So `verify` does not miss results between passes, and it is resumed as any run is."""
    v = stored(tmp_path, membranes())
    once = kept(v)
    target = (once - bv.mean(once)).to(tmp_path / "out.zarr", chunks=(7, 24, 28))
    table = bv.regionprops_table(v, properties=["num_pixels"]).to(tmp_path / "t.csv")
    place = {"journal": tmp_path / "book"} if how == "journal" else {}
    run = tmp_path / ("book" if how == "journal" else "out.zarr.run")

    def ran(**more):
        with beam.Pipeline("FnApiRunner") as p:
            done = p | bv.Compute(target, table, bv.mean(v), slab=(7, 24, 28), **place, **more)
            assert_that(done["mean"], equal_to([np.mean(np.asarray(v))]))
            assert_that(done[target.sink.name], equal_to([target.sink.name]), "name")

    ran()
    assert bv.verify(run, checksums=True) == []
    journal, files = Journal.open(run), chunk_files(tmp_path / "out.zarr")
    attempts = [journal.attempts_of(k) for k in range(3)]
    assert journal.marked("ended") and any(attempts)
    ran(resume=True)
    assert [journal.attempts_of(k) for k in range(3)] == attempts
    assert chunk_files(tmp_path / "out.zarr") == files
    assert bv.verify(run, checksums=True) == []
    with pytest.raises(OutputExistsError):
        bv.Compute(target, table, bv.mean(v), slab=(7, 24, 28), **place)
    ran(overwrite=True)
    assert bv.verify(run, checksums=True) == [] and Journal.open(run) != journal


# A journal's place that two runs name.


def test_the_journal_of_an_unfinished_run_is_not_deleted_for_another(tmp_path, monkeypatch):
    v = stored(tmp_path, membranes())
    book = tmp_path / "book"
    slab = slabs.sweep_slab

    def failing(session, k, index, *rest):
        if index == 2:
            raise OSError("stopped")
        return slab(session, k, index, *rest)

    one = (v + 1).to(tmp_path / "one.zarr", chunks=(5, 24, 28))
    two = (v + 2).to(tmp_path / "two.zarr", chunks=(5, 24, 28))
    how = {"journal": book, "slab": (5, 24, 28), "progress": False, "runner": None}
    with monkeypatch.context() as patch:
        patch.setattr(slabs, "sweep_slab", failing)
        with pytest.raises(OSError, match="stopped"):
            bv.compute(one, **how)
    begun = Journal.open(book)
    for other in (two, bv.mean(v)):
        for overwrite in (False, True):
            with pytest.raises(
                OutputExistsError, match=r"book/ .*is unfinished.*one\.zarr.*journal="
            ):
                bv.compute(other, overwrite=overwrite, **how)
            with pytest.raises(OutputExistsError, match=r"is unfinished.*one\.zarr"):
                bv.Compute(other, journal=book, overwrite=overwrite)
    assert not (tmp_path / "two.zarr").exists()
    assert Journal.open(book) == begun and begun.finished(0) == [0, 1]
    bv.compute(one, resume=True, **how)
    assert begun.attempts_of(0) == dict.fromkeys(range(4), 1)
    # Now it has ended: it is kept, unless it is to be overwritten.
    with pytest.raises(
        OutputExistsError, match=r"has ended.*one\.zarr.*overwrite=True replaces it"
    ):
        bv.compute(two, **how)
    assert bv.verify(book) == []
    bv.compute(two, overwrite=True, **how)
    assert bv.verify(book) == [] and not begun.finished(0)
    np.testing.assert_array_equal(bv.open(tmp_path / "one.zarr"), np.asarray(v) + 1)
    np.testing.assert_array_equal(bv.open(tmp_path / "two.zarr"), np.asarray(v) + 2)


def test_runs_one_after_the_other_may_name_one_place_if_they_leave_nothing_there(tmp_path):
    v = stored(tmp_path, membranes())
    for k in range(3):
        target = (v + k).to(tmp_path / f"{k}.zarr")
        bv.compute(
            target, journal=tmp_path / "book", keep_journal=False, runner=None, progress=False
        )
    assert not (tmp_path / "book").exists()


class Interrupted(PipelineResult):
    """A job without a waiting caller."""

    def __init__(self, can_cancel):
        super().__init__("RUNNING")
        self.can_cancel, self.asked = can_cancel, 0

    def wait_until_finish(self, duration=None):
        raise KeyboardInterrupt

    def cancel(self):
        self.asked += 1
        if not self.can_cancel:
            super().cancel()


@pytest.mark.parametrize("can_cancel", [True, False])
def test_who_interrupts_a_run_cancels_its_job_or_is_told_that_it_goes_on(tmp_path, can_cancel):
    job = Interrupted(can_cancel)

    class Runner(PipelineRunner):
        def run_pipeline(self, pipeline, options):
            return job

    v = stored(tmp_path, membranes())
    says = (
        "is cancelled; nothing of it is stored"
        if can_cancel
        else "still runs.*overwrite=True replaces it"
    )
    with pytest.raises(KeyboardInterrupt, match=says) as interrupted:
        bv.compute((v + 1).to(tmp_path / "out.zarr"), runner=Runner(), progress=False)
    assert job.asked == 1
    assert report(interrupted.value) == 130
    assert not (tmp_path / "out.zarr.run").exists()


@pytest.mark.parametrize("how", few(["Compute", "ComputeAll"], ["ComputeAll"]))
def test_a_pipeline_that_does_everything_again_changes_nothing(tmp_path, monkeypatch, how):
    """Its first step comes back before every slab, slabs before they are recorded, and all after the end."""
    v = stored(tmp_path, membranes(), chunks=(5, 24, 28))
    path, late = str(tmp_path / "out.zarr"), []
    write_record, slab = Journal.write_record, slabs.sweep_slab

    def noted(session, k, index, known, *rest):
        late.append((session, k, index, known, *rest[:1]))
        session.prepare()
        return slab(session, k, index, known, *rest)

    def twice(self, k, index, *record):
        if len(again) < 4 and (k, index) not in again:
            again.add((k, index))
            session, *rest = next(s for s in late if s[1:3] == (k, index))
            slab(session, *rest)
        write_record(self, k, index, *record)

    def targets(_):
        once = kept(v)
        return {"out": (once - bv.mean(once)).to(path, chunks=(5, 24, 28))}

    again = set()
    monkeypatch.setattr(slabs, "sweep_slab", noted)
    monkeypatch.setattr(Journal, "write_record", twice)
    with beam.Pipeline("FnApiRunner") as p:
        if how == "Compute":
            _ = p | bv.Compute(*targets(None).values(), slab=(5, 24, 28))
        else:
            _ = p | beam.Create([0]) | bv.ComputeAll(targets)
    before = chunk_files(path)
    for session, *rest in late:
        session.prepare()
        slab(session, *rest)
    assert again and chunk_files(path) == before and bv.verify(path, checksums=True) == []
    assert not list(tmp_path.rglob("intermediate"))
    array = np.asarray(v) + np.float32(0.25)
    np.testing.assert_array_equal(
        np.asarray(bv.open(path)), array - array.mean(dtype="f8").astype("f4")
    )
