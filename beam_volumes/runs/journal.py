"""The journal of a run: a manifest, and a small record beside it for every finished slab.

It is the one mechanism behind progress, retry, resume and verification. Layout of the folder::

    manifest.json                                   whose the folder is

and in ``runs/<run>/`` what that run alone writes and reads::

    plan                                            what is needed to continue, pickled
    marks/<name>                                    steps done once
    starts/<pass>/<thousand>/<slab>-<attempt>       an attempt has begun
    payloads/<pass>/<slab>-<attempt>                what does not fit into a record
    records/<pass>/<thousand>/<slab>                a slab is finished: its voxels are written
    scalars/pass-<pass>                             what a pass has found, pickled
    failures/<step>                                 what the last attempt at a step has failed of
    failure                                         what two attempts have failed of, and so all would
    compiling/<host>-<process>                      a kernel that a process compiles, while it does
    under-way/<host>-<process>                      how far the slabs are that a process sweeps
    intermediate/                                   what is stored between passes

A worker that comes late writes where nobody looks any more. The manifest is changed by conditional writes
alone: of two runs that begin at once one gets the folder.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from typing import Any

from beam_volumes.base.text import parsed_json
from beam_volumes.runs.manifest import Manifest
from beam_volumes.runs.notes import FAILURE, MANIFEST, RUNS, Notes, folder_name, of_launch
from beam_volumes.runs.record import (
    Ranges,
    Record,
    decode,
    encode,
    new_attempt,
    seal,
    split,
    unseal,
)
from beam_volumes.storage.places.claims import ANY, Superseded, Watched, lost
from beam_volumes.storage.places.place import (
    Place,
    Spec,
    is_local,
    join,
    kvstore_spec,
    sibling,
    url,
)

#: Slabs per folder.
FOLDER = 1000
#: The mark of a run that has ended well.
ENDED = "ended"
#: The mark of a run whose outputs are made.
PREPARED = "prepared"

_PLAN = "plan"
_RECORD = re.compile(r"(?:\d+/)?(\d+)")
_START = re.compile(r"(?:\d+/)?(\d+)-(\w+)")


def run_folder(output: str | os.PathLike[str] | Spec) -> Spec:
    """Where the journal of a run lies whose first output is given."""
    return join(sibling(kvstore_spec(output), ".run"), directory=True)


def find_run(place: str | os.PathLike[str] | Spec) -> Journal:
    """The journal of a run by its first output, its folder, or wherever its journal is kept.

    Raises FileNotFoundError: There is none.
    """
    spec = kvstore_spec(place)
    around, _, last = str(spec.get("path", "")).rpartition("/")
    if "*" in last:  # slices, which lie in a folder
        spec = {**spec, "path": around}
    for folder in (spec, run_folder(spec)):
        if not (is_local(folder) and not os.path.isdir(folder["path"])):
            journal = Journal.open(folder)
            if journal is not None:
                return journal
    name = url(spec).rstrip("/")
    raise FileNotFoundError(
        f"{name}: there is no run: neither {name}/manifest.json nor {name}.run/manifest.json is there; give "
        "the output that was listed first, its .run folder, or what journal= said"
    )


@dataclass(frozen=True)
class Journal(Notes):
    """The journal of one run. Picklable; every process opens its own handles."""

    attempts: bool = True  #: Whether `start` leaves a mark.

    @classmethod
    def create(
        cls,
        place: str | os.PathLike[str] | Spec,
        manifest: Manifest,
        *,
        plan: bytes | None = None,
        overwrite: bool = False,
        attempts: bool = True,
        replaces: str | None = ANY,
    ) -> Journal:
        """Begin the journal of a run, in place of any old one if ``overwrite``; again changes nothing.

        ``plan``: what `read_plan` will give to whoever continues the run.
        ``replaces``: the run, or None, whose journal was there when the run was asked for.
        Raises FileExistsError: Another run's journal is there.
        Raises Superseded: Another one's than that of ``replaces``.
        """
        journal = cls(join(kvstore_spec(place), directory=True), manifest.run_id, attempts)
        # Before the place is ours: later runs are not among them.
        old = {*journal._root.folders(RUNS)} if is_local(journal.spec) else set[str]()
        packed = None if plan is None else seal(plan, manifest.run_id)
        while True:
            data, generation = journal._document.read()
            run = run_of(data)
            if run == manifest.run_id:
                return journal
            is_seen = replaces in (ANY, run) or (run is None and replaces != manifest.run_id)
            if not is_seen:
                journal._folder.delete(_PLAN)
                journal._folder.tidy()
                raise Superseded(_replaced(journal.url, manifest.run_id, run))
            if data is not None and not overwrite:
                raise FileExistsError(f"{journal.url} exists; use resume=True or overwrite=True")
            if packed is not None:
                journal._folder.write(_PLAN, packed)
            if journal._document.replace(manifest.to_json().encode(), generation) is not None:
                break
        old |= {folder_name(run)} if run is not None else set()
        journal._root.delete(
            *(f"{RUNS}{key}/" for key in sorted(old - {folder_name(manifest.run_id)}))
        )
        return journal

    @classmethod
    def open(cls, place: str | os.PathLike[str] | Spec, *, attempts: bool = True) -> Journal | None:
        """The journal that is there, if any."""
        manifest = cls.load(place)
        if manifest is None:
            return None
        return cls(join(kvstore_spec(place), directory=True), manifest.run_id, attempts)

    @classmethod
    def load(cls, place: str | os.PathLike[str] | Spec) -> Manifest | None:
        """The manifest that is there, if any. Raises ValueError if it is damaged."""
        folder = Place.of(place)
        data = folder.read(MANIFEST)
        return None if data is None else Manifest.from_json(data, folder.name_of(MANIFEST))

    @property
    def watched(self) -> Watched:
        """By what is seen whether the folder is still the run's."""
        return Watched.of(self._document, self.run_id, run_of)

    def check(self) -> None:
        """Raise `Superseded` if the folder is another run's by now, or nobody's."""
        if lost([self.watched]):
            raise Superseded(_replaced(self.url, self.run_id, self.now()))

    def now(self) -> str | None:
        """The run whose folder it is, if it is any's."""
        return run_of(self._document.read()[0])

    def remove(self) -> None:
        """Delete the run's journal, and nothing else that may lie in its folder."""
        data, generation = self._document.read()
        if run_of(data) == self.run_id:
            self._document.replace(None, generation)
        self._root.delete(f"{RUNS}{folder_name(self.run_id)}/")
        self._root.tidy(RUNS)

    def read_plan(self) -> bytes | None:
        """What `create` was given to continue the run by, or None."""
        data = self._folder.read(_PLAN)
        try:
            return None if data is None else unseal(data, self.run_id)
        except ValueError as error:
            raise ValueError(f"{self._folder.name_of(_PLAN)} is damaged: {error}") from error

    # Slabs.

    def start(self, pass_index: int, slab: int) -> str:
        """Name a new attempt at a slab, and leave its start mark."""
        attempt = new_attempt()
        if self.attempts:
            key = f"starts/{pass_index}/{_slot(slab)}-{attempt}"
            self._folder.write(key, f"{socket.gethostname()} {os.getpid()}".encode())
        return attempt

    def write_record(
        self,
        pass_index: int,
        slab: int,
        record: Record,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        """Say that a slab is finished. After its voxels are safely written; may be repeated.

        ``flush`` waits until a disk holds those, and what the record speaks of here.
        """
        attempt = record.attempt or new_attempt()
        payload = f"payloads/{pass_index}/{slab:09d}-{attempt}"
        data, body = encode(record, self.run_id, payload)
        if body is not None:
            self._folder.write(payload, body)
        flush()
        self._folder.write(f"records/{pass_index}/{_slot(slab)}", data)

    def read_record(self, pass_index: int, slab: int) -> Record | None:
        """The record of a slab, or None if it is not finished."""
        _, record = next(self.read_records(pass_index, [slab]))
        if isinstance(record, ValueError):
            raise record
        return record

    def records(self, pass_index: int, *, bodies: bool = True) -> Iterator[Record]:
        """All records of a pass; without ``bodies``, units and emissions are left out."""
        for _, record in self.read_records(pass_index, self.finished(pass_index), bodies=bodies):
            if isinstance(record, ValueError):
                raise record
            if record is not None:
                yield record

    def read_records(
        self, pass_index: int, slabs: Iterable[int], *, bodies: bool = True
    ) -> Iterator[tuple[int, Record | ValueError | None]]:
        """Slabs and their records, None where there is none; of a damaged one the error."""
        slabs, named = tee(slabs)
        keys = (f"records/{pass_index}/{_slot(slab)}" for slab in slabs)
        for slab, data in zip(named, self._folder.read_many(keys), strict=True):
            try:
                yield slab, None if data is None else self._decoded(data, bodies)
            except ValueError as error:
                place = self._folder.name_of(f"records/{pass_index}/{_slot(slab)}")
                yield slab, ValueError(f"{place} is damaged: {error}; delete it to redo the slab")

    def _decoded(self, data: bytes, bodies: bool) -> Record | None:
        head, body = split(data)
        if head.get("run") != self.run_id:
            return None
        if not bodies:
            return decode(head, None)
        if head.get("payload") is None:
            return decode(head, body)
        payload = self._folder.read(head["payload"])
        if payload is None:
            raise ValueError(f"{self._folder.name_of(head['payload'])} is missing")
        return decode(head, payload)

    def finished(self, pass_index: int) -> list[int]:
        """The slabs that have a record, sorted."""
        return _slabs(self._folder.names(f"records/{pass_index}/"))

    def missing(self, pass_index: int, total: int) -> Ranges:
        """The slabs of ``range(total)`` that have no record."""
        return Tally(self, pass_index, total).update().missing()

    def attempts_of(self, pass_index: int) -> dict[int, int]:
        """How often each slab was started. Redone means more than once."""
        return dict(Counter(slab for slab, _ in self._starts(f"starts/{pass_index}/")))

    def attempts_among(self, pass_index: int, slabs: range) -> dict[int, int]:
        """How often slabs of a folder were started."""
        found = self._starts(f"starts/{pass_index}/{slabs.start // FOLDER:06d}/")
        return dict(Counter(slab for slab, _ in found if slab in slabs))

    def in_flight(self, pass_index: int) -> list[int]:
        """Slabs that were started and are not finished, those started last first."""
        return _newest(self._starts(f"starts/{pass_index}/"), set(self.finished(pass_index)))

    def _starts(self, prefix: str) -> list[tuple[int, str]]:
        found = (_START.fullmatch(name) for name in self._folder.names(prefix))
        return [(int(m[1]), m[2]) for m in found if m]

    def look(
        self, pass_index: int, slab: int, launch: str
    ) -> tuple[Record | None, dict[str, Any] | None]:
        """The record of a slab, if it is finished, and what the run has failed of, if it has."""
        key = f"records/{pass_index}/{_slot(slab)}"
        data, failed = self._folder.read_many([key, FAILURE])
        try:
            record = None if data is None else self._decoded(data, True)
        except ValueError as error:
            raise ValueError(
                f"{self._folder.name_of(key)} is damaged: {error}; delete it to redo the slab"
            ) from error
        return record, of_launch(failed, launch)

    # What a pass has found.

    def write_scalars(self, pass_index: int, values: dict[Any, Any]) -> None:
        data = seal(pickle.dumps(values, protocol=4), self.run_id)
        self._folder.write(_scalars(pass_index), data)

    def read_scalars(self, pass_index: int) -> dict[Any, Any] | None:
        """What `write_scalars` wrote for this run, or None."""
        data = self._sealed_scalars(pass_index)
        try:
            return None if data is None else pickle.loads(data)
        except Exception as error:  # unpickling is importing
            place = self._folder.name_of(_scalars(pass_index))
            raise ValueError(f"{place} cannot be loaded here: {error}") from error

    def has_scalars(self, pass_index: int) -> bool:
        """Whether they are there and whole. Nothing is unpickled: the run may be anybody's."""
        return self._sealed_scalars(pass_index) is not None

    def _sealed_scalars(self, pass_index: int) -> bytes | None:
        key = _scalars(pass_index)
        data = self._folder.read(key)
        try:
            if data is None or split(data)[0].get("run") != self.run_id:
                return None
            return unseal(data, self.run_id)
        except ValueError as error:
            raise ValueError(f"{self._folder.name_of(key)} is damaged: {error}") from error


class Tally:
    """Counts the finished slabs of one pass again and again, listing no full folder twice."""

    def __init__(self, journal: Journal, pass_index: int, total: int) -> None:
        self._journal = journal
        self._pass = pass_index
        self._total = total
        # Of the folders that are not full, the slabs in them, 4 bytes each: there may be a million.
        self._open = {f: array("i") for f in range(-(-total // FOLDER))}
        self._full = 0
        #: Slabs seen to be finished, and folders seen to be full, until who adds them up takes them away.
        self.new = array("i")
        self.filled: list[range] = []

    def update(self, most: int | None = None) -> Tally:
        """Look again; with ``most`` at so many of the folders that are not full, in turn."""
        folders = list(self._open)[:most]
        prefixes = [f"records/{self._pass}/{f:06d}/" for f in folders]
        listed = self._journal._folder.names_many(prefixes)
        for f, names in zip(folders, listed, strict=True):
            slabs = array("i", (slab for slab in _slabs(names) if slab in self._span(f)))
            known = set(self._open.pop(f))
            self.new.extend(slab for slab in slabs if slab not in known)
            if len(slabs) == len(self._span(f)):
                self._full += len(slabs)
                self.filled.append(self._span(f))
            else:
                self._open[f] = slabs  # last: the others' turn comes first
        return self

    @property
    def done(self) -> int:
        """How many slabs were finished at the last look."""
        return self._full + sum(map(len, self._open.values()))

    @property
    def unfilled(self) -> list[range]:
        """The slabs of each folder that was not full."""
        return [self._span(f) for f in self._open]

    def missing(self) -> Ranges:
        """The slabs that were not."""
        found: list[tuple[int, int]] = []
        for f, slabs in sorted(self._open.items()):
            span = self._span(f)
            for before, after in zip([span.start - 1, *slabs], [*slabs, span.stop], strict=True):
                if after - before > 1:
                    if found and found[-1][1] == before + 1:
                        found[-1] = (found[-1][0], after)
                    else:
                        found.append((before + 1, after))
        return tuple(found)

    def is_done(self, slab: int) -> bool:
        """Whether a slab was finished at the last look."""
        return slab in self._open.get(slab // FOLDER, (slab,))

    def in_flight(self) -> list[int]:
        """Slabs started and not finished, those started last first."""
        starts: list[tuple[int, str]] = []
        for f, slabs in self._open.items():
            finished = set(slabs)
            some = self._journal._starts(f"starts/{self._pass}/{f:06d}/")
            starts += [(slab, attempt) for slab, attempt in some if slab not in finished]
        return _newest(starts, set())

    def _span(self, f: int) -> range:
        return range(f * FOLDER, min((f + 1) * FOLDER, self._total))


def _scalars(pass_index: int) -> str:
    return f"scalars/pass-{pass_index}"


def run_of(manifest: bytes | None) -> str | None:
    """The run that a manifest names, of whatever version; of a damaged one None."""
    try:
        found = None if manifest is None else parsed_json(manifest).get("run_id")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def _replaced(place: str, run_id: str, now: str | None) -> str:
    if now is None:
        return f"{place}: the journal of the run {run_id} is gone: it has ended, or somebody removed it"
    return (
        f"{place} is the journal of the run {now} by now, which has taken over from {run_id}: nothing more "
        "of this one is written"
    )


def _slot(slab: int) -> str:
    return f"{slab // FOLDER:06d}/{slab:09d}"


def _slabs(names: list[str]) -> list[int]:
    return sorted(int(m[1]) for m in map(_RECORD.fullmatch, names) if m)


def _newest(starts: list[tuple[int, str]], finished: set[int]) -> list[int]:
    last = sorted(
        ((attempt, slab) for slab, attempt in starts if slab not in finished), reverse=True
    )
    return list(dict.fromkeys(slab for _, slab in last))
