"""Detect places that share bytes under any names: none may be read and written at once."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import tensorstore as ts

from beam_volumes.storage.places.place import Spec

_UNKNOWN = "unknown"
#: Servers with the same buckets as a driver without an endpoint.
_OWN_SERVERS = ("amazonaws.com", "googleapis.com")


@dataclass(frozen=True)
class Extent:
    """Everything at and below a place, or some of its files."""

    store: Any  #: A key-value store of TensorStore: a spec or a URL
    names: Sequence[str] | None = None  #: The files, relative to the place; None for all

    @classmethod
    def unknown(cls, what: str) -> Extent:
        """Return the extent of code or an object, named by ``what``, that may read any store."""
        return cls({"driver": _UNKNOWN, "path": what})

    @property
    def hidden_by(self) -> str | None:
        """The code or object that hides its store; None if the store is known."""
        store = self.store
        is_unknown = isinstance(store, Mapping) and store.get("driver") == _UNKNOWN
        return str(store["path"]) if is_unknown else None


@dataclass(frozen=True)
class _Path:
    """A place with all its parents."""

    #: Identities of the root, of each folder, and of the place itself
    ids: tuple[Hashable, ...]
    parts: tuple[str, ...]  #: The names of the path from the root
    server: str | None = None  #: The server of a bucket, if given
    names: Sequence[str] | None = None  #: As in `Extent`

    def meets(self, other: _Path) -> bool:
        if self.server and other.server and self.server != other.server:
            return False
        if self.ids[-1] in other.ids:
            below = other.parts[other.ids.index(self.ids[-1]) :]
            return not below or _named(self.names, below)
        if other.ids[-1] in self.ids:
            below = self.parts[self.ids.index(other.ids[-1]) :]
            return _named(other.names, below)
        return False

    def within(self, kind: str, parts: Sequence[str]) -> _Path:
        """Return a place inside the data that a driver stores in this one."""
        ids = [self.ids[-1]]
        for part in (f"|{kind}", *parts):
            ids.append((ids[-1], part))
        return _Path(self.ids + tuple(ids[1:]), (*self.parts, kind, *parts), self.server)


class Bytes:
    """The bytes that some extents contain now, with links followed and names resolved."""

    # Two extents share bytes if they are the same place or one contains the other. Existing local places are
    # identified by device and inode, and objects in a bucket by its name and their key.

    def __init__(self, extents: Iterable[Extent]) -> None:
        folders: dict[str, _Path] = {}
        self._paths = [
            _Path(p.ids, p.parts, p.server, e.names)
            for e in extents
            for p in _paths(e.store, folders)
        ]

    def meet(self, other: Bytes) -> bool:
        return any(a.meets(b) for a in self._paths for b in other._paths)


def stores(spec: Any) -> Iterator[Extent]:
    """Yield the extents of an array that TensorStore opens, from its spec and all nested specs."""
    if not isinstance(spec, Mapping):
        spec = ts.Spec(spec).to_json()
    if "kvstore" in spec:
        yield _of_scale(spec) or Extent(spec["kvstore"])
    for below in (spec.get("base"), *spec.get("layers", ())):
        if below is not None:
            yield from stores(below)


def _of_scale(spec: Mapping[str, Any]) -> Extent | None:
    """Return the extent of a single scale of a precomputed volume, with its ``info`` file."""
    store, scale = spec["kvstore"], spec.get("scale_metadata")
    key = scale.get("key") if isinstance(scale, Mapping) else None
    if spec.get("driver") != "neuroglancer_precomputed" or not isinstance(key, str):
        return None
    names = posixpath.normpath(key)
    inside = names not in (".", "..") and not names.startswith(("/", "../"))
    return Extent(store, ("info", names)) if inside else None


def _named(names: Sequence[str] | None, below: tuple[str, ...]) -> bool:
    """Whether a path below a place is, or contains, one of its names; None stands for all."""
    if names is None:
        return True
    path = "/".join(below)
    return any(n == path or n.startswith(path + "/") for n in names)


def _paths(store: Any, folders: dict[str, _Path]) -> Iterator[_Path]:
    """Yield the places where a key-value store keeps its bytes."""
    spec: Spec = dict(store) if isinstance(store, Mapping) else ts.KvStore.Spec(store).to_json()
    driver, path = str(spec.get("driver")), str(spec.get("path", ""))
    if driver == "kvstack":
        for layer in spec.get("layers", ()):
            yield from _paths(layer["base"], folders)
    elif "base" in spec:
        for base in _paths(spec["base"], folders):
            yield base.within(driver, _parts(path))
    elif driver == "file":
        yield _local(path, folders)
    elif driver == "http":
        yield from _served(str(spec.get("base_url", "")), path)
    elif driver in ("s3", "gcs", "gcs_grpc"):
        server = _server(str(spec.get("endpoint") or ""))
        yield _in_bucket(str(spec.get("bucket", "")), path, server)
    else:
        yield _keyed((driver,), _parts(path))


def _local(path: str, folders: dict[str, _Path]) -> _Path:
    """Return a local path; existing folders are identified by inode, and kept in ``folders``."""
    path = os.path.expanduser(path)
    # Links are followed before "..", as the system does.
    resolve = os.path.realpath if ".." in path.split(os.sep) else os.path.abspath
    path = resolve(path)
    if os.path.islink(path):
        path = os.path.realpath(path)
    folder, name = os.path.split(path)
    if not name:
        return _Path((_identity(path) or ("file", path),), ())
    if folder not in folders:
        folders[folder] = _local(folder, folders)
    above = folders[folder]
    own = _identity(path) or (above.ids[-1], name)
    return _Path((*above.ids, own), (*above.parts, name))


def _identity(path: str) -> Hashable:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Some network file systems have no inode numbers.
    return ("file", found.st_dev, found.st_ino) if found.st_ino else None


def _served(url: str, path: str) -> Iterator[_Path]:
    """Yield a web server's place, and the bucket places that its host or path may name."""
    split = urlsplit(url)
    host, parts = (split.hostname or "").lower(), _parts(f"{unquote(split.path)}/{path}")
    yield _keyed(("http", _server(url)), parts)
    label, _, domain = host.partition(".")
    server = _server(url)
    if parts:
        yield _in_bucket(parts[0], "/".join(parts[1:]), server)
    if domain:
        named = server.replace(f"{label}.", "", 1) if server else None
        yield _in_bucket(label, "/".join(parts), named)


def _in_bucket(bucket: str, path: str, server: str | None) -> _Path:
    found = _keyed(("bucket", bucket.lower()), _parts(path))
    return _Path(found.ids, found.parts, server)


def _keyed(root: Hashable, parts: tuple[str, ...]) -> _Path:
    return _Path(tuple((root, *parts[:k]) for k in range(len(parts) + 1)), parts)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(p for p in posixpath.normpath(f"/{path}").split("/") if p)


def _server(endpoint: str) -> str | None:
    """Return host and port of an endpoint; None if there is none, or for the default servers."""
    split = urlsplit(endpoint)
    host = (split.hostname or "").lower()
    if not host or host.endswith(_OWN_SERVERS):
        return None
    if host in ("localhost", "127.0.0.1", "::1"):
        host = "localhost"
    port = split.port or {"http": 80, "https": 443}.get(split.scheme)
    return f"{host}:{port}"
