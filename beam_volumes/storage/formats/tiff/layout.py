"""Encode TIFF headers, directories and descriptions; little-endian."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from beam_volumes.storage.formats.metadata import Mark
from beam_volumes.storage.formats.tiff import files as tags
from beam_volumes.storage.sources.description import Description

#: The start of this package's line in an ImageJ description.
MARK = "beam_volumes"
ASCII, SHORT, LONG, RATIONAL, LONG8 = 2, 3, 4, 5, 16
_DTYPES = {ASCII: "u1", SHORT: "<u2", LONG: "<u4", RATIONAL: "<u4", LONG8: "<u8"}
DESCRIPTION, X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT, SOFTWARE = 270, 282, 283, 296, 305
#: Larger files have positions of 64 bits (BigTIFF).
CLASSIC_BYTES = (1 << 32) - (1 << 20)

#: Units of length in ImageJ and OME.
_IMAGEJ = {"micrometer": "micron", "nanometer": "nm", "millimeter": "mm", "centimeter": "cm",
           "picometer": "pm", "kilometer": "km", "meter": "m"}  # fmt: skip
_OME = {"micrometer": "µm", "nanometer": "nm", "millimeter": "mm", "centimeter": "cm", "inch": "in",
        "picometer": "pm", "kilometer": "km", "meter": "m", "angstrom": "Å", "decimeter": "dm",
        "foot": "ft", "mil": "thou"}  # fmt: skip
_OME_TYPES = {"u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32", "i4": "int32",
              "f4": "float", "f8": "double", "b1": "uint8"}  # fmt: skip

Entry = tuple[int, int, Any]


def header(first: int, big: bool) -> bytes:
    r"""Return a file's header with the position of its first directory.

    >>> header(8, big=False)
    b'II*\x00\x08\x00\x00\x00'
    """
    return (
        struct.pack("<2sHHHQ", b"II", 43, 8, 0, first)
        if big
        else struct.pack("<2sHI", b"II", 42, first)
    )


def header_bytes(big: bool) -> int:
    return 16 if big else 8


def _values(kind: int, values: Any) -> np.ndarray:
    if kind == ASCII:
        return np.frombuffer(values + b"\0", np.uint8)
    return np.atleast_1d(np.asarray(values)).astype(_DTYPES[kind]).ravel()


def directory_bytes(entries: Sequence[Entry], big: bool) -> int:
    """Return the size of a directory with the values of its tags."""
    return len(directory(entries, 0, None, big))


def directory(entries: Sequence[Entry], at: int, following: int | None, big: bool) -> bytes:
    """Encode a directory and the values of its tags, to be written at ``at``."""
    position, inline = ("<Q", 8) if big else ("<I", 4)
    head = struct.pack("<Q" if big else "<H", len(entries))
    entry = 20 if big else 12
    beyond = at + len(head) + entry * len(entries) + struct.calcsize(position)
    beyond += -beyond % 8
    table, rest = [], b""
    for code, kind, values in sorted(entries, key=lambda e: e[0]):
        data = _values(kind, values)
        count = len(data) // 2 if kind == RATIONAL else len(data)
        stored = data.tobytes()
        if len(stored) > inline:
            place = struct.pack(position, beyond + len(rest))
            rest += stored + bytes(-len(stored) % 8)
        else:
            place = stored.ljust(inline, b"\0")
        table.append(struct.pack("<HHQ" if big else "<HHI", code, kind, count) + place)
    found = head + b"".join(table) + struct.pack(position, following or 0)
    return found.ljust(beyond - at, b"\0") + rest


def sample_tags(d: Description, samples: int = 1) -> list[Entry]:
    """Return the tags of voxels for all pages; three or four samples are colours."""
    _, y, x = d.shape
    dtype = np.dtype(np.uint8) if d.dtype.kind == "b" else d.dtype
    formats = {"u": 1, "i": 2, "f": 3}
    colours = 3 if samples in (3, 4) else 1
    found: list[Entry] = [
        (tags.WIDTH, LONG, x),
        (tags.LENGTH, LONG, y),
        (tags.BITS, SHORT, [8 * dtype.itemsize] * samples),
        (262, SHORT, 2 if colours == 3 else 1),
        (tags.SAMPLES, SHORT, samples),
        (tags.PLANAR, SHORT, 1),
        (tags.SAMPLE_FORMAT, SHORT, [formats[dtype.kind]] * samples),
    ]
    if samples > colours:
        found.append((338, SHORT, [2 if samples == 4 else 0] * (samples - colours)))
    size = d.space.voxel_size
    if size is not None:
        for code, length in ((X_RESOLUTION, size[2]), (Y_RESOLUTION, size[1])):
            found.append((code, RATIONAL, _ratio(1 / length)))
        found.append((RESOLUTION_UNIT, SHORT, 1))
    return found


def _ratio(number: float) -> list[int]:
    """Return a number as a fraction of two integers of 32 bits.

    >>> _ratio(0.25), _ratio(1e-12)
    ([1, 4], [0, 1])
    """
    if number >= 1 << 32:
        return [(1 << 32) - 1, 1]
    maximum = (1 << 32) - 1
    limit = maximum if number <= 1 else max(1, int(maximum / number))
    found = Fraction(number).limit_denominator(limit)
    return [found.numerator, found.denominator]


def page_count(d: Description) -> int:
    """Return the number of pages of all slices, channels and time points."""
    return d.shape[0] * math.prod(d.leading)


def imagej(d: Description) -> bytes:
    """Return the description for ImageJ, with this package's line."""
    nz, sizes = d.shape[0], dict(zip(d.space.leading, d.leading, strict=True))
    nc, nt = sizes.get("c", 1), sizes.get("t", 1)
    lines = ["ImageJ=1.54f", f"images={page_count(d)}"]
    lines += [f"channels={nc}"] if nc > 1 else []
    lines += [f"slices={nz}"] if nz > 1 else []
    lines += [f"frames={nt}"] if nt > 1 else []
    if sizes:
        lines += ["hyperstack=true", f"mode={'composite' if nc > 1 else 'grayscale'}"]
    size, unit = d.space.voxel_size, d.space.unit
    if size is not None:
        name = _IMAGEJ.get(str(unit), unit)
        lines += [f"unit={name}"] if name else []
        lines += [f"spacing={size[0]!r}"] if nz > 1 else []
    mark = json.dumps(Mark.of(d).to_dict())
    lines += ["loop=false", f"{MARK}={mark}"]
    return ("\n".join(lines) + "\n").encode("ascii", "backslashreplace")


