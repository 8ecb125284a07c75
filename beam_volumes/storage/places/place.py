"""Places: paths and URLs on a disk or in a bucket, as key-value stores of TensorStore.

A `Spec` is the plain data that identifies a place. A `Place` has its operations.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import tensorstore as ts

from beam_volumes.base.text import parsed_json
from beam_volumes.storage.places.context import context, opened
from beam_volumes.storage.places.credentials import check_no_secrets, with_secrets, without_secrets
from beam_volumes.storage.places.errors import VolumeError, explain
from beam_volumes.storage.places.names import Span, in_spans

Spec = dict[str, Any]

#: Objects requested at a time.
_BATCH = 256
#: Local files up to this number are read one after the other.
_FEW = 4
#: Files or objects that are deleted between two checks of the ownership.
_AT_A_TIME = 64
#: Errors of a path where no file is.
_NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
#: TensorStore appends this to the name of a file while writing it.
LOCK = ".__lock"
#: What is appended to the name of a file while it is created (`claims.Document`).
_NEW = re.compile(rf"(\.[0-9a-f]{{32}})?{re.escape(LOCK)}$")


def kvstore_spec(place: str | os.PathLike[str] | Spec) -> Spec:
    """Return the TensorStore key-value store spec of a path, a URL or a spec.

    >>> kvstore_spec("s3://bucket/some/run")
    {'driver': 's3', 'bucket': 'bucket', 'path': 'some/run'}
    """
    if isinstance(place, dict):
        check_no_secrets(place)
        return dict(place)
    if not isinstance(place, str | os.PathLike):
        raise TypeError(f"path={place!r} is not a path, a URL or a TensorStore spec")
    text = os.fspath(place)
    if "\0" in text:
        raise ValueError(f"path={text!r} contains a zero byte; no file system allows one in a name")
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme in ("", "file"):
        path = unquote(text.partition("://")[2]) if scheme else text
        return {"driver": "file", "path": os.path.abspath(os.path.expanduser(path))}
    if scheme in ("http", "https"):
        check_no_secrets(text)
        if not urlsplit(text).netloc:
            raise ValueError(f"{text!r} is not a valid address: it contains no server")
        try:
            return dict(ts.KvStore.Spec(text).to_json())
        except ValueError as error:
            raise ValueError(f"{without_secrets(text)!r} is not a valid address: {error}") from None
    if scheme == "memory":
        return {"driver": "memory", "path": text.partition("://")[2]}
    driver = {"gs": "gcs", "s3": "s3"}.get(scheme)
    if driver is None:
        raise ValueError(
            f"{without_secrets(text)!r}: {scheme}:// is not supported; use a local path, s3://, gs://, "
            "https:// or a TensorStore spec"
        )
    # Not urlsplit: keys may contain ? and #.
    bucket, _, path = text.partition("://")[2].partition("/")
    spec = {"driver": driver, "bucket": bucket, "path": path.lstrip("/")}
    return spec | _endpoint() if driver == "s3" else spec


def output_spec(place: str | os.PathLike[str] | Spec) -> Spec:
    """Return the spec of a place to write to.

    >>> output_spec("https://example.org/a.zarr")
    Traceback (most recent call last):
    ValueError: https://example.org/a.zarr: web servers are read-only; write to a local path, s3:// or gs://
    """
    spec = kvstore_spec(place)
    if spec.get("driver") in ("http", "zip"):
        what = "zip files" if spec.get("driver") == "zip" else "web servers"
        raise ValueError(
            f"{url(spec)}: {what} are read-only; write to a local path, s3:// or gs://"
        )
    return spec


def _endpoint() -> Spec:
    """Return the S3 server from AWS's environment variables; the spec passes it to workers."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return {}
    check_no_secrets(endpoint)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return {"endpoint": endpoint, "aws_region": region}


def join(spec: Spec, *parts: str, directory: bool = False) -> Spec:
    """Return the spec of a place below another."""
    path = "/".join([str(spec.get("path", "")).rstrip("/"), *(p.strip("/") for p in parts)])
    if directory and not path.endswith("/"):
        path += "/"
    return {**spec, "path": path if spec.get("driver") == "file" else path.lstrip("/")}


