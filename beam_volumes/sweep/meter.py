"""What sweeps spend their time on, for those who ask; a sweep without a meter measures nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Activity:
    """Something that a sweep does."""

    #: {"read", "stage", "fold", "survey", "pad", "check", "write"}. ``pad`` fills in what lies
    #: beyond the volume's edges, ``check`` takes the checksums of what is written.
    kind: str
    index: int  #: Of the step, or among the program's folds, surveys or outputs.
    name: str


@dataclass
class Spent:
    """Seconds by the clock, in which the sweep did this and nothing else, and of processors."""

    wall: float = 0.0
    cpu: float = 0.0


class Meter:
    """Adds up seconds by activity.

    Those of processors are the whole process's: they are an activity's own where sweeps follow one
    another and, as a meter with ``alone`` asks them to, neither read ahead nor write behind.

    >>> meter = Meter()
    >>> with meter.timed(Activity("stage", 1, "exp")):
    ...     _ = sum(range(1000))
    >>> [a.name for a, spent in meter.spent.items() if spent.wall > 0]
    ['exp']
    """

    def __init__(self, alone: bool = False) -> None:
        self.alone = alone
        self.spent: dict[Activity, Spent] = {}
        self._lock = threading.Lock()

    @contextmanager
    def timed(self, activity: Activity) -> Iterator[None]:
        """Count what passes meanwhile."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            with self._lock:
                spent = self.spent.setdefault(activity, Spent())
                spent.wall += wall
                spent.cpu += cpu
