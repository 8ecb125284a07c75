"""Outputs as things that one run owns: what is there, made ready once, and finished once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property
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
from beam_volumes.storage.places.place import Place, Spec, join
from beam_volumes.storage.places.single_file import flush

#: What a note calls the part that is there as long as its run has not ended.
UNFINISHED = "unfinished"


class OutputExistsError(FileExistsError, ValueError):
    """An output exists and was not asked to be replaced or continued."""


def home_of(place: Spec, is_file: bool) -> Spec:
    """The folder in which units of an output and what is noted of its run lie.

    That of one file is beside it.

    Examples
    --------
    >>> home_of({"driver": "file", "path": "/data/neurons.csv"}, is_file=True)["path"]
    '/data/.neurons.csv.parts/'
    """
    if not is_file:
        return join(place, directory=True)
    folder, base = os.path.split(place["path"])
    return join({**place, "path": folder}, f".{base}.parts", directory=True)


class OutputState:
    """Where an output is, what is there, and which run's that is: a document in its home names the run.

    The document's note has ``run``; ``preparing`` until the place is ready for the units of that run;
    ``finished`` once all of them have been put together, where that is done; and ``unfinished``, how the run
    is continued, until it has ended. Kinds of outputs say how a note
    is stored, and what else is made.
    """

    name: str
    kvstore: dict[str, Any]

    @property
    def is_file(self) -> bool:
        """Whether it is one file on a disk."""
        raise NotImplementedError

    @property
    def assembles(self) -> bool:
        """Whether that file is there only once its parts have been put together."""
        return True

    @property
    def kind(self) -> str:
        """What it is, for messages."""
        raise NotImplementedError

    @property
    def _key(self) -> str:
        """The document, by its name in the output's home."""
        raise NotImplementedError

    @property
    def provenance_key(self) -> str:
        """The document that says what it was made of, by its name in the output's home."""
        raise NotImplementedError

    def _found(self) -> bytes | None:
        """The document of whatever is there."""
        return Place(self.home).read(self._key)

    def _noted(self, document: Mapping[str, Any]) -> Any:
        return document

    def _document_of(self, noted: Mapping[str, Any]) -> bytes:
        """The document with a note of a run."""
        return json.dumps(noted).encode()

    def _is_replaceable(self) -> bool:
        """Whether what is there is of its kind, so that no other files are deleted with it."""
        raise NotImplementedError

    def _owned(self) -> Callable[[str], bool] | None:
        """Says, by its name below the output's home, whether a file there is part of what is there.

        None if all files are.
        """
        return None

    def _other(self) -> str | None:
        """What is in the file that is there, besides the output."""
        return None

    def _is_in_bucket(self) -> bool:
        """Whether something is there, where that is not a disk of this machine."""
        raise NotImplementedError

    def _make_rest(self, run_id: str, is_ours: Callable[[], bool]) -> bool:
        """Make what there is beside the document; False once it is no longer ours."""
        return True

    @cached_property
    def home(self) -> dict[str, Any]:
        """The folder of its units and of the document."""
        return home_of(self.kvstore, self.is_file)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where it is stored: all of it is cleared before it is written."""
        here = Extent(self.kvstore)
        return (here, Extent(self.home)) if self.is_file else (here,)

    @property
    def document(self) -> Document:
        """The one that says which run's the output is."""
        return Document(self.home, self._key)

    def exists(self) -> bool:
        """Whether something is at the output's place."""
        local = Place(self.kvstore).local
        if local is None:
            return self._is_in_bucket()
        if os.path.isdir(local) and not self.is_file:
            with os.scandir(local) as entries:
                return any(True for _ in entries)
        return os.path.lexists(local) or (self.is_file and self.existing_run() is not None)

    def existing_run(self) -> str | None:
        """The id of the run that created what is there, if one of ours did."""
        run, is_ready = self._begun(self._found())
        return run if is_ready else None

    def begun_run(self) -> str | None:
        """The same, or of the run that is creating it."""
        return self._begun(self._found())[0]

    def state(self) -> Mapping[str, Any]:
        """What is noted of the run whose output is there."""
        return self._note(self._found())

    def _note(self, data: bytes | None) -> Mapping[str, Any]:
        try:
            document = {} if data is None else parsed_json(data)
        except ValueError as error:
            raise VolumeError(f"the metadata of {self.name} are damaged: {error}") from None
        noted = self._noted(document) if isinstance(document, dict) else None
        return noted if isinstance(noted, dict) else {}

    def _begun(self, data: bytes | None) -> tuple[str | None, bool]:
        """The run that a document names, and whether the output is ready for it."""
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
        """By what is seen whether the output is still that of the run which writes it."""
        return Watched.of(self.document, run_id, self._ready_run)

    def check(self, run_id: str | None) -> None:
        """Raise `Superseded` if the output is no longer that of a run."""
        watched = None if run_id is None else self.watched(run_id)
        if watched is not None and lost([watched]):
            raise Superseded(f"{self.name} is gone, or is that of another run than {run_id} now")


