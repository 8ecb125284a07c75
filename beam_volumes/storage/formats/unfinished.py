"""Outputs of runs that have not ended: their note, and how they are recognised.

A run notes in each output that it is unfinished and how to resume it. It removes the note when it
has ended successfully.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from beam_volumes.base.text import parsed_json, printable
from beam_volumes.storage.formats.format import RUN
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.ownership import UNFINISHED, home_of
from beam_volumes.storage.places.place import Place, kvstore_spec

#: The documents that may have a run's note, and its key.
_DOCUMENTS = ("zarr.json", ".zattrs", "attributes.json", "info", RUN)
_OURS = "beam_volumes"
#: Larger documents have no note.
_MAX_BYTES = 64 << 20
#: Places of a volume that are checked.
_PLACES = 64
_PACKAGE = __name__.partition(".")[0] + "."


class UnfinishedWarning(UserWarning):
    """A volume or table is the output of an unfinished run, so parts may be missing.

    `open` and every function that opens a file issue it. Ignore it if you look at an output while
    it is being written.

    Parameters
    ----------
    text : str
        The output, its run, and how to continue the run.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", bv.UnfinishedWarning)
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)


class Unfinished(NamedTuple):
    """The note of an unfinished output."""

    place: str
    run: str
    #: The path of the run's first output or of its journal, to resume it.
    start: str
    #: How it is resumed: by "resume", its "program" or its "pipeline".
    by: str
    #: Whether a previous output of that path was deleted.
    has_replaced: bool

    def __str__(self) -> str:
        how = {
            "program": "its program again with resume=True",
            "pipeline": "its pipeline again with overwrite=True",
        }.get(self.by, f"beam-volumes resume {shlex.quote(self.start)}")
        gone = "; the previous output was deleted" if self.has_replaced else ""
        what = f"{self.place} is unfinished: its run {self.run} has not ended{gone}"
        return printable(" ".join(f"{what}; to continue, run {how}".split()))


def warn(found: Unfinished | None) -> None:
    """Warn the user of an unfinished output, if there is one."""
    if found is not None:
        warnings.warn(str(found), UnfinishedWarning, stacklevel=outside())


def of_extents(extents: Sequence[Extent]) -> Unfinished | None:
    """Return the first unfinished output among a volume's local places, or None."""
    known: set[str] = set()
    step = max(1, -(-len(extents) // _PLACES))
    for extent in extents[::step]:
        if extent.hidden_by is not None:
            continue
        spec = kvstore_spec(extent.store)
        if spec.get("driver") != "file" or spec["path"] in known:
            continue
        known.add(str(spec["path"]))
        found = at(str(spec["path"]))
        if found is not None:
            return found
    return None


def in_bucket(place: Place, is_folder: bool) -> Unfinished | None:
    """Return the unfinished output at a place in a bucket, from documents that were already read.

    For a folder of slices, one more document is read.
    """
    if is_folder and place.can_list:
        place.read(RUN)
    read = (place.remembered or {}).items()
    return _first(place.text, ((name, data) for name, data in read if name in _DOCUMENTS))


def at(path: str) -> Unfinished | None:
    """Return the unfinished output at, or around, a local path, or None."""
    path = path.rstrip(os.sep)
    if not os.path.isdir(path):
        home = str(home_of({"driver": "file", "path": path}, True)["path"])
        found = _first(path, _documents(home, (RUN,)))
        if found is not None:
            return found
    for folder in (path, os.path.dirname(path)):
        found = _first(folder, _documents(folder, _DOCUMENTS))
        if found is not None:
            return found
    return None


def _documents(folder: str, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and os.path.getsize(path) <= _MAX_BYTES:
                with open(path, "rb") as file:
                    yield name, file.read()
        except OSError:
            continue


def _first(place: str, documents: Iterable[tuple[str, bytes | None]]) -> Unfinished | None:
    for name, data in documents:
        if not data or UNFINISHED.encode() not in data:
            continue
        try:
            document = parsed_json(data)
            attributes = document.get("attributes", document)
            noted = document if name == RUN else attributes.get(_OURS)
            how = noted[UNFINISHED]
            start, run = str(how["start"]), str(noted["run"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue  # of another program, or damaged: reading it raises an error
        return Unfinished(place or start, run, start, str(how.get("by")), bool(how.get("replaced")))
    return None


def outside() -> int:
    """Return the stack level of the first caller outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
