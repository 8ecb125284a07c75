"""Zarr in a zip file: arrays and OME-Zarr images, read where they are."""

from __future__ import annotations

import os
from typing import ClassVar

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.chunked.ome import OmeZarr
from beam_volumes.storage.formats.chunked.zarr import Zarr, find
from beam_volumes.storage.formats.format import WHOLE, Format, OpenRequest, Options
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.sources.source import Source

SUFFIXES = (".zip", ".ozx")
#: How a zip file begins: with a file, or, where it is empty, with its end.
MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
#: What its folders are opened as.
INSIDE = (OmeZarr(), Zarr())


class ZippedZarr(Format):
    """What `OmeZarr` and `Zarr` open, in a zip file."""

    title = "zarr in a zip file"
    schemes = ("zip",)
    open_options: ClassVar[Options] = {**OmeZarr.open_options, **Zarr.open_options}

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        root = _root(place)
        if root is None:
            return None
        for format in INSIDE:
            source = format.open_place(root, request.of_format(format))
            if source is not None:
                return source
        raise ValueError(f"{place.text} is a zip file without zarr metadata; {_contents(root)}")

    def levels(self, place: Place) -> list[str]:
        root = _root(place)
        return [] if root is None else list(OmeZarr().levels(root))


FORMATS = (ZippedZarr(),)


def _root(place: Place) -> Place | None:
    """The folder of the zarr node in a zip file, which may be the only one in it; None for other files."""
    if not str(place.spec.get("path", "")).rstrip("/").lower().endswith(SUFFIXES):
        return None
    if place.local is not None:
        if not os.path.isfile(place.local):
            return None
        with open(place.local, "rb") as file:
            if file.read(4) not in MAGIC:
                raise OSError(f"{place.text} is damaged: it does not begin as a zip file does")
    base = {**place.spec, "path": str(place.spec["path"]).rstrip("/")}
    root = Place({"driver": "zip", "base": base, "path": ""}).remembering()
    if find(root) is not None:
        return root
    folders = {name.partition("/")[0] for name in root.names() if "/" in name}
    if len(folders) == 1 and find(below := root.below(*folders)) is not None:
        return below
    return root


def _contents(root: Place) -> str:
    names = root.names()
    shown = ", ".join(printable(n) for n in names[:5])
    return f"it holds {shown}{', ...' if len(names) > 5 else ''}" if names else "it is empty"
