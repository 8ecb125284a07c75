"""Metadata of TIFF files: OME-XML, ImageJ, LSM, slides, tags."""

from __future__ import annotations

import math
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import tifffile

from beam_volumes.base.space import Space
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.metadata import Mark, parsed_xml
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.sources.axes import converted, unit_name

#: The start of this package's line in an ImageJ description.
MARK = "beam_volumes"
#: Kinds of tifffile's series that are made of pages, without a description of their axes.
_UNDESCRIBED = ("generic", "uniform")


@dataclass(frozen=True)
class ImageMetadata:
    """Metadata of an image, except the positions of its pages."""

    space: Space = field(default_factory=Space)
    #: Whether the size along z, which is 1 in ``space``, is unknown.
    flat: bool = False
    channels: Sequence[str] = ()
    mask: bool = False
    axes: tuple[str, ...] = ()


def metadata_of(
    tiff: tifffile.TiffFile, page: Any, kind: str, number: int, scale: tuple[float, float]
) -> ImageMetadata:
    """Return the metadata of voxels; empty if they are invalid."""
    try:
        if kind == "ome" or (tiff.is_ome and kind != "svs"):
            metadata = Ome.of(tiff, kind).metadata(number)
        elif tiff.is_imagej:
            metadata = _of_imagej(tiff)
        elif tiff.is_lsm:
            metadata = _of_lsm(tiff)
        elif tiff.is_svs:
            metadata = _of_slide(tiff) if number == 0 else ImageMetadata()
        else:
            metadata = ImageMetadata(_of_tags(page), True)
    except (VolumeError, MemoryError):
        raise
    except Exception:  # invalid metadata
        metadata = ImageMetadata()
    size = metadata.space.voxel_size
    if size is None:
        return metadata
    y, x = scale
    return replace(
        metadata, space=replace(metadata.space, voxel_size=(size[0], size[1] * y, size[2] * x))
    )


def _space(sizes: Sequence[Any], unit: Any, origin: Sequence[float] = (0.0, 0.0, 0.0)) -> Space:
    """Return a space from possible voxel sizes z, y, x; a missing size along z is 1."""
    z, y, x = (_size(s) for s in sizes)
    try:
        name = unit_name(str(unit)) if unit else None
    except ValueError:
        name = None
    if y is None or x is None or (unit and name is None):
        return Space()
    return Space(voxel_size=(z or 1.0, y, x), unit=name, origin=(origin[0], origin[1], origin[2]))


def _size(value: Any, signed: bool = False) -> float | None:
    """Return a positive size or None; with ``signed``, as in ImageJ, the absolute value."""
    try:
        number = abs(float(value)) if signed else float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def _resolution(page: Any) -> tuple[float | None, float | None]:
    """Return length and width of a pixel, in the unit of the resolution tags."""
    found: list[float | None] = []
    for code in (283, 282):
        value = page.tags.valueof(code)
        if isinstance(value, tuple) and len(value) == 2 and value[0] and value[1]:
            found.append(_size(value[1] / value[0]))
        else:
            found.append(None)
    return found[0], found[1]


def _of_imagej(tiff: tifffile.TiffFile) -> ImageMetadata:
    meta = tiff.imagej_metadata or {}
    y, x = _resolution(tiff.pages.first)
    z = _size(meta.get("spacing"), signed=True)
    # Non-ASCII letters are escaped; axes without a unit have the unit of x.
    units = [_unescaped(meta.get(f"{a}unit") or meta.get("unit")) for a in "zyx"]
    unit, (sizes,) = converted(units, [v or math.nan for v in (z, y, x)])
    space = Space() if sizes is None or unit is None else _space(sizes, unit)  # else pixels
    mark = re.search(rf"^{MARK}=(.*)$", str(tiff.pages.first.description), re.M)
    ours = None if mark is None else _mark(mark.group(1))
    if ours is not None:
        return ours
    labels = meta.get("Labels")
    channels = whole(meta.get("channels", 1))
    names = [str(n) for n in labels] if isinstance(labels, list) and len(labels) == channels else ()
    return ImageMetadata(space, z is None, names)


def _unescaped(text: Any) -> str:
    r"""Decode letters that are written as ``\\u00B5``."""
    found = "" if text is None else str(text)
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), found)