def sibling(spec: Spec, suffix: str) -> Spec:
    """Return the spec of a place with a suffix after its name, e.g. the run folder of an output."""
    return {**spec, "path": str(spec.get("path", "")).rstrip("/") + suffix}


def is_local(spec: Spec) -> bool:
    """Whether a place is a path of this machine's file system, which may be shared."""
    return spec.get("driver") == "file"


def is_pattern(path: str) -> bool:
    """Whether a local path is a glob pattern and not the name of an existing file or folder.

    >>> is_pattern("/data/s*.npy"), is_pattern("/data/s1.npy")
    (True, False)
    """
    return glob.has_magic(path) and not os.path.lexists(path)


def url(spec: Spec) -> str:
    """Return the name of a place for messages.

    >>> url(kvstore_spec("gs://bucket/a/b.zarr"))
    'gs://bucket/a/b.zarr'
    """
    driver, path = spec.get("driver"), str(spec.get("path", ""))
    if driver == "file":
        return path
    if driver == "http":
        server, mark, query = str(spec.get("base_url", "")).partition("?")
        return without_secrets(f"{server.rstrip('/')}/{quote(path.lstrip('/'))}{mark}{query}")
    if isinstance(spec.get("base"), dict):
        return "/".join([url(spec["base"]).rstrip("/"), *([path] if path else [])])
    scheme = {"gcs": "gs"}.get(str(driver), str(driver))
    return f"{scheme}://{spec['bucket']}/{path}" if "bucket" in spec else f"{scheme}://{path}"


def key_of(spec: Spec) -> str:
    """Return a text that identifies a place in this process."""
    return repr(sorted(spec.items()))


