"""NRRD: a header of text lines, followed by voxels or naming another file.

Dimensions are listed with the fastest first. Positions are in the file's own space, regardless
of the directions of its axes. The header is parsed here: pynrrd would be another dependency, and reads
whole files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np

from beam_volumes.base.space import times
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.format import OpenRequest, Options
from beam_volumes.storage.formats.headered.header import (
    MASK,
    Headered,
    Voxels,
    data_file,
    placement_of,
    start_of,
    voxel_size_of,
)
from beam_volumes.storage.places.errors import VolumeError, bad_header
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.positioned import first_bytes
from beam_volumes.storage.sources.axes import (
    AFFINE,
    DEFAULT_AXES,
    Placement,
    UnclearPlace,
    check_affine,
    in_one_unit,
)
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import DTYPES

MAGIC = b"NRRD000"
VERSIONS = "12345"
#: Maximal length of a header.
_HEADER = 1 << 20

_TYPES = {
    "i1": ("signed char", "int8", "int8_t"),
    "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "i2": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
    "u2": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
    "i4": ("int", "signed int", "int32", "int32_t"),
    "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
    "i8": (
        "longlong",
        "long long",
        "long long int",
        "signed long long",
        "signed long long int",
        "int64",
        "int64_t",
    ),
    "u8": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
    "f4": ("float",),
    "f8": ("double",),
}
_DTYPES = {name: t for t, names in _TYPES.items() for name in names}

#: Named spaces, in millimetres by default.
_PATIENT = (
    *("right-anterior-superior", "ras", "left-anterior-superior", "las"),
    *("left-posterior-superior", "lps", "scanner-xyz"),
)

_COLOURS = {"rgb-color": ("red", "green", "blue"), "rgba-color": ("red", "green", "blue", "alpha")}


class Nrrd(Headered):
    """A ``.nrrd`` file, or a ``.nhdr`` header with a separate file of voxels."""

    title = "NRRD"
    name = "nrrd"
    suffixes = (".nrrd",)
    endings = (".nrrd", ".nhdr")
    dtypes = tuple(d for d in DTYPES if d != np.float16 and d.kind != "b")
    open_options: ClassVar[Options] = {"affine": AFFINE}

    def parsed(self, path: str, place: Place, request: OpenRequest) -> Voxels | None:
        name = printable(place.text)
        if not first_bytes(path, len(MAGIC)).startswith(MAGIC):
            if not self.is_named(path):
                return None
            raise VolumeError(
                f"{name} has no NRRD header, which begins with {MAGIC.decode()}; restore it"
            )
        if (version := first_bytes(path, 8)[-1:].decode("latin-1")) not in VERSIONS:
            raise ValueError(
                f"{name} is NRRD of version {ascii(version)[1:-1]}, but only versions 1 to 5 are "
                "supported; convert it to one of them"
            )
        request.refuse_parts(name, "NRRD")
        fields, end = _fields(first_bytes(path, _HEADER), name)
        sizes = _sizes(fields, name)
        stored = _dtype(fields, name)
        encoding = fields.get("encoding", "").lower()
        if encoding not in ("raw", "gzip", "gz"):
            raise ValueError(
                f"{name} has the encoding {printable(encoding) or 'none'}, but only raw and gzip "
                "are supported; rewrite it with one of them"
            )
        named, file, where, start = fields.get("datafile"), None, path, end or 0
        if named is not None:
            file = data_file(place, named, r"%[0-9]*d.*\s-?[0-9]+\s+-?[0-9]+\s+-?[0-9]+")
            where, start = str(file["path"]), 0
        elif end is None:
            raise VolumeError(f"{name} is cut off: no empty line ends its header; restore it")
        start = _after_lines(where, start, _number(fields, "lineskip", 0, name), name)
        at, stream = _number(fields, "byteskip", 0, name), None
        if encoding != "raw":
            stream = ("gzip", start)
        else:
            at = start_of(where, start, at, math.prod(sizes) * stored.itemsize)
        axes, channels = _axes(fields, len(sizes), name)
        axes, placement = _placement(fields, axes, sizes, name, request.option("affine"))
        return Voxels(
            axes=axes[::-1],
            sizes=sizes[::-1],
            stored=stored,
            at=at,
            channels=channels,
            file=file,
            stream=stream,
            placement=placement,
            mask=MASK in fields,
        )

    def header(self, d: Description) -> bytes:
        shape = d.stored(d.shape, d.leading)[::-1]
        n, space, others = len(d.space.axes), d.space, len(d.leading)
        stated = {np.dtype(t): names for t, names in _TYPES.items()}[d.dtype]
        lines = [
            "NRRD0005",
            "# written by beam_volumes",
            f"type: {'signed char' if d.dtype == np.int8 else stated[-1].removesuffix('_t')}",
            f"dimension: {n + others}",
            f"sizes: {' '.join(map(str, shape))}",
        ]
        if space.voxel_size is not None or any(space.origin) or space.unit is not None:
            size = [float(s) for s in d.stored(space.voxel_size or (1.0, 1.0, 1.0))][::-1]
            origin = [float(o) for o in d.stored(space.origin)][::-1]
            steps = [[size[k] if j == k else 0 for j in range(n)] for k in range(n)]
            lines.append(f"space dimension: {n}")
            if space.unit is not None:
                lines.append(f"space units: {' '.join([_quoted(space.unit)] * n)}")
            lines += [
                f"space directions: {' '.join([*map(_vector, steps), *['none'] * others])}",
                f"space origin: {_vector(origin)}",
            ]
        kinds = ["time" if a == "t" else "list" for a in d.space.leading[::-1]]
        lines.append(f"kinds: {' '.join([*['domain'] * n, *kinds])}")
        lines += [f"{MASK}:=true"] if d.mask else []
        lines += ["endian: little", "encoding: raw", "", ""]
        return "\n".join(lines).encode()


FORMATS = (Nrrd(),)


# reading


def _fields(data: bytes, name: str) -> tuple[dict[str, str], int | None]:
    """Return the fields of a header, by names without spaces, and its end, or None."""
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at)
        line = data[at : len(data) if stop < 0 else stop].rstrip(b"\r")
        if not line and stop >= 0:
            return found, stop + 1
        at = len(data) if stop < 0 else stop + 1
        text = line.decode("utf-8", "replace")
        if text.rstrip() == f"{MASK}:=true":
            found[MASK] = "true"
            continue
        field, colon, value = text.partition(":")
        if text.startswith(("#", "NRRD0")) or value.startswith("=") or not colon:
            continue
        key = "".join(field.lower().split())
        key = {"centerings": "centers"}.get(key, key)
        if key in found:
            raise bad_header(name, f"it has {printable(field)!r} twice")
        found[key] = value.strip()
    if at >= _HEADER:
        raise bad_header(name, f"it does not end within {_HEADER:,} bytes")
    return found, None


def _number(fields: Mapping[str, str], key: str, default: int, name: str) -> int:
    text = fields.get(key, str(default))
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise bad_header(name, f"{key} is {printable(text)!r}, not a whole number")
    value = int(text)
    if value < (-1 if key == "byteskip" else 0):
        raise bad_header(name, f"{key} is {value}")
    return value


def _sizes(fields: Mapping[str, str], name: str) -> list[int]:
    count = _number(fields, "dimension", 0, name)
    texts = fields.get("sizes", "").split()
    if len(texts) != count or not all(re.fullmatch(r"[0-9]{1,18}", t) for t in texts):
        raise bad_header(
            name,
            f"it has {count} dimensions, but the sizes {printable(fields.get('sizes', 'not stated'))!r}",
        )
    if not 1 <= count <= 5:
        raise ValueError(
            f"{name} has {count} dimensions; a volume has 2 (y, x) to 5 (t, c, z, y, x)"
        )
    return [int(t) for t in texts]


def _dtype(fields: Mapping[str, str], name: str) -> np.dtype:
    stated = " ".join(fields.get("type", "").lower().split())
    if stated not in _DTYPES:
        raise ValueError(
            f"{name} has the type {printable(stated) or 'none'!r}; voxels are integers and floats "
            "of up to 64 bits"
        )
    dtype = np.dtype(_DTYPES[stated])
    order = fields.get("endian", "").lower()
    if dtype.itemsize == 1:
        return dtype
    if order not in ("little", "big"):
        raise VolumeError(
            f"{name} does not state its byte order; write endian: little, or big, into its header"
        )
    return dtype.newbyteorder("<" if order == "little" else ">")


def _after_lines(path: str, start: int, lines: int, name: str) -> int:
    """Return the position after some lines."""
    if not lines:
        return start
    data = first_bytes(path, start + _HEADER)[start:]
    at = 0
    for _ in range(min(lines, len(data) + 1)):
        at = data.find(b"\n", at) + 1
        if not at:
            raise bad_header(name, f"there are no {lines} lines to skip")
    return start + at


def _vectors(text: str, name: str) -> list[list[float] | None]:
    """Return vectors in parentheses; None for a dimension without one."""
    found: list[list[float] | None] = []
    rest = re.sub(r"\(([^()]*)\)|none", "", text)
    if rest.strip():
        raise bad_header(name, f"{printable(text)!r} are not vectors")
    for match in re.finditer(r"\(([^()]*)\)|none", text):
        inside = match[1]
        found.append(None if inside is None else _floats(inside.replace(",", " "), name))
    return found


def _floats(text: str, name: str) -> list[float]:
    try:
        return [float(t) for t in text.split()]
    except ValueError:
        raise bad_header(name, f"{printable(text)!r} are not numbers") from None


def _texts(text: str) -> list[str]:
    return [a or b for a, b in re.findall(r'"([^"]*)"|([^\s"]+)', text)]


def _axes(fields: Mapping[str, str], n: int, name: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the names of dimensions, the fastest first, and of channels."""
    kinds = [k.lower() for k in fields.get("kinds", "").split()] or ["???"] * n
    directions = fields.get("spacedirections")
    vectors = [None] * n if directions is None else _vectors(directions, name)
    if len(kinds) != n or len(vectors) != n:
        raise bad_header(name, f"it does not have {n} kinds or space directions")
    plain = ("domain", "space", "???", "none")
    if directions is None and all(k in plain for k in kinds):
        if n == 1:
            return ["x"], ()
        labels = [t.lower() for t in _texts(fields.get("labels", ""))]
        if len(labels) == n and len(set(labels)) == n and set("xy") <= set(labels) <= set("xyzct"):
            return labels, ()
        return list(DEFAULT_AXES[n][::-1]), ()
    names: list[str] = []
    free = iter("xyzt")
    for kind, vector in zip(kinds, vectors, strict=True):
        is_place = vector is not None or (directions is None and kind in plain)
        if kind == "time":
            names.append("t")
        elif is_place:
            names.append(next(free, "?"))
        else:
            names.append("c")
    if len(set(names)) < n or "?" in names:
        raise ValueError(
            f"{name} has dimensions of the kinds {printable(' '.join(kinds))}; a volume has z, y, x, and at "
            "most one of channels and one of time points: split it"
        )
    channels = next((c for k, c in _COLOURS.items() if k in kinds), ())
    return names, channels


