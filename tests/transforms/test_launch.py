"""Runs through FnApiRunner in its driver process: same bytes, right errors, dead workers."""

import glob
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import grpc
import numpy as np
import psutil
import pytest
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

import beam_volumes as bv
from beam_volumes.drive import launch
from beam_volumes.drive.launch import Elsewhere, launcher
from beam_volumes.drive.local_pipeline import Here
from beam_volumes.drive.pipelines import pipeline_options
from beam_volumes.graph.nodes import evaluate
from beam_volumes.plan.cost.memory import LOCAL_PIPELINE
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs import Journal, run_folder
from beam_volumes.runs.failure import WorkerDied
from beam_volumes.runs.progress import Watch, Work
from beam_volumes.session.begin import begin
from beam_volumes.session.requirements import ASKED, WorkerRequirements
from tests.tiers import thorough
from tests.transforms.trees import chunk_files, membranes, stored
from tests.waiting import PATIENCE, wait_until

PROCESSES = ["--direct_running_mode=multi_processing"]


# Which runner, and how.


def test_local_runners_are_fnapirunner_by_any_name():
    for runner in (
        "FnApiRunner",
        "DirectRunner",
        "direct",
        beam.runners.DirectRunner,
        FnApiRunner(),
    ):
        drive, found = launcher(RunOptions(runner=runner, workers=3))
        assert isinstance(drive, Here)
        assert (found.processes, found.base) == (1, LOCAL_PIPELINE)
    for options in (
        PROCESSES,
        {"direct_running_mode": "multi_processing"},
        PipelineOptions(PROCESSES),
    ):
        assert launcher(RunOptions(beam_options=options, workers=3))[1].processes is None
    flink = RunOptions(runner="FlinkRunner", beam_options=["--runner=FlinkRunner"], workers=3)
    assert isinstance(launcher(flink)[0], Elsewhere)


@pytest.mark.parametrize(
    ("asked", "machines"),
    [
        (["--max_num_workers=50"], 50),
        (["--num_workers=5"], 5),
        (["--num_workers=5", "--max_num_workers=50"], 50),
        (["--parallelism=8"], 3),  # slots; a machine has three
        ([], None),
    ],
)
def test_machines_are_those_that_options_ask_for(asked, machines):
    options = RunOptions(runner="FlinkRunner", beam_options=asked, workers=3)
    assert launcher(options)[1].machines == machines
    assert launcher(replace(options, machines=2))[1].machines == 2


@pytest.mark.parametrize("error", ["lost", "late"])
def test_a_lost_connection_to_a_runner_says_how_to_continue(error, monkeypatch, tmp_path):
    class Lost(grpc.RpcError, grpc.Call):
        code, details = lambda _: grpc.StatusCode.UNAVAILABLE, lambda _: "Socket closed"

    Lost.__abstractmethods__ = frozenset()
    errors = {"lost": Lost(), "late": grpc.FutureTimeoutError()}

    def fail(*_, **__):
        raise errors[error]

    monkeypatch.setattr(launch, "run_pipeline", fail)
    v = bv.compute(bv.open(np.zeros((2, 3, 4), "u1")).to(tmp_path / "v.zarr"), runner=None)
    says = {"lost": "UNAVAILABLE, Socket closed", "late": "check its address"}[error]
    with pytest.raises(RuntimeError, match=rf"the .*runner.*{says}.* slabs .*resume=True"):
        bv.compute((v + 1).to(tmp_path / "out.zarr"), runner="PrismRunner")


