"""TIFF files: their directories (IFDs), found and checked, and reads at positions.

All values of headers are compared with the file's length before they are used to read or allocate.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.place import Spec, url
from beam_volumes.storage.places.remote_file import Object

#: Maximal number of directories.
MAX_PAGES = 1 << 24
#: Maximal number of tags in a directory.
MAX_TAGS = 4096
#: Maximal bytes of a tag that is not a table of tiles; descriptions of millions of planes are this
#: long.
MAX_BYTES = 1 << 30
#: Cached directories per file, cached parts of their tables, and tiles in a part.
_CACHED, _PARTS, _PART = 4096, 128, 4096
#: Bytes of a value, by type.
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
SIZES |= {16: 8, 17: 8, 18: 8}
_INTEGERS = {1: "u1", 3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}

WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER = 256, 257, 258, 259, 262, 266
STRIP_OFFSETS, SAMPLES, ROWS_PER_STRIP, STRIP_COUNTS, PLANAR = 273, 277, 278, 279, 284
DESCRIPTION = 270
PREDICTOR, TILE_WIDTH, TILE_LENGTH, TILE_OFFSETS, TILE_COUNTS = 317, 322, 323, 324, 325
SUB_IFDS, SAMPLE_FORMAT, JPEG_TABLES = 330, 339, 347
#: Tags of old JPEG: a stream, its length, and its tables.
JPEG_STREAM, JPEG_LENGTH, OLD_TABLES = 513, 514, (519, 520, 521)
#: Tags that are equal for all pages of one image, with their defaults.
ALIKE = {
    WIDTH: 0,
    LENGTH: 0,
    BITS: 1,
    COMPRESSION: 1,
    FILL_ORDER: 1,
    SAMPLES: 1,
    ROWS_PER_STRIP: 0,
    PLANAR: 1,
    PREDICTOR: 1,
    TILE_WIDTH: 0,
    TILE_LENGTH: 0,
    SAMPLE_FORMAT: 1,
}
_TABLES = (STRIP_OFFSETS, STRIP_COUNTS, TILE_OFFSETS, TILE_COUNTS)


@dataclass(frozen=True)
class Flavour:
    """The byte order, and whether positions have 64 bits (BigTIFF)."""

    order: Any
    big: bool

    @property
    def head(self) -> int:
        """The size of the header."""
        return 16 if self.big else 8

    @property
    def entry(self) -> int:
        return 20 if self.big else 12

    @property
    def inline(self) -> int:
        return 8 if self.big else 4

    @property
    def count(self) -> struct.Struct:
        return struct.Struct(self.order + ("Q" if self.big else "H"))

    @property
    def position(self) -> struct.Struct:
        return struct.Struct(self.order + ("Q" if self.big else "I"))

    @property
    def entries(self) -> np.dtype:
        o, n = self.order, "u8" if self.big else "u4"
        return np.dtype(
            [("code", o + "u2"), ("type", o + "u2"), ("count", o + n), ("value", o + n)]
        )


def flavour(head: bytes) -> Flavour | None:
    r"""Return the flavour of a file from its first bytes; None if it is not TIFF.

    >>> flavour(b"MM\x00*\x00\x00\x00\x08")
    Flavour(order='>', big=False)
    """
    order = {b"II": "<", b"MM": ">"}.get(head[:2])
    if order is None or len(head) < 4:
        return None
    (version,) = struct.unpack(order + "H", head[2:4])
    if version == 43:
        sizes = struct.unpack(order + "HH", head[4:8]) if len(head) >= 8 else (0, 0)
        return Flavour(order, True) if sizes == (8, 0) else None
    return Flavour(order, False) if version == 42 else None


class File:
    """A TIFF file for parallel reads at positions; it is closed when it is garbage collected.

    It caches recent directories. ``content`` is the whole file if it was already read.
    """

    def __init__(self, spec: Spec, content: bytes | None = None) -> None:
        self.name = url(spec)
        self._fd: int | None = None
        self._close = os.close  # still available at interpreter exit
        self._content = content
        if content is not None:
            self.size = len(content)
        elif spec.get("driver") == "file":
            self._fd = os.open(spec["path"], os.O_RDONLY | getattr(os, "O_BINARY", 0))
            self.size = os.fstat(self._fd).st_size
        else:
            self._object = Object(spec)
            self.size = self._object.size
        found = flavour(self.pread(16, 0))
        if found is None:
            raise self.damaged("it has no TIFF header")
        self.flavour = found
        self._directories: OrderedDict[int, Directory] = OrderedDict()
        self._parts: OrderedDict[tuple[int, int, int], Any] = OrderedDict()
        self._lock = threading.Lock()

    def __del__(self) -> None:
        fd = getattr(self, "_fd", None)
        if fd is not None:
            self._close(fd)

    def pread(self, count: int, at: int) -> bytes:
        """Read ``count`` bytes at a position, fewer at the end of the file."""
        count = min(count, max(0, self.size - at))
        if at < 0 or count <= 0:  # positions are untrusted
            return b""
        if self._content is not None:
            return self._content[at : at + count]
        if self._fd is None:
            return self._object.pread(count, at)
        data = os.pread(self._fd, count, at)
        while len(data) < count:  # one call reads at most 2 GiB
            more = os.pread(self._fd, count - len(data), at + len(data))
            if not more:
                break
            data += more
        return data

    def read(self, count: int, at: int, what: str) -> bytes:
        if count < 0 or at < 0 or at + count > self.size:
            raise self.damaged(f"{what} ends at {at + count}, but the file has {self.size} bytes")
        data = self.pread(count, at)
        if len(data) < count:
            raise self.damaged(f"{what} cannot be read: the file ends at {at + len(data)}")
        return data

    def damaged(self, why: str) -> VolumeError:
        return VolumeError(f"{printable(self.name)} is damaged: {why}; restore it")

    def directory(self, at: int) -> Directory:
        with self._lock:
            found = self._directories.get(at)
            if found is not None:
                self._directories.move_to_end(at)
                return found
        found = Directory.read(self, at)
        with self._lock:
            self._directories[at] = found
            while len(self._directories) > _CACHED:
                self._directories.popitem(last=False)
        return found

    def table(self, of: Directory, code: int, first: int, count: int) -> np.ndarray:
        """Return a part of a table of tiles; recent parts are cached."""
        which, at = divmod(first, _PART)
        if at + count <= _PART:
            return self._part(of, code, which)[at : at + count]
        parts = []
        for k in range(which, (first + count - 1) // _PART + 1):
            part = self._part(of, code, k)
            parts.append(part[max(0, first - k * _PART) : first + count - k * _PART])
        return np.concatenate(parts)

    def _part(self, of: Directory, code: int, k: int) -> np.ndarray:
        return self._cached(  # type: ignore[no-any-return]
            (of.at, code, k), lambda: of.numbers(self, code, k * _PART, _PART)
        )

    def data(self, of: Directory, code: int) -> bytes | None:
        if code not in of.tags:
            return None
        found: bytes | None = self._cached((of.at, code, -1), lambda: of.data(self, code))
        return found

    def _cached(self, key: tuple[int, int, int], read: Callable[[], Any]) -> Any:
        with self._lock:
            if key in self._parts:
                self._parts.move_to_end(key)
                return self._parts[key]
        found = read()
        with self._lock:
            self._parts[key] = found
            while len(self._parts) > _PARTS:
                self._parts.popitem(last=False)
        return found


def opened_file(spec: Spec) -> File:
    """Return the file opened by this process, reopened if it has changed."""
    who: object = ""
    if spec.get("driver") == "file":
        try:
            found = os.stat(spec["path"])
        except FileNotFoundError:
            raise VolumeError(f"{printable(url(spec))} is missing: restore it") from None
        who = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    return opened(f"tiff {url(spec)} {who}", lambda: File(spec))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Directory:
    """The tags of a page."""

    at: int  #: Its position
    order: Any  #: Byte order
    tags: dict[int, tuple[int, int, int]]  #: For each code: type, count, and position of its values
    inline: dict[int, bytes]  #: The values in the directory itself
    length: int = 0  #: Its bytes, without the position of the next one
    following: int = 0  #: The position of the next one; 0 for the last one

    @classmethod
    def read(cls, file: File, at: int) -> Directory:
        f = file.flavour
        head = file.read(f.count.size, at, f"the directory at {at}")
        (n,) = f.count.unpack(head)
        if not 0 < n <= MAX_TAGS:
            raise file.damaged(f"the directory at {at} declares {n} tags")
        data = file.read(n * f.entry, at + f.count.size, f"the directory at {at}")
        entries = np.frombuffer(data, f.entries)
        tags: dict[int, tuple[int, int, int]] = {}
        here: dict[int, bytes] = {}
        for k, (code, kind, count, value) in enumerate(entries.tolist()):
            size = SIZES.get(kind, 0) * count
            inside = (k + 1) * f.entry - f.inline
            if code in tags:
                continue
            if size <= f.inline:
                here[code], value = data[inside : inside + size], at + f.count.size + inside
            tags[code] = (kind, count, value)
        length = f.count.size + n * f.entry
        tail = file.pread(f.position.size, at + length)
        following = f.position.unpack(tail)[0] if len(tail) == f.position.size else 0
        return cls(at, f.order, tags, here, length, following)

    def numbers(
        self, file: File, code: int, first: int = 0, count: int | None = None
    ) -> np.ndarray:
        """Return some integers of a tag; empty if it does not exist."""
        if code not in self.tags:
            return np.empty(0, np.int64)
        kind, n, at = self.tags[code]
        dtype = _INTEGERS.get(kind)
        if dtype is None:
            raise file.damaged(f"tag {code} of the directory at {self.at} has no whole numbers")
        count = n - first if count is None else min(count, n - first)
        if count <= 0:
            return np.empty(0, np.int64)
        size = SIZES[kind]
        if code in self.inline:
            data = self.inline[code][first * size : (first + count) * size]
        else:
            data = file.read(
                count * size, at + first * size, f"tag {code} of the page at {self.at}"
            )
        return np.frombuffer(data, self.order + dtype).astype(np.int64)

    def number(self, file: File, code: int, default: int) -> int:
        found = self.numbers(file, code, 0, 1)
        return int(found[0]) if len(found) else default

    def data(self, file: File, code: int) -> bytes | None:
        if code not in self.tags:
            return None
        kind, count, at = self.tags[code]
        return file.read(SIZES.get(kind, 1) * count, at, f"tag {code} of the page at {self.at}")


@dataclass(frozen=True)
class Chain:
    """All directories of a file in order, checked."""

    offsets: np.ndarray
    alike: bool  #: Whether all have equal values of the tags `ALIKE`


def first_directory(file: File) -> int:
    f = file.flavour
    (at,) = f.position.unpack(file.read(f.head, 0, "its header")[-f.position.size :])
    return int(at)


def walk(file: File) -> Chain:
    """Find all directories of a file; refuse chains that loop or leave the file."""
    f = file.flavour
    at = first_directory(file)
    offsets: list[int] = []
    visited: set[int] = set()
    #: Directories by their number of tags, checked together.
    groups: dict[int, list[bytes]] = {}
    first: np.ndarray | None = None
    alike = True
    window, start, ahead = b"", 0, 4096
    count, position, entry = f.count, f.position, f.entry
    counted, shortest, tail = count.unpack_from, count.size, position.size
    while at:
        if at in visited:
            raise file.damaged(f"its page {len(offsets)} is page {offsets.index(at)} again: a loop")
        if len(offsets) >= MAX_PAGES:
            raise file.damaged(f"it has more than {MAX_PAGES} pages")
        inside = at - start
        if not 0 <= inside <= len(window) - 1024:
            # If directories are adjacent, one read covers many.
            near = bool(offsets) and abs(at - offsets[-1]) < 1 << 14
            ahead = 1 << 20 if near else 4096
            window, start, inside = file.pread(ahead, at), at, 0
        if len(window) - inside < shortest:
            raise file.damaged(
                f"its page {len(offsets)} is at {at}, but the file has {file.size} bytes"
            )
        (n,) = counted(window, inside)
        if not 0 < n <= MAX_TAGS:
            raise file.damaged(f"its page {len(offsets)} declares {n} tags")
        stop = inside + shortest + n * entry
        if stop + tail > len(window):
            window, start, inside = file.pread(shortest + n * entry + tail, at), at, 0
            stop = shortest + n * entry
            if len(window) < stop:
                raise file.damaged(f"its page {len(offsets)} exceeds the file")
        visited.add(at)
        offsets.append(at)
        group = groups.setdefault(n, [])
        group.append(window[inside + shortest : stop])
        if len(group) == 4096:
            first, same = _checked(file, group, n, first)
            alike &= same
            group.clear()
        # Some writers omit the last position.
        at = position.unpack_from(window, stop)[0] if stop + tail <= len(window) else 0
    if not offsets:
        raise file.damaged("it has no page")
    for n, group in groups.items():
        if group:
            first, same = _checked(file, group, n, first)
            alike &= same
    return Chain(np.array(offsets, np.int64), alike)


def _checked(
    file: File, group: Sequence[bytes], n: int, first: np.ndarray | None
) -> tuple[np.ndarray, bool]:
    """Check directories of ``n`` tags; return the first one's `ALIKE`, and whether all equal it."""
    f = file.flavour
    entries = np.frombuffer(b"".join(group), f.entries).reshape(len(group), n)
    sizes = np.zeros(1 << 16, np.uint8)
    for kind, bytes_each in SIZES.items():
        sizes[kind] = bytes_each
    count, value = entries["count"].astype(np.float64), entries["value"].astype(np.float64)
    need = sizes[entries["type"]] * count
    far = need > f.inline
    outside = far & (value + need > file.size)
    if outside.any():
        code, _, n, at = entries[outside][0].tolist()
        raise file.damaged(
            f"tag {code} declares {n} values at {at}, but the file has {file.size} bytes"
        )
    oversized = far & (need > MAX_BYTES) & ~np.isin(entries["code"], _TABLES)
    if oversized.any():
        raise file.damaged(
            f"tag {entries['code'][oversized][0]} declares more than {MAX_BYTES} bytes"
        )
    # A number of 2 bytes is in the first 2 bytes of its field, in any byte order.
    rows = np.zeros((len(group), len(ALIKE)), np.int64)
    raw = np.frombuffer(b"".join(group), np.uint8).reshape(len(group), n, f.entry)
    at = 12 if f.big else 8
    short = np.ascontiguousarray(raw[:, :, at : at + 2]).view(f.order + "u2")[..., 0]
    long = np.ascontiguousarray(raw[:, :, at : at + 4]).view(f.order + "u4")[..., 0]
    number = np.where(entries["type"] == 3, short, np.where(entries["type"] == 4, long, 0))
    # For values outside the directory, comparing their count is sufficient.
    number = np.where(far, -entries["count"].astype(np.int64), number.astype(np.int64))
    for k, (code, default) in enumerate(ALIKE.items()):
        is_it = entries["code"] == code
        rows[:, k] = np.where(is_it.any(1), (number * is_it).sum(1), default)
    if first is None:
        first = rows[0]
    return first, bool((rows == first).all())


@dataclass(frozen=True)
class Numbers:
    """Integers in a compact form for other processes: a progression, or compressed.

    >>> Numbers.of([8, 108, 208]).array().tolist()
    [8, 108, 208]
    """

    first: int
    step: int
    count: int
    packed: bytes = b""

    @classmethod
    def of(cls, numbers: Sequence[int] | np.ndarray) -> Numbers:
        values = np.asarray(numbers, np.int64)
        first = int(values[0]) if len(values) else 0
        steps = np.diff(values)
        step = int(steps[0]) if len(steps) else 0
        if (steps == step).all():
            return cls(first, step, len(values))
        packed = zlib.compress(np.ascontiguousarray(steps.astype("<i8")).tobytes(), 6)
        return cls(first, 0, len(values), packed)

    def array(self) -> np.ndarray:
        if not self.packed:
            return self.first + self.step * np.arange(self.count, dtype=np.int64)
        steps = np.frombuffer(zlib.decompress(self.packed), "<i8")
        return self.first + np.concatenate([[0], np.cumsum(steps)])
