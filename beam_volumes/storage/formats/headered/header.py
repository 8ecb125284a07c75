"""Shared code of formats with a header and contiguous voxels.

Headers are small and untrusted, so they are parsed here: declared sizes are compared with file
sizes before memory is allocated. Voxels may be one gzip or zlib stream, and may be in another file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.space import AXES
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.contiguous import ContiguousReader, InPlace, copy_voxels
from beam_volumes.storage.formats.format import WHOLE, OpenRequest
from beam_volumes.storage.places.errors import VolumeError, bad_header
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.inflate import MAXIMUM, beginning, inflated
from beam_volumes.storage.places.outside import named_file
from beam_volumes.storage.places.place import Place, Spec
from beam_volumes.storage.places.positioned import first_bytes, read_at
from beam_volumes.storage.sources.axes import (
    IndexRequest,
    Placement,
    UnclearPlace,
    check_affine,
    select,
    turned,
)
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import Source, check_dtype

#: Bytes of planes that are decoded from a stream at a time.
_PIECE = 4 << 20

#: The mark of bool voxels in headers: these formats have no such dtype.
MASK = "beam_volumes mask"


# voxels


@dataclass(frozen=True)
class Voxels:
    """The voxels of a file, as its header describes them."""

    #: Names and extents of dimensions, the slowest first
    axes: Sequence[str]
    sizes: Sequence[int]
    stored: np.dtype  #: The dtype in the file
    at: int  #: The position of the first voxel
    channels: Sequence[str] = ()
    file: Spec | None = None  #: The file of the voxels, if not the header's
    #: As in `VoxelReader`
    stream: tuple[str, int] | None = None
    scale: tuple[float, float] | None = None
    placement: Placement = field(default_factory=Placement)
    mask: bool = False  #: Whether bytes are bool
    header: Place | None = None  #: The place of the header, if not the requested one


@dataclass(frozen=True, eq=False)
class VoxelReader(ContiguousReader):
    """Contiguous voxels in a local file, or in a stream in it."""

    #: The kind of stream, ``"gzip"`` or ``"zlib"``, and its position in the file. ``at`` is then a
    #: position in the decoded stream, or -1 if the stream ends with the voxels.
    stream: tuple[str, int] | None = None
    #: Slope and intercept of voxels
    scale: tuple[float, float] | None = None
    header: Spec | None = None  #: The header's file, if not the file of voxels
    flipped: tuple[bool, bool, bool] = (False, False, False)  #: The reversed axes of z, y, x

    @property
    def remark(self) -> str:
        """Why it is slow to read."""
        if self.stream is None:
            return ""
        return (
            f"one {self.stream[0]} stream: each process decodes it from its beginning up to the voxels it "
            "needs; convert files that are read often by beam-volumes convert"
        )

    @property
    def extents(self) -> tuple[Extent, ...]:
        files = [self.file] if self.header is None else [self.file, self.header]
        return tuple(Extent(f) for f in files)

    @property
    def piece(self) -> tuple[int, ...]:
        if self.stream is None:
            return super().piece
        # A row of a plane can only be decoded with the plane.
        z = dict(self.chosen.dims).get("z")
        first = max(0, len(self.shape) - 2) if z is None else z + 1
        plane = math.prod(self.shape[first:]) * np.dtype(self.stored).itemsize
        piece = [1] * first + list(self.shape[first:])
        if z is not None:
            piece[z] = max(1, min(self.shape[z], _PIECE // max(1, plane)))
        return tuple(piece)

    @property
    def decode_bytes(self) -> int:
        """The bytes that are decoded or scaled at once, if more than a chunk."""
        if self.stream is None and self.scale is None:
            return super().decode_bytes
        each = max(self.dtype.itemsize, np.dtype(self.stored).itemsize)
        return math.prod(self.piece) * (8 if self.scale is not None else each)

    def open(self) -> ts.TensorStore:
        store = super().open()
        for axis, back in enumerate(self.flipped):
            if back:
                store = store[ts.d[store.rank - 3 + axis].stride[-1]]
        return store[ts.d[:].translate_to[(0,) * store.rank]]

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        stored = np.dtype(self.stored)
        first = int(np.ravel_multi_index(domain.inclusive_min, self.shape))
        at, size = first * stored.itemsize, out.size * stored.itemsize
        path = self.file["path"]
        if self.stream is None:
            data = read_at(path, self.at + at, size)
        else:
            kind, start = self.stream
            nbytes = math.prod(self.shape) * stored.itemsize
            stream = inflated(path, kind, start, max(0, self.at) + nbytes)
            before = self.at if self.at >= 0 else stream.length() - nbytes
            if before < 0:
                raise VolumeError(
                    f"{printable(path)} is cut off: its stream has {before + nbytes:,} bytes, but its "
                    f"voxels need {nbytes:,}; restore it"
                )
            data = stream.read(before + at, size)
        voxels = np.frombuffer(data, stored).reshape(out.shape)
        if self.scale is None:
            copy_voxels(voxels, out)
        else:
            slope, inter = self.scale
            exact = voxels.astype(np.float64)
            exact *= slope
            exact += inter
            out[...] = exact


def scaled_dtype(stored: np.dtype) -> np.dtype:
    """Return the dtype of scaled voxels: float32 if it represents all stored numbers, else float64.

    >>> scaled_dtype(np.dtype(">i2")), scaled_dtype(np.dtype("i4"))
    (dtype('float32'), dtype('float64'))
    """
    narrow = stored.itemsize <= 2 or (stored.kind == "f" and stored.itemsize == 4)
    return np.dtype(np.float32 if narrow else np.float64)


def voxels_of(place: Place, voxels: Voxels, request: IndexRequest, is_there: bool = True) -> Source:
    """Return the source of voxels; the file's length is checked if it exists (``is_there``)."""
    v, name = voxels, place.text
    stored, grid = v.stored, v.placement
    if is_there:
        check_length(name, place.spec if v.file is None else v.file, v)
    native = check_dtype(printable(name), stored)
    chosen = select(v.axes, v.sizes, request, printable(name), v.channels)
    reader = VoxelReader(
        file=dict(place.spec if v.file is None else v.file),
        shape=tuple(int(n) for n in v.sizes),
        stored=stored.str,
        dtype=native if v.scale is None else scaled_dtype(stored),
        at=v.at,
        chosen=chosen,
        stream=v.stream,
        scale=v.scale,
        header=None if v.file is None else dict(place.spec),
        flipped=grid.flipped,
    )
    space = chosen.space(grid.voxel_size, grid.unit, grid.origin)
    source = chosen.source(
        name, reader, reader.dtype, reader.shape, reader.piece, space, encoded=v.stream is not None
    )
    first = [
        -(-n % c) if back else 0
        for n, c, back in zip(source.shape, source.chunk, grid.flipped, strict=True)
    ]
    source = replace(source, chunk_origin=(first[0], first[1], first[2]))
    return source.as_mask() if v.mask and v.scale is None else source


