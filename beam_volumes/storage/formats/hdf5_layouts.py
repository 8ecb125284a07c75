"""Which array of an HDF5 file is meant, and what its axes, voxels and levels are.

Programs put volumes at places of their own into these files, and say what they are in words of their own.
A file is any file: what is not as its program writes it counts as not said.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from xml.etree import ElementTree

import numpy as np

from beam_volumes.space import AXES
from beam_volumes.storage.axes import DEFAULT_AXES, unit_name
from beam_volumes.storage.errors import VolumeError
from beam_volumes.storage.formats.format import Listing
from beam_volumes.storage.source import DTYPES
from beam_volumes.text import printable

#: Objects of a file that are looked at to find its volumes, and how many are listed.
_LOOKED_AT, _LISTED = 20_000, 30
#: Attributes of more values say nothing of axes and voxels.
_VALUES = 4096
#: Levels of a pyramid that are listed.
_LEVELS = 32
#: Of a BigDataViewer's XML.
_XML_BYTES = 16 << 20

#: All attributes that are read.
ATTRIBUTES = (
    *("axes", "axistags", "DIMENSION_LABELS", "channels", "bool", "unit", "units"),
    *("voxel_size", "element_size_um", "resolution", "origin", "offset"),
    *("Name", "Unit", "ImageSizeX", "ImageSizeY", "ImageSizeZ"),
    *(f"Ext{end}{k}" for end in ("Min", "Max") for k in range(3)),
    *("dimorder", "valid_range", "start", "step"),
)

_IMARIS = re.compile(r"/DataSet/ResolutionLevel (\d+)/TimePoint (\d+)/Channel (\d+)/Data")
_VIEWER = re.compile(r"/t(\d{5,})/s(\d{2,})/(\d+)/cells")
_LEVEL = re.compile(r"s\d+")


@dataclass(frozen=True)
class Paths:
    """The paths of datasets that lie side by side, which differ in numbers alone.

    Attributes
    ----------
    texts : tuple of str
        What is before, between and behind the numbers.
    numbers : tuple of tuple of str
        For each axis along which they lie, the slowest first.

    Examples
    --------
    >>> paths = Paths(("/t", "/s", "/cells"), (("00", "01"), ("0", "1", "2")))
    >>> len(paths), paths[4], paths.taken({0: 1})[2]
    (6, '/t01/s1/cells', '/t01/s2/cells')
    """

    texts: tuple[str, ...]
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
        """Those at one place along some of the axes."""
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
    """What a file says of an array.

    Attributes
    ----------
    node : h5py.Dataset
        It, or the first one of several.
    paths : Paths or None
        Those of all, where points and channels have each their own.
    apart : tuple of str
        The axes along which they lie, the slowest first.
    axes : tuple of str or None
        Names of a dataset's dimensions.
    sizes : tuple of int or None
        Of a dataset's dimensions, where it is larger than what it holds.
    voxel_size, origin : tuple of float or None
        For each of z, y, x.
    unit : str or None
    channels : tuple of str
    dtype : str or None
        As which voxels are meant, where that is not what the file says.
    is_mask : bool
    scaling : tuple or None
        Voxels are ``stored * slope + intercept``: arrays, whose dimensions are the first ones of the dataset.
    """

    node: Any
    paths: Paths | None = None
    apart: tuple[str, ...] = ()
    axes: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    voxel_size: tuple[float, float, float] | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    unit: str | None = None
    channels: tuple[str, ...] = ()
    dtype: str | None = None
    is_mask: bool = False
    scaling: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)


def find(file: Any, name: str, dataset: str | None, level: int | None) -> Array:
    """The array that is meant of an open file.

    Raises
    ------
    ValueError
        There is none of that name or level, or several to choose from.
    """
    if dataset is None:
        for known in (_imaris, _viewer, _minc):
            found = known(file, name, level)
            if found is not None:
                return found
        return _in_group(file, file, name, level)
    node = got(file, dataset)
    if node is None:
        raise ValueError(
            f"dataset={dataset!r}: there is none of that name in {_listing(file, name)}"
        )
    if not _is_dataset(node):
        return _in_group(file, node, name, level)
    if level is not None:
        raise ValueError(
            f"level={level}: {name}:{printable(node.name)} is one array; give the group of its levels, "
            "or leave level= out"
        )
    return _dataset(file, node, name)


def listing(file: Any, name: str, dataset: str | None) -> Listing | None:
    """What there is to choose from in an open file or in a group of it; None of a dataset."""
    group = file if dataset is None else got(file, dataset)
    if group is None or _is_dataset(group):
        return None
    try:
        find(file, name, dataset, None)
    except ValueError:
        found, is_all = _volumes(group)
        names = tuple(str(n.name) for n in found)
        return Listing(names, is_volume=False, is_all=is_all, what="an HDF5 file")
    levels: list[str] = []
    for level in range(_LEVELS):
        try:
            levels.append(str(find(file, name, dataset, level).node.name))
        except ValueError:  # there is none, or one alone
            break
    return Listing(levels=tuple(levels) if len(levels) > 1 else ())


def is_volume(node: Any) -> bool:
    """Whether something is a dataset of voxels."""
    return _is_dataset(node) and 2 <= len(node.shape or ()) <= 5 and dtype_of(node) is not None


def dtype_of(dataset: Any) -> np.dtype | None:
    """The dtype of voxels; None if they are nothing that is read."""
    try:
        dtype = np.dtype(dataset.dtype)
    except Exception:  # h5py knows no dtype for it
        return None
    native = np.dtype(dtype.str).newbyteorder("=") if dtype.kind in "buif" else dtype
    return native if native in DTYPES else None


def _is_dataset(node: Any) -> bool:
    return hasattr(node, "chunks") and hasattr(node, "fillvalue")


def got(group: Any, path: str) -> Any:
    try:
        return group.get(path)
    except Exception:  # a link to nowhere, or a damaged object
        return None


# any file


def _volumes(group: Any) -> tuple[list[Any], bool]:
    """The datasets of voxels in a group, and whether all of it was looked at.

    Each object counts once, however many links lead to it; links out of the file and soft ones are not
    followed. (h5py's own ``visititems`` crashes on some damaged files.)
    """
    found: list[Any] = []
    seen: set[Any] = set()
    groups = [group]
    looked_at = 0
    while groups:
        inside = groups.pop(0)
        try:
            names = list(islice(inside, _LOOKED_AT - looked_at + 1))
        except Exception:  # a damaged one
            continue
        for name in names:
            looked_at += 1
            if looked_at > _LOOKED_AT:
                return found, False
            try:
                if type(inside.get(name, getlink=True)).__name__ != "HardLink":
                    continue
            except Exception:
                continue
            node = got(inside, name)
            if node is None or (key := _address(node)) in seen:
                continue
            seen.add(key)
            if is_volume(node):
                found.append(node)
            elif hasattr(node, "keys") and not _is_dataset(node):
                groups.append(node)
    return sorted(found, key=lambda node: node.name), True


def _address(node: Any) -> Any:
    """What tells an object of a file from others."""
    return hash(node.id)  # h5py takes it of the file's number and the object's address


def _in_group(file: Any, group: Any, name: str, level: int | None) -> Array:
    """The one volume of a group, or the level that is meant of one."""
    found, _ = _volumes(group)
    levels = _levels(group, found)
    if levels:
        level = 0 if level is None else level
        if not 0 <= level < len(levels):
            where = f"{name}:{printable(group.name)}"
            raise ValueError(f"level={level}: {where} has the levels 0 to {len(levels) - 1}")
        return _of_level(file, levels, level, name)
    if level is not None:
        raise ValueError(f"level={level}: there are no levels in {_listing(group, name)}")
    deep = [node for node in found if len(node.shape) > 2]
    chosen = deep or found
    if len(chosen) != 1:
        raise ValueError(f"choose an array by dataset=: {_listing(group, name)}")
    return _dataset(file, chosen[0], name)


def _listing(group: Any, name: str) -> str:
    """A file or a group of it, and the volumes inside."""
    where = name if group.name == "/" else f"{name}:{printable(group.name)}"
    found, is_all = _volumes(group)
    shown = ", ".join(
        f"{printable(node.name)} ({' x '.join(map(str, node.shape))} {dtype_of(node)})"
        for node in found[:_LISTED]
    )
    if len(found) > _LISTED:
        shown += f" and {len(found) - _LISTED} more"
    if not is_all:
        shown += f" (of its first {_LOOKED_AT:,} objects)"
    return f"{where}, which holds {shown or 'no dataset of voxels with 2 to 5 dimensions'}"


def _levels(group: Any, found: Sequence[Any]) -> list[Any]:
    """The datasets ``s0``, ``s1``, ... if all volumes of a group are these; else none."""
    parents = {node.name.rpartition("/")[0] for node in found}
    names = sorted((node.name.rpartition("/")[2] for node in found), key=lambda n: (len(n), n))
    if len(parents) != 1 or names != [f"s{k}" for k in range(len(names))] or len(names) < 2:
        return []
    by_name = {node.name.rpartition("/")[2]: node for node in found}
    if len({len(node.shape) for node in found}) > 1:
        return []
    return [by_name[n] for n in names]


def _of_level(file: Any, levels: Sequence[Any], level: int, name: str) -> Array:
    """A level, with voxels that are as much larger as it has fewer of them, unless it says more."""
    array = _dataset(file, levels[level], name)
    finest = _dataset(file, levels[0], name)
    if array.voxel_size is not None or finest.voxel_size is None or level == 0:
        return array
    axes = array.axes or tuple(DEFAULT_AXES[len(levels[0].shape)])
    factor = {
        a: max(1.0, float(round(n / max(1, m))))
        for a, n, m in zip(axes, levels[0].shape, levels[level].shape, strict=True)
    }
    by = [factor.get(a, 1.0) for a in AXES]
    z, y, x = (s * f for s, f in zip(finest.voxel_size, by, strict=True))
    first = [
        o + s * (f - 1) / 2 for o, s, f in zip(finest.origin, finest.voxel_size, by, strict=True)
    ]
    return replace(
        array, voxel_size=(z, y, x), origin=(first[0], first[1], first[2]), unit=finest.unit
    )


def _dataset(file: Any, node: Any, name: str) -> Array:
    """A dataset by its own attributes, unless its place says whose it is."""
    if dtype_of(node) is None:
        known = ", ".join(d.name for d in DTYPES)
        raise ValueError(
            f"{name}:{printable(node.name)} holds {_type_of(node)}; voxels are one of {known}"
        )
    imaris, viewer = _IMARIS.fullmatch(node.name), _VIEWER.fullmatch(node.name)
    if imaris:
        return _imaris_part(file, node, int(imaris[1]), int(imaris[3]))
    if viewer:
        return _viewer_part(file, node, int(viewer[2]), int(viewer[3]))
    if re.fullmatch(r"/minc-2.0/image/\d+/image", node.name):
        return _minc_image(file, node)
    axes = _axes(node)
    names = axes or tuple(DEFAULT_AXES.get(len(node.shape), ()))
    said = _attribute(node, "channels")
    channels = () if said is None else tuple(_texts(said))
    array = Array(node, axes=axes, channels=channels, is_mask=_number(node, "bool") == 1)
    size = _spatial(node, "voxel_size", names)
    if size is not None and _positive(size):  # as we write it, and others
        unit = _unit(node)
        first = _spatial(node, "origin", names) or _spatial(node, "offset", names)
        return replace(array, voxel_size=size, origin=first or (0.0, 0.0, 0.0), unit=unit)
    size = _spatial(node, "element_size_um", names)
    if size is not None and _positive(size):
        return replace(array, voxel_size=size, unit="micrometer")
    size = _spatial(node, "resolution", names)
    if size is not None and _positive(size):
        first = _spatial(node, "offset", names) or (0.0, 0.0, 0.0)
        unit = _unit(node) or "nanometer"  # CREMI's
        return replace(array, voxel_size=size, origin=first, unit=unit)
    first = _spatial(node, "origin", names)
    return array if first is None else replace(array, origin=first, unit=_unit(node))


def _type_of(node: Any) -> str:
    try:
        return str(node.dtype)
    except Exception:
        return "what h5py does not know"


def _axes(node: Any) -> tuple[str, ...] | None:
    """Names of a dataset's dimensions, where it says them and they are those of a volume."""
    for names in _names(node):
        short = tuple(
            {"channel": "c", "channels": "c", "time": "t"}.get(n.lower(), n.lower()) for n in names
        )
        if (
            len(short) == len(node.shape) == len(set(short))
            and set(short) <= set("tczyx")
            and {"y", "x"} <= set(short)
        ):
            return short
    return None


def _names(node: Any) -> Iterator[Sequence[str]]:
    said = _attribute(node, "axes")
    if said is not None:
        texts = _texts(said)
        yield list(texts[0]) if len(texts) == 1 else texts
    said = _attribute(node, "axistags")  # vigra's, of ilastik
    if said is not None:
        try:
            tags = json.loads("".join(_texts(said)))["axes"]
            yield [str(tag["key"]) for tag in tags]
        except (ValueError, KeyError, TypeError):
            pass
    said = _attribute(node, "DIMENSION_LABELS")
    if said is not None:
        yield _texts(said)
    try:
        yield [next(iter(node.dims[d].keys()), "") for d in range(len(node.shape))]
    except Exception:
        return


# attributes


def _attribute(node: Any, name: str) -> Any:
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


def _texts(value: Any) -> list[str]:
    """An attribute as texts."""
    found = []
    for item in np.asarray(value, object).reshape(-1):
        found.append(item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item))
    return [text.rstrip("\x00") for text in found]


