"""Ownership of a place: a document that is only changed by conditional writes.

A runner repeats steps, late and simultaneously, and two runs may use one place. Of all processes
that have read the same document, only one can replace it. While a place is being prepared, the
document names the attempt. When another attempt takes over, the first one stops.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import tensorstore as ts

from beam_volumes.base.text import lined_json, parsed_json
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.errors import explain
from beam_volumes.storage.places.place import LOCK, Place, Spec, is_local, key_of

#: Seconds for which an attempt waits for one that took over, before it takes over again.
PATIENCE = 30.0
#: Seconds for which a client of a network disk may not see what others have created.
LATE = 60.0
#: Stands for any run, or none, as the run to replace.
ANY = "any"
#: The generation of an object that does not exist.
_MISSING = b"\x02"


class Superseded(OSError):
    """Another run has taken the place of this one; it was not overwritten."""


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
        """Start reading, unless the generation is unchanged."""
        return self._store.read(self.key, if_not_equal=generation)

    def answered(self, answer: Any) -> Any:
        """Wait for the result of `ask`."""
        try:
            return answer.result()
        except Exception as error:
            raise explain(error, f"reading {self.name}") from error

    def read(self) -> tuple[bytes | None, bytes]:
        """Return the content, or None, and its generation."""
        found = self.answered(self.ask())
        return (found.value if found.state == "value" else None), found.stamp.generation

    def replace(self, data: bytes | None, generation: bytes) -> bytes | None:
        """Replace or delete an unchanged document; return the new generation, else None."""
        if data is not None and generation == _MISSING and is_local(self.folder):
            until = time.monotonic() + LATE
            while (is_created := self._create(data)) is not None:
                now, generation = self.read()
                if is_created or now is not None:
                    return generation if now == data else None
                if time.monotonic() >= until:
                    raise OSError(
                        f"{self.name} was created by another machine, and this one does not see it; "
                        "start again when it does"
                    )
                time.sleep(0.02)
        try:
            written = self._store.write(self.key, data, if_equal=generation).result()
        except Exception as error:
            raise explain(error, f"writing {self.name}") from error
        if written.generation:
            return bytes(written.generation)
        # A request that is repeated because its response was lost finds its own content.
        now, generation = self.read()
        return generation if now == data else None

    def _create(self, data: bytes) -> bool | None:
        """Create a local document; False if it exists, None if the disk has no hard links."""
        # A client of a network disk may not see for a minute that another one has created the document, and
        # TensorStore would replace it. A link is made by the server.
        path = os.path.join(self.folder["path"], self.key)
        whole = f"{path}.{uuid.uuid4().hex}{LOCK}"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(whole, "xb") as out:
                out.write(data)
            with suppress(FileExistsError):
                os.link(whole, path)
                return True
            return False
        except OSError:  # TensorStore reports other errors
            return None
        finally:
            with suppress(OSError):
                os.remove(whole)

    def file(self) -> tuple[int, ...] | None:
        """The identity of the content of a local document, by which generations differ, too."""
        if not is_local(self.folder):
            return None
        try:
            # A file that is opened is checked with the server of a network disk.
            handle = os.open(
                os.path.join(self.folder["path"], self.key), os.O_RDONLY | os.O_CLOEXEC
            )
        except OSError:
            return None
        try:
            found = os.fstat(handle)
        finally:
            os.close(handle)
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    def is_still(self, generation: bytes) -> bool:
        """Whether the document is unchanged; this takes some 20 us on a disk."""
        found = self.answered(self.ask(generation))
        # Some servers return the content in any case.
        return bool(found.state == "unspecified" or found.stamp.generation == generation)


@dataclass
class Watched:
    """A document that names a run, which one process checks repeatedly."""

    document: Document
    run_id: str  #: The run that should be named
    #: Returns the run that a content names, if the place is ready
    named: Callable[[bytes | None], str | None]
    store: ts.KvStore
    _generation: bytes | None = None
    #: The identity of a local file that has this generation
    _file: tuple[int, ...] | None = None
    #: Whether the document may exist although this machine has never seen it
    may_be_late: bool = True

    @classmethod
    def of(
        cls, document: Document, run_id: str, named: Callable[[bytes | None], str | None]
    ) -> Watched:
        """Return the shared instance of this process."""
        key = f"watched {document.key} {key_of(document.folder)} {run_id}"
        return opened(key, lambda: cls(document, run_id, named, document._store))  # type: ignore[no-any-return]

    def ask(self) -> Any:
        """Start reading; None if a local file is unchanged, which is known without a request."""
        file = self.document.file()
        if file is not None and file == self._file:
            return None
        return file, self.store.read(self.document.key, if_not_equal=self._generation)

    def holds(self, answer: Any) -> bool:
        """Whether the document still names the run, by the result of `ask`."""
        if answer is None:
            return True
        file, request = answer
        found = self.document.answered(request)
        self.may_be_late &= found.state == "missing" and is_local(self.document.folder)
        if found.state == "unspecified":
            self._file = file
            return True
        value = bytes(found.value) if found.state == "value" else None
        holds = self.named(value) == self.run_id
        # A file that was replaced after it was identified is read again the next time.
        self._file, self._generation = (
            (file, bytes(found.stamp.generation)) if holds else (None, None)
        )
        return holds


def lost(watched: Iterable[Watched]) -> list[Watched]:
    """Return the documents that no longer name their run; all are requested at once.

    Waits for documents that another machine may just have created.
    """
    asked = [(one, one.ask()) for one in watched]
    gone = [one for one, answer in asked if not one.holds(answer)]
    until = time.monotonic() + LATE
    while any(one.may_be_late for one in gone) and time.monotonic() < until:
        time.sleep(0.2)
        gone = [one for one in gone if not one.holds(one.ask())]
    for one in gone:
        one.may_be_late = False
    return gone


def prepare(
    document: Document,
    run_id: str,
    *,
    begun: Callable[[bytes | None], tuple[str | None, bool]],
    written: Callable[[str | None], bytes],
    refuse: Callable[[str | None], None],
    make: Callable[[Callable[[], bool]], bool],
) -> None:
    """Prepare a place for a run once, regardless of the number of attempts.

    Superseded if another run has taken over meanwhile, according to the ``document``.
    """
    # ``begun`` returns the run that a content names, and whether the place is ready for it. ``written``
    # returns the content that names an attempt of this run, or the run itself for None. ``refuse`` raises an
    # error if the given run must not be replaced. ``make`` clears and creates the place. Its argument returns
    # whether this attempt still owns it. ``make`` checks that before each irreversible action, and returns
    # False if it does not.
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
    """Write another document of a place that is being prepared; False if it was lost."""
    _, generation = document.read()
    return is_ours() and document.replace(data, generation) is not None


def changed(document: Document, change: Callable[[dict[str, Any]], bool]) -> None:
    """Change a JSON document by a conditional write, if ``change`` returns that it changed it."""
    while True:
        data, generation = document.read()
        content = parsed_json(data or b"{}")
        if not change(content):
            return
        if document.replace(lined_json(content), generation) is not None:
            return
