"""What a volume takes where it is stored: files, bytes and how they are encoded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import kvstore_spec
from beam_volumes.storage.sources.source import Source

#: Files that are looked at: more are counted as "at least".
_MAXIMUM = 200_000


class Stored(NamedTuple):
    """What was found of a volume's files."""

    files: int
    bytes: int
    is_all: bool  #: Whether there are no more


def stored(extents: Iterable[Extent], most: int = _MAXIMUM) -> Stored | None:
    """The files of a volume and their bytes; None where no disk has them."""
    files = size = 0
    seen: set[tuple[int, int]] = set()
    for extent in extents:
        if extent.hidden_by is not None:
            return None
        spec = kvstore_spec(extent.store) if isinstance(extent.store, str) else extent.store
        if spec.get("driver") != "file":
            return None
        root = str(spec.get("path", ""))
        places = (
            [root] if extent.names is None else [os.path.join(root, name) for name in extent.names]
        )
        for place in places:
            for status in _files(place):
                if files >= most:
                    return Stored(files, size, False)
                if (status.st_dev, status.st_ino) not in seen:  # a link leads to what was counted
                    seen.add((status.st_dev, status.st_ino))
                    files, size = files + 1, size + status.st_size
    return Stored(files, size, True) if files else None


def others(source: Source, path: str) -> list[str]:
    """Local places that a volume is read from which are neither a path nor below it."""
    found: dict[str, None] = {}
    for extent in source.reader.extents:
        spec = kvstore_spec(extent.store) if isinstance(extent.store, str) else extent.store
        root = os.path.abspath(str(spec.get("path", "")))
        is_whole = spec.get("driver") == "file" and extent.names is None
        if is_whole and os.path.commonpath([root, path]) not in (path, root):
            found[root] = None
    return list(found)


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


def codec(source: Source) -> str:
    """How the chunks of a volume are encoded, in words; empty if that is not known.

    A reader says it by its ``codec``; of what TensorStore opens, the store knows.

    Examples
    --------
    >>> from beam_volumes.storage.inputs.opening import open_source
    >>> _ = bv.compute(bv.open(np.zeros((4, 5), "u2")).to("a.zarr", codec="zstd"), runner=None)
    >>> codec(open_source("a.zarr"))
    'zstd level 1'
    """
    reader = source.stored.reader
    said = getattr(reader, "codec", None)
    if isinstance(said, str):
        return said
    if source.held or not hasattr(reader, "spec"):
        return "" if source.encoded else "none"
    known = reader.open().codec
    found = None if known is None else known.to_json()
    return _words(found) if isinstance(found, dict) else ""


def _words(found: dict[str, Any]) -> str:
    """A codec of TensorStore."""
    if "codecs" in found:
        return ", then ".join(filter(None, map(_step, found["codecs"]))) or "none"
    one = found.get("compressor", found.get("compression", found.get("encoding")))
    if isinstance(one, dict):
        name = one.get("id", one.get("type", ""))
        level = one.get("clevel", one.get("level"))
        inner = f" ({one['cname']})" if "cname" in one else ""
        return f"{name}{inner}" + ("" if level is None else f" level {level}")
    return str(one) if one else "none"


def _step(step: dict[str, Any]) -> str:
    """One of the codecs that a chunk of zarr v3 goes through; nothing, of its bytes in order."""
    how = step.get("configuration", {})
    name = str(step.get("name", ""))
    if name == "sharding_indexed":
        shown = _words({"codecs": how.get("codecs", [])})
        return f"{shown}, in shards"
    if name == "bytes":
        return ""
    inner = f" ({how['cname']})" if "cname" in how else ""
    level = how.get("clevel", how.get("level"))
    return f"{name}{inner}" + ("" if level is None else f" level {level}")