@dataclass(frozen=True)
class Place:
    """A file or folder, which may not exist yet, and the objects below it.

    Objects are written atomically. Handles are opened once per process and never pickled.
    """

    spec: Spec
    #: Objects already read, if the place caches them
    remembered: dict[str, bytes | None] | None = None

    @classmethod
    def of(cls, place: str | os.PathLike[str] | Spec) -> Place:
        """Find the place of a path, a URL or a spec."""
        return cls(kvstore_spec(place))

    def remembering(self) -> Place:
        """Return the place with a cache: it reads no object twice.

        An object that a bucket or server refuses to return counts as missing.
        """
        return replace(self, remembered={})

    def below(self, *names: str) -> Place:
        return Place(join(self.spec, *names), None if self.remembered is None else {})

    @property
    def text(self) -> str:
        """The name in messages."""
        return url(self.spec)

    @property
    def local(self) -> str | None:
        """The local path, or None."""
        return str(self.spec["path"]) if is_local(self.spec) else None

    @property
    def can_list(self) -> bool:
        """Whether the store can list its objects; web servers cannot."""
        return self.spec.get("driver") != "http"

    @property
    def directory(self) -> Spec:
        """The spec as a folder."""
        return join(self.spec, directory=True)

    @property
    def store(self) -> ts.KvStore:
        folder = self.directory
        return opened(f"folder {key_of(folder)}", lambda: _open(folder))

    def name_of(self, key: str) -> str:
        """Return the name of an object for messages."""
        return url(join(self.spec, key))

    # objects

    def read(self, key: str) -> bytes | None:
        """Read an object; None if it does not exist."""
        if self.remembered is not None and key in self.remembered:
            return self.remembered[key]
        if self.local is not None:
            data = self._of_file(key)
        else:
            try:
                data = next(iter(self.read_many([key])))
            except PermissionError:
                # Servers that do not list their objects refuse missing ones.
                if self.remembered is None:
                    raise
                data = None
        if self.remembered is not None:
            self.remembered[key] = data
        return data

    def json(self, key: str) -> dict[str, Any] | None:
        """Read an object as a JSON object; None if it does not exist."""
        data = self.read(key)
        if data is None:
            return None
        try:
            value = parsed_json(data)
        except ValueError as error:
            raise VolumeError(f"{self.text}/{key} is damaged: {error}") from None
        if not isinstance(value, dict):
            raise VolumeError(f"{self.text}/{key} is damaged: not a JSON object")
        return value

    def _of_file(self, key: str) -> bytes | None:
        """Read an object of a local folder: this takes a fifth of the time of a request."""
        path = os.path.join(str(self.local), key)
        try:
            # Opening other kinds of files may wait for ever.
            if not os.path.isfile(path):
                return None
            with open(path, "rb", buffering=0) as file:
                return file.readall()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain(error, f"reading {self.name_of(key)}") from error

    def read_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """Read objects in the order of their keys, with many requests at a time."""
        keys = iter(keys)
        while batch := list(islice(keys, _BATCH)):
            if self.local is not None and len(batch) <= _FEW:
                yield from map(self._of_file, batch)
                continue
            store = self.store
            futures = [store.read(key) for key in batch]
            for key, future in zip(batch, futures, strict=True):
                try:
                    found = future.result()
                except Exception as error:
                    raise explain(error, f"reading {self.name_of(key)}") from error
                yield bytes(found.value) if found.state == "value" else None

    def write(self, key: str, data: bytes) -> None:
        """Create or replace an object."""
        try:
            self.store.write(key, data).result()
        except Exception as error:
            raise explain(error, f"writing {self.name_of(key)}") from error

    def names(self, prefix: str = "") -> list[str]:
        """List the names below a prefix that ends with a slash, sorted and without the prefix."""
        if self.local is not None and not os.path.isdir(self.local):
            return []
        return next(iter(self.names_many([prefix])))

    def names_many(self, prefixes: Iterable[str]) -> Iterator[list[str]]:
        """List the names below each of several prefixes, with many requests at a time."""
        prefixes = iter(prefixes)
        while batch := list(islice(prefixes, _BATCH)):
            futures = [self.store.list(_below(p), strip_prefix_length=len(p)) for p in batch]
            for prefix, future in zip(batch, futures, strict=True):
                try:
                    names = future.result()
                except Exception as error:
                    raise explain(error, f"listing {self.name_of(prefix)}") from error
                yield sorted(name.decode() for name in names)

    def folders(self, prefix: str) -> list[str]:
        """List the local folders directly below a prefix that ends with a slash, sorted."""
        root = Path(self.spec["path"], prefix)
        return sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []

    # removing

    def delete(self, *keys: str) -> None:
        """Delete objects, and everything below keys that end with a slash."""
        for key in keys:
            try:
                if key.endswith("/"):
                    self.store.delete_range(_below(key)).result()
                else:
                    self.store.write(key, None).result()
            except Exception as error:
                raise explain(error, f"writing to {self.name_of(key)}") from error
        if self.local is not None:  # folders and stale lock files are not objects
            for key in keys:
                if key.endswith("/"):
                    shutil.rmtree(Path(self.local, key), ignore_errors=True)

    def remove(self) -> None:
        """Delete everything at the place, if anything exists."""
        if self.local is not None:
            shutil.rmtree(self.local, ignore_errors=True)
            return
        try:
            self.store.delete_range(ts.KvStore.KeyRange()).result()
        except ValueError as error:
            raise explain(error, f"clearing {url(self.directory)}") from None

    def tidy(self, *folders: str) -> None:
        """Remove the local folders, and the place itself, if they are empty."""
        if self.local is not None:
            root = Path(self.local)
            for folder in (*(root / name for name in folders), root):
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def clear(
        self,
        keep: str,
        may: Callable[[], bool],
        owned: Callable[[str], bool] | None = None,
        spans: Sequence[Span] = (),
    ) -> bool:
        """Delete everything below except ``keep``, while ``may`` returns True; return whether all is gone.

        ``owned`` limits this to names; nothing in ``spans`` of names is listed or deleted.
        """
        if self.local is not None:
            return _clear_local(self.local, keep, may, owned, spans)
        names = self._names_outside(spans)
        return self.delete_while(
            (k for k in names if k != keep and (owned is None or owned(k))), may
        )

    def delete_while(self, names: Iterable[str], may: Callable[[], bool]) -> bool:
        """Delete objects, which may be missing, while ``may`` returns True.

        Returns whether all are deleted. Local folders that become empty are deleted, too.
        """
        names, folders = iter(names), set[str]()
        while some := list(islice(names, _AT_A_TIME)):
            if not may():
                return False
            if self.local is not None:
                folders.update(os.path.dirname(name) for name in some)
                for file in (os.path.join(self.local, name) for name in some):
                    for path in (file, file + LOCK):
                        with contextlib.suppress(*_NO_FILE):
                            os.remove(path)
                continue
            deleting = [self.store.write(key, None) for key in some]
            for key, one in zip(some, deleting, strict=True):
                try:
                    one.result()
                except ValueError as error:
                    raise explain(error, f"clearing {self.name_of(key)}") from None
        for folder in folders:
            with contextlib.suppress(OSError):  # not empty
                while folder:
                    os.rmdir(os.path.join(str(self.local), folder))
                    folder = os.path.dirname(folder)
        return may()

    def other_than(self, owned: Callable[[str], bool], spans: Sequence[Span] = ()) -> str | None:
        """Return the first name below the place, outside of ``spans``, that is not ``owned``."""
        if self.local is None:
            names: Iterable[str] = self._names_outside(spans)
        else:
            files = _files(self.local, [], spans)
            names = (_bare(os.path.relpath(file, self.local)) for file in files)
        return next((name for name in names if not owned(name)), None)

    def _names_outside(self, spans: Sequence[Span]) -> list[str]:
        """List the names of a bucket outside of spans of names, sorted."""
        begin, asked = "", []
        for first, end in [*sorted(spans), ("", "")]:
            if begin < first or not first:
                asked.append(self.store.list(ts.KvStore.KeyRange(begin, first)))
            begin = max(begin, end)
        try:
            return [key.decode() for one in asked for key in sorted(one.result())]
        except Exception as error:
            raise explain(error, f"listing {self.text}") from error

    def check_writable(self) -> None:
        """Raise OSError if the place cannot be written to; leave nothing behind.

        >>> Place.of("/proc/out.zarr").check_writable()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        OSError: writing to /proc/out.zarr: ...
        """
        if self.local is not None:
            folder = os.path.abspath(self.local)
            while not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            try:
                tempfile.TemporaryFile(dir=folder).close()
            except OSError as error:
                raise OSError(
                    f"writing to {self.text}: {error.strerror} (check the permissions of {folder})"
                ) from None
            return
        key = f"writable-{uuid.uuid4().hex}"
        try:
            self.store.write(key, b"").result()
            self.store.write(key, None).result()
        except Exception as error:
            raise explain(error, f"writing to {self.text}") from None


