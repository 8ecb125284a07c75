"""How far slabs are that are not finished, in the memory of the process that sweeps them."""

from __future__ import annotations

import threading
from collections import Counter

from beam_volumes.runs.journal import Compiling


class Parts:
    """What part of each slab under way is done, and how many slabs are finished; for any thread.

    >>> parts = Parts()
    >>> parts.tell(0, 7, 0.25)
    >>> parts.finish(0, 6)
    >>> parts.under_way(0), parts.finished(0)
    ({7: 0.25}, 1)
    """

    def __init__(self) -> None:
        #: What the process compiles just now.
        self.compiling: Compiling | None = None
        self._lock = threading.Lock()
        self._parts: dict[tuple[int, int], float] = {}
        self._finished: Counter[int] = Counter()

    def tell(self, pass_index: int, slab: int, part: float) -> None:
        """Say what part of a slab is done."""
        with self._lock:
            self._parts[pass_index, slab] = part

    def finish(self, pass_index: int, slab: int) -> None:
        """Say that a slab is finished."""
        self.drop(pass_index, slab)
        with self._lock:
            self._finished[pass_index] += 1

    def drop(self, pass_index: int, slab: int) -> None:
        """Forget what was said of a slab."""
        with self._lock:
            self._parts.pop((pass_index, slab), None)

    def finished(self, pass_index: int) -> int:
        """How many slabs of a pass are finished."""
        with self._lock:
            return self._finished[pass_index]

    def under_way(self, pass_index: int) -> dict[int, float]:
        """By slab what part of it is done."""
        with self._lock:
            return {slab: part for (k, slab), part in self._parts.items() if k == pass_index}

    def all(self) -> list[tuple[int, int, float]]:
        """Passes, slabs and parts of all that are under way."""
        with self._lock:
            return [(k, slab, part) for (k, slab), part in self._parts.items()]