def _placement(
    fields: Mapping[str, str], axes: list[str], sizes: Sequence[int], name: str, affine: str | None
) -> tuple[list[str], Placement]:
    """Return the names of axes after reorientation, and the placement."""
    places = [k for k, a in enumerate(axes) if a in "xyz"]
    names = "".join(axes[k] for k in places)
    if "spacedirections" not in fields:
        return axes, _of_spacings(fields, axes, sizes, name, affine)
    unit, by = _space_unit(fields)
    vectors = [_vectors(fields["spacedirections"], name)[k] for k in places]
    stated = fields.get("spaceorigin")
    first = _vectors(stated, name) if stated is not None else []
    width = {len(v) for v in [*vectors, *first] if v is not None}
    if None in vectors or len(width) != 1 or len(first) > 1 or not 1 <= min(width) <= 3:
        if affine == "drop":
            return axes, Placement(None, None)
        raise UnclearPlace(
            f"{name} does not define the position of its voxels: its space directions are "
            f"{printable(fields['spacedirections'])}, its space origin is "
            f"{printable(stated or 'not stated')}; give affine='drop' to take voxels as they are stored"
        )
    matrix = np.zeros((3, len(places)))
    for column, vector in enumerate(vectors):
        assert vector is not None
        matrix[: len(vector), column] = vector
    start = (first[0] if first else None) or [0.0] * min(width)
    is_one = by is not None and set(by) <= {1}
    if by is None or (not is_one and len(by) != len(start)):  # lengths that cannot be compared
        return axes, Placement()
    if not is_one:
        start = [times(o, f) for o, f in zip(start, by, strict=True)]
        for row, f in enumerate(by):
            matrix[row] = [times(v, f) for v in matrix[row].tolist()]
    letters, placement = placement_of(
        name, names, [sizes[k] for k in places], matrix, start, affine=affine, unit=unit
    )
    renamed = list(axes)
    for k, letter in zip(places, letters, strict=True):
        renamed[k] = letter
    return renamed, placement


