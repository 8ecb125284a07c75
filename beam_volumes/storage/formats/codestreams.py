"""What compressed images say of their own size, so that a decoder is not asked for more than is expected."""

from __future__ import annotations

import struct

#: Markers of JPEG that a size follows: C4 are tables, C8 is an extension, CC is about arithmetic coding.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC} | {0xF7}
#: Those that stand alone, without a length.
_ALONE = frozenset([0x01, *range(0xD0, 0xD9)])


def jpeg_size(data: bytes) -> tuple[int, int, int]:
    """Rows, columns and samples of a JPEG or JPEG-LS image.

    Raises
    ------
    ValueError
        If it has no such header.

    Examples
    --------
    >>> import imagecodecs
    >>> jpeg_size(imagecodecs.jpeg8_encode(np.zeros((5, 7, 3), "u1")))
    (5, 7, 3)
    """
    if data[:2] != b"\xff\xd8":
        raise ValueError("it is no JPEG image")
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a filling byte
            at += 1
        elif marker in _ALONE:
            at += 2
        elif marker in _FRAMES:
            if at + 10 > len(data):
                break
            rows, columns, samples = struct.unpack_from(">HHB", data, at + 5)
            return rows, columns, samples
        else:
            at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])
    raise ValueError("its JPEG header is cut off or says no size")


def jpeg2000_size(data: bytes) -> tuple[int, int, int]:
    """Rows, columns and components of a JPEG 2000 image, in a file of its own or not.

    Raises
    ------
    ValueError
        If it has no such header.

    Examples
    --------
    >>> import imagecodecs
    >>> jpeg2000_size(imagecodecs.jpeg2k_encode(np.zeros((5, 7), "u1"), codecformat="j2k"))
    (5, 7, 1)
    """
    at = 0 if data[:4] == b"\xff\x4f\xff\x51" else data[:65536].find(b"\xff\x4f\xff\x51")
    if at < 0 or at + 42 > len(data):
        raise ValueError("it is no JPEG 2000 image, or its header is cut off")
    x1, y1, x0, y0 = struct.unpack_from(">4I", data, at + 8)
    (components,) = struct.unpack_from(">H", data, at + 40)
    return max(0, y1 - y0), max(0, x1 - x0), components
