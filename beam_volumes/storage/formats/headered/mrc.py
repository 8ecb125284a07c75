"""MRC2014, CCP4 maps and IMOD's variants: a header of 1,024 bytes or more, and voxels.

Lengths are in angstrom. The header maps sections, rows and columns to spatial axes, in any order.
It is parsed here: mrcfile would be another dependency, reads whole gzip files, and reads IMOD's
unsigned bytes as signed.
"""

from __future__ import annotations

import math
import struct
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.format import OpenRequest
from beam_volumes.storage.formats.headered.header import (
    MASK,
    Headered,
    Voxels,
    beginning_of,
    no_channels,
    short,
)
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.sources.axes import Placement
from beam_volumes.storage.sources.description import Description

SIZE = 1024
_PLAIN = (".mrc", ".map", ".rec", ".st", ".ali", ".preali", ".mrcs", ".ccp4")

#: Dtypes by mode; for mode 0 see `_stored`.
_MODES = {0: "i1", 1: "i2", 2: "f4", 6: "u2", 12: "f2"}
_REFUSED = {
    3: "complex numbers of 16-bit integers",
    4: "complex numbers of 32-bit floats",
    101: "two voxels of 4 bits in a byte",
}
#: IMOD's mode for pixels of three bytes.
_RGB = 16
_IMOD, _IS_SIGNED = 1146047817, 1


@dataclass(frozen=True)
class _Header:
    """The values of a header, named as in MRC2014."""

    order: str
    n: tuple[int, ...]
    mode: int
    nstart: tuple[int, ...]
    m: tuple[int, ...]
    cella: tuple[float, ...]
    cellb: tuple[float, ...]
    map: tuple[int, ...]
    ispg: int
    nsymbt: int
    imod: tuple[int, int]
    origin: tuple[float, ...]
    is_mask: bool

    @classmethod
    def of(cls, data: bytes, order: str) -> _Header:
        def ints(at: int, count: int) -> tuple[int, ...]:
            return struct.unpack_from(f"{order}{count}i", data, at)

        def floats(at: int, count: int) -> tuple[float, ...]:
            return tuple(np.frombuffer(data, f"{order}f4", count, at).tolist())

        return cls(
            order=order,
            n=ints(0, 3),
            mode=ints(12, 1)[0],
            nstart=ints(16, 3),
            m=ints(28, 3),
            cella=floats(40, 3),
            cellb=floats(52, 3),
            map=ints(64, 3),
            ispg=ints(88, 1)[0],
            nsymbt=ints(92, 1)[0],
            imod=ints(152, 2),  # type: ignore[arg-type]
            origin=floats(196, 3),
            is_mask=data[224:304].startswith(MASK.encode()),
        )

    @property
    def is_sensible(self) -> bool:
        """Whether it is a valid header in this byte order."""
        known = self.mode in _MODES or self.mode in _REFUSED or self.mode == _RGB
        ordered = sorted(self.map) in ([1, 2, 3], [0, 0, 0])
        return known and ordered and min(self.n) > 0 and self.nsymbt >= 0

    @property
    def axes(self) -> str:
        """The spatial axes of columns, rows and sections."""
        return "".join("xyz"[k - 1] for k in self.map) if any(self.map) else "xyz"


def _header(data: bytes) -> _Header | None:
    """Parse a header in its declared byte order, or in the other one if only that is valid."""
    if len(data) < SIZE:
        return None
    stamps = {b"\x44": "<", b"\x11": ">"}
    likely = stamps.get(data[212:213], "<")
    for order in (likely, "<" if likely == ">" else ">"):
        found = _Header.of(data, order)
        if found.is_sensible:
            return found
    return None


