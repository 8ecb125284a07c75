"""Files that name other files: those that lie elsewhere are read only where the user allows that.

A header, a group's metadata or a link may come from anybody. It could name any file of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from beam_volumes.base.text import printable

#: Whether files may name others that lie elsewhere: `beam_volumes.options.outside`.
allowed = False
#: The same for this thread: set by the process that sent it its work.
_allowed_here: ContextVar[bool] = ContextVar("beam_volumes_outside", default=False)


@contextmanager
def allowing(allow: bool) -> Iterator[None]:
    """Let files name others that lie elsewhere, in this thread, if ``allow``."""
    token = _allowed_here.set(allow)
    try:
        yield
    finally:
        _allowed_here.reset(token)


class OutsideError(ValueError):
    """A file names another one that lies neither in its folder nor below it."""


def check_path(header: str, path: str) -> None:
    """Refuse a file that a header names, unless it lies in the header's folder or below.

    Examples
    --------
    >>> check_path("/data/a.nhdr", "/data/raw/a.raw"), check_path("a.nhdr", "b/../a.raw")
    (None, None)
    >>> check_path("/data/a.nhdr", "/data/../etc/passwd")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    beam_volumes...OutsideError: /data/a.nhdr names the file /etc/passwd, which lies outside ...
    """
    if not (allowed or _allowed_here.get() or is_in_folder_of(header, path)):
        raise OutsideError(
            f"{printable(header)} names the file {printable(os.path.abspath(path))}, which lies outside its "
            "folder: if you trust it, allow that by beam_volumes.options.outside = True"
        )


def is_in_folder_of(header: str, path: str) -> bool:
    """Whether a file lies in the folder of another one or below; links of the file system count as given."""
    path = os.path.abspath(path)
    folders = {os.path.dirname(p) for p in (os.path.abspath(header), os.path.realpath(header))}
    return any(os.path.commonpath([folder, path]) == folder for folder in folders)


def check_key(group: str, key: str) -> None:
    """Refuse an array that a group's metadata name by a path that leads out of the group, always.

    Examples
    --------
    >>> check_key("a.zarr", "labels/0")
    >>> check_key("a.zarr", "../b.zarr/0")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    beam_volumes...OutsideError: a.zarr names the array '../b.zarr/0', which lies outside ...
    """
    parts = re.split(r"[/\\]", key)
    if ".." in parts or parts[0] == "" != key or "://" in key:
        raise OutsideError(
            f"{printable(group)} names the array {printable(key)!r}, which lies outside it: open that array "
            "by a path of its own"
        )
