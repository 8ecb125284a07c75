"""Removing what a run stored for itself."""

from __future__ import annotations

import shutil

from beam_volumes.storage.kvstore import Spec, join
from beam_volumes.storage.place import delete_keys


def remove_tree(place: Spec) -> None:
    """Delete everything below a place; nothing there is no error."""
    if place.get("driver") == "file":
        shutil.rmtree(place["path"], ignore_errors=True)
        return
    delete_keys(join(place, directory=True))
