"""What these tests start ends with them, however that comes."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.engines.conftest import PROJECT
from tests.waiting import wait_until

TEST = """
import sys, time
from pathlib import Path
from tests.engines.conftest import free_ports, server

def test_that_waits(tmp_path):
    (port,) = free_ports(1)
    command = [sys.executable, "-c", SERVER, str(port)]
    with server(tmp_path / "log", *command, port=port):
        time.sleep(3600)

SERVER = '''
import os, pathlib, socket, sys
pathlib.Path(os.environ["PIDS"]).write_text(f"{os.getpid()}.")
socket.create_server(("localhost", int(sys.argv[1]))).accept()
sys.stdin.read()
'''
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_session_leaves_no_server(how, tmp_path):
    (tmp_path / "test_waits.py").write_text(TEST)
    pids = tmp_path / "pids"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.engines.conftest",
        "-p",
        "no:cacheprovider",
    ]
    with open(tmp_path / "out", "wb") as out:
        session = subprocess.Popen(
            [*command, f"--basetemp={tmp_path / 'temporary'}", str(tmp_path / "test_waits.py")],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(PROJECT), "PIDS": str(pids)},
            stdout=out,
            stderr=out,
        )
    wait_until(lambda: pids.exists() and pids.read_text().endswith("."), "the server")
    said = (tmp_path / "out").read_text()
    assert said.rstrip().endswith("test_waits.py::test_that_waits"), said  # named before it ends
    session.send_signal(how)
    status = session.wait()
    assert status == (pytest.ExitCode.INTERRUPTED if how == signal.SIGTERM else -how)
    pid = int(pids.read_text().rstrip("."))
    wait_until(lambda: not psutil.pid_exists(pid), f"the end of {pid}")