def ome(d: Description) -> bytes:
    """Return the OME-XML description."""
    nz, ny, nx = d.shape
    extents = dict(zip(d.space.leading, d.leading, strict=True))
    nc, nt = extents.get("c", 1), extents.get("t", 1)
    size, unit, origin = d.space.voxel_size, d.space.unit, d.space.origin
    sizes = positions = ""
    if size is not None:
        named = f" PhysicalSize%sUnit={quoteattr(_OME[unit])}" if unit in _OME else ""
        sizes = "".join(
            f' PhysicalSize{a}="{s!r}"' + (named % a if named else "")
            for a, s in zip("ZYX", map(float, size), strict=True)
        )
    if any(origin):
        named = f" Position%sUnit={quoteattr(_OME[unit])}" if unit in _OME else ""
        places = "".join(
            f' Position{a}="{o!r}"' + (named % a if named else "")
            for a, o in zip("ZYX", map(float, origin), strict=True)
        )
        positions = f'<Plane TheC="0" TheT="0" TheZ="0"{places}/>'
    names = d.space.channels if len(d.space.channels) == nc else ("",) * nc
    channels = "".join(
        f'<Channel ID="Channel:0:{k}" SamplesPerPixel="1"{f" Name={quoteattr(n)}" if n else ""}/>'
        for k, n in enumerate(names)
    )
    mark = escape(json.dumps(Mark.of(d).to_dict()))
    kind = _OME_TYPES[f"{d.dtype.kind}{d.dtype.itemsize}"]
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:schemaLocation="http://www.openmicroscopy.org/Schemas/OME/2016-06 '
        'http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd" Creator="beam_volumes">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" '
        f'Type="{kind}" SizeX="{nx}" SizeY="{ny}" SizeZ="{nz}" SizeC="{nc}" SizeT="{nt}"{sizes}>'
        f'{channels}<TiffData IFD="0" PlaneCount="{page_count(d)}"/>{positions}</Pixels></Image>'
        '<StructuredAnnotations><CommentAnnotation ID="Annotation:0" Namespace="beam_volumes">'
        f"<Value>{mark}</Value></CommentAnnotation></StructuredAnnotations></OME>"
    ).encode()
