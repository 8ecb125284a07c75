"""The bytes that inputs use on disk, from the sizes of all files or of a sample."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import kvstore_spec

#: Maximal number of files with sizes that are added up: there may be millions.
_MAX_FILES = 1000
#: Sample of more files: files of a folder, its subfolders, and the depth.
_SAMPLED_FILES, _SAMPLED_FOLDERS, _DEEPEST = 16, 4, 5
#: Extents that are sampled, and the maximal number of entries in a folder.
_SAMPLED_EXTENTS, _MAX_ENTRIES = 16, 100_000

_T = TypeVar("_T")


class _NotKnown(Exception):
    """A size is not available, or not quickly."""


class Stored(NamedTuple):
    """A number of files and their total bytes."""

    files: int
    bytes: int
    is_all: bool  #: Whether all files are counted


def stored(extents: Iterable[Extent], maximum: int) -> Stored | None:
    """Count files and bytes of extents; None if they are not on a disk of this machine."""
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
    """Return the bytes of extents; None if they have many files or are not on a local disk."""
    found = stored(extents, _MAX_FILES)
    return found.bytes if found is not None and found.is_all else None


def sampled_bytes(extents: Iterable[Extent]) -> int | None:
    """Estimate the bytes of extents from a sample; None if that would take long."""
    # All entries of a folder are counted. The sizes of some, evenly spaced among the sorted names, represent
    # the others. Remote stores list names without sizes.
    places = list({(repr(e.store), tuple(e.names or ())): e for e in extents}.values())
    try:
        found = [_sampled(extent) for extent in _spread(places, _SAMPLED_EXTENTS)]
    except _NotKnown:
        return None
    return _scaled(found, len(places)) or None


def _spread(items: Sequence[_T], number: int) -> Sequence[_T]:
    """Return at most ``number`` items, evenly spaced: the middle of each of as many parts."""
    if len(items) <= number:
        return items
    return [items[(2 * k + 1) * len(items) // (2 * number)] for k in range(number)]


def _scaled(sizes: Sequence[int], number: int) -> int:
    """Extrapolate from the sizes of some of ``number`` items to all."""
    return sum(sizes) * number // len(sizes) if sizes else 0


def _sampled(extent: Extent) -> int:
    path = _path(extent)
    if extent.names is None:
        return _of_folder(path, _DEEPEST) if os.path.isdir(path) else _size(path)
    places = [os.path.join(path, name) for name in _spread(extent.names, _SAMPLED_FILES)]
    sizes = [_of_folder(p, _DEEPEST) if os.path.isdir(p) else _size(p) for p in places]
    return _scaled(sizes, len(extent.names))


def _of_folder(path: str, deepest: int) -> int:
    """Estimate the bytes of all files in and below a folder."""
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
    """Yield the status of a file, or of all files in and below a folder, each folder once."""
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
        except OSError:  # removed meanwhile, or not readable
            continue
