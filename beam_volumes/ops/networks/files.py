"""Networks in files, which workers read from their original place."""

from __future__ import annotations

import hashlib
import os
import posixpath
import threading
from dataclasses import dataclass

from beam_volumes.ops.networks.models import Model
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Place, kvstore_spec
from beam_volumes.sweep.stage import digest

#: A process computes one batch at a time on its GPU, for any number of slabs in flight.
gpu = threading.Lock()


@dataclass(frozen=True, eq=False)
class FileModel(Model):
    """A network in a file, identified by the digest of the file."""

    place: str
    device: str = "auto"

    @property
    def extents(self) -> tuple[Extent, ...]:
        return (Extent(kvstore_spec(self.place)),)

    @property
    def accelerated(self) -> bool:
        return self.device != "cpu"

    def token(self) -> str:
        return digest(type(self).__name__, self.identity, self.device)

    def digest_of(self, data: bytes) -> str:
        """The digest that identifies the model, from the bytes of its file."""
        return sha256(data)

    def read(self) -> bytes:
        """The bytes of the file; ValueError if it has changed."""
        data = read_file(self.place)
        if self.digest_of(data) != self.identity:
            raise ValueError(
                f"the model {self.place} has changed since this was planned: restore the old file, or plan "
                "again and overwrite the unfinished outputs"
            )
        return data


def absolute(path: str) -> str:
    """An absolute path for all workers; URLs do not change."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def file_name(place: str) -> str:
    return posixpath.basename(place) if "://" in place else os.path.basename(place)


def check_axes(function: str, path: str, shape: object, axes: int) -> None:
    """Refuse a network for neither volumes nor slices."""
    if axes not in (4, 5):
        raise ValueError(
            f"{function}: {path} accepts arrays with {axes} axes {shape}; it must accept batch, c, z, y, x, "
            "or batch, c, y, x"
        )


def check_one_input(function: str, path: str, names: list[str]) -> None:
    if len(names) != 1:
        raise ValueError(
            f"{function}: {path} has {len(names)} inputs ({', '.join(names)}); it must have one"
        )


def read_file(place: str) -> bytes:
    spec = kvstore_spec(place)
    folder, _, file = str(spec["path"]).rpartition("/")
    data = Place.of({**spec, "path": f"{folder}/"}).read(file)
    if data is None:
        raise FileNotFoundError(f"{place}: there is no such model")
    return data


def file_sha256(place: str) -> str:
    """The digest of a file at a path or URL; a local file is read piece by piece."""
    if "://" in place:
        return sha256(read_file(place))
    found = hashlib.sha256()
    try:
        with open(place, "rb") as file:
            while piece := file.read(1 << 20):
                found.update(piece)
    except FileNotFoundError:
        raise FileNotFoundError(f"{place}: there is no such file of weights") from None
    return found.hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
