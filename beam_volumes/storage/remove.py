"""Removing what a run stored for itself, and what another one left where an output is made."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator

import tensorstore as ts

from beam_volumes.storage.context import context
from beam_volumes.storage.errors import explain
from beam_volumes.storage.kvstore import Spec, join, url
from beam_volumes.storage.place import delete_keys, list_keys

#: Files, or objects in a bucket, that are deleted between two looks at whether they may be.
_AT_A_TIME = 64
#: What TensorStore appends to the name of a file that it is writing.
_LOCK = ".__lock"


def remove_tree(place: Spec) -> None:
    """Delete everything below a place; nothing there is no error."""
    if place.get("driver") == "file":
        shutil.rmtree(place["path"], ignore_errors=True)
        return
    delete_keys(join(place, directory=True))


def clear(folder: Spec, keep: str, may: Callable[[], bool]) -> bool:
    """Delete everything below a folder but one file, as long as ``may`` says so.

    Returns
    -------
    bool
        Whether all is deleted; False once it may not be.
    """
    if folder.get("driver") == "file":
        return _clear_local(folder["path"], keep, may)
    keys = [key for key in list_keys(folder) if key != keep]
    store = ts.KvStore.open(folder, context=context()).result()
    for at in range(0, len(keys), _AT_A_TIME):
        if not may():
            return False
        deleting = [store.write(key, None) for key in keys[at : at + _AT_A_TIME]]
        for key, one in zip(keys[at:], deleting, strict=False):
            try:
                one.result()
            except ValueError as error:
                raise explain(error, f"clearing {url(folder)}{key}") from None
    return may()


def _clear_local(path: str, keep: str, may: Callable[[], bool]) -> bool:
    kept = {os.path.join(path, keep), os.path.join(path, keep + _LOCK)}
    folders: list[str] = []
    for k, file in enumerate(_files(path, folders)):
        if k % _AT_A_TIME == 0 and not may():
            return False
        if file not in kept:
            with contextlib.suppress(FileNotFoundError):
                os.remove(file)
    if not may():
        return False
    for folder in reversed(folders):
        with contextlib.suppress(OSError):  # one that is written into again is not empty
            os.rmdir(folder)
    return True


def _files(path: str, folders: list[str]) -> Iterator[str]:
    """All files below a folder; its folders are put on the list, the outer ones first."""
    for root, inside, files in os.walk(path):
        below = [os.path.join(root, name) for name in inside]
        links = [name for name in below if os.path.islink(name)]
        folders += [name for name in below if name not in links]
        yield from links
        yield from (os.path.join(root, name) for name in files)
