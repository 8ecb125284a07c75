"""The HDF5 layouts of Imaris, BigDataViewer and MINC."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from beam_volumes.base.space import AXES
from beam_volumes.storage.formats.hdf5.arrays import (
    Array,
    Paths,
    attribute,
    dtype_of,
    floats_of,
    got,
    is_dataset,
    is_positive,
    number_of,
    present,
    text_of,
)
from beam_volumes.storage.formats.metadata import parsed_xml
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.sources.axes import converted, unit_name

#: Maximal size of a BigDataViewer's XML.
_XML_BYTES = 16 << 20

_IMARIS = re.compile(r"/DataSet/ResolutionLevel (\d+)/TimePoint (\d+)/Channel (\d+)/Data")
_VIEWER = re.compile(r"/t(\d{5,})/s(\d{2,})/(\d+)/cells")
_MINC = re.compile(r"/minc-2.0/image/\d+/image")


def by_program(file: Any, name: str, level: int | None) -> Array | None:
    """Return the array of a file in the layout of one of the programs, or None."""
    for known in (_imaris, _viewer, _minc):
        found = known(file, name, level)
        if found is not None:
            return found
    return None


def of_program(file: Any, node: Any) -> Array | None:
    """Return the description of a dataset at a path of one of the programs, or None."""
    imaris, viewer = _IMARIS.fullmatch(node.name), _VIEWER.fullmatch(node.name)
    if imaris:
        return _imaris_part(file, node, int(imaris[1]), int(imaris[3]))
    if viewer:
        return _viewer_part(file, node, int(viewer[2]), int(viewer[3]))
    return _minc_image(file, node) if _MINC.fullmatch(node.name) else None


def _numbered(group: Any, pattern: str) -> list[int]:
    """Return the numbers in the matching names of a group's objects, sorted."""
    if group is None or is_dataset(group):
        return []
    matches = (re.fullmatch(pattern, name) for name in group)
    return sorted(int(m[1]) for m in matches if m)


def _level_of(level: int | None, levels: Sequence[int], name: str) -> int:
    level = 0 if level is None else level
    if level not in levels:
        raise ValueError(f"level={level}: {name} has the levels 0 to {len(levels) - 1}")
    return level


# Imaris


def _imaris(file: Any, name: str, level: int | None) -> Array | None:
    levels = _numbered(got(file, "DataSet"), r"ResolutionLevel (\d+)")
    if not levels or got(file, "DataSetInfo") is None:
        return None
    level = _level_of(level, levels, name)
    root = f"/DataSet/ResolutionLevel {level}"
    points = _numbered(got(file, root), r"TimePoint (\d+)")
    channels = (
        _numbered(got(file, f"{root}/TimePoint {points[0]}"), r"Channel (\d+)") if points else []
    )
    if not channels:
        return None
    paths = Paths(
        (f"{root}/TimePoint ", "/Channel ", "/Data"),
        (tuple(map(str, points)), tuple(map(str, channels))),
    )
    found = _imaris_part(file, present(file, paths[0], name), level, channels[0])
    names = [text_of(got(file, f"DataSetInfo/Channel {c}"), "Name") or str(c) for c in channels]
    return replace(found, paths=paths, dataset_axes=("t", "c"), channels=tuple(names))


def _imaris_part(file: Any, node: Any, level: int, channel: int) -> Array:
    """Describe a dataset, which is padded to whole chunks."""
    z, y, x = node.shape if len(node.shape) == 3 else (0, 0, 0)
    array = Array(node, axes=AXES)
    if not z:
        return replace(array, axes=None)
    stated = [number_of(node.parent, f"ImageSize{a}") for a in "ZYX"]
    if all(
        n is not None and 0 < n <= m and n == int(n) for n, m in zip(stated, (z, y, x), strict=True)
    ):
        array = replace(array, sizes=tuple(int(n or 0) for n in stated))
    sizes = array.sizes or (z, y, x)
    image = got(file, "DataSetInfo/Image")
    lower = [number_of(image, f"ExtMin{k}") for k in (2, 1, 0)]
    upper = [number_of(image, f"ExtMax{k}") for k in (2, 1, 0)]
    if None in lower or None in upper:
        return array
    size = [((u or 0) - (m or 0)) / n for u, m, n in zip(upper, lower, sizes, strict=True)]
    if not is_positive(size):
        return array
    try:
        unit = unit_name(text_of(image, "Unit") or "um")
    except ValueError:
        unit = None
    first = [(m or 0.0) + s / 2 for m, s in zip(lower, size, strict=True)]
    return replace(
        array,
        voxel_size=(size[0], size[1], size[2]),
        origin=(first[0], first[1], first[2]),
        unit=unit,
    )


# BigDataViewer


def _viewer(file: Any, name: str, level: int | None) -> Array | None:
    setups, points = _numbered(file, r"s(\d{2,})"), _numbered(file, r"t(\d{5,})")
    if not setups or not points or got(file, f"s{setups[0]:02d}/resolutions") is None:
        return None
    first = got(file, f"t{points[0]:05d}/s{setups[0]:02d}")
    level = _level_of(level, _numbered(first, r"(\d+)"), name)
    paths = Paths(
        ("/t", "/s", f"/{level}/cells"),
        (tuple(f"{t:05d}" for t in points), tuple(f"{s:02d}" for s in setups)),
    )
    shapes = {getattr(got(file, paths[k]), "shape", None) for k in range(len(setups))}
    if len(shapes) > 1:
        shown = ", ".join(paths[k] for k in range(min(5, len(setups))))
        raise ValueError(
            f"{name} has setups of several shapes; choose one by dataset=, one of {shown}"
        )
    found = _viewer_part(file, present(file, paths[0], name), setups[0], level)
    return replace(found, paths=paths, dataset_axes=("t", "c"))


