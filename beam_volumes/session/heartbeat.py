"""Slabs say how far they are, window by window, for those who watch the run."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from beam_volumes.runs.journal import Journal
from beam_volumes.runs.progress import Parts
from beam_volumes.storage.places.place import is_local

#: Told what part of a slab is done.
OnPart = Callable[[float], None]

#: Seconds between two words of a process in a journal; no slab that takes less is spoken of.
_PAUSE = 1.0


@contextlib.contextmanager
def reported(
    parts: Parts | None,
    journal: Journal | None,
    pass_index: int,
    slab: int,
    stop: Callable[[], None] | None = None,
) -> Iterator[OnPart]:
    """What a sweep is to call after each window; while the context lasts, the slab is under way.

    Parameters
    ----------
    parts : Parts or None
        Where that is kept in this process.
    journal : Journal or None
        Else a journal on a disk says so, once a second: in a bucket every word would be a request.
    pass_index, slab : int
    stop : callable, optional
        Called with each window too; raises to stop the sweep.
    """
    written = None
    if parts is None and journal is not None and is_local(journal.spec):
        written = _of(journal)
        parts = written.parts

    def on_progress(part: float) -> None:
        if stop is not None:
            stop()
        if parts is not None:
            parts.tell(pass_index, slab, part)
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
    """The parts of a run in this process, as its journal is told of them."""

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
        """Tell the journal, unless it was told just now."""
        with self._lock:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + _PAUSE
        with contextlib.suppress(OSError, ValueError):  # it is for those who watch, nothing more
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
