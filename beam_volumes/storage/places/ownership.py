"""Outputs that one run owns: their state, creation and completion."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from beam_volumes.base.text import parsed_json, printable
from beam_volumes.storage.places.claims import (
    ANY,
    Document,
    Superseded,
    Watched,
    changed,
    lost,
    prepare,
)
from beam_volumes.storage.places.context import forget_opened
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.names import NameGrid, Parts, noted_grids
from beam_volumes.storage.places.place import Place, Spec, join
from beam_volumes.storage.places.single_file import flush

#: The key of a note that exists until its run has ended.
UNFINISHED = "unfinished"
#: The key of the names of a replaced output, until its objects are deleted.
REPLACED = "replaced_names"
#: Existing outputs of up to this number of objects are deleted in one step.
MAX_AT_ONCE = 100_000
#: Metadata that name more objects are not believed: objects are listed.
_MAX_NAMES = 10**11

#: Returns a document of JSON by its name, or None.
Documents = Callable[[str], Any]


class OutputExistsError(FileExistsError, ValueError):
    """An output exists, and neither overwriting nor resuming was requested."""


def home_of(place: Spec, is_file: bool) -> Spec:
    """Return the folder for the units of an output and for the note of its run.

    For a single file it is next to that file.

    >>> home_of({"driver": "file", "path": "/data/neurons.csv"}, is_file=True)["path"]
    '/data/.neurons.csv.parts/'
    """
    if not is_file:
        return join(place, directory=True)
    folder, base = os.path.split(place["path"])
    return join({**place, "path": folder}, f".{base}.parts", directory=True)


class OutputState:
    """The state of an output: location, content, and the run that owns it."""

    # A document in the home folder has the note of the run, with the keys ``run``; ``preparing`` until the
    # place is ready; ``finished`` when all parts are assembled, if they are; and ``unfinished``, how to
    # resume the run, until it has ended. Subclasses define the format of the note and the other files.

    name: str
    kvstore: dict[str, Any]

    @property
    def is_file(self) -> bool:
        """Whether the output is one local file."""
        raise NotImplementedError

    @property
    def assembles(self) -> bool:
        """Whether the file only exists once its parts are assembled."""
        return True

    @property
    def kind(self) -> str:
        """The kind of output, for messages."""
        raise NotImplementedError

    @property
    def _key(self) -> str:
        """The name of the document in the home folder."""
        raise NotImplementedError

    @property
    def provenance_key(self) -> str:
        """The name of the provenance document in the home folder."""
        raise NotImplementedError

    def _found(self) -> bytes | None:
        return Place(self.home).read(self._key)

    def _noted(self, document: Mapping[str, Any]) -> Any:
        return document

    def _document_of(self, noted: Mapping[str, Any]) -> bytes:
        """Return the document with a note of a run."""
        return json.dumps(noted).encode()

    def _is_replaceable(self) -> bool:
        """Whether the existing output is of this kind, so no other files are deleted with it."""
        raise NotImplementedError

    def _owned(self) -> Callable[[str], bool] | None:
        """Return a predicate of names below the home folder that belong to the existing output.

        None if all files belong to it.
        """
        return None

    def _other(self) -> str | None:
        """Return the name of foreign content in the existing file, or None."""
        return None

    def _grids(self, json: Documents) -> list[NameGrid] | None:
        """Return the names of chunks by the JSON documents of an output; None if they are unknown."""
        return None

    def _own_document(self, name: str) -> Any:
        """Return a document of this output by its name, or None."""
        return None

    def _is_in_bucket(self) -> bool:
        """Whether the output exists, for places that are not local."""
        raise NotImplementedError

    def _make_rest(self, run_id: str, is_ours: Callable[[], bool]) -> bool:
        """Create everything except the document; False if the run no longer owns the place."""
        return True

    @cached_property
    def home(self) -> dict[str, Any]:
        """The folder of the units and of the document."""
        return home_of(self.kvstore, self.is_file)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The extents of the output, which are cleared before it is written."""
        here = Extent(self.kvstore)
        return (here, Extent(self.home)) if self.is_file else (here,)

    @property
    def document(self) -> Document:
        """The document that names the owner of the output."""
        return Document(self.home, self._key)

    def exists(self) -> bool:
        """Whether anything exists at the output's place."""
        local = Place(self.kvstore).local
        if local is None:
            return self._is_in_bucket()
        if os.path.isdir(local) and not self.is_file:
            with os.scandir(local) as entries:
                return any(True for _ in entries)
        return os.path.lexists(local) or (self.is_file and self.existing_run() is not None)

    def existing_run(self) -> str | None:
        """Return the id of the run that created the output, or None."""
        run, is_ready = self._begun(self._found())
        return run if is_ready else None

    def begun_run(self) -> str | None:
        """Return the id of the run that created the output or is creating it, or None."""
        return self._begun(self._found())[0]

    def state(self) -> Mapping[str, Any]:
        """Return the note of the run that owns the output."""
        return self._note(self._found())

    def _note(self, data: bytes | None) -> Mapping[str, Any]:
        try:
            document = {} if data is None else parsed_json(data)
        except ValueError as error:
            raise VolumeError(f"the metadata of {self.name} are damaged: {error}") from None
        noted = self._noted(document) if isinstance(document, dict) else None
        return noted if isinstance(noted, dict) else {}

    def _begun(self, data: bytes | None) -> tuple[str | None, bool]:
        """Return the run that a document names, and whether the output is ready for it."""
        noted = self._note(data)
        is_ready = "run" in noted and "preparing" not in noted
        should_be = noted.get("finished") or (is_ready and not self.assembles)
        if self.is_file and should_be and not os.path.lexists(self.kvstore["path"]):
            return None, False
        return noted.get("run"), is_ready

    def _ready_run(self, data: bytes | None) -> str | None:
        noted = self._note(data)
        return None if "preparing" in noted else noted.get("run")

    def watched(self, run_id: str) -> Watched | None:
        """Return the document to watch for a change of ownership."""
        return Watched.of(self.document, run_id, self._ready_run)

    def check(self, run_id: str | None) -> None:
        """Raise `Superseded` if a run no longer owns the output."""
        watched = None if run_id is None else self.watched(run_id)
        if watched is not None and lost([watched]):
            raise Superseded(
                f"{self.name} was removed, or is now owned by a run other than {run_id}"
            )