@pytest.mark.parametrize("what", ["prism binary", "job server jar"])
def test_a_runner_whose_program_cannot_be_fetched_says_what_to_give(what, monkeypatch, tmp_path):
    def fetch(*_, **__):
        raise RuntimeError(
            f"Unable to fetch remote {what} at https://x/y.zip: <urlopen error>\nmore"
        )

    monkeypatch.setattr(launch, "run_pipeline", fetch)
    v = bv.open(np.zeros((2, 3, 4), "u1"))
    em = bv.compute(v.to(tmp_path / "v.zarr"), runner=None)
    with pytest.raises(OSError, match=r"--\w+=PATH, or use runner='DirectRunner'") as error:
        bv.compute((em + 1).to(tmp_path / "out.zarr"), runner="PrismRunner")
    assert "\n" not in str(error.value) and not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize(
    "words, setting",
    [
        (
            "org.apache.flink.runtime.rest.util.RestClientException: [Internal server error., <Exception on "
            "server side:\njava.lang.StackOverflowError\n\tat more",
            "env.java.opts.jobmanager",
        ),
        (
            "java.io.IOException: The record exceeds the maximum size of a sort buffer (current maximum: "
            "2981888 bytes).\n\tat more",
            "taskmanager.runtime.large-record-handler",
        ),
    ],
)
def test_what_is_too_small_for_a_job_says_what_to_set(monkeypatch, tmp_path, words, setting):
    def submit(*_, **__):
        raise RuntimeError(f"Pipeline x failed in state FAILED: {words}")

    monkeypatch.setattr(launch, "run_pipeline", submit)
    v = bv.open(np.zeros((2, 3, 4), "u1"))
    em = bv.compute(v.to(tmp_path / "v.zarr"), runner=None)
    with pytest.raises(RuntimeError, match=rf"{re.escape(setting)}.*resume=True") as error:
        bv.compute((em + 1).to(tmp_path / "out.zarr"), runner="FlinkRunner")
    assert "\n" not in str(error.value)
    # As the templates have it.
    settings = (Path(__file__).parents[2] / "templates/flink/settings.yaml").read_text()
    assert re.search(rf"^{re.escape(setting)}: .+", settings, re.M)[0] in str(error.value)


def test_options_that_cannot_work_are_refused(tmp_path):
    v = bv.open(np.zeros((2, 3, 4), "u1"))
    with pytest.raises(ValueError, match="silently loses elements"):
        bv.compute(bv.max(v), options=["--direct_running_mode=multi_threading"])
    pipeline = beam.Pipeline(options=PipelineOptions(["--direct_running_mode=multi_threading"]))
    bv.compute(v.to(tmp_path / "v.zarr"), runner=None)
    stored = bv.open(tmp_path / "v.zarr")
    for step in (bv.ReadSlabs(stored), bv.Compute((stored + 1).to(tmp_path / "out.zarr"))):
        with pytest.raises(ValueError, match="silently loses elements"):
            pipeline | step
    for options in (["--direct_running_mode=magic"], {"direct_running_mode": "magic"}):
        with pytest.raises(ValueError, match="invalid choice: 'magic'"):
            bv.compute(bv.max(v), options=options)
    with pytest.raises(ValueError, match="only give workers=3"):
        bv.compute(bv.max(v), options={"direct_num_workers": 3}, workers=2)
    with pytest.raises(ValueError, match="runner='FlinkRunner'"):
        bv.compute(bv.max(v), options=["--runner=FlinkRunner"])
    with pytest.raises(TypeError, match="give PipelineOptions"):
        bv.compute(bv.max(v), options="--direct_running_mode=in_memory")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"nope": 1}, ValueError, "options: Beam has no --nope; remove it"),
        (["--nope=1"], ValueError, "options: Beam has no --nope; remove it"),
        (["more"], ValueError, "options: Beam has no more; remove it"),
        ({"tmp_location": "x"}, ValueError, "no --tmp_location; did you mean '--temp_location'"),
        (["--direct_num_work=2"], ValueError, "did you mean '--direct_num_workers'"),
        (["--help"], ValueError, "--help is not an option of a run; remove it"),
        (["-h"], ValueError, "-h is not an option of a run; remove it"),
        ({"help": True}, ValueError, "--help is not an option of a run; remove it"),
        ({"temp_location": None}, TypeError, "'temp_location' with a value of type NoneType; give"),
        ({"temp_location": {"a": 1}}, TypeError, "'temp_location' with a value of type dict; give"),
        ({"experiments": ["a", object()]}, TypeError, "'experiments' with a value of type list"),
        ({1: 2}, TypeError, "options has 1 with a value of type int; give a dict"),
        ([1], TypeError, "options has 1, which is not a string; give a list"),
        (b"--x", TypeError, "options has 45, which is not a string; give a list"),
        (["--direct_num_workers"], ValueError, "expected one argument"),
    ],
)
def test_no_option_is_ignored_or_ends_the_program(options, error, message, capfd):
    v = bv.mean(np.zeros((2, 3, 4), "u1"))
    for call in (bv.compute, bv.plan):
        with pytest.raises(error, match=re.escape(message)):
            call(v, options=options)
        with pytest.raises(
            ValueError, match=r"^options= is for Beam, and runner=None runs without"
        ):
            call(v, options=options, runner=None)
    assert capfd.readouterr() == ("", "")
    assert bv.plan(v, options={"experiments": ["a"], "streaming": False}, runner="DirectRunner")
    assert bv.plan(v, options=["--parallelism=3", "--of_a_server=1"], runner="FlinkRunner")