def check_length(name: str, file: Spec, voxels: Voxels) -> None:
    """Refuse a file that is too short for the voxels of its header."""
    path, sizes, stored, at = str(file["path"]), voxels.sizes, voxels.stored, voxels.at
    name = printable(name)
    if not os.path.isfile(path):
        raise VolumeError(
            f"{name} refers to the file {printable(path)}, which does not exist; restore it"
        )
    shown = " x ".join(str(n) for n in sizes)
    if any(n < 1 for n in sizes):
        raise bad_header(name, f"its sizes are {shown}")
    size = os.path.getsize(path)
    nbytes = math.prod(int(n) for n in sizes) * stored.itemsize
    claim = (
        f"{name} is cut off, or its header is damaged: {shown} voxels of {stored.name} take "
        f"{nbytes:,} bytes"
    )
    if voxels.stream is not None:
        if max(0, at) + nbytes > MAXIMUM * max(0, size - voxels.stream[1]):
            raise VolumeError(
                f"{claim}, more than the {size:,} bytes of {printable(path)} can encode; restore it"
            )
    elif at < 0 or at + nbytes > size:
        raise VolumeError(
            f"{claim} from byte {at:,} on, but {printable(path)} has {size:,}; restore it"
        )


# position in space


def placement_of(
    name: str,
    names: str,
    sizes: Sequence[int],
    matrix: np.ndarray,
    origin: Sequence[float] | np.ndarray,
    *,
    affine: str | None,
    unit: str | None = None,
) -> tuple[str, Placement]:
    """Return the names of axes, changed by ``affine="reorient"``, and their placement by an affine matrix.

    Columns of ``matrix`` are the steps between voxels along axes ``names``, as x, y, z; see `AFFINE`.

    >>> turned = np.array([[0, -2.0, 0], [3, 0, 0], [0, 0, 4]])
    >>> placement_of("a.nii", "xyz", (5, 6, 7), turned, (10, 0, 0), affine="reorient", unit="millimeter")[0]
    'yxz'
    """
    # An axis that is not rotated has the direction of its name. ``origin`` is the centre of the first voxel.
    name = printable(name)
    check_affine(affine, name)
    n = len(names)
    steps = np.linalg.norm(np.where(np.isfinite(matrix), matrix, 0.0), axis=0)
    whole = bool(np.isfinite(matrix).all() and np.isfinite(origin).all() and (steps > 0).all())
    if affine == "drop":
        return names, Placement(voxel_size_of(names, steps), unit if (steps > 0).all() else None)
    if not whole:
        raise UnclearPlace(
            f"{name} does not define the position of its voxels: its affine has columns of zeros, NaN or "
            "infinity; give affine='drop' to take voxels as they are stored"
        )
    along = [int(np.argmax(np.abs(matrix[:, k]) / steps[k])) for k in range(n)]
    # Deviations from the main direction must not move a voxel by more than a hundredth of one.
    off = [
        np.abs(np.delete(matrix[:, k], along[k])).max(initial=0.0) * sizes[k] > 0.01 * steps.min()
        for k in range(n)
    ]
    letters = "".join("xyz"[a] for a in along)
    straight = not any(off) and len(set(along)) == n
    back = [bool(matrix[a, k] < 0) for k, a in enumerate(along)]
    if not straight or (affine is None and (letters != names or any(back))):
        what = "rotates" if not straight or letters != names else "reverses"
        raise turned(name, f"its affine {what} axes in space", can_reorient=straight)
    if not {"x", "y"} <= set(letters):
        raise ValueError(
            f"{name}: its affine orients a plane along {letters}; give affine='drop' to take it as x and y"
        )
    exact = [float(abs(matrix[a, k])) for k, a in enumerate(along)]
    at = [float(o) for o in origin] + [0.0] * (3 - len(origin))
    for k, a in enumerate(along):
        if back[k]:
            at[a] += float(matrix[a, k]) * (sizes[k] - 1)
    flipped = {letter: b for letter, b in zip(letters, back, strict=True)}
    return letters, Placement(
        voxel_size_of(letters, exact),
        unit,
        (at[2], at[1], at[0]),
        (flipped.get("z", False), flipped.get("y", False), flipped.get("x", False)),
    )


