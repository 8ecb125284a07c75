"""The folder of a run, and what its processes note there for those who watch and for later attempts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from beam_volumes.base.text import parsed_json
from beam_volumes.runs.failure import are_alike
from beam_volumes.storage.places.claims import Document
from beam_volumes.storage.places.place import Place, Spec, join, url
from beam_volumes.storage.sources.source import digest

#: The document that says whose the folder is, the folder of all runs, and why the run has failed.
MANIFEST, RUNS, FAILURE = "manifest.json", "runs/", "failure"


@dataclass(frozen=True)
class Compiling:
    """A kernel that a process compiles."""

    kernel: str
    kernels: int  #: That the process has compiled for the run before.
    seconds: float  #: Which those took.
    began: float  #: In seconds since the epoch.


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, and its own part of it."""

    spec: Spec = field(hash=False)  #: TensorStore key-value store spec of the folder.
    run_id: str  #: Records of other runs are not read.

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def url(self) -> str:
        """How messages name it."""
        return url(self.spec)

    @cached_property
    def own(self) -> Spec:
        """The folder in which this run alone writes."""
        return join(self.spec, RUNS, folder_name(self.run_id), directory=True)

    @cached_property
    def _folder(self) -> Place:
        return Place(self.own)

    @cached_property
    def _root(self) -> Place:
        return Place(self.spec)

    @cached_property
    def _document(self) -> Document:
        return Document(join(self.spec, directory=True), MANIFEST)


@dataclass(frozen=True)
class Notes(RunFolder):
    """What the processes of a run note: steps done once, what goes on, what went wrong."""

    def mark(self, name: str) -> None:
        """Say that a step of this run is done, e.g. that the outputs are created."""
        self._folder.write(f"marks/{name}", self.run_id.encode())

    def marked(self, name: str) -> bool:
        return self._folder.read(f"marks/{name}") == self.run_id.encode()

    # What goes on, for those who watch.

    def write_compiling(self, what: Compiling | None) -> None:
        """Say what this process compiles now, or that it does no longer."""
        self._note("compiling", None if what is None else asdict(what))

    def compiling(self) -> list[Compiling]:
        """What processes compile, or did when they were killed, by a journal on a disk."""
        return [Compiling(**said) for said in self._noted("compiling")]

    def write_under_way(self, slabs: Sequence[tuple[int, int, float]]) -> None:
        """Say which slabs this process sweeps: passes, slabs, and what part of each is done."""
        self._note("under-way", {"told": time.time(), "slabs": list(slabs)})

    def under_way(self, pass_index: int, since: float = 0.0) -> dict[int, float]:
        """By slab what part of it is done, as processes said last, by a journal on a disk.

        Some of the slabs may be finished by now, others were given up by who is dead.
        """
        parts: dict[int, float] = {}
        for said in sorted(self._noted("under-way"), key=lambda said: said["told"]):
            if said["told"] >= since:
                parts.update((slab, part) for k, slab, part in said["slabs"] if k == pass_index)
        return parts

    def _note(self, kind: str, what: Mapping[str, Any] | None) -> None:
        """Say something of this process, in place of what it said before."""
        key = f"{kind}/{socket.gethostname()}-{os.getpid()}"
        if what is None:
            self._folder.delete(key)
        else:
            self._folder.write(key, json.dumps({"run": self.run_id, **what}).encode())

    def _noted(self, kind: str) -> list[dict[str, Any]]:
        """What processes say, or said before they were killed."""
        found = Path(self.own["path"], kind).glob("*-*[0-9]")  # no files half written
        keys = [f"{kind}/{path.name}" for path in found]
        heads = [parsed_json(data) for data in self._folder.read_many(keys) if data is not None]
        return [h for h in heads if h.pop("run") == self.run_id]

    # What went wrong.

    def note_failure(
        self, step: str, launch: str, data: Mapping[str, Any], max_retries: int = 1
    ) -> None:
        """Note what an attempt at a step has failed of; when retries have failed of the same, so has the run.

        Notes are of one ``launch``: whoever continues the run tries everything again.
        """
        key = f"failures/{step}"
        before = of_launch(self._folder.read(key), launch)
        again = before["again"] + 1 if before is not None and are_alike(before, data) else 0
        text = json.dumps({"launch": launch, "again": again, **data}).encode()
        self._folder.write(key, text)
        if again >= max_retries:
            self._folder.write(FAILURE, text)

    def failure(self, launch: str | None) -> dict[str, Any] | None:
        """What every attempt of a launch would fail of, as data, if it is known; None is the last launch."""
        return of_launch(self._folder.read(FAILURE), launch)

    def note_unread(self, place: str) -> None:
        """Note a file of an input that could not be read: it may be mended before the run is resumed."""
        self._folder.write(f"unread/{hashlib.sha1(place.encode()).hexdigest()}", place.encode())

    def unread(self) -> set[str]:
        """Return the files that were noted by `note_unread`."""
        keys = [f"unread/{name}" for name in self._folder.names("unread/")]
        return {data.decode() for data in self._folder.read_many(keys) if data is not None}


def of_launch(data: bytes | None, launch: str | None) -> dict[str, Any] | None:
    note = None if data is None else parsed_json(data)
    return note if note is not None and launch in (None, note["launch"]) else None


def folder_name(run_id: str) -> str:
    """The name of a run's folder: its id, if that may be one."""
    return run_id if re.fullmatch(r"[\w-]{1,100}", run_id, re.ASCII) else digest(run_id)
