"""The driver process: results, errors, and every way to die."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from beam_volumes.drive.fork_server import command_of, environment
from beam_volumes.drive.supervise import call_supervised
from beam_volumes.runs.failure import WorkerDied
from tests.tiers import few, thorough
from tests.waiting import wait_until

#: Seconds of who is to be killed: longer than anybody waits for that.
FOR_EVER = "3600"


class Refuses(ValueError):
    """Does not pickle, as many exceptions do not."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


def raising(error):
    def function():
        raise error

    return function


def wait_until_gone(pids):
    """Wait for the end of processes that would live much longer by themselves."""
    wait_until(lambda: not any(map(lives, pids)), f"the end of {pids}")


def lives(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def written(path, end):
    """What a file holds, once its writer has come to the end; before that nothing."""
    text = path.read_text() if path.exists() else ""
    return text if text.endswith(end) else ""


def wait_for(path):
    return json.loads(wait_until(lambda: written(path, "]"), path))


def family(path):
    """Print the process ids, with a child that sleeps, and sleep."""

    def function():
        sleeper = subprocess.Popen(["sleep", FOR_EVER])
        path.write_text(json.dumps([os.getpid(), sleeper.pid]))
        time.sleep(int(FOR_EVER))

    return function


def test_result_of_a_closure():
    n = 20
    assert call_supervised(lambda: (n + 1, os.getpid(), bytes(10**7)))[::2] == (21, bytes(10**7))
    assert call_supervised(os.getpid) != os.getpid()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("budget"),
        TypeError("dtype"),
        OSError(28, "No space left", "file"),
        FileExistsError("out.zarr exists"),
        KeyError("name"),
        SystemExit(3),
    ],
    ids=repr,
)
def test_exceptions_keep_their_type_and_message(error):
    with pytest.raises(type(error)) as caught:
        call_supervised(raising(error))
    assert type(caught.value) is type(error)
    assert (caught.value.args, str(caught.value)) == (error.args, str(error))
    assert "in function" in str(caught.value.__cause__)


def test_an_exception_that_does_not_pickle_keeps_its_base():
    def function():
        raise Refuses("this", "that")

    with pytest.raises(ValueError, match="this and that"):
        call_supervised(function)


def test_a_result_that_does_not_pickle_is_an_error():
    with pytest.raises(TypeError, match="pickle"):
        call_supervised(threading.Lock)


