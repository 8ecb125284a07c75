"""The functions of imagecodecs, imported on first use: zarr, raw files and arrays do not need the package."""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        package = import_module("imagecodecs")
    except ImportError as error:
        raise ImportError(
            f"{name} needs the package imagecodecs ({error}); install it with: pip install imagecodecs"
        ) from None
    return globals().setdefault(name, getattr(package, name))


def compress(data: bytes) -> bytes:
    """Compress by zstd, or by zlib without imagecodecs.

    >>> decompress(compress(bytes(999))) == decompress(zlib.compress(bytes(999))) == bytes(999)
    True
    """
    try:
        encode = __getattr__("zstd_encode")
    except ImportError:
        return zlib.compress(data, 1)
    return bytes(encode(data, level=1))


def decompress(data: bytes) -> bytes:
    """The inverse of `compress`."""
    is_zlib = data[0] == 0x78  # the first byte of zstd is another
    return zlib.decompress(data) if is_zlib else bytes(__getattr__("zstd_decode")(data))
