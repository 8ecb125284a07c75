"""Check files that other files name: only those in the same folder are read by default.

A header, metadata or link from an untrusted source could name any file of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from beam_volumes.base.text import printable

#: Whether files may name files in other folders: `beam_volumes.options.outside`.
allowed = False
#: The setting of this thread, from the process that sent its work.
_allowed_here: ContextVar[bool] = ContextVar("beam_volumes_outside", default=False)


@contextmanager
def allowing(allow: bool) -> Iterator[None]:
    """Let files name files in other folders, in this thread, if ``allow``."""
    token = _allowed_here.set(allow)
    try:
        yield
    finally:
        _allowed_here.reset(token)


class OutsideError(ValueError):
    """A file names another file outside its folder."""


def named_file(header: str, name: str) -> str:
    """Return the path of a file that a local file names, relative to its folder.

    A URL, and a file outside of the folder, are refused. The separators may be those of Windows.
    """
    if "://" in name:
        if not is_allowed():
            raise OutsideError(
                f"{printable(header)} names {printable(name)!r}, which is a URL; if you trust it, set "
                "beam_volumes.options.outside = True"
            )
        return name
    folder = os.path.dirname(os.path.abspath(header))
    path = os.path.normpath(os.path.join(folder, name))
    if "\\" in name and not os.path.lexists(path):
        path = os.path.normpath(os.path.join(folder, name.replace("\\", "/")))
    check_path(header, path)
    return path


def is_allowed() -> bool:
    """Whether this thread may read files outside of the folder of the file that names them."""
    return allowed or _allowed_here.get()


def check_path(header: str, path: str) -> None:
    """Refuse a file named by a header, unless it is in or below the header's folder."""
    if not (is_allowed() or is_in_folder_of(header, path)):
        raise OutsideError(
            f"{printable(header)} names the file {printable(os.path.abspath(path))}, which is outside its "
            "folder; if you trust it, set beam_volumes.options.outside = True"
        )


def is_in_folder_of(header: str, path: str) -> bool:
    """Whether a file is in or below the folder of another; the folder may be named by a link."""
    path = os.path.abspath(path)
    folders = {os.path.dirname(p) for p in (os.path.abspath(header), os.path.realpath(header))}
    return any(os.path.commonpath([folder, path]) == folder for folder in folders)


def check_key(group: str, key: str) -> None:
    """Refuse an array path in a group's metadata that leads out of the group."""
    parts = re.split(r"[/\\]", key)
    if ".." in parts or parts[0] == "" != key or "://" in key:
        raise OutsideError(
            f"{printable(group)} names the array {printable(key)!r}, which is outside the group; open that "
            "array by its own path"
        )
