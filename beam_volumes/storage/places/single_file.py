"""Files that are written as a whole or not at all."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from beam_volumes.storage.places.place import Spec, is_local, url


def pieces(path: str) -> Iterator[bytes]:
    """Yield a file's content in pieces."""
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            yield data


def put_together(
    place: str, home: str, content: Iterable[bytes], is_ours: Callable[[], bool]
) -> None:
    """Write a file atomically from content that is never in memory as a whole.

    ``home``: a folder on the same disk, for the incomplete file of this attempt.
    """
    # FileNotFoundError if the run no longer owns the file, or another attempt has removed parts.

    def write(path: str) -> None:
        with open(path, "xb") as out:
            for data in content:
                out.write(data)

    write_whole(place, home, write, is_ours)


def write_whole(
    place: str, home: str, write: Callable[[str], None], is_ours: Callable[[], bool]
) -> None:
    """Write a file atomically, by a function that writes it at a new path in ``home``."""
    whole = os.path.join(home, f"whole-{uuid.uuid4().hex}")
    try:
        write(whole)
        if not is_ours():
            raise FileNotFoundError(f"{place}: another run has taken its place")
        os.replace(whole, place)
    except BaseException:
        with suppress(OSError):
            os.remove(whole)
        raise


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Create or replace a local file; if that fails, a file that exists is unchanged."""
    # The file keeps its permissions and, if the process may set them, its owner and group. A symbolic link
    # keeps its target.
    place = os.path.realpath(path)
    if os.path.exists(place):
        with open(place, "ab") as out:  # refuses a folder, and a file that may not be written
            if not os.path.isfile(place):  # a terminal or a pipe
                out.write(data)
                return

    def write(whole: str) -> None:
        with open(whole, "xb") as out:
            if os.path.exists(place):
                found = os.stat(place)
                for owner, group in ((-1, found.st_gid), (found.st_uid, -1)):
                    with suppress(OSError):
                        os.chown(whole, owner, group)
                shutil.copymode(place, whole)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())

    try:
        write_whole(place, os.path.dirname(place), write, lambda: True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def flush(places: Iterable[Spec]) -> None:
    """Wait until local disks have stored everything written to these places."""
    # It is one call for each file system, which is several times faster than one for each file. Buckets store
    # everything before they answer.
    folders = {_existing(place["path"]) for place in places if is_local(place)}
    for folder in {os.stat(folder).st_dev: folder for folder in sorted(folders)}.values():
        handle = os.open(folder, os.O_RDONLY)
        try:
            _sync(handle)
        except OSError as error:
            reason = f"{error.strerror}; the last files written there may be lost"
            raise OSError(
                f"writing to {url({'driver': 'file', 'path': folder})}: {reason}"
            ) from None
        finally:
            os.close(handle)


def _existing(path: str) -> str:
    """Return the place, or the innermost existing folder that will contain it."""
    while not os.path.exists(path):
        path = os.path.dirname(path.rstrip("/"))
    return path


def _sync(handle: int) -> None:
    if sys.platform != "linux":
        os.sync()
    elif ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