def _of_spacings(
    fields: Mapping[str, str], axes: list[str], sizes: Sequence[int], name: str, affine: str | None
) -> Placement:
    """Return the placement of axes that are not rotated, from their spacings."""
    places = [k for k, a in enumerate(axes) if a in "xyz"]
    names, extents = "".join(axes[k] for k in places), [sizes[k] for k in places]
    check_affine(affine, name)
    given = _per_axis(fields, "spacings", len(axes), name)
    mins = _per_axis(fields, "axismins", len(axes), name)
    unit, (given, mins) = _per_axis_unit(fields, places, given, mins)
    size = None if given is None else voxel_size_of(names, [abs(given[k]) for k in places])
    if size is not None and given is not None and any(given[k] < 0 for k in places):
        matrix = np.zeros((3, len(places)))
        for column, k in enumerate(places):
            matrix["xyz".index(axes[k]), column] = given[k]
        return placement_of(name, names, extents, matrix, (0, 0, 0), affine=affine, unit=unit)[1]
    origin = [0.0, 0.0, 0.0]
    if mins is not None and size is not None and affine != "drop":
        cells = fields.get("centers", "").lower().split()
        for k in places:
            a = "zyx".index(axes[k])
            shift = size[a] / 2 if len(cells) == len(axes) and cells[k] == "cell" else 0.0
            origin[a] = mins[k] + shift if math.isfinite(mins[k]) else 0.0
    return Placement(size, unit, (origin[0], origin[1], origin[2]))


