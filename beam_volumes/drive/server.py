"""The process that `fork_server` starts: it imports Beam, and forks a process for each request."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import warnings
from multiprocessing.connection import Connection, wait

from beam_volumes.drive.fork_server import ANY_TIME, BEGUN, ENDED, MESSAGE_BYTES

#: Seconds between two checks that the caller still runs.
_INTERVAL = 0.5


def main() -> None:
    """Fork a process for each request; arguments are the socket and the caller's process id."""
    requests, caller = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    requests.set_inheritable(False)
    del sys.argv[1:]

    # Imported once the program's arguments are gone.
    import numpy as np

    import beam_volumes.drive.launch
    import beam_volumes.ops.filters.stages  # noqa: F401
    from beam_volumes.drive import child
    from beam_volumes.kernels.jit import load_compiler

    load_compiler()
    gc.collect()
    gc.freeze()  # so later collections do not copy shared pages
    server = os.getpid()
    channel = _serve(requests, caller)
    # Only a forked process gets here.
    np.random.seed()  # otherwise all would draw the same numbers
    child.run(Connection(channel), server)


def _serve(requests: socket.socket, caller: int) -> int:
    """Fork until the caller has ended; returns in each forked process, with its channel."""
    bell, ring = socket.socketpair()
    ring.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ring.fileno(), warn_on_full_buffer=False)
    children: dict[socket.socket, int] = {}
    ended: set[int] = set()
    is_open = True  # whether more requests may come
    while (is_open or children) and os.getppid() == caller:
        listening = [bell, *children, *([requests] if is_open else [])]
        for ready in wait(listening, _INTERVAL):
            assert isinstance(ready, socket.socket)
            if ready is bell:
                bell.recv(MESSAGE_BYTES)
            elif ready is not requests:  # closed by the caller, which never writes to it
                ended.discard(children[ready])
                _end(children.pop(ready), ready)
            else:
                flags = socket.MSG_CMSG_CLOEXEC
                message, files, *_ = socket.recv_fds(requests, MESSAGE_BYTES, 4, flags)
                if not message:
                    is_open = False
                    continue
                control = socket.socket(fileno=files.pop())
                with warnings.catch_warnings():  # OpenBLAS's threads survive a fork
                    warnings.simplefilter("ignore")
                    pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for ours in (requests, bell, ring, *children):
                        ours.close()
                    return _begin(json.loads(message), control, *files)
                for file in files:
                    os.close(file)
                children[control] = pid
        for control, pid in children.items():
            if pid not in ended and _has_ended(pid, control):
                ended.add(pid)
    for control, pid in children.items():
        _end(pid, control)
    os._exit(0)


def _begin(variables: dict[str, str], control: socket.socket, *files: int) -> int:
    """Give a forked process the state of a newly started one."""
    channel, output, folder = files
    os.setsid()
    os.fchdir(folder)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.close(folder)
    for name in ANY_TIME:
        os.environ.pop(name, None)
    os.environ.update(variables)
    with control, contextlib.suppress(OSError):  # a caller that has ended is noticed later
        control.send(f"{BEGUN} {os.getpid()}".encode())
    return channel


def _has_ended(pid: int, control: socket.socket) -> bool:
    """Whether a process has ended; if so, report its exit status to the caller, and keep its id."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return False
    status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    with contextlib.suppress(OSError):
        control.send(f"{ENDED} {status}".encode())
    return True


def _end(pid: int, control: socket.socket) -> None:
    """Kill a process and its group, wait for its end, and close the connection to the caller."""
    for kill in (os.kill, os.killpg):  # it may not lead its group yet
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    control.close()
