"""Which bytes a place stands for, whatever it is called, so that none is read and written at once."""

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
#: Servers that stand for the same buckets as a driver without an endpoint.
_OWN_SERVERS = ("amazonaws.com", "googleapis.com")


@dataclass(frozen=True)
class Extent:
    """Everything at and below a place, or some files of it."""

    store: Any  #: A key-value store of TensorStore: its spec, or its URL
    names: Sequence[str] | None = None  #: The files, relative to the place

    @classmethod
    def unknown(cls, what: str) -> Extent:
        """Return an extent of code or an object, named by ``what``, that may read any store."""
        return cls({"driver": _UNKNOWN, "path": what})

    @property
    def hidden_by(self) -> str | None:
        """The code or object that hides which store is read; None where the store is known."""
        store = self.store
        is_unknown = isinstance(store, Mapping) and store.get("driver") == _UNKNOWN
        return str(store["path"]) if is_unknown else None


@dataclass(frozen=True)
class _Path:
    """A place from its root on."""

    #: What tells the root, each folder and the place itself from all others
    ids: tuple[Hashable, ...]
    parts: tuple[str, ...]  #: The names that lead from one to the next
    server: str | None = None  #: Where a bucket is, if that is said
    names: Sequence[str] | None = None  #: As of `Extent`

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
        """A place in what a driver keeps in this one."""
        ids = [self.ids[-1]]
        for part in (f"|{kind}", *parts):
            ids.append((ids[-1], part))
        return _Path(self.ids + tuple(ids[1:]), (*self.parts, kind, *parts), self.server)


class Bytes:
    """The bytes that some extents stand for now: links are followed, names resolved.

    Two extents share bytes if they are one place, or one contains the other. On a disk, places are told
    apart by device and inode as far as they exist; in a bucket by its name and the key.

    Examples
    --------
    >>> a = Bytes([Extent({"driver": "file", "path": "/tmp/a.zarr/"})])
    >>> b = Bytes([Extent("file:///tmp/x/../a.zarr/0")])
    >>> a.meet(b), a.meet(Bytes([Extent("file:///tmp/a.zarr.run")]))
    (True, False)
    """

    def __init__(self, extents: Iterable[Extent]) -> None:
        self._paths = [
            _Path(p.ids, p.parts, p.server, e.names) for e in extents for p in _paths(e.store)
        ]

    def meet(self, other: Bytes) -> bool:
        return any(a.meets(b) for a in self._paths for b in other._paths)


def stores(spec: Any) -> Iterator[Extent]:
    """The extents of an array that TensorStore opens, from its spec: those of all that it rests on."""
    if not isinstance(spec, Mapping):
        spec = ts.Spec(spec).to_json()
    if "kvstore" in spec:
        yield _of_scale(spec) or Extent(spec["kvstore"])
    for below in (spec.get("base"), *spec.get("layers", ())):
        if below is not None:
            yield from stores(below)


def _of_scale(spec: Mapping[str, Any]) -> Extent | None:
    """The folder of the one scale that a spec opens of a precomputed volume, and what describes it."""
    store, scale = spec["kvstore"], spec.get("scale_metadata")
    key = scale.get("key") if isinstance(scale, Mapping) else None
    if spec.get("driver") != "neuroglancer_precomputed" or not isinstance(key, str):
        return None
    names = posixpath.normpath(key)
    inside = names not in (".", "..") and not names.startswith(("/", "../"))
    return Extent(store, ("info", names)) if inside else None


def _named(names: Sequence[str] | None, below: tuple[str, ...]) -> bool:
    """Whether what lies below a place is, or holds, one of the names there; by default all is meant."""
    if names is None:
        return True
    path = "/".join(below)
    return any(n == path or n.startswith(path + "/") for n in names)


def _paths(store: Any) -> Iterator[_Path]:
    """Where a key-value store keeps its bytes."""
    spec: Spec = dict(store) if isinstance(store, Mapping) else ts.KvStore.Spec(store).to_json()
    driver, path = str(spec.get("driver")), str(spec.get("path", ""))
    if driver == "kvstack":
        for layer in spec.get("layers", ()):
            yield from _paths(layer["base"])
    elif "base" in spec:
        for base in _paths(spec["base"]):
            yield base.within(driver, _parts(path))
    elif driver == "file":
        yield _local(path)
    elif driver == "http":
        yield from _served(str(spec.get("base_url", "")), path)
    elif driver in ("s3", "gcs", "gcs_grpc"):
        server = _server(str(spec.get("endpoint") or ""))
        yield _in_bucket(str(spec.get("bucket", "")), path, server)
    else:
        yield _keyed((driver,), _parts(path))


def _local(path: str) -> _Path:
    """A path on a disk: folders that exist by what they are, so that other names of them do not matter."""
    real = os.path.realpath(os.path.expanduser(path))
    root, rest = os.path.splitdrive(real)
    parts = tuple(p for p in rest.split(os.sep) if p)
    at = root + os.sep
    ids: list[Hashable] = [_identity(at) or ("file", root)]
    for part in parts:
        at = os.path.join(at, part)
        ids.append(_identity(at) or (ids[-1], part))
    return _Path(tuple(ids), parts)


def _identity(path: str) -> Hashable:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Some network disks number nothing.
    return ("file", found.st_dev, found.st_ino) if found.st_ino else None


def _served(url: str, path: str) -> Iterator[_Path]:
    """What a web server gives, which may be the content of a bucket that its host or path names."""
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
    """Host and port of an endpoint; None for those that need none, and where none is given."""
    split = urlsplit(endpoint)
    host = (split.hostname or "").lower()
    if not host or host.endswith(_OWN_SERVERS):
        return None
    if host in ("localhost", "127.0.0.1", "::1"):
        host = "localhost"
    port = split.port or {"http": 80, "https": 443}.get(split.scheme)
    return f"{host}:{port}"
