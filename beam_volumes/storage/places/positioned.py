"""Random access to bytes of local files.

Each read or write opens and closes the file. No handle outlives a fork, and a replaced file is read
as it is now. Any number of threads may read or write at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.text import printable
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.errors import VolumeError


@dataclass(frozen=True)
class Stamp:
    """The identity and the modification time of a file; it changes with the content."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


@contextmanager
def reading(path: str) -> Iterator[int]:
    """Open a file for reading; errors become a `VolumeError`."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise VolumeError(f"{printable(path)} is missing: restore it") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        yield handle
    except VolumeError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(handle)


def _unreadable(path: str, error: OSError) -> VolumeError:
    return VolumeError(f"{printable(path)} cannot be read: {error.strerror or error}")


def stamp_of(path: str) -> Stamp:
    """Return the stamp of the file that a path leads to now."""
    with reading(path) as handle:
        return Stamp.of(os.fstat(handle))


def kept_of(what: str, path: str, make: Callable[[], Any]) -> Any:
    """Return the cached object of a file, created again when the file has changed."""
    return opened(f"{what} {path} {stamp_of(path)}", make)


def read_at(path: str, at: int, size: int) -> bytes:
    """Read ``size`` bytes of a file from a position."""
    with reading(path) as handle:
        return read_from(handle, path, at, size)


def read_from(handle: int, path: str, at: int, size: int) -> bytes:
    """Read as `read_at` does, from an open file."""
    # Nothing is allocated for bytes that do not exist.
    if at < 0 or size < 0 or at + size > os.fstat(handle).st_size:
        raise _cut_off(handle, path, at + size)
    parts = []
    while size:
        part = os.pread(handle, size, at)
        if not part:
            raise _cut_off(handle, path, at + size)
        parts.append(part)
        at, size = at + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _cut_off(handle: int, path: str, needed: int) -> VolumeError:
    return VolumeError(
        f"{printable(path)} is cut off: it has {os.fstat(handle).st_size:,} bytes, but its metadata places "
        f"voxels up to byte {needed:,}; restore it"
    )


def first_bytes(path: str, size: int) -> bytes:
    """Return up to ``size`` bytes from a file's start; none if it cannot be read."""
    if not os.path.isfile(path):  # reading a pipe may block for ever
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError:
        return b""


def runs(shape: Triple, box: Box) -> Iterator[tuple[int, tuple[slice, slice, slice]]]:
    """Yield the contiguous pieces of a box in a volume with x fastest.

    Yields the linear index of the first voxel, and the piece in an array of the box's shape.

    >>> [at for at, _ in runs((2, 3, 4), Box((0, 0, 0), (2, 3, 4)))]
    [0]
    >>> [at for at, _ in runs((2, 3, 4), Box((0, 1, 0), (2, 3, 4)))]
    [4, 16]
    >>> [at for at, _ in runs((2, 3, 4), Box((0, 1, 1), (1, 3, 3)))]
    [5, 9]
    """
    _, ny, nx = shape
    (z0, y0, x0), (z1, y1, x1) = box.start, box.stop
    first = (z0 * ny + y0) * nx + x0
    if not box.size:
        return
    if x1 - x0 < nx and nx > 1:
        for z in range(z1 - z0):
            for y in range(y1 - y0):
                yield (first + (z * ny + y) * nx, (slice(z, z + 1), slice(y, y + 1), slice(None)))
    elif y1 - y0 < ny:
        for z in range(z1 - z0):
            yield first + z * ny * nx, (slice(z, z + 1), slice(None), slice(None))
    else:
        yield first, (slice(None), slice(None), slice(None))


def write_box(path: str, at: int, shape: Triple, box: Box, voxels: np.ndarray) -> None:
    """Write a box of a volume at byte ``at`` of a file, x fastest; it can be repeated."""
    handle = os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        for first, part in runs(shape, box):
            data = np.ascontiguousarray(voxels[part]).reshape(-1).view(np.uint8).data
            write_to(handle, data, at + first * voxels.dtype.itemsize)
    finally:
        os.close(handle)


def write_to(handle: int, data: Any, at: int) -> None:
    """Write bytes at a position of an open file."""
    view = memoryview(data)
    while view:
        done = os.pwrite(handle, view, at)
        view, at = view[done:], at + done