def _text(node: Any, name: str) -> str:
    """An attribute as one text: Imaris stores each letter by itself."""
    value = _attribute(node, name)
    return "" if value is None else "".join(_texts(value))


def _floats(value: Any) -> list[float] | None:
    """Finite numbers; None if they are not that."""
    if value is None:
        return None
    try:
        found = [float(v) for v in np.asarray(value).reshape(-1)]
    except (TypeError, ValueError):
        return None
    return found if found and all(map(math.isfinite, found)) else None


def _number(node: Any, name: str) -> float | None:
    """One number, which may be written out."""
    value = _attribute(node, name)
    if value is None:
        return None
    found = _floats(value)
    if found is None or len(found) != 1:
        found = _floats(["".join(_texts(value))])
    return None if found is None else found[0]


def _spatial(node: Any, name: str, axes: Sequence[str]) -> tuple[float, float, float] | None:
    """An attribute for each of z, y, x, in the order of a dataset's dimensions; 1 for those that it lacks."""
    found = _floats(_attribute(node, name))
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


def _positive(size: Sequence[float]) -> bool:
    return all(s > 0 for s in size)


def _unit(node: Any) -> str | None:
    for name in ("unit", "units"):
        value = _attribute(node, name)
        units = {text.strip() for text in _texts(value)} if value is not None else set()
        if len(units) == 1:
            try:
                return unit_name(units.pop())
            except ValueError:
                return None
    return None


