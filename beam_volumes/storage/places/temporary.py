"""Temporary folders that only their owner can read, removed after their process has died.

The process locks a file in its folder. When the process dies, the lock is released, and the next
process that makes a temporary folder removes the old one. A process looks for old folders once a
minute, because the system's temporary folder may have thousands of entries.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PREFIX = "beam-volumes-"
_LOCK = "owner.lock"
#: Seconds between two searches of a folder for abandoned ones.
_INTERVAL = 60.0
_lock = threading.Lock()
#: The locked file of each folder that this process made.
_locked_files: dict[str, int] = {}
#: When this process last searched each folder, on the monotonic clock.
_searched: dict[str, float] = {}


def is_temporary(path: str) -> bool:
    """Whether a path has the name of a temporary folder."""
    return os.path.basename(path.rstrip(os.sep)).startswith(PREFIX)


def make(path: str | None = None) -> str:
    """Make a temporary folder that only its owner can read; an existing one is not changed."""
    parent = os.path.dirname(path.rstrip(os.sep)) if path else tempfile.gettempdir()
    with _lock:
        now = time.monotonic()
        if now - _searched.get(_key(parent), -_INTERVAL) >= _INTERVAL:
            _searched[_key(parent)] = now
            remove_abandoned(parent)
        if path is not None and os.path.isdir(path):
            _remove_unlocked(path)
            if os.path.isdir(path):
                return path
        os.makedirs(parent, exist_ok=True)
        # It is renamed once it is locked, so that no process considers it abandoned before.
        made = tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent)
        handle = _locked(made)
        path = path or os.path.join(parent, os.path.basename(made).lstrip("."))
        os.rename(made, path)
        if handle is not None:
            _locked_files[_key(path)] = handle
    return path


def remove(path: str) -> None:
    """Remove a temporary folder and its content."""
    shutil.rmtree(path, ignore_errors=True)
    with _lock:
        handle = _locked_files.pop(_key(path), None)
    if handle is not None:
        os.close(handle)


@contextmanager
def folder() -> Iterator[str]:
    """Make a temporary folder that is removed at the end."""
    path = make()
    try:
        yield path
    finally:
        remove(path)


def remove_abandoned(parent: str) -> None:
    """Remove the temporary folders of dead processes of this user."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    """Remove a temporary folder of this user if no process has locked it."""
    with suppress(OSError):
        status = os.stat(path, follow_symlinks=False)
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if is_own and is_temporary(path) and os.path.exists(os.path.join(path, _LOCK)):
            handle = _locked(path)
            if handle is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(handle)


def _locked(folder: str) -> int | None:
    """Lock a folder's file; None if another process has locked it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(os.path.join(folder, _LOCK), flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _key(path: str) -> str:
    return os.path.abspath(path).rstrip(os.sep)
