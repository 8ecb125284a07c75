"""Zarr arrays, versions 2 and 3, sharded or not; groups by ``dataset=``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beam_volumes.storage.formats.tensorstore_spec import open_spec
from beam_volumes.storage.place import Place
from beam_volumes.storage.source import Source

#: The attribute under which this package keeps what zarr has no place for.
OURS = "beam_volumes"


@dataclass
class Node:
    """An array or a group."""

    place: Place
    version: int
    is_array: bool
    attributes: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        driver = "zarr3" if self.version == 3 else "zarr"
        return {"driver": driver, "kvstore": self.place.directory()}


def find(place: Place) -> Node | None:
    """The zarr array or group at a place, if there is one."""
    meta = place.json("zarr.json")
    if meta is not None:
        attributes = meta.get("attributes") or {}
        if not isinstance(attributes, dict):
            raise ValueError(
                f"{place.text}: the attributes in its zarr.json are {attributes!r}, not an object; mend them"
            )
        return Node(place, 3, meta.get("node_type") == "array", attributes)
    is_array = place.read(".zarray") is not None
    if is_array or place.read(".zgroup") is not None or place.read(".zattrs") is not None:
        return Node(place, 2, is_array, place.json(".zattrs") or {})
    return None


def open_place(
    place: Place,
    *,
    index: Mapping[str, int | str] | None = None,
    dataset: str | None = None,
    level: int | None = None,
) -> Source | None:
    """The array at a place, or None if it is not zarr."""
    node = find(place)
    if node is None:
        return None
    if not node.is_array:
        if dataset is None:
            raise ValueError(
                f"{place.text} is a zarr group: choose an array by dataset=; {_contents(place)}"
            )
        below = find(place.below(dataset))
        if below is None or not below.is_array:
            raise ValueError(
                f"dataset={dataset!r}: no zarr array of that name in {place.text}; {_contents(place)}"
            )
        node, dataset = below, None
    if dataset is not None:
        raise ValueError(f"dataset={dataset!r}: {place.text} is a single array; leave dataset= out")
    if level is not None:
        raise ValueError(
            f"level={level}: {node.place.text} is a plain array; only OME-Zarr has levels"
        )
    ours = node.attributes.get(OURS)
    ours = ours if isinstance(ours, dict) else {}
    names = node.attributes.get("_ARRAY_DIMENSIONS")
    return open_spec(
        node.spec,
        name=node.place.text,
        axes=names if isinstance(names, list) else None,
        index=index,
        scale=ours.get("voxel_size"),
        translation=ours.get("origin"),
        unit=ours.get("unit"),
    )


def _contents(place: Place) -> str:
    """What a group holds, as far as that is cheap to say."""
    if place.local is None:
        return "its arrays are not listed for a remote group"
    found, folders = [], [""]
    for _ in range(2):
        inside = [
            os.path.join(folder, e.name)
            for folder in folders
            for e in os.scandir(os.path.join(place.local, folder))
            if e.is_dir()
        ]
        arrays = [n for n in inside if _is_array(os.path.join(place.local, n))]
        found += arrays
        folders = sorted(set(inside) - set(arrays))
    return f"it holds {', '.join(sorted(found)[:20]) or 'no arrays'}"


def _is_array(path: str) -> bool:
    if os.path.exists(os.path.join(path, ".zarray")):
        return True
    node = find(Place.of(path)) if os.path.exists(os.path.join(path, "zarr.json")) else None
    return node is not None and node.is_array
