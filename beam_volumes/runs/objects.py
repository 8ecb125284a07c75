"""Small objects in a folder of any key-value store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import tensorstore as ts

from beam_volumes.storage.context import context, opened
from beam_volumes.storage.credentials import with_secrets
from beam_volumes.storage.errors import explain
from beam_volumes.storage.kvstore import Spec, join, url

#: How many objects are asked for at a time.
_BATCH = 256


class Folder:
    """Whole objects written at once, read, listed and deleted, below one place.

    Handles are opened once per process, and never pickled.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = join(spec, directory=True)

    def __reduce__(self) -> tuple[type[Folder], tuple[Spec]]:
        return Folder, (self._spec,)

    @property
    def _store(self) -> ts.KvStore:
        key = json.dumps(self._spec, sort_keys=True)
        return opened(f"folder {key}", lambda: _open(self._spec))

    def place(self, key: str) -> str:
        """How messages name an object."""
        return url(join(self._spec, key))

    def write(self, key: str, data: bytes) -> None:
        """Put an object there or replace it: readers see all of it or none."""
        try:
            self._store.write(key, data).result()
        except Exception as error:
            raise explain(error, f"writing {self.place(key)}") from error

    def read(self, key: str) -> bytes | None:
        """An object, or None where there is none."""
        return next(iter(self.read_many([key])))

    def read_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """Objects in the order of their keys, many requests at a time."""
        keys, store = iter(keys), self._store
        while batch := list(islice(keys, _BATCH)):
            futures = [store.read(key) for key in batch]
            for key, future in zip(batch, futures, strict=True):
                try:
                    found = future.result()
                except Exception as error:
                    raise explain(error, f"reading {self.place(key)}") from error
                yield found.value if found.state == "value" else None

    def names(self, prefix: str) -> list[str]:
        """The names below a prefix that ends with a slash, without it, sorted."""
        return next(iter(self.names_many([prefix])))

    def names_many(self, prefixes: Iterable[str]) -> Iterator[list[str]]:
        """`names` for several prefixes, asked at once."""
        prefixes = iter(prefixes)
        while batch := list(islice(prefixes, _BATCH)):
            futures = [self._store.list(_below(p), strip_prefix_length=len(p)) for p in batch]
            for prefix, future in zip(batch, futures, strict=True):
                try:
                    names = future.result()
                except Exception as error:
                    raise explain(error, f"listing {self.place(prefix)}") from error
                yield sorted(name.decode() for name in names)

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders directly below one on a disk, whose name ends with a slash, sorted."""
        root = Path(self._spec["path"], prefix)
        return sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []

    def delete(self, *keys: str) -> None:
        """Delete objects, and all below the keys that end with a slash."""
        for key in keys:
            try:
                if key.endswith("/"):
                    self._store.delete_range(_below(key)).result()
                else:
                    self._store.write(key, None).result()
            except Exception as error:
                raise explain(error, f"writing to {self.place(key)}") from error
        if self._spec["driver"] == "file":  # folders and left-over lock files are no objects
            root = Path(self._spec["path"])
            for key in keys:
                if key.endswith("/"):
                    shutil.rmtree(root / key, ignore_errors=True)

    def tidy(self, *folders: str) -> None:
        """Remove folders on a disk, and the place itself, where nothing is in them."""
        if self._spec["driver"] == "file":
            root = Path(self._spec["path"])
            for folder in (*(root / name for name in folders), root):
                with suppress(OSError):
                    folder.rmdir()


def _below(prefix: str) -> ts.KvStore.KeyRange:
    return ts.KvStore.KeyRange(prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))


def _open(spec: Spec) -> ts.KvStore:
    # Objects are synchronised to the disk no more than the voxels they speak of: see `storage.durable`.
    return ts.KvStore.open(with_secrets(spec), context=context()).result()
