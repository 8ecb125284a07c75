"""Attributes of an HDF5 file's objects, read with care: what is not as it should be counts as not said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.base.space import AXES
from beam_volumes.storage.sources.axes import converted

#: Attributes of more values say nothing of axes and voxels.
_VALUES = 4096

#: All attributes that are read.
ATTRIBUTES = (
    *("axes", "axistags", "DIMENSION_LABELS", "channels", "bool", "unit", "units"),
    *("voxel_size", "element_size_um", "resolution", "origin", "offset"),
    *("Name", "Unit", "ImageSizeX", "ImageSizeY", "ImageSizeZ"),
    *(f"Ext{end}{k}" for end in ("Min", "Max") for k in range(3)),
    *("dimorder", "valid_range", "start", "step"),
)


def attribute(node: Any, name: str) -> Any:
    """An attribute as numpy gives it; None if it is not there, is large, or cannot be read."""
    try:
        if name not in node.attrs:
            return None
        shape = node.attrs.get_id(name).shape
        if shape is None or math.prod(shape) > _VALUES:
            return None
        return node.attrs[name]
    except Exception:
        return None


def texts_of(value: Any) -> list[str]:
    found = []
    for item in np.asarray(value, object).reshape(-1):
        found.append(item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item))
    return [text.rstrip("\x00") for text in found]


def text_of(node: Any, name: str) -> str:
    """An attribute as one text: Imaris stores each letter by itself."""
    value = attribute(node, name)
    return "" if value is None else "".join(texts_of(value))


def floats_of(value: Any) -> list[float] | None:
    if value is None:
        return None
    try:
        found = [float(v) for v in np.asarray(value).reshape(-1)]
    except (TypeError, ValueError):
        return None
    return found if found and all(map(math.isfinite, found)) else None


def number_of(node: Any, name: str) -> float | None:
    """One number, which may be written out."""
    value = attribute(node, name)
    if value is None:
        return None
    found = floats_of(value)
    if found is None or len(found) != 1:
        found = floats_of(["".join(texts_of(value))])
    return None if found is None else found[0]


def spatial(node: Any, name: str, axes: Sequence[str]) -> tuple[float, float, float] | None:
    """An attribute for each of z, y, x, in the order of a dataset's dimensions; 1 for those that it lacks."""
    found = floats_of(attribute(node, name))
    if found is None:
        return None
    spatial = [a for a in axes if a in AXES]
    if len(found) == len(axes):
        said = dict(zip(axes, found, strict=True))
    elif len(found) == len(spatial):
        said = dict(zip(spatial, found, strict=True))
    elif len(found) == 3 and spatial == ["y", "x"]:
        said = {"z": found[0], "y": found[1], "x": found[2]}
    else:
        return None
    default = 0.0 if name in ("origin", "offset") else 1.0
    z, y, x = (said.get(a, default) for a in AXES)
    return (z, y, x)


def is_positive(size: Sequence[float]) -> bool:
    return all(s > 0 for s in size)


def in_unit(
    node: Any, axes: Sequence[str], default: str | None, *lengths: tuple[float, float, float] | None
) -> tuple[str | None, list[tuple[float, float, float] | None]]:
    """Lengths along z, y, x in the unit that attributes say, or in each axis' own; see `axes.converted`."""
    told: list[str] = []
    for name in ("unit", "units"):
        value = attribute(node, name) if not told else None
        told = [text.strip() for text in texts_of(value)] if value is not None else told
    spatial = [a for a in axes if a in AXES]
    if len(told) == len(axes):
        by_axis = dict(zip(axes, told, strict=True))
    elif len(told) == len(spatial):
        by_axis = dict(zip(spatial, told, strict=True))
    elif len(set(told)) <= 1:
        by_axis = dict.fromkeys(spatial, told[0] if told else default or "")
    else:
        return None, [None] * len(lengths)
    # An axis that the user does not see is as any other.
    shown = next((by_axis[a] for a in spatial), None)
    unit, found = converted([by_axis.get(a, shown) for a in AXES], *lengths)
    triples: list[tuple[float, float, float] | None] = []
    for values in found:
        triples.append(None if values is None else (values[0], values[1], values[2]))
    return unit, triples
