"""Positions and decoding of DICOM frames.

Frames are located and decoded here: pydicom's decoders need further plugins, and allocate memory by
untrusted headers.
"""

from __future__ import annotations

import math
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beam_volumes.base import codecs as imagecodecs
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.codestreams import jpeg2000_size, jpeg_size
from beam_volumes.storage.formats.planes import ReadPlane
from beam_volumes.storage.places.errors import VolumeError, damaged
from beam_volumes.storage.places.positioned import kept_of
from beam_volumes.storage.sources.source import TokenOfFields

_OWN = "1.2.840.10008.1.2"
#: Uncompressed transfer syntaxes, with their byte order.
NATIVE = {_OWN: "<", f"{_OWN}.1": "<", f"{_OWN}.2": ">"}
_JPEG = [f"{_OWN}.4.{n}" for n in (50, 51, 57, 70)]
_JPEG_LS = [f"{_OWN}.4.{n}" for n in (80, 81)]
_JPEG_2000 = [f"{_OWN}.4.{n}" for n in (90, 91, 92, 93, 201, 202, 203)]
CODECS = {
    **dict.fromkeys(_JPEG, "jpeg"),
    **dict.fromkeys(_JPEG_LS, "jpegls"),
    **dict.fromkeys(_JPEG_2000, "jpeg2000"),
    f"{_OWN}.5": "rle",
}
_ITEM, _END = (0xFFFE, 0xE000), (0xFFFE, 0xE0DD)
#: Larger frames must have at least one encoded byte for this many decoded ones.
_TRUSTED_BYTES, _MAX_RATIO = 256 << 20, 4096

#: Frames decoded in this process so far, for tests.
decoded = 0
_count = threading.Lock()


@dataclass(frozen=True)
class Pixels:
    """The encoding of voxels, equal for all files of a volume."""

    syntax: str  #: The transfer syntax
    rows: int
    columns: int
    samples: int
    kind: str  #: ``"u"``, ``"i"`` or ``"f"``
    #: Bits of a sample, the number of significant ones, and the highest of these
    allocated: int
    stored: int
    high: int
    planar: bool  #: Whether the samples of a channel are contiguous
    colour: str  #: The photometric interpretation
    swapped: bool = False  #: Whether bytes are in big-endian words

    @property
    def codec(self) -> str | None:
        return CODECS.get(self.syntax)

    @property
    def dtype(self) -> np.dtype:
        if self.allocated == 1:
            return np.dtype(bool)
        return np.dtype(f"{self.kind}{self.allocated // 8}")

    @property
    def shape(self) -> tuple[int, ...]:
        plane = (self.rows, self.columns)
        return plane if self.samples == 1 else (*plane, self.samples)

    @property
    def halved(self) -> bool:
        """Whether two pixels share their colour samples."""
        return self.codec is None and self.colour == "YBR_FULL_422"

    @property
    def frame_bits(self) -> int:
        samples = 2 if self.halved else self.samples
        return self.rows * self.columns * samples * self.allocated

    @property
    def text(self) -> str:
        return f"{' x '.join(map(str, self.shape))} {self.dtype.name}"


@dataclass(frozen=True)
class File:
    """A file with pixels: name, position and length of the pixels, and number of frames."""

    name: str
    at: int
    length: int
    frames: int


