"""Filters of HDF5 chunks, applied without HDF5's library.

The library has one global lock. Datasets with only these filters are decoded on many threads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.base import codecs as imagecodecs

#: The numbers of filters.
DEFLATE, SHUFFLE, FLETCHER = 1, 2, 3
LZF, BLOSC, LZ4, ZSTD = 32000, 32001, 32004, 32015
#: The filters that are decoded here.
OURS = {
    DEFLATE: "gzip",
    SHUFFLE: "shuffle",
    FLETCHER: "fletcher32",
    LZF: "lzf",
    BLOSC: "blosc",
    LZ4: "lz4",
    ZSTD: "zstd",
}

# decoding


def undone(data: Any, number: int, values: Sequence[int], room: int) -> Any:
    """Undo a filter; the result has at most ``room`` bytes."""
    if number == SHUFFLE:
        return _unshuffled(data, values[0])
    if number == FLETCHER:
        return _summed(data)
    if number == DEFLATE:
        return imagecodecs.deflate_decode(data, out=room)
    if number == LZF:
        return imagecodecs.lzf_decode(data, out=room)
    if number == ZSTD:
        return imagecodecs.zstd_decode(data, out=room)
    if number == BLOSC:
        # imagecodecs would read beyond the end of data that are cut off.
        if len(data) < 16 or int.from_bytes(data[12:16], "little") > len(data):
            raise ValueError("it is cut off")
        return imagecodecs.blosc_decode(data, out=room)
    return _lz4(data, room)


def _summed(data: Any) -> Any:
    """Remove a checksum, after comparing it."""
    stated = int.from_bytes(data[-4:], "little")
    found = imagecodecs.h5checksum_fletcher32(data[:-4])
    # Some versions of the library swapped the bytes of each half.
    swapped = int.from_bytes(
        bytes(np.frombuffer(found.to_bytes(4, "little"), ">u2").astype("<u2").tobytes()), "little"
    )
    if stated not in (found, swapped):
        raise ValueError("its checksum differs")
    return data[:-4]


def _unshuffled(data: Any, size: int) -> Any:
    """Undo the shuffle filter, which sorts bytes by their position in a voxel."""
    planes = np.frombuffer(data, np.uint8)
    n = len(planes) // max(1, size)
    if size <= 1 or n <= 1:
        return data
    if size > 16:
        raise ValueError(f"its bytes are shuffled for voxels of {size:,} bytes")
    voxels = np.empty(len(planes), np.uint8)
    rows = voxels[: n * size].reshape(n, size)
    for k in range(size):
        rows[:, k] = planes[k * n : (k + 1) * n]
    voxels[n * size :] = planes[n * size :]
    return voxels.data


def _lz4(data: bytes, room: int) -> bytes:
    """Decode blocks of LZ4 in the format of filter 32004: sizes are big-endian."""
    total, block = struct.unpack_from(">QI", data)
    if total > room or not block:
        raise ValueError(f"its header declares {total:,} bytes")
    at, left, parts = 12, total, []
    while left:
        (size,) = struct.unpack_from(">I", data, at)
        part, wanted = data[at + 4 : at + 4 + size], min(block, left)
        parts.append(part if size == wanted else imagecodecs.lz4_decode(part, out=wanted))
        if not parts[-1] or len(parts[-1]) != wanted:
            raise ValueError("one of its blocks is cut off")
        at, left = at + 4 + size, left - wanted
    return b"".join(parts)


# encoding


def shuffled(data: np.ndarray, size: int) -> Any:
    planes = np.empty((size, len(data) // size), np.uint8)
    rows = data.reshape(-1, size)
    for k in range(size):
        planes[k] = rows[:, k]
    return planes.reshape(-1).data


def shorter(data: Any, codec: str, level: int | None) -> bytes | None:
    """Encode data; None if the result is not shorter."""
    if codec == "gzip":
        found = imagecodecs.deflate_encode(data, level=level)
        return bytes(found) if len(found) < len(data) else None
    try:
        found = imagecodecs.lzf_encode(data)
    except Exception:  # the result would be longer
        return None
    return bytes(found) if 0 < len(found) < len(data) else None
