"""Recognise and open HDF5 files."""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from beam_volumes.base.text import printable
from beam_volumes.storage.places.errors import VolumeError, needed
from beam_volumes.storage.places.outside import OutsideError, check_path

MAGIC = b"\x89HDF\r\n\x1a\n"
#: The placeholder of a block's number in names of files and datasets.
_BLOCK = re.compile(r"%\d*b")
#: A larger index belongs to an unlimited dimension.
_UNLIMITED = 1 << 62
#: Maximal number of soft links that are followed on a path.
_MAX_LINKS = 64
SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".ims", ".mnc", ".nwb")


def split(path: str) -> tuple[str, str | None]:
    """Split a path into a file and, after a colon, a dataset inside.

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
    """Whether a file has HDF5's signature at its beginning or after a user block."""
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
    """Import h5py; the message names the file that needs it."""
    return needed("h5py", "hdf5", f"{printable(name)} is HDF5")


@contextmanager
def opened_file(path: str) -> Iterator[Any]:
    """Open an HDF5 file for reading; errors become a `VolumeError`."""
    h5py = library(path)
    with _damage(path), h5py.File(path, "r") as file:
        if file.mode != "r":  # its content may not be on the disk yet
            raise VolumeError(
                f"{printable(path)} is open for writing in this process; close it first"
            )
        yield file


def files_of(node: Any, check: bool = False) -> tuple[str, ...]:
    """Return absolute paths of all files with voxels of an object of an open file, its own first.

    With ``check``, files in other folders are refused before they are opened: see `storage.outside`.
    """
    # Virtual datasets name other files, and their datasets may be links. Raw files contain voxels, too.
    # Missing files are included.
    path = os.path.abspath(os.fsdecode(node.file.filename))
    found = {path: None}
    left, visited = _sources(node, path, check), set()
    while left:
        file, inside = left.pop()
        if (file, inside) in visited:
            continue
        visited.add((file, inside))
        found[file] = None
        if inside is not None and os.path.isfile(file):
            try:
                left += _linked(file, inside, check)
            except OutsideError:
                raise
            except Exception:  # damage is reported when it is read
                continue
    return tuple(found)


def missing_files_of(node: Any) -> tuple[str, ...]:
    """Return missing sources of a dataset of an open file: HDF5 would read fill values, or zeros.

    These are files and datasets of virtual datasets, and raw files that are missing or too short.
    """
    h5py = library(os.fsdecode(node.file.filename))
    found: dict[str, None] = {}
    visited: set[tuple[str, str]] = set()

    def look(dataset: Any) -> None:
        path = os.path.abspath(os.fsdecode(dataset.file.filename))
        if (path, dataset.name) in visited:
            return
        visited.add((path, dataset.name))
        plist = dataset.id.get_create_plist()
        left = math.prod(dataset.shape or ()) * dataset.id.get_type().get_size()
        for k in range(plist.get_external_count()):
            name, offset, size = plist.get_external(k)
            file = _candidates(os.fsdecode(name), path, "HDF5_EXTFILE")[0]
            needed_here = min(size, left)
            if not os.path.isfile(file) or os.path.getsize(file) < offset + needed_here:
                found[file] = None
            left -= needed_here
        if plist.get_layout() != h5py.h5d.VIRTUAL:
            return
        by_file: dict[str, list[Any]] = {}
        for source in dataset.virtual_sources():
            # Names with a block's number end at the first missing block.
            if not _BLOCK.search(source.file_name + source.dset_name):
                by_file.setdefault(source.file_name, []).append(source)
        for name, sources in by_file.items():
            file = path if name == "." else _candidates(name, path, "HDF5_VDS")[0]
            try:
                with h5py.File(file, "r") as other:
                    for source in sources:
                        inside = other.get(source.dset_name)
                        if not isinstance(inside, h5py.Dataset) or _reaches_beyond(source, inside):
                            found[f"{file}:{source.dset_name}"] = None
                        else:
                            look(inside)
            except (OSError, KeyError):  # missing, or not HDF5
                found[file] = None

    look(node)
    return tuple(found)


def _reaches_beyond(source: Any, dataset: Any) -> bool:
    """Whether a virtual dataset selects more of another one than it has."""
    space = source.src_space
    if space.get_select_type() == 3 or space.get_select_npoints() == 0 or not dataset.shape:
        return False  # all of it
    _, last = space.get_select_bounds()
    # An unlimited selection takes as much as there is.
    limits = zip(last, dataset.shape, strict=True)
    return len(last) == len(dataset.shape) and any(n <= a < _UNLIMITED for a, n in limits)


