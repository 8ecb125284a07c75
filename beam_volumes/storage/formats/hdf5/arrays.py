"""Arrays of an HDF5 file: objects with voxels, and their attributes.

Attributes are untrusted: invalid ones count as missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.base.space import AXES
from beam_volumes.storage.formats.hdf5.files import check_links
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.outside import OutsideError
from beam_volumes.storage.sources.axes import converted
from beam_volumes.storage.sources.source import DTYPES


@dataclass(frozen=True)
class Paths:
    """Paths of datasets that only differ in numbers.

    >>> paths = Paths(("/t", "/s", "/cells"), (("00", "01"), ("0", "1", "2")))
    >>> len(paths), paths[4], paths.taken({0: 1})[2]
    (6, '/t01/s1/cells', '/t01/s2/cells')
    """

    texts: tuple[str, ...]  #: The texts before, between and after the numbers
    #: The numbers along each axis, the slowest first
    numbers: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return math.prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.numbers))

    def __getitem__(self, which: int) -> str:
        at = np.unravel_index(which, self.sizes) if self.numbers else ()
        chosen = [n[int(k)] for n, k in zip(self.numbers, at, strict=True)]
        return self.texts[0] + "".join(n + t for n, t in zip(chosen, self.texts[1:], strict=True))

    def taken(self, fixed: Mapping[int, int]) -> Paths:
        """Return the datasets at a fixed position along some axes."""
        texts, numbers = [self.texts[0]], []
        for axis, (all_of_them, text) in enumerate(zip(self.numbers, self.texts[1:], strict=True)):
            if axis in fixed:
                texts[-1] += all_of_them[fixed[axis]] + text
            else:
                numbers.append(all_of_them)
                texts.append(text)
        return Paths(tuple(texts), tuple(numbers))


@dataclass(frozen=True)
class Array:
    """The description of an array in a file."""

    node: Any  #: The dataset, or the first of several
    #: The paths of all, if time points and channels are separate datasets
    paths: Paths | None = None
    #: The axes along which the datasets are joined, the slowest first
    dataset_axes: tuple[str, ...] = ()
    axes: tuple[str, ...] | None = None  #: Names of a dataset's dimensions
    #: Extents of a dataset's dimensions, if it is padded
    sizes: tuple[int, ...] | None = None
    #: Of z, y, x
    voxel_size: tuple[float, float, float] | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    #: The reversed axes of z, y, x
    back: tuple[bool, bool, bool] = (False, False, False)
    unit: str | None = None
    channels: tuple[str, ...] = ()
    dtype: str | None = None  #: The intended dtype, if not the stored one
    is_mask: bool = False
    #: Slope and intercept of ``stored * slope + intercept``: arrays of the dataset's first
    #: dimensions
    scaling: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)


def is_volume(node: Any) -> bool:
    """Whether an object is a dataset of voxels."""
    return is_dataset(node) and 2 <= len(node.shape or ()) <= 5 and dtype_of(node) is not None


def dtype_of(dataset: Any) -> np.dtype | None:
    try:
        dtype = np.dtype(dataset.dtype)
    except Exception:  # h5py knows no dtype for it
        return None
    native = np.dtype(dtype.str).newbyteorder("=") if dtype.kind in "buif" else dtype
    return native if native in DTYPES else None


def is_dataset(node: Any) -> bool:
    return hasattr(node, "chunks") and hasattr(node, "fillvalue")


def got(group: Any, path: str, check: bool = True) -> Any:
    """Return the object at a path of an open file, or None; a file in another folder is refused."""
    try:
        if check:
            check_links(group, path)
        return group.get(path)
    except OutsideError:
        raise
    except Exception:  # a link to nowhere, or a damaged object
        return None


def present(file: Any, path: str, name: str) -> Any:
    node = got(file, path)
    if not is_volume(node):
        raise VolumeError(f"{name} is damaged: there are no voxels at {path}; restore it")
    return node


#: Maximal number of values of an attribute.
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
    """Return an attribute; None if it is missing, large, or unreadable."""
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
    """Return an attribute as one text: Imaris stores each letter separately."""
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
    """Return a number, which may be stored as a text."""
    value = attribute(node, name)
    if value is None:
        return None
    found = floats_of(value)
    if found is None or len(found) != 1:
        found = floats_of(["".join(texts_of(value))])
    return None if found is None else found[0]


def spatial(node: Any, name: str, axes: Sequence[str]) -> tuple[float, float, float] | None:
    """Return an attribute for z, y, x, given in the order of dimensions; missing ones are 1."""
    found = floats_of(attribute(node, name))
    if found is None:
        return None
    spatial = [a for a in axes if a in AXES]
    if len(found) == len(axes):
        stated = dict(zip(axes, found, strict=True))
    elif len(found) == len(spatial):
        stated = dict(zip(spatial, found, strict=True))
    elif len(found) == 3 and spatial == ["y", "x"]:
        stated = {"z": found[0], "y": found[1], "x": found[2]}
    else:
        return None
    default = 0.0 if name in ("origin", "offset") else 1.0
    z, y, x = (stated.get(a, default) for a in AXES)
    return (z, y, x)


def is_positive(size: Sequence[float]) -> bool:
    return all(s > 0 for s in size)


def in_unit(
    node: Any, axes: Sequence[str], default: str | None, *lengths: tuple[float, float, float] | None
) -> tuple[str | None, list[tuple[float, float, float] | None]]:
    """Convert lengths along z, y, x to one unit, given by attributes; see `axes.converted`."""
    stated: list[str] = []
    for name in ("unit", "units"):
        value = attribute(node, name) if not stated else None
        stated = [text.strip() for text in texts_of(value)] if value is not None else stated
    spatial = [a for a in axes if a in AXES]
    if len(stated) == len(axes):
        by_axis = dict(zip(axes, stated, strict=True))
    elif len(stated) == len(spatial):
        by_axis = dict(zip(spatial, stated, strict=True))
    elif len(set(stated)) <= 1:
        by_axis = dict.fromkeys(spatial, stated[0] if stated else default or "")
    else:
        return None, [None] * len(lengths)
    # A hidden axis has the unit of a visible one.
    shown = next((by_axis[a] for a in spatial), None)
    unit, found = converted([by_axis.get(a, shown) for a in AXES], *lengths)
    triples: list[tuple[float, float, float] | None] = []
    for values in found:
        triples.append(None if values is None else (values[0], values[1], values[2]))
    return unit, triples
