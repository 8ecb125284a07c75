"""Sizes of compressed images from their headers, to bound the memory for decoding."""

from __future__ import annotations

import struct

#: Maximal compression ratio of deflate.
_DEFLATE = 1032
#: JPEG markers that are followed by a size; not C4 (tables), C8 (extension) and CC (arithmetic
#: coding).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC} | {0xF7}
#: JPEG markers without a length.
_WITHOUT_LENGTH = frozenset([0x00, 0x01, *range(0xD0, 0xD9)])


def jpeg_size(data: bytes) -> tuple[int, int, int]:
    """Return rows, columns and samples of a JPEG or JPEG-LS image.

    >>> import imagecodecs
    >>> jpeg_size(imagecodecs.jpeg8_encode(np.zeros((5, 7, 3), "u1")))
    (5, 7, 3)
    """
    if data[:2] != b"\xff\xd8":
        raise ValueError("it is not a JPEG image")
    at = 2
    while at + 4 <= len(data):
        marker = data[at + 1]
        if data[at] != 0xFF or marker == 0xFF:  # skipped by decoders, or a fill byte
            at += 1
        elif marker == 0xDA:  # the voxels begin
            break
        elif marker in _WITHOUT_LENGTH:
            at += 2
        elif marker in _FRAMES:
            if at + 10 > len(data):
                break
            rows, columns, samples = struct.unpack_from(">HHB", data, at + 5)
            return rows, columns, samples
        else:
            at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])
    raise ValueError("its JPEG header is cut off or has no size")


def jpeg2000_size(data: bytes) -> tuple[int, int, int]:
    """Return rows, columns and components of a JPEG 2000 image, as a file or a codestream.

    >>> import imagecodecs
    >>> jpeg2000_size(imagecodecs.jpeg2k_encode(np.zeros((5, 7), "u1"), codecformat="j2k"))
    (5, 7, 1)
    """
    at = 0 if data[:4] == b"\xff\x4f\xff\x51" else data[:65536].find(b"\xff\x4f\xff\x51")
    if at < 0 or at + 42 > len(data):
        raise ValueError("it is not a JPEG 2000 image, or its header is cut off")
    x1, y1, x0, y0 = struct.unpack_from(">4I", data, at + 8)
    (components,) = struct.unpack_from(">H", data, at + 40)
    return max(0, y1 - y0), max(0, x1 - x0), components


def png_size(data: bytes) -> tuple[int, int, int]:
    """Return rows, columns and samples of a PNG image; one sample for a palette.

    Raises `ValueError` without a PNG header, or if the size is impossible for the number of bytes.

    >>> import imagecodecs
    >>> png_size(imagecodecs.png_encode(np.zeros((5, 7, 3), "u1")))
    (5, 7, 3)
    """
    if len(data) < 26 or data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR":
        raise ValueError("it has no PNG header")
    columns, rows, depth, colour = struct.unpack(">IIBB", data[16:26])
    samples = {2: 3, 4: 2, 6: 4}.get(colour, 1)
    nbytes = rows * -(-columns * samples * depth // 8)
    if nbytes > _DEFLATE * len(data):
        raise ValueError(
            f"its header declares {rows} x {columns} voxels, too many for {len(data):,} bytes"
        )
    return rows, columns, samples


def webp_size(data: bytes) -> tuple[int, int]:
    """Return rows and columns of a WebP image.

    >>> import imagecodecs
    >>> webp_size(imagecodecs.webp_encode(np.zeros((5, 7, 3), "u1")))
    (5, 7)
    >>> webp_size(imagecodecs.webp_encode(np.zeros((5, 7, 4), "u1"), lossless=True))
    (5, 7)
    """
    kind, begins = data[12:16], data[20:30]
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(begins) < 10:
        raise ValueError("it is not a WebP image, or its header is cut off")
    if kind == b"VP8X":
        columns = int.from_bytes(begins[4:7], "little") + 1
        return int.from_bytes(begins[7:10], "little") + 1, columns
    if kind == b"VP8L" and begins[0] == 0x2F:
        bits = int.from_bytes(begins[1:5], "little")
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    if kind == b"VP8 " and begins[3:6] == b"\x9d\x01\x2a":
        columns, rows = struct.unpack_from("<HH", begins, 6)
        return rows & 0x3FFF, columns & 0x3FFF
    raise ValueError("its WebP header has no size")


def jpegxl_size(data: bytes) -> tuple[int, int]:
    """Return rows and columns of a JPEG XL image, as a file or a codestream.

    >>> import imagecodecs
    >>> [jpegxl_size(imagecodecs.jpegxl_encode(np.zeros(n, "u1"))) for n in ((5, 7), (16, 16), (600, 3))]
    [(5, 7), (16, 16), (600, 3)]
    """
    at = 0
    while data[:2] != b"\xff\x0a":  # a container of boxes
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        begins = at + 16 if size == 1 else at + 8
        if kind in (b"jxlc", b"jxlp"):
            at = begins + 4 * (kind == b"jxlp")
            break
        at += int.from_bytes(data[at + 8 : at + 16], "big") if size == 1 else size
        if size == 0 or at + 12 > len(data) or at < begins:
            raise ValueError("it is not a JPEG XL image, or its header is cut off")
    if data[at : at + 2] != b"\xff\x0a":
        raise ValueError("it is not a JPEG XL image")
    bits = int.from_bytes(data[at + 2 : at + 18], "little")

    def take(count: int) -> int:
        nonlocal bits
        value, bits = bits & ((1 << count) - 1), bits >> count
        return value

    def extent(is_small: int) -> int:
        return (take(5) + 1) * 8 if is_small else take((9, 13, 18, 30)[take(2)]) + 1

    is_small = take(1)
    rows = extent(is_small)
    ratio = take(3)
    if ratio == 0:
        return rows, extent(is_small)
    above, below = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))[ratio - 1]
    return rows, rows * above // below


def plausible(nbytes: int, encoded: int) -> bool:
    """Whether ``nbytes`` may have so few encoded bytes; small images are always accepted."""
    return nbytes <= (64 << 20) + 4096 * encoded
