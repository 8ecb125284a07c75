"""NIfTI-1 and NIfTI-2, as one file (also gzip) or as a pair, and Analyze 7.5.

Voxels with a scaling in the header are read as floats: ``scl_slope * voxel + scl_inter``, as
float32 if that represents all stored numbers, else as float64. Others are read as stored. x varies
fastest, so dimensions in reverse are t, z, y, x; the fifth dimension is read as channels, and is
slowest.

The header is parsed here: nibabel would be another dependency to save 60 lines, and does
not compare sizes with file sizes.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.format import (
    Layout,
    OpenRequest,
    Options,
    OutputRequest,
    WritableFormat,
    request_of,
)
from beam_volumes.storage.formats.headered.header import (
    MASK,
    Headered,
    Voxels,
    beginning_of,
    placement_of,
    renamed_axes,
    short,
    voxel_size_of,
    voxels_of,
)
from beam_volumes.storage.places.errors import VolumeError, bad_header
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.single_file import pieces, put_together
from beam_volumes.storage.sources.axes import AFFINE, Placement, check_affine
from beam_volumes.storage.sources.chunking import CHUNK_BYTES, no_larger
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import DTYPES, Source

SINGLE, PAIRED = (".nii", ".nii.gz"), (".hdr", ".img", ".hdr.gz", ".img.gz")

#: Lengths of headers, and the earliest position of voxels in a single file.
_SIZES = {1: 348, 2: 540}
_EARLIEST = {1: 352, 2: 544}

_DTYPES = {
    2: "u1",
    4: "i2",
    8: "i4",
    16: "f4",
    64: "f8",
    256: "i1",
    512: "u2",
    768: "u4",
    1024: "i8",
    1280: "u8",
}
_SAMPLES = {128: ("red", "green", "blue"), 2304: ("red", "green", "blue", "alpha")}
_REFUSED = {
    1: "single bits",
    32: "complex numbers",
    1536: "floats of 128 bits",
    1792: "complex numbers",
    2048: "complex numbers",
}
_UNITS = {1: "meter", 2: "millimeter", 3: "micrometer"}


@dataclass(frozen=True)
class _Header:
    """The values of a header of either version; Analyze is version 1 without a magic."""

    version: int
    order: str
    magic: bytes
    dim: tuple[int, ...]
    datatype: int
    pixdim: tuple[float, ...]
    vox_offset: float
    slope: float
    inter: float
    units: int
    qform: int
    sform: int
    quatern: tuple[float, ...]
    qoffset: tuple[float, ...]
    srow: tuple[float, ...]
    is_mask: bool

    @classmethod
    def of(cls, data: bytes, version: int, order: str) -> _Header:
        def get(kind: str, at: int, count: int = 1) -> Any:
            if kind == "f4":  # the intended decimal values
                return tuple(short(v) for v in np.frombuffer(data, f"{order}f4", count, at))
            return tuple(np.frombuffer(data, order + kind, count, at).tolist())

        if version == 1:
            # Scaling factors are used exactly as stored.
            offset, slope, inter = np.frombuffer(data, f"{order}f4", 3, 108).tolist()
            magic = data[344:348]
            return cls(
                version=1,
                order=order,
                magic=magic,
                dim=get("i2", 40, 8),
                datatype=get("i2", 70)[0],
                pixdim=get("f4", 76, 8),
                vox_offset=offset,
                slope=slope,
                inter=inter if _is_nifti(magic) else 0.0,
                units=data[123],
                qform=get("i2", 252)[0],
                sform=get("i2", 254)[0],
                quatern=get("f4", 256, 3),
                qoffset=get("f4", 268, 3),
                srow=get("f4", 280, 12),
                is_mask=data[148:228].startswith(MASK.encode()),
            )
        return cls(
            version=2,
            order=order,
            magic=data[4:12],
            dim=get("i8", 16, 8),
            datatype=get("i2", 12)[0],
            pixdim=get("f8", 104, 8),
            vox_offset=get("i8", 168)[0],
            slope=get("f8", 176)[0],
            inter=get("f8", 184)[0],
            units=get("i4", 500)[0],
            qform=get("i4", 344)[0],
            sform=get("i4", 348)[0],
            quatern=get("f8", 352, 3),
            qoffset=get("f8", 376, 3),
            srow=get("f8", 400, 12),
            is_mask=data[240:320].startswith(MASK.encode()),
        )

    @property
    def is_nifti(self) -> bool:
        return _is_nifti(self.magic)

    @property
    def is_pair(self) -> bool:
        """Whether voxels are in a separate file."""
        return self.magic[1:2] == b"i" or not self.is_nifti

    @property
    def title(self) -> str:
        return f"NIfTI-{self.version}" if self.is_nifti else "Analyze"


def _is_nifti(magic: bytes) -> bool:
    return magic[:3] in (b"n+1", b"ni1", b"n+2", b"ni2")


def _header(data: bytes) -> _Header | None:
    for version, size in _SIZES.items():
        for order in "<>":
            if len(data) >= size and data[:4] == struct.pack(f"{order}i", size):
                found = _Header.of(data, version, order)
                return found if version == 1 or found.is_nifti else None
    return None


class _Nifti(Headered):
    """A NIfTI file; written little-endian, in version 2 if version 1 cannot store the shape."""

    title = "NIfTI"
    name = "nii"
    suffixes = (".nii",)
    endings = SINGLE + PAIRED
    dtypes = tuple(d for d in DTYPES if d != np.float16 and d.kind != "b")
    open_options: ClassVar[Options] = {"affine": AFFINE}

    def parsed(self, path: str, place: Place, request: OpenRequest) -> Voxels | None:
        name, lower = printable(place.text), path.lower()
        is_paired = lower.endswith(PAIRED)
        header, file = _pair(path) if is_paired else (path, path)
        if header is None:
            return None
        data, _ = beginning_of(header, _SIZES[2])
        head = _header(data)
        if head is None or not (head.is_nifti or is_paired):
            if not lower.endswith(SINGLE):
                return None
            raise VolumeError(
                f"{name} has no NIfTI header ({len(data):,} bytes, starting with {data[:4]!r}); restore it"
            )
        request.refuse_parts(name, head.title)
        if head.is_pair and header == file:
            raise VolumeError(f"{name} is declared as half of a pair; name its files .hdr and .img")
        if not head.is_pair and header != file:
            header = file = path
        stored, samples = _stored(head, name)
        axes, sizes = _axes(head, name)
        if samples and "c" in axes:
            raise ValueError(
                f"{name} has colours and a fifth dimension, but only one channel axis is "
                "supported; split it"
            )
        letters, placement = _placement(head, name, sizes, request.option("affine"))
        axes = renamed_axes(axes, letters)
        if samples:
            axes, sizes = ["c", *axes], [len(samples), *sizes]
        return Voxels(
            axes=axes[::-1],
            sizes=sizes[::-1],
            stored=stored,
            at=_first(head, name),
            channels=samples,
            file=None if file == header else {**place.spec, "path": file},
            stream=("gzip", 0) if beginning_of(file, 1)[1] else None,
            scale=_scale(head, name, stored),
            placement=placement,
            mask=head.is_mask,
            header=Place({**place.spec, "path": header}),
        )

    def header(self, d: Description) -> bytes:
        return _written(d)

    def write_unit(self, d: Description, cell: Triple, voxels: np.ndarray) -> None:
        if len(d.leading) == 2:  # channels are slower than time points
            voxels = voxels.reshape((*d.leading_unit, *voxels.shape[-3:])).swapaxes(0, 1)
            d = replace(
                d,
                leading=d.leading[::-1],
                leading_unit=d.leading_unit[::-1],
                at=None if d.at is None else d.at[::-1],
            )
        super().write_unit(d, cell, voxels)

    def read_back(self, d: Description) -> Source:
        return _read_back(d, None)


class _Zipped(WritableFormat):
    """A gzip file of NIfTI: units are encoded as members by workers, and concatenated."""

    title = ""
    name = "nii.gz"
    suffixes = (".nii.gz",)
    dtypes = _Nifti.dtypes
    options: ClassVar[Options] = {}
    is_file = True
    assembles = True
    channels = "apart"

    def layout(self, wanted: OutputRequest) -> Layout:
        _, y, x = (max(1, n) for n in wanted.shape)
        row = x * wanted.dtype.itemsize
        chunk = (max(1, 2 * CHUNK_BYTES // (y * row)), y, x)
        if y * row > 4 * CHUNK_BYTES:
            chunk = (1, max(1, 2 * CHUNK_BYTES // row), x)
        return Layout(no_larger(chunk, wanted.shape))

    def key(self, d: Description, cell: Triple) -> str:
        return ".".join(map(str, (*(d.at or ()), *cell[:2]))) + ".gz"

    def cell(self, d: Description, key: str) -> Triple | None:
        parts, at = key.removesuffix(".gz").split("."), [str(k) for k in d.at or ()]
        if not key.endswith(".gz") or not all(p.isdigit() for p in parts):
            return None
        return (int(parts[-2]), int(parts[-1]), 0) if parts[:-2] == at else None

    def copies(self, d: Description) -> int:
        """Return 4: a contiguous copy, and up to three of the encoded one while zlib joins its parts."""
        return 4

    def encode(self, d: Description, voxels: np.ndarray) -> bytes:
        little = np.ascontiguousarray(voxels, d.dtype.newbyteorder("<"))
        return gzip.compress(little.reshape(-1).view(np.uint8).data, 4, mtime=0)

    def decode(self, d: Description, data: bytes, shape: Triple) -> np.ndarray:
        return np.frombuffer(gzip.decompress(data), d.dtype.newbyteorder("<")).reshape(shape)

    def assemble(self, d: Description, is_ours: Callable[[], bool]) -> Mapping[str, Any]:
        home, path = self.home(d)["path"], d.kvstore["path"]

        def content() -> Iterator[bytes]:
            yield gzip.compress(_written(d), mtime=0)
            # The last axis of `np.ndindex` is fastest: time points, not channels.
            for at in np.ndindex(*d.leading[::-1]):
                part = replace(d, at=at[::-1] or None)
                for z in range(d.grid.counts[0]):
                    for y in range(d.grid.counts[1]):
                        yield from pieces(os.path.join(home, self.key(part, (z, y, 0))))

        put_together(path, home, content(), is_ours)
        return {"bytes": os.path.getsize(path)}

    def read_back(self, d: Description) -> Source:
        return _read_back(d, ("gzip", 0))


FORMATS = (_Nifti(), _Zipped())


# reading


def _pair(path: str) -> tuple[str | None, str]:
    """Return the header of a pair, or None, and its voxels, given one of the files."""
    stem = path[:-3] if path.lower().endswith(".gz") else path
    found = []
    for ending in (".hdr", ".img"):
        ending = ending.upper() if stem[-3:].isupper() else ending
        of = stem[:-4] + ending
        found.append(next((p for p in (of, of + ".gz") if os.path.isfile(p)), None))
    header, voxels = found
    if header is not None and voxels is None:
        data, _ = beginning_of(header, _SIZES[2])
        head = _header(data)
        if head is None:
            return None, path
        if head.is_pair:
            raise VolumeError(
                f"{printable(header)}: its voxels are missing; restore {stem[:-4]}.img"
            )
        return header, header
    return header, voxels or path


def _stored(head: _Header, name: str) -> tuple[np.dtype, tuple[str, ...]]:
    if head.datatype in _REFUSED:
        raise ValueError(
            f"{name} holds {_REFUSED[head.datatype]} (datatype {head.datatype}); voxels are integers "
            "and floats of up to 64 bits: convert it"
        )
    if head.datatype in _SAMPLES:
        return np.dtype("u1"), _SAMPLES[head.datatype]
    if head.datatype not in _DTYPES:
        raise bad_header(name, f"its datatype {head.datatype} does not exist")
    return np.dtype(head.order + _DTYPES[head.datatype]), ()


def _axes(head: _Header, name: str) -> tuple[list[str], list[int]]:
    """Return the names and extents of dimensions, x first."""
    count = head.dim[0]
    sizes = list(head.dim[1 : count + 1])
    if not 1 <= count <= 7 or any(n < 1 for n in sizes):
        raise bad_header(name, f"its dimensions are {list(head.dim)}")
    if any(n > 1 for n in sizes[5:]):
        raise ValueError(
            f"{name} has dimensions {' x '.join(map(str, sizes))}, but only up to five are supported; "
            "split it"
        )
    sizes = sizes[:5]
    while len(sizes) > 3 and sizes[-1] == 1:
        sizes.pop()
    if len(sizes) == 1:
        sizes.append(1)
    return list("xyztc"[: len(sizes)]), sizes


def _first(head: _Header, name: str) -> int:
    at = head.vox_offset
    earliest = 0 if head.is_pair else _EARLIEST[head.version]
    if at == 0:
        return earliest
    if not math.isfinite(at) or at < earliest or at != int(at):
        raise bad_header(
            name,
            f"its voxels begin at byte {at:g} (vox_offset), before byte {earliest}, the first possible "
            f"one of {head.title}",
        )
    return int(at)


def _scale(head: _Header, name: str, stored: np.dtype) -> tuple[float, float] | None:
    if head.datatype in _SAMPLES or not math.isfinite(head.slope) or head.slope == 0:
        return None
    if not math.isfinite(head.inter):
        raise bad_header(name, f"its scl_inter is {head.inter}")
    return None if (head.slope, head.inter) == (1, 0) else (head.slope, head.inter)


def _placement(
    head: _Header, name: str, sizes: Sequence[int], affine: str | None
) -> tuple[str, Placement]:
    """Return the placement by sform, else by qform, else by voxel sizes only."""
    check_affine(affine, name)
    n = min(3, len(sizes))
    unit = _UNITS.get(head.units & 7) if head.is_nifti else None
    step = head.pixdim[1 : n + 1]
    if affine != "drop":
        if head.is_nifti and head.sform > 0:
            rows = np.array(head.srow).reshape(3, 4)
            matrix, origin = rows[:, :n], rows[:, 3]
            return placement_of(
                name, "xyz"[:n], sizes[:n], matrix, origin, affine=affine, unit=unit
            )
        if head.is_nifti and head.qform > 0:
            matrix = _turned(head)[:, :n]
            return placement_of(
                name, "xyz"[:n], sizes[:n], matrix, head.qoffset, affine=affine, unit=unit
            )
    size = voxel_size_of("xyz"[:n], [abs(s) for s in step])
    if not head.is_nifti or head.units & 7:
        return "xyz"[:n], Placement(size, unit)
    # Sizes of one without a unit count as unknown.
    return "xyz"[:n], Placement(None if size == (1.0, 1.0, 1.0) else size, None)


def _turned(head: _Header) -> np.ndarray:
    """Return the matrix of the quaternion; its real part makes it a unit quaternion."""
    b, c, d = head.quatern
    rest = 1.0 - (b * b + c * c + d * d)
    if not math.isfinite(rest) or rest < -1e-5:
        return np.full((3, 3), np.nan)
    a = math.sqrt(max(rest, 0.0))
    rotation = np.array(
        [
            [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
            [2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)],
            [2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c],
        ]
    )
    steps = np.array(head.pixdim[1:4], np.float64)
    if head.pixdim[0] < 0:
        steps[2] = -steps[2]
    return rotation * steps


def _read_back(d: Description, stream: tuple[str, int] | None) -> Source:
    """Return an output, which may not exist yet, as a source."""
    voxels = Voxels(
        axes=[*d.space.leading[::-1], *d.space.axes],
        sizes=[*d.leading[::-1], *d.stored(d.shape)],
        stored=d.dtype.newbyteorder("<"),
        at=len(_written(d)),
        channels=d.space.channels,
        stream=stream,
        placement=Placement(d.space.voxel_size, d.space.unit, d.space.origin),
    )
    return voxels_of(Place(dict(d.kvstore)), voxels, request_of(d), is_there=False)


# writing

#: Codes of the units that are written, and conversions of other units.
_WRITTEN = {"meter": 1, "millimeter": 2, "micrometer": 3}
_AS = {
    **dict.fromkeys(("picometer", "angstrom", "nanometer", "mil"), "micrometer"),
    **dict.fromkeys(("centimeter", "inch", "decimeter", "foot"), "millimeter"),
    "kilometer": "meter",
}


def _written(d: Description) -> bytes:
    """Return the header of an output with the padding before voxels."""
    stored = None if d.space.unit is None else _AS.get(d.space.unit, d.space.unit)
    space = d.space.in_unit(stored)
    is_known = space.voxel_size is not None or any(space.origin) or stored is not None
    size = (space.voxel_size or (1.0, 1.0, 1.0))[::-1]
    origin = space.origin[::-1]
    sizes = d.stored(d.shape)[::-1]
    if d.leading:
        many = dict(zip(d.space.leading, d.leading, strict=True))
        sizes = [*d.shape[::-1], many.get("t", 1), *([many["c"]] if "c" in many else [])]
    version = 1 if max(sizes) < 1 << 15 else 2
    dim = [len(sizes), *sizes, *[1] * (7 - len(sizes))]
    pixdim = [1.0, *size, 0.0, 0.0, 0.0, 0.0]
    code = 2 if is_known else 0  # aligned with something
    units = 0 if stored is None else _WRITTEN[stored]
    datatype = {np.dtype(t): number for number, t in _DTYPES.items()}[d.dtype]
    bits = 8 * d.dtype.itemsize
    srow = [
        v for k in range(3) for v in (*[size[k] if j == k else 0.0 for j in range(3)], origin[k])
    ]
    data = bytearray(_EARLIEST[version])

    def put(at: int, kind: str, *values: Any) -> None:
        struct.pack_into(f"<{len(values)}{kind}", data, at, *values)

    put(0, "i", _SIZES[version])
    if d.mask:
        at = 148 if version == 1 else 240
        data[at : at + len(MASK)] = MASK.encode()
    if version == 1:
        data[38] = ord("r")
        put(40, "h", *dim)
        put(70, "h", datatype, bits)
        put(76, "f", *pixdim)
        put(108, "f", _EARLIEST[1], 1.0, 0.0)
        data[123] = units
        put(252, "h", code, code)
        put(268, "f", *origin)
        put(280, "f", *srow)
        data[344:348] = b"n+1\0"
    else:
        data[4:12] = b"n+2\0\r\n\x1a\n"
        put(12, "h", datatype, bits)
        put(16, "q", *dim)
        put(104, "d", *pixdim)
        put(168, "q", _EARLIEST[2])
        put(176, "d", 1.0, 0.0)
        put(344, "i", code, code)
        put(376, "d", *origin)
        put(400, "d", *srow)
        put(500, "i", units)
    return bytes(data)
