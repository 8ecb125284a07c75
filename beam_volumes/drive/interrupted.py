"""One line that shows how to continue a run, printed where it is stopped."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from beam_volumes.base.text import printable
from beam_volumes.drive.runner_names import is_local
from beam_volumes.plan.run_options import RunOptions, runner_name
from beam_volumes.runs.journal import Journal
from beam_volumes.session.identity import journal_place
from beam_volumes.session.session import Session
from beam_volumes.storage.places.ownership import UNFINISHED
from beam_volumes.storage.places.place import url

#: Seconds in which a run that gets SIGTERM stops its threads and removes what it has begun. A thread that
#: compiles a kernel takes longer, and cannot be stopped.
GRACE = 5.0


class _Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def continuation_shown(session: Session, options: RunOptions) -> Iterator[None]:
    """While the context lasts, stopping the run shows how to continue it.

    Ctrl-C raises KeyboardInterrupt with it. SIGTERM has it printed on standard error, and ends the process as
    ever, after `GRACE` seconds at the latest; a program that handles SIGTERM in its own way is not disturbed.
    """

    def terminated() -> None:
        try:
            words = f"beam-volumes: terminated: {continuation(session, options)}"
            print(printable(words), file=sys.stderr, flush=True)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def in_time() -> None:
        time.sleep(GRACE)
        if session.journal is None:
            with suppress(Exception):
                session.end()
        terminated()

    try:
        with _raise_when_terminated(in_time):
            yield
    except KeyboardInterrupt as error:
        error.args = ("; ".join(filter(None, (str(error), continuation(session, options)))),)
        raise
    except _Terminated:
        terminated()
        raise  # never, unless somebody blocks the signal


@contextmanager
def _raise_when_terminated(in_time: Callable[[], None]) -> Iterator[None]:
    """Have SIGTERM raise here, unless the program handles it, so that the run is cleaned up.

    ``in_time`` runs in another thread meanwhile: the exception is lost where it is raised in a finalizer, and
    waits for threads that compile. A second SIGTERM ends the process at once.
    """

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Thread(target=in_time, daemon=True).start()
        raise _Terminated

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def continuation(session: Session, options: RunOptions) -> str:
    """How to continue a run that was stopped just now, and which outputs it has replaced."""
    lost: list[str] = []
    for sink in {repr(s.extents): s for s in session.plan.outputs}.values():
        with suppress(OSError, ValueError):
            if (sink.state().get(UNFINISHED) or {}).get("replaced"):
                lost.append(url(sink.kvstore).rstrip("/"))
    gone = f"; what was in {', '.join(lost)} before is gone" if lost else ""
    return _continuing(session, options) + gone


def _continuing(session: Session, options: RunOptions) -> str:
    journal, manifest = session.journal, None
    if journal is not None:
        with suppress(OSError, ValueError):
            manifest = Journal.load(journal.spec)
    if journal is None or manifest is None or manifest.run_id != journal.run_id:
        return "nothing is kept of it, run it again"
    if manifest.closed:
        return "run it again with resume=True to go on"
    place = journal.url
    outputs = session.plan.outputs
    if outputs and journal_place(session.plan, None) == journal.spec:
        place = url(outputs[0].kvstore).rstrip("/")
    return f"go on with: beam-volumes resume {shlex.quote(place)}{_on(options.runner)}"


def _on(runner: Any) -> str:
    """The option that names a runner, where a run would not be continued on it by itself."""
    if runner is None:
        return ""
    return "" if is_local(runner) else f" --runner {shlex.quote(runner_name(runner))}"
