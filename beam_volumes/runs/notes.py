"""The folder of a run, and notes of its processes for progress and later attempts."""

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
from typing import Any

from beam_volumes.base.text import parsed_json
from beam_volumes.runs.failure import are_alike
from beam_volumes.storage.places.claims import Document
from beam_volumes.storage.places.place import Place, Spec, join, url
from beam_volumes.storage.sources.source import digest

#: The manifest, the folder of all runs, and the failure of the run.
MANIFEST, RUNS, FAILURE = "manifest.json", "runs/", "failure"


@dataclass(frozen=True)
class Compiling:
    """A kernel that a process compiles."""

    kernel: str
    kernels: int  #: Number of kernels that the process has compiled for the run so far.
    seconds: float  #: Seconds for these kernels.
    began: float  #: Start in seconds since the epoch.


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, and the subfolder of its own files."""

    spec: Spec = field(hash=False)  #: TensorStore key-value store spec of the folder.
    run_id: str  #: Records of other runs are ignored.

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def url(self) -> str:
        """Its name in messages."""
        return url(self.spec)

    @cached_property
    def own(self) -> Spec:
        """The folder in which only this run writes."""
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
    """Notes of the processes of a run: finished steps, progress, and failures."""

    def mark(self, name: str) -> None:
        """Mark a step of this run as done, e.g. that the outputs are created."""
        self._folder.write(name, self.run_id.encode())

    def marked(self, name: str) -> bool:
        return self._folder.read(name) == self.run_id.encode()

    # Progress.

    def write_compiling(self, what: Compiling | None) -> None:
        """Note the kernel that this process is compiling, or None."""
        self._note("compiling", None if what is None else asdict(what))

    def compiling(self) -> list[Compiling]:
        """Kernels that processes are compiling, or were when they were killed; only on a disk."""
        return [Compiling(**note) for note in self._noted("compiling")]

    def write_under_way(self, slabs: Sequence[tuple[int, int, float]]) -> None:
        """Note the slabs that this process sweeps: pass, slab, and finished share of each."""
        self._note("under-way", {"time": time.time(), "slabs": list(slabs)})

    def under_way(self, pass_index: int, since: float = 0.0) -> dict[int, float]:
        """The finished share of running slabs, by slab; only on a disk.

        Some slabs may be finished in the meantime, or belong to dead processes.
        """
        parts: dict[int, float] = {}
        for note in sorted(self._noted("under-way"), key=lambda note: note["time"]):
            if note["time"] >= since:
                parts.update((slab, part) for k, slab, part in note["slabs"] if k == pass_index)
        return parts

    def _note(self, kind: str, what: Mapping[str, Any] | None) -> None:
        """Replace a note of this process."""
        key = f"{kind}/{socket.gethostname()}-{os.getpid()}"
        if what is None:
            self._folder.delete(key)
        else:
            self._folder.write(key, json.dumps({"run": self.run_id, **what}).encode())

    def _noted(self, kind: str) -> list[dict[str, Any]]:
        """The notes of all processes, including dead ones."""
        try:
            names = os.listdir(os.path.join(self.own["path"], kind))
        except FileNotFoundError:
            return []
        keys = [f"{kind}/{name}" for name in names if name[-1].isdigit()]  # no lock files
        heads = [parsed_json(data) for data in self._folder.read_many(keys) if data is not None]
        return [h for h in heads if h.pop("run") == self.run_id]

    # Failures.

    def note_failure(
        self, step: str, launch: str, data: Mapping[str, Any], max_retries: int = 1
    ) -> None:
        """Note the error of an attempt at a step; after retries with the same error the run fails.

        Notes belong to one ``launch``: continued runs try everything again.
        """
        key = f"failures/{step}"
        before = of_launch(self._folder.read(key), launch)
        again = before["again"] + 1 if before is not None and are_alike(before, data) else 0
        text = json.dumps({"launch": launch, "again": again, **data}).encode()
        self._folder.write(key, text)
        if again >= max_retries:
            self._folder.write(FAILURE, text)

    def failure(self, launch: str | None) -> dict[str, Any] | None:
        """The failure of a launch as data, or None; ``launch``: None is the last launch."""
        return of_launch(self._folder.read(FAILURE), launch)

    def note_unread(self, place: str) -> None:
        """Note an unreadable input file: it may be repaired before the run is resumed."""
        self._folder.write(f"unread/{hashlib.sha1(place.encode()).hexdigest()}", place.encode())

    def unread(self) -> set[str]:
        """The files of `note_unread`."""
        keys = [f"unread/{name}" for name in self._folder.names("unread/")]
        return {data.decode() for data in self._folder.read_many(keys) if data is not None}


def of_launch(data: bytes | None, launch: str | None) -> dict[str, Any] | None:
    note = None if data is None else parsed_json(data)
    return note if note is not None and launch in (None, note["launch"]) else None


def folder_name(run_id: str) -> str:
    """The name of a run's folder: its id, if it is a valid name."""
    return run_id if re.fullmatch(r"[\w-]{1,100}", run_id, re.ASCII) else digest(run_id)
