"""What the metadata of a TIFF file tell of its voxels: OME-XML, ImageJ, LSM, slides, tags."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tifffile

from beam_volumes.space import METRES, Space
from beam_volumes.storage.axes import unit_name
from beam_volumes.storage.errors import VolumeError
from beam_volumes.storage.formats.marks import Mark

#: The line of ImageJ's description that we add to files that we make.
MARK = "beam_volumes"


@dataclass(frozen=True)
class Told:
    """What metadata tell of an image, but where its pages are."""

    space: Space = field(default_factory=Space)
    channels: Sequence[str] = ()
    mask: bool = False
    axes: tuple[str, ...] = ()


def told_of(
    tiff: tifffile.TiffFile, page: Any, kind: str, number: int, scale: tuple[float, float]
) -> Told:
    """What a file says of voxels. Where that makes no sense, it says nothing.

    Parameters
    ----------
    tiff : tifffile.TiffFile
    page : tifffile.TiffPage
        The first page of the image's finest level.
    kind : str
        Whose metadata the image has.
    number : int
        The image's place among those of the file.
    scale : tuple of float
        How many voxels of the finest level one of the image is long and wide.
    """
    try:
        if kind == "ome" or (tiff.is_ome and kind != "svs"):
            told = Ome(tiff.ome_metadata or "").told(number)
        elif tiff.is_imagej:
            told = _of_imagej(tiff)
        elif tiff.is_lsm:
            told = _of_lsm(tiff)
        elif tiff.is_svs:
            told = _of_slide(tiff) if number == 0 else Told()
        else:
            told = Told(_of_tags(page))
    except (VolumeError, MemoryError):
        raise
    except Exception:  # someone else's text
        told = Told()
    size = told.space.voxel_size
    if size is None:
        return told
    y, x = scale
    return replace(told, space=replace(told.space, voxel_size=(size[0], size[1] * y, size[2] * x)))


def _space(sizes: Sequence[Any], unit: Any, origin: Sequence[float] = (0.0, 0.0, 0.0)) -> Space:
    """A space of what may be voxel sizes; those that are none are 1."""
    good = [_size(s) for s in sizes]
    try:
        name = unit_name(str(unit)) if unit else None
    except ValueError:
        name = None
    if good == [None] * 3 or (unit and name is None):
        return Space()
    known = next(g for g in good if g is not None)
    z, y, x = (known if g is None and k else g or 1.0 for k, g in enumerate(good))
    return Space(voxel_size=(z, y, x), unit=name, origin=(origin[0], origin[1], origin[2]))


def _size(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def _resolution(page: Any) -> tuple[float | None, float | None]:
    """How long and wide a pixel is, in the unit of the resolution tags."""
    found: list[float | None] = []
    for code in (283, 282):
        value = page.tags.valueof(code)
        if isinstance(value, tuple) and len(value) == 2 and value[0] and value[1]:
            found.append(_size(value[1] / value[0]))
        else:
            found.append(None)
    return found[0], found[1]


def _of_imagej(tiff: tifffile.TiffFile) -> Told:
    meta = tiff.imagej_metadata or {}
    unit = str(meta.get("unit", "")).replace("\\u00B5", "µ").replace("\\u00b5", "µ")
    y, x = _resolution(tiff.pages.first)
    space = _space((meta.get("spacing"), y, x), unit or None)
    if not unit:
        space = Space()  # pixels
    mark = re.search(rf"^{MARK}=(.*)$", str(tiff.pages.first.description), re.M)
    ours = None if mark is None else _mark(mark.group(1))
    if ours is not None:
        return ours
    labels = meta.get("Labels")
    channels = whole(meta.get("channels", 1))
    names = [str(n) for n in labels] if isinstance(labels, list) and len(labels) == channels else ()
    return Told(space, names)


def _of_lsm(tiff: tifffile.TiffFile) -> Told:
    meta = tiff.lsm_metadata or {}
    sizes = [_size(meta.get(f"VoxelSize{a}")) for a in "ZYX"]
    return Told(_space([None if s is None else s * 1e6 for s in sizes], "micrometer"))


def _of_slide(tiff: tifffile.TiffFile) -> Told:
    found = re.search(r"\bMPP\s*=\s*([0-9.eE+-]+)", str(tiff.pages.first.description))
    mpp = found and _size(found.group(1))
    return Told(_space((1.0, mpp, mpp), "micrometer")) if mpp else Told()


def _of_tags(page: Any) -> Space:
    """The voxel size that resolution tags tell, where they are not those of a printer or a screen."""
    centimetres = {2: 2.54, 3: 1.0}.get(whole(page.tags.valueof(296) or 2))
    y, x = _resolution(page)
    if centimetres is None or y is None or x is None:
        return Space()
    # 1200 dots an inch are 21 micrometres.
    if max(y, x) * centimetres > 2.54 / 1200:
        return Space()
    return _space((1.0, y * centimetres * 1e4, x * centimetres * 1e4), "micrometer")


def _mark(text: str) -> Told | None:
    """What we have written into a file of ours."""
    found = Mark.read(text)
    if found is None:
        return None
    return Told(found.space, found.space.channels, found.mask, found.space.axes)


def tag_of(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def first_of(element: ElementTree.Element, name: str) -> ElementTree.Element | None:
    return next((e for e in element if tag_of(e) == name), None)


def whole(value: Any) -> int:
    """A whole number of someone's metadata; 0 if it is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


class Ome:
    """An OME-XML document."""

    def __init__(self, xml: str) -> None:
        try:
            self._root: ElementTree.Element | None = ElementTree.fromstring(xml.strip("\x00 \n"))
        except (ElementTree.ParseError, ValueError):
            self._root = None

    @property
    def images(self) -> list[ElementTree.Element]:
        return [] if self._root is None else [e for e in self._root if tag_of(e) == "Image"]

    def told(self, number: int) -> Told:
        images = self.images
        pixels = first_of(images[number], "Pixels") if number < len(images) else None
        if pixels is None or self._root is None:
            return Told()
        for element in self._root.iter():
            if tag_of(element) == "Value" and (element.text or "").strip().startswith("{"):
                mark = _mark((element.text or "").strip())
                if mark is not None:
                    return mark
        sizes: list[float | None] = []
        units = []
        for a in "ZYX":
            size = _size(pixels.get(f"PhysicalSize{a}"))
            unit = pixels.get(f"PhysicalSize{a}Unit", "µm")
            sizes.append(size)
            if size is not None:
                units.append(unit_name(unit) or "micrometer")
        # Of several units, all are told in micrometres.
        if len(set(units)) > 1:
            scales = iter([float(METRES[u]) / float(METRES["micrometer"]) for u in units])
            sizes = [None if s is None else s * next(scales) for s in sizes]
            units = ["micrometer"]
        names = [str(e.get("Name") or "") for e in pixels if tag_of(e) == "Channel"]
        known = names if all(names) and len(set(names)) == len(names) else ()
        return Told(_space(sizes, units[0] if units else None), known)
