"""The server that processes with Beam imported are forked from."""

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from beam_volumes.drive import fork_server
from beam_volumes.drive.supervise import call_supervised
from beam_volumes.runs.failure import WorkerDied
from tests.tiers import thorough

pytestmark = pytest.mark.skipif(not fork_server.SUPPORTED, reason="forks on Linux only")


def started():
    """What a process finds when it starts."""
    from beam_volumes.storage.places import context

    return {
        "server": os.getppid(),
        "session": os.getsid(0) == os.getpid(),
        "folder": os.getcwd(),
        "test": os.environ["PYTEST_CURRENT_TEST"],
        "input": os.readlink("/proc/self/fd/0"),
        "beam": "apache_beam.runners.worker.sdk_worker" in sys.modules,
        "numbers": (random.random(), np.random.random()),
        "threads": threading.active_count(),
        "server's": {
            p.read_text().strip() for p in Path("/proc").glob(f"{os.getppid()}/task/*/comm")
        },
        "opened": [made for made in (context._root, context._context) if made is not None],
    }


def test_processes_are_forked_where_and_when_they_are_asked_for(tmp_path, monkeypatch):
    first = call_supervised(started)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another")
    second = call_supervised(started)
    assert first["beam"] and second["server"] == first["server"]  # nothing is imported again
    assert first["folder"] != second["folder"] == str(tmp_path)
    assert first["test"] != second["test"] == "another"
    assert first["session"] and first["input"] == os.devnull
    assert not set(first["numbers"]) & set(second["numbers"])


def test_the_server_has_opened_nothing_and_runs_no_thread_of_its_own():
    found = call_supervised(started)
    assert found["opened"] == []
    assert found["threads"] == 2  # with the one that waits for the caller's end
    # Threads of OpenBLAS and jemalloc, which are ready for a fork; TensorStore's and gRPC's have other names.
    assert found["server's"] <= {Path(sys.executable).name, "python", "python3", "jemalloc_bg_thd"}


def test_what_a_process_would_inherit_makes_another_server(monkeypatch):
    class Server:
        def __init__(self):
            self.inherited = fork_server._inherited()

        def ended(self):
            return False

        def retire(self):
            pass

    monkeypatch.setattr(fork_server, "_Server", Server)
    monkeypatch.setattr(fork_server, "_server", None)
    monkeypatch.setattr(fork_server, "_retired", [])
    servers = [fork_server._current()]
    assert fork_server._current() is servers[0]
    monkeypatch.setenv("BEAM_VOLUMES_TEST", "1")
    servers.append(fork_server._current())
    monkeypatch.setattr(sys, "path", [*sys.path, "/elsewhere"])
    servers.append(fork_server._current())
    umask = os.umask(0o077)
    try:
        servers.append(fork_server._current())
    finally:
        os.umask(umask)
    assert len(set(map(id, servers))) == 4
    assert fork_server._retired == servers[:-1]


@thorough
def test_a_killed_server_ends_its_run_and_the_next_has_another():
    def function():
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600)

    with pytest.raises(WorkerDied, match="driver process was killed by SIGKILL"):
        call_supervised(function)
    assert call_supervised(lambda: 1) == 1


def test_a_fork_of_the_caller_leaves_the_server_to_it():
    server = call_supervised(os.getppid)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if fork_server._server is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert call_supervised(os.getppid) == server


def test_threads_that_ask_at_once_each_get_a_process():
    found = []
    threads = [
        threading.Thread(target=lambda k=k: found.append(call_supervised(lambda: (k, os.getpid()))))
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(k for k, _ in found) == list(range(4))
    assert len({pid for _, pid in found}) == 4


def test_a_process_is_started_without_a_server_where_there_is_none(monkeypatch):
    monkeypatch.setattr(fork_server, "SUPPORTED", False)
    assert call_supervised(os.getppid) == os.getpid()