def _open(folder: Spec) -> ts.KvStore:
    # Like voxels, objects are not synchronised to the disk one by one: see `single_file.flush`.
    return ts.KvStore.open(with_secrets(folder), context=context()).result()


def _below(prefix: str) -> ts.KvStore.KeyRange:
    if not prefix:
        return ts.KvStore.KeyRange()
    return ts.KvStore.KeyRange(prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))


def _clear_local(
    path: str,
    keep: str,
    may: Callable[[], bool],
    owned: Callable[[str], bool] | None,
    spans: Sequence[Span],
) -> bool:
    kept = {os.path.join(path, keep), os.path.join(path, keep + LOCK)}
    folders: list[str] = []
    for k, file in enumerate(_files(path, folders, spans)):
        if k % _AT_A_TIME == 0 and not may():
            return False
        is_owned = owned is None or owned(_bare(os.path.relpath(file, path)))
        if file not in kept and is_owned:
            with contextlib.suppress(FileNotFoundError):
                os.remove(file)
    if not may():
        return False
    for folder in reversed(folders):
        with contextlib.suppress(OSError):  # not empty if another process writes into it
            os.rmdir(folder)
    return True


def _bare(name: str) -> str:
    """Return the name of the file that a lock file belongs to, or the name itself."""
    return _NEW.sub("", name)


def _files(path: str, folders: list[str], spans: Sequence[Span]) -> Iterator[str]:
    """Yield all files below a folder, and append its folders to ``folders``, outer ones first.

    Files and folders with names in ``spans`` are skipped.
    """
    for root, inside, files in os.walk(path):
        if spans:
            here = os.path.relpath(root, path)
            for found in (inside, files):
                names = {name: os.path.normpath(os.path.join(here, name)) for name in found}
                found[:] = [name for name in found if not in_spans(names[name], spans)]
        below = [os.path.join(root, name) for name in inside]
        links = [name for name in below if os.path.islink(name)]
        folders += [name for name in below if name not in links]
        yield from links
        yield from (os.path.join(root, name) for name in files)
