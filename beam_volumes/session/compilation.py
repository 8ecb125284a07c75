"""Saying in a run's journal what its processes compile, so that nobody takes it for a hang."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

from beam_volumes.kernels.jit import Compiled, compilations
from beam_volumes.runs.journal import Journal
from beam_volumes.runs.notes import Compiling
from beam_volumes.runs.progress import Parts
from beam_volumes.storage.places.place import is_local

_lock = threading.Lock()
_tellers: dict[str, _Teller] = {}


@contextlib.contextmanager
def compilation_told(journal: Journal | Parts | None) -> Iterator[None]:
    """While the context lasts, a journal says what this process compiles.

    Only a journal on a disk does: in a bucket every word would be a request, from every worker. A run
    without a journal says it in memory, in its parts.
    """
    if isinstance(journal, Parts):
        with _told_in_memory(journal):
            yield
        return
    if journal is None or not is_local(journal.spec):
        yield
        return
    with _lock:
        # Kept from slab to slab, so that it counts all of the run's, until there is another run.
        for run in [r for r, t in _tellers.items() if not t.users and r != journal.run_id]:
            _tellers.pop(run).close()
        if journal.run_id not in _tellers:
            _tellers[journal.run_id] = _Teller(journal)
        teller = _tellers[journal.run_id]
        teller.users += 1
    try:
        yield
    finally:
        with _lock:
            teller.users -= 1


@contextlib.contextmanager
def _told_in_memory(parts: Parts) -> Iterator[None]:
    def tell(kernel: str | None) -> None:
        parts.compiling = _compiling(kernel, found)

    with compilations(tell) as found:
        yield


def _compiling(kernel: str | None, found: Sequence[Compiled]) -> Compiling | None:
    seconds = sum(c.seconds for c in found)
    return Compiling(kernel, len(found), seconds, time.time()) if kernel else None


class _Teller:
    """Tells a journal as long as it has users."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.users = journal, 0
        self._listening = contextlib.ExitStack()
        self._found = self._listening.enter_context(compilations(self._tell))

    def close(self) -> None:
        self._listening.close()

    def _tell(self, kernel: str | None) -> None:
        if not self.users:
            return
        with contextlib.suppress(OSError, ValueError):  # it is for those who watch, nothing more
            self.journal.write_compiling(_compiling(kernel, self._found))
