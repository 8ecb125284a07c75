"""CZI, of Zeiss's microscopes, by pylibCZIrw.

The library assembles the tiles of a mosaic: each read requests a part of a plane. Handles are
opened once per process and used by one thread at a time; the library would not run two in parallel.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.format import WHOLE, Format, OpenRequest
from beam_volumes.storage.formats.headered.header import local_file
from beam_volumes.storage.formats.metadata import RefusedXml, parsed_xml
from beam_volumes.storage.formats.planes import (
    COLOURS,
    PlaneImage,
    ReadPlane,
    named_part,
    refuse_colours,
)
from beam_volumes.storage.places.errors import VolumeError, damaged, needed
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.positioned import first_bytes, kept_of
from beam_volumes.storage.sources.axes import Placement
from beam_volumes.storage.sources.source import Source, TokenOfFields

_MAGIC = b"ZISRAWFILE\0"
#: Dtype and number of samples of pixels, by type.
_PIXELS = {
    "Gray8": ("u1", 1),
    "Gray16": ("u2", 1),
    "Gray32Float": ("f4", 1),
    "Bgr24": ("u1", 3),
    "Bgr48": ("u2", 3),
    "Bgr96Float": ("f4", 3),
}
#: Minimum and maximum of rows and columns that are read at a time.
_MINIMUM, _MAXIMUM = 256, 2048
#: Tiles that are inspected to find their size.
_LOOKED_AT = 64


@dataclass(frozen=True, eq=False)
class _Planes(TokenOfFields):
    """The planes of one scene."""

    path: str
    scene: int | None  #: None if the file has no scenes
    start: Mapping[str, int]  #: The first index along each axis, including y and x
    samples: int

    names = None

    def open(self) -> ReadPlane:
        def read(at: Mapping[str, int], y: slice, x: slice) -> np.ndarray:
            plane = {a.upper(): k + self.start[a] for a, k in at.items() if a in "tczvhirb"}
            corner = (x.start + self.start["x"], y.start + self.start["y"])
            part = (*corner, x.stop - x.start, y.stop - y.start)
            try:
                handle, lock = kept_of(
                    "czi", self.path, lambda: (_opened(self.path), threading.Lock())
                )
                with lock:
                    image = handle.read(roi=part, plane=plane, scene=self.scene)
            except (Exception, MemoryError) as error:
                where = ", ".join(f"{a.lower()}={k}" for a, k in plane.items())
                raise VolumeError(
                    f"{printable(self.path)}: the part x, y, w, h = {part} of {where} cannot be read: "
                    f"{error}; restore it"
                ) from None
            shape = (part[3], part[2], self.samples)
            if image.shape != shape:
                raise VolumeError(f"{printable(self.path)}: read {image.shape} instead of {shape}")
            return image[..., ::-1] if self.samples > 1 else image[..., 0]

        return read


class Czi(Format):
    """The planes of one scene."""

    title = "CZI"

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        path = local_file(place, (".czi",), "CZI files")
        if path is None or first_bytes(path, len(_MAGIC)) != _MAGIC:
            return None
        if request.level is not None:
            raise ValueError(
                f"level={request.level}: {place.text} is CZI; its pyramid is not supported: omit it"
            )
        needed("pylibCZIrw", "czi", f"{place.text} is CZI")
        handle = _opened(path)
        try:
            return _image(place.text, path, handle, request.dataset).source(request)
        except (RuntimeError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise damaged(path, f"{error}") from None
        finally:
            handle.close()


FORMATS = (Czi(),)


def _opened(path: str) -> Any:
    from pylibCZIrw.czi import CziReader

    try:
        return CziReader(path)
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise VolumeError(
            f"{printable(path)} cannot be read as CZI: {reason}; restore it"
        ) from None


def _image(where: str, path: str, handle: Any, dataset: str | None) -> PlaneImage:
    box = {str(k).lower(): (int(a), int(b)) for k, (a, b) in handle.total_bounding_box.items()}
    extents = {a: last - first for a, (first, last) in box.items()}
    try:
        metadata = _Metadata.of(handle.raw_metadata)
    except RefusedXml as error:
        raise ValueError(f"{printable(path)}: {error}") from None
    scenes = handle.scenes_bounding_rectangle_no_pyramid
    numbers = sorted(scenes) or [None]
    names = metadata.scenes if scenes else ()
    scene = numbers[named_part(dataset, len(numbers), names, where, "scene")]
    part = scenes[scene] if scenes else handle.total_bounding_rectangle_no_pyramid
    other = [a for a, n in extents.items() if a not in "tczyxsm" and n > 1]
    if other:
        shown = ", ".join(f"{a}: {n}" for a, n in extents.items())
        raise ValueError(
            f"{where} has the axes {shown}; {other[0]} is not supported: export it as OME-TIFF in ZEN"
        )
    kind, samples = _pixels(where, handle, box.get("c", (0, 1)))
    channels = extents.get("c", 1)
    refuse_colours(where, channels, samples)
    axes = [a for a in "tcz" if a in box and not (a == "c" and channels == 1)]
    start = {a: first for a, (first, _) in box.items() if a in "tczvhirb"}
    start |= {"y": int(part.y), "x": int(part.x)}
    sizes = [*(extents[a] for a in axes), int(part.h), int(part.w)]
    if min(sizes) < 1:
        raise damaged(path, f"its extents are {sizes}")
    tile = [min(n, t) for n, t in zip(sizes[-2:], _tile(handle), strict=True)]
    placement = Placement()
    if metadata.sizes.keys() >= ({"y", "x"} if extents.get("z", 1) == 1 else {"z", "y", "x"}):
        size = (metadata.sizes.get("z", 1.0), metadata.sizes["y"], metadata.sizes["x"])
        placement = Placement(size, "micrometer")
    named = metadata.channels if len(metadata.channels) == channels else ()
    return PlaneImage(
        name=where,
        planes=_Planes(path, scene, start, samples),
        axes=[*axes, "y", "x"],
        sizes=sizes,
        chunk=[*(1 for _ in axes), *tile],
        dtype=np.dtype(kind),
        samples=samples if samples > 1 else None,
        channels=COLOURS[:3] if samples > 1 else named,
        placement=placement,
    )


def _pixels(where: str, handle: Any, channels: tuple[int, int]) -> tuple[str, int]:
    """Return the dtype of pixels and the number of samples."""
    kinds = {str(handle.get_channel_pixel_type(c)) for c in range(*channels)}
    if len(kinds) != 1 or not kinds <= set(_PIXELS):
        raise ValueError(
            f"{where} has channels of {', '.join(sorted(kinds))}; channels must have the same type, "
            f"one of {', '.join(_PIXELS)}: export it as OME-TIFF in ZEN"
        )
    return _PIXELS[kinds.pop()]


def _tile(handle: Any) -> tuple[int, int]:
    """Return the rows and columns that are read at a time: a tile, within limits."""
    largest = [_MINIMUM, _MINIMUM]
    looked_at = 0

    def look(number: int, info: Any) -> bool:
        nonlocal looked_at
        looked_at += 1
        largest[0] = max(largest[0], int(info.logicalRect.h))
        largest[1] = max(largest[1], int(info.logicalRect.w))
        return looked_at < _LOOKED_AT

    handle.enumerate_subblocks(look)
    return min(largest[0], _MAXIMUM), min(largest[1], _MAXIMUM)


@dataclass(frozen=True)
class _Metadata:
    """Metadata of a file that its pixels do not have."""

    #: Voxel sizes along x, y, z in micrometers, as far as known
    sizes: Mapping[str, float]
    channels: tuple[str, ...]
    scenes: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Metadata:
        try:
            root = parsed_xml(text)
        except ElementTree.ParseError:
            return cls({}, (), ())
        sizes: dict[str, float] = {}
        for item in root.iterfind("Metadata/Scaling/Items/Distance"):
            try:
                value = float(item.findtext("Value") or "nan") * 1e6
            except ValueError:
                continue
            if math.isfinite(value) and value > 0:
                sizes[item.get("Id", "").lower()] = value
        image = "Metadata/Information/Image/Dimensions/"
        channels = [c.get("Name") or "" for c in root.iterfind(image + "Channels/Channel")]
        scenes = [s.get("Name") or "" for s in root.iterfind(image + "S/Scenes/Scene")]
        return cls(sizes, tuple(channels) if all(channels) else (), tuple(scenes))
