"""Progress reports of a process: its slabs, and the kernels that it compiles."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from beam_volumes.kernels.jit import Compiled, compilations
from beam_volumes.runs.journal import Journal
from beam_volumes.runs.notes import Compiling
from beam_volumes.runs.progress import Parts
from beam_volumes.storage.places.place import is_local

#: Called with the finished share of a slab.
OnPart = Callable[[float], None]

#: Seconds between two reports of a process in a journal; shorter slabs are not reported.
_PAUSE = 1.0


@contextlib.contextmanager
def reported(
    parts: Parts | None,
    journal: Journal | None,
    pass_index: int,
    slab: int,
    stop: Callable[[], None] | None = None,
) -> Iterator[OnPart]:
    """Report a slab as running; yields the function that a sweep calls after each window.

    ``stop`` is called with each window, and raises to stop the sweep.
    """
    # The report is kept in the parts of this process, or written once a second to a journal on a disk. In a
    # bucket each would be a request.
    written = None
    if parts is None and journal is not None and is_local(journal.spec):
        written = _of(journal)
        parts = written.parts

    def on_progress(part: float) -> None:
        if stop is not None:
            stop()
        if parts is not None:
            parts.report(pass_index, slab, part)
        if written is not None:
            written.write()

    if written is not None:
        written.enter()
    try:
        yield on_progress
        if parts is not None:
            parts.finish(pass_index, slab)
    finally:
        if parts is not None:
            parts.drop(pass_index, slab)
        if written is not None:
            written.leave()


class _Written:
    """The parts of a run in this process, written to its journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.parts, self.users = journal, Parts(), 0
        self._lock = threading.Lock()
        self._next = 0.0

    def enter(self) -> None:
        with self._lock:
            self.users += 1
            if self.users == 1:
                self._next = time.monotonic() + _PAUSE

    def leave(self) -> None:
        with self._lock:
            self.users -= 1

    def write(self) -> None:
        """Write to the journal at most once a second."""
        with self._lock:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + _PAUSE
        with contextlib.suppress(OSError, ValueError):  # progress alone is lost
            self.journal.write_under_way(self.parts.all())


_lock = threading.Lock()
_runs: dict[str, _Written] = {}


def _of(journal: Journal) -> _Written:
    with _lock:
        if journal.run_id not in _runs:
            for run in [r for r, written in _runs.items() if not written.users]:
                del _runs[run]
            _runs[journal.run_id] = _Written(journal)
        return _runs[journal.run_id]


_reports: dict[str, _CompilationReport] = {}


@contextlib.contextmanager
def reported_compilations(journal: Journal | Parts | None) -> Iterator[None]:
    """Report the kernels that this process compiles, so that it does not seem to hang."""
    # The report is written to a journal on a disk, or kept in the parts of a run without a journal. In a
    # bucket each report would be a request from every worker.
    if isinstance(journal, Parts):
        with _compilations_in_memory(journal):
            yield
        return
    if journal is None or not is_local(journal.spec):
        yield
        return
    with _lock:
        # Kept until another run begins, to count all of this run.
        for run in [r for r, t in _reports.items() if not t.users and r != journal.run_id]:
            _reports.pop(run).close()
        if journal.run_id not in _reports:
            _reports[journal.run_id] = _CompilationReport(journal)
        report = _reports[journal.run_id]
        report.users += 1
    try:
        yield
    finally:
        with _lock:
            report.users -= 1


@contextlib.contextmanager
def _compilations_in_memory(parts: Parts) -> Iterator[None]:
    def write(kernel: str | None) -> None:
        parts.compiling = _compiling(kernel, found)

    with compilations(write) as found:
        yield


def _compiling(kernel: str | None, found: Sequence[Compiled]) -> Compiling | None:
    seconds = sum(c.seconds for c in found)
    return Compiling(kernel, len(found), seconds, time.time()) if kernel else None


class _CompilationReport:
    """Writes compilations to a journal while it has users."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.users = journal, 0
        self._listening = contextlib.ExitStack()
        self._found = self._listening.enter_context(compilations(self._write))

    def close(self) -> None:
        self._listening.close()

    def _write(self, kernel: str | None) -> None:
        if not self.users:
            return
        with contextlib.suppress(OSError, ValueError):  # progress alone is lost
            self.journal.write_compiling(_compiling(kernel, self._found))
