"""How many bytes inputs take on the disk, from the sizes of their files, or of a sample of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import kvstore_spec

#: Files whose sizes are added up at most: there may be millions.
_MAX_FILES = 1000
#: Of more files: how many sizes are looked up in a folder, in how many of its folders, and how deep.
_SAMPLED_FILES, _SAMPLED_FOLDERS, _DEEPEST = 16, 4, 5
#: Extents that are sampled, and entries of a folder that are counted at most.
_SAMPLED_EXTENTS, _MAX_ENTRIES = 16, 100_000

_T = TypeVar("_T")


class _NotKnown(Exception):
    """A size cannot be had, or not soon."""


class Stored(NamedTuple):
    """Files and their bytes."""

    files: int
    bytes: int
    is_all: bool  #: Whether there are no more


def stored(extents: Iterable[Extent], maximum: int) -> Stored | None:
    """Count the files of extents and add up their bytes; None where they are on no disk of this machine."""
    files = size = 0
    counted: set[tuple[int, int]] = set()
    for extent in extents:
        if extent.hidden_by is not None:
            return None
        try:
            root = _path(extent)
        except _NotKnown:
            return None
        places = (
            [root] if extent.names is None else [os.path.join(root, name) for name in extent.names]
        )
        for place in places:
            for status in _files(place):
                if files >= maximum:
                    return Stored(files, size, False)
                if (status.st_dev, status.st_ino) not in counted:  # a link leads to a counted file
                    counted.add((status.st_dev, status.st_ino))
                    files, size = files + 1, size + status.st_size
    return Stored(files, size, True) if files else None


def stored_bytes(extents: Iterable[Extent]) -> int | None:
    """Return the bytes of the files of extents; None where they are many, or not on this machine's disks."""
    found = stored(extents, _MAX_FILES)
    return found.bytes if found is not None and found.is_all else None


def sampled_bytes(extents: Iterable[Extent]) -> int | None:
    """Return about the bytes of the files of extents, by a sample; None where that would not be quick.

    Of each folder the entries are counted. The sizes of some are looked up, evenly spaced among the sorted
    names, and stand for the others. Stores that are no disks of this machine list names without sizes.
    """
    places = list({(repr(e.store), tuple(e.names or ())): e for e in extents}.values())
    try:
        found = [_sampled(extent) for extent in _spread(places, _SAMPLED_EXTENTS)]
    except _NotKnown:
        return None
    return _scaled(found, len(places)) or None


def _spread(items: Sequence[_T], most: int) -> Sequence[_T]:
    """Return no more than so many of some items, evenly spaced: the middle of each of as many parts."""
    if len(items) <= most:
        return items
    return [items[(2 * k + 1) * len(items) // (2 * most)] for k in range(most)]


def _scaled(sizes: Sequence[int], number: int) -> int:
    """Return what so many take, of which the sizes of some are known."""
    return sum(sizes) * number // len(sizes) if sizes else 0


def _sampled(extent: Extent) -> int:
    path = _path(extent)
    if extent.names is None:
        return _of_folder(path, _DEEPEST) if os.path.isdir(path) else _size(path)
    places = [os.path.join(path, name) for name in _spread(extent.names, _SAMPLED_FILES)]
    sizes = [_of_folder(p, _DEEPEST) if os.path.isdir(p) else _size(p) for p in places]
    return _scaled(sizes, len(extent.names))


def _of_folder(path: str, deepest: int) -> int:
    """Return about the bytes of all files in and below a folder."""
    try:
        with os.scandir(path) as entries:
            found = [(e.name, e.is_dir()) for e in islice(entries, _MAX_ENTRIES + 1)]
    except OSError as error:
        raise _NotKnown from error
    if len(found) > _MAX_ENTRIES or deepest == 0:
        raise _NotKnown
    files, folders = (
        sorted(os.path.join(path, name) for name, is_folder in found if is_folder is wanted)
        for wanted in (False, True)
    )
    of_files = _scaled([_size(file) for file in _spread(files, _SAMPLED_FILES)], len(files))
    below = [_of_folder(folder, deepest - 1) for folder in _spread(folders, _SAMPLED_FOLDERS)]
    return of_files + _scaled(below, len(folders))


def _path(extent: Extent) -> str:
    spec = kvstore_spec(extent.store) if isinstance(extent.store, str) else extent.store
    if spec.get("driver") != "file":
        raise _NotKnown
    return str(spec["path"])


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError as error:
        raise _NotKnown from error


def _files(root: str) -> Iterator[os.stat_result]:
    """A file, or those of a folder and of the folders in it, each folder once."""
    folders, known = [root], set()
    while folders:
        folder = folders.pop()
        try:
            status = os.stat(folder)
            if not os.path.isdir(folder):
                yield status
                continue
            if (status.st_dev, status.st_ino) in known:
                continue
            known.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir():
                        folders.append(entry.path)
                    elif entry.is_file():
                        yield entry.stat()
        except OSError:  # it has gone, or may not be looked into
            continue