def _per_axis(fields: Mapping[str, str], key: str, n: int, name: str) -> list[float] | None:
    if key not in fields:
        return None
    found = _floats(fields[key], name)
    if len(found) != n:
        raise bad_header(name, f"{key} are not {n} numbers")
    return found


def _per_axis_unit(
    fields: Mapping[str, str], places: Sequence[int], *lengths: list[float] | None
) -> tuple[str | None, list[list[float] | None]]:
    """Return lengths along all axes in one unit; None if they cannot be compared."""
    every = _texts(fields.get("units", ""))
    shared = _texts(fields.get("spaceunits", ""))
    stated = [every[k] if k < len(every) else "" for k in places]
    if not any(stated) and len(shared) == len(places):
        stated = shared
    found = in_one_unit(stated)
    if found is None:
        return None, [None] * len(lengths)
    for given in lengths:
        for k, by in zip(places, found[1] if given is not None else (), strict=False):
            assert given is not None
            given[k] = times(given[k], by)
    return found[0], list(lengths)


def _space_unit(fields: Mapping[str, str]) -> tuple[str | None, list[Fraction] | None]:
    """Return the unit of space, and the factors of its axes: see `in_one_unit`."""
    stated = _texts(fields.get("spaceunits", ""))
    if not stated:
        every = [t for t in _texts(fields.get("units", "")) if t]
        stated = every if len(set(every)) == 1 else []
    if not stated:
        space = "-".join(fields.get("space", "").lower().removesuffix("-time").split())
        return ("millimeter" if space in _PATIENT else None), []
    found = in_one_unit(stated)
    return (None, None) if found is None else found


# writing


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', ""))


def _vector(values: Sequence[float]) -> str:
    return f"({','.join(repr(v) for v in values)})"
