"""numpy's ``.npy`` files, in C or Fortran order, read and written at positions."""

from __future__ import annotations

import io
import math

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.contiguous import InPlace, check_length, plain_array
from beam_volumes.storage.formats.format import WHOLE, OpenRequest
from beam_volumes.storage.formats.headered.header import local_file
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.positioned import first_bytes
from beam_volumes.storage.sources.axes import DEFAULT_AXES
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import Source, check_dtype

MAGIC = b"\x93NUMPY"
#: Maximal length of a header of an array of voxels.
_HEADER = 1 << 16


class Npy(InPlace):
    """A ``.npy`` file."""

    title = "a .npy file"
    name = "npy"
    suffixes = (".npy",)

    def stored_dtype(self, dtype: np.dtype) -> np.dtype:
        return dtype

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        path = local_file(place, (".npy",), ".npy files")
        begins = b"" if path is None else first_bytes(path, _HEADER)
        if path is None or not begins.startswith(MAGIC):
            return None
        name = printable(place.text)
        request.refuse_parts(name, "one array")
        shape, is_fortran, stored, at = _header(begins, name)
        check_dtype(name, stored)
        if len(shape) not in DEFAULT_AXES:
            raise ValueError(
                f"{name} has {len(shape)} dimensions; a volume has 2 (y, x) to 5 (t, c, z, y, x)"
            )
        check_length(name, path, at, math.prod(shape) * stored.itemsize)
        return plain_array(place, shape, stored, at, is_fortran, request)

    def header(self, d: Description) -> bytes:
        file = io.BytesIO()
        little = d.dtype.newbyteorder("<")
        fields = {
            "descr": little.str,
            "fortran_order": False,
            "shape": tuple(d.stored(d.shape, d.leading)),
        }
        np.lib.format.write_array_header_1_0(file, fields)
        return file.getvalue()


FORMATS = (Npy(),)


def _header(begins: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Return shape, whether the order is Fortran's, dtype, and the position of voxels."""
    file = io.BytesIO(begins)
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, is_fortran, stored = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, is_fortran, stored = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version} is for arrays with named fields")
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(f"its shape is {shape}")
    except Exception as error:
        stated = " ".join(str(error).split())[:200]
        raise VolumeError(
            f"the header of {name} is damaged or describes no voxels: {printable(stated)}"
        ) from None
    return shape, bool(is_fortran), stored, file.tell()