def test_places_that_workers_cannot_reach_are_refused(tmp_path):
    v = stored(tmp_path, membranes((4, 5, 6)))
    small = bv.open(np.zeros((2, 3, 4), "u1"))
    dataflow = {"runner": "DataflowRunner"}
    with pytest.raises(ValueError, match=r"the input .*in\.zarr is on this machine"):
        bv.compute(bv.max(v), **dataflow)
    with pytest.raises(ValueError, match=r"the output .*out\.zarr is on this machine"):
        bv.compute(small.to(tmp_path / "out.zarr"), **dataflow)
    for runner in ("FnApiRunner", "FlinkRunner"):
        with pytest.raises(ValueError, match=r"memory://run is in the memory of this process"):
            bv.compute((v + 1).to(tmp_path / "out.zarr"), journal="memory://run", runner=runner)
        with pytest.raises(
            ValueError, match=r"memory://out\.zarr is in the memory of this process"
        ):
            bv.compute((v + 1).to("memory://out.zarr"), runner=runner)
    assert not list(tmp_path.glob("out*"))


def test_a_worker_that_does_not_see_the_journal_says_so(tmp_path):
    v = stored(tmp_path, membranes((4, 5, 6)))
    session = begin(bv.plan((v + 1).to(tmp_path / "out.zarr")))
    needs = WorkerRequirements.of(session, asked="head")
    with pytest.raises(OSError, match=r"cannot access .*out\.zarr\.run/, where head has"):
        needs.check()
    assert not list(tmp_path.glob("out*"))
    session.journal.mark(ASKED)
    needs.check()
    session.prepare()
    needs.check()  # as a runner may, that takes the first time for failed
    # A job that is never taken leaves nothing.
    with pytest.raises(ValueError, match="Beam has no such runner"):
        bv.compute((v + 1).to(tmp_path / "new.zarr"), runner="NoSuchRunner")
    assert not list(tmp_path.glob("new*"))