def _of_lsm(tiff: tifffile.TiffFile) -> ImageMetadata:
    meta = tiff.lsm_metadata or {}
    sizes = [_size(meta.get(f"VoxelSize{a}")) for a in "ZYX"]
    space = _space([None if s is None else s * 1e6 for s in sizes], "micrometer")
    return ImageMetadata(space, sizes[0] is None)


def _of_slide(tiff: tifffile.TiffFile) -> ImageMetadata:
    found = re.search(r"\bMPP\s*=\s*([0-9.eE+-]+)", str(tiff.pages.first.description))
    mpp = found and _size(found.group(1))
    return ImageMetadata(_space((None, mpp, mpp), "micrometer"), True) if mpp else ImageMetadata()


def _of_tags(page: Any) -> Space:
    """Return the voxel size of resolution tags, unless it is a printer's or screen's."""
    centimetres = {2: 2.54, 3: 1.0}.get(whole(page.tags.valueof(296) or 2))
    y, x = _resolution(page)
    if centimetres is None or y is None or x is None:
        return Space()
    # 1200 dots per inch are 21 micrometers.
    if max(y, x) * centimetres > 2.54 / 1200:
        return Space()
    return _space((None, y * centimetres * 1e4, x * centimetres * 1e4), "micrometer")


def _mark(text: str) -> ImageMetadata | None:
    """Parse the mark of this package."""
    found = Mark.read(text)
    if found is None:
        return None
    return ImageMetadata(found.space, False, found.space.channels, found.mask, found.space.axes)


