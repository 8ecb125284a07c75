"""ND2, of Nikon's microscopes.

The library nd2 reads the metadata. Frames are read here, at the positions in the file's map:
threads do not wait for each other, and a missing frame is an error instead of zeros.
"""

from __future__ import annotations

import math
import os
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.format import WHOLE, Format, OpenRequest
from beam_volumes.storage.formats.headered.header import local_file
from beam_volumes.storage.formats.metadata import RefusedXml, parsed_xml
from beam_volumes.storage.formats.planes import (
    COLOURS,
    PlaneImage,
    ReadPlane,
    named_part,
    refuse_colours,
)
from beam_volumes.storage.places.errors import VolumeError, damaged, needed
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.positioned import first_bytes, kept_of
from beam_volumes.storage.places.remote_file import BoundedFile
from beam_volumes.storage.sources.axes import Placement
from beam_volumes.storage.sources.source import Source, TokenOfFields

_MAGIC, _OLD = b"\xda\xce\xbe\x0a", b"\x00\x00\x00\x0cjP  "
_MAP = b"ND2 CHUNK MAP SIGNATURE 0000001!"
_FRAME = b"ImageDataSeq|"
#: Bytes of a frame before its pixels: its time.
_TIME = 8


@dataclass(frozen=True, eq=False)
class _Frames(TokenOfFields):
    """The frames of one position."""

    path: str
    #: The axes that a frame's number counts, outermost first, and their extents
    loops: tuple[tuple[str, int], ...]
    position: int  #: The position's number
    shape: tuple[int, int, int]  #: Shape of a frame: y, x and all samples
    row: int  #: Bytes of a row
    dtype: np.dtype
    deflated: bool

    names = None

    def open(self) -> ReadPlane:
        def read(at: Mapping[str, int], y: slice, x: slice) -> np.ndarray:
            chunks = kept_of("nd2", self.path, lambda: _chunks(self.path))
            number = 0
            for axis, count in self.loops:
                number = number * count + (self.position if axis == "p" else at[axis])
            image = self._frame(number, chunks)[y, x]
            return image if self.shape[2] > 1 else image[..., 0]

        return read

    def _frame(self, number: int, chunks: Mapping[bytes, int]) -> np.ndarray:
        doing = f"{printable(self.path)}: frame {number}"
        at = chunks.get(_FRAME + b"%d!" % number)
        if at is None:
            raise VolumeError(f"{doing} is missing; restore the file, or select a part without it")
        height, width, samples = self.shape
        size = self.row * height
        try:
            with open(self.path, "rb", buffering=0) as file:
                start, length = _chunk(file.fileno(), at)
                if not self.deflated:
                    data = os.pread(file.fileno(), size, start + _TIME)
                else:
                    if length > 2 * size + (1 << 16):
                        raise ValueError(f"{length} compressed bytes are too many")
                    packed = os.pread(file.fileno(), max(0, length - _TIME), start + _TIME)
                    unpack = zlib.decompressobj()
                    data = unpack.decompress(packed, size)
                    # The end of the stream, with its checksum, follows the last byte.
                    if unpack.decompress(unpack.unconsumed_tail, 1) or not unpack.eof:
                        raise ValueError("its compressed stream does not end after its voxels")
            # The last row may be shorter than the others.
            values = np.frombuffer(data.ljust(size, b"\0") if self._whole(data) else data, np.uint8)
            rows = values.reshape(height, self.row)[:, : width * samples * self.dtype.itemsize]
        except (Exception, MemoryError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise VolumeError(f"{doing} cannot be read: {reason}; restore it") from None
        little = np.ascontiguousarray(rows).view(self.dtype.newbyteorder("<"))
        return little.reshape(self.shape).astype(self.dtype, copy=False)

    def _whole(self, data: bytes) -> bool:
        height, width, samples = self.shape
        return len(data) >= self.row * (height - 1) + width * samples * self.dtype.itemsize


class Nd2(Format):
    """The frames of one position; channels and colours are together in a frame."""

    title = "ND2"

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        path = local_file(place, (".nd2",), "ND2 files")
        head = b"" if path is None else first_bytes(path, 48)
        is_old = head[:8] == _OLD and place.text.lower().endswith(".nd2")
        if path is None or not (head[:4] == _MAGIC or is_old):
            return None
        if request.level is not None:
            raise ValueError(
                f"level={request.level}: {place.text} is ND2 and has no levels; omit it"
            )
        if is_old:
            raise ValueError(
                f"{place.text} is ND2 from before 2007, which is not supported; convert it, e.g. by bfconvert"
            )
        needed("nd2", "nd2", f"{place.text} is ND2")
        _chunks(path)
        _check_xml(path)
        return _image(place.text, path, _facts(path), request.dataset).source(request)


FORMATS = (Nd2(),)


@dataclass(frozen=True)
class _Facts:
    """Metadata of a file, as read by the library."""

    sizes: dict[str, int]
    attributes: Any
    per_channel: int
    size: tuple[float, ...] | None
    channels: tuple[str, ...]
    positions: tuple[str, ...]


def _facts(path: str) -> _Facts:
    import nd2

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with BoundedFile(path) as file, nd2.ND2File(file) as found:
                sizes = {str(k): int(v) for k, v in found.sizes.items()}
                names, size = _channels(found)
                return _Facts(
                    sizes=sizes,
                    attributes=found.attributes,
                    per_channel=int(found.components_per_channel),
                    size=size,
                    channels=names,
                    positions=_positions(found),
                )
    except (Exception, MemoryError) as error:
        reason = str(error) or type(error).__name__
        raise damaged(path, f"its metadata cannot be read ({printable(reason[:200])})") from None


def _channels(found: Any) -> tuple[tuple[str, ...], tuple[float, ...] | None]:
    """Return the names of the channels, and the voxel size as x, y, z."""
    try:
        channels = getattr(found.metadata, "channels", None) or ()
        size = tuple(float(v) for v in found.voxel_size())
    except Exception:  # some releases fail on files without fluorescence; pixels can still be read
        return (), None
    known = len(size) == 3 and all(math.isfinite(v) and v > 0 for v in size)
    return tuple(str(c.channel.name) for c in channels), size if known else None


def _positions(found: Any) -> tuple[str, ...]:
    for loop in found.experiment:
        if loop.type == "XYPosLoop":
            return tuple(str(p.name or "") for p in loop.parameters.points)
    return ()


def _image(where: str, path: str, facts: _Facts, dataset: str | None) -> PlaneImage:
    sizes = facts.sizes
    loops = {a: n for a, n in sizes.items() if a not in "CYXS"}
    other = [a for a in loops if a not in "TZP"]
    if other:
        raise ValueError(
            f"{where} has the axes {', '.join(sizes)}; {other[0]} is not supported: export it as TIFF in "
            "NIS-Elements"
        )
    channels, samples = sizes.get("C", 1), facts.per_channel
    refuse_colours(where, channels, samples)
    planes = _planes(where, path, facts, loops, channels * samples, dataset)
    y, x, count = planes.shape
    axes = [a for a in loops if a != "P"]
    names: Sequence[str] = COLOURS[:samples] if samples > 1 else facts.channels
    placement = Placement()
    if facts.size is not None:
        size = (facts.size[2], facts.size[1], facts.size[0])
        placement = Placement(size, "micrometer")
    else:
        warnings.warn(f"{where} has no voxel size; give voxel_size= and unit=", stacklevel=6)
    return PlaneImage(
        name=where,
        planes=planes,
        axes=[*(a.lower() for a in axes), "y", "x"],
        sizes=[*(loops[a] for a in axes), y, x],
        chunk=[*(1 for _ in axes), y, x],
        dtype=planes.dtype,
        samples=count if count > 1 else None,
        channels=names if len(names) == count else (),
        placement=placement,
        encoded=planes.deflated,
    )


def _planes(
    where: str, path: str, facts: _Facts, loops: Mapping[str, int], count: int, dataset: str | None
) -> _Frames:
    """Return the frames of a position, after checking that the file can contain them."""
    attributes = facts.attributes
    dtype = _dtype(where, attributes)
    y, x = int(attributes.heightPx), int(attributes.widthPx)
    row = int(attributes.widthBytes or 0) or x * count * dtype.itemsize
    frames, size = math.prod(loops.values()), os.path.getsize(path)
    is_small = min(y, x, count, *facts.sizes.values()) < 1 or row < x * count * dtype.itemsize
    if is_small or row * y > 1 << 40:
        raise damaged(path, f"its frames are {y} x {x} x {count}")
    # If recording was stopped early, the last frames are missing: this is an error when they are
    # read.
    if (1 if attributes.compressionType else row * y) > size or frames > size:
        raise damaged(path, f"{size} bytes cannot hold {frames} frames of {y} x {x}")
    return _Frames(
        path=path,
        loops=tuple((a.lower(), n) for a, n in loops.items()),
        position=named_part(dataset, loops.get("P", 1), facts.positions, where, "position"),
        shape=(y, x, count),
        row=row,
        dtype=dtype,
        deflated=attributes.compressionType is not None,
    )


def _dtype(where: str, attributes: Any) -> np.dtype:
    """Return the dtype of pixels; refuse unsupported encodings of frames."""
    if attributes.compressionType not in (None, "lossless"):
        raise ValueError(
            f"{where} has lossy compressed frames, which are not supported; convert it in NIS-Elements"
        )
    if attributes.tileHeightPx not in (None, 0, attributes.heightPx):
        raise ValueError(f"{where} has tiled frames, which are not supported; convert it")
    kind = {"unsigned": "u", "signed": "i", "float": "f"}.get(str(attributes.pixelDataType))
    bits = int(attributes.bitsPerComponentInMemory)
    if f"{kind}{bits}" not in ("u8", "u16", "u32", "i8", "i16", "i32", "f32", "f64"):
        raise ValueError(
            f"{where} has {attributes.pixelDataType} numbers of {bits} bits, which are not supported; "
            "convert it in NIS-Elements"
        )
    return np.dtype(f"{kind}{bits // 8}")


# the map of a file


def _chunks(path: str) -> dict[bytes, int]:
    """Return the position of each frame's chunk by name, from the map at the file's end."""
    found, size = {}, os.path.getsize(path)
    try:
        with open(path, "rb", buffering=0) as file:
            for name, offset, length in _entries(file.fileno(), size):
                if name.startswith(_FRAME):
                    if offset + length > size:
                        raise ValueError(f"{printable(name.decode('latin-1'))} is beyond its end")
                    found[name] = offset
    except (ValueError, struct.error, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise damaged(path, f"{reason}") from None
    return found


def _entries(handle: int, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the names, positions and lengths in the map at the file's end."""
    signature, start = struct.unpack("<32sQ", os.pread(handle, 40, max(0, size - 40)))
    if signature != _MAP or not 0 <= start < size:
        raise ValueError(
            "its map is missing: the file is cut off, or its recording was interrupted"
        )
    start, length = _chunk(handle, start)
    if start + length > size:
        raise ValueError("its map is cut off")
    data, at = os.pread(handle, length, start), 0
    while (end := data.find(b"!", at)) >= 0 and end + 17 <= len(data):
        name = data[at : end + 1]
        if name == _MAP:
            break
        yield name, *struct.unpack_from("<QQ", data, end + 1)
        at = end + 17


def _check_xml(path: str) -> None:
    """Refuse XML that takes too much memory, before the library parses it. Old files have such metadata."""
    size = os.path.getsize(path)
    with open(path, "rb", buffering=0) as file:
        for name, offset, _ in _entries(file.fileno(), size):
            head = (
                b"" if name.startswith(_FRAME) else os.pread(file.fileno(), 16, min(offset, size))
            )
            if head[:4] != _MAGIC or len(head) < 16:
                continue
            start, length = _chunk(file.fileno(), offset)
            if os.pread(file.fileno(), 1, min(start, size)) != b"<":
                continue
            data = os.pread(file.fileno(), min(length, size), start)
            # The library parses the text after the first line, and decodes invalid bytes in two ways.
            below = data.split(b"?>", 1)[-1]
            for text in (below, below.decode("utf-8", "ignore"), below.decode("utf-16", "ignore")):
                try:
                    parsed_xml(text)
                    break
                except ElementTree.ParseError:
                    continue
                except RefusedXml as error:
                    raise ValueError(f"{printable(path)}: {error}") from None


def _chunk(handle: int, at: int) -> tuple[int, int]:
    """Return the position and the size of a chunk's content."""
    head = os.pread(handle, 16, at)
    if len(head) < 16 or head[:4] != _MAGIC:
        raise ValueError(f"there is no chunk at byte {at}")
    name, length = struct.unpack_from("<IQ", head, 4)
    return at + 16 + name, length
