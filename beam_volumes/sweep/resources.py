"""Resources that all sweeps of a process share: threads, arenas, and cached objects."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np

from beam_volumes.base.nesting import check_not_nested

Result = TypeVar("Result")

_ALIGN = 64
#: Voxels that are worth a thread.
_WORTHWHILE = 16384
#: Seconds that small steps of merges may take together before their free memory returns to the system.
_SHORT = 0.1
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_threads = 0
_next_trim = 0.0
#: Objects that are cached between sweeps, such as networks, and functions that drop them.
_cached: dict[str, Callable[[], None]] = {}


class Arena:
    """One piece of memory for the rings of a sweep, kept from slab to slab.

    Reading into memory that was used before is up to twice as fast, and one piece causes no
    fragmentation.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)
        #: A `beam_volumes.sweep.device.Device`, if one of its sweeps has used one.
        self.device: Any = None

    def release(self) -> None:
        """Free the memory of its device."""
        device, self.device = self.device, None
        if device is not None:
            device.close()

    def cut(self, shapes: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
        """Arrays of the given shapes and dtypes, uninitialised, valid until the next call."""
        sizes = [int(np.prod(s, dtype=np.int64)) * d.itemsize for s, d in shapes]
        room = sum(aligned(n) for n in sizes) + _ALIGN
        if room > self._bytes.size:
            self._bytes = np.empty(0, np.uint8)  # free the old piece first
            self._bytes = np.empty(room, np.uint8)
        at = -self._bytes.ctypes.data % _ALIGN
        arrays = []
        for (shape, dtype), n in zip(shapes, sizes, strict=True):
            arrays.append(self._bytes[at : at + n].view(dtype).reshape(shape))
            at += aligned(n)
        return arrays


def aligned(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN


class Gate:
    """Admits sweeps in the order in which they arrive, each with an arena."""

    def __init__(self) -> None:
        self._idle: list[Arena] = []
        self._running = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()
        #: Whether merges have run since the last new arena.
        self._has_merged = False

    @contextmanager
    def admitted(self, width: int) -> Iterator[Arena]:
        """Wait for this sweep's turn, and until fewer than ``width`` sweeps are running."""
        check_not_nested()
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            try:
                while self._waiting[0] is not turn or self._running >= width:
                    self._changed.wait()
                self._running += 1
            finally:  # also if waiting is interrupted
                self._waiting.remove(turn)
                self._changed.notify_all()
            arena = self._idle.pop() if self._idle else None
        if arena is None:
            self._trim()
            arena = Arena()
        try:
            yield arena
        finally:
            with self._changed:
                self._running -= 1
                self._idle.append(arena)
                self._changed.notify_all()

    def note_merge(self) -> None:
        """Note that a step of a merge runs."""
        self._has_merged = True

    def _trim(self) -> None:
        """Return the memory of merges, which glibc keeps in small pieces, before a sweep takes its own."""
        if self._has_merged:
            self._has_merged = False
            trim_heap()

    def release(self) -> bool:
        """Free the memory of unused arenas; return whether there were any."""
        with self._changed:
            idle, self._idle = self._idle, []
        for arena in idle:
            arena.release()
        return bool(idle)


#: One for the process, for all threads and runs.
gate = Gate()


def make_room() -> None:
    """Give the memory of sweeps and steps that have ended back to the system, for a step of a merge."""
    gate.note_merge()
    if gate.release() or time.monotonic() > _next_trim:
        trim_heap()


def trim_heap() -> None:
    """Give memory that was freed back to the system, where glibc keeps it."""
    global _next_trim
    began = time.monotonic()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    # A heap of many pieces takes long. At most half of the time is spent on it.
    now = time.monotonic()
    _next_trim = now + max(_SHORT, now - began)


@contextmanager
def thin_strips() -> Iterator[None]:
    """Divide small work among threads as well, so that what joins their results runs too."""
    global _WORTHWHILE
    before, _WORTHWHILE = _WORTHWHILE, 1
    try:
        yield
    finally:
        _WORTHWHILE = before


def in_strips(
    rows: int, voxels: int, threads: int, work: Callable[[int, int], Result]
) -> list[Result]:
    """Call ``work(y0, y1)`` for strips of rows in threads; return results in order.

    Small work runs in the calling thread.
    """
    return start_strips(rows, voxels, threads, work)()


def start_strips(
    rows: int, voxels: int, threads: int, work: Callable[[int, int], Result]
) -> Callable[[], list[Result]]:
    """As `in_strips`, but return a function that waits for the results.

    The waiting thread does strips that no other thread has begun, the first one first.
    """
    number = max(1, min(threads, rows, voxels // _WORTHWHILE))
    strips = [(rows * i // number, rows * (i + 1) // number) for i in range(number)]
    if number == 1:
        found = work(*strips[0])
        return lambda: [found]
    pool = _threads(threads)
    # Threads begin with the last strip, so they rarely meet the waiting thread.
    futures = [pool.submit(work, *strip) for strip in strips[::-1]][::-1]

    @cache
    def wait() -> list[Result]:
        try:
            return [
                work(*strip) if future.cancel() else future.result()
                for strip, future in zip(strips, futures, strict=True)
            ]
        finally:
            # No thread may still write into the rings when an error is raised.
            for future in futures:
                if not future.cancel():
                    future.exception()

    return wait


def _threads(threads: int) -> ThreadPoolExecutor:
    global _pool, _pool_threads
    with _lock:
        if _pool is None or _pool_threads < threads:
            _pool = ThreadPoolExecutor(threads, thread_name_prefix="strip")
            _pool_threads = threads
        return _pool


def hold(token: str, drop: Callable[[], None]) -> None:
    """Call ``drop`` when a sweep begins that has no stage with ``token`` as its `Stage.holds`."""
    with _lock:
        _cached[token] = drop


def release_unused(used: Iterable[str]) -> None:
    """Drop all cached objects that are not used; running computations keep their own references.

    >>> hold("network", lambda: print("gone"))
    >>> release_unused({"network"})
    >>> release_unused(set())
    gone
    """
    kept = set(used)
    with _lock:
        gone = [_cached.pop(token) for token in list(_cached) if token not in kept]
    for drop in gone:
        drop()
