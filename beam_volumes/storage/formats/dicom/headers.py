"""Headers of DICOM files, read by pydicom up to the pixels."""

from __future__ import annotations

import io
import math
import os
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.text import counted, printable
from beam_volumes.storage.formats.dicom.frames import CODECS, NATIVE, File, Pixels
from beam_volumes.storage.places.errors import VolumeError, damaged
from beam_volumes.storage.places.remote_file import BoundedFile

_DEFLATED = "1.2.840.10008.1.2.1.99"
#: The tags that are read.
_TAGS = [
    *("SOPClassUID", "SeriesInstanceUID", "SeriesNumber", "SeriesDescription", "InstanceNumber"),
    *("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "SliceThickness"),
    *("SpacingBetweenSlices", "Rows", "Columns", "NumberOfFrames", "FrameIncrementPointer"),
    *("GridFrameOffsetVector", "TemporalPositionIdentifier", "DimensionIndexSequence"),
    *("SamplesPerPixel", "PlanarConfiguration", "PhotometricInterpretation", "BitsAllocated"),
    *("BitsStored", "HighBit", "PixelRepresentation", "RescaleSlope", "RescaleIntercept"),
    *("ModalityLUTSequence", "TotalPixelMatrixColumns", "SharedFunctionalGroupsSequence"),
    *("PerFrameFunctionalGroupsSequence",),
]
#: Frame increments along time.
_TIMES = (0x00181063, 0x00181065)
_OFFSETS = 0x3004000C
#: Spatial dimensions of frames.
_PLACES = (
    *("StackID", "InStackPositionNumber", "ImagePositionPatient", "ImageOrientationPatient"),
    *("PlanePositionSequence", "FrameAcquisitionNumber", ""),
)


@dataclass(frozen=True)
class Frame:
    """The position and scaling of a frame."""

    number: int  #: Its number in its file
    #: Position of its first pixel in mm; direction of a row and a column; distance of rows and
    #: columns
    position: tuple[float, ...] | None
    orientation: tuple[float, ...] | None
    spacing: tuple[float, ...] | None
    rescale: tuple[float, float]
    #: Possible time indices of frames at one position: the first that differs is used
    times: tuple[tuple[float, ...], ...] = ()
    slice: int | None = None  #: Its position in its stack


@dataclass(frozen=True)
class Header:
    """The properties of a file."""

    file: File
    series: str
    series_number: int | None
    description: str
    instance: int | None
    pixels: Pixels
    frames: tuple[Frame, ...]
    thickness: float | None
    along: str
    lookup: bool


def read_header(folder: str, name: str) -> Header | None:
    """Read the header of a file; None if it has no pixels."""
    path = os.path.join(folder, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with BoundedFile(path) as file:
                return _parsed(file, path, name)
    except VolumeError:
        raise
    except ValueError as error:
        if isinstance(error, _Refused):
            raise ValueError(str(error)) from None
        raise damaged(path, f"{error}") from None
    except (Exception, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise VolumeError(
            f"{printable(path)} cannot be read as DICOM: {reason}; restore it"
        ) from None


class _Refused(ValueError):
    """A valid file that is not supported; the message is complete."""


def _parsed(file: BoundedFile, path: str, name: str) -> Header | None:
    import pydicom

    if _syntax(file) == _DEFLATED:
        raise _Refused(
            f"{printable(path)} is deflated as a whole, so frames cannot be read separately; convert it, "
            "e.g. by dcmconv +te"
        )
    file.seek(0)
    head = pydicom.dcmread(
        file, stop_before_pixels=True, force=True, specific_tags=_TAGS, defer_size=None
    )
    syntax = str(head.file_meta.get("TransferSyntaxUID", "") or "").strip("\0 ")
    if "Rows" not in head:
        return None
    little = bool(head.is_little_endian)  # type: ignore[attr-defined]
    if not syntax:
        syntax = next(s for s in NATIVE if (NATIVE[s] == "<") == little)
    if syntax not in NATIVE and syntax not in CODECS:
        uid = pydicom.uid.UID(syntax)
        raise _Refused(
            f"{printable(path)} is stored as {printable(uid.name)}, which is not supported; convert it, "
            "e.g. by dcmconv or gdcmconv --raw"
        )
    tag, length, words = _pixel_data(file, little)
    if tag is None:
        return None
    pixels = _pixels(head, tag, syntax, path, words and not little)
    at = file.tell()
    left = file.size - at
    frames = _integer(head, "NumberOfFrames", None) or _count(file, pixels, min(left, length))
    file.seek(at)
    if pixels.codec is None:
        needed = -(-frames * pixels.frame_bits // 8)
        if min(left, length) < needed:
            raise damaged(
                path,
                f"it has {min(left, length)} of {needed} bytes of "
                f"{counted(frames, 'frame')} of {pixels.text}",
            )
        left = needed
    else:
        if length != 0xFFFFFFFF:
            left = min(left, length)
        if frames > left // 8:
            raise damaged(path, f"{left} bytes cannot hold {frames} frames")
    return Header(
        file=File(name, at, left, frames),
        series=str(head.get("SeriesInstanceUID", "") or ""),
        series_number=_integer(head, "SeriesNumber", None),
        description=str(head.get("SeriesDescription", "") or ""),
        instance=_integer(head, "InstanceNumber", None),
        pixels=pixels,
        frames=_frames(head, frames, path),
        thickness=_thickness(head),
        along="t" if _pointer(head) in _TIMES else "z",
        lookup="ModalityLUTSequence" in head,
    )


def _count(file: BoundedFile, pixels: Pixels, length: int) -> int:
    """Return the number of frames of a file without NumberOfFrames, from the size of its pixels."""
    if pixels.codec is None:
        each, rest = divmod(8 * length, max(1, pixels.frame_bits))
        return each if each > 1 and rest < 16 else 1
    item = file.read(8)  # the table of frame positions
    if len(item) < 8 or item[:4] != b"\xfe\xff\x00\xe0":
        return 1
    return max(1, struct.unpack("<I", item[4:])[0] // 4)


def _thickness(head: Any) -> float | None:
    """Return the distance of slices, or else their thickness."""
    groups = [_first(head, f"{k}FunctionalGroupsSequence") for k in ("PerFrame", "Shared")]
    measures = [None if g is None else _first(g, "PixelMeasuresSequence") for g in groups]
    for keyword in ("SpacingBetweenSlices", "SliceThickness"):
        for item in (*measures, head):
            if item is not None and (found := _numbers(item, keyword, 1)):
                return found[0]
    return None


def _syntax(file: io.BufferedReader) -> str | None:
    """Return the transfer syntax, reading only the header's first elements."""
    file.seek(128)
    if file.read(4) != b"DICM":
        return None
    for _ in range(64):
        head = file.read(8)
        if len(head) < 8 or head[:2] != b"\x02\x00":
            return None
        length = struct.unpack_from("<H", head, 6)[0]
        if head[4:6] in (b"OB", b"OW", b"UN", b"SQ", b"UT"):
            length = struct.unpack("<I", file.read(4).ljust(4, b"\0"))[0]
        if head[2:4] == b"\x10\x00":
            return file.read(min(length, 256)).decode("latin-1").strip("\0 ")
        file.seek(length, 1)
    return None


def _pixel_data(file: io.BufferedReader, little: bool) -> tuple[int | None, int, bool]:
    """Return the pixel element, its length, and whether it has words; stop at the pixels."""
    order = "<" if little else ">"
    head = file.read(8)
    if len(head) < 8:
        return None, 0, False
    group, element = struct.unpack(f"{order}HH", head[:4])
    if group != 0x7FE0 or element not in (0x0008, 0x0009, 0x0010):
        return None, 0, False
    # Some files declare explicit types and do not have them.
    if head[4:6] in (b"OB", b"OW", b"OF", b"OD", b"UN"):
        word, head = head[4:6] == b"OW", file.read(4)
        if len(head) < 4:
            return None, 0, False
        return element, struct.unpack(f"{order}I", head)[0], word
    return element, struct.unpack(f"{order}I", head[4:])[0], True


def _pixels(head: Any, tag: int, syntax: str, path: str, swapped: bool) -> Pixels:
    if "TotalPixelMatrixColumns" in head:
        raise _Refused(
            f"{printable(path)} is a slide with tiles as frames, which is not supported; convert it "
            "to a TIFF, e.g. by wsidicomizer or bfconvert"
        )
    rows, columns = _integer(head, "Rows", 0), _integer(head, "Columns", 0)
    samples = _integer(head, "SamplesPerPixel", 1)
    allocated = {8: 32, 9: 64}.get(tag) or _integer(head, "BitsAllocated", 0)
    kind = "f" if tag in (8, 9) else ("i" if _integer(head, "PixelRepresentation", 0) == 1 else "u")
    stored = allocated if kind == "f" else _integer(head, "BitsStored", allocated)
    high = allocated - 1 if kind == "f" else _integer(head, "HighBit", (stored or 1) - 1)
    colour = str(head.get("PhotometricInterpretation", "") or "").strip()
    if not rows or not columns or rows < 0 or columns < 0 or max(rows, columns) > 65535:
        raise ValueError(f"it has {rows} rows and {columns} columns")
    if colour == "PALETTE COLOR":
        raise _Refused(
            f"{printable(path)} has a colour palette, which is not supported; convert it to RGB, e.g. "
            "by dcmj2pnm"
        )
    if samples not in (1, 3, 4) or (samples > 1 and allocated == 1):
        raise ValueError(f"it has {samples} samples in a pixel")
    if allocated not in (1, 8, 16, 32, 64):
        raise _Refused(
            f"{printable(path)} has {allocated} bits per sample, which is not supported; convert it"
        )
    if not (1 <= stored <= allocated and stored - 1 <= high < allocated):
        raise ValueError(
            f"{stored} significant bits up to bit {high} do not fit {allocated} bits per sample"
        )
    if syntax in CODECS and allocated in (1, 64):
        raise ValueError(f"{allocated} bits per sample cannot have this compression")
    return Pixels(
        syntax=syntax,
        rows=rows,
        columns=columns,
        samples=samples,
        kind=kind,
        allocated=allocated,
        stored=stored,
        high=high,
        planar=_integer(head, "PlanarConfiguration", 0) == 1,
        colour=colour,
        swapped=swapped and allocated in (1, 8),
    )


def _frames(head: Any, count: int, path: str) -> tuple[Frame, ...]:
    """Return the description of each frame, by its own or the file's metadata."""
    shared = _first(head, "SharedFunctionalGroupsSequence")
    each = head.get("PerFrameFunctionalGroupsSequence")
    own = list(each or ())
    pointers = _pointers(head)
    if own and len(own) != count:
        raise ValueError(f"it describes {len(own)} of its {count} frames")
    if own:
        return tuple(_described(head, k, [of, shared], pointers) for k, of in enumerate(own))
    frame = _described(head, 0, [shared], pointers)
    if count == 1:
        return (frame,)
    offsets = _numbers(head, "GridFrameOffsetVector", count)
    if _pointer(head) != _OFFSETS or offsets is None or frame.position is None:
        return tuple(replace(frame, number=k, position=None) for k in range(count))
    along = normal(frame.orientation or (1, 0, 0, 0, 1, 0))
    shift = 0.0 if offsets[0] == 0 else float(np.dot(frame.position, along))
    start = np.array(frame.position)
    placed = [start + along * (o - shift) for o in offsets]
    return tuple(
        replace(frame, number=k, position=tuple(map(float, p))) for k, p in enumerate(placed)
    )


def _pointers(head: Any) -> list[str]:
    """Return the dimensions by which a file counts its frames."""
    from pydicom.datadict import keyword_for_tag

    found = head.get("DimensionIndexSequence") or ()
    return [keyword_for_tag(item.get("DimensionIndexPointer") or 0) for item in found]


def _described(head: Any, number: int, groups: Sequence[Any], pointers: Sequence[str]) -> Frame:
    def found(sequence: str, keyword: str, n: int) -> tuple[float, ...] | None:
        for group in groups:
            item = None if group is None else _first(group, sequence)
            if item is not None and (values := _numbers(item, keyword, n)) is not None:
                return values
        return _numbers(head, keyword, n)

    contents = (_first(g, "FrameContentSequence") for g in groups if g)
    content: Any = next(filter(None, contents), {})
    stack = _integer(content, "InStackPositionNumber", None)
    time = _numbers(content, "TemporalPositionIndex", 1)
    if time is None:
        time = _numbers(head, "TemporalPositionIdentifier", 1)
    index = _numbers(content, "DimensionIndexValues", len(pointers)) if pointers else None
    # Non-spatial indices: times, phases of a cycle, echoes, directions of diffusion.
    others = tuple(i for i, p in zip(index or (), pointers, strict=False) if p not in _PLACES)
    slope = found("PixelValueTransformationSequence", "RescaleSlope", 1)
    intercept = found("PixelValueTransformationSequence", "RescaleIntercept", 1)
    return Frame(
        number,
        found("PlanePositionSequence", "ImagePositionPatient", 3),
        found("PlaneOrientationSequence", "ImageOrientationPatient", 6),
        found("PixelMeasuresSequence", "PixelSpacing", 2),
        (1.0 if slope is None else slope[0], 0.0 if intercept is None else intercept[0]),
        tuple(found for found in (time or (), others) if found),
        stack,
    )


def _first(group: Any, keyword: str) -> Any:
    items = group.get(keyword)
    return items[0] if items else None


def _numbers(group: Any, keyword: str, n: int) -> tuple[float, ...] | None:
    value = group.get(keyword)
    if value is None or value == "" or (isinstance(value, Sequence) and not len(value)):
        return None
    try:
        many = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)
        values = tuple(float(v) for v in (value if many else [value]))
    except (TypeError, ValueError, OverflowError):
        values = ()
    if len(values) != n or not all(map(math.isfinite, values)):
        raise ValueError(f"its {keyword} is {printable(str(value)[:80])!r}")
    return values


def _integer(group: Any, keyword: str, default: Any) -> Any:
    values = _numbers(group, keyword, 1)
    if values is None:
        return default
    if values[0] != int(values[0]):
        raise ValueError(f"its {keyword} is {values[0]}")
    return int(values[0])


def _pointer(head: Any) -> int | None:
    value = head.get("FrameIncrementPointer")
    if value is None:
        return None
    many = isinstance(value, Sequence) and not isinstance(value, str)
    return int(value[0] if many and len(value) else value) if not many or len(value) else None


def normal(orientation: Sequence[float]) -> np.ndarray:
    """Return the direction of slices, given the directions of a row and a column."""
    return np.cross(orientation[:3], orientation[3:])
