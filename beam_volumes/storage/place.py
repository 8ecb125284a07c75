"""A place to look into when finding out what lies there."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from dataclasses import dataclass, field
from typing import Any

import tensorstore as ts

from beam_volumes.storage import kvstore
from beam_volumes.storage.context import context
from beam_volumes.storage.errors import explain


@dataclass
class Place:
    """A path or URL, what was asked of it, and the small files read there so far."""

    text: str
    spec: kvstore.Spec
    _read: dict[str, bytes | None] = field(default_factory=dict)

    @classmethod
    def of(cls, place: str | os.PathLike[str] | kvstore.Spec) -> Place:
        spec = kvstore.kvstore_spec(place)
        return cls(kvstore.url(spec), spec)

    @property
    def local(self) -> str | None:
        """The local path, if it is one."""
        return str(self.spec["path"]) if self.spec.get("driver") == "file" else None

    def below(self, path: str) -> Place:
        spec = kvstore.join(self.spec, path)
        return Place(kvstore.url(spec), spec)

    def directory(self) -> kvstore.Spec:
        return kvstore.join(self.spec, directory=True)

    def read(self, key: str) -> bytes | None:
        """The content of a small file below, or None."""
        if key not in self._read:
            if self.local is not None and not os.path.isfile(os.path.join(self.local, key)):
                self._read[key] = None
            else:
                self._read[key] = read_key(self.directory(), key)
        return self._read[key]

    def json(self, key: str) -> dict[str, Any] | None:
        """The JSON object in a small file below, or None."""
        data = self.read(key)
        if data is None:
            return None
        try:
            value = json.loads(data)
        except ValueError as error:
            raise OSError(f"{self.text}/{key} is damaged: {error}") from None
        if not isinstance(value, dict):
            raise OSError(f"{self.text}/{key} is damaged: not a JSON object")
        return value


def read_key(directory: kvstore.Spec, key: str) -> bytes | None:
    """The content of a file in a directory, or None if there is none."""
    try:
        result = ts.KvStore.open(directory, context=context()).result().read(key).result()
    except ValueError as error:
        raise explain(error, f"reading {kvstore.url(directory)}{key}") from None
    return bytes(result.value) if result.state == "value" else None


def list_keys(directory: kvstore.Spec) -> list[str]:
    """The names of all files below a directory, sorted."""
    try:
        found = ts.KvStore.open(directory, context=context()).result().list().result()
    except ValueError as error:
        raise explain(error, f"listing {kvstore.url(directory)}") from None
    return sorted(key.decode() for key in found)


def names_in(folder: kvstore.Spec) -> list[str]:
    """What is directly in a folder on a disk, or all that is below it in a bucket, sorted."""
    if kvstore.is_local(folder):
        return sorted(os.listdir(folder["path"])) if os.path.isdir(folder["path"]) else []
    return list_keys(folder)


def delete_keys(directory: kvstore.Spec) -> None:
    """Delete all files below a directory; nothing there is no error."""
    try:
        store = ts.KvStore.open(directory, context=context()).result()
        store.delete_range(ts.KvStore.KeyRange()).result()
    except ValueError as error:
        raise explain(error, f"clearing {kvstore.url(directory)}") from None


def write_key(directory: kvstore.Spec, key: str, value: bytes) -> None:
    """Write a small file in a directory, whole or not at all."""
    try:
        ts.KvStore.open(directory, context=context()).result().write(key, value).result()
    except ValueError as error:
        raise explain(error, f"writing {kvstore.url(directory)}{key}") from None


def check_writable(place: kvstore.Spec) -> None:
    """Raise OSError if nothing can be written at a place, where there may be nothing yet; leave nothing.

    Examples
    --------
    >>> check_writable(kvstore.kvstore_spec("/proc/out.zarr"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    OSError: writing to /proc/out.zarr: ...
    """
    name = kvstore.url(place)
    if kvstore.is_local(place):
        folder = os.path.abspath(place["path"])
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise OSError(
                f"writing to {name}: {error.strerror} (check who may write to {folder})"
            ) from None
        return
    key = f"writable-{uuid.uuid4().hex}"
    try:
        store = ts.KvStore.open(kvstore.join(place, directory=True), context=context()).result()
        store.write(key, b"").result()
        store.write(key, None).result()
    except Exception as error:
        raise explain(error, f"writing to {name}") from None
