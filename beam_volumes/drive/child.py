"""The process that `supervise` starts: it calls one function and reports how it ended."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

#: The exception of Beam's thread that waits for a worker process, if that fails.
_WORKER_ENDED = re.compile(r"Worker subprocess exited with return code (-?\d+)")
#: Beam's thread that reads a worker's messages; it raises an exception when they end.
_WORKER_READER = "beam_control_read"
#: The exception of a pipeline that was waiting for the worker's data; usually it waits for ever.
_WORKER_DATA_ENDED = "Channel closed prematurely"


class _Channel:
    """The connection to the parent, for any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, kind: str, data: bytes) -> None:
        with self._lock:
            self._connection.send_bytes(kind.encode())
            self._connection.send_bytes(data)


def main() -> None:
    """Entry point: arguments are the number of the open channel and the parent's process id."""
    connection = Connection(int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)  # otherwise workers would keep it open
    run(connection, int(sys.argv[2]))


def run(connection: Connection, parent: int) -> None:
    """Call the function that is sent over a connection, report its result, and end this process.

    ``parent`` is the id of the parent process; this one ends with it.
    """
    payload = connection.recv_bytes()
    threading.Thread(target=_die_with_parent, args=(connection, parent), daemon=True).start()
    channel = _Channel(connection)
    _report_workers(channel)
    try:
        result = cloudpickle.dumps(cloudpickle.loads(payload)())
    except BaseException as error:
        if _WORKER_DATA_ENDED in str(error):
            channel.send("silence", b"")
        channel.send("error", pickled(error))
    else:
        channel.send("result", result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # do not wait for threads that wait for dead workers


def _die_with_parent(connection: Connection, parent: int) -> None:
    # The caller sends nothing after the payload: readable data mean that the channel is closed. A
    # forked process may keep its other end open, so the parent is checked, too.
    while os.getppid() == parent and not wait([connection], 0.5):
        pass
    os.killpg(0, signal.SIGKILL)


def _report_workers(channel: _Channel) -> None:
    """Report to the parent exceptions of Beam's threads when a worker dies."""
    default = threading.excepthook

    def hook(args: Any) -> None:
        ended = _WORKER_ENDED.search(str(args.exc_value))
        if ended is not None:
            channel.send("worker", ended.group(1).encode())
        elif args.thread is not None and args.thread.name == _WORKER_READER:
            channel.send("silence", b"")
        else:
            default(args)

    threading.excepthook = hook


def pickled(error: BaseException) -> bytes:
    """Pickle an exception with its traceback, as a builtin base if it does not pickle."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    makers: list[Callable[[], BaseException]] = [lambda: error.with_traceback(None)]
    makers += [partial(b, str(error)) for b in type(error).__mro__ if b.__module__ == "builtins"]
    for make in makers:
        try:
            data = cloudpickle.dumps((make(), trace))
            cloudpickle.loads(data)
        except Exception:  # pickling an exception may raise anything
            continue
        return data
    return cloudpickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), trace))