#: A file, and the path of an object in it; None for raw bytes.
_Named = tuple[str, str | None]


def _followed(at: Any, inside: str) -> Iterator[tuple[Any, Any, list[str]]]:
    """Yield the external links on a path with the rest of the path, then the object."""
    h5py = library(os.fsdecode(at.file.filename))
    names, followed = inside.split("/"), 0
    if inside.startswith("/"):
        at = at.file
    while names and isinstance(at, h5py.Group):
        name = names.pop(0)
        link = at.get(name, getlink=True) if name not in ("", ".") else None
        if isinstance(link, h5py.ExternalLink):
            yield at, link, names
        if isinstance(link, h5py.SoftLink) and followed < _MAX_LINKS:
            followed += 1
            names = link.path.split("/") + names
            at = at.file if link.path.startswith("/") else at
        elif link is not None:
            at = at[name]
    yield at, None, []


def check_links(group: Any, inside: str) -> None:
    """Refuse a path in an open file that leads to a file in another folder, before it is opened."""
    for at, link, _ in _followed(group, inside):
        if link is not None:
            path = os.path.abspath(os.fsdecode(at.file.filename))
            _candidates(link.filename, path, "HDF5_EXT", True)


def _sources(node: Any, path: str, check: bool = False) -> list[_Named]:
    """Return the objects that an object names, in its file or others."""
    h5py = library(path)
    if not isinstance(node, h5py.Dataset):
        links = (node.get(name, getlink=True) for name in node)
        external = [link for link in links if isinstance(link, h5py.ExternalLink)]
        paths = [(e.path, _candidates(e.filename, path, "HDF5_EXT", check)) for e in external]
        return [(file, inside) for inside, files in paths for file in files]
    plist = node.id.get_create_plist()
    raw = [os.fsdecode(plist.get_external(k)[0]) for k in range(plist.get_external_count())]
    found: list[_Named] = [
        (f, None) for r in raw for f in _candidates(r, path, "HDF5_EXTFILE", check)
    ]
    if plist.get_layout() == h5py.h5d.VIRTUAL:
        named = {(s.file_name, s.dset_name) for s in node.virtual_sources()}
        for name, inside in named:
            files = [path] if name == "." else _candidates(name, path, "HDF5_VDS", check)
            found += [(file, inside) for file in files]
    return found


def _linked(path: str, inside: str, check: bool = False) -> list[_Named]:
    """Return the sources of a path in a file, following external links."""
    with library(path).File(path, "r") as file:
        at, link, names = next(_followed(file, inside))
        if link is None:
            return _sources(at, path, check)
        rest = "/".join([link.path, *names])
        return [(f, rest) for f in _candidates(link.filename, path, "HDF5_EXT", check)]


def _candidates(name: str, path: str, variable: str, check: bool = False) -> list[str]:
    """Return where the library looks for a named file: existing files, or the first place.

    With ``check``, a file in another folder is refused.
    """
    folder = os.path.dirname(path)
    prefixes = os.environ.get(f"{variable}_PREFIX", "").split(":")
    folders = [p.replace("${ORIGIN}", folder) for p in prefixes if p]
    own_folders = [folder, os.path.dirname(os.path.realpath(path))]
    # Raw files are searched in the current directory first, others in the folder of the naming
    # file.
    folders += ["", *own_folders] if variable == "HDF5_EXTFILE" else [*own_folders, ""]
    wanted = [os.path.abspath(os.path.join(f, name)) for f in folders]
    if _BLOCK.search(name):
        patterns = (_BLOCK.sub("*", glob.escape(w)) for w in wanted)
        found = [file for p in patterns for file in glob.glob(p)] or wanted[:1]
    else:
        found = list(dict.fromkeys(w for w in wanted if os.path.exists(w))) or wanted[:1]
    if check:  # the library opens the first one
        check_path(path, found[0])
    return found


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Add the file to errors of h5py."""
    try:
        yield
    except VolumeError:
        raise
    except Exception as error:
        stated = " ".join(str(error).split())
        if isinstance(error, ValueError) and path in stated:
            raise
        if "unable to lock file" in stated:
            raise VolumeError(
                f"{printable(path)} is locked: another program has it open for writing; wait "
                "until it has finished"
            ) from None
        raise VolumeError(
            f"{printable(path)} cannot be read as HDF5: {printable(stated)[:300]}; restore it"
        ) from None
