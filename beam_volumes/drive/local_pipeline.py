"""Run a session as a pipeline on this machine, in a separate driver process.

FnApiRunner waits for ever for a killed worker, so the driver process is supervised. The caller does
not import Beam: the server that the driver process is forked from has done so
(`drive.fork_server`).
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any

from beam_volumes.base.text import printable
from beam_volumes.drive.supervise import call_supervised
from beam_volumes.plan.cost.memory import LOCAL_PIPELINE
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs import Journal
from beam_volumes.runs.failure import new_secret, unmarked
from beam_volumes.runs.progress import Watching, last_started, unwatched
from beam_volumes.session.local import Drive
from beam_volumes.session.merging import numbers_of
from beam_volumes.session.session import Session
from beam_volumes.storage.places import temporary
from beam_volumes.storage.places.place import join, kvstore_spec

_LOG = logging.getLogger(__name__)

#: Errors with a clear message, for which the log is not needed.
_CLEAR = (ValueError, TypeError, OSError, OverflowError)
_TAIL = 4000


def local_launcher(options: RunOptions) -> tuple[Drive, RunOptions]:
    """Return the result of `launch.launcher` for FnApiRunner without Beam options."""
    return Here(), replace(options, processes=1, base=LOCAL_PIPELINE)


@dataclass(frozen=True)
class Here:
    """Runs sessions by FnApiRunner in a supervised driver process; ``options`` are Beam's."""

    options: Any = None

    def __call__(self, session: Session, watching: Watching = unwatched) -> dict[str, Any]:
        with (
            reporting(session, None) as (reported, journal),
            tempfile.TemporaryFile() as log,
            watching(journal),
            temporary.folder() as messages,
        ):
            reported = replace(reported, messages=messages)
            try:
                call_supervised(
                    partial(_run_here, reported, self.options),
                    watch=lambda: last_words(session, journal),
                    output=log,
                )
            except _CLEAR:
                raise
            except Exception:
                _LOG.error("the log of the run ends with:\n%s", log_tail(log, reported.secret))
                raise
            return numbers(session.plan, journal)


def _run_here(session: Session, options: Any) -> None:
    from beam_volumes.drive.pipelines import run_here

    run_here(session, options)


def last_words(session: Session, journal: Journal) -> str:
    """Return the slabs that were in progress when a run failed, and how to continue."""
    passes = session.plan.passes
    started = last_started(journal, [len(p.grid) for p in passes])
    slabs = ", ".join(f"pass {k + 1} slab {i} {passes[k].grid.box(i)}" for k, i in started)
    again = "run again with resume=True to continue" if session.journal is not None else "run again"
    return f"The last slabs started: {slabs or 'none'}; {again}"


def log_tail(log: IO[bytes], secret: str) -> str:
    """Return the end of a driver process's log."""
    log.seek(max(0, log.seek(0, io.SEEK_END) - 100 * _TAIL))
    return printable(unmarked(log.read().decode(errors="replace"), secret)[-_TAIL:])


# numbers that are returned


@contextlib.contextmanager
def reporting(session: Session, place: str | None) -> Iterator[tuple[Session, Journal]]:
    """Yield the session for workers, with a secret that marks its errors, and its journal.

    ``place`` is a folder for the temporary journal of a run without one, accessible to workers.
    """
    session = replace(session, secret=new_secret())
    if session.journal is not None:
        yield session, session.journal
        return
    folder = None if place else temporary.make()
    spec = join(
        kvstore_spec(place or str(folder)), f"beam-volumes-{session.run_id}", directory=True
    )
    journal = Journal(spec, session.run_id, attempts=session.plan.processes > 1)
    try:
        yield replace(session, journal=journal), journal
    finally:
        journal.remove()
        if folder is not None:
            temporary.remove(folder)


def numbers(plan: Plan, journal: Journal) -> dict[str, Any]:
    """Return the numbers of every pass."""
    known: dict[str, Any] = {}
    for p in plan.passes:
        if p.program.folds or p.program.surveys:
            known.update(numbers_of(journal, p.index))
    return known
