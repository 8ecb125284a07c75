"""File objects for remote objects and local files, as libraries read them."""

from __future__ import annotations

import io
import os
from typing import Any, Protocol

from beam_volumes.base.text import printable
from beam_volumes.storage.places.credentials import with_secrets
from beam_volumes.storage.places.errors import VolumeError, explain
from beam_volumes.storage.places.place import Spec, url


class Readable(Protocol):
    """Bytes of known size with random access."""

    size: int

    def pread(self, count: int, at: int) -> bytes: ...


class Object:
    """An object of a remote key-value store; ``size`` is its length."""

    def __init__(self, spec: Spec) -> None:
        import tensorstore as ts

        from beam_volumes.storage.places.context import context

        folder, _, self._key = str(spec["path"]).rpartition("/")
        self._name = url(spec)
        below = {**spec, "path": folder + "/" if folder else ""}
        self._store = ts.KvStore.open(with_secrets(below), context=context()).result()
        self.size = self._length()

    def _read(self, start: int, stop: int) -> Any:
        return self._store.read(self._key, byte_range=slice(start, stop))

    def pread(self, count: int, at: int) -> bytes:
        if count <= 0:
            return b""
        try:
            found = self._read(at, at + count).result()
        except Exception as error:
            raise explain(error, f"reading {self._name}") from None
        if found.state != "value":
            raise VolumeError(f"{printable(self._name)} no longer exists; restore it")
        return bytes(found.value)

    def _length(self) -> int:
        """Find the length by bisection, with 16 requests at a time: no store reports it."""
        try:
            is_there = self._read(0, 1).result().state == "value"
        except Exception as error:
            if "OUT_OF_RANGE" in str(error):
                return 0
            raise explain(error, f"opening {self._name}") from None
        if not is_there:
            raise FileNotFoundError(f"{printable(self._name)} does not exist; check the path")
        low, high = 1, 1 << 48
        while high - low > 1:
            step = max(1, (high - low) // 17)
            asked = [low + step * k for k in range(1, 17) if low + step * k < high]
            if low < 1 << 40 and high == 1 << 48:
                asked = [b for b in (1 << k for k in range(16, 48, 2)) if low < b < high]
            there = [self._has(f) for f in [(b, self._read(b - 1, b)) for b in asked]]
            for b, yes in zip(asked, there, strict=True):
                if yes:
                    low = b
                else:
                    high = b
                    break
        return low

    def _has(self, asked: tuple[int, Any]) -> bool:
        try:
            return len(asked[1].result().value) == 1
        except Exception as error:
            text = str(error)
            # Some servers answer with a range that ends before it begins.
            if any(t in text for t in ("OUT_OF_RANGE", "416", "not valid", "Content-Range")):
                return False
            raise explain(error, f"opening {self._name}") from None


class Stream(io.RawIOBase):
    """A file object with its own position."""

    def __init__(self, file: Readable) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self._file.size)[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, out: Any) -> int:
        data = self._file.pread(min(len(out), max(0, self._file.size - self._at)), self._at)
        out[: len(data)] = data
        self._at += len(data)
        return len(data)


class BoundedFile(io.BufferedReader):
    """A file that never reads beyond its end: a library that requests 2**40 bytes gets the rest.

    >>> _ = open("a", "wb").write(b"four")
    >>> with BoundedFile("a") as file:
    ...     file.read(1 << 50)
    b'four'
    """

    def __init__(self, path: str) -> None:
        super().__init__(io.FileIO(path), 1 << 16)
        self.size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > 1 << 16:
            size = min(size, max(0, self.size - self.tell()))
        return super().read(size)