class Mrc(Headered):
    """An MRC file."""

    title = "MRC"
    name = "mrc"
    suffixes = (".mrc", ".map", ".rec")
    endings = (*_PLAIN, *(f"{ending}.gz" for ending in _PLAIN))
    dtypes = tuple(np.dtype(t) for t in ("i1", "i2", "u2", "f2", "f4"))

    def stored_dtype(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype of stored voxels; a mask is int8 0 and 1, as usual in MRC."""
        return np.dtype(np.int8) if dtype.kind == "b" else dtype

    def parsed(self, path: str, place: Place, request: OpenRequest) -> Voxels | None:
        named, name = self.is_named(path), printable(place.text)
        data, zipped = beginning_of(path, SIZE)
        if not named and (data[208:211] != b"MAP" or zipped):
            return None
        head = _header(data)
        if head is None:
            if not named:
                return None
            raise VolumeError(
                f"{name} has no valid MRC header ({len(data):,} of {SIZE:,} bytes, or impossible "
                "values); restore it, or give it the suffix of its format"
            )
        request.refuse_parts(name, "MRC")
        if head.mode in _REFUSED:
            raise ValueError(
                f"{name} holds {_REFUSED[head.mode]} (mode {head.mode}); the supported modes are "
                f"{', '.join(map(str, _MODES))}: convert it, e.g. by IMOD's newstack -mode"
            )
        axes, sizes, channels = _axes(head, name)
        return Voxels(
            axes=axes,
            sizes=sizes,
            stored=_stored(head),
            at=SIZE + head.nsymbt,
            channels=channels,
            stream=("gzip", 0) if zipped else None,
            placement=_placement(head, name),
            mask=head.is_mask,
        )

    def check(self, d: Description) -> None:
        no_channels(d)
        if d.space.unit is None and d.space.knows_size:
            raise ValueError(
                f"{d.name}: mrc stores lengths in angstrom, but the volume's voxel size has no unit; "
                "give it when you open the input, e.g. open(..., unit='nm')"
            )
        if not d.space.knows_size and any(o != round(o) for o in d.space.origin):
            raise ValueError(
                f"{d.name}: without a voxel size mrc stores an origin in whole voxels, not "
                f"{d.space.origin}; give the voxel size when you open the input"
            )
        if max(d.shape[1:]) >= 1 << 31 or math.prod(d.leading) * d.shape[0] >= 1 << 31:
            raise ValueError(
                f"{d.name}: mrc stores at most 2,147,483,647 voxels along an axis, not {d.shape}"
            )

    def header(self, d: Description) -> bytes:
        modes = {np.dtype(t): mode for mode, t in _MODES.items()}
        order = "<"
        z, y, x = d.shape
        sections = math.prod(d.leading) * z  # of all volumes
        space = d.space.in_unit("angstrom")
        size = space.voxel_size if space.knows_size and space.voxel_size else (0.0, 0.0, 0.0)
        data = bytearray(SIZE)

        def put(at: int, kind: str, *values: Any) -> None:
            struct.pack_into(f"{order}{len(values)}{kind}", data, at, *values)

        put(0, "i", x, y, sections, modes[d.dtype])
        if not any(size):  # an origin counts voxels then
            put(16, "i", *(round(o) for o in space.origin[::-1]))
        put(28, "i", x, y, z)
        put(40, "f", *(n * s for n, s in zip((x, y, z), size[::-1], strict=True)))
        put(52, "f", 90.0, 90.0, 90.0)
        put(64, "i", 1, 2, 3)
        put(76, "f", 0.0, -1.0, -2.0)  # extrema and mean are unknown
        put(88, "i", 401 if d.leading else 1 if "z" in d.space.axes else 0)
        put(108, "i", 20141)
        if any(size):
            put(196, "f", *space.origin[::-1])
        data[208:216] = b"MAP \x44\x44\0\0"
        put(216, "f", -1.0)
        label = MASK.encode() if d.mask else b"written by beam_volumes"
        put(220, "i", 1)
        data[224 : 224 + len(label)] = label
        return bytes(data)


FORMATS = (Mrc(),)


def _axes(head: _Header, name: str) -> tuple[list[str], list[int], tuple[str, ...]]:
    """Return the names and extents of dimensions, the slowest first, and names of channels."""
    axes, sizes = list(head.axes[::-1]), list(head.n[::-1])
    if head.ispg > 400 and 0 < head.m[2] < head.n[2]:
        sections = head.m[2]
        if head.n[2] % sections or head.axes != "xyz":
            raise VolumeError(
                f"{name} declares volumes of {sections} sections, but {head.n[2]} is not a multiple "
                f"of {sections}; correct mz or ispg in its header"
            )
        axes, sizes = ["t", *axes], [head.n[2] // sections, sections, *sizes[1:]]
    elif head.ispg == 0 and head.n[2] == 1:  # an image
        axes, sizes = axes[1:], sizes[1:]
        if "x" not in axes or "y" not in axes:
            axes = ["y", "x"]
    if head.mode == _RGB:
        return [*axes, "c"], [*sizes, 3], ("red", "green", "blue")
    return axes, sizes, ()


def _stored(head: _Header) -> np.dtype:
    if head.mode == _RGB:
        return np.dtype("u1")
    stamp, flags = head.imod
    if head.mode == 0 and stamp == _IMOD and not flags & _IS_SIGNED:
        return np.dtype("u1")  # IMOD's bytes before MRC2014
    return np.dtype(head.order + _MODES[head.mode])


def _placement(head: _Header, name: str) -> Placement:
    """Return voxel size and origin in angstrom, as z, y, x."""
    size = [
        short(np.float32(short(a) / m)) if m > 0 and math.isfinite(a) else 0.0
        for a, m in zip(head.cella, head.m, strict=True)
    ]
    start = dict(zip(head.axes, map(float, head.nstart), strict=True))
    if not all(math.isfinite(s) and s > 0 for s in size):
        return Placement(origin=(start["z"], start["y"], start["x"]))
    if any(not math.isfinite(a) or abs(a - 90) > 0.01 for a in head.cellb) and any(head.cellb):
        angles = ", ".join(f"{a:g}" for a in head.cellb)
        warnings.warn(
            f"{name}: the axes of its cell are not orthogonal ({angles} degrees): lengths along each axis "
            "are right, others are computed as if it were orthogonal",
            stacklevel=2,
        )
    origin = [short(o) for o in head.origin]
    if not any(origin):
        origin = [
            float(Fraction(str(s)) * Fraction(start[a])) for a, s in zip("xyz", size, strict=True)
        ]
    if not all(map(math.isfinite, origin)):
        origin = [0.0, 0.0, 0.0]
    return Placement((size[2], size[1], size[0]), "angstrom", (origin[2], origin[1], origin[0]))
