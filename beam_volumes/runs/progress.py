"""How far a run is, from its journal: the same on every runner. A run without one says it in memory."""

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

#: Folders that are listed in a look, and records that are read to be added up.
_FOLDERS, _RECORDS = 32, 1000


@dataclass(frozen=True)
class Work:
    """What one pass has to do."""

    name: str
    slabs: int
    nbytes: int = 0  #: That it will read and write.
    cost: float = 0.0  #: What it will take beside other passes, in any unit that all of them have.


@dataclass(frozen=True)
class Progress:
    """How far one pass is.

    Attributes
    ----------
    index, passes : int
        Which pass of how many.
    name : str
        Of the pass.
    done, total : int
        Slabs.
    seconds : float
        Since the pass was seen to begin.
    bytes_per_second : float
        Read and written in that time; 0 while nothing is known.
    eta : float or None
        Seconds until the last pass ends, if it goes on like this.
    compiling : Compiling or None
        What a worker compiles just now; ``seconds`` are up to now.
    compiling_is_known : bool
        Whether that is told: where the journal is on a disk.
    under_way : float
        What is done of slabs that are not finished, in slabs.
    """

    index: int
    passes: int
    name: str
    done: int
    total: int
    seconds: float
    bytes_per_second: float
    eta: float | None
    compiling: Compiling | None = None
    compiling_is_known: bool = False
    under_way: float = 0.0

    @property
    def finished(self) -> bool:
        """Whether this pass is."""
        return self.done >= self.total


#: Seconds that no kernel takes: whoever has begun one before that was killed.
_LONGEST = 300.0


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


#: What follows a journal, or the parts of a run without one, while a run goes on.
Watching = Callable[[Journal | Parts], AbstractContextManager[Any]]

#: What is told of progress: called in the driver, now and then and at the end of each pass.
OnProgress = Callable[[Progress], None]


def unwatched(followed: Journal | Parts) -> AbstractContextManager[Any]:
    """A `Watching` that does nothing."""
    return nullcontext()


