"""Removing what a run stored for itself."""

from __future__ import annotations

import shutil

import tensorstore as ts

from beam_volumes.storage.kvstore import Spec, join


def remove_tree(place: Spec) -> None:
    """Delete everything below a place; nothing there is no error."""
    if place.get("driver") == "file":
        shutil.rmtree(place["path"], ignore_errors=True)
        return
    store = ts.KvStore.open(join(place, directory=True)).result()
    store.delete_range(ts.KvStore.KeyRange()).result()
