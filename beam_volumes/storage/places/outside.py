"""What the user trusts beyond the default, and checks of files that other files name.

By default only files in the same folder are read: a header, metadata or link from an untrusted source could
name any file of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from beam_volumes.base.text import printable

#: The fields of `beam_volumes.options` that are True: ``"outside"`` if files may name files in other folders,
#: ``"trust_models"`` if networks that are programs may be opened.
trusted: set[str] = set()
#: The settings of this thread, from the process that sent its work.
_trusted_here: ContextVar[frozenset[str]] = ContextVar("beam_volumes_trust", default=frozenset())


@contextmanager
def trusting(names: frozenset[str]) -> Iterator[None]:
    """Trust what another process trusts, in this thread."""
    token = _trusted_here.set(names)
    try:
        yield
    finally:
        _trusted_here.reset(token)


def is_trusted(name: str) -> bool:
    """Whether this process, or the process that sent the work of this thread, trusts something."""
    return name in trusted or name in _trusted_here.get()


class OutsideError(ValueError):
    """A file names another file outside its folder."""


def named_file(header: str, name: str) -> str:
    """Return the path of a file that a local file names, relative to its folder.

    A URL, and a file outside of the folder, are refused. Windows' separators are accepted.
    """
    if "://" in name:
        if not is_trusted("outside"):
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


def check_path(header: str, path: str) -> None:
    """Refuse a file named by a header, unless it is in or below the header's folder."""
    if not (is_trusted("outside") or is_in_folder_of(header, path)):
        raise OutsideError(
            f"{printable(header)} refers to the file {printable(os.path.abspath(path))}, which is outside "
            "its folder; if you trust it, set beam_volumes.options.outside = True"
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
            f"{printable(group)} refers to the array {printable(key)!r}, which is outside the group; open "
            "that array by its own path"
        )
