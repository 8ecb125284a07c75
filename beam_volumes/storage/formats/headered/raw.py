"""Raw binary: files of voxels without a header, described by the user."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.contiguous import InPlace, plain_array
from beam_volumes.storage.formats.format import WHOLE, OpenRequest, Options
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.place import Place, is_pattern
from beam_volumes.storage.sources.axes import DEFAULT_AXES
from beam_volumes.storage.sources.source import DTYPES, Source

SUFFIXES = (".raw", ".bin", ".dat")


class Raw(InPlace):
    """A file of voxels; outputs are little-endian, with x fastest."""

    title = "raw binary"
    name = "raw"
    suffixes = (".raw",)
    open_options: ClassVar[Options] = {
        "shape": (
            "sequence of int",
            "The shape of the array: 2 (y, x) to 5 (t, c, z, y, x) numbers.",
        ),
        "dtype": ("str or numpy.dtype", 'The dtype of its voxels, e.g. ``">u2"`` for big-endian.'),
        "offset": (
            "int",
            "The position of the first voxel, in bytes; by default, the file contains only voxels.",
        ),
        "order": (
            "str",
            'The order of voxels: ``"C"`` (the default; the last axis varies fastest) or ``"F"`` (the first '
            "axis varies fastest).",
        ),
    }

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        name, given = printable(place.text), request.options
        if not given:
            if place.local is None or not place.local.lower().endswith(SUFFIXES):
                return None
            if not os.path.isfile(place.local):
                return None
            size = os.path.getsize(place.local)
            raise ValueError(
                f"{name} is raw binary of {size:,} bytes; give its shape and dtype, e.g. "
                "shape=(100, 512, 512), dtype='uint16', or open its header file"
            )
        if place.local is not None and is_pattern(place.local):
            return None  # its files are opened one by one
        if place.local is None or not os.path.isfile(place.local):
            what = ", ".join(f"{k}={v!r}" for k, v in given.items())
            if place.local is not None and not os.path.exists(place.local):
                raise FileNotFoundError(f"{name} does not exist")
            raise ValueError(f"{what} is for raw binary files on a disk; {name} is not one")
        request.refuse_parts(name, "raw binary")
        shape, stored = _shape(given.get("shape"), name), _dtype(given.get("dtype"), name)
        order = given.get("order")
        if order not in (None, "C", "F"):
            raise ValueError(f"{name}: order={order!r}; use 'C' (x fastest) or 'F' (z fastest)")
        at = _offset(given.get("offset"), name)
        _check_size(place.local, name, shape, stored, at, "offset" in given)
        return plain_array(place, shape, stored, at, order == "F", request)


FORMATS = (Raw(),)


def _check_size(
    path: str, name: str, shape: tuple[int, ...], stored: np.dtype, at: int, is_given: bool
) -> None:
    """Refuse a file that is shorter than its array, or longer without a given offset."""
    size, nbytes = os.path.getsize(path), math.prod(shape) * stored.itemsize
    stated = f"{name} has {size:,} bytes, and shape {shape} of {stored} takes {nbytes:,}"
    if at + nbytes > size:
        where = f" from byte {at:,} on" if at else ""
        raise VolumeError(f"{stated}{where}; check shape, dtype and offset, or restore the file")
    if not is_given and nbytes < size:
        raise ValueError(
            f"{stated}; if it begins with a header of {size - nbytes:,} bytes, give "
            f"offset={size - nbytes}; otherwise check shape and dtype"
        )


def _shape(shape: Any, name: str) -> tuple[int, ...]:
    if shape is None:
        raise ValueError(
            f"{name} is raw binary and has no shape; give shape=, e.g. shape=(100, 512, 512)"
        )
    given = list(shape) if isinstance(shape, Sequence | np.ndarray) else [shape]
    if (
        isinstance(shape, str)
        or len(given) not in DEFAULT_AXES
        or any(isinstance(n, bool | str) or int(n) != n or n < 1 for n in given)
    ):
        raise ValueError(
            f"{name}: shape={shape!r}; give 2 (y, x) to 5 (t, c, z, y, x) positive whole numbers"
        )
    return tuple(int(n) for n in given)


def _dtype(dtype: Any, name: str) -> np.dtype:
    if dtype is None:
        raise ValueError(f"{name} is raw binary and has no dtype; give dtype=, e.g. dtype='uint16'")
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.newbyteorder("=") not in DTYPES:
        known = ", ".join(d.name for d in DTYPES)
        raise ValueError(f"{name}: dtype={dtype!r}; voxels are one of {known}")
    return found


def _offset(offset: Any, name: str) -> int:
    if offset is None:
        return 0
    if isinstance(offset, bool | str) or int(offset) != offset or offset < 0:
        raise ValueError(
            f"{name}: offset={offset!r}; give the position of the first voxel in bytes, 0 or more"
        )
    return int(offset)
