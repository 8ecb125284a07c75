"""What is said where somebody stops a run: in one line, how it goes on."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from beam_volumes.drive.runner_names import is_local
from beam_volumes.plan.run_options import RunOptions, runner_name
from beam_volumes.runs.journal import Journal
from beam_volumes.session.identity import journal_place
from beam_volumes.session.session import Session
from beam_volumes.storage.ownership import UNFINISHED
from beam_volumes.storage.place import url
from beam_volumes.text import printable


class _Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def how_to_go_on_told(session: Session, options: RunOptions) -> Iterator[None]:
    """While the context lasts, whoever stops the run is told how to go on.

    Ctrl-C raises KeyboardInterrupt with it. SIGTERM has it printed on standard error, and ends the process as
    ever; a program that handles SIGTERM in its own way is not disturbed.
    """
    try:
        with _terminated_raises():
            yield
    except KeyboardInterrupt as error:
        error.args = ("; ".join(filter(None, (str(error), how_to_go_on(session, options)))),)
        raise
    except _Terminated:
        words = f"beam-volumes: terminated: {how_to_go_on(session, options)}"
        print(printable(words), file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        raise  # never, unless somebody blocks the signal


@contextmanager
def _terminated_raises() -> Iterator[None]:
    """Have SIGTERM raise here, where nobody else handles it, so that what was begun is cleaned up."""

    def stop(*_: Any) -> None:
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


def how_to_go_on(session: Session, options: RunOptions) -> str:
    """What continues a run that was stopped just now, in words, and what it has replaced."""
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
