"""The progress of a run, from its journal on any runner, or from memory without one."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Protocol

from beam_volumes.runs.journal import Journal, Tally
from beam_volumes.runs.notes import Compiling
from beam_volumes.runs.summary import Costs, Summary
from beam_volumes.storage.places.place import is_local

_LOG = logging.getLogger(__name__)

#: Maximum folders listed, and records read, in one update.
_FOLDERS, _RECORDS = 32, 1000


@dataclass(frozen=True)
class Work:
    """The work of one pass."""

    name: str
    slabs: int
    nbytes: int = 0  #: Bytes that it will read and write.
    cost: float = 0.0  #: Its cost relative to other passes, in any common unit.
    unit: str = "slabs"  #: Its parts.


@dataclass(frozen=True)
class Progress:
    """The progress of one pass."""

    index: int
    passes: int
    name: str
    #: Numbers of finished slabs, and of all slabs.
    done: int
    total: int
    #: Seconds since the beginning of the pass.
    seconds: float
    #: Bytes read and written per second; 0 while unknown.
    bytes_per_second: float
    #: Estimated seconds until the end of the last pass.
    eta: float | None
    #: The kernel that a worker is compiling; ``seconds`` include the time until now.
    compiling: Compiling | None = None
    #: Whether compilations are reported, which needs a journal on a disk.
    compiling_is_known: bool = False
    #: Finished shares of running slabs, in slabs.
    under_way: float = 0.0
    #: Parts that are counted: slabs, or e.g. pairs of a registration.
    unit: str = "slabs"

    @property
    def finished(self) -> bool:
        """Whether this pass is finished."""
        return self.done >= self.total


#: Compilations that seem to take longer belong to killed processes.
_LONGEST = 300.0


class Parts:
    """The finished share of each running slab, and the number of finished slabs; thread-safe.

    >>> parts = Parts()
    >>> parts.report(0, 7, 0.25)
    >>> parts.finish(0, 6)
    >>> parts.under_way(0), parts.finished(0)
    ({7: 0.25}, 1)
    """

    def __init__(self) -> None:
        #: The kernel that the process is compiling.
        self.compiling: Compiling | None = None
        self._lock = threading.Lock()
        self._parts: dict[tuple[int, int], float] = {}
        self._finished: Counter[int] = Counter()

    def report(self, pass_index: int, slab: int, part: float) -> None:
        """Set the finished share of a slab."""
        with self._lock:
            self._parts[pass_index, slab] = part

    def finish(self, pass_index: int, slab: int) -> None:
        """Count a slab as finished."""
        self.drop(pass_index, slab)
        with self._lock:
            self._finished[pass_index] += 1

    def drop(self, pass_index: int, slab: int) -> None:
        """Forget a slab."""
        with self._lock:
            self._parts.pop((pass_index, slab), None)

    def finished(self, pass_index: int) -> int:
        """The number of finished slabs of a pass."""
        with self._lock:
            return self._finished[pass_index]

    def under_way(self, pass_index: int) -> dict[int, float]:
        """The finished share of running slabs, by slab."""
        with self._lock:
            return {slab: part for (k, slab), part in self._parts.items() if k == pass_index}

    def all(self) -> list[tuple[int, int, float]]:
        """Passes, slabs and finished shares of all running slabs."""
        with self._lock:
            return [(k, slab, part) for (k, slab), part in self._parts.items()]


#: A context that watches a journal, or the parts of a run without one.
Watching = Callable[[Journal | Parts], AbstractContextManager[Any]]

#: A callback for progress: called in the driver from time to time and at the end of each pass.
OnProgress = Callable[[Progress], None]


def unwatched(followed: Journal | Parts) -> AbstractContextManager[Any]:
    """A `Watching` that does nothing."""
    return nullcontext()


class Watch:
    """Counts finished slabs and shares of others in the driver, and calls a callback.

    `poll` is called repeatedly, or by a thread within the context. Records are added up for `summary`.
    """

    # Errors of the storage are ignored for a while. An update lists a bounded number of folders. In a bucket,
    # where listings cost money, updates are at least five seconds apart.

    def __init__(
        self,
        followed: Journal | Parts,
        passes: Sequence[Work],
        on_progress: OnProgress | None,
        *,
        interval: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._passes = passes
        self._looks: _Looks = (
            _OfParts(followed) if isinstance(followed, Parts) else _OfJournal(followed, passes)
        )
        self._is_shown = on_progress is not None
        self._on_progress: OnProgress = on_progress or (lambda _: None)
        self._interval = interval or self._looks.interval
        self._remaining = Remaining(_weights(passes))
        self._clock = clock
        self._index = 0  # index of the running pass
        self._began: tuple[float, float] | None = None  # time and progress at the first update
        self._asked: float | None = None  # time of the first update before anything has begun
        self._next = float("-inf")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def poll(self, *, now: bool = False) -> None:
        """Update and report, if the last update is long enough ago or if ``now``."""
        time_ = self._clock()
        if not now and time_ < self._next:
            return
        try:
            if self._looks.begun():
                self._look(None if now else _FOLDERS)
            elif not now:
                self._wait(time_)
        except (OSError, ValueError) as error:
            _LOG.warning("progress is not known: %s", error)
        # Slow listings are done less often.
        spent = self._clock() - time_
        self._next = self._clock() + max(self._interval, 10 * spent)

    def summary(self) -> Summary | None:
        """The cost of the run so far, if there is a journal."""
        return self._looks.summary()

    def close(self) -> None:
        """Update a last time, and close the callback if it has a ``close``."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._is_shown:
            self.poll(now=True)
        getattr(self._on_progress, "close", lambda: None)()

    def __enter__(self) -> Watch:
        # Without a callback the thread only reads records; `summary` can read a few in one step.
        if self._is_shown or sum(work.slabs for work in self._passes) > _RECORDS:
            self._thread = threading.Thread(target=self._run, name="bv-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.poll()

    def _wait(self, now: float) -> None:
        """Report that nothing has begun: pipelines need time to start."""
        if not self._passes:
            return
        self._asked = now if self._asked is None else self._asked
        work = self._passes[0]
        waited = now - self._asked
        known = self._looks.is_local
        self._on_progress(
            Progress(
                0,
                len(self._passes),
                work.name,
                0,
                max(1, work.slabs),
                waited,
                0.0,
                None,
                None,
                known,
                unit=work.unit,
            )
        )

    def _look(self, maximum: int | None) -> None:
        while self._index < len(self._passes):
            now = self._clock()
            done, under_way = self._looks.look(self._index, maximum)
            if self._began is None:
                self._began = now, done + under_way
            progress = self._progress(now, done, under_way)
            self._on_progress(progress)
            if not progress.finished:
                return
            self._index, self._began = self._index + 1, None

    def _progress(self, now: float, done: int, under_way: float) -> Progress:
        work = self._passes[self._index]
        assert self._began is not None
        began, before = self._began
        seconds = now - began
        part = (done + under_way) / work.slabs if work.slabs else 1.0
        rate = (done + under_way - before) / seconds if seconds > 0 else 0.0  # slabs per second
        return Progress(
            self._index,
            len(self._passes),
            work.name,
            done,
            work.slabs,
            seconds,
            rate * work.nbytes / max(1, work.slabs),
            self._remaining.update(self._index, part, now),
            self._looks.compiling() if done < work.slabs else None,
            self._looks.is_local,
            under_way,
            work.unit,
        )


def _weights(passes: Sequence[Work]) -> list[float]:
    """The relative costs of passes."""
    for found in ([w.cost for w in passes], [float(w.nbytes) for w in passes]):
        if all(found):
            return found
    return [float(w.slabs) for w in passes]


class _Looks(Protocol):
    """The source of progress for a `Watch`."""

    is_local: bool
    interval: float

    def begun(self) -> bool: ...

    def look(self, index: int, maximum: int | None) -> tuple[int, float]: ...

    def compiling(self) -> Compiling | None: ...

    def summary(self) -> Summary | None: ...


class _OfParts:
    """Progress of slabs of this process."""

    is_local, interval = True, 0.25

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def begun(self) -> bool:
        return True

    def look(self, index: int, maximum: int | None) -> tuple[int, float]:
        return self._parts.finished(index), sum(self._parts.under_way(index).values())

    def compiling(self) -> Compiling | None:
        now = self._parts.compiling
        return now and replace(now, seconds=now.seconds + time.time() - now.began)

    def summary(self) -> Summary | None:
        return None


class _OfJournal:
    """Progress from a journal; also adds up the costs in records."""

    def __init__(self, journal: Journal, passes: Sequence[Work]) -> None:
        self._journal = journal
        self._tallies = [Tally(journal, k, work.slabs) for k, work in enumerate(passes)]
        self._costs = Costs(journal)
        self.is_local = is_local(journal.spec)
        self.interval = 0.5 if self.is_local else 5.0
        self._since = time.time()
        self._is_begun = False

    def begun(self) -> bool:
        """Whether the folder belongs to this run yet, not to a run that it replaces."""
        if not self._is_begun:
            manifest = Journal.load(self._journal.spec)
            self._is_begun = manifest is not None and manifest.run_id == self._journal.run_id
        return self._is_begun

    def look(self, index: int, maximum: int | None) -> tuple[int, float]:
        """The number of finished slabs of a pass, and the finished shares of others."""
        tally = self._tallies[index]
        parts: dict[int, float] = {}
        if self.is_local:  # first, so that a slab that ends now is not counted twice
            parts = self._journal.under_way(index, self._since)
        done = tally.update(maximum).done
        with suppress(OSError, ValueError):  # `summary` reports damaged records
            self._costs.add(index, tally, _RECORDS)
        return done, sum(part for slab, part in parts.items() if not tally.is_done(slab))

    def compiling(self) -> Compiling | None:
        if not self.is_local:
            return None
        now = time.time()
        begun = [c for c in self._journal.compiling() if c.began > max(self._since, now - _LONGEST)]
        last = max(begun, key=lambda c: c.began, default=None)
        return last and replace(last, seconds=last.seconds + now - last.began)

    def summary(self) -> Summary:
        for k, tally in enumerate(self._tallies):
            tally.update()
            while tally.new or tally.filled:
                self._costs.add(k, tally, _RECORDS)
        return self._costs.summary(self._tallies)


def last_started(journal: Journal, slabs: Sequence[int], maximum: int = 5) -> list[tuple[int, int]]:
    """The (pass, slab) in flight in a run with given numbers of slabs, latest first."""
    for k, total in enumerate(slabs):
        if found := Tally(journal, k, total).update().in_flight():
            return [(k, slab) for slab in found[:maximum]]
    return []


#: Longer estimates are ignored up to this factor.
_SLOWER = 1.5


class Remaining:
    """Estimates the seconds until the end of the last pass, from the relative costs of passes, ``weights``.

    One pass of four steps: the first takes 20 seconds, each other one second:

    >>> left = Remaining([10.0])
    >>> [left.update(0, part, now) for part, now in [(0, 0), (0.25, 20), (0.5, 21), (0.75, 22)]]
    [None, 60.0, 2.0, 1.0]
    >>> left.update(0, 0.75, 22.5), left.update(0, 0.75, 60)
    (0.5, 0.0)
    """

    # The time before the first step of a pass (start of workers, compilation) does not predict later steps.
    # The pace is measured from the first step on, as soon as there is another; until then the pace of the
    # previous pass is used. Between two steps the estimate decreases by at most the time of a step, so it
    # does not reach 0 too early.

    def __init__(self, weights: Sequence[float]) -> None:
        self._before = [0.0, *accumulate(weights)]
        self._index = -1
        self._seconds: float | None = None  # seconds for a unit of weight
        self._reported: float | None = None

    def update(self, index: int, part: float, now: float) -> float | None:
        """The remaining seconds, after ``part`` of a pass is done; None while unknown."""
        if index != self._index:
            self._index = index
            self._first = self._last = (now, part)
            self._steps = 0
        if part > self._last[1]:
            self._step(part, now)
        if self._seconds is None:
            return None
        at, done = self._last
        weight = self._before[index + 1] - self._before[index]
        left = (self._before[-1] - self._before[index] - weight * done) * self._seconds
        left -= min(now - at, self._pace)
        if self._reported is not None and self._reported < left <= _SLOWER * self._reported:
            return self._reported
        self._reported = max(0.0, left)
        return self._reported

    def _step(self, part: float, now: float) -> None:
        began, before = self._first
        if self._steps == 1:
            began, before = self._first = self._last
        self._steps += 1
        self._last = now, part
        weight = self._before[self._index + 1] - self._before[self._index]
        known = self._seconds is not None and self._steps == 1  # from the previous pass
        if now > began and weight and not known:
            self._seconds = (now - began) / ((part - before) * weight)

    @property
    def _pace(self) -> float:
        """Seconds between two steps."""
        return (self._last[0] - self._first[0]) / max(1, self._steps - 1)