def test_no_log_is_set_up_for_a_program_that_has_none(monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    pipeline_options(None)
    assert logging.root.handlers == []


def test_arguments_of_this_program_are_no_options(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["prog", "--direct_running_mode=multi_processing"])
    assert pipeline_options(None).view_as(DirectOptions).direct_running_mode == "in_memory"


# Results.


def test_every_way_to_run_writes_the_same_bytes(tmp_path):
    v = stored(tmp_path, membranes(), chunks=(5, 12, 14))

    def results(name, **how):
        smooth = bv.gaussian_filter(v, 1)
        mask = bv.binary_opening(smooth < bv.threshold_otsu(smooth))
        target = mask.to(tmp_path / name, chunks=(4, 12, 14))
        numbers = (bv.percentile(smooth, 30), bv.std(smooth), bv.mean(v))
        written, *found = bv.compute(target, *numbers, slab=(8, 24, 28), memory="4GiB", **how)
        np.testing.assert_array_equal(written, bv.open(str(tmp_path / name)))
        return found, chunk_files(tmp_path / name)

    expected = results("alone.zarr", runner=None)
    assert results("one.zarr", workers=1, runner="FnApiRunner") == expected
    assert results("threads.zarr", workers=2, runner="FnApiRunner") == expected
    assert results("processes.zarr", workers=2, options=PROCESSES) == expected
    assert expected[1]


def test_numbers_come_back_from_another_runner_without_a_journal(tmp_path):
    v = stored(tmp_path, membranes())
    mean, spread = bv.mean(v), bv.percentile(v + 0.5, 20)
    seen, watching = [], lambda journal: Watch(journal, [Work("numbers", 1)], seen.append)
    for options in ([], [f"--temp_location={tmp_path}/meanwhile"]):
        known = Elsewhere(FnApiRunner, pipeline_options(options))(
            begin(bv.plan(mean, spread)), watching
        )
        assert seen.pop().finished
        expected = bv.compute(mean, spread, runner=None)
        assert known[mean.value.token] == expected[0]
        assert evaluate(spread.value, known) == expected[1]
    assert not list((tmp_path / "meanwhile").rglob("pass-*"))


def test_arrays_and_a_stored_intermediate_come_back(tmp_path):
    v = stored(tmp_path, membranes())

    def noise(block):
        return block + np.float32(0.25)

    once = bv.map_overlap(noise, v, dtype="f4", deterministic=False)
    centred = once - bv.mean(once)
    assert bv.plan(centred).intermediates
    array, mean = bv.compute(centred, bv.mean(once), runner="FnApiRunner", slab=(6, 24, 28))
    np.testing.assert_array_equal(array, np.asarray(v) + np.float32(0.25) - mean)


# Errors.


@pytest.mark.parametrize("options", [None, PROCESSES], ids=["in_memory", "multi_processing"])
def test_errors_arrive_as_they_were_raised(tmp_path, options, capfd):
    v = stored(tmp_path, membranes(), chunks=(5, 24, 28), codec="zstd")
    (tmp_path / "in.zarr" / "c" / "2" / "0" / "0").write_bytes(b"junk")
    with pytest.raises(OSError) as caught:
        target = (v + 1).to(tmp_path / "out.zarr")
        bv.compute(target, options=options, runner="FnApiRunner", progress=False)
    assert "in.zarr/c/2/0/0" in str(caught.value) and "damaged" in str(caught.value)
    for noise in ("Traceback", "while running", "beam-volumes:"):
        assert noise not in str(caught.value)
    assert "Traceback" in str(caught.value.__cause__)
    if options is None:
        assert capfd.readouterr().err == ""


@thorough
def test_errors_of_reductions_and_of_users_functions(tmp_path, caplog):
    v = bv.open(np.array([[[1.0, np.nan]]], "f4"))
    with pytest.raises(ValueError, match="nan="):
        bv.compute(bv.mean(v), runner="FnApiRunner")

    def broken(block):
        raise KeyError("somewhere")

    with pytest.raises(RuntimeError, match="KeyError: 'somewhere'") as caught:
        bv.compute(bv.map_overlap(broken, v).to(tmp_path / "out.zarr"), runner="FnApiRunner")
    assert "while running" not in str(caught.value)
    assert "the log of the run ends with" in caplog.text
    assert "KeyError: 'somewhere'" in caplog.text
    assert not re.search(r"\[\[beam-volumes:\w", caplog.text)


# Death.


#: Slabs after which no other ends, so that a run is not over before it is killed.
HOLD = 2


def held(path, v):
    """Adds one; holds still after `HOLD` slabs as long as there is a file next to the output."""
    hold = Path(f"{path}.hold")

    def work(block):
        limit = time.monotonic() + PATIENCE
        while hold.exists() and len(glob.glob(f"{path}.run/runs/*/records/0-*/*")) >= HOLD:
            if time.monotonic() > limit:
                raise TimeoutError("nobody has killed this run")
            time.sleep(0.02)
        return block + 1

    return bv.map_overlap(work, v, name="held", version=1).to(path, chunks=(2, 24, 28))


def workers_of(process):
    for child in psutil.Process(process).children(recursive=True):
        try:
            if "apache_beam.runners.worker.sdk_worker_main" in child.cmdline():
                yield child
        except psutil.Error:
            continue


def records(journal):
    return len(journal.finished(0))


def journal_of(path):
    return Journal.open(run_folder(str(path)))


def kill_when(path, done, victims):
    """Kill what ``victims()`` gives once so many slabs are recorded."""

    def found():
        journal = journal_of(path)
        return journal is not None and records(journal) >= done and list(victims())

    os.kill(wait_until(found, f"{done} slabs")[0].pid, signal.SIGKILL)


@thorough
def test_a_killed_worker_is_told_and_the_run_resumed(tmp_path):
    v = stored(tmp_path, membranes())
    path = tmp_path / "out.zarr"
    how = {"workers": 2, "options": PROCESSES, "slab": (2, 24, 28), "threads": 1, "memory": "4GiB"}
    hold = Path(f"{path}.hold")
    hold.touch()
    killer = threading.Thread(target=kill_when, args=(path, HOLD, lambda: workers_of(os.getpid())))
    killer.start()
    with pytest.raises(WorkerDied, match=r"pass 1 slab \d.*resume=True") as caught:
        bv.compute(held(path, v), **how)
    killer.join()
    assert "SIGKILL" in str(caught.value)
    hold.unlink()
    before = journal_of(path).finished(0)
    assert 2 <= len(before) < 10
    bv.compute(held(path, v), resume=True, runner=None)
    np.testing.assert_array_equal(np.asarray(bv.open(str(path))), np.asarray(v) + 1)
    attempts = journal_of(path).attempts_of(0)
    assert all(attempts[i] == 1 for i in before)
    assert sum(n - 1 for n in attempts.values()) <= 2


@thorough
def test_a_killed_driver_leaves_a_run_that_can_be_resumed(tmp_path):
    v = stored(tmp_path, membranes())
    path = tmp_path / "out.zarr"
    program = (
        "import beam_volumes as bv\n"
        "from pathlib import Path\n"
        "from tests.transforms.test_launch import held\n"
        f"v = bv.open({str(tmp_path / 'in.zarr')!r})\n"
        f"bv.compute(held(Path({str(path)!r}), v), workers=2, slab=(2, 24, 28), threads=1,"
        " runner='FnApiRunner')\n"
    )
    hold = Path(f"{path}.hold")
    hold.touch()
    driver = subprocess.Popen([sys.executable, "-c", program], cwd=os.getcwd())
    family = []

    def victims():
        family[:] = psutil.Process(driver.pid).children(recursive=True)
        return [psutil.Process(driver.pid)]

    kill_when(path, HOLD, victims)
    assert driver.wait() == -signal.SIGKILL
    assert family and not psutil.wait_procs(family, timeout=PATIENCE)[1]
    hold.unlink()
    before = journal_of(path).finished(0)
    assert 2 <= len(before) < 10
    bv.compute(held(path, v), resume=True, runner=None, workers=2)
    np.testing.assert_array_equal(np.asarray(bv.open(str(path))), np.asarray(v) + 1)
    attempts = journal_of(path).attempts_of(0)
    assert all(attempts[i] == 1 for i in before)
    assert sum(n - 1 for n in attempts.values()) <= 2
    assert json.loads((tmp_path / "out.zarr" / "zarr.json").read_text())
