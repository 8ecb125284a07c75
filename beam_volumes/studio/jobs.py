"""Work in threads that can be stopped: the latest request of a kind, and runs with progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from beam_volumes.drive.compute import Outcome
from beam_volumes.runs.progress import Progress
from beam_volumes.session.local import Stopped

T = TypeVar("T")


class Replaced(Exception):
    """A job was stopped, or replaced by a later one."""


class Latest:
    """Does one job at a time; a new one stops and replaces those before it.

    >>> latest = Latest()
    >>> latest.submit(lambda stop: stop.is_set()).result()
    False
    >>> latest.close()
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="studio")
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def submit(self, job: Callable[[threading.Event], T]) -> Future[T]:
        """Start a job that is given an event: once it is set, the job should stop.

        The future of a job that was replaced or stopped raises `Replaced`.
        """
        with self._lock:
            self._stop.set()
            self._stop = stop = threading.Event()
            return self._pool.submit(_unless, stop, job)

    def stop(self) -> None:
        """Stop the job."""
        with self._lock:
            self._stop.set()

    def close(self) -> None:
        """Stop the job, and accept no others."""
        self.stop()
        self._pool.shutdown(wait=False)


def _unless(stop: threading.Event, job: Callable[[threading.Event], T]) -> T:
    if stop.is_set():
        raise Replaced
    try:
        return job(stop)
    except Stopped:
        raise Replaced from None


class Run:
    """A run in a thread: its progress, and how it ended.

    ``start`` runs with a function for `Progress` and an event that stops the run; it returns the outcome.
    """

    def __init__(
        self, start: Callable[[Callable[[Progress], None], threading.Event], Outcome]
    ) -> None:
        self.progress: Progress | None = None
        self.outcome: Outcome | None = None
        #: The message of an error, and whether the run was stopped before its end.
        self.error, self.was_stopped = "", False
        self._stop = threading.Event()
        self._start = start
        self._thread = threading.Thread(target=self._work, name="studio run", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def part(self) -> float:
        """The finished part of the run, from 0 to 1."""
        p = self.progress
        if p is None:
            return float(self.outcome is not None)
        return (p.index + (p.done + p.under_way) / max(1, p.total)) / max(1, p.passes)

    def stop(self) -> None:
        """Stop the run after its current windows; it can be resumed."""
        self._stop.set()

    def wait(self) -> None:
        """Wait for the end of the run."""
        self._thread.join()

    def _work(self) -> None:
        try:
            self.outcome = self._start(self._note, self._stop)
        except Stopped:
            self.was_stopped = True
        except Exception as error:  # shown to the user
            self.error = str(error) or type(error).__name__

    def _note(self, progress: Any) -> None:
        self.progress = progress