def _numbered(group: Any, pattern: str) -> list[int]:
    """The numbers of the objects of a group whose names match, sorted."""
    if group is None or _is_dataset(group):
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
    names = [_text(got(file, f"DataSetInfo/Channel {c}"), "Name") or str(c) for c in channels]
    return replace(
        found,
        paths=paths,
        apart=("t", "c"),
        channels=tuple(names),
    )


def present(file: Any, path: str, name: str) -> Any:
    node = got(file, path)
    if not is_volume(node):
        raise VolumeError(f"{name} is damaged: there are no voxels at {path}; restore it")
    return node


def _imaris_part(file: Any, node: Any, level: int, channel: int) -> Array:
    """One of its datasets, which is padded to whole chunks."""
    z, y, x = node.shape if len(node.shape) == 3 else (0, 0, 0)
    array = Array(node, axes=AXES)
    if not z:
        return replace(array, axes=None)
    told = [_number(node.parent, f"ImageSize{a}") for a in "ZYX"]
    if all(
        n is not None and 0 < n <= m and n == int(n) for n, m in zip(told, (z, y, x), strict=True)
    ):
        array = replace(array, sizes=tuple(int(n or 0) for n in told))
    sizes = array.sizes or (z, y, x)
    image = got(file, "DataSetInfo/Image")
    lower = [_number(image, f"ExtMin{k}") for k in (2, 1, 0)]
    upper = [_number(image, f"ExtMax{k}") for k in (2, 1, 0)]
    if None in lower or None in upper:
        return array
    size = [((u or 0) - (m or 0)) / n for u, m, n in zip(upper, lower, sizes, strict=True)]
    if not _positive(size):
        return array
    try:
        unit = unit_name(_text(image, "Unit") or "um")
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
            f"{name} holds setups of several shapes: choose one by dataset=, one of {shown}"
        )
    found = _viewer_part(file, present(file, paths[0], name), setups[0], level)
    return replace(found, paths=paths, apart=("t", "c"))