@dataclass(frozen=True, eq=False)
class Frames(TokenOfFields):
    """The frames of a volume in order."""

    path: str  #: The folder
    files: tuple[File, ...]
    #: For each slice, the number of its file and of the frame in it
    order: tuple[tuple[int, int], ...]
    pixels: Pixels
    #: Slope and intercept of all frames, or of each; empty for no scaling
    rescale: tuple[tuple[float, float], ...]
    dtype: np.dtype
    #: The axes of frames, the last one fastest, and their extents
    along: tuple[tuple[str, int], ...]

    @property
    def names(self) -> Sequence[str]:
        return [f.name for f in self.files]

    def open(self) -> ReadPlane:
        def read(at: Mapping[str, int], y: slice, x: slice) -> np.ndarray:
            k = 0
            for axis, count in self.along:
                k = k * count + at[axis]
            number, frame = self.order[k]
            return self._rescaled(self._decoded(number, frame), k)[y, x]

        return read

    def _rescaled(self, image: np.ndarray, k: int) -> np.ndarray:
        if not self.rescale:
            return image.astype(self.dtype, copy=False)
        slope, intercept = self.rescale[k if len(self.rescale) > 1 else 0]
        if self.dtype.kind == "f":
            return image.astype(self.dtype) * slope + intercept
        # Intermediate overflows cancel: the result fits.
        wide = image.astype(np.int64) * int(slope) + int(intercept)
        return wide.astype(self.dtype)

    def _decoded(self, number: int, frame: int) -> np.ndarray:
        global decoded
        file = self.files[number]
        path = os.path.join(self.path, file.name)
        try:
            if self.pixels.codec is None:
                image = _native(path, file, frame, self.pixels)
            else:
                image = _compressed(path, file, frame, self.pixels)
        except VolumeError:
            raise
        except (Exception, MemoryError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            where = f"{printable(path)}, frame {frame}" if file.frames > 1 else printable(path)
            raise VolumeError(f"{where} cannot be decoded: {reason}; restore it") from None
        with _count:
            decoded += 1
        return image


def offsets(path: str, file: File) -> list[tuple[int, int]]:
    """Return positions and lengths of the pieces of compressed pixels, the frame table first."""
    found: list[tuple[int, int]] = []
    end = file.at + file.length
    with open(path, "rb", buffering=0) as handle:
        at = file.at
        while at + 8 <= end:
            head = os.pread(handle.fileno(), 8, at)
            if len(head) < 8:
                break
            group, element, length = struct.unpack("<HHI", head)
            if (group, element) == _END:
                return found
            if (group, element) != _ITEM or at + 8 + length > end:
                break
            found.append((at + 8, length))
            at += 8 + length
    raise damaged(path, f"its compressed pixels break off at byte {at}")


def _native(path: str, file: File, frame: int, pixels: Pixels) -> np.ndarray:
    first = frame * pixels.frame_bits
    size = -(-(first % 8 + pixels.frame_bits) // 8)
    data = (
        _swapped(path, file, first // 8, size)
        if pixels.swapped
        else _read(path, file.at + first // 8, size)
    )
    if pixels.allocated == 1:
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[first % 8 :][: pixels.rows * pixels.columns].reshape(pixels.shape).view(bool)
    big = NATIVE[pixels.syntax] == ">"
    stored = pixels.dtype.newbyteorder(">" if big else "<")
    values = np.frombuffer(data, stored).astype(pixels.dtype)
    if pixels.halved:
        return _rgb(_doubled(values, pixels), pixels)
    image: np.ndarray
    if pixels.samples > 1 and pixels.planar:
        image = np.moveaxis(values.reshape(pixels.samples, pixels.rows, pixels.columns), 0, -1)
    else:
        image = values.reshape(pixels.shape)
    return _rgb(_counting(image, pixels), pixels)


def _swapped(path: str, file: File, at: int, size: int) -> bytes:
    """Read bytes of big-endian words."""
    start, end = at - at % 2, at + size + (at + size) % 2
    words = np.frombuffer(_read(path, file.at + start, end - start), "<u2").byteswap()
    return words.tobytes()[at - start :][:size]


def _doubled(values: np.ndarray, pixels: Pixels) -> np.ndarray:
    """Expand pairs of pixels, stored as two luminances, blue and red."""
    fours = values.reshape(pixels.rows, -1, 4)
    image = np.empty(pixels.shape, values.dtype)
    for k in (0, 1):
        image[:, k::2, 0] = fours[..., k]
        image[:, k::2, 1:] = fours[..., 2:]
    return image


def _compressed(path: str, file: File, frame: int, pixels: Pixels) -> np.ndarray:
    if file.frames == 1:
        pieces = offsets(path, file)
    else:
        pieces = kept_of(f"frames {file}", path, lambda: offsets(path, file))
    wanted = _pieces(path, file, frame, pieces)
    size = sum(length for _, length in wanted)
    frame_bytes = math.prod(pixels.shape) * pixels.dtype.itemsize
    if size > 4 * frame_bytes + (1 << 20):
        raise ValueError(f"{size} compressed bytes are too many for {pixels.text}")
    if frame_bytes > max(_TRUSTED_BYTES, _MAX_RATIO * size):
        raise ValueError(f"{size} compressed bytes are too few for {pixels.text}")
    data = b"".join(_read(path, at, length) for at, length in wanted)
    return _rgb(_counting(_of_codec(data, pixels), pixels), pixels)


def _pieces(
    path: str, file: File, frame: int, pieces: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    (table, length), rest = pieces[0] if pieces else (0, 0), pieces[1:]
    if file.frames == 1:
        return rest
    if len(rest) == file.frames:
        return [rest[frame]]
    if length < 4 * file.frames:
        raise VolumeError(
            f"{printable(path)} has {file.frames} frames in {len(rest)} pieces without an offset table; "
            "write it with an offset table, e.g. by dcmconv or gdcmconv"
        )
    starts = struct.unpack(f"<{file.frames}I", _read(path, table, 4 * file.frames))
    first = rest[0][0] if rest else 0
    last = starts[frame + 1] if frame + 1 < file.frames else math.inf
    return [p for p in rest if starts[frame] <= p[0] - first < last]


def _of_codec(data: bytes, pixels: Pixels) -> np.ndarray:
    codec, shape = pixels.codec, pixels.shape
    if codec == "rle":
        sample = np.dtype(f"<u{pixels.allocated // 8}")
        _check_rle(data, pixels)
        decoded = imagecodecs.dicomrle_decode(data, sample)
        values = np.frombuffer(decoded, sample).astype(sample.newbyteorder("="))
        planes = values.reshape(pixels.samples, pixels.rows, pixels.columns)
        return planes[0] if pixels.samples == 1 else np.moveaxis(planes, 0, -1)
    size = jpeg2000_size(data) if codec == "jpeg2000" else jpeg_size(data)
    if size != (pixels.rows, pixels.columns, pixels.samples):
        raise ValueError(
            f"the compressed image is {size[0]} x {size[1]} with {size[2]} samples, not {pixels.text}"
        )
    if codec == "jpeg2000":
        image = imagecodecs.jpeg2k_decode(data)
    elif codec == "jpegls":
        image = imagecodecs.jpegls_decode(data)
    elif pixels.samples == 3:
        # DICOM's colour space overrides the image's.
        colour = "RGB" if pixels.colour == "RGB" else "YCBCR"
        image = imagecodecs.jpeg8_decode(data, colorspace=colour, outcolorspace="RGB")
    else:
        image = imagecodecs.jpeg8_decode(data)
    if image.shape != shape or image.dtype.itemsize > pixels.dtype.itemsize:
        raise ValueError(
            f"it has {' x '.join(map(str, image.shape))} {image.dtype}, not {pixels.text}"
        )
    return image


def _check_rle(data: bytes, pixels: Pixels) -> None:
    """Refuse a table of segments with positions outside the data or a wrong count."""
    count, *starts = struct.unpack_from("<16I", data)
    if count != pixels.samples * pixels.allocated // 8 or count > 15:
        raise ValueError(f"it has {count} RLE segments, which is impossible for {pixels.text}")
    if not all(64 <= a <= b for a, b in zip(starts, [*starts[1:count], len(data)], strict=False)):
        raise ValueError("its RLE segments are at impossible positions")


def _counting(image: np.ndarray, pixels: Pixels) -> np.ndarray:
    """Return the significant bits of samples, with their sign."""
    dtype = pixels.dtype
    if dtype.kind == "f":
        return image
    low = pixels.high + 1 - pixels.stored if pixels.codec is None else 0
    if pixels.stored == pixels.allocated and image.dtype == dtype:
        return image
    if image.dtype.kind == "i" and dtype.kind == "i":
        return (
            image.astype(dtype, copy=False)
            if low == 0 and pixels.codec
            else _signed(image, low, pixels)
        )
    unsigned = np.dtype(f"u{pixels.allocated // 8}")
    bits = image.astype(unsigned) >> unsigned.type(low)
    bits &= unsigned.type((1 << pixels.stored) - 1)
    return _signed(bits, 0, pixels) if dtype.kind == "i" else bits


def _signed(bits: np.ndarray, low: int, pixels: Pixels) -> np.ndarray:
    """Extend the sign of numbers from the highest significant bit."""
    up = pixels.allocated - pixels.stored - low
    wide = bits.astype(f"u{pixels.allocated // 8}") << np.array(up, f"u{pixels.allocated // 8}")
    return wide.view(pixels.dtype) >> pixels.dtype.type(pixels.allocated - pixels.stored)


def _rgb(image: np.ndarray, pixels: Pixels) -> np.ndarray:
    """Convert colours to red, green and blue, unless the codec has done so."""
    by_codec = pixels.codec == "jpeg" or pixels.colour in ("YBR_ICT", "YBR_RCT")
    if not pixels.colour.startswith("YBR") or by_codec:
        return image
    y, blue, red = (image[..., k].astype(np.float64) for k in range(3))
    middle = float(1 << (pixels.stored - 1))
    blue, red = blue - middle, red - middle
    colours = (y + 1.402 * red, y - 0.344136 * blue - 0.714136 * red, y + 1.772 * blue)
    top = (1 << pixels.stored) - 1
    return np.stack([np.clip(np.rint(c), 0, top) for c in colours], axis=-1).astype(pixels.dtype)


def _read(path: str, at: int, size: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        data = os.pread(file.fileno(), size, at)
    if len(data) != size:
        raise ValueError(f"it has {len(data)} of {size} bytes from byte {at} on")
    return data
