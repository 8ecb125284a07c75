"""Inspect a stored volume: its places, the encoding of its chunks, and chunks that cannot be read."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import tensorstore as ts

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.storage.places.place import kvstore_spec
from beam_volumes.storage.sources.source import Source

#: Bytes of voxels that are read at a time, and the number of threads.
_BYTES, _THREADS = 16 << 20, 4


def others(source: Source, path: str) -> list[str]:
    """Return local places of a volume that are neither a path nor below it."""
    found: dict[str, None] = {}
    for extent in source.reader.extents:
        spec = kvstore_spec(extent.store) if isinstance(extent.store, str) else extent.store
        root = os.path.abspath(str(spec.get("path", "")))
        is_whole = spec.get("driver") == "file" and extent.names is None
        if is_whole and os.path.commonpath([root, path]) not in (path, root):
            found[root] = None
    return list(found)


def codec(source: Source) -> str:
    """Describe the encoding of a volume's chunks; empty if unknown.

    >>> from beam_volumes.storage.inputs.opening import open_source
    >>> _ = bv.compute(bv.open(np.zeros((4, 5), "u2")).to("a.zarr", codec="zstd"), runner=None)
    >>> codec(open_source("a.zarr"))
    'zstd level 1'
    """
    reader = source.stored.reader
    codec_name = getattr(reader, "codec", None)
    if isinstance(codec_name, str):
        return codec_name
    if source.in_memory or not hasattr(reader, "spec"):
        return "" if source.encoded else "none"
    known = reader.open().codec
    found = None if known is None else known.to_json()
    return _words(found) if isinstance(found, dict) else ""


def _words(found: dict[str, Any]) -> str:
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
    """Describe one codec of a zarr v3 chunk; empty for the codec "bytes"."""
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


class Damage(NamedTuple):
    """A chunk that cannot be read."""

    where: str  #: The time point and channel, if there are several, and the chunk
    why: str


@dataclass
class Check:
    """The state of a check."""

    source: Source
    chunks: int = 0  #: Number of chunks read, including damaged ones
    #: Chunks that are not stored and read as the fill value; this is valid
    absent: int = 0
    damaged: int = field(default=0)

    def problems(self) -> Iterator[Damage]:
        """Read every chunk once and yield unreadable ones."""
        for at, one in _points(self.source):
            boxes = _boxes(one)
            with ThreadPoolExecutor(_THREADS) as pool:
                while some := list(itertools.islice(boxes, 4 * _THREADS)):
                    for found in pool.map(partial(_unreadable, one), some):
                        self.chunks += found.chunks
                        for box, why in found.damaged:
                            self.damaged += 1
                            yield Damage(f"{at}{_range(one, box)}", why)
            self.absent += _absent(one)


class _Found(NamedTuple):
    chunks: int
    damaged: list[tuple[Box, str]]


def _points(source: Source) -> Iterator[tuple[str, Source]]:
    """Yield single volumes that together contain every chunk once, with their names."""
    axes = source.space.leading
    starts = [range(0, n, c) for n, c in zip(source.leading, source.leading_chunk, strict=True)]
    for at in itertools.product(*starts):
        one = source
        for axis, k in zip(axes, at, strict=True):
            one = one.point(axis, k)
        yield "".join(f"{axis}={k} " for axis, k in zip(axes, at, strict=True)), one


def _boxes(source: Source) -> Iterator[Box]:
    """Yield boxes of whole chunks, in order, that cover a source."""
    size = [max(1, c) for c in source.chunk]
    for axis in (2, 1, 0):
        room = _BYTES // max(1, math.prod(size) * source.dtype.itemsize)
        several = max(1, min(room, -(-source.shape[axis] // size[axis])))
        size[axis] *= several
        if size[axis] < source.shape[axis]:
            break
    yield from _cells(Box.of_shape(source.shape), (size[0], size[1], size[2]), source.chunk_origin)


def _cells(box: Box, size: Triple, origin: Triple) -> Iterator[Box]:
    ranges = []
    for a, b, n, o in zip(box.start, box.stop, size, origin, strict=True):
        first = o + (a - o) // n * n
        ranges.append([(max(a, k), min(b, k + n)) for k in range(first, b, n)])
    for cell in itertools.product(*ranges):
        yield Box(tuple(a for a, _ in cell), tuple(b for _, b in cell))  # type: ignore[arg-type]


def _unreadable(source: Source, box: Box) -> _Found:
    """Return the number of chunks in a box, and the unreadable ones."""
    chunks = list(_cells(box, source.chunk, source.chunk_origin))
    if _error(source, box) is None:
        return _Found(len(chunks), [])
    errors = [(chunk, _error(source, chunk)) for chunk in chunks]
    return _Found(len(chunks), [(chunk, why) for chunk, why in errors if why is not None])


def _error(source: Source, box: Box) -> str | None:
    try:
        source.read(box)
    except (OSError, ValueError) as error:
        return " ".join(str(error).split())
    return None


def _absent(source: Source) -> int:
    """Return the number of chunks that are not stored, if the store can report it."""
    try:
        store = source.open()
        if store.storage_statistics(query_fully_stored=True).result().fully_stored:
            return 0
        absent = 0
        cells = _cells(Box.of_shape(source.shape), source.chunk, source.chunk_origin)
        while some := list(itertools.islice(cells, 1000)):
            asked: Sequence[ts.Future] = [
                store[box.slices].storage_statistics(query_not_stored=True) for box in some
            ]
            absent += sum(bool(f.result().not_stored) for f in asked)
        return absent
    except (ValueError, NotImplementedError, OSError):
        return 0


def _range(source: Source, box: Box) -> str:
    """Return a box by its visible axes, in the notation of crops."""
    pairs = zip(box.start, box.stop, strict=True)
    shown = [f"{a}:{b}" for axis, (a, b) in enumerate(pairs) if axis in source.space.visible]
    return f"[{','.join(shown)}]"