class OwnedOutput(OutputState):
    """What a run writes for others: made ready once, and finished once."""

    def check_replaceable(self) -> None:
        """Refuse to overwrite what is there if that is something else, or if other files lie in it."""
        if not self._is_replaceable():
            raise OutputExistsError(
                f"the output {self.name} exists and is not {self.kind}, so overwrite=True does not "
                "delete it; remove it yourself or choose another path"
            )
        owned = self._owned()
        other = self._other() if owned is None else Place(self.home).other_than(owned)
        if other is not None:
            raise OutputExistsError(
                f"the output {self.name} exists, and {printable(other)} in it is no part of it, so "
                "overwrite=True does not delete it; move it away, or choose another path"
            )

    def create(
        self,
        run_id: str,
        overwrite: bool = False,
        replaces: str | None = ANY,
        unfinished: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the output ready to be written, once per run.

        Called again by the same run (a retry), also at the same time, it changes nothing. What another run
        left is cleared only with ``overwrite``, and only if it is of the same kind.

        - ``replaces``: the run, or None, that was there when the run was asked for.
        - ``unfinished``: how the run is continued, to be noted until `note_ended`.
        """

        def refuse(run: str | None) -> None:
            now = run or self.begun_run()
            if now == run_id or not self.exists():  # a twin of this attempt was quicker
                return
            if replaces != ANY and now not in (None, replaces):
                raise Superseded(
                    f"{self.name}: the run {now} has begun to write it since this one was asked for, and "
                    "goes on; this one writes nothing: start it again with overwrite=True when the other "
                    "has ended or is stopped"
                )
            if not overwrite:
                raise OutputExistsError(
                    f"the output {self.name} exists: pass overwrite=True to replace it, resume=True to "
                    "continue the run that began it, or choose another path"
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
            cleared = Place(self.home).clear(self._key, is_ours, owned)
            forget_opened()
            return cleared and self._make_rest(run_id, is_ours)

        owned = self._owned()

        prepare(self.document, run_id, begun=self._begun, written=written, refuse=refuse, make=make)

    def _replaces_something(self, run_id: str) -> bool:
        """Whether something was there before the run, which may have begun to replace it."""
        try:
            noted = self.state()
        except VolumeError:
            noted = {}
        begun = noted.get(UNFINISHED) if noted.get("run") == run_id else None
        return bool(begun["replaced"]) if isinstance(begun, dict) else self.exists()

    def note_ended(self, run_id: str) -> None:
        """Note that the run which writes the output has ended well; may be repeated."""

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
        """Make the output whole of its parts; once is enough, and any number of attempts do no harm.

        - ``run_id``: the run whose it must be.
        - ``durable``: whether a disk holds it before it is said to be whole.
        - ``assemble``: makes it, given a function that says whether it is still this run's to be
          made; gives what is to be noted of it. Parts that are gone, because another attempt was
          quicker, are a FileNotFoundError.
        """
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
