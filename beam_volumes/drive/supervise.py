"""Running a function in a driver process of its own, so that a dead worker cannot hang the caller.

Beam's FnApiRunner does not notice when one of its worker processes dies: it waits for ever.
Here the pipeline runs in a child process, at the head of its own session, which reports how its
workers ended. If anything goes wrong, the whole group is killed and the caller gets an error.
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
    """`supervise` for a function that is not pickled yet; lambdas and closures will do."""
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
    """Call a pickled function in a process of its own and return what it returns.

    Parameters
    ----------
    payload : bytes
        A function without arguments, from `cloudpickle.dumps`.
    watch : callable, optional
        Asked for a text to end the message with when a process has died: what was being done, and
        how to go on.
    on_poll : callable, optional
        Called every ``poll`` seconds while the function runs. An exception of it ends the run.
    grace : float
        Seconds the function may still take to end by itself once a worker has died.
    poll : float
        Seconds between two looks at the processes.
    output : int or file, optional
        Where the child's standard output and error both go; standard error by default. (Beam's
        workers log a good deal there.)

    Returns
    -------
    object
        The function's result.

    Raises
    ------
    WorkerDied
        If the driver process or one of its Beam workers was killed or crashed.
    Exception
        What the function raised, with its own type and message; its ``__cause__`` holds the
        traceback of the driver process.

    Notes
    -----
    When the caller is killed, the child and its workers kill themselves within a second.
    """
    ours, theirs = Pipe()
    with ours:
        with theirs:
            child = _start(theirs.fileno(), output if isinstance(output, int) else output.fileno())
        try:
            return _attend(child, ours, payload, watch, on_poll, grace, poll)
        finally:
            kill_group(child)


def start(function: Callable[[], Any], output: int = 2) -> tuple[Child, Connection]:
    """Start a process that calls a function, and ends itself if the connection to it is closed.

    It is at the head of a session of its own, and has to be waited for.
    """
    ours, theirs = Pipe()
    with theirs:
        child = _start(theirs.fileno(), output)
    with contextlib.suppress(OSError):  # a child that died at once is found by its exit status
        ours.send_bytes(cloudpickle.dumps(function))
    return child, ours


def _start(channel: int, output: int) -> Child:
    """Start a process that takes a function from ``channel``."""
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
    with contextlib.suppress(OSError):  # a child that died at once is reported below
        channel.send_bytes(payload)
    while True:
        ended = child.poll() is not None  # asked first: its last messages are still read
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
                death = death or "a worker process broke off"
            deadline = min(deadline, time.monotonic() + grace)
        if time.monotonic() >= deadline:
            raise _died(death or "a worker process ended", watch)
        if on_poll is not None:
            on_poll()


def _receive(channel: Connection, timeout: float) -> tuple[str, bytes] | None:
    try:
        if channel.poll(timeout):
            return channel.recv_bytes().decode(), channel.recv_bytes()
    except (EOFError, OSError):  # the child is gone: its exit status has the reason
        time.sleep(timeout)
    return None


def kill_group(child: Child) -> None:
    """Kill a process and those that it has started, and wait for its end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _died(what: str, watch: Callable[[], str | None] | None) -> WorkerDied:
    text = None
    if watch is not None:
        try:
            text = watch()
        except Exception as error:  # the news must not be lost over a detail of it
            text = f"(what was being done is not known: {error})"
    return WorkerDied(f"{what}. {text}" if text else what)


def _ending(code: int) -> str:
    """How a process ended, in words, from its exit status (or the shell's, 128 + signal)."""
    number = -code if code < 0 else code - 128
    if code < 0 or code > 128:
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
            return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"ended with exit status {code}"
