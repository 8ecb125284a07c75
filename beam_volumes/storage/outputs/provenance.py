"""Where it is kept what an output was made of, and how it is read; and what tells an input as it was.

A document in the output's home, once the run has ended. It lies where no other program looks for
files: formats say where. Whatever clears an output clears it too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from beam_volumes.base.text import parsed_json
from beam_volumes.storage.formats.format import PROVENANCE
from beam_volumes.storage.places.ownership import OwnedOutput, home_of
from beam_volumes.storage.places.place import Place, kvstore_spec
from beam_volumes.storage.sources.source import Source
from beam_volumes.storage.sources.stamps import DOCUMENTS

#: Files of an input that are looked at, and its places.
_FILES, _PLACES = 256, 8


def write(sink: OwnedOutput, document: Mapping[str, Any]) -> None:
    """Put a document beside the units of an output; it is whole or not there."""
    if sink.is_file:
        document = {**document, "file": list(_local(sink.kvstore["path"], None))}
    Place(sink.home).write(sink.provenance_key, json.dumps(document, indent=1).encode())


def written(sink: OwnedOutput) -> dict[str, Any] | None:
    """The document of an output; None if there is none, or it is damaged."""
    return _parsed(Place(sink.home).read(sink.provenance_key))


def found(place: Place) -> dict[str, Any] | None:
    """The document of whatever output of ours is at a place, or None."""
    homes = [place.directory]
    if place.local is not None and not os.path.isdir(place.local):
        homes = [home_of(place.spec, True)]
    for home in homes:
        for key in (PROVENANCE, f"0/{PROVENANCE}"):
            document = _parsed(Place.of(home).read(key))
            if document is not None:
                # Another program may have written the file anew.
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
    """Describe an input: what and where it is, and what shows whether it has changed since."""
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
    """Files of an input with what is cheap to know: size and time, or the version that a bucket tells."""
    for extent in source.reader.extents[:_PLACES]:
        try:
            spec = kvstore_spec(extent.store)
            if spec.get("driver") == "file":
                yield from _local(str(spec["path"]), extent.names)
            else:
                yield from _remote(Place.of(spec), extent.names)
        except (OSError, ValueError, KeyError, TypeError):  # it is not worth a run
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
    """A time as ISO 8601 has it.

    Examples
    --------
    >>> moment(0)
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
