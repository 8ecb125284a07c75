"""HDF5 files: which are some, and how they are opened to be read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from beam_volumes.storage.errors import VolumeError
from beam_volumes.storage.optional import needed
from beam_volumes.text import printable

MAGIC = b"\x89HDF\r\n\x1a\n"
SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".ims", ".mnc", ".nwb")


def split(path: str) -> tuple[str, str | None]:
    """A path as that of a file and, after a colon, that of a dataset inside.

    Examples
    --------
    >>> split("/no/such/folder/file.h5:/volumes/raw")
    ('/no/such/folder/file.h5', '/volumes/raw')
    """
    if os.path.exists(path):
        return path, None
    for found in re.finditer(":", path):
        file, inside = path[: found.start()], path[found.end() :]
        if os.path.isfile(file) or (
            file.lower().endswith(SUFFIXES) and not os.path.isdir(os.path.dirname(file))
        ):
            return file, inside or None
    return path, None


def is_hdf5(path: str) -> bool:
    """Whether a file begins with HDF5's signature, or has it where that may be after a user's block."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            at = 0
            while at <= 1 << 20:
                file.seek(at)
                found = file.read(len(MAGIC))
                if found == MAGIC:
                    return True
                if len(found) < len(MAGIC):
                    return False
                at = 2 * at or 512
    except OSError:
        pass
    return False


def library(name: str) -> Any:
    """The module h5py; the message names what needs it."""
    return needed("h5py", "hdf5", f"{printable(name)} is HDF5")


@contextmanager
def opened_file(path: str) -> Iterator[Any]:
    """An HDF5 file, open to be read; whatever is wrong with it is a `VolumeError`."""
    h5py = library(path)
    with _damage(path), h5py.File(path, "r") as file:
        if file.mode != "r":  # what it holds may not be on the disk yet
            raise VolumeError(f"{printable(path)} is open to write in this process: close it first")
        yield file


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Say of errors of h5py which file they are of; those of ours do."""
    try:
        yield
    except VolumeError:
        raise
    except Exception as error:
        told = " ".join(str(error).split())
        if isinstance(error, ValueError) and path in told:
            raise
        if "unable to lock file" in told:
            raise VolumeError(
                f"{printable(path)} is locked: another program has it open to write; wait for its end"
            ) from None
        raise VolumeError(
            f"{printable(path)} cannot be read as HDF5: {printable(told)[:300]}; restore it"
        ) from None