def tag_of(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def first_of(element: ElementTree.Element, name: str) -> ElementTree.Element | None:
    return next((e for e in element if tag_of(e) == name), None)


def whole(value: Any) -> int:
    """Return an integer from untrusted metadata; 0 if it is invalid."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


class UnknownSchema(ValueError):
    """OME-XML has a schema that is not supported."""


def check_parsed(tiff: tifffile.TiffFile, ome: Ome, xml: str, name: str) -> None:
    """Refuse OME-XML that cannot be parsed, if nothing else describes the axes of the file's pages."""
    if not ome.error or not _is_ome(xml):
        return
    if all(len(s.pages) < 2 or s.kind not in _UNDESCRIBED for s in tiff.series):
        return
    raise VolumeError(
        f"{printable(name)} has damaged OME-XML ({ome.error}), so the axes of its pages are unknown: write "
        'it again, or remove the XML by tifffile.tiffcomment(path, "") to open the pages as a stack'
    )


def _is_ome(xml: str) -> bool:
    """Whether a text is an XML document with the root OME, even if it cannot be parsed.

    >>> _is_ome('<?xml version="1.0"?><!-- for OME --><OME a="<">'), _is_ome("made of <OME> files")
    (True, False)
    """
    first = re.search(r"<([A-Za-z_][^\s/>]*)", xml)
    is_document = xml.lstrip("\x00\ufeff \t\r\n").startswith("<")
    return is_document and first is not None and first[1].rpartition(":")[2] == "OME"


def check_schema(xml: str) -> None:
    """Refuse OME-XML of an unknown schema."""
    root = re.search(r"<(?:\w+:)?OME\b[^>]*", xml)
    found = root and re.search(
        r"""xmlns(?::\w+)?\s*=\s*["'][^"']*/Schemas/OME/([^"'/]*)""", root[0]
    )
    # Dates are ordered as texts.
    if found and found[1] > "2016-06":
        raise UnknownSchema(
            f"its OME-XML has the schema {found[1][:20]!r}, but only schemas up to 2016-06 are "
            "supported; convert it, e.g. by bfconvert"
        )


class Ome:
    """An OME-XML document."""

    def __init__(self, xml: str, folder: str | None = None) -> None:
        """Parse a document; with ``folder``, images without existing files are left out."""
        self._folder = folder
        #: Why it cannot be parsed; empty if it can.
        self.error = ""
        try:
            self._root: ElementTree.Element | None = parsed_xml(xml.strip("\x00 \n"))
        except ElementTree.ParseError as error:
            self._root, self.error = None, str(error)

    @classmethod
    def of(cls, tiff: tifffile.TiffFile, kind: str) -> Ome:
        """Parse the document of a file; its images are tifffile's series of this kind."""
        folder = tiff.filehandle.dirname if kind == "ome" else ""
        return cls(tiff.ome_metadata or "", folder or None)

    @cached_property
    def images(self) -> list[ElementTree.Element]:
        images = [] if self._root is None else [e for e in self._root if tag_of(e) == "Image"]
        return images if self._folder is None else [e for e in images if self._has_files(e)]

    def _has_files(self, image: ElementTree.Element) -> bool:
        """Whether there is a file with planes of an image."""
        pixels = first_of(image, "Pixels")
        parts = () if pixels is None else (e for e in pixels if tag_of(e) == "TiffData")
        for part in parts:
            uuid = first_of(part, "UUID")
            if uuid is None or (uuid.text or "") == self.id or "FileName" not in uuid.attrib:
                return True
            if os.path.isfile(os.path.join(self._folder or "", uuid.attrib["FileName"])):
                return True
        return False

    @property
    def id(self) -> str:
        """The identifier of the file."""
        return "" if self._root is None else str(self._root.get("UUID") or "")

    @property
    def elsewhere(self) -> str | None:
        """The name of the file with the metadata, if it is another one."""
        found = None if self._root is None else first_of(self._root, "BinaryOnly")
        return None if found is None else found.get("MetadataFile")

    @property
    def files(self) -> list[str]:
        """The names of files with planes of the image."""
        elements = () if self._root is None else self._root.iter()
        return [e.attrib["FileName"] for e in elements if "FileName" in e.attrib]

    def absent(self, folder: str) -> list[str]:
        """Return the names of other files with planes that are not in a folder."""
        elements = () if self._root is None else self._root.iter()
        others = dict.fromkeys(
            e.attrib["FileName"]
            for e in elements
            if "FileName" in e.attrib and not (self.id and (e.text or "").strip() == self.id)
        )
        return [n for n in others if not os.path.isfile(os.path.join(folder, n.replace("\\", "/")))]

    def metadata(self, number: int) -> ImageMetadata:
        images = self.images
        pixels = first_of(images[number], "Pixels") if number < len(images) else None
        if pixels is None or self._root is None:
            return ImageMetadata()
        for element in self._root.iter():
            if tag_of(element) == "Value" and (element.text or "").strip().startswith("{"):
                mark = _mark((element.text or "").strip())
                if mark is not None:
                    return mark
        sizes = [_size(pixels.get(f"PhysicalSize{a}")) for a in "ZYX"]
        units = [pixels.get(f"PhysicalSize{a}Unit", "µm") for a in "ZYX"]
        if sizes[0] is None:  # then its unit is meaningless
            units[0] = units[1]
        unit, (known_sizes,) = converted(units, [s or math.nan for s in sizes])
        space = Space() if known_sizes is None or unit is None else _space(known_sizes, unit)
        names = [str(e.get("Name") or "") for e in pixels if tag_of(e) == "Channel"]
        known = names if all(names) and len(set(names)) == len(names) else ()
        return ImageMetadata(space, sizes[0] is None, known)

    def stage_position(self, number: int) -> Space | None:
        """Return a space that begins at the stage's position at the first plane."""
        images = self.images
        pixels = first_of(images[number], "Pixels") if number < len(images) else None
        planes = () if pixels is None else (e for e in pixels if tag_of(e) == "Plane")
        plane = min(planes, key=lambda e: [whole(e.get(f"The{a}")) for a in "TZC"], default=None)
        if plane is None or None in (plane.get("PositionY"), plane.get("PositionX")):
            return None
        # Without a unit, positions have an unknown one; programs that omit it mean micrometers.
        units = [plane.get(f"Position{a}Unit", "reference frame") for a in "ZYX"]
        try:
            places = [float(plane.get(f"Position{a}") or 0) for a in "ZYX"]
        except ValueError:
            return None
        unit, (found,) = converted(["µm" if u == "reference frame" else u for u in units], places)
        if unit is None or found is None or not all(map(math.isfinite, found)):
            return None
        return Space(voxel_size=(1.0, 1.0, 1.0), unit=unit, origin=(found[0], found[1], found[2]))
