"""Show how to continue a run when it is stopped."""

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
from beam_volumes.session.local import Stopped
from beam_volumes.session.session import Session
from beam_volumes.storage.places.ownership import UNFINISHED
from beam_volumes.storage.places.place import url

#: Seconds for a run that receives SIGTERM to stop its threads and to remove temporary files. A
#: thread that compiles a kernel takes longer and cannot be stopped.
GRACE = 5.0
_FINISHING = (
    "beam-volumes: terminated: the slabs in flight are finished first; a second SIGTERM stops them"
)


class _Terminated(BaseException):
    """SIGTERM was received."""


@contextmanager
def continuation_shown(session: Session, options: RunOptions) -> Iterator[threading.Event | None]:
    """Show how to continue the run if it is stopped in this context."""
    # The KeyboardInterrupt of Ctrl-C contains it. After SIGTERM it is printed on standard error, and
    # the process ends within `GRACE` seconds; programs that handle SIGTERM themselves are not
    # affected. A run in this process with a journal first finishes the slabs in flight: the first
    # SIGTERM sets the event that is yielded, and the second one stops the run.
    finish = threading.Event() if options.runner is None and session.journal is not None else None

    def terminated() -> None:
        try:
            words = f"beam-volumes: terminated: {continuation(session, options)}"
            _print(words)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def in_time() -> None:
        time.sleep(GRACE)
        if session.journal is None:
            with suppress(Exception):
                session.end()
        terminated()

    try:
        with _raise_when_terminated(in_time, finish):
            yield finish
    except KeyboardInterrupt as error:
        error.args = ("; ".join(filter(None, (str(error), continuation(session, options)))),)
        raise
    except _Terminated:
        terminated()
        raise  # only if the signal is blocked


@contextmanager
def _raise_when_terminated(
    in_time: Callable[[], None], finish: threading.Event | None
) -> Iterator[None]:
    """Raise an exception at SIGTERM, unless the program handles it, so that the run is cleaned up."""
    # ``in_time`` runs in another thread meanwhile: the exception is lost in finalizers, and delayed
    # by threads that compile. Where a callback of the compiler loses it, another error follows. A
    # second SIGTERM ends the process immediately. With ``finish``, an additional first SIGTERM only
    # sets it, and the exception follows the run's last slab.
    received = False

    def stop(*_: Any) -> None:
        nonlocal received
        if finish is not None and not finish.is_set():
            finish.set()
            # A handler may have interrupted a print.
            threading.Thread(target=_print, args=(_FINISHING,), daemon=True).start()
            return
        received = True
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
        if finish is not None and finish.is_set():
            raise _Terminated
    except Stopped:
        if finish is not None and finish.is_set():
            raise _Terminated from None
        raise
    except Exception as error:
        if received:
            raise _Terminated from error
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _print(words: str) -> None:
    print(printable(words), file=sys.stderr, flush=True)


def continuation(session: Session, options: RunOptions) -> str:
    """Describe how to continue a stopped run, and which outputs it has replaced."""
    lost: list[str] = []
    for sink in {repr(s.extents): s for s in session.plan.outputs}.values():
        with suppress(OSError, ValueError):
            if (sink.state().get(UNFINISHED) or {}).get("replaced"):
                lost.append(url(sink.kvstore).rstrip("/"))
    gone = f"; the previous content of {', '.join(lost)} was deleted" if lost else ""
    return _continuing(session, options) + gone


def _continuing(session: Session, options: RunOptions) -> str:
    journal, manifest = session.journal, None
    if journal is not None:
        with suppress(OSError, ValueError):
            manifest = Journal.load(journal.spec)
    if journal is None or manifest is None or manifest.run_id != journal.run_id:
        return "nothing of it is stored: run it again"
    if manifest.closed:
        return "run it again with resume=True to continue"
    place = journal.url
    outputs = session.plan.outputs
    if outputs and journal_place(session.plan, None) == journal.spec:
        place = url(outputs[0].kvstore).rstrip("/")
    return f"to continue, run: beam-volumes resume {shlex.quote(place)}{_on(options.runner)}"


def _on(runner: Any) -> str:
    """Return the option for the runner, if it is not the default of resuming."""
    if runner is None:
        return ""
    return "" if is_local(runner) else f" --runner {shlex.quote(runner_name(runner))}"