def _viewer_part(file: Any, node: Any, setup: int, level: int) -> Array:
    """Describe a dataset; integers have the sign of the setup, by default unsigned."""
    array = Array(node, dtype=_viewer_dtype(node, text_of(got(file, f"s{setup:02d}"), "dataType")))
    if len(node.shape) != 3:
        return array
    array = replace(array, axes=AXES)
    table = got(file, f"s{setup:02d}/resolutions")
    factor = [1.0, 1.0, 1.0]
    if (
        is_dataset(table)
        and len(table.shape) == 2
        and level < table.shape[0] <= 64
        and table.shape[1] == 3
    ):
        stated = floats_of(table[level])
        if stated is not None and is_positive(stated):
            factor = stated[::-1]
    size, unit = _viewer_voxel(file.filename, setup)
    if size is None:
        return array
    z, y, x = (s * f for s, f in zip(size, factor, strict=True))
    first = [s * (f - 1) / 2 for s, f in zip(size, factor, strict=True)]
    return replace(array, voxel_size=(z, y, x), origin=(first[0], first[1], first[2]), unit=unit)


def _viewer_dtype(node: Any, stated: str) -> str | None:
    """Return the intended integer dtype if it is not the stored one: Java has no unsigned."""
    stored = dtype_of(node)
    if stored is None or stored.kind not in "iu":
        return None
    if not stated:
        return "uint16" if stored == np.int16 else None
    sizes = {f"{sign}int{8 * stored.itemsize}" for sign in ("", "u")}
    return stated if stated in sizes and stated != stored.name else None


def _viewer_voxel(path: str, setup: int) -> tuple[list[float] | None, str | None]:
    """Return voxel size z, y, x and unit from the XML with the name of the file."""
    xml = os.path.splitext(path)[0] + ".xml"
    try:
        if os.path.getsize(xml) > _XML_BYTES:
            return None, None
        root = parsed_xml(Path(xml).read_bytes())
        for found in root.iter("ViewSetup"):
            if (found.findtext("id") or "").strip() != str(setup):
                continue
            size = floats_of((found.findtext("voxelSize/size") or "").split())
            if size is None or len(size) != 3 or not is_positive(size):
                return None, None
            try:
                unit = unit_name(found.findtext("voxelSize/unit"))
            except ValueError:
                unit = None
            return size[::-1], unit
    except (OSError, ElementTree.ParseError, ValueError):
        pass
    return None, None


# MINC


def _minc(file: Any, name: str, level: int | None) -> Array | None:
    levels = _numbered(got(file, "minc-2.0/image"), r"(\d+)")
    if not levels:
        return None
    level = _level_of(level, levels, name)
    return _minc_image(file, present(file, f"/minc-2.0/image/{level}/image", name))


def _minc_image(file: Any, node: Any) -> Array:
    order = [n.strip() for n in text_of(node, "dimorder").split(",")]
    short = {"zspace": "z", "yspace": "y", "xspace": "x", "time": "t", "vector_dimension": "c"}
    axes = tuple(short.get(n, "") for n in order)
    if len(axes) != len(node.shape) or "" in axes or len(set(axes)) != len(axes):
        axes = ()
    array = Array(node, axes=axes or None, scaling=_minc_scaling(node))
    size, first, back, units = [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [False] * 3, ["mm"] * 3
    for k, axis in enumerate(AXES):
        dimension = got(file, f"minc-2.0/dimensions/{axis}space")
        if dimension is None:
            return array
        step, start = number_of(dimension, "step"), number_of(dimension, "start")
        if not step:
            return array
        size[k], back[k] = abs(step), step < 0
        first[k] = 0.0 if start is None else start
        units[k] = text_of(dimension, "units").strip() or "mm"
    unit, (lengths, at) = converted(units, size, first)
    if lengths is None or at is None:
        return array
    return replace(
        array,
        voxel_size=(lengths[0], lengths[1], lengths[2]),
        origin=(at[0], at[1], at[2]),
        back=(back[0], back[1], back[2]),
        unit=unit,
    )


def _minc_scaling(node: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return slope and intercept of stored integers; None if they are 1 and 0."""
    dtype = dtype_of(node)
    if dtype is None or dtype.kind not in "iu":
        return None
    lower, upper = (got(node.parent, f"image-{end}") for end in ("min", "max"))
    if not is_dataset(lower) or not is_dataset(upper):
        return None
    shape = tuple(lower.shape or ())
    if (
        tuple(upper.shape or ()) != shape
        or node.shape[: len(shape)] != shape
        or math.prod(shape) > 1 << 24
    ):
        raise VolumeError(
            f"the image of this MINC file is {node.shape}, but its image-min {shape}, which must be equal "
            "along the first axes; restore it"
        )
    low, high = np.asarray(lower[()], np.float64), np.asarray(upper[()], np.float64)
    valid = floats_of(attribute(node, "valid_range"))
    if valid is None or len(valid) != 2 or valid[0] == valid[1]:
        info = np.iinfo(dtype)
        valid = [float(info.min), float(info.max)]
    slope = (high - low) / (max(valid) - min(valid))
    intercept = low - slope * min(valid)
    if np.all(slope == 1) and np.all(intercept == 0):
        return None
    return slope, intercept
