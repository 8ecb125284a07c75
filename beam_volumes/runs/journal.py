"""The journal of a run: a manifest, and a small record for every finished slab.

Progress, retries, resuming and verification only use the journal. Layout of the folder::

    manifest.json                                   the run that owns the folder

and in ``runs/<run>/`` the files of that run::

    plan                                            the pickled plan, to continue the run
    prepared, cleared, ended                        marks of steps that are done
    starts/<pass>-<thousand>/<slab>-<attempt>       an attempt has begun
    payloads/<pass>/<slab>-<attempt>                data that does not fit into a record
    records/<pass>-<thousand>/<slab>                a slab is finished: its voxels are written
    scalars/pass-<pass>                             results of a pass, pickled
    failures/<step>                                 the error of the last attempt at a step
    failure                                         an error of two attempts, which ends the run
    compiling/<host>-<process>                      the kernel that a process is compiling
    under-way/<host>-<process>                      progress of the slabs that a process sweeps
    intermediate/                                   intermediate results

Folders take longer to create than files, so there are few of them. Late workers of a replaced run
write into its own folder, which is no longer read. The manifest is only changed by conditional
writes: if two runs begin at the same time, one of them gets the folder.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import tee
from typing import Any

from beam_volumes.base.text import parsed_json
from beam_volumes.runs.manifest import Manifest
from beam_volumes.runs.notes import FAILURE, MANIFEST, RUNS, Notes, folder_name, of_launch
from beam_volumes.runs.record import (
    Record,
    decode,
    encode,
    new_attempt,
    seal,
    split,
    unseal,
)
from beam_volumes.storage.places.claims import ANY, Superseded, Watched, lost
from beam_volumes.storage.places.ownership import MAX_AT_ONCE
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
#: The mark of a successful run.
ENDED = "ended"
#: The mark of a run that has created its outputs.
PREPARED = "prepared"
#: The mark of a run that has deleted the journals it replaced.
_CLEARED = "cleared"

#: Objects of a slab in a journal.
_PER_SLAB = 3
_PLAN = "plan"
_RECORD = re.compile(r"(?:\d+/)?(\d+)")
_START = re.compile(r"(?:\d+/)?(\d+)-(\w+)")


def run_folder(output: str | os.PathLike[str] | Spec) -> Spec:
    """The default place of the journal of a run, given its first output."""
    return join(sibling(kvstore_spec(output), ".run"), directory=True)


def find_run(place: str | os.PathLike[str] | Spec) -> Journal:
    """The journal of a run, given its first output, its folder, or the journal's place.

    Raises FileNotFoundError: there is none.
    """
    spec = kvstore_spec(place)
    around, _, last = str(spec.get("path", "")).rpartition("/")
    if "*" in last:  # slices in a folder
        spec = {**spec, "path": around}
    for folder in (spec, run_folder(spec)):
        if not (is_local(folder) and not os.path.isdir(folder["path"])):
            journal = Journal.open(folder)
            if journal is not None:
                return journal
    name = url(spec).rstrip("/")
    raise FileNotFoundError(
        f"{name}: there is no run: neither {name}/manifest.json nor {name}.run/manifest.json "
        "exists; give the first output of the run, its .run folder, or the value of journal="
    )


@dataclass(frozen=True)
class Journal(Notes):
    """The journal of one run. Picklable; every process opens its own handles."""

    attempts: bool = True  #: Whether `start` writes a mark.

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
        in_parts: bool = False,
    ) -> Journal:
        """Create the journal of a run, replacing an old one if ``overwrite``; may be repeated.

        It belongs to ``replaces``: the run, or None, that owned the folder when this run was requested.
        """
        # ``in_parts``: the caller deletes old journals of many slabs, by `delete_part` and `note_deleted`.
        journal = cls(join(kvstore_spec(place), directory=True), manifest.run_id, attempts)
        # Listed before the place is ours, to exclude later runs.
        old = {*journal._root.folders(RUNS)} if is_local(journal.spec) else set[str]()
        packed = None if plan is None else seal(plan, manifest.run_id)
        while True:
            data, generation = journal._document.read()
            run = run_of(data)
            if run == manifest.run_id:
                return journal
            is_expected = replaces in (ANY, run) or (run is None and replaces != manifest.run_id)
            if not is_expected:
                journal._folder.delete(_PLAN)
                journal._folder.tidy()
                if run is None:
                    raise Superseded(_replaced(journal.url, manifest.run_id, run))
                raise Superseded(
                    f"{journal.url}: the run {run} has taken this folder since the run {manifest.run_id} "
                    "was requested; the latter writes nothing: start one run after the other, or give each "
                    "its own output and journal="
                )
            if data is not None and not overwrite:
                raise FileExistsError(f"{journal.url} exists; use resume=True or overwrite=True")
            if packed is not None:
                journal._folder.write(_PLAN, packed)
            old_runs = journal.large_journals() if in_parts else {}
            made = replace(manifest, replaced=old_runs).to_json()
            if journal._document.replace(made, generation) is not None:
                break
        old |= {folder_name(run)} if run is not None else set()
        kept = {folder_name(key) for key in (manifest.run_id, *old_runs)}
        journal._root.delete(*(f"{RUNS}{key}/" for key in sorted(old - kept)))
        return journal

    @classmethod
    def open(cls, place: str | os.PathLike[str] | Spec, *, attempts: bool = True) -> Journal | None:
        """The existing journal, or None."""
        manifest = cls.load(place)
        if manifest is None:
            return None
        return cls(join(kvstore_spec(place), directory=True), manifest.run_id, attempts)

    @classmethod
    def load(cls, place: str | os.PathLike[str] | Spec) -> Manifest | None:
        """The existing manifest, or None; raises ValueError if it is damaged."""
        folder = Place.of(place)
        data = folder.read(MANIFEST)
        return None if data is None else Manifest.from_json(data, folder.name_of(MANIFEST))

    @property
    def watched(self) -> Watched:
        """The claim that shows whether the folder still belongs to the run."""
        return Watched.of(self._document, self.run_id, run_of)

    def check(self) -> None:
        """Raise `Superseded` if the folder no longer belongs to the run."""
        if lost([self.watched]):
            raise Superseded(_replaced(self.url, self.run_id, self.now()))

    def now(self) -> str | None:
        """The run that owns the folder, or None."""
        return run_of(self._document.read()[0])

    def remove(self) -> None:
        """Delete the run's journal, and no other files in its folder."""
        data, generation = self._document.read()
        if run_of(data) == self.run_id:
            self._document.replace(None, generation)
        self._root.delete(f"{RUNS}{folder_name(self.run_id)}/")
        self._root.tidy(RUNS)

    # Replaced journals.

    def large_journals(self) -> dict[str, list[int]]:
        """The journals in the folder with many objects that a run would replace, as in a manifest."""
        try:
            there = Journal.load(self.spec)
        except ValueError:
            return {}
        if there is None or there.run_id == self.run_id:
            return {}
        slabs = [int(p["slabs"]) for p in there.passes]
        is_large = _PER_SLAB * sum(slabs) > MAX_AT_ONCE
        return Journal(self.spec, there.run_id)._left() | (
            {there.run_id: slabs} if is_large else {}
        )

    def _left(self) -> dict[str, list[int]]:
        """The replaced journals that this run has not deleted."""
        manifest = Journal.load(self.spec)
        if manifest is None or not manifest.replaced or self.marked(_CLEARED):
            return {}
        return manifest.replaced if manifest.run_id == self.run_id else {}

    def parts_left(self) -> int:
        """The number of parts of replaced journals that the run has to delete."""
        return sum(-(-n // FOLDER) for slabs in self._left().values() for n in slabs)

    def delete_part(self, k: int) -> None:
        """Delete a part of a replaced journal: what belongs to a thousand slabs of a pass."""
        for run, passes in self._left().items():
            place = Place(Journal(self.spec, run).own)
            for index, slabs in enumerate(passes):
                parts = -(-slabs // FOLDER)
                if k < parts:
                    folder = f"{index}-{k:06d}/"
                    place.delete(f"starts/{folder}", f"records/{folder}")
                    prefix = f"payloads/{index}/{k:06d}"
                    names = (prefix + name for name in place.names(prefix))
                    place.delete_while(names, lambda: True)
                    return
                k -= parts

    def note_deleted(self) -> None:
        """Delete the other objects of replaced journals, and note that all are deleted."""
        if left := self._left():
            self._root.delete(*(f"{RUNS}{folder_name(run)}/" for run in left))
            self.mark(_CLEARED)

    def read_plan(self) -> bytes | None:
        """The plan of `create`, or None."""
        data = self._folder.read(_PLAN)
        try:
            return None if data is None else unseal(data, self.run_id)
        except ValueError as error:
            raise ValueError(f"{self._folder.name_of(_PLAN)} is damaged: {error}") from error

    # Slabs.

    def start(self, pass_index: int, slab: int) -> str:
        """Name a new attempt at a slab, and write its start mark."""
        attempt = new_attempt()
        if self.attempts:
            key = f"starts/{_slot(pass_index, slab)}-{attempt}"
            self._folder.write(key, f"{socket.gethostname()} {os.getpid()}".encode())
        return attempt

    def write_record(
        self,
        pass_index: int,
        slab: int,
        record: Record,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        """Record a finished slab, after its voxels are written; may be repeated.

        ``flush`` waits until they, and the payload of the record, are on disk.
        """
        attempt = record.attempt or new_attempt()
        payload = f"payloads/{pass_index}/{slab:09d}-{attempt}"
        data, body = encode(record, self.run_id, payload)
        if body is not None:
            self._folder.write(payload, body)
        flush()
        self._folder.write(f"records/{_slot(pass_index, slab)}", data)

    def read_record(self, pass_index: int, slab: int) -> Record | None:
        """The record of a slab, or None if it is not finished."""
        _, record = next(self.read_records(pass_index, [slab]))
        if isinstance(record, ValueError):
            raise record
        return record

    def records(self, pass_index: int, *, bodies: bool = True) -> Iterator[Record]:
        """All records of a pass; without units and emissions unless ``bodies``."""
        for _, record in self.read_records(pass_index, self.finished(pass_index), bodies=bodies):
            if isinstance(record, ValueError):
                raise record
            if record is not None:
                yield record

    def read_records(
        self, pass_index: int, slabs: Iterable[int], *, bodies: bool = True
    ) -> Iterator[tuple[int, Record | ValueError | None]]:
        """Slabs with their records, None if missing, and an error for a damaged record."""
        slabs, named = tee(slabs)
        keys = (f"records/{_slot(pass_index, slab)}" for slab in slabs)
        for slab, data in zip(named, self._folder.read_many(keys), strict=True):
            try:
                yield slab, None if data is None else self._decoded(data, bodies)
            except ValueError as error:
                place = self._folder.name_of(f"records/{_slot(pass_index, slab)}")
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
        return _slabs(self._folder.names(f"records/{pass_index}-"))

    def is_recorded(self, pass_index: int, slab: int) -> bool:
        """Whether a slab has a record, which may be damaged or belong to another run."""
        return self._folder.read(f"records/{_slot(pass_index, slab)}") is not None

    def attempts_of(self, pass_index: int) -> dict[int, int]:
        """The number of attempts at each slab."""
        return dict(Counter(slab for slab, _ in self._starts(f"starts/{pass_index}-")))

    def attempts_among(self, pass_index: int, slabs: range) -> dict[int, int]:
        """The number of attempts at slabs of a folder."""
        found = self._starts(f"starts/{pass_index}-{slabs.start // FOLDER:06d}/")
        return dict(Counter(slab for slab, _ in found if slab in slabs))

    def attempts_at(self, pass_index: int, slab: int) -> int:
        """The number of attempts at a slab."""
        return len(self._folder.names(f"starts/{_slot(pass_index, slab)}-"))

    def _starts(self, prefix: str) -> list[tuple[int, str]]:
        found = (_START.fullmatch(name) for name in self._folder.names(prefix))
        return [(int(m[1]), m[2]) for m in found if m]

    def look(
        self, pass_index: int, slab: int, launch: str
    ) -> tuple[Record | None, dict[str, Any] | None]:
        """The record of a slab if it is finished, and the failure of the run if it has failed."""
        key = f"records/{_slot(pass_index, slab)}"
        data, failed = self._folder.read_many([key, FAILURE])
        try:
            record = None if data is None else self._decoded(data, True)
        except ValueError as error:
            raise ValueError(
                f"{self._folder.name_of(key)} is damaged: {error}; delete it to redo the slab"
            ) from error
        return record, of_launch(failed, launch)

    # Results of a pass.

    def write_scalars(self, pass_index: int, values: dict[Any, Any]) -> None:
        data = seal(pickle.dumps(values, protocol=4), self.run_id)
        self._folder.write(_scalars(pass_index), data)

    def read_scalars(self, pass_index: int) -> dict[Any, Any] | None:
        """The results of `write_scalars` for this run, or None."""
        data = self._sealed_scalars(pass_index)
        try:
            return None if data is None else pickle.loads(data)
        except Exception as error:  # unpickling imports modules
            place = self._folder.name_of(_scalars(pass_index))
            raise ValueError(f"{place} cannot be loaded here: {error}") from error

    def has_scalars(self, pass_index: int) -> bool:
        """Whether they exist and are undamaged. Nothing is unpickled: the run may be untrusted."""
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
    """Counts the finished slabs of a pass repeatedly, listing full folders only once."""

    def __init__(self, journal: Journal, pass_index: int, total: int) -> None:
        self._journal = journal
        self._pass = pass_index
        self._total = total
        # Finished slabs in folders that are not full, 4 bytes each: there may be a million.
        self._open = {f: array("i") for f in range(-(-total // FOLDER))}
        self._full = 0
        #: New finished slabs and new full folders since they were last taken.
        self.new = array("i")
        self.filled: list[range] = []

    def update(self, maximum: int | None = None) -> Tally:
        """Count again; ``maximum``: number of incomplete folders to list, in turn."""
        folders = list(self._open)[:maximum]
        prefixes = [f"records/{self._pass}-{f:06d}/" for f in folders]
        listed = self._journal._folder.names_many(prefixes)
        for f, names in zip(folders, listed, strict=True):
            slabs = array("i", (slab for slab in _slabs(names) if slab in self._span(f)))
            known = set(self._open.pop(f))
            self.new.extend(slab for slab in slabs if slab not in known)
            if len(slabs) == len(self._span(f)):
                self._full += len(slabs)
                self.filled.append(self._span(f))
            else:
                self._open[f] = slabs  # moved to the end, to list the others first
        return self

    @property
    def done(self) -> int:
        """The number of finished slabs at the last update."""
        return self._full + sum(map(len, self._open.values()))

    @property
    def unfilled(self) -> list[range]:
        """The slabs of each incomplete folder."""
        return [self._span(f) for f in self._open]

    def is_done(self, slab: int) -> bool:
        """Whether a slab was finished at the last update."""
        return slab in self._open.get(slab // FOLDER, (slab,))

    def in_flight(self) -> list[int]:
        """Slabs started and not finished, latest first."""
        starts: list[tuple[int, str]] = []
        for f, slabs in self._open.items():
            finished = set(slabs)
            some = self._journal._starts(f"starts/{self._pass}-{f:06d}/")
            starts += [(slab, attempt) for slab, attempt in some if slab not in finished]
        return _newest(starts)

    def _span(self, f: int) -> range:
        return range(f * FOLDER, min((f + 1) * FOLDER, self._total))


def _scalars(pass_index: int) -> str:
    return f"scalars/pass-{pass_index}"


@lru_cache(maxsize=4)
def run_of(manifest: bytes | None) -> str | None:
    """The run in a manifest of any version; None if it is damaged. A run asks several times."""
    try:
        found = None if manifest is None else parsed_json(manifest).get("run_id")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def _replaced(place: str, run_id: str, now: str | None) -> str:
    if now is None:
        return f"{place}: the journal of the run {run_id} was removed, or the run has ended"
    return (
        f"{place} belongs to the run {now} now, which has replaced {run_id}: nothing more "
        "of the latter is written"
    )


def _slot(pass_index: int, slab: int) -> str:
    return f"{pass_index}-{slab // FOLDER:06d}/{slab:09d}"


def _slabs(names: list[str]) -> list[int]:
    return sorted(int(m[1]) for m in map(_RECORD.fullmatch, names) if m)


def _newest(starts: list[tuple[int, str]]) -> list[int]:
    last = sorted(((attempt, slab) for slab, attempt in starts), reverse=True)
    return list(dict.fromkeys(slab for _, slab in last))
