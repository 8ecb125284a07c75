"""MetaImage (ITK): ``.mha``, or ``.mhd`` with voxels in another file, raw or as a zlib stream."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.contiguous import ContiguousReader, contiguous
from beam_volumes.storage.formats.format import OpenRequest, Options
from beam_volumes.storage.formats.headered.header import (
    MASK,
    Headered,
    Voxels,
    data_file,
    placement_of,
    renamed_axes,
    start_of,
)
from beam_volumes.storage.places.errors import bad_header
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.positioned import first_bytes, write_box
from beam_volumes.storage.sources.axes import AFFINE, Placement, Selection, unit_name
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import DTYPES, Source

#: Maximal length of a header.
_HEADER = 1 << 16

_TYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
    # These have four bytes on all platforms.
    "MET_LONG": "i4",
    "MET_ULONG": "u4",
}
#: Other names of fields.
_SAME = {
    "elementbyteordermsb": "binarydatabyteordermsb",
    "position": "offset",
    "origin": "offset",
    "rotation": "transformmatrix",
    "orientation": "transformmatrix",
}
#: Units of a file; other units are converted to one of them.
_UNITS = {"micrometer": "um", "millimeter": "mm", "centimeter": "cm"}
_AS = {
    **dict.fromkeys(("picometer", "angstrom", "nanometer", "mil"), "micrometer"),
    **dict.fromkeys(("inch", "decimeter", "foot", "meter", "kilometer"), "millimeter"),
}


class MetaImage(Headered):
    """A MetaImage file."""

    title = "MetaImage"
    name = "mha"
    suffixes = (".mha",)
    endings = (".mha", ".mhd")
    dtypes = tuple(d for d in DTYPES if d != np.float16 and d.kind != "b")
    open_options: ClassVar[Options] = {"affine": AFFINE}
    # The channels of a voxel are adjacent.
    channels = "together"

    def parsed(self, path: str, place: Place, request: OpenRequest) -> Voxels | None:
        begins = first_bytes(path, _HEADER)
        is_one = re.match(rb"ObjectType\s*[=:]\s*Image\b", begins) is not None
        if not (is_one or self.is_named(path)):
            return None
        name = printable(place.text)
        request.refuse_parts(name, "MetaImage")
        fields, end = _fields(begins, name)
        spatial = sizes = _sizes(fields, name)
        stored = _dtype(fields, name)
        axes = list("xyzt"[: len(sizes)])
        channels = _whole(fields, "elementnumberofchannels", 1, name)
        if channels != 1:
            axes, sizes = ["c", *axes], [channels, *sizes]
        named, file, where, start = fields["elementdatafile"], None, path, end
        if named.upper() != "LOCAL":
            file = data_file(place, named, r"%[0-9]*d(\s|\S*\s)")
            where, start = str(file["path"]), 0
        at, stream = _start(fields, where, start, math.prod(sizes) * stored.itemsize, name)
        letters, placement = _placement(fields, spatial, name, request.option("affine"))
        return Voxels(
            axes=renamed_axes(axes, letters)[::-1],
            sizes=sizes[::-1],
            stored=stored,
            at=at,
            file=file,
            stream=stream,
            placement=placement,
            mask=fields.get("comment") == MASK,
        )

    def header(self, d: Description) -> bytes:
        # Time is the fourth dimension.
        sizes = [*d.shape[::-1], d.space.times] if d.space.times else d.stored(d.shape)[::-1]
        n = len(sizes)
        stated = {np.dtype(t): name for name, t in reversed(_TYPES.items())}[d.dtype]
        unit = None if d.space.unit is None else _AS.get(d.space.unit, d.space.unit)
        space = d.space.in_unit(unit)

        def lengths(values: tuple[float, float, float], of_time: float) -> str:
            return " ".join(repr(float(v)) for v in (*values[::-1], of_time)[:n])

        identity = " ".join("1" if j == k else "0" for j in range(n) for k in range(n))
        lines = [
            "ObjectType = Image",
            f"NDims = {n}",
            "BinaryData = True",
            "BinaryDataByteOrderMSB = False",
            "CompressedData = False",
        ]
        if d.mask:
            lines.append(f"Comment = {MASK}")
        if space.voxel_size is not None or any(space.origin) or unit is not None:
            lines += [
                f"TransformMatrix = {identity}",
                f"Offset = {lengths(space.origin, 0.0)}",
                f"ElementSpacing = {lengths(space.voxel_size or (1.0, 1.0, 1.0), 1.0)}",
            ]
        if unit is not None:
            lines.append(f"DistanceUnits = {_UNITS[unit]}")
        lines += [
            f"DimSize = {' '.join(map(str, sizes))}",
            *([f"ElementNumberOfChannels = {_channels(d)}"] if d.space.has_channels else []),
            f"ElementType = {stated}",
            "ElementDataFile = LOCAL",
            "",
        ]
        return "\n".join(lines).encode()

    def write_unit(self, d: Description, cell: Triple, voxels: np.ndarray) -> None:
        if not d.space.has_channels:
            super().write_unit(d, cell, voxels)
            return
        many, box = _channels(d), d.grid.box(d.grid.index(cell))
        mixed = np.moveaxis(voxels.reshape((many, *box.shape)), 0, -1)
        little = np.ascontiguousarray(mixed, d.dtype.newbyteorder("<"))
        point = (d.at or (0,))[0] if d.space.times else 0
        at = len(self.header(d)) + point * math.prod(d.shape) * many * d.dtype.itemsize
        # Written as a volume with longer rows.
        wide = (*d.shape[:2], d.shape[2] * many)
        start = (*box.start[:2], box.start[2] * many)
        stop = (*box.stop[:2], box.stop[2] * many)
        rows = little.reshape((*box.shape[:2], box.shape[2] * many))
        write_box(d.kvstore["path"], at, wide, Box(start, stop), rows)

    def read_back(self, d: Description) -> Source:
        if not d.space.has_channels:
            return super().read_back(d)
        axes = [*(("t",) if d.space.times else ()), *d.space.axes, "c"]
        sizes = (*d.leading[:-1], *d.stored(d.shape), _channels(d))
        chosen = Selection((), tuple((a, k) for k, a in enumerate(axes)), d.space.channels)
        stored, at = d.dtype.newbyteorder("<").str, len(self.header(d))
        reader = ContiguousReader(d.kvstore, sizes, stored, d.dtype, at, chosen)
        return contiguous(d.name, reader, d.space)


def _channels(d: Description) -> int:
    return d.leading[-1]


FORMATS = (MetaImage(),)


def _fields(data: bytes, name: str) -> tuple[dict[str, str], int]:
    """Return the fields of a header, and its end, after the field that names the file of voxels."""
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at)
        line = data[at : len(data) if stop < 0 else stop]
        at = len(data) if stop < 0 else stop + 1
        if not line.strip():
            continue
        # ITK reads "key: value", too.
        field, *rest = re.split("[=:]", line.decode("utf-8", "replace"), maxsplit=1)
        key, value = field.strip().lower(), "".join(rest)
        if not rest or not re.fullmatch(r"[a-z][a-z0-9_. \[\]-]*", key):
            raise bad_header(name, f"{printable(field[:40])!r} is not a field; restore it")
        if found.setdefault(_SAME.get(key, key), value.strip()) != value.strip():
            raise bad_header(name, f"it has two values of {key}; restore it")
        if key == "elementdatafile":
            return found, at
    raise bad_header(name, "it has no ElementDataFile; restore it")


def _sizes(fields: Mapping[str, str], name: str) -> list[int]:
    n = _whole(fields, "ndims", None, name)
    if not 1 <= n <= 4:
        raise ValueError(f"{name} has {n} dimensions; MetaImage is supported with 2 to 4")
    sizes = [_natural(t, "DimSize", name) for t in fields.get("dimsize", "").split()]
    if len(sizes) != n:
        raise bad_header(
            name,
            f"it has {n} dimensions, but DimSize {printable(fields.get('dimsize', 'not stated'))!r}",
        )
    return sizes


def _start(
    fields: Mapping[str, str], where: str, start: int, nbytes: int, name: str
) -> tuple[int, tuple[str, int] | None]:
    """Return the position of voxels in their file, or in the stream at that position."""
    skip, is_zipped = _whole(fields, "headersize", 0, name), _is_true(fields, "compresseddata")
    if skip < (0 if is_zipped else -1):
        of = " in a compressed file" if is_zipped else ""
        raise bad_header(name, f"HeaderSize is {skip}{of}")
    if is_zipped:
        return 0, ("zlib", start + skip)
    return start_of(where, start, skip, nbytes), None


def _natural(text: str, field: str, name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise bad_header(name, f"{field} has {printable(text)!r}")
    return int(text)


def _whole(fields: Mapping[str, str], key: str, default: int | None, name: str) -> int:
    text = fields.get(key, "" if default is None else str(default))
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise bad_header(name, f"{key} is {printable(text)!r}")
    return int(text)


def _is_true(fields: Mapping[str, str], key: str) -> bool:
    return fields.get(key, "").lower() in ("true", "t", "1", "yes", "y")


def _dtype(fields: Mapping[str, str], name: str) -> np.dtype:
    stated = fields.get("elementtype", "")
    found = _TYPES.get(stated.removesuffix("_ARRAY"))
    if found is None:
        raise ValueError(
            f"{name} has the type {printable(stated)!r}; voxels are integers and floats of up to 64 bits"
        )
    if "binarydata" in fields and not _is_true(fields, "binarydata"):
        raise ValueError(f"{name} stores voxels as text (BinaryData = False); rewrite it as binary")
    return np.dtype(found).newbyteorder(">" if _is_true(fields, "binarydatabyteordermsb") else "<")


def _placement(
    fields: Mapping[str, str], sizes: list[int], name: str, affine: str | None
) -> tuple[str, Placement]:
    n, m = len(sizes), min(len(sizes), 3)

    def numbers(key: str, count: int) -> list[float] | None:
        if key not in fields:
            return None
        try:
            found = [float(t) for t in fields[key].split()]
        except ValueError:
            found = []
        if len(found) != count:
            raise bad_header(name, f"{key} is {printable(fields[key])!r}, not {count} numbers")
        return found

    steps = numbers("elementspacing", n) or numbers("elementsize", n)
    turned = numbers("transformmatrix", n * n)
    origin = (numbers("offset", n) or [0.0] * n)[:m]
    try:
        unit = unit_name(fields["distanceunits"]) if "distanceunits" in fields else None
    except ValueError:
        unit = None
    # A row of the matrix is the direction of an axis.
    matrix = np.eye(3)[:, :m]
    if turned is not None:
        matrix = np.zeros((3, m))
        matrix[:m] = np.array(turned).reshape(n, n)[:m, :m].T
    with np.errstate(invalid="ignore"):
        matrix = matrix * np.array((steps or [1.0] * n)[:m])
    letters, placement = placement_of(
        name, "xyz"[:m], sizes[:m], matrix, origin, affine=affine, unit=unit
    )
    if steps is None and unit is None and not any(placement.origin):
        placement = Placement(None, None, placement.origin, placement.flipped)
    return letters, placement
