"""Tiles and strips of TIFF pages: their grid, and how they are decoded and encoded.

Codecs are imagecodecs'. tifffile's own decoding of segments is not used: it needs a page object for
each page, does not pickle, and allocates memory by untrusted sizes.
"""

from __future__ import annotations

import lzma
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base import codecs as imagecodecs
from beam_volumes.storage.formats.codestreams import (
    jpeg2000_size,
    jpeg_size,
    jpegxl_size,
    png_size,
    webp_size,
)

_LZMA = 34925
#: Decoders of compressions of bytes.
_BYTES: dict[int, str] = {
    1: "",
    5: "lzw_decode",
    8: "zlib_decode",
    32946: "zlib_decode",
    32773: "packbits_decode",
    _LZMA: "lzma_decode",
    34926: "zstd_decode",
    50000: "zstd_decode",
}
#: Decoders of compressions of images, which contain their own size.
_IMAGES: dict[int, str] = {
    33003: "jpeg2k_decode",
    33004: "jpeg2k_decode",
    33005: "jpeg2k_decode",
    34712: "jpeg2k_decode",
    34927: "webp_decode",
    50001: "webp_decode",
    34933: "png_decode",
    34887: "lerc_decode",
    50002: "jpegxl_decode",
    52546: "jpegxl_decode",
}
JPEGS = (7, 33007, 34892)
#: Streams of old JPEG may be anywhere in a file: libtiff decodes whole pages.
OLD_JPEG = 6
_LERC = 34887
_FAX: dict[int, str] = {2: "ccittrle_decode", 3: "ccittfax3_decode", 4: "ccittfax4_decode"}
_LERC_MAGIC = b"Lerc2 "
_JPEG2000 = (33003, 33004, 33005, 34712)
NAMES = {
    1: "none", 2: "CCITT RLE", 3: "CCITT fax 3", 4: "CCITT fax 4", 5: "LZW", 6: "old JPEG", 7: "JPEG",
    8: "deflate", 32773: "packbits", 32946: "deflate", 34887: "LERC", 34925: "LZMA", 34926: "zstd",
    50000: "zstd", 34927: "WebP", 50001: "WebP", 33003: "JPEG 2000", 33004: "JPEG 2000", 33005: "JPEG 2000",
    34712: "JPEG 2000", 50002: "JPEG XL", 52546: "JPEG XL", 34892: "lossy JPEG", 33007: "JPEG", 34933: "PNG",
}  # fmt: skip
#: Codecs for writing: number and function of imagecodecs.
CODECS = {"deflate": (8, "zlib_encode"), "lzw": (5, "lzw_encode"), "zstd": (50000, "zstd_encode")}


