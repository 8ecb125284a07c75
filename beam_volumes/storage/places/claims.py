"""Whose a place is: a document in it that is changed only by who has seen what it replaces.

A runner repeats steps, late and at the same time, and two runs may want one place. Every change is a
conditional write, so of all that have seen the same document one goes on. A document that says that a place
is being prepared names the attempt that does so; as soon as another one has taken over, the first stops.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import tensorstore as ts

from beam_volumes.base.text import parsed_json
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.errors import explain
from beam_volumes.storage.places.place import Place, Spec

#: Seconds for which an attempt waits for one that took over from it, before it takes over again.
PATIENCE = 30.0
#: What stands for any run, or none, where it is said which run may be replaced.
ANY = "any"


class Superseded(OSError):
    """Another run has taken the place of this one; nothing was written over it."""


@dataclass(frozen=True)
class Document:
    """A small object in a folder of any key-value store."""

    folder: Spec
    key: str

    @property
    def name(self) -> str:
        return Place(self.folder).name_of(self.key)

    @property
    def _store(self) -> ts.KvStore:
        return Place(self.folder).store

    def ask(self, generation: bytes | None = None) -> Any:
        """Start reading it, unless it is what it was in that generation."""
        return self._store.read(self.key, if_not_equal=generation)

    def answered(self, answer: Any) -> Any:
        """Wait for the answer to `ask`."""
        try:
            return answer.result()
        except Exception as error:
            raise explain(error, f"reading {self.name}") from error

    def read(self) -> tuple[bytes | None, bytes]:
        """Its content, None if it is not there, and the generation of that."""
        found = self.answered(self.ask())
        return (found.value if found.state == "value" else None), found.stamp.generation

    def replace(self, data: bytes | None, generation: bytes) -> bytes | None:
        """Write or delete it if it still is what it was; gives its generation, or None if it is not."""
        try:
            written = self._store.write(self.key, data, if_equal=generation).result()
        except Exception as error:
            raise explain(error, f"writing {self.name}") from error
        if written.generation:
            return bytes(written.generation)
        # A request that is made again, because its answer was lost, finds what it wrote itself.
        now, generation = self.read()
        return generation if now == data else None

    def is_still(self, generation: bytes) -> bool:
        """Whether the document is unchanged; on a disk this takes some 20 us."""
        found = self.answered(self.ask(generation))
        # Some servers send what was not to be sent.
        return bool(found.state == "unspecified" or found.stamp.generation == generation)


@dataclass
class Watched:
    """A document that names a run, looked at again and again by one process."""

    document: Document
    run_id: str  #: The run that it should name
    #: The run that a content names as its own, once the place is ready
    named: Callable[[bytes | None], str | None]
    store: ts.KvStore
    _generation: bytes | None = None

    @classmethod
    def of(
        cls, document: Document, run_id: str, named: Callable[[bytes | None], str | None]
    ) -> Watched:
        """The one that this process has."""
        key = f"watched {document.key} {json.dumps(document.folder, sort_keys=True)} {run_id}"
        return opened(key, lambda: cls(document, run_id, named, document._store))  # type: ignore[no-any-return]

    def ask(self) -> Any:
        return self.store.read(self.document.key, if_not_equal=self._generation)

    def holds(self, answer: Any) -> bool:
        """Whether it still names the run, by what came of `ask`."""
        found = self.document.answered(answer)
        if found.state == "unspecified":
            return True
        value = bytes(found.value) if found.state == "value" else None
        holds = self.named(value) == self.run_id
        self._generation = bytes(found.stamp.generation) if holds else None
        return holds


def lost(watched: Iterable[Watched]) -> list[Watched]:
    """Those that no longer name their run; all are asked at once."""
    asked = [(one, one.ask()) for one in watched]
    return [one for one, answer in asked if not one.holds(answer)]


def prepare(
    document: Document,
    run_id: str,
    *,
    begun: Callable[[bytes | None], tuple[str | None, bool]],
    written: Callable[[str | None], bytes],
    refuse: Callable[[str | None], None],
    make: Callable[[Callable[[], bool]], bool],
) -> None:
    """Make a place ready for a run, once, however many attempts there are.

    - ``document``: it says whose the place is.
    - ``begun``: the run that a content names, and whether the place is ready for it.
    - ``written``: the content that names an attempt of this run which prepares the place, or with
      None this run.
    - ``refuse``: given the run that is there, raises if it must stay.
    - ``make``: clears the place and makes it, given a function that says whether it is still this
      attempt's to do so; asks that before whatever cannot be undone, and gives False once it is
      not.

    Raises `Superseded`: another run has taken over from this one meanwhile.
    """
    claim = written(uuid.uuid4().hex)
    has_claimed, waits_for, until = False, b"", 0.0
    while True:
        data, generation = document.read()
        run, is_ready = begun(data)
        if run == run_id and is_ready:
            return
        if run != run_id and has_claimed:
            raise Superseded(f"{document.name}: the run {run} has taken over from {run_id}")
        if run != run_id:
            refuse(run)
        elif has_claimed:
            if generation != waits_for:
                waits_for, until = generation, time.monotonic() + PATIENCE
            if time.monotonic() < until:
                time.sleep(0.02)
                continue
        own = document.replace(claim, generation)
        if own is None:
            continue
        has_claimed = True
        still_ours = _Ours(document, own)
        if make(still_ours) and document.replace(written(None), own) is not None:
            return


@dataclass(frozen=True)
class _Ours:
    document: Document
    generation: bytes

    def __call__(self) -> bool:
        return self.document.is_still(self.generation)


def replaced(document: Document, data: bytes, is_ours: Callable[[], bool]) -> bool:
    """Write a further document of a place that is being prepared; False if it is no longer ours."""
    _, generation = document.read()
    return is_ours() and document.replace(data, generation) is not None


def changed(document: Document, change: Callable[[dict[str, Any]], bool]) -> None:
    """Change a JSON document in place, if ``change`` says that it changed it."""
    while True:
        data, generation = document.read()
        content = parsed_json(data or b"{}")
        if not change(content):
            return
        if document.replace(json.dumps(content, indent=1).encode(), generation) is not None:
            return