def test_output_goes_where_it_is_told(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        call_supervised(lambda: print("hello"), output=log)
    assert (tmp_path / "log").read_text() == "hello\n"


def test_on_poll_is_called_and_may_end_the_run(tmp_path):
    def stop():
        if written(tmp_path / "pids", "]"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_supervised(family(tmp_path / "pids"), on_poll=stop, poll=0.05)
    wait_until_gone(wait_for(tmp_path / "pids"))


def test_killed_driver_is_noticed(tmp_path):
    def function():
        subprocess.Popen(["sleep", FOR_EVER])
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerDied, match=r"driver process was killed by SIGKILL.*slabs 3, 4"):
        call_supervised(function, watch=lambda: "Last slabs 3, 4.")


def test_killed_caller_leaves_no_orphans(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, os, subprocess, sys, time\n"
        "from beam_volumes.drive.supervise import call_supervised\n"
        "def function():\n"
        f"    sleeper = subprocess.Popen(['sleep', '{FOR_EVER}'])\n"
        "    with open(PATH, 'w') as file:\n"
        "        json.dump([os.getpid(), os.getppid(), sleeper.pid], file)\n"
        f"    time.sleep({FOR_EVER})\n"
        "PATH = sys.argv[1]\n"
        "call_supervised(function)\n"
    )
    caller = subprocess.Popen([sys.executable, str(script), str(tmp_path / "pids")])
    pids = wait_for(tmp_path / "pids")
    caller.kill()
    caller.wait()
    wait_until_gone(pids)


SCRIPT = """
import os
from beam_volumes.drive.supervise import call_supervised
class Thing:
    pass
def helper():
    return Thing()
result = call_supervised(lambda: (helper(), os.getpid()))
assert isinstance(result[0], Thing) and result[1] != os.getpid()
print("fine")
"""


@pytest.mark.parametrize("how", few(["file", "-c", "stdin"], ["stdin"]))
def test_the_caller_may_be_anything(tmp_path, how):
    (tmp_path / "script.py").write_text(SCRIPT)
    arguments = {"file": ["script.py"], "-c": ["-c", SCRIPT], "stdin": []}[how]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        input=SCRIPT if how == "stdin" else "",
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr


@thorough
def test_modules_beside_a_script_are_found(tmp_path):
    (tmp_path / "beside.py").write_text("def f():\n    return 42\n")
    (tmp_path / "script.py").write_text(
        "import beside\nfrom beam_volumes.drive.supervise import call_supervised\n"
        "assert call_supervised(beside.f) == 42\n"
    )
    subprocess.run([sys.executable, tmp_path / "script.py"], check=True, cwd="/")


# Beam. The worker processes of its FnApiRunner come and go with each pipeline.


def pipelines(count, *, workers=2, path=None, end=None):
    """Some stages with a side input on worker processes that note their ids, and hold still then."""

    def work(x, *sides):
        if path is not None:
            with open(path, "a") as file:
                file.write(f"{os.getpid()}\n")
            time.sleep(int(FOR_EVER))
        if end is not None:
            end(x)
        return x % 3, os.getpid()

    def run():
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        for _ in range(count):
            options = PipelineOptions(
                direct_running_mode="multi_processing", direct_num_workers=workers
            )
            with beam.Pipeline(runner=FnApiRunner(), options=options) as p:
                first = p | beam.Create(range(10)) | beam.Reshuffle() | beam.Map(work)
                number = first | beam.combiners.Count.Globally()
                second = p | "two" >> beam.Create(range(10)) | "shuffle" >> beam.Reshuffle()
                second |= "work" >> beam.Map(work, beam.pvalue.AsSingleton(number))
                second | beam.GroupByKey()
        return "done"

    return run


@thorough
def test_workers_that_end_normally_raise_no_alarm(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        run = pipelines(2, workers=1)
        assert call_supervised(run, grace=0.5, output=log) == "done"


def test_a_killed_worker_is_noticed(tmp_path):
    path = tmp_path / "pids"
    killed = []

    def kill():
        if not killed and written(path, "\n"):
            pid = int(path.read_text().split()[0])
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    with (
        open(tmp_path / "log", "wb") as log,
        pytest.raises(WorkerDied, match=r"worker process was killed by SIGKILL.*resume=True"),
    ):
        call_supervised(
            pipelines(1, path=path),
            on_poll=kill,
            watch=lambda: "Run again with resume=True.",
            output=log,
        )
    wait_until_gone([int(pid) for pid in path.read_text().split()])


@thorough
@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_leaves_quietly_is_noticed(tmp_path, workers):
    def end(x):
        if x == 5:
            os._exit(0)

    with open(tmp_path / "log", "wb") as log, pytest.raises(WorkerDied, match="worker process"):
        call_supervised(pipelines(1, workers=workers, end=end), grace=1.0, output=log)


@thorough
def test_an_error_in_a_worker_is_no_death(tmp_path):
    def end(x):
        raise ValueError(f"slab {x}")

    with (
        open(tmp_path / "log", "wb") as log,
        pytest.raises(RuntimeError, match="ValueError: slab") as caught,
    ):
        call_supervised(pipelines(1, end=end), output=log)
    assert not isinstance(caught.value, WorkerDied)


def test_processes_import_nothing_from_the_current_directory(tmp_path):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text("def main(): print('stolen')")
    for safe in ("1", ""):  # Python before 3.11 knows no PYTHONSAFEPATH
        done = subprocess.run(
            command_of("json"),
            cwd=tmp_path,
            env={**environment(), "PYTHONSAFEPATH": safe},
            capture_output=True,
            text=True,
        )
        assert done.stdout == "" and "cannot import name 'main' from 'json'" in done.stderr
