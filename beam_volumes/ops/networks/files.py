"""Networks in files, which workers read from where they lie."""

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

#: The GPU of a process computes one batch at a time, whatever slabs are in flight: it has room for that.
gpu = threading.Lock()


@dataclass(frozen=True, eq=False)
class FileModel(Model):
    """A network in a file, known by the digest of what this holds."""

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
        """What the model is known by, of what its file holds."""
        return sha256(data)

    def read(self) -> bytes:
        """What the file holds.

        Raises ValueError: It is not what it was.
        """
        data = read_file(self.place)
        if self.digest_of(data) != self.identity:
            raise ValueError(
                f"the model {self.place} has changed since this was planned: put the old file back, or plan "
                "again and overwrite what was begun"
            )
        return data


def absolute(path: str) -> str:
    """A path as all workers have it; URLs stay."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def file_name(place: str) -> str:
    return posixpath.basename(place) if "://" in place else os.path.basename(place)


def check_axes(function: str, path: str, shape: object, axes: int) -> None:
    """Refuse a network that takes neither volumes nor slices."""
    if axes not in (4, 5):
        raise ValueError(
            f"{function}: {path} takes arrays of {axes} axes {shape}; it must take batch, c, z, y, x, "
            "or batch, c, y, x"
        )


def check_one_input(function: str, path: str, names: list[str]) -> None:
    if len(names) != 1:
        raise ValueError(
            f"{function}: {path} takes {len(names)} inputs ({', '.join(names)}); it must take one"
        )


def read_file(place: str) -> bytes:
    """The bytes of a file at a path or URL."""
    spec = kvstore_spec(place)
    folder, _, file = str(spec["path"]).rpartition("/")
    data = Place.of({**spec, "path": f"{folder}/"}).read(file)
    if data is None:
        raise FileNotFoundError(f"{place}: there is no such model")
    return data


def file_sha256(place: str) -> str:
    """The digest of a file at a path or URL; at a path, it is read piece by piece."""
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
