"""Detect replaced inputs by the sizes and times of files, or the versions of objects in buckets.

Of many files a sample is compared; of an array its metadata and some chunks.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Place, kvstore_spec

#: Metadata files of arrays: they change when an array is rewritten.
DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", ".zgroup", "attributes.json", "info")
#: Files of an input that are compared, and objects in buckets.
_FILES, _OBJECTS = 1000, 16
#: Chunks of a folder that are compared, in each subfolder, and entries that are listed there.
_CHUNKS, _OF_ONE, _LOOKED_AT = 64, 8, 256
_IS_CHUNK = re.compile(
    r"\d+([._-]\d+)*|.*\d.*\.(tiff?|png|jpe?g|jp2|dcm|shard)|[0-9a-f]+\.shard", re.I
)
_IS_CHUNKS = re.compile(r"c|\d+([._-]\d+)*")

_T = TypeVar("_T")
#: A file or an object, and the identity of its content.
Stamp = tuple[str, str]


def stamps(extents: Sequence[Extent]) -> list[Stamp]:
    """Return the identities of the content of some extents, if quickly available."""
    local: list[str] = []
    remote: list[str] = []
    for extent in _some(extents, _FILES):
        if extent.hidden_by is not None:
            continue
        spec = kvstore_spec(extent.store)
        if spec.get("driver") == "file":
            local += _files(str(spec["path"]), extent.names)
        elif spec.get("driver") != "memory" and len(remote) < _OBJECTS:
            names = _some(extent.names or DOCUMENTS, _OBJECTS)
            remote += [json.dumps([spec, name]) for name in names]
    found = [(path, _of_file(path)) for path in _some(local, _FILES)]
    for place in remote:
        stamp = _of_object(place)
        # A server without versions returns another one each time.
        if stamp and _of_object(place) == stamp:
            found.append((place, stamp))
    return [(place, stamp) for place, stamp in found if stamp]


def changed(then: Iterable[Sequence[str]]) -> str | None:
    """Return the first file or object that was removed or rewritten; None if there is none."""
    for place, stamp in then:
        if not place.startswith("["):
            if _of_file(place) != stamp:
                return place
        elif _of_object(place) not in (stamp, None):
            folder, name = _object(place)
            return folder.name_of(name)
    return None


def renewed(then: Iterable[Sequence[str]], places: Collection[str]) -> list[Stamp]:
    """Return stamps with updated values for some local files."""
    return [
        (place, (_of_file(place) or stamp) if place in places else stamp) for place, stamp in then
    ]


def _of_file(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"


def _of_object(place: str) -> str | None:
    """Return an object's version; empty if missing, None if the server does not answer."""
    folder, name = _object(place)
    try:
        read = folder.store.read(name, byte_range=slice(0, 1)).result()
    except Exception:
        return None
    return read.stamp.generation.hex() if read.state == "value" else ""


def _object(place: str) -> tuple[Place, str]:
    spec, name = json.loads(place)
    return Place.of(spec), name


def _files(path: str, names: Sequence[str] | None) -> list[str]:
    if names is not None:
        return [os.path.join(path, name) for name in _some(names, _FILES)]
    if not os.path.isdir(path):
        return [path]
    documents = (os.path.join(path, name) for name in DOCUMENTS)
    return [*filter(os.path.isfile, documents), *islice(_chunks(path), _CHUNKS)]


def _chunks(path: str) -> Iterator[str]:
    """Yield some chunk or slice files of a folder and of each folder below."""
    folders = [path]
    while folders:
        try:
            with os.scandir(folders.pop(0)) as entries:
                found = list(islice(entries, _LOOKED_AT))
        except OSError:
            continue
        yield from _some(
            [e.path for e in found if _IS_CHUNK.fullmatch(e.name) and e.is_file()], _OF_ONE
        )
        inside = [e.path for e in found if _IS_CHUNKS.fullmatch(e.name) and e.is_dir()]
        folders += _some(inside, _OF_ONE)


def _some(items: Sequence[_T], number: int) -> Sequence[_T]:
    """Return at most ``number`` items, evenly spaced, including the first and the last."""
    if len(items) <= number:
        return items
    return [items[k * (len(items) - 1) // (number - 1)] for k in range(number)]
