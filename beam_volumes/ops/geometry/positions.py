"""Positions of tiles in XML files of other programs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from xml.etree import ElementTree

import numpy as np

from beam_volumes.base.space import METRES
from beam_volumes.storage.formats.tiff.metadata import tag_of
from beam_volumes.storage.sources.axes import unit_name

#: Maximum size of a file, in bytes.
_MAX_BYTES = 1 << 28
#: Factors between the scales of tiles that count as equal, for the registrations of a SpimData file.
_SAME_SCALE = 1.05


class _Plain(ElementTree.TreeBuilder):
    """Elements of a document without declarations, which could name files or define entities."""

    def doctype(self, name: str, pubid: str, system: str) -> None:
        raise ValueError(f"it has a document type ({name}); delete the line of <!DOCTYPE")


def matrices_of_xml(path: str | os.PathLike[str], axes: Sequence[str]) -> list[np.ndarray]:
    """Return a matrix for each tile of an XML file, (axes, axes + 1), in voxels of the tiles.

    Errors do not name the file.
    """
    if os.path.getsize(path) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES >> 20} MiB; use a table")
    try:
        root = ElementTree.parse(path, ElementTree.XMLParser(target=_Plain())).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not valid XML: {error}") from None
    reader = _READERS.get(tag_of(root))
    if reader is None:
        raise ValueError(
            f"its first element is {tag_of(root)!r}; known are {', '.join(_READERS)}; use a table"
        )
    rows = ["zyx".index(a) for a in axes]
    return [matrix[np.ix_(rows, [*rows, 3])] for matrix in reader(root)]


def _all(parent: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    return [e for e in parent.iter() if tag_of(e) == tag]


def _only(parent: ElementTree.Element, tag: str) -> ElementTree.Element:
    found = next(iter(_all(parent, tag)), None)
    if found is None:
        raise ValueError(f"its {tag_of(parent)} has no element {tag}")
    return found


def _number(element: ElementTree.Element, name: str, default: str | None = None) -> float:
    given = element.get(name, default)
    try:
        return float(given or "")
    except ValueError:
        raise ValueError(
            f"its {tag_of(element)} has {name}={given!r}, which is no number"
        ) from None


def _at(place: Sequence[float]) -> np.ndarray:
    return np.column_stack([np.eye(3), place])


def _spim_data(root: ElementTree.Element) -> list[np.ndarray]:
    """Read the registrations of BigStitcher and BigDataViewer, by the numbers of view setups."""
    found: dict[int, np.ndarray] = {}
    for view in _all(_only(root, "ViewRegistrations"), "ViewRegistration"):
        time, setup = _number(view, "timepoint"), int(_number(view, "setup"))
        matrix = np.eye(4)
        for element in _all(view, "affine"):  # the last one is applied first
            numbers = [float(n) for n in re.split(r"[\s,]+", (element.text or "").strip())]
            if len(numbers) != 12:
                raise ValueError(f"an affine of setup {setup} has {len(numbers)} numbers, not 12")
            matrix = matrix @ [*np.reshape(numbers, (3, 4)), [0, 0, 0, 1]]
        if setup in found and not np.allclose(found[setup], matrix):
            raise ValueError(f"setup {setup} moves until time {time:g}; use a table of one time")
        found[setup] = matrix
    if not found:
        raise ValueError("it has no ViewRegistration")
    # From x, y, z to z, y, x, and from its units to voxels.
    order = [2, 1, 0, 3]
    ordered = np.array([found[k][np.ix_(order, order)] for k in sorted(found)])
    scales = np.sqrt((ordered[:, :3, :3] ** 2).sum(axis=1))
    scale = np.median(scales, axis=0)
    if not (scales < scale * _SAME_SCALE).all() or not (scales * _SAME_SCALE > scale).all():
        raise ValueError(f"the scales of its tiles differ by more than {_SAME_SCALE - 1:.0%}")
    return list(ordered[:, :3] / scale[:, None])


def _tera_stitcher(root: ElementTree.Element) -> list[np.ndarray]:
    """Read the positions of TeraStitcher, in the order of its stacks."""
    return [_at([_number(s, f"ABS_{a}") for a in "DVH"]) for s in _all(root, "Stack")]


def _ome(root: ElementTree.Element) -> list[np.ndarray]:
    """Read the stage positions of OME-XML, in the order of images."""
    found = []
    for image in (e for e in root if tag_of(e) == "Image"):
        pixels, plane = _only(image, "Pixels"), _only(image, "Plane")
        place = []
        for a in "ZYX":
            if a == "Z" and "PositionZ" not in plane.attrib:
                place.append(0.0)
                continue
            size = _metres(pixels, f"PhysicalSize{a}", "µm")
            place.append(_metres(plane, f"Position{a}", "reference frame") / size)
        found.append(_at(place))
    return found


def _metres(element: ElementTree.Element, name: str, unit: str) -> float:
    number, given = _number(element, name), element.get(f"{name}Unit", unit)
    try:
        return number * float(METRES[unit_name(given) or ""])
    except (KeyError, ValueError):
        raise ValueError(
            f"{name} has the unit {given!r}, which is no length; use a table with physical=True"
        ) from None


#: By the first element of a file.
_READERS: dict[str, Callable[[ElementTree.Element], list[np.ndarray]]] = {
    "SpimData": _spim_data,
    "TeraStitcher": _tera_stitcher,
    "OME": _ome,
}
