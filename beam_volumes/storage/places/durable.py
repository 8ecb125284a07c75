"""Having the disk hold what has been written, where a run asks for that."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable

from beam_volumes.storage.places.place import Spec, is_local, url


def flush(places: Iterable[Spec]) -> None:
    """Wait until the disks of these places hold what was written to them; a bucket does before it answers.

    One call for each file system: to wait for files one by one takes several times as long.
    """
    folders = {_existing(place["path"]) for place in places if is_local(place)}
    for folder in {os.stat(folder).st_dev: folder for folder in sorted(folders)}.values():
        handle = os.open(folder, os.O_RDONLY)
        try:
            _sync(handle)
        except OSError as error:
            reason = f"{error.strerror}; what was written there may be lost"
            raise OSError(
                f"writing to {url({'driver': 'file', 'path': folder})}: {reason}"
            ) from None
        finally:
            os.close(handle)


def _existing(path: str) -> str:
    """A place, or the folder that it will be in."""
    while not os.path.exists(path):
        path = os.path.dirname(path.rstrip("/"))
    return path


def _sync(handle: int) -> None:
    if sys.platform != "linux":
        os.sync()
    elif ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
