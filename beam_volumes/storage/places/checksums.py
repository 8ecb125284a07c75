"""Checksums of voxels.

That of a write unit is the CRC-32 of its voxels, those inside the volume, as they lie in memory:
little-endian, x fastest. It is taken where the unit is handed over to be written, and does not depend on
codecs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

#: Bytes of strided voxels that are copied at a time: they stay in the cache.
_COPY = 1 << 18


@lru_cache(maxsize=1)
def _fastest() -> Callable[[Any, int], int]:
    try:
        import imagecodecs  # libdeflate's takes a third of the time

        if imagecodecs.deflate_crc32(b"crc32", 0) == zlib.crc32(b"crc32"):
            return imagecodecs.deflate_crc32
    except ImportError:  # not there, or built without it
        pass
    return zlib.crc32


def crc32(data: Any, found: int = 0) -> int:
    """The CRC-32 of bytes that follow on those of which it is ``found``."""
    return _fastest()(data, found)


def checksum(voxels: np.ndarray) -> int:
    """The checksum of a unit's voxels.

    Examples
    --------
    >>> checksum(np.arange(8, dtype="u1").reshape(2, 2, 2)) == zlib.crc32(bytes(range(8)))
    True
    """
    found = 0
    planes = max(1, _COPY // max(1, voxels[:1].nbytes))
    rows = max(1, _COPY // max(1, voxels[:1, :1].nbytes))
    for z in range(0, len(voxels), planes):
        some = voxels[z : z + planes]
        for y in range(0, some.shape[1], rows) if planes == 1 else (0,):
            part = np.ascontiguousarray(some[:, y : y + rows] if planes == 1 else some)
            found = crc32(part.reshape(-1).view(np.uint8), found)
    return found
