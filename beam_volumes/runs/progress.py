"""How far a run is, from its journal: the same on every runner."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, TextIO

from beam_volumes.runs.journal import Compiling, Journal, Tally
from beam_volumes.runs.summary import Costs, Summary
from beam_volumes.storage.place import is_local
from beam_volumes.text import printable

_LOG = logging.getLogger(__name__)

#: Folders that are listed in a look, and records that are read to be added up.
_FOLDERS, _RECORDS = 32, 1000


@dataclass(frozen=True)
class Work:
    """What one pass has to do: its name, its slabs, and the bytes it will read and write."""

    name: str
    slabs: int
    nbytes: int = 0


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

    @property
    def finished(self) -> bool:
        """Whether this pass is."""
        return self.done >= self.total


#: Seconds without a slab after which it is said what may be going on.
_PATIENCE = 3.0
#: Seconds that no kernel takes: whoever has begun one before that was killed.
_LONGEST = 300.0
#: What follows a journal while a run goes on.
Watching = Callable[[Journal], AbstractContextManager[Any]]

#: What is told of progress: called in the driver, now and then and at the end of each pass.
OnProgress = Callable[[Progress], None]


def unwatched(journal: Journal) -> AbstractContextManager[Any]:
    """A `Watching` that does nothing."""
    return nullcontext()


class Watch:
    """Counts records in the driver, adds up what they say, and tells a callback.

    Call `poll` now and then, or use it as a context manager that does so in a thread. A journal
    that cannot be read for a moment disturbs nothing. A look lists a bounded number of folders, and in a
    bucket, where a listing is paid for, there is one every five seconds.
    """

    def __init__(
        self,
        journal: Journal,
        passes: Sequence[Work],
        on_progress: OnProgress,
        *,
        interval: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal = journal
        self._passes = passes
        self._tallies = [Tally(journal, k, work.slabs) for k, work in enumerate(passes)]
        self._costs = Costs(journal)
        self._on_progress = on_progress
        self._local = is_local(journal.spec)
        self._interval = interval or (0.5 if self._local else 5.0)
        self._since = time.time()
        self._clock = clock
        self._is_begun = False
        self._index = 0  # of the pass that is under way
        self._began: tuple[float, int] | None = None  # when it was first seen, and its slabs then
        self._next = float("-inf")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def poll(self, *, now: bool = False) -> None:
        """Look and tell, if the last look is long enough ago or if ``now``."""
        time_ = self._clock()
        if not now and time_ < self._next:
            return
        try:
            if self._begun_now():
                self._look(None if now else _FOLDERS)
        except (OSError, ValueError) as error:
            _LOG.warning("progress is not known: %s", error)
        # Where listing is slow, it is done less often.
        spent = self._clock() - time_
        self._next = self._clock() + max(self._interval, 10 * spent)

    def summary(self) -> Summary:
        """What the run has cost so far: most of it was added up while it went on."""
        for k, tally in enumerate(self._tallies):
            tally.update()
            while tally.new or tally.filled:
                self._costs.add(k, tally, _RECORDS)
        return self._costs.summary(self._tallies)

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

    def _begun_now(self) -> bool:
        """Whether the folder is this run's: until then it may hold the records of one that is replaced."""
        if not self._is_begun:
            manifest = Journal.load(self._journal.spec)
            self._is_begun = manifest is not None and manifest.run_id == self._journal.run_id
        return self._is_begun

    def _look(self, most: int | None) -> None:
        while self._index < len(self._passes):
            tally = self._tallies[self._index]
            now, done = self._clock(), tally.update(most).done
            with suppress(OSError, ValueError):  # `summary` tells of a record that is damaged
                self._costs.add(self._index, tally, _RECORDS)
            if self._began is None:
                self._began = now, done
            progress = self._progress(now, done)
            self._on_progress(progress)
            if not progress.finished:
                return
            self._index, self._began = self._index + 1, None

    def _compiling(self) -> Compiling | None:
        if not self._local:
            return None
        now = time.time()
        begun = [c for c in self._journal.compiling() if c.began > max(self._since, now - _LONGEST)]
        last = max(begun, key=lambda c: c.began, default=None)
        return last and replace(last, seconds=last.seconds + now - last.began)

    def _progress(self, now: float, done: int) -> Progress:
        work = self._passes[self._index]
        assert self._began is not None
        began, before = self._began
        seconds = now - began
        rate = (done - before) / seconds if seconds > 0 else 0.0  # slabs a second
        each = work.nbytes / max(1, work.slabs)
        eta = None
        if rate > 0:
            later = self._passes[self._index + 1 :]
            slabs = (
                work.slabs
                - done
                + sum(w.nbytes / each if each and w.nbytes else w.slabs for w in later)
            )
            eta = slabs / rate
        return Progress(
            self._index,
            len(self._passes),
            work.name,
            done,
            work.slabs,
            seconds,
            rate * each,
            eta,
            self._compiling() if done < work.slabs else None,
            self._local,
        )


def last_started(journal: Journal, slabs: Sequence[int], most: int = 5) -> list[tuple[int, int]]:
    """The (pass, slab) in flight in a run whose passes have so many slabs, those started last first."""
    for k, total in enumerate(slabs):
        if found := Tally(journal, k, total).update().in_flight():
            return [(k, slab) for slab in found[:most]]
    return []


class Console:
    """A live bar on a terminal; elsewhere a line now and then and at the end of each pass."""

    def __init__(self, stream: TextIO | None = None, *, every: float = 10.0) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._every = every
        self._last = time.monotonic()
        self._open = False  # whether the cursor is in a bar

    def __call__(self, progress: Progress) -> None:
        if self._live:
            bar = _bar(progress.done, progress.total)
            end = "\n" if progress.finished else ""
            self._open = not end
            self._stream.write(f"\r\x1b[K{_line(progress, bar)}{end}")
        elif progress.finished or time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._stream.write(_line(progress) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Leave the line of an unfinished bar."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False


def reporter(progress: bool | OnProgress | None) -> OnProgress:
    """The callback behind a ``progress=`` argument; True is a `Console`, False nobody."""
    if callable(progress):
        return progress
    return Console() if progress else lambda _: None


def _bar(done: int, total: int, width: int = 24) -> str:
    full = width * done // max(1, total)
    return "[" + "█" * full + "·" * (width - full) + "] "


def _line(p: Progress, bar: str = "") -> str:
    parts = [f"{p.done}/{p.total} slabs"]
    if p.compiling is not None:
        c = p.compiling
        before = f"{c.kernels} kernel{'' if c.kernels == 1 else 's'} so far, {duration(c.seconds)}"
        parts.append(f"compiling {c.kernel.lstrip('_')} ({before})")
    elif not p.done and p.seconds >= _PATIENCE:
        also = (
            "or compute the first"
            if p.compiling_is_known
            else "and compile what they have not before"
        )
        parts.append(f"none yet: workers start, {also}")
    if p.bytes_per_second:
        parts.append(f"{p.bytes_per_second / 1e6:,.0f} MB/s")
    if p.finished:
        parts.append(f"{duration(p.seconds)}")
    elif p.eta is not None:
        parts.append(f"{duration(p.eta)} left")
    return f"pass {p.index + 1}/{p.passes} {printable(p.name)} {bar}" + ", ".join(parts)


def duration(seconds: float) -> str:
    """A time in words.

    Examples
    --------
    >>> duration(7), duration(75), duration(7500)
    ('7 s', '1 min 15 s', '2 h 05 min')
    """
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60:02d} s"
    return f"{s // 3600} h {s % 3600 // 60:02d} min"
