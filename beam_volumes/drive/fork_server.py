"""Start processes with Apache Beam imported, by forking a server process.

Importing Beam takes seconds of CPU time. The server (`drive.server`) imports it once, opens nothing
and starts no Python thread: TensorStore and gRPC must not be forked after use. Each process that uses
this module has its own server, which ends with it. This module does not import Beam, so a server can
be started before its caller imports Beam.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

#: Linux: fork is safe, and file descriptors can be sent to other processes.
SUPPORTED = sys.platform == "linux"
#: Environment variables that imports do not read. They are sent to each forked process. If another
#: variable has changed, a new server replaces the old one.
ANY_TIME = frozenset({"PYTEST_CURRENT_TEST", "PWD", "OLDPWD", "COLUMNS", "LINES", "_"})
MESSAGE_BYTES = 1 << 16
#: Messages about a forked process: its id, and later its exit status.
BEGUN, ENDED = "begun", "ended"


class Unavailable(Exception):
    """No process can be forked from a server; start it in another way."""


class ForkedProcess:
    """A process forked by a server, with the methods of `subprocess.Popen` that are needed.

    It leads its own session. Its id is not reused before `wait`.
    """

    def __init__(self, control: socket.socket, server: _Server) -> None:
        self._control, self._server = control, server
        self.returncode: int | None = None
        kind, number = self._receive()
        if kind != BEGUN:
            control.close()
            raise Unavailable("the server, or the process that it forked, ended immediately")
        self.pid = number

    def poll(self) -> int | None:
        """Return the exit status, negative if a signal ended the process; None while it runs."""
        if self.returncode is None and wait([self._control], 0):
            kind, status = self._receive()
            # Without the server the status is unknown: its processes end with it.
            self.returncode = status if kind == ENDED else self._server.wait()
        return self.returncode

    def wait(self) -> None:
        """Kill the process if it still runs, and wait for its end."""
        with self._control, contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
            while self._control.recv(MESSAGE_BYTES):
                pass

    def _receive(self) -> tuple[str, int]:
        with contextlib.suppress(OSError):
            if message := self._control.recv(MESSAGE_BYTES):
                kind, number = message.decode().split()
                return kind, int(number)
        return "", 0


class _Server:
    """A server process, seen from its caller."""

    def __init__(self) -> None:
        self.inherited = _inherited()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*command_of("beam_volumes.drive.server"), str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def fork(self, channel: int, output: int) -> ForkedProcess:
        """Fork a process that receives a function from ``channel``, as `child.run` does."""
        variables = {name: os.environ[name] for name in ANY_TIME if name in os.environ}
        with contextlib.ExitStack() as opened:
            try:
                folder = os.open(".", os.O_PATH)
                opened.callback(os.close, folder)
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                opened.enter_context(theirs)
                files = [channel, output, folder, theirs.fileno()]
                socket.send_fds(self._requests, [json.dumps(variables).encode()], files)
            except OSError as error:
                raise Unavailable(f"the server accepts no requests: {error}") from error
        return ForkedProcess(ours, self)

    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> int:
        return self._process.wait()

    def retire(self) -> None:
        """Let the server end with its last forked process."""
        self._requests.close()

    def kill(self) -> None:
        """End the server and all processes that it has forked."""
        self._requests.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Drop the server in a process that was forked from its caller."""
        self._requests.close()
        self._process.returncode = 0


_lock = threading.Lock()
_server: _Server | None = None
#: Servers that accept no more requests, until they have ended.
_retired: list[_Server] = []


def start_ahead() -> None:
    """Start the server, if there is none, without waiting until it has imported Beam."""
    if SUPPORTED:
        with _lock, contextlib.suppress(OSError):
            _current()


def fork(channel: int, output: int) -> ForkedProcess:
    """Start a process with Beam imported, as if it were started by this one.

    ``channel`` is the file descriptor of the connection that sends the function to call, and
    ``output`` that for standard output and error. Raises `Unavailable` if there is no server.
    """
    if not SUPPORTED:
        raise Unavailable("processes are only forked on Linux")
    try:
        with _lock:
            server = _current()
    except OSError as error:
        raise Unavailable(f"the server does not start: {error}") from error
    return server.fork(channel, output)


def _current() -> _Server:
    """Return a server with the properties that a process started now would inherit."""
    global _server, _retired
    _retired = [server for server in _retired if not server.ended()]
    if _server is not None and (_server.ended() or _server.inherited != _inherited()):
        _server.retire()
        _retired.append(_server)
        _server = None
    if _server is None:
        _server = _Server()
    return _server


def _inherited() -> Any:
    """Return what a process inherits from the one that starts it, except its folder."""
    import resource

    status = Path("/proc/self/status").read_text()
    limits = sorted(name for name in vars(resource) if name.startswith("RLIMIT_"))
    return (
        {name: value for name, value in environment().items() if name not in ANY_TIME},
        sys.executable,
        re.findall(r"^Umask:.*", status, re.M),
        [resource.getrlimit(getattr(resource, name)) for name in limits],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        os.sched_getaffinity(0),
        os.getpriority(os.PRIO_PROCESS, 0),
        (os.getresuid(), os.getresgid(), os.getgroups()),
    )


def command_of(module: str) -> list[str]:
    """Return the command that calls a module's ``main``, to be started with `environment`.

    For ``-m`` and ``-c`` Python searches modules in the current directory first. The command
    removes it before it imports anything, since Python before 3.11 ignores ``PYTHONSAFEPATH``.
    """
    program = (
        f"import sys; sys.path = [p for p in sys.path if p]; from {module} import main; main()"
    )
    return [sys.executable, "-c", program]


def environment() -> dict[str, str]:
    """Return variables that let a child and its workers import the same modules as this process."""
    path = [os.path.abspath(p) for p in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}


def _kill_all() -> None:
    """End the servers of this process at its exit."""
    for server in (*_retired, *filter(None, (_server,))):
        server.kill()


def _forget_all() -> None:
    """Leave the servers to the process that this one was forked from."""
    global _lock, _server, _retired
    for server in (*_retired, *filter(None, (_server,))):
        server.forget()
    _lock, _server, _retired = threading.Lock(), None, []


atexit.register(_kill_all)
if SUPPORTED:
    os.register_at_fork(after_in_child=_forget_all)