class Watch:
    """Counts finished slabs and parts of others in the driver, and tells a callback.

    Call `poll` now and then, or use it as a context manager that does so in a thread. What a journal's
    records have cost is added up meanwhile, for `summary`. A journal
    that cannot be read for a moment disturbs nothing. A look lists a bounded number of folders, and in a
    bucket, where a listing is paid for, there is one every five seconds.
    """

    def __init__(
        self,
        followed: Journal | Parts,
        passes: Sequence[Work],
        on_progress: OnProgress,
        *,
        interval: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._passes = passes
        self._looks: _Looks = (
            _OfParts(followed) if isinstance(followed, Parts) else _OfJournal(followed, passes)
        )
        self._on_progress = on_progress
        self._interval = interval or self._looks.interval
        self._remaining = Remaining(_weights(passes))
        self._clock = clock
        self._index = 0  # of the pass that is under way
        self._began: tuple[float, float] | None = None  # when it was first seen, and how far then
        self._asked: float | None = None  # when it was first looked, and nothing had begun
        self._next = float("-inf")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def poll(self, *, now: bool = False) -> None:
        """Look and tell, if the last look is long enough ago or if ``now``."""
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
        # Where listing is slow, it is done less often.
        spent = self._clock() - time_
        self._next = self._clock() + max(self._interval, 10 * spent)

    def summary(self) -> Summary | None:
        """What the run has cost so far, if a journal tells: most of it was added up while it went on."""
        return self._looks.summary()

    def close(self) -> None:
        """Look a last time, and let the callback end its line if it has a ``close``."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.poll(now=True)
        getattr(self._on_progress, "close", lambda: None)()

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._run, name="bv-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.poll()

    def _wait(self, now: float) -> None:
        """Tell that nothing has begun yet: a pipeline takes its time to start."""
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
        rate = (done + under_way - before) / seconds if seconds > 0 else 0.0  # slabs a second
        return Progress(
            self._index,
            len(self._passes),
            work.name,
            done,
            work.slabs,
            seconds,
            rate * work.nbytes / max(1, work.slabs),
            self._remaining.seen(self._index, part, now),
            self._looks.compiling() if done < work.slabs else None,
            self._looks.is_local,
            under_way,
        )


def _weights(passes: Sequence[Work]) -> list[float]:
    """What passes take, beside each other."""
    for found in ([w.cost for w in passes], [float(w.nbytes) for w in passes]):
        if all(found):
            return found
    return [float(w.slabs) for w in passes]


class _Looks(Protocol):
    """Where a `Watch` looks."""

    is_local: bool
    interval: float

    def begun(self) -> bool: ...

    def look(self, index: int, most: int | None) -> tuple[int, float]: ...

    def compiling(self) -> Compiling | None: ...

    def summary(self) -> Summary | None: ...


class _OfParts:
    """Looks at what slabs of this process say."""

    is_local, interval = True, 0.25

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def begun(self) -> bool:
        return True

    def look(self, index: int, most: int | None) -> tuple[int, float]:
        return self._parts.finished(index), sum(self._parts.under_way(index).values())

    def compiling(self) -> Compiling | None:
        now = self._parts.compiling
        return now and replace(now, seconds=now.seconds + time.time() - now.began)

    def summary(self) -> Summary | None:
        return None


class _OfJournal:
    """Looks at a journal, and adds up what its records have cost."""

    def __init__(self, journal: Journal, passes: Sequence[Work]) -> None:
        self._journal = journal
        self._tallies = [Tally(journal, k, work.slabs) for k, work in enumerate(passes)]
        self._costs = Costs(journal)
        self.is_local = is_local(journal.spec)
        self.interval = 0.5 if self.is_local else 5.0
        self._since = time.time()
        self._is_begun = False

    def begun(self) -> bool:
        """Whether the folder is this run's: until then it may hold the records of one that is replaced."""
        if not self._is_begun:
            manifest = Journal.load(self._journal.spec)
            self._is_begun = manifest is not None and manifest.run_id == self._journal.run_id
        return self._is_begun

    def look(self, index: int, most: int | None) -> tuple[int, float]:
        """How many slabs of a pass are finished, and what is done of others, in slabs."""
        tally = self._tallies[index]
        parts: dict[int, float] = {}
        if self.is_local:  # first: a slab that ends meanwhile is not counted twice
            parts = self._journal.under_way(index, self._since)
        done = tally.update(most).done
        with suppress(OSError, ValueError):  # `summary` tells of a record that is damaged
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
    """The (pass, slab) in flight in a run whose passes have so many slabs, those started last first."""
    for k, total in enumerate(slabs):
        if found := Tally(journal, k, total).update().in_flight():
            return [(k, slab) for slab in found[:maximum]]
    return []


#: An estimate that is longer than what was said before, by no more than this, is not worth a word.
_SLOWER = 1.5


class Remaining:
    """Estimates from what was seen how long the last pass will end from now.

    What happens before the first step of a pass (workers start, kernels are compiled) says nothing of those
    to come: the pace is that from the first step on, as soon as there is another; until then that of the pass
    before. Between two steps time goes
    down, but for no longer than a step takes, so that nothing is said to be over before it is. Passes to
    come are held to take as long as their weights say.

    ``weights``: what passes take, beside each other.

    One pass of four steps, the first of which takes 20 seconds and the others one:

    >>> left = Remaining([10.0])
    >>> [left.seen(0, part, now) for part, now in [(0, 0), (0.25, 20), (0.5, 21), (0.75, 22)]]
    [None, 60.0, 2.0, 1.0]
    >>> left.seen(0, 0.75, 22.5), left.seen(0, 0.75, 60)
    (0.5, 0.0)
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self._before = [0.0, *accumulate(weights)]
        self._index = -1
        self._seconds: float | None = None  # that a unit of weight takes
        self._said: float | None = None

    def seen(self, index: int, part: float, now: float) -> float | None:
        """What is left in seconds, as ``part`` of a pass is done; None while nothing is known."""
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
        if self._said is not None and self._said < left <= _SLOWER * self._said:
            return self._said
        self._said = max(0.0, left)
        return self._said

    def _step(self, part: float, now: float) -> None:
        began, before = self._first
        if self._steps == 1:
            began, before = self._first = self._last
        self._steps += 1
        self._last = now, part
        weight = self._before[self._index + 1] - self._before[self._index]
        known = self._seconds is not None and self._steps == 1  # by the pass before
        if now > began and weight and not known:
            self._seconds = (now - began) / ((part - before) * weight)

    @property
    def _pace(self) -> float:
        """Seconds between two steps."""
        return (self._last[0] - self._first[0]) / max(1, self._steps - 1)