def _viewer_part(file: Any, node: Any, setup: int, level: int) -> Array:
    """One of its datasets, whose voxels are unsigned, whatever the file says."""
    signed = dtype_of(node) == np.int16
    array = Array(node, dtype="uint16" if signed else None)
    if len(node.shape) != 3:
        return array
    array = replace(array, axes=AXES)
    table = got(file, f"s{setup:02d}/resolutions")
    factor = [1.0, 1.0, 1.0]
    if (
        _is_dataset(table)
        and len(table.shape) == 2
        and level < table.shape[0] <= 64
        and table.shape[1] == 3
    ):
        told = _floats(table[level])
        if told is not None and _positive(told):
            factor = told[::-1]
    size, unit = _viewer_voxel(file.filename, setup)
    if size is None:
        return array
    z, y, x = (s * f for s, f in zip(size, factor, strict=True))
    first = [s * (f - 1) / 2 for s, f in zip(size, factor, strict=True)]
    return replace(array, voxel_size=(z, y, x), origin=(first[0], first[1], first[2]), unit=unit)


def _viewer_voxel(path: str, setup: int) -> tuple[list[float] | None, str | None]:
    """Voxel size z, y, x and unit, of the XML beside the file."""
    beside = os.path.splitext(path)[0] + ".xml"
    try:
        if os.path.getsize(beside) > _XML_BYTES:
            return None, None
        root = ElementTree.parse(beside).getroot()
        for found in root.iter("ViewSetup"):
            if (found.findtext("id") or "").strip() != str(setup):
                continue
            size = _floats((found.findtext("voxelSize/size") or "").split())
            if size is None or len(size) != 3 or not _positive(size):
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
    order = [n.strip() for n in _text(node, "dimorder").split(",")]
    short = {"zspace": "z", "yspace": "y", "xspace": "x", "time": "t", "vector_dimension": "c"}
    axes = tuple(short.get(n, "") for n in order)
    if len(axes) != len(node.shape) or "" in axes or len(set(axes)) != len(axes):
        axes = ()
    array = Array(node, axes=axes or None, scaling=_minc_scaling(node))
    size, first = [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]
    for k, axis in enumerate(AXES):
        dimension = got(file, f"minc-2.0/dimensions/{axis}space")
        if dimension is None:
            return array
        step, start = _number(dimension, "step"), _number(dimension, "start")
        if not step:
            return array
        size[k] = abs(step)
        # Along an axis that runs backwards no origin goes with a positive voxel size.
        first[k] = start if start is not None and step > 0 else 0.0
    return replace(
        array,
        voxel_size=(size[0], size[1], size[2]),
        origin=(first[0], first[1], first[2]),
        unit="millimeter",
    )


def _minc_scaling(node: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """What makes real values of stored integers; None where they are the same."""
    dtype = dtype_of(node)
    if dtype is None or dtype.kind not in "iu":
        return None
    lower, upper = (got(node.parent, f"image-{end}") for end in ("min", "max"))
    if not _is_dataset(lower) or not _is_dataset(upper):
        return None
    shape = tuple(lower.shape or ())
    if (
        tuple(upper.shape or ()) != shape
        or node.shape[: len(shape)] != shape
        or math.prod(shape) > 1 << 24
    ):
        raise VolumeError(
            f"the image of this MINC file is {node.shape}, its image-min {shape}: they should be "
            "alike along the first axes; restore it"
        )
    low, high = np.asarray(lower[()], np.float64), np.asarray(upper[()], np.float64)
    valid = _floats(_attribute(node, "valid_range"))
    if valid is None or len(valid) != 2 or valid[0] == valid[1]:
        info = np.iinfo(dtype)
        valid = [float(info.min), float(info.max)]
    slope = (high - low) / (max(valid) - min(valid))
    intercept = low - slope * min(valid)
    if np.all(slope == 1) and np.all(intercept == 0):
        return None
    return slope, intercept
