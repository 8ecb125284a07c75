"""Saying in a run's journal what its processes compile, so that nobody takes it for a hang."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from beam_volumes.kernels.jit import compilations
from beam_volumes.runs.journal import Compiling, Journal
from beam_volumes.storage.place import is_local

_lock = threading.Lock()
_tellers: dict[str, _Teller] = {}


@contextlib.contextmanager
def compilation_told(journal: Journal | None) -> Iterator[None]:
    """While the context lasts, a journal says what this process compiles.

    Only a journal on a disk does: in a bucket every word would be a request, from every worker.
    """
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
        seconds = sum(c.seconds for c in self._found)
        what = kernel and Compiling(kernel, len(self._found), seconds, time.time())
        with contextlib.suppress(OSError, ValueError):  # it is for those who watch, nothing more
            self.journal.write_compiling(what or None)