@dataclass(frozen=True)
class Segments:
    """The division of a page into tiles or strips, and their encoding."""

    #: Shape of a page: separate samples, depth, length, width, adjacent samples
    shape: tuple[int, int, int, int, int]
    tile: tuple[int, int, int]  #: Depth, length and width of a tile; a strip is as wide as the page
    tiled: bool  #: Whether tiles at the far edges are whole; strips there are clipped
    dtype: np.dtype  #: Dtype of decoded voxels, in native byte order
    bits: int  #: Bits of a stored sample
    #: Values of the tags
    compression: int = 1
    predictor: int = 1
    fill_order: int = 1
    t4: int = 0
    #: Stored and requested colour space of JPEG
    colours: tuple[Any, Any] = (None, None)
    fill: float = 0  #: The value of tiles that are not stored

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The number of tiles along separate samples, depth, length and width."""
        sp, d, y, x, _ = self.shape
        td, th, tw = self.tile
        return sp, -(-d // td), -(-y // th), -(-x // tw)

    @property
    def count(self) -> int:
        return math.prod(self.counts)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row of a tile or strip, padded to a whole byte."""
        return -(-self.tile[2] * self.shape[4] * self.bits // 8)

    @property
    def nbytes(self) -> int:
        """The decoded bytes of a whole tile or strip."""
        return self.tile[0] * self.tile[1] * self.row_bytes

    @property
    def page_bytes(self) -> int:
        """The bytes of an uncompressed page of strips."""
        sp, d, y, _, _ = self.shape
        return sp * d * y * self.row_bytes

    @property
    def is_plain(self) -> bool:
        """Whether rows are stored uncompressed, possibly in another byte order."""
        plain = self.compression == self.predictor == self.fill_order == 1
        return plain and self.bits == 8 * self.dtype.itemsize and self.dtype.kind != "b"

    def refusal(self) -> str | None:
        """Return why tiles cannot be decoded; None if they can."""
        c = self.compression
        if not any(c in known for known in (_BYTES, _IMAGES, JPEGS, _FAX, (OLD_JPEG,))):
            return f"compression {c}{f' ({NAMES[c]})' if c in NAMES else ''} is not supported"
        if self.predictor not in (1, 2, 3):
            return f"predictor {self.predictor} is not supported"
        if self.predictor == 3 and self.dtype.kind != "f":
            return "a floating-point predictor of integers is not supported"
        is_float24 = self.dtype.kind == "f" and self.bits == 24 and self.predictor == 1
        odd = self.bits not in (8, 16, 32, 64) and (self.dtype.kind == "f" or self.bits > 32)
        if odd and not is_float24:
            return f"{self.dtype.kind}{self.bits}-bit samples are not supported"
        others = {OLD_JPEG: "tiff_decode", **dict.fromkeys(JPEGS, "jpeg_decode")}
        name = _BYTES.get(c) or _IMAGES.get(c) or _FAX.get(c) or others.get(c, "")
        codec = getattr(imagecodecs, name.removesuffix("_decode").upper(), None) if name else None
        if not getattr(codec, "available", True):
            return f"this imagecodecs has no {name}; install a complete one"
        return None

    def rows(self, at: int) -> int:
        """Return the number of rows of the tile that begins at row ``at``."""
        return self.tile[1] if self.tiled else min(self.tile[1], self.shape[2] - at)

    def index(self, sample: int, z: int, y: int, x: int) -> int:
        """Return the index of a tile in the tables."""
        _, nd, ny, nx = self.counts
        return ((sample * nd + z) * ny + y) * nx + x

    def decode(self, data: Any, order: Any, at: int, tables: bytes | None = None) -> np.ndarray:
        """Decode the tile at row ``at``: depth, length, width, samples."""
        td, _, tw = self.tile
        shape = (td, self.rows(at), tw, self.shape[4])
        c = self.compression
        if c in JPEGS or c in _IMAGES:
            return self.fitted(self._image(data, shape, tables), shape)
        if self.fill_order == 2:
            data = imagecodecs.bitorder_decode(data)
        if c in _FAX:
            more = {"t4options": self.t4} if c == 3 else {}
            pixels = getattr(imagecodecs, _FAX[c])(data, shape[1], tw, **more)
            return self.fitted(np.asarray(pixels), shape)
        if c in (8, 32946) and imagecodecs.DEFLATE.available:  # the faster of two
            data = imagecodecs.deflate_decode(data, out=self.nbytes)
        elif c == _LZMA:
            data = _lzma_decode(data, self.nbytes)
        elif c != 1:
            data = getattr(imagecodecs, _BYTES[c])(data, out=self.nbytes)
        return self._unpredicted(self._unpacked(data, order, shape))

    def _image(self, data: bytes, shape: tuple[int, ...], tables: bytes | None) -> np.ndarray:
        c = self.compression
        size = _SIZES[c](data) if c in _SIZES else None
        if size is not None and (size[0] > self.tile[0] * self.tile[1] or size[1] > self.tile[2]):
            raise ValueError(f"it declares {size[0]} x {size[1]} voxels")
        if c in JPEGS:
            found = imagecodecs.jpeg_decode(
                data,
                bitspersample=self.bits,
                tables=tables,
                colorspace=self.colours[0],
                outcolorspace=self.colours[1],
                shape=(shape[1], shape[2]),
            )
        elif c == _LERC:
            found = _lerc_decode(data, self.nbytes, shape)
        else:
            found = getattr(imagecodecs, _IMAGES[c])(data)
        return np.asarray(found)

    def _unpacked(self, data: Any, order: Any, shape: tuple[int, ...]) -> np.ndarray:
        need = shape[0] * shape[1] * self.row_bytes
        if len(data) < need:
            raise ValueError(f"it has {len(data)} bytes, not {need}")
        data = memoryview(data)[:need]
        if self.bits == 8 * self.dtype.itemsize and self.dtype.kind != "b":
            stored = self.dtype
            if self.predictor != 3:  # it has its own byte order
                stored = stored.newbyteorder(order)
            return np.frombuffer(data, stored).reshape(shape)
        if self.dtype.kind == "f":
            # imagecodecs uses the same signs for byte orders.
            return imagecodecs.float24_decode(bytes(data), byteorder=order).reshape(shape)
        if self.bits in (8, 16, 32, 64):
            kind = "i" if self.dtype.kind == "i" else "u"
            found = np.frombuffer(data, f"{order}{kind}{self.bits // 8}")
            return found.reshape(shape).astype(self.dtype)
        unsigned = np.dtype("u1") if self.dtype.kind == "b" else self.dtype
        dtype = unsigned.newbyteorder(order) if unsigned.itemsize > 1 else unsigned
        found = imagecodecs.packints_decode(
            bytes(data), dtype, self.bits, runlen=shape[2] * shape[3]
        )
        found = np.asarray(found)[: math.prod(shape)].reshape(shape)
        return found.astype(self.dtype.newbyteorder("="), copy=False)

    def _unpredicted(self, voxels: np.ndarray) -> np.ndarray:
        if self.predictor == 1:
            return voxels
        native = voxels.astype(self.dtype.newbyteorder("="), copy=True)
        if self.predictor == 3:
            out = np.empty_like(native)
            out[...] = imagecodecs.floatpred_decode(np.ascontiguousarray(voxels), axis=-2)
            return out
        if native.dtype.kind == "f":
            bits = native.view(f"u{native.itemsize}")
            imagecodecs.delta_decode(bits, axis=-2, out=bits)
            return native
        found = np.asarray(imagecodecs.delta_decode(native, axis=-2, out=native))
        if self.bits not in (8, 16, 32, 64):
            found = found & found.dtype.type((1 << self.bits) - 1)
        return found

    def fitted(self, found: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return decoded voxels as a tile; some writers store clipped tiles at the far edges."""
        if found.dtype != self.dtype:
            if found.dtype.itemsize > self.dtype.itemsize or self.dtype.kind not in "bui":
                raise ValueError(f"it has {found.dtype}, not {self.dtype}")
            found = found.astype(self.dtype)
        if found.size == math.prod(shape):
            return found.reshape(shape)
        samples = shape[3]
        if found.ndim == 2:
            found = found[..., None]
        if found.ndim != 3 or found.shape[2] != samples or shape[0] != 1:
            raise ValueError(f"it has {found.shape} voxels, not {shape}")
        out = np.full(shape, self.fill, self.dtype)
        rows, columns = min(found.shape[0], shape[1]), min(found.shape[1], shape[2])
        out[0, :rows, :columns] = found[:rows, :columns]
        return out


def _lzma_decode(data: Any, room: int) -> bytes:
    """Decode LZMA to the end of the stream, which imagecodecs does not check."""
    decoder = lzma.LZMADecompressor()
    found = decoder.decompress(data, room)
    if not decoder.eof and (decoder.decompress(b"", 1) or not decoder.eof):
        raise ValueError("its stream does not end after its voxels")
    return found


def _lerc_decode(data: bytes | bytearray, nbytes: int, shape: tuple[int, ...]) -> np.ndarray:
    """Decode a LERC stream, possibly compressed once more; masked floats are NaN."""
    room = 2 * nbytes + (1 << 16)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        data = imagecodecs.zstd_decode(data, out=room)
    elif data[:6] != _LERC_MAGIC:
        data = imagecodecs.zlib_decode(data, out=room)
    if data[:6] != _LERC_MAGIC or len(data) < 22:
        raise ValueError("it is not LERC of version 2")
    (version,) = struct.unpack_from("<i", data, 6)
    size = struct.unpack_from("<ii", data, 14 if version >= 3 else 10)
    if size[0] > shape[0] * shape[1] or size[1] > shape[2]:
        raise ValueError(f"it declares {size[0]} x {size[1]} voxels")
    found, mask = imagecodecs.lerc_decode(data, masks=True)
    if mask is not None and found.dtype.kind == "f":
        mask = mask.reshape(mask.shape + (1,) * (found.ndim - mask.ndim))
        found = np.where(mask, found, found.dtype.type(np.nan))
    return found


#: Functions that return the size in an image's header, rows and columns first.
_SIZES: dict[int, Callable[[bytes], tuple[int, ...]]] = {
    **dict.fromkeys(JPEGS, jpeg_size),
    **dict.fromkeys(_JPEG2000, jpeg2000_size),
    **dict.fromkeys((34927, 50001), webp_size),
    **dict.fromkeys((50002, 52546), jpegxl_size),
    34933: png_size,
}


def encode(tile: np.ndarray, codec: str, level: int | None, predictor: int) -> bytes:
    """Encode a tile of y, x and optional samples, in little-endian order."""
    tile = np.ascontiguousarray(tile, tile.dtype.newbyteorder("<"))
    if codec == "none":
        return tile.tobytes()
    if predictor == 2:
        tile = imagecodecs.delta_encode(tile, axis=1)
    data = np.ascontiguousarray(tile).tobytes()
    compress = getattr(imagecodecs, CODECS[codec][1])
    return bytes(compress(data) if codec == "lzw" else compress(data, level))