class OwnedOutput(OutputState):
    """An output of a run, which is created once and finished once."""

    def _grids_there(self) -> list[NameGrid] | None:
        """Return the names of chunks of the existing output; None if they are unknown.

        They include chunks that an interrupted run has not deleted.
        """
        try:
            noted = noted_grids(self.state().get(REPLACED, ()))
            found = self._grids(Place(self.home).json)
        except (OSError, ValueError, TypeError, AttributeError):  # damaged metadata
            return None
        return None if found is None else noted + found

    def _large_grids_there(self) -> list[NameGrid]:
        """The names of chunks of the existing output, if they are too many for one step."""
        grids = self._grids_there() or []
        return grids if MAX_AT_ONCE < sum(grid.count for grid in grids) < _MAX_NAMES else []

    def has_many_objects(self) -> bool:
        """Whether the existing output has too many objects to delete them in one step."""
        return bool(self._large_grids_there())

    def own_parts(self) -> Parts:
        """All parts of the objects of this output, if their names are known."""
        return Parts.of(self._grids(self._own_document) or (), ())

    def is_clearing(self, run_id: str) -> bool:
        """Whether a run has begun to delete a replaced output in parts, and not ended that."""
        noted = self.state()
        return noted.get("run") == run_id and REPLACED in noted

    def _replaced_parts(self, noted: Mapping[str, Any], run_id: str) -> Parts:
        if noted.get("run") != run_id or "preparing" in noted:
            return Parts((), ())
        return Parts.of(noted_grids(noted.get(REPLACED, ())), self._grids(self._own_document) or ())

    def parts_left(self, run_id: str) -> int:
        """The number of parts of a replaced output that the run has to delete."""
        return len(self._replaced_parts(self.state(), run_id))

    def delete_part(self, run_id: str, k: int) -> None:
        """Delete a part of a replaced output: objects that are not replaced by this output's.

        It can be repeated. A late attempt deletes nothing that the run has written.
        """
        data, generation = self.document.read()
        parts = self._replaced_parts(self._note(data), run_id)
        if k < len(parts):
            is_ours = partial(self.document.is_still, generation)
            Place(self.home).delete_while(parts.names(k), is_ours)

    def note_deleted(self, run_id: str) -> None:
        """Note that all parts are deleted. It can be repeated."""
        while True:
            data, generation = self.document.read()
            noted = dict(self._note(data))
            if noted.get("run") != run_id or noted.pop(REPLACED, None) is None:
                return
            if self.document.replace(self._document_of(noted), generation) is not None:
                return

    def check_replaceable(self) -> None:
        """Refuse to overwrite an output of another kind, or one that contains foreign files."""
        if not self._is_replaceable():
            raise OutputExistsError(
                f"the output {self.name} exists and is not {self.kind}, so overwrite=True does not "
                "delete it; remove it yourself or choose another path"
            )
        owned = self._owned()
        spans = [grid.span for grid in self._large_grids_there()]
        other = self._other() if owned is None else Place(self.home).other_than(owned, spans)
        if other is not None:
            raise OutputExistsError(
                f"the output {self.name} exists and contains {printable(other)}, which is not part of it, "
                "so overwrite=True does not delete it; move it away, or choose another path"
            )

    def create(
        self,
        run_id: str,
        overwrite: bool = False,
        replaces: str | None = ANY,
        unfinished: Mapping[str, Any] | None = None,
        in_parts: bool = False,
        can_resume: bool = True,
    ) -> None:
        """Create the output, once per run: a repeated or simultaneous call of the same run changes nothing.

        The output of another run is only cleared with ``overwrite``, and only if it is of the same kind.
        """
        # ``replaces``: the run, or None, that owned the place when this run was requested. ``unfinished``:
        # how to resume the run, kept in the note until `note_ended`. ``in_parts``: chunks of an existing
        # output with many objects stay. The caller deletes those that it does not replace, by `delete_part`,
        # and then calls `note_deleted`.

        # ``can_resume``: whether the caller has ``resume=``, for the error of an existing output.
        again = "resume=True to continue the run that began it, " if can_resume else ""

        def refuse(run: str | None) -> None:
            now = run or self.begun_run()
            if now == run_id or not self.exists():  # another attempt of this run was faster
                return
            if replaces != ANY and now not in (None, replaces):
                raise Superseded(
                    f"{self.name}: the run {now} has started to write it since this run was requested; "
                    "this run writes nothing: start it again with overwrite=True when the other "
                    "has ended or is stopped"
                )
            if not overwrite:
                raise OutputExistsError(
                    f"the output {self.name} exists: pass overwrite=True to replace it, {again}or choose "
                    "another path"
                )
            self.check_replaceable()

        noted: dict[str, Any] = {"run": run_id}
        if unfinished is not None:
            noted[UNFINISHED] = {**unfinished, "replaced": self._replaces_something(run_id)}

        def written(attempt: str | None) -> bytes:
            attempting = {} if attempt is None else {"preparing": attempt}
            return self._document_of({**noted, **attempting})

        def make(is_ours: Callable[[], bool]) -> bool:
            if self.is_file and is_ours() and os.path.lexists(self.kvstore["path"]):
                os.remove(self.kvstore["path"])
            cleared = Place(self.home).clear(self._key, is_ours, owned, [g.span for g in grids])
            forget_opened()
            return cleared and self._make_rest(run_id, is_ours)

        owned, grids = self._owned(), self._large_grids_there() if in_parts else []
        if grids:
            noted[REPLACED] = [grid.to_dict() for grid in grids]
        prepare(self.document, run_id, begun=self._begun, written=written, refuse=refuse, make=make)

    def _replaces_something(self, run_id: str) -> bool:
        """Whether anything existed before the run, which may have started to replace it."""
        try:
            noted = self.state()
        except VolumeError:
            noted = {}
        begun = noted.get(UNFINISHED) if noted.get("run") == run_id else None
        return bool(begun["replaced"]) if isinstance(begun, dict) else self.exists()

    def note_ended(self, run_id: str) -> None:
        """Note that the run of the output has ended successfully. It can be repeated."""

        def change(document: dict[str, Any]) -> bool:
            noted = self._noted(document)
            is_ours = isinstance(noted, dict) and noted.get("run") == run_id
            return is_ours and noted.pop(UNFINISHED, None) is not None

        changed(self.document, change)

    def assemble_with(
        self,
        run_id: str | None,
        durable: bool,
        assemble: Callable[[Callable[[], bool]], Mapping[str, Any]],
    ) -> None:
        """Assemble the output of a run from its parts, once; further attempts are harmless.

        ``durable``: whether to flush it to disk before it is marked as finished.
        """
        # The argument of ``assemble`` returns whether the run still owns the output. ``assemble`` returns
        # entries for the note, and raises FileNotFoundError if another attempt has removed the parts.
        while True:
            self.check(run_id)
            data, generation = self.document.read()
            noted = self._note(data)
            if noted.get("finished"):
                return
            try:
                found = assemble(lambda now=generation: self.document.is_still(now))  # type: ignore[misc]
            except FileNotFoundError:
                self.check(run_id)
                if not self.state().get("finished"):
                    raise
                return
            if durable:
                flush([self.kvstore, self.home])
            whole = self._document_of({**noted, **found, "finished": True})
            if self.document.replace(whole, generation) is not None:
                break
        if self.is_file:  # parts are no longer needed
            Place(self.home).clear(self._key, lambda: True)
