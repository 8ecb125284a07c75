"""SIGTERM ends a run though its thread cannot be stopped, as while numba compiles."""

import re
import signal
import subprocess
import sys

from tests.waiting import PATIENCE

#: A run in which no exception gets through: one that is raised in a finalizer is lost.
PROGRAM = """
import os, signal, sys, time
from types import SimpleNamespace
from beam_volumes.drive import interrupted
interrupted.GRACE = 0.1
ended = []
plan = SimpleNamespace(outputs=[])
session = SimpleNamespace(journal=None, plan=plan, end=lambda: print("scratch is removed", flush=True))
with interrupted.continuation_shown(session, SimpleNamespace(runner=None)):
    begun = time.monotonic()
    while time.monotonic() < begun + 60:
        try:
            if not ended:
                ended.append(True)
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(3600)
        except BaseException:
            pass
"""


def test_a_run_that_does_not_hear_sigterm_ends_with_it():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == -signal.SIGTERM
    assert done.stdout == "scratch is removed\n"
    assert re.fullmatch("beam-volumes: terminated: nothing of it is stored.*\n", done.stderr)


#: A callback of the compiler loses the exception, and another error follows at once.
LOST = (
    PROGRAM.split("    begun =")[0].replace("GRACE = 0.1", "GRACE = 60")
    + """
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(3600)
    except BaseException:
        raise RuntimeError("no compiled object yet") from None
"""
)


def test_an_error_that_follows_a_lost_sigterm_is_not_reported():
    done = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == -signal.SIGTERM
    assert re.fullmatch("beam-volumes: terminated: nothing of it is stored.*\n", done.stderr)
