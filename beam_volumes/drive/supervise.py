"""Run a function in a separate driver process, so a dead worker cannot block the caller.

Beam's FnApiRunner does not notice when a worker process dies, and waits for ever. Here the pipeline
runs in a child process that leads its own session and reports how its workers ended. After a
failure the whole group is killed and the caller gets an error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any

import cloudpickle

from beam_volumes.drive import fork_server
from beam_volumes.drive.fork_server import command_of, environment
from beam_volumes.runs.failure import RemoteTraceback, WorkerDied

_LOG = logging.getLogger(__name__)

Child = fork_server.ForkedProcess | subprocess.Popen[bytes]


def call_supervised(function: Callable[[], Any], **options: Any) -> Any:
    """Call `supervise` with a function that is not pickled yet, such as a lambda or closure."""
    return supervise(cloudpickle.dumps(function), **options)


def supervise(
    payload: bytes,
    *,
    watch: Callable[[], str | None] | None = None,
    on_poll: Callable[[], None] | None = None,
    grace: float = 5.0,
    poll: float = 0.2,
    output: int | IO[Any] = 2,
) -> Any:
    """Call a pickled function without arguments in a separate process and return its result."""
    # If the caller is killed, the child and its workers end within a second. Raises `WorkerDied` if
    # the driver process or a worker was killed or crashed. Exceptions of the function keep their type
    # and message; their ``__cause__`` is the traceback of the driver process.
    #
    # - ``watch``: called when a process has died; returns the end of the message, such as how to
    #   continue.
    # - ``on_poll``: called every ``poll`` seconds; an exception ends the run.
    # - ``grace``: seconds for the function to end by itself after a worker has died.
    # - ``output``: the child's standard output and error; by default standard error.
    ours, theirs = Pipe()
    with ours:
        with theirs:
            child = _start(theirs.fileno(), output if isinstance(output, int) else output.fileno())
        try:
            return _attend(child, ours, payload, watch, on_poll, grace, poll)
        finally:
            kill_group(child)


def start(function: Callable[[], Any], output: int = 2) -> tuple[Child, Connection]:
    """Start a process that calls a function, and exits if the connection to it is closed.

    It leads its own session, and has to be waited for.
    """
    ours, theirs = Pipe()
    with theirs:
        child = _start(theirs.fileno(), output)
    with contextlib.suppress(OSError):  # the exit status shows an early end
        ours.send_bytes(cloudpickle.dumps(function))
    return child, ours


def _start(channel: int, output: int) -> Child:
    """Start a process that receives a function from ``channel``."""
    try:
        return fork_server.fork(channel, output)
    except fork_server.Unavailable as error:
        _LOG.debug("a process is started without a server: %s", error)
    return subprocess.Popen(
        [*command_of("beam_volumes.drive.child"), str(channel), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment(),
        pass_fds=[channel],
        start_new_session=True,
    )


def _attend(
    child: Child,
    channel: Connection,
    payload: bytes,
    watch: Callable[[], str | None] | None,
    on_poll: Callable[[], None] | None,
    grace: float,
    poll: float,
) -> Any:
    death: str | None = None
    deadline = float("inf")
    with contextlib.suppress(OSError):  # an early end is reported below
        channel.send_bytes(payload)
    while True:
        ended = child.poll() is not None  # checked first: its last messages are still read
        message = _receive(channel, 0.0 if ended else poll)
        if message is None and ended:
            assert child.returncode is not None
            raise _died(f"the driver process {_ending(child.returncode)}", watch)
        if message is not None:
            kind, data = message
            if kind == "result":
                return cloudpickle.loads(data)
            if kind == "error":
                error, trace = cloudpickle.loads(data)
                error.__cause__ = RemoteTraceback(trace)
                if death is not None:
                    raise _died(death, watch) from error
                raise error
            if kind == "worker":
                death = f"a worker process {_ending(int(data))}"
            elif kind == "silence":
                death = death or "a worker process ended"
            deadline = min(deadline, time.monotonic() + grace)
        if time.monotonic() >= deadline:
            raise _died(death or "a worker process ended", watch)
        if on_poll is not None:
            on_poll()


def _receive(channel: Connection, timeout: float) -> tuple[str, bytes] | None:
    try:
        if channel.poll(timeout):
            return channel.recv_bytes().decode(), channel.recv_bytes()
    except (EOFError, OSError):  # the child has ended: its exit status has the reason
        time.sleep(timeout)
    return None


def kill_group(child: Child) -> None:
    """Kill a process and its children, and wait for its end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _died(what: str, watch: Callable[[], str | None] | None) -> WorkerDied:
    text = None
    if watch is not None:
        try:
            text = watch()
        except Exception as error:  # do not lose the error
            text = f"(the last slabs are unknown: {error})"
    return WorkerDied(f"{what}. {text}" if text else what)


def _ending(code: int) -> str:
    """Describe how a process ended, from its exit status (or the shell's, 128 + signal)."""
    number = -code if code < 0 else code - 128
    if code < 0 or code > 128:
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
            return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"ended with exit status {code}"
