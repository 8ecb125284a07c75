"""The provenance document of an output, and descriptions of inputs that detect changes.

The document is stored in the output's home when the run has ended, at a place that other programs
ignore: formats define it. Clearing the output deletes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from beam_volumes.base.text import lined_json, parsed_json
from beam_volumes.storage.formats.format import PROVENANCE
from beam_volumes.storage.places.ownership import OwnedOutput, home_of
from beam_volumes.storage.places.place import Place, kvstore_spec
from beam_volumes.storage.sources.source import Source
from beam_volumes.storage.sources.stamps import DOCUMENTS

#: Files of an input that are described, and its places.
_FILES, _PLACES = 256, 8


def write(sink: OwnedOutput, document: Mapping[str, Any]) -> None:
    """Write the document next to the units of an output, atomically."""
    if sink.is_file:
        document = {**document, "file": list(_local(sink.kvstore["path"], None))}
    Place(sink.home).write(sink.provenance_key, lined_json(document))


def written(sink: OwnedOutput) -> dict[str, Any] | None:
    """Return the document of an output; None if it does not exist or is damaged."""
    return _parsed(Place(sink.home).read(sink.provenance_key))


def found(place: Place) -> dict[str, Any] | None:
    """Return the document of an output at a place, or None."""
    homes = [place.directory]
    if place.local is not None and not os.path.isdir(place.local):
        homes = [home_of(place.spec, True)]
    for home in homes:
        for key in (PROVENANCE, f"0/{PROVENANCE}"):
            document = _parsed(Place.of(home).read(key))
            if document is not None:
                # Another program may have rewritten the file.
                is_same = document.get("file") in (None, list(_local(place.local or "", None)))
                return document if is_same else None
    return None


def _parsed(data: bytes | None) -> dict[str, Any] | None:
    try:
        document = None if data is None else parsed_json(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) and "run" in document else None


# inputs


def described_input(source: Source) -> dict[str, Any]:
    """Describe an input: its identity, location and properties that detect a change."""
    space = source.space
    return {
        "name": source.name,
        "digest": source.token(),
        "shape": [source.shape[a] for a in space.visible],
        "dtype": str(source.dtype),
        "voxel_size": None
        if space.voxel_size is None
        else [space.voxel_size[a] for a in space.visible],
        "unit": space.unit,
        "origin": [space.origin[a] for a in space.visible],
        "files": list(_stamps(source)),
        **({"lost": dict(source.lost)} if source.lost else {}),
    }


def _stamps(source: Source) -> Iterator[dict[str, Any]]:
    """Yield files of an input with size and time, or an object's version."""
    for extent in source.reader.extents[:_PLACES]:
        try:
            spec = kvstore_spec(extent.store)
            if spec.get("driver") == "file":
                yield from _local(str(spec["path"]), extent.names)
            else:
                yield from _remote(Place.of(spec), extent.names)
        except (OSError, ValueError, KeyError, TypeError):  # never fail a run for this
            continue


def _local(path: str, names: Any) -> Iterator[dict[str, Any]]:
    if names is None:
        names = DOCUMENTS if os.path.isdir(path) else ("",)
        paths = [os.path.join(path, n).rstrip("/") for n in names]
    else:
        step = max(1, -(-len(names) // _FILES))
        paths = [os.path.join(path, names[k]) for k in range(0, len(names), step)]
    for each in paths:
        if os.path.isfile(each):
            file = os.stat(each)
            yield {"file": each, "bytes": file.st_size, "modified": moment(file.st_mtime)}


def _remote(place: Place, names: Any) -> Iterator[dict[str, Any]]:
    for name in DOCUMENTS if names is None else ():
        read = place.store.read(name).result()
        if read.state == "value":
            yield {"file": place.name_of(name), "version": read.stamp.generation.hex()}


def moment(seconds: float) -> str:
    """Return a time in ISO 8601.

    >>> moment(0)
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