def voxel_size_of(names: str, sizes: Sequence[float]) -> tuple[float, float, float] | None:
    """Return voxel sizes along named axes as z, y, x; None if one is not positive."""
    if not all(math.isfinite(s) and s > 0 for s in sizes):
        return None
    found = dict(zip(names, map(float, sizes), strict=True))
    z, y, x = (found.get(a, 1.0) for a in AXES)
    return (z, y, x)


def short(value: Any) -> float:
    """Return the shortest decimal number with the same float32 value, usually the intended one.

    >>> float(np.float32(0.008)), short(np.float32(0.008))
    (0.00800000037997961, 0.008)
    """
    return float(str(np.float32(value)))


# files


class Headered(InPlace):
    """A file with a header that describes the voxels."""

    endings: tuple[str, ...] = ()  #: Suffixes of files that are read

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        path = local_file(place, self.endings, f"{self.title} files")
        voxels = None if path is None else self.parsed(path, place, request)
        if voxels is None:
            return None
        return voxels_of(voxels.header or place, voxels, request)

    def parsed(self, path: str, place: Place, request: OpenRequest) -> Voxels | None:
        """Parse the header of a local file; None if the file is of another format."""
        raise NotImplementedError

    def is_named(self, path: str) -> bool:
        return path.lower().endswith(self.endings)


def renamed_axes(axes: Sequence[str], letters: str) -> list[str]:
    """Rename the axes x, y and z by letters in this order."""
    return [letters["xyz".index(a)] if a in "xyz"[: len(letters)] else a for a in axes]


def start_of(path: str, start: int, skip: int, nbytes: int) -> int:
    """Return the position of voxels: ``skip`` bytes after ``start``, or at the file's end if -1."""
    return os.path.getsize(path) - nbytes if skip == -1 else start + skip


def local_file(place: Place, suffixes: Sequence[str], what: str) -> str | None:
    """Return the path of a local file; None if it does not exist. Refuse such files in a bucket."""
    if place.local is None:
        if place.text.lower().endswith(tuple(suffixes)):
            raise ValueError(
                f"{place.text}: {what} are only read from a disk; copy it, or convert it to .zarr there"
            )
        return None
    return place.local if os.path.isfile(place.local) else None


def beginning_of(path: str, size: int) -> tuple[bytes, bool]:
    """Return the first bytes of a file, and whether it is gzip; these are decoded."""
    data = first_bytes(path, max(2, size))
    if data.startswith(b"\x1f\x8b"):
        return beginning(path, size), True
    return data, False


def data_file(place: Place, named: str, several: str) -> Spec:
    """Return the file that a header names, relative to its folder.

    A list of files, or a pattern of names that matches ``several``, is refused.
    """
    if re.match(r"LIST\b", named) or re.search(several, named + " "):
        raise ValueError(
            f"{printable(place.text)} has its voxels in several files ({printable(named)}), which is not "
            "supported; rewrite it as one file, or open the slices directly"
        )
    assert place.local is not None
    path = named_file(place.local, named)
    if not os.path.isfile(path):
        raise VolumeError(
            f"{printable(place.text)} refers to the file {printable(named)!r}, which does not exist; "
            "restore it, or correct the header"
        )
    return {**place.spec, "path": path}


def no_channels(d: Description) -> None:
    if "c" in d.space.leading:
        raise ValueError(
            f"{d.name}: {d.format} stores time points, but no channels; select one, such as "
            "v.sel(c=0), or write .zarr, .nrrd, .mha or .nii"
        )
