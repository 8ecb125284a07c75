"""Run a session in this process, without a pipeline."""

from __future__ import annotations

import os
import pickle
import struct
import tempfile
import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from beam_volumes.across.rounds.flow import Box, Key, run
from beam_volumes.runs.journal import Journal
from beam_volumes.runs.progress import Parts, Watching, unwatched
from beam_volumes.session import clearing, merging, slabs
from beam_volumes.session.heartbeat import reported_compilations
from beam_volumes.session.session import Session
from beam_volumes.session.slabs import SlabPartials
from beam_volumes.sweep.resources import gate, make_room
from beam_volumes.sweep.writing import SlabResult

#: The length of a pickle, before it in a file.
_LENGTH = struct.Struct("<Q")


class Spill(Box):
    """A box of values of any number and size, pickled, in a temporary file that ends with the box.

    Only keys are in memory, and for each value its place. The list itself is empty.

    >>> spill = Spill()
    >>> for value in (1, "ab" * 1000):
    ...     spill.put((7, 0), value)
    >>> [(key, str(spill.load(place))[:4]) for key, place in spill]
    [((7, 0), '1'), ((7, 0), 'abab')]
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[Key, array[int]] = {}
        self._file: Any = None
        self._end = 0

    def __del__(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # the disk is full
                self._file.close()

    def __iter__(self) -> Iterator[tuple[Key, int]]:
        return ((key, place) for key, places in self._places.items() for place in places)

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def groups(self) -> Iterator[tuple[Key, list[int]]]:
        return ((key, self._places[key].tolist()) for key in sorted(self._places))

    def put(self, key: Key, value: Any) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="beam-volumes-")  # noqa: SIM115
        data = pickle.dumps(value, protocol=5)
        self._places.setdefault(key, array("Q")).append(self._end)
        self._file.write(_LENGTH.pack(len(data)))
        self._file.write(data)
        self._end += _LENGTH.size + len(data)

    def load(self, place: int) -> Any:
        self._file.flush()
        (length,) = _LENGTH.unpack(self._read(place, _LENGTH.size))
        return pickle.loads(self._read(place + _LENGTH.size, length))

    def _read(self, place: int, length: int) -> bytes:
        data = b""
        while len(data) < length:
            at = place + len(data)
            more = os.pread(self._file.fileno(), length - len(data), at)
            if not more:
                raise OSError("the temporary file of this run was truncated")
            data = data + more if data else more
        return data


#: Runs a session while watching its journal; returns the final numbers, or None if it only
#: described the job.
Drive = Callable[[Session, Watching], dict[str, Any] | None]

Count = Callable[[SlabResult], None]


#: Seconds after which the main thread handles a signal that arrived just before it began to wait, or
#: that another thread received.
_UNHEARD = 0.5


class Asked(NamedTuple):
    """Requests to end a run, after the current windows or after the current slabs."""

    stop: threading.Event
    finish: threading.Event


class Stopped(BaseException):
    """Stops a slab because the run has stopped; not an Exception, because the slab has no error."""


def run_local(
    session: Session,
    watching: Watching = unwatched,
    count: Count | None = None,
    known: dict[str, Any] | None = None,
    stop: threading.Event | None = None,
    finish: threading.Event | None = None,
) -> dict[str, Any]:
    """Run every pass in threads; return the numbers by token, including those ``known`` before.

    ``count`` is called with each slab's result. Setting ``stop`` raises `Stopped` after the current windows,
    and setting ``finish`` after the current slabs.
    """
    session.prepare()
    if session.clears:
        clearing.by_threads(session)
    followed: Journal | Parts = Parts() if session.journal is None else session.journal
    if isinstance(followed, Parts) and watching is not unwatched:
        session = replace(session, parts=followed)
    compilations = reported_compilations(session.journal or session.parts)
    with watching(followed), compilations:
        try:
            asked = Asked(stop or threading.Event(), finish or threading.Event())
            return _run(session, count, known or {}, asked)
        finally:
            gate.release()


def _run(
    session: Session,
    count: Count | None,
    known: dict[str, Any],
    asked: Asked,
) -> dict[str, Any]:
    answers: Answers = {}
    for index in range(len(session.plan.passes)):
        p = session.plan.passes[index]
        # The merge of a single summary begins with all of it, so it stays in memory.
        is_single = len(p.grid) == len(p.program.surveys) == 1
        summaries: defaultdict[str, Box] = defaultdict(Box if is_single else Spill)
        emissions = _sweeps(session, index, known, answers, count, asked)
        states = merging.merge(session.plan, index, _states(emissions, summaries))
        known = merging.finish_pass(session, index, states, known)
        numbers: dict[str, dict[str, Any]] = {}
        for token, flow in merging.flows_of(session.plan, index).items():
            came = run(flow, summaries.pop(token, ()), _with_room, Spill)
            if "answers" in came:
                box = came["answers"]
                answers[token] = {key[0]: partial(box.load, value) for key, value in box}
            numbers[token] = {n: v for _, part in _loaded(came, "numbers") for n, v in part.items()}
            for (shard,), columns in _loaded(came, "rows"):
                merging.write_rows(session, token, shard, columns)
        known = merging.finish_merge(session, index, numbers, known)
    return known


def _with_room(box: Box) -> Iterator[tuple[Key, list[Any]]]:
    for group in box.groups():
        make_room()
        yield group


def _loaded(boxes: dict[str, Box], port: str) -> Iterator[tuple[Key, Any]]:
    box = boxes.get(port, Box())
    return ((key, box.load(value)) for key, value in box)


#: Loads an answer, by barrier and slab.
Answers = dict[str, dict[int, Callable[[], Any]]]


def _states(
    emissions: Iterator[tuple[int, SlabPartials]], summaries: defaultdict[str, Box]
) -> Iterator[dict[str, Any]]:
    """The states of emissions; their summaries are stored in ``summaries``."""
    for slab, emission in emissions:
        for token, summary in emission.summaries.items():
            summaries[token].put((slab,), summary)
        yield emission.states


def _sweeps(
    session: Session,
    index: int,
    known: dict[str, Any],
    answers: Answers,
    count: Count | None,
    asked: Asked,
) -> Iterator[tuple[int, SlabPartials]]:
    p = session.plan.passes[index]
    left = iter(range(len(p.grid)))
    workers = session.plan.workers

    stopped = threading.Event()

    def stop() -> None:
        if stopped.is_set():
            raise Stopped("other slabs have ended the run")
        if asked.stop.is_set():
            raise Stopped("the run was asked to stop")

    def one(slab: int) -> tuple[int, SlabPartials]:
        stop()
        own = {token: answers[token][slab]() for token in p.program.barriers}
        return slab, slabs.sweep_slab(session, index, slab, known, own, count, stop, run_local)

    def following() -> int | None:
        """Return the next slab to sweep, or None."""
        return None if asked.finish.is_set() else next(left, None)

    if workers == 1:
        while (slab := following()) is not None:
            yield one(slab)
        _check_finished(left)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="slab") as pool:
        flying: set[Future[tuple[int, SlabPartials]]] = set()
        try:
            while True:
                # Slabs are started as workers become free: there may be millions.
                while len(flying) < workers and (slab := following()) is not None:
                    flying.add(pool.submit(one, slab))
                if not flying:
                    _check_finished(left)
                    return
                done, flying = wait(flying, _UNHEARD, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            stopped.set()
            for future in flying:
                future.cancel()


def _check_finished(left: Iterator[int]) -> None:
    if next(left, None) is not None:
        raise Stopped("the run was asked to finish the slabs in flight")
